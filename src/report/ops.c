/* Every operator of each distinct layer with its predicted time. */
#include "base/table.h"
#include "base/units.h"
#include "report/report.h"

static void add_op(Table *t, const char *layer, const Op *op, const PassLayout *passes, const Cluster *cluster)
{
  double seconds = op_s(op, passes, cluster);
  g_autofree char *time = format_seconds(seconds);

  table_add(t, "%s", layer);
  table_add(t, "%s", pass_names[op->pass]);
  table_add(t, "%s", op->name);
  table_add(t, "%s", time);
  if (op->flops > 0)
    table_add(t, "%.1f TFLOP/s", op->flops / seconds / 1e12);
  else if (op->kind == OP_MEMORY)
    table_add(t, "%.0f GB/s", op->memory.bytes / seconds / 1e9);
  else
    table_add(t, "%.0f GB/s", op->collective.bytes / MAX(seconds, 1e-12) / 1e9);
  if (op->kind == OP_MATMUL)
    table_add(t, "%.0f x %.0f x %.0f%s", op->matmul.m, op->matmul.n, op->matmul.k,
              op->matmul.batch > 1 ? " batched" : "");
  else if (op->kind == OP_ATTENTION)
    table_add(t, "%.0f x %.0f heads of %d", op->attention.batch, op->attention.heads, op->attention.head_dim);
  else
    table_add(t, "%s", "");
}

static void add_list(Table *t, const char *layer, const GArray *ops, const PassLayout *passes, const Cluster *cluster)
{
  for (guint i = 0; i < ops->len; i++)
    add_op(t, layer, &g_array_index(ops, Op, i), passes, cluster);
}

char *report_ops(const Result *r)
{
  static const char *const kinds[] = { "embedding", "block", "head", "prediction" };
  PassLayout passes;
  g_autoptr(Table) t = table_new("<layer|<pass|<operator|time|rate|<shape");

  pass_layout_init(&passes, &r->plan);
  for (int i = 0; i < r->model->n_specs; i++) {
    LayerWork work;
    g_autofree char *layer = g_strdup_printf("%s %d", kinds[r->model->specs[i].kind], i);
    layer_work_init(&work, r->model, &r->model->specs[i], &passes, r->cluster);
    add_list(t, layer, work.forward, &passes, r->cluster);
    add_list(t, layer, work.backward, &passes, r->cluster);
    layer_work_clear(&work);
  }
  return table_text(t, 0);
}
