/* One row of a case file as a model, a plan, a framework and a cluster. */
#ifndef TDP_VALIDATE_CASE_H
#define TDP_VALIDATE_CASE_H

#include "base/csv.h"
#include "plan/plan.h"

typedef struct {
  Model *model;
  Framework *framework;
  Cluster *cluster;
  Plan plan;
} Case;

/* Every column that is read must be there. */
gboolean case_check_columns(const Csv *csv, GError **error);

/* Reads row `row`. FALSE with an error on bad input; TRUE with `skipped` set
 * (newly allocated) where the row needs what is not simulated or leaves open. */
gboolean case_init(Case *c, const Csv *csv, int row, char **skipped, GError **error);
void case_clear(Case *c);

#endif
