/* nanotron's YAML. */
#include "import/config_launch.h"

#define MODEL "model.model_config."

static gboolean recognises(const Settings *s)
{
  return settings_find(s, "parallelism.dp") && settings_find(s, "tokens.sequence_length");
}

static void put_experts(ConfigReading *r, JsonWriter *w)
{
  int experts = config_int(r, MODEL "moe_config.num_experts", 0), width = config_int(r, MODEL "intermediate_size", 0);
  int topk = config_int(r, MODEL "moe_config.top_k", 1);
  int each = config_int(r, MODEL "moe_config.moe_intermediate_size", width);
  int shared = config_int(r, MODEL "moe_config.shared_expert_intermediate_size", each);
  gboolean beside = config_true(r, MODEL "moe_config.enable_shared_expert", FALSE);

  if (experts < 2)
    return;
  json_put_int(w, "experts", experts);
  json_put_int(w, "experts_per_token", topk);
  json_put_int(w, "expert_ffn_hidden", each);
  if (beside)
    json_put_int(w, "shared_ffn_hidden", shared);
}

/* models/qwen.py: the kernels of flash attention look back over so many tokens, a row's own among them, but in layers
 * whose queries and keys are not turned. */
static void put_window(ConfigReading *r, JsonWriter *w)
{
  int window = config_int(r, MODEL "sliding_window_size", 0), every = config_int(r, MODEL "no_rope_layer", 0);

  if (window < 1)
    return;
  json_put_int(w, "window", window);
  if (every > 0)
    json_put_int(w, "sliding_window_pattern", every);
}

static gboolean read_model(ConfigReading *r)
{
  const Settings *s = r->from;
  gboolean llama = settings_true(s, MODEL "is_llama_config", FALSE);
  gboolean qwen = settings_true(s, MODEL "is_qwen2_config", FALSE);
  g_autoptr(GString) text = g_string_new(NULL);
  g_autofree char *base = g_path_get_basename(r->to.file);
  JsonWriter w;

  if (!llama && !qwen)
    return launch_fail(&r->to,
                       MODEL "is_llama_config: expected it, or is_qwen2_config, to be true: other models are not read");
  json_writer_init(&w, text);
  json_open(&w, NULL, '{');
  json_put_string(&w, "name", base);
  json_put_int(&w, "layers", config_int(r, MODEL "num_hidden_layers", 0));
  json_put_int(&w, "hidden", config_int(r, MODEL "hidden_size", 0));
  int heads = config_int(r, MODEL "num_attention_heads", 0);
  json_put_int(&w, "heads", heads);
  json_put_int(&w, "kv_heads", config_int(r, MODEL "num_key_value_heads", heads));
  json_put_int(&w, "ffn_hidden", config_int(r, MODEL "intermediate_size", 0));
  json_put_int(&w, "vocab", config_int(r, MODEL "vocab_size", 0));
  json_put_int(&w, "seq", config_int(r, "tokens.sequence_length", config_int(r, MODEL "max_position_embeddings", 0)));
  config_int(r, MODEL "max_position_embeddings", 0);
  json_put_string(&w, "mlp", "swiglu");
  json_put_string(&w, "norm", "rmsnorm");
  json_put_string(&w, "positions", "rope");
  json_put_real(&w, "rope_theta", config_real(r, MODEL "rope_theta", 10000));
  json_put_real(&w, "norm_epsilon", config_real(r, MODEL "rms_norm_eps", 1e-6));
  if (qwen && config_true(r, MODEL "attention_bias", FALSE))
    json_put_bool(&w, "qkv_bias", TRUE);
  if (qwen)
    put_window(r, &w);
  json_put_bool(&w, "tied_embeddings", config_true(r, MODEL "tie_word_embeddings", FALSE));
  put_experts(r, &w);
  json_close(&w, '}');
  r->to.out->model = g_string_free(g_steal_pointer(&text), FALSE);
  return !r->to.failed;
}

static const char *precision_of(const Settings *s)
{
  const char *dtype = settings_text(s, "model.dtype");

  return g_str_equal(dtype, "float32") ? "fp32" : g_str_equal(dtype, "float16") ? "fp16" : "bf16";
}

static void put_degrees(ConfigReading *r, JsonWriter *w)
{
  int cp = config_int(r, "parallelism.context_parallel_size", 1), micro = config_int(r, "tokens.micro_batch_size", 1);
  int dp = config_int(r, "parallelism.dp", 1);

  json_put_int(w, "gpus", r->to.out->gpus);
  json_put_int(w, "global_batch_size", (gint64)dp * micro * config_int(r, "tokens.batch_accumulation_per_replica", 1));
  json_put_int(w, "micro_batch_size", micro);
  json_put_int(w, "seq_length", config_int(r, "tokens.sequence_length", 1));
  json_put_int(w, "tensor_model_parallel_size", config_int(r, "parallelism.tp", 1));
  json_put_int(w, "pipeline_model_parallel_size", config_int(r, "parallelism.pp", 1));
  json_put_int(w, "data_parallel_size", dp);
  json_put_int(w, "context_parallel_size", cp);
  json_put_int(w, "expert_model_parallel_size", config_int(r, "parallelism.expert_parallel_size", 1));
}

static gboolean read_plan(ConfigReading *r)
{
  const Settings *s = r->from;
  int tp = config_int(r, "parallelism.tp", 1);
  gint64 ranks = (gint64)tp * config_int(r, "parallelism.pp", 1) * config_int(r, "parallelism.dp", 1) *
                 config_int(r, "parallelism.context_parallel_size", 1);
  gboolean rows = g_str_equal(settings_text(s, "parallelism.tp_mode"), "REDUCE_SCATTER") && tp > 1;
  gboolean afab = g_str_equal(settings_text(s, "parallelism.pp_engine"), "afab");
  g_autoptr(GString) text = g_string_new(NULL);
  JsonWriter w;

  if (!config_gpus(r, ranks, ranks))
    return FALSE;
  json_writer_init(&w, text);
  json_open(&w, NULL, '{');
  put_degrees(r, &w);
  json_put_bool(&w, "sequence_parallel", rows);
  json_put_string(&w, "pipeline_schedule", afab ? "gpipe" : "1f1b");
  json_put_int(&w, "zero_stage", config_int(r, "optimizer.zero_stage", 0));
  json_put_string(&w, "recompute_granularity",
                  config_true(r, "parallelism.recompute_layer", FALSE) ? "full" : "none");
  json_put_string(&w, "precision", precision_of(s));
  if (g_str_equal(settings_text(s, "optimizer.optimizer_factory.name"), "sgd"))
    json_put_string(&w, "optimizer", "sgd");
  gboolean async = config_true(r, "parallelism.tp_linear_async_communication", FALSE);
  json_open(&w, "overlap", '{');
  if (rows)
    json_put_bool(&w, "tensor", async);
  json_close(&w, '}');
  if (tp > 1 && !rows && async)
    launch_assume(&r->to, "parallelism.tp_linear_async_communication: true: nanotron refuses it with tp_mode "
                  "ALL_REDUCE: simulated as false");
  json_put_string(&w, "framework", r->framework ? r->framework : "nanotron-2025");
  json_close(&w, '}');
  r->to.out->plan = g_string_free(g_steal_pointer(&text), FALSE);
  return !r->to.failed;
}

static gboolean read_both(ConfigReading *r)
{
  return read_model(r) && read_plan(r);
}

static const SettingGroup groups[] = {
  { FALSE, "checkpoints, data, logs and names",
    { "checkpoints.*", "data_stages.*", "general.*", "logging.*", "lighteval*", "profiler*", "tokenizer.*",
      "s3_upload*", "data.*", "doremi.*", "learning_rate*", "metrics_logging*", "tokens.train_steps",
      "tokens.limit_*", "tokens.val_*", NULL } },
  { FALSE, "initialization, learning rate and other constants",
    { "model.init_method.*", "optimizer.learning_rate*", "optimizer.weight_decay*", "optimizer.clip_grad",
      "optimizer.optimizer_factory.*", "optimizer.adam_*", "optimizer.torch_adam*", MODEL "*_token_id",
      MODEL "initializer_range", MODEL "hidden_act", MODEL "pretraining_tp", MODEL "use_cache", MODEL "is_*",
      MODEL "z_loss*", MODEL "rope_scaling", MODEL "moe_config", MODEL "no_rope_layer", MODEL "flex_attention_mask",
      MODEL "rope_interleaved", MODEL "return_hidden*", "model.vocab_size", NULL } },
  { TRUE, "kernels, buckets and formats other than the software's usual ones",
    { MODEL "_*", MODEL "ring_attn*", MODEL "sliding_window*", MODEL "attention_bias", "model.make_vocab*",
      "model.ddp_bucket*", "optimizer.accumulate_grad_in_fp32", "parallelism.*", MODEL "moe_config.*", NULL } },
  { .about = NULL },
};

const ConfigTool config_nanotron = { "nanotron", "nanotron configuration", settings_yaml, recognises, NULL,
                                     read_both, groups };
