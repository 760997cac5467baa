/*
 * Attention's core, from rotated queries, keys and values to the context, over the
 * ranks of a context-parallel group.
 *
 * Each rank has two runs of every sequence, as far from its middle, so that a
 * causal mask leaves all ranks the same work. What they exchange, and when, is
 * the program's (src/op/context.c):
 *   ring        keys and values travel around, their gradients behind them, while
 *               a block is computed (Liu et al. 2023, arXiv 2310.01889)
 *   gather      all keys and values are gathered first, gradients scattered last
 *               (Llama 3, arXiv 2407.21783, section 3.3.2)
 *   all-to-all  heads for rows before the core and back behind it (Jacobs et al.
 *               2023, arXiv 2309.14509)
 * A causal block of another rank needs no mask: of an earlier run holder all
 * queries see the first half of the keys, of a later one the second half of the
 * queries sees all keys.
 *
 * To add a kind: a file with a const CoreKind, a line in core.c.
 */
#ifndef TDP_EXEC_CORE_H
#define TDP_EXEC_CORE_H

#include "exec/layer.h"

/* What is kept, in slots one behind the other. QKV has rows of q, k and v and is
 * laid out by heads after an all-to-all; HEADS is then the context of these heads. */
enum { CORE_QKV, CORE_CONTEXT, CORE_LSE, CORE_HEADS, CORE_SLOTS };

/* Heads and widths of a row on this rank, before an all-to-all. */
typedef struct {
  const Attention *attention;
  int heads, kv_heads;
  int q, kv, qkv;
  gboolean again; /* made again: QKV is laid out as the first time left it */
} Core;

/* Packed keys and values of a rank, and their gradients. */
typedef struct {
  int from;
  const void *kv;
  void *dkv;
} CoreBlock;

typedef struct {
  void (*forward)(const LayerRun *r, const Core *c, void **kept);
  /* dqkv has the layout of rows of q, k and v of this rank's tokens. */
  void (*backward)(const LayerRun *r, const Core *c, void **kept, const void *dcontext, void *dqkv);
} CoreKind;

extern const CoreKind core_alone, core_ring, core_gather, core_all_to_all;

/* Fills CONTEXT, allocated, from QKV; makes LSE and, where there is, HEADS. */
void core_forward(const LayerRun *r, const Core *c, void **kept);
void core_backward(const LayerRun *r, const Core *c, void **kept, const void *dcontext, void *dqkv);

/* For the kinds: queries of whole sequences of `seq` rows on their own keys. */
ExecAttention core_attention(const LayerRun *r, const Core *c, int seq, void *const *kept);

/* Keys and values of this rank beside each other, a new buffer, and gradients back. */
void *core_pack(const LayerRun *r, const Core *c, const void *qkv);
void core_unpack(const LayerRun *r, const Core *c, void *dkv, void *dqkv); /* takes dkv over */
gsize core_pack_size(const LayerRun *r, const Core *c); /* elements */

/* This rank's queries on a block; the own block comes first and is written,
 * others are merged. Gradients are added. */
void core_block_forward(const LayerRun *r, const Core *c, void **kept, const CoreBlock *block);
void core_block_backward(const LayerRun *r, const Core *c, void **kept, const CoreBlock *block, const void *dcontext,
                         void *dqkv);

static inline void *core_at(const LayerRun *r, const void *x, gsize elements)
{
  return (char *)x + elements * r->bytes;
}

#endif
