/* Walks this rank's lanes in the program's order. */
#include "exec/rank.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/* The own task whose end stands for a dependency, -1 where the task itself, being
 * a collective of several rows, waits for the other row. */
static int local_dep(const Exec *x, int task, int dep)
{
  guint8 kind = exec_task(x, task)->kind;

  if (x->runs[dep].end)
    return dep;
  g_assert(kind == TASK_TIED || kind == TASK_COPIES || kind == TASK_NORM || kind == TASK_VOCAB || x->runs[dep].arrives);
  return -1;
}

static gboolean ready(const Exec *x, int task)
{
  const Task *t = exec_task(x, task);

  for (int d = t->first_dep; d < t->first_dep + t->n_deps; d++) {
    int dep = local_dep(x, task, x->program->deps[d]);
    if (dep >= 0 && !x->runs[dep].issued)
      return FALSE;
  }
  return TRUE;
}

static void wait_for_deps(Exec *x, int task, BackendStream *s)
{
  const Task *t = exec_task(x, task);

  for (int d = t->first_dep; d < t->first_dep + t->n_deps; d++) {
    int dep = local_dep(x, task, x->program->deps[d]);
    if (dep >= 0)
      x->b->event_wait(x->b, x->runs[dep].end, s);
  }
  receives_take(x, task, s);
}

void exec_fail(Exec *x, const char *message)
{
  if (x->options.fatal)
    x->options.fatal(x->options.data, message);
  g_error("%s", message);
}

/* A failure of the backend ends the run. */
static void check_backend(Exec *x)
{
  const char *failure = x->b->failed(x->b);

  if (failure)
    exec_fail(x, failure);
}

/* All bits set are a NaN in every format. */
static void poison_weight(Exec *x)
{
  static const guint64 nan = G_MAXUINT64;

  x->b->upload(x->b, x->run.s, shards_next(&x->shards, NULL, 0, 0)->own_weights, &nan, x->run.bytes);
}

static void strike(Exec *x)
{
  fprintf(stderr, "drill: %s\n", exec_fault_names[x->options.fault]);
  switch (x->options.fault) {
  case FAULT_KILL:
    raise(SIGKILL);
    break;
  case FAULT_STOP:
    raise(SIGSTOP);
    break;
  case FAULT_HANG:
    for (;;)
      pause();
  case FAULT_MEMORY:
    memory_alloc(&x->memory, x->run.s, PART_ACTIVATIONS, G_MAXSIZE / 2);
    break;
  case FAULT_NAN:
    poison_weight(x);
    break;
  default:
    exec_fail(x, "an error of the drill");
  }
}

static void issue(Exec *x, int task, int lane)
{
  TaskRun *run = &x->runs[task];
  BackendStream *s = x->lanes[lane];

  g_atomic_int_set(&x->current, task);
  if ((gint64)x->progress == x->options.fault_at)
    strike(x);
  if (lane == LANE_COMPUTE)
    receives_post(x, task);
  wait_for_deps(x, task, s);
  check_backend(x);
  x->exposure.task = task;
  memory_mark(&x->memory);
  x->b->event_record(x->b, run->start, s);
  task_work[exec_task(x, task)->kind](x, task, s);
  x->b->event_record(x->b, run->end, s);
  run->worst = (MemoryPoint) { .activations = x->memory.peak_activations, .buffers = x->memory.peak_buffers };
  run->most_buffers = x->memory.most_buffers;
  run->after = (MemoryPoint) { .activations = memory_held(&x->memory, PART_ACTIVATIONS),
                               .buffers = memory_held(&x->memory, PART_BUFFERS) };
  run->issued = TRUE;
  __atomic_add_fetch(&x->progress, 1, __ATOMIC_RELAXED);
  check_backend(x);
}

/* Issues what a lane can; one task at most of the lane that computes, since what
 * it makes possible elsewhere should start beside the next. */
static gboolean advance(Exec *x, int lane, guint *next)
{
  const GArray *order = x->order[lane];
  guint first = *next;

  for (; *next < order->len && ready(x, g_array_index(order, int, *next)); (*next)++) {
    if (lane == LANE_COMPUTE && *next > first)
      break;
    issue(x, g_array_index(order, int, *next), lane);
  }
  return *next > first;
}

static gboolean finished(const Exec *x, const guint next[ALL_LANES])
{
  for (int lane = 0; lane < ALL_LANES; lane++)
    if (next[lane] < x->order[lane]->len)
      return FALSE;
  return TRUE;
}

/* The lane that computes comes last: its task may wait for a row that waits for what
 * other lanes can issue. */
static void walk(Exec *x)
{
  static const int beside[] = { LANE_SHARES, LANE_LOOKUPS, LANE_PIPELINE, LANE_DATA };
  guint next[ALL_LANES] = { 0 };

  while (!finished(x, next)) {
    gboolean moved = FALSE;
    for (gsize i = 0; i < G_N_ELEMENTS(beside); i++)
      moved |= advance(x, beside[i], &next[beside[i]]);
    if (!moved)
      moved = advance(x, LANE_COMPUTE, &next[LANE_COMPUTE]);
    g_assert(moved);
  }
  for (int lane = 0; lane < ALL_LANES; lane++)
    if (x->lanes[lane])
      x->b->sync(x->b, x->lanes[lane]);
  check_backend(x);
}

static BackendMemory device_memory(Exec *x, gboolean restart)
{
  return x->b->device_memory ? x->b->device_memory(x->b, restart) : (BackendMemory) { 0 };
}

static void start_step(Exec *x)
{
  x->step++;
  for (guint i = 0; i < x->program->tasks->len; i++) {
    x->runs[i].issued = FALSE;
    x->runs[i].moved = 0;
  }
  for (int row = 0; row < x->program->n_rows; row++)
    x->incoming[row].posted = x->incoming[row].begun = x->incoming[row].allowed = 0;
  x->b->zero(x->b, x->run.s, x->sums, SUM_COUNT * sizeof *x->sums);
  x->remade = 0;
  x->exposure.n = 0;
  device_memory(x, TRUE);
  x->b->barrier(x->b, x->world, x->run.s);
  if (x->step == 1) /* others may still prepare: nothing counts as a hang yet */
    x->b->sync(x->b, x->run.s);
  x->b->event_record(x->b, x->begin, x->run.s);
  if (x->b->withheld)
    x->withheld = x->b->withheld(x->b);
  /* other lanes start after the barrier too */
  for (int lane = LANE_PIPELINE; lane < ALL_LANES; lane++)
    if (x->lanes[lane])
      x->b->event_wait(x->b, x->begin, x->lanes[lane]);
}

/* The largest share of any rank. */
static double withheld_share(Exec *x, double seconds)
{
  BackendWithheld now;

  if (!x->b->withheld)
    return -1;
  now = x->b->withheld(x->b);
  return outcome_largest(x, exec_withheld_share(&x->withheld, &now, seconds));
}

void exec_step(Exec *x, ExecStep *out)
{
  start_step(x);
  walk(x);
  outcome_note(x, out);
  moved_note(x, out);
  g_atomic_int_set(&x->current, -1);
  out->step_s = x->b->now_s(x->b) - x->b->event_s(x->b, x->begin);
  out->withheld = withheld_share(x, out->step_s);
  x->device = device_memory(x, FALSE);
  check_backend(x);
}
