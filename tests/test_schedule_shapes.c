/* What holds for every schedule and every shape that it accepts. */
#include "main.h"
#include "schedule/schedule.h"

#include <time.h>

/* Forward, backward, input, weight, recompute, logits, vocabulary gradient; the last is deliberately odd. */
static const double times[][PASS_COUNT] = {
  { 1, 2, 1, 1, 1, 0.5, 0.5 },
  { 1, 1, 0.5, 0.5, 1, 1, 1 },
  { 0.37, 1.9, 1.31, 0.59, 0.41, 0.23, 0.71 },
};

/* The longest chain of one micro-batch: forward and backward of every stage. */
static double critical_path(const Schedule *s, const ScheduleShape *shape, const double *t)
{
  double chunk = (double)schedule_copies(s) / shape->chunks;
  return schedule_stages(s, shape) * chunk * (t[PASS_FORWARD] + MIN(t[PASS_BACKWARD], t[PASS_INPUT]));
}

/* A ck_assert writes to a file even when it holds: too slow for millions of them. */
static void require(gboolean holds, const char *what, const Schedule *s, const ScheduleShape *shape)
{
  if (!holds)
    ck_abort_msg("%s p=%d m=%d v=%d: %s", s->name, shape->ranks, shape->micro, shape->chunks, what);
}

/* A forward comes behind the backward of the micro-batch that is Schedule.ahead before it, and of no later one. */
static void check_ahead(const Schedule *s, const ScheduleShape *shape, const ScheduleOrder *order, int rank)
{
  int ahead = s->ahead(shape, rank), forwards = 0, backwards = 0, most = 0;

  require(shape->chunks == 1 && ahead >= 1, "ahead() is of one chunk, and at least 1", s, shape);
  for (int i = order->first[rank]; i < order->first[rank + 1]; i++) {
    const Slot *slot = &order->slots[i];
    if (slot->pass == PASS_FORWARD)
      require((int)slot->micro == forwards++, "forwards are not in order", s, shape);
    else if (pass_is_backward(slot->pass))
      require((int)slot->micro == backwards++, "backwards are not in order", s, shape);
    most = MAX(most, forwards - backwards);
  }
  require(most == ahead, "ahead() is not what the order runs ahead", s, shape);
}

/* What is known of it without the order, which is all that equal groups need. */
static void check_held(const Schedule *s, const ScheduleShape *shape, const ScheduleOrder *order, int rank)
{
  int held = schedule_held(s, shape, rank), group = shape->group ? shape->group : shape->ranks;

  require(held > 0 || (s->grouped && shape->micro % group > 0) || !s->first, "held() is not known", s, shape);
  require(held == 0 || shape->chunks == 1 || held == schedule_order_held(s, shape, order, rank),
          "held() is not what the order holds", s, shape);
}

/* Time of all passes of a rank, which run one at a time. */
static double check_rank(const Schedule *s, const ScheduleShape *shape, const Replay *r, int rank)
{
  double sum = 0, end = 0;

  for (int i = r->order->first[rank]; i < r->order->first[rank + 1]; i++) {
    gboolean second = i > r->order->first[rank] && r->order->slots[i - 1].paired;
    require(r->end[i] >= r->start[i], "a pass ends before it starts", s, shape);
    require(s->opportunistic || second || r->start[i] >= end, "two passes at once", s, shape);
    sum += second ? 0 : r->end[i] - r->start[i];
    end = r->end[i];
  }
  int peak = schedule_peak(s, shape, rank);
  require(peak <= r->peak[rank], "peak() is above what the order holds", s, shape);
  require(!s->peak || shape->micro < shape->ranks || peak == r->peak[rank], "peak() is not what the order holds", s,
          shape);
  if (s->placement == PLACE_LOOP && !s->split && !s->recompute && !s->vocabulary)
    check_held(s, shape, r->order, rank);
  if (s->ahead)
    check_ahead(s, shape, r->order, rank);
  return sum;
}

/* Ends of a micro-batch's passes: of each stage, and the latest of all ranks' S and T. */
typedef struct {
  double *forward, *gradient; /* by stage and micro-batch */
  double *logits, *vocab;     /* by micro-batch */
} Ends;

static void note_end(const Ends *ends, const Slot *slot, int at, double end)
{
  if (slot->pass == PASS_FORWARD)
    ends->forward[at] = end;
  if (slot->pass == PASS_BACKWARD || slot->pass == PASS_INPUT)
    ends->gradient[at] = end;
  if (slot->pass == PASS_LOGITS)
    ends->logits[slot->micro] = MAX(ends->logits[slot->micro], end);
  if (slot->pass == PASS_VOCAB)
    ends->vocab[slot->micro] = MAX(ends->vocab[slot->micro], end);
}

/* When what schedule.h says that a pass waits for has ended. */
static double waits_until(const Schedule *s, const ScheduleShape *shape, const Ends *ends, const Slot *slot, int stage)
{
  int m = shape->micro, at = stage * m + slot->micro, last = schedule_stages(s, shape) - 1;

  switch (slot->pass) {
  case PASS_FORWARD:
    return stage == 0 ? 0 : ends->forward[at - m];
  case PASS_WEIGHT:
    return ends->gradient[at];
  case PASS_RECOMPUTE:
    return ends->forward[at];
  case PASS_LOGITS:
    return ends->forward[last * m + slot->micro];
  case PASS_VOCAB:
    return ends->logits[slot->micro];
  default:
    if (stage < last)
      return ends->gradient[at + m];
    return s->vocabulary == 2   ? ends->vocab[slot->micro]
           : s->vocabulary == 1 ? ends->logits[slot->micro]
                                : ends->forward[at];
  }
}

static void check_waits(const Schedule *s, const ScheduleShape *shape, const Replay *r)
{
  int m = shape->micro, stages = schedule_stages(s, shape);
  g_autofree double *room = g_new0(double, 2 * (stages + 1) * m);
  Ends ends = { room, room + stages * m, room + 2 * stages * m, room + (2 * stages + 1) * m };

  for (int check = 0; check < 2; check++)
    for (int rank = 0; rank < shape->ranks; rank++)
      for (int i = r->order->first[rank]; i < r->order->first[rank + 1]; i++) {
        const Slot *slot = &r->order->slots[i];
        int stage = schedule_stage(s, shape, rank, slot->chunk);
        if (!check)
          note_end(&ends, slot, stage * m + slot->micro, r->end[i]);
        else
          require(r->start[i] >= waits_until(s, shape, &ends, slot, stage), "a pass starts too early", s, shape);
      }
}

static void check_replay(const Schedule *s, const ScheduleShape *shape, const double *t, double pair)
{
  g_autoptr(Replay) r = schedule_replay(s, shape, t, pair);
  double sum = 0;

  require(r != NULL, "deadlock", s, shape);
  for (int rank = 0; rank < shape->ranks; rank++)
    sum += check_rank(s, shape, r, rank);
  check_waits(s, shape, r);
  require(r->makespan >= r->busy - 1e-9, "shorter than the busiest rank", s, shape);
  require(pair < 1 || r->makespan >= critical_path(s, shape, t) - 1e-9, "shorter than the critical path", s, shape);
  require(r->makespan <= sum + 1e-9, "longer than all passes one by one", s, shape);
  require(r->span_idle <= r->makespan, "idle longer than the step", s, shape);
}

/* What the shape alone says of passes that no other runs beside is what the order has. */
static void check_alone(const Schedule *s, const ScheduleShape *shape, const ScheduleOrder *order)
{
  g_autofree guint8 *alone = schedule_order_alone(order);

  for (int rank = 0; rank < shape->ranks && s->first; rank++) {
    int begin = order->first[rank], end = order->first[rank + 1] - 1;
    require(order->slots[begin].chunk == 0 && alone[begin] && order->slots[end].chunk == 0 && alone[end],
            "a rank begins or ends elsewhere, or not alone", s, shape);
    for (int chunk = 0; chunk < shape->chunks; chunk++) {
      int marked[2] = { 0 };
      for (int i = begin; i <= end; i++)
        marked[order->slots[i].pass == PASS_BACKWARD] += alone[i] && order->slots[i].chunk == chunk;
      for (int back = 0; back < 2; back++)
        require(marked[back] == schedule_alone(s, shape, rank, chunk, back), "other passes are alone", s, shape);
    }
  }
}

static void check_shape(const Schedule *s, ScheduleShape shape, const double *t)
{
  GError *error = NULL;

  shape.forward = t[PASS_FORWARD];
  shape.input = t[PASS_INPUT];
  shape.weight = t[PASS_WEIGHT];
  g_autoptr(ScheduleOrder) order = schedule_order_new(s, &shape);
  if (!schedule_order_check(s, &shape, order, &error))
    ck_abort_msg("%s p=%d m=%d v=%d: %s", s->name, shape.ranks, shape.micro, shape.chunks, error->message);
  check_alone(s, &shape, order);
  check_replay(s, &shape, t, 1);
  check_replay(s, &shape, t, 0.75);
}

#define RANKS_MAX 9

START_TEST(shapes)
{
  int accepted = 0;

  for (int s = 0; schedules[s]; s++)
    for (int m = 1; m <= 20; m++)
      for (int v = 1; v <= 4; v++) {
        ScheduleShape shape = { .ranks = _i + 1, .micro = m, .chunks = v };
        if (!schedule_check(schedules[s], &shape, NULL))
          continue;
        for (gsize k = 0; k < G_N_ELEMENTS(times); k++)
          check_shape(schedules[s], shape, times[k]);
        accepted++;
      }
  ck_assert_int_gt(accepted, 400);
}
END_TEST

START_TEST(groups)
{
  for (int p = 2; p <= 5; p++)
    for (int m = p; m <= 20; m++)
      for (int group = p; group <= m; group++) {
        ScheduleShape shape = { .ranks = p, .micro = m, .chunks = 3, .group = group, .ahead = group % 2 };
        if (schedule_check(schedule_find("interleaved"), &shape, NULL))
          check_shape(schedule_find("interleaved"), shape, times[0]);
      }
}
END_TEST

/* Passes of a rank of which each forward could run beside the backward behind it: the backward is of another forward. */
static gboolean has_independent_pairs(const ScheduleOrder *order, int rank)
{
  for (int i = order->first[rank]; i + 1 < order->first[rank + 1]; i++) {
    const Slot *a = &order->slots[i], *b = a + 1;
    if (a->pass == PASS_FORWARD && b->pass == PASS_BACKWARD && a->chunk == b->chunk && a->micro == b->micro)
      return FALSE;
  }
  return TRUE;
}

/* One pass further ahead a forward and the backward behind it are of different micro-batches, also on the last rank,
 * unless all forwards run first. */
START_TEST(forwards_ahead)
{
  const Schedule *s = schedule_find("interleaved");
  int dependent = 0;

  for (int p = 2; p <= 5; p++)
    for (int m = p + 1; m <= 20; m++)
      for (int v = 2; v <= 4; v++) {
        ScheduleShape shape = { .ranks = p, .micro = m, .chunks = v };
        if (!schedule_check(s, &shape, NULL) || (v - 1) * p + 1 >= m * v)
          continue;
        g_autoptr(ScheduleOrder) usual = schedule_order_new(s, &shape);
        dependent += !has_independent_pairs(usual, p - 1);
        shape.ahead = TRUE;
        g_autoptr(ScheduleOrder) order = schedule_order_new(s, &shape);
        for (int rank = 0; rank < p; rank++)
          ck_assert_msg(has_independent_pairs(order, rank), "p=%d m=%d v=%d rank %d", p, m, v, rank);
        check_shape(s, shape, times[0]);
      }
  ck_assert_int_gt(dependent, 20);
}
END_TEST

/* Processor time of the shortest of a few runs. */
static double order_s(const Schedule *s, int micro)
{
  ScheduleShape shape = { .ranks = 8, .micro = micro, .chunks = s->min_chunks };
  double least = G_MAXDOUBLE;

  for (int i = 0; i < 3; i++) {
    clock_t start = clock();
    g_autoptr(ScheduleOrder) order = schedule_order_new(s, &shape);
    least = MIN(least, (double)(clock() - start) / CLOCKS_PER_SEC);
  }
  return least;
}

/* Sixteen times the micro-batches take about as many times as long, not 256 times. */
START_TEST(cost_of_orders)
{
  for (int s = 0; schedules[s]; s++) {
    double small = order_s(schedules[s], 256), large = order_s(schedules[s], 4096);
    ck_assert_msg(large < 100 * MAX(small, 5e-6), "%s: %g s for 256 micro-batches, %g s for 4096", schedules[s]->name,
                  small, large);
  }
}
END_TEST

TEST_LOOPS("schedule shapes",
           { shapes, RANKS_MAX },
           { groups },
           { forwards_ahead },
           { cost_of_orders })
