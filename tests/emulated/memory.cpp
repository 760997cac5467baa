/*
 * Allocations of a range of addresses that is the device's. What is freed goes at
 * once to the stream that freed it, to others when the host has synchronized, as
 * with CUDA's pool. Contents before the first write, behind the last free and
 * around each allocation are a NaN in every format and a huge index.
 */
#include "device.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <vector>

#ifdef EMULATED_SANITIZED
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, bytes) ((void)(p), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(p, bytes) ((void)(p), (void)(bytes))
#endif

namespace emulated {

namespace {

enum : size_t { ARENA = (size_t)64 << 30, ZONE = 512, WHOLE = 1 << 20 };
enum : uint16_t { NOTHING = 0x7fff };

/* A block's state for callers, and as far as its streams have come. */
struct Allocation {
  size_t room, asked;
  bool given, live;
  size_t live_bytes;
  cudaStream_t stream; /* that freed it */
};

struct Arena {
  char *base;
  size_t used, held;
  std::map<char *, Allocation> all;
  std::map<std::pair<cudaStream_t, size_t>, std::vector<char *>> spare; /* by room; NULL: any stream's */
  std::map<char *, size_t> pinned;
} arena;

/* Of cudaMallocAsync: handed out, and held for that. Beyond the threshold it gives back at a synchronisation. */
struct Pool {
  size_t used, used_most, held, held_most;
  uint64_t threshold;
  unsigned returns; /* after which it grew again */
  bool returned;
} pool;

enum { RETURNS_MAX = 4 };

size_t device_bytes()
{
  return (size_t)setting("EMULATED_MEMORY_MB", 4096) << 20;
}

void open_arena()
{
  if (arena.base)
    return;
  arena.base = (char *)mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (arena.base == MAP_FAILED)
    fail("no addresses for the device's memory");
}

/* Of large ones only both ends: most of a workspace is never touched. */
void each_end(char *p, size_t bytes, void (*f)(char *, size_t))
{
  if (bytes <= 2 * WHOLE) {
    f(p, bytes);
    return;
  }
  f(p, WHOLE);
  f(p + bytes - WHOLE, WHOLE);
}

void fill(char *p, size_t bytes)
{
  poison(p, bytes);
}

[[maybe_unused]] bool untouched(const char *p, size_t bytes)
{
  static std::vector<uint16_t> pattern(4096, NOTHING);

  for (size_t i = 0; i < bytes; i += pattern.size() * 2)
    if (memcmp(p + i, pattern.data(), std::min(bytes - i, pattern.size() * 2)) != 0)
      return false;
  return true;
}

void become_live(char *p, size_t bytes)
{
  Allocation &a = arena.all[p];

  a.live = true;
  a.live_bytes = bytes;
  ASAN_UNPOISON_MEMORY_REGION(p - ZONE, a.room);
  poison(p - ZONE, ZONE);
  each_end(p, bytes, fill);
  poison(p + bytes, a.room - ZONE - bytes);
  ASAN_POISON_MEMORY_REGION(p - ZONE, ZONE);
  ASAN_POISON_MEMORY_REGION(p + bytes, a.room - ZONE - bytes);
}

void check_zone(char *p, const Allocation &a)
{
#ifndef EMULATED_SANITIZED
  if (!untouched(p - ZONE, ZONE))
    fail("written before an allocation of %zu bytes", a.live_bytes);
  if (!untouched(p + a.live_bytes, a.room - ZONE - a.live_bytes))
    fail("written behind an allocation of %zu bytes", a.live_bytes);
#else
  (void)p, (void)a;
#endif
}

void become_free(char *p)
{
  Allocation &a = arena.all[p];

  check_zone(p, a);
  a.live = false;
  each_end(p, a.live_bytes, fill);
  ASAN_POISON_MEMORY_REGION(p - ZONE, a.room);
}

/* Nobody has written to it since it was freed. */
void check_freed(char *p, const Allocation &a)
{
#ifndef EMULATED_SANITIZED
  if (!untouched(p, std::min(a.live_bytes, (size_t)WHOLE)))
    fail("written after it was freed: %zu bytes", a.live_bytes);
#else
  (void)p, (void)a;
#endif
}

char *take_spare(cudaStream_t s, size_t room)
{
  for (cudaStream_t of : { s, (cudaStream_t)NULL }) {
    std::vector<char *> &list = arena.spare[{ of, room }];
    if (list.empty())
      continue;
    char *p = list.back();
    list.pop_back();
    if (!arena.all[p].live)
      check_freed(p, arena.all[p]);
    return p;
  }
  return NULL;
}

char *take(size_t bytes, cudaStream_t s)
{
  size_t room = (bytes + 511) / 512 * 512 + 2 * ZONE;

  open_arena();
  if (bytes > device_bytes() || arena.held + bytes > device_bytes())
    return NULL;
  char *p = take_spare(s, room);
  if (!p) {
    if (arena.used + room > ARENA)
      return NULL;
    p = arena.base + arena.used + ZONE;
    arena.used += room;
    arena.all[p].room = room;
    each_end(p - ZONE, room, fill);
  }
  arena.all[p].asked = bytes;
  arena.all[p].given = true;
  arena.held += bytes;
  return p;
}

void pool_take(size_t bytes)
{
  pool.used += bytes;
  pool.used_most = std::max(pool.used_most, pool.used);
  pool.returns += pool.returned && pool.used > pool.held;
  pool.returned &= pool.used <= pool.held;
  pool.held = std::max(pool.held, pool.used);
  pool.held_most = std::max(pool.held_most, pool.held);
  if (pool.returns > RETURNS_MAX)
    fail("the pool gives memory back at each synchronisation and takes it again: it has no release threshold");
}

void pool_return()
{
  size_t kept = std::max(pool.used, (size_t)std::min(pool.threshold, (uint64_t)SIZE_MAX));

  pool.returned |= kept < pool.held;
  pool.held = std::min(pool.held, kept);
}

/* A free of a pointer that is none, or twice. */
bool release(char *p, cudaStream_t s)
{
  auto at = arena.all.find(p);

  if (at == arena.all.end() || !at->second.given)
    return false;
  at->second.given = false;
  at->second.stream = s;
  arena.held -= at->second.asked;
  arena.spare[{ s, at->second.room }].push_back(p);
  return true;
}

Allocation *allocation_of(const void *p)
{
  auto at = arena.all.upper_bound((char *)p);

  if (!on_device(p) || at == arena.all.begin())
    return NULL;
  --at;
  return (char *)p < at->first + at->second.room ? &at->second : NULL;
}

/* A name and a number without printf: it may be interrupted anywhere. */
[[maybe_unused]] void fault(int signal, siginfo_t *info, void *)
{
  static char line[256];
  int n = snprintf(line, sizeof line, "emulated: %s: %s at %p%s\n", running(),
                   signal == SIGSEGV || signal == SIGBUS ? "fault" : "trap", info->si_addr,
                   on_device(info->si_addr) ? ", an address of the device" : "");

  (void)!write(2, line, n);
  ::signal(SIGABRT, SIG_DFL);
  abort();
}

struct Handlers {
  Handlers()
  {
#ifndef EMULATED_SANITIZED
    static char stack[64 << 10];
    stack_t own = {};
    own.ss_sp = stack;
    own.ss_size = sizeof stack;
    sigaltstack(&own, NULL);
    struct sigaction action = {};
    action.sa_sigaction = fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
#endif
  }
} handlers;

struct Rows {
  char *to;
  size_t to_pitch;
  const char *from;
  size_t from_pitch, width, rows;
};

void copy(const Rows &r)
{
  for (size_t i = 0; i < r.rows; i++) {
    if (on_device(r.to))
      check_range(r.to + i * r.to_pitch, r.width, "written");
    if (on_device(r.from))
      check_range(r.from + i * r.from_pitch, r.width, "read");
    memmove(r.to + i * r.to_pitch, r.from + i * r.from_pitch, r.width);
  }
}

bool is_pinned(const void *p)
{
  auto at = arena.pinned.upper_bound((char *)p);
  return at != arena.pinned.begin() && (char *)p < std::prev(at)->first + std::prev(at)->second;
}

/* From pageable memory the host waits until it is read, which may be now; to pageable memory until it is done. */
cudaError_t enqueue_copy(Rows r, cudaMemcpyKind kind, cudaStream_t s)
{
  bool to_device = on_device(r.to), from_device = on_device(r.from);

  if ((kind == cudaMemcpyHostToDevice && (!to_device || from_device)) ||
      (kind == cudaMemcpyDeviceToHost && (to_device || !from_device)) ||
      (kind == cudaMemcpyDeviceToDevice && !(to_device && from_device)) || r.width > r.to_pitch ||
      r.width > r.from_pitch)
    return noted(cudaErrorInvalidValue);
  if (r.width == 0 || r.rows == 0)
    return cudaSuccess;
  if (from_device || is_pinned(r.from)) {
    enqueue_done(s, "copy", [r] { copy(r); });
    if (!to_device && !is_pinned(r.to))
      synchronize(s);
    return cudaSuccess;
  }
  auto staged = std::make_shared<std::vector<char>>();
  for (size_t i = 0; i < r.rows; i++)
    staged->insert(staged->end(), r.from + i * r.from_pitch, r.from + i * r.from_pitch + r.width);
  r.from_pitch = r.width;
  enqueue_done(s, "copy", [r, staged]() mutable {
    r.from = staged->data();
    copy(r);
  });
  return cudaSuccess;
}

} // namespace

void poison(void *p, size_t bytes)
{
  for (size_t i = 0; i + 2 <= bytes; i += 2)
    memcpy((char *)p + i, "\xff\x7f", 2);
  if (bytes % 2)
    ((char *)p)[bytes - 1] = '\xff';
}

bool on_device(const void *p)
{
  return arena.base && (char *)p >= arena.base && (char *)p < arena.base + ARENA;
}

void check_range(const void *p, size_t bytes, const char *what)
{
  Allocation *a = allocation_of(p);
  auto at = arena.all.upper_bound((char *)p);

  if (bytes == 0)
    return;
  if (!a)
    fail("%zu bytes %s at %p, which is no memory of the device", bytes, what, p);
  if (!a->live)
    fail("%zu bytes %s of memory that is not allocated (any more, or yet)", bytes, what);
  char *first = std::prev(at)->first;
  if ((char *)p + bytes > first + a->live_bytes)
    fail("%zu bytes %s from byte %zd of an allocation of %zu", bytes, what, (char *)p - first, a->live_bytes);
}

void check_red_zones(void)
{
#ifndef EMULATED_SANITIZED
  for (auto &entry : arena.all)
    if (entry.second.live)
      check_zone(entry.first, entry.second);
#endif
}

void synchronized(cudaStream_t s)
{
  pool_return();
  for (auto &list : arena.spare) {
    if (!list.first.first || (s && list.first.first != s))
      continue;
    std::vector<char *> &any = arena.spare[{ NULL, list.first.second }];
    any.insert(any.end(), list.second.begin(), list.second.end());
    list.second.clear();
  }
}

void guard(bool closed)
{
  static const long wanted = setting("EMULATED_GUARD", 0);
  if (wanted && arena.used)
    mprotect(arena.base, (arena.used + 4095) / 4096 * 4096, closed ? PROT_NONE : PROT_READ | PROT_WRITE);
}

} // namespace emulated

using namespace emulated;

cudaError_t emulated_malloc(void **p, size_t bytes)
{
  Api api;
  char *taken = take(bytes, NULL);

  if (!taken)
    return noted(cudaErrorMemoryAllocation);
  become_live(taken, bytes);
  *p = taken;
  return cudaSuccess;
}

/* Waits for all that runs, as CUDA does. */
cudaError_t cudaFree(void *p)
{
  Api api;

  if (!p)
    return cudaSuccess;
  synchronize(NULL);
  if (!release((char *)p, NULL))
    return noted(cudaErrorInvalidValue);
  become_free((char *)p);
  return cudaSuccess;
}

cudaError_t emulated_malloc_async(void **p, size_t bytes, cudaStream_t s)
{
  Api api;
  char *taken = bytes ? take(bytes, s) : NULL;

  if (bytes && !taken)
    return noted(cudaErrorMemoryAllocation);
  *p = taken;
  pool_take(taken ? bytes : 0);
  if (taken)
    enqueue_done(s, "allocation", [taken, bytes] { become_live(taken, bytes); });
  return cudaSuccess;
}

cudaError_t cudaFreeAsync(void *p, cudaStream_t s)
{
  Api api;

  if (!p)
    return cudaSuccess;
  if (!release((char *)p, s))
    return noted(cudaErrorInvalidValue);
  pool.used -= arena.all[(char *)p].asked;
  enqueue_done(s, "free", [p] { become_free((char *)p); });
  return cudaSuccess;
}

cudaError_t emulated_malloc_host(void **p, size_t bytes)
{
  Api api;

  *p = malloc(bytes ? bytes : 1);
  if (!*p)
    return noted(cudaErrorMemoryAllocation);
  poison(*p, bytes);
  arena.pinned[(char *)*p] = bytes;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void *p)
{
  Api api;

  if (!p)
    return cudaSuccess;
  synchronize(NULL);
  if (!arena.pinned.erase((char *)p))
    return noted(cudaErrorInvalidValue);
  free(p);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *total)
{
  Api api;
  *total = device_bytes();
  *left = *total - arena.held;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t s)
{
  Api api;
  return enqueue_copy({ (char *)to, bytes, (const char *)from, bytes, bytes, 1 }, kind, s);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
  Api api;
  cudaError_t status = enqueue_copy({ (char *)to, bytes, (const char *)from, bytes, bytes, 1 }, kind, NULL);
  synchronize(NULL);
  return status;
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t rows,
                              cudaMemcpyKind kind, cudaStream_t s)
{
  Api api;
  return enqueue_copy({ (char *)to, to_pitch, (const char *)from, from_pitch, width, rows }, kind, s);
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t s)
{
  Api api;
  enqueue_done(s, "memset", [p, value, bytes] {
    check_range(p, bytes, "set");
    memset(p, value, bytes);
  });
  return cudaSuccess;
}

cudaError_t cudaMemset(void *p, int value, size_t bytes)
{
  return cudaMemsetAsync(p, value, bytes, NULL);
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *p, int)
{
  *p = (cudaMemPool_t)&pool;
  return cudaSuccess;
}

/* The largest values can be set to 0 alone, which makes them the present ones. */
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr attribute, void *value)
{
  Api api;
  uint64_t given = *(const uint64_t *)value;

  if (attribute == cudaMemPoolAttrReleaseThreshold)
    pool.threshold = given;
  else if (attribute == cudaMemPoolReuseAllowInternalDependencies && (int)given == 0)
    return cudaSuccess; /* nothing is reused so */
  else if (attribute == cudaMemPoolAttrUsedMemHigh && given == 0)
    pool.used_most = pool.used;
  else if (attribute == cudaMemPoolAttrReservedMemHigh && given == 0)
    pool.held_most = pool.held;
  else
    return noted(cudaErrorInvalidValue);
  return cudaSuccess;
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr attribute, void *value)
{
  Api api;
  *(uint64_t *)value = attribute == cudaMemPoolAttrReleaseThreshold    ? pool.threshold
                       : attribute == cudaMemPoolAttrUsedMemHigh       ? pool.used_most
                       : attribute == cudaMemPoolAttrReservedMemHigh   ? pool.held_most
                       : attribute == cudaMemPoolAttrUsedMemCurrent    ? pool.used
                                                                       : pool.held;
  return cudaSuccess;
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t)
{
  return cudaSuccess;
}
