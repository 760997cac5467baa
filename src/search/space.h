/*
 * Walking the declared space. A group is what shares degrees and batch; its
 * members differ in sequence parallelism, ZeRO stage, recomputation, schedule
 * and chunks. Rules that the group breaks reject all its members at once.
 * Schedules are those that the framework runs, or the one that is fixed. Where
 * layers do not divide by the stages, the plan gets the best split by time.
 */
#ifndef TDP_SEARCH_SPACE_H
#define TDP_SEARCH_SPACE_H

#include "search/price_cache.h"
#include "search/search.h"

/* A legal plan of the space. */
typedef struct {
  Plan plan;
  gint64 index;   /* place in the space, for ties */
  double bound_s;
  double memory_bytes; /* lower bound of the peak */
  double value;        /* lower bound of the objective */
} Candidate;

/* Appends the legal plans to `candidates`; counts the space and the rejections. */
void space_walk(const Model *model, const Cluster *cluster, const SearchOptions *options, PriceCache *prices,
                SearchResult *counts, GArray *candidates);

#endif
