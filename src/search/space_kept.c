/* What layers keep for their backwards at least, before any of them is priced. */
#include "search/space_walk.h"

#include <math.h>
#include <string.h>

/* Whether a rank holds inputs of its blocks while the first of its backwards runs: not where they leave the device or
 * are dropped. */
static gboolean holds_inputs(const Walk *w, const Plan *plan)
{
  gboolean holds = w->cluster->n_types == 0 && w->model->encoder_blocks == 0 && !offload_keeps(&plan->offload) &&
                   plan->scope.layers == 0;

  for (guint i = 0; i < w->bound.shapes->len && holds; i++) {
    const Schedule *s = schedules[g_array_index(w->bound.shapes, LeastShape, i).schedule];
    holds = !s->split && !s->recompute && !s->vocabulary && schedule_copies(s) == 1;
  }
  for (int i = 0; i < w->n_passes && holds; i++)
    holds = !w->passes[i].activations && w->passes[i].offload_layers == 0;
  return holds;
}

/* Blocks through which a gradient passes. */
static int kept_blocks(const Model *model)
{
  int blocks = 0;

  for (int i = 1; i <= model->blocks; i++)
    blocks += !model_layer(model, i)->detached;
  return blocks;
}

double space_input_bytes(const Walk *w, const Plan *plan, gboolean divided)
{
  PassLayout passes;

  pass_layout_init(&passes, plan);
  passes.sequence_parallel = divided && plan->tp > 1;
  return op_boundary_bytes_at(w->model, &passes, w->model->n_layers - 1);
}

/* Whether each block keeps as much under each choice of passes, whatever that makes again: also under those that this
 * plan may not have, as others of the same tp ask. */
static gboolean each_keeps(const Walk *w, Plan plan)
{
  gboolean keeps = w->n_states > 0;

  for (int i = 0; i < w->n_passes && keeps; i++) {
    PassLayout passes;
    space_choose(&plan, &w->passes[i], &w->states[0]);
    pass_layout_init(&passes, &plan);
    passes.recompute.cut = (StageCut) { 0 };
    keeps = price_cache_keeps(w->prices, &passes, space_input_bytes(w, &plan, TRUE) * (1 - 1e-9));
  }
  return keeps;
}

/* What divides a block's input and what it keeps is the same for all micro-batches, and but for tensor parallelism for
 * all degrees: one is asked for each. */
static gboolean inputs_are_kept(Walk *w, const Plan *plan)
{
  int of = 1 + 2 * plan->tp + plan_experts_apart(plan);
  KeptInputs *known = &w->kept[of % KEPT_INPUTS];

  if (known->of != of)
    *known = (KeptInputs) { of, each_keeps(w, *plan) };
  return known->keeps;
}

double space_kept_bytes(Walk *w, const Plan *plan)
{
  int others = kept_blocks(w->model) - plan->pp; /* each rank makes one again */

  if (others <= 0 || !holds_inputs(w, plan) || !inputs_are_kept(w, plan))
    return 0;
  return space_input_bytes(w, plan, TRUE) * others / plan->pp * (1 + plan->framework->fragmentation) * (1 - 1e-9);
}

/* ---- plans that make no whole blocks again ---- */

/* States of blocks in any plan of the degrees; FALSE: there is none. */
static gboolean hold_states(const Walk *w, Plan plan, const BlockKinds *kinds, HeldBlocks *out)
{
  gboolean any = FALSE;
  int last = -1;

  for (guint k = 0; k < w->bound.shapes->len; k++) {
    const LeastShape *shape = &g_array_index(w->bound.shapes, LeastShape, k);
    if (shape->schedule == last)
      continue;
    last = shape->schedule;
    plan_set_schedule(&plan, schedules[shape->schedule], shape->chunks);
    for (int i = 0; i < w->n_states; i++) {
      space_choose(&plan, &w->passes[0], &w->states[i]);
      if (space_zero_broken(w, &plan))
        continue;
      const Layout layout = layout_of(&plan);
      const HeldBlocks own = held_blocks(&layout, &w->cluster->device, kinds);
      if (any)
        held_blocks_lower(out, &own);
      else
        *out = own;
      any = TRUE;
    }
  }
  return any;
}

static gboolean same_blocks(const BlockKinds *a, const BlockKinds *b)
{
  gboolean same = a->n == b->n;

  for (int i = 0; i < a->n && same; i++)
    same = block_kind_same_states(&a->kinds[i], &b->kinds[i]);
  return same;
}

/* Takes what a forward leaves of blocks into the least; FALSE where that was no more. */
static gboolean hold_saved(const BlockKinds *kinds, double lost, HeldBlocks *held)
{
  gboolean lower = FALSE;

  for (int i = 0; i < kinds->n; i++) {
    double saved = kinds->kinds[i].saved_bytes * lost;
    lower |= saved < held->each[i].saved;
    held->each[i].saved = fmin(held->each[i].saved, saved);
  }
  return lower;
}

/* Of any schedule, with the exchange beside other passes or without; 0: not known. Ends where some of these may fit. */
static double fullest_bytes(Walk *w, Plan plan, const int *beside, int *steady)
{
  const double device = w->cluster->device.memory_bytes;
  double least = INFINITY;

  for (int k = 0; k < 2 * (int)w->bound.shapes->len && least > device; k++) {
    const LeastShape *shape = &g_array_index(w->bound.shapes, LeastShape, k / 2);
    if (beside[k % 2] < 0)
      continue;
    plan_set_schedule(&plan, schedules[shape->schedule], shape->chunks);
    space_choose(&plan, &w->passes[beside[k % 2]], &w->states[0]);
    const Layout layout = layout_of(&plan);
    const GArray *held = held_ranks(w->held, &layout);
    *steady = MAX(*steady, 2 * MAX(layout.pipeline.shape.ranks, layout.pipeline.shape.group));
    least = held ? fmin(least, held_blocks_bytes(&w->bound.keeping.held, held, device)) : 0;
  }
  return isinf(least) ? 0 : least;
}

static double sum_bytes(const HeldBlocks *held)
{
  double bytes = held->overhead;

  for (int i = 0; i < held->n; i++)
    bytes += held->blocks[i] * (held->each[i].states + held->each[i].saved);
  return bytes * (1 - 1e-9);
}

/* `beside`: a choice with the exchange beside other passes, and one without, -1 = none. */
static double least_bytes(Walk *w, const Plan *plan, const int *beside)
{
  KeepingBytes *keeping = &w->bound.keeping;

  keeping->steady = 0;
  return plan->pp > 1 ? fullest_bytes(w, *plan, beside, &keeping->steady) : sum_bytes(&keeping->held);
}

/* Begins with what a first choice of passes holds. */
static gboolean hold_first(Walk *w, const Plan *plan, guint degrees, const BlockKinds *kinds)
{
  KeepingBytes *keeping = &w->bound.keeping;
  gboolean known = kinds->n > 0 && (keeping->of == degrees + 1 || hold_states(w, *plan, kinds, &keeping->held));

  keeping->of = known ? degrees + 1 : 0;
  for (int k = 0; k < kinds->n; k++)
    keeping->held.each[k].saved = INFINITY;
  return known;
}

/* What a forward of the micro-batch leaves of blocks under any choice that keeps some of each; of sets of modules,
 * under the last, which keeps least; or with `all`, under those that keep all of it. Where one may fit the rest is not
 * asked for. */
static double hold_least(Walk *w, Plan plan, guint degrees, gboolean all)
{
  KeepingBytes *keeping = &w->bound.keeping;
  const double device = w->cluster->device.memory_bytes;
  guint open = space_dispatchers(w, &plan);
  int beside[2] = { -1, -1 };
  BlockKinds first = { 0 };
  double bytes = 0;

  for (int k = 0; k < 2 * w->n_passes; k++) { /* those with sequence parallelism, which keep less, come first */
    int i = k % w->n_passes;
    const PassChoice *pass = &w->passes[i];
    gboolean left_out = all ? pass->recompute != RECOMPUTE_NONE : pass->after > 0 || pass->recompute == RECOMPUTE_FULL;
    if (left_out || pass->sequence_parallel == (k >= w->n_passes))
      continue;
    beside[!!pass->exchange] = i;
    for (int d = 0; d < DISPATCH_COUNT; d++) {
      PassLayout passes;
      if (!(open >> d & 1))
        continue;
      plan.dispatch = d;
      space_choose(&plan, pass, &w->states[0]);
      pass_layout_init(&passes, &plan);
      if (wide_any(&passes.wide))
        return 0;
      const BlockKinds kinds = price_cache_blocks(w->prices, &passes);
      gboolean begins = first.n == 0;
      if (begins && !hold_first(w, &plan, degrees, &kinds))
        return 0;
      first = begins ? kinds : first;
      if (!same_blocks(&kinds, &first))
        return 0;
      gboolean lower = hold_saved(&kinds, 1 + plan.framework->fragmentation, &keeping->held);
      if (lower && (bytes = least_bytes(w, &plan, beside)) <= device)
        return 0;
    }
  }
  return bytes > 0 ? least_bytes(w, &plan, beside) : 0;
}

double space_keeping_bytes(Walk *w, Plan plan, guint degrees)
{
  KeepingBytes *keeping = &w->bound.keeping;

  if (keeping->of != degrees + 1)
    keeping->bytes = 0;
  if (keeping->bytes > 0 && (plan.pp == 1 || plan_micro_batches(&plan) >= keeping->steady))
    return keeping->bytes;
  if (!holds_inputs(w, &plan) || w->options->fixed.value[KEY_RECOMPUTE_LAYERS] >= 0)
    return 0;
  double bytes = hold_least(w, plan, degrees, FALSE);
  keeping->bytes = bytes > w->cluster->device.memory_bytes ? bytes : 0;
  return keeping->bytes;
}

double space_keeping_all_bytes(Walk *w, Plan plan, guint degrees)
{
  return holds_inputs(w, &plan) ? hold_least(w, plan, degrees, TRUE) : 0;
}
