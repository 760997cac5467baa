/*
 * What a search makes least of: step time, the time of a GPU for a token, peak
 * memory, or what a step costs in GPU-hours, money or energy.
 *
 * A value never falls when the step takes longer or the peak grows. So the value
 * of a lower bound of both is a lower bound of the value, and one proof serves
 * every objective. On a fixed number of GPUs all but memory order plans alike;
 * they differ where plans on several numbers of GPUs are compared.
 *
 * Money counts the cluster's usd_per_device_hour, energy the device's power_w for
 * the whole step. To add an objective: a line of the table in objective.c.
 */
#ifndef TDP_SEARCH_OBJECTIVE_H
#define TDP_SEARCH_OBJECTIVE_H

#include "layout/layout.h"

typedef struct {
  const char *name;  /* as on the command line, */
  const char *word;  /* and as people who pay for a training say it; NULL = likewise */
  const char *key;   /* in JSON, with the unit */
  const char *quantity; /* likewise, of what people see */
  const char *title; /* for people, with the unit */
  double (*value)(const Layout *layout, const Cluster *cluster, double step_s, double memory_bytes); /* less is better */
  double shown;      /* what people see is the value times this; negative: this over the value */
  gboolean by_memory; /* the value is of memory */
} Objective;

extern const Objective objectives[]; /* ends with a NULL name; the first is time */

const Objective *objective_find(const char *name); /* or its word */

/* Names of all, "time or days, tokens-per-gpu ...", and names_meant() of them; newly allocated. */
char *objective_list(void);
char *objective_meant(const char *name);

double objective_shown(const Objective *objective, double value);

/* What one of the unit that people see is in the unit of the key. */
double objective_unit(const Objective *objective);

/* Whether the cluster says what the objective needs: TDP_ERROR_INPUT. */
gboolean objective_check(const Objective *objective, const Cluster *cluster, GError **error);

#endif
