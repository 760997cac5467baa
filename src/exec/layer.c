#include "exec/layer.h"

static const LayerType *const types[] = {
  [LAYER_EMBEDDING] = &layer_embedding,
  [LAYER_BLOCK] = &layer_block,
  [LAYER_HEAD] = &layer_head,
};

/* The whole sequence, or two runs as far from its middle. */
static ExecPlaces places_of(const Plan *plan, int cp_rank)
{
  int seq = plan->seq / plan->cp, half = seq / 2;

  if (plan->cp == 1)
    return exec_places_whole(seq);
  return (ExecPlaces) { .seq = seq, .half = half, .first = cp_rank * half,
                        .second = (2 * plan->cp - 1 - cp_rank) * half };
}

LayerShape layer_shape(const Model *model, const Plan *plan, int rank)
{
  int at[AXIS_COUNT], expert_at[EXPERT_AXIS_COUNT];
  int tokens = plan->micro_batch * plan->seq / plan->cp;
  const Layout layout = layout_of(plan);
  int vocab_rows = op_vocab(model, &layout.passes) / plan->tp;

  mesh_coordinates(&layout.mesh, rank, at);
  mesh_expert_coordinates(&layout.mesh, rank, expert_at);
  return (LayerShape) {
    .model = model, .plan = plan, .tp = plan->tp, .tp_rank = at[AXIS_TENSOR], .cp = plan->cp,
    .cp_rank = at[AXIS_CONTEXT], .ep_rank = expert_at[EXPERT_PARALLEL],
    .etp_rank = expert_at[EXPERT_TENSOR], .sp = plan->sequence_parallel, .hidden = model->hidden,
    .seq = plan->seq / plan->cp, .places = places_of(plan, at[AXIS_CONTEXT]), .micro_batch = plan->micro_batch,
    .tokens = tokens,
    .rows = plan->sequence_parallel ? tokens / plan->tp : tokens, .vocab_rows = vocab_rows,
    .vocab_first = vocab_rows * at[AXIS_TENSOR],
  };
}

void layer_shape_spread(LayerShape *shape, int row)
{
  Model share = *shape->model;
  PassLayout passes;

  share.vocab = (shape->model->vocab + shape->plan->pp - 1) / shape->plan->pp;
  shape->spread = TRUE;
  shape->final_norm = row == shape->plan->pp - 1;
  pass_layout_init(&passes, shape->plan);
  shape->vocab_rows = op_vocab(&share, &passes) / shape->tp;
  shape->vocab_first = shape->vocab_rows * (row * shape->tp + shape->tp_rank);
}

void layer_params(const LayerShape *shape, const LayerSpec *spec, int layer, GArray *params)
{
  types[spec->kind]->params(shape, spec, layer, params);
}

/* What will be forgotten counts as buffers while it is there. */
void *layer_forward(const LayerRun *r, const LayerWeights *w, LayerState *state, void *x, gboolean keep)
{
  const LayerType *type = types[w->spec->kind];
  LayerRun passing = *r;

  if (!type->forget || keep)
    return type->forward(r, w, state, x);
  if (r->shape.plan->recompute == RECOMPUTE_FULL)
    passing.kept_as = PART_BUFFERS;
  void *y = type->forward(&passing, w, state, x);
  memory_retag(r->memory, y, r->kept_as);
  type->forget(r, state);
  return y;
}

void layer_remake(const LayerRun *r, const LayerWeights *w, LayerState *state)
{
  if (types[w->spec->kind]->remake)
    types[w->spec->kind]->remake(r, w, state);
}

void layer_defer(const LayerRun *r, LayerState *state)
{
  for (int i = 0; i < STATE_SLOTS; i++)
    if (state->kept[i])
      memory_retag(r->memory, state->kept[i], PART_ACTIVATIONS);
}

void *layer_backward_input(const LayerRun *r, const LayerWeights *w, LayerState *state, void *dy)
{
  LayerRun passing = *r;

  passing.kept_as = PART_BUFFERS;
  layer_remake(&passing, w, state);
  return types[w->spec->kind]->input(r, w, state, dy);
}

void layer_backward_weight(const LayerRun *r, const LayerWeights *w, LayerState *state)
{
  types[w->spec->kind]->weight(r, w, state);
  state_drop(r, state, ~0u);
  g_clear_pointer(&state->counts, g_free);
}
