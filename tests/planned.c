#include "planned.h"

#include "base/error.h"
#include "program_check.h"
#include "search/bound.h"
#include "sim/simulate.h"

#include <math.h>

void planned_init(Planned *p, Model *model, Cluster *cluster, const char *framework)
{
  *p = (Planned) { .model = model, .cluster = cluster, .framework = fixture_framework(framework) };
  p->plan = plan_default(p->model, p->framework);
}

void planned_clear(Planned *p)
{
  program_free(p->program);
  price_table_free(p->prices);
  framework_free(p->framework);
  cluster_free(p->cluster);
  model_free(p->model);
}

void planned_spread(Planned *p, int each)
{
  p->plan.gpus = p->plan.dp = p->cluster->devices;
  p->plan.global_batch = each * p->plan.dp;
}

void planned_divide(Planned *p, int tp, int pp, int dp)
{
  GError *error = NULL;

  p->plan.tp = tp;
  p->plan.pp = pp;
  p->plan.dp = dp;
  p->plan.gpus = tp * pp * dp;
  if (!cluster_resize(p->cluster, p->plan.gpus, &error))
    g_error("%s", error->message);
}

void planned_accept(const Planned *p)
{
  GError *error = NULL;

  if (plan_check(&p->plan, p->model, p->cluster, &error) != RULE_NONE)
    g_error("%s", error->message);
}

double planned_transient(const Planned *p, int layer)
{
  LayerWork work;

  layer_work_init(&work, p->model, model_layer(p->model, layer), PASSES(&p->plan), p->cluster);
  double bytes = work.transient_bytes;
  layer_work_clear(&work);
  return bytes;
}

void planned_refuse(const Planned *p, PlanRule rule, const char *message)
{
  GError *error = NULL;
  PlanRule found = plan_check(&p->plan, p->model, p->cluster, &error);

  if (found == RULE_NONE)
    g_error("the plan is accepted, expected: %s", message);
  if (found != rule || error->code != TDP_ERROR_INPUT || !g_str_equal(error->message, message))
    g_error("rule %d: %s\nexpected rule %d: %s", found, error->message, rule, message);
  g_assert_cmpint(plan_check(&p->plan, p->model, p->cluster, NULL), ==, rule);
  g_error_free(error);
}

void planned_build_with(Planned *p, PriceTable *prices)
{
  GError *error = NULL;

  planned_accept(p);
  program_free(p->program);
  price_table_free(p->prices);
  p->prices = prices;
  p->program = program_new(p->model, LAYOUT(&p->plan), p->cluster, prices);
  if (!program_check(p->program, &error))
    g_error("%s: %s", p->plan.schedule->name, error->message);
}

void planned_build(Planned *p)
{
  planned_build_with(p, price_table_new(p->model, LAYOUT(&p->plan), p->cluster));
}

/* Breakdown of the step: its parts add up. */
static Metrics metrics_of(const Trace *trace)
{
  Metrics m;

  trace_metrics(trace, &m);
  double parts = m.compute_s + m.tensor_comm_s + m.context_comm_s + m.expert_comm_s + m.pipeline_comm_s +
                 m.data_comm_s + m.offload_s + m.optimizer_s + m.idle_s;
  if (fabs(parts - m.iteration_s) > 1e-9)
    g_error("parts of %.12g s make up a step of %.12g s", parts, m.iteration_s);
  return m;
}

Metrics planned_run(Planned *p)
{
  planned_build(p);
  g_autoptr(Trace) trace = simulate(p->program);
  Metrics m = metrics_of(trace);
  PriceSums *sums = price_sums_new(p->model, LAYOUT(&p->plan), p->cluster);
  BoundRanks ranks = bound_ranks(p->model, LAYOUT(&p->plan), sums);

  g_assert_cmpfloat(bound_time(p->model, LAYOUT(&p->plan), p->cluster, sums, NULL), <=, m.iteration_s);
  g_assert_cmpfloat(bound_memory(LAYOUT(&p->plan), &ranks), <=, m.peak_memory_bytes);
  g_assert_cmpfloat(bound_memory_by_order(p->model, LAYOUT(&p->plan), sums), <=, m.peak_memory_bytes);
  price_sums_free(sums);
  return m;
}

static void add_op(LayerSums *sums, const Op *op, const LayerWork *work, const Planned *p, gboolean forward)
{
  double sent = op->collective.bytes;

  sums->flops += op->flops;
  if (op->kind == OP_ATTENTION)
    sums->attention_s += op_s(op, PASSES(&p->plan), p->cluster);
  if (op->kind != OP_COLLECTIVE)
    return;
  sent *= collective_bus_factor(op->collective.what, op->collective.group.size);
  sums->sent[op->collective.axis] += sent;
  sums->sent_again[op->collective.axis] += forward ? sent * op_recompute_share(op, work, PASSES(&p->plan)) : 0;
}

LayerSums planned_layer(const Planned *p, int layer)
{
  LayerSums sums = { 0 };
  LayerWork work;

  layer_work_init(&work, p->model, model_layer(p->model, layer), PASSES(&p->plan), p->cluster);
  for (guint i = 0; i < work.forward->len; i++)
    add_op(&sums, &g_array_index(work.forward, Op, i), &work, p, TRUE);
  for (guint i = 0; i < work.backward->len; i++)
    add_op(&sums, &g_array_index(work.backward, Op, i), &work, p, FALSE);
  sums.params = work.params;
  sums.expert_params = work.expert_params;
  sums.saved_bytes = work.saved_bytes;
  layer_work_clear(&work);
  return sums;
}

/* Of a layer's ops of a name. */
static double summed(const Planned *p, int layer, const char *name, gboolean backward, gboolean host)
{
  LayerWork work;
  double sum = 0;

  layer_work_init(&work, p->model, model_layer(p->model, layer), PASSES(&p->plan), p->cluster);
  const GArray *ops = backward ? work.backward : work.forward;
  for (guint i = 0; i < ops->len; i++) {
    const Op *op = &g_array_index(ops, Op, i);
    if (!g_str_equal(op->name, name))
      continue;
    if (host)
      sum += op_operations(op, p->framework);
    else
      sum += op->kind == OP_COLLECTIVE ? op->collective.bytes : op->memory.bytes;
  }
  layer_work_clear(&work);
  return sum;
}

double planned_op_bytes(const Planned *p, int layer, const char *name, gboolean backward)
{
  return summed(p, layer, name, backward, FALSE);
}

double planned_op_operations(const Planned *p, int layer, const char *name, gboolean backward)
{
  return summed(p, layer, name, backward, TRUE);
}
