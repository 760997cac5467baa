#include "validate/ablation.h"

#include "validate/validate.h"

typedef void (*Ablate)(Cluster *cluster, Framework *framework);

#define UNUSED(x) ((void)(x))

static void waves(Cluster *c, Framework *f)
{
  UNUSED(f);
  for (int d = 0; d < DTYPE_COUNT; d++)
    c->device.kernels.matmul[d].wave_weight = 0;
}

static void tiles(Cluster *c, Framework *f)
{
  UNUSED(f);
  for (int d = 0; d < DTYPE_COUNT; d++) {
    c->device.kernels.matmul[d].tile_overhead_s = 0;
    c->device.kernels.matmul[d].tile_exponent = 0;
  }
}

static void launches(Cluster *c, Framework *f)
{
  UNUSED(f);
  for (int d = 0; d < DTYPE_COUNT; d++)
    c->device.kernels.matmul[d].launch_s = 0;
  c->device.kernels.attention_launch_s = c->device.kernels.memory_launch_s = 0;
}

static void host(Cluster *c, Framework *f)
{
  UNUSED(c);
  f->issue_s = f->operation_s = f->collective_s = f->step_s = 0;
}

static void sustained(Cluster *c, Framework *f)
{
  UNUSED(f);
  c->device.sustained_fraction = 1;
  c->device.kernels.attention_sustained = 0;
}

static void spread(Cluster *c, Framework *f)
{
  UNUSED(f);
  c->device.rate_spread = 0;
}

static void memory_rate(Cluster *c, Framework *f)
{
  UNUSED(f);
  c->device.kernels.memory_fraction = 1;
}

static void accumulation(Cluster *c, Framework *f)
{
  UNUSED(c);
  f->accumulation = ACCUMULATE_NONE;
}

static void each_link(Cluster *c, void (*change)(Link *))
{
  for (int t = 0; t < c->n_tiers; t++)
    change(&c->tiers[t].link);
}

static void no_latency(Link *l)
{
  l->base_s = l->hop_s = l->tree_hop_s = l->p2p_base_s = l->short_base_s = l->in_switch_base_s = 0;
}

static void latency(Cluster *c, Framework *f)
{
  UNUSED(f);
  each_link(c, no_latency);
}

static void no_fill(Link *l)
{
  l->sqrt_s_per_byte = l->p2p_sqrt_s_per_byte = l->in_switch_sqrt_s_per_byte = 0;
}

static void fill(Cluster *c, Framework *f)
{
  UNUSED(f);
  each_link(c, no_fill);
}

static void full_rate(Link *l)
{
  l->efficiency = l->p2p_efficiency = 1;
}

static void link_rate(Cluster *c, Framework *f)
{
  UNUSED(f);
  each_link(c, full_rate);
}

static void any_channel(Link *l)
{
  l->channel_bytes_per_s = l->tree_channel_bytes_per_s[0] = l->tree_channel_bytes_per_s[1] = 0;
}

static void channels(Cluster *c, Framework *f)
{
  UNUSED(f);
  each_link(c, any_channel);
}

static void no_slowdown(Link *l)
{
  l->compute_slowdown = 1;
}

static void slowdown(Cluster *c, Framework *f)
{
  UNUSED(f);
  each_link(c, no_slowdown);
}

static void libraries(Cluster *c, Framework *f)
{
  UNUSED(f);
  c->device.kernels.early_cuda_version = 0;
}

static void sharding(Cluster *c, Framework *f)
{
  UNUSED(c);
  f->shard_copy_bytes = f->shard_live_params = f->shard_tensors = 0;
  f->whole_tensors = FALSE;
}

static void eager_norms(Cluster *c, Framework *f)
{
  UNUSED(c);
  f->fused_rms_norm = TRUE;
}

static const struct {
  const char *name;
  Ablate ablate;
} ablations[] = {
  { "wave quantisation", waves },
  { "cost of a tile", tiles },
  { "kernel launches", launches },
  { "host time", host },
  { "sustained rate below bursts", sustained },
  { "slowest of the devices", spread },
  { "memory bandwidth below peak", memory_rate },
  { "gradient accumulation", accumulation },
  { "latency of collectives", latency },
  { "pipeline fill of collectives", fill },
  { "link rate below nominal", link_rate },
  { "channels of communicators", channels },
  { "overlap slows kernels", slowdown },
  { "early libraries", libraries },
  { "sharding by tensors, its copies", sharding },
  { "norms of eager PyTorch", eager_norms },
};

const char *ablation_name(int ablation)
{
  return ablation < (int)G_N_ELEMENTS(ablations) ? ablations[ablation].name : NULL;
}

void ablate(int ablation, Cluster *cluster, Framework *framework)
{
  if (ablation >= 0)
    ablations[ablation].ablate(cluster, framework);
}
