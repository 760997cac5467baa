#include "export/nearest.h"

#include "base/error.h"
#include "plan/excludes.h"
#include "plan/keys.h"

#include <string.h>

/* ---- what changed ---- */

static JsonDoc *doc_of(const Plan *plan)
{
  g_autoptr(GString) text = g_string_new(NULL);
  JsonWriter w;

  json_writer_init(&w, text);
  plan_write(plan, &w, NULL);
  return json_parse(text->str, text->len, "plan", NULL);
}

/* As a line says it: words without quotes. */
static char *value_text(const cJSON *value)
{
  if (cJSON_IsString(value))
    return g_strdup(value->valuestring);
  if (cJSON_IsNumber(value))
    return g_strdup_printf("%.15g", value->valuedouble);
  char *printed = cJSON_PrintUnformatted(value), *text = g_strdup(printed);
  cJSON_free(printed);
  return text;
}

/* Lists of objects are too long for a line: they are named alone, and so is what no file said before. */
static void lose_key(Export *e, const char *path, const cJSON *before, const cJSON *after, const char *reason)
{
  gboolean shown = before && (!cJSON_IsArray(before) || !cJSON_IsObject(before->child));
  g_autofree char *old = shown ? value_text(before) : NULL, *new = after ? value_text(after) : NULL;
  g_autofree char *instead = new ? g_strdup_printf("written as %s", new) : g_strdup("left out");
  g_autofree char *missing = g_strdup_printf("not in %s", e->exporter->target);

  export_lose(e, "%s%s%s: %s, %s", path, shown ? ": " : "", shown ? old : "", reason ? reason : missing, instead);
}

static void lose_object(Export *e, const char *prefix, const cJSON *before, const cJSON *after, const char *reason)
{
  const cJSON *item;

  cJSON_ArrayForEach(item, before) {
    const cJSON *other = after ? json_get(after, item->string) : NULL;
    g_autofree char *path = g_strconcat(prefix, item->string, NULL);
    g_autofree char *inner = g_strconcat(path, ": ", NULL);
    if (cJSON_IsObject(item) && (!other || cJSON_IsObject(other)))
      lose_object(e, inner, item, other, reason);
    else if (!other || !cJSON_Compare(item, other, TRUE))
      lose_key(e, path, item, other, reason);
  }
  cJSON_ArrayForEach(item, after) {
    g_autofree char *path = g_strconcat(prefix, item->string, NULL);
    if (!json_get(before, item->string))
      lose_key(e, path, NULL, item, reason);
  }
}

void nearest_lose(Export *e, const Plan *before, const Plan *after, const char *reason)
{
  g_autoptr(JsonDoc) old = doc_of(before);
  g_autoptr(JsonDoc) new = doc_of(after);

  lose_object(e, "", json_root(old), json_root(new), reason);
}

/* ---- what a rule leaves ---- */

static void without_placement(Plan *p, const Framework *own)
{
  (void)own;
  p->pipeline_inner = FALSE;
}

static void without_groups(Plan *p, const Framework *own)
{
  (void)own;
  p->micro_group = 0;
}

static void without_counts(Plan *p, const Framework *own)
{
  (void)own;
  p->scope = (RecomputeScope) { 0 };
}

/* Another exchange; where there is none, sequences stay whole. */
static void other_exchange(Plan *p, const Framework *own)
{
  if (own->context && !(own->context >> p->context & 1)) {
    p->context = own->context_first;
    return;
  }
  p->dp *= p->cp;
  p->cp = 1;
}

static void lower_stage(Plan *p, const Framework *own)
{
  plan_lower(p, MIN(p->zero, p->pp > 1 ? MIN(own->zero_max, own->zero_max_pipeline) : own->zero_max));
}

static void without_shard_group(Plan *p, const Framework *own)
{
  (void)own;
  p->shard_group = 0;
}

/* Those that it lacks; where it has all of them, those that hang on how passes recompute. */
static void without_choices(Plan *p, const Framework *own)
{
  const Plan before = *p;

  for (int choice = CHOICE_NONE + 1; choice < CHOICE_COUNT; choice++)
    if (plan_takes(p, choice) && !(own->choices >> choice & 1))
      plan_leave(p, choice);
  if (memcmp(&before, p, sizeof before) == 0) {
    plan_leave(p, CHOICE_PARTITION);
    plan_leave(p, CHOICE_OFFLOAD_ACTIVATIONS);
  }
}

static void other_precision(Plan *p, const Framework *own)
{
  gboolean casts = p->products == PRODUCTS_FP8 && own->fp8 != FP8_NONE;

  p->fp8_recipe = FP8_NONE;
  p->products = casts ? PRODUCTS_FP8 : PRODUCTS_PLAIN;
}

static void other_optimizer(Plan *p, const Framework *own)
{
  Optimizer *o = &p->optimizer;

  if (!(own->optimizers >> o->name & 1))
    *o = optimizer_default();
  for (int state = 0; state < STATE_COUNT; state++)
    if (!(own->state_formats >> state & 1))
      o->formats[state] = FORMAT_USUAL;
  o->remainders &= own->state_formats >> STATE_MAIN_PARAMS & 1;
}

static void other_experts(Plan *p, const Framework *own)
{
  p->overlap.experts &= own->shared_overlap;
  if (own->capacity == CAPACITY_NONE) {
    p->expert_capacity = 0;
    p->expert_drop = DROP_PROBS;
    p->expert_padded = FALSE;
  }
  if (own->experts == EXPERTS_WHOLE)
    p->ep = 1;
  if (own->experts != EXPERTS_FOLDED)
    p->etp = 0;
  if (!(own->dispatch >> p->dispatch & 1))
    p->dispatch = own->dispatch_first;
}

static void without_strategies(Plan *p, const Framework *own)
{
  (void)own;
  p->strategies.n = 0;
}

static void without_split(Plan *p, const Framework *own)
{
  (void)own;
  p->split.stages = 0;
}

/* What changes where the rule of a framework's is broken; none: a rule of degrees or of models. */
static void (*const mends[RULE_COUNT])(Plan *plan, const Framework *own) = {
  [RULE_PLACEMENT] = without_placement, [RULE_SCHEDULE] = without_groups, [RULE_RECOMPUTE] = without_counts,
  [RULE_CONTEXT] = other_exchange, [RULE_ZERO] = lower_stage, [RULE_SHARD_GROUP] = without_shard_group,
  [RULE_SHARDING] = without_choices, [RULE_OFFLOAD] = without_choices, [RULE_PRECISION] = other_precision,
  [RULE_OPTIMIZER] = other_optimizer, [RULE_EXPERTS] = other_experts, [RULE_STRATEGIES] = without_strategies,
  [RULE_LAYERS] = without_split,
};

/* ---- one step ---- */

/* Schedules are alike on one stage. */
static gboolean runs_schedule(const Plan *p, const Framework *own)
{
  return p->pp == 1 || framework_runs(own, p->schedule);
}

/* Another order of the same chunks, or none. */
static gboolean like_chunks(Plan *p, const Framework *own)
{
  static const char *const orders[] = { "interleaved", "interleaved-rounds" };
  ScheduleShape shape = plan_shape(p);

  for (gsize i = 0; i < G_N_ELEMENTS(orders) && p->vpp > 1; i++) {
    const Schedule *other = schedule_find(orders[i]);
    if (!framework_runs(own, other) || !schedule_check(other, &shape, NULL) ||
        p->schedule->placement != other->placement)
      continue;
    p->schedule = other;
    return TRUE;
  }
  return FALSE;
}

static void other_schedule(Plan *p, const Framework *own)
{
  if (like_chunks(p, own))
    return;
  p->schedule = schedule_find("1f1b");
  p->vpp = 1;
  p->micro_group = 0;
  if (p->split.stages != p->pp)
    p->split.stages = 0;
  if (p->scope.stages.stages != p->pp)
    p->scope.stages.stages = 0;
}

static gboolean refuse(const Export *e, const char *why, GError **error)
{
  g_set_error(error, TDP_ERROR, TDP_ERROR_INFEASIBLE, "%s: %s", e->exporter->name, why);
  return FALSE;
}

/* A rule that nothing mends: of a model's family, or of degrees. */
static gboolean refuse_rule(const Export *e, PlanRule rule, const char *why, GError **error)
{
  g_autofree char *family = g_strdup_printf("model %s: %s", e->model->name, why);

  return refuse(e, rule == RULE_FAMILY && !g_str_has_prefix(why, "model ") ? family : why, error);
}

/* Mends the first rule of `own` that the plan breaks; `reason`: what the rule expects, newly allocated. */
static gboolean mend_rule(Export *e, const Framework *own, Plan *plan, char **reason, gboolean *done, GError **error)
{
  Plan under = *plan;
  g_autoptr(GError) why = NULL;

  under.framework = own;
  PlanRule rule = plan_check(&under, e->model, e->cluster, &why);
  *done = rule == RULE_NONE;
  if (*done)
    return TRUE;
  if (!mends[rule])
    return refuse_rule(e, rule, why->message + strlen("plan: "), error);
  *reason = g_strdup(strstr(why->message, "expected"));
  mends[rule](plan, own);
  return TRUE;
}

/* Changes what stands first in the way, or nothing: `done`. */
static gboolean mend(Export *e, const Framework *own, Plan *plan, char **reason, gboolean *done, GError **error)
{
  guint64 excluded = plan_excluded(plan, e->model, own);

  if (!runs_schedule(plan, own)) {
    other_schedule(plan, own);
    return TRUE;
  }
  if (!excluded)
    return mend_rule(e, own, plan, reason, done, error);
  const Exclusion *first = &g_array_index(own->excludes, Exclusion, g_bit_nth_lsf(excluded, -1));
  *reason = g_strdup(first->reason);
  return plan_drop(plan, first->changed) || refuse(e, first->reason, error);
}

gboolean nearest_plan(Export *e, const Framework *own, Plan *plan, GError **error)
{
  gboolean done = FALSE;

  if (plan->products == PRODUCTS_FP8)
    plan->fp8_recipe = plan_recipe(plan);
  for (int step = 0; !done; step++) {
    Plan before = *plan;
    g_autofree char *reason = NULL;
    if (!mend(e, own, plan, &reason, &done, error))
      return FALSE;
    if (!done && (step == RULE_COUNT + EXCLUSIONS_MAX || memcmp(&before, plan, sizeof before) == 0))
      return refuse(e, reason ? reason : "no nearer plan that it runs", error);
    nearest_lose(e, &before, plan, reason);
  }
  return TRUE;
}
