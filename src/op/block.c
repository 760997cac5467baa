/* A transformer block: norms, attention, feed-forward, residuals. */
#include "op/build.h"

/* Norms that the file's count has beyond the usual two (before each half). */
static void extra_norms(Build *b, int usual)
{
  for (int i = usual; i < b->spec->norms; i++)
    build_norm(b, "norm behind");
}

typedef struct {
  const char *down, *activation, *up;
  double width;
  gboolean bias;
} Bottleneck;

/* Two products on rows of each rank, with an activation between them. */
static void bottleneck(Build *b, Bottleneck n)
{
  double rows = b->bytes * b->rows * b->hidden, narrow = b->bytes * b->rows * n.width;

  build_linear(b, &(Linear) { .name = n.down, .in = b->hidden, .out = n.width, .batch = 1, .rows = b->rows,
                              .bias = n.bias, .saved = rows, .split = LINEAR_REPLICATED });
  build_stream(b, &(Stream) { .name = n.activation, .forward_bytes = 2 * narrow, .forward_kernels = 1,
                              .backward_bytes = 3 * narrow, .backward_kernels = 1, .saved = narrow });
  build_linear(b, &(Linear) { .name = n.up, .in = n.width, .out = b->hidden, .batch = 1, .rows = b->rows,
                              .bias = n.bias, .saved = narrow, .split = LINEAR_REPLICATED });
}

/* Of a sequence's language, behind a norm that the layer has already (transformers' XmodOutput), on rows of each rank;
 * others are held. */
static void build_adapter(Build *b)
{
  double width = b->spec->adapter, rows = b->bytes * b->rows * b->hidden;

  if (!b->spec->adapter)
    return;
  build_stream(b, &(Stream) { .name = "adapter norm", .forward_bytes = 2 * rows, .forward_kernels = 1,
                              .backward_bytes = 6 * rows, .backward_kernels = 3, .saved = rows });
  bottleneck(b, (const Bottleneck) { "adapter down", "adapter activation", "adapter up", width, TRUE });
  build_stream(b, &(Stream) { .name = "rows of languages", .forward_bytes = 5 * rows, .forward_kernels = 3,
                              .backward_bytes = 4 * rows, .backward_kernels = 2 });
  build_params(b, (b->model->languages - 1) * (2 * b->hidden * width + width + b->hidden));
  build_residual(b);
}

/* Norms behind the residual sums (Vaswani et al. 2017, arXiv 1706.03762). */
static void build_post_norm_block(Build *b)
{
  build_attention(b);
  build_residual(b);
  build_norm(b, "attention norm");
  if (b->spec->cross.heads) {
    build_cross_attention(b);
    build_residual(b);
    build_norm(b, "cross norm");
  }
  build_feed_forward(b);
  build_residual(b);
  build_adapter(b);
  build_norm(b, "feed-forward norm");
}

/* What attention gives to what linear attention of the same input does; both sum over the tensor-parallel ranks. */
static void add_mixers(Build *b)
{
  double bytes = b->rows * b->hidden * b->bytes;

  build_stream(b, &(Stream) { .name = "sum mixers", .forward_bytes = 3 * bytes, .forward_kernels = 1,
                              .backward_bytes = 3 * bytes, .backward_kernels = 1 });
}

/* A norm's output times a sigmoid of it through a bottleneck, in wide numbers (transformers' AXK2GatedRMSNorm); the
 * whole of it on every tensor-parallel rank. */
static void gate_norm(Build *b)
{
  double rank = b->model->norm_rank, rows = b->bytes * b->rows * b->hidden, wide = WIDE * b->rows * b->hidden;

  bottleneck(b, (const Bottleneck) { "norm gate down", "norm gate activation", "norm gate up", rank, FALSE });
  build_stream(b, &(Stream) { .name = "norm gate", .forward_bytes = 3 * rows + 6 * wide, .forward_kernels = 4,
                              .backward_bytes = 4 * rows + 7 * wide, .backward_kernels = 5, .saved = wide });
}

static void gated_norm(Build *b, const char *name, int place)
{
  build_norm(b, name);
  if (b->spec->gated_norms > place)
    gate_norm(b);
}

/* A norm's output mixed with that of the token before, once for each product that reads it (RWKV). */
static void mix_shifted(Build *b, int times)
{
  double rows = b->bytes * b->rows * b->hidden;

  if (!b->spec->shift_mixes)
    return;
  build_stream(b, &(Stream) { .name = "token shift", .forward_bytes = (2 + 8 * times) * rows,
                              .forward_kernels = 1 + 3 * times, .backward_bytes = (2 + 10 * times) * rows,
                              .backward_kernels = 1 + 5 * times, .saved = (1 + times) * rows });
  build_params(b, times * b->hidden);
}

/* Residual sums' inputs times vectors of weights. */
static void scale_residuals(Build *b)
{
  double rows = b->bytes * b->rows * b->hidden;

  for (int i = 0; i < b->spec->residual_scales; i++)
    build_scales(b, "residual scale", rows, b->hidden, 1);
}

/* Past attention, from the same normed input, on rows of each rank. */
static void build_laurel(Build *b)
{
  double rank = b->spec->laurel, narrow = b->bytes * b->rows * rank;

  if (!b->spec->laurel)
    return;
  build_linear(b, &(Linear) { .name = "laurel down", .in = b->hidden, .out = rank, .batch = 1, .rows = b->rows,
                              .split = LINEAR_REPLICATED, .kept = TRUE });
  build_linear(b, &(Linear) { .name = "laurel up", .in = rank, .out = b->hidden, .batch = 1, .rows = b->rows,
                              .saved = narrow, .split = LINEAR_REPLICATED });
  build_residual(b);
}

/* What a half of the block gives. */
static void convolve_output(Build *b)
{
  build_wide_convolution(b, "output convolution", b->rows, b->hidden, b->spec->conv, 4);
}

/* Tokens that go along with sequences have a norm of their own before attention. */
static void attention_norm(Build *b)
{
  double all = b->rows, along = all / b->tokens * b->passes->micro_batch * b->spec->global_tokens;

  b->rows = all - along;
  gated_norm(b, "attention norm", 0);
  b->rows = along;
  if (along > 0)
    build_norm(b, "norm of global tokens");
  b->rows = all;
}

void build_linear_norm(Build *b)
{
  build_norm(b, "linear attention norm");
  g_array_index(b->work->forward, Op, b->work->forward->len - 1).redone &= ~(1u << MODULE_LAYERNORM);
}

static void build_mixer(Build *b)
{
  b->part = 1u << recorded_mixer(b->spec);
  build_mix_streams(b);
  if (b->spec->linear.heads) {
    build_linear_norm(b);
    mix_shifted(b, 3);
    build_linear_attention(b);
  } else {
    attention_norm(b);
  }
  build_laurel(b);
  if (b->spec->attention.heads)
    build_attention(b);
  convolve_output(b);
  if (b->spec->linear.heads && b->spec->attention.heads)
    add_mixers(b);
  b->redone |= build_checkpoints_norms(b); /* with the norm before the feed-forward half */
  if (!b->spec->parallel)
    build_residual_sum(b);
  b->redone &= ~OP_CHECKPOINTED;
  b->part = 0;
}

/* The layer's own embedding of the tokens, gated by what goes through the layer (transformers' Gemma4TextDecoderLayer);
 * the whole of it on every tensor-parallel rank. */
static void build_side(Build *b)
{
  double side = b->spec->side, bytes = b->bytes * b->rows * side;

  if (!b->spec->side)
    return;
  build_linear(b, &(Linear) { .name = "side gate", .in = b->hidden, .out = side, .batch = 1, .rows = b->rows,
                              .saved = b->bytes * b->rows * b->hidden, .split = LINEAR_REPLICATED });
  build_stream(b, &(Stream) { .name = "side activation", .forward_bytes = 5 * bytes, .forward_kernels = 2,
                              .backward_bytes = 8 * bytes, .backward_kernels = 3, .saved = 2 * bytes });
  build_linear(b, &(Linear) { .name = "side up", .in = side, .out = b->hidden, .batch = 1, .rows = b->rows,
                              .saved = bytes, .split = LINEAR_REPLICATED });
  if (b->model->streams > 1)
    build_side_streams(b);
  else
    build_residual(b);
}

/* What an earlier block gave, whose gradient is added to what else reads it. */
static void join_earlier(Build *b)
{
  double rows = b->bytes * b->rows * b->hidden;

  if (b->spec->joined)
    build_stream(b, &(Stream) { .name = "join states", .forward_bytes = 3 * rows, .forward_kernels = 1,
                                .backward_bytes = 3 * rows, .backward_kernels = 1 });
}

/* A block of one part has a norm for that. */
void build_block(Build *b)
{
  gboolean mixes = spec_mixes(b->spec), feeds = b->spec->ffn.width > 0;
  int usual = MIN(b->spec->norms, mixes + feeds);

  if (b->spec->entry)
    build_entry_embedding(b);
  if (b->model->post_norm) {
    build_post_norm_block(b);
    return;
  }
  if (b->spec->branch) {
    build_branch(b);
    return;
  }
  build_replay(b, TRUE);
  join_earlier(b);
  build_predict_streams(b);
  if (mixes)
    build_mixer(b);
  if (b->spec->cross.heads) {
    b->part = mixes ? 1u << recorded_mixer(b->spec) : 0;
    build_norm(b, "cross norm");
    build_cross_attention(b);
    build_residual(b);
    b->part = 0;
  }
  if (feeds) {
    build_replay(b, FALSE);
    b->part = build_feeding_part(b) | (b->spec->ffn.experts ? RECORDS_ROUTER : 0);
    build_mix_streams(b);
    if (usual > mixes)
      gated_norm(b, "feed-forward norm", 1);
    mix_shifted(b, 2);
    b->part = build_feeding_part(b);
    build_feed_forward(b);
    convolve_output(b);
    build_residual_sum(b);
    b->part = 0;
  }
  build_correct_streams(b);
  scale_residuals(b);
  build_side(b);
  extra_norms(b, usual + (b->spec->cross.heads > 0));
}
