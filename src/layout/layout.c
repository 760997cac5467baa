#include "layout/layout.h"

#include "plan/plan.h"

#include <string.h>

/* ---- formats of gradients ---- */

static double in_precision(const Plan *p, double bytes)
{
  if (p->precision == DTYPE_BF16)
    return MAX(bytes, p->framework->bf16_gradient_bytes);
  return p->precision == DTYPE_FP32 ? MAX(bytes, dtype_bytes[DTYPE_FP32]) : bytes;
}

static double gradient_bytes(const Plan *p)
{
  return state_format_bytes(&p->optimizer, STATE_MAIN_GRADS, in_precision(p, p->framework->gradient_bytes));
}

/* Gradients travel as they are accumulated, unless something else is chosen or the framework casts them. */
static double reduce_bytes(const Plan *p)
{
  gboolean casts = p->precision == DTYPE_BF16 && p->framework->bf16_reduced_copy;
  double kept = state_format_bytes(&p->optimizer, STATE_MAIN_GRADS, in_precision(p, p->framework->reduce_bytes));
  double usual = casts ? dtype_bytes[DTYPE_BF16] : kept;

  return state_format_bytes(&p->optimizer, STATE_GRAD_REDUCE, usual);
}

/* ---- passes ---- */

/* What tensors have and are worked on beyond bytes of each parameter. */
static void see_optimizer(Optimizer *seen, const Optimizer *o)
{
  seen->name = o->name;
  seen->block = o->block;
  if (!optimizer_kind(o)->orthogonal) /* its vectors have states of their own formats */
    return;
  seen->newton_steps = o->newton_steps;
  seen->muon_mode = o->muon_mode;
  seen->formats[STATE_EXP_AVG_SQ] = o->formats[STATE_EXP_AVG_SQ];
}

static gboolean ends_meet(const Plan *p, const ScheduleShape *shape)
{
  int stages = schedule_stages(p->schedule, shape), first = schedule_place(p->schedule, shape, 0, 0).rank;

  if (p->schedule->vocabulary)
    return TRUE;
  for (int copy = 0; copy < schedule_copies(p->schedule); copy++)
    if (schedule_place(p->schedule, shape, stages - 1, copy).rank == first)
      return TRUE;
  return FALSE;
}

static void see_recompute(RecomputeLayout *r, const Plan *p)
{
  r->granularity = p->recompute;
  if (p->recompute == RECOMPUTE_NONE)
    return;
  r->scope = p->scope;
  if (p->recompute == RECOMPUTE_FULL && recompute_counts(&p->scope))
    r->cut = (StageCut) { plan_stages(p), p->split_rank, p->split };
}

static double expert_tokens(const Plan *p)
{
  if (plan_pads_experts(p))
    return p->expert_capacity;
  return p->expert_capacity > 0 ? MIN(p->expert_load, p->expert_capacity) : p->expert_load;
}

gboolean pass_is_mxfp8_graph(const PassLayout *l)
{
  return l->formats.products == PRODUCTS_FP8 && l->formats.recipe == FP8_MXFP8 && l->graph == GRAPH_FULL;
}

/* Whether selective recomputation makes whole experts again, with their router. */
static gboolean makes_experts_again(const PassLayout *l)
{
  return recompute_selects(l->recompute.granularity, &l->recompute.scope, MODULE_MOE);
}

guint pass_recorded(const PassLayout *l)
{
  return l->recorded && makes_experts_again(l) ? l->recorded & ~RECORDED_ROUTERS : l->recorded;
}

static DType attention_format(const PassLayout *l)
{
  return pass_is_mxfp8_graph(l) && l->framework->narrow_attention ? DTYPE_FP8 : l->formats.precision;
}

/* Gathers of weights for a micro-batch. Those of a step as a whole, of stages that hold FSDP2 back, are not counted. */
static int gathers_each(const Plan *p)
{
  gboolean again = !p->sharding.keeps_gathered;

  return plan_stages_gathered(p) ? again : 1 + again;
}

/* Of ZeRO-2 and 3, where gradients are divided over so many of the ranks that hold the same weights. */
static double shard_bytes(const Plan *p, int replicas, int shards)
{
  const Framework *f = p->framework;
  double bytes = f->shard_gradient_bytes + f->shard_sum_bytes / shards;

  if (p->zero < 2 || replicas == 1)
    return 0;
  if (p->zero == 3)
    bytes += f->shard_copy_bytes + gathers_each(p) * f->shard_gather_bytes +
             (plan_sums_each(p, p->zero) ? f->shard_reduce_bytes : 0);
  return bytes;
}

void pass_layout_init(PassLayout *l, const Plan *p)
{
  const ScheduleShape shape = plan_shape(p);
  int replicas = plan_replicas(p);

  memset(l, 0, sizeof *l);
  l->framework = p->framework;
  l->ranks = p->gpus;
  l->micro_batch = p->micro_batch;
  l->seq = p->seq;
  l->decoder_seq = p->decoder_seq ? p->decoder_seq : p->seq;
  l->tp = p->tp;
  l->cp = p->cp;
  l->ep = p->ep;
  l->etp = plan_expert_tensor(p);
  l->met = MAX(l->tp * l->cp, l->ep * l->etp);
  l->experts_apart = plan_experts_apart(p);
  l->sequence_parallel = p->sequence_parallel;
  l->comm_chunks = p->comm_chunks;
  l->comm_fp8 = p->comm_fp8;
  l->context = p->context;
  l->context_inner = p->cp == 1 || (p->context != CONTEXT_ALL_TO_ALL && p->context != CONTEXT_BOTH) ? 1
                     : p->context == CONTEXT_BOTH ? p->context_inner : p->cp;
  l->dispatch = p->dispatch;
  l->expert_tokens = l->expert_own_tokens = expert_tokens(p);
  l->expert_copies = plan_pads_experts(p) ? p->expert_capacity : 1;
  l->expert_rows_known = plan_pads_experts(p);
  l->attention = p->attention;
  l->graph = p->graph;
  l->recorded = plan_recorded(p);
  l->formats = plan_formats(p);
  l->wide = p->wide;
  l->attention_format = attention_format(l);
  l->gradient_bytes = gradient_bytes(p);
  l->sum_bytes = state_format_bytes(&p->optimizer, STATE_TENSOR_REDUCE, dtype_bytes[p->precision]);
  l->adapter = p->adapter;
  see_optimizer(&l->optimizer, &p->optimizer);
  l->persistence = p->zero == 3 ? p->sharding.persistence : 0;
  l->shard_bytes[0] = shard_bytes(p, replicas, plan_shards(p));
  l->shard_bytes[1] = shard_bytes(p, plan_expert_replicas(p), plan_expert_shards(p));
  l->overlap_tensor = p->overlap.tensor && (p->sequence_parallel || !p->framework->waits_for_whole_rows);
  l->overlap_experts = p->overlap.experts;
  l->overlap_exchange = p->overlap.exchange;
  l->partition_activations = p->partition_activations;
  l->ends_meet = ends_meet(p, &shape);
  l->spread_vocabulary = p->schedule->vocabulary > 0;
  see_recompute(&l->recompute, p);
}

void pass_layout_keep(PassLayout *l)
{
  memset(&l->recompute, 0, sizeof l->recompute);
}

void pass_layout_widen(PassLayout *l)
{
  memset(&l->wide, 0, sizeof l->wide);
  l->formats.products = PRODUCTS_PLAIN;
  l->formats.recipe = FP8_NONE;
  l->attention_format = attention_format(l);
}

GroupShape pass_group(const PassLayout *l, const Cluster *cluster, PassGroup group)
{
  switch (group) {
  case RANKS_TENSOR:
    return group_shape(cluster, l->tp, 1);
  case RANKS_CONTEXT:
    return group_shape(cluster, l->cp, l->tp);
  case RANKS_CONTEXT_INNER:
    return group_shape(cluster, l->context_inner, l->tp);
  case RANKS_CONTEXT_OUTER:
    return group_shape(cluster, l->cp / l->context_inner, l->tp * l->context_inner);
  case RANKS_EXPERT:
    return group_shape(cluster, l->ep, l->etp);
  case RANKS_EXPERT_TENSOR:
    return group_shape(cluster, l->etp, 1);
  default:
    return group_shape(cluster, l->etp * l->ep, 1);
  }
}

/* ---- states ---- */

/* What follows from who holds what. */
static void set_rules(StateLayout *s, const Plan *p)
{
  const Overlap *overlap = &p->overlap;
  gboolean divides = plan_sums_each(p, s->zero);

  s->optimizer_parts = s->zero >= 1 ? s->shards : 1;
  s->gradient_parts = divides ? s->shards : 1;
  s->weight_parts = s->zero == 3 ? s->shards : 1;
  s->overlap_gradients = overlap->gradients && plan_sums_beside(p);
  s->overlap_parameters = overlap->parameters && plan_gathers_beside(p);
  s->sums = s->replicas > 1;
  s->sums_each = divides;
  s->sums_at_once = s->sums && s->zero == 1 && s->framework->whole_tensors;
  s->fetches_weights = s->zero == 3 && (s->sums || s->offload.parameters);
  s->stages_hold = s->zero == 3 && plan_stages_gathered(p);
  s->gathers_ahead = s->zero > 0 && s->overlap_parameters;
  s->gathers_at_end = s->sums && (s->zero == 1 || s->zero == 2) && !s->overlap_parameters;
  s->stores_gradients = s->offload.optimizer && overlap->offload;
  s->works_by_bucket = optimizer_kind(&p->optimizer)->orthogonal && p->framework->muon_by_bucket && divides &&
                       s->zero == 3 && s->sums;
  s->reduction = s->framework->single_process           ? COLLECTIVE_BROADCAST
                 : s->zero > 0 && !s->works_by_bucket && !s->sums_at_once ? COLLECTIVE_REDUCE_SCATTER
                                                                          : COLLECTIVE_ALL_REDUCE;
  s->drops_gradients = divides && (s->sums || s->stores_gradients);
}

gboolean states_release(const StateLayout *s, Pass pass, int in_flight, gboolean last)
{
  gboolean keeps = s->sharding.keeps_gathered;

  if (s->stages_hold)
    return last || (pass == PASS_FORWARD && !keeps);
  return pass != PASS_WEIGHT && (!keeps || in_flight == 0);
}

static void init_states(StateLayout states[2], const Plan *p)
{
  int etp = plan_expert_tensor(p);

  states[0] = (StateLayout) {
    .framework = p->framework, .ranks = p->gpus, .zero = p->zero, .tensor = p->tp,
    .replicas = plan_replicas(p), .stride = p->tp, .shards = plan_shards(p), .copies = plan_copies(p),
    .formats = plan_formats(p),
    .gathers_narrow = plan_gathers_narrow(p), .gradient_bytes = gradient_bytes(p),
    .usual_gradient_bytes = in_precision(p, p->framework->gradient_bytes), .reduce_bytes = reduce_bytes(p),
    .optimizer = p->optimizer, .offload = p->offload, .sharding = p->sharding,
  };
  states[1] = states[0];
  states[1].tensor = etp;
  states[1].stride = etp * p->ep;
  states[1].replicas = plan_expert_replicas(p);
  states[1].shards = plan_expert_shards(p);
  states[1].gathers_narrow &= p->framework->fp8_primary; /* torchao's are linear layers alone, experts are none */
  states[1].sharding.secondary = (gint64)p->sharding.secondary * p->tp / states[1].stride;
  set_rules(&states[0], p);
  set_rules(&states[1], p);
}

GroupShape state_group(const Layout *l, const Cluster *cluster, gboolean experts, StateGroup group)
{
  const StateLayout *s = &l->states[experts != 0];

  switch (group) {
  case RANKS_REPLICAS:
    return mesh_places(&l->mesh, cluster, s->replicas, s->stride);
  case RANKS_SHARDS:
    return mesh_places(&l->mesh, cluster, s->shards, s->stride);
  case RANKS_SUMS:
    return mesh_places(&l->mesh, cluster, s->sums_at_once ? s->replicas : s->shards, s->stride);
  case RANKS_COPIES:
    return mesh_places(&l->mesh, cluster, s->sums_at_once ? 1 : s->copies, s->stride * s->shards);
  default:
    return mesh_places(&l->mesh, cluster, MAX(s->sharding.secondary, 1), s->stride);
  }
}

/* ---- pipeline ---- */

static PipelineLayout pipeline_of(const Plan *p)
{
  return (PipelineLayout) {
    .schedule = p->schedule, .shape = plan_shape(p), .cut = { plan_stages(p), p->split_rank, p->split },
    .scatters_sends = p->framework->scatter_gather && p->tp > 1 && !p->sequence_parallel,
    .overlaps_sends = p->overlap.pipeline,
  };
}

int pipeline_entry_stage(const PipelineLayout *l, const Model *model)
{
  int stage = 0;

  while (stage + 1 < l->cut.stages && stage_first_layer(&l->cut, model, stage + 1) <= 1 + model->encoder_blocks)
    stage++;
  return stage;
}

gboolean pipeline_entry_copies(const PipelineLayout *l, const Model *model)
{
  if (!model->encoder_blocks || model->encoder_vocab)
    return FALSE;
  int rank = pipeline_rank(l, pipeline_entry_stage(l, model), 0);
  gboolean tied = model->tied_embeddings && rank == pipeline_rank(l, l->cut.stages - 1, 0);

  return rank != pipeline_rank(l, 0, 0) && !tied;
}

gboolean layout_sums_ends(const Layout *l, const Model *model)
{
  gboolean shared = model->tied_embeddings || model->mtp > 0;

  return shared && !l->passes.ends_meet && !adapter_freezes(&l->passes.adapter);
}

/* ---- the whole ---- */

Layout layout_of(const Plan *p)
{
  Layout l = {
    .plan = p->strategies.n > 0 ? p : NULL, .mesh = mesh_of(p), .pipeline = pipeline_of(p),
    .has_replicas = plan_has_replicas(p), .global_batch = p->global_batch, .n_runs = p->strategies.n,
    .overlaps = overlap_bits(&p->overlap), .overlaps_open = plan_overlaps(p),
    .expert_load = p->expert_load, .expert_capacity = p->expert_capacity, .expert_drop = p->expert_drop,
    .expert_padded = p->expert_padded,
  };

  pass_layout_init(&l.passes, p);
  init_states(l.states, p);
  return l;
}

Layout layout_of_load(const Plan *plan, double expert_load)
{
  Plan other = *plan;
  Layout l;

  other.expert_load = expert_load;
  l = layout_of(&other);
  l.plan = l.plan ? plan : NULL;
  return l;
}

Layout layout_keeping(const Layout *l)
{
  Layout kept = *l;

  pass_layout_keep(&kept.passes);
  kept.keeps = TRUE;
  return kept;
}

StrategyRun layout_run(const Layout *l, int run)
{
  const StrategyRun own = { l->passes.tp, 0, l->passes.sequence_parallel, l->states[0].zero,
                            l->passes.recompute.granularity };

  return run < 0 ? own : l->plan->strategies.runs[run];
}

int layout_run_of_layer(const Layout *l, int layer)
{
  for (int run = 0, end = 1; layer >= 1 && run < l->n_runs; run++) {
    end += l->plan->strategies.runs[run].layers;
    if (layer < end)
      return run;
  }
  return -1;
}

Layout layout_of_run(const Layout *l, int run)
{
  Layout own = *l;

  own.n_runs = 0;
  if (run < 0)
    return own;
  Plan view = plan_of_run(l->plan, &l->plan->strategies.runs[run]);
  own = layout_of(&view);
  return l->keeps ? layout_keeping(&own) : own;
}

const Layout *layout_of_layer(const Layout *l, int layer, Layout *room)
{
  if (l->n_runs == 0)
    return l;
  *room = layout_of_run(l, layout_run_of_layer(l, layer));
  return room;
}
