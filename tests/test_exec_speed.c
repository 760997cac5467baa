/* The reference product that tells the speed of the moment, in calibrations and between steps of a run. */
#include "calibrate/bench.h"
#include "calibrate/measure.h"
#include "calibrate/speed.h"
#include "exec/cpu/cpu.h"
#include "main.h"

enum { CALLS_MAX = 64 };

static ExecGemm calls[CALLS_MAX];
static int n_calls;

static void note_gemm(Backend *b, BackendStream *s, const ExecGemm *g)
{
  (void)b, (void)s;
  ck_assert_int_lt(n_calls, CALLS_MAX);
  calls[n_calls++] = *g;
}

static Backend *noting_backend(void)
{
  char message[EXEC_ERROR_SIZE];
  Backend *b = cpu_open(&(BackendOptions) { .size = 1, .dtype = EXEC_F32 }, message);

  b->gemm = note_gemm;
  n_calls = 0;
  return b;
}

static gboolean same_operands(const ExecGemm *x, const ExecGemm *y)
{
  return x->a == y->a && x->b == y->b && x->c == y->c && x->m == y->m && x->n == y->n && x->k == y->k;
}

/* Wherever the pools' places are, also where the second call's own would begin anew. */
START_TEST(the_product_that_is_timed_has_the_operands_of_the_one_before)
{
  Backend *b = noting_backend();
  Bench bench;

  ck_assert(bench_init(&bench, b));
  for (int i = 0; i < CALLS_MAX / 2; i++) {
    bench_reference(&bench, FALSE);
    bench_reference(&bench, TRUE);
    ck_assert(same_operands(&calls[2 * i], &calls[2 * i + 1]));
    ck_assert_msg(i == 0 || calls[2 * i].b != calls[2 * i - 1].b, "pair %d: the operands before it", i);
  }
  n_calls = 0;
  bench_take(&bench, 1, bench.pool_bytes - 64); /* as if a large product had been there */
  bench_reference(&bench, FALSE);
  bench_reference(&bench, TRUE);
  ck_assert(same_operands(&calls[0], &calls[1]));
  bench_clear(&bench);
  b->free(b);
}
END_TEST

/* ---- what is timed ---- */

static double clock_s;
static ExecGemm last;

/* Of a product of cold operands two seconds, of those of the product before it one. */
static void slow_when_cold(Backend *b, BackendStream *s, const ExecGemm *g)
{
  (void)b, (void)s;
  clock_s += same_operands(g, &last) ? 1 : 2;
  last = *g;
}

static double told_s(Backend *b)
{
  (void)b;
  return clock_s;
}

static void record(Backend *b, BackendEvent *e, BackendStream *s)
{
  (void)b, (void)s;
  e->recorded++, e->done++;
  e->seconds = clock_s;
}

static Backend *slow_backend(void)
{
  Backend *b = noting_backend();

  b->gemm = slow_when_cold;
  b->now_s = told_s;
  b->event_record = record;
  b->withheld = NULL;
  last = (ExecGemm) { 0 };
  return b;
}

START_TEST(a_run_times_products_of_operands_in_the_caches)
{
  char message[EXEC_ERROR_SIZE];
  Backend *b = slow_backend();
  BackendComm *world = b->comm_new(b, 0, 0, message);
  Speed *speed = speed_new(b, world);

  for (int i = 0; i < 3; i++)
    ck_assert_double_eq_tol(speed_reference_s(speed), 1, 1e-12);
  speed_free(speed);
  b->comm_free(b, world);
  b->free(b);
}
END_TEST

/* The same that a run finds, whatever the points before have left in the caches. */
START_TEST(a_calibration_times_products_of_operands_in_the_caches)
{
  MachinePoint products[] = {
    { .kind = POINT_MATMUL, .name = "nt", .m = 64, .n = 192, .k = 192, .ranks = 1, .busy = 1 },
    { .kind = POINT_MATMUL, .name = "tn", .m = 512, .n = 96, .k = 64, .ranks = 1, .busy = 1 },
  };
  MeasureOptions options = { .rounds = 20, .budget_s = 1e9, .limit_s = 1e9, .processors = 1 };
  g_autoptr(GArray) points = g_array_new(FALSE, FALSE, sizeof(MachinePoint));
  MeasureCounts counts;
  Backend *b = slow_backend();
  int found = 0;

  g_array_append_vals(points, products, G_N_ELEMENTS(products));
  ck_assert(measure_points(b, &options, points, &counts, NULL));
  for (guint i = 0; i < points->len; i++) {
    const MachinePoint *p = &g_array_index(points, MachinePoint, i);
    if (!point_like(p, POINT_REFERENCE, "mean", FALSE))
      continue;
    ck_assert_double_eq_tol(p->seconds, 1, 1e-12);
    found++;
  }
  ck_assert_int_eq(found, 1);
  b->free(b);
}
END_TEST

TEST_MAIN("exec: speed", the_product_that_is_timed_has_the_operands_of_the_one_before,
          a_run_times_products_of_operands_in_the_caches, a_calibration_times_products_of_operands_in_the_caches)
