/* Families of decoders with attention in each layer. */
#include "model/family_rows.h"

#include <string.h>

static void wide_ffn(Recipe *r)
{
  if (!r->ffn)
    r->ffn = r->hidden * 4;
}

/* Whether it says which layers have a window, as the file does not: all but one in `every`, first layer `whole`. */
static gboolean derive_windows(Recipe *r, int every, int whole)
{
  if (r->sliding || !r->layers)
    return FALSE;
  r->sliding = g_new0(guint8, r->layers);
  for (int i = 0; i < r->layers; i++)
    r->sliding[i] = i % every != whole;
  return TRUE;
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
  derive_windows(r, 2, 0);
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

/* Values are as wide as plain heads would be. */
static void derive_minicpm3(Recipe *r)
{
  if (!r->v_head_dim && r->heads)
    r->v_head_dim = r->hidden / r->heads;
}

/* Heads as wide as whole numbers allow. */
static void derive_glm_moe(Recipe *r)
{
  derive_glm(r);
  if (!r->head_dim && r->heads)
    r->head_dim = r->hidden / r->heads;
}

/* Layers with a window have twice as many keys. */
static void derive_mimo(Recipe *r)
{
  derive_glm(r);
  r->window_kv_heads = 2 * r->kv_heads;
  if (derive_windows(r, 6, 5))
    r->sliding[0] = FALSE;
}

/* The last layer sees all; numbers of global heads count where they make keys and values at once. */
static void derive_gemma4(Recipe *r)
{
  if (!r->layers)
    return;
  derive_windows(r, 6, 5);
  r->sliding[r->layers - 1] = FALSE;
  r->keyless = MIN(r->keyless, r->layers);
  if (r->full_key_is_value && !r->full_kv_heads)
    r->full_kv_heads = r->global_kv_heads;
}

/* Every fifth layer sees all. */
static void derive_gemma3n(Recipe *r)
{
  r->keyless = MIN(r->keyless, r->layers);
  derive_windows(r, 5, 4);
}

/* Every third layer sees all. */
static void derive_modernbert(Recipe *r)
{
  int every = MAX(r->window_pattern, 1);

  r->token_types = r->window_pattern = 0;
  r->window = r->local_radius / 2; /* local_attention is of both sides */
  derive_windows(r, every, 0);
}

/* Layers have a window where its file says so. */
static void derive_laguna(Recipe *r)
{
  r->use_window = r->sliding != NULL;
}

/* Shared experts are as wide as their key says, each. */
static void derive_dots3(Recipe *r)
{
  r->shared_ffn = (int)MIN((gint64)r->shared_ffn * r->shared_experts, MAX_FFN);
  r->shared_experts = 0;
}

/* Every other block has experts, beside a feed-forward that all tokens visit as they do shared ones. Of what tokens
 * visit as many are idle as an even choice takes of these. */
static void derive_longcat(Recipe *r)
{
  if (r->experts)
    r->experts_per_token = (int)MAX(((gint64)r->experts_per_token * r->experts + (r->experts + r->idle) / 2) /
                                    (r->experts + r->idle), 1);
  r->shared_ffn = r->ffn;
  r->shared_experts = r->first_dense = r->sparse_freq = 0;
  g_free(r->dense);
  r->dense = g_new0(guint8, r->layers);
  for (int i = 1; i < r->layers; i += 2)
    r->dense[i] = TRUE;
}

/* The first layer is dense where no list says which are. */
static void derive_hy_v4(Recipe *r)
{
  r->first_dense = r->dense ? 0 : 1;
  r->sparse_freq = 0;
}

/* One width is that of dense layers, or of experts beside one for these. */
static void derive_inkling(Recipe *r)
{
  if (!r->ffn_dense)
    return;
  r->expert_ffn = r->ffn;
  r->ffn = r->ffn_dense;
}

/* One width is that of experts, one that of dense layers. */
static void derive_minimax_m3(Recipe *r)
{
  r->expert_ffn = r->ffn;
  r->ffn = r->ffn_dense;
}

/* One width is that of experts, one that of dense layers; queries and keys are normed without weights. */
static void derive_llama4(Recipe *r)
{
  r->expert_ffn = r->shared_ffn = r->ffn;
  r->ffn = r->ffn_dense;
  r->qk_norm = FALSE;
}

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
#define GLM_ATTENTION .positions = 131072, .rotary_share = 0.5, .attention_bias = TRUE, .norm_epsilon = 1.5625e-7
#define GLM LLAMA, .norms = 2, GLM_ATTENTION, .head_dim = 128
#define GLM4V LLAMA, .norms = 4, GLM_ATTENTION
#define GLM4 GLM4V, .head_dim = 128
#define GEMMA3                                                                                 \
  LLAMA, .norms = 4, .hidden = 2304, .layers = 26, .heads = 8, .kv_heads = 4, .head_dim = 256, \
         .ffn = 9216, .vocab = 262208, .positions = 131072, .tied = TRUE, .qk_norm = TRUE,     \
         .use_window = TRUE, .window = 4096, .window_pattern = 6, .rope_theta = 1e6

#define DOTS3                                                                                                    \
  LLAMA, .norms = 2, .positions = 524288, .q_lora_rank = 1024, .kv_lora_rank = 512, .nope_dim = 128,                   \
  .rope_dim = 64, .v_head_dim = 128, .head_dim = 256, .index_heads = 64, .index_dim = 128, .index_top = 2048,          \
  .index_type = "indexed_attention", .latent_windows = TRUE, .use_window = TRUE, .window = 512,                        \
  .of_window = { 64, 64, 256, 1024, 1024, 192, 0, 128 }, .rope_key_norm = TRUE, .gate_of_head = TRUE,                  \
  .first_dense = 1, .shared_experts = 1, .shared_ffn = 1536, .expert_ffn = 1536, .router_correction = TRUE,            \
  .needs_experts = TRUE, .rope_theta = 8e7, .norm_epsilon = 1e-5

#define GEMMA4                                                                                                \
  LLAMA, .norms = 4, .hidden = 2304, .layers = 30, .heads = 8, .kv_heads = 4, .head_dim = 256, .ffn = 9216,   \
  .vocab = 262144, .tied = TRUE, .qk_norm = TRUE, .use_window = TRUE, .full_head_dim = 512, .rope_theta = 1e6

static const Family rows[] = {
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
  {"gpt_neox_japanese",
   {GPT, .position_kind = POSITIONS_ROPE, .positions = 2048, .tied = TRUE, .last_out_bias = TRUE}, derive_mpt},
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
    .position_kind = POSITIONS_ROPE, .positions = 2048, .rotary_share = 0.5, .head_bias = TRUE, .parallel = TRUE,
    .qk_norm_bias = TRUE}},
  {"starcoder2",
   {GPT, .position_kind = POSITIONS_ROPE, .positions = 4096, .bias = TRUE, .tied = TRUE, .use_window = TRUE,
    .kv_heads = 2}},
  {"nemotron",
   {.norm = NORM_LAYERNORM, .norm_bias = TRUE, .mlp = MLP_RELU2, .norms = 2, .final_norm = TRUE,
    .position_kind = POSITIONS_ROPE, .positions = 4096, .rotary_share = 0.5}},
  {"persimmon",
   {.norm = NORM_LAYERNORM, .norm_bias = TRUE, .mlp = MLP_RELU2, .norms = 2, .final_norm = TRUE, .bias = TRUE,
    .position_kind = POSITIONS_ROPE, .positions = 16384, .rotary_share = 0.5, .qk_norm = TRUE, .qk_norm_bias = TRUE}},
  {"llama", {LLAMA, .norms = 2, .positions = 2048}},
  {"llama4_text",
   {LLAMA, .norms = 2, .positions = 131072, .head_dim = 128, .kv_heads = 8, .ffn = 8192, .ffn_dense = 16384,
    .experts = 16, .experts_per_token = 1, .needs_experts = TRUE, .use_window = TRUE, .chunked = TRUE, .window = 8192,
    .window_pattern = 4, .nope_interval = 4, .rope_theta = 5e5, .norm_epsilon = 1e-5, .balance_loss = 0.001},
   derive_llama4},
  {"mistral", {LLAMA, .norms = 2, .positions = 131072, .use_window = TRUE, .window = 4096, .kv_heads = 8}},
  {"ministral", {LLAMA, .norms = 2, .positions = 131072, .use_window = TRUE, .window = 4096, .kv_heads = 8}},
  {"dbrx",
   {.norm = NORM_LAYERNORM, .mlp = MLP_SWIGLU, .norms = 2, .final_norm = TRUE, .position_kind = POSITIONS_ROPE,
    .positions = 2048, .needs_experts = TRUE, .nested_parts = TRUE, .kv_heads = 1, .ffn = 3584, .experts = 4,
    .experts_per_token = 1, .balance_loss = 0.01}},
  {"mixtral",
   {LLAMA, .norms = 2, .positions = 131072, .use_window = TRUE, .needs_experts = TRUE, .rope_theta = 1e6,
    .norm_epsilon = 1e-5, .balance_loss = 0.001, .kv_heads = 8}},
  {"qwen2", {LLAMA, QWEN, .qkv_bias = TRUE}},
  {"qwen2_moe",
   {LLAMA, QWEN, .qkv_bias = TRUE, .shared_gate = TRUE, .needs_experts = TRUE, .balance_loss = 0.001,
    .expert_ffn = 1408, .shared_ffn = 5632}},
  {"qwen3", {LLAMA, QWEN, .head_dim = 128, .qk_norm = TRUE}},
  {"qwen3_moe",
   {LLAMA, QWEN, .qk_norm = TRUE, .needs_experts = TRUE, .balance_loss = 0.001, .kv_heads = 4, .expert_ffn = 768}},
  {"qwen3_omni_moe_text",
   {LLAMA, QWEN, .qk_norm = TRUE, .needs_experts = TRUE, .balance_loss = 0.001, .kv_heads = 4, .expert_ffn = 768}},
  {"qwen2_5_omni_text", {LLAMA, QWEN, .qkv_bias = TRUE}},
  {"qwen2_vl", {LLAMA, QWEN, .qkv_bias = TRUE}},
  {"qwen2_vl_text", {LLAMA, QWEN, .qkv_bias = TRUE}},
  {"qwen2_5_vl", {LLAMA, QWEN, .qkv_bias = TRUE}},
  {"qwen2_5_vl_text", {LLAMA, QWEN, .qkv_bias = TRUE}},
  {"qwen3_vl_text", {LLAMA, .positions = 128000, .norms = 2, .head_dim = 128, .qk_norm = TRUE, .rope_theta = 5e6}},
  {"qwen3_vl_moe_text",
   {LLAMA, .positions = 128000, .norms = 2, .qk_norm = TRUE, .needs_experts = TRUE, .rope_theta = 5e6,
    .balance_loss = 0.001}},
  {"deepseek_v2", {DEEPSEEK, .positions = 2048, .expert_ffn = 1407, .shared_experts = 2}, derive_deepseek_v2},
  {"deepseek_v3",
   {DEEPSEEK, .positions = 4096, .expert_ffn = 2048, .shared_experts = 1, .first_dense = 3, .routed_scale = 2.5},
   derive_deepseek_v3},
  {"deepseek_v32",
   {DEEPSEEK, .positions = 4096, .index_heads = 64, .index_dim = 128, .index_top = 2048, .expert_ffn = 2048,
    .shared_experts = 1, .first_dense = 3},
   derive_deepseek_v3},
  {"glm_moe_dsa",
   {LLAMA, .norms = 2, .positions = 202752, .q_lora_rank = 2048, .kv_lora_rank = 512, .nope_dim = 192, .rope_dim = 64,
    .v_head_dim = 256, .index_heads = 32, .index_dim = 128, .index_top = 2048, .expert_ffn = 2048, .shared_experts = 1,
    .first_dense = 3, .needs_experts = TRUE, .norm_epsilon = 1e-5},
   derive_deepseek_v3},
  {"kimi_k2", {DEEPSEEK, .positions = 4096}, derive_deepseek_v3},
  {"olmo",
   {.norm = NORM_LAYERNORM, .bare_norms = TRUE, .mlp = MLP_SWIGLU, .norms = 2, .final_norm = TRUE,
    .position_kind = POSITIONS_ROPE, .positions = 2048}},
  {"nanochat",
   {.norm = NORM_RMSNORM, .bare_norms = TRUE, .mlp = MLP_RELU2, .norms = 2, .final_norm = TRUE, .qk_norm = TRUE,
    .embedding_norm = TRUE, .position_kind = POSITIONS_ROPE, .positions = 2048}},
  {"olmo2", {OLMO2}},
  {"olmo3", {OLMO2, .use_window = TRUE, .window = 4096, .window_pattern = 4, .rope_theta = 5e5}},
  {"olmoe",
   {LLAMA, .norms = 2, .positions = 4096, .qk_norm = TRUE, .qk_norm_whole = TRUE, .needs_experts = TRUE,
    .norm_epsilon = 1e-5, .balance_loss = 0.01}},
  {"minimax_m2",
   {LLAMA, .norms = 2, .positions = 196608, .qk_norm = TRUE, .qk_norm_whole = TRUE, .router_correction = TRUE,
    .needs_experts = TRUE, .rope_theta = 5e6, .balance_loss = 0.001, .kv_heads = 8, .head_dim = 128}},
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
  {"cohere_compass_text", {COHERE, .use_window = TRUE, .window = 4096}, derive_laguna},
  {"cohere2", {COHERE, .use_window = TRUE, .window = 4096, .window_pattern = 4}},
  {"smollm3",
   {LLAMA, .norms = 2, .positions = 32768, .tied = TRUE, .nope_interval = 4, .rope_theta = 2e6, .kv_heads = 4}},
  {"glm", {GLM, .kv_heads = 2}, derive_glm},
  {"glm4", {GLM4, .kv_heads = 2}, derive_glm},
  {"glm4v_text", {GLM4V, .kv_heads = 2, .qkv_bias = TRUE}, derive_glm_moe},
  {"glm4v_moe_text",
   {LLAMA, .norms = 2, .positions = 65536, .rotary_share = 0.5, .router_correction = TRUE, .needs_experts = TRUE,
    .shared_experts = 1, .first_dense = 1, .norm_epsilon = 1e-5, .kv_heads = 8, .expert_ffn = 1408,
    .attention_bias = TRUE, .balance_loss = 0.0001},
   derive_glm_moe},
  {"glm4_moe",
   {LLAMA, .norms = 2, .positions = 131072, .rotary_share = 0.5, .router_correction = TRUE, .needs_experts = TRUE,
    .shared_experts = 1, .first_dense = 1, .norm_epsilon = 1e-5, .kv_heads = 8, .expert_ffn = 1408},
   derive_glm_moe},
  {"seed_oss",
   {LLAMA, .norms = 2, .positions = 524288, .head_dim = 128, .attention_bias = TRUE, .kv_heads = 8}, derive_glm},
  {"cwm",
   {LLAMA, .norms = 2, .positions = 131072, .use_window = TRUE, .window = 8192, .rope_theta = 1e6, .kv_heads = 8,
    .head_dim = 128}},
  {"iquestcoder", {LLAMA, .norms = 2, .positions = 131072, .kv_heads = 8, .head_dim = 128}},
  {"internlm3", {LLAMA, .norms = 2, .positions = 32768, .kv_heads = 2, .head_dim = 128}},
  {"jais2",
   {.norm = NORM_LAYERNORM, .norm_bias = TRUE, .mlp = MLP_RELU2, .norms = 2, .final_norm = TRUE,
    .position_kind = POSITIONS_ROPE, .positions = 8192, .attention_bias = TRUE, .ffn_bias = TRUE}},
  {"mellum",
   {LLAMA, .norms = 2, .positions = 131072, .qk_norm = TRUE, .head_dim = 128, .use_window = TRUE, .window = 1024,
    .needs_experts = TRUE, .balance_loss = 0.001, .kv_heads = 4, .expert_ffn = 896}},
  {"solar_open",
   {LLAMA, .norms = 2, .positions = 131072, .head_dim = 128, .router_correction = TRUE, .needs_experts = TRUE,
    .norm_epsilon = 1e-5, .kv_heads = 8, .shared_experts = 1, .expert_ffn = 1280},
   derive_glm},
  {"granitemoeshared", {LLAMA, .norms = 2, .positions = 2048, .needs_experts = TRUE, .balance_loss = 0.001}},
  {"vaultgemma",
   {LLAMA, .norms = 2, .head_dim = 256, .positions = 8192, .tied = TRUE, .use_window = TRUE, .window = 4096,
    .window_pattern = 2, .kv_heads = 4}},
  {"phimoe",
   {.norm = NORM_LAYERNORM, .norm_bias = TRUE, .mlp = MLP_SWIGLU, .norms = 2, .final_norm = TRUE,
    .position_kind = POSITIONS_ROPE, .positions = 131072, .use_window = TRUE, .needs_experts = TRUE,
    .rope_theta = 1e6, .balance_loss = 0.001, .kv_heads = 8}},
  {"apertus",
   {.norm = NORM_RMSNORM, .mlp = MLP_XIELU, .norms = 2, .final_norm = TRUE, .qk_norm = TRUE,
    .position_kind = POSITIONS_ROPE, .positions = 65536, .rope_theta = 1.2e7, .norm_epsilon = 1e-5}},
  {"apertus1p5_text",
   {.norm = NORM_RMSNORM, .mlp = MLP_XIELU, .norms = 2, .final_norm = TRUE, .qk_norm = TRUE,
    .position_kind = POSITIONS_ROPE, .positions = 65536, .rope_theta = 1.2e7, .norm_epsilon = 1e-5}},
  {"beam",
   {LLAMA, .norms = 4, .positions = 8192, .head_dim = 128, .qk_norm = TRUE, .attention_gate = TRUE,
    .gate_bias = TRUE, .router_correction = TRUE, .needs_experts = TRUE, .use_window = TRUE, .window = 512,
    .kv_heads = 8, .expert_ffn = 2560, .first_dense = 3, .groups = 8, .groups_per_token = 4},
   derive_laguna},
  {"aria_text",
   {LLAMA, .norms = 2, .positions = 2048, .experts = 8, .experts_per_token = 2, .shared_experts = 2,
    .needs_experts = TRUE}},
  {"flint",
   {LLAMA, .norms = 2, .positions = 262144, .head_dim = 128, .qk_norm = TRUE, .sinks = TRUE, .use_window = TRUE,
    .window = 513, .needs_experts = TRUE, .expert_ffn = 512, .shared_ffn = 1024, .balance_loss = 0.0005,
    .kv_heads = 4, .first_dense = 2},
   derive_laguna},
  {"bitnet",
   {LLAMA, .norms = 2, .positions = 2048, .inner_norms = TRUE, .rope_theta = 5e5, .norm_epsilon = 1e-5, .kv_heads = 5}},
  {"axk1",
   {DEEPSEEK, .positions = 32768, .first_dense = 1, .shared_experts = 1, .norm_of_experts = TRUE, .expert_ffn = 2048},
   derive_deepseek_v3},
  {"axk2",
   {LLAMA, .norms = 2, .positions = 131072, .q_lora_rank = 384, .kv_lora_rank = 128, .nope_dim = 64, .rope_dim = 32,
    .v_head_dim = 64, .index_heads = 16, .index_dim = 128, .index_top = 2048, .attention_gate = TRUE,
    .gate_of_latent = TRUE, .norm_gates = TRUE, .norm_rank = 16, .first_dense = 1, .shared_experts = 1,
    .expert_ffn = 512, .router_correction = TRUE, .needs_experts = TRUE}},
  {"diffllama",
   {LLAMA, .norms = 2, .positions = 2048, .differential = TRUE, .norm_epsilon = 1e-5}},
  {"doge",
   {LLAMA, .norms = 2, .positions = 2048, .qk_norm = TRUE, .mask_keep = 2048, .residual_scales = 2,
    .use_window = TRUE}},
  {"dots3_note_text", {DOTS3}, derive_dots3},
  {"dots3_note", {DOTS3}, derive_dots3},
  {"hy_v4",
   {LLAMA, .norms = 2, .positions = 262144, .q_lora_rank = 1536, .kv_lora_rank = 512, .nope_dim = 192, .rope_dim = 64,
    .v_head_dim = 256, .index_heads = 16, .index_dim = 128, .index_top = 2048, .index_sharing = TRUE, .sinks = TRUE,
    .attention_gate = TRUE, .streams = 4, .first_dense = 1, .shared_experts = 1, .expert_ffn = 768, .clamped = TRUE,
    .router_correction = TRUE, .needs_experts = TRUE, .norm_epsilon = 1e-5},
   derive_hy_v4},
  {"inkling_text",
   {.norm = NORM_RMSNORM, .mlp = MLP_SWIGLU, .final_norm = TRUE, .norms = 2, .position_kind = POSITIONS_NONE,
    .positions = 131072, .heads = 64, .kv_heads = 8, .head_dim = 128, .qk_norm = TRUE, .embedding_norm = TRUE,
    .use_window = TRUE, .window = 512, .window_kv_heads = 16, .rel_dim = 16, .rel_extent = 1024, .conv = 4,
    .ffn = 24576, .expert_ffn = 3072, .experts = 256, .experts_per_token = 6, .shared_experts = 2,
    .router_correction = TRUE, .needs_experts = TRUE},
   derive_inkling},
  {"longcat_flash",
   {DEEPSEEK, .positions = 131072, .doubled = TRUE, .ffn = 12288, .expert_ffn = 2048, .experts = 512, .idle = 256,
    .experts_per_token = 12, .router_correction = TRUE, .rope_theta = 1e7, .norm_epsilon = 1e-5},
   derive_longcat},
  {"minimax_m3_vl_text",
   {LLAMA, .norms = 2, .positions = 524288, .head_dim = 128, .kv_heads = 4, .qk_norm = TRUE, .rotary_share = 0.5,
    .index_heads = 4, .index_dim = 128, .index_block = 128, .index_blocks = 16, .index_type = "minimax_m3_sparse",
    .ffn = 3072, .ffn_dense = 12288, .shared_ffn = 3072, .experts = 128, .experts_per_token = 4, .clamped = TRUE,
    .router_correction = TRUE, .needs_experts = TRUE, .rope_theta = 5e6, .balance_loss = 0.001},
   derive_minimax_m3},
  {"mimo_v2_flash",
   {LLAMA, .norms = 2, .positions = 131072, .head_dim = 192, .v_head_dim = 128, .rotary_share = 0.334,
    .first_dense = 1, .use_window = TRUE, .window = 129, .window_sinks = TRUE, .router_correction = TRUE,
    .needs_experts = TRUE, .rope_theta = 5e6, .norm_epsilon = 1e-5, .kv_heads = 4, .expert_ffn = 2048},
   derive_mimo},
  {"laguna",
   {LLAMA, .norms = 2, .positions = 131072, .head_dim = 128, .qk_norm = TRUE, .gate_of_head = TRUE,
    .router_correction = TRUE, .needs_experts = TRUE, .first_dense = 1, .use_window = TRUE, .window = 512,
    .rope_theta = 5e5, .balance_loss = 0.001, .kv_heads = 8, .expert_ffn = 512, .shared_ffn = 512},
   derive_laguna},
  {"arcee",
   {.norm = NORM_RMSNORM, .mlp = MLP_RELU2, .norms = 2, .final_norm = TRUE, .position_kind = POSITIONS_ROPE,
    .positions = 4096, .norm_epsilon = 1e-5}},
  {"helium",
   {LLAMA, .norms = 2, .positions = 4096, .head_dim = 128, .rope_theta = 1e5, .norm_epsilon = 1e-8}, derive_glm},
  {"ernie4_5",
   {LLAMA, .norms = 2, .positions = 131072, .head_dim = 128, .tied = TRUE, .rope_theta = 5e5, .norm_epsilon = 1e-5,
    .kv_heads = 2}},
  {"afmoe",
   {LLAMA, .norms = 4, .positions = 16384, .head_dim = 128, .qk_norm = TRUE, .attention_gate = TRUE,
    .router_correction = TRUE, .needs_experts = TRUE, .first_dense = 1, .use_window = TRUE, .window = 1024,
    .window_pattern = 4, .norm_epsilon = 1e-5, .expert_ffn = 1408, .shared_experts = 2}},
  {"cohere2_moe",
   {COHERE, .use_window = TRUE, .window = 4096, .window_pattern = 4, .needs_experts = TRUE, .head_dim = 128}},
  {"minicpm3",
   {LLAMA, .norms = 2, .positions = 32768, .q_lora_rank = 768, .kv_lora_rank = 256, .nope_dim = 64, .rope_dim = 32,
    .tied = TRUE, .norm_epsilon = 1e-5},
   derive_minicpm3},
  {"dots1",
   {LLAMA, .norms = 2, .positions = 2048, .qk_norm = TRUE, .router_correction = TRUE, .needs_experts = TRUE,
    .window_from = 62}},
  {"hunyuan_v1_dense", {LLAMA, .norms = 2, .positions = 2048, .qk_norm = TRUE, .norm_epsilon = 1e-5}},
  {"hunyuan_v1_moe",
   {LLAMA, .norms = 2, .positions = 2048, .qk_norm = TRUE, .needs_experts = TRUE, .norm_epsilon = 1e-5},
   derive_hunyuan},
  {"sarvam_moe",
   {LLAMA, .norms = 2, .positions = 131072, .head_dim = 64, .qk_norm = TRUE, .router_correction = TRUE,
    .needs_experts = TRUE, .shared_experts = 1, .first_dense = 1, .rope_theta = 8e6, .kv_heads = 4,
    .expert_ffn = 1024}},
  {"sarvam_mla",
   {LLAMA, .norms = 2, .positions = 4096, .kv_lora_rank = 512, .nope_dim = 128, .rope_dim = 64, .v_head_dim = 128,
    .needs_experts = TRUE, .shared_experts = 1, .first_dense = 1, .expert_ffn = 2048},
   derive_deepseek_v3},
  {"exaone", {LLAMA, .norms = 2, .positions = 4096, .norm_epsilon = 1e-5, .kv_heads = 8}},
  {"kolibri1",
   {LLAMA, .norms = 4, .positions = 262144, .head_dim = 128, .qk_norm = TRUE, .router_correction = TRUE,
    .needs_experts = TRUE, .use_window = TRUE, .window = 513, .window_pattern = 5, .kv_heads = 4, .shared_ffn = 512,
    .expert_ffn = 512}},
  {"ernie4_5_moe",
   {LLAMA, .norms = 2, .positions = 131072, .tied = TRUE, .router_correction = TRUE, .needs_experts = TRUE,
    .first_dense = 1, .experts = 64, .experts_per_token = 6, .shared_experts = 2, .rope_theta = 5e5,
    .norm_epsilon = 1e-5, .balance_loss = 0.001, .kv_heads = 4, .expert_ffn = 1536}},
  {"exaone_moe",
   {LLAMA, .norms = 2, .positions = 2048, .qk_norm = TRUE, .router_correction = TRUE, .needs_experts = TRUE,
    .shared_experts = 1, .use_window = TRUE, .window = 4096, .window_pattern = 4, .norm_epsilon = 1e-5,
    .expert_ffn = 1024, .first_dense = 1}},
  {"glm4_moe_lite",
   {LLAMA, .norms = 2, .positions = 202752, .q_lora_rank = 768, .kv_lora_rank = 512, .nope_dim = 192, .rope_dim = 64,
    .v_head_dim = 256, .expert_ffn = 1536, .shared_experts = 1, .first_dense = 1, .needs_experts = TRUE,
    .norm_epsilon = 1e-5},
   derive_deepseek_v3},
  {"hy_v3",
   {LLAMA, .norms = 2, .positions = 131072, .head_dim = 128, .qk_norm = TRUE, .router_correction = TRUE,
    .needs_experts = TRUE, .shared_experts = 1, .first_dense = 1, .norm_epsilon = 1e-5, .kv_heads = 8,
    .expert_ffn = 1536}},
  {"youtu",
   {LLAMA, .norms = 2, .positions = 131072, .q_lora_rank = 1536, .kv_lora_rank = 512, .nope_dim = 128, .rope_dim = 64,
    .v_head_dim = 128, .tied = TRUE}},
  {"granite_swa",
   {LLAMA, .norms = 2, .positions = 8192, .sinks = TRUE, .tied = TRUE, .use_window = TRUE, .window = 128,
    .norm_epsilon = 1e-5, .kv_heads = 4}},
  {"granitemoe_swa",
   {LLAMA, .norms = 2, .positions = 2048, .sinks = TRUE, .use_window = TRUE, .window = 128, .needs_experts = TRUE,
    .balance_loss = 0.001}},
  {"stablelm",
   {.norm = NORM_LAYERNORM, .norm_bias = TRUE, .mlp = MLP_SWIGLU, .final_norm = TRUE, .position_kind = POSITIONS_ROPE,
    .positions = 4096, .rotary_share = 0.25, .qk_norm_whole = TRUE},
   derive_stablelm},
  {"ministral3",
   {LLAMA, .norms = 2, .positions = 262144, .head_dim = 128, .rope_theta = 1e6, .norm_epsilon = 1e-5, .kv_heads = 8}},
  {"gemma", {LLAMA, .norms = 2, .head_dim = 256, .positions = 8192, .tied = TRUE}},
  {"gemma2",
   {LLAMA, .norms = 4, .head_dim = 256, .positions = 8192, .tied = TRUE, .use_window = TRUE, .window = 4096,
    .window_pattern = 2, .kv_heads = 4}},
  {"gemma3_text", {GEMMA3}},
  {"gemma3", {GEMMA3}, NULL, "text_config"},
  {"gemma4_text",
   {GEMMA4, .positions = 131072, .window = 512, .side = 256, .side_vocab = 262144}, derive_gemma4},
  {"gemma4_unified_text", {GEMMA4, .positions = 262144, .window = 1024}, derive_gemma4},
  {"gemma3n_text",
   {LLAMA, .norms = 4, .hidden = 2048, .layers = 35, .heads = 8, .kv_heads = 2, .head_dim = 256, .ffn = 16384,
    .vocab = 262400, .positions = 32768, .tied = TRUE, .qk_norm = TRUE, .use_window = TRUE, .window = 512, .side = 256,
    .side_vocab = 262144, .keyless = 15, .streams = 4, .stream_kind = STREAMS_ALTUP, .laurel = 64,
    .residual_scales = 1, .listed_ffn = TRUE, .rope_theta = 1e6},
   derive_gemma3n},
  {"modernbert-decoder",
   {.norm = NORM_LAYERNORM, .mlp = MLP_SWIGLU, .norms = 2, .final_norm = TRUE, .embedding_norm = TRUE,
    .first_unnormed = TRUE, .mlm_head = TRUE, .bare_mlm = TRUE, .head_bias = TRUE, .tied = TRUE,
    .position_kind = POSITIONS_ROPE, .positions = 8192, .use_window = TRUE, .local_radius = 128, .window_pattern = 3,
    .mlm_probability = 0.15, .rope_theta = 160000},
   derive_modernbert},
  {"phi4_multimodal",
   {LLAMA, .norms = 2, .positions = 131072, .use_window = TRUE, .norm_epsilon = 1e-5, .kv_heads = 8}},
  {"phi3", {LLAMA, .norms = 2, .positions = 4096, .use_window = TRUE, .norm_epsilon = 1e-5}},
  {"gpt_oss",
   {LLAMA, .norms = 2, .head_dim = 64, .positions = 131072, .use_window = TRUE, .window = 128, .window_pattern = 2,
    .attention_bias = TRUE, .ffn_bias = TRUE, .router_bias = TRUE, .sinks = TRUE, .clamped = TRUE,
    .needs_experts = TRUE, .rope_theta = 150000, .norm_epsilon = 1e-5, .balance_loss = 0.001, .kv_heads = 8}},
};

const FamilyRows family_decoders = {rows, G_N_ELEMENTS(rows)};
