/*
 * What DeepSpeed's own helpers say that a model's states need, bytes exactly
 * as they print them: estimate_zero2_model_states_mem_needs and
 * estimate_zero3_model_states_mem_needs of deepspeed/runtime/zero (v0.19.6).
 * They count no activations, buckets or prefetched weights and have no ZeRO-1;
 * `memory` of a simulation has all of these. For comparison only: nothing in
 * the planner reads them. Pure arithmetic, nothing can fail.
 */
#ifndef TDP_TESTS_DEEPSPEED_MEMORY_H
#define TDP_TESTS_DEEPSPEED_MEMORY_H

#include "model/model.h"

#define DEEPSPEED_BUFFER_FACTOR 1.5 /* their default additional_buffer_factor */

typedef struct {
  double params;
  double largest_params; /* of the largest module without modules of its own; ZeRO-3 only */
  int nodes, node_gpus;
  int zero; /* 2 or 3 */
  gboolean offload_optimizer;
  gboolean offload_params; /* ZeRO-3 with offload_optimizer only */
  gboolean zero_init;      /* weights are divided as they are made; ZeRO-3 only */
  double buffer_factor;
} DeepspeedSetup;

typedef struct {
  double gpu_bytes;
  double host_bytes; /* a node */
} DeepspeedMemory;

DeepspeedMemory deepspeed_memory(const DeepspeedSetup *setup);

/* Parameters of the largest module without modules of its own, as Hugging Face
 * builds the model: an embedding, or a product with its bias (queries, keys and
 * values apart). */
double deepspeed_largest_params(const Model *model);

#endif
