#include "exec/core.h"

#include <math.h>

static const CoreKind *kind_of(const LayerRun *r)
{
  static const CoreKind *const kinds[CONTEXT_COUNT] = {
    [CONTEXT_RING] = &core_ring, [CONTEXT_GATHER] = &core_gather, [CONTEXT_ALL_TO_ALL] = &core_all_to_all,
  };

  return r->shape.cp > 1 ? kinds[r->shape.layout->passes.context] : &core_alone;
}

void core_forward(const LayerRun *r, const Core *c, void **kept)
{
  kept[CORE_LSE] = run_keep_wide(r, (gsize)c->heads * r->shape.tokens);
  kind_of(r)->forward(r, c, kept);
}

void core_backward(const LayerRun *r, const Core *c, void **kept, const void *dcontext, void *dqkv)
{
  kind_of(r)->backward(r, c, kept, dcontext, dqkv);
}

ExecAttention core_attention(const LayerRun *r, const Core *c, int seq, void *const *kept)
{
  const void *qkv = kept[CORE_QKV];

  return (ExecAttention) {
    .batch = r->shape.micro_batch, .q_len = seq, .kv_len = seq, .q_rows = seq, .kv_rows = seq, .heads = c->heads,
    .kv_heads = c->kv_heads, .head_dim = c->attention->head_dim, .ld_q = c->qkv, .ld_kv = c->qkv,
    .causal = c->attention->causal, .window = c->attention->window, .scale = 1 / sqrt(c->attention->head_dim), .q = qkv,
    .k = core_at(r, qkv, c->q), .v = core_at(r, qkv, c->q + c->kv), .context = kept[CORE_CONTEXT],
    .lse = kept[CORE_LSE],
  };
}

static void alone_forward(const LayerRun *r, const Core *c, void **kept)
{
  ExecAttention a = core_attention(r, c, r->shape.seq, kept);

  r->b->attention_forward(r->b, r->s, &a);
}

static void alone_backward(const LayerRun *r, const Core *c, void **kept, const void *dcontext, void *dqkv)
{
  ExecAttention a = core_attention(r, c, r->shape.seq, kept);

  a.dcontext = dcontext;
  a.dq = dqkv;
  a.dk = core_at(r, dqkv, c->q);
  a.dv = core_at(r, dqkv, c->q + c->kv);
  r->b->attention_backward(r->b, r->s, &a);
}

const CoreKind core_alone = { alone_forward, alone_backward };

gsize core_pack_size(const LayerRun *r, const Core *c)
{
  return (gsize)r->shape.tokens * 2 * c->kv;
}

/* Keys and values in rows of q, k and v. */
static ExecRows pairs_of(const LayerRun *r, const Core *c, const void *qkv)
{
  return (ExecRows) { core_at(r, qkv, c->q), c->qkv * r->bytes };
}

void *core_pack(const LayerRun *r, const Core *c, const void *qkv)
{
  void *kv = run_buffer(r, core_pack_size(r, c));
  ExecRows packed = { kv, 2 * c->kv * r->bytes };

  r->b->copy_rows(r->b, r->s, packed, pairs_of(r, c, qkv), packed.pitch, r->shape.tokens);
  return kv;
}

void core_unpack(const LayerRun *r, const Core *c, void *dkv, void *dqkv)
{
  ExecRows packed = { dkv, 2 * c->kv * r->bytes };

  r->b->copy_rows(r->b, r->s, pairs_of(r, c, dqkv), packed, packed.pitch, r->shape.tokens);
  run_drop(r, &dkv);
}

/* The queries and keys of a block that see each other; `skip`: rows of a sequence
 * before its first query. */
static ExecAttention block_of(const LayerRun *r, const Core *c, void *const *kept, const CoreBlock *block, int *skip)
{
  ExecAttention a = core_attention(r, c, r->shape.seq, kept);
  int half = r->shape.seq / 2;

  a.k = block->kv;
  a.v = core_at(r, block->kv, c->kv);
  a.ld_kv = 2 * c->kv;
  *skip = 0;
  if (a.causal && block->from < r->shape.cp_rank)
    a.kv_len = half;
  else if (a.causal && block->from > r->shape.cp_rank) {
    a.q_len -= half;
    *skip = half;
  }
  a.causal = a.causal && block->from == r->shape.cp_rank;
  a.q = core_at(r, a.q, (gsize)*skip * a.ld_q);
  a.context = core_at(r, a.context, (gsize)*skip * c->q);
  a.lse = (char *)a.lse + *skip * r->wide_bytes;
  return a;
}

void core_block_forward(const LayerRun *r, const Core *c, void **kept, const CoreBlock *block)
{
  int skip;
  ExecAttention own = block_of(r, c, kept, block, &skip), other = own;

  if (block->from == r->shape.cp_rank) {
    r->b->attention_forward(r->b, r->s, &own);
    return;
  }
  void *context = run_buffer(r, (gsize)r->shape.tokens * c->q);
  void *lse = memory_alloc(r->memory, r->s, PART_BUFFERS, (gsize)c->heads * r->shape.tokens * r->wide_bytes);
  other.context = core_at(r, context, (gsize)skip * c->q);
  other.lse = (char *)lse + skip * r->wide_bytes;
  r->b->attention_forward(r->b, r->s, &other);
  r->b->attention_merge(r->b, r->s, &own, other.context, other.lse);
  run_drop(r, &context);
  run_drop(r, &lse);
}

void core_block_backward(const LayerRun *r, const Core *c, void **kept, const CoreBlock *block, const void *dcontext,
                         void *dqkv)
{
  int skip;
  ExecAttention a = block_of(r, c, kept, block, &skip);

  a.dcontext = core_at(r, dcontext, (gsize)skip * c->q);
  a.dq = core_at(r, dqkv, (gsize)skip * c->qkv);
  a.dk = block->dkv;
  a.dv = core_at(r, block->dkv, c->kv);
  a.add = TRUE;
  r->b->attention_backward(r->b, r->s, &a);
}
