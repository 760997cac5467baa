/* Which parts each layer has, and the sizes of linear attention. */
#include "model/recipe.h"

#include <string.h>

static const char letters[] = "M*H-E";
static const guint parts_of_letters[] = {PART_LINEAR, PART_ATTENTION, PART_LINEAR | PART_ATTENTION, PART_DENSE,
                                          PART_EXPERTS};

static guint part_of(char letter)
{
  const char *at = letter ? strchr(letters, letter) : NULL;

  return at ? parts_of_letters[at - letters] : 0;
}

guint recipe_pattern_parts(const char *text)
{
  guint parts = 0;

  for (; *text; text++) {
    guint part = part_of(*text);
    if (!part || parts & (part & PART_MIXERS ? PART_MIXERS | PART_FEEDS : PART_FEEDS))
      return 0;
    parts |= part;
  }
  return parts;
}

gboolean recipe_read_pattern(Recipe *r, const JsonDoc *doc, const cJSON *item, GError **error)
{
  const char *text = cJSON_IsString(item) ? item->valuestring : "";
  gsize n = strlen(text);

  if (!item)
    return TRUE;
  if (!n || n > MAX_LAYERS || strspn(text, letters) != n || (r->single && strchr(text, 'H')))
    return json_error(doc, item, error,
                      "a letter for each layer: M linear attention, * attention, %s- feed-forward, E experts",
                      r->single ? "" : "H both, ");
  if (!r->layers)
    r->layers = (int)n;
  if ((gsize)r->layers != n)
    return json_error(doc, item, error, "%d letters, one a layer, not %d", r->layers, (int)n);
  r->parts = g_new(guint8, n);
  for (gsize i = 0; i < n; i++)
    r->parts[i] = (guint8)part_of(text[i]);
  return TRUE;
}

void recipe_read_interval(Recipe *r)
{
  if (r->parts || !r->attention_every || !r->layers)
    return;
  r->parts = g_new(guint8, r->layers);
  for (int i = 0; i < r->layers; i++)
    r->parts[i] = PART_FEED | ((i + 1) % r->attention_every == 0 ? PART_ATTENTION : PART_LINEAR);
}

gboolean recipe_has(const Recipe *r, guint parts)
{
  for (int i = 0; i < r->layers; i++)
    if (recipe_parts(r, i) & parts)
      return TRUE;
  return FALSE;
}

#define FAIL(field, ...) source_error(source, offsetof(Recipe, field), error, __VA_ARGS__)
#define KEY(field) source_key(source, offsetof(Recipe, field))

/* Tokens that kernels take at once where the file does not say: those of Mamba's, and of flash-linear-attention. */
static int usual_chunk(LinearKind kind)
{
  return kind == LINEAR_GATED_DELTA || kind == LINEAR_KIMI_DELTA || kind == LINEAR_MLSTM ? 64 : 256;
}

/* A head for each channel, which shares nothing with others. */
static void settle_channels(Recipe *r)
{
  if (!r->linear_heads && !r->linear_head_dim)
    r->linear_heads = r->hidden * (r->linear_expand ? r->linear_expand : r->linear == LINEAR_MAMBA1 ? 2 : 1);
  r->linear_heads *= MAX(r->linear_head_dim, 1);
  r->linear_head_dim = 1;
  r->linear_groups = r->linear_heads;
  if (r->linear == LINEAR_MAMBA1 && !r->linear_rank)
    r->linear_rank = (r->hidden + 15) / 16;
}

gboolean recipe_settle_linear(Recipe *r, const RecipeSource *source, GError **error)
{
  if (!recipe_has(r, PART_LINEAR)) {
    r->linear_heads = 0;
    return TRUE;
  }
  if (r->linear != LINEAR_MAMBA1 && r->linear != LINEAR_KIMI_DELTA)
    r->linear_rank = 0; /* files of other kinds have the key, and no product of that width */
  if (r->linear != LINEAR_MAMBA1)
    r->step_norms = r->bare_step_norms = FALSE;
  if (r->linear == LINEAR_SHORT_CONV && !r->linear_conv)
    return FAIL(linear_conv, "an integer from 1");
  if (linear_by_channel(r->linear))
    settle_channels(r);
  if (!r->linear_heads && r->linear_expand && r->linear_head_dim)
    r->linear_heads = (int)((gint64)r->linear_expand * r->hidden / r->linear_head_dim);
  if (!r->linear_heads || r->linear_heads > MAX_HEADS)
    return FAIL(linear_heads, "an integer from 1 to %d", MAX_HEADS);
  if (!r->linear_head_dim)
    return FAIL(linear_head_dim, "an integer from 1 to %d", MAX_HEAD_DIM);
  if (r->linear == LINEAR_RG_LRU && (!r->linear_blocks || r->linear_heads % r->linear_blocks))
    return FAIL(heads, "a divisor of the %d channels", r->linear_heads);
  if (!r->linear_state && (!linear_by_channel(r->linear) || r->linear == LINEAR_MAMBA1))
    return FAIL(linear_state, "an integer from 1 to %d", MAX_HEAD_DIM);
  if (!r->linear_groups)
    r->linear_groups = r->linear == LINEAR_MAMBA2 ? 1 : r->linear_heads;
  if (r->linear_heads % r->linear_groups)
    return FAIL(linear_groups, "a divisor of %s (%d)", KEY(linear_heads), r->linear_heads);
  if (!r->linear_chunk)
    r->linear_chunk = usual_chunk(r->linear);
  return TRUE;
}
