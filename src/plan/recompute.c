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

void recompute_label(const RecomputeScope *s, GString *text)
{
  const char *between = " of ";

  if (s->stages.stages)
    g_string_append(text, " by stage");
  else if (recompute_counts(s))
    g_string_append_printf(text, " %s %d", recompute_method_names[s->method], s->layers);
  for (int i = 0; i < MODULE_COUNT; i++)
    if (s->modules >> i & 1) {
      g_string_append_printf(text, "%s%s", between, recompute_module_names[i]);
      between = "+";
    }
}
