/* Which stage of a pipeline runs on which devices of a mixed cluster. */
#include "base/table.h"
#include "base/units.h"
#include "report/report.h"

/* Blocks that a pipeline rank holds, over all its chunks. */
static int blocks_of(const Result *r, int rank)
{
  const PipelineLayout *p = &r->layout.pipeline;
  int blocks = 0;

  for (int chunk = 0; chunk < p->shape.chunks; chunk++) {
    StageBlocks held = stage_blocks(&p->cut, r->model, schedule_stage(p->schedule, &p->shape, rank, chunk));
    blocks += held.end - held.first;
  }
  return blocks;
}

/* Both ways through one of a row's blocks. */
static double block_s(const Result *r, const Trace *trace, int row)
{
  double seconds[PASS_COUNT] = { 0 };

  for (guint i = 0; i < trace->spans->len; i++) {
    const Span *s = &g_array_index(trace->spans, Span, i);
    const GArray *passes = g_array_index(trace->segments, Segment, s->segment).passes;
    for (guint k = 0; passes && s->row == row && k < passes->len; k++) {
      const LayerPass *pass = &g_array_index(passes, LayerPass, k);
      if (model_layer(r->model, pass->layer)->kind == LAYER_BLOCK)
        seconds[pass->pass] = pass->seconds;
    }
  }
  return seconds[PASS_FORWARD] + seconds[PASS_BACKWARD] + seconds[PASS_INPUT] + seconds[PASS_WEIGHT];
}

char *report_placement(const Result *r, const Trace *trace)
{
  g_autoptr(Table) t = table_new("stage|<nodes|<device|ranks|blocks|a block|computes|idle|peak|of|<");
  g_autofree double *computes = trace_computes(trace), *bubbles = trace_bubbles(trace);

  for (int row = 0; row < trace->n_rows; row++) {
    const Cluster *site = result_site(r, row);
    double bytes[PART_COUNT], peak = trace_row_peak(trace, row, bytes);
    double whole = cluster_whole_bytes(site, site->device.memory_bytes);
    table_add(t, "%d|%s|%s|%d|%d", row, site->name, site->device.name, r->layout.mesh.places, blocks_of(r, row));
    table_take(t, format_seconds(block_s(r, trace, row)));
    table_take(t, format_seconds(computes[row]));
    table_add(t, "%.1f %%", 100 * bubbles[row]);
    table_take(t, format_bytes(peak));
    table_take(t, format_bytes(whole));
    table_add(t, "%.1f %%", 100 * peak / whole);
  }
  return table_text(t, 2);
}
