#include "program/balance.h"

#include "base/error.h"

/* Running sum over the layers, n_layers + 1 entries, on the devices of each node type. */
static double *layer_seconds(const Model *model, const PriceTable *prices)
{
  double *sums = g_new0(double, prices->n_types * (model->n_layers + 1));

  for (int type = 0; type < prices->n_types; type++) {
    double *sum = sums + type * (model->n_layers + 1);
    for (int i = 0; i < model->n_layers; i++) {
      const PassPrice *pass = price_of_layer(prices, model, type, i)->pass;
      sum[i + 1] = sum[i] + pass[PASS_FORWARD].seconds + pass[PASS_BACKWARD].seconds;
    }
  }
  return sums;
}

/* Node type of each stage, of the first copy; NULL where nodes are alike. */
static guint8 *stage_types(const Plan *plan, const Cluster *cluster)
{
  ScheduleShape shape = plan_shape(plan);
  int stages = plan_stages(plan);
  guint8 *types = cluster->n_types > 0 ? g_new(guint8, stages) : NULL;

  for (int stage = 0; types && stage < stages; stage++)
    types[stage] = mesh_node_type(plan, cluster, schedule_place(plan->schedule, &shape, stage, 0).rank);
  return types;
}

/* What a stage sends for a micro-batch while it does not compute, both ways. */
static double *send_seconds(const Model *model, const Plan *plan, const Cluster *cluster)
{
  ScheduleShape shape = plan_shape(plan);
  int stages = plan_stages(plan);
  double bytes = op_boundary_bytes(model, plan), *seconds = g_new0(double, stages);

  if (plan->framework->scatter_gather && !plan->sequence_parallel)
    bytes /= plan->tp;
  for (int stage = 0; !plan->overlap.pipeline && stage < stages - 1; stage++) {
    GroupShape pair;
    int from = schedule_place(plan->schedule, &shape, stage, 0).rank;
    int to = schedule_place(plan->schedule, &shape, stage + 1, 0).rank;
    const Cluster *between = mesh_pair_site(plan, cluster, from, to, &pair);
    double send = from == to ? 0 : collective_cost(between, COLLECTIVE_SEND, bytes, &pair).seconds;
    seconds[stage] += send;
    seconds[stage + 1] += send;
  }
  return seconds;
}

static SplitProblem problem_of(const Model *model, const Plan *plan, const double *seconds)
{
  return (SplitProblem) { .seconds = seconds, .n_layers = model->n_layers, .behind = 2 * model->mtp,
                          .stages = plan_stages(plan),
                          .least_at_ends = plan->schedule->vocabulary ? 1 : 0 };
}

gboolean balance_by_time(const Model *model, const Plan *plan, const PriceTable *prices, LayerSplit *out)
{
  g_autofree double *seconds = layer_seconds(model, prices);
  SplitProblem problem = problem_of(model, plan, seconds);

  return split_balance(&problem, plan->framework->splits, out);
}

typedef struct {
  const Model *model;
  const Plan *plan;
  const Cluster *cluster;
  const PriceTable *prices;
  ScheduleShape shape;
  double state_bytes[2]; /* of a parameter, and of one of experts that are apart */
  double shards;         /* of optimizer states */
} Room;

/* Bytes that a stage may take on the devices of a pipeline rank. */
static double room_of(const Room *r, int rank)
{
  const Cluster *site = mesh_site(r->plan, r->cluster, rank);
  return (site->device.memory_bytes - op_overhead_bytes(r->plan)) / r->plan->vpp;
}

static gboolean stage_fits(gconstpointer data, int stage, int first, int end)
{
  const Room *r = data;
  Place at = schedule_place(r->plan->schedule, &r->shape, stage, 0);
  double held = (double)schedule_peak(r->plan->schedule, &r->shape, at.rank) / r->shape.chunks;
  double params = 0, states = 0, saved = 0, scratch = 0;

  for (int i = first; i < end; i++) {
    const LayerPrice *price = price_of_layer(r->prices, r->model, 0, i);
    params += price->params + price->expert_params;
    states += price->params * r->state_bytes[0] + price->expert_params * r->state_bytes[1] +
              (price->optimizer[0].state_bytes + price->optimizer[1].state_bytes) / r->shards;
    saved += price->saved_bytes;
    scratch = MAX(scratch, price->transient_bytes + price->recomputed_bytes);
  }
  double buckets = op_bucket_bytes(r->plan, params * r->shape.chunks) / r->shape.chunks;
  return states + buckets + (held * saved + scratch) * (1 + r->plan->framework->fragmentation) <=
         room_of(r, at.rank);
}

gboolean balance_by_room(const Model *model, const Cluster *cluster, const Plan *plan, const PriceTable *prices,
                         LayerSplit *out)
{
  g_autofree double *seconds = layer_seconds(model, prices);
  g_autofree guint8 *types = stage_types(plan, cluster);
  g_autofree double *sends = types ? send_seconds(model, plan, cluster) : NULL;
  SplitProblem problem = problem_of(model, plan, seconds);
  Plan experts = plan_of_experts(plan);
  Room room = { model, plan, cluster, prices, plan_shape(plan), { op_state_bytes(plan), op_state_bytes(&experts) },
                plan->zero >= 1 ? plan_shards(plan) : 1 };

  problem.types = types;
  problem.extra_s = sends;
  problem.repeats = types ? plan_micro_batches(plan) - 1 : 0;
  problem.fits = stage_fits;
  problem.data = &room;
  if (split_balance(&problem, plan->framework->splits, out))
    return TRUE;
  problem.fits = NULL;
  return split_balance(&problem, plan->framework->splits, out);
}

gboolean balance_plan(const Model *model, const Cluster *cluster, Plan *plan, GError **error)
{
  Plan whole = *plan; /* a count of recomputed layers asks for the split */

  if (!plan->balanced)
    return TRUE;
  PlanRule rule = plan_check(plan, model, cluster, NULL);
  if (rule != RULE_NONE && rule != RULE_LAYERS)
    return plan_check(plan, model, cluster, error) == RULE_NONE;
  whole.scope = (RecomputeScope) { .modules = plan->scope.modules };
  g_autoptr(PriceTable) prices = price_table_new(model, &whole, cluster);
  if (balance_by_room(model, cluster, plan, prices, &plan->split))
    return TRUE;
  g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT,
              "plan: layer_split: \"balanced\": expected %d layers that %s can split into %d stages", model->blocks,
              plan->framework->name, plan_stages(plan));
  return FALSE;
}
