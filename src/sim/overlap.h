/*
 * Which passes may run beside a collective that slows them. Private to src/sim.
 *
 * A pass beside collectives of its own row takes longer the more of it is
 * overlapped, so its end needs their times first. That is possible in one
 * sweep, as long as collectives of one lane wait for passes before it only.
 */
#ifndef TDP_SIM_OVERLAP_H
#define TDP_SIM_OVERLAP_H

#include "program/program.h"

/* A pass that some slowing collectives neither wait for nor are waited for by. */
typedef struct {
  int task;
  int row;
  int first, last; /* those collectives, into SimOverlap.tasks */
} OverlapPass;

typedef struct {
  GArray *tasks;  /* int: of lanes that slow, lane by lane in order */
  GArray *passes; /* OverlapPass, row by row in order */
} SimOverlap;

/* NULL if more than one lane of a row slows its computation. */
SimOverlap *sim_overlap_new(const Program *program);
void sim_overlap_free(SimOverlap *overlap);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimOverlap, sim_overlap_free)

/* By task: the last collective that a pass may run beside, -1 = none. The order of a sweep has it before the pass. */
int *sim_overlap_last(const SimOverlap *overlap, const Program *program);

/* Takes a pass with `left` seconds of work at time `since` through a collective;
 * TRUE if it ends at since + left. Collectives of a lane come in order. */
static inline gboolean overlap_meet(double *since, double *left, double start, double end, double slowdown)
{
  if (end <= *since)
    return FALSE;
  if (start >= *since + *left)
    return TRUE;
  if (start > *since) {
    *left -= start - *since;
    *since = start;
  }
  if (*since + *left * slowdown <= end) {
    *left *= slowdown;
    return TRUE;
  }
  *left -= (end - *since) / slowdown;
  *since = end;
  return FALSE;
}

#endif
