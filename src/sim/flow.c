#include "sim/flow_net.h"

#include <math.h>

FlowNet *flow_net_new(void)
{
  FlowNet *net = g_new0(FlowNet, 1);

  for (guint size = 0; size < G_N_ELEMENTS(net->free); size++)
    net->free[size] = -1;
  return net;
}

void flow_net_free(FlowNet *net)
{
  if (!net)
    return;
  g_free(net->flows.items);
  g_free(net->entries.items);
  g_free(net->resources.items);
  g_free(net->heap.items);
  g_free(net->done.items);
  g_free(net->changing.items);
  g_free(net->limits.items);
  g_free(net);
}

int flow_net_add_resource(FlowNet *net, double capacity)
{
  g_assert(capacity > 0 && isfinite(capacity));
  flow_array_push(&net->resources, (FlowResource) { .capacity = capacity, .level = INFINITY, .first = -1,
                                                    .limit = -1 });
  return net->resources.n - 1;
}

/* A free slot with room for `n` entries. */
static int take_slot(FlowNet *net, int n)
{
  int size = n > 1 ? g_bit_storage(n - 1) : 0;
  int slot = net->free[size];

  if (slot >= 0) {
    net->free[size] = net->flows.items[slot].next_free;
    return slot;
  }
  flow_array_push(&net->flows, (Flow) { .first = net->entries.n, .size = size });
  flow_array_reserve(&net->entries, 1 << size);
  net->entries.n += 1 << size;
  return net->flows.n - 1;
}

static void give_back(FlowNet *net, int slot)
{
  Flow *flow = &net->flows.items[slot];

  flow->state = FLOW_FREE;
  flow->next_free = net->free[flow->size];
  net->free[flow->size] = slot;
}

/* Copies the uses and notes the rate that the flow would have alone. */
static void copy_uses(FlowNet *net, int slot, const FlowSpec *spec)
{
  Flow *flow = &net->flows.items[slot];
  FlowEntry *entries = &net->entries.items[flow->first];

  flow->n = spec->n_uses;
  flow->alone = spec->cap;
  for (int i = 0; i < flow->n; i++) {
    const FlowUse *use = &spec->uses[i];
    FlowResource *resource = &net->resources.items[use->resource];
    g_assert(use->resource >= 0 && use->resource < net->resources.n);
    g_assert(use->weight > 0 && isfinite(use->weight) && resource->last_order != flow->order);
    resource->last_order = flow->order;
    entries[i] = (FlowEntry) { use->weight, use->resource, slot, -1, -1 };
    flow->alone = MIN(flow->alone, resource->capacity / use->weight);
  }
}

int flow_start(FlowNet *net, double now, const FlowSpec *spec)
{
  int slot = take_slot(net, spec->n_uses);
  Flow *flow = &net->flows.items[slot];

  g_assert(now == net->now || (now > net->now && now <= flow_next_event(net)));
  g_assert(spec->latency_s >= 0 && spec->bytes >= 0 && isfinite(spec->bytes) && spec->cap > 0);
  net->now = now;
  flow->begin = now;
  flow->delay = spec->latency_s;
  flow->left = spec->bytes;
  flow->rate = 0;
  flow->bottleneck = -1;
  flow->finish = now + spec->latency_s;
  flow->order = ++net->next_order;
  flow->tag = spec->tag;
  flow->state = FLOW_WAITING;
  copy_uses(net, slot, spec);
  flow_queue_push(net, slot);
  return slot;
}

double flow_next_event(FlowNet *net)
{
  int flow;

  /* While something is due at this instant, rates may wait. */
  if (net->changing.n > 0 && !(flow_queue_peek(net, &flow) && net->flows.items[flow].finish <= net->now))
    flow_share_solve(net);
  return flow_queue_peek(net, &flow) ? net->flows.items[flow].finish : INFINITY;
}

int flow_advance(FlowNet *net, double now, const int **done)
{
  int slot;

  g_assert(now >= net->now && now <= flow_next_event(net));
  net->now = now;
  net->done.n = 0;
  while (flow_queue_peek(net, &slot) && net->flows.items[slot].finish <= now) {
    Flow *flow = &net->flows.items[slot];
    flow_queue_pop(net);
    if (flow->state == FLOW_WAITING && flow->left > 0 && isfinite(flow->alone)) {
      flow->state = FLOW_MOVING;
      flow_share_join(net, slot);
      continue;
    }
    if (flow->state == FLOW_MOVING)
      flow_share_leave(net, slot);
    flow_array_push(&net->done, flow->tag);
    give_back(net, slot);
  }
  *done = net->done.items;
  return net->done.n;
}

double flow_rate(FlowNet *net, int flow)
{
  g_assert(flow >= 0 && flow < net->flows.n && net->flows.items[flow].state != FLOW_FREE);
  flow_share_solve(net);
  return net->flows.items[flow].rate;
}

double flow_net_load(FlowNet *net, int resource)
{
  double load = 0;

  g_assert(resource >= 0 && resource < net->resources.n);
  flow_share_solve(net);
  for (int e = net->resources.items[resource].first; e >= 0; e = net->entries.items[e].next)
    load += net->entries.items[e].weight * net->flows.items[net->entries.items[e].flow].rate;
  return load;
}
