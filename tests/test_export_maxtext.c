#include "test_export.h"

#include "fixture.h"

#include <string.h>

/* A case of its framework, on nodes of 8. */
static Case own_case(const char *model, int gpus)
{
  Case c = case_new(model, "dgx-h100", gpus);

  c.plan = plan_default(c.model, fixture_framework("maxtext-2026"));
  c.plan.gpus = c.plan.dp = gpus;
  c.plan.global_batch = 2 * gpus;
  c.plan.recompute = RECOMPUTE_FULL;
  c.plan.zero = 3;
  return c;
}

static void own_clear(Case *c)
{
  framework_free((Framework *)c->plan.framework);
  case_clear(c);
}

static void refuses(const Case *c, const char *message)
{
  GError *error = NULL;

  ck_assert_ptr_null(export_plan(exporter_find("maxtext"), c->model, c->cluster, &c->plan, NULL, &error));
  test_error(&error, TDP_ERROR_INFEASIBLE, message);
}

/* One line is lost, which starts and ends so. */
static void loses_one(const Case *c, const char *start, const char *end)
{
  g_autofree char *losses = lost(c, "maxtext");

  ck_assert_msg(g_str_has_prefix(losses, start) && g_str_has_suffix(losses, end) &&
                strchr(losses, '\n') == losses + strlen(losses) - 1, "%s", losses);
}

/* The first ranks fill a node: of an axis over its edge a part is inside. */
START_TEST(degrees_lie_as_ranks_do)
{
  Case c = own_case("llama-3.1-70b", 64);
  c.plan.tp = 4;
  c.plan.sequence_parallel = TRUE;
  c.plan.dp = 4;
  c.plan.pp = 4;
  c.plan.global_batch = 64;
  plan_set_schedule(&c.plan, schedule_find("looped-bfs"), 2);
  test_text(lost(&c, "maxtext"), "");
  has(&c, "maxtext", "ici_tensor_sequence_parallelism: 4\ndcn_tensor_sequence_parallelism: 1\n");
  has(&c, "maxtext", "ici_fsdp_parallelism: 2\ndcn_fsdp_parallelism: 2\n");
  has(&c, "maxtext", "ici_pipeline_parallelism: 1\ndcn_pipeline_parallelism: 4\n");
  has(&c, "maxtext", "num_layers_per_pipeline_stage: 10\nnum_pipeline_repeats: 2\nnum_pipeline_microbatches: 16\n");
  has(&c, "maxtext", "per_device_batch_size: 1\ngradient_accumulation_steps: 1\n");
  Plan staged = c.plan;
  c.plan.cp = 4;
  c.plan.pp = 1;
  plan_set_schedule(&c.plan, schedule_find("1f1b"), 1);
  has(&c, "maxtext", "ici_tensor_sequence_parallelism: 4\ndcn_tensor_sequence_parallelism: 1\n"
                     "ici_context_parallelism: 2\ndcn_context_parallelism: 2\n");
  has(&c, "maxtext", "ici_fsdp_parallelism: 1\ndcn_fsdp_parallelism: 4\n");
  c.plan = staged;
  c.plan.global_batch = 8;
  refuses(&c, "maxtext: 2 micro-batches: expected a multiple of pipeline_model_parallel_size 4");
  own_clear(&c);
}
END_TEST

START_TEST(states_are_divided)
{
  Case c = own_case("llama-3.1-8b", 32);
  has(&c, "maxtext", "dcn_fsdp_parallelism: 4\nici_data_parallelism: 1\ndcn_data_parallelism: 1\n");
  has(&c, "maxtext", "shard_optimizer_over_data: false\nper_device_batch_size: 1\ngradient_accumulation_steps: 2\n");
  c.plan.shard_group = 8;
  has(&c, "maxtext", "dcn_fsdp_parallelism: 1\nici_data_parallelism: 1\ndcn_data_parallelism: 4\n");
  c.plan.shard_group = 0;
  c.plan.zero = 1;
  has(&c, "maxtext", "ici_fsdp_parallelism: 1\ndcn_fsdp_parallelism: 1\nici_data_parallelism: 8\n");
  has(&c, "maxtext", "shard_optimizer_over_data: true\n");
  test_text(lost(&c, "maxtext"), "");
  c.plan.zero = 2;
  g_autofree char *losses = lost(&c, "maxtext");
  ck_assert(g_str_has_prefix(losses, "zero_stage: 2: shard_optimizer_over_data divides optimizer states "));
  own_clear(&c);
}
END_TEST

START_TEST(remat_names_what_is_kept)
{
  Case c = own_case("llama-3.1-8b", 8);
  has(&c, "maxtext", "remat_policy: full\ndtype: bfloat16\n");
  c.plan.recompute = RECOMPUTE_SELECTIVE;
  c.plan.scope.modules = 1u << MODULE_LAYERNORM;
  has(&c, "maxtext", "remat_policy: custom\nquery_proj: device\nkey_proj: device\nvalue_proj: device\nout_proj: device\n"
                     "context: device\nmlpwi_0: device\nmlpwi_1: device\nmlpwo: device\ndtype");
  test_text(lost(&c, "maxtext"), "");
  c.plan.scope.modules |= 1u << MODULE_MLP;
  has(&c, "maxtext", "out_proj: device\ncontext: device\ndtype");
  c.plan.scope.modules = 1u << MODULE_LAYERNORM | 1u << MODULE_CORE_ATTN;
  has(&c, "maxtext", "out_proj: device\nmlpwi_0: device\n");
  c.plan.recompute = RECOMPUTE_NONE;
  c.plan.scope.modules = 0;
  g_autofree char *losses = lost(&c, "maxtext");
  ck_assert_msg(strstr(losses, "recompute_granularity: none: ") && strstr(losses, "written as selective\n"), "%s", losses);
  own_clear(&c);
}
END_TEST

START_TEST(experts_lie_beside_shards)
{
  Case c = own_case("mixtral-8x7b", 32);
  c.plan.ep = 8;
  test_text(lost(&c, "maxtext"), "");
  has(&c, "maxtext", "model_name: mixtral-8x7b\nsparse_matmul: true\nmegablox: false\ncapacity_factor: -1.0\n");
  has(&c, "maxtext", "ici_expert_parallelism: 8\ndcn_expert_parallelism: 1\nici_fsdp_parallelism: 1\n"
                     "dcn_fsdp_parallelism: 4\n");
  c.plan.recompute = RECOMPUTE_SELECTIVE;
  g_autofree char *once = lost(&c, "maxtext");
  ck_assert_msg(g_str_has_prefix(once, "recompute_modules: checkpoint ") && strchr(once, '\n')[1] == '\0' &&
                g_str_has_suffix(once, "written as [\"core_attn\",\"layernorm\",\"moe_act\"]\n"), "%s", once);
  c.plan.scope.modules = 1u << MODULE_LAYERNORM;
  test_text(lost(&c, "maxtext"), "recompute_modules: [\"layernorm\"]: checkpoint policies keep tensors by name, and "
                                 "outputs of experts' activations have none (layers/moe.py), written as "
                                 "[\"layernorm\",\"moe_act\"]\n");
  c.plan.scope.modules |= 1u << MODULE_MOE_ACT;
  test_text(lost(&c, "maxtext"), "");
  has(&c, "maxtext", "moe_mlpwi_0: device\nmoe_mlpwi_1: device\nmoe_mlpwo: device\n");
  c.plan.cp = 2;
  c.plan.dp = 16;
  refuses(&c, "maxtext: expert_model_parallel_size: 8 with context_parallel_size: 2: expected not both: the axes expert "
              "and context are apart: ranks that share a sequence share experts");
  own_clear(&c);
}
END_TEST

START_TEST(shards_divide_widths)
{
  Case c = own_case("gpt2-xl", 64);
  test_text(lost(&c, "maxtext"), "");
  own_clear(&c);
  c = own_case("gpt2-xl", 128);
  refuses(&c, "maxtext: expected degrees of which the first fill nodes of 8 GPUs, and shards that divide hidden 1600");
  own_clear(&c);
}
END_TEST

START_TEST(models_by_name_or_sizes)
{
  Case c = own_case("llama-3.1-8b", 8), tied = own_case("llama-3.2-1b", 8), other = own_case("mistral-7b", 8);
  has(&c, "maxtext", "model_name: llama3-8b\nici_");
  c.model->rope_scaling = (RopeScaling) { "llama3", 8, 1, 4, 8192 };
  has(&c, "maxtext", "model_name: llama3-8b\nrope_type: llama3.1\n");
  c.model->rope_scaling.factor = 32;
  test_text(lost(&c, "maxtext"), "model: rope_scaling: llama3: expected that of Llama 3.1, left out\n");
  c.model->norm_epsilon = 1e-6;
  has(&c, "maxtext", "model_name: default\ndecoder_block: llama2\nbase_emb_dim: 4096\n");
  has(&tied, "maxtext", "logits_via_embedding: true\nnormalize_embedding_logits: false\n");
  refuses(&other, "maxtext: model mistral-7b: window: expected blocks of Llama, Qwen 2 or 3, Mixtral or GPT-3");
  own_clear(&c);
  own_clear(&tied);
  own_clear(&other);
}
END_TEST

START_TEST(formats)
{
  Case c = own_case("llama-3.1-8b", 8);
  plan_set_format(&c.plan, DTYPE_FP8);
  c.plan.global_batch = 8;
  has(&c, "maxtext", "quantization: fp8\n");
  c.plan.global_batch = 16;
  test_text(lost(&c, "maxtext"), "fp8_recipe: delayed: not in MaxText of 2026-08 where a step has several passes, "
                                 "written as current\n");
  c.plan.fp8_recipe = FP8_CURRENT;
  has(&c, "maxtext", "quantization: te_fp8_currentscaling\n");
  test_text(lost(&c, "maxtext"), "");
  c.plan.overlap.parameters = FALSE;
  g_autofree char *line = launch_line(exporter_find("maxtext"), c.model, c.cluster, &c.plan, "a b.yml");
  ck_assert_msg(!strstr(line, "all_gather") && strstr(line, "--xla_gpu_pipeline_reduce_scatter=on") &&
                g_str_has_suffix(line, "python3 -m maxtext.trainers.pre_train.train 'a b.yml'"), "%s", line);
  own_clear(&c);
}
END_TEST

/* cuDNN's kernel takes 16 bits; XLA makes products of fp32 in tf32 unless it is told otherwise. */
START_TEST(kernels_by_format)
{
  Case c = own_case("llama-3.1-8b", 8);

  plan_set_format(&c.plan, DTYPE_FP32);
  loses_one(&c, "attention: flash3: cuDNN's fused attention takes 16 bits ", ", written as unfused\n");
  has(&c, "maxtext", "attention: dot_product\n");
  c.plan.attention = ATTENTION_EFFICIENT;
  loses_one(&c, "attention: efficient: cuDNN's fused attention takes 16 bits ", ", written as unfused\n");
  c.plan.attention = ATTENTION_UNFUSED;
  test_text(lost(&c, "maxtext"), "");
  has(&c, "maxtext", "dtype: float32\nweight_dtype: float32\ngrad_dtype: float32\nmatmul_precision: highest\n");
  g_autofree char *whole = launch_line(exporter_find("maxtext"), c.model, c.cluster, &c.plan, NULL);
  ck_assert_ptr_nonnull(strstr(whole, " JAX_DEFAULT_MATMUL_PRECISION=highest python3 "));
  plan_set_format(&c.plan, DTYPE_TF32);
  test_text(lost(&c, "maxtext"), "");
  has(&c, "maxtext", "grad_dtype: float32\nmatmul_precision: high\n");
  has_not(&c, "maxtext", "torch");
  g_autofree char *cut = launch_line(exporter_find("maxtext"), c.model, c.cluster, &c.plan, NULL);
  ck_assert_ptr_null(strstr(cut, "JAX_DEFAULT"));
  plan_set_format(&c.plan, DTYPE_BF16);
  test_text(lost(&c, "maxtext"), "");
  has(&c, "maxtext", "attention: dot_product\n");
  c.plan.recompute = RECOMPUTE_SELECTIVE;
  c.plan.scope.modules = 1u << MODULE_LAYERNORM;
  loses_one(&c, "recompute_modules: [\"layernorm\"]: checkpoint policies keep tensors by name, and scores have none ",
            ", written as [\"core_attn\",\"layernorm\"]\n");
  has_not(&c, "maxtext", "context: device");
  c.plan.attention = ATTENTION_FLASH3;
  test_text(lost(&c, "maxtext"), "");
  c.plan.attention = ATTENTION_EFFICIENT;
  loses_one(&c, "attention: efficient: ", ", written as flash\n");
  own_clear(&c);
}
END_TEST

/* A device's batch is a fraction that gives the whole number again when it is cut. */
START_TEST(batches_of_fractions)
{
  Case c = own_case("llama-3.1-8b", 8);
  c.plan.tp = 8;
  c.plan.sequence_parallel = TRUE;
  c.plan.dp = 1;
  c.plan.global_batch = 3;
  has(&c, "maxtext", "per_device_batch_size: 0.125\ngradient_accumulation_steps: 3\n");
  own_clear(&c);
}
END_TEST

TEST_MAIN("export to MaxText", degrees_lie_as_ranks_do, states_are_divided, remat_names_what_is_kept,
          experts_lie_beside_shards, shards_divide_widths,
          models_by_name_or_sizes, formats, kernels_by_format, batches_of_fractions)
