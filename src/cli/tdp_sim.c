/* tdp-sim: simulates one plan event by event. */
#include "base/error.h"
#include "base/files.h"
#include "cli/cli.h"
#include "program/balance.h"
#include "sim/simulate.h"

#include <gsl/gsl_errno.h>
#include <stdio.h>
#include <string.h>

#define TIMELINE_COLUMNS 120

typedef struct {
  char *model, *cluster, *plan, *csv, *plots;
  gboolean json, collectives, ops;
} Options;

typedef struct {
  Model *model;
  Cluster *cluster;
  Framework *framework;
  Plan plan;
} Subject;

static gboolean read_options(int *argc, char ***argv, Options *o, GError **error)
{
  const GOptionEntry entries[] = {
    { "model", 'm', 0, G_OPTION_ARG_FILENAME, &o->model, "Model: a file or a name of models/", "M" },
    { "cluster", 'c', 0, G_OPTION_ARG_FILENAME, &o->cluster, "Cluster: a file or a name of hardware/", "C" },
    { "plan", 'p', 0, G_OPTION_ARG_FILENAME, &o->plan, "Plan: a file or a name of plans/", "P" },
    { "json", 0, 0, G_OPTION_ARG_NONE, &o->json, "Print JSON", NULL },
    { "collectives", 0, 0, G_OPTION_ARG_NONE, &o->collectives, "List every collective with its algorithm", NULL },
    { "ops", 0, 0, G_OPTION_ARG_NONE, &o->ops, "List every operator of each kind of layer with its time", NULL },
    { "csv", 0, 0, G_OPTION_ARG_FILENAME, &o->csv, "Write every task with its times", "FILE" },
    { "plots", 0, 0, G_OPTION_ARG_FILENAME, &o->plots, "Draw timeline and memory", "DIR" },
    G_OPTION_ENTRY_NULL,
  };

  if (!cli_parse(argc, argv, entries, "Simulates one training plan on a cluster.", error))
    return FALSE;
  if (*argc > 1) {
    g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT, "%s: expected no further argument", (*argv)[1]);
    return FALSE;
  }
  if (!o->plan)
    g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT, "--plan: missing: expected a plan file or name, as in --plan gpt3-128");
  return o->plan != NULL;
}

/* The cluster takes the plan's size. */
static gboolean load(Subject *s, const Options *o, GError **error)
{
  g_autofree char *path = NULL;

  s->model = cli_load_model(o->model, error);
  s->cluster = s->model ? cli_load_cluster(o->cluster, error) : NULL;
  path = s->cluster ? files_find(o->plan, "plans", error) : NULL;
  if (!path || !plan_load(path, s->model, &s->plan, &s->framework, error))
    return FALSE;
  if (!cluster_resize(s->cluster, s->plan.gpus, error)) {
    g_prefix_error(error, "%s: gpus: ", path);
    return FALSE;
  }
  if (!balance_plan(s->model, s->cluster, &s->plan, error) ||
      plan_check(&s->plan, s->model, s->cluster, error) != RULE_NONE) {
    g_prefix_error(error, "%s: ", g_str_equal(path, "-") ? "stdin" : path);
    return FALSE;
  }
  return TRUE;
}

static void print_json(const Result *result)
{
  g_autoptr(GString) text = g_string_new(NULL);
  JsonWriter w;

  json_writer_init(&w, text);
  result_write(result, &w, NULL);
  printf("%s\n", text->str);
}

static void print_text(const Options *o, const Result *result, const Trace *trace)
{
  g_autofree char *inputs = report_inputs(result), *summary = report_summary(result);
  g_autofree char *timeline = report_timeline(trace, TIMELINE_COLUMNS);

  printf("%s\n%s\n", inputs, summary);
  if (trace->n_rows > 1) {
    g_autofree char *stages = report_stages(trace);
    printf("memory of each stage at its peak\n%s\n", stages);
  }
  printf("%s", timeline);
  if (o->collectives) {
    g_autofree char *comm = report_collectives(result, trace);
    printf("\nCommunication\n%s", comm);
  }
  if (o->ops) {
    g_autofree char *ops = report_ops(result);
    printf("\nOperators of a micro-batch\n%s", ops);
  }
}

static gboolean run(const Subject *s, const Options *o, GError **error)
{
  g_autoptr(Trace) trace = simulate_plan(s->model, s->cluster, &s->plan);
  Result result = result_of(s->model, s->cluster, &s->plan, trace);

  if (o->plots && !report_plots(&result, trace, o->plots, error))
    return FALSE;
  if (o->csv) {
    g_autofree char *csv = report_csv(trace);
    if (!files_write(o->csv, csv, strlen(csv), error))
      return FALSE;
  }
  if (o->json)
    print_json(&result);
  else
    print_text(o, &result, trace);
  return TRUE;
}

static void options_clear(Options *o)
{
  char *const strings[] = { o->model, o->cluster, o->plan, o->csv, o->plots };

  for (gsize i = 0; i < G_N_ELEMENTS(strings); i++)
    g_free(strings[i]);
}

int main(int argc, char **argv)
{
  Options o = { 0 };
  Subject s = { 0 };
  GError *error = NULL;
  int status;

  gsl_set_error_handler_off();
  g_set_prgname("tdp-sim");
  if (read_options(&argc, &argv, &o, &error) && load(&s, &o, &error) && run(&s, &o, &error))
    status = cli_finish("tdp-sim");
  else
    status = cli_fail("tdp-sim", error);
  g_clear_pointer(&s.framework, framework_free);
  g_clear_pointer(&s.cluster, cluster_free);
  g_clear_pointer(&s.model, model_free);
  options_clear(&o);
  return status;
}
