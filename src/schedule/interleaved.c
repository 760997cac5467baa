/*
 * Interleaved 1F1B (Narayanan et al. 2021, arXiv 2104.04473) with Megatron's
 * rules: the micro-batches go in groups, each group through chunk 0, then
 * chunk 1 and so on; backwards mirror the chunks. PyTorch's Interleaved1F1B is
 * the same order with its own rule for groups: m / p rounds of equal groups.
 */
#include "base/error.h"
#include "schedule/all.h"

static int group_of(const ScheduleShape *shape)
{
  return shape->group ? shape->group : shape->ranks;
}

static gboolean check(const ScheduleShape *shape, GError **error)
{
  int group = group_of(shape), m = shape->micro, p = shape->ranks;

  if (p < 2)
    return input_error(error, "schedule interleaved needs 2 or more pipeline ranks, the plan has %d", p);
  if (group < p || group > m)
    return input_error(error, "schedule interleaved runs groups of %d micro-batches, which must be at least the %d "
                       "pipeline ranks and at most the %d micro-batches", group, p, m);
  if (m % group != 0 && m % group < p)
    return input_error(error, "schedule interleaved leaves a last group of %d micro-batches (%d in groups of %d), "
                       "which must be 0 or at least the %d pipeline ranks", m % group, m, group, p);
  return TRUE;
}

/* The order in which micro-batches and chunks come, forward. */
static void fill_table(const ScheduleShape *shape, Slot *table)
{
  int group = group_of(shape), k = 0;

  for (int first = 0; first < shape->micro; first += group)
    for (int chunk = 0; chunk < shape->chunks; chunk++)
      for (int i = first; i < MIN(first + group, shape->micro); i++)
        table[k++] = (Slot) { .micro = i, .chunk = chunk };
}

static int warmup_of(const ScheduleShape *shape, int rank)
{
  int all = shape->micro * shape->chunks;
  return MIN(2 * (shape->ranks - rank - 1) + (shape->chunks - 1) * group_of(shape) + shape->ahead, all);
}

static void order(const ScheduleShape *shape, int rank, SlotList *slots)
{
  int all = shape->micro * shape->chunks, last = shape->chunks - 1;
  int warmup = warmup_of(shape, rank);
  g_autofree Slot *table = g_new(Slot, all);

  fill_table(shape, table);
  for (int k = 0; k < warmup; k++)
    slot_add(slots, PASS_FORWARD, table[k].chunk, table[k].micro);
  for (int k = warmup; k < all; k++) {
    const Slot *b = &table[k - warmup];
    slot_add(slots, PASS_FORWARD, table[k].chunk, table[k].micro);
    slot_add(slots, PASS_BACKWARD, last - b->chunk, b->micro);
  }
  for (int k = all - warmup; k < all; k++)
    slot_add(slots, PASS_BACKWARD, last - table[k].chunk, table[k].micro);
}

static int peak(const ScheduleShape *shape, int rank)
{
  return MIN(warmup_of(shape, rank) + 1, shape->micro * shape->chunks);
}

/* What fill_table() has among its first n. */
static int first(const ScheduleShape *shape, int chunk, int n)
{
  int group = group_of(shape), found = 0;

  for (int at = 0; at < shape->micro && n > 0; at += group) {
    int size = MIN(group, shape->micro - at);
    found += CLAMP(n - chunk * size, 0, size);
    n -= size * shape->chunks;
  }
  return found;
}

const Schedule schedule_interleaved = {
  .name = "interleaved",
  .title = "interleaved 1F1B",
  .min_chunks = 2,
  .max_chunks = G_MAXINT,
  .grouped = TRUE,
  .check = check,
  .order = order,
  .peak = peak,
  .first = first,
};

static int rounds_of(const ScheduleShape *shape)
{
  return MAX(1, shape->micro / shape->ranks);
}

static ScheduleShape in_rounds(const ScheduleShape *shape)
{
  ScheduleShape other = *shape;

  other.group = shape->micro / rounds_of(shape);
  return other;
}

static gboolean check_rounds(const ScheduleShape *shape, GError **error)
{
  int rounds = rounds_of(shape);

  if (shape->micro % rounds != 0)
    return input_error(error, "schedule interleaved-rounds runs %d micro-batches in %d rounds (one for each %d of "
                       "them, the pipeline ranks), which must be of equal size", shape->micro, rounds, shape->ranks);
  return TRUE;
}

static void order_rounds(const ScheduleShape *shape, int rank, SlotList *slots)
{
  ScheduleShape rounds = in_rounds(shape);
  order(&rounds, rank, slots);
}

static int peak_rounds(const ScheduleShape *shape, int rank)
{
  ScheduleShape rounds = in_rounds(shape);
  return peak(&rounds, rank);
}

static int first_of_rounds(const ScheduleShape *shape, int chunk, int n)
{
  ScheduleShape rounds = in_rounds(shape);
  return first(&rounds, chunk, n);
}

const Schedule schedule_interleaved_rounds = {
  .name = "interleaved-rounds",
  .title = "interleaved 1F1B, PyTorch's rounds",
  .aliases = "Interleaved1F1B ScheduleInterleaved1F1B",
  .min_chunks = 2,
  .max_chunks = G_MAXINT,
  .check = check_rounds,
  .order = order_rounds,
  .peak = peak_rounds,
  .first = first_of_rounds,
};
