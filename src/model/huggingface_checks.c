/* Keys of Hugging Face configs that mean what is not counted, or what their class refuses. */
#include "model/family.h"

#include <string.h>

gboolean huggingface_names_class(const cJSON *object, const char *suffix)
{
  const cJSON *item;

  cJSON_ArrayForEach(item, json_get(object, "architectures"))
    if (cJSON_IsString(item) && g_str_has_suffix(item->valuestring, suffix))
      return TRUE;
  return FALSE;
}

static gboolean names_family(const char *families, const char *family)
{
  gsize n = strlen(family);

  for (const char *at = families; (at = strstr(at, family)); at += n)
    if ((at == families || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
      return TRUE;
  return FALSE;
}

/* What a key would add that is not counted, in some families or in any. */
static const struct {
  const char *key;
  gboolean expected;
  const char *what, *families;
} unread[] = {
  {"tie_word_embeddings", TRUE, "a second bias before the logits",
   "bert bert-generation big_bird camembert data2vec-text encoder-decoder ernie megatron-bert roberta "
   "roberta-prelayernorm roc_bert roformer xlm-roberta xlm-roberta-xl xmod"},
  {"tie_word_embeddings", FALSE, "a shared table of a class that has none",
   "bailing_hybrid inkling_text kimi_linear nemotron_h rembert xlstm"},
  {"tie_word_embeddings", TRUE, "a branch of each layer's own", "zamba zamba2"},
  {"tie_embedding", FALSE, "a shared table of a class that has none", "inkling_text"},
  {"attention_bias", FALSE, "a bias of attention without one of its gate", "afmoe beam dory"},
  {"mlp_bias", FALSE, "a bias of feed-forwards beside experts without one", "aria_text deepseek_v2 hy_v3 nemotron_h"},
  {"use_bias", FALSE, "a bias of feed-forwards beside experts without one", "ernie4_5_moe"},
  {"use_bias", FALSE, "a bias of norms and of what heads give", "xlstm"},
  {"pre_norm", FALSE, "a norm before adapters and attention", "xmod"},
  {"adapter_layer_norm", FALSE, "a norm of adapters alone", "xmod"},
  {"is_moe", FALSE, "a row of a table for each expert", "doge"},
  {"use_task_id", FALSE, "a table of tasks"},
  {"projectors_bias", FALSE, "a bias of the last projection alone"},
  {"use_prompt", FALSE, "prompts that are trained"},
  {"asm", FALSE, "a softmax by clusters"},
  {"classifier_bias", FALSE, "a bias before the logits"},
  {"enable_moe_block", FALSE, "a layer of experts beside a feed-forward"},
  {"add_full_attention_sink_bias", FALSE, "a sink where all tokens are seen"},
  {"add_swa_attention_sink_bias", TRUE, "a window without sinks"},
  {"add_cross_attention", FALSE, "attention to another model"},
  {"use_sliding_window", FALSE, "a window of its class", "iquestcoder"},
  {"share_encoder_decoder_embeddings", TRUE, "a vocabulary of the decoder alone"},
};

/* Keys of parts that some classes have, with those that do; others pass over them. Some are of linear attention, and no
 * matter where there is none. */
static const struct {
  const char *key, *families;
  gboolean linear;
} owned[] = {
  {"attention_bias",
   "gpt_neox nemotron llama llama4_text qwen3 qwen3_moe qwen3_vl_text qwen3_vl_moe_text "
   "qwen3_omni_moe_text deepseek_v2 deepseek_v3 deepseek_v32 glm_moe_dsa kimi_k2 olmo nanochat olmo2 "
   "olmo3 olmoe flex_olmo granite hyperclovax granitemoe cohere cohere_compass_text cohere2 smollm3 glm "
   "glm4 glm4_moe glm4v_moe_text seed_oss iquestcoder internlm3 jais2 mellum solar_open granitemoeshared "
   "vaultgemma phimoe apertus apertus1p5_text beam aria_text flint bitnet axk1 mimo_v2_flash laguna "
   "arcee helium afmoe cohere2_moe minicpm3 dots1 hunyuan_v1_dense hunyuan_v1_moe sarvam_mla exaone "
   "glm4_moe_lite hy_v3 youtu granite_swa granitemoe_swa gemma gemma2 gemma3_text gemma3 gemma4_text "
   "gemma4_unified_text modernbert-decoder gpt_oss qwen3_next qwen3_5_text qwen3_5_moe_text falcon_h1 "
   "lfm3 kimi_linear bailing_hybrid lara_mini olmo_hybrid bamba granitemoehybrid axk2 diffllama doge "
   "dots3_note_text dots3_note hy_v4 recurrent_gemma gemma3n_text longcat_flash hrm_text zaya"},
  {"mlp_bias",
   "nemotron llama deepseek_v2 granite hyperclovax smollm3 seed_oss cwm iquestcoder internlm3 jais2 aria_text "
   "arcee helium minicpm3 exaone hy_v3 granite_swa modernbert-decoder nemotron_h falcon_h1 bamba doge dory hrm_text"},
  {"attention_out_bias",
   "seed_oss"},
  {"router_bias",
   "nllb-moe switch_transformers longcat_flash"},
  {"qkv_bias",
   "qwen2_moe internlm3 vit"},
  {"use_qkv_bias",
   "sarvam_moe stablelm"},
  {"lm_head_bias",
   "phimoe zaya"},
  {"decoder_bias",
   "modernbert-decoder"},
  {"norm_bias",
   "modernbert-decoder"},
  {"bias",
   "falcon RefinedWeb RefinedWebModel internlm3"},
  {"enable_bias",
   "opt"},
  {"use_bias",
   "starcoder2 ernie4_5 ernie4_5_moe mamba2 nemotron_h mamba falcon_mamba big_bird bigbird_pegasus"},
  {"use_conv_bias",
   "mamba2 nemotron_h mamba falcon_mamba", TRUE},
  {"mamba_conv_bias",
   "jamba falcon_h1 bamba granitemoehybrid zamba", TRUE},
  {"mamba_proj_bias",
   "jamba falcon_h1 bamba granitemoehybrid zamba", TRUE},
  {"conv_bias",
   "lfm2 lfm2_moe lfm3", TRUE},
  {"block_auto_adjust_ff_dim",
   "lfm2", TRUE},
  {"use_attention_gate",
   "lfm3"},
  {"use_expert_bias",
   "lfm2_moe"},
  {"use_qk_norm",
   "llama4_text cohere glm4_moe sarvam_moe"},
  {"qk_layernorm",
   "phi persimmon stablelm"},
  {"parallel_attn",
   "falcon RefinedWeb RefinedWebModel"},
  {"use_parallel_residual",
   "gpt_neox stablelm"},
};

static gsize offset_of(const RecipeSource *source, const char *key)
{
  gsize i = 0;

  while (!g_str_equal(source->fields[i].key, key))
    i++;
  return source->fields[i].offset;
}

/* Latent attention has norms of its own, whatever a file says of others. */
static gboolean check_owned(const RecipeSource *source, const Recipe *r, GError **error)
{
  const Recipe *usual = &family_find(r->family)->defaults;

  for (gsize i = 0; i < G_N_ELEMENTS(owned); i++) {
    const cJSON *item = json_get(source->object, owned[i].key);
    gsize offset = offset_of(source, owned[i].key);
    gboolean expected = G_STRUCT_MEMBER(gboolean, usual, offset);
    if (!cJSON_IsBool(item) || (owned[i].linear && !usual->has_linear) ||
        (offset == offsetof(Recipe, qk_norm) && usual->kv_lora_rank))
      continue;
    if (cJSON_IsTrue(item) != expected && !names_family(owned[i].families, r->family))
      return json_error(source->doc, item, error, "%s, as the class of %s has no such key",
                        expected ? "true" : "false", r->family);
  }
  return TRUE;
}

static gboolean check_flags(const RecipeSource *source, const Recipe *r, GError **error)
{
  for (gsize i = 0; i < G_N_ELEMENTS(unread); i++) {
    const cJSON *item = json_get(source->object, unread[i].key);
    if (cJSON_IsBool(item) && cJSON_IsTrue(item) != unread[i].expected &&
        !(r->both_ways && g_str_equal(unread[i].key, "add_cross_attention")) &&
        (!unread[i].families || names_family(unread[i].families, r->family)))
      return json_error(source->doc, item, error, "%s, as %s is not counted", unread[i].expected ? "true" : "false",
                        unread[i].what);
  }
  return TRUE;
}

/* Layers that take the keys which the indexer of another one chose are not counted, nor those with heads of their own
 * number. */
static gboolean check_unread(const RecipeSource *source, const Recipe *r, GError **error)
{
  const cJSON *every = json_get(source->object, "index_topk_freq");
  const cJSON *pattern = json_get(source->object, "index_topk_pattern");
  const cJSON *prefix = json_get(source->object, "prefix_dense_intermediate_size"), *item;
  const cJSON *local = json_get(source->object, "encoder_attention_type");
  const cJSON *both = json_get(source->object, "use_bidirectional_attention");
  const cJSON *outputs = json_get(source->object, "output_vocab_size"), *langs = json_get(source->object, "n_langs");

  if (cJSON_IsNumber(outputs) && outputs->valuedouble != r->vocab)
    return json_error(source->doc, outputs, error, "null, as a head of another vocabulary is not counted");
  if (cJSON_IsString(local) && !g_str_equal(local->valuestring, "local"))
    return json_error(source->doc, local, error, "\"local\", as tokens for blocks of others have no cost here");
  if (cJSON_IsString(both) && g_str_equal(both->valuestring, "all"))
    return json_error(source->doc, both, error, "null or \"vision\", as text that sees what follows has no cost here");
  if (cJSON_IsNumber(langs) && langs->valuedouble > 1)
    return json_error(source->doc, langs, error, "1, as a table of languages is not counted");

  cJSON_ArrayForEach(item, json_get(source->object, "num_attention_heads_per_layer"))
    if (!cJSON_IsNumber(item) || item->valuedouble != r->heads)
      return json_error(source->doc, item, error, "%d as in all layers, as others have no cost here", r->heads);
  if (prefix && !cJSON_IsNull(prefix))
    return json_error(source->doc, prefix, error, "null, as dense layers of a width of their own have no cost here");
  if (cJSON_IsNumber(every) && every->valuedouble > 1)
    return json_error(source->doc, every, error, "1, as layers that share an indexer have no cost here");
  return !pattern ||
         json_error(source->doc, pattern, error, "null, as layers that share an indexer have no cost here");
}

/* What MiMo's first files say of layers with a window, which its class reads of the others. */
static const struct {
  const char *key;
  gsize offset;
  int times;
} of_windows[] = {
  {"swa_num_attention_heads", offsetof(Recipe, heads), 1},
  {"swa_num_key_value_heads", offsetof(Recipe, kv_heads), 2},
  {"swa_head_dim", offsetof(Recipe, head_dim), 1},
  {"swa_v_head_dim", offsetof(Recipe, v_head_dim), 1},
};

static gboolean check_windows(const RecipeSource *source, const Recipe *r, GError **error)
{
  for (gsize i = 0; r->window_sinks && i < G_N_ELEMENTS(of_windows); i++) {
    const cJSON *item = json_get(source->object, of_windows[i].key);
    int expected = of_windows[i].times * G_STRUCT_MEMBER(int, r, of_windows[i].offset);
    if (cJSON_IsNumber(item) && item->valuedouble != expected)
      return json_error(source->doc, item, error, "%d, %s %s", expected, of_windows[i].times > 1 ? "twice" : "as",
                        source_key(source, of_windows[i].offset));
  }
  return TRUE;
}

static const cJSON *true_of(const RecipeSource *source, const char *key, const char *other)
{
  const cJSON *item = json_get(source->object, key);
  return cJSON_IsTrue(item) ? item : json_get(source->object, other);
}

/* InternLM3's class has biases of queries, keys and values where it has all others, or none (transformers). */
static gboolean check_biases(const RecipeSource *source, const Recipe *r, GError **error)
{
  const cJSON *qkv = true_of(source, "qkv_bias", "attention_bias"), *rest = true_of(source, "bias", "mlp_bias");

  if (!g_str_equal(r->family, "internlm3") || !cJSON_IsTrue(qkv) == !cJSON_IsTrue(rest))
    return TRUE;
  return cJSON_IsTrue(qkv) ? json_error(source->doc, qkv, error, "false, or \"bias\" true as well")
                           : json_error(source->doc, rest, error, "false, or \"qkv_bias\" true as well");
}

/* Layers of Inkling with a window have other keys alone, and its head a row for each token. */
static gboolean check_local(const RecipeSource *source, const Recipe *r, GError **error)
{
  const struct { const char *key; int usual, expected; gsize offset; } sizes[] = {
    { "swa_num_attention_heads", 64, r->heads, offsetof(Recipe, heads) },
    { "swa_head_dim", 128, r->head_dim, offsetof(Recipe, head_dim) },
  };
  const cJSON *rows = json_get(source->object, "unpadded_vocab_size");

  if (!g_str_equal(r->family, "inkling_text"))
    return TRUE;
  for (gsize i = 0; i < G_N_ELEMENTS(sizes); i++) {
    const cJSON *item = json_get(source->object, sizes[i].key);
    if (item && (!cJSON_IsNumber(item) || item->valuedouble != sizes[i].expected))
      return json_error(source->doc, item, error, "%d, as %s", sizes[i].expected, source_key(source, sizes[i].offset));
    if (!item && sizes[i].usual != sizes[i].expected)
      return source_error(source, sizes[i].offset, error, "%d, or %s as many", sizes[i].usual, sizes[i].key);
  }
  if (r->shared_experts < 1)
    return source_error(source, offsetof(Recipe, shared_experts), error, "an integer from 1");
  return !cJSON_IsNumber(rows) || rows->valuedouble == r->vocab ||
         json_error(source->doc, rows, error, "null, as a head of another vocabulary is not counted");
}

/* Parts that classes hold weights for in any number, of which some have no count here. */
static gboolean check_numbers(const RecipeSource *source, const Recipe *r, GError **error)
{
  static const struct { const char *key, *what; gsize offset; int least; } numbers[] = {
    { "hc_mult", "weights that mix one stream alone", offsetof(Recipe, streams), 2 },
    { "altup_num_inputs", "weights that predict one stream alone", offsetof(Recipe, streams), 2 },
    { "num_global_tokens", "norms of no tokens", offsetof(Recipe, global_tokens), 1 },
  };
  const Recipe *usual = &family_find(r->family)->defaults;

  for (gsize i = 0; i < G_N_ELEMENTS(numbers); i++) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(source->object, numbers[i].key);
    if (item && G_STRUCT_MEMBER(int, usual, numbers[i].offset) &&
        G_STRUCT_MEMBER(int, r, numbers[i].offset) < numbers[i].least)
      return json_error(source->doc, item, error, "an integer from %d, as %s are not counted", numbers[i].least,
                        numbers[i].what);
  }
  return TRUE;
}

/* Of both stacks, no size is none. */
static gboolean check_stacks(const RecipeSource *source, const Recipe *r, GError **error)
{
  static const char *const sizes[] = { "encoder_layers", "decoder_layers", "encoder_attention_heads",
                                       "decoder_attention_heads", "encoder_ffn_dim", "decoder_ffn_dim" };

  for (gsize i = 0; r->two_stacks && i < G_N_ELEMENTS(sizes); i++) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(source->object, sizes[i]);
    if (cJSON_IsNull(item))
      return json_error(source->doc, item, error, "an integer from 1");
  }
  return TRUE;
}

/* Of layers that come every so many, one comes first. */
static gboolean check_period(const RecipeSource *source, const char *every, const char *offset, int n, int first,
                             GError **error)
{
  const cJSON *period = cJSON_GetObjectItemCaseSensitive(source->object, every);
  const cJSON *at = json_get(source->object, offset);

  if (cJSON_IsNull(period))
    return json_error(source->doc, period, error, "an integer from 1");
  return n == 0 || first < n ||
         json_error(source->doc, at ? at : period, error, "%s below %s, %d is not below %d", offset, every, first, n);
}

/* Whether layers with experts stand as far apart in the decoder as in the encoder. */
static gboolean stacks_alike(const Recipe *r)
{
  int decoder = r->decoder_layers ? r->decoder_layers : r->layers;

  return recipe_sparse_step(r->layers, r->sparse_encoder) == recipe_sparse_step(decoder, r->sparse_decoder);
}

static const char *sparse_key(const cJSON *object)
{
  static const char *const keys[] = { "num_sparse_decoder_layers", "num_sparse_encoder_layers", "num_decoder_layers" };
  int i = 0;

  while (i < 2 && !json_get(object, keys[i]))
    i++;
  return keys[i];
}

/* Widths of which a class takes one, whatever its file says. */
static gboolean check_widths(const RecipeSource *source, const Recipe *r, GError **error)
{
  const cJSON *ratio = json_get(source->object, "expansion_ratio");

  if (names_family("mpt", r->family) && cJSON_IsNumber(ratio) && ratio->valuedouble != 4)
    return json_error(source->doc, ratio, error, "4, as the class of mpt takes no other");
  if (names_family("rembert", r->family) && r->hidden && (!r->embed_dim || r->embed_dim == r->hidden))
    return source_error(source, offsetof(Recipe, embed_dim), error,
                        "another width than %s (%d), as a projection between equal ones is not counted",
                        source_key(source, offsetof(Recipe, hidden)), r->hidden);
  if (r->laurel && r->heads && r->hidden % r->heads)
    return source_error(source, offsetof(Recipe, hidden), error, "a multiple of %s (%d)",
                        source_key(source, offsetof(Recipe, heads)), r->heads);
  if (r->differential && (r->kv_heads ? r->kv_heads : r->heads) % 2)
    return source_error(source, r->kv_heads ? offsetof(Recipe, kv_heads) : offsetof(Recipe, heads), error,
                        "an even number, as each attends to half of the values");
  if (names_family("helium", r->family) && r->hidden && (gint64)r->heads * r->head_dim != r->hidden)
    return source_error(source, offsetof(Recipe, hidden), error, "%s (%d) times %s (%d), all that its class takes",
                        source_key(source, offsetof(Recipe, heads)), r->heads,
                        source_key(source, offsetof(Recipe, head_dim)), r->head_dim);
  return TRUE;
}

/* Keys of one family that its class would refuse, or read as what is not counted. */
static gboolean check_family(const RecipeSource *source, const Recipe *r, GError **error)
{
  const cJSON *object = source->object, *tied = json_get(object, "tie_word_embeddings");
  const cJSON *block = cJSON_GetObjectItemCaseSensitive(object, "block_size");
  const cJSON *heads = json_get(object, "mamba_n_heads");
  gint64 width = r->linear_width ? r->linear_width : (gint64)r->linear_expand * r->hidden;

  if (r->random_blocks && r->sparse_block == 0)
    return json_error(source->doc, block, error, "an integer from 1");
  if (r->random_blocks && r->attention_type && !g_str_equal(r->attention_type, "block_sparse") &&
      !g_str_equal(r->attention_type, "original_full"))
    return json_error(source->doc, json_get(object, "attention_type"), error, "block_sparse or original_full");
  if (r->narrow_embedding && huggingface_names_class(object, "ElectraForPreTraining"))
    return json_error(source->doc, json_get(object, "architectures"), error,
                      "ElectraForMaskedLM, as a head of one output a token is not counted");
  if (((r->two_stacks && !r->own_tables) || r->sparse_by_stack) && cJSON_IsFalse(tied))
    return json_error(source->doc, tied, error, "true, as tables of their own for both stacks are not counted");
  if (r->own_tables && r->tied && !r->both_ways && r->encoder_vocab != r->vocab)
    return source_error(source, offsetof(Recipe, encoder_vocab), error,
                        "%d as %s, or tie_word_embeddings false, which all tables are where they are one", r->vocab,
                        source_key(source, offsetof(Recipe, vocab)));
  if (r->sparse_by_stack && r->layers && !stacks_alike(r)) {
    const char *expected = "as many layers apart in both stacks, as others are not counted";
    const cJSON *item = json_get(object, sparse_key(object));
    return item ? json_error(source->doc, item, error, "%s", expected)
                : source_error(source, offsetof(Recipe, decoder_layers), error, "%s", expected);
  }
  if (r->linear_width && !r->branched && cJSON_IsTrue(json_get(object, "mamba_proj_bias")))
    return json_error(source->doc, json_get(object, "mamba_proj_bias"), error,
                      "false, as a bias of the first projection alone is not counted");
  if (heads && r->linear.heads && width % r->linear.heads != 0)
    return json_error(source->doc, heads, error, "a divisor of the %d channels", (int)width);
  if (r->keyless > 0 && r->keyless >= r->layers)
    return json_error(source->doc, json_get(object, "num_kv_shared_layers"), error,
                      "fewer than the %d layers, as others make what they share", r->layers);
  return check_period(source, "attn_layer_period", "attn_layer_offset", r->attention_every, r->attention_offset,
                      error) &&
         check_period(source, "expert_layer_period", "expert_layer_offset", r->expert_every, r->expert_offset, error);
}

gboolean huggingface_check(const RecipeSource *source, const Recipe *r, GError **error)
{
  return check_flags(source, r, error) && check_owned(source, r, error) && check_unread(source, r, error) &&
         check_widths(source, r, error) && check_family(source, r, error) && check_windows(source, r, error) &&
         check_stacks(source, r, error) && check_biases(source, r, error) && check_local(source, r, error) &&
         check_numbers(source, r, error);
}

/* Layers that take keys and values which others made have the window, or none, of one of these. */
static gboolean check_makers(const RecipeSource *source, const Recipe *r, GError **error)
{
  const cJSON *item = json_get(source->object, "num_kv_shared_layers");
  int first = r->layers - r->keyless;

  for (int i = first; r->sliding && i < r->layers; i++) {
    int maker = first - 1;
    while (maker >= 0 && r->sliding[maker] != r->sliding[i])
      maker--;
    if (maker < 0)
      return json_error(source->doc, item, error,
                        "fewer layers, as layer %d shares keys of %s, which none before them makes", i,
                        r->sliding[i] ? "a window" : "all tokens");
  }
  return TRUE;
}

/* 1 for each layer with a window (MiMo), which its class reads of layer_types. */
static gboolean check_window_list(const RecipeSource *source, const Recipe *r, GError **error)
{
  const cJSON *list = json_get(source->object, "hybrid_layer_pattern"), *item;
  int i = 0;

  if (!r->window_sinks || !list || !r->layers)
    return TRUE;
  if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != r->layers)
    return json_error(source->doc, list, error, "an array of %d numbers, one a layer", r->layers);
  cJSON_ArrayForEach(item, list) {
    int expected = recipe_window(r, i) > 0;
    if (!cJSON_IsNumber(item) || item->valuedouble != expected)
      return json_error(source->doc, item, error, "%d, as layer_types or their usual order say", expected);
    i++;
  }
  return TRUE;
}

gboolean huggingface_check_layers(const RecipeSource *source, const Recipe *r, GError **error)
{
  return check_makers(source, r, error) && check_window_list(source, r, error);
}
