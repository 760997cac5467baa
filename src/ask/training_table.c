/* Whole training runs beside one another: on several numbers of GPUs, on a cluster with other numbers. */
#include "ask/training_run.h"

#include "ask/vary.h"
#include "base/units.h"

#include <math.h>

#define RUN_COLUMNS { "days", "days", CELL_REAL }, { "usd", "USD", CELL_INT }, { "days_low", NULL, CELL_REAL }, \
                    { "days_high", NULL, CELL_REAL }, { NULL, "80 % between", CELL_TEXT }, \
                    { "gpu_hours", "GPU-hours", CELL_INT }, { "energy_mwh", "MWh", CELL_INT }, \
                    { "goodput", "goodput", CELL_SHARE }, { "iteration_s", "step", CELL_SECONDS }

static const AnswerColumn count_columns[] = {
  RUN_COLUMNS, { "gpus", "GPUs", CELL_INT }, { "front", "<front", CELL_TEXT }, { "plan", "<plan", CELL_TEXT },
};

static const AnswerColumn varied_columns[] = {
  { "number", "<number", CELL_TEXT }, RUN_COLUMNS, { "days_change", "days, change", CELL_PERCENT },
  { "usd_change", "USD, change", CELL_PERCENT }, { "plan", "<plan", CELL_TEXT },
};

static double known(double value)
{
  return value > 0 ? value : NAN;
}

static void add_run(Answer *a, const Run *r)
{
  const CampaignSummary *s = &r->summary;
  g_autofree char *between = g_strdup_printf("%.1f and %.1f", s->total_low_s / DAY, s->total_high_s / DAY);

  answer_add(a, s->mean.total_s / DAY);
  answer_add(a, known(round(run_usd(r))));
  answer_add(a, s->total_low_s / DAY);
  answer_add(a, s->total_high_s / DAY);
  answer_add_text(a, between);
  answer_add(a, round(run_gpu_hours(r)));
  answer_add(a, known(round(run_joules(r) / MWH)));
  answer_add(a, run_goodput(r));
  answer_add(a, r->result.metrics.iteration_s);
}

/* What is paid for; where there is no price, GPU-hours are. */
static double paid(const Run *r)
{
  return run_usd(r) > 0 ? run_usd(r) : run_gpu_hours(r);
}

/* No other of the runs is both sooner and cheaper. */
static gboolean on_front(const GPtrArray *runs, const Run *r)
{
  for (guint i = 0; i < runs->len; i++) {
    const Run *other = runs->pdata[i];
    if (other != r && other->summary.mean.total_s <= r->summary.mean.total_s && paid(other) <= paid(r))
      return FALSE;
  }
  return TRUE;
}

/* What there is to be least of: energy where that is the objective, else what is paid. */
static double least_of(const Run *r, const Objective *objective)
{
  return g_str_equal(objective->name, "energy") ? run_joules(r) : paid(r);
}

/* The run with the least of it that nine of ten times ends in time, where there is a time. */
static void say_least(GString *says, const Asked *q, const GPtrArray *runs)
{
  const Objective *objective = q->options->objective;
  const char *what = g_str_equal(objective->name, "energy") ? "take the least energy" : "are the cheapest";
  const Run *best = NULL;

  for (guint i = 0; i < runs->len; i++) {
    const Run *r = runs->pdata[i];
    if ((q->deadline_s == 0 || r->summary.total_high_s <= q->deadline_s) &&
        (!best || least_of(r, objective) < least_of(best, objective)))
      best = r;
  }
  if (!best && q->deadline_s > 0)
    g_string_append_printf(says, " None ends within %.4g days with a probability of 90 %%.", q->deadline_s / DAY);
  else if (best && q->deadline_s > 0)
    g_string_append_printf(says, " Of those that end within %.4g days with a probability of 90 %%, %d GPUs %s.",
                           q->deadline_s / DAY, best->result.layout.mesh.ranks, what);
  else if (best && objective != &objectives[0])
    g_string_append_printf(says, " %d GPUs %s.", best->result.layout.mesh.ranks, what);
}

/* A run with one number changed; NULL if none ends. */
static Run *run_varied(const Asked *q, const Varied *v, const Run *first)
{
  Cluster changed = *q->cluster;
  Operations operations = *q->operations;
  Asked asked = *q;

  varied_set(v, &changed, &operations);
  if (varied_plans(v))
    return run_on(q, &changed, changed.devices);
  asked.operations = &operations;
  Cluster *cluster = g_memdup2(q->cluster, sizeof *q->cluster);
  Run *r = g_new(Run, 1);
  if (run_with(&asked, cluster, &first->best, r) == RUN_ENDS)
    return r;
  run_free(r);
  return NULL;
}

/* Leaves out dollars where there is no price. */
static gboolean hide_unpriced(Answer *a, const Asked *q)
{
  gboolean unpriced = q->cluster->usd_per_device_hour <= 0;

  if (unpriced) {
    answer_hide(a, "usd");
    answer_hide(a, "usd_change");
  }
  return unpriced;
}

Answer *answer_training_counts(const Asked *q)
{
  Answer *a = answer_new(count_columns, G_N_ELEMENTS(count_columns));
  g_autoptr(GPtrArray) runs = g_ptr_array_new_with_free_func(run_free);
  g_autofree char *tokens = format_count(q->tokens);

  g_string_printf(a->says, "%s on %s tokens, for each number of GPUs. Rows with front = yes: no other number of GPUs is both "
                           "faster and cheaper%s.", q->model->name, tokens,
                  hide_unpriced(a, q) ? " (by GPU-hours, as there is no price)" : "");
  for (int gpus = q->from; gpus <= q->cluster->devices && !stop_asked(q->options->stop); gpus *= 2) {
    Run *r = run_on(q, q->cluster, gpus);
    if (r)
      g_ptr_array_add(runs, r);
    else if (!stop_heard(q->options->stop))
      g_string_append_printf(a->says, " On %d it fits no plan, or does not end.", gpus);
  }
  for (guint i = 0; i < runs->len; i++) {
    const Run *r = runs->pdata[i];
    g_autofree char *label = plan_label(r->result.plan);
    add_run(a, r);
    answer_add(a, r->result.layout.mesh.ranks);
    answer_add_text(a, on_front(runs, r) ? "yes" : "-");
    answer_add_text(a, label);
  }
  say_least(a->says, q, runs);
  if (stop_heard(q->options->stop))
    g_string_append(a->says, ANSWER_STOPPED);
  return a;
}

static void add_varied(Answer *a, const char *number, const Run *r, const Run *first)
{
  g_autofree char *label = plan_label(r->result.plan);

  answer_add_text(a, number);
  add_run(a, r);
  answer_add(a, r->summary.mean.total_s / first->summary.mean.total_s - 1);
  answer_add(a, run_usd(first) > 0 ? run_usd(r) / run_usd(first) - 1 : NAN);
  answer_add_text(a, label);
}

Answer *answer_training_varied(const Asked *q)
{
  Answer *a = answer_new(varied_columns, G_N_ELEMENTS(varied_columns));
  g_autoptr(GPtrArray) runs = g_ptr_array_new_with_free_func(run_free);
  Run *first = run_on(q, q->cluster, q->cluster->devices);
  g_autofree char *tokens = format_count(q->tokens);

  g_string_printf(a->says, "%s on %s tokens with %d GPUs of %s, one number changed at a time and the best plan "
                           "searched anew; kernels are those measured on its device, prices stay.", q->model->name, tokens,
                  q->cluster->devices, q->cluster->name);
  if (!first) {
    g_string_append(a->says, " As it is it fits no plan, or does not end.");
    return a;
  }
  hide_unpriced(a, q);
  g_ptr_array_add(runs, first);
  add_varied(a, "as it is", first, first);
  for (guint i = 0; i < q->vary->len && !stop_asked(q->options->stop); i++) {
    const Varied *v = &g_array_index(q->vary, Varied, i);
    g_autofree char *number = varied_text(v);
    Run *r = run_varied(q, v, first);
    if (r) {
      g_ptr_array_add(runs, r);
      add_varied(a, number, r, first);
    } else if (!stop_heard(q->options->stop)) {
      g_string_append_printf(a->says, " With %s it fits no plan, or does not end.", number);
    }
  }
  if (stop_heard(q->options->stop))
    g_string_append(a->says, ANSWER_STOPPED);
  return a;
}
