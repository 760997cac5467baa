/* What tdp-plan found, as JSON. */
#include "cli/planning.h"

#include "ask/explain.h"
#include "ask/held.h"
#include "ask/largest.h"
#include "ask/strategy.h"
#include "report/training.h"

/* Names of what was not given. */
static void put_defaults(JsonWriter *w, const PlanOptions *o)
{
  const struct {
    const char *name;
    gboolean given;
  } inputs[] = { { "gpus", o->gpus > 0 }, { "global_batch_size", o->global_batch > 0 }, { "seq_length", o->seq > 0 },
                 { "framework", o->framework != NULL }, { "precision", o->precision != NULL },
                 { "objective", o->objective != NULL }, { "memory_margin", o->memory_margin != NULL } };

  json_open_line(w, "defaults", '[');
  for (gsize i = 0; i < G_N_ELEMENTS(inputs); i++)
    if (!inputs[i].given)
      json_put_string(w, NULL, inputs[i].name);
  json_close_line(w, ']');
}

/* Opens a document: what it is, and what it answers with every default taken. */
static void begin(JsonWriter *w, GString *text, const char *schema, const Planning *p, const PlanOptions *o)
{
  const Layout layout = layout_of(&p->base);
  g_autofree char *adapter = adapter_text(&p->base.adapter);

  json_writer_init(w, text);
  json_open(w, NULL, '{');
  json_put_string(w, "schema", schema);
  json_open(w, "question", '{');
  json_put_string(w, "model", p->model->name);
  json_put_string(w, "cluster", p->cluster->name);
  json_put_int(w, "gpus", p->cluster->devices);
  json_put_int(w, "global_batch_size", p->base.global_batch);
  json_put_int(w, "seq_length", p->base.seq);
  json_put_string(w, "framework", p->framework->name);
  json_put_string(w, "precision", dtype_names[formats_product(&layout.passes.formats)]);
  if (p->base.fp8_recipe)
    json_put_string(w, "fp8_recipe", fp8_recipe_names[p->base.fp8_recipe]);
  if (o->adapter)
    json_put_string(w, "adapter", adapter);
  json_put_string(w, "objective", p->objective->name);
  json_put_real(w, "memory_margin", p->cluster->memory_margin);
  if (p->question && o->gpus_from > 0)
    json_put_int(w, "gpus_from", o->gpus_from);
  if (p->power_limit_w > 0)
    json_put_real(w, "power_limit_w", p->power_limit_w);
  if (p->deadline_days > 0)
    json_put_real(w, "deadline_days", p->deadline_days);
  if (o->fix)
    json_put_string(w, "fix", o->fix);
  if (o->space)
    json_put_string(w, "space", o->space);
  put_defaults(w, o);
  json_close(w, '}');
  json_put_string(w, "model", p->model->name);
}

/* Ends it: notes where there are any. */
static char *end(JsonWriter *w, GString *text, const Planning *p)
{
  if (p->notes->len > 0)
    json_put_strings(w, "notes", (const char *const *)p->notes->pdata, p->notes->len);
  json_close(w, '}');
  return g_string_free(g_string_append_c(text, '\n'), FALSE);
}

static void write_explain(const Planning *p, const SearchOptions *options, JsonWriter *w)
{
  Asked asked = { .model = p->model, .cluster = p->cluster, .options = options };

  json_open(w, "explain", '{');
  report_explain_write(&p->results[0], p->trace, w);
  largest_write(&p->results[0], w);
  explain_write_limit(p->found, &p->results[0], w);
  if (p->cluster->n_types == 0 && !stop_heard(options->stop))
    strategy_write(&asked, ask_recommended(p->found, p->tie), w, "rule_of_thumb");
  json_close(w, '}');
}

char *planning_json(const Planning *p, const PlanOptions *o)
{
  SearchOptions searched = planning_searched(p, o);
  g_autoptr(Answer) held = held_answer(&searched, p->found, &p->results[0]);
  GString *text = g_string_new(NULL);
  JsonWriter w;

  begin(&w, text, "tdp-plan-1", p, o);
  json_put_int(&w, "parameters", p->model->params);
  json_put_string(&w, "cluster", p->cluster->name);
  json_open(&w, "plans", '[');
  for (int i = 0; i < p->n; i++)
    result_write(&p->results[i], NULL, &w, NULL);
  json_close(&w, ']');
  json_open(&w, "search", '{');
  json_put_string(&w, "objective", p->objective->name);
  explain_write_counts(p->found, &w);
  if (p->tie > 0) {
    json_put_real(&w, "tie", p->tie);
    json_put_real(&w, "fastest_s", g_array_index(p->found->best, Found, 0).metrics.iteration_s);
  }
  json_close(&w, '}');
  answer_write(held, &w, "held_fixed");
  if (p->refined)
    refined_write(p->refined, &p->results[0], &w);
  if (p->tokens > 0)
    training_write(&p->results[0], p->tokens, &w);
  searched.tie = p->tie;
  if (o->explain)
    write_explain(p, &searched, &w);
  return end(&w, text, p);
}

char *planning_why_not_json(const Planning *p, const PlanOptions *o)
{
  GString *text = g_string_new(NULL);
  JsonWriter w;

  begin(&w, text, "tdp-plan-why-not-1", p, o);
  json_put_string(&w, "cluster", p->cluster->name);
  g_auto(GStrv) lines = g_strsplit(p->why, "\n", 2); /* without the table: the plans follow */
  json_put_string(&w, "why", lines[0]);
  json_open(&w, "plans", '[');
  for (guint i = 0; i <= p->asked->best->len; i++)
    result_write(&p->pair[i], NULL, &w, NULL);
  json_close(&w, ']');
  json_open(&w, "search", '{');
  explain_write_counts(p->asked, &w);
  json_close(&w, '}');
  return end(&w, text, p);
}

char *planning_answer_json(const Planning *p, const PlanOptions *o, const Answer *answer)
{
  GString *text = g_string_new(NULL);
  JsonWriter w;

  begin(&w, text, "tdp-plan-answer-1", p, o);
  json_put_string(&w, "cluster", p->cluster->name);
  answer_write(answer, &w, p->question ? p->question->name : p->second ? "pareto" : "gpus");
  if (stop_heard(&p->watch.stop))
    json_put_bool(&w, "complete", FALSE);
  return end(&w, text, p);
}
