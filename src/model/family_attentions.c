/* Families of decoders with an attention that is theirs alone. */
#include "model/family_rows.h"

/* Layers have a window where its file says so. */
static void derive_zaya(Recipe *r)
{
  if (!r->sliding)
    r->use_window = FALSE;
}

static const Family rows[] = {
  {"jetmoe",
   {LLAMA, .norms = 2, .positions = 4096, .kv_heads = 16, .head_dim = 128, .tied = TRUE, .attention_experts = TRUE,
    .needs_experts = TRUE, .experts = 8, .experts_per_token = 2, .balance_loss = 0.01}},
  {"zaya",
   {LLAMA, .norms = 2, .positions = 131072, .kv_heads = 2, .head_dim = 128, .qk_norm = TRUE, .tied = TRUE,
    .use_window = TRUE, .conv_each = 2, .conv_heads = 2, .router_width = 256, .needs_experts = TRUE, .experts = 16,
    .experts_per_token = 1, .expert_ffn = 2048, .rotary_share = 0.5, .rope_theta = 5e6, .norm_epsilon = 1e-5},
   derive_zaya},
};

const FamilyRows family_attentions = {rows, G_N_ELEMENTS(rows)};
