/*
 * What the algorithms of collective.h's table share. Tiers are walked from the
 * lowest; a tier of which the group has one member only takes no part.
 */
#ifndef TDP_COST_ALGORITHMS_H
#define TDP_COST_ALGORITHMS_H

#include "cost/collective.h"
#include "cost/communicator.h"

AlgorithmSeconds ring_s, tree_s, hierarchical_s, in_switch_s, pairwise_s;

/* What they ask of links (ports.c). */
AlgorithmPorts ring_ports, tree_ports, hierarchical_ports, in_switch_ports, pairwise_ports;

/* Ranks of the group in one domain of the tier below: 1 below tier 0. */
int ranks_below(const GroupShape *group, int tier);

/* Domains of the tier below that the group has in one domain of `tier`. */
int tier_members(const GroupShape *group, int tier);

/* Nominal rate at which one rank sends through `tier`: of a mesh, only links to
 * the other members count. */
double rank_rate(const Cluster *cluster, const GroupShape *group, int tier);

/* Share of that rate which a rank reaches that sends to all others: p2p_efficiency (1 - p2p_spread (1 - 1 / d)), where
 * it sends to d other domains of the tier below; in the lowest tier p2p_efficiency. */
double pairwise_efficiency(const Cluster *cluster, const GroupShape *group, int tier);

/* What it then reaches in the tier: that share of its rate, but no more than channels to that many peers carry. */
double pairwise_rate(const Cluster *cluster, const GroupShape *group, int tier);

/* How many of a domain's ranks send beyond it at the same time. */
int ranks_at_once(const Cluster *cluster, int ranks);

/* The same rate of all ranks in one domain below together: their shares, but no
 * more than the ports that send at the same time carry. */
double tier_rate(const Cluster *cluster, const GroupShape *group, int tier);

/* Bus bandwidth of a long ring over the group. */
double ring_bytes_per_s(const Cluster *cluster, const GroupShape *group);

/* What passes a tier of so many members in a tree, each way; and the time in which the group's does. */
double tree_bytes(double bytes, int members);
double tree_transfer_s(const Cluster *cluster, const GroupShape *group, int tier, double bytes);

/* Steps of a ring that pass through `tier`, going around once. */
int ring_steps(const GroupShape *group, int tier);

/* Time in which a rank's kernel also copies its own part within its memory. */
double own_copy_s(const Cluster *cluster, double bytes);

/* Time for all ranks of a node to have `bytes` added by the switch, or
 * INFINITY if the tier's link cannot. No fixed time. */
double switch_transfer_s(const Cluster *cluster, const GroupShape *group, int tier, double bytes);

/* Kernels of DeepEP or HybridEP (`hybrid`) that send rows of `bytes` in all from each rank over several nodes: the
 * longest of what passes each tier's links and, of HybridEP, what its kernels pass on; of HybridEP in one node what
 * passes its links. Of DeepEP in one node, and where the link says nothing of such kernels, `pairs_s`, which an
 * all-to-all takes. What calls add is not in it. */
double dispatch_link_s(const Cluster *cluster, double bytes, const GroupShape *group, gboolean hybrid, double pairs_s);

/* Seconds in which the one thread of the host that posts for each rank's kernels has posted what `chunks` messages to
 * other nodes take, and as many that arrive: for each the write, its signal and the acknowledgement, and the atomic
 * addition that hands its place back, acknowledged too (NVSHMEM 3.4.5, src/modules/transport/libfabric/libfabric.cpp).
 * 0 in one node, and where kernels post themselves. */
double dispatch_proxy_s(const Cluster *cluster, const GroupShape *group, double chunks);

/* Seconds in which that thread has answered kernels that ask it so many times whether all is done, before they send.
 * Nobody timed an answer: it is taken for as long as a post. 0 in one node, and where kernels post themselves. */
double dispatch_quiet_s(const Cluster *cluster, const GroupShape *group, double quiets);

#endif
