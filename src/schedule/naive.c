/* One micro-batch in the pipeline at a time. */
#include "schedule/all.h"

static void order(const ScheduleShape *shape, int rank, SlotList *slots)
{
  (void)rank;
  for (int i = 0; i < shape->micro; i++) {
    slot_add(slots, PASS_FORWARD, 0, i);
    slot_add(slots, PASS_BACKWARD, 0, i);
  }
}

const Schedule schedule_naive = {
  .name = "naive",
  .title = "naive model parallelism",
  .min_chunks = 1,
  .max_chunks = 1,
  .serial = TRUE,
  .order = order,
};
