/* What a calibration calls for each of its points: the kernels that the executor calls, on operands that lie in the
 * bench's memory, with as many bytes as the point says. Nothing is computed: the backend writes down its calls. */
#include "calibrate/bench.h"
#include "main.h"

#include <glib/gstdio.h>

enum { RANKS = 4 };

/* The calls of the point at hand, and the bench whose memory they may touch. */
static struct {
  Bench bench;
  GString *calls;
  double moved; /* bytes of whole operands that were read or written */
  ExecGemm product; /* the last */
} seen;

static void called(const char *name)
{
  g_string_append_printf(seen.calls, "%s%s", seen.calls->len ? " " : "", name);
}

/* So many bytes of one of the pools, or of the walk. */
static void within(const void *p, double bytes)
{
  const char *at = p;

  for (int i = 0; i <= BENCH_POOLS; i++) {
    const char *from = i < BENCH_POOLS ? seen.bench.pool[i] : seen.bench.walk;
    gsize size = i < BENCH_POOLS ? seen.bench.pool_bytes : seen.bench.walk_bytes;
    if (at >= from && at + (gsize)bytes <= from + size)
      return;
  }
  ck_abort_msg("%s: %.0f bytes at %p lie beyond the bench's memory", seen.calls->str, bytes, p);
}

/* So many times over. */
static void moves(int times, const void *p, double bytes)
{
  within(p, bytes);
  seen.moved += times * bytes;
}

static double width(const Backend *b)
{
  return exec_type_bytes(b->dtype);
}

static double wide(const Backend *b)
{
  return exec_type_bytes(exec_wide(b->dtype));
}

static void norm_operands(Backend *b, const ExecNormArgs *a)
{
  within(a->weight, a->width * width(b)), within(a->bias, a->width * width(b));
  within(a->mean, a->rows * wide(b)), within(a->rstd, a->rows * wide(b));
  ck_assert_ptr_ne(a->mean, a->rstd);
}

static void norm_forward(Backend *b, BackendStream *s, const ExecNormArgs *a, void *y)
{
  double bytes = (double)a->rows * a->width * width(b);

  (void)s, called("norm_forward"), norm_operands(b, a);
  moves(1, a->x, bytes), moves(1, y, bytes);
}

static void norm_backward(Backend *b, BackendStream *s, const ExecNormArgs *a, const void *dy, void *dx, int sums,
                          void *dweight, void *dbias)
{
  double bytes = (double)a->rows * a->width * width(b);

  (void)s, called("norm_backward"), norm_operands(b, a);
  ck_assert(sums);
  moves(1, a->x, bytes), moves(1, dy, bytes), moves(2, dx, bytes);
  within(dweight, a->width * wide(b)), within(dbias, a->width * wide(b));
}

static void gelu_forward(Backend *b, BackendStream *s, size_t n, const void *x, void *y)
{
  (void)s, called("gelu_forward");
  moves(1, x, n * width(b)), moves(1, y, n * width(b));
}

static void gelu_backward(Backend *b, BackendStream *s, size_t n, const void *x, const void *dy, void *dx)
{
  (void)s, called("gelu_backward");
  moves(1, x, n * width(b)), moves(1, dy, n * width(b)), moves(1, dx, n * width(b));
}

static void swiglu_forward(Backend *b, BackendStream *s, int rows, int cols, const void *x, void *y)
{
  double bytes = (double)rows * cols * width(b);

  (void)s, called("swiglu_forward");
  moves(1, x, 2 * bytes), moves(1, y, bytes);
}

static void swiglu_backward(Backend *b, BackendStream *s, int rows, int cols, const void *x, const void *dy, void *dx)
{
  double bytes = (double)rows * cols * width(b);

  (void)s, called("swiglu_backward");
  moves(1, x, 2 * bytes), moves(1, dy, bytes), moves(1, dx, 2 * bytes);
}

static void bias_forward(Backend *b, BackendStream *s, int rows, int cols, void *y, const void *bias)
{
  (void)s, called("bias_forward");
  moves(2, y, (double)rows * cols * width(b)), within(bias, cols * width(b));
}

static void bias_backward(Backend *b, BackendStream *s, int rows, int cols, const void *dy, void *dbias)
{
  (void)s, called("bias_backward");
  moves(1, dy, (double)rows * cols * width(b)), within(dbias, cols * wide(b));
}

static void rope(Backend *b, BackendStream *s, int rows, ExecPlaces places, int heads, int head_dim, int ld, void *x,
                 double theta, int sign)
{
  (void)s, (void)theta, called(sign > 0 ? "rope" : "rope_backward");
  ck_assert_int_eq(places.seq, rows);
  ck_assert_int_eq(heads * head_dim, ld);
  moves(2, x, (double)rows * ld * width(b));
}

static void embedding_forward(Backend *b, BackendStream *s, int rows, int cols, int first, int n, const int32_t *tokens,
                              const void *table, void *y)
{
  (void)s, (void)first, called("embedding_forward");
  within(tokens, 4.0 * rows), within(table, (double)n * cols * width(b));
  seen.moved += (double)rows * cols * width(b); /* rows of the table */
  moves(1, y, (double)rows * cols * width(b));
}

static void embedding_backward(Backend *b, BackendStream *s, int rows, int cols, int first, int n,
                               const int32_t *tokens, const void *dy, void *dtable)
{
  (void)s, (void)first, called("embedding_backward");
  within(tokens, 4.0 * rows), within(dtable, (double)n * cols * wide(b));
  seen.moved += 2.0 * rows * cols * wide(b);
  moves(1, dy, (double)rows * cols * width(b));
}

static void position_forward(Backend *b, BackendStream *s, int rows, int cols, ExecPlaces places, int first,
                             const void *table, void *y)
{
  (void)s, (void)first, called("position_forward");
  ck_assert_int_eq(places.seq, rows);
  moves(1, table, (double)rows * cols * width(b)), moves(2, y, (double)rows * cols * width(b));
}

static void position_backward(Backend *b, BackendStream *s, int rows, int cols, ExecPlaces places, int first,
                              const void *dy, void *dtable)
{
  (void)s, (void)first, called("position_backward");
  ck_assert_int_eq(places.seq, rows);
  within(dy, (double)rows * cols * width(b)), within(dtable, (double)rows * cols * wide(b));
}

static void loss_operands(Backend *b, const ExecLoss *l)
{
  within(l->logits, (double)l->rows * l->width * width(b)), within(l->labels, 4.0 * l->rows);
  within(l->max, l->rows * wide(b)), within(l->sum, l->rows * wide(b)), within(l->target, l->rows * wide(b));
}

static void loss_rows(Backend *b, BackendStream *s, const ExecLoss *l, ExecLossPart parts)
{
  (void)s, called("loss_rows"), loss_operands(b, l);
  ck_assert_int_eq(parts, EXEC_LOSS_BOTH);
}

static void loss_value(Backend *b, BackendStream *s, const ExecLoss *l, double scale, double *loss)
{
  (void)s, (void)scale, called("loss_value"), loss_operands(b, l), within(loss, sizeof *loss);
}

static void loss_backward(Backend *b, BackendStream *s, const ExecLoss *l, double scale)
{
  (void)s, (void)scale, called("loss_backward"), loss_operands(b, l);
  seen.moved += 2.0 * l->rows * l->width * width(b);
}

static void add(Backend *b, BackendStream *s, size_t n, const void *x, void *y)
{
  (void)s;
  if (!g_str_has_suffix(seen.calls->str, "add"))
    called("add");
  moves(1, x, n * width(b)), moves(2, y, n * width(b));
}

static void add_wide(Backend *b, BackendStream *s, size_t n, const void *x, void *y)
{
  (void)s, called("add_wide");
  moves(1, x, n * wide(b)), moves(2, y, n * wide(b));
}

static void zero(Backend *b, BackendStream *s, void *p, size_t bytes)
{
  (void)b, (void)s, called("zero");
  moves(1, p, bytes);
}

static void copy(Backend *b, BackendStream *s, void *to, const void *from, size_t bytes)
{
  (void)b, (void)s, called("copy");
  ck_assert_ptr_ne(to, from);
  moves(1, to, bytes), moves(1, from, bytes);
}

static void sum_squares(Backend *b, BackendStream *s, size_t n, const void *x, double *out)
{
  (void)s, called("sum_squares");
  moves(1, x, n * wide(b)), within(out, sizeof *out);
}

/* Reads gradient, weight and both states, and writes all but the gradient. */
static void adam(Backend *b, BackendStream *s, const ExecAdam *a)
{
  (void)s, called("adam");
  moves(2, a->weight, a->n * width(b)), moves(1, a->gradient, a->n * wide(b));
  moves(2, a->m, a->n * wide(b)), moves(2, a->v, a->n * wide(b)), within(a->norm_sq, sizeof *a->norm_sq);
}

static void gemm(Backend *b, BackendStream *s, const ExecGemm *g)
{
  double c = g->wide_c ? wide(b) : width(b);

  (void)s, seen.product = *g, called(g->transpose_a ? "gemm_tn" : g->transpose_b ? "gemm_nt" : "gemm_nn");
  ck_assert_int_eq(g->lda, g->transpose_a ? g->m : g->k);
  ck_assert_int_eq(g->ldb, g->transpose_b ? g->k : g->n);
  ck_assert_int_eq(g->ldc, g->n);
  ck_assert_int_eq(g->wide_c, g->transpose_a); /* a gradient, which is added to */
  ck_assert_double_eq(g->beta, g->transpose_a);
  within(g->a, (double)g->m * g->k * width(b)), within(g->b, (double)g->n * g->k * width(b));
  within(g->c, (double)g->m * g->n * c);
}

static void attention_operands(Backend *b, const ExecAttention *a)
{
  int all = a->heads * a->head_dim;
  double rows = (double)a->batch * a->q_rows, last = (rows - 1) * a->ld_q + all;

  ck_assert_int_eq(a->ld_q, 3 * all); /* queries, keys and values of a token lie behind each other */
  ck_assert_int_eq(a->ld_kv, 3 * all);
  ck_assert_ptr_eq((const char *)a->k, (const char *)a->q + (gsize)(all * width(b)));
  ck_assert_ptr_eq((const char *)a->v, (const char *)a->k + (gsize)(all * width(b)));
  within(a->q, last * width(b)), within(a->k, last * width(b)), within(a->v, last * width(b));
  within(a->context, rows * all * width(b)), within(a->lse, rows * a->heads * wide(b));
}

static void attention_forward(Backend *b, BackendStream *s, const ExecAttention *a)
{
  (void)s, called("attention_forward"), attention_operands(b, a);
}

static void attention_backward(Backend *b, BackendStream *s, const ExecAttention *a)
{
  double last = ((double)a->batch * a->q_rows - 1) * a->ld_q + a->heads * a->head_dim;

  (void)s, called("attention_backward"), attention_operands(b, a);
  within(a->dcontext, (double)a->batch * a->q_rows * a->heads * a->head_dim * width(b));
  within(a->dq, last * width(b)), within(a->dk, last * width(b)), within(a->dv, last * width(b));
}

static void host_up(Backend *b, BackendStream *s, void *device, const void *host, size_t bytes)
{
  (void)b, (void)s, called("host_up"), moves(1, device, bytes);
  ck_assert_ptr_eq(host, seen.bench.host);
}

static void host_down(Backend *b, BackendStream *s, void *host, const void *device, size_t bytes)
{
  (void)b, (void)s, called("host_down"), moves(1, device, bytes);
  ck_assert_ptr_eq(host, seen.bench.host);
}

static void *hand_out(Backend *b, BackendStream *s, size_t bytes)
{
  (void)b, (void)s;
  ck_assert_uint_le(bytes, sizeof(double));
  called("alloc");
  return seen.bench.pool[0];
}

static void take_back(Backend *b, BackendStream *s, void *p, size_t bytes)
{
  (void)b, (void)s, called("dealloc"), within(p, bytes);
}

static void upload(Backend *b, BackendStream *s, void *to, const void *from, size_t bytes)
{
  (void)b, (void)s, (void)from, within(to, bytes);
}

static void all_reduce(Backend *b, BackendComm *c, BackendStream *s, void *x, size_t n, ExecType type, ExecReduce op)
{
  (void)c, (void)op, called(s == seen.bench.beside ? "all_reduce beside" : "all_reduce");
  ck_assert_int_eq(type, b->dtype);
  moves(1, x, n * width(b));
}

static void all_gather(Backend *b, BackendComm *c, BackendStream *s, const void *x, void *y, size_t each, ExecType type)
{
  (void)c, (void)s, (void)type, called("all_gather");
  within(x, each * width(b)), moves(1, y, RANKS * each * width(b));
}

static void reduce_scatter(Backend *b, BackendComm *c, BackendStream *s, const void *x, void *y, size_t each,
                           ExecType type)
{
  (void)c, (void)s, (void)type, called("reduce_scatter");
  moves(1, x, RANKS * each * width(b)), within(y, each * width(b));
}

static void send(Backend *b, BackendComm *c, BackendStream *s, const void *x, size_t n, ExecType type, int to)
{
  (void)c, (void)s, (void)type, called("send"), moves(1, x, n * width(b));
  ck_assert_int_eq(to, 1 - b->rank);
}

static void recv(Backend *b, BackendComm *c, BackendStream *s, void *x, size_t n, ExecType type, int from)
{
  (void)c, (void)s, (void)type, called("recv"), moves(1, x, n * width(b));
  ck_assert_int_eq(from, 1 - b->rank);
}

static void record(Backend *b, BackendEvent *e, BackendStream *s)
{
  (void)b, (void)e, called(s == seen.bench.beside ? "record beside" : "record");
}

static void wait_for(Backend *b, BackendEvent *e, BackendStream *s)
{
  (void)b, (void)e, (void)s, called("wait");
}

/* A bench of a core or of a device, whose memory nobody touches: pools lie apart. */
static Backend backend_of(gboolean large, ExecType dtype)
{
  seen.bench = (Bench) { .pool_bytes = large ? 1 << 30 : 1 << 25, .host = &seen, .walk = (char *)(1ll << 45),
                         .walk_bytes = 1 << 28, .beside = (BackendStream *)&seen.moved };
  for (int i = 0; i < BENCH_POOLS; i++)
    seen.bench.pool[i] = (char *)((i + 1ll) << 40);
  seen.calls = g_string_new(NULL);
  return (Backend) {
    .dtype = dtype, .size = RANKS, .units = large ? 132 : 1, .norm_forward = norm_forward,
    .norm_backward = norm_backward, .gelu_forward = gelu_forward, .gelu_backward = gelu_backward,
    .swiglu_forward = swiglu_forward, .swiglu_backward = swiglu_backward, .bias_forward = bias_forward,
    .bias_backward = bias_backward, .rope = rope, .embedding_forward = embedding_forward,
    .embedding_backward = embedding_backward, .position_forward = position_forward,
    .position_backward = position_backward, .loss_rows = loss_rows, .loss_value = loss_value,
    .loss_backward = loss_backward, .add = add, .add_wide = add_wide, .zero = zero, .copy = copy,
    .sum_squares = sum_squares, .adam = adam, .gemm = gemm, .attention_forward = attention_forward,
    .attention_backward = attention_backward, .host_up = host_up, .host_down = host_down, .alloc = hand_out,
    .dealloc = take_back, .upload = upload, .all_reduce = all_reduce, .all_gather = all_gather,
    .reduce_scatter = reduce_scatter, .send = send, .recv = recv, .event_record = record, .event_wait = wait_for,
  };
}

/* What each point calls, and whether that moves as many bytes as the point says. Where it does not, the executor reads
 * more or less than what prices count: a table of places that all rows share, logits once and not twice. */
static const struct {
  PointKind kind;
  const char *name;
  gboolean backward;
  const char *calls;
  gboolean exact;
} expected[] = {
  { POINT_MATMUL, "nt", FALSE, "gemm_nt", FALSE },
  { POINT_MATMUL, "nn", FALSE, "gemm_nn", FALSE },
  { POINT_MATMUL, "tn", FALSE, "gemm_tn", FALSE },
  { POINT_ATTENTION, "attention", FALSE, "attention_forward", FALSE },
  { POINT_ATTENTION, "attention", TRUE, "attention_backward", FALSE },
  { POINT_MEMORY, "norm", FALSE, "norm_forward", TRUE },
  { POINT_MEMORY, "norm", TRUE, "copy norm_backward", TRUE },
  { POINT_MEMORY, "residual", FALSE, "add", TRUE },
  { POINT_MEMORY, "bias", FALSE, "bias_forward", TRUE },
  { POINT_MEMORY, "bias gradient", TRUE, "bias_backward", TRUE },
  { POINT_MEMORY, "activation", FALSE, "gelu_forward", TRUE },
  { POINT_MEMORY, "activation", TRUE, "gelu_backward", TRUE },
  { POINT_MEMORY, "swiglu", FALSE, "swiglu_forward", TRUE },
  { POINT_MEMORY, "swiglu", TRUE, "swiglu_backward", TRUE },
  { POINT_MEMORY, "rotary", FALSE, "rope", TRUE },
  { POINT_MEMORY, "rotary", TRUE, "rope_backward", TRUE },
  { POINT_MEMORY, "lookup", FALSE, "embedding_forward", TRUE },
  { POINT_MEMORY, "lookup", TRUE, "embedding_backward", TRUE },
  { POINT_MEMORY, "positions", FALSE, "position_forward", TRUE },
  { POINT_MEMORY, "positions", TRUE, "position_backward", FALSE },
  { POINT_MEMORY, "loss", FALSE, "loss_rows loss_value", FALSE },
  { POINT_MEMORY, "loss", TRUE, "loss_backward", TRUE },
  { POINT_MEMORY, "optimizer", FALSE, "zero sum_squares adam zero", FALSE },
  { POINT_MEMORY, "shard copies", TRUE, "zero add_wide", TRUE },
  { POINT_COLLECTIVE, "all-reduce", FALSE, "all_reduce", TRUE },
  { POINT_COLLECTIVE, "all-gather", FALSE, "all_gather", TRUE },
  { POINT_COLLECTIVE, "reduce-scatter", FALSE, "reduce_scatter", TRUE },
  { POINT_COLLECTIVE, "send", FALSE, "send recv", FALSE },
  { POINT_TRANSFER, "copy", FALSE, "copy", FALSE },
  { POINT_TRANSFER, "upload", FALSE, "host_up", TRUE },
  { POINT_TRANSFER, "download", FALSE, "host_down", TRUE },
  { POINT_LAUNCH, "launch", FALSE, "alloc zero bias_forward dealloc", FALSE },
  { POINT_BESIDE, "all-reduce", FALSE, "all_reduce beside record beside gemm_nt gemm_nt gemm_nt gemm_nt gemm_nt gemm_nt "
    "wait", TRUE },
  { POINT_BESIDE, "all-reduce", TRUE, "all_reduce record gemm_nt gemm_nt gemm_nt gemm_nt gemm_nt gemm_nt wait", TRUE },
  { POINT_WALK, "read", FALSE, "add", FALSE },
  { POINT_WALK, "update", FALSE, "add", FALSE },
};

static int index_of(const MachinePoint *p)
{
  for (gsize i = 0; i < G_N_ELEMENTS(expected); i++)
    if (point_like(p, expected[i].kind, expected[i].name, expected[i].backward))
      return (int)i;
  return -1;
}

static void call(const MachinePoint *p)
{
  g_string_truncate(seen.calls, 0);
  seen.moved = 0;
  if (p->kind == POINT_COLLECTIVE || p->kind == POINT_BESIDE)
    bench_collective(&seen.bench, p, NULL);
  else
    bench_run(&seen.bench, p);
}

/* Of a point that is called several times, as pools are walked through and begun again. */
static void check(const MachinePoint *p, gboolean exact_type)
{
  int i = index_of(p);

  ck_assert_msg(i >= 0, "%s %s: nothing is expected of it", point_kind_names[p->kind], p->name);
  for (int again = 0; again < 3; again++) {
    call(p);
    ck_assert_str_eq(seen.calls->str, expected[i].calls);
    if (expected[i].exact && exact_type)
      ck_assert_msg(seen.moved == p->bytes, "%s %s: %.0f bytes, expected %.0f", p->name,
                    p->backward ? "backward" : "forward", seen.moved, p->bytes);
  }
}

static const struct {
  gboolean large;
  DType precision;
  ExecType dtype;
} machines[] = { { FALSE, DTYPE_FP32, EXEC_F32 }, { TRUE, DTYPE_BF16, EXEC_BF16 }, { TRUE, DTYPE_FP32, EXEC_F32 } };

/* Gradients and states are wide, whatever the format: bytes of those are not counted by it. */
START_TEST(points_call_their_kernels_within_the_pools)
{
  gboolean large = machines[_i].large;
  MachineHead head = { .ranks = RANKS, .node_ranks = RANKS, .processors = RANKS, .units = large ? 132 : 1,
                       .precision = machines[_i].precision, .memory_bytes = 4e9 };
  g_autoptr(GArray) points = points_design(&head);
  Backend b = backend_of(large, machines[_i].dtype);
  gboolean found[G_N_ELEMENTS(expected)] = { FALSE };

  seen.bench.b = &b;
  for (guint i = 0; i < points->len; i++) {
    MachinePoint p = g_array_index(points, MachinePoint, i);
    if (p.kind == POINT_DISK || p.kind == POINT_TURN)
      continue;
    if (p.kind == POINT_BESIDE)
      p.head_dim = 6;
    if (p.kind == POINT_COLLECTIVE)
      p.ranks = RANKS;
    check(&p, machines[_i].dtype == EXEC_F32);
    found[index_of(&p)] = TRUE;
  }
  for (gsize i = 0; i < G_N_ELEMENTS(expected); i++)
    ck_assert_msg(found[i] || (large && expected[i].kind == POINT_WALK), "%s: no point", expected[i].name);
  g_string_free(seen.calls, TRUE);
}
END_TEST

/* What was just written has two places by turns; weights and results have many. */
START_TEST(products_meet_their_operands_as_in_a_step)
{
  static const char *const names[] = { "nt", "nn", "tn" };
  Backend b = backend_of(_i, EXEC_F32);

  seen.bench.b = &b;
  for (gsize k = 0; k < G_N_ELEMENTS(names); k++) {
    MachinePoint p = { .kind = POINT_MATMUL, .m = 160, .n = 528, .k = 272 };
    g_strlcpy(p.name, names[k], sizeof p.name);
    ExecGemm first, second;
    call(&p), first = seen.product;
    call(&p), second = seen.product;
    call(&p);
    ck_assert_int_eq(ABS((char *)second.a - (char *)first.a), 160 * 272 * 4);
    ck_assert_ptr_eq(seen.product.a, first.a);
    ck_assert_ptr_ne(second.b, first.b);
    ck_assert_ptr_ne(seen.product.b, first.b);
    ck_assert_ptr_ne(second.c, first.c);
    ck_assert_ptr_ne(seen.product.c, first.c);
  }
  g_string_free(seen.calls, TRUE);
}
END_TEST

/* The second rank of a message answers; others are silent. */
START_TEST(messages_go_there_and_back)
{
  static const char *const calls[] = { "send recv", "recv send", "" };
  const MachinePoint p = { .kind = POINT_COLLECTIVE, .name = "send", .ranks = 2, .busy = 2, .bytes = 4096 };
  Backend b = backend_of(FALSE, EXEC_F32);

  seen.bench.b = &b;
  ck_assert_int_eq(bench_parts(&p), 2);
  for (b.rank = 0; b.rank < 3; b.rank++) {
    call(&p);
    ck_assert_str_eq(seen.calls->str, calls[b.rank]);
    ck_assert_double_eq(seen.moved, b.rank < 2 ? 2 * p.bytes : 0);
  }
  g_string_free(seen.calls, TRUE);
}
END_TEST

/* As many products and kernels between them, in turn or apart. */
START_TEST(turns_and_their_parts_are_the_same_calls)
{
  MachinePoint p = { .kind = POINT_TURN, .name = "activation", .m = 160, .n = 144, .k = 144, .bytes = 1 << 17 };
  Backend b = backend_of(FALSE, EXEC_F32);
  double moved;

  seen.bench.b = &b;
  call(&p);
  ck_assert(g_str_has_prefix(seen.calls->str, "gemm_nt gelu_forward gemm_nt gelu_forward"));
  g_autofree char *in_turn = g_strdup(seen.calls->str);
  moved = seen.moved;
  ck_assert_double_eq(moved, TURN_PAIRS * p.bytes);
  p.backward = TRUE;
  call(&p);
  ck_assert(g_str_has_prefix(seen.calls->str, "gemm_nt gemm_nt"));
  ck_assert(g_str_has_suffix(seen.calls->str, "gelu_forward gelu_forward"));
  ck_assert_uint_eq(seen.calls->len, strlen(in_turn));
  ck_assert_double_eq(seen.moved, moved);
  g_string_free(seen.calls, TRUE);
}
END_TEST

/* Every block of a walk once: what is read is added to one block, what is updated has that added. */
START_TEST(walks_go_from_end_to_end)
{
  MachinePoint p = { .kind = POINT_WALK, .name = "read", .bytes = 3 << 20 };
  Backend b = backend_of(FALSE, EXEC_F32);

  seen.bench.b = &b;
  call(&p);
  ck_assert_double_eq(seen.moved, 3 * p.bytes); /* the block's two thirds stay in the nearest cache */
  g_strlcpy(p.name, "update", sizeof p.name);
  call(&p);
  ck_assert_double_eq(seen.moved, 3 * p.bytes);
  g_string_free(seen.calls, TRUE);
}
END_TEST

/* The file holds what the host's memory held, is gone once it was read, and is missed where there is none. Of two benches
 * that measure in one folder each has its own, and what was there is left alone. */
START_TEST(disk_keeps_what_is_written)
{
  enum { BYTES = 1 << 16 };
  const MachinePoint write = { .kind = POINT_DISK, .name = "write", .bytes = BYTES };
  const MachinePoint read = { .kind = POINT_DISK, .name = "read", .bytes = BYTES };
  g_autofree char *memory = g_malloc(BYTES), *before = g_malloc(BYTES);
  char folder[] = "/tmp/tdp-test-XXXXXX";
  g_autofree char *others = g_malloc0(BYTES);
  Bench bench = { .host = memory }, other = { .host = others };

  ck_assert(g_setenv("TMPDIR", mkdtemp(folder), TRUE)); /* before anyone asks GLib for it */
  ck_assert_str_eq(g_get_tmp_dir(), folder);
  for (int i = 0; i < BYTES; i++)
    memory[i] = before[i] = (char)(i * 7);
  g_autofree char *kept = g_build_filename(folder, "tdp-calibrate-disk", NULL);
  ck_assert(g_file_set_contents(kept, "kept", 4, NULL)); /* the name that calibrations once had in common */
  bench_run(&bench, &write);
  bench_run(&bench, &write); /* in place of the first one */
  bench_run(&other, &write);
  memset(memory, 0, BYTES);
  bench_run(&bench, &read);
  ck_assert_ptr_null(bench.failure);
  ck_assert_mem_eq(memory, before, BYTES);
  bench_run(&bench, &read);
  ck_assert_str_eq(bench.failure, "a file for temporary data cannot be written and read");
  bench_clear(&other); /* was not read */
  ck_assert_int_eq(g_unlink(kept), 0);
  ck_assert_int_eq(g_rmdir(folder), 0);
}
END_TEST

TEST_LOOPS("exec: bench", { points_call_their_kernels_within_the_pools, G_N_ELEMENTS(machines), FALSE },
           { products_meet_their_operands_as_in_a_step, 2, FALSE }, { messages_go_there_and_back, 0, FALSE },
           { turns_and_their_parts_are_the_same_calls, 0, FALSE },
           { walks_go_from_end_to_end, 0, FALSE }, { disk_keeps_what_is_written, 0, FALSE })
