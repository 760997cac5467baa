#include "sim/flow_net.h"

#include <math.h>

#define TOLERANCE 1e-12 /* levels nearer than this, relatively, are one */
#define ROUNDS_MAX 4    /* after which all that are connected are solved */

static inline Flow *flow_at(const FlowNet *net, int flow)
{
  return &net->flows.items[flow];
}

static inline FlowResource *resource_at(const FlowNet *net, int resource)
{
  return &net->resources.items[resource];
}

static inline guint64 demand(const Flow *flow, const FlowEntry *entry, const FlowResource *resource)
{
  return entry->weight * flow->alone / resource->capacity * FLOW_FULL + 0.5;
}

static inline void change(FlowNet *net, int slot)
{
  Flow *flow = flow_at(net, slot);

  if (flow->changing)
    return;
  flow->changing = flow->open = TRUE;
  flow_array_push(&net->changing, slot);
}

/* The flows that a resource limits are to be solved. */
static void change_limited(FlowNet *net, int resource)
{
  const FlowEntry *entries = net->entries.items;
  const Flow *flows = net->flows.items;

  if (resource_at(net, resource)->level == INFINITY)
    return;
  for (int e = resource_at(net, resource)->first; e >= 0; e = entries[e].next)
    if (flows[entries[e].flow].bottleneck == resource)
      change(net, entries[e].flow);
}

/* The flows on a resource that are at least so fast are to be solved. */
static void change_crossing(FlowNet *net, int resource, double rate)
{
  const FlowEntry *entries = net->entries.items;
  const Flow *flows = net->flows.items;

  for (int e = resource_at(net, resource)->first; e >= 0; e = entries[e].next)
    if (flows[entries[e].flow].rate >= rate)
      change(net, entries[e].flow);
}

void flow_share_join(FlowNet *net, int slot)
{
  const Flow *flow = flow_at(net, slot);

  for (int e = flow->first, end = e + flow->n; e < end; e++) {
    FlowEntry *entry = &net->entries.items[e];
    FlowResource *resource = resource_at(net, entry->resource);
    resource->demand += demand(flow, entry, resource);
    entry->next = resource->first;
    if (resource->first >= 0)
      net->entries.items[resource->first].previous = e;
    resource->first = e;
  }
  change(net, slot);
}

static void forget(FlowNet *net, int slot)
{
  int i = 0;

  while (net->changing.items[i] != slot)
    i++;
  net->changing.items[i] = net->changing.items[--net->changing.n];
  flow_at(net, slot)->changing = FALSE;
}

void flow_share_leave(FlowNet *net, int slot)
{
  const Flow *flow = flow_at(net, slot);

  for (int e = flow->first, end = e + flow->n; e < end; e++) {
    const FlowEntry *entry = &net->entries.items[e];
    FlowResource *resource = resource_at(net, entry->resource);
    resource->demand -= demand(flow, entry, resource);
    if (entry->previous >= 0)
      net->entries.items[entry->previous].next = entry->next;
    else
      resource->first = entry->next;
    if (entry->next >= 0)
      net->entries.items[entry->next].previous = entry->previous;
    change_limited(net, entry->resource);
    resource->level = INFINITY;
  }
  if (flow->changing)
    forget(net, slot);
}

/*
 * From flow `from` of the list on, adds the crowded resources that they cross
 * and the flows that those limit, or all flows there, and so on. `lowest` falls
 * to the lowest rate that one of them has alone.
 */
static void spread(FlowNet *net, int from, gboolean all, double *lowest)
{
  const FlowEntry *entries = net->entries.items;
  FlowResource *resources = net->resources.items;

  for (int i = from; i < net->changing.n; i++) {
    const Flow *flow = flow_at(net, net->changing.items[i]);
    *lowest = MIN(*lowest, flow->alone);
    for (int e = flow->first, end = e + flow->n; e < end; e++) {
      int r = entries[e].resource;
      if (resources[r].demand <= FLOW_FULL || resources[r].limit >= 0)
        continue;
      resources[r].limit = net->limits.n;
      flow_array_push(&net->limits, (FlowLimit) { .resource = r });
      if (all)
        change_crossing(net, r, 0);
      else
        change_limited(net, r);
    }
  }
}

static inline void set_level(FlowLimit *limit)
{
  limit->level = limit->n_open > 0 ? MAX(limit->room, 0) / limit->weight : INFINITY;
}

/* What the open flows find on each resource. */
static void open_limits(FlowNet *net)
{
  const FlowEntry *entries = net->entries.items;
  const Flow *flows = net->flows.items;

  for (int l = 0; l < net->limits.n; l++) {
    FlowLimit *limit = &net->limits.items[l];
    const FlowResource *resource = resource_at(net, limit->resource);
    double room = resource->capacity, weight = 0;
    int n_open = 0, n_kept = 0;
    for (int e = resource->first; e >= 0; e = entries[e].next) {
      const Flow *flow = &flows[entries[e].flow];
      if (flow->open) {
        weight += entries[e].weight;
        n_open++;
      } else {
        room -= entries[e].weight * flow->rate;
        n_kept++;
      }
    }
    limit->full = INFINITY;
    limit->room = room;
    limit->weight = weight;
    limit->n_open = n_open;
    limit->n_kept = n_kept;
    set_level(limit);
  }
}

static void close_flow(FlowNet *net, Flow *flow, double rate, int bottleneck)
{
  const FlowEntry *entry = &net->entries.items[flow->first];
  const FlowResource *resources = net->resources.items;
  FlowLimit *limits = net->limits.items;

  flow->open = FALSE;
  flow->next_rate = rate;
  flow->bottleneck = bottleneck;
  for (const FlowEntry *end = entry + flow->n; entry < end; entry++) {
    int l = resources[entry->resource].limit;
    if (l < 0 || limits[l].n_open == 0)
      continue;
    FlowLimit *limit = &limits[l];
    limit->room -= entry->weight * rate;
    limit->weight -= entry->weight;
    limit->n_open--;
    set_level(limit);
  }
}

static double lowest_level(const FlowNet *net)
{
  double level = INFINITY;

  for (int l = 0; l < net->limits.n; l++)
    level = MIN(level, net->limits.items[l].level);
  return level;
}

/* Gives flows that need no more than `level` their own rate; returns how many,
 * and the lowest such rate of those that stay open. */
static int close_alone(FlowNet *net, double level, double *lowest)
{
  int n = 0;

  *lowest = INFINITY;
  for (int i = 0; i < net->changing.n; i++) {
    Flow *flow = flow_at(net, net->changing.items[i]);
    if (!flow->open)
      continue;
    if (flow->alone <= level) {
      close_flow(net, flow, flow->alone, -1);
      n++;
    } else {
      *lowest = MIN(*lowest, flow->alone);
    }
  }
  return n;
}

/* Gives the open flows on the resources that are full at `level` that rate;
 * returns how many. */
static int close_limited(FlowNet *net, double level)
{
  int n = 0;

  for (int l = 0; l < net->limits.n; l++) {
    FlowLimit *limit = &net->limits.items[l];
    int r = limit->resource;
    if (limit->level > level * (1 + TOLERANCE))
      continue;
    n += limit->n_open;
    limit->full = level;
    limit->level = INFINITY;
    limit->n_open = 0;
    for (int e = resource_at(net, r)->first; e >= 0; e = net->entries.items[e].next) {
      Flow *flow = flow_at(net, net->entries.items[e].flow);
      if (flow->open)
        close_flow(net, flow, level, r);
    }
  }
  return n;
}

/* Progressive filling by the flows that change of the room that others leave. */
static void fill(FlowNet *net, double lowest)
{
  open_limits(net);
  for (int n_open = net->changing.n; n_open > 0;) {
    double level = lowest_level(net);
    int closed = lowest <= level ? close_alone(net, level, &lowest) : 0;
    if (closed == 0)
      closed = close_limited(net, level);
    n_open -= closed;
  }
}

/* Adds the flows that kept a rate above the level at which a resource is full,
 * or all flows there. */
static void widen(FlowNet *net, gboolean all)
{
  for (int l = 0; l < net->limits.n; l++) {
    const FlowLimit *limit = &net->limits.items[l];
    if (limit->n_kept > 0 && (all || limit->full < INFINITY))
      change_crossing(net, limit->resource, all ? 0 : limit->full * (1 + TOLERANCE));
  }
}

/* From this instant on the flow moves at its next rate. */
static void apply(FlowNet *net, int slot)
{
  Flow *flow = flow_at(net, slot);

  flow->changing = FALSE;
  if (flow->next_rate == flow->rate)
    return;
  double since = flow->begin + flow->delay;
  if (net->now > since) {
    flow->left = MAX(0, flow->left - (net->now - since) * flow->rate);
    flow->begin = net->now;
    flow->delay = 0;
  }
  g_assert(flow->next_rate > 0);
  flow->rate = flow->next_rate;
  flow->finish = flow->begin + (flow->delay + flow->left / flow->rate);
  if (flow->position < 0)
    flow_queue_push(net, slot);
  else if (flow->finish < flow->key)
    flow_queue_raise(net, slot);
}

void flow_share_solve(FlowNet *net)
{
  double lowest = INFINITY;

  for (int round = 1, solved = 0; solved < net->changing.n; round++) {
    for (int i = 0; i < solved; i++)
      flow_at(net, net->changing.items[i])->open = TRUE;
    spread(net, solved, round > ROUNDS_MAX, &lowest);
    solved = net->changing.n;
    fill(net, lowest);
    widen(net, round >= ROUNDS_MAX);
  }
  for (int l = 0; l < net->limits.n; l++) {
    FlowResource *resource = resource_at(net, net->limits.items[l].resource);
    resource->limit = -1;
    resource->level = net->limits.items[l].full;
  }
  for (int i = 0; i < net->changing.n; i++)
    apply(net, net->changing.items[i]);
  net->limits.n = net->changing.n = 0;
}
