#include "plan/recompute.h"

#include "base/error.h"

const char *const recompute_module_names[] = { "core_attn", "layernorm", "mla_up_proj", "mlp", "moe", "moe_act",
                                               "shared_experts", NULL };
const char *const recompute_method_names[] = { "uniform", "block", NULL };

int recompute_of_stage(const RecomputeScope *scope, int stage, int n)
{
  if (scope->stages.stages)
    return MIN(n, scope->stages.layers[stage]);
  return scope->method == RECOMPUTE_BLOCK && scope->layers ? MIN(n, scope->layers) : n;
}

static gboolean read_layers(const JsonDoc *doc, const cJSON *item, RecomputeScope *out, GError **error)
{
  if (cJSON_IsNumber(item)) {
    out->layers = (int)CLAMP(item->valuedouble, 0, SPLIT_LAYERS_MAX + 1);
    return (out->layers >= 1 && out->layers <= SPLIT_LAYERS_MAX && out->layers == item->valuedouble) ||
           json_error(doc, item, error, "an integer from 1 to %d, or a list of one a stage", SPLIT_LAYERS_MAX);
  }
  if (!split_is_list(item))
    return json_error(doc, item, error, "an integer from 1 to %d, or a list of one a stage (at most %d)",
                      SPLIT_LAYERS_MAX, SPLIT_STAGES_MAX);
  return split_read(doc, item, &out->stages, error);
}

static gboolean read_modules(const JsonDoc *doc, const cJSON *list, RecomputeScope *out, GError **error)
{
  const cJSON *item;

  cJSON_ArrayForEach(item, list) {
    int module = cJSON_IsString(item) ? names_find(recompute_module_names, item->valuestring) : -1;
    if (module < 0 || out->modules >> module & 1)
      return json_error(doc, item, error,
                        "each once, of core_attn, layernorm, mla_up_proj, mlp, moe, moe_act, shared_experts");
    out->modules |= 1u << module;
  }
  return out->modules || json_error(doc, list, error, "a list of modules");
}

gboolean recompute_read(const JsonDoc *doc, const cJSON *object, RecomputeScope *out, GError **error)
{
  const cJSON *method = json_get(object, "recompute_method"), *layers = json_get(object, "recompute_num_layers");
  const cJSON *modules = json_get(object, "recompute_modules");
  int found = cJSON_IsString(method) ? names_find(recompute_method_names, method->valuestring) : -1;

  *out = (RecomputeScope) { 0 };
  if (method && found < 0)
    return json_error(doc, method, error, "one of uniform, block");
  out->method = MAX(found, 0);
  if (layers && !read_layers(doc, layers, out, error))
    return FALSE;
  if (out->stages.stages && out->method != RECOMPUTE_BLOCK)
    return json_error(doc, layers, error, "one number, or recompute_method block");
  if (method && !layers)
    return json_error(doc, method, error, "recompute_num_layers beside it");
  return !modules || read_modules(doc, modules, out, error);
}

void recompute_write(const RecomputeScope *s, JsonWriter *w)
{
  if (s->layers || s->stages.stages)
    json_put_string(w, "recompute_method", recompute_method_names[s->method]);
  if (s->layers)
    json_put_int(w, "recompute_num_layers", s->layers);
  split_write(&s->stages, w, "recompute_num_layers");
  if (s->modules) {
    json_open_line(w, "recompute_modules", '[');
    for (int i = 0; i < MODULE_COUNT; i++)
      if (s->modules >> i & 1)
        json_put_string(w, NULL, recompute_module_names[i]);
    json_close_line(w, ']');
  }
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
