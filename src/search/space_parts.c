/* Parts of the space: bounds of many plans as one, and the way back to them. */
#include "search/space_walk.h"

#include <math.h>
#include <string.h>

/* ---- dispatchers ---- */

guint space_dispatchers(const Walk *w, const Plan *plan)
{
  gboolean open = w->options->fixed.value[KEY_DISPATCH] < 0 && plan_experts_apart(plan) && w->n_states > 0;
  guint runs = 0;
  Plan own = *plan;

  for (int i = 0; i < DISPATCH_COUNT && open; i++) {
    own.dispatch = i;
    if (plan->framework->dispatch >> i & 1 && space_check_part(w, &own, PLAN_DEGREES) == RULE_NONE)
      runs |= 1u << i;
  }
  return runs ? runs : 1u << plan->dispatch;
}

/* Whether the same plan with another dispatcher is legal, as fast and as small in every pass, whatever it makes again:
 * of sets of modules with the last, those before it make no other ops of the exchange again. */
static gboolean is_beaten(const Walk *w, Plan plan, ExpertDispatch other)
{
  plan.vpp = MAX(plan.vpp, 2); /* chunks enough for passes side by side */
  Plan rival = plan;

  rival.dispatch = other;
  for (int i = 0; i < w->n_passes; i++) {
    PassLayout own, theirs;
    space_choose(&plan, &w->passes[i], &w->states[0]);
    if (w->passes[i].recompute == RECOMPUTE_SELECTIVE && w->passes[i].after > 0)
      continue;
    if (space_check_part(w, &plan, PLAN_PASSES) != RULE_NONE)
      continue;
    space_choose(&rival, &w->passes[i], &w->states[0]);
    if (space_check_part(w, &rival, PLAN_PASSES) != RULE_NONE)
      return FALSE;
    pass_layout_init(&own, &plan);
    pass_layout_init(&theirs, &rival);
    if (!price_cache_never_better(w->prices, &own, &theirs))
      return FALSE;
  }
  return TRUE;
}

guint space_beaten(const Walk *w, const Plan *plan, guint open)
{
  guint beaten = 0;
  Plan own = *plan;

  for (int i = DISPATCH_COUNT - 1; i >= 0; i--) { /* the newest first */
    own.dispatch = i;
    for (int k = i + 1; k < DISPATCH_COUNT && open >> i & 1 && !(beaten >> i & 1); k++)
      beaten |= open >> k & ~beaten >> k & 1 && is_beaten(w, own, k) ? 1u << i : 0;
  }
  return beaten;
}

/* ---- choices of passes ---- */

/* Whether it is no use to make the attention core again rather than the first set of modules, as where fused kernels
 * keep nothing of it: that frees less and takes longer. */
static gboolean core_is_beaten(const Walk *w, Plan plan, const PassChoice *core)
{
  PassChoice first = *core;
  PassLayout own, theirs;

  space_choose(&plan, core, &w->states[0]);
  if (space_check_part(w, &plan, PLAN_PASSES) != RULE_NONE)
    return FALSE;
  pass_layout_init(&own, &plan);
  first.modules = w->sets.sets[0];
  space_choose(&plan, &first, &w->states[0]);
  if (space_check_part(w, &plan, PLAN_PASSES) != RULE_NONE)
    return FALSE;
  pass_layout_init(&theirs, &plan);
  return price_cache_made_again_in_vain(w->prices, &own, &theirs);
}

static gboolean is_core(const PassChoice *pass)
{
  return pass->recompute == RECOMPUTE_SELECTIVE && !pass->modules;
}

void space_find_beaten(Walk *w, const Plan *plan, int rule)
{
  gboolean open = w->options->fixed.value[KEY_RECOMPUTE] < 0 && w->sets.n > 0 && w->n_states > 0 && rule == RULE_NONE;

  for (int i = 0; i < w->n_passes; i++)
    w->beaten[i] = open && is_core(&w->passes[i]) && core_is_beaten(w, *plan, &w->passes[i]);
}

/* ---- micro-batches ---- */

/* Whether plans are tried with other graphs too than those of the first choice, which has none. */
static gboolean graphs_differ(const Walk *w)
{
  gboolean others = FALSE;

  for (int i = 1; i < w->n_passes; i++)
    others |= w->passes[i].graph != GRAPH_NONE;
  return w->passes[0].graph == GRAPH_NONE && others;
}

/* Whether the same without graphs, on a host that is never waited for, takes no longer and no more memory. */
static gboolean is_stood_for(const Walk *w, const PassLayout *passes)
{
  return passes->graph != GRAPH_NONE && graphs_differ(w) && !pass_is_mxfp8_graph(passes);
}

/* To those that make again what the plan does, or as if it made nothing again. */
static void add_least(const Walk *w, const Plan *plan, gboolean made)
{
  GArray *all = w->bound.least[made];
  LeastPasses own = { .schedules = 1u << schedule_index(plan->schedule) };

  pass_layout_init(&own.passes, plan);
  if (!made)
    pass_layout_keep(&own.passes);
  own.unhosted = own.passes.graph == GRAPH_NONE && graphs_differ(w);
  if (is_stood_for(w, &own.passes))
    return;
  for (guint i = 0; i < all->len; i++) {
    LeastPasses *known = &g_array_index(all, LeastPasses, i);
    if (memcmp(&known->passes, &own.passes, sizeof own.passes) == 0) {
      known->schedules |= own.schedules;
      return;
    }
  }
  g_array_append_val(all, own);
}

/* Whether a rule turns down a choice of passes under any state and micro-batch, of which the largest breaks none that
 * a smaller one keeps. */
static gboolean passes_broken(const Walk *w, const Plan *plan)
{
  Plan fewest = *plan;

  fewest.micro_batch = MAX(1, plan->global_batch / plan->dp);
  return space_check_part(w, &fewest, PLAN_PASSES) != RULE_NONE;
}

gboolean space_zero_broken(const Walk *w, const Plan *plan)
{
  return space_check_part(w, plan, PLAN_STATES) == RULE_ZERO;
}

/* Of a choice of passes with and without ZeRO-3's gathers, with tensor overlap and without. Of either the first state
 * stands for all: space_states() lists stages from 0 up, and first the group of the most shards, so that none
 * reads and writes less around sums of gradients (PassLayout.shard_bytes). */
static void add_states(const Walk *w, Plan plan, const PassChoice *pass, gboolean made)
{
  gboolean added[2] = { FALSE };

  for (int k = 0; k < w->n_states; k++) {
    gboolean *known = &added[w->states[k].zero == 3];
    space_choose(&plan, pass, &w->states[k]);
    if (*known || space_zero_broken(w, &plan))
      continue;
    *known = TRUE;
    add_least(w, &plan, made);
    if (w->options->fixed.value[KEY_OVERLAP] < 0 && space_switches(&plan) & OVERLAP_TENSOR) {
      Plan without = plan;
      space_switch_off(&without, OVERLAP_TENSOR);
      add_least(w, &without, made);
    }
  }
}

/* Prices differ by what divides activations, by whether ZeRO-3 gathers and what its and ZeRO-2's shards read and write,
 * by dispatcher and tensor overlap. */
static void add_passes(const Walk *w, const Plan *group, guint dispatchers, gboolean made)
{
  Plan plan = *group;

  for (int d = 0; d < DISPATCH_COUNT; d++) {
    const PassChoice *last = NULL; /* that was added */
    plan.dispatch = d;
    for (int i = 0; i < w->n_passes && dispatchers >> d & 1; i++) {
      const PassChoice *pass = &w->passes[i];
      if (made && pass->recompute != RECOMPUTE_FULL)
        continue;
      if (last && pass->sequence_parallel == last->sequence_parallel && pass->exchange == last->exchange &&
          pass->graph == last->graph && pass->graph_modules == last->graph_modules &&
          pass->switches == last->switches)
        continue;
      space_choose(&plan, pass, &w->states[0]);
      if (passes_broken(w, &plan))
        continue;
      last = pass;
      add_states(w, plan, pass, made);
    }
  }
}

static void add_group(Walk *w, const Plan *group, gconstpointer dispatchers)
{
  LeastShape shape = { schedule_index(group->schedule), group->vpp };

  w->bound.plans += w->n_passes * w->variants;
  g_array_append_val(w->bound.shapes, shape);
  add_passes(w, group, *(const guint *)dispatchers, FALSE);
}

static void add_made(Walk *w, const Plan *group, gconstpointer dispatchers)
{
  add_passes(w, group, *(const guint *)dispatchers, TRUE);
}

static void choose_of(Walk *w, guint degrees)
{
  if (w->at != degrees + 1)
    space_choices(w, &g_array_index(w->degrees, Plan, degrees));
  w->at = degrees + 1;
}

static Plan degrees_of(SpaceWalk *w, const SpacePart *part)
{
  Plan plan = g_array_index(w->degrees, Plan, part->degrees);

  choose_of(w, part->degrees);
  plan.micro_batch = part->micro_batch;
  return plan;
}

/* Works out what bounds of the degrees go by, and what plans of them may choose. */
static void bound_degrees(Walk *w, guint degrees)
{
  Plan plan = g_array_index(w->degrees, Plan, degrees);

  if (w->bound.of == degrees + 1)
    return;
  choose_of(w, degrees);
  plan.micro_batch = 1;
  guint open = space_dispatchers(w, &plan);
  plan.dispatch = g_bit_nth_lsf(open, -1);
  w->bound.of = degrees + 1;
  w->bound.plans = 0;
  w->bound.state_bytes = -1;
  w->bound.working_bytes = 0;
  g_array_set_size(w->bound.least[0], 0);
  g_array_set_size(w->bound.shapes, 0);
  if (space_check_part(w, &plan, PLAN_DEGREES) == RULE_NONE)
    space_each_group(w, plan, add_group, &open);
  w->bound.plans *= space_count_orders(w) * __builtin_popcount(open);
}

static double mean_capacity(const Cluster *c)
{
  double bytes = c->n_types ? 0 : c->device.memory_bytes;

  for (int i = 0; i < c->n_types; i++)
    bytes += c->types[i]->device.memory_bytes * c->types[i]->devices / c->devices;
  return bytes;
}

double space_mean_in_room(const Cluster *c, double bytes)
{
  return memory_in_room(c, bytes, mean_capacity(c)) * (1 - 1e-9);
}

static Frozen share(Frozen all, double ranks)
{
  return (Frozen) { all.params / ranks, all.bytes / ranks };
}

/* On which weights take least. */
static const Device *least_device(const Cluster *c)
{
  for (int i = 0; i < c->n_types; i++)
    if (c->types[i]->device.fp8_columns)
      return &c->types[i]->device;
  return &c->device;
}

double space_mean_state_bytes(const Walk *w, const Layout *l, const LeastWork *work)
{
  const Device *device = least_device(w->cluster);
  double ranks = l->pipeline.shape.ranks;
  const double *narrow = work->narrow;
  HeldBytes dense = op_held(&l->states[0], device, work->params / ranks, narrow[0] / ranks,
                            share(work->frozen[0], ranks), 0);
  HeldBytes apart = op_held(&l->states[1], device, work->expert_params / ranks, narrow[1] / ranks,
                            share(work->frozen[1], ranks), 0);

  return op_overhead_bytes(l) + held_state_bytes(&dense) + (l->passes.experts_apart ? held_state_bytes(&apart) : 0);
}

static double least_state_bytes(const Walk *w, Plan plan, guint in_schedules, const LeastWork *work)
{
  double bytes = INFINITY;

  plan_set_schedule(&plan, schedules[g_bit_nth_lsf(in_schedules, -1)], 1);
  for (int i = 0; i < w->n_states; i++) {
    space_choose(&plan, &w->passes[0], &w->states[i]);
    if (space_zero_broken(w, &plan))
      continue;
    const Layout layout = layout_of(&plan);
    double own = space_mean_state_bytes(w, &layout, work);
    if (own < bytes) /* what a state that rules turn down comes to is no number */
      bytes = own;
  }
  return isinf(bytes) ? 0 : space_mean_in_room(w->cluster, bytes);
}

/* Whether a rank has no room of its own for a layer's backward: weight gradients apart from it, or kept bytes that
 * leave the device. */
static gboolean works_elsewhere(const Walk *w)
{
  gboolean elsewhere = w->cluster->n_types > 0;

  for (guint i = 0; i < w->bound.shapes->len; i++)
    elsewhere |= schedules[g_array_index(w->bound.shapes, LeastShape, i).schedule]->split;
  for (int i = 0; i < w->n_passes; i++)
    elsewhere |= w->passes[i].activations;
  return elsewhere;
}

static gboolean same_weights(const LeastWork *a, const LeastWork *b)
{
  return a->params == b->params && a->expert_params == b->expert_params &&
         memcmp(a->narrow, b->narrow, sizeof a->narrow) == 0 && memcmp(a->frozen, b->frozen, sizeof a->frozen) == 0;
}

static double least_states(const Walk *w, const Plan *plan)
{
  const LeastPasses *last = NULL;
  LeastWork work, before = { 0 };
  double bytes = INFINITY;

  for (guint i = 0; i < w->bound.least[0]->len; i++) {
    LeastPasses *least = &g_array_index(w->bound.least[0], LeastPasses, i);
    least->passes.micro_batch = plan->micro_batch;
    work = price_cache_least(w->prices, &least->passes, least->unhosted);
    if (!last || least->schedules != last->schedules || !same_weights(&work, &before))
      bytes = fmin(bytes, least_state_bytes(w, *plan, least->schedules, &work));
    before = work;
    last = least;
  }
  return bytes;
}

/* Of all schedules that run so many micro-batches; INFINITY if none does. */
static double least_of_shapes(const Walk *w, const Plan *plan, const LeastPasses *least, const LeastWork *work)
{
  int micro = plan_micro_batches(plan);
  double least_s = INFINITY;

  for (guint k = 0; k < w->bound.shapes->len; k++) {
    const LeastShape *shape = &g_array_index(w->bound.shapes, LeastShape, k);
    ScheduleShape own = { .ranks = plan->pp, .micro = micro, .chunks = shape->chunks };
    if (least->schedules >> shape->schedule & 1 && schedule_check(schedules[shape->schedule], &own, NULL))
      least_s = fmin(least_s, least_step_s(work, schedules[shape->schedule], &own));
  }
  return least_s;
}

/* Whether dispatchers that the framework does not run, of which layers may need less, have a floor to be found. */
static gboolean dispatched_otherwise(const Walk *w, const Plan *plan)
{
  return !w->options->brief && plan_experts_apart(plan) && plan->framework->dispatch != (1u << DISPATCH_COUNT) - 1;
}

/* Of all plans of a micro-batch: nothing made again, and nothing but passes. Beside states the average rank needs what
 * the backward of a layer does; of several one may hold the embedding alone. */
static void bound_batch(Walk *w, const Plan *plan, SpacePart *part)
{
  double least_s = INFINITY, working = INFINITY, ranks = plan->pp > 1 ? (plan->pp - 1.0) / plan->pp : 1;
  double lost = 1 + plan->framework->fragmentation;

  part->compute_s = INFINITY;
  for (guint i = 0; i < w->bound.least[0]->len; i++) {
    LeastPasses *least = &g_array_index(w->bound.least[0], LeastPasses, i);
    least->passes.micro_batch = plan->micro_batch;
    LeastWork work = price_cache_least(w->prices, &least->passes, least->unhosted);
    least_s = fmin(least_s, least_of_shapes(w, plan, least, &work));
    part->compute_s = MIN(part->compute_s, work.seconds[LEAST_COMPUTE][1] * plan_micro_batches(plan) / plan->pp);
    working = MIN(working, work.working_bytes);
  }
  part->bound_s = (isinf(least_s) ? 0 : least_s) + plan->framework->step_s;
  double device = w->cluster->device.memory_bytes / (1 - w->cluster->memory_margin);
  part->memory_bytes = works_elsewhere(w) ? 0 : working * ranks * lost * (1 - 1e-9);
  if (part->memory_bytes - space_input_bytes(w, plan, FALSE) * lost > device && !dispatched_otherwise(w, plan))
    w->bound.working_bytes = part->memory_bytes;
}

/* Seconds of a step of the plans that make whole blocks again; 0 where that is not known. */
static double made_again_s(Walk *w, Plan plan, guint degrees)
{
  double least_s = INFINITY;

  if (w->bound.made_of != degrees + 1) {
    Plan one = plan;
    one.micro_batch = 1;
    guint open = space_dispatchers(w, &one);
    g_array_set_size(w->bound.least[1], 0);
    space_each_group(w, one, add_made, &open);
    w->bound.made_of = degrees + 1;
  }
  for (guint i = 0; i < w->bound.least[1]->len; i++) {
    LeastPasses *least = &g_array_index(w->bound.least[1], LeastPasses, i);
    least->passes.micro_batch = plan.micro_batch;
    const LeastWork work = price_cache_least(w->prices, &least->passes, least->unhosted);
    least_s = fmin(least_s, least_of_shapes(w, &plan, least, &work));
  }
  return isinf(least_s) ? 0 : least_s + plan.framework->step_s;
}

/* Raises the bound of a part of which nothing fits that keeps what a whole block saves, as a like search may know. */
static void raise_made_again(Walk *w, const Plan *plan, SpacePart *part)
{
  const double device = w->cluster->device.memory_bytes, known_s = w->options->known;

  part->any_s = part->bound_s;
  part->kept_bytes = floors_of_part(w->options->floors, part->batch, device).kept_bytes;
  if (part->bound_s == 0 || part->memory_bytes > device || (known_s > 0 && part->bound_s > known_s))
    return;
  if (part->kept_bytes <= device && w->options->brief)
    part->kept_bytes = MAX(part->kept_bytes, space_keeping_bytes(w, *plan, part->degrees));
  if (part->kept_bytes > device)
    part->bound_s = fmax(part->bound_s, made_again_s(w, *plan, part->degrees));
}

/* Of all plans of a micro-batch; behind smaller ones of the same degrees. */
static void bound_part(Walk *w, const Plan *plan, SpacePart *part)
{
  if (w->bound.state_bytes < 0)
    w->bound.state_bytes = least_states(w, plan);
  const double kept = w->options->brief ? space_kept_bytes(w, plan) : 0;
  if (w->bound.working_bytes > 0)
    part->memory_bytes = w->bound.working_bytes;
  else if (w->bound.state_bytes + kept <= w->visitor->timed_bytes)
    bound_batch(w, plan, part);
  part->state_bytes = w->bound.state_bytes;
  part->memory_bytes += part->state_bytes + kept;
  if (w->bound.working_bytes > 0 || part->memory_bytes > w->visitor->timed_bytes)
    part->bound_s = 0;
  raise_made_again(w, plan, part);
}

void space_meet_batch(Walk *w, const Plan *plan)
{
  SpacePart part = { .index = w->space, .batch = w->met++, .degrees = w->degrees->len - 1,
                     .micro_batch = plan->micro_batch, .pass = -1 };
  const PartFloor floor = floors_of_part(w->options->floors, part.batch, w->cluster->device.memory_bytes);

  /* bounds of its own take less next to those of its degrees than when it comes first */
  if (floor.bound_s > 0 && (w->options->known <= 0 || floor.bound_s > w->options->known)) {
    part.bound_s = floor.bound_s;
    part.memory_bytes = floor.memory_bytes;
    part.plans = floor.plans;
    part.floored = TRUE;
    w->space += part.plans;
    w->visitor->part(w->visitor->data, &part);
    return;
  }
  bound_degrees(w, part.degrees);
  part.plans = w->bound.plans;
  if (w->bound.least[0]->len == 0) { /* a rule turns all of it down */
    space_walk_orders(w, *plan);
    if (w->visitor->broken)
      w->visitor->broken(w->visitor->data, part.batch, part.plans);
    return;
  }
  bound_part(w, plan, &part);
  part.bound_s = MAX(part.bound_s, floor.bound_s);
  w->space += part.plans;
  w->visitor->part(w->visitor->data, &part);
}

void space_bound_part(SpaceWalk *w, SpacePart *part)
{
  const double bound_s = part->bound_s;
  const Plan plan = degrees_of(w, part);

  price_cache_trim(w->prices, PRICES_HELD_BYTES);
  bound_degrees(w, part->degrees);
  w->bound.working_bytes = w->bound.keeping.bytes = 0; /* a larger micro-batch may have come before */
  part->memory_bytes = 0;
  bound_part(w, &plan, part);
  w->bound.working_bytes = w->bound.keeping.bytes = 0;
  part->bound_s = MAX(part->bound_s, bound_s);
  part->floored = FALSE;
}

/* ---- halves ---- */

static void add_shape(Walk *w, const Plan *group, gconstpointer data)
{
  LeastShape shape = { schedule_index(group->schedule), group->vpp };

  (void)data;
  g_array_append_val(w->bound.shapes, shape);
}

/* Of bound_degrees(), the schedules alone. */
static void shape_degrees(Walk *w, const Plan *plan)
{
  w->bound.of = 0;
  g_array_set_size(w->bound.shapes, 0);
  space_each_group(w, *plan, add_shape, NULL);
}

gboolean space_divide_part(SpaceWalk *w, SpacePart *part, SpacePart *others)
{
  const Plan plan = degrees_of(w, part);
  int made = 0;

  for (int i = 0; i < w->n_passes; i++)
    made += space_in_half(w, HALF_MADE, i);
  if (part->half != HALF_BOTH || made == 0 || made == w->n_passes)
    return FALSE;
  price_cache_trim(w->prices, PRICES_HELD_BYTES);
  shape_degrees(w, &plan);
  w->bound.keeping.bytes = 0; /* a larger micro-batch may have come before */
  double bytes = space_keeping_bytes(w, plan, part->degrees);
  w->bound.keeping.bytes = 0;
  if (bytes <= w->cluster->device.memory_bytes)
    return FALSE;
  *others = *part;
  others->half = HALF_KEPT;
  others->memory_bytes = MAX(part->memory_bytes, bytes);
  others->plans = part->plans / w->n_passes * (w->n_passes - made);
  part->half = HALF_MADE;
  part->plans -= others->plans;
  part->kept_bytes = bytes;
  part->bound_s = fmax(part->bound_s, made_again_s(w, plan, part->degrees));
  return TRUE;
}

/* ---- the way back ---- */

static Plan group_of(SpaceWalk *w, const SpacePart *part)
{
  Plan plan = degrees_of(w, part);

  space_set_order(w, &plan, part->order);
  plan.dispatch = part->dispatch;
  space_set_schedule(w, &plan, schedules[part->schedule], part->chunks);
  plan.split_rank = part->split_rank;
  return plan;
}

Plan space_part_plan(SpaceWalk *w, const SpacePart *part)
{
  Plan plan = part->pass < 0 ? degrees_of(w, part) : group_of(w, part);

  int pass = MAX(part->pass, 0);
  while (part->pass < 0 && !space_in_half(w, part->half, pass))
    pass++;
  space_choose(&plan, &w->passes[pass], &w->states[0]);
  return plan;
}

double space_all_kept_bytes(SpaceWalk *w, const SpacePart *part)
{
  double bytes = 0;

  price_cache_trim(w->prices, PRICES_HELD_BYTES);
  if (part->pass < 0) {
    const Plan plan = degrees_of(w, part);
    shape_degrees(w, &plan);
    bytes = space_keeping_all_bytes(w, plan, part->degrees);
  } else {
    const Plan plan = group_of(w, part);
    bytes = space_pass_bytes(w, &plan, part->pass);
  }
  return MAX(bytes, part->memory_bytes);
}

gboolean space_walk_enter(SpaceWalk *w, const SpacePart *part)
{
  price_cache_trim(w->prices, PRICES_HELD_BYTES);
  w->stopped = FALSE;
  w->half = part->half;
  if (part->pass < 0) {
    const Plan plan = degrees_of(w, part);
    w->space = part->index;
    space_walk_orders(w, plan);
    return !w->stopped;
  }
  const Plan plan = group_of(w, part);
  w->space = part->index;
  space_forget(w);
  space_walk_choice(w, &plan, part->pass);
  return !w->stopped;
}
