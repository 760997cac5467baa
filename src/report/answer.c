#include "report/answer.h"

#include "base/units.h"

#include <math.h>

typedef struct {
  char *text; /* NULL: a number */
  double value;
} Cell;

static void cell_clear(gpointer cell)
{
  g_free(((Cell *)cell)->text);
}

Answer *answer_new(const AnswerColumn *columns, int n_columns)
{
  Answer *a = g_new0(Answer, 1);

  a->columns = columns;
  a->n_columns = n_columns;
  a->cells = g_array_new(FALSE, FALSE, sizeof(Cell));
  g_array_set_clear_func(a->cells, cell_clear);
  a->says = g_string_new(NULL);
  return a;
}

void answer_free(Answer *a)
{
  if (!a)
    return;
  g_array_unref(a->cells);
  g_string_free(a->says, TRUE);
  g_free(a->owned);
  g_free(a);
}

void answer_add(Answer *a, double value)
{
  Cell cell = { .value = value };
  g_array_append_val(a->cells, cell);
}

void answer_add_text(Answer *a, const char *text)
{
  Cell cell = { .text = g_strdup(text) };
  g_array_append_val(a->cells, cell);
}

void answer_draw(Answer *a, int series, int x, int y)
{
  a->drawn.series = series;
  a->drawn.x = x;
  a->drawn.y = y;
}

void answer_hide(Answer *a, const char *key)
{
  if (!a->owned)
    a->columns = a->owned = g_memdup2(a->columns, a->n_columns * sizeof *a->columns);
  for (int c = 0; c < a->n_columns; c++)
    if (g_strcmp0(a->columns[c].key, key) == 0)
      a->owned[c].title = NULL;
}

int answer_rows(const Answer *a)
{
  return a->cells->len / a->n_columns;
}

double answer_value(const Answer *a, int row, int column)
{
  return g_array_index(a->cells, Cell, row * a->n_columns + column).value;
}

const char *answer_label(const Answer *a, int row, int column)
{
  return g_array_index(a->cells, Cell, row * a->n_columns + column).text;
}

const char *answer_series(const Answer *a, int row)
{
  return a->drawn.series < 0 ? "" : answer_label(a, row, a->drawn.series);
}

gboolean answer_is_empty(const Answer *a)
{
  int step = 0, rows = answer_rows(a), found = 0;

  while (step < a->n_columns && g_strcmp0(a->columns[step].key, "iteration_s") != 0)
    step++;
  for (int row = 0; row < rows; row++)
    found += step == a->n_columns || isfinite(answer_value(a, row, step));
  return found == 0;
}

static char *shown(const Cell *cell, CellKind kind)
{
  if (cell->text)
    return g_strdup(cell->text);
  if (!isfinite(cell->value))
    return g_strdup("-");
  switch (kind) {
  case CELL_INT:
    return g_strdup_printf("%.0f", cell->value);
  case CELL_SECONDS:
    return cell->value >= 1 ? format_seconds_exact(cell->value) : format_seconds(cell->value);
  case CELL_BYTES:
    return format_bytes(cell->value);
  case CELL_PERCENT:
    return g_strdup_printf("%+.2f %%", 100 * cell->value);
  case CELL_SHARE:
    return g_strdup_printf("%.0f %%", 100 * cell->value);
  default:
    return g_strdup_printf(fabs(cell->value) < 1e5 ? "%.5g" : "%.0f", cell->value);
  }
}

char *answer_shown(const Answer *a, int column, double value)
{
  const Cell cell = { .value = value };
  return shown(&cell, a->columns[column].kind);
}

Table *answer_table(const Answer *a)
{
  g_autoptr(GString) titles = g_string_new(NULL);

  for (int i = 0; i < a->n_columns; i++)
    if (a->columns[i].title)
      g_string_append_printf(titles, "%s%s", titles->len ? "|" : "", a->columns[i].title);
  Table *table = table_new(titles->str);
  for (guint i = 0; i < a->cells->len; i++) {
    const AnswerColumn *column = &a->columns[i % a->n_columns];
    if (column->title)
      table_take(table, shown(&g_array_index(a->cells, Cell, i), column->kind));
  }
  return table;
}

char *answer_text(const Answer *a)
{
  g_autoptr(Table) table = answer_table(a);
  g_autofree char *rows = table_text(table, 2);

  return g_strconcat(a->says->str, a->says->len ? "\n" : "", a->cells->len ? rows : "", NULL);
}

static void write_cell(const Cell *cell, const AnswerColumn *column, JsonWriter *w)
{
  if (cell->text || !isfinite(cell->value))
    json_put_string(w, column->key, cell->text);
  else if (column->kind == CELL_INT)
    json_put_int(w, column->key, (gint64)cell->value);
  else
    json_put_real(w, column->key, column->unit > 0 ? cell->value * column->unit : cell->value);
}

void answer_write(const Answer *a, JsonWriter *w, const char *key)
{
  json_open(w, key, '{');
  json_put_string(w, "answer", a->says->str);
  json_open(w, "rows", '[');
  for (int row = 0; row < answer_rows(a); row++) {
    json_open(w, NULL, '{');
    for (int i = 0; i < a->n_columns; i++)
      if (a->columns[i].key)
        write_cell(&g_array_index(a->cells, Cell, row * a->n_columns + i), &a->columns[i], w);
    json_close(w, '}');
  }
  json_close(w, ']');
  json_close(w, '}');
}
