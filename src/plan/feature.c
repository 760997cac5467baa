#include "plan/feature.h"

#include "plan/check.h"
#include "plan/excludes.h"
#include "plan/keys.h"

/* Formats of what an optimizer keeps, and of gradients as it takes them. */
static const OptimizerState states[] = { STATE_MAIN_PARAMS, STATE_MAIN_GRADS, STATE_EXP_AVG, STATE_EXP_AVG_SQ };

/* ---- whether a plan has it ---- */

static gboolean tensor(const Subject *s) { return s->plan->tp > 1; }
static gboolean pipeline(const Subject *s) { return s->plan->pp > 1; }
static gboolean one_stage(const Subject *s) { return s->plan->pp == 1; }
static gboolean capacity(const Subject *s) { return s->plan->expert_capacity > 0; }
static gboolean context(const Subject *s) { return s->plan->cp > 1; }
static gboolean experts(const Subject *s) { return model_has_experts(s->model); }
static gboolean expert_parallel(const Subject *s) { return plan_experts_apart(s->plan); }
static gboolean fp16(const Subject *s) { return s->plan->precision == DTYPE_FP16; }

/* But what PyTorch chooses where there is no FlashAttention. */
static gboolean other_attention(const Subject *s)
{
  const Plan *p = s->plan;
  const Framework *f = p->framework;
  gboolean chosen = p->attention == ATTENTION_EFFICIENT && f->attention_without_flash == p->attention;

  return !s->model->sparse && p->attention != ATTENTION_FLASH && p->attention != f->attention && !chosen;
}

static AttentionKernel kernel_of(const Subject *s)
{
  return framework_attention_named(s->plan->framework, s->plan->attention, s->cluster);
}

static gboolean other_fused_attention(const Subject *s)
{
  return other_attention(s) && kernel_of(s) != ATTENTION_UNFUSED;
}

static gboolean fused_fp32(const Subject *s)
{
  return s->plan->precision == DTYPE_FP32 && kernel_of(s) != ATTENTION_UNFUSED;
}

static gboolean sequence_parallel(const Subject *s) { return s->plan->sequence_parallel; }
static gboolean whole_rows(const Subject *s) { return s->plan->tp > 1 && !s->plan->sequence_parallel; }
static gboolean selective(const Subject *s) { return s->plan->recompute == RECOMPUTE_SELECTIVE; }
static gboolean shard_group(const Subject *s) { return plan_shards(s->plan) < plan_replicas(s->plan); }
static gboolean tiling(const Subject *s) { return s->plan->sharding.tiling > 1; }
static gboolean no_sync(const Subject *s) { return s->plan->sharding.no_sync; }
static gboolean sub_groups(const Subject *s) { return s->plan->offload.sub_group > 0; }
static gboolean split_rank(const Subject *s) { return s->plan->split_rank > 0; }
static gboolean secondary(const Subject *s) { return s->plan->sharding.secondary > 0; }
static gboolean stage(const Plan *p, int zero) { return plan_replicas(p) > 1 && p->zero == zero; }
static gboolean zero_0(const Subject *s) { return stage(s->plan, 0); }
static gboolean zero_1(const Subject *s) { return stage(s->plan, 1); }
static gboolean zero_2(const Subject *s) { return stage(s->plan, 2); }
static gboolean zero_3(const Subject *s) { return stage(s->plan, 3); }
static gboolean zero_2_or_3(const Subject *s) { return s->plan->zero >= 2; }
static gboolean exchange_overlap(const Subject *s) { return s->plan->overlap.exchange; }
static gboolean offloaded_layers(const Subject *s) { return s->plan->offload.layers > 0; }
static gboolean recorded_layers(const Subject *s) { return s->plan->graph == GRAPH_PARTIAL; }

/* Weights that the ranks which share them cannot have equal parts of. */
static gboolean uneven_shards(const Subject *s)
{
  return s->plan->zero > 0 && s->model->hidden % plan_shards(s->plan) != 0;
}

/* Micro-batches that do not fill all stages as often as one. */
static gboolean uneven_rounds(const Subject *s)
{
  return s->plan->pp > 1 && plan_micro_batches(s->plan) % s->plan->pp != 0;
}

static gboolean accumulation(const Subject *s)
{
  return s->plan->pp == 1 && plan_micro_batches(s->plan) > 1;
}

/* Degrees in the order of ranks, those that divide weights before copies, of which the first do not fill a node: one is
 * no part of what is left of it, or goes beyond it by a part of a node. */
static gboolean cut_nodes(const Subject *s)
{
  const Plan *p = s->plan;
  const int shards = p->zero == 3 ? MAX(plan_shards(p) / p->cp, 1) : 1;
  const int sizes[] = { p->tp, p->cp, p->ep, MAX(shards / p->ep, 1), p->dp / shards, p->pp };
  int room = s->cluster->n_types > 0 ? 1 : MIN(s->cluster->devices_per_node, p->gpus);

  for (gsize i = 0; i < G_N_ELEMENTS(sizes); i++) {
    int inside = MIN(sizes[i], room);
    if (sizes[i] % inside != 0 || room % inside != 0)
      return TRUE;
    room /= inside;
  }
  return FALSE;
}

/* Biases of experts whose matrices several ranks share. */
static gboolean divided_expert_biases(const Subject *s)
{
  const Model *m = s->model;
  gboolean any = FALSE;

  for (int i = 0; i < m->n_specs; i++)
    any |= m->specs[i].ffn.experts > 0 && m->specs[i].ffn.bias;
  return any && plan_expert_tensor(s->plan) > 1;
}

static gboolean unshared(const Subject *s)
{
  return s->plan->precision != DTYPE_FP32 && plan_replicas(s->plan) == 1;
}

static gboolean delayed_scaling(const Subject *s)
{
  return plan_narrow(s->plan) && plan_recipe(s->plan) == FP8_DELAYED;
}

static gboolean narrow_products(const Subject *s) { return plan_narrow(s->plan); }
static gboolean wide_blocks(const Subject *s) { return wide_any(&s->plan->wide); }

/* In fp8, more at either end than an equal stage of a pipeline has. */
static gboolean wide_beyond_stage(const Subject *s)
{
  const Plan *p = s->plan;

  return p->products == PRODUCTS_FP8 && MAX(p->wide.start, p->wide.end) > s->model->blocks / p->pp;
}

/* Modules of which the output alone is dropped, and made again from what products keep. */
#define OUTPUT_MODULES (1u << MODULE_LAYERNORM | 1u << MODULE_MOE_ACT)

static gboolean outputs_again(const Subject *s)
{
  return selective(s) && s->plan->scope.modules & OUTPUT_MODULES;
}

/* Backwards read outputs of norms as forwards made them. */
static gboolean kept_norms(const Subject *s)
{
  const Plan *p = s->plan;

  return p->recompute == RECOMPUTE_NONE || (selective(s) && !(recompute_modules(&p->scope) >> MODULE_LAYERNORM & 1));
}

/* Of experts, of which not all is made again. */
static gboolean kept_activations(const Subject *s)
{
  const guint again = 1u << MODULE_MOE | 1u << MODULE_MOE_ACT;

  return selective(s) && experts(s) && !(recompute_modules(&s->plan->scope) & again);
}

/* Of separate kernels. */
static gboolean kept_scores(const Subject *s)
{
  const Plan *p = s->plan;
  gboolean again = selective(s) && recompute_modules(&p->scope) >> MODULE_CORE_ATTN & 1;

  return p->recompute != RECOMPUTE_FULL && !again && kernel_of(s) == ATTENTION_UNFUSED;
}

static gboolean shared_overlap(const Subject *s) { return s->plan->overlap.experts; }

static gboolean shared_again(const Subject *s)
{
  return selective(s) && s->plan->scope.modules >> MODULE_SHARED_EXPERTS & 1;
}

static gboolean recompute_block(const Subject *s)
{
  const Plan *p = s->plan;

  return recompute_counts(&p->scope) && (p->scope.method == RECOMPUTE_BLOCK || p->scope.stages.stages);
}

static gboolean recompute_groups(const Subject *s)
{
  return recompute_counts(&s->plan->scope) && !recompute_block(s);
}

/* Copies of what is divided that do not each hold whole groups of context-parallel ranks. */
static gboolean context_cut(const Subject *s)
{
  const Plan *p = s->plan;

  return shard_group(s) && p->dp % plan_copies(p) != 0;
}

static gboolean client_optimizer(const Subject *s)
{
  return s->plan->optimizer.name == OPTIMIZER_ADAFACTOR || s->plan->optimizer.name == OPTIMIZER_ADAM8BIT;
}

static gboolean momentum(const Subject *s)
{
  return s->plan->optimizer.name == OPTIMIZER_SGD && s->plan->optimizer.momentum > 0;
}

static gboolean muon_settings(const Subject *s)
{
  const Optimizer usual = optimizer_default();

  return s->plan->optimizer.newton_steps != usual.newton_steps || s->plan->optimizer.muon_mode != usual.muon_mode;
}

static gboolean other_optimizer(const Subject *s)
{
  return s->plan->optimizer.name != OPTIMIZER_ADAM && s->plan->optimizer.name != OPTIMIZER_ADAMW;
}

static gboolean muon(const Subject *s)
{
  return s->plan->optimizer.name == OPTIMIZER_MUON;
}

static gboolean sgd(const Subject *s)
{
  return s->plan->optimizer.name == OPTIMIZER_SGD;
}

static gboolean state_formats(const Subject *s)
{
  return optimizer_has_formats(&s->plan->optimizer);
}

static gboolean narrow_main(const Subject *s)
{
  return s->plan->optimizer.formats[STATE_MAIN_PARAMS] > FORMAT_FP32;
}

/* Main weights and Adam's moments that are not all in the weights' bf16, or none of them: on the host moments may be wide
 * beside narrow main weights. */
static gboolean parted_states(const Subject *s)
{
  static const OptimizerState moments[] = { STATE_EXP_AVG, STATE_EXP_AVG_SQ };
  const Optimizer *o = &s->plan->optimizer;
  gboolean main = narrow_main(s), apart = o->remainders || (main && o->formats[STATE_MAIN_PARAMS] != FORMAT_BF16);

  for (gsize i = 0; i < G_N_ELEMENTS(moments); i++) {
    StateFormat format = o->formats[moments[i]];
    gboolean narrow = format > FORMAT_FP32;
    if (!(optimizer_kind(o)->formats >> moments[i] & 1))
      continue;
    apart |= narrow && format != FORMAT_BF16;
    apart |= s->plan->offload.optimizer ? narrow && !main : narrow != main;
  }
  return apart && optimizer_kind(o)->formats >> STATE_EXP_AVG & 1;
}

static gboolean narrow_reduction(const Subject *s)
{
  return s->plan->optimizer.formats[STATE_GRAD_REDUCE] > FORMAT_FP32;
}

static gboolean tensor_reduction(const Subject *s)
{
  return s->plan->optimizer.formats[STATE_TENSOR_REDUCE] != FORMAT_USUAL;
}

static gboolean hosted_optimizer(const Subject *s) { return s->plan->offload.optimizer; }

static gboolean optimizer_alone(const Subject *s)
{
  return s->plan->offload.optimizer && !s->plan->offload.parameters;
}

static gboolean nvme_activations(const Subject *s)
{
  return s->plan->offload.activations == STORE_NVME;
}

/* ---- the nearest plan without it ---- */

static void to_bf16(Plan *p) { p->precision = DTYPE_BF16; }
static void to_fp32(Plan *p) { plan_set_format(p, DTYPE_FP32); }
static void to_flash(Plan *p) { p->attention = ATTENTION_FLASH; }
static void to_unfused(Plan *p) { p->attention = ATTENTION_UNFUSED; }
static void to_current_scaling(Plan *p) { p->fp8_recipe = FP8_CURRENT; }
static void to_whole_rows(Plan *p) { p->sequence_parallel = FALSE; }
static void to_divided_rows(Plan *p) { p->sequence_parallel = TRUE; }
static void to_all_layers(Plan *p) { p->scope = (RecomputeScope) { .modules = p->scope.modules }; }
static void to_all_ranks(Plan *p) { p->shard_group = 0; }
static void to_usual_optimizer(Plan *p) { p->optimizer = optimizer_default(); }
static void to_wide_reduction(Plan *p) { p->optimizer.formats[STATE_GRAD_REDUCE] = FORMAT_FP32; }
static void to_usual_sums(Plan *p) { p->optimizer.formats[STATE_TENSOR_REDUCE] = FORMAT_USUAL; }
static void to_sync(Plan *p) { p->sharding.no_sync = FALSE; }
static void to_one_copy(Plan *p) { p->sharding.secondary = 0; }
static void to_whole_products(Plan *p) { p->sharding.tiling = 1; }
static void to_cut_by_layers(Plan *p) { p->split_rank = 0; }
static void to_one_group(Plan *p) { p->offload.sub_group = 0; }
static void to_no_momentum(Plan *p) { p->optimizer.momentum = 0; }
static void to_whole_experts(Plan *p) { p->etp = 1; }
static void to_cpu(Plan *p) { p->offload.activations = STORE_CPU; }

static void to_usual_muon(Plan *p)
{
  const Optimizer usual = optimizer_default();

  p->optimizer.newton_steps = usual.newton_steps;
  p->optimizer.muon_mode = usual.muon_mode;
}

static void to_no_recompute(Plan *p)
{
  p->recompute = RECOMPUTE_NONE;
  p->scope = (RecomputeScope) { 0 };
}

/* Of selective recomputation, without these modules. */
static void leave_modules(Plan *p, guint modules)
{
  p->scope.modules &= ~modules;
  if (!p->scope.modules)
    to_no_recompute(p);
}

static void to_cast_blocks(Plan *p) { p->wide = (WideBlocks) { 0 }; }

static void to_wide_products(Plan *p)
{
  plan_set_format(p, DTYPE_BF16);
  p->fp8_recipe = FP8_NONE;
  to_cast_blocks(p);
}

static void make_again(Plan *p, RecomputeModule module)
{
  guint before = p->recompute == RECOMPUTE_SELECTIVE ? recompute_modules(&p->scope) : 0;

  p->recompute = RECOMPUTE_SELECTIVE;
  p->scope = (RecomputeScope) { .modules = before | 1u << module };
}

static void to_norms_again(Plan *p) { make_again(p, MODULE_LAYERNORM); }
static void to_scores_again(Plan *p) { make_again(p, MODULE_CORE_ATTN); }

static void to_activations_again(Plan *p)
{
  p->scope.modules = recompute_modules(&p->scope) | 1u << MODULE_MOE_ACT;
}

static void to_kept_outputs(Plan *p) { leave_modules(p, OUTPUT_MODULES); }
static void to_kept_shared(Plan *p) { leave_modules(p, 1u << MODULE_SHARED_EXPERTS); }
static void to_shared_apart(Plan *p) { p->overlap.experts = FALSE; }
static void to_exchange_apart(Plan *p) { p->overlap.exchange = FALSE; }
static void to_kept_layers(Plan *p) { p->offload.layers = 0; }
static void to_launched(Plan *p) { plan_set_graph(p, GRAPH_NONE); }

static void to_usual_formats(Plan *p)
{
  for (gsize i = 0; i < G_N_ELEMENTS(states); i++)
    p->optimizer.formats[states[i]] = FORMAT_USUAL;
  p->optimizer.remainders = FALSE;
}

static void to_device(Plan *p)
{
  p->offload = (Offload) { .activations = p->offload.activations, .layers = p->offload.layers };
}

/* ---- in words, where no one key says it ---- */

static char *tell_shards(const Subject *s)
{
  return g_strdup_printf("zero_stage: %d over %d ranks, hidden %d", s->plan->zero, plan_shards(s->plan),
                         s->model->hidden);
}

static char *tell_rounds(const Subject *s)
{
  return g_strdup_printf("pipeline_model_parallel_size: %d, %d micro-batches", s->plan->pp,
                         plan_micro_batches(s->plan));
}

static char *tell_degrees(const Subject *s)
{
  const Plan *p = s->plan;

  return g_strdup_printf("tensor_model_parallel_size: %d, context_parallel_size: %d, data_parallel_size: %d, "
                         "pipeline_model_parallel_size: %d, nodes of %d", p->tp, p->cp, p->dp, p->pp,
                         s->cluster->devices_per_node);
}

static char *tell_wide(const Subject *s)
{
  return g_strdup_printf("num_layers_at_start_in_bf16: %d, num_layers_at_end_in_bf16: %d, %d blocks on %d stages",
                         s->plan->wide.start, s->plan->wide.end, s->model->blocks, s->plan->pp);
}

static const struct {
  const char *name;
  gboolean (*has)(const Subject *subject);
  PlanPart reads;
  void (*drop)(Plan *plan); /* NULL: degrees and models stay as they are, stages of ZeRO are nearest.c's matter */
  PlanKeyId key;            /* by whose value a plan has it, where that is one number or name */
  char *(*told)(const Subject *subject); /* in words with keys and values, newly allocated; NULL: by the key */
  const char *expected;     /* beside `told` */
} features[FEATURE_COUNT] = {
  [FEATURE_TENSOR] = { "tensor", tensor, PLAN_DEGREES, NULL, KEY_TP },
  [FEATURE_PIPELINE] = { "pipeline", pipeline, PLAN_DEGREES, NULL, KEY_PP },
  [FEATURE_CONTEXT] = { "context", context, PLAN_DEGREES, NULL, KEY_CP },
  [FEATURE_ONE_STAGE] = { "one_stage", one_stage, PLAN_DEGREES, NULL, KEY_PP },
  [FEATURE_EXPERT_CAPACITY] = { "expert_capacity", capacity, PLAN_DEGREES, plan_drop_capacity },
  [FEATURE_EXPERTS] = { "experts", experts, PLAN_DEGREES, NULL },
  [FEATURE_EXPERT_PARALLEL] = { "expert_parallel", expert_parallel, PLAN_DEGREES, NULL, KEY_EP },
  [FEATURE_DIVIDED_EXPERT_BIASES] = { "divided_expert_biases", divided_expert_biases, PLAN_DEGREES, to_whole_experts,
                                      KEY_ETP },
  [FEATURE_FP16] = { "fp16", fp16, PLAN_DEGREES, to_bf16 },
  [FEATURE_UNSHARED_16_BIT] = { "unshared_16_bit", unshared, PLAN_DEGREES, to_fp32 },
  [FEATURE_OTHER_ATTENTION] = { "other_attention", other_attention, PLAN_DEGREES, to_flash },
  [FEATURE_DELAYED_SCALING] = { "delayed_scaling", delayed_scaling, PLAN_DEGREES, to_current_scaling },
  [FEATURE_NARROW_PRODUCTS] = { "narrow_products", narrow_products, PLAN_DEGREES, to_wide_products },
  [FEATURE_WIDE_BLOCKS] = { "bf16_layers", wide_blocks, PLAN_DEGREES, to_cast_blocks },
  [FEATURE_WIDE_BEYOND_STAGE] = { "bf16_layers_beyond_stage", wide_beyond_stage, PLAN_DEGREES, to_cast_blocks,
                                  .told = tell_wide, .expected = "no more at either end than blocks / stages" },
  [FEATURE_ACCUMULATION] = { "accumulation", accumulation, PLAN_DEGREES, NULL },
  [FEATURE_FUSED_FP32] = { "fused_attention_in_fp32", fused_fp32, PLAN_DEGREES, to_unfused },
  [FEATURE_OTHER_FUSED] = { "other_fused_attention", other_fused_attention, PLAN_DEGREES, to_flash },
  [FEATURE_UNEVEN_ROUNDS] = { "uneven_rounds", uneven_rounds, PLAN_DEGREES, NULL, .told = tell_rounds,
                              .expected = "a multiple of the stages" },
  [FEATURE_SHARED_OVERLAP] = { "shared_expert_overlap", shared_overlap, PLAN_DEGREES, to_shared_apart },
  [FEATURE_OUTPUTS_AGAIN] = { "recomputed_outputs", outputs_again, PLAN_PASSES, to_kept_outputs },
  [FEATURE_SHARED_AGAIN] = { "recomputed_shared_experts", shared_again, PLAN_PASSES, to_kept_shared },
  [FEATURE_KEPT_NORMS] = { "kept_norms", kept_norms, PLAN_PASSES, to_norms_again },
  [FEATURE_KEPT_SCORES] = { "kept_scores", kept_scores, PLAN_PASSES, to_scores_again },
  [FEATURE_KEPT_ACTIVATIONS] = { "kept_activations", kept_activations, PLAN_PASSES, to_activations_again },
  [FEATURE_SPLIT_RANK] = { "split_rank", split_rank, PLAN_SCHEDULE, to_cut_by_layers },
  [FEATURE_SEQUENCE_PARALLEL] = { "sequence_parallel", sequence_parallel, PLAN_PASSES, to_whole_rows,
                                  KEY_SEQUENCE_PARALLEL },
  [FEATURE_WHOLE_ROWS] = { "whole_rows", whole_rows, PLAN_PASSES, to_divided_rows, KEY_SEQUENCE_PARALLEL },
  [FEATURE_EXCHANGE_OVERLAP] = { "exchange_overlap", exchange_overlap, PLAN_PASSES, to_exchange_apart, KEY_EXCHANGE },
  [FEATURE_RECORDED_LAYERS] = { "recorded_layers", recorded_layers, PLAN_PASSES, to_launched, KEY_GRAPH },
  [FEATURE_OFFLOADED_LAYERS] = { "offloaded_layers", offloaded_layers, PLAN_PASSES, to_kept_layers,
                                 KEY_OFFLOAD_LAYERS },
  [FEATURE_SELECTIVE] = { "selective", selective, PLAN_PASSES, to_no_recompute, KEY_RECOMPUTE },
  [FEATURE_RECOMPUTE_BLOCK] = { "recompute_block", recompute_block, PLAN_PASSES, to_all_layers, KEY_RECOMPUTE_LAYERS },
  [FEATURE_RECOMPUTE_GROUPS] = { "recompute_groups", recompute_groups, PLAN_PASSES, to_all_layers },
  [FEATURE_ZERO_0] = { "zero_0", zero_0, PLAN_STATES, NULL, KEY_ZERO },
  [FEATURE_ZERO_1] = { "zero_1", zero_1, PLAN_STATES, NULL, KEY_ZERO },
  [FEATURE_ZERO_2] = { "zero_2", zero_2, PLAN_STATES, NULL, KEY_ZERO },
  [FEATURE_ZERO_3] = { "zero_3", zero_3, PLAN_STATES, NULL, KEY_ZERO },
  [FEATURE_ZERO_2_OR_3] = { "zero_2_or_3", zero_2_or_3, PLAN_STATES, NULL, KEY_ZERO },
  [FEATURE_UNEVEN_SHARDS] = { "uneven_shards", uneven_shards, PLAN_STATES, NULL, .told = tell_shards,
                              .expected = "ranks that divide it" },
  [FEATURE_CUT_NODES] = { "cut_nodes", cut_nodes, PLAN_STATES, NULL, .told = tell_degrees,
                          .expected = "degrees of which the first fill a node" },
  [FEATURE_SHARD_GROUP] = { "shard_group", shard_group, PLAN_STATES, to_all_ranks, KEY_SHARD_GROUP },
  [FEATURE_CONTEXT_CUT] = { "context_cut", context_cut, PLAN_STATES, to_all_ranks, KEY_SHARD_GROUP },
  [FEATURE_CLIENT_OPTIMIZER] = { "client_optimizer", client_optimizer, PLAN_STATES, to_usual_optimizer, KEY_OPTIMIZER },
  [FEATURE_OTHER_OPTIMIZER] = { "other_optimizer", other_optimizer, PLAN_STATES, to_usual_optimizer, KEY_OPTIMIZER },
  [FEATURE_MUON_SETTINGS] = { "muon_settings", muon_settings, PLAN_STATES, to_usual_muon },
  [FEATURE_MOMENTUM] = { "momentum", momentum, PLAN_STATES, to_no_momentum },
  [FEATURE_MUON] = { "muon", muon, PLAN_STATES, to_usual_optimizer, KEY_OPTIMIZER },
  [FEATURE_SGD] = { "sgd", sgd, PLAN_STATES, to_usual_optimizer, KEY_OPTIMIZER },
  [FEATURE_STATE_FORMATS] = { "state_formats", state_formats, PLAN_STATES, to_usual_formats },
  [FEATURE_NARROW_MAIN] = { "narrow_main_params", narrow_main, PLAN_STATES, to_usual_formats },
  [FEATURE_PARTED_STATES] = { "parted_states", parted_states, PLAN_STATES, to_usual_formats },
  [FEATURE_NARROW_REDUCTION] = { "narrow_reduction", narrow_reduction, PLAN_STATES, to_wide_reduction },
  [FEATURE_TENSOR_REDUCTION] = { "tensor_reduction", tensor_reduction, PLAN_STATES, to_usual_sums },
  [FEATURE_NO_SYNC] = { "no_sync", no_sync, PLAN_STATES, to_sync },
  [FEATURE_SECONDARY] = { "secondary", secondary, PLAN_STATES, to_one_copy },
  [FEATURE_TILING] = { "tiling", tiling, PLAN_STATES, to_whole_products },
  [FEATURE_OPTIMIZER_ALONE] = { "optimizer_alone", optimizer_alone, PLAN_STATES, to_device, KEY_OFFLOAD },
  [FEATURE_HOSTED_OPTIMIZER] = { "hosted_optimizer", hosted_optimizer, PLAN_STATES, to_device, KEY_OFFLOAD },
  [FEATURE_SUB_GROUPS] = { "sub_groups", sub_groups, PLAN_STATES, to_one_group },
  [FEATURE_NVME_ACTIVATIONS] = { "nvme_activations", nvme_activations, PLAN_STATES, to_cpu },
};

PlanKeyId feature_key(Feature feature)
{
  return features[feature].key;
}

PlanPart feature_part(Feature feature)
{
  return features[feature].reads;
}

Feature feature_named(const char *name)
{
  Feature i = 0;

  while (i < FEATURE_COUNT && !g_str_equal(features[i].name, name))
    i++;
  return i;
}

gboolean plan_has_all(const Plan *plan, const Model *model, const Cluster *cluster, const Exclusion *exclusion)
{
  const Subject subject = { plan, model, cluster };

  for (guint64 left = exclusion->features; left; left &= left - 1)
    if (!features[__builtin_ctzll(left)].has(&subject))
      return FALSE;
  return TRUE;
}

guint64 plan_excluded(const Plan *plan, const Model *model, const Cluster *cluster, const Framework *framework)
{
  guint64 broken = 0;

  for (guint i = 0; framework->excludes && i < framework->excludes->len; i++)
    if (plan_has_all(plan, model, cluster, &g_array_index(framework->excludes, Exclusion, i)))
      broken |= G_GUINT64_CONSTANT(1) << i;
  return broken;
}

gboolean plan_drop(Plan *plan, Feature feature)
{
  if (features[feature].drop)
    features[feature].drop(plan);
  return features[feature].drop != NULL;
}

/* ---- what is said of it ---- */

/* "zero_stage: 1"; its own name where no one key says it. */
static void say_feature(GString *text, const Subject *s, Feature feature)
{
  g_autofree char *told = features[feature].told ? features[feature].told(s) : NULL;
  const PlanKey *key = features[feature].key ? plan_key_of(features[feature].key) : NULL;
  const PlanFile file = plan_as_file(s->plan);
  gboolean says = key && key->field.type != JSON_ANY;
  int value = says ? G_STRUCT_MEMBER(int, &file, key->field.offset) : 0;

  says = says && value >= key->field.min; /* else it follows from other keys */
  if (told || !says)
    g_string_append(text, told ? told : features[feature].name);
  else if (key->field.type == JSON_INT)
    g_string_append_printf(text, "%s: %d", key->field.key, value);
  else
    g_string_append_printf(text, "%s: %s", key->field.key,
                           key->field.names ? key->field.names[value] : value ? "true" : "false");
}

char *exclusion_text(const Plan *plan, const Model *model, const Cluster *cluster, const Exclusion *exclusion)
{
  const Subject subject = { plan, model, cluster };
  GString *text = g_string_new(NULL);

  say_feature(text, &subject, exclusion->changed);
  for (guint64 left = exclusion->features; left; left &= left - 1)
    if (__builtin_ctzll(left) != (int)exclusion->changed)
      say_feature(g_string_append(text, " with "), &subject, __builtin_ctzll(left));
  return g_string_free(text, FALSE);
}

const char *exclusion_expected(const Exclusion *exclusion)
{
  const char *expected = features[exclusion->changed].expected;

  return expected ? expected : "not both";
}

void plan_settle_attention(Plan *plan, const Model *model, const Cluster *cluster)
{
  const Subject subject = { plan, model, cluster };
  const GArray *excludes = plan->framework->excludes;

  plan->attention = kernel_of(&subject);
  for (guint i = 0; excludes && i < excludes->len; i++)
    if (g_array_index(excludes, Exclusion, i).features == G_GUINT64_CONSTANT(1) << FEATURE_FUSED_FP32 && fused_fp32(&subject))
      to_unfused(plan);
}
