/*
 * Blocks one after another, their threads as fibers: a thread runs until it waits
 * for its warp or its block. Threads start and go on in an order that differs from
 * block to block, so that what lacks a barrier reads poison, or what is overwritten.
 */
#include "device.h"
#include "fiber.h"
#include "warp.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace emulated {

Place place;

namespace {

enum { SHARED_MAX = 227 << 10, SHARED_PLAIN = 48 << 10, ZONE = 64 };
enum State { READY, AT_BARRIER, AT_WARP, GONE };

struct Thread {
  uint3 index;
  State state;
  Fiber *fiber; /* NULL: not begun */
  const char *what; /* the call in which it waits for lanes */
  unsigned mask;
  int value; /* given to the barrier */
};

/* Threads in the order in which they go on; none is in it twice. */
class Ready {
  enum { ROOM = 1024 };
  int at[ROOM];
  unsigned first, n;

public:
  void clear() { n = 0; }
  bool empty() const { return n == 0; }
  int &operator[](unsigned i) { return at[(first + i) % ROOM]; }
  int front() { return at[first % ROOM]; }
  void push_back(int i) { at[(first + n++) % ROOM] = i; }
  void push_front(int i)
  {
    at[--first % ROOM] = i;
    n++;
  }
  void pop_front()
  {
    first++;
    n--;
  }
};

struct Block {
  const std::function<void()> *body;
  std::vector<Thread> threads;
  Ready ready;
  std::vector<Fiber *> spare;
  std::vector<std::pair<void *, size_t>> shared; /* that this block's threads have named */
  Warp warps[WARP];
  const char *file; /* of the barrier at which some are */
  int line;
  std::vector<char> dynamic;
  size_t dynamic_bytes;
  Fiber *outside;
  unsigned current;
  int gone, at_barrier, result;
  uint64_t number; /* of blocks before */
  bool latest_first; /* of threads that are ready, the one that became so last */
} block;

size_t allowed_shared = SHARED_PLAIN;

void run_threads(Fiber *own);

Thread &self() { return block.threads[block.current]; }

/* Goes on with the next thread that is ready, on its fiber; `idle`: `own` may be that. */
void go_on(Fiber *own, bool idle)
{
  Fiber *to = block.outside;

  if (!block.ready.empty()) {
    Thread &t = block.threads[block.current = block.ready.front()];
    block.ready.pop_front();
    place.thread = t.index;
    place.lane = block.current % WARP;
    if (!t.fiber && idle)
      t.fiber = own;
    if (!t.fiber && block.spare.empty())
      block.spare.push_back(fiber_new(run_threads));
    if (!t.fiber) {
      t.fiber = block.spare.back();
      block.spare.pop_back();
    }
    to = t.fiber;
    if (!block.ready.empty() && block.threads[block.ready.front()].fiber)
      fiber_prefetch(block.threads[block.ready.front()].fiber);
  }
  if (to == own)
    return;
  if (idle)
    block.spare.push_back(own);
  fiber_switch(own, to);
}

/* A fiber runs thread after thread. */
void run_threads(Fiber *own)
{
  for (;;) {
    (*block.body)();
    self().state = GONE;
    block.gone++;
    go_on(own, true);
  }
}

/* Until something has made the thread ready. */
void wait(State state)
{
  self().state = state;
  go_on(self().fiber, false);
}

void make_ready(int i)
{
  block.threads[i].state = READY;
  if (block.latest_first)
    block.ready.push_front(i);
  else
    block.ready.push_back(i);
}

/* Forward, backward, or warps shuffled. */
void order_threads(int n)
{
  block.ready.clear();
  for (int i = 0; i < n; i++)
    block.ready.push_back(i);
  block.latest_first = draw(2);
  uint64_t how = draw(3);
  for (int i = 0; how == 1 && i < n / 2; i++)
    std::swap(block.ready[i], block.ready[n - 1 - i]);
  for (int i = n - 1; how == 2 && i > 0; i--)
    std::swap(block.ready[i], block.ready[draw(i + 1)]);
}

[[noreturn]] void stuck()
{
  for (const Thread &t : block.threads)
    if (t.state == AT_WARP)
      fail("thread %u of block %u waits in %s for lanes of mask %08x, which do not come", t.index.x, place.block.x,
           t.what, t.mask);
  for (const Thread &t : block.threads)
    if (t.state == AT_BARRIER)
      fail("divergent barrier: thread %u of block %u waits at %s:%d, %d of %zu threads came, %d have left", t.index.x,
           place.block.x, block.file, block.line, block.at_barrier, block.threads.size(), block.gone);
  fail("no thread can run");
}

void check_dynamic()
{
  for (size_t i = 0; i < ZONE; i++)
    if (block.dynamic[i] != 0x7f || block.dynamic[ZONE + block.dynamic_bytes + i] != 0x7f)
      fail("written outside of the block's %zu bytes of shared memory", block.dynamic_bytes);
}

void run_block(dim3 size)
{
  int n = size.x * size.y * size.z;

  block.threads.assign(n, Thread());
  block.gone = block.at_barrier = 0;
  for (int i = 0; i * WARP < n; i++)
    block.warps[i].begin(i * WARP, n - i * WARP < WARP ? (1u << (n - i * WARP)) - 1 : ~0u, block.number);
  block.number++;
  block.shared.clear();
  block.dynamic.assign(block.dynamic_bytes + 2 * ZONE, 0x7f);
  poison(block.dynamic.data() + ZONE, block.dynamic_bytes);
  for (int i = 0; i < n; i++)
    block.threads[i].index = { i % size.x, i / size.x % size.y, i / size.x / size.y };
  order_threads(n);
  go_on(block.outside, false);
  if (block.gone < n)
    stuck();
  for (int i = 0; i * WARP < n; i++)
    block.warps[i].end();
  check_dynamic();
}

void run_grid(dim3 grid, dim3 size, size_t shared_bytes, const std::function<void()> &body)
{
  uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
  bool backward = draw(2);

  if (!block.outside)
    block.outside = fiber_outside();
  block.body = &body;
  block.dynamic_bytes = shared_bytes;
  place.block_dim = size;
  place.grid_dim = grid;
  for (uint64_t i = 0; i < blocks; i++) {
    uint64_t at = backward ? blocks - 1 - i : i;
    place.block = { (unsigned)(at % grid.x), (unsigned)(at / grid.x % grid.y), (unsigned)(at / grid.x / grid.y) };
    run_block(size);
  }
}

void delay()
{
  static const long ms = setting("EMULATED_DELAY_MS", 0);
  timespec t = { ms / 1000, ms % 1000 * 1000000 };
  if (ms > 0)
    nanosleep(&t, NULL);
}

} // namespace

void thread_wait(const char *what, unsigned mask)
{
  self().what = what;
  self().mask = mask;
  wait(AT_WARP);
}

void thread_ready(int i)
{
  make_ready(i);
}

uint64_t exchange(const char *what, unsigned mask, uint64_t value, int from)
{
  return block.warps[block.current / WARP].exchange(what, mask, place.lane, value, from);
}

unsigned vote(const char *what, unsigned mask, bool value)
{
  return block.warps[block.current / WARP].vote(what, mask, place.lane, value);
}

int barrier(const char *file, int line, int value, int how)
{
  Thread &own = self();

  if (block.at_barrier == 0) {
    block.file = file;
    block.line = line;
  } else if (block.line != line || strcmp(block.file, file) != 0) {
    fail("divergent barrier: thread %u of block %u is at %s:%d, others at line %d", own.index.x, place.block.x, file,
         line, block.line);
  }
  own.value = value;
  if (++block.at_barrier < (int)block.threads.size()) {
    wait(AT_BARRIER);
    return block.result;
  }
  int sum = 0, n = block.at_barrier;
  for (const Thread &t : block.threads)
    sum += t.value;
  block.result = how == BARRIER_COUNT ? sum : how == BARRIER_AND ? sum == n : how == BARRIER_OR ? sum > 0 : 0;
  block.at_barrier = 0;
  for (int i = 0; i < n; i++)
    if (i != (int)block.current)
      make_ready(i);
  return block.result;
}

void shared(void *p, size_t bytes)
{
  for (const auto &s : block.shared)
    if (s.first == p)
      return;
  block.shared.push_back({ p, bytes });
  poison(p, bytes);
}

void *dynamic_shared(void)
{
  return block.dynamic.data() + ZONE;
}

/* By default a kernel is loaded at its first launch, which waits for all that runs. */
static void load(const char *name)
{
  static std::set<std::string> loaded;

  if (loaded.insert(name).second && !eager())
    synchronize(NULL);
}

void Launch::enqueue(const std::function<void()> &thread) const
{
  Api api;
  uint64_t threads = (uint64_t)block.x * block.y * block.z;

  if (threads == 0 || threads > 1024 || block.z > 64 || grid.x == 0 || grid.y == 0 || grid.z == 0 ||
      grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) {
    noted(cudaErrorInvalidConfiguration);
    return;
  }
  if (shared_bytes > allowed_shared) {
    noted(cudaErrorInvalidValue);
    return;
  }
  load(name);
  emulated::enqueue_done(stream, name, [grid = grid, block = block, bytes = shared_bytes, thread] {
    run_grid(grid, block, bytes, thread);
    delay();
  });
}

float half_to_float(uint16_t bits)
{
  uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 0x3ff;

  if (exponent == 0)
    return (sign ? -1.0f : 1.0f) * (float)fraction * 0x1p-24f;
  if (exponent == 31)
    return __uint_as_float(sign | 0x7f800000 | fraction << 13);
  return __uint_as_float(sign | (exponent + 112) << 23 | fraction << 13);
}

/* Adding a power of two rounds by the host's fp32 unit where the result is subnormal. */
uint16_t float_to_half(float x)
{
  uint32_t bits = __float_as_uint(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;

  if (magnitude > 0x7f800000)
    return 0x7fff;
  if (magnitude >= 0x477ff000) /* 65520 rounds to infinity */
    return (uint16_t)(sign | 0x7c00);
  if (magnitude < 0x38800000) /* below 2^-14 */
    return (uint16_t)(sign | (__float_as_uint(__uint_as_float(magnitude) + 0.5f) - 0x3f000000));
  magnitude += 0xfff + (magnitude >> 13 & 1);
  return (uint16_t)(sign | ((magnitude >> 13) - (112 << 10)));
}

uint16_t float_to_bfloat(float x)
{
  uint32_t bits = __float_as_uint(x);

  if ((bits & 0x7fffffff) > 0x7f800000)
    return 0x7fff;
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

} // namespace emulated

cudaError_t emulated_allow_shared(cudaFuncAttribute attribute, int value)
{
  emulated::Api api;

  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize)
    return cudaSuccess;
  if (value < 0 || value > emulated::SHARED_MAX)
    return emulated::noted(cudaErrorInvalidValue);
  emulated::allowed_shared = std::max(emulated::allowed_shared, (size_t)value);
  return cudaSuccess;
}
