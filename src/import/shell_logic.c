/* Arithmetic and conditions of bash. */
#include "import/shell_parts.h"

#include <fnmatch.h>
#include <string.h>

/* ---- arithmetic: sums of products ---- */

typedef struct {
  const ShellState *state;
  const char *at;
  gboolean failed;
  int depth;
} Sum;

static gint64 sum(Sum *s);

static void blanks(Sum *s)
{
  s->at += strspn(s->at, " \t\r\n");
}

static gint64 named(Sum *s)
{
  gsize length = shell_name_length(s->at);
  g_autofree char *name = g_strndup(s->at, length);
  const ShellVariable *v = shell_variable(s->state, name);
  gint64 value = 0;

  s->at += length;
  if (!v || v->values->len == 0 || s->depth > 3)
    s->failed = TRUE;
  else {
    Sum inner = { s->state, shell_text_at(v->values, 0), FALSE, s->depth + 1 };
    value = sum(&inner);
    s->failed = s->failed || inner.failed || *inner.at;
  }
  return value;
}

static gint64 factor(Sum *s)
{
  char *end;

  blanks(s);
  if (*s->at == '-' || *s->at == '+') {
    gboolean minus = *s->at++ == '-';
    gint64 value = factor(s);
    return minus ? -value : value;
  }
  if (*s->at == '(') {
    s->at++;
    gint64 value = sum(s);
    s->failed = s->failed || *s->at != ')';
    s->at += *s->at == ')';
    return value;
  }
  if (shell_name_length(s->at))
    return named(s);
  gint64 value = g_ascii_strtoll(s->at, &end, 0);
  s->failed = s->failed || end == s->at || ABS(value) > (G_GINT64_CONSTANT(1) << 53);
  s->at = end;
  return value;
}

static gint64 product(Sum *s)
{
  gint64 value = factor(s);

  for (blanks(s); strchr("*/%", *s->at) && *s->at && !s->failed; blanks(s)) {
    char operation = *s->at++;
    gint64 other = factor(s);
    if (operation == '*')
      s->failed = __builtin_mul_overflow(value, other, &value) || s->failed;
    else if (other == 0 || other == -1)
      s->failed = TRUE;
    else
      value = operation == '/' ? value / other : value % other;
  }
  return value;
}

static gint64 sum(Sum *s)
{
  gint64 value = product(s);

  for (blanks(s); (*s->at == '+' || *s->at == '-') && !s->failed; blanks(s)) {
    gboolean minus = *s->at++ == '-';
    gint64 other = product(s);
    s->failed = __builtin_add_overflow(value, minus ? -other : other, &value) || s->failed;
  }
  return value;
}

gboolean shell_arithmetic(const ShellState *state, const char *expression, gint64 *out)
{
  Sum s = { state, expression, FALSE, state->depth };

  *out = sum(&s);
  blanks(&s);
  return !s.failed && *s.at == '\0';
}

/* ---- conditions ---- */

typedef struct {
  GPtrArray *words;
  guint at;
} Test;

static gboolean any(Test *t);

/* The text of the word `ahead`, NULL behind the last. */
static const char *word(const Test *t, guint ahead)
{
  return t->at + ahead < t->words->len ? shell_text_at(t->words, t->at + ahead) : NULL;
}

static gboolean is(const Test *t, guint ahead, const char *text)
{
  return g_strcmp0(word(t, ahead), text) == 0;
}

static const char *known(const char *text)
{
  return shell_unknown(text) ? "" : text;
}

static gboolean compares(const char *a, const char *operation, const char *b)
{
  static const char *const numbers[] = { "-eq", "-ne", "-lt", "-le", "-gt", "-ge" };
  gint64 x = g_ascii_strtoll(a, NULL, 10), y = g_ascii_strtoll(b, NULL, 10);
  gboolean truths[] = { x == y, x != y, x < y, x <= y, x > y, x >= y };

  for (gsize i = 0; i < G_N_ELEMENTS(numbers); i++)
    if (g_str_equal(operation, numbers[i]))
      return !shell_unknown(a) && !shell_unknown(b) && truths[i];
  if (g_str_equal(operation, "!="))
    return fnmatch(known(b), known(a), 0) != 0;
  if (g_str_equal(operation, "<") || g_str_equal(operation, ">"))
    return (strcmp(known(a), known(b)) < 0) == (*operation == '<');
  return fnmatch(known(b), known(a), 0) == 0; /* =, == and, as if it were one, =~ */
}

static gboolean is_comparison(const char *text)
{
  static const char *const all[] = { "=", "==", "!=", "=~", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", NULL };
  return text && g_strv_contains(all, text);
}

static gboolean one(Test *t)
{
  const char *first = word(t, 0);
  gboolean truth;

  if (!first)
    return FALSE;
  if (g_str_equal(first, "!")) {
    t->at++;
    return !one(t);
  }
  if (g_str_equal(first, "(")) {
    t->at++;
    truth = any(t);
    t->at += is(t, 0, ")");
    return truth;
  }
  if (is_comparison(word(t, 1)) && word(t, 2)) {
    truth = compares(first, word(t, 1), word(t, 2));
    t->at += 3;
    return truth;
  }
  if (first[0] == '-' && strlen(first) == 2 && word(t, 1)) {
    const char *subject = known(word(t, 1));
    truth = first[1] == 'z' ? !*subject : *subject != '\0'; /* -n, -v; files are there */
    t->at += 2;
    return truth;
  }
  t->at++;
  return *known(first) != '\0';
}

static gboolean all(Test *t)
{
  gboolean truth = one(t);

  while (is(t, 0, "-a") || is(t, 0, "&&")) {
    t->at++;
    truth = one(t) && truth;
  }
  return truth;
}

static gboolean any(Test *t)
{
  gboolean truth = all(t);

  while (is(t, 0, "-o") || is(t, 0, "||")) {
    t->at++;
    truth = all(t) || truth;
  }
  return truth;
}

gboolean shell_condition(GPtrArray *words)
{
  Test t = { words, 0 };
  return any(&t);
}
