#include "main.h"
#include "validate/passes.h"
#include "validate/validate.h"

#include <math.h>

START_TEST(notes_are_read)
{
  TimedPasses p;

  ck_assert(timed_passes_init(&p, "128 micro-batches; fwd us per stage [100 250]; bwd us per stage [300 400]; x", 2));
  ck_assert_double_eq_tol(p.forward_s[1], 250e-6, 1e-15);
  ck_assert_double_eq_tol(p.backward_s[0], 300e-6, 1e-15);
  timed_passes_clear(&p);
  ck_assert(!timed_passes_init(&p, "fwd us per stage [100 250]; bwd us per stage [300 400]", 3));
  ck_assert(!timed_passes_init(&p, "fwd us per stage [100 250 1]; bwd us per stage [300 400 1]", 2));
  ck_assert(!timed_passes_init(&p, "fwd us per stage [100 250]", 2));
  ck_assert(!timed_passes_init(&p, "fwd us per stage [100 x]; bwd us per stage [300 400]", 2));
  ck_assert_ptr_null(p.forward_s);
}
END_TEST

/* With the passes' measured times, 1F1B with even and uneven stages: what is
 * left is the engine's error, 1.5 % at most on the mean. */
START_TEST(engine_error)
{
  g_autoptr(Validation) v = validation_new(-1);
  double error = 0;
  int rows = 0;

  v->timed_passes = TRUE;
  ck_assert(validation_add_file(v, "tests/validation/vocabpar.csv", NULL));
  for (guint i = 0; i < v->cases->len; i++) {
    const CaseResult *r = g_ptr_array_index(v->cases, i);
    static const char *const whole[] = { "vocabpar-1", "vocabpar-6", "vocabpar-16", "vocabpar-21", "vocabpar-22",
                                         "vocabpar-27", "vocabpar-32", "vocabpar-36", NULL };
    ck_assert_ptr_null(r->skipped);
    if (!g_strv_contains(whole, r->id))
      continue;
    error += fabs(case_error_pct(r));
    rows++;
  }
  ck_assert_int_eq(rows, 8);
  ck_assert_double_le(error / rows, 1.5);
}
END_TEST

/* A row without them is skipped, and nothing was simulated for it. */
START_TEST(untimed_rows_are_skipped)
{
  g_autoptr(Validation) v = validation_new(-1);

  v->timed_passes = TRUE;
  ck_assert(validation_add_file(v, "tests/validation/zb.csv", NULL));
  for (guint i = 0; i < v->cases->len; i++) {
    const CaseResult *r = g_ptr_array_index(v->cases, i);
    ck_assert_str_eq(r->skipped, "passes not timed");
    ck_assert_ptr_null(r->software);
    ck_assert_ptr_null(r->simulated);
  }
}
END_TEST

TEST_MAIN("validate passes", notes_are_read, engine_error, untimed_rows_are_skipped)
