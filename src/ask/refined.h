/* What tdp-plan --refine says: the best plan with changes that the declared space does not have (search/polish.h). */
#ifndef TDP_ASK_REFINED_H
#define TDP_ASK_REFINED_H

#include "report/report.h"
#include "search/polish.h"

/* Newly allocated text: what each kind of change gained, in seconds. */
char *refined_text(const Polished *polished, const Result *best);

/* The same as the object "refined", with the plan. */
void refined_write(const Polished *polished, const Result *best, JsonWriter *writer);

#endif
