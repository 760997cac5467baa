/* A transformer block: normed attention and normed feed-forward, each added to its input. */
#include "exec/core.h"

#include <math.h>

#define DEVIATION 0.02
#define ROPE_THETA 10000.0

enum { X, NORM1, STATS1, QKV, CONTEXT, LSE, HEADS, X2, NORM2, STATS2, UP, ACT, D_QKV, D_PROJECTION, D_UP, D_DOWN };
G_STATIC_ASSERT((int)D_DOWN < (int)STATE_SLOTS && HEADS - QKV == (int)CORE_HEADS && LSE - QKV == (int)CORE_LSE);

/* Widths on this rank. */
typedef struct {
  int heads, kv_heads, head_dim;
  int q, kv, qkv, context, ffn, up;
} Widths;

static Widths widths_of(const LayerShape *shape, const LayerSpec *spec)
{
  const Attention *a = &spec->attention;
  Widths w = { .heads = a->heads / shape->tp, .kv_heads = a->kv_heads / shape->tp, .head_dim = a->head_dim };

  w.q = w.context = w.heads * w.head_dim;
  w.kv = w.kv_heads * w.head_dim;
  w.qkv = w.q + 2 * w.kv;
  w.ffn = spec->ffn.width / shape->tp;
  w.up = spec->ffn.kind == MLP_SWIGLU ? 2 * w.ffn : w.ffn;
  return w;
}

/* A product divided by its outputs: n parts of `rows` each, here a tp-th of each. */
static void params_column(const LayerShape *shape, Param p, const int *widths, int n, gboolean bias, GArray *params)
{
  int first = 0;

  p.n_rows = n;
  for (int i = 0; i < n; i++) {
    p.rows[i] = (ParamRows) { widths[i], first + widths[i] * shape->tp_rank };
    first += widths[i] * shape->tp;
  }
  params_add(params, p);
  p.slot++;
  p.id++;
  p.cols = p.all_cols = 1;
  p.deviation = 0;
  if (bias)
    params_add(params, p);
}

/* A product divided by its inputs; its bias is added behind the sum. */
static void params_row(const LayerShape *shape, Param p, gboolean bias, GArray *params)
{
  p.n_rows = 1;
  p.rows[0].rows = shape->hidden;
  p.first_col = p.cols * shape->tp_rank;
  p.all_cols = p.cols * shape->tp;
  params_add(params, p);
  p.slot++;
  p.id++;
  p.cols = p.all_cols = 1;
  p.first_col = 0;
  p.deviation = 0;
  p.replicated = TRUE;
  if (bias)
    params_add(params, p);
}

static void params(const LayerShape *shape, const LayerSpec *spec, int layer, GArray *all)
{
  Widths w = widths_of(shape, spec);
  int qkv[] = { w.q, w.kv, w.kv }, up[] = { w.ffn, w.ffn };
  double behind = DEVIATION / sqrt(2.0 * shape->model->blocks); /* GPT-2's, for what adds to the residual */

  params_norm(shape, layer, BLOCK_NORM1, all);
  params_column(shape, param_matrix(layer, BLOCK_QKV, shape->hidden, DEVIATION), qkv, 3, spec->attention.qkv_bias, all);
  params_row(shape, param_matrix(layer, BLOCK_PROJECTION, w.context, behind), spec->attention.out_bias, all);
  params_norm(shape, layer, BLOCK_NORM2, all);
  params_column(shape, param_matrix(layer, BLOCK_UP, shape->hidden, DEVIATION), up, w.up / w.ffn, spec->ffn.bias, all);
  params_row(shape, param_matrix(layer, BLOCK_DOWN, w.ffn, behind), spec->ffn.bias, all);
}

static Core core_of(const LayerSpec *spec, const Widths *w)
{
  return (Core) { .attention = &spec->attention, .heads = w->heads, .kv_heads = w->kv_heads, .q = w->q, .kv = w->kv,
                  .qkv = w->qkv };
}

/* Queries and keys of a buffer laid out as qkv. */
static void rotate(const LayerRun *r, const Widths *w, void *qkv, int sign)
{
  if (r->shape.model->positions != POSITIONS_ROPE)
    return;
  r->b->rope(r->b, r->s, r->shape.tokens, r->shape.places, w->heads + w->kv_heads, w->head_dim, w->qkv, qkv, ROPE_THETA,
             sign);
}

/* Sums over ranks, adds bias and the residual: partial becomes the half's output. */
static void *join(const LayerRun *r, void *partial, const void *bias, const void *x)
{
  void *y = rows_sum(r, partial);

  if (bias)
    r->b->bias_forward(r->b, r->s, r->shape.rows, r->shape.hidden, y, bias);
  r->b->add(r->b, r->s, (gsize)r->shape.rows * r->shape.hidden, x, y);
  memory_retag(r->memory, y, r->kept_as);
  return y;
}

static void *half_attention(const LayerRun *r, const LayerWeights *lw, LayerState *state, const Widths *w)
{
  int hidden = r->shape.hidden, tokens = r->shape.tokens;
  void **kept = state->kept;

  kept[STATS1] = run_keep_wide(r, 2 * r->shape.rows);
  kept[NORM1] = run_keep(r, (gsize)r->shape.rows * hidden);
  norm_forward(r, kept[X], lw->weight[BLOCK_NORM1], lw->weight[BLOCK_NORM1_BIAS], kept[STATS1], kept[NORM1]);
  void *in = rows_gather(r, kept[NORM1], hidden);
  kept[QKV] = run_keep(r, (gsize)tokens * w->qkv);
  linear_forward(r, tokens, hidden, w->qkv, in, lw->weight[BLOCK_QKV], lw->weight[BLOCK_QKV_BIAS], kept[QKV]);
  rows_ungather(r, in, kept[NORM1]);
  rotate(r, w, kept[QKV], 1);
  kept[CONTEXT] = run_keep(r, (gsize)tokens * w->context);
  Core core = core_of(lw->spec, w);
  core_forward(r, &core, &kept[QKV]);
  void *out = run_buffer(r, (gsize)tokens * hidden);
  linear_forward(r, tokens, w->context, hidden, kept[CONTEXT], lw->weight[BLOCK_PROJECTION], NULL, out);
  return join(r, out, lw->weight[BLOCK_PROJECTION_BIAS], kept[X]);
}

static void *half_feed_forward(const LayerRun *r, const LayerWeights *lw, LayerState *state, const Widths *w)
{
  int hidden = r->shape.hidden, tokens = r->shape.tokens;
  void **kept = state->kept;

  kept[STATS2] = run_keep_wide(r, 2 * r->shape.rows);
  kept[NORM2] = run_keep(r, (gsize)r->shape.rows * hidden);
  norm_forward(r, kept[X2], lw->weight[BLOCK_NORM2], lw->weight[BLOCK_NORM2_BIAS], kept[STATS2], kept[NORM2]);
  void *in = rows_gather(r, kept[NORM2], hidden);
  kept[UP] = run_keep(r, (gsize)tokens * w->up);
  linear_forward(r, tokens, hidden, w->up, in, lw->weight[BLOCK_UP], lw->weight[BLOCK_UP_BIAS], kept[UP]);
  rows_ungather(r, in, kept[NORM2]);
  kept[ACT] = run_keep(r, (gsize)tokens * w->ffn);
  if (lw->spec->ffn.kind == MLP_SWIGLU)
    r->b->swiglu_forward(r->b, r->s, tokens, w->ffn, kept[UP], kept[ACT]);
  else
    r->b->gelu_forward(r->b, r->s, (gsize)tokens * w->ffn, kept[UP], kept[ACT]);
  void *out = run_buffer(r, (gsize)tokens * hidden);
  linear_forward(r, tokens, w->ffn, hidden, kept[ACT], lw->weight[BLOCK_DOWN], NULL, out);
  return join(r, out, lw->weight[BLOCK_DOWN_BIAS], kept[X2]);
}

static void *forward(const LayerRun *r, const LayerWeights *lw, LayerState *state, void *x)
{
  Widths w = widths_of(&r->shape, lw->spec);

  state->kept[X] = x;
  state->kept[X2] = half_attention(r, lw, state, &w);
  return half_feed_forward(r, lw, state, &w);
}

/* The output's gradient on all rows, which the weight pass needs, and a copy of
 * this rank's rows that becomes the input's gradient. */
static void *split_gradient(const LayerRun *r, void *dy, void **all)
{
  gsize n = (gsize)r->shape.rows * r->shape.hidden;

  *all = rows_gather(r, dy, r->shape.hidden);
  if (*all != dy)
    return dy;
  void *own = run_buffer(r, n);
  r->b->copy(r->b, r->s, own, dy, n * r->bytes);
  return own;
}

/* Behind a product's input gradient: sums it over ranks and takes it through the norm. */
static void behind_norm(const LayerRun *r, const LayerWeights *lw, int slot, void *partial, const void *x, void *stats,
                        void *dx)
{
  void *dnorm = rows_sum(r, partial);

  norm_backward(r, x, lw->weight[slot], stats, dnorm, dx, lw->gradient[slot], lw->gradient[slot + 1]);
  run_drop(r, &dnorm);
}

static void *input_feed_forward(const LayerRun *r, const LayerWeights *lw, LayerState *state, const Widths *w, void *dy)
{
  int hidden = r->shape.hidden, tokens = r->shape.tokens;
  void **kept = state->kept, *dx = split_gradient(r, dy, &kept[D_DOWN]);
  void *dact = run_buffer(r, (gsize)tokens * w->ffn);

  linear_input(r, tokens, w->ffn, hidden, kept[D_DOWN], lw->weight[BLOCK_DOWN], dact);
  kept[D_UP] = run_buffer(r, (gsize)tokens * w->up);
  if (lw->spec->ffn.kind == MLP_SWIGLU)
    r->b->swiglu_backward(r->b, r->s, tokens, w->ffn, kept[UP], dact, kept[D_UP]);
  else
    r->b->gelu_backward(r->b, r->s, (gsize)tokens * w->ffn, kept[UP], dact, kept[D_UP]);
  run_drop(r, &dact);
  void *dnorm = run_buffer(r, (gsize)tokens * hidden);
  linear_input(r, tokens, hidden, w->up, kept[D_UP], lw->weight[BLOCK_UP], dnorm);
  behind_norm(r, lw, BLOCK_NORM2, dnorm, kept[X2], kept[STATS2], dx);
  return dx;
}

static void *input_attention(const LayerRun *r, const LayerWeights *lw, LayerState *state, const Widths *w, void *dy)
{
  int hidden = r->shape.hidden, tokens = r->shape.tokens;
  void **kept = state->kept, *dx = split_gradient(r, dy, &kept[D_PROJECTION]);
  void *dcontext = run_buffer(r, (gsize)tokens * w->context);

  linear_input(r, tokens, w->context, hidden, kept[D_PROJECTION], lw->weight[BLOCK_PROJECTION], dcontext);
  kept[D_QKV] = run_buffer(r, (gsize)tokens * w->qkv);
  Core core = core_of(lw->spec, w);
  core_backward(r, &core, &kept[QKV], dcontext, kept[D_QKV]);
  run_drop(r, &dcontext);
  rotate(r, w, kept[D_QKV], -1);
  void *dnorm = run_buffer(r, (gsize)tokens * hidden);
  linear_input(r, tokens, hidden, w->qkv, kept[D_QKV], lw->weight[BLOCK_QKV], dnorm);
  behind_norm(r, lw, BLOCK_NORM1, dnorm, kept[X], kept[STATS1], dx);
  return dx;
}

static void *input(const LayerRun *r, const LayerWeights *lw, LayerState *state, void *dy)
{
  Widths w = widths_of(&r->shape, lw->spec);
  void *dx = input_attention(r, lw, state, &w, input_feed_forward(r, lw, state, &w, dy));

  state_drop(r, state, 1u << X | 1u << STATS1 | 1u << QKV | 1u << LSE | 1u << HEADS | 1u << X2 | 1u << STATS2 | 1u << UP);
  return dx;
}

/* Of a product whose input was gathered. */
static void weight_column(const LayerRun *r, const LayerWeights *lw, int slot, int out, void *x, const void *dy)
{
  void *in = rows_gather(r, x, r->shape.hidden);

  linear_weight(r, r->shape.tokens, r->shape.hidden, out, in, dy, lw->gradient[slot], lw->gradient[slot + 1]);
  rows_ungather(r, in, x);
}

static void weight(const LayerRun *r, const LayerWeights *lw, LayerState *state)
{
  Widths w = widths_of(&r->shape, lw->spec);
  void **kept = state->kept;
  int tokens = r->shape.tokens, hidden = r->shape.hidden;

  linear_weight(r, tokens, w.ffn, hidden, kept[ACT], kept[D_DOWN], lw->gradient[BLOCK_DOWN],
                lw->gradient[BLOCK_DOWN_BIAS]);
  weight_column(r, lw, BLOCK_UP, w.up, kept[NORM2], kept[D_UP]);
  linear_weight(r, tokens, w.context, hidden, kept[CONTEXT], kept[D_PROJECTION], lw->gradient[BLOCK_PROJECTION],
                lw->gradient[BLOCK_PROJECTION_BIAS]);
  weight_column(r, lw, BLOCK_QKV, w.qkv, kept[NORM1], kept[D_QKV]);
}

/* Everything but the input, or what the attention core makes. */
static void forget(const LayerRun *r, LayerState *state)
{
  if (r->shape.plan->recompute == RECOMPUTE_FULL)
    state_drop(r, state, ~(1u << X));
  else if (r->shape.plan->recompute == RECOMPUTE_SELECTIVE)
    state_drop(r, state, 1u << LSE | 1u << HEADS);
}

static void remake(const LayerRun *r, const LayerWeights *lw, LayerState *state)
{
  Widths w = widths_of(&r->shape, lw->spec);

  if (!state->kept[NORM1]) {
    void *y = forward(r, lw, state, state->kept[X]);
    run_drop(r, &y);
  } else if (!state->kept[LSE]) {
    Core core = core_of(lw->spec, &w);
    core.again = TRUE;
    core_forward(r, &core, &state->kept[QKV]);
  }
}

const LayerType layer_block = { params, forward, input, weight, forget, remake };
