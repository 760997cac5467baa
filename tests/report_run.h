/* Small plans run to their end, for tests of reports. */
#ifndef TDP_TESTS_REPORT_RUN_H
#define TDP_TESTS_REPORT_RUN_H

#include "plan/plan.h"
#include "report/report.h"

/* A plan run on devices whose blocks take 1 s forward and 2 s backward, and
 * whose communication takes no time unless `real`. */
typedef struct {
  Model *model;
  Cluster *cluster;
  Framework *framework;
  Plan plan;
  Plan *kept; /* the same where the result refers to it: a Run is moved */
  Trace *trace;
  Result result;
} Run;

typedef struct {
  int tp, pp, vpp, dp, micro;
  gboolean real;
  const char *schedule; /* NULL = by chunks */
} Shape;

Run run_new(Shape shape);
void run_clear(Run *run);

/* Marks each forward that a backward follows at once as overlapped with it. */
void run_pair(Run *run);

#endif
