/* The rules of a legal plan: a function or more each, in the order of PlanRule. */
#include "plan/check.h"

const char *const plan_rule_names[] = {
  "legal",
  "degrees do not multiply to the GPUs",
  "batch not divisible",
  "heads not divisible by tensor parallel",
  "widths not divisible by tensor parallel",
  "stages do not lie on nodes of one type",
  "tensor parallel does not tile a node",
  "ranks are not placed so",
  "schedule does not fit",
  "recomputation not applicable",
  "sequence longer than the positions",
  "sequence parallel not applicable",
  "context parallel not applicable",
  "zero stage that the framework cannot run",
  "shard group not applicable",
  "process cannot drive the devices",
  "sharding option not applicable",
  "precision not supported by the device",
  "optimizer or format not applicable",
  "offload not applicable",
  "family that the schedule or framework does not run",
  "adapter not applicable",
  "experts do not divide",
  "exchange of tokens not beside passes",
  "recorded kernels not applicable",
  "strategies by layer not applicable",
  "combination that the framework cannot run",
  "layers do not split into the stages",
  NULL,
};

static gboolean check_gpus(const Subject *s, GError **error)
{
  const Plan *p = s->plan;
  double exact = (double)p->tp * p->pp * p->cp * p->dp;
  gint64 product = (gint64)MIN(exact, 1e15);

  if (product != p->gpus)
    return broken(error, "gpus: %d: expected tensor %d x pipeline %d x context %d x data %d = %" G_GINT64_FORMAT,
                  p->gpus, p->tp, p->pp, p->cp, p->dp, product);
  if (p->gpus != s->cluster->devices)
    return broken(error, "gpus: %d: expected the %d devices of cluster %s", p->gpus, s->cluster->devices,
                  s->cluster->name);
  return TRUE;
}

static gboolean check_batch(const Subject *s, GError **error)
{
  const Plan *p = s->plan;

  if (p->global_batch % ((gint64)p->dp * p->micro_batch) != 0)
    return broken(error, "global_batch_size: %d: expected a multiple of data_parallel_size %d x micro_batch_size %d",
                  p->global_batch, p->dp, p->micro_batch);
  return TRUE;
}

/* Each rank takes some heads, and the keys of their groups. */
static gboolean check_linear(const Subject *s, GError **error)
{
  int tp = s->plan->tp, cp = s->plan->cp;

  for (int i = 0; i < s->model->n_specs; i++) {
    const LinearAttention *l = &s->model->specs[i].linear;
    if (l->heads && linear_by_channel(l->kind) && cp > 1)
      return broken(error, "context_parallel_size: %d: expected 1 with a mixer of tokens by channels", cp);
    if (l->heads % tp != 0 || l->groups % tp != 0)
      return broken(error, "tensor_model_parallel_size: %d: expected a divisor of the %d heads and %d groups of linear "
                           "attention", tp, l->heads, l->groups);
    if (l->kind == LINEAR_MAMBA1 && l->blocks % tp != 0)
      return broken(error, "tensor_model_parallel_size: %d: expected a divisor of the %d heads that make steps of "
                           "linear attention", tp, l->blocks);
    if (l->heads / tp % cp != 0 || (l->heads && l->groups / tp % cp != 0 && cp % (l->groups / tp) != 0))
      return broken(error, "context_parallel_size: %d: expected a divisor of the %d heads of linear attention on a "
                           "rank, and a divisor or a multiple of their %d groups", cp, l->heads / tp, l->groups / tp);
  }
  return TRUE;
}

static gboolean check_heads(const Subject *s, GError **error)
{
  int tp = s->plan->tp;

  for (int i = 0; i < s->model->n_specs; i++) {
    const Attention *a = &s->model->specs[i].attention;
    if (a->heads % tp != 0)
      return broken(error, "tensor_model_parallel_size: %d: expected a divisor of the %d attention heads", tp,
                    a->heads);
    gboolean divided = s->plan->framework->kv_heads_divided && s->plan->cp == 1 && tp % MAX(a->kv_heads, 1) == 0 &&
                       !a->experts && !a->conv_each;
    if (!a->kv_lora_rank && a->kv_heads % tp != 0 && !divided)
      return broken(error, "tensor_model_parallel_size: %d: expected a divisor of the %d key-value heads", tp,
                    a->kv_heads);
  }
  return check_linear(s, error);
}

static gboolean check_widths(const Subject *s, GError **error)
{
  const Plan *p = s->plan;

  for (int i = 0; i < s->model->n_specs; i++) {
    const FeedForward *f = &s->model->specs[i].ffn;
    if ((f->width % p->tp != 0 && (f->experts == 0 || !plan_experts_apart(p))) || f->shared_width % p->tp != 0)
      return broken(error, "tensor_model_parallel_size: %d: expected a divisor of the feed-forward width %d", p->tp,
                    f->width % p->tp ? f->width : f->shared_width);
  }
  return TRUE;
}

static gboolean check_type_names(const Subject *s, GError **error)
{
  const Plan *p = s->plan;
  const Cluster *c = s->cluster;
  int n = 0;

  while (n < NODE_TYPES_MAX && p->types[n])
    n++;
  if (n > 0 && n != c->n_types)
    return broken(error, "hetero_device_types: %d names: expected the %d node types of cluster %s", n, c->n_types,
                  c->name);
  for (int i = 0; n > 0 && i < c->n_types; i++) {
    gboolean named = FALSE;
    for (int k = 0; k < n; k++)
      named |= g_str_equal(p->types[k], c->types[i]->name);
    if (!named)
      return broken(error, "hetero_device_types: expected each node type of cluster %s once, \"%s\" is missing",
                    c->name, c->types[i]->name);
  }
  return TRUE;
}

/* Ranks that work in step are alike: those of a stage are of one type. */
static gboolean check_node_types(const Subject *s, GError **error)
{
  const Cluster *c = s->cluster;
  int stage = s->plan->gpus / s->plan->pp;

  if (!check_type_names(s, error))
    return FALSE;
  for (int i = 0; i < c->n_types; i++)
    if (c->types[i]->devices % stage != 0)
      return broken(error, "pipeline_model_parallel_size: %d: expected that the %d devices of a stage divide the %d of "
                           "node type %s: devices that work in step are alike", s->plan->pp, stage,
                    c->types[i]->devices, c->types[i]->name);
  return TRUE;
}

static gboolean tiles_node(int tp, const Cluster *c, GError **error)
{
  int node = c->n_tiers > 0 ? MIN(c->tiers[0].devices, c->devices) : 1;

  if (tp <= node ? node % tp != 0 : tp % node != 0)
    return broken(error,
                  "tensor_model_parallel_size: %d: expected a divisor or a multiple of the %d devices that %s joins",
                  tp, node, c->n_tiers > 0 ? c->tiers[0].name : c->name);
  return TRUE;
}

static gboolean check_node(const Subject *s, GError **error)
{
  const Cluster *c = s->cluster;

  for (int i = 0; i < cluster_types(c); i++)
    if (!tiles_node(s->plan->tp, cluster_type(c, i), error))
      return FALSE;
  return TRUE;
}

/* Megatron Core asserts the same of experts: both grids have as many copies where the pipeline is not last. */
static gboolean check_placement(const Subject *s, GError **error)
{
  const Plan *p = s->plan;

  if (!p->pipeline_inner)
    return TRUE;
  if (!p->framework->tp_pp_dp)
    return broken(error, "use_tp_pp_dp_mapping: true: expected false, %s counts data before the pipeline",
                  p->framework->name);
  if (s->cluster->n_types > 0)
    return broken(error, "use_tp_pp_dp_mapping: true: expected false, stages lie on nodes of one type each");
  if (p->pp > 1 && plan_experts_apart(p) && plan_expert_tensor(p) * p->ep != p->tp * p->cp)
    return broken(error, "use_tp_pp_dp_mapping: true: expected expert tensor %d x expert %d to be tensor %d x "
                         "context %d",
                  plan_expert_tensor(p), p->ep, p->tp, p->cp);
  return TRUE;
}

/* Parts of the ranks that hold the same weights lie within the context-parallel ones, or hold all of these. */
static gboolean check_placed_states(const Subject *s, GError **error)
{
  const Plan *p = s->plan;
  const struct { const char *key; int size; } parts[] = { { "shard_group_size", p->shard_group },
                                                          { "zero_hpz_partition_size", p->sharding.secondary } };

  if (!p->pipeline_inner)
    return TRUE;
  if (p->strategies.n > 0)
    return broken(error, "use_tp_pp_dp_mapping: true: expected false with layer_strategies");
  for (gsize i = 0; i < G_N_ELEMENTS(parts); i++)
    if (parts[i].size > 0 && p->cp % parts[i].size != 0 && parts[i].size % p->cp != 0)
      return broken(error, "%s: %d: expected a divisor or multiple of context_parallel_size %d with "
                           "use_tp_pp_dp_mapping", parts[i].key, parts[i].size, p->cp);
  return TRUE;
}

/* What each kind of split asks for. */
static const char *const split_rules[] = {
  [SPLITS_EVEN] = "equal stages",
  [SPLITS_COSTS] = "stages of equal cost, or none given",
  [SPLITS_ENDS] = "equal stages between the first and the last",
  [SPLITS_FILL] = "full stages and the rest on the last",
};

static gboolean is_by_cost(const Subject *s)
{
  LayerSplit split;

  return s->plan->framework->splits == SPLITS_COSTS && split_by_cost(s->model, plan_stages(s->plan), &split) &&
         memcmp(split.layers, s->plan->split.layers, split.stages) == 0;
}

static gboolean check_split(const Subject *s, GError **error)
{
  const Plan *p = s->plan;
  const LayerSplit *split = &p->split;
  int stages = plan_stages(p), ends = p->schedule->vocabulary ? 1 : 0;

  if (split->stages != stages)
    return broken(error, "layer_split: %d entries: expected %d, one a stage", split->stages, stages);
  if (split_layers(split) != s->model->blocks)
    return broken(error, "layer_split: %d layers: expected the model's %d", split_layers(split), s->model->blocks);
  for (int i = 0; i < stages; i++)
    if (split->layers[i] < (i == 0 || i == stages - 1 ? ends : 1))
      return broken(error, "layer_split: stage %d has no layers: expected some on each%s", i,
                    ends ? "" : " but the first and the last, which hold the embedding and the head");
  if (!split_is_kind(split, p->framework->splits) && !is_by_cost(s))
    return broken(error, "layer_split: expected %s, which is what %s runs", split_rules[p->framework->splits],
                  p->framework->name);
  return TRUE;
}

static gboolean check_layers(const Subject *s, GError **error)
{
  const Plan *p = s->plan;
  int stages = plan_stages(p);

  if (p->split.stages)
    return check_split(s, error);
  if (p->split_rank)
    return TRUE;
  if (s->model->blocks % stages != 0)
    return broken(error,
                  "pipeline_model_parallel_size: %d: expected %d layers to divide by %d stages, or a layer_split",
                  p->pp, s->model->blocks, stages);
  return TRUE;
}

/* Of a step, that are still simulated: passes over all stages, and micro-batches. */
#define PASSES_MAX (1 << 19)
#define MICRO_MAX (1 << 16)

static gboolean check_passes(const Subject *s, GError **error)
{
  ScheduleShape shape = plan_shape(s->plan);
  gint64 stages = (gint64)shape.ranks * shape.chunks;
  /* ZeRO-2 and 3 split every pass by layers */
  gint64 passes = shape.micro * (s->plan->zero >= 2 ? MAX(stages, s->model->blocks) : stages);

  if (shape.micro > MICRO_MAX)
    return broken(error, "global_batch_size: %d: expected at most %d micro-batches a step to simulate, they are %d",
                  s->plan->global_batch, MICRO_MAX, shape.micro);
  if (passes > PASSES_MAX)
    return broken(error, "global_batch_size: %d: expected at most %d passes a step to simulate, %d micro-batches make "
                         "%" G_GINT64_FORMAT, s->plan->global_batch, PASSES_MAX, shape.micro, passes);
  return TRUE;
}

static gboolean check_schedule_recompute(const Subject *s, GError **error)
{
  if (s->plan->schedule->recompute && s->plan->recompute != RECOMPUTE_FULL)
    return broken(error, "recompute_granularity: \"%s\": expected full, schedule %s makes whole forwards again",
                  recompute_names[s->plan->recompute], s->plan->schedule->name);
  if (s->plan->schedule->split && s->plan->recompute == RECOMPUTE_FULL)
    return broken(error, "recompute_granularity: \"full\": expected none or selective, the weight gradients of "
                         "schedule %s need what forwards saved", s->plan->schedule->name);
  return TRUE;
}

static gboolean check_schedule(const Subject *s, GError **error)
{
  ScheduleShape shape = plan_shape(s->plan);

  if (s->plan->micro_group && !(s->plan->schedule->grouped && s->plan->framework->micro_groups))
    return broken(error, "microbatch_group_size_per_vp_stage: %d: expected none, %s %s runs no other groups than of "
                         "the pipeline ranks",
                  s->plan->micro_group, s->plan->schedule->grouped ? "framework" : "schedule",
                  s->plan->schedule->grouped ? s->plan->framework->name : s->plan->schedule->name);
  if (error && !schedule_check(s->plan->schedule, &shape, error)) {
    g_prefix_error(error, "plan: pipeline_schedule: ");
    return FALSE;
  }
  return error || schedule_check(s->plan->schedule, &shape, NULL);
}

static gboolean check_modules(const Subject *s, GError **error)
{
  guint missing = s->plan->scope.modules & ~recompute_modules_of(s->model);

  if (s->plan->recompute != RECOMPUTE_SELECTIVE)
    return broken(error, "recompute_modules: expected recompute_granularity selective, it is %s",
                  recompute_names[s->plan->recompute]);
  if (missing)
    return broken(error, "recompute_modules: \"%s\": expected a module that model %s has",
                  recompute_module_names[g_bit_nth_lsf(missing, -1)], s->model->name);
  if (s->plan->framework->selective_products)
    return broken(error, "recompute_modules: expected none, %s keeps every other product", s->plan->framework->name);
  if (s->plan->framework->recompute_alike && s->plan->scope.modules != 1u << MODULE_CORE_ATTN)
    return broken(error, "recompute_modules: expected core_attn alone, %s has no others", s->plan->framework->name);
  return TRUE;
}

static gboolean check_recompute(const Subject *s, GError **error)
{
  const Plan *p = s->plan;
  const RecomputeScope *scope = &p->scope;

  if (scope->modules && !check_modules(s, error))
    return FALSE;
  if ((scope->layers || scope->stages.stages) && p->recompute != RECOMPUTE_FULL)
    return broken(error, "recompute_num_layers: expected recompute_granularity full, it is %s",
                  recompute_names[p->recompute]);
  if (scope->stages.stages && scope->stages.stages != plan_stages(p))
    return broken(error, "recompute_num_layers: %d entries: expected %d, one a stage", scope->stages.stages,
                  plan_stages(p));
  if (recompute_counts(scope) && p->framework->recompute_alike)
    return broken(error, "recompute_num_layers: expected 1 layer uniformly, %s treats all layers alike",
                  p->framework->name);
  if (recompute_counts(scope) && p->schedule->recompute)
    return broken(error, "recompute_num_layers: expected 1 layer uniformly, schedule %s makes whole forwards again",
                  p->schedule->name);
  return TRUE;
}

static gboolean check_sequence(const Subject *s, GError **error)
{
  const Plan *p = s->plan;
  int positions = model_positions(s->model);

  if (positions && p->seq > positions)
    return broken(error, "seq_length: %d: expected at most the %d positions of model %s", p->seq, positions,
                  s->model->name);
  int decoders = s->model->entry_rows ? s->model->entry_rows : positions;
  int decoder_seq = p->decoder_seq ? p->decoder_seq : p->seq;
  if (decoders && decoder_seq > decoders)
    return broken(error, "decoder_seq_length: %d%s: expected at most the %d positions of model %s", decoder_seq,
                  p->decoder_seq ? "" : ", as seq_length", decoders, s->model->name);
  if (s->model->patch && s->plan->seq != s->model->position_rows)
    return broken(error, "seq_length: %d: expected the %d patches and class token of model %s", s->plan->seq,
                  s->model->position_rows, s->model->name);
  g_autofree char *refusal = s->model->sparse ? sparse_refusal(s->model->sparse, s->plan->seq) : NULL;
  return !refusal || broken(error, "seq_length: %d: expected %s", s->plan->seq, refusal);
}

static gboolean check_sequence_parallel(const Subject *s, GError **error)
{
  const Plan *p = s->plan;
  int beside = s->model->prompts + s->model->global_rows;

  if (!p->sequence_parallel)
    return TRUE;
  if (p->tp == 1)
    return broken(error, "sequence_parallel: true: expected tensor_model_parallel_size above 1, it is 1");
  if (p->seq % p->tp != 0 || p->decoder_seq % p->tp != 0)
    return broken(error, "sequence_parallel: true: expected seq_length %d to divide by tensor_model_parallel_size %d",
                  p->seq, p->tp);
  if (beside % p->tp != 0)
    return broken(error, "sequence_parallel: true: expected the %d tokens beside each sequence of model %s to divide by "
                         "tensor_model_parallel_size %d", beside, s->model->name, p->tp);
  return TRUE;
}

/* Attention that rings and gathers can divide: over the whole sequence. Two chunks a rank, the i-th from either end,
 * balance a causal mask. */
static gboolean check_context_blocks(const Subject *s, const Attention *a, GError **error)
{
  const Plan *p = s->plan;

  if (a->window > 0 && a->window < p->seq)
    return broken(error, "context_parallel_size: %d: expected 1, or cp_comm_type a2a, for a window of %d tokens", p->cp,
                  a->window);
  return TRUE;
}

static gboolean check_context_heads(const Subject *s, const Attention *a, GError **error)
{
  gboolean both = s->plan->context == CONTEXT_BOTH;
  int cp = both ? s->plan->context_inner : s->plan->cp, ranks = s->plan->tp * cp;
  int kv_heads = a->kv_lora_rank ? a->heads : a->kv_heads;

  if (a->heads % ranks != 0 || kv_heads % ranks != 0)
    return broken(error,
                  "context_parallel_%ssize: %d: expected that with tensor parallel %d it divides the %d key-value heads "
                  "under cp_comm_type %s", both ? "a2a_" : "", cp, s->plan->tp, kv_heads,
                  context_exchange_names[s->plan->context]);
  return TRUE;
}

/* Those of the inner ranks, and the blocks of the outer ones. */
static gboolean check_context_both(const Subject *s, const Attention *a, GError **error)
{
  const Plan *p = s->plan;

  if (p->cp % p->context_inner != 0)
    return broken(error, "context_parallel_a2a_size: %d: expected a divisor of context_parallel_size %d",
                  p->context_inner, p->cp);
  return check_context_heads(s, a, error) && (p->context_inner == p->cp || check_context_blocks(s, a, error));
}

/* Separate kernels know no parts of a sequence. */
static gboolean check_context_kernel(const Subject *s, GError **error)
{
  const Plan *p = s->plan;

  if (p->attention == ATTENTION_UNFUSED)
    return broken(error, "attention: \"unfused\": expected a fused kernel under context_parallel_size %d", p->cp);
  for (int i = 0; i < cluster_types(s->cluster); i++) {
    const Device *device = &cluster_type(s->cluster, i)->device;
    if (framework_attention(p->framework, p->attention, device) == ATTENTION_UNFUSED)
      return broken(error, "context_parallel_size: %d: expected 1, %s has no fused attention on %s", p->cp,
                    p->framework->name, device->name);
  }
  return TRUE;
}

static gboolean check_context(const Subject *s, GError **error)
{
  static gboolean (*const divides[CONTEXT_COUNT])(const Subject *, const Attention *, GError **) = {
    check_context_blocks, check_context_blocks, check_context_heads, check_context_both };
  const Plan *p = s->plan;

  if (p->cp == 1)
    return TRUE;
  if (!(p->framework->context >> p->context & 1))
    return broken(error, "context_parallel_size: %d: expected 1, %s does not run cp_comm_type %s", p->cp,
                  p->framework->name, context_exchange_names[p->context]);
  if (s->model->sparse)
    return broken(error, "context_parallel_size: %d: expected 1, model %s has sparse_attention", p->cp, s->model->name);
  if (!check_context_kernel(s, error))
    return FALSE;
  if (p->seq % (2 * p->cp) != 0 || (p->sequence_parallel && p->seq / p->cp % p->tp != 0))
    return broken(error,
                  "context_parallel_size: %d: expected seq_length %d to divide by twice as many, and a rank's part "
                  "by tensor_model_parallel_size under sequence_parallel", p->cp, p->seq);
  for (int i = 0; i < s->model->n_specs; i++) {
    const Attention *a = &s->model->specs[i].attention;
    const char *across = spec_across_parts(&s->model->specs[i]);
    if (across)
      return broken(error, "context_parallel_size: %d: expected 1, model %s has %s", p->cp, s->model->name, across);
    if (a->heads && !divides[p->context](s, a, error))
      return FALSE;
  }
  return TRUE;
}

static gboolean check_zero(const Subject *s, GError **error)
{
  const Plan *p = s->plan;
  const Framework *f = p->framework;
  int most = framework_zero_max(f, p->pp);

  if (p->zero > most)
    return broken(error, "zero_stage: %d: expected at most %d, which is what %s runs%s", p->zero, most, f->name,
                  p->pp > 1 ? " with pipeline stages" : "");
  return TRUE;
}

static gboolean check_shard_group(const Subject *s, GError **error)
{
  const Plan *p = s->plan;

  if (p->shard_group == 0)
    return TRUE;
  if (p->zero == 0 || plan_replicas(p) % p->shard_group != 0 || p->shard_group == 1)
    return broken(error, "shard_group_size: %d: expected a zero_stage above 0, and a divisor above 1 of the %d ranks "
                         "that hold the same weights", p->shard_group, plan_replicas(p));
  if (!p->framework->shard_groups && p->shard_group < plan_replicas(p))
    return broken(error, "shard_group_size: %d: expected nothing, %s divides states over all %d ranks", p->shard_group,
                  p->framework->name, plan_replicas(p));
  return TRUE;
}

/* In the order of PlanRule; a rule that reads several parts in turn has a line for each. */
static const struct {
  PlanRule rule;
  Rule *holds;
  PlanPart reads; /* the last part that it reads */
} rules[] = {
  { RULE_GPUS, check_gpus, PLAN_DEGREES },
  { RULE_BATCH, check_batch, PLAN_DEGREES },
  { RULE_HEADS, check_heads, PLAN_DEGREES },
  { RULE_TENSOR_WIDTH, check_widths, PLAN_DEGREES },
  { RULE_NODE_TYPES, check_node_types, PLAN_DEGREES },
  { RULE_NODE, check_node, PLAN_DEGREES },
  { RULE_PLACEMENT, check_placement, PLAN_DEGREES },
  { RULE_PLACEMENT, check_placed_states, PLAN_STATES },
  { RULE_SCHEDULE, check_passes, PLAN_STATES },
  { RULE_SCHEDULE, check_schedule_recompute, PLAN_PASSES },
  { RULE_SCHEDULE, check_schedule, PLAN_SCHEDULE },
  { RULE_RECOMPUTE, check_recompute, PLAN_PASSES },
  { RULE_SEQUENCE, check_sequence, PLAN_DEGREES },
  { RULE_SEQUENCE_PARALLEL, check_sequence_parallel, PLAN_PASSES },
  { RULE_CONTEXT, check_context, PLAN_PASSES },
  { RULE_ZERO, check_zero, PLAN_STATES },
  { RULE_SHARD_GROUP, check_shard_group, PLAN_STATES },
  { RULE_PROCESS, check_process, PLAN_DEGREES },
  { RULE_SHARDING, check_sharding, PLAN_STATES },
  { RULE_SHARDING, check_switches, PLAN_PASSES },
  { RULE_PRECISION, check_precision, PLAN_DEGREES },
  { RULE_OPTIMIZER, check_optimizer, PLAN_STATES },
  { RULE_OFFLOAD, check_offload, PLAN_STATES },
  { RULE_OFFLOAD, check_activations, PLAN_PASSES },
  { RULE_FAMILY, check_family, PLAN_DEGREES },
  { RULE_FAMILY, check_shared_weights, PLAN_STATES },
  { RULE_FAMILY, check_sparse, PLAN_DEGREES },
  { RULE_FAMILY, check_vocabulary, PLAN_SCHEDULE },
  { RULE_FAMILY, check_chunks, PLAN_SCHEDULE },
  { RULE_FAMILY, check_mtp, PLAN_SCHEDULE },
  { RULE_ADAPTER, check_adapter, PLAN_DEGREES },
  { RULE_ADAPTER, check_adapter_schedule, PLAN_SCHEDULE },
  { RULE_ADAPTER, check_adapter_passes, PLAN_PASSES },
  { RULE_ADAPTER, check_adapter_states, PLAN_STATES },
  { RULE_EXPERTS, check_experts, PLAN_DEGREES },
  { RULE_EXPERTS, check_expert_rows, PLAN_PASSES },
  { RULE_EXCHANGE, check_exchange, PLAN_PASSES },
  { RULE_GRAPH, check_graph, PLAN_PASSES },
  { RULE_EXPERTS, check_expert_copies, PLAN_STATES },
  { RULE_STRATEGIES, check_strategies, PLAN_STATES },
  { RULE_LAYERS, check_layers, PLAN_SCHEDULE },
  { RULE_LAYERS, check_stacks, PLAN_SCHEDULE },
};

PlanRule plan_check(const Plan *plan, const Model *model, const Cluster *cluster, GError **error)
{
  Subject s = { plan, model, cluster };

  for (gsize i = 0; i < G_N_ELEMENTS(rules); i++)
    if (!rules[i].holds(&s, error))
      return rules[i].rule;
  return RULE_NONE;
}

gboolean plan_is_legal(const Plan *plan, const Model *model, const Cluster *cluster, GError **error)
{
  return plan_check(plan, model, cluster, error) == RULE_NONE;
}

PlanRule plan_check_part(const Plan *plan, const Model *model, const Cluster *cluster, PlanPart part)
{
  Subject s = { plan, model, cluster };

  for (gsize i = 0; i < G_N_ELEMENTS(rules); i++)
    if (rules[i].reads == part && !rules[i].holds(&s, NULL))
      return rules[i].rule;
  return RULE_NONE;
}
