#include "base/error.h"
#include "program/program.h"

#include <math.h>

static gboolean wrong(GError **error, const char *format, ...) G_GNUC_PRINTF(2, 3);

static gboolean wrong(GError **error, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  g_autofree char *message = g_strdup_vprintf(format, args);
  va_end(args);
  g_set_error(error, TDP_ERROR, TDP_ERROR_RUNTIME, "program: %s", message);
  return FALSE;
}

static const Task *task_at(const Program *p, int i)
{
  return &g_array_index(p->tasks, Task, i);
}

/* Every lane runs to its end when each task waits for its dependencies and its lane. */
static gboolean check_runs(const Program *p, GError **error)
{
  int n_lanes = p->n_rows * LANE_COUNT, left = p->tasks->len;
  g_autofree int *next = g_memdup2(p->lane_first, n_lanes * sizeof(int));
  g_autofree gboolean *done = g_new0(gboolean, left + 1);

  for (int ran = 1; left > 0; left -= ran) {
    ran = 0;
    for (int lane = 0; lane < n_lanes; lane++)
      for (; next[lane] < p->lane_first[lane + 1]; next[lane]++, ran++) {
        const Task *t = task_at(p, p->lane_tasks[next[lane]]);
        gboolean ready = TRUE;
        for (int i = 0; i < t->n_deps && ready; i++)
          ready = done[p->deps[t->first_dep + i]];
        if (!ready)
          break;
        done[p->lane_tasks[next[lane]]] = TRUE;
      }
    if (ran == 0)
      return wrong(error, "deadlock: %d of %u tasks never run", left, p->tasks->len);
  }
  return TRUE;
}

static gboolean check_edges(const Program *p, GError **error)
{
  for (guint i = 0; i < p->tasks->len; i++) {
    const Task *t = task_at(p, i);
    for (int d = 0; d < t->n_deps; d++) {
      int dep = p->deps[t->first_dep + d];
      if (dep < 0 || dep >= (int)p->tasks->len || dep == (int)i)
        return wrong(error, "task %u waits for task %d of %u", i, dep, p->tasks->len);
    }
  }
  return TRUE;
}

/* What a row takes it gives back, to a part in a billion. */
static gboolean check_memory(const Program *p, GError **error)
{
  for (int row = 0; row < p->n_rows; row++) {
    double activations = 0, buffers = 0, taken = 1;
    for (guint i = 0; i < p->tasks->len; i++) {
      const Segment *s = &g_array_index(p->segments, Segment, task_at(p, i)->segment);
      if (task_at(p, i)->row != row)
        continue;
      activations += s->activation_bytes;
      buffers += s->alloc_bytes - s->free_bytes;
      taken += fabs(s->activation_bytes) + s->alloc_bytes;
    }
    if (fabs(activations) > 1e-9 * taken || fabs(buffers) > 1e-9 * taken)
      return wrong(error, "row %d ends with %g bytes of activations and %g of buffers", row, activations, buffers);
  }
  return TRUE;
}

/* Each send is awaited by exactly one task, of another row. */
static gboolean check_sends(const Program *p, GError **error)
{
  g_autofree int *receivers = g_new0(int, p->tasks->len + 1);

  for (guint i = 0; i < p->tasks->len; i++)
    for (int d = 0; d < task_at(p, i)->n_deps; d++) {
      int dep = p->deps[task_at(p, i)->first_dep + d];
      if (task_at(p, dep)->kind == TASK_SEND && task_at(p, dep)->row != task_at(p, i)->row)
        receivers[dep]++;
    }
  for (guint i = 0; i < p->tasks->len; i++)
    if (task_at(p, i)->kind == TASK_SEND && receivers[i] != 1)
      return wrong(error, "send %u of row %d has %d receivers", i, task_at(p, i)->row, receivers[i]);
  return TRUE;
}

gboolean program_check(const Program *p, GError **error)
{
  return check_edges(p, error) && check_runs(p, error) && check_sends(p, error) && check_memory(p, error);
}
