#include "report/report.h"

#include "base/csv.h"
#include "base/units.h"

#define HEADER \
  "id,stage,lane,kind,pass,chunk,micro,start_s,end_s,exposed_tensor_s,collective,bytes,ranks,algorithm,after\n"

static const Span *span_at(const Trace *t, guint32 i)
{
  return &g_array_index(t->spans, Span, i);
}

/* By row, lane and order on the lane. */
static int in_order(gconstpointer a, gconstpointer b, gpointer data)
{
  guint32 i = *(const guint32 *)a, j = *(const guint32 *)b;
  const Span *x = span_at(data, i), *y = span_at(data, j);

  if (x->row != y->row)
    return (int)x->row - y->row;
  if (x->lane != y->lane)
    return (int)x->lane - y->lane;
  return (i > j) - (i < j);
}

static void put_real(GString *text, double value)
{
  g_autofree char *number = format_real(value);
  csv_put(text, number, FALSE);
}

static void put_int(GString *text, gboolean known, gint64 value)
{
  if (known)
    g_string_append_printf(text, "%" G_GINT64_FORMAT, value);
  g_string_append_c(text, ',');
}

static void put_communication(GString *text, const Segment *s)
{
  if (s->kind == TASK_PASS || s->kind == TASK_OPTIMIZER) {
    g_string_append(text, ",,,,");
    return;
  }
  if (s->kind == TASK_FETCH || s->kind == TASK_STORE) {
    g_string_append_c(text, ',');
    put_real(text, s->comm_bytes);
    g_string_append(text, ",,");
    return;
  }
  csv_put(text, collective_names[s->collective], FALSE);
  put_real(text, s->comm_bytes);
  put_int(text, TRUE, s->group.size);
  csv_put(text, s->cost.algorithm ? s->cost.algorithm : "", FALSE);
}

static void put_span(GString *text, const Trace *t, guint32 index)
{
  const Span *s = span_at(t, index);
  gboolean piped = s->kind == TASK_PASS || s->kind == TASK_SEND;
  gboolean chunked = piped || (s->kind >= TASK_GATHER && s->kind <= TASK_OUTPUTS);

  put_int(text, TRUE, index);
  put_int(text, TRUE, s->row);
  csv_put(text, lane_names[s->lane], FALSE);
  csv_put(text, task_kind_names[s->kind], FALSE);
  csv_put(text, piped ? pass_names[s->pass] : "", FALSE);
  put_int(text, chunked, s->chunk);
  put_int(text, piped, s->micro);
  put_real(text, s->start);
  put_real(text, s->end);
  put_real(text, s->exposed_tensor_s);
  put_communication(text, &g_array_index(t->segments, Segment, s->segment));
  if (s->cause >= 0)
    g_string_append_printf(text, "%d", s->cause);
  g_string_append_c(text, '\n');
}

/* What a step takes behind all tasks, of every stage. */
static void put_fixed(GString *text, const Trace *t)
{
  for (int row = 0; t->step_s > 0 && row < t->n_rows; row++) {
    g_string_append_printf(text, "%u,%d,%s,fixed time,,,,", t->spans->len + row, row, lane_names[LANE_COMPUTE]);
    put_real(text, t->end_s - t->step_s);
    put_real(text, t->end_s);
    g_string_append(text, "0,,,,,\n");
  }
}

char *report_csv(const Trace *trace)
{
  guint n = trace->spans->len;
  g_autofree guint32 *order = g_new(guint32, n);
  GString *text = g_string_new(HEADER);

  for (guint i = 0; i < n; i++)
    order[i] = i;
  g_qsort_with_data(order, n, sizeof *order, in_order, (gpointer)trace);
  for (guint i = 0; i < n; i++)
    put_span(text, trace, order[i]);
  put_fixed(text, trace);
  return g_string_free(text, FALSE);
}
