/* What passes hold of what their stage received from the one before and sent to the one behind. */
#include "program/build.h"

/* What a stage of the decoder that did not start it keeps besides: the encoder's output, which it received. */
void received_pass(const ProgramBuild *b, const Chunk *chunk, Segment *s)
{
  double bytes = op_encoder_bytes(b->model, &b->layout->passes);
  LayerPrice received = { .saved_bytes = bytes, .deferred_bytes = bytes };

  if (s->first_layer > 1 + b->model->encoder_blocks && s->first_layer == chunk_whole(chunk).first_layer)
    s->activation_bytes += held_bytes(&received, &received, chunk, s->pass);
}

/*
 * What a stage sent it keeps until the micro-batch's backward has run (`stage_outputs`): of what tensor-parallel ranks
 * send in parts a part, which a backward makes whole again, as it does the gradient that came in parts; the gradient
 * stays as long as the backward runs, beside those that layers make of it.
 */
void sent_pass(const ProgramBuild *b, const Chunk *chunk, Segment *s)
{
  const PassLayout *passes = &b->layout->passes;
  Piece whole = chunk_whole(chunk);
  double bytes = op_boundary_bytes(b->model, passes);
  double kept = b->layout->pipeline.scatters_sends ? bytes / passes->tp : bytes;

  if (!passes->framework->stage_outputs || program_stage(b, chunk->rank, chunk->index) == b->stages - 1)
    return;
  if (s->pass == PASS_FORWARD && s->first_layer + s->n_layers == whole.first_layer + whole.n_layers)
    s->activation_bytes += kept;
  if (!pass_is_backward(s->pass))
    return;
  s->alloc_bytes += bytes + (kept < bytes ? bytes : 0);
  s->activation_bytes -= s->first_layer == whole.first_layer ? kept : 0;
}
