#include "report/timeline_panel.h"

#include "base/units.h"
#include "report/timeline_shares.h"

#include <string.h>

#define BOXES_MAX 9600 /* compute boxes of a picture, about */
#define GAP_PIXELS 1   /* between neighbours that are wide enough */
#define STRIPS_MIN 24  /* pixels of a row that still shows communication */

static double row_pixels(int rows)
{
  return rows <= 4 ? 84 : rows <= 8 ? 62 : rows <= 16 ? 42 : rows <= 32 ? 27 : 22;
}

gboolean panel_has_strips(int rows)
{
  return row_pixels(rows) >= STRIPS_MIN;
}

static const GArray *lane_at(const Panel *p, int place, int lane)
{
  return boxes_lane(&p->boxes, p->rows[place], lane);
}

/* ---- what is shown ---- */

int *panel_rows(const Trace *trace, int fullest, int most, int *shown)
{
  int rows = trace->n_rows, n = MIN(rows, most);
  int *chosen = g_new(int, n);

  for (int i = 0; i < n; i++)
    chosen[i] = n == rows ? i : (int)((gint64)i * (rows - 1) / (n - 1));
  for (int i = 1; i < n; i++)
    if (chosen[i - 1] < fullest && fullest < chosen[i])
      chosen[i == n - 1 ? i - 1 : i] = fullest;
  *shown = n;
  return chosen;
}

void panel_init(Panel *p, const Result *result, const Trace *trace, const Trace *whole, int most_rows)
{
  *p = (Panel) { .result = result, .trace = trace, .whole = whole, .bubbles = trace_bubbles(whole) };
  timeline_colors_init(&p->colors, trace);
  p->rows = panel_rows(trace, result ? result->metrics.peak_row : 0, MAX(most_rows, 2), &p->n_rows);
}

void panel_clear(Panel *p)
{
  if (p->boxes.lanes)
    boxes_clear(&p->boxes);
  g_free(p->rows);
  g_free(p->bubbles);
}

static gboolean lane_used(const Panel *p, int lane)
{
  for (int i = 0; i < p->n_rows; i++)
    if (lane_at(p, i, lane)->len > 0)
      return TRUE;
  return FALSE;
}

/* Computation fills the row but for a thin strip for each other lane in use. */
static void lay_strips(Panel *p)
{
  const double strip = 0.13, gap = 0.05, margin = 0.06;
  double bottom = 1 - margin;

  for (int lane = LANE_COUNT - 1; lane > LANE_COMPUTE && p->row_pixels >= STRIPS_MIN; lane--) {
    if (!lane_used(p, lane))
      continue;
    p->strips[lane] = (Strip) { bottom - strip, strip };
    bottom -= strip + gap;
  }
  p->strips[LANE_COMPUTE] = (Strip) { margin, bottom - margin };
}

/* ---- boxes ---- */

static double lane_top(const Panel *p, int place, int lane)
{
  return p->top + (place + p->strips[lane].top) * p->row_pixels;
}

static double lane_height(const Panel *p, int lane)
{
  return p->strips[lane].height * p->row_pixels;
}

/* The passes of a pair share a box's height, the forward above. */
static void draw_passes(const Panel *p, TimelinePicture *t, int place, const Box *box, double to, gboolean numbered)
{
  double height = lane_height(p, LANE_COMPUTE) / box->n_passes;
  gboolean turn = box->n_passes == 2 && box->passes[1].pass == PASS_FORWARD;

  for (int i = 0; i < box->n_passes; i++) {
    const BoxPass *pass = &box->passes[turn ? 1 - i : i];
    double top = lane_top(p, place, LANE_COMPUTE) + i * height;
    guint32 rgb = timeline_pass_color(&p->colors, pass);
    timeline_box(t, box->start, to, top, height, rgb);
    if (numbered)
      timeline_number(t, box->start, box->end, top, height, pass->micro, rgb);
  }
}

static int count_passes(const GArray *boxes)
{
  int n = 0;

  for (guint i = 0; i < boxes->len; i++)
    n += g_array_index(boxes, Box, i).n_passes;
  return n;
}

/* Every one of few, at least a pixel wide. */
static void draw_boxes(const Panel *p, TimelinePicture *t, int place, int lane, const GArray *boxes)
{
  gboolean numbered = count_passes(boxes) <= TIMELINE_NUMBERED_MAX;

  for (guint i = 0; i < boxes->len; i++) {
    const Box *box = &g_array_index(boxes, Box, i);
    double gap = box->end - box->start >= 5 * t->pixel_s ? GAP_PIXELS * t->pixel_s : 0;
    double to = MAX(box->end - gap, box->start + t->pixel_s);
    if (box->n_passes > 0)
      draw_passes(p, t, place, box, to, numbered);
    else
      timeline_box(t, box->start, to, lane_top(p, place, lane), lane_height(p, lane), timeline_kind_color(box->kind));
  }
}

/* Too many to see: time is cut into bins, and in each the height of a colour is
 * its share of the time. */
static void draw_shares(const Panel *p, TimelinePicture *t, int place, int lane, const GArray *boxes, int n_bins)
{
  double bin_s = p->trace->end_s / n_bins, level = lane_height(p, lane) / SHARE_LEVELS;
  int least = lane == LANE_COMPUTE ? 1 : SHARE_LEVELS / 4;
  g_autofree Shares *bins = shares_new(&p->colors, boxes, bin_s, n_bins, least);

  for (int i = 0, end; i < n_bins; i = end) {
    int used = 0;
    for (end = i + 1; end < n_bins && memcmp(&bins[i], &bins[end], sizeof *bins) == 0;)
      end++;
    for (int kind = 0; kind < SHARE_KINDS; kind++) {
      int levels = MIN(bins[i].levels[kind], SHARE_LEVELS - used);
      if (levels > 0)
        timeline_box(t, i * bin_s, end * bin_s, lane_top(p, place, lane) + used * level, levels * level,
                     bins[i].rgb[kind]);
      used += levels;
    }
  }
}

/* What lies behind the boxes. */
static void draw_ground(const Panel *p, TimelinePicture *t, int place, int lane)
{
  double end = p->trace->end_s, top = lane_top(p, place, lane), height = lane_height(p, lane);

  timeline_box(t, 0, end, top, height, lane == LANE_COMPUTE ? TIMELINE_IDLE : TIMELINE_UNUSED);
  if (lane == LANE_COMPUTE && p->colors.fixed)
    timeline_box(t, end - p->trace->step_s, end, top, height, TIMELINE_FIXED);
}

static void draw_lane(Panel *p, TimelinePicture *t, int place, int lane)
{
  const GArray *boxes = lane_at(p, place, lane);

  if (p->strips[lane].height == 0)
    return;
  draw_ground(p, t, place, lane);
  if ((int)boxes->len <= p->bins) {
    draw_boxes(p, t, place, lane, boxes);
  } else {
    draw_shares(p, t, place, lane, boxes, lane == LANE_COMPUTE ? p->bins : MAX(p->bins / 2, 1));
    p->shared |= lane == LANE_COMPUTE;
  }
}

/* ---- what stands beside the rows ---- */

#define BUBBLE_X (TIMELINE_WIDTH - TIMELINE_RIGHT + 58)
#define PEAK_X (TIMELINE_WIDTH - 16)

void panel_headings(TimelinePicture *t, double y, gboolean memory)
{
  timeline_text(t, BUBBLE_X, y, TRUE, 10, TIMELINE_SOFT, "idle");
  if (memory)
    timeline_text(t, PEAK_X, y, TRUE, 10, TIMELINE_SOFT, "peak memory");
}

static void write_row(const Panel *p, TimelinePicture *t, int place)
{
  int row = p->rows[place], size = p->row_pixels >= STRIPS_MIN ? 10 : 9;
  double bytes[PART_COUNT], peak = trace_row_peak(p->whole, row, bytes);
  double y = lane_top(p, place, LANE_COMPUTE) + lane_height(p, LANE_COMPUTE) / 2;
  g_autofree char *name = g_strdup_printf("stage %d", row), *memory = format_bytes(peak);
  g_autofree char *idle = g_strdup_printf("%.1f %%", 100 * p->bubbles[row]);
  gboolean full = peak > p->whole->rows[row].capacity_bytes;

  timeline_text(t, TIMELINE_LEFT - 10, y, TRUE, size, TIMELINE_INK, name);
  timeline_text(t, BUBBLE_X, y, TRUE, size, TIMELINE_INK, idle);
  if (p->result)
    timeline_text(t, PEAK_X, y, TRUE, size, full ? TIMELINE_ALARM : TIMELINE_INK, memory);
}

double panel_draw(Panel *p, TimelinePicture *t, double top, int rows_in_all)
{
  int pixels = p->trace->end_s / t->pixel_s;

  p->top = top;
  p->row_pixels = row_pixels(rows_in_all);
  p->bins = MAX(CLAMP(BOXES_MAX / rows_in_all, 100, pixels / 2), 1);
  boxes_init(&p->boxes, p->trace, t->pixel_s / 2);
  lay_strips(p);
  for (int place = 0; place < p->n_rows; place++) {
    for (int lane = 0; lane < LANE_COUNT; lane++)
      draw_lane(p, t, place, lane);
    write_row(p, t, place);
  }
  return top + p->n_rows * p->row_pixels;
}
