/* Strategies by layer: what a plan with them may have besides, and each run by the rules of whole plans. */
#include "plan/check.h"

#include <string.h>

/* What goes by one strategy for all layers; NULL = nothing. */
static const char *whole_plan_only(const Plan *p, const Model *m)
{
  if (p->schedule->vocabulary || schedule_copies(p->schedule) > 1)
    return "a schedule with one copy of the model, and the vocabulary at its ends";
  if (m->mtp > 0 || m->encoder_blocks > 0)
    return "a model of one stack of blocks, without multi-token prediction";
  if (model_shares_weights(m))
    return "a model whose layers do not share weights";
  if (plan_experts_apart(p))
    return "experts that are divided as the rest of their layers";
  if (offload_any(&p->offload))
    return "all states on the devices";
  if (p->sharding.secondary || p->shard_group)
    return "ZeRO over all ranks that hold the same weights";
  if (recompute_counts(&p->scope))
    return "no recompute_num_layers";
  if (wide_any(&p->wide))
    return "products of all layers in one format";
  if (p->balanced)
    return "layer_split as a list";
  return NULL;
}

/* The same devices and sequences in other shares. */
static gboolean check_degrees(const Subject *s, int i, const StrategyRun *run, GError **error)
{
  const Plan *p = s->plan;
  int larger = MAX(run->tp, p->tp), smaller = MIN(run->tp, p->tp);

  if (larger % smaller != 0 || (gint64)p->tp * p->dp % run->tp != 0 || (gint64)p->micro_batch * run->tp % p->tp != 0)
    return broken(error, "layer_strategies[%d].tensor_model_parallel_size: %d: expected a divisor or multiple of %d "
                         "under which the %d devices have whole shares of %d x micro_batch_size %d sequences",
                  i, run->tp, p->tp, p->tp * p->dp, p->dp, p->micro_batch);
  if (p->cp > 1 && run->tp != p->tp)
    return broken(error, "layer_strategies[%d].tensor_model_parallel_size: %d: expected the plan's %d under "
                         "context_parallel_size %d", i, run->tp, p->tp, p->cp);
  return TRUE;
}

static gboolean check_run(const Subject *s, int i, GError **error)
{
  const StrategyRun *run = &s->plan->strategies.runs[i];
  g_autoptr(GError) why = NULL;

  if (!check_degrees(s, i, run, error))
    return FALSE;
  Plan view = plan_of_run(s->plan, run);
  if (plan_check(&view, s->model, s->cluster, error ? &why : NULL) == RULE_NONE)
    return TRUE;
  return broken(error, "layer_strategies[%d]: %s", i, why ? why->message + strlen("plan: ") : "");
}

gboolean check_strategies(const Subject *s, GError **error)
{
  const LayerStrategies *all = &s->plan->strategies;

  if (all->n == 0)
    return TRUE;
  const char *expected = whole_plan_only(s->plan, s->model);
  if (!s->plan->framework->strategies)
    return broken(error, "layer_strategies: expected none, %s runs one strategy for all layers",
                  s->plan->framework->name);
  if (strategies_layers(all) != s->model->blocks)
    return broken(error, "layer_strategies: %d layers: expected the model's %d", strategies_layers(all),
                  s->model->blocks);
  if (expected)
    return broken(error, "layer_strategies: expected %s beside them", expected);
  for (int i = 0; i < all->n; i++)
    if (!check_run(s, i, error))
      return FALSE;
  return TRUE;
}
