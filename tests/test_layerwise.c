/* Strategies by layer: the solver against all choices, layout changes by hand, a stage of a plan. */
#include "cost/redistribute.h"
#include "fixture.h"
#include "main.h"
#include "planned.h"
#include "search/layerwise.h"

#include <math.h>

/* The best of all choices from layer i on. */
static void try_all(const LayerwiseProblem *p, int *choice, int i, double *best)
{
  if (i == p->layers) {
    if (layerwise_bytes(p, choice) <= p->room)
      *best = MIN(*best, layerwise_seconds(p, choice));
    return;
  }
  for (choice[i] = 0; choice[i] < p->strategies; choice[i]++)
    try_all(p, choice, i + 1, best);
}

START_TEST(solver_is_exact)
{
  GRand *rand = g_rand_new_with_seed(_i + 1);
  int layers = g_rand_int_range(rand, 1, 7), strategies = g_rand_int_range(rand, 1, 5);
  double seconds[24], bytes[24], change[16], found = 0, best = INFINITY;
  int choice[6], all[6];
  LayerwiseProblem p = { layers, strategies, seconds, bytes, change, g_rand_int_range(rand, 0, strategies),
                         layers * g_rand_int_range(rand, 2, 9) };

  for (int i = 0; i < layers * strategies; i++) {
    seconds[i] = g_rand_int_range(rand, 1, 20);
    bytes[i] = g_rand_int_range(rand, 1, 10);
  }
  for (int i = 0; i < strategies * strategies; i++)
    change[i] = i % (strategies + 1) ? g_rand_int_range(rand, 0, 5) : 0;
  for (int i = 0; i < strategies && strategies > 1 && _i % 2; i++) { /* the last changes as the first does */
    change[(strategies - 1) * strategies + i] = change[i];
    change[i * strategies + strategies - 1] = change[i * strategies];
  }
  try_all(&p, all, 0, &best);
  ck_assert_int_eq(layerwise_solve(&p, choice, &found), isfinite(best));
  if (isfinite(best)) {
    ck_assert_double_eq(found, best);
    ck_assert_double_eq(layerwise_seconds(&p, choice), best);
    ck_assert_double_le(layerwise_bytes(&p, choice), p.room);
  }
  g_rand_free(rand);
}
END_TEST

/* Many alike layers with many strategies: labels whose bound is no better than what is known are left, and the answer is
 * no worse than any mixture of two strategies that fits. */
START_TEST(many_alike_layers)
{
  enum { LAYERS = 64, STRATEGIES = 24 };
  g_autoptr(GRand) rand = g_rand_new_with_seed(_i + 1);
  g_autofree double *seconds = g_new(double, LAYERS * STRATEGIES), *bytes = g_new(double, LAYERS * STRATEGIES);
  g_autofree double *change = g_new0(double, STRATEGIES * STRATEGIES);
  LayerwiseProblem p = { LAYERS, STRATEGIES, seconds, bytes, change, 0, LAYERS * 5.5 };
  int choice[LAYERS];
  double found;

  for (int s = 0; s < STRATEGIES; s++) {
    seconds[s] = g_rand_double_range(rand, 1, 2);
    bytes[s] = 1 + 8 / seconds[s];
    for (int i = 1; i < LAYERS; i++) {
      seconds[i * STRATEGIES + s] = seconds[s];
      bytes[i * STRATEGIES + s] = bytes[s];
    }
  }
  ck_assert(layerwise_solve(&p, choice, &found));
  ck_assert_double_le(layerwise_bytes(&p, choice), p.room);
  ck_assert_double_eq_tol(layerwise_seconds(&p, choice), found, 1e-9 * found);
  for (int k = 0; k < STRATEGIES * STRATEGIES * 8; k++) {
    int first = g_rand_int_range(rand, 0, STRATEGIES), other = g_rand_int_range(rand, 0, STRATEGIES);
    int many = g_rand_int_range(rand, 0, LAYERS);
    for (int i = 0; i < LAYERS; i++)
      choice[i] = i < many ? first : other;
    if (layerwise_bytes(&p, choice) <= p.room)
      ck_assert_double_le(found, layerwise_seconds(&p, choice) * (1 + 1e-12));
  }
}
END_TEST

/* Going up in tensor degree gathers sequences, going down slices; divided tokens change places. */
START_TEST(layouts_by_hand)
{
  g_autoptr(Model) model = fixture_llama(8, 1024, 16, 16, 512, 1024);
  g_autoptr(Cluster) c = fixture_cluster("dgx", 8);
  g_autoptr(Framework) framework = fixture_framework("megatron-core");
  Plan one = plan_default(model, framework), four;
  GroupShape group = group_shape(c, 4, 1);
  double bytes = 4 * 512 * 1024 * 2; /* four sequences in bf16 */

  one.gpus = one.dp = 8;
  one.global_batch = 8;
  four = one;
  four.tp = four.micro_batch = 4;
  four.dp = 2;
  ck_assert_double_eq(redistribute_s(model, PASSES(&one), PASSES(&one), c), 0);
  ck_assert_double_eq(redistribute_s(model, PASSES(&four), PASSES(&one), c), 0);
  ck_assert_double_eq(redistribute_s(model, PASSES(&one), PASSES(&four), c),
                      collective_cost(c, COLLECTIVE_ALL_GATHER, bytes, &group).seconds + framework->collective_s);
  Plan divided = four;
  divided.sequence_parallel = TRUE;
  ck_assert_double_eq(redistribute_s(model, PASSES(&four), PASSES(&divided), c), 0);
  ck_assert_double_eq(redistribute_s(model, PASSES(&divided), PASSES(&four), c),
                      collective_cost(c, COLLECTIVE_ALL_GATHER, bytes, &group).seconds + framework->collective_s);
  ck_assert_double_eq(redistribute_s(model, PASSES(&one), PASSES(&divided), c),
                      collective_cost(c, COLLECTIVE_ALL_TO_ALL, bytes / 4, &group).seconds + framework->collective_s);
}
END_TEST

/* A stage's problem of random numbers: strategies of tensor degrees 1, 2, 4 and 8, whose communicators count. */
static void draw_stage(GRand *rand, const Plan *plan, LayerwiseProblem *p, GArray *variants)
{
  for (int i = 0; i < p->strategies; i++) {
    Plan v = *plan;
    v.tp = 1 << (i == 0 ? 1 : g_rand_int_range(rand, 0, 4));
    v.dp = 8 / v.tp;
    g_array_append_val(variants, v);
  }
  for (int i = 0; i < p->layers * p->strategies; i++) {
    p->seconds[i] = g_rand_int_range(rand, 1, 20);
    p->bytes[i] = g_rand_int_range(rand, 1, 10);
  }
  for (int i = 0; i < p->strategies * p->strategies; i++)
    p->change_s[i] = i % (p->strategies + 1) ? g_rand_int_range(rand, 0, 3) : 0;
}

/* Against all choices, each with the communicators of the degrees that it takes. */
START_TEST(stages_pay_for_communicators)
{
  g_autoptr(GRand) rand = g_rand_new_with_seed(_i + 1);
  g_autoptr(Model) model = fixture_llama(8, 1024, 16, 16, 512, 1024);
  g_autoptr(Framework) framework = fixture_framework("galvatron");
  g_autoptr(GArray) variants = g_array_new(FALSE, FALSE, sizeof(Plan));
  Plan plan = plan_default(model, framework);
  double seconds[30], bytes[30], change[36], found = 0, best = INFINITY;
  LayerwiseProblem p = { g_rand_int_range(rand, 1, 6), g_rand_int_range(rand, 2, 7), seconds, bytes, change, 0, 0 };
  int choice[5] = { 0 }, n = 1;

  plan.gpus = plan.dp = 8;
  framework->group_bytes = g_rand_int_range(rand, 1, 6);
  draw_stage(rand, &plan, &p, variants);
  p.room = p.layers * g_rand_int_range(rand, 2, 10);
  for (int i = 0; i < p.layers; i++)
    n *= p.strategies;
  for (int k = 0; k < n; k++) {
    for (int i = 0, rest = k; i < p.layers; i++, rest /= p.strategies)
      choice[i] = rest % p.strategies;
    if (layerwise_stage_bytes(&p, variants, choice) <= p.room)
      best = MIN(best, layerwise_seconds(&p, choice));
  }
  ck_assert_int_eq(layerwise_solve_stage(&p, variants, choice, &found), isfinite(best));
  if (isfinite(best)) {
    ck_assert_double_eq(found, best);
    ck_assert_double_eq(layerwise_seconds(&p, choice), best);
    ck_assert_double_le(layerwise_stage_bytes(&p, variants, choice), p.room);
  }
}
END_TEST

/* What Muon adds to a step of layers that are alike: as the stage's sums have it, and as it is simulated. */
static void muon_adds(Planned *f, double *summed_s, double *simulated_s)
{
  double sums[2], steps[2];

  for (int muon = 0; muon < 2; muon++) {
    f->plan.optimizer.name = muon ? OPTIMIZER_MUON : OPTIMIZER_ADAM;
    planned_accept(f);
    g_autoptr(GArray) variants = g_array_new(FALSE, FALSE, sizeof(Plan));
    g_autoptr(LayerwiseProblem) p = layerwise_of_stage(f->model, f->cluster, &f->plan, 0, variants, NULL);
    g_autofree int *own = g_new0(int, p->layers);
    const Layout layout = layout_of(&f->plan);
    StageTime time = layerwise_stage_time(p, own, plan_micro_batches(&f->plan));
    sums[muon] = layerwise_step_s(&layout, &time);
    steps[muon] = planned_run(f).iteration_s;
  }
  *summed_s = sums[1] - sums[0];
  *simulated_s = steps[1] - steps[0];
}

/* Its steps, the gathers of momentum and results, a bucket's of each micro-batch, and matrices that parts cut. */
START_TEST(muon_is_all_there)
{
  static const struct { const char *framework; int tp, dp; } runs[] = {
    { "deepspeed", 1, 8 }, { "deepspeed", 2, 8 }, { "fsdp", 1, 8 }, { "megatron-core-2026", 1, 16 },
  };
  int zero = _i % 4, run = _i / 4;
  double summed_s, simulated_s;
  Planned f;

  planned_init(&f, fixture_llama(6, 1024, 16, 16, 512, 1024),
               fixture_cluster("dgx", runs[run].tp * runs[run].dp), runs[run].framework);
  planned_divide(&f, runs[run].tp, 1, runs[run].dp);
  f.framework->optimizers = ~0u;
  f.plan.global_batch = 4 * runs[run].dp;
  f.plan.zero = zero;
  f.plan.overlap.gradients = f.plan.overlap.parameters = FALSE;
  if (plan_check(&f.plan, f.model, f.cluster, NULL) == RULE_NONE) {
    muon_adds(&f, &summed_s, &simulated_s);
    ck_assert_double_gt(simulated_s, 0);
    ck_assert_double_eq_tol(summed_s, simulated_s, 1e-6 * simulated_s);
  } else
    ck_assert(zero > 1 && run > 0);
  planned_clear(&f);
}
END_TEST

/* Sums over the layers come to what the simulation finds, whatever data-parallel communication runs beside passes: over
 * links in a node that computation is slowed by, or over the slower ones between nodes. */
START_TEST(sums_are_of_what_is_simulated)
{
  static const struct { int tp, dp, gpus; } splits[] = { { 4, 2, 8 }, { 2, 4, 8 }, { 1, 8, 8 }, { 4, 4, 16 } };
  int zero = _i % 4, overlap = _i / 4 % 2, split = _i / 8;
  Planned f;

  planned_init(&f, fixture_llama(24, 4096, 32, 32, 2048, 32000), fixture_cluster("dgx", splits[split].gpus), "galvatron");
  planned_divide(&f, splits[split].tp, 1, splits[split].dp);
  f.cluster->device.memory_bytes = 1e12;
  f.plan.global_batch = 16 * splits[split].dp;
  f.plan.zero = zero;
  f.plan.overlap.gradients = f.plan.overlap.parameters = overlap;
  planned_accept(&f);
  g_autoptr(GArray) variants = g_array_new(FALSE, FALSE, sizeof(Plan));
  g_autoptr(LayerwiseProblem) p = layerwise_of_stage(f.model, f.cluster, &f.plan, 0, variants, NULL);
  g_autofree int *own = g_new0(int, p->layers);
  const Layout layout = layout_of(&f.plan);
  StageTime time = layerwise_stage_time(p, own, 16);
  double sum = layerwise_step_s(&layout, &time), step = planned_run(&f).iteration_s;
  ck_assert_double_eq_tol(sum, step, 0.02 * step);
  planned_clear(&f);
}
END_TEST

/* Less room never makes a stage faster, and uniform choices are never better than the best. */
START_TEST(stages_of_a_plan)
{
  g_autoptr(Model) model = fixture_llama(16, 1024, 16, 16, 512, 1024);
  g_autoptr(Cluster) c = fixture_cluster("dgx", 8);
  g_autoptr(Framework) framework = fixture_framework("megatron-core");
  g_autoptr(GArray) variants = g_array_new(FALSE, FALSE, sizeof(Plan));
  Plan plan = plan_default(model, framework);
  int choice[16];
  double before = 0, seconds;

  plan.gpus = 8;
  plan.pp = plan.tp = plan.dp = 2;
  plan.micro_batch = 2;
  plan.global_batch = 32;
  ck_assert_int_eq(plan_check(&plan, model, c, NULL), RULE_NONE);
  g_autoptr(LayerwiseProblem) p = layerwise_of_stage(model, c, &plan, 0, variants, NULL);
  ck_assert_int_eq(p->layers, 8);
  double whole = p->room;
  gboolean fits = TRUE;
  for (int part = 0; part < 12 && fits; part++) {
    p->room = whole * pow(0.5, part);
    fits = layerwise_solve(p, choice, &seconds);
    for (int s = 0; fits && s < p->strategies; s++) {
      int uniform[16];
      for (int i = 0; i < p->layers; i++)
        uniform[i] = s;
      if (layerwise_bytes(p, uniform) <= p->room)
        ck_assert_double_le(seconds, layerwise_seconds(p, uniform));
    }
    if (fits)
      ck_assert_double_ge(seconds, before);
    before = seconds;
  }
  ck_assert(!fits);
}
END_TEST

TEST_LOOPS("layerwise", { solver_is_exact, 200, TRUE }, { many_alike_layers, 2 }, { stages_pay_for_communicators, 400, TRUE },
           { muon_is_all_there, 16 }, { sums_are_of_what_is_simulated, 32 }, { layouts_by_hand }, { stages_of_a_plan })
