/* Pictures drawn with letters and blocks where others are files: --plots -, as wide and as coloured as the terminal. */
#ifndef TDP_CLI_DRAWN_H
#define TDP_CLI_DRAWN_H

#include "report/report.h"

/* Whether the value of --plots, NULL = not given, asks for these. */
gboolean drawn_asked(const char *plots);

/* Refuses them beside JSON, which stands on stdout alone. */
gboolean drawn_check(const char *plots, gboolean json, GError **error);

void drawn_timeline(const Trace *trace);
void drawn_memory(const Result *result, const Trace *trace);

#endif
