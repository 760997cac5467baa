#include "import/megatron_launch.h"
#include "import/settings.h"

#include <string.h>

#define ARGUMENTS "MODEL_ARGS.--"

static gboolean has(const Settings *s, const char *name)
{
  g_autofree char *path = g_strconcat(ARGUMENTS, name, NULL);
  return settings_last(s, path) != NULL;
}

/* The program that takes them, which the file does not name. */
static const char *program_of(const Settings *s)
{
  const Setting *tokenizer = settings_last(s, ARGUMENTS "tokenizer-type");

  if (has(s, "encoder-num-layers") || has(s, "encoder-seq-length"))
    return "pretrain_t5.py";
  return tokenizer && g_str_has_prefix(tokenizer->value, "Bert") ? "pretrain_bert.py" : "pretrain_gpt.py";
}

/* Words in double quotes, in which a shell fills in variables; "''" where there is none. Single quotes around all of it
 * are those of a shell that reads the line again; items of a list of names are words. */
static void put_words(GString *script, const char *value)
{
  gsize length = strlen(value), quoted = length > 1 && *value == '\'' && value[length - 1] == '\'';
  g_autofree char *plain = g_strndup(value + quoted, length - 2 * quoted);
  if (*plain == '[' && !g_ascii_isdigit(plain[1]))
    g_strdelimit(plain, "[],'\"", ' ');
  g_auto(GStrv) words = g_strsplit(plain, " ", -1);

  for (int i = 0; words[i]; i++) {
    if (!*words[i])
      continue;
    g_string_append(script, " \"");
    for (const char *at = words[i]; *at; at++) {
      if (strchr("\"\\`", *at) || (*at == '$' && at[1] == '('))
        g_string_append_c(script, '\\');
      g_string_append_c(script, *at);
    }
    g_string_append_c(script, '"');
  }
  if (!*value)
    g_string_append(script, " ''");
}

char *megatron_yaml_script(const char *text)
{
  if (!g_str_has_prefix(text, "MODEL_ARGS:") && !strstr(text, "\nMODEL_ARGS:"))
    return NULL;
  g_autoptr(Settings) s = settings_yaml(text);
  g_autoptr(GString) script = g_string_new("torchrun ");
  int n = 0;

  g_string_append(script, program_of(s));
  for (guint i = 0; i < s->list->len; i++) {
    const Setting *one = s->list->pdata[i];
    if (!g_str_has_prefix(one->path, ARGUMENTS))
      continue;
    n++;
    if (g_ascii_strcasecmp(one->value, "false") == 0)
      continue;
    g_string_append_printf(script, " %s", one->path + strlen(ARGUMENTS) - 2);
    if (g_ascii_strcasecmp(one->value, "true") != 0)
      put_words(script, one->value);
  }
  return n > 0 ? g_string_free(g_steal_pointer(&script), FALSE) : NULL;
}
