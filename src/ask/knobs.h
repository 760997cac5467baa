/* Numbers of the hardware that a sensitivity changes, one at a time. */
#ifndef TDP_ASK_KNOBS_H
#define TDP_ASK_KNOBS_H

#include "hardware/cluster.h"

typedef struct {
  const char *title, *behind; /* behind the tier's name; NULL = the name stands first */
  void (*scale)(Cluster *cluster, int tier, double factor);
  gboolean of_tier;
  gboolean costs; /* steps take longer with more of it */
  gboolean room;  /* nothing takes another time */
} Knob;

extern const Knob knobs[]; /* up to one without a title */

/* What bounds of time come to at least when a number is multiplied: each is a sum of maxima of parts, none of which
 * falls by more than the number changes; where all rise, no less than they were, but that slower transfers between
 * nodes slow kernels less. Where a device has more memory other plans fit, which take no less than any plan. */
double knob_floor_scale(const Cluster *cluster, const Knob *knob, int tier, double factor);

#endif
