/* Final norm, logits and cross-entropy, divided by vocabulary. */
#include "exec/layer.h"

#define DEVIATION 0.02

enum { X, NORM, STATS, LOGITS, SOFTMAX };

static void params(const LayerShape *shape, const LayerSpec *spec, int layer, GArray *all)
{
  gboolean tied = shape->model->tied_embeddings;
  Param logits = param_matrix(tied ? 0 : layer, HEAD_LOGITS, shape->hidden, DEVIATION), table;

  (void)spec;
  if (!shape->spread || shape->final_norm)
    params_norm(shape, layer, HEAD_NORM, all);
  if (tied)
    logits.id = EMBEDDING_TABLE;
  logits.n_rows = 1;
  logits.rows[0] = (ParamRows) { shape->vocab_rows, shape->vocab_first };
  logits.end_row = shape->model->vocab;
  table = logits;
  logits.tied = logits.copy = tied;
  if (!tied || !shape->spread)
    g_array_append_val(all, logits);
  table.slot = HEAD_TABLE;
  table.id = EMBEDDING_TABLE;
  if (shape->spread)
    g_array_append_val(all, table);
}

ExecLoss head_loss(const LayerRun *r, const LayerState *state, void *logits, void *softmax)
{
  const LayerShape *shape = &r->shape;
  gsize column = shape->tokens * r->wide_bytes;
  char *max = softmax;

  return (ExecLoss) {
    .rows = shape->tokens, .width = shape->vocab_rows, .first = shape->vocab_first, .vocab = shape->model->vocab,
    .logits = logits, .labels = state->labels, .max = max, .sum = max + column, .target = max + 2 * column,
  };
}

void head_reduce(const LayerRun *r, void *x, gsize n, ExecReduce op)
{
  if (r->shape.tp > 1)
    EXCHANGE(r, GROUP_TENSOR, all_reduce, x, n, exec_wide(r->b->dtype), op);
}

/* Largest logit and sum of exponentials over all ranks' columns. */
static void softmax(const LayerRun *r, const ExecLoss *loss)
{
  if (r->shape.tp == 1) {
    r->b->loss_rows(r->b, r->s, loss, EXEC_LOSS_BOTH);
    return;
  }
  r->b->loss_rows(r->b, r->s, loss, EXEC_LOSS_MAX);
  head_reduce(r, loss->max, loss->rows, EXEC_MAX);
  r->b->loss_rows(r->b, r->s, loss, EXEC_LOSS_SUM);
  head_reduce(r, loss->sum, 2 * loss->rows, EXEC_SUM);
}

static void *forward(const LayerRun *r, const LayerWeights *w, LayerState *state, void *x)
{
  const LayerShape *shape = &r->shape;
  void **kept = state->kept;

  kept[X] = x;
  kept[NORM] = norm_forward(r, w, HEAD_NORM, x, &kept[STATS], r->kept_as);
  kept[LOGITS] = column_forward(r, w, HEAD_LOGITS, shape->vocab_rows, kept[NORM]);
  kept[SOFTMAX] = run_keep_wide(r, 3 * shape->tokens);
  ExecLoss loss = head_loss(r, state, kept[LOGITS], kept[SOFTMAX]);
  softmax(r, &loss);
  if (shape->tp_rank == 0)
    r->b->loss_value(r->b, r->s, &loss, r->token_share, r->loss);
  return NULL;
}

static void weight_logits(const LayerRun *r, const LayerWeights *w, LayerState *state)
{
  column_weight(r, w, HEAD_LOGITS, r->shape.vocab_rows, state->kept[NORM], state->kept[LOGITS]);
}

static void *input(const LayerRun *r, const LayerWeights *w, LayerState *state, void *dy)
{
  const LayerShape *shape = &r->shape;
  int tokens = shape->tokens, width = shape->vocab_rows;
  ExecLoss loss = head_loss(r, state, state->kept[LOGITS], state->kept[SOFTMAX]);

  g_assert(!dy);
  r->b->loss_backward(r->b, r->s, &loss, r->loss_scale * r->token_share);
  void *dnorm = run_buffer(r, (gsize)tokens * shape->hidden);
  linear_input(r, (LinearSize) { tokens, shape->hidden, width }, state->kept[LOGITS], w->weight[HEAD_LOGITS], dnorm);
  dnorm = rows_sum_beside(r, dnorm, weight_logits, w, state);
  void *dx = run_buffer(r, (gsize)shape->rows * shape->hidden);
  norm_backward(r, w, HEAD_NORM, state->kept[X], state->kept[STATS], dnorm, dx, FALSE);
  run_drop(r, &dnorm);
  state_drop(r, state, 1u << X | 1u << STATS | 1u << SOFTMAX);
  return dx;
}

static void weight(const LayerRun *r, const LayerWeights *w, LayerState *state)
{
  if (!r->overlaps)
    weight_logits(r, w, state);
}

const LayerType layer_head = { params, forward, input, weight, NULL, NULL };
