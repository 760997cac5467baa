/* Prices of a model's layers under a layout. */
#include "cost/price.h"

#include "cost/redistribute.h"

/* The ops of all layers with their times, whatever is made again. */
typedef struct {
  const Model *model;
  const Cluster *cluster;
  int n;            /* entries */
  int sets;         /* of them: 2 where some blocks keep their products in 16 bits */
  LayerWork *works; /* [in 16 bits][node type][spec] */
  LayerTimes *times;
  GPtrArray *ops;   /* of the tables that are made: PriceTable's, NULL = they describe nothing */
} PriceWork;

static PriceTable *table_new(const Cluster *cluster, int n, GPtrArray *ops)
{
  PriceTable *table = g_new0(PriceTable, 1);

  table->ops = ops ? g_ptr_array_ref(ops) : NULL;
  table->n = n;
  table->n_types = cluster_types(cluster);
  table->layers = g_new(LayerPrice, table->n_types * n);
  return table;
}

static void price_work_init(PriceWork *w, const Model *model, const PassLayout *passes, const Cluster *cluster,
                            GPtrArray *ops)
{
  int n = model->n_specs * cluster_types(cluster), sets = wide_any(&passes->wide) ? 2 : 1;
  PassLayout own = *passes;

  *w = (PriceWork) { model, cluster, n, sets, g_new(LayerWork, sets * n), g_new(LayerTimes, sets * n), ops };
  for (int i = 0; i < sets * n; i++) {
    const Cluster *on = cluster_type(cluster, i % n / model->n_specs);
    if (i == n)
      pass_layout_widen(&own);
    layer_work_init(&w->works[i], model, &model->specs[i % model->n_specs], &own, on);
    w->times[i] = layer_times(&w->works[i], &own, on, NULL);
  }
}

static void price_work_clear(PriceWork *w)
{
  for (int i = 0; i < w->sets * w->n; i++) {
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

/* Specs as the passes treat layers. */
typedef struct {
  const Model *model;
  const PassLayout *passes;
  PriceTable *of[2][2]; /* [products in 16 bits][kept, not made again], NULL where no layer is so */
} SpecTables;

static void spec_tables_clear(SpecTables *t)
{
  for (int i = 0; i < 4; i++)
    price_table_free(t->of[i / 2][i % 2]);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(SpecTables, spec_tables_clear)

static LayerPrice price_in(const SpecTables *t, int type, int layer, gboolean kept)
{
  return *price_of_layer(t->of[wide_has(&t->passes->wide, t->model->blocks, layer)][kept], t->model, type, layer);
}

/* What a stage's layers cost, some made again and others not. */
static void price_stage(LayerPrice *layers, const SpecTables *t, int stage, int type)
{
  const Model *model = t->model;
  const RecomputeLayout *r = &t->passes->recompute;
  int first = stage_first_layer(&r->cut, model, stage), end = stage_first_layer(&r->cut, model, stage + 1);
  StageBlocks blocks = stage_blocks(&r->cut, model, stage);
  int size = MAX(1, r->scope.layers), counted = recompute_of_stage(&r->scope, stage, blocks.end - blocks.first);

  for (int i = first; i < end; i++)
    layers[i] = price_in(t, type, i, i >= blocks.first + counted);
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
  int n = w->model->n_specs, at = w->sets > 1 && !formats_narrow(&passes->formats) ? w->n + entry : entry;
  LayerOps *ops = w->ops ? g_new0(LayerOps, 1) : NULL;

  if (ops)
    g_ptr_array_add(w->ops, ops);
  layer_work_recompute(&w->works[at], w->model, &w->model->specs[entry % n], passes);
  layer_price_at(price, ops, &w->works[at], &w->times[at], passes, cluster_type(w->cluster, entry / n));
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
    price_runs(table->layers + type * table->n, model, l, cluster_type(cluster, type), ops);
  return table;
}

static PriceTable *variant_new(const SpecTables *t, gboolean wide, gboolean kept, const Cluster *cluster,
                               PriceSpecFunc price, gpointer data)
{
  PassLayout passes = *t->passes;

  if (wide)
    pass_layout_widen(&passes);
  if (kept)
    pass_layout_keep(&passes);
  return specs_new(t->model, &passes, cluster, price, data);
}

PriceTable *price_table_of_specs(const Model *model, const PassLayout *passes, const Cluster *cluster,
                                 PriceSpecFunc price, gpointer data)
{
  const int stages = passes->recompute.cut.stages;
  const gboolean wide = wide_any(&passes->wide);

  if (!stages && !wide)
    return specs_new(model, passes, cluster, price, data);
  g_auto(SpecTables) specs = { model, passes, { { NULL } } };
  for (int i = 0; i < (wide ? 4 : 2); i += stages ? 1 : 2)
    specs.of[i / 2][i % 2] = variant_new(&specs, i / 2, i % 2, cluster, price, data);
  PriceTable *table = table_new(cluster, model->n_layers, NULL);
  table->by_layer = TRUE;
  for (int type = 0; type < table->n_types; type++) {
    LayerPrice *layers = table->layers + type * table->n;
    for (int i = 0; i < model->n_layers && !stages; i++)
      layers[i] = price_in(&specs, type, i, FALSE);
    for (int stage = 0; stage < stages; stage++)
      price_stage(layers, &specs, stage, type);
  }
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
