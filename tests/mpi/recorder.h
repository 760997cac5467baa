/*
 * Notes what passes ask of a backend: its table's functions are replaced by ones that note a call and go on to the
 * real one. A call that another one makes inside (a product that is done by parts) is not noted. One recorder a
 * process, since the table has no room for data of its own.
 */
#ifndef TDP_TESTS_MPI_RECORDER_H
#define TDP_TESTS_MPI_RECORDER_H

#include "exec/rank.h"

/* A product: m x n from k. Attention: m of batch x heads, n elements of a head, k pairs of a query and a key. A
 * collective: `bytes` as Op's, `group` ranks. Others have a name alone. */
typedef struct {
  OpKind kind;
  const char *name; /* of the table's function, or of the op */
  double m, n, k;
  Collective what;
  double bytes;
  int group;
  const BackendComm *comm;
  ExecType type;
} Call;

typedef struct {
  Backend real;        /* the table as it was */
  const Exec *exec;    /* whose passes are noted, NULL = none */
  GArray **calls;      /* Call, of each task; NULL where none was made */
  GHashTable *ranks;   /* of each communicator */
  int depth;           /* calls that are being made */
} Recorder;

static Recorder recorder;

static inline void record(const BackendStream *s, Call call)
{
  const Exec *x = recorder.exec;

  if (!x || recorder.depth > 0 || x->current < 0 || (s != x->run.s && s != x->beside) ||
      exec_task(x, x->current)->kind != TASK_PASS)
    return;
  if (!recorder.calls[x->current])
    recorder.calls[x->current] = g_array_new(FALSE, FALSE, sizeof(Call));
  g_array_append_val(recorder.calls[x->current], call);
}

static inline void record_memory(const BackendStream *s, const char *name)
{
  record(s, (Call) { .kind = OP_MEMORY, .name = name });
}

static inline int recorded_ranks(const BackendComm *c)
{
  return GPOINTER_TO_INT(g_hash_table_lookup(recorder.ranks, c));
}

/* `n` elements of which each rank has one part or all. */
static inline void record_collective(const BackendStream *s, const char *name, const BackendComm *c, Collective what,
                                     size_t n, ExecType type)
{
  gboolean parts = what == COLLECTIVE_ALL_GATHER || what == COLLECTIVE_REDUCE_SCATTER;
  int ranks = recorded_ranks(c);

  record(s, (Call) { .kind = OP_COLLECTIVE, .name = name, .what = what, .group = ranks, .comm = c, .type = type,
                     .bytes = (double)n * exec_type_bytes(type) * (parts ? ranks : 1) });
}

#define RECORDED(function, note, parameters, ...) \
  static inline void recorded_##function parameters \
  {                                               \
    note;                                         \
    recorder.depth++;                             \
    recorder.real.function(__VA_ARGS__);          \
    recorder.depth--;                             \
  }

/* What a product does besides, as the kernels that it saves. */
static inline void record_gemm(const BackendStream *s, const ExecGemm *g)
{
  record(s, (Call) { .kind = OP_MATMUL, .name = g->transpose_a ? "gemm of a weight's gradient" : "gemm",
                     .m = g->m, .n = g->n, .k = g->k });
  if (g->added)
    record_memory(s, "add");
  if (g->bias)
    record_memory(s, "bias_forward");
  if (g->sums)
    record_memory(s, "bias_backward");
  if (g->behind != EXEC_AS_IT_IS)
    record_memory(s, g->behind == EXEC_GELU ? "gelu_forward" : "gelu_backward");
}

static inline void record_attention(const BackendStream *s, const char *name, const ExecAttention *a)
{
  record(s, (Call) { .kind = OP_ATTENTION, .name = name, .m = a->batch * a->heads, .n = a->head_dim,
                     .k = (double)a->q_len * a->kv_len / (a->causal ? 2 : 1) });
}

/* One that sends to one other rank alone is a send. */
static inline void record_all_to_all(const BackendStream *s, const BackendComm *c, const size_t *x_n, ExecType type)
{
  int ranks = recorded_ranks(c), receivers = 0;
  size_t n = 0;

  for (int i = 0; i < ranks; i++) {
    n += x_n[i];
    receivers += x_n[i] > 0;
  }
  if (receivers == 1 && ranks > 1)
    record(s, (Call) { .kind = OP_COLLECTIVE, .name = "all_to_all to one", .what = COLLECTIVE_SEND,
                       .bytes = (double)n * exec_type_bytes(type), .group = 2, .comm = c, .type = type });
  else
    record_collective(s, "all_to_all", c, COLLECTIVE_ALL_TO_ALL, n, type);
}

RECORDED(gemm, record_gemm(s, g), (Backend *b, BackendStream *s, const ExecGemm *g), b, s, g)
RECORDED(attention_forward, record_attention(s, "attention_forward", a),
         (Backend *b, BackendStream *s, const ExecAttention *a), b, s, a)
RECORDED(attention_backward, record_attention(s, "attention_backward", a),
         (Backend *b, BackendStream *s, const ExecAttention *a), b, s, a)
RECORDED(norm_forward, record_memory(s, "norm_forward"),
         (Backend *b, BackendStream *s, const ExecNormArgs *a, void *y), b, s, a, y)
RECORDED(norm_backward, record_memory(s, "norm_backward"),
         (Backend *b, BackendStream *s, const ExecNormArgs *a, const void *dy, void *dx, int add, void *dw, void *db),
         b, s, a, dy, dx, add, dw, db)
RECORDED(gelu_forward, record_memory(s, "gelu_forward"),
         (Backend *b, BackendStream *s, size_t n, const void *x, void *y), b, s, n, x, y)
RECORDED(gelu_backward, record_memory(s, "gelu_backward"),
         (Backend *b, BackendStream *s, size_t n, const void *x, const void *dy, void *dx), b, s, n, x, dy, dx)
RECORDED(swiglu_forward, record_memory(s, "swiglu_forward"),
         (Backend *b, BackendStream *s, int rows, int width, const void *x, void *y), b, s, rows, width, x, y)
RECORDED(swiglu_backward, record_memory(s, "swiglu_backward"),
         (Backend *b, BackendStream *s, int rows, int width, const void *x, const void *dy, void *dx),
         b, s, rows, width, x, dy, dx)
RECORDED(bias_forward, record_memory(s, "bias_forward"),
         (Backend *b, BackendStream *s, int rows, int width, void *y, const void *bias), b, s, rows, width, y, bias)
RECORDED(bias_backward, record_memory(s, "bias_backward"),
         (Backend *b, BackendStream *s, int rows, int width, const void *dy, void *db), b, s, rows, width, dy, db)
RECORDED(rope, record_memory(s, "rope"),
         (Backend *b, BackendStream *s, int rows, ExecPlaces places, int heads, int head_dim, int ld, void *x,
          double theta, int sign), b, s, rows, places, heads, head_dim, ld, x, theta, sign)
RECORDED(embedding_forward, record_memory(s, "embedding_forward"),
         (Backend *b, BackendStream *s, int rows, int width, int first, int n, const int32_t *tokens,
          const void *table, void *y), b, s, rows, width, first, n, tokens, table, y)
RECORDED(embedding_backward, record_memory(s, "embedding_backward"),
         (Backend *b, BackendStream *s, int rows, int width, int first, int n, const int32_t *tokens, const void *dy,
          void *dtable), b, s, rows, width, first, n, tokens, dy, dtable)
RECORDED(position_forward, record_memory(s, "position_forward"),
         (Backend *b, BackendStream *s, int rows, int width, ExecPlaces places, int first, const void *table, void *y),
         b, s, rows, width, places, first, table, y)
RECORDED(position_backward, record_memory(s, "position_backward"),
         (Backend *b, BackendStream *s, int rows, int width, ExecPlaces places, int first, const void *dy,
          void *dtable), b, s, rows, width, places, first, dy, dtable)
RECORDED(loss_rows, if (parts & EXEC_LOSS_SUM) record_memory(s, "loss_rows"),
         (Backend *b, BackendStream *s, const ExecLoss *l, ExecLossPart parts), b, s, l, parts)
RECORDED(loss_backward, record_memory(s, "loss_backward"),
         (Backend *b, BackendStream *s, const ExecLoss *l, double scale), b, s, l, scale)
RECORDED(dispatch_forward, record_memory(s, "dispatch_forward"),
         (Backend *b, BackendStream *s, const ExecRoute *r, int width, const void *x, void *copies),
         b, s, r, width, x, copies)
RECORDED(dispatch_backward, record_memory(s, "dispatch_backward"),
         (Backend *b, BackendStream *s, const ExecRoute *r, int width, const void *dcopies, void *dx),
         b, s, r, width, dcopies, dx)
RECORDED(combine_forward, record_memory(s, "combine_forward"),
         (Backend *b, BackendStream *s, const ExecRoute *r, int width, const void *copies, void *y),
         b, s, r, width, copies, y)
RECORDED(combine_backward, record_memory(s, "combine_backward"),
         (Backend *b, BackendStream *s, const ExecRoute *r, int width, const void *copies, const void *dy,
          void *dcopies, void *dweight), b, s, r, width, copies, dy, dcopies, dweight)
RECORDED(add, record_memory(s, "add"), (Backend *b, BackendStream *s, size_t n, const void *x, void *y), b, s, n, x, y)
RECORDED(all_reduce, record_collective(s, "all_reduce", c, COLLECTIVE_ALL_REDUCE, n, type),
         (Backend *b, BackendComm *c, BackendStream *s, void *x, size_t n, ExecType type, ExecReduce op),
         b, c, s, x, n, type, op)
RECORDED(broadcast, record_collective(s, "broadcast", c, COLLECTIVE_BROADCAST, n, type),
         (Backend *b, BackendComm *c, BackendStream *s, void *x, size_t n, ExecType type, int root),
         b, c, s, x, n, type, root)
RECORDED(all_to_all, record_all_to_all(s, c, n.to, type),
         (Backend *b, BackendComm *c, BackendStream *s, const void *x, void *y, ExecCounts n, ExecType type),
         b, c, s, x, y, n, type)

RECORDED(all_gather, record_collective(s, "all_gather", c, COLLECTIVE_ALL_GATHER, n, type),
         (Backend *b, BackendComm *c, BackendStream *s, const void *x, void *y, size_t n, ExecType type),
         b, c, s, x, y, n, type)
RECORDED(reduce_scatter, record_collective(s, "reduce_scatter", c, COLLECTIVE_REDUCE_SCATTER, n, type),
         (Backend *b, BackendComm *c, BackendStream *s, const void *x, void *y, size_t n, ExecType type),
         b, c, s, x, y, n, type)

/* Counts a new group's ranks by a sum over them. */
static inline BackendComm *recorded_comm_new(Backend *b, int color, int key, char *error)
{
  BackendComm *c = recorder.real.comm_new(b, color, key, error);
  float ranks = 1;

  if (!c)
    return NULL;
  BackendStream *s = b->stream_new(b, FALSE);
  void *sum = b->alloc(b, s, sizeof ranks);
  b->upload(b, s, sum, &ranks, sizeof ranks);
  recorder.real.all_reduce(b, c, s, sum, 1, EXEC_F32, EXEC_SUM);
  b->download(b, s, &ranks, sum, sizeof ranks);
  b->dealloc(b, s, sum, sizeof ranks);
  b->sync(b, s);
  b->stream_free(b, s);
  g_hash_table_insert(recorder.ranks, c, GINT_TO_POINTER((int)ranks));
  return c;
}

/* The backend's calls are noted from here on, as long as there is an `exec`. */
static inline void recorder_init(Backend *b)
{
  recorder = (Recorder) { .real = *b, .ranks = g_hash_table_new(NULL, NULL) };
#define RECORD(function) b->function = recorded_##function
  RECORD(gemm);
  RECORD(attention_forward), RECORD(attention_backward);
  RECORD(norm_forward), RECORD(norm_backward);
  RECORD(gelu_forward), RECORD(gelu_backward), RECORD(swiglu_forward), RECORD(swiglu_backward);
  RECORD(bias_forward), RECORD(bias_backward), RECORD(add), RECORD(rope);
  RECORD(embedding_forward), RECORD(embedding_backward), RECORD(position_forward), RECORD(position_backward);
  RECORD(loss_rows), RECORD(loss_backward);
  RECORD(dispatch_forward), RECORD(dispatch_backward), RECORD(combine_forward), RECORD(combine_backward);
  RECORD(all_reduce), RECORD(all_gather), RECORD(reduce_scatter), RECORD(all_to_all), RECORD(broadcast);
  RECORD(comm_new);
#undef RECORD
}

static inline void recorder_begin(const Exec *x)
{
  recorder.calls = g_new0(GArray *, x->program->tasks->len);
  recorder.exec = x;
}

static inline void recorder_end(void)
{
  for (guint i = 0; i < recorder.exec->program->tasks->len; i++)
    g_clear_pointer(&recorder.calls[i], g_array_unref);
  g_clear_pointer(&recorder.calls, g_free);
  recorder.exec = NULL;
}

#endif
