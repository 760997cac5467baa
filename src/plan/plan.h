/*
 * How a model is trained on a cluster: degrees, batch, schedule, sharding.
 *
 * The file's keys are the contract's (Megatron Core's names); keys.h has
 * the table, docs/plan.md the meaning and default of each. A plan is valid for
 * a model and a cluster when plan_check says so; nothing downstream can fail
 * after that.
 */
#ifndef TDP_PLAN_PLAN_H
#define TDP_PLAN_PLAN_H

#include "base/json.h"
#include "hardware/cluster.h"
#include "model/model.h"
#include "plan/adapter.h"
#include "plan/choices.h"
#include "plan/describe.h"
#include "plan/optimizer.h"
#include "plan/recompute.h"
#include "plan/sharding.h"
#include "plan/split.h"
#include "plan/strategies.h"
#include "schedule/schedule.h"

struct Plan {
  int gpus;
  int global_batch, micro_batch; /* sequences */
  int seq;                       /* tokens */
  int decoder_seq;               /* tokens of an encoder-decoder's decoder, whose encoder has seq; 0 = seq too */
  int split_rank;                /* stages that hold an encoder-decoder's encoder; 0 = stages are cut by layers alone */
  int tp, pp, dp, cp; /* ranks of tensor, pipeline, data and context parallelism; their product is gpus */
  int vpp;            /* chunks (virtual stages) of a pipeline rank */
  int ep;             /* ranks over which the experts of a layer are divided */
  int etp;            /* ranks that share an expert's matrices; 0 = tp */
  gboolean pipeline_inner; /* ranks count the pipeline before data (layout/mesh.h) */
  ExpertDispatch dispatch; /* of tokens, where experts are divided over ranks */
  double expert_load;     /* tokens of the busiest rank's experts over the mean, before capacity; >= 1 */
  double expert_capacity; /* most tokens of an expert over the mean; 0 = none is dropped */
  ExpertDrop expert_drop; /* what is dropped beyond it */
  CudaGraph graph;        /* of a layer's kernels */
  guint graph_modules;    /* of GRAPH_PARTIAL: bit i is RecordedModule i; 0 = RECORDED_USUAL */
  gboolean expert_padded; /* each expert gets as many rows as its capacity */
  ContextExchange context; /* of keys and values, where cp > 1 */
  int context_inner;       /* neighbours of cp that change heads for rows under CONTEXT_BOTH */
  gboolean sequence_parallel;
  gboolean comm_chunks; /* rows that tensor-parallel ranks gather and scatter travel in chunks beside products */
  gboolean comm_fp8;    /* of these, rows that forwards scatter travel in 8 bits */
  int zero; /* ZeRO stage, 0 to 3 */
  int shard_group; /* ranks over which ZeRO divides; 0 = all that hold the same weights */
  Recompute recompute;
  RecomputeScope scope; /* of recomputation: layers or modules */
  DType precision; /* of weights and activations: fp32, fp16 or bf16 */
  Products products; /* format in which matrix products run: precision's, or a narrower one */
  Fp8Recipe fp8_recipe; /* of narrow products; FP8_NONE = the framework's */
  WideBlocks wide; /* blocks whose products stay in 16 bits */
  ParamGather param_gather; /* whether ranks gather weights of narrow products in their format */
  Adapter adapter; /* what is trained in place of the weights, if anything */
  Optimizer optimizer;
  Offload offload;
  ShardingOptions sharding;
  gboolean partition_activations; /* what full recomputation keeps is divided over tensor-parallel ranks */
  AttentionKernel attention;
  Overlap overlap; /* what communication runs beside computation */
  int micro_group;   /* micro-batches that an interleaved schedule runs through a chunk before the next; 0 = pp */
  LayerSplit split;  /* layers of each stage */
  LayerStrategies strategies; /* of runs of layers, where they differ from the above */
  gboolean balanced; /* the file asks for the best split, which search/balanced.h fills in */
  const char *types[NODE_TYPES_MAX]; /* names of a mixed cluster's node types along the pipeline, interned;
                                        [0] NULL: in the cluster's order */
  const Schedule *schedule;
  const Framework *framework; /* not owned: outlives the plan */
};

/* A plan for one device with every default of the framework: batch, sequence
 * from the model. */
Plan plan_default(const Model *model, const Framework *framework);

/* The modules that a partial graph records (recorded.h); 0 without one. */
static inline guint plan_recorded(const Plan *plan)
{
  return plan->graph != GRAPH_PARTIAL ? 0 : plan->graph_modules ? plan->graph_modules : RECORDED_USUAL;
}

/* Whether selective recomputation makes a module again. */
static inline gboolean recompute_selects(Recompute granularity, const RecomputeScope *scope, RecomputeModule module)
{
  return granularity == RECOMPUTE_SELECTIVE && recompute_modules(scope) >> module & 1;
}

/* Takes away the limit of an expert's tokens. */
static inline void plan_drop_capacity(Plan *plan)
{
  plan->expert_capacity = 0;
  plan->expert_drop = DROP_PROBS;
  plan->expert_padded = FALSE;
}

/* Has the host launch kernels so, of GRAPH_PARTIAL the usual ones. */
static inline void plan_set_graph(Plan *plan, CudaGraph graph)
{
  plan->graph = graph;
  plan->graph_modules = 0;
}

/* Sets schedule and chunks, and whether sends overlap as the framework does it. */
void plan_set_schedule(Plan *plan, const Schedule *schedule, int chunks);

/* Whether stages hold FSDP2 back: until a step's last backward of them, backwards give back neither gradients nor
 * weights. */
static inline gboolean plan_stages_hold(const Plan *p)
{
  return p->framework->stages_sum_once && p->pp > 1;
}

/* Whether what such a stage gathered is still there for its next pass: not where passes run as they come, so that none
 * knows which was before it. */
static inline gboolean plan_stages_gathered(const Plan *p)
{
  return plan_stages_hold(p) && !p->schedule->opportunistic;
}

/* Whether every micro-batch ends in a sum of its gradients over ranks, under that ZeRO stage. */
static inline gboolean plan_sums_each(const Plan *p, int zero)
{
  return zero >= 2 && !p->sharding.no_sync && !plan_stages_hold(p);
}

/* Whether the framework can sum gradients beside backwards of the plan. */
static inline gboolean plan_sums_beside(const Plan *p)
{
  const Framework *f = p->framework;

  if (plan_stages_hold(p))
    return FALSE;
  return !f->overlap_by_zero || (p->zero > 0 && p->pp == 1);
}

/* Whether it can gather weights beside passes of the plan. */
static inline gboolean plan_gathers_beside(const Plan *p)
{
  return !p->framework->overlap_by_zero || p->zero == 3;
}

/* The overlaps that mean something for the plan, as bits: there is something to move, and it can wait. */
guint plan_overlaps(const Plan *plan);

/* Takes those that mean nothing for the plan as another has them. */
void plan_overlaps_as(Plan *plan, const Plan *other);

/* Micro-batches of a step on each data-parallel rank. */
static inline int plan_micro_batches(const Plan *p)
{
  return p->global_batch / (p->dp * p->micro_batch);
}

static inline Fp8Recipe plan_recipe(const Plan *p)
{
  return p->products == PRODUCTS_FP4 ? FP8_NVFP4 : p->fp8_recipe ? p->fp8_recipe : p->framework->fp8;
}

/* Whether ranks could gather the weights of narrow products in their format: by a recipe that the framework
 * does it under (Framework.param_gathers), and under ZeRO-3; where weights are kept so, too (fp8_primary), from ZeRO-1 on
 * by an optimizer that writes them so: Adam's kinds with whole fp32 main weights, on the host with delayed scales alone. */
gboolean plan_can_gather_narrow(const Plan *plan);

/* Whether a ZeRO stage has an optimizer that writes such weights: in 4 bits the distributed one's alone, as Megatron's
 * FSDP, which is stage 2 and 3, knows no such tensors (core/distributed/fsdp). */
gboolean plan_stage_writes_narrow(const Plan *plan);

/* Whether they do: as the plan says, or as its framework does by default. */
gboolean plan_gathers_narrow(const Plan *plan);

static inline Formats plan_formats(const Plan *p)
{
  Formats f = { .precision = p->precision, .products = p->products, .library = p->framework->fp8_library };

  if (formats_narrow(&f))
    f.recipe = plan_recipe(p);
  return f;
}

static inline DType plan_format(const Plan *p)
{
  Formats f = plan_formats(p);
  return formats_product(&f);
}

static inline gboolean plan_narrow(const Plan *p)
{
  Formats f = plan_formats(p);
  return formats_narrow(&f);
}

/* Sets precision and products from a format's name in files. */
static inline void plan_set_format(Plan *p, DType format)
{
  p->products = format == DTYPE_FP8 ? PRODUCTS_FP8 : format == DTYPE_FP4 ? PRODUCTS_FP4
                : format == DTYPE_TF32 ? PRODUCTS_TF32 : PRODUCTS_PLAIN;
  p->precision = plan_narrow(p) ? DTYPE_BF16 : p->products == PRODUCTS_TF32 ? DTYPE_FP32 : format;
}

/* Ranks that hold the same weights: gradients are summed over them, and ZeRO
 * divides states over them (Megatron's distributed optimizer and FSDP2 count
 * context-parallel ranks in). Degrees of a plan that no rule has seen yet may
 * pass an int: then the largest one. */
static inline int plan_replicas(const Plan *p)
{
  return (int)MIN(G_MAXINT, (gint64)p->dp * p->cp);
}

/* Ranks over which ZeRO divides what it divides; the others hold copies of it. */
static inline int plan_shards(const Plan *p)
{
  return p->zero > 0 && p->shard_group ? p->shard_group : plan_replicas(p);
}

/* Copies of such a part: 1 where a shard group is larger than the replicas, which rules turn down; some ask before
 * them. */
static inline int plan_copies(const Plan *p)
{
  return MAX(1, plan_replicas(p) / plan_shards(p));
}

/* Ranks that share an expert's matrices. */
static inline int plan_expert_tensor(const Plan *p)
{
  return p->etp ? p->etp : p->tp;
}

/* Whether experts are divided over ranks otherwise than the rest of their layers. */
static inline gboolean plan_experts_apart(const Plan *p)
{
  return p->ep > 1 || plan_expert_tensor(p) != p->tp;
}

/* Whether experts work on as many rows as their capacity, empty ones behind their tokens. */
gboolean plan_pads_experts(const Plan *plan);

/* Ranks that hold the same experts' weights. */
static inline int plan_expert_replicas(const Plan *p)
{
  return (gint64)plan_replicas(p) * p->tp / ((gint64)p->ep * plan_expert_tensor(p));
}

/* Ranks that a replica of experts' optimizer states is divided over; copies of a part are as many as of other weights.
 * At least 1, whatever rules say of the plan. */
static inline int plan_expert_shards(const Plan *p)
{
  return MAX(1, plan_expert_replicas(p) / plan_copies(p));
}

/* Whether any weights stand on several ranks, which sum their gradients; ask this, not for a degree. */
static inline gboolean plan_has_replicas(const Plan *p)
{
  return plan_replicas(p) > 1 || plan_expert_replicas(p) > 1;
}

/* The plan with a run's strategy for all layers. */
Plan plan_of_run(const Plan *plan, const StrategyRun *run);

/* The plan's own strategy, without layers. */
StrategyRun plan_run(const Plan *plan);

static inline ScheduleShape plan_shape(const Plan *p)
{
  return (ScheduleShape) { .ranks = p->pp, .micro = plan_micro_batches(p), .chunks = p->vpp,
                           .group = p->micro_group, .ahead = p->overlap.exchange,
                           .table = p->schedule->placement == PLACE_TABLE ? p->framework->table : NULL };
}

/* Whether pipeline ranks stand side by side, and data-parallel ones apart; and how far from one pipeline rank's rank to the
 * next one's. */
static inline gboolean plan_pipeline_inside(const Plan *p)
{
  return p->pipeline_inner && p->pp > 1 && p->dp > 1;
}

static inline int plan_pipeline_stride(const Plan *p)
{
  return p->tp * p->cp * (plan_pipeline_inside(p) ? 1 : p->dp);
}

/* Stages that the model is cut into, in model order. */
static inline int plan_stages(const Plan *p)
{
  ScheduleShape shape = plan_shape(p);
  return schedule_stages(p->schedule, &shape);
}

/*
 * How much a plan relies on that may not do what is expected of it: one for each axis along which layers, sequences or
 * experts are divided, for a pipeline's order beyond 1F1B (two where backwards are split or the model stands twice), for
 * each kind of state that ZeRO divides beyond the optimizer's, for recomputation and again where layers of a stage
 * differ in it, for what goes to the host, for unlike stages, for unusual formats of states, and for each option beside the
 * framework's usual ones.
 */
int plan_mechanisms(const Plan *plan);

/* Reads the text of a plan file, for which `name` stands in messages; absent keys
 * take the framework's and model's defaults, and gpus and data_parallel_size
 * follow from each other. The framework named in it is loaded and returned in
 * `framework`, which the caller frees; it owns the orders of a schedule file that
 * the plan names. */
gboolean plan_parse(const char *text, gsize length, const char *name, const Model *model, Plan *out,
                    Framework **framework, GError **error);

/* The rules that a plan must keep; search counts rejections by rule. */
typedef enum {
  RULE_NONE, /* no rule is broken */
  RULE_GPUS, RULE_BATCH, RULE_HEADS, RULE_TENSOR_WIDTH, RULE_NODE_TYPES, RULE_NODE, RULE_PLACEMENT, RULE_SCHEDULE,
  RULE_RECOMPUTE,
  RULE_SEQUENCE, RULE_SEQUENCE_PARALLEL, RULE_CONTEXT, RULE_ZERO, RULE_SHARD_GROUP, RULE_PROCESS,
  RULE_SHARDING, RULE_PRECISION, RULE_OPTIMIZER, RULE_OFFLOAD,
  RULE_FAMILY, RULE_ADAPTER, RULE_EXPERTS, RULE_EXCHANGE, RULE_GRAPH, RULE_STRATEGIES,
  RULE_FRAMEWORK, /* of spaces alone: what the framework's file excludes (feature.h) */
  RULE_LAYERS, /* last: a split may mend it, and nothing else */
  RULE_COUNT,
} PlanRule;

extern const char *const plan_rule_names[];

/* The first rule that the plan breaks; the error (may be NULL) says it with the
 * numbers: TDP_ERROR_INPUT, "plan: tensor_model_parallel_size: 5: ...". */
PlanRule plan_check(const Plan *plan, const Model *model, const Cluster *cluster, GError **error);

/*
 * Parts of a plan, in the order in which a search sets them. A rule is a matter of
 * one part and of those before it; no rule reads both what changes passes and what
 * becomes of states, so that either may be checked once for all values of the other
 * (but for what goes to the host, and what a framework excludes of both together).
 */
typedef enum {
  PLAN_DEGREES,  /* model, cluster, degrees, batch and precision */
  PLAN_SCHEDULE, /* and schedule, chunks, layer split */
  PLAN_PASSES,   /* and sequence parallelism, recomputation */
  PLAN_STATES,   /* all but those two: ZeRO, shard group, offload, overlap */
} PlanPart;

/* The first of the part's own rules that the plan breaks. */
PlanRule plan_check_part(const Plan *plan, const Model *model, const Cluster *cluster, PlanPart part);

/* Sets a lower ZeRO stage, and leaves the choices that it has no meaning for. */
void plan_lower(Plan *plan, int zero);

/* Sets a higher ZeRO stage of which the plan gains the least as `framework` has it: gathered weights stay for the
 * backward where it can keep them. */
void plan_raise(Plan *plan, int zero, const Framework *framework);

/* First layer of a pipeline stage, as split_first_layer() says; stage plan_stages() is the end. */
int plan_stage_first_layer(const Plan *plan, const Model *model, int stage);

#endif
