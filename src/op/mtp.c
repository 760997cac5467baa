/* A multi-token prediction module but its head: next tokens' embedding and the blocks' output, and a block. */
#include "op/build.h"

/* The table is another rank's: this one holds a copy, unless the head has it. */
static void lookup(Build *b)
{
  const Model *m = b->model;

  build_look_up(b, b->tokens * b->hidden * b->bytes);
  if (!m->tied_embeddings && !b->passes->ends_meet)
    build_table(b, op_vocab(m, b->passes) / b->tp, m->embed_dim);
  b->work->deferred_bytes += b->rows * b->hidden * b->bytes;
}

/* Two hidden widths to one, by columns; Megatron gathers the output and takes its rows. */
static void join(Build *b)
{
  double rows = b->rows * b->hidden * b->bytes, gathered = b->tokens * b->hidden * b->bytes;
  gboolean sp = b->passes->sequence_parallel;

  build_stream(b, &(Stream) { .name = "concatenate", .forward_bytes = 4 * rows, .forward_kernels = 1,
                              .backward_bytes = 4 * rows, .backward_kernels = 1 });
  if (sp)
    build_forward_collective(b, "gather rows", COLLECTIVE_ALL_GATHER, 2 * gathered);
  build_backward_sum(b, "sum input gradient", 2 * gathered, FALSE);
  build_linear(b, &(Linear) { .name = "join", .in = 2 * b->hidden, .out = b->hidden / b->tp, .batch = 1,
                              .rows = b->tokens, .saved = 2 * rows, .split = LINEAR_COLUMN, .no_gather = TRUE });
  build_forward_collective(b, "gather columns", COLLECTIVE_ALL_GATHER, gathered);
}

void build_mtp(Build *b)
{
  lookup(b);
  build_norm(b, "embedding norm");
  build_norm(b, "hidden norm");
  join(b);
  build_block(b);
}
