#include "cost/algorithms.h"

#include <math.h>

/* The ranks of one domain of the lowest tier. */
static GroupShape inner_group(const GroupShape *group)
{
  GroupShape inner = {.size = group->per_domain[0]};
  for (int t = 0; t < TIER_MAX; t++)
    inner.per_domain[t] = inner.size;
  return inner;
}

/* One rank of each domain: as many such groups work side by side as a domain has ranks. */
static GroupShape outer_group(const GroupShape *group)
{
  int ranks = group->per_domain[0];
  GroupShape outer = {.size = group->size / ranks};
  for (int t = 0; t < TIER_MAX; t++)
    outer.per_domain[t] = MAX(1, group->per_domain[t] / ranks);
  return outer;
}

/* Scatter within the node, the collective across nodes on each rank's part,
 * gather within the node; one after the other. */
double hierarchical_s(const Cluster *cluster, Collective collective, double bytes, const GroupShape *group)
{
  int ranks = group->per_domain[0];
  if (group_tier(cluster, group) == 0 || ranks < 2 || group->size % ranks)
    return INFINITY;
  GroupShape inner = inner_group(group), outer = outer_group(group);
  double part = bytes / ranks_at_once(cluster, ranks);
  switch (collective) {
  case COLLECTIVE_ALL_REDUCE:
    return ring_s(cluster, COLLECTIVE_REDUCE_SCATTER, bytes, &inner) +
           fmin(ring_s(cluster, collective, part, &outer),
                tree_s(cluster, collective, part, &outer)) +
           ring_s(cluster, COLLECTIVE_ALL_GATHER, bytes, &inner);
  case COLLECTIVE_ALL_GATHER:
  case COLLECTIVE_REDUCE_SCATTER:
    return ring_s(cluster, collective, bytes, &inner) + ring_s(cluster, collective, part, &outer);
  default:
    return INFINITY;
  }
}
