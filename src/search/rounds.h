/*
 * Simulations of a search, a round of them side by side, so many on each thread as
 * there are; the journal answers for what it knows. What comes out does not depend
 * on the number of threads.
 */
#ifndef TDP_SEARCH_ROUNDS_H
#define TDP_SEARCH_ROUNDS_H

#include "search/journal.h"
#include "search/price_cache.h"
#include "search/search.h"

/* Plans simulated at once between updates of the incumbent; fixed, so that the
 * counts do not depend on threads. */
#define ROUND 8

/*
 * A simulated plan, with what bounds its variants: the same work with other
 * precedence (variants.h). `slack_s` is what the step took longer than its longest
 * path with passes as long as by themselves. The other two are what a step gains at most, beside that, where
 * gradients are reduced in whole chunks or parameters gathered in one call at its
 * end, as they are without overlap: one call never takes longer than its pieces.
 */
typedef struct {
  Plan plan;
  gint64 index; /* in the space */
  Metrics metrics; /* critical_row is -1 if only the time of the step and the peak are known */
  double slack_s, gradients_s, parameters_s;
  gboolean done;  /* FALSE: a stop came first, and nothing is known of it */
  gboolean keeps; /* asked for: the trace */
  Trace *trace;   /* the caller's to free; NULL if not kept */
} Simulation;

typedef struct Rounds Rounds;

/* Neither model, cluster, prices, journal, what was simulated (Simulation) nor stop is owned; these three may be NULL.
 * threads: 0 = one for each processor; no more are started than a round has simulations, and where none can be, the
 * caller's own does the work. */
Rounds *rounds_new(const Model *model, const Cluster *cluster, PriceCache *prices, Journal *journal, const GArray *simulated,
                   Stop *stop, int threads);
void rounds_free(Rounds *rounds);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Rounds, rounds_free)

/* Fills in what the plans of `n` simulations come to, at most ROUND; of those that a stop leaves no time for, nothing. */
void rounds_run(Rounds *rounds, Simulation *simulations, int n);

/* One, in full, whatever the journal knows. `prices` are the plan's own. */
void simulation_complete(const Model *model, const Cluster *cluster, const PriceTable *prices, Simulation *simulation);

/* What a plan comes to: as it is among those that were simulated (Simulation), or simulated now and added to them. */
const Metrics *simulation_among(GArray *simulated, const Model *model, const Cluster *cluster, const Plan *plan);

/* A place in a list of proposals and the plan's bound: the lowest first, of equal ones the first. */
typedef struct {
  double bound_s;
  guint at;
} Ranked;
int ranked_by_bound(gconstpointer a, gconstpointer b);

#endif
