#include "program/program.h"

static gboolean is_ready(const Task *task, const int *deps, const guint8 *done)
{
  for (int d = task->first_dep; d < task->first_dep + task->n_deps; d++)
    if (!done[deps[d]])
      return FALSE;
  return TRUE;
}

int program_order(const Program *p, const int *also, int *order)
{
  const Task *tasks = (const Task *)p->tasks->data;
  int n_lanes = p->n_rows * LANE_COUNT, placed = 0, before;
  g_autofree int *next = g_memdup2(p->lane_first, n_lanes * sizeof(int));
  g_autofree guint8 *done = g_new0(guint8, p->tasks->len);

  do {
    before = placed;
    for (int lane = 0; lane < n_lanes; lane++) {
      int i = next[lane], end = p->lane_first[lane + 1];
      for (; i < end; i++) {
        int task = p->lane_tasks[i];
        if (!is_ready(&tasks[task], p->deps, done) || (also && also[task] >= 0 && !done[also[task]]))
          break;
        done[task] = TRUE;
        order[placed++] = task;
      }
      next[lane] = i;
    }
  } while (placed > before);
  return placed;
}
