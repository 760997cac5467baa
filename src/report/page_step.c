/* What the pages of all programs say of a plan. */
#include "report/page.h"
#include "report/tables.h"

void page_answer(Page *page, const Result *r)
{
  const Metrics *m = &r->metrics;
  g_autoptr(Table) speed = speed_table(r), time = time_table(r), memory = memory_table(r);
  g_autofree char *fit = result_fit_text(r), *beyond = result_beyond_text(r);
  *beyond = g_ascii_toupper(*beyond);
  g_autofree char *says = g_strdup_printf("Memory: %s.%s%s", fit, *beyond ? " " : "", beyond);
  g_autofree char *critical = g_strdup_printf("Of stage %d, the critical stage; communication: only the exposed part.",
                                              m->critical_row);
  g_autofree char *fullest = g_strdup_printf("Of stage %d, %s, and its share of the device.", m->peak_row,
                                             result_peak_text(r));

  page_table(page, "The answer", g_strchomp(says), speed);
  page_table(page, "Where the time goes", critical, time);
  page_table(page, "What fills the memory", fullest, memory);
}

void page_step(Page *page, const Result *result, const Trace *trace)
{
  g_autofree char *why = report_explain(result, trace), *communication = report_collectives(result, trace);

  page_timeline(page, "The step", trace, result->metrics.peak_row);
  page_memory(page, "Memory over the step", result, trace);
  if (result->cluster->n_types > 0) {
    g_autofree char *placement = report_placement(result, trace);
    page_text(page, "Stages and their devices", placement);
  }
  page_text(page, "Why it takes that long", why);
  page_text(page, "Communication", communication);
}

void page_inputs(Page *page, const Result *result)
{
  g_autoptr(Table) inputs = inputs_table(result);

  page_table(page, "What it rests on",
             "Constants are measured, fitted to measurements, taken from a specification or estimated, as said in brackets.",
             inputs);
}

void page_measured(Page *page, const Side *predicted, const Side *measured)
{
  g_autofree char *text = report_measured(predicted, measured);

  page_text(page, "Predicted beside measured", text);
  page_timeline(page, "The last step as measured", measured->trace, measured->result->metrics.peak_row);
  page_timeline(page, "The step as predicted", predicted->trace, predicted->result->metrics.peak_row);
  page_memory(page, "Memory as measured", measured->result, measured->trace);
  page_inputs(page, predicted->result);
}
