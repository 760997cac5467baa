/*
 * How unevenly tokens fall on experts, as steps draw it: rows of the busiest of
 * the ranks that share a layer's experts, over an even share.
 *
 * Where a plan takes loads to be even (1), each token still falls by chance: the
 * busiest rank has the largest of normal values more, less their mean; of several
 * groups that a pass waits for, the busiest group's. Each value has the
 * deviation of tokens that take k distinct ones of E experts, with r rows a rank:
 * sqrt((E - k) / (E - 1) / r). Each layer and micro-batch draws its own, once for
 * its forward and what is made again of it. Where a plan takes loads to be uneven,
 * experts are popular by themselves: in each step and layer anew, the same for all
 * micro-batches and copies, normal with the deviation that makes the busiest rank's
 * mean the plan's. What loads do from one step to the next no source of ours
 * tells; anew is the most that they can vary. Rows beyond a capacity are dropped.
 */
#ifndef TDP_SIM_ROUTING_H
#define TDP_SIM_ROUTING_H

#include "program/program.h"

typedef struct {
  double *slope;     /* by segment: seconds that it takes more for each 1 of load in all its layers */
  gboolean *experts; /* by layer of the model */
  double *quantiles; /* of the load beyond an even share (noise.h), at most what the capacity leaves */
  double mean;       /* of it, that the program's prices have */
  gboolean popular;  /* experts are: drawn for each step and layer, not for each group and micro-batch besides */
} Routing;

/* Of the plan's program, priced with the cluster; NULL where no rank can have more rows than the prices say: experts do
 * not stand on several ranks, or have no more than their capacity anyway. */
Routing *routing_new(const Model *model, const Plan *plan, const Cluster *cluster, const Program *program);

void routing_free(Routing *routing);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Routing, routing_free)

/* Seconds that a pass takes longer, or less: of a step whose draws begin from `seed`, of a micro-batch and a group of
 * ranks that meet. The same whenever it is asked for. */
double routing_s(const Routing *routing, const Program *program, int segment, guint64 seed, guint micro, int group);

#endif
