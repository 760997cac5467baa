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

const char *names_nearest(const char *const *names, const char *name)
{
  const char *nearest = NULL;
  int best = G_MAXINT;
  for (int i = 0; names[i]; i++) {
    int d = name_distance(names[i], name);
    if (d < best) {
      best = d;
      nearest = names[i];
    }
  }
  return nearest;
}

gboolean names_near(const char *a, const char *b)
{
  gsize shorter = MIN(strlen(a), strlen(b)), longer = MAX(strlen(a), strlen(b));
  if (shorter >= 3 && (strstr(a, b) || strstr(b, a)))
    return TRUE;
  return shorter > 0 && name_distance(a, b) <= ((int)MIN(longer, 100) + 2) / 3;
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
