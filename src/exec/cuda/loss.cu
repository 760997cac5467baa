/* Cross-entropy over a share of the vocabulary, a block a row. */
#include "exec/cuda/internal.h"

template <typename T> struct Rows {
  int rows, width, first, vocab;
  T *logits;
  const int32_t *labels;
  float *max, *sum, *target, *local;
};

/* Columns of the rank that are not padding. */
template <typename T> __device__ static int real_width(const Rows<T> &l)
{
  return max(0, min(l.width, l.vocab - l.first));
}

template <typename T> __global__ static void row_max(Rows<T> l)
{
  const T *x = l.logits + blockIdx.x * (size_t)l.width;
  float largest = -INFINITY;

  for (int i = threadIdx.x; i < real_width(l); i += THREADS)
    largest = fmaxf(largest, to_float(x[i]));
  largest = block_reduce(largest, true);
  if (threadIdx.x == 0)
    l.max[blockIdx.x] = largest;
}

template <typename T> __global__ static void row_sum(Rows<T> l)
{
  const T *x = l.logits + blockIdx.x * (size_t)l.width;
  int label = l.labels[blockIdx.x] - l.first;
  float largest = l.max[blockIdx.x], sum = 0;

  for (int i = threadIdx.x; i < real_width(l); i += THREADS)
    sum += expf(to_float(x[i]) - largest);
  sum = block_reduce(sum, false);
  if (threadIdx.x == 0) {
    l.sum[blockIdx.x] = sum;
    l.target[blockIdx.x] = label >= 0 && label < real_width(l) ? to_float(x[label]) : 0;
  }
}

/* One block, in a fixed order. */
template <typename T> __global__ static void total(Rows<T> l, double factor, double *loss)
{
  __shared__ double sums[THREADS];
  double sum = 0;

  for (int i = threadIdx.x; i < l.rows; i += THREADS)
    sum += log((double)l.sum[i]) + l.max[i] - l.target[i];
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int n = THREADS / 2; n > 0; n /= 2) {
    if (threadIdx.x < n)
      sums[threadIdx.x] += sums[threadIdx.x + n];
    __syncthreads();
  }
  if (threadIdx.x == 0)
    *loss += sums[0] * factor;
}

template <typename T> __global__ static void gradient(Rows<T> l, float factor)
{
  T *x = l.logits + blockIdx.x * (size_t)l.width;
  int label = l.labels[blockIdx.x] - l.first, real = real_width(l);
  float largest = l.max[blockIdx.x], scale = factor / l.sum[blockIdx.x];
  float share = l.local ? scale * expf(l.local[blockIdx.x] - largest) : 0;

  for (int i = threadIdx.x; i < l.width; i += THREADS) {
    float d = i >= real ? 0 : l.local ? to_float(x[i]) * share : expf(to_float(x[i]) - largest) * scale;
    x[i] = from_float<T>(i == label && i < real ? d - factor : d);
  }
}

/* The label's logit is read before any logit is replaced. */
template <typename T> __global__ static void row_exp(Rows<T> l)
{
  T *x = l.logits + blockIdx.x * (size_t)l.width;
  int label = l.labels[blockIdx.x] - l.first, real = real_width(l);
  float largest = l.local[blockIdx.x], sum = 0;

  if (threadIdx.x == 0)
    l.target[blockIdx.x] = label >= 0 && label < real ? to_float(x[label]) : 0;
  __syncthreads();
  for (int i = threadIdx.x; i < l.width; i += THREADS) {
    float e = i < real ? expf(to_float(x[i]) - largest) : 0;
    x[i] = from_float<T>(e);
    sum += e;
  }
  sum = block_reduce(sum, false);
  if (threadIdx.x == 0)
    l.sum[blockIdx.x] = sum;
}

__global__ static void merge(int rows, const float *local, const float *largest, float *sum)
{
  int row = blockIdx.x * THREADS + threadIdx.x;

  if (row < rows)
    sum[row] *= expf(local[row] - largest[row]);
}

template <typename T>
__global__ static void input_gradient(Rows<T> l, int hidden, const T *label, T *part, float factor)
{
  size_t row = blockIdx.x;
  float share = expf(l.local[row] - l.max[row]) / l.sum[row];

  for (size_t i = row * hidden + threadIdx.x; i < (row + 1) * hidden; i += THREADS)
    part[i] = from_float<T>(factor * (to_float(part[i]) * share - to_float(label[i])));
}

template <typename T> static Rows<T> rows_of(const ExecLoss *l)
{
  Rows<T> rows = { l->rows, l->width, l->first, l->vocab, (T *)l->logits, l->labels,
                   (float *)l->max, (float *)l->sum, (float *)l->target, (float *)l->local };
  return rows;
}

static void loss_max(Backend *b, BackendStream *s, const ExecLoss *l)
{
  by_type(b, [=](auto t) { row_max<<<l->rows, THREADS, 0, s->stream>>>(rows_of<decltype(t)>(l)); });
  cuda_check_launch(b, "loss");
}

static void loss_sum(Backend *b, BackendStream *s, const ExecLoss *l)
{
  by_type(b, [=](auto t) { row_sum<<<l->rows, THREADS, 0, s->stream>>>(rows_of<decltype(t)>(l)); });
  cuda_check_launch(b, "loss");
}

static void loss_value(Backend *b, BackendStream *s, const ExecLoss *l, double scale, double *loss)
{
  by_type(b, [=](auto t) { total<<<1, THREADS, 0, s->stream>>>(rows_of<decltype(t)>(l), scale, loss); });
  cuda_check_launch(b, "loss");
}

static void loss_backward(Backend *b, BackendStream *s, const ExecLoss *l, double scale)
{
  by_type(b, [=](auto t) { gradient<<<l->rows, THREADS, 0, s->stream>>>(rows_of<decltype(t)>(l), (float)scale); });
  cuda_check_launch(b, "loss backward");
}

static void loss_exp(Backend *b, BackendStream *s, const ExecLoss *l)
{
  by_type(b, [=](auto t) { row_exp<<<l->rows, THREADS, 0, s->stream>>>(rows_of<decltype(t)>(l)); });
  cuda_check_launch(b, "loss of a share");
}

static void loss_merge(Backend *b, BackendStream *s, const ExecLoss *l)
{
  merge<<<blocks_for(l->rows, THREADS), THREADS, 0, s->stream>>>(l->rows, (const float *)l->local,
                                                                (const float *)l->max, (float *)l->sum);
  cuda_check_launch(b, "loss of shares");
}

static void loss_input(Backend *b, BackendStream *s, const ExecLoss *l, int hidden, const void *label, void *part,
                       double scale)
{
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    input_gradient<T><<<l->rows, THREADS, 0, s->stream>>>(rows_of<T>(l), hidden, (const T *)label, (T *)part,
                                                         (float)scale);
  });
  cuda_check_launch(b, "loss input gradient");
}

void cuda_fill_loss(Backend *b)
{
  b->loss_exp = loss_exp;
  b->loss_merge = loss_merge;
  b->loss_input = loss_input;
  b->loss_max = loss_max;
  b->loss_sum = loss_sum;
  b->loss_value = loss_value;
  b->loss_backward = loss_backward;
}
