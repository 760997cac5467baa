/*
 * Flash attention by cuDNN, as graphs of its backend API that its fused engines
 * know (products, softmax and mask between them; the statistics are our lse). For
 * 16-bit heads of at most 128 elements, full or causal; all else, and what cuDNN
 * refuses, is left to attention.cu.
 */
#include "exec/cuda/cudnn_graph.h"
#include "exec/cuda/elements.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GRAPHS_MAX = 32, NUMBERS_MAX = 16 };

/* Numbers of what is given at each run. */
enum { Q = 1, K, V, O, STATS, SCALE, LOWEST, ONE, D_O, D_Q, D_K, D_V, ROW_SUMS, Q_SUMS };

/* What decides a graph. */
struct Key {
  int backward, batch, q_len, kv_len, q_rows, kv_rows, heads, kv_heads, head_dim, ld_q, ld_kv, causal;
};

struct Entry {
  Key key;
  CudnnGraph *graph; /* NULL: cuDNN refuses it */
};

struct Cudnn {
  CudnnLibrary library;
  cudnnHandle_t handle;
  Entry entries[GRAPHS_MAX];
  int n, told;
};

struct Attention {
  CudnnGraph *g;
  const Key *key;
  cudnnDataType_t type;
  CudnnShape q, kv, out, scores, rows; /* rows: one value a query */
  CudnnPart scale;
};

static CudnnShape side(int64_t batch, int64_t heads, int64_t len, int64_t dim, int64_t rows, int64_t ld)
{
  CudnnShape s = { { batch, heads, len, dim }, { rows * ld, dim, ld, 1 } };
  return s;
}

static Attention attention_of(CudnnGraph *g, const Key *k, ExecType dtype)
{
  Attention a;

  a.g = g;
  a.key = k;
  a.type = dtype == EXEC_F16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
  a.q = side(k->batch, k->heads, k->q_len, k->head_dim, k->q_rows, k->ld_q);
  a.kv = side(k->batch, k->kv_heads, k->kv_len, k->head_dim, k->kv_rows, k->ld_kv);
  a.out = side(k->batch, k->heads, k->q_len, k->head_dim, k->q_rows, k->heads * k->head_dim);
  a.scores = cudnn_dense(k->batch, k->heads, k->q_len, k->kv_len);
  a.rows = cudnn_dense(k->batch, k->heads, k->q_len, 1);
  a.rows.stride[0] = (int64_t)k->heads * k->q_rows;
  a.rows.stride[1] = k->q_rows;
  a.scale = cudnn_value(g, SCALE);
  return a;
}

static CudnnPart wide(Attention *a, const CudnnShape *shape)
{
  return cudnn_between(a->g, CUDNN_DATA_FLOAT, shape);
}

static CudnnPart pointwise(Attention *a, cudnnPointwiseMode_t mode, CudnnPart x, CudnnPart b, const CudnnShape *shape)
{
  CudnnPart y = wide(a, shape);

  cudnn_pointwise(a->g, mode, x, b, y);
  return y;
}

static CudnnPart product(Attention *a, CudnnPart x, CudnnPart b, const CudnnShape *shape)
{
  CudnnPart y = wide(a, shape);

  cudnn_matmul(a->g, x, b, y);
  return y;
}

/* A query sees the keys up to its own. */
static CudnnPart mask(Attention *a, CudnnPart scores)
{
  if (!a->key->causal)
    return scores;
  CudnnPart row = cudnn_between(a->g, CUDNN_DATA_INT32, &a->scores);
  CudnnPart column = cudnn_between(a->g, CUDNN_DATA_INT32, &a->scores);
  CudnnPart seen = cudnn_between(a->g, CUDNN_DATA_BOOLEAN, &a->scores), masked = wide(a, &a->scores);
  cudnn_index(a->g, 2, scores, row);
  cudnn_index(a->g, 3, scores, column);
  cudnn_compare(a->g, CUDNN_POINTWISE_CMP_GE, row, column, seen);
  cudnn_select(a->g, scores, cudnn_value(a->g, LOWEST), seen, masked);
  return masked;
}

static CudnnPart scaled_scores(Attention *a, CudnnPart q, CudnnPart k_transposed)
{
  return pointwise(a, CUDNN_POINTWISE_MUL, product(a, q, k_transposed, &a->scores), a->scale, &a->scores);
}

/* Probabilities in 16 bits, and the statistics. */
static CudnnPart softmax(Attention *a, CudnnPart scores)
{
  CudnnPart largest = wide(a, &a->rows), sum = wide(a, &a->rows);
  CudnnPart probabilities = cudnn_between(a->g, a->type, &a->scores);

  cudnn_reduce(a->g, CUDNN_REDUCE_TENSOR_MAX, scores, largest);
  CudnnPart below = pointwise(a, CUDNN_POINTWISE_SUB, scores, largest, &a->scores);
  CudnnPart powers = pointwise(a, CUDNN_POINTWISE_EXP, below, NULL, &a->scores);
  cudnn_reduce(a->g, CUDNN_REDUCE_TENSOR_ADD, powers, sum);
  CudnnPart log = pointwise(a, CUDNN_POINTWISE_LOG, sum, NULL, &a->rows);
  cudnn_pointwise(a->g, CUDNN_POINTWISE_ADD, largest, log, cudnn_bound(a->g, STATS, CUDNN_DATA_FLOAT, &a->rows));
  cudnn_pointwise(a->g, CUDNN_POINTWISE_DIV, powers, sum, probabilities);
  return probabilities;
}

static void build_forward(Attention *a)
{
  CudnnShape transposed = cudnn_transposed(&a->kv);
  CudnnPart q = cudnn_bound(a->g, Q, a->type, &a->q), k = cudnn_bound(a->g, K, a->type, &transposed);
  CudnnPart probabilities = softmax(a, mask(a, scaled_scores(a, q, k)));

  cudnn_matmul(a->g, probabilities, cudnn_bound(a->g, V, a->type, &a->kv), cudnn_bound(a->g, O, a->type, &a->out));
}

/* Rows of dO O, which every score's gradient loses. */
static CudnnPart row_sums(Attention *a, CudnnPart d_out)
{
  CudnnShape dense = cudnn_dense(a->key->batch, a->key->heads, a->key->q_len, a->key->head_dim);
  CudnnShape rows = cudnn_dense(a->key->batch, a->key->heads, a->key->q_len, 1);
  CudnnPart products = pointwise(a, CUDNN_POINTWISE_MUL, d_out, cudnn_bound(a->g, O, a->type, &a->out), &dense);
  CudnnPart sums = wide(a, &rows), kept = cudnn_bound(a->g, ROW_SUMS, CUDNN_DATA_FLOAT, &rows);

  cudnn_reduce(a->g, CUDNN_REDUCE_TENSOR_ADD, products, sums);
  cudnn_pointwise(a->g, CUDNN_POINTWISE_MUL, sums, cudnn_value(a->g, ONE), kept);
  return kept;
}

/* x^T y for each key, summed over the query heads that read it. */
static void key_gradient(Attention *a, CudnnPart x, CudnnPart y, int64_t number)
{
  CudnnShape turned = cudnn_transposed(&a->scores);
  CudnnShape all = cudnn_dense(a->key->batch, a->key->heads, a->key->kv_len, a->key->head_dim);
  CudnnPart transposed = cudnn_between(a->g, a->type, &turned), gradient = cudnn_bound(a->g, number, a->type, &a->kv);

  cudnn_reshape(a->g, x, transposed);
  if (a->key->heads == a->key->kv_heads) {
    cudnn_matmul(a->g, transposed, y, gradient);
    return;
  }
  CudnnPart of_heads = cudnn_between(a->g, a->type, &all);
  cudnn_matmul(a->g, transposed, y, of_heads);
  cudnn_reduce(a->g, CUDNN_REDUCE_TENSOR_ADD, of_heads, gradient);
}

static void query_gradient(Attention *a, CudnnPart d_scores, CudnnPart k_transposed)
{
  CudnnShape dense = cudnn_dense(a->key->batch, a->key->heads, a->key->q_len, a->key->head_dim);
  CudnnPart k = cudnn_between(a->g, a->type, &a->kv), sums = cudnn_bound(a->g, Q_SUMS, CUDNN_DATA_FLOAT, &dense);

  cudnn_reshape(a->g, k_transposed, k);
  cudnn_matmul(a->g, d_scores, k, sums);
  cudnn_pointwise(a->g, CUDNN_POINTWISE_IDENTITY, sums, NULL, cudnn_bound(a->g, D_Q, a->type, &a->q));
}

static void build_backward(Attention *a)
{
  CudnnShape transposed = cudnn_transposed(&a->kv);
  CudnnPart q = cudnn_bound(a->g, Q, a->type, &a->q), k = cudnn_bound(a->g, K, a->type, &transposed);
  CudnnPart v = cudnn_bound(a->g, V, a->type, &transposed), d_out = cudnn_bound(a->g, D_O, a->type, &a->out);
  CudnnPart sums = row_sums(a, d_out), stats = cudnn_bound(a->g, STATS, CUDNN_DATA_FLOAT, &a->rows);
  CudnnPart below = pointwise(a, CUDNN_POINTWISE_SUB, scaled_scores(a, q, k), stats, &a->scores);
  CudnnPart probabilities = pointwise(a, CUDNN_POINTWISE_EXP, mask(a, below), NULL, &a->scores);

  key_gradient(a, probabilities, d_out, D_V);
  CudnnPart d = pointwise(a, CUDNN_POINTWISE_SUB, product(a, d_out, v, &a->scores), sums, &a->scores);
  d = pointwise(a, CUDNN_POINTWISE_MUL, d, probabilities, &a->scores);
  d = pointwise(a, CUDNN_POINTWISE_MUL, d, a->scale, &a->scores);
  key_gradient(a, d, q, D_K);
  query_gradient(a, d, k);
}

static void refuse(Cudnn *c, const Key *k, cudnnStatus_t status)
{
  if (!c->told)
    fprintf(stderr, "cuda: cuDNN refuses %s of %d heads of %d over %d tokens (%s): own kernels instead\n",
            k->backward ? "attention's gradient" : "attention", k->heads, k->head_dim, k->kv_len,
            c->library.error_string(status));
  c->told = 1;
}

static CudnnGraph *graph_new(Cudnn *c, const Key *key, ExecType dtype)
{
  CudnnGraph *g = (CudnnGraph *)calloc(1, sizeof *g);

  cudnn_graph_open(g, &c->library, c->handle);
  Attention a = attention_of(g, key, dtype);
  if (key->backward)
    build_backward(&a);
  else
    build_forward(&a);
  cudnn_graph_plan(g);
  if (g->status == CUDNN_STATUS_SUCCESS)
    return g;
  refuse(c, key, g->status);
  cudnn_graph_close(g);
  free(g);
  return NULL;
}

static Key key_of(const ExecAttention *a, int backward)
{
  Key k;

  memset(&k, 0, sizeof k);
  k.backward = backward;
  k.batch = a->batch;
  k.q_len = a->q_len;
  k.kv_len = a->kv_len;
  k.q_rows = a->q_rows;
  k.kv_rows = a->kv_rows;
  k.heads = a->heads;
  k.kv_heads = a->kv_heads;
  k.head_dim = a->head_dim;
  k.ld_q = a->ld_q;
  k.ld_kv = a->ld_kv;
  k.causal = a->causal;
  return k;
}

static Entry *entry_of(Cudnn *c, const Key *key, ExecType dtype)
{
  for (int i = 0; i < c->n; i++)
    if (memcmp(&c->entries[i].key, key, sizeof *key) == 0)
      return &c->entries[i];
  if (c->n == GRAPHS_MAX)
    return NULL;
  Entry *e = &c->entries[c->n++];
  e->key = *key;
  e->graph = graph_new(c, key, dtype);
  return e;
}

static bool suits(Backend *b, const ExecAttention *a)
{
  return b->dtype != EXEC_F32 && !a->add && a->window <= 0 && a->head_dim % 8 == 0 && a->head_dim <= 128 &&
         a->ld_q % 8 == 0 && a->ld_kv % 8 == 0 && (!a->causal || a->q_len == a->kv_len) &&
         aligned({ a->q, a->k, a->v, a->context, a->dcontext, a->dq, a->dk, a->dv }) && a->batch > 0 && a->q_len > 0 &&
         a->kv_len > 0;
}

bool cudnn_attention(Backend *b, BackendStream *s, const ExecAttention *a, int backward)
{
  Cudnn *c = cuda_of(b)->cudnn;
  Key key = key_of(a, backward);
  Entry *e = c && suits(b, a) ? entry_of(c, &key, b->dtype) : NULL;
  size_t rows = (size_t)a->batch * a->heads * a->q_len * sizeof(float), sums = rows * a->head_dim;
  float scale = (float)a->scale, lowest = -FLT_MAX, one = 1;
  char *memory = NULL;

  if (!e || !e->graph)
    return false;
  size_t own = backward ? (rows + sums + 255) / 256 * 256 : 0, bytes = own + e->graph->workspace_bytes;
  cuda_check(b, "attention", cudaMallocAsync((void **)&memory, bytes ? bytes : 1, s->stream));
  if (!memory)
    return true;
  const int64_t numbers[] = { Q, K, V, O, STATS, SCALE, LOWEST, D_O, D_Q, D_K, D_V, ROW_SUMS, Q_SUMS, ONE };
  void *tensors[] = { (void *)a->q, (void *)a->k, (void *)a->v, a->context, a->lse, &scale, &lowest,
                      (void *)a->dcontext, a->dq, a->dk, a->dv, memory + sums, memory, &one };
  int64_t given[NUMBERS_MAX], n = 0;
  void *places[NUMBERS_MAX];
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if ((numbers[i] < ONE || backward) && (numbers[i] != LOWEST || a->causal)) {
      given[n] = numbers[i];
      places[n++] = tensors[i];
    }
  cudnnStatus_t status = c->library.set_stream(c->handle, s->stream);
  if (status == CUDNN_STATUS_SUCCESS)
    status = cudnn_graph_run(e->graph, n, given, places, memory + own);
  if (status != CUDNN_STATUS_SUCCESS)
    cuda_fail(b, "attention by cuDNN", c->library.error_string(status));
  cuda_check(b, "attention", cudaFreeAsync(memory, s->stream));
  return true;
}

static void cudnn_free(Cudnn *c)
{
  for (int i = 0; i < c->n; i++)
    if (c->entries[i].graph) {
      cudnn_graph_close(c->entries[i].graph);
      free(c->entries[i].graph);
    }
  if (c->handle)
    c->library.destroy(c->handle);
  cudnn_library_close(&c->library);
  free(c);
}

/* NULL, or why there is none. */
static const char *start(Cudnn *c)
{
  const char *why = cudnn_library_open(&c->library);

  if (why)
    return why;
  cudnnStatus_t status = c->library.create(&c->handle);
  return status == CUDNN_STATUS_SUCCESS ? NULL : c->library.error_string(status);
}

void cudnn_open(CudaBackend *c)
{
  const char *wanted = getenv("TDP_CUDNN");

  if (c->base.dtype == EXEC_F32 || (wanted && strcmp(wanted, "0") == 0))
    return;
  c->cudnn = (Cudnn *)calloc(1, sizeof *c->cudnn);
  const char *why = start(c->cudnn);
  if (!why)
    return;
  if (c->base.rank == 0)
    fprintf(stderr, "cuda: no cuDNN (%s): own attention kernels, which are far slower\n", why);
  c->cudnn->handle = NULL;
  cudnn_close(c);
}

void cudnn_close(CudaBackend *c)
{
  if (c->cudnn)
    cudnn_free(c->cudnn);
  c->cudnn = NULL;
}
