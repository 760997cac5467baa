#include "model/family.h"

#include <string.h>

static void wide_ffn(Recipe *r)
{
  if (!r->ffn)
    r->ffn = r->hidden * 4;
}

static void derive_mpt(Recipe *r)
{
  r->ffn = r->hidden * (r->ffn_ratio ? r->ffn_ratio : 4);
}

/* Of attention the output alone has a bias; every other layer is local where its file does not say which are. */
static void derive_gpt_neo(Recipe *r)
{
  wide_ffn(r);
  r->out_bias = TRUE;
  if (r->sliding || !r->layers)
    return;
  r->sliding = g_new0(guint8, r->layers);
  for (int i = 1; i < r->layers; i += 2)
    r->sliding[i] = TRUE;
}

static void derive_bloom(Recipe *r)
{
  r->ffn = 0; /* files carry a stray n_inner */
  wide_ffn(r);
}

static void derive_opt(Recipe *r)
{
  r->final_norm = r->norm_before && !r->remove_final_norm;
}

/* Falcon-7B says 71 key-value heads and has one. */
static void derive_falcon(Recipe *r)
{
  wide_ffn(r);
  if (!r->new_decoder && r->multi_query)
    r->kv_heads = 1;
  int parallel_norms = r->parallel_norms ? r->parallel_norms : r->new_decoder ? 2 : 1;
  r->norms = r->parallel ? parallel_norms : 2;
  if (r->alibi)
    r->position_kind = POSITIONS_ALIBI;
}

static void derive_deepseek_v2(Recipe *r)
{
  r->router_correction = r->topk_method && strcmp(r->topk_method, "noaux_tc") == 0;
}

static void derive_deepseek_v3(Recipe *r)
{
  r->router_correction = !r->topk_method || strcmp(r->topk_method, "noaux_tc") == 0;
}

/* Its attention_bias is of queries, keys and values alone. */
static void derive_glm(Recipe *r)
{
  r->qkv_bias = r->qkv_bias || r->attention_bias;
  r->attention_bias = FALSE;
}

/* Its shared expert is as wide as the others. */
static void derive_hunyuan(Recipe *r)
{
  r->shared_ffn = r->ffn;
}

static void derive_hyperclovax(Recipe *r)
{
  r->norms = r->norms_behind ? 4 : 2;
}

static void derive_stablelm(Recipe *r)
{
  r->norms = r->parallel ? 1 : 2;
}

static void derive_bigcode(Recipe *r)
{
  wide_ffn(r);
  r->kv_heads = r->multi_query ? 1 : r->heads;
}

static void derive_t5(Recipe *r)
{
  if (r->ffn_projection && g_str_has_prefix(r->ffn_projection, "gated"))
    r->mlp = MLP_SWIGLU;
  r->encoder_layers = r->layers;
  if (r->layers && r->decoder_layers)
    r->layers = r->decoder_layers;
}

/* Gated unless its file says otherwise. */
static void derive_umt5(Recipe *r)
{
  if (!r->ffn_projection)
    r->mlp = MLP_SWIGLU;
  derive_t5(r);
}

static void derive_vit(Recipe *r)
{
  r->vocab = 0;
  r->tied = FALSE;
}

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

/* One width is that of experts, one that of dense layers; queries and keys are normed without weights. */
static void derive_llama4(Recipe *r)
{
  r->expert_ffn = r->shared_ffn = r->ffn;
  r->ffn = r->ffn_dense;
  r->qk_norm = FALSE;
}

/* LayerNorm, two matrices, biases everywhere. */
#define GPT \
  .norm = NORM_LAYERNORM, .norm_bias = TRUE, .mlp = MLP_GELU, .norms = 2, .final_norm = TRUE
/* RMSNorm, gated, rotary. */
#define LLAMA \
  .norm = NORM_RMSNORM, .mlp = MLP_SWIGLU, .position_kind = POSITIONS_ROPE, .final_norm = TRUE
/* RMSNorm, distances in buckets; gated or not by its configuration. */
#define T5                                                                                                       \
  .norm = NORM_RMSNORM, .mlp = MLP_GELU, .norms = 2, .final_norm = TRUE, .head_dim = 64, .buckets = 32,            \
  .position_kind = POSITIONS_RELATIVE, .positions = 512, .tied = TRUE, .dropout = 0.1
/* LayerNorm and biases everywhere, all tokens see all. */
#define BERT                                                                                         \
  .norm = NORM_LAYERNORM, .norm_bias = TRUE, .mlp = MLP_GELU, .norms = 2, .bias = TRUE,              \
  .position_kind = POSITIONS_LEARNED, .positions = 512, .tied = TRUE, .head_bias = TRUE,             \
  .bidirectional = TRUE, .token_types = 2, .mlm_head = TRUE, .mlm_probability = 0.15, .dropout = 0.1,     \
  .norm_epsilon = 1e-12
#define QWEN .window = 4096, .window_from = 28, .positions = 32768, .norms = 2
#define FALCON \
  GPT, .position_kind = POSITIONS_ROPE, .positions = 2048, .tied = TRUE, .parallel = TRUE
#define DEEPSEEK                                                                                \
  LLAMA, .norms = 2, .q_lora_rank = 1536, .kv_lora_rank = 512, .nope_dim = 128, .rope_dim = 64, \
         .v_head_dim = 128, .needs_experts = TRUE
#define OLMO2                                                                                        \
  LLAMA, .norms = 2, .positions = 2048, .qk_norm = TRUE, .qk_norm_whole = TRUE, .output_norms = TRUE, \
         .norm_epsilon = 1e-5
/* Without biases of norms; those of queries and keys, where there are any, have a weight for each head's. */
#define COHERE                                                                                          \
  .norm = NORM_LAYERNORM, .mlp = MLP_SWIGLU, .norms = 1, .final_norm = TRUE, .parallel = TRUE,          \
  .position_kind = POSITIONS_ROPE, .positions = 8192, .tied = TRUE, .qk_norm_whole = TRUE
#define GLM_ATTENTION \
  .head_dim = 128, .positions = 131072, .rotary_share = 0.5, .attention_bias = TRUE, .norm_epsilon = 1.5625e-7
#define GLM LLAMA, .norms = 2, GLM_ATTENTION
#define GLM4 LLAMA, .norms = 4, GLM_ATTENTION
#define GEMMA3                                                                                 \
  LLAMA, .norms = 4, .hidden = 2304, .layers = 26, .heads = 8, .kv_heads = 4, .head_dim = 256, \
         .ffn = 9216, .vocab = 262208, .positions = 131072, .tied = TRUE, .qk_norm = TRUE,     \
         .use_window = TRUE, .window = 4096, .window_pattern = 6, .rope_theta = 1e6

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

static const Family families[] = {
  {"gpt2",
   {GPT, .position_kind = POSITIONS_LEARNED, .positions = 1024, .tied = TRUE, .bias = TRUE,
    .dropout = 0.1},
   wide_ffn},
  {"gpt-sw3",
   {GPT, .position_kind = POSITIONS_LEARNED, .positions = 1024, .tied = TRUE, .bias = TRUE,
    .dropout = 0.1},
   wide_ffn},
  {"gpt_neo",
   {GPT, .position_kind = POSITIONS_LEARNED, .positions = 2048, .tied = TRUE, .ffn_bias = TRUE, .window = 256},
   derive_gpt_neo},
  {"openai-gpt",
   {.norm = NORM_LAYERNORM, .norm_bias = TRUE, .mlp = MLP_GELU, .norms = 2, .bias = TRUE, .post_norm = TRUE,
    .position_kind = POSITIONS_LEARNED, .positions = 512, .tied = TRUE, .dropout = 0.1},
   wide_ffn},
  {"biogpt",
   {GPT, .position_kind = POSITIONS_LEARNED, .positions = 1024, .extra_rows = 2, .tied = TRUE, .bias = TRUE,
    .dropout = 0.1}},
  {"xglm", /* sines for positions, which are no weights */
   {GPT, .position_kind = POSITIONS_NONE, .positions = 2048, .tied = TRUE, .bias = TRUE, .dropout = 0.1}},
  {"ctrl",
   {GPT, .position_kind = POSITIONS_NONE, .positions = 256, .tied = TRUE, .bias = TRUE, .head_bias = TRUE,
    .dropout = 0.1}},
  {"mpt",
   {.norm = NORM_LAYERNORM, .mlp = MLP_GELU, .norms = 2, .final_norm = TRUE, .position_kind = POSITIONS_ALIBI,
    .positions = 2048, .tied = TRUE},
   derive_mpt},
  {"gpt_neox",
   {GPT, .position_kind = POSITIONS_ROPE, .positions = 2048, .rotary_share = 0.25, .attention_bias = TRUE,
    .ffn_bias = TRUE, .parallel = TRUE}},
  {"opt",
   {GPT, .position_kind = POSITIONS_LEARNED, .positions = 2048, .extra_rows = 2, .tied = TRUE,
    .bias = TRUE, .norm_before = TRUE, .dropout = 0.1},
   derive_opt},
  {"bloom",
   {GPT, .position_kind = POSITIONS_ALIBI, .positions = 2048, .tied = TRUE, .bias = TRUE,
    .embedding_norm = TRUE},
   derive_bloom},
  {"falcon", {FALCON, .multi_query = TRUE}, derive_falcon},
  {"RefinedWeb", {FALCON, .new_decoder = TRUE}, derive_falcon},
  {"RefinedWebModel", {FALCON}, derive_falcon},
  {"gptj",
   {.norm = NORM_LAYERNORM, .norm_bias = TRUE, .mlp = MLP_GELU, .norms = 1, .final_norm = TRUE,
    .position_kind = POSITIONS_ROPE, .positions = 2048, .ffn_bias = TRUE, .head_bias = TRUE,
    .parallel = TRUE},
   wide_ffn},
  {"codegen",
   {.norm = NORM_LAYERNORM, .norm_bias = TRUE, .mlp = MLP_GELU, .norms = 1, .final_norm = TRUE,
    .position_kind = POSITIONS_ROPE, .positions = 2048, .ffn_bias = TRUE, .head_bias = TRUE,
    .parallel = TRUE},
   wide_ffn},
  {"gpt_bigcode",
   {GPT, .position_kind = POSITIONS_LEARNED, .positions = 1024, .tied = TRUE, .bias = TRUE, .multi_query = TRUE,
    .dropout = 0.1},
   derive_bigcode},
  {"phi",
   {.norm = NORM_LAYERNORM, .norm_bias = TRUE, .mlp = MLP_GELU, .norms = 1, .final_norm = TRUE, .bias = TRUE,
    .position_kind = POSITIONS_ROPE, .positions = 2048, .rotary_share = 0.5, .head_bias = TRUE, .parallel = TRUE}},
  {"starcoder2",
   {GPT, .position_kind = POSITIONS_ROPE, .positions = 4096, .bias = TRUE, .tied = TRUE, .use_window = TRUE}},
  {"nemotron",
   {.norm = NORM_LAYERNORM, .norm_bias = TRUE, .mlp = MLP_RELU2, .norms = 2, .final_norm = TRUE,
    .position_kind = POSITIONS_ROPE, .positions = 4096, .rotary_share = 0.5}},
  {"bert", {BERT, .embedding_norm = TRUE, .post_norm = TRUE}},
  {"megatron-bert", {BERT, .final_norm = TRUE}},
  {"roberta", {BERT, .embedding_norm = TRUE, .post_norm = TRUE}},
  {"ernie", {BERT, .embedding_norm = TRUE, .post_norm = TRUE}},
  {"data2vec-text", {BERT, .embedding_norm = TRUE, .post_norm = TRUE}},
  {"roberta-prelayernorm", {BERT, .embedding_norm = TRUE, .final_norm = TRUE}},
  {"camembert", {BERT, .embedding_norm = TRUE, .post_norm = TRUE}},
  {"xlm-roberta", {BERT, .embedding_norm = TRUE, .post_norm = TRUE}},
  {"xlm-roberta-xl", {BERT, .final_norm = TRUE}},
  {"llama", {LLAMA, .norms = 2, .positions = 2048}},
  {"llama4_text",
   {LLAMA, .norms = 2, .positions = 131072, .head_dim = 128, .kv_heads = 8, .ffn = 8192, .ffn_dense = 16384,
    .experts = 16, .experts_per_token = 1, .needs_experts = TRUE, .use_window = TRUE, .chunked = TRUE, .window = 8192,
    .window_pattern = 4, .nope_interval = 4, .rope_theta = 5e5, .norm_epsilon = 1e-5, .balance_loss = 0.001},
   derive_llama4},
  {"mistral", {LLAMA, .norms = 2, .positions = 131072, .use_window = TRUE, .window = 4096}},
  {"mixtral",
   {LLAMA, .norms = 2, .positions = 131072, .use_window = TRUE, .needs_experts = TRUE, .rope_theta = 1e6,
    .norm_epsilon = 1e-5, .balance_loss = 0.001}},
  {"qwen2", {LLAMA, QWEN, .qkv_bias = TRUE}},
  {"qwen2_moe",
   {LLAMA, QWEN, .qkv_bias = TRUE, .shared_gate = TRUE, .needs_experts = TRUE, .balance_loss = 0.001}},
  {"qwen3", {LLAMA, QWEN, .head_dim = 128, .qk_norm = TRUE}},
  {"qwen3_moe", {LLAMA, QWEN, .qk_norm = TRUE, .needs_experts = TRUE, .balance_loss = 0.001}},
  {"qwen2_vl", {LLAMA, QWEN, .qkv_bias = TRUE}},
  {"qwen2_vl_text", {LLAMA, QWEN, .qkv_bias = TRUE}},
  {"qwen2_5_vl", {LLAMA, QWEN, .qkv_bias = TRUE}},
  {"qwen2_5_vl_text", {LLAMA, QWEN, .qkv_bias = TRUE}},
  {"qwen3_vl_text", {LLAMA, .positions = 128000, .norms = 2, .head_dim = 128, .qk_norm = TRUE, .rope_theta = 5e6}},
  {"qwen3_vl_moe_text",
   {LLAMA, .positions = 128000, .norms = 2, .qk_norm = TRUE, .needs_experts = TRUE, .rope_theta = 5e6,
    .balance_loss = 0.001}},
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
  {"deepseek_v2", {DEEPSEEK, .positions = 2048}, derive_deepseek_v2},
  {"deepseek_v3", {DEEPSEEK, .positions = 4096}, derive_deepseek_v3},
  {"deepseek_v32",
   {DEEPSEEK, .positions = 4096, .index_heads = 64, .index_dim = 128, .index_top = 2048},
   derive_deepseek_v3},
  {"glm_moe_dsa",
   {LLAMA, .norms = 2, .positions = 202752, .q_lora_rank = 2048, .kv_lora_rank = 512, .nope_dim = 192, .rope_dim = 64,
    .v_head_dim = 256, .index_heads = 32, .index_dim = 128, .index_top = 2048, .expert_ffn = 2048, .shared_experts = 1,
    .first_dense = 3, .needs_experts = TRUE, .norm_epsilon = 1e-5},
   derive_deepseek_v3},
  {"kimi_k2", {DEEPSEEK, .positions = 4096}, derive_deepseek_v3},
  {"olmo2", {OLMO2}},
  {"olmo3", {OLMO2, .use_window = TRUE, .window = 4096, .window_pattern = 4, .rope_theta = 5e5}},
  {"olmoe",
   {LLAMA, .norms = 2, .positions = 4096, .qk_norm = TRUE, .qk_norm_whole = TRUE, .needs_experts = TRUE,
    .norm_epsilon = 1e-5, .balance_loss = 0.01}},
  {"minimax_m2",
   {LLAMA, .norms = 2, .positions = 196608, .qk_norm = TRUE, .qk_norm_whole = TRUE, .router_correction = TRUE,
    .needs_experts = TRUE, .rope_theta = 5e6, .balance_loss = 0.001}},
  {"exaone4",
   {LLAMA, .norms = 2, .positions = 2048, .qk_norm = TRUE, .output_norms = TRUE, .use_window = TRUE, .window = 4096,
    .window_pattern = 4, .norm_epsilon = 1e-5}},
  {"flex_olmo",
   {LLAMA, .norms = 2, .positions = 4096, .qk_norm = TRUE, .qk_norm_whole = TRUE, .output_norms = TRUE,
    .needs_experts = TRUE, .rope_theta = 5e5, .balance_loss = 0.01}},
  {"granite", {LLAMA, .norms = 2, .positions = 2048}},
  {"hyperclovax", {LLAMA, .norms = 4, .norms_behind = TRUE, .positions = 2048}, derive_hyperclovax},
  {"granitemoe", {LLAMA, .norms = 2, .positions = 2048, .needs_experts = TRUE, .balance_loss = 0.001}},
  {"cohere", {COHERE, .rope_theta = 5e5}},
  {"cohere2", {COHERE, .use_window = TRUE, .window = 4096, .window_pattern = 4}},
  {"smollm3", {LLAMA, .norms = 2, .positions = 32768, .tied = TRUE, .nope_interval = 4, .rope_theta = 2e6}},
  {"glm", {GLM}, derive_glm},
  {"glm4", {GLM4}, derive_glm},
  {"glm4_moe",
   {LLAMA, .norms = 2, .positions = 131072, .rotary_share = 0.5, .router_correction = TRUE, .needs_experts = TRUE,
    .norm_epsilon = 1e-5},
   derive_glm},
  {"seed_oss", {LLAMA, .norms = 2, .positions = 524288, .head_dim = 128, .attention_bias = TRUE}, derive_glm},
  {"cwm", {LLAMA, .norms = 2, .positions = 131072, .use_window = TRUE, .window = 8192, .rope_theta = 1e6}},
  {"iquestcoder", {LLAMA, .norms = 2, .positions = 131072}},
  {"internlm3", {LLAMA, .norms = 2, .positions = 32768}},
  {"jais2",
   {.norm = NORM_LAYERNORM, .norm_bias = TRUE, .mlp = MLP_RELU2, .norms = 2, .final_norm = TRUE,
    .position_kind = POSITIONS_ROPE, .positions = 8192, .attention_bias = TRUE, .ffn_bias = TRUE}},
  {"mellum",
   {LLAMA, .norms = 2, .positions = 131072, .qk_norm = TRUE, .head_dim = 128, .use_window = TRUE, .window = 1024,
    .needs_experts = TRUE, .balance_loss = 0.001}},
  {"solar_open",
   {LLAMA, .norms = 2, .positions = 131072, .head_dim = 128, .router_correction = TRUE, .needs_experts = TRUE,
    .norm_epsilon = 1e-5},
   derive_glm},
  {"granitemoeshared", {LLAMA, .norms = 2, .positions = 2048, .needs_experts = TRUE, .balance_loss = 0.001}},
  {"vaultgemma",
   {LLAMA, .norms = 2, .head_dim = 256, .positions = 8192, .tied = TRUE, .use_window = TRUE, .window = 4096,
    .window_pattern = 2}},
  {"phimoe",
   {.norm = NORM_LAYERNORM, .norm_bias = TRUE, .mlp = MLP_SWIGLU, .norms = 2, .final_norm = TRUE,
    .position_kind = POSITIONS_ROPE, .positions = 131072, .use_window = TRUE, .needs_experts = TRUE,
    .rope_theta = 1e6, .balance_loss = 0.001}},
  {"arcee",
   {.norm = NORM_RMSNORM, .mlp = MLP_RELU2, .norms = 2, .final_norm = TRUE, .position_kind = POSITIONS_ROPE,
    .positions = 4096, .norm_epsilon = 1e-5}},
  {"helium", {LLAMA, .norms = 2, .positions = 4096, .head_dim = 128, .rope_theta = 1e5, .norm_epsilon = 1e-8}},
  {"ernie4_5",
   {LLAMA, .norms = 2, .positions = 131072, .head_dim = 128, .tied = TRUE, .rope_theta = 5e5, .norm_epsilon = 1e-5}},
  {"afmoe",
   {LLAMA, .norms = 4, .positions = 16384, .head_dim = 128, .qk_norm = TRUE, .attention_gate = TRUE,
    .router_correction = TRUE, .needs_experts = TRUE, .first_dense = 1, .use_window = TRUE, .window = 1024,
    .window_pattern = 4, .norm_epsilon = 1e-5}},
  {"cohere2_moe",
   {COHERE, .use_window = TRUE, .window = 4096, .window_pattern = 4, .needs_experts = TRUE}},
  {"minicpm3",
   {LLAMA, .norms = 2, .positions = 32768, .q_lora_rank = 768, .kv_lora_rank = 256, .nope_dim = 64, .rope_dim = 32,
    .v_head_dim = 64, .tied = TRUE, .norm_epsilon = 1e-5}},
  {"dots1",
   {LLAMA, .norms = 2, .positions = 2048, .qk_norm = TRUE, .router_correction = TRUE, .needs_experts = TRUE,
    .window_from = 62}},
  {"hunyuan_v1_dense", {LLAMA, .norms = 2, .positions = 2048, .qk_norm = TRUE, .norm_epsilon = 1e-5}},
  {"hunyuan_v1_moe",
   {LLAMA, .norms = 2, .positions = 2048, .qk_norm = TRUE, .needs_experts = TRUE, .norm_epsilon = 1e-5},
   derive_hunyuan},
  {"sarvam_moe",
   {LLAMA, .norms = 2, .positions = 131072, .head_dim = 64, .qk_norm = TRUE, .router_correction = TRUE,
    .needs_experts = TRUE, .shared_experts = 1, .first_dense = 1, .rope_theta = 8e6}},
  {"sarvam_mla",
   {LLAMA, .norms = 2, .positions = 4096, .kv_lora_rank = 512, .nope_dim = 128, .rope_dim = 64, .v_head_dim = 128,
    .needs_experts = TRUE, .shared_experts = 1, .first_dense = 1},
   derive_deepseek_v3},
  {"exaone", {LLAMA, .norms = 2, .positions = 4096, .norm_epsilon = 1e-5}},
  {"kolibri1",
   {LLAMA, .norms = 4, .positions = 262144, .head_dim = 128, .qk_norm = TRUE, .router_correction = TRUE,
    .needs_experts = TRUE, .use_window = TRUE, .window = 513, .window_pattern = 5}},
  {"ernie4_5_moe",
   {LLAMA, .norms = 2, .positions = 131072, .tied = TRUE, .router_correction = TRUE, .needs_experts = TRUE,
    .first_dense = 1, .experts = 64, .experts_per_token = 6, .shared_experts = 2, .rope_theta = 5e5,
    .norm_epsilon = 1e-5, .balance_loss = 0.001}},
  {"exaone_moe",
   {LLAMA, .norms = 2, .positions = 2048, .qk_norm = TRUE, .router_correction = TRUE, .needs_experts = TRUE,
    .shared_experts = 1, .use_window = TRUE, .window = 4096, .window_pattern = 4, .norm_epsilon = 1e-5}},
  {"glm4_moe_lite",
   {LLAMA, .norms = 2, .positions = 202752, .q_lora_rank = 768, .kv_lora_rank = 512, .nope_dim = 192, .rope_dim = 64,
    .v_head_dim = 256, .expert_ffn = 1536, .shared_experts = 1, .first_dense = 1, .needs_experts = TRUE,
    .norm_epsilon = 1e-5},
   derive_deepseek_v3},
  {"hy_v3",
   {LLAMA, .norms = 2, .positions = 131072, .head_dim = 128, .qk_norm = TRUE, .router_correction = TRUE,
    .needs_experts = TRUE, .shared_experts = 1, .first_dense = 1, .norm_epsilon = 1e-5}},
  {"youtu",
   {LLAMA, .norms = 2, .positions = 131072, .q_lora_rank = 1536, .kv_lora_rank = 512, .nope_dim = 128, .rope_dim = 64,
    .v_head_dim = 128, .tied = TRUE}},
  {"granite_swa",
   {LLAMA, .norms = 2, .positions = 8192, .sinks = TRUE, .tied = TRUE, .use_window = TRUE, .window = 128,
    .norm_epsilon = 1e-5}},
  {"granitemoe_swa",
   {LLAMA, .norms = 2, .positions = 2048, .sinks = TRUE, .use_window = TRUE, .window = 128, .needs_experts = TRUE,
    .balance_loss = 0.001}},
  {"stablelm",
   {.norm = NORM_LAYERNORM, .norm_bias = TRUE, .mlp = MLP_SWIGLU, .final_norm = TRUE, .position_kind = POSITIONS_ROPE,
    .positions = 4096, .rotary_share = 0.25},
   derive_stablelm},
  {"ministral3", {LLAMA, .norms = 2, .positions = 262144, .head_dim = 128, .rope_theta = 1e6, .norm_epsilon = 1e-5}},
  {"t5", {T5}, derive_t5},
  {"mt5", {T5}, derive_t5},
  {"umt5", {T5, .buckets_each = TRUE}, derive_umt5},
  {"vit",
   {GPT, .position_kind = POSITIONS_LEARNED, .image = 224, .patch = 16, .channels = 3,
    .classes = 1000, .norm_epsilon = 1e-12, .qkv_bias = TRUE, .out_bias = TRUE, .ffn_bias = TRUE, .head_bias = TRUE,
    .bidirectional = TRUE},
   derive_vit},
  {"gemma", {LLAMA, .norms = 2, .head_dim = 256, .positions = 8192, .tied = TRUE}},
  {"gemma2",
   {LLAMA, .norms = 4, .head_dim = 256, .positions = 8192, .tied = TRUE, .use_window = TRUE,
    .window = 4096, .window_pattern = 2}},
  {"gemma3_text", {GEMMA3}},
  {"gemma3", {GEMMA3}, NULL, "text_config"},
  {"phi3", {LLAMA, .norms = 2, .positions = 4096, .use_window = TRUE, .norm_epsilon = 1e-5}},
  {"gpt_oss",
   {LLAMA, .norms = 2, .head_dim = 64, .positions = 131072, .use_window = TRUE, .window = 128,
    .window_pattern = 2, .attention_bias = TRUE, .ffn_bias = TRUE, .router_bias = TRUE,
    .sinks = TRUE, .clamped = TRUE, .needs_experts = TRUE, .rope_theta = 150000, .norm_epsilon = 1e-5, .balance_loss = 0.001}},
};

const Family *family_find(const char *model_type)
{
  for (gsize i = 0; i < G_N_ELEMENTS(families); i++)
    if (strcmp(families[i].model_type, model_type) == 0)
      return &families[i];
  return NULL;
}

#define SELECTIVE_SCANS "layers of Mamba-1, whose selective scans have no cost here"
#define LINEAR "layers of linear attention of another kind than those that have a cost here"
#define RECURRENT "recurrent layers, which have no cost here"
#define LAYER_EMBEDDINGS "embeddings for each layer, which have no cost here"
#define CONVOLUTIONS "convolutions beside attention, which have no cost here"
#define PLAIN_NORMS "norms without weights, which have no cost here"
#define TOWERS "parts for images or sound that a decoder of text lacks"

/* Families of another kind, and what they have that is not simulated. */
static const struct {
  const char *model_type, *reason;
} others[] = {
  {"mamba", SELECTIVE_SCANS}, {"falcon_mamba", SELECTIVE_SCANS}, {"jamba", SELECTIVE_SCANS},
  {"zamba", SELECTIVE_SCANS}, {"zamba2", "blocks that several layers share, which have no cost here"},
  {"falcon_h1", "state spaces beside attention in one layer, which have no cost here"},
  {"xlstm", RECURRENT}, {"recurrent_gemma", RECURRENT}, {"rwkv", RECURRENT},
  {"kimi_linear", LINEAR}, {"olmo_hybrid", LINEAR}, {"bailing_hybrid", LINEAR},
  {"lfm2", CONVOLUTIONS}, {"lfm2_moe", CONVOLUTIONS}, {"lfm3", CONVOLUTIONS},
  {"olmo", PLAIN_NORMS}, {"nanochat", PLAIN_NORMS},
  {"apertus", "an activation with weights of its own, which has no cost here"},
  {"mimo_v2_flash", "values of another width than keys, which only latent attention has here"},
  {"longcat_flash", "two attentions in a layer and experts that do nothing, which have no cost here"},
  {"laguna", "gates of one value a head behind attention, which have no cost here"},
  {"persimmon", "norms of queries and keys with biases, which have no cost here"},
  {"deepseek_v4", "compressed attention, which has no cost here"},
  {"gemma3n", LAYER_EMBEDDINGS},
  {"gemma3n_text", LAYER_EMBEDDINGS},
  {"gemma4", LAYER_EMBEDDINGS},
  {"gemma4_text", LAYER_EMBEDDINGS},
  {"whisper", TOWERS}, {"wav2vec2", TOWERS}, {"hubert", TOWERS}, {"clip", TOWERS}, {"siglip", TOWERS},
  {"mllama", TOWERS}, {"blip-2", TOWERS}, {"idefics", TOWERS},
};

const char *family_reason(const char *model_type)
{
  for (gsize i = 0; i < G_N_ELEMENTS(others); i++)
    if (strcmp(others[i].model_type, model_type) == 0)
      return others[i].reason;
  return NULL;
}

const char *family_near(const char *model_type)
{
  const char *names[G_N_ELEMENTS(families) + 1] = { NULL };

  for (gsize i = 0; i < G_N_ELEMENTS(families); i++)
    names[i] = families[i].model_type;
  const char *nearest = names_nearest(names, model_type);
  return names_near(nearest, model_type) ? nearest : NULL;
}

char *family_list(void)
{
  GString *text = g_string_new(NULL);
  for (gsize i = 0; i < G_N_ELEMENTS(families); i++)
    g_string_append_printf(text, "%s%s", i ? ", " : "", families[i].model_type);
  return g_string_free(text, FALSE);
}
