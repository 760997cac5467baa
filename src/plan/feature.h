/*
 * What a framework cannot do together, beyond the keys of framework.h.
 *
 * A framework's file has an object `excludes`: each key names features of a plan joined by " with ", and its text says
 * why the software has no plan with all of them: "zero_1", "context with tensor". Such plans are legal and can be
 * simulated; the planner proposes them only where each of the features was fixed, and an exporter that writes for the
 * framework changes the first feature named, and says so. A file that starts from another one replaces its `excludes`;
 * with `excludes_changes`, of the same form, it adds to them, gives one another text, or with null takes one away.
 *
 * To add a feature: a name here, and a row in the table of feature.c.
 */
#ifndef TDP_PLAN_FEATURE_H
#define TDP_PLAN_FEATURE_H

#include "base/json.h"

typedef enum {
  FEATURE_TENSOR, FEATURE_PIPELINE, FEATURE_CONTEXT, FEATURE_EXPERTS, FEATURE_EXPERT_PARALLEL, FEATURE_FP16,
  FEATURE_UNSHARED_16_BIT, FEATURE_OTHER_ATTENTION, FEATURE_SEQUENCE_PARALLEL, FEATURE_WHOLE_ROWS,
  FEATURE_SELECTIVE, FEATURE_RECOMPUTE_BLOCK, FEATURE_RECOMPUTE_GROUPS, FEATURE_ZERO_0, FEATURE_ZERO_1,
  FEATURE_ZERO_2, FEATURE_ZERO_3, FEATURE_SHARD_GROUP, FEATURE_CONTEXT_CUT, FEATURE_CLIENT_OPTIMIZER,
  FEATURE_OTHER_OPTIMIZER, FEATURE_MUON, FEATURE_STATE_FORMATS, FEATURE_NARROW_REDUCTION, FEATURE_TENSOR_REDUCTION,
  FEATURE_NO_SYNC, FEATURE_SECONDARY, FEATURE_TILING, FEATURE_OPTIMIZER_ALONE, FEATURE_NVME_ACTIVATIONS,
  FEATURE_ONE_STAGE, FEATURE_EXPERT_CAPACITY, FEATURE_MUON_SETTINGS, FEATURE_MOMENTUM, FEATURE_SUB_GROUPS,
  FEATURE_SPLIT_RANK, FEATURE_DIVIDED_EXPERT_BIASES, FEATURE_DELAYED_SCALING, FEATURE_OUTPUTS_AGAIN,
  FEATURE_SHARED_OVERLAP, FEATURE_SHARED_AGAIN, FEATURE_KEPT_NORMS,
  FEATURE_KEPT_ACTIVATIONS, FEATURE_KEPT_SCORES, FEATURE_NARROW_PRODUCTS, FEATURE_ACCUMULATION, FEATURE_FUSED_FP32,
  FEATURE_OTHER_FUSED, FEATURE_UNEVEN_SHARDS, FEATURE_UNEVEN_ROUNDS, FEATURE_CUT_NODES,
  FEATURE_EXCHANGE_OVERLAP, FEATURE_RECORDED_LAYERS, FEATURE_OFFLOADED_LAYERS, FEATURE_ZERO_2_OR_3,
  FEATURE_SGD, FEATURE_HOSTED_OPTIMIZER, FEATURE_WIDE_BLOCKS, FEATURE_WIDE_BEYOND_STAGE,
  FEATURE_NARROW_MAIN, FEATURE_PARTED_STATES, FEATURE_COUNT,
} Feature;

/* Features that do not go together. */
typedef struct {
  guint64 features; /* bit i is Feature i */
  Feature changed;  /* the first named, which an exporter changes */
  int reads;        /* PlanPart: the last one */
  guint64 beside_states; /* of `features` those that change passes, where others are of states */
  char *reason;
} Exclusion;

#define EXCLUSIONS_MAX 64

/* Replaces a list, an array of Exclusion that it owns or NULL, by the object `excludes` of a framework's file, and
 * changes it by `excludes_changes`; without either it stays. TDP_ERROR_INPUT; what is in the list then is the
 * caller's to free. */
gboolean exclusions_read(const JsonDoc *doc, const cJSON *framework, GArray **list, GError **error);

#endif
