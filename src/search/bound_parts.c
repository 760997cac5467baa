#include "search/bound_parts.h"

#include "cost/quantized.h"
#include "cost/sharded.h"

#include <math.h>

Bound bound_of(const Model *model, const Layout *layout, const Cluster *cluster, const PriceSums *sums)
{
  Bound b = { .model = model, .layout = layout, .cluster = cluster, .sums = sums,
              .site = cluster, .mixed = sums->cluster->n_types > 0,
              .copies = schedule_copies(layout->pipeline.schedule) };

  const LayerSplit *split = &layout->pipeline.cut.split;

  b.shape = layout->pipeline.shape;
  b.stages = layout->pipeline.cut.stages;
  b.kinds = layout->passes.experts_apart ? 2 : 1;
  b.layers = model->blocks / b.stages;
  for (int stage = 0, layer = 1; stage < split->stages; stage++) {
    b.first[stage] = stage == 0 ? 0 : layer;
    layer += split->layers[stage];
  }
  b.first[split->stages] = model->n_layers;
  return b;
}

double sum_of_stage_mixed(const Bound *b, const double *sum, int stage)
{
  double least = INFINITY;

  for (int copy = 0; copy < b->copies; copy++) {
    int rank = schedule_place(b->layout->pipeline.schedule, &b->shape, stage, copy).rank;
    least = fmin(least, sum_of_stage_on(b, sum, stage, mesh_node_type(&b->layout->mesh, b->sums->cluster, rank)));
  }
  return least;
}

static double of_rank_mixed(const Bound *b, const double *sum, int rank)
{
  int type = mesh_node_type(&b->layout->mesh, b->sums->cluster, rank);
  double total = 0;

  for (int chunk = 0; chunk < b->shape.chunks; chunk++)
    total += sum_of_stage_on(b, sum, bound_stage(b, rank, chunk), type);
  return total;
}

double sum_of_rank(const Bound *b, const double *sum, int rank)
{
  int last = b->shape.chunks - 1;
  double total = 0;

  if (b->mixed)
    return of_rank_mixed(b, sum, rank);
  if (last > 1 && bound_alike(b))
    return sum_of_stage_on(b, sum, bound_stage(b, rank, 0), 0) +
           (last - 1) * sum_of_stage_on(b, sum, bound_stage(b, rank, 1), 0) +
           sum_of_stage_on(b, sum, bound_stage(b, rank, last), 0);
  for (int chunk = 0; chunk < b->shape.chunks; chunk++)
    total += sum_of_stage_on(b, sum, bound_stage(b, rank, chunk), 0);
  return total;
}

static double comm(const Bound *b, Collective what, double bytes, const GroupShape *group)
{
  return sharded_cost(bound_states(b, 0), b->site, what, bytes, group, 1).seconds;
}

double bound_reduction_s(const Bound *b, double params, int kind)
{
  const StateLayout *p = bound_states(b, 0);

  if (p->sharding.quantized_gradients)
    return quantized_scatter_cost(b->site, params, &b->data[kind]).seconds;
  return comm(b, p->reduction, params * p->reduce_bytes, &b->summed[kind]);
}

double bound_across_s(const Bound *b, double gradients, int kind)
{
  double part = gradients / bound_states(b, kind)->shards;
  return collective_cost(b->site, COLLECTIVE_ALL_REDUCE, part, &b->part_copies[kind]).seconds;
}

double bound_gather_s(const Bound *b, double params, double narrow, double frozen, const GroupShape *group,
                      double share)
{
  const StateLayout *p = bound_states(b, 0);
  double bytes = op_gathered_bytes(p, params, narrow) + (p->zero == 3 ? frozen : 0);

  if (p->sharding.quantized_weights)
    return quantized_gather_cost(b->site, params, group).seconds;
  if (p->sharding.tiling > 1)
    return collective_cost(b->site, COLLECTIVE_ALL_GATHER, bytes, group).seconds;
  return sharded_cost(p, b->site, COLLECTIVE_ALL_GATHER, bytes, group, share).seconds;
}

/* Gathers of a step. Where weights stay gathered, or whole, what is left is not counted up. Stages that hold FSDP2 back
 * gather for every pass that a forward precedes, which all are but the first and those behind the other backwards. */
static double gathers(const Bound *b, const BoundWeights *w, int kind)
{
  const StateLayout *p = bound_states(b, 0);
  double params = w->params[kind], narrow = w->narrow[kind], frozen = w->frozen[kind];
  gboolean gathers = p->zero > 0 && p->sharding.persistence == 0;
  double once = gathers ? bound_gather_s(b, params, narrow, frozen, &b->data[kind], 1) : 0, again = once;

  if (p->zero < 3)
    return p->overlap_parameters ? once : 0;
  if (p->sharding.keeps_gathered)
    return once;
  if (p->sharding.secondary) {
    GroupShape secondary = state_group(b->layout, b->site, kind, RANKS_SECONDARY);
    again = bound_gather_s(b, params, narrow, frozen, &secondary, 1);
  }
  if (p->stages_hold)
    return once + bound_chunk_micro(b) * fmin(once, again);
  return bound_chunk_micro(b) * (once + again);
}

/* What the data lane carries before the norm whatever its order. At Bound.site
 * one call must be no slower than its pieces: site_of_pieces(). */
static double data_lane(const Bound *b, const BoundWeights *w)
{
  const StateLayout *p = bound_states(b, 0);
  const double *params = w->params;
  double s = 0;

  for (int kind = 0; kind < b->kinds && !p->framework->single_process; kind++)
    if (bound_states(b, kind)->sums)
      s += bound_reduction_s(b, params[kind], kind) * (p->sums_each ? bound_chunk_micro(b) : 1) +
           bound_across_s(b, params[kind] * p->reduce_bytes, kind) + gathers(b, w, kind);
  return s;
}

/* From the norm to the end of the step, on a rank. */
static double after_norm(const Bound *b, const BoundWeights *w)
{
  const StateLayout *p = bound_states(b, 0);
  double s = optimizer_price(b->layout->states, b->site, w->params, w->narrow, w->sharers).seconds;

  for (int kind = 0; kind < b->kinds; kind++)
    if (bound_states(b, kind)->gathers_at_end)
      s += comm(b, COLLECTIVE_ALL_GATHER, op_gathered_bytes(p, w->params[kind], w->narrow[kind]), &b->data[kind]);
  return s;
}

/* Gradients that can only be reduced when the rank's last backward has ended. */
static double reduction_tail(const Bound *b, const double params[2])
{
  const StateLayout *p = bound_states(b, 0);
  double s = 0;

  if (p->overlap_gradients || p->sums_each || p->framework->single_process)
    return 0;
  for (int kind = 0; kind < b->kinds; kind++)
    if (bound_states(b, kind)->sums)
      s += bound_reduction_s(b, params[kind], kind) +
           bound_across_s(b, params[kind] * p->reduce_bytes, kind);
  return s;
}

/*
 * What reductions of every micro-batch cost a rank's computation at least. None
 * can run before the rank's first pass. From then on computation of W seconds
 * and reductions of D seconds that overlap for x of them take
 * W + x (1 - 1/s) + D - x, which is least at x = D: W + D (1 - 1/s).
 */
static double slowed_by_reductions(const Bound *b, const double params[2])
{
  const StateLayout *p = bound_states(b, 0);
  double s = 0;

  for (int kind = 0; kind < b->kinds && p->sums_each && !p->sharding.quantized_gradients; kind++)
    if (bound_states(b, kind)->sums)
      s += bound_chunk_micro(b) * bound_reduction_s(b, params[kind], kind) *
           (1 - 1 / overlap_slowdown(b->site, &b->summed[kind]));
  return s;
}

void bound_rank_groups(Bound *b)
{
  for (int kind = 0; kind < b->kinds; kind++) {
    b->data[kind] = state_group(b->layout, b->site, kind, RANKS_SHARDS);
    b->summed[kind] = state_group(b->layout, b->site, kind, RANKS_SUMS);
    b->part_copies[kind] = state_group(b->layout, b->site, kind, RANKS_COPIES);
  }
}

/* The site, or into `own` one on whose links no byte of a vector adds slower than the vector's first: programs sum
 * gradients in pieces that may all stay in caches, which one vector of all of them does not. */
static const Cluster *site_of_pieces(const Cluster *site, Cluster *own)
{
  gboolean far = FALSE;

  for (int t = 0; t < site->n_tiers; t++)
    far |= site->tiers[t].link.far_reduce_slowdown > site->tiers[t].link.reduce_slowdown;
  if (!far)
    return site;
  *own = *site;
  for (int t = 0; t < own->n_tiers; t++)
    own->tiers[t].link.far_reduce_slowdown = MIN(own->tiers[t].link.far_reduce_slowdown,
                                                 own->tiers[t].link.reduce_slowdown);
  return own;
}

RankEnd bound_rank_end(Bound *b, const BoundWeights *w)
{
  const double *params = w->params;
  const Cluster *site = b->site;
  Cluster pieces;

  bound_rank_groups(b);
  RankEnd end = { .site = site, .weights = *w, .micro = bound_chunk_micro(b), .last = after_norm(b, w) };
  b->site = site_of_pieces(site, &pieces);
  end.lane = data_lane(b, w);
  end.tail = reduction_tail(b, params);
  end.slowed = slowed_by_reductions(b, params);
  b->site = site;
  return end;
}

BoundWeights bound_weights_of(const Bound *b, int layer)
{
  const PriceSums *s = b->sums;
  gboolean apart = b->kinds > 1;
  const double *sums[] = { s->params, s->expert_params, s->narrow, s->expert_narrow, s->frozen, s->expert_frozen };
  double own[6];

  for (int i = 0; i < 6; i++)
    own[i] = i % 2 && !apart ? 0 : sums[i][layer + 1] - sums[i][layer];
  return (BoundWeights) { { own[0], own[1] }, { own[2], own[3] }, { own[4], own[5] }, { 0 } };
}

static double sharers(const Bound *b, const double *sum, int rank)
{
  g_autofree double *needs = g_new(double, b->shape.ranks);

  for (int i = 0; i < b->shape.ranks; i++)
    needs[i] = sum_of_rank(b, sum, i);
  return mesh_node_sharers(&b->layout->mesh, b->cluster, rank, needs);
}

BoundWeights bound_weights(const Bound *b, int rank)
{
  const PriceSums *s = b->sums;
  gboolean apart = b->kinds > 1;

  return (BoundWeights) { { sum_of_rank(b, s->params, rank), apart ? sum_of_rank(b, s->expert_params, rank) : 0 },
                          { sum_of_rank(b, s->narrow, rank), apart ? sum_of_rank(b, s->expert_narrow, rank) : 0 },
                          { sum_of_rank(b, s->frozen, rank), apart ? sum_of_rank(b, s->expert_frozen, rank) : 0 },
                          { 0 } };
}

BoundWeights bound_weights_at_end(const Bound *b, int rank)
{
  BoundWeights w = bound_weights(b, rank);

  if (bound_states(b, 0)->offload.optimizer) {
    w.sharers[0] = sharers(b, b->sums->params, rank);
    w.sharers[1] = b->kinds > 1 ? sharers(b, b->sums->expert_params, rank) : 0;
  }
  return w;
}
