/* In which order a calibration takes its samples: every rank comes to each as the others do. */
#include "calibrate/bench.h"
#include "calibrate/measure.h"
#include "exec/cpu/cpu.h"
#include "main.h"

#include <unistd.h>

enum { RANKS = 2, ROUNDS = 4, REFERENCE = 192, CHOICES = 2, /* samples of each point before the rounds */
       BETWEEN = 4 /* samples at least, between those of one product on one rank and on two */ };

/* One of two ranks, the other of which is as fast: a product takes a second, and one more if the rank's last was of
 * another shape, as its operands are not in the caches then. */
static struct {
  double clock_s;
  int shape[3];
  GArray *samples; /* int: the m of each sample's product, 0 where the rank has no part in it */
} rank;

static void product(Backend *b, BackendStream *s, const ExecGemm *g)
{
  int shape[3] = { g->m, g->n, g->k };

  (void)b, (void)s;
  rank.clock_s += 1;
  if (g->m == REFERENCE)
    return;
  rank.clock_s += memcmp(shape, rank.shape, sizeof shape) ? 1 : 0;
  memcpy(rank.shape, shape, sizeof shape);
  g_array_index(rank.samples, int, rank.samples->len - 1) = g->m;
}

/* Before each sample. */
static void meet(Backend *b, BackendComm *comm, BackendStream *s)
{
  int none = 0;

  (void)b, (void)comm, (void)s;
  g_array_append_val(rank.samples, none);
}

/* What rank 0 says to the second one: that a call makes a block. */
static void reduce(Backend *b, BackendComm *comm, BackendStream *s, void *x, size_t n, ExecType type, ExecReduce op)
{
  double *values = x;

  (void)comm, (void)s, (void)type;
  if (b->rank > 0 && n == 1 && op == EXEC_SUM && values[0] == 0)
    values[0] = 1;
}

static double told_s(Backend *b)
{
  (void)b;
  return rank.clock_s;
}

static void record(Backend *b, BackendEvent *e, BackendStream *s)
{
  (void)b, (void)s;
  e->recorded++, e->done++;
  e->seconds = rank.clock_s;
}

/* Products as a calibration has them, of one rank and of both; `m` tells them apart. */
static GArray *products(void)
{
  MachineHead head = { .ranks = RANKS, .node_ranks = RANKS, .processors = RANKS, .units = 1, .precision = DTYPE_FP32 };
  g_autoptr(GArray) all = points_design(&head);
  GArray *points = g_array_new(FALSE, FALSE, sizeof(MachinePoint));

  for (guint i = 0; i < all->len; i++) {
    MachinePoint p = g_array_index(all, MachinePoint, i);
    if (p.kind != POINT_MATMUL)
      continue;
    p.m = REFERENCE + 1 + (int)points->len - (p.busy > 1), p.n = p.k = 16;
    g_array_append_val(points, p);
  }
  return points;
}

/* The points as one of the ranks times them; the samples that it took part in. */
static GArray *measured(int which, GArray *points)
{
  MeasureOptions options = { .rounds = ROUNDS, .budget_s = 1e9, .limit_s = 1e9, .processors = RANKS };
  char message[EXEC_ERROR_SIZE];
  MeasureCounts counts;
  Backend *b = cpu_open(&(BackendOptions) { .size = 1, .dtype = EXEC_F32 }, message);

  b->rank = which, b->size = RANKS;
  b->gemm = product, b->now_s = told_s, b->event_record = record, b->withheld = NULL;
  b->barrier = meet, b->all_reduce = reduce;
  memset(&rank, 0, sizeof rank);
  rank.samples = g_array_new(FALSE, FALSE, sizeof(int));
  ck_assert(measure_points(b, &options, points, &counts, NULL));
  b->size = 1;
  b->free(b);
  return rank.samples;
}

/* The first of a round with a product, on both ranks or on rank 0 alone. */
static int place(GArray *const samples[RANKS], int from, int n, int m, gboolean together)
{
  for (int i = 0; i < n; i++)
    if (g_array_index(samples[0], int, from + i) == m && (g_array_index(samples[1], int, from + i) == m) == together)
      return i;
  ck_abort_msg("product %d%s: not in the round", m, together ? " of both" : "");
  return -1;
}

START_TEST(one_and_all_take_turns_apart_from_each_other)
{
  g_autoptr(GArray) first = products(), second = products();
  int n = first->len, firsts[2] = { 0 };
  g_autoptr(GArray) of_first = measured(0, first), of_second = measured(1, second);
  GArray *const samples[RANKS] = { of_first, of_second };
  const MachinePoint *p = &g_array_index(second, MachinePoint, 0);

  ck_assert_int_eq(of_first->len, n * (CHOICES + ROUNDS));
  ck_assert_int_eq(of_second->len, of_first->len);
  for (int i = 0; i < n; i++) {
    if (p[i].busy == 1)
      continue;
    gboolean before = FALSE;
    for (int round = 0; round < ROUNDS; round++) {
      int from = n * (CHOICES + round), alone = place(samples, from, n, p[i].m, FALSE);
      int together = place(samples, from, n, p[i].m, TRUE);
      ck_assert_int_ge(abs(alone - together), BETWEEN);
      ck_assert_msg(round == 0 || (alone < together) != before, "product %d: round %d has the same order", p[i].m,
                    round);
      before = alone < together;
      firsts[before]++;
    }
  }
  ck_assert_int_eq(firsts[0], firsts[1]);
}
END_TEST

/* Products that only the caches make shorter do not crowd each other. */
START_TEST(all_ranks_come_alike_to_what_is_timed)
{
  g_autoptr(GArray) first = products(), second = products();
  int n = first->len, pairs = 0;
  g_autoptr(GArray) of_first = measured(0, first), of_second = measured(1, second);

  for (int i = 0; i < n; i++) {
    const MachinePoint *p = &g_array_index(first, MachinePoint, i), *q = &g_array_index(second, MachinePoint, i);
    if (p->busy == 1)
      continue;
    ck_assert_double_eq_tol(p->seconds + q->seconds, p[-1].seconds, 1e-9); /* each half of its rank's */
    ck_assert_double_eq_tol(p->seconds, q->seconds, 1e-9);
    pairs++;
  }
  ck_assert_int_eq(pairs, 60);
}
END_TEST

/* A rank that has copied the host's memory computes in pages like the others: nothing of it stays in its heap. */
START_TEST(copies_leave_the_heap_as_it_was)
{
  char message[EXEC_ERROR_SIZE];
  Backend *b = cpu_open(&(BackendOptions) { .size = 1, .dtype = EXEC_F32 }, message);
  const char *before = sbrk(0);

  ck_assert_double_gt(calibrate_host_copy(64 << 20, 1, 1, NULL, NULL).bytes_per_s, 0);
  ck_assert_int_lt((const char *)sbrk(0) - before, 8 << 20);
  b->free(b);
}
END_TEST

static double moved_bytes;

static void clear(Backend *b, BackendStream *s, void *x, size_t bytes)
{
  (void)b, (void)s, (void)x;
  moved_bytes += bytes;
}

static void add_wide(Backend *b, BackendStream *s, size_t n, const void *x, void *y)
{
  (void)b, (void)s, (void)x, (void)y;
  moved_bytes += 3.0 * sizeof(float) * n;
}

/* Gradients of ZeRO-2 are cleared in whole and added by the half: as many bytes as the point says. */
START_TEST(shard_copies_move_what_is_counted)
{
  MachineHead head = { .ranks = RANKS, .node_ranks = RANKS, .processors = RANKS, .units = 1, .precision = DTYPE_FP32 };
  g_autoptr(GArray) points = points_design(&head);
  char message[EXEC_ERROR_SIZE];
  Backend *b = cpu_open(&(BackendOptions) { .size = 1, .dtype = EXEC_F32 }, message);
  Bench bench;
  int found = 0;

  ck_assert(bench_init(&bench, b));
  void (*zero)(Backend *, BackendStream *, void *, size_t) = b->zero;
  b->zero = clear, b->add_wide = add_wide;
  for (guint i = 0; i < points->len; i++) {
    const MachinePoint *p = &g_array_index(points, MachinePoint, i);
    moved_bytes = 0;
    if (!g_str_equal(p->name, "shard copies"))
      continue;
    bench_run(&bench, p);
    ck_assert_double_eq(moved_bytes, p->bytes);
    found++;
  }
  ck_assert_int_gt(found, 0);
  b->zero = zero;
  bench_clear(&bench);
  b->free(b);
}
END_TEST

TEST_MAIN("exec: measure", shard_copies_move_what_is_counted, one_and_all_take_turns_apart_from_each_other,
          all_ranks_come_alike_to_what_is_timed, copies_leave_the_heap_as_it_was)
