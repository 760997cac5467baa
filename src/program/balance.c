#include "program/balance.h"

#include "base/error.h"

/* Running sum over the layers: n_layers + 1 entries. */
static double *layer_seconds(const Model *model, const PriceTable *prices)
{
  double *sum = g_new0(double, model->n_layers + 1);

  for (int i = 0; i < model->n_layers; i++) {
    const PassPrice *pass = prices->layers[model->layers[i]].pass;
    sum[i + 1] = sum[i] + pass[PASS_FORWARD].seconds + pass[PASS_BACKWARD].seconds;
  }
  return sum;
}

static SplitProblem problem_of(const Model *model, const Plan *plan, const double *seconds)
{
  return (SplitProblem) { .seconds = seconds, .n_layers = model->n_layers, .stages = plan_stages(plan),
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
  const PriceTable *prices;
  ScheduleShape shape;
  double state_bytes[2]; /* of a parameter, and of one of experts that are apart */
  double room;        /* of a stage */
} Room;

static gboolean stage_fits(gconstpointer data, int stage, int first, int end)
{
  const Room *r = data;
  Place at = schedule_place(r->plan->schedule, &r->shape, stage, 0);
  double held = (double)schedule_peak(r->plan->schedule, &r->shape, at.rank) / r->shape.chunks;
  double params = 0, states = 0, saved = 0, scratch = 0;

  for (int i = first; i < end; i++) {
    const LayerPrice *price = &r->prices->layers[r->model->layers[i]];
    params += price->params + price->expert_params;
    states += price->params * r->state_bytes[0] + price->expert_params * r->state_bytes[1];
    saved += price->saved_bytes;
    scratch = MAX(scratch, price->transient_bytes + price->recomputed_bytes);
  }
  double buckets = op_bucket_bytes(r->plan, params * r->shape.chunks) / r->shape.chunks;
  return states + buckets + (held * saved + scratch) * (1 + r->plan->framework->fragmentation) <=
         r->room;
}

gboolean balance_plan(const Model *model, const Cluster *cluster, Plan *plan, GError **error)
{
  if (!plan->balanced)
    return TRUE;
  g_autoptr(PriceTable) prices = price_table_new(model, plan, cluster);
  g_autofree double *seconds = layer_seconds(model, prices);
  SplitProblem problem = problem_of(model, plan, seconds);
  Plan experts = plan_of_experts(plan);
  Room room = { model, plan, prices, plan_shape(plan), { op_state_bytes(plan), op_state_bytes(&experts) },
                (cluster->device.memory_bytes - op_overhead_bytes(plan)) / plan->vpp };

  problem.fits = stage_fits;
  problem.data = &room;
  if (split_balance(&problem, plan->framework->splits, &plan->split) ||
      balance_by_time(model, plan, prices, &plan->split))
    return TRUE;
  g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT,
              "plan: layer_split: \"balanced\": expected %d layers that %s can split into %d stages", model->blocks,
              plan->framework->name, problem.stages);
  return FALSE;
}
