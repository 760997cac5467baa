#include "import/arguments.h"

#include "base/error.h"
#include "import/shell_parts.h"

#include <math.h>
#include <string.h>

static void argument_free(gpointer data)
{
  Argument *a = data;

  g_free(a->name);
  g_clear_pointer(&a->word, shell_text_free);
  g_clear_pointer(&a->joined, shell_text_free);
  g_ptr_array_unref(a->values);
  g_free(a);
}

static Arguments *arguments_new(void)
{
  Arguments *a = g_new0(Arguments, 1);

  a->launcher = g_ptr_array_new_with_free_func(argument_free);
  a->arguments = g_ptr_array_new_with_free_func(argument_free);
  a->open = g_ptr_array_new_with_free_func(g_free);
  return a;
}

void arguments_free(Arguments *a)
{
  g_ptr_array_unref(a->launcher);
  g_ptr_array_unref(a->arguments);
  g_ptr_array_unref(a->open);
  g_free(a->command);
  g_free(a->program);
  g_free(a);
}

static Argument *argument_new(GPtrArray *list, const char *name, gsize length)
{
  Argument *a = g_new0(Argument, 1);

  a->name = g_strndup(name, length);
  g_strdelimit(a->name, "-", '_');
  a->values = shell_texts();
  g_ptr_array_add(list, a);
  return a;
}

/* "--name", "--name=value" or "-N". */
static Argument *read_option(GPtrArray *list, const ShellText *word)
{
  const char *text = word->text->str, *name = text + strspn(text, "-");
  gsize length = strcspn(name, "=");
  Argument *a = argument_new(list, name, length);

  a->word = shell_text_copy(word);
  if (name[length]) {
    a->joined = shell_text_new();
    shell_text_add(a->joined, word, name + length + 1 - text, word->text->len);
    g_ptr_array_add(a->values, shell_text_copy(a->joined));
  }
  return a;
}

static gboolean is_option(const char *text)
{
  return text[0] == '-' && (g_ascii_isalpha(text[1]) || (text[1] == '-' && text[2]));
}

/* What is started: a script, or a module behind -m that is no launcher. */
static gboolean is_program(const ShellCommand *command, guint i)
{
  const char *word = shell_text_at(command->words, i);
  const char *before = i > 0 ? shell_text_at(command->words, i - 1) : "";

  return g_str_has_suffix(word, ".py") ||
         (g_str_equal(before, "-m") && !g_str_has_prefix(word, "torch.distributed") && !strstr(word, "launch"));
}

/* "$NAME", "$1": all of a word that nothing sets. */
static gboolean is_open(const char *text)
{
  gsize length = text[0] == '$' ? shell_name_length(text + 1) : 0;
  return text[0] == '$' && text[1] && (length ? !text[1 + length] : !text[1 + strspn(text + 1, "0123456789")]);
}

Arguments *arguments_of_command(const ShellCommand *command)
{
  Arguments *a = arguments_new();
  Argument *last = NULL;

  for (guint i = 0; i < command->words->len; i++) {
    const ShellText *word = command->words->pdata[i];
    const char *text = word->text->str;
    if (i == 0)
      a->command = g_path_get_basename(*text ? text : "-");
    if (!a->program && is_program(command, i)) {
      a->program = g_path_get_basename(text);
      last = NULL;
    } else if (is_option(text)) {
      last = read_option(a->program ? a->arguments : a->launcher, word);
    } else if (last && last->values->len > 0 && is_open(text)) {
      g_ptr_array_add(a->open, g_strdup(text));
    } else if (last && !last->joined) {
      g_ptr_array_add(last->values, shell_text_copy(word));
    }
  }
  return a;
}

Arguments *arguments_of_line(const char *line)
{
  g_autoptr(ShellScript) script = shell_read(line, NULL, NULL);

  return arguments_of_command(script->commands->pdata[script->commands->len - 1]);
}

/* ---- lists of logs ---- */

static void read_listed(GPtrArray *list, const char *line)
{
  const char *dots = strstr(line, " ...");

  if (!dots)
    return;
  g_autofree char *left = g_strchomp(g_strndup(line, dots - line));
  const char *name = strrchr(left, ' ') ? strrchr(left, ' ') + 1 : left;
  const char *value = dots + 1 + strspn(dots + 1, ".");
  g_autofree char *text = g_strstrip(g_strdup(value));
  if (!*name || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(name))
    return;
  Argument *a = argument_new(list, name, strlen(name));
  if (!g_str_equal(text, "True"))
    g_ptr_array_add(a->values, shell_text_of(text, TRUE));
}

Arguments *arguments_of_log(const char *text)
{
  g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
  g_autoptr(Arguments) a = arguments_new();

  a->listed = TRUE;
  for (int i = 0; lines[i]; i++)
    read_listed(a->arguments, lines[i]);
  return a->arguments->len > 0 ? g_steal_pointer(&a) : NULL;
}

/* ---- lookups ---- */

const Argument *argument_find(const GPtrArray *arguments, const char *name)
{
  const Argument *last = NULL;

  for (guint i = 0; i < arguments->len; i++) {
    Argument *a = arguments->pdata[i];
    if (!g_str_equal(a->name, name))
      continue;
    a->read = TRUE;
    const char *value = shell_text_at(a->values, 0);
    last = g_str_equal(value, "None") || g_str_equal(value, "False") ? NULL : a;
  }
  return last;
}

char *argument_flag(const char *name)
{
  char *flag = g_strdup_printf("--%s", name);
  return g_strdelimit(flag, "_", '-');
}

char *argument_text(const Argument *a)
{
  GString *text = g_string_new(NULL);

  for (guint i = 0; i < a->values->len; i++)
    g_string_append_printf(text, "%s%s", i ? " " : "", shell_text_at(a->values, i));
  return g_string_free(text, FALSE);
}

static gboolean refuse(const Argument *a, const char *file, const char *expected, GError **error)
{
  g_autofree char *text = argument_text(a), *flag = argument_flag(a->name);

  return input_error(error, "%s: %s: %s: expected %s%s", file, flag, *text ? text : "nothing behind it", expected,
                     text[0] == '$' ? ", and nothing in the script says it: " ARGUMENTS_SAY : "");
}

static gboolean values_alike(const Argument *a)
{
  for (guint i = 1; i < a->values->len; i++)
    if (!g_string_equal(((ShellText *)a->values->pdata[0])->text, ((ShellText *)a->values->pdata[i])->text))
      return FALSE;
  return TRUE;
}

gboolean argument_real(const GPtrArray *arguments, const char *file, const char *name, double *out, GError **error)
{
  const Argument *a = argument_find(arguments, name);
  char *end = NULL;

  if (!a)
    return TRUE;
  if (!values_alike(a))
    return refuse(a, file, "one number, or the same for every layer", error);
  g_autofree char *text = g_strdup(shell_text_at(a->values, 0));
  for (char *c = strchr(text, '_'); c; c = strchr(c, '_')) /* as Python writes thousands */
    memmove(c, c + 1, strlen(c));
  double value = g_ascii_strtod(text, &end);
  if (end == text || *end || !isfinite(value))
    return refuse(a, file, "a number", error);
  *out = value;
  return TRUE;
}

gboolean argument_int(const GPtrArray *arguments, const char *file, const char *name, int *out, GError **error)
{
  double value = *out;

  if (!argument_real(arguments, file, name, &value, error))
    return FALSE;
  if (value != floor(value) || value < 0 || value > G_MAXINT)
    return refuse(argument_find(arguments, name), file, "a whole number", error);
  *out = (int)value;
  return TRUE;
}
