/* Which samples a calibration keeps: those in which the processor was its own, in as many rounds as time allows, at the
 * speed of the whole run; and how one ends that cannot go on. On a backend whose clock the test turns. */
#include "base/error.h"
#include "calibrate/measure.h"
#include "exec/cpu/cpu.h"
#include "main.h"

enum { REFERENCE = 192, ROUNDS = 8, TRIES = 8, CHOICES = 2, /* samples of each point before the rounds */
       LEAST = 3, /* the try of a round that is disturbed least */
       LOST = 3,  /* rounds in which all tries of a product are disturbed */
       RETAKEN = 300, MIXED, WITHHELD };
#define PRODUCT_S 2e-3 /* twice the reference's, at the first speed */
#define SLOWER 10 /* times as long, and more, takes a product whose processor is withheld */

static struct {
  double clock_s, speed, withheld_s;
  gboolean drifts;                /* every other sample is at half the speed */
  int samples, of[WITHHELD + 1];  /* of all points, of a product by its m */
  int products, collectives, fails_after;
  int progress, of_progress;      /* the last that were told */
} run;

/* How much longer the next product takes as its processor is withheld: at every other sample of a round, in all of the
 * first rounds, or always. */
static int slower(int m)
{
  int sample = run.of[m] - CHOICES - 1;
  gboolean lost = m == WITHHELD || (sample >= 0 && m == RETAKEN && sample % 2 == 0) ||
                  (sample >= 0 && m == MIXED && sample < LOST * TRIES);

  return lost ? SLOWER + abs(sample % TRIES - LEAST) : 1;
}

static void product(Backend *b, BackendStream *s, const ExecGemm *g)
{
  static int counted; /* the last sample whose product was counted */
  double lasts_s = (g->m == REFERENCE ? PRODUCT_S / 2 : PRODUCT_S) / run.speed;

  (void)b, (void)s;
  run.products++;
  if (g->m >= RETAKEN) {
    if (counted != run.samples)
      run.of[g->m]++;
    counted = run.samples;
    if (slower(g->m) > 1)
      run.withheld_s += lasts_s *= slower(g->m);
  }
  run.clock_s += lasts_s;
}

static void meet(Backend *b, BackendComm *comm, BackendStream *s)
{
  (void)b, (void)comm, (void)s;
  run.samples++;
  run.speed = run.drifts && run.samples % 2 ? 0.5 : 1;
}

/* Among ranks all reduce times; what rank 0 agrees on with this one is 1. */
static void reduce(Backend *b, BackendComm *comm, BackendStream *s, void *x, size_t n, ExecType type, ExecReduce op)
{
  double *values = x;

  (void)comm, (void)s;
  if (type != EXEC_F64) {
    run.collectives++;
    run.clock_s += PRODUCT_S;
  } else if (b->rank > 0 && n == 1 && op == EXEC_SUM) {
    values[0] = 1;
  }
}

static double told_s(Backend *b)
{
  (void)b;
  return run.clock_s;
}

static BackendWithheld withheld(Backend *b)
{
  (void)b;
  return (BackendWithheld) { .ready_s = run.withheld_s };
}

static void record(Backend *b, BackendEvent *e, BackendStream *s)
{
  (void)b, (void)s;
  e->recorded++, e->done++;
  e->seconds = run.clock_s;
}

static const char *cut(Backend *b)
{
  (void)b;
  return run.products > run.fails_after ? "the cable is cut" : NULL;
}

static void leave(Backend *b, BackendStream *s, size_t n, const void *x, ExecType from, void *y, ExecType to)
{
  (void)b, (void)s, (void)n, (void)x, (void)from, (void)y, (void)to;
}

static void progress(int done, int of, gpointer data)
{
  (void)data;
  run.progress = done, run.of_progress = of;
}

static Backend *open_one(void)
{
  char message[EXEC_ERROR_SIZE];
  Backend *b = cpu_open(&(BackendOptions) { .size = 1, .dtype = EXEC_F32 }, message);

  memset(&run, 0, sizeof run);
  run.speed = 1, run.fails_after = G_MAXINT;
  b->gemm = product, b->now_s = told_s, b->event_record = record, b->withheld = withheld, b->failed = cut;
  b->barrier = meet, b->all_reduce = reduce, b->cast = leave;
  return b;
}

static void add_point(GArray *points, PointKind kind, const char *name, int m, int busy)
{
  MachinePoint p = { .kind = kind, .m = m, .n = 16, .k = 16, .busy = busy, .ranks = busy, .bytes = 1 << 16 };

  g_strlcpy(p.name, name, sizeof p.name);
  g_array_append_val(points, p);
}

static GArray *one_product(int m)
{
  GArray *points = g_array_new(FALSE, FALSE, sizeof(MachinePoint));

  add_point(points, POINT_MATMUL, "nt", m, 1);
  return points;
}

static const MachinePoint *at(const GArray *points, guint i)
{
  ck_assert_uint_lt(i, points->len);
  return &g_array_index(points, MachinePoint, i);
}

static MeasureOptions lasting(double budget_s, double limit_s)
{
  return (MeasureOptions) { .rounds = ROUNDS, .budget_s = budget_s, .limit_s = limit_s, .processors = 1,
                            .progress = progress };
}

/* Samples in which the processor was withheld are taken again, and count only where there is no other. */
START_TEST(withheld_samples_are_taken_again)
{
  const MeasureOptions options = lasting(1e9, 1e9);
  g_autoptr(GArray) points = one_product(RETAKEN);
  MeasureCounts counts;
  Backend *b = open_one();

  add_point(points, POINT_MATMUL, "nt", WITHHELD, 1);
  add_point(points, POINT_MATMUL, "nt", MIXED, 1);
  ck_assert(measure_points(b, &options, points, &counts, NULL));
  ck_assert_double_eq_tol(at(points, 0)->high_s, PRODUCT_S, 1e-12);
  ck_assert_double_eq_tol(at(points, 0)->low_s, PRODUCT_S, 1e-12);
  ck_assert_double_eq_tol(at(points, 1)->seconds, SLOWER * PRODUCT_S, 1e-12);
  ck_assert_int_eq(at(points, 1)->rounds, ROUNDS);
  ck_assert_int_eq(at(points, 2)->rounds, ROUNDS - LOST);
  ck_assert_double_eq_tol(at(points, 2)->high_s, PRODUCT_S, 1e-12);
  ck_assert_int_eq(counts.taken, ROUNDS * (2 + TRIES) + LOST * TRIES + ROUNDS - LOST);
  ck_assert_int_eq(counts.discarded, ROUNDS * (1 + TRIES) + LOST * TRIES);
  ck_assert_int_eq(run.progress, run.of_progress);
  b->free(b);
}
END_TEST

/* A product that follows the reference takes twice its time on average, whenever it was timed. */
START_TEST(samples_are_as_at_the_speed_of_the_run)
{
  const MeasureOptions options = lasting(1e9, 1e9);
  g_autoptr(GArray) points = one_product(REFERENCE + 1);
  MeasureCounts counts;
  Backend *b = open_one();

  run.drifts = TRUE;
  ck_assert(measure_points(b, &options, points, &counts, NULL));
  ck_assert_str_eq(at(points, 1)->name, "mean");
  ck_assert_double_eq_tol(at(points, 1)->seconds, 0.75 * PRODUCT_S, 1e-12);
  ck_assert_double_eq_tol(at(points, 0)->seconds, 2 * at(points, 1)->seconds, 1e-12);
  ck_assert_double_eq_tol(at(points, 0)->low_s, at(points, 0)->high_s, 1e-12);
  ck_assert_int_eq(counts.discarded, 0);
  b->free(b);
}
END_TEST

/* Three rounds where the budget is out, one where the limit is. */
START_TEST(rounds_end_when_time_does)
{
  static const struct { double budget_s, limit_s; int rounds; } ends[] = { { 0, 1e9, 3 }, { 0, 0, 1 } };

  for (gsize i = 0; i < G_N_ELEMENTS(ends); i++) {
    const MeasureOptions options = lasting(ends[i].budget_s, ends[i].limit_s);
    g_autoptr(GArray) points = one_product(WITHHELD);
    MeasureCounts counts;
    Backend *b = open_one();
    ck_assert(measure_points(b, &options, points, &counts, NULL));
    ck_assert_int_eq(at(points, 0)->rounds, ends[i].rounds);
    ck_assert_int_eq(counts.taken, ends[i].limit_s > 0 ? ends[i].rounds * TRIES : 1);
    b->free(b);
  }
}
END_TEST

/* A rank without a processor of its own computes nothing, not even the reference, and communicates. */
START_TEST(ranks_beyond_the_processors_only_communicate)
{
  const MeasureOptions options = { .rounds = 3, .budget_s = 1e9, .limit_s = 1e9, .processors = 1 };
  g_autoptr(GArray) points = one_product(REFERENCE + 1);
  MeasureCounts counts;
  Backend *b = open_one();

  add_point(points, POINT_COLLECTIVE, "all-reduce", 0, 2);
  b->rank = 1, b->size = 2;
  ck_assert(measure_points(b, &options, points, &counts, NULL));
  b->size = 1;
  ck_assert_int_eq(run.products, 0);
  ck_assert_int_ge(run.collectives, CHOICES + 3);
  ck_assert_double_eq(at(points, 0)->seconds, 0);
  ck_assert_double_eq_tol(at(points, 1)->seconds, PRODUCT_S / 2, 1e-12); /* its half of the ranks' mean */
  b->free(b);
}
END_TEST

static void *no_memory(Backend *b, BackendStream *s, size_t bytes)
{
  (void)b, (void)s, (void)bytes;
  return NULL;
}

static int groups_left;

static BackendComm *no_group(Backend *b, int color, int key, char *error)
{
  static BackendComm world;

  (void)b, (void)color, (void)key;
  if (groups_left-- > 0)
    return &world;
  g_strlcpy(error, "no such group", EXEC_ERROR_SIZE);
  return NULL;
}

static void keep_group(Backend *b, BackendComm *comm)
{
  (void)b, (void)comm;
}

static void refused(Backend *b, const char *message)
{
  const MeasureOptions options = lasting(1e9, 1e9);
  g_autoptr(GArray) points = one_product(REFERENCE + 1);
  MeasureCounts counts;
  GError *error = NULL;

  ck_assert(!measure_points(b, &options, points, &counts, &error));
  test_error(&error, TDP_ERROR_RUNTIME, message);
  b->size = 1;
  b->free(b);
}

START_TEST(failures_end_the_run_with_their_line)
{
  Backend *b = open_one();

  run.fails_after = 20;
  refused(b, "backend cpu: the cable is cut");
  b = open_one();
  b->alloc = no_memory;
  refused(b, "backend cpu: out of memory");
  for (groups_left = 0; groups_left < 2; groups_left++) {
    int left = groups_left;
    b = open_one();
    b->size = 2, b->comm_new = no_group, b->comm_free = keep_group;
    refused(b, "backend cpu: no such group");
    groups_left = left;
  }
}
END_TEST

TEST_MAIN("exec: samples", withheld_samples_are_taken_again, samples_are_as_at_the_speed_of_the_run,
          rounds_end_when_time_does, ranks_beyond_the_processors_only_communicate, failures_end_the_run_with_their_line)
