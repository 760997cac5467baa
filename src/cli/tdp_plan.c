/* tdp-plan: finds the best plans for a model on a cluster and says why. */
#include "base/error.h"
#include "base/files.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/explain.h"
#include "interop/export.h"
#include "report/explain.h"
#include "search/search.h"
#include "sim/simulate.h"

#include <gsl/gsl_errno.h>
#include <stdio.h>
#include <string.h>

typedef struct {
  char *model, *cluster, *fix, *output, *plots, *framework, *precision;
  char **exports;
  int gpus, global_batch, seq, top, threads;
  gboolean json, explain, verbose, lossy;
} Options;

typedef struct {
  Model *model;
  Cluster *cluster;
  Framework *framework;
  Plan base;
  Fixed fixed;
  SearchResult *found;
  Result *results;
  int n;
} Planning;

static gboolean read_options(int *argc, char ***argv, Options *o, GError **error)
{
  const GOptionEntry entries[] = {
    { "model", 'm', 0, G_OPTION_ARG_FILENAME, &o->model, "Model: a file or a name of models/", "M" },
    { "cluster", 'c', 0, G_OPTION_ARG_FILENAME, &o->cluster, "Cluster: a file or a name of hardware/", "C" },
    { "gpus", 'g', 0, G_OPTION_ARG_INT, &o->gpus, "Devices to use (default: all of the cluster)", "N" },
    { "global-batch", 'b', 0, G_OPTION_ARG_INT, &o->global_batch, "Sequences in a step (default: the model's)", "B" },
    { "seq", 's', 0, G_OPTION_ARG_INT, &o->seq, "Tokens in a sequence (default: the model's)", "S" },
    { "fix", 0, 0, G_OPTION_ARG_STRING, &o->fix, "Values that plans must have, as in tp=8,zero=1", "LIST" },
    { "framework", 0, 0, G_OPTION_ARG_STRING, &o->framework, "Training software: a name of plans/frameworks/ (default: megatron-core)", "NAME" },
    { "precision", 0, 0, G_OPTION_ARG_STRING, &o->precision, "bf16, fp16, fp32 or fp8 (default: the first of these that the device has)", "FORMAT" },
    { "top", 0, 0, G_OPTION_ARG_INT, &o->top, "Plans to show (default: 5)", "K" },
    { "output", 'o', 0, G_OPTION_ARG_FILENAME, &o->output, "Write the best plan to a file", "FILE" },
    { "export", 0, 0, G_OPTION_ARG_STRING_ARRAY, &o->exports, "Write the best plan for megatron, deepspeed, torchtitan, bridge, accelerate or nanotron", "TOOL=FILE" },
    { "allow-lossy", 0, 0, G_OPTION_ARG_NONE, &o->lossy, "Export even what the tool cannot fully express", NULL },
    { "plots", 0, 0, G_OPTION_ARG_FILENAME, &o->plots, "Draw timeline and memory of the best plan", "DIR" },
    { "json", 0, 0, G_OPTION_ARG_NONE, &o->json, "Print JSON", NULL },
    { "explain", 0, 0, G_OPTION_ARG_NONE, &o->explain, "Say why the best plan won and what it communicates", NULL },
    { "threads", 0, 0, G_OPTION_ARG_INT, &o->threads, "Threads (default: one for each processor); the answer does not depend on it", "T" },
    { "verbose", 'v', 0, G_OPTION_ARG_NONE, &o->verbose, "Print times of the search on stderr", NULL },
    G_OPTION_ENTRY_NULL,
  };

  if (!cli_parse(argc, argv, entries, "Finds the fastest way to train a model on a cluster, and says why.", error))
    return FALSE;
  if (*argc > 1) {
    g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT, "%s: expected no further argument", (*argv)[1]);
    return FALSE;
  }
  return cli_check_count("--gpus", &o->gpus, error) && cli_check_count("--global-batch", &o->global_batch, error) &&
         cli_check_count("--seq", &o->seq, error) && cli_check_count("--top", &o->top, error) &&
         cli_check_count("--threads", &o->threads, error);
}

/* bf16 where the device has it, else fp16, else fp32. */
static DType best_precision(const Device *device)
{
  if (device->peak_flops_per_s[DTYPE_BF16] > 0)
    return DTYPE_BF16;
  return device->peak_flops_per_s[DTYPE_FP16] > 0 ? DTYPE_FP16 : DTYPE_FP32;
}

static gboolean check_exports(char **exports, GError **error)
{
  for (int i = 0; exports && exports[i]; i++) {
    g_auto(GStrv) pair = g_strsplit(exports[i], "=", 2);
    if (pair[0] && pair[1] && *pair[1] && exporter_find(pair[0]))
      continue;
    g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT,
                "--export: %s: expected TOOL=FILE with a tool of megatron, deepspeed, torchtitan, bridge, accelerate, nanotron",
                exports[i]);
    return FALSE;
  }
  return TRUE;
}

static gboolean prepare(Planning *p, const Options *o, GError **error)
{
  if (!check_exports(o->exports, error))
    return FALSE;
  p->model = cli_load_model(o->model, error);
  p->cluster = p->model ? cli_load_cluster(o->cluster, error) : NULL;
  if (!p->cluster)
    return FALSE;
  if (o->gpus > 0 && !cluster_resize(p->cluster, o->gpus, error)) {
    g_prefix_error(error, "--gpus: ");
    return FALSE;
  }
  p->framework = framework_load(o->framework ? o->framework : "megatron-core", error);
  if (!p->framework || (o->fix && !fixed_parse(o->fix, &p->fixed, error)))
    return FALSE;
  p->base = plan_default(p->model, p->framework);
  DType format = best_precision(&p->cluster->device);
  if (o->precision && !cli_precision(o->precision, &format, error))
    return FALSE;
  plan_set_format(&p->base, format);
  p->base.gpus = p->cluster->devices;
  if (!p->model->global_batch_size && o->global_batch <= 0)
    p->base.global_batch = p->base.gpus;
  if (o->global_batch > 0)
    p->base.global_batch = o->global_batch;
  if (o->seq > 0)
    p->base.seq = o->seq;
  return TRUE;
}

static void write_json(const Planning *p)
{
  g_autoptr(GString) text = g_string_new(NULL);
  JsonWriter w;

  json_writer_init(&w, text);
  json_open(&w, NULL, '{');
  json_put_string(&w, "model", p->model->name);
  json_put_int(&w, "parameters", p->model->params);
  json_put_string(&w, "cluster", p->cluster->name);
  json_open(&w, "plans", '[');
  for (int i = 0; i < p->n; i++)
    result_write(&p->results[i], NULL, &w, NULL);
  json_close(&w, ']');
  json_open(&w, "search", '{');
  json_put_int(&w, "space", p->found->space);
  json_open(&w, "rejected", '{');
  for (int i = 0; i < REJECT_COUNT; i++)
    if (p->found->rejected[i])
      json_put_int(&w, reject_name(i), p->found->rejected[i]);
  json_close(&w, '}');
  json_put_int(&w, "bounded", p->found->bounded);
  json_put_int(&w, "simulated", p->found->simulated);
  json_close(&w, '}');
  json_close(&w, '}');
  printf("%s\n", text->str);
}

static void print_text(const Planning *p, const Options *o, const Trace *trace)
{
  g_autofree char *inputs = report_inputs(&p->results[0]);
  g_autofree char *ranking = report_ranking(p->results, p->n), *summary = report_summary(&p->results[0]);
  g_autofree char *counts = explain_counts(p->found);

  printf("%s", inputs);
  if (!p->model->global_batch_size && o->global_batch <= 0)
    printf("         (the model names no batch: one sequence a GPU)\n");
  printf("\nBest plans\n%s\nThe best of them\n%s", ranking, summary);
  if (trace->n_rows > 1) {
    g_autofree char *stages = report_stages(trace);
    printf("\nmemory of each stage at its peak\n%s", stages);
  }
  printf("\n%s", counts);
  if (o->explain) {
    g_autofree char *why = explain_choice(p->found, p->results, p->n);
    g_autofree char *comm = report_collectives(&p->results[0], trace);
    const Exporter *tool = exporter_find(p->framework->engine);
    printf("\n%s\nCommunication of the best plan\n%s", why, comm);
    if (tool) {
      g_autofree char *launch = launch_line(tool, p->model, p->cluster, &p->results[0].plan, NULL);
      printf("\nTo run it (see --export for the whole script)\n  %s\n", launch);
    }
  }
}

static gboolean write_plan(const Planning *p, const char *path, GError **error)
{
  g_autoptr(GString) text = g_string_new(NULL);
  JsonWriter w;

  json_writer_init(&w, text);
  plan_write(&p->results[0].plan, &w, NULL);
  g_string_append_c(text, '\n');
  return files_write(path, text->str, text->len, error);
}

static gboolean write_exports(const Planning *p, const Options *o, GError **error)
{
  for (int i = 0; o->exports && o->exports[i]; i++) {
    g_auto(GStrv) pair = g_strsplit(o->exports[i], "=", 2);
    const Exporter *exporter = exporter_find(pair[0]);
    if (!export_write(exporter, p->model, p->cluster, &p->results[0].plan, pair[1], o->lossy, error))
      return FALSE;
  }
  return TRUE;
}

static gboolean deliver(const Planning *p, const Options *o, GError **error)
{
  g_autoptr(Trace) trace = simulate_plan(p->model, p->cluster, &p->results[0].plan);

  if ((o->output && !write_plan(p, o->output, error)) || !write_exports(p, o, error))
    return FALSE;
  if (o->plots && !report_plots(&p->results[0], trace, o->plots, error))
    return FALSE;
  if (o->json)
    write_json(p);
  else
    print_text(p, o, trace);
  return TRUE;
}

/* What the answer leaves out for this model. */
static void say_limits(const Model *m)
{
  for (int i = 0; i < m->n_specs; i++)
    if (m->specs[i].ffn.experts > 0) {
      g_printerr("tdp-plan: note: expert parallelism is not planned yet: every device holds a share of all experts of %s\n",
                 m->name);
      return;
    }
}

static gboolean run(Planning *p, const Options *o, GError **error)
{
  gint64 began = g_get_monotonic_time();
  SearchOptions options = { .base = &p->base, .fixed = p->fixed, .top = o->top > 0 ? o->top : 5, .threads = o->threads,
                            .over = o->explain };

  say_limits(p->model);
  p->found = search(p->model, p->cluster, &options);
  if (o->verbose)
    g_printerr("search: %.3f s, %" G_GINT64_FORMAT " plans, %" G_GINT64_FORMAT " simulated\n",
               (g_get_monotonic_time() - began) / 1e6, p->found->space, p->found->simulated);
  p->n = p->found->best->len;
  if (p->n == 0) {
    g_autofree char *why = explain_nothing(p->found, p->model, p->cluster, &options);
    g_set_error(error, TDP_ERROR, TDP_ERROR_INFEASIBLE, "%s", why);
    return FALSE;
  }
  p->results = g_new(Result, p->n);
  for (int i = 0; i < p->n; i++) {
    const Found *f = &g_array_index(p->found->best, Found, i);
    p->results[i] = result_of_metrics(p->model, p->cluster, &f->plan, &f->metrics);
  }
  return deliver(p, o, error);
}

static void options_clear(Options *o)
{
  char *const strings[] = { o->model, o->cluster, o->fix, o->output, o->plots, o->framework, o->precision };

  for (gsize i = 0; i < G_N_ELEMENTS(strings); i++)
    g_free(strings[i]);
  g_strfreev(o->exports);
}

int main(int argc, char **argv)
{
  Options o = { .gpus = CLI_ABSENT, .global_batch = CLI_ABSENT, .seq = CLI_ABSENT, .top = CLI_ABSENT, .threads = CLI_ABSENT };
  Planning p = { .fixed = fixed_none() };
  GError *error = NULL;
  int status;

  gsl_set_error_handler_off();
  g_set_prgname("tdp-plan");
  if (read_options(&argc, &argv, &o, &error) && prepare(&p, &o, &error) && run(&p, &o, &error))
    status = cli_finish("tdp-plan");
  else
    status = cli_fail("tdp-plan", error);
  g_clear_pointer(&p.found, search_result_free);
  g_free(p.results);
  g_clear_pointer(&p.framework, framework_free);
  g_clear_pointer(&p.cluster, cluster_free);
  g_clear_pointer(&p.model, model_free);
  options_clear(&o);
  return status;
}
