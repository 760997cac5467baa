/* Hugging Face configs of Zamba and Zamba 2: layers of linear attention, some of them behind a branch of attention and
 * feed-forward, which several share. */
#include "model/recipe.h"

/* Kinds of layers: of linear attention alone, or with a branch. */
static const char *const kinds[] = { "linear_attention", "mamba", "hybrid", NULL };
enum { KIND_HYBRID = 2 };

/* Where Zamba 2's layers with a branch stand, of 54. */
static const int usual_hybrids[] = { 6, 12, 18, 24, 30, 36, 42, 47, 51 };
enum { USUAL_LAYERS = 54 };

static gboolean is_usual_hybrid(const Recipe *r, int layer)
{
  if (r->attention_every)
    return layer == 2 || (layer > 2 && (layer - 3) % r->attention_every == r->attention_offset);
  for (gsize i = 0; i < G_N_ELEMENTS(usual_hybrids); i++)
    if (usual_hybrids[i] == layer)
      return TRUE;
  return FALSE;
}

/* Of either spelling; NULL if the file has none. */
static const cJSON *listed_layers(const cJSON *object)
{
  const cJSON *list = json_get(object, "layers_block_type"), *other = json_get(object, "layer_types");

  return list && !cJSON_IsNull(list) ? list : other && !cJSON_IsNull(other) ? other : NULL;
}

/* Classes make as many layers as are listed, whatever their number is said to be. */
static gboolean read_kinds(const RecipeSource *source, Recipe *r, guint8 *hybrid, GError **error)
{
  const cJSON *list = listed_layers(source->object);

  if (list && (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != r->layers))
    return json_error(source->doc, list, error, "an array of %d strings, one a layer", r->layers);
  if (!list && (r->attention_every ? r->layers < 3 : r->layers != USUAL_LAYERS))
    return source_error(source, offsetof(Recipe, layers), error, "%s, or layers_block_type beside it",
                        r->attention_every ? "at least 3" : "54");
  for (int i = 0; i < r->layers; i++) {
    const cJSON *item = cJSON_GetArrayItem(list, i);
    int kind = cJSON_IsString(item) ? names_find(kinds, item->valuestring) : -1;
    if (list && kind < 0)
      return json_error(source->doc, item, error, "one of linear_attention, mamba, hybrid");
    hybrid[i] = list ? kind == KIND_HYBRID : is_usual_hybrid(r, i);
  }
  return TRUE;
}

/* The branch of a layer is that of the first one, or of as many as a file says in turn. */
static void use_branches(Recipe *r, const guint8 *hybrid)
{
  int found = 0;

  r->parts = g_new(guint8, r->layers);
  r->uses = g_new(BlockUse, r->layers);
  r->n_uses = r->layers;
  for (int i = 0; i < r->layers; i++) {
    r->parts[i] = PART_LINEAR | (hybrid[i] ? PART_ATTENTION | PART_DENSE : 0);
    r->uses[i] = (BlockUse) { .layer = i, .reused = hybrid[i] && found >= r->branches };
    found += hybrid[i];
  }
}

/* What both kinds' attention reads, and heads of. */
static gboolean read_widths(const RecipeSource *source, Recipe *r, GError **error)
{
  static const JsonField heads[] = { RECIPE_INT("attention_head_dim", head_dim, 1, MAX_HEAD_DIM) };
  const cJSON *width = json_get(source->object, "attention_hidden_size");

  if (!json_read_foreign(source->doc, source->object, heads, G_N_ELEMENTS(heads), r, error))
    return FALSE;
  if (cJSON_IsNumber(width) && width->valuedouble != 2.0 * r->hidden)
    return json_error(source->doc, width, error, "%d, twice %s, which it reads", 2 * r->hidden,
                      source_key(source, offsetof(Recipe, hidden)));
  if (!r->head_dim && r->heads)
    r->head_dim = 2 * r->hidden / r->heads;
  r->linear_width = 0; /* which has that key in other families */
  return TRUE;
}

static gboolean check_heads(const RecipeSource *source, const Recipe *r, int heads, GError **error)
{
  return (gint64)r->linear_expand * r->hidden % heads == 0 ||
         json_error(source->doc, json_get(source->object, "n_mamba_heads"), error, "a divisor of the %d channels",
                    r->linear_expand * r->hidden);
}

static gboolean read_zamba(const RecipeSource *source, Recipe *r, GError **error)
{
  static const JsonField sizes[] = { RECIPE_INT("n_mamba_heads", linear.blocks, 1, MAX_HEADS) };

  if (!json_read_foreign(source->doc, source->object, sizes, G_N_ELEMENTS(sizes), r, error) ||
      !check_heads(source, r, r->linear.blocks, error))
    return FALSE;
  if (r->linear.blocks == 1)
    r->linear.blocks = 0;
  return TRUE;
}

/* A layer's own products beside queries, keys and values make as much as they read. */
static gboolean check_own_products(const RecipeSource *source, const Recipe *r, GError **error)
{
  if (!r->branch_qkv || !r->heads)
    return TRUE;
  if (r->kv_heads && r->kv_heads != r->heads)
    return source_error(source, offsetof(Recipe, kv_heads), error, "%d beside use_shared_attention_adapter", r->heads);
  return (gint64)r->heads * r->head_dim == 2 * r->hidden ||
         source_error(source, offsetof(Recipe, heads), error, "heads of %d in all beside use_shared_attention_adapter",
                      2 * r->hidden);
}

static gboolean read_zamba2(const RecipeSource *source, Recipe *r, GError **error)
{
  static const JsonField sizes[] = {
    RECIPE_INT("n_mamba_heads", linear.heads, 1, MAX_HEADS), RECIPE_INT("mamba_ngroups", linear.groups, 1, MAX_HEADS),
    RECIPE_INT("mamba_headdim", linear.head_dim, 1, MAX_HEAD_DIM),
    RECIPE_INT("num_mem_blocks", branches, 1, MAX_LAYERS), RECIPE_INT("adapter_rank", branch_rank, 1, MAX_HIDDEN),
    RECIPE_BOOL("use_shared_attention_adapter", branch_qkv), RECIPE_BOOL("add_bias_linear", linear.bias),
  };
  const cJSON *object = source->object, *width = json_get(object, "mamba_headdim");

  if (!json_read_foreign(source->doc, object, sizes, G_N_ELEMENTS(sizes), r, error) ||
      !check_heads(source, r, r->linear.heads, error) || !check_own_products(source, r, error))
    return FALSE;
  int whole = r->linear_expand * r->hidden / r->linear.heads;
  if (r->linear.head_dim && r->linear.head_dim != whole)
    return json_error(source->doc, width, error, "%d, the channels of each of %d heads", whole, r->linear.heads);
  r->linear.head_dim = whole;
  r->ffn_bias = r->linear.bias;
  if (!r->ffn)
    r->ffn = 4 * r->hidden;
  if (cJSON_IsTrue(json_get(object, "use_mem_rope")))
    r->position_kind = POSITIONS_ROPE;
  if (cJSON_IsTrue(json_get(object, "use_long_context")))
    r->positions = 16384;
  return TRUE;
}

gboolean huggingface_read_branches(const RecipeSource *source, Recipe *r, GError **error)
{
  if (!r->branched || !r->layers || !r->hidden)
    return TRUE;
  g_autofree guint8 *hybrid = g_new0(guint8, r->layers);
  if (!read_kinds(source, r, hybrid, error) || !read_widths(source, r, error) ||
      !(r->linear.kind == LINEAR_MAMBA1 ? read_zamba : read_zamba2)(source, r, error))
    return FALSE;
  use_branches(r, hybrid);
  return TRUE;
}
