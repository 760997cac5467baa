#include "cost/algorithms.h"

#include <math.h>

double ring_bytes_per_s(const Cluster *cluster, const GroupShape *group)
{
  double rate = INFINITY;
  for (int t = 0; t <= group_tier(cluster, group); t++)
    if (tier_members(group, t) > 1)
      rate = fmin(rate, communicator_ring_rate(cluster, group, t));
  return rate;
}

/* Of a byte on average, for the rounds that add. */
static double adding(const Link *link, Collective collective, double bytes)
{
  double far = link->far_reduce_slowdown > 0 && bytes > 0 ? fmax(0, 1 - link->reduce_cache_bytes / bytes) : 0;
  double slowdown = fmax((1 - far) * link->reduce_slowdown + far * link->far_reduce_slowdown, 1);

  return collective == COLLECTIVE_REDUCE_SCATTER ? slowdown
         : collective == COLLECTIVE_ALL_REDUCE   ? (1 + slowdown) / 2
                                                 : 1;
}

double ring_s(const Cluster *cluster, Collective collective, double bytes, const GroupShape *group)
{
  if (collective == COLLECTIVE_ALL_TO_ALL || collective == COLLECTIVE_SEND)
    return INFINITY;
  double rounds = collective == COLLECTIVE_ALL_REDUCE ? 2 : 1;
  int top = group_tier(cluster, group);
  double hops_s = 0, rate = INFINITY;
  for (int t = 0; t <= top; t++) {
    if (tier_members(group, t) < 2)
      continue;
    const Link *link = &cluster->tiers[t].link;
    hops_s += rounds * ring_steps(group, t) * link->hop_s;
    rate = fmin(rate, communicator_ring_rate(cluster, group, t) / adding(link, collective, bytes));
  }
  double bus_bytes = bytes * collective_bus_factor(collective, group->size);
  double own_bytes = collective == COLLECTIVE_BROADCAST ? 0 : bytes / group->size;
  const Link *link = &cluster->tiers[top].link;
  return link->base_s + hops_s + bus_bytes / rate + own_copy_s(cluster, own_bytes) +
         link->sqrt_s_per_byte * sqrt(bus_bytes);
}
