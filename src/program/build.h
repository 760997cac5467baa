/* State of building a program; private to src/program. */
#ifndef TDP_PROGRAM_BUILD_H
#define TDP_PROGRAM_BUILD_H

#include "program/program.h"

/* A contiguous part of a chunk that is gathered or reduced as one. */
typedef struct {
  int first_layer, n_layers;
} Piece;

typedef struct {
  GArray *pieces; /* Piece, in model order */
  int whole[PASS_COUNT]; /* segment of the whole chunk by pass, -1 = not made */
  int *split[PASS_COUNT]; /* segment of each piece by pass */
  int *gather, *reduce;  /* segment of each piece */
  int send[2];           /* segment of the send after a forward, after a backward */
  int first_forward, last_backward; /* slot index on the rank */
} Chunk;

typedef struct {
  const Model *model;
  const Plan *plan;
  const Cluster *cluster;
  const PriceTable *prices;
  Program *program;
  ScheduleShape shape;
  int stages;      /* of the model, in model order */
  GroupShape data; /* the data-parallel group */
  GArray *edges;   /* pairs: task, what it waits for */
  GArray **lanes;  /* int, for each row and lane */
  int *arrival;    /* task whose end brings a pass its input: [backward][stage][micro] */
  int *entry;      /* first task of a pass: the same index */
  int *last_task;  /* last compute task of each row */
  int *last_data;  /* last data task of each row, -1 = none */
} ProgramBuild;

int program_add_segment(ProgramBuild *b, Segment segment);

/* Appends a task to its lane and returns its index. */
int program_add_task(ProgramBuild *b, int row, Lane lane, int segment, int chunk, int micro);
void program_add_edge(ProgramBuild *b, int task, int waits_for);

/* Index into arrival and entry. */
static inline gsize program_slot(const ProgramBuild *b, gboolean backward, int stage, int micro)
{
  return ((gsize)backward * b->stages + stage) * b->shape.micro + micro;
}

static inline int program_stage(const ProgramBuild *b, int rank, int chunk)
{
  return schedule_stage(b->plan->schedule, &b->shape, rank, chunk);
}

/* The segments of a chunk and of its data-parallel communication (segments.c). */
void chunk_init(ProgramBuild *b, Chunk *chunk, int stage);
void chunk_clear(Chunk *chunk);
int chunk_pass_segment(ProgramBuild *b, Chunk *chunk, int piece, Pass pass); /* piece -1 = whole */
int chunk_gather_segment(ProgramBuild *b, Chunk *chunk, int piece);
int chunk_reduce_segment(ProgramBuild *b, Chunk *chunk, int piece);
Segment comm_segment(const ProgramBuild *b, TaskKind kind, Collective what, double bytes, GroupShape group);
Segment send_segment(const ProgramBuild *b, int from_rank, int to_rank, Pass pass);
double rank_params(const ProgramBuild *b, int rank);
void row_memory(const ProgramBuild *b, int rank, ProgramRow *row);

/* Tasks of one rank from its slots (tasks.c). */
void rank_tasks(ProgramBuild *b, const ScheduleOrder *order, int rank);

/* Tied embeddings, gradient norm, optimizer, gathering of parameters (step_end.c). */
void step_end_tasks(ProgramBuild *b);

#endif
