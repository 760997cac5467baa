/* Lanes with more boxes than a picture can show, as shares of time; private to report. */
#ifndef TDP_REPORT_TIMELINE_SHARES_H
#define TDP_REPORT_TIMELINE_SHARES_H

#include "report/timeline_colors.h"

#define SHARE_LEVELS 12
#define SHARE_KINDS (PASS_COUNT + TASK_KIND_COUNT)

/* A bin of time: of each kind of box, what share of the time and in which mean colour. */
typedef struct {
  guint32 rgb[SHARE_KINDS];
  int levels[SHARE_KINDS];     /* of SHARE_LEVELS; rounding may make their sum larger */
} Shares;

/* `boxes` of Box; a kind that occurs in a bin has at least `least` levels. Bins
 * that look alike have the same bytes. */
Shares *shares_new(const TimelineColors *colors, const GArray *boxes, double bin_s, int n_bins, int least);

#endif
