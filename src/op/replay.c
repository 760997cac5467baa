/* What replaying the recorded part of a block takes. */
#include "op/build.h"

/* Gradients of what a recorded part gives. */
typedef struct {
  double rows; /* of the layer's width */
  int tensors;
} Given;

/* Where the part ends at experts: of what goes around them, of the rows that are sent, of their weights and of what shared
 * experts made; else of the rows that it gives. It ends there where experts are made again, too, which leave it out: works
 * are the same whatever is made again (price.h). */
static Given given(const Build *b)
{
  const FeedForward *f = &b->spec->ffn;
  const PassLayout *p = b->passes;
  gboolean shares = f->shared_width > 0 && !p->overlap_experts, laid_out = p->recorded >> RECORDED_MOE_PREPROCESS & 1;
  gboolean permutes = p->experts_apart && p->dispatch == DISPATCH_ALL_TO_ALL;
  double sent = b->rows * (permutes ? f->experts_per_token : 1) * b->routed / b->hidden;

  if (!f->experts || !(p->recorded >> RECORDED_MOE_ROUTER & 1))
    return (Given) { b->rows, 1 };
  return (Given) { b->rows * (1 + shares) + (laid_out ? sent : b->rows), 3 + shares };
}

static gboolean records_mixer(const Build *b)
{
  return spec_mixes(b->spec) && b->passes->recorded >> recorded_mixer(b->spec) & 1;
}

static gboolean records_feeding(const Build *b)
{
  guint whole = build_feeding_part(b);

  return b->spec->ffn.width > 0 && b->passes->recorded & (b->spec->ffn.experts ? whole | RECORDS_ROUTER : whole);
}

/* What a recorded part reads lies where it was recorded, so its inputs are copied there, in place of which the backward
 * keeps them, and so are gradients of what it gives (Transformer Engine's graph.py, static_input_surface and
 * static_grad_outputs). Where a block's attention is recorded one input is a mask of a byte for each pair of tokens, which
 * Megatron Core makes for each replay where there is none (transformer_layer.py, get_zero_attention_mask). What an encoder
 * gave is another input of attention that reads it. Operations of the host besides the copies are the mask, the function of
 * autograd that does this, and the replay. */
void build_replay(Build *b, gboolean mixes)
{
  enum { FUNCTION_AND_REPLAY = 2, MASK_AND_COPY = 2 };
  gboolean mixer = records_mixer(b), masked = mixer && recorded_mixer(b->spec) == RECORDED_ATTN;
  gboolean crosses = mixer && b->spec->cross.heads > 0;
  double row = b->hidden * b->bytes, mask = b->tokens * b->passes->seq;
  double rows = b->rows * (1 + (crosses ? b->passes->seq / b->seq : 0));
  int copies = 1 + crosses + (masked ? MASK_AND_COPY : 0);
  Given out = given(b);

  if (mixes ? !mixer : mixer || !records_feeding(b))
    return;
  build_stream(b, &(Stream) { .name = "graph input", .forward_bytes = 2 * rows * row + (masked ? 3 * mask : 0),
                              .forward_kernels = copies, .forward_operations = copies + FUNCTION_AND_REPLAY,
                              .backward_bytes = 2 * out.rows * row, .backward_kernels = out.tensors,
                              .backward_operations = out.tensors + FUNCTION_AND_REPLAY });
}
