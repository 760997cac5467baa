/* Primus's experiments (v26.5.1, @fd1eeabb): overrides of Megatron-LM's arguments by the names that its logs list them
 * under, on top of a module's file and a model's, each of which extends others. */
#include "base/files.h"
#include "import/config_launch.h"
#include "import/megatron_flags.h"
#include "import/megatron_launch.h"
#include "model/model.h"

#include <string.h>

#define MODULES "modules."
#define TRAINER MODULES "pre_trainer."
#define OVERRIDES TRAINER "overrides."
#define MODELS "primus/configs/models/megatron"
#define CHAIN_MAX 16 /* files that extend one another */

/* What pre_trainer.yaml and language_model.yaml set, where a list that lacks it would be read otherwise. */
static const char usual[] =
  " --bf16 --fp8-recipe delayed --optimizer adam --micro-batch-size 2 --global-batch-size 16 --seq-length 1024"
  " --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --swiglu --untie-embeddings-and-output-weights"
  " --position-embedding-type learned_absolute --sequence-parallel --use-distributed-optimizer --overlap-p2p-comm"
  " --num-layers-at-start-in-bf16 1 --num-layers-at-end-in-bf16 1 --moe-router-topk 2"
  " --moe-token-dispatcher-type allgather";

/* Files of Primus that set nothing but defaults. */
static const char *const bases[] = { "language_model.yaml", "primus_megatron_model.yaml", NULL };

/* Truths that hold where nothing is set, and the argument of their contrary. */
static const char *const held[][2] = {
  { "masked_softmax_fusion", "no_masked_softmax_fusion" }, { "bias_gelu_fusion", "no_bias_gelu_fusion" },
  { "bias_swiglu_fusion", "no_bias_swiglu_fusion" }, { "bias_dropout_fusion", "no_bias_dropout_fusion" },
  { "apply_rope_fusion", "no_rope_fusion" }, { "gradient_accumulation_fusion", "no_gradient_accumulation_fusion" },
  { "async_tensor_model_parallel_allreduce", "no_async_tensor_model_parallel_allreduce" },
  { "scatter_gather_tensors_in_pipeline", "no_scatter_gather_tensors_in_pipeline" },
  { "align_param_gather", "no_align_param_gather" }, { "fp8_wgrad", "no_fp8_wgrad" },
  { "add_position_embedding", "no_position_embedding" },
};

static gboolean recognises(const Settings *s)
{
  for (guint i = 0; i < s->list->len; i++) {
    const char *path = ((const Setting *)s->list->pdata[i])->path;
    if (g_str_has_prefix(path, MODULES) && g_str_has_suffix(path, "_trainer.framework"))
      return TRUE;
  }
  return FALSE;
}

/* ---- variables: "${NAME}" and "${NAME:usual}" ---- */

typedef struct {
  const char *const *given;
  GHashTable *asked; /* names that the file asks for */
} Variables;

static gboolean fill_in(const GMatchInfo *match, GString *out, gpointer data)
{
  const Variables *v = data;
  g_autofree char *whole = g_match_info_fetch(match, 0), *name = g_match_info_fetch(match, 1);
  g_autofree char *told = g_match_info_fetch(match, 2);
  const char *given = launch_variable(v->given, name);

  g_string_append(out, given ? given : *told == ':' ? told + 1 : whole);
  g_hash_table_add(v->asked, g_steal_pointer(&name));
  return FALSE;
}

/* The file's settings with its variables filled in. */
static Settings *choose(ConfigReading *r)
{
  g_autoptr(GRegex) regex = g_regex_new("\\$\\{(\\w+)(:[^}]*)?\\}", G_REGEX_RAW, 0, NULL);
  g_autoptr(GHashTable) asked = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  Variables variables = { r->given, asked };
  Settings *own = settings_new();

  for (guint i = 0; i < r->from->list->len; i++) {
    const Setting *one = r->from->list->pdata[i];
    settings_add_as(own, one->path, g_regex_replace_eval(regex, one->value, -1, 0, 0, fill_in, &variables, NULL), one);
  }
  for (int i = 0; r->given && r->given[i]; i++) {
    g_autofree char *name = g_strndup(r->given[i], strcspn(r->given[i], "="));
    if (!g_hash_table_contains(asked, name))
      launch_assume(&r->to, "--script-args: %s: nothing in the file asks for it", r->given[i]);
  }
  return own;
}

/* ---- as a list of arguments ---- */

typedef struct {
  GString *line;  /* words behind a program, of which the last of a name counts */
  Settings *told; /* by name, what files say: it is said again where nothing reads it */
} List;

static gboolean is_none(const char *value)
{
  return !*value || g_str_equal(value, "~") || g_ascii_strcasecmp(value, "null") == 0 || g_str_equal(value, "[]");
}

/* "[a, 'b']" as words. */
static void put_items(GString *line, const char *list)
{
  g_auto(GStrv) items = g_strsplit_set(list, "[], \"'", -1);

  for (int i = 0; items[i]; i++) {
    g_autofree char *word = g_shell_quote(items[i]);
    if (*items[i])
      g_string_append_printf(line, " %s", word);
  }
}

/* Marks of layers one by one stay one word, without blanks. use_flash_attn is what pre_trainer.yaml has: it chooses
 * nothing, as attention_backend does. */
static void put(List *l, const char *key, const char *value)
{
  g_autofree char *name = argument_flag(g_str_equal(key, "fp4_param") ? "fp4_param_gather" : key);
  g_autofree char *flag = g_shell_quote(name);
  gboolean marks = g_str_has_suffix(key, "_freq");
  g_auto(GStrv) parts = g_strsplit(value, marks ? " " : "\n", -1);
  g_autofree char *joined = g_strjoinv("", parts), *word = g_shell_quote(joined);

  g_string_append_printf(l->line, " %s", flag);
  if (is_none(value) || g_str_equal(key, "use_flash_attn"))
    g_string_append(l->line, " None");
  else if (config_word(value) == FALSE)
    g_string_append(l->line, " False");
  else if (*value == '[' && !marks)
    put_items(l->line, value);
  else if (config_word(value) != TRUE)
    g_string_append_printf(l->line, " %s", word);
}

/* What a file of settings has below a path. */
static void put_settings(List *l, const Settings *s, const char *below)
{
  gsize length = strlen(below);

  for (guint i = 0; i < s->list->len; i++) {
    Setting *one = s->list->pdata[i];
    const char *key = one->path + length;
    if (strncmp(one->path, below, length) != 0)
      continue;
    one->read = TRUE;
    if (strchr(key, '.') || g_str_equal(key, "extends"))
      continue;
    put(l, key, one->value);
    settings_add(l->told, key, g_strdup(one->value), 0, 0);
  }
}

/* A model's file behind those that it extends; FALSE where one is not there, as where there is no folder of them. */
static gboolean put_model_file(List *l, const char *folder, const char *name, int depth)
{
  g_autofree char *path = folder ? g_build_filename(folder, name, NULL) : NULL;
  gsize length;
  g_autofree char *text = path && depth < CHAIN_MAX ? files_read(path, &length, NULL) : NULL;

  if (g_strv_contains(bases, name))
    return TRUE;
  if (!text)
    return FALSE;
  g_autoptr(Settings) s = settings_yaml(text);
  g_auto(GStrv) words = g_strsplit_set(settings_text(s, "extends"), "[], ", -1);
  for (int i = 0; words[i]; i++)
    if (*words[i] && !put_model_file(l, folder, words[i], depth + 1))
      return FALSE;
  put_settings(l, s, "");
  return TRUE;
}

/* Primus's models, where the file lies in a checkout of it; NULL = it does not. Newly allocated. */
static char *models_folder(const char *file)
{
  g_autofree char *at = g_canonicalize_filename(file, NULL);

  for (char *slash = strrchr(at, '/'); slash; slash = strrchr(at, '/')) {
    *slash = '\0';
    g_autofree char *folder = g_build_filename(at, MODELS, NULL);
    if (g_file_test(folder, G_FILE_TEST_IS_DIR))
      return g_steal_pointer(&folder);
  }
  return NULL;
}

/* Ours of the name of a file of Primus, "llama3.1_8B.yaml". */
static char *our_model(const char *name)
{
  g_autoptr(GRegex) family = g_regex_new("^(llama|grok|glm)(?=\\d)", G_REGEX_RAW | G_REGEX_CASELESS, 0, NULL);
  g_autofree char *stem = g_strdelimit(g_strndup(name, strcspn(name, "/")), "_", '-');

  if (g_str_has_suffix(stem, ".yaml"))
    stem[strlen(stem) - strlen(".yaml")] = '\0';
  g_autofree char *hub = g_regex_replace(family, stem, -1, 0, "\\1-", 0, NULL);
  return megatron_hub_model(hub);
}

static const FeedForward *most_experts(const Model *m)
{
  const FeedForward *most = &m->specs[0].ffn;

  for (int i = 0; i < m->n_specs; i++)
    if (m->specs[i].ffn.experts > most->experts)
      most = &m->specs[i].ffn;
  return most;
}

static gboolean is_latent(const Model *m)
{
  for (int i = 0; i < m->n_specs; i++)
    if (m->specs[i].attention.kv_lora_rank > 0)
      return TRUE;
  return FALSE;
}

/* Whether an override makes it another model than that of its name, or may do so. */
static gboolean is_changed(ConfigReading *r, const Model *model)
{
  static const char *const parts[] = {
    "hidden_size", "ffn_hidden_size", "num_attention_heads", "num_query_groups", "kv_channels", "num_experts",
    "moe_ffn_hidden_size", "moe_layer_freq", "moe_shared_expert_intermediate_size", "vocab_size", "window_size",
    "q_lora_rank", "kv_lora_rank", "qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim", "qk_layernorm" };
  static const char *const common[][2] = { /* of nearly all that we have */
    { "swiglu", "true" }, { "untie_embeddings_and_output_weights", "true" }, { "group_query_attention", "true" },
    { "add_bias_linear", "false" }, { "normalization", "RMSNorm" }, { "position_embedding_type", "rope" } };
  const FeedForward *ffn = most_experts(model);
  gboolean changed = config_int(r, OVERRIDES "num_layers", model->blocks) != model->blocks ||
                     config_int(r, OVERRIDES "mtp_num_layers", model->mtp) != model->mtp ||
                     config_int(r, OVERRIDES "moe_router_topk", ffn->experts_per_token) != ffn->experts_per_token ||
                     config_true(r, OVERRIDES "multi_latent_attention", is_latent(model)) != is_latent(model);

  for (gsize i = 0; i < G_N_ELEMENTS(parts); i++) {
    g_autofree char *path = g_strconcat(OVERRIDES, parts[i], NULL);
    changed |= !is_none(settings_text(r->from, path));
  }
  for (gsize i = 0; i < G_N_ELEMENTS(common); i++) {
    g_autofree char *path = g_strconcat(OVERRIDES, common[i][0], NULL);
    const char *text = settings_text(r->from, path);
    changed |= !is_none(text) && g_ascii_strcasecmp(text, common[i][1]) != 0;
  }
  return changed;
}

/* Where Primus's file of the model is not at hand. Those of experts send them by alltoall. */
static void put_our_model(ConfigReading *r, List *l, const char *name)
{
  g_autofree char *path = our_model(name);
  g_autoptr(Model) model = path ? model_load(path, NULL) : NULL;
  if (!model || is_changed(r, model) || !g_file_get_contents(path, &r->to.out->model, NULL, NULL)) {
    launch_assume(&r->to, TRAINER "model: %s: neither in a checkout of Primus around the file nor among the models of "
                  "this program (--model)", name);
    r->to.out->unknown_model = g_strdup(name);
    return;
  }
  launch_assume_open(&r->to, "--model", TRAINER "model: %s: as %s: Primus's file of it is not at hand", name,
                     model->name);
  g_string_append_printf(l->line, " --num-layers %d", model->blocks);
  if (most_experts(model)->experts > 0)
    g_string_append_printf(l->line, " --num-experts %d --moe-token-dispatcher-type alltoall --moe-grouped-gemm",
                           most_experts(model)->experts);
}

/* What its patches of dispatchers set (patches/turbo/moe_dispatcher_patches.py, args/rocm_arg_validation.py). */
static void put_dispatcher(ConfigReading *r, List *l)
{
  gboolean turbo = config_true(r, OVERRIDES "enable_primus_turbo", FALSE);
  gboolean deepep = config_true(r, OVERRIDES "use_turbo_deepep", FALSE);
  int stage = config_int(r, OVERRIDES "turbo_sync_free_moe_stage", 0);

  if (turbo && (deepep || stage >= 2))
    g_string_append(l->line, " --moe-token-dispatcher-type flex --moe-enable-deepep");
  if (turbo && stage >= 1)
    g_string_append(l->line, " --moe-permute-fusion");
}

/* ---- what is left ---- */

/* The argument of a setting that nobody read; NULL where it is a default. */
static const char *left_name(const Setting *one)
{
  int word = config_word(one->value);

  for (gsize i = 0; i < G_N_ELEMENTS(held) && word >= 0; i++)
    if (g_str_equal(one->path, held[i][0]))
      return word ? NULL : held[i][1];
  return word == FALSE || is_none(one->value) ? NULL : one->path;
}

static void name_left(const Arguments *a, const Settings *told, Launch *out)
{
  g_autoptr(GHashTable) read = g_hash_table_new(g_str_hash, g_str_equal);
  g_autoptr(GPtrArray) left = g_ptr_array_new();

  g_hash_table_add(read, "use_turbo_deepep");
  for (guint i = 0; i < a->arguments->len; i++)
    if (((const Argument *)a->arguments->pdata[i])->read)
      g_hash_table_add(read, ((const Argument *)a->arguments->pdata[i])->name);
  for (guint i = 0; i < told->list->len; i++) {
    const Setting *one = told->list->pdata[i];
    const char *name = settings_last(told, one->path) == one && !g_hash_table_contains(read, one->path) ? left_name(one)
                                                                                                       : NULL;
    if (name)
      g_ptr_array_add(left, (char *)name);
  }
  launch_name_groups(megatron_flag_groups, left, NULL, out);
}

/* Arguments that are of a model which another file tells are read, too. */
static void pass_model(const Reading *reading)
{
  g_autoptr(Launch) nobody = launch_new();
  Reading r = *reading;

  r.to = (LaunchReading) { .file = reading->to.file, .out = nobody };
  g_free(megatron_model(&r));
}

static gboolean expect(ConfigReading *r, const char *path, const char *wanted)
{
  const char *text = settings_text(r->from, path);

  return g_str_equal(text, wanted) ||
         launch_fail(&r->to, "%s: %s: expected %s", path, *text ? text : "not told", wanted);
}

static gboolean is_mamba(const Settings *told)
{
  return g_str_equal(settings_text(told, "model_type"), "mamba");
}

/* Models that are Primus's own, whose layers no argument of Megatron-LM tells. */
static gboolean check_model(ConfigReading *r, const Settings *told)
{
  const char *type = settings_text(told, "model_type"), *spec = settings_text(told, "spec");

  if (*type && !g_str_equal(type, "gpt") && !is_mamba(told))
    return launch_fail(&r->to, "model_type: %s: expected gpt or mamba", type);
  if (strstr(spec, "primus.") && !strstr(spec, ".mamba_layer_specs"))
    return launch_fail(&r->to, "spec: %s: expected layers of Megatron-LM itself", spec);
  if (settings_find(told, "lfm_layer_types"))
    return launch_fail(&r->to, "lfm_layer_types: expected nothing, as convolutions of LFM are not simulated");
  return !r->to.failed;
}

static gboolean read_experiment(ConfigReading *r)
{
  g_autoptr(GString) text = g_string_new(usual);
  g_autoptr(Settings) told = settings_new();
  const char *name = settings_text(r->from, TRAINER "model");
  g_autofree char *folder = models_folder(r->to.file);
  List l = { text, told };

  if (!settings_find(r->from, TRAINER "framework"))
    return launch_fail(&r->to, "modules: expected pre_trainer: other trainings are not read");
  if (!expect(r, TRAINER "framework", "megatron") || !expect(r, TRAINER "config", "pre_trainer.yaml"))
    return FALSE;
  gboolean whole = put_model_file(&l, folder, name, 0);
  if (!whole)
    put_our_model(r, &l, name);
  put_settings(&l, r->from, OVERRIDES);
  put_dispatcher(r, &l);
  if (!check_model(r, told))
    return FALSE;
  g_string_prepend(text, is_mamba(told) ? "torchrun pretrain_mamba.py" : "torchrun pretrain_gpt.py");
  g_autoptr(Arguments) a = arguments_of_line(text->str);
  Reading reading = { .from = a, .framework = r->framework, .gpus = r->gpus, .asked = r->gpus > 0,
                      .core_16 = TRUE, .to = r->to };
  a->listed = TRUE;
  if (whole)
    r->to.out->model = megatron_model(&reading);
  gboolean read = (r->to.out->model || !whole) && !reading.to.failed && megatron_plan(&reading);
  r->to.failed = reading.to.failed;
  if (!whole)
    pass_model(&reading);
  name_left(a, told, r->to.out);
  return read;
}

static const SettingGroup groups[] = {
  { FALSE, "names and files", { "work_group", "user_name", "exp_name", "workspace", "platform*", TRAINER "name",
      NULL } },
  { .about = NULL },
};

const ConfigTool config_primus = {
  .tool = "primus",
  .title = "Primus experiment",
  .parse = settings_yaml,
  .recognises = recognises,
  .chosen = choose,
  .read = read_experiment,
  .groups = groups,
};
