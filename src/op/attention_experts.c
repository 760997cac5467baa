/*
 * Attention by experts (JetMoE, arXiv 2404.07413), as transformers' JetMoeMoA: a router sends each token to a few, each
 * of which makes queries for all heads of keys; what these give goes through the same experts' second matrices, is
 * weighed and summed. Each rank has all of them, of each a tensor-parallel part, whatever divides other experts.
 */
#include "op/build.h"

/* Rows of all experts together, and values of one that this rank makes. */
static double routed_rows(const Build *b)
{
  return b->tokens * b->attention->experts_per_token;
}

static double expert_width(const Build *b)
{
  return b->attention->kv_heads * b->attention->head_dim / b->tp;
}

/* Tokens to where their experts read them. */
static void send(Build *b)
{
  const Attention *a = b->attention;
  double logits = WIDE * b->tokens * a->experts, rows = b->bytes * routed_rows(b) * b->hidden;

  build_linear(b, &(Linear) { .name = "attention router", .in = b->hidden, .out = a->experts, .batch = 1,
                              .rows = b->tokens, .saved = b->bytes * b->rows * b->hidden,
                              .split = LINEAR_REPLICATED });
  build_stream(b, &(Stream) { .name = "send to experts", .forward_bytes = 2 * rows + 2 * logits, .forward_kernels = 5,
                              .backward_bytes = 2 * rows, .backward_kernels = 3, .saved = logits });
}

/* Rows of experts' width. */
static double reordered_bytes(const Build *b)
{
  return b->bytes * routed_rows(b) * expert_width(b);
}

/* These into another order, into zeros; `saved` is what is kept of them as they were. */
static void reorder(Build *b, const char *name, double saved)
{
  double rows = reordered_bytes(b);

  build_stream(b, &(Stream) { .name = name, .forward_bytes = 3 * rows, .forward_kernels = 2,
                              .backward_bytes = 2 * rows, .backward_kernels = 1, .saved = saved });
}

void build_expert_queries(Build *b)
{
  const Attention *a = b->attention;

  b->dropped |= 1u << MODULE_LAYERNORM;
  build_entry(b);
  send(b);
  b->dropped &= ~(1u << MODULE_LAYERNORM);
  build_linear(b, &(Linear) { .name = "expert queries", .in = b->hidden, .out = expert_width(b), .batch = a->experts,
                              .rows = routed_rows(b) / a->experts, .saved = b->bytes * routed_rows(b) * b->hidden,
                              .split = LINEAR_COLUMN, .no_gather = TRUE });
  reorder(b, "queries to tokens", 0);
  build_linear(b, &(Linear) { .name = "kv", .in = b->hidden, .out = attention_made_keys(a) / b->tp, .batch = 1,
                              .rows = b->tokens, .split = LINEAR_COLUMN, .no_gather = TRUE, .kept = TRUE });
}

/* A fused core keeps what it gives, in the order of tokens: products read a copy. */
void build_expert_outputs(Build *b)
{
  const Attention *a = b->attention;
  double rows = b->bytes * routed_rows(b) * b->hidden;

  b->dropped |= 1u << MODULE_CORE_ATTN;
  reorder(b, "outputs to experts", b->kernel == ATTENTION_UNFUSED ? 0 : reordered_bytes(b));
  b->dropped &= ~(1u << MODULE_CORE_ATTN);
  build_linear(b, &(Linear) { .name = "expert outputs", .in = expert_width(b), .out = b->hidden, .batch = a->experts,
                              .rows = routed_rows(b) / a->experts, .saved = reordered_bytes(b), .split = LINEAR_ROW,
                              .no_reduce = TRUE, .apart = TRUE });
  build_stream(b, &(Stream) { .name = "weigh outputs", .forward_bytes = 4 * rows, .forward_kernels = 3,
                              .backward_bytes = 4 * rows, .backward_kernels = 4, .saved = rows });
  build_params(b, b->hidden);
  build_exit(b);
}
