#include "test_export.h"
#include "import/launch.h"

/* ---- whole files ---- */

START_TEST(gpt3_files)
{
  Case c = gpt3();
  for (int i = 0; exporters[i]; i++) {
    g_autofree char *name = g_strdup_printf("gpt3-%s", exporters[i]->name);
    if (!g_str_equal(exporters[i]->name, "nanotron"))
      golden_export(&c, exporters[i]->name, name);
  }
  case_clear(&c);
}
END_TEST

START_TEST(llama_files)
{
  Case c = llama_70b();
  for (int i = 0; exporters[i]; i++) {
    g_autofree char *name = g_strdup_printf("llama-70b-%s", exporters[i]->name);
    golden_export(&c, exporters[i]->name, name);
  }
  case_clear(&c);
}
END_TEST

START_TEST(sharded_files)
{
  Case c = llama_8b_sharded();
  for (int i = 0; exporters[i]; i++) {
    g_autofree char *name = g_strdup_printf("llama-8b-zero3-%s", exporters[i]->name);
    golden_export(&c, exporters[i]->name, name);
  }
  case_clear(&c);
}
END_TEST

START_TEST(launch_lines)
{
  Case cases[] = {gpt3(), llama_70b(), llama_8b_sharded()};
  GString *text = g_string_new(NULL);
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    for (int k = 0; exporters[k]; k++) {
      g_autofree char *line = launch_line(exporters[k], cases[i].model, cases[i].cluster, &cases[i].plan, NULL);
      ck_assert_ptr_null(strchr(line, '\n'));
      ck_assert_ptr_null(strstr(line, "  "));
      g_string_append_printf(text, "%s\n", line);
    }
    case_clear(&cases[i]);
  }
  golden("launch-lines.txt", g_string_free(text, FALSE));
}
END_TEST

/* ---- DeepSpeed ---- */

static JsonDoc *parsed(const Case *c)
{
  g_autofree char *text = exported(c, "deepspeed", NULL);
  GError *error = NULL;
  JsonDoc *doc = json_parse(text, strlen(text), "export", &error);
  ck_assert_msg(doc != NULL, "%s", error ? error->message : "");
  return doc;
}

static double number(const JsonDoc *doc, const char *section, const char *key)
{
  const cJSON *object = section ? json_get(json_root(doc), section) : json_root(doc);
  const cJSON *item = object ? json_get(object, key) : NULL;
  ck_assert_msg(item != NULL, "no %s", key);
  return cJSON_IsBool(item) ? cJSON_IsTrue(item) : item->valuedouble;
}

START_TEST(deepspeed_losses)
{
  Case c = gpt3();
  test_text(lost(&c, "deepspeed"),
            "pipeline_schedule: interleaved: not in DeepSpeed 0.19.6, written as 1f1b\n"
            "virtual_pipeline_model_parallel_size: 2: goes with interleaved, written as 1\n"
            "sequence_parallel: true: DeepSpeed shards no activations by tensor rank, written as false\n"
            "recompute_granularity: selective: DeepSpeed recomputes whole layers, written as none\n"
            "overlap: pipeline: true: DeepSpeed 0.19.6 has no switch for it\n"
            "overlap: tensor: true: DeepSpeed 0.19.6 has no switch for it\n"
            "overlap: gradients: true: DeepSpeed overlaps them under ZeRO and without a pipeline, written as false\n");
  c.plan.overlap = (Overlap) { .parameters = c.plan.overlap.parameters };
  c.plan.zero = 3;
  c.plan.vpp = 1;
  c.plan.schedule = schedule_find("1f1b");
  c.plan.sequence_parallel = FALSE;
  c.plan.recompute = RECOMPUTE_FULL;
  test_text(lost(&c, "deepspeed"), "zero_stage: 3: expected at most 1, which is what deepspeed runs with pipeline "
                                   "stages, written as 1\n");
  g_autoptr(JsonDoc) doc = parsed(&c);
  ck_assert(number(doc, "zero_optimization", "stage") == 1);
  ck_assert(number(doc, "pipeline", "activation_checkpoint_interval") == 1);
  case_clear(&c);
}
END_TEST

START_TEST(deepspeed_batch)
{
  Case c = gpt3();
  g_autoptr(JsonDoc) piped = parsed(&c);
  ck_assert(number(piped, NULL, "train_batch_size") == 1536);
  ck_assert(number(piped, NULL, "train_micro_batch_size_per_gpu") == 1);
  ck_assert(number(piped, NULL, "gradient_accumulation_steps") == 96);
  ck_assert(number(piped, "zero_optimization", "overlap_comm") == 0);

  c.plan.pp = c.plan.vpp = 1;
  c.plan.dp = 128;
  c.plan.zero = 2;
  c.plan.schedule = schedule_find("1f1b");
  g_autoptr(JsonDoc) tensor = parsed(&c);
  ck_assert_ptr_null(json_get(json_root(tensor), "train_batch_size"));
  ck_assert_ptr_null(json_get(json_root(tensor), "pipeline"));
  ck_assert(number(tensor, "tensor_parallel", "autotp_size") == 8);
  ck_assert(number(tensor, "zero_optimization", "stage") == 2);
  ck_assert(number(tensor, "zero_optimization", "overlap_comm") == 1);
  ck_assert(number(tensor, "zero_optimization", "reduce_bucket_size") == 40e6);
  case_clear(&c);
}
END_TEST

START_TEST(deepspeed_formats)
{
  Case c = llama_8b_sharded();
  c.plan.recompute = RECOMPUTE_NONE;
  c.plan.zero = 0;
  test_text(lost(&c, "deepspeed"),
            "overlap: gradients: true: DeepSpeed overlaps them under ZeRO and without a pipeline, written as false\n"
            "framework: test: DeepSpeed accumulates gradients in fp32 under ZeRO only, written as bf16\n");
  has(&c, "deepspeed", "\"grad_accum_dtype\": \"bf16\"");
  c.plan.precision = DTYPE_FP32;
  c.plan.overlap.gradients = FALSE;
  test_text(lost(&c, "deepspeed"), "");
  has(&c, "deepspeed", "\"grad_accum_dtype\": \"fp32\"");
  has_not(&c, "deepspeed", "enabled");
  c.plan.precision = DTYPE_FP16;
  c.plan.overlap.gradients = TRUE;
  c.plan.zero = 1;
  test_text(lost(&c, "deepspeed"), "");
  has(&c, "deepspeed", "\"fp16\": {\n    \"enabled\": true\n  }");
  case_clear(&c);
}
END_TEST

/* ---- torchtitan and others ---- */

START_TEST(torchtitan_losses)
{
  Case c = gpt3();
  test_text(lost(&c, "torchtitan"),
            "pipeline_schedule: interleaved: not in torchtitan v0.2.2, written as interleaved-rounds\n"
            "zero_stage: 1: FSDP2 shards gradients with the optimizer, written as 3\n"
            "zero_optimization: reshard_after_forward: FSDP2 shards gradients with the optimizer, written as "
            "false\n"
            "model: gpt3: torchtitan has no such blocks, written as a Llama flavor to register\n"
            "model: tied embeddings: torchtitan cannot tie them across stages, written as it stands\n"
            "recompute_granularity: selective: torchtitan's own kind keeps attention and every other product\n");
  case_clear(&c);
  c = llama_8b_sharded();
  test_text(lost(&c, "torchtitan"), "");
  c.plan.zero = 0;
  test_text(lost(&c, "torchtitan"), "");
  has(&c, "torchtitan", "data_parallel_replicate_degree = 64\ndata_parallel_shard_degree = 1\n");
  has_not(&c, "torchtitan", "reshard");
  c.plan.tp = 8;
  c.plan.dp = 8;
  c.plan.precision = DTYPE_FP16;
  test_text(lost(&c, "torchtitan"),
            "zero_stage: 0: DDP stands alone only (parallelize.py), written as 3\n"
            "zero_optimization: reshard_after_forward: DDP stands alone only (parallelize.py), written as false\n"
            "precision: fp16: mixed_precision_param takes bfloat16 or float32, written as bf16\n"
            "sequence_parallel: false: its tensor-parallel plans divide rows always, written as true\n");
  case_clear(&c);
}
END_TEST

/* Generations behind that of the file: what they run otherwise is lost. */
START_TEST(torchtitan_generations)
{
  static const char *const rows[][2] = {
    { "torchtitan", "" }, { "torchtitan-2025-11", "" },
    { "torchtitan-2026-05", "framework: torchtitan-2026-05: takes the loss in 8 chunks, and reads Python alone since February "
                            "2026: written for v0.2.2, which takes it at once\n" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
    Case c = llama_8b_sharded();
    g_autoptr(Framework) own = framework_load(rows[i][0], NULL);
    c.plan.framework = own;
    c.plan.zero = 3;
    test_text(lost(&c, "torchtitan"), rows[i][1]);
    test_text(lost(&c, "megatron"), ""); /* no matter to others */
    case_clear(&c);
  }
}
END_TEST

START_TEST(torchtitan_batch_and_stages)
{
  Case c = llama_70b();
  c.plan.micro_batch = 2;
  has(&c, "torchtitan", "local_batch_size = 64\nglobal_batch_size = 512\n");
  has(&c, "torchtitan", "pipeline_parallel_schedule = \"1F1B\"\npipeline_parallel_layers_per_stage = 20\n");
  has(&c, "torchtitan", "pipeline_parallel_microbatch_size = 2\n");
  c.plan.pp = 1;
  c.plan.dp = 32;
  has(&c, "torchtitan", "local_batch_size = 2\nglobal_batch_size = 512\n");
  has_not(&c, "torchtitan", "pipeline_parallel_schedule");
  c.plan.dp = 1;
  c.plan.gpus = 8;
  ck_assert(cluster_resize(c.cluster, 8, NULL));
  test_text(lost(&c, "torchtitan"),
            "precision: bf16: it mixes precisions through FSDP, or autocast where nothing else is parallel "
            "(maybe_enable_amp), written as fp32\n");
  plan_set_format(&c.plan, DTYPE_FP8);
  c.plan.fp8_recipe = FP8_TENSORWISE;
  has(&c, "torchtitan", "# - precision: fp8: it mixes precisions through FSDP");
  has_not(&c, "torchtitan", "float8");
  case_clear(&c);
  c = llama_8b_sharded();
  plan_set_format(&c.plan, DTYPE_FP8);
  c.plan.fp8_recipe = FP8_TENSORWISE; /* the output layer stays in 16 bits */
  has(&c, "torchtitan", "[quantize.linear.float8]\nrecipe_name = \"tensorwise\"\nfilter_fqns = [\"output\"]\n");
  c.plan.wide = (WideBlocks) { 1, 2 };
  has(&c, "torchtitan", "filter_fqns = [\"output\", \"layers.0.\", \"layers.30.\", \"layers.31.\"]\n");
  test_text(lost(&c, "deepspeed"),
            "precision: fp8: expected bf16, fp16 or fp32, deepspeed has no fp8 recipe, written as bf16\n"
            "fp8_recipe: tensorwise: expected bf16, fp16 or fp32, deepspeed has no fp8 recipe, left out\n"
            "num_layers_at_start_in_bf16: 1: expected nothing: precision bf16 has no narrower products, left out\n"
            "num_layers_at_end_in_bf16: 2: expected nothing: precision bf16 has no narrower products, left out\n");
  c.plan.wide.start = 0;
  g_autofree char *to_nanotron = lost(&c, "nanotron");
  ck_assert_ptr_nonnull(strstr(to_nanotron, "precision: fp8: expected bf16, fp16 or fp32, nanotron"));
  ck_assert_ptr_nonnull(strstr(to_nanotron, "num_layers_at_end_in_bf16: 2: expected nothing: precision bf16 has no narrower "
                                            "products, left out\n"));
  case_clear(&c);
  c = case_new("llama-3.1-8b", "hgx-b200", 8);
  c.plan.zero = 3;
  plan_set_format(&c.plan, DTYPE_FP4);
  test_text(lost(&c, "torchtitan"), "precision: fp4: expected bf16, fp16 or fp32, torchtitan has no fp4 recipe, written "
                                    "as bf16\n"); /* its files of 0.2 name none */
  case_clear(&c);
}
END_TEST

/* Each is written under its name, and read as our file of it. */
START_TEST(torchtitan_flavors)
{
  static const struct {
    const char *model, *name, *flavor;
    gboolean written;
  } cases[] = {
    { "llama-3.1-405b", "llama3", "405B", TRUE },    { "qwen3-14b", "qwen3", "14B", TRUE },
    { "qwen3-30b-a3b", "qwen3", "30B-A3B", TRUE },   { "deepseek-v3", "deepseek_v3", "671B", TRUE },
    { "deepseek-v2-lite", "deepseek_v3", "16B", TRUE }, { "llama-3.1-8b", "llama3", "8B_flex", FALSE },
    { "llama-4-scout", "llama4", "17bx16e", FALSE }, { "llama-4-maverick", "llama4", "17bx128e_irope", FALSE },
    { "gpt-oss-120b", "gpt_oss", "120b", FALSE },
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *part = g_strdup_printf("[model]\nname = \"%s\"\nflavor = \"%s\"\n", cases[i].name,
                                            cases[i].flavor);
    g_autofree char *named = g_strdup_printf("\"name\": \"%s\"", cases[i].model);
    g_autoptr(Launch) read = launch_read(part, "x.toml", &(LaunchOptions) { 8 }, NULL);
    ck_assert_ptr_nonnull(strstr(read->model, named));
    if (!cases[i].written)
      continue;
    Case c = case_new(cases[i].model, "dgx-h100", 64);
    has(&c, "torchtitan", part);
    has_not(&c, "torchtitan", "to register");
    case_clear(&c);
  }
  g_autoptr(Launch) other = launch_read("[model]\nname = \"llama4\"\nflavor = \"debugmodel\"\n", "x.toml",
                                        &(LaunchOptions) { 8 }, NULL);
  ck_assert_ptr_null(other->model);
  ck_assert_str_eq(other->unknown_model, "llama4 debugmodel");
}
END_TEST

START_TEST(others)
{
  Case c = gpt3();
  GError *error = NULL;
  test_text(lost(&c, "bridge"), "");
  test_text(lost(&c, "accelerate"),
            "pipeline_schedule: interleaved with 2 chunks a rank: not in accelerate 1.15, "
            "written as 1f1b without chunks\n"
            "recompute_granularity: selective: not in accelerate 1.15, written as none\n");
  ck_assert_ptr_null(export_plan(exporter_find("nanotron"), c.model, c.cluster, &c.plan, NULL, &error));
  test_error(&error, TDP_ERROR_INFEASIBLE, "nanotron: model gpt3: expected a model of Llama's shape, dense and without "
                                           "biases");
  case_clear(&c);
  c = llama_8b_sharded();
  test_text(lost(&c, "accelerate"), "");
  test_text(lost(&c, "nanotron"), "zero_stage: 3: expected at most 1, which is what nanotron-2025 runs, written as "
                                  "1\n");
  case_clear(&c);
}
END_TEST

/* accelerate reads an absent granularity as full and absent context ranks as two. */
START_TEST(accelerate_says_its_defaults)
{
  Case c = llama_70b();
  c.plan.framework = &c.framework;
  test_text(lost(&c, "accelerate"), "");
  has(&c, "accelerate", "  megatron_lm_context_parallel_size: 1\n");
  has(&c, "accelerate", "_granularity: full\n  megatron_lm_recompute_method: block\n"
                        "  megatron_lm_recompute_num_layers: 0\n");
  has(&c, "accelerate", "  megatron_lm_use_rotary_position_embeddings: true\n");
  c.plan.recompute = RECOMPUTE_FULL;
  has(&c, "accelerate", "_method: uniform\n  megatron_lm_recompute_num_layers: 1\n");
  c.plan.scope = (RecomputeScope) { .method = RECOMPUTE_BLOCK, .layers = 7 };
  c.plan.split = (LayerSplit) { 4, { 21, 21, 21, 17 } };
  c.plan.offload.optimizer = STORE_CPU;
  c.plan.overlap.offload = TRUE;
  c.framework.choices = ~0u;
  test_text(lost(&c, "accelerate"), "");
  has(&c, "accelerate", "_method: block\n  megatron_lm_recompute_num_layers: 7\n");
  has(&c, "accelerate", "  megatron_lm_decoder_last_pipeline_num_layers: 17\n");
  has(&c, "accelerate", "  megatron_lm_optimizer_cpu_offload: true\n  megatron_lm_use_precision_aware_optimizer: true\n"
                        "  megatron_lm_overlap_cpu_optimizer_d2h_h2d: true\n");
  c.plan.split = (LayerSplit) { 4, { 21, 20, 20, 19 } };
  test_text(lost(&c, "accelerate"), "layer_split: [21,20,20,19]: not in accelerate 1.15, left out\n");
  case_clear(&c);
}
END_TEST

START_TEST(accelerate_keeps_sequences_whole)
{
  Case c = llama_70b();
  Framework f = framework;

  f.context = 1u << CONTEXT_RING;
  c.plan.framework = &f;
  c.plan.dp = 4;
  c.plan.cp = 2;
  test_text(lost(&c, "accelerate"),
            "data_parallel_size: 4: its loader hands out micro-batches as if these were copies, written as 8\n"
            "context_parallel_size: 2: its loader hands out micro-batches as if these were copies, written as 1\n"
            "cp_comm_type: p2p: its loader hands out micro-batches as if these were copies, left out\n");
  has(&c, "accelerate", "_context_parallel_size: 1\n  megatron_lm_num_micro_batches: 64\n");
  case_clear(&c);
}
END_TEST

/* ---- writing ---- */

START_TEST(lossy_export_is_refused)
{
  Case c = gpt3();
  GError *error = NULL;
  const Exporter *deepspeed = exporter_find("deepspeed");
  g_autofree char *folder = test_directory();
  g_autofree char *path = g_build_filename(folder, "ds.json", NULL);
  g_autofree char *text = exported(&c, "deepspeed", NULL);
  g_autofree char *written = NULL;
  g_autofree char *message = g_strconcat(
    path, ": deepspeed cannot express 7 settings of the plan (--allow-lossy writes the file all the same): "
          "pipeline_schedule: interleaved: not in DeepSpeed 0.19.6, written as 1f1b; "
          "virtual_pipeline_model_parallel_size: 2: goes with interleaved, written as 1; "
          "sequence_parallel: true: DeepSpeed shards no activations by tensor rank, written as false; "
          "recompute_granularity: selective: DeepSpeed recomputes whole layers, written as none; "
          "overlap: pipeline: true: DeepSpeed 0.19.6 has no switch for it; "
          "overlap: tensor: true: DeepSpeed 0.19.6 has no switch for it; "
          "overlap: gradients: true: DeepSpeed overlaps them under ZeRO and without a pipeline, written as false", NULL);

  ck_assert(!export_write(deepspeed, c.model, c.cluster, &c.plan, path, FALSE, &error));
  test_error(&error, TDP_ERROR_INFEASIBLE, message);
  ck_assert(!g_file_test(path, G_FILE_TEST_EXISTS));
  ck_assert(export_write(deepspeed, c.model, c.cluster, &c.plan, path, TRUE, &error));
  ck_assert(g_file_get_contents(path, &written, NULL, NULL));
  ck_assert_str_eq(written, text);
  g_unlink(path);

  ck_assert(export_write(exporter_find("megatron"), c.model, c.cluster, &c.plan, path, FALSE, &error));
  g_unlink(path);
  g_rmdir(folder);
  case_clear(&c);
}
END_TEST

START_TEST(errors)
{
  Case c = gpt3();
  GError *error = NULL;
  c.plan.dp = 8;
  ck_assert_ptr_null(export_plan(exporter_find("megatron"), c.model, c.cluster, &c.plan, NULL, &error));
  test_error(&error, TDP_ERROR_INPUT, "plan: gpus: 1024: expected tensor 8 x pipeline 8 x context 1 x data 8 = 512");
  c.plan.dp = 16;
  ck_assert(!export_write(exporter_find("megatron"), c.model, c.cluster, &c.plan, "/nowhere/x.sh", FALSE, &error));
  ck_assert_int_eq(error->code, TDP_ERROR_RUNTIME);
  g_clear_error(&error);
  ck_assert_ptr_null(exporter_find("Megatron"));
  ck_assert_ptr_null(exporter_find(""));
  case_clear(&c);
}
END_TEST

/* A name must not end the comment that it stands in, nor the string. */
START_TEST(names_stay_in_their_line)
{
  Case c = llama_70b();
  g_free(c.model->name);
  c.model->name = g_strdup("x\n\"; rm -rf /\r#\u2028y\x7f");
  c.model->vocab = 1024;
  has(&c, "megatron", ": x \"; rm -rf / # y  on dgx-h100, 32 nodes x 8 GPUs\n");
  has(&c, "torchtitan", "flavor = \"x\\n\\\"; rm -rf /\\r#\u2028y\\u007f\"\n");
  has(&c, "nanotron", "run: \"x\\n\\\"; rm -rf /\\r#\u2028y\\u007f\"\n");
  case_clear(&c);
}
END_TEST

/* ---- what other programs read ---- */

/* A check in a language that knows the format; passes where it is missing. */
static void read_by(const char *text, const char *first, const char *second, const char *third)
{
  g_autofree char *path = NULL;
  const char *argv[] = {first, second, third, NULL, NULL};
  const char **end = argv;
  int status = 0, file = g_file_open_tmp("tdp-test-XXXXXX", &path, NULL);
  g_autofree char *program = g_find_program_in_path(first);

  ck_assert_int_ge(file, 0);
  g_close(file, NULL);
  ck_assert(g_file_set_contents(path, text, -1, NULL));
  while (*end)
    end++;
  *end = path;
  if (program) {
    ck_assert(g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, NULL, NULL, &status, NULL));
    ck_assert_msg(status == 0, "%s cannot read %s", first, text);
  }
  g_unlink(path);
}

START_TEST(formats_are_valid)
{
  static const char toml[] = "import sys\ntry:\n import tomllib\nexcept ImportError:\n sys.exit(0)\n"
                             "tomllib.load(open(sys.argv[1], 'rb'))";
  static const char yaml[] = "import sys\ntry:\n import yaml\nexcept ImportError:\n sys.exit(0)\n"
                             "yaml.safe_load(open(sys.argv[1]))";
  Case cases[] = {gpt3(), llama_70b(), llama_8b_sharded()};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    const Case *c = &cases[i];
    json_free(parsed(c));
    g_autofree char *script = exported(c, "megatron", NULL);
    g_autofree char *titan = exported(c, "torchtitan", NULL);
    g_autofree char *bridge = exported(c, "bridge", NULL);
    g_autofree char *accelerate = exported(c, "accelerate", NULL);
    g_autofree char *primus = exported(c, "primus", NULL);
    read_by(script, "bash", "-n", NULL);
    read_by(titan, "python3", "-c", toml);
    read_by(bridge, "python3", "-c", yaml);
    read_by(accelerate, "python3", "-c", yaml);
    read_by(primus, "python3", "-c", yaml);
    g_autofree char *maxtext = exported(c, "maxtext", NULL);
    read_by(maxtext, "python3", "-c", yaml);
    if (i > 0) {
      g_autofree char *nanotron = exported(c, "nanotron", NULL);
      read_by(nanotron, "python3", "-c", yaml);
    }
    case_clear(&cases[i]);
  }
}
END_TEST

TEST_MAIN("export", gpt3_files,
          llama_files,
          sharded_files,
          launch_lines,
          deepspeed_losses,
          deepspeed_batch,
          deepspeed_formats,
          torchtitan_losses,
          torchtitan_generations,
          torchtitan_batch_and_stages,
          torchtitan_flavors,
          others,
          accelerate_says_its_defaults,
          accelerate_keeps_sequences_whole,
          lossy_export_is_refused,
          errors,
          names_stay_in_their_line,
          formats_are_valid)
