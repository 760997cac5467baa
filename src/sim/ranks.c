#include "sim/ranks.h"

#include "sim/lane_order.h"
#include "sim/overlap.h"
#include "sim/rank_times.h"
#include "sim/rank_trace.h"
#include "sim/simulate.h"

#include <string.h>

/* The sweep of one program; times of nodes stand in slots of `replicas` doubles,
 * given to another node once nobody will read them. */
typedef struct {
  const Program *program;
  RankTimes times;
  SimNodes *nodes;
  const SimOverlap *overlap;
  const OverlapPass **pass; /* by node: runs beside collectives; NULL for others */
  int *start_slot;          /* by node: starts of a collective that passes run beside, -1 = not kept */
  int *slot;                /* by node: ends */
  int *first_dying, *dying; /* by node: nodes that it is the last to read */
  GArray *free_slots;       /* int */
  int n_slots;
  int *cursor;              /* by rank: see sweep.c */
  double *slots, *ready;
  RankRun *run;
  int recorded;             /* replica whose spans are kept */
} Ranks;

static int take_slot(Ranks *r)
{
  if (r->free_slots->len == 0)
    return r->n_slots++;
  int slot = g_array_index(r->free_slots, int, r->free_slots->len - 1);
  g_array_set_size(r->free_slots, r->free_slots->len - 1);
  return slot;
}

static int beside_node(const Ranks *r, int i)
{
  return r->nodes->node[g_array_index(r->overlap->tasks, int, i)];
}

static void mark_passes(Ranks *r)
{
  r->pass = g_new0(const OverlapPass *, r->nodes->n);
  r->start_slot = g_new(int, r->nodes->n);
  for (int i = 0; i < r->nodes->n; i++)
    r->start_slot[i] = -1;
  for (guint i = 0; i < r->overlap->passes->len; i++) {
    const OverlapPass *pass = &g_array_index(r->overlap->passes, OverlapPass, i);
    r->pass[r->nodes->node[pass->task]] = pass;
    for (int b = pass->first; b <= pass->last; b++)
      r->start_slot[beside_node(r, b)] = 0;
  }
}

/* Which node reads each for the last time; nobody reads a node's own end: itself. */
static void find_dying(Ranks *r)
{
  const SimNodes *s = r->nodes;
  g_autofree int *last = g_new(int, s->n);

  for (int i = 0; i < s->n; i++) {
    last[i] = last[s->a[i]] = last[s->b[i]] = i;
    for (int b = r->pass[i] ? r->pass[i]->first : 0; r->pass[i] && b <= r->pass[i]->last; b++)
      last[beside_node(r, b)] = i;
  }
  last[0] = s->n - 1;
  r->first_dying = g_new0(int, s->n + 1);
  r->dying = g_new(int, s->n);
  for (int i = 0; i < s->n; i++)
    r->first_dying[last[i] + 1]++;
  for (int i = 0; i < s->n; i++)
    r->first_dying[i + 1] += r->first_dying[i];
  g_autofree int *next = g_memdup2(r->first_dying, s->n * sizeof(int));
  for (int i = 0; i < s->n; i++)
    r->dying[next[last[i]]++] = i;
}

static void give_slots(Ranks *r)
{
  r->slot = g_new(int, r->nodes->n);
  r->free_slots = g_array_new(FALSE, FALSE, sizeof(int));
  for (int i = 0; i < r->nodes->n; i++) {
    r->slot[i] = take_slot(r);
    if (r->start_slot[i] == 0)
      r->start_slot[i] = take_slot(r);
    for (int d = r->first_dying[i]; d < r->first_dying[i + 1]; d++) {
      int node = r->dying[d];
      g_array_append_val(r->free_slots, r->slot[node]);
      if (r->start_slot[node] >= 0)
        g_array_append_val(r->free_slots, r->start_slot[node]);
    }
  }
}

static double *ends_of(const Ranks *r, int node)
{
  return r->slots + (gsize)r->slot[node] * r->times.replicas;
}

/* All of a group are ready when the last is. */
static void join(double *ready, int replicas, RankJoin group)
{
  int block = group.size * group.stride;

  for (int first = 0; first < replicas && group.size > 1; first += block)
    for (int offset = first; offset < first + group.stride; offset++) {
      double last = ready[offset];
      for (int i = offset; i < offset + block; i += group.stride)
        last = MAX(last, ready[i]);
      for (int i = offset; i < offset + block; i += group.stride)
        ready[i] = last;
    }
}

static void add_seconds(const double *ready, const double *own, double seconds, double *end, int n)
{
  for (int i = 0; i < n && own; i++)
    end[i] = ready[i] + own[i];
  for (int i = 0; i < n && !own; i++)
    end[i] = ready[i] + seconds;
}

/* A pass of each rank beside its collectives; its group has the slowest's end. */
static void run_beside(Ranks *r, const OverlapPass *pass, const double *own, const Segment *segment, double *end)
{
  int *cursor = r->cursor + (gsize)pass->row * r->times.replicas;

  for (int rank = 0; rank < r->times.replicas; rank++) {
    double since = r->ready[rank], left = own ? own[rank] : segment->seconds;
    int i = MAX(cursor[rank], pass->first);
    while (i <= pass->last && ends_of(r, beside_node(r, i))[rank] <= since)
      i++;
    cursor[rank] = i;
    for (; i <= pass->last; i++) {
      int node = beside_node(r, i), task = g_array_index(r->overlap->tasks, int, i);
      const Segment *s =
          &g_array_index(r->program->segments, Segment, g_array_index(r->program->tasks, Task, task).segment);
      double start = r->slots[(gsize)r->start_slot[node] * r->times.replicas + rank];
      if (overlap_meet(&since, &left, start, ends_of(r, node)[rank], s->slowdown))
        break;
    }
    end[rank] = since + left;
  }
  join(end, r->times.replicas, rank_join_of(&r->times, segment));
}

/* Sums of each rank, and the span of the one that is kept. */
static void record(Ranks *r, int task, const double *end)
{
  const Task *t = &g_array_index(r->program->tasks, Task, task);
  int n = r->times.replicas;
  double *pass_s = r->run->pass_s + (gsize)t->row * n, *finish_s = r->run->finish_s + (gsize)t->row * n;

  for (int i = 0; i < n; i++)
    finish_s[i] = MAX(finish_s[i], end[i]);
  for (int i = 0; i < n && t->kind == TASK_PASS; i++)
    pass_s[i] += end[i] - r->ready[i];
  g_array_index(r->run->trace->spans, Span, task) =
      (Span) { .start = r->ready[r->recorded], .end = end[r->recorded], .segment = t->segment, .micro = t->micro,
               .row = t->row, .chunk = t->chunk, .lane = t->lane, .kind = t->kind, .pass = t->pass,
               .paired = t->paired };
}

static void run_node(Ranks *r, int node)
{
  const double *a = ends_of(r, r->nodes->a[node]), *b = ends_of(r, r->nodes->b[node]);
  double *end = ends_of(r, node);
  int n = r->times.replicas, task = r->nodes->task[node];

  for (int i = 0; i < n; i++)
    r->ready[i] = MAX(a[i], b[i]);
  if (task < 0) {
    memcpy(end, r->ready, n * sizeof *end);
    return;
  }
  const Task *t = &g_array_index(r->program->tasks, Task, task);
  const Segment *segment = &g_array_index(r->program->segments, Segment, t->segment);
  const double *own = rank_times_of(&r->times, task);
  join(r->ready, n, rank_join_of(&r->times, segment));
  if (r->start_slot[node] >= 0)
    memcpy(r->slots + (gsize)r->start_slot[node] * n, r->ready, n * sizeof *end);
  if (r->pass[node])
    run_beside(r, r->pass[node], own, segment, end);
  else
    add_seconds(r->ready, own, segment->seconds, end, n);
  record(r, task, end);
}

static RankRun *run_new(const Program *p, int replicas)
{
  RankRun *run = g_new0(RankRun, 1);

  run->n_rows = p->n_rows;
  run->replicas = replicas;
  run->pass_s = g_new0(double, (gsize)p->n_rows * replicas);
  run->finish_s = g_new0(double, (gsize)p->n_rows * replicas);
  run->trace = trace_new(p);
  g_array_set_size(run->trace->spans, p->tasks->len);
  return run;
}

static void finish_run(RankRun *run, const Program *p)
{
  for (int rank = 0; rank < run->n_rows * run->replicas; rank++) {
    run->end_s = MAX(run->end_s, run->finish_s[rank]);
    if (run->pass_s[rank] > run->pass_s[run->slowest])
      run->slowest = rank;
  }
  run->end_s += p->step_s;
}

static RankRun *sweep(Ranks *r, int recorded)
{
  int n = r->times.replicas;

  r->run = run_new(r->program, n);
  r->recorded = recorded;
  memset(r->cursor, 0, (gsize)r->program->n_rows * n * sizeof *r->cursor);
  memset(ends_of(r, 0), 0, n * sizeof(double));
  for (int node = 1; node < r->nodes->n; node++)
    run_node(r, node);
  finish_run(r->run, r->program);
  return r->run;
}

static void ranks_init(Ranks *r, const Program *p)
{
  mark_passes(r);
  find_dying(r);
  give_slots(r);
  r->slots = g_new(double, (gsize)r->n_slots * r->times.replicas);
  r->ready = g_new(double, r->times.replicas);
  r->cursor = g_new(int, (gsize)p->n_rows * r->times.replicas);
}

static void ranks_clear(Ranks *r)
{
  rank_times_clear(&r->times);
  sim_nodes_free(r->nodes);
  g_free(r->pass);
  g_free(r->start_slot);
  g_free(r->slot);
  g_free(r->first_dying);
  g_free(r->dying);
  g_array_unref(r->free_slots);
  g_free(r->cursor);
  g_free(r->slots);
  g_free(r->ready);
}

/* The ranks of a program whose lanes run in its order. */
static RankRun *run_ranks(const Program *p, const Layout *layout, const Cluster *cluster, const Straggler *stragglers,
                          int n_stragglers)
{
  g_autoptr(SimGraph) graph = sim_graph_new(p, 0);
  g_autoptr(SimOverlap) overlap = sim_overlap_new(p, graph);
  g_autoptr(GArray) also = overlap ? sim_overlap_edges(overlap) : NULL;
  g_autofree int *order = g_new(int, MAX(graph->n, 1));
  Ranks r = { .program = p, .overlap = overlap };

  if (!overlap || sim_graph_sort(graph, also, order) < graph->n)
    return NULL;
  r.nodes = sim_nodes_new(graph, order);
  rank_times_init(&r.times, p, layout, cluster, stragglers, n_stragglers);
  ranks_init(&r, p);
  RankRun *run = sweep(&r, 0);
  int replica = run->slowest % run->replicas;
  if (replica != 0) {
    rank_run_free(run);
    run = sweep(&r, replica);
  }
  trace_complete(run->trace, p);
  run->trace->end_s = run->end_s;
  ranks_clear(&r);
  return run;
}

RankRun *simulate_ranks(const Program *p, const Layout *layout, const Cluster *cluster, const Straggler *stragglers,
                        int n_stragglers)
{
  g_autofree int *lane_tasks = simulate_order(p);
  Program ordered = *p;

  if (!lane_tasks)
    return run_ranks(p, layout, cluster, stragglers, n_stragglers);
  ordered.lane_tasks = lane_tasks;
  RankRun *run = run_ranks(&ordered, layout, cluster, stragglers, n_stragglers);
  if (run)
    lane_order_sort_spans(run->trace, p, lane_tasks);
  return run;
}

void rank_run_free(RankRun *run)
{
  if (!run)
    return;
  g_free(run->pass_s);
  g_free(run->finish_s);
  trace_free(run->trace);
  g_free(run);
}
