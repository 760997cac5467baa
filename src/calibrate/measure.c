#include "calibrate/measure_parts.h"

#include "base/error.h"

#include <math.h>

#define ROUNDS_MIN 3
#define BLOCK_S 3e-3 /* of calls timed together */
#define CALLS_MAX 64
#define TRIES 8      /* of a sample */
#define HEADS_MIN 16
#define WALKS_BEFORE 4 /* those that are timed */
#define APART 32     /* points in turn by one rank, then by all: more than caches remember */

static void wait_all(Measure *m)
{
  Backend *b = m->bench.b;

  b->barrier(b, m->world, m->bench.s);
  b->sync(b, m->bench.s);
}

void measure_reduce(Measure *m, double *values, int n, ExecReduce op)
{
  Backend *b = m->bench.b;
  gsize bytes = n * sizeof *values;
  void *device = b->alloc(b, m->bench.s, bytes);

  if (!device)
    return;
  b->upload(b, m->bench.s, device, values, bytes);
  b->all_reduce(b, m->world, m->bench.s, device, n, EXEC_F64, op);
  b->download(b, m->bench.s, values, device, bytes);
  b->dealloc(b, m->bench.s, device, bytes);
}

/* The number of rank 0. */
static double agree(Measure *m, double value)
{
  double mine = m->bench.b->rank == 0 ? value : 0;

  measure_reduce(m, &mine, 1, EXEC_SUM);
  return mine;
}

static void call(Measure *m, const MachinePoint *p)
{
  if (p->kind == POINT_COLLECTIVE || p->kind == POINT_BESIDE)
    bench_collective(&m->bench, p, m->groups[p->ranks]);
  else
    bench_run(&m->bench, p);
}

static double elapsed(Measure *m)
{
  Backend *b = m->bench.b;

  b->event_record(b, m->end, m->bench.s);
  b->sync(b, m->bench.s);
  return b->event_s(b, m->end) - b->event_s(b, m->start);
}

static double time_reference(Measure *m)
{
  bench_reference(&m->bench, FALSE);
  m->bench.b->event_record(m->bench.b, m->start, m->bench.s);
  bench_reference(&m->bench, TRUE);
  return elapsed(m);
}

static int index_of(const Measure *m, const MachinePoint *p)
{
  return (int)(p - measure_point(m, 0));
}

/* Of a rank beyond the processors, whose polling would take time from those that compute. */
static void sleep_meanwhile(Measure *m, const MachinePoint *p)
{
  double seconds = p->busy > m->options->processors ? BLOCK_S : MAX(BLOCK_S, m->lasts_s[index_of(m, p)]);

  g_usleep((gulong)(seconds * G_USEC_PER_SEC));
}

/* Calls before those that count, as the clock goes up again behind a product. A cache gives its lines to new ones only
 * bit by bit: walks through what would fit in it all come from memory at first. */
static int warming(const MachinePoint *p, int calls)
{
  if (p->kind == POINT_WALK)
    return MAX(WALKS_BEFORE, calls / 3);
  return p->kind == POINT_MATMUL || p->kind == POINT_DISK ? 0 : calls / 3;
}

/* Calls between references; ranks that share a processor take turns, and wait until all references are over. */
static void time_calls(Measure *m, const MachinePoint *p, int calls, Sample *s)
{
  gboolean turns = p->busy > m->options->processors;

  s->head = s->reference = 1;
  if (is_extra(m))
    sleep_meanwhile(m, p);
  else
    s->head = s->reference = time_reference(m);
  if (turns)
    wait_all(m);
  if (!takes_part(m, p))
    return;
  for (int i = 0; i < warming(p, calls); i++)
    call(m, p);
  m->bench.b->event_record(m->bench.b, m->start, m->bench.s);
  for (int i = 0; i < calls; i++)
    call(m, p);
  s->seconds = elapsed(m) / (calls * bench_parts(p));
  s->reference = turns ? 1 : (s->head + time_reference(m)) / 2;
}

/* This rank's share of the time from a moment on; where ranks take turns only what the hypervisor withheld. */
static double withheld_since(Measure *m, const MachinePoint *p, const BackendWithheld *from, double from_s)
{
  Backend *b = m->bench.b;
  BackendWithheld until = b->withheld(b);

  if (is_extra(m) || p->busy > m->options->processors)
    until.ready_s = from->ready_s;
  return exec_withheld_share(from, &until, b->now_s(b) - from_s);
}

static Sample take_sample(Measure *m, const MachinePoint *p, int calls)
{
  Backend *b = m->bench.b;
  BackendWithheld from = { 0 };
  Sample s = { 0 };

  wait_all(m);
  double from_s = b->now_s(b);
  if (b->withheld)
    from = b->withheld(b);
  time_calls(m, p, calls, &s);
  if (m->options->processors < b->size) {
    double lasts_s = is_extra(m) ? 0 : b->now_s(b) - from_s;
    measure_reduce(m, &lasts_s, 1, EXEC_MAX);
    m->lasts_s[index_of(m, p)] = lasts_s;
  }
  if (b->withheld && p->kind != POINT_DISK) {
    s.withheld = withheld_since(m, p, &from, from_s);
    measure_reduce(m, &s.withheld, 1, EXEC_MAX);
  }
  return s;
}

/* The first call warms up, the second tells how many make a block. */
static void choose_calls(Measure *m)
{
  for (guint i = 0; i < m->points->len; i++) {
    const MachinePoint *p = measure_point(m, i);
    double once = BLOCK_S;
    for (int k = 0; k < 2 && p->kind != POINT_DISK; k++)
      once = take_sample(m, p, 1).seconds;
    m->calls[i] = (int)CLAMP(ceil(BLOCK_S / agree(m, MAX(once, 1e-9))), 1, CALLS_MAX);
  }
}

static gboolean is_late(Measure *m)
{
  Backend *b = m->bench.b;

  return agree(m, b->now_s(b) - m->from_s > m->options->limit_s) > 0;
}

/* Until processors were not withheld meanwhile, as often as there are tries and time; else the least disturbed. */
static Sample take_undisturbed(Measure *m, int point)
{
  Sample best = { .withheld = INFINITY };

  for (int try = 0; try < TRIES && is_disturbed(&best) && !(try > 0 && is_late(m)); try++) {
    Sample s = take_sample(m, measure_point(m, point), m->calls[point]);
    g_array_append_val(m->heads, s);
    if (s.withheld < best.withheld)
      best = s;
  }
  return best;
}

/* Whether another round would end in time; the same on all ranks. */
static gboolean goes_on(Measure *m, int round)
{
  Backend *b = m->bench.b;
  double now = b->now_s(b), each = agree(m, (now - m->heads_from_s) / MAX(round, 1)), spent = agree(m, now - m->from_s);

  if (round == 0 || round >= m->options->rounds)
    return round == 0;
  return spent + each < (round < ROUNDS_MIN ? m->options->limit_s : m->options->budget_s);
}

/* The points of a round in order: of some in a row those of one rank, then those of several, and the other way round in
 * the next row and in the next round. No rank makes what it has just made: only those with a part in it would find it
 * in their caches. */
static void order_points(const Measure *m, int round, int *order)
{
  int n = m->points->len, at = 0;

  for (int from = 0; from < n; from += APART)
    for (int pass = 0; pass < 2; pass++)
      for (int i = from; i < MIN(from + APART, n); i++)
        if ((measure_point(m, i)->busy > 1) == ((from / APART + round + pass) % 2 == 1))
          order[at++] = i;
}

/* Rounds of all points, until there are enough or time is out; how many. */
static int run_rounds(Measure *m)
{
  Backend *b = m->bench.b;
  int n = m->points->len, round = 0;
  g_autofree int *order = g_new(int, n);

  m->heads_from_s = b->now_s(b);
  while (goes_on(m, round)) {
    order_points(m, round, order);
    for (int i = 0; i < n; i++) {
      m->samples[order[i] * m->options->rounds + round] = take_undisturbed(m, order[i]);
      if (b->failed(b))
        return round;
      if (m->options->progress && b->rank == 0)
        m->options->progress(round * n + i + 1, m->options->rounds * n, m->options->data);
    }
    round++;
  }
  m->heads_until_s = b->now_s(b);
  if (m->options->progress && b->rank == 0)
    m->options->progress(n, n, m->options->data);
  return round;
}

/* The undisturbed ones, unless these are next to none; tells how many there were of each. */
static void sift_heads(Measure *m, MeasureCounts *counts)
{
  g_autoptr(GArray) kept = g_array_new(FALSE, FALSE, sizeof(Sample));

  for (guint i = 0; i < m->heads->len; i++)
    if (!is_disturbed(&g_array_index(m->heads, Sample, i)))
      g_array_append_val(kept, g_array_index(m->heads, Sample, i));
  counts->taken = m->heads->len;
  counts->discarded = m->heads->len - kept->len;
  if (kept->len >= HEADS_MIN) {
    g_array_unref(m->heads);
    m->heads = g_steal_pointer(&kept);
  }
}

/* Of ranks that were busy together the mean of their medians counts; of undisturbed samples, if there are any. */
static void set_point(Measure *m, int i, int rounds)
{
  MachinePoint *p = measure_point(m, i);
  const Sample *s = &m->samples[i * m->options->rounds];
  g_autofree double *seconds = g_new(double, rounds);
  double mine[3] = { 0 };
  int n = 0;

  for (int least = 0; n == 0; least++)
    for (int k = 0; k < rounds; k++)
      if (least || !is_disturbed(&s[k]))
        seconds[n++] = s[k].seconds;
  if (takes_part(m, p)) {
    point_set(p, seconds, n);
    mine[0] = p->seconds / p->busy, mine[1] = p->low_s / p->busy, mine[2] = p->high_s / p->busy;
  }
  measure_reduce(m, mine, 3, EXEC_SUM);
  p->seconds = mine[0], p->low_s = mine[1], p->high_s = mine[2];
  p->rounds = n;
}

/* Bytes of the longest walk, 0 = there is none. */
static gsize longest_walk(const Measure *m)
{
  double bytes = 0;

  for (guint i = 0; i < m->points->len; i++)
    if (measure_point(m, i)->kind == POINT_WALK)
      bytes = MAX(bytes, measure_point(m, i)->bytes);
  return (gsize)bytes;
}

static gboolean measure_init(Measure *m, Backend *b, char *message)
{
  int size = b->size;

  m->groups = g_new0(BackendComm *, size + 1);
  m->world = b->comm_new(b, 0, b->rank, message);
  for (int n = 2; n <= size && m->world; n++) {
    m->groups[n] = b->comm_new(b, b->rank < n ? 0 : -1, b->rank, message);
    if (!m->groups[n] && b->rank < n)
      return FALSE;
  }
  if (!m->world || !bench_init(&m->bench, b))
    return FALSE;
  if (longest_walk(m) > 0 && !is_extra(m) && !bench_walk_room(&m->bench, longest_walk(m)))
    return FALSE;
  m->start = b->event_new(b);
  m->end = b->event_new(b);
  m->calls = g_new0(int, m->points->len);
  m->lasts_s = g_new0(double, m->points->len);
  m->samples = g_new0(Sample, (gsize)m->points->len * m->options->rounds);
  m->heads = g_array_new(FALSE, FALSE, sizeof(Sample));
  return TRUE;
}

static void measure_clear(Measure *m, Backend *b)
{
  for (int n = 2; n <= b->size; n++)
    b->comm_free(b, m->groups[n]);
  b->comm_free(b, m->world);
  if (m->start) {
    b->event_free(b, m->start);
    b->event_free(b, m->end);
  }
  bench_clear(&m->bench);
  g_free(m->groups);
  g_free(m->calls);
  g_free(m->lasts_s);
  g_free(m->samples);
  g_clear_pointer(&m->heads, g_array_unref);
}

gboolean measure_points(Backend *b, const MeasureOptions *options, GArray *points, MeasureCounts *counts,
                        GError **error)
{
  char message[EXEC_ERROR_SIZE] = "out of memory";
  Measure m = { .options = options, .points = points };
  int rounds = 0, n = points->len;

  g_assert(options->rounds >= ROUNDS_MIN);
  if (measure_init(&m, b, message)) {
    m.from_s = b->now_s(b);
    choose_calls(&m);
    rounds = run_rounds(&m);
    sift_heads(&m, counts);
    if (!b->failed(b))
      measure_even_out(&m, rounds);
    for (int i = 0; i < n && !b->failed(b); i++)
      set_point(&m, i, rounds);
    if (!b->failed(b))
      measure_set_reference(&m);
  }
  const char *failure = b->failed(b) ? b->failed(b) : rounds == 0 ? message : m.bench.failure;
  if (failure)
    runtime_error(error, "backend %s: %s", b->name, failure);
  measure_clear(&m, b);
  return !failure;
}
