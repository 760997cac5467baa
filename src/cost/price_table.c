/* Prices of a model's layers under a layout. */
#include "cost/price.h"

#include "cost/redistribute.h"

#include <string.h>

/* The ops of all layers with their times, whatever is made again. */
typedef struct {
  const Model *model;
  const Cluster *cluster;
  int n;            /* entries */
  LayerWork *works; /* [node type][spec] */
  LayerTimes *times;
  GPtrArray *ops;   /* of the tables that are made: PriceTable's, NULL = they describe nothing */
} PriceWork;

static PriceTable *table_new(const Cluster *cluster, int n, GPtrArray *ops)
{
  PriceTable *table = g_new0(PriceTable, 1);

  table->ops = ops ? g_ptr_array_ref(ops) : NULL;
  table->n = n;
  table->n_types = MAX(cluster->n_types, 1);
  table->layers = g_new(LayerPrice, table->n_types * n);
  return table;
}

static const Cluster *cluster_of(const Cluster *cluster, int type)
{
  return cluster->n_types ? cluster->types[type] : cluster;
}

static void price_work_init(PriceWork *w, const Model *model, const PassLayout *passes, const Cluster *cluster,
                            GPtrArray *ops)
{
  int n = model->n_specs * MAX(cluster->n_types, 1);

  *w = (PriceWork) { model, cluster, n, g_new(LayerWork, n), g_new(LayerTimes, n), ops };
  for (int i = 0; i < n; i++) {
    const Cluster *on = cluster_of(cluster, i / model->n_specs);
    layer_work_init(&w->works[i], model, &model->specs[i % model->n_specs], passes, on);
    w->times[i] = layer_times(&w->works[i], passes, on, NULL);
  }
}

static void price_work_clear(PriceWork *w)
{
  for (int i = 0; i < w->n; i++) {
    layer_work_clear(&w->works[i]);
    layer_times_clear(&w->times[i]);
  }
  g_free(w->works);
  g_free(w->times);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(PriceWork, price_work_clear)

static PriceTable *specs_new(const Model *model, const PassLayout *passes, const Cluster *cluster, PriceSpecFunc price,
                             gpointer data)
{
  PriceTable *table = table_new(cluster, model->n_specs, NULL);

  for (int i = 0; i < table->n_types * table->n; i++)
    price(data, passes, i, &table->layers[i]);
  return table;
}

/* Layers first .. first + n - 1 as one group. */
static void make_group(LayerPrice *layers, int first, int n)
{
  LayerPrice *last = &layers[first + n - 1];

  for (int i = first; i < first + n; i++) {
    LayerPrice *layer = &layers[i];
    last->recomputed_bytes += (layer == last ? 0 : layer->recomputed_bytes) + (i == first ? 0 : layer->saved_bytes);
    layer->saved_bytes *= i == first;
  }
}

/* What a stage's layers cost, `again` where they are made again, `kept` where not. */
static void price_stage(LayerPrice *layers, const Model *model, const RecomputeLayout *r, int stage, int type,
                        const PriceTable *again, const PriceTable *kept)
{
  int first = stage_first_layer(&r->cut, model, stage), end = stage_first_layer(&r->cut, model, stage + 1);
  StageBlocks blocks = stage_blocks(&r->cut, model, stage);
  int size = MAX(1, r->scope.layers), counted = recompute_of_stage(&r->scope, stage, blocks.end - blocks.first);

  for (int i = first; i < end; i++)
    layers[i] = *price_of_layer(i < blocks.first + counted ? again : kept, model, type, i);
  if (r->scope.method == RECOMPUTE_UNIFORM)
    for (int i = blocks.first; i < blocks.end; i += size)
      make_group(layers, i, MIN(size, blocks.end - i));
}

/* Forward, an activation goes from the division under one layout to that under the other; its gradient goes back. */
static void add_change(LayerPrice *layer, const Model *model, const PassLayout *from, const PassLayout *to,
                       const Cluster *site)
{
  const double seconds[PASS_COUNT] = {
    [PASS_FORWARD] = redistribute_s(model, from, to, site),
    [PASS_BACKWARD] = redistribute_s(model, to, from, site),
    [PASS_INPUT] = redistribute_s(model, to, from, site),
  };

  for (int pass = 0; pass < PASS_COUNT; pass++) {
    layer->pass[pass].seconds += seconds[pass];
    layer->pass[pass].tensor_s += seconds[pass];
  }
  if (seconds[PASS_FORWARD] > 0 || seconds[PASS_BACKWARD] > 0)
    layer->transient_bytes = MAX(layer->transient_bytes, op_boundary_bytes(model, from) + op_boundary_bytes(model, to));
}

/* A stage takes and gives activations as the layout itself has them. */
static void price_changes(LayerPrice *layers, const Model *model, const Layout *l, int stage, const Cluster *site)
{
  const StageCut *cut = &l->pipeline.cut;
  int first = stage_first_layer(cut, model, stage), end = stage_first_layer(cut, model, stage + 1);
  PassLayout before = l->passes;

  for (int i = first; i < end; i++) {
    Layout room;
    const PassLayout *own = &layout_of_layer(l, i, &room)->passes;
    add_change(&layers[i], model, &before, own, site);
    before = *own;
  }
  if (end > first)
    add_change(&layers[end - 1], model, &before, &l->passes, site);
}

static void price_of_work(gpointer data, const PassLayout *passes, int entry, LayerPrice *price)
{
  PriceWork *w = data;
  int n = w->model->n_specs;
  LayerOps *ops = w->ops ? g_new0(LayerOps, 1) : NULL;

  if (ops)
    g_ptr_array_add(w->ops, ops);
  layer_work_recompute(&w->works[entry], w->model, &w->model->specs[entry % n], passes);
  layer_price_at(price, ops, &w->works[entry], &w->times[entry], passes, cluster_of(w->cluster, entry / n));
}

static void price_specs(LayerPrice *layers, const Model *model, const PassLayout *passes, const Cluster *site,
                        GPtrArray *ops)
{
  g_auto(PriceWork) work = { 0 };

  price_work_init(&work, model, passes, site, ops);
  for (int i = 0; i < model->n_specs; i++)
    price_of_work(&work, passes, i, &layers[i]);
}

/* Layers that several strategies price, each once. */
static void price_runs(LayerPrice *layers, const Model *model, const Layout *l, const Cluster *site, GPtrArray *ops)
{
  g_autofree LayerPrice *specs = g_new(LayerPrice, model->n_specs);
  int layer = 1;

  price_specs(specs, model, &l->passes, site, ops);
  for (int i = 0; i < model->n_layers; i++)
    layers[i] = specs[model->layers[i]];
  for (int run = 0; run < l->n_runs; run++) {
    Layout own = layout_of_run(l, run);
    price_specs(specs, model, &own.passes, site, ops);
    for (int end = layer + layout_run(l, run).layers; layer < end; layer++)
      layers[layer] = specs[model->layers[layer]];
  }
  for (int stage = 0; stage < l->pipeline.cut.stages; stage++)
    price_changes(layers, model, l, stage, site);
}

static PriceTable *runs_new(const Model *model, const Layout *l, const Cluster *cluster, GPtrArray *ops)
{
  PriceTable *table = table_new(cluster, model->n_layers, ops);

  table->by_layer = TRUE;
  for (int type = 0; type < table->n_types; type++)
    price_runs(table->layers + type * table->n, model, l, cluster_of(cluster, type), ops);
  return table;
}

PriceTable *price_table_of_specs(const Model *model, const PassLayout *passes, const Cluster *cluster,
                                 PriceSpecFunc price, gpointer data)
{
  const RecomputeLayout *r = &passes->recompute;
  PriceTable *again = specs_new(model, passes, cluster, price, data);

  if (!r->cut.stages)
    return again;
  PassLayout keeps = *passes;
  pass_layout_keep(&keeps);
  g_autoptr(PriceTable) some = again;
  g_autoptr(PriceTable) kept = specs_new(model, &keeps, cluster, price, data);
  PriceTable *table = table_new(cluster, model->n_layers, NULL);
  table->by_layer = TRUE;
  for (int type = 0; type < table->n_types; type++)
    for (int stage = 0; stage < r->cut.stages; stage++)
      price_stage(table->layers + type * table->n, model, r, stage, type, some, kept);
  return table;
}

static PriceTable *new_table(const Model *model, const Layout *layout, const Cluster *cluster, GPtrArray *ops)
{
  if (layout->n_runs > 0)
    return runs_new(model, layout, cluster, ops);
  g_auto(PriceWork) work = { 0 };
  price_work_init(&work, model, &layout->passes, cluster, ops);
  PriceTable *table = price_table_of_specs(model, &layout->passes, cluster, price_of_work, &work);
  table->ops = ops ? g_ptr_array_ref(ops) : NULL;
  return table;
}

PriceTable *price_table_new(const Model *model, const Layout *layout, const Cluster *cluster)
{
  return new_table(model, layout, cluster, NULL);
}

PriceTable *price_table_described(const Model *model, const Layout *layout, const Cluster *cluster)
{
  g_autoptr(GPtrArray) ops = g_ptr_array_new_with_free_func((GDestroyNotify)layer_ops_free);

  return new_table(model, layout, cluster, ops);
}

void price_table_free(PriceTable *table)
{
  if (!table)
    return;
  g_clear_pointer(&table->ops, g_ptr_array_unref);
  g_free(table->layers);
  g_free(table);
}
