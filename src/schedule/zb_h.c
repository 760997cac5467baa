/*
 * The two handmade zero-bubble schedules (Qi et al. 2023, arXiv 2401.10241):
 * 1F1B with the input gradient in the backward's place and weight gradients
 * put off, so that every rank holds as much as rank 0 of 1F1B (H1), or about
 * twice that, which fills the pipeline before the first backward (H2).
 */
#include "schedule/all.h"

typedef struct {
  int forwards; /* before the first input gradient comes a forward more */
  int pending;  /* weight gradients put off at most */
} Lead;

static Lead lead_of(const ScheduleShape *shape, int rank, int depth)
{
  return (Lead) { .forwards = depth * (shape->ranks - rank - 1), .pending = depth * rank };
}

static void order_with(const ScheduleShape *shape, Lead lead, SlotList *slots)
{
  int m = shape->micro, forwards = 0, weights = 0;

  while (forwards < MIN(lead.forwards, m))
    slot_add(slots, PASS_FORWARD, 0, forwards++);
  for (int i = 0; i < m; i++) {
    if (forwards < m)
      slot_add(slots, PASS_FORWARD, 0, forwards++);
    slot_add(slots, PASS_INPUT, 0, i);
    if (i >= lead.pending)
      slot_add(slots, PASS_WEIGHT, 0, weights++);
  }
  while (weights < m)
    slot_add(slots, PASS_WEIGHT, 0, weights++);
}

static void order_h1(const ScheduleShape *shape, int rank, SlotList *slots)
{
  order_with(shape, lead_of(shape, rank, 1), slots);
}

static void order_h2(const ScheduleShape *shape, int rank, SlotList *slots)
{
  order_with(shape, lead_of(shape, rank, 2), slots);
}

static int ahead_h1(const ScheduleShape *shape, int rank)
{
  return MIN(lead_of(shape, rank, 1).forwards + 1, shape->micro);
}

static int ahead_h2(const ScheduleShape *shape, int rank)
{
  return MIN(lead_of(shape, rank, 2).forwards + 1, shape->micro);
}

static int peak_h1(const ScheduleShape *shape, int rank)
{
  (void)rank;
  return MIN(shape->ranks, shape->micro);
}

static int peak_h2(const ScheduleShape *shape, int rank)
{
  (void)rank;
  return MIN(2 * shape->ranks - 1, shape->micro);
}

const Schedule schedule_zb_h1 = {
  .name = "zb-h1",
  .title = "zero bubble H1",
  .min_chunks = 1,
  .max_chunks = 1,
  .split = TRUE,
  .order = order_h1,
  .peak = peak_h1,
  .ahead = ahead_h1,
};

const Schedule schedule_zb_h2 = {
  .name = "zb-h2",
  .title = "zero bubble H2",
  .min_chunks = 1,
  .max_chunks = 1,
  .split = TRUE,
  .order = order_h2,
  .peak = peak_h2,
  .ahead = ahead_h2,
};
