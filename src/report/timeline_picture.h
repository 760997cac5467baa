/*
 * A timeline as marks on a sheet, drawn by plots/timeline.gp; private to report.
 * Times are seconds on the shared axis, all else is pixels from the top left at
 * single scale. Colours are 0xRRGGBB.
 */
#ifndef TDP_REPORT_TIMELINE_PICTURE_H
#define TDP_REPORT_TIMELINE_PICTURE_H

#include "report/gnuplot.h"
#include "report/timeline_colors.h"

#define TIMELINE_WIDTH 1400
#define TIMELINE_LEFT 76   /* of the time axis */
#define TIMELINE_RIGHT 166 /* from its end to the sheet's */
#define TIMELINE_INK 0x1A202C
#define TIMELINE_SOFT 0x5A6472
#define TIMELINE_ALARM 0xC53030

typedef struct {
  double end_s;     /* of the time axis */
  double unit_s;    /* of its numbers */
  const char *unit; /* "" = times have none */
  double pixel_s;
  double top;     /* of what stands on the axis */
  GString *boxes, *numbers, *small; /* as the script reads them */
  GPtrArray *texts; /* of labels, with the columns of `places` beside them */
  GArray *places;   /* double: x, y, right-aligned, size, colour of each label */
  GArray *squares;  /* double: x, y below the axis, colour of each square of the legend */
} TimelinePicture;

void timeline_picture_init(TimelinePicture *t, double end_s, gboolean unitless, double top);
void timeline_picture_clear(TimelinePicture *t);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(TimelinePicture, timeline_picture_clear)

void timeline_box(TimelinePicture *t, double from_s, double to_s, double top, double height, guint32 rgb);

/* A micro-batch's number in the middle of a box, if there is room. */
void timeline_number(TimelinePicture *t, double from_s, double to_s, double top, double height, guint32 micro,
                     guint32 rgb);

void timeline_text(TimelinePicture *t, double x, double y, gboolean right, int size, guint32 rgb, const char *text);

/* Draws the picture of that name; `bottom` is where the time axis stands, the legend comes below it. */
gboolean timeline_picture_draw(TimelinePicture *t, const char *name, double bottom, const TimelineColors *colors,
                               const PicturesTo *to, GError **error);

#endif
