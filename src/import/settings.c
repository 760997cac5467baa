#include "import/settings.h"

#include "base/error.h"

#include <math.h>
#include <string.h>

static void setting_free(gpointer data)
{
  Setting *s = data;
  g_free(s->path);
  g_free(s->told);
  g_free(s->value);
  g_free(s);
}

Settings *settings_new(void)
{
  Settings *s = g_new0(Settings, 1);
  s->list = g_ptr_array_new_with_free_func(setting_free);
  return s;
}

void settings_free(Settings *s)
{
  g_ptr_array_unref(s->list);
  g_free(s);
}

void settings_add_as(Settings *s, const char *path, char *value, const Setting *other)
{
  Setting *one = g_new0(Setting, 1);

  one->path = g_strdup(path);
  one->value = value;
  one->first = other->first;
  one->end = other->end;
  one->bare = other->bare;
  g_ptr_array_add(s->list, one);
}

void settings_add(Settings *s, const char *path, char *value, int first, int end)
{
  settings_add_as(s, path, value, &(Setting) { .first = first, .end = end });
}

static void add(Settings *s, const char *path, const char *text, int first, int end)
{
  while (end > first && g_ascii_isspace(text[end - 1]))
    end--;
  gboolean quoted = end > first + 1 && (text[first] == '"' || text[first] == '\'') && text[end - 1] == text[first];
  settings_add(s, path, g_strndup(text + first + quoted, end - first - 2 * quoted), first, end);
}

/* Behind a value that begins there: up to the line's end or a comment, brackets closed and quotes too. */
static int value_end(const char *text, int at, gboolean lines)
{
  int depth = 0;
  char quote = '\0';

  for (; text[at]; at++) {
    char c = text[at];
    if (quote)
      quote = c == quote && text[at - 1] != '\\' ? '\0' : quote;
    else if (c == '"' || c == '\'')
      quote = c;
    else if (c == '[' || c == '{')
      depth++;
    else if (c == ']' || c == '}')
      depth--;
    else if (c == '#' && (at == 0 || g_ascii_isspace(text[at - 1])))
      return at;
    if (c == '\n' && (depth <= 0 || !lines))
      return at;
  }
  return at;
}

int settings_line_start(const char *text, int at)
{
  while (at > 0 && text[at - 1] != '\n')
    at--;
  return at;
}

int settings_line_end(const char *text, int at)
{
  return at + (int)strcspn(text + at, "\n");
}

/* ---- TOML ---- */

Settings *settings_toml(const char *text)
{
  Settings *s = settings_new();
  g_autofree char *section = g_strdup("");

  for (int at = 0; text[at];) {
    int first = at + (int)strspn(text + at, " \t\r\n"), end = settings_line_end(text, first), close;
    int equals = first + (int)strcspn(text + first, "=#\n");
    at = end + (text[end] == '\n');
    if (text[first] == '[') {
      close = first + (int)strcspn(text + first, "]\n");
      g_free(section);
      section = g_strndup(text + first + 1, close - first - 1);
    } else if (text[equals] == '=') {
      int value = equals + 1 + (int)strspn(text + equals + 1, " \t");
      g_autofree char *key = g_strstrip(g_strndup(text + first, equals - first));
      g_autofree char *path = *section ? g_strdup_printf("%s.%s", section, key) : g_strdup(key);
      close = value_end(text, value, TRUE);
      add(s, path, text, value, close);
      at = MAX(at, close);
    }
  }
  return s;
}

/* ---- YAML ---- */

#define DEPTH_MAX 32

/* Keys of the lines above that a line may stand below. */
typedef struct {
  char *key[DEPTH_MAX];
  int indent[DEPTH_MAX], items[DEPTH_MAX]; /* items: of a list, so far */
  int depth;
} Above;

static void leave(Above *a, int indent)
{
  while (a->depth > 0 && a->indent[a->depth - 1] >= indent)
    g_free(a->key[--a->depth]);
}

static void enter(Above *a, char *key, int indent)
{
  if (a->depth == DEPTH_MAX) {
    g_free(key);
    return;
  }
  a->key[a->depth] = key;
  a->indent[a->depth] = indent;
  a->items[a->depth++] = 0;
}

static char *path_of(const Above *a, const char *key)
{
  GString *path = g_string_new(NULL);

  for (int i = 0; i < a->depth; i++)
    g_string_append_printf(path, "%s.", a->key[i]);
  return g_string_free(g_string_append(path, key), FALSE);
}

/* "- ": an item of the list above, whose own keys stand behind the dash. */
static int read_dash(Above *a, const char *text, int at, int indent)
{
  leave(a, indent + 1);
  if (a->depth > 0 && a->indent[a->depth - 1] == indent && g_ascii_isdigit(a->key[a->depth - 1][0]))
    g_free(a->key[--a->depth]);
  int item = a->depth > 0 ? a->items[a->depth - 1]++ : 0;
  enter(a, g_strdup_printf("%d", item), indent);
  return at + 1 + (int)strspn(text + at + 1, " ");
}

/* A plain item of a list: all of them are one setting, as of a list on one line. */
static void read_item(Settings *s, const Above *a, const char *text, int first)
{
  g_autofree char *path = path_of(a, "");
  int end = value_end(text, first, FALSE);
  Setting *last = s->list->len > 0 ? s->list->pdata[s->list->len - 1] : NULL;

  while (end > first && g_ascii_isspace(text[end - 1]))
    end--;
  g_autofree char *item = g_strndup(text + first, end - first);
  for (int dots = 0; dots < 2 && strrchr(path, '.'); dots++) /* "list.0." */
    *strrchr(path, '.') = '\0';
  if (!last || !g_str_equal(last->path, path) || *last->value != '[') {
    settings_add(s, path, g_strdup_printf("[%s]", item), first, end);
    return;
  }
  last->value[strlen(last->value) - 1] = '\0';
  char *longer = g_strdup_printf("%s, %s]", last->value, item);
  g_free(last->value);
  last->value = longer;
  last->end = end;
}

/* One "key: value" or "key:" that begins at `first`, in this column: behind it, where a list in brackets may stand on
 * several lines; 0 where it is neither. */
static int read_pair(Settings *s, Above *a, const char *text, int first, int indent)
{
  int end = settings_line_end(text, first), colon = first;

  while (colon < end && !(text[colon] == ':' && (g_ascii_isspace(text[colon + 1]) || !text[colon + 1])))
    colon++;
  if (colon == end)
    return 0;
  char *key = g_strstrip(g_strndup(text + first, colon - first));
  gsize last = strlen(key);
  if (last > 2 && (*key == '"' || *key == '\'') && key[last - 1] == *key) { /* a key in quotes */
    key[last - 1] = '\0';
    memmove(key, key + 1, last - 1);
  }
  int value = colon + 1 + (int)strspn(text + colon + 1, " \t");
  int close = value_end(text, value, text[value] == '[');
  while (close > value && g_ascii_isspace(text[close - 1]))
    close--;
  if (value >= end || close <= value) {
    enter(a, key, indent);
    return end;
  }
  g_autofree char *path = path_of(a, key);
  add(s, path, text, value, close);
  g_strdelimit(((Setting *)s->list->pdata[s->list->len - 1])->value, "\r\n", ' ');
  g_free(key);
  return close;
}

Settings *settings_yaml(const char *text)
{
  Settings *s = settings_new();
  Above above = { .depth = 0 };

  for (int at = 0; text[at];) {
    int first = at + (int)strspn(text + at, " "), end = settings_line_end(text, at), indent = first - at;
    at = end + (text[end] == '\n');
    if (first >= end || strchr("\r#", text[first]) || strncmp(text + first, "---", 3) == 0)
      continue;
    gboolean item = text[first] == '-' && text[first + 1] == ' ';
    if (item) {
      int inner = read_dash(&above, text, first, indent);
      indent += inner - first;
      first = inner;
    } else {
      leave(&above, indent);
    }
    int behind = read_pair(s, &above, text, first, indent);
    if (!behind && item)
      read_item(s, &above, text, first);
    at = MAX(at, behind);
  }
  leave(&above, -1);
  return s;
}

/* ---- JSON ---- */

/* Behind a string that begins there. */
static int string_end(const char *text, int at)
{
  for (at++; text[at] && text[at] != '"'; at++)
    at += text[at] == '\\' && text[at + 1];
  return at + (text[at] == '"');
}

static int blanks(const char *text, int at)
{
  return at + (int)strspn(text + at, " \t\r\n");
}

static int read_value(Settings *s, const char *text, int at, const char *path, int depth);

static int read_object(Settings *s, const char *text, int at, const char *path, int depth)
{
  for (at = blanks(text, at + 1); text[at] == '"'; at = blanks(text, at)) {
    int first = at;
    at = string_end(text, at);
    g_autofree char *key = g_strndup(text + first + 1, MAX(0, at - first - 2));
    g_autofree char *below = *path ? g_strdup_printf("%s.%s", path, key) : g_strdup(key);
    at = blanks(text, at);
    if (text[at] != ':')
      break;
    at = blanks(text, read_value(s, text, blanks(text, at + 1), below, depth + 1));
    at += text[at] == ',';
  }
  return at + (text[at] == '}');
}

static int read_value(Settings *s, const char *text, int at, const char *path, int depth)
{
  int first = at;

  if (text[at] == '{' && depth < DEPTH_MAX)
    return read_object(s, text, at, path, depth);
  if (text[at] == '"')
    at = string_end(text, at);
  else if (text[at] == '[')
    at += (int)strcspn(text + at, "]") + 1;
  else
    at += (int)strcspn(text + at, ",}] \t\r\n");
  at = MIN(at, (int)strlen(text));
  add(s, path, text, first, at);
  return at;
}

Settings *settings_json(const char *text)
{
  Settings *s = settings_new();
  int at = blanks(text, 0);

  if (text[at] == '{')
    read_object(s, text, at, "", 0);
  return s;
}

/* ---- lookups ---- */

const Setting *settings_find(const Settings *s, const char *path)
{
  const Setting *found = NULL;

  for (guint i = 0; i < s->list->len; i++) {
    Setting *one = s->list->pdata[i];
    if (!g_str_equal(one->path, path))
      continue;
    one->read = TRUE;
    gboolean none = g_str_equal(one->value, "null") || g_str_equal(one->value, "~") || !*one->value;
    found = none ? NULL : one;
  }
  return found;
}

const char *settings_text(const Settings *s, const char *path)
{
  const Setting *one = settings_find(s, path);
  return one ? one->value : "";
}

gboolean settings_true(const Settings *s, const char *path, gboolean usual)
{
  const char *text = settings_text(s, path);
  return *text ? g_ascii_strcasecmp(text, "true") == 0 : usual;
}

static Setting *last_of(const Settings *s, const char *path)
{
  for (guint i = s->list->len; i-- > 0;)
    if (g_str_equal(((Setting *)s->list->pdata[i])->path, path))
      return s->list->pdata[i];
  return NULL;
}

const Setting *settings_last(const Settings *s, const char *path)
{
  return last_of(s, path);
}

gboolean settings_rename(Settings *s, const char *told, const char *path)
{
  Setting *one = last_of(s, path) ? NULL : last_of(s, told);

  if (!one)
    return FALSE;
  one->told = one->path;
  one->path = g_strdup(path);
  return TRUE;
}

/* The number at a path, of which digits may be grouped by underscores; NaN: there is none such. Its `text` may be empty. */
static double number_at(const Settings *s, const char *path, const char **text, const char **told)
{
  const Setting *one = settings_find(s, path);
  char *end = NULL;

  *text = one ? one->value : "";
  *told = one && one->told ? one->told : path;
  g_autofree char *digits = g_strdup(*text);
  for (char *c = strchr(digits, '_'); c; c = strchr(c, '_'))
    memmove(c, c + 1, strlen(c));
  double value = g_ascii_strtod(digits, &end);
  return end == digits || *end || !isfinite(value) ? NAN : value;
}

gboolean settings_int(const Settings *s, const char *file, const char *path, int *out, GError **error)
{
  const char *text, *told;
  double value = number_at(s, path, &text, &told);

  if (!*text)
    return TRUE;
  if (isnan(value) || value != floor(value) || fabs(value) > G_MAXINT)
    return input_error(error, "%s: %s: %s: expected a whole number", file, told, text);
  *out = (int)value;
  return TRUE;
}

gboolean settings_real(const Settings *s, const char *file, const char *path, double *out, GError **error)
{
  const char *text, *told;
  double value = number_at(s, path, &text, &told);

  if (!*text)
    return TRUE;
  if (isnan(value))
    return input_error(error, "%s: %s: %s: expected a number", file, told, text);
  *out = value;
  return TRUE;
}
