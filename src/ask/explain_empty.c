/* Why --fix leaves nothing to look at: the rule that plans with its values break, of degrees that are left as small as
 * they may be. */
#include "ask/explain.h"

#include "search/space.h"

#include <string.h>

/* Degrees and stages of ZeRO that are tried where they are not fixed. */
static const struct {
  PlanKeyId id;
  int values[4]; /* 0-terminated, but for the last */
} tried[] = { { KEY_TP, { 1, 2 } }, { KEY_PP, { 1, 2 } }, { KEY_CP, { 1, 2 } }, { KEY_ZERO, { 0, 1, 2, 3 } } };

typedef struct {
  const Model *model;
  const Cluster *cluster;
  const Fixed *fixed;
  gboolean legal;  /* a plan breaks no rule: something else is in the way */
  PlanRule rule;   /* the last one that was met; rules are checked in order */
  GError *message;
} Nearest;

/* Takes what is left of the GPUs for data parallelism; FALSE if that cannot be. */
static gboolean complete(const Nearest *n, Plan *p)
{
  gint64 others = (gint64)p->tp * p->pp * p->cp;
  int dp = n->fixed->value[KEY_DP];

  if (p->gpus % others != 0 || (dp > 0 && dp != p->gpus / others))
    return FALSE;
  p->dp = (int)(p->gpus / others);
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
  if (rule > n->rule) {
    n->rule = rule;
    g_clear_error(&n->message);
    n->message = g_steal_pointer(&error);
  }
  g_clear_error(&error);
}

/* All plans with the values of tried[from] and behind. */
static void check_from(Nearest *n, gsize from, Plan *plan)
{
  if (from == G_N_ELEMENTS(tried)) {
    check(n, *plan);
    return;
  }
  int *degree = tried[from].id == KEY_TP ? &plan->tp : tried[from].id == KEY_PP ? &plan->pp
                : tried[from].id == KEY_CP ? &plan->cp : &plan->zero;
  int fixed = n->fixed->value[tried[from].id];
  for (gsize i = 0; i < (fixed >= 0 ? 1 : G_N_ELEMENTS(tried[from].values)); i++) {
    *degree = fixed >= 0 ? fixed : tried[from].values[i];
    if (*degree > 0 || tried[from].id == KEY_ZERO)
      check_from(n, from + 1, plan);
  }
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

  char *why = explain_lacking(model, fixed);
  if (why)
    return why;
  plan.gpus = cluster->devices;
  check_from(&n, 0, &plan);
  if (n.legal)
    why = g_strdup("no plan of the space has these values");
  else if (!n.message)
    why = g_strdup_printf("no split of %d GPUs has these values", cluster->devices);
  else
    why = g_strdup(n.message->message + (g_str_has_prefix(n.message->message, "plan: ") ? strlen("plan: ") : 0));
  g_clear_error(&n.message);
  return why;
}
