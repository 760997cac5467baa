/* Prices of a model's layers under a plan. */
#include "cost/price.h"

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

PriceTable *price_table_new(const Model *model, const Plan *plan, const Cluster *cluster)
{
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
