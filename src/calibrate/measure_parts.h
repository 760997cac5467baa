/* Samples of the points, and the speed at which they were taken. Private to this folder. */
#ifndef TDP_CALIBRATE_MEASURE_PARTS_H
#define TDP_CALIBRATE_MEASURE_PARTS_H

#include "calibrate/bench.h"
#include "calibrate/measure.h"

#define WITHHELD_MAX 0.03 /* share of a sample's time beyond which it is discarded */

typedef struct {
  double seconds;   /* of a call; 0 on a rank that takes no part */
  double head;      /* of the reference before it */
  double reference; /* of those before and behind it, on average */
  double withheld;  /* the largest share of any rank */
} Sample;

typedef struct {
  Bench bench;
  const MeasureOptions *options;
  GArray *points;
  BackendComm *world;
  BackendComm **groups; /* of the first n ranks, by n; NULL where this rank is not in it */
  BackendEvent *start, *end;
  int *calls;           /* timed together, by point */
  double *lasts_s;      /* a sample, by point: as long do ranks sleep that take turns with those that compute */
  Sample *samples;      /* by point, `rounds` each */
  GArray *heads;        /* Sample: all in order of time, also those that were taken again */
  double from_s, heads_from_s, heads_until_s; /* of the host's clock */
} Measure;

static inline MachinePoint *measure_point(const Measure *m, guint i)
{
  return &g_array_index(m->points, MachinePoint, i);
}

static inline gboolean is_disturbed(const Sample *s)
{
  return s->withheld > WITHHELD_MAX;
}

static inline gboolean takes_part(const Measure *m, const MachinePoint *p)
{
  return m->bench.b->rank < p->busy;
}

/* Of ranks beyond the processors nothing is timed but collectives; they keep away from those that compute. */
static inline gboolean is_extra(const Measure *m)
{
  return m->bench.b->rank >= m->options->processors;
}

/* Of n numbers on each rank, on all. */
void measure_reduce(Measure *m, double *values, int n, ExecReduce op);

/* Samples as they would be at the mean speed of the run. */
void measure_even_out(Measure *m, int rounds);

/* Appends the points of the reference. */
void measure_set_reference(Measure *m);

#endif
