/* Memory over the step drawn with blocks of eighths of a line. */
#include "report/report.h"

#include "base/units.h"
#include "report/memory_points.h"

#include <math.h>
#include <string.h>

enum { LINES = 8, EIGHTHS = 8, CELLS_MIN = 16, LABEL = 9 }; /* LABEL: "1023 GiB " */

typedef struct {
  int cells;
  double top_bytes;
  double (*bytes)[PART_COUNT]; /* of each cell, where most is held */
} Area;

static double sum_of(const double bytes[PART_COUNT])
{
  double sum = 0;

  for (int part = 0; part < PART_COUNT; part++)
    sum += bytes[part];
  return sum;
}

static void fill(Area *a, const Trace *trace, int row)
{
  g_autoptr(GArray) points = memory_points(trace, row, a->cells);
  double cell_s = trace->end_s / a->cells, bytes[PART_COUNT];

  for (guint i = 0; i < points->len; i++) {
    const MemoryPoint *p = &g_array_index(points, MemoryPoint, i);
    double until = i + 1 < points->len ? g_array_index(points, MemoryPoint, i + 1).time : trace->end_s;
    trace_memory(trace, row, p, bytes);
    for (int cell = MIN((int)(p->time / cell_s), a->cells - 1); cell < a->cells && cell * cell_s <= until; cell++)
      if (sum_of(bytes) > sum_of(a->bytes[cell]))
        memcpy(a->bytes[cell], bytes, sizeof bytes);
  }
  for (int cell = 0; cell < a->cells; cell++)
    a->top_bytes = MAX(a->top_bytes, sum_of(a->bytes[cell]));
}

/* The colour of what lies at a height, from the bottom up. */
static guint32 color_at(const double bytes[PART_COUNT], double height)
{
  double sum = 0;

  for (int i = 0; i < PART_COUNT - 1; i++) {
    sum += bytes[memory_layers[i].part];
    if (height < sum)
      return memory_layers[i].rgb;
  }
  return memory_layers[PART_COUNT - 1].rgb;
}

/* Blocks of a line; of alike colours one escape. */
static void append_line(GString *text, const Area *a, int line, gboolean colored)
{
  static const char *const blocks[EIGHTHS + 1] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
  double line_bytes = a->top_bytes / LINES;
  guint32 last = 0;

  for (int cell = 0; cell < a->cells; cell++) {
    double held = sum_of(a->bytes[cell]) / line_bytes - line;
    int eighths = CLAMP((int)lround(held * EIGHTHS), 0, EIGHTHS);
    guint32 rgb = colored && eighths > 0 ? color_at(a->bytes[cell], (line + MIN(held, 1) / 2) * line_bytes) : last;
    if (rgb != last)
      g_string_append_printf(text, "\033[38;2;%u;%u;%um", rgb >> 16, rgb >> 8 & 255, rgb & 255);
    g_string_append(text, blocks[eighths]);
    last = rgb;
  }
  while (text->str[text->len - 1] == ' ')
    g_string_truncate(text, text->len - 1);
  g_string_append(text, last ? "\033[0m\n" : "\n");
}

static void append_legend(GString *text, const double bytes[PART_COUNT], int columns)
{
  int used = 0;

  for (int i = 0; i < PART_COUNT; i++) {
    guint32 rgb = memory_layers[i].rgb;
    const char *name = memory_part_names[memory_layers[i].part];
    int width = strlen("  x ") + strlen(name);
    if (bytes[memory_layers[i].part] <= 0)
      continue;
    g_string_append_printf(text, "%s  \033[38;2;%u;%u;%um█\033[0m %s", used + width > columns ? "\n" : "", rgb >> 16,
                           rgb >> 8 & 255, rgb & 255, name);
    used = used + width > columns ? width : used + width;
  }
  g_string_append_c(text, '\n');
}

char *report_memory_drawn(const Result *r, const Trace *trace, int columns, gboolean colored)
{
  int row = r->metrics.peak_row;
  Area a = { .cells = MAX(columns - LABEL, CELLS_MIN) };
  GString *text = g_string_new(NULL);
  g_autofree char *end = format_seconds(trace->end_s);

  a.bytes = g_malloc0(a.cells * sizeof *a.bytes);
  fill(&a, trace, row);
  for (int line = LINES - 1; line >= 0; line--) {
    g_autofree char *label = format_bytes(a.top_bytes * (line + 1) / LINES);
    g_string_append_printf(text, "%*s ", LABEL - 1, line % 2 ? label : "");
    append_line(text, &a, line, colored);
  }
  g_string_append_printf(text, "%*s0%*s\n", LABEL, "", a.cells - 1, end);
  if (colored)
    append_legend(text, r->metrics.memory, columns);
  g_free(a.bytes);
  return g_string_free(text, FALSE);
}
