#include "report/training.h"

#include "base/units.h"

#include <math.h>

Training training_of(const Layout *layout, const Cluster *cluster, double step_s, double tokens)
{
  Training t = { .steps = ceil(tokens / ((double)layout->global_batch * layout->passes.seq)) };

  t.seconds = t.steps * step_s;
  t.gpu_hours = t.seconds * layout->mesh.ranks / HOUR;
  t.usd = t.gpu_hours * cluster->usd_per_device_hour;
  t.joules = t.seconds * layout->mesh.ranks * cluster_power_w(cluster);
  return t;
}

static Training of_result(const Result *r, double tokens)
{
  return training_of(&r->layout, r->cluster, r->metrics.iteration_s, tokens);
}

char *training_text(const Result *r, double tokens)
{
  Training t = of_result(r, tokens);
  g_autofree char *count = format_count(tokens), *steps = format_integer((gint64)t.steps);
  g_autofree char *hours = format_integer((gint64)round(t.gpu_hours)), *usd = format_integer((gint64)round(t.usd));
  GString *s = g_string_new(NULL);

  g_string_append_printf(s, "Training on %s tokens takes %s steps, %.1f days, %s GPU-hours", count, steps,
                         t.seconds / DAY, hours);
  if (t.usd > 0)
    g_string_append_printf(s, ", %s USD at %g a GPU-hour", usd, r->cluster->usd_per_device_hour);
  else
    g_string_append(s, " (" TRAINING_NO_PRICE ")");
  if (t.joules > 0)
    g_string_append_printf(s, ", %.1f MWh at %.0f W a GPU", t.joules / 3.6e9, cluster_power_w(r->cluster));
  g_string_append(s, ".\n");
  return g_string_free(s, FALSE);
}

void training_write(const Result *r, double tokens, JsonWriter *w)
{
  Training t = of_result(r, tokens);

  json_open(w, "training", '{');
  json_put_real(w, "tokens", tokens);
  json_put_real(w, "steps", t.steps);
  json_put_real(w, "seconds", t.seconds);
  json_put_real(w, "gpu_hours", t.gpu_hours);
  if (t.usd > 0)
    json_put_real(w, "usd", t.usd);
  if (t.joules > 0)
    json_put_real(w, "joules", t.joules);
  json_close(w, '}');
}
