/* Hugging Face accelerate's launch configuration: FSDP, or Megatron-LM as its back end. The model, the batch and the
 * length of sequences stand in the user's program (accelerate 1.15, utils/dataclasses.py). */
#include "import/config_launch.h"

#include "plan/framework.h"

#define FSDP "fsdp_config.fsdp_"
#define SIZES "parallelism_config.parallelism_config_"
#define MEGATRON "megatron_lm_config.megatron_lm_"

static gboolean recognises(const Settings *s)
{
  return settings_find(s, "distributed_type") &&
         (settings_find(s, "num_processes") || settings_find(s, "compute_environment"));
}

static const char *precision_of(ConfigReading *r)
{
  const char *word = settings_text(r->from, "mixed_precision");

  if (g_str_equal(word, "fp16") || g_str_equal(word, "bf16") || g_str_equal(word, "fp8"))
    return word;
  if (*word && !g_str_equal(word, "no") && !g_str_equal(word, "false"))
    launch_fail(&r->to, "mixed_precision: %s: expected no, fp16, bf16 or fp8", word);
  return "fp32";
}

/* A count, from 1; `usual` where the file has none. */
static int read_count(ConfigReading *r, const char *path, int usual)
{
  int count = config_int(r, path, usual);

  if (count < 1 && *settings_text(r->from, path))
    launch_fail(&r->to, "%s: %d: expected a whole number from 1", path, count);
  return count;
}

/* Until version 2 strategies have names, or their numbers, under either key. */
static const char *const strategies[] = { "FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD",
                                          "HYBRID_SHARD_ZERO2", NULL };

/* From 1; 0 where the file has a truth, or nothing. */
static gsize read_strategy(ConfigReading *r)
{
  static const char *const keys[] = { FSDP "sharding_strategy", FSDP "reshard_after_forward" };

  for (gsize k = 0; k < G_N_ELEMENTS(keys); k++)
    for (gsize i = 0; strategies[i]; i++) {
      g_autofree char *digit = g_strdup_printf("%d", (int)i + 1);
      const char *told = settings_text(r->from, keys[k]);
      if (g_ascii_strcasecmp(told, strategies[i]) == 0 || g_str_equal(told, digit))
        return i + 1;
    }
  const char *other = settings_text(r->from, keys[0]);
  if (*other) {
    g_autofree char *all = g_strjoinv(", ", (char **)strategies);
    launch_fail(&r->to, "%s: %s: expected one of %s", keys[0], other, all);
  }
  return 0;
}

static void put_offload(JsonWriter *w, gboolean parameters)
{
  json_open(w, "offload", '{');
  json_put_string(w, "optimizer", "cpu");
  if (parameters)
    json_put_string(w, "parameters", "cpu");
  json_close(w, '}');
}

/* Copies of weights that `data` ranks have of `each`, in shards of as many as are left: one where no strategy says one
 * for each machine. 0 if that is none. */
static int read_copies(ConfigReading *r, int each, int data)
{
  gboolean hybrid = read_strategy(r) >= 4 && !*settings_text(r->from, SIZES "dp_replicate_size");
  const char *key = hybrid ? "num_machines" : SIZES "dp_replicate_size";
  int copies = read_count(r, key, 1), shards = read_count(r, SIZES "dp_shard_size", 1);
  gboolean told = *settings_text(r->from, SIZES "dp_shard_size") && (each > 1 || copies > 1 || shards > 1);

  if (r->to.failed)
    return 0;
  if (data % copies) {
    launch_fail(&r->to, "%s: %d: expected a divisor of the %d data-parallel ranks", key, copies, data);
    return 0;
  }
  if (told && shards != data / copies) {
    launch_fail(&r->to, SIZES "dp_shard_size: %d: expected %d, which num_processes %d leaves to it", shards,
                data / copies, r->to.out->gpus);
    return 0;
  }
  return copies;
}

/* FSDP divides weights always: those that stay gathered, as SHARD_GRAD_OP has them, leave behind the backward. */
static void put_sharding(ConfigReading *r, int shards, JsonWriter *w)
{
  gsize strategy = read_strategy(r);
  gboolean whole = strategy == 3 || shards == 1;
  gboolean stay = strategy ? strategy == 2 || strategy == 5 : !config_true(r, FSDP "reshard_after_forward", TRUE);

  json_put_int(w, "zero_stage", whole ? 0 : 3);
  if (stay && !whole)
    config_put_kept(w);
  if (shards > 0 && !whole)
    json_put_int(w, "shard_group_size", shards);
  if (config_true(r, FSDP "offload_params", FALSE))
    put_offload(w, !whole);
  json_put_string(w, "recompute_granularity",
                  config_true(r, FSDP "activation_checkpointing", FALSE) ? "full" : "none");
}

/* What the program says: sequences of a pass, passes of a step where the file does not (0), and their length. */
static void put_batch(ConfigReading *r, int data, int passes, JsonWriter *w)
{
  json_put_int(w, "micro_batch_size", 1);
  json_put_int(w, "global_batch_size", passes > 0 ? (gint64)data * passes : r->batch > 0 ? r->batch : data);
  launch_assume(&r->to, "micro_batch_size: 1: the file names none, as the program does");
  if (passes < 1 && r->batch == 0)
    launch_assume_open(&r->to, "--global-batch", "gradient_accumulation_steps: 1: the program says how many");
  if (r->seq > 0)
    json_put_int(w, "seq_length", r->seq);
  else
    launch_assume_open(&r->to, "--seq", "seq_length: the model's: the file names none");
}

static gboolean put_ranks(ConfigReading *r, int tp, int pp, int cp, JsonWriter *w)
{
  gint64 each = MIN((gint64)tp * cp, G_MAXINT) * pp;
  int told = read_count(r, "num_processes", 0);

  if (r->to.failed || !config_gpus(r, told, each))
    return FALSE;
  if (r->to.out->gpus % each)
    return launch_fail(&r->to, "num_processes: %d: expected a multiple of the %d that the degrees divide",
                       r->to.out->gpus, (int)each);
  json_put_int(w, "gpus", r->to.out->gpus);
  json_put_int(w, "tensor_model_parallel_size", tp);
  json_put_int(w, "pipeline_model_parallel_size", pp);
  json_put_int(w, "context_parallel_size", cp);
  return TRUE;
}

static gboolean put_fsdp(ConfigReading *r, JsonWriter *w)
{
  int tp = read_count(r, SIZES "tp_size", 1), cp = read_count(r, SIZES "cp_size", 1);

  if (!put_ranks(r, tp, 1, cp, w))
    return FALSE;
  int data = r->to.out->gpus / (tp * cp), copies = read_copies(r, tp * cp, data);
  if (copies == 0)
    return FALSE;
  const char *exchange = settings_text(r->from, SIZES "cp_comm_strategy");
  gboolean ring = g_str_equal(exchange, "alltoall"); /* step by step */
  if (*exchange && !ring && !g_str_equal(exchange, "allgather"))
    return launch_fail(&r->to, SIZES "cp_comm_strategy: %s: expected allgather or alltoall", exchange);
  if (cp > 1)
    json_put_string(w, "cp_comm_type", ring ? "p2p" : "all_gather");
  put_batch(r, data, 0, w);
  put_sharding(r, copies > 1 ? data / copies * cp : 0, w);
  json_put_string(w, "framework", r->framework ? r->framework : "fsdp");
  return TRUE;
}

/* accelerate takes full recomputation, layer by layer, where nothing is said; that of no layers is none. */
static void put_recompute(ConfigReading *r, JsonWriter *w)
{
  const char *kind = settings_text(r->from, MEGATRON "recompute_granularity");
  const char *method = settings_text(r->from, MEGATRON "recompute_method");
  gboolean full = !*kind || g_str_equal(kind, "full");
  int layers = config_int(r, MEGATRON "recompute_num_layers", 1);
  gboolean block = g_str_equal(method, "block");

  if (layers < 0)
    launch_fail(&r->to, MEGATRON "recompute_num_layers: %d: expected a whole number from 0", layers);
  if (*method && !block && !g_str_equal(method, "uniform"))
    launch_fail(&r->to, MEGATRON "recompute_method: %s: expected uniform or block", method);
  json_put_string(w, "recompute_granularity", block && layers == 0 ? "none" : *kind ? kind : "full");
  if (full && (block ? layers > 0 : layers > 1)) {
    json_put_string(w, "recompute_method", block ? method : "uniform");
    json_put_int(w, "recompute_num_layers", layers);
  }
}

static gboolean put_megatron(ConfigReading *r, JsonWriter *w)
{
  int tp = read_count(r, MEGATRON "tp_degree", 1), pp = read_count(r, MEGATRON "pp_degree", 1);
  int cp = read_count(r, MEGATRON "context_parallel_size", 2);
  int ep = read_count(r, MEGATRON "expert_model_parallel_size", 1);
  int etp = read_count(r, MEGATRON "expert_tensor_parallel_size", 1);

  if (!*settings_text(r->from, MEGATRON "context_parallel_size"))
    launch_assume(&r->to, "context_parallel_size: 2: the file names none, and accelerate then takes 2");
  if (!put_ranks(r, tp, pp, cp, w))
    return FALSE;
  json_put_bool(w, "sequence_parallel", config_true(r, MEGATRON "sequence_parallelism", FALSE) && tp > 1);
  json_put_int(w, "expert_model_parallel_size", ep);
  if (ep > 1)
    json_put_int(w, "expert_tensor_parallel_size", etp);
  put_batch(r, r->to.out->gpus / (tp * pp * cp), read_count(r, MEGATRON "num_micro_batches", 1), w);
  json_put_int(w, "zero_stage", config_true(r, MEGATRON "use_distributed_optimizer", FALSE));
  if (config_true(r, MEGATRON "optimizer_cpu_offload", FALSE))
    put_offload(w, FALSE);
  put_recompute(r, w);
  json_put_string(w, "framework", r->framework ? r->framework : FRAMEWORK_USUAL);
  return TRUE;
}

static gboolean read_plan(ConfigReading *r)
{
  const char *type = settings_text(r->from, "distributed_type");
  gboolean fsdp = g_str_equal(type, "FSDP");
  g_autoptr(GString) text = g_string_new(NULL);
  JsonWriter w;

  if (g_str_equal(type, "DEEPSPEED"))
    return launch_fail(&r->to, "distributed_type: DEEPSPEED: expected DeepSpeed's own JSON in place of this file, "
                       "the one of deepspeed_config_file");
  if (!fsdp && !g_str_equal(type, "MEGATRON_LM"))
    return launch_fail(&r->to, "distributed_type: %s: expected FSDP or MEGATRON_LM: nothing is divided here "
                       "(--framework ddp plans without a file)", type);
  json_writer_init(&w, text);
  json_open(&w, NULL, '{');
  json_put_string(&w, "precision", precision_of(r));
  if (!(fsdp ? put_fsdp(r, &w) : put_megatron(r, &w)))
    return FALSE;
  json_close(&w, '}');
  r->to.out->plan = g_string_free(g_steal_pointer(&text), FALSE);
  return !r->to.failed;
}

static const SettingGroup groups[] = {
  { FALSE, "machines, launchers and checkpoints",
    { "compute_environment", "debug", "downcast_bf16", "enable_cpu_affinity", "machine_rank", "main_*", "num_machines",
      "rdzv_*", "same_network", "tpu_*", "use_cpu", "gpu_ids", "dynamo_config", "fsdp_config", "parallelism_config",
      "megatron_lm_config", FSDP "auto_wrap_policy", FSDP "transformer_layer_cls_to_wrap", FSDP "min_num_params",
      FSDP "state_dict_type", FSDP "cpu_ram_efficient_loading", FSDP "sync_module_states", FSDP "use_orig_params",
      FSDP "version", MEGATRON "gradient_clipping", MEGATRON "*dropout", MEGATRON "use_rotary*", NULL } },
  { TRUE, "kernels and overlap other than the software's usual ones",
    { FSDP "*", SIZES "*", MEGATRON "*", "dynamo_config.*", "mixed_precision*", "fp8_config*", NULL } },
  { .about = NULL },
};

const ConfigTool config_accelerate = { "accelerate", "accelerate configuration", settings_yaml, recognises, NULL,
                                       read_plan, groups };
