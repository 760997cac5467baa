/*
 * Zero bubble under a limit of memory (Qi et al. 2023, arXiv 2401.10241,
 * section 3.1): as many forwards as memory and the first gradient allow, then
 * one forward and one input gradient in turns, with weight gradients wherever a
 * rank would wait, or where memory is full. Three choices are tried both ways
 * and the order with the shortest span of a rank is kept:
 *
 *   bubble_first  before the first input gradient a rank idles rather than start
 *                 a forward that would delay it
 *   input_first   a rank two forwards or more ahead of the rank behind leaves out
 *                 one that would delay its next input gradient
 *   fill          weight gradients also go into gaps shorter than they are where
 *                 the rank has idled less than the others
 */
#include "base/error.h"
#include "schedule/all.h"

#include <math.h>

typedef struct {
  const ScheduleShape *shape;
  double time[PASS_COUNT], transfer;
  int limit; /* activations of a rank */
  gboolean bubble_first, input_first, fill;
  SlotList *slots;
  double *end[2];            /* of forward and input gradient, by rank and micro-batch */
  int *forwards, *inputs, *weights; /* run by each rank */
  double *clock, *idle;      /* idle since its first forward */
  double idle_max;
} Auto;

static double end_at(const Auto *a, gboolean input, int rank, int micro)
{
  return a->end[input][(gsize)rank * a->shape->micro + micro];
}

static int held(const Auto *a, int rank)
{
  return a->forwards[rank] - a->weights[rank];
}

static int pending(const Auto *a, int rank)
{
  return a->inputs[rank] - a->weights[rank];
}

/* When the input of the next forward, or of the next input gradient, is there. */
static double arrival(const Auto *a, int rank, Pass pass)
{
  if (pass == PASS_FORWARD && rank > 0)
    return end_at(a, FALSE, rank - 1, a->forwards[rank]) + a->transfer;
  if (pass == PASS_INPUT && rank < a->shape->ranks - 1)
    return end_at(a, TRUE, rank + 1, a->inputs[rank]) + a->transfer;
  return 0;
}

static void put(Auto *a, int rank, Pass pass)
{
  double start = MAX(a->clock[rank], arrival(a, rank, pass));
  int *count = pass == PASS_FORWARD ? a->forwards : pass == PASS_INPUT ? a->inputs : a->weights;
  int micro = count[rank]++;

  if (a->slots[rank].n > 0) {
    a->idle[rank] += start - a->clock[rank];
    a->idle_max = MAX(a->idle_max, a->idle[rank]);
  }
  a->clock[rank] = start + a->time[pass];
  if (pass != PASS_WEIGHT)
    a->end[pass == PASS_INPUT][(gsize)rank * a->shape->micro + micro] = a->clock[rank];
  slot_add(&a->slots[rank], pass, 0, micro);
}

/* Weight gradients until the input of the next pass is there. */
static void fill_gap(Auto *a, int rank, Pass next)
{
  gboolean last = rank == 0 && next == PASS_INPUT && a->forwards[0] == a->shape->micro;
  double until = last ? INFINITY : arrival(a, rank, next); /* nobody waits for the last gradients of rank 0 */

  while (pending(a, rank) > 0 && a->clock[rank] + a->time[PASS_WEIGHT] <= until)
    put(a, rank, PASS_WEIGHT);
  if (pending(a, rank) == 0 || a->clock[rank] >= until)
    return;
  if (a->fill || until - a->clock[rank] > a->idle_max - a->idle[rank])
    put(a, rank, PASS_WEIGHT);
}

/* Forwards of each rank before its first input gradient, beyond one. */
static void find_warmup(const Auto *a, int *more)
{
  int p = a->shape->ranks, m = a->shape->micro;
  double first = end_at(a, FALSE, p - 1, 0) + a->time[PASS_INPUT]; /* end of the gradient on the rank behind */

  more[p - 1] = 0;
  for (int rank = p - 2; rank >= 0; rank--) {
    double clock = a->clock[rank], due = first + a->transfer;
    for (more[rank] = 0; 1 + more[rank] < MIN(m, a->limit); more[rank]++) {
      if (a->bubble_first ? clock + a->time[PASS_FORWARD] > due : clock >= due)
        break;
      clock += a->time[PASS_FORWARD];
    }
    first = MAX(clock, due) + a->time[PASS_INPUT];
  }
  for (int rank = 1; rank < p; rank++)
    while (more[rank] > 0 && more[rank] >= more[rank - 1] && 1 + more[rank] < m)
      more[rank]--;
}

static void run_first(Auto *a, int *more)
{
  int p = a->shape->ranks;

  for (int rank = 0; rank < p; rank++)
    put(a, rank, PASS_FORWARD);
  find_warmup(a, more);
  for (int rank = 0; rank < p; rank++)
    for (int i = 0; i < more[rank]; i++)
      put(a, rank, PASS_FORWARD);
  for (int rank = p - 1; rank >= 0; rank--)
    put(a, rank, PASS_INPUT);
}

/* Whether the rank runs a forward before its next input gradient. */
static gboolean wants_forward(const Auto *a, int rank)
{
  if (a->forwards[rank] == a->shape->micro)
    return FALSE;
  if (!a->input_first || rank == a->shape->ranks - 1 || a->forwards[rank] < a->forwards[rank + 1] + 2)
    return TRUE;
  double due = a->clock[rank + 1] + a->time[PASS_FORWARD] + a->time[PASS_INPUT] + a->transfer;
  int full = MAX(0, MIN(held(a, rank) + 1 - a->limit, pending(a, rank)));
  double end = a->clock[rank] + a->time[PASS_FORWARD] + full * a->time[PASS_WEIGHT];
  if (a->clock[rank] >= due)
    return FALSE;
  return end <= due || due - a->clock[rank] > a->idle_max - a->idle[rank];
}

static void run_next(Auto *a, int *wanted)
{
  int p = a->shape->ranks;

  for (int rank = p - 1; rank >= 0; rank--)
    wanted[rank] = wants_forward(a, rank) &&
                   (rank == p - 1 || wanted[rank + 1] || a->forwards[rank + 1] == a->shape->micro);
  for (int rank = 0; rank < p; rank++) {
    if (!wanted[rank])
      continue;
    while (held(a, rank) >= a->limit)
      put(a, rank, PASS_WEIGHT);
    fill_gap(a, rank, PASS_FORWARD);
    put(a, rank, PASS_FORWARD);
  }
  for (int rank = p - 1; rank >= 0; rank--) {
    fill_gap(a, rank, PASS_INPUT);
    put(a, rank, PASS_INPUT);
  }
}

/* Runs one choice; returns the longest time from a rank's first start to its last end. */
static double run(Auto *a)
{
  int p = a->shape->ranks;
  g_autofree int *scratch = g_new0(int, p);
  double longest = 0;

  for (int rank = 0; rank < p; rank++) {
    a->forwards[rank] = a->inputs[rank] = a->weights[rank] = 0;
    a->clock[rank] = a->idle[rank] = 0;
    a->slots[rank].n = 0;
  }
  a->idle_max = 0;
  run_first(a, scratch);
  for (int i = 1; i < a->shape->micro; i++)
    run_next(a, scratch);
  for (int rank = 0; rank < p; rank++) {
    while (pending(a, rank) > 0)
      put(a, rank, PASS_WEIGHT);
    longest = MAX(longest, a->clock[rank] - end_at(a, FALSE, rank, 0) + a->time[PASS_FORWARD]);
  }
  return longest;
}

static void choose(Auto *a, int choice)
{
  a->bubble_first = choice & 1;
  a->input_first = (choice & 2) != 0;
  a->fill = (choice & 4) != 0;
}

static void order_within(const ScheduleShape *shape, int limit, SlotList *slots)
{
  int p = shape->ranks, best = 0;
  Auto a = { .shape = shape, .transfer = shape->transfer, .limit = limit, .slots = slots };
  double shortest = INFINITY;

  shape_times(shape, a.time);
  for (int i = 0; i < 2; i++)
    a.end[i] = g_new(double, (gsize)p * shape->micro);
  a.forwards = g_new(int, 3 * p);
  a.inputs = a.forwards + p;
  a.weights = a.inputs + p;
  a.clock = g_new(double, 2 * p);
  a.idle = a.clock + p;
  for (int choice = 0; choice < 8; choice++) {
    choose(&a, choice);
    double span = run(&a);
    if (span < shortest) {
      shortest = span;
      best = choice;
    }
  }
  choose(&a, best);
  run(&a);
  g_free(a.end[0]);
  g_free(a.end[1]);
  g_free(a.forwards);
  g_free(a.clock);
}

static int limit_of(const ScheduleShape *shape, int times)
{
  return shape->memory_limit > 0 ? (int)MIN(shape->memory_limit, G_MAXINT / 2) : times * shape->ranks;
}

static gboolean check(const ScheduleShape *shape, GError **error)
{
  if (shape->memory_limit > 0 && shape->memory_limit < 1)
    return input_error(error, "an automatic zero-bubble schedule needs memory for the activations of 1 micro-batch, "
                       "the plan leaves %g", shape->memory_limit);
  return TRUE;
}

static void order_1p(const ScheduleShape *shape, SlotList *slots)
{
  order_within(shape, limit_of(shape, 1), slots);
}

static void order_2p(const ScheduleShape *shape, SlotList *slots)
{
  order_within(shape, limit_of(shape, 2), slots);
}

const Schedule schedule_zb_1p = {
  .name = "zb-1p",
  .title = "automatic zero bubble, memory of 1F1B",
  .min_chunks = 1,
  .max_chunks = 1,
  .split = TRUE,
  .by_time = TRUE,
  .check = check,
  .order_all = order_1p,
};

const Schedule schedule_zb_2p = {
  .name = "zb-2p",
  .title = "automatic zero bubble, twice the memory of 1F1B",
  .min_chunks = 1,
  .max_chunks = 1,
  .split = TRUE,
  .by_time = TRUE,
  .check = check,
  .order_all = order_2p,
};
