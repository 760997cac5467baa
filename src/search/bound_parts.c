#include "search/bound_parts.h"

#include "cost/quantized.h"

#include <math.h>

Bound bound_of(const Model *model, const Plan *plan, const Cluster *cluster, const PriceSums *sums)
{
  Bound b = { .model = model, .plan = plan, .cluster = cluster, .sums = sums, .shape = plan_shape(plan),
              .site = cluster, .mixed = sums->cluster->n_types > 0, .stages = plan_stages(plan),
              .copies = schedule_copies(plan->schedule) };

  b.kinds = plan_experts_apart(plan) ? 2 : 1;
  if (b.kinds > 1)
    b.experts = plan_of_experts(plan);
  b.layers = model->blocks / b.stages;
  for (int stage = 0, layer = 1; stage < plan->split.stages; stage++) {
    b.first[stage] = stage == 0 ? 0 : layer;
    layer += plan->split.layers[stage];
  }
  b.first[plan->split.stages] = model->n_layers;
  return b;
}

double sum_of_stage_mixed(const Bound *b, const double *sum, int stage)
{
  double least = INFINITY;

  for (int copy = 0; copy < b->copies; copy++) {
    int rank = schedule_place(b->plan->schedule, &b->shape, stage, copy).rank;
    least = MIN(least, sum_of_stage_on(b, sum, stage, mesh_node_type(b->plan, b->sums->cluster, rank)));
  }
  return least;
}

static double of_rank_mixed(const Bound *b, const double *sum, int rank)
{
  int type = mesh_node_type(b->plan, b->sums->cluster, rank);
  double total = 0;

  for (int chunk = 0; chunk < b->plan->vpp; chunk++)
    total += sum_of_stage_on(b, sum, bound_stage(b, rank, chunk), type);
  return total;
}

double sum_of_rank(const Bound *b, const double *sum, int rank)
{
  int last = b->plan->vpp - 1;
  double total = 0;

  if (b->mixed)
    return of_rank_mixed(b, sum, rank);
  if (last > 1 && bound_alike(b))
    return sum_of_stage_on(b, sum, bound_stage(b, rank, 0), 0) + (last - 1) * sum_of_stage_on(b, sum, bound_stage(b, rank, 1), 0) +
           sum_of_stage_on(b, sum, bound_stage(b, rank, last), 0);
  for (int chunk = 0; chunk < b->plan->vpp; chunk++)
    total += sum_of_stage_on(b, sum, bound_stage(b, rank, chunk), 0);
  return total;
}

static double comm(const Bound *b, Collective what, double bytes, int kind)
{
  return collective_cost(b->site, what, bytes, &b->data[kind]).seconds;
}

double bound_reduction_s(const Bound *b, double params, int kind)
{
  const Plan *p = b->plan;

  if (p->sharding.quantized_gradients)
    return quantized_scatter_cost(b->site, params, &b->data[kind]).seconds;
  return comm(b, p->zero ? COLLECTIVE_REDUCE_SCATTER : COLLECTIVE_ALL_REDUCE, params * op_reduce_bytes(p), kind);
}

double bound_across_s(const Bound *b, double gradients, int kind)
{
  double part = gradients / plan_shards(bound_view(b, kind));
  return collective_cost(b->site, COLLECTIVE_ALL_REDUCE, part, &b->part_copies[kind]).seconds;
}

double bound_gather_s(const Bound *b, double params, const GroupShape *group)
{
  const Plan *p = b->plan;

  if (p->sharding.quantized_weights)
    return quantized_gather_cost(b->site, params, group).seconds;
  return collective_cost(b->site, COLLECTIVE_ALL_GATHER, params * op_gathered_weight_bytes(p), group).seconds;
}

/* Gathers of a step. Where weights stay gathered, or whole, what is left is not counted up. */
static double gathers(const Bound *b, double params, int kind)
{
  const Plan *p = b->plan;
  double once = p->zero > 0 && p->sharding.persistence == 0 ? bound_gather_s(b, params, &b->data[kind]) : 0, again = once;

  if (p->zero < 3)
    return p->overlap.parameters ? once : 0;
  if (p->sharding.keeps_gathered)
    return once;
  if (p->sharding.secondary) {
    GroupShape secondary = kind ? mesh_expert_secondary(p, b->site) : mesh_secondary(p, b->site);
    again = bound_gather_s(b, params, &secondary);
  }
  return bound_chunk_micro(b) * (once + again);
}

/* What the data lane carries before the norm whatever its order. One call is
 * never slower than its pieces. */
static double data_lane(const Bound *b, const double params[2])
{
  const Plan *p = b->plan;
  double s = 0;

  for (int kind = 0; kind < b->kinds && !p->framework->single_process; kind++)
    if (plan_replicas(bound_view(b, kind)) > 1)
      s += bound_reduction_s(b, params[kind], kind) * (bound_sums_each(p) ? bound_chunk_micro(b) : 1) +
           bound_across_s(b, params[kind] * op_reduce_bytes(p), kind) + gathers(b, params[kind], kind);
  return s;
}

/* From the norm to the end of the step, on a rank. */
static double after_norm(const Bound *b, const double params[2])
{
  const Plan *p = b->plan;
  double s = optimizer_price(p, b->site, params[0], params[1]).seconds;

  for (int kind = 0; kind < b->kinds; kind++)
    if (plan_gathers_at_end(bound_view(b, kind)))
      s += comm(b, COLLECTIVE_ALL_GATHER, params[kind] * op_gathered_weight_bytes(p), kind);
  return s;
}

/* Gradients that can only be reduced when the rank's last backward has ended. */
static double reduction_tail(const Bound *b, const double params[2])
{
  const Plan *p = b->plan;
  double s = 0;

  if (p->overlap.gradients || bound_sums_each(p) || p->framework->single_process)
    return 0;
  for (int kind = 0; kind < b->kinds; kind++)
    if (plan_replicas(bound_view(b, kind)) > 1)
      s += bound_reduction_s(b, params[kind], kind) +
           bound_across_s(b, params[kind] * op_reduce_bytes(p), kind);
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
  const Plan *p = b->plan;
  double s = 0;

  for (int kind = 0; kind < b->kinds && bound_sums_each(p) && !p->sharding.quantized_gradients; kind++)
    if (plan_replicas(bound_view(b, kind)) > 1)
      s += bound_chunk_micro(b) * comm(b, COLLECTIVE_REDUCE_SCATTER, params[kind] * op_reduce_bytes(p), kind) *
           (1 - 1 / overlap_slowdown(b->site, &b->data[kind]));
  return s;
}

void bound_rank_groups(Bound *b)
{
  b->data[0] = mesh_shards(b->plan, b->site);
  b->part_copies[0] = mesh_shard_copies(b->plan, b->site);
  if (b->kinds > 1) {
    b->data[1] = mesh_expert_shards(b->plan, b->site);
    b->part_copies[1] = mesh_expert_shard_copies(b->plan, b->site);
  }
}

RankEnd bound_rank_end(Bound *b, const double params[2])
{
  bound_rank_groups(b);
  return (RankEnd) { b->site, { params[0], params[1] }, bound_chunk_micro(b), data_lane(b, params), after_norm(b, params),
                     reduction_tail(b, params), slowed_by_reductions(b, params) };
}

double bound_expert_params(const Bound *b, int rank)
{
  return b->kinds > 1 ? sum_of_rank(b, b->sums->expert_params, rank) : 0;
}
