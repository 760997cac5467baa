/* Pictures in the terminal where others are files: --plots -. A terminal that shows pixels gets the pictures of --plots DIR,
 * if gnuplot is there to draw them, any other letters and blocks, as wide and as coloured as it is. */
#ifndef TDP_CLI_DRAWN_H
#define TDP_CLI_DRAWN_H

#include "report/answer.h"
#include "report/report.h"

/* Whether the value of --plots, NULL = not given, asks for these. */
gboolean drawn_asked(const char *plots);

/* Refuses them beside JSON, which stands on stdout alone. */
gboolean drawn_check(const char *plots, gboolean json, GError **error);

/* The timeline in letters. */
void drawn_timeline(const Trace *trace);

/* The step and its memory, in pixels or in letters and blocks. */
void drawn_step(const Result *result, const Trace *trace);

/* What an answer draws, in letters; says on stderr where that is nothing. */
void drawn_answer(const Answer *answer);

/* A schedule alone, in pixels or letters; `title` and `says` stand above pixels. */
void drawn_schedule(const Trace *trace, const char *title, const char *says);

#endif
