/*
 * The CUDA backend's kernels against the CPU's in fp64, on fresh random inputs
 * and poisoned outputs: relative error by norm, for each operation and format.
 * Prints a table; exit 1 if an error is above 1e-5 in fp32 or 1e-2 in 16 bits, 77
 * where there is no device.
 *
 *   kernels [SEED]
 */
#include "exec/cpu/cpu.h"
#include "exec/cuda/cuda.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS = 12 };
typedef enum { NONE, IN, OUT, BOTH } Role;
typedef enum { NARROW, WIDE, TOKENS, DOUBLE } Format;

/* Values are uniform between low and high. */
typedef struct {
  Role role;
  Format format;
  size_t n;
  double low, high;
} Tensor;

typedef struct {
  const char *name;
  const char *operations; /* of backend.h */
  void (*run)(Backend *b, BackendStream *s, void **p);
  Tensor tensors[TENSORS];
} Kernel;

/* ---- the operations ---- */

enum { M = 96, N = 160, K = 224, BATCH = 3 };

static void product(Backend *b, BackendStream *s, void **p, int ta, int tb, int wide, double beta, int batch)
{
  ExecGemm g = { .transpose_a = ta, .transpose_b = tb, .wide_c = wide, .m = M, .n = N, .k = K, .batch = batch,
                 .alpha = 0.5, .beta = beta, .a = p[0], .b = p[1], .c = p[2], .lda = ta ? M : K, .ldb = tb ? K : N,
                 .ldc = N, .stride_a = M * K, .stride_b = K * N, .stride_c = M * N };
  b->gemm(b, s, &g);
}

static void product_nn(Backend *b, BackendStream *s, void **p) { product(b, s, p, 0, 0, 0, 0, 1); }
static void product_nt(Backend *b, BackendStream *s, void **p) { product(b, s, p, 0, 1, 0, 0, 1); }
static void product_tn(Backend *b, BackendStream *s, void **p) { product(b, s, p, 1, 0, 0, 1, 1); }
static void product_wide(Backend *b, BackendStream *s, void **p) { product(b, s, p, 1, 0, 1, 1, 1); }
static void product_batch(Backend *b, BackendStream *s, void **p) { product(b, s, p, 0, 1, 0, 0, BATCH); }

enum { ROWS = 77, WIDTH = 519 };

static ExecNormArgs norm_args(ExecNorm kind, void **p)
{
  return (ExecNormArgs) { .kind = kind, .rows = ROWS, .width = WIDTH, .epsilon = 1e-5, .x = p[0], .weight = p[1],
                          .bias = kind == EXEC_LAYERNORM ? p[2] : NULL, .mean = p[3], .rstd = p[4] };
}

static void layernorm(Backend *b, BackendStream *s, void **p)
{
  ExecNormArgs a = norm_args(EXEC_LAYERNORM, p);
  b->norm_forward(b, s, &a, p[5]);
}

static void rmsnorm(Backend *b, BackendStream *s, void **p)
{
  ExecNormArgs a = norm_args(EXEC_RMSNORM, p);
  b->norm_forward(b, s, &a, p[5]);
}

static void norm_backward(Backend *b, BackendStream *s, void **p, ExecNorm kind, int add)
{
  ExecNormArgs a = norm_args(kind, p);
  b->norm_forward(b, s, &a, p[5]);
  b->norm_backward(b, s, &a, p[6], p[7], add, p[8], kind == EXEC_LAYERNORM ? p[9] : NULL);
}

static void layernorm_backward(Backend *b, BackendStream *s, void **p) { norm_backward(b, s, p, EXEC_LAYERNORM, 0); }
static void rmsnorm_backward(Backend *b, BackendStream *s, void **p) { norm_backward(b, s, p, EXEC_RMSNORM, 1); }

static void gelu(Backend *b, BackendStream *s, void **p) { b->gelu_forward(b, s, ROWS * WIDTH, p[0], p[1]); }
static void gelu_backward(Backend *b, BackendStream *s, void **p)
{
  b->gelu_backward(b, s, ROWS * WIDTH, p[0], p[1], p[2]);
}
static void swiglu(Backend *b, BackendStream *s, void **p) { b->swiglu_forward(b, s, ROWS, WIDTH, p[0], p[1]); }
static void swiglu_backward(Backend *b, BackendStream *s, void **p)
{
  b->swiglu_backward(b, s, ROWS, WIDTH, p[0], p[1], p[2]);
}
static void bias(Backend *b, BackendStream *s, void **p) { b->bias_forward(b, s, ROWS, WIDTH, p[0], p[1]); }
static void bias_backward(Backend *b, BackendStream *s, void **p) { b->bias_backward(b, s, ROWS, WIDTH, p[0], p[1]); }

enum { SEQ = 75, SEQUENCES = 2, HEADS = 6, KV_HEADS = 2, HEAD = 72, QKV = (HEADS + 2 * KV_HEADS) * HEAD,
       TOKEN_ROWS = SEQ * SEQUENCES, CONTEXT = HEADS * HEAD };

/* Of the second of two ranks that share a sequence. */
static const ExecPlaces places = { .seq = SEQ, .half = 40, .first = 40, .second = 80 };

static void rope(Backend *b, BackendStream *s, void **p)
{
  b->rope(b, s, TOKEN_ROWS, places, HEADS, HEAD, QKV, p[0], 10000, 1);
}
static void rope_backward(Backend *b, BackendStream *s, void **p)
{
  b->rope(b, s, TOKEN_ROWS, places, HEADS, HEAD, QKV, p[0], 10000, -1);
}

static void attention(Backend *b, BackendStream *s, void **p, int causal, int window, int backward)
{
  size_t bytes = exec_type_bytes(b->dtype);
  ExecAttention a = { .batch = SEQUENCES, .q_len = SEQ, .kv_len = SEQ, .q_rows = SEQ, .kv_rows = SEQ, .heads = HEADS,
                      .kv_heads = KV_HEADS, .head_dim = HEAD, .ld_q = QKV, .ld_kv = QKV, .causal = causal,
                      .window = window, .scale = 1 / sqrt(HEAD), .q = p[0],
                      .k = (char *)p[0] + CONTEXT * bytes, .v = (char *)p[0] + (CONTEXT + KV_HEADS * HEAD) * bytes,
                      .context = p[1], .lse = p[2] };
  b->attention_forward(b, s, &a);
  if (!backward)
    return;
  a.dcontext = p[3];
  a.dq = p[4];
  a.dk = (char *)p[4] + CONTEXT * bytes;
  a.dv = (char *)p[4] + (CONTEXT + KV_HEADS * HEAD) * bytes;
  b->attention_backward(b, s, &a);
}

/* As if the queries had read other keys too. */
static void attention_merge(Backend *b, BackendStream *s, void **p)
{
  ExecAttention a = { .batch = SEQUENCES, .q_len = SEQ, .kv_len = SEQ, .q_rows = SEQ, .kv_rows = SEQ, .heads = HEADS,
                      .kv_heads = KV_HEADS, .head_dim = HEAD, .context = p[0], .lse = p[1] };
  b->attention_merge(b, s, &a, p[2], p[3]);
}

static void attention_causal(Backend *b, BackendStream *s, void **p) { attention(b, s, p, 1, 0, 0); }
static void attention_full(Backend *b, BackendStream *s, void **p) { attention(b, s, p, 0, 0, 0); }
static void attention_window(Backend *b, BackendStream *s, void **p) { attention(b, s, p, 1, 17, 0); }
static void attention_causal_backward(Backend *b, BackendStream *s, void **p) { attention(b, s, p, 1, 0, 1); }
static void attention_full_backward(Backend *b, BackendStream *s, void **p) { attention(b, s, p, 0, 0, 1); }
static void attention_window_backward(Backend *b, BackendStream *s, void **p) { attention(b, s, p, 1, 17, 1); }

enum { VOCAB = 301, SHARE = 160, FIRST = 150 };

static void embedding(Backend *b, BackendStream *s, void **p)
{
  b->embedding_forward(b, s, ROWS, WIDTH, FIRST, SHARE, p[0], p[1], p[2]);
}
static void embedding_backward(Backend *b, BackendStream *s, void **p)
{
  b->embedding_backward(b, s, ROWS, WIDTH, FIRST, SHARE, p[0], p[1], p[2]);
}
static const ExecPlaces position_places = { .seq = 33, .half = 20, .first = 13, .second = 0 };

static void positions(Backend *b, BackendStream *s, void **p)
{
  b->position_forward(b, s, ROWS, WIDTH, position_places, 7, p[0], p[1]);
}
static void positions_backward(Backend *b, BackendStream *s, void **p)
{
  b->position_backward(b, s, ROWS, WIDTH, position_places, 7, p[0], p[1]);
}

static void loss(Backend *b, BackendStream *s, void **p)
{
  ExecLoss l = { .rows = ROWS, .width = SHARE, .first = FIRST, .vocab = VOCAB, .logits = p[0], .labels = p[1],
                 .max = p[2], .sum = p[3], .target = p[4] };
  b->loss_max(b, s, &l);
  b->loss_sum(b, s, &l);
  b->loss_value(b, s, &l, 0.25, p[5]);
  b->loss_backward(b, s, &l, 0.25);
}

/* A share that the other one's largest logits and sums join: theirs are drawn. */
static ExecLoss share_loss(void **p)
{
  return (ExecLoss) { .rows = ROWS, .width = SHARE, .first = FIRST, .vocab = VOCAB, .logits = p[0], .labels = p[1],
                      .max = p[2], .sum = p[3], .target = p[4], .local = p[5] };
}

static void share(Backend *b, BackendStream *s, void **p)
{
  ExecLoss l = share_loss(p), local = l;

  local.max = l.local;
  b->loss_max(b, s, &local);
  b->loss_exp(b, s, &l);
  b->loss_merge(b, s, &l);
}

static void share_gradient(Backend *b, BackendStream *s, void **p)
{
  ExecLoss l = share_loss(p);

  share(b, s, p);
  b->loss_backward(b, s, &l, 0.25);
}

static void share_input(Backend *b, BackendStream *s, void **p)
{
  ExecLoss l = share_loss(p);

  b->loss_input(b, s, &l, WIDTH, p[6], p[7], 0.25);
}

enum { EXPERTS = 7, TOP = 2, COPIES = ROWS * TOP, CAPACITY = 19 };

/* Chosen experts, places and first copies stand behind each other in p[2]. */
static ExecRoute route_args(void **p, int capacity)
{
  int32_t *chosen = p[2];

  return (ExecRoute) { .rows = ROWS, .experts = EXPERTS, .top = TOP, .capacity = capacity, .logits = p[0],
                       .weight = p[1], .chosen = chosen, .place = chosen + COPIES, .first = chosen + 2 * COPIES };
}

static void route(Backend *b, BackendStream *s, void **p)
{
  ExecRoute r = route_args(p, 0);
  b->route(b, s, &r);
}

static void route_dropping(Backend *b, BackendStream *s, void **p)
{
  ExecRoute r = route_args(p, CAPACITY);
  b->route(b, s, &r);
}

static void route_padded(Backend *b, BackendStream *s, void **p)
{
  ExecRoute r = route_args(p, CAPACITY);
  r.by_position = r.padded = 1;
  b->route(b, s, &r);
}

static void route_backward(Backend *b, BackendStream *s, void **p)
{
  ExecRoute r = route_args(p, 0);
  b->route(b, s, &r);
  b->route_backward(b, s, &r, p[3], p[4]);
}

/* Empty places stay as they were. */
static void dispatch(Backend *b, BackendStream *s, void **p)
{
  ExecRoute r = route_args(p, CAPACITY);
  b->route(b, s, &r);
  b->dispatch_forward(b, s, &r, WIDTH, p[3], p[4]);
}

static void dispatch_backward(Backend *b, BackendStream *s, void **p)
{
  ExecRoute r = route_args(p, CAPACITY);
  b->route(b, s, &r);
  b->dispatch_backward(b, s, &r, WIDTH, p[3], p[4]);
}

static void combine(Backend *b, BackendStream *s, void **p)
{
  ExecRoute r = route_args(p, CAPACITY);
  b->route(b, s, &r);
  b->combine_forward(b, s, &r, WIDTH, p[3], p[4]);
}

static void combine_backward(Backend *b, BackendStream *s, void **p)
{
  ExecRoute r = route_args(p, CAPACITY);
  b->route(b, s, &r);
  b->combine_backward(b, s, &r, WIDTH, p[3], p[4], p[5], p[6]);
}

static void add(Backend *b, BackendStream *s, void **p) { b->add(b, s, ROWS * WIDTH, p[0], p[1]); }
static void add_wide(Backend *b, BackendStream *s, void **p) { b->add_wide(b, s, ROWS * WIDTH, p[0], p[1]); }
static void scale(Backend *b, BackendStream *s, void **p) { b->scale(b, s, ROWS * WIDTH, -1.5, p[0]); }
static void widen(Backend *b, BackendStream *s, void **p)
{
  b->cast(b, s, ROWS * WIDTH, p[0], b->dtype, p[1], exec_wide(b->dtype));
}
static void narrow(Backend *b, BackendStream *s, void **p)
{
  b->cast(b, s, ROWS * WIDTH, p[0], exec_wide(b->dtype), p[1], b->dtype);
}
static void sum_squares(Backend *b, BackendStream *s, void **p) { b->sum_squares(b, s, ROWS * WIDTH, p[0], p[1]); }

/* The CPU has no master copy where storage is wide already. */
static void adam(Backend *b, BackendStream *s, void **p)
{
  gboolean copy = exec_type_bytes(b->dtype) == 2;
  ExecAdam a = { .n = ROWS * WIDTH, .weight = copy ? p[5] : p[0], .master = copy ? p[0] : NULL, .gradient = p[1],
                 .m = p[2], .v = p[3], .rate = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .decay = 0.1,
                 .step = 3, .norm_sq = p[4], .max_norm = 1 };
  b->adam(b, s, &a);
  if (!copy)
    b->copy(b, s, p[5], p[0], a.n * exec_type_bytes(b->dtype));
}

/* On the host, of both backends: pointers are the host's, and the result is copied to the device's. */
static void host_adam(Backend *b, BackendStream *s, void **p)
{
  size_t n = ROWS * WIDTH, bytes = n * exec_type_bytes(exec_wide(b->dtype));
  char *host[4];
  double norm_sq;

  for (int i = 0; i < 4; i++) {
    host[i] = b->host_alloc(b, bytes);
    b->host_down(b, s, host[i], p[i], bytes);
  }
  b->download(b, s, &norm_sq, p[4], sizeof norm_sq);
  ExecAdam a = { .n = n, .weight = host[1], .master = host[0], .gradient = host[1], .m = host[2], .v = host[3],
                 .rate = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .decay = 0.1, .step = 3,
                 .norm_sq = &norm_sq, .max_norm = 1 };
  b->host_adam(b, s, &a);
  b->host_up(b, s, p[5], host[1], n * exec_type_bytes(b->dtype));
  b->host_up(b, s, p[0], host[0], bytes);
  b->host_up(b, s, p[2], host[2], bytes);
  b->host_up(b, s, p[3], host[3], bytes);
  b->sync(b, s);
  for (int i = 0; i < 4; i++)
    b->host_free(b, host[i]);
}

#define NARROW_IN(count) { IN, NARROW, count, -1, 1 }
#define NARROW_OUT(count) { OUT, NARROW, count }
#define NARROW_BOTH(count) { BOTH, NARROW, count, -1, 1 }
#define WIDE_IN(count) { IN, WIDE, count, -1, 1 }
#define WIDE_OUT(count) { OUT, WIDE, count }
#define WIDE_BOTH(count) { BOTH, WIDE, count, -1, 1 }
#define TOKENS_IN(count) { IN, TOKENS, count, 0, VOCAB }
#define DOUBLE_BOTH { BOTH, DOUBLE, 1, 1, 2 }
#define PRODUCT(batch) NARROW_IN(batch * M * K), NARROW_IN(batch * K * N)
#define NORM NARROW_IN(ROWS *WIDTH), NARROW_IN(WIDTH), NARROW_IN(WIDTH)
#define ELEMENTS (ROWS * WIDTH)
#define ROUTE WIDE_IN(ROWS *EXPERTS), WIDE_OUT(COPIES), { OUT, TOKENS, 2 * COPIES + EXPERTS + 1 }
#define SHARE_LOSS \
  NARROW_BOTH(ROWS *SHARE), TOKENS_IN(ROWS), { IN, WIDE, ROWS, 1, 2 }, WIDE_OUT(ROWS), WIDE_OUT(ROWS)

static const Kernel kernels[] = {
  { "product", "gemm", product_nn, { PRODUCT(1), NARROW_OUT(M * N) } },
  { "product, B transposed", "gemm", product_nt, { PRODUCT(1), NARROW_OUT(M * N) } },
  { "product, A transposed, added", "gemm", product_tn, { PRODUCT(1), NARROW_BOTH(M * N) } },
  { "product, added to wide", "gemm", product_wide, { PRODUCT(1), WIDE_BOTH(M * N) } },
  { "product, batch", "gemm", product_batch, { PRODUCT(BATCH), NARROW_OUT(BATCH * M * N) } },
  { "layernorm", "norm_forward", layernorm, { NORM, WIDE_OUT(ROWS), WIDE_OUT(ROWS), NARROW_OUT(ELEMENTS) } },
  { "layernorm backward", "norm_forward norm_backward", layernorm_backward,
    { NORM, WIDE_OUT(ROWS), WIDE_OUT(ROWS), NARROW_OUT(ELEMENTS), NARROW_IN(ELEMENTS), NARROW_OUT(ELEMENTS),
      WIDE_BOTH(WIDTH), WIDE_BOTH(WIDTH) } },
  { "rmsnorm", "norm_forward", rmsnorm, { NORM, { NONE, WIDE, ROWS }, WIDE_OUT(ROWS), NARROW_OUT(ELEMENTS) } },
  { "rmsnorm backward, added", "norm_forward norm_backward", rmsnorm_backward,
    { NORM, { NONE, WIDE, ROWS }, WIDE_OUT(ROWS), NARROW_OUT(ELEMENTS), NARROW_IN(ELEMENTS), NARROW_BOTH(ELEMENTS),
      WIDE_BOTH(WIDTH) } },
  { "gelu", "gelu_forward", gelu, { NARROW_IN(ELEMENTS), NARROW_OUT(ELEMENTS) } },
  { "gelu backward", "gelu_backward", gelu_backward,
    { NARROW_IN(ELEMENTS), NARROW_IN(ELEMENTS), NARROW_OUT(ELEMENTS) } },
  { "swiglu", "swiglu_forward", swiglu, { NARROW_IN(2 * ELEMENTS), NARROW_OUT(ELEMENTS) } },
  { "swiglu backward", "swiglu_backward", swiglu_backward,
    { NARROW_IN(2 * ELEMENTS), NARROW_IN(ELEMENTS), NARROW_OUT(2 * ELEMENTS) } },
  { "bias", "bias_forward", bias, { NARROW_BOTH(ELEMENTS), NARROW_IN(WIDTH) } },
  { "bias backward", "bias_backward", bias_backward, { NARROW_IN(ELEMENTS), WIDE_BOTH(WIDTH) } },
  { "rope", "rope", rope, { NARROW_BOTH(TOKEN_ROWS * QKV) } },
  { "rope backward", "rope", rope_backward, { NARROW_BOTH(TOKEN_ROWS * QKV) } },
  { "attention, causal", "attention_forward", attention_causal,
    { NARROW_IN(TOKEN_ROWS * QKV), NARROW_OUT(TOKEN_ROWS * CONTEXT), WIDE_OUT(TOKEN_ROWS * HEADS) } },
  { "attention, full", "attention_forward", attention_full,
    { NARROW_IN(TOKEN_ROWS * QKV), NARROW_OUT(TOKEN_ROWS * CONTEXT), WIDE_OUT(TOKEN_ROWS * HEADS) } },
  { "attention, window", "attention_forward", attention_window,
    { NARROW_IN(TOKEN_ROWS * QKV), NARROW_OUT(TOKEN_ROWS * CONTEXT), WIDE_OUT(TOKEN_ROWS * HEADS) } },
  { "attention backward, causal", "attention_forward attention_backward", attention_causal_backward,
    { NARROW_IN(TOKEN_ROWS * QKV), NARROW_OUT(TOKEN_ROWS * CONTEXT), WIDE_OUT(TOKEN_ROWS * HEADS),
      NARROW_IN(TOKEN_ROWS * CONTEXT), NARROW_OUT(TOKEN_ROWS * QKV) } },
  { "attention backward, full", "attention_forward attention_backward", attention_full_backward,
    { NARROW_IN(TOKEN_ROWS * QKV), NARROW_OUT(TOKEN_ROWS * CONTEXT), WIDE_OUT(TOKEN_ROWS * HEADS),
      NARROW_IN(TOKEN_ROWS * CONTEXT), NARROW_OUT(TOKEN_ROWS * QKV) } },
  { "attention backward, window", "attention_forward attention_backward", attention_window_backward,
    { NARROW_IN(TOKEN_ROWS * QKV), NARROW_OUT(TOKEN_ROWS * CONTEXT), WIDE_OUT(TOKEN_ROWS * HEADS),
      NARROW_IN(TOKEN_ROWS * CONTEXT), NARROW_OUT(TOKEN_ROWS * QKV) } },
  { "attention, merged", "attention_merge", attention_merge,
    { NARROW_BOTH(TOKEN_ROWS * CONTEXT), WIDE_BOTH(TOKEN_ROWS * HEADS), NARROW_IN(TOKEN_ROWS * CONTEXT),
      WIDE_IN(TOKEN_ROWS * HEADS) } },
  { "embedding", "embedding_forward", embedding, { TOKENS_IN(ROWS), NARROW_IN(SHARE *WIDTH), NARROW_OUT(ELEMENTS) } },
  { "embedding backward", "embedding_backward", embedding_backward,
    { TOKENS_IN(ROWS), NARROW_IN(ELEMENTS), WIDE_BOTH(SHARE *WIDTH) } },
  { "positions", "position_forward", positions, { NARROW_IN(33 * WIDTH), NARROW_BOTH(ELEMENTS) } },
  { "positions backward", "position_backward", positions_backward, { NARROW_IN(ELEMENTS), WIDE_BOTH(33 * WIDTH) } },
  { "cross-entropy and gradient", "loss_max loss_sum loss_value loss_backward", loss,
    { NARROW_BOTH(ROWS *SHARE), TOKENS_IN(ROWS), WIDE_OUT(ROWS), WIDE_OUT(ROWS), WIDE_OUT(ROWS), DOUBLE_BOTH } },
  { "cross-entropy of a share", "loss_max loss_exp loss_merge", share, { SHARE_LOSS, WIDE_OUT(ROWS) } },
  { "gradient of a share", "loss_max loss_exp loss_merge loss_backward", share_gradient,
    { SHARE_LOSS, WIDE_OUT(ROWS) } },
  { "input gradient of a share", "loss_input", share_input,
    { { NONE, NARROW, 1 }, { NONE, TOKENS, 1 }, { IN, WIDE, ROWS, 1, 2 }, { IN, WIDE, ROWS, 1, 9 }, { NONE, WIDE, 1 },
      { IN, WIDE, ROWS, 0, 1 }, NARROW_IN(ELEMENTS), NARROW_BOTH(ELEMENTS) } },
  { "add", "add", add, { NARROW_IN(ELEMENTS), NARROW_BOTH(ELEMENTS) } },
  { "add, wide", "add_wide", add_wide, { WIDE_IN(ELEMENTS), WIDE_BOTH(ELEMENTS) } },
  { "scale", "scale", scale, { WIDE_BOTH(ELEMENTS) } },
  { "cast to wide", "cast", widen, { NARROW_IN(ELEMENTS), WIDE_OUT(ELEMENTS) } },
  { "cast from wide", "cast", narrow, { WIDE_IN(ELEMENTS), NARROW_OUT(ELEMENTS) } },
  { "sum of squares", "sum_squares", sum_squares, { WIDE_IN(ELEMENTS), DOUBLE_BOTH } },
  { "adam", "adam", adam,
    { WIDE_BOTH(ELEMENTS), WIDE_IN(ELEMENTS), WIDE_BOTH(ELEMENTS), { BOTH, WIDE, ELEMENTS, 0.1, 1 }, DOUBLE_BOTH,
      NARROW_OUT(ELEMENTS) } },
  { "adam on the host", "host_adam", host_adam,
    { WIDE_BOTH(ELEMENTS), WIDE_IN(ELEMENTS), WIDE_BOTH(ELEMENTS), { BOTH, WIDE, ELEMENTS, 0.1, 1 }, DOUBLE_BOTH,
      NARROW_OUT(ELEMENTS) } },
  { "router", "route", route, { ROUTE } },
  { "router, tokens dropped by weight", "route", route_dropping, { ROUTE } },
  { "router, dropped by position, padded", "route", route_padded, { ROUTE } },
  { "router backward", "route route_backward", route_backward, { ROUTE, WIDE_IN(COPIES), NARROW_OUT(ROWS *EXPERTS) } },
  { "dispatch", "route dispatch_forward", dispatch, { ROUTE, NARROW_IN(ELEMENTS), NARROW_BOTH(COPIES *WIDTH) } },
  { "dispatch backward", "route dispatch_backward", dispatch_backward,
    { ROUTE, NARROW_IN(COPIES *WIDTH), NARROW_BOTH(ELEMENTS) } },
  { "combine", "route combine_forward", combine, { ROUTE, NARROW_IN(COPIES *WIDTH), NARROW_OUT(ELEMENTS) } },
  { "combine backward", "route combine_backward", combine_backward,
    { ROUTE, NARROW_IN(COPIES *WIDTH), NARROW_IN(ELEMENTS), NARROW_BOTH(COPIES *WIDTH), WIDE_OUT(COPIES) } },
};

/* ---- tensors to a device and back ---- */

static ExecType type_of(const Backend *b, const Tensor *t)
{
  const ExecType types[] = {
    [NARROW] = b->dtype, [WIDE] = exec_wide(b->dtype), [DOUBLE] = EXEC_F64, [TOKENS] = EXEC_I32,
  };

  return types[t->format];
}

/* bf16 is the upper half of a float, rounded to nearest even; fp16 by the compiler. */
static uint16_t to_half(float x, ExecType type)
{
  uint32_t bits;
  uint16_t half;

  if (type == EXEC_BF16) {
    memcpy(&bits, &x, sizeof bits);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  }
  _Float16 h = x;
  memcpy(&half, &h, sizeof half);
  return half;
}

static float from_half(uint16_t half, ExecType type)
{
  uint32_t bits = (uint32_t)half << 16;
  _Float16 h;
  float x;

  if (type == EXEC_BF16) {
    memcpy(&x, &bits, sizeof x);
    return x;
  }
  memcpy(&h, &half, sizeof h);
  return h;
}

static void pack(ExecType type, size_t n, const double *values, void *out)
{
  for (size_t i = 0; i < n; i++)
    switch (type) {
    case EXEC_F64:
      ((double *)out)[i] = values[i];
      break;
    case EXEC_I32:
      ((int32_t *)out)[i] = (int32_t)values[i];
      break;
    case EXEC_F32:
      ((float *)out)[i] = (float)values[i];
      break;
    default:
      ((uint16_t *)out)[i] = to_half((float)values[i], type);
    }
}

static void unpack(ExecType type, size_t n, const void *in, double *values)
{
  for (size_t i = 0; i < n; i++)
    switch (type) {
    case EXEC_F64:
      values[i] = ((const double *)in)[i];
      break;
    case EXEC_I32:
      values[i] = ((const int32_t *)in)[i];
      break;
    case EXEC_F32:
      values[i] = ((const float *)in)[i];
      break;
    default:
      values[i] = from_half(((const uint16_t *)in)[i], type);
    }
}

/* Runs a kernel on a backend; inputs from `values`, results into it. */
static void run_on(Backend *b, BackendStream *s, const Kernel *k, double *values[TENSORS])
{
  void *device[TENSORS] = { NULL };

  for (int i = 0; i < TENSORS && k->tensors[i].n; i++) {
    const Tensor *t = &k->tensors[i];
    size_t bytes = t->n * exec_type_bytes(type_of(b, t));
    void *host = malloc(bytes);
    memset(host, 0xff, bytes); /* a NaN in every format */
    if (t->role == IN || t->role == BOTH)
      pack(type_of(b, t), t->n, values[i], host);
    device[i] = b->alloc(b, s, bytes);
    b->upload(b, s, device[i], host, bytes);
    b->sync(b, s);
    free(host);
  }
  k->run(b, s, device);
  for (int i = 0; i < TENSORS && k->tensors[i].n; i++) {
    const Tensor *t = &k->tensors[i];
    size_t bytes = t->n * exec_type_bytes(type_of(b, t));
    void *host = malloc(bytes);
    b->download(b, s, host, device[i], bytes);
    if (t->role == OUT || t->role == BOTH)
      unpack(type_of(b, t), t->n, host, values[i]);
    free(host);
    b->dealloc(b, s, device[i], bytes);
  }
}

/* ---- comparison ---- */

static uint64_t state;

static double uniform(double low, double high)
{
  state = state * 6364136223846793005u + 1442695040888963407u;
  return low + (high - low) * ((state >> 11) * 0x1p-53);
}

/* Values that the format under test holds exactly, so that both start alike. */
static void draw(const Tensor *t, ExecType dtype, double *values)
{
  for (size_t i = 0; i < t->n; i++) {
    double x = uniform(t->low, t->high);
    if (t->format == TOKENS)
      x = floor(x);
    else if (t->format == NARROW && exec_type_bytes(dtype) == 2)
      x = from_half(to_half((float)x, dtype), dtype);
    else if (t->format != DOUBLE)
      x = (float)x;
    values[i] = x;
  }
}

static double distance(size_t n, const double *got, const double *expected)
{
  double difference = 0, norm = 0;

  for (size_t i = 0; i < n; i++) {
    difference += (got[i] - expected[i]) * (got[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return sqrt(difference / (norm > 0 ? norm : 1));
}

static double kernel_error(const Kernel *k, Backend *cpu, BackendStream *cpu_stream, Backend *gpu,
                           BackendStream *gpu_stream)
{
  double *expected[TENSORS] = { NULL }, *got[TENSORS] = { NULL }, worst = 0;

  for (int i = 0; i < TENSORS && k->tensors[i].n; i++) {
    expected[i] = calloc(k->tensors[i].n, sizeof(double));
    got[i] = calloc(k->tensors[i].n, sizeof(double));
    draw(&k->tensors[i], gpu->dtype, expected[i]);
    memcpy(got[i], expected[i], k->tensors[i].n * sizeof(double));
  }
  run_on(cpu, cpu_stream, k, expected);
  run_on(gpu, gpu_stream, k, got);
  for (int i = 0; i < TENSORS && k->tensors[i].n; i++) {
    if (k->tensors[i].role == OUT || k->tensors[i].role == BOTH) {
      double error = distance(k->tensors[i].n, got[i], expected[i]);
      worst = error <= worst ? worst : error; /* a NaN stays */
    }
    free(expected[i]);
    free(got[i]);
  }
  return worst;
}

static int test_format(ExecType dtype, const char *name, double tolerance, double *errors)
{
  char error[EXEC_ERROR_SIZE] = "";
  BackendOptions options = { .size = 1, .dtype = EXEC_F64 };
  Backend *cpu = cpu_open(&options, error);
  options.dtype = dtype;
  Backend *gpu = cpu ? cuda_open(&options, error) : NULL;
  int wrong = 0;

  if (!gpu) {
    printf("skipped: %s\n", error);
    exit(77);
  }
  BackendStream *cpu_stream = cpu->stream_new(cpu, 1), *gpu_stream = gpu->stream_new(gpu, 1);
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
    errors[i] = kernel_error(&kernels[i], cpu, cpu_stream, gpu, gpu_stream);
    wrong += !(errors[i] < tolerance);
  }
  if (gpu->failed(gpu)) {
    printf("%s: %s\n", name, gpu->failed(gpu));
    wrong++;
  }
  gpu->stream_free(gpu, gpu_stream);
  cpu->stream_free(cpu, cpu_stream);
  if (dtype == EXEC_BF16)
    printf("device: %s\n", gpu->device);
  gpu->free(gpu);
  cpu->free(cpu);
  return wrong;
}

int main(int argc, char **argv)
{
  enum { COUNT = sizeof kernels / sizeof *kernels };
  static double errors[3][COUNT];
  int wrong = 0;

  state = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  wrong += test_format(EXEC_F32, "fp32", 1e-5, errors[0]);
  wrong += test_format(EXEC_F16, "fp16", 1e-2, errors[1]);
  wrong += test_format(EXEC_BF16, "bf16", 1e-2, errors[2]);
  printf("relative error by norm against the CPU in fp64; allowed 1e-5, 1e-2, 1e-2\n");
  printf("%-30s %9s %9s %9s\n", "operation", "fp32", "fp16", "bf16");
  for (int i = 0; i < COUNT; i++)
    printf("%-30s %9.1e %9.1e %9.1e\n", kernels[i].name, errors[0][i], errors[1][i], errors[2][i]);
  printf("%d passed, %d failed\n", 3 * COUNT - wrong, wrong);
  return wrong > 0;
}
