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
  if (!r->linear.heads && !r->linear.head_dim)
    r->linear.heads = r->hidden * (r->linear_expand ? r->linear_expand : r->linear.kind == LINEAR_MAMBA1 ? 2 : 1);
  r->linear.heads *= MAX(r->linear.head_dim, 1);
  r->linear.head_dim = 1;
  r->linear.groups = r->linear.heads;
  if (r->linear.kind == LINEAR_MAMBA1 && !r->linear.rank)
    r->linear.rank = (r->hidden + 15) / 16;
}

gboolean recipe_settle_linear(Recipe *r, const RecipeSource *source, GError **error)
{
  if (!recipe_has(r, PART_LINEAR)) {
    r->linear.heads = 0;
    return TRUE;
  }
  if (r->linear.kind != LINEAR_MAMBA1 && r->linear.kind != LINEAR_KIMI_DELTA)
    r->linear.rank = 0; /* files of other kinds have the key, and no product of that width */
  if (r->linear.kind != LINEAR_MAMBA1)
    r->linear.step_norms = r->linear.bare_step_norms = FALSE;
  if (r->linear.kind == LINEAR_SHORT_CONV && !r->linear.conv)
    return FAIL(linear.conv, "an integer from 1");
  if (linear_by_channel(r->linear.kind))
    settle_channels(r);
  if (!r->linear.heads && r->linear_expand && r->linear.head_dim)
    r->linear.heads = (int)((gint64)r->linear_expand * r->hidden / r->linear.head_dim);
  if (!r->linear.heads || r->linear.heads > MAX_HEADS)
    return FAIL(linear.heads, "an integer from 1 to %d", MAX_HEADS);
  if (!r->linear.head_dim)
    return FAIL(linear.head_dim, "an integer from 1 to %d", MAX_HEAD_DIM);
  if (r->linear.kind == LINEAR_RG_LRU && (!r->linear.blocks || r->linear.heads % r->linear.blocks))
    return FAIL(heads, "a divisor of the %d channels", r->linear.heads);
  if (!r->linear.state && (!linear_by_channel(r->linear.kind) || r->linear.kind == LINEAR_MAMBA1))
    return FAIL(linear.state, "an integer from 1 to %d", MAX_HEAD_DIM);
  if (!r->linear.groups)
    r->linear.groups = r->linear.kind == LINEAR_MAMBA2 ? 1 : r->linear.heads;
  if (r->linear.heads % r->linear.groups)
    return FAIL(linear.groups, "a divisor of %s (%d)", KEY(linear.heads), r->linear.heads);
  if (!r->linear.chunk)
    r->linear.chunk = usual_chunk(r->linear.kind);
  r->linear.conv_bias = r->linear.conv_bias && r->linear.conv;
  return TRUE;
}
