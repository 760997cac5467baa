/* Megatron-Bridge: overrides merged into the recipe of the model. */
#include "export/target.h"
#include "plan/bridge.h"

static const ScheduleName schedule_names[] = {{"1f1b", "1f1b", FALSE}, {"interleaved", "interleaved", TRUE}, {0}};

static const char *const precision_names[DTYPE_COUNT] = {[DTYPE_FP16] = "fp16_mixed", [DTYPE_BF16] = "bf16_mixed"};

static const char *const sharding_names[] = {NULL, NULL, "optim_grads", "optim_grads_params"};

/* Cuts of recipes that the plan's replaces. */
static void put_no_other_cut(GString *text)
{
  static const char *const cuts[][2] = {
    { "account_for_embedding_in_pipeline_split", "false" }, { "account_for_loss_in_pipeline_split", "false" },
    { "num_layers_in_first_pipeline_stage", "null" }, { "num_layers_in_last_pipeline_stage", "null" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cuts); i++)
    g_string_append_printf(text, "  %s: %s\n", cuts[i][0], cuts[i][1]);
}

static void put_pipeline(Export *e, GString *text)
{
  const Layout *l = &e->layout;
  const ScheduleShape *shape = &l->pipeline.shape;
  const ScheduleName *schedule = export_schedule(e, schedule_names);
  gboolean overlaps = l->pipeline.overlaps_sends, hybrid = megatron_hybrid(e->model);

  g_string_append_printf(text, "model:\n  tensor_model_parallel_size: %d\n  pipeline_model_parallel_size: %d\n",
                         l->passes.tp, shape->ranks);
  if (schedule->chunks && !hybrid)
    g_string_append_printf(text, "  virtual_pipeline_model_parallel_size: %d\n", shape->chunks);
  else
    g_string_append(text, "  virtual_pipeline_model_parallel_size: null\n");
  if (schedule->chunks && shape->ranks > 2)
    g_string_append_printf(text, "  overlap_p2p_comm: %s\n", export_truth(overlaps));
  else if (l->overlaps_open & OVERLAP_PIPELINE && overlaps != schedule->chunks)
    export_note(e, "overlap: pipeline: %s: Megatron overlaps it where it interleaves", export_truth(overlaps));
  if (shape->group)
    g_string_append_printf(text, "  microbatch_group_size_per_vp_stage: %d\n", shape->group);
  if (hybrid) { /* its stages and chunks stand in the pattern */
    g_autofree char *letters = megatron_pattern(e);
    g_string_append_printf(text, "  hybrid_layer_pattern: \"%s\"\n", letters);
    return;
  }
  g_autofree char *stages = l->pipeline.cut.split.stages ? export_stages(e) : NULL;
  g_string_append(text, "  pipeline_model_parallel_layout: ");
  if (stages)
    export_quoted(text, stages);
  else
    g_string_append(text, "null");
  g_string_append_c(text, '\n');
  put_no_other_cut(text);
}

static void put_graph(Export *e, GString *text)
{
  CudaGraph graph = e->layout.passes.graph;
  double capacity = megatron_rank_capacity(e);
  g_autofree char *modules = megatron_graph_modules(e, ", ");

  if (graph == GRAPH_NONE) { /* some recipes record their steps */
    g_string_append(text, "  cuda_graph_impl: none\n");
    return;
  }
  g_string_append(text, "  use_te_rng_tracker: true\n");
  if (graph == GRAPH_PARTIAL)
    g_string_append_printf(text, "  cuda_graph_impl: transformer_engine\n  cuda_graph_scope: [%s]\n", modules);
  else
    g_string_append(text, "  cuda_graph_impl: local\n  cuda_graph_scope: [full_iteration]\n");
  if (capacity > 0) {
    export_note(e, "cuda_graph: full: set " MEGATRON_FUSES_EXPERTS " in the environment, else fused experts are refused");
    g_string_append_printf(text, "  moe_paged_stash: true\n  moe_expert_rank_capacity_factor: %g\n"
                                 "  use_transformer_engine_op_fuser: true\n", capacity);
  }
}

/* What stands beside model and ddp of recorded steps and parts. */
static void put_graph_beside(const Export *e, GString *text)
{
  CudaGraph graph = e->layout.passes.graph;

  if (graph)
    g_string_append(text, "rng:\n  te_rng_tracker: true\n");
  if (graph == GRAPH_FULL)
    g_string_append(text, "rerun_state_machine:\n  check_for_nan_in_loss: false\n");
}

static gboolean shares_experts(const Model *m)
{
  const LayerSpec *sparse = export_block(m, TRUE);
  return sparse && sparse->ffn.shared_width > 0;
}

/* Said whatever it is: recipes have defaults of their own. */
static void put_experts(Export *e, GString *text)
{
  const Layout *l = &e->layout;
  const PassLayout *p = &l->passes;

  g_string_append_printf(text, "  expert_model_parallel_size: %d\n", p->ep);
  if (p->experts_apart)
    g_string_append_printf(text, "  expert_tensor_parallel_size: %d\n  moe_token_dispatcher_type: %s\n", p->etp,
                           export_dispatcher(e));
  else if (model_has_experts(e->model)) /* flex, which recipes have, needs ranks to send to */
    g_string_append(text, "  moe_token_dispatcher_type: alltoall\n");
  if (p->experts_apart && dispatch_by_kernels(p->dispatch))
    g_string_append_printf(text, "  moe_flex_dispatcher_backend: %s\n", p->dispatch == DISPATCH_FLEX ? "deepep" : "hybridep");
  if (shares_experts(e->model))
    g_string_append_printf(text, "  moe_shared_expert_overlap: %s\n", export_truth(p->overlap_experts));
  put_graph(e, text);
  if (p->overlap_exchange)
    export_note(e, "overlap: exchange: true: set comm_overlap.overlap_moe_expert_parallel_comm beside the model");
  if (l->expert_capacity > 0)
    g_string_append_printf(text, "  moe_expert_capacity_factor: %g\n", l->expert_capacity);
  if (l->expert_drop)
    g_string_append_printf(text, "  moe_token_drop_policy: %s\n", expert_drop_names[l->expert_drop]);
  if (l->expert_padded)
    g_string_append(text, "  moe_pad_expert_input_to_capacity: true\n");
}

static void put_model(Export *e, GString *text)
{
  const PassLayout *p = &e->layout.passes;

  put_pipeline(e, text);
  g_string_append_printf(text, "  context_parallel_size: %d\n", p->cp);
  if (p->cp > 1)
    g_string_append_printf(text, "  cp_comm_type: %s\n", context_exchange_names[p->context]);
  if (p->cp > 1 && p->context == CONTEXT_BOTH)
    g_string_append_printf(text, "  hierarchical_context_parallel_sizes: [%d, %d]\n", p->context_inner,
                           p->cp / p->context_inner);
  put_experts(e, text);
  g_string_append_printf(text, "  sequence_parallel: %s\n", export_truth(p->sequence_parallel));
  if (p->sequence_parallel)
    export_note(e, "tp_comm_overlap: %s: set comm_overlap.tp_comm_overlap beside the model", export_truth(p->comm_chunks > 0));
  export_recompute_yaml(e, text);
  if (p->partition_activations)
    g_string_append(text, "  distribute_saved_activations: true\n");
  if (e->layout.states[0].offload.layers > 0)
    g_string_append_printf(text, "  cpu_offloading: true\n  cpu_offloading_weights: false\n"
                                 "  cpu_offloading_num_layers: %d\n", e->layout.states[0].offload.layers);
  g_string_append_printf(text, "  seq_length: %d\n", p->seq);
}

static void put_optimizer(const StateLayout *s, GString *text)
{
  static const char *const types[OPTIMIZER_COUNT] = {[OPTIMIZER_ADAM] = "adam", [OPTIMIZER_ADAMW] = "adam",
                                                     [OPTIMIZER_SGD] = "sgd", [OPTIMIZER_MUON] = "muon"};
  const Optimizer *o = &s->optimizer;

  g_string_append_printf(text, "optimizer:\n  use_distributed_optimizer: %s\n", export_truth(megatron_distributed(s)));
  if (s->offload.optimizer)
    g_string_append_printf(text, "  optimizer_cpu_offload: true\n  use_precision_aware_optimizer: true\n"
                                 "  overlap_cpu_optimizer_d2h_h2d: %s\n", export_truth(s->stores_gradients));
  if (types[o->name] && o->name != OPTIMIZER_ADAM)
    g_string_append_printf(text, "  optimizer: %s%s\n", o->name == OPTIMIZER_MUON && s->zero ? "dist_" : "", types[o->name]);
  if (o->name == OPTIMIZER_MUON)
    g_string_append_printf(text, "  muon_num_ns_steps: %d\n  muon_tp_mode: %s\n", o->newton_steps,
                           muon_mode_names[o->muon_mode]);
  if (o->name == OPTIMIZER_SGD)
    g_string_append_printf(text, "  sgd_momentum: %g\n", o->momentum);
}

/* A format of torch's: a word alone would stay one where the recipe has none (training/utils/omegaconf_utils.py). */
static void put_format(GString *text, const char *key, const char *format)
{
  static const char *const names[][2] = { { "bf16", "bfloat16" }, { "fp16", "float16" }, { "fp32", "float32" } };

  if (!format)
    g_string_append_printf(text, "  %s: null\n", key);
  for (gsize i = 0; format && i < G_N_ELEMENTS(names); i++)
    if (g_str_equal(format, names[i][0]))
      g_string_append_printf(text, "  %s:\n    _target_: torch.%s\n    _call_: false\n", key, names[i][1]);
}

/* All three, as some recipes have their own. */
static void put_fsdp_formats(const Export *e, GString *text)
{
  const FsdpFormats formats = megatron_fsdp_formats(e);

  put_format(text, "megatron_fsdp_main_params_dtype", formats.main_params ? formats.main_params : "fp32");
  put_format(text, "megatron_fsdp_main_grads_dtype", formats.main_grads);
  put_format(text, "megatron_fsdp_grad_comm_dtype", formats.grad_comm);
}

static void put_data(Export *e, GString *text)
{
  const StateLayout *s = &e->layout.states[0];
  gboolean inner = e->layout.mesh.inner, fsdp = megatron_fsdp(e);
  gboolean gradients = e->layout.has_replicas && megatron_overlaps(e) & OVERLAP_GRADIENTS;
  gboolean parameters = gradients && megatron_overlaps(e) & OVERLAP_PARAMETERS;

  g_string_append_printf(text, "ddp:\n  use_distributed_optimizer: %s\n", export_truth(megatron_distributed(s)));
  if (s->copies > 1)
    g_string_append_printf(text, "  num_distributed_optimizer_instances: %d\n", s->copies);
  g_string_append_printf(text, "  overlap_grad_reduce: %s\n  overlap_param_gather: %s\n", export_truth(gradients),
                         export_truth(parameters));
  if (s->sharding.bucket > 0)
    g_string_append_printf(text, "  bucket_size: %.0f\n", s->sharding.bucket);
  if (fsdp) {
    g_string_append_printf(text, "  average_in_collective: false\n  use_megatron_fsdp: true\n"
                                 "  data_parallel_sharding_strategy: %s\n",
                           sharding_names[s->zero]);
    put_fsdp_formats(e, text);
  } else {
    g_string_append(text, "  use_megatron_fsdp: false\n");
  }
  if (e->layout.passes.graph == GRAPH_FULL)
    g_string_append_printf(text, "  check_for_nan_in_grad: false\n%s",
                           fsdp ? "  megatron_fsdp_cuda_graph_mode: true\n"
                                  "  fsdp_all_gather_in_start_param_sync: false\n" : "");
  put_optimizer(s, text);
  put_graph_beside(e, text);
  g_string_append_printf(text, "dist:\n  use_megatron_fsdp: %s\n", export_truth(fsdp));
  if (inner)
    g_string_append(text, "  use_tp_pp_dp_mapping: true\n");
  if (fsdp)
    g_string_append(text, "checkpoint:\n  ckpt_format: fsdp_dtensor\n");
}

static gboolean names_part(guint targets)
{
  return targets & (1u << TARGET_Q | 1u << TARGET_K | 1u << TARGET_V | 1u << TARGET_GATE | 1u << TARGET_UP);
}

/* CanonicalLoRA has an A for each of the matrices that Megatron keeps as one. */
static void put_adapter(Export *e, GString *text)
{
  const Adapter *a = &e->layout.passes.adapter;
  guint named = adapter_named(e->model) & a->targets;
  const char *before = "";

  if (!adapter_freezes(a))
    return;
  if (a->kind == ADAPTER_QLORA)
    export_lose(e, "adapter: qlora: not in %s, written as lora", e->exporter->target);
  export_note(e, "adapter: set checkpoint.pretrained_checkpoint to the weights that it starts from; alpha is a "
                 "placeholder");
  g_string_append_printf(text, "peft:\n  _target_: megatron.bridge.peft.%s\n  dim: %d\n  alpha: %d\n"
                               "  target_modules: [",
                         names_part(named) ? "canonical_lora.CanonicalLoRA" : "lora.LoRA", a->rank, 2 * a->rank);
  for (int i = 0; i < TARGET_COUNT; i++)
    if (named >> i & 1) {
      if (adapter_bridge_name(i))
        g_string_append_printf(text, "%s%s", before, adapter_bridge_name(i));
      else
        export_lose(e, "adapter: %s: not in %s, left out", adapter_target_name(i), e->exporter->target);
      before = ", ";
    }
  g_string_append(text, "]\n");
}

/* The rest is Megatron-LM's, as its overrides are. */
static void lose_untold(Export *e)
{
  const char *formats = megatron_fsdp(e) ? NULL : ""; /* others are those of mixed_precision */
  const ToldKey told[] = {
    { "main_params_dtype", formats }, { "main_grads_dtype", formats }, { "grad_reduce_dtype", formats },
    { "adapter" }, { "tp_comm_overlap" }, { "context_parallel_a2a_size" }, { "fp8_recipe" }, { "fp8_param_gather" },
    { "num_layers_at_start_in_bf16" }, { "num_layers_at_end_in_bf16" }, { "overlap" },
    { "cuda_graph" }, { "cuda_graph_modules" }, { "moe_token_dispatcher_type" },
    { "moe_expert_capacity_factor" }, { "moe_token_drop_policy" }, { "moe_pad_expert_input_to_capacity" },
    { "microbatch_group_size_per_vp_stage" }, { "use_tp_pp_dp_mapping" }, { "partition_activations" },
    { "cpu_offloading_num_layers" },
    { "zero_optimization: reduce_bucket_size" }, TOLD_ALWAYS,
  };

  export_lose_untold(e, told);
  export_say_overlaps(e, OVERLAP_GRADIENTS | OVERLAP_PARAMETERS | OVERLAP_PIPELINE | OVERLAP_OFFLOAD);
}

/* The one with as many blocks in 16 bits, else the first of its scales. */
static const BridgeRecipe *recipe_of(Fp8Recipe scales, const WideBlocks *wide)
{
  const BridgeRecipe *first = NULL;

  for (gsize i = bridge_recipes_count; i-- > 0;) {
    const BridgeRecipe *r = &bridge_recipes[i];
    if (r->scales != (scales == FP8_TENSORWISE ? FP8_CURRENT : scales))
      continue;
    if (r->wide.start == wide->start && r->wide.end == wide->end)
      return r;
    first = r;
  }
  return first;
}

static void put_precision(Export *e, GString *text)
{
  const Formats *f = &e->layout.passes.formats;
  const WideBlocks *wide = &e->layout.passes.wide;
  const StateLayout *s = &e->layout.states[0];
  gboolean gathers = s->gathers_narrow;
  const BridgeRecipe *recipe = f->recipe ? recipe_of(f->recipe, wide) : NULL;

  if (recipe && gathers != recipe->gathers)
    export_note(e, "fp8_param_gather: %s: the recipe has it %s", export_truth(gathers), gathers ? "off" : "on");
  if (recipe && (recipe->wide.start != wide->start || recipe->wide.end != wide->end))
    export_note(e, "num_layers_at_start_in_bf16: %d, num_layers_at_end_in_bf16: %d: the recipe has %d and %d, set them and "
                   "first_last_layers_bf16 of mixed_precision", wide->start, wide->end, recipe->wide.start, recipe->wide.end);
  if (f->precision == DTYPE_BF16 && s->gradient_bytes < 4 && !megatron_fsdp(e))
    export_note(e, "framework: %s: set mixed_precision.grad_reduce_in_fp32 to False, as its recipes for performance do; "
                "gradients are in fp32 else", s->framework->name);
  if (recipe || precision_names[f->precision])
    g_string_append_printf(text, "mixed_precision: %s\n", recipe ? recipe->name : precision_names[f->precision]);
}

/* Its recipes for muon gather parameters behind the step. */
static void take_muon(Export *e)
{
  const StateLayout *s = &e->layout.states[0];

  if (s->optimizer.name == OPTIMIZER_MUON && e->layout.has_replicas && s->gathers_ahead)
    export_take_less(e, plan_without(e->plan, WITHOUT_EARLY_PARAMETERS), "its muon gathers nothing ahead");
}

static gboolean render(Export *e, GString *text, GError **error)
{
  (void)error;
  take_muon(e);
  const PassLayout *p = &e->layout.passes;

  export_note(e, "The model itself is the recipe's; train_iters is a placeholder.");
  lose_untold(e);
  put_model(e, text);
  g_string_append_printf(text, "train:\n  micro_batch_size: %d\n  global_batch_size: %d\n  train_iters: %d\n",
                         p->micro_batch, e->layout.global_batch, EXPORT_STEPS);
  put_data(e, text);
  put_precision(e, text);
  put_adapter(e, text);
  g_string_append_printf(text, "dataset:\n  seq_length: %d\n", p->seq);
  return TRUE;
}

static void launch(Export *e, const char *file, GString *line)
{
  export_torchrun(e, line, "train.py --config-file", file);
}

const Exporter exporter_bridge = {
  .name = "bridge",
  .target = "Megatron-Bridge of 2026-08",
  .extension = "yaml",
  .comments = TRUE,
  .adapters = TRUE,
  .framework = "megatron-core",
  .render = render,
  .launch = launch,
};
