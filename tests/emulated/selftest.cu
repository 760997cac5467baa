/*
 * That the emulated device finds what it is there to find: selftest [NAME]. Each
 * case runs in a process of its own, or in two that are ranks; it must end with its
 * line on stderr, or come back with the status, that is expected of it. Cases that
 * are right stand beside those that are wrong.
 */
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <nccl.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 64, N = 1000 };
enum { RIGHT, WRONG }; /* what a case returns: how the values came out */

static cudaStream_t stream_new(void)
{
  cudaStream_t s;
  cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
  return s;
}

template <typename T> static T *device_new(size_t n, cudaStream_t s)
{
  T *p = NULL;
  cudaMallocAsync(&p, n * sizeof *p, s);
  return p;
}

template <typename T> static T host_of(const T *p, cudaStream_t s)
{
  T x;
  cudaMemcpyAsync(&x, p, sizeof x, cudaMemcpyDeviceToHost, s);
  cudaStreamSynchronize(s);
  return x;
}

/* ---- streams ---- */

__global__ void set(float *x, float value) { *x = value; }
__global__ void add_one(const float *x, float *y) { *y = *x + 1; }

static int waits(bool wait)
{
  cudaStream_t a = stream_new(), b = stream_new();
  float *x = device_new<float>(1, a), *y = device_new<float>(1, b);
  cudaEvent_t done;

  cudaEventCreate(&done);
  set<<<1, 1, 0, a>>>(x, 1);
  cudaEventRecord(done, a);
  if (wait)
    cudaStreamWaitEvent(b, done, 0);
  add_one<<<1, 1, 0, b>>>(x, y);
  return host_of(y, b) == 2 ? RIGHT : WRONG;
}

static int event_waited(void) { return waits(true); }
static int event_dropped(void) { return waits(false); }

static int pinned_read(bool wait)
{
  cudaStream_t s = stream_new();
  float *x = device_new<float>(1, s), *host;

  cudaMallocHost(&host, sizeof *host);
  set<<<1, 1, 0, s>>>(x, 3);
  cudaMemcpyAsync(host, x, sizeof *x, cudaMemcpyDeviceToHost, s);
  if (wait)
    cudaStreamSynchronize(s);
  return *host == 3 ? RIGHT : WRONG;
}

static int copy_awaited(void) { return pinned_read(true); }
static int copy_not_awaited(void) { return pinned_read(false); }

/* Pageable memory may change behind the call. */
static int pageable(void)
{
  cudaStream_t s = stream_new();
  float *x = device_new<float>(1, s), value = 7;

  cudaMemcpyAsync(x, &value, sizeof value, cudaMemcpyHostToDevice, s);
  value = 8;
  return host_of(x, s) == 7 ? RIGHT : WRONG;
}

/* ---- memory ---- */

__global__ void write_at(float *x, int i) { x[i] = 1; }

static int write_behind(void)
{
  cudaStream_t s = stream_new();
  float *x = device_new<float>(N, s);

  write_at<<<1, 1, 0, s>>>(x, N);
  cudaStreamSynchronize(s);
  return RIGHT;
}

static int write_before(void)
{
  cudaStream_t s = stream_new();
  float *x = device_new<float>(N, s);

  write_at<<<1, 1, 0, s>>>(x, -1);
  cudaStreamSynchronize(s);
  return RIGHT;
}

static int write_freed(void)
{
  cudaStream_t s = stream_new();
  float *x = device_new<float>(N, s);

  cudaFreeAsync(x, s);
  write_at<<<1, 1, 0, s>>>(x, 5);
  x = device_new<float>(N, s);
  cudaStreamSynchronize(s);
  return device_new<float>(N, s) ? RIGHT : WRONG;
}

static int read_fresh(void)
{
  cudaStream_t s = stream_new();
  float *x = device_new<float>(1, s), *y = device_new<float>(1, s);

  add_one<<<1, 1, 0, s>>>(x, y);
  float read = host_of(y, s);
  return read == read ? RIGHT : WRONG;
}

static int free_twice(void)
{
  cudaStream_t s = stream_new();
  float *x = device_new<float>(N, s);

  cudaFreeAsync(x, s);
  return cudaFreeAsync(x, s) == cudaSuccess ? RIGHT : WRONG;
}

static int host_access(void)
{
  cudaStream_t s = stream_new();
  volatile float *x = device_new<float>(N, s);

  return x[0] == 0 ? RIGHT : WRONG;
}

__global__ void load_four(const float *x, int from, float *y)
{
  *(float4 *)y = *(const float4 *)(x + from);
}

static int four_at(int from)
{
  cudaStream_t s = stream_new();
  float *x = device_new<float>(N, s), *y = device_new<float>(4, s);

  cudaMemsetAsync(x, 0, N * sizeof *x, s);
  load_four<<<1, 1, 0, s>>>(x, from, y);
  return host_of(y, s) == 0 ? RIGHT : WRONG;
}

static int load_aligned(void) { return four_at(4); }
static int load_misaligned(void) { return four_at(3); }

/* ---- blocks and warps ---- */

template <bool BARRIER> __global__ void reverse(float *x)
{
  __shared__ float all[THREADS];

  all[threadIdx.x] = threadIdx.x;
  if (BARRIER)
    __syncthreads();
  x[threadIdx.x] = all[THREADS - 1 - threadIdx.x];
}

template <bool BARRIER> static int reversed(void)
{
  cudaStream_t s = stream_new();
  float *x = device_new<float>(THREADS, s), y[THREADS];

  for (int again = 0; again < 2; again++)
    reverse<BARRIER><<<4, THREADS, 0, s>>>(x);
  cudaMemcpyAsync(y, x, sizeof y, cudaMemcpyDeviceToHost, s);
  for (int i = 0; i < THREADS; i++)
    if (y[i] != THREADS - 1 - i)
      return WRONG;
  return RIGHT;
}

/* The sum over warps, twice; the second is written where others may still read the first. */
template <bool BARRIER> __global__ void two_sums(float *x)
{
  __shared__ float warps[THREADS / 32];
  float sums = 0;

  for (int again = 1; again <= 2; again++) {
    float sum = __reduce_add_sync(~0u, again);
    if (BARRIER)
      __syncthreads();
    if (threadIdx.x % 32 == 0)
      warps[threadIdx.x / 32] = sum;
    __syncthreads();
    sums += warps[0] + warps[1];
  }
  x[blockIdx.x * THREADS + threadIdx.x] = sums;
}

template <bool BARRIER> static int summed(void)
{
  enum { BLOCKS = 16 };
  cudaStream_t s = stream_new();
  float *x = device_new<float>(BLOCKS * THREADS, s), y[BLOCKS * THREADS];

  two_sums<BARRIER><<<BLOCKS, THREADS, 0, s>>>(x);
  cudaMemcpyAsync(y, x, sizeof y, cudaMemcpyDeviceToHost, s);
  for (float sum : y)
    if (sum != 3 * THREADS)
      return WRONG;
  return RIGHT;
}

__global__ void part_waits(void)
{
  if (threadIdx.x < THREADS / 2)
    __syncthreads();
}

__global__ void two_barriers(void)
{
  if (threadIdx.x < THREADS / 2)
    __syncthreads();
  else
    __syncthreads();
}

__global__ void sum_of_some(float *x)
{
  if (threadIdx.x % 32 != 5)
    *x = __shfl_xor_sync(~0u, *x, 1);
}

__global__ void sum_of_all(float *x)
{
  float sum = threadIdx.x % 32;
  for (int i = 16; i > 0; i /= 2)
    sum += __shfl_xor_sync(~0u, sum, i);
  x[threadIdx.x] = sum + __shfl_sync(~0u, sum, 3) + __shfl_down_sync(~0u, sum, 1) + __popc(__ballot_sync(~0u, 1));
}

__global__ void outside(int i)
{
  __shared__ float x[4];
  x[i] = 1;
}

__global__ void outside_dynamic(int i)
{
  extern __shared__ float x[];
  x[i] = 1;
}

template <typename F> static int run(F launch)
{
  cudaStream_t s = stream_new();

  launch(s);
  cudaStreamSynchronize(s);
  return RIGHT;
}

static int barrier_of_some(void) { return run([](cudaStream_t s) { part_waits<<<1, THREADS, 0, s>>>(); }); }
static int barriers_apart(void) { return run([](cudaStream_t s) { two_barriers<<<1, THREADS, 0, s>>>(); }); }
static int shared_outside(void) { return run([](cudaStream_t s) { outside<<<1, 1, 0, s>>>(4); }); }
static int dynamic_outside(void) { return run([](cudaStream_t s) { outside_dynamic<<<1, 1, 16, s>>>(4); }); }
static int shuffle_of_some(void)
{
  return run([](cudaStream_t s) { sum_of_some<<<1, THREADS, 0, s>>>(device_new<float>(1, s)); });
}

static int shuffle_of_all(void)
{
  cudaStream_t s = stream_new();
  float *x = device_new<float>(THREADS, s);

  sum_of_all<<<1, THREADS, 0, s>>>(x);
  return host_of(x + 40, s) == 3 * 496 + 32 ? RIGHT : WRONG;
}

static int empty_grid(void)
{
  write_at<<<0, 1>>>(NULL, 0);
  return cudaGetLastError() == cudaErrorInvalidConfiguration ? WRONG : RIGHT;
}

/* ---- libraries ---- */

static int product_at(int offset)
{
  cudaStream_t s = stream_new();
  float *x = device_new<float>(N, s), alpha = 1, beta = 0;
  cublasLtHandle_t blas;
  cublasLtMatmulDesc_t d;
  cublasLtMatrixLayout_t l;

  cudaMemsetAsync(x, 0, N * sizeof *x, s);
  cublasLtCreate(&blas);
  cublasLtMatmulDescCreate(&d, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  cublasLtMatrixLayoutCreate(&l, CUDA_R_32F, 8, 8, 8);
  return cublasLtMatmul(blas, d, &alpha, x + offset, l, x, l, &beta, x + 100, l, x + 100, l, NULL, NULL, 0, s) ==
                 CUBLAS_STATUS_SUCCESS
             ? RIGHT
             : WRONG;
}

static int product_aligned(void) { return product_at(4); }
static int product_misaligned(void) { return product_at(1); }

static ncclComm_t world(void)
{
  ncclUniqueId id;
  ncclComm_t comm = NULL;

  ncclGetUniqueId(&id);
  ncclCommInitRank(&comm, 2, id, atoi(getenv("RANK")));
  return comm;
}

static int rank(void) { return atoi(getenv("RANK")); }

static int sum_of(size_t n, ncclDataType_t type)
{
  cudaStream_t s = stream_new();
  float *x = device_new<float>(16, s);

  cudaMemsetAsync(x, 0, 16 * sizeof *x, s);
  set<<<1, 1, 0, s>>>(x, rank() + 1);
  ncclAllReduce(x, x, n, type, ncclSum, world(), s);
  return host_of(x, s) == 3 ? RIGHT : WRONG;
}

static int sums_agree(void) { return sum_of(8, ncclFloat32); }
static int lengths_differ(void) { return sum_of(8 + rank(), ncclFloat32); }
static int types_differ(void) { return sum_of(8, rank() ? ncclFloat32 : ncclInt32); }

static int kinds_differ(void)
{
  cudaStream_t s = stream_new();
  float *x = device_new<float>(32, s);
  ncclComm_t comm = world();

  ncclGroupStart(); /* connects them */
  ncclSend(x, 8, ncclFloat32, 1 - rank(), comm, s);
  ncclRecv(x + 8, 8, ncclFloat32, 1 - rank(), comm, s);
  ncclGroupEnd();
  if (rank())
    ncclAllReduce(x, x, 8, ncclFloat32, ncclSum, comm, s);
  else
    ncclSend(x, 8, ncclFloat32, 1, comm, s);
  cudaStreamSynchronize(s);
  return RIGHT;
}

/* Each sends before it receives, not in one group. */
static int sends_cross(bool grouped)
{
  cudaStream_t s = stream_new();
  float *x = device_new<float>(2, s);
  ncclComm_t comm = world();

  set<<<1, 1, 0, s>>>(x, rank());
  if (grouped)
    ncclGroupStart();
  ncclSend(x, 1, ncclFloat32, 1 - rank(), comm, s);
  ncclRecv(x + 1, 1, ncclFloat32, 1 - rank(), comm, s);
  if (grouped)
    ncclGroupEnd();
  return host_of(x + 1, s) == 1 - rank() ? RIGHT : WRONG;
}

static int sends_grouped(void) { return sends_cross(true); }
static int sends_deadlock(void) { return sends_cross(false); }

static int rank_dies(void)
{
  cudaStream_t s = stream_new();
  float *x = device_new<float>(8, s);
  ncclComm_t comm = world();
  ncclResult_t status = ncclSuccess;

  if (rank())
    _exit(WRONG);
  cudaMemsetAsync(x, 0, 8 * sizeof *x, s);
  ncclAllReduce(x, x, 8, ncclFloat32, ncclSum, comm, s);
  cudaStreamSynchronize(s);
  ncclCommGetAsyncError(comm, &status);
  return status == ncclRemoteError ? WRONG : RIGHT;
}

/* ---- 16-bit numbers: by search among all of them, ties to the even ---- */

template <typename T> static double value_of(uint16_t bits)
{
  T number;
  number.bits = bits;
  return (float)number;
}

template <typename T> static int rounds_as(uint16_t infinity)
{
  uint32_t state = 1;

  for (int i = 0; i < 2000000; i++) {
    state = state * 1664525 + 1013904223;
    uint16_t low = (uint16_t)(state >> 16) & 0x7fff, between = (uint16_t)(state & 3);
    if (low >= infinity)
      continue;
    uint16_t high = (uint16_t)(low + 1);
    double below = value_of<T>(low);
    double above = high < infinity ? value_of<T>(high) : 2 * below - value_of<T>((uint16_t)(low - 1));
    float x = (float)(below + (above - below) * between / 4);
    uint16_t expected = between < 2 ? low : between > 2 ? high : low % 2 ? high : low;
    if (T(x).bits != expected || T(-x).bits != (expected | 0x8000))
      return WRONG;
  }
  return RIGHT;
}

static int half_rounds(void) { return rounds_as<__half>(0x7c00); }
static int bfloat_rounds(void) { return rounds_as<__nv_bfloat16>(0x7f80); }

/* ---- the table ---- */

struct Case {
  const char *name;
  int (*run)(void);
  int ranks, status;
  const char *line;      /* NULL: ends by `status` */
  const char *sanitized; /* what a sanitizer, or another compiler's code, says instead */
  const char *setting;
};

static const Case cases[] = {
  { "an event is waited for", event_waited, 1, RIGHT, NULL, NULL, NULL },
  { "a dropped wait", event_dropped, 1, WRONG, NULL, NULL, "EMULATED_ORDER=lazy" },
  { "a dropped wait, others first", event_dropped, 1, RIGHT, NULL, NULL, "EMULATED_ORDER=others-first" },
  { "a copy to the host is waited for", copy_awaited, 1, RIGHT, NULL, NULL, NULL },
  { "a copy to the host is not waited for", copy_not_awaited, 1, WRONG, NULL, NULL, "EMULATED_ORDER=lazy" },
  { "a copy from pageable memory", pageable, 1, RIGHT, NULL, NULL, "EMULATED_ORDER=lazy" },
  { "a write behind an allocation", write_behind, 1, 0, "written behind", "use-after-poison", NULL },
  { "a write before an allocation", write_before, 1, 0, "written before", "use-after-poison", NULL },
  { "a write to freed memory", write_freed, 1, 0, "written after it was freed", "use-after-poison", NULL },
  { "a read of fresh memory", read_fresh, 1, WRONG, NULL, NULL, NULL },
  { "memory freed twice", free_twice, 1, WRONG, NULL, NULL, NULL },
  { "the host reads the device", host_access, 1, 0, "an address of the device", "SEGV", "EMULATED_GUARD=1" },
  { "16 bytes, aligned", load_aligned, 1, RIGHT, NULL, NULL, NULL },
  { "16 bytes, misaligned", load_misaligned, 1, 0, "misaligned", "fault at", NULL },
  { "a barrier", reversed<true>, 1, RIGHT, NULL, NULL, NULL },
  { "a skipped barrier", reversed<false>, 1, WRONG, NULL, NULL, NULL },
  { "a barrier before memory is written again", summed<true>, 1, RIGHT, NULL, NULL, NULL },
  { "none before memory is written again", summed<false>, 1, WRONG, NULL, NULL, NULL },
  { "a barrier that some leave out", barrier_of_some, 1, 0, "divergent barrier", NULL, NULL },
  { "two barriers for one", barriers_apart, 1, 0, "divergent barrier", NULL, NULL },
  { "shuffles and votes", shuffle_of_all, 1, RIGHT, NULL, NULL, NULL },
  { "a shuffle that a lane leaves out", shuffle_of_some, 1, 0, "do not come", NULL, NULL },
  { "outside of shared memory", shared_outside, 1, 0, "outside of an array", "out of bounds", NULL },
  { "outside of dynamic shared memory", dynamic_outside, 1, 0, "outside of the block's 16 bytes", NULL, NULL },
  { "a grid of no blocks", empty_grid, 1, WRONG, NULL, NULL, NULL },
  { "a product", product_aligned, 1, RIGHT, NULL, NULL, NULL },
  { "a misaligned product", product_misaligned, 1, WRONG, NULL, NULL, NULL },
  { "collectives agree", sums_agree, 2, RIGHT, NULL, NULL, NULL },
  { "collectives of other lengths", lengths_differ, 2, 0, "ranks disagree", NULL, NULL },
  { "collectives of other types", types_differ, 2, 0, "ranks disagree", NULL, NULL },
  { "a collective against a send", kinds_differ, 2, 0, "ranks disagree", NULL, NULL },
  { "sends in a group", sends_grouped, 2, RIGHT, NULL, NULL, NULL },
  { "sends that wait for one another", sends_deadlock, 2, 0, "deadlock", NULL, "EMULATED_TIMEOUT_S=1" },
  { "a rank that is gone", rank_dies, 2, WRONG, NULL, NULL, NULL },
  { "fp16 rounds to nearest even", half_rounds, 1, RIGHT, NULL, NULL, NULL },
  { "bf16 rounds to nearest even", bfloat_rounds, 1, RIGHT, NULL, NULL, NULL },
};

static pid_t start_rank(const Case &c, int of_rank, int to, const char *address)
{
  char number[2] = { (char)('0' + of_rank), 0 };
  pid_t pid = fork();

  if (pid != 0)
    return pid;
  dup2(to, 2);
  setenv("RANK", number, 1);
  setenv("CUDA_MODULE_LOADING", "EAGER", 1); /* loading a kernel late waits for all that runs */
  setenv("NCCL_COMM_ID", address, 1);
  if (c.setting)
    putenv((char *)c.setting);
  _exit(c.run());
}

/* All ranks end by the status; or one of them, at least, with the line. */
static bool passes(const Case &c, const char *address, char *text, size_t room)
{
  int ends[2], status, right = 0;
  size_t n = 0;
  ssize_t got;
  pid_t pids[2];

  if (pipe(ends) != 0)
    return false;
  for (int i = 0; i < c.ranks; i++)
    pids[i] = start_rank(c, i, ends[1], address);
  close(ends[1]);
  while (n < room - 1 && (got = read(ends[0], text + n, room - 1 - n)) > 0)
    n += got;
  text[n] = 0;
  close(ends[0]);
  for (int i = 0; i < c.ranks; i++) {
    waitpid(pids[i], &status, 0);
    right += WIFEXITED(status) && WEXITSTATUS(status) == c.status;
  }
  if (!c.line)
    return right == c.ranks;
  return right < c.ranks && (strstr(text, c.line) || (c.sanitized && strstr(text, c.sanitized)));
}

int main(int argc, char **argv)
{
  char text[20000], address[32];
  int wrong = 0;

  for (const Case &c : cases) {
    if (argc > 1 && !strstr(c.name, argv[1]))
      continue;
    snprintf(address, sizeof address, "127.0.0.1:%d", 20000 + (int)(getpid() * 37 + (&c - cases)) % 10000);
    bool passed = passes(c, address, text, sizeof text);
    printf("%s %s\n", passed ? "ok" : "not ok", c.name);
    if (!passed)
      printf("%s", text);
    fflush(stdout);
    wrong += !passed;
  }
  return wrong > 0;
}
