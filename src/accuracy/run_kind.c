#include "accuracy/run_kind.h"

const char *const kind_name_keys[KIND_NAMES + 1] = {
  "device", "format", "engine", "schedule", "attention", "dispatcher", "context_exchange", "zero_stage", "recompute",
  "tensor_parallel", "offload", "adapter", NULL,
};
const char *const kind_name_titles[KIND_NAMES] = {
  "device", "format", "software family", "schedule", "attention", "dispatcher", "context exchange", "ZeRO stage",
  "recomputation", "tensor parallelism", "offloaded", "adapter",
};
const char *const kind_size_keys[KIND_SIZES + 1] = { "gpus", "tp", "pp", "vpp", "cp", "ep", "seq", "parameters", NULL };
const char *const kind_size_titles[KIND_SIZES] = { "GPUs",        "tp", "pp",        "chunks",
                                                   "cp",          "ep", "tokens a sequence",
                                                   "parameters" };

/* How far tensor-parallel ranks are apart; NULL = there is one. */
static const char *tensor_reach(const Layout *l, const Cluster *cluster)
{
  if (l->passes.tp == 1)
    return NULL;
  for (int rank = 0; rank < l->pipeline.shape.ranks; rank++) {
    const Cluster *site = mesh_site(&l->mesh, cluster, rank);
    GroupShape shape = pass_group(&l->passes, site, RANKS_TENSOR);
    if (group_tier(site, &shape) > 0)
      return "over nodes";
  }
  return "in a node";
}

static const char *offloaded(const Offload *o)
{
  return o->optimizer || o->parameters ? "states" : offload_keeps(o) ? "activations" : NULL;
}

/* Share of the peak of its products' format that the model's FLOPs take in a step of such seconds, those under causal
 * masks deducted so that long sequences compare with short ones; 0 if these are. */
static double mfu_of(const Model *model, const Layout *l, const Cluster *cluster, double iteration_s)
{
  const PassLayout *p = &l->passes;
  double peak = cluster_peak_flops_per_s(cluster, formats_product(&p->formats));
  double flops = adapter_flops_unmasked(&p->adapter, model, p->seq, p->decoder_seq) * l->global_batch;

  return iteration_s > 0 && peak > 0 ? flops / (iteration_s * p->ranks * peak) : 0;
}

RunKind run_kind(const Model *model, const Layout *l, const Cluster *cluster, const Metrics *metrics)
{
  static const char *const stages[] = { "0", "1", "2", "3" };
  const PassLayout *p = &l->passes;
  const ScheduleShape *shape = &l->pipeline.shape;
  AttentionKernel kernel;
  framework_attention_on(p->framework, p->attention, cluster, &kernel);
  RunKind kind = {
    .names = { [KIND_DEVICE] = g_intern_string(cluster->n_types ? cluster->name : cluster->device.name),
               [KIND_FORMAT] = dtype_names[formats_product(&p->formats)],
               [KIND_ENGINE] = g_intern_string(p->framework->engine),
               [KIND_SCHEDULE] = shape->ranks > 1 ? l->pipeline.schedule->name : NULL,
               [KIND_ATTENTION] = attention_kernel_names[kernel],
               [KIND_DISPATCH] = p->ep > 1 ? expert_dispatch_names[p->dispatch] : NULL,
               [KIND_CONTEXT] = p->cp > 1 ? context_exchange_names[p->context] : NULL,
               [KIND_ZERO] = stages[l->states[0].zero],
               [KIND_RECOMPUTE] = recompute_names[p->recompute.granularity],
               [KIND_TENSOR] = tensor_reach(l, cluster),
               [KIND_OFFLOAD] = offloaded(&l->states[0].offload),
               [KIND_ADAPTER] = adapter_freezes(&p->adapter) ? adapter_kind_names[p->adapter.kind] : NULL },
    .sizes = { [KIND_GPUS] = p->ranks, [KIND_TP] = p->tp, [KIND_PP] = shape->ranks, [KIND_VPP] = shape->chunks,
               [KIND_CP] = p->cp, [KIND_EP] = p->ep, [KIND_SEQ] = p->seq, [KIND_PARAMS] = model->params },
    .exposed = metrics->iteration_s > 0 ? MAX(0, 1 - metrics->compute_s / metrics->iteration_s) : 0,
    .mfu = mfu_of(model, l, cluster, metrics->iteration_s),
    .experts = model_has_experts(model),
  };

  return kind;
}
