/*
 * What it costs to go from one division of an activation to another within a
 * pipeline stage: between layers with different tensor- and data-parallel
 * degrees (Galvatron, Miao et al. 2022, arXiv 2211.13878, section 3.3: gather
 * and slice).
 *
 * A stage's devices hold the tokens of its micro-batches. With tensor degree t
 * each group of t neighbours holds the same 1/(devices/t) of the sequences,
 * whole on each of them, or under sequence parallelism 1/t of their tokens on
 * each. Going to another division, a device that holds all that it needs slices
 * (free); one whose part lies in what it needs gathers from the group that
 * has it; else the group of the larger degree exchanges all to all. A gradient
 * goes the opposite way.
 */
#ifndef TDP_COST_REDISTRIBUTE_H
#define TDP_COST_REDISTRIBUTE_H

#include "cost/collective.h"
#include "layout/layout.h"

/* Seconds from the division of the outputs under one layout to that under the other, with what the
 * framework adds to each collective, for a micro-batch of each; one of the tensor degrees divides the other, and the
 * devices of a stage are the same. */
double redistribute_s(const Model *model, const PassLayout *from, const PassLayout *to, const Cluster *cluster);

#endif
