/* litgpt's YAML (Lightning-AI/litgpt: litgpt/pretrain.py, litgpt/finetune/full.py and lora.py). */
#include "import/config_launch.h"

#include "import/megatron_launch.h"
#include "model/model.h"

#include <string.h>

#define TRAIN "train."
#define TINY "tinyllama-1.1b" /* which litgpt calls tiny-llama-1.1b, and the hub TinyLlama-1.1B-... */

typedef enum { WAY_PRETRAIN, WAY_FULL, WAY_LORA } Way;

static gboolean recognises(const Settings *s)
{
  return (settings_find(s, "model_name") || settings_find(s, "checkpoint_dir")) && settings_find(s, "devices") &&
         (settings_find(s, TRAIN "micro_batch_size") || settings_find(s, TRAIN "global_batch_size"));
}

static Way way_of(const Settings *s)
{
  return settings_find(s, "lora_r") ? WAY_LORA : settings_find(s, "checkpoint_dir") ? WAY_FULL : WAY_PRETRAIN;
}

/* Whether the file states sizes of its own, which from_name() in litgpt/config.py would take. */
static gboolean has_sizes(const Settings *s)
{
  for (guint i = 0; i < s->list->len; i++)
    if (g_str_has_prefix(((const Setting *)s->list->pdata[i])->path, "model_config."))
      return TRUE;
  return FALSE;
}

static void read_model(ConfigReading *r)
{
  const char *checkpoint = settings_text(r->from, "checkpoint_dir"), *name = settings_text(r->from, "model_name");
  g_autofree char *base = g_path_get_basename(*checkpoint ? checkpoint : name), *lower = g_ascii_strdown(base, -1);
  gboolean tiny = g_str_has_prefix(lower, TINY) || g_str_has_prefix(lower, "tiny-llama-1.1b");
  g_autofree char *path = has_sizes(r->from) ? NULL : megatron_hub_model(tiny ? TINY : lower);

  if (path && g_file_get_contents(path, &r->to.out->model, NULL, NULL))
    return;
  launch_assume(&r->to, "model: %s: not among the models of this program (--model)", base);
  r->to.out->unknown_model = g_strdup(base);
}

static int read_devices(ConfigReading *r)
{
  const char *text = settings_text(r->from, "devices");
  int nodes = config_int(r, "num_nodes", 1);
  gboolean all = !*text || g_str_equal(text, "auto") || g_str_equal(text, "-1"); /* parse_devices(), litgpt/utils.py */
  int devices = all ? 0 : config_int(r, "devices", 0);

  if (nodes < 1)
    launch_fail(&r->to, "num_nodes: %d: expected a whole number from 1", nodes);
  if (devices < 0)
    launch_fail(&r->to, "devices: %d: expected a whole number from 1, or auto", devices);
  return r->to.failed ? -1 : (int)MIN((gint64)devices * nodes, 10000000);
}

/* TrainArgs.gradient_accumulation_iters() (litgpt/args.py): whole passes alone are made. */
static void put_batch(ConfigReading *r, Way way, JsonWriter *w)
{
  int ranks = r->to.out->gpus, micro = config_int(r, TRAIN "micro_batch_size", way == WAY_LORA ? 1 : 4);
  int batch = config_int(r, TRAIN "global_batch_size", way == WAY_PRETRAIN ? 512 : way == WAY_FULL ? 64 : 16);

  if (micro < 1 || batch / ranks < micro) {
    launch_fail(&r->to, TRAIN "global_batch_size: %d: expected at least the %d of " TRAIN "micro_batch_size on each of "
                "%d GPUs", batch, micro, ranks);
    return;
  }
  int passes = batch / ranks / micro;
  gint64 made = (gint64)passes * micro * ranks;
  if (made != batch)
    launch_assume(&r->to, TRAIN "global_batch_size: %d: litgpt makes %d passes of %d sequences on each of %d GPUs of "
                  "it, %" G_GINT64_FORMAT " in all", batch, passes, micro, ranks, made);
  json_put_int(w, "gpus", ranks);
  json_put_int(w, "global_batch_size", made);
  json_put_int(w, "micro_batch_size", micro);
  int seq = config_int(r, TRAIN "max_seq_length", r->seq);
  if (seq > 0)
    json_put_int(w, "seq_length", seq);
  else
    launch_assume_open(&r->to, "--seq", "seq_length: the model's: the file names none");
}

/* A copy of the weights in each node when it pretrains; fine-tuning divides over all and makes blocks again. */
static void put_sharding(ConfigReading *r, Way way, JsonWriter *w)
{
  int ranks = r->to.out->gpus, nodes = config_int(r, "num_nodes", 1);

  json_put_int(w, "zero_stage", ranks > 1 ? 3 : 0);
  if (ranks > 1 && way == WAY_PRETRAIN && nodes > 1 && ranks % nodes == 0)
    json_put_int(w, "shard_group_size", ranks / nodes);
  if (ranks > 1) {
    json_open(w, "zero_optimization", '{');
    json_put_bool(w, "no_sync", TRUE); /* fabric.no_backward_sync() */
    json_close(w, '}');
  }
  json_put_string(w, "recompute_granularity", ranks > 1 && way != WAY_PRETRAIN ? "full" : "none");
}

static void put_precision(ConfigReading *r, JsonWriter *w)
{
  static const struct { const char *theirs, *ours; gboolean narrow; } kinds[] = {
    { "bf16-true", "bf16", TRUE }, { "bf16-mixed", "bf16", FALSE }, { "16-true", "fp16", TRUE },
    { "16-mixed", "fp16", FALSE }, { "32-true", "fp32", FALSE } };
  static const char *const states[] = { "main_params_dtype", "exp_avg_dtype", "exp_avg_sq_dtype" };
  const char *text = settings_text(r->from, "precision");
  gsize kind = 0;

  while (kind < G_N_ELEMENTS(kinds) && !g_str_equal(*text ? text : "bf16-true", kinds[kind].theirs))
    kind++;
  if (kind == G_N_ELEMENTS(kinds)) {
    launch_fail(&r->to, "precision: %s: expected bf16-true, bf16-mixed, 16-true, 16-mixed or 32-true", text);
    return;
  }
  json_put_string(w, "precision", kinds[kind].ours);
  for (gsize i = 0; kinds[kind].narrow && i < G_N_ELEMENTS(states); i++)
    json_put_string(w, states[i], kinds[kind].ours);
}

static void put_optimizer(ConfigReading *r, JsonWriter *w)
{
  const char *class = settings_text(r->from, "optimizer.class_path"), *name = settings_text(r->from, "optimizer");
  const char *text = *class ? class : name;

  if (strstr(text, "8bit"))
    json_put_string(w, "optimizer", "adam8bit");
  else if (g_str_has_suffix(text, "SGD"))
    json_put_string(w, "optimizer", "sgd");
  else if (*text && !g_str_has_suffix(text, "AdamW") && !g_str_has_suffix(text, "Adam"))
    launch_assume(&r->to, "optimizer: %s: simulated as AdamW", text);
}

/* litgpt/finetune/lora.py: q and v unless said. Each has an A of its own (litgpt/lora.py, LoRAQKVLinear). */
static void put_adapter(ConfigReading *r, JsonWriter *w)
{
  static const struct { const char *key, *targets; gboolean usual; } parts[] = {
    { "lora_query", "q_proj", TRUE }, { "lora_key", "k_proj", FALSE }, { "lora_value", "v_proj", TRUE },
    { "lora_projection", "o_proj", FALSE }, { "lora_mlp", "gate_proj,up_proj,down_proj", FALSE } };
  const char *quantize = settings_text(r->from, "quantize");
  gboolean narrow = g_str_has_prefix(quantize, "bnb.nf4") || g_str_has_prefix(quantize, "bnb.fp4");
  g_autoptr(GString) text = g_string_new(NULL);
  gsize n = 0;

  if (*quantize && r->to.out->gpus > 1)
    launch_fail(&r->to, "quantize: %s: expected one GPU, not %d: litgpt quantizes on one alone", quantize,
                r->to.out->gpus);
  g_string_append_printf(text, "%s:r=%d", narrow ? "qlora" : "lora", config_int(r, "lora_r", 8));
  const gsize whole = text->len;
  for (gsize i = 0; i < G_N_ELEMENTS(parts); i++)
    if (config_true(r, parts[i].key, parts[i].usual))
      g_string_append_printf(text, "%s%s", n++ ? "," : ",targets=", parts[i].targets);
  if (n == 0)
    launch_fail(&r->to, "lora_query: false: expected one of lora_query, lora_key, lora_value, lora_projection and "
                "lora_mlp to be true");
  if (n == G_N_ELEMENTS(parts))
    g_string_truncate(text, whole);
  if (config_true(r, "lora_head", FALSE))
    launch_assume(&r->to, "lora_head: true: simulated without an adapter of the head");
  if (*quantize && !narrow)
    launch_assume(&r->to, "quantize: %s: simulated with weights of 16 bits", quantize);
  json_put_string(w, "adapter", text->str);
}

static gboolean read_both(ConfigReading *r)
{
  const Way way = way_of(r->from);
  int told = read_devices(r);
  g_autoptr(GString) text = g_string_new(NULL);
  JsonWriter w;

  if (told < 0 || !config_gpus(r, told, 1))
    return FALSE;
  read_model(r);
  json_writer_init(&w, text);
  json_open(&w, NULL, '{');
  put_batch(r, way, &w);
  put_sharding(r, way, &w);
  put_precision(r, &w);
  put_optimizer(r, &w);
  if (way == WAY_LORA)
    put_adapter(r, &w);
  json_put_string(&w, "framework", r->framework ? r->framework : way == WAY_PRETRAIN ? "fsdp-2024" : "fsdp");
  json_close(&w, '}');
  r->to.out->plan = g_string_free(g_steal_pointer(&text), FALSE);
  return !r->to.failed;
}

static const SettingGroup groups[] = {
  { FALSE, "checkpoints, data, evaluation, logs and names",
    { "out_dir", "initial_checkpoint_dir", "resume", "data", "data.*", "eval.*", "log.*", "tokenizer_dir",
      "logger_name", "seed", "access_token",
      TRAIN "save_interval", TRAIN "log_interval", TRAIN "epochs", TRAIN "max_tokens",
      TRAIN "max_steps", TRAIN "max_time", NULL } },
  { FALSE, "learning rate and other constants",
    { "optimizer.*", TRAIN "lr_*", TRAIN "max_norm", TRAIN "min_lr", "lora_alpha", "lora_dropout", NULL } },
  { TRUE, "parts of the model other than the usual ones", { "model_config*", TRAIN "tie_embeddings", NULL } },
  { .about = NULL },
};

const ConfigTool config_litgpt = { "litgpt", "litgpt configuration", settings_yaml, recognises, NULL, read_both,
                                   groups };
