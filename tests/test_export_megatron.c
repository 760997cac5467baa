#include "test_export.h"

#include "fixture.h"

/* ---- Megatron-LM ---- */

START_TEST(megatron_loses_nothing_of_its_own)
{
  Case c = gpt3();
  test_text(lost(&c, "megatron"), "");
  c.plan.vpp = 1;
  c.plan.schedule = schedule_find("1f1b");
  test_text(lost(&c, "megatron"), "");
  has(&c, "megatron", "# - overlap: pipeline: true: ");
  has_not(&c, "megatron", "virtual");
  case_clear(&c);
}
END_TEST

START_TEST(megatron_schedules)
{
  Case c = gpt3();
  c.plan.vpp = 1;
  c.plan.schedule = schedule_find("gpipe");
  test_text(lost(&c, "megatron"), "pipeline_schedule: gpipe: not in Megatron-LM core 0.20, written as 1f1b\n");
  c.plan.vpp = 2;
  c.plan.schedule = schedule_find("interleaved");
  c.plan.overlap.pipeline = FALSE;
  has(&c, "megatron", "--num-layers-per-virtual-pipeline-stage 6 --no-overlap-p2p-communication\n");
  c.plan.pp = 2;
  c.plan.dp = 64;
  has(&c, "megatron", "--num-layers-per-virtual-pipeline-stage 24\n");
  has(&c, "megatron", "# - overlap: pipeline: false: ");
  case_clear(&c);
}
END_TEST

START_TEST(megatron_splits)
{
  Case c = gpt3();
  c.plan.split = (LayerSplit) { 16, { 5, 6, 6, 6, 6, 6, 6, 7, 7, 6, 6, 6, 6, 6, 6, 5 } };
  test_text(lost(&c, "megatron"), "");
  has(&c, "megatron", "--pipeline-model-parallel-layout "
                      "'Et*5|t*6|t*6|t*6|t*6|t*6|t*6|t*7|t*7|t*6|t*6|t*6|t*6|t*6|t*6|t*5L'");
  has_not(&c, "megatron", "virtual");
  c.plan.vpp = 1;
  c.plan.schedule = schedule_find("1f1b");
  c.plan.split = (LayerSplit) { 8, { 0, 16, 16, 16, 16, 16, 16, 0 } };
  has(&c, "bridge", "  pipeline_model_parallel_layout: \"E|t*16|t*16|t*16|t*16|t*16|t*16|L\"\n");
  has(&c, "torchtitan", "module_fqns_per_model_part = [\n  [\"tok_embeddings\"],\n  [\"layers.0\", \"layers.1\", ");
  has(&c, "torchtitan", "\"layers.95\"],\n  [\"norm\", \"output\"],\n]\n");
  has_not(&c, "torchtitan", "layers_per_stage");
  g_autofree char *losses = lost(&c, "deepspeed");
  ck_assert_ptr_nonnull(strstr(losses, "layer_split: [0,16,16,16,16,16,16,0]: expected equal stages, which is what "
                                       "deepspeed runs, left out"));
  case_clear(&c);
}
END_TEST

START_TEST(orders_of_ranks)
{
  Case c = gpt3();
  c.plan.pipeline_inner = TRUE;
  test_text(lost(&c, "megatron"), "");
  has(&c, "megatron", " --use-tp-pp-dp-mapping");
  has(&c, "bridge", "dist:\n  use_megatron_fsdp: false\n  use_tp_pp_dp_mapping: true\n");
  g_autofree char *losses = lost(&c, "deepspeed");
  ck_assert_ptr_nonnull(strstr(losses, "use_tp_pp_dp_mapping: true: expected false, deepspeed"));
  c.plan.dp *= c.plan.pp;
  c.plan.pp = c.plan.vpp = 1;
  c.plan.schedule = schedule_find("1f1b");
  has_not(&c, "megatron", "mapping");
  case_clear(&c);
}
END_TEST

START_TEST(megatron_sharding)
{
  Case c = gpt3();
  c.plan.zero = 0;
  has_not(&c, "megatron", "--use-distributed-optimizer");
  has_not(&c, "megatron", "--overlap-param-gather");
  c.plan.zero = 1;
  c.plan.overlap.gradients = FALSE;
  has_not(&c, "megatron", "--overlap-");
  c.plan.zero = 2;
  test_text(lost(&c, "megatron"),
            "zero_stage: 2: expected at most 1, which is what megatron-core runs with pipeline stages, written as 1\n");
  c.plan.pp = c.plan.vpp = 1;
  c.plan.dp = 128;
  c.plan.schedule = schedule_find("1f1b");
  test_text(lost(&c, "megatron"), "");
  has(&c, "megatron", "--data-parallel-sharding-strategy optim_grads\n");
  has(&c, "megatron", "unset CUDA_DEVICE_MAX_CONNECTIONS\n");
  has(&c, "megatron", "  --overlap-grad-reduce --overlap-param-gather\n");
  has(&c, "megatron", "  --megatron-fsdp-main-grads-dtype fp32\n"); /* what is counted, not the model's 16 bits */
  has_not(&c, "megatron", "--megatron-fsdp-grad-comm-dtype");
  has(&c, "bridge", "  megatron_fsdp_main_params_dtype:\n    _target_: torch.float32\n    _call_: false\n"
                    "  megatron_fsdp_main_grads_dtype:\n    _target_: torch.float32\n    _call_: false\n"
                    "  megatron_fsdp_grad_comm_dtype: null\n");
  has_not(&c, "primus", "megatron_fsdp_main_grads_dtype");
  has(&c, "megatron", "# - overlap: gradients: false: ");
  has_not(&c, "megatron", "MAX_CONNECTIONS=1");
  c.plan.zero = 3;
  c.plan.overlap.parameters = FALSE; /* what is always so is written so */
  has(&c, "megatron", "  --overlap-grad-reduce --overlap-param-gather\n");
  has(&c, "bridge", "  overlap_grad_reduce: true\n  overlap_param_gather: true\n");
  c.plan.optimizer.formats[STATE_GRAD_REDUCE] = FORMAT_BF16;
  has(&c, "megatron", "  --megatron-fsdp-main-grads-dtype fp32 --megatron-fsdp-grad-comm-dtype bf16\n");
  has(&c, "bridge", "_grad_comm_dtype:\n    _target_: torch.bfloat16\n    _call_: false\n");
  c.plan.optimizer.formats[STATE_MAIN_GRADS] = FORMAT_BF16;
  has_not(&c, "megatron", "--megatron-fsdp-main-grads-dtype");
  has(&c, "bridge", "  megatron_fsdp_main_grads_dtype: null\n  megatron_fsdp_grad_comm_dtype: null\n");
  has_not(&c, "bridge", "grad_reduce_in_fp32"); /* which Megatron-FSDP does not read */
  test_text(lost(&c, "bridge"), "");
  c.plan.optimizer.formats[STATE_MAIN_PARAMS] = FORMAT_BF16;
  has(&c, "megatron", "  --megatron-fsdp-main-params-dtype bf16\n");
  has(&c, "bridge", "  megatron_fsdp_main_params_dtype:\n    _target_: torch.bfloat16\n");
  c.plan.optimizer = optimizer_default();
  c.plan.precision = DTYPE_FP32;
  has_not(&c, "megatron", "--megatron-fsdp-main-grads-dtype");
  c.plan.precision = DTYPE_BF16;
  c.plan.zero = 1;
  has_not(&c, "megatron", "--megatron-fsdp-main-grads-dtype");
  has_not(&c, "bridge", "megatron_fsdp_main");
  c.plan.optimizer.formats[STATE_MAIN_GRADS] = FORMAT_BF16;
  test_text(lost(&c, "bridge"), "main_grads_dtype: bf16: not in Megatron-Bridge of 2026-08, left out\n");
  case_clear(&c);
}
END_TEST

/* Ranks that share a sequence hold the same weights: what overlaps their sums is written, or named as lost. */
START_TEST(context_ranks_are_replicas)
{
  Case c = case_new("llama-3.1-8b", "dgx-h100", 8);
  Framework f = framework;
  f.context = 1u << CONTEXT_RING;
  c.plan.framework = &f;
  c.plan.tp = 4;
  c.plan.cp = 2;
  c.plan.dp = 1;
  c.plan.zero = 1;
  test_text(lost(&c, "megatron"), "");
  has(&c, "megatron", "  --overlap-grad-reduce --overlap-param-gather\n");
  has(&c, "bridge", "  overlap_grad_reduce: true\n  overlap_param_gather: true\n");
  c.plan.tp = 8;
  c.plan.cp = 1;
  has_not(&c, "megatron", "--overlap-");
  has(&c, "bridge", "  overlap_grad_reduce: false\n  overlap_param_gather: false\n");
  case_clear(&c);
  c = case_new("llama-3.1-8b", "dgx-h100", 64);
  c.plan.framework = &f;
  c.plan.cp = 2;
  c.plan.dp = 32;
  f.bucket_params = 64e6; /* Megatron-LM's own: a million for each rank, those of context among them */
  has_not(&c, "megatron", "--ddp-bucket-size");
  f.bucket_params = 40e6;
  has(&c, "megatron", "--ddp-bucket-size 40000000");
  f.bucket_params_per_rank = 1e6; /* which is megatron-core's too */
  has_not(&c, "megatron", "--ddp-bucket-size");
  case_clear(&c);
}
END_TEST

START_TEST(megatron_formats_and_kernels)
{
  Case c = gpt3();
  Framework f = framework;
  c.plan.framework = &f;
  f.reduce_bytes = f.gradient_bytes = 2;
  f.fused_loss = TRUE;
  f.fused_dropout_add = FALSE;
  f.vocab_multiple = 64;
  f.bucket_params = 25e6;
  has(&c, "megatron", "--overlap-param-gather --grad-reduce-in-bf16 --ddp-bucket-size 25000000\n");
  has(&c, "megatron", "--attention-backend flash --no-bias-dropout-fusion --cross-entropy-loss-fusion "
                      "--make-vocab-size-divisible-by 64\n");
  c.plan.precision = DTYPE_FP16;
  f.gradient_bytes = 4;
  has(&c, "megatron", "--accumulate-allreduce-grads-in-fp32");
  has(&c, "megatron", " --fp16\n");
  c.plan.precision = DTYPE_FP32;
  test_text(lost(&c, "megatron"), "attention: flash: works in 16 bits only, written as unfused\n");
  has(&c, "megatron", "--attention-backend unfused");
  has_not(&c, "megatron", "--bf16");
  case_clear(&c);
}
END_TEST

/* V100 runs no FlashAttention: what runs instead is written. From Hopper on Transformer Engine takes cuDNN's kernels
 * where it may choose, before that FlashAttention-2. */
START_TEST(megatron_attends_as_devices_can)
{
  Case c = case_new("gpt2-xl", "dgx-2", 16);
  c.plan.precision = DTYPE_FP16;
  has(&c, "megatron", "--attention-backend unfused");
  test_text(lost(&c, "megatron"), "");
  c.plan.attention = ATTENTION_EFFICIENT;
  test_text(lost(&c, "megatron"), "attention: efficient: not in Megatron-LM, which chooses its kernel\n");
  has_not(&c, "megatron", "--attention-backend");
  case_clear(&c);
  for (int hopper = 0; hopper < 2; hopper++) {
    Case d = case_new("llama-3.1-8b", hopper ? "dgx-h100" : "dgx", 16);
    d.plan.attention = ATTENTION_FLASH3;
    (hopper ? has_not : has)(&d, "megatron", "--attention-backend");
    test_text(lost(&d, "megatron"), "");
    d.plan.attention = ATTENTION_FLASH;
    has(&d, "megatron", "--attention-backend flash");
    case_clear(&d);
  }
}
END_TEST

START_TEST(megatron_experts)
{
  Case c = case_new("mixtral-8x7b", "dgx-h100", 64);
  has(&c, "megatron", "--group-query-attention --num-query-groups 8 --swiglu --ffn-hidden-size 14336\n"
                      "  --num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 14336 --moe-grouped-gemm --moe-permute-fusion\n"
                      "  --normalization RMSNorm --untie-embeddings-and-output-weights --disable-bias-linear\n"
                      "  --rotary-base 1000000 --norm-epsilon 1e-05 --moe-aux-loss-coeff 0.02\n"
                      "  --attention-dropout 0 --hidden-dropout 0 --no-create-attention-mask-in-dataloader\n");
  test_text(lost(&c, "megatron"), "");
  c.framework.fused_permutation = FALSE;
  c.plan.framework = &c.framework;
  has_not(&c, "megatron", "--moe-permute-fusion");
  c.framework.fused_permutation = TRUE;
  c.plan.dispatch = DISPATCH_HYBRID; /* of no meaning where each rank has all experts */
  has_not(&c, "megatron", "dispatcher");
  has(&c, "bridge", "  moe_token_dispatcher_type: alltoall\n"); /* not flex of a recipe */
  has_not(&c, "bridge", "backend");
  c.plan.tp = 8;
  c.plan.dp = 8;
  test_text(lost(&c, "megatron"),
            "sequence_parallel: false: arguments.py asserts sequence parallelism where experts meet tensor parallelism, "
            "written as true\n");
  has(&c, "megatron", "--tensor-model-parallel-size 8 --sequence-parallel\n");
  case_clear(&c);
}
END_TEST

/* Gated delta networks between attention are arguments of pretrain_gpt.py; with layers of another kind nothing has them. */
START_TEST(megatron_deltas)
{
  Case c = case_new("qwen3-next-80b-a3b", "dgx-h100", 64);

  has(&c, "megatron", " --qk-layernorm --attention-output-gate --swiglu ");
  has(&c, "megatron", "  --experimental-attention-variant gated_delta_net --linear-attention-freq '([1]*3+[0]*1)*12' "
                      "--linear-num-value-heads 32 --linear-value-head-dim 128 --linear-num-key-heads 16 "
                      "--linear-key-head-dim 128 --linear-conv-kernel-dim 4\n");
  has(&c, "megatron", "pretrain_gpt.py");
  has_not(&c, "megatron", "--mamba");
  has_not(&c, "megatron", "hybrid");
  test_text(lost(&c, "megatron"), "");
  for (int i = 0; i < c.model->n_specs; i++)
    c.model->specs[i].attention.gate_of_head = TRUE;
  test_text(lost(&c, "megatron"), "model: a gate of attention: not in Megatron-LM core 0.20, left out\n");
  for (int i = 0; i < c.model->n_specs; i++)
    c.model->specs[i].linear.plain = TRUE;
  cannot(&c, "megatron", "megatron: model qwen3-next-80b-a3b: expected linear attention with a norm (linear_plain false), which "
                         "is what Megatron-LM core 0.20 trains");
  case_clear(&c);
}
END_TEST

/* What recipes of Megatron-Bridge have otherwise is said, too: else the plan would run with it. */
START_TEST(bridge_over_recipes)
{
  Case c = case_new("deepseek-v3", "dgx-h100", 64);
  g_autoptr(Framework) own = framework_load("nemo-2026-08", NULL);

  c.plan.framework = own;
  c.plan.ep = 64;
  c.plan.dispatch = DISPATCH_FLEX;
  has(&c, "bridge", "  moe_token_dispatcher_type: flex\n  moe_flex_dispatcher_backend: deepep\n"
                    "  moe_shared_expert_overlap: false\n  cuda_graph_impl: none\n");
  has(&c, "bridge", "  pipeline_model_parallel_layout: null\n  account_for_embedding_in_pipeline_split: false\n"
                    "  account_for_loss_in_pipeline_split: false\n  num_layers_in_first_pipeline_stage: null\n"
                    "  num_layers_in_last_pipeline_stage: null\n");
  has(&c, "bridge", "  recompute_method: null\n  recompute_num_layers: null\n");
  has(&c, "bridge", "  use_megatron_fsdp: false\n");
  has(&c, "bridge", "# - framework: nemo-2026-08: set mixed_precision.grad_reduce_in_fp32 to False");
  has_not(&c, "bridge", "tp_comm_overlap");
  c.plan.dispatch = DISPATCH_HYBRID;
  has(&c, "bridge", "  moe_flex_dispatcher_backend: hybridep\n");
  c.plan.dispatch = DISPATCH_ALL_TO_ALL;
  c.plan.overlap.experts = TRUE;
  has(&c, "bridge", "  moe_shared_expert_overlap: true\n");
  has_not(&c, "bridge", "backend");
  c.plan.recompute = RECOMPUTE_FULL;
  has_not(&c, "bridge", "recompute_method: null");
  case_clear(&c);
  c = case_new("llama-3.1-8b", "dgx-h100", 8);
  c.plan.tp = 8;
  c.plan.dp = 1;
  c.plan.sequence_parallel = TRUE;
  has(&c, "bridge", "# - tp_comm_overlap: false: set comm_overlap.tp_comm_overlap beside the model\n");
  has_not(&c, "bridge", "moe_");
  has_not(&c, "bridge", "grad_reduce_in_fp32"); /* the framework's gradients are in fp32 */
  case_clear(&c);
}
END_TEST

/* What lets an exchange run beside passes (moe/README.md of core 0.20), in the script and in the line that starts it. */
START_TEST(exchange_has_connections)
{
  Case c = case_new("mixtral-8x7b", "dgx-h100", 16);
  g_autoptr(Framework) own = framework_load("megatron-core-2026", NULL);

  c.plan.framework = own;
  c.plan.ep = c.plan.dp = 8;
  c.plan.tp = 2;
  c.plan.sequence_parallel = TRUE;
  c.plan.etp = 1;
  c.plan.zero = 1;
  has(&c, "megatron", "export CUDA_DEVICE_MAX_CONNECTIONS=1\n");
  has_not(&c, "megatron", "# - CUDA_DEVICE_MAX_CONNECTIONS");
  c.plan.overlap.exchange = TRUE;
  has(&c, "megatron", "export CUDA_DEVICE_MAX_CONNECTIONS=32\n");
  has(&c, "megatron", "# - CUDA_DEVICE_MAX_CONNECTIONS: 32 lets tokens be exchanged beside passes; before Blackwell");
  c.plan.tp = 1;
  c.plan.dp = 16;
  c.plan.sequence_parallel = FALSE;
  has(&c, "megatron", "export CUDA_DEVICE_MAX_CONNECTIONS=32\n");
  has_not(&c, "megatron", "# - CUDA_DEVICE_MAX_CONNECTIONS");
  g_autofree char *line = launch_line(exporter_find("megatron"), c.model, c.cluster, &c.plan, "plan.sh");
  ck_assert_msg(g_str_has_prefix(line, "CUDA_DEVICE_MAX_CONNECTIONS=32 "), "%s", line);
  case_clear(&c);
}
END_TEST

/* Megatron-FSDP refuses layers that are recorded one by one beside an exchange that overlaps. */
START_TEST(megatron_recorded_shards)
{
  static const char lines[] = "cuda_graph: partial: Megatron-FSDP overlaps the exchange of tokens only beside layers that are "
                              "not recorded (mcore_fsdp_adapter.py), left out\n";
  Case c = case_new("qwen3-30b-a3b", "dgx-h100", 64);
  g_autoptr(Framework) own = framework_load("megatron-core-2026", NULL);

  c.plan.framework = own;
  c.plan.ep = 8;
  c.plan.dispatch = DISPATCH_ALL_TO_ALL;
  c.plan.graph = GRAPH_PARTIAL;
  for (int zero = 1; zero <= 2; zero++)
    for (int exchange = 0; exchange <= 1; exchange++) {
      gboolean refused = zero == 2 && exchange;
      c.plan.zero = zero;
      c.plan.overlap.exchange = exchange;
      test_text(lost(&c, "megatron"), refused ? lines : "");
      (refused ? has_not : has)(&c, "megatron", "--cuda-graph-impl transformer_engine");
      (refused ? has_not : has)(&c, "bridge", "cuda_graph_impl: transformer_engine");
    }
  case_clear(&c);
}
END_TEST

/* What Megatron-LM would take by itself is said where the model's file says otherwise. */
START_TEST(megatron_constants)
{
  static const struct {
    const char *model, *part;
  } cases[] = {
    {"llama-3.1-8b", "--rotary-base 500000 --norm-epsilon 1e-05\n"},
    {"pythia-1b", "--rotary-base 10000 --rotary-percent 0.25 --norm-epsilon 1e-05\n"},
    {"qwen3-30b-a3b", "--rotary-base 1000000 --norm-epsilon 1e-06 --moe-aux-loss-coeff 0.001\n"},
    {"deepseek-v3", "--rotary-base 10000 --norm-epsilon 1e-06 --moe-router-topk-scaling-factor 2.5\n"},
    {"bert-base", "--norm-epsilon 1e-12\n"},
    {"mistral-nemo-12b", "# - model: rope_theta: not in its file, so Megatron-LM takes 10000\n"
                         "# - model: norm_epsilon: not in its file, so Megatron-LM takes 1e-05\n"},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    Case c = case_new(cases[i].model, "dgx-h100", 64);
    c.plan.global_batch = 64;
    has(&c, "megatron", cases[i].part);
    case_clear(&c);
  }
}
END_TEST

START_TEST(one_node_needs_no_batch_system)
{
  Case c = case_new("tiny", "dgx", 4);
  c.plan.global_batch = 16;
  has(&c, "megatron", "\ntorchrun --standalone --nproc-per-node 4 \\\n  pretrain_gpt.py ");
  has(&c, "megatron", "tiny on dgx, 1 node x 4 GPUs\n");
  has_not(&c, "megatron", "SBATCH");
  has_not(&c, "megatron", "SLURM");
  g_autofree char *line = launch_line(exporter_find("deepspeed"), c.model, c.cluster, &c.plan, "my plan.json");
  ck_assert_str_eq(line, "deepspeed --num_gpus 4 train.py --deepspeed --deepspeed_config 'my plan.json' --seq-length 64");
  case_clear(&c);
}
END_TEST

START_TEST(megatron_recipes)
{
  Case c = llama_70b();
  plan_set_format(&c.plan, DTYPE_FP8);
  test_text(lost(&c, "megatron"), "");
  has(&c, "megatron", "--bf16 --fp8-format hybrid --fp8-recipe delayed");
  c.plan.fp8_recipe = FP8_BLOCKWISE;
  has(&c, "megatron", "--fp8-format e4m3 --fp8-recipe blockwise");
  test_text(lost(&c, "bridge"), "");
  has(&c, "bridge", "mixed_precision: bf16_with_fp8_subchannel_scaling_mixed\n");
  has_not(&c, "bridge", "# - fp8_param_gather");
  c.plan.fp8_recipe = FP8_CURRENT;
  has(&c, "bridge", "mixed_precision: bf16_with_fp8_current_scaling_mixed\n");
  has(&c, "bridge", "# - num_layers_at_start_in_bf16: 0, num_layers_at_end_in_bf16: 0: the recipe has 1 and 1, set them and "
      "first_last_layers_bf16 of mixed_precision\n");
  c.plan.wide = (WideBlocks) { 1, 1 };
  has_not(&c, "bridge", "# - num_layers");
  has(&c, "megatron", "--fp8-recipe tensorwise --first-last-layers-bf16 --num-layers-at-start-in-bf16 1 "
      "--num-layers-at-end-in-bf16 1");
  c.plan.wide = (WideBlocks) { 2, 2 };
  has(&c, "bridge", "mixed_precision: nemotron_h_bf16_with_fp8_current_scaling_mixed\n");
  c.plan.wide = (WideBlocks) { 0 };
  has(&c, "bridge", "# - fp8_param_gather: false: the recipe has it on\n");
  c.plan.param_gather = GATHER_NARROW;
  c.plan.zero = 1;
  has_not(&c, "bridge", "# - fp8_param_gather");
  has(&c, "megatron", "--fp8-format hybrid --fp8-recipe tensorwise --fp8-param-gather");
  has_not(&c, "megatron", "--reuse-grad-buf");
  c.plan.optimizer.formats[STATE_MAIN_GRADS] = FORMAT_BF16;
  has(&c, "megatron", "--use-precision-aware-optimizer --main-grads-dtype bf16");
  c.plan.fp8_recipe = FP8_DELAYED; /* whose narrow moments Megatron-LM cannot keep beside such weights */
  has(&c, "megatron", " --grad-reduce-in-bf16");
  has_not(&c, "megatron", "--use-precision-aware-optimizer");
  case_clear(&c);
  c = case_new("llama-3.1-8b", "hgx-b200", 64);
  plan_set_format(&c.plan, DTYPE_FP8);
  c.plan.fp8_recipe = FP8_MXFP8;
  c.plan.param_gather = GATHER_NARROW;
  c.plan.zero = 1;
  has(&c, "megatron", "--fp8-param-gather --reuse-grad-buf-for-mxfp8-param-ag");
  c.plan.zero = 3; /* FSDP gathers what it keeps */
  has(&c, "megatron", "--fp8-param-gather");
  has_not(&c, "megatron", "--reuse-grad-buf");
  case_clear(&c);
  c = case_new("llama-3.1-8b", "hgx-b200", 64);
  plan_set_format(&c.plan, DTYPE_FP4);
  test_text(lost(&c, "bridge"), "");
  has(&c, "bridge", "mixed_precision: bf16_with_nvfp4_mixed\n");
  c.plan.wide.end = 14;
  test_text(lost(&c, "bridge"), "");
  has(&c, "bridge", "mixed_precision: nemotron_3_super_bf16_with_nvfp4_mixed\n");
  has(&c, "megatron", "--first-last-layers-bf16 --num-layers-at-start-in-bf16 0 --num-layers-at-end-in-bf16 14");
  has(&c, "primus", "      first_last_layers_bf16: true\n      num_layers_at_start_in_bf16: 0\n"
      "      num_layers_at_end_in_bf16: 14\n");
  c.plan.wide.end = 0;
  has(&c, "bridge", "# - fp8_param_gather: false: the recipe has it on\n");
  has(&c, "megatron", "--fp4-format e2m1 --fp4-recipe nvfp4");
  has_not(&c, "megatron", "param-gather");
  g_autoptr(Framework) recent = fixture_framework("megatron-core-2026");
  c.plan.framework = recent;
  c.plan.param_gather = GATHER_NARROW;
  c.plan.zero = 1;
  has(&c, "megatron", "--fp4-format e2m1 --fp4-recipe nvfp4 --fp4-param-gather");
  has_not(&c, "bridge", "# - fp8_param_gather");
  test_text(lost(&c, "primus"), "fp8_param_gather: true: its distributed optimizer writes no weights in 4 bits, written as "
                                "false\n");
  has_not(&c, "primus", "fp4_param");
  case_clear(&c);
}
END_TEST

/* Copies of what ZeRO divides, and groups of recomputed layers. */
START_TEST(groups_are_written)
{
  Case c = llama_8b_sharded();
  c.plan.shard_group = 8;
  c.framework.shard_groups = TRUE;
  c.plan.framework = &c.framework;
  test_text(lost(&c, "torchtitan"), "");
  has(&c, "torchtitan", "data_parallel_replicate_degree = 8\ndata_parallel_shard_degree = 8\n");
  has(&c, "deepspeed", "\"mics_shard_size\": 8");
  has(&c, "accelerate", "parallelism_config_dp_replicate_size: 8\n  parallelism_config_dp_shard_size: 8\n");
  c.plan.zero = 1;
  has(&c, "megatron", "--num-distributed-optimizer-instances 8");
  c.plan.shard_group = 0;
  c.plan.pp = 4;
  c.plan.dp = 16;
  c.plan.scope = (RecomputeScope) { .method = RECOMPUTE_UNIFORM, .layers = 2 };
  has(&c, "deepspeed", "\"activation_checkpoint_interval\": 2");
  g_autofree char *uniform = lost(&c, "deepspeed");
  ck_assert_ptr_null(strstr(uniform, "recompute"));
  c.plan.scope.method = RECOMPUTE_BLOCK;
  g_autofree char *block = lost(&c, "deepspeed");
  ck_assert_ptr_nonnull(strstr(block, "recompute_num_layers"));
  case_clear(&c);
}
END_TEST

TEST_MAIN("export megatron", megatron_loses_nothing_of_its_own, megatron_schedules, megatron_splits, orders_of_ranks,
          megatron_sharding, context_ranks_are_replicas, megatron_formats_and_kernels, megatron_attends_as_devices_can,
          megatron_experts, megatron_deltas, exchange_has_connections,
          megatron_recorded_shards, bridge_over_recipes, megatron_constants,
          one_node_needs_no_batch_system, megatron_recipes, groups_are_written)
