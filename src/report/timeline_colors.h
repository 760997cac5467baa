/* What colour a span has in the timeline, and the legend; private to report. */
#ifndef TDP_REPORT_TIMELINE_COLORS_H
#define TDP_REPORT_TIMELINE_COLORS_H

#include "trace/trace.h"

#define TIMELINE_IDLE 0xE9ECEFu   /* behind computation */
#define TIMELINE_UNUSED 0xF6F7F8u /* behind communication */
#define TIMELINE_FIXED 0xDCD0EEu  /* the step's fixed time */

typedef struct {
  int chunks;
  gboolean passes[PASS_COUNT];      /* which occur */
  gboolean kinds[TASK_KIND_COUNT];
  gboolean fixed;                   /* the step has a fixed time */
} TimelineColors;

void timeline_colors_init(TimelineColors *colors, const Trace *trace);

/* Colours are 0xRRGGBB. */
guint32 timeline_color(const TimelineColors *colors, const Span *span);

/* Black or white, whichever reads better on a colour. */
guint32 timeline_ink(guint32 rgb);

/* Appends what occurs: names (newly allocated) and colours (double). */
void timeline_legend(const TimelineColors *colors, GPtrArray *names, GArray *rgb);

#endif
