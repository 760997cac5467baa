/* What layers keep for their backwards at least, before any of them is priced. */
#include "search/space_walk.h"

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
