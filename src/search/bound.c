#include "search/bound.h"

#include "cost/quantized.h"

#include <math.h>
#include <string.h>

#define SUMS 9

/* Where the running sums of PriceSums lie. */
static double **sum_at(PriceSums *s, int i)
{
  double **const sums[] = { &s->forward_s, &s->backward_s, &s->input_s, &s->least_s, &s->least_input_s,
                            &s->params, &s->expert_params, &s->saved, &s->deferred };
  G_STATIC_ASSERT(G_N_ELEMENTS(sums) == SUMS);
  return sums[i];
}

/* What a layer adds to each of them. */
static void layer_parts(double parts[SUMS], const LayerPrice *p)
{
  const PassPrice *pass = p->pass;
  double whole = pass[PASS_BACKWARD].compute_s, input = pass[PASS_INPUT].compute_s;
  const double all[] = { pass[PASS_FORWARD].seconds, pass[PASS_BACKWARD].seconds,
                         MIN(pass[PASS_INPUT].seconds, pass[PASS_BACKWARD].seconds),
                         pass[PASS_FORWARD].compute_s + MIN(whole, input + pass[PASS_WEIGHT].compute_s),
                         pass[PASS_FORWARD].compute_s + MIN(whole, input), p->params, p->expert_params,
                         p->saved_bytes, MIN(p->saved_bytes, p->deferred_bytes) };

  G_STATIC_ASSERT(G_N_ELEMENTS(all) == SUMS);
  memcpy(parts, all, sizeof all);
}

static void add_layers(PriceSums *s, const Model *model, int type)
{
  const PriceTable *prices = s->prices;
  g_autofree double (*parts)[SUMS] = g_malloc_n(prices->n, sizeof *parts);
  int n = model->n_layers;

  for (int i = 0; i < prices->n; i++)
    layer_parts(parts[i], &prices->layers[type * prices->n + i]);
  for (int k = 0; k < SUMS; k++) {
    double *sum = *sum_at(s, k) + type * (n + 1);
    for (int i = 0; i < n; i++)
      sum[i + 1] = sum[i] + parts[prices->by_layer ? i : model->layers[i]][k];
  }
}

PriceSums *price_sums_of(const Model *model, const Plan *plan, const Cluster *cluster, PriceTable *prices)
{
  PriceSums *s = g_new0(PriceSums, 1);
  int n = model->n_layers, entries = prices->n_types * (n + 1);
  double *block = g_new0(double, SUMS * entries);

  s->cluster = cluster;
  s->prices = prices;
  for (int k = 0; k < SUMS; k++)
    *sum_at(s, k) = block + k * entries;
  s->transient = INFINITY;
  s->alike = plan->scope.stages.stages == 0;
  for (int i = 2; i <= model->blocks; i++)
    s->alike &= model->layers[i] == model->layers[1];
  for (int type = 0; type < prices->n_types; type++) {
    add_layers(s, model, type);
    for (int i = 0; i < n; i++) {
      const LayerPrice *p = price_of_layer(prices, model, type, i);
      if (model_layer(model, i)->kind != LAYER_EMBEDDING)
        s->transient = MIN(s->transient, p->recomputed_bytes + p->transient_bytes);
    }
  }
  return s;
}

PriceSums *price_sums_new(const Model *model, const Plan *plan, const Cluster *cluster)
{
  return price_sums_of(model, plan, cluster, price_table_new(model, plan, cluster));
}

void price_sums_free(PriceSums *s)
{
  if (!s)
    return;
  price_table_free(s->prices);
  g_free(*sum_at(s, 0));
  g_free(s);
}

gsize price_sums_bytes(const Model *model, const PriceSums *s)
{
  return sizeof *s + SUMS * s->prices->n_types * (model->n_layers + 1) * sizeof(double);
}

typedef struct {
  const Model *model;
  const Plan *plan;
  const Cluster *cluster;
  const PriceSums *sums;
  const Cluster *site;  /* where the rank that is looked at runs */
  Plan experts;         /* the plan as the weights of experts that are apart see it */
  int kinds;            /* of weights: 2 where experts are apart */
  GroupShape data[2], part_copies[2]; /* by kind */
  ScheduleShape shape;
  gboolean mixed; /* nodes are of several types */
  int stages, copies, layers; /* layers: of each stage, of plans without a split */
  guint16 first[SPLIT_STAGES_MAX + 1]; /* first layer of each stage, of plans with a split */
} Bound;

static Bound bound_of(const Model *model, const Plan *plan, const Cluster *cluster, const PriceSums *sums)
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

static int first_layer(const Bound *b, int stage)
{
  if (b->plan->split.stages)
    return b->first[stage];
  if (b->plan->split_rank)
    return plan_stage_first_layer(b->plan, b->model, stage);
  return stage == 0 ? 0 : stage == b->stages ? b->model->n_layers : 1 + b->layers * stage;
}

/* Difference of a running sum over the layers of a stage on nodes of a type; of
 * those that stay there where the vocabulary is spread over all ranks. */
static inline double of_stage_on(const Bound *b, const double *sum, int stage, int node_type)
{
  int first = first_layer(b, stage), end = first_layer(b, stage + 1);
  gboolean spread = b->plan->schedule->vocabulary > 0;

  sum += node_type * (b->model->n_layers + 1);
  return sum[MIN(end, b->model->n_layers - spread)] - sum[MAX(first, spread)];
}

/* Of a stage wherever it is fastest: a two-way schedule has it twice. */
static double of_stage_mixed(const Bound *b, const double *sum, int stage)
{
  double least = INFINITY;

  for (int copy = 0; copy < b->copies; copy++) {
    int rank = schedule_place(b->plan->schedule, &b->shape, stage, copy).rank;
    least = MIN(least, of_stage_on(b, sum, stage, mesh_node_type(b->plan, b->sums->cluster, rank)));
  }
  return least;
}

static double of_stage(const Bound *b, const double *sum, int stage)
{
  return b->mixed ? of_stage_mixed(b, sum, stage) : of_stage_on(b, sum, stage, 0);
}

static int stage_of(const Bound *b, int rank, int chunk)
{
  return schedule_stage(b->plan->schedule, &b->shape, rank, chunk);
}

/* Whether all stages but the first and the last hold the same. */
static gboolean alike(const Bound *b)
{
  return b->sums->alike && !b->mixed && !b->plan->split.stages && !b->plan->split_rank &&
         b->plan->schedule->placement == PLACE_LOOP;
}

static double of_rank_mixed(const Bound *b, const double *sum, int rank)
{
  int type = mesh_node_type(b->plan, b->sums->cluster, rank);
  double total = 0;

  for (int chunk = 0; chunk < b->plan->vpp; chunk++)
    total += of_stage_on(b, sum, stage_of(b, rank, chunk), type);
  return total;
}

static double of_rank(const Bound *b, const double *sum, int rank)
{
  int last = b->plan->vpp - 1;
  double total = 0;

  if (b->mixed)
    return of_rank_mixed(b, sum, rank);
  if (last > 1 && alike(b))
    return of_stage_on(b, sum, stage_of(b, rank, 0), 0) + (last - 1) * of_stage_on(b, sum, stage_of(b, rank, 1), 0) +
           of_stage_on(b, sum, stage_of(b, rank, last), 0);
  for (int chunk = 0; chunk < b->plan->vpp; chunk++)
    total += of_stage_on(b, sum, stage_of(b, rank, chunk), 0);
  return total;
}

/* The next rank whose bound must be looked at. Ranks between the second and the
 * last but one hold the same as those where blocks are alike; what is held in
 * flight falls with the rank, what comes before and behind its passes rises. */
static int next_rank(const Bound *b, int rank)
{
  return rank == 1 && alike(b) ? MAX(2, b->plan->pp - 2) : rank + 1;
}

/* Micro-batches that a chunk runs: each copy of the model has its part. */
static double chunk_micro(const Bound *b)
{
  return (double)b->shape.micro / b->copies;
}

/* The plan as weights of a kind see it. */
static const Plan *view(const Bound *b, int kind)
{
  return kind ? &b->experts : b->plan;
}

static double comm(const Bound *b, Collective what, double bytes, int kind)
{
  return collective_cost(b->site, what, bytes, &b->data[kind]).seconds;
}

/* Whether every micro-batch's gradients are summed. */
static gboolean sums_each(const Plan *p)
{
  return p->zero >= 2 && !p->sharding.no_sync;
}

/* Gradients of a kind, and the sums over copies of a part of them, once a step. */
static double reduction(const Bound *b, double params, int kind)
{
  const Plan *p = b->plan;

  if (p->sharding.quantized_gradients)
    return quantized_scatter_cost(b->site, params, &b->data[kind]).seconds;
  return comm(b, p->zero ? COLLECTIVE_REDUCE_SCATTER : COLLECTIVE_ALL_REDUCE, params * op_reduce_bytes(p), kind);
}

static double across_copies(const Bound *b, double gradients, int kind)
{
  double part = gradients / plan_shards(view(b, kind));
  return collective_cost(b->site, COLLECTIVE_ALL_REDUCE, part, &b->part_copies[kind]).seconds;
}

static double gather(const Bound *b, double params, const GroupShape *group)
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
  double once = p->zero > 0 && p->sharding.persistence == 0 ? gather(b, params, &b->data[kind]) : 0, again = once;

  if (p->zero < 3)
    return p->overlap.parameters ? once : 0;
  if (p->sharding.keeps_gathered)
    return once;
  if (p->sharding.secondary) {
    GroupShape secondary = kind ? mesh_expert_secondary(p, b->site) : mesh_secondary(p, b->site);
    again = gather(b, params, &secondary);
  }
  return chunk_micro(b) * (once + again);
}

/* What the data lane carries before the norm whatever its order. One call is
 * never slower than its pieces. */
static double data_lane(const Bound *b, const double params[2])
{
  const Plan *p = b->plan;
  double s = 0;

  for (int kind = 0; kind < b->kinds && !p->framework->single_process; kind++)
    if (plan_replicas(view(b, kind)) > 1)
      s += reduction(b, params[kind], kind) * (sums_each(p) ? chunk_micro(b) : 1) +
           across_copies(b, params[kind] * op_reduce_bytes(p), kind) + gathers(b, params[kind], kind);
  return s;
}

/* From the norm to the end of the step, on a rank. */
static double after_norm(const Bound *b, const double params[2])
{
  const Plan *p = b->plan;
  double s = optimizer_price(p, b->site, params[0], params[1]).seconds;

  for (int kind = 0; kind < b->kinds; kind++)
    if (plan_gathers_at_end(view(b, kind)))
      s += comm(b, COLLECTIVE_ALL_GATHER, params[kind] * op_gathered_weight_bytes(p), kind);
  return s;
}

/* Gradients that can only be reduced when the rank's last backward has ended. */
static double reduction_tail(const Bound *b, const double params[2])
{
  const Plan *p = b->plan;
  double s = 0;

  if (p->overlap.gradients || sums_each(p) || p->framework->single_process)
    return 0;
  for (int kind = 0; kind < b->kinds; kind++)
    if (plan_replicas(view(b, kind)) > 1)
      s += reduction(b, params[kind], kind) +
           across_copies(b, params[kind] * op_reduce_bytes(p), kind);
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

  for (int kind = 0; kind < b->kinds && sums_each(p) && !p->sharding.quantized_gradients; kind++)
    if (plan_replicas(view(b, kind)) > 1)
      s += chunk_micro(b) * comm(b, COLLECTIVE_REDUCE_SCATTER, params[kind] * op_reduce_bytes(p), kind) *
           (1 - 1 / overlap_slowdown(b->site, &b->data[kind]));
  return s;
}

static RankEnd rank_end(Bound *b, const double params[2])
{
  b->data[0] = mesh_shards(b->plan, b->site);
  b->part_copies[0] = mesh_shard_copies(b->plan, b->site);
  if (b->kinds > 1) {
    b->data[1] = mesh_expert_shards(b->plan, b->site);
    b->part_copies[1] = mesh_expert_shard_copies(b->plan, b->site);
  }
  return (RankEnd) { b->site, { params[0], params[1] }, chunk_micro(b), data_lane(b, params), after_norm(b, params),
                     reduction_tail(b, params), slowed_by_reductions(b, params) };
}

static double expert_params(const Bound *b, int rank)
{
  return b->kinds > 1 ? of_rank(b, b->sums->expert_params, rank) : 0;
}

/* What comes behind the passes of a rank; most hold the same as another. */
static const RankEnd *find_rank_end(Bound *b, int rank, BoundEnds *ends)
{
  double micro = chunk_micro(b), params[2] = { of_rank(b, b->sums->params, rank), expert_params(b, rank) };

  for (int i = 0; i < ends->n; i++) {
    const RankEnd *end = &ends->ends[i];
    if (end->params[0] == params[0] && end->params[1] == params[1] && end->micro == micro && end->site == b->site)
      return end;
  }
  int at = ends->n < BOUND_ENDS ? ends->n++ : BOUND_ENDS - 1;
  ends->ends[at] = rank_end(b, params);
  return &ends->ends[at];
}

static double send_on(const Bound *b, const Cluster *cluster)
{
  const Plan *p = b->plan;
  GroupShape pair = { .size = 2 };
  double bytes = op_boundary_bytes(b->model, p);

  for (int t = 0; t < cluster->n_tiers; t++)
    pair.per_domain[t] = mesh_stride(p, AXIS_PIPELINE) < cluster->tiers[t].devices ? 2 : 1;
  if (p->framework->scatter_gather)
    bytes /= p->sequence_parallel ? 1 : p->tp;
  return p->pp > 1 ? collective_cost(cluster, COLLECTIVE_SEND, bytes, &pair).seconds : 0;
}

/* A send between neighbouring stages at its fastest: inside a node if any pair is, on any type of nodes. */
static double send_s(const Bound *b)
{
  double least = send_on(b, b->cluster);

  for (int i = 0; i < b->cluster->n_types; i++)
    least = MIN(least, send_on(b, b->cluster->types[i]));
  return least;
}

/* Passes that may run as one with another: then only what computes is certain. */
static gboolean may_overlap(const Bound *b)
{
  return b->plan->schedule->placement != PLACE_LOOP;
}

/* Seconds of a rank's passes for one micro-batch. */
static double micro_s(const Bound *b, int rank)
{
  const PriceSums *s = b->sums;
  double forward = of_rank(b, s->forward_s, rank);

  if (may_overlap(b) || b->plan->schedule->split)
    return of_rank(b, s->least_s, rank);
  /* the last stage does not make its forwards again */
  if (b->plan->schedule->recompute && stage_of(b, rank, 0) == b->stages - 1)
    forward = 0;
  return forward + of_rank(b, s->backward_s, rank);
}

static int lowest_stage(const Bound *b, int rank)
{
  int lowest = b->stages;

  if (b->plan->schedule->placement == PLACE_LOOP)
    return stage_of(b, rank, 0);
  for (int chunk = 0; chunk < b->plan->vpp; chunk++)
    lowest = MIN(lowest, stage_of(b, rank, chunk));
  return lowest;
}

static double before_stage_mixed(const Bound *b, const double *sum, int stage)
{
  double seconds = 0;

  for (int i = 0; i < stage; i++)
    seconds += of_stage(b, sum, i);
  return seconds;
}

/* Seconds of a pass on all stages before this one. */
static double before_stage(const Bound *b, const double *sum, int stage)
{
  int spread = b->plan->schedule->vocabulary > 0;

  if (b->mixed)
    return before_stage_mixed(b, sum, stage);
  return stage == 0 ? 0 : sum[MIN(first_layer(b, stage), b->model->n_layers - spread)] - sum[spread];
}

/* The slowest rank's passes with what comes before the first and behind the last. */
static double pipeline_s(Bound *b, BoundEnds *ends, double *lane, double *last)
{
  const Schedule *schedule = b->plan->schedule;
  const double *back = schedule->split ? b->sums->input_s : b->sums->backward_s;
  double m = chunk_micro(b), send = send_s(b), longest = 0, serial = 0;

  for (int rank = 0; rank < b->plan->pp; rank = schedule->serial ? rank + 1 : next_rank(b, rank)) {
    int stage = lowest_stage(b, rank);
    double fill = before_stage(b, b->sums->forward_s, stage) + stage * send;
    /* forwards that are slots of their own may be made again before the gradient comes */
    double again = schedule->recompute ? before_stage(b, b->sums->forward_s, stage) : 0;
    double drain = MAX(0, before_stage(b, back, stage) - again) + stage * send, work = m * micro_s(b, rank);
    double passing = schedule->split ? m * of_rank(b, b->sums->least_input_s, rank) : work;
    b->site = b->mixed ? mesh_site(b->plan, b->cluster, rank) : b->cluster;
    const RankEnd *end = find_rank_end(b, rank, ends);
    longest = MAX(longest, fill + MAX(passing + drain, work + MAX(end->tail, end->slowed)));
    *lane = MAX(*lane, end->lane);
    *last = MAX(*last, end->last);
    serial += work;
  }
  return schedule->serial ? serial : longest;
}

double bound_time(const Model *model, const Plan *plan, const Cluster *cluster, const PriceSums *sums, BoundEnds *ends)
{
  Bound b = bound_of(model, plan, cluster, sums);
  BoundEnds own = { 0 };
  double lane = 0, last = 0, passes = pipeline_s(&b, ends ? ends : &own, &lane, &last);

  return (MAX(passes, lane) + last) * (1 - 1e-9) + plan->framework->step_s;
}

/* Scratch of a backward at least, beside the schedule's peak. With split
 * backwards a weight gradient may come between; an embedding alone needs none. */
static double scratch(const Bound *b)
{
  const LayerSplit *split = &b->plan->split;
  return b->plan->schedule->split || (split->stages && split->layers[0] == 0) ? 0 : b->sums->transient;
}

/* Keeps a rank unless another holds as much of both; of too many, any may go. */
static void add_rank(BoundRanks *all, RankBytes rank)
{
  int kept = 0;

  for (int i = 0; i < all->n; i++)
    if (all->ranks[i].params >= rank.params && all->ranks[i].expert_params >= rank.expert_params &&
        all->ranks[i].dynamic >= rank.dynamic)
      return;
  for (int i = 0; i < all->n; i++)
    if (all->ranks[i].params > rank.params || all->ranks[i].expert_params > rank.expert_params ||
        all->ranks[i].dynamic > rank.dynamic)
      all->ranks[kept++] = all->ranks[i];
  all->n = MIN(kept, BOUND_RANKS - 1);
  all->ranks[all->n++] = rank;
}

static RankBytes rank_bytes(const Bound *b, int rank, double activations)
{
  double held = b->plan->offload.activations ? 0 : activations;
  double dynamic = (held + scratch(b)) * (1 + b->plan->framework->fragmentation);
  const Cluster *cluster = b->sums->cluster;

  if (b->mixed)
    dynamic = memory_in_room(cluster, dynamic, mesh_site(b->plan, cluster, rank)->device.memory_bytes);
  return (RankBytes) { of_rank(b, b->sums->params, rank), expert_params(b, rank), dynamic };
}

double memory_in_room(const Cluster *cluster, double bytes, double capacity_bytes)
{
  return cluster->n_types == 0 ? bytes : bytes + (cluster->device.memory_bytes - capacity_bytes);
}

BoundRanks bound_ranks(const Model *model, const Plan *plan, const PriceSums *sums)
{
  Bound b = bound_of(model, plan, NULL, sums);
  const double *held = plan->schedule->split ? sums->deferred : sums->saved;
  BoundRanks all = { 0 };

  for (int rank = 0; rank < plan->pp; rank = next_rank(&b, rank)) {
    double saved = INFINITY;
    for (int chunk = 0; chunk < plan->vpp; chunk = chunk == 1 && alike(&b) ? MAX(2, plan->vpp - 1) : chunk + 1)
      saved = MIN(saved, of_stage(&b, held, stage_of(&b, rank, chunk)));
    add_rank(&all, rank_bytes(&b, rank, saved * schedule_peak(plan->schedule, &b.shape, rank)));
  }
  return all;
}

double bound_memory(const Plan *plan, const BoundRanks *all)
{
  gboolean apart = plan_experts_apart(plan);
  const Plan experts = apart ? plan_of_experts(plan) : (Plan) { 0 };
  double state_bytes = op_state_bytes(plan), expert_bytes = apart ? op_state_bytes(&experts) : 0, most = 0;

  for (int i = 0; i < all->n; i++) {
    const RankBytes *r = &all->ranks[i];
    double bytes = state_bytes * r->params + op_bucket_bytes(plan, r->params) + r->dynamic;
    if (apart)
      bytes += expert_bytes * r->expert_params + op_bucket_bytes(&experts, r->expert_params);
    most = MAX(most, bytes);
  }
  return (most + op_overhead_bytes(plan)) * (1 - 1e-9);
}

/* Most that a rank's passes hold when a backward begins, in the order in which they run. */
static double peak_by_order(const Bound *b, int rank, const ScheduleOrder *order)
{
  double held = 0, peak = 0;

  for (int i = order->first[rank]; i < order->first[rank + 1]; i++) {
    const Slot *slot = &order->slots[i];
    double saved = of_stage(b, b->sums->saved, stage_of(b, rank, slot->chunk));
    if (slot->pass == PASS_BACKWARD)
      peak = MAX(peak, held);
    held += slot->pass == PASS_FORWARD ? saved : slot->pass == PASS_BACKWARD ? -saved : 0;
  }
  return peak;
}

double bound_memory_by_order(const Model *model, const Plan *plan, const PriceSums *sums)
{
  Bound b = bound_of(model, plan, NULL, sums);
  const Schedule *schedule = plan->schedule;
  BoundRanks all = bound_ranks(model, plan, sums);

  if (schedule->split || schedule->recompute || schedule->vocabulary || schedule->placement != PLACE_LOOP)
    return bound_memory(plan, &all);
  /* more micro-batches never hold less, and by then the pipeline is full */
  b.shape.micro = MIN(b.shape.micro, 4 * MAX(plan->pp, plan->micro_group));
  g_autoptr(ScheduleOrder) order = schedule_order_new(schedule, &b.shape);
  for (int rank = 0; rank < plan->pp; rank++)
    add_rank(&all, rank_bytes(&b, rank, peak_by_order(&b, rank, order)));
  return bound_memory(plan, &all);
}
