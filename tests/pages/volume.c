#include "pages/volume.h"

#include "layouts.h"

static double counted(Collective what, double bytes)
{
  return what == COLLECTIVE_ALL_REDUCE ? 2 * bytes : bytes;
}

DataVolume data_volume(const Trace *trace, int row)
{
  DataVolume v = { 0 };

  for (guint i = 0; i < trace->spans->len; i++) {
    const Span *span = &g_array_index(trace->spans, Span, i);
    const Segment *s = &g_array_index(trace->segments, Segment, span->segment);
    if (span->row != row || (s->kind != TASK_GATHER && s->kind != TASK_REDUCE))
      continue;
    *(s->kind == TASK_GATHER ? &v.gathered_bytes : &v.reduced_bytes) += counted(s->collective, s->comm_bytes);
    v.calls++;
  }
  return v;
}

double data_bytes_across_nodes(const Trace *trace, int row, const Cluster *cluster)
{
  double bytes = 0;

  for (guint i = 0; i < trace->spans->len; i++) {
    const Span *span = &g_array_index(trace->spans, Span, i);
    const Segment *s = &g_array_index(trace->segments, Segment, span->segment);
    if (span->row == row && (s->kind == TASK_GATHER || s->kind == TASK_REDUCE) && cluster->network_tier > 0 &&
        s->group.per_domain[cluster->network_tier - 1] < s->group.size)
      bytes += counted(s->collective, s->comm_bytes);
  }
  return bytes;
}

double pipeline_bytes(const Trace *trace, int row)
{
  double bytes = 0;

  for (guint i = 0; i < trace->spans->len; i++) {
    const Span *span = &g_array_index(trace->spans, Span, i);
    const Segment *s = &g_array_index(trace->segments, Segment, span->segment);
    if (span->row == row && s->kind == TASK_SEND)
      bytes += s->comm_bytes;
  }
  return bytes;
}

double other_bytes(const Trace *trace, int row)
{
  double bytes = 0;

  for (guint i = 0; i < trace->spans->len; i++) {
    const Span *span = &g_array_index(trace->spans, Span, i);
    const Segment *s = &g_array_index(trace->segments, Segment, span->segment);
    if (span->row == row && s->kind != TASK_PASS && s->kind != TASK_GATHER && s->kind != TASK_REDUCE &&
        s->kind != TASK_SEND && s->kind != TASK_NORM)
      bytes += s->comm_bytes;
  }
  return bytes;
}

static void add_ops(BlockVolume *v, const GArray *ops, Axis axis)
{
  for (guint i = 0; i < ops->len; i++) {
    const Op *op = &g_array_index(ops, Op, i);
    if (op->kind != OP_COLLECTIVE || op->collective.axis != axis || op->collective.group.size == 1)
      continue;
    v->calls[op->collective.what]++;
    v->bytes += counted(op->collective.what, op->collective.bytes);
  }
}

BlockVolume block_volume(const Model *model, const Plan *plan, const Cluster *cluster, Axis axis)
{
  BlockVolume v = { 0 };
  LayerWork work;

  layer_work_init(&work, model, model_layer(model, 1), PASSES(plan), cluster);
  add_ops(&v, work.forward, axis);
  add_ops(&v, work.backward, axis);
  layer_work_clear(&work);
  return v;
}

double block_saved_bytes(const Model *model, const Plan *plan, const Cluster *cluster)
{
  LayerWork work;

  layer_work_init(&work, model, model_layer(model, 1), PASSES(plan), cluster);
  double saved = work.saved_bytes;
  layer_work_clear(&work);
  return saved;
}
