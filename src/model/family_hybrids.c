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
  if (!r->linear.head_dim && r->linear.heads)
    r->linear.head_dim = (int)((gint64)r->linear_expand * r->hidden / r->linear.heads);
}

/* Its file has the heads and biases of the state space alone, by names that others have for attention. */
static void derive_mamba2(Recipe *r)
{
  r->linear.heads = r->heads;
  r->linear.head_dim = r->head_dim;
  r->heads = r->head_dim = 0;
  r->linear.bias = r->bias;
  r->bias = FALSE;
  derive_mamba(r);
}

/* Shared experts have a width for all of them together. */
static void derive_nemotron_h(Recipe *r)
{
  r->linear.bias = r->linear.bias || r->bias;
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

/* Mamba-1's biases stand under a name that others have for all. */
static void derive_mamba1(Recipe *r)
{
  r->linear.bias = r->bias;
  r->bias = FALSE;
  r->linear.heads = r->ffn; /* its channels, which intermediate_size tells before expand */
  r->ffn = 0;
  fill_parts(r, PART_LINEAR, PART_LINEAR);
}

/* Attention and experts each in one layer of a few. */
static void derive_jamba(Recipe *r)
{
  if (r->experts < 2)
    r->experts = 0;
  if (!r->layers || r->parts)
    return;
  r->parts = g_new(guint8, r->layers);
  for (int i = 0; i < r->layers; i++) {
    gboolean attends = i % MAX(r->attention_every, 1) == r->attention_offset;
    gboolean sparse = r->experts && i % MAX(r->expert_every, 1) == r->expert_offset;
    r->parts[i] = (guint8)((attends ? PART_ATTENTION : PART_LINEAR) | (sparse ? PART_EXPERTS : PART_DENSE));
  }
}

/* A state space beside attention in each layer, with a norm of its own or none. */
static void derive_falcon_h1(Recipe *r)
{
  guint parts = PART_ATTENTION | PART_LINEAR | PART_FEED;

  fill_parts(r, parts, parts);
  r->linear.plain = !r->linear_normed;
  if (!r->linear_width)
    r->linear_width = r->linear_expand * r->hidden;
  if (r->linear.heads)
    r->linear.head_dim = r->linear_width / r->linear.heads;
}

/* A width of the feed-forward that a gate would add to, as Llama's. */
static void derive_lfm2(Recipe *r)
{
  if (r->ffn_adjusted)
    r->ffn = (int)MIN(r->ffn_multiplier * (2 * (gint64)r->ffn / 3), MAX_FFN);
  if (r->ffn_adjusted && r->ffn_multiple)
    r->ffn = (r->ffn + r->ffn_multiple - 1) / r->ffn_multiple * r->ffn_multiple;
  r->linear.conv_bias = r->linear.bias;
}

static void derive_lfm3(Recipe *r)
{
  r->norms = r->norms_behind ? 4 : 2;
  r->linear.conv_bias = r->linear.bias;
  if (r->parts || !r->layers)
    return;
  fill_parts(r, PART_ATTENTION | PART_FEED, PART_LINEAR | PART_FEED);
  r->parts[0] = PART_LINEAR | PART_FEED;
  r->sliding = g_new0(guint8, r->layers);
  for (int i = 4; i < r->layers; i += 4)
    r->sliding[i] = TRUE;
}

/* Keys are as wide as values. */
static void derive_delta(Recipe *r)
{
  if (!r->linear.heads)
    r->linear.heads = r->heads;
  if (!r->linear.head_dim)
    r->linear.head_dim = r->head_dim ? r->head_dim : 128;
  r->linear.state = r->linear.head_dim;
  if (r->longest)
    r->positions = r->longest;
}

static void derive_kimi(Recipe *r)
{
  derive_delta(r);
  r->linear.rank = r->linear.head_dim;
  if (r->parts || !r->layers)
    return;
  fill_parts(r, PART_LINEAR | PART_FEED, PART_LINEAR | PART_FEED);
  for (int i = 4; i < r->layers; i += 4)
    r->parts[i] = PART_ATTENTION | PART_FEED;
}

/* Linear attention, a window, linear attention, all, a window. */
static void derive_lara(Recipe *r)
{
  static const gboolean linear[] = { TRUE, FALSE, TRUE, FALSE, FALSE }, sliding[] = { FALSE, TRUE, FALSE, FALSE, TRUE };

  if (r->parts || !r->layers)
    return;
  r->parts = g_new(guint8, r->layers);
  r->sliding = g_new0(guint8, r->layers);
  for (int i = 0; i < r->layers; i++) {
    r->parts[i] = (guint8)(PART_FEED | (linear[i % 5] ? PART_LINEAR : PART_ATTENTION));
    r->sliding[i] = sliding[i % 5];
  }
}

static void derive_olmo_hybrid(Recipe *r)
{
  if (!r->linear.heads)
    r->linear.heads = r->heads;
  if (!r->linear.groups)
    r->linear.groups = r->heads;
  if (!r->linear.state && r->linear.groups)
    r->linear.state = (int)(0.75 * r->hidden / r->linear.groups);
  if (!r->linear.head_dim)
    r->linear.head_dim = 2 * r->linear.state;
}

/* Lightning attention has the heads of attention, each with keys of its own. */
static void derive_minimax(Recipe *r)
{
  fill_parts(r, PART_ATTENTION | PART_FEED, PART_LINEAR | PART_FEED);
  r->linear.heads = r->linear.groups = r->heads;
  r->linear.head_dim = r->head_dim || !r->heads ? r->head_dim : r->hidden / r->heads;
  r->linear.state = r->linear.head_dim;
}

/* All that its files tell are heads, and widths over hidden's. */
static void derive_xlstm(Recipe *r)
{
  gint64 width = (gint64)(r->hidden * r->ffn_multiplier);

  r->linear.heads = r->heads;
  r->heads = r->head_dim = 0;
  if (r->linear.heads) {
    r->linear.head_dim = (int)(r->hidden * r->value_factor) / r->linear.heads;
    r->linear.state = (int)(r->hidden * r->key_factor) / r->linear.heads;
  }
  width += width < r->hidden * r->ffn_multiplier;
  if (r->ffn_multiple)
    r->ffn = (int)MIN((width + r->ffn_multiple - 1) / r->ffn_multiple * r->ffn_multiple, MAX_FFN);
  fill_parts(r, PART_LINEAR | PART_FEED, PART_LINEAR | PART_FEED);
}

/* Its gates are made by as many blocks as attention has heads; half of a width is that of a feed-forward's gate. */
static void derive_recurrent_gemma(Recipe *r)
{
  r->linear.heads = r->linear_width ? r->linear_width : r->hidden;
  r->linear.blocks = r->heads;
  r->ffn /= 2;
  r->qkv_bias = r->attention_bias;
  r->attention_bias = FALSE;
}

static void derive_rwkv(Recipe *r)
{
  r->linear.heads = r->linear_width ? r->linear_width : r->hidden;
  if (!r->ffn)
    r->ffn = 4 * r->hidden;
  fill_parts(r, PART_LINEAR | PART_FEED, PART_LINEAR | PART_FEED);
}

#define MAMBA2 \
  .has_linear = TRUE, .linear.kind = LINEAR_MAMBA2, .linear.conv = 4, .linear.conv_bias = TRUE, .linear_expand = 2
/* What transformers' classes of Bamba and its like have. */
#define BAMBA                                                                                                  \
  .norm = NORM_RMSNORM, .mlp = MLP_SWIGLU, .final_norm = TRUE, MAMBA2, .norms = 2, .linear.heads = 128,        \
  .linear.groups = 1, .linear.state = 256, .linear.chunk = 256
/* Qwen3-Next: three layers of gated delta networks, then one of gated attention. */
#define QWEN_NEXT                                                                                           \
  LLAMA, .norms = 2, .positions = 32768, .head_dim = 256, .qk_norm = TRUE,                                  \
  .attention_gate = TRUE, .rotary_share = 0.25, .has_linear = TRUE, .linear.kind = LINEAR_GATED_DELTA,           \
  .linear.heads = 32, .linear.head_dim = 128, .linear.groups = 16, .linear.state = 128, .linear.conv = 4,   \
  .attention_every = 4
#define QWEN_NEXT_EXPERTS                                                                               \
  QWEN_NEXT, .kv_heads = 2, .shared_gate = TRUE, .needs_experts = TRUE, .expert_ffn = 512,              \
  .shared_ffn = 512, .balance_loss = 0.001

#define MAMBA1                                                                                               \
  .norm = NORM_RMSNORM, .norms = 2, .final_norm = TRUE, .position_kind = POSITIONS_NONE, .has_linear = TRUE, \
  .linear.kind = LINEAR_MAMBA1, .linear.state = 16, .linear.conv = 4, .linear.conv_bias = TRUE, .linear_expand = 2
#define SHORT_CONV .has_linear = TRUE, .linear.kind = LINEAR_SHORT_CONV
#define KIMI_DELTA                                                                                           \
  .norms = 2, .kv_lora_rank = 512, .nope_dim = 128, .rope_dim = 64, .v_head_dim = 128, .has_linear = TRUE,   \
  .linear.kind = LINEAR_KIMI_DELTA, .linear.conv = 4, .router_correction = TRUE,                               \
  .needs_experts = TRUE, .shared_experts = 1

static const Family rows[] = {
  {"qwen3_next", {QWEN_NEXT_EXPERTS, .experts = 512, .experts_per_token = 10}},
  {"qwen3_5_text", {QWEN_NEXT, .kv_heads = 4}},
  {"qwen3_5_moe_text", {QWEN_NEXT_EXPERTS, .experts = 256, .experts_per_token = 8}},
  {"mamba2",
   {MAMBA2, .single = TRUE, .norm = NORM_RMSNORM, .norms = 2, .final_norm = TRUE, .position_kind = POSITIONS_NONE,
    .positions = 1048576, /* its files bound none */
    .heads = 128, .head_dim = 64, .linear.groups = 8, .linear.state = 128, .linear.chunk = 256, .norm_epsilon = 1e-5},
   derive_mamba2},
  {"nemotron_h",
   {MAMBA2, .single = TRUE, .norm = NORM_RMSNORM, .mlp = MLP_RELU2, .norms = 2, .final_norm = TRUE,
    .position_kind = POSITIONS_NONE, .positions = 4096, .kv_heads = 8, .head_dim = 128, .linear.heads = 128,
    .linear.head_dim = 64, .linear.groups = 8, .linear.state = 128, .linear.chunk = 128, .experts = 8,
    .experts_per_token = 2, .expert_ffn = 7688, .shared_ffn = 7688, .router_correction = TRUE,
    .mtp_parts = PART_ATTENTION | PART_EXPERTS, .norm_epsilon = 1e-5},
   derive_nemotron_h},
  {"mamba",
   {MAMBA1, .single = TRUE, .positions = 1048576, .tied = TRUE, .norm_epsilon = 1e-5}, derive_mamba1},
  {"falcon_mamba",
   {MAMBA1, .single = TRUE, .positions = 1048576, .tied = TRUE, .linear.step_norms = TRUE,
    .linear.bare_step_norms = TRUE, .norm_epsilon = 1e-5},
   derive_mamba1},
  {"jamba",
   {MAMBA1, .mlp = MLP_SWIGLU, .positions = 262144, .kv_heads = 8, .linear.step_norms = TRUE, .experts = 16,
    .experts_per_token = 2, .attention_every = 8, .attention_offset = 4, .expert_every = 2, .expert_offset = 1,
    .balance_loss = 0.001},
   derive_jamba},
  {"falcon_h1",
   {BAMBA, .position_kind = POSITIONS_ROPE, .positions = 8192, .kv_heads = 8, .linear_width = 1024,
    .norm_epsilon = 1e-5},
   derive_falcon_h1},
  {"lfm2",
   {LLAMA, .norms = 2, .positions = 128000, .kv_heads = 8, .qk_norm = TRUE, .tied = TRUE, SHORT_CONV, .linear.conv = 3,
    .ffn_adjusted = TRUE, .ffn_multiple = 256, .ffn_multiplier = 1, .rope_theta = 1e6, .norm_epsilon = 1e-5},
   derive_lfm2},
  {"lfm2_moe",
   {LLAMA, .norms = 2, .positions = 128000, .kv_heads = 8, .qk_norm = TRUE, .tied = TRUE, SHORT_CONV, .linear.conv = 3,
    .experts = 32, .experts_per_token = 4, .expert_ffn = 1792, .first_dense = 2, .router_correction = TRUE,
    .needs_experts = TRUE, .rope_theta = 1e6, .norm_epsilon = 1e-5},
   derive_lfm2},
  {"lfm3",
   {LLAMA, .positions = 128000, .kv_heads = 4, .head_dim = 128, .qk_norm = TRUE, .tied = TRUE, .gate_of_head = TRUE,
    .norms_behind = TRUE, SHORT_CONV, .linear.conv = 7, .use_window = TRUE, .window = 256, .rope_theta = 1e6,
    .norm_epsilon = 1e-5},
   derive_lfm3},
  {"kimi_linear",
   {.norm = NORM_RMSNORM, .mlp = MLP_SWIGLU, .final_norm = TRUE, .position_kind = POSITIONS_NONE,
    .positions = 1048576, KIMI_DELTA, .linear.heads = 32, .linear.head_dim = 128, .experts = 256,
    .experts_per_token = 8, .expert_ffn = 1024, .first_dense = 1, .norm_epsilon = 1e-5},
   derive_kimi},
  {"bailing_hybrid",
   {LLAMA, .positions = 262144, KIMI_DELTA, .gate_of_head = TRUE, .attention_every = 6, .experts = 512,
    .experts_per_token = 8, .expert_ffn = 768, .first_dense = 2, .groups = 8, .groups_per_token = 4, .rope_theta = 6e6},
   derive_delta},
  {"lara_mini",
   {LLAMA, .norms = 2, .positions = 131072, .head_dim = 128, .kv_heads = 4, .qk_norm = TRUE, .tied = TRUE,
    .linear = {LINEAR_GATED_DELTA, .heads = 16, .head_dim = 128, .groups = 8, .state = 128, .conv = 4},
    .has_linear = TRUE, .use_window = TRUE, .window = 512, .needs_experts = TRUE, .experts = 128,
    .experts_per_token = 4, .expert_ffn = 512, .shared_ffn = 512, .balance_loss = 0.001},
   derive_lara},
  {"olmo_hybrid",
   {LLAMA, .norms = 2, .positions = 65536, .qk_norm = TRUE, .qk_norm_whole = TRUE, .has_linear = TRUE,
    .linear.kind = LINEAR_GATED_DELTA, .linear.conv = 4, .attention_every = 4},
   derive_olmo_hybrid},
  {"xlstm", /* its files bound no positions */
   {.norm = NORM_RMSNORM, .mlp = MLP_SWIGLU, .final_norm = TRUE, .norms = 2, .positions = 1048576,
    .position_kind = POSITIONS_NONE, .has_linear = TRUE, .linear.kind = LINEAR_MLSTM, .heads = 8,
    .key_factor = 0.5, .value_factor = 1, .ffn_multiplier = 2.667, .ffn_multiple = 64},
   derive_xlstm},
  {"recurrent_gemma",
   {LLAMA, .norms = 2, .positions = 1048576, .tied = TRUE, .out_bias = TRUE, .ffn_bias = TRUE, .use_window = TRUE,
    .window = 2048, .has_linear = TRUE, .linear.kind = LINEAR_RG_LRU, .linear.conv = 4, .linear.bias = TRUE,
    .linear.conv_bias = TRUE, .rotary_share = 0.5},
   derive_recurrent_gemma},
  {"rwkv",
   {.norm = NORM_LAYERNORM, .norm_bias = TRUE, .mlp = MLP_RELU2, .norms = 2, .final_norm = TRUE, .positions = 1024,
    .position_kind = POSITIONS_NONE, .embedding_norm = TRUE,
    .has_linear = TRUE, .linear.kind = LINEAR_WKV, .shift_mixes = 5, .gated_output = TRUE},
   derive_rwkv},
  {"bamba",
   {BAMBA, .position_kind = POSITIONS_ROPE, .positions = 262144, .kv_heads = 8, .rotary_share = 0.5,
    .norm_epsilon = 1e-5},
   derive_mamba},
  {"granitemoehybrid",
   {BAMBA, .position_kind = POSITIONS_NONE, .positions = 2048, .experts = 8, .experts_per_token = 2,
    .shared_ffn = 1024, .balance_loss = 0.001},
   derive_granite_hybrid},
  {"minimax",
   {LLAMA, .norms = 2, .positions = 131072, .has_linear = TRUE, .linear.kind = LINEAR_LIGHTNING, .needs_experts = TRUE,
    .experts = 8, .experts_per_token = 2, .rope_theta = 1e6, .norm_epsilon = 1e-5, .balance_loss = 0.001,
    .kv_heads = 8},
   derive_minimax},
};

const FamilyRows family_hybrids = {rows, G_N_ELEMENTS(rows)};
