/* What tells one search from another: program, inputs, objectives, and every
 * plan that it may simulate with its bounds. Newly allocated hexadecimal text. */
#ifndef TDP_SEARCH_FINGERPRINT_H
#define TDP_SEARCH_FINGERPRINT_H

#include "search/search.h"

/* `candidates`: Candidate, as sorted. */
char *search_fingerprint(const Cluster *cluster, const SearchOptions *options, const GArray *candidates);

#endif
