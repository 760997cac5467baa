/* LayerNorm and RMSNorm, a block a row; gradients of weights and biases, summed
 * over rows in a fixed order. */
#include "exec/cuda/internal.h"

template <typename T> struct NormRow {
  ExecNorm kind;
  int width;
  float epsilon;
  const T *x, *weight, *bias;
  float *mean, *rstd;
};

template <typename T> __global__ static void forward(NormRow<T> a, T *y)
{
  size_t row = blockIdx.x;
  const T *x = a.x + row * a.width;
  float sum = 0, squares = 0, mean = 0;

  if (a.kind == EXEC_LAYERNORM) {
    for (int i = threadIdx.x; i < a.width; i += THREADS)
      sum += to_float(x[i]);
    mean = block_reduce(sum, false) / a.width;
  }
  for (int i = threadIdx.x; i < a.width; i += THREADS)
    squares += (to_float(x[i]) - mean) * (to_float(x[i]) - mean);
  float rstd = rsqrtf(block_reduce(squares, false) / a.width + a.epsilon);
  for (int i = threadIdx.x; i < a.width; i += THREADS)
    y[row * a.width + i] = from_float<T>((to_float(x[i]) - mean) * rstd * to_float(a.weight[i]) +
                                         (a.bias ? to_float(a.bias[i]) : 0));
  if (threadIdx.x == 0) {
    a.rstd[row] = rstd;
    if (a.kind == EXEC_LAYERNORM)
      a.mean[row] = mean;
  }
}

template <typename T> __global__ static void backward_input(NormRow<T> a, const T *dy, T *dx, int add)
{
  size_t row = blockIdx.x, first = row * a.width;
  float mean = a.kind == EXEC_LAYERNORM ? a.mean[row] : 0, rstd = a.rstd[row], sum = 0, dot = 0;

  for (int i = threadIdx.x; i < a.width; i += THREADS) {
    float g = to_float(dy[first + i]) * to_float(a.weight[i]);
    sum += g;
    dot += g * (to_float(a.x[first + i]) - mean) * rstd;
  }
  dot = block_reduce(dot, false) / a.width;
  sum = a.kind == EXEC_LAYERNORM ? block_reduce(sum, false) / a.width : 0;
  for (int i = threadIdx.x; i < a.width; i += THREADS) {
    float g = to_float(dy[first + i]) * to_float(a.weight[i]);
    float d = rstd * (g - sum - (to_float(a.x[first + i]) - mean) * rstd * dot);
    dx[first + i] = from_float<T>(d + (add ? to_float(dx[first + i]) : 0));
  }
}

/* 32 columns a block, THREADS / 32 rows at a time. `x` NULL: only the sum of dy. */
template <typename T>
__global__ static void backward_columns(int rows, NormRow<T> a, const T *dy, float *dweight, float *dbias)
{
  __shared__ float weights[THREADS / 32][33], biases[THREADS / 32][33];
  int lane = threadIdx.x % 32, slice = threadIdx.x / 32, column = blockIdx.x * 32 + lane;
  float weight = 0, bias = 0;

  for (int row = slice; row < rows && column < a.width; row += THREADS / 32) {
    size_t i = (size_t)row * a.width + column;
    float g = to_float(dy[i]);
    bias += g;
    if (a.x)
      weight += g * (to_float(a.x[i]) - (a.kind == EXEC_LAYERNORM ? a.mean[row] : 0)) * a.rstd[row];
  }
  weights[slice][lane] = weight;
  biases[slice][lane] = bias;
  __syncthreads();
  if (slice > 0 || column >= a.width)
    return;
  for (int i = 1; i < THREADS / 32; i++) {
    weight += weights[i][lane];
    bias += biases[i][lane];
  }
  if (dweight)
    dweight[column] += weight;
  if (dbias)
    dbias[column] += bias;
}

template <typename T> static NormRow<T> row_of(const ExecNormArgs *a)
{
  NormRow<T> row = { a->kind, a->width, (float)a->epsilon, (const T *)a->x, (const T *)a->weight, (const T *)a->bias,
                     (float *)a->mean, (float *)a->rstd };
  return row;
}

static void norm_forward(Backend *b, BackendStream *s, const ExecNormArgs *a, void *y)
{
  if (a->rows == 0)
    return;
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    forward<T><<<a->rows, THREADS, 0, s->stream>>>(row_of<T>(a), (T *)y);
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
    if (dx)
      backward_input<T><<<a->rows, THREADS, 0, s->stream>>>(row_of<T>(a), (const T *)dy, (T *)dx, add);
    if (dweight || dbias)
      backward_columns<T><<<blocks_for(a->width, 32), THREADS, 0, s->stream>>>(a->rows, row_of<T>(a), (const T *)dy,
                                                                              (float *)dweight, (float *)dbias);
  });
  cuda_check_launch(b, "norm backward");
}

static void bias_backward(Backend *b, BackendStream *s, int rows, int width, const void *dy, void *dbias)
{
  if (rows == 0)
    return;
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    NormRow<T> none = { EXEC_RMSNORM, width, 0, NULL, NULL, NULL, NULL, NULL };
    backward_columns<T><<<blocks_for(width, 32), THREADS, 0, s->stream>>>(rows, none, (const T *)dy, NULL,
                                                                         (float *)dbias);
  });
  cuda_check_launch(b, "bias backward");
}

void cuda_fill_norm(Backend *b)
{
  b->norm_forward = norm_forward;
  b->norm_backward = norm_backward;
  b->bias_backward = bias_backward;
}
