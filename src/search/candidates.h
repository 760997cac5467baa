/* Legal plans of a space with the bounds of each, held small: a whole plan is made
 * again when it is asked for. */
#ifndef TDP_SEARCH_CANDIDATES_H
#define TDP_SEARCH_CANDIDATES_H

#include "search/space.h"

typedef struct {
  gint64 index;        /* place in the space, for ties */
  gint64 family;       /* index of the same plan without the sets of modules behind it */
  double bound_s;
  double memory_bytes; /* lower bound of the peak */
  double value;        /* lower bound of the objective */
  guint group;         /* in Candidates.groups */
  guint entry;         /* in Search.candidates */
  PassChoice pass;     /* and for as many with each of the `after` sets of modules behind its own */
  StateChoice state;
  guint8 switches;     /* overlaps that may be off: it stands for that many plans (variants.h), */
  guint8 behind;       /* its bounds are those of SpaceLeaf.behind */
  guint8 split;        /* its layers have the best split (price_cache_split) */
} Candidate;

typedef struct {
  GArray *groups; /* Plan: without its choices and its split */
  PriceCache *prices; /* not owned */
  ModuleSets sets;
} Candidates;

void candidates_init(Candidates *candidates, PriceCache *prices, const ModuleSets *sets);
void candidates_clear(Candidates *candidates);

/* A leaf that space_walk() visits, in its order; bounds are the caller's to set. */
Candidate candidates_add(Candidates *candidates, const SpaceLeaf *leaf);

/* Orders by value; the earlier one in the space first among equals. */
int candidate_by_bound(gconstpointer a, gconstpointer b);

/* What it stands for but its own set of modules, without bounds; it has more sets behind it. */
Candidate candidate_next(const Candidates *candidates, const Candidate *candidate);

Plan candidate_plan(const Candidates *candidates, const Candidate *candidate);

#endif
