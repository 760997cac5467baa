#include "sim/graph.h"

typedef struct {
  const SimGraph *graph;
  int *order, placed;
  int *left;             /* what a task waits for that is not placed */
  int *first_also, *also; /* tasks that wait for a task by a further edge */
} Sort;

static void index_also(Sort *s, const GArray *edges)
{
  int n = edges->len, total = 0;

  s->first_also = g_new0(int, s->graph->n + 1);
  s->also = g_new(int, MAX(n, 1));
  for (int i = 0; i < n; i++)
    s->first_also[g_array_index(edges, SimEdge, i).waits_for]++;
  for (int i = 0; i <= s->graph->n; i++) {
    total += i < s->graph->n ? s->first_also[i] : 0;
    s->first_also[i] = total;
  }
  for (int i = 0; i < n; i++) {
    const SimEdge *edge = &g_array_index(edges, SimEdge, i);
    s->also[--s->first_also[edge->waits_for]] = edge->task;
    s->left[edge->task]++;
  }
}

static void release(Sort *s, int task)
{
  if (--s->left[task] == 0)
    s->order[s->placed++] = task;
}

static void place_all(Sort *s)
{
  const SimGraph *g = s->graph;

  for (int i = 0; i < s->placed; i++) {
    int task = s->order[i];
    for (int a = g->first_after[task]; a < g->first_after[task + 1]; a++)
      release(s, g->after[a]);
    for (int a = s->also ? s->first_also[task] : 0; s->also && a < s->first_also[task + 1]; a++)
      release(s, s->also[a]);
    if (g->next[task] >= 0)
      release(s, g->next[task]);
  }
}

int sim_graph_sort(const SimGraph *g, const GArray *also, int *order)
{
  Sort s = { .graph = g, .order = order, .left = g_new(int, MAX(g->n, 1)) };

  for (int i = 0; i < g->n; i++)
    s.left[i] = g->first_wait[i + 1] - g->first_wait[i];
  if (also)
    index_also(&s, also);
  for (int i = 0; i < g->n; i++)
    if (s.left[i] == 0)
      order[s.placed++] = i;
  place_all(&s);
  g_free(s.left);
  g_free(s.first_also);
  g_free(s.also);
  return s.placed;
}

SimNodes *sim_nodes_new(const SimGraph *g, const int *order)
{
  SimNodes *s = g_new0(SimNodes, 1);
  int n = g->n + 1;

  for (int i = 0; i < g->n; i++)
    n += MAX(0, g->first_wait[i + 1] - g->first_wait[i] - 2);
  s->a = g_new0(int, n);
  s->b = g_new0(int, n);
  s->task = g_new(int, n);
  s->node = g_new(int, MAX(g->n, 1));
  s->task[s->n++] = -1;
  for (int i = 0; i < g->n; i++) {
    const int *waits = g->waits + g->first_wait[order[i]];
    int left = g->first_wait[order[i] + 1] - g->first_wait[order[i]], joined = left > 0 ? s->node[waits[0]] : 0;
    for (int w = 1; w < left - 1; w++) {
      s->a[s->n] = joined;
      s->b[s->n] = s->node[waits[w]];
      s->task[s->n] = -1;
      joined = s->n++;
    }
    s->a[s->n] = joined;
    s->b[s->n] = left > 1 ? s->node[waits[left - 1]] : 0;
    s->task[s->n] = order[i];
    s->node[order[i]] = s->n++;
  }
  return s;
}

void sim_nodes_free(SimNodes *s)
{
  if (!s)
    return;
  g_free(s->a);
  g_free(s->b);
  g_free(s->task);
  g_free(s->node);
  g_free(s);
}
