/* One simulated plan as a JSON document. */
#ifndef TDP_CLI_SIM_DOCUMENT_H
#define TDP_CLI_SIM_DOCUMENT_H

#include "report/draws.h"
#include "report/report.h"

/* Form tdp-sim-1; newly allocated, ends in a newline. `draws`: NULL or none = not drawn. `explain`: with what
 * --explain says. */
char *sim_document(const Result *result, const Trace *trace, const Draws *draws, gboolean explain);

#endif
