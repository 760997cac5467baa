/*
 * What a checked plan means on its ranks, worked out once: who shares what, what is divided over whom, what moves and
 * when. Floors above read layouts, not a plan's degrees (`tests/layers` lists those who make plans); a rule about who
 * shares what stands here.
 *
 * A layout has parts, so that types say what may depend on what:
 *
 *   mesh      the grids of ranks (mesh.h)
 *   passes    all that the work of a pass, its time and what a layer keeps depend on, and nothing else
 *   states    of weights, [0] all but [1] those of experts: which ranks hold the same, over which of them ZeRO
 *             divides what, what is gathered, summed and moved to the host, and when
 *   pipeline  stages, the order of passes along them, what stages send each other
 *
 * Prices are made of a PassLayout alone and are known again by it, so that no price can depend on what it is not
 * known by: PassLayouts that are equal as memory have equal prices, to the last bit.
 *
 * Layers may have strategies of their own (plan/strategies.h): layout_of_run() is the layout as the layers of such a
 * run see it, an ordinary one.
 *
 * Sizes count ranks, tokens, sequences, parameters and bytes. A layout is a plain value that costs no more than a few
 * hundred instructions; nothing is to be freed, nothing can fail after plan_check. Shapes of groups on a cluster are
 * made when they are asked for. The plan's framework and schedule must outlive it, and the plan itself where layers
 * have strategies of their own.
 *
 * To add a key of plans: the field of the part that it changes, filled in by layout.c. What passes depend on goes
 * into PassLayout, and is by that in the key of prices.
 */
#ifndef TDP_LAYOUT_LAYOUT_H
#define TDP_LAYOUT_LAYOUT_H

#include "hardware/collective.h"
#include "layout/mesh.h"
#include "model/model.h"
#include "plan/adapter.h"
#include "plan/choices.h"
#include "plan/recompute.h"
#include "plan/split.h"
#include "plan/strategies.h"
#include "schedule/schedule.h"

/* How the model's layers are cut into stages. */
typedef struct {
  int stages;
  int split_rank;   /* stages that hold an encoder-decoder's encoder; 0 = stages are cut by layers alone */
  LayerSplit split; /* layers of each stage; without stages: equal ones */
} StageCut;

/* What is made again for the backwards of blocks. */
typedef struct {
  Recompute granularity;
  RecomputeScope scope;
  StageCut cut; /* where the scope counts the layers of each stage (recompute_counts); else all 0 */
} RecomputeLayout;

/* Compared as memory: what no pass sees is 0, as are the bytes between members. */
typedef struct {
  const Framework *framework;
  int ranks;                    /* of the job: passes take as long as on the slowest of their devices */
  int micro_batch;              /* sequences */
  int seq, decoder_seq;         /* tokens; of an encoder-decoder's encoder and decoder, else both the same */
  int tp, cp;                   /* ranks that share a layer's matrices; that share a sequence */
  int ep, etp;                  /* ranks that experts are divided over; that share an expert's matrices */
  int met;                      /* ranks that wait for one another inside passes: tp x cp or, if more, ep x etp */
  gboolean experts_apart;       /* experts are divided over ranks otherwise than the rest of their layers */
  gboolean sequence_parallel;
  gboolean comm_chunks;         /* rows that tensor-parallel ranks gather or scatter travel in chunks beside the
                                   products that they feed or follow */
  gboolean comm_fp8;            /* of these, those that forwards scatter travel in 8 bits */
  ContextExchange context;      /* of keys and values, where cp > 1 */
  int context_inner;            /* neighbours of cp that change heads for rows: none, all, or those of a group among
                                   which keys and values go round */
  ExpertDispatch dispatch;      /* of tokens, where experts are apart */
  double expert_tokens;         /* that the busiest rank's experts see over the mean; of a framework that pads, the
                                   limit */
  double expert_own_tokens;     /* the same of what comes to a rank itself, not to one that shares its experts' matrices;
                                   as many unless it is known */
  double expert_copies;         /* rows that a rank sends to experts over its tokens' choices: more where each expert
                                   gets its capacity */
  gboolean expert_rows_known;   /* each expert gets its capacity: no device needs to be asked how many rows it has */
  AttentionKernel attention;
  CudaGraph graph;              /* of a layer's kernels */
  guint recorded;               /* modules of a partial one (plan/recorded.h); else 0 */
  Formats formats;
  WideBlocks wide;              /* see the passes as pass_layout_widen() makes them */
  DType attention_format;       /* of the products in attention's core */
  double gradient_bytes;        /* of an accumulated gradient */
  double sum_bytes;             /* of an element that tensor-parallel ranks sum, on the wire */
  Adapter adapter;              /* what is trained beside weights that are frozen; of these no gradients are made */
  Optimizer optimizer;          /* as far as tensors have states and work of their own under it */
  double persistence;           /* ZeRO-3 leaves tensors of fewer parameters whole on each rank; else 0 */
  double shard_bytes[2];        /* [experts]: read and written for a weight and micro-batch around the collectives of
                                   ZeRO-2 and 3 */
  gboolean overlap_tensor, overlap_experts, overlap_exchange; /* Overlap's of these names */
  gboolean partition_activations; /* what full recomputation keeps is divided over tensor-parallel ranks */
  gboolean ends_meet;           /* one pipeline rank holds the embedding and the head, of whatever copy, or the same
                                   part of both: it keeps tied weights once */
  gboolean spread_vocabulary;   /* embedding and output layer are divided over all pipeline ranks */
  RecomputeLayout recompute;
} PassLayout;

/* Rows at the busiest rank's experts over an even share of them; of experts that are whole on each rank, padding alone. */
static inline double pass_expert_rows(const PassLayout *p)
{
  return p->experts_apart ? p->expert_tokens : MIN(p->expert_tokens, p->expert_copies);
}

/* Groups of ranks that communicate inside passes; their shapes do not depend on the order of ranks. */
typedef enum {
  RANKS_TENSOR, RANKS_CONTEXT,
  RANKS_CONTEXT_INNER, RANKS_CONTEXT_OUTER, /* that change heads for rows; one of each such group */
  RANKS_EXPERT,        /* ranks that experts are divided over, */
  RANKS_EXPERT_TENSOR, /* that share an expert's matrices, */
  RANKS_EXPERT_BLOCK,  /* that hold one copy of all experts of a layer: neighbours */
} PassGroup;

/* Weights of a kind and what belongs to them. */
typedef struct {
  const Framework *framework;
  int ranks;          /* of the job */
  int zero;           /* ZeRO stage, 0 to 3 */
  int tensor;         /* ranks that share each matrix */
  int replicas;       /* ranks that hold the same weights: gradients are summed over them (Megatron's distributed
                         optimizer and FSDP2 count context-parallel ranks in) */
  int stride;         /* places of a stage between neighbouring replicas */
  int shards, copies; /* of replicas, those over which ZeRO divides; those that hold the same part. Their product */
  int weight_parts, gradient_parts, optimizer_parts; /* ranks over which each is divided: `shards` or 1 */
  Formats formats;
  gboolean gathers_narrow;    /* weights of narrow products are gathered in their format (plan_gathers_narrow) */
  double usual_gradient_bytes; /* of an accumulated gradient whose format the plan does not choose */
  double gradient_bytes, reduce_bytes; /* of an accumulated gradient, of one on the wire: the framework's for the
                                          precision, but no narrower than the weights where those are fp32 */
  Optimizer optimizer;
  Offload offload;
  ShardingOptions sharding;   /* `secondary`: of the ranks that share a second copy, those that hold these weights */
  gboolean overlap_gradients;  /* sums run beside the last backwards, bucket by bucket */
  gboolean overlap_parameters; /* gathers of weights run beside passes */
  gboolean sums;              /* stand on several ranks, which sum their gradients */
  gboolean sums_each;         /* every micro-batch's gradients are summed, not the step's */
  gboolean sums_at_once;      /* ZeRO divides, but all replicas get all sums: no part is summed over copies apart */
  gboolean fetches_weights;   /* passes work on weights that come for them alone: gathered over ranks, or from the
                                 host */
  gboolean stages_hold;       /* what a backward fetches stays until a forward, or the step's last backward, gives it
                                 back (plan_stages_gathered) */
  gboolean gathers_ahead;     /* updated weights are gathered before their first use in the step, beside passes */
  gboolean gathers_at_end;    /* updated weights are gathered behind the optimizer */
  gboolean stores_gradients;  /* gradients go to the host as they are made, not when all are there */
  gboolean works_by_bucket;   /* the optimizer works on each micro-batch's gradients (Framework.muon_by_bucket) */
  Collective reduction;       /* that sums gradients over RANKS_SUMS */
  gboolean drops_gradients;   /* each backward's gradients leave the device's whole copy: scattered over ranks, or for
                                 the host */
} StateLayout;

/* Groups of ranks that hold weights of a kind. */
typedef enum {
  RANKS_REPLICAS,  /* ranks that hold the same weights */
  RANKS_SHARDS,    /* of these, those over which ZeRO divides (neighbours), */
  RANKS_SUMS,      /* those that `reduction` sums over: the shards, or all replicas at once, */
  RANKS_COPIES,    /* and those that hold the same part, which sum it behind that; one rank if all is summed at once */
  RANKS_SECONDARY, /* of the shards, those that share a second copy of weights for backwards; one rank if none do */
} StateGroup;

typedef struct {
  const Schedule *schedule;
  ScheduleShape shape;     /* ranks, chunks of each, micro-batches of a step on each data-parallel rank */
  StageCut cut;
  gboolean scatters_sends; /* each tensor-parallel rank sends its part of what goes to the next stage, where they gather
                              it: rows that sequence parallelism divides are parts already */
  gboolean overlaps_sends; /* sends run beside computation */
} PipelineLayout;

typedef struct {
  const Plan *plan; /* that it was made of, for layout_of_run() alone; NULL where n_runs is 0 */
  Mesh mesh;
  PassLayout passes;
  StateLayout states[2]; /* [experts]; where experts are not apart, [1] says what it would be */
  PipelineLayout pipeline;
  gboolean has_replicas; /* any weights stand on several ranks; ask this, not for a degree */
  gboolean keeps;        /* blocks keep everything, whatever their run says */
  int global_batch;      /* sequences of a step */
  guint overlaps, overlaps_open; /* OverlapBits: what runs beside computation; for which of them that means something */
  int n_runs;            /* runs of blocks with strategies of their own, in model order; 0 = all layers are alike */
  double expert_load;    /* tokens of the busiest rank's experts over the mean, before capacity; >= 1 */
  double expert_capacity; /* most tokens of an expert over the mean; 0 = none is dropped */
  ExpertDrop expert_drop; /* what is dropped beyond it */
  gboolean expert_padded; /* each expert gets as many rows as its capacity */
} Layout;

/* Of a plan that plan_check accepts. */
Layout layout_of(const Plan *plan);

/* The same with another expert_load, which layers that have strategies of their own do not see. */
Layout layout_of_load(const Plan *plan, double expert_load);

/* Its passes alone, for those who know prices again by them. */
void pass_layout_init(PassLayout *passes, const Plan *plan);

/* The same where blocks keep everything for their backwards. */
void pass_layout_keep(PassLayout *passes);
Layout layout_keeping(const Layout *layout);

/* The same where no products are cast. */
void pass_layout_widen(PassLayout *passes);

/* The layout as the layers of run 0 .. n_runs - 1 see it; -1: as the embedding, the head and what stages send do. */
Layout layout_of_run(const Layout *layout, int run);

/* The run's strategy, with its number of blocks; -1: the layout's own. */
StrategyRun layout_run(const Layout *layout, int run);

/* The run of a layer, an index into Model.layers; -1: it is as the layout says. */
int layout_run_of_layer(const Layout *layout, int layer);

/* The layout as a layer sees it, an index into Model.layers: itself where all layers are alike, else in `room`. */
const Layout *layout_of_layer(const Layout *layout, int layer, Layout *room);

/* Shapes of groups on a cluster of alike nodes. */
GroupShape pass_group(const PassLayout *passes, const Cluster *cluster, PassGroup group);
GroupShape state_group(const Layout *layout, const Cluster *cluster, gboolean experts, StateGroup group);

/* First layer of a stage (in model order, chunks counted), as an index into Model.layers; stage cut->stages is the
 * end. Stage 0 also holds the embedding, the last one the head. */
static inline int stage_first_layer(const StageCut *cut, const Model *model, int stage)
{
  return split_first_layer(&cut->split, cut->stages, cut->split_rank, model, stage);
}

/* Blocks of a stage, as indices into Model.layers up to `end`; neither the embedding, nor what stands behind the last
 * block: modules for multi-token prediction and the head. */
typedef struct {
  int first, end;
} StageBlocks;

static inline StageBlocks stage_blocks(const StageCut *cut, const Model *model, int stage)
{
  return (StageBlocks) { MAX(1, stage_first_layer(cut, model, stage)),
                         MIN(1 + model->blocks, stage_first_layer(cut, model, stage + 1)) };
}

/* Whether steps are one CUDA graph in mxfp8, for which frameworks have kernels of their own (Framework.grouped_kernels,
 * narrow_attention). */
gboolean pass_is_mxfp8_graph(const PassLayout *passes);

/* Modules that a partial CUDA graph records: without routers of experts that are made again (Megatron Core's
 * transformer_config.py), which nobody may name. */
guint pass_recorded(const PassLayout *passes);

/* Tokens of a sequence in the layers of a stream. */
static inline int pass_seq(const PassLayout *passes, gboolean encoder)
{
  return encoder ? passes->seq : passes->decoder_seq;
}

/* The pipeline rank of a stage of a copy of the model. */
static inline int pipeline_rank(const PipelineLayout *pipeline, int stage, int copy)
{
  return schedule_place(pipeline->schedule, &pipeline->shape, stage, copy).rank;
}

/* The stage with an encoder-decoder's first decoder block, and whether it keeps a copy of the embedding's table for
 * it: neither the first stage, nor the last one with a tied head, is on the same rank. */
int pipeline_entry_stage(const PipelineLayout *pipeline, const Model *model);
gboolean pipeline_entry_copies(const PipelineLayout *pipeline, const Model *model);

/* Whether the first and the last stage add up their gradients of a table that both hold, for a tied head or to predict
 * further tokens: unless one rank holds both, or it is frozen. */
gboolean layout_sums_ends(const Layout *layout, const Model *model);

/* Whether a pass of a chunk gives back the weights that it worked on (fetches_weights). FSDP's hooks do so behind a
 * forward, unless it keeps them for the backward, and behind a backward; those of stages that hold it back
 * (stages_hold) behind forwards alone, and behind the chunk's last pass of the step. `in_flight`: micro-batches that
 * are between the chunk's forward and its backward behind the pass, which such stages do not ask. PASS_WEIGHT reads no
 * weights. */
gboolean states_release(const StateLayout *states, Pass pass, int in_flight, gboolean last);

#endif
