#include "cost/quantized.h"

#include "cost/kernel.h"

/* Bytes that a kernel reads and writes for a value: 16 bits to int8 or int4, and back. */
#define TO_INT8 3.0
#define TO_INT4 2.5

GroupShape group_in_node(const Cluster *c, const GroupShape *group)
{
  int inside = group_ranks_of_node(group, c->network_tier);
  GroupShape shape = { .size = inside };

  for (int t = 0; t < TIER_MAX; t++)
    shape.per_domain[t] = MIN(inside, group->per_domain[t]);
  return shape;
}

GroupShape group_over_nodes(const Cluster *c, const GroupShape *group)
{
  int inside = group_in_node(c, group).size;
  GroupShape shape = { .size = group->size / inside };

  for (int t = 0; t < TIER_MAX; t++)
    shape.per_domain[t] = MAX(1, group->per_domain[t] / inside);
  return shape;
}

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
  GroupShape inside = group_in_node(c, group), over = group_over_nodes(c, group);
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
