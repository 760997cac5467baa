/*
 * Plans that differ from one in few choices: what a user changes first, and what each change gains.
 *
 * A change sets one choice otherwise: micro-batch, recomputation, sequence parallelism and how it overlaps, chunks of a
 * pipeline rank, ZeRO stage, what runs beside computation, how tokens and sequences are exchanged, the kernels of
 * attention; or moves a factor of two between two degrees. Batch, lengths, formats, optimizer and software stay. Those
 * that are legal, that the software runs, and whose lower bound of time (bound.h) is below the step are simulated.
 *
 * The path starts at the plan and takes the change with the shortest step that fits, again and again, while it gains
 * NEARBY_GAIN of the step, NEARBY_CHANGES at most. From a plan that is not legal, or does not fit, any that does is a
 * gain; where none does, the path takes the change that needs least memory, though it does not fit yet, and is given up
 * if it ends at none that fits. This is local search: what it ends at is legal, fits and is faster, and no more is claimed.
 *
 * To add a change: a function in the table of nearby.c.
 */
#ifndef TDP_SEARCH_NEARBY_H
#define TDP_SEARCH_NEARBY_H

#include "base/stop.h"
#include "plan/plan.h"
#include "trace/trace.h"

#define NEARBY_CHANGES 3
#define NEARBY_GAIN 0.01

typedef struct {
  Plan plan;
  Metrics metrics;
  char *change; /* "recompute full -> none", owned */
} Nearby;

typedef struct {
  gboolean legal, fits; /* the plan itself */
  Metrics metrics;      /* of it, if it is legal */
  StepParts parts;      /* likewise */
  GArray *changes;      /* Nearby: alone, those that fit and gain, the best first */
  GArray *path;         /* Nearby: each from the one before; the last fits, as do all where the plan does */
} NearbyPlans;

/* threads: 0 = one for each processor; what comes out does not depend on it. After a stop (NULL = none) changes are
 * those that were tried by then; the plan's own metrics are always there. */
NearbyPlans *nearby_plans(const Model *model, const Cluster *cluster, const Plan *plan, Stop *stop, int threads);
void nearby_plans_free(NearbyPlans *plans);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(NearbyPlans, nearby_plans_free)

/* The keys in which two plans differ, as "tp 8 -> 4, dp 2 -> 4"; newly allocated. */
char *nearby_change(const Plan *before, const Plan *after);

#endif
