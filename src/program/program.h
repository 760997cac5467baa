/*
 * One training step as a program: tasks in order on lanes, what each waits
 * for, and what each allocates and frees. The simulator and the executor both
 * interpret it.
 *
 * A row is a class of alike ranks: one for each pipeline stage rank. Each row
 * has a lane for computation, one for sends to neighbouring stages and one for
 * data-parallel communication; a lane runs its tasks in order, one at a time.
 * (Tensor-parallel communication runs inside passes, see cost/price.h.)
 *
 * A task is one pass of one chunk for one micro-batch, or of a piece of the
 * chunk where gradients are reduced or parameters gathered beside it; or one
 * transfer; or one collective. What a task is and takes stands once for all
 * alike tasks in its Segment. Everything else is an edge: prefetch limits,
 * finite buffers, sends that block, the barrier of the gradient norm.
 */
#ifndef TDP_PROGRAM_PROGRAM_H
#define TDP_PROGRAM_PROGRAM_H

#include "cost/price.h"

typedef enum { LANE_COMPUTE, LANE_PIPELINE, LANE_DATA, LANE_COUNT } Lane;
extern const char *const lane_names[];

typedef enum {
  TASK_PASS,        /* forward or backward of a piece of a chunk */
  TASK_SEND,        /* activations or gradients to a neighbouring stage */
  TASK_GATHER,      /* parameters, over data-parallel ranks */
  TASK_REDUCE,      /* gradients, over data-parallel ranks */
  TASK_TIED,        /* gradients of tied embeddings, first with last stage */
  TASK_NORM,        /* global gradient norm */
  TASK_OPTIMIZER,
  TASK_KIND_COUNT,
} TaskKind;
extern const char *const task_kind_names[];

typedef enum {
  PART_WEIGHTS, PART_GRADIENTS, PART_OPTIMIZER, PART_ACTIVATIONS, PART_BUFFERS, PART_OVERHEAD, PART_COUNT,
} MemoryPart;
extern const char *const memory_part_names[];

/* What alike tasks have in common. Layers are indices into Model.layers. */
typedef struct {
  TaskKind kind;
  Pass pass;
  int first_layer, n_layers;
  double seconds;
  double compute_s;      /* of a pass: the part that computes; the rest is exposed tensor communication */
  double hardware_flops;
  double activation_bytes; /* allocated when a forward starts; freed (negative) when a backward ends */
  double alloc_bytes;      /* buffers taken when the task starts */
  double free_bytes;       /* buffers given back when it ends */
  double slowdown;         /* of the row's computation while the task runs; 1 = none */
  CollectiveCost cost;     /* of communication */
  Collective collective;
  double comm_bytes;
  GroupShape group;
} Segment;

typedef struct {
  int segment;
  int first_dep, n_deps; /* into Program.deps */
  guint32 micro;
  guint16 row;
  guint16 chunk;
  guint8 lane;
  guint8 kind; /* TaskKind */
  guint8 pass; /* Pass, of TASK_PASS and TASK_SEND */
} Task;

typedef struct {
  double static_bytes[PART_COUNT]; /* held for the whole step */
  double cached_bytes; /* that the allocator keeps for the step's end; overhead of the passes */
} ProgramRow;

typedef struct {
  int n_rows;
  ProgramRow *rows;
  GArray *segments;  /* Segment */
  GArray *tasks;     /* Task */
  int *deps;         /* task indices */
  int *lane_first;   /* n_rows * LANE_COUNT + 1: where a lane's tasks start in lane_tasks */
  int *lane_tasks;   /* task indices, lane by lane in order */
  double fragmentation; /* share of activations and buffers lost by the allocator */
  double step_s;        /* fixed time added to the step */
} Program;

/* The program of a plan that plan_check accepts. `prices` are the plan's. */
Program *program_new(const Model *model, const Plan *plan, const Cluster *cluster, const PriceTable *prices);
void program_free(Program *program);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Program, program_free)

/* No cycle through dependencies and lane orders, every dependency exists, what
 * is allocated is freed, each send has one receiver. For tests and for programs
 * of foreign schedules; ours are right by construction. */
gboolean program_check(const Program *program, GError **error);

#endif
