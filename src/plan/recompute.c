#include "plan/recompute.h"

const char *const recompute_module_names[] = { "core_attn", "layernorm", "mla_up_proj", "mlp", "moe", "moe_act",
                                               "shared_experts", NULL };
const char *const recompute_method_names[] = { "uniform", "block", NULL };

int recompute_of_stage(const RecomputeScope *scope, int stage, int n)
{
  if (scope->stages.stages)
    return MIN(n, scope->stages.layers[stage]);
  return scope->method == RECOMPUTE_BLOCK && scope->layers ? MIN(n, scope->layers) : n;
}

guint recompute_modules_of(const Model *m)
{
  guint modules = 1u << MODULE_LAYERNORM;

  for (int i = 0; i < m->n_specs; i++) {
    const LayerSpec *spec = &m->specs[i];
    if (spec->kind != LAYER_BLOCK)
      continue;
    modules |= spec->attention.heads ? 1u << MODULE_CORE_ATTN : 0;
    modules |= spec->ffn.width ? 1u << (spec->ffn.experts ? MODULE_MOE : MODULE_MLP) : 0;
    modules |= spec->ffn.experts ? 1u << MODULE_MOE_ACT : 0;
    modules |= spec->ffn.shared_width ? 1u << MODULE_SHARED_EXPERTS : 0;
    modules |= spec->attention.kv_lora_rank ? 1u << MODULE_MLA_UP_PROJ : 0;
  }
  return modules;
}

guint recompute_modules_parse(const char *text)
{
  return names_parse_set(recompute_module_names, text);
}

void recompute_short(const RecomputeScope *s, GString *text)
{
  if (s->layers)
    g_string_append_printf(text, ":%d", s->layers);
  names_append_set(recompute_module_names, s->modules, ":", text);
}

void recompute_label(const RecomputeScope *s, GString *text)
{
  if (s->stages.stages)
    g_string_append(text, " by stage");
  else if (recompute_counts(s))
    g_string_append_printf(text, " %s %d", recompute_method_names[s->method], s->layers);
  names_append_set(recompute_module_names, s->modules, " of ", text);
}
