#include "search/ties.h"

#include "search/excluded.h"

#include <math.h>

/* What is known of a plan's standing in the group; of a candidate, from below. */
typedef struct {
  int beyond, mechanisms, memory; /* memory: in steps */
  double step_s;
} Standing;

typedef struct {
  Candidate candidate;
  Plan plan; /* the candidate's, or the same with another dispatcher */
  Standing standing;
} Tied;

static Standing standing_of(const Search *s, const Plan *plan, double memory_bytes, double step_s)
{
  const Accuracy *accuracy = s->options->accuracy;
  double share = memory_bytes / s->cluster->device.memory_bytes;
  int beyond = 0;

  if (accuracy) {
    const Layout layout = layout_of(plan);
    beyond = accuracy_beyond(accuracy, s->model, &layout, s->cluster);
  }
  int steps = MAX(0, (int)ceil((share - TIE_MEMORY_SAFE) / TIE_MEMORY_STEP));
  return (Standing) { beyond, plan_mechanisms(plan), steps, step_s };
}

static Standing standing_of_found(const Search *s, const Found *found)
{
  return standing_of(s, &found->plan, search_need(s, &found->metrics), found->metrics.iteration_s);
}

static int compare_standings(const Standing *a, const Standing *b)
{
  if (a->beyond != b->beyond)
    return a->beyond - b->beyond;
  if (a->mechanisms != b->mechanisms)
    return a->mechanisms - b->mechanisms;
  if (a->memory != b->memory)
    return a->memory - b->memory;
  return (a->step_s > b->step_s) - (a->step_s < b->step_s);
}

static int by_standing(gconstpointer a, gconstpointer b)
{
  const Tied *x = a, *y = b;
  int order = compare_standings(&x->standing, &y->standing);

  return order ? order : candidate_by_bound(&x->candidate, &y->candidate);
}

static void add_plan(const Search *s, const Candidate *c, const Plan *plan, const Standing *known, GArray *list)
{
  Tied t = { *c, *plan, standing_of(s, plan, c->memory_bytes, c->bound_s) };

  t.candidate.pass.after = 0;
  if (compare_standings(&t.standing, known) < 0)
    g_array_append_val(list, t);
}

/* The same with other dispatchers, which the space may have left out as never faster: its bounds hold for these, and the
 * others stand there themselves. Without `accuracy` only fewer mechanisms come before. */
static void add_dispatchers(const Search *s, const Candidate *c, const Plan *plan, const Standing *known, GArray *list)
{
  Plan other = *plan;

  if (s->options->fixed.value[KEY_DISPATCH] >= 0 || !plan_experts_apart(plan))
    return;
  for (int i = 0; i < DISPATCH_COUNT; i++) {
    other.dispatch = i;
    if (plan->framework->dispatch >> i & 1 && other.dispatch != plan->dispatch &&
        (s->options->accuracy || plan_mechanisms(&other) < plan_mechanisms(plan)) &&
        plan_check(&other, s->model, s->cluster, NULL) == RULE_NONE &&
        !excluded_newly(&other, plan, s->model, s->cluster))
      add_plan(s, c, &other, known, list);
  }
}

/* Of the plans that a candidate stands for, one for each set of modules, those whose bounds allow it. */
static void add_tied(const Search *s, Candidate c, double limit_s, const Standing *known, GArray *list)
{
  for (gboolean own = !c.behind, more = TRUE; more; own = FALSE) {
    gboolean fits = own || search_bound(s, &c);
    Plan plan = search_plan(s, &c);
    if (fits && c.bound_s <= limit_s) {
      add_plan(s, &c, &plan, known, list);
      add_dispatchers(s, &c, &plan, known, list);
    }
    more = c.pass.after > 0 && c.bound_s <= limit_s && !search_stops(s);
    c = more ? candidate_next(&s->store, &c) : c;
  }
}

/* Those whose bounds allow a step of that length, and a standing before this one. */
static GArray *tied_candidates(const Search *s, double limit_s, const Standing *known)
{
  GArray *list = g_array_new(FALSE, FALSE, sizeof(Tied));

  for (guint i = 0; i < s->candidates->len && !search_stops(s); i++) {
    const Candidate *c = &g_array_index(s->candidates, Candidate, i);
    if (c->bound_s > limit_s)
      break; /* they are sorted by it */
    add_tied(s, *c, limit_s, known, list);
  }
  g_array_sort(list, by_standing);
  return list;
}

/* Closer bounds of a candidate; FALSE if it cannot be of the group and fit. */
static gboolean bound_closer(const Search *s, Tied *t, double limit_s)
{
  const Layout layout = layout_of(&t->plan);
  const PriceSums *sums = price_cache_sums(s->prices, &layout.passes);
  double bytes = fmax(t->candidate.memory_bytes, bound_memory_by_order(s->model, &layout, sums));

  if (bytes > s->cluster->device.memory_bytes)
    return FALSE;
  double step_s = fmax(t->candidate.bound_s, bound_time_by_order(s->model, &layout, s->cluster, sums));
  t->standing = standing_of(s, &t->plan, bytes, step_s);
  return step_s <= limit_s;
}

void search_ties(Search *s)
{
  SearchResult *r = s->result;

  if (r->best->len == 0 || s->options->tie <= 0 || s->options->second || s->objective != &objectives[0])
    return;
  r->robust = g_array_index(r->best, Found, 0);
  if (r->open > 0 || r->cut) /* who stopped the search waits for it */
    return;
  double limit_s = r->robust.metrics.iteration_s * (1 + s->options->tie);
  Standing known = standing_of_found(s, &r->robust);
  g_autoptr(GArray) list = tied_candidates(s, limit_s, &known);
  for (guint i = 0; i < list->len && !search_stops(s); i++) {
    Tied *t = &g_array_index(list, Tied, i);
    if (compare_standings(&t->standing, &known) >= 0)
      break;
    if (!bound_closer(s, t, limit_s) || compare_standings(&t->standing, &known) >= 0)
      continue;
    Found found = search_evaluate(s, &t->candidate, &t->plan);
    Standing standing = standing_of_found(s, &found);
    if (found.metrics.iteration_s > limit_s || found.metrics.peak_memory_bytes > found.metrics.capacity_bytes ||
        compare_standings(&standing, &known) >= 0)
      continue;
    r->robust = found;
    known = standing;
  }
}
