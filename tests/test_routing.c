/* Loads of experts as steps draw them: against tokens thrown one by one and the step of a busier expert. */
#include "main.h"
#include "planned.h"
#include "report/draws.h"
#include "sim/ranks.h"
#include "sim/simulate.h"

#include <gsl/gsl_rng.h>
#include <math.h>

#define DRAWS 4000
#define THROWN 1500
#define QUANTILES 16384 /* of Routing */
#define EP 8
#define EXPERTS 16

static void moments(double *values, int n, double *mean, double *deviation)
{
  const Draws d = draws_of(values, n);

  *mean = d.mean_s;
  *deviation = d.deviation_s;
}

/* Layers with experts, nothing that runs beside the passes. */
static void setup_divided(Planned *f, double load, int tp, int pp, int ep)
{
  planned_init(f, fixture_experts(8, 1024, 8, EXPERTS, 1024, 1000), fixture_cluster("dgx-h100", EP), "megatron-core");
  planned_divide(f, tp, pp, EP / tp / pp);
  f->plan.global_batch = 4 * f->plan.dp;
  f->plan.sequence_parallel = tp > 1;
  f->cluster->device.rate_spread = f->cluster->device.rate_passing = 0;
  f->plan.ep = ep;
  f->plan.etp = 1;
  f->plan.expert_load = load;
  planned_accept(f);
}

static void setup(Planned *f, double load)
{
  setup_divided(f, load, 1, 1, EP);
}

static Routing *routing_of(Planned *f)
{
  planned_build(f);
  return routing_new(f->model, &f->plan, f->cluster, f->program);
}

/* Rows of the busiest rank over an even share, less 1, of tokens that each choose two experts. */
static double busiest_by_chance(gsl_rng *rng, int tokens, int ranks)
{
  int counts[EXPERTS] = { 0 }, most = 0;

  for (int i = 0; i < tokens; i++) {
    int one = gsl_rng_uniform_int(rng, EXPERTS), other = gsl_rng_uniform_int(rng, EXPERTS - 1);
    counts[one * ranks / EXPERTS]++;
    counts[(other + (other >= one)) * ranks / EXPERTS]++;
  }
  for (int i = 0; i < ranks; i++)
    most = MAX(most, counts[i]);
  return most * ranks / (2.0 * tokens) - 1;
}

static const struct {
  int tp, ep;
} divided[] = { { 1, 8 }, { 1, 4 }, { 1, 2 }, { 8, 8 }, { 8, 2 } };

static int experts_of_token(const Planned *f)
{
  return model_layer(f->model, f->model->n_layers - 2)->ffn.experts_per_token;
}

/* Of all groups that a pass waits for. */
START_TEST(tokens_fall_by_chance)
{
  int tp = divided[_i].tp, ep = divided[_i].ep, groups = MAX(tp / ep, 1);
  double thrown[THROWN], mean[2], deviation[2];
  gsl_rng *rng = gsl_rng_alloc(gsl_rng_mt19937);
  Planned f;

  setup_divided(&f, 1, tp, 1, ep);
  g_autoptr(Routing) routing = routing_of(&f);
  ck_assert_int_eq(experts_of_token(&f), 2);
  for (int i = 0; i < THROWN; i++) {
    thrown[i] = 0;
    for (int group = 0; group < groups; group++) {
      double busiest = busiest_by_chance(rng, op_tokens(PASSES(&f.plan)) / tp * ep, ep);
      thrown[i] = MAX(thrown[i], busiest);
    }
  }
  moments(routing->quantiles, QUANTILES, &mean[0], &deviation[0]);
  moments(thrown, THROWN, &mean[1], &deviation[1]);
  ck_assert_msg(fabs(mean[0] / mean[1] - 1) < 0.04, "%g drawn, %g thrown, deviations %g %g, tokens %g", mean[0], mean[1], deviation[0], deviation[1], op_tokens(PASSES(&f.plan)));
  ck_assert_double_eq_tol(deviation[0] / deviation[1], 1, 0.15);
  ck_assert_double_ge(routing->quantiles[0], 0);
  gsl_rng_free(rng);
  planned_clear(&f);
}
END_TEST

static double step_s(Planned *f, double load)
{
  f->plan.expert_load = load;
  g_autoptr(Trace) trace = simulate_plan(f->model, f->cluster, &f->plan);
  return trace->end_s;
}

static int layers_with_experts(const Planned *f)
{
  int layers = 0;

  for (int l = 0; l < f->model->n_layers; l++)
    layers += model_layer(f->model, l)->ffn.experts > 0;
  return layers;
}

/* Experts that are popular by themselves: the step is the plan's on average, and varies as one load of each layer,
 * however passes are cut into pieces. */
START_TEST(popular_in_a_step)
{
  const double load = 1.4, of_eight = 1.423600, spread = sqrt(0.610653 * 0.610653 - 1.0 / EP);
  /* the largest of eight normal values less their mean */
  double mean, deviation;
  Planned f;

  setup(&f, load);
  f.plan.zero = _i ? 3 : 1;
  f.plan.overlap.parameters = f.plan.overlap.gradients = FALSE;
  planned_accept(&f);
  g_autofree double *all = simulate_plan_draws(f.model, f.cluster, &f.plan, &(Jitter) { 0 }, NULL, 0, DRAWS);
  ck_assert_ptr_nonnull(all);
  moments(all, DRAWS, &mean, &deviation);
  double quiet = step_s(&f, load), slope = (step_s(&f, load + 0.125) - step_s(&f, load - 0.125)) / 0.25;
  ck_assert_int_gt(layers_with_experts(&f), 2);
  ck_assert_double_gt(slope, 0.05 * quiet);
  ck_assert_double_eq_tol(mean / quiet, 1, 0.002);
  ck_assert_double_eq_tol(deviation / (slope * (load - 1) / of_eight * spread / sqrt(layers_with_experts(&f))), 1, 0.06);
  planned_clear(&f);
}
END_TEST

/* Two copies of a stage are as popular: their steps vary as those of one copy. */
START_TEST(popular_in_both_copies)
{
  static const char *const orders[] = { "1f1b", "dualpipe" };
  double mean, deviation[2];

  for (int i = 0; i < 2; i++) {
    Planned f;
    setup_divided(&f, 1.6, 1, 4, 2);
    f.plan.schedule = schedule_find(orders[i]);
    f.plan.vpp = i + 1;
    f.plan.global_batch = 16 * f.plan.dp;
    planned_accept(&f);
    g_autofree double *all = simulate_plan_draws(f.model, f.cluster, &f.plan, &(Jitter) { 0 }, NULL, 0, DRAWS);
    ck_assert_ptr_nonnull(all);
    moments(all, DRAWS, &mean, &deviation[i]);
    deviation[i] /= mean;
    planned_clear(&f);
  }
  ck_assert_msg(deviation[1] > 0.65 * deviation[0], "%g, %g", deviation[0], deviation[1]);
}
END_TEST

/* By chance, each layer waits for a busiest rank of its own: longer than even loads, hardly spread, and the same in a
 * micro-batch's forward and backward. */
START_TEST(even_in_the_mean)
{
  double mean, deviation, chance, spread;
  Planned f;

  setup(&f, 1);
  g_autoptr(Routing) routing = routing_of(&f);
  moments(routing->quantiles, QUANTILES, &chance, &spread);
  g_autofree double *all = simulate_plan_draws(f.model, f.cluster, &f.plan, &(Jitter) { 0 }, NULL, 0, DRAWS);
  moments(all, DRAWS, &mean, &deviation);
  double quiet = step_s(&f, 1), slope = (step_s(&f, 1.125) - quiet) / 0.125;
  int passes = layers_with_experts(&f) * 4; /* micro-batches */
  ck_assert_double_eq_tol((mean - quiet) / (slope * chance), 1, 0.03);
  ck_assert_double_eq_tol(deviation / (slope * spread / sqrt(passes)), 1, 0.06);
  planned_clear(&f);
}
END_TEST

/* Rows beyond a capacity are dropped: no step takes longer than with as many, and all vary less. */
START_TEST(capacity_ends_draws)
{
  double mean, deviation[2];
  Planned f;

  setup(&f, 1.4);
  for (int i = 0; i < 2; i++) {
    f.plan.expert_capacity = i ? 1.45 : 0;
    planned_accept(&f);
    g_autofree double *all = simulate_plan_draws(f.model, f.cluster, &f.plan, &(Jitter) { 0 }, NULL, 0, DRAWS);
    moments(all, DRAWS, &mean, &deviation[i]);
  }
  ck_assert_double_gt(deviation[1], 0);
  ck_assert_double_lt(deviation[1], 0.8 * deviation[0]);
  planned_clear(&f);
}
END_TEST

/* Rows of experts are as many as fall on them: nothing starts at multiples of them. */
START_TEST(busier_takes_longer)
{
  double last = 0;
  Planned f;

  setup(&f, 1);
  for (double load = 1; load < 2; load += 0.07) {
    double step = step_s(&f, load);
    ck_assert_msg(step >= last, "load %g: %g s after %g", load, step, last);
    last = step;
  }
  planned_clear(&f);
}
END_TEST

/* One rank that has all experts has no busiest one, nor have experts that all get their capacity. */
START_TEST(nothing_to_draw)
{
  Planned f;

  setup(&f, 1.2);
  f.plan.expert_capacity = 1.1;
  g_autoptr(Routing) capacity = routing_of(&f);
  ck_assert_ptr_null(capacity);
  planned_clear(&f);
  setup(&f, 1.2);
  f.plan.ep = 1;
  g_autoptr(Routing) alone = routing_of(&f);
  ck_assert_ptr_null(alone);
  planned_clear(&f);
}
END_TEST

TEST_LOOPS("routing", { tokens_fall_by_chance, G_N_ELEMENTS(divided) }, { popular_in_a_step, 2 }, { popular_in_both_copies },
           { even_in_the_mean }, { capacity_ends_draws }, { busier_takes_longer }, { nothing_to_draw })
