/* Hugging Face accelerate: its launch configuration. Megatron-LM is the back
 * end where there are stages or whole weights, FSDP2 where weights are sharded. */
#include "interop/target.h"

#include "plan/mesh.h"

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

static void put_megatron(Export *e, GString *text)
{
  const Plan *p = e->plan;

  if (plan_shards(p) < plan_replicas(p))
    export_lose(e, "shard_group_size: %d: not in accelerate's Megatron-LM, left out", p->shard_group);
  if (p->offload.optimizer)
    export_lose(e, "offload optimizer: not in accelerate's Megatron-LM, left out");
  if (p->zero >= 2)
    export_lose(e, "zero_stage: %d: accelerate shards gradients without a pipeline only, written as 1", p->zero);
  export_lose_recompute(e);
  if (p->recompute == RECOMPUTE_FULL)
    export_lose(e, "recompute_granularity: full: accelerate's Megatron-LM has selective only, written as selective");
  if (p->cp > 1)
    export_lose(e, "context_parallel_size: %d: not in accelerate's Megatron-LM, left out", p->cp);
  put_machines(e, "MEGATRON_LM", text);
  g_string_append_printf(text, "megatron_lm_config:\n  megatron_lm_tp_degree: %d\n  megatron_lm_pp_degree: %d\n", p->tp,
                         p->pp);
  g_string_append_printf(text, "  megatron_lm_num_micro_batches: %d\n  megatron_lm_sequence_parallelism: %s\n",
                         plan_micro_batches(p), export_truth(p->sequence_parallel));
  g_string_append_printf(text, "  megatron_lm_recompute_activations: %s\n  megatron_lm_use_distributed_optimizer: %s\n",
                         export_truth(p->recompute != RECOMPUTE_NONE), export_truth(p->zero > 0));
  if (p->ep > 1)
    g_string_append_printf(text, "  megatron_lm_expert_model_parallel_size: %d\n", p->ep);
  export_lose_experts(e);
  g_string_append(text, "  megatron_lm_gradient_clipping: 1.0\n");
}

static void put_fsdp(Export *e, GString *text)
{
  const Plan *p = e->plan;
  int copies = export_copies(e);

  export_lose_recompute(e);
  if (p->recompute == RECOMPUTE_SELECTIVE)
    export_lose(e, "recompute_granularity: selective: FSDP recomputes whole layers, written as none");
  if (p->sequence_parallel)
    export_lose(e, "sequence_parallel: true: accelerate leaves it to the model's own plan, left out");
  if (p->ep > 1)
    export_lose(e, "expert_model_parallel_size: %d: not in accelerate's FSDP, left out", p->ep);
  export_lose_experts(e);
  put_machines(e, "FSDP", text);
  g_string_append_printf(text, "fsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: %s\n",
                         export_truth(p->zero == 3 && !p->sharding.keeps_gathered));
  g_string_append(text, "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n");
  g_string_append_printf(text, "  fsdp_activation_checkpointing: %s\n", export_truth(p->recompute == RECOMPUTE_FULL));
  g_string_append_printf(text, "  fsdp_offload_params: %s\n", export_truth(export_offloads_fsdp(e)));
  g_string_append(text, "  fsdp_state_dict_type: SHARDED_STATE_DICT\n"
                        "parallelism_config:\n");
  g_string_append_printf(text, "  parallelism_config_dp_replicate_size: %d\n  parallelism_config_dp_shard_size: %d\n"
                               "  parallelism_config_tp_size: %d\n  parallelism_config_cp_size: %d\n",
                         copies, p->dp / copies, p->tp, p->cp);
  if (p->cp > 1)
    g_string_append(text, "  parallelism_config_cp_comm_strategy: allgather\n");
}

static gboolean render(Export *e, GString *text, GError **error)
{
  const Plan *p = e->plan;

  (void)error;
  export_lose_choices(e, 1u << CHOICE_RESHARD | 1u << CHOICE_OFFLOAD_OPTIMIZER | 1u << CHOICE_OFFLOAD_PARAMETERS);
  export_lose_others(e);
  export_lose_formats(e, 0);
  if (mesh_is_inner(p))
    export_lose(e, "use_tp_pp_dp_mapping: true: not in accelerate, left out");
  if (p->split_rank)
    export_lose(e, "pipeline_model_parallel_split_rank: %d: not in accelerate, left out", p->split_rank);
  if (p->cp > 1 && p->context != CONTEXT_GATHER)
    export_lose(e, "cp_comm_type: %s: not in accelerate, written as all_gather", context_exchange_names[p->context]);
  if (p->optimizer.name != OPTIMIZER_ADAM)
    export_note(e, "The script has the optimizer too: %s.", optimizer_names[p->optimizer.name]);
  export_note(e, "The script has the model, the data and the size of a micro-batch: %d x %d tokens, %d a step.", p->micro_batch,
              p->seq, plan_micro_batches(p));
  export_schedule(e, schedule_names);
  export_lose_split(e);
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
