/* Schedules drawn as text. */
#ifndef TDP_TESTS_SCHEDULE_TEXT_H
#define TDP_TESTS_SCHEDULE_TEXT_H

#include "schedule/schedule.h"

/* The schedule drawn as text, one line a rank, one column a `unit` of time.
 * Passes of the first chunk are F, B, I, W, R, S, T with their micro-batch,
 * those of further chunks f, b, i, w with "a", "b" ... before it; a pair is
 * drawn as "F0&b1". Newly allocated. */
char *schedule_draw(const Schedule *schedule, const ScheduleShape *shape,
                    const double pass_time[PASS_COUNT], double pair, double unit);

#endif
