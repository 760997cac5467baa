/* OLMo's YAML (allenai/OLMo: olmo/config.py, TrainConfig), whose blocks are those of OLMo, OLMo 2 or Llama. */
#include "import/config_launch.h"

#include <string.h>

#define MODEL "model."
#define FSDP "fsdp."

static gboolean recognises(const Settings *s)
{
  return settings_find(s, MODEL "d_model") && settings_find(s, MODEL "n_layers") &&
         (settings_find(s, "global_train_batch_size") || settings_find(s, "device_train_microbatch_size"));
}

/* What the blocks are, by Hugging Face's names; NULL and the error where they are none of these. */
static const char *kind_of(ConfigReading *r)
{
  const Settings *s = r->from;
  const char *norm = settings_text(s, MODEL "layer_norm_type");
  gboolean rms = g_str_equal(norm, "rms"), affine = config_true(r, MODEL "layer_norm_with_affine", TRUE);
  gboolean inner = config_true(r, MODEL "attention_layer_norm", FALSE);
  gboolean after = config_true(r, MODEL "norm_after", FALSE);
  const struct { const char *key; gboolean usual, wanted; } switches[] = {
    { MODEL "alibi", FALSE, FALSE }, { MODEL "rope", FALSE, TRUE }, { MODEL "include_bias", TRUE, FALSE },
    { MODEL "embedding_layer_norm", FALSE, FALSE },
    { MODEL "bias_for_layer_norm", config_true(r, MODEL "include_bias", TRUE), FALSE } };

  for (gsize i = 0; i < G_N_ELEMENTS(switches); i++)
    if (config_true(r, switches[i].key, switches[i].usual) != switches[i].wanted) {
      launch_fail(&r->to, "%s: %s: expected %s: other blocks than those of OLMo, OLMo 2 and Llama are not read",
                  switches[i].key, switches[i].wanted ? "false" : "true", switches[i].wanted ? "true" : "false");
      return NULL;
    }
  const char *mlp = settings_text(s, MODEL "activation_type");
  if (*mlp && !g_str_equal(mlp, "swiglu")) {
    launch_fail(&r->to, MODEL "activation_type: %s: expected swiglu, which OLMo, OLMo 2 and Llama have", mlp);
    return NULL;
  }
  if (rms && affine && inner == after)
    return after ? "olmo2" : "llama";
  if (!rms && !affine && !inner && !after)
    return "olmo";
  launch_fail(&r->to, MODEL "layer_norm_type: %s: expected norms as in OLMo (default, without affine), OLMo 2 (rms, "
              "norm_after and attention_layer_norm) or Llama (rms alone)", *norm ? norm : "default");
  return NULL;
}

/* Width of the feed-forward part behind its gate. */
static int inner_width(ConfigReading *r, int hidden)
{
  gint64 usual = CLAMP((gint64)config_int(r, MODEL "mlp_ratio", 4) * hidden, 0, G_MAXINT);

  return config_int(r, MODEL "mlp_hidden_size", (int)usual) / 2;
}

static gboolean read_model(ConfigReading *r)
{
  const Settings *s = r->from;
  const char *kind = kind_of(r);
  g_autoptr(GString) text = g_string_new(NULL);
  g_autofree char *base = g_path_get_basename(r->to.file);
  JsonWriter w;

  if (!kind)
    return FALSE;
  int hidden = config_int(r, MODEL "d_model", 768), heads = config_int(r, MODEL "n_heads", 12);
  int vocab = config_int(r, MODEL "vocab_size", 50257);
  gboolean one = config_true(r, MODEL "multi_query_attention", FALSE);
  json_writer_init(&w, text);
  json_open(&w, NULL, '{');
  json_put_string(&w, "name", base);
  json_put_string(&w, "model_type", kind);
  json_put_int(&w, "num_hidden_layers", config_int(r, MODEL "n_layers", 12));
  json_put_int(&w, "hidden_size", hidden);
  json_put_int(&w, "num_attention_heads", heads);
  json_put_int(&w, "num_key_value_heads", config_int(r, MODEL "n_kv_heads", one ? 1 : heads));
  json_put_int(&w, "intermediate_size", inner_width(r, hidden));
  json_put_int(&w, "vocab_size", config_int(r, MODEL "embedding_size", settings_last(s, MODEL "embedding_size")
                                                                         ? vocab : 50304));
  json_put_int(&w, "seq", config_int(r, MODEL "max_sequence_length", 1024));
  json_put_real(&w, "rope_theta", config_real(r, MODEL "rope_theta", 10000));
  if (!g_str_equal(kind, "olmo"))
    json_put_real(&w, "rms_norm_eps", config_real(r, MODEL "layer_norm_eps", 1e-5));
  json_put_bool(&w, "tie_word_embeddings", config_true(r, MODEL "weight_tying", TRUE));
  json_close(&w, '}');
  r->to.out->model = g_string_free(g_steal_pointer(&text), FALSE);
  return !r->to.failed;
}

static void say_dropout(ConfigReading *r)
{
  static const char *const keys[] = { MODEL "attention_dropout", MODEL "residual_dropout", MODEL "embedding_dropout" };

  for (gsize i = 0; i < G_N_ELEMENTS(keys); i++) {
    double rate = config_real(r, keys[i], 0.1);
    if (rate > 0) {
      launch_assume(&r->to, "%s: %g: simulated without dropout", keys[i], rate);
      return;
    }
  }
}

/* Blocks that should_checkpoint_block() (olmo/model.py) makes again of so many; -1: none is. */
static int checkpointed(const char *strategy, int blocks)
{
  static const struct { const char *name; int of; gboolean others; } strategies[] = {
    { "whole_layer", 1, FALSE }, { "one_in_two", 2, FALSE }, { "one_in_three", 3, FALSE }, { "one_in_four", 4, FALSE },
    { "one_in_eight", 8, FALSE }, { "two_in_three", 3, TRUE }, { "three_in_four", 4, TRUE } };

  for (gsize i = 0; i < G_N_ELEMENTS(strategies); i++)
    if (g_str_equal(strategy, strategies[i].name)) {
      int first = blocks / strategies[i].of + (blocks % strategies[i].of > 0);
      return strategies[i].others ? blocks - first : first;
    }
  return -1;
}

static void put_recompute(ConfigReading *r, JsonWriter *w)
{
  const char *strategy = settings_text(r->from, "activation_checkpointing");
  int blocks = config_int(r, MODEL "n_layers", 12), again = checkpointed(strategy, blocks);

  if (*strategy && again < 0 && g_str_equal(strategy, "fine_grained"))
    launch_assume(&r->to, "activation_checkpointing: fine_grained: simulated as none");
  else if (*strategy && again < 0)
    launch_fail(&r->to, "activation_checkpointing: %s: expected whole_layer, one_in_two, one_in_three, one_in_four, "
                "one_in_eight, two_in_three, three_in_four, fine_grained or null", strategy);
  json_put_string(w, "recompute_granularity", again > 0 ? "full" : "none");
  if (again > 0 && again < blocks) {
    json_put_string(w, "recompute_method", "block");
    json_put_int(w, "recompute_num_layers", again);
  }
}

/* Ranks that hold one copy of the weights, of strategies that divide them over a part of all; 0 = over all. */
static int read_shards(ConfigReading *r)
{
  int gpus = r->to.out->gpus, copies = config_int(r, FSDP "hybrid_sharding_num_model_replicas", 0);

  if (copies < 0 || (copies > 0 && gpus % copies)) {
    launch_fail(&r->to, FSDP "hybrid_sharding_num_model_replicas: %d: expected a divisor of the %d GPUs", copies, gpus);
    return 0;
  }
  if (copies == 0 && gpus > 8)
    launch_assume(&r->to, FSDP "hybrid_sharding_num_model_replicas: a copy of the weights on every 8 GPUs, as the file "
                  "names none, and OLMo then has one on each node");
  return copies > 0 ? gpus / copies : gpus > 8 && gpus % 8 == 0 ? 8 : 0;
}

static void put_sharding(ConfigReading *r, JsonWriter *w)
{
  static const char *const strategies[] = { "FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD",
                                            "_HYBRID_SHARD_ZERO2", NULL };
  const char *strategy = settings_text(r->from, FSDP "sharding_strategy");
  gboolean pure = !g_str_equal(settings_text(r->from, FSDP "precision"), "mixed");
  gboolean stays = g_str_equal(strategy, "SHARD_GRAD_OP") || g_str_equal(strategy, "_HYBRID_SHARD_ZERO2");
  int shards = strstr(strategy, "HYBRID") ? read_shards(r) : 0;

  if (*strategy && !g_strv_contains(strategies, strategy))
    launch_fail(&r->to, FSDP "sharding_strategy: %s: expected FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD or "
                "_HYBRID_SHARD_ZERO2", strategy);
  gboolean whole = g_str_equal(strategy, "NO_SHARD") || r->to.out->gpus == 1 || shards == 1;
  json_put_int(w, "zero_stage", whole ? 0 : 3);
  if (stays && !whole)
    config_put_kept(w);
  if (shards > 1 && !whole)
    json_put_int(w, "shard_group_size", shards);
  if (!pure && !whole)
    json_put_string(w, "grad_reduce_dtype", "fp32");
}

static void put_batch(ConfigReading *r, JsonWriter *w)
{
  int gpus = r->to.out->gpus, batch = config_int(r, "global_train_batch_size", 512);
  int micro = config_int(r, "device_train_microbatch_size", 16);

  if (batch < 1 || batch % gpus)
    launch_fail(&r->to, "global_train_batch_size: %d: expected a multiple of the %d GPUs", batch, gpus);
  if (micro < 1)
    launch_fail(&r->to, "device_train_microbatch_size: %d: expected a whole number from 1", micro);
  json_put_int(w, "gpus", gpus);
  json_put_int(w, "global_batch_size", batch);
  json_put_int(w, "micro_batch_size", MIN(micro, batch / gpus));
}

static const char *precision_of(ConfigReading *r)
{
  static const char *const known[] = { "", "amp_bf16", "amp_fp16", "fp32", NULL };
  const char *text = settings_text(r->from, "precision");

  if (!g_strv_contains(known, text))
    launch_fail(&r->to, "precision: %s: expected amp_bf16, amp_fp16 or fp32", text);
  return g_str_equal(text, "amp_bf16") ? "bf16" : g_str_equal(text, "amp_fp16") ? "fp16" : "fp32";
}

static gboolean read_plan(ConfigReading *r)
{
  const char *strategy = settings_text(r->from, "distributed_strategy");
  gboolean ddp = g_str_equal(strategy, "ddp");
  g_autoptr(GString) text = g_string_new(NULL);
  JsonWriter w;

  if (*strategy && !ddp && !g_str_equal(strategy, "fsdp"))
    return launch_fail(&r->to, "distributed_strategy: %s: expected fsdp or ddp: nothing is divided here", strategy);
  if (!config_gpus(r, 0, 1))
    return FALSE;
  json_writer_init(&w, text);
  json_open(&w, NULL, '{');
  put_batch(r, &w);
  put_recompute(r, &w);
  if (ddp)
    json_put_int(&w, "zero_stage", 0);
  else
    put_sharding(r, &w);
  json_put_string(&w, "precision", precision_of(r));
  if (g_str_equal(settings_text(r->from, "optimizer.name"), "lionw"))
    launch_assume(&r->to, "optimizer.name: lionw: simulated as adamw, which holds one moment more");
  json_put_string(&w, "framework", r->framework ? r->framework : ddp ? "ddp" : "fsdp");
  json_close(&w, '}');
  r->to.out->plan = g_string_free(g_steal_pointer(&text), FALSE);
  say_dropout(r);
  return !r->to.failed;
}

static gboolean read_both(ConfigReading *r)
{
  return read_model(r) && read_plan(r);
}

static const SettingGroup groups[] = {
  { FALSE, "checkpoints, data, evaluation, logs and names",
    { "run_name", "seed", "dry_run", "epoch", "data.*", "evaluators*", "eval_*", "device_eval*", "tokenizer.*",
      "save_*", "remote_save*", "load_path*", "restore_dataloader", "fast_forward*", "max_duration", "stop_*", "wandb*",
      "speed_monitor*", "console_log*", "canceled_check*", "sharded_checkpointer", "try_load*", "reset_*", "no_pre*",
      "force_save*", "new_style*", "time_limit", "extra_steps*", "early_stopping*", "python_profiling",
      "torch_profiling", "hf_datasets*", "module_outputs*", "gen1_gc_interval", "instance_filter*", "evaluation*",
      NULL } },
  { FALSE, "initialization, learning rate and other constants",
    { "optimizer.*", "scheduler.*", "max_grad_norm*", MODEL "*_token_id", MODEL "init_*", MODEL "scale_emb*",
      MODEL "emb_init*", MODEL "block_type", MODEL "flash_attention", MODEL "scale_logits", MODEL "alibi_bias_max",
      MODEL "vocab_size",
      MODEL "attention_layer_norm_with_affine", MODEL "layer_norm_eps", MODEL "mlp_ratio", MODEL "rope_full_precision",
      "softmax_auxiliary_loss", "auxiliary_loss_multiplier", FSDP "use_orig_params", "ddp.find_unused_params",
      "compile", "fsdp", "ddp", "fsdp.*", "ddp.*", NULL } },
  { TRUE, "kernels and wrapping other than the software's usual ones",
    { MODEL "clip_qkv", MODEL "block_group_size", "fused_loss", "compile.*",
      "activation_checkpointing", NULL } },
  { .about = NULL },
};

const ConfigTool config_olmo = { "olmo", "OLMo configuration", settings_yaml, recognises, NULL, read_both, groups };
