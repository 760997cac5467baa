/* State of the CUDA backend, and what its files give each other; C++ only. */
#ifndef TDP_EXEC_CUDA_INTERNAL_H
#define TDP_EXEC_CUDA_INTERNAL_H

#include "exec/cuda/cuda.h"

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <nccl.h>

struct Cudnn;     /* graphs of attention; where cuDNN was found when building, unless TDP_CUDNN=0 */
struct GemmPlans; /* algorithms found so far, by shape */

enum { PARTIALS = 1024 };        /* sums of blocks that a second kernel adds up */
enum { WORKSPACE_BYTES = 64 << 20 }; /* of products; what cuBLAS asks for on Hopper is 32 MiB */
enum { COMMS_MAX = 64, CLOCKS_MAX = 4096 };
enum { STREAMS_MAX = 32 };       /* hardware queues, the most that CUDA_DEVICE_MAX_CONNECTIONS takes */
enum { MARKS = 64 };             /* of a stream, not reached yet */
enum { STAGES = 16, STAGE_BYTES = 256 << 10 }; /* pinned memory by way of which the host uploads */

struct CudaBackend {
  Backend base; /* first: the table's callers see only this */
  int device;
  char failure[EXEC_ERROR_SIZE]; /* empty = none */
  cudaMemPool_t pool;
  cublasLtHandle_t blas;
  GemmPlans *gemms;
  Cudnn *cudnn; /* NULL: own attention only */
  ncclComm_t world;
  BackendComm *comms[COMMS_MAX];
  int n_comms;
  /* Times of events are measured from the nearest of these, since an elapsed
   * time is a float. */
  struct { cudaEvent_t event; double host_s; } clocks[CLOCKS_MAX];
  int n_clocks;
  BackendStream *streams[STREAMS_MAX]; /* alive */
  int n_streams, queues; /* queues: more streams would wait for each other */
  struct { char *memory; cudaEvent_t read; } stages[STAGES]; /* read: its last upload has been */
  int next_stage;
};

struct BackendStream {
  cudaStream_t stream;
  void *workspace;  /* of products; NULL where nothing computes */
  double *partials; /* PARTIALS: squares are summed on any stream */
  cudaEvent_t reached; /* of the host's waits */
  /* Behind some of the work, so that a waiting host sees it end: `pending` of them from `first` on. */
  cudaEvent_t marks[MARKS];
  int first, pending, products; /* products since the last mark */
};

struct BackendEvent {
  cudaEvent_t event;
  int clock; /* that it is measured from */
};

struct BackendComm {
  ncclComm_t comm;
  float *token; /* what a barrier adds up */
};

static inline CudaBackend *cuda_of(Backend *b)
{
  return (CudaBackend *)b;
}

/* Keeps the first failure. */
void cuda_fail(Backend *b, const char *what, const char *why);

static inline void cuda_check(Backend *b, const char *what, cudaError_t status)
{
  if (status != cudaSuccess)
    cuda_fail(b, what, cudaGetErrorString(status));
}

/* Clears what a query left that found its event ahead: no error, but kept as the last one. */
static inline int cuda_ahead(cudaError_t status)
{
  if (status == cudaErrorNotReady)
    cudaGetLastError();
  return status == cudaErrorNotReady;
}

static inline void cuda_check_launch(Backend *b, const char *what)
{
  cuda_check(b, what, cudaGetLastError());
}

/* Waits by the host (waits.cu). They ask instead of sleeping in the driver: meanwhile receives are posted, what
 * ends counts as activity, and a failure ends them. */
void cuda_wait(Backend *b, const char *what, cudaEvent_t event);
void cuda_wait_stream(Backend *b, const char *what, BackendStream *s);

/* A mark behind what was enqueued, if there is room for one. */
void cuda_mark(Backend *b, BackendStream *s);

/* Behind a product: marks every few of them, and keeps the host from running further ahead than its marks, since a
 * full launch queue would hold it in the driver, where it neither posts receives nor shows that it waits. */
void cuda_pace(Backend *b, BackendStream *s);

/* Fill the table, each file its part. */
void cuda_fill_memory(Backend *b);
void cuda_fill_streams(Backend *b);
void cuda_fill_pointwise(Backend *b);
void cuda_fill_norm(Backend *b);
void cuda_fill_attention(Backend *b);
void cuda_fill_embedding(Backend *b);
void cuda_fill_route(Backend *b);
void cuda_fill_experts(Backend *b);
void cuda_fill_loss(Backend *b);
void cuda_fill_optimizer(Backend *b);
void cuda_fill_random(Backend *b);
void cuda_fill_comm(Backend *b);
int cuda_fill_gemm(Backend *b, char *error); /* 0 = done */
int cuda_open_memory(CudaBackend *c, char *error); /* 0 = done */
void cuda_close_memory(CudaBackend *c);
void cuda_free_gemm(CudaBackend *c);
#ifdef TDP_CUDNN
void cudnn_open(CudaBackend *c); /* leaves `cudnn` NULL where the library is not at hand */
void cudnn_close(CudaBackend *c);
/* false: it is not among what cuDNN does, and nothing has happened. */
bool cudnn_attention(Backend *b, BackendStream *s, const ExecAttention *a, int backward);
#endif
int cuda_open_comm(CudaBackend *c, const BackendOptions *options, char *error); /* 0 = done */
void cuda_close_comm(CudaBackend *c);
double cuda_host_s(void);

/* ---- for kernels ---- */

enum { THREADS = 256 };

static inline unsigned blocks_for(size_t n, size_t per_block)
{
  return (unsigned)((n + per_block - 1) / per_block);
}

__device__ static inline float to_float(float x) { return x; }
__device__ static inline float to_float(__half x) { return __half2float(x); }
__device__ static inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename T> __device__ static inline T from_float(float x);
template <> __device__ inline float from_float<float>(float x) { return x; }
template <> __device__ inline __half from_float<__half>(float x) { return __float2half(x); }
template <> __device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x) { return __float2bfloat16(x); }

__device__ static inline float warp_sum(float x)
{
  for (int i = 16; i > 0; i /= 2)
    x += __shfl_xor_sync(~0u, x, i);
  return x;
}

__device__ static inline float warp_max(float x)
{
  for (int i = 16; i > 0; i /= 2)
    x = fmaxf(x, __shfl_xor_sync(~0u, x, i));
  return x;
}

/* Over the THREADS threads of a block; every thread gets the result. */
__device__ static inline float block_reduce(float x, bool largest)
{
  __shared__ float warps[THREADS / 32];
  float total = largest ? -INFINITY : 0;

  x = largest ? warp_max(x) : warp_sum(x);
  __syncthreads();
  if (threadIdx.x % 32 == 0)
    warps[threadIdx.x / 32] = x;
  __syncthreads();
  for (int i = 0; i < THREADS / 32; i++)
    total = largest ? fmaxf(total, warps[i]) : total + warps[i];
  return total;
}

/* Sum over the THREADS threads of a block, in a fixed order; every thread gets it. */
__device__ static inline double block_total(double x)
{
  __shared__ double sums[THREADS];

  sums[threadIdx.x] = x;
  __syncthreads();
  for (int k = THREADS / 2; k > 0; k /= 2) {
    if (threadIdx.x < k)
      sums[threadIdx.x] += sums[threadIdx.x + k];
    __syncthreads();
  }
  return sums[0];
}

/* Calls f with a value of the C++ type. */
template <typename F> static void by_type(ExecType type, F f)
{
  switch (type) {
  case EXEC_F16:
    f(__half());
    break;
  case EXEC_BF16:
    f(__nv_bfloat16());
    break;
  default:
    f(float());
  }
}

/* With the backend's element type. */
template <typename F> static void by_type(Backend *b, F f)
{
  by_type(b->dtype, f);
}

#endif
