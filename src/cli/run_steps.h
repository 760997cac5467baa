/*
 * The steps that tdp-run made: their mean, and that of the undisturbed ones, in
 * which no rank lacked its processor for more than a few percent of the time
 * (ExecStep's withheld). The first step warms up and counts only if it is alone.
 */
#ifndef TDP_CLI_RUN_STEPS_H
#define TDP_CLI_RUN_STEPS_H

#include "base/json.h"
#include "exec/exec.h"

typedef struct {
  ExecStep step;
  double reference_s; /* of the product before and behind it (calibrate/speed.h); 0 = not timed */
} RunStep;

typedef struct {
  int all, undisturbed; /* that count */
  double mean_s, undisturbed_s; /* undisturbed_s is 0 if there are none */
  double withheld;      /* mean share; -1 = not known */
} StepMeans;

/* Of RunStep, at least one. */
StepMeans run_step_means(const GArray *steps);

/* A table for people, with the tokens of a step; newly allocated. */
char *run_steps_text(const GArray *steps, double tokens);

/* "steps", how many were skipped where the loss is scaled, then, if `means`, what rank 0 moved and made again in the
 * last step beside what the program says, and the means. */
void run_steps_write(const GArray *steps, gboolean means, JsonWriter *writer);

#endif
