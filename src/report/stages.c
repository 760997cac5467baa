/* Peak memory of every pipeline stage by part. */
#include "base/table.h"
#include "base/units.h"
#include "report/report.h"

#define STAGES_MAX 24 /* more are shown by first, last and every n-th */

static void add_bytes(Table *t, double bytes)
{
  g_autofree char *text = format_bytes(bytes);
  table_add(t, "%s", text);
}

char *report_stages(const Trace *trace)
{
  g_autoptr(Table) t = table_new("stage|weights|gradients|optimizer|activations|buffers|overhead|peak");
  int every = (trace->n_rows + STAGES_MAX - 1) / STAGES_MAX;

  for (int row = 0; row < trace->n_rows; row++) {
    double bytes[PART_COUNT], peak = trace_row_peak(trace, row, bytes);
    if (row % every != 0 && row != trace->n_rows - 1)
      continue;
    table_add(t, "%d", row);
    for (int part = 0; part < PART_COUNT; part++)
      add_bytes(t, bytes[part]);
    add_bytes(t, peak);
  }
  return table_text(t, 2);
}
