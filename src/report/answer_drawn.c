/* An answer's picture in letters: points on two axes, or bars beside names. */
#include "report/answer.h"

#include <math.h>
#include <string.h>

enum { LINES = 14, CELLS_MIN = 16, NAME_MOST = 34, POWERS_FROM = 8 };

static const char marks[] = "*o+x#";
static const char *const colors[] = { "\033[34m", "\033[33m", "\033[32m", "\033[35m", "\033[36m" };

/* From the least to the most value, by powers where they differ much. */
typedef struct {
  int column;
  double least, most;
  gboolean powers;
} Axis;

static gboolean is_point(const Answer *a, int row)
{
  return isfinite(answer_value(a, row, a->drawn.x)) && isfinite(answer_value(a, row, a->drawn.y));
}

static Axis axis_of(const Answer *a, int column)
{
  Axis axis = { .column = column, .least = INFINITY, .most = -INFINITY };

  for (int row = 0; row < answer_rows(a); row++)
    if (is_point(a, row)) {
      axis.least = MIN(axis.least, answer_value(a, row, column));
      axis.most = MAX(axis.most, answer_value(a, row, column));
    }
  axis.powers = axis.least > 0 && axis.most > POWERS_FROM * axis.least;
  return axis;
}

/* The cell of so many that a value stands in. */
static int place(const Axis *axis, double value, int cells)
{
  double low = axis->powers ? log(axis->least) : axis->least, high = axis->powers ? log(axis->most) : axis->most;
  double share = high > low ? ((axis->powers ? log(value) : value) - low) / (high - low) : 0;

  return CLAMP((int)lround(share * (cells - 1)), 0, cells - 1);
}

static const char *title_of(const Answer *a, int column)
{
  const char *title = a->columns[column].title;
  return title ? title + (*title == '<') : "";
}

static int series_number(const Answer *a, int row)
{
  int n = 0;

  for (int i = 1; i <= row; i++)
    n += !g_str_equal(answer_series(a, i), answer_series(a, i - 1));
  return n % (int)strlen(marks);
}

/* ---- points ---- */

static void append_grid(GString *text, const char *grid, int cells, const char *const labels[LINES], int label,
                        gboolean colored)
{
  for (int line = 0; line < LINES; line++) {
    const char *row = grid + line * cells;
    int end = cells;
    while (end > 0 && row[end - 1] == ' ')
      end--;
    g_string_append_printf(text, "%*s |", label, labels[line] ? labels[line] : "");
    for (int cell = 0; cell < end; cell++)
      if (colored && row[cell] != ' ')
        g_string_append_printf(text, "%s%c\033[0m", colors[strchr(marks, row[cell]) - marks], row[cell]);
      else
        g_string_append_c(text, row[cell]);
    g_string_append_c(text, '\n');
  }
}

/* The series with their marks, where there are several. */
static void append_series(GString *text, const Answer *a, int indent)
{
  if (a->drawn.series < 0)
    return;
  g_string_append_printf(text, "%*s", indent, "");
  for (int row = 0; row < answer_rows(a); row++)
    if (row == 0 || !g_str_equal(answer_series(a, row), answer_series(a, row - 1)))
      g_string_append_printf(text, "%s%c %s", row ? "  " : "", marks[series_number(a, row)], answer_series(a, row));
  g_string_append_c(text, '\n');
}

static char *draw_points(const Answer *a, int columns, gboolean colored)
{
  Axis x = axis_of(a, a->drawn.x), y = axis_of(a, a->drawn.y);
  g_autofree char *top = answer_shown(a, y.column, y.most), *bottom = answer_shown(a, y.column, y.least);
  g_autofree char *left = answer_shown(a, x.column, x.least), *right = answer_shown(a, x.column, x.most);
  const char *labels[LINES] = { [0] = top, [LINES - 1] = bottom };
  int label = MAX(strlen(top), strlen(bottom)), cells = MAX(columns - label - 2, CELLS_MIN);
  g_autofree char *grid = g_strnfill(LINES * cells, ' ');
  GString *text = g_string_new(NULL);

  for (int row = 0; row < answer_rows(a); row++)
    if (is_point(a, row)) {
      int line = LINES - 1 - place(&y, answer_value(a, row, y.column), LINES);
      grid[line * cells + place(&x, answer_value(a, row, x.column), cells)] = marks[series_number(a, row)];
    }
  g_string_append_printf(text, "%s\n", title_of(a, y.column));
  append_grid(text, grid, cells, labels, label, colored);
  g_autofree char *rule = g_strnfill(cells, '-');
  g_string_append_printf(text, "%*s +%s\n%*s%s%*s\n", label, "", rule, label + 2, "", left,
                         MAX(cells - (int)strlen(left), 0), right);
  g_string_append_printf(text, "%*s\n", label + 2 + cells, title_of(a, x.column));
  append_series(text, a, label + 2);
  return g_string_free(text, FALSE);
}

/* ---- bars ---- */

static void append_bar(GString *text, int from, int to, gboolean colored, gboolean below)
{
  g_string_append_printf(text, "%*s%s", from, "", colored ? colors[below ? 2 : 1] : "");
  for (int cell = from; cell < MAX(to, from + 1); cell++)
    g_string_append(text, to > from ? "█" : "▏");
  g_string_append_printf(text, "%s", colored ? "\033[0m" : "");
}

static char *draw_bars(const Answer *a, int columns, gboolean colored)
{
  GString *text = g_string_new(NULL);
  double least = 0, most = 0;
  int name = 0, value = 0;

  for (int row = 0; row < answer_rows(a); row++) {
    double y = answer_value(a, row, a->drawn.y);
    g_autofree char *shown = answer_shown(a, a->drawn.y, y);
    name = MAX(name, MIN((int)g_utf8_strlen(answer_label(a, row, a->drawn.x), -1), MIN(NAME_MOST, columns / 3)));
    value = MAX(value, (int)strlen(shown));
    least = isfinite(y) ? MIN(least, y) : least;
    most = isfinite(y) ? MAX(most, y) : most;
  }
  int cells = MAX(columns - name - value - 3, CELLS_MIN);
  double cell = most > least ? (most - least) / cells : 1;
  int zero = (int)lround(-least / cell);
  for (int row = 0; row < answer_rows(a); row++) {
    double y = answer_value(a, row, a->drawn.y);
    g_autofree char *shown = answer_shown(a, a->drawn.y, y);
    g_autofree char *cut = g_utf8_substring(answer_label(a, row, a->drawn.x), 0,
                                            MIN(name, g_utf8_strlen(answer_label(a, row, a->drawn.x), -1)));
    int at = isfinite(y) ? (int)lround((y - least) / cell) : zero;
    g_string_append_printf(text, "%*s%s %*s ", name - (int)g_utf8_strlen(cut, -1), "", cut, value, shown);
    append_bar(text, MIN(at, zero), MAX(at, zero), colored, y < 0);
    g_string_append_c(text, '\n');
  }
  return g_string_free(text, FALSE);
}

char *report_answer_drawn(const Answer *a, int columns, gboolean colored)
{
  int points = 0;

  if (a->drawn.y == 0)
    return NULL;
  if (a->columns[a->drawn.x].kind == CELL_TEXT)
    return draw_bars(a, columns, colored);
  for (int row = 0; row < answer_rows(a); row++)
    points += is_point(a, row);
  return points > 1 ? draw_points(a, columns, colored) : NULL;
}
