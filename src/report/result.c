#include "plan/plan.h"
#include "report/report.h"

static double ratio(double value, double of)
{
  return of > 0 ? value / of : 0;
}

Result result_of_metrics(const Model *model, const Cluster *cluster, const Plan *plan, const Metrics *metrics)
{
  Result r = { .model = model, .cluster = cluster, .plan = plan, .layout = layout_of(plan), .metrics = *metrics };
  const PassLayout *p = &r.layout.passes;
  double peak = cluster_peak_flops_per_s(cluster, formats_product(&p->formats)), batch = r.layout.global_batch;

  r.tokens = batch * p->seq;
  r.tokens_per_s = ratio(r.tokens, r.metrics.iteration_s);
  r.tokens_per_s_per_gpu = r.tokens_per_s / p->ranks;
  r.model_flops_per_s_per_gpu =
      ratio(adapter_model_flops(&p->adapter, model, p->seq, p->decoder_seq) * batch, r.metrics.iteration_s * p->ranks);
  r.hardware_flops_per_s_per_gpu = ratio(r.metrics.hardware_flops, r.metrics.iteration_s);
  r.mfu = ratio(r.model_flops_per_s_per_gpu, peak);
  r.hfu = ratio(r.hardware_flops_per_s_per_gpu, peak);
  if (cluster->n_types == 0)
    r.metrics.capacity_bytes = cluster->device.memory_bytes;
  r.fits = r.metrics.peak_memory_bytes <= r.metrics.capacity_bytes;
  return r;
}

const Cluster *result_site(const Result *r, int row)
{
  return mesh_site(&r->layout.mesh, r->cluster, MIN(row, r->layout.pipeline.shape.ranks - 1));
}

char *result_devices_text(const Result *r, gboolean numbers)
{
  const Cluster *c = r->cluster;
  GString *text = g_string_new(NULL);

  for (int i = 0; i < cluster_types(c); i++) {
    const Cluster *type = cluster_type(c, i);
    g_string_append(text, i == 0 ? "" : i == c->n_types - 1 ? " and " : ", ");
    if (numbers)
      g_string_append_printf(text, "%d × ", c->n_types ? type->devices : r->layout.mesh.ranks);
    g_string_append(text, type->device.name);
  }
  return g_string_free(text, FALSE);
}

const char *result_peak_text(const Result *r)
{
  return r->cluster->n_types ? "the stage with least room left" : "the fullest stage";
}

const char *result_data_text(const Result *r)
{
  if (r->layout.has_replicas)
    return "data parallel";
  if (schedule_copies(r->layout.pipeline.schedule) > 1)
    return "model copies";
  gboolean ends = layout_sums_ends(&r->layout, r->model) || pipeline_entry_copies(&r->layout.pipeline, r->model);
  return ends ? "embedding group" : "gradient norm";
}

char *result_data_adjective(const Result *r)
{
  return g_strdelimit(g_strdup(result_data_text(r)), " ", '-');
}

Result result_of(const Model *model, const Cluster *cluster, const Plan *plan, const Trace *trace)
{
  Metrics metrics;

  trace_metrics(trace, &metrics);
  Result r = result_of_metrics(model, cluster, plan, &metrics);
  trace_parts(trace, metrics.critical_row, &r.parts);
  return r;
}

static void write_breakdown(const Metrics *m, JsonWriter *w)
{
  json_open(w, "breakdown", '{');
  json_put_real(w, "compute_s", m->compute_s);
  json_put_real(w, "tensor_comm_s", m->tensor_comm_s);
  json_put_real(w, "context_comm_s", m->context_comm_s);
  json_put_real(w, "expert_comm_s", m->expert_comm_s);
  json_put_real(w, "pipeline_comm_s", m->pipeline_comm_s);
  json_put_real(w, "data_comm_s", m->data_comm_s);
  json_put_real(w, "offload_s", m->offload_s);
  json_put_real(w, "optimizer_s", m->optimizer_s);
  json_put_real(w, "idle_s", m->idle_s);
  json_close(w, '}');
}

static void write_parts(const StepParts *p, JsonWriter *w)
{
  static const char *const kinds[COMPUTE_COUNT] = {
    [COMPUTE_PRODUCTS] = "products_s", [COMPUTE_ATTENTION] = "attention_s", [COMPUTE_MEMORY] = "memory_bound_s",
    [COMPUTE_AGAIN] = "recompute_s",   [COMPUTE_UNEVEN] = "uneven_s",       [COMPUTE_SLOWED] = "slowed_s",
    [COMPUTE_SLOWEST] = "slowest_s",   [COMPUTE_HOST] = "host_s",
  };
  static const char *const hidden[HIDDEN_COUNT] = {
    [HIDDEN_TENSOR] = "tensor_comm_s",     [HIDDEN_CONTEXT] = "context_comm_s", [HIDDEN_EXPERT] = "expert_comm_s",
    [HIDDEN_PIPELINE] = "pipeline_comm_s", [HIDDEN_DATA] = "data_comm_s",       [HIDDEN_OFFLOAD] = "offload_s",
  };

  json_open(w, "compute_parts", '{');
  for (int i = 0; i < COMPUTE_COUNT; i++)
    json_put_real(w, kinds[i], p->compute_s[i]);
  json_close(w, '}');
  json_open(w, "at_peak", '{');
  for (gsize i = 0; i < G_N_ELEMENTS(p->peak_s); i++)
    json_put_real(w, kinds[i], p->peak_s[i]);
  json_close(w, '}');
  json_open(w, "hidden", '{');
  for (int i = 0; i < HIDDEN_COUNT; i++)
    json_put_real(w, hidden[i], p->hidden_s[i]);
  json_close(w, '}');
}

static void write_memory(const double bytes[PART_COUNT], JsonWriter *w)
{
  json_open(w, "memory", '{');
  for (int part = 0; part < PART_COUNT; part++)
    json_put_real(w, memory_part_names[part], bytes[part]);
  json_close(w, '}');
}

/* The devices of a stage, where they differ. */
static void write_site(const Cluster *site, JsonWriter *w)
{
  json_put_string(w, "node_type", site->name);
  json_put_string(w, "device", site->device.name);
  json_put_real(w, "capacity_bytes", cluster_whole_bytes(site, site->device.memory_bytes));
}

static void write_stages(const Result *r, const Trace *t, JsonWriter *w)
{
  const Mesh *mesh = &r->layout.mesh;
  int ranks = mesh->ranks / t->n_rows, rows_of_stage = MAX(t->n_rows / r->layout.pipeline.shape.ranks, 1);
  g_autofree double *computes = trace_computes(t), *bubbles = trace_bubbles(t);

  json_open(w, "stages", '[');
  for (int row = 0; row < t->n_rows; row++) {
    double bytes[PART_COUNT], peak = trace_row_peak(t, row, bytes);
    json_open(w, NULL, '{');
    json_put_int(w, "stage", row / rows_of_stage);
    json_put_int(w, "first_rank", mesh_rank_at(mesh, row / rows_of_stage, 0));
    json_put_int(w, "ranks", ranks);
    if (r->cluster->n_types > 0)
      write_site(result_site(r, row), w);
    json_put_real(w, "compute_s", computes[row]);
    json_put_real(w, "bubble_fraction", bubbles[row]);
    json_put_real(w, "peak_memory_bytes", peak);
    write_memory(bytes, w);
    json_close(w, '}');
  }
  json_close(w, ']');
}

static void write_fit(const Result *r, JsonWriter *w)
{
  json_put_bool(w, "fits", r->fits);
  json_put_real(w, "memory_margin", r->cluster->memory_margin);
  if (r->accuracy)
    json_put_real(w, "fit_probability", r->estimate.fit_probability);
  if (r->accuracy && r->estimate.outside)
    json_put_string(w, "beyond_measured", r->estimate.outside);
}

/* The plan with what runs of it on this cluster. */
static void write_plan(const Result *r, JsonWriter *w)
{
  Plan plan = *r->plan;

  plan.attention = framework_attention_named(plan.framework, plan.attention, r->cluster);
  plan_write(&plan, w, "plan");
}

static void put_keys(const Result *r, const Trace *trace, JsonWriter *w)
{
  write_plan(r, w);
  if (adapter_freezes(&r->layout.passes.adapter))
    json_put_int(w, "trained_parameters", adapter_params(&r->layout.passes.adapter, r->model));
  json_put_real(w, "iteration_s", r->metrics.iteration_s);
  if (r->accuracy) {
    json_put_real(w, "iteration_s_low", r->estimate.low_s);
    json_put_real(w, "iteration_s_high", r->estimate.high_s);
  }
  json_put_real(w, "tokens_per_s", r->tokens_per_s);
  json_put_real(w, "tokens_per_s_per_gpu", r->tokens_per_s_per_gpu);
  json_put_real(w, "model_tflops_per_gpu", r->model_flops_per_s_per_gpu / 1e12);
  json_put_real(w, "hardware_tflops_per_gpu", r->hardware_flops_per_s_per_gpu / 1e12);
  json_put_real(w, "mfu", r->mfu);
  json_put_real(w, "hfu", r->hfu);
  json_put_real(w, "bubble_fraction", r->metrics.bubble_fraction);
  write_breakdown(&r->metrics, w);
  if (r->parts.known)
    write_parts(&r->parts, w);
  json_put_real(w, "peak_memory_bytes", r->metrics.peak_memory_bytes);
  write_memory(r->metrics.memory, w);
  write_fit(r, w);
  if (trace)
    write_stages(r, trace, w);
}

void result_put_document(const Result *r, const Trace *trace, JsonWriter *w)
{
  json_put_string(w, "schema", "tdp-sim-1");
  json_open(w, "question", '{');
  json_put_string(w, "model", r->model->name);
  json_put_string(w, "cluster", r->cluster->name);
  if (r->cluster->device.rated_power_w > 0)
    json_put_real(w, "power_limit_w", r->cluster->device.power_w);
  json_close(w, '}');
  put_keys(r, trace, w);
}

void result_write(const Result *r, const Trace *trace, JsonWriter *w, const char *key)
{
  json_open(w, key, '{');
  put_keys(r, trace, w);
  json_close(w, '}');
}
