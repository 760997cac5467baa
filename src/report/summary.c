/* A result for people: inputs, speed, where the time goes, what fills the memory. */
#include "report/tables.h"

#include "base/units.h"

#include <math.h>

#define NEGLIGIBLE 0.01    /* of the step: parts and hidden time that are not shown */
#define NO_SHARE 0.0005    /* nor what is shown as 0.0 % of it */
#define UNMASKED_SAID 0.75 /* of what MFU counts: below it MFU without the rest is said */

static void add_model(Table *table, const Model *m)
{
  g_autofree char *params = format_integer(m->params), *active = format_integer(m->active_params);

  table_add(table, "model");
  if (m->active_params < m->params)
    table_add(table, "%s: %s parameters (%s active), %d layers, hidden %d", m->name, params, active, m->blocks,
              m->hidden);
  else
    table_add(table, "%s: %s parameters, %d layers, hidden %d", m->name, params, m->blocks, m->hidden);
}

/* What is trained beside frozen weights. */
static void add_adapter(Table *table, const Result *r)
{
  const Adapter *a = &r->layout.passes.adapter;
  gint64 trained = adapter_trained(a, r->model);
  g_autofree char *text = adapter_text(a), *params = format_integer(trained);

  if (!adapter_freezes(a))
    return;
  table_add(table, "adapter|%s: %s parameters trained (%.2f %% of the model's, which are frozen)", text, params,
            100.0 * (double)trained / (double)r->model->params);
}

static void add_nodes(Table *table, const Cluster *c)
{
  table_add(table, "cluster");
  if (c->n_types > 0)
    table_add(table, "%s: %d devices of %d types", c->name, c->devices, c->n_types);
  else
    table_add(table, "%s: %d %s, %d a node", c->name, c->devices, c->device.name,
              MIN(c->devices_per_node, c->devices));
}

static void add_device(Table *table, const Cluster *c, DType precision)
{
  const Device *d = &c->device;
  g_autofree char *flops = format_count(d->peak_flops_per_s[precision]);
  g_autofree char *memory = format_bytes(cluster_whole_bytes(c, d->memory_bytes));
  g_autofree char *rate = format_count(d->memory_bytes_per_s);

  g_autofree char *limited =
      d->rated_power_w > 0 ? g_strdup_printf(", %g of %g W", d->power_w, d->rated_power_w) : g_strdup("");

  table_add(table, "device|%sFLOP/s %s, %s at %sB/s%s (kernels %s: %s)", flops, dtype_names[precision], memory, rate,
            limited, d->kernels.name, provenance_names[d->kernels.matmul[precision].provenance]);
}

static void add_tiers(Table *table, const Cluster *c)
{
  for (int t = 0; t < c->n_tiers && (t == 0 ? 1 : c->tiers[t - 1].devices) < c->devices; t++) {
    const Tier *tier = &c->tiers[t];
    int joins = MIN(tier_joins(tier), c->devices), takes = MIN(tier->devices, c->devices);
    g_autofree char *rate = format_count(tier->bytes_per_s);
    g_autofree char *part = takes < joins ? g_strdup_printf("%d of ", takes) : g_strdup("");
    table_add(table, "%s|%s%d devices, %sB/s each (link %s: %s)", tier->name, part, joins, rate, tier->link.name,
              provenance_names[tier->link.provenance]);
  }
}

/* A type of nodes of a mixed cluster. */
static void add_type(Table *table, const Cluster *c, DType precision)
{
  table_add(table, "%s|%d %s, %d a node", c->name, c->devices, c->device.name, c->devices_per_node);
  add_device(table, c, precision);
  add_tiers(table, c);
}

/* "flash", or of node types that differ "flash (a100), unfused (v100)". */
static char *attention_text(const Result *r)
{
  const PassLayout *p = &r->layout.passes;
  AttentionKernel kernel;
  GString *text = g_string_new(NULL);

  if (framework_attention_on(p->framework, p->attention, r->cluster, &kernel)) {
    g_string_append(text, attention_kernel_names[kernel]);
    return g_string_free(text, FALSE);
  }
  for (int i = 0; i < r->cluster->n_types; i++) {
    const Cluster *type = r->cluster->types[i];
    kernel = framework_attention(p->framework, p->attention, &type->device);
    g_string_append_printf(text, "%s%s (%s)", i ? ", " : "", attention_kernel_names[kernel], type->name);
  }
  return g_string_free(text, FALSE);
}

/* "fp8 (current; the first 1 and the last 1 blocks in bf16)". */
static char *format_text(const PassLayout *p)
{
  GString *text = g_string_new(dtype_names[formats_product(&p->formats)]);

  if (p->formats.recipe)
    g_string_append_printf(text, " (%s", fp8_recipe_names[p->formats.recipe]);
  if (p->wide.start > 0)
    g_string_append_printf(text, "; the first %d", p->wide.start);
  if (p->wide.end > 0)
    g_string_append_printf(text, "%s the last %d", p->wide.start > 0 ? " and" : ";", p->wide.end);
  if (wide_any(&p->wide))
    g_string_append_printf(text, " blocks in %s", dtype_names[p->formats.precision]);
  g_string_append(text, p->formats.recipe ? ")" : "");
  return g_string_free(text, FALSE);
}

static void add_run(Table *table, const Result *r)
{
  const PassLayout *p = &r->layout.passes;
  g_autofree char *count = format_count(r->tokens), *attention = attention_text(r), *format = format_text(p);

  table_add(table, "software|%s, %s, %s attention|batch|%d sequences of %d tokens = %s tokens a step",
            p->framework->name, format, attention, r->layout.global_batch, p->seq, count);
}

Table *inputs_table(const Result *r)
{
  Table *table = table_new("<|<");
  DType format = formats_product(&r->layout.passes.formats);

  add_model(table, r->model);
  add_adapter(table, r);
  add_nodes(table, r->cluster);
  for (int i = 0; i < r->cluster->n_types; i++)
    add_type(table, r->cluster->types[i], format);
  if (r->cluster->n_types == 0) {
    add_device(table, r->cluster, format);
    add_tiers(table, r->cluster);
  }
  add_run(table, r);
  return table;
}

char *report_inputs(const Result *r)
{
  g_autoptr(Table) table = inputs_table(r);
  return table_text(table, 0);
}

Table *speed_table(const Result *r)
{
  Table *table = table_new("<|<");
  g_autofree char *tokens = format_count(r->tokens_per_s), *each = format_count(r->tokens_per_s_per_gpu),
                  *model = format_count(r->model_flops_per_s_per_gpu),
                  *hardware = format_count(r->hardware_flops_per_s_per_gpu);

  table_add(table, "plan");
  table_take(table, plan_label(r->plan));
  table_add(table, "pipeline");
  int micro = r->layout.pipeline.shape.micro, replicas = r->layout.mesh.dense[AXIS_DATA].size;
  const char *several = micro == 1 ? "" : "es";
  if (replicas == 1)
    table_add(table, "%d micro-batch%s on one pipeline", micro, several);
  else
    table_add(table, "%d micro-batch%s on each of %d pipelines", micro, several, replicas);
  table_add(table, "step");
  table_take(table, result_step_text(r));
  table_add(table, "tokens|%s/s, %s/s a GPU", tokens, each);
  double unmasked = result_unmasked(r);
  g_autofree char *less = unmasked < UNMASKED_SAID
                              ? g_strdup_printf(" (%.1f %% without masked work)", 100 * r->mfu * unmasked)
                              : g_strdup("");
  table_add(table, "model|%sFLOP/s a GPU, MFU %.1f %%%s", model, 100 * r->mfu, less);
  table_add(table, "hardware|%sFLOP/s a GPU, HFU %.1f %%", hardware, 100 * r->hfu);
  table_add(table, "bubble|%.1f %% of the pipeline phase", 100 * r->metrics.bubble_fraction);
  return table;
}

static void add_time(Table *table, const char *name, double seconds, double step_s)
{
  table_add(table, "%s", name);
  table_take(table, format_seconds(seconds));
  table_add(table, "%.1f %%", step_s > 0 ? 100 * seconds / step_s : 0);
}

static void add_parts(Table *table, const Result *r)
{
  static const char *const names[COMPUTE_COUNT] = {
    [COMPUTE_PRODUCTS] = "  products",          [COMPUTE_ATTENTION] = "  attention",
    [COMPUTE_MEMORY] = "  memory-bound",        [COMPUTE_AGAIN] = "  recomputation",
    [COMPUTE_UNEVEN] = "  uneven experts",      [COMPUTE_SLOWED] = "  slowed by others",
    [COMPUTE_SLOWEST] = "  slowest device",     [COMPUTE_HOST] = "  waits for host",
  };

  const StepParts *p = &r->parts;
  double step_s = r->metrics.iteration_s;

  for (int i = 0; i < COMPUTE_COUNT; i++) {
    if (p->compute_s[i] < NEGLIGIBLE * step_s)
      continue;
    add_time(table, i == COMPUTE_SLOWED && r->slow_ranks ? "  slowed" : names[i], p->compute_s[i], step_s);
    if (i < (int)G_N_ELEMENTS(p->peak_s))
      table_add(table, "at %.0f %% of the peak", 100 * p->peak_s[i] / p->compute_s[i]);
    else
      table_add(table, "%s", "");
  }
}

/* What is hardly exposed has a line where much is hidden. */
static void add_exposed(Table *table, const char *name, double seconds, double hidden_s, double step_s)
{
  gboolean hides = hidden_s >= NEGLIGIBLE * step_s;
  g_autofree char *hidden = format_seconds(hidden_s);

  if (fabs(seconds) < NO_SHARE * step_s && !hides)
    return;
  add_time(table, name, seconds, step_s);
  if (hides)
    table_add(table, "+ %s hidden", hidden);
  else
    table_add(table, "%s", "");
}

Table *time_table(const Result *r)
{
  const Metrics *m = &r->metrics;
  const double *hidden_s = r->parts.hidden_s, step_s = m->iteration_s;
  Table *table = table_new("<|||<");

  add_exposed(table, "compute", m->compute_s, 0, step_s);
  add_parts(table, r);
  add_exposed(table, "tensor parallel", m->tensor_comm_s, hidden_s[HIDDEN_TENSOR], step_s);
  add_exposed(table, "context parallel", m->context_comm_s, hidden_s[HIDDEN_CONTEXT], step_s);
  add_exposed(table, "expert parallel", m->expert_comm_s, hidden_s[HIDDEN_EXPERT], step_s);
  add_exposed(table, "pipeline", m->pipeline_comm_s, hidden_s[HIDDEN_PIPELINE], step_s);
  add_exposed(table, result_data_text(r), m->data_comm_s, hidden_s[HIDDEN_DATA], step_s);
  add_exposed(table, "offload", m->offload_s, hidden_s[HIDDEN_OFFLOAD], step_s);
  add_exposed(table, "optimizer", m->optimizer_s, 0, step_s);
  add_exposed(table, "idle", m->idle_s, 0, step_s);
  return table;
}

static void add_memory(Table *table, const char *name, double bytes, double all)
{
  table_add(table, "%s", name);
  table_take(table, format_bytes(bytes));
  table_add(table, "%.1f %%", all > 0 ? 100 * bytes / all : 0);
}

Table *memory_table(const Result *r)
{
  const Metrics *m = &r->metrics;
  double all = cluster_whole_bytes(r->cluster, m->capacity_bytes);
  Table *table = table_new("<||");

  for (int part = 0; part < PART_COUNT; part++)
    if (fabs(m->memory[part]) > REST_OF_NOTHING * all)
      add_memory(table, memory_part_names[part], m->memory[part], all);
  add_memory(table, "peak", m->peak_memory_bytes, all);
  return table;
}

static void append_table(GString *text, Table *table, int indent)
{
  g_autofree char *lines = table_text(table, indent);

  g_string_append(text, lines);
  table_free(table);
}

char *report_summary(const Result *r)
{
  const Metrics *m = &r->metrics;
  g_autofree char *fit = result_fit_text(r), *beyond = result_beyond_text(r);
  GString *text = g_string_new(NULL);

  append_table(text, speed_table(r), 0);
  g_string_append_printf(text, "\ntime of stage %d, the critical stage (communication: only the exposed part)\n",
                         m->critical_row);
  append_table(text, time_table(r), 2);
  g_string_append_printf(text, "\nmemory of stage %d, %s: %s\n", m->peak_row, result_peak_text(r), fit);
  append_table(text, memory_table(r), 2);
  if (*beyond)
    g_string_append_printf(text, "\n%s", beyond);
  return g_string_free(text, FALSE);
}
