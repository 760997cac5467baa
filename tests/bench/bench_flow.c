/*
 * Flow events per second of processor time: bench/flow [SCENARIO [EVENTS]], all without one.
 *
 * An event is a latency that ends or a flow that is complete.
 */
#include "../flow_graph.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
  const char *name, *what;
  int chains; /* transfers at a time */
  FlowGraph *(*make)(int chains, int length);
} Scenario;

/* `chains` transfers at a time over one link. */
static FlowGraph *make_link(int chains, int length)
{
  FlowGraph *graph = flow_graph_new();
  int link = flow_graph_add_resources(graph, 1, 50e9);

  for (int i = 0; i < chains * length; i++) {
    flow_graph_add_flow(graph, i < chains ? -1 : i - chains, 5e-6, 1e6 + 7919.0 * (i * 31 % 1009), INFINITY);
    flow_graph_cross(graph, link, 1);
  }
  return graph;
}

/* Ring all-reduces of 8 ranks over ports, and sends between the ranks. */
static FlowGraph *make_rings(int chains, int length)
{
  FlowGraph *graph = flow_graph_new();
  int n_rings = MAX(chains / 9, 1);
  int up = flow_graph_add_resources(graph, 8 * n_rings, 50e9);
  int down = flow_graph_add_resources(graph, 8 * n_rings, 50e9);

  for (int i = 0; i < chains * length; i++) {
    int chain = i % chains, ring = chain % n_rings, rank = chain / n_rings - 1;
    flow_graph_add_flow(graph, i < chains ? -1 : i - chains, 5e-6, (rank < 0 ? 8e6 : 1e6) + 7919.0 * (i * 31 % 1009),
                        INFINITY);
    for (int r = 0; rank < 0 && r < 8; r++) {
      flow_graph_cross(graph, up + 8 * ring + r, 1.75);
      flow_graph_cross(graph, down + 8 * ring + r, 1.75);
    }
    if (rank >= 0) {
      flow_graph_cross(graph, up + 8 * ring + rank % 8, 1);
      flow_graph_cross(graph, down + 8 * ((ring + 1) % n_rings) + rank % 8, 1);
    }
  }
  return graph;
}

static FlowGraph *make_pod(int chains, int length)
{
  return flow_graph_pod(8, chains, length, 1);
}

static const Scenario scenarios[] = {
  { "link8", "8 flows on one link", 8, make_link },
  { "link64", "64 flows on one link", 64, make_link },
  { "pod8", "8 flows between 64 devices: ports, NICs, leaves", 8, make_pod },
  { "pod64", "64 flows between 64 devices", 64, make_pod },
  { "pod256", "256 flows between 64 devices", 256, make_pod },
  { "rings9", "a ring all-reduce of 8 ranks and 8 sends", 9, make_rings },
  { "rings72", "8 such, sends going to the next", 72, make_rings },
};

static void run(const Scenario *s, int events)
{
  g_autoptr(FlowGraph) graph = s->make(s->chains, MAX(events / 2 / s->chains, 1));
  g_autofree double *end = g_new0(double, graph->flows->len);
  clock_t begin = clock();
  gint64 n = flow_graph_run(graph, end);

  printf("%-8s %9.3g events/s  %s\n", s->name, n * (double)CLOCKS_PER_SEC / (clock() - begin), s->what);
}

int main(int argc, char **argv)
{
  int n = 0;

  for (gsize i = 0; i < G_N_ELEMENTS(scenarios); i++)
    if (argc < 2 || strcmp(argv[1], scenarios[i].name) == 0) {
      run(&scenarios[i], argc > 2 ? atoi(argv[2]) : 400000);
      n++;
    }
  if (n == 0)
    fprintf(stderr, "flow: %s: no such scenario\n", argv[1]);
  return n > 0 ? 0 : 2;
}
