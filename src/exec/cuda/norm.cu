/* LayerNorm and RMSNorm, a warp a row; gradients of weights and biases, summed
 * over rows in a fixed order. */
#include "exec/cuda/elements.h"

enum { WARPS = THREADS / 32, BLOCKS_PER_UNIT = 4 };

template <typename T> struct NormRow {
  ExecNorm kind;
  int rows, width;
  float epsilon;
  const T *x, *weight, *bias;
  float *mean, *rstd;
};

__device__ static size_t own_row()
{
  return blockIdx.x * (size_t)WARPS + threadIdx.x / 32;
}

template <int N, typename T> __global__ static void forward(NormRow<T> a, T *y)
{
  const size_t row = own_row();
  const int first = threadIdx.x % 32 * N;
  const T *x = a.x + row * a.width;
  float sum = 0, squares = 0, mean = 0;

  if (row >= (size_t)a.rows)
    return;
  for (int i = first; i < a.width && a.kind == EXEC_LAYERNORM; i += 32 * N) {
    Floats<N> u = load<N>(x + i);
    for (int k = 0; k < N; k++)
      sum += u[k];
  }
  mean = warp_sum(sum) / a.width;
  for (int i = first; i < a.width; i += 32 * N) {
    Floats<N> u = load<N>(x + i);
    for (int k = 0; k < N; k++)
      squares += (u[k] - mean) * (u[k] - mean);
  }
  const float rstd = rsqrtf(warp_sum(squares) / a.width + a.epsilon);
  for (int i = first; i < a.width; i += 32 * N) {
    Floats<N> u = load<N>(x + i), weight = load<N>(a.weight + i), bias = {};
    if (a.bias)
      bias = load<N>(a.bias + i);
    store(y + row * a.width + i, each<N>([&](int k) { return (u[k] - mean) * rstd * weight[k] + bias[k]; }));
  }
  if (first > 0)
    return;
  a.rstd[row] = rstd;
  if (a.kind == EXEC_LAYERNORM)
    a.mean[row] = mean;
}

template <int N, typename T> __global__ static void backward_input(NormRow<T> a, const T *dy, T *dx, int add)
{
  const size_t row = own_row(), start = row * a.width;
  const int first = threadIdx.x % 32 * N;
  float sum = 0, dot = 0;

  if (row >= (size_t)a.rows)
    return;
  const float mean = a.kind == EXEC_LAYERNORM ? a.mean[row] : 0, rstd = a.rstd[row];
  for (int i = first; i < a.width; i += 32 * N) {
    Floats<N> x = load<N>(a.x + start + i), d = load<N>(dy + start + i), weight = load<N>(a.weight + i);
    for (int k = 0; k < N; k++) {
      sum += d[k] * weight[k];
      dot += d[k] * weight[k] * (x[k] - mean) * rstd;
    }
  }
  dot = warp_sum(dot) / a.width;
  sum = a.kind == EXEC_LAYERNORM ? warp_sum(sum) / a.width : 0;
  for (int i = first; i < a.width; i += 32 * N) {
    Floats<N> x = load<N>(a.x + start + i), d = load<N>(dy + start + i), weight = load<N>(a.weight + i), old = {};
    if (add)
      old = load<N>(dx + start + i);
    store(dx + start + i,
          each<N>([&](int k) { return old[k] + rstd * (d[k] * weight[k] - sum - (x[k] - mean) * rstd * dot); }));
  }
}

/* ---- sums over rows: of slabs of them, then of the slabs ---- */

/* 32 N columns a block, WARPS rows at a time; sums of dy z, if there is an x, and of dy: slabs x 2 x width. */
template <int N, typename T>
__global__ static void sum_slabs(NormRow<T> a, int slab_rows, const T *dy, float *slabs)
{
  __shared__ Floats<N> weights[WARPS][32], biases[WARPS][32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = blockIdx.x * 32 * N, i = first + lane * N;
  const int begin = blockIdx.y * slab_rows, end = min(a.rows, begin + slab_rows);
  Floats<N> weight = {}, bias = {};

#pragma unroll 4
  for (int row = begin + warp; row < end && i < a.width; row += WARPS) {
    const size_t at = (size_t)row * a.width + i;
    Floats<N> d = load<N>(dy + at);
    for (int k = 0; k < N; k++)
      bias[k] += d[k];
    if (!a.x)
      continue;
    const float mean = a.kind == EXEC_LAYERNORM ? a.mean[row] : 0, rstd = a.rstd[row];
    Floats<N> x = load<N>(a.x + at);
    for (int k = 0; k < N; k++)
      weight[k] += d[k] * (x[k] - mean) * rstd;
  }
  weights[warp][lane] = weight;
  biases[warp][lane] = bias;
  __syncthreads();
  for (int column = threadIdx.x; column < 32 * N && first + column < a.width; column += THREADS) {
    float *sums = slabs + (size_t)blockIdx.y * 2 * a.width + first + column, w = 0, s = 0;
    for (int k = 0; k < WARPS; k++) {
      w += weights[k][column / N][column % N];
      s += biases[k][column / N][column % N];
    }
    sums[0] = w;
    sums[a.width] = s;
  }
}

/* 32 columns a block, WARPS slabs at a time; of blocks one behind the other in y the first is for the weights. */
__global__ static void add_slabs(int n, int width, const float *slabs, float *dweight, float *dbias)
{
  __shared__ float sums[WARPS][32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, column = blockIdx.x * 32 + lane;
  float *out = blockIdx.y == 0 ? dweight : dbias, sum = 0;

  if (!out)
    return;
#pragma unroll 4
  for (int i = warp; i < n && column < width; i += WARPS)
    sum += slabs[((size_t)i * 2 + blockIdx.y) * width + column];
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || column >= width)
    return;
  for (int i = 1; i < WARPS; i++)
    sum += sums[i][lane];
  out[column] += sum;
}

/* As many slabs as fill the device, each of several rows a warp; their sums lie in the stream's workspace. */
template <int N, typename T>
static void sum_columns(Backend *b, BackendStream *s, const NormRow<T> &a, const T *dy, float *dweight, float *dbias)
{
  const unsigned columns = blocks_for(a.width, 32 * N), most = blocks_for(a.rows, 4 * WARPS);
  const unsigned wanted = blocks_for(BLOCKS_PER_UNIT * b->units, columns), slabs = wanted < most ? wanted : most;
  float *sums = (float *)s->workspace;

  if (slabs * 2 * a.width * sizeof *sums > WORKSPACE_BYTES) {
    cuda_fail(b, "sums of columns", "rows too wide");
    return;
  }
  sum_slabs<N><<<dim3(columns, slabs), THREADS, 0, s->stream>>>(a, blocks_for(a.rows, slabs), dy, sums);
  add_slabs<<<dim3(blocks_for(a.width, 32), 2), THREADS, 0, s->stream>>>(slabs, a.width, sums, dweight, dbias);
}

template <typename T> static NormRow<T> row_of(const ExecNormArgs *a)
{
  NormRow<T> row = { a->kind, a->rows, a->width, (float)a->epsilon, (const T *)a->x, (const T *)a->weight,
                     (const T *)a->bias, (float *)a->mean, (float *)a->rstd };
  return row;
}

static void norm_forward(Backend *b, BackendStream *s, const ExecNormArgs *a, void *y)
{
  if (a->rows == 0)
    return;
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    by_run<T>(aligned({ a->x, a->weight, a->bias, y }), a->width, [=](auto n) {
      constexpr int N = decltype(n)::value;
      forward<N><<<blocks_for(a->rows, WARPS), THREADS, 0, s->stream>>>(row_of<T>(a), (T *)y);
    });
  });
  cuda_check_launch(b, "norm");
}

static void norm_backward(Backend *b, BackendStream *s, const ExecNormArgs *a, const void *dy, void *dx, int add,
                          void *dweight, void *dbias)
{
  if (a->rows == 0)
    return;
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    by_run<T>(aligned({ a->x, a->weight, dy, dx }), a->width, [=](auto n) {
      constexpr int N = decltype(n)::value;
      const NormRow<T> row = row_of<T>(a);
      if (dx)
        backward_input<N><<<blocks_for(a->rows, WARPS), THREADS, 0, s->stream>>>(row, (const T *)dy, (T *)dx, add);
      if (dweight || dbias)
        sum_columns<decltype(n)::value>(b, s, row, (const T *)dy, (float *)dweight, (float *)dbias);
    });
  });
  cuda_check_launch(b, "norm backward");
}

static void bias_backward(Backend *b, BackendStream *s, int rows, int width, const void *dy, void *dbias)
{
  if (rows == 0)
    return;
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    by_run<T>(aligned({ dy }), width, [=](auto n) {
      const NormRow<T> none = { EXEC_RMSNORM, rows, width, 0, NULL, NULL, NULL, NULL, NULL };
      sum_columns<decltype(n)::value>(b, s, none, (const T *)dy, NULL, (float *)dbias);
    });
  });
  cuda_check_launch(b, "bias backward");
}

void cuda_fill_norm(Backend *b)
{
  b->norm_forward = norm_forward;
  b->norm_backward = norm_backward;
  b->bias_backward = bias_backward;
}
