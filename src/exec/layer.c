#include "exec/experts.h"

static const LayerType *const types[] = {
  [LAYER_EMBEDDING] = &layer_embedding,
  [LAYER_BLOCK] = &layer_block,
  [LAYER_HEAD] = &layer_head,
};

/* The whole sequence, or two runs as far from its middle. */
static ExecPlaces places_of(const PassLayout *passes, int cp_rank)
{
  int seq = passes->seq / passes->cp, half = seq / 2;

  if (passes->cp == 1)
    return exec_places_whole(seq);
  return (ExecPlaces) { .seq = seq, .half = half, .first = cp_rank * half,
                        .second = (2 * passes->cp - 1 - cp_rank) * half };
}

LayerShape layer_shape(const Model *model, const Layout *layout, int rank)
{
  const PassLayout *p = &layout->passes;
  int at[AXIS_COUNT], expert_at[EXPERT_AXIS_COUNT];
  int tokens = p->micro_batch * p->seq / p->cp, vocab_rows = op_vocab(model, p) / p->tp;

  mesh_coordinates(&layout->mesh, rank, at);
  mesh_expert_coordinates(&layout->mesh, rank, expert_at);
  return (LayerShape) {
    .model = model, .layout = layout, .tp = p->tp, .tp_rank = at[AXIS_TENSOR], .cp = p->cp,
    .cp_rank = at[AXIS_CONTEXT], .ep_rank = expert_at[EXPERT_PARALLEL], .etp_rank = expert_at[EXPERT_TENSOR],
    .sp = p->sequence_parallel, .hidden = model->hidden, .seq = p->seq / p->cp,
    .places = places_of(p, at[AXIS_CONTEXT]), .micro_batch = p->micro_batch, .tokens = tokens,
    .rows = p->sequence_parallel ? tokens / p->tp : tokens, .vocab_rows = vocab_rows,
    .vocab_first = vocab_rows * at[AXIS_TENSOR],
  };
}

void layer_shape_spread(LayerShape *shape, int row)
{
  int rows = shape->layout->pipeline.shape.ranks;
  Model share = *shape->model;

  share.vocab = (shape->model->vocab + rows - 1) / rows;
  shape->spread = TRUE;
  shape->final_norm = row == rows - 1;
  shape->vocab_rows = op_vocab(&share, &shape->layout->passes) / shape->tp;
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
  if (r->shape.layout->passes.recompute.granularity == RECOMPUTE_FULL)
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
  g_clear_pointer(&state->visits, visits_free);
}
