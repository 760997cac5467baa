/*
 * Which experts rows go to, and places of the copies: a stable counting sort. Copies are
 * divided into chunks, one a warp, which count and then place them in order; what a chunk
 * finds before it is summed up over chunks in between. Of an expert with more copies than
 * its capacity a list is made, from which the lightest are dropped.
 */
#include "exec/cuda/internal.h"

enum { WARPS = THREADS / 32, CHUNK = 512, OWN_MAX = 64, EXPERTS_MAX = 32 * OWN_MAX };

/* In the stream's workspace. */
struct Sorting {
  int chunks;
  int *before; /* chunks x experts: copies of the chunk; then those in chunks before it */
  int *total;  /* experts: copies of each */
  int *list;   /* copies in the order of experts, those of expert e from lists[e] on */
  int *lists;  /* experts */
};

__device__ static size_t own_warp()
{
  return blockIdx.x * (size_t)WARPS + threadIdx.x / 32;
}

/* Index of the largest logit over lanes, each of which has one; of equal ones the lower. */
__device__ static int warp_largest(float logit, int index)
{
  for (int i = 16; i > 0; i /= 2) {
    const float other = __shfl_xor_sync(~0u, logit, i);
    const int at = __shfl_xor_sync(~0u, index, i);
    if (at >= 0 && (index < 0 || other > logit || (other == logit && at < index))) {
      logit = other;
      index = at;
    }
  }
  return __shfl_sync(~0u, index, 0);
}

/* A warp a row; lanes have every 32nd expert. */
__global__ static void choose(ExecRoute r)
{
  const size_t row = own_warp();
  const int lane = threadIdx.x % 32;
  const float *logits = (const float *)r.logits + row * r.experts;
  float *weight = (float *)r.weight + row * r.top, largest = 0, sum = 0;
  uint64_t taken = 0; /* a bit an own expert */

  if (row >= (size_t)r.rows)
    return;
  for (int j = 0; j < r.top; j++) {
    int best = -1;
    for (int e = lane; e < r.experts; e += 32)
      if (!(taken >> (e / 32) & 1) && (best < 0 || logits[e] > logits[best]))
        best = e;
    best = warp_largest(best < 0 ? 0 : logits[best], best);
    if (best % 32 == lane)
      taken |= (uint64_t)1 << (best / 32);
    if (j == 0)
      largest = logits[best];
    const float power = expf(logits[best] - largest);
    sum += power;
    if (lane == 0) {
      r.chosen[row * r.top + j] = best;
      weight[j] = power;
    }
  }
  for (int j = 0; j < r.top && lane == 0; j++)
    weight[j] /= sum;
}

__device__ static int chunk_end(const ExecRoute &r, int chunk)
{
  return min((int)(r.rows * r.top), (chunk + 1) * CHUNK);
}

__global__ static void count(ExecRoute r, Sorting s)
{
  const int chunk = (int)own_warp(), lane = threadIdx.x % 32;
  int *counts = s.before + (size_t)chunk * r.experts;

  if (chunk >= s.chunks)
    return;
  for (int e = lane; e < r.experts; e += 32)
    counts[e] = 0;
  __syncwarp();
  for (int i = chunk * CHUNK + lane; i < chunk_end(r, chunk); i += 32)
    atomicAdd(&counts[r.chosen[i]], 1);
}

/* One block, a thread an expert. */
__global__ static void add_up(ExecRoute r, Sorting s)
{
  for (int e = threadIdx.x; e < r.experts; e += THREADS) {
    int sum = 0;
    for (int i = 0; i < s.chunks; i++) {
      int *before = s.before + (size_t)i * r.experts + e, here = *before;
      *before = sum;
      sum += here;
    }
    s.total[e] = sum;
  }
  __syncthreads();
  if (threadIdx.x > 0)
    return;
  r.first[0] = 0;
  for (int e = 0, sum = 0; e < r.experts; sum += s.total[e++]) {
    const int stay = r.capacity > 0 ? min(s.total[e], r.capacity) : s.total[e];
    s.lists[e] = sum;
    r.first[e + 1] = r.first[e] + (r.padded ? r.capacity : stay);
  }
}

/* The lanes before this one, and all lanes, that have the same expert. */
__device__ static int2 alike(int expert)
{
  const int lane = threadIdx.x % 32;
  int2 n = { 0, 0 };

  for (int i = 0; i < 32; i++) {
    const bool same = __shfl_sync(~0u, expert, i) == expert;
    n.x += same && i < lane;
    n.y += same;
  }
  return n;
}

/* Those beyond the capacity go by their position; where they go by weight `lightest` decides again. */
__global__ static void place(ExecRoute r, Sorting s)
{
  const int chunk = (int)own_warp(), lane = threadIdx.x % 32, end = chunk_end(r, chunk);
  int *before = s.before + (size_t)chunk * r.experts;

  if (chunk >= s.chunks)
    return;
  for (int start = chunk * CHUNK; start < end; start += 32) {
    const int i = start + lane, expert = i < end ? r.chosen[i] : -1;
    const int2 same = alike(expert);
    const int at = i < end ? before[expert] + same.x : 0;
    __syncwarp();
    if (i < end) {
      r.place[i] = r.capacity == 0 || at < r.capacity ? r.first[expert] + at : -1;
      s.list[s.lists[expert] + at] = i;
      if (same.x == same.y - 1)
        before[expert] += same.y;
    }
    __syncwarp();
  }
}

/* Weights are not negative: as bits they have the same order. */
__device__ static unsigned key_of(const ExecRoute &r, int copy)
{
  return __float_as_uint(((const float *)r.weight)[copy]);
}

/* The key that `stay` of n copies have or exceed, found 8 bits at a time; `equal` of those that have it stay. */
__device__ static unsigned least_key(const ExecRoute &r, const int *list, int n, int stay, int *equal)
{
  __shared__ int counts[256], chosen[2];
  unsigned found = 0;

  for (int shift = 24; shift >= 0; shift -= 8) {
    const unsigned above = shift == 24 ? 0 : ~0u << (shift + 8);
    counts[threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += THREADS)
      if ((key_of(r, list[i]) & above) == found)
        atomicAdd(&counts[key_of(r, list[i]) >> shift & 255], 1);
    __syncthreads();
    if (threadIdx.x == 0) {
      int digit = 255;
      while (counts[digit] < stay)
        stay -= counts[digit--];
      chosen[0] = digit;
      chosen[1] = stay;
    }
    __syncthreads();
    found |= (unsigned)chosen[0] << shift;
    stay = chosen[1];
    __syncthreads();
  }
  *equal = stay;
  return found;
}

static_assert(THREADS == 256, "a thread a digit");

/* A block an expert: of too many copies those of most weight stay, of equal ones the first. */
__global__ static void lightest(ExecRoute r, Sorting s)
{
  const int expert = blockIdx.x, n = s.total[expert], lane = threadIdx.x % 32;
  const int *list = s.list + s.lists[expert];
  int equal, at = r.first[expert];

  if (n <= r.capacity)
    return;
  const unsigned least = least_key(r, list, n, r.capacity, &equal), lower = (1u << lane) - 1;
  if (threadIdx.x >= 32)
    return;
  for (int start = 0; start < n; start += 32) {
    const int copy = start + lane < n ? list[start + lane] : -1;
    const unsigned key = copy >= 0 ? key_of(r, copy) : 0;
    const unsigned same = __ballot_sync(~0u, copy >= 0 && key == least);
    const bool stays = copy >= 0 && (key > least || (key == least && __popc(same & lower) < equal));
    const unsigned all = __ballot_sync(~0u, stays);
    if (copy >= 0)
      r.place[copy] = stays ? at + __popc(all & lower) : -1;
    equal -= __popc(same);
    at += __popc(all);
  }
}

static Sorting sorting_of(const ExecRoute *r, void *workspace)
{
  Sorting s;

  s.chunks = blocks_for((size_t)r->rows * r->top, CHUNK);
  s.total = (int *)workspace;
  s.lists = s.total + r->experts;
  s.before = s.lists + r->experts;
  s.list = s.before + (size_t)s.chunks * r->experts;
  return s;
}

static bool fits(const ExecRoute *r, const Sorting &s)
{
  return r->experts <= EXPERTS_MAX &&
         ((2 + (size_t)s.chunks) * r->experts + (size_t)r->rows * r->top) * sizeof(int) <= WORKSPACE_BYTES;
}

static void route(Backend *b, BackendStream *s, const ExecRoute *r)
{
  const Sorting sorting = sorting_of(r, s->workspace);
  const unsigned chunks = blocks_for(sorting.chunks, WARPS);

  if (!fits(r, sorting)) {
    cuda_fail(b, "router", "more than 2048 experts, or too many copies for the workspace");
    return;
  }
  if (r->rows > 0) {
    choose<<<blocks_for(r->rows, WARPS), THREADS, 0, s->stream>>>(*r);
    count<<<chunks, THREADS, 0, s->stream>>>(*r, sorting);
  }
  add_up<<<1, THREADS, 0, s->stream>>>(*r, sorting); /* without rows, too, experts may have places */
  if (r->rows > 0)
    place<<<chunks, THREADS, 0, s->stream>>>(*r, sorting);
  if (r->rows > 0 && r->capacity > 0 && !r->by_position)
    lightest<<<r->experts, THREADS, 0, s->stream>>>(*r, sorting);
  cuda_check_launch(b, "router");
}

void cuda_fill_route(Backend *b)
{
  b->route = route;
}
