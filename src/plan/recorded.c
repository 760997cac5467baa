#include "plan/recorded.h"

const char *const recorded_module_names[] = { "attn", "mlp", "moe", "moe_router", "moe_preprocess", "mamba", NULL };

RecordedModule recorded_mixer(const LayerSpec *spec)
{
  LinearKind kind = spec->linear.kind;

  return spec->linear.heads > 0 && (kind == LINEAR_MAMBA1 || kind == LINEAR_MAMBA2) ? RECORDED_MAMBA : RECORDED_ATTN;
}

guint recorded_modules_of(const Model *m)
{
  guint modules = 0, experts = 1u << RECORDED_MOE | 1u << RECORDED_MOE_ROUTER | 1u << RECORDED_MOE_PREPROCESS;

  for (int i = 0; i < m->n_specs; i++) {
    const LayerSpec *spec = &m->specs[i];
    if (spec->kind != LAYER_BLOCK)
      continue;
    modules |= spec_mixes(spec) ? 1u << recorded_mixer(spec) : 0;
    modules |= spec->ffn.experts ? experts : spec->ffn.width ? 1u << RECORDED_MLP : 0;
  }
  return modules;
}
