/*
 * Which links the transfers of a program share: each becomes a flow (flow.h)
 * over the ports of its row's devices.
 *
 * Resources. A row stands for one of its alike devices. For each tier of links
 * the device has a port, each way for itself, whose capacity is what one device
 * can send when the others are silent (Tier.port_bytes_per_s) in units of its
 * share while all send (Tier.bytes_per_s). Where a port can take more than the
 * share, the devices of a domain (of a node, for its NICs) also share its
 * links to the outside, as many shares as it has devices; a row's flow counts
 * there once for each of its devices in the domain. Domains in which the same
 * rows have the same numbers of devices are one resource. Above that links
 * carry what all domains send: cost/collective.h's rates are those while all
 * devices do the same.
 *
 * Flows. A collective is latency, then PortUse.transfer_s seconds in which it
 * occupies a share of each tier's port both ways; a send occupies its row's
 * ports out and its receiver's in. Speed is the fraction of what the transfer
 * would have alone, so a transfer that meets nobody takes Segment.seconds to
 * the last bit, and transfers that one port limits are slowed alike (max-min
 * fair in that fraction).
 *
 * Tensor-parallel communication inside a pass is spread evenly over the pass, and
 * so is that between experts' ranks: where its row's transfers use that group's
 * highest tier, a pass is also a flow that takes its exposed share,
 * (seconds - compute_s) / seconds in all, of the port, and ends when
 * both its computation and its flow have. What is hidden behind computation is
 * not counted. Compute slowed by a collective's kernels (Segment.slowdown) is
 * as without sharing. The gather that ends a scattered send is part of its latency.
 */
#ifndef TDP_SIM_LINKS_H
#define TDP_SIM_LINKS_H

#include "program/program.h"
#include "sim/flow.h"

typedef struct SimLinks SimLinks;

/* Of a program made from this layout. Needs none of them later. */
SimLinks *sim_links_new(const Program *program, const Layout *layout, const Cluster *cluster);
void sim_links_free(SimLinks *links);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimLinks, sim_links_free)

/* The flow of a task, its tag not set; NULL if it has none. */
const FlowSpec *sim_links_flow(const SimLinks *links, int task);

/* A network of the links' resources, without flows. */
FlowNet *sim_links_net_new(const SimLinks *links);

#endif
