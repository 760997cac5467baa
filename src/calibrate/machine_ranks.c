/* What ranks cost one another: units they share, and waiting for the slowest. */
#include "calibrate/machine_parts.h"

#include "base/sort.h"
#include "cost/slowest.h"

#include <math.h>

#define JITTER_MAX 1
#define LASTS_MIN_S 1e-3
#define LASTS_MAX_S 10
#define LASTS_STEPS 41
#define ROWS_MAX 16
#define OLD_SAMPLES 32 /* in a row, where a file does not say */

double points_median(GArray *values)
{
  return sort_median((double *)(gpointer)values->data, values->len);
}

/* ---- crowding ---- */

/* The same point with all ranks at work, NULL if there is none. */
static const MachinePoint *crowded(const GArray *points, const MachinePoint *alone)
{
  for (guint i = 0; i < points->len; i++) {
    const MachinePoint *p = point_at(points, i);
    if (point_like(p, alone->kind, alone->name, alone->backward) && p->busy > 1 && p->m == alone->m && p->n == alone->n &&
        p->k == alone->k && p->head_dim == alone->head_dim && p->bytes == alone->bytes)
      return p;
  }
  return NULL;
}

double points_crowding(const GArray *points, PointKind kind, const char *name, gboolean backward)
{
  g_autoptr(GArray) ratios = g_array_new(FALSE, FALSE, sizeof(double));

  for (guint i = 0; i < points->len; i++) {
    const MachinePoint *p = point_at(points, i), *other = p->busy == 1 ? crowded(points, p) : NULL;
    if (!other || !point_like(p, kind, name, backward))
      continue;
    double ratio = other->seconds / p->seconds;
    g_array_append_val(ratios, ratio);
  }
  return ratios->len ? MAX(1, points_median(ratios)) : 1;
}

/* ---- the slowest ---- */

typedef struct {
  int n;
  double interval_s[ROWS_MAX], variance[ROWS_MAX]; /* of a rank's mean rate over an interval */
} Drift;

static double reference_s(const GArray *points, const char *name)
{
  for (guint i = 0; i < points->len; i++)
    if (point_like(point_at(points, i), POINT_REFERENCE, name, FALSE))
      return point_at(points, i)->seconds;
  return 0;
}

static Drift drift_of(const GArray *points)
{
  double mean = reference_s(points, "mean"), apart = reference_s(points, "apart");
  Drift d = { 0 };

  for (guint i = 0; i < points->len && mean > 0 && d.n < ROWS_MAX; i++) {
    const MachinePoint *p = point_at(points, i);
    if (!point_like(p, POINT_REFERENCE, "slowest", FALSE) || p->busy < 2)
      continue;
    d.interval_s[d.n] = ((p->m ? p->m : OLD_SAMPLES) - 1) * apart;
    d.variance[d.n++] = pow(MAX(p->seconds / mean - 1, 0) / expected_largest(p->busy), 2);
  }
  return d;
}

typedef struct {
  double lasting, passing; /* variances */
  double loss;             /* sum of squared relative errors */
} Shares;

static double loss_of(const Drift *d, double lasts_s, double lasting, double passing)
{
  double sum = 0;

  for (int i = 0; i < d->n; i++)
    sum += pow((lasting + passing * jitter_left(d->interval_s[i] / lasts_s)) / d->variance[i] - 1, 2);
  return sum;
}

/* Least squares of two shares, neither below 0, for a correlation time. */
static Shares shares_of(const Drift *d, double lasts_s)
{
  double aa = 0, ab = 0, bb = 0, a = 0, b = 0;

  for (int i = 0; i < d->n; i++) {
    double x = 1 / d->variance[i], y = jitter_left(d->interval_s[i] / lasts_s) / d->variance[i];
    aa += x * x, ab += x * y, bb += y * y, a += x, b += y;
  }
  double det = aa * bb - ab * ab;
  double lasting = det > 1e-12 * aa * bb ? (a * bb - b * ab) / det : 0;
  double passing = det > 1e-12 * aa * bb ? (b * aa - a * ab) / det : b / bb;
  if (lasting < 0 || passing < 0) {
    lasting = lasting < 0 ? 0 : a / aa;
    passing = lasting > 0 ? 0 : b / bb;
  }
  return (Shares) { lasting, passing, loss_of(d, lasts_s, lasting, passing) };
}

void machine_fit_spread(const GArray *points, MachineFit *fit)
{
  Drift d = drift_of(points);
  Shares best = { .loss = INFINITY };

  for (int i = 0; i < d.n; i++)
    if (!(d.variance[i] > 0))
      return;
  if (d.n == 1)
    fit->rate_spread = MIN(sqrt(d.variance[0]), RATE_SPREAD_MAX);
  for (int i = 0; i < LASTS_STEPS && d.n > 1; i++) {
    double lasts_s = LASTS_MIN_S * pow(LASTS_MAX_S / LASTS_MIN_S, i / (LASTS_STEPS - 1.0));
    Shares shares = shares_of(&d, lasts_s);
    if (shares.loss >= best.loss)
      continue;
    best = shares;
    fit->rate_spread = MIN(sqrt(shares.lasting), RATE_SPREAD_MAX);
    fit->rate_jitter = MIN(sqrt(shares.passing), JITTER_MAX);
    fit->rate_jitter_s = lasts_s;
  }
  fit->drift_error = d.n > 1 ? sqrt(best.loss / d.n) / 2 : 0; /* of deviations: half that of variances */
}
