/* The events of a trace's rows; private to src/kineto. */
#ifndef TDP_KINETO_EVENTS_H
#define TDP_KINETO_EVENTS_H

#include "kineto/kineto.h"

/* A trace indexed for writing. */
typedef struct {
  const TraceView *view;
  const Layout *layout; /* of its plan */
  int ranks_of_row;
  int rows_of_stage; /* rows that share a place in the pipeline */
  GArray **receives; /* by row: indices of the sends that it receives, by time */
  GArray **spans;    /* by row: indices of its spans */
  int *consumers;    /* first span of a pass, see consumer_slot; -1 = none */
  int chunks, micros;
} TraceIndex;

/* Where the events of a row go. */
typedef struct {
  JsonWriter *w;
  int rank; /* whose groups are named */
  int pid;
  int first_flow; /* ids of arrows start here */
  gboolean merged; /* senders and receivers are in one file */
} EventSink;

void trace_index_init(TraceIndex *index, const TraceView *view);
void trace_index_clear(TraceIndex *index);

/* Appends all events of one row. */
void row_events(const TraceIndex *index, int row, EventSink *sink);

#endif
