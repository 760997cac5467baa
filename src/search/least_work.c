#include "search/least_work.h"

#include <math.h>

/* Without a host that is waited for it may be less where the host is in the way. */
static double alone_of(const PassPrice *pass, gboolean unhosted)
{
  return unhosted && pass->idle_s > 0 ? 0 : pass->alone_s;
}

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
                 [LEAST_BACKWARD] = p->pass[PASS_BACKWARD].seconds - p->pass[PASS_BACKWARD].idle_s },
    .alone_s = alone_of(&p->pass[PASS_FORWARD], unhosted) + alone_of(&p->pass[PASS_BACKWARD], unhosted),
    .params = p->params, .expert_params = p->expert_params, .saved_bytes = p->saved_bytes,
    .working_bytes = p->saved_bytes + p->recomputed_bytes + p->transient_bytes,
    .frozen = { p->frozen[0], p->frozen[1] }, .narrow = { p->narrow[0], p->narrow[1] },
  };
}

static Least least_of(const Schedule *s)
{
  return s->placement != PLACE_LOOP || s->split ? LEAST_COMPUTE : s->recompute ? LEAST_BACKWARD : LEAST_WHOLE;
}

static void add_use(LayerUses *u, const Model *model, int layer)
{
  u->all++;
  u->inner += layer > 0 && layer < model->n_layers - 1;
  u->blocks += layer >= 1 && layer <= model->blocks;
  u->working += model_layer(model, layer)->kind != LAYER_EMBEDDING;
}

LayerUses *layer_uses(const Model *model)
{
  LayerUses *uses = g_new0(LayerUses, model->n_specs);

  for (int i = 0; i < model->n_layers; i++)
    add_use(&uses[model->layers[i]], model, i);
  return uses;
}

LayerUses *layer_uses_of_specs(const Model *model, const PassLayout *passes)
{
  LayerUses *uses = g_new0(LayerUses, 2 * model->n_specs);

  for (int i = 0; i < model->n_layers; i++)
    add_use(&uses[wide_has(&passes->wide, model->blocks, i) * model->n_specs + model->layers[i]], model, i);
  return uses;
}

/* Weights under which the whole model takes as long on each node type; their mean over the devices is 1. */
static void balance_types(const LeastLayers *layers, const Cluster *cluster, double *weights)
{
  double rates = 0;

  for (int type = 0; type < cluster->n_types; type++) {
    double all_s = 0;
    for (int i = 0; i < layers->n; i++)
      all_s += layers->uses[i].all * layers->layers[type * layers->n + i].seconds[LEAST_WHOLE];
    weights[type] = 1 / all_s;
    rates += cluster->types[type]->devices / (double)cluster->devices / all_s;
  }
  for (int type = 0; type < cluster->n_types; type++)
    weights[type] /= rates;
}

static void add_kind(LeastWork *work, const LeastLayer *layer, int blocks)
{
  LeastBlocks *kind = &work->kinds[MIN(work->n_kinds, LEAST_KINDS - 1)];

  for (int least = 0; least < LEAST_COUNT; least++)
    kind->seconds[least] = kind->blocks ? MIN(kind->seconds[least], layer->seconds[least]) : layer->seconds[least];
  kind->blocks += blocks;
  work->n_kinds = MIN(work->n_kinds + 1, LEAST_KINDS);
}

/* Adds the layers that have an entry, of which each type's price is `stride` behind the one before. */
static void add_entry(LeastWork *work, const LayerUses *uses, const LeastLayer *first, int stride, int types,
                      const double *weights)
{
  double saved = INFINITY;

  work->params += uses->all * first->params;
  work->expert_params += uses->all * first->expert_params;
  for (int experts = 0; experts < 2; experts++) {
    work->narrow[experts] += uses->all * first->narrow[experts];
    work->frozen[experts].params += uses->all * first->frozen[experts].params;
    work->frozen[experts].bytes += uses->all * first->frozen[experts].bytes;
  }
  for (int type = 0; type < types; type++) {
    saved = MIN(saved, first[type * stride].saved_bytes);
    if (uses->working > 0)
      work->working_bytes = MIN(work->working_bytes, first[type * stride].working_bytes);
  }
  work->saved_bytes += uses->all * saved;
  for (int least = 0; least < LEAST_COUNT; least++) {
    double seconds = INFINITY;
    for (int type = 0; type < types; type++)
      seconds = MIN(seconds, weights[type] * first[type * stride].seconds[least]);
    work->seconds[least][0] += uses->all * seconds;
    work->seconds[least][1] += uses->inner * seconds;
  }
  work->alone_s += uses->all * first->alone_s;
  if (uses->blocks > 0)
    work->block_s = MIN(work->block_s, first->seconds[LEAST_WHOLE]);
  if (uses->blocks > 0 && work->block_s > 0)
    add_kind(work, first, uses->blocks);
}

LeastWork least_work(const LeastLayers *layers, const Cluster *cluster)
{
  int types = cluster_types(cluster);
  LeastWork work = { .block_s = cluster->n_types ? 0 : INFINITY, .working_bytes = INFINITY };
  double weights[NODE_TYPES_MAX] = { 1 };

  if (cluster->n_types > 0)
    balance_types(layers, cluster, weights);
  for (int i = 0; i < layers->n; i++)
    if (layers->uses[i].all > 0)
      add_entry(&work, &layers->uses[i], &layers->layers[i], layers->n, types, weights);
  return work;
}

/* Seconds of a micro-batch on the rank that holds most blocks, at least. */
static double fullest_rank_s(const LeastWork *work, Least least, int ranks, int copies)
{
  double fullest_s = 0;

  for (int i = 0; i < work->n_kinds; i++) {
    double block_s = work->kinds[i].seconds[least];
    int blocks = 0;
    for (int k = 0; k < work->n_kinds; k++)
      blocks += work->kinds[k].seconds[least] >= block_s ? copies * work->kinds[k].blocks : 0;
    fullest_s = MAX(fullest_s, (blocks + ranks - 1) / ranks * block_s / copies);
  }
  return fullest_s * (1 - 1e-8);
}

double least_step_s(const LeastWork *work, const Schedule *schedule, const ScheduleShape *shape)
{
  double ranks = shape->ranks, micro = shape->micro;
  Least least = least_of(schedule);
  double all_s = work->seconds[least][schedule->vocabulary > 0] * (1 - 1e-8), step_s = micro * all_s / ranks;
  double fullest_s = micro * fullest_rank_s(work, least, shape->ranks, schedule_copies(schedule));

  if (least != LEAST_WHOLE || schedule->vocabulary > 0 || work->block_s == 0)
    return MAX(step_s, fullest_s);
  if (ranks == 1)
    return fmax(fullest_s, step_s) + (schedule->first ? work->alone_s * (1 - 1e-8) : 0);
  if (shape->chunks == 1)
    return fmax(fullest_s, all_s / (1 - pow(1 - 1 / micro, ranks)));
  return MAX(fullest_s, step_s + work->block_s * MAX(0, (ranks - 1) * (ranks - 2)) / (2 * ranks) * (1 - 1e-8));
}
