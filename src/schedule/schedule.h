/*
 * The order of passes of a pipeline: pure combinatorics, no seconds, no bytes.
 *
 * A pipeline has `ranks` stages' worth of devices, each holding `chunks` model
 * chunks; stage k of the ranks * chunks stages in model order lives on one rank
 * as one of its chunks. Each of `micro` micro-batches passes forward through
 * all stages and backward again. A schedule says in which order each rank runs
 * its passes; everything else (when, how long, what is sent) follows from the
 * order and the costs.
 *
 * To add a schedule: one file with a const Schedule, one line in the table of
 * schedule.c.
 */
#ifndef TDP_SCHEDULE_SCHEDULE_H
#define TDP_SCHEDULE_SCHEDULE_H

#include <glib.h>

typedef enum {
  PASS_FORWARD,
  PASS_BACKWARD, /* gradients of input and weights together */
  PASS_INPUT,    /* gradient of the input only */
  PASS_WEIGHT,   /* gradient of the weights only */
  PASS_COUNT,
} Pass;

extern const char *const pass_names[];
extern const char pass_letters[]; /* "FBIW" */

typedef struct {
  int ranks;  /* p */
  int micro;  /* m, micro-batches of one step */
  int chunks; /* v, of each rank */
  int group;  /* micro-batches that an interleaved schedule runs through a chunk
                 before the next chunk; 0 = ranks */
} ScheduleShape;

/* One pass of one chunk (0 .. chunks-1 on its rank) for one micro-batch. */
typedef struct {
  guint32 micro;
  guint16 chunk;
  guint8 pass; /* Pass */
} Slot;

typedef struct {
  const char *name;
  const char *title; /* for people */
  int min_chunks, max_chunks; /* chunks it is defined for */
  gboolean serial; /* one micro-batch in the pipeline at a time */

  /* Whether the order exists for this shape; the error says which rule failed
   * with the numbers in it. NULL if it always does. */
  gboolean (*check)(const ScheduleShape *shape, GError **error);

  /* Appends the slots of one rank, in order. */
  void (*order)(const ScheduleShape *shape, int rank, GArray *slots);

  /* Most activations that a rank holds at once, in micro-batches of one chunk. */
  int (*peak)(const ScheduleShape *shape, int rank);
} Schedule;

/* All schedules, ending with NULL; names as plan files spell them. */
extern const Schedule *const schedules[];

/* NULL if there is none of this name. */
const Schedule *schedule_find(const char *name);

/* Checks the shape against the schedule's chunk range and its own rule. */
gboolean schedule_check(const Schedule *schedule, const ScheduleShape *shape, GError **error);

/* Stage (0 .. ranks*chunks-1, in model order) of a rank's chunk, and back. */
static inline int schedule_stage(const ScheduleShape *s, int rank, int chunk)
{
  return chunk * s->ranks + rank;
}

/* A dry run with given pass times and free communication. */
typedef struct {
  double makespan;
  double busy;       /* of the busiest rank */
  double *start;     /* of each slot, rank after rank */
  double *end;
  Slot *slots;
  int *first;        /* first slot of each rank; ranks + 1 entries */
  int *peak;         /* most activations held, in micro-batches of one chunk, each rank */
} Replay;

/* Times are of a whole rank's passes: a chunk takes 1/chunks of them.
 * NULL if the order deadlocks. */
Replay *schedule_replay(const Schedule *schedule, const ScheduleShape *shape, const double pass_time[PASS_COUNT]);
void replay_free(Replay *replay);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Replay, replay_free)

/* The schedule drawn as text, one line a rank, one column a `unit` of time. */
char *schedule_draw(const Schedule *schedule, const ScheduleShape *shape,
                    const double pass_time[PASS_COUNT], double unit);

#endif
