#include "base/json_syntax.h"

#include <math.h>
#include <string.h>

#include "base/error.h"

/* cJSON refuses more than 1000 levels and numbers of more than 63 characters. */
enum { MAX_DEPTH = 500, MAX_NUMBER = 63 };

typedef struct {
  const char *at;
  int depth;
  const char *fault; /* where it went wrong, NULL if it did not */
  char *message;
} Scan;

static gboolean scan_value(Scan *s);

G_GNUC_PRINTF(3, 4)
static gboolean scan_fail(Scan *s, const char *where, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  s->fault = where;
  s->message = g_strdup_vprintf(format, args);
  va_end(args);
  return FALSE;
}

static void skip_space(Scan *s)
{
  s->at += strspn(s->at, " \t\r\n");
}

/* What stands at `at`, for a message: a word, a character or the end. */
static char *describe_found(const char *at)
{
  int word = 0;
  while (word < 20 && (g_ascii_isalnum(at[word]) || at[word] == '_'))
    word++;
  if (word > 0)
    return g_strdup_printf("'%.*s'", word, at);
  if (!*at)
    return g_strdup("the end of the file");
  gunichar c = g_utf8_get_char(at);
  if (!g_unichar_isgraph(c))
    return g_strdup_printf("U+%04X", c);
  return g_strdup_printf("'%.*s'", (int)(g_utf8_next_char(at) - at), at);
}

static gboolean scan_expect(Scan *s, const char *expected)
{
  g_autofree char *found = describe_found(s->at);
  if (strncmp(s->at, "//", 2) == 0 || strncmp(s->at, "/*", 2) == 0)
    return scan_fail(s, s->at, "expected %s, found a comment, which JSON does not have", expected);
  return scan_fail(s, s->at, "expected %s, found %s", expected, found);
}

/* Four hexadecimal digits at `at`, -1 if they are not. */
static int hex4(const char *at)
{
  int code = 0;
  for (int i = 0; i < 4; i++) {
    if (!g_ascii_isxdigit(at[i]))
      return -1;
    code = code * 16 + g_ascii_xdigit_value(at[i]);
  }
  return code;
}

/* `at` is on the 'u' of \uXXXX. */
static gboolean scan_unicode_escape(Scan *s)
{
  const char *start = s->at - 1;
  int code = hex4(s->at + 1);
  if (code < 0)
    return scan_fail(s, start, "expected four hexadecimal digits after \\u");
  if (code == 0)
    return scan_fail(s, start, "\\u0000 is not allowed");
  s->at += 5;
  if (code < 0xD800 || code > 0xDFFF)
    return TRUE;
  int low = s->at[0] == '\\' && s->at[1] == 'u' ? hex4(s->at + 2) : -1;
  if (code > 0xDBFF || low < 0xDC00 || low > 0xDFFF)
    return scan_fail(s, start, "half of a surrogate pair");
  s->at += 6;
  return TRUE;
}

static gboolean scan_escape(Scan *s)
{
  s->at++;
  if (*s->at == 'u')
    return scan_unicode_escape(s);
  if (!*s->at || !strchr("\"\\/bfnrt", *s->at))
    return scan_fail(s, s->at - 1, "unknown escape in a string");
  s->at++;
  return TRUE;
}

static gboolean scan_string(Scan *s)
{
  const char *start = s->at++;
  while (*s->at != '"') {
    if (!*s->at)
      return scan_fail(s, start, "string without an end");
    if (*s->at == '\n' || *s->at == '\r')
      return scan_fail(s, s->at, "line break inside a string");
    if ((guchar)*s->at < 0x20)
      return scan_fail(s, s->at, "control character U+%04X inside a string", (guint)*s->at);
    if (*s->at != '\\')
      s->at++;
    else if (!scan_escape(s))
      return FALSE;
  }
  s->at++;
  return TRUE;
}

static gboolean scan_digits(Scan *s)
{
  if (!g_ascii_isdigit(*s->at))
    return scan_expect(s, "a digit");
  while (g_ascii_isdigit(*s->at))
    s->at++;
  return TRUE;
}

static gboolean check_number(Scan *s, const char *start)
{
  int length = (int)MIN(s->at - start, G_MAXINT);
  if (length > MAX_NUMBER)
    return scan_fail(s, start, "number of more than %d characters", MAX_NUMBER);
  g_autofree char *number = g_strndup(start, length);
  if (isinf(g_ascii_strtod(number, NULL)))
    return scan_fail(s, start, "%s: number too large", number);
  return TRUE;
}

static gboolean scan_number(Scan *s)
{
  const char *start = s->at;
  s->at += *s->at == '-';
  if (s->at[0] == '0' && g_ascii_isdigit(s->at[1]))
    return scan_fail(s, start, "number with a leading zero");
  if (!scan_digits(s))
    return FALSE;
  if (*s->at == '.') {
    s->at++;
    if (!scan_digits(s))
      return FALSE;
  }
  if (*s->at == 'e' || *s->at == 'E') {
    s->at++;
    s->at += *s->at == '+' || *s->at == '-';
    if (!scan_digits(s))
      return FALSE;
  }
  return check_number(s, start);
}

static gboolean scan_word(Scan *s)
{
  static const char *const words[] = {"true", "false", "null"};
  for (guint i = 0; i < G_N_ELEMENTS(words); i++) {
    gsize length = strlen(words[i]);
    if (strncmp(s->at, words[i], length) == 0 && !g_ascii_isalnum(s->at[length])) {
      s->at += length;
      return TRUE;
    }
  }
  return scan_expect(s, "a value");
}

static gboolean scan_member(Scan *s)
{
  if (*s->at != '"')
    return scan_expect(s, "a key in double quotes");
  if (!scan_string(s))
    return FALSE;
  skip_space(s);
  if (*s->at != ':')
    return scan_expect(s, "':'");
  s->at++;
  return scan_value(s);
}

/* The inside of an object or array up to and with its closing bracket. */
static gboolean scan_list(Scan *s, char close, gboolean (*scan_item)(Scan *))
{
  s->at++;
  if (++s->depth > MAX_DEPTH)
    return scan_fail(s, s->at - 1, "nested more than %d levels deep", MAX_DEPTH);
  skip_space(s);
  while (*s->at != close) {
    if (!scan_item(s))
      return FALSE;
    skip_space(s);
    if (*s->at == close)
      break;
    if (*s->at != ',')
      return scan_expect(s, close == '}' ? "',' or '}'" : "',' or ']'");
    const char *comma = s->at++;
    skip_space(s);
    if (*s->at == close)
      return scan_fail(s, comma, "comma before '%c'", close);
  }
  s->at++;
  s->depth--;
  return TRUE;
}

static gboolean scan_value(Scan *s)
{
  skip_space(s);
  if (*s->at == '{')
    return scan_list(s, '}', scan_member);
  if (*s->at == '[')
    return scan_list(s, ']', scan_value);
  if (*s->at == '"')
    return scan_string(s);
  if (*s->at == '-' || g_ascii_isdigit(*s->at))
    return scan_number(s);
  return scan_word(s);
}

static gboolean scan_document(Scan *s)
{
  if (!scan_value(s))
    return FALSE;
  skip_space(s);
  return *s->at ? scan_expect(s, "the end of the file") : TRUE;
}

static gboolean scan_encoding(Scan *s, gsize length)
{
  const char *text = s->at, *end;
  if (length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
    return scan_fail(s, text, "starts with a byte order mark, expected UTF-8 without one");
  if (length >= 2 && (memcmp(text, "\xFF\xFE", 2) == 0 || memcmp(text, "\xFE\xFF", 2) == 0))
    return scan_fail(s, text, "is UTF-16, expected UTF-8");
  if (g_utf8_validate_len(text, length, &end))
    return TRUE;
  if (!*end)
    return scan_fail(s, end, "NUL byte");
  return scan_fail(s, end, "byte 0x%02X is not valid UTF-8", (guchar)*end);
}

gboolean json_syntax_check(const char *text, gsize length, const char *name, GError **error)
{
  Scan scan = {.at = text};
  if (scan_encoding(&scan, length) && scan_document(&scan))
    return TRUE;

  int line = 1;
  const char *start = text;
  for (const char *c = text; c < scan.fault; c++) {
    if (*c == '\n') {
      line++;
      start = c + 1;
    }
  }
  input_error(error, "%s:%d:%ld: %s", name, line, g_utf8_strlen(start, scan.fault - start) + 1, scan.message);
  g_free(scan.message);
  return FALSE;
}
