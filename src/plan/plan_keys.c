/* Plan files: reading with defaults, and writing. */
#include "plan/plan.h"

#include "base/error.h"

typedef struct {
  int gpus, global_batch, micro_batch, seq, tp, pp, vpp, dp, cp, ep; /* -1 = absent */
  gboolean sequence_parallel;
  int zero, recompute, precision, fp8_recipe, attention, context, shard_group, etp, dispatch;
  double expert_load, expert_capacity;
  int expert_drop, graph;
  gboolean expert_padded, partition_activations;
  int micro_group;
  char *schedule, *framework;
  int decoder_seq, split_rank; /* 0 = absent */
  gboolean pipeline_inner;
} PlanFile;

#define FIELD(name) G_STRUCT_OFFSET(PlanFile, name)
#define DEGREE_MAX 1e7

static const char *const precision_names[] = { "fp32", "tf32", "fp16", "bf16", "fp8", "fp4", NULL };
static const DType precisions[] = { DTYPE_FP32, DTYPE_TF32, DTYPE_FP16, DTYPE_BF16, DTYPE_FP8, DTYPE_FP4 };

static const JsonField fields[] = {
  { "gpus", JSON_INT, FIELD(gpus), FALSE, 1, DEGREE_MAX },
  { "global_batch_size", JSON_INT, FIELD(global_batch), FALSE, 1, 1e9 },
  { "micro_batch_size", JSON_INT, FIELD(micro_batch), FALSE, 1, 1e6 },
  { "seq_length", JSON_INT, FIELD(seq), FALSE, 1, 1e8 },
  { "decoder_seq_length", JSON_INT, FIELD(decoder_seq), FALSE, 1, 1e8 },
  { "tensor_model_parallel_size", JSON_INT, FIELD(tp), FALSE, 1, DEGREE_MAX },
  { "sequence_parallel", JSON_BOOL, FIELD(sequence_parallel) },
  { "pipeline_model_parallel_size", JSON_INT, FIELD(pp), FALSE, 1, DEGREE_MAX },
  { "pipeline_model_parallel_split_rank", JSON_INT, FIELD(split_rank), FALSE, 1, DEGREE_MAX },
  { "use_tp_pp_dp_mapping", JSON_BOOL, FIELD(pipeline_inner) },
  { "virtual_pipeline_model_parallel_size", JSON_INT, FIELD(vpp), FALSE, 1, DEGREE_MAX },
  { "microbatch_group_size_per_vp_stage", JSON_INT, FIELD(micro_group), FALSE, 1, DEGREE_MAX },
  { "pipeline_schedule", JSON_STRING, FIELD(schedule) },
  { "data_parallel_size", JSON_INT, FIELD(dp), FALSE, 1, DEGREE_MAX },
  { "context_parallel_size", JSON_INT, FIELD(cp), FALSE, 1, DEGREE_MAX },
  { "cp_comm_type", JSON_ENUM, FIELD(context), .names = context_exchange_names },
  { "expert_model_parallel_size", JSON_INT, FIELD(ep), FALSE, 1, DEGREE_MAX },
  { "expert_tensor_parallel_size", JSON_INT, FIELD(etp), FALSE, 1, DEGREE_MAX },
  { "moe_token_dispatcher_type", JSON_ENUM, FIELD(dispatch), .names = expert_dispatch_names },
  { "moe_expert_capacity_factor", JSON_REAL, FIELD(expert_capacity), FALSE, 0.01, 1e6 },
  { "moe_token_drop_policy", JSON_ENUM, FIELD(expert_drop), .names = expert_drop_names },
  { "moe_pad_expert_input_to_capacity", JSON_BOOL, FIELD(expert_padded) },
  { "cuda_graph", JSON_ENUM, FIELD(graph), .names = cuda_graph_names },
  { "moe_load_imbalance", JSON_REAL, FIELD(expert_load), FALSE, 1, 1e6 },
  { "zero_stage", JSON_INT, FIELD(zero), FALSE, 0, 3 },
  { "shard_group_size", JSON_INT, FIELD(shard_group), FALSE, 1, DEGREE_MAX },
  { "recompute_granularity", JSON_ENUM, FIELD(recompute), .names = recompute_names },
  { "recompute_method", JSON_ANY },
  { "recompute_num_layers", JSON_ANY },
  { "recompute_modules", JSON_ANY },
  { "precision", JSON_ENUM, FIELD(precision), .names = precision_names },
  { "fp8_recipe", JSON_ENUM, FIELD(fp8_recipe), .names = fp8_recipe_names },
  { "optimizer", JSON_ANY },
  { "sgd_momentum", JSON_ANY },
  { "optimizer_block_size", JSON_ANY },
  { "muon_num_ns_steps", JSON_ANY },
  { "muon_tp_mode", JSON_ANY },
  { "store_param_remainders", JSON_ANY },
  { "main_params_dtype", JSON_ANY },
  { "main_grads_dtype", JSON_ANY },
  { "exp_avg_dtype", JSON_ANY },
  { "exp_avg_sq_dtype", JSON_ANY },
  { "grad_reduce_dtype", JSON_ANY },
  { "tensor_reduce_dtype", JSON_ANY },
  { "attention", JSON_ENUM, FIELD(attention), .names = attention_kernel_names },
  { "framework", JSON_STRING, FIELD(framework) },
  { "partition_activations", JSON_BOOL, FIELD(partition_activations) },
  { "zero_optimization", JSON_ANY },
  { "offload", JSON_ANY },
  { "overlap", JSON_ANY },
  { "layer_split", JSON_ANY },
  { "layer_strategies", JSON_ANY },
  { "hetero_device_types", JSON_ANY },
  { "description", JSON_ANY },
};

const char *plan_key_name(int i)
{
  return i < (int)G_N_ELEMENTS(fields) ? fields[i].key : NULL;
}

static const JsonField overlap_fields[] = {
  { "gradients", JSON_BOOL, G_STRUCT_OFFSET(Overlap, gradients) },
  { "parameters", JSON_BOOL, G_STRUCT_OFFSET(Overlap, parameters) },
  { "pipeline", JSON_BOOL, G_STRUCT_OFFSET(Overlap, pipeline) },
  { "tensor", JSON_BOOL, G_STRUCT_OFFSET(Overlap, tensor) },
  { "offload", JSON_BOOL, G_STRUCT_OFFSET(Overlap, offload) },
  { "experts", JSON_BOOL, G_STRUCT_OFFSET(Overlap, experts) },
  { "exchange", JSON_BOOL, G_STRUCT_OFFSET(Overlap, exchange) },
};

static int given(int value, int otherwise)
{
  return value >= 0 ? value : otherwise;
}

static const Schedule *unknown_schedule(const JsonDoc *doc, GError **error)
{
  GString *names = g_string_new(NULL);

  for (int i = 0; schedules[i]; i++)
    g_string_append_printf(names, "%s, ", schedules[i]->name);
  g_autofree char *known = g_string_free(names, FALSE);
  json_error(doc, json_get(json_root(doc), "pipeline_schedule"), error, "one of %sor the path of a schedule .csv",
             known);
  return NULL;
}

static const Schedule *resolve_schedule(const JsonDoc *doc, const char *name, int vpp, Framework *framework,
                                        GError **error)
{
  const Schedule *schedule = schedule_find(name ? name : vpp > 1 ? "interleaved" : "1f1b");

  if (schedule)
    return schedule;
  if (!g_str_has_suffix(name, ".csv"))
    return unknown_schedule(doc, error);
  framework->table = schedule_table_load(name, error);
  if (!framework->table)
    g_prefix_error(error, "%s: pipeline_schedule: ", json_name(doc));
  return framework->table ? &framework->table->schedule : NULL;
}

/* Chunks where the file says nothing: those of a schedule that has no choice. */
static int default_chunks(const Schedule *schedule, const Framework *framework)
{
  if (schedule->placement == PLACE_TABLE)
    return framework->table->chunks;
  return schedule->min_chunks == schedule->max_chunks ? schedule->min_chunks : 1;
}

/* gpus and data_parallel_size follow from each other. */
static void resolve_degrees(const PlanFile *f, Plan *out)
{
  gint64 others;

  out->tp = given(f->tp, 1);
  out->pp = given(f->pp, 1);
  out->vpp = given(f->vpp, 1);
  out->cp = given(f->cp, 1);
  out->ep = given(f->ep, 1);
  if (__builtin_mul_overflow((gint64)out->tp * out->pp, out->cp, &others))
    others = G_MAXINT64;
  out->dp = f->dp > 0 ? f->dp : f->gpus > 0 ? (int)MAX(1, f->gpus / others) : 1;
  out->gpus = f->gpus > 0 ? f->gpus : others > G_MAXINT / out->dp ? G_MAXINT : (int)others * out->dp;
}

static gboolean resolve_split(const JsonDoc *doc, Plan *out, GError **error)
{
  const cJSON *given = json_get(json_root(doc), "layer_split");

  if (!given)
    return TRUE;
  if (cJSON_IsString(given) && g_str_equal(given->valuestring, "balanced"))
    return out->balanced = TRUE;
  if (!split_is_list(given))
    return json_error(doc, given, error, "\"balanced\", or the layers of each stage in model order (at most %d stages)",
                      SPLIT_STAGES_MAX);
  return split_read(doc, given, &out->split, error);
}

static gboolean resolve_types(const JsonDoc *doc, Plan *out, GError **error)
{
  const cJSON *given = json_get(json_root(doc), "hetero_device_types"), *item;
  int n = 0;

  if (!given)
    return TRUE;
  if (!cJSON_IsArray(given) || cJSON_GetArraySize(given) < 1 || cJSON_GetArraySize(given) > NODE_TYPES_MAX)
    return json_error(doc, given, error, "names of the cluster's node types along the pipeline (at most %d)",
                      NODE_TYPES_MAX);
  cJSON_ArrayForEach(item, given) {
    if (!cJSON_IsString(item))
      return json_error(doc, item, error, "the name of a node type");
    out->types[n++] = g_intern_string(item->valuestring);
  }
  return TRUE;
}

static gboolean resolve(const JsonDoc *doc, const PlanFile *f, const Model *model, Plan *out, Framework **framework,
                        GError **error)
{
  const cJSON *overlap;
  g_autoptr(Framework) loaded = framework_load(f->framework ? f->framework : FRAMEWORK_USUAL, error);

  if (!loaded) {
    g_prefix_error(error, "%s: ", json_name(doc));
    return FALSE;
  }
  *out = plan_default(model, loaded);
  resolve_degrees(f, out);
  out->global_batch = given(f->global_batch, MAX(out->global_batch, out->dp));
  out->micro_batch = given(f->micro_batch, 1);
  out->micro_group = f->micro_group == out->pp ? 0 : f->micro_group;
  out->seq = given(f->seq, out->seq);
  out->decoder_seq = f->decoder_seq;
  out->split_rank = f->split_rank;
  out->pipeline_inner = f->pipeline_inner;
  out->sequence_parallel = f->sequence_parallel;
  out->zero = given(f->zero, 0);
  out->partition_activations = f->partition_activations;
  out->shard_group = given(f->shard_group, 0);
  out->recompute = given(f->recompute, RECOMPUTE_NONE);
  plan_set_format(out, precisions[given(f->precision, 3)]);
  out->fp8_recipe = given(f->fp8_recipe, FP8_NONE);
  out->attention = given(f->attention, out->attention);
  out->context = given(f->context, out->context);
  out->etp = given(f->etp, out->tp) == out->tp ? 0 : f->etp;
  out->dispatch = given(f->dispatch, out->dispatch);
  out->expert_load = f->expert_load;
  out->expert_capacity = f->expert_capacity;
  out->expert_drop = f->expert_drop;
  out->expert_padded = f->expert_padded;
  out->graph = f->graph;
  const Schedule *schedule = resolve_schedule(doc, f->schedule, out->vpp, loaded, error);
  if (!schedule)
    return FALSE;
  plan_set_schedule(out, schedule, given(f->vpp, default_chunks(schedule, loaded)));
  if (!resolve_split(doc, out, error) || !resolve_types(doc, out, error) ||
      !recompute_read(doc, json_root(doc), &out->scope, error) ||
      !strategies_read(doc, json_root(doc), plan_run(out), &out->strategies, error) ||
      !optimizer_read(doc, json_root(doc), &out->optimizer, error) ||
      !sharding_options_read(doc, json_root(doc), &out->sharding, error) ||
      !offload_read(doc, json_root(doc), &out->offload, error))
    return FALSE;
  if (json_get(json_root(doc), "overlap")) {
    overlap = json_get_object(doc, json_root(doc), "overlap", TRUE, error);
    if (!overlap || !json_read(doc, overlap, overlap_fields, G_N_ELEMENTS(overlap_fields), &out->overlap, error))
      return FALSE;
  }
  *framework = g_steal_pointer(&loaded);
  return TRUE;
}

static gboolean read_doc(const JsonDoc *doc, const Model *model, Plan *out, Framework **framework, GError **error)
{
  PlanFile f = { -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, FALSE, -1, -1, -1, -1, -1, -1, -1, -1, -1, 1, 0, 0, 0, FALSE,
                 FALSE, 0, NULL, NULL, 0, 0, FALSE };
  gboolean ok = json_read(doc, json_root(doc), fields, G_N_ELEMENTS(fields), &f, error) &&
                resolve(doc, &f, model, out, framework, error);

  g_free(f.schedule);
  g_free(f.framework);
  return ok;
}

gboolean plan_load(const char *path, const Model *model, Plan *out, Framework **framework, GError **error)
{
  g_autoptr(JsonDoc) doc = json_load(path, error);
  return doc && read_doc(doc, model, out, framework, error);
}

gboolean plan_parse(const char *text, gsize length, const char *name, const Model *model, Plan *out,
                    Framework **framework, GError **error)
{
  g_autoptr(JsonDoc) doc = json_parse(text, length, name, error);
  return doc && read_doc(doc, model, out, framework, error);
}

static void write_batch(const Plan *p, JsonWriter *w)
{
  json_put_int(w, "gpus", p->gpus);
  json_put_int(w, "global_batch_size", p->global_batch);
  json_put_int(w, "micro_batch_size", p->micro_batch);
  json_put_int(w, "seq_length", p->seq);
  if (p->decoder_seq)
    json_put_int(w, "decoder_seq_length", p->decoder_seq);
}

static void write_pipeline(const Plan *p, JsonWriter *w)
{
  json_put_int(w, "tensor_model_parallel_size", p->tp);
  json_put_bool(w, "sequence_parallel", p->sequence_parallel);
  json_put_int(w, "pipeline_model_parallel_size", p->pp);
  if (p->split_rank)
    json_put_int(w, "pipeline_model_parallel_split_rank", p->split_rank);
  if (p->pipeline_inner)
    json_put_bool(w, "use_tp_pp_dp_mapping", TRUE);
  json_put_int(w, "virtual_pipeline_model_parallel_size", p->vpp);
  if (p->micro_group)
    json_put_int(w, "microbatch_group_size_per_vp_stage", p->micro_group);
  json_put_string(w, "pipeline_schedule", p->schedule->name);
  split_write(&p->split, w, "layer_split");
  strategies_write(&p->strategies, w);
  if (p->types[0]) {
    json_open_line(w, "hetero_device_types", '[');
    for (int i = 0; i < NODE_TYPES_MAX && p->types[i]; i++)
      json_put_string(w, NULL, p->types[i]);
    json_close_line(w, ']');
  }
}

static void write_groups(const Plan *p, JsonWriter *w)
{
  json_put_int(w, "data_parallel_size", p->dp);
  json_put_int(w, "context_parallel_size", p->cp);
  if (p->cp > 1)
    json_put_string(w, "cp_comm_type", context_exchange_names[p->context]);
  json_put_int(w, "expert_model_parallel_size", p->ep);
  if (p->etp)
    json_put_int(w, "expert_tensor_parallel_size", p->etp);
  if (plan_experts_apart(p))
    json_put_string(w, "moe_token_dispatcher_type", expert_dispatch_names[p->dispatch]);
  if (p->expert_capacity > 0)
    json_put_real(w, "moe_expert_capacity_factor", p->expert_capacity);
  if (p->expert_drop)
    json_put_string(w, "moe_token_drop_policy", expert_drop_names[p->expert_drop]);
  if (p->expert_padded)
    json_put_bool(w, "moe_pad_expert_input_to_capacity", TRUE);
  if (p->graph)
    json_put_string(w, "cuda_graph", cuda_graph_names[p->graph]);
  if (p->expert_load > 1)
    json_put_real(w, "moe_load_imbalance", p->expert_load);
}

static void write_states(const Plan *p, JsonWriter *w)
{
  json_put_int(w, "zero_stage", p->zero);
  if (p->shard_group)
    json_put_int(w, "shard_group_size", p->shard_group);
  sharding_options_write(&p->sharding, w);
  json_put_string(w, "recompute_granularity", recompute_names[p->recompute]);
  recompute_write(&p->scope, w);
  if (p->partition_activations)
    json_put_bool(w, "partition_activations", TRUE);
}

static void write_formats(const Plan *p, JsonWriter *w)
{
  json_put_string(w, "precision", dtype_names[plan_format(p)]);
  if (p->fp8_recipe)
    json_put_string(w, "fp8_recipe", fp8_recipe_names[p->fp8_recipe]);
  optimizer_write(&p->optimizer, w);
  offload_write(&p->offload, w);
  json_put_string(w, "attention", attention_kernel_names[p->attention]);
  json_put_string(w, "framework", p->framework->name);
}

static void write_overlap(const Plan *p, JsonWriter *w)
{
  json_open(w, "overlap", '{');
  json_put_bool(w, "gradients", p->overlap.gradients);
  json_put_bool(w, "parameters", p->overlap.parameters);
  json_put_bool(w, "pipeline", p->overlap.pipeline);
  json_put_bool(w, "tensor", p->overlap.tensor);
  if (offload_any(&p->offload))
    json_put_bool(w, "offload", p->overlap.offload);
  if (p->overlap.experts)
    json_put_bool(w, "experts", TRUE);
  if (p->overlap.exchange)
    json_put_bool(w, "exchange", TRUE);
  json_close(w, '}');
}

void plan_write(const Plan *p, JsonWriter *w, const char *key)
{
  json_open(w, key, '{');
  write_batch(p, w);
  write_pipeline(p, w);
  write_groups(p, w);
  write_states(p, w);
  write_formats(p, w);
  write_overlap(p, w);
  json_close(w, '}');
}
