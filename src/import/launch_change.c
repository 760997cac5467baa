/* A script with some of its arguments changed. */
#include "import/config_launch.h"
#include "import/launch_parts.h"

/* What is wanted of an argument; value NULL = that it is gone, "" = that it is a switch. */
typedef struct {
  char *name, *value;
} Change;

/* Spellings of one thing: where one is changed, the others go. */
static const char *const spellings[][10] = {
  { "num_layers_per_virtual_pipeline_stage", "num_virtual_stages_per_pipeline_rank", "pipeline_model_parallel_layout",
    "decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers", NULL },
  { "recompute_granularity", "recompute_activations", "checkpoint_activations", "activations_checkpoint_method",
    "activations_checkpoint_granularity", "activations_checkpoint_num_layers", "checkpoint_num_layers", NULL },
  { "attention_backend", "use_flash_attn", NULL },
  { "expert_model_parallel_size", "moe_expert_parallel_size", NULL },
  { "context_parallel_size", "ds_sequence_parallel_size", NULL },
};

static void change_clear(gpointer data)
{
  Change *c = data;
  g_free(c->name);
  g_free(c->value);
}

static void add_change(GArray *changes, const char *name, const char *value)
{
  Change c = { g_strdup(name), g_strdup(value) };
  g_array_append_val(changes, c);
}

/* ---- a text as it is read ---- */

typedef struct {
  const char *text, *name;
  const char *const *given;
  ShellScript *script;
  Arguments *arguments;
} Reading;

static Reading reading_of(const char *text, const char *name, const char *const *given)
{
  Reading r = { text, name, given, launch_script(text, name, given), NULL };

  r.arguments = launch_command(r.script);
  return r;
}

static void reading_clear(Reading *r)
{
  g_clear_pointer(&r->arguments, arguments_free);
  shell_free(r->script);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Reading, reading_clear)

/* The last of a name, whatever it says; NULL if there is none. */
static const Argument *last_of(const GPtrArray *list, const char *name)
{
  for (guint i = list->len; i-- > 0;)
    if (g_str_equal(((Argument *)list->pdata[i])->name, name))
      return list->pdata[i];
  return NULL;
}

static void put_arguments(GString *text, const GPtrArray *list, const char *but)
{
  for (guint i = 0; i < list->len; i++) {
    const Argument *a = list->pdata[i];
    g_autofree char *value = argument_text(a);
    if (g_strcmp0(a->name, but) != 0)
      g_string_append_printf(text, "%s=%s\n", a->name, value);
  }
}

/* All that a command is told but one argument. */
static char *others(const Arguments *a, const char *but)
{
  GString *text = g_string_new(NULL);

  put_arguments(text, a->launcher, NULL);
  put_arguments(text, a->arguments, but);
  return g_string_free(text, FALSE);
}

/* Whether the new text says what is wanted, and all else as before. */
static gboolean proves(const Reading *before, const char *text, const Change *c)
{
  g_auto(Reading) after = reading_of(text, before->name, before->given);

  if (!after.arguments)
    return FALSE;
  g_autofree char *was = others(before->arguments, c->name), *is = others(after.arguments, c->name);
  const Argument *a = last_of(after.arguments->arguments, c->name);
  g_autofree char *value = a ? argument_text(a) : NULL;
  return g_str_equal(was, is) && g_strcmp0(value, c->value) == 0;
}

/* The text with other bytes at first .. end - 1, if that proves the change; else NULL. */
static char *tried(const Reading *r, const Change *c, int first, int end, const char *bytes)
{
  GString *text = g_string_new_len(r->text, first);

  g_string_append(text, bytes);
  g_string_append(text, r->text + end);
  if (proves(r, text->str, c))
    return g_string_free(text, FALSE);
  g_string_free(text, TRUE);
  return NULL;
}

/* ---- places ---- */

static gboolean blank(const char *text, int first, int end)
{
  for (int i = first; i < end; i++)
    if (!g_ascii_isspace(text[i]) && text[i] != '\\' && text[i] != '"' && text[i] != '\'' && text[i] != '=')
      return FALSE;
  return TRUE;
}

/* Where an argument stands, from its dashes to the end of its last value: FALSE where that is not one piece. */
static gboolean place_of(const Reading *r, const Argument *a, int *first, int *end)
{
  int from, to;

  if (!a->word || !shell_text_span(a->word, first, end))
    return a->word && a->joined && shell_text_use(a->joined, first, end);
  for (guint i = 0; i < a->values->len; i++) {
    const ShellText *value = a->values->pdata[i];
    gboolean there = shell_text_span(value, &from, &to) && from >= *first && blank(r->text, MIN(*end, from), from);
    if (!there)
      there = shell_text_use(value, &from, &to) && from >= *first && blank(r->text, MIN(*end, from), from);
    if (!there)
      return FALSE;
    *end = MAX(to, *end);
  }
  return TRUE;
}

/* ---- kinds of changes ---- */

static char *set_value(const Reading *r, const Change *c, const Argument *a)
{
  g_autoptr(ShellText) value = shell_text_new();
  int first, end;
  char *text = NULL;

  for (guint i = 0; i < a->values->len; i++)
    shell_text_add_all(value, a->values->pdata[i]);
  if (shell_text_span(value, &first, &end))
    text = tried(r, c, first, end, c->value);
  if (!text && shell_text_use(value, &first, &end))
    text = tried(r, c, first, end, c->value);
  if (text || !a->word || !place_of(r, a, &first, &end))
    return text;
  g_autofree char *flag = g_strdup_printf("%s %s", a->word->text->str, c->value);
  return tried(r, c, first, end, flag);
}

/* Without the argument: with its line if it stands alone there. */
static char *removed(const Reading *r, const Change *c, const Argument *a)
{
  int first, end;

  if (!place_of(r, a, &first, &end))
    return NULL;
  const char *text = r->text;
  int start = settings_line_start(text, first), rest = end;
  while (text[rest] == ' ' || text[rest] == '\t' || text[rest] == '"' || text[rest] == '\\')
    rest++;
  gboolean alone = text[rest] == '\n' && blank(text, start, first);
  char *out = alone ? tried(r, c, start, rest + 1, "") : NULL;
  if (out)
    return out;
  while (first > start && (text[first - 1] == ' ' || text[first - 1] == '\t'))
    first--;
  out = tried(r, c, first, end, "");
  return out ? out : tried(r, c, first, end, " ");
}

/* Behind an argument that is there: on a line of its own if that has one. */
static char *added_behind(const Reading *r, const Change *c, const Argument *anchor)
{
  g_autofree char *name = argument_flag(c->name);
  int first, end;

  if (!place_of(r, anchor, &first, &end))
    return NULL;
  const char *text = r->text;
  int start = settings_line_start(text, first), rest = end;
  g_autofree char *flag = g_strdup_printf("%s%s%s", name, *c->value ? " " : "", c->value);
  g_autofree char *indent = g_strndup(text + start, first - start);
  g_autofree char *beside = g_strdup_printf(" %s", flag);
  while (text[rest] == ' ' || text[rest] == '\t')
    rest++;
  gboolean continued = text[rest] == '\\', alone = blank(text, start, first) && (continued || text[rest] == '\n');
  g_autofree char *below = g_strdup_printf("%s\n%s%s", continued ? " \\" : "", indent, flag);
  char *out = alone ? tried(r, c, end, end, below) : NULL;
  return out ? out : tried(r, c, end, end, beside);
}

/* What a change is about stands beside arguments that are about the same, if any is there. */
static char *added(const Reading *r, const Change *c, const GPtrArray *order)
{
  static const char *const usual[] = { "pipeline_model_parallel_size", "tensor_model_parallel_size",
                                       "micro_batch_size" };
  const GPtrArray *list = r->arguments->arguments;
  char *out = NULL;
  int at = -1;

  for (guint i = 0; i < order->len; i++)
    if (g_str_equal(((Argument *)order->pdata[i])->name, c->name))
      at = (int)i;
  for (int i = at - 1; i >= 0 && i >= at - 2 && !out; i--) {
    const Argument *anchor = last_of(list, ((Argument *)order->pdata[i])->name);
    out = anchor ? added_behind(r, c, anchor) : NULL;
  }
  for (gsize i = 0; i < G_N_ELEMENTS(usual) && !out; i++) {
    const Argument *anchor = last_of(list, usual[i]);
    out = anchor ? added_behind(r, c, anchor) : NULL;
  }
  for (guint i = list->len; i-- > 0 && !out;)
    out = added_behind(r, c, list->pdata[i]);
  return out;
}

static char *changed(const char *text, const char *name, const char *const *given, const Change *c,
                     const GPtrArray *order)
{
  g_auto(Reading) r = reading_of(text, name, given);

  if (!r.arguments)
    return NULL;
  const Argument *a = last_of(r.arguments->arguments, c->name);
  g_autofree char *value = a ? argument_text(a) : NULL;
  if (g_strcmp0(value, c->value) == 0)
    return g_strdup(text);
  if (!c->value)
    return removed(&r, c, a);
  return a ? set_value(&r, c, a) : added(&r, c, order);
}

/* ---- what is to be changed ---- */

static void add_spellings(GArray *changes, const char *name, const GPtrArray *after)
{
  for (gsize i = 0; i < G_N_ELEMENTS(spellings); i++) {
    if (!g_strv_contains(spellings[i], name))
      continue;
    for (int j = 0; spellings[i][j]; j++)
      if (!last_of(after, spellings[i][j]))
        add_change(changes, spellings[i][j], NULL);
  }
}

static GArray *changes_of(const GPtrArray *before, const GPtrArray *after)
{
  GArray *changes = g_array_new(FALSE, FALSE, sizeof(Change));

  g_array_set_clear_func(changes, change_clear);
  for (guint i = 0; i < after->len; i++) {
    const Argument *a = after->pdata[i], *b = last_of(before, a->name);
    g_autofree char *value = argument_text(a), *was = b ? argument_text(b) : NULL;
    if (g_strcmp0(value, was) == 0)
      continue;
    add_spellings(changes, a->name, after);
    add_change(changes, a->name, value);
  }
  for (guint i = 0; i < before->len; i++) {
    const Argument *b = before->pdata[i];
    if (last_of(after, b->name))
      continue;
    add_spellings(changes, b->name, after);
    add_change(changes, b->name, NULL);
  }
  return changes;
}

static Arguments *line_arguments(const char *line)
{
  g_autoptr(ShellScript) script = shell_read(line, NULL, NULL);
  guint n = script->commands->len;

  return n ? arguments_of_command(script->commands->pdata[n - 1]) : NULL;
}

char *launch_change(const char *text, const char *name, const char *const *given, const char *before,
                    const char *after, GPtrArray *notes)
{
  const ConfigTool *tool = config_tool_of(text);

  if (tool)
    return config_change(tool, text, name, given, before, after, notes);
  g_autoptr(Arguments) old = line_arguments(before);
  g_autoptr(Arguments) new = line_arguments(after);
  char *out = g_strdup(text);

  g_autoptr(GArray) changes = changes_of(old->arguments, new->arguments);
  for (guint i = 0; i < changes->len; i++) {
    const Change *c = &g_array_index(changes, Change, i);
    char *next = changed(out, name, given, c, new->arguments);
    if (next) {
      g_free(out);
      out = next;
      continue;
    }
    g_autofree char *flag = argument_flag(c->name);
    g_autofree char *change = c->value ? g_strdup_printf("%s%s%s", flag, *c->value ? " " : "", c->value)
                                       : g_strdup_printf("without %s", flag);
    g_ptr_array_add(notes, g_strdup_printf("%s: no place in the script: write it yourself", change));
  }
  return out;
}
