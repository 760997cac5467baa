/* The rows of one trace in a timeline; private to report. */
#ifndef TDP_REPORT_TIMELINE_PANEL_H
#define TDP_REPORT_TIMELINE_PANEL_H

#include "report/boxes.h"
#include "report/report.h"
#include "report/timeline_picture.h"

#define TIMELINE_ROWS_MAX 32     /* of a picture or page of one plan */
#define TIMELINE_NUMBERED_MAX 64 /* passes of a row that still get numbers */

typedef struct {
  double top, height; /* share of a row */
} Strip;

typedef struct {
  const Result *result; /* NULL: of a schedule alone */
  const Trace *trace; /* what is drawn */
  const Trace *whole; /* the step that it is a part of */
  TimelineColors colors;
  int *rows;          /* shown ones */
  int n_rows;
  double *bubbles;    /* of all rows of the step */
  gboolean shared;    /* some row's computation is drawn as shares of time */
  Boxes boxes;
  Strip strips[LANE_COUNT]; /* without height: not drawn */
  double row_pixels;
  double top;         /* of the first row */
  int bins;           /* of time, where boxes are too many */
} Panel;

/* All rows of a trace, or evenly at most `most` (at least 2) of them with row `fullest` among them; newly allocated,
 * `n` of them. */
int *panel_rows(const Trace *trace, int fullest, int most, int *n);

/* Whether rows show communication where so many of them share a picture. */
gboolean panel_has_strips(int rows_in_all);

/* Shows at most `most_rows` rows. */
void panel_init(Panel *panel, const Result *result, const Trace *trace, const Trace *whole, int most_rows);
void panel_clear(Panel *panel);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Panel, panel_clear)

/* Draws the rows from `top` on, of so many rows in the picture; returns where they end. */
double panel_draw(Panel *panel, TimelinePicture *picture, double top, int rows_in_all);

/* The titles of the columns beside the rows, that of the memory too where rows have it. */
void panel_headings(TimelinePicture *picture, double y, gboolean memory);

#endif
