/* Prices of a model's layers under a plan. */
#include "cost/price.h"

#include "cost/layout.h"

static PriceTable *table_new(const Cluster *cluster, int n)
{
  PriceTable *table = g_new0(PriceTable, 1);

  table->n = n;
  table->n_types = MAX(cluster->n_types, 1);
  table->layers = g_new(LayerPrice, table->n_types * n);
  return table;
}

static void price_specs(LayerPrice *layers, const Model *model, const Plan *plan, const Cluster *cluster)
{
  for (int i = 0; i < model->n_specs; i++) {
    LayerWork work;
    layer_work_init(&work, model, &model->specs[i], plan, cluster);
    layer_price(&layers[i], &work, plan, cluster);
    layer_work_clear(&work);
  }
}

static PriceTable *specs_new(const Model *model, const Plan *plan, const Cluster *cluster)
{
  PriceTable *table = table_new(cluster, model->n_specs);

  for (int type = 0; type < table->n_types; type++)
    price_specs(table->layers + type * table->n, model, plan, cluster->n_types ? cluster->types[type] : cluster);
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

PriceTable *price_table_new(const Model *model, const Plan *plan, const Cluster *cluster)
{
  if (plan->strategies.n > 0)
    return runs_new(model, plan, cluster);
  PriceTable *again = specs_new(model, plan, cluster);

  if (plan->recompute != RECOMPUTE_FULL || !recompute_counts(&plan->scope))
    return again;
  Plan keeps = *plan;
  keeps.recompute = RECOMPUTE_NONE;
  g_autoptr(PriceTable) some = again;
  g_autoptr(PriceTable) kept = specs_new(model, &keeps, cluster);
  PriceTable *table = table_new(cluster, model->n_layers);
  table->by_layer = TRUE;
  for (int type = 0; type < table->n_types; type++)
    for (int stage = 0; stage < plan_stages(plan); stage++)
      price_stage(table->layers + type * table->n, model, plan, stage, type, some, kept);
  return table;
}

void price_table_free(PriceTable *table)
{
  if (!table)
    return;
  g_free(table->layers);
  g_free(table);
}
