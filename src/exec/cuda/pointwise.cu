/* Kernels that touch each element once: a function object each. */
#include "exec/cuda/elements.h"

#include <math.h>

/* ---- activations ---- */

#define GELU_C 0.7978845608028654f /* sqrt(2 / pi) */
#define GELU_CUBE 0.044715f

/* Within 2 units of the last place of the division, and 0 where that is below 2^-126. */
__device__ static float sigmoid(float x)
{
  return __fdividef(1, 1 + expf(-x));
}

/* (1 + tanh x) / 2 = sigmoid 2x */
__device__ static float gelu_gate(float u)
{
  return sigmoid(2 * GELU_C * (u + GELU_CUBE * u * u * u));
}

template <typename T> struct Gelu {
  const T *x;
  T *y;
  template <int N> __device__ void run(size_t i) const
  {
    Floats<N> u = load<N>(x + i);
    store(y + i, each<N>([&](int k) { return u[k] * gelu_gate(u[k]); }));
  }
};

template <typename T> struct GeluBackward {
  const T *x, *dy;
  T *dx;
  template <int N> __device__ void run(size_t i) const
  {
    Floats<N> u = load<N>(x + i), d = load<N>(dy + i);
    store(dx + i, each<N>([&](int k) {
            float gate = gelu_gate(u[k]), slope = 2 * GELU_C * (1 + 3 * GELU_CUBE * u[k] * u[k]);
            return d[k] * gate * (1 + u[k] * (1 - gate) * slope);
          }));
  }
};

template <typename T> struct Swiglu {
  int width;
  const T *x;
  T *y;
  template <int N> __device__ void run(size_t row, int i) const
  {
    const T *at = x + row * 2 * width + i;
    Floats<N> gate = load<N>(at), up = load<N>(at + width);
    store(y + row * width + i, each<N>([&](int k) { return gate[k] * sigmoid(gate[k]) * up[k]; }));
  }
};

template <typename T> struct SwigluBackward {
  int width;
  const T *x, *dy;
  T *dx;
  template <int N> __device__ void run(size_t row, int i) const
  {
    const size_t at = row * 2 * width + i;
    Floats<N> gate = load<N>(x + at), up = load<N>(x + at + width), d = load<N>(dy + row * width + i);
    Floats<N> open = each<N>([&](int k) { return sigmoid(gate[k]); });
    store(dx + at, each<N>([&](int k) { return d[k] * up[k] * open[k] * (1 + gate[k] * (1 - open[k])); }));
    store(dx + at + width, each<N>([&](int k) { return d[k] * gate[k] * open[k]; }));
  }
};

static void gelu_forward(Backend *b, BackendStream *s, size_t n, const void *x, void *y)
{
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    launch<RUN<T>>(b, s, "gelu", n, aligned({ x, y }), Gelu<T> { (const T *)x, (T *)y });
  });
}

static void gelu_backward(Backend *b, BackendStream *s, size_t n, const void *x, const void *dy, void *dx)
{
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    launch<RUN<T>>(b, s, "gelu backward", n, aligned({ x, dy, dx }),
                   GeluBackward<T> { (const T *)x, (const T *)dy, (T *)dx });
  });
}

static void swiglu_forward(Backend *b, BackendStream *s, int rows, int width, const void *x, void *y)
{
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    launch_rows<RUN<T>>(b, s, "swiglu", rows, width, aligned({ x, y }), Swiglu<T> { width, (const T *)x, (T *)y });
  });
}

static void swiglu_backward(Backend *b, BackendStream *s, int rows, int width, const void *x, const void *dy, void *dx)
{
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    launch_rows<RUN<T>>(b, s, "swiglu backward", rows, width, aligned({ x, dy, dx }),
                        SwigluBackward<T> { width, (const T *)x, (const T *)dy, (T *)dx });
  });
}

/* ---- rows ---- */

template <typename T> struct AddBias {
  int width;
  T *y;
  const T *bias;
  template <int N> __device__ void run(size_t row, int i) const
  {
    T *at = y + row * width + i;
    Floats<N> u = load<N>(at), v = load<N>(bias + i);
    store(at, each<N>([&](int k) { return u[k] + v[k]; }));
  }
};

static void bias_forward(Backend *b, BackendStream *s, int rows, int width, void *y, const void *bias)
{
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    launch_rows<RUN<T>>(b, s, "bias", rows, width, aligned({ y, bias }), AddBias<T> { width, (T *)y, (const T *)bias });
  });
}

template <typename T> struct Rope {
  ExecPlaces places;
  size_t rows;
  int heads, head_dim, ld, sign;
  double log_theta;
  T *x;
};

/* A warp a row: lanes have N pairs of a head each, whose angles serve every head that they come by. */
template <int N, typename T> __global__ static void rotate(Rope<T> r)
{
  const int half = r.head_dim / 2, lanes = min(32, (half + N - 1) / N), lane = threadIdx.x % 32;
  const size_t row = blockIdx.x * (size_t)(THREADS / 32) + threadIdx.x / 32;

  if (row >= r.rows || lane >= 32 / lanes * lanes)
    return;
  for (int i = lane % lanes * N; i < half; i += lanes * N) {
    Floats<N> sine, cosine;
#pragma unroll
    for (int k = 0; k < N; k++) {
      float angle = (float)((double)exec_place(&r.places, row) * exp(-2.0 * (i + k) / r.head_dim * r.log_theta));
      sincosf(angle, &sine[k], &cosine[k]);
    }
    for (int head = lane / lanes; head < r.heads; head += 32 / lanes) {
      T *low = r.x + row * r.ld + (size_t)head * r.head_dim + i, *high = low + half;
      Floats<N> u = load<N>(low), v = load<N>(high);
      store(low, each<N>([&](int k) { return u[k] * cosine[k] - v[k] * sine[k] * r.sign; }));
      store(high, each<N>([&](int k) { return u[k] * sine[k] * r.sign + v[k] * cosine[k]; }));
    }
  }
}

static void rope(Backend *b, BackendStream *s, int rows, ExecPlaces places, int heads, int head_dim, int ld, void *x,
                 double theta, int sign)
{
  const unsigned blocks = blocks_for(rows, THREADS / 32);

  if (rows == 0)
    return;
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    Rope<T> r = { places, (size_t)rows, heads, head_dim, ld, sign, log(theta), (T *)x };
    if (aligned({ x }) && ld % RUN<T> == 0 && head_dim % (2 * RUN<T>) == 0)
      rotate<RUN<T>><<<blocks, THREADS, 0, s->stream>>>(r);
    else
      rotate<1><<<blocks, THREADS, 0, s->stream>>>(r);
  });
  cuda_check_launch(b, "rope");
}

/* ---- sums and casts ---- */

template <typename T> struct Add {
  const T *x;
  T *y;
  template <int N> __device__ void run(size_t i) const
  {
    Floats<N> u = load<N>(x + i), v = load<N>(y + i);
    store(y + i, each<N>([&](int k) { return u[k] + v[k]; }));
  }
};

template <typename From, typename To> struct Cast {
  const From *x;
  To *y;
  template <int N> __device__ void run(size_t i) const { store(y + i, load<N>(x + i)); }
};

static void add(Backend *b, BackendStream *s, size_t n, const void *x, void *y)
{
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    launch<RUN<T>>(b, s, "add", n, aligned({ x, y }), Add<T> { (const T *)x, (T *)y });
  });
}

static void add_wide(Backend *b, BackendStream *s, size_t n, const void *x, void *y)
{
  launch<RUN<float>>(b, s, "add", n, aligned({ x, y }), Add<float> { (const float *)x, (float *)y });
}

static void cast(Backend *b, BackendStream *s, size_t n, const void *x, ExecType from, void *y, ExecType to)
{
  by_type(from, [=](auto f) {
    typedef decltype(f) From;
    by_type(to, [=](auto t) {
      typedef decltype(t) To;
      launch<RUN<From, To>>(b, s, "cast", n, aligned({ x, y }), Cast<From, To> { (const From *)x, (To *)y });
    });
  });
}

void cuda_fill_pointwise(Backend *b)
{
  b->gelu_forward = gelu_forward;
  b->gelu_backward = gelu_backward;
  b->swiglu_forward = swiglu_forward;
  b->swiglu_backward = swiglu_backward;
  b->bias_forward = bias_forward;
  b->rope = rope;
  b->add = add;
  b->add_wide = add_wide;
  b->cast = cast;
}
