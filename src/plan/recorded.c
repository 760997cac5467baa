#include "plan/recorded.h"

#include "base/json.h"

const char *const cuda_graph_names[] = { "none", "partial", "full", NULL };
const char *const recorded_module_names[] = { "attn", "mlp", "moe", "moe_router", "moe_preprocess", "mamba", NULL };

RecordedModule recorded_mixer(const LayerSpec *spec)
{
  LinearKind kind = spec->linear.kind;

  return spec->linear.heads > 0 && (kind == LINEAR_MAMBA1 || kind == LINEAR_MAMBA2) ? RECORDED_MAMBA : RECORDED_ATTN;
}

guint recorded_modules_of_spec(const LayerSpec *spec)
{
  const guint mixer = spec_mixes(spec) ? 1u << recorded_mixer(spec) : 0;

  return mixer | (spec->ffn.experts ? 1u << RECORDED_MOE | RECORDED_ROUTERS : spec->ffn.width ? 1u << RECORDED_MLP : 0);
}

guint recorded_modules_of(const Model *m)
{
  guint modules = 0;

  for (int i = 0; i < m->n_specs; i++)
    modules |= m->specs[i].kind == LAYER_BLOCK ? recorded_modules_of_spec(&m->specs[i]) : 0;
  return modules;
}

char *recorded_text(CudaGraph graph, guint modules)
{
  GString *text = g_string_new(cuda_graph_names[graph]);

  names_append_set(recorded_module_names, modules, ":", text);
  return g_string_free(text, FALSE);
}

gboolean recorded_parse(const char *text, CudaGraph *graph, guint *modules)
{
  g_auto(GStrv) parts = g_strsplit(text, ":", 2);
  int kind = parts[0] ? names_find(cuda_graph_names, parts[0]) : -1;

  *graph = MAX(kind, 0);
  *modules = kind == GRAPH_PARTIAL && parts[1] ? names_parse_set(recorded_module_names, parts[1]) : 0;
  return kind >= 0 && (!parts[1] || *modules);
}
