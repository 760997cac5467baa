/*
 * Several plans beside each other: a table, and one picture with a panel
 * a plan on one time axis.
 */
#ifndef TDP_REPORT_COMPARE_H
#define TDP_REPORT_COMPARE_H

#include "report/report.h"

typedef struct {
  const char *name; /* of the plan */
  const Result *result;
  const Trace *trace;
} Compared;

/* One line a plan, and what each plan is. */
char *report_compare(const Compared *plans, int n);

/* compare.svg and .png in `folder` (made if missing), as report_plots. */
gboolean report_compare_plot(const Compared *plans, int n, const char *folder, GError **error);

#endif
