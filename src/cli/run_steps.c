#include "cli/run_steps.h"

#include "base/table.h"
#include "base/units.h"

#define WITHHELD_MAX 0.03 /* of an undisturbed step */

static const ExecStep *step_at(const GArray *steps, guint i)
{
  return &g_array_index(steps, RunStep, i).step;
}

StepMeans run_step_means(const GArray *steps)
{
  StepMeans m = { .withheld = -1 };
  double withheld = 0;

  for (guint i = steps->len > 1; i < steps->len; i++) {
    const ExecStep *s = step_at(steps, i);
    m.mean_s += s->step_s;
    withheld += s->withheld;
    m.all++;
    if (s->withheld <= WITHHELD_MAX) {
      m.undisturbed_s += s->step_s;
      m.undisturbed++;
    }
  }
  m.mean_s /= m.all;
  m.undisturbed_s /= MAX(m.undisturbed, 1);
  if (step_at(steps, 0)->withheld >= 0)
    m.withheld = withheld / m.all;
  return m;
}

static char *means_text(const StepMeans *m)
{
  g_autofree char *mean = format_seconds(m->mean_s), *undisturbed = format_seconds(m->undisturbed_s);

  if (m->withheld < 0 || m->undisturbed == m->all)
    return g_strdup("");
  if (m->undisturbed == 0)
    return g_strdup_printf("mean    %s; processors were withheld in each step, %.1f %% of the time\n", mean,
                           100 * m->withheld);
  return g_strdup_printf("mean    %s; %s over the %d of %d steps in which processors were not withheld\n", mean,
                         undisturbed, m->undisturbed, m->all);
}

char *run_steps_text(const GArray *steps, double tokens)
{
  gboolean known = steps->len > 0 && step_at(steps, 0)->withheld >= 0;
  g_autoptr(Table) table = table_new(known ? "step|loss|gradient norm|time|tokens/s|withheld"
                                           : "step|loss|gradient norm|time|tokens/s");

  for (guint i = 0; i < steps->len; i++) {
    const ExecStep *s = step_at(steps, i);
    g_autofree char *time = format_seconds(s->step_s);
    g_autofree char *rate = format_count(tokens / s->step_s);
    table_add(table, "%u", i + 1);
    table_add(table, "%.6f", s->loss);
    table_add(table, "%.6f", s->grad_norm);
    table_add(table, "%s", time);
    table_add(table, "%s", rate);
    if (known)
      table_add(table, "%.1f %%", 100 * s->withheld);
  }
  g_autofree char *text = table_text(table, 0);
  if (steps->len == 0)
    return g_steal_pointer(&text);
  const StepMeans m = run_step_means(steps);
  g_autofree char *means = means_text(&m);
  return g_strconcat(text, means, NULL);
}

void run_steps_write(const GArray *steps, gboolean means, JsonWriter *w)
{
  json_open(w, "steps", '[');
  for (guint i = 0; i < steps->len; i++) {
    const ExecStep *s = step_at(steps, i);
    json_open(w, NULL, '{');
    json_put_real(w, "loss", s->loss);
    json_put_real(w, "grad_norm", s->grad_norm);
    json_put_real(w, "step_s", s->step_s);
    if (s->withheld >= 0)
      json_put_real(w, "withheld", s->withheld);
    if (g_array_index(steps, RunStep, i).reference_s > 0)
      json_put_real(w, "reference_s", g_array_index(steps, RunStep, i).reference_s);
    json_close(w, '}');
  }
  json_close(w, ']');
  if (!means)
    return;
  const StepMeans m = run_step_means(steps);
  json_put_real(w, "mean_step_s", m.mean_s);
  if (m.withheld < 0)
    return;
  json_put_real(w, "withheld", m.withheld);
  json_put_int(w, "undisturbed_steps", m.undisturbed);
  if (m.undisturbed > 0)
    json_put_real(w, "undisturbed_step_s", m.undisturbed_s);
}
