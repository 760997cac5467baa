#include "pages/expression.h"

#include "base/error.h"

#include <math.h>
#include <string.h>

typedef struct {
  const char *text, *at;
  ExpressionLookup lookup;
  gpointer data;
  GError **error;
  gboolean failed;
} Parser;

static double sum(Parser *p);

static double fail(Parser *p, const char *expected)
{
  if (!p->failed)
    g_set_error(p->error, TDP_ERROR, TDP_ERROR_INPUT, "\"%s\": at \"%s\": expected %s", p->text, p->at, expected);
  p->failed = TRUE;
  return NAN;
}

static gboolean take(Parser *p, char c)
{
  while (*p->at == ' ')
    p->at++;
  if (*p->at != c)
    return FALSE;
  p->at++;
  return TRUE;
}

static double call(Parser *p, const char *name)
{
  double a = sum(p), b = take(p, ',') ? sum(p) : fail(p, "a comma");

  if (!take(p, ')'))
    return fail(p, "a closing parenthesis");
  return g_str_equal(name, "min") ? fmin(a, b) : g_str_equal(name, "max") ? fmax(a, b) : fail(p, "min or max");
}

static double name(Parser *p)
{
  const char *begin = p->at;
  double value;

  while (g_ascii_isalnum(*p->at) || *p->at == '_' || *p->at == '.')
    p->at++;
  g_autofree char *found = g_strndup(begin, p->at - begin);
  if (take(p, '('))
    return call(p, found);
  if (p->lookup(p->data, found, &value))
    return value;
  p->at = begin;
  return fail(p, "a known name");
}

static double factor(Parser *p)
{
  char *end;

  if (take(p, '-'))
    return -factor(p);
  if (take(p, '(')) {
    double value = sum(p);
    return take(p, ')') ? value : fail(p, "a closing parenthesis");
  }
  if (g_ascii_isalpha(*p->at))
    return name(p);
  double value = g_ascii_strtod(p->at, &end);
  if (end == p->at)
    return fail(p, "a number, a name or a parenthesis");
  p->at = end;
  return value;
}

static double product(Parser *p)
{
  double value = factor(p);

  while (!p->failed) {
    if (take(p, '*'))
      value *= factor(p);
    else if (take(p, '/'))
      value /= factor(p);
    else
      break;
  }
  return value;
}

static double sum(Parser *p)
{
  double value = product(p);

  while (!p->failed) {
    if (take(p, '+'))
      value += product(p);
    else if (take(p, '-'))
      value -= product(p);
    else
      break;
  }
  return value;
}

gboolean expression_value(const char *text, ExpressionLookup lookup, gpointer data, double *out, GError **error)
{
  Parser p = { text, text, lookup, data, error, FALSE };

  *out = sum(&p);
  if (!p.failed && *p.at != '\0')
    fail(&p, "an operator");
  return !p.failed;
}
