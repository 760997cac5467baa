/*
 * What recomputation covers, beyond its granularity (framework.h).
 *
 * full: whole layers. `uniform` cuts a stage's layers into groups of `layers`,
 * keeps the input of each group and makes the whole group again for its
 * backward; `block` makes the first `layers` of each stage again and keeps the
 * others (Megatron Core's recompute_method and recompute_num_layers). Stages
 * may differ: `stages` gives the number for each, in model order with chunks
 * counted, 0 = this stage keeps everything.
 *
 * selective: the modules of a set (Megatron Core's recompute_modules). core_attn,
 * mlp, moe and shared_experts keep what goes in and make everything inside
 * again; layernorm, moe_act and mla_up_proj drop their output alone, which the
 * next product keeps otherwise. An op says which modules make it again and drop
 * what it keeps (op/op.h).
 *
 * To add a module: a name here, and a RecomputeSpan where its ops are built.
 */
#ifndef TDP_PLAN_RECOMPUTE_H
#define TDP_PLAN_RECOMPUTE_H

#include "base/json.h"
#include "model/model.h"
#include "plan/split.h"

typedef enum {
  MODULE_CORE_ATTN, MODULE_LAYERNORM, MODULE_MLA_UP_PROJ, MODULE_MLP, MODULE_MOE, MODULE_MOE_ACT, MODULE_SHARED_EXPERTS,
  MODULE_COUNT,
} RecomputeModule;
extern const char *const recompute_module_names[];

typedef enum { RECOMPUTE_UNIFORM, RECOMPUTE_BLOCK } RecomputeMethod;
extern const char *const recompute_method_names[];

typedef struct {
  RecomputeMethod method;
  int layers;        /* 1 or more; 0 = every layer alone */
  LayerSplit stages; /* of block: layers of each stage instead; without stages `layers` holds */
  guint modules;     /* of selective: bit i is module i; 0 = the attention core */
} RecomputeScope;

/* Whether some layers of the model are kept or grouped, not each made again alone. */
static inline gboolean recompute_counts(const RecomputeScope *scope)
{
  return scope->stages.stages > 0 || scope->layers > 1 || (scope->method == RECOMPUTE_BLOCK && scope->layers > 0);
}

static inline guint recompute_modules(const RecomputeScope *scope)
{
  return scope->modules ? scope->modules : 1u << MODULE_CORE_ATTN;
}

/* The modules that blocks of the model have. */
guint recompute_modules_of(const Model *model);

/* The modules of a list joined by +, as "mlp+layernorm"; 0 if it is none. */
guint recompute_modules_parse(const char *text);

/* Layers of a stage that are made again, of `n`. */
int recompute_of_stage(const RecomputeScope *scope, int stage, int n);

/* Appends ":4" or ":mlp+layernorm" as short forms of a plan have it; nothing for the default. */
void recompute_short(const RecomputeScope *scope, GString *text);

/* Appends " block 4" or " of mlp+layernorm" to a label; nothing for the default. */
void recompute_label(const RecomputeScope *scope, GString *text);

#endif
