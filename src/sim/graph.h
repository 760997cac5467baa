/*
 * A program as flat arrays: what each task waits for, its predecessor on its
 * lane included, and what waits for it. Private to src/sim.
 *
 * Receive windows are edges here. With `receive_buffers` = k each pair of a
 * sending and a receiving row, each direction (activations, gradients) by
 * itself, has k buffers that are used in turn: the n-th send of the pair waits
 * until the task that consumed the (n-k)-th has ended. Too few buffers can
 * deadlock an order of passes, as they would a real pipeline: then
 * sim_graph_sort places fewer than all tasks.
 */
#ifndef TDP_SIM_GRAPH_H
#define TDP_SIM_GRAPH_H

#include "program/program.h"

typedef struct {
  int n;         /* tasks */
  int *lane;     /* of a task: row * LANE_COUNT + lane */
  int *next;     /* behind a task on its lane, -1 = none */
  int *first_wait, *waits;  /* n + 1; tasks that it waits for, its lane's previous one last */
  int *first_after, *after; /* n + 1; tasks that wait for it by an edge */
} SimGraph;

/* `receive_buffers` 0 = no limit. */
SimGraph *sim_graph_new(const Program *program, int receive_buffers);
void sim_graph_free(SimGraph *graph);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimGraph, sim_graph_free)

/* The task of another row that waits for each send; -1 for other tasks. */
int *sim_receivers(const Program *program);

typedef struct {
  int task, waits_for;
} SimEdge;

/* Tasks so that each comes behind what it waits for, those that need the same
 * number of steps side by side. `also` (SimEdge, or NULL) are further edges
 * that the order keeps. `order` has n entries; returns how many could be placed:
 * fewer than n if the rest wait for each other. */
int sim_graph_sort(const SimGraph *graph, const GArray *also, int *order);

/*
 * The sorted graph in which everything waits for at most two others: a node for
 * each task, and nodes of no length that join what a task waits for beyond two.
 * Node 0 is the step's start; every node comes behind what it waits for.
 */
typedef struct {
  int n;
  int *a, *b;  /* nodes that it waits for, 0 = none */
  int *task;   /* -1 = joins */
  int *node;   /* of a task */
} SimNodes;

SimNodes *sim_nodes_new(const SimGraph *graph, const int *order);
void sim_nodes_free(SimNodes *nodes);

#endif
