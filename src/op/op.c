#include "op/op.h"

#include "op/build.h"

#include <math.h>

static void (*const builders[])(Build *) = {
  [LAYER_EMBEDDING] = build_embedding,
  [LAYER_BLOCK] = build_block,
  [LAYER_HEAD] = build_head,
};

double op_tokens(const Plan *p)
{
  return (double)p->micro_batch * p->seq / p->cp;
}

int op_vocab(const Model *model, const Plan *p)
{
  gint64 multiple = (gint64)p->framework->vocab_multiple * p->tp;
  return (int)((model->vocab + multiple - 1) / multiple * multiple);
}

double op_boundary_bytes(const Model *model, const Plan *p)
{
  return op_tokens(p) * model->hidden * dtype_bytes[p->precision] / (p->sequence_parallel ? p->tp : 1);
}

static void reverse(GArray *ops)
{
  for (guint i = 0, j = ops->len; i + 1 < j; i++) {
    Op swap = g_array_index(ops, Op, i);
    g_array_index(ops, Op, i) = g_array_index(ops, Op, --j);
    g_array_index(ops, Op, j) = swap;
  }
}

/* Splits what forward ops save into what is kept and what is made again. */
static void apply_recompute(LayerWork *work, const Build *b)
{
  double all = 0, core = 0;
  gboolean block = b->spec->kind == LAYER_BLOCK;

  for (guint i = 0; i < work->forward->len; i++) {
    const Op *op = &g_array_index(work->forward, Op, i);
    all += op->saved_bytes;
    core += op->core ? op->saved_bytes : 0;
  }
  work->saved_bytes = all;
  if (block && b->plan->recompute == RECOMPUTE_FULL) {
    work->saved_bytes = b->rows * b->hidden * b->bytes;
    work->recomputed_bytes = all;
    work->recompute_all = TRUE;
  } else if (block && b->plan->recompute == RECOMPUTE_SELECTIVE) {
    work->saved_bytes = all - core;
    work->recomputed_bytes = core;
  }
}

void layer_work_init(LayerWork *work, const Model *model, const LayerSpec *spec, const Plan *plan,
                     const Cluster *cluster)
{
  double tokens = op_tokens(plan);
  Build b = {
    .work = work, .model = model, .spec = spec, .plan = plan,
    .tensor = mesh_group(plan, cluster, AXIS_TENSOR),
    .tp = plan->tp, .tokens = tokens, .rows = plan->sequence_parallel ? tokens / plan->tp : tokens,
    .bytes = dtype_bytes[plan->precision], .hidden = model->hidden,
  };

  *work = (LayerWork) {
    .forward = g_array_new(FALSE, FALSE, sizeof(Op)),
    .backward = g_array_new(FALSE, FALSE, sizeof(Op)),
  };
  builders[spec->kind](&b);
  reverse(work->backward);
  apply_recompute(work, &b);
}

void layer_work_clear(LayerWork *work)
{
  g_clear_pointer(&work->forward, g_array_unref);
  g_clear_pointer(&work->backward, g_array_unref);
}
