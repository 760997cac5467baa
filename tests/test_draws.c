/* A step as a distribution: against every rank's own clock and the order statistics of normal values. */
#include "main.h"
#include "planned.h"
#include "sim/ranks.h"

#include <math.h>

#define DRAWS 10000

/* With ZeRO nothing of data parallelism runs beside the passes. */
static void setup_zero(Planned *f, int tp, int pp, int dp, int zero)
{
  planned_init(f, fixture_model(12, 2048, 16, 64, 512), fixture_cluster("dgx", 8), "torchtitan");
  planned_divide(f, tp, pp, dp);
  f->plan.global_batch = 8 * dp;
  f->plan.schedule = schedule_find("1f1b");
  f->plan.zero = zero;
  if (zero)
    f->plan.overlap.parameters = f->plan.overlap.gradients = FALSE;
  planned_build(f);
}

static void setup(Planned *f, int tp, int pp, int dp)
{
  setup_zero(f, tp, pp, dp, 0);
}

static double *draws(const Planned *f, Jitter jitter, const Straggler *straggler, int n)
{
  double *seconds = simulate_draws(f->program, LAYOUT(&f->plan), f->cluster, &jitter, straggler, straggler != NULL, n);

  ck_assert_ptr_nonnull(seconds);
  return seconds;
}

static double with_straggler(const Planned *f, Straggler straggler)
{
  g_autoptr(RankRun) run = simulate_ranks(f->program, LAYOUT(&f->plan), f->cluster, &straggler, 1);
  return run->end_s;
}

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

/* In passes, of a rank. */
static double computed_s(const Planned *f, double *squares)
{
  double sum = 0;

  for (guint i = 0; i < f->program->tasks->len; i++) {
    const Task *t = &g_array_index(f->program->tasks, Task, i);
    double compute = t->kind == TASK_PASS ? g_array_index(f->program->segments, Segment, t->segment).compute_s : 0;
    sum += compute;
    *squares += compute * compute;
  }
  return sum;
}

static const int degrees[][3] = { { 1, 1, 8 }, { 4, 1, 2 }, { 2, 2, 2 }, { 1, 4, 1 }, { 8, 1, 8 }, { 2, 4, 8 } };

/* Without jitter each draw is the step of every rank, with a straggler too. */
START_TEST(nothing_drawn)
{
  Planned f;
  Straggler straggler = { 1, 1.3 };

  setup(&f, degrees[_i][0], degrees[_i][1], degrees[_i][2]);
  g_autoptr(RankRun) run = simulate_ranks(f.program, LAYOUT(&f.plan), f.cluster, NULL, 0);
  g_autofree double *quiet = draws(&f, (Jitter) { 0 }, NULL, 3), *slow = draws(&f, (Jitter) { 0 }, &straggler, 3);
  double slowed = with_straggler(&f, straggler);
  for (int i = 0; i < 3; i++) {
    ck_assert_double_eq_tol(quiet[i] / run->end_s, 1, 1e-12);
    ck_assert_double_eq_tol(slow[i] / slowed, 1, 1e-12);
  }
  ck_assert_double_gt(slowed, run->end_s * 1.01);
  planned_clear(&f);
}
END_TEST

/* Where all ranks meet, the step is that of the slowest of n: mean and deviation of the largest of n normal values
 * (Harter 1961, table 1; deviations by integration). */
START_TEST(slowest_of_n)
{
  static const struct {
    int tp, dp;
    double mean, deviation;
  } cases[] = { { 1, 2, 0.564190, 0.825645 }, { 1, 8, 1.423600, 0.610653 }, { 8, 1, 1.423600, 0.610653 },
                { 8, 8, 2.343734, 0.451095 } };
  const double spread = 0.02;
  double mean, deviation;
  Planned f;

  setup(&f, cases[_i].tp, 1, cases[_i].dp);
  for (guint i = 0; i < f.program->segments->len; i++) {
    g_array_index(f.program->segments, Segment, i).slowdown = 1;
    g_array_index(f.program->segments, Segment, i).slack_s = 0; /* of no device's slowness its host hides anything */
  }
  g_autofree double *all = draws(&f, (Jitter) { .device = spread }, NULL, DRAWS);
  double quiet = with_straggler(&f, (Straggler) { 0, 1 });
  double gain = with_straggler(&f, (Straggler) { 0, 1 + spread }) - quiet;
  moments(all, DRAWS, &mean, &deviation);
  ck_assert_double_eq_tol((mean - quiet) / gain / cases[_i].mean, 1, 0.01);
  ck_assert_double_eq_tol(mean / (quiet + gain * cases[_i].mean), 1, 0.001);
  ck_assert_double_eq_tol(deviation / gain / cases[_i].deviation, 1, 0.03);
  planned_clear(&f);
}
END_TEST

/* Passes vary each by itself: a group of ranks that all wait for one another takes the sum of the slowest, which many
 * passes average out. */
START_TEST(passes_average_out)
{
  static const struct {
    int tp;
    double mean, deviation; /* of the largest of so many normal values */
  } cases[] = { { 1, 0, 1 }, { 8, 1.423600, 0.610653 } };
  const double spread = 0.02;
  double mean, deviation, squares = 0;
  Planned f;

  setup(&f, cases[_i].tp, 1, 1);
  g_autofree double *all = draws(&f, (Jitter) { .pass = spread }, NULL, DRAWS);
  double sum = computed_s(&f, &squares);
  g_autoptr(RankRun) run = simulate_ranks(f.program, LAYOUT(&f.plan), f.cluster, NULL, 0);
  moments(all, DRAWS, &mean, &deviation);
  ck_assert_double_eq_tol((mean - run->end_s) / (spread * sum), cases[_i].mean, 0.01);
  ck_assert_double_eq_tol(deviation / (spread * sqrt(squares)) / cases[_i].deviation, 1, 0.03);
  planned_clear(&f);
}
END_TEST

/* Ranks that gather weights wait for the slowest of each piece, not of the step alone. */
START_TEST(gathers_join_ranks)
{
  double mean, deviation, longer[2], squares = 0;

  for (int i = 0; i < 2; i++) {
    Planned f;
    setup_zero(&f, 2, 1, 4, i ? 3 : 1);
    g_autoptr(RankRun) run = simulate_ranks(f.program, LAYOUT(&f.plan), f.cluster, NULL, 0);
    g_autofree double *all = draws(&f, (Jitter) { .pass = 0.05 }, NULL, 2000);
    moments(all, 2000, &mean, &deviation);
    longer[i] = (mean - run->end_s) / computed_s(&f, &squares);
    planned_clear(&f);
  }
  ck_assert_msg(longer[1] > 1.2 * longer[0], "%g %g", longer[0], longer[1]);
}
END_TEST

/* A step is the same however many are drawn, and its parts add to what is drawn. */
START_TEST(steps_are_their_own)
{
  const Jitter all = { 0.015, 0.02, 0.05 };
  double mean[3], deviation;
  Planned f;

  setup(&f, degrees[_i][0], degrees[_i][1], degrees[_i][2]);
  g_autofree double *few = draws(&f, all, NULL, 70), *many = draws(&f, all, NULL, 1000);
  for (int i = 0; i < 70; i++)
    ck_assert_double_eq(few[i], many[i]);
  ck_assert_double_ne(many[0], many[1]);
  g_autofree double *devices = draws(&f, (Jitter) { .device = 0.015 }, NULL, 1000);
  g_autofree double *passes = draws(&f, (Jitter) { .device = 0.015, .pass = 0.02 }, NULL, 1000);
  moments(devices, 1000, &mean[0], &deviation);
  moments(passes, 1000, &mean[1], &deviation);
  moments(many, 1000, &mean[2], &deviation);
  ck_assert_double_le(mean[0], mean[1] * (1 + 1e-3));
  ck_assert_double_le(mean[1], mean[2] * (1 + 1e-3));
  planned_clear(&f);
}
END_TEST

/* The jitter of links alone slows what is sent, not what is computed. */
START_TEST(links)
{
  double mean, deviation;
  Planned f;

  setup(&f, 1, 1, 8);
  for (guint i = 0; i < f.program->segments->len; i++) {
    Segment *s = &g_array_index(f.program->segments, Segment, i);
    s->seconds = s->kind == TASK_PASS || s->kind == TASK_OPTIMIZER ? 0 : s->seconds;
    s->compute_s = 0;
  }
  g_autoptr(RankRun) run = simulate_ranks(f.program, LAYOUT(&f.plan), f.cluster, NULL, 0);
  g_autofree double *all = draws(&f, (Jitter) { .link = 0.05 }, NULL, DRAWS);
  moments(all, DRAWS, &mean, &deviation);
  double transfers = run->end_s - f.program->step_s;
  ck_assert_double_gt(transfers, 0);
  ck_assert_double_eq_tol((mean - run->end_s) / transfers / 0.05 / 1.4236, 1, 0.02);
  planned_clear(&f);
}
END_TEST

TEST_LOOPS("draws", { nothing_drawn, G_N_ELEMENTS(degrees) }, { slowest_of_n, 4 }, { passes_average_out, 2 },
           { gathers_join_ranks }, { steps_are_their_own, G_N_ELEMENTS(degrees) }, { links })
