/*
 * ZeRO++'s collectives on fewer bits (Wang et al. 2023, arXiv 2306.10209).
 *
 * qwZ (section 3.1): 16-bit weights are gathered in int8; a kernel quantizes
 * each rank's part (2 bytes read, 1 written), another makes 16 bits of all (1,
 * 2). qgZ (section 3.3): gradients in int4 are exchanged all-to-all inside
 * nodes, summed, quantized again and exchanged between nodes, so that each
 * crosses the network once in a quarter of its bytes. Kernels are bound by
 * memory; scales of the blocks (a few bytes for thousands of values) are left
 * out, as in the paper's volumes: 3 of ZeRO-3 become 0.75.
 */
#ifndef TDP_COST_QUANTIZED_H
#define TDP_COST_QUANTIZED_H

#include "cost/collective.h"

#define QUANTIZED_WEIGHT_BYTES 1.0
#define QUANTIZED_GRADIENT_BYTES 0.5

/* Gathers so many parameters over the group. */
CollectiveCost quantized_gather_cost(const Cluster *cluster, double params, const GroupShape *group);

/* Sums and scatters the gradients of so many parameters. */
CollectiveCost quantized_scatter_cost(const Cluster *cluster, double params, const GroupShape *group);

#endif
