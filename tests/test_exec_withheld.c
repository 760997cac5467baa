/* Samples and steps in which processors were withheld: found, taken again, told apart. */
#include "calibrate/measure.h"
#include "cli/run_steps.h"
#include "exec/cpu/cpu.h"
#include "main.h"

#define POINTS 2
#define ROUNDS 3
#define TRIES 8 /* of calibrate/measure.c */

/* A rank that lacks its processor in one of so many samples, each of which asks twice. */
typedef struct {
  int one_of, calls;
  double lacked_s;
} Fake;

static BackendWithheld fake_withheld(Backend *b)
{
  Fake *fake = b->poll_data;
  int sample = fake->calls / 2;

  if (fake->calls++ % 2 == 1 && sample % fake->one_of == 0)
    fake->lacked_s += 1;
  return (BackendWithheld) { .ready_s = fake->lacked_s };
}

static MeasureCounts counts_of(Fake *fake)
{
  const MeasureOptions options = { .rounds = ROUNDS, .budget_s = 20, .limit_s = 20, .processors = 1 };
  g_autoptr(GArray) points = g_array_new(FALSE, FALSE, sizeof(MachinePoint));
  char message[EXEC_ERROR_SIZE];
  Backend *b = cpu_open(&(BackendOptions) { .size = 1, .dtype = EXEC_F32 }, message);
  MeasureCounts counts;

  b->withheld = fake ? fake_withheld : NULL;
  b->poll_data = fake;
  for (int i = 0; i < POINTS; i++) {
    MachinePoint p = { .kind = POINT_MATMUL, .name = "nt", .m = 32, .n = 32, .k = 32 << i, .ranks = 1, .busy = 1 };
    g_array_append_val(points, p);
  }
  ck_assert(measure_points(b, &options, points, &counts, NULL));
  for (int i = 0; i < POINTS; i++) {
    ck_assert_double_gt(g_array_index(points, MachinePoint, i).seconds, 0);
    ck_assert_int_eq(g_array_index(points, MachinePoint, i).rounds, ROUNDS);
  }
  b->free(b);
  return counts;
}

START_TEST(nothing_is_discarded_unasked)
{
  MeasureCounts counts = counts_of(NULL);

  ck_assert_int_eq(counts.taken, POINTS * ROUNDS);
  ck_assert_int_eq(counts.discarded, 0);
}
END_TEST

START_TEST(disturbed_samples_are_taken_again)
{
  Fake fake = { .one_of = 2 };
  MeasureCounts counts = counts_of(&fake);

  ck_assert_int_eq(counts.taken - counts.discarded, POINTS * ROUNDS);
  ck_assert_int_eq(counts.discarded, POINTS * ROUNDS);
}
END_TEST

START_TEST(tries_end)
{
  Fake fake = { .one_of = 1 };
  MeasureCounts counts = counts_of(&fake);

  ck_assert_int_eq(counts.taken, POINTS * ROUNDS * TRIES);
  ck_assert_int_eq(counts.discarded, counts.taken);
}
END_TEST

/* Spinning takes a processor's time, sleeping does not lack it. */
START_TEST(own_time_is_not_withheld)
{
  char message[EXEC_ERROR_SIZE];
  Backend *b = cpu_open(&(BackendOptions) { .size = 1, .dtype = EXEC_F32 }, message);
  BackendWithheld from = b->withheld(b), until;
  double start = b->now_s(b);

  while (b->now_s(b) < start + 0.05)
    ;
  until = b->withheld(b);
  ck_assert_double_ge(until.ready_s, from.ready_s - 1e-3);
  ck_assert_double_ge(until.stolen_s, from.stolen_s);
  ck_assert_double_le(until.ready_s - from.ready_s, b->now_s(b) - start);
  b->free(b);
}
END_TEST

START_TEST(steps_are_told_apart)
{
  const RunStep all[] = { { { .step_s = 9, .withheld = 0 } }, { { .step_s = 1, .withheld = 0.01 } },
                          { { .step_s = 4, .withheld = 0.5 } }, { { .step_s = 3, .withheld = 0.03 } } };
  g_autoptr(GArray) steps = g_array_new(FALSE, FALSE, sizeof(RunStep));

  g_array_append_vals(steps, all, 1);
  ck_assert_double_eq(run_step_means(steps).mean_s, 9); /* alone it counts */
  g_array_append_vals(steps, all + 1, 3);
  StepMeans m = run_step_means(steps);
  ck_assert_int_eq(m.all, 3);
  ck_assert_int_eq(m.undisturbed, 2);
  ck_assert_double_eq_tol(m.mean_s, 8.0 / 3, 1e-12);
  ck_assert_double_eq_tol(m.undisturbed_s, 2, 1e-12);
  ck_assert_double_eq_tol(m.withheld, 0.18, 1e-12);
  g_autofree char *text = run_steps_text(steps, 1000);
  ck_assert_ptr_nonnull(strstr(text, "2.00 s over the 2 of 3 steps in which processors were not withheld"));
}
END_TEST

TEST_MAIN("withheld", nothing_is_discarded_unasked, disturbed_samples_are_taken_again, tries_end,
          own_time_is_not_withheld, steps_are_told_apart)
