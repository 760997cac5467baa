/* fp16 of the emulated device: conversions round to nearest even. */
#ifndef EMULATED_CUDA_FP16_H
#define EMULATED_CUDA_FP16_H

#include <cuda_runtime.h>

namespace emulated {
float half_to_float(uint16_t bits);
uint16_t float_to_half(float x);
} // namespace emulated

struct __half {
  uint16_t bits;
  __half() = default;
  __half(float x) : bits(emulated::float_to_half(x)) {}
  __half(double x) : bits(emulated::float_to_half((float)x)) {}
  __half(int x) : bits(emulated::float_to_half((float)x)) {}
  operator float() const { return emulated::half_to_float(bits); }
};
typedef __half half;

struct alignas(4) __half2 {
  __half x, y;
  __half2() = default;
  __half2(__half x, __half y) : x(x), y(y) {}
};
typedef __half2 half2;

static inline float __half2float(__half x) { return x; }
static inline __half __float2half(float x) { return __half(x); }
static inline __half __float2half_rn(float x) { return __half(x); }
static inline float2 __half22float2(__half2 x) { return { x.x, x.y }; }
static inline __half2 __float22half2_rn(float2 x) { return { __half(x.x), __half(x.y) }; }
static inline __half2 __floats2half2_rn(float x, float y) { return { __half(x), __half(y) }; }
static inline __half2 __halves2half2(__half x, __half y) { return { x, y }; }
static inline float __low2float(__half2 x) { return x.x; }
static inline float __high2float(__half2 x) { return x.y; }
static inline __half __low2half(__half2 x) { return x.x; }
static inline __half __high2half(__half2 x) { return x.y; }
static inline uint16_t __half_as_ushort(__half x) { return x.bits; }

#endif
