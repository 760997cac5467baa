/* Embedding and head of a vocabulary that is spread over the pipeline ranks. */
#include "exec/layer.h"

enum { X, STATS };                             /* of the final norm */
enum { NORMED, LOGITS, SOFTMAX, INPUT, LABEL }; /* of a share */

static int table_slot(const LayerWeights *w)
{
  return w->weight[HEAD_LOGITS] ? HEAD_LOGITS : HEAD_TABLE;
}

void *spread_norm(const LayerRun *r, const LayerWeights *w, LayerState *state, void *x)
{
  state->kept[X] = x;
  return norm_forward(r, w, HEAD_NORM, x, &state->kept[STATS], PART_BUFFERS);
}

void *spread_norm_backward(const LayerRun *r, const LayerWeights *w, LayerState *state, void *dy)
{
  void *dx = run_buffer(r, (gsize)r->shape.rows * r->shape.hidden);

  norm_backward(r, w, HEAD_NORM, state->kept[X], state->kept[STATS], dy, dx, FALSE);
  run_drop(r, &dy);
  state_drop(r, state, ~0u);
  return dx;
}

/* With the largest logit of this pipeline rank's share in a fourth column. */
static ExecLoss loss_of(const LayerRun *r, const LayerState *state)
{
  ExecLoss loss = head_loss(r, state, state->kept[LOGITS], state->kept[SOFTMAX]);

  loss.local = (char *)loss.target + r->shape.tokens * r->wide_bytes;
  return loss;
}

/* What the share adds to its input's gradient, before the sum over ranks. */
static void *input_part(const LayerRun *r, const LayerWeights *w, const LayerState *state)
{
  void *part = run_buffer(r, (gsize)r->shape.tokens * r->shape.hidden);

  linear_input(r, (LinearSize) { r->shape.tokens, r->shape.hidden, r->shape.vocab_rows }, state->kept[LOGITS],
               w->weight[table_slot(w)], part);
  return rows_sum(r, part);
}

static void *label_part(const LayerRun *r, const LayerWeights *w, const LayerState *state)
{
  void *part = run_buffer(r, (gsize)r->shape.tokens * r->shape.hidden);

  rows_look_up(r, r->s, state->labels, w->weight[table_slot(w)], part);
  return rows_sum(r, part);
}

void spread_logits(const LayerRun *r, const LayerWeights *w, LayerState *state, void *normed, gboolean early)
{
  int tokens = r->shape.tokens;
  void **kept = state->kept;

  kept[NORMED] = normed;
  memory_retag(r->memory, normed, r->kept_as);
  kept[LOGITS] = column_forward(r, w, table_slot(w), r->shape.vocab_rows, normed);
  kept[SOFTMAX] = run_keep_wide(r, 4 * tokens);
  ExecLoss loss = loss_of(r, state), share = loss;
  share.max = loss.local;
  r->b->loss_rows(r->b, r->s, &share, EXEC_LOSS_MAX);
  head_reduce(r, loss.local, tokens, EXEC_MAX);
  r->b->loss_exp(r->b, r->s, &loss);
  head_reduce(r, loss.sum, 2 * tokens, EXEC_SUM);
  if (!early)
    return;
  kept[INPUT] = input_part(r, w, state);
  kept[LABEL] = label_part(r, w, state);
}

void spread_merge(const LayerRun *r, LayerState *state, BackendStream *s, BackendComm *shares)
{
  ExecLoss loss = loss_of(r, state);
  ExecType wide = exec_wide(r->b->dtype);

  r->b->copy(r->b, s, loss.max, loss.local, r->shape.tokens * r->wide_bytes);
  r->b->all_reduce(r->b, shares, s, loss.max, r->shape.tokens, wide, EXEC_MAX);
  r->b->loss_merge(r->b, s, &loss);
  r->b->all_reduce(r->b, shares, s, loss.sum, 2 * r->shape.tokens, wide, EXEC_SUM);
}

void *spread_merge_input(const LayerRun *r, LayerState *state, BackendStream *s)
{
  ExecLoss loss = loss_of(r, state);
  gsize first = r->shape.sp ? (gsize)r->shape.rows * r->shape.tp_rank * r->wide_bytes : 0;
  void *part = g_steal_pointer(&state->kept[INPUT]);

  loss.rows = r->shape.rows;
  loss.local = (char *)loss.local + first;
  loss.max = (char *)loss.max + first;
  loss.sum = (char *)loss.sum + first;
  r->b->loss_input(r->b, s, &loss, r->shape.hidden, state->kept[LABEL], part, r->loss_scale * r->token_share);
  memory_release(r->memory, s, g_steal_pointer(&state->kept[LABEL]));
  return part;
}

void *spread_gradients(const LayerRun *r, const LayerWeights *w, LayerState *state, gboolean early)
{
  ExecLoss loss = loss_of(r, state);
  void *part = NULL;

  if (r->shape.final_norm && r->shape.tp_rank == 0)
    r->b->loss_value(r->b, r->s, &loss, r->token_share, r->loss);
  r->b->loss_backward(r->b, r->s, &loss, r->loss_scale * r->token_share);
  if (!early)
    part = input_part(r, w, state);
  column_weight(r, w, table_slot(w), r->shape.vocab_rows, state->kept[NORMED], state->kept[LOGITS]);
  state_drop(r, state, ~0u);
  return part;
}
