#include "drawn.h"

#include <math.h>

typedef struct {
  const char *name, *operations;
  void (*run)(const Shape *z, Backend *b, BackendStream *s, void **p);
  void (*tensors)(const Shape *z, Tensor *t);
} Kind;

enum { A = 1, B = 2, C = 4, D = 8 }; /* flags */

static Tensor tensor(Role role, Format format, size_t n)
{
  return (Tensor) { role, format, n > 0 ? n : 1, -1, 1 };
}

static Tensor tokens(const Shape *z)
{
  Tensor t = tensor(IN, TOKENS, z->rows);
  t.low = 0;
  t.high = z->vocab;
  return t;
}

static Tensor between(Role role, Format format, size_t n, double low, double high)
{
  Tensor t = tensor(role, format, n);
  t.low = low;
  t.high = high;
  return t;
}

/* ---- products: A transposes a, B transposes b, C widens c, D adds ---- */

static ExecGemm gemm_of(const Shape *z, void **p)
{
  ExecGemm g = { .transpose_a = z->flags & A, .transpose_b = !!(z->flags & B), .wide_c = !!(z->flags & C), .m = z->m,
                 .n = z->n, .k = z->k, .batch = z->batch, .alpha = 0.5, .beta = z->flags & D ? 1 : 0, .a = p[0],
                 .b = p[1], .c = p[2] };

  g.lda = (g.transpose_a ? z->m : z->k) + z->gap;
  g.ldb = (g.transpose_b ? z->k : z->n) + z->gap;
  g.ldc = z->n + z->gap;
  g.stride_a = (size_t)(g.transpose_a ? z->k : z->m) * g.lda;
  g.stride_b = (size_t)(g.transpose_b ? z->n : z->k) * g.ldb;
  g.stride_c = (size_t)z->m * g.ldc;
  return g;
}

static void gemm(const Shape *z, Backend *b, BackendStream *s, void **p)
{
  ExecGemm g = gemm_of(z, p);
  b->gemm(b, s, &g);
}

static void gemm_tensors(const Shape *z, Tensor *t)
{
  void *none[3] = { 0 };
  ExecGemm g = gemm_of(z, none);

  t[0] = tensor(IN, NARROW, g.stride_a * z->batch);
  t[1] = tensor(IN, NARROW, g.stride_b * z->batch);
  t[2] = tensor(BOTH, z->flags & C ? WIDE : NARROW, g.stride_c * z->batch);
}

/* ---- rows: A RMSNorm, B adds ---- */

static void norm(const Shape *z, Backend *b, BackendStream *s, void **p)
{
  ExecNormArgs a = { .kind = z->flags & A ? EXEC_RMSNORM : EXEC_LAYERNORM, .rows = z->rows, .width = z->width,
                     .epsilon = 0.1, .x = p[0], .weight = p[1], .bias = z->flags & A ? NULL : p[2], .mean = p[3],
                     .rstd = p[4] };

  b->norm_forward(b, s, &a, p[5]);
  b->norm_backward(b, s, &a, p[6], p[7], !!(z->flags & B), p[8], z->flags & A ? NULL : p[9]);
}

static void norm_tensors(const Shape *z, Tensor *t)
{
  size_t all = (size_t)z->rows * z->width;

  t[0] = between(IN, NARROW, all, 0.5, 3);
  t[1] = t[2] = tensor(IN, NARROW, z->width);
  t[3] = tensor(BOTH, WIDE, z->rows);
  t[4] = tensor(OUT, WIDE, z->rows);
  t[5] = tensor(OUT, NARROW, all);
  t[6] = tensor(IN, NARROW, all);
  t[7] = tensor(BOTH, NARROW, all);
  t[8] = t[9] = tensor(BOTH, WIDE, z->width);
}

static void elements(const Shape *z, Backend *b, BackendStream *s, void **p)
{
  size_t n = (size_t)z->rows * z->width;

  b->gelu_forward(b, s, n, p[0], p[2]);
  b->gelu_backward(b, s, n, p[0], p[1], p[3]);
  b->swiglu_forward(b, s, z->rows, z->width, p[4], p[5]);
  b->swiglu_backward(b, s, z->rows, z->width, p[4], p[1], p[6]);
  b->bias_forward(b, s, z->rows, z->width, p[7], p[8]);
  b->bias_backward(b, s, z->rows, z->width, p[1], p[9]);
}

static void elements_tensors(const Shape *z, Tensor *t)
{
  size_t all = (size_t)z->rows * z->width;

  t[0] = t[1] = tensor(IN, NARROW, all);
  t[2] = t[3] = t[5] = tensor(OUT, NARROW, all);
  t[4] = tensor(IN, NARROW, 2 * all);
  t[6] = tensor(OUT, NARROW, 2 * all);
  t[7] = tensor(BOTH, NARROW, all);
  t[8] = tensor(IN, NARROW, z->width);
  t[9] = between(BOTH, WIDE, z->width, 1, 2);
}

static void sums(const Shape *z, Backend *b, BackendStream *s, void **p)
{
  size_t n = (size_t)z->rows * z->width;

  b->add(b, s, n, p[0], p[1]);
  b->cast(b, s, n, p[2], exec_wide(b->dtype), p[3], b->dtype);
  b->cast(b, s, n, p[0], b->dtype, p[4], exec_wide(b->dtype));
}

static void sums_tensors(const Shape *z, Tensor *t)
{
  size_t all = (size_t)z->rows * z->width;

  t[0] = tensor(IN, NARROW, all);
  t[1] = tensor(BOTH, NARROW, all);
  t[2] = tensor(IN, WIDE, all);
  t[3] = tensor(OUT, NARROW, all);
  t[4] = tensor(OUT, WIDE, all);
}

static void wide_sums(const Shape *z, Backend *b, BackendStream *s, void **p)
{
  size_t n = (size_t)z->rows * z->width;

  b->sum_squares(b, s, n, p[0], p[2]);
  b->add_wide(b, s, n, p[0], p[1]);
}

static void wide_sums_tensors(const Shape *z, Tensor *t)
{
  size_t all = (size_t)z->rows * z->width;

  t[0] = tensor(IN, WIDE, all);
  t[1] = tensor(BOTH, WIDE, all);
  t[2] = between(BOTH, DOUBLE, 1, 1, 2);
}

/* ---- attention: A causal, B adds to gradients ---- */

static void attention(const Shape *z, Backend *b, BackendStream *s, void **p)
{
  int causal = z->flags & A, kv_len = causal ? z->len : z->kv_len;
  ExecAttention a = { .batch = z->batch, .q_len = z->len, .kv_len = kv_len, .q_rows = z->len + z->room,
                      .kv_rows = kv_len + z->room, .heads = z->heads, .kv_heads = z->kv_heads, .head_dim = z->dim,
                      .ld_q = z->heads * z->dim + z->gap, .ld_kv = z->kv_heads * z->dim + z->gap, .causal = causal,
                      .window = causal ? z->window : 0, .scale = 1 / sqrt(z->dim), .q = p[0], .k = p[1], .v = p[2],
                      .context = p[3], .lse = p[4], .dcontext = p[5], .dq = p[6], .dk = p[7], .dv = p[8],
                      .add = !!(z->flags & B) };

  b->attention_forward(b, s, &a);
  b->attention_backward(b, s, &a);
  a.lse = p[10];
  a.context = p[9];
  b->attention_merge(b, s, &a, p[5], p[11]);
}

static void attention_tensors(const Shape *z, Tensor *t)
{
  size_t queries = (size_t)z->batch * (z->len + z->room), q = queries * (z->heads * z->dim + z->gap);
  size_t keys = (size_t)z->batch * ((z->flags & A ? z->len : z->kv_len) + z->room);
  size_t kv = keys * (z->kv_heads * z->dim + z->gap), context = queries * z->heads * z->dim;

  t[0] = tensor(IN, NARROW, q);
  t[1] = t[2] = tensor(IN, NARROW, kv);
  t[3] = tensor(BOTH, NARROW, context);
  t[4] = tensor(BOTH, WIDE, queries * z->heads);
  t[5] = tensor(IN, NARROW, context);
  t[6] = tensor(BOTH, NARROW, q);
  t[7] = t[8] = tensor(BOTH, NARROW, kv);
  t[9] = tensor(BOTH, NARROW, context);
  t[10] = tensor(BOTH, WIDE, queries * z->heads);
  t[11] = tensor(IN, WIDE, queries * z->heads);
}

/* ---- tokens: of a table's share, with places in two parts ---- */

static ExecPlaces places_of(const Shape *z)
{
  return (ExecPlaces) { .seq = z->len, .half = z->len / 2, .first = z->len, .second = 0 };
}

static void places(const Shape *z, Backend *b, BackendStream *s, void **p)
{
  int share = z->vocab - z->first;

  b->embedding_forward(b, s, z->rows, z->width, z->first, share, p[0], p[1], p[2]);
  b->embedding_backward(b, s, z->rows, z->width, z->first, share, p[0], p[3], p[4]);
  b->position_forward(b, s, z->rows, z->width, places_of(z), 0, p[5], p[6]);
  b->position_backward(b, s, z->rows, z->width, places_of(z), 0, p[3], p[7]);
}

static void places_tensors(const Shape *z, Tensor *t)
{
  size_t all = (size_t)z->rows * z->width, table = (size_t)(z->vocab - z->first) * z->width;

  t[0] = tokens(z);
  t[1] = tensor(IN, NARROW, table);
  t[2] = tensor(OUT, NARROW, all);
  t[3] = tensor(IN, NARROW, all);
  t[4] = tensor(BOTH, WIDE, table);
  t[5] = tensor(IN, NARROW, 2 * (size_t)z->len * z->width);
  t[6] = tensor(BOTH, NARROW, all);
  t[7] = tensor(BOTH, WIDE, 2 * (size_t)z->len * z->width);
}

static void rope(const Shape *z, Backend *b, BackendStream *s, void **p)
{
  b->rope(b, s, z->rows, places_of(z), z->heads, 2 * z->dim, z->heads * 2 * z->dim + z->gap, p[0], 10000,
          z->flags & A ? 1 : -1);
}

static void rope_tensors(const Shape *z, Tensor *t)
{
  t[0] = tensor(BOTH, NARROW, (size_t)z->rows * (z->heads * 2 * z->dim + z->gap));
}

/* ---- losses: of a share whose last columns may be padding ---- */

static ExecLoss loss_of(const Shape *z, void **p)
{
  return (ExecLoss) { .rows = z->rows, .width = z->vocab - z->first + z->gap, .first = z->first, .vocab = z->vocab,
                      .logits = p[0], .labels = p[1], .max = p[2], .sum = p[3], .target = p[4] };
}

static void loss(const Shape *z, Backend *b, BackendStream *s, void **p)
{
  ExecLoss l = loss_of(z, p);

  b->loss_rows(b, s, &l, EXEC_LOSS_MAX);
  b->loss_rows(b, s, &l, EXEC_LOSS_SUM);
  b->loss_value(b, s, &l, 0.25, p[5]);
  b->loss_backward(b, s, &l, 0.25);
}

static void loss_tensors(const Shape *z, Tensor *t)
{
  t[0] = between(BOTH, NARROW, (size_t)z->rows * (z->vocab - z->first + z->gap), -2, 2);
  t[1] = tokens(z);
  t[2] = t[3] = t[4] = tensor(OUT, WIDE, z->rows);
  t[5] = between(BOTH, DOUBLE, 1, 1, 2);
}

/* ---- experts: A pads, B drops by position ---- */

static ExecRoute route_of(const Shape *z, void **p)
{
  int32_t *chosen = p[2];
  int copies = z->rows * z->top;

  return (ExecRoute) { .rows = z->rows, .experts = z->experts, .top = z->top, .capacity = z->capacity,
                       .padded = z->capacity > 0 && (z->flags & A), .by_position = !!(z->flags & B), .logits = p[0],
                       .weight = p[1], .chosen = chosen, .place = chosen + copies, .first = chosen + 2 * copies };
}

static void experts(const Shape *z, Backend *b, BackendStream *s, void **p)
{
  ExecRoute r = route_of(z, p);

  b->route(b, s, &r);
  b->dispatch_forward(b, s, &r, z->width, p[3], p[4]);
  b->combine_forward(b, s, &r, z->width, p[5], p[6]);
  b->combine_backward(b, s, &r, z->width, p[5], p[3], p[7], p[8]);
  b->dispatch_backward(b, s, &r, z->width, p[5], p[9]);
  b->route_backward(b, s, &r, p[10], p[11]);
}

static void experts_tensors(const Shape *z, Tensor *t)
{
  size_t copies = (size_t)z->rows * z->top, all = (size_t)z->rows * z->width;
  size_t room = copies > (size_t)z->experts * z->capacity ? copies : (size_t)z->experts * z->capacity;

  t[0] = tensor(IN, WIDE, (size_t)z->rows * z->experts);
  t[1] = tensor(BOTH, WIDE, copies);
  t[2] = tensor(BOTH, TOKENS, 2 * copies + z->experts + 1);
  t[3] = tensor(IN, NARROW, all);
  t[4] = tensor(BOTH, NARROW, room * z->width);
  t[5] = tensor(IN, NARROW, room * z->width);
  t[6] = tensor(BOTH, NARROW, all);
  t[7] = tensor(BOTH, NARROW, room * z->width);
  t[8] = tensor(BOTH, WIDE, copies);
  t[9] = tensor(BOTH, NARROW, all);
  t[10] = tensor(IN, WIDE, copies);
  t[11] = tensor(BOTH, NARROW, (size_t)z->rows * z->experts);
}

static const Kind kinds[] = {
  { "products", "gemm", gemm, gemm_tensors },
  { "norms", "norm_forward norm_backward", norm, norm_tensors },
  { "activations and biases", "gelu_forward gelu_backward swiglu_forward swiglu_backward bias_forward bias_backward",
    elements, elements_tensors },
  { "sums and casts", "add cast", sums, sums_tensors },
  { "wide sums", "sum_squares add_wide", wide_sums, wide_sums_tensors },
  { "attention", "attention_forward attention_backward attention_merge", attention, attention_tensors },
  { "embeddings", "embedding_forward embedding_backward position_forward position_backward", places, places_tensors },
  { "rotations", "rope", rope, rope_tensors },
  { "losses", "loss_rows loss_value loss_backward", loss, loss_tensors },
  { "experts", "route dispatch_forward combine_forward combine_backward dispatch_backward route_backward", experts,
    experts_tensors },
};

const int gpu_drawn_count = sizeof kinds / sizeof *kinds;

const char *gpu_drawn_name(int kind)
{
  return kinds[kind].name;
}

Kernel gpu_drawn(int kind, double (*uniform)(double low, double high), Shape *z)
{
  Kernel k = { .name = kinds[kind].name, .operations = kinds[kind].operations, .run_at = kinds[kind].run, .shape = z };

#define BELOW(n) ((int)uniform(0, n))
#define SIDE() (BELOW(4) == 0 ? 8 + 8 * BELOW(12) : 3 + BELOW(BELOW(2) ? 12 : 90)) /* some are even */
  *z = (Shape) { .flags = BELOW(16), .m = SIDE(), .n = SIDE(), .k = SIDE(), .batch = 1 + BELOW(3),
                 .gap = BELOW(2) * BELOW(9), .width = BELOW(8) == 0 ? 600 + BELOW(100) : SIDE(),
                 .kv_heads = 1 + BELOW(2), .dim = 8 + BELOW(60), .len = 12 + BELOW(50), .kv_len = 12 + BELOW(50),
                 .room = BELOW(2) * BELOW(5), .window = BELOW(2) * (4 + BELOW(30)), .first = BELOW(30),
                 .experts = 2 + BELOW(7), .capacity = BELOW(2) * (1 + BELOW(9)) };
  z->rows = 1 + BELOW(BELOW(3) == 0 ? 300 : 40);
  z->heads = z->kv_heads * (1 + BELOW(3));
  z->vocab = z->first + 8 + BELOW(BELOW(4) == 0 ? 700 : 60);
  z->top = 1 + BELOW(z->experts < 3 ? z->experts : 3);
  if (kind == gpu_drawn_count - 1 && BELOW(4) == 0)
    z->rows = 0;
  kinds[kind].tensors(z, k.tensors);
  return k;
}
