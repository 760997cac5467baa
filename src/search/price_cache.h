/*
 * Prices of the plans of a search, each distinct set made once, and ops that sets have in common (cost/op_times.h).
 * What is remembered is known again by all that it was made of: prices by the plan's PassLayout, of which alone they
 * are made. So what comes back is a function of the plan, to the last bit, whatever was asked before
 * (tests/test_search_prices.c). Not thread-safe; prices and sums that it hands out live until it is trimmed, splits as
 * long as it does.
 */
#ifndef TDP_SEARCH_PRICE_CACHE_H
#define TDP_SEARCH_PRICE_CACHE_H

#include "search/bound.h"
#include "search/fullest_rank.h"
#include "search/least_work.h"

typedef struct PriceCache PriceCache;

PriceCache *price_cache_new(const Model *model, const Cluster *cluster);
void price_cache_free(PriceCache *cache);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PriceCache, price_cache_free)

/* The plan's prices, which no trimming takes away; the caller frees them. */
PriceTable *price_cache_own(PriceCache *cache, const Plan *plan);

/* Of passes; and with their sums, of passes whose recomputation does not differ by stage. */
const PriceTable *price_cache_prices(PriceCache *cache, const PassLayout *passes);
const PriceSums *price_cache_sums(PriceCache *cache, const PassLayout *passes);

/* What all layers take at least under passes that count no recomputed layers. With a host that is never waited for if
 * `unhosted` (least_layer). */
LeastWork price_cache_least(PriceCache *cache, const PassLayout *passes, gboolean unhosted);

/* Blocks by spec, of which nothing is priced: of nodes that are alike, and where all blocks have their products in one
 * format. */
BlockKinds price_cache_blocks(PriceCache *cache, const PassLayout *passes);

/* Memory that prices and sums may take between the parts of a search. */
#define PRICES_HELD_BYTES ((gsize)64 << 20)

/* Forgets tables of prices and their sums if all takes more than that, and layers' prices if these alone take most of it:
 * they cost most. What is forgotten is made again, alike, when it is asked for. */
void price_cache_trim(PriceCache *cache, gsize most_bytes);

/* The best split of the plan's layers that its framework can run, by time alone; a plan that names modules to make
 * again has that of the plan which keeps everything. NULL if there is none. On a mixed cluster: balance_by_room(). */
const LayerSplit *price_cache_split(PriceCache *cache, const Plan *plan);

/* Gives the plan that split, if its layers are split at all: what the space has in its place on another cluster. FALSE if
 * there is none. */
gboolean price_split_again(const Model *model, const Cluster *cluster, Plan *plan);

/* Whether nothing of the passes is better than the others': no pass takes less, computes or communicates less, and no
 * layer keeps or needs less memory. */
gboolean price_cache_never_better(PriceCache *cache, const PassLayout *passes, const PassLayout *other);

/* The same of passes that differ in what is made again, of any amount: while a backward makes it, there is as much of a
 * layer as it would keep of it otherwise. */
gboolean price_cache_made_again_in_vain(PriceCache *cache, const PassLayout *passes, const PassLayout *other);

/* Whether each block through which a gradient passes keeps so many bytes of a forward at least. */
gboolean price_cache_keeps(PriceCache *cache, const PassLayout *passes, double bytes);

/* Whether no pass takes less, or computes less, than the same pass of the other. */
gboolean price_cache_never_less(PriceCache *cache, const PassLayout *passes, const PassLayout *other);

#endif
