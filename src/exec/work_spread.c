/* Passes and exchanges of a vocabulary that is spread over the pipeline ranks. */
#include "exec/rank.h"

static gboolean early(const Exec *x)
{
  return x->program->schedule->vocabulary == 1;
}

static MicroState *share_of(Exec *x, int task)
{
  return &x->share.micro[exec_task(x, task)->micro];
}

/* The stage at an end of the model, if it is this rank's. */
static MicroState *stage_of(Exec *x, int task, int row)
{
  return x->row == row ? &x->chunks[0].micro[exec_task(x, task)->micro] : NULL;
}

void pass_logits(Exec *x, int task)
{
  MicroState *m = share_of(x, task);
  LayerWeights w = exec_head_weights(x);

  tokens_load(x, m, exec_task(x, task)->micro);
  m->layers->labels = m->tokens + x->shape.tokens;
  spread_logits(&x->run, &w, m->layers, g_steal_pointer(&m->in[0]), early(x));
}

void pass_vocabulary(Exec *x, int task)
{
  MicroState *m = share_of(x, task);
  LayerWeights w = exec_head_weights(x);

  m->out[1] = spread_gradients(&x->run, &w, m->layers, early(x));
  memory_release(&x->memory, x->run.s, g_steal_pointer(&m->tokens));
}

static void upload_tokens(Exec *x, int task, BackendStream *s)
{
  g_autofree int32_t *host = tokens_host(x, exec_task(x, task)->micro);

  x->b->upload(x->b, s, x->spread_tokens, host, x->shape.tokens * sizeof *host);
}

static gsize whole_rows(const Exec *x)
{
  return (gsize)x->shape.tokens * x->shape.hidden;
}

static void look_up(Exec *x, int task, BackendStream *s)
{
  MicroState *first = stage_of(x, task, 0);
  void *rows = first ? memory_alloc(&x->memory, s, PART_BUFFERS, whole_rows(x) * x->run.bytes) : x->spread_rows;

  upload_tokens(x, task, s);
  rows_look_up(&x->run, s, x->spread_tokens, exec_head_weights(x).weight[HEAD_TABLE], rows);
  x->b->all_reduce(x->b, x->shares[0], s, rows, whole_rows(x), x->b->dtype, EXEC_SUM);
  if (first)
    first->in[0] = rows;
}

static void looked_up(Exec *x, int task, BackendStream *s)
{
  MicroState *first = stage_of(x, task, 0);
  void *rows = first ? first->out[1] : x->spread_rows;

  upload_tokens(x, task, s);
  x->b->broadcast(x->b, x->shares[0], s, rows, whole_rows(x), x->b->dtype, 0);
  rows_looked_up(&x->run, s, x->spread_tokens, rows, exec_head_weights(x).gradient[HEAD_TABLE]);
  if (first)
    memory_release(&x->memory, s, g_steal_pointer(&first->out[1]));
}

static gsize own_rows(const Exec *x)
{
  return (gsize)x->shape.rows * x->shape.hidden;
}

static void hand_out(Exec *x, int task, BackendStream *s)
{
  MicroState *m = share_of(x, task);

  if (!m->in[0])
    m->in[0] = memory_alloc(&x->memory, s, PART_BUFFERS, own_rows(x) * x->run.bytes);
  x->b->broadcast(x->b, x->shares[1], s, m->in[0], own_rows(x), x->b->dtype, x->program->n_rows - 1);
}

/* The head's input gradient, of which every share has a part. */
static void sum_input(Exec *x, int task, BackendStream *s, void *part)
{
  MicroState *last = stage_of(x, task, x->program->n_rows - 1);

  x->b->all_reduce(x->b, x->shares[1], s, part, own_rows(x), x->b->dtype, EXEC_SUM);
  if (last)
    last->in[1] = part;
  else
    memory_release(&x->memory, s, part);
}

static void merge(Exec *x, int task, BackendStream *s)
{
  LayerState *state = share_of(x, task)->layers;

  spread_merge(&x->run, state, s, x->shares[1]);
  if (early(x))
    sum_input(x, task, s, spread_merge_input(&x->run, state, s));
}

static void sum_gradient(Exec *x, int task, BackendStream *s)
{
  sum_input(x, task, s, g_steal_pointer(&share_of(x, task)->out[1]));
}

void work_exchange(Exec *x, int task, BackendStream *s)
{
  static void (*const exchanges[EXCHANGE_COUNT])(Exec *, int, BackendStream *) = {
    [EXCHANGE_LOOKUP] = look_up, [EXCHANGE_LOOKED_UP] = looked_up, [EXCHANGE_OUTPUT] = hand_out,
    [EXCHANGE_LOGITS] = merge, [EXCHANGE_GRADIENT] = sum_gradient,
  };

  exchanges[exec_segment(x, task)->exchange](x, task, s);
}
