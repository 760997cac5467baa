/*
 * The event engine: runs a program on a clock and returns its trace.
 *
 * Each lane runs its tasks in order; a task starts when its lane is free and
 * everything it waits for has ended. While a collective runs on a row's data
 * lane the row's computation goes slower by the collective's slowdown, so that
 * a pass takes longer the more of it is overlapped. Where devices of a node slow
 * one another (Segment.crowded_s), computation goes slower the more of them compute:
 * linearly from one to all of a node, rows spread evenly over the nodes. Events at the same time
 * are handled in the order in which they arose: the same program gives the
 * same bytes. Programs that are whole (tests/program_check.h) cannot fail.
 *
 * Transfers take the time that they would have alone; or, with links (links.h
 * says which), those of one device or node share them. What shares nothing ends
 * at the same double either way. The search and its bounds assume the former,
 * so it is the default. More bandwidth is never slower where nothing is shared
 * and nothing slows computation, as times are then maxima and sums of others. A
 * collective that comes earlier may slow a pass that others wait for (a test
 * shows it), and a transfer that comes earlier may meet another.
 *
 * Receive windows (graph.h) hold a send back until its receiver has a buffer.
 *
 * Lanes keep the program's order, but for rows of an opportunistic program
 * (Varuna): lane_order.h says when they run a forward ahead.
 */
#ifndef TDP_SIM_SIMULATE_H
#define TDP_SIM_SIMULATE_H

#include "sim/links.h"
#include "trace/trace.h"

/* Zeros: nothing shared, no limit, as the planner's search assumes. */
typedef struct {
  gboolean share_links;
  int receive_buffers; /* of each pair of stages and direction; 0 = no limit */
} SimOptions;

/* Whether every task can run with so many receive buffers. TDP_ERROR_INPUT. */
gboolean sim_options_check(const SimOptions *options, const Program *program, GError **error);

/* Alone, and without receive windows. */
Trace *simulate(const Program *program);

/* The order in which simulate() runs the lanes, in the form of
 * Program.lane_tasks and for the caller to free; NULL where it is just that. */
int *simulate_order(const Program *program);

/* `links` are the program's, or NULL; sim_options_check accepts the buffers. */
Trace *simulate_on(const Program *program, const SimLinks *links, int receive_buffers);

/* Prices, programs and simulates a plan that plan_check accepts; only receive
 * buffers can fail. */
Trace *simulate_plan_with(const Model *model, const Cluster *cluster, const Plan *plan, const SimOptions *options,
                          GError **error);
Trace *simulate_plan(const Model *model, const Cluster *cluster, const Plan *plan);

/*
 * Oracle without contention: the end of each task as the longest path through
 * dependencies and the program's lane orders (slowdowns ignored). `end` has an entry a task
 * and may be NULL. Returns the step's end.
 */
double longest_path(const Program *program, double *end);

#endif
