#include "plan/nearest.h"

#include "base/error.h"
#include "plan/check.h"
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

/* How two plans are compared. */
typedef struct {
  const ToldKey *told; /* NULL: by what they say */
  const char *reason;
  const PlanListener *to;
} Comparison;

/* What a reader is told of the key, in its own words; NULL: nothing of its own is said of it. */
static const ToldKey *find_told(const ToldKey *told, const char *key)
{
  while (told && told->key && !g_str_equal(told->key, key))
    told++;
  return told && told->key ? told : NULL;
}

/* Lists of objects are too long for a line. */
static void tell(const Comparison *c, const char *key, const cJSON *before, const char *after)
{
  gboolean shown = before && (!cJSON_IsArray(before) || !cJSON_IsObject(before->child));
  g_autofree char *old = before ? value_text(before) : NULL;

  if (g_strcmp0(old, after) != 0)
    c->to->changed(c->to->data, key, shown ? old : NULL, after, c->reason);
}

static void compare_objects(const Comparison *c, const char *prefix, const cJSON *before, const cJSON *after)
{
  const cJSON *item;

  cJSON_ArrayForEach(item, before) {
    const cJSON *other = cJSON_IsObject(after) ? json_get(after, item->string) : NULL;
    g_autofree char *path = g_strconcat(prefix, item->string, NULL), *inner = g_strconcat(path, ": ", NULL);
    g_autofree char *value = other ? value_text(other) : NULL;
    const ToldKey *told = find_told(c->told, path);
    if (told && told->instead)
      tell(c, path, item, *told->instead ? told->instead : NULL);
    else if (!told && cJSON_IsObject(item) && (c->told || !other || cJSON_IsObject(other)))
      compare_objects(c, inner, item, other);
    else if (!told)
      tell(c, path, item, value);
  }
  cJSON_ArrayForEach(item, after) {
    g_autofree char *path = g_strconcat(prefix, item->string, NULL), *inner = g_strconcat(path, ": ", NULL);
    g_autofree char *value = value_text(item);
    if (!json_get(before, item->string) && cJSON_IsObject(item) && !c->told)
      compare_objects(c, inner, NULL, item);
    else if (!json_get(before, item->string))
      tell(c, path, NULL, value);
  }
}

static void compare_plans(const Comparison *c, const Plan *before, const Plan *after)
{
  g_autoptr(JsonDoc) old = doc_of(before);
  g_autoptr(JsonDoc) new = doc_of(after);

  compare_objects(c, "", json_root(old), json_root(new));
}

void plan_compare(const Plan *before, const Plan *after, const char *reason, const PlanListener *to)
{
  compare_plans(&(Comparison) { NULL, reason, to }, before, after);
}

static void differs(gpointer data, const char *key, const char *before, const char *after, const char *reason)
{
  gboolean *any = data;

  (void)key;
  (void)before;
  (void)after;
  (void)reason;
  *any = TRUE;
}

gboolean plan_same(const Plan *a, const Plan *b)
{
  gboolean any = FALSE;
  const PlanListener listener = { differs, &any };

  plan_compare(a, b, NULL, &listener);
  return !any;
}

void plan_compare_told(const Plan *plan, const Model *model, const ToldKey *told, const PlanListener *to)
{
  Plan usual = plan_default(model, plan->framework);

  plan_set_schedule(&usual, plan->schedule, plan->vpp);
  compare_plans(&(Comparison) { told, NULL, to }, plan, &usual);
}

/* ---- what changed on the way ---- */

/* A key by all steps: what it was first and is at last, and why each changed it. */
typedef struct {
  char *key, *before, *after;
  GString *reasons;
} Change;

static void clear_change(gpointer data)
{
  Change *change = data;

  g_free(change->key);
  g_free(change->before);
  g_free(change->after);
  g_string_free(change->reasons, TRUE);
}

static Change *change_of(GArray *changes, const char *key, const char *before)
{
  for (guint i = 0; i < changes->len; i++)
    if (g_str_equal(g_array_index(changes, Change, i).key, key))
      return &g_array_index(changes, Change, i);
  const Change fresh = { g_strdup(key), g_strdup(before), NULL, g_string_new(NULL) };
  g_array_append_val(changes, fresh);
  return &g_array_index(changes, Change, changes->len - 1);
}

static void note_change(gpointer data, const char *key, const char *before, const char *after, const char *reason)
{
  Change *change = change_of(data, key, before);

  g_free(change->after);
  change->after = g_strdup(after);
  if (reason && !strstr(change->reasons->str, reason))
    g_string_append_printf(change->reasons, "%s%s", change->reasons->len > 0 ? "; " : "", reason);
}

/* Each key once, in the order in which they changed first. */
static void tell_changes(const GArray *changes, const PlanListener *to)
{
  for (guint i = 0; i < changes->len; i++) {
    const Change *c = &g_array_index(changes, Change, i);
    to->changed(to->data, c->key, c->before, c->after, c->reasons->len > 0 ? c->reasons->str : NULL);
  }
}

/* ---- what a rule leaves ---- */

static void whole_sequences(Plan *p)
{
  p->dp *= p->cp;
  p->cp = 1;
}

Plan *plan_without(const Plan *plan, PlanWithout what)
{
  Plan *p = g_memdup2(plan, sizeof *plan);

  switch (what) {
  case WITHOUT_CONTEXT:
    whole_sequences(p);
    if (p->global_batch % (p->dp * p->micro_batch) != 0)
      p->global_batch = p->dp * p->micro_batch * MAX(1, plan_micro_batches(p));
    break;
  case WITHOUT_ADAPTER:
    p->adapter = (Adapter) { 0 };
    break;
  case WITHOUT_GRAPH:
    plan_set_graph(p, GRAPH_NONE);
    break;
  case WITHOUT_NARROW_GATHERS:
    p->param_gather = GATHER_WIDE;
    break;
  case WITHOUT_EARLY_GRADIENTS:
    p->overlap.gradients = FALSE;
    break;
  case WITHOUT_EARLY_PARAMETERS:
    p->overlap.parameters = FALSE;
    break;
  case WITHOUT_WHOLE_WEIGHTS:
    p->zero = 3;
    p->sharding.keeps_gathered = TRUE;
    break;
  }
  return p;
}

/* Another exchange; where there is none, sequences stay whole. */
static void other_exchange(Plan *p, const Framework *own)
{
  if (own->context && !(own->context >> p->context & 1)) {
    p->context = own->context_first;
    return;
  }
  whole_sequences(p);
}

/* Those that it lacks; where it has all of them, those that hang on how passes recompute. */
static void without_choices(Plan *p, const Framework *own)
{
  const Plan before = *p;

  for (int choice = CHOICE_NONE + 1; choice < CHOICE_COUNT; choice++)
    if (plan_takes(p, choice) && !framework_offers(own, choice))
      plan_leave(p, choice);
  if (memcmp(&before, p, sizeof before) == 0) {
    for (const PlanKey *const *key = plan_pass_switches(); *key; key++)
      plan_leave(p, (*key)->choice);
    plan_leave(p, CHOICE_OFFLOAD_ACTIVATIONS);
  }
}

/* Those that it lacks; where all products are in 16 bits, all. */
static void leave_wide(Plan *p, const Framework *own)
{
  for (int choice = CHOICE_WIDE_START; choice <= CHOICE_WIDE_END; choice++)
    if (plan_takes(p, choice) && !(plan_narrow(p) && framework_offers(own, choice)))
      plan_leave(p, choice);
}

static void other_precision(Plan *p, const Framework *own)
{
  gboolean casts = p->products == PRODUCTS_FP8 && own->fp8 != FP8_NONE;

  if (p->param_gather != GATHER_USUAL && plan_narrow(p)) {
    p->param_gather = GATHER_USUAL;
    return;
  }
  p->param_gather = GATHER_USUAL;
  p->fp8_recipe = casts ? own->fp8 : FP8_NONE;
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
  p->overlap.exchange &= own->exchange_overlap;
  if (own->capacity == CAPACITY_NONE)
    plan_drop_capacity(p);
  if (own->experts == EXPERTS_WHOLE)
    p->ep = 1;
  if (own->experts != EXPERTS_FOLDED)
    p->etp = 0;
  if (!(own->dispatch >> p->dispatch & 1))
    p->dispatch = own->dispatch_first;
}

/* Changes what the rule of a framework's turns down; FALSE: it is one of degrees or of models. */
static gboolean mend_broken(Plan *p, const Framework *own, PlanRule rule)
{
  switch (rule) {
  case RULE_PLACEMENT:
    p->pipeline_inner = FALSE;
    break;
  case RULE_SCHEDULE:
    p->micro_group = 0;
    break;
  case RULE_RECOMPUTE:
    p->scope = (RecomputeScope) { 0 };
    break;
  case RULE_CONTEXT:
    other_exchange(p, own);
    break;
  case RULE_ZERO:
    plan_lower(p, MIN(p->zero, framework_zero_max(own, p->pp)));
    break;
  case RULE_SHARD_GROUP:
    p->shard_group = 0;
    break;
  case RULE_SHARDING:
  case RULE_OFFLOAD:
    without_choices(p, own);
    break;
  case RULE_PRECISION:
    other_precision(p, own);
    break;
  case RULE_OPTIMIZER:
    other_optimizer(p, own);
    break;
  case RULE_EXPERTS:
  case RULE_EXCHANGE:
    other_experts(p, own);
    break;
  case RULE_GRAPH:
    plan_set_graph(p, p->graph_modules ? p->graph : GRAPH_NONE);
    break;
  case RULE_STRATEGIES:
    p->strategies.n = 0;
    break;
  case RULE_LAYERS:
    p->split.stages = 0;
    break;
  default:
    return FALSE;
  }
  return TRUE;
}

/* ---- one step ---- */

/* Schedules are alike on one stage. */
static gboolean runs_schedule(const Plan *p, const Framework *own)
{
  return p->pp == 1 || framework_runs(own, p->schedule);
}

/* Another order of the same chunks, or none. */
static gboolean like_chunks(Plan *p, const Framework *own)
{
  static const char *const orders[] = { "interleaved", "interleaved-rounds", "looped-bfs" };
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
  if (!framework_runs(own, p->schedule))
    p->schedule = schedule_find("gpipe");
  p->vpp = 1;
  p->micro_group = 0;
  if (p->split.stages != p->pp)
    p->split.stages = 0;
  if (p->scope.stages.stages != p->pp)
    p->scope.stages.stages = 0;
}

/* A plan on its way to a framework. */
typedef struct {
  Plan *plan;
  const Model *model;
  const Cluster *cluster;
  const Framework *own;
} Way;

/* A rule that nothing mends: of a model's family, or of degrees. */
static gboolean refuse_rule(const Way *w, PlanRule rule, const char *why, GError **error)
{
  g_autofree char *family = g_strdup_printf("model %s: %s", w->model->name, why);

  return infeasible_error(error, "%s", rule == RULE_FAMILY && !g_str_has_prefix(why, "model ") ? family : why);
}

/* What `own` excludes, and nothing mends. */
static gboolean refuse_excluded(const Way *w, const Exclusion *e, GError **error)
{
  g_autofree char *features = exclusion_text(w->plan, w->model, w->cluster, e);

  return infeasible_error(error, "%s: expected %s: %s", features, exclusion_expected(e), e->reason);
}

/* Mends the first rule of `own` that the plan breaks; `reason`: what the rule expects, newly allocated. */
static gboolean mend_rule(const Way *w, char **reason, gboolean *done, GError **error)
{
  Plan under = *w->plan;
  g_autoptr(GError) why = NULL;

  under.framework = w->own;
  PlanRule rule = plan_check(&under, w->model, w->cluster, &why);
  *done = rule == RULE_NONE;
  if (*done)
    return TRUE;
  if (rule == RULE_PRECISION && check_formats(&(Subject) { &under, w->model, w->cluster }, NULL))
    leave_wide(w->plan, w->own);
  else if (!mend_broken(w->plan, w->own, rule))
    return refuse_rule(w, rule, why->message + strlen("plan: "), error);
  *reason = g_strdup(strstr(why->message, "expected"));
  return TRUE;
}

static gboolean names_stage(const Exclusion *e)
{
  gboolean names = FALSE;

  for (guint64 left = e->features; left; left &= left - 1)
    names |= feature_key(__builtin_ctzll(left)) == KEY_ZERO;
  return names;
}

static gboolean runs_stage(const Way *w, const Plan *p)
{
  gboolean runs = p->zero <= framework_zero_max(w->own, p->pp);

  for (guint i = 0; i < w->own->excludes->len; i++) {
    const Exclusion *e = &g_array_index(w->own->excludes, Exclusion, i);
    runs &= !names_stage(e) || !plan_has_all(p, w->model, w->cluster, e);
  }
  return runs;
}

/* A stage that the framework runs: one that divides more, the nearest first, else the nearest that divides less. */
static gboolean other_stage(const Way *w)
{
  static const int nearest[][3] = { { 1, 2, 3 }, { 2, 3, 0 }, { 3, 1, 0 }, { 2, 1, 0 } };
  Plan *p = w->plan;

  for (int i = 0; i < 3; i++) {
    Plan other = *p;
    if (nearest[p->zero][i] < p->zero)
      plan_lower(&other, nearest[p->zero][i]);
    else
      plan_raise(&other, nearest[p->zero][i], w->own);
    if (runs_stage(w, &other)) {
      *p = other;
      return TRUE;
    }
  }
  return FALSE;
}

static gboolean leave(const Way *w, Feature feature)
{
  return feature_key(feature) == KEY_ZERO ? other_stage(w) : plan_drop(w->plan, feature);
}

/* Changes what stands first in the way, or nothing: `done`. */
static gboolean mend(const Way *w, char **reason, gboolean *done, GError **error)
{
  guint64 excluded = plan_excluded(w->plan, w->model, w->cluster, w->own);

  if (!runs_schedule(w->plan, w->own)) {
    other_schedule(w->plan, w->own);
    return TRUE;
  }
  if (!excluded)
    return mend_rule(w, reason, done, error);
  const Exclusion *first = &g_array_index(w->own->excludes, Exclusion, g_bit_nth_lsf(excluded, -1));
  *reason = g_strdup(first->reason);
  return leave(w, first->changed) || refuse_excluded(w, first, error);
}

/* A framework as newer software of its engine runs it, where the plan is of such: what that can, it can. */
static Framework as_new_as(const Framework *own, const Framework *of)
{
  Framework with = *own;

  if (g_strcmp0(own->engine, of->engine) == 0) {
    if (of->dispatch >> DISPATCH_FLEX & 1)
      with.flex_node = own->dispatch >> DISPATCH_FLEX & 1 ? MIN(own->flex_node, of->flex_node) : of->flex_node;
    with.exchange_overlap |= of->exchange_overlap;
    with.exchange_recompute |= of->exchange_recompute;
    with.dispatch |= of->dispatch;
    with.graphs |= of->graphs;
    with.paged_stash |= of->paged_stash;
    with.stash_recipes |= of->stash_recipes;
    with.stash_elsewhere |= of->stash_elsewhere;
    with.kv_heads_divided |= of->kv_heads_divided;
    with.param_gathers |= of->param_gathers;
  }
  return with;
}

/* What a step changed. Chunks and stages go with a schedule that does: a framework may have them with another one. */
static void tell_step(const Plan *before, const Plan *after, const char *reason, const PlanListener *to)
{
  Plan ordered = *before;

  if (before->schedule == after->schedule) {
    plan_compare(before, after, reason, to);
    return;
  }
  ordered.schedule = after->schedule;
  plan_compare(before, &ordered, reason, to);
  g_autofree char *with = g_strdup_printf("goes with %s", before->schedule->name);
  plan_compare(&ordered, after, with, to);
}

Plan *plan_nearest(const Plan *plan, const Model *model, const Cluster *cluster, const Framework *own,
                   const PlanListener *listener, GError **error)
{
  g_autofree Plan *nearest = g_memdup2(plan, sizeof *plan);
  const Framework with = as_new_as(own, plan->framework);
  const Way way = { nearest, model, cluster, &with };
  g_autoptr(GArray) changes = g_array_new(FALSE, FALSE, sizeof(Change));
  const PlanListener steps = { note_change, changes };
  gboolean done = FALSE;

  g_array_set_clear_func(changes, clear_change);
  if (plan->products == PRODUCTS_FP8)
    nearest->fp8_recipe = plan_recipe(plan);
  for (int step = 0; !done; step++) {
    Plan before = *nearest;
    g_autofree char *reason = NULL;
    if (!mend(&way, &reason, &done, error))
      return NULL;
    if (!done && (step == RULE_COUNT + EXCLUSIONS_MAX || memcmp(&before, nearest, sizeof before) == 0)) {
      infeasible_error(error, "%s", reason ? reason : "no nearer plan that it runs");
      return NULL;
    }
    tell_step(&before, nearest, reason, &steps);
  }
  tell_changes(changes, listener);
  return g_steal_pointer(&nearest);
}
