/*
 * Plans that differ in nothing but what runs beside computation: each overlap that
 * the framework has, and that means something for the plan, on or off.
 *
 * A candidate stands for all its variants: its bounds hold for every one, since an
 * overlap that is off adds to the bound of time and nothing to that of memory. The
 * overlap of tensor parallelism may slow computation by more than it hides; then the
 * bound of time is the lesser of those with it and without.
 * Once one has been simulated, it bounds those that overlap less. These wait for
 * all that it waits for, and do the same work, but for data-parallel collectives
 * that are one call instead of pieces. So they take no less than the longest path
 * through its step on which passes are as long as by themselves, but for these:
 *
 * Gradients. A path ends in reductions of one row. Its passes run up to some piece,
 * then come the pieces from that one on; without overlap all passes come first and
 * the whole call behind them, so that a path loses at most what the pieces take more
 * than one call. Where each micro-batch is reduced, a path may lose it in every row.
 *
 * Parameters, where they are gathered once a step. A path begins with the gathers of
 * one row. Without overlap each row has them behind the optimizer, and the last of
 * them ends the step: a path loses at most the pieces of one row, and gains the
 * shortest call of any. ZeRO-3 only gathers later, which loses nothing.
 *
 * tests/test_search_variants.c compares these bounds with simulations of all variants.
 */
#ifndef TDP_SEARCH_VARIANTS_H
#define TDP_SEARCH_VARIANTS_H

#include "search/candidates.h"
#include "search/rounds.h"

/* How many plans these switches make. */
static inline int variant_count(guint switches)
{
  return 1 << __builtin_popcount(switches);
}

/* Of Simulation, what bounds others. */
typedef struct {
  double step_s, slack_s, gradients_s, parameters_s;
} VariantTimes;

/* A candidate of which the first variant, with all overlaps on, is settled. */
typedef struct {
  Candidate base;
  Plan plan;
  gboolean tensor_slower; /* without the tensor overlap passes never take less, and run in the same order */
  guint settled;          /* bit `off` of each variant */
  VariantTimes known[VARIANTS_MAX]; /* by `off`, those that were simulated */
  guint simulated;        /* bit `off` of each of them */
  double order_s[VARIANTS_MAX]; /* by `off`: bound_time_by_order(), 0 = not asked for */
} Variants;

Variants variants_of(PriceCache *prices, const Candidate *base, const Plan *plan);

/* Whether it is settled, or no variant of these. */
gboolean variant_settled(const Variants *variants, guint off);

/* Whether one that overlaps more is yet to be settled. */
gboolean variant_waits(const Variants *variants, guint off);

/* Whether any is yet to be settled. */
gboolean variants_open(const Variants *variants);

/* Notes a simulation. */
void variant_known(Variants *variants, guint off, const Simulation *simulated);

/* Place in the space of a variant. */
gint64 variant_index(const Variants *variants, guint off);

/* The longest lower bound of its time that simulated ones give, and bounds by order of those that it has no overlap
 * more than: without that of the pipeline passes only wait longer, and by order they take no less where they do not
 * alone. 0 if there is none. */
double variant_bound(const Variants *variants, guint off);

#endif
