#include "flow_graph.h"

#include <math.h>

FlowGraph *flow_graph_new(void)
{
  FlowGraph *graph = g_new(FlowGraph, 1);

  graph->capacities = g_array_new(FALSE, FALSE, sizeof(double));
  graph->uses = g_array_new(FALSE, FALSE, sizeof(FlowUse));
  graph->flows = g_array_new(FALSE, FALSE, sizeof(GraphFlow));
  return graph;
}

void flow_graph_free(FlowGraph *graph)
{
  g_array_unref(graph->capacities);
  g_array_unref(graph->uses);
  g_array_unref(graph->flows);
  g_free(graph);
}

int flow_graph_add_resources(FlowGraph *graph, int n, double capacity)
{
  int first = graph->capacities->len;

  for (int i = 0; i < n; i++)
    g_array_append_val(graph->capacities, capacity);
  return first;
}

int flow_graph_add_flow(FlowGraph *graph, int after, double latency_s, double bytes, double cap)
{
  GraphFlow flow = { after, latency_s, bytes, cap, graph->uses->len, 0 };

  g_assert(after < (int)graph->flows->len);
  g_array_append_val(graph->flows, flow);
  return graph->flows->len - 1;
}

void flow_graph_cross(FlowGraph *graph, int resource, double weight)
{
  FlowUse use = { resource, weight };

  g_array_append_val(graph->uses, use);
  g_array_index(graph->flows, GraphFlow, graph->flows->len - 1).n_uses++;
}

static void start(FlowNet *net, double now, const FlowGraph *graph, int flow)
{
  const GraphFlow *f = &g_array_index(graph->flows, GraphFlow, flow);
  FlowSpec spec = { f->latency_s, f->bytes, f->cap, &((FlowUse *)graph->uses->data)[f->first_use], f->n_uses, flow };

  flow_start(net, now, &spec);
}

/* Flows that follow `f` are followers[first[f]] to followers[first[f + 1] - 1]. */
static void index_followers(const FlowGraph *graph, int **first, int **followers)
{
  int n = graph->flows->len, sum = 0;

  *first = g_new0(int, n + 1);
  *followers = g_new(int, MAX(n, 1));
  for (int f = 0; f < n; f++) {
    int after = g_array_index(graph->flows, GraphFlow, f).after;
    if (after >= 0)
      (*first)[after]++;
  }
  for (int f = 0; f <= n; f++) {
    sum += (*first)[f];
    (*first)[f] = sum;
  }
  for (int f = n - 1; f >= 0; f--) {
    int after = g_array_index(graph->flows, GraphFlow, f).after;
    if (after >= 0)
      (*followers)[--(*first)[after]] = f;
  }
}

gint64 flow_graph_run(const FlowGraph *graph, double *end)
{
  g_autoptr(FlowNet) net = flow_net_new();
  g_autofree int *first = NULL;
  g_autofree int *followers = NULL;
  const int *done;
  double now;

  index_followers(graph, &first, &followers);
  for (guint r = 0; r < graph->capacities->len; r++)
    flow_net_add_resource(net, g_array_index(graph->capacities, double, r));
  for (guint f = 0; f < graph->flows->len; f++)
    if (g_array_index(graph->flows, GraphFlow, f).after < 0)
      start(net, 0, graph, f);
  while ((now = flow_next_event(net)) < INFINITY) {
    int n = flow_advance(net, now, &done);
    for (int i = 0; i < n; i++) {
      end[done[i]] = now;
      for (int j = first[done[i]]; j < first[done[i] + 1]; j++)
        start(net, now, graph, followers[j]);
    }
  }
  return 2 * (gint64)graph->flows->len;
}

FlowGraph *flow_graph_pod(int n_servers, int n_chains, int length, guint32 seed)
{
  const double port = 450e9, nic = 50e9, mib = 1024 * 1024;
  int n_devices = 8 * n_servers, n_leaves = (n_servers + 3) / 4;
  FlowGraph *graph = flow_graph_new();
  GRand *rand = g_rand_new_with_seed(seed);
  int ports = flow_graph_add_resources(graph, 2 * n_devices, port);
  int nics = flow_graph_add_resources(graph, n_devices, nic);
  int leaves = flow_graph_add_resources(graph, 2 * n_leaves, 8 * nic);
  int *last = g_new(int, n_chains);

  for (int i = 0; i < n_chains * length; i++) {
    int chain = i % n_chains;
    int from = chain % n_devices;
    int to = (from + g_rand_int_range(rand, 1, n_devices)) % n_devices;
    last[chain] = flow_graph_add_flow(graph, i < n_chains ? -1 : last[chain], g_rand_double_range(rand, 2e-6, 20e-6),
                                      floor(g_rand_double_range(rand, mib, 64 * mib)), INFINITY);
    if (from / 8 == to / 8) {
      flow_graph_cross(graph, ports + 2 * from, 1);
      flow_graph_cross(graph, ports + 2 * to + 1, 1);
      continue;
    }
    flow_graph_cross(graph, nics + from / 2 * 2, 1);
    if (from / 32 != to / 32) {
      flow_graph_cross(graph, leaves + 2 * (from / 32), 1);
      flow_graph_cross(graph, leaves + 2 * (to / 32) + 1, 1);
    }
    flow_graph_cross(graph, nics + to / 2 * 2 + 1, 1);
  }
  g_rand_free(rand);
  g_free(last);
  return graph;
}
