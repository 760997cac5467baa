#include "import/shell_text.h"

ShellText *shell_text_new(void)
{
  ShellText *t = g_new(ShellText, 1);

  t->text = g_string_new(NULL);
  t->origins = g_array_new(FALSE, FALSE, sizeof(ShellOrigin));
  return t;
}

static void add_origin(ShellText *t, int at)
{
  ShellOrigin origin = { at, -1, -1 };
  g_array_append_val(t->origins, origin);
}

ShellText *shell_text_of(const char *text, gboolean elsewhere)
{
  ShellText *t = shell_text_new();

  g_string_append(t->text, text);
  for (gsize i = 0; i < t->text->len; i++)
    add_origin(t, elsewhere ? -1 : (int)i);
  return t;
}

void shell_text_free(ShellText *t)
{
  g_string_free(t->text, TRUE);
  g_array_unref(t->origins);
  g_free(t);
}

void shell_text_add(ShellText *t, const ShellText *other, gsize first, gsize end)
{
  g_assert(end <= other->text->len);
  g_string_append_len(t->text, other->text->str + first, end - first);
  if (end > first)
    g_array_append_vals(t->origins, &g_array_index(other->origins, ShellOrigin, first), end - first);
}

void shell_text_add_all(ShellText *t, const ShellText *other)
{
  shell_text_add(t, other, 0, other->text->len);
}

ShellText *shell_text_part(const ShellText *text, gsize first, gsize end)
{
  ShellText *t = shell_text_new();

  shell_text_add(t, text, first, end);
  return t;
}

ShellText *shell_text_made(const char *made)
{
  ShellText *t = shell_text_new();

  shell_text_add_made(t, made);
  return t;
}

ShellText *shell_text_copy(const ShellText *text)
{
  ShellText *t = shell_text_new();

  shell_text_add_all(t, text);
  return t;
}

void shell_text_add_made(ShellText *t, const char *made)
{
  for (const char *c = made; *c; c++) {
    g_string_append_c(t->text, *c);
    add_origin(t, -1);
  }
}

void shell_text_expanded(ShellText *t, gsize first, int from, int end)
{
  for (gsize i = first; i < t->origins->len; i++) {
    ShellOrigin *origin = &g_array_index(t->origins, ShellOrigin, i);
    if (origin->from < 0 && from >= 0)
      *origin = (ShellOrigin) { origin->at, from, end };
  }
}

gboolean shell_text_span(const ShellText *t, int *first, int *end)
{
  const ShellOrigin *o = (const ShellOrigin *)t->origins->data;
  guint n = t->origins->len;

  for (guint i = 0; i < n; i++)
    if (o[i].at < 0 || o[i].at != o[0].at + (int)i)
      return FALSE;
  if (n == 0)
    return FALSE;
  *first = o[0].at;
  *end = o[0].at + (int)n;
  return TRUE;
}

gboolean shell_text_use(const ShellText *t, int *first, int *end)
{
  const ShellOrigin *o = (const ShellOrigin *)t->origins->data;
  guint n = t->origins->len;

  for (guint i = 0; i < n; i++)
    if (o[i].from < 0 || o[i].from != o[0].from || o[i].end != o[0].end)
      return FALSE;
  if (n == 0)
    return FALSE;
  *first = o[0].from;
  *end = o[0].end;
  return TRUE;
}

GPtrArray *shell_texts(void)
{
  return g_ptr_array_new_with_free_func((GDestroyNotify)shell_text_free);
}

GPtrArray *shell_texts_of(ShellText *text)
{
  GPtrArray *texts = shell_texts();

  g_ptr_array_add(texts, text);
  return texts;
}

const char *shell_text_at(const GPtrArray *texts, guint i)
{
  return i < texts->len ? ((ShellText *)texts->pdata[i])->text->str : "";
}
