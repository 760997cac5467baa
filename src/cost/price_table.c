/* Prices of a model's layers under a plan. */
#include "cost/price.h"

static PriceTable *specs_new(const Model *model, const Plan *plan, const Cluster *cluster)
{
  PriceTable *table = g_new(PriceTable, 1);

  table->n = model->n_specs;
  table->layers = g_new(LayerPrice, table->n);
  table->entry = g_memdup2(model->layers, model->n_layers * sizeof *table->entry);
  for (int i = 0; i < table->n; i++) {
    LayerWork work;
    layer_work_init(&work, model, &model->specs[i], plan, cluster);
    layer_price(&table->layers[i], &work, plan, cluster);
    layer_work_clear(&work);
  }
  return table;
}

/* Layers first .. first + n - 1 as one group. */
static void make_group(PriceTable *table, int first, int n)
{
  LayerPrice *last = &table->layers[first + n - 1];

  for (int i = first; i < first + n; i++) {
    LayerPrice *layer = &table->layers[i];
    last->recomputed_bytes += (layer == last ? 0 : layer->recomputed_bytes) + (i == first ? 0 : layer->saved_bytes);
    layer->saved_bytes *= i == first;
  }
}

/* What a stage's layers cost, `again` where they are made again, `kept` where not. */
static void price_stage(PriceTable *table, const Model *model, const Plan *plan, int stage, const PriceTable *again,
                        const PriceTable *kept)
{
  int first = plan_stage_first_layer(plan, model, stage), end = plan_stage_first_layer(plan, model, stage + 1);
  int from = MAX(first, 1), to = MIN(end, 1 + model->blocks), size = MAX(1, plan->scope.layers);
  int counted = recompute_of_stage(&plan->scope, stage, to - from);

  for (int i = first; i < end; i++)
    table->layers[i] = *price_of_layer(i < from + counted ? again : kept, i);
  if (plan->scope.method == RECOMPUTE_UNIFORM)
    for (int i = from; i < to; i += size)
      make_group(table, i, MIN(size, to - i));
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
  PriceTable *table = g_new(PriceTable, 1);
  table->n = model->n_layers;
  table->layers = g_new(LayerPrice, table->n);
  table->entry = g_new(int, table->n);
  for (int i = 0; i < table->n; i++)
    table->entry[i] = i;
  for (int stage = 0; stage < plan_stages(plan); stage++)
    price_stage(table, model, plan, stage, some, kept);
  return table;
}

void price_table_free(PriceTable *table)
{
  if (!table)
    return;
  g_free(table->layers);
  g_free(table->entry);
  g_free(table);
}
