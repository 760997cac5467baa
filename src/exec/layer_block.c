/* A transformer block: normed attention and normed feed-forward, each added to its input. */
#include "exec/block.h"

#include <math.h>

#define ROPE_THETA 10000.0

/* Of attention on this rank. */
static Core core_of(const LayerShape *shape, const LayerSpec *spec)
{
  const Attention *a = &spec->attention;
  Core c = { .attention = a, .heads = a->heads / shape->tp, .kv_heads = a->kv_heads / shape->tp };

  c.q = c.heads * a->head_dim;
  c.kv = c.kv_heads * a->head_dim;
  c.qkv = c.q + 2 * c.kv;
  return c;
}

static const FeedForwardKind *feed_forward_of(const LayerSpec *spec)
{
  return spec->ffn.experts > 0 ? &feed_forward_experts : &feed_forward_dense;
}

double deviation_behind(const LayerShape *shape)
{
  return DEVIATION / sqrt(2.0 * shape->model->blocks);
}

/* Behind a matrix that has been added. */
static void add_bias(Param p, GArray *params)
{
  p.slot++;
  p.id++;
  p.cols = p.all_cols = 1;
  p.first_col = 0;
  p.deviation = 0;
  g_array_append_val(params, p);
}

void params_column(const LayerShape *shape, Param p, const int *widths, int n, gboolean bias, GArray *params)
{
  int first = 0;

  p.n_rows = n;
  for (int i = 0; i < n; i++) {
    p.rows[i] = (ParamRows) { widths[i], first + widths[i] * shape->tp_rank };
    first += widths[i] * shape->tp;
  }
  g_array_append_val(params, p);
  if (bias)
    add_bias(p, params);
}

void params_row(const LayerShape *shape, Param p, gboolean bias, GArray *params)
{
  p.n_rows = 1;
  p.rows[0].rows = shape->hidden;
  p.first_col = p.cols * shape->tp_rank;
  p.all_cols = p.cols * shape->tp;
  g_array_append_val(params, p);
  p.replicated = TRUE;
  if (bias)
    add_bias(p, params);
}

static void params(const LayerShape *shape, const LayerSpec *spec, int layer, GArray *all)
{
  Core c = core_of(shape, spec);
  int qkv[] = { c.q, c.kv, c.kv };

  params_norm(shape, layer, BLOCK_NORM1, all);
  params_column(shape, param_matrix(layer, BLOCK_QKV, shape->hidden, DEVIATION), qkv, 3, spec->attention.qkv_bias, all);
  params_row(shape, param_matrix(layer, BLOCK_PROJECTION, c.q, deviation_behind(shape)), spec->attention.out_bias, all);
  params_norm(shape, layer, BLOCK_NORM2, all);
  feed_forward_of(spec)->params(shape, spec, layer, all);
}

/* Queries and keys of a buffer laid out as qkv. */
static void rotate(const LayerRun *r, const Core *c, void *qkv, int sign)
{
  if (r->shape.model->positions != POSITIONS_ROPE)
    return;
  r->b->rope(r->b, r->s, r->shape.tokens, r->shape.places, c->heads + c->kv_heads, c->attention->head_dim, c->qkv, qkv,
             ROPE_THETA, sign);
}

void activate(const LayerRun *r, const LayerSpec *spec, gsize rows, int ffn, const void *up, void *act)
{
  if (spec->ffn.kind == MLP_SWIGLU)
    r->b->swiglu_forward(r->b, r->s, rows, ffn, up, act);
  else
    r->b->gelu_forward(r->b, r->s, rows * ffn, up, act);
}

void activate_backward(const LayerRun *r, const LayerSpec *spec, gsize rows, int ffn, const void *up, const void *dact,
                       void *dup)
{
  if (spec->ffn.kind == MLP_SWIGLU)
    r->b->swiglu_backward(r->b, r->s, rows, ffn, up, dact, dup);
  else
    r->b->gelu_backward(r->b, r->s, rows * ffn, up, dact, dup);
}

void *half_residual(const LayerRun *r, void *y, const void *bias, const void *x)
{
  if (bias)
    r->b->bias_forward(r->b, r->s, r->shape.rows, r->shape.hidden, y, bias);
  r->b->add(r->b, r->s, (gsize)r->shape.rows * r->shape.hidden, x, y);
  memory_retag(r->memory, y, r->kept_as);
  return y;
}

void *half_join(const LayerRun *r, int in, const void *rows, const void *weight, const void *bias, const void *x)
{
  int tokens = r->shape.tokens, hidden = r->shape.hidden;
  void *out = run_buffer(r, (gsize)tokens * hidden);

  if (r->shape.tp > 1) {
    linear_forward(r, (LinearSize) { tokens, in, hidden }, rows, weight, NULL, out);
    return half_residual(r, rows_sum(r, out), bias, x);
  }
  ExecGemm g = linear_forward_product((LinearSize) { tokens, in, hidden }, rows, weight, bias, out);
  g.added = x;
  g.beta = 1;
  r->b->gemm(r->b, r->s, &g);
  memory_retag(r->memory, out, r->kept_as);
  return out;
}

static void *half_attention(const LayerRun *r, const LayerWeights *lw, LayerState *state)
{
  Core c = core_of(&r->shape, lw->spec);
  void **kept = state->kept;

  kept[NORM1] = norm_forward(r, lw, BLOCK_NORM1, kept[X], &kept[STATS1], r->kept_as);
  kept[QKV] = column_forward(r, lw, BLOCK_QKV, c.qkv, kept[NORM1]);
  rotate(r, &c, kept[QKV], 1);
  kept[CONTEXT] = run_keep(r, (gsize)r->shape.tokens * c.q);
  core_forward(r, &c, &kept[QKV]);
  return half_join(r, c.q, kept[CONTEXT], lw->weight[BLOCK_PROJECTION], lw->weight[BLOCK_PROJECTION_BIAS], kept[X]);
}

static void *forward(const LayerRun *r, const LayerWeights *lw, LayerState *state, void *x)
{
  state->kept[X] = x;
  state->kept[X2] = half_attention(r, lw, state);
  return feed_forward_of(lw->spec)->forward(r, lw, state);
}

void *half_split(const LayerRun *r, void *dy, void **all)
{
  gsize n = (gsize)r->shape.rows * r->shape.hidden;

  *all = rows_gather(r, dy, r->shape.hidden);
  if (*all != dy)
    return dy;
  void *own = run_buffer(r, n);
  r->b->copy(r->b, r->s, own, dy, n * r->bytes);
  return own;
}

void half_behind_norm(const LayerRun *r, const LayerWeights *lw, LayerState *state, int slot, void *partial,
                      WeightGradient weight, void *dx)
{
  void *dnorm = rows_sum_beside(r, partial, weight, lw, state), **kept = state->kept;
  gboolean first = slot == BLOCK_NORM1;

  norm_backward(r, lw, slot, kept[first ? X : X2], kept[first ? STATS1 : STATS2], dnorm, dx, TRUE);
  run_drop(r, &dnorm);
}

static void weight_qkv(const LayerRun *r, const LayerWeights *lw, LayerState *state)
{
  column_weight(r, lw, BLOCK_QKV, core_of(&r->shape, lw->spec).qkv, state->kept[NORM1], state->kept[D_QKV]);
}

static void *input_attention(const LayerRun *r, const LayerWeights *lw, LayerState *state, void *dy)
{
  Core c = core_of(&r->shape, lw->spec);
  int hidden = r->shape.hidden, tokens = r->shape.tokens;
  void **kept = state->kept, *dx = half_split(r, dy, &kept[D_PROJECTION]);
  void *dcontext = run_buffer(r, (gsize)tokens * c.q);

  linear_input(r, (LinearSize) { tokens, c.q, hidden }, kept[D_PROJECTION], lw->weight[BLOCK_PROJECTION], dcontext);
  kept[D_QKV] = run_buffer(r, (gsize)tokens * c.qkv);
  core_backward(r, &c, &kept[QKV], dcontext, kept[D_QKV]);
  run_drop(r, &dcontext);
  rotate(r, &c, kept[D_QKV], -1);
  void *dnorm = run_buffer(r, (gsize)tokens * hidden);
  linear_input(r, (LinearSize) { tokens, hidden, c.qkv }, kept[D_QKV], lw->weight[BLOCK_QKV], dnorm);
  half_behind_norm(r, lw, state, BLOCK_NORM1, dnorm, weight_qkv, dx);
  return dx;
}

static void *input(const LayerRun *r, const LayerWeights *lw, LayerState *state, void *dy)
{
  const FeedForwardKind *feed_forward = feed_forward_of(lw->spec);
  void *dx = input_attention(r, lw, state, feed_forward->input(r, lw, state, dy));

  state_drop(r, state, 1u << X | 1u << STATS1 | 1u << QKV | 1u << LSE | 1u << HEADS | 1u << X2 | 1u << STATS2 |
                           feed_forward->passed);
  return dx;
}

static void weight(const LayerRun *r, const LayerWeights *lw, LayerState *state)
{
  Core c = core_of(&r->shape, lw->spec);
  void **kept = state->kept;

  feed_forward_of(lw->spec)->weight(r, lw, state);
  linear_weight(r, (LinearSize) { r->shape.tokens, c.q, r->shape.hidden }, kept[CONTEXT], kept[D_PROJECTION],
                lw->gradient[BLOCK_PROJECTION], lw->gradient[BLOCK_PROJECTION_BIAS]);
  if (!r->overlaps)
    weight_qkv(r, lw, state);
}

/* Everything but the input, or what the attention core makes. */
static void forget(const LayerRun *r, LayerState *state)
{
  Recompute recompute = r->shape.layout->passes.recompute.granularity;

  if (recompute == RECOMPUTE_FULL)
    state_drop(r, state, ~(1u << X));
  else if (recompute == RECOMPUTE_SELECTIVE)
    state_drop(r, state, 1u << LSE | 1u << HEADS);
}

static void remake(const LayerRun *r, const LayerWeights *lw, LayerState *state)
{
  gboolean all = !state->kept[NORM1];

  if (!all && state->kept[LSE])
    return;
  if (r->remade)
    ++*r->remade;
  if (all) {
    void *y = forward(r, lw, state, state->kept[X]);
    run_drop(r, &y);
  } else {
    Core c = core_of(&r->shape, lw->spec);
    c.again = TRUE;
    core_forward(r, &c, &state->kept[QKV]);
  }
}

const LayerType layer_block = { params, forward, input, weight, forget, remake };
