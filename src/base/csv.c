#include "base/csv.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"

typedef struct {
  const char *name, *at;
  int line;
} Scan;

#define fail(name, line, error, format, ...) input_error(error, "%s:%d: " format, name, line, ##__VA_ARGS__)

/* ---- scanning ---- */

static gboolean at_line_end(const Scan *s)
{
  return *s->at == '\n' || *s->at == '\r';
}

static void skip_line_end(Scan *s)
{
  s->at += s->at[0] == '\r' && s->at[1] == '\n' ? 2 : 1;
  s->line++;
}

/* A cell in quotes up to behind the closing one. */
static gboolean scan_quoted(Scan *s, GString *cell, GError **error)
{
  int start = s->line;
  for (s->at++; !(s->at[0] == '"' && s->at[1] != '"'); s->at++) {
    if (!*s->at)
      return fail(s->name, start, error, "quote without an end");
    s->at += *s->at == '"';
    s->line += *s->at == '\n' || (s->at[0] == '\r' && s->at[1] != '\n');
    g_string_append_c(cell, *s->at);
  }
  s->at++;
  if (*s->at && *s->at != ',' && !at_line_end(s))
    return fail(s->name, s->line, error, "text behind a closing quote");
  return TRUE;
}

static gboolean scan_cell(Scan *s, GString *cell, GError **error)
{
  if (*s->at == '"')
    return scan_quoted(s, cell, error);
  gsize length = strcspn(s->at, ",\r\n\"");
  g_string_append_len(cell, s->at, (gssize)length);
  s->at += length;
  if (*s->at == '"')
    return fail(s->name, s->line, error, "quote inside a cell that does not start with one");
  return TRUE;
}

/* The cells of one row, NULL on error. */
static GPtrArray *scan_row(Scan *s, GError **error)
{
  g_autoptr(GPtrArray) cells = g_ptr_array_new_with_free_func(g_free);
  for (;;) {
    g_autoptr(GString) cell = g_string_new(NULL);
    if (!scan_cell(s, cell, error))
      return NULL;
    g_ptr_array_add(cells, g_strdup(cell->str));
    if (*s->at != ',')
      break;
    s->at++;
  }
  if (*s->at)
    skip_line_end(s);
  return g_steal_pointer(&cells);
}

static void skip_empty_lines(Scan *s)
{
  while (at_line_end(s))
    skip_line_end(s);
}

/* ---- reading ---- */

static gboolean check_columns(const Csv *csv, int line, GError **error)
{
  for (guint i = 0; i < csv->columns->len; i++) {
    const char *column = g_ptr_array_index(csv->columns, i);
    if (csv_column(csv, column) < (int)i)
      return fail(csv->name, line, error, "column \"%s\" stands twice", column);
  }
  return TRUE;
}

static gboolean add_row(Csv *csv, Scan *s, GError **error)
{
  int line = s->line;
  g_autoptr(GPtrArray) cells = scan_row(s, error);
  if (!cells)
    return FALSE;
  if (cells->len != csv->columns->len)
    return fail(csv->name, line, error, "%u cells, expected %u as in the header", cells->len,
                csv->columns->len);
  g_ptr_array_add(cells, NULL);
  g_ptr_array_add(csv->rows, g_ptr_array_steal(cells, NULL));
  g_array_append_val(csv->lines, line);
  return TRUE;
}

static gboolean read_all(Csv *csv, Scan *s, GError **error)
{
  skip_empty_lines(s);
  if (!*s->at)
    return fail(s->name, s->line, error, "empty, expected a header line");
  int line = s->line;
  csv->columns = scan_row(s, error);
  if (!csv->columns || !check_columns(csv, line, error))
    return FALSE;
  if (csv->columns->len == 1 && strpbrk(csv->columns->pdata[0], ";\t{["))
    return fail(s->name, line, error, "no comma: expected names of columns with commas between them");
  for (skip_empty_lines(s); *s->at; skip_empty_lines(s))
    if (!add_row(csv, s, error))
      return FALSE;
  return TRUE;
}

static int line_of(const char *text, const char *at)
{
  int line = 1;
  for (const char *c = text; c < at; c++)
    line += *c == '\n';
  return line;
}

static gboolean start_scan(Scan *s, const char *text, const char *name, GError **error)
{
  const char *end;
  if (!g_utf8_validate(text, -1, &end))
    return fail(name, line_of(text, end), error, "byte 0x%02X is not valid UTF-8", (guchar)*end);
  *s = (Scan){name, text + (g_str_has_prefix(text, "\xEF\xBB\xBF") ? 3 : 0), 1};
  return TRUE;
}

Csv *csv_parse(const char *text, const char *name, GError **error)
{
  Scan scan;
  if (!start_scan(&scan, text, name, error))
    return NULL;
  g_autoptr(Csv) csv = g_new0(Csv, 1);
  csv->name = g_strdup(name);
  csv->rows = g_ptr_array_new_with_free_func((GDestroyNotify)g_strfreev);
  csv->lines = g_array_new(FALSE, FALSE, sizeof(int));
  return read_all(csv, &scan, error) ? g_steal_pointer(&csv) : NULL;
}

GPtrArray *csv_parse_rows(const char *text, const char *name, GError **error)
{
  Scan scan;
  if (!start_scan(&scan, text, name, error))
    return NULL;
  g_autoptr(GPtrArray) rows = g_ptr_array_new_with_free_func((GDestroyNotify)g_strfreev);
  for (skip_empty_lines(&scan); *scan.at; skip_empty_lines(&scan)) {
    g_autoptr(GPtrArray) cells = scan_row(&scan, error);
    if (!cells)
      return NULL;
    g_ptr_array_add(cells, NULL);
    g_ptr_array_add(rows, g_ptr_array_steal(cells, NULL));
  }
  return g_steal_pointer(&rows);
}

Csv *csv_load(const char *path, GError **error)
{
  gsize length;
  g_autofree char *text = files_read(path, &length, error);
  if (!text)
    return NULL;
  const char *name = strcmp(path, "-") == 0 ? "stdin" : path;
  if (strlen(text) != length) {
    fail(name, line_of(text, text + strlen(text)), error, "NUL byte");
    return NULL;
  }
  return csv_parse(text, name, error);
}

void csv_free(Csv *csv)
{
  if (!csv)
    return;
  g_free(csv->name);
  g_clear_pointer(&csv->columns, g_ptr_array_unref);
  g_ptr_array_unref(csv->rows);
  g_array_unref(csv->lines);
  g_free(csv);
}

/* ---- cells ---- */

int csv_column(const Csv *csv, const char *column)
{
  for (guint i = 0; i < csv->columns->len; i++)
    if (strcmp(g_ptr_array_index(csv->columns, i), column) == 0)
      return (int)i;
  return -1;
}

const char *csv_cell(const Csv *csv, int row, const char *column)
{
  g_assert(row >= 0 && row < (int)csv->rows->len);
  int index = csv_column(csv, column);
  char **cells = g_ptr_array_index(csv->rows, row);
  return index < 0 ? "" : cells[index];
}

/* A finite decimal number and nothing else (strtod takes hexadecimal too). */
static gboolean parse_number(const char *text, double *out)
{
  char *end;
  if (text[strspn(text, "+-.0123456789eE")] != '\0')
    return FALSE;
  *out = g_ascii_strtod(text, &end);
  return end != text && *end == '\0' && isfinite(*out);
}

static gboolean read_number(const Csv *csv, int row, const char *column, gboolean integral,
                            double *out, GError **error)
{
  const char *cell = csv_cell(csv, row, column);
  g_autofree char *text = g_strstrip(g_strdup(cell));
  double value;
  if (!*text)
    return TRUE;
  gboolean good = parse_number(text, &value);
  if (good && integral)
    good = value == floor(value) && value >= G_MININT && value <= G_MAXINT;
  if (!good)
    return fail(csv->name, g_array_index(csv->lines, int, row), error, "%s: \"%s\": expected %s",
                column, cell, integral ? "an integer" : "a number");
  *out = value;
  return TRUE;
}

gboolean csv_refuse(const Csv *csv, int row, const char *column, const char *expected, GError **error)
{
  return input_error(error, "%s: line %d: %s: \"%s\": expected %s", csv->name, g_array_index(csv->lines, int, row),
                     column, csv_cell(csv, row, column), expected);
}

gboolean csv_real(const Csv *csv, int row, const char *column, double *out, GError **error)
{
  return read_number(csv, row, column, FALSE, out, error);
}

gboolean csv_int(const Csv *csv, int row, const char *column, int *out, GError **error)
{
  double value = *out;
  if (!read_number(csv, row, column, TRUE, &value, error))
    return FALSE;
  *out = (int)value;
  return TRUE;
}

/* ---- writing ---- */

void csv_put(GString *text, const char *cell, gboolean last)
{
  gboolean line_start = text->len == 0 || text->str[text->len - 1] == '\n';
  gboolean lone_empty = last && line_start && !*cell;
  if (lone_empty || strpbrk(cell, ",\"\r\n") || *cell == ' ' || g_str_has_suffix(cell, " ")) {
    g_auto(GStrv) parts = g_strsplit(cell, "\"", -1);
    g_autofree char *doubled = g_strjoinv("\"\"", parts);
    g_string_append_printf(text, "\"%s\"", doubled);
  } else {
    g_string_append(text, cell);
  }
  g_string_append_c(text, last ? '\n' : ',');
}
