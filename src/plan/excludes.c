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
  if (out->features >> feature & 1)
    return json_error(doc, entry, error, "each feature once");
  if (!out->features)
    out->changed = feature;
  out->features |= G_GUINT64_CONSTANT(1) << feature;
  out->reads = MAX(out->reads, (int)feature_part(feature));
  return TRUE;
}

static gboolean read_exclusion(const JsonDoc *doc, const cJSON *entry, Exclusion *out, GError **error)
{
  g_auto(GStrv) names = g_strsplit(entry->string, " with ", -1);
  Exclusion e = { 0 };

  for (int i = 0; names[i]; i++)
    if (!read_feature(doc, entry, names[i], &e, error))
      return FALSE;
  e.beside_states = e.reads == PLAN_STATES ? features_of(e.features, PLAN_PASSES) : 0;
  if (e.beside_states & ~BESIDE_STATES)
    return json_error(doc, entry, error, "no feature of passes beside one of states, but exchange_overlap and "
                      "recorded_layers");
  *out = e;
  return TRUE;
}

static void clear_exclusion(gpointer exclusion)
{
  g_free(((Exclusion *)exclusion)->reason);
}

static GArray *new_list(void)
{
  GArray *list = g_array_new(FALSE, FALSE, sizeof(Exclusion));

  g_array_set_clear_func(list, clear_exclusion);
  return list;
}

/* The place of the same features, in whatever order, or behind all. */
static guint find_exclusion(const GArray *list, guint64 features)
{
  guint at = 0;

  while (at < list->len && g_array_index(list, Exclusion, at).features != features)
    at++;
  return at;
}

/* Sets what an entry says, in its place where the same features stand already, or takes those away; `told`: those that
 * its object has said something of, guint64. */
static gboolean change_list(const JsonDoc *doc, const cJSON *entry, gboolean takes, GArray *list, GArray *told,
                            GError **error)
{
  Exclusion e;

  if (!read_exclusion(doc, entry, &e, error))
    return FALSE;
  for (guint i = 0; i < told->len; i++)
    if (g_array_index(told, guint64, i) == e.features)
      return json_error(doc, entry, error, "the same features once, in whatever order");
  g_array_append_val(told, e.features);
  guint at = find_exclusion(list, e.features);
  gboolean stands = at < list->len;
  if (takes && !stands)
    return json_error(doc, entry, error, "a string that says why: nothing that is excluded by now is to be taken away");
  if (!takes && (!cJSON_IsString(entry) || (!stands && at == EXCLUSIONS_MAX)))
    return json_error(doc, entry, error, "a string that says why, of at most %d", EXCLUSIONS_MAX);
  if (stands)
    g_array_remove_index(list, at);
  if (takes)
    return TRUE;
  e.reason = g_strdup(entry->valuestring);
  g_array_insert_val(list, at, e);
  return TRUE;
}

/* An object of them; of changes, null takes away. */
static gboolean read_list(const JsonDoc *doc, const cJSON *object, gboolean changes, GArray *list, GError **error)
{
  g_autoptr(GArray) told = g_array_new(FALSE, FALSE, sizeof(guint64));
  const cJSON *entry;

  cJSON_ArrayForEach(entry, object)
    if (!change_list(doc, entry, changes && cJSON_IsNull(entry), list, told, error))
      return FALSE;
  return TRUE;
}

gboolean exclusions_read(const JsonDoc *doc, const cJSON *framework, GArray **list, GError **error)
{
  const cJSON *own = json_get(framework, "excludes"), *changes = json_get(framework, "excludes_changes");

  if (own && !json_get_object(doc, framework, "excludes", TRUE, error))
    return FALSE;
  if (changes && !json_get_object(doc, framework, "excludes_changes", TRUE, error))
    return FALSE;
  if (own)
    g_clear_pointer(list, g_array_unref);
  if ((own || changes) && !*list)
    *list = new_list();
  return read_list(doc, own, FALSE, *list, error) && read_list(doc, changes, TRUE, *list, error);
}
