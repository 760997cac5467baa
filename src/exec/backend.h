/*
 * What a machine must do for the executor: memory, streams, kernels and
 * communication, as a table of functions. cpu/ fills it with loops, OpenBLAS and
 * MPI, cuda/ with kernels, cuBLAS and NCCL. Layers and schedules are written
 * once above it. Plain C without GLib, so that .cu files can include it.
 *
 * Streams run their work in order. Everything is enqueued: a function may return
 * before its work is done, and only sync, event_wait and event_done look at the
 * outcome. A backend whose computation is synchronous (cpu) runs a kernel before
 * it returns and finishes the waits of the stream first, driving the other
 * streams meanwhile.
 *
 * Matrices are row-major; sizes count elements, ld is the distance of two rows.
 * A weight is out x in, so a product is y = x w^T. Weights and activations have
 * the backend's `dtype`; where a parameter says "wide" it is fp32, or fp64 if
 * `dtype` is that: accumulated gradients, optimizer states, statistics of norms
 * and softmax, losses. Token ids are int32. Kernels add to outputs that the
 * comment calls +=, and overwrite others. A null pointer means that the model has
 * no such parameter (bias) or that nobody wants the result.
 *
 * Errors: functions that set up return NULL or nonzero and write one line into
 * `error`. What fails later (a kernel, the network, memory) makes `failed`
 * return the line; the executor asks after each task and then takes the run down.
 * alloc returns NULL if memory is out.
 */
#ifndef TDP_EXEC_BACKEND_H
#define TDP_EXEC_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { EXEC_F32, EXEC_F64, EXEC_F16, EXEC_BF16, EXEC_I32 } ExecType;
typedef enum { EXEC_SUM, EXEC_MAX } ExecReduce;
typedef enum { EXEC_LAYERNORM, EXEC_RMSNORM } ExecNorm;

enum { EXEC_ERROR_SIZE = 256 };

typedef struct Backend Backend;        /* one device of one rank */
typedef struct BackendStream BackendStream;
typedef struct BackendEvent BackendEvent;
typedef struct BackendComm BackendComm; /* a group of ranks */

typedef enum { EXEC_AS_IT_IS, EXEC_GELU, EXEC_GELU_BACKWARD } ExecBehind;

/*
 * C = alpha op(A) op(B) + beta C for `batch` products; op(A) is m x k, op(B) is
 * k x n, C is m x n. `wide_c`: C is wide (a gradient), else of `dtype`; products
 * accumulate in wide numbers either way.
 *
 * The rest is for single products whose rows of C lie behind each other, and may be
 * done before the product is rounded: `added` takes C's place on the right; `bias`
 * of n elements is added to each row. Under EXEC_GELU the result goes to `inner`, laid
 * out as C, and C is GELU of it; under EXEC_GELU_BACKWARD C is the result times GELU's
 * slope at `inner`. sums += the sums of op(A)'s rows, m wide numbers (the gradient of
 * a bias, in the product for the weight's).
 */
typedef struct {
  int transpose_a, transpose_b, wide_c;
  int m, n, k, batch;
  double alpha, beta;
  const void *a, *b;
  void *c;
  int lda, ldb, ldc;
  size_t stride_a, stride_b, stride_c; /* elements between products of the batch */
  const void *added, *bias;
  ExecBehind behind;
  void *inner, *sums; /* sums: only of A transposed and its rows behind each other */
} ExecGemm;

/* A norm over rows of `width`; mean is unused under RMSNorm. */
typedef struct {
  ExecNorm kind;
  int rows, width;
  double epsilon;
  const void *x, *weight, *bias;
  void *mean, *rstd; /* wide, of each row: written forward, read backward */
} ExecNormArgs;

/*
 * Softmax attention of `batch` sequences with grouped queries: query head h reads
 * key and value head h / (heads / kv_heads). q, k, v point at the first element
 * of head 0; a token's rows are ld_q or ld_kv apart, a head's elements are
 * contiguous, sequences are q_rows or kv_rows tokens apart, of which the first
 * q_len or kv_len take part. Context rows are heads * head_dim wide and lie as the
 * queries' do. `lse` is the logarithm of each row's sum, wide, batch x heads x
 * q_rows: written forward, read backward. Gradients dq, dk, dv have the layout of
 * q, k, v. Under `causal` q_len is kv_len. With `window` > 0 a query sees that
 * many keys, itself included.
 */
typedef struct {
  int batch, q_len, kv_len, q_rows, kv_rows, heads, kv_heads, head_dim, ld_q, ld_kv, causal, window;
  double scale;
  const void *q, *k, *v;
  void *context, *lse;
  const void *dcontext;
  void *dq, *dk, *dv;
  int add; /* gradients are += */
} ExecAttention;

/* Rows in memory, `pitch` bytes from one's start to the next's. */
typedef struct {
  void *first;
  size_t pitch;
} ExecRows;

/* Elements to each rank of a group and from each. */
typedef struct {
  const size_t *to, *from;
} ExecCounts;

/* Where a sequence's rows stand in it: the first `half` from `first` on, the others
 * from `second` on. */
typedef struct {
  int seq, half, first, second;
} ExecPlaces;

/* Rows of logits of which this rank holds columns first .. first + width; columns
 * from `vocab` on are padding and stand for minus infinity. Labels are global.
 * After loss_exp the logits are exp(logit - local). */
typedef struct {
  int rows, width, first, vocab;
  void *logits;          /* of `dtype` */
  const int32_t *labels; /* on the device */
  void *max, *sum, *target; /* wide, of each row */
  void *local;              /* wide, of each row: the largest of this share; NULL = logits are as they were */
} ExecLoss;

typedef enum { EXEC_LOSS_MAX = 1, EXEC_LOSS_SUM = 2, EXEC_LOSS_BOTH = 3 } ExecLossPart;

/*
 * Rows and the `top` experts that each is sent to. Copies of a row lie in the order
 * of experts, those of one expert in the order of rows; copy i of them all (row i /
 * top) is at place[i], expert e's are from first[e] to first[e + 1]. Of equal logits
 * the lower expert's counts as larger. Copies beyond an expert's capacity are dropped:
 * they have place -1, add nothing and get no gradient. Dropped are those of least
 * weight, of equal ones those of later rows, or those of the last rows.
 */
typedef struct {
  int rows, experts, top;
  int capacity;        /* most copies of an expert, 0 = any number */
  int by_position;     /* the last rows' are dropped */
  int padded;          /* each expert has `capacity` places, empty ones behind its copies */
  const void *logits;  /* wide, rows x experts */
  void *weight;        /* wide, rows x top: softmax over the chosen (Mixtral, arXiv 2401.04088, section 2.1) */
  int32_t *chosen, *place; /* rows x top; without a place: not here */
  int32_t *first;      /* experts + 1 */
} ExecRoute;

/* A step of AdamW. Where the norm is not finite it is skipped: weight, master, m and v stay as they are. */
typedef struct {
  size_t n;
  void *weight;       /* of `dtype` */
  void *master;       /* wide copy that is updated first; NULL = weight is wide itself */
  const void *gradient; /* wide, of the loss times loss_scale */
  void *m, *v;        /* wide, of the loss itself */
  double rate, beta1, beta2, epsilon, decay;
  int step;           /* from 1; those that were skipped do not count */
  double loss_scale;  /* 1 = gradients are the loss's own */
  const double *norm_sq; /* square of the global norm of the gradients as they lie */
  double max_norm;    /* the loss's gradients are scaled down to it; 0 = never */
} ExecAdam;

/* Time in which a rank could have computed and had no processor, since it began: differences count. */
typedef struct {
  double ready_s;  /* it was ready to run, and other programs or the hypervisor had the processor */
  double stolen_s; /* what the hypervisor withheld of a processor of this host, on average over them, in steps of 10 ms:
                      where the system counts such time as used (Linux without CONFIG_PARAVIRT_TIME_ACCOUNTING),
                      ready_s lacks it */
} BackendWithheld;

/* Elements from .. from + n, row by row, of the columns first_col .. first_col + cols of a matrix with all_cols: from
 * first_row on, and zeros from end_row on (0 = none). They are mean + deviation times the normal number of the seed,
 * the stream and the place in the whole matrix (exec/random.h). */
typedef struct {
  uint64_t seed, stream, first_row, first_col, end_row;
  int cols, all_cols;
  double mean, deviation;
  size_t from, n;
} ExecFill;

/* What a device itself says of its memory; 0 = not known. */
typedef struct {
  size_t used_bytes, reserved_bytes; /* most at once of what alloc had handed out, of what it held for that */
  size_t device_bytes;               /* in use now, the driver's, libraries' and other programs' parts included */
} BackendMemory;

/* How a process finds its device and the others. */
typedef struct {
  int rank, size, local_rank;
  ExecType dtype;
  /* Rank 0's bytes to all ranks, by all at once; NULL where there is one rank. */
  void (*share)(void *data, void *bytes, size_t n);
  void *share_data;
} BackendOptions;

struct Backend {
  const char *name; /* "cpu", "cuda" */
  char device[64];  /* for reports */
  ExecType dtype;
  int rank, size;
  void (*poll)(void *); /* called while the host waits for a stream or event; may be NULL */
  void *poll_data;
  int concurrent;       /* kernels of different streams may run at once */
  int units;            /* multiprocessors; 1 where a device is a core */
  size_t memory_bytes, cache_bytes; /* of the device; 0 = the host's, not known */
  uint64_t activity;    /* grows with what starts and, on a device, with what ends: a long task is no hang */

  void (*free)(Backend *b); /* after an orderly end */
  /* One line about what went wrong, NULL if nothing did. Never blocks. */
  const char *(*failed)(Backend *b);
  /* `restart`: the most is counted anew from here. NULL = nothing is known but what alloc was asked for. */
  BackendMemory (*device_memory)(Backend *b, int restart);
  /* NULL = not known: a device that no other program uses. */
  BackendWithheld (*withheld)(Backend *b);

  /* Memory, in the order of a stream: what is freed may be handed out again at
   * once to the same stream. Contents are undefined. */
  void *(*alloc)(Backend *b, BackendStream *s, size_t bytes);
  void (*dealloc)(Backend *b, BackendStream *s, void *p, size_t bytes);
  /* Host to device, `from` may be reused at once; device to host, returns when done; on the device. */
  void (*upload)(Backend *b, BackendStream *s, void *to, const void *from, size_t bytes);
  void (*download)(Backend *b, BackendStream *s, void *to, const void *from, size_t bytes);
  void (*copy)(Backend *b, BackendStream *s, void *to, const void *from, size_t bytes);
  /* The first `bytes` of each of `n` rows. */
  void (*copy_rows)(Backend *b, BackendStream *s, ExecRows to, ExecRows from, size_t bytes, size_t n);
  void (*zero)(Backend *b, BackendStream *s, void *p, size_t bytes);

  /* The host's own memory, from which and to which copies run in the order of a
   * stream; alloc returns NULL if it is out. */
  void *(*host_alloc)(Backend *b, size_t bytes);
  void (*host_free)(Backend *b, void *p);
  void (*host_down)(Backend *b, BackendStream *s, void *host, const void *device, size_t bytes);
  void (*host_up)(Backend *b, BackendStream *s, void *device, const void *host, size_t bytes);

  /* Streams and events. An event is recorded any number of times; event_s is the
   * moment of the last record in seconds on the clock of now_s. */
  BackendStream *(*stream_new)(Backend *b, int computes); /* computes: kernels will run on it */
  void (*stream_free)(Backend *b, BackendStream *s);
  BackendEvent *(*event_new)(Backend *b);
  void (*event_free)(Backend *b, BackendEvent *e);
  void (*event_record)(Backend *b, BackendEvent *e, BackendStream *s);
  void (*event_wait)(Backend *b, BackendEvent *e, BackendStream *s); /* later work of s waits */
  int (*event_done)(Backend *b, BackendEvent *e);
  double (*event_s)(Backend *b, BackendEvent *e); /* of a done event */
  double (*now_s)(Backend *b);
  void (*sync)(Backend *b, BackendStream *s); /* host waits until the stream is empty, or failed */

  /* Kernels, on a stream that computes; the embedding's, loss_merge, loss_input,
   * add_wide and sum_squares on any, as are upload, copy, zero and dealloc. */
  void (*gemm)(Backend *b, BackendStream *s, const ExecGemm *g);
  void (*norm_forward)(Backend *b, BackendStream *s, const ExecNormArgs *a, void *y);
  /* dx (+= if add), dweight +=, dbias += (wide). */
  void (*norm_backward)(Backend *b, BackendStream *s, const ExecNormArgs *a, const void *dy, void *dx, int add,
                        void *dweight, void *dbias);
  void (*gelu_forward)(Backend *b, BackendStream *s, size_t n, const void *x, void *y); /* tanh form */
  void (*gelu_backward)(Backend *b, BackendStream *s, size_t n, const void *x, const void *dy, void *dx);
  /* x has rows of 2 width, gate then up: y = silu(gate) up. */
  void (*swiglu_forward)(Backend *b, BackendStream *s, int rows, int width, const void *x, void *y);
  void (*swiglu_backward)(Backend *b, BackendStream *s, int rows, int width, const void *x, const void *dy, void *dx);
  void (*bias_forward)(Backend *b, BackendStream *s, int rows, int width, void *y, const void *bias); /* y += */
  void (*bias_backward)(Backend *b, BackendStream *s, int rows, int width, const void *dy, void *dbias); /* wide += */
  /* Rotates the halves of each of `heads` heads in rows ld apart, in place, by the
   * row's place times theta^(-2i/head_dim); `sign` -1 is the backward. */
  void (*rope)(Backend *b, BackendStream *s, int rows, ExecPlaces places, int heads, int head_dim, int ld, void *x,
               double theta, int sign);
  void (*attention_forward)(Backend *b, BackendStream *s, const ExecAttention *a);
  void (*attention_backward)(Backend *b, BackendStream *s, const ExecAttention *a);
  /* Joins what the queries of `a` found among other keys, laid out alike, into its
   * context and lse. */
  void (*attention_merge)(Backend *b, BackendStream *s, const ExecAttention *a, const void *context, const void *lse);
  /* y = row of the token, or zeros where the token is not among first .. first + n. */
  void (*embedding_forward)(Backend *b, BackendStream *s, int rows, int width, int first, int n, const int32_t *tokens,
                            const void *table, void *y);
  void (*embedding_backward)(Backend *b, BackendStream *s, int rows, int width, int first, int n, const int32_t *tokens,
                             const void *dy, void *dtable); /* wide += */
  /* y += table row at the place of row (first + row), and the gradient of the table. */
  void (*position_forward)(Backend *b, BackendStream *s, int rows, int width, ExecPlaces places, int first,
                           const void *table, void *y);
  void (*position_backward)(Backend *b, BackendStream *s, int rows, int width, ExecPlaces places, int first,
                            const void *dy, void *dtable); /* wide += */
  /* Cross-entropy in the steps between which ranks reduce: the largest logit;
   * then the sum of exponentials and the label's logit, or both in one reading
   * where no rank has other columns; then loss += sum over rows of log sum + max -
   * target; then logits become their gradient times scale. */
  void (*loss_rows)(Backend *b, BackendStream *s, const ExecLoss *l, ExecLossPart parts);
  void (*loss_value)(Backend *b, BackendStream *s, const ExecLoss *l, double scale, double *loss); /* on the device */
  void (*loss_backward)(Backend *b, BackendStream *s, const ExecLoss *l, double scale);
  /* The same where the shares of the rows meet later: logits become exp(logit -
   * local), with their sum and the label's logit; then, with `max` over all
   * shares, sum becomes what this share adds to theirs; then loss_backward; or
   * from part = exp(logit - local) w and label = w's row of the label, part
   * becomes scale (part exp(local - max) / sum - label), rows of `hidden`. */
  void (*loss_exp)(Backend *b, BackendStream *s, const ExecLoss *l);
  void (*loss_merge)(Backend *b, BackendStream *s, const ExecLoss *l);
  void (*loss_input)(Backend *b, BackendStream *s, const ExecLoss *l, int hidden, const void *label, void *part,
                     double scale);
  /* Chooses experts and places. Copies to places; back is the sum of copies, += .
   * Weighted sum of copies: y = sum of weight times copy; backward the copies'
   * gradients and those of weights, and from these the logits', of dtype. Empty
   * places are left as they are. */
  void (*route)(Backend *b, BackendStream *s, const ExecRoute *r);
  void (*dispatch_forward)(Backend *b, BackendStream *s, const ExecRoute *r, int width, const void *x, void *copies);
  void (*dispatch_backward)(Backend *b, BackendStream *s, const ExecRoute *r, int width, const void *dcopies, void *dx);
  void (*combine_forward)(Backend *b, BackendStream *s, const ExecRoute *r, int width, const void *copies, void *y);
  void (*combine_backward)(Backend *b, BackendStream *s, const ExecRoute *r, int width, const void *copies,
                           const void *dy, void *dcopies, void *dweight);
  void (*route_backward)(Backend *b, BackendStream *s, const ExecRoute *r, const void *dweight, void *dlogits);
  void (*add)(Backend *b, BackendStream *s, size_t n, const void *x, void *y);      /* y += x, of dtype */
  void (*add_wide)(Backend *b, BackendStream *s, size_t n, const void *x, void *y); /* y += x, wide */
  void (*cast)(Backend *b, BackendStream *s, size_t n, const void *x, ExecType from, void *y, ExecType to);
  /* Initial weights, the same of all backends. */
  void (*fill)(Backend *b, BackendStream *s, const ExecFill *f, void *y, ExecType type);
  void (*sum_squares)(Backend *b, BackendStream *s, size_t n, const void *x, double *out); /* wide x; += */
  void (*adam)(Backend *b, BackendStream *s, const ExecAdam *a); /* all pointers on the device */
  /* By the host, with all pointers on the host: updates `master`, and where `weight` is given writes master to it in
   * the backend's type, also where the step is skipped or that type is wide; it may be the gradient's memory. */
  void (*host_adam)(Backend *b, BackendStream *s, const ExecAdam *a);

  /*
   * Communication. comm_new is called by all ranks in the same order; ranks with
   * the same color make a group, ordered by key, color -1 stays out (NULL, no
   * error). A communicator is used from one stream at a time. Buffers may be the
   * same where the operation allows it: all_gather's own part may stand in place,
   * reduce_scatter's result may be its own part of the source.
   * all_to_all sends n.to[i] elements to rank i and receives n.from[i] from it; the
   * blocks lie one behind the other in the order of ranks.
   * send and recv on a communicator match in order.
   */
  BackendComm *(*comm_new)(Backend *b, int color, int key, char *error);
  void (*comm_free)(Backend *b, BackendComm *c);
  void (*all_reduce)(Backend *b, BackendComm *c, BackendStream *s, void *x, size_t n, ExecType type, ExecReduce op);
  void (*all_gather)(Backend *b, BackendComm *c, BackendStream *s, const void *x, void *y, size_t n_each,
                     ExecType type);
  void (*reduce_scatter)(Backend *b, BackendComm *c, BackendStream *s, const void *x, void *y, size_t n_each,
                         ExecType type);
  void (*all_to_all)(Backend *b, BackendComm *c, BackendStream *s, const void *x, void *y, ExecCounts n,
                     ExecType type);
  void (*send)(Backend *b, BackendComm *c, BackendStream *s, const void *x, size_t n, ExecType type, int to);
  void (*recv)(Backend *b, BackendComm *c, BackendStream *s, void *x, size_t n, ExecType type, int from);
  void (*broadcast)(Backend *b, BackendComm *c, BackendStream *s, void *x, size_t n, ExecType type, int root);
  void (*barrier)(Backend *b, BackendComm *c, BackendStream *s);
};

#ifdef __CUDACC__
__host__ __device__
#endif
static inline int exec_place(const ExecPlaces *p, size_t row)
{
  int at = (int)(row % (size_t)p->seq);
  return at < p->half ? p->first + at : p->second + at - p->half;
}

/* Whether a product is all that is asked for; else exec_gemm_apart does it by that and the table's other kernels. */
static inline int exec_gemm_plain(const ExecGemm *g)
{
  return !g->added && !g->bias && !g->sums && g->behind == EXEC_AS_IT_IS;
}

void exec_gemm_apart(Backend *b, BackendStream *s, const ExecGemm *g);

/* Of a rank that has the whole sequence. */
static inline ExecPlaces exec_places_whole(int seq)
{
  ExecPlaces places = { seq, seq, 0, 0 };
  return places;
}

/* Withheld share of the seconds between two moments. */
static inline double exec_withheld_share(const BackendWithheld *from, const BackendWithheld *until, double seconds)
{
  double ready_s = until->ready_s - from->ready_s, stolen_s = until->stolen_s - from->stolen_s;
  double longer_s = ready_s > stolen_s ? ready_s : stolen_s;

  return longer_s > 0 && seconds > 0 ? longer_s / seconds : 0;
}

static inline size_t exec_type_bytes(ExecType type)
{
  return type == EXEC_F64 ? 8 : type == EXEC_F16 || type == EXEC_BF16 ? 2 : 4;
}

static inline ExecType exec_wide(ExecType type)
{
  return type == EXEC_F64 ? EXEC_F64 : EXEC_F32;
}

/* The backends that this program was built with, ending with a NULL name. */
typedef struct {
  const char *name;
  Backend *(*open)(const BackendOptions *options, char *error);
} BackendKind;
extern const BackendKind backends[];

#ifdef __cplusplus
}
#endif

#endif
