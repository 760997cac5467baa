/* Kernels that touch each element once: a function object each. */
#include "exec/cuda/internal.h"

#include <math.h>

template <typename F> __global__ static void for_each(size_t n, F f)
{
  for (size_t i = blockIdx.x * (size_t)THREADS + threadIdx.x; i < n; i += (size_t)gridDim.x * THREADS)
    f(i);
}

template <typename F> static void launch(Backend *b, BackendStream *s, const char *what, size_t n, F f)
{
  const unsigned most = 1 << 16, blocks = blocks_for(n, THREADS);

  if (n == 0)
    return;
  for_each<<<blocks < most ? blocks : most, THREADS, 0, s->stream>>>(n, f);
  cuda_check_launch(b, what);
}

/* ---- activations ---- */

#define GELU_C 0.7978845608028654f /* sqrt(2 / pi) */
#define GELU_CUBE 0.044715f

template <typename T> struct Gelu {
  const T *x;
  T *y;
  __device__ void operator()(size_t i) const
  {
    float u = to_float(x[i]);
    y[i] = from_float<T>(0.5f * u * (1 + tanhf(GELU_C * (u + GELU_CUBE * u * u * u))));
  }
};

template <typename T> struct GeluBackward {
  const T *x, *dy;
  T *dx;
  __device__ void operator()(size_t i) const
  {
    float u = to_float(x[i]), t = tanhf(GELU_C * (u + GELU_CUBE * u * u * u));
    float slope = 0.5f * (1 + t) + 0.5f * u * (1 - t * t) * GELU_C * (1 + 3 * GELU_CUBE * u * u);
    dx[i] = from_float<T>(to_float(dy[i]) * slope);
  }
};

template <typename T> struct Swiglu {
  int width;
  const T *x;
  T *y;
  __device__ void operator()(size_t i) const
  {
    size_t at = i / width * 2 * width + i % width;
    float gate = to_float(x[at]);
    y[i] = from_float<T>(gate / (1 + expf(-gate)) * to_float(x[at + width]));
  }
};

template <typename T> struct SwigluBackward {
  int width;
  const T *x, *dy;
  T *dx;
  __device__ void operator()(size_t i) const
  {
    size_t at = i / width * 2 * width + i % width;
    float gate = to_float(x[at]), up = to_float(x[at + width]), d = to_float(dy[i]);
    float sigmoid = 1 / (1 + expf(-gate));
    dx[at] = from_float<T>(d * up * sigmoid * (1 + gate * (1 - sigmoid)));
    dx[at + width] = from_float<T>(d * gate * sigmoid);
  }
};

static void gelu_forward(Backend *b, BackendStream *s, size_t n, const void *x, void *y)
{
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    launch(b, s, "gelu", n, Gelu<T> { (const T *)x, (T *)y });
  });
}

static void gelu_backward(Backend *b, BackendStream *s, size_t n, const void *x, const void *dy, void *dx)
{
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    launch(b, s, "gelu backward", n, GeluBackward<T> { (const T *)x, (const T *)dy, (T *)dx });
  });
}

static void swiglu_forward(Backend *b, BackendStream *s, int rows, int width, const void *x, void *y)
{
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    launch(b, s, "swiglu", (size_t)rows * width, Swiglu<T> { width, (const T *)x, (T *)y });
  });
}

static void swiglu_backward(Backend *b, BackendStream *s, int rows, int width, const void *x, const void *dy, void *dx)
{
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    launch(b, s, "swiglu backward", (size_t)rows * width,
           SwigluBackward<T> { width, (const T *)x, (const T *)dy, (T *)dx });
  });
}

/* ---- rows ---- */

template <typename T> struct AddBias {
  int width;
  T *y;
  const T *bias;
  __device__ void operator()(size_t i) const { y[i] = from_float<T>(to_float(y[i]) + to_float(bias[i % width])); }
};

template <typename T> struct Rope {
  ExecPlaces places;
  int heads, head_dim, ld, sign;
  double log_theta;
  T *x;
  __device__ void operator()(size_t i) const
  {
    int half = head_dim / 2, at = (int)(i % half), head = (int)(i / half % heads);
    size_t row = i / half / heads;
    T *first = x + row * ld + (size_t)head * head_dim + at;
    float angle = (float)((double)exec_place(&places, row) * exp(-2.0 * at / head_dim * log_theta));
    float sine = sign * sinf(angle), cosine = cosf(angle), u = to_float(first[0]), v = to_float(first[half]);
    first[0] = from_float<T>(u * cosine - v * sine);
    first[half] = from_float<T>(u * sine + v * cosine);
  }
};

static void bias_forward(Backend *b, BackendStream *s, int rows, int width, void *y, const void *bias)
{
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    launch(b, s, "bias", (size_t)rows * width, AddBias<T> { width, (T *)y, (const T *)bias });
  });
}

static void rope(Backend *b, BackendStream *s, int rows, ExecPlaces places, int heads, int head_dim, int ld, void *x,
                 double theta, int sign)
{
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    launch(b, s, "rope", (size_t)rows * heads * (head_dim / 2),
           Rope<T> { places, heads, head_dim, ld, sign, log(theta), (T *)x });
  });
}

/* ---- sums and casts ---- */

template <typename T> struct Add {
  const T *x;
  T *y;
  __device__ void operator()(size_t i) const { y[i] = from_float<T>(to_float(y[i]) + to_float(x[i])); }
};

struct Scale {
  float factor, *y;
  __device__ void operator()(size_t i) const { y[i] *= factor; }
};

template <typename From, typename To> struct Cast {
  const From *x;
  To *y;
  __device__ void operator()(size_t i) const { y[i] = from_float<To>(to_float(x[i])); }
};

static void add(Backend *b, BackendStream *s, size_t n, const void *x, void *y)
{
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    launch(b, s, "add", n, Add<T> { (const T *)x, (T *)y });
  });
}

static void add_wide(Backend *b, BackendStream *s, size_t n, const void *x, void *y)
{
  launch(b, s, "add", n, Add<float> { (const float *)x, (float *)y });
}

static void scale(Backend *b, BackendStream *s, size_t n, double factor, void *y)
{
  launch(b, s, "scale", n, Scale { (float)factor, (float *)y });
}

static void cast(Backend *b, BackendStream *s, size_t n, const void *x, ExecType from, void *y, ExecType to)
{
  by_type(from, [=](auto f) {
    typedef decltype(f) From;
    by_type(to, [=](auto t) {
      typedef decltype(t) To;
      launch(b, s, "cast", n, Cast<From, To> { (const From *)x, (To *)y });
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
  b->scale = scale;
  b->cast = cast;
}
