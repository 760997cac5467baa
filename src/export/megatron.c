/* Megatron-LM: a batch script around the script that trains the model. */
#include "export/target.h"

#include "op/op.h"

static const ScheduleName schedule_names[] = {{"1f1b", "1f1b", FALSE}, {"interleaved", "interleaved", TRUE}, {0}};

#define FSDP \
  "--use-distributed-optimizer --no-gradient-accumulation-fusion --ckpt-format fsdp_dtensor\n" \
  "--use-megatron-fsdp --data-parallel-sharding-strategy"

static const char *const zero_flags[] = {
  NULL, "--use-distributed-optimizer", FSDP " optim_grads", FSDP " optim_grads_params",
};

static const char *const precision_flags[DTYPE_COUNT] = {[DTYPE_FP16] = "--fp16", [DTYPE_BF16] = "--bf16"};

static const char *const attention_flags[ATTENTION_KERNEL_COUNT] = {
  [ATTENTION_UNFUSED] = "--attention-backend unfused",
  [ATTENTION_FLASH1] = "--attention-backend flash",
  [ATTENTION_FLASH] = "--attention-backend flash",
  [ATTENTION_FLASH3] = NULL, /* what Transformer Engine takes by itself where there is cuDNN's */
};

/* Fusions are on unless a flag says otherwise, the loss's is off. */
static const struct {
  gsize offset;
  gboolean usual;
  const char *otherwise;
} fusions[] = {
  {G_STRUCT_OFFSET(Framework, fused_softmax), TRUE, "--no-masked-softmax-fusion"},
  {G_STRUCT_OFFSET(Framework, fused_activation), TRUE, "--no-bias-gelu-fusion --no-bias-swiglu-fusion"},
  {G_STRUCT_OFFSET(Framework, fused_dropout_add), TRUE, "--no-bias-dropout-fusion"},
  {G_STRUCT_OFFSET(Framework, fused_loss), FALSE, "--cross-entropy-loss-fusion"},
};

static void add(GString *flags, const char *words)
{
  if (words)
    export_words(flags, "%s", words);
}

/* The counts that the host reads without a capacity that is filled up are of moe_preprocess, which then is not recorded
 * with all-to-alls of limited rows, where nobody names it. */
char *megatron_graph_modules(const Export *e, const char *between)
{
  const PassLayout *p = &e->layout.passes;
  gboolean reads = e->layout.expert_capacity > 0 && !p->expert_rows_known && p->dispatch == DISPATCH_ALL_TO_ALL;
  guint modules = pass_recorded(p) & recorded_modules_of(e->model);

  if (reads)
    modules &= ~(1u << RECORDED_MOE_PREPROCESS);
  return names_joined(recorded_module_names, modules, between);
}

double megatron_rank_capacity(const Export *e)
{
  const PassLayout *p = &e->layout.passes;

  return p->graph == GRAPH_FULL && model_has_experts(e->model) && !p->expert_rows_known ? MAX(1.5, p->expert_tokens) : 0;
}

/* What recorded kernels need beside their own flags. */
static void add_graph(Export *e, GString *flags)
{
  CudaGraph graph = e->layout.passes.graph;
  double capacity = megatron_rank_capacity(e);

  if (graph == GRAPH_NONE)
    return;
  add(flags, "--te-rng-tracker");
  if (graph == GRAPH_PARTIAL) {
    g_autofree char *modules = megatron_graph_modules(e, " ");
    export_words(flags, "--cuda-graph-impl transformer_engine --cuda-graph-modules %s", modules);
    return;
  }
  add(flags, "--cuda-graph-impl full_iteration --no-check-for-nan-in-loss-and-grad");
  if (capacity > 0)
    export_words(flags, "--moe-paged-stash --moe-expert-rank-capacity-factor %g --use-transformer-engine-op-fuser",
                 capacity);
}

static void add_expert_parallel(Export *e, GString *flags)
{
  const Layout *l = &e->layout;
  const PassLayout *p = &l->passes;

  if (p->ep > 1)
    export_words(flags, "--expert-model-parallel-size %d", p->ep);
  if (p->etp != p->tp)
    export_words(flags, "--expert-tensor-parallel-size %d", p->etp);
  if (p->experts_apart)
    export_words(flags, "--moe-token-dispatcher-type %s", export_dispatcher(e));
  if (p->experts_apart && p->dispatch == DISPATCH_HYBRID)
    add(flags, "--moe-flex-dispatcher-backend hybridep");
  if (p->overlap_experts)
    add(flags, "--moe-shared-expert-overlap");
  if (p->overlap_exchange)
    add(flags, "--overlap-moe-expert-parallel-comm --delay-wgrad-compute");
  add_graph(e, flags);
  if (l->expert_capacity > 0)
    export_words(flags, "--moe-expert-capacity-factor %g", l->expert_capacity);
  if (l->expert_drop)
    export_words(flags, "--moe-token-drop-policy %s", expert_drop_names[l->expert_drop]);
  if (l->expert_padded)
    export_words(flags, "--moe-pad-expert-input-to-capacity");
  export_end_line(flags);
}

static void add_tensor(Export *e, GString *flags)
{
  const Layout *l = &e->layout;
  const PassLayout *p = &l->passes;

  export_words(flags, "--tensor-model-parallel-size %d", p->tp);
  if (p->sequence_parallel)
    add(flags, "--sequence-parallel");
  if (p->comm_chunks)
    add(flags, "--tp-comm-overlap");
  if (p->comm_fp8)
    export_note(e, "tp_comm_overlap_fp8: true: set fp8_buf of proj_fprop and fc2_fprop in the file of "
                "--tp-comm-overlap-cfg");
  if (l->overlaps_open & ~l->overlaps & OVERLAP_TENSOR && !megatron_fsdp(e))
    export_note(e, "overlap: tensor: false: Megatron-LM always reduces the input gradient beside the weight gradient");
  if (p->cp > 1)
    export_words(flags, "--context-parallel-size %d --cp-comm-type %s", p->cp, context_exchange_names[p->context]);
  if (p->cp > 1 && p->context == CONTEXT_BOTH)
    export_words(flags, "--hierarchical-context-parallel-sizes %d %d", p->context_inner, p->cp / p->context_inner);
  export_end_line(flags);
  add_expert_parallel(e, flags);
}

static void add_pipeline(Export *e, GString *flags)
{
  const Layout *l = &e->layout;
  const ScheduleShape *shape = &l->pipeline.shape;
  const ScheduleName *schedule = export_schedule(e, schedule_names);
  gboolean overlaps = l->overlaps & OVERLAP_PIPELINE;

  export_words(flags, "--pipeline-model-parallel-size %d", shape->ranks);
  if (megatron_hybrid(e->model)) {
    g_autofree char *letters = megatron_pattern(e);
    export_words(flags, "--hybrid-layer-pattern '%s'", letters);
  } else if (l->pipeline.cut.split.stages) {
    g_autofree char *stages = export_stages(e);
    export_words(flags, "--pipeline-model-parallel-layout '%s'", stages);
  } else if (schedule->chunks)
    export_words(flags, "--num-layers-per-virtual-pipeline-stage %d", export_chunk_blocks(e, schedule));
  if (l->mesh.inner)
    add(flags, "--use-tp-pp-dp-mapping");
  if (shape->group)
    export_words(flags, "--microbatch-group-size-per-virtual-pipeline-stage %d", shape->group);
  if (schedule->chunks && !overlaps && shape->ranks > 2)
    add(flags, "--no-overlap-p2p-communication");
  if (schedule->chunks && !overlaps && shape->ranks == 2)
    export_note(e, "overlap: pipeline: false: Megatron-LM interleaves 2 stages with it only");
  if (!schedule->chunks && l->overlaps & l->overlaps_open & OVERLAP_PIPELINE)
    export_note(e, "overlap: pipeline: true: Megatron-LM overlaps it only when it interleaves");
  export_end_line(flags);
}

static void add_overlap(Export *e, GString *flags)
{
  const StateLayout *s = &e->layout.states[0];
  gboolean gradients = megatron_overlaps(e) & OVERLAP_GRADIENTS, parameters = megatron_overlaps(e) & OVERLAP_PARAMETERS;

  if (megatron_fsdp(e) && !s->overlap_gradients)
    export_note(e, "overlap: gradients: false: Megatron-FSDP always overlaps them");
  if (s->zero == 3 && !s->overlap_parameters)
    export_note(e, "overlap: parameters: false: Megatron-FSDP always overlaps them when they are sharded");
  if (gradients)
    add(flags, "--overlap-grad-reduce");
  if (parameters && gradients)
    add(flags, "--overlap-param-gather");
  if (parameters && !gradients)
    export_note(e, "overlap: parameters: true: Megatron-LM overlaps them only together with gradients");
}

FsdpFormats megatron_fsdp_formats(const Export *e)
{
  const StateLayout *s = &e->layout.states[0];
  gboolean narrow = dtype_bytes[s->formats.precision] == 2, wide = s->gradient_bytes == 4 && narrow;
  StateFormat main = s->optimizer.formats[STATE_MAIN_PARAMS];

  return (FsdpFormats) {
    .main_params = main == FORMAT_BF16 || main == FORMAT_FP16 ? state_format_names[main] : NULL,
    .main_grads = wide ? "fp32" : NULL,
    .grad_comm = wide && s->reduce_bytes == 2 ? dtype_names[s->formats.precision] : NULL,
  };
}

/* Releases before Core 0.17, as Primus's, have no such flags and accumulate in fp32. */
static void add_fsdp_gradients(Export *e, GString *flags)
{
  const FsdpFormats formats = megatron_fsdp_formats(e);

  if (formats.main_params)
    export_words(flags, "--megatron-fsdp-main-params-dtype %s", formats.main_params);
  if (formats.main_grads)
    export_words(flags, "--megatron-fsdp-main-grads-dtype %s", formats.main_grads);
  if (formats.grad_comm)
    export_words(flags, "--megatron-fsdp-grad-comm-dtype %s", formats.grad_comm);
}

static void add_gradients(Export *e, GString *flags)
{
  const StateLayout *s = &e->layout.states[0];
  DType precision = s->formats.precision;
  gint64 usual = MAX(40000000, (gint64)1000000 * s->replicas), bucket = (gint64)op_bucket_params(s);

  if (precision == DTYPE_BF16 && s->reduce_bytes == 2)
    add(flags, "--grad-reduce-in-bf16");
  if (precision == DTYPE_BF16 && s->reduce_bytes == 2 && s->gradient_bytes == 4)
    export_note(e, "framework: %s: Megatron-LM accumulates gradients in the 16 bits in which it reduces them",
                s->framework->name);
  if (precision == DTYPE_FP16 && s->gradient_bytes == 4)
    add(flags, "--accumulate-allreduce-grads-in-fp32");
  if (s->overlap_gradients && !megatron_fsdp(e) && bucket != usual)
    export_words(flags, "--ddp-bucket-size %" G_GINT64_FORMAT, bucket);
}

/* Megatron-LM's flags of the formats of states; gradients on the wire are said by flags of their own. */
static void add_formats(Export *e, GString *flags)
{
  static const char *const format_flags[] = { [STATE_MAIN_PARAMS] = "--main-params-dtype",
                                              [STATE_MAIN_GRADS] = "--main-grads-dtype",
                                              [STATE_EXP_AVG] = "--exp-avg-dtype",
                                              [STATE_EXP_AVG_SQ] = "--exp-avg-sq-dtype" };
  const StateLayout *s = &e->layout.states[0];
  const Optimizer *o = &s->optimizer;

  if (!optimizer_has_formats(o))
    return;
  if (s->gathers_narrow && s->formats.recipe == FP8_DELAYED) { /* gradients alone: that optimizer takes no such weights */
    add(flags, "--grad-reduce-in-bf16");
    return;
  }
  if (!s->offload.optimizer)
    add(flags, "--use-precision-aware-optimizer");
  for (gsize i = 0; i < G_N_ELEMENTS(format_flags); i++)
    if (o->formats[i])
      export_words(flags, "%s %s", format_flags[i], state_format_names[o->formats[i]]);
  if (o->remainders)
    export_note(e, "store_param_remainders: true: Megatron-LM keeps them with this optimizer");
  else if (s->formats.precision == DTYPE_BF16 && o->formats[STATE_MAIN_PARAMS] <= FORMAT_FP32)
    export_note(e, "store_param_remainders: false: Megatron-LM keeps remainders with this optimizer");
}

static void add_optimizer(Export *e, GString *flags)
{
  static const char *const names[OPTIMIZER_COUNT] = { [OPTIMIZER_ADAM] = "adam", [OPTIMIZER_ADAMW] = "adam",
                                                      [OPTIMIZER_SGD] = "sgd", [OPTIMIZER_MUON] = "muon" };
  const StateLayout *s = &e->layout.states[0];
  const Optimizer *o = &s->optimizer;
  const char *name = export_optimizer(e, names);

  if (o->name == OPTIMIZER_SGD)
    export_words(flags, "--optimizer sgd --sgd-momentum %g", o->momentum);
  else if (o->name == OPTIMIZER_MUON)
    export_words(flags, "--optimizer %s --muon-num-ns-steps %d --muon-tp-mode %s", s->zero ? "dist_muon" : name,
                 o->newton_steps, muon_mode_names[o->muon_mode]);
  add_formats(e, flags);
}

static void add_data(Export *e, GString *flags)
{
  const StateLayout *s = &e->layout.states[0];

  if (s->optimizer.name != OPTIMIZER_MUON) /* dist_muon divides whole layers by itself */
    add(flags, zero_flags[MAX(s->zero, megatron_distributed(s))]); /* of one rank, too */
  if (s->offload.optimizer)
    add(flags, "--optimizer-cpu-offload --use-precision-aware-optimizer");
  if (s->stores_gradients)
    add(flags, "--overlap-cpu-optimizer-d2h-h2d");
  if (s->copies > 1)
    export_words(flags, "--num-distributed-optimizer-instances %d", s->copies);
  if (s->copies > 1 && megatron_fsdp(e))
    add(flags, "--outer-dp-sharding-strategy no_shard");
  add_optimizer(e, flags);
  export_end_line(flags);
  if (e->layout.has_replicas) {
    add_overlap(e, flags);
    add_gradients(e, flags);
  }
  export_end_line(flags);
  if (megatron_fsdp(e) && megatron_distributed(&e->layout.states[0]) && e->exporter != &exporter_primus)
    add_fsdp_gradients(e, flags);
  export_end_line(flags);
}

/* Transformer Engine refuses the kernel named for some of what its others run (dot_product_attention/utils.py until 2.12:
 * "FlashAttention 2 [...] does not support MLA"). */
static gboolean chooses_kernel(const Attention *a)
{
  return a->extra_params > 0 || a->v_head_dim != a->head_dim;
}

/* The kernel that runs, of those that Megatron-LM has. */
static void add_attention(Export *e, GString *flags)
{
  const PassLayout *p = &e->layout.passes;
  gboolean wide = p->formats.precision == DTYPE_FP32;
  AttentionKernel kernel = framework_attention(p->framework, p->attention, &e->cluster->device);
  const char *name = attention_kernel_names[kernel];
  gboolean flash = kernel != ATTENTION_UNFUSED;
  if (flash && wide)
    export_lose(e, "attention: %s: works in 16 bits only, written as unfused", name);
  if (kernel == ATTENTION_EFFICIENT)
    export_lose(e, "attention: %s: not in Megatron-LM, which chooses its kernel", name);
  if (flash && chooses_kernel(&model_attending(e->model)->attention))
    export_note(e, "attention: %s: Megatron-LM chooses the kernel where attention has sinks, biases by distance, or keys of "
                "another width than values", name);
  else
    add(flags, attention_flags[wide ? ATTENTION_UNFUSED : kernel]);
  if (kernel == ATTENTION_FLASH1)
    export_note(e, "attention: %s: Megatron-LM takes the newest that is installed", name);
}

static void add_kernels(Export *e, GString *flags)
{
  const PassLayout *p = &e->layout.passes;

  export_recompute_flags(e, flags);
  if (p->partition_activations)
    add(flags, "--distribute-saved-activations");
  if (e->layout.states[0].offload.layers > 0)
    export_words(flags, "--cpu-offloading-num-layers %d", e->layout.states[0].offload.layers);
  export_end_line(flags);
  add_attention(e, flags);
  for (gsize i = 0; i < G_N_ELEMENTS(fusions); i++)
    if (G_STRUCT_MEMBER(gboolean, p->framework, fusions[i].offset) != fusions[i].usual)
      add(flags, fusions[i].otherwise);
  if (p->framework->fused_rope && model_attending(e->model)->attention.index_heads) /* TransformerConfig refuses it */
    export_note(e, "model: index_topk: Megatron-LM rotates queries and keys of chosen keys by kernels that are not fused");
  const Attention *a = &model_attending(e->model)->attention;
  gboolean fused = p->framework->fused_rope && !a->index_heads && !(p->framework->latent_rope_apart && a->kv_lora_rank);
  if (e->model->positions == POSITIONS_ROPE && !fused)
    add(flags, "--no-rope-fusion");
  if (p->framework->vocab_multiple != 128)
    export_words(flags, "--make-vocab-size-divisible-by %d", p->framework->vocab_multiple);
  export_end_line(flags);
}

/* Transformer Engine's recipes by Megatron-LM's names; its tensorwise scales are ours of the current tensor. */
static void add_recipe(Export *e, GString *flags)
{
  static const char *const recipes[FP8_COUNT] = { [FP8_DELAYED] = "delayed", [FP8_CURRENT] = "tensorwise",
                                                  [FP8_TENSORWISE] = "tensorwise", [FP8_BLOCKWISE] = "blockwise",
                                                  [FP8_MXFP8] = "mxfp8" };
  const Formats *f = &e->layout.passes.formats;
  const WideBlocks *wide = &e->layout.passes.wide;
  const StateLayout *states = &e->layout.states[0];

  if (f->products == PRODUCTS_FP8) {
    export_words(flags, "--fp8-format %s --fp8-recipe %s", f->recipe >= FP8_BLOCKWISE ? "e4m3" : "hybrid",
                 recipes[f->recipe]);
    add(flags, states->gathers_narrow ? "--fp8-param-gather" : NULL);
    if (states->gathers_narrow && f->recipe == FP8_MXFP8 && states->zero < 3) /* of the distributed optimizer */
      add(flags, "--reuse-grad-buf-for-mxfp8-param-ag");
  }
  if (f->products == PRODUCTS_FP4)
    add(flags, states->gathers_narrow ? "--fp4-format e2m1 --fp4-recipe nvfp4 --fp4-param-gather"
                                      : "--fp4-format e2m1 --fp4-recipe nvfp4");
  if (wide_any(wide)) /* each is 1 unless said */
    export_words(flags, "--first-last-layers-bf16 --num-layers-at-start-in-bf16 %d --num-layers-at-end-in-bf16 %d",
                 wide->start, wide->end);
}

static void plan_flags(Export *e, GString *flags)
{
  const PassLayout *p = &e->layout.passes;

  add_tensor(e, flags);
  add_pipeline(e, flags);
  add_data(e, flags);
  add_kernels(e, flags);
  export_words(flags, "--micro-batch-size %d --global-batch-size %d", p->micro_batch,
               e->layout.global_batch);
  add(flags, precision_flags[p->formats.precision]);
  add_recipe(e, flags);
}

static void other_flags(const Export *e, const MegatronTrainer *trainer, GString *flags)
{
  export_words(flags, "--train-iters %d --lr " EXPORT_LR " --min-lr " EXPORT_MIN_LR "\n", EXPORT_STEPS);
  if (trainer->data)
    export_words(flags, "%s\n", trainer->data);
  else
    export_words(flags, "--mock-data --tokenizer-type NullTokenizer --vocab-size %d\n", e->model->vocab);
  export_words(flags, "--log-interval 1 --log-throughput");
}

static void put_array(GString *text, const char *name, const GString *flags)
{
  g_auto(GStrv) lines = g_strsplit(flags->str, "\n", -1);

  g_string_append_printf(text, "%s=(\n", name);
  for (int i = 0; lines[i]; i++)
    if (lines[i][0])
      g_string_append_printf(text, "  %s\n", lines[i]);
  g_string_append(text, ")\n");
}

/* Of an exchange beside passes moe/README.md (core 0.20) says more than 1, and arguments.py 32. */
const char *megatron_connections(const Export *e)
{
  return megatron_fsdp(e)                   ? NULL
         : e->layout.passes.overlap_exchange ? "CUDA_DEVICE_MAX_CONNECTIONS=32"
                                             : "CUDA_DEVICE_MAX_CONNECTIONS=1";
}

static void put_connections(Export *e, GString *text)
{
  const PassLayout *p = &e->layout.passes;

  if (!megatron_connections(e)) {
    g_string_append(text, "\nunset CUDA_DEVICE_MAX_CONNECTIONS\n");
    return;
  }
  g_string_append_printf(text, "\nexport %s\n", megatron_connections(e));
  if (p->overlap_exchange && (p->tp > 1 || p->cp > 1))
    export_note(e, "CUDA_DEVICE_MAX_CONNECTIONS: 32 lets tokens be exchanged beside passes; before Blackwell tensor and "
                   "context parallelism overlap best with 1, and Megatron-LM warns that it is a choice: measure both");
}

static void put_start(Export *e, const char *trainer, GString *text)
{
  g_autofree char *script = g_strconcat(trainer, " \"${MODEL[@]}\" \"${PLAN[@]}\" \"${OTHER[@]}\" \"$@\"", NULL);

  put_connections(e, text);
  if (megatron_rank_capacity(e) > 0)
    g_string_append(text, "export " MEGATRON_FUSES_EXPERTS "\n");
  if (e->nodes == 1) {
    g_string_append_printf(text, "torchrun --standalone --nproc-per-node %d \\\n  %s\n", e->node_gpus, script);
    return;
  }
  g_string_append(text, ": \"${SLURM_JOB_NODELIST:?start this script with sbatch}\"\n"
                        "head_node=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | sed -n 1p)\n");
  g_string_append_printf(text, "srun --kill-on-bad-exit=1 torchrun --nnodes %d --nproc-per-node %d \\\n", e->nodes,
                         e->node_gpus);
  g_string_append(text, "  --rdzv-id \"$SLURM_JOB_ID\" --rdzv-backend c10d --rdzv-endpoint \"$head_node:29500\" \\\n");
  g_string_append_printf(text, "  %s\n", script);
}

const MegatronTrainer *megatron_flags(Export *e, GString *model, GString *plan, GString *other, GError **error)
{
  const MegatronTrainer *trainer = megatron_trainer(e, error);

  if (!trainer)
    return NULL;
  megatron_model_flags(e, model);
  export_end_line(model);
  plan_flags(e, plan);
  export_end_line(plan);
  other_flags(e, trainer, other);
  return trainer;
}

static gboolean render(Export *e, GString *text, GError **error)
{
  g_autoptr(GString) model = g_string_new(NULL);
  g_autoptr(GString) plan = g_string_new(NULL);
  g_autoptr(GString) other = g_string_new(NULL);
  const MegatronTrainer *trainer = megatron_flags(e, model, plan, other, error);

  if (!trainer)
    return FALSE;
  if (e->nodes > 1) {
    g_string_append_printf(text, "#SBATCH --nodes=%d\n#SBATCH --gpus-per-node=%d\n", e->nodes, e->node_gpus);
    g_string_append(text, "#SBATCH --ntasks-per-node=1\n#SBATCH --exclusive\n");
  }
  g_string_append(text, "set -eu\n\n");
  put_array(text, "MODEL", model);
  put_array(text, "PLAN", plan);
  g_string_append(text, "# Not the plan's: put your data, tokenizer, steps and learning rate here.\n");
  put_array(text, "OTHER", other);
  put_start(e, trainer->script, text);
  return TRUE;
}

static void launch(Export *e, const char *file, GString *line)
{
  g_autoptr(GString) flags = g_string_new(NULL);

  const MegatronTrainer *trainer = megatron_trainer(e, NULL);

  (void)file;
  plan_flags(e, flags);
  g_string_replace(flags, "\n", " ", 0);
  if (megatron_connections(e))
    export_words(line, "%s", megatron_connections(e));
  if (megatron_rank_capacity(e) > 0)
    export_words(line, MEGATRON_FUSES_EXPERTS);
  export_torchrun(e, line, trainer ? trainer->script : "pretrain_gpt.py", NULL);
  export_words(line, "%s", flags->str);
}

const Exporter exporter_megatron = {
  .name = "megatron",
  .target = "Megatron-LM core 0.20",
  .extension = "sh",
  .first_line = "#!/bin/bash",
  .comments = TRUE,
  .adapting = &exporter_bridge,
  .framework = "megatron-core",
  .render = render,
  .launch = launch,
};
