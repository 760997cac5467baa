/*
 * What a ZeRO stage leaves open, and what lives outside of a device's memory.
 *
 * ShardingOptions are read from a plan's `zero_optimization`, in the names of
 * DeepSpeed's section of that name, FSDP2's (reshard_after_forward), DDP's
 * (gradient_as_bucket_view) and no_sync(); Offload from its `offload`. Sources:
 * ZeRO (Rajbhandari et al. 2020, arXiv 1910.02054), ZeRO-Offload (Ren et al.
 * 2021, arXiv 2101.06840), ZeRO-Infinity (Rajbhandari et al. 2021, arXiv
 * 2104.07857), ZeRO++ (Wang et al. 2023, arXiv 2306.10209). docs/plan.md says
 * what each key does, cost/offload.h what copies take.
 *
 * Each choice that not every engine has is a PlanChoice (keys.h); a framework's
 * file lists those that it runs.
 */
#ifndef TDP_PLAN_SHARDING_H
#define TDP_PLAN_SHARDING_H

#include "base/json.h"
#include "hardware/cluster.h"

#include <math.h>

/* Parameters that DeepSpeed's ZeRO-3 steps at once by default (sub_group_size). */
#define SUB_GROUP_PARAMS 1e9

/* Where something of a rank lives, as DeepSpeed's `device` says it. */
typedef enum { STORE_DEVICE, STORE_CPU, STORE_NVME, STORE_COUNT } Store;
extern const char *const store_names[]; /* "none", "cpu", "nvme" */

typedef struct {
  Store optimizer;   /* fp32 weights and moments; gradients go there, and its step runs on the host */
  Store parameters;  /* the 16-bit weights that a rank keeps under ZeRO-3 */
  Store activations; /* what full recomputation keeps: the inputs of blocks */
  int layers;        /* all that so many blocks keep, the model's first, goes to host memory (Transformer Engine's
                        cpu_offload.py) */
  gboolean delayed;  /* the host's step runs beside the next step's passes (ZeRO-Offload, section 5.2) */
  double sub_group;  /* parameters that the host updates at once, while others are copied; 0 = as software does by
                        default (offload_group) */
} Offload;

typedef struct {
  double bucket;      /* parameters of a gradient bucket; 0 = the framework's */
  double prefetch;    /* parameters gathered ahead of need; -1 = a layer where overlap.parameters, else none */
  double live;        /* parameters gathered at once, at most; 0 = no limit. What runs now is never denied */
  double persistence; /* tensors of fewer parameters stay whole on each rank, those of experts that are apart aside */
  gboolean keeps_gathered; /* weights stay gathered from forward to backward (not reshard_after_forward) */
  gboolean no_sync;        /* gradients are summed over ranks with the last micro-batch only */
  int secondary;           /* ranks that share a second 16-bit copy for backwards (hpZ); 0 = none */
  gboolean quantized_weights;   /* gathered in int8 (qwZ) */
  gboolean quantized_gradients; /* summed by all-to-all in int4 (qgZ) */
  int tiling;         /* tiles of each product, gathered one after the other; 1 = whole */
  gboolean bucket_view; /* DDP's gradients are views of the buckets, not copies */
} ShardingOptions;

static inline ShardingOptions sharding_options_default(void)
{
  return (ShardingOptions) { .prefetch = -1, .tiling = 1 };
}

/* Parameters that the host updates at once: all, but through NVMe, which DeepSpeed's ZeRO-3 alone does, its default. */
static inline double offload_group(const Offload *o)
{
  return o->sub_group > 0 ? o->sub_group : o->optimizer == STORE_NVME ? SUB_GROUP_PARAMS : INFINITY;
}

static inline gboolean offload_any(const Offload *o)
{
  return o->optimizer || o->parameters || o->activations || o->layers > 0;
}

/* Whether what passes keep leaves the device: any of it; what the block of this number does, of the model's from 0. */
static inline gboolean offload_keeps(const Offload *o)
{
  return o->activations || o->layers > 0;
}

static inline gboolean offload_block(const Offload *o, int block)
{
  return o->activations || block < o->layers;
}

/* For labels: "optimizer and parameters on the host", with NVMe named; NULL = nothing. Newly allocated. */
char *offload_label(const Offload *offload);

#endif
