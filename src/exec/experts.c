/*
 * Experts behind a router, and experts that every token visits (shared).
 *
 * Every tensor-parallel rank routes all tokens alike and has a part of each
 * expert, so what experts put out, and with it the gradients of the router's
 * weights, are parts of sums over these ranks. None of the tokens is dropped.
 */
#include "exec/block.h"

/* Widths on this rank. */
typedef struct {
  int experts, top, copies;   /* copies: of tokens, one for each expert that they visit */
  int ffn, up, shared, shared_up;
} Widths;

static Widths widths_of(const LayerShape *shape, const LayerSpec *spec)
{
  const FeedForward *f = &spec->ffn;
  Widths w = { .experts = f->experts, .top = f->experts_per_token, .copies = shape->tokens * f->experts_per_token,
               .ffn = f->width / shape->tp, .shared = f->shared_width / shape->tp };

  w.up = up_width(spec, w.ffn);
  w.shared_up = up_width(spec, w.shared);
  return w;
}

static void params_experts(const LayerShape *shape, const LayerSpec *spec, int layer, const Widths *w, GArray *all)
{
  Param up = param_matrix(layer, BLOCK_UP, shape->hidden, DEVIATION);
  Param down = param_matrix(layer, BLOCK_DOWN, w->ffn, deviation_behind(shape));
  int parts[] = { w->ffn, w->ffn };

  up.experts = down.experts = w->experts;
  up.expert_rows = up_width(spec, spec->ffn.width);
  down.expert_rows = shape->hidden;
  params_column(shape, up, parts, w->up / w->ffn, FALSE, all);
  params_row(shape, down, FALSE, all);
}

static void params(const LayerShape *shape, const LayerSpec *spec, int layer, GArray *all)
{
  Widths w = widths_of(shape, spec);
  Param router = param_matrix(layer, BLOCK_ROUTER, shape->hidden, DEVIATION);
  int parts[] = { w.shared, w.shared };

  router.n_rows = 1;
  router.rows[0].rows = w.experts;
  router.replicated = TRUE;
  router.partial = shape->tp > 1;
  params_add(all, router);
  params_experts(shape, spec, layer, &w, all);
  if (w.shared == 0)
    return;
  params_column(shape, param_matrix(layer, BLOCK_SHARED_UP, shape->hidden, DEVIATION), parts, w.shared_up / w.shared,
                FALSE, all);
  params_row(shape, param_matrix(layer, BLOCK_SHARED_DOWN, w.shared, deviation_behind(shape)), FALSE, all);
}

/* The parts of what ROUTE keeps. */
static ExecRoute route_of(const LayerRun *r, const LayerState *state, const Widths *w)
{
  char *kept = state->kept[ROUTE];
  gsize weights = w->copies * r->wide_bytes, places = w->copies * sizeof(int32_t);

  return (ExecRoute) { .rows = r->shape.tokens, .experts = w->experts, .top = w->top, .weight = kept,
                       .chosen = (int32_t *)(kept + weights), .place = (int32_t *)(kept + weights + places),
                       .first = (int32_t *)(kept + weights + 2 * places) };
}

static ExecRoute route(const LayerRun *r, const LayerWeights *lw, LayerState *state, const Widths *w, const void *in)
{
  gsize bytes = w->copies * (r->wide_bytes + 2 * sizeof(int32_t)) + (w->experts + 1) * sizeof(int32_t);
  int tokens = r->shape.tokens, hidden = r->shape.hidden;
  void *logits = memory_alloc(r->memory, r->s, PART_BUFFERS, (gsize)tokens * w->experts * r->wide_bytes);

  r->b->gemm(r->b, r->s, &(ExecGemm) { .transpose_b = 1, .wide_c = 1, .m = tokens, .n = w->experts, .k = hidden,
                                       .batch = 1, .alpha = 1, .a = in, .b = lw->weight[BLOCK_ROUTER], .c = logits,
                                       .lda = hidden, .ldb = hidden, .ldc = w->experts });
  state->kept[ROUTE] = memory_alloc(r->memory, r->s, r->kept_as, bytes);
  ExecRoute found = route_of(r, state, w);
  found.logits = logits;
  r->b->route(r->b, r->s, &found);
  run_drop(r, &logits);
  return found;
}

/* A product of each expert's weights with its copies. */
typedef void (*Product)(const LayerRun *r, int rows, int in, int out, const void *a, const void *b, void *c);

static void forward_product(const LayerRun *r, int rows, int in, int out, const void *x, const void *w, void *y)
{
  linear_forward(r, rows, in, out, x, w, NULL, y);
}

static void weight_product(const LayerRun *r, int rows, int in, int out, const void *x, const void *dy, void *dw)
{
  linear_weight(r, rows, in, out, x, dy, dw, NULL);
}

/* Bytes from an expert's part of an argument to the next copy's, or to the next expert's. */
typedef struct {
  gsize copy, expert;
} Step;

static char *at(const void *x, Step step, int copy, int expert)
{
  return (char *)x + copy * step.copy + expert * step.expert;
}

/* Calls a product for each expert; `first` is on the device. */
static void each_expert(const LayerRun *r, const ExecRoute *route, Product product, int in, int out, const void *a, Step sa,
                        const void *b, Step sb, void *c, Step sc)
{
  g_autofree int32_t *first = g_new(int32_t, route->experts + 1);

  r->b->download(r->b, r->s, first, route->first, (route->experts + 1) * sizeof *first);
  for (int e = 0; e < route->experts; e++)
    if (first[e + 1] > first[e])
      product(r, first[e + 1] - first[e], in, out, at(a, sa, first[e], e), at(b, sb, first[e], e), at(c, sc, first[e], e));
}

static Step by_copy(const LayerRun *r, int width)
{
  return (Step) { .copy = width * r->bytes };
}

static Step by_expert(int in, int out, gsize bytes)
{
  return (Step) { .expert = (gsize)in * out * bytes };
}

static void experts_forward(const LayerRun *r, const ExecRoute *route, int in, int out, const void *x, const void *weights,
                            void *y)
{
  each_expert(r, route, forward_product, in, out, x, by_copy(r, in), weights, by_expert(in, out, r->bytes), y,
              by_copy(r, out));
}

static void experts_input(const LayerRun *r, const ExecRoute *route, int in, int out, const void *dy, const void *weights,
                          void *dx)
{
  each_expert(r, route, linear_input, in, out, dy, by_copy(r, out), weights, by_expert(in, out, r->bytes), dx,
              by_copy(r, in));
}

static void experts_weight(const LayerRun *r, const ExecRoute *route, int in, int out, const void *x, const void *dy,
                           void *dweights)
{
  each_expert(r, route, weight_product, in, out, x, by_copy(r, in), dy, by_copy(r, out), dweights,
              by_expert(in, out, r->wide_bytes));
}

/* y += the shared experts' part. */
static void shared_forward(const LayerRun *r, const LayerWeights *lw, LayerState *state, const Widths *w, const void *in,
                           void *y)
{
  int tokens = r->shape.tokens, hidden = r->shape.hidden;
  void **kept = state->kept;

  if (w->shared == 0)
    return;
  kept[SHARED_UP] = run_keep(r, (gsize)tokens * w->shared_up);
  linear_forward(r, tokens, hidden, w->shared_up, in, lw->weight[BLOCK_SHARED_UP], NULL, kept[SHARED_UP]);
  kept[SHARED_ACT] = run_keep(r, (gsize)tokens * w->shared);
  activate(r, lw->spec, tokens, w->shared, kept[SHARED_UP], kept[SHARED_ACT]);
  void *out = run_buffer(r, (gsize)tokens * hidden);
  linear_forward(r, tokens, w->shared, hidden, kept[SHARED_ACT], lw->weight[BLOCK_SHARED_DOWN], NULL, out);
  r->b->add(r->b, r->s, (gsize)tokens * hidden, out, y);
  run_drop(r, &out);
}

static void *forward(const LayerRun *r, const LayerWeights *lw, LayerState *state)
{
  Widths w = widths_of(&r->shape, lw->spec);
  int hidden = r->shape.hidden;
  void **kept = state->kept, *in = norm_input(r, lw, state);
  ExecRoute found = route(r, lw, state, &w, in);

  kept[EXPERT_IN] = run_keep(r, (gsize)w.copies * hidden);
  r->b->dispatch_forward(r->b, r->s, &found, hidden, in, kept[EXPERT_IN]);
  kept[UP] = run_keep(r, (gsize)w.copies * w.up);
  experts_forward(r, &found, hidden, w.up, kept[EXPERT_IN], lw->weight[BLOCK_UP], kept[UP]);
  kept[ACT] = run_keep(r, (gsize)w.copies * w.ffn);
  activate(r, lw->spec, w.copies, w.ffn, kept[UP], kept[ACT]);
  kept[EXPERT_OUT] = run_keep(r, (gsize)w.copies * hidden);
  experts_forward(r, &found, w.ffn, hidden, kept[ACT], lw->weight[BLOCK_DOWN], kept[EXPERT_OUT]);
  void *out = run_buffer(r, (gsize)r->shape.tokens * hidden);
  r->b->combine_forward(r->b, r->s, &found, hidden, kept[EXPERT_OUT], out);
  shared_forward(r, lw, state, &w, in, out);
  rows_ungather(r, in, kept[NORM2]);
  return half_join(r, out, NULL, kept[X2]);
}

/* dnorm += what comes through the shared experts. */
static void shared_input(const LayerRun *r, const LayerWeights *lw, LayerState *state, const Widths *w, void *dnorm)
{
  int tokens = r->shape.tokens, hidden = r->shape.hidden;
  void **kept = state->kept;

  if (w->shared == 0)
    return;
  void *dact = run_buffer(r, (gsize)tokens * w->shared);
  linear_input(r, tokens, w->shared, hidden, kept[D_DOWN], lw->weight[BLOCK_SHARED_DOWN], dact);
  kept[D_SHARED_UP] = run_buffer(r, (gsize)tokens * w->shared_up);
  activate_backward(r, lw->spec, tokens, w->shared, kept[SHARED_UP], dact, kept[D_SHARED_UP]);
  run_drop(r, &dact);
  void *part = run_buffer(r, (gsize)tokens * hidden);
  linear_input(r, tokens, hidden, w->shared_up, kept[D_SHARED_UP], lw->weight[BLOCK_SHARED_UP], part);
  r->b->add(r->b, r->s, (gsize)tokens * hidden, part, dnorm);
  run_drop(r, &part);
}

/* Gradients of the experts' outputs and of the logits. */
static void input_combine(const LayerRun *r, LayerState *state, const Widths *w, const ExecRoute *found)
{
  int hidden = r->shape.hidden;
  void **kept = state->kept, *dweight = memory_alloc(r->memory, r->s, PART_BUFFERS, w->copies * r->wide_bytes);

  kept[D_EXPERT_OUT] = run_buffer(r, (gsize)w->copies * hidden);
  r->b->combine_backward(r->b, r->s, found, hidden, kept[EXPERT_OUT], kept[D_DOWN], kept[D_EXPERT_OUT], dweight);
  kept[D_LOGITS] = run_buffer(r, (gsize)r->shape.tokens * w->experts);
  r->b->route_backward(r->b, r->s, found, dweight, kept[D_LOGITS]);
  run_drop(r, &dweight);
}

static void *input(const LayerRun *r, const LayerWeights *lw, LayerState *state, void *dy)
{
  Widths w = widths_of(&r->shape, lw->spec);
  ExecRoute found = route_of(r, state, &w);
  int hidden = r->shape.hidden, tokens = r->shape.tokens;
  void **kept = state->kept, *dx = half_split(r, dy, &kept[D_DOWN]);

  input_combine(r, state, &w, &found);
  void *dact = run_buffer(r, (gsize)w.copies * w.ffn);
  experts_input(r, &found, w.ffn, hidden, kept[D_EXPERT_OUT], lw->weight[BLOCK_DOWN], dact);
  kept[D_UP] = run_buffer(r, (gsize)w.copies * w.up);
  activate_backward(r, lw->spec, w.copies, w.ffn, kept[UP], dact, kept[D_UP]);
  run_drop(r, &dact);
  void *din = run_buffer(r, (gsize)w.copies * hidden);
  experts_input(r, &found, hidden, w.up, kept[D_UP], lw->weight[BLOCK_UP], din);
  void *dnorm = run_buffer(r, (gsize)tokens * hidden);
  linear_input(r, tokens, hidden, w.experts, kept[D_LOGITS], lw->weight[BLOCK_ROUTER], dnorm);
  r->b->dispatch_backward(r->b, r->s, &found, hidden, din, dnorm);
  run_drop(r, &din);
  shared_input(r, lw, state, &w, dnorm);
  half_behind_norm(r, lw, BLOCK_NORM2, dnorm, kept[X2], kept[STATS2], dx);
  return dx;
}

static void weight(const LayerRun *r, const LayerWeights *lw, LayerState *state)
{
  Widths w = widths_of(&r->shape, lw->spec);
  ExecRoute found = route_of(r, state, &w);
  int tokens = r->shape.tokens, hidden = r->shape.hidden;
  void **kept = state->kept, *in = rows_gather(r, kept[NORM2], hidden);

  experts_weight(r, &found, w.ffn, hidden, kept[ACT], kept[D_EXPERT_OUT], lw->gradient[BLOCK_DOWN]);
  experts_weight(r, &found, hidden, w.up, kept[EXPERT_IN], kept[D_UP], lw->gradient[BLOCK_UP]);
  linear_weight(r, tokens, hidden, w.experts, in, kept[D_LOGITS], lw->gradient[BLOCK_ROUTER], NULL);
  if (w.shared > 0) {
    linear_weight(r, tokens, w.shared, hidden, kept[SHARED_ACT], kept[D_DOWN], lw->gradient[BLOCK_SHARED_DOWN], NULL);
    linear_weight(r, tokens, hidden, w.shared_up, in, kept[D_SHARED_UP], lw->gradient[BLOCK_SHARED_UP], NULL);
  }
  rows_ungather(r, in, kept[NORM2]);
}

const FeedForwardKind feed_forward_experts = { params, forward, input, weight, 1u << UP | 1u << EXPERT_OUT | 1u << SHARED_UP };
