/* All forwards, then all backwards in reverse order (Huang et al. 2018, arXiv 1811.06965). */
#include "schedule/all.h"

static void order(const ScheduleShape *shape, int rank, SlotList *slots)
{
  (void)rank;
  for (int i = 0; i < shape->micro; i++)
    slot_add(slots, PASS_FORWARD, 0, i);
  for (int i = shape->micro - 1; i >= 0; i--)
    slot_add(slots, PASS_BACKWARD, 0, i);
}

static int peak(const ScheduleShape *shape, int rank)
{
  (void)rank;
  return shape->micro;
}

const Schedule schedule_gpipe = {
  .name = "gpipe",
  .title = "GPipe",
  .aliases = "GPipe ScheduleGPipe",
  .min_chunks = 1,
  .max_chunks = 1,
  .order = order,
  .peak = peak,
};
