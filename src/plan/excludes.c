#include "plan/excludes.h"

/* Of passes, what may stand beside states: no choice of a space that stands for another one differs in it. */
#define BESIDE_STATES (G_GUINT64_CONSTANT(1) << FEATURE_EXCHANGE_OVERLAP | G_GUINT64_CONSTANT(1) << FEATURE_RECORDED_LAYERS)

/* Those that read a part, and nothing behind it. */
static guint64 features_of(guint64 features, PlanPart part)
{
  guint64 of = 0;

  for (guint64 left = features; left; left &= left - 1)
    if (feature_part(__builtin_ctzll(left)) == part)
      of |= left & -left;
  return of;
}

static gboolean read_feature(const JsonDoc *doc, const cJSON *entry, const char *name, Exclusion *out, GError **error)
{
  Feature feature = feature_named(name);

  if (feature == FEATURE_COUNT)
    return json_error(doc, entry, error, "a key of features of src/plan/feature.c joined by \" with \"");
  if (!out->features)
    out->changed = feature;
  out->features |= G_GUINT64_CONSTANT(1) << feature;
  out->reads = MAX(out->reads, (int)feature_part(feature));
  return TRUE;
}

static gboolean read_exclusion(const JsonDoc *doc, const cJSON *entry, GArray *list, GError **error)
{
  g_auto(GStrv) names = g_strsplit(entry->string, " with ", -1);
  Exclusion e = { 0 };

  for (int i = 0; names[i]; i++)
    if (!read_feature(doc, entry, names[i], &e, error))
      return FALSE;
  if (!cJSON_IsString(entry) || list->len == EXCLUSIONS_MAX)
    return json_error(doc, entry, error, "a string that says why, of at most %d", EXCLUSIONS_MAX);
  e.beside_states = e.reads == PLAN_STATES ? features_of(e.features, PLAN_PASSES) : 0;
  if (e.beside_states & ~BESIDE_STATES)
    return json_error(doc, entry, error, "no feature of passes beside one of states, but exchange_overlap and "
                      "recorded_layers");
  g_array_append_val(list, e);
  g_array_index(list, Exclusion, list->len - 1).reason = g_strdup(entry->valuestring);
  return TRUE;
}

static void clear_exclusion(gpointer exclusion)
{
  g_free(((Exclusion *)exclusion)->reason);
}

GArray *exclusions_read(const JsonDoc *doc, const cJSON *framework, GError **error)
{
  const cJSON *object = json_get_object(doc, framework, "excludes", FALSE, error), *entry;

  if (!object)
    return NULL;
  GArray *list = g_array_new(FALSE, FALSE, sizeof(Exclusion));
  g_array_set_clear_func(list, clear_exclusion);
  cJSON_ArrayForEach(entry, object)
    if (!read_exclusion(doc, entry, list, error)) {
      g_array_unref(list);
      return NULL;
    }
  return list;
}
