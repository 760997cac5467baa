/* Token and learned position embedding; the table is divided by vocabulary. */
#include "exec/layer.h"

#define DEVIATION 0.02

enum { X, DY };

static void params(const LayerShape *shape, const LayerSpec *spec, int layer, GArray *all)
{
  Param table = param_matrix(layer, EMBEDDING_TABLE, shape->hidden, DEVIATION);
  Param positions = param_matrix(layer, EMBEDDING_POSITIONS, shape->hidden, DEVIATION);

  (void)spec;
  table.n_rows = 1;
  table.rows[0] = (ParamRows) { shape->vocab_rows, shape->vocab_first };
  table.end_row = shape->model->vocab;
  table.tied = shape->model->tied_embeddings;
  if (!shape->spread)
    g_array_append_val(all, table);
  if (shape->model->position_rows == 0)
    return;
  positions.n_rows = 1;
  positions.rows[0].rows = shape->model->position_rows;
  positions.replicated = TRUE;
  g_array_append_val(all, positions);
}

void rows_look_up(const LayerRun *r, BackendStream *s, const int32_t *tokens, const void *table, void *y)
{
  r->b->embedding_forward(r->b, s, r->shape.tokens, r->shape.hidden, r->shape.vocab_first, r->shape.vocab_rows, tokens,
                          table, y);
}

void rows_looked_up(const LayerRun *r, BackendStream *s, const int32_t *tokens, const void *dy, void *dtable)
{
  r->b->embedding_backward(r->b, s, r->shape.tokens, r->shape.hidden, r->shape.vocab_first, r->shape.vocab_rows, tokens,
                           dy, dtable);
}

/* `x` is what was looked up in a spread vocabulary. */
static void *forward(const LayerRun *r, const LayerWeights *w, LayerState *state, void *x)
{
  const LayerShape *shape = &r->shape;

  g_assert(!x == !shape->spread);
  void *y = x ? x : run_buffer(r, (gsize)shape->tokens * shape->hidden);
  if (!x)
    rows_look_up(r, r->s, state->tokens, w->weight[EMBEDDING_TABLE], y);
  y = rows_sum(r, y);
  if (w->weight[EMBEDDING_POSITIONS])
    r->b->position_forward(r->b, r->s, shape->rows, shape->hidden, shape->places,
                           shape->sp ? shape->rows * shape->tp_rank : 0, w->weight[EMBEDDING_POSITIONS], y);
  memory_retag(r->memory, y, r->kept_as);
  return y;
}

static void *input(const LayerRun *r, const LayerWeights *w, LayerState *state, void *dy)
{
  (void)r, (void)w;
  state->kept[DY] = dy;
  return NULL;
}

static void weight(const LayerRun *r, const LayerWeights *w, LayerState *state)
{
  const LayerShape *shape = &r->shape;
  void *dy = rows_gather(r, state->kept[DY], shape->hidden);

  if (!shape->spread)
    rows_looked_up(r, r->s, state->tokens, dy, w->gradient[EMBEDDING_TABLE]);
  if (w->gradient[EMBEDDING_POSITIONS])
    r->b->position_backward(r->b, r->s, shape->tokens, shape->hidden, shape->places, 0, dy,
                            w->gradient[EMBEDDING_POSITIONS]);
  if (!shape->spread) {
    rows_ungather(r, dy, state->kept[DY]);
    return;
  }
  if (dy == state->kept[DY])
    state->kept[DY] = NULL;
  state->gathered = dy;
}

const LayerType layer_embedding = { params, forward, input, weight, NULL, NULL };
