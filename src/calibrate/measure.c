#include "calibrate/measure.h"

#include "base/error.h"
#include "calibrate/bench.h"

#include <math.h>
#include <string.h>

#define ROUNDS_MIN 3
#define BLOCK_S 3e-3 /* of calls timed together */
#define CALLS_MAX 64

typedef struct {
  Bench bench;
  const MeasureOptions *options;
  GArray *points;
  BackendComm *world;
  BackendComm **groups; /* of the first n ranks, by n; NULL where this rank is not in it */
  BackendEvent *start, *end;
  double *shared;       /* on the device: numbers that ranks agree on */
  int *calls;           /* timed together, by point */
  double *samples;      /* by point, `rounds` each */
} Measure;

static MachinePoint *point_at(const Measure *m, guint i)
{
  return &g_array_index(m->points, MachinePoint, i);
}

static void wait_all(Measure *m)
{
  Backend *b = m->bench.b;

  b->barrier(b, m->world, m->bench.s);
  b->sync(b, m->bench.s);
}

/* The number of rank 0. */
static double agree(Measure *m, double value)
{
  Backend *b = m->bench.b;
  double mine = b->rank == 0 ? value : 0;

  b->upload(b, m->bench.s, m->shared, &mine, sizeof mine);
  b->all_reduce(b, m->world, m->bench.s, m->shared, 1, EXEC_F64, EXEC_SUM);
  b->download(b, m->bench.s, &mine, m->shared, sizeof mine);
  return mine;
}

static gboolean takes_part(const Measure *m, const MachinePoint *p)
{
  return m->bench.b->rank < p->busy;
}

static void call(Measure *m, const MachinePoint *p)
{
  if (p->kind == POINT_COLLECTIVE)
    bench_collective(&m->bench, p, m->groups[p->ranks]);
  else
    bench_run(&m->bench, p);
}

/* Seconds of a call; of a rank that takes no part 0. */
static double time_calls(Measure *m, const MachinePoint *p, int calls)
{
  Backend *b = m->bench.b;

  wait_all(m);
  if (!takes_part(m, p))
    return 0;
  b->event_record(b, m->start, m->bench.s);
  for (int i = 0; i < calls; i++)
    call(m, p);
  b->event_record(b, m->end, m->bench.s);
  b->sync(b, m->bench.s);
  return (b->event_s(b, m->end) - b->event_s(b, m->start)) / (calls * bench_parts(p));
}

/* The first call warms up, the second tells how many make a block. */
static void choose_calls(Measure *m)
{
  for (guint i = 0; i < m->points->len; i++) {
    const MachinePoint *p = point_at(m, i);
    gboolean disk = p->kind == POINT_DISK;
    double once = disk ? BLOCK_S : (time_calls(m, p, 1), time_calls(m, p, 1));
    m->calls[i] = (int)CLAMP(ceil(BLOCK_S / agree(m, MAX(once, 1e-9))), 1, CALLS_MAX);
  }
}

/* Rounds of all points, until there are enough or time is out; how many. */
static int run_rounds(Measure *m)
{
  Backend *b = m->bench.b;
  double from = b->now_s(b);
  int n = m->points->len, round = 0;

  while (round < m->options->rounds &&
         (round < ROUNDS_MIN || agree(m, b->now_s(b) - from) * (round + 1) / round < m->options->budget_s)) {
    for (int i = 0; i < n; i++) {
      m->samples[i * m->options->rounds + round] = time_calls(m, point_at(m, i), m->calls[i]);
      if (b->failed(b))
        return round;
      if (m->options->progress && b->rank == 0)
        m->options->progress(round * n + i + 1, m->options->rounds * n, m->options->data);
    }
    round++;
  }
  if (m->options->progress && b->rank == 0)
    m->options->progress(n, n, m->options->data);
  return round;
}

/* Of ranks that were busy together the mean of their medians counts. */
static void set_point(Measure *m, int i, int rounds)
{
  Backend *b = m->bench.b;
  MachinePoint *p = point_at(m, i);
  double *values[] = { &p->seconds, &p->low_s, &p->high_s };
  double mine[3] = { 0 };

  if (takes_part(m, p))
    point_set(p, &m->samples[i * m->options->rounds], rounds);
  for (int v = 0; v < 3 && takes_part(m, p); v++)
    mine[v] = *values[v] / p->busy;
  b->upload(b, m->bench.s, m->shared, mine, sizeof mine);
  b->all_reduce(b, m->world, m->bench.s, m->shared, 3, EXEC_F64, EXEC_SUM);
  b->download(b, m->bench.s, mine, m->shared, sizeof mine);
  for (int v = 0; v < 3; v++)
    *values[v] = mine[v];
  p->rounds = rounds;
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
  m->start = b->event_new(b);
  m->end = b->event_new(b);
  m->shared = b->alloc(b, m->bench.s, 3 * sizeof(double));
  m->calls = g_new0(int, m->points->len);
  m->samples = g_new0(double, (gsize)m->points->len * m->options->rounds);
  return m->shared != NULL;
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
  if (m->shared)
    b->dealloc(b, m->bench.s, m->shared, 3 * sizeof(double));
  bench_clear(&m->bench);
  g_free(m->groups);
  g_free(m->calls);
  g_free(m->samples);
}

gboolean measure_points(Backend *b, const MeasureOptions *options, GArray *points, GError **error)
{
  char message[EXEC_ERROR_SIZE] = "out of memory";
  Measure m = { .options = options, .points = points };
  int rounds = 0;

  g_assert(options->rounds >= ROUNDS_MIN);
  if (measure_init(&m, b, message)) {
    choose_calls(&m);
    rounds = run_rounds(&m);
    for (guint i = 0; i < points->len && !b->failed(b); i++)
      set_point(&m, i, rounds);
  }
  const char *failure = b->failed(b) ? b->failed(b) : rounds < ROUNDS_MIN ? message : m.bench.failure;
  if (failure)
    g_set_error(error, TDP_ERROR, TDP_ERROR_RUNTIME, "backend %s: %s", b->name, failure);
  measure_clear(&m, b);
  return !failure;
}
