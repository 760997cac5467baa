#include "cli/improve.h"

#include "ask/explain.h"
#include "ask/improve.h"
#include "base/error.h"
#include "base/files.h"
#include "cli/cli.h"
#include "cli/exports.h"
#include "cli/launch_file.h"
#include "cli/say.h"
#include "cli/watch.h"
#include "export/export.h"
#include "plan/keys.h"
#include "plan/nearest.h"
#include "search/balanced.h"
#include "sim/simulate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
  const PlanOptions *options;
  TrainingFile file; /* the user's */
  const char *path; /* of it */
  char **given;    /* to a script (LaunchOptions) */
  const Launch *launch; /* of it, and its model */
  const Model *model;
  Cluster *cluster;
  Framework *framework;
  Accuracy *accuracy;
  Plan plan;       /* the user's */
  GError *refused; /* why it is none */
  Plan base;       /* of the search of all */
  SearchOptions search;
  NearbyPlans *near;
  SearchResult *found;
  Watch watch;
  Plan chosen;     /* what is written */
  const char *chose;
} Improve;

static void improve_clear(Improve *m)
{
  watch_clear(&m->watch);
  g_strfreev(m->given);
  g_clear_error(&m->refused);
  g_clear_pointer(&m->near, nearby_plans_free);
  g_clear_pointer(&m->found, search_result_free);
  g_clear_pointer(&m->accuracy, accuracy_free);
  g_clear_pointer(&m->framework, framework_free);
  g_clear_pointer(&m->cluster, cluster_free);
  training_file_clear(&m->file);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Improve, improve_clear)

/* ---- reading ---- */

static gboolean load_plan(Improve *m, const LaunchOptions *asked, GError **error)
{
  if (!training_file_plan(&m->file, m->model, &m->plan, &m->framework, error))
    return FALSE;
  if (!training_file_told(&m->file, asked, &m->plan, error))
    return FALSE;
  int whole = m->cluster->devices;
  if (!cluster_resize(m->cluster, m->plan.gpus, error)) {
    g_prefix_error(error, "%s: gpus: ", m->path);
    return FALSE;
  }
  if (m->launch && m->launch->gpus_open && m->cluster->devices < whole)
    g_printerr("tdp-plan: note: %s: does not say how many GPUs it runs on: %d taken, of the %d of %s (--gpus)\n",
               m->path, m->cluster->devices, whole, m->cluster->name);
  if (balance_plan(m->model, m->cluster, &m->plan, &m->refused))
    plan_check(&m->plan, m->model, m->cluster, &m->refused);
  return TRUE;
}

static gboolean load(Improve *m, GError **error)
{
  const PlanOptions *o = m->options;
  double margin, limit_s = 0;

  if (!(m->given = launch_given(o->script_args ? o->script_args : "", error)))
    return FALSE;
  const LaunchOptions asked = { .gpus = o->gpus, .framework = o->framework, .given = (const char *const *)m->given,
                                .seq = o->seq, .batch = o->global_batch };
  Model *named = o->model ? cli_load_model(o->model, error) : NULL;
  if ((o->model && !named) || !training_file_read(&m->file, o->improve, named, &asked, error) ||
      !cli_share("--memory-margin", o->memory_margin, &margin, error) ||
      !cli_positive("--time-limit", o->time_limit, &limit_s, error))
    return FALSE;
  m->path = m->file.path;
  m->launch = m->file.launch;
  m->model = m->file.model;
  watch_init(&m->watch, limit_s);
  m->cluster = cli_load_cluster(o->cluster, error);
  m->accuracy = m->cluster ? accuracy_load(error) : NULL;
  if (!m->accuracy || !load_plan(m, &asked, error))
    return FALSE;
  cluster_keep_free(m->cluster, margin >= 0 ? margin : accuracy_margin(m->accuracy, m->framework->engine));
  return TRUE;
}

/* ---- the search of all ---- */

static void find_best(Improve *m)
{
  m->base = plan_given(m->model, &m->plan);
  m->search = (SearchOptions) { .base = &m->base, .fixed = fixed_none(), .top = 1, .threads = m->options->threads,
                                .least = TRUE, .refine = TRUE, .objective = &objectives[0], .tie = TIE_SHARE,
                                .accuracy = m->accuracy };
  watch_join(&m->watch, &m->search);
  m->found = search(m->model, m->cluster, &m->search, NULL);
}

/* The plan near the user's, unless the best of all gains more than predictions can tell apart; the user's where none
 * runs. */
static void choose(Improve *m)
{
  const GArray *path = m->near->path;
  const Nearby *near = path->len ? &g_array_index(path, Nearby, path->len - 1) : NULL;
  const Found *best = m->found->best->len ? &m->found->robust : NULL;
  double kept_s = near ? near->metrics.iteration_s : m->near->fits ? m->near->metrics.iteration_s : INFINITY;

  m->chosen = near ? near->plan : m->plan;
  m->chose = near ? "the few changes" : "nothing changed";
  if (best && best->metrics.iteration_s < kept_s * (1 - TIE_SHARE)) {
    m->chosen = best->plan;
    m->chose = "the best plan of all";
  }
}

static gboolean any_runs(const Improve *m)
{
  return m->near->path->len > 0 || m->found->best->len > 0 || m->near->fits;
}

static gboolean check_chosen(const Improve *m, GError **error)
{
  if (any_runs(m))
    return TRUE;
  if (m->found->halted)
    return runtime_error(error, "%s: stopped before any plan that fits was found", m->path);
  g_autofree char *why = explain_nothing(m->found, m->model, m->cluster, &m->search);
  return infeasible_error(error, "%s: %s%s", m->path, why, m->launch && m->launch->gpus_open
                          ? "; the file does not say how many it runs on (--gpus)" : "");
}

/* ---- the answer ---- */

static void print_answer(Improve *m)
{
  g_autoptr(Trace) own = m->options->explain && !m->refused ? simulate_plan(m->model, m->cluster, &m->plan) : NULL;
  gboolean changes = m->refused ? any_runs(m) : !plan_same(&m->plan, &m->chosen);
  g_autoptr(Trace) chosen = m->options->explain && changes ? simulate_plan(m->model, m->cluster, &m->chosen) : NULL;
  const Improvement answer = { m->path, m->launch, m->model, m->cluster, m->accuracy, &m->plan,
                               m->refused ? m->refused->message : NULL, m->near, m->found,
                               own, chosen, &m->chosen, m->chose };
  g_autoptr(GString) json = g_string_new(NULL);
  JsonWriter w;

  watch_hide(&m->watch);
  if (m->options->json) {
    json_writer_init(&w, json);
    improvement_write(&answer, &w);
    printf("%s\n", json->str);
  } else {
    g_autofree char *text = improvement_text(&answer);
    say("%s", text);
  }
  fflush(stdout); /* what went wrong stands behind it */
  if (stop_heard(&m->watch.stop))
    g_printerr("tdp-plan: stopped by %s: the answer is partial\n", m->watch.stopped);
}

/* ---- files ---- */

static gboolean edits(const Improve *m, const char *request)
{
  g_autofree char *prefix = m->launch ? g_strdup_printf("%s=", m->launch->tool) : NULL;
  const Exporter *tool = m->launch ? exporter_find(m->launch->tool) : NULL;
  g_autofree char *written = tool ? g_strdup_printf(".%s", tool->extension) : NULL;

  if (!m->launch || !m->launch->editable || !g_str_has_prefix(request, prefix))
    return FALSE;
  gboolean alike = written && g_str_has_suffix(m->path, written); /* else of several in one file one may be asked for alone */
  return !m->launch->named || alike || !g_str_has_suffix(request, written);
}

/* What a changed file says otherwise than the plan, "" if nothing. */
static char *misread(const Improve *m, const char *text)
{
  g_autoptr(GError) error = NULL;
  const LaunchOptions same = { m->plan.gpus, m->framework->name, (const char *const *)m->given, m->plan.seq,
                               m->model->hidden, m->plan.global_batch };
  g_autoptr(Launch) l = launch_read(text, m->path, &same, &error);
  g_autoptr(Framework) framework = NULL;
  Plan plan;

  if (!l || !plan_parse(l->plan, strlen(l->plan), m->path, m->model, &plan, &framework, &error))
    return g_strdup(error->message);
  plan_overlaps_as(&plan, &m->chosen);
  return nearby_change(&m->chosen, &plan);
}

/* How the tool is told a plan. */
static char *told(const Improve *m, const Plan *plan, GError **error)
{
  const Exporter *tool = exporter_find(m->launch->tool);

  if (m->launch->later)
    tool = tool->later;
  return m->launch->whole ? export_plan(tool, m->model, m->cluster, plan, NULL, error)
                          : launch_line(tool, m->model, m->cluster, plan, NULL);
}

static gboolean write_changed(const Improve *m, const char *request, GError **error)
{
  g_autoptr(GPtrArray) notes = g_ptr_array_new_with_free_func(g_free);
  g_autofree char *before = told(m, &m->plan, error);
  g_autofree char *after = before ? told(m, &m->chosen, error) : NULL;
  if (!after)
    return FALSE;
  g_autofree char *changed = launch_change(m->file.text, m->path, (const char *const *)m->given, before, after, notes);
  for (guint i = 0; i < notes->len; i++)
    g_printerr("tdp-plan: note: %s\n", (const char *)notes->pdata[i]);
  g_autofree char *other = misread(m, changed);
  if (*other)
    g_printerr("tdp-plan: note: the written file is not the plan yet, which is to be -> what it says: %s\n", other);
  const char *path = strchr(request, '=') + 1;
  if (!files_write(path, changed, strlen(changed), error))
    return FALSE;
  if (strcmp(path, "-") != 0 && !m->options->json)
    say("\nWritten to %s: %s with %s.\n", path, m->path, m->chose);
  return TRUE;
}

static gboolean write_files(const Improve *m, GError **error)
{
  const PlanOptions *o = m->options;

  for (int i = 0; o->exports && o->exports[i]; i++)
    if (edits(m, o->exports[i]) ? !write_changed(m, o->exports[i], error)
                                : !exports_write(o->exports[i], o->lossy, m->model, m->cluster, &m->chosen, error))
      return FALSE;
  return !o->output || exports_write_plan(&m->chosen, o->output, error);
}

gboolean improve_run(const PlanOptions *options, GError **error)
{
  g_auto(Improve) m = { .options = options };

  if (!load(&m, error) || !plan_options_check_paths(options, error))
    return FALSE;
  m.near = nearby_plans(m.model, m.cluster, &m.plan, &m.watch.stop, options->threads);
  find_best(&m);
  choose(&m);
  print_answer(&m);
  return check_chosen(&m, error) && write_files(&m, error);
}
