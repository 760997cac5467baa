/* What commands of bash do, as far as they start others. */
#include "import/shell_reader.h"

#include "base/files.h"

#include <string.h>

void shell_unread(Reader *r, const ShellCursor *c, const char *what)
{
  int place = shell_place(c), line = 1;

  if (place < 0)
    return;
  for (int i = 0; i < place; i++)
    line += r->state.file[i] == '\n';
  g_ptr_array_add(r->state.script->unread, g_strdup_printf("line %d: %s", line, what));
}

/* ---- words that are read as they stand ---- */

static gboolean ends_keyword(char at)
{
  return !at || strchr(" \t\r\n;&|()<>", at) != NULL;
}

gboolean shell_at(const ShellCursor *c, const char *word)
{
  gsize n = strlen(word);
  return strncmp(c->in->text->str + c->at, word, n) == 0 && ends_keyword(shell_peek(c, n));
}

/* Steps over the word if it is there. */
gboolean shell_take(ShellCursor *c, const char *word)
{
  gboolean there = shell_at(c, word);

  c->at += there ? strlen(word) : 0;
  return there;
}

/* ---- here-documents ---- */

void shell_document_free(gpointer data)
{
  Document *d = data;
  g_free(d->ends);
  g_free(d->target);
  g_free(d);
}

void shell_run_text(Reader *r, const ShellText *text)
{
  ShellCursor inner = { text, 0 };

  if (r->state.depth >= SHELL_DEPTH_MAX || r->state.runs++ >= SHELL_RUNS_MAX)
    return;
  r->state.depth++;
  while (inner.at < text->text->len) {
    shell_list(r, &inner, TRUE);
    inner.at++;
  }
  r->state.depth--;
}

static void read_document(Reader *r, ShellCursor *c, const Document *d)
{
  g_autoptr(ShellText) body = shell_text_new();

  while (shell_peek(c, 0)) {
    const char *line = c->in->text->str + c->at;
    gsize length = strcspn(line, "\n"), indent = d->strip ? strspn(line, "\t") : 0;
    g_autofree char *bare = g_strndup(line + indent, length - indent);
    gsize first = c->at + indent;
    c->at += length + (line[length] == '\n');
    if (g_str_equal(g_strchomp(bare), d->ends))
      break;
    shell_text_add(body, c->in, first, c->at);
  }
  if (!d->live || (!d->target && !d->runs))
    return;
  ShellCursor inner = { body, 0 };
  g_autoptr(ShellText) expanded = d->expand ? shell_value(&r->state, &inner, TRUE, TRUE) : shell_text_copy(body);
  if (d->runs)
    shell_run_text(r, expanded);
  else
    g_hash_table_replace(r->state.script->files, g_strdup(d->target), g_strdup(expanded->text->str));
}

static void read_documents(Reader *r, ShellCursor *c)
{
  for (guint i = 0; i < r->documents->len; i++)
    read_document(r, c, r->documents->pdata[i]);
  g_ptr_array_set_size(r->documents, 0);
}

/* Past blanks, comments, line ends and single semicolons. */
void shell_skip_separators(Reader *r, ShellCursor *c)
{
  for (;;) {
    shell_skip_blanks(c);
    char at = shell_peek(c, 0);
    if (at == '\n') {
      c->at++;
      read_documents(r, c);
    } else if (at == ';' && shell_peek(c, 1) != ';') {
      c->at++;
    } else {
      return;
    }
  }
}

/* ---- what a command does ---- */

static void run_file(Reader *r, const char *name, const ShellCursor *c)
{
  const char *base = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
  g_autofree char *path = r->state.folder ? g_build_filename(r->state.folder, base, NULL) : NULL;
  gsize length;
  g_autofree char *text = path ? files_read(path, &length, NULL) : NULL;

  if (!text || !g_utf8_validate(text, length, NULL)) {
    g_autofree char *what = g_strdup_printf("%s: sourced, and not beside the script", name);
    shell_unread(r, c, what);
    return;
  }
  g_autoptr(ShellText) lines = shell_text_of(text, TRUE);
  shell_run_text(r, lines);
}

static gboolean run_condition(GPtrArray *words)
{
  g_autoptr(GPtrArray) inner = g_ptr_array_new();

  for (guint i = 1; i < words->len; i++)
    if (i + 1 < words->len || !g_str_equal(shell_text_at(words, i), "]"))
      g_ptr_array_add(inner, words->pdata[i]);
  return inner->len > 0 && shell_condition(inner);
}

static void run_joined(Reader *r, const GPtrArray *words, guint first, guint end)
{
  g_autoptr(ShellText) text = shell_text_new();

  for (guint i = first; i < end; i++) {
    if (i > first)
      shell_text_add_made(text, " ");
    shell_text_add_all(text, words->pdata[i]);
  }
  shell_run_text(r, text);
}

/* The word behind "bash -c" or "bash -x -c", 0 if there is none. */
static guint script_word(const GPtrArray *words)
{
  for (guint i = 0; i < words->len; i++) {
    g_autofree char *base = g_path_get_basename(*shell_text_at(words, i) ? shell_text_at(words, i) : "-");
    guint option = i + 1;
    if (!g_str_equal(base, "bash") && !g_str_equal(base, "sh"))
      continue;
    while (shell_text_at(words, option)[0] == '-' && !g_str_has_suffix(shell_text_at(words, option), "c"))
      option++;
    if (shell_text_at(words, option)[0] == '-' && option + 1 < words->len)
      return option + 1;
  }
  return 0;
}

static void call(Reader *r, Function *known, const GPtrArray *words)
{
  Function *f = g_rc_box_acquire(known);
  ShellCursor inner = { f->in, f->at };
  GPtrArray *before = r->state.arguments ? g_ptr_array_ref(r->state.arguments) : NULL;

  if (r->state.depth < SHELL_DEPTH_MAX && r->state.runs++ < SHELL_RUNS_MAX) {
    r->state.depth++;
    r->state.calls++;
    shell_set_arguments(&r->state, shell_behind(words, 1));
    shell_command(r, &inner, TRUE);
    r->state.calls--;
    r->state.depth--;
  }
  shell_set_arguments(&r->state, before);
  shell_function_release(f);
}

/* A file with arguments of its own. */
static void run_file_with(Reader *r, const GPtrArray *words, guint file, const ShellCursor *c)
{
  GPtrArray *before = r->state.arguments ? g_ptr_array_ref(r->state.arguments) : NULL;

  shell_set_arguments(&r->state, shell_behind(words, file + 1));
  run_file(r, shell_text_at(words, file), c);
  shell_set_arguments(&r->state, before);
}

/* "set -- a b" and "shift 2". */
static gboolean moves_arguments(Reader *r, const GPtrArray *words)
{
  const char *name = shell_text_at(words, 0);
  gint64 by = words->len > 1 ? g_ascii_strtoll(shell_text_at(words, 1), NULL, 10) : 1;

  if (g_str_equal(name, "shift")) {
    shell_shift(&r->state, (guint)CLAMP(by, 0, G_MAXINT));
    return TRUE;
  }
  if (!g_str_equal(name, "set") || !g_str_equal(shell_text_at(words, 1), "--"))
    return FALSE;
  shell_set_arguments(&r->state, shell_behind(words, 2));
  return TRUE;
}

/* Takes the words. */
gboolean shell_start(Reader *r, GPtrArray *words, const ShellCursor *c)
{
  g_autoptr(GPtrArray) owned = words;
  const char *name = shell_text_at(words, 0);
  Function *function = g_hash_table_lookup(r->functions, name);
  guint script = script_word(words);

  if (g_str_equal(name, "[") || g_str_equal(name, "[[") || g_str_equal(name, "test"))
    return run_condition(words);
  if (g_str_equal(name, "false"))
    return FALSE;
  if (g_str_equal(name, "eval"))
    run_joined(r, words, 1, words->len);
  else if (moves_arguments(r, words))
    return TRUE;
  else if ((g_str_equal(name, "source") || g_str_equal(name, ".")) && words->len == 2)
    run_file(r, shell_text_at(words, 1), c);
  else if ((g_str_equal(name, "source") || g_str_equal(name, ".")) && words->len > 2)
    run_file_with(r, words, 1, c);
  else if (g_str_equal(name, "sbatch") && g_str_has_suffix(shell_text_at(words, words->len - 1), ".sh"))
    run_file_with(r, words, words->len - 1, c);
  else if (function)
    call(r, function, words);
  else if (script)
    run_joined(r, words, script, script + 1);
  else {
    ShellCommand *started = g_new0(ShellCommand, 1);
    started->words = g_steal_pointer(&owned);
    g_ptr_array_add(r->state.script->commands, started);
  }
  return TRUE;
}
