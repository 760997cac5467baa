/*
 * The order in which lanes run their tasks: the program's, but where it is
 * opportunistic (Varuna, Athlur et al. 2022, arXiv 2111.04007, section 4): a row
 * whose next task is a recompute, the gradient for which has not arrived, runs
 * its next forward first if all that waits for is its lane. The forward's send
 * goes with it, before those of the passes that it overtakes. A gradient that
 * arrives in the instant in which the lane becomes free counts if its send was
 * handled before.
 * Private to src/sim; owned by the interpreter.
 */
#ifndef TDP_SIM_LANE_ORDER_H
#define TDP_SIM_LANE_ORDER_H

#include "sim/graph.h"
#include "trace/trace.h"

typedef struct {
  const Program *program;
  const SimGraph *graph;
  int *next, *previous; /* of a task on its lane, -1 = none */
} LaneOrder;

void lane_order_init(LaneOrder *order, const Program *program, const SimGraph *graph);
void lane_order_clear(LaneOrder *order);

/* What the lane of a task that has just ended runs next, -1 = nothing.
 * `waiting[i]`: what task i waits for that has not ended, its lane included,
 * that of the task which has just ended too; `spans[i].end` < 0: not ended.
 * Adjusts `waiting` to the new order. */
int lane_order_next(LaneOrder *order, int ended, const Span *spans, int *waiting);

/* In the form of Program.lane_tasks; the caller frees it. */
int *lane_order_tasks(const LaneOrder *order);

/* Spans of a trace, one a task, into the order of such lanes, as trace.h wants. */
void lane_order_sort_spans(Trace *trace, const Program *program, const int *lane_tasks);

#endif
