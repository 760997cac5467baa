/* Why --fix leaves nothing to look at: what does not divide, or the rule that plans with its values break, of degrees
 * that are left as small as they may be. */
#include "ask/explain.h"

#include "search/space.h"

#include <string.h>

/* Degrees and stages of ZeRO that are tried where they are not fixed: those that divide the GPUs, or up to `most`. */
static const struct {
  PlanKeyId id;
  int least, most;
} tried[] = { { KEY_TP, 1, 0 }, { KEY_PP, 1, 0 }, { KEY_CP, 1, 0 }, { KEY_ZERO, 0, 3 } };

typedef struct {
  const Model *model;
  const Cluster *cluster;
  const Fixed *fixed;
  gboolean legal;  /* a plan breaks no rule: something else is in the way */
  gboolean copies; /* one of these has replicas */
  PlanRule rule;   /* the last one that was met; rules are checked in order */
  Plan plan;       /* that broke it first */
  GError *message;
} Nearest;

/* What goes with tensor parallelism alone, unless it is fixed. */
static void settle_tensor(const Nearest *n, Plan *p)
{
  const int *fixed = n->fixed->value;

  p->sequence_parallel &= p->tp > 1 || fixed[KEY_SEQUENCE_PARALLEL] >= 0;
  p->comm_chunks &= p->sequence_parallel || fixed[KEY_COMM_CHUNKS] >= 0;
}

/* Takes what is left of the GPUs for data parallelism; FALSE if that cannot be. */
static gboolean complete(const Nearest *n, Plan *p)
{
  int dp = n->fixed->value[KEY_DP];

  p->dp = (int)(p->gpus / ((gint64)p->tp * p->pp * p->cp));
  if (dp > 0 && dp != p->dp)
    return FALSE;
  settle_tensor(n, p);
  p->ep = MAX(n->fixed->value[KEY_EP], 1);
  p->etp = MAX(n->fixed->value[KEY_ETP], 0);
  p->micro_batch = MAX(n->fixed->value[KEY_MICRO_BATCH], 1);
  p->vpp = n->fixed->value[KEY_VPP];
  if (fixed_schedule(n->fixed))
    p->schedule = fixed_schedule(n->fixed);
  else
    p->schedule = schedule_find(p->vpp > 1 ? "interleaved" : "1f1b");
  p->vpp = p->vpp > 0 ? p->vpp : p->schedule->min_chunks;
  if (n->fixed->value[KEY_PARAM_GATHER] >= 0)
    p->param_gather = n->fixed->value[KEY_PARAM_GATHER] ? GATHER_NARROW : GATHER_WIDE;
  return TRUE;
}

static void check(Nearest *n, Plan plan)
{
  GError *error = NULL;

  if (!complete(n, &plan))
    return;
  PlanRule rule = plan_check(&plan, n->model, n->cluster, &error);
  n->legal |= rule == RULE_NONE;
  n->copies |= rule == RULE_NONE && plan_has_replicas(&plan);
  if (rule > n->rule) {
    n->rule = rule;
    n->plan = plan;
    g_clear_error(&n->message);
    n->message = g_steal_pointer(&error);
  }
  g_clear_error(&error);
}

static int *tried_of(Plan *p, gsize at)
{
  PlanKeyId id = tried[at].id;

  return id == KEY_TP ? &p->tp : id == KEY_PP ? &p->pp : id == KEY_CP ? &p->cp : &p->zero;
}

/* All plans with the values of tried[from] and behind; `left` GPUs are not divided yet. */
static void check_from(Nearest *n, gsize from, Plan *plan, int left)
{
  if (from == G_N_ELEMENTS(tried)) {
    check(n, *plan);
    return;
  }
  int fixed = n->fixed->value[tried[from].id], most = tried[from].most;
  for (int v = tried[from].least; v <= (most ? most : left); v++) {
    if ((fixed >= 0 && v != fixed) || (!most && left % v != 0))
      continue;
    *tried_of(plan, from) = v;
    check_from(n, from + 1, plan, most ? left : left / v);
  }
}

/* "tp 2 x pp 3" of the degrees that are fixed, and their product; NULL = none is. */
static char *fixed_product(const Fixed *fixed, const PlanKeyId *ids, gsize n, gint64 *product)
{
  GString *s = g_string_new(NULL);

  *product = 1;
  for (gsize i = 0; i < n; i++)
    if (fixed->value[ids[i]] > 0) {
      g_string_append_printf(s, "%s%s %d", s->len ? " x " : "", plan_key_of(ids[i])->shorter, fixed->value[ids[i]]);
      *product = MIN(*product * fixed->value[ids[i]], G_MAXINT32);
    }
  return g_string_free(s, s->len == 0);
}

/* What does not divide, whatever is left open; NULL = all does. */
static char *explain_division(const Fixed *fixed, int gpus, int batch)
{
  static const PlanKeyId ranks[] = { KEY_TP, KEY_PP, KEY_CP, KEY_DP }, sequences[] = { KEY_MICRO_BATCH, KEY_DP };
  gint64 product;
  g_autofree char *degrees = fixed_product(fixed, ranks, G_N_ELEMENTS(ranks), &product);
  gboolean all = TRUE;

  for (gsize i = 0; i < G_N_ELEMENTS(ranks); i++)
    all &= fixed->value[ranks[i]] > 0;
  if (all && product != gpus)
    return g_strdup_printf("%s take %" G_GINT64_FORMAT " GPUs, and there are %d", degrees, product, gpus);
  if (gpus % product != 0)
    return g_strdup_printf("%s does not divide %d GPUs", degrees, gpus);
  g_autofree char *parts = fixed_product(fixed, sequences, G_N_ELEMENTS(sequences), &product);
  if (batch % product != 0)
    return g_strdup_printf("%s does not divide the global batch of %d sequences", parts, batch);
  return NULL;
}

char *explain_rule(const char *message)
{
  g_autoptr(GString) s = g_string_new(message + (g_str_has_prefix(message, "plan: ") ? strlen("plan: ") : 0));

  for (int id = KEY_OTHER + 1; id < KEY_COUNT; id++) {
    const PlanKey *key = plan_key_of(id);
    gsize long_name = strlen(key->field.key);
    for (char *at = s->str; key->fix != FIX_NONE && !key->object && (at = strstr(at, key->field.key)) != NULL;) {
      gssize pos = at - s->str;
      gboolean whole = (pos == 0 || !(g_ascii_isalnum(at[-1]) || at[-1] == '_')) &&
                       !(g_ascii_isalnum(at[long_name]) || at[long_name] == '_');
      if (whole) {
        g_string_erase(s, pos, (gssize)long_name);
        g_string_insert(s, pos, key->shorter);
      }
      at = s->str + pos + (whole ? strlen(key->shorter) : long_name);
    }
  }
  return g_strdup(s->str);
}

/* What the nearest has that nobody fixed and a plan need not have: "tp 2 and zero 1"; NULL = nothing. */
static char *chosen(const Nearest *n)
{
  g_autoptr(GPtrArray) words = g_ptr_array_new_with_free_func(g_free);
  Plan plan = n->plan;

  for (gsize i = 0; i < G_N_ELEMENTS(tried); i++)
    if (n->fixed->value[tried[i].id] < 0 && *tried_of(&plan, i) > tried[i].least)
      g_ptr_array_add(words, g_strdup_printf("%s %d", plan_key_of(tried[i].id)->shorter, *tried_of(&plan, i)));
  GString *s = g_string_new(NULL);
  for (guint i = 0; i < words->len; i++)
    g_string_append_printf(s, "%s%s", i == 0 ? "" : i + 1 < words->len ? ", " : " and ",
                           (char *)g_ptr_array_index(words, i));
  return g_string_free(s, s->len == 0);
}

/* Whether it breaks the rule without these, too, with as many more replicas in as much larger a batch. */
static gboolean fixed_alone(const Nearest *n)
{
  g_autoptr(GError) error = NULL;
  Plan p = n->plan;

  for (gsize i = 0; i < G_N_ELEMENTS(tried); i++)
    if (n->fixed->value[tried[i].id] < 0)
      *tried_of(&p, i) = tried[i].least;
  settle_tensor(n, &p);
  p.dp = p.gpus / (p.tp * p.pp * p.cp);
  p.global_batch *= p.dp / n->plan.dp;
  return plan_check(&p, n->model, n->cluster, &error) != RULE_NONE && g_str_equal(error->message, n->message->message);
}

char *explain_lacking(const Model *model, const Fixed *fixed)
{
  const int *value = fixed->value;

  if (model_has_experts(model) || (value[KEY_EP] <= 1 && value[KEY_ETP] <= 1 && value[KEY_EXCHANGE] <= 0))
    return NULL;
  return g_strdup_printf("%s has no experts", model->name);
}

char *explain_empty(const Model *model, const Cluster *cluster, const SearchOptions *options)
{
  const Fixed *fixed = &options->fixed;
  Nearest n = { .model = model, .cluster = cluster, .fixed = fixed };
  Plan plan = space_base(options);

  plan.gpus = cluster->devices;
  char *why = explain_lacking(model, fixed);
  if (!why)
    why = explain_division(fixed, plan.gpus, plan.global_batch);
  if (why)
    return why;
  check_from(&n, 0, &plan, plan.gpus);
  if (n.legal || !n.message) {
    g_clear_error(&n.message);
    if (n.legal && !n.copies && fixed->value[KEY_ZERO] > 0)
      return g_strdup_printf("the %d GPUs leave dp 1, and ZeRO needs data parallelism", plan.gpus);
    return g_strdup("no rule forbids these values together, but the search tries no such plan");
  }
  g_autofree char *rule = explain_rule(n.message->message), *with = fixed_alone(&n) ? NULL : chosen(&n);
  g_clear_error(&n.message);
  return with ? g_strdup_printf("one with %s comes nearest, and breaks a rule: %s", with, rule) : g_steal_pointer(&rule);
}
