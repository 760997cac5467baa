/*
 * Times the points on a backend, by all its ranks at once. Free of GSL and of
 * any device's library: what it calls is the backend's table.
 *
 * Weights and saved activations lie in pools and are walked through, as in
 * training, where each layer has others: on a core 32 of each size, at most 32 MiB;
 * on a device a GiB. What the operator before has just written lies in two places by turns: in a cache
 * if it fits, but not as the call before has left it. States of the optimizer, which a step touches once, are
 * walked through wholly. What the executor runs together is timed together: a
 * norm's backward with the copy of its gradient, the optimizer with the norm's sum
 * of squares and the clearing of gradients.
 *
 * What one rank does and what all do at once is timed in turn: some points in a row by one, then those of the same by
 * all, the other way round in the next row and the next round. So a rank comes to the one as it comes to the other and
 * as the others do, its operands where the points before have left them, and what their times differ by is not the
 * caches of a rank that has just done the same, or of one that has waited.
 *
 * No pool is larger than what a core has of most last-level caches. What bytes beyond that take only walks tell, which
 * read or update one buffer from end to end, and have done so a few times before they are timed.
 *
 * A sample is discarded and taken again where a rank lacked its processor for more
 * than a few percent of it, because other programs had it or a hypervisor withheld
 * it (Backend's withheld); where the backend cannot tell, none is.
 *
 * Errors are TDP_ERROR_RUNTIME: memory that is out, a disk that cannot be
 * written, what the backend says.
 */
#ifndef TDP_CALIBRATE_MEASURE_H
#define TDP_CALIBRATE_MEASURE_H

#include "calibrate/calibrate.h"
#include "calibrate/points.h"
#include "exec/backend.h"

typedef struct {
  int rounds;      /* over all points, at most */
  double budget_s; /* in which rounds are to end; at least three are done ... */
  double limit_s;  /* ... where they end within this; one in any case */
  int processors;  /* ranks of the first node that can compute at once */
  CalibrateProgress progress; /* of points of all rounds; may be NULL */
  gpointer data;
} MeasureOptions;

typedef struct {
  int taken, discarded; /* samples; discarded are among taken */
} MeasureCounts;

/* Sets the times of all points; the same on all ranks. */
gboolean measure_points(Backend *backend, const MeasureOptions *options, GArray *points, MeasureCounts *counts,
                        GError **error);

#endif
