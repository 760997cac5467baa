/* The plans that no other beats in two objectives, drawn. */
#ifndef TDP_REPORT_FRONT_H
#define TDP_REPORT_FRONT_H

#include "report/answer.h"

/* pareto.svg and .png in `folder`, made if missing: the first two columns of the
 * answer, against each other; of its rows those that its column "front", if any,
 * says "yes" of. TDP_ERROR_RUNTIME as report_plots(). */
gboolean report_front(const Answer *front, const char *x_title, const char *y_title, const char *folder,
                      GError **error);

#endif
