/* The step as boxes: a row a pipeline stage, communication as strips below it. */
#include "report/plots.h"

#include "base/error.h"
#include "base/units.h"
#include "report/boxes.h"
#include "report/gnuplot.h"
#include "report/timeline_colors.h"
#include "report/timeline_shares.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

#define WIDTH 1400 /* pixels of the picture, at single scale */
#define LEFT 76
#define RIGHT 166
#define TOP 84
#define BOTTOM 84
#define ROWS_MAX 32
#define NUMBERED_MAX 64   /* compute boxes of a row that still get numbers */
#define BOXES_MAX 9600   /* compute boxes of the picture, about */
#define DIGIT_PIXELS 6.5
#define GAP_PIXELS 1      /* between neighbours that are wide enough */

typedef struct {
  double top, height; /* share of the row */
} Strip;

static const Strip whole = { 0, 1 };

typedef struct {
  const Result *result;
  const Trace *trace; /* what is drawn */
  const Trace *whole; /* the step that it is a part of */
  GString *boxes, *numbers;
  gboolean shared; /* some row's computation is drawn as shares of time */
  int *rows;       /* shown ones */
  int n_rows;
  Boxes lanes;
  Strip strips[LANE_COUNT];
  double unit_s;   /* of the time axis */
  double pixel_s;
  TimelineColors colors;
} Timeline;

static const GArray *lane_at(const Timeline *t, int place, int lane)
{
  return boxes_lane(&t->lanes, t->rows[place], lane);
}

/* ---- what is shown ---- */

/* All rows, or evenly some of them with the fullest among them. */
static void choose_rows(Timeline *t)
{
  int n = t->trace->n_rows, peak = t->result->metrics.peak_row;

  t->n_rows = MIN(n, ROWS_MAX);
  t->rows = g_new(int, t->n_rows);
  for (int i = 0; i < t->n_rows; i++)
    t->rows[i] = t->n_rows == n ? i : (int)((gint64)i * (n - 1) / (t->n_rows - 1));
  for (int i = 1; i < t->n_rows; i++)
    if (t->rows[i - 1] < peak && peak < t->rows[i])
      t->rows[i == t->n_rows - 1 ? i - 1 : i] = peak;
}

/* Computation fills the row but for a thin strip for each other lane in use. */
static void lay_strips(Timeline *t)
{
  const double strip = 0.13, gap = 0.05, margin = 0.06;
  double bottom = 1 - margin;

  for (int lane = LANE_COUNT - 1; lane > LANE_COMPUTE; lane--) {
    gboolean used = FALSE;
    for (int i = 0; i < t->n_rows; i++)
      used |= lane_at(t, i, lane)->len > 0;
    if (!used)
      continue;
    t->strips[lane] = (Strip) { bottom - strip, strip };
    bottom -= strip + gap;
  }
  t->strips[LANE_COMPUTE] = (Strip) { margin, bottom - margin };
}

/* ---- boxes ---- */

/* A part of a lane's height: from `top` on, shares of the strip. */
static void put_box(Timeline *t, int place, int lane, double from, double to, Strip part, guint32 rgb)
{
  const Strip *s = &t->strips[lane];
  double top = place + s->top + part.top * s->height;

  g_string_append_printf(t->boxes, "%.7g %.7g %.6g %.6g %u\n", from / t->unit_s, to / t->unit_s, top,
                         top + part.height * s->height, rgb);
}

static void put_number(Timeline *t, int place, const Span *s, guint32 rgb)
{
  const Strip *strip = &t->strips[LANE_COMPUTE];
  g_autofree char *digits = g_strdup_printf("%u", s->micro);

  if (s->kind == TASK_PASS && (s->end - s->start) / t->pixel_s >= strlen(digits) * DIGIT_PIXELS + 3)
    g_string_append_printf(t->numbers, "%.7g %.6g %s %u\n", (s->start + s->end) / 2 / t->unit_s,
                           place + strip->top + strip->height / 2, digits, timeline_ink(rgb));
}

/* Every one of few, at least a pixel wide. */
static void draw_boxes(Timeline *t, int place, int lane, const GArray *boxes)
{
  gboolean numbered = lane == LANE_COMPUTE && boxes->len <= NUMBERED_MAX;

  for (guint i = 0; i < boxes->len; i++) {
    const Span *s = &g_array_index(boxes, Span, i);
    double gap = s->end - s->start >= 5 * t->pixel_s ? GAP_PIXELS * t->pixel_s : 0;
    guint32 rgb = timeline_color(&t->colors, s);
    put_box(t, place, lane, s->start, MAX(s->end - gap, s->start + t->pixel_s), whole, rgb);
    if (numbered)
      put_number(t, place, s, rgb);
  }
}

/* Too many to see: time is cut into bins, and in each the height of a colour is
 * its share of the time. */
static void draw_shares(Timeline *t, int place, int lane, const GArray *boxes, int n_bins)
{
  double bin_s = t->trace->end_s / n_bins;
  int least = lane == LANE_COMPUTE ? 1 : SHARE_LEVELS / 4;
  g_autofree Shares *bins = shares_new(&t->colors, boxes, bin_s, n_bins, least);

  for (int i = 0, end; i < n_bins; i = end) {
    int used = 0;
    for (end = i + 1; end < n_bins && memcmp(&bins[i], &bins[end], sizeof *bins) == 0;)
      end++;
    for (int kind = 0; kind < SHARE_KINDS; kind++) {
      int levels = MIN(bins[i].levels[kind], SHARE_LEVELS - used);
      if (levels > 0)
        put_box(t, place, lane, i * bin_s, end * bin_s,
                (Strip) { (double)used / SHARE_LEVELS, (double)levels / SHARE_LEVELS }, bins[i].rgb[kind]);
      used += levels;
    }
  }
}

/* What lies behind the boxes. */
static void draw_ground(Timeline *t, int place, int lane)
{
  double end = t->trace->end_s;

  put_box(t, place, lane, 0, end, whole, lane == LANE_COMPUTE ? TIMELINE_IDLE : TIMELINE_UNUSED);
  if (lane == LANE_COMPUTE && t->colors.fixed)
    put_box(t, place, lane, end - t->trace->step_s, end, whole, TIMELINE_FIXED);
}

static void draw_lane(Timeline *t, int place, int lane)
{
  const GArray *boxes = lane_at(t, place, lane);
  int pixels = t->trace->end_s / t->pixel_s;
  int n_bins = CLAMP(BOXES_MAX / t->n_rows, 100, pixels / 2);

  if (t->strips[lane].height == 0)
    return;
  draw_ground(t, place, lane);
  if ((int)boxes->len <= n_bins) {
    draw_boxes(t, place, lane, boxes);
  } else {
    draw_shares(t, place, lane, boxes, lane == LANE_COMPUTE ? n_bins : n_bins / 2);
    t->shared |= lane == LANE_COMPUTE;
  }
}

/* ---- the picture ---- */

static int row_pixels(int n_rows)
{
  return n_rows <= 4 ? 84 : n_rows <= 8 ? 62 : n_rows <= 16 ? 42 : 27;
}

/* The plan, and what is not as usual. */
static char *subtitle(const Timeline *t)
{
  GString *text = g_string_new(NULL);
  g_autofree char *label = plan_label(&t->result->plan);

  g_string_append(text, label);
  if (t->n_rows < t->trace->n_rows)
    g_string_append_printf(text, " · %d of %d stages shown", t->n_rows, t->trace->n_rows);
  if (t->trace != t->whole) {
    g_autofree char *shown = format_seconds(t->trace->end_s);
    g_string_append_printf(text, " · the first %s", shown);
  }
  if (t->shared)
    g_string_append(text, " · too many passes for boxes: heights are shares of time");
  return g_string_free(text, FALSE);
}

static void set_frame(const Timeline *t, Picture *p)
{
  const char *unit;
  g_autofree char *title = plot_title(t->result), *below = subtitle(t);

  plot_time_unit(t->trace->end_s, &unit);
  picture_set_real(p, "width", WIDTH);
  picture_set_real(p, "height", TOP + BOTTOM + t->n_rows * row_pixels(t->n_rows));
  picture_set_real(p, "left", LEFT);
  picture_set_real(p, "right", RIGHT);
  picture_set_real(p, "top", TOP);
  picture_set_real(p, "bottom", BOTTOM);
  picture_set_real(p, "end", t->trace->end_s / t->unit_s);
  picture_set_text(p, "unit", unit);
  picture_set_text(p, "headline", title);
  picture_set_text(p, "subtitle", below);
}

/* Labels left and right of the rows. */
static void set_rows(const Timeline *t, Picture *p)
{
  g_auto(GStrv) names = g_new0(char *, t->n_rows + 1), bubbles = g_new0(char *, t->n_rows + 1),
                peaks = g_new0(char *, t->n_rows + 1);
  g_autofree double *full = g_new0(double, t->n_rows);

  for (int i = 0; i < t->n_rows; i++) {
    double bytes[PART_COUNT], peak = trace_row_peak(t->whole, t->rows[i], bytes);
    names[i] = g_strdup_printf("stage %d", t->rows[i]);
    bubbles[i] = g_strdup_printf("%.1f %%", 100 * trace_row_bubble(t->whole, t->rows[i]));
    peaks[i] = format_bytes(peak);
    full[i] = peak > t->result->cluster->device.memory_bytes;
  }
  picture_set_real(p, "rows", t->n_rows);
  picture_set_real(p, "row_middle", t->strips[LANE_COMPUTE].top + t->strips[LANE_COMPUTE].height / 2);
  picture_set_texts(p, "row_name", names, t->n_rows);
  picture_set_texts(p, "row_bubble", bubbles, t->n_rows);
  picture_set_texts(p, "row_peak", peaks, t->n_rows);
  picture_set_reals(p, "row_too_full", full, t->n_rows);
}

static void set_legend(const Timeline *t, Picture *p)
{
  g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
  g_autoptr(GArray) colors = g_array_new(FALSE, FALSE, sizeof(double));

  timeline_legend(&t->colors, names, colors);
  picture_set_real(p, "entries", names->len);
  picture_set_texts(p, "entry_name", (char **)names->pdata, names->len);
  picture_set_reals(p, "entry_color", (double *)colors->data, colors->len);
}

static void timeline_init(Timeline *t, const Result *result, const Trace *trace, const Trace *whole_step)
{
  const char *unit;

  *t = (Timeline) { .result = result, .trace = trace, .whole = whole_step, .boxes = g_string_new(NULL), .numbers = g_string_new(NULL) };
  t->unit_s = plot_time_unit(trace->end_s, &unit);
  t->pixel_s = trace->end_s / (WIDTH - LEFT - RIGHT);
  timeline_colors_init(&t->colors, trace);
  choose_rows(t);
  boxes_init(&t->lanes, trace, t->pixel_s / 2);
  lay_strips(t);
}

static void timeline_clear(Timeline *t)
{
  boxes_clear(&t->lanes);
  g_free(t->rows);
  g_string_free(t->boxes, TRUE);
  g_string_free(t->numbers, TRUE);
}

static gboolean draw(Timeline *t, Picture *p, const char *folder, GError **error)
{
  for (int place = 0; place < t->n_rows; place++)
    for (int lane = 0; lane < LANE_COUNT; lane++)
      draw_lane(t, place, lane);
  set_frame(t, p);
  set_rows(t, p);
  set_legend(t, p);
  return picture_write(p, "boxes.dat", t->boxes, error) && picture_write(p, "numbers.dat", t->numbers, error) &&
         picture_draw(p, folder, error);
}

static gboolean plot(const Result *result, const Trace *trace, const Trace *whole_step, const char *folder, GError **error)
{
  Timeline t;
  Picture picture;
  gboolean ok;

  if (!picture_init(&picture, "timeline", error))
    return FALSE;
  timeline_init(&t, result, trace, whole_step);
  ok = draw(&t, &picture, folder, error);
  timeline_clear(&t);
  picture_clear(&picture);
  return ok;
}

gboolean plot_timeline(const Result *result, const Trace *trace, const char *folder, GError **error)
{
  return plot(result, trace, trace, folder, error);
}

/* When the first row has run as many passes as still get numbers; 0 if it never has more. */
static double start_of_too_many(const Trace *trace)
{
  int passes = 0;

  for (guint i = 0; i < trace->spans->len; i++) {
    const Span *s = &g_array_index(trace->spans, Span, i);
    if (s->row == 0 && s->lane == LANE_COMPUTE && ++passes == NUMBERED_MAX)
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

/* Pictures are drawn under the script's name and then take their own. */
static gboolean take_name(const char *from, const char *to, GError **error)
{
  static const char *const endings[] = { "svg", "png" };

  for (gsize i = 0; i < G_N_ELEMENTS(endings); i++) {
    g_autofree char *drawn = g_strdup_printf("%s/timeline.%s", from, endings[i]);
    g_autofree char *named = g_strdup_printf("%s/timeline-start.%s", to, endings[i]);
    if (g_rename(drawn, named) != 0) {
      g_set_error(error, TDP_ERROR, TDP_ERROR_RUNTIME, "%s: cannot write: %s", named, g_strerror(errno));
      return FALSE;
    }
  }
  return TRUE;
}

gboolean plot_timeline_start(const Result *result, const Trace *trace, const char *folder, GError **error)
{
  double end_s = start_of_too_many(trace);
  g_autofree char *work = g_build_filename(folder, "timeline-start.tmp", NULL);

  if (end_s <= 0)
    return TRUE;
  if (g_mkdir_with_parents(work, 0777) != 0) {
    g_set_error(error, TDP_ERROR, TDP_ERROR_RUNTIME, "%s: cannot make this folder: %s", work, g_strerror(errno));
    return FALSE;
  }
  Trace part = clip(trace, end_s);
  gboolean ok = plot(result, &part, trace, work, error) && take_name(work, folder, error);
  g_array_unref(part.spans);
  g_rmdir(work);
  return ok;
}
