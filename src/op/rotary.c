/* Rotary positions. */
#include "op/build.h"

/* Ways to turn queries and keys: values read and written for each, and kernels. */
typedef struct {
  int forward, backward;
  int forward_kernels, backward_kernels;
} Turning;

/* Without its fused kernel, and where cosines are scaled, Megatron Core turns queries and keys apart (rope_utils.py,
 * _apply_rotary_pos_emb_bshd): three small kernels each for cosines and sines, two products, a sign, a joining of
 * halves, a sum and a joining with the channels that do not turn, of which there are none; backward the products, sign
 * and joining, two sums of gradients, one of them with zeros for these channels. */
static const Turning one_kernel = { 2, 2, 1, 1 }, by_step = { 8, 8, 8, 8 }, turned_apart = { 12, 14, 2 * 12, 2 * 7 };

/* Those of attention to latents besides are sorted into halves, which is a joining; backward each half's gradients are
 * put beside zeros, and both are summed (traced, PyTorch 2.15). */
static const Turning sorted_apart = { 12 + 2, 14 + 4 + 3, 2 * (12 + 1), 2 * (7 + 2 + 1) };

static const Turning *way_of(const Build *b)
{
  const Framework *f = b->passes->framework;
  gboolean latent = b->attention->kv_lora_rank > 0;

  if (latent && (f->latent_rope_apart || (f->scaled_rope_apart && !f->fused_rope)))
    return &sorted_apart;
  if (!latent && f->scaled_rope_apart && (!f->fused_rope || rope_scale(&b->model->rope_scaling) != 1))
    return &turned_apart;
  return f->fused_rope ? &one_kernel : &by_step;
}

/* One kernel, a kernel an arithmetic step, or a cast to fp32, a product of complex numbers and a cast back. */
void build_turned_pairs(Build *b, double elements)
{
  const Framework *f = b->passes->framework;
  const Turning *way = way_of(b);
  double complex_bytes = elements * (2 * b->bytes + 4 * dtype_bytes[DTYPE_FP32]);

  if (f->complex_rope)
    build_stream(b, &(Stream) { .name = "rotary", .forward_bytes = complex_bytes, .forward_kernels = 2 * 3,
                                .backward_bytes = complex_bytes, .backward_kernels = 2 * 3 });
  else
    build_stream(b, &(Stream) { .name = "rotary", .forward_bytes = way->forward * b->bytes * elements,
                                .forward_kernels = way->forward_kernels,
                                .backward_bytes = way->backward * b->bytes * elements,
                                .backward_kernels = way->backward_kernels });
}
