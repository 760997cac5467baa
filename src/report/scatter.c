#include "report/scatter.h"

#include "base/error.h"
#include "report/gnuplot.h"
#include "report/plots.h"

/* One block of points for each case file with simulated rows, blank lines between. */
static int write_points(const Validation *v, GString *data, GPtrArray *titles)
{
  const char *file = NULL;

  for (guint i = 0; i < v->cases->len; i++) {
    const CaseResult *r = g_ptr_array_index(v->cases, i);
    if (!case_is_timed(r))
      continue;
    if (g_strcmp0(file, r->file) != 0) {
      CaseSummary s = validation_summary(v, r->file);
      if (file)
        g_string_append(data, "\n\n");
      file = r->file;
      g_ptr_array_add(titles, g_strdup_printf("%s: %d runs, %.1f %%", file, s.count, s.mape_pct));
    }
    g_string_append_printf(data, "%.9g %.9g\n", r->measured_s, r->predicted_s);
  }
  return (int)titles->len;
}

gboolean report_scatter(const Validation *v, const char *folder, GError **error)
{
  g_auto(Picture) p = { NULL };
  g_autoptr(GString) data = g_string_new(NULL);
  g_autoptr(GPtrArray) titles = g_ptr_array_new_with_free_func(g_free);
  CaseSummary all = validation_summary(v, NULL);
  g_autofree char *naive = validation_naive_text(&all);
  g_autofree char *summary = g_strdup_printf("%d runs: mean error %.1f %%, median %.1f %%, bias %+.1f %%%s", all.count,
                                             all.mape_pct, all.median_ape_pct, all.bias_pct, naive);

  if (!plot_folder(folder, error) || !picture_init(&p, "scatter", "scatter", error))
    return FALSE;
  if (write_points(v, data, titles) == 0)
    return runtime_error(error, "plots: no run was simulated: nothing to draw");
  picture_set_text(&p, "summary", summary);
  picture_set_texts(&p, "title", (char *const *)titles->pdata, titles->len);
  return picture_write(&p, "scatter.dat", data, error) && picture_draw(&p, &(PicturesTo) { .folder = folder }, error);
}
