/* The gradient norm and Adam with a wide master copy (Kingma and Ba 2015, with
 * the decoupled decay of Loshchilov and Hutter 2019). */
#include "exec/cuda/elements.h"

#include <cmath>

enum { BLOCKS_PER_UNIT = 16 };

template <int N> __device__ static double squares_at(const float *x, size_t i)
{
  const Floats<N> u = load<N>(x + i);
  double sum = 0;

  for (int k = 0; k < N; k++)
    sum += (double)u[k] * u[k];
  return sum;
}

template <int N> __global__ static void squares(size_t n, const float *x, double *partials)
{
  const size_t step = (size_t)gridDim.x * THREADS, first = blockIdx.x * (size_t)THREADS + threadIdx.x;
  const size_t whole = n / N * N;
  double sum = 0;

  for (size_t i = first * N; i < whole; i += step * N)
    sum += squares_at<N>(x, i);
  for (size_t i = whole + first; i < n; i += step)
    sum += squares_at<1>(x, i);
  sum = block_total(sum);
  if (threadIdx.x == 0)
    partials[blockIdx.x] = sum;
}

/* One block. */
__global__ static void add_partials(int n, const double *partials, double *out)
{
  double sum = 0;

  for (int i = threadIdx.x; i < n; i += THREADS)
    sum += partials[i];
  sum = block_total(sum);
  if (threadIdx.x == 0)
    *out += sum;
}

static void sum_squares(Backend *b, BackendStream *s, size_t n, const void *x, double *out)
{
  const unsigned most = PARTIALS, wanted = blocks_for(n, THREADS * 16), blocks = wanted < most ? wanted : most;

  if (n == 0)
    return;
  if (aligned({ x }))
    squares<RUN<float>><<<blocks, THREADS, 0, s->stream>>>(n, (const float *)x, s->partials);
  else
    squares<1><<<blocks, THREADS, 0, s->stream>>>(n, (const float *)x, s->partials);
  add_partials<<<1, THREADS, 0, s->stream>>>(blocks, s->partials, out);
  cuda_check_launch(b, "sum of squares");
}

/* What gradients are multiplied by: one over the loss scale, and clipped to the global norm. */
__host__ __device__ static float gradient_factor(double norm_sq, double loss_scale, double max_norm)
{
  double norm = sqrt(norm_sq) / loss_scale;
  return (float)((max_norm > 0 && norm > max_norm ? max_norm / norm : 1) / loss_scale);
}

struct Step {
  size_t n;
  float *master, *m, *v;
  const float *gradient;
  float rate, beta1, beta2, epsilon, decay, correct1, correct2;
  const double *norm_sq;
  double loss_scale, max_norm;
};

template <int N, typename T> __device__ static void update_at(const Step &a, T *weight, float factor, size_t i)
{
  const Floats<N> gradient = load<N>(a.gradient + i);
  Floats<N> m = load<N>(a.m + i), v = load<N>(a.v + i), w = load<N>(a.master + i);

#pragma unroll
  for (int k = 0; k < N; k++) {
    const float g = gradient[k] * factor;
    m[k] = a.beta1 * m[k] + (1 - a.beta1) * g;
    v[k] = a.beta2 * v[k] + (1 - a.beta2) * g * g;
    w[k] -= a.rate * (m[k] / a.correct1 / (sqrtf(v[k] / a.correct2) + a.epsilon) + a.decay * w[k]);
  }
  store(a.m + i, m);
  store(a.v + i, v);
  store(a.master + i, w);
  store(weight + i, w);
}

/* Few blocks, so that the norm's root is taken by few threads. */
template <int N, typename T> __global__ static void update(Step a, T *weight)
{
  const size_t step = (size_t)gridDim.x * THREADS, first = blockIdx.x * (size_t)THREADS + threadIdx.x;
  const size_t whole = a.n / N * N;
  const float factor = gradient_factor(*a.norm_sq, a.loss_scale, a.max_norm);

  if (!isfinite(*a.norm_sq))
    return;
  for (size_t i = first * N; i < whole; i += step * N)
    update_at<N>(a, weight, factor, i);
  for (size_t i = whole + first; i < a.n; i += step)
    update_at<1>(a, weight, factor, i);
}

static void adam(Backend *b, BackendStream *s, const ExecAdam *a)
{
  Step step = { a->n, (float *)(a->master ? a->master : a->weight), (float *)a->m, (float *)a->v,
                (const float *)a->gradient, (float)a->rate, (float)a->beta1, (float)a->beta2, (float)a->epsilon,
                (float)a->decay, (float)(1 - pow(a->beta1, a->step)), (float)(1 - pow(a->beta2, a->step)), a->norm_sq,
                a->loss_scale, a->max_norm };
  const unsigned most = BLOCKS_PER_UNIT * b->units, wanted = blocks_for(a->n, THREADS);
  const unsigned blocks = wanted < most ? wanted : most;

  if (a->n == 0)
    return;
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    T *weight = (T *)a->weight;
    if (aligned({ step.master, step.m, step.v, step.gradient, weight }))
      update<RUN<float>><<<blocks, THREADS, 0, s->stream>>>(step, weight);
    else
      update<1><<<blocks, THREADS, 0, s->stream>>>(step, weight);
  });
  cuda_check_launch(b, "adam");
}

/* The stream's own call to the host: what it needs, freed by it. */
struct HostStep {
  ExecAdam a;
  ExecType type;
  uint64_t *activity; /* of the backend */
};

enum { ACTIVE = 1 << 20 }; /* elements after which it counts as activity */

static void step_on_host(const HostStep *h)
{
  const ExecAdam *a = &h->a;
  const float *gradient = (const float *)a->gradient;
  float *master = (float *)a->master, *m = (float *)a->m, *v = (float *)a->v;
  float factor = gradient_factor(*a->norm_sq, a->loss_scale, a->max_norm);
  float beta1 = (float)a->beta1, beta2 = (float)a->beta2, rate = (float)(a->rate / (1 - pow(a->beta1, a->step)));
  float correction = (float)(1 / sqrt(1 - pow(a->beta2, a->step))), decay = (float)(1 - a->rate * a->decay);

  for (size_t i = 0; i < a->n; i++) {
    if (i % ACTIVE == 0)
      __atomic_add_fetch(h->activity, 1, __ATOMIC_RELAXED);
    float g = gradient[i] * factor;
    m[i] = beta1 * m[i] + (1 - beta1) * g;
    v[i] = beta2 * v[i] + (1 - beta2) * g * g;
    master[i] = master[i] * decay - rate * m[i] / (sqrtf(v[i]) * correction + (float)a->epsilon);
  }
}

static void CUDART_CB host_step(void *data)
{
  HostStep *h = (HostStep *)data;
  const ExecAdam *a = &h->a;

  if (std::isfinite(*a->norm_sq))
    step_on_host(h);
  by_type(h->type, [=](auto t) {
    typedef decltype(t) T;
    for (size_t i = 0; a->weight && i < a->n; i++)
      ((T *)a->weight)[i] = (T)((const float *)a->master)[i];
  });
  delete h;
}

static void host_adam(Backend *b, BackendStream *s, const ExecAdam *a)
{
  HostStep *step = new HostStep { *a, b->dtype, &b->activity };

  cuda_check(b, "adam of the host", cudaLaunchHostFunc(s->stream, host_step, step));
}

void cuda_fill_optimizer(Backend *b)
{
  b->host_adam = host_adam;
  b->sum_squares = sum_squares;
  b->adam = adam;
}
