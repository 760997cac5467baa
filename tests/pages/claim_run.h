/*
 * One run of a claim: a model on a cluster with a plan, or with the best plan
 * of a search, and what the simulation says of it by name.
 *
 *   model, cluster   a name, or an object as in their files
 *   plan             an object as a plan file
 *   search           instead of a plan: what is fixed, as --fix takes it ("" = nothing)
 *   gpus, global_batch_size, seq_length, precision, framework   of a search
 *
 * A plan that breaks a rule has `legal` 0 and no other metric; a search that
 * finds nothing has `found` 0.
 */
#ifndef TDP_TESTS_PAGES_CLAIM_RUN_H
#define TDP_TESTS_PAGES_CLAIM_RUN_H

#include "plan/plan.h"
#include "report/report.h"

typedef struct {
  Model *model;
  Cluster *cluster;
  Framework *framework;
  Plan plan;      /* if done */
  Result result;  /* if done */
  Trace *trace;   /* if done */
  gboolean done;  /* legal, and found */
  char *why;      /* why not, else NULL */
} ClaimRun;

/* TDP_ERROR_INPUT for a file that cannot be understood. */
ClaimRun *claim_run_new(const cJSON *run, GError **error);
void claim_run_free(ClaimRun *run);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ClaimRun, claim_run_free)

/* FALSE if there is no such metric; NAN where the run has none of it. */
gboolean claim_run_metric(const ClaimRun *run, const char *name, double *out);

#endif
