#include "sim/sweep.h"

#include "sim/overlap.h"

#include <math.h>
#include <string.h>

/* A pass that is evaluated by itself: the plain nodes before it, then it. */
typedef struct {
  int node, row;
  int first, last; /* into beside */
} Stop;

/* A collective that slows its row. */
typedef struct {
  int node;
  double slowdown;
} Slowing;

struct Sweep {
  const Program *program;
  SimNodes *nodes;
  int *segment;    /* by node; joins have one of no length, behind the program's */
  double *seconds; /* by segment */
  double *end;     /* by node */
  Stop *stops;     /* by node rising */
  int n_stops;
  Slowing *slowing;
  int *cursor;     /* by row: first collective that has not ended when the last pass started */
  int *last;       /* last node of each lane, 0 = empty */
  double *peak;    /* by row */
};

static void fill_segments(Sweep *s)
{
  const Program *p = s->program;

  s->segment = g_new(int, s->nodes->n);
  for (int i = 0; i < s->nodes->n; i++)
    s->segment[i] = s->nodes->task[i] < 0 ? (int)p->segments->len
                                          : g_array_index(p->tasks, Task, s->nodes->task[i]).segment;
  s->seconds = g_new0(double, p->segments->len + 1);
  s->end = g_new0(double, s->nodes->n);
  s->cursor = g_new0(int, p->n_rows);
}

static int by_node(gconstpointer a, gconstpointer b)
{
  return ((const Stop *)a)->node - ((const Stop *)b)->node;
}

static void fill_stops(Sweep *s, const SimOverlap *overlap)
{
  s->n_stops = overlap->passes->len;
  s->stops = g_new(Stop, s->n_stops + 1);
  for (int i = 0; i < s->n_stops; i++) {
    const OverlapPass *pass = &g_array_index(overlap->passes, OverlapPass, i);
    s->stops[i] = (Stop) { s->nodes->node[pass->task], pass->row, pass->first, pass->last };
  }
  qsort(s->stops, s->n_stops, sizeof(Stop), by_node);
  s->stops[s->n_stops].node = s->nodes->n;
  s->slowing = g_new(Slowing, overlap->tasks->len + 1);
  for (guint i = 0; i < overlap->tasks->len; i++) {
    int node = s->nodes->node[g_array_index(overlap->tasks, int, i)];
    double slowdown = g_array_index(s->program->segments, Segment, s->segment[node]).slowdown;
    s->slowing[i] = (Slowing) { node, slowdown };
  }
}

static void fill_last(Sweep *s)
{
  const Program *p = s->program;

  s->last = g_new0(int, p->n_rows * LANE_COUNT);
  for (int lane = 0; lane < p->n_rows * LANE_COUNT; lane++)
    if (p->lane_first[lane] < p->lane_first[lane + 1])
      s->last[lane] = s->nodes->node[p->lane_tasks[p->lane_first[lane + 1] - 1]];
}

/* Peak of a lane whose row's other lanes hold nothing. */
static double lane_peak(const Program *p, int lane)
{
  double activations = 0, buffers = 0, peak = 0;

  for (int i = p->lane_first[lane]; i < p->lane_first[lane + 1]; i++) {
    const Task *t = &g_array_index(p->tasks, Task, p->lane_tasks[i]);
    const Segment *s = &g_array_index(p->segments, Segment, t->segment);
    activations += MAX(s->activation_bytes, 0);
    buffers += s->alloc_bytes;
    peak = MAX(peak, activations + buffers);
    activations += MIN(s->activation_bytes, 0);
    buffers -= s->free_bytes;
    peak = MAX(peak, activations + buffers);
  }
  return peak;
}

static gboolean lane_holds(const Program *p, int lane)
{
  for (int i = p->lane_first[lane]; i < p->lane_first[lane + 1]; i++) {
    const Task *t = &g_array_index(p->tasks, Task, p->lane_tasks[i]);
    const Segment *s = &g_array_index(p->segments, Segment, t->segment);
    if (s->activation_bytes != 0 || s->alloc_bytes > 0 || s->free_bytes > 0)
      return TRUE;
  }
  return FALSE;
}

static void fill_peaks(Sweep *s)
{
  const Program *p = s->program;

  s->peak = g_new(double, p->n_rows);
  for (int row = 0; row < p->n_rows; row++) {
    s->peak[row] = lane_peak(p, row * LANE_COUNT + LANE_COMPUTE);
    for (int lane = LANE_COMPUTE + 1; lane < LANE_COUNT; lane++)
      if (lane_holds(p, row * LANE_COUNT + lane))
        s->peak[row] = NAN;
  }
}

Sweep *sweep_new(const Program *p)
{
  g_autoptr(SimGraph) graph = sim_graph_new(p, 0);
  g_autoptr(SimOverlap) overlap = sim_overlap_new(p, graph);
  g_autoptr(GArray) also = overlap ? sim_overlap_edges(overlap) : NULL;
  g_autofree int *order = g_new(int, MAX(graph->n, 1));
  Sweep *s;

  if (p->opportunistic || p->crowds || !overlap || sim_graph_sort(graph, also, order) < graph->n)
    return NULL;
  s = g_new0(Sweep, 1);
  s->program = p;
  s->nodes = sim_nodes_new(graph, order);
  fill_segments(s);
  fill_stops(s, overlap);
  fill_last(s);
  fill_peaks(s);
  return s;
}

void sweep_free(Sweep *s)
{
  if (!s)
    return;
  sim_nodes_free(s->nodes);
  g_free(s->segment);
  g_free(s->seconds);
  g_free(s->end);
  g_free(s->stops);
  g_free(s->slowing);
  g_free(s->cursor);
  g_free(s->last);
  g_free(s->peak);
  g_free(s);
}

static inline double start_of(const Sweep *s, int node)
{
  return MAX(s->end[s->nodes->a[node]], s->end[s->nodes->b[node]]);
}

static void run_plain(Sweep *s, int from, int to)
{
  const int *restrict a = s->nodes->a, *restrict b = s->nodes->b, *restrict segment = s->segment;
  const double *restrict seconds = s->seconds;
  double *end = s->end;

  for (int i = from; i < to; i++)
    end[i] = MAX(end[a[i]], end[b[i]]) + seconds[segment[i]];
}

/* A pass beside collectives: those that ended before it are passed over for good. */
static void run_stop(Sweep *s, const Stop *stop)
{
  double since = start_of(s, stop->node), left = s->seconds[s->segment[stop->node]];
  int i = MAX(s->cursor[stop->row], stop->first);

  while (i <= stop->last && s->end[s->slowing[i].node] <= since)
    i++;
  s->cursor[stop->row] = i;
  for (; i <= stop->last; i++) {
    const Slowing *c = &s->slowing[i];
    if (overlap_meet(&since, &left, start_of(s, c->node), s->end[c->node], c->slowdown))
      break;
  }
  s->end[stop->node] = since + left;
}

double sweep_run(Sweep *s, const double *seconds)
{
  const Program *p = s->program;
  double end = 0;

  for (guint i = 0; i < p->segments->len; i++)
    s->seconds[i] = seconds ? seconds[i] : g_array_index(p->segments, Segment, i).seconds;
  memset(s->cursor, 0, p->n_rows * sizeof *s->cursor);
  for (int i = 0, from = 1; i <= s->n_stops; i++) {
    run_plain(s, from, s->stops[i].node);
    if (i < s->n_stops)
      run_stop(s, &s->stops[i]);
    from = s->stops[i].node + 1;
  }
  for (int lane = 0; lane < p->n_rows * LANE_COUNT; lane++)
    end = MAX(end, s->end[s->last[lane]]);
  return end + p->step_s;
}

double sweep_end(const Sweep *s, int task)
{
  return s->end[s->nodes->node[task]];
}

double sweep_row_peak(const Sweep *s, int row)
{
  return s->peak[row];
}

