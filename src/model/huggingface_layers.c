/* What the layers of a Hugging Face config are made of, where its file says it of each or of some. */
#include "model/recipe.h"

#include <math.h>
#include <string.h>

/* Of either stack. */
static int most_layers(const Recipe *r)
{
  return MAX(MAX(r->layers, r->decoder_layers), r->encoder_layers);
}

/* Layers that are dense whatever the step says. */
static gboolean read_dense_layers(const RecipeSource *source, Recipe *r, GError **error)
{
  const cJSON *array = json_get(source->object, "mlp_only_layers");
  if (!array || !r->layers)
    return TRUE;
  g_autofree int *layers = g_new(int, r->layers);
  int n = json_get_ints(source->doc, array, layers, r->layers, 0, MAX_LAYERS, error);
  if (n < 0)
    return FALSE;
  r->dense = g_new0(guint8, most_layers(r));
  if (!source_item(source, offsetof(Recipe, first_dense)))
    r->first_dense = 0; /* the usual ones stand for a list that is absent (Flint) */
  for (int i = 0; i < n; i++)
    if (layers[i] < r->layers)
      r->dense[layers[i]] = TRUE;
  return TRUE;
}

/* "dense" or "sparse" for each layer, which say more than the number of the first ones. */
static gboolean read_mlp_types(const RecipeSource *source, Recipe *r, GError **error)
{
  static const char *const kinds[] = { "dense", "sparse", NULL };
  const cJSON *array = json_get(source->object, "mlp_layer_types"), *item;
  int i = 0;

  if (!array || cJSON_IsNull(array) || !r->layers)
    return TRUE;
  if (!cJSON_IsArray(array) || cJSON_GetArraySize(array) != r->layers)
    return json_error(source->doc, array, error, "an array of %d strings, one a layer", r->layers);
  g_free(r->dense);
  r->dense = g_new0(guint8, most_layers(r));
  r->first_dense = 0;
  cJSON_ArrayForEach(item, array) {
    int kind = cJSON_IsString(item) ? names_find(kinds, item->valuestring) : -1;
    if (kind < 0)
      return json_error(source->doc, item, error, "one of dense, sparse");
    r->dense[i++] = kind == 0;
  }
  return TRUE;
}

/* Layers with experts as 1 in a list of 0 and 1, the dense ones first; or how far apart they stand. */
static gboolean read_sparse_layers(const RecipeSource *source, Recipe *r, GError **error)
{
  static const JsonField apart[] = { RECIPE_INT("moe_layer_freq", sparse_freq, 1, MAX_LAYERS) };
  const cJSON *array = json_get(source->object, "moe_layer_freq");
  int dense = 0;

  if (!cJSON_IsArray(array) || !r->layers)
    return json_read_foreign(source->doc, source->object, apart, G_N_ELEMENTS(apart), r, error);
  g_autofree int *sparse = g_new(int, r->layers);
  int n = json_get_ints(source->doc, array, sparse, r->layers, 0, 1, error);
  if (n < 0)
    return FALSE;
  while (dense < n && !sparse[dense])
    dense++;
  gboolean sound = n == r->layers;
  for (int i = 0; i < n && sound; i++)
    sound = sparse[i] == (i >= dense) && !(r->dense && r->dense[i] == sparse[i]);
  if (!sound)
    return json_error(source->doc, array, error, "0 for each of the dense layers, which come first, then 1 for each "
                      "of the others, %d in all", r->layers);
  if (json_get(source->object, "first_k_dense_replace") && r->first_dense != dense)
    return json_error(source->doc, array, error, "as many zeros as first_k_dense_replace, %d", r->first_dense);
  r->first_dense = r->dense ? 0 : dense;
  return TRUE;
}

/* The last layer with experts (ERNIE); -1 is the last of all. */
static gboolean read_last_sparse(const RecipeSource *source, Recipe *r, GError **error)
{
  const cJSON *end = json_get(source->object, "moe_layer_end_index");

  if (!end || cJSON_IsNull(end) || !r->layers)
    return TRUE;
  if (!cJSON_IsNumber(end) || end->valuedouble < -1 || end->valuedouble != floor(end->valuedouble))
    return json_error(source->doc, end, error, "an integer of at least -1");
  if (end->valuedouble < 0 || end->valuedouble >= r->layers - 1)
    return TRUE;
  if (!r->dense)
    r->dense = g_new0(guint8, most_layers(r));
  for (int i = (int)end->valuedouble + 1; i < r->layers; i++)
    r->dense[i] = TRUE;
  return TRUE;
}

/* Kinds of layers by name: those that any family may have, that of one whose windows are chunks, then those of a family
 * with linear attention, then those of one whose layers are one part each. */
static const char *const type_names[] = {"full_attention", "sliding_attention", "chunked_attention", "attention",
                                         "linear_attention", "mamba", "conv", "mlp", "moe", NULL};
static const guint type_parts[] = {PART_ATTENTION, PART_ATTENTION, PART_ATTENTION, PART_ATTENTION,
                                   PART_LINEAR, PART_LINEAR, PART_LINEAR, PART_DENSE, PART_EXPERTS};
enum { TYPE_SLIDING = 1, TYPE_CHUNKED, TYPES_OF_LINEAR = 7, TYPES_OF_SINGLE = 9 };

/* What files of Inkling and ZAYA call the first two. */
static const char *const hybrid_names[] = {"hybrid", "hybrid_sliding", NULL};

static gboolean says_hybrid(const Recipe *r)
{
  return r->rel_dim || r->conv_each;
}

static gboolean refuse_layer_type(const JsonDoc *doc, const Recipe *r, const cJSON *item, int known, GError **error)
{
  const char *const *names = says_hybrid(r) ? hybrid_names : type_names;
  g_autoptr(GString) list = g_string_new(NULL);

  for (int i = 0; i < known && names[i]; i++)
    g_string_append_printf(list, "%s%s", i ? ", " : "", names[i]);
  return json_error(doc, item, error, "one of %s", list->str);
}

static const char *usual_name(const Recipe *r, const char *name)
{
  int kind = says_hybrid(r) ? names_find(hybrid_names, name) : -1;

  return kind >= 0 ? type_names[kind] : name;
}

static gboolean read_layer_types(const RecipeSource *source, Recipe *r, GError **error)
{
  const cJSON *types = json_get(source->object, "layer_types"), *item;
  const cJSON *array = types ? types : json_get(source->object, "layers_block_type");
  if (r->loops == LOOPS_SECTION || r->branched) /* files of their own read them */
    return TRUE;
  int known = r->single ? TYPES_OF_SINGLE : r->has_linear ? TYPES_OF_LINEAR : TYPE_SLIDING + 1 + r->chunked, i = 0;
  if (r->single && !r->layers && cJSON_IsArray(array))
    r->layers = cJSON_GetArraySize(array);
  if (!array || !r->layers || (!types && !r->has_linear))
    return TRUE;
  if (!cJSON_IsArray(array) || cJSON_GetArraySize(array) != r->layers)
    return json_error(source->doc, array, error, "an array of %d strings, one a layer", r->layers);
  r->sliding = g_new0(guint8, most_layers(r));
  r->parts = r->has_linear ? g_new0(guint8, r->layers) : NULL;
  r->indexing = r->index_type ? g_new0(guint8, r->layers) : NULL;
  cJSON_ArrayForEach(item, array) {
    gboolean indexed = r->index_heads && cJSON_IsString(item) &&
                       g_str_equal(item->valuestring, r->index_type ? r->index_type : "indexed_attention");
    int kind = indexed ? 0 : cJSON_IsString(item) ? names_find(type_names, usual_name(r, item->valuestring)) : -1;
    if (kind < 0 || kind >= known)
      return refuse_layer_type(source->doc, r, item, known, error);
    if (r->index_type)
      r->indexing[i] = indexed ? INDEX_OWN : INDEX_NONE;
    if (r->parts)
      r->parts[i] = (guint8)(type_parts[kind] | (r->single ? 0 : PART_FEED));
    r->sliding[i++] = kind == TYPE_SLIDING || kind == TYPE_CHUNKED;
  }
  return TRUE;
}

/* Kinds of the first layers, which the others repeat (RecurrentGemma). */
static gboolean read_block_types(const RecipeSource *source, Recipe *r, GError **error)
{
  static const char *const kinds[] = { "recurrent", "attention", NULL };
  static const int usual[] = { 0, 0, 1 };
  const cJSON *array = json_get(source->object, "block_types");
  int n = array ? cJSON_GetArraySize(array) : (int)G_N_ELEMENTS(usual);

  if (r->linear.kind != LINEAR_RG_LRU || !r->layers)
    return TRUE;
  if ((array && !cJSON_IsArray(array)) || n < 1)
    return json_error(source->doc, array, error, "an array of recurrent and attention");
  g_free(r->parts);
  r->parts = g_new(guint8, r->layers);
  for (int i = 0; i < r->layers; i++) {
    const cJSON *item = cJSON_GetArrayItem(array, i % n);
    int kind = array ? cJSON_IsString(item) ? names_find(kinds, item->valuestring) : -1
                     : usual[i % n];
    if (kind < 0)
      return json_error(source->doc, item, error, "one of recurrent, attention");
    r->parts[i] = PART_FEED | (kind ? PART_ATTENTION : PART_LINEAR);
  }
  return TRUE;
}

/* Lists of "global" and "local", each with how often it stands in a row (GPT-Neo). */
static gboolean read_attention_types(const RecipeSource *source, Recipe *r, GError **error)
{
  static const char *const kinds[] = { "global", "local", NULL };
  const cJSON *groups = json_get(source->object, "attention_types"), *group, *name;
  int layer = 0;

  if (!cJSON_IsArray(groups) || !r->layers || r->sliding)
    return TRUE;
  r->sliding = g_new0(guint8, most_layers(r));
  cJSON_ArrayForEach(group, groups) {
    const cJSON *names = cJSON_GetArrayItem(group, 0), *times = cJSON_GetArrayItem(group, 1);
    for (int i = 0; cJSON_IsArray(names) && cJSON_IsNumber(times) && i < times->valuedouble && layer < r->layers; i++)
      cJSON_ArrayForEach(name, names) {
        int kind = cJSON_IsString(name) ? names_find(kinds, name->valuestring) : -1;
        if (kind < 0)
          return json_error(source->doc, name, error, "global or local");
        if (layer < r->layers)
          r->sliding[layer++] = kind == 1;
      }
  }
  return layer == r->layers ||
         json_error(source->doc, groups, error, "kinds of attention for all %d layers", r->layers);
}

/* Layers with attention by their numbers (Bamba, LFM2), or as 1 in a list of 0 and 1 (MiniMax). */
static gboolean read_attending(const RecipeSource *source, Recipe *r, GError **error)
{
  const cJSON *bamba = json_get(source->object, "attn_layer_indices");
  const cJSON *indices = bamba ? bamba : json_get(source->object, "full_attn_idxs");
  const cJSON *list = json_get(source->object, "attn_type_list");
  const cJSON *array = indices ? indices : list;
  if (!array || !r->has_linear || r->parts || !r->layers)
    return TRUE;
  g_autofree int *values = g_new(int, r->layers);
  int n = json_get_ints(source->doc, array, values, r->layers, 0, indices ? r->layers - 1 : 1, error);
  if (n < 0)
    return FALSE;
  if (!indices && n != r->layers)
    return json_error(source->doc, array, error, "an array of %d numbers, one a layer", r->layers);
  r->parts = g_new(guint8, r->layers);
  for (int i = 0; i < r->layers; i++)
    r->parts[i] = PART_FEED | (!indices && values[i] ? PART_ATTENTION : PART_LINEAR);
  for (int i = 0; indices && i < n; i++)
    r->parts[values[i]] = PART_FEED | PART_ATTENTION;
  return TRUE;
}

/* The rank of Mamba-1's steps, or "auto". */
static gboolean read_rank(const RecipeSource *source, Recipe *r, GError **error)
{
  static const JsonField ranks[] = {
    RECIPE_INT("time_step_rank", linear.rank, 1, MAX_HIDDEN), RECIPE_INT("mamba_dt_rank", linear.rank, 1, MAX_HIDDEN),
  };
  const cJSON *step = json_get(source->object, "time_step_rank");
  const cJSON *rank = step ? step : json_get(source->object, "mamba_dt_rank");

  if (r->linear.kind != LINEAR_MAMBA1 || (cJSON_IsString(rank) && g_str_equal(rank->valuestring, "auto")))
    return TRUE;
  return json_read_foreign(source->doc, source->object, ranks, G_N_ELEMENTS(ranks), r, error);
}

/* The width of a head of state spaces, or "auto": what its heads have of all channels. */
static gboolean read_state_heads(const RecipeSource *source, Recipe *r, GError **error)
{
  static const JsonField widths[] = { RECIPE_INT("mamba_d_head", linear.head_dim, 1, MAX_HEAD_DIM) };
  const cJSON *item = json_get(source->object, "mamba_d_head");
  gint64 width = r->linear_width ? r->linear_width : (gint64)r->linear_expand * r->hidden;

  if (!item || r->linear.kind != LINEAR_MAMBA2 || r->single ||
      (cJSON_IsString(item) && g_str_equal(item->valuestring, "auto")))
    return TRUE;
  if (!json_read_foreign(source->doc, source->object, widths, G_N_ELEMENTS(widths), r, error))
    return FALSE;
  return (gint64)r->linear.head_dim * r->linear.heads == width ||
         json_error(source->doc, item, error, "\"auto\" or the width of each of %d heads of %d channels",
                    r->linear.heads, (int)width);
}

/* MiMo's window is of so many tokens before a query. */
static gboolean read_tokens_before(const RecipeSource *source, Recipe *r, GError **error)
{
  static const JsonField before[] = { RECIPE_INT("sliding_window_size", window, 0, MAX_SEQ - 1) };

  if (!r->window_sinks || !json_get(source->object, "sliding_window_size"))
    return TRUE;
  if (!json_read_foreign(source->doc, source->object, before, G_N_ELEMENTS(before), r, error))
    return FALSE;
  r->window++;
  return TRUE;
}

/* What Kimi Linear's first files keep in an object of their own; layers from 1. */
static gboolean read_delta(const RecipeSource *source, Recipe *r, GError **error)
{
  static const JsonField sizes[] = {
    RECIPE_INT("num_heads", linear.heads, 1, MAX_HEADS), RECIPE_INT("head_dim", linear.head_dim, 1, MAX_HEAD_DIM),
    RECIPE_INT("short_conv_kernel_size", linear.conv, 1, MAX_CONV),
  };
  const cJSON *object = json_get(source->object, "linear_attn_config");
  const cJSON *layers = cJSON_IsObject(object) ? json_get(object, "full_attn_layers") : NULL;

  if (r->linear.kind != LINEAR_KIMI_DELTA || !cJSON_IsObject(object))
    return TRUE;
  if (!json_read_foreign(source->doc, object, sizes, G_N_ELEMENTS(sizes), r, error))
    return FALSE;
  if (!layers || r->parts || !r->layers)
    return TRUE;
  g_autofree int *numbers = g_new(int, r->layers);
  int n = json_get_ints(source->doc, layers, numbers, r->layers, 1, r->layers, error);
  if (n < 0)
    return FALSE;
  r->parts = g_new(guint8, r->layers);
  memset(r->parts, PART_FEED | PART_LINEAR, (gsize)r->layers);
  for (int i = 0; i < n; i++)
    r->parts[numbers[i] - 1] = PART_FEED | PART_ATTENTION;
  return TRUE;
}

static gboolean read_pattern(const RecipeSource *source, Recipe *r, GError **error)
{
  const cJSON *mtp = json_get(source->object, "mtp_hybrid_override_pattern");

  if (!r->single)
    return TRUE;
  if (r->mtp_parts && !r->parts && !json_get(source->object, "hybrid_override_pattern"))
    return source_error(source, offsetof(Recipe, layers), error,
                        "hybrid_override_pattern or layer_types beside it, as layers of its kind are of one part each");
  if (r->mtp && cJSON_IsString(mtp)) {
    r->mtp_parts = strchr(mtp->valuestring, 'H') ? 0 : recipe_pattern_parts(mtp->valuestring);
    if (!r->mtp_parts)
      return json_error(source->doc, mtp, error, "the parts of a module, a mixer first, as \"*E\"");
  }
  return r->parts || recipe_read_pattern(r, source->doc, json_get(source->object, "hybrid_override_pattern"), error);
}

/* What DBRX's files keep in objects for attention and experts. */
static gboolean read_nested(const RecipeSource *source, Recipe *r, GError **error)
{
  static const JsonField attention[] = {
    RECIPE_INT("kv_n_heads", kv_heads, 1, MAX_HEADS), RECIPE_REAL("rope_theta", rope_theta, 1, 1e15),
  };
  static const JsonField experts[] = {
    RECIPE_INT("ffn_hidden_size", ffn, 1, MAX_FFN), RECIPE_INT("moe_num_experts", experts, 1, MAX_EXPERTS),
    RECIPE_INT("moe_top_k", experts_per_token, 1, MAX_EXPERTS),
    RECIPE_REAL("moe_loss_weight", balance_loss, 0, 1e6),
  };
  const cJSON *attends = json_get(source->object, "attn_config"), *feeds = json_get(source->object, "ffn_config");

  if (!r->nested_parts)
    return TRUE;
  return (!cJSON_IsObject(attends) ||
          json_read_foreign(source->doc, attends, attention, G_N_ELEMENTS(attention), r, error)) &&
         (!cJSON_IsObject(feeds) || json_read_foreign(source->doc, feeds, experts, G_N_ELEMENTS(experts), r, error));
}

/* That they are those of a stride, which layers of both stacks have. */
static gboolean check_types(const RecipeSource *source, const cJSON *types, const Recipe *r, int layers, GError **error)
{
  const cJSON *item;
  int i = 0;

  if (types && (!cJSON_IsArray(types) || cJSON_GetArraySize(types) != layers))
    return json_error(source->doc, types, error, "an array of %d strings, one a layer", layers);
  cJSON_ArrayForEach(item, types) {
    const char *expected = type_names[++i % r->window_pattern ? TYPE_SLIDING : 0];
    if (!cJSON_IsString(item) || !g_str_equal(item->valuestring, expected))
      return json_error(source->doc, item, error, "\"%s\", as only the last of every %d layers sees all tokens",
                        expected, r->window_pattern);
  }
  return TRUE;
}

/* Two models of one kind, BERT, of which the second attends to the first. */
static gboolean check_pair(const RecipeSource *source, const Recipe *r, const cJSON *encoder, GError **error)
{
  const cJSON *attends = json_get(source->object, "add_cross_attention");
  const cJSON *types[] = { json_get(encoder, "model_type"), json_get(source->object, "model_type") };

  for (gsize i = 0; r->mlm_head && i < G_N_ELEMENTS(types); i++)
    if (types[i] && (!cJSON_IsString(types[i]) || !g_str_equal(types[i]->valuestring, "bert")))
      return json_error(source->doc, types[i], error, "\"bert\", as other pairs are not counted");
  return !r->mlm_head || !attends || cJSON_IsTrue(attends) ||
         json_error(source->doc, attends, error, "true, as the decoder reads what the encoder gives");
}

/* Of an encoder that has an object of its own (T5Gemma) its depth and tokens; the rest is as the decoder's. */
static gboolean read_encoder(const RecipeSource *source, Recipe *r, GError **error)
{
  static const JsonField own[] = {
    RECIPE_INT("num_hidden_layers", encoder_layers, 1, MAX_LAYERS),
    RECIPE_INT("vocab_size", encoder_vocab, MIN_VOCAB, MAX_VOCAB),
  };
  static const char *const shared[] = { "hidden_size", "intermediate_size", "num_attention_heads",
                                        "num_key_value_heads", "head_dim", "sliding_window", "attention_bias",
                                        "hidden_activation", "max_position_embeddings", "type_vocab_size" };
  gsize n = G_N_ELEMENTS(shared) - (r->mlm_head ? 0 : 2); /* the last two are those of tables */
  const cJSON *types = json_get(source->object, "layer_types"), *object;

  if (!r->both_ways)
    return TRUE;
  object = json_get_object(source->doc, json_root(source->doc), "encoder", TRUE, error);
  if (!object || !json_read_foreign(source->doc, object, own, G_N_ELEMENTS(own), r, error))
    return FALSE;
  if (!check_pair(source, r, object, error))
    return FALSE;
  for (gsize i = 0; i < n; i++) {
    const cJSON *item = json_get(object, shared[i]), *decoder = json_get(source->object, shared[i]);
    if (item ? !decoder || !cJSON_Compare(item, decoder, TRUE) : decoder != NULL)
      return json_error(source->doc, item ? item : decoder, error,
                        "the same of the encoder and the decoder, as others are not counted");
  }
  if (!check_types(source, types, r, r->layers, error) ||
      !check_types(source, json_get(object, "layer_types"), r, r->encoder_layers, error))
    return FALSE;
  g_clear_pointer(&r->sliding, g_free);
  return TRUE;
}

/* Blocks, two for each layer unless their file counts them so (LongCat-Flash). */
static void count_blocks(const RecipeSource *source, Recipe *r)
{
  if (r->doubled && r->layers)
    r->layers = MIN(json_get(source->object, "num_hidden_layers") ? r->layers / 2 * 2 : 2 * r->layers, MAX_LAYERS);
}

gboolean huggingface_read_layers(const RecipeSource *source, Recipe *r, GError **error)
{
  count_blocks(source, r);
  return huggingface_count_loops(source, r, error) && read_encoder(source, r, error) && read_nested(source, r, error) &&
         read_dense_layers(source, r, error) && read_mlp_types(source, r, error) &&
         read_sparse_layers(source, r, error) && read_last_sparse(source, r, error) &&
         read_layer_types(source, r, error) &&
         read_block_types(source, r, error) &&
         read_attention_types(source, r, error) && read_pattern(source, r, error) &&
         read_attending(source, r, error) && read_rank(source, r, error) && read_state_heads(source, r, error) &&
         read_tokens_before(source, r, error) && read_delta(source, r, error) &&
         huggingface_read_sizes(source, r, error) && huggingface_read_loops(source, r, error) &&
         huggingface_read_branches(source, r, error) && huggingface_read_tables(source, r, error);
}
