#include "pages/claim_run.h"

#include "base/error.h"
#include "base/files.h"
#include "pages/rounding.h"
#include "pages/volume.h"
#include "search/balanced.h"
#include "search/search.h"
#include "sim/simulate.h"

#include <math.h>
#include <string.h>

/* A file by name, or the text of an object that stands in its place. */
static char *part_text(const cJSON *run, const char *key, const char *folder, gsize *length, GError **error)
{
  const cJSON *part = json_get(run, key);

  if (cJSON_IsObject(part)) {
    char *printed = cJSON_PrintUnformatted(part), *text = g_strdup(printed);
    cJSON_free(printed);
    *length = strlen(text);
    return text;
  }
  g_autofree char *path = cJSON_IsString(part) ? files_find(part->valuestring, folder, error) : NULL;
  if (!cJSON_IsString(part))
    g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT, "%s: expected a name or an object", key);
  return path ? files_read(path, length, error) : NULL;
}

static int int_of(const cJSON *run, const char *key, int otherwise)
{
  const cJSON *item = json_get(run, key);
  return cJSON_IsNumber(item) ? (int)item->valuedouble : otherwise;
}

static const char *text_of(const cJSON *run, const char *key, const char *otherwise)
{
  const cJSON *item = json_get(run, key);
  return cJSON_IsString(item) ? item->valuestring : otherwise;
}

static void finish(ClaimRun *r, const Plan *plan)
{
  r->plan = *plan;
  r->trace = simulate_plan(r->model, r->cluster, &r->plan);
  r->result = result_of(r->model, r->cluster, &r->plan, r->trace);
  r->done = TRUE;
}

static gboolean run_plan(ClaimRun *r, const cJSON *given, GError **error)
{
  char *printed = cJSON_PrintUnformatted(given);
  GError *rule = NULL;
  Plan plan;
  gboolean ok = plan_parse(printed, strlen(printed), "plan", r->model, &plan, &r->framework, error);

  cJSON_free(printed);
  if (!ok)
    return FALSE;
  if (!cluster_resize(r->cluster, plan.gpus, &rule) || !balance_plan(r->model, r->cluster, &plan, &rule) ||
      plan_check(&plan, r->model, r->cluster, &rule) != RULE_NONE) {
    r->why = g_strdup(rule->message);
    g_error_free(rule);
    return TRUE;
  }
  finish(r, &plan);
  return TRUE;
}

static gboolean set_precision(Plan *base, const cJSON *run, GError **error)
{
  static const DType formats[] = { DTYPE_FP32, DTYPE_TF32, DTYPE_FP16, DTYPE_BF16, DTYPE_FP8, DTYPE_FP4 };
  const char *name = text_of(run, "precision", "bf16");

  for (gsize i = 0; i < G_N_ELEMENTS(formats); i++)
    if (g_str_equal(name, dtype_names[formats[i]])) {
      plan_set_format(base, formats[i]);
      return TRUE;
    }
  g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT, "precision: %s: expected fp32, tf32, fp16, bf16, fp8 or fp4", name);
  return FALSE;
}

static gboolean run_search(ClaimRun *r, const cJSON *run, GError **error)
{
  Fixed fixed = fixed_none();
  const char *fix = text_of(run, "search", "");

  r->framework = framework_load(text_of(run, "framework", "megatron-core"), error);
  if (!r->framework || (*fix && !fixed_parse("search", fix, &fixed, error)) ||
      !cluster_resize(r->cluster, int_of(run, "gpus", r->cluster->devices), error))
    return FALSE;
  Plan base = plan_default(r->model, r->framework);
  if (!set_precision(&base, run, error))
    return FALSE;
  base.gpus = r->cluster->devices;
  base.global_batch = int_of(run, "global_batch_size", base.global_batch);
  base.seq = int_of(run, "seq_length", base.seq);
  SearchOptions options = { .base = &base, .fixed = fixed, .top = 1 };
  g_autoptr(SearchResult) found = search(r->model, r->cluster, &options, error);
  if (!found)
    return FALSE;
  if (found->best->len > 0)
    finish(r, &g_array_index(found->best, Found, 0).plan);
  else
    r->why = g_strdup("no plan fits");
  return TRUE;
}

ClaimRun *claim_run_new(const cJSON *run, GError **error)
{
  g_autoptr(ClaimRun) r = g_new0(ClaimRun, 1);
  gsize length;
  g_autofree char *model = part_text(run, "model", "models", &length, error);

  if (!model || !(r->model = model_parse(model, length, "model", error)))
    return NULL;
  g_autofree char *cluster = part_text(run, "cluster", "hardware", &length, error);
  if (!cluster || !(r->cluster = cluster_parse(cluster, length, "cluster", error)))
    return NULL;
  const cJSON *plan = json_get(run, "plan");
  if (!(json_get(run, "search") ? run_search(r, run, error) : run_plan(r, plan, error)))
    return NULL;
  return g_steal_pointer(&r);
}

void claim_run_free(ClaimRun *r)
{
  g_clear_pointer(&r->trace, trace_free);
  g_clear_pointer(&r->framework, framework_free);
  g_clear_pointer(&r->cluster, cluster_free);
  g_clear_pointer(&r->model, model_free);
  g_free(r->why);
  g_free(r);
}

#define METRIC(name) { #name, G_STRUCT_OFFSET(Metrics, name) }

static const struct {
  const char *name;
  gsize offset;
} of_metrics[] = {
  METRIC(iteration_s), METRIC(bubble_fraction), METRIC(compute_s), METRIC(tensor_comm_s), METRIC(context_comm_s),
  METRIC(expert_comm_s), METRIC(pipeline_comm_s), METRIC(data_comm_s), METRIC(offload_s), METRIC(optimizer_s),
  METRIC(idle_s), METRIC(peak_memory_bytes),
};

static const struct {
  const char *name;
  gsize offset;
} of_plan[] = {
  { "gpus", G_STRUCT_OFFSET(Plan, gpus) }, { "tp", G_STRUCT_OFFSET(Plan, tp) }, { "pp", G_STRUCT_OFFSET(Plan, pp) },
  { "vpp", G_STRUCT_OFFSET(Plan, vpp) }, { "dp", G_STRUCT_OFFSET(Plan, dp) }, { "cp", G_STRUCT_OFFSET(Plan, cp) },
  { "ep", G_STRUCT_OFFSET(Plan, ep) }, { "zero", G_STRUCT_OFFSET(Plan, zero) },
  { "micro_batch", G_STRUCT_OFFSET(Plan, micro_batch) }, { "global_batch", G_STRUCT_OFFSET(Plan, global_batch) },
};

static double states(const ClaimRun *r)
{
  const double *m = r->result.metrics.memory;
  return m[PART_WEIGHTS] + m[PART_GRADIENTS] + m[PART_OPTIMIZER];
}

static double stage_peak(const ClaimRun *r, gboolean most)
{
  double bytes[PART_COUNT], found = most ? 0 : INFINITY;

  for (int row = 0; row < r->trace->n_rows; row++) {
    double peak = trace_row_peak(r->trace, row, bytes);
    found = most ? MAX(found, peak) : MIN(found, peak);
  }
  return found;
}

static double stage_states(const ClaimRun *r, gboolean most)
{
  double found = most ? 0 : INFINITY;

  for (int row = 0; row < r->trace->n_rows; row++) {
    const double *part = r->trace->rows[row].static_bytes;
    double bytes = part[PART_WEIGHTS] + part[PART_GRADIENTS] + part[PART_OPTIMIZER];
    found = most ? MAX(found, bytes) : MIN(found, bytes);
  }
  return found;
}

static double stage_least_states(const ClaimRun *r) { return stage_states(r, FALSE); }
static double stage_most_states(const ClaimRun *r) { return stage_states(r, TRUE); }
static double stage_least(const ClaimRun *r) { return stage_peak(r, FALSE); }
static double stage_most(const ClaimRun *r) { return stage_peak(r, TRUE); }
static double micro_batches(const ClaimRun *r) { return plan_micro_batches(&r->plan); }
static double model_tflops(const ClaimRun *r) { return r->result.model_flops_per_s_per_gpu / 1e12; }
static double mfu(const ClaimRun *r) { return r->result.mfu; }
static double tokens_per_s(const ClaimRun *r) { return r->result.tokens_per_s; }
static double fits(const ClaimRun *r) { return r->result.fits; }

static DataVolume data(const ClaimRun *r)
{
  return data_volume(r->trace, r->result.metrics.critical_row);
}

static double data_bytes(const ClaimRun *r) { return data(r).gathered_bytes + data(r).reduced_bytes; }
static double gathered_bytes(const ClaimRun *r) { return data(r).gathered_bytes; }
static double reduced_bytes(const ClaimRun *r) { return data(r).reduced_bytes; }
static double data_calls(const ClaimRun *r) { return data(r).calls; }

static double network_bytes(const ClaimRun *r)
{
  return data_bytes_across_nodes(r->trace, r->result.metrics.critical_row, r->cluster);
}

static double rest_bytes(const ClaimRun *r) { return other_bytes(r->trace, r->result.metrics.critical_row); }
static double sent_bytes(const ClaimRun *r) { return pipeline_bytes(r->trace, r->result.metrics.critical_row); }

static BlockVolume tensor(const ClaimRun *r)
{
  return block_volume(r->model, &r->plan, r->cluster, AXIS_TENSOR);
}

static double tensor_gathers(const ClaimRun *r) { return tensor(r).calls[COLLECTIVE_ALL_GATHER]; }
static double tensor_scatters(const ClaimRun *r) { return tensor(r).calls[COLLECTIVE_REDUCE_SCATTER]; }
static double tensor_reduces(const ClaimRun *r) { return tensor(r).calls[COLLECTIVE_ALL_REDUCE]; }
static double tensor_bytes(const ClaimRun *r) { return tensor(r).bytes; }

/* Of sums over tensor-parallel ranks; the activations' format is bf16 unless the plan says fp16 or fp32. */
static double tensor_sum_error(const ClaimRun *r)
{
  static const StateFormat of_precision[DTYPE_COUNT] = { [DTYPE_FP32] = FORMAT_FP32, [DTYPE_FP16] = FORMAT_FP16,
                                                         [DTYPE_BF16] = FORMAT_BF16 };
  const Plan *p = &r->plan;
  StateFormat chosen = p->optimizer.formats[STATE_TENSOR_REDUCE];

  return ring_sum_error(p->tp, chosen ? chosen : of_precision[p->precision]);
}

static double saved_bytes(const ClaimRun *r)
{
  return block_saved_bytes(r->model, &r->plan, r->cluster);
}

/* Of runs that were done. */
static const struct {
  const char *name;
  double (*value)(const ClaimRun *run);
} derived[] = {
  { "state_bytes", states }, { "stage_least_bytes", stage_least }, { "stage_most_bytes", stage_most },
  { "stage_least_states", stage_least_states }, { "stage_most_states", stage_most_states },
  { "micro_batches", micro_batches }, { "model_tflops", model_tflops }, { "mfu", mfu },
  { "tokens_per_s", tokens_per_s }, { "fits", fits },
  { "data_bytes", data_bytes }, { "reduced_bytes", reduced_bytes }, { "gathered_bytes", gathered_bytes },
  { "data_calls", data_calls },
  { "network_bytes", network_bytes }, { "sent_bytes", sent_bytes }, { "other_bytes", rest_bytes },
  { "tensor_gathers", tensor_gathers }, { "tensor_scatters", tensor_scatters }, { "tensor_reduces", tensor_reduces },
  { "tensor_bytes", tensor_bytes }, { "saved_bytes", saved_bytes }, { "tensor_sum_error", tensor_sum_error },
};

static double params(const ClaimRun *r) { return r->model->params; }
static double embedding_params(const ClaimRun *r) { return model_layer(r->model, 0)->params; }
static double block_params(const ClaimRun *r) { return model_layer(r->model, 1)->params; }
static double device_bytes(const ClaimRun *r) { return r->cluster->device.memory_bytes; }
static double done(const ClaimRun *r) { return r->done; }

/* Of all runs. */
static const struct {
  const char *name;
  double (*value)(const ClaimRun *run);
} always[] = {
  { "params", params }, { "embedding_params", embedding_params }, { "block_params", block_params },
  { "device_bytes", device_bytes }, { "legal", done }, { "found", done },
};

static gboolean done_metric(const ClaimRun *r, const char *name, double *out)
{
  for (gsize i = 0; i < G_N_ELEMENTS(of_metrics); i++)
    if (g_str_equal(name, of_metrics[i].name)) {
      *out = r->done ? G_STRUCT_MEMBER(double, &r->result.metrics, of_metrics[i].offset) : NAN;
      return TRUE;
    }
  for (gsize i = 0; i < G_N_ELEMENTS(of_plan); i++)
    if (g_str_equal(name, of_plan[i].name)) {
      *out = r->done ? G_STRUCT_MEMBER(int, &r->plan, of_plan[i].offset) : NAN;
      return TRUE;
    }
  for (int part = 0; part < PART_COUNT; part++)
    if (g_str_equal(name, memory_part_names[part])) {
      *out = r->done ? r->result.metrics.memory[part] : NAN;
      return TRUE;
    }
  for (gsize i = 0; i < G_N_ELEMENTS(derived); i++)
    if (g_str_equal(name, derived[i].name)) {
      *out = r->done ? derived[i].value(r) : NAN;
      return TRUE;
    }
  return FALSE;
}

gboolean claim_run_metric(const ClaimRun *r, const char *name, double *out)
{
  for (gsize i = 0; i < G_N_ELEMENTS(always); i++)
    if (g_str_equal(name, always[i].name)) {
      *out = always[i].value(r);
      return TRUE;
    }
  return done_metric(r, name, out);
}
