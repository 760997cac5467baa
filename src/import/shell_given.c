/* What a script, a file that it starts or a function is started with. */
#include "import/shell_parts.h"

#include "import/launch_parts.h"

#include <string.h>

GPtrArray *shell_behind(const GPtrArray *words, guint first)
{
  GPtrArray *values = shell_texts();

  for (guint i = first; i < words->len; i++)
    g_ptr_array_add(values, shell_text_copy(words->pdata[i]));
  return values;
}

#define ARGUMENTS_MAX 1024
#define ARGUMENT_BYTES_MAX 65536

static gboolean too_many(const GPtrArray *values)
{
  gsize bytes = 0;

  for (guint i = 0; i < values->len; i++)
    bytes += ((ShellText *)values->pdata[i])->text->len;
  return values->len > ARGUMENTS_MAX || bytes > ARGUMENT_BYTES_MAX;
}

void shell_set_arguments(ShellState *s, GPtrArray *values)
{
  static const char *const of_all[] = { "@", "*", "#" };
  char name[16];

  for (guint i = 0; s->arguments && i < s->arguments->len; i++) {
    g_snprintf(name, sizeof name, "%u", i + 1);
    g_hash_table_remove(s->variables, name);
  }
  for (gsize i = 0; i < G_N_ELEMENTS(of_all); i++)
    g_hash_table_remove(s->variables, of_all[i]);
  g_clear_pointer(&s->arguments, g_ptr_array_unref);
  if (!values || too_many(values)) {
    g_clear_pointer(&values, g_ptr_array_unref);
    return;
  }
  s->arguments = values;
  s->runs += (int)values->len / 16; /* long lists, copied at each call, are as many calls */
  for (guint i = 0; i < values->len; i++) {
    g_snprintf(name, sizeof name, "%u", i + 1);
    shell_assign(s, name, shell_texts_of(shell_text_copy(values->pdata[i])), FALSE, FALSE);
  }
  g_snprintf(name, sizeof name, "%u", values->len);
  shell_assign(s, "@", g_ptr_array_ref(values), TRUE, FALSE);
  shell_assign(s, "*", g_ptr_array_ref(values), TRUE, FALSE);
  shell_assign(s, "#", shell_texts_of(shell_text_of(name, TRUE)), FALSE, FALSE);
}

void shell_shift(ShellState *s, guint by)
{
  if (!s->arguments)
    return;
  s->moved = TRUE;
  shell_set_arguments(s, shell_behind(s->arguments, MIN(by, s->arguments->len)));
}

const char *launch_variable(const char *const *given, const char *name)
{
  gsize length = strlen(name);
  const char *value = NULL;

  for (int i = 0; given && given[i]; i++)
    if (strncmp(given[i], name, length) == 0 && given[i][length] == '=')
      value = given[i] + length + 1;
  return value;
}

const char *shell_given(const ShellState *s, const char *name)
{
  return launch_variable(s->given, name);
}

void shell_take_given(ShellState *s)
{
  GPtrArray *arguments = shell_texts();

  for (int i = 0; s->given && s->given[i]; i++) {
    g_auto(GStrv) pair = g_strsplit(s->given[i], "=", 2);
    if (g_ascii_isdigit(*pair[0]))
      g_ptr_array_add(arguments, shell_text_of(pair[1], TRUE));
    else
      shell_assign(s, pair[0], shell_texts_of(shell_text_of(pair[1], TRUE)), FALSE, FALSE);
  }
  if (arguments->len > 0)
    shell_set_arguments(s, arguments);
  else
    g_ptr_array_unref(arguments);
}

void shell_name_idle(const ShellState *s)
{
  gboolean all = s->moved || g_hash_table_contains(s->asked, "@") || g_hash_table_contains(s->asked, "*");

  for (int i = 0; s->given && s->given[i]; i++) {
    g_auto(GStrv) pair = g_strsplit(s->given[i], "=", 2);
    gboolean argument = g_ascii_isdigit(*pair[0]);
    if (!g_hash_table_contains(s->asked, pair[0]) && !(argument && all))
      g_ptr_array_add(s->script->idle, g_strdup(s->given[i]));
  }
}
