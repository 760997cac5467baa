/* Experts behind a router, and experts that every token visits (shared). */
#include "exec/experts.h"

#include <math.h>

static const ExpertPath *const paths[DISPATCH_COUNT] = {
  [DISPATCH_ALL_TO_ALL] = &expert_path_all_to_all,
  [DISPATCH_GATHER] = &expert_path_gather,
};

static Experts experts_of(const LayerShape *shape, const LayerSpec *spec)
{
  const FeedForward *f = &spec->ffn;
  const PassLayout *p = &shape->layout->passes;
  gboolean apart = p->experts_apart;
  Experts w = { .path = apart ? paths[p->dispatch] : NULL, .experts = f->experts, .top = f->experts_per_token,
                .rows = apart ? shape->rows : shape->tokens, .ep = p->ep, .local = f->experts / p->ep,
                .etp = apart ? p->etp : 1, .etp_rank = apart ? shape->etp_rank : 0,
                .ffn = f->width / p->etp, .shared = f->shared_width / shape->tp };

  w.first_expert = w.local * shape->ep_rank;
  w.capacity = ceil((double)w.rows * w.top / w.experts * shape->layout->expert_capacity);
  w.up = up_width(spec, w.ffn);
  w.up_size = (LinearSize) { .in = shape->hidden, .out = w.up };
  w.down_size = (LinearSize) { .in = w.ffn, .out = shape->hidden };
  w.shared_up = up_width(spec, w.shared);
  return w;
}

/* Apart, an expert's matrices are divided over ranks of their own, else as other products are. */
static void params_experts(const LayerShape *shape, const LayerSpec *spec, int layer, const Experts *w, GArray *all)
{
  LayerShape own = *shape;
  Param up = param_matrix(layer, BLOCK_UP, shape->hidden, DEVIATION);
  Param down = param_matrix(layer, BLOCK_DOWN, w->ffn, deviation_behind(shape));
  int parts[] = { w->ffn, w->ffn };

  if (w->path) {
    own.tp = w->etp;
    own.tp_rank = w->etp_rank;
  }
  up.apart = down.apart = w->path != NULL;
  up.experts = down.experts = w->local;
  up.first_expert = down.first_expert = w->first_expert;
  up.expert_rows = up_width(spec, spec->ffn.width);
  down.expert_rows = shape->hidden;
  params_column(&own, up, parts, w->up / w->ffn, FALSE, all);
  params_row(&own, down, FALSE, all);
}

static void params(const LayerShape *shape, const LayerSpec *spec, int layer, GArray *all)
{
  Experts w = experts_of(shape, spec);
  Param router = param_matrix(layer, BLOCK_ROUTER, shape->hidden, DEVIATION);
  int parts[] = { w.shared, w.shared };

  router.n_rows = 1;
  router.rows[0].rows = w.experts;
  router.replicated = TRUE;
  router.partial = shape->tp > 1;
  g_array_append_val(all, router);
  params_experts(shape, spec, layer, &w, all);
  if (w.shared == 0)
    return;
  params_column(shape, param_matrix(layer, BLOCK_SHARED_UP, shape->hidden, DEVIATION), parts, w.shared_up / w.shared,
                FALSE, all);
  params_row(shape, param_matrix(layer, BLOCK_SHARED_DOWN, w.shared, deviation_behind(shape)), FALSE, all);
}

gsize route_bytes(const LayerRun *r, const Experts *w, int rows, int experts)
{
  return (gsize)rows * w->top * (r->wide_bytes + 2 * sizeof(int32_t)) + (experts + 1) * sizeof(int32_t);
}

ExecRoute route_in(const LayerRun *r, const Experts *w, void *block, int rows, int experts)
{
  gsize copies = (gsize)rows * w->top, weights = copies * r->wide_bytes, places = copies * sizeof(int32_t);
  char *at = block;

  return (ExecRoute) { .rows = rows, .experts = experts, .top = w->top, .capacity = w->capacity,
                       .by_position = r->shape.layout->expert_drop == DROP_POSITION,
                       .padded = r->shape.layout->expert_padded,
                       .weight = at, .chosen = (int32_t *)(at + weights), .place = (int32_t *)(at + weights + places),
                       .first = (int32_t *)(at + weights + 2 * places) };
}

ExecRoute route_of(const LayerRun *r, const LayerState *state, const Experts *w)
{
  return route_in(r, w, state->kept[ROUTE], w->rows, w->experts);
}

static void route(const LayerRun *r, const LayerWeights *lw, LayerState *state, const Experts *w, const void *in)
{
  int rows = w->rows, hidden = r->shape.hidden;
  void *logits = memory_alloc(r->memory, r->s, PART_BUFFERS, (gsize)rows * w->experts * r->wide_bytes);

  r->b->gemm(r->b, r->s, &(ExecGemm) { .transpose_b = 1, .wide_c = 1, .m = rows, .n = w->experts, .k = hidden,
                                       .batch = 1, .alpha = 1, .a = in, .b = lw->weight[BLOCK_ROUTER], .c = logits,
                                       .lda = hidden, .ldb = hidden, .ldc = w->experts });
  state->kept[ROUTE] = memory_alloc(r->memory, r->s, r->kept_as, route_bytes(r, w, rows, w->experts));
  ExecRoute found = route_of(r, state, w);
  found.logits = logits;
  r->b->route(r->b, r->s, &found);
  run_drop(r, &logits);
}

int32_t *experts_download(const LayerRun *r, const void *from, gsize n)
{
  int32_t *host = g_new(int32_t, n);

  r->b->download(r->b, r->s, host, from, n * sizeof *host);
  return host;
}

void visits_free(Visits *v)
{
  g_free(v->first);
  g_free(v->from);
  g_free(v->sent);
  g_free(v->received);
  g_free(v->arrived);
  g_free(v);
}

/* Brings to the host where copies go, once for all passes: each time the host waits for the device. */
static void visits_keep(const LayerRun *r, LayerState *state, const Experts *w)
{
  Visits *v = g_new0(Visits, 1);

  v->first = experts_download(r, route_of(r, state, w).first, w->experts + 1);
  v->own = v->copies = v->first[w->experts];
  if (w->path)
    w->path->agree(r, state, w, v);
  g_clear_pointer(&state->visits, visits_free);
  state->visits = v;
}

/* The route of the rows whose copies are laid out here. */
static ExecRoute seen_route(const LayerRun *r, const LayerState *state, const Experts *w)
{
  return w->path && w->path->seen ? w->path->seen(r, state, w) : route_of(r, state, w);
}

/* Those rows, a new buffer, or x; rows_ungather behind. */
static void *seen_rows(const LayerRun *r, const Experts *w, void *x)
{
  return w->path && w->path->gather ? w->path->gather(r, w, x, r->shape.hidden) : x;
}

/* A buffer of what they made, taken over, as a result for the rows routed here. */
static void *routed_rows(const LayerRun *r, const Experts *w, void *all, int width, ExecType type)
{
  return w->path && w->path->sum ? w->path->sum(r, w, all, width, type) : all;
}

/* Room for the copies laid out here; places that stay empty hold zeros. */
static void *room_for_copies(const LayerRun *r, const Visits *v)
{
  gsize n = (gsize)v->own * r->shape.hidden;
  void *copies = run_buffer(r, n);

  if (r->shape.layout->expert_padded)
    r->b->zero(r->b, r->s, copies, n * r->bytes);
  return copies;
}

/* By the path, or where nothing moves. */
static void *move_copies(const LayerRun *r, const Experts *w, const Visits *v, void *copies, MemoryPart part,
                         gboolean back)
{
  MoveCopies *move = !w->path ? NULL : back ? w->path->back : w->path->send;

  if (move)
    return move(r, w, v, copies, part);
  memory_retag(r->memory, copies, part);
  return copies;
}

/* Which of an expert's products: what it makes of its copies, or the gradient of these, or of its weights. */
typedef enum { EXPERTS_FORWARD, EXPERTS_INPUT, EXPERTS_WEIGHT } ExpertsPass;

/* A product of each expert that has copies: rows that go in and come out and weights, or gradients of these. */
static void each_expert(const LayerRun *r, const Experts *w, const Visits *v, ExpertsPass pass, LinearSize z,
                        const void *in, void *weights, const void *out)
{
  gsize weight_bytes = (gsize)z.in * z.out * (pass == EXPERTS_WEIGHT ? r->wide_bytes : r->bytes);

  for (int e = 0; e < w->local; e++) {
    gsize first = v->first[e];
    void *x = core_at(r, in, first * z.in), *y = core_at(r, out, first * z.out);
    void *weight = (char *)weights + e * weight_bytes;
    z.rows = v->first[e + 1] - v->first[e];
    if (z.rows == 0)
      continue;
    if (pass == EXPERTS_FORWARD)
      linear_forward(r, z, x, weight, NULL, y);
    else if (pass == EXPERTS_INPUT)
      linear_input(r, z, y, weight, x);
    else
      linear_weight(r, z, x, y, weight, NULL);
  }
}

/* The shared experts' part, of the rows of `all`, or NULL; summed over ranks but where the routed experts' part is still
 * to be, too. */
static void *shared_forward(const LayerRun *r, const LayerWeights *lw, LayerState *state, const Experts *w, void *all)
{
  int tokens = r->shape.tokens, hidden = r->shape.hidden;
  void **kept = state->kept;

  if (w->shared == 0)
    return NULL;
  void *in = w->path ? rows_gather(r, kept[NORM2], hidden) : all;
  kept[SHARED_UP] = run_keep(r, (gsize)tokens * w->shared_up);
  linear_forward(r, (LinearSize) { tokens, hidden, w->shared_up }, in, lw->weight[BLOCK_SHARED_UP], NULL,
                 kept[SHARED_UP]);
  rows_ungather(r, in, all);
  kept[SHARED_ACT] = run_keep(r, (gsize)tokens * w->shared);
  activate(r, lw->spec, tokens, w->shared, kept[SHARED_UP], kept[SHARED_ACT]);
  void *out = run_buffer(r, (gsize)tokens * hidden);
  linear_forward(r, (LinearSize) { tokens, w->shared, hidden }, kept[SHARED_ACT], lw->weight[BLOCK_SHARED_DOWN], NULL,
                 out);
  return w->path ? rows_sum(r, out) : out;
}

/* Joins what routed and shared experts make of rows, or of their gradients, and sums it over ranks as far as it is
 * a part; takes both over. */
static void *sum_parts(const LayerRun *r, const Experts *w, void *routed, void *shared)
{
  if (shared)
    r->b->add(r->b, r->s, (gsize)w->rows * r->shape.hidden, shared, routed);
  run_drop(r, &shared);
  return w->path ? routed : rows_sum(r, routed);
}

static void note_load(LayerState *state, const Experts *w)
{
  const Visits *v = state->visits;
  double even = (double)w->rows * w->top;
  gsize own = v->arrived ? v->arrived[w->etp_rank] : (gsize)v->copies;

  state->load = (ExpertLoad) { v->copies / (even * w->etp), own / even };
}

/* What the experts make of the rows of `in`. */
static void *routed_forward(const LayerRun *r, const LayerWeights *lw, LayerState *state, const Experts *w, void *in)
{
  int hidden = r->shape.hidden;
  void **kept = state->kept, *rows = seen_rows(r, w, in);
  ExecRoute seen = seen_route(r, state, w);
  const Visits *v = state->visits;

  note_load(state, w);
  void *copies = room_for_copies(r, v);
  r->b->dispatch_forward(r->b, r->s, &seen, hidden, rows, copies);
  rows_ungather(r, rows, in);
  kept[EXPERT_IN] = move_copies(r, w, v, copies, r->kept_as, FALSE);
  kept[UP] = run_keep(r, (gsize)v->copies * w->up);
  each_expert(r, w, v, EXPERTS_FORWARD, w->up_size, kept[EXPERT_IN], lw->weight[BLOCK_UP], kept[UP]);
  kept[ACT] = run_keep(r, (gsize)v->copies * w->ffn);
  activate(r, lw->spec, v->copies, w->ffn, kept[UP], kept[ACT]);
  void *out = run_buffer(r, (gsize)v->copies * hidden);
  each_expert(r, w, v, EXPERTS_FORWARD, w->down_size, kept[ACT], lw->weight[BLOCK_DOWN], out);
  kept[EXPERT_OUT] = move_copies(r, w, v, out, r->kept_as, TRUE);
  void *all = run_buffer(r, (gsize)seen.rows * hidden);
  r->b->combine_forward(r->b, r->s, &seen, hidden, kept[EXPERT_OUT], all);
  return routed_rows(r, w, all, hidden, r->b->dtype);
}

static void *forward(const LayerRun *r, const LayerWeights *lw, LayerState *state)
{
  Experts w = experts_of(&r->shape, lw->spec);
  void **kept = state->kept;

  kept[NORM2] = norm_forward(r, lw, BLOCK_NORM2, kept[X2], &kept[STATS2], r->kept_as);
  void *in = w.path ? kept[NORM2] : rows_gather(r, kept[NORM2], r->shape.hidden);
  route(r, lw, state, &w, in);
  visits_keep(r, state, &w);
  void *out = routed_forward(r, lw, state, &w, in);
  out = sum_parts(r, &w, out, shared_forward(r, lw, state, &w, in));
  rows_ungather(r, in, kept[NORM2]);
  return half_residual(r, out, NULL, kept[X2]);
}

/* The part of the input's gradient that comes through the shared experts, or NULL. */
static void *shared_input(const LayerRun *r, const LayerWeights *lw, LayerState *state, const Experts *w)
{
  int tokens = r->shape.tokens, hidden = r->shape.hidden;
  void **kept = state->kept;

  if (w->shared == 0)
    return NULL;
  void *dact = run_buffer(r, (gsize)tokens * w->shared);
  linear_input(r, (LinearSize) { tokens, w->shared, hidden }, kept[D_DOWN], lw->weight[BLOCK_SHARED_DOWN], dact);
  kept[D_SHARED_UP] = run_buffer(r, (gsize)tokens * w->shared_up);
  activate_backward(r, lw->spec, tokens, w->shared, kept[SHARED_UP], dact, kept[D_SHARED_UP]);
  run_drop(r, &dact);
  void *part = run_buffer(r, (gsize)tokens * hidden);
  linear_input(r, (LinearSize) { tokens, hidden, w->shared_up }, kept[D_SHARED_UP], lw->weight[BLOCK_SHARED_UP], part);
  return w->path ? rows_sum(r, part) : part;
}

/* Gradients of the experts' outputs, returned, and of the logits. */
static void *input_combine(const LayerRun *r, LayerState *state, const Experts *w, const Visits *v, void *dy)
{
  ExecRoute found = route_of(r, state, w), seen = seen_route(r, state, w);
  int hidden = r->shape.hidden;
  void **kept = state->kept, *rows = seen_rows(r, w, dy), *dcopies = room_for_copies(r, v);
  void *dweight = memory_alloc(r->memory, r->s, PART_BUFFERS, (gsize)seen.rows * w->top * r->wide_bytes);

  r->b->combine_backward(r->b, r->s, &seen, hidden, kept[EXPERT_OUT], rows, dcopies, dweight);
  rows_ungather(r, rows, dy);
  dweight = routed_rows(r, w, dweight, w->top, exec_wide(r->b->dtype));
  kept[D_LOGITS] = run_buffer(r, (gsize)w->rows * w->experts);
  r->b->route_backward(r->b, r->s, &found, dweight, kept[D_LOGITS]);
  run_drop(r, &dweight);
  return dcopies;
}

/* Takes the gradients of copies through their experts. */
static void *input_experts(const LayerRun *r, const LayerWeights *lw, LayerState *state, const Experts *w,
                           const Visits *v, void *dcopies)
{
  int hidden = r->shape.hidden;
  void **kept = state->kept;

  kept[D_EXPERT_OUT] = move_copies(r, w, v, dcopies, PART_BUFFERS, FALSE);
  void *dact = run_buffer(r, (gsize)v->copies * w->ffn);
  each_expert(r, w, v, EXPERTS_INPUT, w->down_size, dact, lw->weight[BLOCK_DOWN], kept[D_EXPERT_OUT]);
  kept[D_UP] = run_buffer(r, (gsize)v->copies * w->up);
  activate_backward(r, lw->spec, v->copies, w->ffn, kept[UP], dact, kept[D_UP]);
  run_drop(r, &dact);
  void *din = run_buffer(r, (gsize)v->copies * hidden);
  each_expert(r, w, v, EXPERTS_INPUT, w->up_size, din, lw->weight[BLOCK_UP], kept[D_UP]);
  return move_copies(r, w, v, din, PART_BUFFERS, TRUE);
}

/* The gradient of the router's input, through experts and logits. */
static void *input_routed(const LayerRun *r, const LayerWeights *lw, LayerState *state, const Experts *w, void *dy)
{
  ExecRoute seen = seen_route(r, state, w);
  int hidden = r->shape.hidden;
  gsize n = (gsize)w->rows * hidden;
  const Visits *v = state->visits;

  void *din = input_experts(r, lw, state, w, v, input_combine(r, state, w, v, dy));
  void *all = memory_alloc_zero(r->memory, r->s, PART_BUFFERS, (gsize)seen.rows * hidden * r->bytes);
  r->b->dispatch_backward(r->b, r->s, &seen, hidden, din, all);
  run_drop(r, &din);
  all = routed_rows(r, w, all, hidden, r->b->dtype);
  void *dnorm = run_buffer(r, n);
  linear_input(r, (LinearSize) { w->rows, hidden, w->experts }, state->kept[D_LOGITS], lw->weight[BLOCK_ROUTER], dnorm);
  r->b->add(r->b, r->s, n, all, dnorm);
  run_drop(r, &all);
  return dnorm;
}

static void *input(const LayerRun *r, const LayerWeights *lw, LayerState *state, void *dy)
{
  Experts w = experts_of(&r->shape, lw->spec);
  gboolean on_all_rows = !w.path || w.shared > 0; /* of all tensor-parallel ranks the output's gradient is read */
  void **kept = state->kept, *dx = on_all_rows ? half_split(r, dy, &kept[D_DOWN]) : dy;
  void *shared = shared_input(r, lw, state, &w);
  void *dnorm = sum_parts(r, &w, input_routed(r, lw, state, &w, w.path ? dx : kept[D_DOWN]), shared);

  norm_backward(r, lw, BLOCK_NORM2, kept[X2], kept[STATS2], dnorm, dx, TRUE);
  run_drop(r, &dnorm);
  return dx;
}

static void shared_weight(const LayerRun *r, const LayerWeights *lw, LayerState *state, const Experts *w, void *all)
{
  int tokens = r->shape.tokens, hidden = r->shape.hidden;
  void **kept = state->kept;

  if (w->shared == 0)
    return;
  linear_weight(r, (LinearSize) { tokens, w->shared, hidden }, kept[SHARED_ACT], kept[D_DOWN],
                lw->gradient[BLOCK_SHARED_DOWN], NULL);
  void *in = w->path ? rows_gather(r, kept[NORM2], hidden) : all;
  linear_weight(r, (LinearSize) { tokens, hidden, w->shared_up }, in, kept[D_SHARED_UP], lw->gradient[BLOCK_SHARED_UP],
                NULL);
  rows_ungather(r, in, all);
}

static void weight(const LayerRun *r, const LayerWeights *lw, LayerState *state)
{
  Experts w = experts_of(&r->shape, lw->spec);
  int hidden = r->shape.hidden;
  const Visits *v = state->visits;
  void **kept = state->kept, *in = w.path ? kept[NORM2] : rows_gather(r, kept[NORM2], hidden);

  shared_weight(r, lw, state, &w, in);
  each_expert(r, &w, v, EXPERTS_WEIGHT, w.down_size, kept[ACT], lw->gradient[BLOCK_DOWN], kept[D_EXPERT_OUT]);
  each_expert(r, &w, v, EXPERTS_WEIGHT, w.up_size, kept[EXPERT_IN], lw->gradient[BLOCK_UP], kept[D_UP]);
  linear_weight(r, (LinearSize) { w.rows, hidden, w.experts }, in, kept[D_LOGITS], lw->gradient[BLOCK_ROUTER], NULL);
  rows_ungather(r, in, kept[NORM2]);
}

const FeedForwardKind feed_forward_experts = { params, forward, input, weight,
                                               1u << UP | 1u << ROUTE | 1u << EXPERT_OUT | 1u << SHARED_UP |
                                                   1u << VISITS };
