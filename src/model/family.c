#include "model/family.h"

#include <string.h>

static void wide_ffn(Recipe *r)
{
  if (!r->ffn)
    r->ffn = r->hidden * 4;
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

static void derive_t5(Recipe *r)
{
  if (r->ffn_projection && g_str_has_prefix(r->ffn_projection, "gated"))
    r->mlp = MLP_SWIGLU;
  r->encoder_layers = r->layers;
  if (r->layers && r->decoder_layers)
    r->layers = r->decoder_layers;
}

static void derive_vit(Recipe *r)
{
  r->vocab = 0;
  r->tied = FALSE;
}

/* LayerNorm, two matrices, biases everywhere. */
#define GPT \
  .norm = NORM_LAYERNORM, .norm_bias = TRUE, .mlp = MLP_GELU, .norms = 2, .final_norm = TRUE
/* RMSNorm, gated, rotary. */
#define LLAMA \
  .norm = NORM_RMSNORM, .mlp = MLP_SWIGLU, .position_kind = POSITIONS_ROPE, .final_norm = TRUE
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
#define GEMMA3                                                                                 \
  LLAMA, .norms = 4, .hidden = 2304, .layers = 26, .heads = 8, .kv_heads = 4, .head_dim = 256, \
         .ffn = 9216, .vocab = 262208, .positions = 131072, .tied = TRUE, .qk_norm = TRUE,     \
         .use_window = TRUE, .window = 4096, .window_pattern = 6, .rope_theta = 1e6

static const Family families[] = {
  {"gpt2",
   {GPT, .position_kind = POSITIONS_LEARNED, .positions = 1024, .tied = TRUE, .bias = TRUE,
    .dropout = 0.1},
   wide_ffn},
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
  {"bert", {BERT, .embedding_norm = TRUE, .post_norm = TRUE}},
  {"megatron-bert", {BERT, .final_norm = TRUE}},
  {"llama", {LLAMA, .norms = 2, .positions = 2048}},
  {"mistral", {LLAMA, .norms = 2, .positions = 131072, .use_window = TRUE, .window = 4096}},
  {"mixtral",
   {LLAMA, .norms = 2, .positions = 131072, .use_window = TRUE, .needs_experts = TRUE, .rope_theta = 1e6,
    .norm_epsilon = 1e-5, .balance_loss = 0.001}},
  {"qwen2", {LLAMA, QWEN, .qkv_bias = TRUE}},
  {"qwen2_moe",
   {LLAMA, QWEN, .qkv_bias = TRUE, .shared_gate = TRUE, .needs_experts = TRUE, .balance_loss = 0.001}},
  {"qwen3", {LLAMA, QWEN, .head_dim = 128, .qk_norm = TRUE}},
  {"qwen3_moe", {LLAMA, QWEN, .qk_norm = TRUE, .needs_experts = TRUE, .balance_loss = 0.001}},
  {"deepseek_v2", {DEEPSEEK, .positions = 2048}, derive_deepseek_v2},
  {"deepseek_v3", {DEEPSEEK, .positions = 4096}, derive_deepseek_v3},
  {"t5",
   {.norm = NORM_RMSNORM,
    .mlp = MLP_GELU,
    .norms = 2,
    .final_norm = TRUE,
    .head_dim = 64,
    .buckets = 32,
    .position_kind = POSITIONS_RELATIVE,
    .positions = 512,
    .tied = TRUE,
    .dropout = 0.1},
   derive_t5},
  {"vit",
   {GPT, .position_kind = POSITIONS_LEARNED, .image = 224, .patch = 16, .channels = 3,
    .classes = 1000, .norm_epsilon = 1e-12, .qkv_bias = TRUE, .out_bias = TRUE, .ffn_bias = TRUE, .head_bias = TRUE,
    .bidirectional = TRUE},
   derive_vit},
  {"gemma2",
   {LLAMA, .norms = 4, .head_dim = 256, .positions = 8192, .tied = TRUE, .use_window = TRUE,
    .window = 4096, .window_pattern = 2}},
  {"gemma3_text", {GEMMA3}},
  {"gemma3", {GEMMA3}, NULL, "text_config"},
  {"phi3", {LLAMA, .norms = 2, .positions = 4096, .use_window = TRUE, .norm_epsilon = 1e-5}},
  {"gpt_oss",
   {LLAMA, .norms = 2, .head_dim = 64, .positions = 131072, .use_window = TRUE, .window = 128,
    .window_pattern = 2, .attention_bias = TRUE, .ffn_bias = TRUE, .router_bias = TRUE,
    .sinks = TRUE, .needs_experts = TRUE, .rope_theta = 150000, .norm_epsilon = 1e-5, .balance_loss = 0.001}},
};

const Family *family_find(const char *model_type)
{
  for (gsize i = 0; i < G_N_ELEMENTS(families); i++)
    if (strcmp(families[i].model_type, model_type) == 0)
      return &families[i];
  return NULL;
}

#define STATE_SPACES "layers of state spaces, which have no cost here"
#define LINEAR "layers of linear attention, which have no cost here"
#define TOWERS "parts for images or sound that a decoder of text lacks"

/* Families of another kind, and what they have that is not simulated. */
static const struct {
  const char *model_type, *reason;
} others[] = {
  {"mamba", STATE_SPACES}, {"mamba2", STATE_SPACES}, {"falcon_mamba", STATE_SPACES}, {"jamba", STATE_SPACES},
  {"bamba", STATE_SPACES}, {"zamba", STATE_SPACES}, {"zamba2", STATE_SPACES}, {"nemotron_h", STATE_SPACES},
  {"granitemoehybrid", STATE_SPACES}, {"falcon_h1", STATE_SPACES}, {"xlstm", STATE_SPACES},
  {"recurrent_gemma", "recurrent layers, which have no cost here"}, {"rwkv", "recurrent layers, which have no cost here"},
  {"qwen3_next", LINEAR}, {"qwen3_5", LINEAR}, {"qwen3_5_text", LINEAR}, {"qwen3_5_moe", LINEAR},
  {"qwen3_5_moe_text", LINEAR}, {"minimax", LINEAR}, {"kimi_linear", LINEAR}, {"olmo_hybrid", LINEAR},
  {"lfm2", "convolutions beside attention, which have no cost here"},
  {"lfm2_moe", "convolutions beside attention, which have no cost here"},
  {"deepseek_v32", "an indexer that chooses keys (sparse attention), which has no cost here"},
  {"deepseek_v4", "compressed attention, which has no cost here"},
  {"glm_moe_dsa", "an indexer that chooses keys (sparse attention), which has no cost here"},
  {"llama4", "attention by chunks, which has no cost here"}, {"llama4_text", "attention by chunks, which has no cost here"},
  {"gemma3n", "embeddings for each layer, which have no cost here"},
  {"gemma3n_text", "embeddings for each layer, which have no cost here"},
  {"gemma4", "embeddings for each layer, which have no cost here"},
  {"gemma4_text", "embeddings for each layer, which have no cost here"},
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

char *family_list(void)
{
  GString *text = g_string_new(NULL);
  for (gsize i = 0; i < G_N_ELEMENTS(families); i++)
    g_string_append_printf(text, "%s%s", i ? ", " : "", families[i].model_type);
  return g_string_free(text, FALSE);
}
