#include "op/build.h"
#include "op/narrow.h"

#define SCALE_BYTES 4 /* fp32 */

static double spare_rows(const Build *b)
{
  return b->visits ? 1 - (1 - b->filling) / MAX(1, pass_expert_rows(b->passes)) : 0;
}

static void add_forward(Build *b, Op op)
{
  op.pass = PASS_FORWARD;
  op.redone |= b->redone;
  op.dropped |= b->dropped;
  op.part = b->part;
  op.spare = spare_rows(b);
  op.counted = b->counted;
  b->counted = FALSE;
  g_array_append_val(b->work->forward, op);
}

/* Backward ops are added in reverse order of running. */
static void add_backward(Build *b, Op op)
{
  op.saved_bytes = 0;
  op.redone = b->redone;
  op.part = b->part;
  op.spare = spare_rows(b);
  if (!b->frozen || op.pass != PASS_WEIGHT) /* nothing makes gradients of frozen weights */
    g_array_append_val(b->work->backward, op);
}

void build_enter(Build *b, RecomputeModule module)
{
  b->redone |= 1u << module;
  b->dropped |= 1u << module;
}

void build_leave(Build *b, RecomputeModule module)
{
  b->redone &= ~(1u << module);
  b->dropped &= ~(1u << module);
}

/* Small tensors stay whole on every rank. */
static void note_small(Build *b, double params)
{
  if (params < b->passes->persistence)
    b->work->whole += params;
}

static void add_tensor(Build *b, const Tensor *t)
{
  double params = t->rows * MAX(1, t->columns) * t->count;

  if (b->reused)
    return;
  if (b->frozen) {
    double bytes = adapter_frozen_bytes(&b->passes->adapter, b->passes->formats.precision, t->hidden && t->columns > 0);
    b->work->frozen[0] = frozen_sum(b->work->frozen[0], (Frozen) { params, params * bytes });
    return;
  }
  note_small(b, params);
  b->work->params += params;
  b->work->largest = MAX(b->work->largest, params);
  b->work->state_bytes[0] += optimizer_tensor_bytes(&b->passes->optimizer, t);
}

void build_params(Build *b, double params)
{
  add_tensor(b, &(Tensor) { params, 0, 1 });
}

void build_table(Build *b, double rows, double columns)
{
  add_tensor(b, &(Tensor) { rows, columns, 1 });
}

static void add_orthogonal(Build *b, const Linear *l)
{
  const double whole[] = { l->out }, *widths = l->parts[0] > 0 ? l->parts : whole;
  int n = l->parts[0] > 0 ? LINEAR_PARTS : 1;

  for (int i = 0; i < n; i++) {
    const OpMatrix m = { l->in, widths[i], l->batch, l->split };
    if (widths[i] > 0)
      g_array_append_val(b->work->matrices, m);
  }
}

static void add_matrices(Build *b, const Linear *l)
{
  double before = b->work->params;
  const Tensor t = { l->in, l->out, l->batch, .hidden = build_has_block(b) };

  add_tensor(b, &t);
  b->work->narrow[0] += linear_narrow(b, l) ? b->work->params - before : 0;
  if (b->work->matrices && t.hidden && !b->frozen && !b->reused)
    add_orthogonal(b, l);
}

static Op matmul(const Build *b, const char *name, Pass pass, double m, double n, double k, double batch)
{
  return (Op) {
    .name = name, .kind = OP_MATMUL, .pass = pass, .flops = 2 * m * n * k * batch,
    .matmul = { .m = m, .n = n, .k = k, .batch = batch, .dtype = formats_dense(&b->passes->formats) },
  };
}

static Op stream(const char *name, Pass pass, double bytes, double kernels)
{
  return (Op) { .name = name, .kind = OP_MEMORY, .pass = pass,
                .memory = { .bytes = bytes, .kernels = kernels, .operations = kernels } };
}

static Op collective(const Build *b, const char *name, Collective what, double bytes)
{
  return (Op) {
    .name = name, .kind = OP_COLLECTIVE,
    .collective = { .what = what, .bytes = bytes, .group = b->tensor, .axis = AXIS_TENSOR },
  };
}

void build_forward_collective(Build *b, const char *name, Collective what, double bytes)
{
  if (b->tp > 1)
    add_forward(b, collective(b, name, what, bytes));
}

void build_backward_collective(Build *b, const char *name, Collective what, double bytes, Pass pass, gboolean overlaps)
{
  Op op = collective(b, name, what, bytes);

  op.pass = pass;
  op.overlaps = overlaps;
  if (b->tp > 1)
    add_backward(b, op);
}

static Collective summing(const Build *b)
{
  return b->passes->sequence_parallel ? COLLECTIVE_REDUCE_SCATTER : COLLECTIVE_ALL_REDUCE;
}

static double sum_format_bytes(const Build *b)
{
  return b->passes->sum_bytes;
}

/* Traffic of casting what is summed: all of it before, what comes back behind. */
static double sum_cast_bytes(const Build *b, double bytes, gboolean behind)
{
  double format = sum_format_bytes(b), elements = bytes / b->bytes;

  if (b->tp <= 1 || format == b->bytes)
    return 0;
  b->work->transient_bytes = MAX(b->work->transient_bytes, elements * format);
  return elements / (behind && b->passes->sequence_parallel ? b->tp : 1) * (format + b->bytes);
}

void build_forward_sum(Build *b, const char *name, double bytes)
{
  double before = sum_cast_bytes(b, bytes, FALSE), behind = sum_cast_bytes(b, bytes, TRUE);

  if (before > 0)
    add_forward(b, stream("cast sum", PASS_FORWARD, before, 1));
  build_forward_collective(b, name, summing(b), bytes * sum_format_bytes(b) / b->bytes);
  if (behind > 0)
    add_forward(b, stream("cast sum", PASS_FORWARD, behind, 1));
}

void build_backward_sum(Build *b, const char *name, double bytes, gboolean overlaps)
{
  double before = sum_cast_bytes(b, bytes, FALSE), behind = sum_cast_bytes(b, bytes, TRUE);

  if (behind > 0)
    add_backward(b, stream("cast sum", PASS_INPUT, behind, 1));
  build_backward_collective(b, name, summing(b), bytes * sum_format_bytes(b) / b->bytes, PASS_INPUT, overlaps);
  if (before > 0)
    add_backward(b, stream("cast sum", PASS_INPUT, before, 1));
}

static Collective mirror_image(Collective what)
{
  switch (what) {
  case COLLECTIVE_ALL_GATHER:
    return COLLECTIVE_REDUCE_SCATTER;
  case COLLECTIVE_REDUCE_SCATTER:
    return COLLECTIVE_ALL_GATHER;
  default:
    return what;
  }
}

static Op exchange(const char *name, Collective what, double bytes, const GroupShape *group)
{
  return (Op) { .name = name, .kind = OP_COLLECTIVE, .pass = PASS_INPUT,
                .collective = { .what = what, .bytes = bytes, .group = *group, .axis = AXIS_EXPERT } };
}

void build_forward_exchange(Build *b, const char *name, Collective what, double bytes, const GroupShape *group)
{
  if (group->size > 1)
    add_forward(b, exchange(name, what, bytes, group));
}

void build_exchange(Build *b, const char *name, Collective what, double bytes, const GroupShape *group)
{
  build_forward_exchange(b, name, what, bytes, group);
  if (group->size > 1)
    add_backward(b, exchange(name, mirror_image(what), bytes, group));
}

void build_context_exchange(Build *b, const char *name, double bytes)
{
  Op op = exchange(name, COLLECTIVE_ALL_TO_ALL, bytes, &b->context);

  op.collective.axis = AXIS_CONTEXT;
  add_forward(b, op);
  add_backward(b, op);
}

static Op product(const Build *b, const Linear *l, Pass pass, double m, double n, double k)
{
  Op op = matmul(b, l->name, pass, m, n, k, l->batch);

  if (linear_narrow(b, l)) {
    op.matmul.dtype = formats_product(&b->passes->formats);
    op.matmul.promoted = pass != PASS_FORWARD && linear_promotes(b);
  }
  op.matmul.loops = linear_looped(b, l) ? l->batch : 0;
  return op;
}

gboolean build_groups(const Build *b)
{
  return b->passes->framework->grouped_kernels && pass_is_mxfp8_graph(b->passes);
}

static Op cast(const Build *b, const Linear *l, const char *name, Pass pass, double bytes, double kernels)
{
  Op op = stream(name, pass, bytes, kernels);

  op.memory.operations = linear_cast_operations(b, l, kernels);
  if (b->passes->formats.recipe == FP8_MXFP8)
    op.memory.kernel = "mx cast";
  return op;
}

static void cast_forward(Build *b, const Linear *l)
{
  double bytes = linear_cast_bytes(b, l);

  if (bytes > 0)
    add_forward(b, cast(b, l, "cast", PASS_FORWARD, bytes, linear_layout_kernels(b, l)));
}

static void cast_columns(Build *b, const Linear *l)
{
  double bytes = linear_column_bytes(b, l);

  if (bytes > 0)
    add_backward(b, cast(b, l, "cast columns", PASS_WEIGHT, bytes, linear_layout_kernels(b, l)));
}

static void transpose_gathered(Build *b, const Linear *l, double width, Pass pass)
{
  if (linear_transposes(b, l))
    add_backward(b, stream("transpose", pass, 2 * l->rows * width * l->batch, 1));
}

static void cast_backward(Build *b, const Linear *l)
{
  double rescaled = linear_rescale_bytes(b, l), bytes = linear_narrow(b, l) ? linear_cast_gradient_bytes(b, l) : 0;

  if (bytes > 0)
    add_backward(b, cast(b, l, "cast gradient", PASS_INPUT, bytes, linear_cast_kernels(b, l)));
  if (rescaled > 0)
    add_backward(b, stream("scale gradients", PASS_INPUT, rescaled, 2 * linear_cast_kernels(b, l)));
}

/* Where activations are batch first, rows that ranks gather or scatter are laid out anew behind or before it. */
static double row_copy_bytes(const Build *b, double bytes)
{
  return b->passes->framework->copied_rows && b->passes->sequence_parallel && b->tp > 1 ? 2 * bytes : 0;
}

static void copy_rows_forward(Build *b, double bytes)
{
  if (row_copy_bytes(b, bytes) > 0)
    add_forward(b, stream("copy rows", PASS_FORWARD, row_copy_bytes(b, bytes), 1));
}

static void copy_rows_backward(Build *b, double bytes, Pass pass)
{
  if (row_copy_bytes(b, bytes) > 0)
    add_backward(b, stream("copy rows", pass, row_copy_bytes(b, bytes), 1));
}

/* Whether norms are one kernel. */
static gboolean norm_is_fused(const Build *b)
{
  return b->model->norm != NORM_RMSNORM || b->passes->framework->fused_rms_norm;
}

static const char *norm_kernel(const Build *b, NormPlace place)
{
  static const char *const names[][3] = { [NORM_OF_BLOCK] = { "block norm", "block compiled norm", "block plain norm" },
                                          [NORM_OF_HEADS] = { "qk norm", "qk compiled norm", "qk plain norm" },
                                          [NORM_INSIDE] = { "norm", "compiled norm", "plain norm" } };
  const Framework *f = b->passes->framework;

  return norm_is_fused(b) ? names[place][f->compiled_norms ? 1 : f->plain_norms ? 2 : 0] : "norm in steps";
}

/* With scales of earlier steps a block's norm writes the format itself: columns, too, unless they are not wanted, or made
 * behind a gather (Transformer Engine's layernorm_linear.py). */
static void narrow_norm(Build *b, const Linear *l)
{
  GArray *ops = b->work->forward;
  Op *norm = ops->len > 0 ? &g_array_index(ops, Op, ops->len - 1) : NULL;
  gboolean writes = linear_writes_rows(b, l) && norm_is_fused(b) && norm && norm->kind == OP_MEMORY;

  if (writes && g_strcmp0(norm->memory.kernel, norm_kernel(b, NORM_OF_BLOCK)) == 0)
    norm->memory.bytes -= b->rows * l->in;
}

static gboolean into_core(AdapterMatrix matrix)
{
  return matrix == MATRIX_QKV || matrix == MATRIX_CROSS_Q || matrix == MATRIX_CROSS_KV;
}

/* Without sequence parallelism the sums are all-reduces; with it, the norms'
 * rows are gathered before a column-parallel product and scattered after a
 * row-parallel one (Korthikanti et al. 2022, section 4.2). */
static void linear_forward(Build *b, const Linear *l)
{
  Op op = product(b, l, PASS_FORWARD, l->rows, l->out, l->in);
  gboolean gathers = linear_gathers_input(b, l), early = gathers && linear_travels_narrow(b, l);

  narrow_norm(b, l);
  if (gathers && linear_meets_for_scale(b, l))
    build_forward_collective(b, "largest value", COLLECTIVE_ALL_REDUCE, SCALE_BYTES);
  if (early)
    cast_forward(b, l);
  if (gathers) {
    build_forward_collective(b, "gather rows", COLLECTIVE_ALL_GATHER, linear_gathered_bytes(b, l));
    copy_rows_forward(b, linear_gathered_bytes(b, l));
  }
  if (!early)
    cast_forward(b, l);
  op.saved_bytes = linear_saved(b, l) + linear_saved_weights(b, l);
  add_forward(b, op);
  if (l->bias && (b->passes->framework->separate_bias || (into_core(l->matrix) && b->passes->framework->qkv_bias_apart)))
    add_forward(b, stream("bias", PASS_FORWARD, 2 * l->rows * l->out * l->batch * b->bytes, 1));
  if (l->split == LINEAR_ROW && !l->no_reduce) {
    copy_rows_forward(b, build_activation_bytes(b));
    build_forward_sum(b, "sum rows", linear_scattered_bytes(b, l));
  }
}

/* Adds the weight gradient to what earlier micro-batches left: inside the
 * product, in a kernel behind it, or not at all where it is reduced at once. */
static void accumulate(Build *b, const Linear *l, Op *product)
{
  double weights = l->in * l->out * l->batch, bytes = b->passes->gradient_bytes;
  double copied = b->passes->shard_bytes[b->experts];

  if (copied > 0)
    add_backward(b, stream("shard copies", PASS_WEIGHT, weights * copied, 1));
  switch (b->passes->framework->accumulation) {
  case ACCUMULATE_FUSED:
    product->matmul.accumulate_bytes = weights * (2 * bytes - b->bytes);
    break;
  case ACCUMULATE_SEPARATE:
    add_backward(b, stream("gradient sum", PASS_WEIGHT, weights * (b->bytes + 2 * bytes), 1));
    break;
  default:
    break;
  }
}

static void linear_backward(Build *b, const Linear *l)
{
  gboolean overlaps = !b->frozen, early = linear_travels_narrow(b, l); /* overlaps: with its weights' gradient */
  Op weight_gradient = product(b, l, PASS_WEIGHT, l->in, l->out, l->rows);

  /* reversed: what is added last runs first */
  accumulate(b, l, &weight_gradient);
  if (l->bias)
    add_backward(b, stream("bias gradient", PASS_WEIGHT, l->rows * l->out * l->batch * b->bytes, 1));
  add_backward(b, weight_gradient);
  cast_columns(b, l);
  if (l->split == LINEAR_COLUMN && !l->no_gather) {
    for (int i = linear_input_sums(b, l); i > 0; i--)
      build_backward_sum(b, "sum input gradient", build_activation_bytes(b), overlaps);
    copy_rows_backward(b, build_activation_bytes(b), PASS_INPUT);
  }
  if (!l->leaf)
    add_backward(b, product(b, l, PASS_INPUT, l->rows, l->in, l->out));
  if (!linear_gathers_gradient(b, l) || !early)
    cast_backward(b, l);
  if (linear_gathers_input(b, l)) {
    transpose_gathered(b, l, l->in, PASS_WEIGHT);
    copy_rows_backward(b, linear_gathered_bytes(b, l), PASS_WEIGHT);
    build_backward_collective(b, "gather rows again", COLLECTIVE_ALL_GATHER, linear_gathered_bytes(b, l), PASS_WEIGHT,
                              overlaps);
  }
  if (linear_gathers_gradient(b, l)) {
    transpose_gathered(b, l, l->out, PASS_INPUT);
    copy_rows_backward(b, linear_gathered_gradient_bytes(b, l), PASS_INPUT);
    build_backward_collective(b, "gather output gradient", COLLECTIVE_ALL_GATHER, linear_gathered_gradient_bytes(b, l),
                              PASS_INPUT, FALSE);
    if (early)
      cast_backward(b, l);
    if (linear_meets_for_scale(b, l))
      build_backward_collective(b, "largest value", COLLECTIVE_ALL_REDUCE, SCALE_BYTES, PASS_INPUT, FALSE);
  }
}

void build_linear(Build *b, const Linear *l)
{
  double made = l->rows * l->out * l->batch * b->bytes;
  gboolean needed = !b->frozen || build_adapts(b, l->matrix); /* its input, for weight gradients */

  if (b->frozen)
    build_unpacked(b, l);
  linear_forward(b, l);
  linear_backward(b, l);
  b->work->gradient_bytes += made;
  b->work->deferred_bytes += (needed ? linear_saved(b, l) : 0) + (b->frozen ? 0 : made);
  add_matrices(b, l);
  if (b->spec->kind != LAYER_HEAD)
    build_placeholder(b, l->in, l->out, l->batch);
  if (l->bias)
    build_params(b, l->out * l->batch);
  if (b->frozen)
    build_adapters(b, l);
}

void build_product(Build *b, const char *name, double m, double n, double k, double batch)
{
  Op forward = matmul(b, name, PASS_FORWARD, m, n, k, batch);

  Op left = matmul(b, name, PASS_INPUT, m, k, n, batch), right = matmul(b, name, PASS_INPUT, k, n, m, batch);

  forward.matmul.activations = left.matmul.activations = right.matmul.activations = TRUE;
  add_forward(b, forward);
  add_backward(b, right);
  add_backward(b, left);
}

static Op block_product(const Build *b, const BlockProduct *p, Pass pass, gboolean scores)
{
  double rows = p->blocks * p->side;
  Op op = matmul(b, p->name, pass, rows, scores ? p->side : p->inner, scores ? p->inner : p->side, 1);

  op.matmul.block = p->side;
  op.matmul.bytes = p->dense_bytes + rows * p->side * b->bytes;
  return op;
}

/* The gradients of scores are products of blocks with dense matrices; of context, one is like scores. */
void build_block_product(Build *b, const BlockProduct *p)
{
  add_forward(b, block_product(b, p, PASS_FORWARD, p->scores));
  add_backward(b, block_product(b, p, PASS_INPUT, FALSE));
  add_backward(b, block_product(b, p, PASS_INPUT, !p->scores));
}

void build_stream(Build *b, const Stream *s)
{
  Op forward = stream(s->name, PASS_FORWARD, s->forward_bytes, s->forward_kernels);

  Op backward = stream(s->name, s->weights ? PASS_WEIGHT : PASS_INPUT, s->backward_bytes, s->backward_kernels);

  if (s->forward_operations > 0)
    forward.memory.operations = s->forward_operations;
  if (s->backward_operations > 0)
    backward.memory.operations = s->backward_operations;
  forward.memory.kernel = backward.memory.kernel = s->kernel;
  forward.saved_bytes = s->saved;
  forward.block_bytes = s->block;
  add_forward(b, forward);
  if (s->backward_bytes > 0)
    add_backward(b, backward);
}

void build_entry(Build *b)
{
  gboolean sp = b->passes->sequence_parallel;

  if (sp)
    build_forward_collective(b, "gather rows", COLLECTIVE_ALL_GATHER, build_activation_bytes(b));
  build_backward_sum(b, "sum input gradient", build_activation_bytes(b), FALSE);
}

void build_exit(Build *b)
{
  gboolean sp = b->passes->sequence_parallel;

  build_forward_sum(b, "sum rows", build_activation_bytes(b));
  if (sp)
    build_backward_collective(b, "gather output gradient", COLLECTIVE_ALL_GATHER, build_activation_bytes(b), PASS_INPUT,
                              FALSE);
}

/* Of a value, step by step: cast, square, mean, scale, cast and weight forward; their gradients backward; fp32 inside. */
#define STEPS 7
#define STEPS_BACKWARD 10
static double steps_bytes(const Build *b) { return 6 * b->bytes + 24; }
static double steps_backward_bytes(const Build *b) { return 10 * b->bytes + 48; }

void build_norms(Build *b, NormPlace place, int norms, double elements, Stream norm)
{
  norm.kernel = norm_kernel(b, place);
  if (!norm_is_fused(b)) {
    norm.forward_bytes = steps_bytes(b) * elements;
    norm.backward_bytes = steps_backward_bytes(b) * elements;
    norm.forward_kernels = STEPS * norms;
    norm.backward_kernels = STEPS_BACKWARD * norms;
  }
  build_stream(b, &norm);
}

void build_norm(Build *b, const char *name)
{
  double elements = b->rows * b->hidden;

  /* forward reads and writes; backward reads input and gradient and writes, and
   * joins the gradient that came through the residual */
  gboolean one = norm_is_fused(b), copies = one && b->passes->framework->wide_norm_inputs;
  double in = copies ? MAX(b->bytes, dtype_bytes[DTYPE_FP32]) : b->bytes, cast = in > b->bytes ? in + b->bytes : 0;
  guint again = 1u << MODULE_LAYERNORM | build_checkpoints_norms(b);
  b->redone |= again;
  if (cast > 0)
    build_stream(b, &(Stream) { .name = "norm input cast", .forward_bytes = cast * elements, .forward_kernels = 1,
                                .backward_bytes = cast * elements, .backward_kernels = 1 });
  build_stream(b, &(Stream) {
    .name = name, .kernel = norm_kernel(b, NORM_OF_BLOCK),
    .forward_bytes = (one ? in + b->bytes : steps_bytes(b)) * elements, .forward_kernels = one ? 1 : STEPS,
    .backward_bytes = (3 * b->bytes + (one ? 2 * in + b->bytes : steps_backward_bytes(b))) * elements,
    .backward_kernels = one ? 3 : STEPS_BACKWARD + 1,
    .saved = in * elements + dtype_bytes[DTYPE_FP32] * b->passes->framework->norm_row_values * b->rows,
  });
  b->redone &= ~again;
  build_params(b, b->hidden * norm_vectors(b->model));
}

void build_inner_norm(Build *b, const char *name, double rows, double width)
{
  double bytes = b->bytes * rows * width, wide = dtype_bytes[DTYPE_FP32];

  build_norms(b, NORM_INSIDE, 1, rows * width, (Stream) { .name = name, .forward_bytes = 2 * bytes, .forward_kernels = 1,
                                                          .backward_bytes = 4 * bytes, .backward_kernels = 2,
                                                          .saved = bytes + wide * rows });
  build_forward_collective(b, "sum squares", COLLECTIVE_ALL_REDUCE, wide * rows);
  build_backward_collective(b, "sum squares gradient", COLLECTIVE_ALL_REDUCE, wide * rows, PASS_INPUT, FALSE);
}

void build_scales(Build *b, const char *name, double bytes, double params, int kernels)
{
  build_stream(b, &(Stream) { .name = name, .forward_bytes = 2 * bytes, .forward_kernels = kernels,
                              .backward_bytes = 5 * bytes, .backward_kernels = 3 * kernels, .saved = bytes });
  build_params(b, params);
}

void build_residual(Build *b)
{
  double elements = b->rows * b->hidden, e = b->bytes;
  gboolean dropout = b->model->dropout, fused = b->passes->framework->fused_dropout_add;
  double mask = dropout ? elements : 0;

  build_stream(b, &(Stream) {
    .name = "residual",
    .forward_bytes = (fused || !dropout ? 3 * e : 7 * e) * elements + mask,
    .forward_kernels = fused || !dropout ? 1 : 3,
    .backward_bytes = dropout ? 2 * e * elements + mask : 0,
    .backward_kernels = 1,
    .saved = mask,
  });
}

void build_wide_convolution(Build *b, const char *name, double rows, double width, int taps, int kernels)
{
  double elements = rows * width;

  if (!taps)
    return;
  build_stream(b, &(Stream) { .name = name, .forward_bytes = (2 * b->bytes + 6 * WIDE) * elements,
                              .forward_kernels = kernels, .backward_bytes = (2 * b->bytes + 8 * WIDE) * elements,
                              .backward_kernels = kernels, .saved = WIDE * elements });
  build_params(b, taps * width);
}
