/*
 * Chimera with two pipelines (Li and Hoefler 2021, arXiv 2107.06925): the
 * second copy of the model runs the other way, with half of the micro-batches.
 * Both are merged by taking backwards first, then the older micro-batch. More
 * micro-batches than ranks run as units of p, one behind the other, so that no
 * rank holds more than p.
 */
#include "schedule/all.h"

static gboolean check(const ScheduleShape *shape, GError **error)
{
  int p = shape->ranks, m = shape->micro;

  if (p % 2 != 0)
    return shape_refuse(error, "schedule chimera needs an even number of pipeline ranks, the plan has %d", p);
  if (m % 2 != 0)
    return shape_refuse(error, "schedule chimera needs an even number of micro-batches, half of them for each direction, "
                        "the plan has %d", m);
  if (m > p && m % p != 0)
    return shape_refuse(error, "schedule chimera runs units of %d micro-batches, the pipeline ranks: the plan has %d, "
                        "which must be a multiple or less", p, m);
  return TRUE;
}

static gint64 key(const ScheduleShape *shape, int stage, const Slot *slot)
{
  (void)stage;
  return slot->pass == PASS_FORWARD ? (gint64)shape->micro + slot->micro : slot->micro;
}

static void order_all(const ScheduleShape *shape, GArray **slots)
{
  ScheduleShape unit = *shape;

  unit.micro = MIN(shape->micro, shape->ranks);
  Greedy greedy = { &schedule_chimera, &unit, key, unit.micro };
  greedy_order(&greedy, slots);
  for (int rank = 0; rank < shape->ranks; rank++) {
    guint n = slots[rank]->len;
    for (int first = unit.micro; first < shape->micro; first += unit.micro)
      for (guint i = 0; i < n; i++) {
        Slot slot = g_array_index(slots[rank], Slot, i);
        slot.micro += first;
        g_array_append_val(slots[rank], slot);
      }
  }
}

/* From p/2 + 1 at the ends to p in the middle; less is not known of units that are not full. */
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
  .check = check,
  .order_all = order_all,
  .peak = peak,
};
