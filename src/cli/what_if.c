/* What a change of the hardware, or of how much of it there is, would do. */
#include "cli/question.h"

#include "sim/simulate.h"

#include <math.h>

/* ---- sensitivity ---- */

typedef struct {
  const char *title;
  void (*scale)(Cluster *cluster, int tier, double factor);
  gboolean of_tier;
} Knob;

static void scale_math(Cluster *c, int tier, double f)
{
  (void)tier;
  for (int t = 0; t < DTYPE_COUNT; t++)
    c->device.peak_flops_per_s[t] *= f;
}

static void scale_memory_rate(Cluster *c, int tier, double f)
{
  (void)tier;
  c->device.memory_bytes_per_s *= f;
}

static void scale_memory(Cluster *c, int tier, double f)
{
  (void)tier;
  c->device.memory_bytes *= f;
}

static void scale_launches(Cluster *c, int tier, double f)
{
  (void)tier;
  for (int t = 0; t < DTYPE_COUNT; t++)
    c->device.kernels.matmul[t].launch_s *= f;
  c->device.kernels.memory_launch_s *= f;
  c->device.kernels.attention_launch_s *= f;
}

static void scale_sustained(Cluster *c, int tier, double f)
{
  (void)tier;
  c->device.sustained_fraction = MIN(1, c->device.sustained_fraction * f);
}

static void scale_bandwidth(Cluster *c, int tier, double f)
{
  c->tiers[tier].bytes_per_s *= f;
  c->tiers[tier].port_bytes_per_s *= f;
}

static void scale_latency(Cluster *c, int tier, double f)
{
  Link *l = &c->tiers[tier].link;
  l->base_s *= f;
  l->hop_s *= f;
  l->tree_hop_s *= f;
  l->p2p_base_s *= f;
  l->in_switch_base_s *= f;
}

static void scale_slowdown(Cluster *c, int tier, double f)
{
  c->tiers[tier].link.compute_slowdown = 1 + (c->tiers[tier].link.compute_slowdown - 1) * f;
}

static const Knob knobs[] = {
  { "matrix FLOP/s", scale_math, FALSE },
  { "sustained share of them", scale_sustained, FALSE },
  { "memory bandwidth", scale_memory_rate, FALSE },
  { "memory size", scale_memory, FALSE },
  { "kernel launch time", scale_launches, FALSE },
  { "bandwidth", scale_bandwidth, TRUE },
  { "latency", scale_latency, TRUE },
  { "slowdown of kernels beside", scale_slowdown, TRUE },
};

static const AnswerColumn sensitivity_columns[] = {
  { "number", "<number", CELL_TEXT },
  { "step_change_minus", "step at -10 %", CELL_PERCENT }, { "step_change_plus", "at +10 %", CELL_PERCENT },
  { "step_change_double", "doubled", CELL_PERCENT },
  { "best_change_minus", "best plan at -10 %", CELL_PERCENT }, { "best_change_plus", "at +10 %", CELL_PERCENT },
  { "plan_minus", "<another plan wins at -10 %", CELL_TEXT }, { "plan_plus", "<at +10 %", CELL_TEXT },
};

static double step_of(const Asked *q, const Cluster *cluster, const Plan *plan)
{
  g_autoptr(Trace) trace = simulate_plan(q->model, cluster, plan);
  return trace->end_s;
}

static void add_knob(Answer *a, const Asked *q, const Found *best, const Knob *knob, int tier)
{
  static const double factors[] = { 0.9, 1.1, 2 };
  double step = best->metrics.iteration_s, changed[2] = { NAN, NAN };
  g_autofree char *title = knob->of_tier ? g_strdup_printf("%s %s", q->cluster->tiers[tier].name, knob->title) : NULL;
  g_autofree char *label = plan_label(&best->plan);
  char *others[2] = { NULL, NULL };

  answer_add_text(a, title ? title : knob->title);
  for (int i = 0; i < 3; i++) {
    Cluster cluster = *q->cluster;
    Found found;
    knob->scale(&cluster, tier, factors[i]);
    answer_add(a, step_of(q, &cluster, &best->plan) / step - 1);
    if (i < 2 && ask_best(q->model, &cluster, q->options, cluster.devices, &found)) {
      changed[i] = found.metrics.iteration_s / step - 1;
      others[i] = plan_label(&found.plan);
    }
  }
  for (int i = 0; i < 2; i++)
    answer_add(a, changed[i]);
  for (int i = 0; i < 2; i++) {
    answer_add_text(a, !others[i] ? "none fits" : g_str_equal(others[i], label) ? "no" : others[i]);
    g_free(others[i]);
  }
}

Answer *answer_sensitivity(const Asked *q)
{
  Answer *a = answer_new(sensitivity_columns, G_N_ELEMENTS(sensitivity_columns));
  Found best;

  if (!ask_best(q->model, q->cluster, q->options, q->cluster->devices, &best)) {
    g_string_assign(a->says, "No plan fits.");
    return a;
  }
  g_autofree char *label = plan_label(&best.plan);
  g_string_printf(a->says,
                  "Of %s, %.4g s a step: the change of its step, and of the best plan's, when one number changes.",
                  label, best.metrics.iteration_s);
  for (gsize k = 0; k < G_N_ELEMENTS(knobs); k++)
    for (int tier = 0; tier < (knobs[k].of_tier ? q->cluster->n_tiers : 1); tier++)
      add_knob(a, q, &best, &knobs[k], tier);
  return a;
}

/* ---- scaling ---- */

static const AnswerColumn scaling_columns[] = {
  { "scaling", "<scaling", CELL_TEXT }, { "gpus", "GPUs", CELL_INT }, { "global_batch_size", "batch", CELL_INT },
  { "iteration_s", "step", CELL_SECONDS }, { "tokens_per_s", "tokens/s", CELL_REAL },
  { "tokens_per_s_per_gpu", "tokens/s/GPU", CELL_REAL }, { "efficiency", "per GPU against the first", CELL_PERCENT },
  { "plan", "<plan", CELL_TEXT },
};

static double add_scaled(Answer *a, const Asked *q, gboolean weak, int factor, double first)
{
  Plan base = *q->options->base;
  SearchOptions o = *q->options;
  int gpus = q->cluster->devices * factor;
  Found f;

  base.global_batch *= weak ? factor : 1;
  o.base = &base;
  gboolean found = ask_best(q->model, q->cluster, &o, gpus, &f);
  g_autofree char *label = found ? plan_label(&f.plan) : g_strdup("none");
  double rate = found ? (double)base.global_batch * base.seq / f.metrics.iteration_s : NAN;
  answer_add_text(a, weak ? "weak" : "strong");
  answer_add(a, gpus);
  answer_add(a, base.global_batch);
  answer_add(a, found ? f.metrics.iteration_s : NAN);
  answer_add(a, rate);
  answer_add(a, rate / gpus);
  answer_add(a, factor == 1 ? 0 : rate / gpus / first - 1);
  answer_add_text(a, label);
  return rate / gpus;
}

Answer *answer_scaling(const Asked *q)
{
  Answer *a = answer_new(scaling_columns, G_N_ELEMENTS(scaling_columns));

  g_string_printf(a->says,
                  "The best plan on 1 to 16 times %d GPUs: strong scaling keeps the global batch, weak scaling keeps "
                  "the batch of a GPU.", q->cluster->devices);
  for (int weak = 0; weak < 2; weak++) {
    double first = NAN;
    for (int factor = 1; factor <= 16; factor *= 2) {
      double rate = add_scaled(a, q, weak, factor, first);
      first = factor == 1 ? rate : first;
    }
  }
  return a;
}
