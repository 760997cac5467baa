/*
 * Kernels over elements and over rows that read and write 16 bytes at a time; C++ only.
 *
 * A function object has run<N>(i), for the N elements from i on, or run<N>(row, i), for
 * those from i on in a row. It reads and writes them by load and store, which compute
 * with floats. N is RUN of the formats of all tensors that it runs over: 16 bytes of the
 * widest. It is 1 where a tensor does not start at a multiple of 16 bytes (`aligned`), or
 * rows do not consist of whole runs; what is left behind the last whole run of elements
 * that do not lie in rows is taken one by one.
 */
#ifndef TDP_EXEC_CUDA_ELEMENTS_H
#define TDP_EXEC_CUDA_ELEMENTS_H

#include "exec/cuda/internal.h"

#include <initializer_list>
#include <type_traits>

template <int N> struct Floats {
  float at[N];
  __device__ float &operator[](int i) { return at[i]; }
  __device__ float operator[](int i) const { return at[i]; }
};

template <typename T, int N> struct alignas(N * sizeof(T)) Run {
  T at[N];
};

template <typename T, typename U = T> constexpr int RUN = 16 / (sizeof(T) > sizeof(U) ? sizeof(T) : sizeof(U));

template <int N, typename T> __device__ static inline Floats<N> load(const T *x)
{
  Run<T, N> run = *(const Run<T, N> *)x;
  Floats<N> y;

#pragma unroll
  for (int k = 0; k < N; k++)
    y[k] = to_float(run.at[k]);
  return y;
}

template <int N, typename T> __device__ static inline void store(T *y, const Floats<N> &x)
{
  Run<T, N> run;

#pragma unroll
  for (int k = 0; k < N; k++)
    run.at[k] = from_float<T>(x[k]);
  *(Run<T, N> *)y = run;
}

/* y[k] = f(k) */
template <int N, typename F> __device__ static inline Floats<N> each(F f)
{
  Floats<N> y;

#pragma unroll
  for (int k = 0; k < N; k++)
    y[k] = f(k);
  return y;
}

/* NULL is aligned. */
static inline bool aligned(std::initializer_list<const void *> tensors)
{
  for (const void *x : tensors)
    if ((size_t)x % 16 != 0)
      return false;
  return true;
}

/* Calls f with the number of elements of a row of `width` that a thread takes at once, as a type. */
template <typename T, typename F> static void by_run(bool together, int width, F f)
{
  if (together && width % RUN<T> == 0)
    f(std::integral_constant<int, RUN<T>>());
  else
    f(std::integral_constant<int, 1>());
}

template <int N, typename F> __global__ static void for_each(size_t n, F f)
{
  const size_t step = (size_t)gridDim.x * THREADS, first = blockIdx.x * (size_t)THREADS + threadIdx.x;
  const size_t whole = n / N * N;

  for (size_t i = first * N; i < whole; i += step * N)
    f.template run<N>(i);
  for (size_t i = whole + first; i < n; i += step)
    f.template run<1>(i);
}

template <int N, typename F>
static void launch(Backend *b, BackendStream *s, const char *what, size_t n, bool together, F f)
{
  const unsigned most = 1 << 16, wanted = blocks_for(n, together ? THREADS * N : THREADS);
  const unsigned blocks = wanted < most ? wanted : most;

  if (n == 0)
    return;
  if (together)
    for_each<N><<<blocks, THREADS, 0, s->stream>>>(n, f);
  else
    for_each<1><<<blocks, THREADS, 0, s->stream>>>(n, f);
  cuda_check_launch(b, what);
}

/* A warp has 32 runs of a row, a block as many rows as warps: no index is divided. */
template <int N, typename F> __global__ static void for_rows(size_t rows, int width, F f)
{
  const int warps = THREADS / 32, i = (blockIdx.x * 32 + threadIdx.x % 32) * N;

  for (size_t row = blockIdx.y * (size_t)warps + threadIdx.x / 32; row < rows && i < width;
       row += (size_t)gridDim.y * warps)
    f.template run<N>(row, i);
}

template <int N, typename F>
static void launch_rows(Backend *b, BackendStream *s, const char *what, size_t rows, int width, bool together, F f)
{
  const unsigned most = 65535, wanted = blocks_for(rows, THREADS / 32), blocks = wanted < most ? wanted : most;

  if (rows == 0 || width <= 0)
    return;
  if (together && width % N == 0)
    for_rows<N><<<dim3(blocks_for(width, 32 * N), blocks), THREADS, 0, s->stream>>>(rows, width, f);
  else
    for_rows<1><<<dim3(blocks_for(width, 32), blocks), THREADS, 0, s->stream>>>(rows, width, f);
  cuda_check_launch(b, what);
}

#endif
