/* How rotary positions are scaled. */
#include "model/recipe.h"

#include <math.h>

gboolean recipe_read_rope_scaling(const JsonDoc *doc, const cJSON *object, RecipeRead *read, Recipe *r, GError **error)
{
  static const JsonField scaling[] = {
    {"rope_type", JSON_ANY},
    {"type", JSON_ANY},
    {"truncate", JSON_ANY},
    RECIPE_REAL("factor", rope_scaling.factor, 0, 1e9),
    RECIPE_REAL("low_freq_factor", rope_scaling.low, 0, 1e9),
    RECIPE_REAL("high_freq_factor", rope_scaling.high, 0, 1e9),
    RECIPE_REAL("original_max_position_embeddings", rope_scaling.tokens, 1, 1e15),
    RECIPE_REAL("beta_fast", rope_scaling.fast, 0, 1e9),
    RECIPE_REAL("beta_slow", rope_scaling.slow, 0, 1e9),
    RECIPE_REAL("mscale", rope_scaling.mscale, 0, 1e3),
    RECIPE_REAL("mscale_all_dim", rope_scaling.mscale_all, 0, 1e3),
    RECIPE_REAL("attention_factor", rope_scaling.attention, 0, 1e3),
  };
  const cJSON *named = json_get(object, "rope_type"), *kind = named ? named : json_get(object, "type");

  if (!cJSON_IsString(kind) || g_str_equal(kind->valuestring, "default"))
    return TRUE;
  r->rope_scaling.kind = g_intern_string(kind->valuestring);
  r->rope_scaling.exact = cJSON_IsFalse(json_get(object, "truncate"));
  return read(doc, object, scaling, G_N_ELEMENTS(scaling), r, error);
}

static double yarn_scale(double factor, double share)
{
  return factor > 1 ? 0.1 * share * log(factor) + 1 : 1;
}

double rope_scale(const RopeScaling *s)
{
  if (g_strcmp0(s->kind, "yarn") != 0)
    return 1;
  if (s->attention > 0)
    return s->attention;
  if (s->mscale > 0 && s->mscale_all > 0)
    return yarn_scale(s->factor, s->mscale) / yarn_scale(s->factor, s->mscale_all);
  return yarn_scale(s->factor, 1);
}
