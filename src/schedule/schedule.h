/*
 * The order of passes of a pipeline: pure combinatorics, no seconds, no bytes.
 *
 * A pipeline has `ranks` devices (or groups of them), each holding `chunks`
 * pieces of the model. The model is cut into stages in model order; a
 * schedule's placement says which chunk of which rank holds which stage. Each
 * of `micro` micro-batches passes forward through all stages and backward
 * again. A schedule says in which order each rank runs its passes; everything
 * else (when, how long, what is sent) follows from the order and the costs.
 *
 * What a pass of a micro-batch waits for, besides the passes before it on its
 * rank:
 *
 *   F  forward           the forward of the stage before
 *   B  backward, and     the backward (B or I) of the stage behind; on the last
 *   I  input gradient    stage its own forward, or with a vocabulary spread over
 *                        all ranks (Schedule.vocabulary) a barrier: with 2
 *                        barriers T on every rank, with 1 barrier S on every rank
 *   W  weight gradient   its own I
 *   R  recompute         nothing: its own forward has left its input
 *   S  logits            the forward of the last stage, on every rank: its output
 *                        is broadcast
 *   T  their gradient    a barrier: S on every rank
 *
 * What a forward saved is held until the end of B or W. Where a forward is made
 * again (R), the first one leaves only the stage's input; what the second one
 * saved is held from R on.
 *
 * To add a schedule: one file with a const Schedule, one line in all.h and in
 * the table of schedule.c, its figures in tests/test_schedule_figures.c; `make
 * golden` draws it. docs/schedules.md lists all of them with their sources.
 */
#ifndef TDP_SCHEDULE_SCHEDULE_H
#define TDP_SCHEDULE_SCHEDULE_H

#include <glib.h>

typedef enum {
  PASS_FORWARD,
  PASS_BACKWARD,  /* gradients of input and weights together */
  PASS_INPUT,     /* gradient of the input only */
  PASS_WEIGHT,    /* gradient of the weights only */
  PASS_RECOMPUTE, /* a forward made again, as a slot of its own */
  PASS_LOGITS,    /* a rank's share of the output layer, forward ("S") */
  PASS_VOCAB,     /* a rank's share of the output layer, gradients ("T") */
  PASS_COUNT,
} Pass;

extern const char *const pass_names[];
extern const char pass_letters[]; /* "FBIWRST" */

/* Passes that hand a gradient on, and make again what was not kept for it. */
static inline gboolean pass_is_backward(Pass pass)
{
  return pass == PASS_BACKWARD || pass == PASS_INPUT;
}

static inline gboolean pass_makes_weight_gradient(Pass pass)
{
  return pass == PASS_BACKWARD || pass == PASS_WEIGHT || pass == PASS_VOCAB;
}

/* Passes of a rank's share of a spread vocabulary. */
static inline gboolean pass_is_vocabulary(Pass pass)
{
  return pass == PASS_LOGITS || pass == PASS_VOCAB;
}

/* Where stages live. */
typedef enum {
  PLACE_LOOP,    /* stage k on rank k mod p: each chunk goes through all ranks in order */
  PLACE_ZIGZAG,  /* every other chunk goes through the ranks backwards (V, W, ...) */
  PLACE_TWO_WAY, /* two copies of the model, one a chunk, the second backwards */
  PLACE_TABLE,   /* as the file says that the orders were read from */
} Placement;

typedef struct ScheduleTable ScheduleTable; /* orders read from a file: table.h */

typedef struct {
  int ranks;  /* p */
  int micro;  /* m, micro-batches of one step */
  int chunks; /* v, of each rank */
  int group;  /* micro-batches that an interleaved schedule runs through a chunk
                 before the next chunk; 0 = ranks */
  gboolean ahead; /* forwards of an interleaved schedule run one pass further ahead of backwards, so that each forward
                     is independent of the backward behind it */

  /* For schedules that place passes by how long they take: unitless times of a
   * whole rank's forward, input gradient, weight gradient, and of a transfer;
   * all 0 = 1, 1, 1, 0. Others ignore them. */
  double forward, input, weight, transfer;
  /* Most activations of a rank, in micro-batches of the whole rank, for
   * schedules that fill a given memory; 0 = the schedule's own. */
  double memory_limit;

  const ScheduleTable *table; /* of a schedule read from a file, else NULL */
} ScheduleShape;

/* One pass of one chunk (0 .. chunks-1 on its rank) for one micro-batch. */
typedef struct {
  guint32 micro;
  guint16 chunk;
  guint8 pass;   /* Pass */
  guint8 paired; /* runs overlapped with the next slot of the rank, as one */
} Slot;

/* Slots that a schedule appends; zeros = none. */
typedef struct {
  Slot *slots;
  int n, room;
} SlotList;

typedef struct {
  const char *name;
  const char *title; /* for people */
  const char *aliases; /* other names that mean the same order, split by spaces; NULL = none */
  int min_chunks, max_chunks; /* chunks it is defined for */
  Placement placement;
  gboolean serial;    /* one micro-batch in the pipeline at a time */
  gboolean split;     /* some backwards come as input-gradient and weight-gradient passes */
  gboolean pairs;     /* some forwards may run overlapped with a backward, as one */
  gboolean by_time;   /* the order goes by how long passes take (ScheduleShape) */
  gboolean recompute; /* stages other than the last make their forwards again (R) */
  /* A rank whose next pass is R while its gradient is not there runs its next
   * forward first if that can run. */
  gboolean opportunistic;
  gboolean grouped;   /* its order goes by ScheduleShape.group */
  /* Embedding and output layer are spread over all ranks: barriers between the
   * last stage's forward and its backward, 1 or 2; 0 = not spread. */
  int vocabulary;

  int least_micro;   /* micro-batches that it needs for each rank at least; 0 = any number */
  gboolean one_less; /* but for one of all of them */

  /* Whether the order exists for this shape, beyond what these say and PLACE_TWO_WAY needs; the error says which rule
   * failed with the numbers in it. NULL if it always does. */
  gboolean (*check)(const ScheduleShape *shape, GError **error);

  /* Appends the slots of one rank, in order; or, where orders follow from each
   * other, of every rank to its own list. One of the two is set. */
  void (*order)(const ScheduleShape *shape, int rank, SlotList *slots);
  void (*order_all)(const ScheduleShape *shape, SlotList *slots);

  /* Activations that a rank holds at once at least, whatever passes take, in
   * micro-batches of one chunk: exactly what its order holds, where that is known
   * in closed form, else 1. NULL = 1. */
  int (*peak)(const ScheduleShape *shape, int rank);

  /* Of one chunk whose passes take micro-batches in order: how many forwards a rank has run more than backwards, or
   * input gradients, at most. The forward of each further micro-batch comes behind the backward of the one that is
   * so many before it. At least 1; NULL = not known. */
  int (*ahead)(const ScheduleShape *shape, int rank);

  /* Of the first n forwards of any rank, and of its first n whole backwards with chunks mirrored, those of a
   * chunk. `peak` is then what a rank runs before its first backward, and no pass is split or paired. NULL = not
   * known. */
  int (*first)(const ScheduleShape *shape, int chunk, int n);
} Schedule;

/* All schedules, ending with NULL; names as plan files spell them. */
extern const Schedule *const schedules[];

/* By name or alias; NULL if there is none. */
const Schedule *schedule_find(const char *name);

/* Its index in schedules[]; -1 if it is not there, as one of a file. */
int schedule_index(const Schedule *schedule);

/* Checks the shape against the schedule's chunk range, its placement, the micro-batches it needs and its own rule. */
gboolean schedule_check(const Schedule *schedule, const ScheduleShape *shape, GError **error);

/* Copies of the weights that a pipeline holds. */
static inline int schedule_copies(const Schedule *s)
{
  return s->placement == PLACE_TWO_WAY ? 2 : 1;
}

/* Times of passes of a whole rank from the shape, 1, 1, 1 where it gives none; 0 of the vocabulary's. */
void shape_times(const ScheduleShape *shape, double pass_time[PASS_COUNT]);

/* Stages that the model is cut into. */
static inline int schedule_stages(const Schedule *s, const ScheduleShape *shape)
{
  return shape->ranks * shape->chunks / schedule_copies(s);
}

typedef struct {
  int rank, chunk;
} Place;

/* Of PLACE_TABLE: the stage of a chunk, and where a stage lives. */
int schedule_table_stage(const ScheduleTable *table, int rank, int chunk);
Place schedule_table_place(const ScheduleTable *table, int stage);

/* Stage of a rank's chunk, in model order. */
static inline int schedule_stage(const Schedule *s, const ScheduleShape *shape, int rank, int chunk)
{
  switch (s->placement) {
  case PLACE_ZIGZAG:
    return chunk * shape->ranks + (chunk % 2 ? shape->ranks - 1 - rank : rank);
  case PLACE_TWO_WAY:
    return chunk % 2 ? shape->ranks - 1 - rank : rank;
  case PLACE_TABLE:
    return schedule_table_stage(shape->table, rank, chunk);
  default:
    return chunk * shape->ranks + rank;
  }
}

/* Which of the weight copies a chunk belongs to. */
static inline int schedule_copy(const Schedule *s, int chunk)
{
  return s->placement == PLACE_TWO_WAY ? chunk % 2 : 0;
}

/* Where a stage of a copy lives: the inverse of schedule_stage. */
static inline Place schedule_place(const Schedule *s, const ScheduleShape *shape, int stage, int copy)
{
  int turn = stage / shape->ranks, at = stage % shape->ranks;

  if (s->placement == PLACE_TWO_WAY)
    return (Place) { copy ? shape->ranks - 1 - stage : stage, copy };
  if (s->placement == PLACE_TABLE)
    return schedule_table_place(shape->table, stage);
  return (Place) { s->placement == PLACE_ZIGZAG && turn % 2 ? shape->ranks - 1 - at : at, turn };
}

/* The orders of all ranks, one after another. */
typedef struct {
  int ranks;
  int *first; /* first slot of each rank; ranks + 1 entries */
  Slot *slots;
} ScheduleOrder;

/* The order of a shape that schedule_check accepts. */
ScheduleOrder *schedule_order_new(const Schedule *schedule, const ScheduleShape *shape);
void schedule_order_free(ScheduleOrder *order);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ScheduleOrder, schedule_order_free)

/* By slot, ranks one after another: whether a forward, backward or input gradient has no pass of another
 * micro-batch beside it where exchanges of tokens may travel beside others (Overlap.exchange). Such are a rank's
 * forwards before its first backward, but for the one beside that, and as many backwards at the end; without a
 * pipeline the first forward and the last backward (Megatron Core, combined_1f1b_schedule_for_no_pipelining()). A
 * pair's slots never are. The caller frees it. */
guint8 *schedule_order_alone(const ScheduleOrder *order);

/* How many forwards, or backwards, of a rank's chunk it marks, from the shape alone; the rank's first forward and its
 * last backward, of chunk 0, are among them. 0 where the order has no closed form (Schedule.first). */
int schedule_alone(const Schedule *schedule, const ScheduleShape *shape, int rank, int chunk, gboolean backward);

/* Whether an order runs every pass that it must exactly once, each behind what
 * it needs on its rank, pairs a forward with a backward that can run beside it,
 * and does not deadlock. The error names rank, slot, stage and micro-batch. Our
 * own orders do by construction; foreign ones are checked when they are read. */
gboolean schedule_order_check(const Schedule *schedule, const ScheduleShape *shape, const ScheduleOrder *order,
                              GError **error);

/* The schedule's closed form, 1 where it has none. */
int schedule_peak(const Schedule *schedule, const ScheduleShape *shape, int rank);

/* Most that a rank holds at once in an order, where what a forward of each of its chunks saves is `saved[chunk]`. */
double schedule_order_peak(const Schedule *schedule, const ScheduleShape *shape, const ScheduleOrder *order, int rank,
                           const double *saved);

/* Most micro-batches of which a rank holds, at one moment of an order, so many of each of its chunks. */
int schedule_order_held(const Schedule *schedule, const ScheduleShape *shape, const ScheduleOrder *order, int rank);

/* The same from the shape alone: what the last of its chunks has before the rank's first backward, where the others have
 * as much. With one chunk it is schedule_peak(); 0 where the order has no closed form (Schedule.first), or a last group of
 * another size than the others. */
int schedule_held(const Schedule *schedule, const ScheduleShape *shape, int rank);

/* A dry run with given pass times and free communication. */
typedef struct {
  double makespan;
  double busy;       /* of the busiest rank */
  double span_idle;  /* most of a rank between its first start and its last end */
  double *start;     /* of each slot, rank after rank */
  double *end;
  ScheduleOrder *order;
  int *peak;         /* most activations held, in micro-batches of one chunk, each rank */
} Replay;

/* Times are of a whole rank's passes: a chunk takes copies/chunks of them, as
 * each copy carries half of the micro-batches; S and T are of a rank's share. A
 * pair takes `pair` times the sum of its two passes. NULL if the order
 * deadlocks. */
Replay *schedule_replay(const Schedule *schedule, const ScheduleShape *shape, const double pass_time[PASS_COUNT],
                        double pair);

/* The same for an order, which it takes over; the error says where it stops. */
Replay *schedule_replay_order(const Schedule *schedule, const ScheduleShape *shape, ScheduleOrder *order,
                              const double pass_time[PASS_COUNT], double pair, GError **error);
void replay_free(Replay *replay);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Replay, replay_free)

#endif
