/* Token and position embeddings. The gradient of the token table is added
 * atomically: its last bits depend on the order of equal tokens. */
#include "exec/cuda/internal.h"

template <typename T>
__global__ static void lookup(int width, int first, int n, const int32_t *tokens, const T *table, T *y)
{
  size_t row = blockIdx.x;
  int token = tokens[row] - first;

  for (int i = threadIdx.x; i < width; i += THREADS)
    y[row * width + i] = token >= 0 && token < n ? table[(size_t)token * width + i] : from_float<T>(0);
}

template <typename T>
__global__ static void scatter(int width, int first, int n, const int32_t *tokens, const T *dy, float *dtable)
{
  size_t row = blockIdx.x;
  int token = tokens[row] - first;

  if (token < 0 || token >= n)
    return;
  for (int i = threadIdx.x; i < width; i += THREADS)
    atomicAdd(&dtable[(size_t)token * width + i], to_float(dy[row * width + i]));
}

template <typename T>
__global__ static void add_positions(int width, ExecPlaces places, int first, const T *table, T *y)
{
  size_t row = blockIdx.x, position = exec_place(&places, first + row);

  for (int i = threadIdx.x; i < width; i += THREADS)
    y[row * width + i] = from_float<T>(to_float(y[row * width + i]) + to_float(table[position * width + i]));
}

/* A block for each position that occurs: its rows are seq apart. */
template <typename T>
__global__ static void sum_positions(int rows, int width, ExecPlaces places, int first, const T *dy, float *dtable)
{
  size_t start = blockIdx.x, position = exec_place(&places, first + start);

  for (int i = threadIdx.x; i < width; i += THREADS) {
    float sum = 0;
    for (size_t row = start; row < (size_t)rows; row += places.seq)
      sum += to_float(dy[row * width + i]);
    dtable[position * width + i] += sum;
  }
}

static void embedding_forward(Backend *b, BackendStream *s, int rows, int width, int first, int n,
                              const int32_t *tokens, const void *table, void *y)
{
  if (rows == 0)
    return;
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    lookup<T><<<rows, THREADS, 0, s->stream>>>(width, first, n, tokens, (const T *)table, (T *)y);
  });
  cuda_check_launch(b, "embedding");
}

static void embedding_backward(Backend *b, BackendStream *s, int rows, int width, int first, int n,
                               const int32_t *tokens, const void *dy, void *dtable)
{
  if (rows == 0)
    return;
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    scatter<T><<<rows, THREADS, 0, s->stream>>>(width, first, n, tokens, (const T *)dy, (float *)dtable);
  });
  cuda_check_launch(b, "embedding backward");
}

static void position_forward(Backend *b, BackendStream *s, int rows, int width, ExecPlaces places, int first,
                             const void *table, void *y)
{
  if (rows == 0)
    return;
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    add_positions<T><<<rows, THREADS, 0, s->stream>>>(width, places, first, (const T *)table, (T *)y);
  });
  cuda_check_launch(b, "positions");
}

static void position_backward(Backend *b, BackendStream *s, int rows, int width, ExecPlaces places, int first,
                              const void *dy, void *dtable)
{
  if (rows == 0)
    return;
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    sum_positions<T><<<rows < places.seq ? rows : places.seq, THREADS, 0, s->stream>>>(rows, width, places, first,
                                                                                      (const T *)dy, (float *)dtable);
  });
  cuda_check_launch(b, "positions backward");
}

void cuda_fill_embedding(Backend *b)
{
  b->embedding_forward = embedding_forward;
  b->embedding_backward = embedding_backward;
  b->position_forward = position_forward;
  b->position_backward = position_backward;
}
