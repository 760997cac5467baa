/* Mixers of tokens whose heads are channels: Mamba-1, recurrent units, RWKV's sums, and a short convolution between two
 * gates (model/model.h). */
#include "op/build.h"

#define SCAN_TOKENS 2048 /* that mamba-ssm's selective_scan_fwd_kernel takes before it keeps a state for the backward */

/* Of this rank. */
static double channels(const Build *b)
{
  return linear_values(&b->spec->linear) / b->tp;
}

void build_convolution(Build *b, double values)
{
  double bytes = b->bytes * b->tokens * values;

  build_stream(b, &(Stream) { .name = "convolution", .forward_bytes = 2 * bytes, .forward_kernels = 1,
                              .backward_bytes = 5 * bytes, .backward_kernels = 2 });
}

/* Operations that the last ops that were added do besides: of states, forward and twice backward. */
static void count_states(Build *b)
{
  double flops = b->tokens * linear_state_flops(&b->spec->linear) / b->tp;

  g_array_index(b->work->forward, Op, b->work->forward->len - 1).flops = flops;
  g_array_index(b->work->backward, Op, b->work->backward->len - 1).flops = 2 * flops;
}

/* Of each of its own blocks of channels, which stand whole on a rank (Zamba). */
static void select_by_blocks(Build *b, double values)
{
  const LinearAttention *l = &b->spec->linear;
  double blocks = l->blocks / b->tp, width = l->rank + 2.0 * l->state, e = b->bytes;

  build_linear(b, &(Linear) { .name = "select", .in = values / blocks, .out = width, .batch = blocks, .rows = b->tokens,
                              .split = LINEAR_COLUMN, .no_gather = TRUE });
  build_linear(b, &(Linear) { .name = "steps", .in = l->rank, .out = values / blocks, .batch = blocks,
                              .rows = b->tokens, .bias = TRUE, .saved = e * b->tokens * width * blocks,
                              .split = LINEAR_COLUMN, .no_gather = TRUE });
}

/* Steps' latent, keys and queries of all channels, which tensor-parallel ranks sum, and whose gradients they sum. */
static void select_states(Build *b, double values)
{
  const LinearAttention *l = &b->spec->linear;
  double width = l->rank + 2.0 * l->state, e = b->bytes, bytes = e * b->tokens * width;

  build_linear(b, &(Linear) { .name = "select", .in = values, .out = width, .batch = 1, .rows = b->tokens,
                              .saved = l->step_norms ? e * b->tokens * values : 0, .split = LINEAR_ROW,
                              .no_reduce = TRUE });
  build_forward_collective(b, "sum selected", COLLECTIVE_ALL_REDUCE, bytes);
  build_backward_collective(b, "sum selected gradient", COLLECTIVE_ALL_REDUCE, bytes, PASS_INPUT, FALSE);
  if (l->step_norms)
    build_stream(b, &(Stream) { .name = "step norms", .forward_bytes = 2 * bytes, .forward_kernels = 3,
                                .backward_bytes = 4 * bytes, .backward_kernels = 6, .saved = bytes });
  build_linear(b, &(Linear) { .name = "steps", .in = l->rank, .out = values, .batch = 1, .rows = b->tokens,
                              .bias = TRUE, .saved = bytes, .split = LINEAR_COLUMN, .no_gather = TRUE });
}

/*
 * One kernel each way (mamba-ssm, csrc/selective_scan): forward it reads values, steps, gates, keys and queries and
 * writes what it gives with and without the gate; backward it reads these and two gradients' worth besides. Without
 * norms between, what is convolved and its steps are made again (mamba_inner_fn, checkpoint_lvl 1).
 */
static void scan(Build *b, double values)
{
  const LinearAttention *l = &b->spec->linear;
  double blocks = MAX(l->blocks / b->tp, 1), e = b->bytes, row = e * values, keys = e * 2 * l->state * blocks;
  double kept = e * (2 + (l->step_norms ? 2 : 1)) * values + 2 * WIDE * values * l->state / SCAN_TOKENS;

  build_stream(b, &(Stream) { .name = "selective scan", .forward_bytes = b->tokens * (5 * row + keys),
                              .forward_kernels = blocks, .backward_bytes = b->tokens * (9 * row + 3 * keys),
                              .backward_kernels = blocks * (l->step_norms ? 1 : 2), .saved = b->tokens * kept });
  count_states(b);
  b->work->transient_bytes = MAX(b->work->transient_bytes, 3 * b->tokens * row);
}

/* A gate before and one behind, and rows for channels and back (transformers' Lfm2ShortConv). */
static void gated_convolution(Build *b, double values)
{
  double bytes = b->bytes * b->tokens * values;

  build_stream(b, &(Stream) { .name = "gate in", .forward_bytes = 3 * bytes, .forward_kernels = 1,
                              .backward_bytes = 11 * bytes, .backward_kernels = 3, .saved = 4 * bytes });
  build_convolution(b, values);
  build_stream(b, &(Stream) { .name = "gate out", .forward_bytes = 5 * bytes, .forward_kernels = 2,
                              .backward_bytes = 8 * bytes, .backward_kernels = 3, .saved = bytes });
  count_states(b);
}

/* Of blocks, of the convolved values; in wide numbers the decay and what is let in, a decayed sum over tokens, and the
 * other half of what was projected, activated, as a gate (transformers' RecurrentGemmaRecurrentBlock), as one kernel
 * each way would do it. */
static void gated_recurrence(Build *b, double values)
{
  const LinearAttention *l = &b->spec->linear;
  double width = linear_values(l) / (double)l->blocks, row = b->tokens * values, e = b->bytes;

  build_linear(b, &(Linear) { .name = "recurrence gates", .in = width, .out = width, .batch = 2.0 * l->blocks / b->tp,
                              .rows = b->tokens, .saved = e * row, .split = LINEAR_COLUMN, .no_gather = TRUE });
  build_stream(b, &(Stream) { .name = "gated scan", .forward_bytes = (3 * e + 2 * WIDE) * row, .forward_kernels = 2,
                              .backward_bytes = (5 * e + 4 * WIDE) * row, .backward_kernels = 2,
                              .saved = (2 * e + WIDE) * row });
  count_states(b);
  build_stream(b, &(Stream) { .name = "gate out", .forward_bytes = 5 * e * row, .forward_kernels = 2,
                              .backward_bytes = 8 * e * row, .backward_kernels = 3, .saved = 3 * e * row });
}

/* One kernel each way over keys and values, in wide numbers (BlinkDL's wkv_cuda), and a sigmoid's product. */
static void weighted_values(Build *b, double values)
{
  double row = b->tokens * values, e = b->bytes;

  build_stream(b, &(Stream) { .name = "weighted values", .forward_bytes = (4 * e + 6 * WIDE) * row,
                              .forward_kernels = 4, .backward_bytes = (3 * e + 9 * WIDE) * row, .backward_kernels = 4,
                              .saved = 3 * WIDE * row });
  count_states(b);
  build_stream(b, &(Stream) { .name = "gate out", .forward_bytes = 5 * e * row, .forward_kernels = 2,
                              .backward_bytes = 8 * e * row, .backward_kernels = 3, .saved = 2 * e * row });
}

void build_channels(Build *b)
{
  const LinearAttention *l = &b->spec->linear;
  double values = channels(b), small = linear_small_params(l), shared = 0;

  build_linear(b, &(Linear) { .name = "in projection", .in = b->hidden, .out = linear_projected(l) / b->tp, .batch = 1,
                              .rows = b->tokens, .bias = l->bias, .saved = b->bytes * b->rows * b->hidden,
                              .split = LINEAR_COLUMN, .matrix = MATRIX_IN });
  if (l->kind == LINEAR_SHORT_CONV) {
    gated_convolution(b, values);
  } else if (l->kind == LINEAR_RG_LRU) {
    build_convolution(b, values);
    gated_recurrence(b, values);
  } else if (l->kind == LINEAR_WKV) {
    weighted_values(b, values);
  } else {
    build_convolution(b, values);
    if (l->blocks)
      select_by_blocks(b, values);
    else
      select_states(b, values);
    scan(b, values);
    shared = l->step_norms && !l->bare_step_norms ? l->rank + 2 * l->state : 0;
    small -= linear_values(l); /* the steps' biases */
  }
  build_params(b, (small - shared) / b->tp + shared);
  build_linear(b, &(Linear) { .name = "out projection", .in = values, .out = b->hidden, .batch = 1, .rows = b->tokens,
                              .bias = l->bias, .saved = b->bytes * b->tokens * values, .split = LINEAR_ROW,
                              .unmade = TRUE, .matrix = MATRIX_OUT });
}
