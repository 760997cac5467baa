/*
 * The insides of a FlowNet, private to flow*.c: flows, resources and the
 * entries that join them, in arrays that refer to each other by index (-1 is
 * none).
 *
 *   flow.c        flows start, begin to move, and end
 *   flow_queue.c  the heap of their next events
 *   flow_share.c  their rates
 */
#ifndef TDP_SIM_FLOW_NET_H
#define TDP_SIM_FLOW_NET_H

#include "sim/flow.h"

typedef enum { FLOW_FREE, FLOW_WAITING, FLOW_MOVING } FlowState;

typedef struct {
  double begin;     /* since when the rate holds, */
  double delay;     /* so many seconds later: the latency before the first change */
  double left;      /* bytes at begin + delay */
  double rate;      /* 0 while waiting, and until the first solution */
  double alone;     /* rate if nobody shared */
  double finish;    /* end of the latency, or completion at this rate */
  double key;       /* in the heap: finish, or less if finish has moved back */
  double next_rate; /* while solving */
  guint64 order;    /* of start */
  int tag;
  int position;     /* in the heap */
  int bottleneck;   /* the resource that limits it; -1 if its own rate does */
  int first, n;     /* its entries, one after the other */
  int size;         /* 2^size entries belong to this slot */
  int next_free;    /* slot of the same size */
  guint8 state;
  guint8 changing;  /* is in `changing` */
  guint8 open;      /* while solving: has no rate yet */
} Flow;

typedef struct {
  double weight;
  int resource, flow;
  int next, previous; /* entry of the same resource */
} FlowEntry;

typedef struct {
  double capacity;
  guint64 demand;    /* of its flows if each were alone, in units of capacity / FLOW_FULL */
  double level;      /* rate of the flows that it limits; INFINITY if none */
  int first;         /* entry of a flow that moves */
  int limit;         /* while solving: index in `limits` */
  guint64 last_order; /* of the flow that named it last */
} FlowResource;

/* Whole numbers add up without error: a network that has emptied is as new. */
#define FLOW_FULL ((guint64)1 << 44)

/* A crowded resource while rates are solved. */
typedef struct {
  double level;  /* at which its open flows would fill it; INFINITY if it has none */
  double full;   /* at which it got full; INFINITY if it did not */
  double room;   /* capacity less what flows with a rate take */
  double weight; /* of its open flows */
  int n_open;
  int n_kept;    /* flows on it that do not change */
  int resource;
} FlowLimit;

/* A growing array: `items`, `n` of them, room for `size`. */
#define FLOW_ARRAY(Type) \
  struct {               \
    Type *items;         \
    int n, size;         \
  }

/* Makes room for `count` more. */
#define flow_array_reserve(array, count)                                   \
  do {                                                                     \
    while ((array)->n + (count) > (array)->size) {                         \
      (array)->size = MAX(2 * (array)->size, 16);                          \
      (array)->items = g_realloc_n((array)->items, (array)->size,          \
                                   sizeof *(array)->items);                \
    }                                                                      \
  } while (0)

#define flow_array_push(array, value...)          \
  do {                                            \
    flow_array_reserve(array, 1);                 \
    (array)->items[(array)->n++] = value;         \
  } while (0)

struct FlowNet {
  FLOW_ARRAY(Flow) flows;
  FLOW_ARRAY(FlowEntry) entries;
  FLOW_ARRAY(FlowResource) resources;
  FLOW_ARRAY(int) heap;
  FLOW_ARRAY(int) done;
  FLOW_ARRAY(int) changing;     /* flows that are to be solved */
  FLOW_ARRAY(FlowLimit) limits;
  int free[32];                 /* first free slot of each size */
  guint64 next_order;
  double now;
};

/* flow_queue.c: earliest key first, then earliest start. */
void flow_queue_push(FlowNet *net, int flow);
void flow_queue_pop(FlowNet *net);
void flow_queue_raise(FlowNet *net, int flow);     /* its key has got smaller */
gboolean flow_queue_peek(FlowNet *net, int *flow); /* its key is its finish; FALSE if empty */

/* flow_share.c */
void flow_share_join(FlowNet *net, int flow);
void flow_share_leave(FlowNet *net, int flow);
void flow_share_solve(FlowNet *net); /* rates of all that changed, at net->now */

#endif
