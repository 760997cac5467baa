/* Breadth first: every micro-batch through a chunk before the next chunk, and back in reverse
 * (Lamy-Poirier 2022, arXiv 2211.05953; PyTorch's ScheduleLoopedBFS). With one chunk it is GPipe (Huang et al. 2018,
 * arXiv 1811.06965). */
#include "schedule/all.h"

static void order(const ScheduleShape *shape, int rank, SlotList *slots)
{
  (void)rank;
  for (int chunk = 0; chunk < shape->chunks; chunk++)
    for (int i = 0; i < shape->micro; i++)
      slot_add(slots, PASS_FORWARD, chunk, i);
  for (int chunk = shape->chunks - 1; chunk >= 0; chunk--)
    for (int i = shape->micro - 1; i >= 0; i--)
      slot_add(slots, PASS_BACKWARD, chunk, i);
}

static int peak(const ScheduleShape *shape, int rank)
{
  (void)rank;
  return shape->micro * shape->chunks;
}

const Schedule schedule_looped_bfs = {
  .name = "looped-bfs",
  .title = "looped breadth-first",
  .aliases = "LoopedBFS ScheduleLoopedBFS",
  .min_chunks = 2,
  .max_chunks = G_MAXINT,
  .order = order,
  .peak = peak,
};

const Schedule schedule_gpipe = {
  .name = "gpipe",
  .title = "GPipe",
  .aliases = "GPipe ScheduleGPipe",
  .min_chunks = 1,
  .max_chunks = 1,
  .order = order,
  .peak = peak,
};
