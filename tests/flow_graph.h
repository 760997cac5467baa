/*
 * Transfers that follow one another over shared links: what tests of the flow
 * network, its benchmark and the comparison with SimGrid run.
 */
#ifndef TDP_TESTS_FLOW_GRAPH_H
#define TDP_TESTS_FLOW_GRAPH_H

#include "sim/flow.h"

typedef struct {
  int after; /* flow at whose end it starts; -1 starts at 0 */
  double latency_s, bytes, cap;
  int first_use, n_uses;
} GraphFlow;

typedef struct {
  GArray *capacities; /* double */
  GArray *uses;       /* FlowUse */
  GArray *flows;      /* GraphFlow; each stands behind the one it follows */
} FlowGraph;

FlowGraph *flow_graph_new(void);
void flow_graph_free(FlowGraph *graph);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(FlowGraph, flow_graph_free)

int flow_graph_add_resources(FlowGraph *graph, int n, double capacity); /* the first of n */

/* A flow without uses; flow_graph_cross gives the last one a use. */
int flow_graph_add_flow(FlowGraph *graph, int after, double latency_s, double bytes, double cap);
void flow_graph_cross(FlowGraph *graph, int resource, double weight);

/* The end of each flow into `end`. Returns the number of events: latencies that
 * ended and flows that completed. */
gint64 flow_graph_run(const FlowGraph *graph, double *end);

/*
 * `n_chains` chains of `length` transfers between random devices of a pod:
 * servers of 8, each device with a port up and down, each pair of devices with
 * a NIC up and down, four servers behind a leaf whose links to the spine have
 * half of their NICs' bandwidth. Sizes of 1 to 64 MiB.
 */
FlowGraph *flow_graph_pod(int n_servers, int n_chains, int length, guint32 seed);

#endif
