#include "cli/sim_document.h"

#include "ask/notes.h"

GPtrArray *sim_notes(const Result *r)
{
  GPtrArray *notes = g_ptr_array_new_with_free_func(g_free);
  char *const all[] = { note_recompute(r->model, &r->layout, r->cluster), note_schedule(&r->layout),
                        note_excluded(r->model, r->cluster, r->plan) };

  for (gsize i = 0; i < G_N_ELEMENTS(all); i++)
    if (all[i])
      g_ptr_array_add(notes, all[i]);
  return notes;
}

static void put_notes(const Result *result, const GPtrArray *before, JsonWriter *w)
{
  g_autoptr(GPtrArray) notes = sim_notes(result);

  if (notes->len == 0 && before->len == 0)
    return;
  json_open(w, "notes", '[');
  for (guint i = 0; i < before->len; i++)
    json_put_string(w, NULL, g_ptr_array_index(before, i));
  for (guint i = 0; i < notes->len; i++)
    json_put_string(w, NULL, g_ptr_array_index(notes, i));
  json_close(w, ']');
}

void sim_document_put(const Result *result, const Trace *trace, const SimBesides *b, JsonWriter *w)
{
  json_open(w, NULL, '{');
  result_put_document(result, trace, w);
  if (b->draws && b->draws->count > 0)
    draws_put(b->draws, w);
  if (b->ranks)
    engine_write_ranks(b->engine, b->ranks, &result->layout, w);
  if (b->explain) {
    json_open(w, "explain", '{');
    report_explain_write(result, trace, w);
    json_close(w, '}');
  }
  if (b->collectives)
    report_collectives_write(result, trace, w);
  if (b->ops)
    report_ops_write(result, trace, w);
  put_notes(result, b->notes, w);
  json_close(w, '}');
}

char *sim_document(const Result *result, const Trace *trace, const SimBesides *besides)
{
  GString *text = g_string_new(NULL);
  JsonWriter w;

  json_writer_init(&w, text);
  sim_document_put(result, trace, besides, &w);
  return g_string_free(g_string_append_c(text, '\n'), FALSE);
}
