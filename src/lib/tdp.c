#include "lib/tdp.h"

#include "base/error.h"
#include "base/files.h"
#include "cli/cli.h"
#include "cli/launch_file.h"
#include "cli/planning.h"
#include "cli/sim_document.h"
#include "sim/simulate.h"

#include <dlfcn.h>
#include <gsl/gsl_errno.h>
#include <math.h>
#include <string.h>

struct tdp_answer {
  int status;
  char *json, *error;
};

/* A question as it is read. */
typedef struct {
  PlanOptions options;
  double memory_margin, price, tokens, time_limit, power_limit, deadline; /* NAN = not given */
} PlanQuestion;

int tdp_abi(void)
{
  return TDP_ABI;
}

const char *tdp_version(void)
{
  return TDP_VERSION;
}

/* Data are looked for above the library, as programs look above themselves. */
static void set_up(void)
{
  static gsize done;
  Dl_info info;

  if (!g_once_init_enter(&done))
    return;
  gsl_set_error_handler_off();
  if (dladdr((void *)tdp_abi, &info) && info.dli_fname)
    files_set_home(info.dli_fname);
  g_once_init_leave(&done, 1);
}

static tdp_answer *answer_of(char *json, GError *error)
{
  tdp_answer *a = g_new0(tdp_answer, 1);

  a->json = json;
  if (error) {
    a->status = tdp_error_exit_code(error);
    a->error = g_utf8_make_valid(error->message, -1);
    g_error_free(error);
  }
  return a;
}

/* ---- reading ---- */

#define OPTION(member) G_STRUCT_OFFSET(PlanQuestion, options.member)

static const JsonField plan_fields[] = {
  { "model", JSON_ANY, .required = TRUE },
  { "cluster", JSON_ANY, .required = TRUE },
  { "gpus", JSON_INT, OPTION(gpus), FALSE, 1, G_MAXINT },
  { "global_batch_size", JSON_INT, OPTION(global_batch), FALSE, 1, G_MAXINT },
  { "seq_length", JSON_INT, OPTION(seq), FALSE, 1, G_MAXINT },
  { "gpus_from", JSON_INT, OPTION(gpus_from), FALSE, 1, G_MAXINT },
  { "top", JSON_INT, OPTION(top), FALSE, 1, 1000 },
  { "threads", JSON_INT, OPTION(threads), FALSE, 1, 4096 },
  { "framework", JSON_STRING, OPTION(framework) },
  { "precision", JSON_STRING, OPTION(precision) },
  { "adapter", JSON_STRING, OPTION(adapter) },
  { "objective", JSON_STRING, OPTION(objective) },
  { "fix", JSON_STRING, OPTION(fix) },
  { "space", JSON_STRING, OPTION(space) },
  { "question", JSON_STRING, OPTION(question) },
  { "pareto", JSON_STRING, OPTION(pareto) },
  { "why_not", JSON_STRING, OPTION(why_not) },
  { "exact", JSON_BOOL, OPTION(exact) },
  { "explain", JSON_BOOL, OPTION(explain) },
  { "memory_margin", JSON_REAL, G_STRUCT_OFFSET(PlanQuestion, memory_margin), FALSE, 0, 1 },
  { "price", JSON_REAL, G_STRUCT_OFFSET(PlanQuestion, price), FALSE, 0, 1e6 },
  { "tokens", JSON_REAL, G_STRUCT_OFFSET(PlanQuestion, tokens), FALSE, 1, 1e18 },
  { "time_limit", JSON_REAL, G_STRUCT_OFFSET(PlanQuestion, time_limit), FALSE, 0, 1e6 },
  { "power_limit", JSON_REAL, G_STRUCT_OFFSET(PlanQuestion, power_limit), FALSE, 1, 1e5 },
  { "deadline", JSON_REAL, G_STRUCT_OFFSET(PlanQuestion, deadline), FALSE, 1e-3, 1e6 },
  { "spares", JSON_INT, OPTION(spares), FALSE, 0, SPARES_MAX },
  { "operations", JSON_STRING, OPTION(operations) },
};

typedef struct {
  char *adapter;
  double power_limit_w; /* 0 = the device's own */
} SimQuestion;

static const JsonField sim_fields[] = {
  { "model", JSON_ANY, .required = TRUE },
  { "cluster", JSON_ANY, .required = TRUE },
  { "plan", JSON_ANY, .required = TRUE },
  { "adapter", JSON_STRING, G_STRUCT_OFFSET(SimQuestion, adapter) },
  { "power_limit", JSON_REAL, G_STRUCT_OFFSET(SimQuestion, power_limit_w), FALSE, 1, 1e5 },
};

/* The text of a value that is an object; NULL if it is a name or a path. */
static char *inline_text(const cJSON *item)
{
  char *printed = cJSON_IsObject(item) ? cJSON_PrintUnformatted(item) : NULL;
  char *text = g_strdup(printed);

  cJSON_free(printed);
  return text;
}

static gboolean named(const JsonDoc *doc, const cJSON *item, GError **error)
{
  return cJSON_IsString(item) || json_error(doc, item, error, "a name, a path or an object");
}

static Model *read_model(const JsonDoc *doc, GError **error)
{
  const cJSON *item = json_get(json_root(doc), "model");
  g_autofree char *text = inline_text(item);

  if (text)
    return model_parse(text, strlen(text), "model", error);
  return named(doc, item, error) ? cli_load_model(item->valuestring, error) : NULL;
}

static Cluster *read_cluster(const JsonDoc *doc, GError **error)
{
  const cJSON *item = json_get(json_root(doc), "cluster");
  g_autofree char *text = inline_text(item);

  if (text)
    return cluster_parse(text, strlen(text), "cluster", error);
  return named(doc, item, error) ? cli_load_cluster(item->valuestring, error) : NULL;
}

static char *number_text(double value)
{
  return isnan(value) ? NULL : g_strdup_printf("%.17g", value);
}

/* What an option not given is to the program. */
static void set_counts(PlanOptions *o)
{
  int *const counts[] = { &o->gpus, &o->global_batch, &o->seq, &o->gpus_from, &o->top, &o->threads };

  for (gsize i = 0; i < G_N_ELEMENTS(counts); i++)
    *counts[i] = *counts[i] == CLI_ABSENT ? 0 : *counts[i];
}

static gboolean read_question(const JsonDoc *doc, PlanQuestion *q, GError **error)
{
  PlanOptions *o = &q->options;

  plan_options_init(o);
  q->memory_margin = q->price = q->tokens = q->time_limit = q->power_limit = q->deadline = NAN;
  gboolean ok = json_read(doc, json_root(doc), plan_fields, G_N_ELEMENTS(plan_fields), q, error) &&
                plan_options_check(o, error);
  set_counts(o);
  o->memory_margin = number_text(q->memory_margin);
  o->price = number_text(q->price);
  o->tokens = number_text(q->tokens);
  o->time_limit = number_text(q->time_limit);
  o->power_limit = number_text(q->power_limit);
  o->deadline = number_text(q->deadline);
  return ok;
}

/* ---- answering ---- */

static char *planned(Planning *p, const PlanOptions *o, GError **error)
{
  watch_init_deaf(&p->watch, p->time_limit_s);
  if (planning_asks(p, o)) {
    g_autoptr(Answer) a = planning_answer(p, o);
    return planning_answer_json(p, o, a);
  }
  if (o->why_not)
    return planning_why_not(p, o, error) ? planning_why_not_json(p, o) : NULL;
  return planning_find(p, o, error) ? planning_json(p, o) : NULL;
}

tdp_answer *tdp_plan(const char *question)
{
  GError *error = NULL;
  PlanQuestion q = { 0 };
  Planning p;
  char *json = NULL;

  set_up();
  planning_init(&p);
  p.quiet = TRUE;
  g_autoptr(JsonDoc) doc = json_parse(question, strlen(question), "question", &error);
  if (doc && read_question(doc, &q, &error)) {
    p.model = read_model(doc, &error);
    p.cluster = p.model ? read_cluster(doc, &error) : NULL;
    if (p.cluster && planning_prepare(&p, &q.options, &error))
      json = planned(&p, &q.options, &error);
  }
  planning_clear(&p);
  plan_options_clear(&q.options);
  return answer_of(json, error);
}

/* The file of a plan, whose model stays the caller's. */
static gboolean read_named(TrainingFile *file, const char *name, Model *model, GError **error)
{
  const LaunchOptions nothing = { 0 };
  gboolean read = training_file_read(file, name, model, &nothing, error);

  file->model = NULL;
  return read;
}

static char *simulated(const JsonDoc *doc, const char *adapter, Model *model, Cluster *cluster, GError **error)
{
  const cJSON *item = json_get(json_root(doc), "plan");
  g_autofree char *text = inline_text(item);
  g_auto(TrainingFile) file = { 0 };
  g_autoptr(Framework) framework = NULL;
  g_autoptr(GPtrArray) notes = g_ptr_array_new_with_free_func(g_free);
  Plan plan;

  if (text ? !plan_parse(text, strlen(text), "plan", model, &plan, &framework, error) ||
                 !cli_adapter(adapter, model, &plan.adapter, error) ||
                 !cli_fit_plan("plan", model, cluster, &plan, error)
           : !named(doc, item, error) || !read_named(&file, item->valuestring, model, error) ||
                 !training_file_load(&file, model, adapter, cluster, &plan, &framework, NULL, notes, error))
    return NULL;
  g_autoptr(Accuracy) accuracy = accuracy_load(error);
  if (!accuracy)
    return NULL;
  g_autoptr(Trace) trace = simulate_plan(model, cluster, &plan);
  Result result = result_of(model, cluster, &plan, trace);
  result_estimate(&result, accuracy);
  const SimBesides besides = { .notes = notes };
  return result_check(&result, error) ? sim_document(&result, trace, &besides) : NULL;
}

tdp_answer *tdp_simulate(const char *question)
{
  GError *error = NULL;
  SimQuestion q = { 0 };
  char *json = NULL;

  set_up();
  g_autoptr(JsonDoc) doc = json_parse(question, strlen(question), "question", &error);
  if (doc && json_read(doc, json_root(doc), sim_fields, G_N_ELEMENTS(sim_fields), &q, &error)) {
    g_autoptr(Model) model = read_model(doc, &error);
    g_autoptr(Cluster) cluster = model ? read_cluster(doc, &error) : NULL;
    json = cluster && cli_limit_power(cluster, q.power_limit_w, &error)
               ? simulated(doc, q.adapter, model, cluster, &error)
               : NULL;
  }
  g_free(q.adapter);
  return answer_of(json, error);
}

int tdp_status(const tdp_answer *a)
{
  return a ? a->status : 1;
}

const char *tdp_json(const tdp_answer *a)
{
  return a ? a->json : NULL;
}

const char *tdp_error(const tdp_answer *a)
{
  return a ? a->error : NULL;
}

void tdp_free(tdp_answer *a)
{
  if (!a)
    return;
  g_free(a->json);
  g_free(a->error);
  g_free(a);
}
