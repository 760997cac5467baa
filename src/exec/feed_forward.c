/* The dense feed-forward of a block. */
#include "exec/block.h"

static int ffn_width(const LayerShape *shape, const LayerSpec *spec)
{
  return spec->ffn.width / shape->tp;
}

static void params(const LayerShape *shape, const LayerSpec *spec, int layer, GArray *all)
{
  int ffn = ffn_width(shape, spec), up[] = { ffn, ffn };

  params_column(shape, param_matrix(layer, BLOCK_UP, shape->hidden, DEVIATION), up, up_width(spec, ffn) / ffn,
                spec->ffn.bias, all);
  params_row(shape, param_matrix(layer, BLOCK_DOWN, ffn, deviation_behind(shape)), spec->ffn.bias, all);
}

static void *forward(const LayerRun *r, const LayerWeights *lw, LayerState *state)
{
  int hidden = r->shape.hidden, tokens = r->shape.tokens, ffn = ffn_width(&r->shape, lw->spec);
  int up = up_width(lw->spec, ffn);
  void **kept = state->kept;

  kept[NORM2] = norm_forward(r, lw, BLOCK_NORM2, kept[X2], &kept[STATS2], r->kept_as);
  void *in = rows_gather(r, kept[NORM2], hidden);
  kept[UP] = run_keep(r, (gsize)tokens * up);
  kept[ACT] = run_keep(r, (gsize)tokens * ffn);
  ExecGemm g = linear_forward_product((LinearSize) { tokens, hidden, up }, in, lw->weight[BLOCK_UP],
                                      lw->weight[BLOCK_UP_BIAS], kept[UP]);
  if (lw->spec->ffn.kind != MLP_SWIGLU) {
    g.behind = EXEC_GELU;
    g.inner = kept[UP];
    g.c = kept[ACT];
  }
  r->b->gemm(r->b, r->s, &g);
  if (lw->spec->ffn.kind == MLP_SWIGLU)
    activate(r, lw->spec, tokens, ffn, kept[UP], kept[ACT]);
  rows_ungather(r, in, kept[NORM2]);
  return half_join(r, ffn, kept[ACT], lw->weight[BLOCK_DOWN], lw->weight[BLOCK_DOWN_BIAS], kept[X2]);
}

/* Gradient of what the down-projection's gradient `dy` comes from, before the activation. */
static void *input_up(const LayerRun *r, const LayerWeights *lw, int ffn, void *inner, const void *dy)
{
  int tokens = r->shape.tokens;
  void *dact = run_buffer(r, (gsize)tokens * ffn);
  ExecGemm g = linear_input_product((LinearSize) { tokens, ffn, r->shape.hidden }, dy, lw->weight[BLOCK_DOWN], dact);

  if (lw->spec->ffn.kind != MLP_SWIGLU) {
    g.behind = EXEC_GELU_BACKWARD;
    g.inner = inner;
  }
  r->b->gemm(r->b, r->s, &g);
  if (lw->spec->ffn.kind != MLP_SWIGLU)
    return dact;
  void *dup = run_buffer(r, (gsize)tokens * up_width(lw->spec, ffn));
  activate_backward(r, lw->spec, tokens, ffn, inner, dact, dup);
  run_drop(r, &dact);
  return dup;
}

static void weight_up(const LayerRun *r, const LayerWeights *lw, LayerState *state)
{
  column_weight(r, lw, BLOCK_UP, up_width(lw->spec, ffn_width(&r->shape, lw->spec)), state->kept[NORM2],
                state->kept[D_UP]);
}

static void *input(const LayerRun *r, const LayerWeights *lw, LayerState *state, void *dy)
{
  int hidden = r->shape.hidden, tokens = r->shape.tokens, ffn = ffn_width(&r->shape, lw->spec);
  int up = up_width(lw->spec, ffn);
  void **kept = state->kept, *dx = half_split(r, dy, &kept[D_DOWN]);

  kept[D_UP] = input_up(r, lw, ffn, kept[UP], kept[D_DOWN]);
  void *dnorm = run_buffer(r, (gsize)tokens * hidden);
  linear_input(r, (LinearSize) { tokens, hidden, up }, kept[D_UP], lw->weight[BLOCK_UP], dnorm);
  half_behind_norm(r, lw, state, BLOCK_NORM2, dnorm, weight_up, dx);
  return dx;
}

static void weight(const LayerRun *r, const LayerWeights *lw, LayerState *state)
{
  int ffn = ffn_width(&r->shape, lw->spec);
  void **kept = state->kept;

  linear_weight(r, (LinearSize) { r->shape.tokens, ffn, r->shape.hidden }, kept[ACT], kept[D_DOWN],
                lw->gradient[BLOCK_DOWN], lw->gradient[BLOCK_DOWN_BIAS]);
  if (!r->overlaps)
    weight_up(r, lw, state);
}

const FeedForwardKind feed_forward_dense = { params, forward, input, weight, 1u << UP };
