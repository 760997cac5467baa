#include "search/search.h"

#include "search/fingerprint.h"
#include "search/search_parts.h"
#include "search/ties.h"

#include <math.h>

static void reject_rule(gpointer data, const Plan *plan, int rule, gint64 plans)
{
  search_reject(data, plan, rule, NAN, plans);
}

/* Of all the plan's variants; `without`: as of SpaceLeaf. */
static double bound_of(const Search *s, const Plan *plan, const Layout *layout, const PriceSums *sums,
                       const PriceSums *without, BoundEnds *ends)
{
  double bound = bound_time(s->model, layout, s->cluster, sums, ends);
  Plan switched = *plan;

  if (!without)
    return bound;
  space_switch_off(&switched, OVERLAP_TENSOR);
  const Layout other = layout_of(&switched);
  return MIN(bound, bound_time(s->model, &other, s->cluster, without, ends));
}

/* What no plan goes below however its passes are cut, ordered and communicate, kept for what the space leaves out. */
static void lower_floors(Search *s, const SpaceLeaf *leaf, gboolean fits)
{
  const PriceSums *const sums[] = { leaf->sums, leaf->without };
  SearchResult *r = s->result;

  for (int i = 0; i < 2 && sums[i]; i++) {
    double compute = bound_passes(s->model, leaf->layout, sums[i], TRUE);
    r->floors.passes_s = MIN(r->floors.passes_s, bound_passes(s->model, leaf->layout, sums[i], FALSE));
    r->floors.compute_s = MIN(r->floors.compute_s, compute);
    r->floors.fitting_s = MIN(r->floors.fitting_s, fits ? compute : INFINITY);
  }
}

/* Bounds of a legal plan; one that cannot fit is put aside, of several the smallest. */
static gboolean bound_leaf(gpointer data, const SpaceLeaf *leaf)
{
  Search *s = data;
  Candidate c = candidates_add(&s->store, leaf);

  if (s->by_memory)
    c.pass.after = 0;
  c.memory_bytes = bound_memory(leaf->layout, leaf->ranks);
  lower_floors(s, leaf, c.memory_bytes <= s->cluster->device.memory_bytes);
  if (c.memory_bytes > s->cluster->device.memory_bytes) {
    search_put_over(s, c, leaf->plan, c.memory_bytes);
    return TRUE;
  }
  c.bound_s = bound_of(s, leaf->plan, leaf->layout, leaf->sums, leaf->without, leaf->ends);
  c.value = search_value(s, s->objective, leaf->layout, c.bound_s, c.memory_bytes);
  g_array_append_val(s->candidates, c);
  return FALSE;
}

static void put_later(Search *s, const Candidate *c)
{
  guint at = s->later->len;

  while (at > 0 && candidate_by_bound(&g_array_index(s->later, Candidate, at - 1), c) < 0)
    at--;
  g_array_insert_val(s->later, at, *c);
}

/* Whether a plan with these bounds may be listed: of a family that already is, as the best alone. */
static gboolean promises(const Search *s, gint64 family, double value, double second)
{
  gboolean listed = FALSE;

  for (guint i = 0; i < s->result->best->len && !s->options->second; i++)
    listed |= g_array_index(s->result->best, Found, i).family == family;
  return (listed ? search_variant_promises : search_promises)(s, value, second);
}

gboolean search_bound(const Search *s, Candidate *c)
{
  Plan plan = search_plan(s, c);
  const Layout layout = layout_of(&plan);
  const PriceSums *sums = price_cache_sums(s->prices, &layout.passes);
  const BoundRanks ranks = bound_ranks(s->model, &layout, sums);

  c->behind = FALSE;
  c->memory_bytes = bound_memory(&layout, &ranks);
  if (c->memory_bytes > s->cluster->device.memory_bytes)
    return FALSE;
  const PriceSums *without = space_sums_without(s->options, s->prices, plan);
  c->bound_s = MAX(c->bound_s, bound_of(s, &plan, &layout, sums, without, NULL));
  c->value = search_value(s, s->objective, &layout, c->bound_s, c->memory_bytes);
  return TRUE;
}

/* Bounds of its own for a candidate, or for the first behind it that may fit. */
static void put_bounded(Search *s, Candidate c)
{
  gboolean fits = search_bound(s, &c);

  for (gboolean more = TRUE; !fits && more;) {
    Plan plan = search_plan(s, &c);
    search_put_over(s, c, &plan, c.memory_bytes);
    more = c.pass.after > 0;
    c = more ? candidate_next(&s->store, &c) : c;
    fits = more && search_bound(s, &c);
  }
  if (fits)
    put_later(s, &c);
}

/* The candidate is settled: bounds what it stands for beside. */
static void put_next(Search *s, const Candidate *c)
{
  if (c->pass.after > 0)
    put_bounded(s, candidate_next(&s->store, c));
}

/* The first variant is settled: keeps the others if they may be better than all. */
static Variants *keep_variants(Search *s, const Candidate *c, const Plan *plan)
{
  if (!c->switches)
    return NULL;
  const Layout layout = layout_of(plan);
  if (!search_variant_promises(s, c->value, search_second(s, &layout, c->bound_s, c->memory_bytes))) {
    Plan others = *plan;
    space_switch_off(&others, c->switches);
    search_skip(s, &others, c->value, FALSE, variant_count(c->switches) - 1);
    return NULL;
  }
  Variants family = variants_of(s->prices, c, plan);
  g_array_append_val(s->families, family);
  return &g_array_index(s->families, Variants, s->families->len - 1);
}

/* The first variant cannot be among the best: its time by order. With a further set of modules it takes no less, so
 * that other variants alone, of either, may be better. */
static void skip_first(Search *s, const Candidate *c, const Plan *plan, double order_s, double value)
{
  search_skip(s, plan, value, FALSE, 1);
  Variants *family = keep_variants(s, c, plan);
  if (family) {
    family->order_s[0] = order_s;
    put_next(s, c);
  } else if (c->pass.after > 0) {
    Candidate next = candidate_next(&s->store, c);
    search_skip_candidate(s, &next, value, FALSE);
  }
}

static int by_order(const Near *a, const Near *b)
{
  if (a->value != b->value)
    return a->value < b->value ? -1 : 1;
  return candidate_by_bound(&a->candidate, &b->candidate);
}

static void put_near(Search *s, const Near *near)
{
  guint at = s->near->len;

  while (at > 0 && by_order(&g_array_index(s->near, Near, at - 1), near) < 0)
    at--;
  g_array_insert_val(s->near, at, *near);
}

/* Bounds the next candidate by its order of passes. */
static void bound_next(Search *s, Candidate c)
{
  if (!s->options->second && !promises(s, c.family, c.value, 0)) {
    search_skip_candidate(s, &c, c.value, FALSE);
    return;
  }
  if (c.behind) {
    put_bounded(s, c);
    return;
  }
  Plan plan = search_plan(s, &c);
  const Layout layout = layout_of(&plan);
  const PriceSums *sums = price_cache_sums(s->prices, &layout.passes);
  c.memory_bytes = bound_memory_by_order(s->model, &layout, sums);
  c.value = search_value(s, s->objective, &layout, c.bound_s, c.memory_bytes);
  if (c.memory_bytes > s->cluster->device.memory_bytes) {
    search_put_over(s, c, &plan, c.memory_bytes);
    put_next(s, &c);
  } else if (!promises(s, c.family, c.value, search_second(s, &layout, c.bound_s, c.memory_bytes))) {
    search_skip_candidate(s, &c, c.value, FALSE);
  } else {
    double order_s = MAX(c.bound_s, bound_time_by_order(s->model, &layout, s->cluster, sums));
    Near near = { c, order_s, search_value(s, s->objective, &layout, order_s, c.memory_bytes) };
    put_near(s, &near);
  }
}

/* The candidate of least value that was not looked at; NULL = none is left. */
static const Candidate *first_open(const Search *s, guint next)
{
  const Candidate *listed = next < s->candidates->len ? &g_array_index(s->candidates, Candidate, next) : NULL;
  const Candidate *later = s->later->len ? &g_array_index(s->later, Candidate, s->later->len - 1) : NULL;

  return later && (!listed || candidate_by_bound(later, listed) < 0) ? later : listed;
}

static Candidate take_open(Search *s, guint *next, const Candidate *open)
{
  Candidate c = *open;

  if (*next < s->candidates->len && open == &g_array_index(s->candidates, Candidate, *next))
    ++*next;
  else
    g_array_set_size(s->later, s->later->len - 1);
  return c;
}

/* Picks those next whose bounds by order promise something; returns how many. */
static int pick_round(Search *s, guint *next, Candidate *picks, Simulation *simulations)
{
  int n = 0;

  price_cache_trim(s->prices, PRICES_HELD_BYTES);
  while (n < ROUND) {
    const Near *first = s->near->len ? &g_array_index(s->near, Near, s->near->len - 1) : NULL;
    const Candidate *open = first_open(s, *next);
    if (open && (!first || open->value <= first->value)) {
      bound_next(s, take_open(s, next, open));
      continue;
    }
    if (!first)
      break;
    Near near = *first;
    g_array_set_size(s->near, s->near->len - 1);
    Plan plan = search_plan(s, &near.candidate);
    const Layout layout = layout_of(&plan);
    double second = search_second(s, &layout, near.order_s, near.candidate.memory_bytes);
    if (promises(s, near.candidate.family, near.value, second)) {
      simulations[n] = (Simulation) { .plan = plan, .index = near.candidate.index };
      picks[n++] = near.candidate;
    } else {
      skip_first(s, &near.candidate, &plan, near.order_s, near.value);
    }
  }
  return n;
}

static void settle_round(Search *s, const Candidate *picks, const Simulation *simulations, int n)
{
  for (int i = 0; i < n; i++) {
    if (!search_settle(s, &picks[i], &simulations[i])) {
      g_array_append_val(s->over, picks[i]);
      g_array_index(s->over, Candidate, s->over->len - 1).memory_bytes = search_need(s, &simulations[i].metrics);
    }
    Variants *family = keep_variants(s, &picks[i], &simulations[i].plan);
    if (family)
      variant_known(family, 0, &simulations[i]);
    put_next(s, &picks[i]);
  }
}

/* ---- variants of what was simulated ---- */

/* Bounds of a variant, the one by order if need be; whether they promise something. */
static gboolean variant_bounded(Search *s, Variants *v, guint off, const Plan *plan, double *value)
{
  const Layout layout = layout_of(plan);
  const PriceSums *sums = price_cache_sums(s->prices, &layout.passes);
  double bound = MAX(bound_time(s->model, &layout, s->cluster, sums, NULL), v->base.bound_s);
  double memory = v->base.memory_bytes;

  for (int closer = 0;; closer++) {
    bound = MAX(bound, variant_bound(v, off));
    *value = search_value(s, s->objective, &layout, bound, memory);
    if (!search_variant_promises(s, *value, search_second(s, &layout, bound, memory)))
      return FALSE;
    if (closer || v->order_s[off] > 0)
      return TRUE;
    v->order_s[off] = bound_time_by_order(s->model, &layout, s->cluster, sums);
  }
}

/* Settles the variant if its bounds allow, returning FALSE. */
static gboolean variant_open(Search *s, Variants *v, guint off, gboolean stopped, Plan *plan)
{
  double value;

  *plan = v->plan;
  space_switch_off(plan, off);
  gboolean promising = variant_bounded(s, v, off, plan, &value);
  if (promising && !stopped)
    return TRUE;
  search_skip(s, plan, value, promising, 1);
  v->settled |= 1u << off;
  return FALSE;
}

/* Picks variants that may be better; one that overlaps less waits for those that overlap more. */
static int pick_variants(Search *s, gboolean stopped, guint *which, guint *offs, Simulation *simulations)
{
  int n = 0;

  for (guint i = 0; i < s->families->len; i++) {
    Variants *v = &g_array_index(s->families, Variants, i);
    for (guint off = 1; off <= v->base.switches && n < ROUND; off++) {
      Plan plan;
      if (variant_settled(v, off) || !variant_open(s, v, off, stopped, &plan) || variant_waits(v, off))
        continue;
      simulations[n] = (Simulation) { .plan = plan, .index = variant_index(v, off) };
      which[n] = i;
      offs[n++] = off;
    }
  }
  return n;
}

/* ---- the search ---- */

/* Share by which a plan not yet settled could be better than the best found. */
static double gap_at(const Search *s, guint next)
{
  const GArray *best = s->result->best;
  const Candidate *open = first_open(s, next);
  double least = open ? open->value : INFINITY;

  for (guint i = 0; i < s->near->len; i++)
    least = MIN(least, g_array_index(s->near, Near, i).candidate.value);
  for (guint i = 0; i < s->families->len; i++) {
    const Variants *v = &g_array_index(s->families, Variants, i);
    least = variants_open(v) ? MIN(least, v->base.value) : least;
  }
  if (isinf(least))
    return 0;
  return best->len == 0 ? 1 : MAX(0, 1 - least / g_array_index(best, Found, 0).value);
}

static gboolean stops(const Search *s, guint next)
{
  const SearchResult *r = s->result;
  gint64 settled = (gint64)next - s->near->len - s->later->len;
  SearchProgress at = { .candidates = s->candidates->len, .settled = MAX(0, settled), .simulated = r->simulated,
                        .best = r->best->len ? &g_array_index(r->best, Found, 0) : NULL, .gap = gap_at(s, next) };

  return s->options->watch && s->options->watch(s->options->data, &at);
}

/* While the space is walked. */
static gboolean ends_walk(gpointer data)
{
  Search *s = data;
  SearchProgress at = { .walking = TRUE, .candidates = s->candidates->len, .gap = 1 };

  s->result->cut = s->options->watch && s->options->watch(s->options->data, &at);
  return s->result->cut;
}

static void run_variants(Search *s, gboolean stopped)
{
  Simulation simulations[ROUND];
  guint which[ROUND], offs[ROUND];

  for (int n = 1; n > 0;) {
    if (!stopped && stops(s, s->candidates->len)) {
      stopped = TRUE;
      s->result->gap = gap_at(s, s->candidates->len);
    }
    n = pick_variants(s, stopped, which, offs, simulations);
    rounds_run(s->rounds, simulations, n);
    for (int i = 0; i < n; i++) {
      Variants *v = &g_array_index(s->families, Variants, which[i]);
      variant_known(v, offs[i], &simulations[i]);
      search_settle(s, &v->base, &simulations[i]);
    }
  }
}

static void run_rounds(Search *s)
{
  Candidate picks[ROUND];
  Simulation simulations[ROUND];
  guint next = 0;
  int n;

  while (!stops(s, next) && (n = pick_round(s, &next, picks, simulations)) > 0) {
    rounds_run(s->rounds, simulations, n);
    settle_round(s, picks, simulations, n);
  }
  gboolean stopped = first_open(s, next) || s->near->len > 0;
  s->result->gap = stopped ? gap_at(s, next) : 0;
  for (const Candidate *open; (open = first_open(s, next));) {
    Candidate c = take_open(s, &next, open);
    search_skip_candidate(s, &c, c.value, TRUE);
  }
  for (guint i = 0; i < s->near->len; i++) {
    const Candidate *c = &g_array_index(s->near, Near, i).candidate;
    search_skip_candidate(s, c, c->value, TRUE);
  }
  run_variants(s, stopped);
  if (s->result->cut)
    s->result->gap = 1;
}

/* Those that the journal knew only in brief. */
static void complete_best(Search *s)
{
  for (guint i = 0; i < s->result->best->len; i++) {
    Found *f = &g_array_index(s->result->best, Found, i);
    Simulation simulation = { .plan = f->plan, .index = f->index };
    if (f->metrics.critical_row >= 0)
      continue;
    g_autoptr(PriceTable) prices = price_cache_own(s->prices, &simulation.plan);
    simulation_complete(s->model, s->cluster, prices, &simulation);
    f->metrics = simulation.metrics;
  }
}

static int by_place(gconstpointer a, gconstpointer b)
{
  const JournalPlan *x = a, *y = b;
  return x->first < y->first ? -1 : x->first > y->first;
}

static GArray *journal_plans(const Search *s)
{
  GArray *plans = g_array_new(FALSE, FALSE, sizeof(JournalPlan));

  for (guint i = 0; i < s->candidates->len; i++) {
    const Candidate *c = &g_array_index(s->candidates, Candidate, i);
    JournalPlan plan = { c->index, candidate_plans(c), c->bound_s };
    g_array_append_val(plans, plan);
  }
  g_array_sort(plans, by_place);
  return plans;
}

static gboolean open_journal(Search *s, GError **error)
{
  if (!s->options->state || s->result->cut)
    return TRUE;
  g_autofree char *fingerprint = search_fingerprint(s->model, s->cluster, s->options, s->candidates);
  g_autoptr(GArray) plans = journal_plans(s);
  s->journal = journal_open(s->options->state, fingerprint, plans, error);
  return s->journal != NULL;
}

static void search_init(Search *s)
{
  s->objective = s->options->objective ? s->options->objective : &objectives[0];
  s->by_memory = s->options->second || s->objective->by_memory;
  s->result = g_new0(SearchResult, 1);
  s->result->least_bound = INFINITY;
  s->result->floors.passes_s = s->result->floors.compute_s = s->result->floors.fitting_s = INFINITY;
  s->result->best = g_array_new(FALSE, FALSE, sizeof(Found));
  s->candidates = g_array_new(FALSE, FALSE, sizeof(Candidate));
  s->later = g_array_new(FALSE, FALSE, sizeof(Candidate));
  s->near = g_array_new(FALSE, FALSE, sizeof(Near));
  s->over = g_array_new(FALSE, FALSE, sizeof(Candidate));
  s->prices = price_cache_new(s->model, s->cluster);
  Plan base = space_base(s->options);
  const ModuleSets sets = space_module_sets(s->model, &base);
  candidates_init(&s->store, s->prices, &sets);
  s->families = g_array_new(FALSE, FALSE, sizeof(Variants));
}

static void search_clear(Search *s)
{
  candidates_clear(&s->store);
  price_cache_free(s->prices);
  g_array_unref(s->candidates);
  g_array_unref(s->later);
  g_array_unref(s->near);
  g_array_unref(s->over);
  g_array_unref(s->families);
}

SearchResult *search(const Model *model, const Cluster *cluster, const SearchOptions *options, GError **error)
{
  Search s = { .model = model, .cluster = cluster, .options = options };

  search_init(&s);
  const SpaceVisitor visitor = { bound_leaf, s.by_memory, reject_rule, &s, ends_walk };
  s.result->space = space_walk(model, cluster, options, s.prices, &visitor);
  g_array_sort(s.candidates, candidate_by_bound);
  gboolean opened = open_journal(&s, error);
  if (opened) {
    s.rounds = rounds_new(model, cluster, s.prices, s.journal, options->threads);
    run_rounds(&s);
    complete_best(&s);
    if (options->refine && !options->second && options->fixed.value[KEY_RECOMPUTE] < 0)
      search_refine(&s);
    search_ties(&s);
    search_note_over(&s);
    rounds_free(s.rounds);
  }
  journal_close(s.journal, &s.result->unkept);
  if (!opened)
    g_clear_pointer(&s.result, search_result_free);
  search_clear(&s);
  return s.result;
}

void search_result_free(SearchResult *r)
{
  if (!r)
    return;
  g_clear_error(&r->unkept);
  g_array_unref(r->best);
  g_free(r);
}
