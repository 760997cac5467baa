/*
 * CUDA graphs, and what a partial one covers: the modules of a set (Megatron Core's
 * cuda_graph_modules, cuda_graph_scope before 0.18), each of the blocks that have it.
 *
 * attn: attention with its norm and residual sum, and cross attention. mamba: a layer of Mamba with the same. mlp: a dense
 * feed-forward with the same. moe: one of experts with all that it exchanges. moe_router: of experts the norm, the router, and
 * shared experts that do not run beside the exchange. moe_preprocess: beside it what lays tokens out for the exchange.
 */
#ifndef TDP_PLAN_RECORDED_H
#define TDP_PLAN_RECORDED_H

#include "model/model.h"

/* Kernels that the host launches as recorded graphs: none; those of modules of each layer, whose shapes do
 * not depend on the routing; all of a step (Megatron Core's cuda_graph_impl none, transformer_engine, and
 * full_iteration). */
typedef enum { GRAPH_NONE, GRAPH_PARTIAL, GRAPH_FULL, GRAPH_COUNT } CudaGraph;
extern const char *const cuda_graph_names[];

typedef enum {
  RECORDED_ATTN, RECORDED_MLP, RECORDED_MOE, RECORDED_MOE_ROUTER, RECORDED_MOE_PREPROCESS, RECORDED_MAMBA,
} RecordedModule;
extern const char *const recorded_module_names[];

/* What is recorded where nobody names modules: what has the same shape whatever the routing. */
#define RECORDED_USUAL \
  (1u << RECORDED_ATTN | 1u << RECORDED_MAMBA | 1u << RECORDED_MOE_ROUTER | 1u << RECORDED_MOE_PREPROCESS)

/* Of layers with experts what prepares the exchange, alone. */
#define RECORDED_ROUTERS (1u << RECORDED_MOE_ROUTER | 1u << RECORDED_MOE_PREPROCESS)

/* The module that what mixes tokens in a block is part of. */
RecordedModule recorded_mixer(const LayerSpec *spec);

/* The modules that a layer, and layers of the model, have. */
guint recorded_modules_of_spec(const LayerSpec *spec);
guint recorded_modules_of(const Model *model);

/* As options, cases and rankings have it: "partial:attn+mamba", without a colon where no modules are named; newly allocated.
 * FALSE: it is none of these. */
char *recorded_text(CudaGraph graph, guint modules);
gboolean recorded_parse(const char *text, CudaGraph *graph, guint *modules);

#endif
