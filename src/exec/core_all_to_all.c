/* Every rank takes the whole sequence of its part of the heads, and gives them back. */
#include "exec/core.h"

enum { PARTS_MAX = 3 };

/* A row of heads: parts that are each divided over the ranks. */
typedef struct {
  int n, width[PARTS_MAX], row;
} Row;

static Row row_of(const int *widths, int n)
{
  Row row = { .n = n };

  for (int i = 0; i < n; i++)
    row.row += row.width[i] = widths[i];
  return row;
}

/* Rows of this rank's tokens to or from blocks of the ranks that have the heads. */
static void sort_heads(const LayerRun *r, const Row *row, void *rows, void *blocks, gboolean back)
{
  gsize tokens = r->shape.tokens, share = row->row / r->shape.cp;

  for (int rank = 0; rank < r->shape.cp; rank++) {
    gsize first = 0, at = 0;
    for (int i = 0; i < row->n; i++) {
      gsize part = row->width[i] / r->shape.cp;
      ExecRows wide = { core_at(r, rows, first + rank * part), row->row * r->bytes };
      ExecRows narrow = { core_at(r, blocks, rank * tokens * share + at), share * r->bytes };
      r->b->copy_rows(r->b, r->s, back ? wide : narrow, back ? narrow : wide, part * r->bytes, tokens);
      first += row->width[i];
      at += part;
    }
  }
}

/* Blocks of the ranks that have the tokens to or from whole sequences. */
static void sort_rows(const LayerRun *r, const Row *row, void *blocks, void *whole, gboolean back)
{
  int cp = r->shape.cp, seq = r->shape.seq, half = seq / 2;
  gsize share = row->row / cp;

  for (int rank = 0; rank < cp; rank++)
    for (int i = 0; i < 2 * r->shape.micro_batch; i++) {
      int sequence = i / 2, run = i % 2 == 0 ? rank : 2 * cp - 1 - rank;
      void *apart = core_at(r, blocks, ((gsize)rank * r->shape.tokens + sequence * seq + i % 2 * half) * share);
      void *together = core_at(r, whole, ((gsize)sequence * seq * cp + run * half) * share);
      r->b->copy(r->b, r->s, back ? apart : together, back ? together : apart, half * share * r->bytes);
    }
}

static void *exchange(const LayerRun *r, const Row *row, void *x)
{
  gsize n = (gsize)r->shape.tokens * row->row;
  g_autofree gsize *counts = g_new(gsize, r->shape.cp);
  void *y = run_buffer(r, n);

  for (int i = 0; i < r->shape.cp; i++)
    counts[i] = n / r->shape.cp;
  EXCHANGE(r, GROUP_CONTEXT, all_to_all, x, y, (ExecCounts) { counts, counts }, r->b->dtype);
  run_drop(r, &x);
  return y;
}

/* Rows of this rank's tokens to whole sequences of its heads, or `back`. */
static void swap(const LayerRun *r, const Row *row, void *rows, void *whole, gboolean back)
{
  void *blocks = run_buffer(r, (gsize)r->shape.tokens * row->row);

  if (back)
    sort_rows(r, row, blocks, whole, TRUE);
  else
    sort_heads(r, row, rows, blocks, FALSE);
  blocks = exchange(r, row, blocks);
  if (back)
    sort_heads(r, row, rows, blocks, TRUE);
  else
    sort_rows(r, row, blocks, whole, FALSE);
  run_drop(r, &blocks);
}

static Core share_of(const LayerRun *r, const Core *c)
{
  int cp = r->shape.cp;

  return (Core) { .attention = c->attention, .heads = c->heads / cp, .kv_heads = c->kv_heads / cp, .q = c->q / cp,
                  .kv = c->kv / cp, .qkv = c->qkv / cp };
}

static ExecAttention attention_of(const LayerRun *r, const Core *share, void *const *kept)
{
  ExecAttention a = core_attention(r, share, r->shape.seq * r->shape.cp, kept);

  a.context = kept[CORE_HEADS];
  return a;
}

static void forward(const LayerRun *r, const Core *c, void **kept)
{
  Core share = share_of(r, c);
  Row in = row_of((int[]) { c->q, c->kv, c->kv }, 3), out = row_of(&c->q, 1);

  if (!c->again) {
    void *whole = run_keep(r, (gsize)r->shape.tokens * c->qkv);
    swap(r, &in, kept[CORE_QKV], whole, FALSE);
    run_drop(r, &kept[CORE_QKV]);
    kept[CORE_QKV] = whole;
  }
  kept[CORE_HEADS] = run_keep(r, (gsize)r->shape.tokens * c->q);
  ExecAttention a = attention_of(r, &share, kept);
  r->b->attention_forward(r->b, r->s, &a);
  swap(r, &out, kept[CORE_CONTEXT], kept[CORE_HEADS], TRUE);
}

static void backward(const LayerRun *r, const Core *c, void **kept, const void *dcontext, void *dqkv)
{
  Core share = share_of(r, c);
  Row in = row_of((int[]) { c->q, c->kv, c->kv }, 3), out = row_of(&c->q, 1);
  void *dheads = run_buffer(r, (gsize)r->shape.tokens * c->q), *whole = run_buffer(r, (gsize)r->shape.tokens * c->qkv);
  ExecAttention a = attention_of(r, &share, kept);

  swap(r, &out, (void *)dcontext, dheads, FALSE);
  a.dcontext = dheads;
  a.dq = whole;
  a.dk = core_at(r, whole, share.q);
  a.dv = core_at(r, whole, share.q + share.kv);
  r->b->attention_backward(r->b, r->s, &a);
  run_drop(r, &dheads);
  swap(r, &in, dqkv, whole, TRUE);
  run_drop(r, &whole);
}

const CoreKind core_all_to_all = { forward, backward };
