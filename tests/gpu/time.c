#include "time.h"

#include "calibrate/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCK_S 1e-3 /* of calls timed together, at least */
#define ROW_S 0.1    /* of all blocks of a row */
#define SMALL_ROW_S 2e-3
enum { CALLS_MAX = 512, BLOCKS_MIN = 5, BLOCKS_MAX = 51 };

typedef struct Timing Timing;

typedef struct {
  const char *name;
  void (*run)(Bench *h, const Timing *t);
  double (*flops)(const Timing *t); /* NULL = bound by memory */
  double (*bytes)(const Bench *h, const Timing *t);
  double narrow, wide;  /* elements moved of m x n where `bytes` is NULL */
  PointKind point;      /* where `run` is NULL */
  const char *point_name;
  int backward;
  int beside;           /* on a stream that was not made for computing */
  int host;             /* seconds of the host count */
} Kind;

struct Timing {
  const Kind *kind;
  const char *shape; /* whose */
  int m, n, k;       /* of attention: sequences and tokens; of experts: rows, width and experts */
  int batch, heads, kv_heads, head_dim;
};

static double element(const Bench *h) { return exec_type_bytes(h->b->dtype); }
static double wide(const Bench *h) { return exec_type_bytes(exec_wide(h->b->dtype)); }
static int batch_of(const Timing *t) { return t->batch ? t->batch : 1; }

static void *narrow_part(Bench *h, int pool, double n) { return bench_take(h, pool, (gsize)(n * element(h))); }
static void *wide_part(Bench *h, int pool, double n) { return bench_take(h, pool, (gsize)(n * wide(h))); }

/* ---- products: m tokens, n outputs, k inputs ---- */

static void product(Bench *h, const Timing *t, int ta, int tb)
{
  double m = t->m, n = t->n, k = t->k;
  int batch = batch_of(t);
  ExecGemm g = { .transpose_a = ta, .transpose_b = tb, .wide_c = ta, .m = t->m, .n = t->n, .k = t->k,
                 .batch = batch, .alpha = 1e-3, .beta = ta, .a = narrow_part(h, 0, m * k * batch),
                 .b = narrow_part(h, 1, n * k * batch),
                 .c = ta ? wide_part(h, 3, m * n * batch) : narrow_part(h, 2, m * n * batch), .lda = ta ? t->m : t->k,
                 .ldb = tb ? t->k : t->n, .ldc = t->n, .stride_a = m * k, .stride_b = n * k, .stride_c = m * n };

  h->b->gemm(h->b, h->s, &g);
}

static void product_nt(Bench *h, const Timing *t) { product(h, t, 0, 1); }

/* Of the input: m x k over n outputs. */
static Timing turned_input(const Timing *t)
{
  Timing turned = *t;
  turned.n = t->k, turned.k = t->n;
  return turned;
}

/* Of the weight, n x k over m tokens, added to a wide gradient. */
static Timing turned_weight(const Timing *t)
{
  Timing turned = *t;
  turned.m = t->n, turned.n = t->k, turned.k = t->m;
  return turned;
}

static void product_nn(Bench *h, const Timing *t)
{
  Timing turned = turned_input(t);
  product(h, &turned, 0, 0);
}

static void product_tn(Bench *h, const Timing *t)
{
  Timing turned = turned_weight(t);
  product(h, &turned, 1, 0);
}

static double product_flops(const Timing *t) { return 2.0 * t->m * t->n * t->k * batch_of(t); }

static double product_bytes(const Bench *h, const Timing *t)
{
  return batch_of(t) * element(h) * ((double)t->m * t->n + (double)t->m * t->k + (double)t->n * t->k);
}

static double weight_bytes(const Bench *h, const Timing *t)
{
  double read = (double)t->m * t->n + (double)t->m * t->k;
  return batch_of(t) * (element(h) * read + 2 * wide(h) * t->n * t->k);
}

/* ---- attention: m sequences of n tokens ---- */

static double attention_rows(const Timing *t) { return (double)t->m * t->n; }

static ExecAttention attention_args(Bench *h, const Timing *t)
{
  int heads = t->heads + 2 * t->kv_heads, ld = heads * t->head_dim, context = t->heads * t->head_dim;
  gsize es = element(h), past_keys = (context + t->kv_heads * t->head_dim) * es;
  char *qkv = narrow_part(h, 0, attention_rows(t) * ld), *dqkv = narrow_part(h, 2, attention_rows(t) * ld);

  return (ExecAttention) {
    .batch = t->m, .q_len = t->n, .kv_len = t->n, .q_rows = t->n, .kv_rows = t->n, .heads = t->heads,
    .kv_heads = t->kv_heads, .head_dim = t->head_dim, .ld_q = ld, .ld_kv = ld, .causal = 1,
    .scale = 1 / sqrt(t->head_dim), .q = qkv, .k = qkv + context * es, .v = qkv + past_keys,
    .context = narrow_part(h, 1, attention_rows(t) * context), .lse = wide_part(h, 3, attention_rows(t) * t->heads),
    .dcontext = narrow_part(h, 1, attention_rows(t) * context), .dq = dqkv, .dk = dqkv + context * es,
    .dv = dqkv + past_keys };
}

static void attention(Bench *h, const Timing *t)
{
  ExecAttention a = attention_args(h, t);
  h->b->attention_forward(h->b, h->s, &a);
}

static void attention_backward(Bench *h, const Timing *t)
{
  ExecAttention a = attention_args(h, t);
  h->b->attention_backward(h->b, h->s, &a);
}

static double attention_flops(const Timing *t) { return 2 * attention_rows(t) * t->n * t->heads * t->head_dim; }
static double attention_backward_flops(const Timing *t) { return 2.5 * attention_flops(t); }

static double attention_bytes(const Bench *h, const Timing *t)
{
  return element(h) * attention_rows(t) * 2 * (t->heads + t->kv_heads) * t->head_dim;
}

static double attention_backward_bytes(const Bench *h, const Timing *t) { return 2 * attention_bytes(h, t); }

/* ---- experts: m rows of n, each to two of k ---- */

enum { TOP = 2 };

static ExecRoute route_args(Bench *h, const Timing *t)
{
  double copies = (double)t->m * TOP;

  return (ExecRoute) { .rows = t->m, .experts = t->k, .top = TOP, .logits = wide_part(h, 0, (double)t->m * t->k),
                       .weight = wide_part(h, 3, copies), .chosen = bench_take(h, 4, copies * sizeof(int32_t)),
                       .place = bench_take(h, 4, copies * sizeof(int32_t)),
                       .first = bench_take(h, 4, (t->k + 1) * sizeof(int32_t)) };
}

static void route(Bench *h, const Timing *t)
{
  ExecRoute r = route_args(h, t);
  h->b->route(h->b, h->s, &r);
}

static void dispatch(Bench *h, const Timing *t)
{
  ExecRoute r = route_args(h, t);
  h->b->route(h->b, h->s, &r);
  h->b->dispatch_forward(h->b, h->s, &r, t->n, narrow_part(h, 1, (double)t->m * t->n),
                         narrow_part(h, 2, (double)t->m * t->n * TOP));
}

static void combine(Bench *h, const Timing *t)
{
  ExecRoute r = route_args(h, t);
  h->b->route(h->b, h->s, &r);
  h->b->combine_forward(h->b, h->s, &r, t->n, narrow_part(h, 1, (double)t->m * t->n * TOP),
                        narrow_part(h, 2, (double)t->m * t->n));
}

static void combine_backward(Bench *h, const Timing *t)
{
  ExecRoute r = route_args(h, t);
  double copies = (double)t->m * t->n * TOP;
  h->b->route(h->b, h->s, &r);
  h->b->combine_backward(h->b, h->s, &r, t->n, narrow_part(h, 1, copies), narrow_part(h, 0, copies / TOP),
                         narrow_part(h, 2, copies), wide_part(h, 3, (double)t->m * TOP));
}

static double route_bytes(const Bench *h, const Timing *t) { return wide(h) * t->m * (t->k + TOP) + 8.0 * t->m * TOP; }

/* ---- on any stream: m rows of n ---- */

static void sum_squares(Bench *h, const Timing *t)
{
  double n = (double)t->m * t->n;
  h->b->sum_squares(h->b, h->s, n, wide_part(h, 0, n), bench_take(h, 4, sizeof(double)));
}

static void add_wide(Bench *h, const Timing *t)
{
  double n = (double)t->m * t->n;
  h->b->add_wide(h->b, h->s, n, wide_part(h, ZEROS, n), wide_part(h, 3, n));
}

/* Tokens are those of the pool of zeros: all rows are the first one's. */
static void embedding(Bench *h, const Timing *t)
{
  h->b->embedding_forward(h->b, h->s, t->m, t->n, 0, 1, bench_take(h, ZEROS, t->m * sizeof(int32_t)),
                          narrow_part(h, 0, t->n), narrow_part(h, 2, (double)t->m * t->n));
}

/* ---- what the host spends ---- */

static void launch(Bench *h, const Timing *t)
{
  (void)t;
  h->b->bias_forward(h->b, h->s, 1, 1, h->pool[2], h->pool[1]);
}

static void launch_and_wait(Bench *h, const Timing *t)
{
  launch(h, t);
  h->b->sync(h->b, h->s);
}

static void allocate(Bench *h, const Timing *t)
{
  gsize bytes = (gsize)t->m * t->n;
  h->b->dealloc(h->b, h->s, h->b->alloc(h->b, h->s, bytes), bytes);
}

static void download(Bench *h, const Timing *t)
{
  (void)t;
  h->b->download(h->b, h->s, h->host, h->pool[1], sizeof(double));
}

static void order_streams(Bench *h, const Timing *t)
{
  (void)t;
  h->b->event_record(h->b, h->joined, h->s);
  h->b->event_wait(h->b, h->joined, h->beside);
}

/* ---- kinds and rows ---- */

#define KIND(id, ...) static const Kind id = { __VA_ARGS__ }
#define MEMORY(id, text, name, back, n, w) \
  KIND(id, text, .point = POINT_MEMORY, .point_name = name, .backward = back, .narrow = n, .wide = w)

KIND(nt, "product, forward", product_nt, product_flops, product_bytes);
KIND(nn, "product, input gradient", product_nn, product_flops, product_bytes);
KIND(tn, "product, weight gradient", product_tn, product_flops, weight_bytes);
KIND(attend, "attention", attention, attention_flops, attention_bytes);
KIND(attend_back, "attention backward", attention_backward, attention_backward_flops, attention_backward_bytes);
MEMORY(norm, "layernorm", "norm", 0, 2, 0);
MEMORY(norm_back, "layernorm backward with copy", "norm", 1, 6, 0);
MEMORY(residual, "residual", "residual", 0, 3, 0);
MEMORY(bias, "bias", "bias", 0, 2, 0);
MEMORY(bias_gradient, "bias gradient", "bias gradient", 1, 1, 0);
MEMORY(gelu, "gelu", "activation", 0, 2, 0);
MEMORY(gelu_back, "gelu backward", "activation", 1, 3, 0);
MEMORY(swiglu, "swiglu", "swiglu", 0, 3, 0);
MEMORY(swiglu_back, "swiglu backward", "swiglu", 1, 5, 0);
MEMORY(rotary, "rotary", "rotary", 0, 2, 0);
MEMORY(loss, "loss", "loss", 0, 1, 0);
MEMORY(loss_back, "loss backward", "loss", 1, 2, 0);
MEMORY(optimizer, "norm, adam and clearing", "optimizer", 0, 2, 7);
KIND(router, "router", route, NULL, route_bytes);
KIND(scatter, "router and dispatch", dispatch, .narrow = 1 + TOP);
KIND(gather, "router and combine", combine, .narrow = 1 + TOP);
KIND(gather_back, "router and combine backward", combine_backward, .narrow = 1 + 2 * TOP);
KIND(squares, "sum of squares", sum_squares, .wide = 1);
KIND(squares_beside, "sum of squares, other stream", sum_squares, .wide = 1, .beside = 1);
KIND(sum_beside, "add, wide, other stream", add_wide, .wide = 3, .beside = 1);
KIND(lookup_beside, "embedding, other stream", embedding, .narrow = 1, .beside = 1);
KIND(copying, "copy", .point = POINT_TRANSFER, .point_name = "copy", .narrow = 2);
KIND(launching, "launch", launch, .host = 1);
KIND(waiting, "launch and wait", launch_and_wait, .host = 1);
KIND(allocating, "allocate and free", allocate, .host = 1);
KIND(downloading, "download of 8 bytes", download, .host = 1);
KIND(ordering, "event between streams", order_streams, .host = 1);

#define PRODUCT(shape, m, n, k) { &nt, shape, m, n, k }, { &nn, shape, m, n, k }, { &tn, shape, m, n, k }
#define ATTENTION(shape, sequences, tokens, heads, kv_heads, head_dim) \
  { &attend, shape, sequences, tokens, 0, 0, heads, kv_heads, head_dim }, \
  { &attend_back, shape, sequences, tokens, 0, 0, heads, kv_heads, head_dim }

static const Timing timings[] = {
  PRODUCT("square", 8192, 8192, 8192),
  { &copying, "512 MiB", 16384, 16384 },
  ATTENTION("gpt2", 32, 1024, 12, 12, 64),
  ATTENTION("gpt2-xl", 8, 1024, 25, 25, 64),
  ATTENTION("llama-3.2-1b", 2, 4096, 32, 8, 64),
  ATTENTION("llama-3.1-8b", 1, 8192, 32, 8, 128),
  PRODUCT("gpt2 qkv", 32768, 2304, 768),
  PRODUCT("gpt2 up", 32768, 3072, 768),
  PRODUCT("gpt2 head", 8192, 50257, 768),
  PRODUCT("gpt2 head, padded", 8192, 50304, 768),
  PRODUCT("gpt2-xl qkv", 8192, 4800, 1600),
  PRODUCT("gpt2-xl up", 8192, 6400, 1600),
  PRODUCT("gpt2-xl head", 8192, 50257, 1600),
  PRODUCT("llama-3.2-1b gate and up", 8192, 16384, 2048),
  PRODUCT("llama-3.2-1b head", 4096, 128256, 2048),
  PRODUCT("llama-3.1-8b qkv", 8192, 6144, 4096),
  PRODUCT("llama-3.1-8b gate and up", 8192, 28672, 4096),
  PRODUCT("llama-3.1-8b down", 8192, 4096, 14336),
  PRODUCT("an expert", 1024, 3584, 1024),
  { &nt, "8 experts", 2048, 3584, 1024, 8 },
  { &norm, "gpt2", 32768, 768 }, { &norm_back, "gpt2", 32768, 768 },
  { &norm, "llama-3.1-8b", 8192, 4096 }, { &norm_back, "llama-3.1-8b", 8192, 4096 },
  { &residual, "gpt2", 32768, 768 }, { &bias, "gpt2", 32768, 3072 }, { &bias_gradient, "gpt2", 32768, 3072 },
  { &bias_gradient, "gpt2-xl", 8192, 6400 }, { &gelu, "gpt2", 32768, 3072 }, { &gelu_back, "gpt2", 32768, 3072 },
  { &swiglu, "llama-3.1-8b", 8192, 14336 }, { &swiglu_back, "llama-3.1-8b", 8192, 14336 },
  { &rotary, "llama-3.1-8b", 8192, 5120 }, { &loss, "gpt2", 8192, 50257 }, { &loss_back, "gpt2", 8192, 50257 },
  { &optimizer, "128 M parameters", 16384, 8192 },
  { &router, "8 experts", 16384, 1024, 8 }, { &router, "128 experts", 16384, 1024, 128 },
  { &scatter, "8 experts", 16384, 1024, 8 }, { &gather, "8 experts", 16384, 1024, 8 },
  { &gather_back, "8 experts", 16384, 1024, 8 },
  { &squares, "128 M", 16384, 8192 }, { &squares_beside, "128 M", 16384, 8192 },
  { &sum_beside, "gpt2 table", 50257, 768 }, { &lookup_beside, "gpt2", 32768, 768 },
  { &launching, "" }, { &waiting, "" }, { &downloading, "" }, { &ordering, "" },
  { &allocating, "1 MiB", 1024, 1024 }, { &allocating, "256 MiB", 16384, 16384 },
  PRODUCT("sides no multiple of 8", 4095, 4095, 4095),
  PRODUCT("sides no multiple of 8", 4097, 4097, 4097),
  PRODUCT("inner side odd", 4096, 4096, 4095),
  PRODUCT("thin", 16, 4096, 4096), PRODUCT("thin", 4096, 16, 4096), PRODUCT("thin", 4096, 4096, 16),
  { &nt, "scores of gpt2", 1024, 1024, 64, 96 }, { &nt, "scores, odd", 1023, 1023, 63, 96 },
  ATTENTION("llama-3.1-8b, long", 1, 32768, 32, 8, 128),
};

/* ---- measuring ---- */

typedef struct {
  Bench bench;
  BackendEvent *from, *until;
  double row_s;
} Clock;

static void call(Bench *h, const Timing *t)
{
  MachinePoint p = { .kind = t->kind->point, .backward = t->kind->backward, .m = t->m, .n = t->n };

  if (t->kind->run) {
    t->kind->run(h, t);
    return;
  }
  g_strlcpy(p.name, t->kind->point_name, sizeof p.name);
  p.bytes = (double)t->m * t->n * element(h);
  bench_run(h, &p);
}

/* Seconds of a call, of so many. */
static double time_block(Clock *c, const Timing *t, int calls)
{
  Bench *h = &c->bench;
  Backend *b = h->b;
  double from_s = b->now_s(b), host_s;

  b->event_record(b, c->from, h->s);
  for (int i = 0; i < calls; i++)
    call(h, t);
  host_s = b->now_s(b) - from_s;
  b->event_record(b, c->until, h->s);
  b->sync(b, h->s);
  return (t->kind->host ? host_s : b->event_s(b, c->until) - b->event_s(b, c->from)) / calls;
}

static MachinePoint time_row(Clock *c, const Timing *t)
{
  MachinePoint p = { 0 };
  double samples[BLOCKS_MAX], once = 0;

  for (int i = 0; i < 2; i++)
    once = MAX(time_block(c, t, 1), 1e-7);
  int calls = (int)CLAMP(ceil(MIN(BLOCK_S, c->row_s / BLOCKS_MIN) / once), 1, CALLS_MAX);
  int blocks = (int)CLAMP(c->row_s / (calls * once), once > c->row_s ? 1 : BLOCKS_MIN, BLOCKS_MAX);
  for (int i = 0; i < blocks; i++)
    samples[i] = time_block(c, t, calls);
  point_set(&p, samples, blocks);
  p.rounds = blocks;
  return p;
}

/* The largest operand; weights' gradients and experts' logits are wide. */
static double largest_bytes(const Bench *h, const Timing *t)
{
  double m = t->m, n = t->n, k = t->k, copies = t->k ? TOP : 1;

  if (t->kind->flops == product_flops)
    return batch_of(t) * MAX(element(h) * MAX(m * n, m * k), n * k * (t->kind == &tn ? wide(h) : element(h)));
  if (t->heads)
    return element(h) * m * n * (t->heads + 2 * t->kv_heads) * t->head_dim;
  return MAX(m * k * wide(h), m * n * copies * (t->kind->wide ? wide(h) : element(h)));
}

static Timing capped(const Timing *t)
{
  Timing small = *t;

  small.m = MIN(t->m, t->heads ? 2 : 48), small.n = MIN(t->n, 64), small.k = MIN(t->k, 40);
  small.batch = MIN(t->batch, 3);
  small.heads = MIN(t->heads, 4), small.kv_heads = MIN(t->kv_heads, 2), small.head_dim = MIN(t->head_dim, 16);
  return small;
}

static void print_row(const Clock *c, const Timing *t, const char *format, const MachinePoint *p)
{
  const Kind *kind = t->kind;
  double flops = kind->flops ? kind->flops(t) : 0, elements = (double)t->m * t->n;
  double bytes = kind->bytes ? kind->bytes(&c->bench, t)
                             : elements * (kind->narrow * element(&c->bench) + kind->wide * wide(&c->bench));

  printf("\"%s\",%s,\"%s\",%d,%d,%d,%d,%d,%d,%d,", kind->name, format, t->shape, t->m, t->n, t->k, batch_of(t),
         t->heads, t->kv_heads, t->head_dim);
  printf("%.3f,%.3f,%.3f,%d,%.2f,%.1f\n", p->seconds * 1e6, p->low_s * 1e6, p->high_s * 1e6, p->rounds,
         flops / p->seconds / 1e12, bytes / p->seconds / 1e9);
  fflush(stdout);
}

static void time_rows(Clock *c, const char *format, const char *only, int small)
{
  Bench *h = &c->bench;
  Backend *b = h->b;
  BackendStream *computes = h->s;

  printf("operation,format,shape,m,n,k,batch,heads,kv_heads,head_dim,us,low_us,high_us,samples,tflops,gbps\n");
  for (gsize i = 0; i < G_N_ELEMENTS(timings) && !b->failed(b); i++) {
    Timing t = small ? capped(&timings[i]) : timings[i];
    if (!g_str_has_prefix(t.kind->name, only) || largest_bytes(h, &t) > h->pool_bytes)
      continue;
    h->s = t.kind->beside ? h->beside : computes;
    MachinePoint p = time_row(c, &t);
    if (!b->failed(b))
      print_row(c, &t, format, &p);
    h->s = computes;
  }
}

int time_operations(const BackendKind *kind, ExecType dtype, const char *format, const char *only, int small)
{
  char error[EXEC_ERROR_SIZE] = "";
  BackendOptions options = { .size = 1, .dtype = dtype };
  Backend *b = kind->open(&options, error);
  Clock c = { .row_s = small ? SMALL_ROW_S : ROW_S };
  int status = 1;

  if (!b) {
    fprintf(stderr, "skipped: %s\n", error);
    return 77;
  }
  if (small)
    b->units = 1; /* the pools of a core */
  if (!bench_init(&c.bench, b))
    fprintf(stderr, "memory is out\n");
  else {
    c.from = b->event_new(b);
    c.until = b->event_new(b);
    time_rows(&c, format, only, small);
    status = b->failed(b) != NULL;
    b->event_free(b, c.from);
    b->event_free(b, c.until);
  }
  if (b->failed(b))
    fprintf(stderr, "%s\n", b->failed(b));
  bench_clear(&c.bench);
  b->free(b);
  return status;
}
