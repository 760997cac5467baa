/*
 * Collectives of what ZeRO divides, as a framework issues them: a layer or bucket at once; tensor by tensor, with the
 * host's work for each rank's part (ZeRO-3 of frameworks with shard_tensors); or a broadcast from each rank in turn and
 * a reduction to each, which take as long as each other (ZeRO-1 and 2 of those with whole_tensors).
 * plan/framework.h has these keys. Others, and a sum that leaves all ranks the same, are collective_cost()'s.
 * `share`: of all that the ranks divide, from 0 to 1, which as large a share of the ranks owns. Seconds; nothing can fail.
 */
#ifndef TDP_COST_SHARDED_H
#define TDP_COST_SHARDED_H

#include "cost/collective.h"
#include "layout/layout.h"

CollectiveCost sharded_cost(const StateLayout *states, const Cluster *site, Collective what, double bytes,
                            const GroupShape *group, double share);

#endif
