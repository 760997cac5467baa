/* Several steps on one time axis: a panel a plan. */
#include "report/compare.h"

#include "base/units.h"
#include "report/plots.h"
#include "report/timeline_panel.h"

#include <string.h>

#define TOP 56
#define TITLE_PIXELS 31 /* above a panel's rows, of one line */
#define TITLE_LETTER 6.8 /* pixels of a letter of a title and of a label, about */
#define LABEL_LETTER 5.6
#define ROWS_MAX 64     /* of all panels */

static double longest_s(const Compared *plans, int n)
{
  double end = 0;

  for (int i = 0; i < n; i++)
    end = MAX(end, plans[i].trace->end_s);
  return end;
}

/* "a.json: 141 s a step (1.02 ×), MFU 60.1 %, bubble 2.9 %, peak 48.2 GiB" */
static char *panel_title(const Compared *plan, const Compared *first)
{
  const Metrics *m = &plan->result->metrics;
  g_autofree char *name = g_path_get_basename(plan->name);
  g_autofree char *step = format_seconds(m->iteration_s), *peak = format_bytes(m->peak_memory_bytes);

  return g_strdup_printf("%s: %s a step (%.3f ×), MFU %.1f %%, bubble %.1f %%, peak memory %s%s", name, step,
                         m->iteration_s / first->result->metrics.iteration_s, 100 * plan->result->mfu,
                         100 * m->bubble_fraction, peak, plan->result->fits ? "" : ", too much");
}

static char *panel_label(const Panel *p)
{
  g_autofree char *label = plan_label(p->result->plan);

  if (p->n_rows < p->trace->n_rows)
    return g_strdup_printf("%s · %d of %d stages shown", label, p->n_rows, p->trace->n_rows);
  return g_steal_pointer(&label);
}

/* The label stands at the right if there is room, else below; returns where rows begin. */
static double write_titles(TimelinePicture *t, const Panel *p, const char *title, double y)
{
  double width = TIMELINE_WIDTH - TIMELINE_LEFT - TIMELINE_RIGHT;
  g_autofree char *label = panel_label(p);
  gboolean room = TITLE_LETTER * g_utf8_strlen(title, -1) + LABEL_LETTER * g_utf8_strlen(label, -1) < width;

  timeline_text(t, TIMELINE_LEFT, y + 20, FALSE, 11, p->result->fits ? TIMELINE_INK : TIMELINE_ALARM, title);
  if (room) {
    timeline_text(t, TIMELINE_LEFT + width, y + 20, TRUE, 9, TIMELINE_SOFT, label);
    return y + TITLE_PIXELS;
  }
  g_auto(GStrv) lines = plot_lines(label, width / LABEL_LETTER);
  for (int i = 0; lines[i]; i++)
    timeline_text(t, TIMELINE_LEFT, y + 20 + PLOT_LINE_PIXELS * (i + 1), FALSE, 9, TIMELINE_SOFT, lines[i]);
  return y + TITLE_PIXELS + PLOT_LINE_PIXELS * g_strv_length(lines);
}

/* The panels' colours, the same pass in the same hue in all. */
static TimelineColors join_colors(Panel *panels, int n)
{
  TimelineColors all = panels[0].colors;

  for (int i = 1; i < n; i++)
    timeline_colors_join(&all, &panels[i].colors);
  for (int i = 0; i < n; i++)
    memcpy(panels[i].colors.passes, all.passes, sizeof all.passes);
  return all;
}

static gboolean draw(TimelinePicture *t, Panel *panels, const Compared *plans, int n, const char *folder,
                     GError **error)
{
  const Result *first = plans[0].result;
  TimelineColors colors = join_colors(panels, n);
  double y = TOP;
  int rows = 0;

  for (int i = 0; i < n; i++)
    rows += panels[i].n_rows;
  if (!panel_has_strips(rows))
    timeline_colors_compute_only(&colors);
  for (int i = 0; i < n; i++) {
    g_autofree char *title = panel_title(&plans[i], &plans[0]);
    y = panel_draw(&panels[i], t, write_titles(t, &panels[i], title, y), rows);
  }
  g_autofree char *devices = result_devices_text(first, FALSE);
  g_autofree char *headline = g_strdup_printf("%s on %s: %d plans on one time axis", first->model->name, devices, n);
  timeline_text(t, TIMELINE_LEFT, 24, FALSE, 14, TIMELINE_INK, headline);
  panel_headings(t, TOP + 20, TRUE);
  return timeline_picture_draw(t, "compare", y, &colors, &(PicturesTo) { .folder = folder }, error);
}

gboolean report_compare_plot(const Compared *plans, int n, const char *folder, GError **error)
{
  g_autofree Panel *panels = g_new0(Panel, n);

  if (!plot_folder(folder, error))
    return FALSE;
  g_auto(TimelinePicture) t;
  timeline_picture_init(&t, longest_s(plans, n), FALSE, TOP);
  for (int i = 0; i < n; i++)
    panel_init(&panels[i], plans[i].result, plans[i].trace, plans[i].trace, MAX(ROWS_MAX / n, 8));
  gboolean ok = draw(&t, panels, plans, n, folder, error);
  for (int i = 0; i < n; i++)
    panel_clear(&panels[i]);
  return ok;
}
