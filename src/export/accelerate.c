/* Hugging Face accelerate: its launch configuration. Megatron-LM is the back
 * end where there are stages or whole weights, FSDP2 where weights are sharded. */
#include "export/nearest.h"

static const ScheduleName schedule_names[] = {{"1f1b", "1f1b", FALSE}, {0}};

static const char *const precision_names[DTYPE_COUNT] = {
  [DTYPE_FP32] = "no", [DTYPE_FP16] = "fp16", [DTYPE_BF16] = "bf16",
};

static void put_machines(const Export *e, const char *type, GString *text)
{
  g_string_append_printf(text, "compute_environment: LOCAL_MACHINE\ndistributed_type: %s\n", type);
  g_string_append_printf(text, "mixed_precision: \"%s\"\n", precision_names[e->plan->precision]);
  g_string_append_printf(text, "num_machines: %d\nnum_processes: %d\nmachine_rank: 0\n", e->nodes, e->plan->gpus);
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

/* What the back end of Megatron-LM is told. */
static Plan said_to_megatron(const Export *e)
{
  Plan said = export_plainest(e);

  said.shard_group = 0;
  said.offload = (Offload) { .optimizer = said.offload.optimizer ? STORE_CPU : STORE_DEVICE };
  said.overlap.offload = e->plan->overlap.offload;
  said.zero = MIN(said.zero, 1);
  if (said.recompute == RECOMPUTE_SELECTIVE)
    said.recompute = RECOMPUTE_NONE;
  said.scope = said.recompute && !said.scope.stages.stages ? said.scope : (RecomputeScope) { 0 };
  if (!last_apart(&said.split))
    said.split.stages = 0;
  if (plan_experts_apart(&said))
    said.dispatch = DISPATCH_GATHER; /* Megatron Core's own choice */
  return said;
}

/* accelerate takes context-parallel ranks for copies of the model when it counts micro-batches, so that their
 * iterator ends too early (Accelerator._prepare_megatron_lm): sequences stay whole. */
static Plan whole_sequences(Export *e)
{
  Plan whole = *e->plan;

  whole.dp *= whole.cp;
  whole.cp = 1;
  if (whole.global_batch % (whole.dp * whole.micro_batch) != 0)
    whole.global_batch = whole.dp * whole.micro_batch * MAX(1, plan_micro_batches(&whole));
  nearest_lose(e, e->plan, &whole, "its loader hands out micro-batches as if these were copies");
  return whole;
}

/* accelerate turns full recomputation on where nothing is said, and knows no word for none: that of no layers is it. */
static void put_recompute(const Plan *p, GString *text)
{
  gboolean full = p->recompute == RECOMPUTE_FULL;

  g_string_append_printf(text, "  megatron_lm_recompute_granularity: full\n  megatron_lm_recompute_method: %s\n"
                               "  megatron_lm_recompute_num_layers: %d\n",
                         recompute_method_names[full ? p->scope.method : RECOMPUTE_BLOCK],
                         full ? MAX(1, p->scope.layers) : 0);
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

static void put_states(const Plan *p, GString *text)
{
  gboolean offloads = p->offload.optimizer != STORE_DEVICE;

  g_string_append_printf(text, "  megatron_lm_use_distributed_optimizer: %s\n", export_truth(p->zero > 0));
  if (offloads)
    g_string_append_printf(text, "  megatron_lm_optimizer_cpu_offload: true\n"
                                 "  megatron_lm_use_precision_aware_optimizer: true\n"
                                 "  megatron_lm_overlap_cpu_optimizer_d2h_h2d: %s\n",
                           export_truth(p->overlap.offload));
}

static void note_megatron(Export *e)
{
  const Plan *p = e->plan;

  if (plan_has_replicas(p) && (p->overlap.gradients || (p->zero > 0 && p->overlap.parameters)))
    export_note(e, "overlap: gradients, parameters: no keys of accelerate: Megatron-LM overlaps them when the script's "
                   "command line has --overlap-grad-reduce --overlap-param-gather.");
  if (p->recompute == RECOMPUTE_NONE)
    export_note(e, "recompute_granularity: none is said as full recomputation of no layers: accelerate takes full "
                   "where the key is absent.");
}

static void put_megatron(Export *e, GString *text)
{
  const Plan said = said_to_megatron(e), *p = e->plan;

  export_schedule(e, schedule_names);
  export_lose_unsaid(e, &said);
  note_megatron(e);
  put_machines(e, "MEGATRON_LM", text);
  g_string_append_printf(text, "megatron_lm_config:\n  megatron_lm_tp_degree: %d\n  megatron_lm_pp_degree: %d\n", p->tp,
                         p->pp);
  g_string_append_printf(text, "  megatron_lm_context_parallel_size: 1\n  megatron_lm_num_micro_batches: %d\n",
                         plan_micro_batches(p));
  if (said.split.stages)
    g_string_append_printf(text, "  megatron_lm_decoder_last_pipeline_num_layers: %d\n",
                           said.split.layers[said.split.stages - 1]);
  g_string_append_printf(text, "  megatron_lm_sequence_parallelism: %s\n", export_truth(p->sequence_parallel));
  put_recompute(&said, text);
  put_states(&said, text);
  g_string_append_printf(text, "  megatron_lm_expert_model_parallel_size: %d\n"
                               "  megatron_lm_expert_tensor_parallel_size: %d\n", p->ep, plan_expert_tensor(p));
  put_model(e->model, text);
  g_string_append(text, "  megatron_lm_gradient_clipping: 1.0\n");
}

/* What that of FSDP2 is told. */
static Plan said_to_fsdp(const Export *e)
{
  Plan said = export_plainest(e);
  gboolean offloads = said.offload.optimizer == STORE_CPU && said.offload.parameters == STORE_CPU;

  said.sharding.keeps_gathered = e->plan->sharding.keeps_gathered;
  said.offload = (Offload) { .optimizer = offloads ? STORE_CPU : STORE_DEVICE,
                             .parameters = offloads ? STORE_CPU : STORE_DEVICE };
  said.scope = (RecomputeScope) { 0 };
  if (said.recompute == RECOMPUTE_SELECTIVE)
    said.recompute = RECOMPUTE_NONE;
  said.sequence_parallel = FALSE;
  said.ep = 1;
  said.etp = 0;
  if (said.cp > 1)
    said.context = CONTEXT_GATHER;
  return said;
}

static void put_fsdp(Export *e, GString *text)
{
  const Plan *p = e->plan;
  const Plan said = said_to_fsdp(e);
  int copies = export_copies(e);

  export_lose_unsaid(e, &said);
  put_machines(e, "FSDP", text);
  g_string_append_printf(text, "fsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: %s\n",
                         export_truth(p->zero == 3 && !p->sharding.keeps_gathered));
  g_string_append(text, "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n");
  g_string_append_printf(text, "  fsdp_activation_checkpointing: %s\n", export_truth(p->recompute == RECOMPUTE_FULL));
  g_string_append_printf(text, "  fsdp_offload_params: %s\n", export_truth(said.offload.optimizer != STORE_DEVICE));
  g_string_append(text, "  fsdp_state_dict_type: SHARDED_STATE_DICT\n"
                        "parallelism_config:\n");
  g_string_append_printf(text, "  parallelism_config_dp_replicate_size: %d\n  parallelism_config_dp_shard_size: %d\n"
                               "  parallelism_config_tp_size: %d\n  parallelism_config_cp_size: %d\n",
                         copies, p->dp / copies, p->tp, p->cp);
  if (p->cp > 1)
    g_string_append(text, "  parallelism_config_cp_comm_strategy: allgather\n");
}

/* The optimizer's keys, as the script must have them. */
static void note_optimizer(Export *e)
{
  const Optimizer *o = &e->plan->optimizer;

  if (o->name == OPTIMIZER_ADAM)
    return;
  export_note(e, "The script has the optimizer too: %s (sgd_momentum %g, optimizer_block_size %d, "
                 "muon_num_ns_steps %d, muon_tp_mode %s, where it has them).",
              optimizer_names[o->name], o->momentum, o->block, o->newton_steps, muon_mode_names[o->muon_mode]);
}

static gboolean render(Export *e, GString *text, GError **error)
{
  gboolean sharded = e->plan->pp == 1 && e->plan->zero >= 2;
  const Plan whole = sharded ? *e->plan : whole_sequences(e), *p = &whole;

  (void)error;
  e->plan = p;
  note_optimizer(e);
  export_note(e, "The script has the model, the data, seq_length %d and micro_batch_size %d, of which a step has %d.",
              p->seq, p->micro_batch, plan_micro_batches(p));
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
