#include "report/plots.h"

#include "base/error.h"
#include "base/units.h"

#include <errno.h>

double plot_time_unit(double end_s, const char **name)
{
  *name = end_s >= 2 ? "s" : end_s >= 2e-3 ? "ms" : "µs";
  return end_s >= 2 ? 1 : end_s >= 2e-3 ? 1e-3 : 1e-6;
}

char *plot_title(const Result *r)
{
  g_autofree char *step = format_seconds(r->metrics.iteration_s), *devices = result_devices_text(r, TRUE);
  return g_strdup_printf("%s on %s: %s a step", r->model->name, devices, step);
}

/* Where the line at `text` ends, all of which is longer: the last good place within its letters, else the last space. */
static const char *line_end(const char *text, int letters)
{
  const char *comma = NULL, *space = NULL, *c = text;

  for (int i = 0; *c && (i <= letters || !space); i++, c = g_utf8_next_char(c))
    if (*c == ' ' && c > text) {
      space = c;
      if (c[-1] == ',' || g_str_has_prefix(c + 1, "·"))
        comma = c;
    }
  return comma ? comma : space ? space : c;
}

char **plot_lines(const char *text, int letters)
{
  g_autoptr(GStrvBuilder) lines = g_strv_builder_new();

  while (g_utf8_strlen(text, -1) > letters) {
    const char *end = line_end(text, letters);
    g_autofree char *line = g_strndup(text, end - text);
    if (!*end)
      break;
    g_strv_builder_add(lines, line);
    text = end + 1;
  }
  g_strv_builder_add(lines, text);
  return g_strv_builder_end(lines);
}

gboolean plot_folder(const char *folder, GError **error)
{
  if (g_str_equal(folder, "-"))
    return input_error(error, "--plots: -: expected a folder; letters draw one plan alone");
  if (g_mkdir_with_parents(folder, 0777) == 0)
    return TRUE;
  return runtime_error(error, "%s: cannot make this folder: %s", folder, g_strerror(errno));
}

gboolean report_plots(const Result *result, const Trace *trace, const char *folder, int pixels, GError **error)
{
  const PicturesTo to = { folder, pixels };

  return plot_folder(folder, error) && plot_timeline(result, trace, &to, error) &&
         plot_timeline_start(result, trace, &to, error) && plot_memory(result, trace, &to, error);
}

gboolean report_schedule_plot(const Trace *trace, const char *title, const char *says, const char *folder, int pixels,
                              GError **error)
{
  const PicturesTo to = { folder, pixels };

  return plot_folder(folder, error) && plot_schedule(trace, title, says, &to, error);
}
