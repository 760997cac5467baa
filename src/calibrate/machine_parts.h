/* Parts of the fit of a machine. Private to this folder. */
#ifndef TDP_CALIBRATE_MACHINE_PARTS_H
#define TDP_CALIBRATE_MACHINE_PARTS_H

#include "calibrate/machine_fit.h"

static inline const MachinePoint *point_at(const GArray *points, guint i)
{
  return &g_array_index(points, MachinePoint, i);
}

/* Of doubles; sorts them. */
double points_median(GArray *values);

/* How much longer a kind takes while all processors of a node compute: the median
 * over its points; 1 where nothing was measured with others at work. */
double points_crowding(const GArray *points, PointKind kind, const char *name, gboolean backward);

/*
 * How far ranks drift apart. The slowest of n is behind their mean by
 * e(n) sqrt(s^2 + j^2 g(T / t)) where each is averaged over T: e(n) is the
 * expected largest of n normals (cost/slowest.h), s lasts (rate_spread), j is
 * of a moment and t its correlation time (rate_jitter). Fitted to the reference points, of several T.
 */
void machine_fit_spread(const GArray *points, MachineFit *fit);

/* What products lose by other kernels between them, fitted to the points in turn. */
void machine_fit_switch(const GArray *points, MachineFit *fit);

/* The last-level cache and what bytes beyond it take, from walks alone. */
void machine_fit_walks(const GArray *points, MachineFit *fit);

/* The links of a node and between nodes, and how collectives slow products. */
void machine_fit_links(const GArray *points, MachineFit *fit);

#endif
