#include "search/least_work.h"

#include <math.h>

LeastLayer least_layer(const LayerPrice *p, gboolean unhosted)
{
  double compute_s[PASS_COUNT], idle_s[PASS_COUNT];

  for (int i = 0; i < PASS_COUNT; i++) {
    idle_s[i] = unhosted ? p->pass[i].idle_s : 0;
    compute_s[i] = p->pass[i].compute_s - idle_s[i];
  }
  double backward_s = p->pass[PASS_BACKWARD].seconds - idle_s[PASS_BACKWARD];

  return (LeastLayer) {
    .seconds = { [LEAST_WHOLE] = p->pass[PASS_FORWARD].seconds - idle_s[PASS_FORWARD] + backward_s,
                 [LEAST_COMPUTE] = compute_s[PASS_FORWARD] +
                                   MIN(compute_s[PASS_BACKWARD], compute_s[PASS_INPUT] + compute_s[PASS_WEIGHT]),
                 [LEAST_BACKWARD] = backward_s },
    .params = p->params, .expert_params = p->expert_params, .saved_bytes = p->saved_bytes,
    .working_bytes = p->saved_bytes + p->recomputed_bytes + p->transient_bytes,
    .frozen = { p->frozen[0], p->frozen[1] },
  };
}

static Least least_of(const Schedule *s)
{
  return s->placement != PLACE_LOOP || s->split ? LEAST_COMPUTE : s->recompute ? LEAST_BACKWARD : LEAST_WHOLE;
}

static const LeastLayer *layer_at(const LeastLayers *all, const Model *model, int type, int layer)
{
  return &all->layers[type * all->n + (all->by_layer ? layer : model->layers[layer])];
}

/* Weights under which the whole model takes as long on each node type; their mean over the devices is 1. */
static void balance_types(const Model *model, const LeastLayers *layers, const Cluster *cluster, double *weights)
{
  double rates = 0;

  for (int type = 0; type < cluster->n_types; type++) {
    double all_s = 0;
    for (int i = 0; i < model->n_layers; i++)
      all_s += layer_at(layers, model, type, i)->seconds[LEAST_WHOLE];
    weights[type] = 1 / all_s;
    rates += cluster->types[type]->devices / (double)cluster->devices / all_s;
  }
  for (int type = 0; type < cluster->n_types; type++)
    weights[type] /= rates;
}

LeastWork least_work(const Model *model, const LeastLayers *layers, const Cluster *cluster)
{
  int types = MAX(cluster->n_types, 1);
  LeastWork work = { .block_s = cluster->n_types ? 0 : INFINITY, .working_bytes = INFINITY };
  double weights[NODE_TYPES_MAX] = { 1 };

  if (cluster->n_types > 0)
    balance_types(model, layers, cluster, weights);
  for (int i = 0; i < model->n_layers; i++) {
    const LeastLayer *first = layer_at(layers, model, 0, i);
    gboolean end = i == 0 || i == model->n_layers - 1;
    work.params += first->params;
    work.expert_params += first->expert_params;
    for (int experts = 0; experts < 2; experts++)
      work.frozen[experts] = frozen_sum(work.frozen[experts], first->frozen[experts]);
    double saved = INFINITY;
    for (int type = 0; type < types; type++) {
      const LeastLayer *layer = layer_at(layers, model, type, i);
      saved = MIN(saved, layer->saved_bytes);
      if (model_layer(model, i)->kind != LAYER_EMBEDDING)
        work.working_bytes = MIN(work.working_bytes, layer->working_bytes);
    }
    work.saved_bytes += saved;
    for (int least = 0; least < LEAST_COUNT; least++) {
      double seconds = INFINITY;
      for (int type = 0; type < types; type++)
        seconds = MIN(seconds, weights[type] * layer_at(layers, model, type, i)->seconds[least]);
      work.seconds[least][0] += seconds;
      work.seconds[least][1] += end ? 0 : seconds;
    }
    if (i >= 1 && i <= model->blocks)
      work.block_s = MIN(work.block_s, first->seconds[LEAST_WHOLE]);
  }
  return work;
}

LeastWork least_work_of(const Model *model, const PriceTable *prices, const Cluster *cluster)
{
  g_autofree LeastLayer *list = g_new(LeastLayer, prices->n_types * prices->n);
  const LeastLayers layers = { list, prices->n, prices->by_layer };

  for (int i = 0; i < prices->n_types * prices->n; i++)
    list[i] = least_layer(&prices->layers[i], FALSE);
  return least_work(model, &layers, cluster);
}

double least_step_s(const LeastWork *work, const Schedule *schedule, const ScheduleShape *shape)
{
  double ranks = shape->ranks, micro = shape->micro;
  Least least = least_of(schedule);
  double all_s = work->seconds[least][schedule->vocabulary > 0] * (1 - 1e-8), step_s = micro * all_s / ranks;

  if (least != LEAST_WHOLE || schedule->vocabulary > 0 || work->block_s == 0)
    return step_s;
  return shape->chunks == 1 ? all_s / (1 - pow(1 - 1 / micro, ranks))
                            : step_s + work->block_s * MAX(0, (ranks - 1) * (ranks - 2)) / (2 * ranks) * (1 - 1e-8);
}
