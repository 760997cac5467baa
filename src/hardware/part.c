#include "hardware/part.h"

#include <string.h>

#include "base/error.h"
#include "base/files.h"

enum { DEPTH_MAX = 12, FIELDS_MAX = 40 };

const char *const provenance_names[] = {"default", "yours", "datasheet", "fitted", "measured", NULL};

/* The words a source may begin with. */
static const struct {
  const char *word;
  Provenance provenance;
} source_words[] = {
  {"measured: ", PROVENANCE_MEASURED}, {"fitted: ", PROVENANCE_FITTED},
  {"datasheet: ", PROVENANCE_DATASHEET}, {"derived: ", PROVENANCE_DATASHEET},
  {"default: ", PROVENANCE_DEFAULT},
};

/* ---- sources ---- */

/* Whether a file is a user's own, whose numbers need no source: one that is there, and not in hardware/. */
static gboolean is_private(const JsonDoc *doc)
{
  g_autofree char *path = g_canonicalize_filename(json_name(doc), NULL);
  g_autofree char *own = files_data_path("hardware"), *hardware = g_canonicalize_filename(own, NULL);
  gsize length = strlen(hardware);
  gboolean inside = strncmp(path, hardware, length) == 0 && path[length] == '/';
  return !inside && (g_str_equal(json_name(doc), "stdin") || g_file_test(path, G_FILE_TEST_EXISTS));
}

static gboolean source_provenance(const JsonDoc *doc, const cJSON *item, Provenance *out, GError **error)
{
  const char *text = cJSON_IsString(item) ? item->valuestring : "";
  for (gsize i = 0; i < G_N_ELEMENTS(source_words); i++) {
    const char *word = source_words[i].word;
    if (g_str_has_prefix(text, word) && text[strlen(word)]) {
      *out = source_words[i].provenance;
      return TRUE;
    }
  }
  *out = PROVENANCE_YOURS;
  return (cJSON_IsString(item) && is_private(doc)) ||
         json_error(doc, item, error,
                    "text that begins with \"measured: \", \"fitted: \", \"datasheet: \", "
                    "\"derived: \" or \"default: \"");
}

static gboolean holds_numbers(const cJSON *item)
{
  return cJSON_IsNumber(item) || (cJSON_IsArray(item) && cJSON_IsNumber(item->child));
}

/* Each key of a `source` object is a number of the object beside it, or "*". */
static gboolean check_source_keys(const PartSource *source, const cJSON *sources, GError **error)
{
  const cJSON *item;
  cJSON_ArrayForEach(item, sources) {
    Provenance provenance;
    if (!source_provenance(source->doc, item, &provenance, error))
      return FALSE;
    if (strcmp(item->string, "*") != 0 && !holds_numbers(json_get(source->object, item->string)))
      return json_error(source->doc, item, error, "no source here: \"%s\" is not a number of this object",
                        item->string);
  }
  return TRUE;
}

static const cJSON *source_of(const cJSON *sources, const char *key)
{
  if (!cJSON_IsObject(sources))
    return sources;
  const cJSON *own = json_get(sources, key);
  return own ? own : json_get(sources, "*");
}

static gboolean check_sources(const PartSource *source, Provenance *weakest, GError **error)
{
  const cJSON *sources = json_get(source->object, "source");
  Provenance provenance = PROVENANCE_MEASURED;
  if (cJSON_IsObject(sources)) {
    if (!check_source_keys(source, sources, error))
      return FALSE;
  } else if (sources && !source_provenance(source->doc, sources, &provenance, error)) {
    return FALSE;
  }
  const cJSON *item;
  cJSON_ArrayForEach(item, source->object) {
    if (!holds_numbers(item))
      continue;
    const cJSON *own = source_of(sources, item->string);
    if (!own && !is_private(source->doc))
      return json_error(source->doc, item, error, "a source for this number, in \"source\" beside it");
    provenance = PROVENANCE_YOURS;
    if (own && !source_provenance(source->doc, own, &provenance, error))
      return FALSE;
    if (weakest)
      *weakest = MIN(*weakest, provenance);
  }
  return TRUE;
}

gboolean part_provenance(const PartSource *source, const char *key, Provenance *out)
{
  const cJSON *item = json_get(source->object, key);
  const cJSON *own = item ? source_of(json_get(source->object, "source"), key) : NULL;
  *out = item && !own ? PROVENANCE_YOURS : *out;
  return own ? source_provenance(source->doc, own, out, NULL) : item && is_private(source->doc);
}

/* ---- objects ---- */

/* The file's base name, of a part in a user's own file that says none; NULL = the field is not that, or must be said. */
static char *name_by_file(const PartSource *source, const JsonField *field)
{
  if (!source->is_part || source->partial || strcmp(field->key, "name") != 0 || json_get(source->object, "name") ||
      !is_private(source->doc))
    return NULL;
  g_autofree char *name = g_path_get_basename(json_name(source->doc));
  if (g_str_has_suffix(name, ".json"))
    name[strlen(name) - strlen(".json")] = '\0';
  gboolean fits = *name && g_utf8_validate(name, -1, NULL);
  for (const char *c = name; fits && *c; c++)
    fits = !g_ascii_iscntrl(*c);
  return fits ? g_steal_pointer(&name) : NULL;
}

gboolean part_fields(const PartSource *source, const JsonField *fields, gsize n_fields, gpointer out,
                     Provenance *weakest, GError **error)
{
  static const char *const common[] = {"note", "source", "like"};
  gsize n_common = source->is_part ? 3 : 2;
  JsonField all[FIELDS_MAX];
  g_assert(n_fields + n_common <= FIELDS_MAX);
  for (gsize i = 0; i < n_fields; i++) {
    g_autofree char *name = name_by_file(source, &fields[i]);
    all[i] = fields[i];
    all[i].required = fields[i].required && !source->partial && !name;
    if (name && fields[i].type == JSON_STRING) {
      g_free(G_STRUCT_MEMBER(char *, out, fields[i].offset));
      G_STRUCT_MEMBER(char *, out, fields[i].offset) = g_steal_pointer(&name);
    }
  }
  for (gsize i = 0; i < n_common; i++)
    all[n_fields + i] = (JsonField){.key = common[i], .type = JSON_ANY};
  if (!json_read(source->doc, source->object, all, n_fields + n_common, out, error))
    return FALSE;
  const cJSON *note = json_get(source->object, "note");
  if (note && !cJSON_IsString(note))
    return json_error(source->doc, note, error, "text");
  return check_sources(source, weakest, error);
}

gboolean part_inside(const PartSource *above, const cJSON *item, PartSource *inside, GError **error)
{
  *inside = (PartSource){.doc = above->doc, .object = item, .depth = above->depth + 1, .digest = above->digest};
  return cJSON_IsObject(item) || json_error(above->doc, item, error, "an object");
}

gboolean part_missing(const PartSource *source, const char *key, GError **error, const char *expected)
{
  return json_missing(source->doc, source->object, key, expected, error);
}

/* ---- files ---- */

/* ", did you mean ..." or "" for a name that no file of the folder has. */
static char *hint_file(const char *below, const char *name)
{
  g_auto(GStrv) names = files_names(below);
  g_autofree char *hint = names_hint((const char *const *)names, name);
  return g_strconcat(hint ? ", " : "", hint, NULL);
}

/* A path as it is written, or relative to the file `beside` that holds it. */
static char *relative_path(const char *name, const char *beside)
{
  gboolean is_file = beside && strchr(beside, '/');
  if (g_path_is_absolute(name) || !is_file)
    return g_strdup(name);
  g_autofree char *folder = g_path_get_dirname(beside);
  return g_build_filename(folder, name, NULL);
}

static char *find_bare(const PartKind *kind, const char *name, GError **error)
{
  g_autofree char *below = g_build_filename("hardware", kind->folder, NULL);
  g_autofree char *folder = files_data_path(below);
  gboolean has_suffix = g_str_has_suffix(name, ".json");
  g_autofree char *file = g_strdup_printf("%s/%s%s", folder, name, has_suffix ? "" : ".json");
  if (g_file_test(file, G_FILE_TEST_EXISTS))
    return g_steal_pointer(&file);
  g_autofree char *hint = hint_file(below, name);
  input_error(error, "\"%s\": expected the name of a %s, a file in %s%s", name, kind->what, folder, hint);
  return NULL;
}

/* Path of the file that holds the part; `beside` is the file that names it. */
static char *find_file(const PartKind *kind, const char *name, const char *beside, GError **error)
{
  if (!strchr(name, '/'))
    return find_bare(kind, name, error);
  g_autofree char *path = relative_path(name, beside);
  if (g_file_test(path, G_FILE_TEST_EXISTS))
    return g_steal_pointer(&path);
  input_error(error, "\"%s\": expected the file of a %s, but there is no %s", name, kind->what, path);
  return NULL;
}

/* ---- parts ---- */

static gboolean read_item(const PartKind *kind, const PartSource *above, const cJSON *item, gboolean whole,
                          gpointer out, GError **error);

/* `whole`: nothing will be laid over this object, so the part is finished here. */
static gboolean read_object(const PartKind *kind, PartSource *source, gboolean whole, gpointer out, GError **error)
{
  const cJSON *like = json_get(source->object, "like");
  source->is_part = TRUE;
  source->partial = like != NULL;
  if (like && !cJSON_IsString(like))
    return json_error(source->doc, like, error, "the name of a %s", kind->what);
  if (like && !read_item(kind, source, like, FALSE, out, error))
    return FALSE;
  if (!kind->read(source, out, error))
    return FALSE;
  return !whole || !kind->finish || kind->finish(source, out, error);
}

static gboolean refuse_name(const PartSource *above, const cJSON *item, const char *why, GError **error)
{
  g_autofree char *path = json_path(above->doc, item);

  return input_error(error, "%s: %s%s%s", json_name(above->doc), path, *path ? ": " : "", why);
}

static gboolean read_named(const PartKind *kind, const PartSource *above, const cJSON *item, gboolean whole,
                           gpointer out, GError **error)
{
  g_autoptr(GError) why = NULL;
  g_autofree char *file = find_file(kind, item->valuestring, json_name(above->doc), &why);
  if (!file)
    return refuse_name(above, item, why->message, error);
  g_autoptr(JsonDoc) doc = json_load(file, &why);
  if (!doc)
    return refuse_name(above, item, why->message, error);
  if (above->digest)
    json_digest(doc, above->digest);
  PartSource root = {.doc = doc, .depth = above->depth, .digest = above->digest};
  PartSource source;
  return part_inside(&root, json_root(doc), &source, error) && read_object(kind, &source, whole, out, error);
}

static gboolean read_item(const PartKind *kind, const PartSource *above, const cJSON *item, gboolean whole,
                          gpointer out, GError **error)
{
  if (above->depth >= DEPTH_MAX)
    return json_error(above->doc, item, error, "a %s that does not lead back to itself", kind->what);
  if (cJSON_IsString(item))
    return read_named(kind, above, item, whole, out, error);
  PartSource source = {.doc = above->doc, .object = item, .depth = above->depth + 1, .digest = above->digest};
  if (!cJSON_IsObject(item))
    return json_error(above->doc, item, error, "the name of a %s, or an object", kind->what);
  return read_object(kind, &source, whole, out, error);
}

gboolean part_read(const PartKind *kind, const PartSource *above, const cJSON *item, gpointer out, GError **error)
{
  return read_item(kind, above, item, TRUE, out, error);
}

gboolean part_read_doc(const PartKind *kind, const JsonDoc *doc, GChecksum *digest, gpointer out, GError **error)
{
  PartSource root = {.doc = doc, .digest = digest};
  if (!cJSON_IsObject(json_root(doc)))
    return json_error(doc, json_root(doc), error, "an object");
  if (digest)
    json_digest(doc, digest);
  return part_read(kind, &root, json_root(doc), out, error);
}

gboolean part_load(const PartKind *kind, const char *name, gpointer out, GError **error)
{
  g_autofree char *file = find_file(kind, name, NULL, error);
  if (!file)
    return FALSE;
  g_autoptr(JsonDoc) doc = json_load(file, error);
  return doc && part_read_doc(kind, doc, NULL, out, error);
}
