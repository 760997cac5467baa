/* What holds for every schedule and every shape that it accepts. */
#include "main.h"
#include "schedule/schedule.h"

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

static void check_replay(const Schedule *s, const ScheduleShape *shape, const double *t, double pair)
{
  g_autoptr(Replay) r = schedule_replay(s, shape, t, pair);
  double sum = 0;

  ck_assert_ptr_nonnull(r);
  for (int rank = 0; rank < shape->ranks; rank++) {
    double end = 0;
    for (int i = r->order->first[rank]; i < r->order->first[rank + 1]; i++) {
      const Slot *slot = &r->order->slots[i];
      gboolean second = i > r->order->first[rank] && slot[-1].paired;
      ck_assert_double_ge(r->end[i], r->start[i]);
      if (!s->opportunistic && !second)
        ck_assert_double_ge(r->start[i], end); /* one at a time */
      if (!second)
        sum += r->end[i] - r->start[i];
      end = r->end[i];
    }
    ck_assert_int_le(schedule_peak(s, shape, rank), r->peak[rank]);
    if (shape->micro >= shape->ranks && s->peak)
      ck_assert_int_eq(schedule_peak(s, shape, rank), r->peak[rank]);
  }
  ck_assert_double_ge(r->makespan, r->busy - 1e-9);
  ck_assert_double_ge(r->makespan, pair < 1 ? 0 : critical_path(s, shape, t) - 1e-9);
  ck_assert_double_le(r->makespan, sum + 1e-9);
  ck_assert_double_le(r->span_idle, r->makespan);
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
  check_replay(s, &shape, t, 1);
  check_replay(s, &shape, t, 0.75);
}

START_TEST(shapes)
{
  int accepted = 0;

  for (int s = 0; schedules[s]; s++)
    for (int p = 1; p <= 9; p++)
      for (int m = 1; m <= 20; m++)
        for (int v = 1; v <= 4; v++) {
          ScheduleShape shape = { .ranks = p, .micro = m, .chunks = v };
          if (!schedule_check(schedules[s], &shape, NULL))
            continue;
          check_shape(schedules[s], shape, times[_i]);
          accepted++;
        }
  ck_assert_int_gt(accepted, 4000);
}
END_TEST

START_TEST(groups)
{
  for (int p = 2; p <= 5; p++)
    for (int m = p; m <= 20; m++)
      for (int group = p; group <= m; group++) {
        ScheduleShape shape = { .ranks = p, .micro = m, .chunks = 3, .group = group };
        if (schedule_check(schedule_find("interleaved"), &shape, NULL))
          check_shape(schedule_find("interleaved"), shape, times[0]);
      }
}
END_TEST

/* The shortest of a few runs. */
static double order_s(const Schedule *s, int micro)
{
  ScheduleShape shape = { .ranks = 8, .micro = micro, .chunks = s->min_chunks };
  double least = G_MAXDOUBLE;

  for (int i = 0; i < 3; i++) {
    gint64 start = g_get_monotonic_time();
    g_autoptr(ScheduleOrder) order = schedule_order_new(s, &shape);
    least = MIN(least, (g_get_monotonic_time() - start) * 1e-6);
  }
  return least;
}

/* Sixteen times the micro-batches take about as many times as long, not its square. */
START_TEST(cost_of_orders)
{
  for (int s = 0; schedules[s]; s++) {
    double small = order_s(schedules[s], 128), large = order_s(schedules[s], 2048);
    ck_assert_msg(large < 80 * small, "%s: %g s for 128 micro-batches, %g s for 2048", schedules[s]->name, small, large);
  }
}
END_TEST

TEST_LOOPS("schedule shapes",
           { shapes, G_N_ELEMENTS(times) },
           { groups },
           { cost_of_orders })
