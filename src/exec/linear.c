/* What layers share: memory, products, norms, rows of tensor-parallel ranks. */
#include "exec/layer.h"

#define NORM_EPSILON 1e-5

void *run_keep(const LayerRun *r, gsize elements)
{
  return memory_alloc(r->memory, r->s, r->kept_as, elements * r->bytes);
}

void *run_keep_wide(const LayerRun *r, gsize elements)
{
  return memory_alloc(r->memory, r->s, r->kept_as, elements * r->wide_bytes);
}

void *run_buffer(const LayerRun *r, gsize elements)
{
  return memory_alloc(r->memory, r->s, PART_BUFFERS, elements * r->bytes);
}

void run_drop(const LayerRun *r, void **block)
{
  memory_release(r->memory, r->s, g_steal_pointer(block));
}

void state_drop(const LayerRun *r, LayerState *state, guint slots)
{
  for (int i = 0; i < STATE_SLOTS; i++)
    if (slots & 1u << i)
      run_drop(r, &state->kept[i]);
}

Param param_matrix(int layer, int slot, int cols, double deviation)
{
  gint64 id = slot < PARAM_IDS ? (gint64)layer * PARAM_IDS + slot : -((gint64)layer * PARAM_SLOTS + slot);

  return (Param) { .slot = slot, .id = id, .cols = cols, .all_cols = cols,
                   .deviation = deviation };
}

void params_norm(const LayerShape *shape, int layer, int slot, GArray *params)
{
  Param p = param_matrix(layer, slot, shape->hidden, 0);

  p.n_rows = p.rows[0].rows = 1;
  p.mean = 1;
  p.replicated = TRUE;
  p.partial = shape->sp;
  p.early = TRUE;
  g_array_append_val(params, p);
  if (!shape->model->norm_bias)
    return;
  p.slot++;
  p.id++;
  p.mean = 0;
  g_array_append_val(params, p);
}

ExecGemm linear_forward_product(LinearSize z, const void *x, const void *w, const void *bias, void *y)
{
  return (ExecGemm) { .transpose_b = 1, .m = z.rows, .n = z.out, .k = z.in, .batch = 1, .alpha = 1, .a = x, .b = w,
                      .c = y, .lda = z.in, .ldb = z.in, .ldc = z.out, .bias = bias };
}

void linear_forward(const LayerRun *r, LinearSize z, const void *x, const void *w, const void *bias, void *y)
{
  ExecGemm g = linear_forward_product(z, x, w, bias, y);

  r->b->gemm(r->b, r->s, &g);
}

ExecGemm linear_input_product(LinearSize z, const void *dy, const void *w, void *dx)
{
  return (ExecGemm) { .m = z.rows, .n = z.in, .k = z.out, .batch = 1, .alpha = 1, .a = dy, .b = w, .c = dx,
                      .lda = z.out, .ldb = z.in, .ldc = z.in };
}

void linear_input(const LayerRun *r, LinearSize z, const void *dy, const void *w, void *dx)
{
  ExecGemm g = linear_input_product(z, dy, w, dx);

  r->b->gemm(r->b, r->s, &g);
}

void linear_weight(const LayerRun *r, LinearSize z, const void *x, const void *dy, void *dw, void *dbias)
{
  r->b->gemm(r->b, r->s, &(ExecGemm) { .transpose_a = 1, .wide_c = 1, .m = z.out, .n = z.in, .k = z.rows,
                                       .batch = 1, .alpha = 1, .beta = 1, .a = dy, .b = x, .c = dw, .lda = z.out,
                                       .ldb = z.in, .ldc = z.in, .sums = dbias });
}

void *rows_gather(const LayerRun *r, void *x, int width)
{
  gsize n = (gsize)r->shape.rows * width;

  if (!r->shape.sp)
    return x;
  void *all = run_buffer(r, n * r->shape.tp);
  EXCHANGE(r, GROUP_TENSOR, all_gather, x, all, n, r->b->dtype);
  return all;
}

void rows_ungather(const LayerRun *r, void *gathered, void *x)
{
  if (gathered != x)
    run_drop(r, &gathered);
}

void *column_forward(const LayerRun *r, const LayerWeights *w, int slot, int out, void *x)
{
  void *in = rows_gather(r, x, r->shape.hidden), *y = run_keep(r, (gsize)r->shape.tokens * out);

  linear_forward(r, (LinearSize) { r->shape.tokens, r->shape.hidden, out }, in, w->weight[slot], w->weight[slot + 1], y);
  rows_ungather(r, in, x);
  return y;
}

void column_weight(const LayerRun *r, const LayerWeights *w, int slot, int out, void *x, const void *dy)
{
  void *in = rows_gather(r, x, r->shape.hidden);

  linear_weight(r, (LinearSize) { r->shape.tokens, r->shape.hidden, out }, in, dy, w->gradient[slot],
                w->gradient[slot + 1]);
  rows_ungather(r, in, x);
}

void *rows_sum(const LayerRun *r, void *partial)
{
  gsize n = (gsize)r->shape.rows * r->shape.hidden;

  if (!r->shape.sp) {
    if (r->shape.tp > 1)
      EXCHANGE(r, GROUP_TENSOR, all_reduce, partial, n, r->b->dtype, EXEC_SUM);
    return partial;
  }
  void *own = run_buffer(r, n);
  EXCHANGE(r, GROUP_TENSOR, reduce_scatter, partial, own, n, r->b->dtype);
  run_drop(r, &partial);
  return own;
}

void *rows_sum_beside(const LayerRun *r, void *partial, WeightGradient weight, const LayerWeights *lw,
                      LayerState *state)
{
  gsize n = (gsize)r->shape.rows * r->shape.hidden;
  void *own = r->overlaps && r->shape.sp ? run_buffer(r, n) : partial;
  BackendComm *group = r->groups[GROUP_TENSOR_BESIDE];

  if (!r->overlaps)
    return rows_sum(r, partial);
  exchange_begin_beside(r);
  if (r->shape.sp)
    r->b->reduce_scatter(r->b, group, r->beside, partial, own, n, r->b->dtype);
  else
    r->b->all_reduce(r->b, group, r->beside, partial, n, r->b->dtype, EXEC_SUM);
  exchange_end_beside(r);
  weight(r, lw, state);
  exchange_wait(r, GROUP_TENSOR_BESIDE);
  if (own != partial)
    run_drop(r, &partial);
  return own;
}

static ExecNormArgs norm_args(const LayerRun *r, const LayerWeights *w, int slot, const void *x, void *stats)
{
  return (ExecNormArgs) {
    .kind = r->shape.model->norm == NORM_LAYERNORM ? EXEC_LAYERNORM : EXEC_RMSNORM,
    .rows = r->shape.rows, .width = r->shape.hidden, .epsilon = NORM_EPSILON, .x = x, .weight = w->weight[slot],
    .bias = w->weight[slot + 1], .mean = stats, .rstd = (char *)stats + r->shape.rows * r->wide_bytes,
  };
}

void *norm_forward(const LayerRun *r, const LayerWeights *w, int slot, const void *x, void **stats, MemoryPart part)
{
  void *y = memory_alloc(r->memory, r->s, part, (gsize)r->shape.rows * r->shape.hidden * r->bytes);

  *stats = run_keep_wide(r, 2 * r->shape.rows);
  ExecNormArgs a = norm_args(r, w, slot, x, *stats);
  r->b->norm_forward(r->b, r->s, &a, y);
  return y;
}

void norm_backward(const LayerRun *r, const LayerWeights *w, int slot, const void *x, void *stats, const void *dy,
                   void *dx, gboolean add)
{
  ExecNormArgs a = norm_args(r, w, slot, x, stats);
  r->b->norm_backward(r->b, r->s, &a, dy, dx, add, w->gradient[slot], w->gradient[slot + 1]);
}
