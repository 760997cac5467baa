/*
 * What a pass holds for a while where a block's gradients wait for its end, as in src/exec: of each product the
 * gradient of what it made, the gradient that passes on along the residual, and the worst of what comes and goes
 * meanwhile. A forward holds what its last products make, when all that it keeps is there. Derived from the sources named
 * below, which free nothing before.
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

static double head_bytes(const Build *b)
{
  return b->tokens / b->tp * b->attention->head_dim * b->bytes;
}

static double attention_bytes(const Build *b)
{
  double query = head_bytes(b) * b->attention->heads, keys = 2 * head_bytes(b) * b->attention->kv_heads;

  return query + context_bytes(b, query, keys);
}

/* Gradients of what the attention's two products made, which are not there yet while the feed-forward goes back. */
static double attention_gradients(const Build *b)
{
  return head_bytes(b) * (b->attention->heads + 2 * b->attention->kv_heads) + rows_bytes(b, b->tokens);
}

/* Of copies those that this rank's experts have of what it sees: of all, or of ranks that divide experts. */
static double experts_copies(const Build *b, double routed, gboolean gathers)
{
  return routed * pass_expert_rows(b->passes) / (gathers ? b->passes->ep : 1);
}

/* The worst moment of giving back the copies that came to this rank's experts (exec/experts_exchange.c, return_copies): by
 * expert and by rank; by rank and what the rank itself had sent; of ranks that share matrices, by rank, their parts of what
 * came to this one and the sum. */
static double returned_rows(const Build *b, double routed)
{
  const PassLayout *p = b->passes;
  double all = p->etp * routed * p->expert_tokens, own = routed * p->expert_own_tokens;

  return all + MAX(all, p->etp > 1 ? (p->etp + 1) * own : routed);
}

/* Beside the gradients of the feed-forward's products, with what shared experts gave: copies that are given back; or rows
 * that experts have and a sum of all that were seen (exec/experts.c, input_routed). */
static double experts_bytes(const Build *b)
{
  const PassLayout *p = b->passes;
  const FeedForward *f = &b->spec->ffn;
  gboolean gathers = p->experts_apart && p->dispatch == DISPATCH_GATHER;
  double rows = p->experts_apart ? b->rows : b->tokens, seen = gathers ? rows * b->expert_block.size : rows;
  double routed = seen * f->experts_per_token, shared = f->shared_width > 0 ? rows : 0;

  if (!p->experts_apart || gathers)
    return rows_bytes(b, shared + seen + experts_copies(b, routed, gathers));
  return rows_bytes(b, shared + returned_rows(b, routed));
}

/* What a product made, and this rank's rows of the sum over tensor-parallel ranks. */
static double made_rows(const Build *b)
{
  return b->tokens + (b->passes->sequence_parallel ? b->rows : 0);
}

/* Of the rows of all ranks what routed and shared experts make of them (exec/experts.c, sum_parts); apart, the sum over
 * ranks that share matrices, the sum of what was gathered, or the shared experts' product behind it. */
static double experts_forward_rows(const Build *b)
{
  const PassLayout *p = b->passes;
  const FeedForward *f = &b->spec->ffn;
  gboolean gathers = p->experts_apart && p->dispatch == DISPATCH_GATHER;
  double shared = f->shared_width > 0 ? b->tokens : 0, own = p->sequence_parallel ? b->rows : 0;

  if (!p->experts_apart)
    return (p->sequence_parallel ? b->tokens : 0) + b->tokens + MAX(shared, own);
  double behind = b->rows + (shared > 0 ? shared + own : 0), seen = b->rows * b->expert_block.size;
  if (gathers)
    return MAX(seen + b->rows, behind);
  double routed = b->rows * f->experts_per_token;
  return MAX(behind, returned_rows(b, routed) - routed); /* what was sent is counted as kept */
}

void build_scratch(Build *b)
{
  LayerWork *work = b->work;
  double passing = rows_bytes(b, b->rows), feed_forward = b->spec->ffn.experts > 0 ? experts_bytes(b) : 0;

  if (b->spec->kind == LAYER_BLOCK)
    work->transient_bytes = passing + work->gradient_bytes + MAX(feed_forward - attention_gradients(b),
                                                                 MAX(product_bytes(b), attention_bytes(b)));
  else /* the gradient of logits takes their place (exec/layer_head.c) */
    work->transient_bytes = passing + rows_bytes(b, b->tokens);
  gboolean routed = b->spec->kind == LAYER_BLOCK && b->spec->ffn.experts > 0;
  work->forward_bytes = rows_bytes(b, routed ? experts_forward_rows(b) : made_rows(b));
}
