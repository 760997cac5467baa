/* Final norm, logits and loss, divided by vocabulary over the tensor-parallel ranks unless these gather the logits. */
#include "op/build.h"

/* Values of a token: largest logit, sum of exponentials, label's logit; with the
 * vocabulary over the pipeline ranks also the largest of this share. */
static double token_bytes(const Build *b)
{
  int values = b->passes->framework->loss_token_values;

  return dtype_bytes[DTYPE_FP32] * (values + (values > 0 && b->passes->spread_vocabulary));
}

/* Of a logit or probability, from forward to backward. */
static double loss_kept(const Build *b)
{
  return b->passes->framework->loss_in_place ? b->bytes : dtype_bytes[DTYPE_FP32];
}

/* The loss keeps probabilities in fp32. Bytes of a logit: Megatron's casts it to fp32 (6), looks for the largest (4),
 * subtracts that (8), takes exponentials (8), their sum (4) and divides by it (8); backward it scales (8) and casts
 * (6). A fused one reads and writes once each way, in a kernel of a library or of a compiler. */
static void build_loss(Build *b, double logits)
{
  const Framework *f = b->passes->framework;
  gboolean one = f->fused_loss;
  double saved = loss_kept(b);
  gboolean divided = b->tp > 1 && !f->whole_vocabulary;
  double worst = divided && f->divided_loss_bytes > 0 ? f->divided_loss_bytes : f->loss_bytes;

  double held = logits / f->loss_chunks;

  build_stream(b, &(Stream) {
    .name = "loss", .kernel = !one ? NULL : f->compiled_loss ? "compiled loss" : "fused loss",
    .forward_bytes = (one ? 8 : 38) * logits, .forward_kernels = one ? 1 : 8,
    .backward_bytes = (one ? 8 : 14) * logits, .backward_kernels = one ? 1 : 3,
    .saved = saved * held + token_bytes(b) * b->tokens,
  });
  if (f->metric_bytes > 0)
    build_stream(b, &(Stream) { .name = "metrics", .forward_bytes = f->metric_bytes * logits, .forward_kernels = 8 });
  for (int i = 0; i < 3 && divided; i++)
    build_forward_collective(b, "sum loss", COLLECTIVE_ALL_REDUCE, 4 * b->tokens);
  if (!f->loss_in_place)
    b->work->transient_bytes = MAX(b->work->transient_bytes, (worst - saved) * held);
}

/* Classes of each sequence's first token, on every tensor-parallel rank. */
static void build_classes(Build *b, const char *name, double width)
{
  double rows = b->passes->micro_batch;

  build_linear(b, &(Linear) { .name = name, .in = b->hidden, .out = width, .batch = 1, .rows = rows, .bias = TRUE,
                              .saved = b->bytes * rows * b->hidden, .split = LINEAR_REPLICATED });
}

/* What BERT has between its blocks and the logits (Devlin et al. 2018, arXiv 1810.04805, appendix A.2): the next
 * sentence's classes behind a dense layer, and a dense layer, activation and norm of the tokens to predict. */
static void build_masked_head(Build *b)
{
  const Model *m = b->model;
  double picked = 2 * b->rows * m->predicted * b->hidden * b->bytes;

  if (m->pooler)
    build_classes(b, "pooler", b->hidden);
  if (m->pooler && !m->bare_pooler)
    build_classes(b, "next sentence", 2);
  if (m->predicted < 1)
    build_stream(b, &(Stream) { .name = "pick tokens", .forward_bytes = picked, .forward_kernels = 1,
                                .backward_bytes = picked, .backward_kernels = 2 });
  b->tokens *= m->predicted;
  b->rows *= m->predicted;
  if (!m->mlm_head)
    return;
  double saved = b->rows * b->hidden * b->bytes, width = m->narrow_embedding ? m->head_width : b->hidden;
  double bytes = b->rows * width * b->bytes;
  build_linear(b, &(Linear) { .name = "head dense", .in = b->hidden, .out = width, .batch = 1, .rows = b->rows,
                              .bias = m->mlm_bias, .saved = saved, .split = LINEAR_REPLICATED });
  b->hidden = width;
  build_stream(b, &(Stream) { .name = "activation", .forward_bytes = 2 * bytes, .forward_kernels = 1,
                              .backward_bytes = 3 * bytes, .backward_kernels = 1, .saved = bytes });
  build_norm(b, "head norm");
}

/* Among which the logits' weights are divided. */
static double head_parts(const Build *b)
{
  return b->passes->framework->whole_vocabulary && !b->passes->sequence_parallel ? 1 : b->tp;
}

void build_head(Build *b)
{
  const Model *m = b->model;
  double parts = head_parts(b), vocab = op_vocab(m, b->passes) / parts;
  double weights, states;
  Frozen frozen;

  build_join_streams(b);
  if (b->spec->norms > 0)
    build_norm(b, "final norm");
  if (m->patch) {
    build_classes(b, "classes", m->classes);
    return;
  }
  build_masked_head(b);
  if (m->head_width && m->head_width != b->hidden)
    build_linear(b, &(Linear) { .name = "head projection", .in = b->hidden, .out = m->head_width, .batch = 1,
                                .rows = b->tokens, .saved = b->bytes * b->rows * b->hidden,
                                .split = LINEAR_REPLICATED });
  weights = b->work->params;
  states = b->work->state_bytes[0];
  frozen = b->work->frozen[0];
  build_linear(b, &(Linear) {
    .name = "logits", .in = m->head_width ? m->head_width : b->hidden, .out = vocab, .batch = 1, .rows = b->tokens,
    .saved = b->bytes * b->rows * b->hidden, .split = parts < b->tp ? LINEAR_REPLICATED : LINEAR_COLUMN,
    .bias = m->head_bias,
  });
  /* shared weights stand once where their owner is on the same device */
  if (b->spec->again || (m->tied_embeddings && b->passes->ends_meet)) {
    const Tensor bias = { vocab, 0, m->head_bias ? 1 : 0 };
    double params = vocab * bias.count, kept = b->frozen ? params : 0;
    b->work->params = weights + params - kept;
    b->work->state_bytes[0] = states + (b->frozen ? 0 : optimizer_tensor_bytes(&b->passes->optimizer, &bias));
    b->work->frozen[0] = frozen_sum(frozen, (Frozen) { kept, kept * b->bytes });
  }
  if (m->logit_scales) /* in wide numbers */
    build_scales(b, "logit scales", WIDE * b->tokens * vocab, vocab, 1);
  if (!b->passes->framework->whole_vocabulary) {
    build_loss(b, b->tokens * vocab);
    build_head_placeholder(b, m->head_width ? m->head_width : b->hidden, vocab, loss_kept(b) * b->tokens * vocab);
    return;
  }
  if (parts > 1)
    build_forward_collective(b, "gather logits", COLLECTIVE_ALL_GATHER, b->tokens * vocab * parts * b->bytes);
  build_loss(b, b->tokens * vocab * parts);
}
