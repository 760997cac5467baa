#include "search/space.h"

#include "base/error.h"
#include "plan/mesh.h"

#include <math.h>

Fixed fixed_none(void)
{
  return (Fixed) { -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, NULL };
}

typedef struct {
  const char *key;
  gsize offset;
  int min, max;
} FixedKey;

static const FixedKey fixed_keys[] = {
  { "tp", G_STRUCT_OFFSET(Fixed, tp), 1, 1 << 24 },
  { "pp", G_STRUCT_OFFSET(Fixed, pp), 1, 1 << 24 },
  { "vpp", G_STRUCT_OFFSET(Fixed, vpp), 1, 1 << 24 },
  { "dp", G_STRUCT_OFFSET(Fixed, dp), 1, 1 << 24 },
  { "cp", G_STRUCT_OFFSET(Fixed, cp), 1, 1 << 24 },
  { "ep", G_STRUCT_OFFSET(Fixed, ep), 1, 1 << 24 },
  { "etp", G_STRUCT_OFFSET(Fixed, etp), 1, 1 << 24 },
  { "mbs", G_STRUCT_OFFSET(Fixed, micro_batch), 1, 1 << 24 },
  { "zero", G_STRUCT_OFFSET(Fixed, zero), 0, 3 },
  { "shard", G_STRUCT_OFFSET(Fixed, shard_group), 0, 1 << 24 },
  { "offload", G_STRUCT_OFFSET(Fixed, offload), 0, 1 },
  { "sp", G_STRUCT_OFFSET(Fixed, sequence_parallel), 0, 1 },
};

static gboolean bad_fix(GError **error, const char *key, const char *value, const char *expected)
{
  g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT, "%s: %s: expected %s", key, value, expected);
  return FALSE;
}

static gboolean fix_number(const FixedKey *key, const char *value, Fixed *out, GError **error)
{
  gint64 number;

  if (!g_ascii_string_to_signed(value, 10, key->min, key->max, &number, NULL)) {
    g_autofree char *expected = g_strdup_printf("an integer from %d to %d", key->min, key->max);
    return bad_fix(error, key->key, value, expected);
  }
  if (G_STRUCT_MEMBER(int, out, key->offset) >= 0)
    return bad_fix(error, key->key, value, "each key once");
  G_STRUCT_MEMBER(int, out, key->offset) = (int)number;
  return TRUE;
}

static gboolean fix_one(const char *key, const char *value, Fixed *out, GError **error)
{
  for (gsize i = 0; i < G_N_ELEMENTS(fixed_keys); i++)
    if (g_str_equal(fixed_keys[i].key, key))
      return fix_number(&fixed_keys[i], value, out, error);
  if (g_str_equal(key, "recompute")) {
    out->recompute = names_find(recompute_names, value);
    return out->recompute >= 0 || bad_fix(error, key, value, "none, selective or full");
  }
  if (g_str_equal(key, "schedule")) {
    out->schedule = schedule_find(value);
    return out->schedule || bad_fix(error, key, value, "the name of a schedule");
  }
  return bad_fix(error, key, value,
                 "one of the keys tp, pp, vpp, dp, cp, ep, etp, mbs, zero, shard, offload, sp, recompute, schedule");
}

static gboolean parse_all(const char *text, Fixed *out, GError **error)
{
  g_auto(GStrv) parts = g_strsplit(text, ",", -1);

  if (!parts[0])
    return bad_fix(error, "\"\"", "no value", "KEY=VALUE, as in tp=8,zero=1");
  for (int i = 0; parts[i]; i++) {
    g_auto(GStrv) pair = g_strsplit(parts[i], "=", 2);
    if (g_strv_length(pair) != 2)
      return bad_fix(error, parts[i], "no value", "KEY=VALUE, as in tp=8,zero=1");
    if (!fix_one(g_strstrip(pair[0]), g_strstrip(pair[1]), out, error))
      return FALSE;
  }
  return TRUE;
}

gboolean fixed_parse(const char *option, const char *text, Fixed *fixed, GError **error)
{
  if (parse_all(text, fixed, error))
    return TRUE;
  g_prefix_error(error, "%s: ", option);
  return FALSE;
}

const char *reject_name(int reason)
{
  if (reason == REJECT_MEMORY)
    return "does not fit in memory";
  return reason == REJECT_FIXED ? "excluded by --fix" : plan_rule_names[reason];
}

const char *settled_name(int how)
{
  static const char *const names[] = { "bounded", "simulated", "open" };
  return how < REJECT_COUNT ? reject_name(how) : names[how - REJECT_COUNT];
}

/* Divisors in rising order. */
static GArray *divisors(int n)
{
  GArray *list = g_array_new(FALSE, FALSE, sizeof(int));

  for (int d = 1; d <= n / d; d++)
    if (n % d == 0)
      g_array_append_val(list, d);
  for (int i = (int)list->len - 1; i >= 0; i--) {
    int other = n / g_array_index(list, int, i);
    if (other != g_array_index(list, int, i))
      g_array_append_val(list, other);
  }
  return list;
}

typedef struct {
  const Model *model;
  const Cluster *cluster;
  const SearchOptions *options;
  PriceCache *prices;
  SearchResult *counts;
  GArray *candidates;
  int experts; /* of the model's layers, the fewest; 1 if it has none */
} Walk;

static gboolean excluded(int fixed, int value)
{
  return fixed >= 0 && fixed != value;
}

/* Adds the divisors of n that the schedule may have as chunks and that are not there yet. */
static void add_chunk_counts(GArray *kept, const Schedule *schedule, int n)
{
  g_autoptr(GArray) all = divisors(n);

  for (guint i = 0; i < all->len; i++) {
    int v = g_array_index(all, int, i);
    gboolean known = FALSE;
    for (guint k = 0; k < kept->len; k++)
      known |= g_array_index(kept, int, k) == v;
    if (!known && v >= schedule->min_chunks && v <= schedule->max_chunks)
      g_array_append_val(kept, v);
  }
}

/* Chunk counts that a schedule may have on this many pipeline ranks: what
 * divides the layers of a rank, of the fullest one too where it holds more. */
static GArray *chunk_counts(const Walk *w, const Schedule *schedule, int pp)
{
  int blocks = w->model->blocks, copies = schedule_copies(schedule);
  GArray *kept = g_array_new(FALSE, FALSE, sizeof(int));

  add_chunk_counts(kept, schedule, copies * (pp <= blocks ? blocks / pp : 1));
  if (w->options->base->framework->splits != SPLITS_EVEN && pp <= blocks && blocks % pp != 0)
    add_chunk_counts(kept, schedule, copies * (blocks / pp + 1));
  return kept;
}

/* The rule that the plan breaks; layers that do not divide get a split first. */
static int check(Walk *w, Plan *plan)
{
  int rule = plan_check(plan, w->model, w->cluster, NULL);
  const LayerSplit *split = rule == RULE_LAYERS ? price_cache_split(w->prices, plan) : NULL;

  if (!split)
    return rule;
  plan->split = *split;
  return plan_check(plan, w->model, w->cluster, NULL);
}

static void reject(Walk *w, const Plan *plan, int reason, gint64 plans)
{
  if (w->counts->rejected[reason] == 0)
    w->counts->sample[reason] = *plan;
  w->counts->rejected[reason] += plans;
  if (w->options->audit)
    w->options->audit(w->options->data, plan, reason, NAN, plans);
}

/* The rule that every member of the group breaks: of the first rules, which read
 * degrees and batch only, so that none before them can differ. */
static int group_rule(const Walk *w, const Plan *plan)
{
  int rule = plan_check(plan, w->model, w->cluster, NULL);
  return rule <= RULE_NODE ? rule : RULE_NONE;
}

static gboolean fixes_members(const Fixed *f)
{
  return f->vpp >= 0 || f->zero >= 0 || f->sequence_parallel >= 0 || f->recompute >= 0 || f->schedule;
}

static void settle(Walk *w, Plan plan)
{
  const Fixed *f = &w->options->fixed;
  int reason = RULE_NONE;

  if (excluded(f->vpp, plan.vpp) || excluded(f->zero, plan.zero) ||
      excluded(f->sequence_parallel, plan.sequence_parallel) || excluded(f->recompute, plan.recompute) ||
      (f->schedule && f->schedule != plan.schedule))
    reason = REJECT_FIXED;
  else
    reason = check(w, &plan);
  if (reason != RULE_NONE) {
    reject(w, &plan, reason, 1);
  } else {
    Candidate c = { .plan = plan, .index = w->counts->space };
    g_array_append_val(w->candidates, c);
  }
  w->counts->space++;
}

/* Schedules are alike on one stage: 1F1B stands for all. */
static gboolean in_space(const Walk *w, const Schedule *schedule, int pp)
{
  if (pp == 1)
    return g_str_equal(schedule->name, "1f1b");
  return framework_runs(w->options->base->framework, schedule) || w->options->fixed.schedule == schedule;
}

/* Ranks that ZeRO may divide over: all (0) and those of a node, or the fixed number. */
static int shard_groups(const Walk *w, const Plan *plan, int groups[2])
{
  int fixed = w->options->fixed.shard_group, network = w->cluster->network_tier;
  GroupShape replicas = mesh_replicas(plan, w->cluster);
  int inside = network > 0 ? replicas.per_domain[network - 1] : 1;

  groups[0] = MAX(fixed, 0);
  groups[1] = inside;
  if (plan->zero == 0)
    groups[0] = 0;
  return plan->zero > 0 && fixed < 0 && w->options->base->framework->shard_groups && inside > 1 &&
                 inside < replicas.size && replicas.size % inside == 0
             ? 2
             : 1;
}

/* Members that differ in recomputation and in what ZeRO divides over; returns how
 * many there are, and settles each unless they are settled as a group. */
static gint64 walk_shards(Walk *w, Plan plan, gboolean grouped)
{
  int groups[2], n = shard_groups(w, &plan, groups);

  for (int g = 0; g < n && !grouped; g++)
    for (int recompute = 0; recompute < RECOMPUTE_COUNT; recompute++) {
      plan.shard_group = groups[g];
      plan.recompute = recompute;
      settle(w, plan);
    }
  return (gint64)n * RECOMPUTE_COUNT;
}

/* Members of one schedule and chunk count: each combination once. With one rank
 * on an axis what divides it means nothing and is left out of the space. */
static void walk_leaves(Walk *w, Plan plan, gboolean grouped, int rule)
{
  int last_zero = plan_replicas(&plan) > 1 ? 3 : 0, last_sp = plan.tp > 1 ? 1 : 0;
  gint64 leaves = 0;

  for (plan.zero = 0; plan.zero <= last_zero; plan.zero++)
    for (plan.sequence_parallel = 0; plan.sequence_parallel <= last_sp; plan.sequence_parallel++)
      leaves += walk_shards(w, plan, grouped);
  if (grouped) {
    plan.zero = plan.sequence_parallel = 0;
    reject(w, &plan, rule, leaves);
    w->counts->grouped += leaves;
    w->counts->space += leaves;
  }
}

static void walk_members(Walk *w, Plan plan)
{
  int rule = fixes_members(&w->options->fixed) ? RULE_NONE : group_rule(w, &plan);

  for (int s = 0; schedules[s]; s++) {
    if (!in_space(w, schedules[s], plan.pp))
      continue;
    g_autoptr(GArray) chunks = chunk_counts(w, schedules[s], plan.pp);
    for (guint c = 0; c < chunks->len; c++) {
      plan_set_schedule(&plan, schedules[s], g_array_index(chunks, int, c));
      walk_leaves(w, plan, rule != RULE_NONE, rule);
    }
  }
}

static void walk_batches(Walk *w, Plan plan)
{
  const Fixed *f = &w->options->fixed;
  gboolean divides = plan.global_batch % plan.dp == 0;
  g_autoptr(GArray) sizes = divisors(divides ? plan.global_batch / plan.dp : 1);

  for (guint i = 0; i < sizes->len; i++) {
    plan.micro_batch = g_array_index(sizes, int, i);
    if (excluded(f->micro_batch, plan.micro_batch) && divides)
      continue;
    walk_members(w, plan);
  }
}

/* Ways to divide experts over the ranks of a stage; the first leaves them where the layer is. */
static void walk_experts(Walk *w, Plan plan)
{
  const Fixed *f = &w->options->fixed;
  const int etps[] = { 0, f->etp > 0 ? f->etp : 1 };
  int ranks = plan.tp * plan.cp * plan.dp, most = w->options->base->framework->experts == EXPERTS_WHOLE ? 1 : w->experts;

  for (int i = 0; i < (etps[1] == plan.tp || most == 1 ? 1 : 2); i++) {
    plan.etp = etps[i];
    for (plan.ep = 1; plan.ep <= most; plan.ep++)
      if (most % plan.ep == 0 && ranks % (plan.ep * plan_expert_tensor(&plan)) == 0 && !excluded(f->ep, plan.ep) &&
          !excluded(f->etp, plan_expert_tensor(&plan)))
        walk_batches(w, plan);
  }
}

/* The devices that tensor and pipeline leave, over context and data. */
static void walk_context(Walk *w, Plan plan)
{
  const Fixed *f = &w->options->fixed;
  int left = plan.gpus / plan.tp / plan.pp;
  g_autoptr(GArray) cps = divisors(left);

  for (guint i = 0; i < cps->len; i++) {
    plan.cp = g_array_index(cps, int, i);
    plan.dp = left / plan.cp;
    if (excluded(f->cp, plan.cp) || excluded(f->dp, plan.dp) ||
        (plan.cp > 1 && f->cp < 0 && plan.seq / plan.cp < CONTEXT_TOKENS_MIN))
      continue;
    for (int context = 0; context < CONTEXT_COUNT; context++) {
      gboolean runs = w->options->base->framework->context >> context & 1;
      plan.context = plan.cp > 1 ? context : (int)w->options->base->context;
      if (plan.cp > 1 ? runs : context == 0)
        walk_experts(w, plan);
    }
  }
}

static int fewest_experts(const Model *m)
{
  int fewest = 0;

  for (int i = 0; i < m->n_specs; i++)
    if (m->specs[i].ffn.experts > 0)
      fewest = fewest ? MIN(fewest, m->specs[i].ffn.experts) : m->specs[i].ffn.experts;
  return MAX(fewest, 1);
}

void space_walk(const Model *model, const Cluster *cluster, const SearchOptions *options, PriceCache *prices,
                SearchResult *counts, GArray *candidates)
{
  const Fixed *f = &options->fixed;
  Walk w = { model, cluster, options, prices, counts, candidates, fewest_experts(model) };
  Plan plan = *options->base;

  plan.offload = f->offload == 1 ? OFFLOAD_OPTIMIZER : OFFLOAD_NONE;
  g_autoptr(GArray) tps = divisors(plan.gpus);

  for (guint i = 0; i < tps->len; i++) {
    plan.tp = g_array_index(tps, int, i);
    g_autoptr(GArray) pps = divisors(plan.gpus / plan.tp);
    for (guint j = 0; j < pps->len && !excluded(f->tp, plan.tp); j++) {
      plan.pp = g_array_index(pps, int, j);
      if (!excluded(f->pp, plan.pp))
        walk_context(&w, plan);
    }
  }
}
