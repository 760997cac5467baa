/*
 * Softmax attention in tiles with running maxima and sums (Dao et al. 2022, arXiv
 * 2205.14135): the square of the sequence is never stored. Arithmetic is fp32 on
 * the ordinary units, and every sum has a fixed order. A warp owns ROWS rows; its
 * lanes are first the 32 rows of the other side's tile, then the elements of a
 * head. Backward is one kernel for dq, in which warps own queries, and one for dk
 * and dv, in which warps own keys and go through all queries that read them.
 */
#include "exec/cuda/internal.h"

enum { WARPS = 4, ROWS = 4, OWN = WARPS * ROWS, TILE = 32, HEAD_MAX = 256, PER_LANE = HEAD_MAX / 32 };

/* One side's tokens: those of a sequence that take part, those from one to the next,
 * elements from a token to the next. */
struct Side {
  int len, rows, ld;
};

struct Shape {
  int batch, heads, kv_heads, dim, causal, window, add;
  Side q, kv, out; /* out: context, laid out by queries */
  float scale;
};

static inline Shape shape_of(const ExecAttention *a)
{
  Shape s = { a->batch, a->heads, a->kv_heads, a->head_dim, a->causal, a->window, a->add,
              { a->q_len, a->q_rows, a->ld_q }, { a->kv_len, a->kv_rows, a->ld_kv },
              { a->q_len, a->q_rows, a->heads * a->head_dim }, (float)a->scale };
  return s;
}

__device__ static bool sees(const Shape &s, int query, int key)
{
  return key < s.kv.len && query < s.q.len && (!s.causal || key <= query) &&
         (s.window <= 0 || key > query - s.window) &&
         (s.causal || s.window <= 0 || key < query + s.window);
}

/* First element of a token's head. */
template <typename T>
__device__ static T *head_at(T *x, const Shape &s, const Side &side, int sequence, int token, int head)
{
  return x + ((size_t)sequence * side.rows + token) * side.ld + (size_t)head * s.dim;
}

template <typename T> __device__ static void give(const Shape &s, T *to, float value)
{
  *to = from_float<T>(s.add ? to_float(*to) + value : value);
}

/* Copies TILE rows from `first` on into shared memory, rows of dim + 1 floats. */
template <typename T>
__device__ static void load_tile(float *tile, const T *x, const Shape &s, const Side &side, int sequence, int first,
                                 int n, int head)
{
  for (int i = threadIdx.x; i < n * s.dim; i += WARPS * 32) {
    int row = i / s.dim, at = i % s.dim;
    tile[row * (s.dim + 1) + at] =
        first + row < side.len ? to_float(head_at(x, s, side, sequence, first + row, head)[at]) : 0;
  }
}

__device__ static float dot(const float *x, const float *y, int n)
{
  float sum = 0;
  for (int i = 0; i < n; i++)
    sum = fmaf(x[i], y[i], sum);
  return sum;
}

/* sum over the tile's rows j of weight (of lane j) times row j, by lanes over elements. */
__device__ static void add_weighted(float *out, float weight, const float *tile, int dim, int lane)
{
  for (int j = 0; j < TILE; j++) {
    float w = __shfl_sync(~0u, weight, j);
#pragma unroll
    for (int e = 0; e < PER_LANE; e++)
      if (lane + 32 * e < dim)
        out[e] = fmaf(w, tile[j * (dim + 1) + lane + 32 * e], out[e]);
  }
}

/* The keys that any of the block's queries sees, in whole tiles. */
__device__ static int first_key(const Shape &s, int query)
{
  return s.window > 0 ? max(0, query - s.window + 1) / TILE * TILE : 0;
}

__device__ static int end_key(const Shape &s, int query)
{
  return s.causal ? min(s.kv.len, query + OWN) : s.kv.len;
}

template <typename T>
__global__ static void forward(Shape s, const T *q, const T *k, const T *v, T *context, float *lse)
{
  extern __shared__ float shared[];
  int dim1 = s.dim + 1, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float *queries = shared, *keys = queries + OWN * dim1, *values = keys + TILE * dim1;
  int head = blockIdx.y, kv_head = head / (s.heads / s.kv_heads), sequence = blockIdx.z, first = blockIdx.x * OWN;
  float top[ROWS], sum[ROWS], out[ROWS][PER_LANE] = {};

  for (int r = 0; r < ROWS; r++) {
    top[r] = -INFINITY;
    sum[r] = 0;
  }
  load_tile(queries, q, s, s.q, sequence, first, OWN, head);
  for (int tile = first_key(s, first); tile < end_key(s, first); tile += TILE) {
    __syncthreads();
    load_tile(keys, k, s, s.kv, sequence, tile, TILE, kv_head);
    load_tile(values, v, s, s.kv, sequence, tile, TILE, kv_head);
    __syncthreads();
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      int query = first + warp * ROWS + r;
      float score = sees(s, query, tile + lane)
                        ? s.scale * dot(queries + (warp * ROWS + r) * dim1, keys + lane * dim1, s.dim)
                        : -INFINITY;
      float largest = fmaxf(top[r], warp_max(score));
      if (largest == -INFINITY)
        continue;
      float weight = expf(score - largest), keep = expf(top[r] - largest);
      top[r] = largest;
      sum[r] = sum[r] * keep + warp_sum(weight);
      for (int e = 0; e < PER_LANE; e++)
        out[r][e] *= keep;
      add_weighted(out[r], weight, values, s.dim, lane);
    }
  }
  for (int r = 0; r < ROWS; r++) {
    int query = first + warp * ROWS + r;
    if (query >= s.q.len)
      continue;
    T *row = head_at(context, s, s.out, sequence, query, head);
    for (int e = 0; e < PER_LANE; e++)
      if (lane + 32 * e < s.dim)
        row[lane + 32 * e] = from_float<T>(out[r][e] / sum[r]);
    if (lane == 0)
      lse[((size_t)sequence * s.heads + head) * s.q.rows + query] = top[r] + logf(sum[r]);
  }
}

/* sum over a head of dcontext times context: what softmax's gradient subtracts. */
template <typename T> __global__ static void row_delta(Shape s, const T *context, const T *dcontext, float *delta)
{
  int lane = threadIdx.x % 32;
  size_t row = blockIdx.x * (size_t)WARPS + threadIdx.x / 32, rows = (size_t)s.batch * s.heads * s.q.rows;
  float sum = 0;

  if (row >= rows || row % s.q.rows >= s.q.len)
    return;
  int query = row % s.q.rows, head = row / s.q.rows % s.heads, sequence = row / s.q.rows / s.heads;
  const T *c = head_at(context, s, s.out, sequence, query, head);
  const T *d = head_at(dcontext, s, s.out, sequence, query, head);
  for (int e = lane; e < s.dim; e += 32)
    sum += to_float(c[e]) * to_float(d[e]);
  sum = warp_sum(sum);
  if (lane == 0)
    delta[row] = sum;
}

template <typename T>
__global__ static void backward_query(Shape s, const T *q, const T *k, const T *v, const T *dcontext, const float *lse,
                                      const float *delta, T *dq)
{
  extern __shared__ float shared[];
  int dim1 = s.dim + 1, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float *queries = shared, *outs = queries + OWN * dim1, *keys = outs + OWN * dim1, *values = keys + TILE * dim1;
  int head = blockIdx.y, kv_head = head / (s.heads / s.kv_heads), sequence = blockIdx.z, first = blockIdx.x * OWN;
  const size_t rows = ((size_t)sequence * s.heads + head) * s.q.rows;
  float out[ROWS][PER_LANE] = {};

  load_tile(queries, q, s, s.q, sequence, first, OWN, head);
  load_tile(outs, dcontext, s, s.out, sequence, first, OWN, head);
  for (int tile = first_key(s, first); tile < end_key(s, first); tile += TILE) {
    __syncthreads();
    load_tile(keys, k, s, s.kv, sequence, tile, TILE, kv_head);
    load_tile(values, v, s, s.kv, sequence, tile, TILE, kv_head);
    __syncthreads();
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      int own = warp * ROWS + r, query = first + own;
      float slope = 0;
      if (query >= s.q.len)
        continue;
      if (sees(s, query, tile + lane)) {
        float p = expf(s.scale * dot(queries + own * dim1, keys + lane * dim1, s.dim) - lse[rows + query]);
        slope = s.scale * p * (dot(outs + own * dim1, values + lane * dim1, s.dim) - delta[rows + query]);
      }
      add_weighted(out[r], slope, keys, s.dim, lane);
    }
  }
  for (int r = 0; r < ROWS; r++) {
    int query = first + warp * ROWS + r;
    for (int e = 0; e < PER_LANE && query < s.q.len; e++)
      if (lane + 32 * e < s.dim)
        give(s, &head_at(dq, s, s.q, sequence, query, head)[lane + 32 * e], out[r][e]);
  }
}

/* First query of the tile row that sees a key of the block, and the end. */
__device__ static int first_query(const Shape &s, int key)
{
  return s.causal ? key / TILE * TILE : s.window > 0 ? max(0, key - s.window + 1) / TILE * TILE : 0;
}

__device__ static int end_query(const Shape &s, int key)
{
  return s.window > 0 ? min(s.q.len, key + OWN + s.window) : s.q.len;
}

template <typename T>
__global__ static void backward_key(Shape s, const T *q, const T *k, const T *v, const T *dcontext, const float *lse,
                                    const float *delta, T *dk, T *dv)
{
  extern __shared__ float shared[];
  int dim1 = s.dim + 1, lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = s.heads / s.kv_heads;
  float *keys = shared, *values = keys + OWN * dim1, *queries = values + OWN * dim1, *outs = queries + TILE * dim1;
  int kv_head = blockIdx.y, sequence = blockIdx.z, first = blockIdx.x * OWN;
  float out_k[ROWS][PER_LANE] = {}, out_v[ROWS][PER_LANE] = {};

  load_tile(keys, k, s, s.kv, sequence, first, OWN, kv_head);
  load_tile(values, v, s, s.kv, sequence, first, OWN, kv_head);
  for (int head = kv_head * group; head < (kv_head + 1) * group; head++) {
    const size_t rows = ((size_t)sequence * s.heads + head) * s.q.rows;
    for (int tile = first_query(s, first); tile < end_query(s, first); tile += TILE) {
      __syncthreads();
      load_tile(queries, q, s, s.q, sequence, tile, TILE, head);
      load_tile(outs, dcontext, s, s.out, sequence, tile, TILE, head);
      __syncthreads();
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        int own = warp * ROWS + r, query = tile + lane;
        float p = 0, slope = 0;
        if (first + own >= s.kv.len)
          continue;
        if (sees(s, query, first + own)) {
          p = expf(s.scale * dot(queries + lane * dim1, keys + own * dim1, s.dim) - lse[rows + query]);
          slope = s.scale * p * (dot(outs + lane * dim1, values + own * dim1, s.dim) - delta[rows + query]);
        }
        add_weighted(out_v[r], p, outs, s.dim, lane);
        add_weighted(out_k[r], slope, queries, s.dim, lane);
      }
    }
  }
  for (int r = 0; r < ROWS; r++) {
    int key = first + warp * ROWS + r;
    for (int e = 0; e < PER_LANE && key < s.kv.len; e++)
      if (lane + 32 * e < s.dim) {
        give(s, &head_at(dk, s, s.kv, sequence, key, kv_head)[lane + 32 * e], out_k[r][e]);
        give(s, &head_at(dv, s, s.kv, sequence, key, kv_head)[lane + 32 * e], out_v[r][e]);
      }
  }
}

/* Shared memory of `own` and `other` tiles. */
static size_t shared_bytes(const ExecAttention *a, int own, int other)
{
  return (size_t)(own * OWN + other * TILE) * (a->head_dim + 1) * sizeof(float);
}

template <typename K> static void allow_shared(Backend *b, K kernel, size_t bytes)
{
  cuda_check(b, "attention", cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
}

static bool fits(Backend *b, const ExecAttention *a)
{
  if (a->head_dim > HEAD_MAX)
    cuda_fail(b, "attention", "heads of more than 256 elements");
  return a->head_dim <= HEAD_MAX && a->batch > 0 && a->q_len > 0 && a->kv_len > 0;
}

/* Whether cuDNN has taken it. */
static bool taken(Backend *b, BackendStream *s, const ExecAttention *a, int backward)
{
#ifdef TDP_CUDNN
  return cudnn_attention(b, s, a, backward);
#else
  (void)b, (void)s, (void)a, (void)backward;
  return false;
#endif
}

static void attention_forward(Backend *b, BackendStream *s, const ExecAttention *a)
{
  dim3 grid(blocks_for(a->q_len, OWN), a->heads, a->batch);
  size_t bytes = shared_bytes(a, 1, 2);

  if (taken(b, s, a, 0) || !fits(b, a))
    return;
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    allow_shared(b, forward<T>, bytes);
    forward<T><<<grid, WARPS * 32, bytes, s->stream>>>(shape_of(a), (const T *)a->q, (const T *)a->k, (const T *)a->v,
                                                       (T *)a->context, (float *)a->lse);
  });
  cuda_check_launch(b, "attention");
}

static void attention_backward(Backend *b, BackendStream *s, const ExecAttention *a)
{
  size_t rows = (size_t)a->batch * a->heads * a->q_rows, bytes = shared_bytes(a, 2, 2);
  float *delta = NULL;

  if (taken(b, s, a, 1) || !fits(b, a))
    return;
  cuda_check(b, "attention", cudaMallocAsync((void **)&delta, rows * sizeof *delta, s->stream));
  if (!delta)
    return;
  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    const T *q = (const T *)a->q, *k = (const T *)a->k, *v = (const T *)a->v, *d = (const T *)a->dcontext;
    const float *lse = (const float *)a->lse;
    dim3 queries(blocks_for(a->q_len, OWN), a->heads, a->batch);
    dim3 keys(blocks_for(a->kv_len, OWN), a->kv_heads, a->batch);

    allow_shared(b, backward_query<T>, bytes);
    allow_shared(b, backward_key<T>, bytes);
    row_delta<T><<<blocks_for(rows, WARPS), WARPS * 32, 0, s->stream>>>(shape_of(a), (const T *)a->context, d, delta);
    backward_query<T><<<queries, WARPS * 32, bytes, s->stream>>>(shape_of(a), q, k, v, d, lse, delta, (T *)a->dq);
    backward_key<T>
        <<<keys, WARPS * 32, bytes, s->stream>>>(shape_of(a), q, k, v, d, lse, delta, (T *)a->dk, (T *)a->dv);
  });
  cuda_check_launch(b, "attention backward");
  cuda_check(b, "attention", cudaFreeAsync(delta, s->stream));
}

/* With w = exp(lse), both contexts weigh w of the sum of the two. */
template <typename T>
__global__ static void merge(Shape s, T *context, float *lse, const T *other_context, const float *other_lse)
{
  int lane = threadIdx.x % 32, query = blockIdx.x * WARPS + threadIdx.x / 32, head = blockIdx.y, sequence = blockIdx.z;
  size_t row = ((size_t)sequence * s.heads + head) * s.q.rows + query;

  if (query >= s.q.len)
    return;
  T *own = head_at(context, s, s.out, sequence, query, head);
  const T *other = head_at(other_context, s, s.out, sequence, query, head);
  float top = fmaxf(lse[row], other_lse[row]), u = expf(lse[row] - top), v = expf(other_lse[row] - top);
  for (int e = lane; e < s.dim; e += 32)
    own[e] = from_float<T>((to_float(own[e]) * u + to_float(other[e]) * v) / (u + v));
  __syncwarp();
  if (lane == 0)
    lse[row] = top + logf(u + v);
}

static void attention_merge(Backend *b, BackendStream *s, const ExecAttention *a, const void *context, const void *lse)
{
  dim3 grid(blocks_for(a->q_len, WARPS), a->heads, a->batch);

  by_type(b, [=](auto t) {
    typedef decltype(t) T;
    merge<T><<<grid, WARPS * 32, 0, s->stream>>>(shape_of(a), (T *)a->context, (float *)a->lse, (const T *)context,
                                                 (const float *)lse);
  });
  cuda_check_launch(b, "attention merge");
}

void cuda_fill_attention(Backend *b)
{
  b->attention_merge = attention_merge;
  b->attention_forward = attention_forward;
  b->attention_backward = attention_backward;
}
