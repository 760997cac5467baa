#include "sim/overlap.h"

typedef struct {
  const Program *program;
  SimOverlap *overlap;
  int *place; /* of a task on its lane */
} OverlapBuild;

/* The lane of a row that slows its computation: -1 = none, LANE_COUNT = more than one. */
static int slowing_lane(const Program *p, int row)
{
  int found = -1;

  for (int lane = 0; lane < LANE_COUNT; lane++) {
    gboolean slows = FALSE;
    for (int i = p->lane_first[row * LANE_COUNT + lane]; i < p->lane_first[row * LANE_COUNT + lane + 1] && !slows; i++)
      slows = program_segment(p, program_task(p, p->lane_tasks[i]))->slowdown > 1;
    if (slows)
      found = found < 0 && lane != LANE_COMPUTE ? lane : LANE_COUNT;
  }
  return found;
}

/* How many tasks of another lane a task waits for directly: those up to the last. */
static int waits_for_lane(const OverlapBuild *b, int task, int lane)
{
  const Task *tasks = (const Task *)b->program->tasks->data, *t = &tasks[task];
  int n = 0;

  for (int d = t->first_dep; d < t->first_dep + t->n_deps; d++) {
    const Task *dep = &tasks[b->program->deps[d]];
    if (dep->row * LANE_COUNT + dep->lane == lane)
      n = MAX(n, b->place[b->program->deps[d]] + 1);
  }
  return n;
}

/* For each pass the collectives behind those that it waits for, up to the last
 * that waits for passes before it only. */
static void add_row(OverlapBuild *b, int row, int slowing)
{
  const Program *p = b->program;
  const int *compute = p->lane_tasks + p->lane_first[row * LANE_COUNT + LANE_COMPUTE];
  int lane = row * LANE_COUNT + slowing, n_slow = p->lane_first[lane + 1] - p->lane_first[lane];
  const int *slow = p->lane_tasks + p->lane_first[lane];
  int n = p->lane_first[row * LANE_COUNT + LANE_COMPUTE + 1] - p->lane_first[row * LANE_COUNT + LANE_COMPUTE];
  int first_task = b->overlap->tasks->len, first = 0, end = 0;

  g_array_append_vals(b->overlap->tasks, slow, n_slow);
  for (int i = 0; i < n; i++) {
    first = MAX(first, waits_for_lane(b, compute[i], lane));
    while (end < n_slow && waits_for_lane(b, slow[end], row * LANE_COUNT + LANE_COMPUTE) <= i)
      end++;
    while (first < end && !(program_segment(p, program_task(p, slow[first]))->slowdown > 1))
      first++;
    OverlapPass pass = { compute[i], row, first_task + first, first_task + end - 1 };
    if (first < end && program_segment(p, program_task(p, compute[i]))->kind == TASK_PASS)
      g_array_append_val(b->overlap->passes, pass);
  }
}

SimOverlap *sim_overlap_new(const Program *p)
{
  g_autoptr(SimOverlap) overlap = g_new0(SimOverlap, 1);
  g_autofree int *place = g_new(int, p->tasks->len);
  OverlapBuild b = { p, overlap, place };

  overlap->tasks = g_array_new(FALSE, FALSE, sizeof(int));
  overlap->passes = g_array_new(FALSE, FALSE, sizeof(OverlapPass));
  for (int lane = 0; lane < p->n_rows * LANE_COUNT; lane++)
    for (int i = p->lane_first[lane]; i < p->lane_first[lane + 1]; i++)
      place[p->lane_tasks[i]] = i - p->lane_first[lane];
  for (int row = 0; row < p->n_rows; row++) {
    int lane = slowing_lane(p, row);
    if (lane == LANE_COUNT)
      return NULL;
    if (lane >= 0)
      add_row(&b, row, lane);
  }
  return g_steal_pointer(&overlap);
}

void sim_overlap_free(SimOverlap *overlap)
{
  if (!overlap)
    return;
  g_array_unref(overlap->tasks);
  g_array_unref(overlap->passes);
  g_free(overlap);
}

int *sim_overlap_last(const SimOverlap *overlap, const Program *p)
{
  int *last = indices_new(p->tasks->len);

  for (guint i = 0; i < overlap->passes->len; i++) {
    const OverlapPass *pass = &g_array_index(overlap->passes, OverlapPass, i);
    last[pass->task] = g_array_index(overlap->tasks, int, pass->last);
  }
  return last;
}
