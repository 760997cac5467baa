/* Experts on ranks of their own, and limits of their tokens. */
#include "plan/check.h"

#include <string.h>

/* What HybridEP asks (branch hybrid-ep @94a9f8f): as many ranks of its group in each NVLink domain (deep_ep/hybrid_ep_buffer.py),
 * rows of so many values and so many experts of a domain (csrc/hybrid_ep/config.cuh). */
#define HYBRID_ROW 16
#define HYBRID_EXPERTS 4

static int hybrid_domain(const Cluster *cluster)
{
  return cluster->network_tier > 0 ? cluster->tiers[cluster->network_tier - 1].devices : cluster->devices;
}

static gboolean hybrid_runs(const Cluster *cluster, int ranks)
{
  int domain = hybrid_domain(cluster);

  return cluster->devices <= domain || domain % ranks == 0 || ranks % domain == 0;
}

static gboolean check_hybrid_sizes(const Subject *s, const FeedForward *f, GError **error)
{
  const Plan *p = s->plan;
  int width = f->latent ? f->latent : s->model->hidden;
  int experts = f->experts / p->ep * MIN(p->ep * plan_expert_tensor(p), hybrid_domain(s->cluster));

  if (p->dispatch != DISPATCH_HYBRID || !plan_experts_apart(p))
    return TRUE;
  if (width % HYBRID_ROW != 0)
    return broken(error, "moe_token_dispatcher_type: \"hybridep\": expected that %d divides the %d values that travel of a "
                         "token", HYBRID_ROW, width);
  if (experts % HYBRID_EXPERTS != 0)
    return broken(error, "moe_token_dispatcher_type: \"hybridep\": expected that %d divides the %d experts on ranks of an "
                         "NVLink domain", HYBRID_EXPERTS, experts);
  return TRUE;
}

static gboolean check_expert_sizes(const Subject *s, const FeedForward *f, GError **error)
{
  const Plan *p = s->plan;
  int etp = plan_expert_tensor(p);

  if (f->experts % p->ep != 0)
    return broken(error, "expert_model_parallel_size: %d: expected a divisor of the %d experts", p->ep, f->experts);
  if (f->width % etp != 0)
    return broken(error, "expert_tensor_parallel_size: %d: expected a divisor of the experts' width %d", etp, f->width);
  return check_hybrid_sizes(s, f, error);
}

static gboolean check_expert_ranks(const Subject *s, GError **error)
{
  const Plan *p = s->plan;
  gint64 ranks = (gint64)plan_replicas(p) * p->tp, block = (gint64)p->ep * plan_expert_tensor(p);

  if (ranks % block != 0)
    return broken(error, "expert_model_parallel_size: %d: expected that with expert tensor parallel %d it divides the %"
                         G_GINT64_FORMAT " ranks of a stage", p->ep, plan_expert_tensor(p), ranks);
  return TRUE;
}

gboolean check_expert_copies(const Subject *s, GError **error)
{
  const Plan *p = s->plan;
  int copies = plan_copies(p);

  if (plan_expert_replicas(p) % copies != 0)
    return broken(error, "shard_group_size: %d: expected that its %d copies divide the %d ranks that hold the same "
                         "experts", p->shard_group, copies, plan_expert_replicas(p));
  return TRUE;
}

gboolean check_expert_rows(const Subject *s, GError **error)
{
  const Plan *p = s->plan;

  if (plan_experts_apart(p) && p->tp > 1 && !p->sequence_parallel)
    return broken(error, "sequence_parallel: false: expected true where experts are divided over ranks under "
                         "tensor_model_parallel_size %d", p->tp);
  return TRUE;
}

/* Nodes that DeepEP's kernels between nodes are compiled for (deepseek-ai/DeepEP @dd758ca, csrc/kernels/legacy/launch.cuh). */
static const guint8 deepep_nodes[] = { 2, 3, 4, 6, 8, 12, 16, 18, 20 };

/* 2, 4 or 8 ranks that open each other's memory, or so many eights of them (csrc/legacy/buffer.hpp there): in one server,
 * as a rack's trays do not (Megatron Core makes its buffers without use_fabric). */
static gboolean deepep_runs(int ranks, int node, int server)
{
  if (ranks <= node)
    return (ranks & (ranks - 1)) == 0 && server % ranks == 0;
  return server % node == 0 && ranks % node == 0 &&
         memchr(deepep_nodes, ranks / node, ranks / node <= G_MAXUINT8 ? sizeof deepep_nodes : 0);
}

static gboolean check_dispatch(const Subject *s, GError **error)
{
  const Plan *p = s->plan;
  const Framework *f = p->framework;
  const Cluster *cluster = s->cluster;
  int ranks = p->ep * plan_expert_tensor(p);

  if (!(f->dispatch >> p->dispatch & 1))
    return broken(error, "moe_token_dispatcher_type: \"%s\": expected one that %s runs",
                  expert_dispatch_names[p->dispatch], f->name);
  if (dispatch_by_kernels(p->dispatch) && cluster->device.kernels.dispatch.s_per_byte == 0)
    return broken(error, "moe_token_dispatcher_type: \"%s\": expected alltoall or allgather, no kernels of it are known "
                         "for %s", expert_dispatch_names[p->dispatch], cluster->device.name);
  /* Megatron-Core 0.17, transformer_config.py; 0.13, MoEFlexTokenDispatcher */
  if (p->dispatch == DISPATCH_FLEX && plan_pads_experts(p))
    return broken(error, "moe_token_dispatcher_type: \"flex\": expected another where experts are padded to a capacity, "
                         "DeepEP pads none");
  if (p->dispatch == DISPATCH_FLEX && f->flex_node > 0 && !deepep_runs(ranks, f->flex_node, cluster->devices_per_node))
    return broken(error, "moe_token_dispatcher_type: \"flex\": expected experts over %s%d ranks of a node, or 2, 3, "
                         "4, 6, 8, 12, 16, 18 or 20 nodes of %d, as DeepEP's kernels are made for; they are over %d ranks, "
                         "%d a node",
                  f->flex_node == 8 ? "2, 4 or " : f->flex_node == 4 ? "2 or " : "", f->flex_node, f->flex_node, ranks,
                  MIN(ranks, cluster->devices_per_node));
  if (p->dispatch == DISPATCH_HYBRID && !hybrid_runs(cluster, ranks))
    return broken(error, "moe_token_dispatcher_type: \"hybridep\": expected experts over as many ranks of each NVLink "
                         "domain, they are over %d", ranks);
  return TRUE;
}

/* Where a framework puts experts that are apart. */
static gboolean check_expert_placement(const Subject *s, GError **error)
{
  const Plan *p = s->plan;
  const Framework *f = p->framework;

  if (f->experts == EXPERTS_WHOLE)
    return broken(error, "expert_model_parallel_size: %d: expected 1, and expert_tensor_parallel_size as tensor, %s "
                         "divides no experts over ranks", p->ep, f->name);
  if (f->experts == EXPERTS_DATA && (plan_expert_tensor(p) != p->tp || p->dp % p->ep != 0))
    return broken(error, "expert_model_parallel_size: %d: expected a divisor of data_parallel_size %d, and "
                         "expert_tensor_parallel_size as tensor, %s folds no experts over other ranks",
                  p->ep, p->dp, f->name);
  return check_dispatch(s, error);
}

static gboolean check_shared(const Subject *s, GError **error)
{
  const Plan *p = s->plan;

  if (p->overlap.experts &&
      (!p->framework->shared_overlap || !plan_experts_apart(p) || p->dispatch != DISPATCH_ALL_TO_ALL))
    return broken(error, "overlap: experts: true: expected false but where %s sends tokens to experts by alltoall",
                  p->framework->name);
  return TRUE;
}

/* Whether backwards exchange tokens again for what they recompute. */
static gboolean exchanges_again(const Plan *p)
{
  return p->recompute == RECOMPUTE_FULL || recompute_selects(p->recompute, &p->scope, MODULE_MOE);
}

/* Whether it is Megatron Core's HybridModel, which has no build_schedule_plan() (GPTModel alone has; core 0.18 to 0.20). */
static gboolean is_hybrid(const Model *m)
{
  gboolean mamba = model_is_patterned(m);

  for (int i = 0; i < m->n_specs; i++) {
    const LinearAttention *linear = &m->specs[i].linear;
    mamba |= linear->heads > 0 && (linear->kind == LINEAR_MAMBA1 || linear->kind == LINEAR_MAMBA2);
  }
  return mamba;
}

gboolean check_exchange(const Subject *s, GError **error)
{
  const Plan *p = s->plan;

  if (!p->overlap.exchange)
    return TRUE;
  if (!p->framework->exchange_overlap || p->ep == 1 || p->dispatch == DISPATCH_GATHER || p->overlap.experts)
    return broken(error, "overlap: exchange: true: expected false but where %s sends tokens to experts on other ranks, "
                         "not by allgather, and without overlap of shared experts", p->framework->name);
  if (is_hybrid(s->model))
    return broken(error, "overlap: exchange: true: expected false, %s runs passes of models with Mamba, or of attention and "
                         "MLPs as layers of their own, one after the other", p->framework->name);
  if (s->model->mtp > 1)
    return broken(error, "overlap: exchange: true: expected false, or a model with at most 1 module for multi-token "
                         "prediction, it has %d", s->model->mtp);
  if (exchanges_again(p) && !p->framework->exchange_recompute)
    return broken(error, "overlap: exchange: true: expected false where backwards exchange again what they recompute, "
                         "which %s cannot do beside other passes", p->framework->name);
  if (p->pp > 1 && p->vpp == 1)
    return broken(error, "overlap: exchange: true: expected virtual_pipeline_model_parallel_size above 1 with a "
                         "pipeline, which runs a forward beside a backward");
  return TRUE;
}

#define STASHED_MICRO_BATCHES 1000 /* fewer, as Megatron Core 0.18's moe/paged_stash.py numbers what it keeps */

/* Whether the host needs no number of rows: experts' are kept in pages, of whole experts alone, whose kernels are fused. */
static gboolean rows_stay(const Subject *s)
{
  const Plan *p = s->plan;

  return p->framework->paged_stash && plan_experts_apart(p) && p->dispatch == DISPATCH_HYBRID &&
         plan_expert_tensor(p) == 1 && plan_micro_batches(p) < STASHED_MICRO_BATCHES;
}

/* Whether the fused kernels take numbers of rows that stay on the device: else the host reads them. */
static gboolean counts_stay(const Subject *s)
{
  const Plan *p = s->plan;
  const Framework *f = p->framework;
  gboolean blocks = device_scales_blocks(&s->cluster->device);

  if (plan_narrow(p))
    return blocks && f->stash_recipes >> plan_recipe(p) & 1;
  return p->precision != DTYPE_FP32 && (blocks || f->stash_elsewhere);
}

static gboolean attends_with_biases(const Model *model)
{
  gboolean biases = FALSE;

  for (int i = 0; i < model->n_specs; i++)
    biases |= model->specs[i].attention.qkv_bias || model->specs[i].attention.out_bias;
  return biases;
}

static gboolean stray_module(GError **error, guint modules, const char *expected)
{
  return broken(error, "cuda_graph_modules: \"%s\": expected %s", recorded_module_names[g_bit_nth_lsf(modules, -1)], expected);
}

/* As Megatron Core's transformer_config.py has it of modules that are named. */
static gboolean check_graph_modules(const Subject *s, GError **error)
{
  const Plan *p = s->plan;
  const guint named = p->graph_modules, missing = named & ~recorded_modules_of(s->model);
  const guint whole = named & (1u << RECORDED_MLP | 1u << RECORDED_MOE), router = named & 1u << RECORDED_MOE_ROUTER;
  const guint experts = named & 1u << RECORDED_MOE, lays_out = named & 1u << RECORDED_MOE_PREPROCESS;

  if (named && p->graph != GRAPH_PARTIAL)
    return broken(error, "cuda_graph_modules: expected cuda_graph partial, it is %s", cuda_graph_names[p->graph]);
  if (missing) {
    g_autofree char *expected = g_strdup_printf("a module that model %s has", s->model->name);
    return stray_module(error, missing, expected);
  }
  if (experts && (router || lays_out))
    return stray_module(error, experts, "no moe_router and moe_preprocess beside it, which are parts of it");
  if (experts && !plan_pads_experts(p))
    return stray_module(error, experts, "experts padded to a capacity, others have other shapes in each pass");
  if (lays_out && !router)
    return stray_module(error, lays_out, "moe_router beside it");
  if (lays_out && p->expert_capacity > 0 && !plan_pads_experts(p) && p->dispatch == DISPATCH_ALL_TO_ALL)
    return stray_module(error, lays_out, "none where the host reads how many rows are left of a capacity");
  if (whole && p->overlap.exchange)
    return stray_module(error, whole, "none that the exchange of tokens is part of or waits for, it overlaps");
  if (router && recompute_selects(p->recompute, &p->scope, MODULE_MOE))
    return stray_module(error, router, "none where experts are made again with their router");
  return TRUE;
}

/* As Megatron Core's transformer_config.py has it, and Megatron-Bridge's documents of graphs. Beside an exchange that
 * overlaps weights' gradients are delayed (arguments.py: "CUDA graph with delay_wgrad_compute doesn't support attn bias"). */
gboolean check_graph(const Subject *s, GError **error)
{
  const Plan *p = s->plan;

  if (!check_graph_modules(s, error))
    return FALSE;
  if (p->graph == GRAPH_NONE)
    return TRUE;
  if (!(p->framework->graphs >> p->graph & 1))
    return broken(error, "cuda_graph: \"%s\": expected one that %s runs", cuda_graph_names[p->graph],
                  p->framework->name);
  if (p->graph == GRAPH_PARTIAL && p->recompute == RECOMPUTE_FULL)
    return broken(error, "cuda_graph: \"partial\": expected none or full where recompute_granularity is full: what is "
                         "recorded of a layer cannot be made again with the rest of it");
  if (p->graph == GRAPH_PARTIAL && plan_recorded(p) >> RECORDED_ATTN & 1 && p->overlap.exchange &&
      attends_with_biases(s->model))
    return broken(error, "cuda_graph: \"partial\": expected none, full or modules without attn where the exchange of tokens "
                         "overlaps and attention has biases: %s cannot record what then delays their gradients",
                  p->framework->name);
  if (p->graph != GRAPH_FULL || !model_has_experts(s->model) || plan_pads_experts(p))
    return TRUE;
  if (!rows_stay(s))
    return broken(error, "cuda_graph: \"full\": expected experts padded to a capacity%s, the host knows no number of "
                         "rows while a recorded step runs",
                  p->framework->paged_stash ? ", or whole ones on other ranks by hybridep and fewer than 1000 "
                                              "micro-batches" : "");
  if (!counts_stay(s))
    return broken(error, "cuda_graph: \"full\": expected a format for which the kernels of all experts read numbers of "
                         "rows on the device, as in %s they do not for %s on %s", p->framework->name,
                  plan_narrow(p) ? fp8_recipe_names[plan_recipe(p)] : dtype_names[plan_format(p)],
                  s->cluster->device.name);
  return TRUE;
}

static gboolean check_capacity(const Subject *s, GError **error)
{
  const Plan *p = s->plan;

  if (p->expert_capacity > 0 && p->framework->capacity == CAPACITY_NONE)
    return broken(error, "moe_expert_capacity_factor: %g: expected none, %s drops no tokens", p->expert_capacity,
                  p->framework->name);
  return TRUE;
}

gboolean check_experts(const Subject *s, GError **error)
{
  gboolean any = FALSE;

  if (!check_shared(s, error) || !check_capacity(s, error))
    return FALSE;
  if ((s->plan->expert_padded || s->plan->expert_drop) && s->plan->expert_capacity <= 0)
    return broken(error, "%s: expected a moe_expert_capacity_factor beside it",
                  s->plan->expert_padded ? "moe_pad_expert_input_to_capacity" : "moe_token_drop_policy");
  if (!plan_experts_apart(s->plan))
    return TRUE;
  for (int i = 0; i < s->model->n_specs; i++) {
    const FeedForward *f = &s->model->specs[i].ffn;
    any |= f->experts > 0;
    if (f->experts > 0 && !check_expert_sizes(s, f, error))
      return FALSE;
  }
  if (!any)
    return broken(error, "expert_model_parallel_size: %d: expected 1, and no expert_tensor_parallel_size, model %s has "
                         "no experts", s->plan->ep, s->model->name);
  return check_expert_ranks(s, error) && check_expert_placement(s, error);
}
