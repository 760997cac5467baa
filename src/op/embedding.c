/* Token and position embedding, divided by vocabulary over the tensor-parallel ranks. */
#include "op/build.h"

void build_embedding(Build *b)
{
  const Model *m = b->model;
  double width = m->embed_dim ? m->embed_dim : m->hidden;
  double gathered = b->tokens * width * b->bytes, rows = b->rows * b->hidden * b->bytes;

  build_stream(b, &(Stream) { .name = "lookup", .forward_bytes = 2 * gathered, .forward_kernels = b->tp > 1 ? 4 : 1,
                              .backward_bytes = 3 * gathered, .backward_kernels = 2, .weights = TRUE });
  build_forward_sum(b, "sum embeddings", gathered);
  if (b->plan->sequence_parallel)
    build_backward_collective(b, "gather embedding gradient", COLLECTIVE_ALL_GATHER, gathered, PASS_WEIGHT, FALSE);
  if (m->position_rows)
    build_stream(b, &(Stream) { .name = "positions", .forward_bytes = 3 * rows, .forward_kernels = 2,
                                .backward_bytes = 2 * rows, .backward_kernels = 1, .weights = TRUE });
  if (m->dropout)
    build_stream(b, &(Stream) { .name = "embedding dropout", .forward_bytes = 2 * rows + rows / b->bytes,
                                .forward_kernels = 1, .backward_bytes = 2 * rows + rows / b->bytes, .backward_kernels = 1,
                                .saved = rows / b->bytes });
  if (m->embedding_norm)
    build_norm(b, "embedding norm");
  b->work->deferred_bytes += rows;
  build_table(b, op_vocab(m, b->plan) / b->tp, width);
  if (m->position_rows)
    build_table(b, m->position_rows, b->hidden);
  if (width != b->hidden)
    build_linear(b, &(Linear) { .name = "embedding projection", .in = width, .out = b->hidden, .batch = 1,
                                .rows = b->tokens, .saved = gathered, .split = LINEAR_REPLICATED });
}
