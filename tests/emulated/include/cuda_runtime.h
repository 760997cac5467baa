/*
 * The part of CUDA's runtime and device language that the backend uses, for an
 * emulated device of the host (../device.h). Names, types and meanings are CUDA's;
 * bodies are in ../kernel.cpp, ../memory.cpp and ../streams.cpp. To add a function,
 * declare it here and write it there. Sources pass through ../launches first.
 */
#ifndef EMULATED_CUDA_RUNTIME_H
#define EMULATED_CUDA_RUNTIME_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <functional>
#include <tuple>
#include <type_traits>

#define CUDART_VERSION 13000
#define CUDART_CB
#define __host__
#define __device__
#define __global__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

/* ---- vector types ---- */

#define EMULATED_VECTORS(T, name, wide)                                            \
  struct alignas(2 * sizeof(T)) name##2 { T x, y; };                               \
  struct name##3 { T x, y, z; };                                                   \
  struct alignas(wide) name##4 { T x, y, z, w; };                                  \
  static inline name##2 make_##name##2(T x, T y) { return { x, y }; }              \
  static inline name##3 make_##name##3(T x, T y, T z) { return { x, y, z }; }      \
  static inline name##4 make_##name##4(T x, T y, T z, T w) { return { x, y, z, w }; }
EMULATED_VECTORS(char, char, 4)
EMULATED_VECTORS(unsigned char, uchar, 4)
EMULATED_VECTORS(short, short, 8)
EMULATED_VECTORS(unsigned short, ushort, 8)
EMULATED_VECTORS(int, int, 16)
EMULATED_VECTORS(unsigned, uint, 16)
EMULATED_VECTORS(float, float, 16)
struct alignas(16) double2 { double x, y; };
static inline double2 make_double2(double x, double y) { return { x, y }; }

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

/* ---- host ---- */

enum cudaError_t {
  cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2, cudaErrorInvalidConfiguration = 9,
  cudaErrorNoDevice = 100, cudaErrorInvalidDevice = 101, cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600, cudaErrorLaunchFailure = 719, cudaErrorNotSupported = 801,
};
enum cudaMemcpyKind {
  cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault,
};
enum cudaDeviceAttr {
  cudaDevAttrMaxSharedMemoryPerBlock = 8, cudaDevAttrMultiProcessorCount = 16, cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76, cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
};
enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8, cudaFuncAttributePreferredSharedMemoryCarveout = 9,
};
enum cudaMemPoolAttr {
  cudaMemPoolReuseFollowEventDependencies = 1, cudaMemPoolReuseAllowOpportunistic,
  cudaMemPoolReuseAllowInternalDependencies,
  cudaMemPoolAttrReleaseThreshold, cudaMemPoolAttrReservedMemCurrent, cudaMemPoolAttrReservedMemHigh,
  cudaMemPoolAttrUsedMemCurrent, cudaMemPoolAttrUsedMemHigh,
};
enum { cudaStreamDefault = 0, cudaStreamNonBlocking = 1, cudaEventDefault = 0, cudaEventBlockingSync = 1,
       cudaEventDisableTiming = 2, cudaHostAllocDefault = 0, cudaHostAllocPortable = 1, cudaEventWaitDefault = 0 };
struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin;
  int multiProcessorCount, l2CacheSize, major, minor, warpSize, maxThreadsPerBlock, maxThreadsPerMultiProcessor;
};
struct cudaFuncAttributes {
  size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
  int maxThreadsPerBlock, numRegs, maxDynamicSharedSizeBytes;
};
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUmemPool_st *cudaMemPool_t;
typedef void (*cudaHostFn_t)(void *data);

cudaError_t cudaGetDeviceCount(int *n);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device);
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaFree(void *p);
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
const char *cudaGetErrorString(cudaError_t status);
const char *cudaGetErrorName(cudaError_t status);

cudaError_t emulated_malloc(void **p, size_t bytes);
cudaError_t emulated_malloc_host(void **p, size_t bytes);
cudaError_t emulated_malloc_async(void **p, size_t bytes, cudaStream_t s);
template <typename T> cudaError_t cudaMalloc(T **p, size_t bytes) { return emulated_malloc((void **)p, bytes); }
template <typename T> cudaError_t cudaMallocHost(T **p, size_t bytes, unsigned = 0)
{
  return emulated_malloc_host((void **)p, bytes);
}
template <typename T> cudaError_t cudaHostAlloc(T **p, size_t bytes, unsigned = 0)
{
  return emulated_malloc_host((void **)p, bytes);
}
template <typename T> cudaError_t cudaMallocAsync(T **p, size_t bytes, cudaStream_t s)
{
  return emulated_malloc_async((void **)p, bytes, s);
}
cudaError_t cudaFreeHost(void *p);
cudaError_t cudaFreeAsync(void *p, cudaStream_t s);
cudaError_t cudaMemGetInfo(size_t *left, size_t *total);
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t s = 0);
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t rows,
                              cudaMemcpyKind kind, cudaStream_t s = 0);
cudaError_t cudaMemset(void *p, int value, size_t bytes);
cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t s = 0);
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void *value);
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void *value);
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes);

cudaError_t cudaStreamCreate(cudaStream_t *s);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned flags, int priority);
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest);
cudaError_t cudaStreamDestroy(cudaStream_t s);
cudaError_t cudaStreamSynchronize(cudaStream_t s);
cudaError_t cudaStreamQuery(cudaStream_t s);
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags = 0);
cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t f, void *data);
cudaError_t cudaEventCreate(cudaEvent_t *e);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t e);
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s = 0);
cudaError_t cudaEventQuery(cudaEvent_t e);
cudaError_t cudaEventSynchronize(cudaEvent_t e);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t until);

cudaError_t emulated_allow_shared(cudaFuncAttribute attribute, int value);
template <typename K> cudaError_t cudaFuncSetAttribute(K *, cudaFuncAttribute attribute, int value)
{
  return emulated_allow_shared(attribute, value);
}
template <typename K> cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *a, K *)
{
  *a = { 0, 0, 0, 1024, 32, 48 << 10 };
  return cudaSuccess;
}
template <typename K>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, K *, int threads, size_t)
{
  *blocks = 2048 / threads;
  return cudaSuccess;
}

/* ---- threads ---- */

namespace emulated {

/* Where the running thread stands. */
struct Place {
  uint3 thread, block;
  dim3 block_dim, grid_dim;
  int lane; /* of the thread's warp */
};
extern Place place;

/* One launch: checked and put into the stream, with a copy of its arguments, by the last call. */
class Launch {
  const char *name;
  dim3 grid, block;
  size_t shared_bytes;
  cudaStream_t stream;

public:
  Launch(const char *name, dim3 grid, dim3 block, size_t shared_bytes = 0, cudaStream_t stream = 0)
      : name(name), grid(grid), block(block), shared_bytes(shared_bytes), stream(stream)
  {
  }
  void enqueue(const std::function<void()> &thread) const;
  template <typename F> auto of(F f) const
  {
    return [launch = *this, f](auto... x) { launch.enqueue([f, t = std::make_tuple(x...)] { std::apply(f, t); }); };
  }
};

void shared(void *p, size_t bytes);
void *dynamic_shared(void);
int barrier(const char *file, int line, int value, int how);
enum { BARRIER_PLAIN, BARRIER_COUNT, BARRIER_AND, BARRIER_OR };

/* What the lanes of a warp give each other: each lane names the lane that it reads; what it gets is 8 bytes. */
uint64_t exchange(const char *what, unsigned mask, uint64_t value, int from);
unsigned vote(const char *what, unsigned mask, bool value);
inline int lane(void) { return place.lane; }

template <typename T> T shuffle(const char *what, unsigned mask, T value, int from, int width)
{
  static_assert(sizeof(T) <= 8, "shuffles move at most 8 bytes");
  uint64_t bits = 0;
  int first = lane() / width * width;
  memcpy(&bits, &value, sizeof value);
  bits = exchange(what, mask, bits, from >= first && from < first + width ? from : lane());
  memcpy(&value, &bits, sizeof value);
  return value;
}

} // namespace emulated

#define threadIdx (emulated::place.thread)
#define blockIdx (emulated::place.block)
#define blockDim (emulated::place.block_dim)
#define gridDim (emulated::place.grid_dim)
enum { warpSize = 32 };

#define __syncthreads() ((void)emulated::barrier(__FILE__, __LINE__, 0, emulated::BARRIER_PLAIN))
#define __syncthreads_count(x) emulated::barrier(__FILE__, __LINE__, !!(x), emulated::BARRIER_COUNT)
#define __syncthreads_and(x) emulated::barrier(__FILE__, __LINE__, !!(x), emulated::BARRIER_AND)
#define __syncthreads_or(x) emulated::barrier(__FILE__, __LINE__, !!(x), emulated::BARRIER_OR)

static inline void __syncwarp(unsigned mask = ~0u) { emulated::vote("__syncwarp", mask, false); }
template <typename T> T __shfl_sync(unsigned mask, T value, int from, int width = 32)
{
  return emulated::shuffle("__shfl_sync", mask, value, emulated::lane() / width * width + from % width, width);
}
template <typename T> T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32)
{
  return emulated::shuffle("__shfl_xor_sync", mask, value, emulated::lane() ^ bits, width);
}
template <typename T> T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32)
{
  return emulated::shuffle("__shfl_up_sync", mask, value, emulated::lane() - (int)by, width);
}
template <typename T> T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32)
{
  return emulated::shuffle("__shfl_down_sync", mask, value, emulated::lane() + (int)by, width);
}
static inline unsigned __ballot_sync(unsigned mask, int x) { return emulated::vote("__ballot_sync", mask, x); }
static inline int __any_sync(unsigned mask, int x) { return emulated::vote("__any_sync", mask, x) != 0; }
static inline int __all_sync(unsigned mask, int x) { return emulated::vote("__all_sync", mask, !x) == 0; }
template <typename T> T emulated_reduce(unsigned mask, T x)
{
  for (int i = 16; i > 0; i /= 2)
    x += __shfl_xor_sync(mask, x, i);
  return x;
}
static inline int __reduce_add_sync(unsigned mask, int x) { return emulated_reduce(mask, x); }
static inline unsigned __reduce_add_sync(unsigned mask, unsigned x) { return emulated_reduce(mask, x); }

/* Threads change places only where they wait, so these are atomic as they stand. */
template <typename T, typename U> T atomicAdd(T *p, U x)
{
  T old = *p;
  *p = old + (T)x;
  return old;
}
template <typename T, typename U> T atomicMax(T *p, U x)
{
  T old = *p;
  *p = old < (T)x ? (T)x : old;
  return old;
}
template <typename T, typename U> T atomicMin(T *p, U x)
{
  T old = *p;
  *p = (T)x < old ? (T)x : old;
  return old;
}
template <typename T, typename U> T atomicExch(T *p, U x)
{
  T old = *p;
  *p = (T)x;
  return old;
}
template <typename T, typename U, typename V> T atomicCAS(T *p, U expected, V x)
{
  T old = *p;
  *p = old == (T)expected ? (T)x : old;
  return old;
}
static inline void __threadfence(void) {}
static inline void __threadfence_block(void) {}

/* ---- arithmetic ---- */

template <typename A, typename B> typename std::common_type<A, B>::type min(A a, B b) { return a < b ? a : b; }
template <typename A, typename B> typename std::common_type<A, B>::type max(A a, B b) { return a > b ? a : b; }
template <typename T> T __ldg(const T *p) { return *p; }
template <typename T> T __ldcs(const T *p) { return *p; }
template <typename T> void __stcs(T *p, T x) { *p = x; }
static inline float emulated_rsqrtf(float x) { return 1 / sqrtf(x); }
#define rsqrtf emulated_rsqrtf /* from C23 on libraries declare their own */
#define __expf expf
#define __logf logf
static inline float __fdividef(float x, float y) { return x / y; }
static inline float __frcp_rn(float x) { return 1 / x; }
static inline float __fsqrt_rn(float x) { return sqrtf(x); }
static inline float __saturatef(float x) { return x > 0 ? x < 1 ? x : 1 : 0; }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
static inline unsigned __float_as_uint(float x) { unsigned bits; memcpy(&bits, &x, 4); return bits; }
static inline int __float_as_int(float x) { return (int)__float_as_uint(x); }
static inline float __uint_as_float(unsigned bits) { float x; memcpy(&x, &bits, 4); return x; }
static inline float __int_as_float(int bits) { return __uint_as_float((unsigned)bits); }

#endif
