#include "cost/quantized.h"

#include "cost/kernel.h"

/* Bytes that a kernel reads and writes for a value: 16 bits to int8 or int4, and back. */
#define TO_INT8 3.0
#define TO_INT4 2.5

/* Kernels behind a collective, whatever its algorithm. */
static CollectiveCost with_kernels(CollectiveCost cost, double seconds)
{
  return collective_and(cost, (CollectiveCost) { .seconds = seconds });
}

CollectiveCost quantized_gather_cost(const Cluster *c, double params, const GroupShape *group)
{
  CollectiveCost cost = collective_cost(c, COLLECTIVE_ALL_GATHER, params * QUANTIZED_WEIGHT_BYTES, group);

  return with_kernels(cost, memory_s(&c->device, TO_INT8 * params / group->size, 1) +
                                memory_s(&c->device, TO_INT8 * params, 1));
}

CollectiveCost quantized_scatter_cost(const Cluster *c, double params, const GroupShape *group)
{
  int ranks = group_ranks_of_node(group, c->network_tier);
  GroupShape inside = group_within(group, ranks), over = group_across(group, ranks);
  double left = params / inside.size;
  CollectiveCost first = collective_cost(c, COLLECTIVE_ALL_TO_ALL, params * QUANTIZED_GRADIENT_BYTES, &inside);
  CollectiveCost last = collective_cost(c, COLLECTIVE_ALL_TO_ALL, left * QUANTIZED_GRADIENT_BYTES, &over);
  CollectiveCost cost = collective_and(last, first);

  /* to int4, and the sum of what arrives; again between nodes */
  cost = with_kernels(cost, memory_s(&c->device, TO_INT4 * params, 1) +
                                memory_s(&c->device, QUANTIZED_GRADIENT_BYTES * params + 2 * left, 1));
  if (over.size > 1)
    cost = with_kernels(cost, memory_s(&c->device, TO_INT4 * left, 1) +
                                  memory_s(&c->device, QUANTIZED_GRADIENT_BYTES * left + 2 * left / over.size, 1));
  cost.bus_bytes_per_s = params * QUANTIZED_GRADIENT_BYTES / cost.seconds;
  return cost;
}
