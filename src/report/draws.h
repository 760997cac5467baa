/* A step as a distribution: what was drawn, as figures, a line for people and members of a JSON object. */
#ifndef TDP_REPORT_DRAWS_H
#define TDP_REPORT_DRAWS_H

#include "base/json.h"

typedef struct {
  int count;
  double mean_s, deviation_s;
  double p50_s, p95_s, p99_s; /* so many of a hundred steps are at most as long */
} Draws;

/* Sorts the seconds; at least one. */
Draws draws_of(double *seconds, int n);

/* `quiet_s`: the step as it is predicted without draws. Newly allocated. */
char *report_draws(const Draws *draws, double quiet_s);
void draws_put(const Draws *draws, JsonWriter *w); /* as the object "draws" */

#endif
