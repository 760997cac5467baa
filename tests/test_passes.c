/* What the passes of a program are said to run is what they were priced from. */
#include "main.h"
#include "planned.h"

#include <math.h>

enum { PLANS = 60 };

typedef struct {
  double flops, tensor_s, compute_s;
} Sums;

static Sums sums_of(const Segment *s)
{
  Sums sums = { 0 };

  for (guint pass = 0; pass < s->passes->len; pass++) {
    const GArray *ops = g_array_index(s->passes, LayerPass, pass).ops;
    for (guint i = 0; i < ops->len; i++) {
      const PassOp *op = &g_array_index(ops, PassOp, i);
      sums.flops += op->share * op->op.flops;
      *(op->op.kind == OP_COLLECTIVE ? &sums.tensor_s : &sums.compute_s) += op->seconds;
    }
  }
  return sums;
}

/* Which of the layers come when: the last first in backwards. */
static void check_layers(const Segment *s)
{
  gboolean backward = s->pass == PASS_BACKWARD || s->pass == PASS_INPUT || s->pass == PASS_WEIGHT;

  for (guint i = 0; i + 1 < s->passes->len; i++) {
    int layer = g_array_index(s->passes, LayerPass, i).layer, next = g_array_index(s->passes, LayerPass, i + 1).layer;
    ck_assert(backward ? next <= layer : next >= layer);
  }
}

static void check_program(const Planned *f, const Program *plain)
{
  gboolean changes = f->plan.strategies.n > 0; /* of layout, which are no ops */

  ck_assert_uint_eq(f->program->segments->len, plain->segments->len);
  for (guint i = 0; i < plain->segments->len; i++) {
    const Segment *s = &g_array_index(f->program->segments, Segment, i);
    const Segment *other = &g_array_index(plain->segments, Segment, i);
    ck_assert_double_eq(s->seconds, other->seconds);
    ck_assert_ptr_null(other->passes);
    if (s->kind != TASK_PASS || s->n_layers == 0 || (s->pass == PASS_RECOMPUTE && !s->passes))
      continue;
    Sums sums = sums_of(s);
    check_layers(s);
    ck_assert_msg(fabs(sums.flops - s->hardware_flops) <= 1e-9 * s->hardware_flops, "%s, %s: %.9g of %.9g",
                  f->plan.schedule->name, pass_names[s->pass], sums.flops, s->hardware_flops);
    ck_assert_double_ge(s->compute_s, sums.compute_s * (1 - 1e-9)); /* more where the host or a collective slows it */
    ck_assert_double_ge(s->tensor_s, sums.tensor_s * (1 - 1e-9));
    ck_assert(changes || s->tensor_s <= sums.tensor_s * (1 + 1e-9));
  }
}

static void check_plan(Planned *f)
{
  planned_build_with(f, price_table_described(f->model, LAYOUT(&f->plan), f->cluster));
  g_autoptr(PriceTable) prices = price_table_new(f->model, LAYOUT(&f->plan), f->cluster);
  g_autoptr(Program) plain = program_new(f->model, LAYOUT(&f->plan), f->cluster, prices);

  check_program(f, plain);
}

static void setup(Planned *f, int which)
{
  static const char *const frameworks[] = { "megatron-core", "deepspeed", "fsdp", "torchtitan" };
  Model *model = which % 2 ? fixture_moe(8, 512, 8, 128, 1024, 8, 2, 128) : fixture_gpt_plain(8, 512, 8, 128, 1024);

  planned_init(f, model, fixture_cluster("dgx", 64), frameworks[which / 2]);
}

START_TEST(drawn_plans)
{
  GRand *rand = g_rand_new_with_seed(_i);
  Planned f;

  setup(&f, _i);
  for (int tried = 0; tried < PLANS;) {
    if (!fixture_draw_plan(rand, f.model, f.cluster, f.framework, &f.plan))
      continue;
    check_plan(&f);
    tried++;
  }
  g_rand_free(rand);
  planned_clear(&f);
}
END_TEST

static const char *const scheduled[] = { "varuna", "vocab-1", "vocab-2", "vocab-interlaced", "zb-h1", "zb-v", "dualpipe",
                                         "interleaved" };

/* Recomputation in slots of its own, shares of the vocabulary, pairs that overlap. */
START_TEST(schedules_that_price_anew)
{
  Planned f;

  planned_init(&f, fixture_gpt_plain(8, 512, 8, 128, 1024), fixture_cluster("dgx", 4), "megatron-core");
  planned_divide(&f, 2, 2, 1);
  f.plan.global_batch = 8;
  f.plan.sequence_parallel = TRUE;
  f.plan.recompute = g_str_equal(scheduled[_i], "varuna") ? RECOMPUTE_FULL : RECOMPUTE_NONE;
  plan_set_schedule(&f.plan, schedule_find(scheduled[_i]), schedule_find(scheduled[_i])->min_chunks);
  check_plan(&f);
  planned_clear(&f);
}
END_TEST

static gboolean is_over(const Op *op, int group)
{
  return op->kind == OP_COLLECTIVE && op->collective.group.size == group;
}

static int collectives_of(const Program *program, Pass pass, int group)
{
  int n = 0;

  for (guint i = 0; i < program->segments->len; i++) {
    const Segment *s = &g_array_index(program->segments, Segment, i);
    for (guint k = 0; s->kind == TASK_PASS && s->pass == pass && k < s->passes->len; k++) {
      const GArray *ops = g_array_index(s->passes, LayerPass, k).ops;
      for (guint op = 0; op < ops->len; op++)
        n += is_over(&g_array_index(ops, PassOp, op).op, group);
    }
  }
  return n;
}

/* Of 8 blocks the first 2 of each stage are made again, with two sums each; backward each block has two, the
 * logits one. */
START_TEST(some_layers_are_made_again)
{
  Planned f;

  planned_init(&f, fixture_gpt_plain(8, 512, 8, 128, 1024), fixture_cluster("dgx", 4), "megatron-core");
  planned_divide(&f, 2, 2, 1);
  f.plan.recompute = RECOMPUTE_FULL;
  f.plan.scope = (RecomputeScope) { .method = RECOMPUTE_BLOCK, .layers = 2 };
  check_plan(&f);
  ck_assert_int_eq(collectives_of(f.program, PASS_BACKWARD, 2), 2 * 2 * 2 + 8 * 2 + 1);
  planned_clear(&f);
}
END_TEST

/* Sums of blocks with a strategy of their own are over its group. */
START_TEST(strategies_have_their_own_groups)
{
  Planned f;

  planned_init(&f, fixture_gpt_plain(8, 512, 8, 128, 1024), fixture_cluster("dgx", 4), "galvatron");
  planned_divide(&f, 2, 1, 2);
  f.plan.global_batch = 8;
  strategies_append(&f.plan.strategies, (StrategyRun) { .tp = 2, .layers = 6, .recompute = RECOMPUTE_FULL });
  strategies_append(&f.plan.strategies, (StrategyRun) { .tp = 4, .layers = 2 });
  check_plan(&f);
  ck_assert_int_eq(collectives_of(f.program, PASS_FORWARD, 4), 2 * 2);
  ck_assert_int_eq(collectives_of(f.program, PASS_BACKWARD, 4), 2 * 2);
  ck_assert_int_eq(collectives_of(f.program, PASS_BACKWARD, 2), 6 * (2 + 2) + 1);
  planned_clear(&f);
}
END_TEST

/* Without sequence parallelism KempnerForge's queries, keys, values, gate and up each sum the gradient of their
 * input. */
static const struct {
  const char *framework;
  gboolean sequence_parallel;
  int sums;
} projected[] = { { "kempnerforge-2026", FALSE, 5 }, { "kempnerforge-2026-eager", FALSE, 5 },
                  { "kempnerforge-2026", TRUE, 2 },  { "torchtitan", FALSE, 2 }, { "megatron-core", FALSE, 2 } };

START_TEST(projections_sum_apart)
{
  int sums = 0;
  LayerWork w;
  Planned p;

  planned_init(&p, fixture_llama(2, 1024, 16, 4, 512, 64000), fixture_cluster("dgx", 8), projected[_i].framework);
  planned_divide(&p, 4, 1, 2);
  p.plan.sequence_parallel = projected[_i].sequence_parallel;
  layer_work_init(&w, p.model, model_layer(p.model, 1), PASSES(&p.plan), p.cluster);
  for (guint i = 0; i < w.backward->len; i++) {
    const Op *op = &g_array_index(w.backward, Op, i);
    gboolean sum = g_str_equal(op->name, "sum input gradient");
    sums += sum;
    ck_assert(!sum || fabs(op->collective.bytes - 2 * 512.0 * 1024) < 0.5);
  }
  ck_assert_int_eq(sums, projected[_i].sums);
  layer_work_clear(&w);
  planned_clear(&p);
}
END_TEST

/* Bytes of a layer's collectives of a kind in a pass. */
static double layer_bytes(const LayerPrice *price, int pass, int what)
{
  const GArray *ops = price->ops->pass[pass];
  double bytes = 0;

  for (guint i = 0; i < ops->len; i++) {
    const Op *op = &g_array_index(ops, PassOp, i).op;
    bytes += op->kind == OP_COLLECTIVE && (int)op->collective.what == what ? op->collective.bytes : 0;
  }
  return bytes;
}

/* Transformer Engine's fp8_buf halves what forwards scatter, and nothing else; no plan has it without rows in chunks
 * and delayed scales of fp8. */
START_TEST(forwards_scatter_in_8_bits)
{
  Planned f;
  planned_init(&f, fixture_llama(4, 4096, 32, 32, 2048, 1024), fixture_cluster("dgx-h100", 8), "nemo-2024-11");
  planned_divide(&f, 8, 1, 1);
  f.plan.sequence_parallel = f.plan.comm_chunks = TRUE;
  plan_set_format(&f.plan, DTYPE_FP8);
  planned_accept(&f);
  Layout layout = layout_of(&f.plan);
  g_autoptr(PriceTable) wide = price_table_described(f.model, &layout, f.cluster);
  f.plan.comm_fp8 = TRUE;
  planned_accept(&f);
  layout = layout_of(&f.plan);
  g_autoptr(PriceTable) narrow = price_table_described(f.model, &layout, f.cluster);
  const LayerPrice *a = price_of_layer(wide, f.model, 0, 1), *b = price_of_layer(narrow, f.model, 0, 1);
  double rows = 2.0 * f.plan.micro_batch * f.plan.seq * 4096; /* two products of a layer, each of all rows in 8 bits */

  for (int pass = PASS_FORWARD; pass <= PASS_BACKWARD; pass++) {
    double scattered = layer_bytes(a, pass, COLLECTIVE_REDUCE_SCATTER);
    ck_assert_double_eq(scattered, 2 * rows);
    ck_assert_double_eq(layer_bytes(b, pass, COLLECTIVE_REDUCE_SCATTER), pass == PASS_FORWARD ? rows : scattered);
    ck_assert_double_eq(layer_bytes(a, pass, COLLECTIVE_ALL_GATHER), layer_bytes(b, pass, COLLECTIVE_ALL_GATHER));
  }
  f.plan.comm_chunks = FALSE;
  ck_assert_int_eq(plan_check(&f.plan, f.model, f.cluster, NULL), RULE_SHARDING);
  f.plan.comm_chunks = TRUE;
  plan_set_format(&f.plan, DTYPE_BF16);
  ck_assert_int_eq(plan_check(&f.plan, f.model, f.cluster, NULL), RULE_SHARDING);
  planned_clear(&f);
}
END_TEST

/* Scales of the step itself are known when the product is there, too late for its buffer. */
START_TEST(scales_of_earlier_steps_scatter)
{
  static const Fp8Recipe recipes[] = { FP8_DELAYED, FP8_CURRENT };

  for (gsize i = 0; i < G_N_ELEMENTS(recipes); i++) {
    Planned f;
    planned_init(&f, fixture_llama(4, 4096, 32, 32, 2048, 1024), fixture_cluster("dgx-h100", 8), "megatron-core");
    planned_divide(&f, 8, 1, 1);
    f.plan.sequence_parallel = f.plan.comm_chunks = TRUE;
    plan_set_format(&f.plan, DTYPE_FP8);
    f.plan.fp8_recipe = recipes[i];
    planned_accept(&f);
    f.plan.comm_fp8 = TRUE;
    ck_assert_int_eq(plan_check(&f.plan, f.model, f.cluster, NULL), i == 0 ? RULE_NONE : RULE_SHARDING);
    planned_clear(&f);
  }
}
END_TEST

TEST_LOOPS("passes", { drawn_plans, 8 }, { schedules_that_price_anew, G_N_ELEMENTS(scheduled) },
           { some_layers_are_made_again }, { projections_sum_apart, G_N_ELEMENTS(projected) },
           { strategies_have_their_own_groups }, { forwards_scatter_in_8_bits },
           { scales_of_earlier_steps_scatter })
