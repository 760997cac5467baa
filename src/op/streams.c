/*
 * Several streams of hidden states (model/model.h), as transformers' classes mix them: hyper-connections in wide
 * numbers, by a few numbers for each token that are made of all streams, normed without weights. Each tensor-parallel
 * rank makes all of it.
 */
#include "op/build.h"


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

static gboolean hyper(const Build *b)
{
  return b->model->streams > 1 && b->model->stream_kind == STREAMS_HYPER;
}

static gboolean alternating(const Build *b)
{
  return b->model->streams > 1 && b->model->stream_kind == STREAMS_ALTUP;
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
  if (!hyper(b))
    return;
  make_numbers(b, 2);
  mix(b);
}

void build_residual_sum(Build *b)
{
  double all = b->model->streams * elements(b), one = elements(b), e = b->bytes;

  if (b->model->affine_residuals)
    build_affine_residual(b);
  else if (!hyper(b))
    build_residual(b);
  if (!hyper(b))
    return;
  build_stream(b, &(Stream) { .name = "spread to streams", .forward_kernels = 5, .backward_kernels = 5,
                              .forward_bytes = (2 * e + 6 * WIDE) * all + (e + 2 * WIDE) * one,
                              .backward_bytes = (2 * e + 4 * WIDE) * all + (e + 2 * WIDE) * one, .saved = WIDE * one });
}

/* Each further stream a product of the embedding, or at last each brought back by one, and as large as the first. */
static void project_streams(Build *b, const char *name)
{
  double bytes = b->bytes * elements(b), further = b->model->streams - 1;

  build_linear(b, &(Linear) { .name = name, .in = b->hidden, .out = b->hidden, .batch = further, .rows = b->rows,
                              .saved = bytes * further, .split = LINEAR_REPLICATED });
  build_stream(b, &(Stream) { .name = "stream size", .forward_bytes = 6 * bytes * further + bytes,
                              .forward_kernels = 6, .backward_bytes = 8 * bytes * further, .backward_kernels = 8,
                              .saved = 2 * bytes * further });
}

void build_fork_streams(Build *b)
{
  double all = b->model->streams * elements(b), one = elements(b), e = b->bytes;

  if (alternating(b))
    project_streams(b, "fork streams");
  else if (hyper(b))
    build_stream(b, &(Stream) { .name = "fork streams", .forward_bytes = e * (all + one), .forward_kernels = 1,
                                .backward_bytes = e * (all + one), .backward_kernels = 1 });
}

void build_join_streams(Build *b)
{
  double all = b->bytes * b->model->streams * elements(b), one = b->bytes * elements(b);

  if (alternating(b)) {
    project_streams(b, "join streams");
    build_stream(b, &(Stream) { .name = "mean of streams", .forward_bytes = 2 * all + one, .forward_kernels = 2,
                                .backward_bytes = all + one, .backward_kernels = 1 });
  }
  if (!hyper(b))
    return;
  make_numbers(b, 1);
  mix(b);
}

/* All streams by sums of all of them, whose weights follow from the one that goes through the block. */
void build_predict_streams(Build *b)
{
  double n = b->model->streams, all = n * elements(b), e = b->bytes;

  if (!alternating(b))
    return;
  build_linear(b, &(Linear) { .name = "stream router", .in = b->hidden, .out = n, .batch = 1, .rows = b->rows,
                              .saved = e * elements(b), .split = LINEAR_REPLICATED });
  build_linear(b, &(Linear) { .name = "prediction numbers", .in = n, .out = n * n, .batch = 1, .rows = b->rows,
                              .saved = e * b->rows * n, .split = LINEAR_REPLICATED });
  build_product(b, "predict streams", b->hidden, n, n, b->rows);
  build_stream(b, &(Stream) { .name = "add streams", .forward_bytes = 5 * e * all, .forward_kernels = 2,
                              .backward_bytes = 2 * e * all, .backward_kernels = 1, .saved = e * all });
}

/* By what the block made of one of them: routed again, by the same weights. */
void build_correct_streams(Build *b)
{
  double n = b->model->streams, all = n * elements(b), one = elements(b), e = b->bytes;

  if (!alternating(b))
    return;
  build_product(b, "stream router again", b->rows, n, b->hidden, 1);
  build_linear(b, &(Linear) { .name = "correction numbers", .in = n, .out = n, .batch = 1, .rows = b->rows,
                              .saved = e * b->rows * n, .split = LINEAR_REPLICATED });
  build_stream(b, &(Stream) { .name = "correct streams", .forward_bytes = e * (6 * all + 4 * one), .forward_kernels = 4,
                              .backward_bytes = e * (6 * all + 2 * one), .backward_kernels = 4, .saved = e * all });
}

void build_side_streams(Build *b)
{
  double further = b->bytes * (b->model->streams - 1) * elements(b);

  if (alternating(b))
    build_stream(b, &(Stream) { .name = "side to streams", .forward_bytes = 2 * further + b->bytes * elements(b),
                                .forward_kernels = 1, .backward_bytes = further + b->bytes * elements(b),
                                .backward_kernels = 1 });
}
