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
  double *references;   /* of the reference around each sample */
  GArray *heads;        /* double: of the reference before each sample, in order of time */
  double from_s, heads_from_s, heads_until_s; /* of the host's clock */
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
  m->bench.b->event_record(m->bench.b, m->start, m->bench.s);
  bench_reference(&m->bench);
  return elapsed(m);
}

/* Of ranks beyond the processors nothing is timed but collectives; they keep away from those that compute. */
static gboolean is_extra(const Measure *m)
{
  return m->bench.b->rank >= m->options->processors;
}

static double time_head(Measure *m)
{
  double seconds = 1;

  if (is_extra(m))
    g_usleep((gulong)(BLOCK_S * G_USEC_PER_SEC));
  else
    seconds = time_reference(m);
  g_array_append_val(m->heads, seconds);
  return seconds;
}

/* Seconds of a call; of a rank that takes no part 0. `reference` gets the
 * product's before and behind it, `heads` the first of these. */
static double time_calls(Measure *m, const MachinePoint *p, int calls, double *reference)
{
  gboolean turns = p->busy > m->options->processors; /* of ranks that share a processor */

  wait_all(m);
  double before = *reference = time_head(m);
  if (turns)
    wait_all(m);
  if (!takes_part(m, p))
    return 0;
  m->bench.b->event_record(m->bench.b, m->start, m->bench.s);
  for (int i = 0; i < calls; i++)
    call(m, p);
  double seconds = elapsed(m) / (calls * bench_parts(p));
  *reference = turns ? 1 : (before + time_reference(m)) / 2;
  return seconds;
}

/* The first call warms up, the second tells how many make a block. */
static void choose_calls(Measure *m)
{
  for (guint i = 0; i < m->points->len; i++) {
    const MachinePoint *p = point_at(m, i);
    double unused, once = BLOCK_S;
    for (int k = 0; k < 2 && p->kind != POINT_DISK; k++)
      once = time_calls(m, p, 1, &unused);
    m->calls[i] = (int)CLAMP(ceil(BLOCK_S / agree(m, MAX(once, 1e-9))), 1, CALLS_MAX);
  }
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

/* Rounds of all points, until there are enough or time is out; how many. */
static int run_rounds(Measure *m)
{
  Backend *b = m->bench.b;
  int n = m->points->len, round = 0;

  m->heads_from_s = b->now_s(b);
  while (goes_on(m, round)) {
    for (int i = 0; i < n; i++) {
      int at = i * m->options->rounds + round;
      m->samples[at] = time_calls(m, point_at(m, i), m->calls[i], &m->references[at]);
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

/* ---- the speed of the moment ---- */

#define FOLLOWS_MIN 0.02  /* spread of the reference, of its logarithm, below which nothing is told */
#define DISTURBED 0.9     /* a sample's logarithm this far from its point's mean is passed over */

static gboolean alike(const MachinePoint *a, const MachinePoint *b)
{
  return a->kind == b->kind && g_str_equal(a->name, b->name) && !a->backward == !b->backward;
}

static double mean_log(const double *x, int n)
{
  double sum = 0;

  for (int i = 0; i < n; i++)
    sum += log(x[i]);
  return sum / n;
}

/* Whether the reference stood beside the point's samples. */
static gboolean follows_speed(const Measure *m, const MachinePoint *p)
{
  return takes_part(m, p) && p->busy <= m->options->processors;
}

/* How much a kind's times follow the reference: the slope over all its points. */
static double follows(const Measure *m, const MachinePoint *kind, int rounds)
{
  double both = 0, own = 0;
  int n = 0;

  for (guint i = 0; i < m->points->len; i++) {
    const double *t = &m->samples[i * m->options->rounds], *r = &m->references[i * m->options->rounds];
    if (!alike(point_at(m, i), kind) || !follows_speed(m, point_at(m, i)))
      continue;
    double t_mean = mean_log(t, rounds), r_mean = mean_log(r, rounds);
    for (int k = 0; k < rounds; k++, n++) {
      double dt = log(t[k]) - t_mean, dr = log(r[k]) - r_mean;
      if (fabs(dt) > DISTURBED || fabs(dr) > DISTURBED)
        continue;
      both += dt * dr;
      own += dr * dr;
    }
  }
  return own > FOLLOWS_MIN * FOLLOWS_MIN * MAX(n, 1) ? CLAMP(both / own, 0, 1) : 0;
}

static void even_out_point(Measure *m, int i, int rounds, double slope)
{
  double mean = 0, *t = &m->samples[i * m->options->rounds], *r = &m->references[i * m->options->rounds];

  for (guint k = 0; k < m->heads->len; k++)
    mean += pow(g_array_index(m->heads, double, k), slope) / m->heads->len;
  for (int k = 0; k < rounds; k++)
    t[k] *= mean / pow(r[k], slope);
}

/* Samples as they would be at the mean speed of the run. */
static void even_out(Measure *m, int rounds)
{
  guint n = m->points->len;
  g_autofree double *slopes = g_new(double, n);

  for (guint i = 0; i < n; i++)
    slopes[i] = follows(m, point_at(m, i), rounds);
  for (guint i = 0; i < n; i++)
    if (follows_speed(m, point_at(m, i)))
      even_out_point(m, i, rounds, slopes[i]);
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

/* Ranks wait for one another every few milliseconds or once a step: the slowest is
 * told over that many samples in a row, if there are several such rows. */
static const int in_a_row[] = { 1, 4, 16, 64, 256 };
#define ROWS_MIN 4

static void add_reference(Measure *m, const char *name, int samples, double seconds, int n)
{
  MachinePoint p = { .kind = POINT_REFERENCE, .m = samples, .ranks = m->options->processors,
                     .busy = m->options->processors, .rounds = n, .seconds = seconds, .low_s = seconds, .high_s = seconds };

  g_strlcpy(p.name, name, sizeof p.name);
  g_array_append_val(m->points, p);
}

/* The slowest rank's mean over n samples in a row, on average over all rows of them. */
static double slowest_s(Measure *m, int samples, int n)
{
  Backend *b = m->bench.b;
  g_autofree double *means = g_new0(double, n);
  double *device = b->alloc(b, m->bench.s, n * sizeof *means), sum = 0;

  for (int i = 0; i < n * samples && !is_extra(m); i++)
    means[i / samples] += g_array_index(m->heads, double, i) / samples;
  if (device) {
    b->upload(b, m->bench.s, device, means, n * sizeof *means);
    b->all_reduce(b, m->world, m->bench.s, device, n, EXEC_F64, EXEC_MAX);
    b->download(b, m->bench.s, means, device, n * sizeof *means);
    b->dealloc(b, m->bench.s, device, n * sizeof *means);
  }
  for (int i = 0; i < n; i++)
    sum += means[i];
  return sum / n;
}

static double mean_s(Measure *m)
{
  Backend *b = m->bench.b;
  double mine = 0;

  for (guint i = 0; i < m->heads->len && !is_extra(m); i++)
    mine += g_array_index(m->heads, double, i) / m->heads->len / m->options->processors;
  b->upload(b, m->bench.s, m->shared, &mine, sizeof mine);
  b->all_reduce(b, m->world, m->bench.s, m->shared, 1, EXEC_F64, EXEC_SUM);
  b->download(b, m->bench.s, &mine, m->shared, sizeof mine);
  return mine;
}

static void set_reference(Measure *m)
{
  int heads = m->heads->len;

  add_reference(m, "mean", 1, mean_s(m), heads);
  add_reference(m, "apart", 1, (m->heads_until_s - m->heads_from_s) / heads, heads);
  for (gsize k = 0; k < G_N_ELEMENTS(in_a_row); k++)
    if (heads >= ROWS_MIN * in_a_row[k] || k == 0)
      add_reference(m, "slowest", in_a_row[k], slowest_s(m, in_a_row[k], heads / in_a_row[k]), heads / in_a_row[k]);
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
  m->references = g_new0(double, (gsize)m->points->len * m->options->rounds);
  m->heads = g_array_new(FALSE, FALSE, sizeof(double));
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
  g_free(m->references);
  g_clear_pointer(&m->heads, g_array_unref);
}

gboolean measure_points(Backend *b, const MeasureOptions *options, GArray *points, GError **error)
{
  char message[EXEC_ERROR_SIZE] = "out of memory";
  Measure m = { .options = options, .points = points };
  int rounds = 0, n = points->len;

  g_assert(options->rounds >= ROUNDS_MIN);
  if (measure_init(&m, b, message)) {
    m.from_s = b->now_s(b);
    choose_calls(&m);
    g_array_set_size(m.heads, 0);
    rounds = run_rounds(&m);
    if (!b->failed(b))
      even_out(&m, rounds);
    for (int i = 0; i < n && !b->failed(b); i++)
      set_point(&m, i, rounds);
    if (!b->failed(b))
      set_reference(&m);
  }
  const char *failure = b->failed(b) ? b->failed(b) : rounds == 0 ? message : m.bench.failure;
  if (failure)
    g_set_error(error, TDP_ERROR, TDP_ERROR_RUNTIME, "backend %s: %s", b->name, failure);
  measure_clear(&m, b);
  return !failure;
}
