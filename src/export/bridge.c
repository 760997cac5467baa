/* Megatron-Bridge: overrides merged into the recipe of the model. */
#include "export/target.h"


static const ScheduleName schedule_names[] = {{"1f1b", "1f1b", FALSE}, {"interleaved", "interleaved", TRUE}, {0}};

static const char *const precision_names[DTYPE_COUNT] = {[DTYPE_FP16] = "fp16_mixed", [DTYPE_BF16] = "bf16_mixed"};

/* Its recipes of narrow products (training/mixed_precision.py), and whether ranks gather weights in that format. */
static const struct {
  const char *name;
  gboolean gathers;
} narrow_names[FP8_COUNT] = {
  [FP8_DELAYED] = { "bf16_with_fp8_delayed_scaling_mixed", TRUE },
  [FP8_CURRENT] = { "bf16_with_fp8_current_scaling_mixed", TRUE },
  [FP8_TENSORWISE] = { "bf16_with_fp8_current_scaling_mixed", TRUE },
  [FP8_BLOCKWISE] = { "bf16_with_fp8_subchannel_scaling_mixed", FALSE },
  [FP8_MXFP8] = { "bf16_with_mxfp8_mixed", TRUE },
  [FP8_NVFP4] = { "bf16_with_nvfp4_mixed", TRUE },
};

static const char *const sharding_names[] = {NULL, NULL, "optim_grads", "optim_grads_params"};

static void put_pipeline(Export *e, GString *text)
{
  const Plan *p = e->plan;
  const ScheduleName *schedule = export_schedule(e, schedule_names);

  g_string_append_printf(text, "model:\n  tensor_model_parallel_size: %d\n  pipeline_model_parallel_size: %d\n", p->tp,
                         p->pp);
  if (schedule->chunks)
    g_string_append_printf(text, "  virtual_pipeline_model_parallel_size: %d\n", p->vpp);
  else
    g_string_append(text, "  virtual_pipeline_model_parallel_size: null\n");
  if (schedule->chunks && p->pp > 2)
    g_string_append_printf(text, "  overlap_p2p_comm: %s\n", export_truth(p->overlap.pipeline));
  else if (p->pp > 1 && p->overlap.pipeline != schedule->chunks)
    export_note(e, "overlap: pipeline: %s: Megatron overlaps it where it interleaves",
                export_truth(p->overlap.pipeline));
  if (p->micro_group)
    g_string_append_printf(text, "  microbatch_group_size_per_vp_stage: %d\n", p->micro_group);
  if (p->split.stages) {
    g_autofree char *layout = export_layout(p, e->model->mtp);
    g_string_append_printf(text, "  pipeline_model_parallel_layout: \"%s\"\n", layout);
  }
}

static void put_experts(Export *e, GString *text)
{
  const Plan *p = e->plan;

  g_string_append_printf(text, "  expert_model_parallel_size: %d\n", p->ep);
  if (plan_experts_apart(p))
    g_string_append_printf(text, "  expert_tensor_parallel_size: %d\n  moe_token_dispatcher_type: %s\n",
                           plan_expert_tensor(p), export_dispatcher(p));
  if (p->dispatch == DISPATCH_HYBRID)
    g_string_append(text, "  moe_flex_dispatcher_backend: hybridep\n");
  if (p->overlap.experts)
    g_string_append(text, "  moe_shared_expert_overlap: true\n");
  if (p->graph)
    g_string_append_printf(text, "  cuda_graph_impl: %s\n", p->graph == GRAPH_FULL ? "local" : "transformer_engine");
  if (p->overlap.exchange)
    export_note(e, "overlap: exchange: true: set comm_overlap.overlap_moe_expert_parallel_comm beside the model");
  if (p->expert_capacity > 0)
    g_string_append_printf(text, "  moe_expert_capacity_factor: %g\n", p->expert_capacity);
  if (p->expert_drop)
    g_string_append_printf(text, "  moe_token_drop_policy: %s\n", expert_drop_names[p->expert_drop]);
  if (p->expert_padded)
    g_string_append(text, "  moe_pad_expert_input_to_capacity: true\n");
}

static void put_model(Export *e, GString *text)
{
  const Plan *p = e->plan;

  put_pipeline(e, text);
  g_string_append_printf(text, "  context_parallel_size: %d\n", p->cp);
  if (p->cp > 1)
    g_string_append_printf(text, "  cp_comm_type: %s\n", context_exchange_names[p->context]);
  put_experts(e, text);
  g_string_append_printf(text, "  sequence_parallel: %s\n", export_truth(p->sequence_parallel));
  export_recompute_yaml(e, text);
  if (p->partition_activations)
    g_string_append(text, "  distribute_saved_activations: true\n");
  g_string_append_printf(text, "  seq_length: %d\n", p->seq);
}

static void put_optimizer(const Plan *p, GString *text)
{
  static const char *const types[OPTIMIZER_COUNT] = {[OPTIMIZER_ADAM] = "adam", [OPTIMIZER_ADAMW] = "adam",
                                                     [OPTIMIZER_SGD] = "sgd"};

  g_string_append_printf(text, "optimizer:\n  use_distributed_optimizer: %s\n", export_truth(p->zero > 0));
  if (p->offload.optimizer)
    g_string_append_printf(text, "  optimizer_cpu_offload: true\n  use_precision_aware_optimizer: true\n"
                                 "  overlap_cpu_optimizer_d2h_h2d: %s\n", export_truth(p->overlap.offload));
  if (types[p->optimizer.name] && p->optimizer.name != OPTIMIZER_ADAM)
    g_string_append_printf(text, "  optimizer: %s\n", types[p->optimizer.name]);
  if (p->optimizer.name == OPTIMIZER_SGD)
    g_string_append_printf(text, "  sgd_momentum: %g\n", p->optimizer.momentum);
}

static void put_data(Export *e, GString *text)
{
  const Plan *p = e->plan;
  const Mesh mesh = mesh_of(p);
  gboolean gradients = plan_has_replicas(p) && (p->overlap.gradients || p->zero >= 2);
  gboolean parameters = gradients && (p->zero == 3 || (p->zero > 0 && p->overlap.parameters));

  g_string_append_printf(text, "ddp:\n  use_distributed_optimizer: %s\n", export_truth(p->zero > 0));
  if (plan_shards(p) < plan_replicas(p))
    g_string_append_printf(text, "  num_distributed_optimizer_instances: %d\n", plan_replicas(p) / plan_shards(p));
  g_string_append_printf(text, "  overlap_grad_reduce: %s\n  overlap_param_gather: %s\n", export_truth(gradients),
                         export_truth(parameters));
  if (p->sharding.bucket > 0)
    g_string_append_printf(text, "  bucket_size: %.0f\n", p->sharding.bucket);
  if (p->zero >= 2)
    g_string_append_printf(text, "  average_in_collective: false\n  use_megatron_fsdp: true\n"
                                 "  data_parallel_sharding_strategy: %s\n",
                           sharding_names[p->zero]);
  put_optimizer(p, text);
  if (p->zero >= 2 || mesh.inner)
    g_string_append(text, "dist:\n");
  if (mesh.inner)
    g_string_append(text, "  use_tp_pp_dp_mapping: true\n");
  if (p->zero >= 2)
    g_string_append(text, "  use_megatron_fsdp: true\ncheckpoint:\n  ckpt_format: fsdp_dtensor\n");
}

/* The rest is Megatron-LM's, as its overrides are. */
static void lose_unsaid(Export *e)
{
  const Plan *p = e->plan;
  Plan said = export_plainest(e);

  said.products = p->products;
  said.fp8_recipe = p->fp8_recipe;
  said.overlap = p->overlap;
  said.graph = p->graph;
  said.dispatch = p->dispatch;
  said.expert_capacity = p->expert_capacity;
  said.expert_drop = p->expert_drop;
  said.expert_padded = p->expert_padded;
  said.micro_group = p->micro_group;
  said.pipeline_inner = p->pipeline_inner;
  said.partition_activations = p->partition_activations;
  said.sharding.bucket = p->sharding.bucket;
  if (p->optimizer.name == OPTIMIZER_MUON)
    said.optimizer = optimizer_default();
  export_lose_unsaid(e, &said);
  export_say_overlaps(e, OVERLAP_GRADIENTS | OVERLAP_PARAMETERS | OVERLAP_PIPELINE | OVERLAP_OFFLOAD);
}

static void put_precision(Export *e, GString *text)
{
  const Plan *p = e->plan;
  Fp8Recipe recipe = plan_narrow(p) ? plan_recipe(p) : FP8_NONE;

  if (recipe && p->framework->fp8_primary != narrow_names[recipe].gathers)
    export_note(e, "framework: %s: the recipe gathers weights in %s bits", p->framework->name,
                !narrow_names[recipe].gathers ? "16" : recipe == FP8_NVFP4 ? "4" : "8");
  if (recipe && (recipe == FP8_CURRENT || recipe == FP8_TENSORWISE))
    export_note(e, "precision: fp8: the recipe keeps the first and the last block in bf16");
  if (recipe || precision_names[p->precision])
    g_string_append_printf(text, "mixed_precision: %s\n",
                           recipe ? narrow_names[recipe].name : precision_names[p->precision]);
}

static gboolean render(Export *e, GString *text, GError **error)
{
  const Plan *p = e->plan;

  (void)error;
  export_note(e, "The model itself is the recipe's; train_iters is a placeholder.");
  lose_unsaid(e);
  put_model(e, text);
  g_string_append_printf(text, "train:\n  micro_batch_size: %d\n  global_batch_size: %d\n  train_iters: %d\n",
                         p->micro_batch, p->global_batch, EXPORT_STEPS);
  put_data(e, text);
  put_precision(e, text);
  g_string_append_printf(text, "dataset:\n  seq_length: %d\n", p->seq);
  return TRUE;
}

static void launch(Export *e, const char *file, GString *line)
{
  export_torchrun(e, line);
  export_words(line, "train.py --config-file ");
  export_shell(line, file);
}

const Exporter exporter_bridge = {
  .name = "bridge",
  .target = "Megatron-Bridge of 2026-08",
  .extension = "yaml",
  .comments = TRUE,
  .framework = "megatron-core",
  .render = render,
  .launch = launch,
};
