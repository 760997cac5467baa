#include "kernels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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
  b->loss_rows(b, s, &l, EXEC_LOSS_MAX);
  b->loss_rows(b, s, &l, EXEC_LOSS_SUM);
  b->loss_value(b, s, &l, 0.25, p[5]);
  b->loss_backward(b, s, &l, 0.25);
}

static void loss_whole(Backend *b, BackendStream *s, void **p)
{
  ExecLoss l = { .rows = ROWS, .width = SHARE, .first = FIRST, .vocab = VOCAB, .logits = p[0], .labels = p[1],
                 .max = p[2], .sum = p[3], .target = p[4] };
  b->loss_rows(b, s, &l, EXEC_LOSS_BOTH);
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
  b->loss_rows(b, s, &local, EXEC_LOSS_MAX);
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

/* More copies and experts than a warp takes; of a single choice all weights are equal. */
enum { MANY_ROWS = 1100, MANY_EXPERTS = 40, MANY_COPIES = 3 * MANY_ROWS };

static void route_many(Backend *b, BackendStream *s, void **p, int top, int capacity)
{
  int32_t *chosen = p[2];
  ExecRoute r = { .rows = MANY_ROWS, .experts = MANY_EXPERTS, .top = top, .capacity = capacity, .logits = p[0],
                  .weight = p[1], .chosen = chosen, .place = chosen + MANY_COPIES, .first = chosen + 2 * MANY_COPIES };

  b->route(b, s, &r);
}

static void route_three(Backend *b, BackendStream *s, void **p) { route_many(b, s, p, 3, 0); }
static void route_three_dropping(Backend *b, BackendStream *s, void **p) { route_many(b, s, p, 3, 60); }
static void route_one_dropping(Backend *b, BackendStream *s, void **p) { route_many(b, s, p, 1, 20); }

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
static void widen(Backend *b, BackendStream *s, void **p)
{
  b->cast(b, s, ROWS * WIDTH, p[0], b->dtype, p[1], exec_wide(b->dtype));
}
static void narrow(Backend *b, BackendStream *s, void **p)
{
  b->cast(b, s, ROWS * WIDTH, p[0], exec_wide(b->dtype), p[1], b->dtype);
}
static void initial(Backend *b, BackendStream *s, void *y, ExecType type)
{
  ExecFill f = { .seed = 7, .stream = 9, .first_row = 3, .first_col = 11, .end_row = ROWS, .cols = WIDTH,
                 .all_cols = 3 * WIDTH, .mean = 0.25, .deviation = 1, .from = 5, .n = ROWS * WIDTH };
  b->fill(b, s, &f, y, type);
}

static void fill(Backend *b, BackendStream *s, void **p) { initial(b, s, p[0], exec_wide(b->dtype)); }
static void fill_narrow(Backend *b, BackendStream *s, void **p) { initial(b, s, p[0], b->dtype); }

static void sum_squares(Backend *b, BackendStream *s, void **p) { b->sum_squares(b, s, ROWS * WIDTH, p[0], p[1]); }

/* Of gradients that are scaled by 8. */
static ExecAdam adam_args(void)
{
  return (ExecAdam) { .n = ROWS * WIDTH, .rate = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .decay = 0.1,
                      .step = 3, .loss_scale = 8, .max_norm = 0.1 };
}

/* The CPU has no master copy where storage is wide already. */
static int adam_step(Backend *b, BackendStream *s, void **p)
{
  int copy = exec_type_bytes(b->dtype) == 2;
  ExecAdam a = adam_args();

  a.weight = copy ? p[5] : p[0];
  a.master = copy ? p[0] : NULL;
  a.gradient = p[1];
  a.m = p[2];
  a.v = p[3];
  a.norm_sq = p[4];
  b->adam(b, s, &a);
  return copy;
}

static void adam(Backend *b, BackendStream *s, void **p)
{
  if (!adam_step(b, s, p))
    b->copy(b, s, p[5], p[0], ROWS * WIDTH * exec_type_bytes(b->dtype));
}

/* A narrow weight stays too. */
static void adam_skipped(Backend *b, BackendStream *s, void **p) { adam_step(b, s, p); }

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
  ExecAdam a = adam_args();
  a.weight = host[1];
  a.master = host[0];
  a.gradient = host[1];
  a.m = host[2];
  a.v = host[3];
  a.norm_sq = &norm_sq;
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
#define DOUBLE_NAN { IN, DOUBLE, 1, NAN, NAN }
#define PRODUCT(batch) NARROW_IN(batch * M * K), NARROW_IN(batch * K * N)
#define NORM NARROW_IN(ROWS *WIDTH), NARROW_IN(WIDTH), NARROW_IN(WIDTH)
#define ELEMENTS (ROWS * WIDTH)
#define ROUTE WIDE_IN(ROWS *EXPERTS), WIDE_OUT(COPIES), { OUT, TOKENS, 2 * COPIES + EXPERTS + 1 }
#define MANY_ROUTE \
  WIDE_IN(MANY_ROWS *MANY_EXPERTS), WIDE_BOTH(MANY_COPIES), \
    { BOTH, TOKENS, 2 * MANY_COPIES + MANY_EXPERTS + 1, 0, VOCAB }
#define SHARE_LOSS \
  NARROW_BOTH(ROWS *SHARE), TOKENS_IN(ROWS), { IN, WIDE, ROWS, 1, 2 }, WIDE_OUT(ROWS), WIDE_OUT(ROWS)

enum { KINDS = 9, INNER = 24 };

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define TITLE(text) text " " TEXT(ROWS) " x " TEXT(WIDTH) " + " TEXT(SKEW)
#include "shapes.inc"

const Kernel gpu_kernels[] = {
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
  { "cross-entropy and gradient", "loss_rows loss_value loss_backward", loss,
    { NARROW_BOTH(ROWS *SHARE), TOKENS_IN(ROWS), WIDE_OUT(ROWS), WIDE_OUT(ROWS), WIDE_OUT(ROWS), DOUBLE_BOTH } },
  { "cross-entropy in one reading", "loss_rows loss_value loss_backward", loss_whole,
    { NARROW_BOTH(ROWS *SHARE), TOKENS_IN(ROWS), WIDE_OUT(ROWS), WIDE_OUT(ROWS), WIDE_OUT(ROWS), DOUBLE_BOTH } },
  { "cross-entropy of a share", "loss_rows loss_exp loss_merge", share, { SHARE_LOSS, WIDE_OUT(ROWS) } },
  { "gradient of a share", "loss_rows loss_exp loss_merge loss_backward", share_gradient,
    { SHARE_LOSS, WIDE_OUT(ROWS) } },
  { "input gradient of a share", "loss_input", share_input,
    { { NONE, NARROW, 1 }, { NONE, TOKENS, 1 }, { IN, WIDE, ROWS, 1, 2 }, { IN, WIDE, ROWS, 1, 9 }, { NONE, WIDE, 1 },
      { IN, WIDE, ROWS, 0, 1 }, NARROW_IN(ELEMENTS), NARROW_BOTH(ELEMENTS) } },
  { "add", "add", add, { NARROW_IN(ELEMENTS), NARROW_BOTH(ELEMENTS) } },
  { "add, wide", "add_wide", add_wide, { WIDE_IN(ELEMENTS), WIDE_BOTH(ELEMENTS) } },
  { "cast to wide", "cast", widen, { NARROW_IN(ELEMENTS), WIDE_OUT(ELEMENTS) } },
  { "cast from wide", "cast", narrow, { WIDE_IN(ELEMENTS), NARROW_OUT(ELEMENTS) } },
  { "initial weights", "fill", fill, { WIDE_OUT(ELEMENTS) } },
  { "initial weights, narrow", "fill", fill_narrow, { NARROW_OUT(ELEMENTS) } },
  { "sum of squares", "sum_squares", sum_squares, { WIDE_IN(ELEMENTS), DOUBLE_BOTH } },
  { "adam", "adam", adam,
    { WIDE_BOTH(ELEMENTS), WIDE_IN(ELEMENTS), WIDE_BOTH(ELEMENTS), { BOTH, WIDE, ELEMENTS, 0.1, 1 }, DOUBLE_BOTH,
      NARROW_OUT(ELEMENTS) } },
  { "adam, skipped", "adam", adam_skipped,
    { WIDE_BOTH(ELEMENTS), WIDE_IN(ELEMENTS), WIDE_BOTH(ELEMENTS), { BOTH, WIDE, ELEMENTS, 0.1, 1 }, DOUBLE_NAN,
      NARROW_BOTH(ELEMENTS) } },
  { "adam on the host", "host_adam", host_adam,
    { WIDE_BOTH(ELEMENTS), WIDE_IN(ELEMENTS), WIDE_BOTH(ELEMENTS), { BOTH, WIDE, ELEMENTS, 0.1, 1 }, DOUBLE_BOTH,
      NARROW_OUT(ELEMENTS) } },
  { "adam on the host, skipped", "host_adam", host_adam,
    { WIDE_BOTH(ELEMENTS), WIDE_IN(ELEMENTS), WIDE_BOTH(ELEMENTS), { BOTH, WIDE, ELEMENTS, 0.1, 1 }, DOUBLE_NAN,
      NARROW_OUT(ELEMENTS) } },
  { "router", "route", route, { ROUTE } },
  { "router, tokens dropped by weight", "route", route_dropping, { ROUTE } },
  { "router, dropped by position, padded", "route", route_padded, { ROUTE } },
  { "router, 3 of 40", "route", route_three, { MANY_ROUTE } },
  { "router, 3 of 40, dropped", "route", route_three_dropping, { MANY_ROUTE } },
  { "router, 1 of 40, dropped", "route", route_one_dropping, { MANY_ROUTE } },
  { "router backward", "route route_backward", route_backward, { ROUTE, WIDE_IN(COPIES), NARROW_OUT(ROWS *EXPERTS) } },
  { "dispatch", "route dispatch_forward", dispatch, { ROUTE, NARROW_IN(ELEMENTS), NARROW_BOTH(COPIES *WIDTH) } },
  { "dispatch backward", "route dispatch_backward", dispatch_backward,
    { ROUTE, NARROW_IN(COPIES *WIDTH), NARROW_BOTH(ELEMENTS) } },
  { "combine", "route combine_forward", combine, { ROUTE, NARROW_IN(COPIES *WIDTH), NARROW_OUT(ELEMENTS) } },
  { "combine backward", "route combine_backward", combine_backward,
    { ROUTE, NARROW_IN(COPIES *WIDTH), NARROW_IN(ELEMENTS), NARROW_BOTH(COPIES *WIDTH), WIDE_OUT(COPIES) } },
#define TABLE
#include "shapes.inc"
};

const int gpu_kernel_count = sizeof gpu_kernels / sizeof *gpu_kernels;

/* As backend.h promises; those at odd shapes name no operations and run where they compute. */
int gpu_kernel_runs_anywhere(const Kernel *kernel)
{
  static const char anywhere[] =
      " embedding_forward embedding_backward loss_merge loss_input add_wide sum_squares ";
  char name[64];

  for (const char *at = kernel->operations; *at; at += strspn(at, " ")) {
    size_t length = strcspn(at, " ");
    snprintf(name, sizeof name, " %.*s ", (int)length, at);
    if (!strstr(anywhere, name))
      return 0;
    at += length;
  }
  return kernel->operations[0] != '\0';
}
