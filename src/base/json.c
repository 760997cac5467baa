#include "base/json.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_syntax.h"
#include "base/units.h"

enum { VALUE_CHARS = 40, KEY_CHARS = 80 };

struct JsonDoc {
  char *name;
  cJSON *root;
};

/* ---- messages ---- */

static char *quoted(const char *text)
{
  GString *out = g_string_new(NULL);
  JsonWriter w;
  json_writer_init(&w, out);
  json_put_string(&w, NULL, text);
  return g_string_free(out, FALSE);
}

static char *shortened(const char *text, glong most)
{
  if (g_utf8_strlen(text, -1) <= most)
    return g_strdup(text);
  g_autofree char *start = g_utf8_substring(text, 0, most - 1);
  return g_strconcat(start, "…", NULL);
}

static char *value_text(const cJSON *item)
{
  if (cJSON_IsObject(item))
    return g_strdup(item->child ? "{…}" : "{}");
  if (cJSON_IsArray(item))
    return g_strdup(item->child ? "[…]" : "[]");
  if (cJSON_IsNumber(item))
    return format_real(item->valuedouble);
  if (cJSON_IsString(item)) {
    g_autofree char *text = shortened(item->valuestring, VALUE_CHARS);
    return quoted(text);
  }
  return g_strdup(cJSON_IsNull(item) ? "null" : cJSON_IsTrue(item) ? "true" : "false");
}

static void append_key(GString *path, const char *key)
{
  gboolean plain = *key != '\0';
  for (const char *c = key; *c; c++)
    plain = plain && (g_ascii_isalnum(*c) || strchr("_-/", *c) || (guchar)*c >= 0x80);
  if (plain) {
    g_string_append_printf(path, "%s%s", path->len ? "." : "", key);
    return;
  }
  g_autofree char *shown = shortened(key, KEY_CHARS);
  g_autofree char *text = quoted(shown);
  g_string_append_printf(path, "[%s]", text);
}

/* Appends the steps from `from` down to `item`; FALSE if it is not below. */
static gboolean append_path(const cJSON *from, const cJSON *item, GString *path)
{
  if (from == item)
    return TRUE;
  int index = 0;
  const cJSON *child;
  cJSON_ArrayForEach(child, from) {
    gsize length = path->len;
    if (cJSON_IsObject(from))
      append_key(path, child->string);
    else
      g_string_append_printf(path, "[%d]", index++);
    if (append_path(child, item, path))
      return TRUE;
    g_string_truncate(path, length);
  }
  return FALSE;
}

static GString *path_of(const JsonDoc *doc, const cJSON *item)
{
  GString *path = g_string_new(NULL);
  append_path(doc->root, item, path);
  return path;
}

char *json_path(const JsonDoc *doc, const cJSON *item)
{
  return g_string_free(path_of(doc, item), FALSE);
}

static gboolean fail(const JsonDoc *doc, const char *path, const char *what, GError **error)
{
  return input_error(error, "%s: %s%s%s", doc->name, path, *path ? ": " : "", what);
}

static gboolean fail_item(const JsonDoc *doc, const cJSON *item, const char *what, GError **error)
{
  g_autofree char *path = json_path(doc, item);
  return fail(doc, path, what, error);
}

gboolean json_missing(const JsonDoc *doc, const cJSON *object, const char *key, const char *expected, GError **error)
{
  GString *path = path_of(doc, object);
  append_key(path, key);
  g_autofree char *text = g_string_free(path, FALSE);
  g_autofree char *what = g_strdup_printf("missing: expected %s", expected);
  return fail(doc, text, what, error);
}

gboolean json_error(const JsonDoc *doc, const cJSON *item, GError **error, const char *expected,
                    ...)
{
  va_list args;
  va_start(args, expected);
  g_autofree char *wanted = g_strdup_vprintf(expected, args);
  va_end(args);
  g_autofree char *value = item ? value_text(item) : g_strdup("missing");
  g_autofree char *what = g_strdup_printf("%s: expected %s", value, wanted);
  return fail_item(doc, item, what, error);
}

/* ---- documents ---- */

static gboolean check_duplicates(const JsonDoc *doc, const cJSON *parent, GError **error)
{
  g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
  const cJSON *child;
  cJSON_ArrayForEach(child, parent) {
    if (cJSON_IsObject(parent) && !g_hash_table_add(seen, child->string))
      return fail_item(doc, child, "duplicate key", error);
    if (child->child && !check_duplicates(doc, child, error))
      return FALSE;
  }
  return TRUE;
}

JsonDoc *json_parse(const char *text, gsize length, const char *name, GError **error)
{
  g_autofree char *copy = g_malloc(length + 1);
  if (length > 0)
    memcpy(copy, text, length);
  copy[length] = '\0';
  if (!json_syntax_check(copy, length, name, error))
    return NULL;

  g_autoptr(JsonDoc) doc = g_new0(JsonDoc, 1);
  doc->name = g_strdup(name);
  doc->root = cJSON_ParseWithOpts(copy, NULL, TRUE);
  if (!doc->root) {
    fail(doc, "", "not readable as JSON", error);
    return NULL;
  }
  return check_duplicates(doc, doc->root, error) ? g_steal_pointer(&doc) : NULL;
}

JsonDoc *json_load(const char *path, GError **error)
{
  gsize length;
  g_autofree char *text = files_read(path, &length, error);
  if (!text)
    return NULL;
  return json_parse(text, length, strcmp(path, "-") == 0 ? "stdin" : path, error);
}

/* ---- what a file says ---- */

static int by_key(gconstpointer a, gconstpointer b)
{
  return strcmp((*(const cJSON *const *)a)->string, (*(const cJSON *const *)b)->string);
}

static void digest_item(const cJSON *item, GChecksum *sum)
{
  const char *text = cJSON_IsString(item) ? item->valuestring : "", *key = item->string ? item->string : "";
  const cJSON *child;

  g_checksum_update(sum, (const guchar *)key, strlen(key) + 1);
  g_checksum_update(sum, (const guchar *)&item->type, sizeof item->type);
  g_checksum_update(sum, (const guchar *)&item->valuedouble, sizeof item->valuedouble);
  g_checksum_update(sum, (const guchar *)text, strlen(text) + 1);
  if (!cJSON_IsObject(item) && !cJSON_IsArray(item))
    return;
  g_autoptr(GPtrArray) children = g_ptr_array_new();
  cJSON_ArrayForEach(child, item)
    g_ptr_array_add(children, (gpointer)child);
  if (cJSON_IsObject(item))
    g_ptr_array_sort(children, by_key);
  g_checksum_update(sum, (const guchar *)&children->len, sizeof children->len);
  for (guint i = 0; i < children->len; i++)
    digest_item(children->pdata[i], sum);
}

void json_digest(const JsonDoc *doc, GChecksum *sum)
{
  digest_item(doc->root, sum);
}

void json_digest_text(const GChecksum *sum, char text[JSON_DIGEST_CHARS])
{
  g_autoptr(GChecksum) copy = g_checksum_copy(sum); /* one that is read takes nothing more */
  g_strlcpy(text, g_checksum_get_string(copy), JSON_DIGEST_CHARS);
}

void json_free(JsonDoc *doc)
{
  if (!doc)
    return;
  cJSON_Delete(doc->root);
  g_free(doc->name);
  g_free(doc);
}

const cJSON *json_root(const JsonDoc *doc)
{
  return doc->root;
}

const char *json_name(const JsonDoc *doc)
{
  return doc->name;
}

/* ---- what a field accepts, and in words ---- */

static double field_scale(const JsonField *field)
{
  return field->scale == 0 ? 1 : field->scale;
}

/* The inclusive bounds, narrowed so that the scaled value fits its C type. */
static void field_bounds(const JsonField *field, double *min, double *max)
{
  gboolean is_int = field->type == JSON_INT, any = field->min == 0 && field->max == 0;
  double scale = field_scale(field);
  g_assert(scale > 0 && field->min <= field->max);
  *min = (is_int ? G_MININT : -G_MAXDOUBLE) / scale;
  *max = (is_int ? G_MAXINT : G_MAXDOUBLE) / scale;
  if (!any) {
    *min = MAX(*min, field->min);
    *max = MIN(*max, field->max);
  }
}

/* Bounds that stand for "none" are left out, unless `item` broke them. */
static char *expected_number(const JsonField *field, const cJSON *item)
{
  const char *kind = field->type == JSON_INT ? "an integer" : "a number";
  double huge = field->type == JSON_INT ? G_MAXINT : 1e15;
  double min, max;
  field_bounds(field, &min, &max);
  double value = cJSON_IsNumber(item) ? item->valuedouble : min;
  gboolean low = min > -huge || value < min, high = max < huge || value > max;
  g_autofree char *low_text = format_real(min);
  g_autofree char *high_text = format_real(max);

  if (low && min > 0 && min <= 1e-300)
    return g_strconcat(kind, " above 0", high ? " and at most " : NULL, high_text, NULL);
  if (low && high)
    return g_strdup_printf("%s from %s to %s", kind, low_text, high_text);
  if (low)
    return g_strdup_printf("%s of at least %s", kind, low_text);
  if (high)
    return g_strdup_printf("%s of at most %s", kind, high_text);
  return g_strdup(kind);
}

static char *expected_text(const JsonField *field, const cJSON *item)
{
  static const char *const words[] = {
    [JSON_BOOL] = "true or false", [JSON_STRING] = "a non-empty string without control characters", [JSON_ANY] = "a value"};
  if (field->type == JSON_INT || field->type == JSON_REAL)
    return expected_number(field, item);
  if (!field->names)
    return g_strdup(words[field->type]);
  g_autofree char *names = g_strjoinv(", ", (char **)field->names);
  return g_strconcat("one of ", names, NULL);
}

/* ---- storing: FALSE if the item is not what the field accepts ---- */

static gboolean number_fits(const cJSON *item, const JsonField *field)
{
  double min, max;
  field_bounds(field, &min, &max);
  return cJSON_IsNumber(item) && item->valuedouble >= min && item->valuedouble <= max;
}

static gboolean store_int(const cJSON *item, const JsonField *field, gpointer slot)
{
  if (!number_fits(item, field) || item->valuedouble != floor(item->valuedouble))
    return FALSE;
  *(int *)slot = (int)(item->valuedouble * field_scale(field));
  return TRUE;
}

static gboolean store_real(const cJSON *item, const JsonField *field, gpointer slot)
{
  if (!number_fits(item, field))
    return FALSE;
  *(double *)slot = item->valuedouble * field_scale(field);
  return TRUE;
}

static gboolean store_bool(const cJSON *item, const JsonField *field G_GNUC_UNUSED, gpointer slot)
{
  if (!cJSON_IsBool(item))
    return FALSE;
  *(gboolean *)slot = cJSON_IsTrue(item);
  return TRUE;
}

/* Names reach terminals, scripts and other tools' files. */
static gboolean has_control(const char *text)
{
  for (const char *c = text; *c; c = g_utf8_next_char(c))
    if (g_unichar_iscntrl(g_utf8_get_char(c)))
      return TRUE;
  return FALSE;
}

static gboolean store_string(const cJSON *item, const JsonField *field, gpointer slot)
{
  if (!cJSON_IsString(item) || !*item->valuestring || has_control(item->valuestring))
    return FALSE;
  if (field->names && names_find(field->names, item->valuestring) < 0)
    return FALSE;
  char **text = slot;
  g_free(*text);
  *text = g_strdup(item->valuestring);
  return TRUE;
}

static gboolean store_enum(const cJSON *item, const JsonField *field, gpointer slot)
{
  g_assert(field->names);
  int index = cJSON_IsString(item) ? names_find(field->names, item->valuestring) : -1;
  if (index < 0)
    return FALSE;
  *(int *)slot = index;
  return TRUE;
}

static gboolean store_any(const cJSON *item, const JsonField *field G_GNUC_UNUSED,
                          gpointer slot G_GNUC_UNUSED)
{
  return !cJSON_IsNull(item);
}

static gboolean read_item(const JsonDoc *doc, const cJSON *item, const JsonField *field,
                          gpointer slot, GError **error)
{
  static gboolean (*const store[])(const cJSON *, const JsonField *, gpointer) = {
    [JSON_INT] = store_int,       [JSON_REAL] = store_real, [JSON_BOOL] = store_bool,
    [JSON_STRING] = store_string, [JSON_ENUM] = store_enum, [JSON_ANY] = store_any};
  if (store[field->type](item, field, slot))
    return TRUE;
  g_autofree char *expected = expected_text(field, item);
  return json_error(doc, item, error, "%s", expected);
}

/* ---- reading objects ---- */

/* What a whole file looks like that has keys of another kind of file than was expected; "" where it is nothing known. */
static const char *looks_like(const JsonDoc *doc, const cJSON *object, const char *const *keys)
{
  static const struct { const char *keys[2], *said; } kinds[] = {
    { { "layers", "hidden" }, " (this is a model)" },
    { { "num_hidden_layers", "hidden_size" }, " (this is a model)" },
    { { "nodes", "server" }, " (this is a cluster)" },
    { { "gpus", "global_batch_size" }, " (this is a plan)" },
  };

  for (gsize i = 0; object == doc->root && i < G_N_ELEMENTS(kinds); i++)
    if (cJSON_HasObjectItem(object, kinds[i].keys[0]) && cJSON_HasObjectItem(object, kinds[i].keys[1]) &&
        names_find(keys, kinds[i].keys[0]) < 0)
      return kinds[i].said;
  return "";
}

static gboolean check_keys(const JsonDoc *doc, const cJSON *object, const JsonField *fields,
                           gsize n_fields, GError **error)
{
  g_autofree const char **keys = g_new0(const char *, n_fields + 1);
  for (gsize i = 0; i < n_fields; i++)
    keys[i] = fields[i].key;
  const cJSON *child;
  cJSON_ArrayForEach(child, object) {
    if (names_find(keys, child->string) >= 0)
      continue;
    g_autofree char *hint = names_hint(keys, child->string);
    g_autofree char *what = g_strconcat("unknown key", looks_like(doc, object, keys), hint ? ", " : NULL, hint, NULL);
    return fail_item(doc, child, what, error);
  }
  return TRUE;
}

gboolean json_read_foreign(const JsonDoc *doc, const cJSON *object, const JsonField *fields,
                           gsize n_fields, gpointer out, GError **error)
{
  if (!cJSON_IsObject(object))
    return json_error(doc, object, error, "an object");
  for (gsize i = 0; i < n_fields; i++) {
    const JsonField *field = &fields[i];
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, field->key);
    if (!item && field->required) {
      g_autofree char *expected = expected_text(field, NULL);
      return json_missing(doc, object, field->key, expected, error);
    }
    if (!item || (cJSON_IsNull(item) && !field->required))
      continue;
    if (!read_item(doc, item, field, (char *)out + field->offset, error))
      return FALSE;
  }
  return TRUE;
}

gboolean json_read(const JsonDoc *doc, const cJSON *object, const JsonField *fields, gsize n_fields,
                   gpointer out, GError **error)
{
  if (cJSON_IsObject(object) && !check_keys(doc, object, fields, n_fields, error))
    return FALSE;
  return json_read_foreign(doc, object, fields, n_fields, out, error);
}

const cJSON *json_get(const cJSON *object, const char *key)
{
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
  return cJSON_IsNull(item) ? NULL : item;
}

const char *json_get_text(const cJSON *object, const char *key)
{
  return cJSON_GetStringValue(json_get(object, key));
}

static const cJSON *get_typed(const JsonDoc *doc, const cJSON *object, const char *key,
                              cJSON_bool (*is_type)(const cJSON *const), const char *expected,
                              gboolean required, GError **error)
{
  const cJSON *item = json_get(object, key);
  if (item && is_type(item))
    return item;
  const cJSON *found = cJSON_GetObjectItemCaseSensitive(object, key);
  if (item || (found && required))
    json_error(doc, found, error, "%s", expected);
  else if (required)
    json_missing(doc, object, key, expected, error);
  return NULL;
}

const cJSON *json_get_object(const JsonDoc *doc, const cJSON *object, const char *key,
                             gboolean required, GError **error)
{
  return get_typed(doc, object, key, cJSON_IsObject, "an object", required, error);
}

const cJSON *json_get_array(const JsonDoc *doc, const cJSON *object, const char *key,
                            gboolean required, GError **error)
{
  return get_typed(doc, object, key, cJSON_IsArray, "an array", required, error);
}

/* ---- reading arrays ---- */

static int read_array(const JsonDoc *doc, const cJSON *array, const JsonField *field, char *out,
                      gsize size, int max, GError **error)
{
  const char *kind = field->type == JSON_INT ? "integers" : "numbers";
  if (!cJSON_IsArray(array)) {
    json_error(doc, array, error, "an array of %s", kind);
    return -1;
  }
  if (cJSON_GetArraySize(array) > max) {
    json_error(doc, array, error, "an array of at most %d %s", max, kind);
    return -1;
  }
  int count = 0;
  const cJSON *item;
  cJSON_ArrayForEach(item, array) {
    if (!read_item(doc, item, field, out + size * count, error))
      return -1;
    count++;
  }
  return count;
}

int json_get_reals(const JsonDoc *doc, const cJSON *array, double *out, int max, GError **error)
{
  JsonField field = {.type = JSON_REAL};
  return read_array(doc, array, &field, (char *)out, sizeof *out, max, error);
}

int json_get_ints(const JsonDoc *doc, const cJSON *array, int *out, int max, double min_value,
                  double max_value, GError **error)
{
  JsonField field = {.type = JSON_INT, .min = min_value, .max = max_value};
  return read_array(doc, array, &field, (char *)out, sizeof *out, max, error);
}
