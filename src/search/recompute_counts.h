/*
 * Counts of recomputed layers for plans that a search has found or turned down.
 *
 * The declared space recomputes whole stages or nothing. Between the two, each
 * stage makes its first N layers again and keeps the others (block, see
 * plan/recompute.h): memory falls and time rises with N, so the best N of a plan
 * is the smallest that fits. Where passes over more than a cache take longer
 * (Device.beyond_l2_bytes_per_s) one layer more may bring a pass back into it,
 * and larger counts are tried as long as their bounds allow. N is looked for from
 * the best plans of the search that recompute, and from the plans without
 * recomputation that memory forbade, those nearest to fitting first; bounds pass
 * over what cannot win. `--fix
 * recompute=full:any` makes the count a dimension of the space instead.
 */
#ifndef TDP_SEARCH_RECOMPUTE_COUNTS_H
#define TDP_SEARCH_RECOMPUTE_COUNTS_H

#include "search/price_cache.h"
#include "search/search.h"

typedef struct {
  const Model *model;
  const Cluster *cluster;
  PriceCache *prices;
  Stop *stop;    /* NULL = none */
  double step_s; /* that must be beaten */
} Refine;

/* Seconds that the plan takes at least with the smallest count of which the bound of memory fits; infinite where there
 * is none, or a rule forbids counts. */
double refine_bound_s(const Refine *refine, const Plan *plan);

/* The plan with the count that fits and takes least time, of several the smallest, if that beats `step_s`; FALSE if
 * there is none, or none was found before a stop. `out` holds plan and metrics. */
gboolean refine_recompute(const Refine *refine, const Plan *plan, Found *out);

#endif
