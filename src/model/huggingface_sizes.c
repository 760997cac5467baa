/* Sizes that layers of one kind have of their own in Hugging Face configs, and which layers have an indexer. */
#include "model/recipe.h"

#include <math.h>

/* The layer that a key names, as many digits as it needs; -1 for any other text. */
static int layer_of(const char *key, int layers)
{
  gint64 layer = g_ascii_strtoll(key, NULL, 10);
  char plain[24];

  g_snprintf(plain, sizeof plain, "%" G_GINT64_FORMAT, layer);
  return g_str_equal(key, plain) && layer >= 0 && layer < layers ? (int)layer : -1;
}

/* Members of per_layer_config: of each layer with a window (of each without), or of none, and the same of all; `first`
 * is the first of them, NULL for none. */
static gboolean read_alike(const RecipeSource *source, const Recipe *r, gboolean windows, const cJSON **first,
                           GError **error)
{
  const cJSON *layers = json_get(source->object, "per_layer_config"), *item;
  const char *kind = windows ? "with a window" : "of full attention";
  int expected = 0, said = 0;

  *first = NULL;
  if (!cJSON_IsObject(layers))
    return TRUE;
  for (int i = 0; i < r->layers; i++)
    expected += r->sliding ? !r->sliding[i] == !windows : 0;
  cJSON_ArrayForEach(item, layers) {
    int layer = layer_of(item->string, r->layers);
    *first = *first ? *first : item;
    if (layer < 0 || !r->sliding || !r->sliding[layer] != !windows ||
        !cJSON_Compare(*first, item, TRUE))
      return json_error(source->doc, item, error, "sizes of layers %s alone, the same of all", kind);
    said++;
  }
  return !said || said == expected ||
         json_error(source->doc, layers, error, "sizes of all %d layers %s, or none", expected, kind);
}

/* Gemma 4's layers without a window. */
static gboolean read_full(const RecipeSource *source, Recipe *r, GError **error)
{
  static const JsonField sizes[] = {
    RECIPE_INT("head_dim", full_head_dim, 1, MAX_HEAD_DIM),
    RECIPE_INT("num_key_value_heads", full_kv_heads, 1, MAX_HEADS),
  };
  const cJSON *first;

  if (!r->full_head_dim || !r->layers)
    return TRUE;
  return read_alike(source, r, FALSE, &first, error) &&
         (!first || json_read_foreign(source->doc, first, sizes, G_N_ELEMENTS(sizes), r, error));
}

#define OF_WINDOW(prefix)                                                           \
  RECIPE_INT(prefix "num_attention_heads", of_window.heads, 1, MAX_HEADS),          \
  RECIPE_INT(prefix "num_key_value_heads", of_window.kv_heads, 1, MAX_HEADS),       \
  RECIPE_INT(prefix "head_dim", of_window.head_dim, 1, MAX_HEAD_DIM),               \
  RECIPE_INT(prefix "q_lora_rank", of_window.q_lora_rank, 1, MAX_HIDDEN),           \
  RECIPE_INT(prefix "kv_lora_rank", of_window.kv_lora_rank, 1, MAX_HIDDEN),         \
  RECIPE_INT(prefix "qk_nope_head_dim", of_window.nope_dim, 1, MAX_HEAD_DIM),       \
  RECIPE_INT(prefix "qk_rope_head_dim", of_window.rope_dim, 1, MAX_HEAD_DIM),       \
  RECIPE_INT(prefix "v_head_dim", of_window.v_head_dim, 1, MAX_HEAD_DIM)

/* Sizes of all layers, which those with a window have where their members say no others. */
static void take_usual(Recipe *r)
{
  r->of_window.heads = r->heads;
  r->of_window.kv_heads = r->kv_heads ? r->kv_heads : r->heads;
  r->of_window.head_dim = r->head_dim;
  r->of_window.q_lora_rank = r->q_lora_rank;
  r->of_window.kv_lora_rank = r->kv_lora_rank;
  r->of_window.nope_dim = r->nope_dim;
  r->of_window.rope_dim = r->rope_dim;
  r->of_window.v_head_dim = r->v_head_dim;
}

/* The first of the keys that say these sizes. */
static const cJSON *window_item(const cJSON *object)
{
  static const char *const keys[] = { "per_layer_config", "swa_num_attention_heads", "swa_num_key_value_heads",
                                      "swa_head_dim", "swa_qk_nope_head_dim", "swa_qk_rope_head_dim" };

  for (gsize i = 0; i < G_N_ELEMENTS(keys); i++)
    if (json_get(object, keys[i]))
      return json_get(object, keys[i]);
  return object;
}

static gboolean check_window_sizes(const RecipeSource *source, const Recipe *r, GError **error)
{
  const char *expected = r->of_window.kv_heads != r->of_window.heads
                           ? "as many heads of keys as of queries in all layers"
                         : r->of_window.head_dim != r->of_window.nope_dim + r->of_window.rope_dim
                           ? "a head_dim of layers with a window that is their qk_nope_head_dim and qk_rope_head_dim"
                         : NULL;

  if (r->kv_heads && r->kv_heads != r->heads)
    return source_error(source, offsetof(Recipe, kv_heads), error, "%d as %s, all that its class takes", r->heads,
                        source_key(source, offsetof(Recipe, heads)));
  return !expected || json_error(source->doc, window_item(source->object), error, "%s", expected);
}

/* Two layers without a window, then one of every four (dots3). */
static void usual_windows(Recipe *r)
{
  if (r->sliding)
    return;
  r->sliding = g_new0(guint8, r->layers);
  for (int i = 2; i < r->layers; i++)
    r->sliding[i] = r->use_window && i % 4 != 1;
}

/* What dots3's files say of layers with a window: by keys of their own, or layer by layer. */
static gboolean read_latent_windows(const RecipeSource *source, Recipe *r, GError **error)
{
  static const JsonField said[] = { OF_WINDOW("swa_") }, each[] = { OF_WINDOW("") };
  static const JsonField before[] = { RECIPE_INT("sliding_window_size", window, 1, MAX_SEQ) };
  const cJSON *first, *dsa = json_get(source->object, "use_dsa");

  if (!r->latent_windows || !r->layers)
    return TRUE;
  usual_windows(r);
  r->window = r->window ? r->window : 512;
  if ((!json_get(source->object, "sliding_window") &&
       !json_read_foreign(source->doc, source->object, before, G_N_ELEMENTS(before), r, error)) ||
      !json_read_foreign(source->doc, source->object, said, G_N_ELEMENTS(said), r, error) ||
      !read_alike(source, r, TRUE, &first, error))
    return FALSE;
  if (!r->of_window.rope_dim)
    r->of_window.rope_dim = r->of_window.head_dim - r->of_window.nope_dim;
  if (json_get(source->object, "per_layer_config"))
    take_usual(r);
  if (first && !json_read_foreign(source->doc, first, each, G_N_ELEMENTS(each), r, error))
    return FALSE;
  gboolean all = cJSON_IsBool(dsa) ? cJSON_IsTrue(dsa) : !json_get(source->object, "per_layer_config");
  gboolean kept = !cJSON_IsBool(dsa) && !all && r->indexing; /* as layer_types names them */
  if (!r->indexing)
    r->indexing = g_new0(guint8, r->layers);
  for (int i = 0; i < r->layers; i++)
    if (r->sliding[i] || !kept)
      r->indexing[i] = all && !r->sliding[i] ? INDEX_OWN : INDEX_NONE;
  return check_window_sizes(source, r, error);
}

/* Layers whose attention takes the keys that an earlier one's indexer chose (hy_v4). */
static gboolean read_sharing(const RecipeSource *source, Recipe *r, GError **error)
{
  static const char *const kinds[] = { "full", "shared", NULL };
  const cJSON *types = json_get(source->object, "indexer_types"), *item;
  int i = 0;

  if (!r->index_sharing || !r->layers)
    return TRUE;
  r->indexing = g_new0(guint8, r->layers);
  for (int layer = 0; layer < r->layers; layer++)
    r->indexing[layer] = layer == 0 || (layer - 1) % 4 == 0 ? INDEX_OWN : INDEX_SHARED;
  if (types && (!cJSON_IsArray(types) || cJSON_GetArraySize(types) != r->layers))
    return json_error(source->doc, types, error, "an array of %d strings, one a layer", r->layers);
  cJSON_ArrayForEach(item, types) {
    int kind = cJSON_IsString(item) ? names_find(kinds, item->valuestring) : -1;
    if (kind < 0 || (i == 0 && kind))
      return json_error(source->doc, item, error, i ? "full or shared" : "full, as no layer before has an indexer");
    r->indexing[i++] = kind ? INDEX_SHARED : INDEX_OWN;
  }
  return TRUE;
}

/* What MiniMax-M3's first files keep in an object of their own. */
static gboolean read_blocks(const RecipeSource *source, Recipe *r, GError **error)
{
  static const JsonField sizes[] = {
    RECIPE_INT("sparse_num_index_heads", index_heads, 1, MAX_HEADS),
    RECIPE_INT("sparse_index_dim", index_dim, 1, MAX_HEAD_DIM),
    RECIPE_INT("sparse_block_size", index_block, 1, MAX_SEQ),
    RECIPE_INT("sparse_topk_blocks", index_blocks, 1, MAX_SEQ),
  };
  const cJSON *object = json_get(source->object, "sparse_attention_config");
  const cJSON *array = cJSON_IsObject(object) ? json_get(object, "sparse_attention_freq") : NULL;

  if (!r->index_block || !r->layers)
    return TRUE;
  if (cJSON_IsObject(object) && !json_read_foreign(source->doc, object, sizes, G_N_ELEMENTS(sizes), r, error))
    return FALSE;
  if (!r->indexing)
    r->indexing = g_new0(guint8, r->layers);
  if (!array || json_get(source->object, "layer_types"))
    return TRUE;
  g_autofree int *sparse = g_new(int, r->layers);
  int n = json_get_ints(source->doc, array, sparse, r->layers, 0, 1, error);
  if (n < 0)
    return FALSE;
  if (n != r->layers)
    return json_error(source->doc, array, error, "an array of %d numbers, one a layer", r->layers);
  for (int i = 0; i < n; i++)
    r->indexing[i] = sparse[i] ? INDEX_OWN : INDEX_NONE;
  return TRUE;
}

/* Layers whose gates are zeros but for a share of them (Gemma 3n): the first ten of more than ten. */
static gboolean read_sparse_gates(const RecipeSource *source, Recipe *r, GError **error)
{
  const cJSON *list = json_get(source->object, "activation_sparsity_pattern"), *item;
  int i = 0;

  if (!r->laurel || !r->layers)
    return TRUE;
  r->sparse_gates = g_new0(guint8, r->layers);
  for (int layer = 0; layer < r->layers; layer++)
    r->sparse_gates[layer] = r->layers > 10 && layer < 10;
  if (list && (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != r->layers))
    return json_error(source->doc, list, error, "an array of %d shares, one a layer", r->layers);
  cJSON_ArrayForEach(item, list) {
    if (!cJSON_IsNumber(item) || item->valuedouble < 0 || item->valuedouble >= 1)
      return json_error(source->doc, item, error, "a number from 0 and below 1");
    r->sparse_gates[i++] = item->valuedouble > 0;
  }
  return TRUE;
}

/* Tokens of both sides that a query of LED's encoder sees, of all its layers or of each, the same, and itself. */
static gboolean read_both_sides(const RecipeSource *source, Recipe *r, GError **error)
{
  const cJSON *item = json_get(source->object, "attention_window");
  int n = r->encoder_layers;

  if (!r->global_projections || !item)
    return TRUE;
  if (cJSON_IsArray(item) && cJSON_GetArraySize(item) != n)
    return json_error(source->doc, item, error, "an even number, or one for each of %d layers", n);
  for (int i = 0; i < (cJSON_IsArray(item) ? n : 1); i++) {
    const cJSON *each = cJSON_IsArray(item) ? cJSON_GetArrayItem(item, i) : item;
    if (!cJSON_IsNumber(each) || each->valuedouble < 2 || each->valuedouble > MAX_SEQ || fmod(each->valuedouble, 2) > 0)
      return json_error(source->doc, each, error, "an even number from 2");
    if (i && each->valuedouble + 1 != r->encoder_window)
      return json_error(source->doc, each, error, "%d as in all layers, as others are not counted",
                        r->encoder_window - 1);
    r->encoder_window = (int)each->valuedouble + 1;
  }
  return TRUE;
}

/* Inkling's layers with a window: all but every sixth, or those that its file numbers. */
static gboolean read_local_layers(const RecipeSource *source, Recipe *r, GError **error)
{
  static const JsonField sizes[] = { RECIPE_INT("sliding_window_size", window, 1, MAX_SEQ) };
  const cJSON *list = json_get(source->object, "local_layer_ids");

  if (!r->rel_dim || !r->layers)
    return TRUE;
  if (!json_read_foreign(source->doc, source->object, sizes, G_N_ELEMENTS(sizes), r, error))
    return FALSE;
  if (r->sliding)
    return TRUE;
  r->sliding = g_new0(guint8, r->layers);
  for (int i = 0; i < r->layers; i++)
    r->sliding[i] = !list && (i + 1) % 6 != 0;
  g_autofree int *local = g_new(int, r->layers);
  int n = list ? json_get_ints(source->doc, list, local, r->layers, 0, r->layers - 1, error) : 0;
  for (int i = 0; i < n; i++)
    r->sliding[local[i]] = TRUE;
  return n >= 0;
}

/* X-MOD's, of which one has an adapter in each layer. */
static gboolean read_languages(const RecipeSource *source, Recipe *r, GError **error)
{
  const cJSON *list = json_get(source->object, "languages");

  if (!r->languages || !list)
    return TRUE;
  if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) < 1)
    return json_error(source->doc, list, error, "an array of at least one language");
  r->languages = cJSON_GetArraySize(list);
  if (!r->adapter_reduction || r->adapter_reduction > r->hidden)
    return source_error(source, offsetof(Recipe, adapter_reduction), error, "an integer from 1 to %s (%d)",
                        source_key(source, offsetof(Recipe, hidden)), r->hidden);
  return TRUE;
}

/* JetMoE's names; heads are those of keys for each expert that a token visits. */
static gboolean read_attention_experts(const RecipeSource *source, Recipe *r, GError **error)
{
  static const JsonField own[] = {
    RECIPE_INT("kv_channels", head_dim, 1, MAX_HEAD_DIM), RECIPE_REAL("aux_loss_coef", balance_loss, 0, 1e6),
  };

  if (!r->attention_experts)
    return TRUE;
  if (!json_read_foreign(source->doc, source->object, own, G_N_ELEMENTS(own), r, error))
    return FALSE;
  if ((gint64)r->kv_heads * r->head_dim > MAX_FFN)
    return source_error(source, offsetof(Recipe, kv_heads), error, "heads of at most %d values in all", MAX_FFN);
  r->heads = (int)MIN((gint64)r->kv_heads * r->experts_per_token, MAX_HEADS);
  return r->heads == r->kv_heads * r->experts_per_token ||
         source_error(source, offsetof(Recipe, kv_heads), error, "at most %d heads for all experts of a token",
                      MAX_HEADS);
}

/* ZAYA's convolutions, and its routers' states. */
static gboolean read_convolutions(const RecipeSource *source, Recipe *r, GError **error)
{
  static const JsonField own[] = {
    RECIPE_INT("cca_time0", conv_each, 1, MAX_CONV), RECIPE_INT("cca_time1", conv_heads, 1, MAX_CONV),
    RECIPE_INT("router_hidden_size", router_width, 1, MAX_HIDDEN),
  };

  if (!r->conv_each)
    return TRUE;
  if (!json_read_foreign(source->doc, source->object, own, G_N_ELEMENTS(own), r, error))
    return FALSE;
  if (r->experts_per_token != 1)
    return source_error(source, offsetof(Recipe, experts_per_token), error, "1, all that its class takes");
  return (gint64)r->kv_heads * r->head_dim % 2 == 0 ||
         source_error(source, offsetof(Recipe, head_dim), error, "an even number of values of all heads");
}

gboolean huggingface_read_sizes(const RecipeSource *source, Recipe *r, GError **error)
{
  return read_full(source, r, error) && read_latent_windows(source, r, error) && read_sharing(source, r, error) &&
         read_blocks(source, r, error) && read_sparse_gates(source, r, error) &&
         read_both_sides(source, r, error) && read_languages(source, r, error) &&
         read_attention_experts(source, r, error) && read_convolutions(source, r, error) &&
         read_local_layers(source, r, error);
}
