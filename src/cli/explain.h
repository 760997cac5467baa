/* What tdp-plan says of a search: counts, why the winner won, what to do when nothing fits. */
#ifndef TDP_CLI_EXPLAIN_H
#define TDP_CLI_EXPLAIN_H

#include "report/report.h"
#include "search/search.h"

/* All newly allocated text. */
char *explain_counts(const SearchResult *found);
char *explain_choice(const SearchResult *found, const Result *results, int n);

/* One line: why no plan fits and the cheapest change found that makes one fit. */
char *explain_nothing(const SearchResult *found, const Model *model, const Cluster *cluster,
                      const SearchOptions *options);

#endif
