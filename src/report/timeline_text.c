/* The step drawn with letters, a line a row. A pass that fills some cells has its
 * label there; of shorter ones a cell shows the kind that fills most of it. */
#include "report/report.h"

#include "base/units.h"
#include "report/boxes.h"
#include "report/timeline_colors.h"

#include <math.h>
#include <string.h>

#define IDLE_LETTER '.'
#define PAIR_LETTER '#' /* fills two passes that overlap */
#define LABEL_CELLS 2 /* that a box fills to be drawn as one */
#define CELLS_MIN 16 /* of the chart; narrower, what stands right of it goes first */

/* By pass, then by pass for chunks after the first, then the optimizer. */
static const char letters[] = "FBIWRSTfbiwrstO";
enum { LETTER_OPTIMIZER = 2 * PASS_COUNT, LETTER_COUNT };

typedef struct {
  const Trace *trace;
  GString *text;
  int label;       /* width of "stage 12" */
  int cells;       /* of the chart */
  double cell_s;
  double *bubbles; /* of each row, */
  char **peaks;    /* for people */
  gboolean right;  /* something stands there */
  int peak_width;  /* 0 = no peaks do */
  gboolean seen[LETTER_COUNT];
  gboolean pairs;  /* some box has two passes */
  TimelineColors colors;
  guint32 *rgb;    /* of each cell of a row, 0 = none; NULL: letters alone */
} Chart;

/* ---- cells ---- */

static int cell_of(const Chart *c, double time)
{
  return c->cell_s > 0 ? CLAMP((int)lround(time / c->cell_s), 0, c->cells) : 0;
}

static int letter_of(const BoxPass *pass)
{
  return pass->pass + (pass->chunk > 0 ? PASS_COUNT : 0);
}

/* "F12", or "fa12" for a chunk after the first. */
static void append_label(GString *text, const BoxPass *pass)
{
  g_string_append_c(text, letters[letter_of(pass)]);
  if (pass->chunk > 0)
    g_string_append_c(text, 'a' + (pass->chunk - 1) % 26);
  g_string_append_printf(text, "%u", pass->micro);
}

static void paint(Chart *c, int from, int to, guint32 rgb)
{
  for (int cell = from; c->rgb && cell < to; cell++)
    c->rgb[cell] = rgb;
}

/* As many of the passes' labels as there is room for, at least the first's letter. */
static void write_label(char *cell, int room, const BoxPass *passes, int n)
{
  g_autoptr(GString) label = g_string_new(NULL);

  for (int i = 0; i < n; i++) {
    gsize before = label->len;
    if (i > 0)
      g_string_append_c(label, '&');
    append_label(label, &passes[i]);
    if ((int)label->len > room)
      g_string_truncate(label, MAX(before, 1));
  }
  memcpy(cell, label->str, label->len);
}

static void draw_box(Chart *c, char *line, const Box *box)
{
  int from = cell_of(c, box->start), to = cell_of(c, box->end), n = box->n_passes;
  const BoxPass *passes = box->passes;

  if (n == 0) {
    memset(line + from, letters[LETTER_OPTIMIZER], to - from);
    paint(c, from, to, timeline_kind_color(TASK_OPTIMIZER));
    c->seen[LETTER_OPTIMIZER] = TRUE;
    return;
  }
  memset(line + from, n == 2 ? PAIR_LETTER : passes[0].pass == PASS_FORWARD ? '-' : '=', to - from);
  write_label(line + from, to - from, passes, n);
  paint(c, from, to, timeline_pass_color(&c->colors, &passes[0]));
  c->pairs |= n == 2;
  for (int i = 0; i < n; i++)
    c->seen[letter_of(&passes[i])] = TRUE;
}

/* Adds the cells' share of a short box. */
static void weigh_box(const Chart *c, double *weights, const Box *box)
{
  int first = MIN((int)(box->start / c->cell_s), c->cells - 1), last = MIN((int)(box->end / c->cell_s), c->cells - 1);

  for (int cell = first; cell <= last; cell++) {
    double share = (MIN(box->end, (cell + 1) * c->cell_s) - MAX(box->start, cell * c->cell_s)) / c->cell_s;
    double *of = weights + cell * LETTER_COUNT;
    for (int i = 0; i < box->n_passes; i++)
      of[letter_of(&box->passes[i])] += MAX(share, 0) / box->n_passes;
    if (box->n_passes == 0)
      of[LETTER_OPTIMIZER] += MAX(share, 0);
  }
}

static void draw_weights(Chart *c, char *line, const double *weights)
{
  for (int cell = 0; cell < c->cells; cell++) {
    const double *w = weights + cell * LETTER_COUNT;
    double busy = 0;
    int most = 0;
    for (int letter = 0; letter < LETTER_COUNT; letter++) {
      busy += w[letter];
      most = w[letter] > w[most] ? letter : most;
    }
    if (line[cell] != IDLE_LETTER || busy < 0.5)
      continue;
    const BoxPass pass = { most % PASS_COUNT, most / PASS_COUNT, 0 };
    line[cell] = letters[most];
    paint(c, cell, cell + 1, most == LETTER_OPTIMIZER ? timeline_kind_color(TASK_OPTIMIZER)
                                                      : timeline_pass_color(&c->colors, &pass));
    c->seen[most] = TRUE;
  }
}

static char *draw_row(Chart *c, const GArray *boxes)
{
  char *line = g_strnfill(c->cells, IDLE_LETTER);
  g_autofree double *weights = g_new0(double, c->cells * LETTER_COUNT);

  for (guint i = 0; i < boxes->len; i++) {
    const Box *box = &g_array_index(boxes, Box, i);
    if (cell_of(c, box->end) - cell_of(c, box->start) >= LABEL_CELLS)
      draw_box(c, line, box);
    else
      weigh_box(c, weights, box);
  }
  draw_weights(c, line, weights);
  return line;
}

/* Cells in the colours of what fills them. */
static void append_painted(GString *text, const char *line, const guint32 *rgb)
{
  for (int cell = 0; line[cell]; cell++) {
    guint32 ink = timeline_ink(rgb[cell]);
    if (rgb[cell] && (cell == 0 || rgb[cell] != rgb[cell - 1]))
      g_string_append_printf(text, "\033[48;2;%u;%u;%u;38;2;%u;%u;%um", rgb[cell] >> 16, rgb[cell] >> 8 & 255,
                             rgb[cell] & 255, ink >> 16, ink >> 8 & 255, ink & 255);
    g_string_append_c(text, line[cell]);
    if (rgb[cell] && rgb[cell + 1] != rgb[cell])
      g_string_append(text, "\033[0m");
  }
}

static void append_row(Chart *c, int row, const GArray *boxes)
{
  g_autofree char *label = g_strdup_printf("stage %d", row);

  if (c->rgb)
    memset(c->rgb, 0, c->cells * sizeof *c->rgb);
  g_autofree char *line = draw_row(c, boxes);
  g_string_append_printf(c->text, "%-*s |", c->label, label);
  if (c->rgb)
    append_painted(c->text, line, c->rgb);
  else
    g_string_append(c->text, line);
  g_string_append_c(c->text, '|');
  if (c->right)
    g_string_append_printf(c->text, " %5.1f %%", 100 * c->bubbles[row]);
  if (c->peak_width)
    g_string_append_printf(c->text, "  %*s", c->peak_width, c->peaks[row]);
  g_string_append_c(c->text, '\n');
}

static void append_rows(Chart *c)
{
  Boxes boxes;

  boxes_init(&boxes, c->trace, c->cell_s / 2);
  if (c->right)
    g_string_append_printf(c->text, "%*s  bubble%*s\n", c->label + c->cells + 3, "", c->peak_width ? c->peak_width + 2 : 0,
                           c->peak_width ? "peak" : "");
  for (int row = 0; row < c->trace->n_rows; row++)
    append_row(c, row, boxes_lane(&boxes, row, LANE_COMPUTE));
  boxes_clear(&boxes);
}

/* ---- axis ---- */

typedef struct {
  const char *name;
  double size;
} Unit;

static Unit unit_of(const Trace *trace)
{
  static const Unit units[] = { { "s", 1 }, { "ms", 1e-3 }, { "us", 1e-6 } }, none = { "", 1 };
  int i = trace->end_s >= 2 ? 0 : trace->end_s >= 2e-3 ? 1 : 2;
  return trace->unitless ? none : units[i];
}

/* 1, 2 or 5 times a power of ten, not below `least`. */
static double nice_step(double least)
{
  double power = pow(10, floor(log10(least)));
  double times = least / power;
  return power * (times <= 1 ? 1 : times <= 2 ? 2 : times <= 5 ? 5 : 10);
}

static void put_at(char *line, int width, int at, const char *word)
{
  int length = strlen(word);
  if (at >= 0 && at + length <= width)
    memcpy(line + at, word, length);
}

static void append_axis(Chart *c)
{
  double end = c->trace->end_s;
  Unit unit = unit_of(c->trace);
  int width = c->label + 3 + c->cells;
  g_autofree char *ruler = g_strnfill(width, ' '), *numbers = g_strnfill(width, ' ');

  if (!(end > 0))
    return;
  double step = nice_step(9.0 / c->cells * end / unit.size);
  memset(ruler + c->label + 2, '-', c->cells);
  for (int i = 0; i * step * unit.size <= end * (1 + 1e-9); i++) {
    int at = c->label + 2 + MIN(cell_of(c, i * step * unit.size), c->cells - 1);
    g_autofree char *number = g_strdup_printf("%g", i * step);
    put_at(ruler, width, at, "+");
    put_at(numbers, width, at - (int)strlen(number) / 2, number);
  }
  put_at(numbers, width, c->label - 1, unit.name);
  g_string_append_printf(c->text, "%s\n%s\n", g_strchomp(ruler), g_strchomp(numbers));
}

/* What the drawn letters mean. */
static void append_legend(Chart *c, int columns)
{
  g_autoptr(GString) line = g_string_new(NULL);
  gboolean chunked = FALSE;

  for (int pass = 0; pass < PASS_COUNT; pass++) {
    if (c->seen[pass] || c->seen[pass + PASS_COUNT])
      g_string_append_printf(line, "%c %s, ", letters[pass], pass_names[pass]);
    chunked |= c->seen[pass + PASS_COUNT];
  }
  if (c->seen[LETTER_OPTIMIZER])
    g_string_append_printf(line, "%c optimizer, ", letters[LETTER_OPTIMIZER]);
  if (c->pairs)
    g_string_append(line, "& two overlap, ");
  g_string_append_printf(line, "%c idle%s", IDLE_LETTER, chunked ? ", small letters: further chunks" : "");
  if ((int)line->len + c->label + 2 <= columns)
    g_string_append_printf(c->text, "%*s%s\n", c->label + 2, "", line->str);
}

/* ---- the whole ---- */

static void chart_init(Chart *c, const Trace *trace, int columns)
{
  g_autofree char *longest = g_strdup_printf("stage %d", trace->n_rows - 1);

  *c = (Chart) { .trace = trace, .text = g_string_new(NULL), .label = strlen(longest) };
  c->bubbles = trace_bubbles(trace);
  c->peaks = g_new0(char *, trace->n_rows + 1);
  for (int row = 0; row < trace->n_rows; row++) {
    double bytes[PART_COUNT], peak = trace_row_peak(trace, row, bytes);
    c->peaks[row] = format_bytes(peak);
    if (peak > 0)
      c->peak_width = MAX(c->peak_width, (int)strlen(c->peaks[row]));
  }
  int room = columns - c->label - 3, right = strlen("  bubble  ") + c->peak_width;
  c->right = room - right >= CELLS_MIN;
  if (!c->right)
    c->peak_width = right = 0;
  c->cells = MAX(room - right, 1);
  c->cell_s = trace->end_s / c->cells;
}

char *report_timeline(const Trace *trace, int columns, gboolean colored)
{
  Chart c;

  chart_init(&c, trace, columns);
  timeline_colors_init(&c.colors, trace);
  c.rgb = colored ? g_new0(guint32, c.cells + 1) : NULL;
  append_rows(&c);
  append_axis(&c);
  append_legend(&c, columns);
  g_free(c.bubbles);
  g_strfreev(c.peaks);
  g_free(c.rgb);
  return g_string_free(c.text, FALSE);
}
