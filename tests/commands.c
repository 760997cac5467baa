#include "commands.h"

char *commands_text(const ShellScript *script)
{
  GString *text = g_string_new(NULL);

  for (guint i = 0; i < script->commands->len; i++) {
    const ShellCommand *c = script->commands->pdata[i];
    for (guint j = 0; j < c->words->len; j++)
      g_string_append_printf(text, "%s%s", j ? "|" : "", ((ShellText *)c->words->pdata[j])->text->str);
    g_string_append_c(text, '\n');
  }
  return g_string_free(text, FALSE);
}
