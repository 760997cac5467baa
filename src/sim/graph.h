/*
 * A program as the event engine runs it, in flat arrays: how many tasks each
 * task waits for, and which wait for it. Private to src/sim.
 *
 * Receive windows are edges here. With `receive_buffers` = k each pair of a
 * sending and a receiving row, each direction (activations, gradients) by
 * itself, has k buffers that are used in turn: the n-th send of the pair waits
 * until the task that consumed the (n-k)-th has ended. Too few buffers can
 * deadlock an order of passes, as they would a real pipeline: then
 * program_order places fewer than all tasks.
 */
#ifndef TDP_SIM_GRAPH_H
#define TDP_SIM_GRAPH_H

#include "program/program.h"

typedef struct {
  int n;         /* tasks */
  int *lane;     /* of a task: row * LANE_COUNT + lane */
  int *next;     /* behind a task on its lane, -1 = none */
  int *n_waits;  /* how many tasks a task waits for, its lane's previous one included */
  int *first_after, *after; /* n + 1 entries, the last the length of `after`: tasks that wait for it by an edge */
} SimGraph;

/* `receive_buffers` 0 = no limit. */
SimGraph *sim_graph_new(const Program *program, int receive_buffers);
void sim_graph_free(SimGraph *graph);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimGraph, sim_graph_free)

/* The task that each send waits for because of its receive window, -1 = none; NULL where `receive_buffers` is 0. */
int *sim_receive_windows(const Program *program, int receive_buffers);

#endif
