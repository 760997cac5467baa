#include "pages/rounding.h"

#include <glib.h>
#include <math.h>

#define SUMS 20000
#define SEED 7

/* Digits of the significand, with the leading one. */
static const int digits[FORMAT_COUNT] = { [FORMAT_FP32] = 24, [FORMAT_BF16] = 8, [FORMAT_FP16] = 11 };

double rounded(double value, StateFormat format)
{
  int exponent;
  double significand = frexp(value, &exponent);

  return ldexp(nearbyint(ldexp(significand, digits[format])), exponent - digits[format]);
}

/* Box and Muller. */
static double normal(GRand *rand)
{
  double radius = sqrt(-2 * log(1 - g_rand_double(rand)));
  return radius * cos(2 * G_PI * g_rand_double(rand));
}

double ring_sum_error(int ranks, StateFormat format)
{
  GRand *rand = g_rand_new_with_seed(SEED);
  double errors = 0, sums = 0;

  for (int i = 0; i < SUMS; i++) {
    double exact = 0, sum = 0;
    for (int r = 0; r < ranks; r++) {
      double x = normal(rand);
      exact += x;
      sum = rounded(sum + rounded(x, format), format);
    }
    errors += (sum - exact) * (sum - exact);
    sums += exact * exact;
  }
  g_rand_free(rand);
  return sqrt(errors / sums);
}
