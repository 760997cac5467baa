/*
 * Seconds of the work of a layer: its ops priced by kernel.h and collective.h
 * and laid on two lanes, computation and communication inside the pass (of the
 * tensor-, context- and expert-parallel groups). A collective waits for the op
 * before it; later ops wait for the collective unless it is asynchronous, and a
 * pass ends when both lanes have. A pass cannot take less than the host needs to
 * launch its kernels, and the device stands still where the host has waited for
 * it and has to launch more (Op.counted).
 *
 * A pass is one forward, backward, input-gradient or weight-gradient (Pass) of
 * one layer for one micro-batch. Names ending in _s are seconds, in _bytes bytes
 * of one device; arrays of two have [0] for the layer without and [1] for its
 * experts where these are divided over other ranks (PassLayout.experts_apart).
 */
#ifndef TDP_COST_PRICE_H
#define TDP_COST_PRICE_H

#include "cost/collective.h"
#include "cost/op_times.h"

typedef struct {
  double seconds;   /* from its start to its end */
  double compute_s; /* the computation lane is busy, or the host launches, if that is longer */
  double tensor_s;  /* the communication lane is busy; what exceeds seconds - compute_s is hidden */
  double context_s; /* of seconds - compute_s, the wait for context-parallel communication */
  double expert_s;  /* of seconds - compute_s, the wait for communication between experts' ranks */
  double alone_s;   /* added where no pass of another micro-batch runs beside it (overlap.exchange) */
  double crowded_s; /* added to computation while all devices of the node compute */
  double flops;     /* floating-point operations of the device */
  double idle_s;    /* of compute_s, the device stands still for the host */
  double host_s;    /* the host is busy issuing it */
  double slack_s;   /* of idle_s, what a slower device would compute in: none where the host waits for the device */
} PassPrice;

/* An op as a pass runs it. */
typedef struct {
  Op op;
  double share;        /* of the op: less than 1 of what is made again in part */
  double seconds;      /* of that share on its own, on the slowest of the plan's devices */
  CollectiveCost cost; /* of a collective: on the links, of the whole op */
} PassOp;

/* What PassPrice.compute_s is made of. */
typedef enum {
  COMPUTE_PRODUCTS,
  COMPUTE_ATTENTION,
  COMPUTE_MEMORY,  /* kernels bound by memory */
  COMPUTE_AGAIN,   /* whatever a backward makes again */
  COMPUTE_UNEVEN,  /* of experts: rows of the busiest rank beyond an even share, or that only pad */
  COMPUTE_SLOWED,  /* what kernels take longer than alone */
  COMPUTE_SLOWEST, /* than on a device of mean speed: all wait for the slowest */
  COMPUTE_HOST,    /* the device stands still for the host */
  COMPUTE_COUNT
} ComputePart;

typedef struct {
  double seconds[COMPUTE_COUNT];
  double peak_s[COMPUTE_ATTENTION + 1]; /* of these two, what they would take at the peak of their formats */
  double context_s, expert_s; /* communication inside, hidden or not: of tensor_s */
} PassParts;

/* What the passes of a layer run, in order: PassOp; NULL of passes that are not priced. And what they are made of. */
typedef struct {
  GArray *pass[PASS_COUNT];
  PassParts parts[PASS_COUNT];
} LayerOps;

void pass_parts_add(PassParts *parts, const PassParts *more, double times);

/* What a layer's part of the optimizer's step takes beyond its parameters: cost/orthogonal.h. */
typedef struct {
  double state_bytes;   /* LayerWork's */
  double matrices;      /* parameters in matrices that Muon orthogonalises */
  double count;         /* how many such matrices there are */
  double newton_s;      /* Newton-Schulz iterations of all of them */
  double tensor_s;      /* communication of these over tensor-parallel ranks */
  double newton_most_s; /* the iterations of the slowest matrix, with its communication */
} OptimizerWork;

/* Passes of one layer under a layout; the backward ones include recomputation. */
typedef struct {
  PassPrice pass[PASS_COUNT];
  const LayerOps *ops;     /* that the passes were priced from; NULL in tables that describe nothing */
  double params;           /* trained parameters on this device, but expert_params */
  double expert_params;    /* those of experts that are divided over other ranks */
  double narrow[2];        /* of these, parameters of products in 8 or 4 bits */
  Frozen frozen[2];        /* weights beside them that are not trained: LayerWork's */
  double largest;          /* parameters of the largest tensor */
  double whole;            /* parameters of tensors that ZeRO never divides: LayerWork's */
  OptimizerWork optimizer[2];
  double saved_bytes;      /* kept from the forward to the backward */
  double block_bytes;      /* of saved_bytes, the largest tensor: LayerWork's */
  double deferred_bytes;   /* kept from an input-gradient pass to the weight-gradient pass */
  double recomputed_bytes; /* made again for a backward and alive while it runs */
  double transient_bytes;  /* scratch of any pass */
  double split_bytes;      /* scratch beyond that of a pass of input gradients alone: LayerWork's */
  double table_bytes;      /* alive at the end of the backward, when what was kept for it is gone: LayerWork's */
  double placeholder_bytes; /* kept on a device once for all of its layers, whose shapes are alike: LayerWork's */
  double forward_bytes;    /* scratch of a forward of tdp-run, whose transient_bytes are a backward's; else 0 */
  double apart_s;          /* computation from one collective inside its passes to the next on average, all of it where
                              there is none; 0 where rates do not change in time */
} LayerPrice;

/* What placeholders take on a device that has this layer too: blocks share shapes, so that the one with most has all. */
static inline double placeholders_with(double others, const LayerPrice *layer)
{
  return MAX(others, layer->placeholder_bytes);
}

/* What an op takes whenever it runs. */
typedef struct {
  double seconds;  /* on the slowest of the job's devices */
  double crowding; /* op_crowding() */
  double slowdown; /* of computation beside a collective: overlap_slowdown() of its group, else 1 */
  double issue_s;  /* of the host, unless it launches a graph that the op is recorded in */
  double chunks_s; /* of the product beside which a collective may run in chunks, as many as there are ranks; else 0 */
  double added_s;  /* that chunks take more than the whole, with copies and sums that only they need (cost/chunks.h) */
} OpTime;

/* Of a work's ops; the same price from them, whatever is made again. */
typedef struct {
  OpTime *forward, *backward;
  double apart_s; /* LayerPrice's */
  double slowest; /* of the seconds of what computes, over those of a device of mean speed */
} LayerTimes;

LayerTimes layer_times(const LayerWork *work, const PassLayout *passes, const Cluster *cluster, OpTimes *known);
void layer_times_clear(LayerTimes *times);
/* Fills `ops`, empty before, with what the passes run, which the price refers to; NULL = nobody asks. */
void layer_price_at(LayerPrice *price, LayerOps *ops, const LayerWork *work, const LayerTimes *times,
                    const PassLayout *layout, const Cluster *cluster);
void layer_ops_free(LayerOps *ops);

/* Prices of all layers, on a mixed cluster on the devices of each node type. An entry is a spec of the model, or a
 * layer where recomputation treats the layers of a stage differently, some blocks keep their products in 16 bits or runs
 * of layers have strategies of their own. A change of layout in front of a layer belongs to its passes, as exposed
 * communication; one back to the plan's own layout at the end of a stage to the last layer's. A group of layers that are
 * made again together keeps its input with its first layer, and what is made again lives with its last one, the backward
 * of which runs first. */
typedef struct {
  LayerPrice *layers; /* [node type][entry] */
  int n;              /* entries */
  int n_types;        /* of nodes; 1 where all are alike */
  gboolean by_layer;  /* an entry is a layer */
  GPtrArray *ops;     /* LayerOps that entries refer to, owned; NULL = the table describes nothing */
} PriceTable;

/* Of a layer of the model on devices of a node type. */
static inline LayerPrice *price_of_layer(const PriceTable *table, const Model *model, int node_type, int layer)
{
  return &table->layers[node_type * table->n + (table->by_layer ? layer : model->layers[layer])];
}

PriceTable *price_table_new(const Model *model, const Layout *layout, const Cluster *cluster);

/* The same prices, with the ops that they were made from: for programs whose traces are reported. What a change of
 * division between layers of several strategies takes is in the prices alone. */
PriceTable *price_table_described(const Model *model, const Layout *layout, const Cluster *cluster);
void price_table_free(PriceTable *table);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(PriceTable, price_table_free)

/* The same of prices that `price` gives: of an entry [node type][spec] under those passes, or under the same without
 * recomputation, where they count layers that are made again, or widened, where some blocks are. */
typedef void (*PriceSpecFunc)(gpointer data, const PassLayout *passes, int entry, LayerPrice *price);

PriceTable *price_table_of_specs(const Model *model, const PassLayout *passes, const Cluster *cluster,
                                 PriceSpecFunc price, gpointer data);

/* The optimizer's step of a rank with that many parameters, [1] those of experts that are apart, `narrow` of them of
 * products in 8 or 4 bits, and with as many ranks like it on its node, by the parameters of each kind that they have
 * (mesh_node_sharers); NULL: as all there are. */
typedef struct {
  double seconds;
  double offload_s; /* of these, copies to the host and back */
  double crowded_s; /* added while all devices of the node compute */
  double beside_s;  /* of a delayed update: on the host from the step's start, beside its passes */
} OptimizerPrice;

OptimizerPrice optimizer_price(const StateLayout states[2], const Cluster *cluster, const double params[2],
                               const double narrow[2], const double sharers[2]);
void optimizer_price_add(OptimizerPrice *sum, OptimizerPrice more);

/* Seconds of one op on its own, on a device of mean speed. */
double op_s(const Op *op, const PassLayout *passes, const Cluster *cluster);

/* Seconds of the host for an op that it launches alone. */
double op_issue_s(const Op *op, const Framework *framework, const Device *device);

/* What its matrix arithmetic takes at the peak of its format: op_s() is never below. */
double op_least_s(const Op *op, const PassLayout *passes, const Cluster *cluster);

/* How much longer an op takes while all devices of its node compute; 1 for
 * communication, which is measured among ranks that wait. */
double op_crowding(const Op *op, const Cluster *cluster);

/* How much slower kernels run on a device while it takes part in a collective
 * over this group: communication takes multiprocessors and memory bandwidth in
 * proportion to its rate; the lowest tier's link says how much at its full one. */
double overlap_slowdown(const Cluster *cluster, const GroupShape *group);

#endif
