/*
 * V-Half and V-Min (Qi et al. 2024, arXiv 2405.15362): one block of passes for
 * a micro-batch, repeated every six slots of equal length. The block says in
 * which slots a rank runs forward and input gradient of its two chunks; weight
 * gradients fill the slots between, first come first served. Only the order is
 * kept, so passes may take any time. This is the plain pattern: the paper's
 * further reordering of the first and last micro-batches is not applied.
 */
#include "schedule/all.h"

#define PERIOD 6
#define N_PASSES 4

/* Slots of F0, F1, I1, I0 of micro-batch 0. */
typedef struct {
  int at[N_PASSES];
} Block;

static Block block_half(int p, int rank)
{
  int gap = p % 2 == 0 ? 3 : 0;
  return (Block) { { 2 * rank, 3 * p - rank - 2, 3 * p + gap + 2 * rank - 1, 6 * p + gap - rank - 2 } };
}

static Block block_min(int p, int rank)
{
  int gap = p % 3 == 0 ? 2 : 0;
  return (Block) { { rank, 2 * p - rank - 1, 2 * p + gap + rank, 4 * p + gap - rank - 1 } };
}

/* The pass in a slot; NULL if it is free. */
static const Slot *find_pass(const Block *block, int time, int micro, Slot *out)
{
  static const Slot passes[N_PASSES] = {
    { .pass = PASS_FORWARD, .chunk = 0 },
    { .pass = PASS_FORWARD, .chunk = 1 },
    { .pass = PASS_INPUT, .chunk = 1 },
    { .pass = PASS_INPUT, .chunk = 0 },
  };

  for (int k = 0; k < N_PASSES; k++) {
    int since = time - block->at[k];
    if (since >= 0 && since % PERIOD == 0 && since / PERIOD < micro) {
      *out = passes[k];
      out->micro = since / PERIOD;
      return out;
    }
  }
  return NULL;
}

static void order_with(const ScheduleShape *shape, Block block, SlotList *slots)
{
  g_autofree Slot *pending = g_new(Slot, 2 * shape->micro);
  int n_pending = 0, done = 0;
  int end = block.at[N_PASSES - 1] + PERIOD * shape->micro;

  for (int time = 0; time < end; time++) {
    Slot slot;
    if (find_pass(&block, time, shape->micro, &slot)) {
      slot_append(slots, slot);
      if (slot.pass == PASS_INPUT)
        pending[n_pending++] = slot;
    } else if (done < n_pending) {
      slot_add(slots, PASS_WEIGHT, pending[done].chunk, pending[done].micro);
      done++;
    }
  }
  for (; done < n_pending; done++)
    slot_add(slots, PASS_WEIGHT, pending[done].chunk, pending[done].micro);
}

static void order_half(const ScheduleShape *shape, int rank, SlotList *slots)
{
  order_with(shape, block_half(shape->ranks, rank), slots);
}

static void order_min(const ScheduleShape *shape, int rank, SlotList *slots)
{
  order_with(shape, block_min(shape->ranks, rank), slots);
}

const Schedule schedule_v_half = {
  .name = "v-half",
  .title = "V-Half",
  .min_chunks = 2,
  .max_chunks = 2,
  .placement = PLACE_ZIGZAG,
  .split = TRUE,
  .order = order_half,
};

const Schedule schedule_v_min = {
  .name = "v-min",
  .title = "V-Min",
  .min_chunks = 2,
  .max_chunks = 2,
  .placement = PLACE_ZIGZAG,
  .split = TRUE,
  .order = order_min,
};
