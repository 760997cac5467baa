#include "model/recipe.h"

#include <string.h>

const cJSON *source_item(const RecipeSource *source, gsize offset)
{
  for (gsize i = 0; i < source->n_fields; i++) {
    if (source->fields[i].offset != offset || source->fields[i].type == JSON_ANY)
      continue;
    const cJSON *item = json_get(source->object, source->fields[i].key);
    if (item)
      return item;
  }
  return NULL;
}

static const char *first_spelling(const RecipeSource *source, gsize offset)
{
  for (gsize i = 0; i < source->n_fields; i++)
    if (source->fields[i].offset == offset && source->fields[i].type != JSON_ANY)
      return source->fields[i].key;
  g_assert_not_reached();
}

const char *source_key(const RecipeSource *source, gsize offset)
{
  const cJSON *item = source_item(source, offset);
  return item ? item->string : first_spelling(source, offset);
}

gboolean source_error(const RecipeSource *source, gsize offset, GError **error,
                      const char *expected, ...)
{
  va_list args;
  va_start(args, expected);
  g_autofree char *text = g_strdup_vprintf(expected, args);
  va_end(args);
  const cJSON *item = source_item(source, offset);
  return item ? json_error(source->doc, item, error, "%s", text)
              : json_missing(source->doc, source->object, first_spelling(source, offset), text, error);
}

int recipe_window(const Recipe *r, int layer)
{
  if (r->sliding)
    return r->sliding[layer] ? r->window : 0;
  if (!r->use_window || layer < r->window_from)
    return 0;
  return r->window_pattern && (layer + 1) % r->window_pattern == 0 ? 0 : r->window;
}

static gboolean is_counted_sparse(const Recipe *r, int layer)
{
  return r->experts && layer >= r->first_dense && layer % MAX(r->sparse_freq, 1) == 0 &&
         (layer + 1) % MAX(r->sparse_step, 1) == 0 && !(r->dense && r->dense[layer]);
}

guint recipe_parts(const Recipe *r, int layer)
{
  guint parts = r->parts ? r->parts[layer] : PART_ATTENTION | PART_FEED;
  guint feed = is_counted_sparse(r, layer) ? PART_EXPERTS : PART_DENSE;

  return parts & PART_FEED ? (parts & ~(guint)PART_FEED) | feed : parts;
}

char *recipe_default_name(const JsonDoc *doc)
{
  g_autofree char *base = g_path_get_basename(json_name(doc));
  if (strcmp(base, "config.json") == 0) {
    g_autofree char *folder = g_path_get_dirname(json_name(doc));
    return g_path_get_basename(folder);
  }
  if (g_str_has_suffix(base, ".json"))
    base[strlen(base) - strlen(".json")] = '\0';
  return g_steal_pointer(&base);
}

#define FAIL(field, ...) source_error(source, offsetof(Recipe, field), error, __VA_ARGS__)
#define KEY(field) source_key(source, offsetof(Recipe, field))

static gboolean settle_sizes(Recipe *r, const RecipeSource *source, GError **error)
{
  if (!r->hidden)
    return FAIL(hidden, "an integer from 1 to %d", MAX_HIDDEN);
  if (!r->layers)
    return FAIL(layers, "an integer from 1 to %d", MAX_LAYERS);
  if (!r->heads && recipe_has(r, PART_ATTENTION))
    return FAIL(heads, "an integer from 1 to %d", MAX_HEADS);
  if (!r->vocab && !r->patch)
    return FAIL(vocab, "an integer from %d to %d", MIN_VOCAB, MAX_VOCAB);
  if (!r->embed_dim)
    r->embed_dim = r->hidden;
  r->seq_longest = !r->seq;
  if (r->positions <= r->first_position && (r->first_position || !r->seq))
    return FAIL(positions, "an integer from %d to %d", 1 + r->first_position, MAX_SEQ);
  if (!r->seq)
    r->seq = r->positions - r->first_position;
  return TRUE;
}

static gboolean settle_indexer(Recipe *r, const RecipeSource *source, GError **error)
{
  if (!r->index_dim)
    return FAIL(index_dim, "a positive integer beside %s (%d)", KEY(index_heads), r->index_heads);
  if (r->index_block)
    return r->index_blocks ? TRUE : FAIL(index_blocks, "a positive integer beside %s (%d)", KEY(index_heads),
                                         r->index_heads);
  if (!r->index_top)
    return FAIL(index_top, "a positive integer beside %s (%d)", KEY(index_heads), r->index_heads);
  if (!r->q_lora_rank)
    return FAIL(q_lora_rank, "a positive integer beside %s (%d)", KEY(index_heads), r->index_heads);
  return TRUE;
}

static gboolean settle_mla(Recipe *r, const RecipeSource *source, GError **error)
{
  if (!r->nope_dim)
    return FAIL(nope_dim, "a positive integer beside %s (%d)", KEY(kv_lora_rank), r->kv_lora_rank);
  if (!r->rope_dim)
    return FAIL(rope_dim, "a positive integer beside %s (%d)", KEY(kv_lora_rank), r->kv_lora_rank);
  if (!r->v_head_dim)
    return FAIL(v_head_dim, "a positive integer beside %s (%d)", KEY(kv_lora_rank),
                r->kv_lora_rank);
  if (r->gate_of_latent && !r->q_lora_rank)
    return FAIL(q_lora_rank, "a positive integer, as gates are made of the queries' latent");
  if (r->norm_gates && !r->norm_rank)
    return FAIL(norm_rank, "an integer from 1 to %d", MAX_HIDDEN);
  r->head_dim = r->nope_dim + r->rope_dim;
  r->kv_heads = r->heads;
  return !r->index_heads || settle_indexer(r, source, error);
}

static gboolean settle_heads(Recipe *r, const RecipeSource *source, GError **error)
{
  if (!r->heads)
    return TRUE;
  if (r->kv_lora_rank)
    return settle_mla(r, source, error);
  if (!r->head_dim && r->hidden % r->heads)
    return FAIL(hidden, "a multiple of %s (%d), or a %s given", KEY(heads), r->heads,
                KEY(head_dim));
  if (!r->head_dim)
    r->head_dim = r->hidden / r->heads;
  if (r->encoder_heads && r->hidden % r->encoder_heads)
    return FAIL(hidden, "a multiple of %s (%d)", KEY(encoder_heads), r->encoder_heads);
  if (!r->v_head_dim)
    r->v_head_dim = r->head_dim;
  if (!r->kv_heads)
    r->kv_heads = r->heads;
  if (r->index_heads && !settle_indexer(r, source, error))
    return FALSE;
  if (r->heads % r->kv_heads || (r->window_kv_heads && r->heads % r->window_kv_heads) ||
      (r->full_kv_heads && r->heads % r->full_kv_heads))
    return FAIL(kv_heads, "a divisor of %s (%d)", KEY(heads), r->heads);
  return TRUE;
}

static gboolean settle_expert_sizes(Recipe *r, const RecipeSource *source, GError **error)
{
  if (r->experts_per_token < 1 || r->experts_per_token > r->experts)
    return FAIL(experts_per_token, "an integer from 1 to %s (%d)", KEY(experts), r->experts);
  if (r->groups && r->experts % r->groups)
    return FAIL(groups, "a divisor of %s (%d)", KEY(experts), r->experts);
  if (r->first_dense > r->layers)
    return FAIL(first_dense, "at most %s (%d)", KEY(layers), r->layers);
  if (!r->expert_ffn)
    r->expert_ffn = r->ffn;
  if (!r->expert_ffn)
    return FAIL(expert_ffn, "an integer from 1 to %d", MAX_FFN);
  if (r->shared_experts && (gint64)r->shared_experts * r->expert_ffn > MAX_FFN)
    return FAIL(shared_experts, "at most %d experts of width %d", MAX_FFN / r->expert_ffn,
                r->expert_ffn);
  if (r->shared_experts)
    r->shared_ffn = r->shared_experts * r->expert_ffn;
  return TRUE;
}

static gboolean settle_experts(Recipe *r, const RecipeSource *source, GError **error)
{
  if (!r->experts && r->needs_experts)
    return FAIL(experts, "an integer from 1 to %d", MAX_EXPERTS);
  if (!r->experts && recipe_has(r, PART_EXPERTS))
    return FAIL(experts, "an integer from 1 to %d, as layers have experts", MAX_EXPERTS);
  if (!r->ffn && recipe_has(r, PART_DENSE))
    return FAIL(ffn, "an integer from 1 to %d", MAX_FFN);
  return !r->experts || settle_expert_sizes(r, source, error);
}

static gboolean settle_image(Recipe *r, const RecipeSource *source, GError **error)
{
  if (!r->image || r->image % r->patch)
    return FAIL(image, "a multiple of %s (%d)", KEY(patch), r->patch);
  if (!r->channels)
    return FAIL(channels, "an integer from 1 to %d", MAX_CHANNELS);
  r->positions = (r->image / r->patch) * (r->image / r->patch) + 1;
  return TRUE;
}

/* Modules that predict later tokens stand behind the blocks of a decoder, which read the tokens before alone. */
static gboolean settle_mtp(const Recipe *r, const JsonDoc *doc, GError **error)
{
  const char *other = r->encoder_layers             ? "an encoder and a decoder"
                      : r->bidirectional            ? "tokens that see later ones"
                      : r->mlm_head                 ? "a head of masked tokens"
                      : r->side                     ? "an embedding of tokens in each layer"
                      : r->uses                     ? "layers that share weights"
                      : r->keyless                  ? "layers that share keys"
                      : r->streams > 1              ? "several streams of hidden states"
                                                    : NULL;

  return !r->mtp || !other ||
         json_error(doc, json_get(json_root(doc), "mtp_num_layers"), error, "0 in a model with %s", other);
}

gboolean recipe_settle(Recipe *r, const RecipeSource *source, GError **error)
{
  if ((r->patch && !settle_image(r, source, error)) || !settle_mtp(r, source->doc, error))
    return FALSE;
  return settle_sizes(r, source, error) && settle_heads(r, source, error) &&
         recipe_settle_linear(r, source, error) && settle_experts(r, source, error);
}

gboolean recipe_read_sparse(Recipe *r, const JsonDoc *doc, GError **error)
{
  const cJSON *item = json_get(json_root(doc), "sparse_attention");

  if (!item)
    return TRUE;
  const char *other = r->kv_lora_rank ? "latent attention" : r->encoder_layers ? "an encoder and a decoder"
                      : r->window && r->use_window ? "a window" : NULL;
  if (other)
    return json_error(doc, item, error, "none in a model with %s", other);
  r->sparse = sparse_read(doc, item, !r->bidirectional, error);
  return r->sparse != NULL;
}

void recipe_clear(Recipe *r)
{
  sparse_free(r->sparse);
  g_free(r->name);
  g_free(r->dense);
  g_free(r->sliding);
  g_free(r->indexing);
  g_free(r->sparse_gates);
  g_free(r->parts);
  g_free(r->uses);
  g_free(r->ffn_projection);
  g_free(r->topk_method);
  g_free(r->position_type);
  g_free(r->attention_type);
}
