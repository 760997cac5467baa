/* What tests of states elsewhere share: a model of eight blocks on `devices` of a machine with a host and drives, and what
 * a step of it does. */
#ifndef TDP_TESTS_STATED_H
#define TDP_TESTS_STATED_H

#include "planned.h"

typedef struct {
  Metrics m;
  double bytes[TASK_KIND_COUNT]; /* of all tasks of a kind */
  int tasks[TASK_KIND_COUNT];
} StatedRun;

/* planned_clear() after it. */
void stated_init(Planned *f, const char *framework, int devices);
StatedRun stated_run(Planned *f);

/* Parameters of a rank that holds the whole model. */
double stated_params(const Planned *f);

#endif
