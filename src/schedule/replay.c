#include "base/error.h"
#include "schedule/all.h"
#include "schedule/sweep.h"

#include <math.h>

typedef struct {
  OrderSweep sweep;
  Replay *replay;
  int *forward;  /* of each rank: its first forward that has not run, or before; where the rule is opportunistic */
  double *clock; /* of each rank */
  double chunk_time[PASS_COUNT];
  double pair;
} Run;

/* Slots that run as one from slot i on. */
static int slots_together(const Run *run, int i)
{
  return run->replay->order->slots[i].paired ? 2 : 1;
}

static double duration(const Run *run, int i)
{
  const Slot *slot = &run->replay->order->slots[i];

  if (!slot->paired)
    return run->chunk_time[slot->pass];
  return run->pair * (run->chunk_time[slot->pass] + run->chunk_time[slot[1].pass]);
}

static double run_slots(gpointer data, int rank, int i, double arrival)
{
  Run *run = data;
  double start = MAX(run->clock[rank], arrival);

  run->clock[rank] = start + duration(run, i);
  for (int k = i; k < i + slots_together(run, i); k++) {
    run->replay->start[k] = start;
    run->replay->end[k] = run->clock[rank];
  }
  return run->clock[rank];
}

/* When what a slot waits for has arrived. */
static double arrival_of(const Run *run, int rank, const Slot *slot)
{
  return order_sweep_arrival(&run->sweep, order_sweep_stage(&run->sweep, rank, slot), slot);
}

static gboolean has_run(const Run *run, int i)
{
  return run->replay->end[i] >= 0;
}

/* The next forward of a rank, -1 if none is left. */
static int next_forward(Run *run, int rank)
{
  const ScheduleOrder *order = run->replay->order;
  int *k = &run->forward[rank];

  while (*k < order->first[rank + 1] && (order->slots[*k].pass != PASS_FORWARD || has_run(run, *k)))
    (*k)++;
  return *k < order->first[rank + 1] ? *k : -1;
}

/* The slot that a rank runs: its next, or a forward behind a recompute whose gradient is not there. */
static int opportune_slot(Run *run, int rank)
{
  const ScheduleOrder *order = run->replay->order;
  int i = run->sweep.next[rank];
  Slot backward = order->slots[i];

  if (backward.pass != PASS_RECOMPUTE)
    return i;
  backward.pass = PASS_BACKWARD;
  if (arrival_of(run, rank, &backward) <= run->clock[rank])
    return i;
  int forward = next_forward(run, rank);
  gboolean runs = forward >= 0 && arrival_of(run, rank, &order->slots[forward]) <= run->clock[rank];
  return runs ? forward : i;
}

/* By time, as what a rank runs depends on what has arrived. */
static int run_by_time(Run *run)
{
  const ScheduleOrder *order = run->replay->order;

  for (int ran = 0;; ran++) {
    double first = INFINITY;
    int chosen = -1, of = 0;
    for (int rank = 0; rank < order->ranks; rank++) {
      int *next = &run->sweep.next[rank];
      while (*next < order->first[rank + 1] && has_run(run, *next))
        (*next)++;
      if (*next == order->first[rank + 1])
        continue;
      int i = opportune_slot(run, rank);
      double start = MAX(run->clock[rank], arrival_of(run, rank, &order->slots[i]));
      if (start < first) {
        first = start;
        chosen = i;
        of = rank;
      }
    }
    if (chosen < 0)
      return ran;
    const Slot *slot = &order->slots[chosen];
    double end = run_slots(run, of, chosen, first);
    order_sweep_ended(&run->sweep, order_sweep_stage(&run->sweep, of, slot), slot, end);
  }
}

static void sum_up_rank(const Run *run, int rank, const double *ones)
{
  Replay *r = run->replay;
  int first = r->order->first[rank], last = r->order->first[rank + 1];
  double busy = 0, begin = INFINITY, end = 0;

  for (int i = first; i < last; i += slots_together(run, i)) {
    busy += duration(run, i);
    begin = MIN(begin, r->start[i]);
    end = MAX(end, r->end[i]);
  }
  r->peak[rank] = (int)schedule_order_peak(run->sweep.schedule, run->sweep.shape, r->order, rank, ones);
  r->busy = MAX(r->busy, busy);
  r->makespan = MAX(r->makespan, end);
  if (last > first)
    r->span_idle = MAX(r->span_idle, end - begin - busy);
}

static gboolean report_deadlock(const Run *run, int ran, GError **error)
{
  const ScheduleOrder *order = run->replay->order;
  int rank = 0;

  while (run->sweep.next[rank] == order->first[rank + 1])
    rank++;
  const Slot *slot = &order->slots[run->sweep.next[rank]];
  return input_error(error, "the order deadlocks after %d of %d passes: rank %d waits forever with the %s of stage %d "
                     "for micro-batch %d", ran, order->first[order->ranks], rank, pass_names[slot->pass],
                     order_sweep_stage(&run->sweep, rank, slot), (int)slot->micro);
}

Replay *schedule_replay_order(const Schedule *schedule, const ScheduleShape *shape, ScheduleOrder *order,
                              const double pass_time[PASS_COUNT], double pair, GError **error)
{
  int n = order->first[order->ranks], copies = schedule_copies(schedule);
  g_autofree double *clock = g_new0(double, shape->ranks), *ones = doubles_new(shape->chunks, 1);
  g_autofree int *forward = g_memdup2(order->first, shape->ranks * sizeof *order->first);
  g_autoptr(Replay) r = g_new0(Replay, 1);
  Run run = { .replay = r, .forward = forward, .clock = clock, .pair = pair };

  *r = (Replay) { .order = order, .start = doubles_new(n, -1), .end = doubles_new(n, -1),
                  .peak = g_new0(int, shape->ranks) };
  for (int pass = 0; pass < PASS_COUNT; pass++)
    run.chunk_time[pass] = pass_time[pass] * (pass >= PASS_LOGITS ? 1 : (double)copies / shape->chunks);
  order_sweep_init(&run.sweep, schedule, shape, order);
  int ran = schedule->opportunistic ? run_by_time(&run) : order_sweep_run(&run.sweep, run_slots, &run);
  gboolean ok = ran == n || report_deadlock(&run, ran, error);
  for (int rank = 0; rank < shape->ranks && ok; rank++)
    sum_up_rank(&run, rank, ones);
  order_sweep_clear(&run.sweep);
  return ok ? g_steal_pointer(&r) : NULL;
}

Replay *schedule_replay(const Schedule *schedule, const ScheduleShape *shape, const double pass_time[PASS_COUNT],
                        double pair)
{
  return schedule_replay_order(schedule, shape, schedule_order_new(schedule, shape), pass_time, pair, NULL);
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
