/*
 * The nearest plan that a tool can be told. What it can is in the file of a framework: its rules in plan_check, its
 * schedules, and what it excludes (plan/feature.h). Each key that changes on the way is a loss, "KEY: VALUE: why,
 * written as NEW"; so what is lost follows from that file, and stands nowhere else. Private to src/export.
 */
#ifndef TDP_EXPORT_NEAREST_H
#define TDP_EXPORT_NEAREST_H

#include "export/target.h"

/* Changes `plan`, which is legal, until `own` runs it; its framework stays. FALSE and an error (TDP_ERROR_INFEASIBLE)
 * where nothing but other degrees or another model would do. */
gboolean nearest_plan(Export *e, const Framework *own, Plan *plan, GError **error);

/* Loses each key in which two plans differ; `reason` NULL: it is not in the target. */
void nearest_lose(Export *e, const Plan *before, const Plan *after, const char *reason);

#endif
