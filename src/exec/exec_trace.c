/* The trace of a step: each row as its first rank measured it. */
#include "exec/rank.h"

#include "base/sort.h"

/* What a row measured of a task and of itself: doubles alone, zeros from all ranks but one, so that sums tell all. */
typedef struct {
  double start, end, exposed[EXPOSED_COUNT];
  MemoryPoint worst, after;
} TaskMeasured;

typedef struct {
  double static_bytes[PART_COUNT], most_buffers;
  double used_bytes, reserved_bytes, device_bytes;
} RowMeasured;

/* Of all tasks, rows, and micro-batches' layers, one behind the other. */
typedef struct {
  TaskMeasured *tasks;
  RowMeasured *rows;
  ExpertLoad *loads;
} Measured;

static gboolean speaks_for_row(const Exec *x)
{
  return x->coordinates[AXIS_TENSOR] == 0 && exec_replica(x) == 0;
}

static void fill_task(const Exec *x, int task, const double exposed[EXPOSED_COUNT], TaskMeasured *out)
{
  const TaskRun *run = &x->runs[task];
  double begin = x->b->event_s(x->b, x->begin);

  out->start = x->b->event_s(x->b, run->start) - begin;
  out->end = x->b->event_s(x->b, run->end) - begin;
  memcpy(out->exposed, exposed, sizeof out->exposed);
  out->worst = (MemoryPoint) { out->start, run->worst.activations, run->worst.buffers };
  out->after = (MemoryPoint) { out->end, run->after.activations, run->after.buffers };
}

/* Where the loads of a micro-batch's layers lie. */
static gsize load_at(const Exec *x, int copy, int micro)
{
  return ((gsize)copy * x->layout->pipeline.shape.micro + micro) * x->model->n_layers;
}

static gsize n_loads(const Exec *x)
{
  return load_at(x, schedule_copies(x->layout->pipeline.schedule), 0);
}

static void fill_loads(const Exec *x, ExpertLoad *all)
{
  for (int c = 0; c < x->layout->pipeline.shape.chunks; c++) {
    const ChunkState *chunk = &x->chunks[c];
    for (int m = 0; m < x->layout->pipeline.shape.micro; m++)
      for (int layer = chunk->first_layer; layer < chunk->end_layer; layer++)
        all[load_at(x, chunk->copy, m) + layer] = chunk->micro[m].layers[layer - chunk->first_layer].load;
  }
}

/* Of any task of the row. */
static double most_buffers(const Exec *x)
{
  double most = 0;

  for (guint i = 0; i < x->program->tasks->len; i++)
    most = MAX(most, exec_task(x, i)->row == x->row ? x->runs[i].most_buffers : 0);
  return most;
}

static void fill_row(const Exec *x, RowMeasured *out)
{
  *out = (RowMeasured) { .most_buffers = most_buffers(x), .used_bytes = x->device.used_bytes,
                         .reserved_bytes = x->device.reserved_bytes, .device_bytes = x->device.device_bytes };
  for (int part = 0; part < PART_COUNT; part++)
    out->static_bytes[part] = part == PART_ACTIVATIONS || part == PART_BUFFERS ? 0 : x->memory.held[part];
}

/* Of the tasks that this rank ran for its row, if it speaks for it. */
static void fill_tasks(const Exec *x, TaskMeasured *all)
{
  double (*exposed)[EXPOSED_COUNT] = g_malloc0(x->program->tasks->len * sizeof *exposed);

  exposure_add(&x->exposure, exposed);
  for (int lane = 0; lane < LANE_COUNT; lane++)
    for (guint i = 0; i < x->order[lane]->len; i++) {
      int task = g_array_index(x->order[lane], int, i);
      if (exec_task(x, task)->row == x->row)
        fill_task(x, task, exposed[task], &all[task]);
    }
  g_free(exposed);
}

/* What each row measured, on every rank; the block is the tasks'. */
static Measured collect(Exec *x)
{
  gsize tasks = x->program->tasks->len, rows = x->program->n_rows;
  gsize bytes = tasks * sizeof(TaskMeasured) + rows * sizeof(RowMeasured) + n_loads(x) * sizeof(ExpertLoad);
  TaskMeasured *all = g_malloc0(bytes);
  RowMeasured *behind = (RowMeasured *)(all + tasks);
  Measured m = { all, behind, (ExpertLoad *)(behind + rows) };
  void *device = memory_alloc(&x->memory, x->run.s, PART_BUFFERS, bytes);

  if (speaks_for_row(x)) {
    fill_tasks(x, m.tasks);
    fill_row(x, &m.rows[x->row]);
    fill_loads(x, m.loads);
  }
  x->b->upload(x->b, x->run.s, device, all, bytes);
  x->b->all_reduce(x->b, x->world, x->run.s, device, bytes / sizeof(double), EXEC_F64, EXEC_SUM);
  x->b->download(x->b, x->run.s, all, device, bytes);
  memory_release(&x->memory, x->run.s, device);
  return m;
}

static void add_span(Trace *trace, const Program *program, int task, const TaskMeasured *m)
{
  const Task *t = &g_array_index(program->tasks, Task, task);
  Span span = { .start = m->start, .end = m->end, .segment = t->segment, .micro = t->micro, .row = t->row,
                .chunk = t->chunk, .lane = t->lane, .kind = t->kind, .pass = t->pass,
                .exposed_context_s = m->exposed[EXPOSED_CONTEXT], .exposed_expert_s = m->exposed[EXPOSED_EXPERT] };

  for (int kind = 0; kind < EXPOSED_COUNT; kind++)
    span.exposed_tensor_s += m->exposed[kind];
  g_array_append_val(trace->spans, span);
  g_array_append_val(trace->rows[t->row].points, m->worst);
  g_array_append_val(trace->rows[t->row].points, m->after);
  trace->end_s = MAX(trace->end_s, span.end);
}

Trace *exec_trace(Exec *x)
{
  Trace *trace = trace_new(x->program);
  Measured m = collect(x);

  trace->loads = g_memdup2(m.loads, n_loads(x) * sizeof *trace->loads);
  for (guint i = 0; i < x->program->tasks->len; i++)
    add_span(trace, x->program, i, &m.tasks[i]);
  trace_find_causes(trace, x->program);
  for (int row = 0; row < trace->n_rows; row++) {
    TraceRow *out = &trace->rows[row];
    memcpy(out->static_bytes, m.rows[row].static_bytes, sizeof out->static_bytes);
    out->most_buffers = m.rows[row].most_buffers;
    out->used_bytes = m.rows[row].used_bytes;
    out->reserved_bytes = m.rows[row].reserved_bytes;
    out->device_bytes = m.rows[row].device_bytes;
    out->cached_bytes = 0;
    g_array_sort(out->points, sort_reals);
  }
  trace->fragmentation = trace->step_s = 0; /* measured: nothing beside what is held */
  g_free(m.tasks);
  return trace;
}
