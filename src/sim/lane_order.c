#include "sim/lane_order.h"

/* Tasks of a lane that follow each other: the pieces of one pass. */
typedef struct {
  int first, last;
} Run;

static const Task *task_at(const LaneOrder *o, int task)
{
  return &g_array_index(o->program->tasks, Task, task);
}

void lane_order_init(LaneOrder *o, const Program *p, const SimGraph *graph)
{
  *o = (LaneOrder) { .program = p, .graph = graph, .next = g_memdup2(graph->next, MAX(graph->n, 1) * sizeof(int)),
                     .previous = indices_new(MAX(graph->n, 1)) };
  for (int i = 0; i < graph->n; i++)
    if (o->next[i] >= 0)
      o->previous[o->next[i]] = i;
}

void lane_order_clear(LaneOrder *o)
{
  g_free(o->next);
  g_free(o->previous);
}

/* The next task of a lane, from one on, with one of two passes; -1 = none. */
static int find_pass(const LaneOrder *o, int from, Pass a, Pass b)
{
  while (from >= 0 &&
         (task_at(o, from)->kind != TASK_PASS || (task_at(o, from)->pass != a && task_at(o, from)->pass != b)))
    from = o->next[from];
  return from;
}

static Run pieces_of(const LaneOrder *o, int task)
{
  const Task *t = task_at(o, task), *other;
  Run run = { task, task };

  for (int i = o->next[task]; i >= 0; run.last = i, i = o->next[i]) {
    other = task_at(o, i);
    if (other->kind != TASK_PASS || other->pass != t->pass || other->micro != t->micro || other->chunk != t->chunk)
      break;
  }
  return run;
}

/* What a pass sends, -1 = nothing. */
static int send_of(const LaneOrder *o, int task)
{
  const SimGraph *g = o->graph;

  for (int i = g->first_after[task]; i < g->first_after[task + 1]; i++)
    if (task_at(o, g->after[i])->kind == TASK_SEND && task_at(o, g->after[i])->row == task_at(o, task)->row)
      return g->after[i];
  return -1;
}

static gboolean waits_for_lane_only(const LaneOrder *o, Run run, const int *waiting)
{
  for (int i = run.first;; i = o->next[i]) {
    if (waiting[i] != 1)
      return FALSE;
    if (i == run.last)
      return TRUE;
  }
}

static void join(LaneOrder *o, int before, int behind)
{
  if (before >= 0)
    o->next[before] = behind;
  if (behind >= 0)
    o->previous[behind] = before;
}

static void move(LaneOrder *o, Run run, int before)
{
  join(o, o->previous[run.first], o->next[run.last]);
  join(o, o->previous[before], run.first);
  join(o, run.last, before);
}

/* Moves a pass's send before the first of those that it overtakes. */
static void move_send(LaneOrder *o, int send, int overtaken, const Span *spans, int *waiting)
{
  int previous = o->previous[overtaken];

  move(o, (Run) { send, send }, overtaken);
  if (previous < 0 || spans[previous].end >= 0) {
    waiting[send]--;
    waiting[overtaken]++;
  }
}

/* The first send of the passes from one to another, -1 = none. */
static int first_send(const LaneOrder *o, int from, int to)
{
  int send = -1;

  for (int i = from; i != to && send < 0; i = o->next[i])
    send = send_of(o, i);
  return send;
}

int lane_order_next(LaneOrder *o, int ended, const Span *spans, int *waiting)
{
  int next = o->next[ended];

  if (next < 0 || task_at(o, next)->kind != TASK_PASS || task_at(o, next)->pass != PASS_RECOMPUTE)
    return next;
  int backward = find_pass(o, next, PASS_BACKWARD, PASS_INPUT),
      forward = find_pass(o, next, PASS_FORWARD, PASS_FORWARD);
  if (backward < 0 || waiting[backward] == 1 || forward < 0)
    return next;
  Run run = pieces_of(o, forward);
  int send = send_of(o, run.last), overtaken = first_send(o, next, forward);
  if (!waits_for_lane_only(o, run, waiting) || (send >= 0 && waiting[send] != 2))
    return next;
  move(o, run, next);
  if (send >= 0 && overtaken >= 0)
    move_send(o, send, overtaken, spans, waiting);
  return forward;
}

int *lane_order_tasks(const LaneOrder *o)
{
  const Program *p = o->program;
  int *tasks = g_new(int, MAX(o->graph->n, 1));

  for (int lane = 0; lane < p->n_rows * LANE_COUNT; lane++) {
    int first = p->lane_first[lane], at = first < p->lane_first[lane + 1] ? p->lane_tasks[first] : -1;
    while (at >= 0 && o->previous[at] >= 0)
      at = o->previous[at];
    for (int i = first; at >= 0; at = o->next[at])
      tasks[i++] = at;
  }
  return tasks;
}

void lane_order_sort_spans(Trace *trace, const Program *p, const int *lane_tasks)
{
  int n = p->tasks->len;
  Span *spans = (Span *)trace->spans->data;
  g_autofree Span *ran = g_memdup2(spans, n * sizeof *spans);
  g_autofree int *place = g_new(int, MAX(n, 1));

  for (int i = 0; i < n; i++)
    place[lane_tasks[i]] = p->lane_tasks[i];
  for (int i = 0; i < n; i++) {
    spans[place[i]] = ran[i];
    if (ran[i].cause >= 0)
      spans[place[i]].cause = place[ran[i].cause];
  }
}
