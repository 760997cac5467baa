#include "sim/simulate.h"

#include "sim/event_queue.h"

#include <string.h>

typedef struct {
  int next;        /* index into lane_tasks of the task that runs or runs next */
  gboolean running;
  double left;     /* seconds of work left at full speed, as of `since` */
  double since;
  double slowdown; /* in force */
  guint32 version;
} LaneState;

typedef struct {
  const Program *program;
  Trace *trace;
  Span *spans;     /* by task */
  int *waiting;    /* dependencies of a task that have not ended */
  int *dependents; /* tasks that wait for a task, grouped by first_dependent */
  int *first_dependent;
  LaneState *lanes;
  TraceRow *rows;
  MemoryPoint *memory; /* of each row now */
  EventQueue queue;
  double now;
} Sim;

static const Task *task_at(const Sim *s, int task)
{
  return &g_array_index(s->program->tasks, Task, task);
}

static const Segment *segment_of(const Sim *s, int task)
{
  return &g_array_index(s->program->segments, Segment, task_at(s, task)->segment);
}

static int head(const Sim *s, int lane)
{
  int next = s->lanes[lane].next;
  return next < s->program->lane_first[lane + 1] ? s->program->lane_tasks[next] : -1;
}

/* Turns the lists of dependencies around. */
static void index_dependents(Sim *s)
{
  const Program *p = s->program;
  int n = p->tasks->len, first = 0;

  s->first_dependent = g_new0(int, n + 1);
  s->waiting = g_new(int, n);
  for (int i = 0; i < n; i++) {
    s->waiting[i] = task_at(s, i)->n_deps;
    for (int d = 0; d < s->waiting[i]; d++)
      s->first_dependent[p->deps[task_at(s, i)->first_dep + d]]++;
  }
  for (int i = 0; i <= n; i++) {
    first += s->first_dependent[i];
    s->first_dependent[i] = first;
  }
  s->dependents = g_new(int, MAX(first, 1));
  for (int i = n - 1; i >= 0; i--)
    for (int d = 0; d < task_at(s, i)->n_deps; d++)
      s->dependents[--s->first_dependent[p->deps[task_at(s, i)->first_dep + d]]] = i;
}

static void note_memory(Sim *s, int row, double activations, double buffers)
{
  MemoryPoint *m = &s->memory[row];
  GArray *points = s->rows[row].points;

  m->time = s->now;
  m->activations += activations;
  m->buffers += buffers;
  g_array_append_val(points, *m);
}

/* How much the row's other lanes slow its computation now. */
static double row_slowdown(const Sim *s, int row)
{
  double slowdown = 1;

  for (int lane = row * LANE_COUNT + LANE_COMPUTE + 1; lane < (row + 1) * LANE_COUNT; lane++)
    if (s->lanes[lane].running)
      slowdown = MAX(slowdown, segment_of(s, head(s, lane))->slowdown);
  return slowdown;
}

static void schedule_end(Sim *s, int lane)
{
  LaneState *l = &s->lanes[lane];
  event_queue_push(&s->queue, l->since + l->left * l->slowdown, lane, ++l->version);
}

/* Settles a running computation at its old speed and goes on at the new one. */
static void change_speed(Sim *s, int row)
{
  int lane = row * LANE_COUNT + LANE_COMPUTE;
  LaneState *l = &s->lanes[lane];
  double slowdown = row_slowdown(s, row);

  if (!l->running || slowdown == l->slowdown || task_at(s, head(s, lane))->kind != TASK_PASS)
    return;
  l->left = MAX(0, l->left - (s->now - l->since) / l->slowdown);
  l->since = s->now;
  l->slowdown = slowdown;
  schedule_end(s, lane);
}

static void start(Sim *s, int lane, int task)
{
  LaneState *l = &s->lanes[lane];
  const Task *t = task_at(s, task);
  const Segment *segment = segment_of(s, task);

  l->running = TRUE;
  l->left = segment->seconds;
  l->since = s->now;
  l->slowdown = t->kind == TASK_PASS ? row_slowdown(s, t->row) : 1;
  s->spans[task].start = s->now;
  if (segment->activation_bytes > 0 || segment->alloc_bytes > 0)
    note_memory(s, t->row, MAX(segment->activation_bytes, 0), segment->alloc_bytes);
  schedule_end(s, lane);
  if (segment->slowdown > 1)
    change_speed(s, t->row);
}

static void try_start(Sim *s, int lane)
{
  int task = head(s, lane);

  if (task >= 0 && !s->lanes[lane].running && s->waiting[task] == 0)
    start(s, lane, task);
}

static void end(Sim *s, int lane)
{
  int task = head(s, lane);
  const Task *t = task_at(s, task);
  const Segment *segment = segment_of(s, task);

  s->spans[task].end = s->now;
  s->lanes[lane].running = FALSE;
  s->lanes[lane].next++;
  if (segment->activation_bytes < 0 || segment->free_bytes > 0)
    note_memory(s, t->row, MIN(segment->activation_bytes, 0), -segment->free_bytes);
  if (segment->slowdown > 1)
    change_speed(s, t->row);
  for (int i = s->first_dependent[task]; i < s->first_dependent[task + 1]; i++) {
    int other = s->dependents[i];
    s->spans[other].cause = task;
    if (--s->waiting[other] == 0)
      try_start(s, task_at(s, other)->row * LANE_COUNT + task_at(s, other)->lane);
  }
  try_start(s, lane);
}

static void sim_init(Sim *s, const Program *program)
{
  int n_lanes = program->n_rows * LANE_COUNT;

  *s = (Sim) { .program = program, .trace = trace_new(program) };
  s->rows = s->trace->rows;
  s->lanes = g_new0(LaneState, n_lanes);
  s->memory = g_new0(MemoryPoint, program->n_rows);
  for (int lane = 0; lane < n_lanes; lane++)
    s->lanes[lane].next = program->lane_first[lane];
  g_array_set_size(s->trace->spans, program->tasks->len);
  s->spans = (Span *)s->trace->spans->data;
  for (guint i = 0; i < program->tasks->len; i++) {
    const Task *t = task_at(s, i);
    s->spans[i] = (Span) { .segment = t->segment, .micro = t->micro, .row = t->row, .chunk = t->chunk,
                           .lane = t->lane, .kind = t->kind, .pass = t->pass, .paired = t->paired, .cause = -1 };
  }
  index_dependents(s);
  event_queue_init(&s->queue);
}

/* A pass that was slowed keeps its proportion of exposed communication. */
static void finish_trace(Sim *s)
{
  Trace *t = s->trace;

  for (guint i = 0; i < t->spans->len; i++) {
    Span *span = &s->spans[i];
    const Segment *segment = segment_of(s, i);
    if (span->kind == TASK_PASS && segment->seconds > 0)
      span->exposed_tensor_s = (segment->seconds - segment->compute_s) / segment->seconds * (span->end - span->start);
    t->end_s = MAX(t->end_s, span->end);
  }
  t->end_s += t->step_s;
}

static void sim_clear(Sim *s)
{
  event_queue_clear(&s->queue);
  g_free(s->lanes);
  g_free(s->memory);
  g_free(s->waiting);
  g_free(s->dependents);
  g_free(s->first_dependent);
}

Trace *simulate(const Program *program)
{
  Sim s;
  Event event;

  sim_init(&s, program);
  for (int lane = 0; lane < program->n_rows * LANE_COUNT; lane++)
    try_start(&s, lane);
  while (event_queue_pop(&s.queue, &event))
    if (event.version == s.lanes[event.lane].version && s.lanes[event.lane].running) {
      s.now = event.time;
      end(&s, event.lane);
    }
  finish_trace(&s);
  sim_clear(&s);
  return s.trace;
}

Trace *simulate_plan(const Model *model, const Cluster *cluster, const Plan *plan)
{
  g_autoptr(PriceTable) prices = price_table_new(model, plan, cluster);
  g_autoptr(Program) program = program_new(model, plan, cluster, prices);
  return simulate(program);
}
