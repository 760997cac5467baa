#include "import/megatron_flags.h"

#include <fnmatch.h>
#include <string.h>

typedef struct {
  FlagKind kind;
  const char *about;
  const char *patterns[80]; /* of fnmatch, the first that fits counts; behind "!" what the group has not */
} Group;

static const Group groups[] = {
  { FLAG_IGNORED, "data and tokenizer",
    { "!disable_mamba_mem_eff_path", "!nccl_*", "data_*", "*_data_path*", "train_weighted_split*", "valid_weighted_split*",
      "*_num_workers", "num_workers",
      "split", "mock_data", "vocab_file", "merge_file", "tokenizer_*", "tiktoken_*", "no_mmap_bin_files",
      "dataloader_*", "num_dataset_builder_threads", "reset_position_ids", "reset_attention_mask", "eod_mask_loss",
      "mask_prob", "short_seq_prob", "no_create_attention_mask_in_dataloader", "create_attention_mask_in_dataloader",
      "*_path", "reweight_loss_based_on_position_frequency", "noise_density", "mean_noise_span_length", "loss_on_*",
      "trust_remote_code", "legacy_tokenizer", "per_split_data_args_path", "sft", "sample_rate", "fim_*",
      "null_tokenizer_*", "sft_tokenizer_*", "chat_template", "*pad_vocab_size", NULL } },
  { FLAG_IGNORED, "steps, learning rate and other constants",
    { "lr", "lr_*", "min_lr", "decoupled_*", "train_iters", "train_samples", "train_tokens", "weight_decay*",
      "start_weight_decay", "end_weight_decay", "clip_grad", "adam_*", "override_opt*", "use_checkpoint_opt*",
      "init_method_*", "seed", "loss_scale*", "initial_loss_scale", "min_loss_scale", "hysteresis",
      "rampup_batch_size", "step_batch_size_schedule", "*_loss_coeff", "moe_router_load_balancing_type", "exit_*",
      "!muon_no_split_qkv", "!muon_use_syrk", "!muon_fp32_*", "muon_*", "moe_router_bias_update_rate", "skip_train",
      "no_weight_decay*", "apply_wd*",
      "moe_router_pre_softmax", "moe_router_topk_scaling_factor",
      "mtp_loss_scaling_factor", "moe_router_force_load_balancing", "norm_target_loss", "finetune",
      "moe_token_dropping", "moe_min_capacity", "calculate_per_token_loss", "train_sync_interval", "mscale*",
      "rotary_scaling_factor", "use_rope_scaling", "rope_scaling_factor", "no_rope_freq",
      "yarn_*", "no_yarn_*", "rotary_interleaved", "rotary_seq_len_*", "use_mup", "mup_*", "lion_*", "qk_clip*",
      "moe_input_jitter_eps", "embedding_init_method_std", NULL } },
  { FLAG_IGNORED, "checkpoints, evaluation and logs",
    { "save", "save_*", "load", "load_*", "no_load_*", "no_save_*", "ckpt_*", "use_dist_ckpt", "dist_ckpt_*",
      "eval_*", "no_eval*", "log_*", "tensorboard_*", "wandb_*", "timing_log_*", "logging_level", "profile*",
      "use_pytorch_profiler", "one_logger*", "no_one_logger", "enable_one_logger", "kill_switch_path",
      "codecarbon_dir", "moe_per_layer_logging", "log", "async_save", "auto_detect_ckpt_format",
      "use_checkpoint_args", "no_ckpt_*", "pretrained_checkpoint", "moe_eval_capacity_factor", "auto_detect*",
      "record_memory_history", "memory_snapshot_path", "result_rejected_tracker_filename", "create_moe_param_group",
      "abort_on_unmet_fused_kernel_constraints", "dist_ckpt*", "universal_checkpoint",
      "use_persistent_ckpt_worker", "async_strategy", "async_ckpt_*", "verify_integrity", "non_persistent_*",
      "persistent_save_interval", NULL } },
  { FLAG_IGNORED, "faults, checks and what watches them",
    { "rerun_mode", "error_injection_*", "straggler_*", "disable_straggler_*", "check_weight_hash_*", "fault_injector_*",
      "inprocess_*", "*flight_recorder_*", "otel_*", "nvtx_ranges", "record_shapes", "pytorch_profiler_*", "test_mode",
      "full_validation", "multiple_validation_sets", "no_record_throughput", "*use_tokenizer_model_from_checkpoint_args",
      "moe_routing_trace_*", NULL } },
  { FLAG_IGNORED, "how processes start and meet",
    { "distributed_backend", "distributed_timeout_*", "local_rank", "use_cpu_initialization",
      "init_model_with_meta_device", "lazy_mpu_init", "no_check_for_nan*", "check_for_*", "enable_experimental",
      "export_force_local_attention", "high_priority_stream_groups", "nccl_*", "enable_gloo_process_groups",
      "disable_gloo_process_groups", "enable_ft_*", "rank", "te_rng_tracker", "app_tag_*", "adlr_autoresume*",
      "no_bias_gelu_fusion_warn", "sync_tp_duplicated_parameters", "DDP_impl", "use_cpu*", "export*", "inference_*",
      "no_async*", NULL } },
  { FLAG_BEYOND, "kernels and fusions other than the software's usual ones",
    { "no_masked_softmax_fusion", "no_bias_gelu_fusion", "no_bias_swiglu_fusion", "no_bias_dropout_fusion",
      "no_rope_fusion", "cross_entropy_loss_fusion", "cross_entropy_fusion_impl", "no_gradient_accumulation_fusion",
      "no_persist_layer_norm", "attention_softmax_in_fp32", "apply_query_key_layer_scaling", "apply_layernorm_1p",
      "moe_grouped_gemm", "moe_permute_fusion", "moe_router_fusion", "moe_router_dtype",
      "moe_use_legacy_grouped_gemm", "use_fused_*", "fp16_lm_cross_entropy", "fp32_residual_connection", "fused_*",
      "disable_bf16_reduced*", "apply_residual_connection_post_layernorm", "moe_router_padding_for_*",
      "moe_apply_probs_on_input", "mla_down_proj_fusion", "fp8_amax_*", "fp8_interval", "fp8_margin", "no_fp8_wgrad",
      "rope_type",
      "accumulate_allreduce_grads_in_fp32", "make_vocab_size_divisible_by", "glu_linear_offset",
      "activation_func_clamp_value", "enable_gpt_oss", "openai_gelu", "onnx_safe",
      "use_mcore_models", "use_legacy_models", "transformer_impl", "batch_p2p*",
      "deterministic_mode", "moe_use_grouped_tensor", "moe_single_grouped_*", "moe_permute_fusion_into_*",
      "*_glu_interleave_size", "use_te_activation_func", "disable_fp8_wgrad", "disable_jit_fuser", "batch_invariant_*",
      NULL } },
  { FLAG_BEYOND, "formats and kernels of single parts",
    { "moe_dispatch_fwd_dtype", "moe_combine_bwd_dtype", "disable_mamba_mem_eff_path", "mamba_training_*", "muon_*",
      "use_grouped_gemm_for_*", "flash_attention_version", "dsa_kernel_backend", "*_quantizer_factory", "fp8_output_proj",
      "te_precision_config_file", "mtp_use_repeated_layer", "mtp_detach_heads", NULL } },
  { FLAG_BEYOND, "parameters of routers, too few to count",
    { "moe_shared_expert_gate", "moe_router_score_function", "moe_router_enable_expert_bias", NULL } },
  { FLAG_BEYOND, "communication and memory beside the plan's keys",
    { "manual_gc*", "empty_unused_memory_level", "use_nccl_ub", "fsdp_double_buffer", "fsdp_manual_registration",
      "no_align_param_gather", "align_param_gather", "overlap_param_gather_with_optimizer_step",
      "ddp_average_in_collective", "ddp_num_buckets", "ddp_pad_buckets*", "no_async_tensor_model_parallel_allreduce",
      "tp_comm_*", "use_ring_exchange_p2p", "no_scatter_gather_tensors_in_pipeline", "moe_extended_tp", "use_sharp",
      "sharp_*", "keep_fp8_transpose_cache", "suggested_communication_unit_size",
      "fine_grained_activation_offloading", "offload_modules", "cpu_offloading*",
      "no_contiguous_buffers_in_local_ddp", "use_contiguous_buffers_in_local_ddp", "optimizer_offload_fraction",
      "use_torch_optimizer_for_cpu_offload", "no_pin_cpu*", "cuda_graph_*", "moe_deepep_num_sms", "remote_device", "use_pin_memory",
      "partition_activations", "contigious_checkpointing", "checkpoint_in_cpu", "synchronize_each_layer",
      "profile_backward", "zero_*", "create_all_gather_group", "megatron_fsdp*",
      "moe_flex_dispatcher_num_sms", "moe_hybridep_*", "moe_ncclep_*", "overlap_p2p_communication_warmup_flush",
      "defer_embedding_wgrad_compute", "wgrad_deferral_limit", "ddp_reduce_scatter_with_*", "high_priority_a2a_*",
      "ep_overlap_*", "fine_grained_offloading_*", "delay_offload_*", "delta_offload_*", "activation_offload_fraction",
      "min_offloaded_*", "moe_paged_stash_*", "torch_fsdp2_*", "overlap_dispatch_*", "fsdp_db_*", "gtp_*",
      "*_num_weight_shards", "moe_layer_recompute", NULL } },
};

static gboolean in_group(const Group *g, const char *name)
{
  for (int i = 0; g->patterns[i]; i++) {
    gboolean not = g->patterns[i][0] == '!';
    if (fnmatch(g->patterns[i] + not, name, 0) == 0)
      return !not;
  }
  return FALSE;
}

static FlagKind kind_of(const char *name, const char **about)
{
  for (gsize i = 0; i < G_N_ELEMENTS(groups); i++)
    if (in_group(&groups[i], name)) {
      *about = groups[i].about;
      return groups[i].kind;
    }
  return FLAG_UNKNOWN;
}

static char *spelled(const Argument *a)
{
  char *flag = g_strdup_printf("--%s", a->name);
  return g_strdelimit(flag, "_", '-');
}

void megatron_flag_groups(const GPtrArray *arguments, FlagKind kind, GPtrArray *out)
{
  for (gsize g = 0; g < G_N_ELEMENTS(groups) + (kind == FLAG_UNKNOWN); g++) {
    g_autoptr(GString) line = g_string_new(NULL);
    g_autoptr(GHashTable) said = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (guint i = 0; i < arguments->len; i++) {
      const char *about = NULL;
      const Argument *a = arguments->pdata[i];
      const char *wanted = g < G_N_ELEMENTS(groups) ? groups[g].about : NULL;
      if (a->read || kind_of(a->name, &about) != kind || g_strcmp0(about, wanted) != 0)
        continue;
      char *flag = spelled(a);
      if (g_hash_table_add(said, flag))
        g_string_append_printf(line, "%s%s", line->len ? ", " : "", flag);
    }
    if (line->len > 0)
      g_ptr_array_add(out, g_strdup_printf("%s%s%s", g < G_N_ELEMENTS(groups) ? groups[g].about : "",
                                           g < G_N_ELEMENTS(groups) ? ": " : "", line->str));
  }
}
