/* DeepSpeed's JSON. The model, the pipeline and the length of sequences stand in the user's program. */
#include "import/config_launch.h"

#include "plan/optimizer.h"

#include <math.h>

#define ZERO "zero_optimization."
#define SUB_GROUP_ALL 1e12
#define MICRO "train_micro_batch_size_per_gpu"

static gboolean recognises(const Settings *s)
{
  return settings_find(s, MICRO) || settings_find(s, "train_batch_size") ||
         settings_find(s, ZERO "stage");
}

/* "auto" is what Hugging Face's trainer fills in. */
static gboolean is_auto(const ConfigReading *r, const char *path)
{
  return g_str_equal(settings_text(r->from, path), "auto");
}

static int number(ConfigReading *r, const char *path, int usual)
{
  if (!is_auto(r, path))
    return config_int(r, path, usual);
  launch_assume(&r->to, "%s: %d: the file says auto", path, usual);
  return usual;
}

/* 0 where it is absent or filled in later. */
static int told(ConfigReading *r, const char *path)
{
  return is_auto(r, path) ? 0 : MAX(0, config_int(r, path, 0));
}

/* DeepSpeed's runtime/zero/config.py: a truth in place of the section is stage 1, as its first release had it. */
static int read_stage(ConfigReading *r)
{
  return number(r, ZERO "stage", config_true(r, "zero_optimization", FALSE));
}

/* What Hugging Face's trainer fills in for "auto", by the model's width (transformers, integrations/deepspeed.py:
 * trainer_config_finalize); -1 of a key that it leaves alone. */
static double filled_in(const char *key, double hidden)
{
  if (g_str_equal(key, "reduce_bucket_size"))
    return hidden * hidden;
  if (g_str_equal(key, "stage3_prefetch_bucket_size"))
    return floor(0.9 * hidden * hidden);
  return g_str_equal(key, "stage3_param_persistence_threshold") ? 10 * hidden : -1;
}

/* DeepSpeed's own where nothing is said, which its description has (runtime/zero/config.py); 0 = not known. */
static double own_size(const ConfigReading *r, const char *key)
{
  return !r->framework && g_str_equal(key, "reduce_bucket_size") ? 5e8 : 0;
}

static void put_size(ConfigReading *r, JsonWriter *w, const char *key)
{
  g_autofree char *path = g_strconcat(ZERO, key, NULL);
  gboolean open = is_auto(r, path);
  double value = open ? filled_in(key, r->hidden) : g_ascii_strtod(settings_text(r->from, path), NULL);

  if (open && value < 1)
    launch_assume(&r->to, "%s: DeepSpeed's own: the file says auto, and %s", path,
                  value < 0 ? "Hugging Face's trainer fills in no such key" : "the model's width is not known");
  else if (open)
    launch_assume(&r->to, "%s: %.0f: the file says auto, which Hugging Face's trainer fills in by the model's width",
                  path, value);
  if (value >= 1 && value != own_size(r, key))
    json_put_real(w, key, value);
}

/* Where what has moved lives, in words of today or before 2021: "cpu", "nvme" or "none". */
static const char *store_of(ConfigReading *r, const char *device, const char *older)
{
  const char *text = settings_text(r->from, device);
  gboolean moved = config_true(r, older, FALSE);

  if (!*text && moved)
    return "cpu";
  return g_str_equal(text, "cpu") || g_str_equal(text, "nvme") ? text : "none";
}

/* The optimizer of stage 3 alone goes by groups; one that holds all of them is none. */
static void put_offload(ConfigReading *r, int stage, JsonWriter *w)
{
  const char *optimizer = store_of(r, ZERO "offload_optimizer.device", ZERO "cpu_offload");
  const char *parameters = stage == 3 ? store_of(r, ZERO "offload_param.device", ZERO "cpu_offload_param") : "none";
  gboolean moved = !g_str_equal(optimizer, "none");
  double group = moved && stage == 3 ? g_ascii_strtod(settings_text(r->from, ZERO "sub_group_size"), NULL) : 0;

  json_open(w, "offload", '{');
  if (moved)
    json_put_string(w, "optimizer", optimizer);
  if (!g_str_equal(parameters, "none"))
    json_put_string(w, "parameters", parameters);
  if (group >= 1 && group < SUB_GROUP_ALL)
    json_put_real(w, "sub_group_size", group);
  json_close(w, '}');
}

/* ZeRO++ and MiCS, which stage 3 alone has. */
static void put_pieces(ConfigReading *r, JsonWriter *w)
{
  int secondary = config_int(r, ZERO "zero_hpz_partition_size", 1);

  if (secondary > 1)
    json_put_int(w, "zero_hpz_partition_size", secondary);
  if (config_true(r, ZERO "zero_quantized_weights", FALSE))
    json_put_bool(w, "zero_quantized_weights", TRUE);
  if (config_true(r, ZERO "zero_quantized_gradients", FALSE))
    json_put_bool(w, "zero_quantized_gradients", TRUE);
}

static void put_shard_group(ConfigReading *r, int stage, JsonWriter *w)
{
  int ranks = stage == 3 ? config_int(r, ZERO "mics_shard_size", -1) : -1;

  if (ranks > 0)
    json_put_int(w, "shard_group_size", ranks);
}

static void put_zero(ConfigReading *r, int stage, JsonWriter *w)
{
  gboolean overlap = config_true(r, ZERO "overlap_comm", stage == 3);
  gboolean ahead = !g_str_equal(settings_text(r->from, ZERO "stage3_prefetch_bucket_size"), "0");

  json_put_int(w, "zero_stage", stage);
  json_open(w, "zero_optimization", '{');
  if (stage > 0)
    put_size(r, w, "reduce_bucket_size");
  if (stage == 3) {
    put_size(r, w, "stage3_prefetch_bucket_size");
    put_size(r, w, "stage3_max_live_parameters");
    put_size(r, w, "stage3_param_persistence_threshold");
    put_pieces(r, w);
  }
  json_close(w, '}');
  put_shard_group(r, stage, w);
  put_offload(r, stage, w);
  json_open(w, "overlap", '{');
  json_put_bool(w, "gradients", overlap && stage > 0);
  json_put_bool(w, "parameters", ahead && stage == 3);
  json_put_bool(w, "tensor", config_true(r, "tensor_parallel.tp_overlap_comm", FALSE));
  json_close(w, '}');
}

typedef struct {
  int whole, micro, steps; /* sequences of a step, of a pass; passes; 0 = not told */
} Batch;

static Batch read_batch(ConfigReading *r)
{
  return (Batch) { told(r, "train_batch_size"), told(r, MICRO), told(r, "gradient_accumulation_steps") };
}

/* Data-parallel ranks that the three numbers come to; 0 where they do not say. */
static int ranks_of(const Batch *b)
{
  gint64 each = (gint64)b->micro * b->steps;

  return each > 0 && b->whole % each == 0 ? (int)(b->whole / each) : 0;
}

/* What is left out follows from what is there, as DeepSpeed's runtime/config.py has it: steps of accumulation are 1 where
 * the whole batch or the micro-batch stands alone. */
static void put_batch(ConfigReading *r, const Batch *b, int data, JsonWriter *w)
{
  int steps = MAX(1, b->steps);
  int micro = b->micro > 0 ? b->micro : (int)MAX(1, b->whole / ((gint64)data * steps));

  if (b->whole > 0 && b->steps > 0 && b->whole != (gint64)micro * steps * data)
    launch_assume(&r->to, "train_batch_size: %d: expected %d x gradient_accumulation_steps %d x %d ranks: DeepSpeed refuses "
                  "it", b->whole, micro, steps, data);
  if (is_auto(r, MICRO))
    launch_assume(&r->to, MICRO ": %d: the file says auto", micro);
  gint64 whole = b->whole > 0 ? b->whole : b->steps > 0 || r->batch == 0 ? (gint64)micro * steps * data : r->batch;
  if (is_auto(r, "gradient_accumulation_steps") && b->whole == 0 && r->batch == 0)
    launch_assume_open(&r->to, "--global-batch", "gradient_accumulation_steps: 1: the file says auto");
  if (!*settings_text(r->from, MICRO) && b->whole == 0)
    launch_assume_open(&r->to, "--global-batch", MICRO ": %d: the file names no batch", micro);
  json_put_int(w, "global_batch_size", whole);
  json_put_int(w, "micro_batch_size", micro);
}

static const char *precision_of(ConfigReading *r)
{
  static const char *const formats[] = { "fp16", "bf16", "bf16", "fp16" }; /* of two that the trainer fills in, bf16 */

  for (gsize i = 0; i < G_N_ELEMENTS(formats); i++) {
    g_autofree char *path = g_strconcat(formats[i], ".enabled", NULL);
    gboolean open = i >= 2;
    if (!g_str_equal(settings_text(r->from, path), open ? "auto" : "true"))
      continue;
    if (open)
      launch_assume(&r->to, "%s: true: the file says auto, which Hugging Face's trainer fills in by its own --%s", path,
                    formats[i]);
    return formats[i];
  }
  return "fp32";
}

/* The words of DtypeEnum (runtime/config.py); "" where the model's own format is meant. */
static const char *read_format(ConfigReading *r, const char *path)
{
  static const char *const words[][5] = {
    { "fp32", "float32", "float", "torch.float32", NULL },
    { "bf16", "bfloat16", "torch.bfloat16", NULL },
    { "fp16", "float16", "half", "torch.float16", NULL },
  };
  const char *text = settings_text(r->from, path);

  for (gsize i = 0; i < G_N_ELEMENTS(words); i++)
    for (int k = 0; words[i][k]; k++)
      if (g_ascii_strcasecmp(text, words[i][k]) == 0)
        return words[i][0];
  if (is_auto(r, path))
    launch_assume(&r->to, "%s: the model's own format: the file says auto", path);
  else if (*text)
    launch_fail(&r->to, "%s: %s: expected fp32, bf16 or fp16", path, text);
  return "";
}

/* Gradients are accumulated and sent in the model's format where nothing else is told (runtime/engine.py,
 * get_data_types(), communication_data_type()); a plan sends them as they are accumulated. */
static void put_formats(ConfigReading *r, const char *precision, JsonWriter *w)
{
  const char *kept = read_format(r, "data_types.grad_accum_dtype"), *sent = read_format(r, "communication_data_type");
  const char *accumulated = *kept ? kept : precision, *reduced = *sent ? sent : precision;

  if (!g_str_equal(accumulated, precision))
    json_put_string(w, "main_grads_dtype", accumulated);
  if (!g_str_equal(reduced, accumulated))
    json_put_string(w, "grad_reduce_dtype", reduced);
}

/* What is partitioned over tensor-parallel ranks are the inputs of blocks that are made again. */
static void put_recompute(ConfigReading *r, int tp, JsonWriter *w)
{
  static const char key[] = "activation_checkpointing.partition_activations";
  gboolean counted = settings_find(r->from, "activation_checkpointing.number_checkpoints") != NULL;
  gboolean stages = config_int(r, "pipeline.activation_checkpoint_interval", 0) > 0;
  gboolean parted = config_true(r, key, FALSE), full = counted || stages || (parted && tp > 1);

  json_put_string(w, "recompute_granularity", full ? "full" : "none");
  if (!full)
    launch_assume(&r->to, "recompute_granularity: none: whether blocks are made again stands in the program");
  if (parted && tp > 1)
    json_put_bool(w, "partition_activations", TRUE);
  else if (parted)
    launch_assume(&r->to, "%s: true: divides nothing, the file has no tensor parallelism", key);
}

/* Names as DeepSpeed takes them, or torch.optim has them; what is not modelled is taken as Adam, whose states are common. */
static Optimizer put_optimizer(ConfigReading *r, JsonWriter *w)
{
  const char *type = settings_text(r->from, "optimizer.type");
  const char *momentum = settings_text(r->from, "optimizer.params.momentum");
  Optimizer o = optimizer_default();

  for (int i = 0; *type && optimizer_names[i]; i++)
    if (g_ascii_strcasecmp(type, optimizer_names[i]) == 0) {
      o.name = (OptimizerName)i;
      json_put_string(w, "optimizer", optimizer_names[i]);
      if (i == OPTIMIZER_SGD)
        json_put_real(w, "sgd_momentum", g_ascii_strtod(momentum, NULL));
      return o;
    }
  if (*type && !g_str_equal(type, "auto"))
    launch_assume(&r->to, "optimizer.type: %s: taken as Adam, its own states are not simulated", type);
  return o;
}

/* Main weights in the model's bf16, and the moments that its optimizer has with them (runtime/precision_config.py). */
static void put_states(ConfigReading *r, const Optimizer *o, const char *precision, JsonWriter *w)
{
  static const OptimizerState moments[] = { STATE_EXP_AVG, STATE_EXP_AVG_SQ };
  gboolean main = config_true(r, "bf16.bf16_master_weights_and_grads", FALSE);
  gboolean narrow = config_true(r, "bf16.bf16_optimizer_states", FALSE);

  if (!g_str_equal(precision, "bf16"))
    return;
  if (main)
    json_put_string(w, optimizer_state_names[STATE_MAIN_PARAMS], "bf16");
  for (gsize i = 0; i < G_N_ELEMENTS(moments) && narrow; i++)
    if (optimizer_kind(o)->formats >> moments[i] & 1)
      json_put_string(w, optimizer_state_names[moments[i]], "bf16");
}

static void put_seq(ConfigReading *r, JsonWriter *w)
{
  if (r->seq > 0)
    json_put_int(w, "seq_length", r->seq);
  else
    launch_assume_open(&r->to, "--seq", "seq_length: the model's: the file names none");
}

static gboolean read_both(ConfigReading *r)
{
  g_autoptr(GString) text = g_string_new(NULL);
  int tp = number(r, "tensor_parallel.autotp_size", 1), cp = number(r, "sequence_parallel_size", 1);
  int ep = number(r, "expert_parallel.autoep_size", 1), stage = read_stage(r);
  gint64 each = (gint64)MAX(1, tp) * MAX(1, cp);
  Batch batch = read_batch(r);
  JsonWriter w;

  if (!config_gpus(r, r->gpus > 0 ? 0 : ranks_of(&batch) * each, each))
    return FALSE;
  json_writer_init(&w, text);
  json_open(&w, NULL, '{');
  json_put_int(&w, "gpus", r->to.out->gpus);
  put_batch(r, &batch, (int)(r->to.out->gpus / each), &w);
  json_put_int(&w, "tensor_model_parallel_size", tp);
  json_put_int(&w, "context_parallel_size", cp);
  json_put_int(&w, "expert_model_parallel_size", ep);
  put_seq(r, &w);
  put_zero(r, stage, &w);
  put_recompute(r, tp, &w);
  const Optimizer optimizer = put_optimizer(r, &w);
  const char *precision = precision_of(r);
  json_put_string(&w, "precision", precision);
  put_formats(r, precision, &w);
  put_states(r, &optimizer, precision, &w);
  json_put_string(&w, "framework", r->framework ? r->framework : "deepspeed");
  json_close(&w, '}');
  r->to.out->plan = g_string_free(g_steal_pointer(&text), FALSE);
  return !r->to.failed;
}

/* overlap_comm is on by default under stage 3 alone. */
static gboolean implied(const Settings *before, const Settings *after, const char *path)
{
  return g_str_equal(path, ZERO "overlap_comm") &&
         !g_str_equal(settings_text(before, ZERO "stage"), settings_text(after, ZERO "stage"));
}

static const SettingGroup groups[] = {
  { FALSE, "logs", { "steps_per_print", "wall_clock_breakdown", "dump_state", "tensorboard.*", "wandb.*",
                     "csv_monitor.*",
                     "flops_profiler.*", "comms_logger.*", "memory_breakdown", "*_comment*", "*description*", NULL } },
  { FALSE, "learning rate and other constants",
    { "optimizer.*", "scheduler.*", "gradient_clipping", "!fp16.fp16_*", "!fp16.auto_cast", "fp16.*", "!bf16.bf16_*",
      "!bf16.immediate_grad_update", "bf16.*", "zero_allow_untested_optimizer",
      "checkpoint.*", "dataloader_drop_last", NULL } },
  { TRUE, "tokens and layers that a step leaves out",
    { "data_efficiency*", "curriculum*", "progressive_layer_drop*", "sparse_attention*", "compression_training*",
      NULL } },
  { TRUE, "buffers, buckets and formats other than the software's usual ones",
    { ZERO "*", "fp16.*", "bf16.*", "torch_autocast.*", "data_types.*", "*communication_data_type",
      "activation_checkpointing.*", "tensor_parallel.*", "pipeline.*",
      "aio.*", "prescale_gradients", "gradient_predivide_factor", "sparse_gradients", "amp.*", "expert_parallel.*",
      "compile.*", "zero_force_ds_cpu_optimizer", "data_parallel_size", "graph_harvesting", "disable_allgather",
      "use_data_before_expert_parallelism", "elasticity*", "autotuning*", "hybrid_engine*", NULL } },
  { .about = NULL },
};

const ConfigTool config_deepspeed = { "deepspeed", "DeepSpeed configuration", settings_json, recognises, NULL,
                                      read_both, groups, .implied = implied };
