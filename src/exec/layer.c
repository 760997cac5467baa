#include "exec/layer.h"

static const LayerType *const types[] = {
  [LAYER_EMBEDDING] = &layer_embedding,
  [LAYER_BLOCK] = &layer_block,
  [LAYER_HEAD] = &layer_head,
};

LayerShape layer_shape(const Model *model, const Plan *plan, int tp_rank)
{
  int tokens = plan->micro_batch * plan->seq;

  return (LayerShape) {
    .model = model, .plan = plan, .tp = plan->tp, .tp_rank = tp_rank, .sp = plan->sequence_parallel,
    .hidden = model->hidden, .seq = plan->seq, .micro_batch = plan->micro_batch, .tokens = tokens,
    .rows = plan->sequence_parallel ? tokens / plan->tp : tokens, .vocab = op_vocab(model, plan),
  };
}

void layer_params(const LayerShape *shape, const LayerSpec *spec, int layer, GArray *params)
{
  types[spec->kind]->params(shape, spec, layer, params);
}

static gboolean recomputes(const LayerRun *r, const LayerWeights *w)
{
  return w->spec->kind == LAYER_BLOCK && r->shape.plan->recompute == RECOMPUTE_FULL;
}

void *layer_forward(const LayerRun *r, const LayerWeights *w, LayerState *state, void *x)
{
  void *y = types[w->spec->kind]->forward(r, w, state, x);

  if (recomputes(r, w))
    for (int i = 1; i < STATE_SLOTS; i++)
      run_drop(r, &state->kept[i]);
  return y;
}

void *layer_backward_input(const LayerRun *r, const LayerWeights *w, LayerState *state, void *dy)
{
  const LayerType *type = types[w->spec->kind];

  if (recomputes(r, w)) {
    void *y = type->forward(r, w, state, state->kept[0]);
    run_drop(r, &y);
  }
  return type->input(r, w, state, dy);
}

void layer_backward_weight(const LayerRun *r, const LayerWeights *w, LayerState *state)
{
  types[w->spec->kind]->weight(r, w, state);
  for (int i = 0; i < STATE_SLOTS; i++)
    run_drop(r, &state->kept[i]);
}
