/* Cross-entropy over a share of the vocabulary, a block a row. */
#include "exec/cuda/elements.h"

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

/* N logits from i on; minus infinity where they are padding. */
template <int N, typename T> __device__ static Floats<N> logits_at(const T *x, int i, int real)
{
  Floats<N> u = load<N>(x + i);

  return each<N>([&](int k) { return i + k < real ? u[k] : -INFINITY; });
}

template <int N> __device__ static float largest_of(const Floats<N> &u, float largest)
{
  for (int k = 0; k < N; k++)
    largest = fmaxf(largest, u[k]);
  return largest;
}

template <int N> __device__ static float sum_of_powers(const Floats<N> &u, float largest)
{
  float sum = 0;

  for (int k = 0; k < N; k++)
    sum += expf(u[k] - largest);
  return sum;
}

template <typename T> __device__ static float label_logit(const Rows<T> &l, const T *x)
{
  const int label = l.labels[blockIdx.x] - l.first;

  return label >= 0 && label < real_width(l) ? to_float(x[label]) : 0;
}

template <int N, typename T> __global__ static void row_max(Rows<T> l)
{
  const T *x = l.logits + blockIdx.x * (size_t)l.width;
  const int real = real_width(l);
  float largest = -INFINITY;

  for (int i = threadIdx.x * N; i < real; i += THREADS * N)
    largest = largest_of(logits_at<N>(x, i, real), largest);
  largest = block_reduce(largest, true);
  if (threadIdx.x == 0)
    l.max[blockIdx.x] = largest;
}

template <int N, typename T> __global__ static void row_sum(Rows<T> l)
{
  const T *x = l.logits + blockIdx.x * (size_t)l.width;
  const int real = real_width(l);
  float largest = l.max[blockIdx.x], sum = 0;

  for (int i = threadIdx.x * N; i < real; i += THREADS * N)
    sum += sum_of_powers(logits_at<N>(x, i, real), largest);
  sum = block_reduce(sum, false);
  if (threadIdx.x == 0) {
    l.sum[blockIdx.x] = sum;
    l.target[blockIdx.x] = label_logit(l, x);
  }
}

/* Both in one reading: a thread's sum is of powers below its largest logit so far. */
template <int N, typename T> __global__ static void row_max_sum(Rows<T> l)
{
  const T *x = l.logits + blockIdx.x * (size_t)l.width;
  const int real = real_width(l);
  float own = -INFINITY, sum = 0;

  for (int i = threadIdx.x * N; i < real; i += THREADS * N) {
    Floats<N> u = logits_at<N>(x, i, real);
    float larger = largest_of(u, own);
    if (larger > -INFINITY)
      sum = sum * expf(own - larger) + sum_of_powers(u, larger);
    own = larger;
  }
  float largest = block_reduce(own, true);
  sum = block_reduce(own > -INFINITY ? sum * expf(own - largest) : 0, false);
  if (threadIdx.x == 0) {
    l.max[blockIdx.x] = largest;
    l.sum[blockIdx.x] = sum;
    l.target[blockIdx.x] = label_logit(l, x);
  }
}

/* One block. */
template <typename T> __global__ static void total(Rows<T> l, double factor, double *loss)
{
  double sum = 0;

  for (int i = threadIdx.x; i < l.rows; i += THREADS)
    sum += log((double)l.sum[i]) + l.max[i] - l.target[i];
  sum = block_total(sum);
  if (threadIdx.x == 0)
    *loss += sum * factor;
}

template <int N, typename T> __global__ static void gradient(Rows<T> l, float factor)
{
  T *x = l.logits + blockIdx.x * (size_t)l.width;
  const int label = l.labels[blockIdx.x] - l.first, real = real_width(l);
  const float largest = l.max[blockIdx.x], scale = factor / l.sum[blockIdx.x];
  const float share = l.local ? scale * expf(l.local[blockIdx.x] - largest) : 0;

  for (int i = threadIdx.x * N; i < l.width; i += THREADS * N) {
    Floats<N> u = load<N>(x + i);
    store(x + i, each<N>([&](int k) {
            float d = i + k >= real ? 0 : l.local ? u[k] * share : expf(u[k] - largest) * scale;
            return i + k == label && i + k < real ? d - factor : d;
          }));
  }
}

/* The label's logit is read before any logit is replaced. */
template <int N, typename T> __global__ static void row_exp(Rows<T> l)
{
  T *x = l.logits + blockIdx.x * (size_t)l.width;
  const int real = real_width(l);
  float largest = l.local[blockIdx.x], sum = 0;

  if (threadIdx.x == 0)
    l.target[blockIdx.x] = label_logit(l, x);
  __syncthreads();
  for (int i = threadIdx.x * N; i < l.width; i += THREADS * N) {
    Floats<N> u = load<N>(x + i), e = each<N>([&](int k) { return i + k < real ? expf(u[k] - largest) : 0; });
    store(x + i, e);
    for (int k = 0; k < N; k++)
      sum += e[k];
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

template <typename T> struct InputGradient {
  Rows<T> l;
  int hidden;
  const T *label;
  T *part;
  float factor;
  template <int N> __device__ void run(size_t row, int i) const
  {
    const float share = expf(l.local[row] - l.max[row]) / l.sum[row];
    const size_t at = row * hidden + i;
    Floats<N> u = load<N>(part + at), v = load<N>(label + at);
    store(part + at, each<N>([&](int k) { return factor * (u[k] * share - v[k]); }));
  }
};

template <typename T> static Rows<T> rows_of(const ExecLoss *l)
{
  Rows<T> rows = { l->rows, l->width, l->first, l->vocab, (T *)l->logits, l->labels,
                   (float *)l->max, (float *)l->sum, (float *)l->target, (float *)l->local };
  return rows;
}

/* Calls f with the element type and the number of logits that a thread takes at once, as types. */
template <typename F> static void by_row(Backend *b, const ExecLoss *l, const char *what, F f)
{
  if (l->rows == 0)
    return;
  by_type(b, [=](auto t) {
    by_run<decltype(t)>(aligned({ l->logits }), l->width, [=](auto n) { f(t, n); });
  });
  cuda_check_launch(b, what);
}

static void loss_rows(Backend *b, BackendStream *s, const ExecLoss *l, ExecLossPart parts)
{
  by_row(b, l, "loss", [=](auto t, auto n) {
    constexpr int N = decltype(n)::value;
    auto rows = rows_of<decltype(t)>(l);
    if (parts == EXEC_LOSS_BOTH)
      row_max_sum<N><<<l->rows, THREADS, 0, s->stream>>>(rows);
    else if (parts == EXEC_LOSS_MAX)
      row_max<N><<<l->rows, THREADS, 0, s->stream>>>(rows);
    else
      row_sum<N><<<l->rows, THREADS, 0, s->stream>>>(rows);
  });
}

static void loss_value(Backend *b, BackendStream *s, const ExecLoss *l, double scale, double *loss)
{
  by_type(b, [=](auto t) { total<<<1, THREADS, 0, s->stream>>>(rows_of<decltype(t)>(l), scale, loss); });
  cuda_check_launch(b, "loss");
}

static void loss_backward(Backend *b, BackendStream *s, const ExecLoss *l, double scale)
{
  by_row(b, l, "loss backward", [=](auto t, auto n) {
    constexpr int N = decltype(n)::value;
    gradient<N><<<l->rows, THREADS, 0, s->stream>>>(rows_of<decltype(t)>(l), (float)scale);
  });
}

static void loss_exp(Backend *b, BackendStream *s, const ExecLoss *l)
{
  by_row(b, l, "loss of a share", [=](auto t, auto n) {
    constexpr int N = decltype(n)::value;
    row_exp<N><<<l->rows, THREADS, 0, s->stream>>>(rows_of<decltype(t)>(l));
  });
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
    launch_rows<RUN<T>>(b, s, "loss input gradient", l->rows, hidden, aligned({ label, part }),
                        InputGradient<T> { rows_of<T>(l), hidden, (const T *)label, (T *)part, (float)scale });
  });
}

void cuda_fill_loss(Backend *b)
{
  b->loss_exp = loss_exp;
  b->loss_merge = loss_merge;
  b->loss_input = loss_input;
  b->loss_rows = loss_rows;
  b->loss_value = loss_value;
  b->loss_backward = loss_backward;
}
