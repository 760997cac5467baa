/*
 * Passes that were timed. Some notes of case files give the mean time of each
 * stage's passes in microseconds: "fwd us per stage [10572 10598 ...]; bwd us
 * per stage [...]". With these in the program instead of priced ones, what is
 * left of the error is the schedule's and the engine's.
 */
#ifndef TDP_VALIDATE_PASSES_H
#define TDP_VALIDATE_PASSES_H

#include "program/program.h"

typedef struct {
  double *forward_s, *backward_s; /* by stage; NULL = not given */
} TimedPasses;

/* FALSE if the note does not give both for this many stages. */
gboolean timed_passes_init(TimedPasses *passes, const char *note, int stages);
void timed_passes_clear(TimedPasses *passes);

#endif
