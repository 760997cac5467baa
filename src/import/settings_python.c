/* Python functions that return a tree of calls, `return Trainer.Config(training=TrainingConfig(steps=10))`: settings
 * "NAME.training.steps", with what is called as "NAME.training". Of a body what assigns and returns is read; a function
 * that it calls may stand behind it, and of several of one name the last is meant, as where Python calls them. */
#include "import/settings.h"

#include <string.h>

/* Bounds of what is made of a file, which may name its functions again and again. */
#define DEPTH_MAX 32
#define SETTINGS_MAX 4000

typedef struct {
  char *name;
  SettingsBody body;
  enum { UNREAD, OPEN, READ } state;
  Settings *own;  /* what it returns, by its name; what it assigns as ":NAME" */
} Function;

typedef struct {
  const char *text;
  GPtrArray *functions; /* Function *, in their order in the file */
  GHashTable *by_name;  /* the last of each name */
  GHashTable *constants; /* names that lines outside functions give a string or a number: its text */
  Function *at;         /* that is read */
  guint depth, count;   /* functions open, settings made */
} Reader;

static void function_free(gpointer data)
{
  Function *f = data;
  g_free(f->name);
  settings_free(f->own);
  g_free(f);
}

static gboolean is_word(char c)
{
  return g_ascii_isalnum(c) || c == '_' || c == '.';
}

/* Behind blanks and comments, lines too. */
static int skip_blank(const char *text, int at)
{
  for (;; at++) {
    if (text[at] == '#')
      at = settings_line_end(text, at);
    if (!text[at] || !strchr(" \t\r\n\\", text[at]))
      return at;
  }
}

/* Behind a string, of one line or of several. */
static int skip_string(const char *text, int at)
{
  char quote = text[at];
  gboolean lines = text[at + 1] == quote && text[at + 2] == quote;

  for (at += lines ? 3 : 1; text[at]; at++) {
    if (text[at] == '\\' && text[at + 1])
      at++;
    else if (text[at] == quote && !lines)
      return at + 1;
    else if (lines && strncmp(text + at, (char[]) { quote, quote, quote, '\0' }, 3) == 0)
      return at + 3;
    else if (text[at] == '\n' && !lines)
      return at;
  }
  return at;
}

/* Behind an expression: at a comma, a bracket that it did not open, or, outside brackets, the end of the line. */
static int skip_value(const char *text, int at, gboolean inside)
{
  int depth = 0;

  while (text[at]) {
    char c = text[at];
    if (c == '"' || c == '\'') {
      at = skip_string(text, at);
      continue;
    }
    if (c == '#') {
      at = settings_line_end(text, at);
      continue;
    }
    if (strchr("([{", c))
      depth++;
    else if (strchr(")]}", c) && depth-- == 0)
      return at;
    if (depth == 0 && (c == ',' || (c == '\n' && !inside)))
      return at;
    at++;
  }
  return at;
}

/* Behind what stands there before blanks and a comment. */
static int trimmed(const char *text, int at, int end)
{
  int last = at;

  while (at < end) {
    if (text[at] == '#') {
      at = settings_line_end(text, at);
      continue;
    }
    int next = text[at] == '"' || text[at] == '\'' ? skip_string(text, at) : at + 1;
    last = g_ascii_isspace(text[at]) ? last : next;
    at = next;
  }
  return last;
}

int settings_python_behind(const char *text, const Setting *one)
{
  return text[one->end] == '(' ? trimmed(text, one->end, skip_value(text, one->end, FALSE)) : one->end;
}

/* A value of its own; "2 * 8192" as the number that it is. */
static void put(Reader *r, const char *path, const char *value, const Setting *place)
{
  if (r->count++ >= SETTINGS_MAX)
    return;
  char *rest = NULL;
  gint64 product = g_ascii_strtoll(value, &rest, 10), factor;

  while (rest != value && *rest && product > 0 && product < G_MAXINT) {
    rest += strspn(rest, " ");
    if (*rest != '*')
      break;
    factor = g_ascii_strtoll(rest + 1, &rest, 10);
    product = factor > 0 && factor < G_MAXINT ? product * factor : 0;
  }
  gboolean made = product > 0 && strchr(value, '*') && !*rest;
  settings_add_as(r->at->own, path, made ? g_strdup_printf("%" G_GINT64_FORMAT, product) : g_strdup(value), place);
}

/* All that a function has below one path, below another of the one that is read; FALSE if nothing is. */
static gboolean copy_below(Reader *r, const Function *function, const char *from, const char *to)
{
  gsize length = strlen(from);
  guint n = function->own->list->len;
  gboolean found = FALSE;

  for (guint i = 0; i < n; i++) {
    const Setting *one = function->own->list->pdata[i];
    if (strncmp(one->path, from, length) != 0 || !strchr(".", one->path[length]))
      continue;
    g_autofree char *path = g_strconcat(to, one->path + length, NULL);
    put(r, path, one->value, one);
    found = TRUE;
  }
  return found;
}

static void read_function(Reader *r, Function *f);

/* What a function does that is not read: `kind` is SETTINGS_RETURNS, SETTINGS_CALLS or SETTINGS_PASSED. */
static void put_unread(Reader *r, const char *kind, const char *value, int first, int end)
{
  g_autofree char *path = g_strconcat(r->at->name, kind, NULL);

  if (r->count++ < SETTINGS_MAX)
    settings_add(r->at->own, path, g_strdup(value), first, end);
}

/* What a function returns, at a path, with what of it is not read; FALSE if it is none of the file, or open. */
static gboolean copy_returned(Reader *r, const char *name, const char *path)
{
  Function *f = g_hash_table_lookup(r->by_name, name);
  gsize length = strlen(name);

  if (f)
    read_function(r, f);
  if (!f || f->state != READ || !copy_below(r, f, name, path))
    return FALSE;
  for (guint i = 0; i < f->own->list->len; i++) {
    const Setting *one = f->own->list->pdata[i];
    if (g_str_has_prefix(one->path, name) && one->path[length] == ':')
      put_unread(r, one->path + length, one->value, one->first, one->end);
  }
  return TRUE;
}

static int read_value(Reader *r, const char *path, int at, gboolean inside, int depth);

/* Arguments of a call, from behind its bracket; returns behind the other. */
static int read_arguments(Reader *r, const char *path, int at, int depth)
{
  const char *text = r->text;

  for (int n = 0; text[at = skip_blank(text, at)] && text[at] != ')'; n++) {
    int end = at;
    while (is_word(text[end]))
      end++;
    int sign = skip_blank(text, end);
    gboolean named = end > at && text[sign] == '=' && text[sign + 1] != '=';
    g_autofree char *key = named ? g_strndup(text + at, end - at) : g_strdup_printf("%d", n);
    g_autofree char *below = g_strdup_printf("%s.%s", path, key);
    int next = skip_blank(text, read_value(r, below, named ? sign + 1 : at, TRUE, depth + 1));
    at = text[next] == ',' ? next + 1 : next;
    if (text[next] != ',' && text[next] != ')')
      break;
  }
  return text[at] == ')' ? at + 1 : at;
}

/* Whether brackets hold all of a value, which is no tuple. */
static gboolean is_whole_group(const char *text, int at, int end)
{
  int close = skip_value(text, at + 1, TRUE);

  return text[close] == ')' && trimmed(text, at, end) == close + 1;
}

/* A call, a name that is known, a string, or what stands there; returns behind it. */
static int read_value(Reader *r, const char *path, int at, gboolean inside, int depth)
{
  const char *text = r->text;

  if (inside)
    at = skip_blank(text, at);
  at += (int)strspn(text + at, " \t");
  int name_end = at, end = skip_value(text, at, inside);
  if (text[at] == '(' && depth < DEPTH_MAX && is_whole_group(text, at, end)) {
    read_value(r, path, at + 1, TRUE, depth + 1);
    return end;
  }
  while (is_word(text[name_end]))
    name_end++;
  g_autofree char *name = g_strndup(text + at, name_end - at), *local = g_strdup_printf(":%s", name);
  if (name_end > at && text[name_end] == '(' && depth < DEPTH_MAX) {
    gboolean whole = text[skip_blank(text, name_end + 1)] == ')' && copy_returned(r, name, path);
    if (!whole)
      put(r, path, name, &(Setting) { .first = at, .end = name_end, .bare = TRUE });
    int behind = whole ? end : read_arguments(r, path, name_end + 1, depth);
    return MAX(behind, end);
  }
  int last = trimmed(text, at, end);
  const char *constant = name_end == last ? g_hash_table_lookup(r->constants, name) : NULL;
  if (name_end == last && name_end > at && copy_below(r, r->at, local, path))
    return end;
  if (constant) {
    put(r, path, constant, &(Setting) { .first = at, .end = last });
    return end;
  }
  gboolean quoted = (text[at] == '"' || text[at] == '\'') && skip_string(text, at) == last && last > at + 1;
  g_autofree char *value = g_strndup(text + at + quoted, MAX(0, last - at - 2 * quoted));
  put(r, path, value, &(Setting) { .first = at, .end = last, .bare = !quoted });
  return end;
}

/* Takes what is assigned out of all that was known below the path. */
static void forget(Reader *r, const char *path)
{
  GPtrArray *list = r->at->own->list;
  gsize length = strlen(path);

  for (guint i = list->len; i-- > 0;) {
    const Setting *one = list->pdata[i];
    if (strncmp(one->path, path, length) == 0 && strchr(".", one->path[length]))
      g_ptr_array_remove_index(list, i);
  }
}

/* The end of the line, or of the last of those that a bracket or a string joins. */
static int skip_line(const char *text, int at)
{
  while (text[at] && text[at] != '\n') {
    at = skip_value(text, at, FALSE);
    at += text[at] && text[at] != '\n';
  }
  return at;
}

/* A statement by its first word, and by what stands behind that. */
typedef struct {
  char *word;
  int sign; /* place of what stands behind it */
  enum {
    STATEMENT_OTHER, STATEMENT_RETURNS, STATEMENT_ASSIGNS, STATEMENT_UNPACKS, STATEMENT_CHANGES, STATEMENT_CALLS
  } kind;
} Statement;

static void statement_clear(Statement *s)
{
  g_free(s->word);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Statement, statement_clear)

/* Behind names with commas between them, "opt, cfg.scheduler = ". */
static int skip_names(const char *text, int at)
{
  while (is_word(text[at]) || text[at] == ',' || text[at] == ' ')
    at++;
  return at;
}

static Statement statement_at(const char *text, int at)
{
  static const char *const keywords[] = { "if", "elif", "while", "for", "with", "assert", "del", "raise", "not", NULL };
  int end = at;

  while (is_word(text[end]))
    end++;
  Statement s = { g_strndup(text + at, end - at), end + (int)strspn(text + end, " "), STATEMENT_OTHER };
  int operators = (int)strspn(text + s.sign, "+-*/%&|^@<>");
  if (g_str_equal(s.word, "return"))
    s.kind = STATEMENT_RETURNS;
  else if (end == at || g_strv_contains(keywords, s.word))
    return s;
  else if (text[s.sign] == '(')
    s.kind = STATEMENT_CALLS;
  else if (text[s.sign] == ',')
    s.kind = text[skip_names(text, at)] == '=' ? STATEMENT_UNPACKS : STATEMENT_OTHER;
  else if (text[s.sign + operators] == '=' && text[s.sign + operators + 1] != '=')
    s.kind = operators ? STATEMENT_CHANGES : STATEMENT_ASSIGNS;
  return s;
}

/* What a statement does that nothing is read of. */
static void pass_statement(Reader *r, const Statement *s, int at)
{
  int end = at + (int)strlen(s->word);
  const char *kind = s->kind == STATEMENT_RETURNS ? SETTINGS_RETURNS
                     : s->kind == STATEMENT_CALLS ? SETTINGS_CALLS
                                                  : SETTINGS_PASSED;

  if (s->kind != STATEMENT_OTHER)
    put_unread(r, kind, s->word, at, end);
}

/* Each name is what is called, of which nothing else is known. */
static int read_unpacked(Reader *r, int at)
{
  int sign = skip_names(r->text, at), first = sign + 1 + (int)strspn(r->text + sign + 1, " "), end = first;

  while (is_word(r->text[end]))
    end++;
  g_autofree char *names = g_strndup(r->text + at, sign - at), *called = g_strndup(r->text + first, end - first);
  g_auto(GStrv) each = g_strsplit(names, ",", -1);
  for (int i = 0; each[i]; i++) {
    g_autofree char *target = g_strdup_printf(":%s", g_strstrip(each[i]));
    if (!*each[i])
      continue;
    forget(r, target);
    put(r, target, called, &(Setting) { .first = first, .end = end, .bare = TRUE });
  }
  return end;
}

/* One statement of a body, for what it does; returns the end of its line. */
static int read_statement(Reader *r, int at)
{
  g_auto(Statement) s = statement_at(r->text, at);
  g_autofree char *target = g_strdup_printf(":%s", s.word);

  if (s.kind == STATEMENT_RETURNS) {
    r->at->body.returned = at;
    at = read_value(r, r->at->name, s.sign, FALSE, 0);
  } else if (s.kind == STATEMENT_ASSIGNS) {
    forget(r, target);
    at = read_value(r, target, s.sign + 1, FALSE, 0);
  } else if (s.kind == STATEMENT_UNPACKS) {
    at = read_unpacked(r, at);
  } else {
    pass_statement(r, &s, at);
  }
  return skip_line(r->text, at);
}

/* Lines that depend on something are passed: what they would do is told. */
static int pass_line(Reader *r, int at)
{
  g_auto(Statement) s = statement_at(r->text, at);

  pass_statement(r, &s, at);
  return skip_line(r->text, at);
}

/* Statements of a body up to its `return`; those that stand deeper depend on something, and are passed. */
static void read_function(Reader *r, Function *f)
{
  const char *text = r->text;
  Function *caller = r->at;
  int body = 0; /* its indent */
  gboolean inner = FALSE; /* in a function of its own */

  if (f->state != UNREAD || r->depth >= DEPTH_MAX)
    return;
  f->state = OPEN;
  r->at = f;
  r->depth++;
  for (int at = f->body.first; at < f->body.end && f->body.returned < 0; at += text[at] == '\n') {
    int first = at + (int)strspn(text + at, " \t\r"), indent = first - at;
    gboolean blank = strchr("#\n", text[first]) != NULL;
    body = body || blank ? body : indent;
    inner = blank || indent > body ? inner : g_str_has_prefix(text + first, "def ");
    if (blank)
      at = settings_line_end(text, first);
    else if (indent == body)
      at = read_statement(r, first);
    else
      at = inner ? skip_line(text, first) : pass_line(r, first);
  }
  r->depth--;
  r->at = caller;
  f->state = READ;
}

/* "NAME = 8192" or "NAME: str = 'a/b'" of a line that begins there. */
static void find_constant(Reader *r, int line)
{
  static const char pattern[] = "^(\\w+)(?:[ \t]*:[ \t]*\\w+)?[ \t]*=[ \t]*"
                                "(?:\"([^\"\\\\\n]*)\"|'([^'\\\\\n]*)'|(\\d+))[ \t\r]*(?:#.*)?$";
  g_autofree char *text = g_strndup(r->text + line, settings_line_end(r->text, line) - line);
  g_autoptr(GRegex) regex = g_regex_new(pattern, G_REGEX_RAW, 0, NULL);
  g_autoptr(GMatchInfo) match = NULL;

  if (!g_regex_match(regex, text, 0, &match))
    return;
  g_auto(GStrv) groups = g_match_info_fetch_all(match);
  const guint n = g_strv_length(groups); /* the last that took part ends them */
  g_hash_table_replace(r->constants, g_strdup(groups[1]), g_strdup(groups[n - 1]));
}

/* Functions that begin a line: up to what begins another. */
static void find_functions(Reader *r)
{
  const char *text = r->text;
  Function *open = NULL;
  int line = 0;

  for (int at = 0; text[at]; at += text[at] == '\n') {
    line = at;
    at = skip_line(text, at);
    if (g_ascii_isspace(text[line]) || text[line] == '#')
      continue;
    if (open)
      open->body.end = line;
    open = NULL;
    if (strncmp(text + line, "def ", 4) != 0) {
      find_constant(r, line);
      continue;
    }
    open = g_new0(Function, 1);
    *open = (Function) { g_strndup(text + line + 4, strcspn(text + line + 4, "( :\n")), { at, at, -1 }, UNREAD,
                         settings_new() };
    g_ptr_array_add(r->functions, open);
    g_hash_table_replace(r->by_name, open->name, open);
  }
  if (open)
    open->body.end = MAX(open->body.first, (int)strlen(text));
}

Settings *settings_python(const char *text)
{
  return settings_python_body(text, "", &(SettingsBody) { 0 });
}

Settings *settings_python_body(const char *text, const char *function, SettingsBody *body)
{
  g_autoptr(GPtrArray) functions = g_ptr_array_new_with_free_func(function_free);
  g_autoptr(GHashTable) by_name = g_hash_table_new(g_str_hash, g_str_equal);
  g_autoptr(GHashTable) constants = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
  Settings *s = settings_new();
  Reader r = { .text = text, .functions = functions, .by_name = by_name, .constants = constants };

  find_functions(&r);
  for (guint i = 0; i < functions->len; i++) {
    Function *f = functions->pdata[i];
    if (g_hash_table_lookup(by_name, f->name) != f)
      continue;
    read_function(&r, f);
    if (g_str_equal(f->name, function))
      *body = f->body;
    for (guint k = 0; k < f->own->list->len; k++) {
      Setting *one = f->own->list->pdata[k];
      if (*one->path != ':') /* names of functions alone are told */
        settings_add_as(s, one->path, g_strdup(one->value), one);
    }
  }
  return s;
}
