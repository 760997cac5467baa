/* Numbers of the hardware that --question sensitivity changes, one at a time. */
#ifndef TDP_ASK_KNOBS_H
#define TDP_ASK_KNOBS_H

#include "hardware/cluster.h"

typedef struct {
  const char *title;  /* "bandwidth" */
  const char *behind; /* words that follow the tier's name, which then stands behind the title; NULL: the name is
                         first */
  void (*scale)(Cluster *cluster, int tier, double factor); /* multiplies the number; `tier` is read if of_tier */
  gboolean of_tier; /* each tier of links has one */
  gboolean costs;   /* a step takes longer with more of it: it is a time or a slowdown, not a rate */
  gboolean room;    /* it changes what fits and no time */
} Knob;

extern const Knob knobs[]; /* ended by one whose title is NULL */

/* The factor, from 0 to 1, below which no lower bound of a step's seconds falls when the number is multiplied by
 * `factor`. A bound is a sum of maxima of parts, none of which falls by more than the number changes; where all parts
 * rise, no bound falls, but that slower transfers between nodes slow kernels less. Where a device has more memory other
 * plans fit, whose bounds are among those of all plans. */
double knob_floor_scale(const Cluster *cluster, const Knob *knob, int tier, double factor);

#endif
