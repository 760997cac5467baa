#include "validate/ablation.h"

#include "validate/validate.h"

static void waves(Device *d)
{
  for (int i = 0; i < DTYPE_COUNT; i++)
    d->kernels.matmul[i].wave_weight = 0;
}

static void tiles(Device *d)
{
  for (int i = 0; i < DTYPE_COUNT; i++) {
    d->kernels.matmul[i].tile_overhead_s = 0;
    d->kernels.matmul[i].tile_exponent = 0;
  }
}

static void launches(Device *d) { device_scale_launches(d, 0); }

static void sustained(Device *d)
{
  d->sustained_fraction = 1;
  d->kernels.attention_sustained = 0;
}

static void spread(Device *d) { d->rate_spread = d->rate_passing = 0; }
static void memory_rate(Device *d) { d->kernels.memory_fraction = 1; }
static void libraries(Device *d) { d->kernels.early_cuda_version = 0; }

static void host(Framework *f) { f->issue_s = f->operation_s = f->collective_s = f->step_s = 0; }
static void accumulation(Framework *f) { f->accumulation = ACCUMULATE_NONE; }
static void eager_norms(Framework *f) { f->fused_rms_norm = TRUE; }

static void sharding(Framework *f)
{
  f->shard_copy_bytes = f->shard_gather_bytes = f->shard_reduce_bytes = f->shard_live_params = f->shard_tensors = 0;
  f->whole_tensors = FALSE;
}

static void latency(Link *l)
{
  l->base_s = l->hop_s = l->tree_hop_s = l->p2p_base_s = l->short_base_s = l->in_switch_base_s = 0;
}

static void fill(Link *l) { l->sqrt_s_per_byte = l->p2p_sqrt_s_per_byte = l->in_switch_sqrt_s_per_byte = 0; }
static void full_rate(Link *l) { l->efficiency = l->p2p_efficiency = 1; }
static void slowdown(Link *l) { l->compute_slowdown = 1; }

static void channels(Link *l)
{
  l->channel_bytes_per_s = l->tree_channel_bytes_per_s[0] = l->tree_channel_bytes_per_s[1] = 0;
}

/* What each changes: of the device, of the framework or of every link. */
static const struct {
  const char *name;
  void (*device)(Device *device);
  void (*framework)(Framework *framework);
  void (*link)(Link *link);
} ablations[] = {
  { "wave quantisation", .device = waves },
  { "cost of a tile", .device = tiles },
  { "kernel launches", .device = launches },
  { "host time", .framework = host },
  { "sustained rate below bursts", .device = sustained },
  { "slowest of the devices", .device = spread },
  { "memory bandwidth below peak", .device = memory_rate },
  { "gradient accumulation", .framework = accumulation },
  { "latency of collectives", .link = latency },
  { "pipeline fill of collectives", .link = fill },
  { "link rate below nominal", .link = full_rate },
  { "channels of communicators", .link = channels },
  { "overlap slows kernels", .link = slowdown },
  { "early libraries", .device = libraries },
  { "sharding by tensors, its copies", .framework = sharding },
  { "norms of eager PyTorch", .framework = eager_norms },
};

const char *ablation_name(int ablation)
{
  return ablation < (int)G_N_ELEMENTS(ablations) ? ablations[ablation].name : NULL;
}

void ablate(int ablation, Cluster *cluster, Framework *framework)
{
  if (ablation < 0)
    return;
  if (ablations[ablation].device)
    ablations[ablation].device(&cluster->device);
  if (ablations[ablation].framework)
    ablations[ablation].framework(framework);
  for (int t = 0; ablations[ablation].link && t < cluster->n_tiers; t++)
    ablations[ablation].link(&cluster->tiers[t].link);
}
