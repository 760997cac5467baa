/* Token and position embeddings. The gradient of the token table is added
 * atomically: its last bits depend on the order of equal tokens. */
#include "exec/cuda/elements.h"

template <typename T> struct Lookup {
  int width, first, n;
  const int32_t *tokens;
  const T *table;
  T *y;
  template <int N> __device__ void run(size_t row, int i) const
  {
    const int token = tokens[row] - first;
    Floats<N> u = {};

    if (token >= 0 && token < n)
      u = load<N>(table + (size_t)token * width + i);
    store(y + row * width + i, u);
  }
};

template <typename T> struct Scatter {
  int width, first, n;
  const int32_t *tokens;
  const T *dy;
  float *dtable;
  template <int N> __device__ void run(size_t row, int i) const
  {
    const int token = tokens[row] - first;

    if (token < 0 || token >= n)
      return;
    Floats<N> d = load<N>(dy + row * width + i);
    for (int k = 0; k < N; k++)
      atomicAdd(&dtable[(size_t)token * width + i + k], d[k]);
  }
};

template <typename T> struct AddPositions {
  int width, first;
  ExecPlaces places;
  const T *table;
  T *y;
  template <int N> __device__ void run(size_t row, int i) const
  {
    T *at = y + row * width + i;
    Floats<N> u = load<N>(at), v = load<N>(table + (size_t)exec_place(&places, first + row) * width + i);
    store(at, each<N>([&](int k) { return u[k] + v[k]; }));
  }
};

/* Of each position that occurs: its rows are seq apart. */
template <typename T> struct SumPositions {
  int rows, width, first;
  ExecPlaces places;
  const T *dy;
  float *dtable;
  template <int N> __device__ void run(size_t start, int i) const
  {
    float *at = dtable + (size_t)exec_place(&places, first + start) * width + i;
    Floats<N> sum = {};

    for (size_t row = start; row < (size_t)rows; row += places.seq) {
      Floats<N> d = load<N>(dy + row * width + i);
      sum = each<N>([&](int k) { return sum[k] + d[k]; });
    }
    Floats<N> old = load<N>(at);
    store(at, each<N>([&](int k) { return old[k] + sum[k]; }));
  }
};

static void embedding_forward(Backend *b, BackendStream *s, int rows, int width, int first, int n,
                              const int32_t *tokens, const void *table, void *y)
{
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    launch_rows<RUN<T>>(b, s, "embedding", rows, width, aligned({ table, y }),
                        Lookup<T> { width, first, n, tokens, (const T *)table, (T *)y });
  });
}

static void embedding_backward(Backend *b, BackendStream *s, int rows, int width, int first, int n,
                               const int32_t *tokens, const void *dy, void *dtable)
{
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    launch_rows<1>(b, s, "embedding backward", rows, width, true,
                   Scatter<T> { width, first, n, tokens, (const T *)dy, (float *)dtable });
  });
}

static void position_forward(Backend *b, BackendStream *s, int rows, int width, ExecPlaces places, int first,
                             const void *table, void *y)
{
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    launch_rows<RUN<T>>(b, s, "positions", rows, width, aligned({ table, y }),
                        AddPositions<T> { width, first, places, (const T *)table, (T *)y });
  });
}

static void position_backward(Backend *b, BackendStream *s, int rows, int width, ExecPlaces places, int first,
                              const void *dy, void *dtable)
{
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    launch_rows<RUN<T, float>>(b, s, "positions backward", rows < places.seq ? rows : places.seq, width,
                               aligned({ dy, dtable }),
                               SumPositions<T> { rows, width, first, places, (const T *)dy, (float *)dtable });
  });
}

void cuda_fill_embedding(Backend *b)
{
  b->embedding_forward = embedding_forward;
  b->embedding_backward = embedding_backward;
  b->position_forward = position_forward;
  b->position_backward = position_backward;
}
