#include "cost/communicator.h"

#include "cost/algorithms.h"

#include <math.h>

Communicator communicator_of(const Cluster *cluster, const GroupShape *group)
{
  int network = cluster->network_tier, ranks = group_ranks_of_node(group, network);

  if (group->size <= ranks)
    return (Communicator) { 0 };
  int most = cluster->tiers[network].rings, at_once = ranks_at_once(cluster, ranks);
  int rings = most > 0 ? MIN(most, at_once) : at_once;
  return (Communicator) { rings, rings * MAX(1, cluster->library.ring_copies) };
}

double communicator_ring_rate(const Cluster *cluster, const GroupShape *group, int tier)
{
  const Link *link = &cluster->tiers[tier].link;
  double rate = link->efficiency * tier_rate(cluster, group, tier);

  return link->channel_bytes_per_s > 0
             ? fmin(rate, communicator_of(cluster, group).channels * link->channel_bytes_per_s)
             : rate;
}

double communicator_tree_rate(const Cluster *cluster, const GroupShape *group)
{
  Communicator c = communicator_of(cluster, group);
  gboolean many = group->size > 2 * ranks_below(group, MAX(cluster->network_tier, 0));
  double rate = cluster->tiers[0].link.tree_channel_bytes_per_s[many];

  return c.rings > 0 && rate > 0 ? c.rings * rate : INFINITY;
}

double communicator_send_rate(const Cluster *cluster, int tier)
{
  double rate = cluster->tiers[tier].link.channel_bytes_per_s;

  return rate > 0 ? MAX(1, cluster->library.send_channels) * rate : INFINITY;
}
