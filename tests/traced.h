/* A trace without spans, of one segment: what tests that make traces by hand start from. */
#ifndef TDP_TESTS_TRACED_H
#define TDP_TESTS_TRACED_H

#include "trace/trace.h"

static inline Trace *traced(int rows, const Segment *segment)
{
  Trace *t = g_new0(Trace, 1);

  t->n_rows = rows;
  t->rows = g_new0(TraceRow, rows);
  for (int row = 0; row < rows; row++)
    t->rows[row].points = g_array_new(FALSE, FALSE, sizeof(MemoryPoint));
  t->spans = g_array_new(FALSE, FALSE, sizeof(Span));
  t->segments = g_array_new(FALSE, FALSE, sizeof(Segment));
  g_array_append_val(t->segments, *segment);
  return t;
}

#endif
