/* The pictures of a trace, each in a file; private to report. */
#ifndef TDP_REPORT_PLOTS_H
#define TDP_REPORT_PLOTS_H

#include "report/gnuplot.h"
#include "report/report.h"

/* Draws the pictures "timeline" and "memory". */
gboolean plot_timeline(const Result *result, const Trace *trace, const PicturesTo *to, GError **error);
gboolean plot_memory(const Result *result, const Trace *trace, const PicturesTo *to, GError **error);

/* "timeline-start": the first passes as boxes, where the whole step has too many for boxes; nothing where it has not. */
gboolean plot_timeline_start(const Result *result, const Trace *trace, const PicturesTo *to, GError **error);

/* "timeline" of a schedule alone, below a title and what it says. */
gboolean plot_schedule(const Trace *trace, const char *title, const char *says, const PicturesTo *to, GError **error);

/* Makes the folder of pictures if it is missing. */
gboolean plot_folder(const char *folder, GError **error);

/* Time axis: the unit's size in seconds and its name, fitting for a step. */
double plot_time_unit(double end_s, const char **name);

/* First line of a picture: what was run on what. Newly allocated. */
char *plot_title(const Result *result);

/* A text in lines of at most so many letters, broken after commas and before "·" where it can be, else at spaces; a
 * longer word stands alone in its line. Newly allocated, at least one line. */
char **plot_lines(const char *text, int letters);
#define PLOT_LINE_PIXELS 16 /* from one to the next */

#endif
