/* Loads of experts as steps draw them: against tokens thrown one by one and the step of a busier expert. */
#include "main.h"
#include "planned.h"
#include "sim/ranks.h"
#include "sim/simulate.h"

#include <gsl/gsl_randist.h>
#include <gsl/gsl_rng.h>
#include <math.h>

#define DRAWS 4000
#define EP 8

/* Of quantiles: enough for a mean of such a spread. */
static void moments(const double *values, int n, double *mean, double *deviation)
{
  double sum = 0, squares = 0;

  for (int i = 0; i < n; i++)
    sum += values[i];
  *mean = sum / n;
  for (int i = 0; i < n; i++)
    squares += pow(values[i] - *mean, 2);
  *deviation = sqrt(squares / (n - 1));
}

/* Layers with experts over all of two nodes, nothing that runs beside the passes. */
static void setup(Planned *f, double load)
{
  planned_init(f, fixture_experts(6, 1024, 8, 16, 1024, 1000), fixture_cluster("dgx-h100", EP), "megatron-core");
  planned_spread(f, 4);
  f->cluster->device.rate_spread = 0;
  f->plan.ep = EP;
  f->plan.expert_load = load;
  planned_accept(f);
}

static Routing *routing_of(Planned *f)
{
  planned_build(f);
  return routing_new(f->model, &f->plan, f->cluster, f->program);
}

/* Rows of the busiest rank over an even share, less 1, of tokens that choose ranks alike. */
static double busiest_by_chance(gsl_rng *rng, int rows)
{
  double alike[EP];
  unsigned counts[EP], most = 0;

  for (int i = 0; i < EP; i++)
    alike[i] = 1;
  gsl_ran_multinomial(rng, EP, EP * rows, alike, counts);
  for (int i = 0; i < EP; i++)
    most = MAX(most, counts[i]);
  return most / (double)rows - 1;
}

START_TEST(tokens_fall_by_chance)
{
  double drawn[DRAWS], thrown[DRAWS], mean[2], deviation[2];
  gsl_rng *rng = gsl_rng_alloc(gsl_rng_mt19937);
  guint64 random = 1;
  Planned f;

  setup(&f, 1);
  g_autoptr(Routing) routing = routing_of(&f);
  int rows = op_tokens(PASSES(&f.plan)) * model_layer(f.model, f.model->n_layers - 2)->ffn.experts_per_token;
  for (int i = 0; i < DRAWS; i++) {
    drawn[i] = routing_draw(routing, 1, &random);
    thrown[i] = busiest_by_chance(rng, rows);
  }
  moments(drawn, DRAWS, &mean[0], &deviation[0]);
  moments(thrown, DRAWS, &mean[1], &deviation[1]);
  ck_assert_double_eq_tol(mean[0] / mean[1], 1, 0.03);
  ck_assert_double_eq_tol(deviation[0] / deviation[1], 1, 0.05);
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

/* Experts that are popular by themselves: the step is the plan's on average, and varies as one load of each layer. */
START_TEST(popular_in_a_step)
{
  const double load = 1.4, of_eight = 1.423600, spread = sqrt(0.610653 * 0.610653 - 1.0 / EP);
  /* the largest of eight normal values less their mean */
  double mean, deviation;
  Planned f;

  setup(&f, load);
  g_autofree double *all = simulate_plan_draws(f.model, f.cluster, &f.plan, &(Jitter) { 0 }, NULL, 0, DRAWS);
  ck_assert_ptr_nonnull(all);
  moments(all, DRAWS, &mean, &deviation);
  double quiet = step_s(&f, load), slope = (step_s(&f, load + 0.125) - quiet) / 0.125;
  int layers = 0;
  for (int l = 0; l < f.model->n_layers; l++)
    layers += model_layer(f.model, l)->ffn.experts > 0;
  ck_assert_int_gt(layers, 2);
  ck_assert_double_gt(slope, 0.05 * quiet);
  ck_assert_double_eq_tol(mean / quiet, 1, 0.002);
  ck_assert_double_eq_tol(deviation / (slope * (load - 1) / of_eight * spread / sqrt(layers)), 1, 0.05);
  planned_clear(&f);
}
END_TEST

/* By chance, each pass's layers wait for a busiest rank of their own: longer than even loads in each, and hardly
 * spread. */
START_TEST(even_in_the_mean)
{
  double mean, deviation, chance = 0;
  guint64 random = 1;
  Planned f;

  setup(&f, 1);
  g_autoptr(Routing) routing = routing_of(&f);
  for (int i = 0; i < DRAWS; i++)
    chance += routing_draw(routing, 1, &random) / DRAWS;
  g_autofree double *all = simulate_plan_draws(f.model, f.cluster, &f.plan, &(Jitter) { 0 }, NULL, 0, DRAWS);
  moments(all, DRAWS, &mean, &deviation);
  double quiet = step_s(&f, 1), slope = (step_s(&f, 1.125) - quiet) / 0.125;
  ck_assert_double_eq_tol((mean - quiet) / (slope * chance), 1, 0.03);
  ck_assert_double_lt(deviation, 0.3 * (mean - quiet));
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

/* One rank that has all experts, or experts that get their capacity, have no busiest one. */
START_TEST(nothing_to_draw)
{
  Planned f;

  setup(&f, 1.2);
  f.plan.expert_capacity = 1.5;
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

TEST_MAIN("routing", tokens_fall_by_chance, popular_in_a_step, even_in_the_mean, busier_takes_longer,
          nothing_to_draw)
