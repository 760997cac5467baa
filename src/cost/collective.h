/*
 * Time of communication among the ranks of a group, by algorithm.
 *
 * Each algorithm is one file and one line of the table in collective.c; the
 * fastest that applies is chosen, as NCCL's tuner does, and the runner-up is
 * kept to be shown. Formulas, sources and ranges: src/cost/README.md.
 *
 * `bytes` follow nccl-tests: the whole buffer for all-reduce, broadcast and
 * reduce; the total over ranks (send count x ranks) for all-gather,
 * reduce-scatter and all-to-all; the message for send/receive. Bus bandwidth
 * is nccl-tests' too. All devices of the cluster are taken to do the same at
 * the same time, so a group gets its ranks' share of each tier. How long a
 * transfer keeps a device's share busy is said besides, for those who let
 * transfers of one device share its links (sim/links.h): bytes through the port
 * over the rate that the algorithm reaches there.
 */
#ifndef TDP_COST_COLLECTIVE_H
#define TDP_COST_COLLECTIVE_H

#include "hardware/collective.h"
#include "hardware/group.h"

/* What a collective asks of links. */
typedef struct {
  double transfer_s;       /* of its time: bytes move; the rest is latency */
  double port_s[TIER_MAX]; /* of transfer_s: each device's share of a tier is busy */
} PortUse;

/* Seconds of a collective of so many bytes over a group; INFINITY where the algorithm does not apply. */
typedef double AlgorithmSeconds(const Cluster *cluster, Collective collective, double bytes, const GroupShape *group);
typedef PortUse AlgorithmPorts(const Cluster *cluster, Collective collective, double bytes, const GroupShape *group);

typedef struct {
  const char *name; /* "ring", "tree", "hierarchical", "in-switch", "pairwise" */
  gboolean optional; /* not in NCCL: used only where the cluster says that its library has it */
  AlgorithmSeconds *seconds;
  AlgorithmPorts *ports;
} CollectiveAlgorithm;

typedef struct {
  double seconds;
  double bus_bytes_per_s;
  const char *algorithm;
  PortUse use;           /* its transfer_s is at most `seconds` */
  const char *runner_up; /* NULL if no other applies */
  double runner_up_s;
  gboolean runner_up_lacking; /* the cluster's library has no such algorithm: it may be faster than the one chosen */
} CollectiveCost;

/* A group of one rank, or no bytes, costs nothing. */
CollectiveCost collective_cost(const Cluster *cluster, Collective collective, double bytes,
                               const GroupShape *group);

/* The same so many times, one after the other, and behind each gap_s in which nothing moves: what it asks of links grows
 * with its time, and so would the runner-up's; its rate is that of all, gaps included. What costs nothing still does. */
CollectiveCost collective_repeated(CollectiveCost once, double times, double gap_s);

/* One and, behind it, another: their times, what they ask of links, and the runner-up's time with them; all else is the
 * first's unless that costs nothing. */
CollectiveCost collective_and(CollectiveCost first, CollectiveCost other);

/* nccl-tests' bus factor: 2(n-1)/n, (n-1)/n or 1. */
double collective_bus_factor(Collective collective, int ranks);

#endif
