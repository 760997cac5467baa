#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/units.h"

void json_writer_init(JsonWriter *w, GString *text)
{
  *w = (JsonWriter){.text = text, .first = TRUE};
}

static void put_string(GString *text, const char *value)
{
  static const char codes[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
  g_autofree char *valid = g_utf8_make_valid(value, -1);
  g_string_append_c(text, '"');
  for (const char *c = valid; *c; c++) {
    const char *code = strchr(codes, *c);
    if (code)
      g_string_append_printf(text, "\\%c", letters[code - codes]);
    else if ((guchar)*c < 0x20 || *c == 0x7F)
      g_string_append_printf(text, "\\u%04x", (guint)*c);
    else
      g_string_append_c(text, *c);
  }
  g_string_append_c(text, '"');
}

static void put_line_break(const JsonWriter *w)
{
  g_string_append_printf(w->text, "\n%*s", 2 * w->depth, "");
}

static void put_key(JsonWriter *w, const char *key)
{
  if (!w->first)
    g_string_append(w->text, w->compact ? ", " : ",");
  if (w->depth > 0 && !w->compact)
    put_line_break(w);
  if (key) {
    put_string(w->text, key);
    g_string_append(w->text, ": ");
  }
  w->first = FALSE;
}

void json_open(JsonWriter *w, const char *key, char bracket)
{
  g_assert(bracket == '{' || bracket == '[');
  put_key(w, key);
  g_string_append_c(w->text, bracket);
  w->depth++;
  w->first = TRUE;
}

void json_close(JsonWriter *w, char bracket)
{
  g_assert(bracket == '}' || bracket == ']');
  g_assert(w->depth > 0);
  w->depth--;
  if (!w->first && !w->compact)
    put_line_break(w);
  g_string_append_c(w->text, bracket);
  if (w->depth == 0)
    g_string_append_c(w->text, '\n');
  w->first = w->depth == 0;
}

void json_open_line(JsonWriter *w, const char *key, char bracket)
{
  json_open(w, key, bracket);
  w->compact = TRUE;
}

void json_close_line(JsonWriter *w, char bracket)
{
  json_close(w, bracket);
  w->compact = FALSE;
}

void json_put_real(JsonWriter *w, const char *key, double value)
{
  g_assert(isfinite(value));
  g_autofree char *number = format_real(value);
  put_key(w, key);
  g_string_append(w->text, number);
}

void json_put_int(JsonWriter *w, const char *key, gint64 value)
{
  put_key(w, key);
  g_string_append_printf(w->text, "%" G_GINT64_FORMAT, value);
}

void json_put_thousandths(JsonWriter *w, const char *key, gint64 value)
{
  put_key(w, key);
  g_string_append_printf(w->text, "%s%" G_GINT64_FORMAT ".%03d", value < 0 ? "-" : "", ABS(value) / 1000,
                         (int)(ABS(value) % 1000));
}

void json_put_bool(JsonWriter *w, const char *key, gboolean value)
{
  put_key(w, key);
  g_string_append(w->text, value ? "true" : "false");
}

void json_put_string(JsonWriter *w, const char *key, const char *value)
{
  put_key(w, key);
  if (value)
    put_string(w->text, value);
  else
    g_string_append(w->text, "null");
}

void json_put_strings(JsonWriter *w, const char *key, const char *const *texts, gsize n)
{
  json_open(w, key, '[');
  for (gsize i = 0; i < n; i++)
    json_put_string(w, NULL, texts[i]);
  json_close(w, ']');
}

void json_put_set(JsonWriter *w, const char *key, const char *const *names, guint set)
{
  if (!set)
    return;
  json_open_line(w, key, '[');
  for (int i = 0; names[i]; i++)
    if (set >> i & 1)
      json_put_string(w, NULL, names[i]);
  json_close_line(w, ']');
}

void json_put_item(JsonWriter *w, const char *key, const cJSON *item)
{
  gboolean object = cJSON_IsObject(item);
  const cJSON *child;

  if (object || cJSON_IsArray(item)) {
    json_open(w, key, object ? '{' : '[');
    cJSON_ArrayForEach(child, item)
      json_put_item(w, object ? child->string : NULL, child);
    json_close(w, object ? '}' : ']');
  } else if (cJSON_IsNumber(item)) {
    json_put_real(w, key, item->valuedouble);
  } else if (cJSON_IsBool(item)) {
    json_put_bool(w, key, cJSON_IsTrue(item));
  } else {
    json_put_string(w, key, cJSON_IsString(item) ? item->valuestring : NULL);
  }
}
