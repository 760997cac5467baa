/* Lists of layers by stage in plan files: reading and writing. */
#include "plan/split.h"

gboolean split_is_list(const cJSON *item)
{
  return cJSON_IsArray(item) && cJSON_GetArraySize(item) > 0 && cJSON_GetArraySize(item) <= SPLIT_STAGES_MAX;
}

gboolean split_read(const JsonDoc *doc, const cJSON *list, LayerSplit *out, GError **error)
{
  int layers[SPLIT_STAGES_MAX];
  int n = json_get_ints(doc, list, layers, SPLIT_STAGES_MAX, 0, SPLIT_LAYERS_MAX, error);

  for (int i = 0; i < n; i++)
    out->layers[i] = layers[i];
  out->stages = MAX(n, 0);
  return n > 0;
}

void split_write(const LayerSplit *split, JsonWriter *w, const char *key)
{
  if (split->stages == 0)
    return;
  json_open_line(w, key, '[');
  for (int i = 0; i < split->stages; i++)
    json_put_int(w, NULL, split->layers[i]);
  json_close_line(w, ']');
}
