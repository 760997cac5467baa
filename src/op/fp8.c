#include "op/fp8.h"

#define MX_BYTES (1 + 1.0 / 32)
#define BLOCK_BYTES (1 + 4.0 / 128)
#define BLOCK_WEIGHT_BYTES (1 + 4.0 / (128 * 128))
#define NV_BYTES (0.5 + 1.0 / 16)

/* A row fits a block of threads, which reads it once; a column is read for its scale, then again. */
#define ROW_CAST (2 + 1)
#define COLUMN_CAST (2 + 2 + 1)
#define RESCALE 8

/* Read for the tensor's scale, read again, written as rows and columns; of torchao's weights over zeros, values alone
 * (quantize_2d_triton.py). */
#define NV_CAST (2 + 2 + 2 * NV_BYTES)
#define NV_ZEROS (2 * 0.5)

static const Fp8Work works[FP8_COUNT] = {
  [FP8_DELAYED] = { .promotes = TRUE, .cast_bytes = 4, .weight_bytes = 4, .keeps_narrow = TRUE, .value_bytes = 1,
                  .held_bytes = 2, .sent_bytes = 1, .either_side = TRUE },
  [FP8_CURRENT] = { .promotes = TRUE, .made_bytes = 6, .cast_bytes = 6, .weight_bytes = 6, .shared_scale = TRUE,
                    .keeps_narrow = TRUE, .value_bytes = 1, .held_bytes = 2, .sent_bytes = 1, .either_side = TRUE,
                    .tensor_kernels = 4 },
  [FP8_TENSORWISE] = { .promotes = TRUE, .made_bytes = 6, .cast_bytes = 6, .weight_bytes = 3, .each_pass = TRUE,
                       .weight_backward_bytes = 3, .shared_scale = TRUE, .value_bytes = 1, .sent_bytes = 1,
                       .tensor_kernels = 3 },
  [FP8_ROWWISE] = { .promotes = TRUE, .made_bytes = ROW_CAST + COLUMN_CAST, .cast_bytes = ROW_CAST + COLUMN_CAST,
                    .column_bytes = COLUMN_CAST, .weight_bytes = ROW_CAST, .weight_backward_bytes = COLUMN_CAST,
                    .rescale_bytes = RESCALE, .each_pass = TRUE,
                    .value_bytes = 2, .sent_bytes = 2, .tensor_kernels = 2 },
  [FP8_BLOCKWISE] = { .made_bytes = 2 + 2 * BLOCK_BYTES, .cast_bytes = 2 + 2 * BLOCK_BYTES,
                      .weight_bytes = 2 + 2 * BLOCK_WEIGHT_BYTES, .block_scales = TRUE, .keeps_narrow = TRUE,
                      .value_bytes = BLOCK_BYTES, .held_bytes = 2 * BLOCK_WEIGHT_BYTES, .sent_bytes = 1, .tensor_kernels = 1 },
  [FP8_MXFP8] = { .made_bytes = 2 + 2 * MX_BYTES, .cast_bytes = 2 + 2 * MX_BYTES, .weight_bytes = 2 + 2 * MX_BYTES,
                  .block_scales = TRUE, .keeps_narrow = TRUE, .value_bytes = MX_BYTES, .held_bytes = 2 * MX_BYTES,
                  .sent_bytes = MX_BYTES, .cast_behind = TRUE, .tensor_kernels = 1 },
  [FP8_NVFP4] = { .made_bytes = NV_CAST, .cast_bytes = NV_CAST, .weight_bytes = NV_CAST, .block_scales = TRUE,
                  .shared_scale = TRUE, .keeps_narrow = TRUE,
                  .value_bytes = NV_BYTES, .held_bytes = 2 * NV_BYTES, .sent_bytes = 0.5, .tensor_kernels = 1 },
};

/* torchao's where they differ. */
static const Fp8Work mxfp8_of_torchao = {
  .made_bytes = 2 * (2 + MX_BYTES), .cast_bytes = 2 * (2 + MX_BYTES), .column_bytes = 2 + MX_BYTES,
  .weight_bytes = 2 + MX_BYTES, .weight_backward_bytes = 2 + MX_BYTES, .each_pass = TRUE, .block_scales = TRUE,
  .value_bytes = 2, .gathers_wide = TRUE, .sent_bytes = 2, .tensor_kernels = 2,
};
static const Fp8Work nvfp4_of_torchao = {
  .made_bytes = NV_CAST, .cast_bytes = NV_CAST, .weight_bytes = NV_CAST + NV_ZEROS, .each_pass = TRUE,
  .block_scales = TRUE, .shared_scale = TRUE, .keeps_narrow = TRUE, .weight_kept_bytes = NV_BYTES,
  .value_bytes = NV_BYTES, .gathers_wide = TRUE, .sent_bytes = 2, .tensor_kernels = 1,
};

const Fp8Work *fp8_work(const Formats *formats)
{
  gboolean torchao = formats->library == FP8_TORCHAO;

  g_assert(formats_narrow(formats));
  return torchao && formats->recipe == FP8_MXFP8   ? &mxfp8_of_torchao
         : torchao && formats->recipe == FP8_NVFP4 ? &nvfp4_of_torchao
                                                   : &works[formats->recipe];
}

gboolean fp8_one_layout(const Formats *formats, const Device *device)
{
  return formats_narrow(formats) && device->fp8_columns && fp8_work(formats)->either_side;
}
