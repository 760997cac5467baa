/* Choices within ZeRO and of offloading: which plans may take them, and what nodes must hold for them. */
#include "plan/check.h"
#include "plan/keys.h"

/* What only ZeRO-3 has a meaning for. */
static const PlanChoice stage_3[] = { CHOICE_PREFETCH, CHOICE_LIVE, CHOICE_PERSISTENCE, CHOICE_RESHARD, CHOICE_HPZ,
                                          CHOICE_QWZ, CHOICE_QGZ, CHOICE_TILING };

void plan_lower(Plan *plan, int zero)
{
  plan->zero = zero;
  for (gsize i = 0; i < G_N_ELEMENTS(stage_3) && zero < 3; i++)
    plan_leave(plan, stage_3[i]);
  if (zero < 3)
    plan_leave(plan, CHOICE_OFFLOAD_PARAMETERS);
  if (zero == 0) {
    plan->shard_group = 0;
    plan_leave(plan, CHOICE_OFFLOAD_OPTIMIZER);
    plan_leave(plan, CHOICE_SUB_GROUP);
  }
}

void plan_raise(Plan *plan, int zero, const Framework *framework)
{
  plan->sharding.keeps_gathered |= plan->zero < 3 && zero == 3 && framework_offers(framework, CHOICE_RESHARD);
  plan->zero = zero;
}

/* ---- one process for all devices ---- */

gboolean check_process(const Subject *s, GError **error)
{
  const Plan *p = s->plan;

  if (!p->framework->single_process)
    return TRUE;
  if (p->gpus > s->cluster->devices_per_node)
    return broken(error, "gpus: %d: expected at most the %d of a node, %s is one process and cannot span machines",
                  p->gpus, s->cluster->devices_per_node, p->framework->name);
  if (p->gpus != p->dp)
    return broken(error, "data_parallel_size: %d: expected all %d GPUs, %s has data parallelism only", p->dp,
                  p->gpus, p->framework->name);
  return TRUE;
}

/* ---- choices of sharding ---- */

gboolean check_engine(const Subject *s, int from, int to, GError **error)
{
  for (int i = from; i < to; i++)
    if (plan_takes(s->plan, i) && !framework_offers(s->plan->framework, i))
      return broken(error, "%s: expected nothing, %s does not run it", plan_choice_name(i), s->plan->framework->name);
  return TRUE;
}

static gboolean check_zero3(const Subject *s, GError **error)
{
  for (gsize i = 0; i < G_N_ELEMENTS(stage_3); i++)
    if (plan_takes(s->plan, stage_3[i]) && s->plan->zero < 3)
      return broken(error, "%s: expected zero_stage 3, it is %d", plan_choice_name(stage_3[i]), s->plan->zero);
  return TRUE;
}

static gboolean check_secondary(const Subject *s, GError **error)
{
  const Plan *p = s->plan;
  int secondary = p->sharding.secondary, shards = plan_shards(p);

  if (secondary == 0)
    return TRUE;
  if (secondary >= shards || shards % secondary != 0)
    return broken(error, "zero_hpz_partition_size: %d: expected a divisor of the %d ranks over which ZeRO divides, "
                  "and fewer than these", secondary, shards);
  if (plan_experts_apart(p) && (gint64)secondary * p->tp % ((gint64)p->ep * plan_expert_tensor(p)) != 0)
    return broken(error, "zero_hpz_partition_size: %d: expected that the ranks of expert parallel %d, each expert on "
                         "%d, "
                  "divide these with their tensor-parallel ones", secondary, p->ep, plan_expert_tensor(p));
  if (p->offload.parameters || p->sharding.keeps_gathered)
    return broken(error, "zero_hpz_partition_size: %d: expected nothing where %s", secondary,
                  p->offload.parameters ? "weights are on the host" : "weights stay gathered for the backward");
  return TRUE;
}

gboolean check_sharding(const Subject *s, GError **error)
{
  const Plan *p = s->plan;

  if (!check_engine(s, CHOICE_BUCKET, CHOICE_OFFLOAD_OPTIMIZER, error) || !check_zero3(s, error) ||
      !check_secondary(s, error))
    return FALSE;
  if ((p->sharding.quantized_weights || p->sharding.quantized_gradients) &&
      (p->precision == DTYPE_FP32 || plan_narrow(p)))
    return broken(error, "zero_quantized_%s: expected precision bf16 or fp16",
                  p->sharding.quantized_weights ? "weights" : "gradients");
  if (p->sharding.no_sync && p->zero >= 2 && p->offload.optimizer)
    return broken(error, "no_sync: true: expected false where gradients of zero_stage %d go to the host", p->zero);
  return TRUE;
}

/* ---- what is outside of the devices ---- */

/* fp32 master weight, two moments, gradient, of Adam as usual */
#define HOST_STATE_BYTES 16.0

/* DeepSpeed's aio buffers for weights: buffer_count 5 of buffer_size 1e8. */
#define NVME_BUFFER_PARAMS 5e8

/* What a pipeline rank has of the model: parameters that are trained, bytes of those that are not, and blocks that keep
 * anything for a backward. */
typedef struct {
  double trained, frozen_bytes, blocks;
} Held;

/* A layer whose weights are another one's holds a copy where that is on another rank. */
static void hold(Held *h, const Plan *p, const Model *model, const LayerSpec *spec, gboolean copies)
{
  double copy = copies ? (double)spec->tied_params : 0;
  gboolean frozen = adapter_freezes(&p->adapter);

  h->trained += adapter_layer_trained(&p->adapter, spec, model->hidden) + (frozen ? 0 : copy);
  h->frozen_bytes += adapter_layer_frozen_bytes(&p->adapter, spec, p->precision) +
                     (frozen ? copy * adapter_frozen_bytes(&p->adapter, p->precision, FALSE) : 0);
  h->blocks += spec->kind == LAYER_BLOCK && !spec->detached;
}

/* Of each of the ranks alike: where embedding and head are spread over them, and where no rule has found yet that layers
 * divide by stages, or how. */
static Held mean_held(const Plan *p, const Model *model)
{
  Held h = { 0 };

  for (int i = 0; i < model->n_layers; i++)
    hold(&h, p, model, model_layer(model, i), FALSE);
  return (Held) { h.trained / p->pp, h.frozen_bytes / p->pp, h.blocks / p->pp };
}

static gboolean stages_are_known(const Plan *p, const Model *model)
{
  int stages = plan_stages(p);

  if (p->schedule->vocabulary || p->split_rank)
    return FALSE;
  return p->split.stages ? p->split.stages == stages && split_layers(&p->split) == model->blocks
                         : model->blocks % stages == 0;
}

/* Where stages are known. */
static Held held_by(const Plan *p, const Model *model, int rank)
{
  const ScheduleShape shape = plan_shape(p);
  gboolean first = FALSE;
  Held h = { 0 };

  for (int chunk = 0; chunk < p->vpp; chunk++)
    first |= schedule_stage(p->schedule, &shape, rank, chunk) == 0;
  for (int chunk = 0; chunk < p->vpp; chunk++) {
    int stage = schedule_stage(p->schedule, &shape, rank, chunk);
    int end = plan_stage_first_layer(p, model, stage + 1);
    for (int i = plan_stage_first_layer(p, model, stage); i < end; i++)
      hold(&h, p, model, model_layer(model, i), !first);
  }
  return h;
}

/* Inputs of the blocks of a rank that are in flight. */
static double checkpoint_bytes(const Plan *p, const Model *model, int rank, double blocks)
{
  ScheduleShape shape = plan_shape(p);
  double tokens = (double)p->micro_batch * p->seq / p->cp;
  double divided = p->sequence_parallel || p->partition_activations ? p->tp : 1;

  return tokens * model_stream_bytes(model, dtype_bytes[p->precision]) / divided *
         schedule_peak(p->schedule, &shape, rank) * blocks / p->vpp;
}

/* Bytes of a token that a block keeps: inputs of norms, queries, keys, values and the core's output, what a gate is
 * multiplied with, masks of dropout, and inputs of products, rows of experts among them, in the format of these. Behind
 * a branch, whose attention reads the embedding too, are two products more. */
static double kept_bytes(const Plan *p, const Model *model, int layer)
{
  const LayerSpec *spec = model_layer(model, layer);
  const Attention *a = &spec->attention;
  const FeedForward *f = &spec->ffn;
  double width = (f->experts ? f->experts_per_token : 1) * (double)f->width + f->shared_width;
  double heads = (double)(a->heads + a->kv_heads) * (a->head_dim + a->v_head_dim);
  double linear = spec->linear.heads ? linear_projected(&spec->linear) + linear_values(&spec->linear) : 0;
  double hidden = (double)model->hidden / (p->sequence_parallel ? p->tp : 1);
  double inputs = hidden * (spec_mixes(spec) + (f->width > 0)), branch = spec->branch ? 3 * hidden : 0;
  double taken = f->experts ? (double)f->experts_per_token * model->hidden / p->tp : 0; /* of experts' rows, of which they */
  double given = p->framework->weighs_inside ? 0 : taken; /* keep what they give unless they weigh inside */
  gboolean casts = plan_narrow(p) && !wide_has(&p->wide, model->blocks, layer);
  double bytes = dtype_bytes[p->precision], narrow = casts ? dtype_bytes[plan_format(p)] : bytes;
  double kept = f->kind == MLP_SWIGLU ? 2 * width : width; /* before the activation */
  double masks = model->dropout ? inputs : 0;              /* of residuals, a byte each */

  return masks + bytes * (inputs + branch + (heads + linear + kept) / p->tp + given) +
         narrow * (inputs + plan_expert_tensor(p) * taken + width / p->tp);
}

double plan_offloaded_bytes(const Plan *p, const Model *model)
{
  double tokens = (double)p->micro_batch * p->seq / p->cp, bytes = 0;

  for (int i = 1; i <= MIN(p->offload.layers, model->blocks); i++) /* no rule may have looked at them yet */
    bytes += model_layer(model, i)->detached ? 0 : kept_bytes(p, model, i);
  return tokens * bytes;
}

/* What a plan keeps outside of its devices, bytes of a rank or of a node. Of a
 * parameter on the host: fp32 master weight, two moments and gradient (16),
 * 16-bit weight (2); where they are on NVMe the host has buffers for what is on
 * its way. */
typedef struct {
  double cpu_bytes, nvme_bytes;
} HostMemory;

static void keep(HostMemory *m, Store store, double bytes, double buffer_bytes)
{
  if (store == STORE_NVME)
    m->nvme_bytes += bytes;
  if (store != STORE_DEVICE)
    m->cpu_bytes += store == STORE_NVME ? MIN(bytes, buffer_bytes) : bytes;
}

static HostMemory host_memory_of(const Plan *p, const Model *model, int rank, Held held)
{
  HostMemory m = { 0 };
  double parts = (double)p->tp * (p->zero > 0 ? plan_shards(p) : 1), owned = held.trained / parts;
  double each = dtype_bytes[p->precision], weights = each * owned + held.frozen_bytes / parts;
  double state = HOST_STATE_BYTES + optimizer_bytes_beyond(&p->optimizer, p->precision);

  keep(&m, p->offload.optimizer, state * owned, state * offload_group(&p->offload));
  keep(&m, p->offload.parameters, weights, each * NVME_BUFFER_PARAMS);
  if (p->offload.activations) {
    double bytes = checkpoint_bytes(p, model, rank, held.blocks);
    keep(&m, p->offload.activations, bytes, bytes / MAX(1, held.blocks / p->vpp));
  }
  m.cpu_bytes += plan_offloaded_bytes(p, model);
  return m;
}

/* Of a node's ranks, from one of all to another. */
static HostMemory host_memory_between(const Plan *p, const HostMemory *ranks, gint64 from, gint64 until)
{
  int stride = plan_pipeline_stride(p);
  HostMemory sum = { 0 };

  for (gint64 rank = from, next; rank < until; rank = next) {
    const HostMemory *one = &ranks[rank / stride % p->pp];
    next = MIN(until, (rank / stride + 1) * stride);
    sum.cpu_bytes += one->cpu_bytes * (next - rank);
    sum.nvme_bytes += one->nvme_bytes * (next - rank);
  }
  return sum;
}

/* Of the fullest nodes; nodes within a stage, and turns of stages, are alike. */
static HostMemory host_memory(const Plan *p, const Model *model, const Cluster *cluster)
{
  g_autofree HostMemory *ranks = g_new(HostMemory, p->pp);
  HostMemory most = { 0 };
  gint64 size = cluster->devices_per_node, stride = plan_pipeline_stride(p), turn = stride * p->pp;
  const gboolean known = stages_are_known(p, model);
  Held mean = { 0 };

  if (!known)
    mean = mean_held(p, model);
  for (int rank = 0; rank < p->pp; rank++)
    ranks[rank] = host_memory_of(p, model, rank, known ? held_by(p, model, rank) : mean);
  for (gint64 first = 0; first < (turn % size == 0 ? turn : p->gpus); first += stride % size == 0 ? stride : size) {
    HostMemory node = host_memory_between(p, ranks, first, MIN(p->gpus, first + size));
    most.cpu_bytes = MAX(most.cpu_bytes, node.cpu_bytes);
    most.nvme_bytes = MAX(most.nvme_bytes, node.nvme_bytes);
  }
  return most;
}

static gboolean check_room(const Subject *s, GError **error)
{
  const Cluster *c = s->cluster;
  HostMemory m = host_memory(s->plan, s->model, c);

  if (c->host_memory_bytes <= 0 || c->host_memory_bytes_per_s <= 0)
    return broken(error, "offload: expected none, the host memory of cluster %s is not known", c->name);
  if (m.cpu_bytes > c->host_memory_bytes)
    return broken(error, "offload: expected at most the %.0f GiB of a node's memory, it takes %.0f GiB",
                  c->host_memory_bytes / 0x1p30, m.cpu_bytes / 0x1p30);
  if (m.nvme_bytes > 0 && (c->nvme_bytes <= 0 || c->nvme_read_bytes_per_s <= 0 || c->nvme_write_bytes_per_s <= 0))
    return broken(error, "offload: expected no nvme, that of cluster %s is not known", c->name);
  if (m.nvme_bytes > c->nvme_bytes)
    return broken(error, "offload: expected at most the %.0f GB of a node's NVMe, it takes %.0f GB",
                  c->nvme_bytes / 1e9, m.nvme_bytes / 1e9);
  return TRUE;
}

static gboolean check_parts(const Subject *s, GError **error)
{
  const Plan *p = s->plan;

  if (p->offload.optimizer && p->zero == 0 && plan_replicas(p) > 1)
    return broken(error, "offload optimizer: expected a zero_stage above 0, each rank updates its part");
  if (p->offload.parameters && p->zero < 3)
    return broken(error, "offload parameters: expected zero_stage 3, it is %d", p->zero);
  if (p->offload.delayed && (!p->offload.optimizer || p->offload.parameters || p->offload.activations || p->zero == 3))
    return broken(error, "delayed_update: true: expected the optimizer alone on the host, and zero_stage 1 or 2");
  if (p->offload.sub_group > 0 && !p->offload.optimizer)
    return broken(error, "sub_group_size: expected the optimizer on the host");
  return TRUE;
}

gboolean check_offload(const Subject *s, GError **error)
{
  if (!check_engine(s, CHOICE_OFFLOAD_OPTIMIZER, CHOICE_WIDE_START, error) || !check_parts(s, error))
    return FALSE;
  return !offload_any(&s->plan->offload) || check_room(s, error);
}

/* As Megatron Core's transformer_config.py has it. */
static gboolean check_layers(const Subject *s, GError **error)
{
  const Plan *p = s->plan;
  int layers = p->offload.layers;

  if (layers >= s->model->blocks)
    return broken(error, "cpu_offloading_num_layers: %d: expected fewer than the %d layers of model %s", layers,
                  s->model->blocks, s->model->name);
  if (p->pp > 1 || p->recompute != RECOMPUTE_NONE || p->graph != GRAPH_NONE || p->offload.activations ||
      plan_stages(p) > 1 || p->schedule->split)
    return broken(error, "cpu_offloading_num_layers: %d: expected 0 but under pipeline_model_parallel_size 1 with one "
                         "chunk, recompute_granularity none, cuda_graph none and backwards in one pass "
                         "(%d, %s, %s, %s)",
                  layers, p->pp, recompute_names[p->recompute], cuda_graph_names[p->graph], p->schedule->name);
  return TRUE;
}

/* What reads how passes recompute. */
gboolean check_activations(const Subject *s, GError **error)
{
  const Plan *p = s->plan;

  if (p->offload.layers > 0 && !check_layers(s, error))
    return FALSE;

  if (p->offload.activations && (p->recompute != RECOMPUTE_FULL || p->schedule->recompute || p->schedule->vocabulary))
    return broken(error, "offload activations: expected recompute_granularity full and a schedule that keeps what "
                  "forwards leave (%s, %s)", recompute_names[p->recompute], p->schedule->name);
  return TRUE;
}

gboolean check_switches(const Subject *s, GError **error)
{
  for (const PlanKey *const *key = plan_pass_switches(); *key; key++) {
    if (plan_key_is_usual(*key, s->plan))
      continue;
    if (!check_engine(s, (*key)->choice, (*key)->choice + 1, error))
      return FALSE;
    if (!(*key)->allowed(s->plan, s->cluster))
      return broken(error, "%s: true: expected %s", (*key)->field.key, (*key)->needs);
  }
  return TRUE;
}
