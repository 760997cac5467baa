/*
 * A request to plan, as tdp-plan and libtdp take it: what it asks for, what was
 * found, and the documents that answer it. The programs print them, or say the
 * same in words.
 */
#ifndef TDP_CLI_PLANNING_H
#define TDP_CLI_PLANNING_H

#include "ask/question.h"
#include "ask/refined.h"
#include "cli/plan_options.h"
#include "cli/watch.h"
#include "search/search.h"

typedef struct {
  Model *model;
  Cluster *cluster;
  Framework *framework;
  Accuracy *accuracy;
  Plan base;
  Fixed fixed, why_not; /* why_not: what --why-not asks for, with --fix */
  guint space;          /* SpaceExtra */
  const Objective *objective, *second; /* second: of --pareto */
  const Question *question;
  double tokens, price, time_limit_s, power_limit_w; /* 0 = not given */
  double memory_margin;               /* -1 = not given */
  Operations operations;
  double deadline_days; /* 0 = not given */
  GArray *jobs;         /* Job; NULL = not given */
  GArray *vary;         /* Varied; NULL = not given */
  SearchResult *found;
  guint widened; /* SpaceExtra that the search took by itself, as nothing fits without */
  double tie; /* SearchOptions.tie */
  Result *results; /* the recommended plan, then the others by their value */
  int n;
  Trace *trace;      /* of the first of the results */
  Polished *refined; /* NULL = not asked for */
  Plan chosen;       /* what is written and exported */
  SearchResult *asked; /* with --why-not: what was found with its values */
  Result pair[2];      /* and the recommended plan, the best with them */
  char *why;
  GError *unwritten; /* the first file that was not: said behind the report */
  GPtrArray *notes;  /* char *: what else there is to know of the answer */
  gboolean quiet;    /* notes are not printed */
  Watch watch;
} Planning;

void planning_init(Planning *planning);
void planning_clear(Planning *planning);

/* Loads and checks what the options name, before anything is searched; a model and a cluster that are there stay. */
gboolean planning_prepare(Planning *planning, const PlanOptions *options, GError **error);

/* Whether the answer is to a question, a front or numbers of GPUs; else it is plans, or to --why-not. */
gboolean planning_asks(const Planning *planning, const PlanOptions *options);

/* The search that answers, as the options ask for it, with the space that the plans were found in. */
SearchOptions planning_searched(const Planning *planning, const PlanOptions *options);

/* Finds the plans; TDP_ERROR_INFEASIBLE says why there is none. The watch was begun. */
gboolean planning_find(Planning *planning, const PlanOptions *options, GError **error);

/* Answers what planning_asks() tells of, or --why-not. */
Answer *planning_answer(Planning *planning, const PlanOptions *options);
gboolean planning_why_not(Planning *planning, const PlanOptions *options, GError **error);

/* The same as JSON documents, each ending in a newline: plan_documents.c. Newly allocated. */
char *planning_json(const Planning *planning, const PlanOptions *options);
char *planning_answer_json(const Planning *planning, const PlanOptions *options, const Answer *answer);
char *planning_why_not_json(const Planning *planning, const PlanOptions *options);

/* The report for people: plan_text.c. `layers` may be NULL. */
void planning_print(Planning *planning, const PlanOptions *options, const char *layers);

/* The command that starts the plan that --export writes, which is the refined one with --refine, of the file that is
 * written for its framework's tool if there is one; newly allocated, NULL where no tool takes it. */
char *planning_launch(const Planning *planning, const PlanOptions *options);

/* Keeps a note, and says it on stderr unless the planning is quiet; takes it, NULL = none. */
void planning_note(Planning *planning, char *note);

/* Keeps the first error of files for the end, and says the others: what was found is told in any case. */
void planning_unwritten(Planning *planning, GError *error);

#endif
