/* Kernels in fp32, for training. */
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef float Real;

/*
 * exp within 2 units in the last place, in steps that vectors have: Cody and Waite's reduction to exp(r) 2^k and the
 * polynomial of Cephes' expf (Moshier, netlib.org/cephes). The sum with 1.5 * 2^23 rounds to an integer and leaves it
 * in the low bits. Infinite from 88.37 on, a bit early; what is no number stays none.
 */
static inline float exp_f32(float x)
{
  const float low = -87.33654f, high = 88.37626f, round = 12582912.f;
  float within = x < low ? low : x > high ? high : x, shifted = within * 1.44269504f + round, k = shifted - round;
  float r = within - k * 0.693359375f - k * -2.12194440e-4f, y = 1.9875691500e-4f, power;
  int32_t bits;

  y = y * r + 1.3981999507e-3f;
  y = y * r + 8.3334519073e-3f;
  y = y * r + 4.1665795894e-2f;
  y = y * r + 1.6666665459e-1f;
  y = y * r + 5.0000001201e-1f;
  y = y * r * r + r + 1;
  memcpy(&bits, &shifted, sizeof bits);
  bits = (int32_t)((uint32_t)(bits - 0x4b400000 + 127) << 23);
  memcpy(&power, &bits, sizeof power);
  return x < low ? 0 : x > high ? INFINITY : y * power;
}

#define EXP exp_f32
#define LOG logf
#define SQRT sqrtf
#define GEMM blas_product_f32
#define FILL cpu_fill_kernels_f32

#include "exec/cpu/kernels.inc"
