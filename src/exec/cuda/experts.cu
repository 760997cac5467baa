/* Copies of rows to experts and back; every sum has a fixed order. */
#include "exec/cuda/elements.h"

template <typename T> struct Spread {
  ExecRoute r;
  int width;
  const T *x;
  T *copies;
  template <int N> __device__ void run(size_t copy, int i) const
  {
    if (r.place[copy] >= 0)
      store(copies + (size_t)r.place[copy] * width + i, load<N>(x + copy / r.top * width + i));
  }
};

/* y = (y +) sum over the row's copies, each times its weight if there are weights. */
template <typename T> struct Collect {
  ExecRoute r;
  int width;
  const T *copies;
  const float *weight;
  T *y;
  bool add;
  template <int N> __device__ void run(size_t row, int i) const
  {
    T *at = y + row * width + i;
    Floats<N> sum = {};

    if (add)
      sum = load<N>(at);
    for (size_t copy = row * r.top; copy < (row + 1) * r.top; copy++) {
      if (r.place[copy] < 0)
        continue;
      const float factor = weight ? weight[copy] : 1;
      Floats<N> u = load<N>(copies + (size_t)r.place[copy] * width + i);
      sum = each<N>([&](int k) { return sum[k] + factor * u[k]; });
    }
    store(at, sum);
  }
};

/* A warp a copy. */
template <int N, typename T>
__global__ static void separate(ExecRoute r, int width, const T *copies, const T *dy, T *dcopies, float *dweight)
{
  const size_t copy = blockIdx.x * (size_t)(THREADS / 32) + threadIdx.x / 32;
  float sum = 0;

  if (copy >= (size_t)r.rows * r.top)
    return;
  const bool here = r.place[copy] >= 0;
  const size_t at = here ? (size_t)r.place[copy] * width : 0, row = copy / r.top * width;
  const float weight = ((const float *)r.weight)[copy];
  for (int i = threadIdx.x % 32 * N; here && i < width; i += 32 * N) {
    Floats<N> d = load<N>(dy + row + i), u = load<N>(copies + at + i);
    for (int k = 0; k < N; k++)
      sum += d[k] * u[k];
    store(dcopies + at + i, each<N>([&](int k) { return weight * d[k]; }));
  }
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0)
    dweight[copy] = sum;
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

static void dispatch_forward(Backend *b, BackendStream *s, const ExecRoute *r, int width, const void *x, void *copies)
{
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    launch_rows<RUN<T>>(b, s, "dispatch", (size_t)r->rows * r->top, width, aligned({ x, copies }),
                        Spread<T> { *r, width, (const T *)x, (T *)copies });
  });
}

static void gather_copies(Backend *b, BackendStream *s, const ExecRoute *r, int width, const void *copies,
                          const void *weight, void *y, bool add)
{
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    launch_rows<RUN<T>>(b, s, "combine", r->rows, width, aligned({ copies, y }),
                        Collect<T> { *r, width, (const T *)copies, (const float *)weight, (T *)y, add });
  });
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
    by_run<T>(aligned({ copies, dy, dcopies }), width, [=](auto n) {
      constexpr int N = decltype(n)::value;
      separate<N><<<blocks_for((size_t)r->rows * r->top, THREADS / 32), THREADS, 0, s->stream>>>(
          *r, width, (const T *)copies, (const T *)dy, (T *)dcopies, (float *)dweight);
    });
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
  b->dispatch_forward = dispatch_forward;
  b->dispatch_backward = dispatch_backward;
  b->combine_forward = combine_forward;
  b->combine_backward = combine_backward;
  b->route_backward = route_backward;
}
