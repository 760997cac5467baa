/* torchtitan's TOML of other years, settings that were told elsewhere then, and generations that Python is of. */
#include "main.h"

#include "import/launch.h"

#include <string.h>

#define MODEL "[model]\nname = \"llama3\"\nflavor = \"8B\"\n"
#define OP "[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = \"op\"\n"

/* As train_configs/llama3_405b.toml of December 2024 has its sections. */
#define DECEMBER_2024(training, experimental) \
  MODEL "[training]\nbatch_size = 8\nseq_len = 8192\nwarmup_steps = 200\ndata_parallel_replicate_degree = 2\n" \
  "data_parallel_shard_degree = -1\ntensor_parallel_degree = 2\n" training \
  "[experimental]\ncontext_parallel_degree = 2\npipeline_parallel_degree = 2\n" experimental OP

static char *all_of(GPtrArray *lines)
{
  GString *text = g_string_new(NULL);

  for (guint i = 0; i < lines->len; i++)
    g_string_append_printf(text, "%s\n", (char *)lines->pdata[i]);
  return g_string_free(text, FALSE);
}

static const struct {
  const char *text, *plan[8], *assumed;
} early[] = {
  { DECEMBER_2024("compile = true\n", "enable_async_tensor_parallel = true\n"),
    { "\"tensor_model_parallel_size\": 2", "\"pipeline_model_parallel_size\": 2", "\"context_parallel_size\": 2",
      "\"data_parallel_size\": 4", "\"shard_group_size\": 4", "\"tp_comm_overlap\": true",
      "\"framework\": \"torchtitan-2024-compile\"", "\"micro_batch_size\": 4" }, "" },
  { DECEMBER_2024("", "pipeline_parallel_microbatches = 8\npipeline_parallel_schedule = \"interleaved1f1b\"\n"),
    { "\"micro_batch_size\": 1", "\"interleaved-rounds\"", "\"virtual_pipeline_model_parallel_size\": 2",
      "\"framework\": \"torchtitan-2024-eager\"" }, "" },
  { DECEMBER_2024("", "pipeline_parallel_split_points = [\"layers.8\", \"layers.15\", \"layers.23\"]\n"
                  "pipeline_parallel_schedule = \"Interleaved1F1B\"\n"),
    { "\"layer_split\": [8, 7, 8, 9]", "\"virtual_pipeline_model_parallel_size\": 2", "\"micro_batch_size\": 2" }, "" },
  { DECEMBER_2024("", "pipeline_parallel_schedule = \"Chimera\"\n"), { "\"pipeline_model_parallel_size\": 2" },
    "pipeline_parallel_schedule: Chimera: simulated as 1F1B\n" },
  { DECEMBER_2024("", "pipeline_parallel_microbatches = 3\n"), { "\"micro_batch_size\": 2" },
    "training.batch_size: 8: expected a multiple of the 3 micro-batches\n" },
  { DECEMBER_2024("", "[float8]\nenable_float8_linear = true\nenable_fsdp_float8_all_gather = true\n"),
    { "\"precision\": \"fp8\"" }, "" },
  { MODEL "[training]\nbatch_size = 1\ntensor_parallel_degree = 1\ndata_parallel_degree = -1\n"
    "data_parallel_type = \"ddp\"\n" OP,
    { "\"zero_stage\": 0", "\"data_parallel_size\": 16" }, "" },
  /* of April to August 2025: degrees have their section, the rest has not */
  { MODEL "[training]\nbatch_size = 4\ncompile = true\n[parallelism]\ntensor_parallel_degree = 4\n" OP,
    { "\"tensor_model_parallel_size\": 4", "\"micro_batch_size\": 4", "\"framework\": \"torchtitan\"" }, "" },
  /* and where both stand, today's counts */
  { MODEL "[training]\nbatch_size = 4\nlocal_batch_size = 2\ntensor_parallel_degree = 4\n"
    "[parallelism]\ntensor_parallel_degree = 8\n[compile]\nenable = true\n" OP,
    { "\"tensor_model_parallel_size\": 8", "\"micro_batch_size\": 2", "\"framework\": \"torchtitan\"" }, "" },
};

START_TEST(early_files_say_their_plan)
{
  g_autoptr(Launch) l = launch_read(early[_i].text, "x.toml", &(LaunchOptions) { .gpus = _i < 6 ? 32 : 16 }, NULL);

  ck_assert(l != NULL);
  for (int k = 0; k < 8 && early[_i].plan[k]; k++)
    ck_assert_msg(strstr(l->plan, early[_i].plan[k]) != NULL, "%s: %s", early[_i].plan[k], l->plan);
  g_autofree char *assumed = all_of(l->assumed);
  ck_assert_str_eq(assumed, early[_i].assumed);
  ck_assert_uint_eq(l->unknown->len, _i == 8); /* the degree that another one overrules */
}
END_TEST

/* Models that it has no more. */
START_TEST(early_models_are_known)
{
  static const char *const flavors[] = { "7B", "13B", "70B" };
  static const char *const names[] = { "llama-2-7b", "llama-2-13b", "llama-2-70b" };
  g_autofree char *text = g_strdup_printf("[model]\nname = \"llama2\"\nflavor = \"%s\"\n[training]\n"
                                          "tensor_parallel_degree = 1\ncompile = false\n[compile]\nenable = true\n",
                                          flavors[_i]);
  g_autoptr(Launch) l = launch_read(text, "x.toml", &(LaunchOptions) { 8 }, NULL);

  ck_assert_ptr_null(l->unknown_model);
  ck_assert_ptr_nonnull(strstr(l->model, names[_i]));
  ck_assert_uint_eq(l->unknown->len, 0);
}
END_TEST

/* What was experimental and is not read may matter; what it names of the user's code does not. */
START_TEST(experiments_are_said)
{
  static const char text[] = DECEMBER_2024("enable_loss_parallel = true\n",
                                           "enable_compiled_autograd = true\ncustom_import = \"x\"\n");
  g_autoptr(Launch) l = launch_read(text, "x.toml", &(LaunchOptions) { .gpus = 32 }, NULL);
  g_autofree char *beyond = all_of(l->not_simulated), *ignored = all_of(l->ignored);

  ck_assert_msg(strstr(beyond, "training.enable_loss_parallel, experimental.enable_compiled_autograd") != NULL, "%s",
                beyond);
  ck_assert_msg(strstr(ignored, "experimental.custom_import") != NULL, "%s", ignored);
}
END_TEST

/* A wrong value is named where it stands. */
START_TEST(early_errors_name_the_key)
{
  static const char text[] = MODEL "[training]\ntensor_parallel_degree = two\n";
  GError *error = NULL;

  ck_assert_ptr_null(launch_read(text, "x.toml", &(LaunchOptions) { 8 }, &error));
  ck_assert_str_eq(error->message, "x.toml: training.tensor_parallel_degree: two: expected a whole number");
  g_error_free(error);
}
END_TEST

/* Split points are rising layers of the model. */
START_TEST(wrong_splits_are_named)
{
  static const char *const splits[] = { "[\"layers.16\", \"layers.8\"]", "[\"layers.99\"]" };
  g_autofree char *told = g_strconcat("pipeline_parallel_split_points = ", splits[_i], "\n", NULL);
  g_autofree char *text = g_strconcat(DECEMBER_2024("", ""), "[experimental]\n", told, NULL);
  GError *error = NULL;

  ck_assert_ptr_null(launch_read(text, "x.toml", &(LaunchOptions) { 32 }, &error));
  ck_assert_msg(g_str_has_prefix(error->message, "x.toml: experimental.pipeline_parallel_split_points: [") &&
                g_str_has_suffix(error->message, ": expected layers in order, below the model's 32"), "%s", error->message);
  g_error_free(error);
}
END_TEST

/* Changes are made where the setting stands; where its old place is not known they are said. */
START_TEST(early_files_are_changed)
{
  g_autoptr(GPtrArray) left = g_ptr_array_new_with_free_func(g_free);
  char *changed = launch_change(
    DECEMBER_2024("", ""), "x.toml", NULL, "[parallelism]\ntensor_parallel_degree = 2\npipeline_parallel_degree = 2\n",
    "[parallelism]\ntensor_parallel_degree = 8\npipeline_parallel_degree = 4\nexpert_parallel_degree = 2\n", left);
  g_autofree char *expected = g_strdup(DECEMBER_2024("", ""));

  strstr(expected, "tensor_parallel_degree = 2")[strlen("tensor_parallel_degree = ")] = '8';
  strstr(expected, "pipeline_parallel_degree = 2")[strlen("pipeline_parallel_degree = ")] = '4';
  test_text(changed, expected);
  ck_assert_uint_eq(left->len, 1);
  ck_assert_str_eq(left->pdata[0], "parallelism.expert_parallel_degree: 2: no place in the file: write it yourself");
}
END_TEST

#define CONVERTED(flavor, converters) \
  "[model]\nname = " flavor "\nconverters = [" converters "]\n[training]\nlocal_batch_size = 1\n[compile]\n" \
  "enable = true\n" OP
#define LLAMA "\"llama3\"\nflavor = \"8B\""
#define DEEPSEEK "\"deepseek_v3\"\nflavor = \"16B\""
#define TRAINED(training, rest) MODEL "[training]\nlocal_batch_size = 1\n" training "[compile]\nenable = true\n" rest

/* What changes time or memory and is simulated otherwise is said, and what no table names is not passed over. */
static const struct {
  const char *text, *plan, *assumed;
} said[] = {
  { TRAINED("", OP), "\"recompute_granularity\": \"selective\"", "" },
  { TRAINED("dtype = \"bfloat16\"\n", OP), "\"precision\": \"bf16\"",
    "training.dtype: bfloat16: weights, gradients and moments are simulated in fp32, as with float32\n" },
  { TRAINED("dtype = \"float32\"\n", OP), "\"precision\": \"bf16\"", "" },
  { TRAINED("", "[activation_checkpoint]\nmode = \"memory_budget\"\nmemory_budget = 0.3\n"),
    "\"recompute_granularity\": \"selective\"", "activation_checkpoint.mode: memory_budget: simulated as selective: "
    "what the compiler keeps within a budget is not known\n" },
  { TRAINED("enable_cpu_offload = true\n", OP),
    "\"offload\": {\n    \"optimizer\": \"cpu\",\n    \"parameters\": \"cpu\"\n", "" },
  { TRAINED("enable_cpu_offload = true\n", "[parallelism]\nfsdp_reshard_after_forward = \"never\"\n" OP),
    "\"zero_stage\": 3,\n  \"zero_optimization\": {\n    \"reshard_after_forward\": false\n  },\n"
    "  \"offload\": {\n    \"optimizer\": \"cpu\",\n    \"parameters\": \"cpu\"\n", "" },
  { TRAINED("", "[parallelism]\npipeline_parallel_degree = 2\n" OP), "\"reshard_after_forward\": false", "" },
  { CONVERTED(LLAMA, "\"quantize.linear.float8\""), "\"precision\": \"fp8\"", "" },
  { CONVERTED(LLAMA, "\"float8\""), "\"precision\": \"fp8\"", "" },
  { CONVERTED(LLAMA, "\"mx\""), "\"fp8_recipe\": \"mxfp8\"", "" }, /* v0.1.0 */
  { CONVERTED(LLAMA, "\"mine\""), "\"precision\": \"bf16\"", "model.converters: mine: not simulated\n" },
  { CONVERTED(DEEPSEEK, "\"quantize.grouped_mm.float8\""), "\"precision\": \"bf16\"",
    "model.converters: quantize.grouped_mm.float8: products of experts are simulated in the format of all others\n" },
  { CONVERTED(LLAMA, "\"quantize.grouped_mm.mx\""), "\"precision\": \"bf16\"", "" },
  { CONVERTED(DEEPSEEK, "\"quantize.linear.mx\""), "\"precision\": \"fp8\"",
    "model.converters: none of grouped_mm: products of experts are simulated in the linear layers' format\n" },
  { CONVERTED(DEEPSEEK, "\"quantize.linear.mx\", \"quantize.grouped_mm.mx\""), "\"precision\": \"fp8\"", "" },
  { MODEL "[training]\nlocal_batch_size = 1\n[compile]\nenable = true\ncomponents = [\"loss\"]\n" OP, "",
    "compile.components: without model: simulated as if it were compiled, as torchtitan's own runs are\n" },
  { MODEL "[training]\nlocal_batch_size = 1\n[compile]\nenable = true\ncomponents = [\"model\", \"loss\"]\n" OP, "",
    "" },
};

/* An optimizer that steps inside backwards holds no gradients, and one without fused kernels takes longer. */
START_TEST(optimizers_that_matter_are_said)
{
  g_autoptr(Launch) l = launch_read(MODEL "[training]\nlocal_batch_size = 1\n[compile]\nenable = true\n[optimizer]\n"
                                    "lr = 1e-4\nimplementation = \"for-loop\"\nearly_step_in_backward = true\n" OP,
                                    "x.toml", &(LaunchOptions) { .gpus = 16 }, NULL);

  ck_assert_uint_eq(l->not_simulated->len, 1);
  ck_assert_str_eq(l->not_simulated->pdata[0], "kernels, buckets and formats other than the software's usual ones: "
                                        "optimizer.implementation, optimizer.early_step_in_backward");
  g_autoptr(Launch) usual = launch_read(MODEL "[training]\nlocal_batch_size = 1\n[compile]\nenable = true\n"
                                        "[optimizer]\nimplementation = \"fused\"\n"
                                        "early_step_in_backward = false\n" OP, "x.toml",
                                        &(LaunchOptions) { .gpus = 16 }, NULL);
  ck_assert_uint_eq(usual->not_simulated->len + usual->unknown->len, 0);
}
END_TEST

START_TEST(what_is_left_is_said)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(Launch) l = launch_read(said[_i].text, "x.toml", &(LaunchOptions) { .gpus = 16 }, &error);

  ck_assert_msg(l != NULL, "%s", error ? error->message : "");
  g_autofree char *assumed = all_of(l->assumed);
  ck_assert_msg(strstr(l->plan, said[_i].plan) != NULL, "%s", l->plan);
  test_text(g_steal_pointer(&assumed), said[_i].assumed);
  ck_assert_uint_eq(l->unknown->len, 0);
}
END_TEST

static gboolean says_loss(const Launch *l)
{
  for (guint i = 0; i < l->assumed->len; i++)
    if (g_str_has_prefix(l->assumed->pdata[i], "loss: "))
      return TRUE;
  return FALSE;
}

/* A loss in chunks, and what goes with it, is of torchtitan since April 2026; another is taken at once. Functions
 * that count tokens are of a later generation. */
START_TEST(losses_are_read)
{
  static const char *const rows[][3] = {
    { "loss=ChunkedLossWrapper.Config(loss_fn=CrossEntropyLoss.Config()),", "\"framework\": \"torchtitan-2026-05\"" },
    { "loss=ChunkedCELoss.Config(),", "\"framework\": \"torchtitan-2026-05\"" },
    { "loss=CrossEntropyLoss.Config(),", "\"framework\": \"torchtitan\"" },
    { "", "\"framework\": \"torchtitan\"" },
    { "loss=ChunkedLossWrapper.Config(),", "\"framework\": \"torchtitan-2026-09\"", ", max_context_length=4096" },
    { "loss=CrossEntropyLoss.Config(),", "\"framework\": \"torchtitan-2026-09\"", ", num_tokens_per_train_step=524288" },
    { "loss=ChunkedLossWrapper.Config(),", "\"framework\": \"torchtitan-2026-05\"", ", seq_len=4096" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
    g_autofree char *text = g_strdup_printf("def llama3_8b() -> Trainer.Config:\n    return Trainer.Config(%s\n"
                                            "        model_spec=model_registry(\"8B\"),\n"
                                            "        training=TrainingConfig(disable_cuda_graphs=True%s))\n", rows[i][0],
                                            rows[i][2] ? rows[i][2] : "");
    g_autoptr(Launch) l = launch_read(text, "llama3/c.py", &(LaunchOptions) { 64 }, NULL);
    g_autoptr(Launch) asked = launch_read(text, "llama3/c.py", &(LaunchOptions) { 64, "torchtitan-2025-11" }, NULL);
    ck_assert_ptr_nonnull(l);
    ck_assert_msg(strstr(l->plan, rows[i][1]) != NULL, "%s", l->plan);
    ck_assert_uint_eq(l->unknown->len, 0);
    gboolean later = strstr(rows[i][1], "2026-09") != NULL, whole = !strstr(rows[i][0], "Chunked");
    ck_assert_int_eq(says_loss(l), later && whole);
    ck_assert_int_eq(says_loss(asked), FALSE); /* software that is asked for may take it whole */
  }
}
END_TEST

TEST_LOOPS("launch-torchtitan", { early_files_say_their_plan, G_N_ELEMENTS(early) }, { early_models_are_known, 3 },
           { experiments_are_said, 1 }, { early_errors_name_the_key, 1 }, { wrong_splits_are_named, 2 },
           { early_files_are_changed, 1 },
           { what_is_left_is_said, G_N_ELEMENTS(said) }, { optimizers_that_matter_are_said, 1 },
           { losses_are_read, 1 })
