/*
 * The mathematics of layers, written once over the backend's table: parameters,
 * forward, input-gradient pass, weight-gradient pass.
 *
 * A layer's forward takes its input over and keeps what the backward needs in a
 * LayerState; the input pass takes the output's gradient over, returns the
 * input's and leaves in the state what the weight pass needs, which frees the
 * rest. Activations are rows x hidden, sequence after sequence; under sequence
 * parallelism a rank has tokens / tp consecutive rows outside of products.
 *
 * Weights are out x in. Products whose outputs are divided (qkv, up, logits) come
 * first, those whose inputs are divided (projection, down) second (Shoeybi et al.
 * 2019, arXiv 1909.08053); with sequence parallelism rows are gathered before and
 * scattered behind (Korthikanti et al. 2022, arXiv 2205.05198).
 *
 * To add a layer kind: a file with a const LayerType, a line in layer.c.
 */
#ifndef TDP_EXEC_LAYER_H
#define TDP_EXEC_LAYER_H

#include "exec/exposure.h"
#include "exec/memory.h"
#include "layout/layout.h"
#include "trace/trace.h"

/* Parameters of a layer, by slot. */
enum { BLOCK_NORM1, BLOCK_NORM1_BIAS, BLOCK_QKV, BLOCK_QKV_BIAS, BLOCK_PROJECTION, BLOCK_PROJECTION_BIAS, BLOCK_NORM2,
       BLOCK_NORM2_BIAS, BLOCK_UP, BLOCK_UP_BIAS, BLOCK_DOWN, BLOCK_DOWN_BIAS, BLOCK_ROUTER, BLOCK_SHARED_UP,
       BLOCK_SHARED_DOWN, PARAM_SLOTS };
enum { EMBEDDING_TABLE, EMBEDDING_POSITIONS };
enum { HEAD_NORM, HEAD_NORM_BIAS, HEAD_LOGITS, HEAD_TABLE = HEAD_LOGITS + 2 }; /* without a bias each; the table: of a
                                                                                  spread vocabulary */

enum { PARAM_IDS = BLOCK_ROUTER }; /* slots below it are numbered through the layers, others downwards from 0 */

/* Rows of a parameter that lie together in the whole one. */
typedef struct {
  int rows, first; /* here; in the whole */
} ParamRows;

typedef struct {
  int slot;
  gint64 id;       /* of the whole parameter: equal ids hold equal weights */
  int cols, first_col, all_cols;
  int n_rows;      /* of `rows` */
  ParamRows rows[3];
  int experts, first_expert; /* `rows` are of each of so many; the first of them in the whole */
  int expert_rows;           /* of an expert in the whole */
  int end_row;     /* rows from here on are padding, 0 = none */
  double mean, deviation; /* at the start */
  gboolean replicated; /* the same on every tensor-parallel rank */
  gboolean partial;    /* each tensor-parallel rank has a part of its gradient's sum */
  gboolean early;      /* its gradient is made by the input's pass: of a norm */
  gboolean apart;      /* of experts that are divided over ranks otherwise than the rest */
  gboolean tied;       /* the table that embedding and head share */
  gboolean copy;       /* of the table on another rank: not counted in the norm */
  gsize offset;        /* in its unit, elements */
  gsize early_offset;  /* among the early ones of its unit */
} Param;

static inline gsize param_size(const Param *p)
{
  gsize rows = 0;
  for (int i = 0; i < p->n_rows; i++)
    rows += p->rows[i].rows;
  return rows * p->cols * MAX(p->experts, 1);
}

/* What of model and layout decides a rank's shapes. */
typedef struct {
  const Model *model;
  const Layout *layout;
  int tp, tp_rank, cp, cp_rank, ep_rank, etp_rank;
  gboolean sp;
  int hidden, micro_batch;
  int seq;           /* tokens of a sequence on this rank */
  ExecPlaces places; /* of them in the sequence */
  int tokens, rows;  /* of a micro-batch; of them outside of products */
  int vocab_rows, vocab_first; /* of the padded vocabulary, on this rank */
  gboolean spread;     /* the vocabulary is divided over the pipeline ranks too */
  gboolean final_norm; /* of such ranks, whether this one has the norm of the head */
} LayerShape;

/* The arguments outlive it. */
LayerShape layer_shape(const Model *model, const Layout *layout, int rank);

/* Divides the vocabulary over the pipeline ranks, of which this is one. */
void layer_shape_spread(LayerShape *shape, int row);

/* Ranks with which passes exchange. */
typedef enum {
  GROUP_TENSOR,
  GROUP_TENSOR_BESIDE, /* the same, on the stream beside */
  GROUP_CONTEXT,
  GROUP_EXPERT,        /* that share the experts */
  GROUP_EXPERT_TENSOR, /* an expert */
  GROUP_EXPERT_BLOCK,  /* one copy of all */
  GROUP_COUNT,
} Group;

/* Where a layer runs. */
typedef struct {
  LayerShape shape;
  Backend *b;
  BackendStream *s;
  Memory *memory;
  BackendComm *groups[GROUP_COUNT];
  Exposure *exposure;             /* of collectives in the passes; NULL = not noted */
  BackendStream *beside;          /* of exchanges beside computation */
  BackendEvent *ready, *arrived;  /* of them */
  gboolean overlaps;              /* a backward: sums of input gradients run beside weight gradients */
  MemoryPart kept_as; /* part to which what a forward keeps is counted */
  gsize bytes;       /* of an element */
  gsize wide_bytes;
  double token_share; /* 1 / tokens of the global batch */
  double loss_scale; /* of gradients, 1 = they are the loss's own */
  double *loss;      /* on the device, += mean of this rank's share, not scaled */
  int *remade;       /* on the host, += blocks of which something is made again; NULL = not counted */
} LayerRun;

/* A layer's parameters as they lie now; gradients may be NULL in a forward. */
typedef struct {
  const LayerSpec *spec;
  void *weight[PARAM_SLOTS], *gradient[PARAM_SLOTS];
} LayerWeights;

enum { STATE_SLOTS = 28 };

/* Kept for one layer and micro-batch; slots are the layer kind's. Slot 0 is its
 * input. */
typedef struct {
  void *kept[STATE_SLOTS];
  const int32_t *tokens, *labels; /* of the micro-batch, not owned */
  ExpertLoad load; /* of the last forward */
  struct Visits *visits; /* on the host, from the forward to the weight pass: where copies of tokens went */
  void *gathered; /* gradient of all rows, that the embedding of a spread vocabulary leaves for the others' shares */
} LayerState;

typedef struct {
  void (*params)(const LayerShape *shape, const LayerSpec *spec, int layer, GArray *params); /* Param, appended */
  void *(*forward)(const LayerRun *r, const LayerWeights *w, LayerState *state, void *x);
  void *(*input)(const LayerRun *r, const LayerWeights *w, LayerState *state, void *dy);
  void (*weight)(const LayerRun *r, const LayerWeights *w, LayerState *state);
  /* Frees what the plan recomputes, and makes what is missing; NULL = nothing. */
  void (*forget)(const LayerRun *r, LayerState *state);
  void (*remake)(const LayerRun *r, const LayerWeights *w, LayerState *state);
} LayerType;

extern const LayerType layer_embedding, layer_block, layer_head;

void layer_params(const LayerShape *shape, const LayerSpec *spec, int layer, GArray *params);

/* Passes of one layer. A forward that does not `keep` leaves what the plan's
 * recomputation keeps; layer_remake makes the rest, at the latest in the backward,
 * where it counts as buffers. */
void *layer_forward(const LayerRun *r, const LayerWeights *w, LayerState *state, void *x, gboolean keep);
void layer_remake(const LayerRun *r, const LayerWeights *w, LayerState *state);
/* Counts what a weight pass will still read as activations. */
void layer_defer(const LayerRun *r, LayerState *state);
void *layer_backward_input(const LayerRun *r, const LayerWeights *w, LayerState *state, void *dy);
void layer_backward_weight(const LayerRun *r, const LayerWeights *w, LayerState *state);

/* Of each token its largest logit, the sum of exponentials and its label's logit, in as many columns of `softmax`; what
 * they are over tensor-parallel ranks. */
ExecLoss head_loss(const LayerRun *r, const LayerState *state, void *logits, void *softmax);
void head_reduce(const LayerRun *r, void *x, gsize n, ExecReduce op);

/* Rows of this rank's share of a table that a micro-batch's tokens name, zeros for other tokens; and their gradients,
 * which are added to the table's. */
void rows_look_up(const LayerRun *r, BackendStream *s, const int32_t *tokens, const void *table, void *y);
void rows_looked_up(const LayerRun *r, BackendStream *s, const int32_t *tokens, const void *dy, void *dtable);

/*
 * A vocabulary that is spread over the pipeline ranks: each holds a share of both
 * tables as parameters of the head. The first stage takes the sum of the shares'
 * rows for an embedding's input, the last one applies the final norm.
 *
 * spread_logits is S, which takes the normed output over; spread_gradients is T,
 * which returns this share's part of the input's gradient. If `early`, S makes
 * that part already and T returns NULL. In between, on a stream s, shares meet in
 * spread_merge; behind it spread_merge_input returns the early part.
 */
void *spread_norm(const LayerRun *r, const LayerWeights *w, LayerState *state, void *x);
void *spread_norm_backward(const LayerRun *r, const LayerWeights *w, LayerState *state, void *dy);
void spread_logits(const LayerRun *r, const LayerWeights *w, LayerState *state, void *normed, gboolean early);
void spread_merge(const LayerRun *r, LayerState *state, BackendStream *s, BackendComm *shares);
void *spread_merge_input(const LayerRun *r, LayerState *state, BackendStream *s);
void *spread_gradients(const LayerRun *r, const LayerWeights *w, LayerState *state, gboolean early);

/* Activations, buffers and their end on the run's stream. */
void *run_keep(const LayerRun *r, gsize elements);
void *run_keep_wide(const LayerRun *r, gsize elements);
void *run_buffer(const LayerRun *r, gsize elements);
void run_drop(const LayerRun *r, void **block); /* frees and clears */
void state_drop(const LayerRun *r, LayerState *state, guint slots); /* a bit a slot */

/* Parameters of a norm and of a product, appended. */
void params_norm(const LayerShape *shape, int layer, int slot, GArray *params);
Param param_matrix(int layer, int slot, int cols, double deviation);

/* Of a product: x has rows x in, y rows x out. */
typedef struct {
  int rows, in, out;
} LinearSize;

/* y = x w^T + bias; dx = dy w; dw += dy^T x, dbias += columns of dy. The first two also as products that are not asked
 * for yet, to which more may be added. */
void linear_forward(const LayerRun *r, LinearSize z, const void *x, const void *w, const void *bias, void *y);
void linear_input(const LayerRun *r, LinearSize z, const void *dy, const void *w, void *dx);
ExecGemm linear_forward_product(LinearSize z, const void *x, const void *w, const void *bias, void *y);
ExecGemm linear_input_product(LinearSize z, const void *dy, const void *w, void *dx);
void linear_weight(const LayerRun *r, LinearSize z, const void *x, const void *dy, void *dw, void *dbias);

/* A product whose outputs are divided, of the rows of all tensor-parallel ranks, with a slot's weight and its bias in the
 * next one: what it makes, kept; its weight's gradient. */
void *column_forward(const LayerRun *r, const LayerWeights *w, int slot, int out, void *x);
void column_weight(const LayerRun *r, const LayerWeights *w, int slot, int out, void *x, const void *dy);

/* A collective of the backend's on the stream of the passes, as in EXCHANGE(r, GROUP_TENSOR, all_reduce, x, n, type,
 * EXEC_SUM); its time there counts as exposed, by the group. */
#define EXCHANGE(r, group, collective, ...)                                             \
  do {                                                                                  \
    exposure_begin((r)->exposure, (r)->s, exposed_of[group]);                           \
    (r)->b->collective((r)->b, (r)->groups[group], (r)->s, __VA_ARGS__);                \
    exposure_end((r)->exposure, (r)->s);                                                \
  } while (FALSE)

extern const Exposed exposed_of[GROUP_COUNT];

/* Around what is given to r->beside, behind all that is enqueued on r->s; and the wait for it, which alone is
 * exposed. */
void exchange_begin_beside(const LayerRun *r);
void exchange_end_beside(const LayerRun *r);
void exchange_wait(const LayerRun *r, Group g);

/* Rows of all tensor-parallel ranks: a new buffer under sequence parallelism,
 * else x itself. rows_ungather frees such a buffer. */
void *rows_gather(const LayerRun *r, void *x, int width);
void rows_ungather(const LayerRun *r, void *gathered, void *x);

/* Sums a partial result of tokens x hidden, a buffer, which it takes over, and
 * returns this rank's rows. */
void *rows_sum(const LayerRun *r, void *partial);

/* The same of an input gradient: where the run overlaps, beside the weight gradient of the product behind it, which
 * `weight` makes; the weight pass then leaves that out. */
typedef void (*WeightGradient)(const LayerRun *r, const LayerWeights *lw, LayerState *state);
void *rows_sum_beside(const LayerRun *r, void *partial, WeightGradient weight, const LayerWeights *lw,
                      LayerState *state);

/* A norm of this rank's rows with the model's kind; its weight is in the slot, its bias in the next. The result is new,
 * of `part`; so are the statistics, which are kept: wide, 2 rows elements. */
void *norm_forward(const LayerRun *r, const LayerWeights *w, int slot, const void *x, void **stats, MemoryPart part);
void norm_backward(const LayerRun *r, const LayerWeights *w, int slot, const void *x, void *stats, const void *dy,
                   void *dx, gboolean add); /* dx += if add */

#endif
