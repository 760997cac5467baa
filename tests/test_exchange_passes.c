/* Exchanges of tokens that run beside passes of other micro-batches: what hides them, and where nothing does. */
#include "main.h"
#include "planned.h"

#include "schedule/schedule.h"

static void setup(Planned *f)
{
  planned_init(f, fixture_experts(1, 512, 8, 16, 1024, 1000), fixture_cluster("dgx", 16), "nemo-2026-04");
  planned_spread(f, 1);
  f->plan.ep = 16;
  f->framework->operation_s = f->framework->issue_s = f->cluster->device.kernels.memory_launch_s = 0;
}

static PassPrice pass_of(const Planned *f, Pass pass)
{
  planned_accept(f);
  g_autoptr(PriceTable) prices = price_table_new(f->model, LAYOUT(&f->plan), f->cluster);
  return prices->layers[f->model->layers[1]].pass[pass];
}

/* Seconds of a layer's pass, in its order: computation and exchanges, and of computation weights' gradients. */
typedef struct {
  double compute[3], weights[3], exchange[2];
} Stretches;

static Stretches stretches_of(const GArray *ops, gboolean forward)
{
  Stretches s = { 0 };
  int at = 0;

  for (guint i = 0; i < ops->len; i++) {
    const PassOp *op = &g_array_index(ops, PassOp, i);
    gboolean there = g_str_equal(op->op.name, "dispatch tokens"), back = g_str_equal(op->op.name, "return tokens");
    if (op->op.kind == OP_COLLECTIVE) {
      s.exchange[back == forward] += op->seconds;
      at = there || back ? 1 + (back == forward) : at;
    } else {
      s.compute[at] += op->seconds;
      s.weights[at] += op->op.pass == PASS_WEIGHT ? op->seconds : 0;
    }
  }
  return s;
}

static double run(double *lane, double after, double seconds)
{
  return *lane = MAX(*lane, after) + seconds;
}

/* Of a layer among many: the nodes of TransformerLayerSchedulePlan.run() on two streams, one at a time. */
static double layer_seconds(const Stretches *f, const Stretches *b)
{
  enum { LAYERS = 40 };
  double compute = 0, exchange = 0, gradient = 0, output = 0, ends[LAYERS + 1] = { 0 };

  for (int i = 1; i <= LAYERS; i++) {
    double went = run(&exchange, gradient, b->exchange[0]);
    double attended = run(&compute, output, f->compute[2] + f->compute[0]);
    double experts = run(&compute, went, b->compute[1] - b->weights[1]);
    double arrived = run(&exchange, attended, f->exchange[0]);
    run(&compute, 0, b->weights[1]);
    double left = run(&exchange, experts, b->exchange[1]);
    output = run(&exchange, run(&compute, arrived, f->compute[1]), f->exchange[1]);
    gradient = run(&compute, left, b->compute[2] - b->weights[2] + b->compute[0]);
    ends[i] = run(&compute, 0, b->weights[2]);
  }
  return (ends[LAYERS] - ends[LAYERS / 2]) / (LAYERS / 2);
}

/* As the two streams of the schedule, whatever is longer: experts or attention, computation or exchanges. What one
 * exchange leaves idle hides no other, so the sum may be longer than either lane. */
START_TEST(exchanges_hide_behind_other_passes)
{
  static const int widths[] = { 64, 1024, 4096, 16384, 65536 };
  int exposed = 0, longer = 0;
  Planned f;

  setup(&f);
  f.cluster->tiers[0].link.compute_slowdown = 1;
  f.plan.overlap.exchange = TRUE;
  for (gsize i = 0; i < G_N_ELEMENTS(widths); i++) {
    f.model->specs[f.model->layers[1]].ffn.width = widths[i];
    planned_accept(&f);
    g_autoptr(PriceTable) prices = price_table_described(f.model, LAYOUT(&f.plan), f.cluster);
    const LayerPrice *p = &prices->layers[f.model->layers[1]];
    const PassPrice *forward = &p->pass[PASS_FORWARD], *backward = &p->pass[PASS_BACKWARD];
    Stretches there = stretches_of(p->ops->pass[PASS_FORWARD], TRUE);
    Stretches back = stretches_of(p->ops->pass[PASS_BACKWARD], FALSE);
    double both = forward->seconds + backward->seconds, expected = layer_seconds(&there, &back);
    ck_assert_double_eq_tol(both, expected, 1e-9 * expected);
    ck_assert_double_eq_tol(both, forward->compute_s + forward->expert_s + backward->compute_s + backward->expert_s,
                            1e-12);
    ck_assert_double_eq_tol(forward->seconds + forward->alone_s, forward->compute_s + forward->tensor_s, 1e-12);
    ck_assert_double_eq_tol(backward->seconds + backward->alone_s, backward->compute_s + backward->tensor_s, 1e-12);
    double lanes = MAX(forward->compute_s + backward->compute_s, forward->tensor_s + backward->tensor_s);
    ck_assert_double_ge(both, lanes * (1 - 1e-12));
    exposed += forward->expert_s > 0;
    longer += both > 1.001 * lanes;
  }
  ck_assert_int_gt(exposed, 0);
  ck_assert_int_lt(exposed, (int)G_N_ELEMENTS(widths));
  ck_assert_int_gt(longer, 0);
  planned_clear(&f);
}
END_TEST

/* Without another pass it takes what it takes where exchanges run beside nothing. */
START_TEST(a_pass_alone_waits_for_its_exchanges)
{
  Planned f;

  setup(&f);
  f.cluster->tiers[0].link.compute_slowdown = 1.5;
  for (int bound = 0; bound < 2; bound++)
    for (int pass = PASS_FORWARD; pass <= PASS_BACKWARD; pass += PASS_BACKWARD - PASS_FORWARD) {
      f.model->specs[f.model->layers[1]].ffn.width = bound ? 64 : 65536;
      f.plan.overlap.exchange = FALSE;
      PassPrice apart = pass_of(&f, pass);
      f.plan.overlap.exchange = TRUE;
      PassPrice beside = pass_of(&f, pass);
      ck_assert_double_eq(apart.alone_s, 0);
      ck_assert_double_gt(beside.alone_s, 0);
      ck_assert_double_eq_tol(beside.seconds + beside.alone_s, apart.seconds, 1e-12);
    }
  planned_clear(&f);
}
END_TEST

/* What a backward exchanges again for what it makes anew is waited for: no other pass of those tokens is in flight. */
START_TEST(exchanges_made_again_are_waited_for)
{
  Planned f;

  setup(&f);
  f.model->specs[f.model->layers[1]].ffn.width = 65536;
  f.plan.overlap.exchange = f.framework->exchange_recompute = TRUE;
  PassPrice kept = pass_of(&f, PASS_BACKWARD);
  f.plan.recompute = RECOMPUTE_FULL;
  PassPrice again = pass_of(&f, PASS_BACKWARD), forward = pass_of(&f, PASS_FORWARD);
  ck_assert_double_eq(kept.expert_s, 0);
  ck_assert_double_eq(forward.expert_s, 0);
  ck_assert_double_gt(forward.tensor_s, 0);
  ck_assert_double_eq_tol(again.expert_s, forward.tensor_s, 1e-12);
  planned_clear(&f);
}
END_TEST

/* Passes of a rank that take longer than others of their kind and chunk. */
static int alone_of(const Planned *f, int row, gboolean forward, int *passes)
{
  const int *at = &f->program->lane_first[row * LANE_COUNT + LANE_COMPUTE];
  int alone = 0;

  for (int i = at[0]; i < at[1]; i++) {
    const Task *task = &g_array_index(f->program->tasks, Task, f->program->lane_tasks[i]);
    const Segment *s = &g_array_index(f->program->segments, Segment, task->segment);
    if (s->kind != TASK_PASS || (s->pass == PASS_FORWARD) != forward)
      continue;
    *passes += 1;
    alone += s->alone_s > 0 && s->expert_s >= s->alone_s;
  }
  return alone;
}

/* Megatron Core's first forward and last backward without a pipeline; with chunks 2 (p - r - 1) + (v - 1) p and one
 * more at either end (get_pp_rank_microbatches()), and none where exchanges run beside nothing. */
START_TEST(ramps_hide_nothing)
{
  Planned f;

  planned_init(&f, fixture_experts(8, 512, 8, 16, 1024, 1000), fixture_cluster("dgx", 16), "nemo-2026-04");
  f.framework->operation_s = f.framework->issue_s = 0;
  for (int pp = 1; pp <= 2; pp++)
    for (int beside = 0; beside <= 1; beside++) {
      planned_divide(&f, 1, pp, 16 / pp);
      f.plan.ep = 8;
      f.plan.global_batch = 16 / pp * 8;
      plan_set_schedule(&f.plan, schedule_find(pp > 1 ? "interleaved" : "1f1b"), pp > 1 ? 2 : 1);
      f.plan.overlap.exchange = beside;
      planned_build(&f);
      for (int row = 0; row < pp; row++)
        for (int forward = 0; forward <= 1; forward++) {
          int passes = 0, expected = pp == 1 ? 1 : 2 * (pp - row - 1) + pp + 1;
          ck_assert_int_eq(alone_of(&f, row, forward, &passes), beside ? expected : 0);
          ck_assert_int_eq(passes, 8 * pp);
        }
    }
  planned_clear(&f);
}
END_TEST

/* Four nodes a layer each way, which a graph of parts leaves to the host; a graph of the whole step has recorded them. */
START_TEST(nodes_take_the_host)
{
  static const struct { int graph; double forward, backward; } cases[] = {
    { GRAPH_NONE, 6, 10 }, { GRAPH_PARTIAL, 6, 10 }, { GRAPH_FULL, 0, 0 } };
  Planned f;

  setup(&f);
  f.framework->operation_s = 1;
  f.cluster->device.host_slowdown = 2;
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    f.plan.graph = cases[i].graph;
    f.plan.expert_capacity = cases[i].graph == GRAPH_FULL;
    f.plan.expert_padded = cases[i].graph == GRAPH_FULL;
    for (int back = 0; back < 2; back++) {
      double host_s[2];
      for (int beside = 0; beside < 2; beside++) {
        f.plan.overlap.exchange = beside;
        host_s[beside] = pass_of(&f, back ? PASS_BACKWARD : PASS_FORWARD).host_s;
      }
      ck_assert_double_eq_tol(host_s[1] - host_s[0], 2 * (back ? cases[i].backward : cases[i].forward), 1e-9);
    }
  }
  planned_clear(&f);
}
END_TEST

/* Rows that DeepEP brought are told apart by indexing where the framework has no kernel for it; the host waits for them
 * in both passes, which then last as long as what it issues behind and the exchange before. */
START_TEST(rows_received_are_indexed)
{
  Planned f;
  double alone_s[2], waited_s[2], idle_s[2];

  planned_init(&f, fixture_experts(1, 512, 8, 16, 1024, 1000), fixture_cluster("dgx-h100", 16), "nemo-2026-04");
  planned_spread(&f, 1);
  f.plan.ep = 16;
  f.framework->issue_s = 0;
  f.plan.dispatch = DISPATCH_FLEX;
  for (int indexes = 0; indexes < 2; indexes++) {
    f.framework->indexes_received = indexes;
    f.framework->operation_s = 0;
    ck_assert_double_eq(planned_op_operations(&f, 1, "index received rows", FALSE), indexes * 12);
    ck_assert_double_eq(planned_op_operations(&f, 1, "index received rows", TRUE), indexes * 6);
    alone_s[indexes] = pass_of(&f, PASS_BACKWARD).idle_s;
    f.framework->operation_s = 1e-5;
    idle_s[indexes] = pass_of(&f, PASS_FORWARD).seconds - pass_of(&f, PASS_FORWARD).host_s;
    waited_s[indexes] = pass_of(&f, PASS_BACKWARD).seconds - pass_of(&f, PASS_BACKWARD).host_s;
  }
  ck_assert_double_eq(alone_s[0] + alone_s[1], 0);
  ck_assert_double_gt(waited_s[1], waited_s[0]);
  ck_assert_double_gt(idle_s[1], idle_s[0]);
  f.plan.dispatch = DISPATCH_ALL_TO_ALL;
  ck_assert_double_eq(planned_op_operations(&f, 1, "index received rows", FALSE), 0);
  planned_clear(&f);
}
END_TEST

TEST_MAIN("exchange_passes", nodes_take_the_host, rows_received_are_indexed, exchanges_hide_behind_other_passes,
          exchanges_made_again_are_waited_for,
          a_pass_alone_waits_for_its_exchanges, ramps_hide_nothing)
