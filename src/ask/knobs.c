#include "ask/knobs.h"

static void scale_math(Cluster *c, int tier, double f)
{
  (void)tier;
  cluster_scale_peak(c, f);
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
  device_scale_launches(&c->device, f);
}

static void scale_sustained(Cluster *c, int tier, double f)
{
  (void)tier;
  c->device.sustained_fraction = MIN(1, c->device.sustained_fraction * f);
  c->device.kernels.attention_sustained = MIN(1, c->device.kernels.attention_sustained * f);
}

static void scale_latency(Cluster *c, int tier, double f)
{
  Link *l = &c->tiers[tier].link;
  l->base_s *= f;
  l->hop_s *= f;
  l->tree_hop_s *= f;
  l->p2p_base_s *= f;
  l->short_base_s *= f;
  l->in_switch_base_s *= f;
}

static void scale_slowdown(Cluster *c, int tier, double f)
{
  c->tiers[tier].link.compute_slowdown = 1 + (c->tiers[tier].link.compute_slowdown - 1) * f;
}

const Knob knobs[] = {
  { "matrix FLOP/s", NULL, scale_math },
  { "sustained share of matrix FLOP/s", NULL, scale_sustained },
  { "memory bandwidth", NULL, scale_memory_rate },
  { "memory size", NULL, scale_memory, .room = TRUE },
  { "kernel launch time", NULL, scale_launches, .costs = TRUE },
  { "bandwidth", NULL, cluster_scale_tier, .of_tier = TRUE },
  { "latency", NULL, scale_latency, .of_tier = TRUE, .costs = TRUE },
  { "slowdown of kernels beside", "collectives", scale_slowdown, .of_tier = TRUE, .costs = TRUE },
  { NULL },
};

double knob_floor_scale(const Cluster *c, const Knob *knob, int tier, double factor)
{
  gboolean slower = knob->costs ? factor > 1 : factor < 1;
  double slowdown = c->tiers[0].link.compute_slowdown;

  if (knob->room || (slower && (knob->costs || tier == 0)))
    return 1;
  return slower ? (1 + (slowdown - 1) * factor) / slowdown : MIN(factor, 1 / factor);
}
