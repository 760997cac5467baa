/* Optimizers in the files of all tools that have them. */
#include "test_export.h"

/* Optimizers and formats as Megatron-LM says them. */
START_TEST(megatron_optimizers)
{
  Case c = gpt3();
  c.plan.optimizer.formats[STATE_EXP_AVG] = FORMAT_BF16;
  c.plan.optimizer.formats[STATE_EXP_AVG_SQ] = FORMAT_FP8;
  c.plan.optimizer.formats[STATE_MAIN_GRADS] = FORMAT_BF16;
  c.plan.optimizer.remainders = TRUE;
  test_text(lost(&c, "megatron"), "");
  has(&c, "megatron", "--use-precision-aware-optimizer --main-grads-dtype bf16 --exp-avg-dtype bf16 "
                      "--exp-avg-sq-dtype fp8");
  has(&c, "megatron", "--grad-reduce-in-bf16");
  c.plan.zero = 0;
  test_text(lost(&c, "megatron"), "store_param_remainders: true: precision-aware optimizers are distributed ones, "
                                  "left out\n"
                                  "main_grads_dtype: bf16: precision-aware optimizers are distributed ones, left out\n"
                                  "exp_avg_dtype: bf16: precision-aware optimizers are distributed ones, left out\n"
                                  "exp_avg_sq_dtype: fp8: precision-aware optimizers are distributed ones, left out\n");
  c.plan.optimizer = optimizer_default();
  c.plan.optimizer.formats[STATE_TENSOR_REDUCE] = FORMAT_FP32;
  test_text(lost(&c, "megatron"), "tensor_reduce_dtype: fp32: expected nothing, megatron-core has no choice, left out\n");
  c.plan.optimizer = optimizer_default();
  c.plan.optimizer.name = OPTIMIZER_SGD;
  c.plan.optimizer.momentum = 0.8;
  has(&c, "megatron", "--optimizer sgd --sgd-momentum 0.8");
  has(&c, "deepspeed", "\"type\": \"SGD\"");
  has(&c, "deepspeed", "\"momentum\": 0.8");
  c.plan.optimizer = optimizer_default();
  c.plan.optimizer.name = OPTIMIZER_MUON;
  has(&c, "megatron", "--optimizer muon --muon-num-ns-steps 5 --muon-tp-mode blockwise");
  c.plan.zero = 1;
  has(&c, "megatron", "--optimizer dist_muon");
  has_not(&c, "megatron", "--use-distributed-optimizer");
  c.plan.optimizer.newton_steps = 6;
  c.plan.overlap.parameters = FALSE;
  test_text(lost(&c, "bridge"), "");
  has(&c, "bridge", "optimizer:\n  use_distributed_optimizer: false\n  optimizer: dist_muon\n  muon_num_ns_steps: 6\n"
                    "  muon_tp_mode: blockwise\n");
  has(&c, "bridge", "ddp:\n  use_distributed_optimizer: false\n");
  has(&c, "accelerate", "  megatron_lm_use_distributed_optimizer: true\n"); /* the script names the optimizer */
  c.plan.overlap.gradients = c.plan.overlap.parameters = TRUE;
  test_text(lost(&c, "bridge"), "overlap: parameters: true: its muon gathers nothing ahead, written as false\n");
  has(&c, "bridge", "  overlap_param_gather: false\n");
  c.plan.zero = 0;
  test_text(lost(&c, "bridge"), "");
  has(&c, "bridge", "  optimizer: muon\n");
  c.plan.zero = 1;
  c.plan.optimizer.newton_steps = 5;
  has(&c, "deepspeed", "\"type\": \"Muon\"");
  c.plan.optimizer.name = OPTIMIZER_ADAFACTOR;
  test_text(lost(&c, "megatron"), "optimizer: adafactor: expected one that megatron-core runs, written as adam\n");
  case_clear(&c);
}
END_TEST

#define ADAM_ALONE "the optimizer on the host is a precision-aware one (arguments.py), which Adam alone has (optimizer_config.py), "

/* Megatron's distributed optimizers take no SGD, its optimizer on the host neither; DeepSpeed's are told to. */
START_TEST(sgd_under_zero)
{
  Case c = llama_8b_sharded();

  c.plan.optimizer.name = OPTIMIZER_SGD;
  for (int zero = 0; zero <= 3; zero++) {
    c.plan.zero = zero;
    g_autofree char *text = g_strdup_printf("zero_stage: %d: its distributed optimizer takes Adam (distrib_optimizer.py), written "
                                            "as 0\n", zero);
    test_text(lost(&c, "megatron"), zero > 0 ? text : "");
    has(&c, "megatron", "--optimizer sgd --sgd-momentum 0.9");
    has_not(&c, "megatron", "--use-distributed-optimizer");
    has_not(&c, "megatron", "--use-megatron-fsdp");
    if (zero > 0)
      has(&c, "deepspeed", "\n  \"zero_allow_untested_optimizer\": true");
    else
      has_not(&c, "deepspeed", "zero_allow_untested_optimizer");
  }
  c.framework.choices = ~0u;
  c.plan.framework = &c.framework;
  c.plan.zero = 1;
  c.plan.offload.optimizer = STORE_CPU;
  test_text(lost(&c, "megatron"), "offload: optimizer: " ADAM_ALONE "written as none\n"
                                  "overlap: offload: false: " ADAM_ALONE "left out\n"
                                  "zero_stage: 1: its distributed optimizer takes Adam (distrib_optimizer.py), written as 0\n");
  has(&c, "megatron", "--optimizer sgd --sgd-momentum 0.9");
  has_not(&c, "megatron", "--optimizer-cpu-offload");
  c.plan.zero = 0; /* on the one rank of each weight, too */
  c.plan.tp = 8;
  c.plan.pp = c.plan.gpus / 8;
  c.plan.dp = 1;
  has_not(&c, "megatron", "--optimizer-cpu-offload");
  c.plan.optimizer = optimizer_default();
  has(&c, "megatron", "--optimizer-cpu-offload");
  has_not(&c, "deepspeed", "zero_allow_untested_optimizer");
  case_clear(&c);
}
END_TEST

/* Megatron's optimizer on the host is a precision-aware one, and that is refused where it is not the distributed one, on
 * one rank too. */
START_TEST(offloaded_optimizer_is_distributed)
{
  Case c = case_new("llama-3.1-8b", "dgx-h100", 8);

  c.plan.tp = 8;
  c.plan.dp = 1;
  c.plan.zero = 0;
  has_not(&c, "megatron", "--use-distributed-optimizer");
  c.plan.offload.optimizer = STORE_CPU;
  c.framework.choices = ~0u;
  c.plan.framework = &c.framework;
  test_text(lost(&c, "megatron"), "");
  has(&c, "megatron", "--use-distributed-optimizer --optimizer-cpu-offload --use-precision-aware-optimizer");
  has(&c, "bridge", "ddp:\n  use_distributed_optimizer: true\n");
  has(&c, "bridge", "optimizer:\n  use_distributed_optimizer: true\n  optimizer_cpu_offload: true\n");
  has(&c, "accelerate", "  megatron_lm_use_distributed_optimizer: true\n");
  case_clear(&c);
}
END_TEST

/* So is one that keeps states in formats of their own. */
START_TEST(formats_are_distributed)
{
  static const char *const said[] = { "false", "true" };
  Case c = case_new("llama-3.1-8b", "dgx-h100", 8);

  c.plan.tp = 8;
  c.plan.dp = 1;
  c.framework.choices = ~0u;
  c.plan.framework = &c.framework;
  for (int formats = 0; formats <= 1; formats++) {
    c.plan.zero = 0;
    c.plan.optimizer.formats[STATE_EXP_AVG] = formats ? FORMAT_BF16 : 0;
    g_autofree char *key = g_strdup_printf("use_distributed_optimizer: %s\n", said[formats]);
    has(&c, "bridge", key);
    has(&c, "accelerate", key);
    (formats ? has : has_not)(&c, "megatron", "--use-distributed-optimizer");
  }
  case_clear(&c);
}
END_TEST

/* Stage 3 refuses it beside reduce-scatters. */
START_TEST(deepspeed_muon_sums_on_all_ranks)
{
  Case c = llama_8b_sharded();

  for (int zero = 1; zero <= 3; zero++) {
    c.plan.zero = zero;
    c.plan.optimizer.name = OPTIMIZER_ADAM;
    has(&c, "deepspeed", "\"reduce_scatter\": true");
    c.plan.optimizer.name = OPTIMIZER_MUON;
    has(&c, "deepspeed", zero == 3 ? "\"reduce_scatter\": false" : "\"reduce_scatter\": true");
  }
  case_clear(&c);
}
END_TEST

TEST_MAIN("export of optimizers", megatron_optimizers, sgd_under_zero,
          offloaded_optimizer_is_distributed, formats_are_distributed, deepspeed_muon_sums_on_all_ranks)
