/*
 * State of one rank while it runs; private to src/exec.
 *
 * Every task of the rank's row has a run: events at its start and end, and what
 * was held. What other rows send arrives on streams of their own, one a sending
 * row, in the order in which that row's pipeline lane sends.
 */
#ifndef TDP_EXEC_RANK_H
#define TDP_EXEC_RANK_H

#include "exec/exec.h"
#include "exec/shards.h"
#include "exec/tokens.h"

/* Streams beside the program's lanes, for the exchanges of a spread vocabulary
 * that belong to another row, in its order: those of the first row, of the last. */
enum { LANE_LOOKUPS = LANE_COUNT, LANE_SHARES, ALL_LANES };

/* What a step adds up on the device: over all ranks, and this rank's own part of it. */
enum { SUM_NORM_SQ, SUM_LOSS, SUM_OWN_NORM_SQ, SUM_OWN_LOSS, SUM_COUNT };

typedef struct {
  BackendEvent *start, *end;
  gboolean issued;
  gboolean arrives;                        /* another row's send that a task of this row takes */
  MemoryPoint worst, after;                /* held at the worst moment of the task; when it had been issued */
  double most_buffers;                     /* at any moment of the task */
  double moved;                            /* elements between ranks, without padding */
} TaskRun;

typedef struct {
  int send, taker; /* tasks */
  void *buffer;
  BackendEvent *event;
} Arrival;

typedef struct {
  BackendComm *comm;   /* with the sending row; NULL = it sends nothing */
  BackendComm *gather; /* tensor-parallel ranks, where each was sent a share */
  BackendStream *stream;
  GArray *arrivals;    /* Arrival, in the order sent */
  guint posted;        /* of the arrivals */
  guint allowed;       /* how many may be, now */
  guint begun;         /* passes of the row that have begun */
} Incoming;

/* One micro-batch on one chunk. */
typedef struct {
  LayerState *layers;      /* of the chunk */
  void *in[2], *out[2];    /* across the chunk's ends; forward, backward */
  void *between[2];        /* from piece to piece */
  int32_t *tokens;         /* on the device: inputs, then labels */
} MicroState;

typedef struct {
  int stage, copy, first_layer, end_layer;
  gboolean keeps; /* forwards keep what the plan recomputes: a schedule that remakes passes this chunk by */
  MicroState *micro;
} ChunkState;

struct Exec {
  const Model *model;
  const Layout *layout;
  const Program *program;
  ExecOptions options;
  Backend *b;
  int row, coordinates[AXIS_COUNT], expert_coordinates[EXPERT_AXIS_COUNT];
  LayerShape shape;
  LayerRun run;
  Exposure exposure;
  Memory memory;
  Shards shards;
  Tokens tokens;
  BackendStream *lanes[ALL_LANES]; /* NULL where the rank has no tasks, but for the lane that computes */
  BackendStream *beside; /* of exchanges beside passes; NULL where there are none */
  BackendComm *world, *tensor, *tied, *copies;
  BackendComm *tensor_late, *tensor_beside; /* behind the passes; beside them, NULL where nothing overlaps */
  BackendComm *context, *data; /* data: all that hold the same weights, context-parallel ranks fastest */
  BackendComm *expert, *expert_data; /* that share the experts; that hold the same ones */
  BackendComm *expert_tensor, *expert_block; /* that share an expert's matrices; that hold one copy of all */
  BackendComm *shares[2];  /* pipeline ranks, for lookups and for the head; NULL unless the vocabulary is spread */
  BackendComm **outgoing;  /* of each row */
  Incoming *incoming;      /* of each row */
  ProgramReceives *receives;
  ChunkState *chunks;
  ChunkState share;        /* of a spread vocabulary: the head's, no stage */
  void *spread_rows;       /* what is looked up for another row and comes back, on the device */
  int32_t *spread_tokens;
  TaskRun *runs;           /* of each task of the program */
  GArray *order[ALL_LANES]; /* int: tasks that this rank takes part in */
  int norm_task;
  double *sums;            /* on the device: SUM_COUNT; the squared norm is of scaled gradients, the loss unscaled */
  double host_norm_sq;     /* sums[SUM_NORM_SQ], where the host's optimizer reads it */
  LossScaler scaler;
  int updates;             /* steps that were not skipped */
  int remade;              /* of the step: blocks whose activations were made again */
  BackendEvent *begin;
  BackendWithheld withheld; /* at the beginning */
  BackendMemory device;     /* of the last step */
  int step;                /* from 1 */
  gint current;            /* task, -1 = between steps; read by other threads */
  guint64 progress, waits;
};

static inline const Task *exec_task(const Exec *x, int task)
{
  return program_task(x->program, task);
}

static inline const Segment *exec_segment(const Exec *x, int task)
{
  return program_segment(x->program, exec_task(x, task));
}

/* This rank's number among those that hold the same weights. */
static inline int exec_replica(const Exec *x)
{
  return x->coordinates[AXIS_DATA] * x->layout->passes.cp + x->coordinates[AXIS_CONTEXT];
}

/* Of the head, or of this rank's share of a spread vocabulary. */
static inline LayerWeights exec_head_weights(const Exec *x)
{
  return shards_weights(&x->shards, x->model->n_layers - 1);
}

/* Whether sums of input gradients over tensor-parallel ranks run beside weight gradients. */
static inline gboolean exec_overlaps_sums(const Exec *x)
{
  return x->layout->passes.overlap_tensor && x->layout->passes.tp > 1;
}

/* Communicators, streams and what each row receives (groups.c). */
gboolean groups_init(Exec *x, GError **error);
void groups_clear(Exec *x);

/* The chunk of this row that holds a stage of a copy, NULL = another row's. */
ChunkState *chunk_find(const Exec *x, int stage, int copy);

/* Posts receives as far as the program says when a pass begins; `taker` must find its own posted. */
void receives_post(Exec *x, int taker);

/* Posts more while the rank waits; `data` is the Exec. */
void receives_more(void *data);

/* Makes the taker's stream wait for its arrivals and hands them over. */
void receives_take(Exec *x, int taker, BackendStream *s);

/* Ends the run: a failure of this rank. */
G_NORETURN void exec_fail(Exec *x, const char *message);

/* The first step's loss scale; what became of a step and the next one's scale, by all ranks at once (outcome.c). */
void outcome_init(Exec *x);
void outcome_note(Exec *x, ExecStep *out);

/* The largest number of any rank, by way of the sums, which are lost; by all ranks at once. */
double outcome_largest(Exec *x, double number);

/* What the tasks of the step moved and made again, and should have (moved.c). */
void moved_note(Exec *x, ExecStep *out);

/* Tokens and labels of a micro-batch: on the host, for the caller to free; on the device, once. */
int32_t *tokens_host(const Exec *x, int micro);
void tokens_load(Exec *x, MicroState *m, int micro);

/* Does a task's work on a stream (work.c, work_data.c, work_spread.c), by TaskKind. */
extern void (*const task_work[TASK_KIND_COUNT])(Exec *x, int task, BackendStream *s);
void work_gather(Exec *x, int task, BackendStream *s);
void work_reduce(Exec *x, int task, BackendStream *s);
void work_tied(Exec *x, int task, BackendStream *s);
void work_copies(Exec *x, int task, BackendStream *s);
void work_norm(Exec *x, int task, BackendStream *s);
void work_optimizer(Exec *x, int task, BackendStream *s);
void work_exchange(Exec *x, int task, BackendStream *s);
void pass_logits(Exec *x, int task);
void pass_vocabulary(Exec *x, int task);

#endif
