#include "search/search.h"

#include "search/fingerprint.h"
#include "search/refine.h"
#include "search/variants.h"

#include <math.h>

typedef struct {
  const Model *model;
  const Cluster *cluster;
  const SearchOptions *options;
  const Objective *objective;
  SearchResult *result;
  GArray *candidates; /* Candidate */
  GArray *over;       /* Candidate: legal, but too large */
  Candidates store;   /* what their plans are */
  PriceCache *prices;
  GArray *families;   /* Variants: of each candidate that was simulated */
  Journal *journal;
  Rounds *rounds;
} Search;

const char *reject_name(int reason)
{
  return reason == REJECT_MEMORY ? "does not fit in memory" : plan_rule_names[reason];
}

const char *settled_name(int how)
{
  static const char *const names[] = { "bounded", "simulated", "open" };
  return how < REJECT_COUNT ? reject_name(how) : names[how - REJECT_COUNT];
}

static Plan plan_of(const Search *s, const Candidate *c)
{
  return candidate_plan(&s->store, c);
}

static void settled(const Search *s, const Plan *plan, int how, double value, gint64 plans)
{
  if (s->options->audit)
    s->options->audit(s->options->data, plan, how, value, plans);
}

static void reject(Search *s, const Plan *plan, int reason, double value, gint64 plans)
{
  if (s->result->rejected[reason] == 0)
    s->result->sample[reason] = *plan;
  s->result->rejected[reason] += plans;
  s->result->grouped += plans > 1 ? plans : 0;
  settled(s, plan, reason, value, plans);
}

static void reject_rule(gpointer data, const Plan *plan, int rule, gint64 plans)
{
  reject(data, plan, rule, NAN, plans);
}

/* A plan that is too large, with what is known of its need. */
static void put_over(Search *s, Candidate candidate, const Plan *plan, double memory_bytes)
{
  candidate.memory_bytes = memory_bytes;
  reject(s, plan, REJECT_MEMORY, memory_bytes, variant_count(candidate.switches));
  g_array_append_val(s->over, candidate);
}

static double value_of(const Search *s, const Objective *objective, const Plan *plan, double step_s,
                       double memory_bytes)
{
  return objective ? objective->value(plan, s->cluster, step_s, memory_bytes) : 0;
}

/* Of all the leaf's variants. */
static double bound_of(const Search *s, const SpaceLeaf *leaf)
{
  double bound = bound_time(s->model, leaf->plan, s->cluster, leaf->sums, leaf->ends);
  Plan without = *leaf->plan;

  if (!leaf->without)
    return bound;
  space_switch_off(&without, OFF_TENSOR);
  return MIN(bound, bound_time(s->model, &without, s->cluster, leaf->without, leaf->ends));
}

/* Bounds of a legal plan; one that cannot fit is put aside. */
static void bound_leaf(gpointer data, const SpaceLeaf *leaf)
{
  Search *s = data;
  Candidate c = candidates_add(&s->store, leaf);

  c.memory_bytes = bound_memory(leaf->plan, leaf->ranks);
  if (c.memory_bytes > s->cluster->device.memory_bytes) {
    put_over(s, c, leaf->plan, c.memory_bytes);
    return;
  }
  c.bound_s = bound_of(s, leaf);
  c.value = value_of(s, s->objective, leaf->plan, c.bound_s, c.memory_bytes);
  g_array_append_val(s->candidates, c);
}

static int by_memory(gconstpointer a, gconstpointer b)
{
  const Candidate *x = a, *y = b;

  if (x->memory_bytes != y->memory_bytes)
    return x->memory_bytes < y->memory_bytes ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

static int by_bound(gconstpointer a, gconstpointer b)
{
  const Candidate *x = a, *y = b;

  if (x->value != y->value)
    return x->value < y->value ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

static double need_of(const Search *s, const Metrics *m)
{
  return memory_in_room(s->cluster, m->peak_memory_bytes, m->capacity_bytes);
}

static Found found_of(const Search *s, const Candidate *base, const Simulation *simulated)
{
  const Metrics *m = &simulated->metrics;
  Found f = { .plan = simulated->plan, .metrics = *m, .bound_s = base->bound_s, .index = simulated->index,
              .family = base->index };

  f.value = value_of(s, s->objective, &f.plan, m->iteration_s, need_of(s, m));
  f.second = value_of(s, s->options->second, &f.plan, m->iteration_s, need_of(s, m));
  return f;
}

/* A candidate's first variant, simulated out of turn. */
static Found evaluate(const Search *s, const Candidate *c)
{
  Simulation simulation = { .plan = plan_of(s, c), .index = c->index };
  g_autoptr(PriceTable) prices = price_cache_own(s->prices, &simulation.plan);

  simulation_complete(s->model, s->cluster, prices, &simulation);
  return found_of(s, c, &simulation);
}

static gboolean beats(const Found *a, const Found *b)
{
  return a->value <= b->value && a->second <= b->second;
}

/* Drops what the plan beats: on a front all of that, else a worse variant. FALSE if it is beaten. */
static gboolean make_room(const Search *s, const Found *found)
{
  GArray *best = s->result->best;
  gboolean front = s->options->second != NULL;

  for (guint i = best->len; i-- > 0;) {
    const Found *other = &g_array_index(best, Found, i);
    if (front ? beats(other, found) : other->family == found->family && other->value <= found->value)
      return FALSE;
    if (front ? beats(found, other) : other->family == found->family)
      g_array_remove_index(best, i);
  }
  return TRUE;
}

/* Keeps the list sorted by value; earlier ones stay first among equals. */
static void keep(const Search *s, const Found *found)
{
  GArray *best = s->result->best;
  guint at, most = s->options->second ? G_MAXUINT : (guint)s->options->top;

  if (!make_room(s, found))
    return;
  for (at = best->len; at > 0 && g_array_index(best, Found, at - 1).value > found->value; at--)
    ;
  if (at < most)
    g_array_insert_val(best, at, *found);
  if (best->len > most)
    g_array_set_size(best, most);
}

/* Whether plans with these bounds may still be among the best. */
static gboolean promises(const Search *s, double value, double second)
{
  const GArray *best = s->result->best;
  const Found bound = { .value = value, .second = second };

  if (s->options->known > 0 && value > s->options->known)
    return FALSE;
  if (!s->options->second)
    return best->len < (guint)s->options->top || value < g_array_index(best, Found, s->options->top - 1).value;
  for (guint i = 0; i < best->len; i++)
    if (beats(&g_array_index(best, Found, i), &bound))
      return FALSE;
  return TRUE;
}

static void skip(Search *s, const Plan *plan, double value, gboolean stopped, gint64 plans)
{
  SearchResult *r = s->result;

  *(stopped ? &r->open : &r->bounded) += plans;
  r->grouped += plans > 1 ? plans : 0;
  r->least_bound = MIN(r->least_bound, value);
  settled(s, plan, stopped ? SETTLED_OPEN : SETTLED_BOUNDED, value, plans);
}

static void skip_candidate(Search *s, const Candidate *c, double value, gboolean stopped)
{
  Plan plan = s->options->audit ? plan_of(s, c) : (Plan) { 0 };
  skip(s, &plan, value, stopped, variant_count(c->switches));
}

static double second_bound(const Search *s, const Plan *plan, double bound_s, double memory_bytes)
{
  return value_of(s, s->options->second, plan, bound_s, memory_bytes);
}

/* Picks the next candidates whose bounds promise something and whose order of
 * passes fits; returns how many. */
static int pick_round(Search *s, guint *next, Candidate *picks, Simulation *simulations)
{
  int n = 0;

  price_cache_trim(s->prices, PRICES_HELD_BYTES);
  for (; n < ROUND && *next < s->candidates->len; (*next)++) {
    const Candidate *c = &g_array_index(s->candidates, Candidate, *next);
    if (!s->options->second && !promises(s, c->value, 0)) {
      skip_candidate(s, c, c->value, FALSE);
      continue;
    }
    Plan plan = plan_of(s, c);
    double memory = bound_memory_by_order(s->model, &plan, price_cache_sums(s->prices, &plan));
    double value = value_of(s, s->objective, &plan, c->bound_s, memory);
    if (memory > s->cluster->device.memory_bytes) {
      put_over(s, *c, &plan, memory);
    } else if (!promises(s, value, second_bound(s, &plan, c->bound_s, memory))) {
      skip_candidate(s, c, value, FALSE);
    } else {
      simulations[n] = (Simulation) { .plan = plan, .index = c->index };
      picks[n++] = *c;
    }
  }
  return n;
}

/* A simulated plan, counted and kept; FALSE if it does not fit. */
static gboolean settle(Search *s, const Candidate *base, const Simulation *simulated)
{
  const Metrics *m = &simulated->metrics;

  if (m->peak_memory_bytes > m->capacity_bytes) {
    reject(s, &simulated->plan, REJECT_MEMORY, need_of(s, m), 1);
    return FALSE;
  }
  Found f = found_of(s, base, simulated);
  s->result->simulated++;
  settled(s, &f.plan, SETTLED_SIMULATED, f.value, 1);
  keep(s, &f);
  return TRUE;
}

static void settle_round(Search *s, const Candidate *picks, const Simulation *simulations, int n)
{
  for (int i = 0; i < n; i++) {
    Variants family = variants_of(s->prices, &picks[i], &simulations[i]);
    if (!settle(s, &picks[i], &simulations[i])) {
      g_array_append_val(s->over, picks[i]);
      g_array_index(s->over, Candidate, s->over->len - 1).memory_bytes = need_of(s, &simulations[i].metrics);
    }
    if (picks[i].switches)
      g_array_append_val(s->families, family);
  }
}

/* ---- variants of what was simulated ---- */

/* Whether a variant with these bounds may be better than all; on a front, than those it is beside. */
static gboolean variant_promises(const Search *s, double value, double second)
{
  const GArray *best = s->result->best;

  if (s->options->second)
    return promises(s, value, second);
  return best->len == 0 || value < g_array_index(best, Found, 0).value;
}

/* Settles the variant if its bounds allow, returning FALSE. */
static gboolean variant_open(Search *s, Variants *v, guint off, gboolean stopped, Plan *plan)
{
  *plan = v->plan;
  space_switch_off(plan, off);
  double bound = bound_time(s->model, plan, s->cluster, price_cache_sums(s->prices, plan), NULL);
  bound = MAX(MAX(bound, v->base.bound_s), variant_bound(v, off));
  double value = value_of(s, s->objective, plan, bound, v->base.memory_bytes);
  gboolean promising = variant_promises(s, value, second_bound(s, plan, bound, v->base.memory_bytes));

  if (promising && !stopped)
    return TRUE;
  skip(s, plan, value, promising, 1);
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
  double least = next < s->candidates->len ? g_array_index(s->candidates, Candidate, next).value : INFINITY;

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
  SearchProgress at = { .candidates = s->candidates->len, .settled = next, .simulated = r->simulated,
                        .best = r->best->len ? &g_array_index(r->best, Found, 0) : NULL, .gap = gap_at(s, next) };

  return s->options->watch && s->options->watch(s->options->data, &at);
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
      settle(s, &v->base, &simulations[i]);
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
  gboolean stopped = next < s->candidates->len;
  s->result->gap = stopped ? gap_at(s, next) : 0;
  for (; next < s->candidates->len; next++) {
    const Candidate *c = &g_array_index(s->candidates, Candidate, next);
    skip_candidate(s, c, c->value, TRUE);
  }
  run_variants(s, stopped);
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

/* The least memory that would buy a faster plan: of the plans whose bound is
 * clearly below the best time, a few are tried in order of need. */
#define OVER_TRIES 6
#define OVER_GAIN 0.995

static void note_over(Search *s)
{
  SearchResult *r = s->result;

  g_array_sort(s->over, by_memory);
  if (r->best->len == 0) {
    r->has_least = s->over->len > 0;
    if (r->has_least)
      r->least = evaluate(s, &g_array_index(s->over, Candidate, 0));
    return;
  }
  double best = g_array_index(r->best, Found, 0).metrics.iteration_s;
  for (guint i = s->options->over ? 0 : s->over->len, tries = 0; i < s->over->len && !r->has_over && tries < OVER_TRIES;
       i++) {
    Candidate *c = &g_array_index(s->over, Candidate, i);
    Plan plan = plan_of(s, c);
    c->bound_s = bound_time(s->model, &plan, s->cluster, price_cache_sums(s->prices, &plan), NULL);
    if (c->bound_s >= OVER_GAIN * best)
      continue;
    tries++;
    r->over = evaluate(s, c);
    r->has_over = r->over.metrics.iteration_s < best;
  }
}

/* Plans without recomputation that memory forbade: how many are bounded, those
 * nearest to fitting first, and how many of these are tried, fastest first. */
#define REFINE_BOUNDED 16
#define REFINE_TRIES 2

static GArray *nearly_fitting(Search *s)
{
  GArray *near = g_array_new(FALSE, FALSE, sizeof(Candidate));

  for (guint i = 0; i < s->over->len; i++) {
    const Candidate *c = &g_array_index(s->over, Candidate, i);
    guint at = near->len;
    if (c->pass.recompute != RECOMPUTE_NONE)
      continue;
    while (at > 0 && by_memory(&g_array_index(near, Candidate, at - 1), c) > 0)
      at--;
    if (at < REFINE_BOUNDED)
      g_array_insert_val(near, at, *c);
    g_array_set_size(near, MIN(near->len, REFINE_BOUNDED));
  }
  for (guint i = 0; i < near->len; i++) {
    Candidate *c = &g_array_index(near, Candidate, i);
    Plan plan = plan_of(s, c);
    c->value = bound_time(s->model, &plan, s->cluster, price_cache_sums(s->prices, &plan), NULL);
  }
  g_array_sort(near, by_bound);
  return near;
}

static gboolean refine(Search *s, const Plan *plan, gint64 index, gint64 family, double step_s, Found *out)
{
  Refine r = { s->model, s->cluster, s->prices, step_s };

  if (!refine_recompute(&r, plan, out))
    return FALSE;
  out->index = index;
  out->family = family;
  out->value = value_of(s, s->objective, plan, out->metrics.iteration_s, need_of(s, &out->metrics));
  return TRUE;
}

/* Counts of recomputed layers for what was found and for what nearly fits (refine.h). */
static void refine_best(Search *s)
{
  GArray *best = s->result->best;
  g_autoptr(GArray) near = best->len ? nearly_fitting(s) : NULL;
  g_autoptr(GArray) found = g_array_new(FALSE, FALSE, sizeof(Found));
  Found better;

  for (guint i = 0; i < best->len; i++) {
    Found *f = &g_array_index(best, Found, i);
    if (f->plan.recompute == RECOMPUTE_FULL &&
        refine(s, &f->plan, f->index, f->family, f->metrics.iteration_s, &better) && better.value < f->value) {
      g_array_remove_index(best, i--);
      g_array_append_val(found, better);
    }
  }
  for (guint i = 0; near && i < near->len && i < REFINE_TRIES; i++) {
    const Candidate *c = &g_array_index(near, Candidate, i);
    const Found *last = best->len ? &g_array_index(best, Found, 0) : &g_array_index(found, Found, 0);
    Plan plan = plan_of(s, c);
    if (c->value < last->metrics.iteration_s &&
        refine(s, &plan, c->index, c->index, last->metrics.iteration_s, &better))
      g_array_append_val(found, better);
  }
  for (guint i = 0; i < found->len; i++)
    keep(s, &g_array_index(found, Found, i));
  s->result->refined = found->len;
}

static gboolean open_journal(Search *s, GError **error)
{
  if (!s->options->state)
    return TRUE;
  g_autofree char *fingerprint = search_fingerprint(s->cluster, s->options, s->candidates);
  s->journal = journal_open(s->options->state, fingerprint, error);
  return s->journal != NULL;
}

static void search_init(Search *s)
{
  s->objective = s->options->objective ? s->options->objective : &objectives[0];
  s->result = g_new0(SearchResult, 1);
  s->result->least_bound = INFINITY;
  s->result->best = g_array_new(FALSE, FALSE, sizeof(Found));
  s->candidates = g_array_new(FALSE, FALSE, sizeof(Candidate));
  s->over = g_array_new(FALSE, FALSE, sizeof(Candidate));
  s->prices = price_cache_new(s->model, s->cluster);
  candidates_init(&s->store, s->prices);
  s->families = g_array_new(FALSE, FALSE, sizeof(Variants));
}

static void search_clear(Search *s)
{
  candidates_clear(&s->store);
  price_cache_free(s->prices);
  g_array_unref(s->candidates);
  g_array_unref(s->over);
  g_array_unref(s->families);
}

SearchResult *search(const Model *model, const Cluster *cluster, const SearchOptions *options, GError **error)
{
  Search s = { .model = model, .cluster = cluster, .options = options };

  const SpaceVisitor visitor = { bound_leaf, reject_rule, &s };

  search_init(&s);
  s.result->space = space_walk(model, cluster, options, s.prices, &visitor);
  g_array_sort(s.candidates, by_bound);
  if (open_journal(&s, error)) {
    s.rounds = rounds_new(model, cluster, s.prices, s.journal, options->threads);
    run_rounds(&s);
    complete_best(&s);
    if (options->refine && !options->second && options->fixed.recompute < 0)
      refine_best(&s);
    note_over(&s);
    rounds_free(s.rounds);
  }
  if (options->state && (!s.journal || !journal_close(s.journal, error)))
    g_clear_pointer(&s.result, search_result_free);
  search_clear(&s);
  return s.result;
}

void search_result_free(SearchResult *r)
{
  if (!r)
    return;
  g_array_unref(r->best);
  g_free(r);
}
