/* Keys and values travel around the ranks beside the computation of blocks. */
#include "exec/core.h"

/* Rank whose block is here in a step. */
static int owner(const LayerRun *r, int step)
{
  return (r->shape.cp_rank - step + r->shape.cp) % r->shape.cp;
}

/* Starts to send a buffer to the next rank; returns what comes from the previous one,
 * there after exchange_wait(). */
static void *pass_on(const LayerRun *r, const void *x, gsize n)
{
  int cp = r->shape.cp, rank = r->shape.cp_rank;
  g_autofree gsize *out = g_new0(gsize, cp), *in = g_new0(gsize, cp);
  void *y = run_buffer(r, n);

  out[(rank + 1) % cp] = in[(rank - 1 + cp) % cp] = n;
  exchange_begin_beside(r);
  r->b->all_to_all(r->b, r->groups[GROUP_CONTEXT], r->beside, x, y, (ExecCounts) { out, in }, r->b->dtype);
  exchange_end_beside(r);
  return y;
}

static void forward(const LayerRun *r, const Core *c, void **kept)
{
  gsize n = core_pack_size(r, c);
  void *kv = core_pack(r, c, kept[CORE_QKV]);

  for (int step = 0; step < r->shape.cp; step++) {
    void *next = step < r->shape.cp - 1 ? pass_on(r, kv, n) : NULL;
    core_block_forward(r, c, kept, &(CoreBlock) { owner(r, step), kv, NULL });
    if (next)
      exchange_wait(r, GROUP_CONTEXT);
    run_drop(r, &kv);
    kv = next;
  }
}

/* Behind each block's keys and values come the gradients that earlier ranks found. */
static void backward(const LayerRun *r, const Core *c, void **kept, const void *dcontext, void *dqkv)
{
  gsize n = core_pack_size(r, c);
  void *kv = core_pack(r, c, kept[CORE_QKV]), *passed = NULL, *own;

  r->b->zero(r->b, r->s, dqkv, (gsize)r->shape.tokens * c->qkv * r->bytes);
  for (int step = 0; step < r->shape.cp; step++) {
    void *next = step < r->shape.cp - 1 ? pass_on(r, kv, n) : NULL;
    void *sums = passed ? pass_on(r, passed, n) : NULL, *dkv = run_buffer(r, n);
    r->b->zero(r->b, r->s, dkv, n * r->bytes);
    core_block_backward(r, c, kept, &(CoreBlock) { owner(r, step), kv, dkv }, dcontext, dqkv);
    exchange_wait(r, GROUP_CONTEXT);
    if (sums)
      r->b->add(r->b, r->s, n, sums, dkv);
    run_drop(r, &sums);
    run_drop(r, &passed);
    run_drop(r, &kv);
    passed = dkv;
    kv = next;
  }
  own = pass_on(r, passed, n);
  exchange_wait(r, GROUP_CONTEXT);
  run_drop(r, &passed);
  core_unpack(r, c, own, dqkv);
}

const CoreKind core_ring = { forward, backward };
