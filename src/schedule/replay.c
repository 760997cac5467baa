#include "schedule/all.h"

#include <math.h>
#include <string.h>

enum { LOGITS, VOCAB, N_BARRIERS };

typedef struct {
  const Schedule *schedule;
  const ScheduleShape *shape;
  Replay *replay;
  double *end;                 /* of the forward, then the backward of each stage and micro-batch; INFINITY before */
  double *barrier[N_BARRIERS]; /* when S or T of a micro-batch has ended on all ranks; INFINITY before */
  double *latest[N_BARRIERS];  /* on those ranks that have run it */
  int *missing[N_BARRIERS];    /* ranks that have not */
  int *next;                   /* slot of each rank that runs next */
  int *forward;                /* its first forward that has not run, or before; where the rule is opportunistic */
  double *clock;               /* of each rank */
  double chunk_time[PASS_COUNT];
  double pair;
  int stages;
} Run;

static double *end_of(const Run *run, gboolean backward, int stage, int micro)
{
  return &run->end[((gsize)backward * run->stages + stage) * run->shape->micro + micro];
}

static int stage_of(const Run *run, int rank, const Slot *slot)
{
  return schedule_stage(run->schedule, run->shape, rank, slot->chunk);
}

/* When what the last stage's backward waits for is there. */
static double loss_at(const Run *run, int micro)
{
  if (run->schedule->vocabulary)
    return run->barrier[run->schedule->vocabulary == 2 ? VOCAB : LOGITS][micro];
  return *end_of(run, FALSE, run->stages - 1, micro);
}

/* When the inputs of a slot are there; INFINITY if not yet. */
static double ready_at(const Run *run, int rank, const Slot *slot)
{
  int stage = stage_of(run, rank, slot);

  switch (slot->pass) {
  case PASS_FORWARD:
    return stage == 0 ? 0 : *end_of(run, FALSE, stage - 1, slot->micro);
  case PASS_RECOMPUTE:
    return *end_of(run, FALSE, stage, slot->micro);
  case PASS_WEIGHT:
    return *end_of(run, TRUE, stage, slot->micro);
  case PASS_LOGITS:
    return *end_of(run, FALSE, run->stages - 1, slot->micro);
  case PASS_VOCAB:
    return run->barrier[LOGITS][slot->micro];
  default:
    return stage == run->stages - 1 ? loss_at(run, slot->micro) : *end_of(run, TRUE, stage + 1, slot->micro);
  }
}

/* Slots that run as one from slot i on. */
static int slots_together(const ScheduleOrder *order, int i)
{
  return order->slots[i].paired ? 2 : 1;
}

static double start_of(const Run *run, int rank, int i)
{
  const ScheduleOrder *order = run->replay->order;
  double start = run->clock[rank];

  for (int k = i; k < i + slots_together(order, i); k++)
    start = MAX(start, ready_at(run, rank, &order->slots[k]));
  return start;
}

/* Of the slots that run as one from slot i on. */
static double duration(const Run *run, int i)
{
  const Slot *slot = &run->replay->order->slots[i];

  if (!slot->paired)
    return run->chunk_time[slot->pass];
  return run->pair * (run->chunk_time[slot->pass] + run->chunk_time[slot[1].pass]);
}

static void pass_barrier(Run *run, int which, int micro, double end)
{
  run->latest[which][micro] = MAX(run->latest[which][micro], end);
  if (--run->missing[which][micro] == 0)
    run->barrier[which][micro] = run->latest[which][micro];
}

static void end_slot(Run *run, int rank, int i, double start, double end)
{
  const Slot *slot = &run->replay->order->slots[i];

  run->replay->start[i] = start;
  run->replay->end[i] = end;
  switch (slot->pass) {
  case PASS_FORWARD:
  case PASS_BACKWARD:
  case PASS_INPUT:
    *end_of(run, slot->pass != PASS_FORWARD, stage_of(run, rank, slot), slot->micro) = end;
    break;
  case PASS_LOGITS:
  case PASS_VOCAB:
    pass_barrier(run, slot->pass == PASS_LOGITS ? LOGITS : VOCAB, slot->micro, end);
    break;
  default:
    break;
  }
}

/* Runs the slots that run as one from slot i on; returns how many. */
static int run_slots(Run *run, int rank, int i, double start)
{
  int together = slots_together(run->replay->order, i);

  run->clock[rank] = start + duration(run, i);
  for (int k = i; k < i + together; k++)
    end_slot(run, rank, k, start, run->clock[rank]);
  return together;
}

/* Each rank in turn runs what it can. Returns how many slots ran before nothing could. */
static int run_in_order(Run *run)
{
  const ScheduleOrder *order = run->replay->order;
  int ran = 0, before;

  do {
    before = ran;
    for (int rank = 0; rank < order->ranks; rank++)
      while (run->next[rank] < order->first[rank + 1]) {
        double start = start_of(run, rank, run->next[rank]);
        if (isinf(start))
          break;
        int together = run_slots(run, rank, run->next[rank], start);
        run->next[rank] += together;
        ran += together;
      }
  } while (ran > before);
  return ran;
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
  int i = run->next[rank];
  const Slot *slot = &order->slots[i];

  if (slot->pass != PASS_RECOMPUTE ||
      *end_of(run, TRUE, stage_of(run, rank, slot) + 1, slot->micro) <= run->clock[rank])
    return i;
  int forward = next_forward(run, rank);
  return forward >= 0 && ready_at(run, rank, &order->slots[forward]) <= run->clock[rank] ? forward : i;
}

/* By time, as what a rank runs depends on what has arrived. */
static int run_by_time(Run *run)
{
  const ScheduleOrder *order = run->replay->order;

  for (int ran = 0;; ran++) {
    double first = INFINITY;
    int chosen = -1, of = 0;
    for (int rank = 0; rank < order->ranks; rank++) {
      while (run->next[rank] < order->first[rank + 1] && has_run(run, run->next[rank]))
        run->next[rank]++;
      if (run->next[rank] == order->first[rank + 1])
        continue;
      int i = opportune_slot(run, rank);
      double start = start_of(run, rank, i);
      if (start < first) {
        first = start;
        chosen = i;
        of = rank;
      }
    }
    if (chosen < 0)
      return ran;
    run_slots(run, of, chosen, first);
  }
}

/* What a slot adds to the activations that its rank holds. */
static int held_by(const Run *run, int rank, const Slot *slot)
{
  gboolean again = run->schedule->recompute && stage_of(run, rank, slot) < run->stages - 1;

  switch (slot->pass) {
  case PASS_FORWARD:
    return !again;
  case PASS_RECOMPUTE:
    return 1;
  case PASS_BACKWARD:
  case PASS_WEIGHT:
    return -1;
  default:
    return 0;
  }
}

static void sum_up_rank(Run *run, int rank)
{
  Replay *r = run->replay;
  int first = r->order->first[rank], last = r->order->first[rank + 1], held = 0;
  double busy = 0, begin = INFINITY, end = 0;

  for (int i = first; i < last; i += slots_together(r->order, i)) {
    busy += duration(run, i);
    begin = MIN(begin, r->start[i]);
    end = MAX(end, r->end[i]);
  }
  for (int i = first; i < last; i++) {
    held += held_by(run, rank, &r->order->slots[i]);
    r->peak[rank] = MAX(r->peak[rank], held);
  }
  r->busy = MAX(r->busy, busy);
  r->makespan = MAX(r->makespan, end);
  if (last > first)
    r->span_idle = MAX(r->span_idle, end - begin - busy);
}

static gboolean report_deadlock(const Run *run, int ran, GError **error)
{
  const ScheduleOrder *order = run->replay->order;
  int rank = 0;

  while (run->next[rank] == order->first[rank + 1])
    rank++;
  const Slot *slot = &order->slots[run->next[rank]];
  return shape_refuse(error, "the order deadlocks after %d of %d passes: rank %d waits forever with the %s of stage %d "
                      "for micro-batch %d", ran, order->first[order->ranks], rank, pass_names[slot->pass],
                      stage_of(run, rank, slot), (int)slot->micro);
}

static double *filled(gsize n, double value)
{
  double *all = g_new(double, n);

  for (gsize i = 0; i < n; i++)
    all[i] = value;
  return all;
}

static void run_init(Run *run, const double pass_time[PASS_COUNT])
{
  const ScheduleShape *shape = run->shape;
  const ScheduleOrder *order = run->replay->order;
  int copies = schedule_copies(run->schedule);

  run->stages = schedule_stages(run->schedule, shape);
  run->end = filled(2 * (gsize)run->stages * shape->micro, INFINITY);
  for (int i = 0; i < N_BARRIERS; i++) {
    run->barrier[i] = filled(shape->micro, INFINITY);
    run->latest[i] = filled(shape->micro, 0);
    run->missing[i] = g_new(int, shape->micro);
    for (int micro = 0; micro < shape->micro; micro++)
      run->missing[i][micro] = shape->ranks;
  }
  for (int pass = 0; pass < PASS_COUNT; pass++)
    run->chunk_time[pass] = pass_time[pass] * (pass >= PASS_LOGITS ? 1 : (double)copies / shape->chunks);
  run->clock = filled(shape->ranks, 0);
  run->next = g_memdup2(order->first, shape->ranks * sizeof *order->first);
  run->forward = g_memdup2(order->first, shape->ranks * sizeof *order->first);
  run->replay->start = filled(order->first[order->ranks], -1);
  run->replay->end = filled(order->first[order->ranks], -1);
  run->replay->peak = g_new0(int, shape->ranks);
}

static void run_clear(Run *run)
{
  g_free(run->end);
  for (int i = 0; i < N_BARRIERS; i++) {
    g_free(run->barrier[i]);
    g_free(run->latest[i]);
    g_free(run->missing[i]);
  }
  g_free(run->clock);
  g_free(run->next);
  g_free(run->forward);
}

Replay *schedule_replay_order(const Schedule *schedule, const ScheduleShape *shape, ScheduleOrder *order,
                              const double pass_time[PASS_COUNT], double pair, GError **error)
{
  g_autoptr(Replay) r = g_new0(Replay, 1);
  Run run = { .schedule = schedule, .shape = shape, .replay = r, .pair = pair };

  r->order = order;
  run_init(&run, pass_time);
  int ran = schedule->opportunistic ? run_by_time(&run) : run_in_order(&run);
  gboolean ok = ran == order->first[order->ranks] || report_deadlock(&run, ran, error);
  for (int rank = 0; rank < shape->ranks && ok; rank++)
    sum_up_rank(&run, rank);
  run_clear(&run);
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
