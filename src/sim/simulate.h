/*
 * The event engine: runs a program on a clock and returns its trace.
 *
 * Each lane runs its tasks in order; a task starts when its lane is free and
 * everything it waits for has ended. While a collective runs on a row's data
 * lane the row's computation goes slower by the collective's slowdown, so that
 * a pass takes longer the more of it is overlapped. Events at the same time
 * are handled in the order in which they arose: the same program gives the
 * same bytes. Programs that program_check accepts cannot fail.
 */
#ifndef TDP_SIM_SIMULATE_H
#define TDP_SIM_SIMULATE_H

#include "trace/trace.h"

Trace *simulate(const Program *program);

/* Prices, programs and simulates a plan that plan_check accepts. */
Trace *simulate_plan(const Model *model, const Cluster *cluster, const Plan *plan);

/*
 * Oracle without contention: the end of each task as the longest path through
 * dependencies and lane orders (slowdowns ignored). `end` has an entry a task
 * and may be NULL. Returns the step's end.
 */
double longest_path(const Program *program, double *end);

#endif
