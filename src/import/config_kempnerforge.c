/* KempnerForge's TOML (KempnerInstitute/KempnerForge @5666d0d: kempnerforge/config), of models of text alone. */
#include "import/config_launch.h"

#include <math.h>
#include <string.h>

#define MODEL "model."
#define TRAIN "train."
#define RANKS "distributed."

static gboolean recognises(const Settings *s)
{
  return settings_find(s, MODEL "dim") && settings_find(s, MODEL "n_layers") && settings_find(s, TRAIN "batch_size");
}

/* FALSE and the error unless a setting is one of few words, or absent. */
static gboolean expect(ConfigReading *r, const char *path, const char *const *words, const char *expected)
{
  const char *text = settings_text(r->from, path);

  return !*text || g_strv_contains(words, text) || launch_fail(&r->to, "%s: %s: expected %s", path, text, expected);
}

/* What no plan or model file has. */
static gboolean check(ConfigReading *r)
{
  static const char *const gated[] = { "silu", NULL }, *const norms[] = { "rmsnorm", "layernorm", NULL };
  static const char *const kinds[] = { "transformer", NULL }, *const schedules[] = { "1f1b", "gpipe", NULL };
  static const char *const recomputed[] = { "none", "full", NULL };
  static const char *const ones[][2] = {
    { RANKS "ep", "ranks that share experts read the same sequences, which no plan has" },
    { RANKS "cp", "its model does not divide sequences" },
    { MODEL "moe_frequency", "dense layers between those of experts are not read" } };

  for (guint i = 0; i < r->from->list->len; i++) {
    const char *path = ((const Setting *)r->from->list->pdata[i])->path;
    if (g_str_has_prefix(path, "vision_encoder.") || g_str_has_prefix(path, "vlm."))
      return launch_fail(&r->to, "%s: expected nothing: models of images are not read", path);
  }
  for (gsize i = 0; i < G_N_ELEMENTS(ones); i++)
    if (config_int(r, ones[i][0], 1) != 1)
      return launch_fail(&r->to, "%s: %d: expected 1: %s", ones[i][0], config_int(r, ones[i][0], 1), ones[i][1]);
  if (g_str_equal(settings_text(r->from, TRAIN "mixed_precision"), "fp8") && config_int(r, RANKS "tp", 1) > 1)
    return launch_fail(&r->to, TRAIN "mixed_precision: fp8: expected another under " RANKS "tp, or no tp: it refuses both");
  if (config_int(r, MODEL "num_experts", 0) > 0 && config_int(r, RANKS "pp", 1) > 1)
    return launch_fail(&r->to, RANKS "pp: %d: expected 1 under " MODEL "num_experts: it refuses both",
                       config_int(r, RANKS "pp", 1));
  return expect(r, MODEL "activation", gated, "silu") && expect(r, MODEL "norm_type", norms, "rmsnorm or layernorm") &&
         expect(r, MODEL "model_type", kinds, "transformer") &&
         expect(r, RANKS "pp_schedule", schedules, "1f1b or gpipe") &&
         expect(r, TRAIN "activation_checkpointing", recomputed, "none or full: attention alone is not made again");
}

/* ModelConfig: widths are rounded up to 256, of experts to the nearest 16. */
static int inner_width(ConfigReading *r)
{
  double factor = config_real(r, MODEL "ffn_dim_multiplier", 1);
  double raw = floor(4.0 * config_int(r, MODEL "dim", 4096) * (2.0 / 3) * factor);
  int usual = raw > 0 && raw < G_MAXINT / 2 ? (int)(256 * ceil(raw / 256)) : 0;

  return config_int(r, MODEL "ffn_hidden_dim", usual);
}

static void put_experts(ConfigReading *r, JsonWriter *w, int width)
{
  int experts = config_int(r, MODEL "num_experts", 0), shared = config_int(r, MODEL "moe_shared_experts", 0);
  double raw = width * config_real(r, MODEL "moe_expert_ffn_multiplier", 1);
  int each = raw > 0 && raw < G_MAXINT / 2 ? MAX(16, 16 * (int)nearbyint(floor(raw) / 16)) : 0;

  if (experts < 1)
    return;
  json_put_int(w, "experts", experts);
  json_put_int(w, "experts_per_token", config_int(r, MODEL "moe_top_k", 2));
  json_put_int(w, "expert_ffn_hidden", each);
  if (shared > 0) /* build_moe(): one, however many are told */
    json_put_int(w, "shared_ffn_hidden", each);
  if (config_real(r, MODEL "moe_capacity_factor", 0) > 0)
    launch_assume(&r->to, MODEL "moe_capacity_factor: %g: taken as no limit",
                  config_real(r, MODEL "moe_capacity_factor", 0));
}

static gboolean read_model(ConfigReading *r)
{
  const Settings *s = r->from;
  g_autofree char *base = g_path_get_basename(r->to.file);
  g_autoptr(GString) text = g_string_new(NULL);
  int heads = config_int(r, MODEL "n_heads", 32), width = inner_width(r);
  JsonWriter w;

  json_writer_init(&w, text);
  json_open(&w, NULL, '{');
  json_put_string(&w, "name", base);
  json_put_int(&w, "layers", config_int(r, MODEL "n_layers", 32));
  json_put_int(&w, "hidden", config_int(r, MODEL "dim", 4096));
  json_put_int(&w, "heads", heads);
  json_put_int(&w, "kv_heads", config_int(r, MODEL "n_kv_heads", heads));
  json_put_int(&w, "ffn_hidden", width);
  json_put_int(&w, "vocab", config_int(r, MODEL "vocab_size", 32000));
  json_put_int(&w, "seq", config_int(r, TRAIN "seq_len", 2048));
  json_put_string(&w, "mlp", "swiglu");
  json_put_string(&w, "norm", g_str_equal(settings_text(s, MODEL "norm_type"), "layernorm") ? "layernorm" : "rmsnorm");
  json_put_string(&w, "positions", "rope");
  json_put_real(&w, "rope_theta", config_real(r, MODEL "rope_theta", 10000));
  json_put_real(&w, "norm_epsilon", config_real(r, MODEL "norm_eps", 1e-5));
  if (config_true(r, MODEL "qk_norm", FALSE))
    json_put_bool(&w, "qk_norm", TRUE);
  json_put_bool(&w, "tied_embeddings", config_true(r, MODEL "tie_embeddings", FALSE));
  put_experts(r, &w, width);
  json_close(&w, '}');
  r->to.out->model = g_string_free(g_steal_pointer(&text), FALSE);
  return !r->to.failed;
}

static void put_optimizer(ConfigReading *r, JsonWriter *w)
{
  const char *name = settings_text(r->from, "optimizer.name");

  if (g_str_equal(name, "muon")) {
    json_put_string(w, "optimizer", "muon");
    json_put_int(w, "muon_num_ns_steps", config_int(r, "optimizer.muon_ns_steps", 5));
  } else if (*name && !g_str_equal(name, "adamw")) {
    launch_assume(&r->to, "optimizer.name: %s: simulated as adamw", name);
  }
  if (!config_true(r, "optimizer.fused", TRUE))
    launch_assume(&r->to, "optimizer.fused: false: simulated as true");
}

/* Ranks of each replica are as many as are left where dp_shard is -1, the usual. */
static gboolean read_plan(ConfigReading *r)
{
  static const char *const formats[] = { "bf16", "fp16", "fp32", "fp8", NULL };
  int tp = config_int(r, RANKS "tp", 1), pp = config_int(r, RANKS "pp", 1);
  int copies = config_int(r, RANKS "dp_replicate", 1), shards = config_int(r, RANKS "dp_shard", -1);
  int micro = config_int(r, TRAIN "batch_size", 8), passes = config_int(r, TRAIN "grad_accum_steps", 1);
  const char *format = settings_text(r->from, TRAIN "mixed_precision");
  gint64 each = (gint64)MAX(tp, 1) * MAX(pp, 1) * MAX(copies, 1);
  gboolean compiled = config_true(r, TRAIN "compile_model", TRUE);
  g_autoptr(GString) text = g_string_new(NULL);
  JsonWriter w;

  if (!expect(r, TRAIN "mixed_precision", formats, "bf16, fp16, fp32 or fp8") ||
      (shards != -1 && shards < 1 && !launch_fail(&r->to, RANKS "dp_shard: %d: expected -1 or at least 1", shards)) ||
      !config_gpus(r, shards > 0 && each < 10000000 ? each * shards : 0, each))
    return FALSE;
  gint64 dp = r->to.out->gpus / ((gint64)MAX(tp, 1) * MAX(pp, 1));
  json_writer_init(&w, text);
  json_open(&w, NULL, '{');
  json_put_int(&w, "gpus", r->to.out->gpus);
  json_put_int(&w, "global_batch_size", CLAMP(dp * micro * passes, 0, G_MAXINT));
  json_put_int(&w, "micro_batch_size", micro);
  json_put_int(&w, "seq_length", config_int(r, TRAIN "seq_len", 2048));
  json_put_int(&w, "tensor_model_parallel_size", tp);
  json_put_bool(&w, "sequence_parallel", tp > 1 && pp == 1);
  json_put_int(&w, "pipeline_model_parallel_size", pp);
  json_put_string(&w, "pipeline_schedule",
                  g_str_equal(settings_text(r->from, RANKS "pp_schedule"), "gpipe") ? "gpipe" : "1f1b");
  json_put_int(&w, "zero_stage", 3);
  if (copies > 1 && dp / copies > 1)
    json_put_int(&w, "shard_group_size", dp / copies);
  json_put_string(&w, "recompute_granularity",
                  g_str_equal(settings_text(r->from, TRAIN "activation_checkpointing"), "full") ? "full" : "none");
  json_put_string(&w, "precision", *format ? format : "bf16");
  put_optimizer(r, &w);
  json_put_string(&w, "framework",
                  r->framework ? r->framework : compiled ? "kempnerforge-2026" : "kempnerforge-2026-eager");
  json_close(&w, '}');
  r->to.out->plan = g_string_free(g_steal_pointer(&text), FALSE);
  return !r->to.failed;
}

static gboolean read_both(ConfigReading *r)
{
  return check(r) && read_model(r) && read_plan(r);
}

static const SettingGroup groups[] = {
  { FALSE, "checkpoints, data, logs and names",
    { "data.*", "checkpoint.*", "metrics.*", "eval.*", "job.*", "profiling.*", "checkpoint*", "hf_*", NULL } },
  { FALSE, "learning rate and other constants",
    { "scheduler.*", "optimizer.*", TRAIN "max_steps", TRAIN "grad_clip_norm", TRAIN "*seed", TRAIN "z_loss_weight",
      TRAIN "*timeout*", TRAIN "nccl_*", RANKS "nccl_*", RANKS "backend", MODEL "init_std", MODEL "max_seq_len",
      MODEL "moe_router*", MODEL "moe_*loss*", MODEL "moe_bias*", MODEL "moe_gradient_scale", NULL } },
  { TRUE, "kernels other than the software's usual ones",
    { MODEL "sdpa_backend", MODEL "moe_packed_experts", TRAIN "loss_fn", TRAIN "ce_chunk_size", NULL } },
  { .about = NULL },
};

const ConfigTool config_kempnerforge = { "kempnerforge", "KempnerForge configuration", settings_toml, recognises, NULL,
                                         read_both, groups };
