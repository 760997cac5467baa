/* tdp-plan: finds the best plans for a model on a cluster and says why. */
#include "base/error.h"
#include "cli/cli.h"
#include "cli/drawn.h"
#include "cli/exports.h"
#include "cli/improve.h"
#include "cli/list.h"
#include "cli/numbers.h"
#include "cli/plan_report.h"
#include "cli/planning.h"
#include "cli/say.h"
#include "ask/layer_strategies.h"
#include "ask/explain.h"
#include "report/front.h"

#include <stdio.h>

static void write_exports(Planning *p, const PlanOptions *o)
{
  for (int i = 0; o->exports && o->exports[i]; i++) {
    GError *error = NULL;
    exports_write(o->exports[i], o->lossy, p->model, p->cluster, &p->chosen, &error);
    planning_unwritten(p, error);
  }
}

static void write_report(Planning *p, const PlanOptions *o)
{
  SearchOptions options = planning_searched(p, o);
  g_autofree char *launch = planning_launch(p, o);
  const PlanReport report = { &options, p->found, p->results, p->n, p->tie, p->trace, launch };
  GError *error = NULL;

  plan_report(&report, o->report, &error);
  planning_unwritten(p, error);
}

static void write_files(Planning *p, const PlanOptions *o)
{
  GError *output = NULL, *plots = NULL;

  if (o->output)
    exports_write_plan(&p->chosen, o->output, &output);
  planning_unwritten(p, output);
  write_exports(p, o);
  if (o->plots && !drawn_asked(o->plots))
    report_plots(&p->results[0], p->trace, o->plots, 0, &plots);
  planning_unwritten(p, plots);
  if (o->report)
    write_report(p, o);
}

static gboolean deliver(Planning *p, const PlanOptions *o, GError **error)
{
  double step_s = p->refined ? p->refined->metrics.iteration_s : p->results[0].metrics.iteration_s;
  g_autofree char *layers = o->layerwise ? explain_layerwise(&p->results[0], step_s, &p->watch.stop, &p->chosen) : NULL;

  watch_hide(&p->watch);
  write_files(p, o);
  if (o->json) {
    g_autofree char *text = planning_json(p, o);
    printf("%s", text);
  } else {
    planning_print(p, o, layers);
  }
  fflush(stdout); /* what went wrong stands behind it */
  if (!p->unwritten)
    return TRUE;
  g_propagate_error(error, g_steal_pointer(&p->unwritten));
  return FALSE;
}

/* A question instead of a plan: its answer alone is printed. That it is no plan is an error as well. */
static gboolean answer(Planning *p, const PlanOptions *o, GError **error)
{
  g_autoptr(Answer) a = planning_answer(p, o);
  g_autofree char *text = o->json ? planning_answer_json(p, o, a) : answer_text(a);

  watch_hide(&p->watch);
  if (stop_heard(&p->watch.stop))
    g_printerr("tdp-plan: stopped by %s: the answer is partial\n", p->watch.stopped);
  say_or_print(o->json, text);
  if (drawn_asked(o->plots) && !answer_is_empty(a))
    drawn_answer(a);
  fflush(stdout); /* what went wrong stands behind it */
  if (answer_is_empty(a)) {
    gboolean stopped = stop_heard(&p->watch.stop);
    g_set_error(error, TDP_ERROR, stopped ? TDP_ERROR_RUNTIME : TDP_ERROR_INFEASIBLE, "nothing was found%s",
                stopped ? " before the stop" : "");
    return FALSE;
  }
  const char *title = p->question ? p->question->title : p->second ? "The Pareto front" : "Numbers of GPUs";
  if (o->report && !plan_report_asked(a, title, p->model->name, p->cluster, o->report, error))
    return FALSE;
  if (!o->plots || drawn_asked(o->plots))
    return TRUE;
  return p->second ? report_front(a, p->objective->title, p->second->title, o->plots, error)
                   : report_front(a, "days", "USD", o->plots, error);
}

/* The best plan with the values of --why-not, beside the one that is recommended without. */
static gboolean why_not(Planning *p, const PlanOptions *o, GError **error)
{
  if (!planning_why_not(p, o, error))
    return FALSE;
  watch_hide(&p->watch);
  if (o->json) {
    g_autofree char *text = planning_why_not_json(p, o);
    printf("%s", text);
    return TRUE;
  }
  g_autofree char *counts = explain_counts(p->asked);
  say("%s", p->why);
  if (p->asked->space > 0)
    say("\n%s", counts);
  return TRUE;
}

static gboolean run(Planning *p, const PlanOptions *o, GError **error)
{
  watch_init(&p->watch, p->time_limit_s);
  if (planning_asks(p, o))
    return answer(p, o, error);
  if (o->why_not)
    return why_not(p, o, error);
  return planning_find(p, o, error) && deliver(p, o, error);
}

int main(int argc, char **argv)
{
  PlanOptions o;
  Planning p;
  GError *error = NULL;
  int status;

  cli_numbers();
  g_set_prgname("tdp-plan");
  cli_keep_memory();
  plan_options_init(&o);
  planning_init(&p);
  if (plan_options_read(&o, &argc, &argv, &error) &&
      (o.list ? list_print(o.list, o.json, &error) : o.improve ? improve_run(&o, &error)
       : planning_prepare(&p, &o, &error) && plan_options_check_paths(&o, &error) && run(&p, &o, &error)))
    status = cli_finish("tdp-plan");
  else
    status = cli_fail("tdp-plan", error);
  planning_clear(&p);
  plan_options_clear(&o);
  return status;
}
