/* What computation is made of, and what communication hides behind it. */
#include "main.h"
#include "planned.h"
#include "traced.h"

#include "cost/slowest.h"
#include "sim/simulate.h"

static double sum_of(const double *seconds)
{
  double sum = 0;

  for (int i = 0; i < COMPUTE_COUNT; i++)
    sum += seconds[i];
  return sum;
}

/* In a block whose feed-forward is experts, which tokens reach by all-to-all. */
static gboolean is_of_experts(const PassOp *op)
{
  static const char *const names[] = { "experts up", "experts down", "activation", "swiglu", "sort tokens", "sort back",
                                       NULL };
  return g_strv_contains(names, op->op.name);
}

/* Seconds of a pass's ops as they are listed, by the part that they should be in; of experts `spare` of them. */
static PassParts listed(const GArray *ops, Pass pass, double slowest, double spare)
{
  PassParts p = { 0 };

  for (guint i = 0; i < ops->len; i++) {
    const PassOp *op = &g_array_index(ops, PassOp, i);
    double mean_s = op->seconds / slowest, uneven_s = is_of_experts(op) ? spare * mean_s : 0;
    gboolean again = pass != PASS_FORWARD && op->op.pass == PASS_FORWARD;
    if (op->op.kind == OP_COLLECTIVE) {
      p.context_s += op->op.collective.axis == AXIS_CONTEXT ? op->seconds : 0;
      p.expert_s += op->op.collective.axis == AXIS_EXPERT ? op->seconds : 0;
      continue;
    }
    p.seconds[COMPUTE_SLOWEST] += op->seconds - mean_s;
    p.seconds[COMPUTE_UNEVEN] += again ? 0 : uneven_s;
    p.seconds[again                        ? COMPUTE_AGAIN
              : op->op.kind == OP_MATMUL   ? COMPUTE_PRODUCTS
              : op->op.kind == OP_ATTENTION ? COMPUTE_ATTENTION
                                           : COMPUTE_MEMORY] += mean_s - (again ? 0 : uneven_s);
  }
  return p;
}

static void check_same(double found, double expected, double all)
{
  ck_assert_double_le(ABS(found - expected), 1e-12 * all);
}

/* All parts but what runs slower beside the rest are those of the ops on their own, and parts add up. */
static void check_pass(const Planned *f, int layer, Pass pass, double spare)
{
  const LayerPrice *price = price_of_layer(f->prices, f->model, 0, layer);
  const PassPrice *p = &price->pass[pass];
  const double *found = price->ops->parts[pass].seconds;
  double slowest = slowest_inside(&f->cluster->device, &LAYOUT(&f->plan)->passes, price->apart_s);
  PassParts expected = listed(price->ops->pass[pass], pass, slowest, spare);

  for (int i = 0; i < COMPUTE_SLOWED; i++)
    check_same(found[i], expected.seconds[i], p->compute_s);
  check_same(found[COMPUTE_SLOWEST], expected.seconds[COMPUTE_SLOWEST], p->compute_s);
  check_same(found[COMPUTE_HOST], p->idle_s, p->compute_s);
  check_same(sum_of(found), p->compute_s, p->compute_s);
  check_same(price->ops->parts[pass].context_s, expected.context_s, p->seconds);
  check_same(price->ops->parts[pass].expert_s, expected.expert_s, p->seconds);
  ck_assert_double_ge(found[COMPUTE_SLOWED], 0);
  for (int i = COMPUTE_PRODUCTS; i <= COMPUTE_ATTENTION; i++)
    ck_assert_double_le(price->ops->parts[pass].peak_s[i], found[i] * (1 + 1e-9));
}

static void check_passes(Planned *f, double spare)
{
  static const Pass passes[] = { PASS_FORWARD, PASS_BACKWARD, PASS_INPUT, PASS_WEIGHT };

  planned_accept(f);
  planned_build_with(f, price_table_described(f->model, LAYOUT(&f->plan), f->cluster));
  for (int layer = 0; layer < f->model->n_layers; layer++)
    for (gsize i = 0; i < G_N_ELEMENTS(passes); i++)
      check_pass(f, layer, passes[i], spare);
}

static const double *block_parts(const Planned *f, Pass pass)
{
  return price_of_layer(f->prices, f->model, 0, 1)->ops->parts[pass].seconds;
}

START_TEST(dense_passes)
{
  static const Recompute recomputes[] = { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL };
  Planned f;

  planned_init(&f, fixture_model(2, 2048, 16, 1024, 1024), fixture_cluster("dgx", 8), "megatron-core");
  f.cluster->device.rate_spread = 0.02;
  planned_divide(&f, 4, 1, 2);
  f.plan.global_batch = 2;
  f.plan.sequence_parallel = TRUE;
  for (int overlap = 0; overlap < 2; overlap++)
    for (gsize i = 0; i < G_N_ELEMENTS(recomputes); i++) {
      f.plan.overlap.tensor = overlap;
      f.plan.recompute = recomputes[i];
      check_passes(&f, 0);
      ck_assert_int_eq(block_parts(&f, PASS_BACKWARD)[COMPUTE_AGAIN] > 0, recomputes[i] != RECOMPUTE_NONE);
      ck_assert_double_eq(block_parts(&f, PASS_FORWARD)[COMPUTE_AGAIN], 0);
      ck_assert_int_eq(block_parts(&f, PASS_BACKWARD)[COMPUTE_SLOWED] > 0, overlap);
      ck_assert_double_gt(block_parts(&f, PASS_FORWARD)[COMPUTE_SLOWEST], 0);
    }
  planned_clear(&f);
}
END_TEST

/* A host that issues slowly is waited for, and what computes takes no longer for it. */
START_TEST(host_is_waited_for)
{
  Planned f;
  double products_s = 0;

  planned_init(&f, fixture_model(2, 512, 8, 128, 1024), fixture_cluster("dgx", 8), "megatron-core");
  planned_spread(&f, 1);
  f.framework->operation_s = 0;
  for (int slow = 0; slow < 2; slow++) {
    f.framework->issue_s = slow ? 1e-4 : 0;
    check_passes(&f, 0);
    const double *parts = block_parts(&f, PASS_FORWARD);
    ck_assert_int_eq(parts[COMPUTE_HOST] > 0, slow);
    ck_assert(!slow || parts[COMPUTE_PRODUCTS] == products_s);
    products_s = parts[COMPUTE_PRODUCTS];
  }
  planned_clear(&f);
}
END_TEST

/* Of experts whose rank sees half as many rows again, a third is beyond an even share; where each expert is padded to its
 * capacity, what the capacity adds. The exchange beside passes slows them, and all of it is counted. */
START_TEST(uneven_experts)
{
  Planned f;

  planned_init(&f, fixture_experts(1, 512, 8, 16, 1024, 1000), fixture_cluster("dgx", 16), "nemo-2026-04");
  planned_spread(&f, 1);
  f.plan.ep = 16;
  for (int exchange = 0; exchange < 2; exchange++) {
    f.plan.overlap.exchange = exchange;
    f.plan.recompute = exchange ? RECOMPUTE_NONE : RECOMPUTE_FULL;
    f.plan.expert_load = 1.5;
    check_passes(&f, 1.0 / 3);
    ck_assert_double_gt(block_parts(&f, PASS_FORWARD)[COMPUTE_UNEVEN], 0);
    ck_assert_int_eq(block_parts(&f, PASS_FORWARD)[COMPUTE_SLOWED] > 0, exchange);
    f.plan.expert_load = 1;
    check_passes(&f, 0);
  }
  f.plan.expert_capacity = 1.25;
  f.plan.expert_padded = TRUE;
  check_passes(&f, 0.2);
  planned_clear(&f);
}
END_TEST

/* A slot that makes a forward again, and one whose pass is described beside one that is not. */
START_TEST(segments_made_again)
{
  Planned f;
  PassParts forward, again;

  planned_init(&f, fixture_model(2, 512, 8, 128, 1024), fixture_cluster("dgx", 8), "megatron-core");
  planned_spread(&f, 1);
  planned_build_with(&f, price_table_described(f.model, LAYOUT(&f.plan), f.cluster));
  Segment s = { 0 };
  for (guint i = 0; i < f.program->segments->len; i++) {
    const Segment *other = &g_array_index(f.program->segments, Segment, i);
    s = other->kind == TASK_PASS && other->pass == PASS_FORWARD ? *other : s;
  }
  ck_assert(segment_parts(&s, &forward));
  check_same(sum_of(forward.seconds), s.compute_s, s.compute_s);
  s.pass = PASS_RECOMPUTE;
  ck_assert(segment_parts(&s, &again));
  check_same(sum_of(again.seconds), s.compute_s, s.compute_s);
  ck_assert_double_eq(again.seconds[COMPUTE_PRODUCTS] + again.peak_s[COMPUTE_PRODUCTS], 0);
  ck_assert_double_eq_tol(again.seconds[COMPUTE_AGAIN],
                          forward.seconds[COMPUTE_PRODUCTS] + forward.seconds[COMPUTE_ATTENTION] +
                              forward.seconds[COMPUTE_MEMORY], 1e-12);
  s.passes = NULL;
  ck_assert(!segment_parts(&s, &again));
  planned_clear(&f);
}
END_TEST

/* ---- a trace by hand ---- */

static void add_span(Trace *t, int row, Lane lane, TaskKind kind, double start, double end)
{
  const Span s = { .row = row, .lane = lane, .kind = kind, .start = start, .end = end, .cause = -1,
                   .exposed_tensor_s = kind == TASK_PASS ? 0.25 * (end - start) : 0 };
  g_array_append_val(t->spans, s);
}

static void clear_passes(gpointer segment)
{
  g_array_unref(((Segment *)segment)->passes);
}

/* A pass of 4 s, of which 3 compute, 0.75 wait for context-parallel ranks and 0.25 for tensor-parallel ones; inside, 2.5 s
 * of communication of the former and 1 s of the latter. */
static Trace *by_hand(void)
{
  Segment segment = { .seconds = 4, .compute_s = 3, .context_s = 0.75, .tensor_s = 3.5,
                      .passes = g_array_new(FALSE, FALSE, sizeof(LayerPass)) };
  const LayerPass pass = { .parts = { .seconds = { [COMPUTE_PRODUCTS] = 2, [COMPUTE_HOST] = 1 }, .context_s = 2.5 } };

  g_array_append_val(segment.passes, pass);
  Trace *t = traced(2, &segment);
  g_array_set_clear_func(t->segments, clear_passes);
  return t;
}

START_TEST(hidden_by_hand)
{
  g_autoptr(Trace) t = by_hand();
  StepParts p;

  add_span(t, 0, LANE_COMPUTE, TASK_PASS, 0, 4);
  add_span(t, 1, LANE_DATA, TASK_REDUCE, 0, 9);    /* another row's */
  add_span(t, 0, LANE_DATA, TASK_REDUCE, 3, 5);    /* 1 beside the first pass */
  add_span(t, 0, LANE_DATA, TASK_REDUCE, 5.5, 6.5); /* 0.5 beside the second */
  add_span(t, 0, LANE_COMPUTE, TASK_PASS, 6, 11);  /* a second longer than alone */
  add_span(t, 0, LANE_PIPELINE, TASK_SEND, 7, 7.25);
  add_span(t, 0, LANE_FETCH, TASK_FETCH, 10, 12);
  add_span(t, 0, LANE_STORE, TASK_STORE, 10.5, 13); /* 0.5 beside the second pass, 1 beside the optimizer */
  add_span(t, 0, LANE_COMPUTE, TASK_OPTIMIZER, 12, 14);
  ck_assert(trace_parts(t, 0, &p));
  ck_assert(p.known);
  ck_assert_double_eq(p.compute_s[COMPUTE_PRODUCTS], 4);
  ck_assert_double_eq(p.compute_s[COMPUTE_HOST], 2);
  ck_assert_double_eq(p.compute_s[COMPUTE_SLOWED], 0.75);
  g_autofree double *computes = trace_computes(t);
  ck_assert_double_eq(sum_of(p.compute_s), computes[0]);
  ck_assert_double_eq(p.hidden_s[HIDDEN_CONTEXT], 2 * 1.75);
  ck_assert_double_eq(p.hidden_s[HIDDEN_TENSOR], 2 * 0.75);
  ck_assert_double_eq(p.hidden_s[HIDDEN_EXPERT], 0);
  ck_assert_double_eq(p.hidden_s[HIDDEN_DATA], 1.5);
  ck_assert_double_eq(p.hidden_s[HIDDEN_PIPELINE], 0.25);
  ck_assert_double_eq(p.hidden_s[HIDDEN_OFFLOAD], 1 + 0.5 + 1);
  ck_assert(trace_parts(t, 1, &p)); /* it computes nothing */
  ck_assert_double_eq(sum_of(p.compute_s) + p.hidden_s[HIDDEN_DATA], 0);
}
END_TEST

/* Of passes whose times come from elsewhere, or that are not described, nothing is said. */
START_TEST(unknown_parts)
{
  Planned f;
  StepParts p;
  const double pass_s[] = { 1 };

  planned_init(&f, fixture_model(2, 512, 8, 128, 1024), fixture_cluster("dgx", 8), "megatron-core");
  planned_spread(&f, 1);
  for (int described = 0; described < 2; described++) {
    planned_build_with(&f, (described ? price_table_described : price_table_new)(f.model, LAYOUT(&f.plan), f.cluster));
    g_autoptr(Trace) trace = simulate(f.program);
    ck_assert_int_eq(trace_parts(trace, 0, &p), described);
    ck_assert_int_eq(p.known, described);
    program_time_passes(f.program, pass_s, pass_s);
    g_autoptr(Trace) timed = simulate(f.program);
    ck_assert(!trace_parts(timed, 0, &p));
  }
  planned_clear(&f);
}
END_TEST

TEST_MAIN("parts", dense_passes, host_is_waited_for, uneven_experts, segments_made_again, hidden_by_hand, unknown_parts)
