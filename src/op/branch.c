/* A block whose linear attention reads what a branch of attention and feed-forward gave beside its input, as
 * transformers' ZambaHybridLayer; the branch's weights may be another block's. */
#include "op/build.h"

void build_low_rank(Build *b, double rank, double copies, double out)
{
  double narrow = rank * copies, made = b->bytes * b->tokens * out;
  gboolean reused = b->reused;

  if (!rank)
    return;
  b->reused = FALSE;
  build_linear(b, &(Linear) { .name = "low rank down", .in = b->hidden, .out = narrow, .batch = 1, .rows = b->rows,
                              .split = LINEAR_REPLICATED, .kept = TRUE });
  build_enter_latent(b, narrow);
  build_linear(b, &(Linear) { .name = "low rank up", .in = rank, .out = out / copies, .batch = copies,
                              .rows = b->tokens, .saved = b->bytes * b->rows * narrow, .split = LINEAR_COLUMN,
                              .no_gather = TRUE });
  build_stream(b, &(Stream) { .name = "low rank sum", .forward_bytes = 3 * made, .forward_kernels = copies });
  b->reused = reused;
}

/* The embedding's gradients of all branches add up. */
static void read_embedding(Build *b)
{
  double rows = b->bytes * b->rows * b->hidden;

  build_stream(b, &(Stream) { .name = "beside embedding", .forward_bytes = 4 * rows, .forward_kernels = 1,
                              .backward_bytes = 7 * rows, .backward_kernels = 3 });
  b->hidden *= 2;
  build_norm(b, "attention norm");
  b->hidden /= 2;
}

/* To what linear attention reads; past it goes what entered the block. */
static void leave_branch(Build *b)
{
  double rows = b->bytes * b->rows * b->hidden;

  build_linear(b, &(Linear) { .name = "branch projection", .in = b->hidden, .out = b->hidden, .batch = 1,
                              .rows = b->rows, .saved = rows, .split = LINEAR_REPLICATED });
  build_stream(b, &(Stream) { .name = "branch sum", .forward_bytes = 3 * rows, .forward_kernels = 1 });
}

void build_branch(Build *b)
{
  read_embedding(b);
  build_attention(b);
  build_norm(b, "feed-forward norm");
  build_feed_forward(b);
  b->reused = FALSE;
  leave_branch(b);
  build_linear_norm(b);
  build_linear_attention(b);
  build_residual(b);
}
