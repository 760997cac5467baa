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
  g_string_append_printf(text, "mixed_precision: \"%s\"\n", precision_names[e->plan->precision]);
  g_string_append_printf(text, "num_machines: %d\nnum_processes: %d\nmachine_rank: 0\n", e->nodes, e->plan->gpus);
  g_string_append(text, "rdzv_backend: static\nsame_network: true\nmain_training_function: main\n");
}

/* What the back end of Megatron-LM is told. */
static Plan said_to_megatron(const Export *e)
{
  Plan said = export_plainest(e);

  said.shard_group = said.etp = 0;
  said.offload = (Offload) { 0 };
  said.zero = MIN(said.zero, 1);
  said.scope = (RecomputeScope) { 0 };
  said.split.stages = 0;
  said.dp *= said.cp;
  said.cp = 1;
  if (said.recompute == RECOMPUTE_FULL)
    said.recompute = RECOMPUTE_SELECTIVE;
  return said;
}

static void put_megatron(Export *e, GString *text)
{
  const Plan *p = e->plan;
  const Plan said = said_to_megatron(e);

  export_schedule(e, schedule_names);
  export_lose_unsaid(e, &said);
  put_machines(e, "MEGATRON_LM", text);
  g_string_append_printf(text, "megatron_lm_config:\n  megatron_lm_tp_degree: %d\n  megatron_lm_pp_degree: %d\n", p->tp,
                         p->pp);
  g_string_append_printf(text, "  megatron_lm_num_micro_batches: %d\n  megatron_lm_sequence_parallelism: %s\n",
                         plan_micro_batches(p), export_truth(p->sequence_parallel));
  g_string_append_printf(text, "  megatron_lm_recompute_activations: %s\n  megatron_lm_use_distributed_optimizer: %s\n",
                         export_truth(p->recompute != RECOMPUTE_NONE), export_truth(p->zero > 0));
  if (p->ep > 1)
    g_string_append_printf(text, "  megatron_lm_expert_model_parallel_size: %d\n", p->ep);
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
  const Plan *p = e->plan;

  (void)error;
  note_optimizer(e);
  export_note(e, "The script has the model, the data, seq_length %d and micro_batch_size %d, of which a step has %d.",
              p->seq, p->micro_batch, plan_micro_batches(p));
  if (p->pp == 1 && p->zero >= 2)
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
  .target = "accelerate of 2026-08",
  .extension = "yaml",
  .comments = TRUE,
  .render = render,
  .launch = launch,
};
