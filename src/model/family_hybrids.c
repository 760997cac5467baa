/* Families with layers of linear attention. */
#include "model/family_rows.h"

/* Layers of families that list none. */
static void fill_parts(Recipe *r, guint even, guint odd)
{
  if (r->parts || !r->layers)
    return;
  r->parts = g_new(guint8, r->layers);
  for (int i = 0; i < r->layers; i++)
    r->parts[i] = (guint8)(i % 2 ? odd : even);
}

static void derive_mamba(Recipe *r)
{
  fill_parts(r, r->single ? PART_LINEAR : PART_LINEAR | PART_FEED, r->single ? PART_LINEAR : PART_LINEAR | PART_FEED);
  if (!r->linear_head_dim && r->linear_heads)
    r->linear_head_dim = (int)((gint64)r->linear_expand * r->hidden / r->linear_heads);
}

/* Its file has the heads and biases of the state space alone, by names that others have for attention. */
static void derive_mamba2(Recipe *r)
{
  r->linear_heads = r->heads;
  r->linear_head_dim = r->head_dim;
  r->heads = r->head_dim = 0;
  r->linear_bias = r->bias;
  r->bias = FALSE;
  derive_mamba(r);
}

/* Shared experts have a width for all of them together. */
static void derive_nemotron_h(Recipe *r)
{
  r->linear_bias = r->linear_bias || r->bias;
  r->bias = FALSE;
  r->shared_experts = 0;
  if (r->parts && !recipe_has(r, PART_EXPERTS))
    r->experts = 0;
}

/* Without experts, the shared one is the feed-forward. */
static void derive_granite_hybrid(Recipe *r)
{
  if (!r->experts) {
    r->ffn = r->shared_ffn;
    r->shared_ffn = 0;
  }
  if (g_strcmp0(r->position_type, "rope") == 0)
    r->position_kind = POSITIONS_ROPE;
  derive_mamba(r);
}

/* Lightning attention has the heads of attention, each with keys of its own. */
static void derive_minimax(Recipe *r)
{
  fill_parts(r, PART_ATTENTION | PART_FEED, PART_LINEAR | PART_FEED);
  r->linear_heads = r->linear_groups = r->heads;
  r->linear_head_dim = r->head_dim || !r->heads ? r->head_dim : r->hidden / r->heads;
  r->linear_state = r->linear_head_dim;
}

#define MAMBA2 \
  .has_linear = TRUE, .linear = LINEAR_MAMBA2, .linear_conv = 4, .linear_conv_bias = TRUE, .linear_expand = 2
/* What transformers' classes of Bamba and its like have. */
#define BAMBA                                                                                                  \
  .norm = NORM_RMSNORM, .mlp = MLP_SWIGLU, .final_norm = TRUE, MAMBA2, .norms = 2, .linear_heads = 128,        \
  .linear_groups = 1, .linear_state = 256, .linear_chunk = 256
/* Qwen3-Next: three layers of gated delta networks, then one of gated attention. */
#define QWEN_NEXT                                                                                           \
  LLAMA, .norms = 2, .positions = 32768, .head_dim = 256, .kv_heads = 2, .qk_norm = TRUE,                   \
  .attention_gate = TRUE, .rotary_share = 0.25, .has_linear = TRUE, .linear = LINEAR_GATED_DELTA,           \
  .linear_heads = 32, .linear_head_dim = 128, .linear_groups = 16, .linear_state = 128, .linear_conv = 4,   \
  .attention_every = 4
#define QWEN_NEXT_EXPERTS                                                                               \
  QWEN_NEXT, .shared_gate = TRUE, .needs_experts = TRUE, .expert_ffn = 512, .shared_ffn = 512, .balance_loss = 0.001

static const Family rows[] = {
  {"qwen3_next", {QWEN_NEXT_EXPERTS, .experts = 512, .experts_per_token = 10}},
  {"qwen3_5_text", {QWEN_NEXT}},
  {"qwen3_5_moe_text", {QWEN_NEXT_EXPERTS, .experts = 256, .experts_per_token = 8}},
  {"mamba2",
   {MAMBA2, .single = TRUE, .norm = NORM_RMSNORM, .norms = 2, .final_norm = TRUE, .position_kind = POSITIONS_NONE,
    .positions = 1048576, /* its files bound none */
    .heads = 128, .head_dim = 64, .linear_groups = 8, .linear_state = 128, .linear_chunk = 256, .norm_epsilon = 1e-5},
   derive_mamba2},
  {"nemotron_h",
   {MAMBA2, .single = TRUE, .norm = NORM_RMSNORM, .mlp = MLP_RELU2, .norms = 2, .final_norm = TRUE,
    .position_kind = POSITIONS_NONE, .positions = 4096, .kv_heads = 8, .head_dim = 128, .linear_heads = 128,
    .linear_head_dim = 64, .linear_groups = 8, .linear_state = 128, .linear_chunk = 128, .experts = 8,
    .experts_per_token = 2, .expert_ffn = 7688, .shared_ffn = 7688, .router_correction = TRUE,
    .mtp_parts = PART_ATTENTION | PART_EXPERTS, .norm_epsilon = 1e-5},
   derive_nemotron_h},
  {"bamba",
   {BAMBA, .position_kind = POSITIONS_ROPE, .positions = 262144, .kv_heads = 8, .rotary_share = 0.5,
    .norm_epsilon = 1e-5},
   derive_mamba},
  {"granitemoehybrid",
   {BAMBA, .position_kind = POSITIONS_NONE, .positions = 2048, .experts = 8, .experts_per_token = 2,
    .shared_ffn = 1024, .balance_loss = 0.001},
   derive_granite_hybrid},
  {"minimax",
   {LLAMA, .norms = 2, .positions = 131072, .has_linear = TRUE, .linear = LINEAR_LIGHTNING, .needs_experts = TRUE,
    .experts = 8, .experts_per_token = 2, .rope_theta = 1e6, .norm_epsilon = 1e-5, .balance_loss = 0.001},
   derive_minimax},
};

const FamilyRows family_hybrids = {rows, G_N_ELEMENTS(rows)};
