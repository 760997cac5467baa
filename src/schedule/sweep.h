/*
 * One sweep over the orders of all ranks: each rank in turn runs its slots as
 * long as what the next one waits for (schedule.h lists it) has arrived. Whoever
 * sweeps says how long passes take and when what they pass on arrives: the dry
 * run of a schedule, and the planner's bounds of time by order. Times are in the
 * caller's unit, INFINITY where nothing has arrived yet.
 */
#ifndef TDP_SCHEDULE_SWEEP_H
#define TDP_SCHEDULE_SWEEP_H

#include "schedule/schedule.h"

#include <math.h>

/* Barriers of a vocabulary that is spread over all ranks: S, T. */
enum { BARRIER_LOGITS, BARRIER_VOCAB, BARRIER_COUNT };

typedef struct {
  const Schedule *schedule;
  const ScheduleShape *shape;
  const ScheduleOrder *order;
  int stages;
  int *stage;                      /* of each rank's chunks */
  int *next;                       /* slot of each rank that runs next */
  double *arrival;                 /* of what passes pass on: [backward][stage][micro-batch] */
  double *barrier[BARRIER_COUNT];  /* when S or T of a micro-batch has ended on all ranks */
  double *latest[BARRIER_COUNT];   /* on those ranks that have run it */
  int *missing[BARRIER_COUNT];     /* ranks that have not */
} OrderSweep;

/* Keeps the three, which must outlive it. */
void order_sweep_init(OrderSweep *sweep, const Schedule *schedule, const ScheduleShape *shape,
                      const ScheduleOrder *order);
void order_sweep_clear(OrderSweep *sweep);

/* Of the vocabulary's passes, weight gradients and recomputes. */
double order_sweep_arrival_beside(const OrderSweep *sweep, const Slot *slot, int stage);
void order_sweep_pass_barrier(OrderSweep *sweep, const Slot *slot, double at);

static inline int order_sweep_stage(const OrderSweep *s, int rank, const Slot *slot)
{
  return s->stage[rank * s->shape->chunks + slot->chunk];
}

static inline double *order_sweep_passed(const OrderSweep *s, gboolean backward, int stage, int micro)
{
  return &s->arrival[((gsize)backward * s->stages + stage) * s->shape->micro + micro];
}

/* When what a pass of a stage waits for has arrived. */
static inline double order_sweep_arrival(const OrderSweep *s, int stage, const Slot *slot)
{
  if (slot->pass == PASS_FORWARD)
    return stage == 0 ? 0 : *order_sweep_passed(s, FALSE, stage - 1, slot->micro);
  if (pass_is_backward(slot->pass) && stage < s->stages - 1)
    return *order_sweep_passed(s, TRUE, stage + 1, slot->micro);
  return order_sweep_arrival_beside(s, slot, stage);
}

/* Notes that it has run: when what it passes on arrives. */
static inline void order_sweep_ended(OrderSweep *s, int stage, const Slot *slot, double at)
{
  gboolean backward = pass_is_backward(slot->pass);

  if (backward || slot->pass == PASS_FORWARD)
    *order_sweep_passed(s, backward, stage, slot->micro) = at;
  else
    order_sweep_pass_barrier(s, slot, at);
}

/* Runs the slots that are one from slot i on, a pair or one, no earlier than what they wait for has arrived; returns
 * when what they pass on arrives. */
typedef double (*OrderSweepRun)(gpointer data, int rank, int i, double arrival);

/* Runs all that can run. Returns how many slots ran: fewer than all if the order deadlocks. */
static inline int order_sweep_run(OrderSweep *s, OrderSweepRun run, gpointer data)
{
  const ScheduleOrder *order = s->order;
  int ran = 0, before;

  do {
    before = ran;
    for (int rank = 0; rank < order->ranks; rank++) {
      int i = s->next[rank], end = order->first[rank + 1];
      while (i < end) {
        const Slot *slot = &order->slots[i], *last = slot + slot->paired;
        int stage = order_sweep_stage(s, rank, slot), last_stage = order_sweep_stage(s, rank, last);
        double arrival = order_sweep_arrival(s, stage, slot);
        if (last > slot)
          arrival = MAX(arrival, order_sweep_arrival(s, last_stage, last));
        if (isinf(arrival))
          break;
        double at = run(data, rank, i, arrival);
        order_sweep_ended(s, stage, slot, at);
        if (last > slot)
          order_sweep_ended(s, last_stage, last, at);
        i += 1 + (last > slot);
      }
      ran += i - s->next[rank];
      s->next[rank] = i;
    }
  } while (ran > before);
  return ran;
}

#endif
