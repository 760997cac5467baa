/*
 * Plans that predictions cannot tell from the best.
 *
 * A model with an error of some per cent does not know which of two plans is faster that it predicts within a part of
 * that error. Plans of the space within SearchOptions.tie of the best one's time form a group, and its first is the
 * most robust: the one of which the least is beyond what was measured (accuracy_beyond, where options.accuracy is
 * given), of these the one with the fewest mechanisms that may not do what is expected of them (plan_mechanisms), of
 * these one that needs less memory where that is more than TIE_MEMORY_SAFE of what the cluster's margin leaves of the
 * device's, in steps of TIE_MEMORY_STEP, and of these the fastest. It is found by the bounds of the search, exactly:
 * candidates that these allow to come before the best known are simulated until none is left. Dispatchers that the
 * space leaves out as never faster belong to the group too. Of plans that differ in overlaps alone the one with all of
 * them stands for the others.
 */
#ifndef TDP_SEARCH_TIES_H
#define TDP_SEARCH_TIES_H

#include "search/search_parts.h"

#define TIE_MEMORY_SAFE 0.8
#define TIE_MEMORY_STEP 0.1

/* Once all is settled: sets SearchResult.robust, the first of the group; of a search that was stopped, the best found or
 * the first of those that there was time for. Only where time is the objective, and the only one. */
void search_ties(Search *s);

#endif
