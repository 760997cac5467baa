/* Rotary positions. */
#include "op/build.h"

/* Ways to turn queries and keys: values read and written for each, and kernels. */
typedef struct {
  int forward, backward;
  int forward_kernels, backward_kernels;
} Turning;

/* Without its fused kernel, and where cosines are scaled, Megatron Core turns queries and keys apart (rope_utils.py,
 * _apply_rotary_pos_emb_bshd): three small kernels each for cosines and sines, two products, a sign, a joining of halves, a
 * sum and a joining with the channels that do not turn, of which there are none; backward the products, sign and joining,
 * two sums of gradients, one of them with zeros for these channels. */
/* Of latents, whose channels lie in pairs, each is laid out by halves first; backward each slice is a gradient of its own,
 * zeros and a copy, and these are added up (traced, PyTorch 2.15). */
static const Turning one_kernel = { 2, 2, 1, 1 }, by_step = { 8, 8, 8, 8 }, turned_apart = { 12, 14, 2 * 12, 2 * 7 },
                     paired = { 14, 20, 2 * 13, 2 * 10 };

gboolean rope_of_latents_apart(const Build *b)
{
  return b->attention->kv_lora_rank && b->passes->framework->latent_rope_apart;
}

/* One kernel, a kernel an arithmetic step, or a cast to fp32, a product of complex numbers and a cast back. */
void build_turned_pairs(Build *b, double elements)
{
  const Framework *f = b->passes->framework;
  gboolean plain = !f->fused_rope || rope_scale(&b->model->rope_scaling) != 1;
  gboolean apart = f->scaled_rope_apart && !b->attention->kv_lora_rank && plain;
  const Turning *way = apart ? &turned_apart : !f->fused_rope ? &by_step : rope_of_latents_apart(b) ? &paired : &one_kernel;
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
