/*
 * Spans as a reader sees them, lane by lane: the pieces of one pass that follow
 * each other without a gap are one box, and so is an overlapped pair of passes.
 * Private to report.
 */
#ifndef TDP_REPORT_BOXES_H
#define TDP_REPORT_BOXES_H

#include "trace/trace.h"

typedef struct {
  Pass pass;
  int chunk;
  guint32 micro;
} BoxPass;

typedef struct {
  double start, end;
  TaskKind kind;
  int n_passes; /* 0 if it is no pass, 2 of a pair */
  BoxPass passes[2];
  gboolean paired; /* the next pass belongs to it */
} Box;

typedef struct {
  int n_lanes;
  GArray **lanes; /* Box, in order; lane of a row at row * LANE_COUNT + lane */
} Boxes;

/* Gaps up to `gap_s` inside a pass are not seen. */
void boxes_init(Boxes *boxes, const Trace *trace, double gap_s);
void boxes_clear(Boxes *boxes);

static inline const GArray *boxes_lane(const Boxes *boxes, int row, int lane)
{
  return boxes->lanes[row * LANE_COUNT + lane];
}

#endif
