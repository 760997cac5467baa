/* Every operator of each distinct pass of a layer with its predicted time. */
#include "base/table.h"
#include "base/units.h"
#include "report/report.h"

static void add_op(Table *t, const char *layer, const char *pass, const PassOp *described)
{
  const Op *op = &described->op;
  double seconds = described->seconds, share = described->share;

  table_add(t, "%s|%s|%s", layer, pass, op->name);
  table_take(t, format_seconds(seconds));
  if (op->flops > 0)
    table_add(t, "%.1f TFLOP/s", share * op->flops / seconds / 1e12);
  else if (op->kind == OP_MEMORY && seconds == 0) /* nothing is moved in this pass */
    table_add(t, "%s", "");
  else if (op->kind == OP_MEMORY)
    table_add(t, "%.0f GB/s", share * op->memory.bytes / seconds / 1e9);
  else
    table_add(t, "%.0f GB/s", share * op->collective.bytes / MAX(seconds, 1e-12) / 1e9);
  if (op->kind == OP_MATMUL)
    table_add(t, "%.0f x %.0f x %.0f%s", op->matmul.m, op->matmul.n, op->matmul.k,
              op->matmul.batch > 1 ? " batched" : "");
  else if (op->kind == OP_ATTENTION)
    table_add(t, "%.0f x %.0f heads of %d", op->attention.batch, op->attention.heads, op->attention.head_dim);
  else
    table_add(t, "%s", "");
}

static const char *const layer_names[] = { "embedding", "block", "head", "prediction" };

static const char *pass_of(const LayerPass *pass, const PassOp *op)
{
  gboolean again = op->op.pass == PASS_FORWARD && pass->pass != PASS_FORWARD;
  return pass_names[again ? PASS_RECOMPUTE : op->op.pass];
}

static void add_pass(Table *t, const Model *model, const LayerPass *pass)
{
  const char *kind = layer_names[model_layer(model, pass->layer)->kind];
  g_autofree char *layer = g_strdup_printf("%s %d", kind, pass->layer);

  for (guint i = 0; i < pass->ops->len; i++) {
    const PassOp *op = &g_array_index(pass->ops, PassOp, i);
    add_op(t, layer, pass_of(pass, op), op);
  }
}

/* LayerPass *, in order of first appearance. */
static GPtrArray *distinct_passes(const Trace *trace)
{
  g_autoptr(GHashTable) listed = g_hash_table_new(NULL, NULL);
  GPtrArray *all = g_ptr_array_new();

  for (guint i = 0; i < trace->segments->len; i++) {
    const GArray *passes = g_array_index(trace->segments, Segment, i).passes;
    for (guint pass = 0; passes && pass < passes->len; pass++)
      if (g_hash_table_add(listed, g_array_index(passes, LayerPass, pass).ops))
        g_ptr_array_add(all, &g_array_index(passes, LayerPass, pass));
  }
  return all;
}

char *report_ops(const Result *r, const Trace *trace)
{
  g_autoptr(Table) t = table_new("<layer|<pass|<operator|time|rate|<shape");
  g_autoptr(GPtrArray) passes = distinct_passes(trace);

  for (guint i = 0; i < passes->len; i++)
    add_pass(t, r->model, passes->pdata[i]);
  return table_text(t, 0);
}

static void write_op(const Model *model, const LayerPass *pass, const PassOp *described, JsonWriter *w)
{
  const Op *op = &described->op;

  json_open(w, NULL, '{');
  json_put_int(w, "layer", pass->layer);
  json_put_string(w, "kind", layer_names[model_layer(model, pass->layer)->kind]);
  json_put_string(w, "pass", pass_of(pass, described));
  json_put_string(w, "operator", op->name);
  json_put_real(w, "seconds", described->seconds);
  if (op->flops > 0)
    json_put_real(w, "flops", described->share * op->flops);
  else
    json_put_real(w, "bytes", described->share * (op->kind == OP_MEMORY ? op->memory.bytes : op->collective.bytes));
  json_close(w, '}');
}

void report_ops_write(const Result *r, const Trace *trace, JsonWriter *w)
{
  g_autoptr(GPtrArray) passes = distinct_passes(trace);

  json_open(w, "operators", '[');
  for (guint i = 0; i < passes->len; i++) {
    const LayerPass *pass = passes->pdata[i];
    for (guint k = 0; k < pass->ops->len; k++)
      write_op(r->model, pass, &g_array_index(pass->ops, PassOp, k), w);
  }
  json_close(w, ']');
}
