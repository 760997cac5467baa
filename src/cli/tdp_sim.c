/* tdp-sim: simulates one plan event by event. */
#include "base/error.h"
#include "base/files.h"
#include "cli/cli.h"
#include "cli/drawn.h"
#include "cli/engine.h"
#include "cli/exports.h"
#include "cli/launch_file.h"
#include "cli/numbers.h"
#include "cli/say.h"
#include "cli/sim_document.h"
#include "cli/sim_schedule.h"
#include "report/compare.h"
#include "report/page.h"
#include "report/ranks.h"
#include "kineto/kineto.h"

#include <stdio.h>
#include <string.h>

typedef struct {
  char *model, *cluster, *plan, *adapter, *csv, *plots, *trace, *trace_merged, *report, *power_limit;
  char *script_args, *counts[3];
  char **given;    /* script_args, parted */
  int gpus, seq, batch; /* of another tool's file that does not say */
  double power_limit_w; /* 0 = not given */
  char **compared; /* plans */
  char **exports;  /* TOOL=FILE */
  gboolean lossy, json, collectives, ops, explain, compare;
  EngineOptions engine;
  ScheduleOptions drawn; /* a schedule alone */
} Options;

/* One plan, and what came out of it. */
typedef struct {
  const char *name; /* as given */
  Model *model;
  Cluster *cluster;
  Framework *framework;
  const Accuracy *accuracy;
  Plan plan;
  Trace *trace;
  RankRun *run; /* with --ranks all */
  char *ranks;  /* and a table of them */
  Draws draws;
  Result result;
  GPtrArray *notes; /* char *: on its file */
} Subject;

/* What a comparison has no single answer to. */
static gboolean check_compare(const Options *o, GError **error)
{
  const struct {
    const char *option;
    gboolean given;
  } single[] = { { "--plan", o->plan != NULL }, { "--csv", o->csv != NULL }, { "--trace", o->trace != NULL },
                 { "--export", o->exports != NULL }, { "--report", o->report != NULL },
                 { "--collectives", o->collectives }, { "--ops", o->ops }, { "--explain", o->explain },
                 { "--draws", o->engine.draws > 0 } };

  for (gsize i = 0; i < G_N_ELEMENTS(single); i++)
    if (single[i].given)
      return input_error(error, "%s: not with --compare: expected plans, as in --compare a.json b.json",
                         single[i].option);
  if (!o->compared)
    input_error(error, "--compare: no plan: expected plans, as in --compare a.json b.json");
  return o->compared != NULL;
}

/* What goes with a schedule alone: nothing that a plan is needed for. */
static gboolean check_drawn(const Options *o, GError **error)
{
  const struct {
    const char *option;
    gboolean given;
  } planned[] = { { "--plan", o->plan != NULL }, { "--model", o->model != NULL }, { "--cluster", o->cluster != NULL },
                  { "--adapter", o->adapter != NULL }, { "--compare", o->compare }, { "--csv", o->csv != NULL },
                  { "--export", o->exports != NULL }, { "--trace", o->trace != NULL },
                  { "--trace-merged", o->trace_merged != NULL }, { "--explain", o->explain },
                  { "--collectives", o->collectives }, { "--ops", o->ops }, { "--ranks", o->engine.ranks != NULL },
                  { "--contention", o->engine.contention },
                  { "--receive-buffers", o->engine.receive_buffers > 0 }, { "--draws", o->engine.draws > 0 },
                  { "--power-limit", o->power_limit != NULL }, { "--gpus", o->gpus > 0 }, { "--seq", o->seq > 0 },
                  { "--global-batch", o->batch > 0 },
                  { "--script-args", o->script_args != NULL } };

  for (gsize i = 0; i < G_N_ELEMENTS(planned); i++)
    if (planned[i].given)
      return input_error(error, "%s: expected without --schedule, which needs no plan", planned[i].option);
  return drawn_check(o->plots, o->json, error) && (!o->report || page_check(o->report, error));
}

/* What only a schedule alone has: plans say their own. */
static gboolean check_planned(const Options *o, GError **error)
{
  const char *given = o->drawn.stages ? "--stages" : o->drawn.chunks ? "--chunks" :
                      o->drawn.micro ? "--micro-batches" : o->drawn.times ? "--times" : NULL;

  if (given)
    input_error(error, "%s: expected --schedule with it", given);
  return !given;
}

static gboolean check_options(const Options *o, GError **error)
{
  if (o->drawn.schedule)
    return check_drawn(o, error);
  if (!check_planned(o, error))
    return FALSE;
  if (o->compare)
    return check_compare(o, error);
  if (o->compared)
    return input_error(error, "%s: expected no further argument", o->compared[0]);
  if (!o->plan)
    input_error(error, "--plan: missing: expected a plan file or name, as in --plan gpt3-128");
  return o->plan && drawn_check(o->plots, o->json, error) && exports_check(o->exports, error) &&
         exports_check_paths(o->exports, error) &&
         (!o->report || page_check(o->report, error));
}

static gboolean read_options(int *argc, char ***argv, Options *o, GError **error)
{
  g_autofree char *tools = exports_help("Write the plan");
  const GOptionEntry entries[] = {
    { "model", 'm', 0, G_OPTION_ARG_FILENAME, &o->model, "Model: a file or a name of models/", "M" },
    { "cluster", 'c', 0, G_OPTION_ARG_FILENAME, &o->cluster, "Cluster: a file or a name of hardware/", "C" },
    { "plan", 'p', 0, G_OPTION_ARG_FILENAME, &o->plan, "Plan: a file or a name of plans/", "P" },
    { "gpus", 'g', 0, G_OPTION_ARG_STRING, &o->counts[0], "GPUs, where another tool's file does not say how many", "N" },
    { "seq", 's', 0, G_OPTION_ARG_STRING, &o->counts[1], "Tokens of a sequence, where it does not say", "S" },
    { "global-batch", 'b', 0, G_OPTION_ARG_STRING, &o->counts[2], "Sequences in a step, where it does not say", "B" },
    { "script-args", 0, 0, G_OPTION_ARG_STRING, &o->script_args,
      "What such a script is started with, or which function of a Python file is meant", "\"NAME=VALUE 8B ...\"" },
    { "adapter", 0, 0, G_OPTION_ARG_STRING, &o->adapter,
      "Freeze the weights and train matrices of rank N beside them; qlora: weights in 4 bits (default: the plan's)",
      "lora:r=N[,targets=NAME,NAME]" },
    { "json", 0, 0, G_OPTION_ARG_NONE, &o->json, "Print JSON", NULL },
    { "collectives", 0, 0, G_OPTION_ARG_NONE, &o->collectives, "List every collective with its algorithm", NULL },
    { "ops", 0, 0, G_OPTION_ARG_NONE, &o->ops, "List every operator of each kind of layer with its time", NULL },
    { "explain", 0, 0, G_OPTION_ARG_NONE, &o->explain, "Say what decides the step's time, and every collective", NULL },
    { "compare", 0, 0, G_OPTION_ARG_NONE, &o->compare,
      "Compare the plans given as arguments, instead of --plan", NULL },
    { "ranks", 0, 0, G_OPTION_ARG_STRING, &o->engine.ranks, "Simulate every rank, not one of each stage", "all" },
    { "straggler", 0, 0, G_OPTION_ARG_STRING_ARRAY, &o->engine.stragglers,
      "Slow down a rank (with --ranks all)", "RANK=FACTOR" },
    { "contention", 0, 0, G_OPTION_ARG_NONE, &o->engine.contention, "Let a device's transfers share its links", NULL },
    { "receive-buffers", 0, 0, G_OPTION_ARG_INT, &o->engine.receive_buffers,
      "Buffers for what a stage sends to another", "N" },
    { "draws", 0, 0, G_OPTION_ARG_INT, &o->engine.draws,
      "Draw the step so often, with devices, passes and links that vary", "N" },
    { "operations", 0, 0, G_OPTION_ARG_FILENAME, &o->engine.operations,
      "How much passes and links vary in --draws: a file or a name of hardware/operations/", "O" },
    { "power-limit", 0, 0, G_OPTION_ARG_STRING, &o->power_limit,
      "Watts of a GPU, which lower its clock (default: the device's own)", "W" },
    { "export", 0, 0, G_OPTION_ARG_STRING_ARRAY, &o->exports,
      tools, "TOOL=FILE" },
    { "allow-lossy", 0, 0, G_OPTION_ARG_NONE, &o->lossy, "Export even what the tool cannot fully express", NULL },
    { "schedule", 0, 0, G_OPTION_ARG_FILENAME, &o->drawn.schedule,
      "Draw a schedule alone: its name or a schedule file", "S" },
    { "stages", 0, 0, G_OPTION_ARG_INT, &o->drawn.stages, "Pipeline ranks, with --schedule", "N" },
    { "chunks", 0, 0, G_OPTION_ARG_INT, &o->drawn.chunks, "Chunks of each rank, with --schedule", "N" },
    { "micro-batches", 0, 0, G_OPTION_ARG_INT, &o->drawn.micro, "Micro-batches, with --schedule", "N" },
    { "times", 0, 0, G_OPTION_ARG_STRING, &o->drawn.times,
      "Times of forward, input and weight gradient, with --schedule (1,1,1)", "F,I,W" },
    { "csv", 0, 0, G_OPTION_ARG_FILENAME, &o->csv, "Write every task with its times", "FILE" },
    { "plots", 0, 0, G_OPTION_ARG_FILENAME, &o->plots,
      "Draw timeline and memory, or the comparison; -: in the terminal", "DIR" },
    { "report", 0, 0, G_OPTION_ARG_FILENAME, &o->report, "Write a web page or Markdown", "FILE.html|FILE.md" },
    { "trace", 0, 0, G_OPTION_ARG_FILENAME, &o->trace, "Write a trace of each rank for torch's tools", "DIR" },
    { "trace-merged", 0, 0, G_OPTION_ARG_FILENAME, &o->trace_merged,
      "Write one trace of all stages for Perfetto", "FILE" },
    { G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &o->compared, NULL, "[PLAN...]" },
    G_OPTION_ENTRY_NULL,
  };

  return cli_parse(argc, argv, entries, "Simulates one training plan on a cluster, or compares several.", error) &&
         (o->given = launch_given(o->script_args ? o->script_args : "", error)) != NULL &&
         cli_read_count("--gpus", o->counts[0], 1000, &o->gpus, error) && cli_check_count("--gpus", &o->gpus, error) &&
         cli_read_count("--seq", o->counts[1], 1024, &o->seq, error) && cli_check_count("--seq", &o->seq, error) &&
         cli_read_count("--global-batch", o->counts[2], 1000, &o->batch, error) &&
         cli_check_count("--global-batch", &o->batch, error) &&
         engine_options_check(&o->engine, error) && cli_check_count("--stages", &o->drawn.stages, error) &&
         cli_check_count("--chunks", &o->drawn.chunks, error) &&
         cli_check_count("--micro-batches", &o->drawn.micro, error) &&
         cli_positive("--power-limit", o->power_limit, &o->power_limit_w, error) && check_options(o, error);
}

static gboolean load(Subject *s, const Options *o, GError **error)
{
  static const char *const has[] = { "--gpus", "--seq", "--global-batch", "--script-args", "--model", NULL };
  const LaunchOptions asked = { .gpus = o->gpus, .seq = o->seq, .batch = o->batch,
                                .given = (const char *const *)o->given };
  g_auto(TrainingFile) file = { 0 };

  s->notes = g_ptr_array_new_with_free_func(g_free);
  Model *named = o->model ? cli_load_model(o->model, error) : NULL;
  if ((o->model && !named) || !training_file_read(&file, s->name, named, &asked, error))
    return FALSE;
  s->model = g_steal_pointer(&file.model);
  s->cluster = cli_load_cluster(o->cluster, error);
  return s->cluster && cli_limit_power(s->cluster, o->power_limit_w, error) &&
         training_file_load(&file, s->model, o->adapter, s->cluster, &s->plan, &s->framework, has, s->notes, error) &&
         training_file_told(&file, &asked, &s->plan, error);
}

static gboolean simulate_subject(Subject *s, const Options *o, GError **error)
{
  if (!engine_draw(&o->engine, s->model, s->cluster, &s->plan, &s->draws, error))
    return FALSE;
  s->trace = engine_simulate(&o->engine, s->model, s->cluster, &s->plan, &s->run, error);
  if (!s->trace)
    return FALSE;
  s->result = result_of(s->model, s->cluster, &s->plan, s->trace);
  s->result.slow_ranks = s->run && o->engine.stragglers;
  if (!result_check(&s->result, error))
    return FALSE;
  result_estimate(&s->result, s->accuracy);
  if (s->run)
    s->ranks = report_ranks(s->run, &s->result.layout);
  g_autoptr(GPtrArray) notes = sim_notes(&s->result);
  cli_say_notes(NULL, s->notes); /* which name the file */
  cli_say_notes(o->compare ? s->name : NULL, notes);
  return TRUE;
}

static void print_text(const Options *o, const Subject *s)
{
  const Result *result = &s->result;
  g_autofree char *inputs = report_inputs(result), *summary = report_summary(result);

  say("%s\n%s\n", inputs, summary);
  if (s->draws.count > 0) {
    g_autofree char *draws = report_draws(&s->draws, result->metrics.iteration_s);
    say("%s\n", draws);
  }
  if (s->trace->n_rows > 1) {
    g_autofree char *stages = report_stages(s->trace);
    say("memory of each stage at its peak\n%s\n", stages);
  }
  if (s->cluster->n_types > 0) {
    g_autofree char *placement = report_placement(result, s->trace);
    say("stages and their devices\n%s\n", placement);
  }
  if (drawn_asked(o->plots))
    drawn_step(result, s->trace);
  else
    drawn_timeline(s->trace);
  if (o->explain) {
    g_autofree char *why = report_explain(result, s->trace);
    say("\nWhy\n%s", why);
  }
  if (o->collectives || o->explain) {
    g_autofree char *comm = report_collectives(result, s->trace);
    say("\nCommunication\n%s", comm);
  }
  if (o->ops) {
    g_autofree char *ops = report_ops(result, s->trace);
    say("\nOperators of a micro-batch\n%s", ops);
  }
  if (s->ranks)
    say("\n%s", s->ranks);
}

/* One trace after another: pids of a plan lie behind those of the one before. */
static gboolean write_merged(const Options *o, const Subject *subjects, int n, GError **error)
{
  g_autofree TraceView *views = g_new0(TraceView, n);
  g_auto(GStrv) prefixes = g_new0(char *, n + 1);
  int pid = 0;

  for (int i = 0; i < n; i++) {
    prefixes[i] = o->compare ? g_strdup_printf("%s: ", subjects[i].name) : g_strdup("");
    views[i] = (TraceView) { &subjects[i].result, subjects[i].trace, prefixes[i], TRUE, pid };
    pid += subjects[i].plan.gpus;
  }
  return report_trace_merged(views, n, o->trace_merged, error);
}

static gboolean write_report(const char *path, const Subject *s, GError **error)
{
  g_autofree char *label = plan_label(&s->plan);
  g_autofree char *title = g_strdup_printf("%s on %d devices of %s", s->model->name, s->plan.gpus, s->cluster->name);
  g_autoptr(Page) page = page_new(title, label);

  page_answer(page, &s->result);
  if (s->draws.count > 0) {
    g_autofree char *draws = report_draws(&s->draws, s->result.metrics.iteration_s);
    page_text(page, "Steps as drawn", draws);
  }
  page_step(page, &s->result, s->trace);
  if (s->ranks)
    page_text(page, "Ranks", s->ranks);
  page_inputs(page, &s->result);
  return page_write(page, path, error);
}

static SimBesides besides_of(const Options *o, const Subject *s)
{
  return (SimBesides) { &s->draws, s->run, &o->engine, o->explain, o->collectives, o->ops, s->notes };
}

static gboolean deliver_one(const Options *o, const Subject *s, GError **error)
{
  const TraceView view = { &s->result, s->trace, "", TRUE, 0 };

  if (o->plots && !drawn_asked(o->plots) && !report_plots(&s->result, s->trace, o->plots, 0, error))
    return FALSE;
  if (o->trace && !report_trace_ranks(&view, o->trace, error))
    return FALSE;
  if (o->report && !write_report(o->report, s, error))
    return FALSE;
  if (o->csv) {
    g_autofree char *csv = report_csv(s->trace);
    if (!files_write(o->csv, csv, strlen(csv), error))
      return FALSE;
  }
  if (o->json) {
    const SimBesides besides = besides_of(o, s);
    g_autofree char *document = sim_document(&s->result, s->trace, &besides);
    printf("%s", document);
  } else {
    print_text(o, s);
  }
  fflush(stdout); /* what went wrong stands behind it */
  for (int i = 0; o->exports && o->exports[i]; i++)
    if (!exports_write(o->exports[i], o->lossy, s->model, s->cluster, &s->plan, error))
      return FALSE;
  return TRUE;
}

static void print_documents(const Options *o, const Subject *subjects, int n)
{
  g_autoptr(GString) text = g_string_new(NULL);
  JsonWriter w;

  json_writer_init(&w, text);
  json_open(&w, NULL, '[');
  for (int i = 0; i < n; i++) {
    const SimBesides besides = besides_of(o, &subjects[i]);
    sim_document_put(&subjects[i].result, subjects[i].trace, &besides, &w);
  }
  json_close(&w, ']');
  printf("%s", text->str);
}

static void print_compared(const Compared *plans, const Subject *subjects, int n)
{
  g_autofree char *text = report_compare(plans, n);

  say("%s", text);
  for (int i = 0; i < n; i++)
    if (subjects[i].ranks)
      say("\n%s\n%s", subjects[i].name, subjects[i].ranks);
}

static gboolean deliver_comparison(const Options *o, const Subject *subjects, int n, GError **error)
{
  g_autofree Compared *plans = g_new(Compared, n);

  for (int i = 0; i < n; i++)
    plans[i] = (Compared) { subjects[i].name, &subjects[i].result, subjects[i].trace };
  if (o->plots && !report_compare_plot(plans, n, o->plots, error))
    return FALSE;
  if (o->json)
    print_documents(o, subjects, n);
  else
    print_compared(plans, subjects, n);
  return TRUE;
}

static gboolean run(Subject *subjects, int n, const Options *o, GError **error)
{
  for (int i = 0; i < n; i++)
    if (!load(&subjects[i], o, error) || !simulate_subject(&subjects[i], o, error))
      return FALSE;
  if (o->trace_merged && !write_merged(o, subjects, n, error))
    return FALSE;
  return o->compare ? deliver_comparison(o, subjects, n, error) : deliver_one(o, subjects, error);
}

static void subject_clear(Subject *s)
{
  g_clear_pointer(&s->trace, trace_free);
  g_clear_pointer(&s->ranks, g_free);
  g_clear_pointer(&s->run, rank_run_free);
  g_clear_pointer(&s->framework, framework_free);
  g_clear_pointer(&s->notes, g_ptr_array_unref);
  g_clear_pointer(&s->cluster, cluster_free);
  g_clear_pointer(&s->model, model_free);
}

static void options_clear(Options *o)
{
  char *const strings[] = { o->model, o->cluster, o->plan, o->adapter, o->csv, o->plots, o->trace, o->trace_merged,
                            o->report, o->power_limit, o->drawn.schedule, o->drawn.times, o->script_args,
                            o->counts[0], o->counts[1], o->counts[2] };

  for (gsize i = 0; i < G_N_ELEMENTS(strings); i++)
    g_free(strings[i]);
  g_strfreev(o->compared);
  g_strfreev(o->exports);
  g_strfreev(o->given);
  engine_options_clear(&o->engine);
}

/* Simulates the plans that the options name. */
static int sim_main(const Options *o)
{
  GError *failed = NULL;

  if (o->drawn.schedule)
    return sim_schedule(&o->drawn, o->json, o->report, o->plots, &failed) ? cli_finish("tdp-sim")
                                                                      : cli_fail("tdp-sim", failed);
  int n = o->compare ? (int)g_strv_length(o->compared) : 1;
  g_autofree Subject *subjects = g_new0(Subject, n);
  GError *error = NULL;
  gboolean ok;

  for (int i = 0; i < n; i++)
    subjects[i].name = o->compare ? o->compared[i] : o->plan;
  g_autoptr(Accuracy) accuracy = accuracy_load(&error);
  for (int i = 0; i < n; i++)
    subjects[i].accuracy = accuracy;
  ok = accuracy && run(subjects, n, o, &error);
  for (int i = 0; i < n; i++)
    subject_clear(&subjects[i]);
  return ok ? cli_finish("tdp-sim") : cli_fail("tdp-sim", error);
}

int main(int argc, char **argv)
{
  Options o = { .gpus = CLI_ABSENT, .seq = CLI_ABSENT, .batch = CLI_ABSENT,
                .engine = { .receive_buffers = CLI_ABSENT, .draws = CLI_ABSENT },
                .drawn = { .stages = CLI_ABSENT, .chunks = CLI_ABSENT, .micro = CLI_ABSENT } };
  GError *error = NULL;
  int status;

  cli_numbers();
  g_set_prgname("tdp-sim");
  cli_keep_memory();
  status = read_options(&argc, &argv, &o, &error) ? sim_main(&o) : cli_fail("tdp-sim", error);
  options_clear(&o);
  return status;
}
