#include "plan/key_values.h"

gboolean read_layer_split(const JsonDoc *doc, const cJSON *item, Plan *out, GError **error)
{
  if (cJSON_IsString(item) && g_str_equal(item->valuestring, "balanced"))
    return out->balanced = TRUE;
  if (!split_is_list(item))
    return json_error(doc, item, error, "\"balanced\", or the layers of each stage in model order (at most %d stages)",
                      SPLIT_STAGES_MAX);
  return split_read(doc, item, &out->split, error);
}

gboolean write_layer_split(const Plan *p, JsonWriter *w)
{
  split_write(&p->split, w, "layer_split");
  return TRUE;
}

gboolean read_strategies(const JsonDoc *doc, const cJSON *item, Plan *out, GError **error)
{
  return strategies_read(doc, item, plan_run(out), &out->strategies, error);
}

gboolean write_strategies(const Plan *p, JsonWriter *w)
{
  strategies_write(&p->strategies, w, "layer_strategies");
  return TRUE;
}

gboolean read_types(const JsonDoc *doc, const cJSON *list, Plan *out, GError **error)
{
  const cJSON *item;
  int n = 0;

  if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) < 1 || cJSON_GetArraySize(list) > NODE_TYPES_MAX)
    return json_error(doc, list, error, "names of the cluster's node types along the pipeline (at most %d)",
                      NODE_TYPES_MAX);
  cJSON_ArrayForEach(item, list) {
    if (!cJSON_IsString(item))
      return json_error(doc, item, error, "the name of a node type");
    out->types[n++] = g_intern_string(item->valuestring);
  }
  return TRUE;
}

gboolean write_types(const Plan *p, JsonWriter *w)
{
  if (!p->types[0])
    return TRUE;
  json_open_line(w, "hetero_device_types", '[');
  for (int i = 0; i < NODE_TYPES_MAX && p->types[i]; i++)
    json_put_string(w, NULL, p->types[i]);
  json_close_line(w, ']');
  return TRUE;
}

gboolean read_recompute_layers(const JsonDoc *doc, const cJSON *item, Plan *plan, GError **error)
{
  RecomputeScope *out = &plan->scope;

  if (cJSON_IsNumber(item)) {
    out->layers = (int)CLAMP(item->valuedouble, 0, SPLIT_LAYERS_MAX + 1);
    return (out->layers >= 1 && out->layers <= SPLIT_LAYERS_MAX && out->layers == item->valuedouble) ||
           json_error(doc, item, error, "an integer from 1 to %d, or a list of one a stage", SPLIT_LAYERS_MAX);
  }
  if (!split_is_list(item))
    return json_error(doc, item, error, "an integer from 1 to %d, or a list of one a stage (at most %d)",
                      SPLIT_LAYERS_MAX, SPLIT_STAGES_MAX);
  return split_read(doc, item, &out->stages, error) &&
         (out->method == RECOMPUTE_BLOCK || json_error(doc, item, error, "one number, or recompute_method block"));
}

gboolean write_recompute_layers(const Plan *p, JsonWriter *w)
{
  if (p->scope.layers)
    json_put_int(w, "recompute_num_layers", p->scope.layers);
  split_write(&p->scope.stages, w, "recompute_num_layers");
  return TRUE;
}

static gboolean read_modules(const JsonDoc *doc, const cJSON *list, const char *const *names, guint *modules,
                             GError **error)
{
  const cJSON *item;

  cJSON_ArrayForEach(item, list) {
    int module = cJSON_IsString(item) ? names_find(names, item->valuestring) : -1;
    if (module < 0 || *modules >> module & 1) {
      g_autofree char *known = g_strjoinv(", ", (char **)names);
      return json_error(doc, item, error, "each once, of %s", known);
    }
    *modules |= 1u << module;
  }
  return *modules || json_error(doc, list, error, "a list of modules");
}

gboolean read_recompute_modules(const JsonDoc *doc, const cJSON *list, Plan *plan, GError **error)
{
  return read_modules(doc, list, recompute_module_names, &plan->scope.modules, error);
}

gboolean write_recompute_modules(const Plan *p, JsonWriter *w)
{
  json_put_set(w, "recompute_modules", recompute_module_names, p->scope.modules);
  return TRUE;
}

gboolean read_graph_modules(const JsonDoc *doc, const cJSON *list, Plan *plan, GError **error)
{
  return read_modules(doc, list, recorded_module_names, &plan->graph_modules, error);
}

gboolean write_graph_modules(const Plan *p, JsonWriter *w)
{
  json_put_set(w, "cuda_graph_modules", recorded_module_names, p->graph_modules);
  return TRUE;
}

gboolean read_param_gather(const JsonDoc *doc, const cJSON *item, Plan *out, GError **error)
{
  if (!cJSON_IsBool(item))
    return json_error(doc, item, error, "true or false");
  out->param_gather = cJSON_IsTrue(item) ? GATHER_NARROW : GATHER_WIDE;
  return TRUE;
}

gboolean write_param_gather(const Plan *p, JsonWriter *w)
{
  gboolean gathers = plan_gathers_narrow(p);

  if (gathers || (p->param_gather != GATHER_USUAL && plan_can_gather_narrow(p)))
    json_put_bool(w, "fp8_param_gather", gathers);
  return TRUE;
}

gboolean read_offload(const JsonDoc *doc, const cJSON *item, Plan *out, GError **error)
{
  const char *word = cJSON_IsString(item) ? item->valuestring : "";

  out->offload.optimizer = g_str_equal(word, "optimizer") ? STORE_CPU : STORE_DEVICE;
  return cJSON_IsObject(item) || g_str_equal(word, "none") || g_str_equal(word, "optimizer") ||
         json_error(doc, item, error,
                    "none, optimizer, or an object of optimizer, parameters, activations (each none, cpu or nvme), "
                    "delayed_update and sub_group_size");
}

gboolean write_offload(const Plan *p, JsonWriter *w)
{
  const Offload *o = &p->offload;

  if (o->optimizer > STORE_CPU || o->parameters || o->activations || o->delayed || o->sub_group != 0)
    return FALSE;
  json_put_string(w, "offload", o->optimizer ? "optimizer" : "none");
  return TRUE;
}

gboolean read_adapter(const JsonDoc *doc, const cJSON *item, Plan *out, GError **error)
{
  if (!cJSON_IsString(item))
    return json_error(doc, item, error, "a text, as \"lora:r=16\"");
  g_autofree char *expected = adapter_parse(item->valuestring, &out->adapter);
  return !expected || json_error(doc, item, error, "%s", expected);
}

gboolean write_adapter(const Plan *p, JsonWriter *w)
{
  g_autofree char *text = adapter_text(&p->adapter);

  if (adapter_freezes(&p->adapter))
    json_put_string(w, "adapter", text);
  return TRUE;
}
