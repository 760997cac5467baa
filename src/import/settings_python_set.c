/* A Python function with one of its settings changed. */
#include "import/settings.h"

#include <string.h>

#define RETURN "return"

typedef struct {
  const char *text, *function, *path, *raw, *value;
  char *whole; /* path behind the function's name */
  Settings *before;
  SettingsBody body;
} Change;

/* By path; of several the last. */
static GHashTable *table_of(const Settings *s)
{
  GHashTable *table = g_hash_table_new(g_str_hash, g_str_equal);

  for (guint i = 0; i < s->list->len; i++) {
    const Setting *one = s->list->pdata[i];
    g_hash_table_replace(table, one->path, (gpointer)one);
  }
  return table;
}

/* Whether a setting of any function is what is changed, or of its call. */
static gboolean is_changed(const Change *c, const char *path)
{
  gsize length = strlen(c->path);
  const char *key = strchr(path, '.');

  return key && strncmp(key + 1, c->path, length) == 0 && strchr(".", key[1 + length]);
}

/* Whether all that one text says beside the change, the other says too. */
static gboolean keeps(const Change *c, const Settings *one, const Settings *other)
{
  g_autoptr(GHashTable) here = table_of(one), there = table_of(other);

  for (guint i = 0; i < one->list->len; i++) {
    const char *path = ((const Setting *)one->list->pdata[i])->path;
    const Setting *was = g_hash_table_lookup(here, path), *is = g_hash_table_lookup(there, path);
    if (!is_changed(c, path) && (!is || !g_str_equal(was->value, is->value)))
      return FALSE;
  }
  return TRUE;
}

/* Whether each function says of the setting what it did, or what is wanted, and this one that. */
static gboolean is_wanted(const Change *c, const Settings *after)
{
  g_autoptr(GHashTable) was = table_of(c->before), is = table_of(after);
  const Setting *own = g_hash_table_lookup(is, c->whole);

  for (guint i = 0; i < after->list->len; i++) {
    const Setting *one = after->list->pdata[i], *old = g_hash_table_lookup(was, one->path);
    const char *key = strchr(one->path, '.');
    if (key && g_str_equal(key + 1, c->path) && !g_str_equal(one->value, c->value) &&
        (!old || !g_str_equal(one->value, old->value)))
      return FALSE;
  }
  return own && g_str_equal(own->value, c->value);
}

/* The text with other bytes at first .. end - 1, if that proves the change; else NULL. */
static char *tried(const Change *c, int first, int end, const char *bytes)
{
  GString *text = g_string_new_len(c->text, first);

  g_string_append(text, bytes);
  g_string_append(text, c->text + end);
  g_autoptr(Settings) after = settings_python(text->str);
  gboolean proved = keeps(c, c->before, after) && keeps(c, after, c->before) && is_wanted(c, after);
  return g_string_free(text, !proved);
}

/* Whether a value stands behind its own key, not behind a variable's name, which may be used elsewhere too. */
static gboolean stands_by_key(const Change *c, const Setting *there)
{
  const char *text = c->text, *key = strrchr(c->path, '.') ? strrchr(c->path, '.') + 1 : c->path;
  int at = there->first, length = (int)strlen(key);

  while (at > c->body.first && g_ascii_isspace(text[at - 1]))
    at--;
  if (at == c->body.first || text[--at] != '=')
    return FALSE;
  while (at > c->body.first && g_ascii_isspace(text[at - 1]))
    at--;
  at -= length;
  if (at <= c->body.first || strncmp(text + at, key, length) != 0 || c->body.returned < 0)
    return FALSE;
  int indent = c->body.returned - settings_line_start(text, c->body.returned);
  gboolean variable = at > indent && text[at - indent - 1] == '\n' && strspn(text + at - indent, " \t") >= (gsize)indent;
  return !variable && !g_ascii_isalnum(text[at - 1]) && text[at - 1] != '_';
}

static char *replaced(const Change *c)
{
  g_autoptr(GHashTable) table = table_of(c->before);
  const Setting *there = g_hash_table_lookup(table, c->whole);

  if (!there || there->first < c->body.first || there->end > c->body.end || !stands_by_key(c, there))
    return NULL;
  return tried(c, there->first, settings_python_behind(c->text, there), c->raw);
}

static gboolean has_word(const char *text, int first, int end, const char *word)
{
  g_autofree char *body = g_strndup(text + first, end - first);
  g_autofree char *pattern = g_strdup_printf("\\b%s\\b", word);

  return g_regex_match_simple(pattern, body, G_REGEX_RAW, 0);
}

/* Before `return NAME`; a call that is returned gets a name first. */
static char *assigned(const Change *c)
{
  static const char *const names[] = { "config", "configuration", "changed" };
  const SettingsBody *b = &c->body;
  const char *text = c->text, *name = NULL;
  int start = settings_line_start(text, b->returned), value = b->returned + (int)strlen(RETURN);

  if (b->returned < 0)
    return NULL;
  g_autofree char *indent = g_strndup(text + start, b->returned - start);
  value += (int)strspn(text + value, " \t");
  int end = value;
  while (g_ascii_isalnum(text[end]) || text[end] == '_')
    end++;
  if (end > value && strchr("\r\n#", text[end + strspn(text + end, " \t")])) {
    g_autofree char *line = g_strdup_printf("%s%.*s.%s = %s\n", indent, end - value, text + value, c->path, c->raw);
    return tried(c, start, start, line);
  }
  for (gsize i = G_N_ELEMENTS(names); i-- > 0;)
    if (!has_word(text, b->first, b->end, names[i]))
      name = names[i];
  if (!name || text[end] == '\0')
    return NULL;
  const Setting whole = { .end = value + (int)strcspn(text + value, "(\n") };
  int behind = settings_python_behind(text, &whole);
  g_autofree char *call = g_strndup(text + value, behind - value);
  g_autofree char *lines = g_strdup_printf("%s = %s\n%s%s.%s = %s\n%sreturn %s", name, call, indent, name, c->path, c->raw,
                                           indent, name);
  return tried(c, b->returned, behind, lines);
}

/* Behind the first argument of the call that it belongs to, which no key stands before. */
static char *passed(const Change *c)
{
  g_autoptr(GHashTable) table = table_of(c->before);
  const char *key = strrchr(c->path, '.');
  gsize call = strlen(c->whole) - (key ? strlen(key) : 0);
  g_autofree char *path = g_strdup_printf("%.*s.0", (int)call, c->whole);
  const Setting *first = key ? g_hash_table_lookup(table, path) : NULL;
  int behind = first ? settings_python_behind(c->text, first) : 0;

  if (!first || first->first < c->body.first || behind >= c->body.end)
    return NULL;
  g_autofree char *argument = g_strdup_printf(", %s=%s", key + 1, c->raw);
  return tried(c, behind, behind, argument);
}

char *settings_python_set(const char *text, const char *function, const char *path, const char *raw, const char *value,
                          SettingsPythonPlace place)
{
  g_autofree char *whole = g_strdup_printf("%s.%s", function, path);
  Change c = { text, function, path, raw, value, whole, NULL, { 0, 0, -1 } };
  g_autoptr(Settings) before = settings_python_body(text, function, &c.body);

  c.before = before;
  char *out = place == PYTHON_LATE ? NULL : replaced(&c);
  return out ? out : place == PYTHON_IN_CALL ? passed(&c) : assigned(&c);
}
