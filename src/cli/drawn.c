#include "cli/drawn.h"

#include "base/error.h"
#include "cli/pixels.h"
#include "cli/say.h"

#include <glib/gstdio.h>
#include <stdio.h>

#define COLUMNS_USUAL 120 /* where stdout is no terminal */

gboolean drawn_asked(const char *plots)
{
  return plots && g_str_equal(plots, "-");
}

gboolean drawn_check(const char *plots, gboolean json, GError **error)
{
  if (!json || !drawn_asked(plots))
    return TRUE;
  return input_error(error, "--plots: -: expected a folder beside --json");
}

/* ---- pixels ---- */

/* What is drawn: a step, or a schedule where there is no result. */
typedef struct {
  const Result *result;
  const Trace *trace;
  const char *title, *says;
} Subject;

static const char *const names[] = { "timeline", "timeline-start", "memory" };

/* Shows those of the pictures that there are and removes them. */
static gboolean show(Pixels kind, const char *folder)
{
  gboolean shown = FALSE;

  for (gsize i = 0; i < G_N_ELEMENTS(names); i++) {
    g_autofree char *picture = g_strconcat(folder, "/", names[i], kind == PIXELS_KITTY ? ".png" : ".six", NULL);
    g_autofree char *drawing = g_strconcat(folder, "/", names[i], ".svg", NULL);
    if (g_file_test(picture, G_FILE_TEST_EXISTS))
      shown |= pixels_show(kind, picture, NULL);
    g_remove(picture);
    g_remove(drawing);
  }
  return shown;
}

/* Whether the terminal shows it in pixels now; where gnuplot is missing or fails it does not. */
static gboolean in_pixels(const Subject *s)
{
  Pixels kind = pixels_offered();
  g_autofree char *folder = kind == PIXELS_NONE ? NULL : g_dir_make_tmp("tdp-drawn-XXXXXX", NULL);
  int across = kind == PIXELS_SIXEL ? pixels_across() : 0;

  if (!folder)
    return FALSE;
  if (s->result)
    report_plots(s->result, s->trace, folder, across, NULL);
  else
    report_schedule_plot(s->trace, s->title, s->says, folder, across, NULL);
  gboolean shown = show(kind, folder);
  g_rmdir(folder);
  return shown;
}

/* ---- letters and blocks ---- */

void drawn_timeline(const Trace *trace)
{
  g_autofree char *text = report_timeline(trace, say_columns(COLUMNS_USUAL), say_colored());
  printf("%s", text);
}

static void draw_memory(const Result *r, const Trace *trace)
{
  g_autofree char *text = report_memory_drawn(r, trace, say_columns(COLUMNS_USUAL), say_colored());
  printf("\nmemory of stage %d over the step\n%s", r->metrics.peak_row, text);
}

void drawn_step(const Result *result, const Trace *trace)
{
  const Subject s = { .result = result, .trace = trace };

  if (in_pixels(&s))
    return;
  drawn_timeline(trace);
  draw_memory(result, trace);
}

void drawn_answer(const Answer *answer)
{
  g_autofree char *text = report_answer_drawn(answer, say_columns(COLUMNS_USUAL), say_colored());

  if (text)
    printf("\n%s", text);
  else
    g_printerr("%s: note: --plots: this answer has no picture\n", g_get_prgname());
}

void drawn_schedule(const Trace *trace, const char *title, const char *says)
{
  const Subject s = { .trace = trace, .title = title, .says = says };

  if (!in_pixels(&s))
    drawn_timeline(trace);
}
