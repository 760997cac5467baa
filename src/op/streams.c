/*
 * Several streams of hidden states (model/model.h), as transformers' classes mix them: in wide numbers, by a few numbers
 * for each token that are made of all streams, normed without weights. Each tensor-parallel rank makes all of it.
 */
#include "op/build.h"

#define WIDE dtype_bytes[DTYPE_FP32]

/* Values of a stream on this rank. */
static double elements(const Build *b)
{
  return b->rows * b->hidden;
}

/* `numbers` of each stream from all of them. */
static void make_numbers(Build *b, double numbers)
{
  double streams = b->model->streams, all = streams * elements(b), e = b->bytes;

  build_linear(b, &(Linear) { .name = "stream numbers", .in = streams * b->hidden, .out = numbers * streams,
                              .batch = 1, .rows = b->rows, .saved = WIDE * all, .split = LINEAR_REPLICATED });
  build_params(b, numbers * (streams + 1));
  build_stream(b, &(Stream) { .name = "stream norm", .forward_bytes = (e + 2 * WIDE) * all, .forward_kernels = 3,
                              .backward_bytes = (e + 4 * WIDE) * all, .backward_kernels = 4 });
}

/* Streams times their numbers, and the sum. */
static void mix(Build *b)
{
  double all = b->model->streams * elements(b), one = elements(b), e = b->bytes;

  build_stream(b, &(Stream) { .name = "mix streams", .forward_bytes = (e + 2 * WIDE) * all + (2 * WIDE + e) * one,
                              .forward_kernels = 3, .backward_bytes = (2 * e + 3 * WIDE) * all + (2 * WIDE + e) * one,
                              .backward_kernels = 4, .saved = e * all });
}

void build_mix_streams(Build *b)
{
  if (b->model->streams == 1)
    return;
  make_numbers(b, 2);
  mix(b);
}

void build_residual_sum(Build *b)
{
  double all = b->model->streams * elements(b), one = elements(b), e = b->bytes;

  if (b->model->streams == 1) {
    build_residual(b);
    return;
  }
  build_stream(b, &(Stream) { .name = "spread to streams", .forward_bytes = (2 * e + 6 * WIDE) * all + (e + 2 * WIDE) * one,
                              .forward_kernels = 5, .backward_bytes = (2 * e + 4 * WIDE) * all + (e + 2 * WIDE) * one,
                              .backward_kernels = 5, .saved = WIDE * one });
}

void build_fork_streams(Build *b)
{
  double all = b->model->streams * elements(b), one = elements(b), e = b->bytes;

  if (b->model->streams > 1)
    build_stream(b, &(Stream) { .name = "fork streams", .forward_bytes = e * (all + one), .forward_kernels = 1,
                                .backward_bytes = e * (all + one), .backward_kernels = 1 });
}

void build_join_streams(Build *b)
{
  if (b->model->streams == 1)
    return;
  make_numbers(b, 1);
  mix(b);
}
