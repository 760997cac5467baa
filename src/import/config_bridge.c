/* Megatron-Bridge's recipes: Python functions that start from _pretrain_common() (@067f987df, recipes/common.py) and set
 * attributes, most of which are Megatron Core's. They are read as the arguments of Megatron-LM that say the same. */
#include "import/config_launch.h"
#include "import/megatron_launch.h"
#include "model/model.h"
#include "plan/bridge.h"

#include <string.h>

#define BASE "_pretrain_common"
#define LIBRARY "nemo-2026-08-library"
#define PRECISION "mixed_precision"
#define OVERLAPS_SHARED "model.moe_shared_expert_overlap"
#define TARGET "._target_"
#define SENDS "apply_flex_dispatcher_backend" /* training/flex_dispatcher_backend.py */

/* Whether it is a function that fills in a model's and a training's attributes. */
static gboolean is_recipe(const Settings *s, const Setting *one)
{
  static const char *const parts[] = { "model", "train", "ddp", "dataset" };
  gboolean config = g_str_has_suffix(one->value, "_config") || g_str_equal(one->value, BASE);
  int n = 0;

  for (gsize i = 0; i < G_N_ELEMENTS(parts) && config && !strpbrk(one->path, ".:"); i++) {
    g_autofree char *prefix = g_strdup_printf("%s.%s.", one->path, parts[i]);
    for (guint k = 0; k < s->list->len; k++)
      if (g_str_has_prefix(((const Setting *)s->list->pdata[k])->path, prefix)) {
        n++;
        break;
      }
  }
  return n >= 2;
}

static gboolean recognises(const Settings *s)
{
  for (guint i = 0; i < s->list->len; i++)
    if (is_recipe(s, s->list->pdata[i]))
      return TRUE;
  return FALSE;
}

/* Its settings, behind what it starts from, as they are called here: those that say nothing are left out. */
static Settings *choose(ConfigReading *r)
{
  const char *function = config_function(r, is_recipe);
  const char *start = function ? settings_text(r->from, function) : "";

  if (!function)
    return NULL;
  if (!g_str_equal(start, BASE)) {
    launch_fail(&r->to, "%s: starts from %s(), which is not in this file: expected " BASE "(), or a function of the same "
                "file that starts from it", function, start);
    return NULL;
  }
  g_autoptr(Settings) all = config_function_settings(r, function);
  g_autofree char *calls = g_strconcat(function, SETTINGS_CALLS, NULL);
  Settings *own = settings_new();
  settings_add(own, "recipe", g_strdup(function), 0, 0);
  for (guint i = 0; i < all->list->len; i++) {
    const Setting *one = all->list->pdata[i];
    if (!g_str_equal(one->value, "None"))
      settings_add_as(own, one->path, g_strdup(one->value), one);
  }
  for (guint i = 0; i < r->from->list->len; i++) {
    const Setting *one = r->from->list->pdata[i];
    if (g_str_equal(one->path, calls) && g_str_equal(one->value, SENDS))
      settings_add(own, SENDS, g_strdup("true"), 0, 0);
    else if (g_str_equal(one->path, calls))
      launch_assume(&r->to, "%s: calls %s: what that changes is not read", function, one->value);
  }
  return own;
}

/* ---- as arguments ---- */

typedef struct {
  ConfigReading *from;
  GString *line; /* of Megatron-LM */
} Line;

static void put(Line *l, const char *name, const char *value)
{
  g_autofree char *flag = argument_flag(name), *alike = g_strdup(value);
  g_autofree char *word = g_shell_quote(g_strdelimit(alike, "\"", '\'')); /* lists of names have quotes of either kind */

  g_string_append_printf(l->line, " %s%s%s", flag, *value ? " " : "", *value ? word : "");
}

static void put_number(Line *l, const char *name, int value)
{
  g_autofree char *text = g_strdup_printf("%d", value);

  put(l, name, text);
}

/* The argument that an attribute is named as; NULL where none is, or what it says stands nowhere in a plan. */
static const char *argument_of(const char *path)
{
  static const char *const parts[] = { "model.", "train.", "ddp.", "optimizer.", "comm_overlap.", "dist." };
  static const char *const renamed[][2] = {
    { "model.num_layers_in_first_pipeline_stage", "decoder_first_pipeline_num_layers" },
    { "model.num_layers_in_last_pipeline_stage", "decoder_last_pipeline_num_layers" },
    { "ddp.bucket_size", "ddp_bucket_size" }, { "ddp.average_in_collective", "ddp_average_in_collective" },
  };
  static const char *const own[] = { "model.pipeline_dtype", "model.params_dtype", "model.use_te_rng_tracker",
                                     "model.bias_activation_fusion", "model.apply_rope_fusion", "model.0", "model.1",
                                     "model.revision", "model.trust_remote_code", "model.rotary_base", NULL };

  for (gsize i = 0; i < G_N_ELEMENTS(renamed); i++)
    if (g_str_equal(path, renamed[i][0]))
      return renamed[i][1];
  if (g_strv_contains(own, path))
    return NULL;
  for (gsize i = 0; i < G_N_ELEMENTS(parts); i++)
    if (g_str_has_prefix(path, parts[i]) && !strchr(path + strlen(parts[i]), '.'))
      return path + strlen(parts[i]);
  return NULL;
}

/* What the recipe does not say and those of Megatron-LM would have otherwise (recipes/common.py). */
static void put_usual(Line *l)
{
  static const char *const usual[][2] = {
    { "train.global_batch_size", "32" }, { "train.micro_batch_size", "2" }, { "ddp.overlap_grad_reduce", "" },
    { "ddp.overlap_param_gather", "" }, { "ddp.use_distributed_optimizer", "" },
    { "ddp.data_parallel_sharding_strategy", "optim_grads_params" },
  };
  const Settings *s = l->from->from;

  for (gsize i = 0; i < G_N_ELEMENTS(usual); i++)
    if (!settings_last(s, usual[i][0]))
      put(l, argument_of(usual[i][0]), usual[i][1]);
  const Setting *seq = settings_find(s, "dataset.seq_length");
  if (!settings_last(s, "model.seq_length"))
    put(l, "seq_length", seq ? seq->value : "4096");
}

/* Attributes that are said elsewhere, or mean nothing by themselves. */
static gboolean stands_apart(ConfigReading *r, const char *name, const char *path)
{
  static const char *const apart[] = { "grad_reduce_in_fp32", "main_grads_dtype", "num_layers", "num_moe_experts", NULL };
  static const char *const formats[] = { "exp_avg_dtype", "exp_avg_sq_dtype", "main_params_dtype", NULL };
  static const char *const exchange[] = { "model.moe_token_dispatcher_type", OVERLAPS_SHARED, NULL };
  gboolean precise = config_true(r, "optimizer.use_precision_aware_optimizer", FALSE);

  return g_strv_contains(apart, name) || (!precise && g_strv_contains(formats, name)) ||
         (g_strv_contains(exchange, path) && settings_find(r->from, SENDS));
}

/* Whether Python has to run to say what it is: it is neither text, number, truth, list nor torch's name of a format. */
static gboolean is_computed(const Setting *one)
{
  static const char plain[] = "^(true|false|-?[0-9][0-9_.e+-]*|torch\\.\\w+|\\[[^a-zA-Z_]*\\]|"
                              "\\[\\s*([\"'][^\"']*[\"'][\\s,]*)*\\]|\\[\\s*\\[.*)$";

  return one->bare && !g_regex_match_simple(plain, one->value, G_REGEX_DOTALL, 0);
}

static void put_attributes(Line *l)
{
  ConfigReading *r = l->from;

  for (guint i = 0; i < r->from->list->len; i++) {
    const Setting *one = r->from->list->pdata[i];
    const char *name = argument_of(one->path);
    if (name)
      settings_find(r->from, one->path);
    if (!name || stands_apart(r, name, one->path))
      continue;
    if (is_computed(one))
      launch_assume(&r->to, "%s: %s: computed: as if nothing said it", one->path, one->value);
    else if (g_str_equal(one->path, "model.pipeline_model_parallel_layout") && *one->value == '[')
      launch_assume(&r->to, "model.pipeline_model_parallel_layout: a list: equal stages are taken");
    else if (!g_str_equal(one->value, "false"))
      put(l, name, g_str_equal(one->value, "true") ? "" : one->value);
  }
}

/* What the function makes of a backend: one of flex, beside which shared experts do not run. Without one it does
 * nothing. */
static void put_exchange(Line *l)
{
  const Settings *s = l->from->from;
  const char *backend = settings_text(s, "model.moe_flex_dispatcher_backend");
  const char *kind = settings_text(s, "model.moe_token_dispatcher_type");
  gboolean shared = config_true(l->from, OVERLAPS_SHARED, FALSE);

  if (!settings_find(s, SENDS))
    return;
  put(l, "moe_token_dispatcher_type", *backend ? "flex" : *kind ? kind : "alltoall");
  if (shared && !*backend)
    put(l, "moe_shared_expert_overlap", "");
}

/* Functions that make both optimizer and schedule of the learning rate (recipes/utils/optimizer_utils.py). */
static void put_optimizer(Line *l)
{
  ConfigReading *r = l->from;
  const char *made = settings_text(r->from, "optimizer");

  if (!*made || g_str_equal(made, "distributed_fused_adam_with_cosine_annealing"))
    return;
  if (!g_str_equal(made, "distributed_muon_with_cosine_annealing"))
    launch_assume(&r->to, "optimizer: %s: not known: Adam is taken, with what is set of it", made);
  else if (!settings_last(r->from, "optimizer.optimizer"))
    put(l, "optimizer", "dist_muon");
}

/* ---- formats ---- */

static const char *const scale_words[FP8_COUNT] = { [FP8_DELAYED] = "delayed", [FP8_CURRENT] = "tensorwise",
                                                    [FP8_BLOCKWISE] = "blockwise", [FP8_MXFP8] = "mxfp8" };

static void put_narrow(Line *l, const BridgeRecipe *b)
{
  gboolean four = b->scales == FP8_NVFP4;
  gboolean gathers = config_true(l->from, four ? PRECISION ".fp4_param_gather" : PRECISION ".fp8_param_gather", b->gathers);
  gboolean ends = config_true(l->from, PRECISION ".first_last_layers_bf16", b->wide.start || b->wide.end);

  put(l, four ? "fp4_format" : "fp8_format", four ? "e2m1" : "hybrid");
  if (!four)
    put(l, "fp8_recipe", scale_words[b->scales]);
  if (gathers)
    put(l, four ? "fp4_param_gather" : "fp8_param_gather", "");
  if (!ends)
    return;
  put(l, "first_last_layers_bf16", "");
  put_number(l, "num_layers_at_start_in_bf16",
             config_int(l->from, PRECISION ".num_layers_at_start_in_bf16", b->wide.start));
  put_number(l, "num_layers_at_end_in_bf16", config_int(l->from, PRECISION ".num_layers_at_end_in_bf16", b->wide.end));
}

/* The name of a recipe as text, whose words may be joined by '-', or of the function that makes it, or what
 * get_mixed_precision_config() is given; newly allocated. */
static char *precision_of(const Settings *s)
{
  const char *given = settings_text(s, PRECISION ".0"), *told = settings_text(s, PRECISION);

  return g_strdelimit(g_strdup(*given ? given : *told ? told : "bf16_mixed"), "-", '_');
}

static gboolean is_half(const char *precision)
{
  return g_str_has_prefix(precision, "fp16");
}

static void put_precision(Line *l)
{
  ConfigReading *r = l->from;
  g_autofree char *name = precision_of(r->from);
  gboolean half = is_half(name);
  gboolean known = g_str_equal(name, "bf16_mixed") || g_str_equal(name, "fp16_mixed");

  known |= g_str_equal(name, "MixedPrecisionConfig") && !*settings_text(r->from, PRECISION ".fp8"); /* of its own words */

  put(l, half ? "fp16" : "bf16", "");
  for (gsize i = 0; i < bridge_recipes_count; i++)
    if (g_str_equal(bridge_recipes[i].name, name)) {
      put_narrow(l, &bridge_recipes[i]);
      known = TRUE;
    }
  if (!known)
    launch_assume(&r->to, PRECISION ": %s: not known: simulated as %s_mixed", name, half ? "fp16" : "bf16");
}

/* Those of mixed_precision are the last word, which of fp16 are not wide, but under Megatron-FSDP, which does not read
 * them: gradients lie in buffers of that format, whatever main_grads_dtype says (Megatron Core,
 * distributed_data_parallel.py). */
static void put_gradients(Line *l)
{
  const Settings *s = l->from->from;
  g_autofree char *precision = precision_of(s);
  gboolean precise = config_true(l->from, "optimizer.use_precision_aware_optimizer", FALSE), half = is_half(precision);
  gboolean wide = config_true(l->from, PRECISION ".grad_reduce_in_fp32", !half);

  settings_find(s, "ddp.grad_reduce_in_fp32");
  if (config_true(l->from, "ddp.use_megatron_fsdp", FALSE))
    return;
  if (!precise)
    put(l, "use_precision_aware_optimizer", "");
  put(l, "main_grads_dtype", wide ? "fp32" : half ? "fp16" : "bf16");
}

/* ---- the model ---- */

static int most_experts(const Model *m)
{
  int most = 0;

  for (int i = 0; i < m->n_specs; i++)
    most = MAX(most, m->specs[i].ffn.experts);
  return most;
}

/* What AutoBridge.from_hf_pretrained() is given, "" where nothing is made so. */
static const char *hub_name(const Settings *s)
{
  for (guint i = 0; i < s->list->len; i++) {
    const Setting *one = s->list->pdata[i];
    g_autofree char *given = g_strconcat(one->path, ".0", NULL);
    if (g_str_has_prefix(one->path, "model") && g_str_has_suffix(one->value, "from_hf_pretrained"))
      return settings_text(s, given);
  }
  return "";
}

/* Ours of the hub's name, where one is; of the rest what a plan asks for. */
static void put_model(Line *l)
{
  ConfigReading *r = l->from;
  const char *hub = hub_name(r->from);
  g_autofree char *path = *hub ? megatron_hub_model(hub) : NULL;
  g_autoptr(Model) model = path ? model_load(path, NULL) : NULL;
  gboolean divided = config_int(r, "model.expert_model_parallel_size", 1) > 1;
  int layers = config_int(r, "model.num_layers", model ? model->blocks : 0);
  int further = config_int(r, "model.mtp_num_layers", model ? model->mtp : 0);

  if (model && further != model->mtp)
    launch_assume_open(&r->to, "--model", "model.mtp_num_layers: %d: simulated with the %d of %s", further, model->mtp,
                       model->name);
  if (model && layers == model->blocks && g_file_get_contents(path, &r->to.out->model, NULL, NULL)) {
    put_number(l, "num_layers", layers);
    if (most_experts(model) > 0)
      put_number(l, "num_experts", most_experts(model));
    return;
  }
  const char *named = *hub ? hub : settings_text(r->from, "model");
  r->to.out->unknown_model = *named ? g_strdup(named) : NULL;
  launch_assume(&r->to, "model: %s%s (--model)", *named ? named : "not told",
                *named ? ": not among the models of this program" : "");
  if (layers > 0)
    put_number(l, "num_layers", layers);
  if (divided || settings_find(r->from, "model.num_moe_experts"))
    put_number(l, "num_experts", MAX(2, config_int(r, "model.num_moe_experts", 2)));
}

/* "llama3_8b_pretrain_2gpu_h100_bf16_config" */
static int gpus_of(const char *function)
{
  g_autoptr(GRegex) regex = g_regex_new("_(\\d{1,6})gpu_", 0, 0, NULL);
  g_autoptr(GMatchInfo) match = NULL;

  if (!g_regex_match(regex, function, 0, &match))
    return 0;
  g_autofree char *number = g_match_info_fetch(match, 1);
  return (int)g_ascii_strtoll(number, NULL, 10);
}

/* Elementwise kernels are fused where the recipe says so, as those for performance do. */
static const char *framework_of(ConfigReading *r)
{
  static const char *const kernels[] = { "model.bias_activation_fusion", "model.apply_rope_fusion" };
  gboolean fused[G_N_ELEMENTS(kernels)], all = TRUE;

  for (gsize i = 0; i < G_N_ELEMENTS(kernels); i++)
    all &= fused[i] = config_true(r, kernels[i], FALSE);
  for (gsize i = 0; i < G_N_ELEMENTS(kernels); i++)
    if (fused[i] && !all && !r->framework)
      launch_assume_open(&r->to, "--framework nemo-2026-08", "%s: true: simulated as false, as the other of %s and %s is",
                         kernels[i], kernels[0], kernels[1]);
  return r->framework ? r->framework : all ? "nemo-2026-08" : LIBRARY;
}

static gboolean read_recipe(ConfigReading *r)
{
  g_autoptr(GString) text = g_string_new("torchrun pretrain_gpt.py");
  Line l = { r, text };

  put_model(&l);
  put_usual(&l);
  put_attributes(&l);
  put_exchange(&l);
  put_optimizer(&l);
  put_precision(&l);
  put_gradients(&l);
  if (r->to.failed)
    return FALSE;
  g_autoptr(Arguments) a = arguments_of_line(text->str);
  Reading reading = { .from = a, .framework = framework_of(r), .gpus = r->gpus, .asked = r->gpus > 0,
                      .to = r->to };
  if (r->gpus <= 0)
    reading.gpus = gpus_of(settings_text(r->from, "recipe"));
  if (reading.gpus > 0 && r->gpus <= 0)
    launch_assume_open(&r->to, "--gpus", "gpus: %d: as the recipe's name has it", reading.gpus);
  gboolean read = megatron_plan(&reading);
  r->to.failed = reading.to.failed;
  megatron_name_others(a, NULL, r->to.out);
  return read;
}

/* ---- changes ---- */

/* As Python writes what YAML says; NULL: it is of a form of YAML's own. */
static char *python_of(const Setting *one, const char *yaml)
{
  g_autofree char *raw = g_strndup(yaml + one->first, one->end - one->first);
  char *rest = NULL;

  g_ascii_strtod(raw, &rest);
  if (g_str_equal(raw, "null"))
    return g_strdup("None");
  if (g_str_equal(raw, "true") || g_str_equal(raw, "false"))
    return g_strdup(*raw == 't' ? "True" : "False");
  if ((rest != raw && !*rest) || *raw == '"')
    return g_steal_pointer(&raw);
  if (*raw != '[')
    return g_strdup_printf("\"%s\"", raw);
  g_autoptr(GRegex) words = g_regex_new("[A-Za-z_]\\w*", 0, 0, NULL);
  return g_regex_replace(words, raw, -1, 0, "\"\\0\"", 0, NULL);
}

/* Of a format that the overrides have as an object to be made ("KEY._target_: torch.float32"), its KEY; else NULL. */
static char *format_key(const Setting *one)
{
  gboolean format = g_str_has_suffix(one->path, TARGET) && g_str_has_prefix(one->value, "torch.");

  return format ? g_strndup(one->path, strlen(one->path) - strlen(TARGET)) : NULL;
}

/* Whether it is as the function has it. */
static gboolean says_already(const Setting *own, const char *python)
{
  gsize quoted = *python == '"';

  return own ? strncmp(own->value, python + quoted, strlen(python) - 2 * quoted) == 0 &&
               strlen(own->value) == strlen(python) - 2 * quoted
             : g_str_equal(python, "None");
}

/* One setting of the function as the overrides have it; with `yaml` NULL as if nothing said it. */
static void change_one(ConfigReading *r, char **text, const char *function, const Setting *one, const char *yaml,
                       GPtrArray *notes)
{
  const char *gone = g_str_equal(one->value, "true") ? "False" : "None";
  g_autofree char *format = format_key(one);
  g_autofree char *python = !yaml ? g_strdup(gone) : format ? g_strdup(one->value) : python_of(one, yaml);
  const char *key = format ? format : one->path;
  g_autofree char *path = g_strdup_printf("%s.%s", function, key);
  gsize quoted = *python == '"';
  g_autofree char *value = g_strndup(python + quoted, strlen(python) - 2 * quoted);
  gboolean made = strstr(key, "._") || g_str_has_prefix(key, "peft") || g_str_equal(key, PRECISION);

  if (says_already(settings_last(r->from, path), python) || g_str_has_suffix(key, "._call_"))
    return;
  char *next = made ? NULL : settings_python_set(*text, function, key, python, value, PYTHON_IN_PLACE);
  g_autofree char *what = g_strdup_printf("%s: %s = %s", function, key, python);
  if (next) {
    g_free(*text);
    *text = next;
  } else {
    config_note(notes, what);
  }
}

static void change(ConfigReading *r, char **text, const char *before, const char *after, GPtrArray *notes)
{
  g_autoptr(Settings) was = settings_yaml(before), is = settings_yaml(after);
  const char *function = config_function(r, is_recipe);

  for (guint i = 0; function && i < is->list->len; i++) {
    const Setting *one = is->list->pdata[i], *old = settings_last(was, one->path);
    if (!old || !g_str_equal(old->value, one->value))
      change_one(r, text, function, one, after, notes);
  }
  for (guint i = 0; function && i < was->list->len; i++) { /* apply_flex_dispatcher_backend() reads what stays, too */
    const Setting *one = was->list->pdata[i];
    if (!settings_last(is, one->path))
      change_one(r, text, function, one, NULL, notes);
  }
}

static const SettingGroup groups[] = {
  { FALSE, "data, tokenizer, checkpoints, logs and environment",
    { PRECISION ".bf16", PRECISION ".*_dtype", PRECISION ".autocast*", "recipe", "dataset*", "tokenizer*", "checkpoint*",
      "logger*", "env_vars*", "validation*", "rng*", "rerun_state_machine*", "profiling*", "nvrx_straggler*", "dist",
      "train", "ddp", "optimizer", "model", "comm_overlap", PRECISION, SENDS, "model.*", NULL } },
  { FALSE, "learning rate and other constants", { "scheduler*", "optimizer.*", NULL } },
  { TRUE, "formats other than the software's usual ones", { PRECISION ".*", NULL } },
  { .about = NULL },
};

const ConfigTool config_bridge = {
  .tool = "bridge",
  .title = "Megatron-Bridge recipe",
  .parse = settings_python,
  .recognises = recognises,
  .chosen = choose,
  .read = read_recipe,
  .groups = groups,
  .change = change,
  .line = "def ",
};
