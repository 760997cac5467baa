/* Initial weights. Compiled without fused products, so that they are the host's to the bit. */
#include "exec/cuda/internal.h"
#include "exec/random.h"

template <typename T> __global__ static void fill_elements(ExecFill f, T *y)
{
  for (size_t i = blockIdx.x * (size_t)THREADS + threadIdx.x; i < f.n; i += (size_t)gridDim.x * THREADS)
    y[i] = from_float<T>((float)random_fill(&f, f.from + i));
}

static void fill(Backend *b, BackendStream *s, const ExecFill *f, void *y, ExecType type)
{
  const unsigned most = 1 << 16, blocks = blocks_for(f->n, THREADS);

  if (f->n == 0)
    return;
  by_type(type, [=](auto t) {
    typedef decltype(t) T;
    fill_elements<T><<<blocks < most ? blocks : most, THREADS, 0, s->stream>>>(*f, (T *)y);
  });
  cuda_check_launch(b, "initial weights");
}

void cuda_fill_random(Backend *b)
{
  b->fill = fill;
}
