/* The gradient norm and Adam with a wide master copy (Kingma and Ba 2015, with
 * the decoupled decay of Loshchilov and Hutter 2019). */
#include "exec/cuda/internal.h"

#include <cmath>

__global__ static void squares(size_t n, const float *x, double *partials)
{
  __shared__ double sums[THREADS];
  double sum = 0;

  for (size_t i = blockIdx.x * (size_t)THREADS + threadIdx.x; i < n; i += (size_t)gridDim.x * THREADS)
    sum += (double)x[i] * x[i];
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int k = THREADS / 2; k > 0; k /= 2) {
    if (threadIdx.x < k)
      sums[threadIdx.x] += sums[threadIdx.x + k];
    __syncthreads();
  }
  if (threadIdx.x == 0)
    partials[blockIdx.x] = sums[0];
}

__global__ static void add_partials(int n, const double *partials, double *out)
{
  double sum = 0;
  for (int i = 0; i < n; i++)
    sum += partials[i];
  *out += sum;
}

static void sum_squares(Backend *b, BackendStream *s, size_t n, const void *x, double *out)
{
  const unsigned most = PARTIALS, wanted = blocks_for(n, THREADS * 16), blocks = wanted < most ? wanted : most;

  if (n == 0)
    return;
  squares<<<blocks, THREADS, 0, s->stream>>>(n, (const float *)x, s->partials);
  add_partials<<<1, 1, 0, s->stream>>>(blocks, s->partials, out);
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

template <typename T> __global__ static void update(Step a, T *weight)
{
  const float factor = gradient_factor(*a.norm_sq, a.loss_scale, a.max_norm);

  if (!isfinite(*a.norm_sq))
    return;
  for (size_t i = blockIdx.x * (size_t)THREADS + threadIdx.x; i < a.n; i += (size_t)gridDim.x * THREADS) {
    float g = a.gradient[i] * factor, w = a.master[i];
    float m = a.m[i] = a.beta1 * a.m[i] + (1 - a.beta1) * g;
    float v = a.v[i] = a.beta2 * a.v[i] + (1 - a.beta2) * g * g;
    w -= a.rate * (m / a.correct1 / (sqrtf(v / a.correct2) + a.epsilon) + a.decay * w);
    a.master[i] = w;
    weight[i] = from_float<T>(w);
  }
}

static void adam(Backend *b, BackendStream *s, const ExecAdam *a)
{
  Step step = { a->n, (float *)(a->master ? a->master : a->weight), (float *)a->m, (float *)a->v,
                (const float *)a->gradient, (float)a->rate, (float)a->beta1, (float)a->beta2, (float)a->epsilon,
                (float)a->decay, (float)(1 - pow(a->beta1, a->step)), (float)(1 - pow(a->beta2, a->step)), a->norm_sq,
                a->loss_scale, a->max_norm };
  const unsigned most = 1 << 16, blocks = blocks_for(a->n, THREADS);

  if (a->n == 0)
    return;
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    update<T><<<blocks < most ? blocks : most, THREADS, 0, s->stream>>>(step, (T *)a->weight);
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
