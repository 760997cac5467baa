/* The step as boxes: a row a pipeline stage, communication as strips below it. */
#include "report/plots.h"

#include "base/units.h"
#include "report/timeline_panel.h"

#define TOP 84
#define LINE_LETTERS 220 /* of what stands below the title, up to the sheet's edge */

/* What is drawn, and what is not as usual. */
static char *subtitle(const Panel *p, const char *label)
{
  GString *text = g_string_new(label);

  if (p->n_rows < p->trace->n_rows)
    g_string_append_printf(text, " · %d of %d stages shown", p->n_rows, p->trace->n_rows);
  if (p->trace != p->whole) {
    g_autofree char *shown = format_seconds(p->trace->end_s);
    g_string_append_printf(text, " · the first %s", shown);
  }
  if (p->shared)
    g_string_append(text, " · too many passes for boxes: heights are shares of time");
  return g_string_free(text, FALSE);
}

static gboolean draw(Panel *panel, const char *name, const char *title, const char *below, const PicturesTo *to,
                     GError **error)
{
  g_auto(TimelinePicture) t;
  g_auto(GStrv) lines = plot_lines(below, LINE_LETTERS);
  double top = TOP + PLOT_LINE_PIXELS * (g_strv_length(lines) - 1);

  timeline_picture_init(&t, panel->trace->end_s, panel->trace->unitless, top);
  double bottom = panel_draw(panel, &t, top, panel->n_rows);
  timeline_text(&t, TIMELINE_LEFT, 24, FALSE, 14, TIMELINE_INK, title);
  for (int i = 0; lines[i]; i++)
    timeline_text(&t, TIMELINE_LEFT, 47 + PLOT_LINE_PIXELS * i, FALSE, 10, TIMELINE_SOFT, lines[i]);
  panel_headings(&t, top - 10, panel->result != NULL);
  return timeline_picture_draw(&t, name, bottom, &panel->colors, to, error);
}

static gboolean plot(const Result *result, const Trace *trace, const Trace *whole, const char *name,
                     const PicturesTo *to, GError **error)
{
  g_auto(Panel) panel;

  panel_init(&panel, result, trace, whole, TIMELINE_ROWS_MAX);
  g_autofree char *title = plot_title(result), *label = plan_label(result->plan), *below = subtitle(&panel, label);
  return draw(&panel, name, title, below, to, error);
}

gboolean plot_timeline(const Result *result, const Trace *trace, const PicturesTo *to, GError **error)
{
  return plot(result, trace, trace, "timeline", to, error);
}

gboolean plot_schedule(const Trace *trace, const char *title, const char *says, const PicturesTo *to, GError **error)
{
  g_auto(Panel) panel;

  panel_init(&panel, NULL, trace, trace, TIMELINE_ROWS_MAX);
  g_autofree char *below = subtitle(&panel, says);
  return draw(&panel, "timeline", title, below, to, error);
}

/* When the first row has run as many passes as still get numbers; 0 if it never has more. */
static double start_of_too_many(const Trace *trace)
{
  int passes = 0;

  for (guint i = 0; i < trace->spans->len; i++) {
    const Span *s = &g_array_index(trace->spans, Span, i);
    if (s->row == 0 && s->lane == LANE_COMPUTE && s->kind == TASK_PASS && ++passes == TIMELINE_NUMBERED_MAX)
      return s->start;
  }
  return 0;
}

/* The spans that begin before a moment; rows are the trace's own. */
static Trace clip(const Trace *trace, double end_s)
{
  Trace part = *trace;

  part.spans = g_array_new(FALSE, FALSE, sizeof(Span));
  part.end_s = end_s;
  part.step_s = 0;
  for (guint i = 0; i < trace->spans->len; i++) {
    Span s = g_array_index(trace->spans, Span, i);
    s.end = MIN(s.end, end_s);
    if (s.start < end_s)
      g_array_append_val(part.spans, s);
  }
  return part;
}

gboolean plot_timeline_start(const Result *result, const Trace *trace, const PicturesTo *to, GError **error)
{
  double end_s = start_of_too_many(trace);

  if (end_s <= 0)
    return TRUE;
  Trace part = clip(trace, end_s);
  g_autoptr(GArray) spans G_GNUC_UNUSED = part.spans;
  return plot(result, &part, trace, "timeline-start", to, error);
}
