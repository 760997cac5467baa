/* Memory of the fullest stage over the step, and the peaks of all stages beside it. */
#include "report/plots.h"

#include "base/units.h"
#include "report/gnuplot.h"
#include "report/memory_points.h"

#define LINE_LETTERS 185 /* of what stands below the title, up to the sheet's edge */
#define BINS 500 /* of the time axis; each draws its first, least, most and last point */

typedef struct {
  const Result *result;
  const Trace *trace;
  int row;
  double time_unit_s, unit_bytes;
  GString *data;
  double last[PART_COUNT]; /* sums of the layers of the last point written */
} MemoryPlot;

/* Sums from the bottom up. */
static void stack(const double bytes[PART_COUNT], double unit_bytes, double sums[PART_COUNT])
{
  double sum = 0;

  for (int i = 0; i < PART_COUNT; i++)
    sums[i] = sum += bytes[memory_layers[i].part] / unit_bytes;
}

static void put_line(GString *data, double x, const double sums[PART_COUNT])
{
  g_string_append_printf(data, "%.7g", x);
  for (int i = 0; i < PART_COUNT; i++)
    g_string_append_printf(data, " %.5g", sums[i]);
  g_string_append_c(data, '\n');
}

/* A step: what was, until now; what is, from now on. */
static void put_point(MemoryPlot *m, const MemoryPoint *point)
{
  double bytes[PART_COUNT], x = point->time / m->time_unit_s;

  if (m->data->len > 0)
    put_line(m->data, x, m->last);
  trace_memory(m->trace, m->row, point, bytes);
  stack(bytes, m->unit_bytes, m->last);
  put_line(m->data, x, m->last);
}

static void put_points(MemoryPlot *m)
{
  g_autoptr(GArray) points = memory_points(m->trace, m->row, BINS);

  for (guint i = 0; i < points->len; i++)
    put_point(m, &g_array_index(points, MemoryPoint, i));
  put_line(m->data, m->trace->end_s / m->time_unit_s, m->last);
}

static double capacity_of(const MemoryPlot *m, int row)
{
  return cluster_whole_bytes(result_site(m->result, row), m->trace->rows[row].capacity_bytes);
}

/* The peak of every stage, and what its devices hold. */
static gboolean write_peaks(const MemoryPlot *m, Picture *p, GError **error)
{
  g_autoptr(GString) data = g_string_new(NULL);

  for (int row = 0; row < m->trace->n_rows; row++) {
    double bytes[PART_COUNT], sums[PART_COUNT];
    trace_row_peak(m->trace, row, bytes);
    stack(bytes, m->unit_bytes, sums);
    put_line(data, row, sums);
    g_string_truncate(data, data->len - 1);
    g_string_append_printf(data, " %.7g\n", capacity_of(m, row) / m->unit_bytes);
  }
  return picture_write(p, "peaks.dat", data, error);
}

static double peak_time(const Trace *t, int row)
{
  const GArray *points = t->rows[row].points;
  MemoryPoint best = { 0 };

  for (guint i = 0; i < points->len; i++) {
    const MemoryPoint *p = &g_array_index(points, MemoryPoint, i);
    if (p->activations + p->buffers > best.activations + best.buffers)
      best = *p;
  }
  return best.time;
}

/* Each part with its size at the peak. */
static void set_legend(const Result *r, Picture *p)
{
  g_auto(GStrv) names = g_new0(char *, PART_COUNT + 1);
  double colors[PART_COUNT];

  for (int i = 0; i < PART_COUNT; i++) {
    g_autofree char *size = format_bytes(r->metrics.memory[memory_layers[i].part]);
    names[i] = g_strdup_printf("%s %s", memory_part_names[memory_layers[i].part], size);
    colors[i] = memory_layers[i].rgb;
  }
  picture_set_real(p, "parts", PART_COUNT);
  picture_set_texts(p, "part_name", names, PART_COUNT);
  picture_set_reals(p, "part_color", colors, PART_COUNT);
}

static void set_text(const Result *r, const Trace *t, Picture *p)
{
  g_autofree char *title = plot_title(r), *label = plan_label(r->plan);
  g_autofree char *peak = format_bytes(r->metrics.peak_memory_bytes),
                  *capacity = format_bytes(cluster_whole_bytes(r->cluster, r->metrics.capacity_bytes));
  g_autofree char *panel = g_strdup_printf("stage %d, %s: peak %s of %s", r->metrics.peak_row,
                                            result_peak_text(r), peak, capacity);
  g_auto(GStrv) lines = plot_lines(label, LINE_LETTERS);
  const char *unit;

  plot_time_unit(t->end_s, &unit);
  picture_set_text(p, "unit", unit);
  picture_set_text(p, "headline", title);
  picture_set_texts(p, "line", lines, g_strv_length(lines));
  picture_set_real(p, "lines", g_strv_length(lines));
  picture_set_real(p, "line_pixels", PLOT_LINE_PIXELS);
  picture_set_real(p, "further", PLOT_LINE_PIXELS * (g_strv_length(lines) - 1));
  picture_set_text(p, "panel", panel);
}

/* Lines of the capacities, of which a mixed cluster has one for each type of devices. */
static void set_capacities(const Result *r, const MemoryPlot *m, Picture *p)
{
  int n = cluster_types(r->cluster);
  g_auto(GStrv) texts = g_new0(char *, n + 1), names = g_new0(char *, n + 1);
  double bytes[NODE_TYPES_MAX];

  for (int i = 0; i < n; i++) {
    const Cluster *type = cluster_type(r->cluster, i);
    double whole = cluster_whole_bytes(type, r->cluster->n_types ? type->device.memory_bytes : r->metrics.capacity_bytes);
    texts[i] = format_bytes(whole);
    names[i] = g_strdup(r->cluster->n_types ? type->name : "capacity");
    bytes[i] = whole / m->unit_bytes;
  }
  picture_set_real(p, "capacities", n);
  picture_set_texts(p, "capacity_of", names, n);
  picture_set_texts(p, "capacity_text", texts, n);
  picture_set_reals(p, "capacity_at", bytes, n);
}

static void set_numbers(const Result *r, const MemoryPlot *m, Picture *p)
{
  double capacity = capacity_of(m, m->row), peak = r->metrics.peak_memory_bytes, most = peak, room = capacity;

  for (int row = 0; row < m->trace->n_rows; row++) {
    double bytes[PART_COUNT];
    most = MAX(most, trace_row_peak(m->trace, row, bytes));
    room = MAX(room, capacity_of(m, row));
  }

  picture_set_text(p, "size", m->unit_bytes == GIB ? "GiB" : "MiB");
  picture_set_real(p, "end", m->trace->end_s / m->time_unit_s);
  picture_set_real(p, "stages", m->trace->n_rows);
  picture_set_real(p, "fullest", m->row);
  picture_set_real(p, "peak", peak / m->unit_bytes);
  picture_set_real(p, "peak_time", peak_time(m->trace, m->row) / m->time_unit_s);
  picture_set_real(p, "capacity", capacity / m->unit_bytes);
  /* far below the capacity, the plot is of what is used */
  picture_set_real(p, "highest", (most > 0.25 * room ? MAX(room, most) * 1.06 : most * 1.25) / m->unit_bytes);
}

gboolean plot_memory(const Result *result, const Trace *trace, const PicturesTo *to, GError **error)
{
  const char *unit;
  g_autoptr(GString) data = g_string_new(NULL);
  MemoryPlot m = { .result = result, .trace = trace, .row = result->metrics.peak_row, .data = data,
                   .time_unit_s = plot_time_unit(trace->end_s, &unit),
                   .unit_bytes = result->metrics.peak_memory_bytes < GIB / 2 ? MIB : GIB };
  g_auto(Picture) picture = { NULL };

  if (!picture_init(&picture, "memory", "memory", error))
    return FALSE;
  put_points(&m);
  set_text(result, trace, &picture);
  set_numbers(result, &m, &picture);
  set_capacities(result, &m, &picture);
  set_legend(result, &picture);
  return picture_write(&picture, "memory.dat", data, error) && write_peaks(&m, &picture, error) &&
         picture_draw(&picture, to, error);
}
