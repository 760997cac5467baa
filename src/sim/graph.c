#include "sim/graph.h"

static const Task *task_at(const Program *p, int task)
{
  return &g_array_index(p->tasks, Task, task);
}

int *sim_receivers(const Program *p)
{
  int *receiver = g_new(int, MAX(p->tasks->len, 1));

  for (guint i = 0; i < p->tasks->len; i++)
    receiver[i] = -1;
  for (guint i = 0; i < p->tasks->len; i++) {
    const Task *t = task_at(p, i);
    for (int d = t->first_dep; d < t->first_dep + t->n_deps; d++) {
      const Task *dep = task_at(p, p->deps[d]);
      if (dep->kind == TASK_SEND && dep->row != t->row)
        receiver[p->deps[d]] = i;
    }
  }
  return receiver;
}

/* The n-th send of a pair and direction waits for the task that consumed the (n-k)-th. */
static GArray *window_edges(const Program *p, int receive_buffers)
{
  GArray *edges = g_array_new(FALSE, FALSE, sizeof(SimEdge));

  if (receive_buffers <= 0)
    return edges;
  g_autofree int *receiver = sim_receivers(p);
  g_autofree int *sent = g_new0(int, 2 * p->n_rows * p->n_rows);
  g_autofree int *ring = g_new(int, (gsize)2 * p->n_rows * p->n_rows * receive_buffers);
  for (int i = 0; i < (int)p->tasks->len; i++) {
    int task = p->lane_tasks[i];
    const Task *t = task_at(p, task);
    if (t->kind != TASK_SEND || receiver[task] < 0)
      continue;
    int pair = (t->row * p->n_rows + task_at(p, receiver[task])->row) * 2 + (t->pass != PASS_FORWARD);
    int *buffer = &ring[(gsize)pair * receive_buffers + sent[pair] % receive_buffers];
    if (sent[pair]++ >= receive_buffers) {
      SimEdge edge = { task, *buffer };
      g_array_append_val(edges, edge);
    }
    *buffer = receiver[task];
  }
  return edges;
}

static void fill_waits(SimGraph *g, const Program *p, const int *previous, const GArray *edges)
{
  g_autofree int *extra = g_new0(int, g->n + 1);
  int *first = g->first_wait = g_new(int, g->n + 1);

  for (guint i = 0; i < edges->len; i++)
    extra[g_array_index(edges, SimEdge, i).task]++;
  first[0] = 0;
  for (int i = 0; i < g->n; i++)
    first[i + 1] = first[i] + task_at(p, i)->n_deps + extra[i] + (previous[i] >= 0);
  g->waits = g_new(int, MAX(first[g->n], 1));
  for (int i = 0; i < g->n; i++) {
    const Task *t = task_at(p, i);
    int *to = g->waits + first[i];
    for (int d = 0; d < t->n_deps; d++)
      *to++ = p->deps[t->first_dep + d];
    extra[i] = to - g->waits;
    if (previous[i] >= 0)
      g->waits[first[i + 1] - 1] = previous[i];
  }
  for (guint i = 0; i < edges->len; i++)
    g->waits[extra[g_array_index(edges, SimEdge, i).task]++] = g_array_index(edges, SimEdge, i).waits_for;
}

/* Where a task's edges end: the last entry may be its lane's previous task. */
static int edges_end(const SimGraph *g, const int *previous, int task)
{
  return g->first_wait[task + 1] - (previous[task] >= 0);
}

/* Turns the lists of edges around. */
static void fill_after(SimGraph *g, const int *previous)
{
  int *first = g->first_after = g_new0(int, g->n + 1);
  int total = 0;

  for (int i = 0; i < g->n; i++)
    for (int w = g->first_wait[i]; w < edges_end(g, previous, i); w++)
      first[g->waits[w]]++;
  for (int i = 0; i <= g->n; i++) {
    total += i < g->n ? first[i] : 0;
    first[i] = total;
  }
  g->after = g_new(int, MAX(total, 1));
  for (int i = g->n - 1; i >= 0; i--)
    for (int w = g->first_wait[i]; w < edges_end(g, previous, i); w++)
      g->after[--first[g->waits[w]]] = i;
}

SimGraph *sim_graph_new(const Program *p, int receive_buffers)
{
  SimGraph *g = g_new0(SimGraph, 1);
  int n = g->n = p->tasks->len;
  g_autofree int *previous = g_new(int, n + 1);
  g_autoptr(GArray) edges = window_edges(p, receive_buffers);

  g->lane = g_new(int, MAX(n, 1));
  g->next = g_new(int, MAX(n, 1));
  for (int lane = 0; lane < p->n_rows * LANE_COUNT; lane++)
    for (int i = p->lane_first[lane]; i < p->lane_first[lane + 1]; i++) {
      g->lane[p->lane_tasks[i]] = lane;
      previous[p->lane_tasks[i]] = i > p->lane_first[lane] ? p->lane_tasks[i - 1] : -1;
      g->next[p->lane_tasks[i]] = i + 1 < p->lane_first[lane + 1] ? p->lane_tasks[i + 1] : -1;
    }
  fill_waits(g, p, previous, edges);
  fill_after(g, previous);
  return g;
}

void sim_graph_free(SimGraph *g)
{
  if (!g)
    return;
  g_free(g->lane);
  g_free(g->next);
  g_free(g->first_wait);
  g_free(g->waits);
  g_free(g->first_after);
  g_free(g->after);
  g_free(g);
}

