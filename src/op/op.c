#include "op/op.h"

#include "op/build.h"
#include "op/fp8.h"

static void (*const builders[])(Build *) = {
  [LAYER_EMBEDDING] = build_embedding,
  [LAYER_BLOCK] = build_block,
  [LAYER_HEAD] = build_head,
  [LAYER_MTP] = build_mtp,
};

static double stream_tokens(const PassLayout *p, gboolean encoder)
{
  return (double)p->micro_batch * pass_seq(p, encoder) / p->cp;
}

double op_tokens(const PassLayout *p)
{
  return stream_tokens(p, FALSE);
}

int op_layer_groups(const Layout *l)
{
  const PassLayout *p = &l->passes;
  int apart = p->experts_apart ? (p->ep > 1) + (p->etp > 1) + l->states[1].sums : 0;

  return apart + (p->tp > 1) + (p->cp > 1) + l->states[0].sums + (l->states[0].copies > 1);
}

double op_overhead_bytes(const Layout *l)
{
  const Framework *f = l->passes.framework;
  gboolean stages = l->pipeline.shape.ranks > 1;
  double graphs = l->passes.graph == GRAPH_NONE ? 0 : stages ? f->stage_graph_bytes : f->graph_bytes;

  return f->context_bytes + (op_layer_groups(l) + stages) * f->group_bytes + graphs;
}

static int padded(int rows, const PassLayout *p)
{
  gint64 multiple = (gint64)p->framework->vocab_multiple * p->tp;
  return (int)((rows + multiple - 1) / multiple * multiple);
}

int op_vocab(const Model *model, const PassLayout *p)
{
  return padded(model->vocab, p);
}

int op_embedding_rows(const Model *model, const PassLayout *p)
{
  return padded(model->encoder_vocab ? model->encoder_vocab : model->vocab, p);
}

static double row_bytes(const Model *model, const PassLayout *p, double tokens)
{
  return tokens * model_stream_bytes(model, dtype_bytes[p->formats.precision]) /
         (p->sequence_parallel ? p->tp : 1);
}

double op_tied_bytes(const Model *model, const Layout *l)
{
  double width = model->embed_dim ? model->embed_dim : model->hidden;
  return op_vocab(model, &l->passes) / (double)l->passes.tp * width * l->states[0].reduce_bytes /
         l->states[0].gradient_parts;
}

double op_boundary_bytes(const Model *model, const PassLayout *p)
{
  return row_bytes(model, p, stream_tokens(p, TRUE) + (double)p->micro_batch * model->prompts);
}

double op_encoder_bytes(const Model *model, const PassLayout *p)
{
  return model->encoder_blocks ? op_boundary_bytes(model, p) : 0;
}

double op_boundary_bytes_at(const Model *model, const PassLayout *p, int layer)
{
  double along = (double)p->micro_batch * model->global_rows;

  if (layer <= model->encoder_blocks)
    return op_boundary_bytes(model, p) + row_bytes(model, p, along);
  if (layer == 1 + model->encoder_blocks)
    return op_boundary_bytes(model, p);
  return row_bytes(model, p, stream_tokens(p, FALSE) + (double)p->micro_batch * model->prompts) +
         op_encoder_bytes(model, p);
}

static void reverse(GArray *ops)
{
  for (guint i = 0, j = ops->len; i + 1 < j; i++) {
    Op swap = g_array_index(ops, Op, i);
    g_array_index(ops, Op, i) = g_array_index(ops, Op, --j);
    g_array_index(ops, Op, j) = swap;
  }
}

double op_operations(const Op *op, const Framework *framework)
{
  gboolean narrow = op->matmul.dtype == DTYPE_FP8 || op->matmul.dtype == DTYPE_FP4;

  switch (op->kind) {
  case OP_MATMUL:
    return (narrow ? framework->narrow_product_operations : framework->product_operations) + op->matmul.loops;
  case OP_ATTENTION:
    return 10;
  case OP_MEMORY:
    return op->memory.operations;
  default:
    return op->collective.group.size > 1 ? 4 : 0;
  }
}

/* Whether recomputation of products keeps outputs of those in a format: of 8 bits where the framework's list names them,
 * of 4 not, which run inside a function of their own (torchao, nvfp4_linear.py). */
static gboolean keeps_products(const Framework *f, DType format)
{
  return format != DTYPE_FP4 && (format != DTYPE_FP8 || f->selective_narrow);
}

double op_recompute_share(const Op *op, const LayerWork *work, const PassLayout *passes)
{
  const Framework *framework = passes->framework;

  if (work->recompute != RECOMPUTE_NONE && framework->recompute_stops_early &&
      op - &g_array_index(work->forward, Op, 0) >= work->recompute_end)
    return 0;
  if (work->recompute == RECOMPUTE_NONE)
    return (op->redone & OP_CHECKPOINTED) != 0;
  if (work->recompute == RECOMPUTE_FULL)
    return 1;
  if (!framework->selective_products)
    return (op->redone & (recompute_modules(&passes->recompute.scope) | OP_CHECKPOINTED)) != 0;
  switch (op->kind) {
  case OP_MATMUL:
    return keeps_products(framework, op->matmul.dtype) ? 0.5 : 1;
  case OP_MEMORY:
    return 1;
  case OP_COLLECTIVE:
    return op->collective.what == COLLECTIVE_ALL_GATHER;
  default:
    return 0;
  }
}

void layer_work_pass(const LayerWork *work, const PassLayout *passes, Pass pass,
                     void (*run)(gpointer data, const Op *op, double share), gpointer data)
{
  for (guint i = 0; pass != PASS_WEIGHT && i < work->forward->len; i++) {
    const Op *op = &g_array_index(work->forward, Op, i);
    double share = pass == PASS_FORWARD ? 1 : op_recompute_share(op, work, passes);
    if (share > 0)
      run(data, op, share);
  }
  for (guint i = 0; pass != PASS_FORWARD && i < work->backward->len; i++) {
    const Op *op = &g_array_index(work->backward, Op, i);
    if (pass == PASS_BACKWARD || op->pass == pass)
      run(data, op, 1);
  }
}

/* Of a layer that is not made again as a whole: functions that are checkpointed by themselves keep what goes in. */
static double kept_bytes(const Op *op, const Build *b)
{
  double input = b->bytes * b->rows * b->hidden;

  return op->redone & OP_CHECKPOINTED ? MIN(op->saved_bytes, input) : op->saved_bytes;
}

/* Bytes of a layer but those that its modules drop. */
static double bytes_without_modules(const LayerWork *work, const Build *b)
{
  double kept = 0;

  for (guint i = 0; i < work->forward->len; i++) {
    const Op *op = &g_array_index(work->forward, Op, i);
    kept += op->dropped & recompute_modules(&b->passes->recompute.scope) ? 0 : kept_bytes(op, b);
  }
  return kept;
}

static double largest_kept(const LayerWork *work, const PassLayout *passes)
{
  const Framework *f = passes->framework;
  gboolean narrow = passes->gradient_bytes < dtype_bytes[DTYPE_FP32];
  gboolean asked = f->updated_lists || (f->step_gradients == STEP_COPIED && narrow);
  guint dropped = work->recompute == RECOMPUTE_NONE ? 0 : recompute_modules(&passes->recompute.scope);
  double most = 0;

  for (guint i = 0; i < work->forward->len && asked; i++) {
    const Op *op = &g_array_index(work->forward, Op, i);
    double largest = op->block_bytes > 0 ? op->block_bytes : op->saved_bytes;
    most = op->dropped & dropped ? most : MAX(most, largest);
  }
  return MIN(most, work->saved_bytes);
}

/* Bytes of the outputs of the first, third, ... product of a block: queries,
 * keys, values, projection, gate, up, down. */
static double bytes_of_every_other(const Build *b)
{
  const Attention *a = &b->spec->attention;
  double width = b->spec->ffn.width / b->tp, out = b->hidden * b->rows / b->tokens, kept = 0;
  const double widths[] = { a->heads / b->tp * a->head_dim, a->kv_heads / b->tp * a->head_dim,
                            a->kv_heads / b->tp * a->v_head_dim, out, width,
                            b->spec->ffn.kind == MLP_SWIGLU ? width : out, b->spec->ffn.kind == MLP_SWIGLU ? out : 0 };

  for (gsize i = 0; i < G_N_ELEMENTS(widths); i += 2)
    kept += widths[i] * b->tokens * b->bytes;
  return kept;
}

/* The layer's input, attention's output, what ranks scatter and every other 16-bit product's output; of
 * other blocks than dense ones with grouped queries, half of all products'. */
static double bytes_of_products(const LayerWork *work, const Build *b)
{
  gboolean dense = b->spec->attention.heads > 0 && !b->spec->attention.kv_lora_rank && b->spec->ffn.width > 0 &&
                   b->spec->ffn.experts == 0 && !b->spec->branch;
  gboolean keeps = keeps_products(b->passes->framework, formats_product(&b->passes->formats));
  double kept = b->rows * b->hidden * b->bytes + (dense && keeps ? bytes_of_every_other(b) : 0);

  for (guint i = 0; i < work->forward->len; i++) {
    const Op *op = &g_array_index(work->forward, Op, i);
    if (op->kind == OP_COLLECTIVE && op->collective.what == COLLECTIVE_REDUCE_SCATTER)
      kept += op->collective.bytes / b->tp * b->bytes /
              b->passes->sum_bytes;
    else if (op->kind == OP_MATMUL && op->matmul.dtype == formats_dense(&b->passes->formats) && !dense)
      kept += 0.5 * op->matmul.m * op->matmul.n * op->matmul.batch * b->bytes;
    else if (op->kind == OP_ATTENTION)
      kept += op->saved_bytes + b->tokens * op->attention.heads * op->attention.v_head_dim * b->bytes;
  }
  return kept;
}

/* Behind the last op that keeps something: products keep what they read, the
 * others what they make. */
static int find_recompute_end(const LayerWork *work)
{
  int end = work->forward->len;

  while (end > 0 && !(g_array_index(work->forward, Op, end - 1).saved_bytes > 0))
    end--;
  return end > 0 && g_array_index(work->forward, Op, end - 1).kind == OP_MATMUL ? end - 1 : end;
}

/* A block that gradients pass: its input may be made again, and beside its gradients stands that of the stream. */
static gboolean block_is_passed(const Build *b)
{
  return build_has_block(b) && !b->spec->detached;
}

/* Splits what forward ops save into what is kept and what is made again. */
static void apply_recompute(LayerWork *work, const Build *b)
{
  double all = 0, kept = 0;

  for (guint i = 0; i < work->forward->len; i++) {
    const Op *op = &g_array_index(work->forward, Op, i);
    all += op->saved_bytes;
    kept += kept_bytes(op, b);
  }
  work->saved_bytes = all;
  work->recompute_end = find_recompute_end(work);
  work->recompute = block_is_passed(b) ? b->passes->recompute.granularity : RECOMPUTE_NONE;
  if (work->recompute == RECOMPUTE_NONE)
    work->saved_bytes = kept;
  else if (work->recompute == RECOMPUTE_FULL)
    work->saved_bytes = b->rows * model_stream_bytes(b->model, b->bytes) /
                          (b->passes->partition_activations ? b->tp : 1) +
                        (b->spec->entry ? op_encoder_bytes(b->model, b->passes) : 0);
  else if (work->recompute == RECOMPUTE_SELECTIVE)
    work->saved_bytes = b->passes->framework->selective_products ? bytes_of_products(work, b)
                                                                      : bytes_without_modules(work, b);
  work->recomputed_bytes = MAX(0, all - work->saved_bytes);
  work->block_bytes = largest_kept(work, b->passes);
}

/* Gradients of scores (attention.c) beside all that the layer keeps: less what lies behind the core, which a backward
 * has given back by then and a forward has yet to make. Where weights' gradients are made in passes of their own, it
 * stays. Beside any gradient inside a block stands that of its residual stream. */
static void add_gradients(LayerWork *work, const Build *b)
{
  double behind = 0;

  for (guint i = b->scores_end; i < work->forward->len; i++)
    behind += g_array_index(work->forward, Op, i).saved_bytes;
  double beside = MAX(work->transient_bytes, b->scores_bytes - behind);
  work->split_bytes = MAX(work->transient_bytes, b->scores_bytes) - beside;
  work->transient_bytes = beside;
  if (block_is_passed(b))
    work->transient_bytes += b->rows * model_stream_bytes(b->model, b->bytes);
}

/* But its groups and what the device decides. */
static Build build_of(LayerWork *work, const Model *model, const LayerSpec *spec, const PassLayout *passes)
{
  double along = (double)passes->micro_batch * (spec->global_tokens + spec->prompts);
  double tokens = stream_tokens(passes, spec->encoder) + along, seq = pass_seq(passes, spec->encoder) + spec->prompts;

  return (Build) {
    .work = work, .model = model, .spec = spec, .passes = passes, .attention = &spec->attention, .seq = seq,
    .keys = seq, .tp = passes->tp, .tokens = tokens,
    .rows = passes->sequence_parallel ? tokens / passes->tp : tokens, .bytes = dtype_bytes[passes->formats.precision],
    .frozen = adapter_freezes(&passes->adapter), .reused = spec->reused, .hidden = model->hidden,
    .routed = spec->ffn.latent ? spec->ffn.latent : model->hidden,
  };
}

void layer_work_recompute(LayerWork *work, const Model *model, const LayerSpec *spec, const PassLayout *passes)
{
  Build b = build_of(work, model, spec, passes);

  work->recomputed_bytes = 0;
  apply_recompute(work, &b);
}

static void drop_backward(LayerWork *work)
{
  g_array_set_size(work->backward, 0);
  work->deferred_bytes = 0;
  for (guint i = 0; i < work->forward->len; i++)
    g_array_index(work->forward, Op, i).saved_bytes = 0;
}

static GArray *matrices_for(GArray *room, const PassLayout *passes)
{
  gboolean wanted = optimizer_kind(&passes->optimizer)->orthogonal;

  if (wanted)
    return room ? g_array_set_size(room, 0) : g_array_new(FALSE, FALSE, sizeof(OpMatrix));
  g_clear_pointer(&room, g_array_unref);
  return NULL;
}

/* Into arrays that are empty. */
static void fill_work(LayerWork *work, const Model *model, const LayerSpec *spec, const PassLayout *passes,
                      const Cluster *cluster)
{
  Build b = build_of(work, model, spec, passes);

  b.kernel = framework_attention(passes->framework, passes->attention, &cluster->device);
  b.network_tier = cluster->network_tier;
  b.one_layout = fp8_one_layout(&passes->formats, &cluster->device);
  b.tensor = pass_group(passes, cluster, RANKS_TENSOR);
  b.context = pass_group(passes, cluster, RANKS_CONTEXT);
  b.context_inner = pass_group(passes, cluster, RANKS_CONTEXT_INNER);
  b.context_outer = pass_group(passes, cluster, RANKS_CONTEXT_OUTER);
  if (passes->experts_apart) {
    b.expert = pass_group(passes, cluster, RANKS_EXPERT);
    b.expert_tensor = pass_group(passes, cluster, RANKS_EXPERT_TENSOR);
    b.expert_block = pass_group(passes, cluster, RANKS_EXPERT_BLOCK);
  }
  builders[spec->kind](&b);
  add_gradients(work, &b);
  if (spec->detached || (b.frozen && spec->kind == LAYER_EMBEDDING)) /* which no gradient reaches */
    drop_backward(work);
  if (passes->framework->executor_memory)
    build_scratch(&b);
  if (passes->partition_activations && spec->kind == LAYER_BLOCK) /* reversed: runs first */
    build_backward_collective(&b, "gather checkpoint", COLLECTIVE_ALL_GATHER,
                              b.rows * model_stream_bytes(model, b.bytes), PASS_INPUT, FALSE);
  reverse(work->backward);
  apply_recompute(work, &b);
}

/* Ops that a pass of a layer seldom has more than. */
#define OPS_USUAL 64

void layer_work_init(LayerWork *work, const Model *model, const LayerSpec *spec, const PassLayout *passes,
                     const Cluster *cluster)
{
  *work = (LayerWork) {
    .forward = g_array_sized_new(FALSE, FALSE, sizeof(Op), OPS_USUAL),
    .backward = g_array_sized_new(FALSE, FALSE, sizeof(Op), OPS_USUAL),
    .matrices = matrices_for(NULL, passes),
  };
  fill_work(work, model, spec, passes, cluster);
}

void layer_work_renew(LayerWork *work, const Model *model, const LayerSpec *spec, const PassLayout *passes,
                      const Cluster *cluster)
{
  *work = (LayerWork) {
    .forward = g_array_set_size(work->forward, 0),
    .backward = g_array_set_size(work->backward, 0),
    .matrices = matrices_for(work->matrices, passes),
  };
  fill_work(work, model, spec, passes, cluster);
}

void layer_work_clear(LayerWork *work)
{
  g_clear_pointer(&work->forward, g_array_unref);
  g_clear_pointer(&work->backward, g_array_unref);
  g_clear_pointer(&work->matrices, g_array_unref);
}
