#include "report/draws.h"

#include "base/sort.h"
#include "base/units.h"

#include <math.h>
#include <stdlib.h>

static double percentile(const double *sorted, int n, double share)
{
  return sorted[MAX((int)ceil(share * n) - 1, 0)];
}

Draws draws_of(double *seconds, int n)
{
  Draws d = { .count = n };
  double squares = 0;

  qsort(seconds, n, sizeof *seconds, sort_reals);
  for (int i = 0; i < n; i++)
    d.mean_s += seconds[i] / n;
  for (int i = 0; i < n; i++)
    squares += pow(seconds[i] - d.mean_s, 2);
  d.deviation_s = n > 1 ? sqrt(squares / (n - 1)) : 0;
  d.p50_s = percentile(seconds, n, 0.5);
  d.p95_s = percentile(seconds, n, 0.95);
  d.p99_s = percentile(seconds, n, 0.99);
  return d;
}

char *report_draws(const Draws *d, double quiet_s)
{
  g_autofree char *mean = format_seconds(d->mean_s), *half = format_seconds(d->p50_s), *most = format_seconds(d->p95_s),
                  *nearly = format_seconds(d->p99_s);

  return g_strdup_printf("%d steps drawn: %s on average (%+.1f %% of the prediction), deviation %.2f %%; half take at "
                         "most %s, 95 %% %s, 99 %% %s\n", d->count, mean, 100 * (d->mean_s / quiet_s - 1),
                         100 * d->deviation_s / d->mean_s, half, most, nearly);
}

void draws_put(const Draws *d, JsonWriter *w)
{
  json_open(w, "draws", '{');
  json_put_int(w, "count", d->count);
  json_put_real(w, "mean_s", d->mean_s);
  json_put_real(w, "deviation_s", d->deviation_s);
  json_put_real(w, "p50_s", d->p50_s);
  json_put_real(w, "p95_s", d->p95_s);
  json_put_real(w, "p99_s", d->p99_s);
  json_close(w, '}');
}
