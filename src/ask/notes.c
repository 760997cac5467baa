#include "ask/notes.h"

#include "base/units.h"
#include "cost/price.h"
#include "plan/excludes.h"

/* Share of a block's activations below which recomputing them is not worth a word of a plan. */
#define WORTH 0.05

/* Most that a block keeps. */
static double saved_bytes(const Model *model, const Layout *layout, const Cluster *cluster)
{
  g_autoptr(PriceTable) prices = price_table_new(model, layout, cluster);
  double saved = 0;

  for (int i = 1; i <= model->blocks; i++)
    saved = MAX(saved, price_of_layer(prices, model, 0, i)->saved_bytes);
  return saved;
}

char *note_recompute(const Model *model, const Layout *layout, const Cluster *cluster)
{
  const Layout keeps = layout_keeping(layout);

  if (layout->passes.recompute.granularity != RECOMPUTE_SELECTIVE)
    return NULL;
  double all = saved_bytes(model, &keeps, cluster), kept = saved_bytes(model, layout, cluster);
  if (all - kept >= WORTH * all)
    return NULL;
  g_autofree char *freed = format_bytes(all - kept), *whole = format_bytes(all);
  return g_strdup_printf("recompute_granularity: selective: saves %s of the %s that a block keeps%s", freed, whole,
                         layout->passes.attention == ATTENTION_UNFUSED
                             ? ""
                             : ", as fused attention keeps no scores; none is as good");
}

char *note_schedule(const Layout *layout)
{
  const Framework *framework = layout->passes.framework;
  const Schedule *schedule = layout->pipeline.schedule;
  g_autoptr(GPtrArray) names = g_ptr_array_new();

  if (layout->pipeline.shape.ranks == 1 || schedule->placement == PLACE_TABLE || framework_runs(framework, schedule))
    return NULL;
  for (int i = 0; schedules[i]; i++)
    if (framework_runs(framework, schedules[i]))
      g_ptr_array_add(names, (char *)schedules[i]->name);
  g_ptr_array_add(names, NULL);
  g_autofree char *runs = g_strjoinv(", ", (char **)names->pdata);
  return g_strdup_printf("pipeline_schedule: %s: not among what %s runs (%s), simulated all the same",
                         schedule->name, framework->name, runs);
}

char *note_excluded(const Model *model, const Cluster *cluster, const Plan *plan)
{
  guint64 excluded = plan_excluded(plan, model, cluster, plan->framework);

  if (!excluded)
    return NULL;
  const Exclusion *first = &g_array_index(plan->framework->excludes, Exclusion, g_bit_nth_lsf(excluded, -1));
  g_autofree char *features = exclusion_text(plan, model, cluster, first);
  return g_strdup_printf("%s: not among what %s runs: %s", features, plan->framework->name,
                         first->reason);
}

/* Why a key means nothing to the plan, or to any plan of the model; NULL where it does mean something. */
static const char *idle_reason(PlanKeyId id, const Plan *p)
{
  const PlanKey *key = plan_key_of(id);

  if (id == KEY_SHARD_GROUP)
    return p->zero == 0 ? "its zero is 0" : NULL;
  if (id == KEY_SCHEDULE)
    return p->pp == 1 ? "its pp is 1" : NULL;
  if (!key->matters || key->matters(p))
    return NULL;
  return id == KEY_DISPATCH ? "its experts are divided as their layers are"
         : id == KEY_PARAM_GATHER ? "it gathers no weights that could be narrower"
         : p->cp == 1 ? "its cp is 1" : "its cp_comm is not a2a+p2p";
}

/* 0 leaves these keys at their default, or asks for what any plan does to which they mean nothing. */
static gboolean is_held(const Fixed *fixed, PlanKeyId id)
{
  return fixed->value[id] > (plan_key_of(id)->fix == FIX_COUNT || id == KEY_PARAM_GATHER ? 0 : -1);
}

char *note_fixed(const Fixed *fixed, const Model *model, const Plan *plan)
{
  static const PlanKeyId asked[] = { KEY_DISPATCH, KEY_CONTEXT, KEY_CONTEXT_INNER, KEY_SCHEDULE, KEY_SHARD_GROUP,
                                     KEY_PARAM_GATHER };
  GString *note = g_string_new(NULL);

  for (gsize i = 0; i < G_N_ELEMENTS(asked); i++) {
    const char *name = plan_key_of(asked[i])->shorter;
    const char *why = plan ? idle_reason(asked[i], plan) : NULL;
    gboolean lacks = asked[i] == KEY_DISPATCH && !model_has_experts(model);
    if (!is_held(fixed, asked[i]) || (plan ? lacks || !why : !lacks))
      continue;
    g_string_append_printf(note, "%s", note->len ? "; " : "--fix: ");
    if (lacks)
      g_string_append_printf(note, "%s means nothing: %s has no experts", name, model->name);
    else
      g_string_append_printf(note, "%s means nothing to the best plan: %s", name, why);
  }
  return g_string_free(note, note->len == 0);
}
