#include "import/config_launch.h"

#include <string.h>

static const ConfigTool *const tools[] = { &config_nanotron, &config_torchtitan, &config_deepspeed,
                                          &config_torchtitan_python, &config_bridge, &config_accelerate, &config_olmo,
                                          &config_litgpt, &config_primus, &config_nemo,
                                          &config_kempnerforge };

static gboolean has_line(const char *text, const char *begin)
{
  gsize length = strlen(begin);

  for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
    if (strncmp(line, begin, length) == 0)
      return TRUE;
  return FALSE;
}

const ConfigTool *config_tool_of(const char *text)
{
  for (gsize i = 0; i < G_N_ELEMENTS(tools); i++) {
    if (tools[i]->line && !has_line(text, tools[i]->line))
      continue;
    g_autoptr(Settings) settings = tools[i]->parse(text);
    if (tools[i]->recognises(settings))
      return tools[i];
  }
  return NULL;
}

int config_int(ConfigReading *r, const char *path, int usual)
{
  int value = usual;

  r->to.failed = !settings_int(r->from, r->to.file, path, &value, r->to.failed ? NULL : r->to.error) || r->to.failed;
  return value;
}

double config_real(ConfigReading *r, const char *path, double usual)
{
  double value = usual;

  r->to.failed = !settings_real(r->from, r->to.file, path, &value, r->to.failed ? NULL : r->to.error) || r->to.failed;
  return value;
}

int config_word(const char *text)
{
  static const char *const words[][4] = { { "false", "no", "off", NULL }, { "true", "yes", "on", NULL } };
  g_autofree char *lower = g_ascii_strdown(text, -1);

  return g_strv_contains(words[TRUE], lower) ? TRUE : g_strv_contains(words[FALSE], lower) ? FALSE : -1;
}

gboolean config_true(ConfigReading *r, const char *path, gboolean usual)
{
  const char *text = settings_text(r->from, path);
  int word = config_word(text);

  if (*text && word < 0)
    launch_assume(&r->to, "%s: %s: neither true nor false: taken as %s", path, text, usual ? "true" : "false");
  return word < 0 ? usual : word;
}

void config_put_kept(JsonWriter *w)
{
  json_open(w, "zero_optimization", '{');
  json_put_bool(w, "reshard_after_forward", FALSE);
  json_close(w, '}');
}

const char *config_function(ConfigReading *r, gboolean (*is)(const Settings *settings, const Setting *one))
{
  const char *asked = launch_variable(r->given, "CONFIG"), *found = NULL;
  g_autoptr(GString) names = g_string_new(NULL);
  int n = 0;

  for (guint i = 0; i < r->from->list->len; i++) {
    const Setting *one = r->from->list->pdata[i];
    if (!is(r->from, one))
      continue;
    if (asked && g_str_equal(one->path, asked))
      return one->path;
    g_string_append_printf(names, "%s%s", n++ ? ", " : "", one->path);
    found = one->path;
  }
  if (!asked && n == 1)
    return found;
  const Setting *other = asked ? settings_last(r->from, asked) : NULL;
  if (other && n > 0) {
    launch_fail(&r->to, "%s: starts from %s(), which is not read: expected one of %s: " ARGUMENTS_SAY " CONFIG=NAME",
                asked, other->value, names->str);
    return NULL;
  }
  launch_fail(&r->to, "%s: expected one of %s: " ARGUMENTS_SAY " CONFIG=NAME", asked ? asked : "which configuration",
              names->str);
  return NULL;
}

/* Names that are assigned where nothing is read of it, each once. */
static void say_passed(ConfigReading *r, const char *function)
{
  g_autofree char *passed = g_strconcat(function, SETTINGS_PASSED, NULL);
  g_autoptr(GPtrArray) names = g_ptr_array_new();

  for (guint i = 0; i < r->from->list->len; i++) {
    const Setting *one = r->from->list->pdata[i];
    if (g_str_equal(one->path, passed) && !g_ptr_array_find_with_equal_func(names, one->value, g_str_equal, NULL))
      g_ptr_array_add(names, one->value);
  }
  if (names->len == 0)
    return;
  g_ptr_array_add(names, NULL);
  g_autofree char *list = g_strjoinv(", ", (char **)names->pdata);
  launch_assume(&r->to, "%s: sets %s under a condition, or from what it was: not read", function, list);
}

Settings *config_function_settings(ConfigReading *r, const char *function)
{
  g_autofree char *returns = g_strconcat(function, SETTINGS_RETURNS, NULL);
  Settings *own = settings_new();
  gsize length = strlen(function);

  for (guint i = 0; i < r->from->list->len; i++) {
    const Setting *one = r->from->list->pdata[i];
    const char *value = g_str_equal(one->value, "True")    ? "true"
                        : g_str_equal(one->value, "False") ? "false"
                                                           : one->value;
    if (strncmp(one->path, function, length) == 0 && one->path[length] == '.')
      settings_add_as(own, one->path + length + 1, g_strdup(value), one);
  }
  if (settings_find(r->from, returns))
    launch_assume(&r->to, "%s: returns under a condition, too: the last one, under none, is read alone", function);
  say_passed(r, function);
  return own;
}

gboolean config_gpus(ConfigReading *r, gint64 told, gint64 each)
{
  gint64 gpus = r->gpus > 0 ? r->gpus : told;

  if (each < 1 || each > 10000000)
    return launch_fail(&r->to, "degrees of %" G_GINT64_FORMAT " ranks in all: expected 1 to 10000000", each);
  if (r->gpus > 0 && told > 0 && gpus != told)
    return launch_fail(&r->to, "--gpus: %d: expected the %" G_GINT64_FORMAT " that the file comes to", r->gpus, told);
  if (r->gpus > 0 && gpus % each)
    return launch_fail(&r->to, "--gpus: %d: expected a multiple of the %d that the degrees divide", r->gpus, (int)each);
  if (gpus <= 0) {
    gpus = each;
    launch_assume_gpus(&r->to, (int)gpus);
  }
  r->to.out->gpus = (int)gpus;
  return !r->to.failed;
}

static void name_others(const ConfigTool *tool, const Settings *s, Launch *out)
{
  g_autoptr(GPtrArray) unread = g_ptr_array_new();

  for (guint i = 0; i < s->list->len; i++)
    if (!((Setting *)s->list->pdata[i])->read)
      g_ptr_array_add(unread, ((Setting *)s->list->pdata[i])->path);
  launch_name_groups(tool->groups, unread, NULL, out);
}

Launch *config_read(const ConfigTool *tool, const char *text, const char *name, const LaunchOptions *options,
                    GError **error)
{
  g_autoptr(Settings) all = tool->parse(text), chosen = NULL;
  g_autoptr(Launch) out = launch_new();
  g_autoptr(GError) first = NULL;
  ConfigReading r = { .from = all, .gpus = options->gpus, .seq = options->seq, .batch = options->batch,
                      .hidden = options->hidden, .framework = options->framework, .given = options->given,
                      .to = { name, out, &first, FALSE } };

  out->tool = tool->tool;
  out->title = tool->title;
  out->named = tool->chosen != NULL;
  out->editable = out->whole = TRUE;
  out->later = tool->later;
  if (tool->chosen)
    r.from = chosen = tool->chosen(&r);
  if (!r.from || !tool->read(&r) || r.to.failed) {
    g_propagate_error(error, g_steal_pointer(&first));
    return NULL;
  }
  name_others(tool, r.from, out);
  return g_steal_pointer(&out);
}

/* ---- changes ---- */

/* How many of the keys above two settings they share. */
static int shared_keys(const char *a, const char *b)
{
  int n = 0;

  for (; *a && *a == *b; a++, b++)
    n += *a == '.';
  return n;
}

static int keys_of(const char *path)
{
  int n = 0;

  for (; *path; path++)
    n += *path == '.';
  return n;
}

/* Whether a text says this of a setting, and all else as before. */
static gboolean proves(const ConfigTool *tool, const Settings *before, const char *text, const char *path,
                       const char *value)
{
  g_autoptr(Settings) after = tool->parse(text);
  const Setting *one = settings_last(after, path);
  guint found = 0, others = 0;

  for (guint i = 0; i < before->list->len; i++) {
    const Setting *old = before->list->pdata[i], *now = settings_last(after, old->path);
    if (g_str_equal(old->path, path))
      continue;
    others++;
    found += now && g_str_equal(now->value, settings_last(before, old->path)->value);
  }
  guint expected = others + (value != NULL);
  return found == others && after->list->len == expected && g_strcmp0(one ? one->value : NULL, value) == 0;
}

static char *replaced(const char *text, int first, int end, const char *bytes)
{
  GString *out = g_string_new_len(text, first);

  g_string_append(out, bytes);
  return g_string_free(g_string_append(out, text + end), FALSE);
}

/* Behind the last setting that stands below the same key. */
static char *added(const Settings *s, const char *text, const Setting *wanted, const char *raw)
{
  const Setting *beside = NULL;
  const char *key = strrchr(wanted->path, '.') ? strrchr(wanted->path, '.') + 1 : wanted->path;

  for (guint i = 0; i < s->list->len; i++) {
    const Setting *one = s->list->pdata[i];
    if (keys_of(one->path) == keys_of(wanted->path) && shared_keys(one->path, wanted->path) == keys_of(wanted->path))
      beside = one;
  }
  if (!beside)
    return NULL;
  int start = settings_line_start(text, beside->first), end = beside->end;
  gsize blank = strspn(text + start, " \t-");
  g_autofree char *indent = g_strndup(text + start, blank);
  g_strdelimit(indent, "-", ' ');
  gboolean json = text[strspn(text, " \t\r\n")] == '{', toml = !json && memchr(text + start, '=', beside->first - start);
  gboolean same_line = text[start + blank] != '"'; /* of JSON: objects without lines of their own */
  g_autofree char *line = json && same_line ? g_strdup_printf(", \"%s\": %s", key, raw)
                          : json ? g_strdup_printf(",\n%s\"%s\": %s", indent, key, raw)
                               : g_strdup_printf("\n%s%s%s%s", indent, key, toml ? " = " : ": ", raw);
  if (!json)
    end = settings_line_end(text, end); /* behind its comment */
  return replaced(text, end, end, line);
}

/* Where the key of a JSON member begins whose value begins here. */
static int json_key(const char *text, int value)
{
  int at = value;

  while (at > 0 && text[at] != ':')
    at--;
  while (at > 0 && text[at] != '"')
    at--;
  do
    at--;
  while (at > 0 && (text[at] != '"' || text[at - 1] == '\\'));
  return MAX(at, 0);
}

/* With the comma behind it, or before the last member of an object. */
static char *removed_json(const char *text, const Setting *one)
{
  int start = json_key(text, one->first), line = settings_line_start(text, start), end = one->end;
  int behind = end + (int)strspn(text + end, " \t\r\n");
  gboolean leads = line + (int)strspn(text + line, " \t") == start;

  if (text[behind] == ',') {
    end = behind + 1;
    end += (int)strspn(text + end, " \t");
    if (leads && text[end] == '\n')
      return replaced(text, line, end + 1, "");
    return replaced(text, start, end, "");
  }
  int before = start;
  while (before > 0 && g_ascii_isspace(text[before - 1]))
    before--;
  return replaced(text, before > 0 && text[before - 1] == ',' ? before - 1 : start, end, "");
}

static char *removed(const char *text, const Setting *one)
{
  if (text[strspn(text, " \t\r\n")] == '{')
    return removed_json(text, one);
  int start = settings_line_start(text, one->first), end = settings_line_end(text, one->end);

  return replaced(text, start, end + (text[end] == '\n'), "");
}

/* The text with one setting as it shall be, or without it (`raw` NULL); NULL where that cannot be proved. */
static char *changed(const ConfigTool *tool, const char *text, const Setting *wanted, const char *raw)
{
  g_autoptr(Settings) s = tool->parse(text);
  const Setting *there = settings_last(s, wanted->path);

  if (!there && !raw)
    return g_strdup(text);
  g_autofree char *out = !raw ? removed(text, there) : there ? replaced(text, there->first, there->end, raw)
                                                              : added(s, text, wanted, raw);
  return out && proves(tool, s, out, wanted->path, raw ? wanted->value : NULL) ? g_steal_pointer(&out) : NULL;
}

void config_note(GPtrArray *notes, const char *change)
{
  g_ptr_array_add(notes, g_strdup_printf("%s: no place in the file: write it yourself", change));
}

static void apply(const ConfigTool *tool, char **text, const Setting *wanted, const char *raw, GPtrArray *notes)
{
  char *next = changed(tool, *text, wanted, raw);

  if (next) {
    g_free(*text);
    *text = next;
  } else if (!raw) {
    g_ptr_array_add(notes, g_strdup_printf("%s: has to go, and stands where nothing can be taken out: do it yourself",
                                           wanted->path));
  } else {
    g_autofree char *change = g_strdup_printf("%s: %s", wanted->path, raw);
    config_note(notes, change);
  }
}

static char *change_chosen(const ConfigTool *tool, const char *text, const char *name, const char *const *given,
                           const char *before, const char *after, GPtrArray *notes)
{
  g_autoptr(Settings) all = tool->parse(text);
  g_autoptr(Launch) out = launch_new();
  g_autoptr(GError) error = NULL;
  ConfigReading r = { .from = all, .given = given, .to = { name, out, &error, FALSE } };
  char *now = g_strdup(text);

  tool->change(&r, &now, before, after, notes);
  return now;
}

static char *change_settings(const ConfigTool *tool, const char *text, const char *before, const char *after,
                             GPtrArray *notes)
{
  g_autoptr(Settings) whole = tool->parse(text);
  g_autoptr(Settings) old = tool->parse(before);
  g_autoptr(Settings) new = tool->parse(after);
  char *out = g_strdup(text);

  for (guint i = 0; i < new->list->len; i++) {
    const Setting *one = new->list->pdata[i], *was = settings_last(old, one->path);
    g_autofree char *raw = g_strndup(after + one->first, one->end - one->first);
    gboolean implied = tool->implied && tool->implied(old, new, one->path) && !settings_last(whole, one->path);
    if (!was || !g_str_equal(was->value, one->value) || implied)
      apply(tool, &out, one, raw, notes);
  }
  for (guint i = 0; i < old->list->len; i++)
    if (!settings_last(new, ((Setting *)old->list->pdata[i])->path))
      apply(tool, &out, old->list->pdata[i], NULL, notes);
  return out;
}

/* Whether all lines of a text end as DOS has them. */
static gboolean ends_as_dos(const char *text)
{
  gboolean all = strchr(text, '\n') != NULL;

  for (const char *end = strchr(text, '\n'); end; end = strchr(end + 1, '\n'))
    all &= end > text && end[-1] == '\r';
  return all;
}

/* Lines that were added or changed end as the others. */
static char *end_alike(const char *text, char *changed)
{
  if (!ends_as_dos(text))
    return changed;
  GString *out = g_string_new(NULL);
  for (const char *at = changed; *at; at++)
    g_string_append(out, *at == '\n' && (at == changed || at[-1] != '\r') ? "\r\n" : (char[]) { *at, '\0' });
  g_free(changed);
  return g_string_free(out, FALSE);
}

char *config_change(const ConfigTool *tool, const char *text, const char *name, const char *const *given,
                    const char *before, const char *after, GPtrArray *notes)
{
  return end_alike(text, tool->change ? change_chosen(tool, text, name, given, before, after, notes)
                                      : change_settings(tool, text, before, after, notes));
}
