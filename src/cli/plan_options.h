/*
 * The command line of tdp-plan, as it was typed: options that were not given are
 * NULL, FALSE or CLI_ABSENT. Reading fails with a GError that names the option;
 * plan_options_clear frees the strings, after a failed reading too.
 */
#ifndef TDP_CLI_PLAN_OPTIONS_H
#define TDP_CLI_PLAN_OPTIONS_H

#include <glib.h>

enum { COUNT_GPUS, COUNT_GPUS_FROM, COUNT_BATCH, COUNT_SEQ, COUNT_OPTIONS };

typedef struct {
  char *model, *cluster, *fix, *space, *output, *plots, *report, *framework, *precision, *adapter;
  char *objective, *pareto, *question, *why_not, *state, *certificate, *tokens, *price, *time_limit, *memory_margin;
  char *operations, *improve, *script_args, *list, *deadline, *power_limit;
  char **exports, **vary, **jobs;
  char *counts[COUNT_OPTIONS]; /* as typed, of the first four of these */
  int gpus, gpus_from, global_batch, seq, top, threads, spares;
  gboolean json, explain, exact, layerwise, refine, verbose, lossy;
} PlanOptions;

void plan_options_init(PlanOptions *o);
void plan_options_clear(PlanOptions *o);

gboolean plan_options_read(PlanOptions *o, int *argc, char ***argv, GError **error);

/* Whether what they ask for goes together, and counts are counts; plan_options_read() has done it. */
gboolean plan_options_check(PlanOptions *o, GError **error);

/* Whether what is to be written can be, as far as that can be told before the search: TDP_ERROR_RUNTIME. */
gboolean plan_options_check_paths(const PlanOptions *o, GError **error);

#endif
