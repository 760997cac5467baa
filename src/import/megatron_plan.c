/* Megatron-LM's arguments of a plan. */
#include "import/megatron_launch.h"

#include "base/json.h"
#include "plan/split.h"

#include <string.h>

#define OVERLAPPED "overlapped_distributed_optimizer" /* Megatron-LLaMA's */
#define RANKS_MAX 10000000

/* Degrees, the GPUs that they need, and the software. */
typedef struct {
  int tp, pp, vpp, cp, ep, etp, layers, gpus;
  int zero, micro;
  gboolean deepspeed;
  const char *framework;
  int split[SPLIT_STAGES_MAX], stages; /* layers of each stage; 0 = equal ones */
} Degrees;

static void put_flag(JsonWriter *w, const char *key, gboolean value)
{
  if (value)
    json_put_bool(w, key, TRUE);
}

static void put_text(JsonWriter *w, const char *key, const char *value)
{
  if (*value)
    json_put_string(w, key, value);
}

/* ---- stages ---- */

/* Characters of "*8" at `text`, and its number between two bounds; none, and once, where there is no number. */
static int read_times(const char *text, int least, int most, int *times)
{
  char *end = NULL;
  gint64 said = *text == '*' ? g_ascii_strtoll(text + 1, &end, 10) : 0;
  gboolean found = end && g_ascii_isdigit(end[-1]);

  *times = found ? (int)CLAMP(said, least, most) : 1;
  return found ? (int)(end - text) : 0;
}

/* "Et*8|(t*9|)*2t*8L": repeats of brackets are written out. */
static char *spread_layout(const char *layout)
{
  GString *text = g_string_new(NULL);

  for (const char *c = layout; *c && text->len < 100000;) {
    const char *end = *c == '(' ? strchr(c, ')') : NULL;
    int times;
    if (!end) {
      g_string_append_c(text, *c++);
      continue;
    }
    int n = read_times(end + 1, 1, 1000, &times);
    for (int i = 0; i < times; i++)
      g_string_append_len(text, c + 1, end - c - 1);
    c = end + 1 + n;
  }
  return g_string_free(text, FALSE);
}

static void read_layout(Reading *r, Degrees *d, const char *layout)
{
  g_autofree char *spread = spread_layout(layout);
  int layers = 0;

  d->stages = 0;
  for (const char *c = spread; d->stages < SPLIT_STAGES_MAX; c++) {
    int times;
    if (*c == 't') {
      c += read_times(c + 1, 0, SPLIT_LAYERS_MAX + 1, &times); /* more are refused as the plan's */
      layers += times;
    }
    if (*c == '|' || *c == '\0') {
      d->split[d->stages++] = layers;
      layers = 0;
    }
    if (*c == '\0')
      break;
  }
  if (d->pp < 1 || d->stages % d->pp != 0) {
    launch_fail(&r->to, "--pipeline-model-parallel-layout: %s: expected a multiple of %d stages", layout, d->pp);
    return;
  }
  d->vpp = d->stages / d->pp;
}

/* Stages of a pattern of layers; equal ones need no split. */
static void read_pattern(Reading *r, Degrees *d, const char *pattern)
{
  gboolean equal = TRUE;

  d->stages = pattern_stages(pattern, d->split, SPLIT_STAGES_MAX);
  if (d->stages > SPLIT_STAGES_MAX || d->stages % d->pp != 0) {
    launch_fail(&r->to, "--hybrid-layer-pattern: %s: expected a multiple of %d stages", pattern, d->pp);
    return;
  }
  for (int i = 1; i < d->stages; i++)
    equal = equal && d->split[i] == d->split[0];
  d->vpp = d->stages / d->pp;
  d->stages = equal ? 0 : d->stages;
}

/* First and last stages with numbers of their own, the rest in equal ones. */
static void read_ends(Reading *r, Degrees *d, int first, int last)
{
  int others = d->pp - (first > 0) - (last > 0), rest = d->layers - first - last;

  if (d->pp < 2 || d->vpp > 1 || others < 1 || rest < 0 || rest % others || d->pp > SPLIT_STAGES_MAX) {
    launch_fail(&r->to, "--decoder-first-pipeline-num-layers: %d: expected stages of whole layers without chunks",
                first);
    return;
  }
  d->stages = d->pp;
  for (int i = 0; i < d->pp; i++)
    d->split[i] = i == 0 && first ? first : i == d->pp - 1 && last ? last : rest / others;
}

/* The embedding, the head and its loss count as a layer of the first stage and of the last. */
static void read_accounted(Reading *r, Degrees *d, gboolean embedding, gboolean loss)
{
  gint64 stages = (gint64)d->pp * d->vpp;
  int layers = d->layers + embedding + loss;

  if (d->pp < 2)
    return;
  if (stages > SPLIT_STAGES_MAX || layers % stages) {
    launch_fail(&r->to, "--account-for-%s-in-pipeline-split: expected %d layers, counted with it, to divide by %d stages",
                embedding ? "embedding" : "loss", layers, (int)MIN(stages, G_MAXINT));
    return;
  }
  d->stages = (int)stages;
  for (int i = 0; i < d->stages; i++)
    d->split[i] = layers / d->stages - (embedding && i == 0) - (loss && i == d->stages - 1);
}

static void read_stages(Reading *r, Degrees *d)
{
  gboolean embedding = reading_flag(r, "account_for_embedding_in_pipeline_split");
  gboolean loss = reading_flag(r, "account_for_loss_in_pipeline_split");
  int chunk = reading_int(r, "num_layers_per_virtual_pipeline_stage", 0);
  int first = reading_int(r, "decoder_first_pipeline_num_layers", 0);
  int last = reading_int(r, "decoder_last_pipeline_num_layers", 0);
  const char *layout = reading_text(r, "pipeline_model_parallel_layout");

  d->vpp = reading_int(r, "num_virtual_stages_per_pipeline_rank", 1);
  d->vpp = MAX(d->vpp, reading_int(r, "virtual_pipeline_model_parallel_size", 1));
  if (chunk > 0 && d->pp > 0)
    d->vpp = MAX(1, (d->layers + embedding + loss) / d->pp / chunk);
  if (strchr(pattern_text(r), '|'))
    read_pattern(r, d, pattern_text(r));
  else if (*layout)
    read_layout(r, d, layout);
  else if (first || last)
    read_ends(r, d, first, last);
  else if (embedding || loss)
    read_accounted(r, d, embedding, loss);
}

static void put_stages(Reading *r, const Degrees *d, JsonWriter *w)
{
  int group = reading_int(r, "microbatch_group_size_per_virtual_pipeline_stage",
                          reading_int(r, "microbatch_group_size_per_vp_stage", 0));

  json_put_int(w, "pipeline_model_parallel_size", d->pp);
  json_put_int(w, "virtual_pipeline_model_parallel_size", d->vpp);
  if (group > 0 && group != d->pp && d->vpp > 1)
    json_put_int(w, "microbatch_group_size_per_vp_stage", group);
  put_flag(w, "use_tp_pp_dp_mapping", reading_flag(r, "use_tp_pp_dp_mapping") && d->pp > 1);
  if (d->stages > 0) {
    json_open_line(w, "layer_split", '[');
    for (int i = 0; i < d->stages; i++)
      json_put_int(w, NULL, d->split[i]);
    json_close_line(w, ']');
  } else if (*reading_text(r, "pp_partition_method") && d->pp > 1 && d->layers % d->pp) {
    json_put_string(w, "layer_split", "balanced");
    launch_assume(&r->to, "layer_split: balanced: as near as this is to --pp-partition-method");
  }
}

/* ---- sharding ---- */

static int read_zero(Reading *r)
{
  const char *strategy = reading_text(r, "data_parallel_sharding_strategy");
  gboolean fsdp = reading_flag(r, "use_megatron_fsdp") || reading_flag(r, "use_custom_fsdp");
  gboolean distributed = reading_flag(r, "use_distributed_optimizer") | reading_flag(r, OVERLAPPED);
  int zero = reading_int(r, "zero_stage", distributed ? 1 : 0);
  const char *optimizer = reading_text(r, "optimizer");

  if (fsdp) /* its own default is no_shard */
    return g_str_equal(strategy, "optim_grads_params") ? 3 : g_str_equal(strategy, "optim_grads") ? 2
           : g_str_equal(strategy, "optim");
  if (g_str_has_prefix(optimizer, "dist_"))
    return 1;
  return reading_flag(r, "torch_fsdp2") || reading_flag(r, "use_torch_fsdp2") ? 3 : zero;
}

/* DeepSpeed's own file has the last word on its stage. */
static void read_settings(Reading *r, Degrees *d)
{
  g_autoptr(JsonDoc) doc = r->settings ? json_parse(r->settings, strlen(r->settings), r->to.file, NULL) : NULL;
  const cJSON *zero = doc ? json_get(json_root(doc), "zero_optimization") : NULL;
  const cJSON *stage = zero ? json_get(zero, "stage") : NULL;
  const cJSON *bf16 = doc ? json_get(json_root(doc), "bf16") : NULL;

  if (cJSON_IsNumber(stage) && stage->valuedouble >= 0 && stage->valuedouble <= 3)
    d->zero = (int)stage->valuedouble;
  if (d->zero == 0 && cJSON_IsTrue(bf16 ? json_get(bf16, "enabled") : NULL)) {
    d->zero = 1;
    launch_assume(&r->to, "zero_stage: 1: DeepSpeed's optimizer for bf16 divides states under stage 0 too");
  }
}

static void put_states(Reading *r, const Degrees *d, JsonWriter *w)
{
  int copies = reading_int(r, "num_distributed_optimizer_instances", 1);
  int replicas = d->gpus / (d->tp * d->pp), bucket = reading_int(r, "ddp_bucket_size", 0);

  reading_text(r, "outer_dp_sharding_strategy"); /* with copies, whatever it says */
  json_put_int(w, "zero_stage", d->zero);
  if (copies > 1 && d->zero > 0 && replicas % copies == 0)
    json_put_int(w, "shard_group_size", replicas / copies);
  megatron_formats_put(r, d->framework, w);
  if (bucket > 0) {
    json_open(w, "zero_optimization", '{');
    json_put_int(w, "reduce_bucket_size", bucket);
    json_close(w, '}');
  }
  if (reading_flag(r, "optimizer_cpu_offload") || reading_flag(r, "cpu_optimizer"))
    json_put_string(w, "offload", "optimizer");
}

static void put_optimizer(Reading *r, const Degrees *d, JsonWriter *w)
{
  const char *name = reading_text(r, "optimizer");
  double momentum = reading_real(r, "sgd_momentum", 0.9);
  int steps = reading_int(r, "muon_num_ns_steps", 5);
  const char *mode = reading_text(r, "muon_tp_mode");

  if (g_str_has_prefix(name, "dist_"))
    name += strlen("dist_");
  json_put_string(w, "optimizer", *name ? name : "adam");
  if (g_str_equal(name, "sgd"))
    json_put_real(w, "sgd_momentum", momentum);
  if (g_str_equal(name, "muon")) {
    json_put_int(w, "muon_num_ns_steps", steps);
    gboolean untold = !*mode && d->tp > 1;
    put_text(w, "muon_tp_mode", untold ? "blockwise" : mode);
    if (untold)
      launch_assume(&r->to, "muon_tp_mode: blockwise: nothing says --muon-tp-mode, which Megatron-LM takes as duplicated "
                            "since August 2026");
  }
}

static void put_overlap(Reading *r, const Degrees *d, JsonWriter *w)
{
  gboolean listed = r->from->listed, sends = reading_flag(r, "overlap_p2p_comm");
  gboolean waits = reading_flag(r, "no_overlap_p2p_communication"), at_once = reading_flag(r, OVERLAPPED);

  json_open(w, "overlap", '{');
  json_put_bool(w, "gradients", reading_flag(r, "overlap_grad_reduce") || d->zero >= 2 || at_once);
  json_put_bool(w, "parameters", reading_flag(r, "overlap_param_gather") || d->zero == 3 || at_once);
  json_put_bool(w, "pipeline", d->vpp > 1 && d->pp > 1 && (listed ? sends : !waits));
  put_flag(w, "offload", reading_flag(r, "overlap_cpu_optimizer_d2h_h2d"));
  put_flag(w, "experts", reading_flag(r, "moe_shared_expert_overlap"));
  put_flag(w, "exchange", reading_flag(r, "overlap_moe_expert_parallel_comm"));
  reading_flag(r, "delay_wgrad_compute");
  json_close(w, '}');
}

/* ---- passes ---- */

/* Of MindSpeed-LLM's argument, and of Megatron-DeepSpeed's Ulysses, where cp_comm_type says nothing. */
static const char *context_algorithm(Reading *r)
{
  const char *text = reading_text(r, "context_parallel_algo");

  if (*text && !g_str_equal(text, "megatron_cp_algo") && !g_str_equal(text, "ulysses_cp_algo"))
    launch_assume(&r->to, "context_parallel_algo: %s is taken as megatron_cp_algo", text);
  return g_str_equal(text, "ulysses_cp_algo") || reading_int(r, "ds_sequence_parallel_size", 1) > 1 ? "a2a" : "p2p";
}

static void put_context(Reading *r, const Degrees *d, JsonWriter *w)
{
  const char *kind = reading_text(r, "cp_comm_type"), *sizes = reading_text(r, "hierarchical_context_parallel_sizes");
  int inner = (int)g_ascii_strtoll(sizes + strspn(sizes, "["), NULL, 10);
  g_auto(GStrv) kinds = g_strsplit_set(kind, " []',", -1);

  json_put_int(w, "context_parallel_size", d->cp);
  if (d->cp < 2)
    return;
  const char *first = "";
  for (int i = 0; kinds[i] && !*first; i++)
    first = kinds[i];
  json_put_string(w, "cp_comm_type", *first ? first : context_algorithm(r));
  if (inner > 0 && g_str_equal(first, "a2a+p2p"))
    json_put_int(w, "context_parallel_a2a_size", inner);
}

/* The backend is that of flex alone, whatever the others are told. */
static const char *read_dispatcher(Reading *r)
{
  const char *text = reading_text(r, "moe_token_dispatcher_type");
  const char *backend = reading_text(r, "moe_flex_dispatcher_backend");

  reading_flag(r, "moe_enable_deepep");
  if (g_str_equal(text, "alltoall_seq")) {
    launch_assume(&r->to, "moe_token_dispatcher_type: alltoall_seq, the first form of alltoall, is taken as that");
    return "alltoall";
  }
  if (!g_str_equal(text, "flex") || !*backend || g_str_equal(backend, "deepep"))
    return text;
  if (g_str_equal(backend, "ncclep"))
    launch_assume(&r->to, "moe_flex_dispatcher_backend: ncclep is simulated as hybridep: NCCL's exchange of tokens has no "
                  "measurements here");
  else if (!g_str_equal(backend, "hybridep"))
    launch_fail(&r->to, "--moe-flex-dispatcher-backend: %s: expected deepep, hybridep or ncclep", backend);
  return "hybridep";
}

/* Kernels that all software here has, and Megatron-LM runs where it is asked to. */
static void note_kernels(Reading *r)
{
  gboolean grouped = reading_flag(r, "moe_grouped_gemm") || reading_flag(r, "moe_use_legacy_grouped_gemm");
  gboolean fused = reading_flag(r, "moe_permute_fusion"), wide = !reading_flag(r, "bf16");

  if ((grouped || wide) && fused)
    return;
  launch_assume(&r->to, "experts: simulated as with %s%s%s, which nothing says", grouped || wide ? "" : "--moe-grouped-gemm",
                grouped || wide || fused ? "" : " and ", fused ? "" : "--moe-permute-fusion");
}

static void put_experts(Reading *r, const Degrees *d, JsonWriter *w)
{
  int etp = d->etp, experts = reading_int(r, "num_experts", 0);
  const char *dispatcher = read_dispatcher(r);
  const char *policy = reading_text(r, "moe_token_drop_policy");
  double capacity = reading_real(r, "moe_expert_capacity_factor", reading_real(r, "moe_train_capacity_factor", 0));
  gboolean padded = reading_flag(r, "moe_pad_expert_input_to_capacity");

  json_put_int(w, "expert_model_parallel_size", d->ep);
  if (experts < 2)
    return;
  if (!d->deepspeed)
    note_kernels(r);
  if (etp != d->tp && etp > 0)
    json_put_int(w, "expert_tensor_parallel_size", etp);
  if (d->ep > 1 || etp != d->tp)
    json_put_string(w, "moe_token_dispatcher_type", *dispatcher ? dispatcher : d->deepspeed ? "alltoall" : "allgather");
  if (capacity > 0 && !d->deepspeed) {
    json_put_real(w, "moe_expert_capacity_factor", capacity);
    put_text(w, "moe_token_drop_policy", policy);
    put_flag(w, "moe_pad_expert_input_to_capacity", padded);
  } else if (capacity > 0) {
    launch_assume(&r->to, "moe_expert_capacity_factor: %g: taken as no limit", capacity);
  }
}

/* As core 0.20 says it, and as older versions did. */
static void put_recompute(Reading *r, JsonWriter *w)
{
  const char *granularity = reading_text(r, "recompute_granularity"), *method = reading_text(r, "recompute_method");
  const char *modules = reading_text(r, "recompute_modules");
  int layers = reading_int(r, "recompute_num_layers", 0);
  const char *older = reading_text(r, "activations_checkpoint_method");
  gboolean selective = reading_flag(r, "recompute_activations"), whole = reading_flag(r, "checkpoint_activations");

  whole = whole || *older || g_str_equal(reading_text(r, "activations_checkpoint_granularity"), "full");
  layers = MAX(layers, reading_int(r, "activations_checkpoint_num_layers", reading_int(r, "checkpoint_num_layers", 0)));
  reading_flag(r, "deepspeed_activation_checkpointing");
  if (selective) /* whatever the granularity: arguments.py sets it so */
    granularity = "selective";
  else if (!*granularity)
    granularity = whole ? "full" : "none";
  if (!*method)
    method = older;
  json_put_string(w, "recompute_granularity", granularity);
  if (g_str_equal(granularity, "full") && (layers > 1 || g_str_equal(method, "block"))) {
    json_put_string(w, "recompute_method", *method ? method : "uniform");
    json_put_int(w, "recompute_num_layers", MAX(1, layers));
  }
  if (g_str_equal(granularity, "selective") && *modules && !g_str_equal(modules, "core_attn")) {
    g_auto(GStrv) names = g_strsplit_set(modules, " []',", -1);
    json_open_line(w, "recompute_modules", '[');
    for (int i = 0; names[i]; i++)
      if (*names[i])
        json_put_string(w, NULL, names[i]);
    json_close_line(w, ']');
  }
}

/* An argument that a list has under the name of what it fills. */
static const char *read_format(Reading *r, const char *argument, const char *listed)
{
  const char *text = reading_text(r, argument);
  return *text || !r->from->listed ? text : reading_text(r, listed);
}

/* Of each end one block, unless it is said. */
static void put_wide(Reading *r, gboolean narrow, JsonWriter *w)
{
  static const char *const keys[] = { "num_layers_at_start_in_bf16", "num_layers_at_end_in_bf16" };
  gboolean any = reading_flag(r, "first_last_layers_bf16") && narrow;

  for (gsize i = 0; i < G_N_ELEMENTS(keys); i++)
    if (reading_int(r, keys[i], 1) > 0 && any)
      json_put_int(w, keys[i], reading_int(r, keys[i], 1));
}

static void put_formats(Reading *r, JsonWriter *w)
{
  static const char *const recipes[][2] = { { "tensorwise", "current" }, { "delayed", "delayed" },
                                            { "blockwise", "blockwise" }, { "mxfp8", "mxfp8" } };
  const char *fp8 = read_format(r, "fp8_format", "fp8"), *fp4 = read_format(r, "fp4_format", "fp4");
  const char *recipe = reading_text(r, "fp8_recipe");
  gboolean bf16 = reading_flag(r, "bf16"), fp16 = reading_flag(r, "fp16");

  reading_text(r, "fp4_recipe");
  if ((*fp8 || *fp4) && !bf16)
    launch_assume(&r->to, "precision: %s: nothing says --bf16: simulated with weights in bf16, not in %s", *fp4 ? "fp4" : "fp8",
                  fp16 ? "fp16" : "fp32");
  json_put_string(w, "precision", *fp4 ? "fp4" : *fp8 ? "fp8" : bf16 ? "bf16" : fp16 ? "fp16" : "fp32");
  for (gsize i = 0; i < G_N_ELEMENTS(recipes) && *fp8 && !*fp4; i++)
    if (g_str_equal(recipes[i][0], *recipe ? recipe : "delayed"))
      json_put_string(w, "fp8_recipe", recipes[i][1]);
  reading_flag(r, "reuse_grad_buf_for_mxfp8_param_ag"); /* what goes with it of mxfp8 */
  gboolean eight = reading_flag(r, "fp8_param_gather") && *fp8 && !*fp4;
  gboolean four = reading_flag(r, "fp4_param_gather") && *fp4;
  if (eight || four || (*fp8 && r->framework)) /* whose default may be another */
    json_put_bool(w, "fp8_param_gather", eight || four);
  put_wide(r, *fp8 || *fp4, w);
}

static void put_kernels(Reading *r, const Degrees *d, JsonWriter *w)
{
  const char *backend = reading_text(r, "attention_backend");
  gboolean flash = reading_flag(r, "use_flash_attn") | reading_flag(r, "use_flash_attn_v2") |
                   reading_flag(r, "use_flash_attn_triton");
  gboolean divided = reading_flag(r, "distribute_saved_activations") |
                     reading_flag(r, "distribute_checkpointed_activations");
  int offloaded = reading_int(r, "cpu_offloading_num_layers", 0);

  reading_flag(r, "use_transformer_engine_op_fuser");
  put_flag(w, "partition_activations", divided && d->tp > 1);
  if (offloaded > 0)
    json_put_int(w, "cpu_offloading_num_layers", offloaded);
  if (g_str_equal(backend, "unfused") || g_str_equal(backend, "local"))
    json_put_string(w, "attention", "unfused");
  else if (flash || g_str_equal(backend, "flash"))
    json_put_string(w, "attention", "flash");
  megatron_graph_put(r, w);
}

/* ---- the plan ---- */

/* The generation of the software that has such arguments. */
static const char *framework_of(Reading *r, const Degrees *d)
{
  const char *backend = reading_text(r, "moe_flex_dispatcher_backend");
  gboolean old = reading_flag(r, "checkpoint_activations") || *reading_text(r, "activations_checkpoint_method");

  reading_flag(r, "no_pipeline_parallel");
  if (d->deepspeed) /* experts over ranks and states on the host are later than BLOOM's software */
    return d->ep > 1 || d->cp > 1 || reading_flag(r, "cpu_optimizer") ? "deepspeed" : "megatron-deepspeed-2022";
  if (old && !r->from->listed)
    return "megatron-2021";
  if (reading_flag(r, "moe_paged_stash") || *reading_text(r, "moe_expert_rank_capacity_factor"))
    return "nemo-2026-06";
  gboolean recent = (*backend && !g_str_equal(backend, "none")) | reading_flag(r, "overlap_moe_expert_parallel_comm") |
                    megatron_formats_of_fsdp(r) | reading_flag(r, "fp4_param_gather") | (*megatron_graph_kind(r) != '\0');
  return recent ? "megatron-core-2026" : "megatron-core";
}

/* As few GPUs, from so many on, as the degrees divide, and experts their share of. */
static int divided(const Degrees *d, int from, int each, int experts)
{
  int gpus = (MAX(from, 1) + each - 1) / each * each;

  for (int i = 0; i < experts && gpus / d->pp % experts; i++)
    gpus += each;
  return gpus;
}

static void read_gpus(Reading *r, Degrees *d)
{
  gint64 each = (gint64)d->tp * d->pp * d->cp, experts = (gint64)d->ep * d->etp;

  if ((gint64)d->tp * d->pp > RANKS_MAX || each > RANKS_MAX || each * experts > RANKS_MAX) {
    launch_fail(&r->to, "--tensor-model-parallel-size: %d: expected degrees of at most %d ranks in all", d->tp,
                RANKS_MAX);
    return;
  }
  if (r->gpus > RANKS_MAX) {
    launch_fail(&r->to, "%s: %d: expected at most %d", r->asked ? "--gpus" : "ranks", r->gpus, RANKS_MAX);
    return;
  }
  d->gpus = divided(d, r->gpus, (int)each, (int)experts);
  if (r->asked && r->gpus % each)
    launch_fail(&r->to, "--gpus: %d: expected a multiple of tensor x pipeline x context = %d", r->gpus, (int)each);
  else if (r->asked)
    d->gpus = r->gpus;
  else if (r->gpus > 0 && d->gpus != r->gpus)
    launch_assume_open(&r->to, "--gpus", "gpus: %d: the launch line's %d do not divide into tensor %d x pipeline %d x "
                       "context %d and experts over %d", d->gpus, r->gpus, d->tp, d->pp, d->cp, (int)experts);
  else if (r->gpus <= 0)
    launch_assume_gpus(&r->to, d->gpus);
}

/* "0:384 200B:768 400B:1152": the last one. */
static int last_batch(Reading *r)
{
  const char *schedule = reading_text(r, "step_batch_size_schedule"), *last = strrchr(schedule, ':');

  return last ? (int)CLAMP(g_ascii_strtoll(last + 1, NULL, 10), 0, G_MAXINT) : 0;
}

static int read_batch(Reading *r, const Degrees *d)
{
  int data = d->gpus / (d->tp * d->pp * d->cp), batch = reading_int(r, "global_batch_size", last_batch(r));
  static const char *const ramps[] = { "rampup_batch_size", "step_batch_size_schedule" };

  for (gsize i = 0; i < G_N_ELEMENTS(ramps) && !r->from->listed; i++) {
    g_autofree char *flag = argument_flag(ramps[i]);
    if (reading_flag(r, ramps[i]) && batch > 0)
      launch_assume(&r->to, "global_batch_size: %d: the last one, behind what %s says", batch, flag);
  }
  if (batch > 0)
    return batch;
  launch_assume(&r->to, "global_batch_size: %d: one micro-batch a data-parallel rank, as no argument says more",
                d->micro * data);
  return d->micro * data;
}

static gboolean read_degrees(Reading *r, Degrees *d)
{
  d->layers = megatron_layers(r);
  d->deepspeed = reading_deepspeed(r);
  d->tp = MAX(1, reading_int(r, "tensor_model_parallel_size", 1));
  d->pp = MAX(1, reading_int(r, "pipeline_model_parallel_size", 1));
  d->cp = MAX(1, reading_int(r, "context_parallel_size", reading_int(r, "ds_sequence_parallel_size", 1)));
  d->ep = MAX(1, reading_int(r, "expert_model_parallel_size", reading_int(r, "moe_expert_parallel_size", 1)));
  d->micro = MAX(1, reading_int(r, "micro_batch_size", 1));
  d->etp = MAX(1, reading_int(r, "expert_tensor_parallel_size", d->deepspeed ? 1 : d->tp));
  megatron_shards_say(r, "tensor_parallel_num_weight_shards", d->tp);
  megatron_shards_say(r, "expert_tensor_parallel_num_weight_shards", d->etp);
  if (reading_int(r, "num_experts", 0) < 2)
    d->ep = d->etp = 1;
  d->zero = read_zero(r);
  read_settings(r, d);
  read_stages(r, d);
  if (!r->to.failed)
    read_gpus(r, d);
  return !r->to.failed;
}

gboolean megatron_plan(Reading *r)
{
  g_autoptr(GString) text = g_string_new(NULL);
  Degrees d = { 0 };
  JsonWriter w;

  if (!read_degrees(r, &d))
    return FALSE;
  d.framework = r->framework ? r->framework : framework_of(r, &d);
  gboolean rows = reading_flag(r, "sequence_parallel");
  int decoder = reading_int(r, "decoder_seq_length", 0), encoder = reading_int(r, "encoder_seq_length", 0);
  json_writer_init(&w, text);
  json_open(&w, NULL, '{');
  json_put_int(&w, "gpus", d.gpus);
  json_put_int(&w, "global_batch_size", read_batch(r, &d));
  json_put_int(&w, "micro_batch_size", d.micro);
  json_put_int(&w, "seq_length", encoder ? encoder : reading_int(r, "seq_length", 1));
  if (decoder > 0 && decoder != encoder)
    json_put_int(&w, "decoder_seq_length", decoder);
  json_put_int(&w, "tensor_model_parallel_size", d.tp);
  json_put_bool(&w, "sequence_parallel", rows && d.tp > 1);
  put_flag(&w, "tp_comm_overlap", reading_flag(r, "tp_comm_overlap") && rows && d.tp > 1);
  put_stages(r, &d, &w);
  put_context(r, &d, &w);
  put_experts(r, &d, &w);
  put_states(r, &d, &w);
  put_recompute(r, &w);
  put_formats(r, &w);
  put_optimizer(r, &d, &w);
  put_kernels(r, &d, &w);
  put_overlap(r, &d, &w);
  json_put_string(&w, "framework", d.framework);
  json_close(&w, '}');
  r->to.out->gpus = d.gpus;
  r->to.out->plan = g_string_free(g_steal_pointer(&text), FALSE);
  return !r->to.failed;
}
