#include "plan/plan.h"

#include "plan/keys.h"

const char *const expert_drop_names[] = { "probs", "position", NULL };
const char *const overlap_names[] = { "gradients", "parameters", "pipeline", "tensor", "offload", NULL };

guint overlap_bits(const Overlap *o)
{
  return (o->gradients ? OVERLAP_GRADIENTS : 0) | (o->parameters ? OVERLAP_PARAMETERS : 0) |
         (o->pipeline ? OVERLAP_PIPELINE : 0) | (o->tensor ? OVERLAP_TENSOR : 0) | (o->offload ? OVERLAP_OFFLOAD : 0);
}

Overlap framework_overlap(const Framework *f)
{
  return (Overlap) { .gradients = f->overlap_gradients, .parameters = f->overlap_parameters,
                     .pipeline = f->overlap_pipeline, .tensor = f->overlap_tensor, .offload = f->overlap_offload };
}

Plan plan_default(const Model *model, const Framework *framework)
{
  return (Plan) {
    .gpus = 1,
    .global_batch = model->global_batch_size ? model->global_batch_size : 1,
    .micro_batch = 1,
    .context_inner = 1,
    .seq = model->seq,
    .tp = 1, .pp = 1, .vpp = 1, .dp = 1, .cp = 1, .ep = 1, .expert_load = 1,
    .dispatch = framework->dispatch_first,
    .precision = DTYPE_BF16,
    .optimizer = optimizer_default(),
    .context = framework->context_first,
    .attention = model->sparse && framework->sparse == 1u << SPARSE_SEPARATE ? ATTENTION_UNFUSED : framework->attention,
    .overlap = framework_overlap(framework),
    .sharding = sharding_options_default(),
    .schedule = schedule_find("1f1b"),
    .framework = framework,
  };
}

void plan_set_schedule(Plan *p, const Schedule *schedule, int chunks)
{
  p->schedule = schedule;
  p->vpp = chunks;
  p->overlap.pipeline = p->framework->overlap_pipeline && (chunks > 1 || !p->framework->overlap_chunks_only);
}

guint plan_overlaps(const Plan *p)
{
  gboolean replicas = plan_has_replicas(p);
  const Overlap matters = {
    .gradients = replicas && plan_sums_beside(p),
    .parameters = p->zero > 0 && plan_gathers_beside(p) && (replicas || p->offload.parameters),
    .pipeline = p->pp > 1 && !p->schedule->opportunistic, .tensor = p->tp > 1, .offload = p->offload.optimizer,
  };
  return overlap_bits(&matters);
}

void plan_overlaps_as(Plan *p, const Plan *other)
{
  guint bits = plan_overlaps(p);

  p->overlap.gradients = (bits & OVERLAP_GRADIENTS ? p : other)->overlap.gradients;
  p->overlap.parameters = (bits & OVERLAP_PARAMETERS ? p : other)->overlap.parameters;
  p->overlap.pipeline = (bits & OVERLAP_PIPELINE ? p : other)->overlap.pipeline;
  p->overlap.tensor = (bits & OVERLAP_TENSOR ? p : other)->overlap.tensor;
  p->overlap.offload = (bits & OVERLAP_OFFLOAD ? p : other)->overlap.offload;
}

/* Overlaps that the framework has, that mean something for the plan, and that it does without. */
static void label_overlaps(const Plan *p, GString *s)
{
  Plan usual = *p;

  usual.overlap = framework_overlap(p->framework);
  plan_set_schedule(&usual, p->schedule, p->vpp);
  guint off = plan_overlaps(p) & overlap_bits(&usual.overlap) & ~overlap_bits(&p->overlap) & OVERLAP_SWITCHES;
  for (int i = 0, n = 0; i < OVERLAP_BITS; i++)
    if (off >> i & 1)
      g_string_append_printf(s, "%s%s", n++ ? ", " : ", no overlap of ", overlap_names[i]);
}

static void label_experts(const Plan *p, GString *s)
{
  if (plan_experts_apart(p))
    g_string_append_printf(s, ", ep %d", p->ep);
  if (plan_expert_tensor(p) != p->tp)
    g_string_append_printf(s, " (etp %d)", plan_expert_tensor(p));
  if (plan_experts_apart(p) && p->dispatch != DISPATCH_ALL_TO_ALL)
    g_string_append_printf(s, " by %s", expert_dispatch_names[p->dispatch]);
}

/* What is done beside a ZeRO stage: weights that stay gathered, and ZeRO++. */
static void label_sharding(const ShardingOptions *o, GString *s)
{
  if (o->keeps_gathered)
    g_string_append(s, " kept");
  if (o->secondary > 0)
    g_string_append_printf(s, ", hpz %d", o->secondary);
  if (o->quantized_weights || o->quantized_gradients)
    g_string_append_printf(s, ", quantized %s", !o->quantized_gradients ? "weights" :
                           o->quantized_weights ? "weights and gradients" : "gradients");
}

static void label_degrees(const Plan *p, GString *s)
{
  g_string_append_printf(s, "tp %d%s, pp %d", p->tp, p->sequence_parallel ? "+sp" : "", p->pp);
  if (p->vpp > 1)
    g_string_append_printf(s, " x %d chunks", p->vpp);
  if (p->split_rank)
    g_string_append_printf(s, " (encoder on %d)", p->split_rank);
  if (p->cp > 1 && p->context == CONTEXT_BOTH)
    g_string_append_printf(s, ", cp %d (a2a %d, p2p %d)", p->cp, p->context_inner, p->cp / p->context_inner);
  else if (p->cp > 1)
    g_string_append_printf(s, ", cp %d (%s)", p->cp, context_exchange_names[p->context]);
  label_experts(p, s);
  g_string_append_printf(s, ", dp %d%s, zero %d", p->dp, p->pipeline_inner ? " around pp" : "", p->zero);
  if (plan_shards(p) < plan_replicas(p))
    g_string_append_printf(s, " over %d", plan_shards(p));
  label_sharding(&p->sharding, s);
}

static const char *const graph_labels[GRAPH_COUNT] = { "", ", parts of layers as CUDA graphs",
                                                       ", step as one CUDA graph" };

gboolean plan_stage_writes_narrow(const Plan *p)
{
  return p->zero == 1 || (p->zero > 1 && p->products != PRODUCTS_FP4);
}

/* Whether the optimizer keeps what weights in 8 or 4 bits are written from: Megatron-LM's distributed one of whole fp32
 * masters (core/optimizer/distrib_optimizer.py). With delayed scales the kernel of narrow moments writes them itself, and
 * takes the remainders that it is always given for whole masters (optimizer_config.py; Transformer Engine's adam.cu). */
static gboolean keeps_whole(const Plan *p)
{
  const StateFormat *formats = p->optimizer.formats;
  gboolean moments = formats[STATE_EXP_AVG] || formats[STATE_EXP_AVG_SQ];

  return !optimizer_kind(&p->optimizer)->orthogonal && !p->optimizer.remainders &&
         formats[STATE_MAIN_PARAMS] <= FORMAT_FP32 && !(moments && plan_recipe(p) == FP8_DELAYED);
}

/* Whether it writes them, on the host only with delayed scales (megatron/training/arguments.py). */
static gboolean writes_narrow(const Plan *p)
{
  return plan_stage_writes_narrow(p) && keeps_whole(p) && (!p->offload.optimizer || plan_recipe(p) == FP8_DELAYED);
}

gboolean plan_can_gather_narrow(const Plan *p)
{
  const Framework *f = p->framework;

  return plan_narrow(p) && f->param_gathers >> plan_recipe(p) & 1 &&
         (f->fp8_primary ? writes_narrow(p) : p->zero == 3);
}

gboolean plan_gathers_narrow(const Plan *p)
{
  gboolean usual = p->param_gather == GATHER_USUAL && p->framework->param_gathers_usual >> plan_recipe(p) & 1;

  return plan_can_gather_narrow(p) && (usual || p->param_gather == GATHER_NARROW);
}

char *plan_types_text(const Plan *p)
{
  GString *s = g_string_new(p->types[0]);

  for (int i = 1; i < NODE_TYPES_MAX && p->types[i]; i++)
    g_string_append_printf(s, " then %s", p->types[i]);
  return g_string_free(s, FALSE);
}

char *plan_label(const Plan *p)
{
  GString *s = g_string_new(NULL);
  g_autofree char *offloaded = offload_label(&p->offload), *adapter = adapter_text(&p->adapter);
  g_autofree char *types = plan_types_text(p);

  label_degrees(p, s);
  g_string_append_printf(s, ", micro-batch %d, recompute %s", p->micro_batch, recompute_names[p->recompute]);
  recompute_label(&p->scope, s);
  if (p->strategies.n > 0)
    g_string_append_printf(s, ", %d runs of layers with strategies", p->strategies.n);
  g_string_append_printf(s, ", %s", p->schedule->name);
  if (p->micro_group)
    g_string_append_printf(s, " in groups of %d", p->micro_group);
  if (offloaded)
    g_string_append_printf(s, ", offloaded %s", offloaded);
  if (*types)
    g_string_append_printf(s, ", on %s", types);
  if (adapter_freezes(&p->adapter))
    g_string_append_printf(s, ", %s", adapter);
  optimizer_label(&p->optimizer, s);
  for (const PlanKey *const *key = plan_pass_switches(); *key; key++)
    if ((*key)->shorter && !plan_key_is_usual(*key, p))
      g_string_append_printf(s, ", %s", (*key)->shorter);
  label_overlaps(p, s);
  g_string_append(s, plan_gathers_narrow(p) ? ", fp8_param_gather" : "");
  g_string_append(s, p->overlap.exchange ? ", exchange of tokens overlapped" : "");
  g_string_append(s, graph_labels[p->graph]);
  names_append_set(recorded_module_names, p->graph_modules, ": ", s);
  return g_string_free(s, FALSE);
}

gboolean plan_pads_experts(const Plan *p)
{
  return p->expert_padded || (p->expert_capacity > 0 && p->framework->capacity == CAPACITY_PAD);
}

StrategyRun plan_run(const Plan *p)
{
  return (StrategyRun) { p->tp, 0, p->sequence_parallel, p->zero, p->recompute };
}

Plan plan_of_run(const Plan *p, const StrategyRun *run)
{
  Plan view = *p;

  view.strategies.n = 0;
  view.dp = (int)((gint64)p->tp * p->dp / run->tp);
  view.micro_batch = (int)((gint64)p->micro_batch * run->tp / p->tp);
  view.tp = run->tp;
  view.sequence_parallel = run->sequence_parallel;
  view.zero = run->zero;
  view.recompute = run->recompute;
  return view;
}

int plan_stage_first_layer(const Plan *p, const Model *model, int stage)
{
  return split_first_layer(&p->split, plan_stages(p), p->split_rank, model, stage);
}

static int schedule_mechanisms(const Plan *p)
{
  if (p->pp == 1)
    return 0;
  gboolean plain = p->vpp == 1 && !p->schedule->split;
  return 1 + !plain + (p->schedule->split ? 1 : 0);
}

static int expert_mechanisms(const Plan *p)
{
  return plan_experts_apart(p) ? 1 + dispatch_by_kernels(p->dispatch) : 0;
}

static gboolean narrows_states(const Optimizer *o)
{
  gboolean narrow = o->remainders;

  for (int i = 0; i < STATE_COUNT; i++)
    narrow |= o->formats[i] != FORMAT_USUAL;
  return narrow;
}

int plan_mechanisms(const Plan *p)
{
  const ShardingOptions *o = &p->sharding;
  int switches = 0;

  for (const PlanKey *const *key = plan_pass_switches(); *key; key++)
    switches += (*key)->shorter && !plan_key_is_usual(*key, p);

  return (p->tp > 1) + (p->cp > 1) + expert_mechanisms(p) + schedule_mechanisms(p) + MAX(0, p->zero - 1) +
         (p->recompute != RECOMPUTE_NONE) + recompute_counts(&p->scope) + 2 * offload_any(&p->offload) +
         (p->split.stages > 0) + (p->strategies.n > 0) + narrows_states(&p->optimizer) + p->pipeline_inner +
         (p->shard_group > 0) + (o->secondary > 0) + (p->graph != GRAPH_NONE) + p->overlap.exchange +
         plan_gathers_narrow(p) + switches;
}
