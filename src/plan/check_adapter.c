/* What may be adapted, and what a plan with adapters may have besides. */
#include "plan/check.h"

/* Column-parallel A's divide the rank (Megatron-Bridge, peft/utils.py). */
static gboolean check_rank(const Subject *s, GError **error)
{
  const Plan *p = s->plan;

  if (p->adapter.rank % p->tp != 0)
    return broken(error, "adapter: rank %d: expected a multiple of tensor_model_parallel_size %d, whose ranks divide "
                         "it", p->adapter.rank, p->tp);
  return TRUE;
}

gboolean check_adapter(const Subject *s, GError **error)
{
  const Plan *p = s->plan;
  g_autofree char *text = adapter_text(&p->adapter), *expected = adapter_refusal(&p->adapter, s->model);
  const char *only = framework_adapts_only(p->framework, &p->adapter);

  if (!adapter_freezes(&p->adapter))
    return TRUE;
  if (only)
    return broken(error, "adapter: \"%s\": expected %s under framework %s", text, only, p->framework->name);
  if (expected)
    return broken(error, "adapter: \"%s\": expected %s", text, expected);
  if (plan_narrow(p))
    return broken(error, "adapter: \"%s\": expected precision bf16, fp16, fp32 or tf32, not %s", text,
                  dtype_names[plan_format(p)]);
  if (p->adapter.kind == ADAPTER_QLORA && p->precision == DTYPE_FP32)
    return broken(error, "adapter: \"%s\": expected precision bf16 or fp16, of which 4 bits make weights", text);
  return check_rank(s, error);
}

gboolean check_adapter_schedule(const Subject *s, GError **error)
{
  if (adapter_freezes(&s->plan->adapter) && s->plan->schedule->vocabulary)
    return broken(error, "pipeline_schedule: \"%s\": expected one without a spread vocabulary, which adapters freeze",
                  s->plan->schedule->name);
  return TRUE;
}

gboolean check_adapter_passes(const Subject *s, GError **error)
{
  const Plan *p = s->plan;

  if (adapter_freezes(&p->adapter) && p->recompute == RECOMPUTE_SELECTIVE && p->framework->selective_products)
    return broken(error, "recompute_granularity: \"selective\": expected none or full with an adapter, %s keeps every "
                         "other product of what is not frozen", p->framework->name);
  return TRUE;
}

gboolean check_adapter_states(const Subject *s, GError **error)
{
  const Plan *p = s->plan;
  const ShardingOptions *o = &p->sharding;
  const struct { const char *key; gboolean given; } refused[] = {
    { "optimizer: muon", optimizer_kind(&p->optimizer)->orthogonal },
    { "zero_optimization: stage3_param_persistence_threshold", o->persistence > 0 },
    { "zero_optimization: zero_hpz_partition_size", o->secondary > 0 },
    { "zero_optimization: zero_quantized_weights", o->quantized_weights },
    { "zero_optimization: tiling_factor", o->tiling > 1 },
    { "layer_strategies", p->strategies.n > 0 },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(refused) && adapter_freezes(&p->adapter); i++)
    if (refused[i].given)
      return broken(error, "%s: expected nothing of it with an adapter: it is not modelled there", refused[i].key);
  return TRUE;
}
