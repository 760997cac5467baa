/* NeMo 1.x's YAML of GPT models (examples/nlp/language_modeling/conf/megatron_gpt_config.yaml, and what
 * NeMo-Framework-Launcher trains with, @23.11 to 24.07), read as the arguments of Megatron-LM that say the same. */
#include "import/config_launch.h"
#include "import/megatron_launch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MODEL "model."
#define OPTIM "model.optim."
#define ROUNDS_MAX 64 /* names of a value that stand for others */

static gboolean recognises(const Settings *s)
{
  return settings_find(s, MODEL "tensor_model_parallel_size") && settings_find(s, MODEL "micro_batch_size") &&
         settings_find(s, "trainer.precision");
}

/* ---- interpolations of OmegaConf ---- */

/* Where "${NAME}" of a setting stands: behind a dot beside it, one step up for each further dot, and the launcher's
 * root is the file. */
static char *place_of(const char *path, const char *name)
{
  g_autofree char *above = g_strdup(path);

  if (*name != '.')
    return g_strdup(g_str_has_prefix(name, "training.") ? name + strlen("training.") : name);
  for (; *name == '.'; name++)
    above[strrchr(above, '.') ? strrchr(above, '.') - above : 0] = '\0';
  return *above ? g_strdup_printf("%s.%s", above, name) : g_strdup(name);
}

/* The launcher's functions of two numbers; NULL = none of them. */
static char *computed(const char *call)
{
  char name[16];
  double a, b;

  if (sscanf(call, "%15[a-z_]:%lf,%lf", name, &a, &b) != 3)
    return NULL;
  double value = g_str_equal(name, "multiply") ? a * b : g_str_equal(name, "divide_floor") ? floor(a / b)
               : g_str_equal(name, "divide_ceil") ? ceil(a / b) : NAN;
  return isfinite(value) ? g_strdup_printf("%.0f", value) : NULL;
}

/* A value with what its innermost names say; what is not there stays. */
static char *filled(const Settings *s, const Setting *one, const GRegex *inner)
{
  char *value = g_strdup(one->value);

  for (int i = 0; i < ROUNDS_MAX; i++) {
    g_autoptr(GMatchInfo) match = NULL;
    if (!g_regex_match(inner, value, 0, &match))
      break;
    g_autofree char *whole = g_match_info_fetch(match, 0), *name = g_match_info_fetch(match, 1);
    g_autofree char *place = place_of(one->path, name);
    const Setting *told = settings_last(s, place);
    g_autofree char *new = told ? g_strdup(told->value) : computed(name);
    if (!new || strlen(value) > 4096)
      break;
    GString *next = g_string_new(value);
    g_string_replace(next, whole, new, 1);
    g_free(value);
    value = g_string_free(next, FALSE);
  }
  return value;
}

static Settings *choose(ConfigReading *r)
{
  g_autoptr(GRegex) inner = g_regex_new("\\$\\{([^${}]+)\\}", G_REGEX_RAW, 0, NULL);
  Settings *own = settings_new();

  for (guint i = 0; i < r->from->list->len; i++) {
    const Setting *one = r->from->list->pdata[i];
    settings_add_as(own, one->path, filled(r->from, one, inner), one);
  }
  return own;
}

/* ---- as arguments ---- */

static void put(GString *line, const char *name, const char *value)
{
  g_autofree char *flag = argument_flag(name), *word = g_shell_quote(value);

  g_string_append_printf(line, " %s%s%s", flag, *value ? " " : "", *value ? word : "");
}

/* The argument of a setting of the model; NULL where it has none, or one that is put elsewhere. */
static const char *argument_of(const char *key)
{
  static const char *const renamed[][2] = {
    { "encoder_seq_length", "seq_length" },
    { "virtual_pipeline_model_parallel_size", "num_virtual_stages_per_pipeline_rank" },
    { "layernorm_epsilon", "norm_epsilon" }, { "rotary_percentage", "rotary_percent" },
    { "num_moe_experts", "num_experts" }, { "ub_tp_comm_overlap", "tp_comm_overlap" }, { "qkv_bias", "add_qkv_bias" },
    { "fp8_params", "fp8_param_gather" },
    { "activations_checkpoint_granularity", "recompute_granularity" }, { "override_vocab_size", "vocab_size" },
  };
  static const char *const same[] = {
    "micro_batch_size", "global_batch_size", "tensor_model_parallel_size", "pipeline_model_parallel_size",
    "context_parallel_size", "expert_model_parallel_size", "sequence_parallel", "num_layers", "hidden_size",
    "ffn_hidden_size", "num_attention_heads", "kv_channels", "make_vocab_size_divisible_by", "rotary_base",
    "hidden_dropout", "attention_dropout", "num_query_groups", "position_embedding_type",
    "rampup_batch_size", "max_position_embeddings", "window_size", NULL };

  for (gsize i = 0; i < G_N_ELEMENTS(renamed); i++)
    if (g_str_equal(key, renamed[i][0]))
      return renamed[i][1];
  return g_strv_contains(same, key) || g_str_has_prefix(key, "moe_") ? key : NULL;
}

static void put_attributes(ConfigReading *r, GString *line)
{
  for (guint i = 0; i < r->from->list->len; i++) {
    const Setting *one = r->from->list->pdata[i];
    const char *key = g_str_has_prefix(one->path, MODEL) ? one->path + strlen(MODEL) : "";
    const char *name = argument_of(key);
    int truth = config_word(one->value);
    if ((truth == FALSE && !g_str_has_suffix(key, "_fusion")) || !*one->value || g_str_equal(one->value, "null"))
      settings_find(r->from, one->path); /* says nothing */
    if (!name || !settings_find(r->from, one->path) || truth == FALSE)
      continue;
    g_autofree char *lower = g_ascii_strdown(one->value, -1); /* "ALiBi" */
    g_auto(GStrv) parts = g_strsplit(lower, *lower == '[' ? " " : "\n", -1); /* one word */
    g_autofree char *word = g_strjoinv("", parts);
    put(line, name, truth == TRUE ? "" : word);
  }
}

static gboolean expect(ConfigReading *r, const char *path, const char *const *words, const char *expected)
{
  const char *text = settings_text(r->from, path);
  g_autofree char *lower = g_ascii_strdown(text, -1);

  return !*text || g_strv_contains(words, lower) || launch_fail(&r->to, "%s: %s: expected %s", path, text, expected);
}

/* Kinds of blocks, with NeMo's defaults. */
static void put_model(ConfigReading *r, GString *line)
{
  static const char *const norms[] = { "layernorm", "layernorm1p", "low_precision_layernorm", "rmsnorm", NULL };
  static const char *const plain[] = { "gelu", "approx-gelu", "swiglu", "fast-swiglu", "squared-relu", NULL };
  const Settings *s = r->from;
  const char *activation = settings_text(s, MODEL "activation"), *norm = settings_text(s, MODEL "normalization");

  expect(r, MODEL "normalization", norms, "layernorm, layernorm1p or rmsnorm");
  expect(r, MODEL "activation", plain, "gelu, swiglu, fast-swiglu or squared-relu");
  if (g_str_has_suffix(activation, "swiglu"))
    put(line, "swiglu", "");
  if (g_str_equal(activation, "squared-relu"))
    put(line, "squared_relu", "");
  if (g_ascii_strcasecmp(norm, "rmsnorm") == 0)
    put(line, "normalization", "RMSNorm");
  if (!config_true(r, MODEL "bias", TRUE))
    put(line, "disable_bias_linear", "");
  if (!config_true(r, MODEL "share_embeddings_and_output_weights", TRUE))
    put(line, "untie_embeddings_and_output_weights", "");
  if (settings_find(s, MODEL "num_query_groups"))
    put(line, "group_query_attention", "");
  if (!settings_find(s, MODEL "ffn_hidden_size")) /* gated or not */
    g_string_append_printf(line, " --ffn-hidden-size %" G_GINT64_FORMAT,
                           4 * (gint64)config_int(r, MODEL "hidden_size", 0));
  if (!settings_find(s, MODEL "encoder_seq_length"))
    put(line, "seq_length", settings_text(s, MODEL "data.seq_length"));
  const char *library = settings_text(s, MODEL "tokenizer.library"), *type = settings_text(s, MODEL "tokenizer.type");
  if (g_str_equal(library, "huggingface"))
    put(line, "tokenizer_model", type);
  put(line, "tokenizer_type", g_str_equal(library, "huggingface") ? "HuggingFaceTokenizer" : *type ? type : library);
}

/* Only whole layers are counted. */
static void put_recompute(ConfigReading *r, GString *line)
{
  const char *method = settings_text(r->from, MODEL "activations_checkpoint_method");
  int layers = config_int(r, MODEL "activations_checkpoint_num_layers", 1);

  if (!g_str_equal(settings_text(r->from, MODEL "activations_checkpoint_granularity"), "full"))
    return;
  put(line, "recompute_method", *method ? method : "uniform");
  g_string_append_printf(line, " --recompute-num-layers %d", layers);
}

static void put_offloading(ConfigReading *r, GString *line)
{
  if (config_true(r, MODEL "cpu_offloading", FALSE))
    g_string_append_printf(line, " --cpu-offloading-num-layers %d",
                           config_int(r, MODEL "cpu_offloading_num_layers", 0));
  else
    settings_find(r->from, MODEL "cpu_offloading_num_layers");
}

/* Apex's optimizer sends gradients while it computes unless it is told not to; Megatron Core's if it is told. */
static void put_optimizer(ConfigReading *r, GString *line)
{
  static const char *const known[] = { "fused_adam", "adam", "adamw", "distributed_fused_adam",
                                       "mcore_distributed_optim", NULL };
  const char *name = settings_text(r->from, OPTIM "name");
  gboolean apex = g_str_equal(name, "distributed_fused_adam"), core = g_str_equal(name, "mcore_distributed_optim");

  expect(r, OPTIM "name", known, "fused_adam, distributed_fused_adam or mcore_distributed_optim");
  if (apex || core)
    put(line, "use_distributed_optimizer", "");
  if (config_true(r, OPTIM "overlap_grad_sync", apex) && (apex || core))
    put(line, "overlap_grad_reduce", "");
  if (config_true(r, OPTIM "overlap_param_sync", FALSE) && (apex || core))
    put(line, "overlap_param_gather", "");
  if (g_str_equal(settings_text(r->from, OPTIM "grad_sync_dtype"), "bf16"))
    put(line, "grad_reduce_in_bf16", "");
}

static void put_precision(ConfigReading *r, GString *line)
{
  static const char *const known[] = { "bf16", "bf16-mixed", "16", "16-mixed", "32", "32-true", NULL };
  const char *text = settings_text(r->from, "trainer.precision");
  gboolean bf16 = g_str_has_prefix(text, "bf16"), fp16 = g_str_has_prefix(text, "16");
  gboolean wide = !config_true(r, MODEL "megatron_amp_O2", FALSE);
  gboolean e4m3 = config_true(r, MODEL "fp8_e4m3", FALSE);

  expect(r, "trainer.precision", known, "bf16, bf16-mixed, 16, 16-mixed or 32");
  if (bf16 || fp16)
    put(line, bf16 ? "bf16" : "fp16", "");
  if ((bf16 || fp16) && wide)
    launch_assume(&r->to, MODEL "megatron_amp_O2: false: simulated as true: weights that are kept in fp32 and made narrow "
                  "in each product are not");
  if (config_true(r, MODEL "fp8", FALSE) && config_true(r, MODEL "transformer_engine", FALSE))
    put(line, "fp8_format", e4m3 ? "e4m3" : "hybrid");
  if (!config_true(r, MODEL "overlap_p2p_comm", FALSE))
    put(line, "no_overlap_p2p_communication", "");
}

/* What no model of text alone has, or no plan. */
static gboolean check(ConfigReading *r)
{
  static const char *const others[] = {
    MODEL "mm_cfg.vision_encoder.from_pretrained", MODEL "mm_cfg.llm.from_pretrained", MODEL "img_h", MODEL "patch_dim",
    MODEL "bert_binary_head", MODEL "vision_pretraining_type", MODEL "peft.peft_scheme", MODEL "encoder.hidden_size",
    MODEL "retro.retro_num_neighbors", MODEL "kd_teacher_restore_from_path",
    MODEL "gated_linear_unit" /* Griffin's and Mamba's */ };

  for (gsize i = 0; i < G_N_ELEMENTS(others); i++)
    if (settings_last(r->from, others[i]))
      return launch_fail(&r->to, "%s: expected nothing: models of NeMo other than GPT's pretraining are not read",
                         others[i]);
  if (strstr(settings_text(r->from, MODEL "name"), "hyena"))
    return launch_fail(&r->to, MODEL "name: %s: expected blocks of attention", settings_text(r->from, MODEL "name"));
  if (g_str_equal(settings_text(r->from, MODEL "transformer_block_type"), "normformer"))
    return launch_fail(&r->to, MODEL "transformer_block_type: normformer: expected pre_ln or post_ln");
  if (config_true(r, MODEL "headscale", FALSE))
    return launch_fail(&r->to, MODEL "headscale: true: expected false: scales of heads are not simulated");
  if (config_true(r, MODEL "fsdp", FALSE))
    return launch_fail(&r->to, MODEL "fsdp: true: expected false: FSDP beside Megatron's degrees is not simulated");
  if (!settings_find(r->from, MODEL "hidden_size") || !settings_find(r->from, MODEL "num_layers"))
    return launch_fail(&r->to, MODEL "hidden_size, num_layers: expected both: a checkpoint's model is not read");
  return TRUE;
}

/* Blocks of NeMo's own, or Megatron Core's. */
static const char *framework_of(ConfigReading *r)
{
  gboolean core = config_true(r, MODEL "mcore_gpt", FALSE) || config_true(r, MODEL "transformer_engine", FALSE);

  return r->framework ? r->framework : core ? "nemo-2024-05" : "nemo-2022";
}

static gboolean read_both(ConfigReading *r)
{
  g_autoptr(GString) line = g_string_new("torchrun pretrain_gpt.py");
  gint64 gpus = (gint64)config_int(r, "trainer.devices", 0) * config_int(r, "trainer.num_nodes", 1);

  if (r->to.failed || !check(r))
    return FALSE;
  put_attributes(r, line);
  put_model(r, line);
  put_recompute(r, line);
  put_offloading(r, line);
  put_optimizer(r, line);
  put_precision(r, line);
  if (r->to.failed)
    return FALSE;
  g_autoptr(Arguments) a = arguments_of_line(line->str);
  Reading reading = { .from = a, .framework = framework_of(r), .gpus = r->gpus > 0 ? r->gpus : (int)MIN(gpus, G_MAXINT),
                      .asked = r->gpus > 0, .to = r->to };
  r->to.out->model = megatron_model(&reading);
  gboolean read = r->to.out->model && megatron_plan(&reading);
  r->to.failed = reading.to.failed;
  megatron_name_others(a, NULL, r->to.out);
  return read;
}

static const SettingGroup groups[] = {
  { FALSE, "checkpoints, data, evaluation, logs and names",
    { "name", "run.*", "defaults*", "hydra.*", "exp_manager.*", "restore_from*", "trainer.*", MODEL "data.*",
      MODEL "tokenizer.*", MODEL "nsys_profile.*", MODEL "resume_from*", MODEL "seed", MODEL "gc_interval", MODEL "memory_profile.*",
      MODEL "dist_ckpt*", MODEL "torch_dist*", MODEL "inspect*", MODEL "target", NULL } },
  { FALSE, "initialization, learning rate and other constants",
    { "!" OPTIM "*_sync*", "!" OPTIM "*buffer", "!" OPTIM "*dtype", "!" OPTIM "bucket*", OPTIM "*",
      MODEL "init_method*", MODEL "use_scaled_init*", MODEL "layernorm_zero*", MODEL "do_layer_norm*",
      MODEL "native_amp*", MODEL "hysteresis", MODEL "pre_process", MODEL "post_process", MODEL "headscale",
      MODEL "transformer_block_type", MODEL "attention_type", MODEL "normalize_attention*",
      MODEL "seq_len_interpolation*", MODEL "onnx_safe", MODEL "use_cpu*", MODEL "apex_*", MODEL "fp8_hybrid",
      "!" MODEL "activations_checkpoint_layers*", MODEL "activations_checkpoint_*", MODEL "ffn_dropout",
      MODEL "hidden_dropout", MODEL "attention_dropout",
      MODEL "scale_positional*", MODEL "rotary*", MODEL "position_embedding_type", NULL } },
  { TRUE, "kernels, buckets and communication beside the plan's keys",
    { MODEL "*", NULL } },
  { .about = NULL },
};

const ConfigTool config_nemo = {
  .tool = "nemo",
  .title = "NeMo 1 configuration",
  .parse = settings_yaml,
  .recognises = recognises,
  .chosen = choose,
  .read = read_both,
  .groups = groups,
};
