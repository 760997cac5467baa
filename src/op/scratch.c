/*
 * What a pass holds for a while where a block's gradients wait for its end, as in src/exec: of each product the
 * gradient of what it made, the gradient that passes on along the residual, and the worst of what comes and goes
 * meanwhile. Derived from the sources named below, which free nothing before.
 */
#include "op/build.h"

static double rows_bytes(const Build *b, double rows)
{
  return rows * b->hidden * b->bytes;
}

/* A product's input gradient, and this rank's rows of the sum over tensor-parallel ranks (exec/linear.c, rows_sum). */
static double product_bytes(const Build *b)
{
  return rows_bytes(b, b->tokens) + (b->passes->sequence_parallel ? rows_bytes(b, b->rows) : 0);
}

/* Beside the gradient of the context (exec/core_ring.c, core_gather.c, core_all_to_all.c): blocks of keys and values,
 * their gradients and those that travel; of all ranks; or heads' gradients, whole and in blocks that are sent and
 * come. */
static double context_bytes(const Build *b, double query, double keys)
{
  int cp = b->passes->cp;

  if (cp == 1)
    return 0;
  switch (b->passes->context) {
  case CONTEXT_RING:
    return (cp == 2 ? 4 : 5) * keys;
  case CONTEXT_GATHER:
    return 2 * cp * keys;
  default:
    return MAX(4 * query + keys, 3 * (query + keys));
  }
}

static double attention_bytes(const Build *b)
{
  const Attention *a = b->attention;
  double head = b->tokens / b->tp * a->head_dim * b->bytes, query = head * a->heads, keys = 2 * head * a->kv_heads;

  return query + context_bytes(b, query, keys);
}

void build_scratch(Build *b)
{
  LayerWork *work = b->work;
  double passing = rows_bytes(b, b->rows);

  if (b->spec->kind == LAYER_BLOCK)
    work->transient_bytes = passing + work->gradient_bytes +
                            MAX(work->transient_bytes, MAX(product_bytes(b), attention_bytes(b)));
  else /* the gradient of logits takes their place (exec/layer_head.c) */
    work->transient_bytes = passing + rows_bytes(b, b->tokens);
}
