/*
 * From a plan to its reports, all checks on. The input is a model, a cluster, and pairs of bytes: a row of the table of
 * plan keys and a value for it, so that a new key is drawn as soon as it has its row. A plan that the rules accept is
 * priced, made a program of, checked, simulated and reported; sums, bounds and limits of physics must hold.
 */
#include "fuzz.h"

#include "../program_check.h"
#include "plan/keys.h"
#include "program/program.h"
#include "report/report.h"
#include "search/bound.h"
#include "sim/simulate.h"

#include <math.h>
#include <string.h>

enum { KEYS_MOST = 160, TASKS_MOST = 512 };

static const char *const models[] = { "tiny", "tiny-moe", "pythia-70m", "t5-small", "bert-base", "vit-base-16",
                                      "gemma-3-1b", "deepseek-v2-lite", "nemotron-3-nano-30b-a3b", "qwen3-0.6b" };
static const char *const clusters[] = { "dgx", "dgx-h100", "a100-v100-mixed", "gb200-nvl72", "jean-zay-v100-16gb" };
static const char *const frameworks[] = { "megatron-core", "deepspeed", "fsdp", "torchtitan", "nanotron-2025",
                                          "galvatron", "tdp-run", "maxtext-2024-12" };

/* Values of keys that are no number or name, by key. */
static const struct {
  const char *key, *values[4];
} texts[] = {
  { "layer_split", { "\"balanced\"", "\"equal\"", "[1,1]", "\"padded\"" } },
  { "layer_strategies", { "[{\"layers\":1,\"tensor_model_parallel_size\":2},{\"layers\":1}]",
                          "[{\"layers\":2,\"recompute_granularity\":\"full\"}]", "[]", "[{\"layers\":1}]" } },
  { "hetero_device_types", { "[\"a100\",\"v100\"]", "[\"v100\",\"a100\"]", "[\"v100\"]", "[]" } },
  { "recompute_num_layers", { "1", "2", "[1,0]", "[1,1,0,0]" } },
  { "recompute_modules", { "[\"layernorm\"]", "[\"mlp\",\"layernorm\"]", "[\"core_attn\"]", "[\"moe\"]" } },
  { "offload", { "\"optimizer\"", "\"none\"", "\"optimizer\"", "\"none\"" } },
};

static const char *text_value(const char *key, int value)
{
  for (gsize i = 0; i < G_N_ELEMENTS(texts); i++)
    if (g_str_equal(texts[i].key, key))
      return texts[i].values[value % 4];
  return NULL;
}

static void put_number(GString *out, const PlanKey *key, int value)
{
  static const double numbers[] = { 1, 2, 4, 8, 3, 6, 16, 5 }, reals[] = { 1, 0.5, 2, 1.25, 0, 1e6, 1e8, 10 };
  const JsonField *f = &key->field;
  gboolean any = f->min == 0 && f->max == 0;
  double x = f->type == JSON_INT ? numbers[value % 8] : reals[value % 8];

  if (g_str_equal(f->key, "seq_length"))
    x *= 128;
  if (g_str_equal(f->key, "global_batch_size"))
    x *= 1 << (value >> 3) % 4;
  x = any ? x : CLAMP(x, f->min, f->max);
  g_string_append_printf(out, "%.17g", f->type == JSON_INT || key->whole ? floor(x) : x);
}

static void put_value(GString *out, const PlanKey *key, int value)
{
  const JsonField *f = &key->field;
  int n = 0;

  if (f->type == JSON_BOOL) {
    g_string_append(out, value % 2 ? "true" : "false");
  } else if (f->type == JSON_ENUM) {
    while (f->names[n])
      n++;
    g_string_append_printf(out, "\"%s\"", f->names[value % n]);
  } else if (g_str_equal(f->key, "framework")) {
    g_string_append_printf(out, "\"%s\"", frameworks[value % G_N_ELEMENTS(frameworks)]);
  } else if (f->type == JSON_STRING) {
    while (schedules[n])
      n++;
    g_string_append_printf(out, "\"%s\"", schedules[value % n]->name);
  } else if (f->type == JSON_ANY) {
    g_string_append(out, text_value(f->key, value));
  } else {
    put_number(out, key, value);
  }
}

static void put_key(GString *out, const PlanKey *key, int value)
{
  g_string_append_printf(out, "%s\"%s\":", out->str[out->len - 1] == '{' ? "" : ",", key->field.key);
  put_value(out, key, value);
}

/* Of a key's own object, where one of its keys was drawn. */
static void put_members(GString *out, const PlanKey *key, const int *values)
{
  const PlanKey *first = plan_key_members(key);
  gsize before = out->len;
  gboolean drawn = FALSE;

  g_string_append_printf(out, "%s\"%s\":{", out->str[out->len - 1] == '{' ? "" : ",", key->field.key);
  for (const PlanKey *k = first; k->field.key && g_strcmp0(k->object, key->field.key) == 0; k++)
    if (values[k - plan_keys] >= 0) {
      put_key(out, k, values[k - plan_keys]);
      drawn = TRUE;
    }
  g_string_append_c(out, '}');
  if (!drawn)
    g_string_truncate(out, before);
}

/* The plan file that pairs of bytes stand for; the last value of a key holds. Newly allocated. */
static char *plan_text(const uint8_t *data, size_t size)
{
  GString *out = g_string_new("{");
  int values[KEYS_MOST], n = 0;

  while (plan_keys[n].field.key)
    n++;
  g_assert(n <= KEYS_MOST);
  for (int i = 0; i < n; i++)
    values[i] = -1;
  for (gsize i = 0; i + 1 < size; i += 2)
    values[data[i] % n] = data[i + 1];
  for (int i = 0; i < n; i++) {
    const PlanKey *key = &plan_keys[i];
    gboolean free = i == 0 || g_str_equal(key->field.key, "description"); /* the number of GPUs follows */
    if (free || key->object)
      continue;
    if (values[i] >= 0 && (key->field.type != JSON_ANY || text_value(key->field.key, 0)))
      put_key(out, key, values[i]);
    else if (plan_key_members(key))
      put_members(out, key, values);
  }
  g_string_append_c(out, '}');
  return g_string_free(out, FALSE);
}

static const Model *model_at(int i)
{
  static Model *loaded[G_N_ELEMENTS(models)];

  i %= G_N_ELEMENTS(models);
  if (!loaded[i]) {
    g_autofree char *path = g_strdup_printf("models/%s.json", models[i]);
    loaded[i] = model_load(path, NULL);
    g_assert(loaded[i]);
  }
  return loaded[i];
}

static Cluster *cluster_at(int i)
{
  static Cluster *loaded[G_N_ELEMENTS(clusters)];

  i %= G_N_ELEMENTS(clusters);
  if (!loaded[i]) {
    g_autofree char *path = g_strdup_printf("hardware/%s.json", clusters[i]);
    loaded[i] = cluster_load(path, NULL);
    g_assert(loaded[i]);
  }
  return loaded[i];
}

static void check_metrics(const Metrics *m)
{
  double parts = m->compute_s + m->tensor_comm_s + m->context_comm_s + m->expert_comm_s + m->pipeline_comm_s +
                 m->data_comm_s + m->offload_s + m->optimizer_s + m->idle_s;
  double bytes = 0;

  for (int i = 0; i < PART_COUNT; i++)
    bytes += m->memory[i];
  g_assert(isfinite(m->iteration_s) && m->iteration_s > 0);
  g_assert(fabs(parts - m->iteration_s) <= 1e-9 * MAX(1, m->iteration_s));
  g_assert(fabs(bytes - m->peak_memory_bytes) <= 1e-6 * m->peak_memory_bytes);
  g_assert(m->bubble_fraction >= -1e-9 && m->bubble_fraction <= 1);
}

static void check_bounds(const Model *model, const Layout *layout, const Cluster *cluster, const Metrics *m)
{
  g_autoptr(PriceSums) sums = price_sums_new(model, layout, cluster);
  BoundRanks ranks = bound_ranks(model, layout, sums);
  double slack = 1 + 1e-9;

  g_assert(bound_time(model, layout, cluster, sums, NULL) <= m->iteration_s * slack);
  g_assert(bound_memory(layout, &ranks) <= m->peak_memory_bytes * slack);
  g_assert(bound_memory_by_order(model, layout, sums) <= m->peak_memory_bytes * slack);
}

static void check_reports(const Result *result, const Trace *trace)
{
  char *texts_of[] = { report_inputs(result), report_summary(result), report_explain(result, trace),
                       report_collectives(result, trace), report_stages(trace), report_ops(result, trace),
                       report_timeline(trace, 80, FALSE), report_csv(trace) };
  GError *error = NULL;
  JsonWriter writer;

  for (gsize i = 0; i < G_N_ELEMENTS(texts_of); i++) {
    g_assert(texts_of[i] && g_utf8_validate(texts_of[i], -1, NULL) && g_str_has_suffix(texts_of[i], "\n"));
    g_assert(!g_regex_match_simple("\\b(nan|inf)\\b", texts_of[i], 0, 0));
    g_free(texts_of[i]);
  }
  g_autoptr(GString) json = g_string_new(NULL);
  json_writer_init(&writer, json);
  result_write(result, trace, &writer, NULL);
  json_free(json_parse(json->str, json->len, "result", &error));
  g_assert_no_error(error);
  fuzz_judge(result_check(result, &error), &error);
}

static void run(const Model *model, const Cluster *cluster, const Plan *plan)
{
  const Layout layout = layout_of(plan);
  g_autoptr(PriceTable) prices = price_table_described(model, &layout, cluster);
  g_autoptr(Program) program = program_new(model, &layout, cluster, prices);
  GError *error = NULL;
  Metrics m;

  program_check(program, &error);
  g_assert_no_error(error);
  g_autoptr(Trace) trace = simulate(program);
  trace_metrics(trace, &m);
  check_metrics(&m);
  if (cluster->n_types == 0 && layout.n_runs == 0)
    check_bounds(model, &layout, cluster, &m);
  Result result = result_of(model, cluster, plan, trace);
  check_reports(&result, trace);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  GError *error = NULL;
  Framework *framework = NULL;
  Plan plan;

  if (size < 4)
    return 0;
  fuzz_serve(data, 0, NULL);
  const Model *model = model_at(data[0]);
  Cluster *cluster = cluster_at(data[1]);
  g_autofree char *text = plan_text(data + 2, size - 2);
  gboolean ok = plan_parse(text, strlen(text), "input", model, &plan, &framework, &error);
  fuzz_judge(ok, &error);
  if (ok && cluster_resize(cluster, plan.gpus, NULL) && plan_check(&plan, model, cluster, NULL) == RULE_NONE &&
      plan_stages(&plan) * (gint64)plan_micro_batches(&plan) <= TASKS_MOST)
    run(model, cluster, &plan);
  framework_free(framework);
  return 0;
}
