/* Statements of bash. */
#include "import/shell_reader.h"

#include <fnmatch.h>
#include <string.h>

static gboolean at_end(const ShellCursor *c)
{
  static const char *const ends[] = { "then", "elif", "else", "fi", "do", "done", "esac", "}" };

  for (gsize i = 0; i < G_N_ELEMENTS(ends); i++)
    if (shell_at(c, ends[i]))
      return TRUE;
  return !shell_peek(c, 0) || shell_peek(c, 0) == ')' || (shell_peek(c, 0) == ';' && shell_peek(c, 1) == ';');
}

/* ---- simple commands ---- */

/* Length of "NAME=" or "NAME+=" at the cursor, 0 if there is none. */
static gsize assignment_length(const ShellCursor *c, gboolean *more)
{
  const char *text = c->in->text->str + c->at;
  gsize n = shell_name_length(text);

  *more = n > 0 && text[n] == '+' && text[n + 1] == '=';
  return n > 0 && (text[n] == '=' || *more) ? n + 1 + *more : 0;
}

static GPtrArray *array_values(Reader *r, ShellCursor *c, gboolean live)
{
  GPtrArray *values = shell_texts();

  for (c->at++; shell_peek(c, 0) && shell_peek(c, 0) != ')';) {
    gsize before = c->at;
    shell_skip_blanks(c);
    if (shell_peek(c, 0) == '\n')
      c->at++;
    else if (shell_peek(c, 0) != ')')
      shell_word(&r->state, c, live, values);
    if (c->at == before)
      c->at++;
  }
  c->at += shell_peek(c, 0) == ')';
  return values;
}

/* Whether only running a command could tell what the script sets. */
static gboolean is_printed(const GPtrArray *values)
{
  return values->len == 1 && strstr(shell_text_at(values, 0), "$(");
}

static void read_assignment(Reader *r, ShellCursor *c, gsize length, gboolean more, gboolean live)
{
  g_autofree char *name = g_strndup(c->in->text->str + c->at, shell_name_length(c->in->text->str + c->at));

  c->at += length;
  gboolean array = shell_peek(c, 0) == '(';
  GPtrArray *values = array ? array_values(r, c, live) : shell_texts_of(shell_value(&r->state, c, live, FALSE));
  const char *given = live && is_printed(values) ? shell_given(&r->state, name) : NULL;
  if (given) {
    g_ptr_array_set_size(values, 0);
    g_ptr_array_add(values, shell_text_of(given, TRUE));
  }
  if (live)
    shell_assign(&r->state, name, values, array, more);
  else
    g_ptr_array_unref(values);
}

static gboolean at_redirection(const ShellCursor *c, gsize *digits)
{
  *digits = strspn(c->in->text->str + c->at, "0123456789");
  char at = shell_peek(c, *digits);
  return at == '<' || at == '>' || (at == '&' && *digits == 0 && shell_peek(c, 1) == '>');
}

/* "<<END" and what is said of it. */
static void open_document(Reader *r, ShellCursor *c, gboolean live)
{
  Document *d = g_new0(Document, 1);

  d->strip = shell_peek(c, 0) == '-';
  c->at += d->strip;
  shell_skip_blanks(c);
  gsize first = c->at;
  g_autoptr(ShellText) ends = shell_value(&r->state, c, FALSE, FALSE);
  d->ends = g_strdup(ends->text->str);
  d->expand = !memchr(c->in->text->str + first, '\'', c->at - first) &&
              !memchr(c->in->text->str + first, '"', c->at - first);
  d->live = live;
  g_ptr_array_add(r->documents, d);
}

/* Reads a redirection; the file's name where something is written to one. */
static char *read_redirection(Reader *r, ShellCursor *c, gsize digits, gboolean live)
{
  c->at += digits;
  gboolean out = shell_peek(c, 0) != '<', document = shell_peek(c, 0) == '<' && shell_peek(c, 1) == '<';
  if (document && shell_peek(c, 2) != '<') {
    c->at += 2;
    open_document(r, c, live);
    return NULL;
  }
  while (shell_peek(c, 0) && strchr("<>&|", shell_peek(c, 0)))
    c->at++;
  shell_skip_blanks(c);
  g_autoptr(ShellText) name = shell_value(&r->state, c, live, FALSE);
  return out && digits == 0 ? g_strdup(name->text->str) : NULL;
}

static gboolean declares(const GPtrArray *words)
{
  static const char *const names[] = { "export", "declare", "local", "readonly", "typeset", NULL };
  return words->len > 0 && g_strv_contains(names, shell_text_at(words, 0));
}

/* Whether a command runs what it reads: sbatch, bash. */
static gboolean reads_script(const GPtrArray *words)
{
  static const char *const names[] = { "sbatch", "bash", "sh", NULL };
  return words->len > 0 && g_strv_contains(names, shell_text_at(words, 0));
}

static gboolean ends_command(const ShellCursor *c)
{
  char at = shell_peek(c, 0);
  return !at || at == '\n' || at == ';' || at == '|' || at == ')' || (at == '&' && shell_peek(c, 1) != '>');
}

static gboolean simple(Reader *r, ShellCursor *c, gboolean live)
{
  GPtrArray *words = shell_texts();
  guint documents = r->documents->len;
  g_autofree char *target = NULL;
  ShellCursor begin = *c;

  for (shell_skip_blanks(c); !ends_command(c); shell_skip_blanks(c)) {
    gsize digits, before = c->at;
    gboolean more;
    gsize assigned = words->len == 0 || declares(words) ? assignment_length(c, &more) : 0;
    if (at_redirection(c, &digits)) {
      char *file = read_redirection(r, c, digits, live);
      g_free(file ? g_steal_pointer(&target) : NULL);
      target = file ? file : g_steal_pointer(&target);
    } else if (assigned) {
      read_assignment(r, c, assigned, more, live);
    } else {
      shell_word(&r->state, c, live, words);
    }
    if (c->at == before)
      c->at++;
  }
  for (guint i = documents; i < r->documents->len; i++) {
    Document *d = r->documents->pdata[i];
    d->target = g_strdup(target);
    d->runs = reads_script(words);
  }
  if (live && words->len > 0 && !declares(words))
    return shell_start(r, words, &begin);
  g_ptr_array_unref(words);
  return TRUE;
}

/* ---- compound commands ---- */

static gboolean read_if(Reader *r, ShellCursor *c, gboolean live)
{
  gboolean taken = FALSE;

  do {
    gboolean truth = shell_list(r, c, live && !taken);
    gboolean now = live && !taken && truth;
    shell_take(c, "then");
    shell_list(r, c, now);
    taken = taken || now;
  } while (shell_take(c, "elif"));
  if (shell_take(c, "else"))
    shell_list(r, c, live && !taken);
  shell_take(c, "fi");
  return TRUE;
}

static void skip_brackets(ShellCursor *c)
{
  int depth = 0;

  do {
    depth += shell_peek(c, 0) == '(';
    depth -= shell_peek(c, 0) == ')';
    c->at++;
  } while (depth > 0 && shell_peek(c, 0));
}

static gboolean read_for(Reader *r, ShellCursor *c, gboolean live)
{
  g_autoptr(GPtrArray) words = shell_texts();
  ShellCursor begin = *c;

  shell_skip_blanks(c);
  g_autofree char *name = g_strndup(c->in->text->str + c->at, shell_name_length(c->in->text->str + c->at));
  c->at += strlen(name);
  shell_skip_separators(r, c);
  if (shell_peek(c, 0) == '(')
    skip_brackets(c);
  else if (shell_take(c, "in"))
    for (shell_skip_blanks(c); !ends_command(c); shell_skip_blanks(c)) {
      gsize before = c->at;
      shell_word(&r->state, c, live, words);
      c->at += c->at == before;
    }
  if (live && words->len > 1)
    shell_unread(r, &begin, "for: its first turn alone is read");
  if (live && words->len > 0)
    shell_assign(&r->state, name, shell_texts_of(shell_text_copy(words->pdata[0])), FALSE, FALSE);
  shell_skip_separators(r, c);
  shell_take(c, "do");
  shell_list(r, c, live && words->len > 0);
  shell_take(c, "done");
  return TRUE;
}

static gboolean read_while(Reader *r, ShellCursor *c, gboolean live)
{
  if (live)
    shell_unread(r, c, "a loop is passed over");
  shell_list(r, c, FALSE);
  shell_take(c, "do");
  shell_list(r, c, FALSE);
  shell_take(c, "done");
  return TRUE;
}

/* Reads "a|b)" and says whether one of them is the subject. */
static gboolean read_patterns(Reader *r, ShellCursor *c, gboolean live, const char *subject)
{
  gboolean matches = FALSE;

  c->at += shell_peek(c, 0) == '(';
  while (shell_peek(c, 0) && shell_peek(c, 0) != ')') {
    gsize before = c->at;
    shell_skip_blanks(c);
    g_autoptr(ShellText) pattern = shell_value(&r->state, c, live, FALSE);
    matches = matches || (c->at > before && pattern->text->len > 0 && fnmatch(pattern->text->str, subject, 0) == 0);
    shell_skip_blanks(c);
    c->at += shell_peek(c, 0) == '|' || c->at == before;
  }
  c->at += shell_peek(c, 0) == ')';
  return matches;
}

static gboolean read_case(Reader *r, ShellCursor *c, gboolean live)
{
  gboolean taken = FALSE;

  shell_skip_blanks(c);
  g_autoptr(ShellText) subject = shell_value(&r->state, c, live, FALSE);
  const char *text = shell_unknown(subject->text->str) ? "" : subject->text->str;
  shell_skip_separators(r, c);
  shell_take(c, "in");
  for (shell_skip_separators(r, c); shell_peek(c, 0) && !shell_at(c, "esac"); shell_skip_separators(r, c)) {
    gsize before = c->at;
    gboolean now = read_patterns(r, c, live, text) && live && !taken;
    shell_list(r, c, now);
    taken = taken || now;
    while (shell_peek(c, 0) == ';')
      c->at++;
    c->at += c->at == before;
  }
  shell_take(c, "esac");
  return TRUE;
}

/* [[ ... ]] */
static gboolean read_test(Reader *r, ShellCursor *c, gboolean live)
{
  g_autoptr(GPtrArray) words = shell_texts();

  for (shell_skip_blanks(c); shell_peek(c, 0) && !shell_at(c, "]]"); shell_skip_blanks(c)) {
    gsize first = c->at, operator = strspn(c->in->text->str + c->at, "&|<>()\n;");
    if (operator) {
      c->at += strchr("&|", shell_peek(c, 0)) ? operator : 1;
      ShellText *word = shell_text_new();
      shell_text_add(word, c->in, first, c->at);
      g_ptr_array_add(words, word);
    } else {
      g_ptr_array_add(words, shell_value(&r->state, c, live, FALSE));
      c->at += c->at == first;
    }
  }
  shell_take(c, "]]");
  return !live || shell_condition(words);
}

static void function_clear(gpointer function)
{
  shell_text_free(((Function *)function)->in);
}

void shell_function_release(gpointer function)
{
  g_rc_box_release_full(function, function_clear);
}

/* "name() {" or "function name {"; FALSE if neither is there. */
static gboolean read_function(Reader *r, ShellCursor *c, gboolean live)
{
  gboolean keyword = shell_take(c, "function");

  shell_skip_blanks(c);
  gsize n = shell_name_length(c->in->text->str + c->at);
  gboolean brackets = n && shell_peek(c, n) == '(' && shell_peek(c, n + 1) == ')';
  if (!keyword && !brackets)
    return FALSE;
  g_autofree char *name = g_strndup(c->in->text->str + c->at, n);
  c->at += n + (brackets ? 2 : 0);
  shell_skip_separators(r, c);
  if (live) {
    Function *f = g_rc_box_new0(Function);
    f->in = shell_text_copy(c->in);
    f->at = c->at;
    g_hash_table_replace(r->functions, g_steal_pointer(&name), f);
  }
  shell_command(r, c, FALSE);
  return TRUE;
}

static gboolean read_group(Reader *r, ShellCursor *c, gboolean live, char close)
{
  gboolean status = shell_list(r, c, live);

  c->at += shell_peek(c, 0) == close;
  return status;
}

static gboolean compound(Reader *r, ShellCursor *c, gboolean live, gboolean *status)
{
  if (shell_take(c, "if"))
    *status = read_if(r, c, live);
  else if (shell_take(c, "for") || shell_take(c, "select"))
    *status = read_for(r, c, live);
  else if (shell_take(c, "while") || shell_take(c, "until"))
    *status = read_while(r, c, live);
  else if (shell_take(c, "case"))
    *status = read_case(r, c, live);
  else if (shell_take(c, "[["))
    *status = read_test(r, c, live);
  else if (shell_take(c, "{"))
    *status = read_group(r, c, live, '}');
  else if (shell_peek(c, 0) == '(' && shell_peek(c, 1) == '(')
    skip_brackets(c);
  else if (shell_peek(c, 0) == '(') {
    c->at++;
    *status = read_group(r, c, live, ')');
  } else {
    return FALSE;
  }
  return TRUE;
}

gboolean shell_command(Reader *r, ShellCursor *c, gboolean live)
{
  gboolean status = TRUE;
  gsize digits;

  shell_skip_blanks(c);
  if (shell_take(c, "!"))
    return !shell_command(r, c, live);
  if (read_function(r, c, live))
    return TRUE;
  if (!compound(r, c, live, &status))
    return simple(r, c, live);
  for (shell_skip_blanks(c); at_redirection(c, &digits); shell_skip_blanks(c))
    g_free(read_redirection(r, c, digits, live));
  return status;
}

/* Commands up to what closes them, which the cursor is left on: whether the last one that ran succeeded. */
gboolean shell_list(Reader *r, ShellCursor *c, gboolean live)
{
  gboolean status = TRUE, run = live;

  for (shell_skip_separators(r, c); !at_end(c); shell_skip_separators(r, c)) {
    gsize before = c->at;
    gboolean result = shell_command(r, c, run);
    status = run ? result : status;
    shell_skip_blanks(c);
    char at = shell_peek(c, 0), next = shell_peek(c, 1);
    gboolean twice = (at == '&' || at == '|') && at == next;
    run = live && (!twice || (at == '&') == status);
    c->at += twice ? 2 : at == '&' || at == '|';
    c->at += c->at == before;
  }
  return status;
}

/* ---- the script ---- */

static void command_free(gpointer data)
{
  ShellCommand *started = data;
  g_ptr_array_unref(started->words);
  g_free(started);
}

static void variable_free(gpointer data)
{
  ShellVariable *v = data;
  g_ptr_array_unref(v->values);
  g_free(v);
}

ShellScript *shell_read(const char *text, const char *folder, const char *const *given)
{
  ShellScript *script = g_new0(ShellScript, 1);
  g_autoptr(ShellText) whole = shell_text_of(text, FALSE);
  Reader r = { .state = { .script = script, .folder = folder, .file = text, .given = given } };

  script->commands = g_ptr_array_new_with_free_func(command_free);
  script->files = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
  script->unread = g_ptr_array_new_with_free_func(g_free);
  r.state.variables = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, variable_free);
  r.documents = g_ptr_array_new_with_free_func(shell_document_free);
  r.functions = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, shell_function_release);
  script->idle = g_ptr_array_new_with_free_func(g_free);
  r.state.asked = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  shell_take_given(&r.state);
  shell_run_text(&r, whole);
  shell_name_idle(&r.state);
  shell_set_arguments(&r.state, NULL);
  g_hash_table_unref(r.state.variables);
  g_hash_table_unref(r.state.asked);
  g_hash_table_unref(r.functions);
  g_ptr_array_unref(r.documents);
  return script;
}

void shell_free(ShellScript *script)
{
  g_ptr_array_unref(script->commands);
  g_hash_table_unref(script->files);
  g_ptr_array_unref(script->unread);
  g_ptr_array_unref(script->idle);
  g_free(script);
}
