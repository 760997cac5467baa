/*
 * Hanayo (Liu et al. 2023, arXiv 2308.15762): the model goes through the ranks
 * in waves, two chunks of each rank a wave. A free rank takes a backward if one
 * is ready, else the forward of the deepest stage. At most p micro-batches are
 * in the pipeline.
 */
#include "base/error.h"
#include "schedule/all.h"

static gboolean check(const ScheduleShape *shape, GError **error)
{
  if (shape->chunks % 2 != 0)
    return input_error(error, "schedule hanayo needs an even number of chunks a pipeline rank, two for each wave, the "
                       "plan has %d", shape->chunks);
  return TRUE;
}

static gint64 key(const ScheduleShape *shape, int stage, const Slot *slot)
{
  gint64 m = shape->micro, stages = (gint64)shape->ranks * shape->chunks;

  return slot->pass == PASS_FORWARD ? (stages - stage) * m + slot->micro : slot->micro;
}

static void order_all(const ScheduleShape *shape, SlotList *slots)
{
  Greedy greedy = { &schedule_hanayo, shape, key, shape->ranks };
  greedy_order(&greedy, slots);
}

/* One more on each rank on the way to p on the last one. */
static int peak(const ScheduleShape *shape, int rank)
{
  return shape->micro < shape->ranks ? 1 : shape->ranks * (shape->chunks - 1) + 1 + rank;
}

const Schedule schedule_hanayo = {
  .name = "hanayo",
  .title = "Hanayo",
  .min_chunks = 2,
  .max_chunks = G_MAXINT,
  .placement = PLACE_ZIGZAG,
  .check = check,
  .order_all = order_all,
  .peak = peak,
};
