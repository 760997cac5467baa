/* bf16 of the emulated device: conversions round to nearest even. */
#ifndef EMULATED_CUDA_BF16_H
#define EMULATED_CUDA_BF16_H

#include <cuda_runtime.h>

namespace emulated {
static inline float bfloat_to_float(uint16_t bits) { return __uint_as_float((unsigned)bits << 16); }
uint16_t float_to_bfloat(float x);
} // namespace emulated

struct __nv_bfloat16 {
  uint16_t bits;
  __nv_bfloat16() = default;
  __nv_bfloat16(float x) : bits(emulated::float_to_bfloat(x)) {}
  __nv_bfloat16(double x) : bits(emulated::float_to_bfloat((float)x)) {}
  __nv_bfloat16(int x) : bits(emulated::float_to_bfloat((float)x)) {}
  operator float() const { return emulated::bfloat_to_float(bits); }
};

struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
  __nv_bfloat162() = default;
  __nv_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) : x(x), y(y) {}
};

static inline float __bfloat162float(__nv_bfloat16 x) { return x; }
static inline __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
static inline __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
static inline float2 __bfloat1622float2(__nv_bfloat162 x) { return { x.x, x.y }; }
static inline __nv_bfloat162 __float22bfloat162_rn(float2 x) { return { __nv_bfloat16(x.x), __nv_bfloat16(x.y) }; }
static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return { __nv_bfloat16(x), __nv_bfloat16(y) }; }
static inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return { x, y }; }
static inline float __low2float(__nv_bfloat162 x) { return x.x; }
static inline float __high2float(__nv_bfloat162 x) { return x.y; }
static inline uint16_t __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }

#endif
