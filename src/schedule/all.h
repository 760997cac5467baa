/* The schedules that the table of schedule.c lists, and what they share. */
#ifndef TDP_SCHEDULE_ALL_H
#define TDP_SCHEDULE_ALL_H

#include "schedule/schedule.h"

extern const Schedule schedule_naive;
extern const Schedule schedule_gpipe;
extern const Schedule schedule_1f1b;
extern const Schedule schedule_interleaved;

static inline void slot_add(GArray *slots, Pass pass, int chunk, int micro)
{
  Slot slot = { .micro = micro, .chunk = chunk, .pass = pass };
  g_array_append_val(slots, slot);
}

#endif
