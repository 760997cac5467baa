#include "cost/sharded.h"

#include <math.h>

static CollectiveCost cost_in_parts(const Cluster *site, Collective what, double bytes, const GroupShape *group,
                                    int parts, double part_s)
{
  return collective_repeated(collective_cost(site, what, bytes / parts, group), parts, part_s);
}

CollectiveCost sharded_cost(const StateLayout *states, const Cluster *site, Collective what, double bytes,
                            const GroupShape *group, double share)
{
  const Framework *f = states->framework;
  gboolean divided = what == COLLECTIVE_REDUCE_SCATTER || what == COLLECTIVE_ALL_GATHER;

  if (divided && states->zero < 3 && f->whole_tensors)
    return cost_in_parts(site, COLLECTIVE_BROADCAST, bytes, group, MAX(1, (int)ceil(group->size * share - 1e-9)), 0);
  if (divided && states->zero == 3 && f->shard_tensors)
    return cost_in_parts(site, what, bytes, group, f->shard_tensors, f->shard_list_launches * group->size * f->issue_s);
  return collective_cost(site, what, bytes, group);
}
