#include "sim/simulate.h"

/* Runs a lane as far as the ends of its dependencies are known. */
static int advance(const Program *p, int lane, int *next, double *clock, double *end, gboolean *done)
{
  int ran = 0;

  for (; *next < p->lane_first[lane + 1]; (*next)++, ran++) {
    int task = p->lane_tasks[*next];
    const Task *t = &g_array_index(p->tasks, Task, task);
    double start = *clock;
    for (int d = t->first_dep; d < t->first_dep + t->n_deps; d++) {
      if (!done[p->deps[d]])
        return ran;
      start = MAX(start, end[p->deps[d]]);
    }
    *clock = end[task] = start + g_array_index(p->segments, Segment, t->segment).seconds;
    done[task] = TRUE;
  }
  return ran;
}

double longest_path(const Program *p, double *end)
{
  int n_lanes = p->n_rows * LANE_COUNT;
  g_autofree double *own = end ? NULL : g_new(double, p->tasks->len);
  g_autofree double *clock = g_new0(double, n_lanes);
  g_autofree int *next = g_memdup2(p->lane_first, n_lanes * sizeof(int));
  g_autofree gboolean *done = g_new0(gboolean, p->tasks->len);
  double last = 0;

  for (int left = p->tasks->len, ran = 1; left > 0 && ran > 0; left -= ran) {
    ran = 0;
    for (int lane = 0; lane < n_lanes; lane++)
      ran += advance(p, lane, &next[lane], &clock[lane], end ? end : own, done);
  }
  for (int lane = 0; lane < n_lanes; lane++)
    last = MAX(last, clock[lane]);
  return last + p->step_s;
}
