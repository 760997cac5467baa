#include "cost/redistribute.h"

#include "op/op.h"

static double exchange_s(const PassLayout *passes, Collective what, double bytes, const Cluster *cluster,
                         const GroupShape *group)
{
  return collective_cost(cluster, what, bytes, group).seconds + passes->framework->collective_s;
}

double redistribute_s(const Model *model, const PassLayout *from, const PassLayout *to, const Cluster *cluster)
{
  gboolean divided_from = from->sequence_parallel && from->tp > 1, divided_to = to->sequence_parallel && to->tp > 1;
  GroupShape group = group_shape(cluster, MAX(from->tp, to->tp), 1);
  double needed = op_boundary_bytes(model, to);

  if (from->tp == to->tp && divided_from == divided_to)
    return 0;
  if (!divided_from && from->tp >= to->tp)
    return 0; /* holds it: slices */
  if (!divided_to && to->tp >= from->tp) {
    int parts = divided_from ? to->tp : to->tp / from->tp;
    group = group_shape(cluster, parts, divided_from ? 1 : from->tp);
    return exchange_s(from, COLLECTIVE_ALL_GATHER, needed, cluster, &group);
  }
  return exchange_s(from, COLLECTIVE_ALL_TO_ALL, needed, cluster, &group);
}
