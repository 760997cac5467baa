/*
 * Walking the declared space. A group is what shares degrees and batch; its
 * members differ in sequence parallelism, ZeRO stage, recomputation, schedule
 * and chunks. Rules that the group breaks reject all its members at once.
 */
#ifndef TDP_SEARCH_SPACE_H
#define TDP_SEARCH_SPACE_H

#include "search/search.h"

/* A legal plan of the space. */
typedef struct {
  Plan plan;
  gint64 index;   /* place in the space, for ties */
  double bound_s;
  double memory_bytes; /* lower bound of the peak */
} Candidate;

/* Appends the legal plans to `candidates`; counts the space and the rejections. */
void space_walk(const Model *model, const Cluster *cluster, const SearchOptions *options, SearchResult *counts,
                GArray *candidates);

#endif
