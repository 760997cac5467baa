#include "trace/trace.h"

#include "trace/lanes.h"

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

double *trace_bubbles(const Trace *t)
{
  Totals totals = totals_of(t);
  double end = totals.pipeline_end;

  for (int row = 0; row < t->n_rows; row++)
    totals.busy[row] = end > 0 ? (end - totals.busy[row]) / end : 0;
  return totals.busy;
}

double *trace_computes(const Trace *t)
{
  double *seconds = g_new0(double, t->n_rows);

  for (guint i = 0; i < t->spans->len; i++) {
    const Span *s = &g_array_index(t->spans, Span, i);
    if (s->kind == TASK_PASS)
      seconds[s->row] += s->end - s->start - s->exposed_tensor_s;
  }
  return seconds;
}

/* Between stages. */
static gboolean is_pipeline(const Span *s)
{
  return s->kind == TASK_SEND || s->kind == TASK_VOCAB;
}

/* Charges a gap in a row's computation to what was waited for while that ran: a
 * send; or, unless it was a send, the row's own data-parallel communication, then
 * copies from or to the host; else to idleness. */
static void charge_gap(const Trace *t, LaneSpans lanes[LANE_COUNT], double from, double to, int cause, Metrics *m)
{
  double waited = lane_overlap(&lanes[LANE_DATA], from, to), sent = 0;
  double host = MAX(lane_overlap(&lanes[LANE_FETCH], from, to), lane_overlap(&lanes[LANE_STORE], from, to));

  if (cause >= 0 && is_pipeline(&g_array_index(t->spans, Span, cause))) {
    sent = span_overlap(&g_array_index(t->spans, Span, cause), from, to);
    waited = 0;
  }
  host = MAX(0, MIN(host, to - from - waited - sent));
  m->data_comm_s += waited;
  m->pipeline_comm_s += sent;
  m->offload_s += host;
  m->idle_s += MAX(0, to - from - waited - sent - host);
}

/* The gradient norm stands on one row's lane, but all rows take part in it. */
static void add_norm(GPtrArray *spans, const Trace *t, int row)
{
  Span *norm = NULL;
  guint place = spans->len;

  for (guint i = 0; i < t->spans->len; i++) {
    Span *s = &g_array_index(t->spans, Span, i);
    if (s->row != row && s->kind == TASK_NORM)
      norm = s;
  }
  while (norm && place > 0 && ((const Span *)g_ptr_array_index(spans, place - 1))->start > norm->start)
    place--;
  if (norm)
    g_ptr_array_insert(spans, place, norm);
}

/* Of a pass's exposed communication, what waits for neither context, experts nor data; a share this small is the rounding of sums
 * in another order. */
#define ROUNDING 1e-10

static double exposed_rest(const Span *s)
{
  double rest = s->exposed_tensor_s - s->exposed_context_s - s->exposed_expert_s - s->exposed_data_s;
  return rest > ROUNDING * (s->end - s->start) ? rest : 0;
}

static void break_down(const Trace *t, int row, Metrics *m)
{
  LaneSpans lanes[LANE_COUNT];
  double clock = 0;

  lane_spans_init(lanes, t, row);
  add_norm(lanes[LANE_DATA].spans, t, row);
  for (guint i = 0; i < t->spans->len; i++) {
    const Span *s = &g_array_index(t->spans, Span, i);
    if (s->row != row || s->lane != LANE_COMPUTE)
      continue;
    if (s->start > clock)
      charge_gap(t, lanes, clock, s->start, s->cause, m);
    if (s->kind == TASK_OPTIMIZER) {
      double copied = g_array_index(t->segments, Segment, s->segment).offload_s;
      m->offload_s += copied;
      m->optimizer_s += s->end - s->start - copied;
    } else {
      m->context_comm_s += s->exposed_context_s;
      m->expert_comm_s += s->exposed_expert_s;
      m->data_comm_s += s->exposed_data_s;
      m->tensor_comm_s += exposed_rest(s);
      m->compute_s += s->end - s->start - s->exposed_tensor_s;
    }
    clock = s->end;
  }
  charge_gap(t, lanes, clock, t->end_s - t->step_s, -1, m);
  lane_spans_clear(lanes);
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
