/* Linear attention of a block: Mamba-2, gated and Kimi's delta networks, lightning attention (model/model.h). */
#include "op/build.h"

/*
 * What its chunked kernels read and write, in passes over: values of all heads; keys (as many queries), of all heads
 * where kernels want them repeated; a state for each chunk, of which some stay in fp32; and the square of a chunk's
 * queries and keys. README.md beside cost/ says from which kernels each was counted.
 */
typedef struct {
  double values, keys, states, states_fp32, pairs, pairs_fp32;
  int kernels;
} ScanTraffic;

typedef struct {
  gboolean repeated;            /* keys and queries are laid out for each head of values */
  ScanTraffic forward, backward; /* the backward makes states and pairs again */
} ScanKind;

static const ScanKind kinds[] = {
  [LINEAR_MAMBA2] = { FALSE, { 5, 4, 2, 2, 0, 2, 5 }, { 16, 13, 7, 4, 0, 6, 16 } },
  [LINEAR_GATED_DELTA] = { TRUE, { 6, 9, 2, 0, 2, 2, 9 }, { 15, 21, 4, 0, 3, 0, 15 } },
  [LINEAR_LIGHTNING] = { FALSE, { 3, 3, 0, 2, 0, 0, 4 }, { 6, 7, 0, 4, 0, 0, 6 } },
  [LINEAR_MLSTM] = { FALSE, { 3, 3, 0, 2, 0, 0, 2 }, { 8, 8, 0, 5, 0, 0, 5 } },
  [LINEAR_KIMI_DELTA] = { TRUE, { 6, 20, 2, 0, 2, 2, 10 }, { 15, 43, 4, 0, 3, 0, 16 } },
};

#define STEP_BYTES 26           /* of a head's step and its running sum: read in 16 bits, kept in fp32, read twice */
#define STEP_BACKWARD_BYTES 60
#define BACKWARD_PRODUCTS 2.5   /* two gradients of each product, and half of them made again */

/* Of this rank. */
typedef struct {
  const LinearAttention *linear;
  const ScanKind *kind;
  double heads, values, projected, convolved;
  double decays, gates; /* that products behind the projection make */
  double scanned_keys, states, pairs; /* elements for a token, as kernels have them */
} Scan;

static Scan scan_of(const Build *b)
{
  const LinearAttention *l = &b->spec->linear;
  const ScanKind *kind = &kinds[l->kind];
  double groups = kind->repeated ? l->heads : l->groups;
  Scan s = { .linear = l, .kind = kind, .heads = l->heads / b->tp, .values = linear_values(l) / b->tp,
             .projected = linear_projected(l) / b->tp,
             .convolved = linear_convolved(l) / b->tp };

  if (l->rank) {
    s.decays = l->heads * l->state / b->tp;
    s.gates = s.values;
  }
  /* heads that context-parallel ranks take have keys of their own where these are fewer than the ranks */
  groups = MAX(groups / b->tp, b->passes->cp);
  s.scanned_keys = groups * l->state;
  s.states = s.values * l->state / l->chunk;
  s.pairs = groups * l->chunk;
  return s;
}

static double traffic(const Build *b, const Scan *s, const ScanTraffic *t, double step_bytes)
{
  double each = b->bytes * (t->values * s->values + t->keys * s->scanned_keys + t->states * s->states +
                            t->pairs * s->pairs);

  return b->tokens * (each + WIDE * (t->states_fp32 * s->states + t->pairs_fp32 * s->pairs) + step_bytes * s->heads);
}

/* Of matrix units: scores of a chunk and their product with values, states made and asked; the delta rule solves for
 * what values differ from what states answer. */
static double products(const Build *b, const Scan *s)
{
  double chunk = s->linear->chunk, state = s->linear->state;
  double plain = 2 * s->pairs * state + 2 * s->values * (chunk + 2 * state);
  gboolean delta = s->linear->kind == LINEAR_GATED_DELTA || s->linear->kind == LINEAR_KIMI_DELTA;
  double solved = delta ? 4 * s->pairs * state + 2 * s->values * (chunk + state) : 0;

  return b->tokens * (plain + solved);
}

/* Rows for heads and back: the state passes along a whole sequence, so each context-parallel rank takes all rows of
 * some heads, in their order, which is not that of causal attention's halves (Megatron Core's
 * mamba_context_parallel.py). */
static void exchange(Build *b, const char *name, double width)
{
  double bytes = b->bytes * b->tokens * width;

  if (b->passes->cp == 1)
    return;
  build_context_exchange(b, name, bytes);
  build_stream(b, &(Stream) { .name = "order rows", .forward_bytes = 2 * bytes, .forward_kernels = 1,
                              .backward_bytes = 2 * bytes, .backward_kernels = 1 });
}

static void scan(Build *b, const Scan *s)
{
  const ScanTraffic *forward = &s->kind->forward, *backward = &s->kind->backward;
  double e = b->bytes, alive = (2 * WIDE + 3 * e) * s->states + 2 * WIDE * s->pairs + 2 * e * s->values;

  build_stream(b, &(Stream) {
    .name = "chunk scan",
    .forward_bytes = traffic(b, s, forward, STEP_BYTES), .forward_kernels = forward->kernels,
    .backward_bytes = traffic(b, s, backward, STEP_BACKWARD_BYTES), .backward_kernels = backward->kernels,
    .saved = e * b->tokens * (s->projected + s->decays + s->gates + s->values),
  });
  g_array_index(b->work->forward, Op, b->work->forward->len - 1).flops = products(b, s);
  g_array_index(b->work->backward, Op, b->work->backward->len - 1).flops = BACKWARD_PRODUCTS * products(b, s);
  b->work->transient_bytes = MAX(b->work->transient_bytes, b->tokens * alive);
}

/* Rows lie by position, and Mamba-2's kernels take them by sequence: copies there and back, unless a micro-batch is one
 * sequence. Backward the kernels read the gradient as it lies, and what they write is copied back. */
static void lay_by_sequence(Build *b, const Scan *s, gboolean there)
{
  double bytes = 2 * b->bytes * b->tokens * (there ? s->projected : s->values);

  if (b->passes->framework->mixer_copies && s->linear->kind == LINEAR_MAMBA2 && b->passes->micro_batch > 1)
    build_stream(b, &(Stream) { .name = "lay by sequence", .forward_bytes = bytes, .forward_kernels = 1,
                                .backward_bytes = there ? bytes : 0, .backward_kernels = there });
}

static void gated_norm(Build *b, const Scan *s)
{
  double bytes = b->bytes * b->tokens * s->values;

  if (!s->linear->plain)
    build_stream(b, &(Stream) { .name = "gated norm", .forward_bytes = 2 * bytes, .forward_kernels = 1,
                                .backward_bytes = 4 * bytes, .backward_kernels = 2, .saved = bytes });
  build_params(b, linear_small_params(s->linear) / b->tp);
}

/* Decays and gates, each through a bottleneck that every tensor-parallel rank makes of its own rows. */
static void low_rank_gates(Build *b, const Scan *s)
{
  double rank = s->linear->rank, saved = b->bytes * b->rows * rank;

  if (!s->linear->rank)
    return;
  build_linear(b, &(Linear) { .name = "gates down", .in = b->hidden, .out = 2 * rank, .batch = 1, .rows = b->rows,
                              .split = LINEAR_REPLICATED, .kept = TRUE, .parts = { rank, rank } });
  build_enter_latent(b, 2 * rank);
  build_linear(b, &(Linear) { .name = "decays up", .in = rank, .out = s->decays, .batch = 1, .rows = b->tokens,
                              .saved = saved, .split = LINEAR_COLUMN, .no_gather = TRUE });
  build_linear(b, &(Linear) { .name = "gates up", .in = rank, .out = s->gates, .batch = 1, .rows = b->tokens,
                              .saved = saved, .split = LINEAR_COLUMN, .no_gather = TRUE });
}

void build_linear_attention(Build *b)
{
  const LinearAttention *l = &b->spec->linear;

  if (linear_by_channel(l->kind)) {
    build_channels(b);
    return;
  }
  Scan s = scan_of(b);

  build_linear(b, &(Linear) { .name = "in projection", .in = b->hidden, .out = s.projected, .batch = 1,
                              .rows = b->tokens, .bias = l->bias, .saved = b->bytes * b->rows * b->hidden,
                              .split = LINEAR_COLUMN, .matrix = MATRIX_IN });
  low_rank_gates(b, &s);
  exchange(b, "rows for heads", s.projected + s.decays + s.gates);
  lay_by_sequence(b, &s, TRUE);
  if (s.convolved > 0)
    build_convolution(b, s.convolved);
  scan(b, &s);
  lay_by_sequence(b, &s, FALSE);
  exchange(b, "heads for rows", s.values);
  gated_norm(b, &s);
  build_linear(b, &(Linear) { .name = "out projection", .in = s.values, .out = b->hidden, .batch = 1,
                              .rows = b->tokens, .bias = l->bias, .saved = b->bytes * b->tokens * s.values,
                              .split = LINEAR_ROW, .unmade = TRUE, .matrix = MATRIX_OUT });
}
