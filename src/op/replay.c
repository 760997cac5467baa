/* What replaying the recorded part of a block takes. */
#include "op/build.h"

/* Gradients of what a recorded part gives: of what goes around the experts, and where the router is part of it of the rows
 * that are sent, of their weights and of what shared experts made. It counts as part where experts are made again, too, which
 * leave it out: works are the same whatever is made again (price.h). */
typedef struct {
  double rows; /* of the layer's width */
  int tensors;
} Given;

static Given given(const Build *b)
{
  const FeedForward *f = &b->spec->ffn;
  const PassLayout *p = b->passes;
  gboolean shares = f->shared_width > 0 && !p->overlap_experts;
  gboolean permutes = p->experts_apart && p->dispatch == DISPATCH_ALL_TO_ALL;
  double sent = b->rows * (permutes ? f->experts_per_token : 1) * b->routed / b->hidden;

  if (!f->experts)
    return (Given) { b->rows, 1 };
  return (Given) { b->rows * (1 + shares) + sent, 3 + shares };
}

/* What a recorded part reads lies where it was recorded, so its inputs are copied there, in place of which the backward
 * keeps them, and so are gradients of what it gives (Transformer Engine's graph.py, static_input_surface and
 * static_grad_outputs). Where a block attends one input is a mask of a byte for each pair of tokens, which Megatron Core
 * makes for each replay where there is none (transformer_layer.py, get_zero_attention_mask). Operations of the host
 * besides the copies are the mask, the function of autograd that does this, and the replay. */
void build_replay(Build *b)
{
  enum { FUNCTION_AND_REPLAY = 2, MASK_AND_COPY = 2 };
  LinearKind kind = b->spec->linear.kind;
  gboolean mamba = b->spec->linear.heads > 0 && (kind == LINEAR_MAMBA1 || kind == LINEAR_MAMBA2);
  gboolean masked = spec_mixes(b->spec) && !mamba; /* what attends */
  double row = b->hidden * b->bytes, mask = b->tokens * b->passes->seq;
  int copies = 1 + (masked ? MASK_AND_COPY : 0);
  Given out = given(b);

  if (b->passes->graph != GRAPH_PARTIAL)
    return;
  build_stream(b, &(Stream) { .name = "graph input", .forward_bytes = 2 * b->rows * row + (masked ? 3 * mask : 0),
                              .forward_kernels = copies, .forward_operations = copies + FUNCTION_AND_REPLAY,
                              .backward_bytes = 2 * out.rows * row, .backward_kernels = out.tensors,
                              .backward_operations = out.tensors + FUNCTION_AND_REPLAY });
}
