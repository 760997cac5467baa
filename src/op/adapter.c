/*
 * A product with frozen weights and the adapters beside it: y = x W + (x A) B.
 *
 * Of a product whose weights need no gradient PyTorch keeps no input (Megatron Core 0.17, LinearWithFrozenWeight in
 * tensor_parallel/layers.py: the weight alone; bitsandbytes, MatMul4Bit in autograd/_functions.py: neither); A keeps
 * the same input for its own, and B what A made.
 *
 * Tensor-parallel ranks divide adapters as Megatron-Bridge does (peft/utils.py, ParallelLinearAdapter): of a
 * column-parallel matrix A's columns and B's, with x A gathered between and, under sequence parallelism, the gathered
 * rows kept; of a row-parallel one A's rows, with x A summed, and B's columns, with the outputs gathered. Gradients go
 * the other way, apart from those of W.
 */
#include "op/build.h"

gboolean build_adapts(const Build *b, AdapterMatrix matrix)
{
  return matrix && adapter_adapts(&b->passes->adapter, b->spec, b->model->hidden, matrix);
}

double build_frozen_saved(const Build *b, const Linear *l)
{
  gboolean gathered = l->split == LINEAR_COLUMN && !l->no_gather;

  if (build_adapts(b, l->matrix))
    return l->kept ? 0 : l->saved * (gathered ? b->tokens / b->rows : 1);
  return l->stays ? l->saved : 0;
}

/* Matrices that a product's is made of, and the largest one's share of it. */
static int matrices_of(const Linear *l, double *largest)
{
  int n = 0;

  *largest = l->parts[0] > 0 ? 0 : 1;
  for (int i = 0; i < LINEAR_PARTS; i++) {
    *largest = MAX(*largest, l->parts[i] / l->out);
    n += l->parts[i] > 0;
  }
  return MAX(1, n);
}

void build_unpacked(Build *b, const Linear *l)
{
  const PassLayout *p = b->passes;
  double each = build_has_block(b) ? adapter_unpack_bytes(&p->adapter, p->formats.precision) : 0, largest;
  double weights = l->in * l->out * l->batch;
  double kernels = ADAPTER_UNPACK_KERNELS * l->batch * matrices_of(l, &largest);

  if (each == 0)
    return;
  build_stream(b, &(Stream) { .name = "unpack weights", .forward_bytes = each * weights, .forward_kernels = kernels,
                              .backward_bytes = each * weights, .backward_kernels = kernels });
  b->work->transient_bytes = MAX(b->work->transient_bytes, largest * weights / l->batch * b->bytes);
}

static void small_product(Build *b, const char *name, double in, double out, double rows, double saved)
{
  build_linear(b, &(Linear) { .name = name, .in = in, .out = out, .batch = 1, .rows = rows, .saved = saved,
                              .split = LINEAR_REPLICATED });
}

/* By alpha / r. */
static void scale(Build *b, double bytes)
{
  build_stream(b, &(Stream) { .name = "scale adapter", .forward_bytes = 2 * bytes, .forward_kernels = 1,
                              .backward_bytes = 2 * bytes, .backward_kernels = 1 });
}

/* Of what A made, between it and B: brought together. */
static void join_small(Build *b, LinearSplit split, double rows, double rank)
{
  double bytes = rows * rank * b->bytes;

  if (split == LINEAR_COLUMN)
    build_forward_collective(b, "gather adapter", COLLECTIVE_ALL_GATHER, bytes);
  if (split == LINEAR_ROW)
    build_forward_collective(b, "sum adapter", COLLECTIVE_ALL_REDUCE, bytes);
  if (split != LINEAR_REPLICATED)
    build_backward_collective(b, "sum adapter gradient", COLLECTIVE_ALL_REDUCE, bytes, PASS_INPUT, FALSE);
  if (!b->passes->framework->adapter_scales_outputs)
    scale(b, bytes);
}

/* Added to what W made, and the gradient of x to W's. */
static void add_outputs(Build *b, double out_bytes, double in_bytes)
{
  build_stream(b, &(Stream) { .name = "add adapter", .forward_bytes = 3 * out_bytes, .forward_kernels = 1,
                              .backward_bytes = 3 * in_bytes, .backward_kernels = 1 });
}

/* An adapter whose output is `out` wide on this device where W's columns are divided. */
static void build_adapter(Build *b, const Linear *l, double out)
{
  double rank = b->passes->adapter.rank, tokens = l->rows, e = b->bytes;
  gboolean column = l->split == LINEAR_COLUMN, row = l->split == LINEAR_ROW;

  if (column && !l->no_gather)
    build_backward_sum(b, "sum adapter input gradient", tokens * l->in * e, FALSE);
  small_product(b, "adapter A", l->in, column ? rank / b->tp : rank, tokens, 0);
  join_small(b, l->split, tokens, rank);
  small_product(b, "adapter B", rank, row ? out / b->tp : out, tokens, tokens * rank * e);
  if (row)
    build_forward_collective(b, "gather adapter output", COLLECTIVE_ALL_GATHER, tokens * out * e);
  if (row && b->passes->sequence_parallel)
    build_backward_collective(b, "gather adapter output gradient", COLLECTIVE_ALL_GATHER, tokens * out * e, PASS_INPUT,
                              FALSE);
  if (b->passes->framework->adapter_scales_outputs)
    scale(b, tokens * out * e);
  add_outputs(b, (row ? b->rows : tokens) * out * e, tokens * l->in * e);
}

void build_adapters(Build *b, const Linear *l)
{
  const Adapter *a = &b->passes->adapter;
  AdaptedPart parts[ADAPTED_MAX];
  int n = build_adapts(b, l->matrix) ? adapter_parts(b->spec, b->model->hidden, parts) : 0;

  b->frozen = FALSE;
  for (int i = 0; i < n; i++)
    if (parts[i].matrix == l->matrix && a->targets >> parts[i].target & 1)
      build_adapter(b, l, l->out * parts[i].out / parts[i].of);
  b->frozen = TRUE;
}
