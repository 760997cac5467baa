#include "search/search_parts.h"

#include "plan/nearest.h"

#include <math.h>

const char *reject_name(int reason)
{
  return reason == REJECT_MEMORY     ? "does not fit in memory"
         : reason == REJECT_BEATEN ? "another choice is no worse"
                                     : plan_rule_names[reason];
}

const char *reject_text(int reason)
{
  return reason == RULE_SCHEDULE  ? "the schedule cannot run with this shape"
         : reason == RULE_CONTEXT  ? "context parallelism cannot be used here"
         : reason == REJECT_BEATEN ? "a similar plan is no slower and needs no more memory"
                                   : reject_name(reason);
}

const char *settled_name(int how)
{
  static const char *const names[] = { "bounded", "simulated", "open" };
  return how < REJECT_COUNT ? reject_name(how) : names[how - REJECT_COUNT];
}

gboolean search_stops(const Search *s)
{
  return stop_asked(s->options->stop);
}

Plan search_plan(const Search *s, const Candidate *c)
{
  return candidate_plan(&s->store, c);
}

static void settled(const Search *s, const Plan *plan, int how, double value, gint64 plans, int open)
{
  if (s->options->audit)
    s->options->audit(s->options->data, plan, how, value, plans, open);
}

void search_reject(Search *s, const Plan *plan, int reason, double value, gint64 plans, int open)
{
  if (s->result->rejected[reason] == 0)
    s->result->sample[reason] = *plan;
  s->result->rejected[reason] += plans;
  s->result->grouped += plans > 1 ? plans : 0;
  settled(s, plan, reason, value, plans, open);
}

/* The candidate with the next set of modules behind it, if it stands for that; and its plan where it is shown. */
static gboolean next_set(const Search *s, Candidate *c, Plan *plan)
{
  if (c->pass.after == 0)
    return FALSE;
  *c = candidate_next(&s->store, c);
  if (s->options->audit)
    *plan = search_plan(s, c);
  return TRUE;
}

/* Of all the sets behind one, the last keeps least. */
void search_put_over(Search *s, Candidate candidate, const Plan *plan, double memory_bytes)
{
  QueueItem item = { .value = memory_bytes, .index = candidate.index, .at = s->over->len, .kind = QUEUE_CANDIDATE };
  gint64 variants = variant_count(candidate.switches);
  Plan next = { 0 };

  if (plan)
    search_reject(s, plan, REJECT_MEMORY, memory_bytes, variants, OPEN_OVERLAPS);
  while (candidate.behind && next_set(s, &candidate, &next))
    if (plan)
      search_reject(s, &next, REJECT_MEMORY, memory_bytes, variants, OPEN_OVERLAPS);
  candidate.memory_bytes = memory_bytes;
  candidate.pass.after = candidate.behind = 0;
  g_array_append_val(s->over, candidate);
  queue_push(s->over_queue, &item);
}

/* In what the plans of a part may differ. */
static int open_of(const SpacePart *part)
{
  return part->pass < 0 ? PLAN_SCHEDULE : PLAN_STATES;
}

void search_put_part_over(Search *s, guint at)
{
  const SpacePart *part = &g_array_index(s->parts, SpacePart, at);
  QueueItem item = { .value = part->memory_bytes, .index = part->index, .at = at, .kind = QUEUE_PART };
  gboolean shown = s->options->audit || s->result->rejected[REJECT_MEMORY] == 0;
  Plan plan = shown ? space_part_plan(s->walk, part) : (Plan) { 0 };

  if (!s->late)
    search_reject(s, &plan, REJECT_MEMORY, part->memory_bytes, part->plans, open_of(part));
  queue_push(s->over_queue, &item);
}

double search_value(const Search *s, const Objective *objective, const Layout *layout, double step_s,
                    double memory_bytes)
{
  return objective ? objective->value(layout, s->cluster, step_s, memory_bytes) : 0;
}

double search_need(const Search *s, const Metrics *m)
{
  return memory_in_room(s->cluster, m->peak_memory_bytes, m->capacity_bytes);
}

static Found found_of(const Search *s, const Candidate *base, const Simulation *simulated)
{
  const Metrics *m = &simulated->metrics;
  const Layout layout = layout_of(&simulated->plan);
  Found f = { .plan = simulated->plan, .metrics = *m, .bound_s = base->bound_s, .index = simulated->index,
              .family = base->family };

  f.value = search_value(s, s->objective, &layout, m->iteration_s, search_need(s, m));
  f.second = search_value(s, s->options->second, &layout, m->iteration_s, search_need(s, m));
  return f;
}

/* A candidate's first variant, or a plan like it, simulated out of turn. */
Found search_evaluate(const Search *s, const Candidate *c, const Plan *plan)
{
  Simulation simulation = { .plan = *plan, .index = c->index };
  g_autoptr(PriceTable) prices = price_cache_own(s->prices, &simulation.plan);

  simulation_complete(s->model, s->cluster, prices, &simulation);
  return found_of(s, c, &simulation);
}

static gboolean beats(const Found *a, const Found *b)
{
  return a->value <= b->value && a->second <= b->second;
}

gboolean found_same_but_offload(const Found *a, const Found *b)
{
  Plan plan = a->plan;

  if (fabs(a->value - b->value) > VALUE_ROUNDING * fabs(b->value) || plan.offload.layers == b->plan.offload.layers)
    return FALSE;
  plan.offload.layers = b->plan.offload.layers;
  return plan_same(&plan, &b->plan);
}

/* Whether a list has one of the two alone, and that is the first. */
static gboolean stands_for(const Found *a, const Found *b)
{
  return a->family == b->family ? a->value <= b->value
                                : a->plan.offload.layers < b->plan.offload.layers && found_same_but_offload(a, b);
}

/* Drops what the plan beats: on a front all of that, else what it stands for. FALSE if it is beaten: nothing is dropped. */
static gboolean make_room(const Search *s, const Found *found)
{
  gboolean (*drops)(const Found *a, const Found *b) = s->options->second ? beats : stands_for;
  GArray *best = s->result->best;

  for (guint i = 0; i < best->len; i++)
    if (drops(&g_array_index(best, Found, i), found))
      return FALSE;
  for (guint i = best->len; i-- > 0;)
    if (drops(found, &g_array_index(best, Found, i)))
      g_array_remove_index(best, i);
  return TRUE;
}

/* Among equals plans with all overlaps come first, then the lower bound, then the place in the space. */
static gboolean comes_first(const Found *a, const Found *b)
{
  gboolean first = a->index == a->family, second = b->index == b->family;

  if (a->value != b->value)
    return a->value < b->value;
  if (first != second)
    return first;
  return a->bound_s != b->bound_s ? a->bound_s < b->bound_s : a->index < b->index;
}

/* Keeps the list sorted, with as many plans again behind it: where one takes the place of two, the next comes back. */
void search_keep(const Search *s, const Found *found)
{
  GArray *best = s->result->best;
  guint at, most = s->options->second ? G_MAXUINT : 2u * s->options->top;

  if (!make_room(s, found))
    return;
  for (at = best->len; at > 0 && comes_first(found, &g_array_index(best, Found, at - 1)); at--)
    ;
  if (at < most)
    g_array_insert_val(best, at, *found);
  if (best->len > most)
    g_array_set_size(best, most);
}

void search_close_list(const Search *s)
{
  GArray *best = s->result->best;

  if (!s->options->second)
    g_array_set_size(best, MIN(best->len, (guint)s->options->top));
}

/* Whether plans with these bounds may still be among the best. */
gboolean search_promises(const Search *s, double value, double second)
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

/* Whether a variant with these bounds may be better than all; on a front, than those it is beside. */
gboolean search_variant_promises(const Search *s, double value, double second)
{
  const GArray *best = s->result->best;

  if (s->options->second)
    return search_promises(s, value, second);
  return best->len == 0 || value < g_array_index(best, Found, 0).value;
}

static void skip(Search *s, const Plan *plan, double value, gboolean stopped, gint64 plans, int open)
{
  SearchResult *r = s->result;

  *(stopped ? &r->open : &r->bounded) += plans;
  r->grouped += plans > 1 ? plans : 0;
  r->least_bound = MIN(r->least_bound, value);
  settled(s, plan, stopped ? SETTLED_OPEN : SETTLED_BOUNDED, value, plans, open);
}

void search_skip(Search *s, const Plan *plan, double value, gboolean stopped, gint64 plans)
{
  skip(s, plan, value, stopped, plans, OPEN_OVERLAPS);
}

void search_skip_candidate(Search *s, const Candidate *candidate, double value, gboolean stopped)
{
  gint64 variants = variant_count(candidate->switches);
  Candidate c = *candidate;
  Plan plan = s->options->audit ? search_plan(s, &c) : (Plan) { 0 };

  search_note(s, &c, c.bound_s);
  do
    search_skip(s, &plan, value, stopped, variants);
  while (next_set(s, &c, &plan));
}

void search_skip_part(Search *s, const SpacePart *part, double value, gboolean stopped)
{
  Plan plan = s->options->audit ? space_part_plan(s->walk, part) : (Plan) { 0 };
  skip(s, &plan, value, stopped, part->plans, open_of(part));
}

void search_enter(Search *s, guint at, double value)
{
  const SpacePart part = g_array_index(s->parts, SpacePart, at);
  Within in = { TRUE, .part = s->parts->len, .candidate = s->candidates->len };

  if (space_walk_enter(s->walk, &part)) {
    in.parts_end = s->parts->len;
    in.candidates_end = s->candidates->len;
    g_array_index(s->parts, SpacePart, at).split = part.uneven && part.pass >= 0 ? space_walk_splits(s->walk) : 0;
    g_array_index(s->within, Within, at) = in;
    return;
  }
  s->halfway = at;
  s->halfway_value = value;
}

gboolean search_divide(Search *s, guint at)
{
  SpacePart *part = &g_array_index(s->parts, SpacePart, at), others;
  const double bound_s = part->bound_s;

  if (s->options->brief || s->by_memory || part->pass >= 0 || !space_divide_part(s->walk, part, &others))
    return FALSE;
  gboolean waits = part->bound_s > bound_s;
  g_array_append_val(s->parts, others);
  g_array_set_size(s->within, s->parts->len);
  search_put_part_over(s, s->parts->len - 1);
  return waits;
}

double search_order_s(Search *s, const Plan *plan, const Layout *layout, const PriceSums *sums)
{
  double order_s = s->options->known > 0 ? floors_of_order(s->options->floors, plan) : 0;

  if (order_s > 0 && search_value(s, s->objective, layout, order_s, 0) > s->options->known)
    return order_s;
  order_s = bound_time_by_order(s->model, layout, s->cluster, sums);
  if (s->options->brief)
    floors_add_order(s->result->bounds, plan, order_s);
  return order_s;
}

void search_note(Search *s, const Candidate *c, double bound_s)
{
  double *closest = &g_array_index(s->closest, double, c->entry);
  *closest = MIN(*closest, bound_s);
}

/* Seconds of the plans that were met in a part and fit, at least. */
static double least_met(const Search *s, const Within *in)
{
  double least_s = INFINITY;

  for (guint i = in->candidate; i < in->candidates_end; i++)
    least_s = MIN(least_s, s->result->open ? g_array_index(s->candidates, Candidate, i).bound_s
                                           : g_array_index(s->closest, double, i));
  return least_s;
}

/* Seconds of the plans of a part that fit, at least. */
static double least_within(const Search *s, guint at)
{
  const SpacePart *part = &g_array_index(s->parts, SpacePart, at);
  const Within *in = &g_array_index(s->within, Within, at);
  double least_s = in->entered && !part->uneven ? INFINITY : part->bound_s;

  if (part->memory_bytes > s->cluster->device.memory_bytes)
    return INFINITY;
  least_s = MIN(least_s, least_met(s, in));
  for (guint i = in->part; i < in->parts_end; i++)
    least_s = fmin(least_s, least_within(s, i));
  return MAX(least_s, part->bound_s);
}

/* The same of those of an uneven choice of passes, with the splits that they have here; 0: not known. */
static double least_split(const Search *s, guint at)
{
  const SpacePart *part = &g_array_index(s->parts, SpacePart, at);
  const Within *in = &g_array_index(s->within, Within, at);

  if (part->split == 0 || !in->entered)
    return part->split_s;
  return MAX(least_met(s, in), part->bound_s);
}

/* What those of a part that do not make whole blocks again need at least; 0: nobody looked. */
static double least_kept(const Search *s, guint at)
{
  const Within *in = &g_array_index(s->within, Within, at);
  double least = INFINITY, device = s->cluster->device.memory_bytes;
  gboolean divided = g_array_index(s->parts, SpacePart, at).half != HALF_BOTH;

  if (!in->entered || divided || s->options->fixed.value[KEY_RECOMPUTE_LAYERS] >= 0)
    return 0;
  for (guint i = in->part; i < in->parts_end; i++) {
    const SpacePart *choice = &g_array_index(s->parts, SpacePart, i);
    double bytes = choice->memory_bytes;
    if (isinf(bytes))
      bytes = floors_of_choice(s->options->floors, choice->index, device).memory_bytes;
    if (choice->pass >= 0 && choice->recompute != RECOMPUTE_FULL)
      least = MIN(least, bytes);
  }
  return least;
}

void search_raise_bounds(Search *s)
{
  Floors *bounds = s->result->bounds;

  for (guint i = 0; i < s->parts->len; i++) {
    const SpacePart *part = &g_array_index(s->parts, SpacePart, i);
    const ChoiceFloor choice = { part->index, least_within(s, i), isinf(part->memory_bytes) ? 0 : part->memory_bytes,
                                 least_split(s, i), part->split };
    if (part->pass < 0 && part->half == HALF_KEPT)
      continue; /* the other half says what fits */
    if (part->pass < 0) {
      PartFloor *floor = &g_array_index(bounds->parts, PartFloor, part->batch);
      floor->bound_s = choice.bound_s;
      floor->kept_bytes = MAX(part->kept_bytes, least_kept(s, i));
    } else if (s->options->brief) {
      g_array_append_val(bounds->choices, choice);
    }
  }
  floors_sort(bounds);
}

void search_settle_halfway(Search *s)
{
  SearchResult *r = s->result;
  gint64 left = r->space - r->bounded - r->simulated - r->open;

  if (s->halfway < 0)
    return;
  const SpacePart *part = &g_array_index(s->parts, SpacePart, s->halfway);
  Plan plan = space_part_plan(s->walk, part);
  for (int i = 0; i < REJECT_COUNT; i++)
    left -= r->rejected[i];
  gboolean open = search_promises(s, s->halfway_value, search_second(s, &s->layout, part->bound_s, part->memory_bytes));
  if (left > 0)
    skip(s, &plan, s->halfway_value, open, left, open_of(part));
}

double search_second(const Search *s, const Layout *layout, double bound_s, double memory_bytes)
{
  return search_value(s, s->options->second, layout, bound_s, memory_bytes);
}

/* A simulated plan, counted and kept; FALSE if it does not fit. */
gboolean search_settle(Search *s, const Candidate *base, const Simulation *simulated)
{
  const Metrics *m = &simulated->metrics;

  search_note(s, base, base->bound_s);
  if (m->peak_memory_bytes > m->capacity_bytes) {
    search_reject(s, &simulated->plan, REJECT_MEMORY, search_need(s, m), 1, OPEN_OVERLAPS);
    return FALSE;
  }
  Found f = found_of(s, base, simulated);
  s->result->simulated++;
  settled(s, &f.plan, SETTLED_SIMULATED, f.value, 1, OPEN_OVERLAPS);
  search_keep(s, &f);
  return TRUE;
}
