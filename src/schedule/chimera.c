/*
 * Chimera with two pipelines (Li and Hoefler 2021, arXiv 2107.06925): the
 * second copy of the model runs the other way, with half of the micro-batches.
 * Both are merged by taking backwards first, then the older micro-batch. With at
 * most p micro-batches under way this is the paper's basic unit where there are
 * p of them, and its direct concatenation of units where there are more.
 */
#include "schedule/all.h"

static gint64 key(const ScheduleShape *shape, int stage, const Slot *slot)
{
  (void)stage;
  return slot->pass == PASS_FORWARD ? (gint64)shape->micro + slot->micro : slot->micro;
}

static void order_all(const ScheduleShape *shape, SlotList *slots)
{
  Greedy greedy = { &schedule_chimera, shape, key, shape->ranks / 2 };
  greedy_order(&greedy, slots);
}

/* From p/2 + 1 at the ends to p in the middle. */
static int peak(const ScheduleShape *shape, int rank)
{
  int p = shape->ranks;
  return shape->micro < p ? 1 : MIN(p, p / 2 + 1 + MIN(rank, p - 1 - rank));
}

const Schedule schedule_chimera = {
  .name = "chimera",
  .title = "Chimera",
  .min_chunks = 2,
  .max_chunks = 2,
  .placement = PLACE_TWO_WAY,
  .order_all = order_all,
  .peak = peak,
};
