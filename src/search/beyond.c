#include "search/search_parts.h"

#include "plan/nearest.h"
#include "search/excluded.h"
#include "search/recompute_counts.h"

#include <math.h>

/* What is called the smallest plan needs at most this share more than the smallest. */
#define LEAST_SHARE 0.01

/* The least memory that would buy a faster plan: of the plans whose bound is
 * clearly below the best time, a few are tried in order of need. */
#define OVER_TRIES 6
#define OVER_GAIN 0.995

/* The next plan that memory forbade, those with least need first; parts that are no faster than `limit_s` are left out.
 * NULL if there is none. */
static const Candidate *next_over(Search *s, double limit_s)
{
  s->late = TRUE;
  while (s->over_queue->len > 0 && !search_stops(s)) {
    QueueItem item = queue_pop(s->over_queue);
    if (item.kind != QUEUE_PART)
      return &g_array_index(s->over, Candidate, item.at);
    const SpacePart part = g_array_index(s->parts, SpacePart, item.at);
    gboolean unpriced = part.pass < 0 && part.bound_s == 0; /* of which one layer fills more than a device */
    if (part.bound_s < limit_s && (!unpriced || isinf(limit_s)))
      space_walk_enter(s->walk, &part);
  }
  return NULL;
}

static double least_need(const Search *s)
{
  return s->result->has_least ? search_need(s, &s->result->least.metrics) : INFINITY;
}

static gboolean queue_promises_less(const Search *s)
{
  const QueueItem *first = queue_first(s->over_queue);
  return first && first->value < (1 - LEAST_SHARE) * least_need(s);
}

/* Looks at plans in order of their bounds until these show that no other one needs that share less. */
static void note_least(Search *s)
{
  SearchResult *r = s->result;
  const Candidate *c;

  while ((!r->has_least || queue_promises_less(s)) && (c = next_over(s, INFINITY))) {
    Plan plan = search_plan(s, c);
    const Layout layout = layout_of(&plan);
    price_cache_trim(s->prices, PRICES_HELD_BYTES);
    const PriceSums *sums = price_cache_sums(s->prices, &layout.passes);
    if (bound_memory_by_order(s->model, &layout, sums) >= (1 - LEAST_SHARE) * least_need(s))
      continue;
    Found found = search_evaluate(s, c, &plan);
    if (search_need(s, &found.metrics) >= least_need(s))
      continue;
    r->has_least = TRUE;
    r->least = found;
  }
}

/* How many plans that the margin alone forbids are simulated at most, fastest bound first. */
#define TIGHT_TRIES 8

/* Those of the plans that memory forbade which may fit the whole of a device, and take less than so long; bounds of
 * their time stand in the list. */
static GArray *tight_over(Search *s, double whole_bytes, double limit_s)
{
  GArray *tight = g_array_new(FALSE, FALSE, sizeof(Candidate));
  g_autoptr(GArray) popped = g_array_new(FALSE, FALSE, sizeof(QueueItem));

  s->late = TRUE;
  while (s->over_queue->len > 0 && queue_first(s->over_queue)->value <= whole_bytes && !search_stops(s)) {
    const QueueItem item = queue_pop(s->over_queue);
    const SpacePart part = item.kind == QUEUE_PART ? g_array_index(s->parts, SpacePart, item.at) : (SpacePart) { 0 };
    if (item.kind == QUEUE_PART && part.bound_s > 0 && part.bound_s < limit_s) {
      space_walk_enter(s->walk, &part);
      continue;
    }
    g_array_append_val(popped, item);
    if (item.kind == QUEUE_PART)
      continue;
    Candidate c = g_array_index(s->over, Candidate, item.at);
    Plan plan = search_plan(s, &c);
    const Layout layout = layout_of(&plan);
    c.bound_s = bound_time(s->model, &layout, s->cluster, price_cache_sums(s->prices, &layout.passes), NULL);
    if (c.bound_s < limit_s)
      g_array_append_val(tight, c);
  }
  for (guint i = 0; i < popped->len; i++)
    queue_push(s->over_queue, &g_array_index(popped, QueueItem, i));
  return tight;
}

static int by_time(gconstpointer a, gconstpointer b)
{
  const Candidate *x = a, *y = b;

  if (x->bound_s != y->bound_s)
    return x->bound_s < y->bound_s ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

void search_note_tight(Search *s)
{
  SearchResult *r = s->result;
  double whole_bytes = cluster_whole_bytes(s->cluster, s->cluster->device.memory_bytes);

  if (r->best->len == 0 || s->cluster->n_types > 0 || s->by_memory || s->cluster->memory_margin == 0)
    return;
  double limit_s = (1 - TIGHT_SHARE) * g_array_index(r->best, Found, 0).metrics.iteration_s;
  g_autoptr(GArray) tight = tight_over(s, whole_bytes, limit_s);
  g_array_sort(tight, by_time);
  for (guint i = 0, tries = 0; i < tight->len && tries < TIGHT_TRIES && !search_stops(s); i++) {
    const Candidate *c = &g_array_index(tight, Candidate, i);
    Plan plan = search_plan(s, c);
    const Layout layout = layout_of(&plan);
    const PriceSums *sums = price_cache_sums(s->prices, &layout.passes);
    if (c->bound_s >= limit_s)
      return;
    if (bound_memory_by_order(s->model, &layout, sums) > whole_bytes ||
        bound_time_by_order(s->model, &layout, s->cluster, sums) >= limit_s)
      continue;
    tries++;
    Found found = search_evaluate(s, c, &plan);
    if (found.metrics.iteration_s >= limit_s || search_need(s, &found.metrics) > whole_bytes)
      continue;
    limit_s = found.metrics.iteration_s;
    r->tight = found;
    r->has_tight = TRUE;
  }
}

void search_note_over(Search *s)
{
  SearchResult *r = s->result;
  double best = r->best->len > 0 ? g_array_index(r->best, Found, 0).metrics.iteration_s : INFINITY;
  const Candidate *c;

  if (r->best->len == 0 && s->options->least)
    note_least(s);
  for (int tries = 0; r->best->len > 0 && s->options->over && !r->has_over && tries < OVER_TRIES;) {
    if (!(c = next_over(s, OVER_GAIN * best)))
      return;
    Plan plan = search_plan(s, c);
    const Layout layout = layout_of(&plan);
    const PriceSums *sums = price_cache_sums(s->prices, &layout.passes);
    if (bound_time(s->model, &layout, s->cluster, sums, NULL) >= OVER_GAIN * best)
      continue;
    tries++;
    r->over = search_evaluate(s, c, &plan);
    r->has_over = r->over.metrics.iteration_s < best;
  }
}

/* Plans without recomputation that memory forbade: how many are bounded with the counts that they need, those
 * nearest to fitting first, and how many of these are tried, fastest first. */
#define REFINE_BOUNDED 256
#define REFINE_TRIES 4

static double first_value(const GArray *queue)
{
  const QueueItem *first = queue_first(queue);
  return first ? first->value : INFINITY;
}

/* Whether a part may hold plans that keep everything, and take less than so long. */
static gboolean may_keep(const Search *s, const QueueItem *item, double limit_s)
{
  if (item->kind != QUEUE_PART)
    return FALSE;
  const SpacePart *part = &g_array_index(s->parts, SpacePart, item->at);
  return part->bound_s < limit_s && (part->pass < 0 ? part->half == HALF_KEPT : part->recompute == RECOMPUTE_NONE);
}

/* Of the plans that keep everything, and may take less than so long, those that need least. Parts wait for what such
 * plans of theirs need, in a queue of their own. */
static GArray *least_over(Search *s, double limit_s)
{
  GArray *near = g_array_new(FALSE, FALSE, sizeof(Candidate));
  g_autoptr(GArray) popped = g_array_new(FALSE, FALSE, sizeof(QueueItem));
  g_autoptr(GArray) parts = g_array_new(FALSE, FALSE, sizeof(QueueItem));

  s->late = TRUE;
  while (near->len < REFINE_BOUNDED && s->over_queue->len + parts->len > 0 && !search_stops(s)) {
    gboolean is_part = parts->len > 0 && first_value(parts) <= first_value(s->over_queue);
    QueueItem item = queue_pop(is_part ? parts : s->over_queue);
    if (is_part) {
      const SpacePart part = g_array_index(s->parts, SpacePart, item.at);
      space_walk_enter(s->walk, &part);
    } else if (may_keep(s, &item, limit_s)) {
      item.value = space_all_kept_bytes(s->walk, &g_array_index(s->parts, SpacePart, item.at));
      queue_push(parts, &item);
    } else {
      g_array_append_val(popped, item);
      if (item.kind != QUEUE_PART && g_array_index(s->over, Candidate, item.at).pass.recompute == RECOMPUTE_NONE)
        g_array_append_val(near, g_array_index(s->over, Candidate, item.at));
    }
  }
  for (guint i = 0; i < parts->len; i++) {
    QueueItem item = g_array_index(parts, QueueItem, i);
    item.value = g_array_index(s->parts, SpacePart, item.at).memory_bytes;
    g_array_append_val(popped, item);
  }
  for (guint i = 0; i < popped->len; i++)
    queue_push(s->over_queue, &g_array_index(popped, QueueItem, i));
  return near;
}

static GArray *nearly_fitting(Search *s)
{
  double best_s = g_array_index(s->result->best, Found, 0).metrics.iteration_s;
  const Refine r = { s->model, s->cluster, s->prices, s->options->stop, best_s };
  GArray *near = least_over(s, best_s);

  for (guint i = 0; i < near->len && !search_stops(s); i++) {
    Candidate *c = &g_array_index(near, Candidate, i);
    Plan plan = search_plan(s, c);
    price_cache_trim(s->prices, PRICES_HELD_BYTES);
    c->value = refine_bound_s(&r, &plan);
  }
  g_array_sort(near, candidate_by_bound);
  return near;
}

static gboolean refine(Search *s, const Plan *plan, gint64 index, gint64 family, double step_s, Found *out)
{
  Refine r = { s->model, s->cluster, s->prices, s->options->stop, step_s };

  if (!refine_recompute(&r, plan, out))
    return FALSE;
  out->index = index;
  out->family = family;
  const Layout layout = layout_of(plan);
  out->value = search_value(s, s->objective, &layout, out->metrics.iteration_s, search_need(s, &out->metrics));
  return TRUE;
}

/* Whether the bounds of a plan let it fit, and be better than that. */
static gboolean may_beat(Search *s, const Plan *plan, double value)
{
  const Layout layout = layout_of(plan);

  price_cache_trim(s->prices, PRICES_HELD_BYTES);
  const PriceSums *sums = price_cache_sums(s->prices, &layout.passes);
  double bytes = bound_memory_by_order(s->model, &layout, sums);
  return bytes <= s->cluster->device.memory_bytes &&
         search_value(s, s->objective, &layout, bound_time(s->model, &layout, s->cluster, sums, NULL), bytes) < value &&
         search_value(s, s->objective, &layout, bound_time_by_order(s->model, &layout, s->cluster, sums), bytes) < value;
}

/* Takes the plan, made of what was found, where it fits and is better than `out`. FALSE: it does not fit, or is no better by
 * its bounds. */
static gboolean try_group(Search *s, const Found *found, const Plan *plan, Found *out)
{
  Simulation with = { .plan = *plan, .index = found->index };

  if (excluded_newly(plan, &found->plan, s->model, s->cluster) ||
      plan_check(plan, s->model, s->cluster, NULL) != RULE_NONE || !may_beat(s, plan, out->value))
    return FALSE;
  g_autoptr(PriceTable) prices = price_cache_own(s->prices, plan);
  simulation_complete(s->model, s->cluster, prices, &with);
  if (with.metrics.peak_memory_bytes > with.metrics.capacity_bytes)
    return FALSE;
  const Layout layout = layout_of(plan);
  double value = search_value(s, s->objective, &layout, with.metrics.iteration_s, search_need(s, &with.metrics));
  if (value < out->value) {
    out->plan = *plan;
    out->metrics = with.metrics;
    out->value = value;
  }
  return TRUE;
}

/* The plan as it takes least time with ZeRO-2 or 3 over a part of the ranks that the space does not divide over; FALSE where
 * all take as long. A smaller group needs more memory: where it does not fit as the plan is, more layers are offloaded, of
 * plans that the list has but the one with fewest of (found_same_but_offload). */
static gboolean regroup(Search *s, const Found *found, Found *out)
{
  const int ranks = plan_replicas(&found->plan), *fixed = s->options->fixed.value;
  gboolean open = fixed[KEY_SHARD_GROUP] < 0 && found->plan.framework->shard_groups;
  gboolean offloads = fixed[KEY_OFFLOAD_LAYERS] < 0 && found->plan.recompute == RECOMPUTE_NONE &&
                      space_offers_layers(s->options, s->cluster, &found->plan);

  *out = *found;
  for (int copies = 2; open && found->plan.zero >= 2 && ranks % copies == 0 && copies < ranks; copies *= 2) {
    Plan plan = found->plan;
    plan.shard_group = ranks / copies;
    gboolean tried = search_stops(s) || try_group(s, found, &plan, out);
    for (int i = 1; offloads && i <= OFFLOAD_CHOICES && !tried; i++) {
      plan.offload.layers = space_offloaded(s->model, i);
      tried = search_stops(s) || (plan.offload.layers > found->plan.offload.layers && try_group(s, found, &plan, out));
    }
  }
  return out->value < found->value;
}

/* Keeps what was made of a plan, unless it is among the best: of plans that differ in nothing but groups or recomputation
 * the same may be made, and it may be in the space. */
static void keep_refined(Search *s, const Found *found)
{
  for (guint i = 0; i < s->result->best->len; i++)
    if (plan_same(&g_array_index(s->result->best, Found, i).plan, &found->plan))
      return;
  search_keep(s, found);
  s->result->refined++;
}

static void refine_groups(Search *s)
{
  g_autoptr(GArray) best = g_array_copy(s->result->best);
  Found better;

  for (guint i = 0; i < best->len; i++)
    if (regroup(s, &g_array_index(best, Found, i), &better))
      keep_refined(s, &better);
}

static void refine_counts(Search *s)
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
    Plan plan = search_plan(s, c);
    if (c->value < last->metrics.iteration_s &&
        refine(s, &plan, c->index, c->family, last->metrics.iteration_s, &better))
      g_array_append_val(found, better);
  }
  for (guint i = 0; i < found->len; i++)
    keep_refined(s, &g_array_index(found, Found, i));
}

/* Counts of recomputed layers for what was found and for what nearly fits (recompute_counts.h); ranks that ZeRO-2 and 3
 * divides over. */
void search_refine(Search *s)
{
  if (s->options->fixed.value[KEY_RECOMPUTE] < 0)
    refine_counts(s);
  search_close_list(s);
  refine_groups(s);
  search_close_list(s);
}
