/*
 * Products of 8- and 4-bit formats: what casting to them costs and holds.
 *
 * Of a plan in fp8 or fp4 the products of blocks with divided weights, and those down to and up from latents, run in it,
 * forward and both backward ones, but in blocks that see the passes widened (pass_layout_widen); the router, embedding,
 * output layer and everything else stay in 16 bits, their weights among them (attention's core but where the layout says
 * so), master weights and optimizer states in 32. A framework's recipe says how scales are found:
 *
 * delayed     from the largest values of earlier steps: norms write fp8 as they
 *             go, in one layout or both (Transformer Engine); what activations make, and experts' rows,
 *             kernels of their own cast, as Megatron's activation writes 16 bits
 * current     from the tensor itself, which is read once more (Transformer Engine)
 * tensorwise  the same without kernels of its own for both layouts; inputs are
 *             kept in 16 bits, FSDP gathers weights in fp8 (torchao)
 * rowwise     a scale for each row of either factor of each product, so that every factor is cast along both its sides:
 *             by rows forward, by columns in the backward for the gradients, which products without scales make and a
 *             kernel of its own then scales (torchao, pytorch/ao#1325); inputs are kept in 16 bits, FSDP and
 *             tensor-parallel ranks gather in 16 bits. Bytes of that kernel are fitted to four linear layers
 *             (pytorch/ao#2185), the products of whose gradients promote partial sums
 * blockwise   a scale for each 128 x 128 weights and 1 x 128 activations
 *             (DeepSeek-V3, arXiv 2412.19437)
 * mxfp8       a scale of a byte for each 32 values (OCP MX), on devices that have it
 * nvfp4       of fp4: a scale of a byte for each 16 values, or 16 x 16 weights, under one of the tensor, which is read
 *             once more for it (NVIDIA, arXiv 2509.25149, section 3)
 *
 * Bytes of a cast: read 16 bits, write 8 bits twice, as rows and as columns for
 * the weight gradient; with scales that is 1 + 1/32 bytes a value in mxfp8, 1 + 4/128 for activations by blocks,
 * 1/2 + 1/16 in nvfp4.
 *
 * Rows that tensor-parallel ranks gather under sequence parallelism are cast before, each rank's own (Transformer
 * Engine's layernorm_linear.py and grad_output_preprocess; torchao's float8_tensor_parallel.py), unless they travel in 16
 * bits (rowwise). With scales of whole tensors the ranks agree on the largest value first, but for delayed ones, and
 * columns are made behind the gather unless one layout is enough; with scales of blocks inputs travel as rows
 * forward and as columns backward, gradients as both.
 */
#ifndef TDP_OP_FP8_H
#define TDP_OP_FP8_H

#include "hardware/device.h"
#include "plan/choices.h"

typedef struct {
  double made_bytes;  /* traffic for an element of an input that a norm made */
  double cast_bytes;  /* for one of another input, or of an output's gradient */
  double column_bytes; /* for one of any input, where a kernel of its own casts its columns, in the backward, as inputs
                          are kept in 16 bits */
  double weight_bytes; /* for a weight; once a step, or each forward pass */
  double weight_backward_bytes; /* each backward one */
  double rescale_bytes; /* for a value of an input's or weight's gradient, scaled by a kernel behind the product */
  gboolean promotes;    /* products of both gradients add partial sums in 32 bits, with split accumulators, where
                           those of 8-bit products are narrower (Hopper); forward ones do not: Transformer Engine's
                           pytorch/module/base.py (_2X_ACC_DGRAD, _2X_ACC_WGRAD), torchao's float8/config.py
                           (use_fast_accum of gemm_config_output alone), XLA (openxla/xla#6168) */
  gboolean each_pass;
  gboolean block_scales; /* rows and columns have scales of their own: neither is made of the other */
  gboolean shared_scale; /* a tensor whose rows tensor-parallel ranks divide is scaled by the largest value of all, for
                            which they meet before each cast (Transformer Engine's amax_reduction_group) */
  gboolean keeps_narrow; /* inputs are kept for the weight gradient in the format */
  double weight_kept_bytes; /* of a weight's columns, cast by the forward and kept for the backward */
  double value_bytes;    /* of a value with its share of the scales, as inputs are kept and rows gathered */
  gboolean gathers_wide; /* tensor-parallel ranks gather rows in 16 bits, and cast behind it */
  double held_bytes;     /* for a weight beside the 16-bit one, in both layouts */
  double sent_bytes;     /* of a weight that ranks gather in the format; where all ranks make the scales, of which they
                            meet for the largest values, without these */
  gboolean either_side;  /* no second layout is made where products read one by rows or columns (fp8_one_layout) */
  double tensor_kernels; /* of casting one of several tensors; 0 = all in one */
  gboolean cast_behind;  /* a distributed optimizer gathers 16 bits of what it keeps in the format (Megatron-LM's
                            param_and_grad_buffer.py, of mxfp8); FSDP gathers the format, and keeps both layouts divided */
} Fp8Work;

/* Of narrow products, where they read rows alone: of the library that casts them. torchao's mxfp8 has a kernel for each
 * layout, keeps inputs in 16 bits, whose columns it casts in the backward, and casts weights in each pass (mx_linear.py);
 * its nvfp4 casts both layouts of inputs and weights forward and keeps the columns, random transforms and rounding within
 * the same kernels (nvfp4_linear.py). Neither gathers less than 16 bits. */
const Fp8Work *fp8_work(const Formats *formats);

/* Whether on a device what is cast has one layout alone, which products read by rows or columns: no columns are written,
 * kept or made of gathered rows. Of scales of whole tensors in Transformer Engine (nvte_is_non_tn_fp8_gemm_supported,
 * which its quantizer.cpp asks); torchao transposes on every device (preprocess_addmm). */
gboolean fp8_one_layout(const Formats *formats, const Device *device);

#endif
