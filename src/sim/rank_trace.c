#include "sim/rank_trace.h"

#include <math.h>

/* The next start or end of a lane: time, and which. */
typedef struct {
  int next, last; /* into lane_tasks */
  gboolean runs;
} LaneWalk;

static double walk_time(const LaneWalk *w, const Program *p, const Span *spans)
{
  if (w->next == w->last)
    return INFINITY;
  const Span *span = &spans[p->lane_tasks[w->next]];
  return w->runs ? span->end : span->start;
}

static void note(GArray *points, MemoryPoint *now, double activations, double buffers)
{
  now->activations += activations;
  now->buffers += buffers;
  g_array_append_val(points, *now);
}

static void walk_on(LaneWalk *w, const Program *p, MemoryPoint *now, GArray *points)
{
  const Segment *s = program_segment(p, program_task(p, p->lane_tasks[w->next]));

  if (!w->runs && segment_takes(s))
    note(points, now, segment_at_start(s), s->alloc_bytes);
  if (w->runs && segment_gives(s))
    note(points, now, segment_at_end(s), -s->free_bytes);
  w->next += w->runs;
  w->runs = !w->runs;
}

/* Starts and ends of a row's lanes in order of time, ends first. */
static void walk_row(const Program *p, int row, const Span *spans, GArray *points)
{
  LaneWalk lanes[LANE_COUNT];
  MemoryPoint now = { 0 };

  for (int l = 0; l < LANE_COUNT; l++)
    lanes[l] = (LaneWalk) { p->lane_first[row * LANE_COUNT + l], p->lane_first[row * LANE_COUNT + l + 1], FALSE };
  for (;;) {
    LaneWalk *first = &lanes[0];
    for (LaneWalk *w = lanes + 1; w < lanes + LANE_COUNT; w++) {
      double a = walk_time(w, p, spans), b = walk_time(first, p, spans);
      if (a < b || (a == b && w->runs && !first->runs))
        first = w;
    }
    now.time = walk_time(first, p, spans);
    if (isinf(now.time))
      return;
    walk_on(first, p, &now, points);
  }
}

void trace_complete(Trace *trace, const Program *p)
{
  Span *spans = (Span *)trace->spans->data;

  trace_find_causes(trace, p);
  trace_finish(trace);
  for (int row = 0; row < p->n_rows; row++)
    walk_row(p, row, spans, trace->rows[row].points);
}
