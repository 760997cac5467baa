/*
 * What autograd is given in place of a weight gradient that the product has added to the accumulated one, so that its
 * hooks run: an unused tensor of the weight's shape, in the activations' format. Megatron Core's own products make one
 * for each backward (tensor_parallel/layers.py, since 0.4), as those of Transformer Engine did; since 2.3 the latter keep
 * one of each shape (module/base.py, get_dummy_wgrad).
 */
#include "op/build.h"

static gboolean has_shape(const Build *b, double in, double out)
{
  for (int i = 0; i < b->n_shapes; i++)
    if (b->shapes[i].in == in && b->shapes[i].out == out)
      return TRUE;
  return FALSE;
}

void build_placeholder(Build *b, double in, double out, double batch)
{
  Placeholders kind = b->passes->framework->placeholders;
  double bytes = in * out * b->bytes;

  if (b->frozen || has_shape(b, in, out))
    return;
  if (kind == PLACEHOLDERS_PASSING)
    b->work->transient_bytes = MAX(b->work->transient_bytes, batch * bytes);
  if (kind != PLACEHOLDERS_KEPT)
    return;
  g_assert(b->n_shapes < (int)G_N_ELEMENTS(b->shapes));
  b->work->placeholder_bytes += bytes;
  b->shapes[b->n_shapes++] = (MatrixShape) { in, out };
}

void build_head_placeholder(Build *b, double in, double vocab, double loss_bytes)
{
  double rows = b->tokens * in * (b->passes->sequence_parallel ? 2 : 1);
  double elements = in * vocab + rows + b->tokens * vocab;

  if (!b->frozen && b->passes->framework->placeholders != PLACEHOLDERS_NONE)
    b->work->transient_bytes = MAX(b->work->transient_bytes, elements * b->bytes - loss_bytes);
}
