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

/* What each send waits for as the n-th of its pair and direction: the task that consumed the
 * (n-k)-th, -1 = none; NULL without a limit. */
static int *window_waits(const Program *p, int receive_buffers)
{
  if (receive_buffers <= 0)
    return NULL;
  int *waits = g_new(int, MAX(p->tasks->len, 1));
  g_autofree int *receiver = sim_receivers(p);
  g_autofree int *sent = g_new0(int, 2 * p->n_rows * p->n_rows);
  int buffers = MIN(receive_buffers, p->shape.chunks * p->shape.micro); /* a pair sends no more */
  g_autofree int *ring = g_new(int, (gsize)2 * p->n_rows * p->n_rows * buffers);
  for (int i = 0; i < (int)p->tasks->len; i++) {
    int task = p->lane_tasks[i];
    const Task *t = task_at(p, task);
    waits[task] = -1;
    if (t->kind != TASK_SEND || receiver[task] < 0)
      continue;
    int pair = (t->row * p->n_rows + task_at(p, receiver[task])->row) * 2 + (t->pass != PASS_FORWARD);
    int *buffer = &ring[(gsize)pair * buffers + sent[pair] % buffers];
    if (sent[pair]++ >= buffers)
      waits[task] = *buffer;
    *buffer = receiver[task];
  }
  return waits;
}

static int count_waits(const Program *p)
{
  const Task *tasks = (const Task *)p->tasks->data;
  int n = 0;

  for (guint i = 0; i < p->tasks->len; i++)
    n += tasks[i].n_deps;
  return n;
}

/* What tasks wait for, and how many wait for each by an edge: at first_after's next entry. */
static void fill_waits(SimGraph *g, const Program *p, const int *previous, const int *window)
{
  const Task *tasks = (const Task *)p->tasks->data;
  const int *deps = p->deps;
  int *first = g->first_wait = g_new(int, g->n + 1), *after = g->first_after = g_new0(int, g->n + 2);
  int *waits = g->waits = g_new(int, MAX(count_waits(p) + (window ? 2 : 1) * g->n, 1)), n = 0;

  for (int i = 0; i < g->n; i++) {
    const Task *t = &tasks[i];
    first[i] = n;
    for (int d = t->first_dep; d < t->first_dep + t->n_deps; d++) {
      waits[n++] = deps[d];
      after[deps[d] + 2]++;
    }
    if (window && window[i] >= 0) {
      waits[n++] = window[i];
      after[window[i] + 2]++;
    }
    if (previous[i] >= 0)
      waits[n++] = previous[i];
  }
  first[g->n] = n;
}

/* Turns the lists of edges around: first_after[i + 1] is where the next entry of i goes, its end once all are there. */
static void fill_after(SimGraph *g, const int *previous)
{
  int *first = g->first_after;

  for (int i = 2; i <= g->n + 1; i++)
    first[i] += first[i - 1];
  g->after = g_new(int, MAX(first[g->n + 1], 1));
  for (int i = 0; i < g->n; i++) {
    int end = g->first_wait[i + 1] - (previous[i] >= 0); /* the last entry may be its lane's previous task */
    for (int w = g->first_wait[i]; w < end; w++)
      g->after[first[g->waits[w] + 1]++] = i;
  }
}

SimGraph *sim_graph_new(const Program *p, int receive_buffers)
{
  SimGraph *g = g_new0(SimGraph, 1);
  int n = g->n = p->tasks->len;
  g_autofree int *previous = g_new(int, n + 1);
  g_autofree int *window = window_waits(p, receive_buffers);

  g->lane = g_new(int, MAX(n, 1));
  g->next = g_new(int, MAX(n, 1));
  for (int lane = 0; lane < p->n_rows * LANE_COUNT; lane++) {
    int before = -1;
    for (int i = p->lane_first[lane]; i < p->lane_first[lane + 1]; i++) {
      int task = p->lane_tasks[i];
      g->lane[task] = lane;
      previous[task] = before;
      g->next[task] = -1;
      if (before >= 0)
        g->next[before] = task;
      before = task;
    }
  }
  fill_waits(g, p, previous, window);
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

