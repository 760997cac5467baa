/* Families whose layers use the weights of others. */
#include "model/family_rows.h"

/* Its class has as many keys as queries. */
static void derive_hrm(Recipe *r)
{
  r->kv_heads = r->heads;
}

static const Family rows[] = {
  {"dory",
   {LLAMA, .norms = 4, .positions = 8192, .kv_heads = 4, .head_dim = 256, .bare_norms = TRUE, .inner_norms = TRUE,
    .qk_norm = TRUE, .attention_gate = TRUE, .residual_scales = 2, .unit_sphere = TRUE, .use_window = TRUE,
    .window = 1024, .window_pattern = 4, .rope_theta = 1e7, .loops = LOOPS_SECTION}},
  {"zamba",
   {.norm = NORM_RMSNORM, .mlp = MLP_SWIGLU, .norms = 2, .final_norm = TRUE, .position_kind = POSITIONS_NONE,
    .positions = 4096, .kv_heads = 16, .tied = TRUE, .has_linear = TRUE, .linear_expand = 2,
    .linear = {LINEAR_MAMBA1, .state = 16, .conv = 4, .conv_bias = TRUE, .blocks = 2}, .attention_every = 6,
    .attention_offset = 4, .branched = TRUE, .branches = 1, .norm_epsilon = 1e-5}},
  {"zamba2",
   {.norm = NORM_RMSNORM, .mlp = MLP_SWIGLU, .norms = 2, .final_norm = TRUE, .position_kind = POSITIONS_NONE,
    .positions = 4096, .tied = TRUE, .has_linear = TRUE, .linear_expand = 2,
    .linear = {LINEAR_MAMBA2, .state = 64, .conv = 4, .conv_bias = TRUE, .heads = 8, .groups = 1, .chunk = 256},
    .branched = TRUE, .branches = 1, .branch_rank = 128, .norm_epsilon = 1e-5}},
  {"hrm_text",
   {.norm = NORM_RMSNORM, .mlp = MLP_SWIGLU, .position_kind = POSITIONS_ROPE, .norms = 2, .positions = 2048,
    .head_dim = 128, .bare_norms = TRUE, .attention_gate = TRUE, .loops = LOOPS_CYCLES},
   derive_hrm},
};

const FamilyRows family_reusing = {rows, G_N_ELEMENTS(rows)};
