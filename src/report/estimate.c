/* How far a prediction holds, for people. */
#include "report/report.h"

#include "base/error.h"
#include "base/units.h"

#include <string.h>

double result_unmasked(const Result *r)
{
  const PassLayout *p = &r->layout.passes;
  double all = adapter_model_flops(&p->adapter, r->model, p->seq, p->decoder_seq);

  return all > 0 ? adapter_flops_unmasked(&p->adapter, r->model, p->seq, p->decoder_seq) / all : 1;
}

gboolean result_check(const Result *r, GError **error)
{
  double share = MAX(r->mfu, r->hfu) * result_unmasked(r);

  if (share <= 1)
    return TRUE;
  return runtime_error(error, "%s on %s: predicted to use %.1f %% of the peak in %s: expected at most 100 %%",
                       r->model->name, r->cluster->name, 100 * share,
                       dtype_names[formats_product(&r->layout.passes.formats)]);
}

void result_estimate(Result *r, const Accuracy *accuracy)
{
  r->accuracy = accuracy;
  if (accuracy)
    r->estimate = accuracy_estimate(accuracy, r->model, &r->layout, r->cluster, &r->metrics);
}

/* Drops the unit of a number where another text ends in it; returns whether it does. */
static gboolean drop_unit(char *text, const char *other)
{
  char *unit = strrchr(text, ' ');
  const char *same = strrchr(other, ' ');

  if (!unit || !same || !g_str_equal(unit, same))
    return FALSE;
  *unit = '\0';
  return TRUE;
}

/* Behind a step (NULL = alone), whose unit serves where it is that of both. */
static char *interval_text(const Result *r, const char *step)
{
  g_autofree char *low = format_seconds(r->estimate.low_s), *high = format_seconds(r->estimate.high_s);

  if (drop_unit(low, high) && step)
    drop_unit(high, step);
  return g_strdup_printf("%s to %s", low, high);
}

char *result_interval_text(const Result *r)
{
  return interval_text(r, NULL);
}

char *result_step_text(const Result *r)
{
  g_autofree char *step = format_seconds(r->metrics.iteration_s);
  g_autofree char *interval = r->accuracy ? interval_text(r, step) : NULL;

  if (!interval)
    return g_steal_pointer(&step);
  return g_strdup_printf("%s (%s)", step, interval);
}

char *result_fit_text(const Result *r)
{
  const Metrics *m = &r->metrics;
  double missing = m->peak_memory_bytes - m->capacity_bytes, margin = r->cluster->memory_margin;
  g_autofree char *whole = format_bytes(cluster_whole_bytes(r->cluster, m->capacity_bytes));
  const char *device = r->cluster->n_types ? result_site(r, m->peak_row)->device.name : "a device";
  GString *s = g_string_new(r->fits ? "fits" : "DOES NOT FIT");

  g_string_append_printf(s, " in the %s of %s", whole, device);
  if (r->accuracy && r->fits)
    g_string_append_printf(s, " with a probability of %.0f %%", 100 * r->estimate.fit_probability);
  if (margin > 0)
    g_string_append_printf(s, " (the margin keeps %.1f %% free)", 100 * margin);
  if (!r->fits) {
    g_autofree char *over = format_bytes(missing);
    g_string_append_printf(s, ": %s too much, %.1f %%", over, 100 * missing / m->capacity_bytes);
  }
  if (r->accuracy && !r->fits)
    g_string_append_printf(s, "; it fits all the same with a probability of %.0f %%", 100 * r->estimate.fit_probability);
  return g_string_free(s, FALSE);
}

char *result_beyond_text(const Result *r)
{
  if (!r->accuracy || !r->estimate.outside)
    return g_strdup("");
  return g_strdup_printf("trust these predictions less: %s\n", r->estimate.outside);
}
