/* State of building a program; private to src/program. */
#ifndef TDP_PROGRAM_BUILD_H
#define TDP_PROGRAM_BUILD_H

#include "program/program.h"

/* Copies between a device and the host. */
typedef enum { COPY_WEIGHTS_UP, COPY_GRADIENTS_DOWN, COPY_GRADIENTS_AGAIN, COPY_INPUTS_DOWN, COPY_INPUTS_UP, COPY_COUNT } Copy;

/* A contiguous part of a chunk that is gathered or reduced as one. */
typedef struct {
  int first_layer, n_layers;
  int strategy; /* of its first layer: in ProgramBuild.strategies */
} Piece;

typedef struct {
  int rank, index; /* of the rank's chunks */
  GArray *pieces; /* Piece, in model order */
  Piece all;      /* of them as one */
  double params[2]; /* [experts]: params_of() all; below 0 = not known yet */
  int whole[2][PASS_COUNT];  /* segment of the whole chunk by pass, -1 = not made; [1]: gives its weights back */
  int *split[2][PASS_COUNT]; /* segment of each piece by pass */
  int *gather[2][2];       /* [experts][again, for a backward]: segment of each piece */
  int *reduce[2], *across[2]; /* [experts]; across: of sums over copies of a part */
  int *copies[COPY_COUNT]; /* segment of each piece */
  int *stored;             /* task that took the inputs of a piece and micro-batch to the host, -1 = none */
  int *fetched;            /* task that last brought those of a piece back */
  int to_fetch;            /* piece that comes back next, of those that go to the host by layers */
  int in_flight;           /* micro-batches between their forward and their backward */
  gboolean gathered;       /* the pass before left its weights as it had them */
  int send[2];           /* segment of the send after a forward, after a backward */
  int first_forward, last_backward; /* slots on the rank: the first that reads weights, the last that makes gradients */
  gboolean remade;       /* its forwards are made again in slots of their own */
  gboolean mixed;        /* its layers have several strategies */
} Chunk;

/* Where a pipeline rank runs. */
typedef struct {
  int type;               /* of its nodes */
  const Cluster *cluster; /* that prices what it does */
  /* [experts]; of one strategy */
  GroupShape data[2];   /* ranks that hold the same weights, or of these those over which ZeRO divides */
  GroupShape sums[2], copies[2]; /* RANKS_SUMS, RANKS_COPIES */
  GroupShape secondary[2]; /* of data, those that share a second copy for backwards */
} Site;

typedef struct {
  int task, waits_for;
} Edge;

typedef struct {
  const Model *model;
  const Layout *layout;
  const Cluster *cluster;
  const PriceTable *prices;
  PriceTable *stored; /* prices without recomputation, where the schedule makes forwards again */
  PriceTable *shares; /* prices with the vocabulary divided over the pipeline ranks, the head without its norm */
  LayerPrice final_norm; /* of such a head, which stays with the last stage */
  Program *program;
  ScheduleShape shape;
  int stages;      /* of the model, in model order */
  Site *sites;     /* [strategy][rank] */
  Layout *strategies; /* as layers of each see it; the first is the layout's own */
  int n_strategies;
  int *strategy;   /* of each layer */
  Edge *edges;
  gsize n_edges, edges_room;
  int tasks_room;  /* of Program.tasks, whose length is behind it */
  int *arrival;    /* task whose end brings a pass its input: [backward][stage][micro] */
  int *entry;      /* first task of a pass: the same index */
  int *last_task;  /* last compute task of each row */
  int *last_data;  /* last data task of each row, -1 = none */
  int *last_store; /* last copy to the host of each row, -1 = none */
  int *spread[2];  /* tasks of S and of T: [rank][micro] */
  int *exchange[EXCHANGE_COUNT]; /* task by micro-batch */
  int exchange_segment[EXCHANGE_COUNT];
  int *share_gather; /* of each rank: task that gathers its share for the first time, -1 = none */
  GHashTable *pairs; /* packed chunk, pass and piece to segment of a pass in a pair */
} ProgramBuild;

int program_add_segment(ProgramBuild *b, Segment segment);

/* Appends a task to its lane and returns its index. */
int program_add_task(ProgramBuild *b, int row, Lane lane, int segment, int chunk, int micro);
void program_add_edge(ProgramBuild *b, int task, int waits_for);

/* The layout's own, of weights but those of experts that are apart. */
static inline const StateLayout *own_states(const ProgramBuild *b)
{
  return &b->layout->states[0];
}

/* Of layers of a strategy. */
static inline const StateLayout *states_of(const ProgramBuild *b, int strategy, gboolean experts)
{
  return &b->strategies[strategy].states[experts != 0];
}

static inline const Site *site_of(const ProgramBuild *b, int strategy, int rank)
{
  return &b->sites[strategy * b->shape.ranks + rank];
}

/* Index into arrival and entry. */
static inline gsize program_slot(const ProgramBuild *b, gboolean backward, int stage, int micro)
{
  return ((gsize)backward * b->stages + stage) * b->shape.micro + micro;
}

static inline int program_stage(const ProgramBuild *b, int rank, int chunk)
{
  return schedule_stage(b->layout->pipeline.schedule, &b->shape, rank, chunk);
}

/* Strategies of the layers and the sites of each (strategies.c). */
void strategies_init(ProgramBuild *b);
void strategies_clear(ProgramBuild *b);
/* Lengthens passes by what ranks wait for the slowest of those that layers' prices leave out (meet.c). */
void program_meet(ProgramBuild *b);

/* Prices and memory (prices.c). */
void prices_init(ProgramBuild *b);
void prices_clear(ProgramBuild *b);
const LayerPrice *price_of(const ProgramBuild *b, int node_type, int layer);
Segment pass_segment(const ProgramBuild *b, const Chunk *chunk, Piece piece, Pass pass, gboolean releases);
void segment_clear(gpointer segment);
double params_of(const ProgramBuild *b, Piece piece, gboolean experts);
double narrow_of(const ProgramBuild *b, Piece piece, gboolean experts); /* of params_of: of products in 8 or 4 bits */
double gathered_params(const ProgramBuild *b, Piece piece, gboolean experts); /* that come for its passes */
Frozen frozen_of(const ProgramBuild *b, Piece piece, gboolean experts);
/* Activations that a layer's pass starts to hold, or gives back (negative). */
double layer_held(const ProgramBuild *b, const Chunk *chunk, int layer, Pass pass);
/* Bytes that a pass goes through, 0 where the device does not tell what they take from memory. Lengthens passes of rows
 * that hold more than their device has of the last-level cache, once all tasks are there (beyond.c). */
double beyond_walked(const ProgramBuild *b, const Chunk *chunk, Piece piece, Pass pass);
void program_beyond(ProgramBuild *b);
/* Of frozen weights, what comes for its passes: where these work on weights that do not stay, or one process sends. */
Frozen fetched_frozen(const ProgramBuild *b, Piece piece, gboolean experts);
double table_params(const Model *model, const PassLayout *passes); /* of a tensor-parallel rank's part of the embedding */
Piece stage_layers(const ProgramBuild *b, int stage);

/* Of a rank's layers of one strategy, with what their optimizer does beyond parameters. */
typedef struct {
  double params[2], narrow[2]; /* [experts]; narrow: of them, those of products in 8 or 4 bits */
  Frozen frozen[2]; /* [experts] */
  OptimizerWork optimizer[2];
  double largest;   /* parameters of the largest tensor */
  double placeholder_bytes; /* placeholders_with() all of its layers */
  double block_bytes, left_bytes; /* the largest tensor that forwards keep; what the head keeps, whose blocks are few */
  double apart[2];  /* [experts]: parameters of layers whose largest tensor has an fp32 copy larger than that */
  double whole;     /* parameters that are not divided, none of them experts that are apart */
} RankWeights;

RankWeights rank_weights(const ProgramBuild *b, int rank, int strategy);
/* Bytes that a layer of such prices holds more, or less, once the pass has run. */
double held_bytes(const LayerPrice *price, const LayerPrice *stored, const Chunk *chunk, Pass pass);
/* What a pass holds of what its stage received and sent (stage_ends.c). */
void received_pass(const ProgramBuild *b, const Chunk *chunk, Segment *pass);
void sent_pass(const ProgramBuild *b, const Chunk *chunk, Segment *pass);
void row_memory(const ProgramBuild *b, int rank, ProgramRow *row);

/* Whether all ranks of a stage meet behind each pass of a chunk, to agree on delayed scales, and those of the last one
 * behind each micro-batch's loss (amax.c). */
gboolean amax_meets(const ProgramBuild *b);
gboolean loss_meets(const ProgramBuild *b);
/* Lengthens the last pass of a chunk by what they do for it. */
void amax_meet(const ProgramBuild *b, const Chunk *chunk, Piece piece, Segment *pass);
void loss_meet(const ProgramBuild *b, const Chunk *chunk, Piece piece, Segment *pass);

/* What a row of tdp-run holds through the step beside passes. What a pass takes of it, or leaves for the next one on
 * its rank, is put into its segment (beside.c). */
double beside_bytes(const ProgramBuild *b, int rank);
void beside_pass(const ProgramBuild *b, const Chunk *chunk, Segment *pass);
void beside_send(const ProgramBuild *b, Segment *send);
/* Gives tasks of computation what is taken when they begin: receives that are posted, weights that are gathered from then
 * on. Once tasks have their lanes. */
void beside_issue(ProgramBuild *b);

/* The segments of a chunk and of its communication (segments.c). Chunk index
 * shape.chunks stands for the rank's share of a spread vocabulary. */
void chunk_init(ProgramBuild *b, Chunk *chunk, int rank, int index);
void chunk_clear(Chunk *chunk);
Piece chunk_whole(const Chunk *chunk);
Piece chunk_piece(const Chunk *chunk, int piece); /* -1 = whole */
int chunk_pass_segment(ProgramBuild *b, Chunk *chunk, int piece, Pass pass, gboolean releases); /* piece -1 = whole */
int chunk_gather_segment(ProgramBuild *b, Chunk *chunk, int piece, gboolean experts, gboolean again);
int chunk_reduce_segment(ProgramBuild *b, Chunk *chunk, int piece, gboolean experts);
int chunk_across_segment(ProgramBuild *b, Chunk *chunk, int piece, gboolean experts);
/* Whether the piece has such weights to sum gradients of, on several ranks; to gather. */
gboolean chunk_has(const ProgramBuild *b, const Chunk *chunk, int piece, gboolean experts);
gboolean chunk_gathers(const ProgramBuild *b, const Chunk *chunk, int piece, gboolean experts);
Segment comm_segment(const StateLayout *states, const Cluster *site, TaskKind kind, Collective what, double bytes,
                     GroupShape group);
/* The same communication so many times, one after the other. */
void segment_repeat(Segment *s, double times);
/* Before that stage. */
Segment send_segment(const ProgramBuild *b, int from_rank, int to_rank, int boundary, Pass pass);

/* Bytes of a piece's weights, gradients and inputs as its passes hold them at once (host.c). */
double piece_weight_bytes(const ProgramBuild *b, Piece piece);
double piece_gradient_bytes(const ProgramBuild *b, Piece piece);

/* Whether some weights of a strategy, of any, come for their passes alone. */
static inline gboolean fetches_weights(const ProgramBuild *b, int strategy)
{
  return states_of(b, strategy, FALSE)->fetches_weights || states_of(b, strategy, TRUE)->fetches_weights;
}

static inline gboolean fetches_some_weights(const ProgramBuild *b)
{
  gboolean some = FALSE;

  for (int i = 0; i < b->n_strategies; i++)
    some |= fetches_weights(b, i);
  return some;
}

/* A copy of a piece (-1 = whole chunk) between device and host, behind a task
 * unless that is -1; returns its task (host.c). */
int host_copy(ProgramBuild *b, int rank, Chunk *chunk, const Slot *slot, int piece, Copy copy, int behind);

/* The task that took a piece's inputs of a micro-batch to the host. */
int *host_stored(const ProgramBuild *b, const Chunk *chunk, int piece, int micro);

/* Offload.layers: of the first n of L blocks all leaves behind the forward `task`, block i until that of block L - n + i
 * begins, as far as they stand in pieces of their own (Transformer Engine's cpu_offload.py: so that L - n are held at
 * most). It comes back from when the pass before is done; `first`: of its slot. Returns what the backward of the piece
 * waits for, -1 = nothing. */
void host_store_layers(ProgramBuild *b, int rank, Chunk *chunk, const Slot *slot, int piece, int task);
int host_fetch_layers(ProgramBuild *b, int rank, Chunk *chunk, const Slot *slot, int piece, gboolean first);

/* Outputs of all devices of one process, behind a forward. */
int host_outputs(ProgramBuild *b, int rank, const Slot *slot, int behind);
double host_output_bytes(const ProgramBuild *b);

/* The segment of a pass that overlaps another one (pair.c). */
int pair_segment(ProgramBuild *b, int rank, const Slot *slot, const Chunk *chunk, int piece, gboolean releases,
                 const Slot *other, const Chunk *other_chunk);

/* As `beside`, the segment of a pass whose exchanges run beside another's pass, of one that has none beside it. */
int alone_segment(ProgramBuild *b, int beside, const Chunk *chunk, int piece, Pass pass, gboolean releases);

/* Tasks of one rank from its slots (tasks.c). */
void rank_tasks(ProgramBuild *b, const ScheduleOrder *order, const guint8 *alone, int rank);

/* Exchanges around the passes of a spread vocabulary (vocabulary.c): arrays and
 * segments; what comes before a rank's slots, and what a slot's last task brings;
 * the edges, once all ranks have their tasks. */
void vocabulary_init(ProgramBuild *b);
void vocabulary_clear(ProgramBuild *b);
void vocabulary_begin(ProgramBuild *b, int rank);
void vocabulary_after(ProgramBuild *b, int rank, const Slot *slot, int task);
void vocabulary_connect(ProgramBuild *b);

/* Tied embeddings, copies, gradient norm, optimizer, gathering of parameters (step_end.c). */
void step_end_tasks(ProgramBuild *b);

/* Whether what is held in passes and between them is that of tdp-run, known to the byte (op/scratch.c, beside.c). */
static inline gboolean executor_memory(const ProgramBuild *b)
{
  return b->layout->passes.framework->executor_memory;
}

#endif
