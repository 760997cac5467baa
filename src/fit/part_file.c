#include "fit/part_file.h"

#include <math.h>

#include "base/files.h"
#include "base/json.h"
#include "base/units.h"

gboolean part_file_load(PartFile *file, const char *folder, const char *name, GError **error)
{
  g_autofree char *below = g_strdup_printf("hardware/%s/%s.json", folder, name);
  *file = (PartFile){.path = files_data_path(below)};
  g_autoptr(JsonDoc) doc = json_load(file->path, error);
  if (!doc)
    return FALSE;
  file->root = cJSON_Duplicate(json_root(doc), TRUE);
  return TRUE;
}

void part_file_clear(PartFile *file)
{
  g_free(file->path);
  cJSON_Delete(file->root);
  *file = (PartFile){NULL, NULL};
}

/* ---- writing ---- */

static gboolean is_number_list(const cJSON *item)
{
  const cJSON *child;
  if (!cJSON_IsArray(item))
    return FALSE;
  cJSON_ArrayForEach(child, item) if (!cJSON_IsNumber(child)) return FALSE;
  return TRUE;
}

static void write_item(JsonWriter *w, const cJSON *item)
{
  const char *key = item->string;
  if (cJSON_IsObject(item) || cJSON_IsArray(item)) {
    gboolean object = cJSON_IsObject(item), compact = is_number_list(item);
    const cJSON *child;
    json_open(w, key, object ? '{' : '[');
    w->compact = compact;
    cJSON_ArrayForEach(child, item) write_item(w, child);
    json_close(w, object ? '}' : ']');
    w->compact = FALSE;
  } else {
    json_put_item(w, key, item);
  }
}

gboolean part_file_save(const PartFile *file, GError **error)
{
  g_autoptr(GString) text = g_string_new(NULL);
  JsonWriter w;
  json_writer_init(&w, text);
  write_item(&w, file->root);
  return files_write(file->path, text->str, text->len, error);
}

/* ---- changing ---- */

#define SMALL 1e-6 /* in the file's unit: a fit's way to say 0 */

static void replace(cJSON *object, const char *key, cJSON *item)
{
  if (cJSON_GetObjectItemCaseSensitive(object, key))
    cJSON_ReplaceItemInObjectCaseSensitive(object, key, item);
  else
    cJSON_AddItemToObject(object, key, item);
}

static double rounded(double value)
{
  return value == floor(value) || fabs(value) < SMALL ? round(value) : round_digits(value);
}

cJSON *part_file_member(cJSON *object, const char *key, gboolean array)
{
  cJSON *found = cJSON_GetObjectItemCaseSensitive(object, key);
  if (!found) {
    found = array ? cJSON_CreateArray() : cJSON_CreateObject();
    cJSON_AddItemToObject(object, key, found);
  }
  return found;
}

void part_file_number(cJSON *object, const char *key, double value)
{
  replace(object, key, cJSON_CreateNumber(rounded(value)));
}

void part_file_numbers(cJSON *object, const char *key, const double *values, int n)
{
  cJSON *array = cJSON_CreateArray();
  for (int i = 0; i < n; i++)
    cJSON_AddItemToArray(array, cJSON_CreateNumber(rounded(values[i])));
  replace(object, key, array);
}

void part_file_bool(cJSON *object, const char *key, gboolean value)
{
  replace(object, key, cJSON_CreateBool(value));
}

void part_file_string(cJSON *object, const char *key, const char *value)
{
  replace(object, key, cJSON_CreateString(value));
}

void part_file_source(cJSON *object, const char *key, const char *source)
{
  cJSON *sources = cJSON_GetObjectItemCaseSensitive(object, "source");
  if (!cJSON_IsObject(sources)) {
    cJSON *all = cJSON_CreateObject();
    if (cJSON_IsString(sources))
      cJSON_AddStringToObject(all, "*", sources->valuestring);
    replace(object, "source", all);
    sources = all;
  }
  replace(sources, key, cJSON_CreateString(source));
}

void part_file_model(cJSON *object, const MatmulModel *model)
{
  for (const JsonField *field = matmul_fields; field->key; field++)
    if (field->required)
      part_file_number(object, field->key, json_field_real(field, model));
}
