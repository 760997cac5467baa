#include "schedule/schedule.h"

#include <math.h>
#include <string.h>

/* When the forward (0) or the backward (1) of a stage has ended for a micro-batch; INFINITY before. */
typedef struct {
  const Schedule *schedule;
  const ScheduleShape *shape;
  double *end;
} Done;

static double *done_at(const Done *d, int backward, int stage, int micro)
{
  int stages = schedule_stages(d->schedule, d->shape);
  return &d->end[((gsize)backward * stages + stage) * d->shape->micro + micro];
}

/* When the inputs of a slot are there; INFINITY if not yet. */
static double ready_at(const Done *d, int rank, const Slot *slot)
{
  int stages = schedule_stages(d->schedule, d->shape);
  int stage = schedule_stage(d->schedule, d->shape, rank, slot->chunk);

  switch (slot->pass) {
  case PASS_FORWARD:
    return stage == 0 ? 0 : *done_at(d, 0, stage - 1, slot->micro);
  case PASS_WEIGHT:
    return *done_at(d, 1, stage, slot->micro);
  default:
    return stage == stages - 1 ? *done_at(d, 0, stage, slot->micro) : *done_at(d, 1, stage + 1, slot->micro);
  }
}

static void count_peaks(Replay *r, const ScheduleShape *shape)
{
  r->peak = g_new0(int, shape->ranks);
  for (int rank = 0; rank < shape->ranks; rank++)
    for (int i = r->order->first[rank], held = 0; i < r->order->first[rank + 1]; i++) {
      if (r->order->slots[i].pass == PASS_FORWARD)
        held++;
      else if (r->order->slots[i].pass != PASS_INPUT)
        held--;
      r->peak[rank] = MAX(r->peak[rank], held);
    }
}

typedef struct {
  Replay *replay;
  Done done;
  int *next;     /* slot of each rank that runs next */
  double *clock; /* of each rank */
  double chunk_time[PASS_COUNT];
  double pair;
} Run;

/* Slots that run as one from slot i on. */
static int slots_together(const ScheduleOrder *order, int i)
{
  return order->slots[i].paired ? 2 : 1;
}

/* Seconds of the slots that run as one from slot i on. */
static double duration(const Run *run, int i)
{
  const Slot *slot = &run->replay->order->slots[i];

  if (!slot->paired)
    return run->chunk_time[slot->pass];
  return run->pair * (run->chunk_time[slot->pass] + run->chunk_time[slot[1].pass]);
}

static void end_slot(Run *run, int rank, int i, double start)
{
  const Slot *slot = &run->replay->order->slots[i];
  int stage = schedule_stage(run->done.schedule, run->done.shape, rank, slot->chunk);

  run->replay->start[i] = start;
  run->replay->end[i] = run->clock[rank];
  if (slot->pass != PASS_WEIGHT)
    *done_at(&run->done, slot->pass != PASS_FORWARD, stage, slot->micro) = run->clock[rank];
}

/* Runs slots of one rank while their inputs are there; returns how many ran. */
static int advance(Run *run, int rank)
{
  Replay *r = run->replay;
  int *next = &run->next[rank], ran = 0;

  while (*next < r->order->first[rank + 1]) {
    int together = slots_together(r->order, *next);
    double start = run->clock[rank];
    for (int i = *next; i < *next + together; i++)
      start = MAX(start, ready_at(&run->done, rank, &r->order->slots[i]));
    if (isinf(start))
      break;
    run->clock[rank] = start + duration(run, *next);
    for (; together > 0; together--, (*next)++, ran++)
      end_slot(run, rank, *next, start);
  }
  return ran;
}

static double busy_of(const Run *run, int rank)
{
  const ScheduleOrder *order = run->replay->order;
  double busy = 0;

  for (int i = order->first[rank]; i < order->first[rank + 1]; i += slots_together(order, i))
    busy += duration(run, i);
  return busy;
}

Replay *schedule_replay(const Schedule *schedule, const ScheduleShape *shape, const double pass_time[PASS_COUNT],
                        double pair)
{
  g_autoptr(Replay) r = g_new0(Replay, 1);
  gsize n_done = 2 * (gsize)schedule_stages(schedule, shape) * shape->micro;
  g_autofree double *end = g_new(double, n_done);
  g_autofree int *next = g_new(int, shape->ranks);
  g_autofree double *clock = g_new0(double, shape->ranks);
  Run run = { .replay = r, .done = { schedule, shape, end }, .next = next, .clock = clock, .pair = pair };

  for (gsize i = 0; i < n_done; i++)
    end[i] = INFINITY;
  for (int i = 0; i < PASS_COUNT; i++)
    run.chunk_time[i] = pass_time[i] / shape->chunks;
  r->order = schedule_order_new(schedule, shape);
  r->start = g_new(double, r->order->first[shape->ranks]);
  r->end = g_new(double, r->order->first[shape->ranks]);
  memcpy(next, r->order->first, shape->ranks * sizeof *next);

  for (int ran = 1, left = r->order->first[shape->ranks]; left > 0; left -= ran) {
    ran = 0;
    for (int rank = 0; rank < shape->ranks; rank++)
      ran += advance(&run, rank);
    if (ran == 0)
      return NULL;
  }
  for (int rank = 0; rank < shape->ranks; rank++) {
    r->busy = MAX(r->busy, busy_of(&run, rank));
    r->makespan = MAX(r->makespan, clock[rank]);
  }
  count_peaks(r, shape);
  return g_steal_pointer(&r);
}

void replay_free(Replay *r)
{
  if (!r)
    return;
  g_free(r->start);
  g_free(r->end);
  schedule_order_free(r->order);
  g_free(r->peak);
  g_free(r);
}
