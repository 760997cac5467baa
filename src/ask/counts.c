/* Plans on several numbers of GPUs beside each other: the best of each, and fronts. */
#include "ask/question.h"

#include "base/units.h"
#include "report/training.h"

#include <math.h>

#define COUNT_COLUMNS { "gpus", "GPUs", CELL_INT }, { "iteration_s", "step", CELL_SECONDS }, INTERVAL_COLUMNS, \
                      { "value", "objective", CELL_REAL }, { "objective", NULL, CELL_TEXT }, \
                      { "quantity", NULL, CELL_TEXT }, \
                      { "peak_memory_bytes", "memory", CELL_BYTES }, FIT_COLUMN

static const AnswerColumn count_columns[] = { COUNT_COLUMNS, { "plan", "<plan", CELL_TEXT } };

/* The same with what training on so many tokens takes. */
static const AnswerColumn training_columns[] = {
  COUNT_COLUMNS, { "days", "days", CELL_REAL }, { "gpu_hours", "GPU-hours", CELL_INT }, { "usd", "USD", CELL_INT },
  { "plan", "<plan", CELL_TEXT },
};

static void add_training(Answer *a, const Asked *q, const Found *f)
{
  Training t = { .seconds = NAN, .gpu_hours = NAN };

  if (f) {
    const Layout layout = layout_of(&f->plan);
    t = training_of(&layout, q->cluster, f->metrics.iteration_s, q->tokens);
  }
  answer_add(a, t.seconds / DAY);
  answer_add(a, round(t.gpu_hours));
  answer_add(a, t.usd > 0 ? round(t.usd) : NAN);
}

/* A row; NULL = no plan fits. */
static void add_count(Answer *a, const Asked *q, int gpus, const Found *f)
{
  g_autofree char *label = f ? plan_label(&f->plan) : g_strdup("none fits");
  Result r;

  if (f)
    r = ask_result(q, q->model, f);
  answer_add(a, gpus);
  answer_add(a, f ? f->metrics.iteration_s : NAN);
  answer_add_interval(a, f ? &r : NULL);
  answer_add(a, f ? objective_shown(q->options->objective, f->value) : NAN);
  answer_add_text(a, q->options->objective->title);
  answer_add_text(a, q->options->objective->quantity);
  answer_add(a, f ? f->metrics.peak_memory_bytes : NAN);
  answer_add_fit(a, f ? &r : NULL);
  if (q->tokens > 0)
    add_training(a, q, f);
  answer_add_text(a, label);
}

Answer *answer_counts(const Asked *q, int from)
{
  Answer *a = q->tokens > 0 ? answer_new(training_columns, G_N_ELEMENTS(training_columns))
                            : answer_new(count_columns, G_N_ELEMENTS(count_columns));

  answer_draw(a, -1, 0, 1);
  if (q->options->objective == &objectives[0]) {
    answer_hide(a, "value"); /* the step again */
    g_string_assign(a->says, "The fastest plan for each number of GPUs; ties are not weighed.");
  } else {
    g_string_printf(a->says, "The best plan for each number of GPUs; the objective is %s.",
                    q->options->objective->title);
  }
  if (q->cluster->usd_per_device_hour <= 0)
    answer_hide(a, "usd");
  if (q->tokens > 0) {
    g_autofree char *tokens = format_count(q->tokens);
    g_string_append_printf(a->says, " Days and costs are for training on %s tokens.", tokens);
  }
  for (int gpus = from; gpus <= q->cluster->devices && !stop_asked(q->options->stop); gpus *= 2) {
    Found f;
    gboolean found = ask_best(q->model, q->cluster, q->options, gpus, &f);
    if (!found && stop_heard(q->options->stop))
      break;
    add_count(a, q, gpus, found ? &f : NULL);
  }
  if (stop_heard(q->options->stop))
    g_string_append(a->says, ANSWER_STOPPED);
  return a;
}

static int by_value(gconstpointer a, gconstpointer b)
{
  const Found *x = a, *y = b;

  if (x->value != y->value)
    return x->value < y->value ? -1 : 1;
  return x->second < y->second ? -1 : x->second > y->second;
}

/* The fronts of all numbers of GPUs; what another number beats is still in it. */
static GArray *gather_fronts(const Asked *q, int from)
{
  GArray *all = g_array_new(FALSE, FALSE, sizeof(Found));

  for (int gpus = from; gpus <= q->cluster->devices && !stop_asked(q->options->stop); gpus *= 2) {
    Cluster cluster = *q->cluster;
    Plan base = *q->options->base;
    SearchOptions o = *q->options;
    if (gpus != cluster.devices && !cluster_resize(&cluster, gpus, NULL))
      continue;
    base.gpus = gpus;
    o.base = &base;
    g_autoptr(SearchResult) r = search(q->model, &cluster, &o, NULL);
    g_array_append_vals(all, r->best->data, r->best->len);
  }
  g_array_sort(all, by_value);
  return all;
}

Answer *answer_front(const Asked *q, int from)
{
  const Objective *first = q->options->objective, *second = q->options->second;
  const AnswerColumn columns[] = {
    { first->key, first->title, CELL_REAL, objective_unit(first) },
    { second->key, second->title, CELL_REAL, objective_unit(second) }, INTERVAL_COLUMNS, FIT_COLUMN,
    { "gpus", "GPUs", CELL_INT }, { "plan", "<plan", CELL_TEXT },
  };
  g_autoptr(GArray) all = gather_fronts(q, from);
  double least = INFINITY;

  AnswerColumn *owned = g_memdup2(columns, sizeof columns);
  Answer *a = answer_new(owned, G_N_ELEMENTS(columns));
  a->owned = owned;
  answer_draw(a, -1, 0, 1);
  g_string_printf(a->says, "The Pareto front of %s and %s: no other plan is better in both.", first->name, second->name);
  if (stop_heard(q->options->stop))
    g_string_append(a->says, " Stopped: of the plans that were simulated.");
  for (guint i = 0; i < all->len; i++) {
    const Found *f = &g_array_index(all, Found, i);
    if (f->second >= least)
      continue;
    least = f->second;
    const Result r = ask_result(q, q->model, f);
    g_autofree char *label = plan_label(&f->plan);
    answer_add(a, objective_shown(first, f->value));
    answer_add(a, objective_shown(second, f->second));
    answer_add_interval(a, &r);
    answer_add_fit(a, &r);
    answer_add(a, f->plan.gpus);
    answer_add_text(a, label);
  }
  return a;
}
