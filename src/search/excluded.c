#include "search/excluded.h"

/* The fixed value that makes a plan have a feature: `value`, or whatever is above it. */
static const struct {
  Feature feature;
  gsize offset;
  int value;
  gboolean above;
} asks[] = {
  { FEATURE_TENSOR, G_STRUCT_OFFSET(Fixed, tp), 1, TRUE },
  { FEATURE_PIPELINE, G_STRUCT_OFFSET(Fixed, pp), 1, TRUE },
  { FEATURE_CONTEXT, G_STRUCT_OFFSET(Fixed, cp), 1, TRUE },
  { FEATURE_EXPERT_PARALLEL, G_STRUCT_OFFSET(Fixed, ep), 1, TRUE },
  { FEATURE_SEQUENCE_PARALLEL, G_STRUCT_OFFSET(Fixed, sequence_parallel), 1, FALSE },
  { FEATURE_WHOLE_ROWS, G_STRUCT_OFFSET(Fixed, sequence_parallel), 0, FALSE },
  { FEATURE_SELECTIVE, G_STRUCT_OFFSET(Fixed, recompute), RECOMPUTE_SELECTIVE, FALSE },
  { FEATURE_RECOMPUTE_BLOCK, G_STRUCT_OFFSET(Fixed, recompute_layers), -1, TRUE },
  { FEATURE_ZERO_0, G_STRUCT_OFFSET(Fixed, zero), 0, FALSE },
  { FEATURE_ZERO_1, G_STRUCT_OFFSET(Fixed, zero), 1, FALSE },
  { FEATURE_ZERO_2, G_STRUCT_OFFSET(Fixed, zero), 2, FALSE },
  { FEATURE_ZERO_3, G_STRUCT_OFFSET(Fixed, zero), 3, FALSE },
  { FEATURE_SHARD_GROUP, G_STRUCT_OFFSET(Fixed, shard_group), 0, TRUE },
  { FEATURE_CONTEXT_CUT, G_STRUCT_OFFSET(Fixed, shard_group), 0, TRUE },
  { FEATURE_OPTIMIZER_ALONE, G_STRUCT_OFFSET(Fixed, offload), 1, FALSE },
  { FEATURE_CLIENT_OPTIMIZER, G_STRUCT_OFFSET(Fixed, optimizer), OPTIMIZER_SGD, TRUE },
  { FEATURE_OTHER_OPTIMIZER, G_STRUCT_OFFSET(Fixed, optimizer), OPTIMIZER_ADAMW, TRUE },
  { FEATURE_MUON, G_STRUCT_OFFSET(Fixed, optimizer), OPTIMIZER_MUON, FALSE },
};

static guint64 fixed_features(const Fixed *fixed)
{
  guint64 features = 0;

  for (gsize i = 0; i < G_N_ELEMENTS(asks); i++) {
    int value = G_STRUCT_MEMBER(int, fixed, asks[i].offset);
    if (asks[i].above ? value > asks[i].value : value == asks[i].value)
      features |= G_GUINT64_CONSTANT(1) << asks[i].feature;
  }
  return features;
}

guint64 excluded_asked(const SearchOptions *options)
{
  const GArray *excludes = options->base->framework->excludes;
  guint64 features = fixed_features(&options->fixed), asked = 0;

  for (guint i = 0; excludes && i < excludes->len; i++)
    if (!(g_array_index(excludes, Exclusion, i).features & ~features))
      asked |= G_GUINT64_CONSTANT(1) << i;
  return asked;
}

PlanRule excluded_check_part(const Plan *plan, const Model *model, const Cluster *cluster, PlanPart part,
                             guint64 asked)
{
  const GArray *excludes = plan->framework->excludes;
  PlanRule rule = plan_check_part(plan, model, cluster, part);

  for (guint i = 0; (rule == RULE_NONE || rule == RULE_LAYERS) && excludes && i < excludes->len; i++) {
    const Exclusion *e = &g_array_index(excludes, Exclusion, i);
    if (e->reads == (int)part && !(asked >> i & 1) && plan_has_all(plan, model, e))
      return RULE_FRAMEWORK;
  }
  return rule;
}
