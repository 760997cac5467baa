/* A step in which every rank had its own clock, as a table: one line a stage. */
#ifndef TDP_REPORT_RANKS_H
#define TDP_REPORT_RANKS_H

#include "base/json.h"
#include "sim/ranks.h"

/* Time in passes of the stage's ranks, least, mean and most, and the rank with the most. Newly allocated. */
char *report_ranks(const RankRun *run, const Layout *layout);

/* The same as the object `ranks`, with those that were slowed down. */
void report_ranks_write(const RankRun *run, const Layout *layout, const Straggler *stragglers, int n_stragglers,
                        JsonWriter *writer);

#endif
