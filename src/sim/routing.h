/*
 * How unevenly tokens fall on experts, as steps draw it: rows of the busiest of
 * the ranks that share a layer's experts, over an even share.
 *
 * Where a plan takes loads to be even (1), each token still falls by chance: the
 * busiest of n ranks has the largest of n normal values more, each with a
 * deviation of one over the root of the rows that a rank gets (multinomial), in
 * each layer and pass anew. Where it takes them to be uneven, experts are popular
 * by themselves: in each step and layer anew, the same for all micro-batches and
 * copies, normal with the deviation that makes the busiest rank's mean the plan's.
 * What loads do from one step to the next no source of ours tells; anew is the
 * most that they can vary.
 */
#ifndef TDP_SIM_ROUTING_H
#define TDP_SIM_ROUTING_H

#include "program/program.h"

typedef struct {
  double *slope;     /* by segment: seconds that it takes more for each 1 of load in all its layers */
  int *layers;       /* by segment: those with experts */
  double *quantiles; /* of the load beyond an even share (noise.h) */
  double mean;       /* of it, that the program's prices have */
  gboolean each_pass; /* drawn for each pass; else for each step and chunk */
} Routing;

/* Of the plan's program, priced with the cluster; NULL where experts do not stand on several ranks or have a capacity. */
Routing *routing_new(const Model *model, const Plan *plan, const Cluster *cluster, const Program *program);

void routing_free(Routing *routing);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Routing, routing_free)

/* Load beyond the mean, on average over so many layers. */
double routing_draw(const Routing *routing, int layers, guint64 *random);

#endif
