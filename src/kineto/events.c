#include "kineto/events.h"

#include "kineto/groups.h"

#include <math.h>

#define THREAD_STEP 0 /* the host's */
#define STREAM_COMPUTE 7
#define STREAM_TENSOR 20
#define STREAM_RECEIVE 23
#define STREAM_RECEIVE_MORE 25 /* and up: receives beside others */
#define STREAMS 64

static const struct {
  int stream;
  const char *title;
} lanes[LANE_COUNT] = {
  [LANE_COMPUTE] = { STREAM_COMPUTE, "compute" },
  [LANE_PIPELINE] = { 22, "sends" },
  [LANE_DATA] = { 21, "data parallel" },
  [LANE_FETCH] = { 18, "from the host" },
  [LANE_STORE] = { 19, "to the host" },
};

static const struct {
  const char *nccl;  /* as kernels are called; what a name starts with decides its colour in Perfetto */
  const char *mpi;   /* as MPI's standard names operations */
  const char *torch; /* as torch's argument "Collective name" */
} operations[COLLECTIVE_COUNT] = {
  [COLLECTIVE_ALL_REDUCE] = { "AllReduce", "Allreduce", "allreduce" },
  [COLLECTIVE_ALL_GATHER] = { "AllGather", "Allgather", "_allgather_base" },
  [COLLECTIVE_REDUCE_SCATTER] = { "ReduceScatter", "Reduce_scatter", "_reduce_scatter_base" },
  [COLLECTIVE_ALL_TO_ALL] = { "SendRecv", "Alltoall", "all_to_allv" },
  [COLLECTIVE_BROADCAST] = { "Broadcast", "Bcast", "broadcast" },
  [COLLECTIVE_SEND] = { "SendRecv", "Send", "send" },
};

static gint64 ns(double seconds)
{
  return llround(seconds * 1e9);
}

/* ---- index ---- */

static const Span *span_at(const Trace *t, int i)
{
  return &g_array_index(t->spans, Span, i);
}

static int *consumer_slot(const TraceIndex *x, int row, int chunk, gboolean backward, guint32 micro)
{
  return &x->consumers[(((gsize)row * x->chunks + chunk) * 2 + backward) * x->micros + micro];
}

/* Only what the stage before or behind may feed. */
static gboolean is_fed(Pass pass)
{
  return pass == PASS_FORWARD || pass_is_backward(pass);
}

static void index_passes(TraceIndex *x, int i)
{
  const Span *s = span_at(x->view->trace, i);
  int *known;

  if (s->kind != TASK_PASS || !is_fed(s->pass))
    return;
  known = consumer_slot(x, s->row, s->chunk, s->pass != PASS_FORWARD, s->micro);
  if (*known < 0 || s->start < span_at(x->view->trace, *known)->start)
    *known = i;
}

/* The row that a send goes to, and the chunk there; -1 if there is none. */
static int receiver(const TraceIndex *x, const Span *send, int *chunk)
{
  const Schedule *schedule = x->layout->pipeline.schedule;
  const ScheduleShape *shape = &x->layout->pipeline.shape;
  int rank = send->row / x->rows_of_stage;
  int stage = schedule_stage(schedule, shape, rank, send->chunk) + (send->pass == PASS_FORWARD ? 1 : -1);

  if (stage < 0 || stage >= schedule_stages(schedule, shape))
    return -1;
  Place place = schedule_place(schedule, shape, stage, schedule_copy(schedule, send->chunk));
  *chunk = place.chunk;
  return send->row + (place.rank - rank) * x->rows_of_stage;
}

static int by_start(gconstpointer a, gconstpointer b, gpointer trace)
{
  int i = *(const int *)a, j = *(const int *)b;
  double x = span_at(trace, i)->start, y = span_at(trace, j)->start;

  return x != y ? (x > y) - (x < y) : (i > j) - (i < j);
}

void trace_index_init(TraceIndex *x, const TraceView *view)
{
  const Trace *t = view->trace;

  *x = (TraceIndex) { .view = view, .layout = &view->result->layout };
  const ScheduleShape *shape = &x->layout->pipeline.shape;
  x->ranks_of_row = x->layout->mesh.ranks / t->n_rows;
  x->rows_of_stage = MAX(t->n_rows / shape->ranks, 1);
  x->chunks = shape->chunks;
  x->micros = shape->micro;
  x->consumers = indices_new((gsize)t->n_rows * x->chunks * 2 * x->micros);
  x->receives = g_new(GArray *, t->n_rows);
  x->spans = g_new(GArray *, t->n_rows);
  for (int row = 0; row < t->n_rows; row++) {
    x->receives[row] = g_array_new(FALSE, FALSE, sizeof(int));
    x->spans[row] = g_array_new(FALSE, FALSE, sizeof(int));
  }
  for (int i = 0; i < (int)t->spans->len; i++) {
    const Span *s = span_at(t, i);
    int chunk, row = s->kind == TASK_SEND ? receiver(x, s, &chunk) : -1;
    g_array_append_val(x->spans[s->row], i);
    if (row >= 0)
      g_array_append_val(x->receives[row], i);
    index_passes(x, i);
  }
  for (int row = 0; row < t->n_rows; row++)
    g_array_sort_with_data(x->receives[row], by_start, (gpointer)t);
}

void trace_index_clear(TraceIndex *x)
{
  for (int row = 0; row < x->view->trace->n_rows; row++) {
    g_array_unref(x->receives[row]);
    g_array_unref(x->spans[row]);
  }
  g_free(x->receives);
  g_free(x->spans);
  g_free(x->consumers);
}

/* ---- events ---- */

static void open_event(EventSink *sink, const char *phase, const char *category, const char *name, int tid, gint64 at)
{
  json_open_line(sink->w, NULL, '{');
  json_put_string(sink->w, "ph", phase);
  json_put_string(sink->w, "cat", category);
  json_put_string(sink->w, "name", name);
  json_put_int(sink->w, "pid", sink->pid);
  json_put_int(sink->w, "tid", tid);
  json_put_thousandths(sink->w, "ts", at);
}

static void close_event(EventSink *sink)
{
  json_close_line(sink->w, '}');
}

/* A slice with its arguments open; close_slice ends it. */
static void open_slice(EventSink *sink, const TraceIndex *x, const char *category, const char *name, int stream,
                       gint64 from, gint64 to)
{
  open_event(sink, "X", category, name, stream, from);
  json_put_thousandths(sink->w, "dur", to - from);
  json_open(sink->w, "args", '{');
  json_put_bool(sink->w, "predicted", x->view->predicted);
  json_put_int(sink->w, "device", sink->rank % x->view->result->cluster->devices_per_node);
  json_put_int(sink->w, "stream", stream);
}

static void close_slice(EventSink *sink)
{
  json_close(sink->w, '}');
  close_event(sink);
}

/* Start (phase "s") or end ("f") of an arrow, at the slice that begins then. */
static void put_flow(EventSink *sink, const char *phase, const char *name, int id, int stream, gint64 at)
{
  open_event(sink, phase, "p2p", name, stream, at);
  json_put_int(sink->w, "id", id);
  if (*phase == 'f')
    json_put_string(sink->w, "bp", "e");
  close_event(sink);
}

static void name_thread(EventSink *sink, int stream, const char *name)
{
  for (int i = 0; i < 2; i++) {
    open_event(sink, "M", "__metadata", i ? "thread_sort_index" : "thread_name", stream, 0);
    json_open(sink->w, "args", '{');
    if (i)
      json_put_int(sink->w, "sort_index", stream);
    else
      json_put_string(sink->w, "name", name);
    json_close(sink->w, '}');
    close_event(sink);
  }
}

static void name_stream(EventSink *sink, int stream, const char *title)
{
  g_autofree char *name = g_strdup_printf("stream %d %s", stream, title);
  name_thread(sink, stream, name);
}

/* ---- slices ---- */

static char *pass_title(const Span *s)
{
  return g_strdup_printf("%c mb%u c%d", pass_letters[s->pass], s->micro, s->chunk);
}

static void put_sizes(EventSink *sink, const TraceIndex *x, const Segment *segment)
{
  gboolean gathers = segment->collective == COLLECTIVE_ALL_GATHER;
  gboolean scatters = segment->collective == COLLECTIVE_REDUCE_SCATTER;
  gint64 bytes = (gint64)segment->comm_bytes, share = bytes / MAX(segment->group.size, 1);

  json_put_string(sink->w, "Collective name", operations[segment->collective].torch);
  json_put_int(sink->w, "In msg nelems", gathers ? share : bytes);
  json_put_int(sink->w, "Out msg nelems", scatters ? share : bytes);
  json_put_string(sink->w, "dtype", "Byte");
  Layout room;
  const Layout *view = layout_of_layer(x->layout, segment->first_layer, &room);
  group_put_args(sink->w, view, group_of_segment(view, segment), sink->rank);
}

/* Newly allocated: by the library that runs. */
static char *communication_name(const TraceIndex *x, const char *kernel, const char *operation)
{
  gboolean mpi = device_is_core(&x->view->result->cluster->device);

  return g_strconcat(mpi ? "MPI_" : "ncclDevKernel_", mpi ? operation : kernel, NULL);
}

/* Computes first, then what of its communication nothing hides. */
static void put_pass(EventSink *sink, const TraceIndex *x, const Span *s)
{
  const Segment *segment = &g_array_index(x->view->trace->segments, Segment, s->segment);
  g_autofree char *title = s->kind == TASK_PASS ? pass_title(s) : g_strdup(task_kind_names[s->kind]);
  gint64 from = ns(s->start), to = ns(s->end), middle = CLAMP(ns(s->end - s->exposed_tensor_s), from, to);

  if (middle > from) {
    open_slice(sink, x, "kernel", title, STREAM_COMPUTE, from, middle);
    if (s->kind == TASK_PASS) {
      json_put_int(sink->w, "first layer", segment->first_layer);
      json_put_int(sink->w, "layers", segment->n_layers);
      if (s->paired)
        json_put_bool(sink->w, "overlaps the next pass", TRUE);
    }
    close_slice(sink);
  }
  if (to > middle) {
    g_autofree char *name = communication_name(x, "TensorParallel", "TensorParallel");
    open_slice(sink, x, "kernel", name, STREAM_TENSOR, middle, to);
    json_put_string(sink->w, "of", title);
    Layout room;
    const Layout *view = layout_of_layer(x->layout, segment->first_layer, &room);
    group_put_args(sink->w, view, GROUP_TENSOR, sink->rank);
    close_slice(sink);
  }
}

static void put_communication(EventSink *sink, const TraceIndex *x, const Span *s, int stream)
{
  const Segment *segment = &g_array_index(x->view->trace->segments, Segment, s->segment);
  g_autofree char *algorithm = segment->cost.algorithm ? g_ascii_strup(segment->cost.algorithm, -1) : g_strdup("");
  Collective collective = s->kind == TASK_SEND ? COLLECTIVE_SEND : segment->collective;
  g_autofree char *kind = communication_name(x, operations[collective].nccl, operations[collective].mpi);
  g_autofree char *name = s->kind == TASK_SEND
                              ? g_strdup_printf("%s(%c mb%u c%d)", kind, pass_letters[s->pass], s->micro, s->chunk)
                              : g_strdup_printf("%s_%s(%s)", kind, algorithm, task_kind_names[s->kind]);

  open_slice(sink, x, "kernel", name, stream, ns(s->start), ns(s->end));
  put_sizes(sink, x, segment);
  close_slice(sink);
}

static gboolean is_host_lane(int lane)
{
  return lane == LANE_FETCH || lane == LANE_STORE;
}

/* A copy as torch names it; a delayed update runs on the host itself. */
static void put_copy(EventSink *sink, const TraceIndex *x, const Span *s)
{
  const char *name = s->kind == TASK_FETCH   ? "Memcpy HtoD (Pinned -> Device)"
                     : s->kind == TASK_STORE ? "Memcpy DtoH (Device -> Pinned)"
                                             : "optimizer on the host";

  open_slice(sink, x, "gpu_memcpy", name, lanes[s->lane].stream, ns(s->start), ns(s->end));
  close_slice(sink);
}

/* The first stream that is free; streams' ends are in `busy`. */
static int receive_stream(gint64 *busy, int *n, gint64 from)
{
  int i = 0;

  while (i < *n && busy[i] > from)
    i++;
  *n = MAX(*n, i + 1);
  return i;
}

/* The id of a send's arrow from its sender: the same for both ends. */
static int send_flow(int span)
{
  return 2 * span;
}

static void put_receive(EventSink *sink, const TraceIndex *x, int span, int stream)
{
  const Trace *t = x->view->trace;
  const Span *s = span_at(t, span);
  int chunk = 0, row = receiver(x, s, &chunk);
  int fed = *consumer_slot(x, row, chunk, s->pass != PASS_FORWARD, s->micro);

  put_communication(sink, x, s, stream);
  if (sink->merged)
    put_flow(sink, "f", "send", sink->first_flow + send_flow(span), stream, ns(s->start));
  if (fed < 0 || ns(span_at(t, fed)->end - span_at(t, fed)->exposed_tensor_s) <= ns(span_at(t, fed)->start))
    return;
  put_flow(sink, "s", "receive", sink->first_flow + send_flow(span) + 1, stream, ns(s->start));
  put_flow(sink, "f", "receive", sink->first_flow + send_flow(span) + 1, STREAM_COMPUTE, ns(span_at(t, fed)->start));
}

static void put_receives(EventSink *sink, const TraceIndex *x, int row)
{
  gint64 busy[STREAMS] = { 0 };
  int streams = 0;

  for (guint i = 0; i < x->receives[row]->len; i++) {
    int span = g_array_index(x->receives[row], int, i);
    const Span *s = span_at(x->view->trace, span);
    if (ns(s->end) == ns(s->start))
      continue;
    int known = streams, at = receive_stream(busy, &streams, ns(s->start));
    int stream = at ? STREAM_RECEIVE_MORE + at - 1 : STREAM_RECEIVE;
    g_assert(streams < STREAMS);
    if (streams > known)
      name_stream(sink, stream, "receives");
    busy[at] = ns(s->end);
    put_receive(sink, x, span, stream);
  }
}

static void put_span(EventSink *sink, const TraceIndex *x, int span)
{
  const Span *s = span_at(x->view->trace, span);
  int chunk;

  if (ns(s->end) == ns(s->start))
    return;
  if (s->lane == LANE_COMPUTE) {
    put_pass(sink, x, s);
    return;
  }
  if (is_host_lane(s->lane)) {
    put_copy(sink, x, s);
    return;
  }
  put_communication(sink, x, s, lanes[s->lane].stream);
  if (sink->merged && s->kind == TASK_SEND && receiver(x, s, &chunk) >= 0)
    put_flow(sink, "s", "send", sink->first_flow + send_flow(span), lanes[s->lane].stream, ns(s->start));
}

/* ---- memory ---- */

static void put_memory(EventSink *sink, const Trace *t, int row, const MemoryPoint *point, gint64 at)
{
  double bytes[PART_COUNT];

  trace_memory(t, row, point, bytes);
  open_event(sink, "C", "memory", "memory", 0, at);
  json_open(sink->w, "args", '{');
  for (int part = 0; part < PART_COUNT; part++)
    json_put_int(sink->w, memory_part_names[part], llround(bytes[part]));
  json_close(sink->w, '}');
  close_event(sink);
}

/* Of several points within a nanosecond the last. */
static void put_memories(EventSink *sink, const Trace *t, int row)
{
  const GArray *points = t->rows[row].points;
  MemoryPoint held = { 0 };

  for (guint i = 0; i < points->len; i++) {
    const MemoryPoint *next = &g_array_index(points, MemoryPoint, i);
    if (ns(next->time) > ns(held.time))
      put_memory(sink, t, row, &held, ns(held.time));
    held = *next;
  }
  put_memory(sink, t, row, &held, ns(held.time));
}

/* The whole step, as torch's profiler marks it. */
static void put_step(EventSink *sink, const Trace *t)
{
  name_thread(sink, THREAD_STEP, "step");
  open_event(sink, "X", "user_annotation", "ProfilerStep#0", THREAD_STEP, 0);
  json_put_thousandths(sink->w, "dur", ns(t->end_s));
  close_event(sink);
}

void row_events(const TraceIndex *x, int row, EventSink *sink)
{
  const Trace *t = x->view->trace;

  put_step(sink, t);
  for (int lane = 0; lane < LANE_COUNT; lane++)
    if (!is_host_lane(lane) || offload_any(&x->layout->states[0].offload))
      name_stream(sink, lanes[lane].stream, lanes[lane].title);
  if (x->layout->passes.tp > 1)
    name_stream(sink, STREAM_TENSOR, "tensor parallel");
  for (guint i = 0; i < x->spans[row]->len; i++)
    put_span(sink, x, g_array_index(x->spans[row], int, i));
  put_receives(sink, x, row);
  put_memories(sink, t, row);
}
