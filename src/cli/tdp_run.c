/* tdp-run: executes one plan for real, one process a rank, and reports it beside its prediction. */
#include "base/error.h"
#include "calibrate/speed.h"
#include "cli/cli.h"
#include "cli/run_fingerprint.h"
#include "cli/run_steps.h"
#include "cli/say.h"
#include "exec/control.h"
#include "exec/exec.h"
#include "report/compare.h"
#include "kineto/kineto.h"
#include "report/page.h"
#include "sim/simulate.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#define STALL_S 6 /* and what is predicted for the longest task, twice: nobody sees it get on */

typedef struct {
  char *model, *cluster, *plan, *backend, *check, *tokens, *trace, *trace_merged, *plots, *report, *fault,
      *loss_scale;
  int steps, retake;
  gint64 seed;
  double rate, epsilon, initial_loss_scale, meet_s, tolerance; /* share, 0 = not asked for */
  gboolean json, speed;
} Options;

typedef struct {
  Options options;
  Launch launch;
  Model *model;
  Cluster *cluster;
  Framework *framework;
  Accuracy *accuracy;
  Plan plan;
  Layout layout; /* of the plan */
  PriceTable *prices;
  Program *program;
  Trace *predicted;
  ExecOptions exec_options;
  const BackendKind *backend_kind;
  Backend *backend;
  BackendComm *world;
  Control *control;
  const char *stage; /* for messages, where no step runs */
  LossScaler loss_scaler;
  Exec *exec;
  Speed *speed;     /* NULL = not asked for */
  GMutex watched;   /* of exec: the control channel's thread looks at how far it is */
  GMutex lock;      /* of what follows: a lost rank is reported from another thread */
  GArray *steps;    /* RunStep, finished */
  Trace *measured;  /* of the last of them */
  gboolean reported;
} Run;

static void options_clear(Options *o)
{
  char *const strings[] = { o->model, o->cluster, o->plan, o->backend, o->check, o->tokens, o->trace, o->trace_merged,
                            o->plots, o->report, o->fault, o->loss_scale };

  for (gsize i = 0; i < G_N_ELEMENTS(strings); i++)
    g_free(strings[i]);
}

/* "10%" or 0.1. */
static gboolean read_tolerance(Options *o, GError **error)
{
  char *end = NULL;

  if (!o->check)
    return TRUE;
  o->tolerance = g_ascii_strtod(o->check, &end);
  if (*end == '%') {
    o->tolerance /= 100;
    end++;
  }
  if (end != o->check && !*end && o->tolerance > 0)
    return TRUE;
  return input_error(error, "--check: %s: expected a tolerance above 0, as in --check 10%%", o->check);
}

/* Of the options, or as the precision wants it. */
static gboolean read_loss_scale(const Options *o, DType precision, LossScaler *out, GError **error)
{
  gboolean dynamic = o->loss_scale ? g_str_equal(o->loss_scale, "dynamic") : precision == DTYPE_FP16;
  double initial = o->initial_loss_scale;
  char *end = NULL;

  *out = loss_scaler_dynamic();
  if (!dynamic && initial != out->scale)
    input_error(error, "--initial-loss-scale: %g: expected a dynamic loss scale", initial);
  else if (!(initial >= out->least && isfinite(initial)))
    input_error(error, "--initial-loss-scale: %g: expected at least %g", initial, out->least);
  else if (dynamic)
    out->scale = initial;
  else
    *out = loss_scaler_fixed(o->loss_scale ? g_ascii_strtod(o->loss_scale, &end) : 0);
  if (end && (*end || !(out->scale > 0 && isfinite(out->scale))))
    input_error(error, "--loss-scale: %s: expected dynamic or a number above 0", o->loss_scale);
  return !*error;
}

static gboolean read_options(int *argc, char ***argv, Options *o, GError **error)
{
  const GOptionEntry entries[] = {
    { "model", 'm', 0, G_OPTION_ARG_FILENAME, &o->model, "Model: a file or a name of models/", "M" },
    { "cluster", 'c', 0, G_OPTION_ARG_FILENAME, &o->cluster, "Cluster: a file or a name of hardware/", "C" },
    { "plan", 'p', 0, G_OPTION_ARG_FILENAME, &o->plan, "Plan: a file or a name of plans/", "P" },
    { "backend", 0, 0, G_OPTION_ARG_STRING, &o->backend,
      "What executes: cpu or cuda (the first that is built in)", "B" },
    { "steps", 0, 0, G_OPTION_ARG_INT, &o->steps, "Training steps (10)", "N" },
    { "retake", 0, 0, G_OPTION_ARG_INT, &o->retake,
      "Up to so many more steps, for those in which processors were withheld (0)", "N" },
    { "speed", 0, 0, G_OPTION_ARG_NONE, &o->speed, "Time tdp-calibrate's reference product around each step", NULL },
    { "check", 0, 0, G_OPTION_ARG_STRING, &o->check, "Exit 4 if the step is further from its prediction", "P%" },
    { "seed", 0, 0, G_OPTION_ARG_INT64, &o->seed, "Seed of weights and tokens (1)", "S" },
    { "tokens", 0, 0, G_OPTION_ARG_FILENAME, &o->tokens, "Train on a file of 16-bit tokens", "FILE" },
    { "rate", 0, 0, G_OPTION_ARG_DOUBLE, &o->rate, "Learning rate (0.001)", "R" },
    { "epsilon", 0, 0, G_OPTION_ARG_DOUBLE, &o->epsilon, "Epsilon of AdamW (1e-8)", "E" },
    { "loss-scale", 0, 0, G_OPTION_ARG_STRING, &o->loss_scale,
      "Scale of the loss: a number or dynamic (dynamic in fp16, else none)", "S" },
    { "initial-loss-scale", 0, 0, G_OPTION_ARG_DOUBLE, &o->initial_loss_scale,
      "Dynamic loss scale of the first step (65536)", "S" },
    { "meet", 0, 0, G_OPTION_ARG_DOUBLE, &o->meet_s, "Seconds in which all ranks must have come (8)", "S" },
    { "json", 0, 0, G_OPTION_ARG_NONE, &o->json, "Print JSON", NULL },
    { "trace", 0, 0, G_OPTION_ARG_FILENAME, &o->trace, "Write a trace of each rank for torch's tools", "DIR" },
    { "trace-merged", 0, 0, G_OPTION_ARG_FILENAME, &o->trace_merged,
      "Write one trace, predicted and measured", "FILE" },
    { "plots", 0, 0, G_OPTION_ARG_FILENAME, &o->plots, "Draw the last step, predicted above measured", "DIR" },
    { "report", 0, 0, G_OPTION_ARG_FILENAME, &o->report, "Write a web page or Markdown of the last step",
      "FILE.html|FILE.md" },
    { "fault", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, &o->fault, "Drill: KIND:RANK:TASK", "F" },
    G_OPTION_ENTRY_NULL,
  };

  *o = (Options) { .steps = 10, .seed = 1, .rate = 1e-3, .epsilon = 1e-8, .meet_s = 8,
                   .initial_loss_scale = loss_scaler_dynamic().scale };
  if (!cli_parse(argc, argv, entries, "Executes one training plan, one process a rank.", error))
    return FALSE;
  if (*argc > 1)
    return input_error(error, "%s: expected no further argument", (*argv)[1]);
  if (!o->plan)
    return input_error(error, "--plan: missing: expected a plan file or name, as in --plan tiny-1f1b");
  if (o->seed < 0)
    return input_error(error, "--seed: %" G_GINT64_FORMAT ": expected 0 or more", o->seed);
  if (o->retake < 0)
    return input_error(error, "--retake: %d: expected 0 or more", o->retake);
  if (!(o->meet_s > 0 && isfinite(o->meet_s)))
    return input_error(error, "--meet: %g: expected a number above 0", o->meet_s);
  if (!(o->rate >= 0 && isfinite(o->rate)))
    return input_error(error, "--rate: %g: expected a number, 0 or more", o->rate);
  if (!(o->epsilon > 0 && isfinite(o->epsilon)))
    return input_error(error, "--epsilon: %g: expected a number above 0", o->epsilon);
  return cli_check_count("--steps", &o->steps, error) && read_tolerance(o, error) &&
         (!o->report || page_check(o->report, error));
}

/* KIND:RANK:TASK of a drill; strikes one rank. */
static gboolean read_fault(Run *r, GError **error)
{
  g_auto(GStrv) parts = g_strsplit(r->options.fault ? r->options.fault : "", ":", 3);
  int kind = r->options.fault && g_strv_length(parts) == 3 ? names_find(exec_fault_names, parts[0]) : -1;

  if (r->options.fault && kind < 0)
    return input_error(error, "--fault: %s: expected KIND:RANK:TASK", r->options.fault);
  if (kind >= 0 && (int)g_ascii_strtoll(parts[1], NULL, 10) == r->launch.rank) {
    r->exec_options.fault = kind;
    r->exec_options.fault_at = g_ascii_strtoll(parts[2], NULL, 10);
  }
  return TRUE;
}

static gboolean load(Run *r, GError **error)
{
  const TrainingNames names = { r->options.model, r->options.cluster, r->options.plan };
  g_autoptr(GPtrArray) notes = g_ptr_array_new_with_free_func(g_free);
  g_autofree char *path = NULL;

  r->accuracy = accuracy_load(error);
  if (!r->accuracy ||
      !cli_load_training(&names, &r->model, &r->cluster, &r->plan, &r->framework, &path, notes, error))
    return FALSE;
  if (r->launch.rank == 0)
    cli_say_notes(NULL, notes);
  r->layout = layout_of(&r->plan);
  r->prices = price_table_new(r->model, &r->layout, r->cluster);
  r->program = program_new(r->model, &r->layout, r->cluster, r->prices);
  if (!exec_check(r->model, &r->plan, &r->layout, r->program, error)) {
    g_prefix_error(error, "%s: ", path);
    return FALSE;
  }
  if (!read_loss_scale(&r->options, r->plan.precision, &r->loss_scaler, error))
    return FALSE;
  if (r->plan.gpus == r->launch.size)
    return TRUE;
  return input_error(error, "%s: gpus: %d: expected the %d process%s started (launcher: %s)", path, r->plan.gpus,
                     r->launch.size, r->launch.size == 1 ? "" : "es", r->launch.launcher);
}

static char *report_json(const Run *r, const Side *predicted, const Side *measured, const char *failure)
{
  g_autoptr(GString) text = g_string_new(NULL);
  JsonWriter w;

  json_writer_init(&w, text);
  json_open(&w, NULL, '{');
  json_put_string(&w, "schema", "tdp-run-1");
  if (failure)
    json_put_string(&w, "error", failure);
  json_put_string(&w, "model_file", r->options.model);
  json_put_string(&w, "cluster_file", r->options.cluster);
  run_steps_write(r->steps, measured != NULL, &w);
  if (measured) {
    measured_write_operations(predicted, measured, &w);
    measured_write_device(predicted, measured, &w);
    result_write(predicted->result, predicted->trace, &w, "predicted");
    result_write(measured->result, measured->trace, &w, "measured");
  }
  json_close(&w, '}');
  return g_string_free(g_steal_pointer(&text), FALSE);
}

static char *report_text(const Run *r, const Side *predicted, const Side *measured)
{
  g_autofree char *steps = run_steps_text(r->steps, (double)r->plan.global_batch * r->plan.seq);

  if (!measured)
    return g_strdup(steps);
  g_autofree char *label = plan_label(&r->plan), *table = report_measured(predicted, measured);
  return g_strdup_printf("plan    %s\ndevice  %s: %s\n\n%s\nlast step\n%s", label, r->backend->name, r->backend->device,
                         steps, table);
}

/* All finished steps, whole, in one go. */
static void print_report(Run *r, const char *failure)
{
  Side predicted = { .trace = r->predicted }, measured = { .trace = r->measured };
  Result results[2];

  results[0] = result_of(r->model, r->cluster, &r->plan, r->predicted);
  result_estimate(&results[0], r->accuracy);
  predicted.result = &results[0];
  if (r->measured)
    results[1] = result_of(r->model, r->cluster, &r->plan, r->measured);
  measured.result = &results[1];
  const Side *side = r->measured ? &measured : NULL;
  g_autofree char *text = r->options.json ? report_json(r, &predicted, side, failure)
                                         : report_text(r, &predicted, side);
  say_or_print(r->options.json, text);
  if (r->options.json)
    putchar('\n');
  fflush(stdout);
}

/* Called once, by the thread that watches. A report that is being printed is finished first; behind it this process only
 * ends, so that the lock stays. */
static void last_words(void *data, gboolean reports, const char *message)
{
  Run *r = data;

  fprintf(stderr, "tdp-run: %s\n", message);
  g_mutex_lock(&r->lock);
  if (reports && r->steps && !r->reported)
    print_report(r, message);
  fflush(stdout);
}

static void phase(void *data, char *text, gsize size)
{
  Run *r = data;
  const char *stage = g_atomic_pointer_get(&r->stage);

  g_mutex_lock(&r->watched);
  if (stage || !r->exec)
    g_strlcpy(text, stage ? stage : "its end", size);
  else
    exec_phase(r->exec, text, size);
  g_mutex_unlock(&r->watched);
}

static guint64 progress(void *data)
{
  Run *r = data;

  g_mutex_lock(&r->watched);
  guint64 n = r->exec ? exec_progress(r->exec) : 0;
  g_mutex_unlock(&r->watched);
  return n;
}

static guint64 waits(void *data)
{
  Run *r = data;

  g_mutex_lock(&r->watched);
  guint64 n = r->exec ? exec_waits(r->exec) : 0;
  g_mutex_unlock(&r->watched);
  return n;
}

/* NULL = a step runs. */
static void enter(Run *r, const char *stage)
{
  g_atomic_pointer_set(&r->stage, stage);
}

static void fatal(void *data, const char *message)
{
  Run *r = data;
  char where[128];

  phase(r, where, sizeof where);
  g_autofree char *text = g_strdup_printf("rank %d: %s: %s", r->launch.rank, where, message);
  control_fail(r->control, TDP_ERROR_RUNTIME, text);
}

static gboolean choose_backend(Run *r, GError **error)
{
  for (r->backend_kind = backends; r->backend_kind->name; r->backend_kind++)
    if (!r->options.backend || g_str_equal(r->options.backend, r->backend_kind->name))
      break;
  if (!r->backend_kind->name)
    input_error(error, "--backend: %s: no such backend in this program", r->options.backend);
  else if (r->plan.precision != DTYPE_FP32 && g_str_equal(r->backend_kind->name, "cpu"))
    input_error(error, "plan: precision: %s: expected fp32 on the cpu backend", dtype_names[r->plan.precision]);
  else
    return TRUE;
  return FALSE;
}

static gboolean open_backend(Run *r, GError **error)
{
  char message[EXEC_ERROR_SIZE] = "";
  BackendOptions options = { .rank = r->launch.rank, .size = r->launch.size, .local_rank = r->launch.local_rank,
                             .share = control_share_in_place, .share_data = r->control };

  options.dtype = r->plan.precision == DTYPE_FP32   ? EXEC_F32
                  : r->plan.precision == DTYPE_FP16 ? EXEC_F16
                                                    : EXEC_BF16;
  r->backend = r->backend_kind->open(&options, message);
  if (!r->backend)
    runtime_error(error, "backend %s: %s", r->backend_kind->name, message);
  return r->backend != NULL;
}

static double stall_s(const Program *program)
{
  double longest_s = 0;

  for (guint i = 0; i < program->segments->len; i++)
    longest_s = MAX(longest_s, g_array_index(program->segments, Segment, i).seconds);
  return STALL_S + 2 * longest_s;
}

static void open_control(Run *r)
{
  ControlOptions options = control_options_default(&r->launch);

  options.meet_s = r->options.meet_s;
  options.phase = phase;
  options.progress = progress;
  options.waits = waits;
  options.last_words = last_words;
  options.data = r;
  r->control = control_open(&options);
}

/* Whether this rank was given what rank 0 was. */
static gboolean agree(Run *r, GError **error)
{
  const Options *o = &r->options;
  const Stated stated[] = {
    { "version", g_strdup(TDP_VERSION) },
    { "--backend", g_strdup(r->backend_kind->name) },
    { "--steps", g_strdup_printf("%d", o->steps) },
    { "--retake", g_strdup_printf("%d", o->retake) },
    { "--speed", g_strdup(o->speed ? "yes" : "no") },
    { "--seed", g_strdup_printf("%" G_GINT64_FORMAT, o->seed) },
    { "--rate", g_strdup_printf("%.17g", o->rate) },
    { "--epsilon", g_strdup_printf("%.17g", o->epsilon) },
    { "--loss-scale", g_strdup(o->loss_scale) },
    { "--initial-loss-scale", g_strdup_printf("%.17g", o->initial_loss_scale) },
    { "--tokens", fingerprint_of_file(o->tokens) },
    { "model", g_strdup_printf("%s, digest %.12s", r->model->name, r->model->digest) },
    { "cluster", g_strdup_printf("%s, digest %.12s", r->cluster->name, r->cluster->digest) },
  };
  g_autofree char *own = fingerprint_new(stated, G_N_ELEMENTS(stated), &r->plan);
  g_autoptr(GBytes) first = control_share(r->control, own, r->launch.rank == 0 ? strlen(own) + 1 : 0);

  return r->launch.rank == 0 || fingerprint_check(own, g_bytes_get_data(first, NULL), error);
}

static gboolean start(Run *r, GError **error)
{
  char message[EXEC_ERROR_SIZE] = "";

  r->exec_options = exec_options_default();
  r->exec_options.seed = r->options.seed;
  r->exec_options.tokens = r->options.tokens;
  r->exec_options.rate = r->options.rate;
  r->exec_options.epsilon = r->options.epsilon;
  r->exec_options.scaler = r->loss_scaler;
  r->exec_options.fatal = fatal;
  r->exec_options.data = r;
  r->predicted = simulate_plan(r->model, r->cluster, &r->plan);
  if (!read_fault(r, error) || !choose_backend(r, error))
    return FALSE;
  enter(r, "start, comparing what ranks were given");
  if (!agree(r, error))
    return FALSE;
  enter(r, "start, opening the backend");
  if (!open_backend(r, error))
    return FALSE;
  r->steps = g_array_new(FALSE, FALSE, sizeof(RunStep));
  enter(r, "start, making groups and weights");
  r->world = r->backend->comm_new(r->backend, 0, r->launch.rank, message);
  if (!r->world)
    return runtime_error(error, "%s", message);
  control_watch_stall(r->control, stall_s(r->program));
  Exec *exec = exec_new(r->model, &r->layout, r->program, r->backend, &r->exec_options, error);
  g_mutex_lock(&r->watched);
  r->exec = exec;
  g_mutex_unlock(&r->watched);
  if (exec && r->options.speed && !(r->speed = speed_new(r->backend, r->world)))
    runtime_error(error, "--speed: out of memory");
  return exec && (r->speed || !r->options.speed);
}

/* Steps asked for, then those that stand in for disturbed ones; the same on all ranks. */
static gboolean goes_on(const Run *r)
{
  int n = r->steps->len, wanted = r->options.steps;

  if (n < wanted || n == 0)
    return TRUE;
  return n < wanted + r->options.retake && run_step_means(r->steps).undisturbed < MAX(1, wanted - 1);
}

static void run_steps(Run *r)
{
  double before_s = r->speed ? speed_reference_s(r->speed) : 0;

  while (goes_on(r)) {
    ExecStep step;
    exec_step(r->exec, &step);
    double after_s = r->speed ? speed_reference_s(r->speed) : 0;
    RunStep run = { .step = step, .reference_s = (before_s + after_s) / 2 };
    before_s = after_s;
    Trace *trace = exec_trace(r->exec);
    g_mutex_lock(&r->lock);
    g_array_append_val(r->steps, run);
    g_clear_pointer(&r->measured, trace_free);
    r->measured = trace;
    g_mutex_unlock(&r->lock);
    if (r->launch.rank == 0)
      fprintf(stderr, "step %u of %d%s: loss %.6f, gradient norm %.6f, %.3g s%s\n", r->steps->len,
              MAX(r->options.steps, (int)r->steps->len), (int)r->steps->len > r->options.steps ? ", one more" : "",
              step.loss, step.grad_norm, step.step_s, step.skipped ? ", skipped" : "");
  }
}

static gboolean write_report(const Run *r, const Result *predicted, const Result *measured, GError **error)
{
  const Side sides[] = { { predicted, r->predicted }, { measured, r->measured } };
  g_autofree char *label = plan_label(&r->plan);
  g_autofree char *title = g_strdup_printf("%s on %d rank%s of %s, run", r->model->name, r->plan.gpus,
                                            r->plan.gpus == 1 ? "" : "s", r->cluster->name);
  g_autoptr(Page) page = page_new(title, label);

  page_measured(page, &sides[0], &sides[1]);
  return page_write(page, r->options.report, error);
}

static gboolean write_traces(const Run *r, GError **error)
{
  Result predicted = result_of(r->model, r->cluster, &r->plan, r->predicted);
  Result measured = result_of(r->model, r->cluster, &r->plan, r->measured);
  result_estimate(&predicted, r->accuracy);
  const TraceView views[] = {
    { &predicted, r->predicted, "predicted ", TRUE, 0 },
    { &measured, r->measured, "measured ", FALSE, r->plan.gpus },
  };

  const Compared steps[] = { { "predicted", &predicted, r->predicted }, { "measured", &measured, r->measured } };

  if (r->options.plots && !report_compare_plot(steps, 2, r->options.plots, error))
    return FALSE;
  if (r->options.report && !write_report(r, &predicted, &measured, error))
    return FALSE;
  if (r->options.trace && !report_trace_ranks(&views[1], r->options.trace, error))
    return FALSE;
  return !r->options.trace_merged || report_trace_merged(views, 2, r->options.trace_merged, error);
}

static gboolean check_prediction(const Run *r, GError **error)
{
  double predicted = r->predicted->end_s, measured = run_step_means(r->steps).mean_s, off = predicted / measured - 1;

  if (r->options.tolerance == 0 || ABS(off) <= r->options.tolerance)
    return TRUE;
  g_set_error(error, TDP_ERROR, TDP_ERROR_TOLERANCE,
              "step: predicted %.4g s, measured %.4g s: %+.1f %%, outside %.3g %%",
              predicted, measured, 100 * off, 100 * r->options.tolerance);
  return FALSE;
}

/* Results come from rank 0 alone. */
static int finish(Run *r)
{
  GError *error = NULL;

  if (r->launch.rank > 0)
    return 0;
  g_mutex_lock(&r->lock);
  print_report(r, NULL);
  r->reported = TRUE;
  g_mutex_unlock(&r->lock);
  if (!write_traces(r, &error) || !check_prediction(r, &error))
    return cli_fail("tdp-run", error);
  return cli_finish("tdp-run");
}

static void run_clear(Run *r)
{
  speed_free(r->speed);
  g_mutex_lock(&r->watched);
  Exec *exec = g_steal_pointer(&r->exec);
  g_mutex_unlock(&r->watched);
  exec_free(exec);
  if (r->backend) {
    r->backend->comm_free(r->backend, r->world);
    r->backend->free(r->backend);
  }
  control_close(r->control);
  g_clear_pointer(&r->steps, g_array_unref);
  g_clear_pointer(&r->measured, trace_free);
  g_clear_pointer(&r->predicted, trace_free);
  g_clear_pointer(&r->program, program_free);
  g_clear_pointer(&r->prices, price_table_free);
  g_clear_pointer(&r->framework, framework_free);
  g_clear_pointer(&r->cluster, cluster_free);
  g_clear_pointer(&r->model, model_free);
  g_clear_pointer(&r->accuracy, accuracy_free);
  options_clear(&r->options);
}

/* Ends the run on all ranks. What rank 0 was given, all were given, unless they say otherwise. */
G_NORETURN static void refuse(const Run *r, GError *error)
{
  int code = tdp_error_exit_code(error), rank = r->launch.rank;
  g_autofree char *text = code == TDP_ERROR_RUNTIME && r->launch.size > 1
                            ? g_strdup_printf("rank %d: %s: %s", rank, r->stage, error->message)
                          : rank > 0 ? g_strdup_printf("rank %d: %s", rank, error->message)
                                     : g_strdup(error->message);

  control_fail(r->control, code, text);
}

int main(int argc, char **argv)
{
  Run r = { .stage = "start" };
  GError *error = NULL;
  int status;

  g_set_prgname("tdp-run");
  g_mutex_init(&r.lock);
  g_mutex_init(&r.watched);
  control_catch_signals();
  if (!launch_detect(&r.launch, &error) || !read_options(&argc, &argv, &r.options, &error)) {
    options_clear(&r.options);
    return cli_fail("tdp-run", error);
  }
  open_control(&r);
  enter(&r, "start, reading files");
  if (!load(&r, &error) || !start(&r, &error))
    refuse(&r, error);
  enter(&r, NULL);
  run_steps(&r);
  control_watch_stall(r.control, 0);
  enter(&r, "the report, behind the last step");
  status = finish(&r);
  run_clear(&r);
  return status;
}
