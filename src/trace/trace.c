#include "trace/trace.h"

#include <math.h>
#include <string.h>

Trace *trace_new(const Program *program)
{
  Trace *t = g_new0(Trace, 1);

  t->n_rows = program->n_rows;
  t->rows = g_new0(TraceRow, t->n_rows);
  for (int row = 0; row < t->n_rows; row++) {
    t->rows[row].cached_bytes = program->rows[row].cached_bytes;
    t->rows[row].taken_bytes = program->rows[row].taken_bytes;
    t->rows[row].capacity_bytes = program->rows[row].capacity_bytes;
    memcpy(t->rows[row].static_bytes, program->rows[row].static_bytes, sizeof t->rows[row].static_bytes);
    t->rows[row].points = g_array_new(FALSE, FALSE, sizeof(MemoryPoint));
  }
  t->spans = g_array_sized_new(FALSE, TRUE, sizeof(Span), program->tasks->len);
  t->segments = g_array_ref(program->segments);
  t->fragmentation = program->fragmentation;
  t->step_s = program->step_s;
  return t;
}

void trace_free(Trace *t)
{
  if (!t)
    return;
  for (int row = 0; row < t->n_rows; row++)
    g_array_unref(t->rows[row].points);
  g_free(t->rows);
  g_array_unref(t->spans);
  g_free(t->loads);
  g_array_unref(t->segments);
  g_free(t);
}

/* Of a pass's exposed communication, what waited `part_s` of the segment's. */
static double exposed_part(double part_s, double exposed_s, double all_s)
{
  return part_s > 0 && exposed_s > 0 ? MIN(1, part_s / exposed_s) * all_s : 0;
}

static void expose(Span *span, const Segment *segment)
{
  double exposed_s = segment->seconds - segment->compute_s;

  if (span->kind != TASK_PASS || segment->seconds <= 0)
    return;
  span->exposed_tensor_s = exposed_s / segment->seconds * (span->end - span->start);
  span->exposed_context_s = exposed_part(segment->context_s, exposed_s, span->exposed_tensor_s);
  span->exposed_expert_s = exposed_part(segment->expert_s, exposed_s, span->exposed_tensor_s);
  span->exposed_data_s = exposed_part(segment->data_s, exposed_s, span->exposed_tensor_s);
}

void trace_find_causes(Trace *trace, const Program *p)
{
  Span *spans = (Span *)trace->spans->data;

  for (guint i = 0; i < p->tasks->len; i++) {
    const Task *t = &g_array_index(p->tasks, Task, i);
    spans[i].cause = -1;
    for (int d = t->first_dep; d < t->first_dep + t->n_deps; d++)
      if (spans[i].cause < 0 || spans[p->deps[d]].end >= spans[spans[i].cause].end)
        spans[i].cause = p->deps[d];
  }
}

void trace_finish(Trace *t)
{
  Span *spans = (Span *)t->spans->data;
  const Segment *segments = (const Segment *)t->segments->data;

  for (guint i = 0; i < t->spans->len; i++) {
    expose(&spans[i], &segments[spans[i].segment]);
    t->end_s = MAX(t->end_s, spans[i].end);
  }
  t->end_s += t->step_s;
}

void trace_memory(const Trace *t, int row, const MemoryPoint *point, double bytes[PART_COUNT])
{
  memcpy(bytes, t->rows[row].static_bytes, PART_COUNT * sizeof *bytes);
  bytes[PART_ACTIVATIONS] += point->activations;
  bytes[PART_BUFFERS] += point->buffers;
  bytes[PART_OVERHEAD] += t->rows[row].cached_bytes + t->fragmentation * (point->activations + point->buffers);
}

/* The fullest until then. */
static MemoryPoint fullest_point(const TraceRow *row, double end)
{
  MemoryPoint best = { 0 };

  for (guint i = 0; i < row->points->len; i++) {
    const MemoryPoint *p = &g_array_index(row->points, MemoryPoint, i);
    if (p->time < end && p->activations + p->buffers > best.activations + best.buffers)
      best = *p;
  }
  return best;
}

static double peak_until(const Trace *t, int row, double end, double bytes[PART_COUNT])
{
  MemoryPoint best = fullest_point(&t->rows[row], end);
  double total = 0;

  trace_memory(t, row, &best, bytes);
  for (int part = 0; part < PART_COUNT; part++)
    total += bytes[part];
  return total;
}

double trace_row_peak(const Trace *t, int row, double bytes[PART_COUNT])
{
  return peak_until(t, row, INFINITY, bytes);
}

static double optimizer_start(const Trace *t, int row)
{
  for (guint i = 0; i < t->spans->len; i++) {
    const Span *s = &g_array_index(t->spans, Span, i);
    if (s->row == row && s->kind == TASK_OPTIMIZER)
      return s->start;
  }
  return INFINITY;
}

double trace_row_reserved(const Trace *t, int row)
{
  double bytes[PART_COUNT], peak = trace_row_peak(t, row, bytes);

  if (t->rows[row].taken_bytes == 0)
    return peak;
  double taken = peak_until(t, row, optimizer_start(t, row), bytes) + t->rows[row].taken_bytes;
  return MAX(peak, taken);
}
