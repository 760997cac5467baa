#include "sim/simulate.h"

#include "sim/event_queue.h"
#include "sim/graph.h"
#include "sim/lane_order.h"
#include "sim/links.h"

#include <math.h>

#define NO_EVENT G_MAXUINT32

/* A task under way, by lane. */
typedef struct {
  double left;     /* seconds of work left at full speed, as of `since` */
  double since;
  double slowdown; /* in force */
  double slows;    /* the row's computation; 1 where nothing runs */
  guint32 event;   /* its valid event, others are void; NO_EVENT behind it */
  int task;        /* -1 = none */
  int parts;       /* events and flows that must end */
} Running;

typedef struct {
  const Program *program;
  const Task *tasks;
  const Segment *segments;
  const SimGraph *graph;
  LaneOrder *order; /* where forwards may be run ahead, else NULL */
  const SimLinks *links; /* NULL = nothing is shared */
  FlowNet *net;
  Trace *trace;
  Span *spans;      /* by task */
  int *waiting;     /* what a task waits for that has not ended */
  Running *running; /* by lane */
  MemoryPoint *memory; /* of each row now */
  EventQueue queue;
  GArray *done; /* int: tasks whose flows end now */
  int computing; /* rows whose compute lane is at work */
  double now;
} Sim;

static void note_memory(Sim *s, int row, double activations, double buffers)
{
  MemoryPoint *m = &s->memory[row];
  GArray *points = s->trace->rows[row].points;

  m->time = s->now;
  m->activations += activations;
  m->buffers += buffers;
  ((MemoryPoint *)points->data)[points->len++] = *m;
}

/* How much the row's other lanes slow its computation now; copies from and to the host do not. */
static double row_slowdown(const Sim *s, int row)
{
  const Running *lanes = &s->running[row * LANE_COUNT];
  double slowdown = 1;

  for (int lane = LANE_COMPUTE + 1; lane <= LANE_DATA; lane++)
    slowdown = MAX(slowdown, lanes[lane].slows);
  return slowdown;
}

/* How much slower a row's task is for the other devices of its node that compute: units and memory that they share,
 * and processors on which they take turns. */
static double crowding(const Sim *s, int task)
{
  const Program *p = s->program;
  const Segment *segment = &s->segments[s->tasks[task].segment];
  double busy = (double)s->computing * p->row_ranks / p->nodes;

  if (p->node_devices < 2 || !(segment->seconds > 0))
    return 1;
  double others = CLAMP((busy - 1) / MAX(p->node_processors - 1, 1), 0, 1);
  return (1 + MAX(0, segment->crowded_s) / segment->seconds * others) * MAX(1, busy / p->node_processors);
}

static double slowdown_of(const Sim *s, int row, int task)
{
  return (s->tasks[task].kind == TASK_PASS ? row_slowdown(s, row) : 1) * crowding(s, task);
}

static void push_end(Sim *s, Running *r)
{
  r->event = event_queue_push(&s->queue, r->since + r->left * r->slowdown, r->task);
}

/* Settles a running computation at its old speed and goes on at the new one. */
static void change_speed(Sim *s, int row)
{
  Running *r = &s->running[row * LANE_COUNT + LANE_COMPUTE];
  double slowdown;

  if (r->task < 0 || r->event == NO_EVENT)
    return;
  slowdown = slowdown_of(s, row, r->task);
  if (slowdown == r->slowdown)
    return;
  r->left = MAX(0, r->left - (s->now - r->since) / r->slowdown);
  r->since = s->now;
  r->slowdown = slowdown;
  push_end(s, r);
}

/* A row starts or stops to compute. */
static void change_crowd(Sim *s, int more)
{
  s->computing += more;
  for (int row = 0; row < s->program->n_rows; row++)
    change_speed(s, row);
}

/* A transfer is a flow; a pass whose communication shares a link is both. */
static void launch(Sim *s, Running *r, const Segment *segment)
{
  const FlowSpec *flow = s->links ? sim_links_flow(s->links, r->task) : NULL;

  if (flow) {
    FlowSpec spec = *flow;
    spec.tag = r->task;
    flow_start(s->net, s->now, &spec);
    r->parts++;
  }
  if (!flow || segment->kind == TASK_PASS) {
    push_end(s, r);
    r->parts++;
  }
}

static void start(Sim *s, int task)
{
  const Task *t = &s->tasks[task];
  const Segment *segment = &s->segments[t->segment];
  Running *r = &s->running[s->graph->lane[task]];

  *r = (Running) { .left = segment->seconds, .since = s->now, .slows = segment->slowdown, .task = task,
                   .event = NO_EVENT, .slowdown = 1 };
  if (s->program->crowds && t->lane == LANE_COMPUTE)
    change_crowd(s, 1);
  if (t->lane == LANE_COMPUTE)
    r->slowdown = slowdown_of(s, t->row, task);
  s->spans[task].start = s->now;
  if (segment_takes(segment))
    note_memory(s, t->row, segment_at_start(segment), segment->alloc_bytes);
  launch(s, r, segment);
  if (segment->slowdown > 1)
    change_speed(s, t->row);
}

static void end(Sim *s, int task)
{
  const SimGraph *g = s->graph;
  const Task *t = &s->tasks[task];
  const Segment *segment = &s->segments[t->segment];
  Running *r = &s->running[g->lane[task]];

  s->spans[task].end = s->now;
  r->task = -1;
  r->slows = 1;
  if (s->program->crowds && t->lane == LANE_COMPUTE)
    change_crowd(s, -1);
  if (segment_gives(segment))
    note_memory(s, t->row, segment_at_end(segment), -segment->free_bytes);
  if (segment->slowdown > 1)
    change_speed(s, t->row);
  for (int i = g->first_after[task]; i < g->first_after[task + 1]; i++) {
    int other = g->after[i];
    s->spans[other].cause = task;
    if (--s->waiting[other] == 0)
      start(s, other);
  }
  int next = s->order ? lane_order_next(s->order, task, s->spans, s->waiting) : g->next[task];
  if (next >= 0 && --s->waiting[next] == 0)
    start(s, next);
}

/* One of the parts of a task that is under way is over. */
static void end_part(Sim *s, int task)
{
  if (--s->running[s->graph->lane[task]].parts == 0)
    end(s, task);
}

/* Room for every point: taking and giving back are one each. */
static void reserve_points(Sim *s)
{
  g_autofree guint *points = g_new0(guint, s->program->n_rows);

  for (int i = 0; i < s->graph->n; i++) {
    const Segment *segment = &s->segments[s->tasks[i].segment];
    points[s->tasks[i].row] += segment_takes(segment) + segment_gives(segment);
  }
  for (int row = 0; row < s->program->n_rows; row++) {
    g_array_set_size(s->trace->rows[row].points, points[row]);
    g_array_set_size(s->trace->rows[row].points, 0);
  }
}

static void sim_init(Sim *s, const Program *program, const SimGraph *graph, const SimLinks *links)
{
  int n_lanes = program->n_rows * LANE_COUNT;

  *s = (Sim) { .program = program, .tasks = (const Task *)program->tasks->data, .graph = graph, .links = links,
               .segments = (const Segment *)program->segments->data, .trace = trace_new(program) };
  s->net = links ? sim_links_net_new(links) : NULL;
  s->running = g_new(Running, n_lanes);
  s->memory = g_new0(MemoryPoint, program->n_rows);
  s->waiting = g_memdup2(graph->n_waits, graph->n * sizeof(int));
  for (int lane = 0; lane < n_lanes; lane++)
    s->running[lane] = (Running) { .task = -1, .slows = 1, .event = NO_EVENT };
  s->trace->spans->len = graph->n; /* trace_new made room; each is set below */
  s->spans = (Span *)s->trace->spans->data;
  for (int i = 0; i < graph->n; i++) {
    const Task *t = &s->tasks[i];
    s->spans[i] = (Span) { .segment = t->segment, .micro = t->micro, .row = t->row, .chunk = t->chunk,
                           .lane = t->lane, .kind = t->kind, .pass = t->pass, .paired = t->paired, .cause = -1,
                           .end = -1 };
  }
  s->done = g_array_new(FALSE, FALSE, sizeof(int));
  reserve_points(s);
  event_queue_init(&s->queue);
}

static void sim_clear(Sim *s)
{
  event_queue_clear(&s->queue);
  flow_net_free(s->net);
  g_array_unref(s->done);
  g_free(s->running);
  g_free(s->memory);
  g_free(s->waiting);
}

/* The first tasks of lanes that wait for nothing. */
static void start_ready(Sim *s)
{
  for (int lane = 0; lane < s->program->n_rows * LANE_COUNT; lane++) {
    int first = s->program->lane_first[lane];
    if (first < s->program->lane_first[lane + 1] && s->waiting[s->program->lane_tasks[first]] == 0)
      start(s, s->program->lane_tasks[first]);
  }
}

static void run_alone(Sim *s)
{
  Event event;

  while (event_queue_pop(&s->queue, &event))
    if (s->running[s->graph->lane[event.task]].event == event.order) {
      s->now = event.time;
      end(s, event.task);
    }
}

/* What is complete at one instant ends in the order in which it started. */
static void end_flows(Sim *s)
{
  const int *done;
  int n = flow_advance(s->net, s->now, &done);

  g_array_set_size(s->done, 0);
  g_array_append_vals(s->done, done, n);
  for (int i = 0; i < n; i++)
    end_part(s, g_array_index(s->done, int, i));
}

static void run_shared(Sim *s)
{
  for (;;) {
    double flow_time = flow_next_event(s->net), event_time = s->queue.n > 0 ? s->queue.heap[0].time : INFINITY;
    Event event;
    if (flow_time < event_time) {
      s->now = flow_time;
      end_flows(s);
    } else if (event_queue_pop(&s->queue, &event)) {
      Running *r = &s->running[s->graph->lane[event.task]];
      if (r->event != event.order)
        continue;
      r->event = NO_EVENT;
      s->now = event.time;
      end_part(s, event.task);
    } else {
      return;
    }
  }
}

/* `*lane_tasks` becomes the order of the lanes; NULL where it is the program's. */
static Trace *run(const Program *program, const SimLinks *links, int receive_buffers, int **lane_tasks)
{
  g_autoptr(SimGraph) graph = sim_graph_new(program, receive_buffers);
  LaneOrder order;
  Sim s;

  sim_init(&s, program, graph, links);
  if (program->opportunistic) {
    lane_order_init(&order, program, graph);
    s.order = &order;
  }
  start_ready(&s);
  if (links)
    run_shared(&s);
  else
    run_alone(&s);
  trace_finish(s.trace);
  *lane_tasks = s.order ? lane_order_tasks(s.order) : NULL;
  if (s.order)
    lane_order_clear(s.order);
  sim_clear(&s);
  return s.trace;
}

Trace *simulate_on(const Program *program, const SimLinks *links, int receive_buffers)
{
  g_autofree int *lane_tasks = NULL;
  Trace *trace = run(program, links, receive_buffers, &lane_tasks);

  if (lane_tasks)
    lane_order_sort_spans(trace, program, lane_tasks);
  return trace;
}

int *simulate_order(const Program *program)
{
  int *lane_tasks;

  if (!program->opportunistic)
    return NULL;
  trace_free(run(program, NULL, 0, &lane_tasks));
  return lane_tasks;
}

Trace *simulate(const Program *program)
{
  return simulate_on(program, NULL, 0);
}
