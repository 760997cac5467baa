/* Memory over the step as a section of a page. */
#include "report/page_sections.h"

#include "report/memory_points.h"
#include "report/tables.h"
#include "report/timeline_panel.h"

#define BINS 250

/* Time, activations and buffers of each point, one after another; whole bytes. */
static void put_points(JsonWriter *w, const Trace *trace, int row)
{
  g_autoptr(GArray) points = memory_points(trace, row, BINS);

  json_open(w, "points", '[');
  for (guint i = 0; i < points->len; i++) {
    const MemoryPoint *p = &g_array_index(points, MemoryPoint, i);
    double bytes[PART_COUNT];
    trace_memory(trace, row, p, bytes);
    json_put_thousandths(w, NULL, (gint64)(p->time * 1e9 + 0.5));
    json_put_int(w, NULL, (gint64)bytes[PART_ACTIVATIONS]);
    json_put_int(w, NULL, (gint64)bytes[PART_BUFFERS]);
  }
  json_close(w, ']');
}

static void put_row(Page *page, const Result *result, const Trace *trace, int row)
{
  JsonWriter *w = &page->writer;
  const Cluster *site = result_site(result, row);
  g_autofree char *name = g_strdup_printf("stage %d", row);
  double bytes[PART_COUNT];

  json_open(w, NULL, '{');
  json_put_string(w, "name", name);
  json_put_real(w, "peak_bytes", trace_row_peak(trace, row, bytes));
  json_put_real(w, "capacity_bytes", cluster_whole_bytes(site, trace->rows[row].capacity_bytes));
  json_put_real(w, "usable_bytes", trace->rows[row].capacity_bytes);
  json_open(w, "parts", '[');
  for (int i = 0; i < PART_COUNT; i++)
    json_put_real(w, NULL, bytes[memory_layers[i].part]);
  json_close(w, ']');
  put_points(w, trace, row);
  json_close(w, '}');
}

void page_memory(Page *page, const char *heading, const Result *result, const Trace *trace)
{
  JsonWriter *w = &page->writer;
  g_autoptr(Table) stages = stages_table(trace);
  int n, fullest = 0;
  g_autofree int *rows = panel_rows(trace, result->metrics.peak_row, TIMELINE_ROWS_MAX, &n);

  page_begin(page, "memory", heading);
  json_put_real(w, "end_s", trace->end_s);
  json_open(w, "parts", '[');
  for (int i = 0; i < PART_COUNT; i++) {
    json_open(w, NULL, '{');
    json_put_string(w, "name", memory_part_names[memory_layers[i].part]);
    page_put_color(page, "color", memory_layers[i].rgb);
    json_close(w, '}');
  }
  json_close(w, ']');
  json_open(w, "rows", '[');
  for (int i = 0; i < n; i++) {
    put_row(page, result, trace, rows[i]);
    fullest = rows[i] == result->metrics.peak_row ? i : fullest;
  }
  json_close(w, ']');
  json_put_int(w, "fullest", fullest);
  page_markdown_table(page, stages);
  page_end(page);
}
