#include "search/search.h"

#include "search/fingerprint.h"
#include "search/search_parts.h"
#include "search/ties.h"

#include <math.h>

static void reject_rule(gpointer data, const Plan *plan, int rule, gint64 plans)
{
  Search *s = data;

  if (!s->late)
    search_reject(s, plan, rule, NAN, plans, PLAN_PASSES);
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
  return fmin(bound, bound_time(s->model, &other, s->cluster, without, ends));
}

/* Bounds of a legal plan; one that cannot fit is put aside, of several the smallest. */
static gboolean bound_leaf(gpointer data, const SpaceLeaf *leaf)
{
  Search *s = data;
  Candidate c = candidates_add(&s->store, leaf);
  const double nothing = INFINITY;

  c.entry = s->candidates->len;
  if (s->by_memory)
    c.pass.after = 0;
  c.memory_bytes = bound_memory(leaf->layout, leaf->ranks);
  if (s->late || c.memory_bytes > s->cluster->device.memory_bytes) {
    search_put_over(s, c, s->late ? NULL : leaf->plan, c.memory_bytes);
    return TRUE;
  }
  c.bound_s = bound_of(s, leaf->plan, leaf->layout, leaf->sums, leaf->without, leaf->ends);
  c.value = search_value(s, s->objective, leaf->layout, c.bound_s, c.memory_bytes);
  QueueItem item = { .value = c.value, .index = c.index, .at = s->candidates->len, .kind = QUEUE_CANDIDATE };
  g_array_append_val(s->candidates, c);
  g_array_append_val(s->closest, nothing);
  queue_push(s->queue, &item);
  return FALSE;
}

/* A part by its bounds; one that cannot fit, or of which that is known, is put aside. */
static void queue_part(Search *s, guint at)
{
  const SpacePart *part = &g_array_index(s->parts, SpacePart, at);
  QueueItem item = { .index = part->index, .at = at, .kind = QUEUE_PART };
  const double bound_s = fmax(part->bound_s, part->split_s);

  if (s->late || isinf(bound_s) || part->memory_bytes > s->cluster->device.memory_bytes) {
    search_put_part_over(s, at);
    return;
  }
  item.value = search_value(s, s->objective, &s->layout, bound_s, part->memory_bytes);
  if (s->options->brief && !s->options->second && s->options->known > 0 && item.value > s->options->known)
    search_skip_part(s, part, item.value, FALSE);
  else
    queue_push(s->queue, &item);
}

/* What no plan goes below however it communicates is kept for what the space leaves out. */
static void meet_part(gpointer data, const SpacePart *part)
{
  Search *s = data;
  SearchResult *r = s->result;

  if (part->pass < 0) {
    if (part->bound_s > 0) {
      r->floors.passes_s = MIN(r->floors.passes_s, part->any_s - s->options->base->framework->step_s);
      r->floors.compute_s = MIN(r->floors.compute_s, part->compute_s);
    }
    if (part->bound_s > 0 && part->state_bytes <= s->cluster->device.memory_bytes)
      r->floors.fitting_s = MIN(r->floors.fitting_s, part->compute_s);
    PartFloor floor = { part->bound_s, s->options->floors ? 0 : part->any_s, part->memory_bytes, part->kept_bytes,
                        part->plans };
    g_array_set_size(r->bounds->parts, part->batch);
    g_array_append_val(r->bounds->parts, floor);
  }
  g_array_append_val(s->parts, *part);
  g_array_set_size(s->within, s->parts->len);
  queue_part(s, s->parts->len - 1);
}

static void note_broken(gpointer data, guint batch, gint64 plans)
{
  Search *s = data;
  const PartFloor none = { INFINITY, INFINITY, INFINITY, INFINITY, plans };

  g_array_set_size(s->result->bounds->parts, batch);
  g_array_append_val(s->result->bounds->parts, none);
}

static void put_later(Search *s, const Candidate *c)
{
  QueueItem item = { .value = c->value, .index = c->index, .at = s->later->len, .kind = QUEUE_LATER };

  g_array_append_val(s->later, *c);
  queue_push(s->queue, &item);
}

/* Whether a plan with these bounds may be listed: of a family that already is, as the best alone. */
static gboolean promises(const Search *s, gint64 family, double value, double second)
{
  gboolean listed = FALSE;

  for (guint i = 0; i < MIN(s->result->best->len, (guint)s->options->top) && !s->options->second; i++)
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
  const PriceSums *without = space_sums_without(s->options, s->prices, &plan);
  c->bound_s = fmax(c->bound_s, bound_of(s, &plan, &layout, sums, without, NULL));
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
    search_note(s, c, c->bound_s);
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
  search_note(s, c, order_s);
  Variants *family = keep_variants(s, c, plan);
  if (family) {
    family->order_s[0] = order_s;
    put_next(s, c);
  } else if (c->pass.after > 0) {
    Candidate next = candidate_next(&s->store, c);
    next.bound_s = c->switches ? c->bound_s : order_s;
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
    double order_s = fmax(c.bound_s, search_order_s(s, &plan, &layout, sums));
    Near near = { c, order_s, search_value(s, s->objective, &layout, order_s, c.memory_bytes) };
    put_near(s, &near);
  }
}

/* Whether a part has to wait for others, or is too large, by bounds of its own. */
static gboolean bound_again(Search *s, SpacePart *part)
{
  double bound_s = part->bound_s;

  if (!part->floored)
    return FALSE;
  space_bound_part(s->walk, part);
  return part->bound_s > bound_s || part->memory_bytes > s->cluster->device.memory_bytes;
}

/* Looks into what comes first of the queue. */
static void look_into(Search *s, const QueueItem *item)
{
  if (item->kind != QUEUE_PART) {
    bound_next(s, g_array_index(item->kind == QUEUE_LATER ? s->later : s->candidates, Candidate, item->at));
    return;
  }
  SpacePart *part = &g_array_index(s->parts, SpacePart, item->at);
  if (!search_promises(s, item->value, search_second(s, &s->layout, part->bound_s, part->memory_bytes)))
    search_skip_part(s, part, item->value, FALSE);
  else if (bound_again(s, part) || search_divide(s, item->at))
    queue_part(s, item->at);
  else
    search_enter(s, item->at, item->value);
}

/* Whether the queue may hold something that promises more than a value; what comes first with one objective tells. */
static gboolean queue_promises(const Search *s, double value)
{
  const QueueItem *first = queue_first(s->queue);
  return first && first->value <= value && (s->options->second || search_promises(s, first->value, 0));
}

/* Asked for each part that is looked into: n are picked. */
static gboolean interrupted(Search *s, int n)
{
  SearchProgress at = { .entering = TRUE, .candidates = s->parts->len + s->candidates->len, .gap = 1,
                        .simulated = s->result->simulated + n };

  at.settled = at.candidates - s->queue->len;
  s->halted = search_stops(s) || (s->options->watch && s->options->watch(s->options->data, &at));
  return s->halted;
}

/* Picks those next whose bounds by order promise something, at most so many; returns how many. */
static int pick_round(Search *s, int most, Candidate *picks, Simulation *simulations)
{
  int n = 0;

  price_cache_trim(s->prices, PRICES_HELD_BYTES);
  while (n < most && !interrupted(s, n)) {
    const Near *first = s->near->len ? &g_array_index(s->near, Near, s->near->len - 1) : NULL;
    if (queue_promises(s, first ? first->value : INFINITY)) {
      if (n > 0 && s->result->best->len == 0 && queue_first(s->queue)->kind == QUEUE_PART)
        break; /* the first plan that is simulated may leave nothing of it to be looked into */
      QueueItem item = queue_pop(s->queue);
      look_into(s, &item);
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
    if (!simulations[i].done) {
      Near again = { picks[i], picks[i].bound_s, picks[i].value };
      put_near(s, &again);
      continue;
    }
    if (!search_settle(s, &picks[i], &simulations[i])) {
      search_put_over(s, picks[i], NULL, search_need(s, &simulations[i].metrics));
    }
    Variants *family = keep_variants(s, &picks[i], &simulations[i].plan);
    if (family)
      variant_known(family, 0, &simulations[i]);
    put_next(s, &picks[i]);
  }
}

/* ---- the search ---- */

/* Share by which a plan not yet settled could be better than the best found. */
static double gap_at(const Search *s)
{
  const GArray *best = s->result->best;
  const QueueItem *first = queue_first(s->queue);
  double least = first ? first->value : INFINITY;

  if (s->halfway >= 0)
    least = MIN(least, s->halfway_value);
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

static gboolean stops(const Search *s)
{
  const SearchResult *r = s->result;
  guint met = s->parts->len + s->candidates->len;
  SearchProgress at = { .candidates = met, .settled = met - s->queue->len - s->near->len, .simulated = r->simulated,
                        .best = r->best->len ? &g_array_index(r->best, Found, 0) : NULL, .gap = gap_at(s) };

  return search_stops(s) || (s->options->watch && s->options->watch(s->options->data, &at));
}

/* While the space, or a part of it, is walked. */
static gboolean ends_walk(gpointer data)
{
  Search *s = data;
  SearchProgress at = { .walking = TRUE, .candidates = s->parts->len, .gap = 1 };

  if (s->walked)
    return search_stops(s);
  s->result->cut = search_stops(s) || (s->options->watch && s->options->watch(s->options->data, &at));
  return s->result->cut;
}

static void run_variants(Search *s, gboolean stopped)
{
  Simulation simulations[ROUND];
  guint which[ROUND], offs[ROUND];

  for (int n = 1; n > 0 || (!stopped && search_stops(s));) {
    if (!stopped && stops(s)) {
      stopped = TRUE;
      s->result->gap = gap_at(s);
    }
    n = search_pick_variants(s, stopped, which, offs, simulations);
    rounds_run(s->rounds, simulations, n);
    for (int i = 0; i < n; i++) {
      Variants *v = &g_array_index(s->families, Variants, which[i]);
      if (!simulations[i].done)
        continue; /* it stays open */
      variant_known(v, offs[i], &simulations[i]);
      search_settle(s, &v->base, &simulations[i]);
    }
  }
}

/* Settles what nobody needs to look into, but for plans that may tie with the best (ties.h). */
static void settle_rest(Search *s, gboolean stopped)
{
  const GArray *best = s->result->best;
  gboolean ties = !stopped && best->len > 0 && !s->options->second && s->objective == &objectives[0];
  double limit = ties ? g_array_index(best, Found, 0).value * (1 + s->options->tie) : 0;

  for (guint i = 0; i < s->near->len; i++) {
    const Candidate *c = &g_array_index(s->near, Near, i).candidate;
    search_skip_candidate(s, c, c->value, stopped);
  }
  while (s->queue->len > 0) {
    QueueItem item = queue_pop(s->queue);
    gboolean is_part = item.kind == QUEUE_PART;
    const SpacePart part = is_part ? g_array_index(s->parts, SpacePart, item.at) : (SpacePart) { 0 };
    const GArray *list = item.kind == QUEUE_LATER ? s->later : s->candidates;
    if (!is_part)
      search_skip_candidate(s, &g_array_index(list, Candidate, item.at), item.value, stopped);
    else if (s->options->tie > 0 && item.value <= limit && !search_stops(s))
      search_enter(s, item.at, item.value);
    else
      search_skip_part(s, &part, item.value, stopped);
  }
}

/* Nobody is to be told that a stop came before the first round, where one simulation gives an answer. */
static void run_one(Search *s)
{
  if (s->result->best->len > 0 || s->near->len == 0)
    return;
  const Near near = g_array_index(s->near, Near, s->near->len - 1);
  g_autoptr(PriceTable) prices = NULL;
  Simulation simulation = { .plan = search_plan(s, &near.candidate), .index = near.candidate.index };

  prices = price_cache_own(s->prices, &simulation.plan);
  simulation_complete(s->model, s->cluster, prices, &simulation);
  g_array_set_size(s->near, s->near->len - 1);
  settle_round(s, &near.candidate, &simulation, 1);
}

/* What is simulated may show that what comes behind is no better: a round takes what is still asked for, or twice as
 * many as the one before, to leave no thread idle where many are to be simulated. */
static void run_rounds(Search *s)
{
  Candidate picks[ROUND];
  Simulation simulations[ROUND];
  gboolean stopped = FALSE;
  int n = 1;

  for (int most = 1; n > 0 && !(stopped = stops(s)); most = MIN(2 * most, ROUND)) {
    int missing = s->options->second ? ROUND : s->options->top - (int)s->result->best->len;
    n = pick_round(s, CLAMP(missing, most, ROUND), picks, simulations);
    rounds_run(s->rounds, simulations, n);
    settle_round(s, picks, simulations, n);
  }
  if (search_stops(s))
    run_one(s);
  stopped = (stopped || s->halted) && (s->near->len > 0 || s->halfway >= 0 || queue_promises(s, INFINITY));
  s->result->gap = stopped ? gap_at(s) : 0;
  settle_rest(s, stopped);
  run_variants(s, stopped);
  search_settle_halfway(s);
  if (s->result->cut || s->result->open == 0)
    s->result->gap = s->result->cut;
}

/* Those that the journal knew only in brief; a stop leaves time for the first alone. */
static void complete_best(Search *s)
{
  for (guint i = 0; i < s->result->best->len; i++) {
    Found *f = &g_array_index(s->result->best, Found, i);
    Simulation simulation = { .plan = f->plan, .index = f->index };
    if (f->metrics.critical_row >= 0)
      continue;
    if (i > 0 && search_stops(s)) {
      g_array_remove_index(s->result->best, i--);
      continue;
    }
    g_autoptr(PriceTable) prices = price_cache_own(s->prices, &simulation.plan);
    simulation_complete(s->model, s->cluster, prices, &simulation);
    f->metrics = simulation.metrics;
  }
}

static GArray *journal_plans(const Search *s)
{
  GArray *plans = g_array_new(FALSE, FALSE, sizeof(JournalPlan));

  for (guint i = 0; i < s->parts->len; i++) {
    const SpacePart *part = &g_array_index(s->parts, SpacePart, i);
    JournalPlan plan = { part->index, part->plans, part->bound_s };
    g_array_append_val(plans, plan);
  }
  return plans;
}

static gboolean open_journal(Search *s, GError **error)
{
  if (!s->options->state || s->result->cut)
    return TRUE;
  g_autofree char *fingerprint = search_fingerprint(s->model, s->cluster, s->options, s->parts);
  g_autoptr(GArray) plans = journal_plans(s);
  s->journal = journal_open(s->options->state, fingerprint, plans, error);
  return s->journal != NULL;
}

static void search_init(Search *s)
{
  s->objective = s->options->objective ? s->options->objective : &objectives[0];
  s->by_memory = s->options->second || s->objective->by_memory;
  s->visitor.each = s->by_memory;
  s->visitor.timed_bytes = !s->options->brief || s->options->second ? INFINITY
                           : s->objective->by_memory                ? 0
                                                                    : s->cluster->device.memory_bytes;
  s->result = g_new0(SearchResult, 1);
  s->result->least_bound = INFINITY;
  s->result->floors.passes_s = s->result->floors.compute_s = s->result->floors.fitting_s = INFINITY;
  s->result->best = g_array_new(FALSE, FALSE, sizeof(Found));
  s->result->bounds = floors_new();
  s->candidates = g_array_new(FALSE, FALSE, sizeof(Candidate));
  s->closest = g_array_new(FALSE, FALSE, sizeof(double));
  s->later = g_array_new(FALSE, FALSE, sizeof(Candidate));
  s->near = g_array_new(FALSE, FALSE, sizeof(Near));
  s->over = g_array_new(FALSE, FALSE, sizeof(Candidate));
  s->over_queue = g_array_new(FALSE, FALSE, sizeof(QueueItem));
  s->parts = g_array_new(FALSE, FALSE, sizeof(SpacePart));
  s->within = g_array_new(FALSE, TRUE, sizeof(Within));
  s->queue = g_array_new(FALSE, FALSE, sizeof(QueueItem));
  s->prices = price_cache_new(s->model, s->cluster);
  Plan base = space_base(s->options);
  const ModuleSets sets = space_module_sets(s->model, s->cluster, &base);
  candidates_init(&s->store, s->prices, &sets);
  s->families = g_array_new(FALSE, FALSE, sizeof(Variants));
  s->walk = space_walk_new(s->model, s->cluster, s->options, s->prices, &s->visitor);
  s->layout = layout_of(s->options->base);
  s->halfway = -1;
}

static void search_clear(Search *s)
{
  candidates_clear(&s->store);
  price_cache_free(s->prices);
  g_array_unref(s->candidates);
  g_array_unref(s->closest);
  g_array_unref(s->later);
  g_array_unref(s->near);
  g_array_unref(s->over);
  g_array_unref(s->over_queue);
  g_array_unref(s->parts);
  g_array_unref(s->within);
  g_array_unref(s->queue);
  space_walk_free(s->walk);
  g_array_unref(s->families);
}

SearchResult *search(const Model *model, const Cluster *cluster, const SearchOptions *options, GError **error)
{
  Search s = { .model = model, .cluster = cluster, .options = options };

  s.visitor = (SpaceVisitor) { bound_leaf, FALSE, reject_rule, &s, ends_walk, meet_part, note_broken };
  search_init(&s);
  s.result->space = space_walk_all(s.walk);
  s.walked = TRUE;
  gboolean opened = open_journal(&s, error);
  if (opened) {
    s.rounds = rounds_new(model, cluster, s.prices, s.journal, options->simulated, options->stop, options->threads);
    run_rounds(&s);
    search_close_list(&s);
    search_raise_bounds(&s);
    g_array_sort(s.candidates, candidate_by_bound);
    complete_best(&s);
    gboolean whole = s.result->open == 0 && !s.result->cut; /* who stopped the search waits for it */
    if (whole && options->refine && !options->second)
      search_refine(&s);
    search_ties(&s);
    if (whole && options->tight)
      search_note_tight(&s);
    if (whole && !options->brief)
      search_note_over(&s);
    rounds_free(s.rounds);
    s.result->halted = stop_heard(options->stop);
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
  floors_free(r->bounds);
  g_free(r);
}
