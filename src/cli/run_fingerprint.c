#include "cli/run_fingerprint.h"

#include "base/error.h"
#include "base/json.h"

#include <string.h>
#include <sys/stat.h>

/* "plan.overlap.tensor: true"; a list is one value. */
static void add_json(GString *text, const char *path, const cJSON *item)
{
  if (!cJSON_IsObject(item)) {
    char *value = cJSON_PrintUnformatted(item);
    g_string_append_printf(text, "%s: %s\n", path, value);
    cJSON_free(value);
    return;
  }
  for (const cJSON *child = item->child; child; child = child->next) {
    g_autofree char *below = g_strdup_printf("%s.%s", path, child->string);
    add_json(text, below, child);
  }
}

char *fingerprint_new(const Stated *stated, gsize n, const Plan *plan)
{
  g_autoptr(GString) text = g_string_new(NULL), json = g_string_new(NULL);
  JsonWriter w;

  for (gsize i = 0; i < n; i++) {
    g_string_append_printf(text, "%s: %s\n", stated[i].key, stated[i].value ? stated[i].value : "none");
    g_free(stated[i].value);
  }
  json_writer_init(&w, json);
  plan_write(plan, &w, NULL);
  g_autoptr(JsonDoc) doc = json_parse(json->str, json->len, "plan", NULL);
  add_json(text, "plan", json_root(doc));
  return g_string_free(g_steal_pointer(&text), FALSE);
}

char *fingerprint_of_file(const char *path)
{
  struct stat st = { 0 };

  if (!path || stat(path, &st) < 0)
    return g_strdup(path);
  return g_strdup_printf("%" G_GINT64_FORMAT " bytes", (gint64)st.st_size);
}

/* What stands behind the key in another's lines; newly allocated. */
static char *value_of(char **lines, const char *key, gsize length)
{
  for (; *lines; lines++)
    if (strncmp(*lines, key, length) == 0)
      return g_strdup(*lines + length);
  return g_strdup("none");
}

/* A key of `lines` that the other lines have with another value, or not. */
static const char *different(char **lines, char **others, gsize *length)
{
  for (; *lines; lines++)
    if (**lines && !g_strv_contains((const char *const *)others, *lines)) {
      *length = strcspn(*lines, ":") + 2;
      return *lines;
    }
  return NULL;
}

gboolean fingerprint_check(const char *own, const char *first, GError **error)
{
  g_auto(GStrv) here = g_strsplit(own, "\n", -1), there = g_strsplit(first, "\n", -1);
  gsize length = 0;
  const char *line = different(here, there, &length);

  if (!line)
    line = different(there, here, &length);
  if (!line)
    return TRUE;
  g_autofree char *value = value_of(here, line, length), *expected = value_of(there, line, length);
  return input_error(error, "%.*s%s: expected %s, as rank 0 has it", (int)length, line, value, expected);
}
