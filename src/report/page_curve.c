/* What an answer's numbers look like beside each other, as a section of a page. */
#include "report/page_sections.h"

#include <math.h>

static const char *const unit_names[] = {
  [CELL_TEXT] = "name", [CELL_INT] = "count", [CELL_SECONDS] = "seconds", [CELL_BYTES] = "bytes",
  [CELL_PERCENT] = "change", [CELL_SHARE] = "share", [CELL_REAL] = "real",
};

static void put_axis(JsonWriter *w, const char *key, const AnswerColumn *column)
{
  json_open(w, key, '{');
  json_put_string(w, "title", column->title[0] == '<' ? column->title + 1 : column->title);
  json_put_string(w, "unit", unit_names[column->kind]);
  json_close(w, '}');
}

/* The place of each row on both axes, a name or a number, and what its plan is; rows without a number are left out. */
static void put_points(JsonWriter *w, const Answer *a, const char *series)
{
  json_open(w, "points", '[');
  for (int row = 0; row < answer_rows(a); row++) {
    const char *name = answer_label(a, row, a->drawn.x);
    double x = answer_value(a, row, a->drawn.x), y = answer_value(a, row, a->drawn.y);
    if (!g_str_equal(answer_series(a, row), series) || !isfinite(y) || (!name && !isfinite(x)))
      continue;
    if (name)
      json_put_string(w, NULL, name);
    else
      json_put_real(w, NULL, x);
    json_put_real(w, NULL, y);
    json_put_string(w, NULL, answer_label(a, row, a->n_columns - 1));
  }
  json_close(w, ']');
}

static void put_series(JsonWriter *w, const Answer *a)
{
  json_open(w, "series", '[');
  for (int row = 0; row < answer_rows(a); row++) {
    if (row > 0 && g_str_equal(answer_series(a, row), answer_series(a, row - 1)))
      continue;
    json_open(w, NULL, '{');
    json_put_string(w, "name", answer_series(a, row));
    put_points(w, a, answer_series(a, row));
    json_close(w, '}');
  }
  json_close(w, ']');
}

static void put_curve(JsonWriter *w, const Answer *a)
{
  json_open(w, "curve", '{'); /* not in Markdown, whose readers have the table */
  put_axis(w, "x", &a->columns[a->drawn.x]);
  put_axis(w, "y", &a->columns[a->drawn.y]);
  put_series(w, a);
  json_close(w, '}');
}

void page_asked(Page *page, const Answer *a)
{
  g_autoptr(Table) rows = answer_table(a);

  page_open_table(page, "The answer", a->says->str, rows);
  if (a->drawn.y > 0 && answer_rows(a) > 1)
    put_curve(&page->writer, a);
  page_end(page);
}
