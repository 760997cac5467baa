/* Why tdp-plan puts stages where it does on a mixed cluster. */
#ifndef TDP_ASK_PLACEMENT_H
#define TDP_ASK_PLACEMENT_H

#include "report/report.h"
#include "search/search.h"

/* The best plan under every order of the node types along the pipeline, with equal
 * and with balanced stages, and the best plan on the nodes of each type alone.
 * Newly allocated text. */
char *explain_placement(const Result *best, const SearchOptions *options);

#endif
