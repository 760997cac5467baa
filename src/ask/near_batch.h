/* A batch near the one that is asked for, where that does not divide over the devices. */
#ifndef TDP_ASK_NEAR_BATCH_H
#define TDP_ASK_NEAR_BATCH_H

#include "search/search.h"

/* The share of a step's time for each sequence that another batch must save before anybody hears of it. */
#define NEAR_BATCH_SHARE 0.03

/* The most replicas that both the devices and the batch divide over. */
int batch_replicas(int devices, int batch);

/* The nearest number of sequences that divides over more of the devices than `batch` does, and differs from it by at most
 * a sixteenth; 0 = none. Replicas divide the batch, and what does not divide the devices is left to other parallelism. */
int near_batch(int devices, int batch);

/* The best plan with such a batch, where it takes at least NEAR_BATCH_SHARE less time for each sequence than `best`, whose
 * batch is that of options.base; FALSE if there is none, or where not time is asked for. */
gboolean near_batch_best(const Model *model, const Cluster *cluster, const SearchOptions *options, const Found *best,
                         Found *out);

#endif
