/* Hugging Face accelerate: its launch configuration. Megatron-LM is the back
 * end where there are stages or whole weights, FSDP2 where weights are sharded. */
#include "export/target.h"

static const ScheduleName schedule_names[] = {{"1f1b", "1f1b", FALSE}, {0}};

static const char *const precision_names[DTYPE_COUNT] = {
  [DTYPE_FP32] = "no", [DTYPE_FP16] = "fp16", [DTYPE_BF16] = "bf16",
};

static void put_machines(const Export *e, const char *type, GString *text)
{
  g_string_append_printf(text, "compute_environment: LOCAL_MACHINE\ndistributed_type: %s\n", type);
  g_string_append_printf(text, "mixed_precision: \"%s\"\n", precision_names[e->layout.passes.formats.precision]);
  g_string_append_printf(text, "num_machines: %d\nnum_processes: %d\nmachine_rank: 0\n", e->nodes,
                         e->layout.mesh.ranks);
  g_string_append(text, "rdzv_backend: static\nsame_network: true\nmain_training_function: main\n");
}

/* Whether all stages but the last are equal, which is all that decoder_last_pipeline_num_layers says. */
static gboolean last_apart(const LayerSplit *split)
{
  for (int i = 1; i < split->stages - 1; i++)
    if (split->layers[i] != split->layers[0])
      return FALSE;
  return TRUE;
}

/* All but what the back end of Megatron-LM is told. */
static void lose_untold_to_megatron(Export *e)
{
  const StateLayout *s = &e->layout.states[0];
  const RecomputeLayout *r = &e->layout.passes.recompute;
  const char *counts = r->scope.stages.stages ? "" : NULL, *precision = formats_narrow(&s->formats) ? "bf16" : NULL;
  const ToldKey told[] = {
    { "zero_stage", s->zero > 1 ? "1" : NULL }, { "shard_group_size", "" },
    { "offload", s->offload.optimizer ? "optimizer" : "none" },
    { "overlap: offload", s->offload.optimizer ? NULL : "" },
    { "recompute_granularity", r->granularity == RECOMPUTE_SELECTIVE ? recompute_names[RECOMPUTE_NONE] : NULL },
    { "recompute_method", counts }, { "recompute_num_layers", counts }, { "recompute_modules", "" },
    { "layer_split", last_apart(&e->layout.pipeline.cut.split) ? NULL : "" }, { "precision", precision },
    { "moe_token_dispatcher_type", expert_dispatch_names[DISPATCH_GATHER] }, /* Megatron Core's own choice */
    TOLD_ALWAYS,
  };

  export_lose_untold(e, told);
}

/* accelerate turns full recomputation on where nothing is said, and knows no word for none: that of no layers is it. */
static void put_recompute(const RecomputeLayout *r, GString *text)
{
  gboolean full = r->granularity == RECOMPUTE_FULL, counts = full && !r->scope.stages.stages;

  g_string_append_printf(text, "  megatron_lm_recompute_granularity: full\n  megatron_lm_recompute_method: %s\n"
                               "  megatron_lm_recompute_num_layers: %d\n",
                         recompute_method_names[counts ? r->scope.method : full ? RECOMPUTE_UNIFORM : RECOMPUTE_BLOCK],
                         counts ? MAX(1, r->scope.layers) : full);
}

/* Keys whose absence means something else than Megatron-LM's default are always written. */
static void put_model(const Model *m, GString *text)
{
  const char *dropout = m->dropout ? "0.1" : "0.0";

  g_string_append_printf(text, "  megatron_lm_attention_dropout: %s\n  megatron_lm_hidden_dropout: %s\n", dropout,
                         dropout);
  g_string_append_printf(text, "  megatron_lm_use_rotary_position_embeddings: %s\n",
                         export_truth(m->positions == POSITIONS_ROPE));
}

static void put_states(const StateLayout *s, GString *text)
{
  g_string_append_printf(text, "  megatron_lm_use_distributed_optimizer: %s\n",
                         export_truth(megatron_divides_states(s))); /* the script names the optimizer */
  if (s->offload.optimizer)
    g_string_append_printf(text, "  megatron_lm_optimizer_cpu_offload: true\n"
                                 "  megatron_lm_use_precision_aware_optimizer: true\n"
                                 "  megatron_lm_overlap_cpu_optimizer_d2h_h2d: %s\n",
                           export_truth(s->stores_gradients));
}

static void note_megatron(Export *e)
{
  const StateLayout *s = &e->layout.states[0];

  if (e->layout.has_replicas && (s->overlap_gradients || s->gathers_ahead))
    export_note(e, "overlap: gradients, parameters: no keys of accelerate: Megatron-LM overlaps them when the script's "
                   "command line has --overlap-grad-reduce --overlap-param-gather.");
  if (e->layout.passes.recompute.granularity == RECOMPUTE_NONE)
    export_note(e, "recompute_granularity: none is said as full recomputation of no layers: accelerate takes full "
                   "where the key is absent.");
}

static void put_megatron(Export *e, GString *text)
{
  const PassLayout *p = &e->layout.passes;
  const PipelineLayout *pipeline = &e->layout.pipeline;
  const LayerSplit *split = &pipeline->cut.split;

  export_schedule(e, schedule_names);
  lose_untold_to_megatron(e);
  note_megatron(e);
  put_machines(e, "MEGATRON_LM", text);
  g_string_append_printf(text, "megatron_lm_config:\n  megatron_lm_tp_degree: %d\n  megatron_lm_pp_degree: %d\n", p->tp,
                         pipeline->shape.ranks);
  g_string_append_printf(text, "  megatron_lm_context_parallel_size: 1\n  megatron_lm_num_micro_batches: %d\n",
                         pipeline->shape.micro);
  if (split->stages && last_apart(split))
    g_string_append_printf(text, "  megatron_lm_decoder_last_pipeline_num_layers: %d\n",
                           split->layers[split->stages - 1]);
  g_string_append_printf(text, "  megatron_lm_sequence_parallelism: %s\n", export_truth(p->sequence_parallel));
  put_recompute(&p->recompute, text);
  put_states(&e->layout.states[0], text);
  g_string_append_printf(text, "  megatron_lm_expert_model_parallel_size: %d\n"
                               "  megatron_lm_expert_tensor_parallel_size: %d\n", p->ep, p->etp);
  put_model(e->model, text);
  g_string_append(text, "  megatron_lm_gradient_clipping: 1.0\n");
}

/* FSDP2's policy moves states and weights to the host together. */
static gboolean offloads_both(const StateLayout *s)
{
  return s->offload.optimizer == STORE_CPU && s->offload.parameters == STORE_CPU;
}

/* All but what that of FSDP2 is told. */
static void lose_untold_to_fsdp(Export *e)
{
  const StateLayout *s = &e->layout.states[0];
  gboolean both = offloads_both(s), selective = e->layout.passes.recompute.granularity == RECOMPUTE_SELECTIVE;
  const ToldKey told[] = {
    { both ? "offload: optimizer" : "offload", both ? NULL : "none" }, { "offload: parameters" },
    { "overlap: offload", both ? export_truth(s->framework->overlap_offload) : "" },
    { "zero_optimization: reshard_after_forward" }, { "recompute_method", "" }, { "recompute_num_layers", "" },
    { "recompute_modules", "" }, { "recompute_granularity", selective ? recompute_names[RECOMPUTE_NONE] : NULL },
    { "sequence_parallel", "false" }, { "expert_model_parallel_size", "1" }, { "expert_tensor_parallel_size", "" },
    { "cp_comm_type", context_exchange_names[CONTEXT_GATHER] },
    { "precision", formats_narrow(&s->formats) ? "bf16" : NULL }, TOLD_ALWAYS,
  };

  export_lose_untold(e, told);
}

static void put_fsdp(Export *e, GString *text)
{
  const PassLayout *p = &e->layout.passes;
  const StateLayout *s = &e->layout.states[0];
  int copies = export_copies(e);

  lose_untold_to_fsdp(e);
  put_machines(e, "FSDP", text);
  g_string_append_printf(text, "fsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: %s\n",
                         export_truth(!s->sharding.keeps_gathered));
  g_string_append(text, "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n");
  g_string_append_printf(text, "  fsdp_activation_checkpointing: %s\n",
                         export_truth(p->recompute.granularity == RECOMPUTE_FULL));
  g_string_append_printf(text, "  fsdp_offload_params: %s\n", export_truth(offloads_both(s)));
  g_string_append(text, "  fsdp_state_dict_type: SHARDED_STATE_DICT\n"
                        "parallelism_config:\n");
  g_string_append_printf(text, "  parallelism_config_dp_replicate_size: %d\n  parallelism_config_dp_shard_size: %d\n"
                               "  parallelism_config_tp_size: %d\n  parallelism_config_cp_size: %d\n",
                         copies, e->layout.mesh.dense[AXIS_DATA].size / copies, p->tp, p->cp);
  if (p->cp > 1)
    g_string_append(text, "  parallelism_config_cp_comm_strategy: allgather\n");
}

/* The optimizer's keys, as the script must have them. */
static void note_optimizer(Export *e)
{
  const Optimizer *o = &e->layout.states[0].optimizer;

  if (o->name == OPTIMIZER_ADAM)
    return;
  export_note(e, "The script has the optimizer too: %s (sgd_momentum %g, optimizer_block_size %d, "
                 "muon_num_ns_steps %d, muon_tp_mode %s, where it has them).",
              optimizer_names[o->name], o->momentum, o->block, o->newton_steps, muon_mode_names[o->muon_mode]);
}

/* accelerate takes context-parallel ranks for copies of the model when it counts micro-batches, so that their
 * iterator ends too early (Accelerator._prepare_megatron_lm): sequences stay whole. */
static void take_whole_sequences(Export *e)
{
  export_take_less(e, plan_without(e->plan, WITHOUT_CONTEXT),
                   "its loader hands out micro-batches as if these were copies");
}

static gboolean render(Export *e, GString *text, GError **error)
{
  gboolean sharded = e->layout.pipeline.shape.ranks == 1 && e->layout.states[0].zero >= 2;
  const PassLayout *p = &e->layout.passes;

  (void)error;
  if (!sharded)
    take_whole_sequences(e);
  else if (e->layout.states[0].zero == 2)
    export_take_less(e, plan_without(e->plan, WITHOUT_WHOLE_WEIGHTS), "FSDP2 divides weights too");
  note_optimizer(e);
  export_note(e, "The script has the model, the data, seq_length %d and micro_batch_size %d, of which a step has %d.",
              p->seq, p->micro_batch, e->layout.pipeline.shape.micro);
  if (sharded)
    put_fsdp(e, text);
  else
    put_megatron(e, text);
  return TRUE;
}

static void launch(Export *e, const char *file, GString *line)
{
  export_words(line, "accelerate launch --config_file ");
  export_shell(line, file);
  if (e->nodes > 1)
    export_words(line, "--machine_rank \"$NODE_RANK\" --main_process_ip \"$MASTER_ADDR\" --main_process_port 29500");
  export_words(line, "train.py");
}

const Exporter exporter_accelerate = {
  .name = "accelerate",
  .target = "accelerate 1.15",
  .extension = "yaml",
  .comments = TRUE,
  .render = render,
  .launch = launch,
};
