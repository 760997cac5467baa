#include "base/table.h"

enum { GAP = 2 };

struct Table {
  int columns;
  gboolean *left;   /* per column */
  GPtrArray *cells; /* char *, row by row, the titles first */
};

Table *table_new(const char *columns)
{
  Table *table = g_new0(Table, 1);
  table->cells = g_ptr_array_new_with_free_func(g_free);
  g_auto(GStrv) titles = g_strsplit(columns, "|", -1);
  table->columns = (int)g_strv_length(titles);
  g_assert(table->columns > 0);
  table->left = g_new0(gboolean, table->columns);
  for (int i = 0; i < table->columns; i++) {
    table->left[i] = titles[i][0] == '<';
    g_ptr_array_add(table->cells, g_strdup(titles[i] + table->left[i]));
  }
  return table;
}

void table_free(Table *table)
{
  if (!table)
    return;
  g_ptr_array_unref(table->cells);
  g_free(table->left);
  g_free(table);
}

/* Printed with either mark in place of bars: where the two texts differ a cell ends, whatever its arguments hold. */
void table_add(Table *table, const char *format, ...)
{
  static const char marks[] = { '|', '\n' };
  char *texts[G_N_ELEMENTS(marks)];
  gsize start = 0;

  for (gsize i = 0; i < G_N_ELEMENTS(marks); i++) {
    g_autofree char *marked = g_strdelimit(g_strdup(format), "|", marks[i]);
    va_list args;
    va_start(args, format);
    texts[i] = g_strdup_vprintf(marked, args);
    va_end(args);
  }
  for (gsize i = 0; texts[0][i]; i++)
    if (texts[0][i] != texts[1][i]) {
      table_take(table, g_strndup(texts[0] + start, i - start));
      start = i + 1;
    }
  table_take(table, g_strdup(texts[0] + start));
  for (gsize i = 0; i < G_N_ELEMENTS(marks); i++)
    g_free(texts[i]);
}

void table_take(Table *table, char *cell)
{
  g_ptr_array_add(table->cells, g_utf8_make_valid(cell, -1));
  g_free(cell);
}

static int text_width(const char *text)
{
  int width = 0;
  for (const char *c = text; *c; c = g_utf8_next_char(c)) {
    gunichar character = g_utf8_get_char(c);
    if (!g_unichar_iszerowidth(character))
      width += g_unichar_iswide(character) ? 2 : 1;
  }
  return width;
}

static const char *cell_at(const Table *table, int row, int column)
{
  guint index = (guint)(row * table->columns + column);
  return index < table->cells->len ? g_ptr_array_index(table->cells, index) : "";
}

static int row_count(const Table *table)
{
  return ((int)table->cells->len + table->columns - 1) / table->columns;
}

int table_rows(const Table *table)
{
  return row_count(table) - 1;
}

int table_columns(const Table *table)
{
  return table->columns;
}

gboolean table_left(const Table *table, int column)
{
  return table->left[column];
}

const char *table_cell(const Table *table, int row, int column)
{
  return cell_at(table, row + 1, column);
}

static int *column_widths(const Table *table)
{
  int *widths = g_new0(int, table->columns);
  for (int row = 0; row < row_count(table); row++)
    for (int column = 0; column < table->columns; column++)
      widths[column] = MAX(widths[column], text_width(cell_at(table, row, column)));
  return widths;
}

static void append_row(GString *text, const Table *table, int row, const int *widths, int indent)
{
  g_string_append_printf(text, "%*s", indent, "");
  for (int column = 0; column < table->columns; column++) {
    const char *cell = cell_at(table, row, column);
    int pad = widths[column] - text_width(cell);
    g_string_append_printf(text, "%*s", column ? GAP : 0, "");
    g_string_append_printf(text, "%*s", table->left[column] ? 0 : pad, "");
    g_string_append(text, cell);
    g_string_append_printf(text, "%*s", table->left[column] ? pad : 0, "");
  }
  while (text->len > 0 && text->str[text->len - 1] == ' ')
    g_string_truncate(text, text->len - 1);
  g_string_append_c(text, '\n');
}

static gboolean has_titles(const Table *table)
{
  for (int column = 0; column < table->columns; column++)
    if (*cell_at(table, 0, column))
      return TRUE;
  return FALSE;
}

char *table_text(const Table *table, int indent)
{
  g_autofree int *widths = column_widths(table);
  GString *text = g_string_new(NULL);
  for (int row = has_titles(table) ? 0 : 1; row < row_count(table); row++)
    append_row(text, table, row, widths, indent);
  return g_string_free(text, FALSE);
}
