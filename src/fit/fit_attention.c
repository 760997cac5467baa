#include "fit/fit.h"

#include "base/sort.h"
#include "base/units.h"

#include <math.h>

/* The share of peak that makes attention_s equal to the row's time less `taken_s`. */
static double row_share(const AttentionRow *row, const Device *device, double taken_s)
{
  AttentionCurve unit = {.kernel = row->work.kernel, .backward = row->work.backward, .causal = row->work.causal,
                         .narrow = row->work.dtype == DTYPE_FP8, .head_dim = row->work.head_dim, .n = 1,
                         .seq = {1}, .utilization = {1}};
  Device bare = *device;
  bare.kernels.attention = &unit;
  bare.kernels.n_attention = 1;
  bare.kernels.attention_launch_s = 0;
  bare.sustained_fraction = 1; /* measured for a moment */
  bare.kernels.attention_sustained = 0;
  return attention_s(&bare, &row->work) / (row->seconds - taken_s);
}

static gboolean same_curve(const AttentionRow *row, const AttentionWork *work)
{
  return row->work.kernel == work->kernel && row->work.backward == work->backward &&
         !row->work.causal == !work->causal && row->work.head_dim == work->head_dim &&
         (row->work.dtype == DTYPE_FP8) == (work->dtype == DTYPE_FP8);
}

/* ---- servers' overhead ---- */

typedef struct {
  const AttentionRow *rows;
  Device *device;
  gboolean tail;   /* x[2] is the device's */
  double *shares;  /* room for all rows */
  const int *next; /* rows of equal length in a ring: row i, then next[i] */
  const int *first;
  int n_groups;
} Serving;

static double taken_s(const double *x, const AttentionRow *row)
{
  return x[0] * US + row->cache_bytes * x[1] * 1e-12;
}

static double group_spread(const Serving *serving, int first, const double *x)
{
  int n = 0;
  for (int i = first; i >= 0; i = serving->next[i]) {
    const AttentionRow *row = &serving->rows[i];
    double taken = fmin(taken_s(x, row), 0.9 * row->seconds);
    serving->shares[n++] = row_share(row, serving->device, taken);
  }
  double middle = sort_median(serving->shares, n), sum = 0;
  for (int i = 0; i < n; i++)
    sum += fabs(log(serving->shares[i] / middle));
  return sum;
}

static double serving_loss(const double *x, gpointer p)
{
  const Serving *serving = p;
  double sum = 0;
  if (serving->tail)
    serving->device->kernels.attention_tail = x[2];
  for (int g = 0; g < serving->n_groups; g++)
    sum += group_spread(serving, serving->first[g], x);
  return sum;
}

void fit_attention_serving(AttentionRow *rows, int n, Device *device, gboolean tail)
{
  static const FitParameter parameters[] = {{8, 0, 40, 3}, {0.5, 0, 10, 0.3}, {0.5, 0, 2, 0.2}};
  g_autofree int *next = g_new(int, (gsize)n);
  g_autofree int *first = g_new(int, (gsize)n);
  g_autofree double *shares = g_new(double, (gsize)n);
  Serving serving = {rows, device, tail, shares, next, first, 0};
  for (int i = 0; i < n; i++) {
    int g = 0;
    if (rows[i].check)
      continue;
    while (g < serving.n_groups && !(same_curve(&rows[i], &rows[first[g]].work) &&
                                     rows[i].work.q_len == rows[first[g]].work.q_len))
      g++;
    next[i] = g < serving.n_groups ? first[g] : -1;
    first[g] = i;
    serving.n_groups = MAX(serving.n_groups, g + 1);
  }
  double x[3];
  fit_minimize(parameters, tail ? 3 : 2, serving_loss, &serving, x);
  if (tail)
    device->kernels.attention_tail = x[2];
  for (int i = 0; i < n; i++) {
    double taken = fmin(taken_s(x, &rows[i]), 0.9 * rows[i].seconds);
    rows[i].seconds += device->kernels.attention_launch_s - taken;
    rows[i].cache_bytes = 0;
  }
}

/* ---- curves ---- */

gboolean fit_attention_curve(const AttentionRow *rows, int n, const Device *device, AttentionCurve *curve)
{
  AttentionWork work = {.kernel = curve->kernel, .backward = curve->backward, .causal = curve->causal,
                        .head_dim = curve->head_dim, .dtype = curve->narrow ? DTYPE_FP8 : DTYPE_BF16};
  g_autofree double *shares = g_new(double, (gsize)n);
  int n_points = 0;
  for (int p = 0; p < curve->n; p++) {
    int n_shares = 0;
    for (int i = 0; i < n; i++)
      if (!rows[i].check && same_curve(&rows[i], &work) && rows[i].work.q_len == curve->seq[p])
        shares[n_shares++] = row_share(&rows[i], device, device->kernels.attention_launch_s);
    if (!n_shares)
      continue;
    curve->seq[n_points] = curve->seq[p];
    curve->utilization[n_points++] = fmin(1, sort_median(shares, n_shares));
  }
  curve->n = n_points;
  curve->provenance = PROVENANCE_FITTED;
  return n_points > 0;
}

static FitResult errors_at(const AttentionRow *rows, int n, const Device *device, double sustained)
{
  Device at = *device;
  FitSides sides;
  at.kernels.attention_sustained = sustained;
  fit_sides_init(&sides, n);
  for (int i = 0; i < n; i++)
    fit_sides_add(&sides, rows[i].check, attention_s(&at, &rows[i].work) / rows[i].seconds);
  return fit_sides_clear(&sides);
}

FitResult fit_attention_errors(const AttentionRow *rows, int n, const Device *device)
{
  return errors_at(rows, n, device, 1);
}

FitResult fit_attention_sustained(const AttentionRow *rows, int n, Device *device)
{
  Device burst = *device;
  g_autofree double *shares = g_new(double, (gsize)n);
  double launch_s = device->kernels.attention_launch_s;
  int n_shares = 0;

  burst.kernels.attention_sustained = 1;
  for (int i = 0; i < n; i++)
    if (!rows[i].check)
      shares[n_shares++] = (attention_s(&burst, &rows[i].work) - launch_s) / (rows[i].seconds - launch_s);
  device->kernels.attention_sustained = n_shares ? fmin(1, sort_median(shares, n_shares)) : 0;
  return errors_at(rows, n, device, device->kernels.attention_sustained);
}
