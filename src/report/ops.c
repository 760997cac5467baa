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

static void add_pass(Table *t, const Model *model, const LayerPass *pass)
{
  static const char *const kinds[] = { "embedding", "block", "head", "prediction" };
  g_autofree char *layer = g_strdup_printf("%s %d", kinds[model_layer(model, pass->layer)->kind], pass->layer);

  for (guint i = 0; i < pass->ops->len; i++) {
    const PassOp *op = &g_array_index(pass->ops, PassOp, i);
    gboolean again = op->op.pass == PASS_FORWARD && pass->pass != PASS_FORWARD;
    add_op(t, layer, pass_names[again ? PASS_RECOMPUTE : op->op.pass], op);
  }
}

char *report_ops(const Result *r, const Trace *trace)
{
  g_autoptr(Table) t = table_new("<layer|<pass|<operator|time|rate|<shape");
  g_autoptr(GHashTable) listed = g_hash_table_new(NULL, NULL);

  for (guint i = 0; i < trace->segments->len; i++) {
    const GArray *passes = g_array_index(trace->segments, Segment, i).passes;
    for (guint pass = 0; passes && pass < passes->len; pass++)
      if (g_hash_table_add(listed, g_array_index(passes, LayerPass, pass).ops))
        add_pass(t, r->model, &g_array_index(passes, LayerPass, pass));
  }
  return table_text(t, 0);
}
