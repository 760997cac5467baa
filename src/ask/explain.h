/* What tdp-plan says of a search: counts, why the winner won, what to do when nothing fits. */
#ifndef TDP_ASK_EXPLAIN_H
#define TDP_ASK_EXPLAIN_H

#include "report/report.h"
#include "search/search.h"

/* All newly allocated text. */
char *explain_counts(const SearchResult *found);
void explain_write_counts(const SearchResult *found, JsonWriter *writer); /* into the object that is open */

/* Which of the plans that tie with the best comes first, and what that costs; "" where the best itself does, or none was
 * asked for. */
char *explain_tie(const SearchResult *found, const Result *results, int n, double tie);

char *explain_choice(const SearchResult *found, const Result *results, int n);

/* What keeps the next faster plan from being taken, as the object `limit`: memory with what that plan needs, or none. */
void explain_write_limit(const SearchResult *found, const Result *best, JsonWriter *writer);

/* Why plans with the values of --why-not, which the options of the search for `asked` fix, lost or were rejected. pair[0]
 * is what is recommended of all that was `found`, pair[1] the fastest with these values if one `fits`. */
char *explain_why_not(const SearchResult *found, const SearchResult *asked, const Result pair[2], gboolean fits,
                      const SearchOptions *options, const char *values);

/* What the model lacks of what is fixed, as "gpt3 has no experts"; NULL = nothing. */
char *explain_lacking(const Model *model, const Fixed *fixed);

/* A rule's message in the names of --fix. */
char *explain_rule(const char *message);

/* Why no plan at all has what is fixed, in the names of --fix: what the model lacks, what does not divide, the rule that
 * plans with it break last and which of their degrees nobody fixed, or that the search tries none. */
char *explain_empty(const Model *model, const Cluster *cluster, const SearchOptions *options);

/* One line: why no plan fits and the cheapest change found that makes one fit. */
char *explain_nothing(const SearchResult *found, const Model *model, const Cluster *cluster,
                      const SearchOptions *options);

#endif
