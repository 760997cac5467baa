/* torchtitan's TOML, as its releases up to v0.2.2 read it. */
#include "base/files.h"
#include "import/config_torchtitan.h"
#include "model/torchtitan.h"

#include <string.h>

static const struct {
  const char *theirs, *own;
  gboolean chunks;
} schedules[] = {
  { "1F1B", "1f1b", FALSE }, { "GPipe", "gpipe", FALSE }, { "Interleaved1F1B", "interleaved-rounds", TRUE },
  { "interleaved_1f1b", "interleaved-rounds", TRUE }, /* until October 2024 */
  { "LoopedBFS", "looped-bfs", TRUE }, { "ZBVZeroBubble", "zb-v", TRUE }, { "DualPipeV", "dualpipev", TRUE },
};

/* What config_manager.py had elsewhere: degrees until 785c34c99 of March 2025, the rest until summer 2025. */
static const struct {
  const char *told, *path;
} renamed[] = {
  { "training.tensor_parallel_degree", PARALLEL "tensor_parallel_degree" },
  { "training.data_parallel_degree", PARALLEL "data_parallel_shard_degree" }, /* until September 2024 */
  { "training.data_parallel_shard_degree", PARALLEL "data_parallel_shard_degree" },
  { "training.data_parallel_replicate_degree", PARALLEL "data_parallel_replicate_degree" },
  { "training.fsdp_reshard_after_forward", PARALLEL "fsdp_reshard_after_forward" },
  { "experimental.context_parallel_degree", PARALLEL "context_parallel_degree" },
  { "experimental.pipeline_parallel_degree", PARALLEL "pipeline_parallel_degree" },
  { "experimental.pipeline_parallel_schedule", PARALLEL "pipeline_parallel_schedule" },
  { "experimental.pipeline_parallel_microbatches", PARALLEL "pipeline_parallel_microbatches" },
  { "experimental.pipeline_parallel_split_points", PARALLEL "pipeline_parallel_split_points" },
  { "experimental.enable_async_tensor_parallel", PARALLEL "enable_async_tensor_parallel" },
  { "training.batch_size", "training.local_batch_size" },
  { "training.compile", "compile.enable" },
};

static Settings *parse(const char *text)
{
  Settings *s = settings_toml(text);

  for (gsize i = 0; i < G_N_ELEMENTS(renamed); i++)
    settings_rename(s, renamed[i].told, renamed[i].path);
  return s;
}

/* Files of before April 2025 have degrees, which all presets state, elsewhere. */
static gboolean is_early(const Settings *s)
{
  gboolean early = FALSE;

  for (guint i = 0; i < s->list->len; i++) {
    const Setting *one = s->list->pdata[i];
    early |= one->told && g_str_has_prefix(one->path, PARALLEL);
  }
  return early;
}

static gboolean recognises(const Settings *s)
{
  return settings_find(s, "model.flavor") && settings_find(s, "model.name");
}

typedef struct {
  int tp, pp, cp, ep, replicate, shard, micro, local, layers;
  gboolean experts; /* the model has some */
  gboolean rows; /* tensor-parallel ranks divide them between products */
} Degrees;

/* Its file; what is known of it in the degrees. */
static void read_model(ConfigReading *r, Degrees *d)
{
  const char *name = settings_text(r->from, "model.name"), *flavor = settings_text(r->from, "model.flavor");

  const TorchtitanFlavor *known = torchtitan_flavor(name, flavor);
  g_autofree char *path = known ? files_find(known->model, "models", NULL) : NULL;
  g_autoptr(Model) model = path ? model_load(path, NULL) : NULL;

  if (model && g_file_get_contents(path, &r->to.out->model, NULL, NULL)) {
    d->layers = model->blocks;
    d->experts = model_has_experts(model);
    return;
  }
  launch_assume(&r->to, "model: %s %s: not among the models of this program (--model)", name, flavor);
  r->to.out->unknown_model = g_strdup_printf("%s %s", name, flavor);
}

/* An index of the table; -1 = none of it. */
static int find_schedule(const Settings *s)
{
  const char *name = settings_text(s, PARALLEL "pipeline_parallel_schedule");

  for (gsize i = 0; i < G_N_ELEMENTS(schedules); i++)
    if (g_ascii_strcasecmp(schedules[i].theirs, *name ? name : "1F1B") == 0)
      return (int)i;
  return -1;
}

static int count_of(const char *text, const char *part)
{
  int n = 0;

  for (const char *at = strstr(text, part); at; at = strstr(at + 1, part))
    n++;
  return n;
}

/* Stages of a rank: as the lists of modules or split points have them, else by the layers of each, else two. */
static int read_chunks(ConfigReading *r, const Degrees *d)
{
  int each = config_int(r, PARALLEL "pipeline_parallel_layers_per_stage", 0), schedule = find_schedule(r->from);
  int less = config_int(r, PARALLEL "pipeline_parallel_first_stage_less_layers", 1) +
             config_int(r, PARALLEL "pipeline_parallel_last_stage_less_layers", 1);
  int stages = count_of(settings_text(r->from, PARALLEL "module_fqns_per_model_part"), "[") - 1;
  int splits = count_of(settings_text(r->from, PARALLEL "pipeline_parallel_split_points"), "layers.");

  if (schedule < 0 || !schedules[schedule].chunks)
    return 1;
  if (stages < 1 && splits > 0)
    stages = splits + 1;
  if (stages < 1 && each > 0 && d->layers > 0)
    stages = (d->layers + less + each - 1) / each;
  return stages > 0 ? MAX(1, stages / MAX(1, d->pp)) : 2;
}

/* Until April 2025 files told how many there are, which was as many as stages of all ranks where they did not
 * (distributed/pipeline.py). */
static int read_micro(ConfigReading *r, const Degrees *d)
{
  int usual = is_early(r->from) ? (int)MIN((gint64)d->pp * read_chunks(r, d), G_MAXINT) : 0;
  int count = config_int(r, PARALLEL "pipeline_parallel_microbatches", usual);

  if (count < 1)
    return config_int(r, PARALLEL "pipeline_parallel_microbatch_size", 1);
  if (d->local % count)
    launch_assume(&r->to, "training.batch_size: %d: expected a multiple of the %d micro-batches", d->local, count);
  return MAX(1, d->local / count);
}

/* Experts on ranks of their own get parts of rows in any case: what is gathered behind them is not simulated. */
static gboolean divides_rows(ConfigReading *r, const Degrees *d)
{
  gboolean told = config_true(r, ROWS, TRUE);

  if (d->tp == 1)
    return FALSE;
  if (!told && d->ep > 1)
    launch_assume(&r->to, "enable_sequence_parallel: false: simulated as true: how rows reach experts of other ranks "
                  "without it is not simulated");
  return told || d->ep > 1;
}

/* Data-parallel ranks beside all others: -1 = those that are left. */
static gboolean read_degrees(ConfigReading *r, Degrees *d)
{
  d->tp = config_int(r, PARALLEL "tensor_parallel_degree", 1);
  d->pp = config_int(r, PARALLEL "pipeline_parallel_degree", 1);
  d->cp = config_int(r, PARALLEL "context_parallel_degree", 1);
  d->ep = config_int(r, PARALLEL "expert_parallel_degree", 1);
  d->replicate = config_int(r, PARALLEL "data_parallel_replicate_degree", 1);
  d->shard = config_int(r, PARALLEL "data_parallel_shard_degree", -1);
  d->rows = divides_rows(r, d);
  d->local = config_int(r, "training.local_batch_size", 8);
  d->micro = d->pp > 1 ? read_micro(r, d) : d->local;
  gint64 each = (gint64)d->tp * d->pp * d->cp * d->replicate * MAX(1, d->shard);
  if (!config_gpus(r, d->shard > 0 ? each : 0, each))
    return FALSE;
  if (d->shard < 1)
    d->shard = (int)(r->to.out->gpus / each);
  return TRUE;
}

static const struct {
  const char *theirs, *own, *framework; /* the first that has it */
} dispatchers[] = {
  { "standard", "alltoall", "torchtitan" }, { "deepep", "flex", "torchtitan-2025-11" },
  { "hybridep", "hybridep", "torchtitan-2026-05" },
};

/* How experts' ranks exchange tokens: an index of the table. */
static gsize find_dispatcher(ConfigReading *r)
{
  const char *name = settings_text(r->from, PARALLEL "expert_parallel_comm_backend");

  for (gsize i = 0; i < G_N_ELEMENTS(dispatchers); i++)
    if (g_str_equal(name, dispatchers[i].theirs))
      return i;
  if (*name)
    launch_assume(&r->to, "expert_parallel_comm_backend: %s: simulated as standard", name);
  return 0;
}

/* Global batches are a local one of each rank unless they are told. */
static void put_batch(ConfigReading *r, const Degrees *d, JsonWriter *w)
{
  int data = d->replicate * d->shard, batch = config_int(r, "training.global_batch_size", -1);
  int seq = config_int(r, "training.seq_len", 2048);

  json_put_int(w, "gpus", r->to.out->gpus);
  json_put_int(w, "global_batch_size", batch > 0 ? batch : (gint64)d->local * data);
  json_put_int(w, "micro_batch_size", d->micro);
  json_put_int(w, "seq_length", seq);
  json_put_int(w, "data_parallel_size", data);
  json_put_int(w, "tensor_model_parallel_size", d->tp);
  json_put_bool(w, "sequence_parallel", d->rows);
  json_put_int(w, "context_parallel_size", d->cp);
  json_put_int(w, "expert_model_parallel_size", d->ep);
  if (d->ep > 1)
    json_put_int(w, "expert_tensor_parallel_size", config_int(r, PARALLEL "expert_tensor_parallel_degree", 1));
}

/* A list of the modules of each stage: writes how many layers each holds. FALSE without a list. */
static gboolean put_stages(ConfigReading *r, JsonWriter *w)
{
  const char *list = settings_text(r->from, PARALLEL "module_fqns_per_model_part");

  if (!*list)
    return FALSE;
  json_open_line(w, "layer_split", '[');
  for (const char *c = strchr(list + 1, '['); c; c = strchr(c, '[')) {
    gsize length = strcspn(++c, "]");
    g_autofree char *names = g_strndup(c, length);
    json_put_int(w, NULL, count_of(names, "layers."));
  }
  json_close_line(w, ']');
  return TRUE;
}

/* The same of a list of the first layers of all stages but the first, which files had until October 2025. */
static void put_splits(ConfigReading *r, int layers, JsonWriter *w)
{
  const Setting *one = settings_find(r->from, PARALLEL "pipeline_parallel_split_points");
  const char *list = one ? one->value : "";
  int before = 0;

  if (layers < 1 || !strstr(list, "layers."))
    return;
  json_open_line(w, "layer_split", '[');
  for (const char *c = strstr(list, "layers."); c; c = strstr(c, "layers.")) {
    c += strlen("layers.");
    int first = (int)CLAMP(g_ascii_strtoll(c, NULL, 10), 0, layers);
    if (first < before || first >= layers)
      launch_fail(&r->to, "%s: %s: expected layers in order, below the model's %d", one->told ? one->told : one->path,
                  list, layers);
    json_put_int(w, NULL, first - before);
    before = first;
  }
  json_put_int(w, NULL, layers - before);
  json_close_line(w, ']');
}

static void put_pipeline(ConfigReading *r, const Degrees *d, JsonWriter *w)
{
  int schedule = find_schedule(r->from), chunks = read_chunks(r, d);

  json_put_int(w, "pipeline_model_parallel_size", d->pp);
  if (d->pp < 2)
    return;
  if (schedule >= 0)
    json_put_string(w, "pipeline_schedule", schedules[schedule].own);
  else
    launch_assume(&r->to, "pipeline_parallel_schedule: %s: simulated as 1F1B",
                  settings_text(r->from, PARALLEL "pipeline_parallel_schedule"));
  if (!put_stages(r, w))
    put_splits(r, d->layers, w);
  if (schedule >= 0 && schedules[schedule].chunks)
    json_put_int(w, "virtual_pipeline_model_parallel_size", chunks);
}

/* FSDP2 divides weights always. By default it keeps them gathered in pipelines, whose stages then give them back once a
 * step (torchtitan, get_fsdp_reshard_after_forward_policy(); PyTorch, pipelining/stage.py). */
static void put_sharding(ConfigReading *r, const Degrees *d, JsonWriter *w)
{
  const char *policy = settings_text(r->from, PARALLEL "fsdp_reshard_after_forward");
  gboolean never = g_str_equal(policy, "never") || (d->pp > 1 && !g_str_equal(policy, "always"));
  const char *type = settings_text(r->from, "training.data_parallel_type"); /* until September 2024 */
  gboolean copies = g_str_equal(type, "ddp");
  gboolean plain = copies || (d->replicate > 1 && d->shard == 1 && d->tp * d->pp * d->cp == 1);

  json_put_int(w, "zero_stage", plain ? 0 : 3);
  if (d->replicate > 1 && !plain)
    json_put_int(w, "shard_group_size", d->shard * d->cp);
  if (never && !plain)
    config_put_kept(w);
  if (!config_true(r, "training.enable_cpu_offload", FALSE))
    return;
  json_open(w, "offload", '{'); /* CPUOffloadPolicy moves all states */
  json_put_string(w, "optimizer", "cpu");
  if (!plain)
    json_put_string(w, "parameters", "cpu");
  json_close(w, '}');
}

/* torchtitan 0.2.2, config/job_config.py: every how many blocks one is made again, two unless the file says so, or "op". */
static const char *recomputation(ConfigReading *r, const char *mode)
{
  const char *option = settings_text(r->from, "activation_checkpoint.selective_ac_option");

  if (g_str_equal(mode, "memory_budget")) {
    launch_assume(&r->to, "activation_checkpoint.mode: memory_budget: simulated as selective: what the compiler keeps "
                  "within a budget is not known");
    settings_find(r->from, "activation_checkpoint.memory_budget");
    return "selective";
  }
  if (*mode && !g_str_equal(mode, "selective"))
    return mode;
  if (g_str_equal(option, "op"))
    return "selective";
  int every = config_int(r, "activation_checkpoint.selective_ac_option", 2);
  if (every <= 1)
    return "full";
  launch_assume(&r->to, "activation_checkpoint.selective_ac_option: %d: taken as \"op\": one block of %d made again whole is "
                "not simulated", every, every);
  return "selective";
}

static char **words_of(const char *list)
{
  return g_strsplit_set(list, "[]\"', \n", -1);
}

/* Converters of linear layers by the names that files have, which are also those of their sections. */
static const struct {
  const char *name, *precision, *recipe; /* recipe NULL: as the section says, where there are several */
} converters[] = {
  { "quantize.linear.mx", "fp8", "mxfp8" }, { "mx", "fp8", "mxfp8" },
  { "quantize.linear.float8", "fp8", NULL }, { "float8", "fp8", NULL }, /* without a prefix until 0.2 */
  { "quantize.linear.nvfp4", "fp4", NULL }, /* since August 2026 */
};

/* The index of such a name; -1 if it is none. */
static int converter_named(const char *name)
{
  for (gsize i = 0; i < G_N_ELEMENTS(converters); i++)
    if (g_str_equal(converters[i].name, name))
      return (int)i;
  return -1;
}

/* That which a file names, by its index; -1 if there is none. */
static int find_converter(const Settings *s)
{
  g_auto(GStrv) names = words_of(settings_text(s, "model.converters"));

  for (gsize i = 0; i < G_N_ELEMENTS(converters); i++)
    if (g_strv_contains((const char *const *)names, converters[i].name))
      return (int)i;
  /* until February 2025 */
  return settings_true(s, "float8.enable_float8_linear", FALSE) ? converter_named("float8") : -1;
}

static void put_recipe(ConfigReading *r, const char *section, JsonWriter *w)
{
  g_autofree char *name = g_strconcat(section, ".recipe_name", NULL);
  g_autofree char *gather = g_strconcat(section, ".enable_fsdp_float8_all_gather", NULL);

  if (g_str_has_prefix(settings_text(r->from, name), "rowwise"))
    json_put_string(w, "fp8_recipe", "rowwise");
  else if (!config_true(r, gather, FALSE))
    json_put_bool(w, "fp8_param_gather", FALSE);
}

/* Whether products of a block are left out: all their names start with its own, of which a filter is a part. */
static gboolean leaves_out(char **filters, int block)
{
  g_autofree char *name = g_strdup_printf("layers.%d.", block);
  gboolean any = FALSE;

  for (int i = 0; filters[i] && !any; i++)
    any = *filters[i] && strstr(name, filters[i]);
  return any;
}

/* Filters of parts of blocks are said: all but those of whole blocks, and of what is in 16 bits by itself. */
static void say_parts(ConfigReading *r, const char *key, char **filters)
{
  static const char whole[] = "^(layers\\.?\\d*\\.?|output|lm_head|.*embed.*|.*norm|.*router\\.gate|router|auto_filter_small_kn|)$";

  for (int i = 0; filters[i]; i++)
    if (!g_regex_match_simple(whole, filters[i], 0, 0))
      launch_assume(&r->to, "%s: %s: names parts of blocks: simulated as cast", key, filters[i]);
}

/* Blocks at either end that the converter's section leaves in 16 bits. */
static void put_wide(ConfigReading *r, const char *section, int blocks, JsonWriter *w)
{
  g_autofree char *key = g_strconcat(section, ".filter_fqns", NULL);
  g_auto(GStrv) filters = words_of(settings_text(r->from, key));
  int start = 0, end = 0, all = 0;

  for (int i = 0; i < blocks; i++)
    all += leaves_out(filters, i);
  while (start < blocks && leaves_out(filters, start))
    start++;
  while (start + end < blocks && leaves_out(filters, blocks - 1 - end))
    end++;
  if (start > 0)
    json_put_int(w, "num_layers_at_start_in_bf16", start);
  if (end > 0)
    json_put_int(w, "num_layers_at_end_in_bf16", end);
  if (all > start + end)
    launch_assume(&r->to, "%s: %d layers of it are neither first nor last: simulated as cast", key, all - start - end);
  say_parts(r, key, filters);
}

/* A list of components without the model leaves that to eager kernels, whatever else is compiled. */
static void say_compiled(ConfigReading *r)
{
  const Settings *s = r->from;
  gboolean compiled = config_true(r, "compile.enable", FALSE);
  const Setting *parts = settings_last(s, "compile.components"); /* which stays among what is not simulated */

  if (r->framework || is_early(s))
    return;
  if (!compiled)
    launch_assume(&r->to, "compile.enable: false: simulated as if compiled, as torchtitan's own runs are");
  else if (parts && !strstr(parts->value, "model"))
    launch_assume(&r->to, "compile.components: without model: simulated as if it were compiled, as torchtitan's own "
                  "runs are");
}

/* Converters that are not simulated, and what those of linear layers and of experts leave in another format. */
static void say_converters(ConfigReading *r, const Degrees *d)
{
  g_auto(GStrv) names = words_of(settings_text(r->from, "model.converters"));
  const char *experts = NULL;
  gboolean narrow = FALSE;

  for (int i = 0; names[i]; i++) {
    gboolean grouped = g_str_has_prefix(names[i], "quantize.grouped_mm.");
    gboolean linear = converter_named(names[i]) >= 0;
    narrow |= linear;
    if (grouped)
      experts = names[i];
    else if (*names[i] && !linear)
      launch_assume(&r->to, "model.converters: %s: not simulated", names[i]);
  }
  if (experts && !narrow && d->experts)
    launch_assume(&r->to, "model.converters: %s: products of experts are simulated in the format of all others",
                  experts);
  if (!experts && narrow && d->experts)
    launch_assume(&r->to, "model.converters: none of grouped_mm: products of experts are simulated in the linear "
                  "layers' format");
}

static void put_kernels(ConfigReading *r, const Degrees *d, JsonWriter *w)
{
  const Settings *s = r->from;
  const char *mode = settings_text(s, "activation_checkpoint.mode");
  const char *format = settings_text(s, "training.mixed_precision_param");
  int converter = find_converter(s);
  gboolean narrow = converter >= 0, scaled = narrow && g_str_equal(converters[converter].precision, "fp8");

  json_put_string(w, "recompute_granularity", recomputation(r, mode));
  json_put_string(w, "precision", narrow ? converters[converter].precision
                                  : g_str_equal(format, "float32") ? "fp32" : "bf16");
  if (scaled && converters[converter].recipe)
    json_put_string(w, "fp8_recipe", converters[converter].recipe);
  else if (scaled)
    put_recipe(r, converters[converter].name, w);
  if (scaled)
    put_wide(r, converters[converter].name, d->layers, w);
  say_converters(r, d);
  if (g_str_equal(settings_text(s, "training.dtype"), "bfloat16"))
    launch_assume(&r->to, "training.dtype: bfloat16: weights, gradients and moments are simulated in fp32, as with "
                  "float32");
  if (config_true(r, PARALLEL "enable_async_tensor_parallel", FALSE))
    json_put_bool(w, "tp_comm_overlap", TRUE);
  say_compiled(r);
}

static gboolean has_chunks(const Settings *s)
{
  return g_str_has_prefix(settings_text(s, "loss"), "Chunked");
}

/* The first generation that has what the file says. */
static const char *generation(const ConfigReading *r, const Degrees *d, gsize dispatcher)
{
  if (is_early(r->from))
    return settings_true(r->from, "compile.enable", FALSE) ? "torchtitan-2024-compile" : "torchtitan-2024-eager";
  if (settings_true(r->from, FOLDED, FALSE))
    return "torchtitan-2026-09";
  int converter = find_converter(r->from);
  if (converter >= 0 && g_str_equal(converters[converter].precision, "fp4"))
    return "torchtitan-2026-08";
  return has_chunks(r->from) || (d->tp > 1 && !d->rows) ? "torchtitan-2026-05" : dispatchers[dispatcher].framework;
}

/* What says what torchtitan has anyway is read, and named nowhere. */
static void read_usual(const Settings *s)
{
  static const char *const usual[][2] = { { "optimizer.implementation", "fused" },
                                          { "optimizer.early_step_in_backward", "false" } };

  for (gsize i = 0; i < G_N_ELEMENTS(usual); i++) {
    const Setting *one = settings_last(s, usual[i][0]);
    if (one && g_str_equal(one->value, usual[i][1]))
      settings_find(s, usual[i][0]);
  }
}

gboolean torchtitan_read(ConfigReading *r)
{
  const char *optimizer = settings_text(r->from, "optimizer.name");
  g_autoptr(GString) text = g_string_new(NULL);
  Degrees d = { 0 };
  JsonWriter w;

  read_model(r, &d);
  read_usual(r->from);
  if (!read_degrees(r, &d))
    return FALSE;
  gsize dispatcher = d.ep > 1 ? find_dispatcher(r) : 0;
  json_writer_init(&w, text);
  json_open(&w, NULL, '{');
  put_batch(r, &d, &w);
  if (dispatcher > 0)
    json_put_string(&w, "moe_token_dispatcher_type", dispatchers[dispatcher].own);
  put_pipeline(r, &d, &w);
  put_sharding(r, &d, &w);
  put_kernels(r, &d, &w);
  const char *own = generation(r, &d, dispatcher), *framework = r->framework ? r->framework : own;
  const char *loss = settings_text(r->from, "loss");
  if (*loss && !has_chunks(r->from) && settings_true(r->from, FOLDED, FALSE) && g_str_equal(framework, own))
    launch_assume(&r->to, "loss: %s: simulated in chunks, as torchtitan's own configurations have it", loss);
  json_put_string(&w, "framework", framework);
  json_close(&w, '}');
  if (*optimizer && g_ascii_strncasecmp(optimizer, "adam", strlen("adam")) != 0)
    launch_assume(&r->to, "optimizer: %s: simulated as AdamW", optimizer);
  r->to.out->plan = g_string_free(g_steal_pointer(&text), FALSE);
  return !r->to.failed;
}

gboolean torchtitan_implied(const Settings *before, const Settings *after, const char *path)
{
  const char *stages = PARALLEL "pipeline_parallel_degree";

  return !g_str_equal(settings_text(before, stages), settings_text(after, stages)) &&
         (g_str_has_prefix(path, PARALLEL "pipeline_") || g_str_equal(path, PARALLEL "fsdp_reshard_after_forward"));
}

const SettingGroup torchtitan_groups[] = {
  { FALSE, "job, data, checkpoints and logs",
    { "job.*", "profil*", "metrics*", "checkpoint*", "training.dataset*", "dataloader*", "model.tokenizer*",
      "model.hf_assets*", "hf_assets_path", "loss*", "training.steps", "validat*", "debug.*", "training.seed",
      "training.deterministic", "comm.*", "experimental.custom_*", "fault_tolerance.*", "memory_estimation.*", NULL } },
  { FALSE, "learning rate and other constants",
    { "!optimizer.early_step_in_backward", "!optimizer.implementation", "optimizer*", "lr_scheduler*",
      "training.max_norm", "training.warmup_steps", "model.print*", "model.norm_type", NULL } },
  { TRUE, "kernels, buckets and formats other than the software's usual ones",
    { "compile*", "model_spec*", "experimental.*", "training.compile", "training.*able_loss_parallel", "quantize.*",
      "float8.*", "mx.*", PARALLEL "*",
      "training.mixed_precision_reduce", "optimizer.early_step_in_backward", "optimizer.implementation",
      "activation_checkpoint*", "training.gc_*", "training.disable_cuda_graphs", "model.use_flex*", "model.attn*", NULL } },
  { .about = NULL },
};

const ConfigTool config_torchtitan = {
  .tool = "torchtitan",
  .title = "torchtitan configuration",
  .parse = parse,
  .recognises = recognises,
  .read = torchtitan_read,
  .groups = torchtitan_groups,
  .implied = torchtitan_implied,
};
