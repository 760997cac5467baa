/* Prices of a model's layers under a plan. */
#include "cost/price.h"

#include "cost/layout.h"

#include <string.h>

struct PriceWork {
  const Model *model;
  Plan view;        /* op_view() of the plan */
  const Cluster *cluster;
  int n;            /* entries */
  LayerWork *works; /* [node type][spec] */
  LayerTimes *times;
};

static PriceTable *table_new(const Cluster *cluster, int n)
{
  PriceTable *table = g_new0(PriceTable, 1);

  table->n = n;
  table->n_types = MAX(cluster->n_types, 1);
  table->layers = g_new(LayerPrice, table->n_types * n);
  return table;
}

static const Cluster *cluster_of(const Cluster *cluster, int type)
{
  return cluster->n_types ? cluster->types[type] : cluster;
}

PriceWork *price_work_new(const Model *model, const Plan *plan, const Cluster *cluster, OpTimes *known)
{
  PriceWork *w = g_new(PriceWork, 1);
  int n = model->n_specs * MAX(cluster->n_types, 1);

  *w = (PriceWork) { .model = model, .cluster = cluster, .n = n, .works = g_new(LayerWork, n),
                     .times = g_new(LayerTimes, n) };
  op_view(plan, &w->view);
  for (int i = 0; i < n; i++) {
    const Cluster *on = cluster_of(cluster, i / model->n_specs);
    layer_work_init(&w->works[i], model, &model->specs[i % model->n_specs], &w->view, on);
    w->times[i] = layer_times(&w->works[i], &w->view, on, known);
  }
  return w;
}

void price_work_free(PriceWork *w)
{
  if (!w)
    return;
  for (int i = 0; i < w->n; i++) {
    layer_work_clear(&w->works[i]);
    g_free(w->times[i].forward_s);
    g_free(w->times[i].backward_s);
  }
  g_free(w->works);
  g_free(w->times);
  g_free(w);
}

static PriceTable *specs_new(PriceWork *w, const Plan *plan)
{
  const Model *model = w->model;
  PriceTable *table = table_new(w->cluster, model->n_specs);

  for (int i = 0; i < w->n; i++) {
    layer_work_recompute(&w->works[i], model, &model->specs[i % model->n_specs], plan);
    layer_price_at(&table->layers[i], &w->works[i], &w->times[i], plan, cluster_of(w->cluster, i / model->n_specs));
  }
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
static void price_stage(LayerPrice *layers, const Model *model, const Plan *plan, int stage, int type,
                        const PriceTable *again, const PriceTable *kept)
{
  int first = plan_stage_first_layer(plan, model, stage), end = plan_stage_first_layer(plan, model, stage + 1);
  int from = MAX(first, 1), to = MIN(end, 1 + model->blocks), size = MAX(1, plan->scope.layers);
  int counted = recompute_of_stage(&plan->scope, stage, to - from);

  for (int i = first; i < end; i++)
    layers[i] = *price_of_layer(i < from + counted ? again : kept, model, type, i);
  if (plan->scope.method == RECOMPUTE_UNIFORM)
    for (int i = from; i < to; i += size)
      make_group(layers, i, MIN(size, to - i));
}

/* Forward, an activation goes from the division under one plan to that under the other; its gradient goes back. */
static void add_change(LayerPrice *layer, const Model *model, const Plan *from, const Plan *to, const Cluster *site)
{
  const double seconds[PASS_COUNT] = {
    [PASS_FORWARD] = layout_change_s(model, from, to, site),
    [PASS_BACKWARD] = layout_change_s(model, to, from, site),
    [PASS_INPUT] = layout_change_s(model, to, from, site),
  };

  for (int pass = 0; pass < PASS_COUNT; pass++) {
    layer->pass[pass].seconds += seconds[pass];
    layer->pass[pass].tensor_s += seconds[pass];
  }
  if (seconds[PASS_FORWARD] > 0 || seconds[PASS_BACKWARD] > 0)
    layer->transient_bytes = MAX(layer->transient_bytes, op_boundary_bytes(model, from) + op_boundary_bytes(model, to));
}

/* A stage takes and gives activations as the plan itself lays them out. */
static void price_changes(LayerPrice *layers, const Model *model, const Plan *plan, int stage, const Cluster *site)
{
  int first = plan_stage_first_layer(plan, model, stage), end = plan_stage_first_layer(plan, model, stage + 1);
  Plan before = plan_of_layer(plan, 0);

  for (int i = first; i < end; i++) {
    Plan own = plan_of_layer(plan, i);
    add_change(&layers[i], model, &before, &own, site);
    before = own;
  }
  Plan outside = plan_of_layer(plan, 0);
  if (end > first)
    add_change(&layers[end - 1], model, &before, &outside, site);
}

static void price_specs(LayerPrice *layers, const Model *model, const Plan *plan, const Cluster *site)
{
  g_autoptr(PriceWork) work = price_work_new(model, plan, site, NULL);
  g_autoptr(PriceTable) table = specs_new(work, plan);

  memcpy(layers, table->layers, table->n * sizeof *layers);
}

/* Layers that several strategies price, each once. */
static void price_runs(LayerPrice *layers, const Model *model, const Plan *plan, const Cluster *site)
{
  const LayerStrategies *all = &plan->strategies;
  g_autofree LayerPrice *specs = g_new(LayerPrice, model->n_specs);
  int layer = 1;

  Plan own = plan_of_layer(plan, 0);
  price_specs(specs, model, &own, site);
  for (int i = 0; i < model->n_layers; i++)
    layers[i] = specs[model->layers[i]];
  for (int run = 0; run < all->n; run++) {
    Plan view = plan_of_run(plan, &all->runs[run]);
    price_specs(specs, model, &view, site);
    for (int end = layer + all->runs[run].layers; layer < end; layer++)
      layers[layer] = specs[model->layers[layer]];
  }
  for (int stage = 0; stage < plan_stages(plan); stage++)
    price_changes(layers, model, plan, stage, site);
}

static PriceTable *runs_new(const Model *model, const Plan *plan, const Cluster *cluster)
{
  PriceTable *table = table_new(cluster, model->n_layers);

  table->by_layer = TRUE;
  for (int type = 0; type < table->n_types; type++)
    price_runs(table->layers + type * table->n, model, plan, cluster->n_types ? cluster->types[type] : cluster);
  return table;
}

PriceTable *price_work_table(PriceWork *w, const Plan *plan)
{
  const Model *model = w->model;
  Plan view;

  op_view(plan, &view);
  PriceTable *again = specs_new(w, &view);

  if (view.recompute != RECOMPUTE_FULL || !recompute_counts(&view.scope))
    return again;
  Plan keeps = view;
  keeps.recompute = RECOMPUTE_NONE;
  g_autoptr(PriceTable) some = again;
  g_autoptr(PriceTable) kept = specs_new(w, &keeps);
  PriceTable *table = table_new(w->cluster, model->n_layers);
  table->by_layer = TRUE;
  for (int type = 0; type < table->n_types; type++)
    for (int stage = 0; stage < plan_stages(&view); stage++)
      price_stage(table->layers + type * table->n, model, &view, stage, type, some, kept);
  return table;
}

PriceTable *price_table_new(const Model *model, const Plan *plan, const Cluster *cluster)
{
  if (plan->strategies.n > 0)
    return runs_new(model, plan, cluster);
  g_autoptr(PriceWork) work = price_work_new(model, plan, cluster, NULL);
  return price_work_table(work, plan);
}

void price_table_free(PriceTable *table)
{
  if (!table)
    return;
  g_free(table->layers);
  g_free(table);
}
