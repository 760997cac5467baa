/* Experts behind a router. Places are given by one block, a thread an expert, so
 * that copies keep the order of rows; every sum has a fixed order. */
#include "exec/cuda/internal.h"

__device__ static bool is_chosen(const int32_t *chosen, int n, int expert)
{
  for (int j = 0; j < n; j++)
    if (chosen[j] == expert)
      return true;
  return false;
}

__global__ static void choose(ExecRoute r)
{
  size_t row = blockIdx.x * (size_t)THREADS + threadIdx.x;

  if (row >= (size_t)r.rows)
    return;
  const float *logits = (const float *)r.logits + row * r.experts;
  int32_t *chosen = r.chosen + row * r.top;
  float *weight = (float *)r.weight + row * r.top, sum = 0;
  for (int j = 0; j < r.top; j++) {
    int best = -1;
    for (int e = 0; e < r.experts; e++)
      if (!is_chosen(chosen, j, e) && (best < 0 || logits[e] > logits[best]))
        best = e;
    chosen[j] = best;
    weight[j] = expf(logits[best] - logits[chosen[0]]);
    sum += weight[j];
  }
  for (int j = 0; j < r.top; j++)
    weight[j] /= sum;
}

/* Place 0 for copies that stay, -1 for those before which as many of their expert come as it takes. */
__global__ static void drop(ExecRoute r)
{
  size_t copies = (size_t)r.rows * r.top, i = blockIdx.x * (size_t)THREADS + threadIdx.x;
  const float *weight = (const float *)r.weight;
  int before = 0;

  if (i >= copies)
    return;
  for (size_t j = 0; j < copies && r.capacity > 0; j++) {
    bool earlier = j < i && (r.by_position || weight[j] == weight[i]);
    before += r.chosen[j] == r.chosen[i] && (earlier || (!r.by_position && weight[j] > weight[i]));
  }
  r.place[i] = r.capacity == 0 || before < r.capacity ? 0 : -1;
}

__global__ static void give_places(ExecRoute r)
{
  size_t copies = (size_t)r.rows * r.top;

  for (int e = threadIdx.x; e < r.experts; e += blockDim.x) {
    int n = 0;
    for (size_t i = 0; i < copies; i++)
      n += r.chosen[i] == e && r.place[i] >= 0;
    r.first[e + 1] = r.padded ? r.capacity : n;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    r.first[0] = 0;
    for (int e = 0; e < r.experts; e++)
      r.first[e + 1] += r.first[e];
  }
  __syncthreads();
  for (int e = threadIdx.x; e < r.experts; e += blockDim.x) {
    int at = r.first[e];
    for (size_t i = 0; i < copies; i++)
      if (r.chosen[i] == e && r.place[i] >= 0)
        r.place[i] = at++;
  }
}

template <typename T> __global__ static void spread(ExecRoute r, int width, const T *x, T *copies)
{
  size_t i = blockIdx.x, from = i / r.top * width, to = (size_t)r.place[i] * width;

  if (r.place[i] < 0)
    return;
  for (int k = threadIdx.x; k < width; k += THREADS)
    copies[to + k] = x[from + k];
}

/* A block a row: y = (y +) sum over the row's copies, each times its weight if there are weights. */
template <typename T>
__global__ static void collect(ExecRoute r, int width, const T *copies, const float *weight, T *y, bool add)
{
  size_t row = blockIdx.x;

  for (int k = threadIdx.x; k < width; k += THREADS) {
    float sum = add ? to_float(y[row * width + k]) : 0;
    for (int j = 0; j < r.top; j++) {
      size_t i = row * r.top + j;
      if (r.place[i] >= 0)
        sum += (weight ? weight[i] : 1) * to_float(copies[(size_t)r.place[i] * width + k]);
    }
    y[row * width + k] = from_float<T>(sum);
  }
}

/* A block a copy. */
template <typename T>
__global__ static void separate(ExecRoute r, int width, const T *copies, const T *dy, T *dcopies, float *dweight)
{
  size_t i = blockIdx.x, at = (size_t)r.place[i] * width, row = i / r.top * width;
  float weight = ((const float *)r.weight)[i], sum = 0;
  bool here = r.place[i] >= 0;

  for (int k = threadIdx.x; here && k < width; k += THREADS) {
    sum += to_float(dy[row + k]) * to_float(copies[at + k]);
    dcopies[at + k] = from_float<T>(weight * to_float(dy[row + k]));
  }
  sum = block_reduce(sum, false);
  if (threadIdx.x == 0)
    dweight[i] = sum;
}

template <typename T> __global__ static void logits_gradient(ExecRoute r, const float *dweights, T *dlogits)
{
  size_t row = blockIdx.x * (size_t)THREADS + threadIdx.x;

  if (row >= (size_t)r.rows)
    return;
  const float *weight = (const float *)r.weight + row * r.top, *dweight = dweights + row * r.top;
  float mean = 0;
  for (int e = 0; e < r.experts; e++)
    dlogits[row * r.experts + e] = from_float<T>(0);
  for (int j = 0; j < r.top; j++)
    mean += weight[j] * dweight[j];
  for (int j = 0; j < r.top; j++)
    dlogits[row * r.experts + r.chosen[row * r.top + j]] = from_float<T>(weight[j] * (dweight[j] - mean));
}

static void route(Backend *b, BackendStream *s, const ExecRoute *r)
{
  if (r->rows == 0) {
    b->zero(b, s, r->first, (r->experts + 1) * sizeof *r->first);
    return;
  }
  choose<<<blocks_for(r->rows, THREADS), THREADS, 0, s->stream>>>(*r);
  drop<<<blocks_for((size_t)r->rows * r->top, THREADS), THREADS, 0, s->stream>>>(*r);
  give_places<<<1, THREADS, 0, s->stream>>>(*r);
  cuda_check_launch(b, "router");
}

static void dispatch_forward(Backend *b, BackendStream *s, const ExecRoute *r, int width, const void *x, void *copies)
{
  if (r->rows == 0)
    return;
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    spread<T><<<r->rows * r->top, THREADS, 0, s->stream>>>(*r, width, (const T *)x, (T *)copies);
  });
  cuda_check_launch(b, "dispatch");
}

static void gather_copies(Backend *b, BackendStream *s, const ExecRoute *r, int width, const void *copies,
                          const void *weight, void *y, bool add)
{
  if (r->rows == 0)
    return;
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    collect<T><<<r->rows, THREADS, 0, s->stream>>>(*r, width, (const T *)copies, (const float *)weight, (T *)y, add);
  });
  cuda_check_launch(b, "combine");
}

static void dispatch_backward(Backend *b, BackendStream *s, const ExecRoute *r, int width, const void *dcopies,
                              void *dx)
{
  gather_copies(b, s, r, width, dcopies, NULL, dx, true);
}

static void combine_forward(Backend *b, BackendStream *s, const ExecRoute *r, int width, const void *copies, void *y)
{
  gather_copies(b, s, r, width, copies, r->weight, y, false);
}

static void combine_backward(Backend *b, BackendStream *s, const ExecRoute *r, int width, const void *copies,
                             const void *dy, void *dcopies, void *dweight)
{
  if (r->rows == 0)
    return;
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    separate<T><<<r->rows * r->top, THREADS, 0, s->stream>>>(*r, width, (const T *)copies, (const T *)dy, (T *)dcopies,
                                                            (float *)dweight);
  });
  cuda_check_launch(b, "combine backward");
}

static void route_backward(Backend *b, BackendStream *s, const ExecRoute *r, const void *dweight, void *dlogits)
{
  if (r->rows == 0)
    return;
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    logits_gradient<T>
        <<<blocks_for(r->rows, THREADS), THREADS, 0, s->stream>>>(*r, (const float *)dweight, (T *)dlogits);
  });
  cuda_check_launch(b, "router backward");
}

void cuda_fill_experts(Backend *b)
{
  b->route = route;
  b->dispatch_forward = dispatch_forward;
  b->dispatch_backward = dispatch_backward;
  b->combine_forward = combine_forward;
  b->combine_backward = combine_backward;
  b->route_backward = route_backward;
}
