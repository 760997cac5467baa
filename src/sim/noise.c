#include "sim/noise.h"

#include <math.h>

#define STEPS 60 /* halvings: to the last bit */
#define FARTHEST 9.0

/* Where the normal distribution is below a share of itself; 1 - below = above. */
static double normal_quantile(double above)
{
  double low = -FARTHEST, high = FARTHEST;

  for (int i = 0; i < STEPS; i++) {
    double middle = (low + high) / 2;
    if (erfc(middle / G_SQRT2) / 2 > above)
      low = middle;
    else
      high = middle;
  }
  return (low + high) / 2;
}

double *noise_quantiles(int size, double deviation)
{
  int n = 1 << NOISE_BITS;
  double *quantiles = g_new(double, n);

  for (int i = 0; i < n; i++)
    quantiles[i] = deviation * normal_quantile(-expm1(log((i + 0.5) / n) / size));
  return quantiles;
}
