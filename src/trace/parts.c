/* What the computation of the critical row is made of, and what its communication hides behind it. */
#include "trace/trace.h"

#include "trace/lanes.h"

#include <math.h>

/* Once more by a pass of this segment that ended, which may have taken longer than the segment says. */
static void add_pass(const Segment *segment, const PassParts *parts, const Span *span, StepParts *out)
{
  double exposed_s = segment->seconds - segment->compute_s;
  double tensor_s = segment->tensor_s - parts->context_s - parts->expert_s;

  for (int i = 0; i < COMPUTE_COUNT; i++)
    out->compute_s[i] += parts->seconds[i];
  out->compute_s[COMPUTE_SLOWED] += span->end - span->start - span->exposed_tensor_s - segment->compute_s;
  for (gsize i = 0; i < G_N_ELEMENTS(out->peak_s); i++)
    out->peak_s[i] += parts->peak_s[i];
  out->hidden_s[HIDDEN_CONTEXT] += MAX(0, parts->context_s - segment->context_s);
  out->hidden_s[HIDDEN_EXPERT] += MAX(0, parts->expert_s - segment->expert_s);
  out->hidden_s[HIDDEN_TENSOR] += MAX(0, tensor_s - (exposed_s - segment->context_s - segment->expert_s - segment->data_s));
}

static void add_beside(LaneSpans lanes[LANE_COUNT], const Span *span, StepParts *out)
{
  double from = span->start, to = span->end;

  out->hidden_s[HIDDEN_PIPELINE] += lane_overlap(&lanes[LANE_PIPELINE], from, to);
  out->hidden_s[HIDDEN_DATA] += lane_overlap(&lanes[LANE_DATA], from, to);
  out->hidden_s[HIDDEN_OFFLOAD] +=
      lane_overlap(&lanes[LANE_FETCH], from, to) + lane_overlap(&lanes[LANE_STORE], from, to);
}

static void forget_rounding(StepParts *p)
{
  double sum = 0;

  for (int i = 0; i < COMPUTE_COUNT; i++)
    sum += p->compute_s[i];
  for (int i = 0; i < COMPUTE_COUNT; i++)
    p->compute_s[i] = fabs(p->compute_s[i]) > REST_OF_NOTHING * sum ? p->compute_s[i] : 0;
}

/* Of each segment; FALSE where one that the row runs describes nothing. */
static gboolean parts_of_segments(const Trace *t, int row, PassParts *parts)
{
  const Segment *segments = (const Segment *)(gpointer)t->segments->data;
  g_autofree gboolean *known = g_new0(gboolean, t->segments->len);

  for (guint i = 0; i < t->spans->len; i++) {
    const Span *s = &g_array_index(t->spans, Span, i);
    if (s->row != row || s->kind != TASK_PASS || known[s->segment])
      continue;
    known[s->segment] = TRUE;
    if (!segment_parts(&segments[s->segment], &parts[s->segment]))
      return FALSE;
  }
  return TRUE;
}

gboolean trace_parts(const Trace *t, int row, StepParts *out)
{
  const Segment *segments = (const Segment *)(gpointer)t->segments->data;
  g_autofree PassParts *parts = g_new0(PassParts, t->segments->len);
  LaneSpans lanes[LANE_COUNT];

  *out = (StepParts) { 0 };
  if (!parts_of_segments(t, row, parts))
    return FALSE;
  lane_spans_init(lanes, t, row);
  for (guint i = 0; i < lanes[LANE_COMPUTE].spans->len; i++) {
    const Span *s = lanes[LANE_COMPUTE].spans->pdata[i];
    if (s->kind == TASK_PASS)
      add_pass(&segments[s->segment], &parts[s->segment], s, out);
    add_beside(lanes, s, out);
  }
  lane_spans_clear(lanes);
  forget_rounding(out);
  return out->known = TRUE;
}
