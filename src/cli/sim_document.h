/* One simulated plan as a JSON document. */
#ifndef TDP_CLI_SIM_DOCUMENT_H
#define TDP_CLI_SIM_DOCUMENT_H

#include "cli/engine.h"
#include "report/draws.h"
#include "report/report.h"

/* What there is to know of a simulated plan beside its numbers: lines that tdp-sim also says on stderr. char *; the
 * caller's to unref. */
GPtrArray *sim_notes(const Result *result);

/* What tdp-sim's options ask for besides. */
typedef struct {
  const Draws *draws;   /* NULL or none = not drawn */
  const RankRun *ranks; /* of --ranks all, with `engine`; NULL = not asked for */
  const EngineOptions *engine;
  gboolean explain;     /* with what --explain says */
  gboolean collectives; /* with each distinct communication */
  gboolean ops;         /* with each operator */
  const GPtrArray *notes; /* char *: what there is to know of the plan's file, before sim_notes() */
} SimBesides;

/* Form tdp-sim-1, with notes where there are any; newly allocated, ends in a newline. */
char *sim_document(const Result *result, const Trace *trace, const SimBesides *besides);

/* The same as an element of the writer's. */
void sim_document_put(const Result *result, const Trace *trace, const SimBesides *besides, JsonWriter *w);

#endif
