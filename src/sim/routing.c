#include "sim/routing.h"

#include "cost/price.h"
#include "op/op.h"
#include "plan/plan.h"
#include "sim/noise.h"

#include <math.h>

#define LOAD_STEP 0.125 /* over which a segment's time is taken to be a line */

/* The largest of n normal values less their mean, which is independent of it: loads of all ranks add to a constant. */
static double *busiest_quantiles(int n, double *mean)
{
  double *quantiles = noise_quantiles(n, 1), squares = 0;
  int count = 1 << NOISE_BITS;

  *mean = 0;
  for (int i = 0; i < count; i++)
    *mean += quantiles[i] / count;
  for (int i = 0; i < count; i++)
    squares += pow(quantiles[i] - *mean, 2) / count;
  for (int i = 0; i < count; i++)
    quantiles[i] = *mean + (quantiles[i] - *mean) * sqrt(1 - 1 / (n * squares));
  return quantiles;
}

static int layers_with_experts(const Model *model, const Segment *s)
{
  int n = 0;

  for (int l = s->first_layer; l < s->first_layer + s->n_layers; l++)
    n += model_layer(model, l)->ffn.experts > 0;
  return n;
}

static int choices_of_token(const Model *model)
{
  int choices = 0;

  for (int i = 0; i < model->n_specs; i++)
    choices = MAX(choices, model->specs[i].ffn.experts_per_token);
  return choices;
}

static double rows_of_rank(const Model *model, const PassLayout *p)
{
  return op_tokens(p) / p->tp * p->etp * choices_of_token(model);
}

/* Of a rank's load, with which the busiest one's mean, `unit` of it, is the plan's. */
static double deviation(const Model *model, const Layout *layout, double unit)
{
  double excess = layout->expert_load - 1;

  return excess > 0 ? excess / unit : 1 / sqrt(rows_of_rank(model, &layout->passes));
}

static void find_slopes(Routing *r, const Model *model, const Plan *plan, const Cluster *cluster,
                        const Program *program)
{
  Plan busier = *plan;

  busier.expert_load += LOAD_STEP;
  const Layout layout = layout_of(&busier);
  g_autoptr(PriceTable) prices = price_table_new(model, &layout, cluster);
  g_autoptr(Program) other = program_new(model, &layout, cluster, prices);
  for (guint i = 0; i < program->segments->len; i++) {
    const Segment *s = &g_array_index(program->segments, Segment, i);
    r->layers[i] = s->kind == TASK_PASS ? layers_with_experts(model, s) : 0;
    r->slope[i] = r->layers[i] ? (g_array_index(other->segments, Segment, i).seconds - s->seconds) / LOAD_STEP : 0;
  }
}

Routing *routing_new(const Model *model, const Plan *plan, const Cluster *cluster, const Program *program)
{
  const Layout layout = layout_of(plan);
  double unit;
  Routing *r;

  if (!model_has_experts(model) || layout.passes.ep < 2 || layout.expert_capacity > 0)
    return NULL;
  r = g_new0(Routing, 1);
  r->slope = g_new0(double, program->segments->len);
  r->layers = g_new0(int, program->segments->len);
  find_slopes(r, model, plan, cluster, program);
  r->quantiles = busiest_quantiles(layout.passes.ep, &unit);
  for (int i = 0; i < 1 << NOISE_BITS; i++)
    r->quantiles[i] *= deviation(model, &layout, unit);
  r->mean = layout.expert_load - 1;
  r->each_pass = layout.expert_load <= 1;
  return r;
}

void routing_free(Routing *r)
{
  if (!r)
    return;
  g_free(r->slope);
  g_free(r->layers);
  g_free(r->quantiles);
  g_free(r);
}

double routing_draw(const Routing *r, int layers, guint64 *random)
{
  double sum = 0;

  for (int i = 0; i < layers; i++)
    sum += noise_draw(r->quantiles, random) - r->mean;
  return sum / layers;
}
