/* Schedules as text: drawn, and as PyTorch's schedule CSV, which schedule/table.h reads. The caller frees them. */
#ifndef TDP_TESTS_SCHEDULE_TEXT_H
#define TDP_TESTS_SCHEDULE_TEXT_H

#include "schedule/table.h"

/* The schedule drawn as text, one line a rank, one column a `unit` of time.
 * Passes of the first chunk are F, B, I, W, R, S, T with their micro-batch,
 * those of further chunks f, b, i, w with "a", "b" ... before it; a pair is
 * drawn as "F0&b1". */
char *schedule_draw(const Schedule *schedule, const ScheduleShape *shape,
                    const double pass_time[PASS_COUNT], double pair, double unit);

/* The orders of any schedule as such a CSV. NULL and TDP_ERROR_INPUT if the
 * format has no words for it: two copies of the model, recompute slots,
 * vocabulary passes. */
char *schedule_table_text(const Schedule *schedule, const ScheduleShape *shape, GError **error);

#endif
