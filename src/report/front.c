#include "report/front.h"

#include "base/error.h"
#include "report/gnuplot.h"
#include "report/plots.h"

/* Where an answer says which of its rows are on the front: column "front". */
static gboolean drawn(const Answer *a, int row)
{
  for (int c = 0; c < a->n_columns; c++)
    if (g_strcmp0(a->columns[c].key, "front") == 0)
      return g_str_equal(answer_label(a, row, c), "yes");
  return TRUE;
}

gboolean report_front(const Answer *front, const char *x_title, const char *y_title, const char *folder, GError **error)
{
  g_auto(Picture) p = { NULL };
  g_autoptr(GString) data = g_string_new(NULL);

  if (answer_rows(front) == 0)
    return runtime_error(error, "plots: no plan fits: nothing to draw");
  if (!plot_folder(folder, error) || !picture_init(&p, "pareto", "pareto", error))
    return FALSE;
  for (int row = 0; row < answer_rows(front); row++)
    if (drawn(front, row))
      g_string_append_printf(data, "%.9g %.9g\n", answer_value(front, row, 0), answer_value(front, row, 1));
  picture_set_text(&p, "x_title", x_title);
  picture_set_text(&p, "y_title", y_title);
  return picture_write(&p, "pareto.dat", data, error) && picture_draw(&p, &(PicturesTo) { .folder = folder }, error);
}
