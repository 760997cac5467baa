/* A row's own spans by lane, walked along as time goes on; private to src/trace. */
#ifndef TDP_TRACE_LANES_H
#define TDP_TRACE_LANES_H

#include "trace/trace.h"

/* Spans of one of a row's lanes in order; those before `next` ended before the last time that was asked for. */
typedef struct {
  GPtrArray *spans; /* Span */
  guint next;
} LaneSpans;

void lane_spans_init(LaneSpans lanes[LANE_COUNT], const Trace *trace, int row);
void lane_spans_clear(LaneSpans lanes[LANE_COUNT]);

/* Seconds of [from, to) in which a span ran. */
double span_overlap(const Span *span, double from, double to);

/* Seconds of [from, to) in which any of them ran; times asked for rise. As measured, the norm of another row may run
 * beside a row's own. */
double lane_overlap(LaneSpans *lane, double from, double to);

#endif
