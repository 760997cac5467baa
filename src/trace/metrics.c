#include "trace/trace.h"

#include <string.h>

/* Sums over the spans. */
typedef struct {
  double pipeline_end;   /* of the last pass of any row */
  double *busy;          /* by row: its passes */
  double hardware_flops; /* of all rows */
} Totals;

static Totals totals_of(const Trace *t)
{
  Totals totals = { .busy = g_new0(double, t->n_rows) };

  for (guint i = 0; i < t->spans->len; i++) {
    const Span *s = &g_array_index(t->spans, Span, i);
    if (s->kind != TASK_PASS)
      continue;
    totals.pipeline_end = MAX(totals.pipeline_end, s->end);
    totals.busy[s->row] += s->end - s->start;
    totals.hardware_flops += g_array_index(t->segments, Segment, s->segment).hardware_flops;
  }
  return totals;
}

double trace_row_bubble(const Trace *t, int row)
{
  Totals totals = totals_of(t);
  g_autofree double *busy = totals.busy;

  return totals.pipeline_end > 0 ? (totals.pipeline_end - busy[row]) / totals.pipeline_end : 0;
}

double trace_row_compute(const Trace *t, int row)
{
  double seconds = 0;

  for (guint i = 0; i < t->spans->len; i++) {
    const Span *s = &g_array_index(t->spans, Span, i);
    if (s->kind == TASK_PASS && s->row == row)
      seconds += s->end - s->start - s->exposed_tensor_s;
  }
  return seconds;
}

/* Time of [from, to) in which a span of the kind that was waited for ran. */
static double overlap(double from, double to, const Span *s)
{
  return MAX(0, MIN(to, s->end) - MAX(from, s->start));
}

/* Between stages. */
static gboolean is_pipeline(const Span *s)
{
  return s->kind == TASK_SEND || s->kind == TASK_VOCAB;
}

/* Charges a gap in a row's computation to what was waited for while that ran: a
 * send; or, unless it was a send, the row's own data-parallel communication;
 * else to idleness. `data` are the row's data-lane spans in order; those before
 * `next` ended before the gap. */
static void charge_gap(const Trace *t, const GPtrArray *data, guint *next, double from, double to, int cause,
                       Metrics *m)
{
  double waited = 0, sent = 0;

  while (*next < data->len && ((const Span *)g_ptr_array_index(data, *next))->end <= from)
    (*next)++;
  for (guint i = *next; i < data->len && ((const Span *)g_ptr_array_index(data, i))->start < to; i++)
    waited += overlap(from, to, g_ptr_array_index(data, i));
  if (cause >= 0 && is_pipeline(&g_array_index(t->spans, Span, cause))) {
    sent = overlap(from, to, &g_array_index(t->spans, Span, cause));
    waited = 0;
  }
  m->data_comm_s += waited;
  m->pipeline_comm_s += sent;
  m->idle_s += to - from - waited - sent;
}

static GPtrArray *data_spans(const Trace *t, int row)
{
  GPtrArray *spans = g_ptr_array_new();

  for (guint i = 0; i < t->spans->len; i++) {
    Span *s = &g_array_index(t->spans, Span, i);
    if (s->row == row && s->lane == LANE_DATA)
      g_ptr_array_add(spans, s);
  }
  return spans;
}

/* Of a pass's exposed communication, the part that waited `part_s` of the segment's. */
static double exposed_part(const Segment *segment, double part_s, const Span *s)
{
  double exposed = segment->seconds - segment->compute_s;

  return part_s > 0 && exposed > 0 ? MIN(1, part_s / exposed) * s->exposed_tensor_s : 0;
}

static void break_down(const Trace *t, int row, Metrics *m)
{
  g_autoptr(GPtrArray) data = data_spans(t, row);
  double clock = 0;
  guint next = 0;

  for (guint i = 0; i < t->spans->len; i++) {
    const Span *s = &g_array_index(t->spans, Span, i);
    if (s->row != row || s->lane != LANE_COMPUTE)
      continue;
    if (s->start > clock)
      charge_gap(t, data, &next, clock, s->start, s->cause, m);
    if (s->kind == TASK_OPTIMIZER) {
      double copied = g_array_index(t->segments, Segment, s->segment).offload_s;
      m->offload_s += copied;
      m->optimizer_s += s->end - s->start - copied;
    } else {
      const Segment *segment = &g_array_index(t->segments, Segment, s->segment);
      double context = exposed_part(segment, segment->context_s, s), expert = exposed_part(segment, segment->expert_s, s);
      m->context_comm_s += context;
      m->expert_comm_s += expert;
      m->tensor_comm_s += s->exposed_tensor_s - context - expert;
      m->compute_s += s->end - s->start - s->exposed_tensor_s;
    }
    clock = s->end;
  }
  charge_gap(t, data, &next, clock, t->end_s - t->step_s, -1, m);
  m->optimizer_s += t->step_s;
}

static void find_peak(const Trace *t, Metrics *m)
{
  double worst = 0;

  m->capacity_bytes = t->rows[0].capacity_bytes;
  for (int row = 0; row < t->n_rows; row++) {
    double bytes[PART_COUNT], peak = trace_row_peak(t, row, bytes);
    double more = peak - (t->rows[row].capacity_bytes - t->rows[0].capacity_bytes);
    if (row == 0 || more > worst) {
      worst = more;
      m->peak_memory_bytes = peak;
      m->capacity_bytes = t->rows[row].capacity_bytes;
      m->peak_row = row;
      memcpy(m->memory, bytes, sizeof bytes);
    }
  }
}

void trace_metrics(const Trace *t, Metrics *out)
{
  Totals totals = totals_of(t);
  g_autofree double *busy = totals.busy;
  double end = totals.pipeline_end, idle = 0;
  Metrics m = { .iteration_s = t->end_s };

  for (int row = 0; row < t->n_rows; row++) {
    idle += end - busy[row];
    if (busy[row] > busy[m.critical_row])
      m.critical_row = row;
  }
  m.bubble_fraction = end > 0 ? idle / (t->n_rows * end) : 0;
  break_down(t, m.critical_row, &m);
  find_peak(t, &m);
  m.hardware_flops = totals.hardware_flops / t->n_rows;
  *out = m;
}
