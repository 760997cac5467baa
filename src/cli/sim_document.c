#include "cli/sim_document.h"

char *sim_document(const Result *result, const Trace *trace, const Draws *draws, gboolean explain)
{
  GString *text = g_string_new(NULL);
  JsonWriter w;

  json_writer_init(&w, text);
  json_open(&w, NULL, '{');
  result_put_document(result, trace, &w);
  if (draws && draws->count > 0)
    draws_put(draws, &w);
  if (explain) {
    json_open(&w, "explain", '{');
    report_explain_write(result, trace, &w);
    json_close(&w, '}');
  }
  json_close(&w, '}');
  return g_string_free(g_string_append_c(text, '\n'), FALSE);
}
