#include "op/fp8.h"

static const Fp8Work works[FP8_COUNT] = {
  [FP8_DELAYED] = { .cast_bytes = 4, .weight_bytes = 4, .keeps_narrow = TRUE, .held_bytes = 2, .gather_bytes = 2 },
  [FP8_CURRENT] = { .made_bytes = 6, .cast_bytes = 6, .weight_bytes = 6, .keeps_narrow = TRUE, .held_bytes = 2,
                    .gather_bytes = 2 },
  [FP8_TENSORWISE] = { .made_bytes = 6, .cast_bytes = 6, .weight_bytes = 3, .each_pass = TRUE, .gather_bytes = 1 },
  [FP8_BLOCKWISE] = { .made_bytes = 4, .cast_bytes = 4, .weight_bytes = 4, .keeps_narrow = TRUE, .held_bytes = 2,
                      .gather_bytes = 2 },
  [FP8_MXFP8] = { .made_bytes = 4, .cast_bytes = 4, .weight_bytes = 4, .keeps_narrow = TRUE, .held_bytes = 2,
                  .gather_bytes = 2 },
};

const Fp8Work *fp8_work(const Plan *plan)
{
  g_assert(plan->fp8);
  return &works[plan->framework->fp8];
}
