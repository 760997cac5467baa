/* What tdp-plan found, for people. */
#include "cli/planning.h"

#include "cli/drawn.h"
#include "cli/say.h"
#include "ask/explain.h"
#include "ask/held.h"
#include "ask/notes.h"
#include "ask/placement.h"
#include "ask/strategy.h"
#include "report/ranking.h"
#include "report/training.h"

#include <stdio.h>

static void print_why(Planning *p, const PlanOptions *o, const SearchOptions *options)
{
  const Result *best = &p->results[0];
  Asked asked = { .model = p->model, .cluster = p->cluster, .options = options };
  g_autofree char *why = explain_choice(p->found, p->results, p->n);
  g_autofree char *comm = report_collectives(best, p->trace);
  g_autofree char *launch = planning_launch(p, o);
  g_autofree char *rule = p->cluster->n_types > 0 ? explain_placement(best, options)
                                                  : strategy_text(&asked, ask_recommended(p->found, p->tie));

  if (stop_heard(options->stop)) {
    g_free(rule);
    rule = g_strdup("Not compared with what else could be done: stopped before that.\n");
  }
  watch_hide(&p->watch);
  planning_note(p, note_recompute(p->model, &best->layout, p->cluster));
  say("\nWhy\n%s\n%s\nCommunication of the best plan\n%s", why, rule, comm);
  if (launch)
    printf("\nTo run it (see --export for the whole script)\n  %s\n", launch); /* to be copied */
}

void planning_print(Planning *p, const PlanOptions *o, const char *layers)
{
  const Trace *trace = p->trace;
  g_autofree char *inputs = report_inputs(&p->results[0]);
  g_autofree char *ranking = report_ranking(p->results, p->n), *summary = report_summary(&p->results[0]);
  g_autofree char *counts = explain_counts(p->found), *tie = explain_tie(p->found, p->results, p->n, p->tie);
  SearchOptions searched = planning_searched(p, o);

  say("%s", inputs);
  if (!p->model->global_batch_size && o->global_batch <= 0)
    say("         (the model gives no global batch: one sequence per GPU is taken; set --global-batch)\n");
  say("\nBest plans\n%s%s\nThe recommended plan\n%s", ranking, tie, summary);
  if (trace->n_rows > 1) {
    g_autofree char *stages = report_stages(trace);
    say("\nmemory of each stage at its peak\n%s", stages);
  }
  if (drawn_asked(o->plots)) {
    say("\nthe step\n");
    drawn_step(&p->results[0], trace);
  }
  if (p->cluster->n_types > 0) {
    g_autofree char *placement = report_placement(&p->results[0], trace);
    say("\nstages and their devices\n%s", placement);
  }
  if (p->tokens > 0) {
    g_autofree char *training = training_text(&p->results[0], p->tokens);
    say("\n%s", training);
  }
  g_autoptr(Answer) held = held_answer(&searched, p->found, &p->results[0]);
  g_autofree char *left = answer_text(held);
  say("\n%s\n%s", counts, left);
  if (p->refined) {
    g_autofree char *refined = refined_text(p->refined, &p->results[0]);
    say("\n%s", refined);
  }
  if (layers)
    say("\n%s", layers);
  searched.tie = p->tie;
  if (o->explain)
    print_why(p, o, &searched);
}
