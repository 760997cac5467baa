/* What tdp-plan found as one document (report/page.h). */
#ifndef TDP_CLI_PLAN_REPORT_H
#define TDP_CLI_PLAN_REPORT_H

#include "report/answer.h"
#include "report/report.h"
#include "search/search.h"

/* Nothing is owned. */
typedef struct {
  const SearchOptions *options;
  const SearchResult *found;
  const Result *results; /* the recommended plan, then the others */
  int n;
  double tie;            /* SearchOptions.tie */
  const Trace *trace;    /* of the first */
  const char *launch;    /* the line that runs it elsewhere, NULL = none */
} PlanReport;

/* The answer to a question about a model on a cluster, `title` in words, which is asked of `devices`. */
gboolean plan_report_asked(const Answer *answer, const char *title, const char *model, const Cluster *cluster,
                           const char *path, GError **error);

/* `path` is one that page_check() accepts. */
gboolean plan_report(const PlanReport *report, const char *path, GError **error);

#endif
