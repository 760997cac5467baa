/* What colour a span has in the timeline, and the legend; private to report. */
#ifndef TDP_REPORT_TIMELINE_COLORS_H
#define TDP_REPORT_TIMELINE_COLORS_H

#include "report/boxes.h"

#define TIMELINE_IDLE 0xE9ECEFu   /* behind computation */
#define TIMELINE_UNUSED 0xF6F7F8u /* behind communication */
#define TIMELINE_FIXED 0xDCD0EEu  /* the step's fixed time */

typedef struct {
  int chunks;                       /* of each row */
  gboolean mixed;                   /* several traces with different numbers of chunks */
  gboolean passes[PASS_COUNT];      /* which occur */
  gboolean kinds[TASK_KIND_COUNT];
  gboolean fixed;                   /* the step has a fixed time */
} TimelineColors;

void timeline_colors_init(TimelineColors *colors, const Trace *trace);

/* What also occurs: for a legend of several traces. */
void timeline_colors_join(TimelineColors *colors, const TimelineColors *other);

/* Leaves out of the legend what runs on other lanes than computation's. */
void timeline_colors_compute_only(TimelineColors *colors);

/* Colours are 0xRRGGBB: of a pass, and of any other kind of task. */
guint32 timeline_pass_color(const TimelineColors *colors, const BoxPass *pass);
guint32 timeline_kind_color(TaskKind kind);

/* What people call a pass, and any other kind of task: "input gradient", "reduce gradients". */
const char *timeline_pass_title(Pass pass);
const char *timeline_kind_title(TaskKind kind);

/* Black or white, whichever reads better on a colour. */
guint32 timeline_ink(guint32 rgb);

/* Appends what occurs: names (newly allocated) and colours (double). */
void timeline_legend(const TimelineColors *c, GPtrArray *names, GArray *colors);

#endif
