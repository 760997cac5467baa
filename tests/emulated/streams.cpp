/*
 * Streams, events, and the order in which what was enqueued is executed.
 */
#include "device.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

struct CUstream_st {
  std::deque<emulated::Operation> queue;
};

struct CUevent_st {
  std::shared_ptr<emulated::Marker> last; /* NULL: never recorded */
};

namespace emulated {

namespace {

enum { ASKED = 32 }; /* operations that run while the host asks once for an event */
enum Order { IN_ORDER, RANDOM, LAZY, OTHERS_FIRST };

struct Device {
  std::recursive_mutex lock;
  int depth;
  std::vector<cudaStream_t> streams;
  CUstream_st legacy; /* stream 0 */
  uint64_t number, random;
  Order order;
  int current;
  cudaError_t last;
  const char *running;
  bool eager;

  Device() : depth(0), number(0), order(IN_ORDER), current(0), last(cudaSuccess), running("host"), eager(false)
  {
    static const char *const names[] = { "in-order", "random", "lazy", "others-first" };
    const char *wanted = getenv("EMULATED_ORDER");
    int found = -1;
    for (int i = 0; i < 4; i++)
      if (!wanted || !*wanted || strcmp(wanted, names[i]) == 0)
        found = found < 0 ? i : found;
    if (found < 0) {
      fprintf(stderr, "emulated: EMULATED_ORDER: %s: expected in-order, random, lazy or others-first\n", wanted);
      exit(2);
    }
    order = (Order)found;
    const char *loading = getenv("CUDA_MODULE_LOADING");
    eager = loading && strcmp(loading, "EAGER") == 0;
    random = (uint64_t)setting("EMULATED_SEED", 1) * 0x9e3779b97f4a7c15u + 1;
    streams.push_back(&legacy);
  }
};

Device &device()
{
  static Device *d = new Device(); /* outlives what static destructors call */
  return *d;
}

CUstream_st *queue_of(cudaStream_t s)
{
  return s ? s : &device().legacy;
}

/* true if something has been done. */
bool advance(cudaStream_t s)
{
  Device &d = device();

  if (s->queue.empty())
    return false;
  Operation &operation = s->queue.front();
  const char *before = d.running;
  d.running = operation.name;
  bool done = operation.step();
  if (done) {
    check_red_zones();
    s->queue.pop_front();
  }
  d.running = before;
  return done;
}

/* The stream on which the head of `s` waits, in the end. */
cudaStream_t behind(cudaStream_t s)
{
  for (size_t i = 0; i < device().streams.size() && !s->queue.empty(); i++) {
    const std::shared_ptr<Marker> &needs = s->queue.front().needs;
    if (!needs || needs->done)
      break;
    s = needs->stream;
  }
  return s;
}

bool earlier(cudaStream_t a, cudaStream_t b)
{
  return a->queue.front().number < b->queue.front().number;
}

/* Streams that have work, in the order in which the policy tries them. */
std::vector<cudaStream_t> candidates(cudaStream_t wanted)
{
  Device &d = device();
  std::vector<cudaStream_t> list;

  for (cudaStream_t s : d.streams)
    if (!s->queue.empty())
      list.push_back(s);
  std::sort(list.begin(), list.end(), earlier);
  if (d.order == RANDOM || d.order == OTHERS_FIRST)
    for (size_t i = list.size(); i > 1; i--)
      std::swap(list[i - 1], list[draw(i)]);
  if (d.order == LAZY && wanted)
    list.insert(list.begin(), behind(wanted));
  if (d.order == OTHERS_FIRST && wanted)
    std::stable_partition(list.begin(), list.end(), [=](cudaStream_t s) { return s != wanted; });
  return list;
}

bool advance_any(cudaStream_t wanted)
{
  for (cudaStream_t s : candidates(wanted))
    if (advance(s))
      return true;
  return false;
}

/* What runs meanwhile, before anybody waits. */
void run_ahead()
{
  Device &d = device();

  if (d.depth > 1)
    return; /* a host function's */
  if (d.order == IN_ORDER)
    while (advance_any(NULL))
      continue;
  for (uint64_t n = d.order == RANDOM ? draw(4) : 0; n > 0 && advance_any(NULL); n--)
    continue;
}

[[noreturn]] void deadlock()
{
  std::string heads;
  for (cudaStream_t s : device().streams)
    if (!s->queue.empty())
      heads += std::string(heads.empty() ? "" : ", ") + s->queue.front().name;
  fail("deadlock: nothing has moved for %ld s; heads of streams: %s", setting("EMULATED_TIMEOUT_S", 60), heads.c_str());
}

} // namespace

void fail(const char *format, ...)
{
  va_list list;

  va_start(list, format);
  fprintf(stderr, "emulated: %s: ", running());
  vfprintf(stderr, format, list);
  fputc('\n', stderr);
  abort();
}

cudaError_t noted(cudaError_t status)
{
  if (status != cudaSuccess)
    device().last = status;
  return status;
}

Api::Api()
{
  device().lock.lock();
  if (device().depth++ == 0)
    guard(false);
}

Api::~Api()
{
  if (--device().depth == 0)
    guard(true);
  device().lock.unlock();
}

long setting(const char *name, long otherwise)
{
  const char *text = getenv(name);
  return text && *text ? strtol(text, NULL, 10) : otherwise;
}

uint64_t draw(uint64_t below)
{
  uint64_t &state = device().random;
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (state >> 11) % below;
}

double now_s(void)
{
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

bool eager(void)
{
  return device().eager;
}

const char *running(void)
{
  return device().running;
}

bool idle(void)
{
  for (cudaStream_t s : device().streams)
    if (!s->queue.empty())
      return false;
  return true;
}

void enqueue(cudaStream_t s, const char *name, const std::function<bool()> &step)
{
  queue_of(s)->queue.push_back({ name, step, NULL, device().number++ });
  run_ahead();
}

void enqueue_done(cudaStream_t s, const char *name, const std::function<void()> &step)
{
  enqueue(s, name, [step] {
    step();
    return true;
  });
}

void execute_until(cudaStream_t s, const std::function<bool()> &done)
{
  const double limit_s = setting("EMULATED_TIMEOUT_S", 60);
  double since_s = now_s();

  while (!done()) {
    if (advance_any(s) || network_poll(0))
      since_s = now_s();
    else if (!network_poll(1) && now_s() - since_s > limit_s)
      deadlock();
  }
}

void synchronize(cudaStream_t s)
{
  if (s)
    execute_until(s, [s] { return s->queue.empty(); });
  else
    execute_until(NULL, idle);
  synchronized(s);
}

} // namespace emulated

using namespace emulated;

/* ---- device ---- */

cudaError_t cudaGetDeviceCount(int *n)
{
  *n = (int)setting("EMULATED_DEVICES", 8);
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int i)
{
  Api api;
  if (i < 0 || i >= setting("EMULATED_DEVICES", 8))
    return noted(cudaErrorInvalidDevice);
  device().current = i;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int *i)
{
  *i = device().current;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int)
{
  *p = {};
  snprintf(p->name, sizeof p->name, "emulated");
  p->totalGlobalMem = (size_t)setting("EMULATED_MEMORY_MB", 4096) << 20;
  p->sharedMemPerBlock = 48 << 10;
  p->sharedMemPerBlockOptin = 227 << 10;
  p->multiProcessorCount = 4;
  p->l2CacheSize = 50 << 20;
  p->major = 9;
  p->warpSize = 32;
  p->maxThreadsPerBlock = 1024;
  p->maxThreadsPerMultiProcessor = 2048;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int)
{
  cudaDeviceProp p;

  cudaGetDeviceProperties(&p, 0);
  *value = attribute == cudaDevAttrMultiProcessorCount           ? p.multiProcessorCount
           : attribute == cudaDevAttrMaxSharedMemoryPerBlock      ? (int)p.sharedMemPerBlock
           : attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin ? (int)p.sharedMemPerBlockOptin
           : attribute == cudaDevAttrComputeCapabilityMajor       ? p.major
                                                                  : p.minor;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
  Api api;
  synchronize(NULL);
  return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
  Api api;
  cudaError_t last = device().last;
  device().last = cudaSuccess;
  return last;
}

cudaError_t cudaPeekAtLastError(void)
{
  return device().last;
}

static const struct {
  cudaError_t status;
  const char *name, *text;
} errors[] = {
  { cudaSuccess, "cudaSuccess", "no error" },
  { cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument" },
  { cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory" },
  { cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument" },
  { cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected" },
  { cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal" },
  { cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle" },
  { cudaErrorNotReady, "cudaErrorNotReady", "device not ready" },
  { cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported" },
};

const char *cudaGetErrorString(cudaError_t status)
{
  for (const auto &e : errors)
    if (e.status == status)
      return e.text;
  return "unknown error";
}

const char *cudaGetErrorName(cudaError_t status)
{
  for (const auto &e : errors)
    if (e.status == status)
      return e.name;
  return "cudaErrorUnknown";
}

/* ---- streams ---- */

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned flags, int)
{
  Api api;

  if (flags != cudaStreamNonBlocking) /* one that waits for stream 0 is not emulated */
    return noted(cudaErrorNotSupported);
  *s = new CUstream_st();
  device().streams.push_back(*s);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags)
{
  return cudaStreamCreateWithPriority(s, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *s)
{
  return cudaStreamCreateWithPriority(s, cudaStreamDefault, 0);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
  Api api;
  std::vector<cudaStream_t> &all = device().streams;

  if (!s || std::find(all.begin(), all.end(), s) == all.end())
    return noted(cudaErrorInvalidResourceHandle);
  synchronize(s);
  all.erase(std::find(all.begin(), all.end(), s));
  delete s;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
  Api api;
  synchronize(queue_of(s));
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t s)
{
  Api api;
  advance_any(queue_of(s));
  return queue_of(s)->queue.empty() ? cudaSuccess : noted(cudaErrorNotReady);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned)
{
  Api api;
  std::shared_ptr<Marker> marker = e->last;

  if (!marker)
    return cudaSuccess;
  queue_of(s)->queue.push_back({ "wait", [marker] { return marker->done; }, marker, device().number++ });
  run_ahead();
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t f, void *data)
{
  Api api;
  enqueue_done(s, "host function", [f, data] { f(data); });
  return cudaSuccess;
}

/* ---- events ---- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned)
{
  *e = new CUevent_st();
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *e)
{
  return cudaEventCreateWithFlags(e, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
  delete e;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
  Api api;
  auto marker = std::make_shared<Marker>(Marker { queue_of(s), false, 0 });

  e->last = marker;
  enqueue_done(s, "event", [marker] {
    marker->done = true;
    marker->s = now_s();
  });
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t e)
{
  Api api;
  std::shared_ptr<Marker> marker = e->last;

  if (!marker || marker->done)
    return cudaSuccess;
  for (long n = setting("EMULATED_DELAY_MS", 0) ? 1 : ASKED; n > 0 && !marker->done && advance_any(marker->stream); n--)
    continue;
  if (!marker->done)
    network_poll(0);
  return marker->done ? cudaSuccess : noted(cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
  Api api;
  std::shared_ptr<Marker> marker = e->last;

  if (marker)
    execute_until(marker->stream, [marker] { return marker->done; });
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t until)
{
  Api api;

  if (!from->last || !until->last)
    return noted(cudaErrorInvalidResourceHandle);
  if (!from->last->done || !until->last->done)
    return noted(cudaErrorNotReady);
  *ms = (float)((until->last->s - from->last->s) * 1e3);
  return cudaSuccess;
}
