#include "exec/cuda/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void cuda_fail(Backend *b, const char *what, const char *why)
{
  CudaBackend *c = cuda_of(b);

  if (!c->failure[0])
    snprintf(c->failure, sizeof c->failure, "cuda: device %d: %s: %s", c->device, what, why);
}

double cuda_host_s(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static const char *failed(Backend *b)
{
  CudaBackend *c = cuda_of(b);

  cuda_check(b, "kernel", cudaPeekAtLastError());
  for (int i = 0; i < c->n_comms; i++) {
    ncclResult_t status = ncclSuccess;
    if (!c->comms[i])
      continue;
    ncclCommGetAsyncError(c->comms[i]->comm, &status);
    if (status != ncclSuccess && status != ncclInProgress)
      cuda_fail(b, "NCCL", ncclGetLastError(c->comms[i]->comm));
  }
  return c->failure[0] ? c->failure : NULL;
}

static void close_backend(Backend *b)
{
  CudaBackend *c = cuda_of(b);

  cuda_close_comm(c);
  cuda_free_gemm(c);
  cuda_close_memory(c);
#ifdef TDP_CUDNN
  cudnn_close(c);
#endif
  for (int i = 0; i < c->n_clocks; i++)
    cudaEventDestroy(c->clocks[i].event);
  free(c);
}

/* See cuda.h. What the user has set stays. */
static void set_environment(CudaBackend *c)
{
  static const char *const settings[][2] = {
    { "CUDA_MODULE_LOADING", "EAGER" }, { "CUDA_DEVICE_MAX_CONNECTIONS", "32" }, { "NCCL_RUNTIME_CONNECT", "0" },
  };

  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
    setenv(settings[i][0], settings[i][1], 0);
  c->queues = atoi(getenv("CUDA_DEVICE_MAX_CONNECTIONS"));
  if (c->queues > STREAMS_MAX)
    c->queues = STREAMS_MAX;
}

/* A first product, with which cuBLASLt sets itself up. */
static int warm_up(Backend *b, char *error)
{
  enum { SIDE = 64 };
  size_t bytes = SIDE * SIDE * exec_type_bytes(b->dtype);
  BackendStream *s = b->stream_new(b, 1);
  void *x = b->alloc(b, s, bytes), *y = b->alloc(b, s, bytes);
  ExecGemm g = { 0, 1, 0, SIDE, SIDE, SIDE, 1, 1, 0, x, x, y, SIDE, SIDE, SIDE, 0, 0, 0, NULL, NULL, EXEC_AS_IT_IS,
                 NULL, NULL };

  if (x && y) {
    b->zero(b, s, x, bytes);
    b->gemm(b, s, &g);
  }
  b->dealloc(b, s, x, bytes);
  b->dealloc(b, s, y, bytes);
  b->sync(b, s);
  b->stream_free(b, s);
  if (x && y && !b->failed(b))
    return 0;
  snprintf(error, EXEC_ERROR_SIZE, "%s", b->failed(b) ? b->failed(b) : "cuda: out of memory");
  return -1;
}

static int open_device(CudaBackend *c, const BackendOptions *options, char *error)
{
  struct cudaDeviceProp properties;
  int n = 0;
  cudaError_t status = cudaGetDeviceCount(&n);

  if (status == cudaSuccess && n == 0)
    status = cudaErrorNoDevice;
  if (status == cudaSuccess) {
    c->device = options->local_rank % n;
    status = cudaSetDevice(c->device);
  }
  if (status == cudaSuccess)
    status = cudaGetDeviceProperties(&properties, c->device);
  if (status != cudaSuccess) {
    snprintf(error, EXEC_ERROR_SIZE, "cuda: %s", cudaGetErrorString(status));
    return -1;
  }
  snprintf(c->base.device, sizeof c->base.device, "%.63s", properties.name);
  c->base.units = properties.multiProcessorCount;
  c->base.memory_bytes = properties.totalGlobalMem;
  c->base.cache_bytes = properties.l2CacheSize > 0 ? properties.l2CacheSize : 0;
  return 0;
}

Backend *cuda_open(const BackendOptions *options, char *error)
{
  if (options->dtype == EXEC_F64) {
    snprintf(error, EXEC_ERROR_SIZE, "cuda: fp64 is for the cpu backend; expected fp32, fp16 or bf16");
    return NULL;
  }
  CudaBackend *c = (CudaBackend *)calloc(1, sizeof *c);
  Backend *b = &c->base;
  b->name = "cuda";
  b->dtype = options->dtype;
  b->rank = options->rank;
  b->size = options->size;
  b->free = close_backend;
  b->failed = failed;
  b->concurrent = 1;
  cuda_fill_memory(b);
  cuda_fill_streams(b);
  cuda_fill_pointwise(b);
  cuda_fill_norm(b);
  cuda_fill_attention(b);
  cuda_fill_embedding(b);
  cuda_fill_route(b);
  cuda_fill_experts(b);
  cuda_fill_loss(b);
  cuda_fill_optimizer(b);
  cuda_fill_random(b);
  cuda_fill_comm(b);
  set_environment(c);
  if (open_device(c, options, error) || cuda_open_memory(c, error) || cuda_fill_gemm(b, error) || warm_up(b, error) ||
      cuda_open_comm(c, options, error)) {
    close_backend(b);
    return NULL;
  }
#ifdef TDP_CUDNN
  cudnn_open(c);
#endif
  return b;
}
