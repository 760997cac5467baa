/*
 * A generation of training software: what it fuses, overlaps, allocates and
 * launches. A plan names one; two plans that differ in nothing else may differ
 * in time and memory for these reasons only. Each is a file of
 * plans/frameworks/ in which `source` gives the reason of every number.
 */
#ifndef TDP_PLAN_FRAMEWORK_H
#define TDP_PLAN_FRAMEWORK_H

#include "hardware/cluster.h"
#include "plan/adapter.h"
#include "plan/feature.h"
#include "plan/optimizer.h"
#include "plan/recompute.h"
#include "plan/recorded.h"
#include "plan/sharding.h"
#include "plan/split.h"
#include "schedule/table.h"

typedef enum { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL, RECOMPUTE_COUNT } Recompute;
extern const char *const recompute_names[];

/* What a figure of a device's memory counts: all that the driver gave out, what
 * PyTorch's allocator had in use at its peak, or what the allocator held. */
typedef enum { MEMORY_OF_DRIVER, MEMORY_ALLOCATED, MEMORY_RESERVED } MemoryCount;
extern const char *const memory_count_names[];

/* How ranks that hold parts of a sequence exchange keys and values: blocks go
 * round a ring beside the attention to the block before (ring attention, Liu et
 * al. 2023, arXiv 2310.01889; Transformer Engine's p2p); all are gathered first
 * (Llama 3, arXiv 2407.21783, section 3.3.2); or sequence and heads change
 * places (DeepSpeed-Ulysses, arXiv 2309.14509); or these change places within groups of neighbours, among
 * which keys and values go round (Transformer Engine's a2a+p2p). */
typedef enum {
  CONTEXT_RING, CONTEXT_GATHER, CONTEXT_ALL_TO_ALL, CONTEXT_BOTH, CONTEXT_COUNT,
} ContextExchange;
extern const char *const context_exchange_names[];

/* How scales of fp8 tensors, with the last one of fp4 tensors, are found: op/fp8.h. */
typedef enum {
  FP8_NONE, FP8_DELAYED, FP8_CURRENT, FP8_TENSORWISE, FP8_ROWWISE, FP8_BLOCKWISE, FP8_MXFP8, FP8_NVFP4, FP8_COUNT,
} Fp8Recipe;
extern const char *const fp8_recipe_names[];

/* What casts to 8 and 4 bits, where recipes of a name differ. */
typedef enum { FP8_TRANSFORMER_ENGINE, FP8_TORCHAO } Fp8Library;

/* Where a framework can put experts: on every rank whole (divided by tensor parallelism alone);
 * over data-parallel ranks, with tensor parallelism as in the rest of the layer; over all ranks of a stage. */
typedef enum { EXPERTS_WHOLE, EXPERTS_DATA, EXPERTS_FOLDED } ExpertPlacement;

/* How tokens reach experts on other ranks: each rank sends every expert's rank its tokens; all
 * ranks gather all tokens, and sum what their experts make of them; each rank sends every node
 * its tokens once, where they are forwarded, and added up before they return (DeepSeek-V3, arXiv
 * 2412.19437, section 3.2.2; DeepEP, Megatron Core's flex); the same with copies by the memory engines of few
 * multiprocessors, over whole NVLink domains, which lays rows out by expert as they arrive (HybridEP,
 * deepseek-ai/DeepEP, branch hybrid-ep; Megatron Core's flex with the backend hybridep). */
typedef enum { DISPATCH_ALL_TO_ALL, DISPATCH_GATHER, DISPATCH_FLEX, DISPATCH_HYBRID, DISPATCH_COUNT } ExpertDispatch;

/* Whether rows go by kernels of their own, which send each once to a node (DeepEP, HybridEP), not by collectives. */
static inline gboolean dispatch_by_kernels(ExpertDispatch dispatch)
{
  return dispatch == DISPATCH_FLEX || dispatch == DISPATCH_HYBRID;
}

extern const char *const expert_dispatch_names[];

/* What becomes of a limit of an expert's tokens: it has none; tokens beyond are dropped; and
 * experts with fewer work on empty rows up to it, so that all have as many. */
typedef enum { CAPACITY_NONE, CAPACITY_DROP, CAPACITY_PAD } ExpertCapacity;

typedef enum { ACCUMULATE_NONE, ACCUMULATE_SEPARATE, ACCUMULATE_FUSED } Accumulation;
typedef enum { PLACEHOLDERS_NONE, PLACEHOLDERS_PASSING, PLACEHOLDERS_KEPT } Placeholders; /* op/placeholder.c */

/* What a step works on where gradients are not kept in fp32: on them; on fp32 copies of all, made one by one before any
 * is used (Megatron-LM's _copy_model_grads_to_main_grads()); on one flat fp32 tensor for each group of parameters
 * (DeepSpeed's optimizers). */
typedef enum { STEP_IN_PLACE, STEP_COPIED, STEP_FLATTENED } StepGradients;

/* Kernels of block-sparse attention: products and softmax of blocks apart, or fused. */
typedef enum { SPARSE_SEPARATE, SPARSE_FUSED } SparseKernels;

typedef struct {
  char *name;
  const char *engine;         /* launcher family: "megatron", "deepspeed", "fsdp", "torchtitan", "nanotron", "maxtext",
                                 "jax" */
  int zero_max, zero_max_pipeline; /* highest ZeRO stage it runs: at all, and with pipeline stages */
  guint64 schedules;          /* those that it runs: bit i is schedules[i] */
  guint context;              /* exchanges that it runs: bit i is ContextExchange i; 0 = no context parallelism */
  ContextExchange context_first; /* plan default */
  gboolean mtp;               /* multi-token prediction */
  ExpertPlacement experts;
  ExpertCapacity capacity;
  gboolean gate_in_turn;      /* a token takes the experts that follow on those of the token before it: AutoModel's
                                 FakeBalancedGate, for benchmarks. No key of the file: validate/case_experts.c sets
                                 it for runs that had it */
  gboolean shared_overlap;    /* shared experts can run beside the exchange of tokens */
  guint dispatch;             /* that it runs: bit i is ExpertDispatch i */
  ExpertDispatch dispatch_first; /* plan default */
  int flex_node;              /* ranks that its DeepEP takes for a node, which open each other's memory; 0: those that
                                 NVLink joins */
  int flex_quiets;            /* times that kernels of the first version ask the host's thread, for each other node and
                                 before each exchange, whether all that it posted is done */
  Fp8Recipe fp8;              /* plan default; FP8_NONE: it runs no fp8 */
  guint fp8_recipes;          /* that it runs besides: bit i is Fp8Recipe i */
  Fp8Library fp8_library;
  guint param_gathers;        /* recipes under which ranks can gather weights narrow: bit i is Fp8Recipe i; */
  guint param_gathers_usual;  /* and those under which they do where plans say nothing */
  gboolean fp8_primary;       /* they are then kept so, too, rows and columns, and nowhere in 16 bits */
  gboolean fp8_weight_cache;  /* else what is cast of a weight stays on each device whole, under ZeRO-3 too */
  guint sparse;               /* kernels that it has for block-sparse attention: bit i is SparseKernels i */
  gboolean shard_groups;      /* ZeRO may divide over a part of the ranks */
  guint choices;              /* that it runs: bit i is PlanChoice i (plan/keys.h) */
  guint optimizers;           /* that it runs: bit i is OptimizerName i */
  guint state_formats;        /* that a plan may choose: bit i is OptimizerState i */
  gboolean offload_adds;      /* gradients on the host come up for those of the next micro-batch, and go down as their
                                 sum */
  gboolean copied_buckets;    /* gradients are copied into buckets, and sums back, unless they are views of them */
  gboolean encoder_one_stage; /* encoder-decoders run without a pipeline */
  gboolean single_process;    /* one process drives all devices from the first one (torch.nn.DataParallel) */
  gboolean micro_groups;      /* interleaved schedules may run other groups than of the pipeline ranks */
  gboolean tp_pp_dp;          /* ranks may count the pipeline before data */
  gboolean grouped_kernels;   /* in mxfp8, in steps that are one CUDA graph, casts and products of all experts of a rank
                                 are one kernel each, not one an expert, and products of gated experts write their
                                 activation, cast, and its gradient */
  gboolean routes_apart;      /* before an all-to-all of rows, ranks gather each other's counts of rows, and what rows
                                 weigh goes by an all-to-all of its own (moe_routes_apart) */
  gboolean fused_permutation; /* one kernel each way lays rows out by expert, not PyTorch's indexing and sums of
                                 scattered rows (moe_fused_permutation) */
  gboolean weighs_inside;     /* experts weigh rows in their activation (moe_weighs_inside), so that what adds a token's
                                 rows up needs none of them again; else it keeps them all for the weights' gradient */
  gboolean weighs_wide;       /* without one kernel for it, rows are weighed in fp32, a kernel a step: cast, product and
                                 cast back (moe_weighs_wide) */
  gboolean sorts_by_index;    /* rows from other ranks are laid out by expert by PyTorch's indexing, with a row of zeros
                                 beside them, whose gradient adds rows one by one (moe_sorts_by_index) */
  gboolean indexes_received;  /* which experts rows that DeepEP brought are for is found by PyTorch's indexing with masks,
                                 for which the host waits (moe_indexes_received) */
  gboolean pads_rows;         /* in 8 and 4 bits each expert's rows are copied to where they begin at multiples of what
                                 products take, and back, unless they were laid out so (moe_pads_rows) */
  gboolean narrow_attention;  /* in mxfp8, steps that are one CUDA graph attend in 8 bits */
  gboolean exchange_overlap;  /* tokens can travel beside passes of other micro-batches, */
  gboolean exchange_recompute; /* also of layers that are recomputed with their exchange */
  guint graphs;               /* that it runs: bit i is CudaGraph i */
  guint adapters;             /* bits of AdapterKind: it trains them beside frozen weights, itself or what drives it */
  gboolean adapter_scales_outputs; /* by alpha / r, not what the narrow of an adapter's products makes */
  gboolean paged_stash;       /* rows that HybridEP sends are kept in pages whose use only the device knows: with
                                 experts, too, a step can be one CUDA graph (moe_paged_stash) */
  guint stash_recipes;        /* of these steps, where devices scale blocks: bit i is Fp8Recipe i; and 16-bit formats */
  gboolean stash_elsewhere;   /* 16-bit formats on other devices, too: Hopper's, as no kernels of HybridEP are known for
                                 older ones */
  gboolean kv_heads_divided;  /* tensor-parallel ranks may be a multiple of the key-value heads */
  SplitKind splits;           /* how it can cut the model into stages */
  gboolean strategies;        /* layers of a stage may differ in strategy (plan/strategies.h) */
  GArray *excludes;           /* Exclusion: features that it cannot have together; NULL = none */
  gboolean fused_softmax;     /* scale, mask and softmax are one kernel */
  gboolean fused_activation;  /* bias and activation are one kernel */
  gboolean fused_dropout_add; /* bias, dropout and residual are one kernel */
  gboolean fused_rms_norm;    /* RMS norms are one kernel, not one an arithmetic step in fp32 */
  gboolean compiled_norms;    /* which torch.compile makes */
  gboolean compiled_loss;     /* a fused loss is made by a compiler, not a kernel of a library */
  gboolean triangular_softmax; /* a fused one of causal scores leaves out what the mask hides */
  gboolean wide_norm_inputs;  /* norms of blocks and of the head work on an fp32 copy of their input, and keep it */
  gboolean checkpointed_norms; /* blocks that are kept make their norms, and the residual sum and cast before them,
                                  again in the backward, and keep what goes in */
  gboolean plain_norms;       /* or PyTorch itself has, or apex first had, which read rows again for weights' gradients */
  gboolean fused_rope;
  gboolean mixer_copies;      /* rows lie by position, and are copied for Mamba-2, whose kernels take them by sequence */
  gboolean scaled_rope_apart; /* of fused_rope: but where cosines are scaled, other than of attention to latents;
                                 without it, that queries and keys turn likewise (Megatron Core) */
  gboolean latent_rope_apart; /* of fused_rope: but not of attention to latents, which turns by steps */
  gboolean complex_rope;      /* rotary positions are products of complex numbers in fp32, which torch.compile leaves to
                                 kernels of their own; then fused_rope says nothing */
  gboolean repeats_keys;      /* keys and values are copied for each head of queries that shares them */
  gboolean copies_split_qkv;  /* what a fused core does not take as it was split is copied, and gradients beside each other */
  gboolean qkv_bias_apart;    /* a kernel adds that of queries, keys and values, which no later one takes up */
  gboolean qkv_joined;        /* their gradients are copied beside each other; that of an unfused core's context is
                                 read as it lies */
  gboolean separate_bias;     /* a product's bias is added by a kernel of its own */
  gboolean attention_copies;  /* queries, keys and values are laid out anew before fused attention, and behind it
                                 the context of several sequences */
  gboolean table_gradients;   /* an embedding's gradient is a whole table, each micro-batch */
  gboolean whole_vocabulary;  /* each tensor-parallel rank has the whole embedding, and gathers its logits for a loss
                                 of all of them; without sequence parallelism it has the whole head */
  gboolean fused_loss;        /* cross-entropy works on 16-bit logits in place */
  gboolean selective_products; /* selective recomputation keeps every other 16-bit product and what is scattered, not
                                  all but attention's core */
  gboolean selective_narrow;  /* also of products in 8 bits */
  gboolean ring_returns;      /* a ring of context-parallel ranks begins a backward with a rank's own keys too: gradients
                                 of the last ones take a further step home */
  gboolean ring_keeps_blocks; /* until a ring's forward ends it holds all blocks of keys and values that came by, and
                                 what each gave */
  gboolean original_inputs;   /* in fp8 and fp4, unless scales are delayed, products behind attention and the first of
                                 shared experts keep no copy of an input that is kept in 16 bits anyway */
  gboolean losses_summed;     /* replicas average the loss of each micro-batch, for the log */
  gboolean reduced_amax;      /* whenever a chunk's forward or backward ends, all ranks of a stage agree on the largest
                                 values that delayed scales are made of */
  gboolean column_sums_apart; /* without sequence parallelism queries, keys, values, gate and up each sum the gradient
                                 of their input */
  gboolean copied_rows;       /* activations are batch first: rows that tensor-parallel ranks exchange are copied */
  guint8 recompute_modules[MODULE_COUNT]; /* RecomputeModule: those that it makes again beside the attention core, in the
                                             order in which a search adds them */
  int n_recompute_modules;
  gboolean recompute_alike;   /* recomputation has neither numbers of layers nor modules to choose */
  gboolean recompute_stops_early; /* full recomputation ends with the last input that a backward needs */
  gboolean whole_tensors;     /* ZeRO-1 and 2 give each rank whole tensors: a broadcast from every rank, and under
                                 ZeRO-2 a reduction to each, under ZeRO-1 one sum over all replicas */
  int muon_whole_zero_max;    /* up to this stage ranks hold momentum of whole matrices, which Muon need not gather */
  gboolean fused_weights;     /* gate and up are one weight, and queries, their gate, keys and values, of which Muon takes
                                 these apart; else queries and gate are one alone */
  gboolean muon_cuts;         /* and where a part ends within a matrix, the ranks on both sides orthogonalise it */
  gboolean muon_gram;         /* its steps go on the small square of a matrix */
  gboolean muon_by_bucket;    /* under ZeRO-3 it works on every micro-batch's gradients, bucket by bucket, as all ranks
                                 sum them */
  gboolean stage_outputs;     /* pipeline stages keep what they sent until its backward has run */
  gboolean scatter_gather;    /* pipeline transfers carry 1/tp and are gathered behind */
  gboolean overlap_gradients, overlap_parameters, overlap_pipeline, overlap_tensor, overlap_offload; /* plan defaults */
  gboolean fsdp_own_gradients; /* Megatron-FSDP accumulates gradients in the model's format unless told another */
  gboolean waits_for_whole_rows; /* sums of rows that sequence parallelism does not divide are waited for, whatever the
                                    plan overlaps */
  gboolean overlap_by_zero;   /* of these, gradients holds only under ZeRO and without a pipeline, parameters only
                                 under ZeRO-3 */
  gboolean stages_sum_once;   /* in pipelines gradients are summed once a step, behind a stage's last backward, whatever
                                 ZeRO stage and plan say; until then backwards leave what ZeRO-3 gathered */
  gboolean overlap_chunks_only; /* of these, pipeline holds only where ranks have several chunks */
  AttentionKernel attention;  /* plan default */
  AttentionKernel attention_without_flash; /* that runs instead on devices without FlashAttention: unfused, efficient */
  Accumulation accumulation;  /* of weight gradients over micro-batches */
  Placeholders placeholders;  /* of weight gradients that went into accumulated ones; absent in files: none */
  int gradient_bytes;         /* of an accumulated gradient */
  int reduce_bytes;           /* of a gradient on the wire */
  int bf16_gradient_bytes;    /* of either, at least, where weights are bf16 */
  int bf16_gradient_copy_bytes; /* where weights are bf16: gradients of a whole backward beside the accumulated ones, */
  gboolean bf16_gradient_copy_dropped; /* which go once they are added to these, not with the next backward */
  gboolean shards_main_params; /* ZeRO-3 divides the main weights alone, which are cast as they are gathered */
  gboolean main_params_copied; /* ZeRO-1 and 2 keep a copy of a rank's part of the weights for the optimizer also where it
                                  has the model's own format */
  gboolean root_group;        /* ZeRO-3 gathers the embedding with norm and head, which then stays (memory alone) */
  gboolean bf16_reduced_copy; /* where weights are bf16: all gradients are cast to bf16 at once to be reduced */
  StepGradients step_gradients; /* there for the step alone: op_step_copies */
  gboolean fp16_step_copies;  /* where weights are fp16: the step works on copies of gradients (op_step_bytes) */
  double step_bytes;          /* for a parameter of the partition: temporaries that the allocator keeps of a step */
  gboolean updated_lists;     /* updated weights are gathered into a list of flat tensors (op_updated_copies) */
  double gather_params;       /* parameters whose updated weights ZeRO gathers at once, at least, into one more flat tensor
                                 (op_step_bytes); 0: into the weights themselves */
  gboolean collectives_queued; /* the host does not wait for a step's collectives: flat copies of all of them stand */
  int vocab_multiple;         /* the vocabulary is padded to this times tp */
  double bucket_params;       /* parameters in a bucket of gradients, at least */
  double bucket_params_per_rank; /* and at least this times the data-parallel ranks */
  int reduce_queue;           /* sums of a micro-batch's gradients that passes run beside: this many, */
  double reduce_queue_params; /* or those of this many parameters, where that is more */
  double cuda_version;        /* whose libraries it calls */
  double issue_s;             /* host time to launch a kernel */
  double product_operations;  /* of operation_s, for a product with weights in 16 bits or more; */
  double narrow_product_operations; /* in 8 or 4 bits, with the casts of its input and its gradient */
  double operation_s;         /* host time of an operation that a layer issues (op/op.h); 0: issue_s a kernel */
  double collective_s;        /* host and stream time added to each collective */
  double step_s;              /* fixed time of a step: data, logging */
  int shard_tensors;          /* of a layer that ZeRO-3 gathers and reduces one by one, 0 = the layer at once */
  double shard_live_params;   /* of these, those of a recomputed layer that stay for its backward; 0 = no limit */
  int shard_list_launches;    /* host operations for each rank's part of such a tensor */
  double shard_copy_bytes;    /* read and written for a weight and micro-batch under ZeRO-3, */
  double shard_gather_bytes;  /* whenever it is gathered, */
  double shard_reduce_bytes;  /* whenever its gradients are summed over ranks; */
  double shard_gradient_bytes; /* beside those, under ZeRO-2 too, for each gradient; */
  double shard_sum_bytes;     /* for each one of a rank's own part, added to what earlier micro-batches left */
  double rest_gradient_bytes; /* written by the optimizer for each gradient whose weight another rank updates */
  double optimizer_bytes;     /* read and written for a parameter by the optimizer step */
  double gradient_passes;     /* times that a step reads or writes all of a rank's gradients before a sum */
  double context_bytes;       /* CUDA context, kernels, libraries' workspaces */
  double group_bytes;         /* communicator buffers of each group that spans devices */
  double graph_bytes;         /* that recorded graphs keep beside their tensors; with pipelines, where every micro-batch */
  double stage_graph_bytes;   /* in flight has its own */
  int bucket_copies;          /* buckets of gradients held for communication besides the gradients */
  double ddp_bucket_bytes;    /* for a parameter, where ZeRO divides nothing: buckets of gradients besides */
  double loss_bytes;          /* for each logit at the loss's worst moment */
  double divided_loss_bytes;  /* the same where tensor-parallel ranks divide the logits; 0 = as loss_bytes */
  int loss_chunks;            /* of the tokens, one after the other through logits, loss and their gradients */
  gboolean executor_memory;   /* what passes hold for a while, and what is there between them, is that of src/exec
                                 (op/scratch.c, program/beside.c); else the worst of a layer's operations */
  gboolean pairs_in_turn;     /* passes that a schedule pairs compute one behind the other, not side by side */
  gboolean loss_in_place;     /* the loss keeps the logits as they are and makes their gradient in place */
  double metric_bytes;        /* traffic for each logit of figures that training shows beside the loss */
  int norm_row_values;        /* fp32 values that a norm keeps for each row */
  int loss_token_values;      /* fp32 values that the loss keeps for each token, beside logits */
  double fragmentation;       /* share of dynamic memory that the allocator loses */
  char digest[JSON_DIGEST_CHARS]; /* of its file and those that it starts from */
  ScheduleTable *table;       /* of the plan that it was loaded for, where that names a schedule file; else NULL */
} Framework;

/* Of plans and published runs that name none. */
#define FRAMEWORK_USUAL "megatron-core-2026"

gboolean framework_runs(const Framework *framework, const Schedule *schedule);

/* Whether a pass that makes gradients waits for one more of `n` sums of earlier ones, of `params` parameters in all, that
 * are on their way (reduce_queue). */
static inline gboolean framework_queue_full(const Framework *framework, guint n, double params)
{
  return n > (guint)framework->reduce_queue && params > framework->reduce_queue_params;
}

/* The highest ZeRO stage that it runs on so many pipeline ranks. */
static inline int framework_zero_max(const Framework *framework, int ranks)
{
  return ranks > 1 ? MIN(framework->zero_max, framework->zero_max_pipeline) : framework->zero_max;
}

/* The kernel that runs on a device where `asked` is. */
static inline AttentionKernel framework_attention(const Framework *framework, AttentionKernel asked,
                                                  const Device *device)
{
  return device_attention(device, asked, framework->attention_without_flash);
}

/* The same of all nodes of a cluster, of the first where their types differ: then FALSE. */
gboolean framework_attention_on(const Framework *framework, AttentionKernel asked, const Cluster *cluster,
                                AttentionKernel *out);

/* The kernel that a plan names where all nodes run one: that one, or what is asked for where their types differ. */
AttentionKernel framework_attention_named(const Framework *framework, AttentionKernel asked, const Cluster *cluster);

/* Whether plans/frameworks/NAME.json (or the path) is there. */
gboolean framework_exists(const char *name);

/* plans/frameworks/NAME.json, or the path that the name is; newly allocated, NULL and an error if it is not there. */
char *framework_path(const char *name, GError **error);

/* Reads that file. */
Framework *framework_load(const char *name, GError **error);
void framework_free(Framework *framework);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Framework, framework_free)

/* NULL where the framework trains such an adapter, or there is none; else what it does train: "lora" or "none". */
const char *framework_adapts_only(const Framework *framework, const Adapter *adapter);

/* NULL where the framework runs products in a format, in fp8 under a recipe (FP8_NONE: its own); else what it does run, with
 * its name; newly allocated. */
char *framework_narrows_only(const Framework *framework, DType format, Fp8Recipe recipe);

/* "delayed, current or mxfp8" of fp8: bit i of `recipes` is Fp8Recipe i; newly allocated. */
char *fp8_recipes_text(guint recipes);

#endif
