#include "op/op.h"

#include "op/build.h"

#include <math.h>

static void (*const builders[])(Build *) = {
  [LAYER_EMBEDDING] = build_embedding,
  [LAYER_BLOCK] = build_block,
  [LAYER_HEAD] = build_head,
  [LAYER_MTP] = build_mtp,
};

static double stream_tokens(const Plan *p, gboolean encoder)
{
  return (double)p->micro_batch * plan_stream_seq(p, encoder) / p->cp;
}

double op_tokens(const Plan *p)
{
  return stream_tokens(p, FALSE);
}

int op_layer_groups(const Plan *p)
{
  int apart = plan_experts_apart(p) ? (p->ep > 1) + (plan_expert_tensor(p) > 1) + (plan_expert_replicas(p) > 1) : 0;
  return apart + (p->tp > 1) + (p->cp > 1) + (plan_replicas(p) > 1) + (plan_shards(p) < plan_replicas(p));
}

double op_overhead_bytes(const Plan *p)
{
  return p->framework->context_bytes + (op_layer_groups(p) + (p->pp > 1)) * p->framework->group_bytes;
}

int op_vocab(const Model *model, const Plan *p)
{
  gint64 multiple = (gint64)p->framework->vocab_multiple * p->tp;
  return (int)((model->vocab + multiple - 1) / multiple * multiple);
}

static double stream_bytes(const Model *model, const Plan *p, gboolean encoder)
{
  return stream_tokens(p, encoder) * model->hidden * dtype_bytes[p->precision] / (p->sequence_parallel ? p->tp : 1);
}

double op_tied_bytes(const Model *model, const Plan *p)
{
  double width = model->embed_dim ? model->embed_dim : model->hidden;
  return op_vocab(model, p) / (double)p->tp * width * op_reduce_bytes(p);
}

double op_boundary_bytes(const Model *model, const Plan *p)
{
  return stream_bytes(model, p, TRUE);
}

double op_encoder_bytes(const Model *model, const Plan *p)
{
  return model->encoder_blocks ? stream_bytes(model, p, TRUE) : 0;
}

double op_boundary_bytes_at(const Model *model, const Plan *p, int layer)
{
  if (layer <= 1 + model->encoder_blocks)
    return stream_bytes(model, p, TRUE);
  return stream_bytes(model, p, FALSE) + op_encoder_bytes(model, p);
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
    return framework->product_operations * (narrow ? 2 : 1) + op->matmul.loops;
  case OP_ATTENTION:
    return 10;
  case OP_MEMORY:
    return op->memory.operations > 0 ? op->memory.operations : op->memory.kernels;
  default:
    return op->collective.group.size > 1 ? 4 : 0;
  }
}

double op_recompute_share(const Op *op, const LayerWork *work, const Plan *plan)
{
  if (work->recompute == RECOMPUTE_FULL && plan->framework->recompute_stops_early)
    return op - &g_array_index(work->forward, Op, 0) < work->recompute_end;
  if (work->recompute != RECOMPUTE_SELECTIVE)
    return work->recompute == RECOMPUTE_FULL;
  if (!plan->framework->selective_products)
    return (op->redone & recompute_modules(&plan->scope)) != 0;
  if (op - &g_array_index(work->forward, Op, 0) >= work->recompute_end && plan->framework->recompute_stops_early)
    return 0;
  switch (op->kind) {
  case OP_MATMUL: /* those in 8 bits are not on the list of what is kept */
    return op->matmul.dtype == DTYPE_FP8 ? 1 : 0.5;
  case OP_MEMORY:
    return 1;
  case OP_COLLECTIVE:
    return op->collective.what == COLLECTIVE_ALL_GATHER;
  default:
    return 0;
  }
}

void layer_work_pass(const LayerWork *work, const Plan *plan, Pass pass,
                     void (*run)(gpointer data, const Op *op, double share), gpointer data)
{
  for (guint i = 0; pass != PASS_WEIGHT && i < work->forward->len; i++) {
    const Op *op = &g_array_index(work->forward, Op, i);
    double share = pass == PASS_FORWARD ? 1 : op_recompute_share(op, work, plan);
    if (share > 0)
      run(data, op, share);
  }
  for (guint i = 0; pass != PASS_FORWARD && i < work->backward->len; i++) {
    const Op *op = &g_array_index(work->backward, Op, i);
    if (pass == PASS_BACKWARD || op->pass == pass)
      run(data, op, 1);
  }
}

/* Bytes of a layer but those that its modules drop. */
static double bytes_without_modules(const LayerWork *work, const Plan *plan)
{
  double kept = 0;

  for (guint i = 0; i < work->forward->len; i++) {
    const Op *op = &g_array_index(work->forward, Op, i);
    kept += op->dropped & recompute_modules(&plan->scope) ? 0 : op->saved_bytes;
  }
  return kept;
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
  gboolean dense = !b->spec->attention.kv_lora_rank && b->spec->ffn.experts == 0;
  double kept = b->rows * b->hidden * b->bytes + (dense && !plan_narrow(b->plan) ? bytes_of_every_other(b) : 0);

  for (guint i = 0; i < work->forward->len; i++) {
    const Op *op = &g_array_index(work->forward, Op, i);
    if (op->kind == OP_COLLECTIVE && op->collective.what == COLLECTIVE_REDUCE_SCATTER)
      kept += op->collective.bytes / b->tp * b->bytes /
              state_format_bytes(&b->plan->optimizer, STATE_TENSOR_REDUCE, b->bytes);
    else if (op->kind == OP_MATMUL && op->matmul.dtype == plan_dense_format(b->plan) && !dense)
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

/* Splits what forward ops save into what is kept and what is made again. */
static void apply_recompute(LayerWork *work, const Build *b)
{
  double all = 0;

  for (guint i = 0; i < work->forward->len; i++)
    all += g_array_index(work->forward, Op, i).saved_bytes;
  work->saved_bytes = all;
  work->recompute_end = find_recompute_end(work);
  work->recompute = build_has_block(b) ? b->plan->recompute : RECOMPUTE_NONE;
  if (work->recompute == RECOMPUTE_NONE)
    return;
  if (work->recompute == RECOMPUTE_FULL)
    work->saved_bytes = b->rows * b->hidden * b->bytes / (b->plan->partition_activations ? b->tp : 1) +
                        (b->spec->entry ? op_encoder_bytes(b->model, b->plan) : 0);
  else
    work->saved_bytes = b->plan->framework->selective_products ? bytes_of_products(work, b)
                                                                      : bytes_without_modules(work, b->plan);
  work->recomputed_bytes = MAX(0, all - work->saved_bytes);
}

/* But its groups. */
static Build build_of(LayerWork *work, const Model *model, const LayerSpec *spec, const Plan *plan)
{
  double tokens = stream_tokens(plan, spec->encoder), seq = plan_stream_seq(plan, spec->encoder);

  return (Build) {
    .work = work, .model = model, .spec = spec, .plan = plan, .attention = &spec->attention, .seq = seq, .keys = seq,
    .tp = plan->tp, .tokens = tokens,
    .rows = plan->sequence_parallel ? tokens / plan->tp : tokens, .bytes = dtype_bytes[plan->precision],
    .hidden = model->hidden, .replicas = plan_replicas(plan),
  };
}

void layer_work_recompute(LayerWork *work, const Model *model, const LayerSpec *spec, const Plan *plan)
{
  Build b = build_of(work, model, spec, plan);

  work->recomputed_bytes = 0;
  apply_recompute(work, &b);
}

void layer_work_init(LayerWork *work, const Model *model, const LayerSpec *spec, const Plan *plan,
                     const Cluster *cluster)
{
  Build b = build_of(work, model, spec, plan);

  b.tensor = mesh_group(plan, cluster, AXIS_TENSOR);
  b.context = mesh_group(plan, cluster, AXIS_CONTEXT);
  if (plan_experts_apart(plan)) {
    b.expert = mesh_expert_group(plan, cluster, EXPERT_PARALLEL);
    b.expert_tensor = mesh_expert_group(plan, cluster, EXPERT_TENSOR);
    b.expert_block = mesh_expert_block(plan, cluster);
  }
  *work = (LayerWork) {
    .matrices = optimizer_kind(&plan->optimizer)->orthogonal ? g_array_new(FALSE, FALSE, sizeof(OpMatrix)) : NULL,
    .forward = g_array_new(FALSE, FALSE, sizeof(Op)),
    .backward = g_array_new(FALSE, FALSE, sizeof(Op)),
  };
  builders[spec->kind](&b);
  if (plan->partition_activations && spec->kind == LAYER_BLOCK) /* reversed: runs first */
    build_backward_collective(&b, "gather checkpoint", COLLECTIVE_ALL_GATHER, b.rows * b.hidden * b.bytes, PASS_INPUT,
                              FALSE);
  reverse(work->backward);
  apply_recompute(work, &b);
}

void layer_work_clear(LayerWork *work)
{
  g_clear_pointer(&work->forward, g_array_unref);
  g_clear_pointer(&work->backward, g_array_unref);
  g_clear_pointer(&work->matrices, g_array_unref);
}
