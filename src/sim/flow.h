/*
 * Transfers that share links: a network of resources and the flows on it.
 *
 * A resource is whatever bytes pass through at a limited rate: one direction
 * of a device's NVLink port, of its PCIe link or of a NIC, a leaf or spine
 * tier. A flow is one transfer: nothing moves for its latency, then its bytes
 * move at a rate up to its own cap over all its resources at once. It crosses
 * each resource with a weight, the bytes that pass the resource for each byte
 * of the flow: 1 for a send, 2(n-1)/n at each member's port for a ring
 * all-reduce over n ranks, times the number of ranks where alike ranks are
 * folded onto one resource.
 *
 * Rates. They are max-min fair: the rates r with r_i <= cap_i of each flow and
 * sum_i weight_ij r_i <= capacity_j of each resource in which no r_i can grow
 * without some r_k <= r_i getting smaller. There is one such set. It is what
 * progressive filling gives: one level rises from zero for all flows at once,
 * and a flow stops where the level meets its cap or fills one of its
 * resources. So a flow's rate is its cap, or it crosses a full resource on
 * which no flow is faster. The weight counts in what a flow takes of a
 * resource, not in its claim: flows that the same resource limits move at the
 * same rate. Definition and filling: Bertsekas and Gallager, Data Networks,
 * 2nd edition, section 6.5.2. SimGrid's solver with all sharing penalties 1
 * has the same solution (Casanova et al., Versatile, scalable and accurate
 * simulation of distributed applications and platforms, JPDC 74, 2014).
 *
 * Time. Rates change only where a latency ends or a flow is complete. A flow
 * whose rate has never changed ends at start + (latency + bytes / rate) in
 * just these floating-point operations, and one that meets nobody has the rate
 * min(cap, capacity / weight). The bytes left are settled where a rate
 * changes, and nothing is summed over the life of the network, so errors do
 * not grow with the number of events. Levels nearer to each other than 1e-12
 * of themselves count as equal.
 *
 * Work. A resource is crowded if its flows, each at the rate that it would
 * have alone, ask for more than its capacity; others limit nobody. A change
 * solves the flows anew that it can reach over full resources, and more only
 * as far as the new rates demand it, at worst all that are connected by
 * crowded resources. What happens at one instant is solved once. Nothing is
 * allocated once the most flows at a time have been seen.
 *
 * Units are seconds and bytes. Times given to one network never decrease, and
 * the same calls give the same bytes. Nothing can fail; a call against these
 * rules stops at g_assert. The network owns all that it returns.
 */
#ifndef TDP_SIM_FLOW_H
#define TDP_SIM_FLOW_H

#include <glib.h>

typedef struct FlowNet FlowNet;

typedef struct {
  int resource;
  double weight; /* > 0; bytes on the resource per byte of the flow */
} FlowUse;

typedef struct {
  double latency_s;
  double bytes;
  double cap;          /* bytes/s, > 0; may be INFINITY */
  const FlowUse *uses; /* each resource at most once; copied */
  int n_uses;
  int tag;             /* the caller's name for the flow */
} FlowSpec;

FlowNet *flow_net_new(void);
void flow_net_free(FlowNet *net);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(FlowNet, flow_net_free)

/* Index of a new resource, counted from 0. Capacity in bytes/s, finite. */
int flow_net_add_resource(FlowNet *net, double capacity);

/* Starts a flow, not later than the next event. Returns its index, which holds
 * until the flow is complete and may then be given to another. */
int flow_start(FlowNet *net, double now, const FlowSpec *spec);

/* When the next latency ends or the next flow is complete; INFINITY if no flow
 * is under way. */
double flow_next_event(FlowNet *net);

/* Goes on to `now`, not later than the next event. Returns how many flows are
 * complete; `done` is set to their tags in the order in which they started,
 * valid until the next call. */
int flow_advance(FlowNet *net, double now, const int **done);

/* The rate of a flow under way, 0 before its latency ends. */
double flow_rate(FlowNet *net, int flow);

/* Bytes/s that pass a resource. */
double flow_net_load(FlowNet *net, int resource);

#endif
