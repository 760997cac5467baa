/* Keys of Hugging Face configs that mean what is not counted, or what their class refuses. */
#include "model/recipe.h"

gboolean huggingface_names_class(const cJSON *object, const char *suffix)
{
  const cJSON *item;

  cJSON_ArrayForEach(item, json_get(object, "architectures"))
    if (cJSON_IsString(item) && g_str_has_suffix(item->valuestring, suffix))
      return TRUE;
  return FALSE;
}

/* What a key would add that is not counted. */
static const struct {
  const char *key;
  gboolean expected;
  const char *what;
} unread[] = {
  {"use_task_id", FALSE, "a table of tasks"},
  {"projectors_bias", FALSE, "a bias of the last projection alone"},
  {"use_prompt", FALSE, "prompts that are trained"},
  {"asm", FALSE, "a softmax by clusters"},
  {"classifier_bias", FALSE, "a bias before the logits"},
  {"enable_moe_block", FALSE, "a layer of experts beside a feed-forward"},
  {"add_cross_attention", FALSE, "attention to another model"},
  {"share_encoder_decoder_embeddings", TRUE, "a vocabulary of the decoder alone"},
};

static gboolean check_flags(const RecipeSource *source, GError **error)
{
  for (gsize i = 0; i < G_N_ELEMENTS(unread); i++) {
    const cJSON *item = json_get(source->object, unread[i].key);
    if (cJSON_IsBool(item) && cJSON_IsTrue(item) != unread[i].expected)
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
  if ((r->two_stacks || r->sparse_by_stack) && cJSON_IsFalse(tied))
    return json_error(source->doc, tied, error, "true, as tables of their own for both stacks are not counted");
  if (r->sparse_by_stack && r->layers && !stacks_alike(r))
    return json_error(source->doc, json_get(object, sparse_key(object)), error,
                      "as many layers apart in both stacks, as others are not counted");
  if (r->linear_width && cJSON_IsTrue(json_get(object, "mamba_proj_bias")))
    return json_error(source->doc, json_get(object, "mamba_proj_bias"), error,
                      "false, as a bias of the first projection alone is not counted");
  if (heads && r->linear_heads && width % r->linear_heads != 0)
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
  return check_flags(source, error) && check_unread(source, r, error) && check_family(source, r, error);
}
