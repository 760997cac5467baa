#include "sim/graph.h"

/* Sends of a pair of rows in one direction. */
typedef struct {
  int sent, last; /* how many; the last of them */
  int held;       /* the oldest that no later one has waited for */
} Pair;

int *sim_receive_windows(const Program *p, int receive_buffers)
{
  if (receive_buffers <= 0)
    return NULL;
  int *waits = g_new(int, p->tasks->len);
  g_autofree int *receiver = program_receivers(p);
  g_autofree int *next = g_new(int, p->tasks->len); /* send of the same pair */
  g_autofree Pair *pairs = g_new0(Pair, 2 * p->n_rows * p->n_rows);
  for (int i = 0; i < (int)p->tasks->len; i++) {
    int task = p->lane_tasks[i];
    const Task *t = program_task(p, task);
    waits[task] = -1;
    if (t->kind != TASK_SEND || receiver[task] < 0)
      continue;
    Pair *pair = &pairs[(t->row * p->n_rows + program_task(p, receiver[task])->row) * 2 + (t->pass != PASS_FORWARD)];
    *(pair->sent > 0 ? &next[pair->last] : &pair->held) = task;
    pair->last = task;
    if (++pair->sent > receive_buffers) {
      waits[task] = receiver[pair->held];
      pair->held = next[pair->held];
    }
  }
  return waits;
}

/* Who waits for each task by an edge: first_after[i + 1] is where the next one of i goes, its end when all are in. */
static void fill_after(SimGraph *g, const Program *p, const int *window)
{
  const Task *tasks = (const Task *)p->tasks->data;
  const int *deps = p->deps;
  int *first = g->first_after = g_new0(int, g->n + 2);

  for (int i = 0; i < g->n; i++) {
    gboolean waits = window && window[i] >= 0;
    for (int d = tasks[i].first_dep; d < tasks[i].first_dep + tasks[i].n_deps; d++)
      first[deps[d] + 2]++;
    if (waits)
      first[window[i] + 2]++;
    g->n_waits[i] += tasks[i].n_deps + waits;
  }
  for (int i = 2; i <= g->n + 1; i++)
    first[i] += first[i - 1];
  g->after = g_new(int, first[g->n + 1]);
  for (int i = 0; i < g->n; i++) {
    for (int d = tasks[i].first_dep; d < tasks[i].first_dep + tasks[i].n_deps; d++)
      g->after[first[deps[d] + 1]++] = i;
    if (window && window[i] >= 0)
      g->after[first[window[i] + 1]++] = i;
  }
}

SimGraph *sim_graph_new(const Program *p, int receive_buffers)
{
  SimGraph *g = g_new0(SimGraph, 1);
  int n = g->n = p->tasks->len;
  g_autofree int *window = sim_receive_windows(p, receive_buffers);

  g->lane = g_new(int, n);
  g->next = g_new(int, n);
  g->n_waits = g_new(int, n);
  for (int lane = 0; lane < p->n_rows * LANE_COUNT; lane++) {
    int end = p->lane_first[lane + 1];
    for (int i = p->lane_first[lane]; i < end; i++) {
      int task = p->lane_tasks[i];
      g->lane[task] = lane;
      g->next[task] = i + 1 < end ? p->lane_tasks[i + 1] : -1;
      g->n_waits[task] = i > p->lane_first[lane];
    }
  }
  fill_after(g, p, window);
  return g;
}

void sim_graph_free(SimGraph *g)
{
  if (!g)
    return;
  g_free(g->lane);
  g_free(g->next);
  g_free(g->n_waits);
  g_free(g->first_after);
  g_free(g->after);
  g_free(g);
}

