/*
 * Random numbers by place instead of in sequence, so that any rank can make any
 * part: a hash of a seed and two indices (splitmix64's finalizer, Steele et al.
 * 2014). Plain C, for kernels too: of sums, products, divisions and roots alone,
 * which round alike everywhere, so that the host and a device make the same bits
 * (where products are not fused with sums). Series are exact to a double's last bits.
 */
#ifndef TDP_EXEC_RANDOM_H
#define TDP_EXEC_RANDOM_H

#include "exec/backend.h"

#include <math.h>

#ifdef __CUDACC__
#define RANDOM_INLINE __host__ __device__ static inline
#else
#define RANDOM_INLINE static inline
#endif

RANDOM_INLINE uint64_t random_mix(uint64_t x)
{
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

RANDOM_INLINE uint64_t random_at(uint64_t seed, uint64_t stream, uint64_t index)
{
  return random_mix(random_mix(random_mix(seed) ^ stream) ^ index);
}

/* Above 0, up to 1. */
RANDOM_INLINE double random_unit(uint64_t bits)
{
  return (double)((bits >> 11) + 1) * 0x1p-53;
}

/* ln x = e ln 2 + 2 artanh((m - 1) / (m + 1)), of a normal x = m 2^e with m within sqrt(2) of 1. */
RANDOM_INLINE double random_log(double x)
{
  union { double x; uint64_t bits; } m = { x };
  int exponent = (int)(m.bits >> 52) - 1023;

  m.bits = (m.bits & 0xfffffffffffffu) | 0x3ff0000000000000u;
  int large = m.x > 1.4142135623730951;
  double half = large ? m.x * 0.5 : m.x;
  double s = (half - 1) / (half + 1), z = s * s;
  double low = z * (1.0 / 15 + z * (1.0 / 17 + z * (1.0 / 19 + z * (1.0 / 21 + z * (1.0 / 23)))));
  double sum = z * (1.0 / 3 + z * (1.0 / 5 + z * (1.0 / 7 + z * (1.0 / 9 + z * (1.0 / 11 + z * (1.0 / 13 + low))))));
  return (exponent + large) * 0.69314718055994531 + 2 * (s + s * sum);
}

/* cos r and sin r within a quarter of a turn, z = r^2. */
RANDOM_INLINE double random_cos(double z)
{
  double low = z * z * (1.0 / 479001600 - z * (1.0 / 87178291200 - z * (1.0 / 20922789888000)));
  return 1 - z * (0.5 - z * (1.0 / 24 - z * (1.0 / 720 - z * (1.0 / 40320 - z * (1.0 / 3628800) + low))));
}

RANDOM_INLINE double random_sin(double r, double z)
{
  double low = z * z * (1.0 / 6227020800 - z * (1.0 / 1307674368000 - z * (1.0 / 355687428096000)));
  double sum = z * (1.0 / 120 - z * (1.0 / 5040 - z * (1.0 / 362880 - z * (1.0 / 39916800) + low)));
  return r - r * z * (1.0 / 6 - sum);
}

/* cos 2 pi x of 0 < x <= 1, by the nearest quarter of a turn; a choice between both, not a branch, for vectors. */
RANDOM_INLINE double random_cos_turns(double x)
{
  int quarter = (int)(4 * x + 0.5);
  double r = 6.283185307179586 * (x - 0.25 * quarter), z = r * r;
  double y = quarter % 2 ? random_sin(r, z) : random_cos(z);

  return (quarter + 1) / 2 % 2 ? -y : y;
}

/* Normal with mean 0 and deviation 1 (Box and Muller 1958). */
RANDOM_INLINE double random_normal(uint64_t seed, uint64_t stream, uint64_t index)
{
  uint64_t bits = random_at(seed, stream, index);

  return sqrt(-2 * random_log(random_unit(bits))) * random_cos_turns(random_unit(random_mix(bits)));
}

/* Element i of those that `f` describes. */
RANDOM_INLINE double random_fill(const ExecFill *f, size_t i)
{
  uint64_t row = f->first_row + i / f->cols, column = f->first_col + i % f->cols;

  if (f->end_row && row >= f->end_row)
    return 0;
  return f->deviation > 0 ? f->mean + f->deviation * random_normal(f->seed, f->stream, row * f->all_cols + column)
                          : f->mean;
}

#endif
