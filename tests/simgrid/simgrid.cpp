#include "simgrid.h"

#include <cmath>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include <simgrid/s4u.hpp>

namespace sg4 = simgrid::s4u;

namespace {

const GraphFlow &flow_at(const FlowGraph *graph, guint flow)
{
  return g_array_index(graph->flows, GraphFlow, flow);
}

const FlowUse &use_at(const FlowGraph *graph, guint use)
{
  return g_array_index(graph->uses, FlowUse, use);
}

/* SimGrid shares by latency; only where all have the same one are shares equal. */
bool same_latency(const FlowGraph *graph)
{
  for (guint f = 1; f < graph->flows->len; f++)
    if (flow_at(graph, f).latency_s != flow_at(graph, 0).latency_s)
      return false;
  return flow_at(graph, 0).latency_s > 0;
}

/* The least power of two times which all weights are whole: a weight is how
 * often a route lists the link. */
int weight_unit(const FlowGraph *graph)
{
  int unit = 1;

  for (guint u = 0; u < graph->uses->len; u++)
    while (unit < 8 && use_at(graph, u).weight * unit != std::floor(use_at(graph, u).weight * unit))
      unit *= 2;
  return unit;
}

/* What flows with the same route and cap share: a pair of hosts. */
struct Platform {
  std::vector<sg4::Host *> from, to; /* by flow */
};

std::string route_key(const FlowGraph *graph, const GraphFlow &flow)
{
  std::string key = std::to_string(flow.cap);

  for (int u = flow.first_use; u < flow.first_use + flow.n_uses; u++)
    key += " " + std::to_string(use_at(graph, u).resource) + "*" + std::to_string(use_at(graph, u).weight);
  return key;
}

Platform make_platform(sg4::NetZone *root, const FlowGraph *graph, const std::string &name)
{
  sg4::NetZone *zone = sg4::create_full_zone(name)->set_parent(root);
  std::map<std::string, int> routes;
  std::vector<int> route_of;
  std::vector<sg4::Link *> links;
  std::vector<sg4::Host *> hosts;
  Platform platform;
  int unit = weight_unit(graph);
  double latency = same_latency(graph) ? flow_at(graph, 0).latency_s : 0;

  for (guint r = 0; r < graph->capacities->len; r++)
    links.push_back(zone->create_link(name + "-" + std::to_string(r), g_array_index(graph->capacities, double, r) * unit)->seal());
  for (guint f = 0; f < graph->flows->len; f++)
    route_of.push_back(routes.emplace(route_key(graph, flow_at(graph, f)), routes.size()).first->second);
  int side = std::ceil(std::sqrt(routes.size()));
  for (int h = 0; h < 2 * side; h++)
    hosts.push_back(zone->create_host(name + "-host-" + std::to_string(h), 1e9)->seal());
  std::vector<bool> made(routes.size());
  for (guint f = 0; f < graph->flows->len; f++) {
    const GraphFlow &flow = flow_at(graph, f);
    int route = route_of[f];
    platform.from.push_back(hosts[route / side]);
    platform.to.push_back(hosts[side + route % side]);
    if (made[route])
      continue;
    made[route] = true;
    /* The flow's own link holds its latency and its cap; it is wide, not shared, if there is no cap. */
    std::vector<sg4::LinkInRoute> path;
    if (latency > 0 || std::isfinite(flow.cap) || flow.n_uses == 0) {
      sg4::Link *own = zone->create_link(name + "-own-" + std::to_string(route), std::isfinite(flow.cap) ? flow.cap : 1e18);
      own->set_sharing_policy(sg4::Link::SharingPolicy::FATPIPE)->set_latency(latency)->seal();
      path.emplace_back(own);
    }
    for (int u = flow.first_use; u < flow.first_use + flow.n_uses; u++)
      for (int k = 0; k < use_at(graph, u).weight * unit; k++)
        path.emplace_back(links[use_at(graph, u).resource]);
    zone->add_route(platform.from[f]->get_netpoint(), platform.to[f]->get_netpoint(), nullptr, nullptr, path, false);
  }
  zone->seal();
  return platform;
}

struct Run {
  const FlowGraph *graph;
  Platform platform;
  std::vector<std::vector<int>> followers; /* by flow */
  bool wait;                               /* the links have no latency */
  double *end;
};

/* Moves a flow and those that follow it, each further one by an actor of its own. */
void move(const Run *run, int flow)
{
  while (flow >= 0) {
    const GraphFlow &f = flow_at(run->graph, flow);
    if (run->wait && f.latency_s > 0)
      sg4::this_actor::sleep_for(f.latency_s);
    sg4::Comm::sendto(run->platform.from[flow], run->platform.to[flow], f.bytes);
    run->end[flow] = sg4::Engine::get_clock();
    const std::vector<int> &next = run->followers[flow];
    for (size_t i = 1; i < next.size(); i++)
      sg4::Actor::create("flow", run->platform.from[next[i]], move, run, next[i]);
    flow = next.empty() ? -1 : next[0];
  }
}

Run make_run(sg4::NetZone *root, const FlowGraph *graph, const std::string &name, double *end)
{
  Run run = { graph, make_platform(root, graph, name), {}, !same_latency(graph), end };

  run.followers.resize(graph->flows->len);
  for (guint f = 0; f < graph->flows->len; f++)
    if (flow_at(graph, f).after >= 0)
      run.followers[flow_at(graph, f).after].push_back(f);
  return run;
}

} // namespace

double flow_graph_run_simgrid(const FlowGraph *const *graphs, int n, double *const *ends)
{
  std::vector<std::string> words = { "simgrid", "--cfg=network/model:CM02", "--cfg=network/crosstraffic:0",
                                     "--cfg=network/TCP-gamma:1e30", "--cfg=surf/precision:1e-12",
                                     "--cfg=maxmin/precision:1e-12", "--log=root.thresh:warning" };
  std::vector<char *> argv;
  for (std::string &word : words)
    argv.push_back(&word[0]);
  argv.push_back(nullptr);
  int argc = words.size();
  sg4::Engine engine(&argc, argv.data());
  sg4::NetZone *root = sg4::create_full_zone("root");
  std::vector<Run> runs;

  for (int g = 0; g < n; g++)
    runs.push_back(make_run(root, graphs[g], "case" + std::to_string(g), ends[g]));
  root->seal();
  for (const Run &run : runs)
    for (guint f = 0; f < run.graph->flows->len; f++)
      if (flow_at(run.graph, f).after < 0)
        sg4::Actor::create("flow", run.platform.from[f], move, &run, f);
  clock_t begin = clock();
  engine.run();
  return (clock() - begin) / static_cast<double>(CLOCKS_PER_SEC);
}
