#include "program_check.h"

#include "base/error.h"

#include <math.h>

G_GNUC_PRINTF(2, 3)
static gboolean wrong(GError **error, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  g_autofree char *message = g_strdup_vprintf(format, args);
  va_end(args);
  return runtime_error(error, "program: %s", message);
}

/* Every lane runs to its end when each task waits for its dependencies and its lane. */
static gboolean check_runs(const Program *p, GError **error)
{
  g_autofree int *order = g_new(int, p->tasks->len);
  int left = p->tasks->len - program_order(p, NULL, order);

  return left == 0 || wrong(error, "deadlock: %d of %u tasks never run", left, p->tasks->len);
}

static gboolean check_edges(const Program *p, GError **error)
{
  for (guint i = 0; i < p->tasks->len; i++) {
    const Task *t = program_task(p, i);
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
      const Segment *s = &g_array_index(p->segments, Segment, program_task(p, i)->segment);
      if (program_task(p, i)->row != row)
        continue;
      activations += s->activation_bytes;
      buffers += s->alloc_bytes - s->free_bytes;
      taken += fabs(s->activation_bytes) + fabs(s->alloc_bytes);
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
    for (int d = 0; d < program_task(p, i)->n_deps; d++) {
      int dep = p->deps[program_task(p, i)->first_dep + d];
      if (program_task(p, dep)->kind == TASK_SEND && program_task(p, dep)->row != program_task(p, i)->row)
        receivers[dep]++;
    }
  for (guint i = 0; i < p->tasks->len; i++)
    if (program_task(p, i)->kind == TASK_SEND && receivers[i] != 1)
      return wrong(error, "send %u of row %d has %d receivers", i, program_task(p, i)->row, receivers[i]);
  return TRUE;
}

/* Layers that each pass runs, by rank, chunk, micro-batch and pass. */
typedef struct {
  const Program *program;
  int *layers;
} Counted;

static int *counted_at(const Counted *c, int row, int chunk, int micro, int pass)
{
  const ScheduleShape *shape = &c->program->shape;
  return &c->layers[(((gsize)row * shape->chunks + chunk) * shape->micro + micro) * PASS_COUNT + pass];
}

static void count_passes(const Counted *c)
{
  for (guint i = 0; i < c->program->tasks->len; i++) {
    const Task *t = program_task(c->program, i);
    if (t->kind == TASK_PASS)
      *counted_at(c, t->row, t->chunk, t->micro, t->pass) +=
          g_array_index(c->program->segments, Segment, t->segment).n_layers;
  }
}

/* Most layers that a chunk runs in a forward: all of them. */
static int layers_of(const Counted *c, int row, int chunk)
{
  int most = 0;
  for (int micro = 0; micro < c->program->shape.micro; micro++)
    most = MAX(most, *counted_at(c, row, chunk, micro, PASS_FORWARD));
  return most;
}

/* A forward of all layers, and gradients of both kinds for all of them. */
static gboolean complete(const Counted *c, int row, int chunk, int micro, int layers)
{
  const int *n = counted_at(c, row, chunk, micro, 0);

  return n[PASS_FORWARD] == layers && n[PASS_BACKWARD] + n[PASS_INPUT] == layers &&
         n[PASS_BACKWARD] + n[PASS_WEIGHT] == layers && (n[PASS_RECOMPUTE] == 0 || n[PASS_RECOMPUTE] == layers);
}

/* Every stage runs every micro-batch once, in one of the model's copies. */
static gboolean check_stage(const Counted *c, int stage, int micro, GError **error)
{
  const Schedule *schedule = c->program->schedule;
  int ran = 0;

  for (int copy = 0; copy < schedule_copies(schedule); copy++) {
    Place at = schedule_place(schedule, &c->program->shape, stage, copy);
    int layers = layers_of(c, at.rank, at.chunk);
    if (*counted_at(c, at.rank, at.chunk, micro, PASS_FORWARD) == 0)
      continue;
    ran++;
    if (!complete(c, at.rank, at.chunk, micro, layers))
      return wrong(error, "row %d, chunk %d, micro-batch %d: passes do not cover the chunk's %d layers once", at.rank,
                   at.chunk, micro, layers);
  }
  return ran == 1 || wrong(error, "stage %d: micro-batch %d runs %d times", stage, micro, ran);
}

static gboolean check_passes(const Program *p, GError **error)
{
  const ScheduleShape *shape = &p->shape;
  g_autofree int *layers = g_new0(int, (gsize)shape->ranks * shape->chunks * shape->micro * PASS_COUNT);
  Counted c = { p, layers };

  count_passes(&c);
  for (int stage = 0; stage < schedule_stages(p->schedule, shape); stage++)
    for (int micro = 0; micro < shape->micro; micro++)
      if (!check_stage(&c, stage, micro, error))
        return FALSE;
  return TRUE;
}

/* Each rank takes part in summing the gradients of its copies once, or there are none. */
static gboolean check_copies(const Program *p, GError **error)
{
  int expected = schedule_copies(p->schedule) - 1;

  for (int row = 0; row < p->n_rows; row++) {
    int sums = 0;
    for (guint i = 0; i < p->tasks->len; i++)
      sums += program_task(p, i)->kind == TASK_COPIES && program_task(p, i)->row == row;
    if (sums != expected)
      return wrong(error, "row %d sums the gradients of weight copies %d times, not %d", row, sums, expected);
  }
  return TRUE;
}

gboolean program_check(const Program *p, GError **error)
{
  return check_edges(p, error) && check_runs(p, error) && check_sends(p, error) && check_memory(p, error) &&
         check_passes(p, error) && check_copies(p, error);
}
