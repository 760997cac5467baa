#include "search/space_walk.h"

#include "search/excluded.h"

#include <string.h>

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

static gboolean excluded(const Fixed *fixed, PlanKeyId key, int value)
{
  return fixed->value[key] >= 0 && fixed->value[key] != value;
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
  if (w->options->base->framework->splits > SPLITS_COSTS && pp <= blocks && blocks % pp != 0)
    add_chunk_counts(kept, schedule, copies * (blocks / pp + 1));
  return kept;
}

int space_check_part(const Walk *w, const Plan *plan, PlanPart part)
{
  return excluded_check_part(plan, w->model, w->cluster, part, w->asked);
}

/* Takes all of these plans out, or none: the member's own choice decides which `plan` is shown. */
static gboolean reject(Walk *w, const Plan *plan, int rule, gint64 plans)
{
  if (rule == RULE_NONE)
    return FALSE;
  w->visitor->rejected(w->visitor->data, plan, rule, plans);
  w->space += plans;
  return TRUE;
}

gboolean space_in_half(const Walk *w, PartHalf half, int pass)
{
  return half == HALF_BOTH || (half == HALF_MADE) == (w->passes[pass].recompute == RECOMPUTE_FULL);
}

/* The same of all of a schedule and chunk count. */
static gboolean reject_group(Walk *w, const Plan *plan, int rule)
{
  gint64 plans = 0;

  if (rule == RULE_NONE)
    return FALSE;
  for (int i = 0; i < w->n_passes; i++)
    plans += space_in_half(w, w->half, i) ? w->variants : 0;
  w->visitor->rejected(w->visitor->data, plan, rule, plans);
  w->space += w->n_passes * w->variants;
  return TRUE;
}

/* Plans of the states from..to-1 of one choice of passes. */
static gint64 count_variants(const Walk *w, int from, int to)
{
  gint64 plans = 0;

  for (int i = from; i < to; i++)
    plans += 1 << __builtin_popcount(w->switches[i]);
  return plans;
}

/* What overlaps each state leaves to choose. */
static void update_switches(Walk *w, Plan plan)
{
  for (int i = 0; i < w->n_states; i++) {
    space_choose(&plan, &w->passes[0], &w->states[i]);
    w->switches[i] = w->options->fixed.value[KEY_OVERLAP] >= 0 ? 0 : space_switches(&plan);
  }
  w->variants = count_variants(w, 0, w->n_states);
}

/* What ranks hold under some prices. */
typedef struct {
  const PriceSums *sums; /* NULL: nothing is known yet */
  BoundRanks ranks;
} Holding;

static const PassSums *pass_sums(Walk *w, int pass, const SpaceLeaf *leaf)
{
  PassSums *last = &w->pass_sums[pass];
  const PassLayout *passes = &leaf->layout->passes;

  if (memcmp(&last->passes, passes, sizeof *passes) != 0) {
    memcpy(&last->passes, passes, sizeof *passes);
    last->sums = price_cache_sums(w->prices, passes);
    last->without = space_sums_without(w->options, w->prices, leaf->plan);
  }
  return last;
}

/* Prices of the leaf's plan, and what its ranks hold under them. */
static void price_leaf(Walk *w, int pass, SpaceLeaf *leaf, Holding *holding)
{
  const PassSums *last = pass_sums(w, pass, leaf);

  if (holding->sums != last->sums)
    *holding = (Holding) { last->sums, bound_ranks(w->model, leaf->layout, last->sums) };
  leaf->ranks = &holding->ranks;
  leaf->sums = last->sums;
  leaf->without = last->without;
}

/* What ranks hold at least with any of the sets of modules behind a choice: as much as with the last, which keeps
 * least; beside it no more is made again for a backward than for that choice, whose prices the leaf has. */
static void hold_least(Walk *w, SpaceLeaf *leaf, Plan plan, const PassChoice *last, Holding *holding)
{
  PassLayout passes;

  space_choose(&plan, last, &leaf->state);
  pass_layout_init(&passes, &plan);
  const PriceSums *sums = price_cache_sums(w->prices, &passes);
  if (holding->sums != sums) {
    PriceSums least = *leaf->sums;
    least.saved = sums->saved;
    least.deferred = sums->deferred;
    *holding = (Holding) { sums, bound_ranks(w->model, leaf->layout, &least) };
  }
  leaf->ranks = &holding->ranks;
}

/* A plan and, where it alone is too large, the same with the sets of modules behind its choice of passes. */
static void walk_sets(Walk *w, Plan *plan, const PassStates *states, SpaceLeaf *leaf, Holding *holdings)
{
  const PassChoice *pass = &w->passes[states->pass];
  gint64 variants = 1 << __builtin_popcount(leaf->switches), end = w->space + variants * (1 + pass->after);

  leaf->family = w->space;
  leaf->behind = FALSE;
  for (int i = 0; i <= pass->after && !leaf->behind && w->space < end; i++) {
    space_choose(plan, &pass[i], &leaf->state);
    const Layout layout = layout_of(plan);
    leaf->plan = plan;
    leaf->layout = &layout;
    leaf->pass = pass[i];
    leaf->index = w->space;
    leaf->behind = i > 0 && !w->visitor->each;
    if (leaf->behind)
      hold_least(w, leaf, *plan, &pass[pass->after], &holdings[1]);
    else
      price_leaf(w, states->pass + i, leaf, &holdings[w->visitor->each ? i : 0]);
    gboolean next = w->visitor->legal(w->visitor->data, leaf) || w->visitor->each;
    w->space = next && !leaf->behind ? w->space + variants : end;
    leaf->first = FALSE;
  }
}

/* Takes the states from..to-1 out; those that their own rules turn down were counted where their part was met. */
static gboolean reject_states(Walk *w, const Plan *plan, int rule, const PassStates *states, int from,
                              int to)
{
  gint64 counted = 0, sets = 1 + w->passes[states->pass].after;

  for (int i = from; i < to && w->visitor->part; i++)
    counted += states->rules[i] == RULE_NONE ? 0 : sets * count_variants(w, i, i + 1);
  gint64 plans = sets * count_variants(w, from, to) - counted;
  if (rule == RULE_NONE)
    return FALSE;
  w->space += counted;
  return plans == 0 || reject(w, plan, rule, plans);
}

gboolean space_stops(Walk *w)
{
  w->stopped |= !w->stopped && w->visitor->stops && w->visitor->stops(w->visitor->data);
  return w->stopped;
}

/* Members under one choice of passes and the sets of modules behind it, those of the states from..to-1 that its rules
 * let through; they share a split. */
static void walk_states(Walk *w, const PassStates *states, int from, int to, gboolean *first)
{
  const PassChoice *pass = &w->passes[states->pass];
  Holding holdings[1 + MODULE_COUNT] = { 0 };
  SpaceLeaf leaf = { .group = states->group, .first = *first };
  Plan plan = *states->group;
  const LayerSplit *split = NULL;

  space_choose(&plan, pass, &w->states[from]);
  if (states->uneven) {
    split = price_cache_split(w->prices, &plan);
    plan.split = split ? *split : plan.split;
    if (reject_states(w, &plan, split ? space_check_part(w, &plan, PLAN_SCHEDULE) : RULE_LAYERS, states, from, to))
      return;
  }
  for (int i = from; i < to; i++) {
    space_choose(&plan, pass, &w->states[i]);
    if (reject_states(w, &plan, states->rules[i], states, i, i + 1))
      continue;
    leaf.state = w->states[i];
    leaf.ends = &w->ends[i];
    leaf.switches = w->switches[i];
    walk_sets(w, &plan, states, &leaf, holdings);
  }
  *first = leaf.first;
}

/* States with the same prices have the same best split; on a mixed cluster that goes by memory too. */
static void walk_pass(Walk *w, const PassStates *states)
{
  gboolean mixed = w->cluster->n_types > 0, first = TRUE;

  w->splits = states->uneven && w->visitor->part ? space_splits(w, states) : 0;
  for (int from = 0, to; from < w->n_states && !space_stops(w); from = to) {
    to = mixed ? from + 1 : states->uneven ? space_alike_states(w, *states->group, states->pass, from) : w->n_states;
    walk_states(w, states, from, to, &first);
  }
}

/* The rules of all states, under a choice of passes; those that no such rule reads share them. */
static void check_states(const Walk *w, Plan plan, int pass, int *rules)
{
  for (int i = 0; i < w->n_states; i++) {
    space_choose(&plan, &w->passes[pass], &w->states[i]);
    rules[i] = space_check_part(w, &plan, PLAN_STATES);
  }
}

static gboolean is_uneven(const Walk *w, int rule)
{
  return rule == RULE_LAYERS || w->cluster->n_types > 0;
}

/* Members of one schedule and chunk count. */
static void walk_leaves(Walk *w, Plan plan)
{
  int rules[2][STATE_CHOICES], rule = space_check_part(w, &plan, PLAN_SCHEDULE);
  gboolean shared = FALSE;
  Plan group = plan;

  space_choose(&plan, &w->passes[0], &w->states[0]);
  if (rule != RULE_LAYERS && reject_group(w, &plan, rule))
    return;
  for (int i = 0; i < w->n_passes && !space_stops(w); i += 1 + w->passes[i].after) {
    space_choose(&plan, &w->passes[i], &w->states[0]);
    gint64 plans = w->variants * (1 + w->passes[i].after);
    w->space += space_in_half(w, w->half, i) ? 0 : plans;
    if (!space_in_half(w, w->half, i) || reject(w, &plan, space_check_part(w, &plan, PLAN_PASSES), plans) ||
        reject(w, &plan, w->beaten[i] ? (int)REJECT_BEATEN : RULE_NONE, plans))
      continue;
    gboolean apart = offload_keeps(&plan.offload) || excluded_reads_passes(&plan, w->model, w->cluster);
    if (apart || !shared)
      check_states(w, plan, i, rules[apart]);
    shared |= !apart;
    const PassStates states = { &group, i, rules[apart], is_uneven(w, rule) };
    (w->visitor->part ? space_meet_choice : walk_pass)(w, &states);
  }
}

static PassStates states_of(const Walk *w, const Plan *group, int pass, int *rules)
{
  check_states(w, *group, pass, rules);
  return (PassStates) { group, pass, rules, is_uneven(w, space_check_part(w, group, PLAN_SCHEDULE)) };
}

void space_walk_choice(Walk *w, const Plan *group, int pass)
{
  int rules[STATE_CHOICES];
  const PassStates states = states_of(w, group, pass, rules);

  walk_pass(w, &states);
}

double space_pass_bytes(Walk *w, const Plan *group, int pass)
{
  int rules[STATE_CHOICES];
  const PassStates states = states_of(w, group, pass, rules);

  return space_choice_bytes(w, &states);
}

/* Schedules are alike on one stage: 1F1B stands for all. */
static gboolean in_space(const Walk *w, const Schedule *schedule, int pp)
{
  const Schedule *fixed = fixed_schedule(&w->options->fixed);

  if (pp == 1)
    return (!fixed || fixed == schedule) && g_str_equal(schedule->name, "1f1b");
  return fixed ? fixed == schedule : framework_runs(w->options->base->framework, schedule);
}

/* Orders of a mixed cluster's node types along the pipeline. */
int space_count_orders(const Walk *w)
{
  int orders = 1;

  for (int i = 2; i <= w->cluster->n_types; i++)
    orders *= i;
  return orders;
}

/* The i-th order in the plan; the first is the cluster's own. */
void space_set_order(const Walk *w, Plan *plan, int i)
{
  int n = w->cluster->n_types, left[NODE_TYPES_MAX];

  for (int k = 0; k < n; k++)
    left[k] = k;
  for (int k = 0, choices = n; k < n; k++, choices--) {
    int taken = i % choices;
    i /= choices;
    plan->types[k] = g_intern_string(w->cluster->types[left[taken]]->name);
    for (int rest = taken; rest < choices - 1; rest++)
      left[rest] = left[rest + 1];
  }
}

/* Whether the space has the plan with so many stages of an encoder-decoder's encoder. 0 cuts stages by layers alone;
 * another number that cuts them in the same places is the same plan. */
static gboolean has_split_rank(const Walk *w, const Plan *p, int rank)
{
  int encoder = w->model->encoder_blocks, decoder = w->model->blocks - encoder, rest = p->pp - rank;
  const Fixed *f = &w->options->fixed;

  if (rank == 0 || excluded(f, KEY_SPLIT_RANK, rank))
    return !excluded(f, KEY_SPLIT_RANK, rank);
  if (p->vpp > 1 || plan_stages(p) != p->pp || encoder % rank != 0 || decoder % rest != 0)
    return FALSE;
  return f->value[KEY_SPLIT_RANK] == rank || encoder / rank != decoder / rest;
}

void space_set_schedule(Walk *w, Plan *plan, const Schedule *schedule, int chunks)
{
  plan_set_schedule(plan, schedule, chunks);
  if (w->options->fixed.value[KEY_OVERLAP] == 0)
    space_switch_off(plan, VARIANTS_MAX - 1);
  update_switches(w, *plan);
}

void space_each_group(Walk *w, Plan plan, SpaceGroupFunc each, gconstpointer data)
{
  int splits = w->model->encoder_blocks > 0 ? plan.pp : 1;

  for (int s = 0; schedules[s] && w->n_passes * w->n_states > 0; s++) {
    if (!in_space(w, schedules[s], plan.pp))
      continue;
    g_autoptr(GArray) chunks = chunk_counts(w, schedules[s], plan.pp);
    for (guint c = 0; c < chunks->len; c++) {
      if (excluded(&w->options->fixed, KEY_VPP, g_array_index(chunks, int, c)))
        continue;
      space_set_schedule(w, &plan, schedules[s], g_array_index(chunks, int, c));
      for (plan.split_rank = 0; plan.split_rank < splits; plan.split_rank++)
        if (has_split_rank(w, &plan, plan.split_rank))
          each(w, &plan, data);
    }
  }
}

static void walk_group(Walk *w, const Plan *group, gconstpointer rule)
{
  if (!reject_group(w, group, *(const int *)rule))
    walk_leaves(w, *group);
}

void space_forget(Walk *w)
{
  memset(w->pass_sums, 0, w->n_passes * sizeof *w->pass_sums);
  for (int i = 0; i < w->n_states; i++)
    w->ends[i].n = 0;
}

void space_walk_orders(Walk *w, Plan plan)
{
  guint open = space_dispatchers(w, &plan), beaten = space_beaten(w, &plan, open);

  for (int order = 0; order < space_count_orders(w); order++) {
    w->order = order;
    space_set_order(w, &plan, order);
    for (int i = 0; i < DISPATCH_COUNT; i++) {
      if (!(open >> i & 1) || space_stops(w))
        continue;
      plan.dispatch = i;
      int rule = beaten >> i & 1 ? REJECT_BEATEN : (int)space_check_part(w, &plan, PLAN_DEGREES);
      space_find_beaten(w, &plan, rule);
      space_forget(w);
      space_each_group(w, plan, walk_group, &rule);
    }
  }
}

void space_choices(Walk *w, const Plan *plan)
{
  w->n_passes = space_passes(w->options, w->model, w->cluster, &w->sets, plan, w->passes);
  w->n_states = space_states(w->options, w->model, w->cluster, plan, w->states);
}

static void walk_batches(Walk *w, Plan plan)
{
  const Fixed *f = &w->options->fixed;
  gboolean divides = plan.global_batch % plan.dp == 0;

  g_autoptr(GArray) sizes = divisors(divides ? plan.global_batch / plan.dp : 1);
  if (w->visitor->part)
    g_array_append_val(w->degrees, plan);
  else
    space_choices(w, &plan);

  for (guint i = 0; i < sizes->len; i++) {
    plan.micro_batch = g_array_index(sizes, int, i);
    if (excluded(f, KEY_MICRO_BATCH, plan.micro_batch) && divides)
      continue;
    if (!w->visitor->part)
      space_walk_orders(w, plan);
    else if (!space_stops(w))
      space_meet_batch(w, &plan);
  }
}

/* Orders of ranks, where they differ. */
static void walk_placements(Walk *w, Plan plan)
{
  gboolean differ = plan.pp > 1 && plan.dp > 1, given = plan.pipeline_inner;
  gboolean both = w->options->space & SPACE_ORDER && space_can(plan.framework, SPACE_ORDER) && w->cluster->n_types == 0;
  int fixed = w->options->fixed.value[KEY_ORDER];

  for (int inner = 0; inner <= 1; inner++) {
    plan.pipeline_inner = inner;
    if (fixed >= 0 ? inner == fixed : inner == given || (both && differ))
      walk_batches(w, plan);
  }
}

/* Ways to divide experts over the ranks of a stage; the first leaves them where the layer is. */
static void walk_experts(Walk *w, Plan plan)
{
  const Fixed *f = &w->options->fixed;
  const int etps[] = { 0, f->value[KEY_ETP] > 0 ? f->value[KEY_ETP] : 1 };
  gboolean whole = w->options->base->framework->experts == EXPERTS_WHOLE;
  int ranks = plan.tp * plan.cp * plan.dp, most = whole ? 1 : w->experts;

  for (int i = 0; i < (etps[1] == plan.tp || most == 1 ? 1 : 2); i++) {
    plan.etp = etps[i];
    for (plan.ep = 1; plan.ep <= most; plan.ep++)
      if (most % plan.ep == 0 && ranks % (plan.ep * plan_expert_tensor(&plan)) == 0 && !excluded(f, KEY_EP, plan.ep) &&
          !excluded(f, KEY_ETP, plan_expert_tensor(&plan)))
        walk_placements(w, plan);
  }
}

/* Heads change places with rows within the lowest tier's domains, where context-parallel ranks lie in several. */
static gboolean has_inner(const Walk *w, const Plan *p)
{
  int fixed = w->options->fixed.value[KEY_CONTEXT_INNER], inner = p->context_inner;
  int inside = w->cluster->n_tiers > 1 ? w->cluster->tiers[0].devices / p->tp : p->cp;

  return p->cp % inner == 0 && (fixed < 0 ? inner > 1 && inner <= inside && inside < p->cp : inner == fixed);
}

static void walk_exchanges(Walk *w, Plan plan)
{
  for (int context = 0; context < CONTEXT_COUNT; context++) {
    gboolean runs = w->options->base->framework->context >> context & 1, both = context == CONTEXT_BOTH;
    if (!both && w->options->fixed.value[KEY_CONTEXT_INNER] > 1)
      continue;
    plan.context = context;
    for (plan.context_inner = 1; plan.context_inner <= (both ? plan.cp : 1); plan.context_inner++)
      if (runs && !excluded(&w->options->fixed, KEY_CONTEXT, context) && (!both || has_inner(w, &plan)))
        walk_experts(w, plan);
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
    if (excluded(f, KEY_CP, plan.cp) || excluded(f, KEY_DP, plan.dp) ||
        !space_has_context(w->options, plan.seq, plan.cp))
      continue;
    (plan.cp > 1 ? walk_exchanges : walk_experts)(w, plan);
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

guint64 space_walk_splits(const SpaceWalk *w)
{
  return w->splits;
}

SpaceWalk *space_walk_new(const Model *model, const Cluster *cluster, const SearchOptions *options, PriceCache *prices,
                          const SpaceVisitor *visitor)
{
  Walk *w = g_new0(Walk, 1);

  w->model = model;
  w->cluster = cluster;
  w->options = options;
  w->prices = prices;
  w->visitor = visitor;
  w->experts = fewest_experts(model);
  w->asked = excluded_asked(options);
  const Plan base = space_base(options);
  w->sets = space_module_sets(model, cluster, &base);
  w->held = held_table_new();
  w->degrees = g_array_new(FALSE, FALSE, sizeof(Plan));
  for (int made = 0; made < 2; made++)
    w->bound.least[made] = g_array_new(FALSE, FALSE, sizeof(LeastPasses));
  w->bound.shapes = g_array_new(FALSE, FALSE, sizeof(LeastShape));
  return w;
}

void space_walk_free(SpaceWalk *w)
{
  if (!w)
    return;
  held_table_free(w->held);
  g_array_unref(w->degrees);
  for (int made = 0; made < 2; made++)
    g_array_unref(w->bound.least[made]);
  g_array_unref(w->bound.shapes);
  g_free(w);
}

gint64 space_walk_all(SpaceWalk *w)
{
  const Fixed *f = &w->options->fixed;
  Plan plan = space_base(w->options);
  g_autoptr(GArray) tps = divisors(plan.gpus);

  for (guint i = 0; i < tps->len; i++) {
    plan.tp = g_array_index(tps, int, i);
    price_cache_trim(w->prices, PRICES_HELD_BYTES);
    g_autoptr(GArray) pps = divisors(plan.gpus / plan.tp);
    for (guint j = 0; j < pps->len && !excluded(f, KEY_TP, plan.tp); j++) {
      plan.pp = g_array_index(pps, int, j);
      if (!excluded(f, KEY_PP, plan.pp))
        walk_context(w, plan);
    }
  }
  return w->space;
}

gint64 space_walk(const Model *model, const Cluster *cluster, const SearchOptions *options, PriceCache *prices,
                  const SpaceVisitor *visitor)
{
  g_autoptr(SpaceWalk) walk = space_walk_new(model, cluster, options, prices, visitor);

  return space_walk_all(walk);
}
