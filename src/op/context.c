/* Attention's core over the ranks of a context-parallel group. */
#include "op/build.h"

typedef struct {
  Build *b;
  GArray *ops;      /* Op, as they run */
  double heads;     /* of the tensor-parallel rank */
  double rows;      /* queries of a rank */
  double keys_bytes; /* keys and values of a rank */
  Pass pass;
} Core;

static guint module_of(const Core *c)
{
  return c->pass == PASS_FORWARD ? 1u << MODULE_CORE_ATTN : 0;
}

static Op *add(Core *c, Op op)
{
  op.pass = c->pass;
  g_array_append_val(c->ops, op);
  return &g_array_index(c->ops, Op, c->ops->len - 1);
}

static Op exchange(const Core *c, const char *name, Collective what, double bytes, GroupShape group)
{
  if (what == COLLECTIVE_SEND) {
    for (int t = 0; t < TIER_MAX; t++)
      group.per_domain[t] = group.per_domain[t] == group.size ? 2 : 1;
    group.size = 2;
  }
  return (Op) { .name = name, .kind = OP_COLLECTIVE, .redone = module_of(c),
                .collective = { .what = what, .bytes = bytes, .group = group, .axis = AXIS_CONTEXT } };
}

/* Counts the whole square of `rows` queries and `square` keys, computes `keys` of them. */
double build_whole_keys(const Build *b, double rows, double keys)
{
  const Attention *a = b->attention;

  return a->causal && a->window > 0 && !a->chunked && !a->sparse && keys < rows ? rows : 0;
}

static Op core(const Core *c, double heads, double rows, double keys, double square, gboolean causal)
{
  const Attention *a = c->b->attention;
  double batch = c->b->passes->micro_batch;

  return (Op) {
    .name = "attention", .kind = OP_ATTENTION, .redone = module_of(c), .dropped = module_of(c),
    .attention = { .batch = batch, .heads = heads, .q_len = rows, .kv_len = keys, .head_dim = a->head_dim,
                   .v_head_dim = a->v_head_dim, .causal = causal, .dtype = c->b->passes->attention_format },
    .flops = (c->pass == PASS_FORWARD ? 2 : 4) * batch * heads * rows * square * (a->head_dim + a->v_head_dim),
  };
}

static Op sum(const Core *c, const char *name, double bytes)
{
  return (Op) { .name = name, .kind = OP_MEMORY, .redone = module_of(c),
                .memory = { .bytes = bytes, .kernels = 1, .operations = 1 } };
}

/* One step a rank of the ring: one on its own block, with the causal mask; of the others
 * a mask leaves half, as all of the queries on half of the keys. The next block
 * travels meanwhile; backward, the gradients of the last block travel with it. A backward
 * goes from the block that came last in the forward to the rank's own, or begins with that too: then the
 * gradients travel once more to their owner. */
static void ring(Core *c)
{
  const GroupShape *group = &c->b->context_outer;
  int ranks = group->size, inner = c->b->passes->context_inner;
  double heads = c->heads / inner, rows = c->rows * inner;
  gboolean causal = c->b->attention->causal, backward = c->pass != PASS_FORWARD;
  gboolean reversed = backward && !c->b->passes->framework->ring_returns;
  double out_bytes = c->b->bytes * c->b->tokens * c->heads * c->b->attention->v_head_dim;
  double sums_bytes = 3 * (backward ? out_bytes + c->keys_bytes : out_bytes);

  if (c->b->passes->framework->ring_keeps_blocks)
    c->b->work->transient_bytes = MAX(c->b->work->transient_bytes, (ranks - 1) * c->keys_bytes + ranks * out_bytes);
  for (int step = 0; step < ranks; step++) {
    gboolean last = step == ranks - 1, own = step == (reversed ? ranks - 1 : 0);
    double blocks = !last + (backward && step > 0);
    Op next = exchange(c, "pass keys on", COLLECTIVE_SEND, blocks * c->keys_bytes, *group);
    next.async = TRUE;
    next.joins = step > 0;
    Op attention = core(c, heads, rows, causal && !own ? rows / 2 : rows, rows, causal && own);
    Op add_up = sum(c, "sum blocks", sums_bytes);
    attention.joins = last && !backward;
    if (blocks > 0)
      add(c, next);
    add(c, attention);
    add_up.joins = last && reversed;
    add(c, add_up);
  }
  if (backward && !reversed)
    add(c, exchange(c, "return key gradients", COLLECTIVE_SEND, c->keys_bytes, *group));
}

static void gather(Core *c)
{
  int ranks = c->b->passes->cp;
  double seq = c->rows * ranks;

  add(c, exchange(c, "gather keys", COLLECTIVE_ALL_GATHER, ranks * c->keys_bytes, c->b->context));
  add(c, core(c, c->heads, c->rows, seq, seq, c->b->attention->causal));
  if (c->pass != PASS_FORWARD)
    add(c, exchange(c, "sum key gradients", COLLECTIVE_REDUCE_SCATTER, ranks * c->keys_bytes, c->b->context));
  c->b->work->transient_bytes = MAX(c->b->work->transient_bytes, 2 * ranks * c->keys_bytes);
}

/* Of all rows of the inner ranks: a ring's, or where these are all ranks, a window's too. */
static void whole_core(Core *c)
{
  const Attention *a = c->b->attention;
  double seq = c->rows * c->b->passes->cp, keys = a->window > 0 ? MIN(a->window, seq) : seq;

  if (c->b->context_outer.size > 1)
    ring(c);
  else if (a->chunked) /* stretches are like heads: each has rows of its own */
    add(c, core(c, c->heads / c->b->passes->cp * seq / keys, keys, keys, keys, a->causal));
  else {
    Op op = core(c, c->heads / c->b->passes->cp, seq, build_scored_keys(c->b, seq, keys), keys,
                 a->causal && keys == seq);
    op.attention.whole_len = build_whole_keys(c->b, seq, keys);
    add(c, op);
  }
}

/* Heads change places with rows among the inner ranks, and back. The core keeps its own output for the backward, beside
 * that which went back to rows (Transformer Engine's context_parallel.py, AttnFuncWithCPAndQKVOA2A and, with a ring
 * between, AttnFuncWithCPAndKVP2P). */
static void all_to_all(Core *c)
{
  const Attention *a = c->b->attention;
  const GroupShape *group = &c->b->context_inner;
  double in = c->keys_bytes + c->b->bytes * c->b->tokens * c->heads * a->head_dim;
  double out = c->b->bytes * c->b->tokens * c->heads * a->v_head_dim;
  gboolean backward = c->pass != PASS_FORWARD;
  guint at = c->ops->len;

  if (group->size == 1) {
    ring(c);
    return;
  }
  add(c, exchange(c, "heads for rows", COLLECTIVE_ALL_TO_ALL, backward ? out : in, *group));
  whole_core(c);
  while (g_array_index(c->ops, Op, at).kind != OP_ATTENTION)
    at++;
  g_array_index(c->ops, Op, at).saved_bytes = backward ? 0 : out;
  add(c, exchange(c, "rows for heads", COLLECTIVE_ALL_TO_ALL, backward ? in : out, *group));
}

static void (*const cores[CONTEXT_COUNT])(Core *) = {
  [CONTEXT_RING] = ring,
  [CONTEXT_GATHER] = gather,
  [CONTEXT_ALL_TO_ALL] = all_to_all,
  [CONTEXT_BOTH] = all_to_all,
};

void build_context_core(Build *b, double heads, double keys_bytes)
{
  g_autoptr(GArray) ops = g_array_new(FALSE, FALSE, sizeof(Op));
  Core c = { .b = b, .ops = b->work->forward, .heads = heads, .rows = b->seq / b->passes->cp,
             .keys_bytes = keys_bytes, .pass = PASS_FORWARD };
  guint first = b->work->forward->len;

  cores[b->passes->context](&c);
  g_array_index(b->work->forward, Op, first).saved_bytes = 4 * heads * b->tokens; /* log-sum-exp of each row */
  g_array_index(b->work->forward, Op, first).dropped = module_of(&c);
  c.ops = ops;
  c.pass = PASS_INPUT;
  cores[b->passes->context](&c);
  for (guint i = ops->len; i > 0; i--) /* backward ops are added in reverse order of running */
    g_array_append_val(b->work->backward, g_array_index(ops, Op, i - 1));
}
