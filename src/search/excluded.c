#include "search/excluded.h"

/* The fixed value of its key that makes a plan have a feature: `value`, or whatever is above it. */
static const struct {
  Feature feature;
  int value;
  gboolean above;
} asks[] = {
  { FEATURE_TENSOR, 1, TRUE },
  { FEATURE_PIPELINE, 1, TRUE },
  { FEATURE_CONTEXT, 1, TRUE },
  { FEATURE_EXPERT_PARALLEL, 1, TRUE },
  { FEATURE_DIVIDED_EXPERT_BIASES, 1, TRUE },
  { FEATURE_SEQUENCE_PARALLEL, 1, FALSE },
  { FEATURE_WHOLE_ROWS, 0, FALSE },
  { FEATURE_SELECTIVE, RECOMPUTE_SELECTIVE, FALSE },
  { FEATURE_RECOMPUTE_BLOCK, -1, TRUE },
  { FEATURE_ZERO_0, 0, FALSE },
  { FEATURE_ZERO_1, 1, FALSE },
  { FEATURE_ZERO_2, 2, FALSE },
  { FEATURE_ZERO_3, 3, FALSE },
  { FEATURE_ZERO_2_OR_3, 1, TRUE },
  { FEATURE_EXCHANGE_OVERLAP, 1, FALSE },
  { FEATURE_RECORDED_LAYERS, GRAPH_PARTIAL, FALSE },
  { FEATURE_OFFLOADED_LAYERS, 0, TRUE },
  { FEATURE_SHARD_GROUP, 0, TRUE },
  { FEATURE_CONTEXT_CUT, 0, TRUE },
  { FEATURE_OPTIMIZER_ALONE, 1, FALSE },
  { FEATURE_HOSTED_OPTIMIZER, 0, TRUE },
  { FEATURE_CLIENT_OPTIMIZER, OPTIMIZER_SGD, TRUE },
  { FEATURE_OTHER_OPTIMIZER, OPTIMIZER_ADAMW, TRUE },
  { FEATURE_MUON, OPTIMIZER_MUON, FALSE },
  { FEATURE_SGD, OPTIMIZER_SGD, FALSE },
};

static guint64 fixed_features(const Fixed *fixed)
{
  guint64 features = 0;

  for (gsize i = 0; i < G_N_ELEMENTS(asks); i++) {
    int value = fixed->value[feature_key(asks[i].feature)];
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
    if (e->reads == (int)part && !(asked >> i & 1) && plan_has_all(plan, model, cluster, e))
      return RULE_FRAMEWORK;
  }
  return rule;
}

gboolean excluded_reads_passes(const Plan *plan, const Model *model, const Cluster *cluster)
{
  const GArray *excludes = plan->framework->excludes;
  gboolean reads = FALSE;

  for (guint i = 0; excludes && i < excludes->len; i++) {
    const Exclusion passes = { .features = g_array_index(excludes, Exclusion, i).beside_states };
    reads |= passes.features && plan_has_all(plan, model, cluster, &passes);
  }
  return reads;
}

/* Whether it is one of how many ranks divide, and of where these lie. */
static gboolean is_of_groups(const Exclusion *e)
{
  return e->changed == FEATURE_UNEVEN_SHARDS || e->changed == FEATURE_CONTEXT_CUT || e->changed == FEATURE_CUT_NODES;
}

static gboolean divides(const Plan *plan, const Model *model, const Cluster *cluster)
{
  const GArray *excludes = plan->framework->excludes;
  gboolean runs = TRUE;

  for (guint i = 0; excludes && i < excludes->len; i++) {
    const Exclusion *e = &g_array_index(excludes, Exclusion, i);
    runs &= !is_of_groups(e) || !plan_has_all(plan, model, cluster, e);
  }
  return runs;
}

int excluded_shards(const Plan *plan, const Model *model, const Cluster *cluster)
{
  const int ranks = plan_replicas(plan);
  Plan with = *plan;

  with.shard_group = 0;
  for (int copies = 2; !divides(&with, model, cluster) && copies < ranks; copies++)
    if (plan->framework->shard_groups && ranks % copies == 0)
      with.shard_group = ranks / copies;
  return divides(&with, model, cluster) ? with.shard_group : 0;
}
