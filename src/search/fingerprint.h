/*
 * What tells one search from another: the program itself, all that the files of model, cluster and framework say
 * (json_digest), the plan that the others start from, what is fixed and asked for, and every part of the space with its
 * bounds. A simulation reads nothing else. Newly allocated hexadecimal text.
 */
#ifndef TDP_SEARCH_FINGERPRINT_H
#define TDP_SEARCH_FINGERPRINT_H

#include "search/search.h"

/* `parts`: SpacePart, as they were met. */
char *search_fingerprint(const Model *model, const Cluster *cluster, const SearchOptions *options, const GArray *parts);

#endif
