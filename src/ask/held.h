/*
 * What a search held fixed, and what freeing it might gain at most: of any plan, and of the best one as it is.
 *
 * The bounds come from the search itself, without another one. What frees memory gains at most until the passes of the
 * least plan take all of the step, whether that fits or not; what communicates otherwise, until the computation of the
 * least plan that may fit does; schedules and cuts, that of the least plan at all (floors in search.h, which leave out
 * micro-batches of which one layer fits no device). What changes kernels, or is fixed by --fix, gains no more than all
 * arithmetic at the peak would.
 *
 * To add a dimension: a line of the table in held.c.
 */
#ifndef TDP_ASK_HELD_H
#define TDP_ASK_HELD_H

#include "report/answer.h"
#include "report/report.h"
#include "search/search.h"

/* A line for each, the largest gain first; none of a search that was stopped on its way through the space. */
Answer *held_answer(const SearchOptions *options, const SearchResult *found, const Result *best);

#endif
