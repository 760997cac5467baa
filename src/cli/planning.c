/* A request to plan, answered. */
#include "cli/planning.h"

#include "cli/exports.h"
#include "ask/explain.h"
#include "ask/near_batch.h"
#include "ask/notes.h"
#include "base/error.h"
#include "base/files.h"
#include "base/units.h"
#include "plan/nearest.h"
#include "sim/simulate.h"

void planning_init(Planning *p)
{
  *p = (Planning) { .fixed = fixed_none(), .notes = g_ptr_array_new_with_free_func(g_free) };
}

void planning_clear(Planning *p)
{
  watch_clear(&p->watch);
  g_clear_pointer(&p->vary, g_array_unref);
  g_clear_pointer(&p->jobs, g_array_unref);
  g_clear_pointer(&p->found, search_result_free);
  g_clear_pointer(&p->asked, search_result_free);
  g_clear_pointer(&p->why, g_free);
  g_clear_error(&p->unwritten);
  g_clear_pointer(&p->refined, polished_free);
  g_clear_pointer(&p->trace, trace_free);
  g_free(p->results);
  g_clear_pointer(&p->accuracy, accuracy_free);
  g_clear_pointer(&p->framework, framework_free);
  g_clear_pointer(&p->cluster, cluster_free);
  g_clear_pointer(&p->model, model_free);
  g_ptr_array_unref(p->notes);
}

void planning_note(Planning *p, char *note)
{
  if (!note)
    return;
  if (!p->quiet)
    g_printerr("tdp-plan: note: %s\n", note);
  g_ptr_array_add(p->notes, note);
}

void planning_unwritten(Planning *p, GError *error)
{
  if (error && p->unwritten) {
    g_printerr("tdp-plan: %s\n", error->message);
    g_error_free(error);
  } else if (error) {
    p->unwritten = error;
  }
}

gboolean planning_asks(const Planning *p, const PlanOptions *o)
{
  return p->question || p->second || o->gpus_from > 0;
}

static SearchOptions search_of(const Planning *p, const PlanOptions *o)
{
  return (SearchOptions) { .base = &p->base, .fixed = p->fixed, .space = p->space,
                           .top = o->top > 0 ? o->top : 5, .threads = o->threads,
                           .over = o->explain || o->report, .least = TRUE, .objective = p->objective,
                           .second = p->second, .accuracy = p->accuracy };
}

SearchOptions planning_searched(const Planning *p, const PlanOptions *o)
{
  SearchOptions options = search_of(p, o);

  options.space |= p->widened;
  return options;
}

/* Why nothing was found, as an error. */
static gboolean no_plan(const Planning *p, const SearchOptions *options, GError **error)
{
  g_autofree char *why = p->found->halted ? NULL : explain_nothing(p->found, p->model, p->cluster, options);

  if (p->found->halted)
    return runtime_error(error, "stopped before any plan that fits was found");
  return infeasible_error(error, "%s", why);
}

/* What the answer leaves out for this model. */
static void say_limits(Planning *p)
{
  const Model *m = p->model;
  const Framework *framework = p->base.framework;

  planning_note(p, note_fixed(&p->fixed, m, NULL));
  for (int i = 0; i < m->n_specs && framework->experts == EXPERTS_WHOLE; i++)
    if (m->specs[i].ffn.experts > 0) {
      planning_note(p, g_strdup_printf("%s divides no experts over ranks: every device holds a share of all "
                                       "experts of %s", framework->name, m->name));
      return;
    }
}

static void set_tie(Planning *p, const PlanOptions *o, SearchOptions *options)
{
  p->tie = options->tie = o->exact || o->refine ? 0 : ask_tie(options);
}

static const Found *recommended(const Planning *p)
{
  return p->tie > 0 ? &p->found->robust : &g_array_index(p->found->best, Found, 0);
}

static Result result_of_found(const Planning *p, const Found *f)
{
  Result r = result_of_metrics(p->model, p->cluster, &f->plan, &f->metrics);

  result_estimate(&r, p->accuracy);
  return r;
}

gboolean planning_why_not(Planning *p, const PlanOptions *o, GError **error)
{
  SearchOptions options = search_of(p, o);

  watch_row(&p->watch);
  watch_join(&p->watch, &options);
  options.top = 1;
  options.refine = TRUE;
  set_tie(p, o, &options);
  p->found = search(p->model, p->cluster, &options, NULL);
  options.fixed = p->why_not;
  options.tie = 0;
  p->asked = search(p->model, p->cluster, &options, NULL);
  if (p->found->best->len == 0)
    return no_plan(p, &options, error);
  gboolean any = p->asked->best->len > 0;
  if (!any && p->asked->halted)
    return runtime_error(error, "stopped before any plan that fits was found with %s", o->why_not);
  if (p->asked->halted)
    watch_say(&p->watch, p->asked);
  p->pair[0] = result_of_found(p, recommended(p));
  if (any)
    p->pair[1] = result_of_found(p, &g_array_index(p->asked->best, Found, 0));
  p->why = explain_why_not(p->found, p->asked, p->pair, any, &options, o->why_not);
  return TRUE;
}

Answer *planning_answer(Planning *p, const PlanOptions *o)
{
  SearchOptions options = search_of(p, o);
  Asked asked = { p->model, p->cluster, &options, p->tokens, p->accuracy, &p->operations, MAX(o->gpus_from, 0),
                  p->deadline_days * 86400, p->vary, p->jobs };
  int from = o->gpus_from > 0 ? o->gpus_from : p->cluster->devices;

  say_limits(p);
  watch_row(&p->watch);
  watch_join(&p->watch, &options);
  options.refine = TRUE;
  if (p->question)
    return p->question->answer(&asked);
  return p->second ? answer_front(&asked, from) : answer_counts(&asked, from);
}

static void write_certificate(Planning *p, const char *path)
{
  GError *failed = NULL;

  if (!path)
    return;
  files_write(path, p->watch.certificate->str, p->watch.certificate->len, &failed);
  planning_unwritten(p, failed);
}

/* Whether states may go to the host where nothing fits. */
static gboolean may_go_to_host(const SearchOptions *options)
{
  return !(options->space & SPACE_OFFLOAD) && options->fixed.value[KEY_OFFLOAD] < 0 && !options->state;
}

/* Plans with states on the host, in place of none; FALSE if none fits. What is certified is the space that has them. */
static gboolean search_on_host(Planning *p, const SearchOptions *options)
{
  SearchOptions wider = *options;

  wider.space |= SPACE_OFFLOAD;
  wider.least = FALSE;
  GString *certificate = p->watch.certificate;
  if (certificate)
    watch_certify(&p->watch, p->cluster->memory_margin);
  g_autoptr(SearchResult) found = search(p->model, p->cluster, &wider, NULL);
  gboolean none = found->best->len == 0 && !found->halted;
  if (certificate)
    g_string_free(none ? p->watch.certificate : certificate, TRUE);
  p->watch.certificate = none ? certificate : p->watch.certificate;
  if (none)
    return FALSE;
  planning_note(p, g_strdup("no plan fits on the GPUs alone, so these plans keep states or activations in host memory or "
                            "on NVMe"));
  g_clear_pointer(&p->found, search_result_free);
  p->found = g_steal_pointer(&found);
  p->widened = SPACE_OFFLOAD;
  return TRUE;
}

/* Where whole layers are made again memory is short, and plans with states on the host may take less: they are the answer
 * only where nothing else fits, as what copies beside passes take is a guess on most machines. */
static void say_host(Planning *p, const SearchOptions *options)
{
  const Found *best = recommended(p);
  SearchOptions wider = *options;
  Found found;

  if (best->plan.recompute != RECOMPUTE_FULL || offload_any(&best->plan.offload) || p->objective->by_memory ||
      !may_go_to_host(options) || !space_can(p->framework, SPACE_OFFLOAD) || stop_heard(options->stop))
    return;
  wider.space |= SPACE_OFFLOAD | SPACE_HOST_ALONE;
  wider.audit = NULL;
  wider.refine = wider.over = wider.tight = wider.least = FALSE;
  wider.known = best->value * (1 - TIE_SHARE);
  if (!ask_best(p->model, p->cluster, &wider, p->cluster->devices, &found) ||
      found.value >= best->value * (1 - TIE_SHARE))
    return;
  planning_note(p, g_strdup_printf("plans with states or activations on the host take %.1f %% less time: --space offload",
                                   100 * (1 - found.metrics.iteration_s / best->metrics.iteration_s)));
}

/* Where only the margin forbids a much faster plan, whoever asks decides. */
static void say_margin(Planning *p)
{
  const Found *best = recommended(p), *tight = &p->found->tight;

  if (!p->found->has_tight)
    return;
  const Result r = result_of_found(p, tight);
  g_autofree char *label = plan_label(&tight->plan), *step = result_step_text(&r);
  g_autofree char *need = format_bytes(tight->metrics.peak_memory_bytes);
  g_autofree char *chance = r.accuracy ? g_strdup_printf(", and fits with a probability of %.0f %%",
                                                         100 * r.estimate.fit_probability) : g_strdup("");
  planning_note(p, g_strdup_printf("the memory margin forbids a plan that takes %.1f %% less time, %s: %s; it needs %s%s: "
                                   "--memory-margin 0", 100 * (1 - tight->metrics.iteration_s / best->metrics.iteration_s),
                                   step, label, need, chance));
}

/* Where the batch does not divide over the GPUs, who chose it may not know what that costs. */
static void say_batch(Planning *p, const SearchOptions *options)
{
  const Found *best = recommended(p);
  Found found;

  if (!near_batch_best(p->model, p->cluster, options, best, &found))
    return;
  const double each = best->metrics.iteration_s / best->plan.global_batch;
  const double less = 1 - found.metrics.iteration_s / found.plan.global_batch / each;
  g_autofree char *label = plan_label(&found.plan);
  planning_note(p, g_strdup_printf("%d sequences divide over no more than %d of the %d GPUs; %d take %.1f %% less time each, "
                                   "with %s: --global-batch %d", best->plan.global_batch,
                                   batch_replicas(p->cluster->devices, best->plan.global_batch), p->cluster->devices,
                                   found.plan.global_batch, 100 * less, label, found.plan.global_batch));
}

/* The plan that is recommended, then the others by their value, but for one in whose place it stands. */
static void set_results(Planning *p, int top)
{
  const GArray *best = p->found->best;
  const Found *first = recommended(p);

  p->results = g_new(Result, best->len + 1);
  p->results[p->n++] = result_of_found(p, first);
  for (guint i = 0; i < best->len && p->n < top; i++) {
    const Found *f = &g_array_index(best, Found, i);
    if (!plan_same(&f->plan, &first->plan) && !found_same_but_offload(f, first))
      p->results[p->n++] = result_of_found(p, f);
  }
}

static void say_search(const Planning *p, const PlanOptions *o)
{
  if (o->verbose)
    g_printerr("search: %.3f s, %" G_GINT64_FORMAT " plans, %" G_GINT64_FORMAT " simulated\n",
               (g_get_monotonic_time() - p->watch.began) / 1e6, p->found->space, p->found->simulated);
}

/* The best plans of the space, or of that with states on the host: of that first where the former is known to hold none. */
static gboolean find_plans(Planning *p, const PlanOptions *o, SearchOptions *options, GError **error)
{
  if (o->certificate)
    watch_certify(&p->watch, p->cluster->memory_margin);
  watch_join(&p->watch, options);
  gboolean goes = may_go_to_host(options), tried = goes && !search_states_fit(p->model, p->cluster, options);
  if (!tried || !search_on_host(p, options)) {
    p->found = search(p->model, p->cluster, options, error);
    if (!p->found)
      return FALSE;
    planning_unwritten(p, g_steal_pointer(&p->found->unkept));
    say_search(p, o);
    if (goes && !tried && p->found->best->len == 0 && !p->found->halted)
      search_on_host(p, options);
  } else {
    say_search(p, o);
  }
  if (p->found->halted)
    watch_say(&p->watch, p->found);
  write_certificate(p, o->certificate);
  return TRUE;
}

gboolean planning_find(Planning *p, const PlanOptions *o, GError **error)
{
  SearchOptions options = search_of(p, o);

  say_limits(p);
  options.refine = options.tight = TRUE;
  options.state = o->state;
  set_tie(p, o, &options);
  if (!find_plans(p, o, &options, error))
    return FALSE;
  if (p->found->best->len == 0)
    return no_plan(p, &options, error);
  set_results(p, options.top);
  for (int i = 0; i < p->n; i++)
    if (!result_check(&p->results[i], error))
      return FALSE;
  p->trace = simulate_plan(p->model, p->cluster, p->results[0].plan);
  trace_parts(p->trace, p->results[0].metrics.critical_row, &p->results[0].parts);
  if (o->refine)
    p->refined = polish_plan(p->model, p->cluster, p->results[0].plan, p->trace, &p->watch.stop, o->threads);
  p->chosen = p->refined ? p->refined->plan : *p->results[0].plan;
  const Layout layout = layout_of(&p->chosen);
  planning_note(p, note_schedule(&layout));
  planning_note(p, note_excluded(p->model, p->cluster, &p->chosen));
  planning_note(p, note_fixed(&p->fixed, p->model, &p->chosen));
  say_host(p, &options);
  say_margin(p);
  say_batch(p, &options);
  return TRUE;
}

char *planning_launch(const Planning *p, const PlanOptions *o)
{
  const Exporter *tool = p->cluster->n_types == 0 ? exporter_of_engine(p->framework->engine, &p->chosen) : NULL;

  return tool ? launch_line(tool, p->model, p->cluster, &p->chosen, exports_file(o->exports, tool)) : NULL;
}
