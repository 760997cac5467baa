/* Zero bubble in a V: each rank holds a stage of the way there and one of the way back
 * (Qi et al. 2024, arXiv 2405.15362). */
#include "schedule/all.h"

static void add_input_weight(SlotList *slots, int chunk, int input, int weight)
{
  slot_add(slots, PASS_INPUT, chunk, input);
  slot_add(slots, PASS_WEIGHT, chunk, weight);
}

static void order(const ScheduleShape *shape, int rank, SlotList *slots)
{
  int p = shape->ranks, m = shape->micro;
  int forward[2] = { 0, 0 }, input[2] = { 0, 0 }, weight[2] = { 0, 0 };

  while (forward[0] < 2 * (p - rank) - 1)
    slot_add(slots, PASS_FORWARD, 0, forward[0]++);
  for (int i = 0; i < rank; i++) {
    slot_add(slots, PASS_FORWARD, 1, forward[1]++);
    slot_add(slots, PASS_FORWARD, 0, forward[0]++);
  }
  for (int i = 0; i < p - rank; i++) {
    slot_add(slots, PASS_FORWARD, 1, forward[1]++);
    add_input_weight(slots, 1, input[1]++, weight[1]++);
  }
  while (forward[1] < m) {
    if (forward[0] < m)
      slot_add(slots, PASS_FORWARD, 0, forward[0]++);
    add_input_weight(slots, 0, input[0]++, weight[0]++);
    slot_add(slots, PASS_FORWARD, 1, forward[1]++);
    add_input_weight(slots, 1, input[1]++, weight[1]++);
  }
  for (int i = 0; i < rank; i++) {
    slot_add(slots, PASS_INPUT, 0, input[0]++);
    slot_add(slots, PASS_INPUT, 1, input[1]++);
  }
  while (input[0] < m)
    add_input_weight(slots, 0, input[0]++, weight[0]++);
  while (weight[1] < m)
    slot_add(slots, PASS_WEIGHT, 1, weight[1]++);
  while (weight[0] < m)
    slot_add(slots, PASS_WEIGHT, 0, weight[0]++);
}

static int peak(const ScheduleShape *shape, int rank)
{
  (void)rank;
  return 2 * shape->ranks;
}

const Schedule schedule_zb_v = {
  .name = "zb-v",
  .title = "zero bubble V",
  .aliases = "ZBVZeroBubble ScheduleZBVZeroBubble",
  .min_chunks = 2,
  .max_chunks = 2,
  .placement = PLACE_ZIGZAG,
  .split = TRUE,
  .least_micro = 2,
  .one_less = TRUE,
  .order = order,
  .peak = peak,
};
