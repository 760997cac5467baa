#include <string.h>

#include "base/json.h"

enum { HINT_NAMES_MAX = 40 };

int names_find(const char *const *names, const char *name)
{
  for (int i = 0; names[i]; i++)
    if (strcmp(names[i], name) == 0)
      return i;
  return -1;
}

guint names_parse_set(const char *const *names, const char *text)
{
  g_auto(GStrv) entries = g_strsplit(text, "+", -1);
  guint set = 0;

  for (int i = 0; entries[i]; i++) {
    int at = names_find(names, entries[i]);
    if (at < 0 || set >> at & 1)
      return 0;
    set |= 1u << at;
  }
  return set;
}

char *names_joined(const char *const *names, guint set, const char *between)
{
  GString *text = g_string_new(NULL);

  for (int i = 0; names[i]; i++)
    if (set >> i & 1)
      g_string_append_printf(text, "%s%s", text->len ? between : "", names[i]);
  return g_string_free(text, FALSE);
}

void names_append_set(const char *const *names, guint set, const char *before, GString *text)
{
  g_autofree char *joined = names_joined(names, set, "+");

  if (set)
    g_string_append_printf(text, "%s%s", before, joined);
}

static char folded(char c)
{
  return c == '-' || c == ' ' ? '_' : g_ascii_tolower(c);
}

/* Edits (insert, delete, replace, swap of neighbours) from one to the other. */
static int distance(const char *a, const char *b)
{
  int n = (int)strlen(a), m = (int)strlen(b), width = m + 1;
  g_autofree int *d = g_new(int, (gsize)(n + 1) * width);
  for (int i = 0; i <= n; i++) {
    for (int j = 0; j <= m; j++) {
      int *cell = &d[i * width + j];
      if (i == 0 || j == 0) {
        *cell = i + j;
        continue;
      }
      int differs = folded(a[i - 1]) != folded(b[j - 1]);
      *cell = MIN(MIN(cell[-1], cell[-width]) + 1, cell[-width - 1] + differs);
      if (i > 1 && j > 1 && folded(a[i - 1]) == folded(b[j - 2]) &&
          folded(a[i - 2]) == folded(b[j - 1]))
        *cell = MIN(*cell, cell[-2 * width - 2] + 1);
    }
  }
  return d[n * width + m];
}

/* Long names are cut: nobody mistypes one that far. */
static int name_distance(const char *a, const char *b)
{
  g_autofree char *short_a = g_strndup(a, 100);
  g_autofree char *short_b = g_strndup(b, 100);
  return distance(short_a, short_b);
}

/* Behind the next run of letters or of digits, `first` at its begin; separators are skipped. */
static const char *next_run(const char *at, const char **first)
{
  while (*at && !g_ascii_isalnum(*at))
    at++;
  *first = at;
  gboolean digits = g_ascii_isdigit(*at);
  while (g_ascii_isalnum(*at) && g_ascii_isdigit(*at) == digits)
    at++;
  return at;
}

/* Runs of `longer` beyond those of `name`, if it has all of these in order, as "llama-3.1-8b" has those of
 * "llama3-8b"; else -1. */
static int extra_runs(const char *longer, const char *name)
{
  const char *a, *b, *end, *rest = next_run(name, &b);
  int extra = 0;

  for (end = next_run(longer, &a); end > a; end = next_run(end, &a)) {
    if (end - a == rest - b && g_ascii_strncasecmp(a, b, end - a) == 0 && rest > b)
      rest = next_run(rest, &b);
    else
      extra++;
  }
  return rest > b ? -1 : extra;
}

/* The one with the fewest further runs, NULL where none has all of the name's. */
static const char *nearest_by_runs(const char *const *names, const char *name)
{
  const char *nearest = NULL;
  int least = G_MAXINT;

  if (strlen(name) < 3)
    return NULL;
  for (int i = 0; names[i]; i++) {
    int extra = extra_runs(names[i], name);
    if (extra >= 0 && extra < least) {
      least = extra;
      nearest = names[i];
    }
  }
  return nearest;
}

static int shared_start(const char *a, const char *b)
{
  int n = 0;

  while (a[n] && folded(a[n]) == folded(b[n]))
    n++;
  return n;
}

const char *names_nearest(const char *const *names, const char *name)
{
  const char *nearest = nearest_by_runs(names, name);
  int best = G_MAXINT;
  if (nearest)
    return nearest;
  for (int i = 0; names[i]; i++) {
    int d = name_distance(names[i], name);
    if (d < best || (d == best && shared_start(names[i], name) > shared_start(nearest, name))) {
      best = d;
      nearest = names[i];
    }
  }
  return nearest;
}

gboolean names_near(const char *a, const char *b)
{
  gsize shorter = MIN(strlen(a), strlen(b)), longer = MAX(strlen(a), strlen(b));
  if (shorter >= 3 && (strstr(a, b) || strstr(b, a) || extra_runs(a, b) >= 0))
    return TRUE;
  return shorter > 0 && name_distance(a, b) <= ((int)MIN(longer, 100) + 2) / 3;
}

char *names_meant(const char *const *names, const char *name)
{
  const char *nearest = names_nearest(names, name);

  return nearest && names_near(nearest, name) ? g_strdup_printf("; did you mean \"%s\"?", nearest) : g_strdup("");
}

char *names_hint(const char *const *names, const char *name)
{
  const char *nearest = names_nearest(names, name);
  if (!nearest)
    return NULL;
  if (names_near(nearest, name))
    return g_strdup_printf("did you mean \"%s\"?", nearest);
  GString *hint = g_string_new("known are ");
  for (int i = 0; names[i]; i++) {
    if (i == HINT_NAMES_MAX) {
      g_string_append(hint, ", …");
      break;
    }
    g_string_append_printf(hint, "%s%s", i ? ", " : "", names[i]);
  }
  return g_string_free(hint, FALSE);
}
