/* Choices of passes of a schedule and chunk count: bounds of all their states as one. */
#include "search/space_walk.h"

#include "base/hash.h"

#include <math.h>
#include <string.h>

/* While the last stage turns a micro-batch around, all ranks hold what its forwards saved. */
static double turning_bytes(const LeastWork *work, const Plan *plan)
{
  gboolean keeps = !plan->schedule->recompute && !offload_keeps(&plan->offload);
  return keeps ? work->saved_bytes / plan->pp * (1 + plan->framework->fragmentation) : 0;
}

/* What is known of layers, however they are split. */
typedef struct {
  LeastWork work;
  BlockKinds kinds;
} Unsplit;

static double unsplit_bytes(const Walk *w, const Plan *plan, const Layout *l, const Unsplit *layers)
{
  const Cluster *c = w->cluster;
  double bytes = space_mean_state_bytes(w, l, &layers->work) + turning_bytes(&layers->work, plan);
  double mean = space_mean_in_room(c, bytes), room = c->device.memory_bytes;
  const GArray *held = c->n_types == 0 && mean <= room ? held_ranks(w->held, l) : NULL;

  return held ? fmax(mean, fullest_rank_bytes(l, &c->device, held, &layers->kinds, room)) : mean;
}

/* Seconds of a step of any state, with the tensor overlap or without, whichever takes less. */
static double unsplit_bound_s(const Walk *w, const Plan *plan, const Layout *l, const LeastWork *work)
{
  double with_s = least_step_s(work, l->pipeline.schedule, &l->pipeline.shape), without_s = INFINITY;
  PassLayout without;

  if (space_without(w->options, w->prices, plan, &without)) {
    const LeastWork other = price_cache_least(w->prices, &without, FALSE);
    without_s = least_step_s(&other, l->pipeline.schedule, &l->pipeline.shape);
  }
  return MIN(with_s, without_s) + l->passes.framework->step_s;
}

static double even_bound_s(const Walk *w, const Plan *plan, const Layout *l, const PriceSums *sums)
{
  const PriceSums *without = space_sums_without(w->options, w->prices, plan);
  double with_s = bound_time_of_passes(w->model, l, w->cluster, sums);
  return without ? fmin(with_s, bound_time_of_passes(w->model, l, w->cluster, without)) : with_s;
}

/* Passes under the last of the sets of modules behind the choice, which keeps least; or `alone`, under its own. */
static PassLayout keep_least(const Walk *w, const PassStates *states, Plan plan, int state, gboolean alone)
{
  const PassChoice *pass = &w->passes[states->pass];
  PassLayout passes;

  space_choose(&plan, &pass[alone ? 0 : pass->after], &w->states[state]);
  pass_layout_init(&passes, &plan);
  return passes;
}

/* What layers take under a choice, with what they keep under the last of the sets behind it. */
static Unsplit unsplit_layers(const Walk *w, const PassLayout *passes, const PassLayout *least)
{
  const PriceTable *kept = price_cache_prices(w->prices, least);
  Unsplit layers = { price_cache_least(w->prices, passes, FALSE), block_kinds(w->model, kept) };

  layers.work.saved_bytes = price_cache_least(w->prices, least, FALSE).saved_bytes;
  return layers;
}

static BoundRanks even_ranks(const Walk *w, const Layout *l, const PriceSums *sums, const PassLayout *least)
{
  const PriceSums *last = price_cache_sums(w->prices, least);
  PriceSums own = *sums;

  own.prices = last->prices;
  own.saved = last->saved;
  own.deferred = last->deferred;
  return bound_ranks(w->model, l, &own);
}

/* States that follow each other have prices in common but where ZeRO-3 gathers, and where ZeRO-2 or 3 leaves shards of
 * gradients. `alone`: without the sets of modules behind the choice, memory alone. */
static void bound_choice(Walk *w, const PassStates *states, gboolean alone, SpacePart *part)
{
  double timed_bytes = alone ? -1 : w->visitor->timed_bytes;
  const PriceSums *sums = NULL;
  Plan plan = *states->group;
  PassLayout passes = { 0 };
  gboolean timed = FALSE;
  BoundRanks ranks;
  Unsplit layers;

  for (int i = 0; i < w->n_states; i++) {
    if (states->rules[i] != RULE_NONE)
      continue;
    space_choose(&plan, &w->passes[states->pass], &w->states[i]);
    const Layout layout = layout_of(&plan);
    if (memcmp(&passes, &layout.passes, sizeof passes) != 0) {
      memcpy(&passes, &layout.passes, sizeof passes);
      const PassLayout least = keep_least(w, states, plan, i, alone);
      sums = states->uneven ? NULL : price_cache_sums(w->prices, &passes);
      if (sums)
        ranks = even_ranks(w, &layout, sums, &least);
      else
        layers = unsplit_layers(w, &passes, &least);
      timed = FALSE;
    }
    double bytes = sums ? bound_memory(&layout, &ranks) : unsplit_bytes(w, &plan, &layout, &layers);
    part->memory_bytes = MIN(part->memory_bytes, bytes);
    if (!timed && bytes <= timed_bytes)
      part->bound_s = fmin(part->bound_s, sums ? even_bound_s(w, &plan, &layout, sums)
                                               : unsplit_bound_s(w, &plan, &layout, &layers.work));
    timed |= bytes <= timed_bytes;
  }
  if (part->memory_bytes > timed_bytes)
    part->bound_s = 0;
}

/* Counts the plans of the states that rules turn down; returns how many are left. */
static gint64 reject_broken(Walk *w, const PassStates *states)
{
  Plan plan = *states->group;
  gint64 left = 0;

  for (int i = 0; i < w->n_states; i++) {
    gint64 variants = (1 + w->passes[states->pass].after) << __builtin_popcount(w->switches[i]);
    left += states->rules[i] == RULE_NONE ? variants : 0;
    if (states->rules[i] == RULE_NONE)
      continue;
    space_choose(&plan, &w->passes[states->pass], &w->states[i]);
    w->visitor->rejected(w->visitor->data, &plan, states->rules[i], variants);
  }
  return left;
}

int space_alike_states(const Walk *w, Plan plan, int pass, int from)
{
  int to = from + 1;
  PassLayout passes, other;

  space_choose(&plan, &w->passes[pass], &w->states[from]);
  for (pass_layout_init(&passes, &plan); to < w->n_states; to++) {
    space_choose(&plan, &w->passes[pass], &w->states[to]);
    pass_layout_init(&other, &plan);
    if (memcmp(&passes, &other, sizeof passes) != 0)
      break;
  }
  return to;
}

guint64 space_splits(const Walk *w, const PassStates *states)
{
  Plan plan = *states->group;
  guint64 splits = 0;

  if (w->cluster->n_types > 0)
    return 0;
  for (int i = 0; i < w->n_states; i = space_alike_states(w, *states->group, states->pass, i)) {
    space_choose(&plan, &w->passes[states->pass], &w->states[i]);
    const LayerSplit *split = price_cache_split(w->prices, &plan);
    splits = hash_mixed(splits, split ? split->stages : 0);
    for (int stage = 0; split && stage < split->stages; stage++)
      splits = hash_mixed(splits, split->layers[stage]);
  }
  return splits;
}

/* A choice that a like search knows to be too large, or slower than a plan to beat, with bounds to match; or to be so
 * with the splits that it has here too. */
static gboolean is_known(const Walk *w, const PassStates *states, SpacePart *part)
{
  double device = w->cluster->device.memory_bytes, known_s = w->options->known;
  const ChoiceFloor floor = floors_of_choice(w->options->floors, part->index, device);
  gboolean slow = isinf(floor.bound_s) || (known_s > 0 && floor.bound_s > known_s);

  if (!slow && states->uneven && (isinf(floor.split_s) || (known_s > 0 && floor.split_s > known_s))) {
    part->split = space_splits(w, states);
    slow = part->split == floor.split;
    part->split_s = slow ? floor.split_s : 0;
  }
  if (!slow)
    return FALSE;
  part->bound_s = floor.bound_s;
  part->memory_bytes = isinf(floor.bound_s) && floor.memory_bytes <= device ? INFINITY : floor.memory_bytes;
  return TRUE;
}

double space_choice_bytes(Walk *w, const PassStates *states)
{
  SpacePart part = { .bound_s = INFINITY, .memory_bytes = INFINITY };

  bound_choice(w, states, TRUE, &part);
  return part.memory_bytes;
}

void space_meet_choice(Walk *w, const PassStates *states)
{
  const Plan *group = states->group;
  const PassChoice *pass = &w->passes[states->pass];
  SpacePart part = { .index = w->space, .plans = reject_broken(w, states), .bound_s = INFINITY,
                     .memory_bytes = INFINITY, .degrees = w->at - 1, .micro_batch = group->micro_batch,
                     .pass = states->pass, .chunks = group->vpp, .order = w->order, .dispatch = group->dispatch,
                     .schedule = schedule_index(group->schedule), .split_rank = group->split_rank,
                     .recompute = pass->recompute, .uneven = states->uneven };

  w->space += w->variants * (1 + pass->after);
  if (part.plans == 0)
    return;
  if (states->uneven && !split_may_be(group->framework->splits, w->model->blocks, plan_stages(group),
                                      group->schedule->vocabulary > 0)) {
    Plan plan = *group;
    space_choose(&plan, pass, &w->states[0]);
    w->visitor->rejected(w->visitor->data, &plan, RULE_LAYERS, part.plans);
    return;
  }
  if (states->uneven && pass->recompute_layers > 0) /* prices go by the split */
    part.bound_s = part.memory_bytes = 0;
  else if (!is_known(w, states, &part))
    bound_choice(w, states, FALSE, &part);
  w->visitor->part(w->visitor->data, &part);
}
