#include "sim/routing.h"

#include "cost/price.h"
#include "op/op.h"
#include "sim/noise.h"

#include <math.h>

#define LOAD_STEP 0.125 /* to both sides, over which a segment's time is taken to be a line */
#define COUNT (1 << NOISE_BITS)

static double mean_of(const double *values)
{
  double sum = 0;

  for (int i = 0; i < COUNT; i++)
    sum += values[i];
  return sum / COUNT;
}

/* Of two, half their difference. */
static double *larger_quantiles(double *mean)
{
  double *quantiles = noise_quantiles(1, M_SQRT1_2);

  for (int i = 0; i < COUNT; i++)
    quantiles[i] = quantiles[COUNT / 2 + i / 2];
  *mean = mean_of(quantiles);
  return quantiles;
}

/* Of the largest of n normal values less their mean, which is independent of it; never below 0. */
static double *busiest_quantiles(int n, double *mean)
{
  if (n == 2)
    return larger_quantiles(mean);
  double *quantiles = noise_quantiles(n, 1), squares = 0;
  *mean = mean_of(quantiles);
  for (int i = 0; i < COUNT; i++)
    squares += pow(quantiles[i] - *mean, 2) / COUNT;
  double kept = sqrt(MAX(0, 1 - 1 / (n * squares)));
  for (int i = 0; i < COUNT; i++)
    quantiles[i] = MAX(0, *mean + (quantiles[i] - *mean) * kept);
  double clamped = mean_of(quantiles) / *mean;
  for (int i = 0; i < COUNT; i++)
    quantiles[i] /= clamped;
  return quantiles;
}

/* Of the largest of n values that have these quantiles, which it takes the place of. */
static void take_largest(double *quantiles, int n)
{
  g_autofree double *one = g_memdup2(quantiles, COUNT * sizeof *one);

  for (int i = 0; i < COUNT; i++)
    quantiles[i] = one[MIN((int)(COUNT * pow((i + 0.5) / COUNT, 1.0 / n)), COUNT - 1)];
}

static const FeedForward *experts_of(const Model *model)
{
  int spec = 0;

  while (model->specs[spec].ffn.experts == 0)
    spec++;
  return &model->specs[spec].ffn;
}

/* Of a rank's load where tokens fall by chance. */
static double chance_deviation(const Model *model, const PassLayout *p)
{
  const FeedForward *f = experts_of(model);
  double rows = op_tokens(p) / p->tp * p->etp * f->experts_per_token;

  return sqrt((f->experts - f->experts_per_token) / (f->experts - 1.0) / rows);
}

/* Groups of ranks that share experts, in what a pass waits for. */
static int groups_of_pass(const PassLayout *p)
{
  int dense = p->tp * p->cp;

  return dense / group_divisor(dense, p->ep * p->etp);
}

static void fill_quantiles(Routing *r, const Model *model, const Layout *layout)
{
  const PassLayout *p = &layout->passes;
  double excess = layout->expert_load - 1, unit;
  double most = layout->expert_capacity > 0 ? layout->expert_capacity - 1 : INFINITY;

  r->popular = excess > 0;
  r->mean = excess;
  r->quantiles = busiest_quantiles(p->ep, &unit);
  if (!r->popular)
    take_largest(r->quantiles, groups_of_pass(p));
  double deviation = r->popular ? excess / unit : chance_deviation(model, p);
  for (int i = 0; i < COUNT; i++)
    r->quantiles[i] = MIN(r->quantiles[i] * deviation, most);
}

static Program *loaded(const Model *model, const Plan *plan, const Cluster *cluster, double load)
{
  const Layout layout = layout_of_load(plan, load);
  g_autoptr(PriceTable) prices = price_table_new(model, &layout, cluster);

  return program_new(model, &layout, cluster, prices);
}

static void find_slopes(Routing *r, const Model *model, const Plan *plan, const Cluster *cluster, guint segments)
{
  double load = layout_of(plan).expert_load, low = MAX(1, load - LOAD_STEP), high = load + LOAD_STEP;
  g_autoptr(Program) less = loaded(model, plan, cluster, low), more = loaded(model, plan, cluster, high);

  g_assert(less->segments->len == segments && more->segments->len == segments);
  for (guint i = 0; i < segments; i++) {
    const Segment *s = &g_array_index(more->segments, Segment, i);
    double before = g_array_index(less->segments, Segment, i).seconds;
    r->slope[i] = s->kind == TASK_PASS ? (s->seconds - before) / (high - low) : 0;
  }
}

Routing *routing_new(const Model *model, const Plan *plan, const Cluster *cluster, const Program *program)
{
  const Layout layout = layout_of(plan);
  gboolean full = layout.expert_capacity > 0 && (layout.expert_padded || layout.expert_load >= layout.expert_capacity);
  Routing *r;

  if (!model_has_experts(model) || layout.passes.ep < 2 || full)
    return NULL;
  r = g_new0(Routing, 1);
  r->slope = g_new0(double, program->segments->len);
  r->experts = g_new0(gboolean, model->n_layers);
  for (int l = 0; l < model->n_layers; l++)
    r->experts[l] = model_layer(model, l)->ffn.experts > 0;
  find_slopes(r, model, plan, cluster, program->segments->len);
  fill_quantiles(r, model, &layout);
  return r;
}

void routing_free(Routing *r)
{
  if (!r)
    return;
  g_free(r->slope);
  g_free(r->experts);
  g_free(r->quantiles);
  g_free(r);
}

double routing_s(const Routing *r, const Program *program, int segment, guint64 seed, guint micro, int group)
{
  const Segment *s = &g_array_index(program->segments, Segment, segment);
  guint64 of_pass = r->popular ? seed : noise_apart(noise_apart(seed, micro), group);
  double sum = 0;
  int layers = 0;

  for (int l = s->first_layer; l < s->first_layer + s->n_layers && r->slope[segment] != 0; l++)
    if (r->experts[l]) {
      guint64 of_layer = noise_apart(of_pass, l);
      sum += noise_draw(r->quantiles, &of_layer) - r->mean;
      layers++;
    }
  return layers > 0 ? r->slope[segment] * sum / layers : 0;
}
