#include "cost/algorithms.h"

#include <math.h>

/* Scatter within the node, the collective across nodes on each rank's part,
 * gather within the node; one after the other. */
double hierarchical_s(const Cluster *cluster, Collective collective, double bytes, const GroupShape *group)
{
  int ranks = group->per_domain[0];
  if (group_tier(cluster, group) == 0 || ranks < 2 || group->size % ranks)
    return INFINITY;
  GroupShape inner = group_within(group, ranks), outer = group_across(group, ranks);
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
