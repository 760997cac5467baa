#include "cost/algorithms.h"

#include <math.h>

static const CollectiveAlgorithm algorithms[] = {
    {"ring", FALSE, ring_s, ring_ports},
    {"tree", FALSE, tree_s, tree_ports},
    {"hierarchical", TRUE, hierarchical_s, hierarchical_ports},
    {"in-switch", FALSE, in_switch_s, in_switch_ports},
    {"pairwise", FALSE, pairwise_s, pairwise_ports},
    {NULL, FALSE, NULL, NULL},
};

double collective_bus_factor(Collective collective, int ranks)
{
  switch (collective) {
  case COLLECTIVE_ALL_REDUCE:
    return 2.0 * (ranks - 1) / ranks;
  case COLLECTIVE_ALL_GATHER:
  case COLLECTIVE_REDUCE_SCATTER:
  case COLLECTIVE_ALL_TO_ALL:
    return (double)(ranks - 1) / ranks;
  default:
    return 1;
  }
}

int ranks_below(const GroupShape *group, int tier)
{
  return tier ? group->per_domain[tier - 1] : 1;
}

static int divide_up(int a, int b)
{
  return (a + b - 1) / b;
}

int tier_members(const GroupShape *group, int tier)
{
  return divide_up(group->per_domain[tier], ranks_below(group, tier));
}

/* Domains of the tier that the group touches. */
static int tier_domains(const GroupShape *group, int tier)
{
  return divide_up(group->size, tier < 0 ? 1 : group->per_domain[tier]);
}

int ring_steps(const GroupShape *group, int tier)
{
  return tier_domains(group, tier - 1) - tier_domains(group, tier);
}

/* Of a mesh, only links to the other members count, of those to all that are there, whether the job has them or not. */
static double mesh_share(const Cluster *cluster, const GroupShape *group, int tier)
{
  const Tier *t = &cluster->tiers[tier];
  int peers = tier_joins(t) / (tier ? tier_joins(t - 1) : 1) - 1;
  return t->link.kind == LINK_MESH && peers > 0 ? MIN(1, (tier_members(group, tier) - 1.0) / peers) : 1;
}

double rank_rate(const Cluster *cluster, const GroupShape *group, int tier)
{
  return cluster->tiers[tier].bytes_per_s * mesh_share(cluster, group, tier);
}

/* Only domains larger than a node have more ranks than this (NVL72). */
int ranks_at_once(const Cluster *cluster, int ranks)
{
  return MIN(ranks, MAX(cluster->library.ports_at_once, cluster->devices_per_node));
}

double tier_rate(const Cluster *cluster, const GroupShape *group, int tier)
{
  const Tier *t = &cluster->tiers[tier];
  int ranks = ranks_below(group, tier);
  double all = ranks * t->bytes_per_s;
  double ports = ranks_at_once(cluster, ranks) * MAX(t->port_bytes_per_s, t->bytes_per_s);
  return MIN(all, ports) * mesh_share(cluster, group, tier);
}

double switch_transfer_s(const Cluster *cluster, const GroupShape *group, int tier, double bytes)
{
  const Link *link = &cluster->tiers[tier].link;
  if (!link->in_switch || (tier == 0 && group->per_domain[0] < cluster->library.in_switch_ranks))
    return INFINITY;
  return 2 * bytes / (link->in_switch_efficiency * tier_rate(cluster, group, tier));
}

double own_copy_s(const Cluster *cluster, double bytes)
{
  const CollectiveLibrary *l = &cluster->library;
  return bytes / MAX(l->own_copy_rate * cluster->tiers[0].bytes_per_s,
                     l->own_copy_memory_rate * cluster->device.memory_bytes_per_s);
}

CollectiveCost collective_cost(const Cluster *cluster, Collective collective, double bytes, const GroupShape *group)
{
  CollectiveCost cost = {0};
  if (!(bytes > 0) || group->size < 2)
    return cost;
  cost.seconds = cost.runner_up_s = INFINITY;
  const CollectiveAlgorithm *chosen = NULL;
  for (const CollectiveAlgorithm *a = algorithms; a->name; a++) {
    double seconds = a->seconds(cluster, collective, bytes, group);
    gboolean lacking = a->optional && !cluster->hierarchical_collectives;
    if (seconds < cost.seconds && !lacking) {
      cost.runner_up = cost.algorithm;
      cost.runner_up_s = cost.seconds;
      cost.runner_up_lacking = FALSE;
      chosen = a;
      cost.algorithm = a->name;
      cost.seconds = seconds;
    } else if (seconds < cost.runner_up_s) {
      cost.runner_up = a->name;
      cost.runner_up_s = seconds;
      cost.runner_up_lacking = lacking;
    }
  }
  g_assert(chosen);
  cost.use = chosen->ports(cluster, collective, bytes, group);
  cost.use.transfer_s = fmin(cost.use.transfer_s, cost.seconds);
  if (!cost.runner_up)
    cost.runner_up_s = 0;
  cost.bus_bytes_per_s = bytes * collective_bus_factor(collective, group->size) / cost.seconds;
  return cost;
}

CollectiveCost collective_repeated(CollectiveCost once, double times, double gap_s)
{
  CollectiveCost all = once;

  if (once.seconds == 0)
    return once;
  all.seconds = times * (once.seconds + gap_s);
  all.runner_up_s = once.runner_up ? times * (once.runner_up_s + gap_s) : 0;
  all.bus_bytes_per_s *= once.seconds / (once.seconds + gap_s);
  all.use.transfer_s *= times;
  for (int tier = 0; tier < TIER_MAX; tier++)
    all.use.port_s[tier] *= times;
  return all;
}

CollectiveCost collective_and(CollectiveCost first, CollectiveCost other)
{
  if (first.seconds == 0)
    return other;
  first.seconds += other.seconds;
  first.runner_up_s += first.runner_up ? other.seconds : 0;
  first.use.transfer_s += other.use.transfer_s;
  for (int tier = 0; tier < TIER_MAX; tier++)
    first.use.port_s[tier] += other.use.port_s[tier];
  return first;
}
