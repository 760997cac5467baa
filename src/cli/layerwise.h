/* What strategies of their own would gain layers of a plan: tdp-plan --layerwise. */
#ifndef TDP_CLI_LAYERWISE_H
#define TDP_CLI_LAYERWISE_H

#include "report/report.h"

/* Of each stage the best strategy of each layer (search/layerwise.h) against the
 * plan's own for all, estimated; then, where the framework runs such plans, the
 * plan that says so beside the given one, simulated. `better` gets it if it takes
 * less and fits, else the given plan. Newly allocated text. */
char *explain_layerwise(const Result *best, Plan *better);

#endif
