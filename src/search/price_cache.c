#include "search/price_cache.h"

#include "program/balance.h"

#include <string.h>

/* What PriceSums depend on, and with the stages a split. */
typedef struct {
  int tp, cp, context, ep, etp, micro_batch, sequence_parallel, recompute, tensor, experts, ends_meet, stages;
  int method, layers, split_rank, modules; /* of recomputation; the first three where it counts the layers of a stage */
} PriceKey;

typedef struct {
  PriceTable *prices;
  PriceSums *sums; /* owns the prices; NULL until they are asked for */
} Priced;

struct PriceCache {
  const Model *model;
  const Cluster *cluster;
  GHashTable *priced; /* PriceKey without stages to Priced; looked up, never iterated */
  gsize held_bytes;   /* by these */
  OpTimes *times;
  struct {
    Plan plan;        /* without its recomputation */
    PriceWork *work;  /* NULL: none yet */
  } last[2];          /* that was priced, by tensor overlap: the next plan often differs in recomputation only */
  GHashTable *mixed;  /* Plan without its split to LayerSplit, of a mixed cluster */
  GHashTable *freely; /* the same without what becomes of states, to splits that need not fit */
  GHashTable *splits; /* PriceKey to LayerSplit, without stages if there is none */
};

static guint key_hash(gconstpointer p)
{
  const PriceKey *k = p;
  guint hash = ((k->tp * 8191u + k->cp * 4 + k->context) * 127u + k->micro_batch) * 31u + k->sequence_parallel;
  hash = (hash * 1009u + k->ep) * 61u + k->etp;
  hash = ((hash * 31u + k->recompute) * 2 + k->tensor) * 2 + k->experts;
  return ((hash * 2 + k->ends_meet) * 1021u + k->stages) * 257u + k->layers;
}

static gboolean key_equal(gconstpointer a, gconstpointer b)
{
  return memcmp(a, b, sizeof(PriceKey)) == 0;
}

static PriceKey key_of(const Plan *plan, int stages)
{
  gboolean counts = recompute_counts(&plan->scope);

  g_assert(plan->scope.stages.stages == 0 && plan->strategies.n == 0);
  return (PriceKey) { plan->tp, plan->cp, plan->context, plan->ep, plan_expert_tensor(plan), plan->micro_batch,
                      plan->sequence_parallel, plan->recompute, plan->overlap.tensor, plan->overlap.experts,
                      plan_ends_meet(plan),
                      counts ? plan_stages(plan) : stages, counts ? plan->scope.method : 0,
                      counts ? plan->scope.layers : 0, counts ? plan->split_rank : 0, (int)plan->scope.modules };
}

static guint plan_hash(gconstpointer p)
{
  const Plan *k = p;
  guint hash = ((k->tp * 8191u + k->pp) * 127u + k->micro_batch) * 31u + k->vpp * 7u + k->zero;
  return ((hash * 31u + k->recompute) * 2u + k->sequence_parallel) * 31u + g_direct_hash(k->types[0]);
}

static gboolean plan_equal(gconstpointer a, gconstpointer b)
{
  return memcmp(a, b, sizeof(Plan)) == 0;
}

static void priced_free(gpointer data)
{
  Priced *priced = data;

  if (priced->sums)
    price_sums_free(priced->sums);
  else
    price_table_free(priced->prices);
  g_free(priced);
}

PriceCache *price_cache_new(const Model *model, const Cluster *cluster)
{
  PriceCache *cache = g_new0(PriceCache, 1);

  cache->model = model;
  cache->cluster = cluster;
  cache->times = op_times_new();
  cache->priced = g_hash_table_new_full(key_hash, key_equal, g_free, priced_free);
  cache->splits = g_hash_table_new_full(key_hash, key_equal, g_free, g_free);
  cache->mixed = g_hash_table_new_full(plan_hash, plan_equal, g_free, g_free);
  cache->freely = g_hash_table_new_full(plan_hash, plan_equal, g_free, g_free);
  return cache;
}

void price_cache_free(PriceCache *cache)
{
  if (!cache)
    return;
  g_hash_table_unref(cache->priced);
  g_hash_table_unref(cache->splits);
  g_hash_table_unref(cache->mixed);
  g_hash_table_unref(cache->freely);
  for (gsize i = 0; i < G_N_ELEMENTS(cache->last); i++)
    price_work_free(cache->last[i].work);
  op_times_free(cache->times);
  g_free(cache);
}

void price_cache_trim(PriceCache *cache, gsize most_bytes)
{
  if (cache->held_bytes <= most_bytes)
    return;
  g_hash_table_remove_all(cache->priced);
  cache->held_bytes = 0;
}

/* Prices of what no plan was priced for yet. */
static PriceTable *new_prices(PriceCache *cache, const Plan *plan)
{
  Plan same = *plan;

  same.recompute = RECOMPUTE_NONE;
  memset(&same.scope, 0, sizeof same.scope);
  memset(&same.split, 0, sizeof same.split);
  for (gsize i = 0; i < G_N_ELEMENTS(cache->last); i++)
    if (cache->last[i].work && plan_equal(&cache->last[i].plan, &same))
      return price_work_table(cache->last[i].work, plan);
  gsize at = plan->overlap.tensor != 0;
  price_work_free(cache->last[at].work);
  cache->last[at].plan = same;
  cache->last[at].work = price_work_new(cache->model, plan, cache->cluster, cache->times);
  return price_work_table(cache->last[at].work, plan);
}

static gsize price_table_bytes(const PriceTable *prices)
{
  return sizeof *prices + prices->n_types * prices->n * sizeof *prices->layers;
}

static Priced *find_priced(PriceCache *cache, const Plan *plan)
{
  PriceKey key = key_of(plan, 0);
  Priced *priced = g_hash_table_lookup(cache->priced, &key);

  if (!priced) {
    priced = g_new0(Priced, 1);
    priced->prices = new_prices(cache, plan);
    cache->held_bytes += sizeof key + sizeof *priced + price_table_bytes(priced->prices);
    g_hash_table_insert(cache->priced, g_memdup2(&key, sizeof key), priced);
  }
  return priced;
}

PriceTable *price_cache_own(PriceCache *cache, const Plan *plan)
{
  g_autoptr(PriceWork) work = price_work_new(cache->model, plan, cache->cluster, cache->times);
  return price_work_table(work, plan);
}

const PriceSums *price_cache_sums(PriceCache *cache, const Plan *plan)
{
  Priced *priced = find_priced(cache, plan);

  if (!priced->sums) {
    priced->sums = price_sums_of(cache->model, plan, cache->cluster, priced->prices);
    cache->held_bytes += price_sums_bytes(cache->model, priced->sums);
  }
  return priced->sums;
}

/* The best split whatever it takes: of time, which states do not change. */
static const LayerSplit *free_split(PriceCache *cache, const Plan *plan, const PriceTable *prices)
{
  Plan key = *plan;

  key.zero = key.shard_group = 0;
  memset(&key.offload, 0, sizeof key.offload);
  memset(&key.sharding, 0, sizeof key.sharding);
  memset(&key.optimizer, 0, sizeof key.optimizer);
  LayerSplit *split = g_hash_table_lookup(cache->freely, &key);
  if (!split) {
    split = g_new0(LayerSplit, 1);
    balance_freely(cache->model, cache->cluster, plan, prices, split);
    g_hash_table_insert(cache->freely, g_memdup2(&key, sizeof key), split);
  }
  return split;
}

/* The split goes by all of the plan, and by what fits: the best of all if that does. */
static const LayerSplit *mixed_split(PriceCache *cache, const Plan *plan)
{
  Plan key = *plan;

  memset(&key.split, 0, sizeof key.split);
  LayerSplit *split = g_hash_table_lookup(cache->mixed, &key);
  if (!split) {
    const PriceTable *prices = find_priced(cache, plan)->prices;
    const LayerSplit *freely = free_split(cache, &key, prices);
    split = g_memdup2(freely, sizeof *freely);
    if (freely->stages && !balance_fits(cache->model, cache->cluster, &key, prices, freely) &&
        !balance_within(cache->model, cache->cluster, &key, prices, split))
      *split = *freely;
    g_hash_table_insert(cache->mixed, g_memdup2(&key, sizeof key), split);
  }
  return split->stages ? split : NULL;
}

const LayerSplit *price_cache_split(PriceCache *cache, const Plan *plan)
{
  Plan whole = *plan; /* counts of recomputed layers ask for a split */

  whole.scope = (RecomputeScope) { .modules = plan->scope.modules };
  if (cache->cluster->n_types > 0)
    return mixed_split(cache, &whole);
  PriceKey key = key_of(&whole, plan_stages(plan));
  LayerSplit *split = g_hash_table_lookup(cache->splits, &key);

  if (!split) {
    split = g_new0(LayerSplit, 1);
    balance_by_time(cache->model, &whole, find_priced(cache, &whole)->prices, split);
    g_hash_table_insert(cache->splits, g_memdup2(&key, sizeof key), split);
  }
  return split->stages ? split : NULL;
}

gboolean price_cache_never_less(PriceCache *cache, const Plan *plan, const Plan *other)
{
  const PriceTable *a = find_priced(cache, plan)->prices, *b = find_priced(cache, other)->prices;

  for (int i = 0; i < a->n_types * a->n; i++)
    for (int pass = 0; pass < PASS_COUNT; pass++)
      if (a->layers[i].pass[pass].seconds < b->layers[i].pass[pass].seconds ||
          a->layers[i].pass[pass].compute_s < b->layers[i].pass[pass].compute_s)
        return FALSE;
  return TRUE;
}
