/* Words of bash: quotes and expansions. */
#include "import/shell_parts.h"

#include <string.h>

#define BLANKS " \t\r\n"

int shell_place(const ShellCursor *c)
{
  return c->at < c->in->origins->len ? g_array_index(c->in->origins, ShellOrigin, c->at).at : -1;
}

gsize shell_name_length(const char *text)
{
  gsize n = 0;

  while (g_ascii_isalpha(text[n]) || text[n] == '_' || (n > 0 && g_ascii_isdigit(text[n])))
    n++;
  return n;
}

void shell_skip_blanks(ShellCursor *c)
{
  for (;;) {
    char at = shell_peek(c, 0);
    if (at == ' ' || at == '\t' || at == '\r')
      c->at++;
    else if (at == '\\' && shell_peek(c, 1) == '\n')
      c->at += 2;
    else if (at == '\\' && shell_peek(c, 1) == '\r' && shell_peek(c, 2) == '\n')
      c->at += 3;
    else if (at == '#')
      while (shell_peek(c, 0) && shell_peek(c, 0) != '\n')
        c->at++;
    else
      return;
  }
}

const ShellVariable *shell_variable(const ShellState *s, const char *name)
{
  g_hash_table_add(s->asked, g_strdup(name));
  return g_hash_table_lookup(s->variables, name);
}

void shell_assign(ShellState *s, const char *name, GPtrArray *values, gboolean array, gboolean more)
{
  ShellVariable *v = g_hash_table_lookup(s->variables, name);

  if (!v || !more) {
    v = g_new0(ShellVariable, 1);
    v->values = values;
    v->array = array;
    g_hash_table_replace(s->variables, g_strdup(name), v);
    return;
  }
  if (!array && v->values->len > 0 && values->len > 0) {
    shell_text_add_all(v->values->pdata[0], values->pdata[0]);
  } else {
    for (guint i = 0; i < values->len; i++)
      g_ptr_array_add(v->values, shell_text_copy(values->pdata[i]));
    v->array = v->array || array;
  }
  g_ptr_array_unref(values);
}

/* ---- a word as it grows ---- */

typedef struct {
  ShellState *state;
  gboolean live, split; /* split: unquoted expansions are cut at blanks */
  GPtrArray *words;     /* those that are complete */
  ShellText *word;      /* the last one */
  gboolean begun;       /* it is one even if it is empty */
} Builder;

static void end_word(Builder *b)
{
  if (b->begun)
    g_ptr_array_add(b->words, shell_text_copy(b->word));
  shell_text_free(b->word);
  b->word = shell_text_new();
  b->begun = FALSE;
}

/* Appends bytes as they stand. */
static void put(Builder *b, const ShellText *text, gsize first, gsize end)
{
  if (b->word->text->len + (end - first) <= SHELL_WORD_MAX)
    shell_text_add(b->word, text, first, end);
  b->begun = b->begun || end > first;
}

/* Appends what an unquoted expansion gave, cut at blanks. */
static void put_cut(Builder *b, const ShellText *text)
{
  const char *bytes = text->text->str;
  gsize at = 0;

  while (at < text->text->len) {
    gsize blank = strspn(bytes + at, BLANKS), length;
    if (blank)
      end_word(b);
    at += blank;
    length = strcspn(bytes + at, BLANKS);
    put(b, text, at, at + length);
    at += length;
  }
}

static void put_value(Builder *b, const ShellText *value, gboolean quoted)
{
  if (quoted || !b->split)
    put(b, value, 0, value->text->len);
  else
    put_cut(b, value);
}

/* ---- expansions ---- */

/* To the bracket that closes what the cursor stands behind, which it is left on. */
static void to_closing(ShellCursor *c, char open, char close)
{
  int depth = 1;

  for (; shell_peek(c, 0); c->at++) {
    char at = shell_peek(c, 0);
    if (at == '\\' && shell_peek(c, 1))
      c->at++;
    else if (at == '"')
      for (c->at++; shell_peek(c, 0) && shell_peek(c, 0) != '"'; c->at++)
        c->at += shell_peek(c, 0) == '\\' && shell_peek(c, 1);
    else if (at == '\'' && open != '{')
      for (c->at++; shell_peek(c, 0) && shell_peek(c, 0) != '\'';)
        c->at++;
    else if (at == open)
      depth++;
    else if (at == close && --depth == 0)
      return;
  }
  c->at = MIN(c->at, c->in->text->len); /* of a quote that nothing ends */
}

/* What ${...} asks for. */
typedef struct {
  char *name;
  gboolean all, joined, length; /* [@], [*], # */
  const char *operation;        /* behind the name: ":-word" */
  gsize operand;                /* its place in the text */
} Parameter;

/* A word within an expansion, without splitting. */
static ShellText *inner_word(Builder *b, const ShellCursor *c, gsize first, gsize end)
{
  g_autoptr(ShellText) text = shell_text_part(c->in, first, end);
  ShellCursor inner = { text, 0 };
  ShellText *out = shell_text_new();

  while (inner.at < text->text->len && b->state->depth < 40) {
    gsize before = inner.at;
    b->state->depth++;
    g_autoptr(ShellText) piece = shell_value(b->state, &inner, b->live, FALSE);
    b->state->depth--;
    shell_text_add_all(out, piece);
    if (inner.at == before) { /* a blank, or an operator */
      shell_text_add(out, text, inner.at, inner.at + 1);
      inner.at++;
    }
  }
  return out;
}

static ShellText *unset(const char *name)
{
  g_autofree char *text = g_strdup_printf("$%s", name);
  return shell_text_made(text);
}

/* Of "${@:2}" and "${A[@]:1}", from which value on: the first argument is 1. */
static guint first_meant(const Parameter *p)
{
  guint64 n = p->operation[0] == ':' && (p->all || p->joined) ? g_ascii_strtoull(p->operation + 1, NULL, 10) : 0;
  return (guint)MIN(n - (n > 0 && strchr("@*", *p->name)), G_MAXUINT);
}

static void put_variable(Builder *b, const ShellVariable *v, const Parameter *p, gboolean quoted)
{
  gboolean apart = p->all || (p->joined && !quoted);
  guint first = first_meant(p);

  for (guint i = first; i < v->values->len && (i == first || p->all || p->joined); i++) {
    if (i > first && apart)
      end_word(b);
    else if (i > first)
      shell_text_add_made(b->word, " ");
    b->begun = b->begun || (quoted && !p->all);
    put_value(b, v->values->pdata[i], quoted);
  }
}

/* ${name:offset:length} of one value; NULL where these are no numbers. */
static ShellText *cut(Builder *b, const ShellCursor *c, const ShellText *value, gsize operand, gsize end)
{
  g_autoptr(ShellText) numbers = inner_word(b, c, operand, end);
  g_auto(GStrv) parts = g_strsplit(numbers->text->str, ":", 2);
  gint64 from = 0, length = G_MAXINT64;

  if ((parts[0] && *parts[0] && !shell_arithmetic(b->state, parts[0], &from)) ||
      (parts[0] && parts[1] && !shell_arithmetic(b->state, parts[1], &length)))
    return NULL;
  return shell_text_cut(value, from, length);
}

/* ${name/pattern/text}, with "//" of all, "/#" of the start, "/%" of the end. */
static ShellText *replaced(Builder *b, const ShellCursor *c, const ShellText *value, gsize operand, gsize end)
{
  const char *text = c->in->text->str;
  char where = operand < end && strchr("/#%", text[operand]) ? text[operand] : 0;
  ShellCursor at = { .in = c->in, .at = operand + (where != 0) };
  gsize first = at.at;

  for (; at.at < end && text[at.at] != '/'; at.at++)
    if (text[at.at] == '\\')
      at.at++;
    else if (text[at.at] == '{')
      for (at.at++; at.at < end && text[at.at] != '}';)
        at.at++;
  g_autoptr(ShellText) pattern = inner_word(b, c, first, MIN(at.at, end));
  g_autoptr(ShellText) other = at.at < end ? inner_word(b, c, at.at + 1, end) : shell_text_new();
  return shell_text_replaced(value, where, pattern->text->str, other);
}

/* ${name:-word} and its like; FALSE where the variable itself is meant. */
static gboolean put_operation(Builder *b, const ShellCursor *c, const Parameter *p, gsize end, gboolean quoted)
{
  const ShellVariable *v = shell_variable(b->state, p->name);
  const char *set = v && v->values->len ? shell_text_at(v->values, 0) : NULL;
  gboolean empty = !set || !*set || shell_unknown(set);
  char kind = p->operation[0] == ':' ? p->operation[1] : p->operation[0];
  gsize operand = p->operand + (p->operation[0] == ':' ? 2 : 1);
  gboolean one = set && !shell_unknown(set) && !p->all && !p->joined;
  g_autoptr(ShellText) value = NULL;

  if ((kind == '-' || kind == '=') && !empty)
    return FALSE;
  if (kind == '-' || kind == '=' || (kind == '+' && !empty))
    value = inner_word(b, c, operand, end);
  else if ((kind == '#' || kind == '%') && set) {
    g_autoptr(ShellText) pattern = inner_word(b, c, operand + (p->operation[1] == kind), end);
    value = shell_text_trimmed(v->values->pdata[0], p->operation, pattern->text->str);
  } else if (set && (g_str_equal(p->operation, ",,") || g_str_equal(p->operation, "^^"))) {
    g_autofree char *cased = kind == ',' ? g_ascii_strdown(set, -1) : g_ascii_strup(set, -1);
    value = shell_text_made(cased);
  } else if (one && p->operation[0] == '/') {
    value = replaced(b, c, v->values->pdata[0], operand, end);
  } else if (one && p->operation[0] == ':' && !strchr("-=+?", kind)) {
    value = cut(b, c, v->values->pdata[0], operand - 1, end);
    if (!value)
      return FALSE;
  } else if (kind != '+') {
    return FALSE;
  }
  if (kind == '=' && value)
    shell_assign(b->state, p->name, shell_texts_of(shell_text_copy(value)), FALSE, FALSE);
  if (value)
    put_value(b, value, quoted);
  return TRUE;
}

static void put_parameter(Builder *b, const ShellCursor *c, const Parameter *p, gsize end, gboolean quoted)
{
  const ShellVariable *v = shell_variable(b->state, p->name);

  b->begun = b->begun || (quoted && !p->all);
  if (p->length) {
    gsize length = v ? v->values->len : 0;
    const ShellText *one = length > 0 && !p->all && !p->joined ? v->values->pdata[0] : NULL;
    if (one && shell_unknown(one->text->str)) {
      put_value(b, one, quoted);
      return;
    }
    length = one ? one->text->len : length;
    g_autofree char *count = g_strdup_printf("%" G_GSIZE_FORMAT, length);
    shell_text_add_made(b->word, count);
    b->begun = TRUE;
  } else if (*p->operation && put_operation(b, c, p, end, quoted)) {
    return;
  } else if (v) {
    put_variable(b, v, p, quoted);
  } else if (!p->all && strchr("@*#?!$", p->name[0]) == NULL) {
    g_autoptr(ShellText) placeholder = unset(p->name);
    b->state->script->asks |= p->name[0] >= '1' && p->name[0] <= '9' && b->state->calls == 0;
    put(b, placeholder, 0, placeholder->text->len);
  }
}

/* "${...}", behind the brace. */
static void read_braces(Builder *b, ShellCursor *c, gboolean quoted)
{
  Parameter p = { .operation = "" };

  p.length = shell_peek(c, 0) == '#' && shell_peek(c, 1) != '}';
  c->at += p.length;
  const char *text = c->in->text->str + c->at;
  gsize length = shell_name_length(text);
  if (!length)
    length = g_ascii_isdigit(*text) ? strspn(text, "0123456789") : *text && *text != '}';
  g_autofree char *name = g_strndup(text, length);
  p.name = name;
  p.all = *name == '@';
  p.joined = *name == '*';
  c->at += length;
  if (shell_peek(c, 0) == '[') {
    p.all = shell_peek(c, 1) == '@';
    p.joined = shell_peek(c, 1) == '*';
    for (; shell_peek(c, 0) && shell_peek(c, 0) != ']';)
      c->at++;
    c->at += shell_peek(c, 0) == ']';
  }
  p.operand = c->at;
  to_closing(c, '{', '}');
  g_autofree char *operation = g_strndup(c->in->text->str + p.operand, c->at - p.operand);
  p.operation = operation;
  if (b->live)
    put_parameter(b, c, &p, c->at, quoted);
  c->at += shell_peek(c, 0) == '}';
}

/* What cannot be worked out, as it stands, but a word. */
static char *open_arithmetic(const ShellCursor *c, gsize first)
{
  GString *text = g_string_new("$((");

  for (gsize i = first; i < c->at; i++)
    if (!g_ascii_isspace(c->in->text->str[i]))
      g_string_append_c(text, c->in->text->str[i]);
  g_string_append(text, "))");
  return g_string_free(text, FALSE);
}

/* "$((...))", behind the second bracket. */
static void read_arithmetic(Builder *b, ShellCursor *c)
{
  gsize first = c->at;
  gint64 value;

  to_closing(c, '(', ')');
  if (b->live) {
    g_autoptr(ShellText) expression = inner_word(b, c, first, c->at);
    gboolean found = shell_arithmetic(b->state, expression->text->str, &value);
    g_autofree char *number = found ? g_strdup_printf("%" G_GINT64_FORMAT, value) : open_arithmetic(c, first);
    shell_text_add_made(b->word, number);
    b->begun = TRUE;
  }
  c->at += shell_peek(c, 0) == ')';
  c->at += shell_peek(c, 0) == ')';
}

/* What a command would print. */
static void read_command(Builder *b, ShellCursor *c, char close)
{
  if (close == ')')
    to_closing(c, '(', ')');
  else
    for (; shell_peek(c, 0) && shell_peek(c, 0) != '`';)
      c->at++;
  c->at += shell_peek(c, 0) == close;
  if (b->live) {
    shell_text_add_made(b->word, "$(...)");
    b->begun = TRUE;
  }
}

/* "$NAME", "$1", "$@", behind the dollar. */
static void read_name(Builder *b, ShellCursor *c, gboolean quoted)
{
  const char *text = c->in->text->str + c->at;
  gsize length = shell_name_length(text);
  Parameter p = { .operation = "" };

  if (!length)
    length = *text && strchr("@*#?$!0123456789", *text) ? 1 : 0;
  if (!length) {
    shell_text_add_made(b->word, "$");
    b->begun = TRUE;
    return;
  }
  g_autofree char *name = g_strndup(text, length);
  p.name = name;
  p.all = *name == '@';
  p.joined = *name == '*';
  c->at += length;
  if (b->live)
    put_parameter(b, c, &p, c->at, quoted);
}

/* At a dollar or a backquote. */
static void read_expansion(Builder *b, ShellCursor *c, gboolean quoted)
{
  int from = shell_place(c);
  gsize done = b->words->len, first = b->word->text->len, start = c->at;
  char kind = shell_peek(c, 0) == '`' ? '`' : shell_peek(c, 1);

  c->at++;
  if (kind == '`') {
    read_command(b, c, '`');
  } else if (kind == '{') {
    c->at++;
    read_braces(b, c, quoted);
  } else if (kind == '(' && shell_peek(c, 1) == '(') {
    c->at += 2;
    read_arithmetic(b, c);
  } else if (kind == '(') {
    c->at++;
    read_command(b, c, ')');
  } else {
    read_name(b, c, quoted);
  }
  int end = from < 0 ? -1 : from + (int)(c->at - start);
  for (guint i = done; i < b->words->len; i++)
    shell_text_expanded(b->words->pdata[i], i == done ? first : 0, from, end);
  shell_text_expanded(b->word, done == b->words->len ? first : 0, from, end);
}

/* ---- quotes ---- */

static void read_single(Builder *b, ShellCursor *c)
{
  gsize first = ++c->at;

  while (shell_peek(c, 0) && shell_peek(c, 0) != '\'')
    c->at++;
  b->begun = TRUE;
  put(b, c->in, first, c->at);
  c->at += shell_peek(c, 0) == '\'';
}

/* A byte of double quotes or of a here-document. */
static void read_quoted_byte(Builder *b, ShellCursor *c)
{
  char at = shell_peek(c, 0), next = shell_peek(c, 1);

  if (at == '\\' && next == '\n') {
    c->at += 2;
  } else if (at == '\\' && next && strchr("$`\"\\", next)) {
    put(b, c->in, c->at + 1, c->at + 2);
    c->at += 2;
  } else if (at == '`' || (at == '$' && next != '"')) {
    read_expansion(b, c, TRUE);
  } else {
    put(b, c->in, c->at, c->at + 1);
    c->at++;
  }
}

static void read_double(Builder *b, ShellCursor *c)
{
  c->at++;
  guint words = b->words->len;
  gboolean before = b->begun;
  while (shell_peek(c, 0) && shell_peek(c, 0) != '"')
    read_quoted_byte(b, c);
  c->at += shell_peek(c, 0) == '"';
  /* "${EMPTY[@]}" alone is no word */
  const char *text = c->in->text->str;
  gboolean array = c->at >= 5 && strncmp(text + c->at - 5, "[@]}\"", 5) == 0;
  b->begun = before || b->begun || (!array && b->words->len == words);
}

static gboolean ends_word(char at)
{
  return !at || strchr(BLANKS, at) || strchr(";&|<>()", at);
}

static void read_pieces(Builder *b, ShellCursor *c)
{
  while (!ends_word(shell_peek(c, 0))) {
    char at = shell_peek(c, 0), next = shell_peek(c, 1);
    if (at == '\\' && (next == '\n' || (next == '\r' && shell_peek(c, 2) == '\n'))) {
      c->at += next == '\n' ? 2 : 3;
    } else if (at == '\\' && next) {
      put(b, c->in, c->at + 1, c->at + 2);
      c->at += 2;
    } else if (at == '\'') {
      read_single(b, c);
    } else if (at == '"') {
      read_double(b, c);
    } else if (at == '$' && (next == '"' || next == '\'')) {
      c->at++;
    } else if (at == '$' || at == '`') {
      read_expansion(b, c, FALSE);
    } else {
      put(b, c->in, c->at, c->at + 1);
      c->at++;
    }
  }
}

void shell_word(ShellState *s, ShellCursor *c, gboolean live, GPtrArray *words)
{
  Builder b = { s, live, TRUE, words, shell_text_new(), FALSE };

  read_pieces(&b, c);
  end_word(&b);
  shell_text_free(b.word);
}

ShellText *shell_value(ShellState *s, ShellCursor *c, gboolean live, gboolean document)
{
  g_autoptr(GPtrArray) words = shell_texts();
  Builder b = { s, live, FALSE, words, shell_text_new(), FALSE };

  if (document)
    while (shell_peek(c, 0))
      read_quoted_byte(&b, c);
  else
    read_pieces(&b, c);
  if (words->len == 0)
    return b.word;
  ShellText *all = shell_text_new(); /* of "${X[@]}" */
  end_word(&b);
  for (guint i = 0; i < words->len; i++) {
    if (i > 0)
      shell_text_add_made(all, " ");
    shell_text_add_all(all, words->pdata[i]);
  }
  shell_text_free(b.word);
  return all;
}
