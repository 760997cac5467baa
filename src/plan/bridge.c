#include "plan/bridge.h"

const BridgeRecipe bridge_recipes[] = {
  { FP8_DELAYED, "bf16_with_fp8_delayed_scaling_mixed", TRUE, { 0, 0 } },
  { FP8_CURRENT, "bf16_with_fp8_current_scaling_mixed", TRUE, { 1, 1 } },
  { FP8_CURRENT, "nemotron_h_bf16_with_fp8_current_scaling_mixed", TRUE, { 2, 2 } },
  { FP8_BLOCKWISE, "bf16_with_fp8_subchannel_scaling_mixed", FALSE, { 0, 0 } },
  { FP8_BLOCKWISE, "nanov2_bf16_with_fp8_current_scaling_mixed", TRUE, { 2, 2 } },
  { FP8_MXFP8, "bf16_with_mxfp8_mixed", TRUE, { 0, 0 } },
  { FP8_NVFP4, "bf16_with_nvfp4_mixed", TRUE, { 0, 0 } },
  { FP8_NVFP4, "nemotron_3_super_bf16_with_nvfp4_mixed", TRUE, { 0, 14 } },
};

const gsize bridge_recipes_count = G_N_ELEMENTS(bridge_recipes);
