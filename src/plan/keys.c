#include "plan/keys.h"

#include "plan/key_values.h"

#include <string.h>

#define PLAN(member) G_STRUCT_OFFSET(PlanFile, plan.member)
#define AS_FILE(member) G_STRUCT_OFFSET(PlanFile, member)
#define DEGREE_MAX 1e7
#define PARAMS_MAX 1e12

/* What --fix takes in place of a field's own values. */
static const char *const orders[] = { "tp-dp-pp", "tp-pp-dp", NULL };
static const char *const offloads[] = { "none", "optimizer", "parameters", "nvme", NULL };
static const char *const a_schedule[] = { "the name of a schedule", NULL };
static const char *const graphs[] = { "none", "partial", "partial:A+B (modules)", "full", NULL };
static const char *const granularities[] = { "none", "selective", "selective:A+B (modules)", "selective:any", "full",
                                            "full:N (layers of a stage)", "full:any", NULL };

/* ---- what is said only where it means something ---- */

static gboolean divides_sequences(const Plan *p)
{
  return p->cp > 1;
}

static gboolean divides_both(const Plan *p)
{
  return p->cp > 1 && p->context == CONTEXT_BOTH;
}

static gboolean counts_layers(const Plan *p)
{
  return p->scope.layers || p->scope.stages.stages;
}

static gboolean offloads_any(const Plan *p)
{
  return offload_any(&p->offload);
}

/* Transformer Engine's buffers take 16 bits, 8 with scales of tensors, and mxfp8 (module/base.py,
 * fill_userbuffers_buffer_for_all_gather()). */
static gboolean buffers_rows(const Plan *p)
{
  Fp8Recipe recipe = plan_narrow(p) ? plan_recipe(p) : FP8_NONE;

  return p->framework->fp8_library == FP8_TORCHAO || (recipe != FP8_BLOCKWISE && recipe != FP8_NVFP4);
}

/* Chunks are written to the memory of other ranks, which NVLink or its like reaches. */
static gboolean reaches_rows(const Plan *p, const Cluster *cluster)
{
  const Tier *lowest = &cluster->tiers[0];
  gboolean linked = lowest->link.kind == LINK_SWITCH || lowest->link.kind == LINK_MESH;

  return p->tp > 1 && p->sequence_parallel && linked && p->tp <= lowest->devices && buffers_rows(p);
}

/* Transformer Engine writes products into a buffer of 8 bits by the scale of an earlier step (module/base.py, fp8_buf). */
static gboolean scatters_narrow(const Plan *p, const Cluster *cluster)
{
  gboolean delayed = plan_narrow(p) && plan_recipe(p) == FP8_DELAYED;

  return delayed && p->framework->fp8_library == FP8_TRANSFORMER_ENGINE && p->comm_chunks && reaches_rows(p, cluster);
}

static gboolean partitions(const Plan *p, const Cluster *cluster)
{
  (void)cluster;
  return p->tp > 1 && !p->sequence_parallel && p->recompute == RECOMPUTE_FULL;
}

const PlanKey plan_keys[] = {
  { { "gpus", JSON_INT, PLAN(gpus), FALSE, 1, DEGREE_MAX }, .given = TRUE, .always = TRUE,
    .meaning = "of the cluster that the plan takes", .usual = "tensor x pipeline x context x data" },
  { { "global_batch_size", JSON_INT, PLAN(global_batch), FALSE, 1, 1e9 },
    .given = TRUE, .shorter = "gbs", .always = TRUE,
    .unit = "sequences", .meaning = "of a step",
    .usual = "the model's `global_batch_size`, else one for each data-parallel rank" },
  { { "micro_batch_size", JSON_INT, PLAN(micro_batch), FALSE, 1, 1e6 }, .id = KEY_MICRO_BATCH, .shorter = "mbs",
    .fix = FIX_NUMBER, .always = TRUE, .unit = "sequences", .meaning = "of a pass" },
  { { "seq_length", JSON_INT, PLAN(seq), FALSE, 1, 1e8 },
    .given = TRUE, .always = TRUE, .unit = "tokens", .meaning = "of a sequence",
    .usual = "the model's `seq`" },
  { { "decoder_seq_length", JSON_INT, PLAN(decoder_seq), FALSE, 1, 1e8 }, .given = TRUE, .unit = "tokens",
    .meaning = "of an encoder-decoder's decoder, no more than it has positions; its encoder has `seq_length`",
    .usual = "`seq_length`" },
  { { "tensor_model_parallel_size", JSON_INT, PLAN(tp), FALSE, 1, DEGREE_MAX }, .id = KEY_TP, .shorter = "tp",
    .fix = FIX_NUMBER, .always = TRUE, .unit = "ranks",
    .meaning = "that share each layer's matrices; divides heads and feed-forward width; divides a node or is a "
               "multiple of it" },
  { { "sequence_parallel", JSON_BOOL, PLAN(sequence_parallel) }, .id = KEY_SEQUENCE_PARALLEL, .shorter = "sp",
    .fix = FIX_NUMBER, .part = PLAN_PASSES, .always = TRUE,
    .meaning = "norms and residuals divided over the tensor-parallel ranks" },
  { { "tp_comm_overlap", JSON_BOOL, PLAN(comm_chunks) }, .id = KEY_COMM_CHUNKS, .shorter = "tp_overlap",
    .fix = FIX_NUMBER, .choice = CHOICE_COMM_CHUNKS, .part = PLAN_PASSES, .allowed = reaches_rows,
    .needs = "sequence_parallel, by ranks that NVLink or the like joins, of Transformer Engine neither fp4 nor fp8_recipe "
             "blockwise",
    .meaning = "rows that these ranks gather and scatter travel in chunks beside the products that they feed or "
               "follow (below)" },
  { { "tp_comm_overlap_fp8", JSON_BOOL, PLAN(comm_fp8) }, .choice = CHOICE_COMM_FP8, .part = PLAN_PASSES,
    .allowed = scatters_narrow, .needs = "tp_comm_overlap and fp8_recipe delayed of Transformer Engine",
    .meaning = "of `fp8`: rows that forwards scatter so travel in 8 bits (below)" },
  { { "pipeline_model_parallel_size", JSON_INT, PLAN(pp), FALSE, 1, DEGREE_MAX }, .id = KEY_PP, .shorter = "pp",
    .fix = FIX_NUMBER, .always = TRUE, .unit = "ranks",
    .meaning = "of a pipeline; with the chunks divides the layers, unless `layer_split` says how many each stage "
               "holds" },
  { { "pipeline_model_parallel_split_rank", JSON_INT, PLAN(split_rank), FALSE, 1, DEGREE_MAX }, .id = KEY_SPLIT_RANK,
    .shorter = "split_rank", .fix = FIX_COUNT, .part = PLAN_SCHEDULE, .unit = "stages",
    .meaning = "that hold an encoder-decoder's encoder, its decoder on the rest, each in equal stages",
    .usual = "stages are cut by layers" },
  { { "use_tp_pp_dp_mapping", JSON_BOOL, PLAN(pipeline_inner) }, .id = KEY_ORDER, .shorter = "order", .fix = FIX_NAME,
    .choices = orders, .meaning = "ranks count the pipeline before data (below)" },
  { { "virtual_pipeline_model_parallel_size", JSON_INT, PLAN(vpp), FALSE, 1, DEGREE_MAX }, .id = KEY_VPP,
    .shorter = "vpp", .fix = FIX_NUMBER, .part = PLAN_SCHEDULE, .always = TRUE, .unit = "chunks",
    .meaning = "of a pipeline rank", .usual = "the schedule's if it has no choice, else 1" },
  { { "microbatch_group_size_per_vp_stage", JSON_INT, PLAN(micro_group), FALSE, 1, DEGREE_MAX }, .part = PLAN_SCHEDULE,
    .unit = "micro-batches",
    .meaning = "that `interleaved` runs through a chunk before the next one: from the pipeline ranks to all, the last "
               "group none or at least the ranks", .usual = "the pipeline ranks" },
  { { "pipeline_schedule", JSON_STRING, AS_FILE(schedule) }, .id = KEY_SCHEDULE, .shorter = "schedule", .fix = FIX_OWN,
    .choices = a_schedule, .part = PLAN_SCHEDULE, .always = TRUE,
    .unit = "a schedule of docs/schedules.md, or the path of a schedule `.csv` as PyTorch writes it",
    .meaning = "the order of passes", .usual = "`1f1b`, with chunks `interleaved`" },
  { { "layer_split", JSON_ANY }, .part = PLAN_SCHEDULE, .read = read_layer_split, .write = write_layer_split,
    .unit = "a list as `[8, 9, 9, 8]`; `\"balanced\"`",
    .meaning = "layers of each stage in model order; or the split whose slowest stage is fastest",
    .usual = "equal stages" },
  { { "layer_strategies", JSON_ANY }, .part = PLAN_STATES, .read = read_strategies, .write = write_strategies,
    .unit = "a list of objects", .meaning = "runs of layers in model order with strategies of their own (below)",
    .usual = "all layers as the plan says" },
  { { "hetero_device_types", JSON_ANY }, .id = KEY_TYPES, .shorter = "types", .read = read_types, .write = write_types,
    .unit = "a list as `[\"v100\", \"a100\"]`",
    .meaning = "names of a mixed cluster's node types in the order of their stages along the pipeline",
    .usual = "the cluster's order" },
  { { "data_parallel_size", JSON_INT, PLAN(dp), FALSE, 1, DEGREE_MAX }, .id = KEY_DP, .shorter = "dp",
    .fix = FIX_NUMBER, .always = TRUE, .unit = "ranks", .meaning = "that train on sequences of their own",
    .usual = "gpus / (tensor x pipeline x context)" },
  { { "context_parallel_size", JSON_INT, PLAN(cp), FALSE, 1, DEGREE_MAX }, .id = KEY_CP, .shorter = "cp",
    .fix = FIX_NUMBER, .always = TRUE, .unit = "ranks",
    .meaning = "that share each sequence; twice as many divide it" },
  { { "cp_comm_type", JSON_ENUM, PLAN(context), .names = context_exchange_names }, .id = KEY_CONTEXT,
    .shorter = "cp_comm", .fix = FIX_NAME, .matters = divides_sequences,
    .meaning = "how these exchange keys and values (below)", .usual = "the framework's first" },
  { { "context_parallel_a2a_size", JSON_INT, PLAN(context_inner), FALSE, 1, DEGREE_MAX }, .id = KEY_CONTEXT_INNER,
    .shorter = "cp_a2a", .fix = FIX_NUMBER, .matters = divides_both, .unit = "ranks",
    .meaning = "of a context-parallel group, neighbours that change heads for rows under `a2a+p2p`; divides the group "
               "and the heads of a rank" },
  { { "expert_model_parallel_size", JSON_INT, PLAN(ep), FALSE, 1, DEGREE_MAX }, .id = KEY_EP, .shorter = "ep",
    .fix = FIX_NUMBER, .always = TRUE, .unit = "ranks",
    .meaning = "over which the experts of a layer are divided; divides their number" },
  { { "expert_tensor_parallel_size", JSON_INT, PLAN(etp), FALSE, 1, DEGREE_MAX }, .id = KEY_ETP, .shorter = "etp",
    .fix = FIX_NUMBER, .unit = "ranks", .meaning = "that share each expert's matrices", .usual = "tensor" },
  { { "moe_token_dispatcher_type", JSON_ENUM, PLAN(dispatch), .names = expert_dispatch_names }, .id = KEY_DISPATCH,
    .shorter = "dispatcher", .fix = FIX_NAME, .matters = plan_experts_apart,
    .meaning = "how tokens reach experts on other ranks (below)", .usual = "the framework's first" },
  { { "moe_expert_capacity_factor", JSON_REAL, PLAN(expert_capacity), FALSE, 0.01, 1e6 }, .given = TRUE,
    .meaning = "most tokens of an expert over the mean; those beyond are dropped", .usual = "none is dropped" },
  { { "moe_token_drop_policy", JSON_ENUM, PLAN(expert_drop), .names = expert_drop_names }, .given = TRUE,
    .meaning = "which tokens: those of least weight, or the last ones of each rank" },
  { { "moe_pad_expert_input_to_capacity", JSON_BOOL, PLAN(expert_padded) }, .given = TRUE,
    .meaning = "each expert gets as many rows as its capacity, empty ones behind its tokens" },
  { { "cuda_graph", JSON_ENUM, PLAN(graph), .names = cuda_graph_names }, .given = TRUE, .id = KEY_GRAPH,
    .shorter = "graph", .fix = FIX_OWN, .choices = graphs, .part = PLAN_PASSES,
    .meaning = "what the host launches as recorded graphs: modules of each layer (`partial`); the whole step (`full`)" },
  { { "cuda_graph_modules", JSON_ANY }, .given = TRUE, .id = KEY_GRAPH_MODULES, .part = PLAN_PASSES,
    .read = read_graph_modules, .write = write_graph_modules,
    .unit = "a list of `attn`, `mlp`, `moe`, `moe_router`, `moe_preprocess`, `mamba`",
    .meaning = "of `partial`: what is recorded (below)",
    .usual = "of `attn`, `moe_router`, `moe_preprocess` and `mamba` those that the model has" },
  { { "moe_load_imbalance", JSON_REAL, PLAN(expert_load), FALSE, 1, 1e6 }, .given = TRUE,
    .meaning = "tokens that the busiest rank's experts get over the mean, before capacity" },
  { { "zero_stage", JSON_INT, PLAN(zero), FALSE, 0, 3 }, .id = KEY_ZERO, .shorter = "zero", .fix = FIX_NUMBER,
    .part = PLAN_STATES, .always = TRUE,
    .meaning = "divided over data-parallel ranks: 1 optimizer states; 2 and gradients; 3 and weights" },
  { { "shard_group_size", JSON_INT, PLAN(shard_group), FALSE, 1, DEGREE_MAX }, .id = KEY_SHARD_GROUP,
    .shorter = "shard", .fix = FIX_COUNT, .part = PLAN_STATES, .unit = "ranks",
    .meaning = "over which ZeRO divides; gradients are summed over the copies of a part (HSDP, MiCS, Megatron's "
               "optimizer instances)", .usual = "all that hold the same weights" },
  { { "zero_optimization", JSON_ANY }, .part = PLAN_STATES, .unit = "an object",
    .meaning = "choices within a stage (below)" },
  { { "reduce_bucket_size", JSON_REAL, PLAN(sharding.bucket), FALSE, 1, PARAMS_MAX }, .choice = CHOICE_BUCKET,
    .object = "zero_optimization", .part = PLAN_STATES, .whole = TRUE, .unit = "parameters",
    .meaning = "of a bucket of gradients, at least", .usual = "the framework's" },
  { { "stage3_prefetch_bucket_size", JSON_REAL, PLAN(sharding.prefetch), FALSE, 0, PARAMS_MAX },
    .choice = CHOICE_PREFETCH, .object = "zero_optimization", .part = PLAN_STATES, .whole = TRUE, .unit = "parameters",
    .meaning = "gathered ahead of need, at least a layer unless 0",
    .usual = "a layer with `overlap.parameters`, else 0" },
  { { "stage3_max_live_parameters", JSON_REAL, PLAN(sharding.live), FALSE, 1, PARAMS_MAX }, .choice = CHOICE_LIVE,
    .object = "zero_optimization", .part = PLAN_STATES, .whole = TRUE, .unit = "parameters",
    .meaning = "gathered at once, at most; what runs now is never denied", .usual = "no limit" },
  { { "stage3_param_persistence_threshold", JSON_REAL, PLAN(sharding.persistence), FALSE, 0, PARAMS_MAX },
    .choice = CHOICE_PERSISTENCE, .object = "zero_optimization", .part = PLAN_STATES, .whole = TRUE,
    .unit = "parameters", .meaning = "smaller tensors stay whole on each rank" },
  { { "reshard_after_forward", JSON_BOOL, PLAN(sharding.keeps_gathered) }, .negated = TRUE, .choice = CHOICE_RESHARD,
    .object = "zero_optimization", .id = KEY_RESHARD, .shorter = "reshard", .fix = FIX_NUMBER, .part = PLAN_STATES,
    .meaning = "`false`: weights stay gathered while micro-batches of the chunk are between forward and backward "
               "(FSDP's SHARD_GRAD_OP)" },
  { { "no_sync", JSON_BOOL, PLAN(sharding.no_sync) }, .choice = CHOICE_NO_SYNC, .object = "zero_optimization",
    .part = PLAN_STATES,
    .meaning = "ZeRO-2 and 3 sum gradients with the last micro-batch only, and keep whole ones until then" },
  { { "zero_hpz_partition_size", JSON_INT, PLAN(sharding.secondary), FALSE, 1, 1e7 }, .choice = CHOICE_HPZ,
    .object = "zero_optimization", .id = KEY_SECONDARY, .shorter = "hpz", .part = PLAN_STATES, .unit = "ranks",
    .meaning = "ZeRO++ hpZ: neighbours that share a second 16-bit copy, from which backwards gather (FSDP2: "
               "`reshard_after_forward=N`)", .usual = "none" },
  { { "zero_quantized_weights", JSON_BOOL, PLAN(sharding.quantized_weights) }, .choice = CHOICE_QWZ,
    .object = "zero_optimization", .part = PLAN_STATES, .meaning = "ZeRO++ qwZ: weights travel in int8" },
  { { "zero_quantized_gradients", JSON_BOOL, PLAN(sharding.quantized_gradients) }, .choice = CHOICE_QGZ,
    .object = "zero_optimization", .part = PLAN_STATES,
    .meaning = "ZeRO++ qgZ: gradients travel in int4, all-to-all in nodes and then between them" },
  { { "tiling_factor", JSON_INT, PLAN(sharding.tiling), FALSE, 1, 1024 }, .choice = CHOICE_TILING,
    .object = "zero_optimization", .part = PLAN_STATES, .unit = "tiles",
    .meaning = "of each product, gathered one after the other: divides live weights and their gradients, not "
               "activations" },
  { { "gradient_as_bucket_view", JSON_BOOL, PLAN(sharding.bucket_view) }, .choice = CHOICE_BUCKET_VIEW,
    .object = "zero_optimization", .part = PLAN_STATES, .meaning = "DDP keeps no second copy of gradients" },
  { { "recompute_granularity", JSON_ENUM, PLAN(recompute), .names = recompute_names }, .id = KEY_RECOMPUTE,
    .shorter = "recompute", .fix = FIX_OWN, .choices = granularities, .part = PLAN_PASSES, .always = TRUE,
    .meaning = "what backwards make again: the attention core (`selective`), whole layers (`full`)" },
  { { "recompute_method", JSON_ENUM, PLAN(scope.method), .names = recompute_method_names }, .part = PLAN_PASSES,
    .matters = counts_layers,
    .meaning = "of `full`: groups of N layers keep one input each (`uniform`), or the first N layers of each stage "
               "are made again (`block`)", .usual = "each layer alone" },
  { { "recompute_num_layers", JSON_ANY }, .id = KEY_RECOMPUTE_LAYERS, .part = PLAN_PASSES,
    .read = read_recompute_layers, .write = write_recompute_layers,
    .unit = "a number; of `block` also a list of one a stage", .meaning = "the N of `recompute_method`" },
  { { "recompute_modules", JSON_ANY }, .id = KEY_RECOMPUTE_MODULES, .part = PLAN_PASSES, .read = read_recompute_modules,
    .write = write_recompute_modules,
    .unit = "a list of `core_attn`, `layernorm`, `mla_up_proj`, `mlp`, `moe`, `moe_act`, `shared_experts`",
    .meaning = "of `selective`: what is made again", .usual = "`core_attn`" },
  { { "partition_activations", JSON_BOOL, PLAN(partition_activations) }, .choice = CHOICE_PARTITION,
    .part = PLAN_PASSES, .allowed = partitions,
    .needs = "tensor parallelism without sequence_parallel, and recompute_granularity full",
    .meaning = "what full recomputation keeps is divided over tensor-parallel ranks, and gathered for the backward" },
  { { "precision", JSON_ENUM, AS_FILE(precision), .names = dtype_names }, .given = TRUE, .always = TRUE,
    .meaning = "of weights and activations; `tf32`: fp32 with products in tf32; `fp16`, with loss scaling; `fp8`, "
               "`fp4`: products of the blocks in that format, the rest in bf16" },
  { { "fp8_recipe", JSON_ENUM, PLAN(fp8_recipe), .names = fp8_recipe_names }, .given = TRUE,
    .meaning = "of `fp8`: how scales are found (below)", .usual = "the framework's" },
  { { "num_layers_at_start_in_bf16", JSON_INT, PLAN(wide.start), FALSE, 0, SPLIT_LAYERS_MAX }, .given = TRUE,
    .id = KEY_WIDE_START, .shorter = "bf16_start", .fix = FIX_NUMBER, .choice = CHOICE_WIDE_START, .unit = "blocks",
    .meaning = "of `fp8` and `fp4`: at the model's start, whose products stay in bf16 (below)" },
  { { "num_layers_at_end_in_bf16", JSON_INT, PLAN(wide.end), FALSE, 0, SPLIT_LAYERS_MAX }, .given = TRUE,
    .id = KEY_WIDE_END, .shorter = "bf16_end", .fix = FIX_NUMBER, .choice = CHOICE_WIDE_END, .unit = "blocks",
    .meaning = "the same at its end" },
  { { "fp8_param_gather", JSON_ANY, PLAN(param_gather), FALSE, 0, 1 }, .id = KEY_PARAM_GATHER,
    .shorter = "param_gather", .fix = FIX_NUMBER, .part = PLAN_STATES, .matters = plan_can_gather_narrow,
    .read = read_param_gather, .write = write_param_gather, .unit = "`true` or `false`",
    .meaning = "of `fp8` and `fp4`: ranks gather the weights of its products in 8 or 4 bits (below)",
    .usual = "the framework's" },
  { { "adapter", JSON_ANY }, .part = PLAN_PASSES, .read = read_adapter, .write = write_adapter,
    .unit = "`none`, `lora:r=N`, `qlora:r=N`; `,targets=NAME,NAME`",
    .meaning = "all weights are frozen, and matrices of rank N beside the targets are trained (below)",
    .usual = "`none`; of targets `all-linear`" },
  { { "optimizer", JSON_ENUM, PLAN(optimizer.name), .names = optimizer_names }, .given = TRUE, .id = KEY_OPTIMIZER,
    .shorter = "optimizer", .fix = FIX_NAME, .part = PLAN_STATES, .always = TRUE,
    .meaning = "that updates the weights; `adam` and `adamw` are alike" },
  { { "sgd_momentum", JSON_REAL, PLAN(optimizer.momentum), FALSE, 0, 1 }, .given = TRUE, .part = PLAN_STATES,
    .meaning = "of `sgd`: 0 keeps no momentum" },
  { { "optimizer_block_size", JSON_INT, PLAN(optimizer.block), FALSE, 16, 65536 }, .given = TRUE, .part = PLAN_STATES,
    .unit = "values", .meaning = "of `adam8bit`: that share a scale (2,048 in its paper)" },
  { { "muon_num_ns_steps", JSON_INT, PLAN(optimizer.newton_steps), FALSE, 1, 100 }, .given = TRUE, .part = PLAN_STATES,
    .unit = "steps", .meaning = "of `muon`: Newton-Schulz steps" },
  { { "muon_tp_mode", JSON_ENUM, PLAN(optimizer.muon_mode), .names = muon_mode_names },
    .given = TRUE, .part = PLAN_STATES,
    .meaning = "of `muon`: how tensor-parallel ranks share them (below)" },
  { { "store_param_remainders", JSON_BOOL, PLAN(optimizer.remainders) }, .given = TRUE, .part = PLAN_STATES,
    .meaning = "fp32 master weights beside bf16 ones as the 16 bits that these lack" },
  { { "main_params_dtype", JSON_ENUM, PLAN(optimizer.formats[STATE_MAIN_PARAMS]), .names = state_format_names },
    .given = TRUE, .part = PLAN_STATES, .meaning = "of the weights that the optimizer updates (below)",
    .usual = "`fp32`" },
  { { "main_grads_dtype", JSON_ENUM, PLAN(optimizer.formats[STATE_MAIN_GRADS]), .names = state_format_names },
    .given = TRUE, .part = PLAN_STATES, .meaning = "of gradients as they are accumulated", .usual = "the framework's" },
  { { "exp_avg_dtype", JSON_ENUM, PLAN(optimizer.formats[STATE_EXP_AVG]), .names = state_format_names }, .given = TRUE,
    .part = PLAN_STATES, .meaning = "of the first moment", .usual = "`fp32`" },
  { { "exp_avg_sq_dtype", JSON_ENUM, PLAN(optimizer.formats[STATE_EXP_AVG_SQ]), .names = state_format_names },
    .given = TRUE, .part = PLAN_STATES, .meaning = "of the second moment", .usual = "`fp32`" },
  { { "grad_reduce_dtype", JSON_ENUM, PLAN(optimizer.formats[STATE_GRAD_REDUCE]), .names = state_format_names },
    .given = TRUE, .part = PLAN_STATES, .meaning = "of gradients on the wire between data-parallel ranks",
    .usual = "as accumulated" },
  { { "tensor_reduce_dtype", JSON_ENUM, PLAN(optimizer.formats[STATE_TENSOR_REDUCE]), .names = state_format_names },
    .given = TRUE, .part = PLAN_STATES, .meaning = "of the sums over tensor-parallel ranks",
    .usual = "the activations'" },
  { { "offload", JSON_ANY }, .id = KEY_OFFLOAD, .shorter = "offload", .fix = FIX_SWITCH, .choices = offloads,
    .part = PLAN_STATES, .read = read_offload, .write = write_offload, .unit = "`none`, `optimizer`, an object",
    .meaning = "states in host memory, where Adam runs; or what the object says (below)", .usual = "`none`" },
  { { "optimizer", JSON_ENUM, PLAN(offload.optimizer), .names = store_names }, .choice = CHOICE_OFFLOAD_OPTIMIZER,
    .object = "offload", .part = PLAN_STATES,
    .meaning = "fp32 weights and moments. Gradients go down, Adam runs on the host, weights come up; from and to NVMe "
               "16 bytes a parameter each way. Needs a ZeRO stage where ranks share weights" },
  { { "parameters", JSON_ENUM, PLAN(offload.parameters), .names = store_names }, .choice = CHOICE_OFFLOAD_PARAMETERS,
    .object = "offload", .part = PLAN_STATES,
    .meaning = "ZeRO-3's part of the weights: comes up before it is gathered, a piece earlier" },
  { { "activations", JSON_ENUM, PLAN(offload.activations), .names = store_names }, .choice = CHOICE_OFFLOAD_ACTIVATIONS,
    .object = "offload", .part = PLAN_PASSES,
    .meaning = "what full recomputation keeps leaves behind a block's forward and comes back beside the pass before "
               "its backward" },
  { { "delayed_update", JSON_BOOL, PLAN(offload.delayed) }, .choice = CHOICE_DELAYED, .object = "offload",
    .part = PLAN_STATES,
    .meaning = "the host's Adam runs beside the next step's passes, one step late (ZeRO-Offload); copies stay. ZeRO-1 "
               "and 2" },
  { { "sub_group_size", JSON_REAL, PLAN(offload.sub_group), FALSE, 1, PARAMS_MAX }, .choice = CHOICE_SUB_GROUP,
    .object = "offload", .part = PLAN_STATES, .whole = TRUE, .unit = "parameters",
    .meaning = "that go through NVMe, Adam and the copy up at once, so that these overlap",
    .usual = "all; through NVMe 1e9, as in DeepSpeed" },
  { { "cpu_offloading_num_layers", JSON_INT, PLAN(offload.layers), FALSE, 0, SPLIT_LAYERS_MAX },
    .id = KEY_OFFLOAD_LAYERS, .shorter = "offload_layers", .fix = FIX_NUMBER, .choice = CHOICE_OFFLOAD_LAYERS,
    .part = PLAN_PASSES, .unit = "layers",
    .meaning = "the first ones: all that they keep goes to host memory behind their forwards, and comes back before "
               "their backwards, beside those of later layers. Without recomputation, pipeline and CUDA graphs" },
  { { "attention", JSON_ENUM, PLAN(attention), .names = attention_kernel_names }, .always = TRUE,
    .meaning = "its kernels; `flash` is FlashAttention-2, which GPUs before Ampere run otherwise",
    .usual = "the framework's" },
  { { "framework", JSON_STRING, AS_FILE(framework) }, .always = TRUE, .unit = "a file of `plans/frameworks/`",
    .meaning = "the software that trains", .usual = "`" FRAMEWORK_USUAL "`" },
  { { "overlap", JSON_ANY, 0, FALSE, 0, 1 }, .id = KEY_OVERLAP, .shorter = "overlap", .fix = FIX_NUMBER,
    .part = PLAN_STATES, .unit = "an object",
    .meaning = "what runs beside computation (below); `--fix` 0: nothing, 1: all that the framework can",
    .usual = "the framework's" },
  { { "gradients", JSON_BOOL, PLAN(overlap.gradients) }, .object = "overlap", .part = PLAN_STATES, .always = TRUE,
    .meaning = "reduction of gradients, by bucket, beside the last backwards", .usual = "the framework's" },
  { { "parameters", JSON_BOOL, PLAN(overlap.parameters) }, .object = "overlap", .part = PLAN_STATES, .always = TRUE,
    .meaning = "gathering of updated or divided weights", .usual = "the framework's" },
  { { "pipeline", JSON_BOOL, PLAN(overlap.pipeline) }, .object = "overlap", .part = PLAN_STATES, .always = TRUE,
    .meaning = "sends between stages", .usual = "the framework's" },
  { { "tensor", JSON_BOOL, PLAN(overlap.tensor) }, .object = "overlap", .part = PLAN_STATES, .always = TRUE,
    .meaning = "the input gradient's reduction over tensor-parallel ranks, beside the weight gradient",
    .usual = "the framework's" },
  { { "offload", JSON_BOOL, PLAN(overlap.offload) }, .object = "overlap", .part = PLAN_STATES, .matters = offloads_any,
    .meaning = "gradients go to the host beside the backwards that make them", .usual = "the framework's" },
  { { "experts", JSON_BOOL, PLAN(overlap.experts) }, .object = "overlap",
    .meaning = "tokens travel beside shared experts" },
  { { "exchange", JSON_BOOL, PLAN(overlap.exchange) }, .id = KEY_EXCHANGE, .shorter = "ep_overlap", .fix = FIX_NUMBER,
    .object = "overlap", .part = PLAN_PASSES,
    .meaning = "tokens of one micro-batch travel beside the other pass of another (Megatron's "
               "overlap_moe_expert_parallel_comm); with a pipeline under several chunks a rank" },
  { { "description", JSON_ANY }, .unit = "any", .meaning = "a text for the reader of the file" },
  { .field.key = NULL },
};

const PlanKey *plan_key_members(const PlanKey *key)
{
  return !key->object && g_strcmp0(key[1].object, key->field.key) == 0 ? key + 1 : NULL;
}

/* Rows by what they are asked for, and the plan that every default is compared with. */
typedef struct {
  const PlanKey *by_id[KEY_COUNT], *by_choice[CHOICE_COUNT], *switches[SWITCHES_MAX + 1];
  Plan usual;
} KeyIndex;

static gpointer make_index(gpointer unused G_GNUC_UNUSED)
{
  static const Model model;
  static const Framework framework;
  static KeyIndex index;

  index.usual = plan_default(&model, &framework);
  int n = 0;
  for (const PlanKey *key = plan_keys; key->field.key; key++) {
    index.by_id[key->id] = key;
    index.by_choice[key->choice] = key;
    if (key->allowed) {
      g_assert(n < SWITCHES_MAX);
      index.switches[n++] = key;
    }
  }
  return &index;
}

static const KeyIndex *key_index(void)
{
  static GOnce once = G_ONCE_INIT;
  return g_once(&once, make_index, NULL);
}

const PlanKey *plan_key_of(PlanKeyId id)
{
  return key_index()->by_id[id];
}

static gboolean same_name(const char *a, const char *b)
{
  g_autofree char *x = g_strdelimit(g_strdup(a), "-", '_'), *y = g_strdelimit(g_strdup(b), "-", '_');

  return g_ascii_strcasecmp(x, y) == 0;
}

const PlanKey *plan_key_named(const char *name)
{
  for (int id = KEY_OTHER + 1; id < KEY_COUNT; id++) {
    const PlanKey *key = plan_key_of((PlanKeyId)id);
    if ((key->shorter && same_name(key->shorter, name)) || (!key->object && same_name(key->field.key, name)))
      return key;
  }
  return NULL;
}

const PlanKey *const *plan_pass_switches(void)
{
  return key_index()->switches;
}

gboolean plan_key_is_usual(const PlanKey *key, const Plan *p)
{
  const Plan *usual = &key_index()->usual;
  gsize at = key->field.offset;

  return key->field.type == JSON_REAL ? G_STRUCT_MEMBER(double, p, at) == G_STRUCT_MEMBER(double, usual, at)
                                      : G_STRUCT_MEMBER(int, p, at) == G_STRUCT_MEMBER(int, usual, at);
}

/* ---- choices of engines ---- */

gboolean plan_takes(const Plan *p, PlanChoice choice)
{
  const PlanKey *key = key_index()->by_choice[choice];
  const Offload *o = &p->offload;

  if (choice == CHOICE_NVME)
    return o->optimizer == STORE_NVME || o->parameters == STORE_NVME || o->activations == STORE_NVME;
  return !plan_key_is_usual(key, p);
}

static void to_cpu(Store *store)
{
  *store = MIN(*store, STORE_CPU);
}

void plan_leave(Plan *p, PlanChoice choice)
{
  const PlanKey *key = key_index()->by_choice[choice];

  if (choice == CHOICE_NVME) {
    to_cpu(&p->offload.optimizer);
    to_cpu(&p->offload.parameters);
    to_cpu(&p->offload.activations);
    return;
  }
  gsize at = key->field.offset, size = key->field.type == JSON_REAL ? sizeof(double) : sizeof(int);
  memcpy((char *)p + at, (const char *)&key_index()->usual + at, size);
}

const char *plan_choice_name(PlanChoice choice)
{
  static const char *const stores[] = { [CHOICE_OFFLOAD_OPTIMIZER] = "offload optimizer",
                                        [CHOICE_OFFLOAD_PARAMETERS] = "offload parameters",
                                        [CHOICE_OFFLOAD_ACTIVATIONS] = "offload activations",
                                        [CHOICE_NVME] = "offload nvme" };

  return choice < G_N_ELEMENTS(stores) && stores[choice] ? stores[choice] : key_index()->by_choice[choice]->field.key;
}
