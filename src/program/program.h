/*
 * One training step as a program: tasks in order on lanes, what each waits
 * for, and what each allocates and frees. The simulator and the executor both
 * interpret it.
 *
 * A row is a class of alike ranks: one for each pipeline stage rank. Each row
 * has a lane for computation, one for sends to neighbouring stages, one for
 * data-parallel communication and one for copies from the host and to it each; a
 * lane runs its tasks in order, one at a time.
 * (Tensor- and context-parallel communication runs inside passes, see cost/price.h.)
 *
 * A task is one pass of one chunk for one micro-batch, or of a piece of the
 * chunk where gradients are reduced or parameters gathered beside it; or one
 * transfer; or one collective. What a task is and takes stands once for all
 * alike tasks in its Segment. Everything else is an edge: prefetch limits,
 * finite buffers, sends that block, the barrier of the gradient norm. A stage
 * that follows another on the same rank is sent nothing.
 *
 * Where ZeRO divides over a part of the ranks that hold the same weights, each
 * keeps the sums of its part's gradients, and adds them up over the copies of
 * that part once a step (MiCS, Zhang et al. 2022, arXiv 2205.00119, section 3.4).
 *
 * ZeRO-3's weights are gathered for each piece in order of use, as far ahead as
 * the prefetch bucket and the limit of live parameters let them; weights that
 * the host keeps come up before, a piece earlier. Inputs of blocks that go to
 * the host leave behind their forward, at most two at a time, and come back
 * beside the pass before the backward that needs them.
 *
 * Gradients that leave a rank behind each micro-batch do so a bucket at a time: a pass that makes more waits until those
 * on their way are as few as the framework's queue holds (Framework.reduce_queue).
 *
 * Experts that are apart (PassLayout.experts_apart) have the same weights on other
 * ranks than the rest of their layers: gathers and reductions of a piece come in
 * two, of all but the experts and of the experts (Segment.experts).
 *
 * What differs by schedule:
 *
 * Split backward. The input-gradient pass sends upstream and frees what the
 * weight-gradient pass does not read (LayerPrice.deferred_bytes stay); gradients
 * are reduced behind a chunk's last weight gradient.
 *
 * Overlapped pair. Its two passes are consecutive tasks on the compute lane, the
 * first marked `paired`, that start together and end together: the first waits
 * for the inputs of both, what either sends waits for the second. Computation
 * adds up, each one's exposed communication hides under the other's computation:
 *   pair_s = max(c1 + c2, s1, s2, t1 + t2)
 * with compute_s c, seconds s and tensor_s t of the passes' PassPrices, each
 * summed over the chunk's layers. What of it is not computation is divided in
 * proportion to what each pass exposes on its own.
 *
 * Two-way. A rank holds one stage of each copy of the model and all states of
 * both; a TASK_COPIES sums the gradients of the two ranks that hold the same
 * stages before the norm.
 *
 * Vocabulary over all ranks. Each rank holds 1/p of the embedding and of the
 * output layer; the final norm stays with the last stage, positions with the
 * first. The last stage's output is broadcast (TASK_VOCAB) to every rank's S. With two barriers S is the forward, then
 * an all-reduce of each token's largest logit and sum, T both gradients, then the reduction of the
 * input gradient; with one barrier S makes the input gradient too, the barrier
 * carries both, and T is the weight gradient (Yeung et al. 2024, arXiv
 * 2411.05288, algorithms 1 and 2). Every rank looks up its share of the tokens
 * that the first stage needs next, two micro-batches ahead, and adds the
 * gradient that this stage broadcasts behind each backward; these take the time
 * of their exchange. Gradients of the shares are reduced behind the last one.
 *
 * Recompute slots. A forward leaves its input only, the recompute allocates the
 * rest, and the backward is priced without recomputation. The last stage keeps
 * everything. `opportunistic` tells the interpreter that a row whose next task
 * is a recompute, the gradient for which has not arrived, runs its next forward
 * first if that can run; sends of such a program never block.
 */
#ifndef TDP_PROGRAM_PROGRAM_H
#define TDP_PROGRAM_PROGRAM_H

#include "cost/price.h"

typedef enum { LANE_COMPUTE, LANE_PIPELINE, LANE_DATA, LANE_FETCH, LANE_STORE, LANE_COUNT } Lane;
extern const char *const lane_names[];

typedef enum {
  TASK_PASS,        /* forward or backward of a piece of a chunk */
  TASK_SEND,        /* activations or gradients to a neighbouring stage */
  TASK_GATHER,      /* parameters, over data-parallel ranks */
  TASK_REDUCE,      /* gradients, over data-parallel ranks */
  TASK_FETCH,       /* parameters or activations, from the host */
  TASK_STORE,       /* gradients or activations, to the host */
  TASK_OUTPUTS,     /* outputs of all ranks, to the first one (DataParallel) */
  TASK_TIED,        /* gradients of tied embeddings, first with last stage */
  TASK_COPIES,      /* gradients of the same stages of two copies of the model */
  TASK_VOCAB,       /* exchange around the passes of a vocabulary over all ranks */
  TASK_NORM,        /* global gradient norm */
  TASK_OPTIMIZER,
  TASK_KIND_COUNT,
} TaskKind;
extern const char *const task_kind_names[];

typedef enum {
  PART_WEIGHTS, PART_GRADIENTS, PART_OPTIMIZER, PART_ACTIVATIONS, PART_BUFFERS, PART_OVERHEAD, PART_COUNT,
} MemoryPart;
extern const char *const memory_part_names[];

/* What a TASK_VOCAB exchanges over the pipeline ranks. */
typedef enum {
  EXCHANGE_LOOKUP,    /* sums of each share's rows, for the first stage's forward */
  EXCHANGE_LOOKED_UP, /* their gradient, to every share */
  EXCHANGE_OUTPUT,    /* the last stage's output, to every share */
  EXCHANGE_LOGITS,    /* largest logit, sum and label's logit of each token; with one barrier the input gradient too */
  EXCHANGE_GRADIENT,  /* the sum of the input gradients */
  EXCHANGE_COUNT,
} Exchange;

/* A pass of one layer, as the passes of segments are made of them. */
typedef struct {
  int layer;
  Pass pass;
  double seconds; /* as priced: beside others' passes or among slower devices it takes longer */
  GArray *ops;    /* PassOp, in the order in which they run */
  PassParts parts; /* as priced, likewise */
} LayerPass;

/* What alike tasks have in common. Layers are indices into Model.layers. */
typedef struct {
  TaskKind kind;
  Pass pass;
  int first_layer, n_layers;
  gboolean experts;      /* of a gather or reduction: the layers' experts that are apart; else all but these */
  gboolean across;       /* of a reduction: over ranks that hold the same part; else over those that it is divided over */
  double seconds;
  double compute_s;      /* of a pass: the part that computes; the rest is exposed communication */
  double slack_s;        /* of compute_s, what a slower device would compute in while the host launches */
  double tensor_s;       /* of a pass: the communication inside it, hidden or not */
  double offload_s;      /* of an optimizer step: copies to the host and back */
  double context_s;      /* of a pass: what of its exposed communication is context-parallel */
  double expert_s;       /* and what is between experts' ranks */
  double alone_s;        /* of a pass: PassPrice's; in `seconds` already where it runs alone */
  gboolean met;          /* of a pass: all ranks of its stage meet when it ends */
  double data_s;         /* and what is over all ranks of a stage: largest values of delayed scales, losses */
  double walked_bytes;   /* of a pass: weights, gradients and saved activations that it goes through; 0 = not told */
  double beyond_s;       /* of a pass: of compute_s, what bytes beyond the last-level cache take (Device) */
  double crowded_s;      /* that computation takes longer while all devices of the node compute */
  double hardware_flops;
  double activation_bytes; /* allocated when the pass starts; freed (negative) when it ends */
  double absent_bytes;     /* of these, what is not there at the pass's worst moment: not yet, or no more */
  double alloc_bytes;      /* buffers taken when the task starts */
  double free_bytes;       /* buffers given back when it ends */
  double slowdown;         /* of the row's computation while the task runs; 1 = none */
  CollectiveCost cost;     /* of communication */
  Collective collective;
  double comm_bytes;
  GroupShape group;
  Exchange exchange;       /* of TASK_VOCAB */
  GArray *passes;          /* of a pass: LayerPass, in the order in which they run; NULL where the program's prices
                              describe nothing */
} Segment;

/* What tdp-run posts to receive from each row at least before it is wanted; what the first stage has looked up ahead. */
enum { RECEIVES_AHEAD = 2, LOOKUPS_AHEAD = 2 };

/* What a pass is made of: parts of its compute_s, and what it communicates inside, in all. FALSE where the program's prices
 * do not describe it. */
gboolean segment_parts(const Segment *segment, PassParts *parts);

/* What it takes longer, or shorter (negative), where the device computes 1 + `more` times as long. */
static inline double segment_behind(const Segment *s, double more)
{
  double behind = (s->compute_s - s->slack_s) * more;
  return s->slack_s > 0 ? MAX(0, behind - s->slack_s) : behind;
}

/* Activations that come, or go (negative), when a task starts, and when it ends. */
static inline double segment_at_start(const Segment *s)
{
  return MAX(s->activation_bytes, 0) - s->absent_bytes;
}

static inline double segment_at_end(const Segment *s)
{
  return MIN(s->activation_bytes, 0) + s->absent_bytes;
}

/* Whether a row holds something else from a task's start on, or from its end. Buffers may be less than nothing: a task is
 * handed some that another one left. */
static inline gboolean segment_takes(const Segment *s)
{
  return segment_at_start(s) != 0 || s->alloc_bytes != 0;
}

static inline gboolean segment_gives(const Segment *s)
{
  return segment_at_end(s) != 0 || s->free_bytes != 0;
}

typedef struct {
  int segment;
  int first_dep, n_deps; /* into Program.deps */
  guint32 micro;
  guint16 row;
  guint16 chunk;
  guint8 lane;
  guint8 kind; /* TaskKind */
  guint8 pass; /* Pass, of TASK_PASS and TASK_SEND */
  guint8 paired; /* of TASK_PASS: overlaps the next task of its lane (of a piece: the next pass) */
} Task;

typedef struct {
  double static_bytes[PART_COUNT]; /* held for the whole step */
  double cached_bytes; /* that the allocator keeps for the step's end; overhead of the passes */
  double taken_bytes;  /* of the step's copies, what the allocator keeps beside all that passes hold, where there is room */
  double capacity_bytes; /* of the row's device */
} ProgramRow;

typedef struct {
  const Schedule *schedule;
  ScheduleShape shape;
  gboolean remakes;       /* forwards of all stages but the last are made again in slots of their own */
  gboolean opportunistic; /* forwards may be run ahead of a recompute that would wait */
  int n_rows;
  ProgramRow *rows;
  GArray *segments;  /* Segment */
  GArray *tasks;     /* Task */
  int *deps;         /* task indices */
  int *lane_first;   /* n_rows * LANE_COUNT + 1: where a lane's tasks start in lane_tasks */
  int *lane_tasks;   /* task indices, lane by lane in order */
  int row_ranks;        /* alike ranks of a row */
  int nodes, node_devices; /* that they are on; a node's devices in all */
  int node_processors;  /* that these share; fewer than node_devices: they take turns */
  gboolean crowds;      /* some segment has crowded_s, or devices take turns */
  double fragmentation; /* share of activations and buffers lost by the allocator */
  double step_s;        /* fixed time added to the step */
} Program;

static inline const Task *program_task(const Program *p, int task)
{
  return &g_array_index(p->tasks, Task, task);
}

static inline const Segment *program_segment(const Program *p, const Task *task)
{
  return &g_array_index(p->segments, Segment, task->segment);
}

/* The program of a layout whose prices these are. */
Program *program_new(const Model *model, const Layout *layout, const Cluster *cluster, const PriceTable *prices);
void program_free(Program *program);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Program, program_free)

/* Scales the passes so that those of a stage for one micro-batch take the given
 * seconds, in model order; input and weight gradient share the backward's in
 * proportion. Passes of a spread vocabulary and recomputes stay as priced. */
void program_time_passes(Program *program, const double *forward_s, const double *backward_s);

/*
 * Tasks so that each comes behind its dependencies, its lane's previous task and,
 * where `also` is not NULL, task also[i] (-1 = none). `order` has an entry a task;
 * returns how many could be placed: fewer than all if the rest wait for each other.
 */
int program_order(const Program *program, const int *also, int *order);

/* An array of n indices, each -1 = none; g_free. */
int *indices_new(gsize n);

/* The task of another row that waits for each send; -1 for other tasks. */
int *program_receivers(const Program *program);

/*
 * Receives that tdp-run has posted once a pass begins, counted from the step's begin: RECEIVES_AHEAD more than were taken
 * before, those up to the last that the pass takes, and those of what has begun to be sent by the pass's end where all
 * passes take as long. So no send waits for ever: a step in which all passes take as long goes through, and one pass of a
 * row after another is there in every step.
 */
typedef struct {
  int n_rows;
  int **posted; /* [from * n_rows + to]: by task of the receiving row's lane of computation; NULL = nothing is sent */
} ProgramReceives;

ProgramReceives *program_receives_new(const Program *program);
void program_receives_free(ProgramReceives *receives);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ProgramReceives, program_receives_free)

#endif
