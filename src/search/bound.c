#include "search/bound.h"

#include "cost/kernel.h"

#include <math.h>

PriceSums *price_sums_new(const Model *model, const Plan *plan, const Cluster *cluster)
{
  PriceSums *s = g_new0(PriceSums, 1);
  int n = model->n_layers;

  s->prices = price_table_new(model, plan, cluster);
  s->forward_s = g_new0(double, n + 1);
  s->backward_s = g_new0(double, n + 1);
  s->params = g_new0(double, n + 1);
  s->saved = g_new0(double, n + 1);
  s->transient = INFINITY;
  for (int i = 0; i < n; i++) {
    const LayerPrice *p = &s->prices->layers[model->layers[i]];
    s->forward_s[i + 1] = s->forward_s[i] + p->pass[PASS_FORWARD].seconds;
    s->backward_s[i + 1] = s->backward_s[i] + p->pass[PASS_BACKWARD].seconds;
    s->params[i + 1] = s->params[i] + p->params;
    s->saved[i + 1] = s->saved[i] + p->saved_bytes;
    if (model_layer(model, i)->kind != LAYER_EMBEDDING)
      s->transient = MIN(s->transient, p->recomputed_bytes + p->transient_bytes);
  }
  return s;
}

void price_sums_free(PriceSums *s)
{
  if (!s)
    return;
  price_table_free(s->prices);
  g_free(s->forward_s);
  g_free(s->backward_s);
  g_free(s->params);
  g_free(s->saved);
  g_free(s);
}

typedef struct {
  const Model *model;
  const Plan *plan;
  const Cluster *cluster;
  const PriceSums *sums;
  GroupShape data;
} Bound;

/* Difference of a running sum over the layers of a stage. */
static double of_stage(const Bound *b, const double *sum, int stage)
{
  return sum[plan_stage_first_layer(b->plan, b->model, stage + 1)] - sum[plan_stage_first_layer(b->plan, b->model, stage)];
}

static double of_rank(const Bound *b, const double *sum, int rank)
{
  double total = 0;
  for (int chunk = 0; chunk < b->plan->vpp; chunk++)
    total += of_stage(b, sum, chunk * b->plan->pp + rank);
  return total;
}

static double comm(const Bound *b, Collective what, double bytes)
{
  return collective_cost(b->cluster, what, bytes, &b->data).seconds;
}

/* What the data lane carries before the norm whatever its order. One call is
 * never slower than its pieces. */
static double data_lane(const Bound *b, double params)
{
  const Plan *p = b->plan;
  double weights = params * dtype_bytes[p->precision], gradients = params * op_reduce_bytes(p);
  int m = plan_micro_batches(p);
  int gathers = p->zero == 3 ? 2 * m : p->zero > 0 && p->overlap.parameters ? 1 : 0;

  if (p->dp == 1)
    return 0;
  double reduction = comm(b, p->zero ? COLLECTIVE_REDUCE_SCATTER : COLLECTIVE_ALL_REDUCE, gradients);
  return reduction * (p->zero >= 2 ? m : 1) + gathers * comm(b, COLLECTIVE_ALL_GATHER, weights);
}

/* From the norm to the end of the step, on a rank. */
static double after_norm(const Bound *b, double params)
{
  const Plan *p = b->plan;
  double owned = p->zero >= 1 ? params / p->dp : params;
  double s = memory_s(&b->cluster->device, owned * p->framework->optimizer_bytes, 1);

  if (p->dp > 1 && (p->zero == 1 || p->zero == 2) && !p->overlap.parameters)
    s += comm(b, COLLECTIVE_ALL_GATHER, params * dtype_bytes[p->precision]);
  return s;
}

/* Gradients that can only be reduced when the rank's last backward has ended. */
static double reduction_tail(const Bound *b, double params)
{
  const Plan *p = b->plan;

  if (p->dp == 1 || p->overlap.gradients || p->zero >= 2)
    return 0;
  return comm(b, p->zero ? COLLECTIVE_REDUCE_SCATTER : COLLECTIVE_ALL_REDUCE, params * op_reduce_bytes(p));
}

/*
 * What reductions of every micro-batch cost a rank's computation at least. None
 * can run before the rank's first pass. From then on computation of W seconds
 * and reductions of D seconds that overlap for x of them take
 * W + x (1 - 1/s) + D - x, which is least at x = D: W + D (1 - 1/s).
 */
static double slowed_by_reductions(const Bound *b, double params)
{
  const Plan *p = b->plan;

  if (p->dp == 1 || p->zero < 2)
    return 0;
  double reductions = plan_micro_batches(p) * comm(b, COLLECTIVE_REDUCE_SCATTER, params * op_reduce_bytes(p));
  return reductions * (1 - 1 / overlap_slowdown(b->cluster, &b->data));
}

/* Communication and optimizer of a rank; neighbours mostly hold the same. */
typedef struct {
  double params, lane, last, tail, slowed;
} RankEnd;

static void update_rank_end(const Bound *b, int rank, RankEnd *end)
{
  double params = of_rank(b, b->sums->params, rank);

  if (params == end->params)
    return;
  end->params = params;
  end->lane = data_lane(b, params);
  end->last = after_norm(b, params);
  end->tail = reduction_tail(b, params);
  end->slowed = slowed_by_reductions(b, params);
}

/* A send between neighbouring stages at its fastest: inside a node if any pair is. */
static double send_s(const Bound *b)
{
  const Plan *p = b->plan;
  GroupShape pair = { .size = 2 };
  double bytes = op_boundary_bytes(b->model, p);

  for (int t = 0; t < b->cluster->n_tiers; t++)
    pair.per_domain[t] = mesh_stride(p, AXIS_PIPELINE) < b->cluster->tiers[t].devices ? 2 : 1;
  if (p->framework->scatter_gather)
    bytes /= p->sequence_parallel ? 1 : p->tp;
  return p->pp > 1 ? collective_cost(b->cluster, COLLECTIVE_SEND, bytes, &pair).seconds : 0;
}

double bound_time(const Model *model, const Plan *plan, const Cluster *cluster, const PriceSums *sums)
{
  Bound b = { model, plan, cluster, sums, mesh_group(plan, cluster, AXIS_DATA) };
  int m = plan_micro_batches(plan);
  double fill = 0, drain = 0, passes = 0, reduced = 0, lane = 0, last = 0, serial = 0;
  RankEnd end = { .params = -1 };
  double send = send_s(&b);

  for (int rank = 0; rank < plan->pp; rank++) {
    double work = m * (of_rank(&b, sums->forward_s, rank) + of_rank(&b, sums->backward_s, rank));
    update_rank_end(&b, rank, &end);
    serial += work;
    passes = MAX(passes, fill + work + drain);
    reduced = MAX(reduced, fill + work + MAX(end.tail, end.slowed));
    lane = MAX(lane, end.lane);
    last = MAX(last, end.last);
    fill += of_stage(&b, sums->forward_s, rank) + send;
    drain += of_stage(&b, sums->backward_s, rank) + send;
  }
  if (plan->schedule->serial)
    passes = serial;
  return (MAX(MAX(passes, reduced), lane) + last) * (1 - 1e-9) + plan->framework->step_s;
}

/* Weights, gradients, optimizer states and buckets of a rank, and what its passes hold. */
static double rank_memory(const Bound *b, int rank, double dynamic)
{
  const Plan *p = b->plan;
  double params = of_rank(b, b->sums->params, rank);
  double per_param = dtype_bytes[p->precision] / (p->zero >= 3 ? p->dp : 1) +
                     (op_gradient_bytes(p) + op_gradient_copy_bytes(p)) / (p->zero >= 2 ? p->dp : 1) +
                     op_optimizer_bytes(p) / (p->zero >= 1 ? p->dp : 1);

  return per_param * params + op_bucket_bytes(p, params) + dynamic * (1 + p->framework->fragmentation);
}

static double whole_memory(const Plan *p, double rank_bytes)
{
  return (rank_bytes + op_overhead_bytes(p)) * (1 - 1e-9);
}

double bound_memory(const Model *model, const Plan *plan, const PriceSums *sums)
{
  Bound b = { model, plan, NULL, sums, { 0 } };
  ScheduleShape shape = plan_shape(plan);
  double most = 0;

  for (int rank = 0; rank < plan->pp; rank++) {
    double saved = INFINITY;
    for (int chunk = 0; chunk < plan->vpp; chunk++)
      saved = MIN(saved, of_stage(&b, sums->saved, chunk * plan->pp + rank));
    double dynamic = saved * schedule_peak(plan->schedule, &shape, rank) + sums->transient;
    most = MAX(most, rank_memory(&b, rank, dynamic));
  }
  return whole_memory(plan, most);
}

/* Most that a rank's passes hold when a backward begins, in the order in which they run. */
static double peak_by_order(const Bound *b, const ScheduleShape *shape, int rank, const ScheduleOrder *order)
{
  double held = 0, peak = 0;

  for (int i = order->first[rank]; i < order->first[rank + 1]; i++) {
    const Slot *slot = &order->slots[i];
    double saved = of_stage(b, b->sums->saved, schedule_stage(b->plan->schedule, shape, rank, slot->chunk));
    held += slot->pass == PASS_FORWARD ? saved : 0;
    if (slot->pass == PASS_BACKWARD || slot->pass == PASS_INPUT)
      peak = MAX(peak, held);
    held -= slot->pass == PASS_BACKWARD || slot->pass == PASS_WEIGHT ? saved : 0;
  }
  return peak;
}

double bound_memory_by_order(const Model *model, const Plan *plan, const PriceSums *sums)
{
  Bound b = { model, plan, NULL, sums, { 0 } };
  ScheduleShape shape = plan_shape(plan);
  double most = 0;

  /* more micro-batches never hold less, and by then the pipeline is full */
  shape.micro = MIN(shape.micro, 4 * plan->pp);
  g_autoptr(ScheduleOrder) order = schedule_order_new(plan->schedule, &shape);
  for (int rank = 0; rank < plan->pp; rank++) {
    double dynamic = peak_by_order(&b, &shape, rank, order) + sums->transient;
    most = MAX(most, rank_memory(&b, rank, dynamic));
  }
  return MAX(whole_memory(plan, most), bound_memory(model, plan, sums));
}
