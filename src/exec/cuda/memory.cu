/* Memory from the device's stream-ordered pool, which keeps what it once took: by default it gives freed memory back
 * at every synchronisation, and takes it again. */
#include "exec/cuda/internal.h"

#include <stdio.h>
#include <string.h>

static void *alloc(Backend *b, BackendStream *s, size_t bytes)
{
  void *p = NULL;
  cudaError_t status = cudaMallocAsync(&p, bytes ? bytes : 1, s->stream);

  if (status == cudaSuccess)
    return p;
  cudaGetLastError(); /* out of memory is the caller's to report */
  if (status != cudaErrorMemoryAllocation)
    cuda_check(b, "alloc", status);
  return NULL;
}

static void dealloc(Backend *b, BackendStream *s, void *p, size_t bytes)
{
  (void)bytes;
  if (p)
    cuda_check(b, "free", cudaFreeAsync(p, s->stream));
}

/* By way of pinned memory: a copy from pageable memory may hold the host until the stream comes to it. */
static void upload(Backend *b, BackendStream *s, void *to, const void *from, size_t bytes)
{
  CudaBackend *c = cuda_of(b);
  const size_t most = STAGE_BYTES;

  for (size_t at = 0; at < bytes; at += most) {
    size_t n = bytes - at < most ? bytes - at : most;
    char *memory = c->stages[c->next_stage].memory;
    cudaEvent_t read = c->stages[c->next_stage].read;
    c->next_stage = (c->next_stage + 1) % STAGES;
    cuda_wait(b, "upload", read);
    memcpy(memory, (const char *)from + at, n);
    cuda_check(b, "upload", cudaMemcpyAsync((char *)to + at, memory, n, cudaMemcpyHostToDevice, s->stream));
    cuda_check(b, "upload", cudaEventRecord(read, s->stream));
  }
}

/* Zeros where the device has failed: whoever counts with them comes to ask why. */
static void download(Backend *b, BackendStream *s, void *to, const void *from, size_t bytes)
{
  cuda_wait_stream(b, "download", s);
  if (b->failed(b)) {
    memset(to, 0, bytes);
    return;
  }
  cuda_check(b, "download", cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, s->stream));
  cuda_check(b, "download", cudaStreamSynchronize(s->stream));
}

static void copy(Backend *b, BackendStream *s, void *to, const void *from, size_t bytes)
{
  cuda_check(b, "copy", cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, s->stream));
}

static void copy_rows(Backend *b, BackendStream *s, ExecRows to, ExecRows from, size_t bytes, size_t n)
{
  cuda_check(b, "copy of rows", cudaMemcpy2DAsync(to.first, to.pitch, from.first, from.pitch, bytes, n,
                                                  cudaMemcpyDeviceToDevice, s->stream));
}

static void zero(Backend *b, BackendStream *s, void *p, size_t bytes)
{
  cuda_check(b, "zero", cudaMemsetAsync(p, 0, bytes, s->stream));
}

/* Pinned, so that copies run beside the host. */
static void *host_alloc(Backend *b, size_t bytes)
{
  void *p = NULL;

  (void)b;
  if (cudaMallocHost(&p, bytes ? bytes : 1) == cudaSuccess)
    return p;
  cudaGetLastError(); /* the caller's to report */
  return NULL;
}

static void host_free(Backend *b, void *p)
{
  cuda_check(b, "free of host memory", cudaFreeHost(p));
}

static void host_down(Backend *b, BackendStream *s, void *host, const void *device, size_t bytes)
{
  cuda_check(b, "copy to the host", cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, s->stream));
}

static void host_up(Backend *b, BackendStream *s, void *device, const void *host, size_t bytes)
{
  cuda_check(b, "copy from the host", cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, s->stream));
}

/* The largest value since it was set to 0, which the present one may exceed. */
static uint64_t pool_most(CudaBackend *c, cudaMemPoolAttr most, cudaMemPoolAttr now)
{
  uint64_t high = 0, current = 0;

  cuda_check(&c->base, "pool", cudaMemPoolGetAttribute(c->pool, most, &high));
  cuda_check(&c->base, "pool", cudaMemPoolGetAttribute(c->pool, now, &current));
  return high > current ? high : current;
}

static void pool_set(CudaBackend *c, cudaMemPoolAttr what, uint64_t value)
{
  cuda_check(&c->base, "pool", cudaMemPoolSetAttribute(c->pool, what, &value));
}

/* The device's bytes as nvidia-smi counts them. */
static BackendMemory device_memory(Backend *b, int restart)
{
  CudaBackend *c = cuda_of(b);
  size_t left = 0, total = 0;
  BackendMemory m;

  cuda_check(b, "memory", cudaMemGetInfo(&left, &total));
  m.device_bytes = total - left;
  m.used_bytes = pool_most(c, cudaMemPoolAttrUsedMemHigh, cudaMemPoolAttrUsedMemCurrent);
  m.reserved_bytes = pool_most(c, cudaMemPoolAttrReservedMemHigh, cudaMemPoolAttrReservedMemCurrent);
  if (restart) {
    pool_set(c, cudaMemPoolAttrUsedMemHigh, 0);
    pool_set(c, cudaMemPoolAttrReservedMemHigh, 0);
  }
  return m;
}

int cuda_open_memory(CudaBackend *c, char *error)
{
  cudaError_t status = cudaDeviceGetDefaultMemPool(&c->pool, c->device);

  if (status == cudaSuccess) {
    pool_set(c, cudaMemPoolAttrReleaseThreshold, UINT64_MAX);
    pool_set(c, cudaMemPoolReuseAllowInternalDependencies, 0); /* or a receive could come to wait for what computes */
  }
  for (int i = 0; i < STAGES && status == cudaSuccess; i++) {
    status = cudaMallocHost((void **)&c->stages[i].memory, STAGE_BYTES);
    if (status == cudaSuccess)
      status = cudaEventCreateWithFlags(&c->stages[i].read, cudaEventDisableTiming);
  }
  if (status == cudaSuccess && !c->failure[0])
    return 0;
  snprintf(error, EXEC_ERROR_SIZE, "%s", c->failure[0] ? c->failure : cudaGetErrorString(status));
  return -1;
}

void cuda_close_memory(CudaBackend *c)
{
  for (int i = 0; i < STAGES && c->stages[i].read; i++) {
    cudaEventDestroy(c->stages[i].read);
    cudaFreeHost(c->stages[i].memory);
  }
}

void cuda_fill_memory(Backend *b)
{
  b->alloc = alloc;
  b->dealloc = dealloc;
  b->upload = upload;
  b->download = download;
  b->copy = copy;
  b->copy_rows = copy_rows;
  b->host_alloc = host_alloc;
  b->host_free = host_free;
  b->host_down = host_down;
  b->host_up = host_up;
  b->zero = zero;
  b->device_memory = device_memory;
}
