#include "fit/fit.h"

#include <math.h>

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>

FitErrors fit_errors(double *errors, int n)
{
  FitErrors result = {.n = n};
  if (n == 0)
    return result;
  gsl_sort(errors, 1, (gsize)n);
  result.mean = gsl_stats_mean(errors, 1, (gsize)n);
  result.median = gsl_stats_quantile_from_sorted_data(errors, 1, (gsize)n, 0.5);
  result.p90 = gsl_stats_quantile_from_sorted_data(errors, 1, (gsize)n, 0.9);
  result.max = errors[n - 1];
  return result;
}

gboolean fit_is_check(const double *key, int n)
{
  guint64 hash = 14695981039346656037u; /* FNV-1a, then a mix of the high bits */
  for (int i = 0; i < n; i++) {
    guint64 bits = (guint64)(gint64)llround(key[i]);
    for (int byte = 0; byte < 8; byte++) {
      hash ^= (bits >> (8 * byte)) & 0xff;
      hash *= 1099511628211u;
    }
  }
  hash ^= hash >> 32;
  return hash % 3 == 0;
}

void fit_sides_init(FitSides *sides, int n)
{
  sides->errors[FALSE] = g_new(double, (gsize)n);
  sides->errors[TRUE] = g_new(double, (gsize)n);
  sides->n[FALSE] = sides->n[TRUE] = 0;
}

void fit_sides_add(FitSides *sides, gboolean check, double ratio)
{
  int side = check ? TRUE : FALSE;
  sides->errors[side][sides->n[side]++] = fabs(ratio - 1);
}

FitResult fit_sides_clear(FitSides *sides)
{
  FitResult result = {fit_errors(sides->errors[FALSE], sides->n[FALSE]),
                      fit_errors(sides->errors[TRUE], sides->n[TRUE])};
  g_free(sides->errors[FALSE]);
  g_free(sides->errors[TRUE]);
  return result;
}
