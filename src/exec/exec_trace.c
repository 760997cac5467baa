/* The trace of a step: each row as its first rank measured it. */
#include "exec/rank.h"

enum { START, END, EXPOSED, PEAK_ACTIVATIONS = EXPOSED + EXPOSED_COUNT, PEAK_BUFFERS, AFTER_ACTIVATIONS, AFTER_BUFFERS,
       FIELDS };
/* Behind held parts. */
enum { MOST_BUFFERS = PART_COUNT, USED, RESERVED, DEVICE, ROW_FIELDS };
enum { LOAD_FIELDS = sizeof(ExpertLoad) / sizeof(double) };

static gboolean speaks_for_row(const Exec *x)
{
  return x->coordinates[AXIS_TENSOR] == 0 && exec_replica(x) == 0;
}

static void fill_task(const Exec *x, int task, const double exposed[EXPOSED_COUNT], double *out)
{
  const TaskRun *run = &x->runs[task];
  double begin = x->b->event_s(x->b, x->begin);

  out[START] = x->b->event_s(x->b, run->start) - begin;
  out[END] = x->b->event_s(x->b, run->end) - begin;
  memcpy(out + EXPOSED, exposed, EXPOSED_COUNT * sizeof *exposed);
  out[PEAK_ACTIVATIONS] = run->peak_activations;
  out[PEAK_BUFFERS] = run->peak_buffers;
  out[AFTER_ACTIVATIONS] = run->after_activations;
  out[AFTER_BUFFERS] = run->after_buffers;
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

static void fill_row(const Exec *x, double *out)
{
  for (int part = 0; part < PART_COUNT; part++)
    out[part] = part == PART_ACTIVATIONS || part == PART_BUFFERS ? 0 : x->memory.held[part];
  out[MOST_BUFFERS] = most_buffers(x);
  out[USED] = x->device.used_bytes;
  out[RESERVED] = x->device.reserved_bytes;
  out[DEVICE] = x->device.device_bytes;
}

/* Of the tasks that this rank ran for its row, if it speaks for it. */
static void fill_tasks(const Exec *x, double *all)
{
  double (*exposed)[EXPOSED_COUNT] = g_malloc0(x->program->tasks->len * sizeof *exposed);

  exposure_add(&x->exposure, exposed);
  for (int lane = 0; lane < LANE_COUNT; lane++)
    for (guint i = 0; i < x->order[lane]->len; i++) {
      int task = g_array_index(x->order[lane], int, i);
      if (exec_task(x, task)->row == x->row)
        fill_task(x, task, exposed[task], all + task * FIELDS);
    }
  g_free(exposed);
}

/* What each row measured, on every rank: fields of each task, then of each row, then loads. */
static double *collect(Exec *x)
{
  gsize rows = x->program->tasks->len * FIELDS, loads = rows + x->program->n_rows * ROW_FIELDS;
  gsize n = loads + n_loads(x) * LOAD_FIELDS;
  double *all = g_new0(double, n);
  void *device = x->b->alloc(x->b, x->run.s, n * sizeof *all);

  if (speaks_for_row(x)) {
    fill_tasks(x, all);
    fill_row(x, all + rows + x->row * ROW_FIELDS);
    fill_loads(x, (ExpertLoad *)(all + loads));
  }
  x->b->upload(x->b, x->run.s, device, all, n * sizeof *all);
  x->b->all_reduce(x->b, x->world, x->run.s, device, n, EXEC_F64, EXEC_SUM);
  x->b->download(x->b, x->run.s, all, device, n * sizeof *all);
  x->b->dealloc(x->b, x->run.s, device, n * sizeof *all);
  return all;
}

static void add_span(Trace *trace, const Program *program, int task, const double *fields)
{
  const Task *t = &g_array_index(program->tasks, Task, task);
  Span span = { .start = fields[START], .end = fields[END], .segment = t->segment, .micro = t->micro, .row = t->row,
                .chunk = t->chunk, .lane = t->lane, .kind = t->kind, .pass = t->pass, .cause = -1 };

  for (int kind = 0; kind < EXPOSED_COUNT; kind++)
    span.exposed_tensor_s += fields[EXPOSED + kind];
  span.exposed_context_s = fields[EXPOSED + EXPOSED_CONTEXT];
  span.exposed_expert_s = fields[EXPOSED + EXPOSED_EXPERT];
  g_array_append_val(trace->spans, span);
  trace->end_s = MAX(trace->end_s, span.end);
}

/* The dependency that ended last. */
static void find_causes(Trace *trace, const Program *program)
{
  for (guint i = 0; i < trace->spans->len; i++) {
    const Task *t = &g_array_index(program->tasks, Task, i);
    Span *span = &g_array_index(trace->spans, Span, i);
    for (int d = t->first_dep; d < t->first_dep + t->n_deps; d++) {
      int dep = program->deps[d];
      if (span->cause < 0 ||
          g_array_index(trace->spans, Span, dep).end > g_array_index(trace->spans, Span, span->cause).end)
        span->cause = dep;
    }
  }
}

static int by_time(gconstpointer a, gconstpointer b)
{
  double x = ((const MemoryPoint *)a)->time, y = ((const MemoryPoint *)b)->time;
  return (x > y) - (x < y);
}

static void add_memory(Trace *trace, const Program *program, const double *all)
{
  for (guint i = 0; i < program->tasks->len; i++) {
    const double *f = all + i * FIELDS;
    GArray *points = trace->rows[g_array_index(program->tasks, Task, i).row].points;
    MemoryPoint worst = { f[START], f[PEAK_ACTIVATIONS], f[PEAK_BUFFERS] };
    MemoryPoint after = { f[END], f[AFTER_ACTIVATIONS], f[AFTER_BUFFERS] };
    g_array_append_val(points, worst);
    g_array_append_val(points, after);
  }
  for (int row = 0; row < trace->n_rows; row++)
    g_array_sort(trace->rows[row].points, by_time);
}

Trace *exec_trace(Exec *x)
{
  Trace *trace = trace_new(x->program);
  g_autofree double *all = collect(x);
  const double *rows = all + x->program->tasks->len * FIELDS;

  trace->loads = g_memdup2(rows + x->program->n_rows * ROW_FIELDS, n_loads(x) * sizeof *trace->loads);
  for (guint i = 0; i < x->program->tasks->len; i++)
    add_span(trace, x->program, i, all + i * FIELDS);
  find_causes(trace, x->program);
  add_memory(trace, x->program, all);
  for (int row = 0; row < trace->n_rows; row++) {
    memcpy(trace->rows[row].static_bytes, rows + row * ROW_FIELDS, PART_COUNT * sizeof(double));
    trace->rows[row].most_buffers = rows[row * ROW_FIELDS + MOST_BUFFERS];
    trace->rows[row].used_bytes = rows[row * ROW_FIELDS + USED];
    trace->rows[row].reserved_bytes = rows[row * ROW_FIELDS + RESERVED];
    trace->rows[row].device_bytes = rows[row * ROW_FIELDS + DEVICE];
    trace->rows[row].cached_bytes = 0;
  }
  trace->fragmentation = trace->step_s = 0; /* measured: nothing beside what is held */
  return trace;
}
