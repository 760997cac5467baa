/* All ranks' keys and values are gathered, their gradients summed and scattered. */
#include "exec/core.h"

static void *gather(const LayerRun *r, const Core *c, const void *qkv)
{
  gsize n = core_pack_size(r, c);
  void *own = core_pack(r, c, qkv), *all = run_buffer(r, n * r->shape.cp);

  EXCHANGE(r, GROUP_CONTEXT, all_gather, own, all, n, r->b->dtype);
  run_drop(r, &own);
  return all;
}

static void forward(const LayerRun *r, const Core *c, void **kept)
{
  gsize n = core_pack_size(r, c);
  void *all = gather(r, c, kept[CORE_QKV]);

  for (int i = 0; i < r->shape.cp; i++) {
    int from = (r->shape.cp_rank + i) % r->shape.cp;
    core_block_forward(r, c, kept, &(CoreBlock) { from, core_at(r, all, from * n), NULL });
  }
  run_drop(r, &all);
}

static void backward(const LayerRun *r, const Core *c, void **kept, const void *dcontext, void *dqkv)
{
  gsize n = core_pack_size(r, c);
  int cp = r->shape.cp;
  void *all = gather(r, c, kept[CORE_QKV]), *sums = run_buffer(r, n * cp), *own;

  r->b->zero(r->b, r->s, dqkv, (gsize)r->shape.tokens * c->qkv * r->bytes);
  r->b->zero(r->b, r->s, sums, n * cp * r->bytes);
  for (int from = 0; from < cp; from++)
    core_block_backward(r, c, kept, &(CoreBlock) { from, core_at(r, all, from * n), core_at(r, sums, from * n) },
                        dcontext, dqkv);
  run_drop(r, &all);
  own = run_buffer(r, n);
  EXCHANGE(r, GROUP_CONTEXT, reduce_scatter, sums, own, n, r->b->dtype);
  run_drop(r, &sums);
  core_unpack(r, c, own, dqkv);
}

const CoreKind core_gather = { forward, backward };
