/* Hugging Face configs of families whose tokens go through layers again: how many layers, and in which order. */
#include "model/recipe.h"

/* What files say of loops, each with what stands for a key that is absent. */
typedef struct {
  int first, again, last, times;   /* of LOOPS_SECTION: layers before, in and behind the section, and its times */
  int stack, high, low;            /* of LOOPS_CYCLES: layers of a stack, cycles of the two */
} Loops;

#define LOOP_INT(key, field, low, high) {key, JSON_INT, offsetof(Loops, field), FALSE, low, high}

static const JsonField section[] = {
  LOOP_INT("n_input_layers", first, 0, MAX_LAYERS), LOOP_INT("n_recurrent_layers", again, 0, MAX_LAYERS),
  LOOP_INT("n_output_layers", last, 0, MAX_LAYERS), LOOP_INT("n_recurrent_loops", times, 1, MAX_LAYERS),
};
static const JsonField cycles[] = {
  LOOP_INT("num_layers_per_stack", stack, 1, MAX_LAYERS), LOOP_INT("H_cycles", high, 1, MAX_LAYERS),
  LOOP_INT("L_cycles", low, 1, MAX_LAYERS),
};

/* Dory's published files list an attention and a feed-forward for each layer, and count both. */
static gboolean lists_parts(const RecipeSource *source, const Recipe *r)
{
  const cJSON *item;

  if (r->loops == LOOPS_SECTION)
    cJSON_ArrayForEach(item, json_get(source->object, "layer_types"))
      if (cJSON_IsString(item) && g_str_equal(item->valuestring, "mlp"))
        return TRUE;
  return FALSE;
}

gboolean huggingface_count_loops(const RecipeSource *source, Recipe *r, GError **error)
{
  Loops loops = {0};

  if (lists_parts(source, r))
    r->layers /= 2;
  if (r->loops != LOOPS_CYCLES)
    return TRUE;
  if (!json_read_foreign(source->doc, source->object, cycles, G_N_ELEMENTS(cycles), &loops, error))
    return FALSE;
  r->layers = 2 * (loops.stack ? loops.stack : r->layers);
  return TRUE;
}

/* Of each layer whether it has a window. */
static gboolean read_windows(const RecipeSource *source, Recipe *r, GError **error)
{
  static const char *const kinds[] = { "full_attention", "sliding_attention", NULL };
  const cJSON *types = json_get(source->object, "layer_types");
  int parts = lists_parts(source, r) ? 2 : 1;

  if (!types || cJSON_IsNull(types))
    return TRUE;
  if (!cJSON_IsArray(types) || cJSON_GetArraySize(types) != parts * r->layers)
    return json_error(source->doc, types, error, "an array of %d strings", parts * r->layers);
  r->sliding = g_new0(guint8, r->layers);
  for (int i = 0; i < r->layers; i++) {
    const cJSON *item = cJSON_GetArrayItem(types, parts * i);
    int kind = cJSON_IsString(item) ? names_find(kinds, item->valuestring) : -1;
    if (kind < 0)
      return json_error(source->doc, item, error, "one of full_attention, sliding_attention");
    r->sliding[i] = kind == 1;
  }
  return TRUE;
}

static void add_use(Recipe *r, BlockUse use)
{
  r->uses = g_renew(BlockUse, r->uses, r->n_uses + 1);
  r->uses[r->n_uses++] = use;
}

static gboolean check_uses(const RecipeSource *source, gint64 uses, GError **error)
{
  return uses <= MAX_LAYERS ||
         source_error(source, offsetof(Recipe, layers), error, "at most %d layers with those that come again",
                      MAX_LAYERS);
}

/* The section starts each time from a norm of what it gave, and from what the layers before it did. */
static gboolean read_section(const RecipeSource *source, Recipe *r, GError **error)
{
  int parts = lists_parts(source, r) ? 2 : 1;
  Loops loops = { .first = 8 * parts, .last = 8 * parts, .times = 2, .again = -1 };

  if (!read_windows(source, r, error) ||
      !json_read_foreign(source->doc, source->object, section, G_N_ELEMENTS(section), &loops, error))
    return FALSE;
  loops.first /= parts;
  loops.last /= parts;
  int again = loops.again < 0 ? r->layers - loops.first - loops.last : loops.again / parts;
  if (again < 0)
    return source_error(source, offsetof(Recipe, layers), error, "at least n_input_layers (%d) + n_output_layers (%d)",
                        loops.first * parts, loops.last * parts);
  if (loops.first + again + loops.last != r->layers)
    return source_error(source, offsetof(Recipe, layers), error,
                        "n_input_layers (%d) + n_recurrent_layers (%d) + n_output_layers (%d)", loops.first * parts,
                        again * parts, loops.last * parts);
  if (!check_uses(source, loops.first + (gint64)loops.times * again + loops.last, error))
    return FALSE;
  for (int i = 0; i < loops.first; i++)
    add_use(r, (BlockUse) { .layer = i });
  for (int time = 0; time < loops.times; time++)
    for (int i = 0; i < again; i++)
      add_use(r, (BlockUse) { .layer = loops.first + i, .reused = time > 0, .joined = i == 0, .norms = i == 0 });
  for (int i = r->layers - loops.last; i < r->layers; i++)
    add_use(r, (BlockUse) { .layer = i });
  return TRUE;
}

/* Of the low stack's cycles in each of the high one's so many pass gradients, of which the last ones are listed. */
static gboolean read_passing(const RecipeSource *source, const Loops *loops, int *passing, GError **error)
{
  const cJSON *list = json_get(source->object, "L_bp_cycles");
  int n = 1;

  if (list && !cJSON_IsNull(list)) {
    n = json_get_ints(source->doc, list, passing, loops->high, 0, loops->low, error);
    if (n < 0)
      return FALSE;
  } else {
    passing[0] = 2;
  }
  for (int i = loops->high - 1; i >= 0; i--)
    passing[i] = i >= loops->high - n ? passing[i - (loops->high - n)] : 1;
  return TRUE;
}

/* One time through a stack, whose last layer has a norm more. */
static void add_stack(Recipe *r, int first, int n, BlockUse use)
{
  for (int i = 0; i < n; i++)
    add_use(r, (BlockUse) { .layer = first + i, .reused = use.reused, .detached = use.detached, .joined = i == 0,
                            .norms = i == n - 1 });
}

static gboolean read_cycles(const RecipeSource *source, Recipe *r, GError **error)
{
  Loops loops = { .high = 2, .low = 3 };
  int n = r->layers / 2;

  if (!json_read_foreign(source->doc, source->object, cycles, G_N_ELEMENTS(cycles), &loops, error) ||
      !check_uses(source, (gint64)n * loops.high * (loops.low + 1), error))
    return FALSE;
  g_autofree int *passing = g_new0(int, loops.high);
  if (!read_passing(source, &loops, passing, error))
    return FALSE;
  for (int high = 0; high < loops.high; high++) {
    for (int low = 0; low < loops.low; low++)
      add_stack(r, 0, n, (BlockUse) { .reused = high + low > 0, .detached = low < loops.low - passing[high] });
    add_stack(r, n, n, (BlockUse) { .reused = high > 0 });
  }
  return TRUE;
}

gboolean huggingface_read_loops(const RecipeSource *source, Recipe *r, GError **error)
{
  if (!r->layers || r->loops == LOOPS_NONE)
    return TRUE;
  return r->loops == LOOPS_SECTION ? read_section(source, r, error) : read_cycles(source, r, error);
}
