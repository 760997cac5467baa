/* The allowance for the slowest of several devices: against tables, integrals and drawn steps. */
#include "cost/slowest.h"
#include "main.h"
#include "planned.h"
#include "sim/ranks.h"
#include "sim/simulate.h"

#include <math.h>

/* Harter 1961, table 1; closed forms of two and three. */
START_TEST(tabled)
{
  static const struct {
    int n;
    double mean;
  } known[] = { { 1, 0 }, { 2, 0.5641895835 }, { 3, 0.8462843753 }, { 4, 1.02938 }, { 5, 1.16296 }, { 10, 1.53875 },
                { 20, 1.86748 }, { 50, 2.24907 }, { 100, 2.50759 }, { 200, 2.74604 }, { 400, 2.96818 },
                { 1000, 3.24144 } };

  for (gsize i = 0; i < G_N_ELEMENTS(known); i++)
    ck_assert_double_eq_tol(expected_largest(known[i].n), known[i].mean, known[i].n < 4 ? 1e-10 : 1e-5);
}
END_TEST

/* The integral of 1 - Phi(x)^n - Phi(-x)^n over x > 0, by Simpson's rule. */
static double integrated(int n)
{
  const int steps = 20000;
  const double end = 12, h = end / steps;
  double sum = 0;

  for (int i = 0; i <= steps; i++) {
    double above = erfc(i * h / G_SQRT2) / 2;
    double value = -expm1(n * log1p(-above)) - pow(above, n);
    sum += value * (i == 0 || i == steps ? 1 : i % 2 ? 4 : 2);
  }
  return sum * h / 3;
}

START_TEST(every_size)
{
  double before = 0;

  for (int n = 2; n < 2000000; n += 1 + n / 9) {
    double mean = expected_largest(n);
    ck_assert_double_eq_tol(mean, integrated(n), n < 10000 ? 1e-9 : 1e-7);
    ck_assert_double_gt(mean, before);
    ck_assert_double_lt(mean, sqrt(2 * log(n)));
    before = mean;
  }
}
END_TEST

static double end_of(const Planned *f)
{
  g_autoptr(Trace) trace = simulate_plan(f->model, f->cluster, &f->plan);

  return trace->end_s;
}

static double drawn_mean(const Planned *f, const Jitter *jitter, int n)
{
  g_autofree double *drawn = simulate_plan_draws(f->model, f->cluster, &f->plan, jitter, NULL, 0, n);
  double mean = 0;

  ck_assert_ptr_nonnull(drawn);
  for (int i = 0; i < n; i++)
    mean += drawn[i] / n;
  return mean;
}

/* A predicted step says how long drawn ones take on average where all ranks meet in each of them. Stages wait for the
 * slowest of them in part, so that the allowance is too much there. */
START_TEST(as_drawn)
{
  static const struct {
    int tp, pp, dp;
    double least; /* of the allowance that is drawn */
  } cases[] = { { 1, 1, 2, 0.99 }, { 8, 1, 1, 0.99 }, { 1, 1, 8, 0.99 }, { 8, 1, 8, 0.99 }, { 8, 1, 128, 0.99 },
                { 1, 8, 1, 0.3 }, { 2, 4, 8, 0.4 } };
  const Jitter none = { 0 };
  Planned f;

  planned_init(&f, fixture_model(16, 2048, 16, 2048, 512), fixture_cluster("dgx", 8), "torchtitan");
  planned_divide(&f, cases[_i].tp, cases[_i].pp, cases[_i].dp);
  f.plan.global_batch = 64 * cases[_i].dp; /* beside which the optimizer, which is drawn but has no allowance, is nothing */
  f.framework->issue_s = 0;
  f.cluster->device.rate_spread = 0.015;
  f.cluster->device.rate_passing = 0;
  planned_accept(&f);
  g_autoptr(Trace) predicted = simulate_plan(f.model, f.cluster, &f.plan);
  double mean = drawn_mean(&f, &none, 4000);
  f.cluster->device.rate_spread = 0;
  g_autoptr(Trace) even = simulate_plan(f.model, f.cluster, &f.plan);
  double allowed = predicted->end_s - even->end_s;
  ck_assert_double_gt(allowed, 0.005 * even->end_s);
  ck_assert_double_ge(mean - even->end_s, cases[_i].least * allowed);
  ck_assert_double_le(mean - even->end_s, 1.01 * allowed);
  planned_clear(&f);
}
END_TEST

/* A plan of devices that are all alike; with `ep` above 1 of experts that ranks share, whose load is even. */
static void even_init(Planned *f, int tp, int dp, int ep)
{
  gboolean experts = ep > 1;

  planned_init(f, experts ? fixture_experts(8, 1024, 16, 8, 2048, 512) : fixture_model(16, 2048, 16, 2048, 512),
               fixture_cluster("dgx", 8), experts ? "megatron-core" : "torchtitan");
  planned_divide(f, tp, 1, dp);
  f->plan.ep = ep;
  f->plan.expert_capacity = experts; /* which all get: no load is drawn */
  f->plan.global_batch = 64 * dp;
  f->framework->issue_s = 0;
  f->cluster->device.rate_spread = f->cluster->device.rate_passing = 0;
  planned_accept(f);
}

/* Ranks that meet inside passes wait for the slowest of each pass as drawn ones do, whose passes differ as much: of a
 * tensor-parallel group, and of those that share experts. Replicas meet once in many passes, which even out: nothing is
 * allowed for them, and a tenth of it is drawn. */
START_TEST(passes_as_drawn)
{
  static const struct { int tp, dp, ep; } cases[] = { { 8, 1, 1 }, { 1, 8, 8 }, { 1, 8, 1 } };
  const Jitter passes = { .pass = 0.02 };
  Planned f;

  even_init(&f, cases[_i].tp, cases[_i].dp, cases[_i].ep);
  double even_s = end_of(&f);
  f.cluster->device.rate_passing = passes.pass;
  double allowed_s = end_of(&f) - even_s, drawn_s = drawn_mean(&f, &passes, 2000) - even_s;
  if (cases[_i].tp > 1 || cases[_i].ep > 1) {
    ck_assert_double_gt(allowed_s, 0.01 * even_s);
    ck_assert_double_eq_tol(drawn_s / allowed_s, 1, 0.01);
  } else {
    ck_assert_double_eq(allowed_s, 0);
    ck_assert_double_lt(drawn_s, 0.1 * passes.pass * expected_largest(8) * even_s);
  }
  planned_clear(&f);
}
END_TEST

/* What lasts beside what passes, whose squares add up: of one tensor-parallel group; of several, near that. The sum of
 * both, which is 1.2 to 1.4 times as much, is not what is drawn. */
START_TEST(both_as_drawn)
{
  static const struct { int tp, dp, ep; double least, most; } cases[] = {
    { 8, 1, 1, 0.99, 1.01 }, { 8, 8, 1, 0.99, 1.01 }, { 8, 64, 1, 0.96, 1 }, { 2, 8, 1, 1, 1.08 },
    { 2, 128, 1, 1, 1.05 }, { 1, 8, 8, 0.99, 1.01 } };
  const Jitter passes = { .pass = 0.02 };
  Planned f;

  even_init(&f, cases[_i].tp, cases[_i].dp, cases[_i].ep);
  double even_s = end_of(&f);
  f.cluster->device.rate_spread = 0.015;
  f.cluster->device.rate_passing = passes.pass;
  double allowed_s = end_of(&f) - even_s, drawn_s = drawn_mean(&f, &passes, 2000) - even_s;
  ck_assert_double_ge(drawn_s / allowed_s, cases[_i].least);
  ck_assert_double_le(drawn_s / allowed_s, cases[_i].most);
  planned_clear(&f);
}
END_TEST

/* Squares add up, of all ranks of the job and of those that meet: the larger group of the plan's grid and the experts'.
 */
START_TEST(groups_that_meet)
{
  static const struct { int tp, cp, dp, ep, etp, met; } cases[] = {
    { 1, 1, 8, 1, 0, 1 }, { 4, 1, 2, 1, 0, 4 }, { 2, 2, 2, 1, 0, 4 }, { 1, 1, 8, 4, 0, 4 }, { 2, 1, 4, 4, 1, 4 },
    { 4, 1, 2, 2, 1, 4 }, { 2, 1, 4, 4, 2, 8 } };
  Planned f;

  planned_init(&f, fixture_experts(4, 1024, 16, 8, 2048, 512), fixture_cluster("dgx", 8), "megatron-core");
  f.plan.gpus = 8;
  f.plan.tp = cases[_i].tp;
  f.plan.cp = cases[_i].cp;
  f.plan.dp = cases[_i].dp;
  f.plan.ep = cases[_i].ep;
  f.plan.etp = cases[_i].etp;
  f.plan.sequence_parallel = cases[_i].tp > 1;
  f.plan.global_batch = 8;
  planned_accept(&f);
  const PassLayout *passes = &LAYOUT(&f.plan)->passes;
  ck_assert_int_eq(passes->met, cases[_i].met);
  f.cluster->device.rate_spread = 0.03;
  f.cluster->device.rate_passing = 0.04;
  ck_assert_double_eq_tol(slowest_inside(&f.cluster->device, passes, 1),
                          1 + hypot(0.03 * 1.4236003, 0.04 * expected_largest(cases[_i].met)), 1e-8);
  const Meetings often = { .met = cases[_i].met };
  f.cluster->device.rate_jitter = 0.02;
  f.cluster->device.rate_jitter_s = 1;
  ck_assert_double_ge(slowest_of_all(&f.cluster->device, &LAYOUT(&f.plan)->mesh, &often),
                      slowest_inside(&f.cluster->device, passes, 0));
  planned_clear(&f);
}
END_TEST

TEST_LOOPS("slowest", { tabled }, { every_size }, { as_drawn, 7 }, { passes_as_drawn, 3 },
           { both_as_drawn, 6 }, { groups_that_meet, 7 })
