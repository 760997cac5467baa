#include "trace/lanes.h"

void lane_spans_init(LaneSpans lanes[LANE_COUNT], const Trace *t, int row)
{
  for (int lane = 0; lane < LANE_COUNT; lane++)
    lanes[lane] = (LaneSpans) { g_ptr_array_new(), 0 };
  for (guint i = 0; i < t->spans->len; i++) {
    Span *s = &g_array_index(t->spans, Span, i);
    if (s->row == row)
      g_ptr_array_add(lanes[s->lane].spans, s);
  }
}

void lane_spans_clear(LaneSpans lanes[LANE_COUNT])
{
  for (int lane = 0; lane < LANE_COUNT; lane++)
    g_ptr_array_unref(lanes[lane].spans);
}

double span_overlap(const Span *s, double from, double to)
{
  return MAX(0, MIN(to, s->end) - MAX(from, s->start));
}

double lane_overlap(LaneSpans *lane, double from, double to)
{
  double waited = 0, at = from;

  while (lane->next < lane->spans->len && ((const Span *)g_ptr_array_index(lane->spans, lane->next))->end <= from)
    lane->next++;
  for (guint i = lane->next; i < lane->spans->len; i++) {
    const Span *s = g_ptr_array_index(lane->spans, i);
    if (s->start >= to)
      break;
    waited += span_overlap(s, at, to);
    at = MAX(at, s->end);
  }
  return waited;
}
