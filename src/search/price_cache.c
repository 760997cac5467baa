#include "search/price_cache.h"

#include "plan/plan.h"
#include "program/balance.h"
#include "search/space.h"

#include <string.h>

/* What a table of splits is asked for. */
typedef struct {
  PassLayout passes; /* all that prices depend on */
  Plan rest; /* of a mixed cluster: the plan but its split and, where splits need not fit, what becomes of states */
  int stages;
} SplitKey;

/* What a layer without experts takes does not depend on theirs: the layout is one without any. */
typedef struct {
  PassLayout passes;
  gsize at; /* [node type][spec] */
} LayerKey;

/* Of tables: the key comes first. */
typedef struct {
  LayerKey key;
  LayerPrice price;
} KnownLayer;

typedef struct {
  PassLayout passes;
  LeastWork work;
} KnownLeast;

typedef struct {
  PassLayout passes;
  PriceTable *prices;
  PriceSums *sums; /* owns the prices; NULL until they are asked for */
} Priced;

/* What a layer does under some passes, and how long that takes. */
typedef struct {
  PassLayout passes; /* as where nothing is made again or travels beside other ops or passes, which changes neither */
  LayerWork work;
  LayerTimes times; /* where `timed` */
  gboolean known, timed;
} KnownWork;

/* Places of works that are kept: plans that differ in dispatcher and graph come by turns, and blocks of one plan whose
 * products are cast and are not. */
#define WORKS (2 * GRAPH_CHOICES * DISPATCH_COUNT)

static gsize work_place(const PassLayout *passes)
{
  int graph = passes->recorded == RECORDED_ROUTERS ? GRAPH_CHOICES - 1 : (int)passes->graph;

  return 2 * (GRAPH_CHOICES * passes->dispatch + graph) + formats_narrow(&passes->formats);
}

/* Entries of a table, which are forgotten all at once: there are many, and most are made once. */
#define POOL_BLOCK ((gsize)256 << 10)
typedef struct {
  GPtrArray *blocks;
  gsize left; /* of the last */
} Pool;

G_STATIC_ASSERT(sizeof(KnownLayer) <= POOL_BLOCK && sizeof(KnownLeast) <= POOL_BLOCK);

struct PriceCache {
  const Model *model;
  const Cluster *cluster;
  GHashTable *layers; /* KnownLayer; tables are looked up, never iterated */
  Pool layer_pool, least_pool;
  GHashTable *priced; /* Priced, made of layers */
  GHashTable *least[2]; /* [with a host that is never waited for]: KnownLeast, made of layers */
  gsize layer_bytes, table_bytes; /* held by layers, by what is made of them */
  OpTimes *times;
  KnownWork *works; /* that were priced last: [node type][spec][work_place()], plans often differ in recomputation only */
  int n_works;      /* the model and the cluster may be gone when they are freed */
  LayerUses *uses;  /* [spec] */
  LeastLayer *room; /* [node type][in 16 bits][spec]: of a LeastWork that is made */
  GHashTable *splits; /* SplitKey to LayerSplit, without stages if there is none */
  GHashTable *freely; /* the same of a mixed cluster, to splits that need not fit */
};

/* Of some of what layouts differ in; compared as memory, so that any field tells them apart. */
static guint passes_hash(gconstpointer p)
{
  const PassLayout *k = p;
  guint hash = ((k->tp * 8191u + k->cp * 4 + k->context) * 127u + k->micro_batch) * 31u + k->sequence_parallel;

  hash = (((hash * 1009u + k->ep) * 61u + k->etp) * 7u + k->dispatch) * 31u;
  hash += 2 * (k->shard_bytes[0] > 0) + (k->shard_bytes[1] > 0);
  hash = ((hash * 31u + k->recompute.granularity) * 2 + k->overlap_tensor) * 2 + k->overlap_experts;
  hash = ((hash * 1021u + k->recompute.cut.stages) * 257u + k->recompute.scope.layers) * 2 + k->ends_meet;
  hash = ((hash * 61u + k->recompute.scope.modules) * 2 + k->overlap_exchange) * 2 + k->comm_chunks;
  return (hash * GRAPH_COUNT + k->graph) * 61u + k->recorded;
}

static gboolean passes_equal(gconstpointer a, gconstpointer b)
{
  return memcmp(a, b, sizeof(PassLayout)) == 0;
}

static guint layer_hash(gconstpointer p)
{
  const LayerKey *k = p;
  return passes_hash(&k->passes) * 31u + (guint)k->at;
}

static gboolean layer_equal(gconstpointer a, gconstpointer b)
{
  return memcmp(a, b, sizeof(LayerKey)) == 0;
}

static guint split_hash(gconstpointer p)
{
  const SplitKey *k = p;
  guint hash = passes_hash(&k->passes) * 1021u + k->stages, rest = (k->rest.pp * 31u + k->rest.vpp) * 31u + k->rest.zero;

  return (hash * 127u + rest) * 31u + g_direct_hash(k->rest.types[0]);
}

static gboolean split_equal(gconstpointer a, gconstpointer b)
{
  return memcmp(a, b, sizeof(SplitKey)) == 0;
}

static void pool_init(Pool *pool)
{
  *pool = (Pool) { g_ptr_array_new_with_free_func(g_free), 0 };
}

static void pool_forget(Pool *pool)
{
  g_ptr_array_set_size(pool->blocks, 0);
  pool->left = 0;
}

/* Of one size, a multiple of what any type is aligned to. */
static gpointer pool_take(Pool *pool, gsize bytes)
{
  if (pool->left < bytes) {
    g_ptr_array_add(pool->blocks, g_malloc(POOL_BLOCK));
    pool->left = POOL_BLOCK;
  }
  char *block = pool->blocks->pdata[pool->blocks->len - 1];
  gpointer taken = block + (POOL_BLOCK - pool->left);
  pool->left -= bytes;
  return taken;
}

static void known_work_clear(KnownWork *known)
{
  if (!known->known)
    return;
  layer_work_clear(&known->work);
  layer_times_clear(&known->times);
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
  cache->n_works = cluster_types(cluster) * model->n_specs * WORKS;
  cache->works = g_new0(KnownWork, cache->n_works);
  cache->uses = layer_uses(model);
  cache->room = g_new(LeastLayer, 2 * cache->n_works / WORKS);
  cache->priced = g_hash_table_new_full(passes_hash, passes_equal, priced_free, NULL);
  for (int i = 0; i < 2; i++)
    cache->least[i] = g_hash_table_new(passes_hash, passes_equal);
  cache->layers = g_hash_table_new(layer_hash, layer_equal);
  pool_init(&cache->layer_pool);
  pool_init(&cache->least_pool);
  cache->splits = g_hash_table_new_full(split_hash, split_equal, g_free, g_free);
  cache->freely = g_hash_table_new_full(split_hash, split_equal, g_free, g_free);
  return cache;
}

void price_cache_free(PriceCache *cache)
{
  if (!cache)
    return;
  g_hash_table_unref(cache->priced);
  for (int i = 0; i < 2; i++)
    g_hash_table_unref(cache->least[i]);
  g_hash_table_unref(cache->layers);
  g_ptr_array_unref(cache->layer_pool.blocks);
  g_ptr_array_unref(cache->least_pool.blocks);
  g_hash_table_unref(cache->splits);
  g_hash_table_unref(cache->freely);
  for (int i = 0; i < cache->n_works; i++)
    known_work_clear(&cache->works[i]);
  g_free(cache->works);
  g_free(cache->uses);
  g_free(cache->room);
  op_times_free(cache->times);
  g_free(cache);
}

void price_cache_trim(PriceCache *cache, gsize most_bytes)
{
  if (cache->layer_bytes + cache->table_bytes <= most_bytes)
    return;
  g_hash_table_remove_all(cache->priced);
  for (int i = 0; i < 2; i++)
    g_hash_table_remove_all(cache->least[i]);
  pool_forget(&cache->least_pool);
  cache->table_bytes = 0;
  if (cache->layer_bytes <= most_bytes / 4 * 3)
    return;
  g_hash_table_remove_all(cache->layers);
  pool_forget(&cache->layer_pool);
  cache->layer_bytes = 0;
}

static gsize price_table_bytes(const PriceTable *prices)
{
  return sizeof *prices + prices->n_types * prices->n * sizeof *prices->layers;
}

static void leave_experts_out(PassLayout *l)
{
  l->ep = 1;
  l->etp = l->tp;
  l->experts_apart = l->overlap_experts = l->overlap_exchange = FALSE;
  l->shard_bytes[1] = 0;
  l->dispatch = 0;
  l->expert_tokens = l->expert_own_tokens = l->expert_copies = 1;
  l->expert_rows_known = FALSE;
}

/* What of a layout prices of a layer do not depend on. Where a partial graph records none of its modules it is as without
 * one. */
static void leave_others_out(PassLayout *l, const LayerSpec *spec)
{
  l->wide = (WideBlocks) { 0 };
  l->recorded &= recorded_modules_of_spec(spec);
  if (l->graph == GRAPH_PARTIAL && !l->recorded)
    l->graph = GRAPH_NONE;
  if (spec->ffn.experts == 0)
    leave_experts_out(l);
  if (spec->kind == LAYER_BLOCK)
    l->ends_meet = l->spread_vocabulary = FALSE;
}

static KnownWork *find_work(PriceCache *cache, const PassLayout *passes, int at, const LayerSpec *spec,
                            const Cluster *site)
{
  PassLayout same = *passes;

  leave_others_out(&same, spec);
  pass_layout_keep(&same);
  same.overlap_exchange = same.overlap_tensor = FALSE;
  KnownWork *w = &cache->works[at * WORKS + work_place(&same)];
  if (w->known && passes_equal(&w->passes, &same))
    return w;
  if (w->known)
    layer_work_renew(&w->work, cache->model, spec, &same, site);
  else
    layer_work_init(&w->work, cache->model, spec, &same, site);
  layer_times_clear(&w->times);
  w->known = TRUE;
  w->timed = FALSE;
  w->passes = same;
  return w;
}

static void new_layer(PriceCache *cache, const PassLayout *passes, int at, LayerPrice *price)
{
  const LayerSpec *spec = &cache->model->specs[at % cache->model->n_specs];
  const Cluster *site = cluster_type(cache->cluster, at / cache->model->n_specs);
  KnownWork *known = find_work(cache, passes, at, spec, site);

  if (!known->timed)
    known->times = layer_times(&known->work, &known->passes, site, cache->times);
  known->timed = TRUE;
  layer_work_recompute(&known->work, cache->model, spec, passes);
  layer_price_at(price, NULL, &known->work, &known->times, passes, site);
}

/* Of the layout, what the prices of a layer depend on. */
static void fill_layer_key(LayerKey *key, const PassLayout *passes, const LayerSpec *spec, int at)
{
  memset(key, 0, sizeof *key);
  memcpy(&key->passes, passes, sizeof *passes);
  key->at = at;
  leave_others_out(&key->passes, spec);
}

static const LayerPrice *find_layer_of(PriceCache *cache, const PassLayout *passes, const LayerKey *key)
{
  KnownLayer *known = g_hash_table_lookup(cache->layers, key);

  if (!known) {
    known = pool_take(&cache->layer_pool, sizeof *known);
    memcpy(&known->key, key, sizeof *key);
    new_layer(cache, passes, (int)key->at, &known->price);
    cache->layer_bytes += sizeof *known;
    g_hash_table_add(cache->layers, known);
  }
  return &known->price;
}

static const LayerPrice *find_layer(PriceCache *cache, const PassLayout *passes, int at)
{
  LayerKey key;

  fill_layer_key(&key, passes, &cache->model->specs[at % cache->model->n_specs], at);
  return find_layer_of(cache, passes, &key);
}

/* PriceSpecFunc of a cache. */
static void copy_layer(gpointer data, const PassLayout *passes, int at, LayerPrice *price)
{
  *price = *find_layer(data, passes, at);
}

static Priced *find_priced(PriceCache *cache, const PassLayout *passes)
{
  Priced *priced = g_hash_table_lookup(cache->priced, passes);

  if (!priced) {
    priced = g_new0(Priced, 1);
    memcpy(&priced->passes, passes, sizeof *passes);
    priced->prices = price_table_of_specs(cache->model, passes, cache->cluster, copy_layer, cache);
    cache->table_bytes += sizeof *priced + price_table_bytes(priced->prices);
    g_hash_table_add(cache->priced, priced);
  }
  return priced;
}

PriceTable *price_cache_own(PriceCache *cache, const Plan *plan)
{
  PassLayout passes;

  pass_layout_init(&passes, plan);
  return price_table_of_specs(cache->model, &passes, cache->cluster, copy_layer, cache);
}

/* Of specs, of which some blocks keep their products in 16 bits and others do not. */
static LeastWork new_least(PriceCache *cache, const PassLayout *passes, gboolean unhosted)
{
  const int n = cache->model->n_specs, sets = wide_any(&passes->wide) ? 2 : 1;
  g_autofree LayerUses *both = sets > 1 ? layer_uses_of_specs(cache->model, passes) : NULL;
  PassLayout wide = *passes;

  pass_layout_widen(&wide);
  for (int i = 0; i < n * sets * cluster_types(cache->cluster); i++) {
    const PassLayout *own = i / n % sets ? &wide : passes;
    cache->room[i] = least_layer(find_layer(cache, own, i / (n * sets) * n + i % n), unhosted);
  }
  return least_work(&(LeastLayers) { cache->room, both ? both : cache->uses, n * sets }, cache->cluster);
}

LeastWork price_cache_least(PriceCache *cache, const PassLayout *passes, gboolean unhosted)
{
  GHashTable *table = cache->least[!!unhosted];
  KnownLeast *known = g_hash_table_lookup(table, passes);

  if (!known) {
    known = pool_take(&cache->least_pool, sizeof *known);
    memcpy(&known->passes, passes, sizeof *passes);
    known->work = new_least(cache, passes, unhosted);
    cache->table_bytes += sizeof *known;
    g_hash_table_add(table, known);
  }
  return known->work;
}

BlockKinds price_cache_blocks(PriceCache *cache, const PassLayout *passes)
{
  BlockKinds all = { 0 };

  g_assert(cache->cluster->n_types == 0 && !wide_any(&passes->wide));
  for (int i = 0; i < cache->model->n_specs && all.n < BLOCK_KINDS; i++) {
    const LayerSpec *spec = &cache->model->specs[i];
    if (cache->uses[i].blocks == 0)
      continue;
    LayerWork *work = &find_work(cache, passes, i, spec, cluster_type(cache->cluster, 0))->work;
    layer_work_recompute(work, cache->model, spec, passes);
    all.kinds[all.n++] = (BlockKind) { cache->uses[i].blocks, work->params, work->expert_params,
                                       { work->narrow[0], work->narrow[1] }, work->saved_bytes,
                                       { work->frozen[0], work->frozen[1] } };
  }
  return all;
}

const PriceTable *price_cache_prices(PriceCache *cache, const PassLayout *passes)
{
  return find_priced(cache, passes)->prices;
}

const PriceSums *price_cache_sums(PriceCache *cache, const PassLayout *passes)
{
  Priced *priced = find_priced(cache, passes);

  g_assert(passes->recompute.scope.stages.stages == 0);
  if (!priced->sums) {
    priced->sums = price_sums_of(cache->model, passes, cache->cluster, priced->prices);
    cache->table_bytes += price_sums_bytes(cache->model, priced->sums);
  }
  return priced->sums;
}

/* To be made of the key alone. */
static LayerSplit *add_split(GHashTable *splits, const SplitKey *key)
{
  LayerSplit *split = g_new0(LayerSplit, 1);

  g_hash_table_insert(splits, g_memdup2(key, sizeof *key), split);
  return split;
}

/* The best split whatever it takes: of time, which states do not change but by the view. */
static const LayerSplit *free_split(PriceCache *cache, SplitKey key, const PriceTable *prices)
{
  Plan *p = &key.rest;

  p->zero = p->shard_group = 0;
  memset(&p->offload, 0, sizeof p->offload);
  memset(&p->sharding, 0, sizeof p->sharding);
  memset(&p->optimizer, 0, sizeof p->optimizer);
  LayerSplit *split = g_hash_table_lookup(cache->freely, &key);
  if (!split) {
    const Layout layout = layout_of(p);
    split = add_split(cache->freely, &key);
    balance_freely(cache->model, cache->cluster, &layout, prices, split);
  }
  return split;
}

/* On a mixed cluster the split goes by all of the plan, and by what fits: the best of all if that does. */
static const LayerSplit *mixed_split(PriceCache *cache, SplitKey *key, const Plan *plan)
{
  key->rest = *plan;
  memset(&key->rest.split, 0, sizeof key->rest.split);
  LayerSplit *split = g_hash_table_lookup(cache->splits, key);
  if (!split) {
    const PriceTable *prices = find_priced(cache, &key->passes)->prices;
    const LayerSplit *freely = free_split(cache, *key, prices);
    const Layout layout = layout_of(&key->rest);
    split = add_split(cache->splits, key);
    *split = *freely;
    if (freely->stages && !balance_fits(cache->model, cache->cluster, &layout, prices, freely) &&
        !balance_within(cache->model, cache->cluster, &layout, prices, split))
      *split = *freely;
  }
  return split->stages ? split : NULL;
}

const LayerSplit *price_cache_split(PriceCache *cache, const Plan *plan)
{
  Plan whole = *plan; /* counts of recomputed layers ask for a split */
  SplitKey key;

  if (plan->scope.modules)
    whole.recompute = RECOMPUTE_NONE;
  whole.scope = (RecomputeScope) { 0 };
  memset(&key, 0, sizeof key);
  pass_layout_init(&key.passes, &whole);
  key.stages = plan_stages(plan);
  if (cache->cluster->n_types > 0)
    return mixed_split(cache, &key, &whole);
  LayerSplit *split = g_hash_table_lookup(cache->splits, &key);
  if (!split) {
    split = add_split(cache->splits, &key);
    balance_by_time(cache->model, &key.passes, key.stages, find_priced(cache, &key.passes)->prices, split);
  }
  return split->stages ? split : NULL;
}

gboolean price_split_again(const Model *model, const Cluster *cluster, Plan *plan)
{
  if (plan->split.stages == 0)
    return TRUE;
  g_autoptr(PriceCache) cache = price_cache_new(model, cluster);
  memset(&plan->split, 0, sizeof plan->split);
  const LayerSplit *split = price_cache_split(cache, plan);
  if (split)
    plan->split = *split;
  return split != NULL;
}

typedef gboolean (*NoBetter)(const LayerPrice *a, const LayerPrice *b);

static gboolean each_layer(PriceCache *cache, const PassLayout *passes, const PassLayout *other, NoBetter no_better)
{
  gboolean all = TRUE;

  for (int i = 0; i < cache->n_works / WORKS && all; i++) {
    const LayerSpec *spec = &cache->model->specs[i % cache->model->n_specs];
    LayerKey own, theirs;
    fill_layer_key(&own, passes, spec, i);
    fill_layer_key(&theirs, other, spec, i);
    all = layer_equal(&own, &theirs) ||
          no_better(find_layer_of(cache, passes, &own), find_layer_of(cache, other, &theirs));
  }
  return all;
}

/* Of all layers in one format: as they are made again and, where only some are, as they are kept. */
static gboolean all_in_format(PriceCache *cache, const PassLayout *passes, const PassLayout *other, NoBetter no_better)
{
  PassLayout keeps = *passes, theirs = *other;
  gboolean some = passes->recompute.cut.stages || other->recompute.cut.stages;

  pass_layout_keep(&keeps);
  pass_layout_keep(&theirs);
  return each_layer(cache, passes, other, no_better) && (!some || each_layer(cache, &keeps, &theirs, no_better));
}

/* Whether layers are no better under a layout than under the other: with products cast and, where some blocks keep
 * theirs in 16 bits, so, too. */
static gboolean all_layers(PriceCache *cache, const PassLayout *passes, const PassLayout *other, NoBetter no_better)
{
  gboolean all = all_in_format(cache, passes, other, no_better);

  if (!all || !(wide_any(&passes->wide) || wide_any(&other->wide)))
    return all;
  PassLayout wide = *passes, theirs = *other;
  pass_layout_widen(&wide);
  pass_layout_widen(&theirs);
  return all_in_format(cache, &wide, &theirs, no_better);
}

/* Beside another pass or alone. */
static gboolean takes_less(const PassPrice *a, const PassPrice *b)
{
  return a->seconds < b->seconds || a->seconds + a->alone_s < b->seconds + b->alone_s || a->compute_s < b->compute_s;
}

static gboolean is_no_less(const LayerPrice *a, const LayerPrice *b)
{
  for (int pass = 0; pass < PASS_COUNT; pass++)
    if (takes_less(&a->pass[pass], &b->pass[pass]))
      return FALSE;
  return TRUE;
}

static gboolean is_faster(const LayerPrice *a, const LayerPrice *b)
{
  for (int pass = 0; pass < PASS_COUNT; pass++) {
    const PassPrice *x = &a->pass[pass], *y = &b->pass[pass];
    if (takes_less(x, y) || x->tensor_s < y->tensor_s || x->crowded_s < y->crowded_s)
      return TRUE;
  }
  return FALSE;
}

static gboolean is_made_again_in_vain(const LayerPrice *a, const LayerPrice *b)
{
  return !is_faster(a, b) && a->saved_bytes >= b->saved_bytes && a->deferred_bytes >= b->deferred_bytes &&
         a->transient_bytes >= b->transient_bytes &&
         a->transient_bytes + a->split_bytes >= b->transient_bytes + b->split_bytes;
}

static gboolean is_never_better(const LayerPrice *a, const LayerPrice *b)
{
  return is_made_again_in_vain(a, b) && a->recomputed_bytes >= b->recomputed_bytes;
}

gboolean price_cache_keeps(PriceCache *cache, const PassLayout *passes, double bytes)
{
  gboolean all = TRUE;

  for (int i = 0; i < cache->n_works / WORKS && all; i++) {
    const LayerSpec *spec = &cache->model->specs[i % cache->model->n_specs];
    all = spec->kind != LAYER_BLOCK || spec->detached || find_layer(cache, passes, i)->saved_bytes >= bytes;
  }
  return all;
}

gboolean price_cache_never_less(PriceCache *cache, const PassLayout *passes, const PassLayout *other)
{
  return all_layers(cache, passes, other, is_no_less);
}

gboolean price_cache_never_better(PriceCache *cache, const PassLayout *passes, const PassLayout *other)
{
  return all_layers(cache, passes, other, is_never_better);
}

gboolean price_cache_made_again_in_vain(PriceCache *cache, const PassLayout *passes, const PassLayout *other)
{
  return all_layers(cache, passes, other, is_made_again_in_vain);
}
