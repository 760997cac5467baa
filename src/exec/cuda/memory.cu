/* Memory from the device's stream-ordered pool. */
#include "exec/cuda/internal.h"

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

/* From pageable memory: returns when `from` has been read. */
static void upload(Backend *b, BackendStream *s, void *to, const void *from, size_t bytes)
{
  cuda_check(b, "upload", cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, s->stream));
}

static void download(Backend *b, BackendStream *s, void *to, const void *from, size_t bytes)
{
  cuda_check(b, "download", cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, s->stream));
  cuda_check(b, "download", cudaStreamSynchronize(s->stream));
}

static void copy(Backend *b, BackendStream *s, void *to, const void *from, size_t bytes)
{
  cuda_check(b, "copy", cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, s->stream));
}

static void copy_rows(Backend *b, BackendStream *s, void *to, size_t to_pitch, const void *from, size_t from_pitch,
                      size_t bytes, size_t rows)
{
  cuda_check(b, "copy of rows",
             cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, bytes, rows, cudaMemcpyDeviceToDevice, s->stream));
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

/* What the whole device has in use, as nvidia-smi counts it. */
static size_t device_bytes(Backend *b)
{
  size_t left = 0, total = 0;

  (void)b;
  return cudaMemGetInfo(&left, &total) == cudaSuccess ? total - left : 0;
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
  b->host_up = upload;
  b->zero = zero;
  b->device_bytes = device_bytes;
}
