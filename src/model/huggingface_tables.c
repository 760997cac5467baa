/* Tables of Hugging Face configs beside those of tokens: of their sounds and shapes (RoCBERT), of prompts and segments
 * (CPM-Ant). */
#include "model/recipe.h"

#define MAX_SEGMENTS 128 /* whose pairs each head has biases for */

enum { SHAPES, SOUNDS };

/* Of tables that are not enabled no rows are read, but they are held. */
static gboolean read_beside(const RecipeSource *source, Recipe *r, GError **error)
{
  static const JsonField sizes[] = {
    RECIPE_INT("shape_vocab_size", beside[SHAPES].rows, 1, MAX_VOCAB),
    RECIPE_INT("shape_embed_dim", beside[SHAPES].width, 1, MAX_HIDDEN),
    RECIPE_INT("pronunciation_vocab_size", beside[SOUNDS].rows, 1, MAX_VOCAB),
    RECIPE_INT("pronunciation_embed_dim", beside[SOUNDS].width, 1, MAX_HIDDEN),
    RECIPE_BOOL("concat_input", beside_joined),
  };
  static const char *const enabled[] = { "enable_shape", "enable_pronunciation" };

  if (!json_read_foreign(source->doc, source->object, sizes, G_N_ELEMENTS(sizes), r, error))
    return FALSE;
  r->beside_read = 0;
  for (gsize i = 0; i < G_N_ELEMENTS(r->beside); i++) {
    const cJSON *item = json_get(source->object, enabled[i]);
    if (r->beside_joined)
      r->beside_read += cJSON_IsFalse(item) ? 0 : r->beside[i].width;
    else if (r->beside[i].width != r->hidden)
      return source_error(source, offsetof(Recipe, hidden), error, "%d as %s, whose rows are added to tokens'",
                          r->beside[i].width, sizes[2 * i + 1].key);
  }
  return TRUE;
}

static gboolean read_segments(const RecipeSource *source, Recipe *r, GError **error)
{
  static const JsonField sizes[] = {
    RECIPE_INT("dim_head", head_dim, 1, MAX_HEAD_DIM), RECIPE_INT("dim_ff", ffn, 1, MAX_FFN),
    RECIPE_INT("position_bias_num_buckets", buckets, 1, 65536),
    RECIPE_INT("position_bias_max_distance", positions, 1, MAX_SEQ),
    RECIPE_INT("segment_types", segments, 1, MAX_SEGMENTS), RECIPE_INT("prompt_types", prompt_rows, 1, 65536),
    RECIPE_INT("prompt_length", prompts, 1, 4096), RECIPE_REAL("dropout_p", dropout, 0, 1),
    RECIPE_REAL("eps", norm_epsilon, 1e-30, 1),
  };

  return json_read_foreign(source->doc, source->object, sizes, G_N_ELEMENTS(sizes), r, error);
}

gboolean huggingface_read_tables(const RecipeSource *source, Recipe *r, GError **error)
{
  return (!r->has_beside || read_beside(source, r, error)) && (!r->segments || read_segments(source, r, error));
}
