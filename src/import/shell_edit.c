/* What bash's expansions make of a value. */
#include "import/shell_text.h"

#include <fnmatch.h>
#include <string.h>

/* Bytes of a value that is trimmed, and of one in which patterns are looked for: these take the square, and its square. */
#define TRIMMED_MOST 4096
#define PATTERN_MOST 256

ShellText *shell_text_trimmed(const ShellText *value, const char *operation, const char *pattern)
{
  gboolean longest = operation[1] == operation[0], front = operation[0] == '#';
  gsize n = value->text->len, found = G_MAXSIZE;

  for (gsize cut = 0; cut <= n && n <= TRIMMED_MOST; cut++) {
    g_autofree char *part = front ? g_strndup(value->text->str, cut) : g_strdup(value->text->str + n - cut);
    if (fnmatch(pattern, part, 0) == 0 && (longest || found == G_MAXSIZE))
      found = cut;
  }
  found = found == G_MAXSIZE ? 0 : found;
  return front ? shell_text_part(value, found, n) : shell_text_part(value, 0, n - found);
}

ShellText *shell_text_cut(const ShellText *value, gint64 first, gint64 length)
{
  gint64 n = value->text->len;

  first = first < 0 ? n + first : first;
  if (first < 0 || first > n)
    return shell_text_new();
  gint64 end = length < 0 ? n + length : first + MIN(length, n - first);
  return shell_text_part(value, first, MAX(first, end));
}

/* Where the longest match at a place ends; the place itself if there is none. */
static gsize match_end(const ShellText *value, gsize first, const char *pattern, gboolean plain, gboolean to_end)
{
  gsize n = value->text->len, words = strlen(pattern);

  if (plain)
    return strncmp(value->text->str + first, pattern, words) || (to_end && first + words < n) ? first : first + words;
  for (gsize end = n; end > first && (!to_end || end == n); end--) {
    g_autofree char *part = g_strndup(value->text->str + first, end - first);
    if (fnmatch(pattern, part, 0) == 0)
      return end;
  }
  return first;
}

ShellText *shell_text_replaced(const ShellText *value, char where, const char *pattern, const ShellText *other)
{
  gboolean plain = !strpbrk(pattern, "*?[\\"), done = FALSE;
  gsize n = value->text->len;
  ShellText *out = shell_text_new();

  for (gsize at = 0; at < n;) {
    gboolean looks = !done && (where != '#' || at == 0) && (plain || n <= PATTERN_MOST);
    gsize end = looks ? match_end(value, at, pattern, plain, where == '%') : at;
    if (end > at) {
      shell_text_add_all(out, other);
      done = where != '/' || out->text->len > SHELL_WORD_MAX;
      at = end;
    } else {
      shell_text_add(out, value, at, at + 1);
      at++;
    }
  }
  return out;
}
