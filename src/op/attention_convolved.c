/*
 * Compressed convolutional attention (Figliolia et al. 2025, arXiv 2510.04476), as transformers' ZayaCCAProjection:
 * queries and keys beside each other go through a convolution of each value and one of each head's values, and means of
 * both are added to what comes out; half of a token's values are made of the token before it.
 */
#include "op/build.h"

/* Queries and the keys of their group, halved, and their means over a group: added behind the convolutions. */
static void add_means(Build *b, double queries, double keys)
{
  double q = b->bytes * b->tokens * queries, k = b->bytes * b->tokens * keys;

  build_stream(b, &(Stream) { .name = "query and key means", .forward_bytes = 10 * q + 5 * k, .forward_kernels = 6,
                              .backward_bytes = 10 * q + 5 * k, .backward_kernels = 6 });
}

static void convolve(Build *b, double queries, double keys)
{
  const Attention *a = b->attention;
  double width = queries + keys, bytes = b->bytes * b->tokens * width;

  build_stream(b, &(Stream) { .name = "join queries and keys", .forward_bytes = 4 * bytes, .forward_kernels = 2,
                              .backward_bytes = 4 * bytes, .backward_kernels = 2 });
  build_stream(b, &(Stream) { .name = "convolution", .forward_bytes = 2 * bytes, .forward_kernels = 1,
                              .backward_bytes = 5 * bytes, .backward_kernels = 2, .saved = bytes });
  build_params(b, width * (a->conv_each + 1));
  build_linear(b, &(Linear) { .name = "head convolution", .in = (double)a->head_dim * a->conv_heads,
                              .out = a->head_dim, .batch = width / a->head_dim, .rows = b->tokens, .bias = TRUE,
                              .saved = bytes, .split = LINEAR_COLUMN, .no_gather = TRUE });
}

void build_convolved_queries(Build *b)
{
  const Attention *a = b->attention;
  double queries = a->heads / b->tp * a->head_dim, keys = a->kv_heads / b->tp * a->head_dim;
  double values = b->bytes * b->tokens * keys;

  if (!a->conv_each)
    return;
  convolve(b, queries, keys);
  add_means(b, queries, keys);
  build_stream(b, &(Stream) { .name = "values of two tokens", .forward_bytes = 3 * values, .forward_kernels = 2,
                              .backward_bytes = 3 * values, .backward_kernels = 2 });
}
