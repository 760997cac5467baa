#include "report/schedule_trace.h"

/* Alike passes of a chunk. */
static void add_segments(GArray *segments, const double seconds[PASS_COUNT])
{
  for (int pass = 0; pass < PASS_COUNT; pass++) {
    Segment s = { .kind = TASK_PASS, .pass = pass, .seconds = seconds[pass], .compute_s = seconds[pass] };
    g_array_append_val(segments, s);
  }
}

static int by_start(gconstpointer a, gconstpointer b)
{
  const Span *x = a, *y = b;

  if (x->row != y->row)
    return (int)x->row - y->row;
  return x->start != y->start ? (x->start > y->start ? 1 : -1) : (int)y->paired - x->paired;
}

Trace *schedule_trace(const Replay *replay)
{
  const ScheduleOrder *order = replay->order;
  double seconds[PASS_COUNT] = { 0 };
  Trace *t = g_new0(Trace, 1);

  t->n_rows = order->ranks;
  t->unitless = TRUE;
  t->rows = g_new0(TraceRow, t->n_rows);
  t->spans = g_array_new(FALSE, TRUE, sizeof(Span));
  t->segments = g_array_new(FALSE, TRUE, sizeof(Segment));
  for (int row = 0; row < t->n_rows; row++) {
    t->rows[row].points = g_array_new(FALSE, FALSE, sizeof(MemoryPoint));
    for (int i = order->first[row]; i < order->first[row + 1]; i++) {
      const Slot *slot = &order->slots[i];
      Span s = { .start = replay->start[i], .end = replay->end[i], .segment = slot->pass, .micro = slot->micro,
                 .row = row, .chunk = slot->chunk, .lane = LANE_COMPUTE, .kind = TASK_PASS, .pass = slot->pass,
                 .paired = slot->paired, .cause = -1 };
      if (slot->paired)
        s.end = (s.start + s.end) / 2;
      else if (i > order->first[row] && slot[-1].paired)
        s.start = (s.start + s.end) / 2;
      seconds[slot->pass] = s.end - s.start;
      g_array_append_val(t->spans, s);
    }
  }
  add_segments(t->segments, seconds);
  g_array_sort(t->spans, by_start);
  trace_finish(t);
  return t;
}
