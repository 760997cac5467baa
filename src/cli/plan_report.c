#include "cli/plan_report.h"

#include "ask/explain.h"
#include "ask/held.h"
#include "report/page.h"
#include "report/tables.h"

static void add_search(Page *page, const PlanReport *r)
{
  g_autoptr(Answer) held = held_answer(r->options, r->found, &r->results[0]);
  g_autoptr(Table) bounds = answer_table(held);
  g_autofree char *why = explain_choice(r->found, r->results, r->n), *counts = explain_counts(r->found);

  page_text(page, "Why this plan and not the others", why);
  page_text(page, "What was searched", counts);
  if (answer_rows(held) > 0)
    page_table(page, "What the search held fixed", held->says->str, bounds);
}

gboolean plan_report(const PlanReport *r, const char *path, GError **error)
{
  const Result *best = &r->results[0];
  g_autofree char *label = plan_label(best->plan), *tie = explain_tie(r->found, r->results, r->n, r->tie);
  g_autofree char *title = g_strdup_printf("%s on %d devices of %s", best->model->name, best->plan->gpus,
                                           best->cluster->name);
  g_autoptr(Page) page = page_new(title, label);
  g_autoptr(Table) ranking = ranking_table(r->results, r->n);

  page_answer(page, best);
  page_table(page, "Best plans", *tie ? g_strstrip(tie) : NULL, ranking);
  page_step(page, best, r->trace);
  add_search(page, r);
  if (r->launch)
    page_command(page, "To run it", r->launch);
  page_inputs(page, best);
  return page_write(page, path, error);
}

gboolean plan_report_asked(const Answer *answer, const char *title, const char *model, const Cluster *cluster,
                           const char *path, GError **error)
{
  g_autofree char *subtitle = g_strdup_printf("%s on %d devices of %s", model, cluster->devices, cluster->name);
  g_autoptr(Page) page = page_new(title, subtitle);

  page_asked(page, answer);
  return page_write(page, path, error);
}
