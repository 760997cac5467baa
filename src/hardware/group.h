/*
 * The shape of a group of ranks on a cluster: how many there are, and how many
 * share a domain of each tier. Work and cost know groups only by shape.
 */
#ifndef TDP_HARDWARE_GROUP_H
#define TDP_HARDWARE_GROUP_H

#include "hardware/cluster.h"

typedef struct {
  int size;
  int per_domain[TIER_MAX]; /* ranks of the group in one domain of the tier; >= 1 */
} GroupShape;

/*
 * Shape of groups of `size` ranks `stride` apart, as they tile `devices` ranks
 * from rank 0: blocks of size * stride consecutive ranks, each of `stride`
 * groups. Where ranks fall differently on domains (3 ranks on nodes of 8), the
 * fewest that any domain has of any group it meets is returned; so the size
 * need not be a multiple of it, and groups that lie better are priced as the worst
 * (docs/plan.md; group_shape_at() is of one alone). Numbers never fall from a tier to the next, and
 * the last tier's is the size. Tiers that the cluster has not hold the size.
 */
GroupShape group_shape(const Cluster *cluster, int size, int stride);

/* The same of groups in two steps: `outer` times, `outer_stride` ranks apart, `inner` ranks `inner_stride` apart, as
 * they tile the devices. inner x inner_stride divides outer_stride. */
GroupShape group_shape_nested(const Cluster *cluster, int inner, int inner_stride, int outer, int outer_stride);

/* Shape of the one group of ranks first, first + stride, ...: the fewest that any
 * domain has of it. */
GroupShape group_shape_at(const Cluster *cluster, int first, int size, int stride);

/* A group divided in two steps, `ranks` of it at a time that share a domain: those ranks, and one rank of each such
 * part, of which as many groups exist side by side. */
GroupShape group_within(const GroupShape *shape, int ranks);
GroupShape group_across(const GroupShape *shape, int ranks);

/* The lowest tier that joins all ranks of the group; 0 for one rank. */
int group_tier(const Cluster *cluster, const GroupShape *shape);

/* Ranks of the group in one node; `network_tier` is that of its cluster. */
static inline int group_ranks_of_node(const GroupShape *shape, int network_tier)
{
  return network_tier < 0 ? shape->size : network_tier == 0 ? 1 : shape->per_domain[network_tier - 1];
}

/* The greatest common divisor: what groups of so many repeat in. */
int group_divisor(int a, int b);

#endif
