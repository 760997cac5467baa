#include "sim/simulate.h"

double longest_path(const Program *p, double *end)
{
  const Task *tasks = (const Task *)p->tasks->data;
  const Segment *segments = (const Segment *)p->segments->data;
  g_autofree double *own = end ? NULL : g_new(double, p->tasks->len), *clock = g_new0(double, p->n_rows * LANE_COUNT);
  g_autofree int *order = g_new(int, p->tasks->len);
  int n = program_order(p, NULL, order);
  double *ends = end ? end : own, last = 0;

  for (int i = 0; i < n; i++) {
    const Task *t = &tasks[order[i]];
    double *lane = &clock[t->row * LANE_COUNT + t->lane], start = *lane;
    for (int d = t->first_dep; d < t->first_dep + t->n_deps; d++)
      start = MAX(start, ends[p->deps[d]]);
    *lane = ends[order[i]] = start + segments[t->segment].seconds;
    last = MAX(last, *lane);
  }
  return last + p->step_s;
}
