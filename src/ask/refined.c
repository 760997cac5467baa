#include "ask/refined.h"

#include "base/table.h"
#include "base/units.h"

static char *steps_text(const GArray *steps)
{
  g_autoptr(Table) table = table_new("<change|tried|simulated|gained|<plan file");

  for (guint i = 0; i < steps->len; i++) {
    const PolishStep *s = &g_array_index(steps, PolishStep, i);
    table_add(table, "%s|%d|%d", s->kind, s->proposed, s->simulated);
    table_take(table, s->gained_s > 0 ? format_seconds(s->gained_s) : g_strdup("-"));
    table_add(table, "%s", s->now ? s->now : "-");
  }
  return table_text(table, 2);
}

char *refined_text(const Polished *p, const Result *best)
{
  double before = best->metrics.iteration_s;
  g_autofree char *steps = steps_text(p->steps), *peak = format_bytes(p->metrics.peak_memory_bytes);
  GString *s = g_string_new("Refinement: changes of the best plan that the search does not try, one kind after another\n");

  if (p->steps->len == 0) {
    g_string_append(s, p->halted ? "  none was tried before the stop\n" : "  no kind of change applies to it\n");
    return g_string_free(s, FALSE);
  }
  g_string_append(s, steps);
  if (p->gained_s > 0)
    g_string_append_printf(s, "The step falls from %.5g s to %.5g s, by %.2f %%, at a peak of %s.", before,
                           p->metrics.iteration_s, 100 * p->gained_s / before, peak);
  else
    g_string_append(s, "None of them gains.");
  if (p->halted)
    g_string_append(s, " Stopped before all were tried.");
  g_string_append(s, " This is a local search: other changes may gain more.\n");
  return g_string_free(s, FALSE);
}

void refined_write(const Polished *p, const Result *best, JsonWriter *w)
{
  Result refined = result_of_metrics(best->model, best->cluster, &p->plan, &p->metrics);

  result_estimate(&refined, best->accuracy);
  json_open(w, "refined", '{');
  json_put_real(w, "gained_s", p->gained_s);
  if (p->halted)
    json_put_bool(w, "complete", FALSE);
  json_open(w, "changes", '[');
  for (guint i = 0; i < p->steps->len; i++) {
    const PolishStep *s = &g_array_index(p->steps, PolishStep, i);
    json_open(w, NULL, '{');
    json_put_string(w, "change", s->kind);
    json_put_int(w, "tried", s->proposed);
    json_put_int(w, "simulated", s->simulated);
    json_put_real(w, "gained_s", s->gained_s);
    json_close(w, '}');
  }
  json_close(w, ']');
  result_write(&refined, NULL, w, "result");
  json_close(w, '}');
}
