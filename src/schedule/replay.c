#include "schedule/schedule.h"

#include <math.h>
#include <string.h>

/* When the forward (0) or the backward (1) of a stage has ended for a micro-batch; NAN before. */
typedef struct {
  const ScheduleShape *shape;
  double *end;
} Done;

static double *done_at(const Done *d, int backward, int stage, int micro)
{
  int stages = d->shape->ranks * d->shape->chunks;
  return &d->end[((gsize)backward * stages + stage) * d->shape->micro + micro];
}

/* When the inputs of a slot are there; NAN if not yet. */
static double ready_at(const Done *d, int rank, const Slot *slot)
{
  int stages = d->shape->ranks * d->shape->chunks;
  int stage = schedule_stage(d->shape, rank, slot->chunk);

  switch (slot->pass) {
  case PASS_FORWARD:
    return stage == 0 ? 0 : *done_at(d, 0, stage - 1, slot->micro);
  case PASS_WEIGHT:
    return *done_at(d, 1, stage, slot->micro);
  default:
    return stage == stages - 1 ? *done_at(d, 0, stage, slot->micro) : *done_at(d, 1, stage + 1, slot->micro);
  }
}

static void collect(Replay *r, const Schedule *schedule, const ScheduleShape *shape)
{
  g_autoptr(GArray) slots = g_array_new(FALSE, FALSE, sizeof(Slot));

  r->first = g_new(int, shape->ranks + 1);
  for (int rank = 0; rank < shape->ranks; rank++) {
    r->first[rank] = slots->len;
    schedule->order(shape, rank, slots);
  }
  r->first[shape->ranks] = slots->len;
  r->start = g_new(double, slots->len);
  r->end = g_new(double, slots->len);
  r->slots = (Slot *)g_array_steal(slots, NULL);
}

static void count_peaks(Replay *r, const ScheduleShape *shape)
{
  r->peak = g_new0(int, shape->ranks);
  for (int rank = 0; rank < shape->ranks; rank++)
    for (int i = r->first[rank], held = 0; i < r->first[rank + 1]; i++) {
      if (r->slots[i].pass == PASS_FORWARD)
        held++;
      else if (r->slots[i].pass != PASS_INPUT)
        held--;
      r->peak[rank] = MAX(r->peak[rank], held);
    }
}

/* Runs slots of one rank while their inputs are there; returns how many ran. */
static int advance(Replay *r, const Done *done, int rank, int *next, double *clock, const double *chunk_time)
{
  int ran = 0;

  for (; *next < r->first[rank + 1]; (*next)++, ran++) {
    const Slot *slot = &r->slots[*next];
    double ready = ready_at(done, rank, slot);
    if (isnan(ready))
      break;
    r->start[*next] = MAX(*clock, ready);
    *clock = r->end[*next] = r->start[*next] + chunk_time[slot->pass];
    if (slot->pass != PASS_WEIGHT)
      *done_at(done, slot->pass != PASS_FORWARD, schedule_stage(done->shape, rank, slot->chunk), slot->micro) = *clock;
  }
  return ran;
}

Replay *schedule_replay(const Schedule *schedule, const ScheduleShape *shape, const double pass_time[PASS_COUNT])
{
  g_autoptr(Replay) r = g_new0(Replay, 1);
  g_autofree int *next = g_new(int, shape->ranks);
  g_autofree double *clock = g_new0(double, shape->ranks);
  gsize n_done = 2 * (gsize)shape->ranks * shape->chunks * shape->micro;
  g_autofree double *end = g_new(double, n_done);
  Done done = { shape, end };
  double chunk_time[PASS_COUNT];

  for (gsize i = 0; i < n_done; i++)
    end[i] = NAN;
  for (int i = 0; i < PASS_COUNT; i++)
    chunk_time[i] = pass_time[i] / shape->chunks;
  collect(r, schedule, shape);
  memcpy(next, r->first, shape->ranks * sizeof *next);

  for (int ran = 1, left = r->first[shape->ranks]; left > 0; left -= ran) {
    ran = 0;
    for (int rank = 0; rank < shape->ranks; rank++)
      ran += advance(r, &done, rank, &next[rank], &clock[rank], chunk_time);
    if (ran == 0)
      return NULL;
  }
  for (int rank = 0; rank < shape->ranks; rank++) {
    double busy = 0;
    for (int i = r->first[rank]; i < r->first[rank + 1]; i++)
      busy += chunk_time[r->slots[i].pass];
    r->busy = MAX(r->busy, busy);
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
  g_free(r->slots);
  g_free(r->first);
  g_free(r->peak);
  g_free(r);
}
