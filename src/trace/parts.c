/* What the computation of the critical row is made of, and what its communication hides behind it. */
#include "trace/trace.h"

#include <math.h>

/* A row's own spans by lane, in the order they ran; `next`: those before ended before the computation at hand. */
typedef struct {
  GPtrArray *spans;
  guint next;
} Beside;

static double beside_s(Beside *lane, const Span *computed)
{
  double sum = 0;

  while (lane->next < lane->spans->len && ((const Span *)lane->spans->pdata[lane->next])->end <= computed->start)
    lane->next++;
  for (guint i = lane->next; i < lane->spans->len; i++) {
    const Span *s = lane->spans->pdata[i];
    if (s->start >= computed->end)
      break;
    sum += MAX(0, MIN(s->end, computed->end) - MAX(s->start, computed->start));
  }
  return sum;
}

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

static void add_beside(Beside lanes[LANE_COUNT], const Span *span, StepParts *out)
{
  out->hidden_s[HIDDEN_PIPELINE] += beside_s(&lanes[LANE_PIPELINE], span);
  out->hidden_s[HIDDEN_DATA] += beside_s(&lanes[LANE_DATA], span);
  out->hidden_s[HIDDEN_OFFLOAD] += beside_s(&lanes[LANE_FETCH], span) + beside_s(&lanes[LANE_STORE], span);
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
  Beside lanes[LANE_COUNT];

  *out = (StepParts) { 0 };
  if (!parts_of_segments(t, row, parts))
    return FALSE;
  for (int lane = 0; lane < LANE_COUNT; lane++)
    lanes[lane] = (Beside) { g_ptr_array_new(), 0 };
  for (guint i = 0; i < t->spans->len; i++) {
    Span *s = &g_array_index(t->spans, Span, i);
    if (s->row == row)
      g_ptr_array_add(lanes[s->lane].spans, s);
  }
  for (guint i = 0; i < lanes[LANE_COMPUTE].spans->len; i++) {
    const Span *s = lanes[LANE_COMPUTE].spans->pdata[i];
    if (s->kind == TASK_PASS)
      add_pass(&segments[s->segment], &parts[s->segment], s, out);
    add_beside(lanes, s, out);
  }
  for (int lane = 0; lane < LANE_COUNT; lane++)
    g_ptr_array_unref(lanes[lane].spans);
  forget_rounding(out);
  return out->known = TRUE;
}
