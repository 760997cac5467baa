#include "cli/sim_document.h"

char *sim_document(const Result *result, const Trace *trace, const Draws *draws)
{
  GString *text = g_string_new(NULL);
  JsonWriter w;

  json_writer_init(&w, text);
  json_open(&w, NULL, '{');
  json_put_string(&w, "schema", "tdp-sim-1");
  json_open(&w, "question", '{');
  json_put_string(&w, "model", result->model->name);
  json_put_string(&w, "cluster", result->cluster->name);
  if (result->cluster->device.rated_power_w > 0)
    json_put_real(&w, "power_limit_w", result->cluster->device.power_w);
  json_close(&w, '}');
  result_put(result, trace, &w);
  if (draws && draws->count > 0)
    draws_put(draws, &w);
  json_close(&w, '}');
  return g_string_free(g_string_append_c(text, '\n'), FALSE);
}
