/*
 * Completion times of flows on shared links, ours against SimGrid's:
 *
 *   simgrid-compare                   a table of cases; exit 1 if one is off by more than 1 %
 *   simgrid-compare --speed [CHAINS]  events per second of both on one graph
 */
#include "simgrid.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TOLERANCE 0.01

typedef struct {
  const char *what;
  int a, b; /* of make, as each says */
  FlowGraph *(*make)(int a, int b);
} Case;

static double whole(GRand *rand, double low, double high)
{
  return floor(g_rand_double_range(rand, low, high));
}

/* `a` flows of different sizes on one link; `b` us apart. */
static FlowGraph *make_link(int a, int b)
{
  FlowGraph *graph = flow_graph_new();

  flow_graph_add_resources(graph, 1, 50e9);
  for (int i = 0; i < a; i++) {
    flow_graph_add_flow(graph, -1, 1e-6 * b * i, 1e6 * (1 + i * 7 % 11), INFINITY);
    flow_graph_cross(graph, 0, 1);
  }
  return graph;
}

/* Every second flow of `a` has a cap of `b` Gbyte/s, on a link of 100. */
static FlowGraph *make_caps(int a, int b)
{
  FlowGraph *graph = flow_graph_new();

  flow_graph_add_resources(graph, 1, 100e9);
  for (int i = 0; i < a; i++) {
    flow_graph_add_flow(graph, -1, 0, 2e7 + 1e6 * i, i % 2 ? INFINITY : 1e9 * (b + i));
    flow_graph_cross(graph, 0, 1);
  }
  return graph;
}

/* A row of `a` links, one flow over all of them, `b` on each. */
static FlowGraph *make_row(int a, int b)
{
  FlowGraph *graph = flow_graph_new();

  for (int r = 0; r < a; r++)
    flow_graph_add_resources(graph, 1, 1e9 * (20 + 13 * r % 29));
  flow_graph_add_flow(graph, -1, 5e-6, 1e8, INFINITY);
  for (int r = 0; r < a; r++)
    flow_graph_cross(graph, r, 1);
  for (int i = 0; i < a * b; i++) {
    flow_graph_add_flow(graph, -1, 5e-6, 1e7 * (1 + i % 5), INFINITY);
    flow_graph_cross(graph, i % a, 1);
  }
  return graph;
}

/* `a` devices behind `b` NICs send to each other in a ring, three times. */
static FlowGraph *make_nics(int a, int b)
{
  FlowGraph *graph = flow_graph_new();
  int up = flow_graph_add_resources(graph, b, 25e9), down = flow_graph_add_resources(graph, b, 25e9);

  for (int i = 0; i < 3 * a; i++) {
    int from = i % a, to = (from + 1 + i / a) % a;
    flow_graph_add_flow(graph, MAX(i - a, -1), 8e-6, 4e6 + 1e6 * (i * 5 % 7), INFINITY);
    flow_graph_cross(graph, up + from * b / a, 1);
    if (from * b / a != to * b / a)
      flow_graph_cross(graph, down + to * b / a, 1);
  }
  return graph;
}

/* `a` senders into one port while each also feeds a free one; `b` us of latency. */
static FlowGraph *make_incast(int a, int b)
{
  FlowGraph *graph = flow_graph_new();
  int up = flow_graph_add_resources(graph, a, 40e9), hot = flow_graph_add_resources(graph, 1, 60e9);
  int down = flow_graph_add_resources(graph, a, 40e9);

  for (int i = 0; i < 2 * a; i++) {
    flow_graph_add_flow(graph, -1, 1e-6 * b, 1e7 + 3e6 * (i % 6), INFINITY);
    flow_graph_cross(graph, up + i / 2, 1);
    flow_graph_cross(graph, i % 2 ? hot : down + i / 2, 1);
  }
  return graph;
}

/* Ring all-reduces over `a` ranks, each port 2(a-1)/a, among `b` sends. */
static FlowGraph *make_rings(int a, int b)
{
  FlowGraph *graph = flow_graph_new();
  int up = flow_graph_add_resources(graph, a, 50e9), down = flow_graph_add_resources(graph, a, 50e9);

  for (int k = 0; k < 2; k++) {
    flow_graph_add_flow(graph, k - 1, 3e-5, 6e7, INFINITY);
    for (int r = 0; r < a; r++) {
      flow_graph_cross(graph, up + r, 2.0 * (a - 1) / a);
      flow_graph_cross(graph, down + r, 2.0 * (a - 1) / a);
    }
  }
  for (int i = 0; i < b; i++) {
    flow_graph_add_flow(graph, -1, 1e-5 * i, 2e7 + 1e6 * i, INFINITY);
    flow_graph_cross(graph, up + i % a, 1);
    flow_graph_cross(graph, down + (3 * i + 1) % a, 1);
  }
  return graph;
}

/* `a` ranks folded on each of `b` ports: weights are multiplicities. */
static FlowGraph *make_folded(int a, int b)
{
  FlowGraph *graph = flow_graph_new();
  int port = flow_graph_add_resources(graph, b, 200e9), spine = flow_graph_add_resources(graph, 1, 300e9);

  for (int i = 0; i < 2 * b; i++) {
    flow_graph_add_flow(graph, -1, 2e-6, 1e7 + 2e6 * i, INFINITY);
    flow_graph_cross(graph, port + i / 2, i % 2 ? a : 1);
    flow_graph_cross(graph, spine, i % 2 ? 1 : a);
  }
  return graph;
}

/* `a` chains of 4 transfers in a tree of tiers of `b` servers. */
static FlowGraph *make_pod(int a, int b)
{
  return flow_graph_pod(b, a, 4, 100 * a + b);
}

/* `a` flows at random over up to 4 of `b` links, staggered, a third with caps. */
static FlowGraph *make_random(int a, int b)
{
  FlowGraph *graph = flow_graph_new();
  GRand *rand = g_rand_new_with_seed(1000 * a + b);

  for (int r = 0; r < b; r++)
    flow_graph_add_resources(graph, 1, whole(rand, 10e9, 100e9));
  for (int i = 0; i < a; i++) {
    int first = g_rand_int_range(rand, 0, b), n = g_rand_int_range(rand, 1, MIN(b, 4) + 1);
    flow_graph_add_flow(graph, -1, g_rand_double_range(rand, 0, 1e-3), whole(rand, 1e6, 5e7),
                        g_rand_int_range(rand, 0, 3) ? INFINITY : whole(rand, 1e9, 2e10));
    for (int u = 0; u < n; u++)
      flow_graph_cross(graph, (first + u) % b, 0.25 * g_rand_int_range(rand, 1, 9));
  }
  g_rand_free(rand);
  return graph;
}

static const Case cases[] = {
  { "2 flows on a link", 2, 0, make_link },
  { "8 flows on a link", 8, 0, make_link },
  { "8 flows on a link, 30 us apart", 8, 30, make_link },
  { "64 flows on a link, 5 us apart", 64, 5, make_link },
  { "4 flows, 2 with caps", 4, 10, make_caps },
  { "16 flows, 8 with caps", 16, 3, make_caps },
  { "a flow over 2 links, 1 on each", 2, 1, make_row },
  { "a flow over 5 links, 3 on each", 5, 3, make_row },
  { "8 devices on 4 NICs", 8, 4, make_nics },
  { "8 devices on 2 NICs", 8, 2, make_nics },
  { "64 devices on 16 NICs", 64, 16, make_nics },
  { "4 senders into a port", 4, 0, make_incast },
  { "32 senders into a port, 20 us latency", 32, 20, make_incast },
  { "rings of 4 among 4 sends", 4, 4, make_rings },
  { "rings of 8 among 16 sends", 8, 16, make_rings },
  { "rings of 16 among 40 sends", 16, 40, make_rings },
  { "4 ranks folded on 4 ports", 4, 4, make_folded },
  { "8 ranks folded on 16 ports", 8, 16, make_folded },
  { "8 chains in a server", 8, 1, make_pod },
  { "16 chains in 4 servers", 16, 4, make_pod },
  { "64 chains in 8 servers", 64, 8, make_pod },
  { "64 chains in 16 servers", 64, 16, make_pod },
  { "12 random flows on 4 links", 12, 4, make_random },
  { "40 random flows on 12 links", 40, 12, make_random },
  { "64 random flows on 30 links", 64, 30, make_random },
};

/* Largest relative deviation of an end. */
static double worst(const FlowGraph *graph, const double *ours, const double *theirs)
{
  double off = 0;

  for (guint f = 0; f < graph->flows->len; f++)
    off = MAX(off, fabs(ours[f] / theirs[f] - 1));
  return off;
}

static int compare(void)
{
  enum { N = G_N_ELEMENTS(cases) };
  FlowGraph *graphs[N];
  double *theirs[N];
  int status = 0;

  for (int i = 0; i < N; i++) {
    graphs[i] = cases[i].make(cases[i].a, cases[i].b);
    theirs[i] = g_new(double, graphs[i]->flows->len);
  }
  flow_graph_run_simgrid((const FlowGraph *const *)graphs, N, theirs);
  printf("%-40s %5s %9s %10s\n", "case", "flows", "end, ms", "worst, %");
  for (int i = 0; i < N; i++) {
    g_autofree double *ours = g_new(double, graphs[i]->flows->len);
    double end = 0;
    flow_graph_run(graphs[i], ours);
    double off = worst(graphs[i], ours, theirs[i]);
    for (guint f = 0; f < graphs[i]->flows->len; f++)
      end = MAX(end, ours[f]);
    printf("%-40s %5u %9.4f %10.2g%s\n", cases[i].what, graphs[i]->flows->len, end * 1e3, off * 100,
           off <= TOLERANCE ? "" : "  too far off");
    if (!(off <= TOLERANCE))
      status = 1;
    flow_graph_free(graphs[i]);
    g_free(theirs[i]);
  }
  return status;
}

/*
 * Short chains: over some hundred transfers the order of events, and with it
 * each single end, comes to depend on the last bits of the sizes.
 */
static int speed(int n_chains)
{
  enum { LENGTH = 25, REPEATS = 100 };
  g_autoptr(FlowGraph) graph = flow_graph_pod(8, n_chains, LENGTH, 1);
  guint n = graph->flows->len;
  g_autofree double *ours = g_new(double, n);
  g_autofree double *theirs = g_new(double, n);
  gint64 events = 0;
  clock_t begin = clock();

  for (int i = 0; i < REPEATS; i++)
    events = flow_graph_run(graph, ours);
  double seconds = (clock() - begin) / (double)CLOCKS_PER_SEC / REPEATS;
  double simgrid_seconds = flow_graph_run_simgrid((const FlowGraph *const[]) { graph }, 1, &(double *) { theirs });
  printf("%d chains of %d transfers between 64 devices, ends within %.2g %%\n", n_chains, LENGTH,
         100 * worst(graph, ours, theirs));
  printf("flow net %.3g events/s, SimGrid %.3g events/s, ratio %.3g\n", events / seconds, events / simgrid_seconds,
         simgrid_seconds / seconds);
  return 0;
}

int main(int argc, char **argv)
{
  if (argc > 1 && strcmp(argv[1], "--speed") == 0)
    return speed(argc > 2 ? atoi(argv[2]) : 64);
  return compare();
}
