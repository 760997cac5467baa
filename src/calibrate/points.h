/*
 * What is timed on a machine, and the times: one MachinePoint a kernel and
 * size. Points are written to a CSV file and read back, so that measuring (in
 * the program that has the device's libraries) and fitting (GSL) may be two.
 *
 * A point is timed alone, then while all ranks do the same (`busy`): devices
 * that share units or memory are slower then. Rounds visit all points, one rank's and all ranks' in turn (measure.h),
 * so that a disturbance falls on many of them. Where processors change their
 * speed (a neighbour on the same core, the clock), a sample says at which speed
 * it was taken: a reference product stands on either side of it. Samples are
 * brought to the mean speed of the whole run, by as much as their kind follows
 * the reference (a control variate: the slope of log time over the log of the
 * reference, over all points of the kind). Seconds are medians of these, low and
 * high bound the median with 95 % confidence (order statistics).
 *
 * Errors are TDP_ERROR_INPUT: a file that holds something else.
 */
#ifndef TDP_CALIBRATE_POINTS_H
#define TDP_CALIBRATE_POINTS_H

#include "hardware/dtype.h"

#include <glib.h>

typedef enum {
  POINT_MATMUL,     /* m x n x k; `name` is nt, nn or tn: which operands are transposed */
  POINT_ATTENTION,  /* m sequences of n tokens, k heads of head_dim */
  POINT_MEMORY,     /* m rows of n; `name` as ops have it */
  POINT_COLLECTIVE, /* `name` of collective_names, bytes as cost/collective.h counts */
  POINT_TRANSFER,   /* `name`: copy, upload or download */
  POINT_LAUNCH,     /* a kernel with next to nothing to do */
  POINT_DISK,       /* `name`: write or read */
  POINT_BESIDE,     /* a collective of `bytes` on another stream beside head_dim products of m x n x k; `backward`:
                       before them */
  POINT_REFERENCE,  /* a product at the head of each sample, on all ranks that compute: `name` is mean, slowest (of
                       the ranks, each over m samples in a row) or apart (seconds from a sample to the next) */
  POINT_TURN,       /* TURN_PAIRS products of m x n x k in turn with as many activations of `bytes`; `backward`: all
                       products, then all activations */
  POINT_WALK,       /* `name`: read or update (read and written) of a buffer of `bytes` from end to end, which was so
                       before: of a core */
  POINT_KIND_COUNT,
} PointKind;
extern const char *const point_kind_names[];

#define POINT_NAME_MAX 32
enum { TURN_PAIRS = 4 };

typedef struct {
  PointKind kind;
  char name[POINT_NAME_MAX];
  gboolean backward;
  int m, n, k, head_dim;
  int ranks;    /* of a collective; 1 otherwise */
  int busy;     /* ranks that do it at once */
  double bytes; /* that op/ counts for it; moved by a transfer or disk */
  int rounds;
  double seconds, low_s, high_s;
} MachinePoint;

/* Whether it is of a kind and, unless that is NULL, of a name and a pass. */
static inline gboolean point_like(const MachinePoint *p, PointKind kind, const char *name, gboolean backward)
{
  return p->kind == kind && (!name || (g_str_equal(p->name, name) && !p->backward == !backward));
}

/* What ran where; for sources. */
typedef struct {
  char device[96], date[16];
  int ranks;
  int node_ranks; /* that share a node; ranks of a node are consecutive */
  int processors; /* of a node for these, at most node_ranks: with fewer they take turns */
  double host_bytes_per_s; /* read and written by all processors together */
  double memory_bytes;     /* of a rank */
  double host_memory_bytes; /* of a node */
  int units;               /* multiprocessors of a device, 1 = a core */
  double cache_bytes;      /* last-level, of a device; 0 = not known */
  DType precision;         /* of weights and activations */
  int samples, discarded;  /* taken in all, and those of them in which processors were withheld; 0, 0 = not known */
} MachineHead;

/* Of several multiprocessors: sizes are those of models for a GPU, and pools and blocks go with them. */
static inline gboolean head_is_large(const MachineHead *head)
{
  return head->units > 1;
}

#define POINTS_COPY_BYTES(large) ((gsize)1 << ((large) ? 28 : 25)) /* of a transfer */

/* The designed set for a machine's ranks: at most 100 products. Computation is timed on one rank and on as many as a
 * node has processors for, collectives among 2, 4 .. ranks of a node, then among all ranks of 2, 4 .. nodes. GArray
 * of MachinePoint without times. */
GArray *points_design(const MachineHead *head);

/* Adds the times of another run of the same set: means weighted by rounds. A
 * point that only one of them has stays as it is. Of the reference, how far the
 * slowest is behind the mean of its own run is what is merged. */
void points_merge(GArray *points, const GArray *more);

/* Median and its bounds; sorts the samples. */
void point_set(MachinePoint *point, double *samples, int n);

char *points_csv(const MachineHead *head, const GArray *points);
GArray *points_load(const char *path, MachineHead *head, GError **error);

#endif
