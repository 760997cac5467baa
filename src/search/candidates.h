/* Legal plans of a space with the bounds of each, held small: a whole plan is made
 * again when it is asked for. */
#ifndef TDP_SEARCH_CANDIDATES_H
#define TDP_SEARCH_CANDIDATES_H

#include "search/space.h"

typedef struct {
  gint64 index;        /* place in the space, for ties */
  double bound_s;
  double memory_bytes; /* lower bound of the peak */
  double value;        /* lower bound of the objective */
  guint group;         /* in Candidates.groups */
  PassChoice pass;
  StateChoice state;
  guint8 switches;     /* overlaps that may be off: it stands for that many plans (variants.h) */
  guint8 split;        /* its layers have the best split (price_cache_split) */
} Candidate;

typedef struct {
  GArray *groups; /* Plan: without its choices and its split */
  PriceCache *prices; /* not owned */
} Candidates;

void candidates_init(Candidates *candidates, PriceCache *prices);
void candidates_clear(Candidates *candidates);

/* A leaf that space_walk() visits, in its order; bounds are the caller's to set. */
Candidate candidates_add(Candidates *candidates, const SpaceLeaf *leaf);

/* Orders by memory, and by value; the earlier one in the space first among equals. */
int candidate_by_memory(gconstpointer a, gconstpointer b);
int candidate_by_bound(gconstpointer a, gconstpointer b);

Plan candidate_plan(const Candidates *candidates, const Candidate *candidate);

#endif
