#include "schedule/sweep.h"

#include "schedule/all.h"

void order_sweep_init(OrderSweep *s, const Schedule *schedule, const ScheduleShape *shape, const ScheduleOrder *order)
{
  *s = (OrderSweep) { .schedule = schedule, .shape = shape, .order = order,
                      .stages = schedule_stages(schedule, shape) };
  s->stage = g_new(int, shape->ranks * shape->chunks);
  for (int rank = 0; rank < shape->ranks; rank++)
    for (int chunk = 0; chunk < shape->chunks; chunk++)
      s->stage[rank * shape->chunks + chunk] = schedule_stage(schedule, shape, rank, chunk);
  s->next = g_memdup2(order->first, shape->ranks * sizeof *order->first);
  s->arrival = doubles_new(2 * (gsize)s->stages * shape->micro, INFINITY);
  for (int i = 0; i < BARRIER_COUNT && schedule->vocabulary; i++) {
    s->barrier[i] = doubles_new(shape->micro, INFINITY);
    s->latest[i] = doubles_new(shape->micro, 0);
    s->missing[i] = g_new(int, shape->micro);
    for (int micro = 0; micro < shape->micro; micro++)
      s->missing[i][micro] = shape->ranks;
  }
}

void order_sweep_clear(OrderSweep *s)
{
  g_free(s->stage);
  g_free(s->next);
  g_free(s->arrival);
  for (int i = 0; i < BARRIER_COUNT; i++) {
    g_free(s->barrier[i]);
    g_free(s->latest[i]);
    g_free(s->missing[i]);
  }
}

/* When what the last stage's backward waits for is there. */
static double loss_at(const OrderSweep *s, int micro)
{
  if (s->schedule->vocabulary)
    return s->barrier[s->schedule->vocabulary == 2 ? BARRIER_VOCAB : BARRIER_LOGITS][micro];
  return *order_sweep_passed(s, FALSE, s->stages - 1, micro);
}

double order_sweep_arrival_beside(const OrderSweep *s, const Slot *slot, int stage)
{
  switch (slot->pass) {
  case PASS_RECOMPUTE:
    return *order_sweep_passed(s, FALSE, stage, slot->micro);
  case PASS_WEIGHT:
    return *order_sweep_passed(s, TRUE, stage, slot->micro);
  case PASS_LOGITS:
    return *order_sweep_passed(s, FALSE, s->stages - 1, slot->micro);
  case PASS_VOCAB:
    return s->barrier[BARRIER_LOGITS][slot->micro];
  default:
    return loss_at(s, slot->micro);
  }
}

void order_sweep_pass_barrier(OrderSweep *s, const Slot *slot, double at)
{
  int which = slot->pass == PASS_LOGITS ? BARRIER_LOGITS : BARRIER_VOCAB, micro = slot->micro;

  if (slot->pass != PASS_LOGITS && slot->pass != PASS_VOCAB)
    return;
  s->latest[which][micro] = MAX(s->latest[which][micro], at);
  if (--s->missing[which][micro] == 0)
    s->barrier[which][micro] = s->latest[which][micro];
}
