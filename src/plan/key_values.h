/* How the values of keys that are no single number or name are read and written; private to this folder. */
#ifndef TDP_PLAN_KEY_VALUES_H
#define TDP_PLAN_KEY_VALUES_H

#include "plan/plan.h"

/* Each reads a value that is there, and writes one that says something; `write` is TRUE where no object of keys is
 * to be written beside it. */
gboolean read_layer_split(const JsonDoc *doc, const cJSON *item, Plan *out, GError **error);
gboolean write_layer_split(const Plan *plan, JsonWriter *w);
gboolean read_strategies(const JsonDoc *doc, const cJSON *item, Plan *out, GError **error);
gboolean write_strategies(const Plan *plan, JsonWriter *w);
gboolean read_types(const JsonDoc *doc, const cJSON *item, Plan *out, GError **error);
gboolean write_types(const Plan *plan, JsonWriter *w);
gboolean read_recompute_layers(const JsonDoc *doc, const cJSON *item, Plan *out, GError **error);
gboolean write_recompute_layers(const Plan *plan, JsonWriter *w);
gboolean read_param_gather(const JsonDoc *doc, const cJSON *item, Plan *out, GError **error);
gboolean read_recompute_modules(const JsonDoc *doc, const cJSON *item, Plan *out, GError **error);
gboolean read_graph_modules(const JsonDoc *doc, const cJSON *item, Plan *out, GError **error);
gboolean write_graph_modules(const Plan *plan, JsonWriter *w);
gboolean write_param_gather(const Plan *plan, JsonWriter *writer);
gboolean write_recompute_modules(const Plan *plan, JsonWriter *w);

/* "offload" as a word; an object is read and written by its keys. */
gboolean read_adapter(const JsonDoc *doc, const cJSON *item, Plan *out, GError **error);
gboolean write_adapter(const Plan *plan, JsonWriter *writer);
gboolean read_offload(const JsonDoc *doc, const cJSON *item, Plan *out, GError **error);
gboolean write_offload(const Plan *plan, JsonWriter *w);

#endif
