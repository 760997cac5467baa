/*
 * Copies between devices and the host, and the optimizer's step there.
 *
 * A copy is bound by the device's own link (PCIe), by host memory, which it
 * passes once, and, where the data is on NVMe, by the drives; the last two are
 * shared by the devices of a node, which all do the same at the same time. At the
 * step's end each takes as much of them as the others until it is done, so that
 * devices with fewer parameters leave theirs to the fullest.
 * Reading and writing NVMe at once share the drives. Sources: ZeRO-Offload (Ren
 * et al. 2021, arXiv 2101.06840, sections 4 and 5), ZeRO-Infinity (Rajbhandari et al. 2021, arXiv
 * 2104.07857, sections 5 and 6).
 *
 * The step takes sub-groups of parameters through three stages: states from and
 * to NVMe, Adam on the host, weights to the device. One sub-group runs them in
 * turn, g of them overlap: max + (sum - max) / g, where the last one counts by its part, so that fewer parameters never
 * take longer.
 */
#ifndef TDP_COST_OFFLOAD_H
#define TDP_COST_OFFLOAD_H

#include "layout/layout.h"

/* To the device, or from it. Nothing where `store` is the device. */
double host_copy_s(const Cluster *cluster, const StateLayout *states, Store store, gboolean to_device, double bytes);

typedef struct {
  double copied_s; /* gradients down, where they have not gone before, and what of weights and states is not hidden */
  double host_s;   /* Adam */
  double beside_s; /* of a delayed update, before copies: runs beside passes; 0 otherwise */
} HostStep;

/* For a rank that updates so many parameters on a node that it shares with as many such ranks, itself among them
 * (mesh_node_sharers). */
HostStep host_step(const StateLayout *states, const Cluster *cluster, double owned, double sharers);

/* All devices of a node, of which each has as much. */
double host_sharers(const StateLayout *states, const Cluster *cluster);

#endif
