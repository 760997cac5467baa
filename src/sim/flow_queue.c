#include "sim/flow_net.h"

static inline gboolean before(const Flow *a, const Flow *b)
{
  return a->key < b->key || (a->key == b->key && a->order < b->order);
}

static inline void put(FlowNet *net, int position, int flow)
{
  net->heap.items[position] = flow;
  net->flows.items[flow].position = position;
}

static void sift_up(FlowNet *net, int i, int flow)
{
  const Flow *flows = net->flows.items;
  const int *heap = net->heap.items;

  for (; i > 0 && before(&flows[flow], &flows[heap[(i - 1) / 2]]); i = (i - 1) / 2)
    put(net, i, heap[(i - 1) / 2]);
  put(net, i, flow);
}

static void sift_down(FlowNet *net, int i, int flow)
{
  const Flow *flows = net->flows.items;
  const int *heap = net->heap.items;

  for (int child = 2 * i + 1; child < net->heap.n; child = 2 * i + 1) {
    if (child + 1 < net->heap.n && before(&flows[heap[child + 1]], &flows[heap[child]]))
      child++;
    if (!before(&flows[heap[child]], &flows[flow]))
      break;
    put(net, i, heap[child]);
    i = child;
  }
  put(net, i, flow);
}

void flow_queue_push(FlowNet *net, int flow)
{
  net->flows.items[flow].key = net->flows.items[flow].finish;
  flow_array_push(&net->heap, flow);
  sift_up(net, net->heap.n - 1, flow);
}

void flow_queue_pop(FlowNet *net)
{
  net->flows.items[net->heap.items[0]].position = -1;
  if (--net->heap.n > 0)
    sift_down(net, 0, net->heap.items[net->heap.n]);
}

void flow_queue_raise(FlowNet *net, int flow)
{
  net->flows.items[flow].key = net->flows.items[flow].finish;
  sift_up(net, net->flows.items[flow].position, flow);
}

gboolean flow_queue_peek(FlowNet *net, int *flow)
{
  if (net->heap.n == 0)
    return FALSE;
  for (Flow *f; f = &net->flows.items[net->heap.items[0]], f->key < f->finish;) {
    f->key = f->finish;
    sift_down(net, 0, net->heap.items[0]);
  }
  *flow = net->heap.items[0];
  return TRUE;
}
