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
  {"hrm_text",
   {.norm = NORM_RMSNORM, .mlp = MLP_SWIGLU, .position_kind = POSITIONS_ROPE, .norms = 2, .positions = 2048,
    .head_dim = 128, .bare_norms = TRUE, .attention_gate = TRUE, .loops = LOOPS_CYCLES},
   derive_hrm},
};

const FamilyRows family_reusing = {rows, G_N_ELEMENTS(rows)};
