/* Published runs as points: predicted over measured step time. */
#ifndef TDP_REPORT_SCATTER_H
#define TDP_REPORT_SCATTER_H

#include "validate/validate.h"

/* scatter.svg and scatter.png in `folder` (made if missing): predicted over
 * measured, and the ratio of both, each point a run, coloured by source. */
gboolean report_scatter(const Validation *validation, const char *folder, GError **error);

#endif
