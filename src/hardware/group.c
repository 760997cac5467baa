#include "hardware/group.h"

#include <limits.h>

/* How many ranks start, start + stride, ... lie in the rest of a domain, at most `left`. */
static int ranks_in_rest(int start, int stride, int domain, int left)
{
  int fit = (domain - start + stride - 1) / stride;
  return MIN(fit, left);
}

/* Fewest ranks in a domain, of a group whose first rank is `start` into its domain. */
static int fewest_of_group(int start, int size, int stride, int domain)
{
  int fewest = size;
  for (int left = size; left > 0;) {
    int here = ranks_in_rest(start, stride, domain, left);
    fewest = MIN(fewest, here);
    left -= here;
    start = start + here * stride - domain;
  }
  return fewest;
}

int group_divisor(int a, int b)
{
  return b == 0 ? a : group_divisor(b, a % b);
}

/* Goes through the places where groups begin in a domain, until they repeat. */
static int fewest_of_all(int size, int stride, int domain, int devices)
{
  int block = size * stride;
  int blocks = MIN(MAX(devices / block, 1), domain / group_divisor(block % domain, domain));
  int fewest = size;
  for (int b = 0; b < blocks && fewest > 1; b++)
    for (int i = 0; i < stride && fewest > 1; i++) {
      int start = (int)(((gint64)b * block + i) % domain);
      fewest = MIN(fewest, fewest_of_group(start, size, stride, domain));
    }
  return fewest;
}

static int per_domain(int size, int stride, int domain, int devices)
{
  gint64 block = (gint64)size * stride;
  if (size == 1 || domain >= devices || domain % block == 0)
    return size;
  if (stride >= domain)
    return 1;
  if (block % domain == 0 && domain % stride == 0)
    return domain / stride;
  return fewest_of_all(size, stride, domain, devices);
}

GroupShape group_shape(const Cluster *cluster, int size, int stride)
{
  g_assert(size >= 1 && stride >= 1);
  g_assert((gint64)size * stride <= cluster->devices);
  GroupShape shape = {.size = size};
  for (int t = 0; t < TIER_MAX; t++)
    shape.per_domain[t] =
      t < cluster->n_tiers ? per_domain(size, stride, cluster->tiers[t].devices, cluster->devices) : size;
  return shape;
}

/* Goes through all groups of two steps. */
static int fewest_nested(int inner, int inner_stride, int outer, int outer_stride, int domain, int devices)
{
  int block = outer * outer_stride, fewest = inner * outer;

  for (int first = 0; first < devices && fewest > 1; first++) {
    if (first % block >= outer_stride || first % block % (inner * inner_stride) >= inner_stride)
      continue;
    for (int i = 0, here = 0; i < inner * outer; i++) {
      int rank = first + i / inner * outer_stride + i % inner * inner_stride, next = rank + inner_stride;
      if (i % inner == inner - 1)
        next = first + (i / inner + 1) * outer_stride;
      here++;
      if (i < inner * outer - 1 && next / domain == rank / domain)
        continue;
      fewest = MIN(fewest, here);
      here = 0;
    }
  }
  return fewest;
}

static int per_domain_nested(int inner, int inner_stride, int outer, int outer_stride, int domain, int devices)
{
  int block = inner * inner_stride;

  if (domain >= devices || domain % ((gint64)outer * outer_stride) == 0)
    return inner * outer;
  if (domain % block == 0)
    return inner * per_domain(outer, outer_stride / block, domain / block, devices / block);
  if (block % domain == 0)
    return per_domain(inner, inner_stride, domain, devices);
  return fewest_nested(inner, inner_stride, outer, outer_stride, domain, devices);
}

GroupShape group_shape_nested(const Cluster *cluster, int inner, int inner_stride, int outer, int outer_stride)
{
  g_assert(inner >= 1 && outer >= 1 && outer_stride % (inner * inner_stride) == 0);
  g_assert((gint64)outer * outer_stride <= cluster->devices);
  GroupShape shape = {.size = inner * outer};
  for (int t = 0; t < TIER_MAX; t++)
    shape.per_domain[t] = t < cluster->n_tiers ? per_domain_nested(inner, inner_stride, outer, outer_stride,
                                                                   cluster->tiers[t].devices, cluster->devices)
                                               : shape.size;
  return shape;
}

GroupShape group_shape_at(const Cluster *cluster, int first, int size, int stride)
{
  GroupShape shape = {.size = size};
  for (int t = 0; t < TIER_MAX; t++) {
    int domain = t < cluster->n_tiers ? cluster->tiers[t].devices : INT_MAX;
    if (size == 1 || domain >= cluster->devices)
      shape.per_domain[t] = size;
    else
      shape.per_domain[t] = stride >= domain ? 1 : fewest_of_group(first % domain, size, stride, domain);
  }
  return shape;
}

GroupShape group_within(const GroupShape *shape, int ranks)
{
  GroupShape within = {.size = ranks};
  for (int t = 0; t < TIER_MAX; t++)
    within.per_domain[t] = MIN(ranks, shape->per_domain[t]);
  return within;
}

GroupShape group_across(const GroupShape *shape, int ranks)
{
  GroupShape across = {.size = shape->size / ranks};
  for (int t = 0; t < TIER_MAX; t++)
    across.per_domain[t] = MAX(1, shape->per_domain[t] / ranks);
  return across;
}

int group_tier(const Cluster *cluster, const GroupShape *shape)
{
  int tier = 0;
  while (tier < cluster->n_tiers - 1 && shape->per_domain[tier] < shape->size)
    tier++;
  return tier;
}
