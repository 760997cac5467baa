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

/* By a line that starts so; behind it the framework's file says why. */
static void refuses(const Case *c, const char *start)
{
  g_autoptr(GError) error = NULL;

  ck_assert_ptr_null(export_plan(exporter_find("maxtext"), c->model, c->cluster, &c->plan, NULL, &error));
  ck_assert_int_eq(error->code, TDP_ERROR_INFEASIBLE);
  ck_assert_msg(g_str_has_prefix(error->message, start), "%s", error->message);
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
  c.plan.global_batch = 24;
  refuses(&c, "maxtext: pipeline_model_parallel_size: 4, 6 micro-batches: expected a multiple of the stages: ");
  own_clear(&c);
}
END_TEST

/* The first degrees fill a node, or go on in whole nodes. */
START_TEST(degrees_fill_nodes)
{
  static const struct { int tp, cp, dp, pp; gboolean fill; } degrees[] = {
    { 1, 1, 24, 1, TRUE }, { 2, 1, 12, 1, TRUE }, { 2, 1, 4, 3, TRUE }, { 1, 1, 8, 3, TRUE }, { 4, 2, 3, 1, TRUE },
    { 1, 1, 6, 4, FALSE }, { 2, 1, 6, 2, FALSE }, { 4, 1, 3, 2, FALSE }, { 1, 1, 12, 2, FALSE },
  };
  Case c = own_case("qwen3-8b", 24); /* 36 layers, hidden 4096 */

  for (gsize i = 0; i < G_N_ELEMENTS(degrees); i++) {
    c.plan.tp = degrees[i].tp;
    c.plan.sequence_parallel = c.plan.tp > 1;
    c.plan.cp = degrees[i].cp;
    c.plan.dp = degrees[i].dp;
    c.plan.pp = degrees[i].pp;
    c.plan.global_batch = c.plan.dp * c.plan.pp;
    c.plan.zero = c.plan.cp > 1 ? 3 : 0;
    c.plan.shard_group = c.plan.cp > 1 ? 2 : 0;
    plan_set_schedule(&c.plan, schedule_find("gpipe"), 1);
    if (degrees[i].fill)
      test_text(lost(&c, "maxtext"), "");
    else
      refuses(&c, "maxtext: tensor_model_parallel_size: ");
  }
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
  c.plan.cp = 2;
  c.plan.dp = 16;
  for (c.plan.zero = 0; c.plan.zero < 3; c.plan.zero++) {
    g_autofree char *start = g_strdup_printf("zero_stage: %d: ", c.plan.zero);
    loses_one(&c, start, ", written as 3\n");
    has(&c, "maxtext", "ici_context_parallelism: 2\n");
    has(&c, "maxtext", "shard_optimizer_over_data: false\n");
  }
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
  for (c.plan.zero = 0; c.plan.zero < 2; c.plan.zero++) {
    g_autofree char *start = g_strdup_printf("zero_stage: %d: ranks of the axis expert divide weights ", c.plan.zero);
    c.plan.recompute = RECOMPUTE_FULL;
    loses_one(&c, start, ", written as 3\n");
  }
  c.plan.zero = 3;
  c.plan.recompute = RECOMPUTE_SELECTIVE;
  loses_one(&c, "recompute_modules: checkpoint policies keep tensors by name, and outputs of norms have none ",
            "written as [\"core_attn\",\"layernorm\",\"moe_act\"]\n");
  c.plan.scope.modules = 1u << MODULE_LAYERNORM;
  test_text(lost(&c, "maxtext"), "recompute_modules: [\"layernorm\"]: checkpoint policies keep tensors by name, and "
                                 "outputs of experts' activations have none (layers/moe.py), written as "
                                 "[\"layernorm\",\"moe_act\"]\n");
  c.plan.scope.modules |= 1u << MODULE_MOE_ACT;
  test_text(lost(&c, "maxtext"), "");
  has(&c, "maxtext", "moe_mlpwi_0: device\nmoe_mlpwi_1: device\nmoe_mlpwo: device\n");
  c.plan.cp = 2;
  c.plan.dp = 16;
  refuses(&c, "maxtext: expert_model_parallel_size: 8 with context_parallel_size: 2: expected not both: the axes ");
  c.plan.cp = c.plan.ep = 1;
  c.plan.dp = 32;
  plan_set_format(&c.plan, DTYPE_FP8);
  g_autofree char *losses = lost(&c, "maxtext");
  ck_assert_msg(g_str_has_prefix(losses, "precision: fp8: sparse_matmul "), "%s", losses);
  has_not(&c, "maxtext", "\nquantization:");
  own_clear(&c);
}
END_TEST

START_TEST(shards_divide_widths)
{
  Case c = own_case("gpt2-xl", 64);
  test_text(lost(&c, "maxtext"), "");
  own_clear(&c);
  c = own_case("gpt2-xl", 128);
  refuses(&c, "maxtext: zero_stage: 3 over 128 ranks, hidden 1600: expected ranks that divide it: ");
  c.plan.zero = 1;
  refuses(&c, "maxtext: zero_stage: 1 over 128 ranks, hidden 1600: expected ranks that divide it: ");
  c.plan.zero = 0;
  test_text(lost(&c, "maxtext"), "");
  c.plan.zero = 3;
  c.plan.shard_group = 64;
  test_text(lost(&c, "maxtext"), "");
  c.plan.cp = 2;
  c.plan.dp = 64;
  c.plan.shard_group = 0;
  refuses(&c, "maxtext: zero_stage: 3 over 128 ranks, hidden 1600: expected ranks that divide it: ");
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
  has(&c, "maxtext", "attention: cudnn_flash_te\n");
  has_not(&c, "maxtext", "\nquantization:");
  has_not(&c, "maxtext", "matmul_precision");
  plan_set_format(&c.plan, DTYPE_FP8);
  has(&c, "maxtext", "quantization: te_fp8_currentscaling\n");
  c.plan.global_batch = 8;
  c.plan.fp8_recipe = FP8_DELAYED;
  test_text(lost(&c, "maxtext"), "");
  has(&c, "maxtext", "quantization: fp8\n");
  c.plan.global_batch = 16;
  loses_one(&c, "fp8_recipe: delayed: fp8 and te_fp8_delayedscaling are refused ", ", written as current\n");
  has(&c, "maxtext", "quantization: te_fp8_currentscaling\n");
  c.plan.fp8_recipe = FP8_CURRENT;
  test_text(lost(&c, "maxtext"), "");
  c.plan.overlap.parameters = FALSE;
  g_autofree char *line = launch_line(exporter_find("maxtext"), c.model, c.cluster, &c.plan, "a b.yml");
  ck_assert_msg(!strstr(line, "all_gather") && strstr(line, "--xla_gpu_pipeline_reduce_scatter=on") &&
                g_str_has_suffix(line, "python3 -m maxtext.trainers.pre_train.train 'a b.yml'"), "%s", line);
  own_clear(&c);
}
END_TEST

/* One list: what the framework runs is written as it is, and of what it does not the recipe that is written is named. */
START_TEST(recipes)
{
  static const char *const names[FP8_COUNT] = { [FP8_DELAYED] = "fp8", [FP8_CURRENT] = "te_fp8_currentscaling",
                                                [FP8_MXFP8] = "te_mxfp8" };
  Case c = own_case("llama-3.1-8b", 8);
  const Framework *own = c.plan.framework;
  const char *gather = "fp8_param_gather: true: expected delayed, current or mxfp8 with maxtext-2026, left out\n";
  g_autoptr(Framework) tao = fixture_framework("torchtitan"), core = fixture_framework("megatron-core");

  cluster_free(c.cluster);
  c.cluster = fixture_cluster("hgx-b200", 8);
  c.plan.global_batch = 8;
  c.plan.attention = ATTENTION_FLASH;
  plan_set_format(&c.plan, DTYPE_FP8);
  for (int recipe = FP8_DELAYED; recipe < FP8_NVFP4; recipe++) {
    c.plan.fp8_recipe = recipe;
    c.plan.framework = recipe == FP8_BLOCKWISE ? core : recipe == FP8_TENSORWISE || recipe == FP8_ROWWISE ? tao : own;
    ck_assert_int_eq(names[recipe] != NULL, recipe == (int)own->fp8 || own->fp8_recipes >> recipe & 1);
    g_autofree char *line = g_strdup_printf("quantization: %s\n", names[recipe] ? names[recipe] : names[FP8_CURRENT]);
    g_autofree char *loss = g_strdup_printf("fp8_recipe: %s: expected delayed, current or mxfp8 with maxtext-2026, "
                                            "written as current\n%s", fp8_recipe_names[recipe],
                                            recipe == FP8_TENSORWISE ? gather : "");
    has(&c, "maxtext", line);
    test_text(lost(&c, "maxtext"), names[recipe] ? "" : loss);
  }
  c.plan.framework = tao; /* whose own recipe the plan does not name */
  c.plan.fp8_recipe = FP8_NONE;
  g_autofree char *lines = g_strdup_printf("fp8_recipe: tensorwise: expected delayed, current or mxfp8 with maxtext-2026, "
                                           "written as current\n%s", gather);
  test_text(lost(&c, "maxtext"), lines);
  c.plan.framework = own;
  plan_set_format(&c.plan, DTYPE_FP4);
  has(&c, "maxtext", "quantization: te_nvfp4\n");
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

TEST_MAIN("export to MaxText", degrees_lie_as_ranks_do, degrees_fill_nodes, states_are_divided, remat_names_what_is_kept,
          experts_lie_beside_shards, shards_divide_widths,
          models_by_name_or_sizes, formats, recipes, kernels_by_format, batches_of_fractions)
