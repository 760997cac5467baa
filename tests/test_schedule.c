#include "main.h"
#include "schedule/schedule.h"

static const double unit_times[PASS_COUNT] = { 1, 2, 1, 1 };

typedef struct {
  const char *name;
  int p, m, v;
  double makespan, idle;
  double peak[8];
} Golden;

/* Published and independently replayed: F = I = W = 1, equal stages, free communication. */
static const Golden goldens[] = {
  { "gpipe", 4, 8, 1, 33, 9, { 8, 8, 8, 8 } },
  { "1f1b", 4, 8, 1, 33, 9, { 4, 3, 2, 1 } },
  { "interleaved", 4, 8, 2, 28.5, 4.5, { 5.5, 4.5, 3.5, 2.5 } },
  { "interleaved", 4, 8, 4, 26.25, 2.25, { 4.75, 4.25, 3.75, 3.25 } },
  { "gpipe", 8, 16, 1, 69, 21, { 16, 16, 16, 16, 16, 16, 16, 16 } },
  { "1f1b", 8, 16, 1, 69, 21, { 8, 7, 6, 5, 4, 3, 2, 1 } },
  { "interleaved", 8, 16, 2, 58.5, 10.5, { -1 } },
  { "interleaved", 8, 16, 4, 53.25, 5.25, { -1 } },
  { "naive", 4, 8, 1, 96, 72, { 1, 1, 1, 1 } },
};

START_TEST(golden_vectors)
{
  const Golden *g = &goldens[_i];
  ScheduleShape shape = { .ranks = g->p, .micro = g->m, .chunks = g->v };
  g_autoptr(Replay) r = schedule_replay(schedule_find(g->name), &shape, unit_times, 1);

  ck_assert_ptr_nonnull(r);
  ck_assert_double_eq(r->makespan, g->makespan);
  ck_assert_double_eq(r->makespan - r->busy, g->idle);
  for (int rank = 0; rank < g->p && g->peak[0] > 0; rank++)
    ck_assert_double_eq((double)r->peak[rank] / g->v, g->peak[rank]);
}
END_TEST

/* Each chunk runs each pass once for each micro-batch, and peak() is what the order holds. */
static void check_order(const Schedule *schedule, const ScheduleShape *shape)
{
  g_autoptr(Replay) r = schedule_replay(schedule, shape, unit_times, 1);
  gsize n = (gsize)shape->ranks * shape->chunks * shape->micro * 2;
  g_autofree int *seen = g_new0(int, n);

  ck_assert_ptr_nonnull(r);
  for (int rank = 0; rank < shape->ranks; rank++) {
    for (int i = r->order->first[rank]; i < r->order->first[rank + 1]; i++) {
      const Slot *s = &r->order->slots[i];
      seen[((rank * shape->chunks + s->chunk) * shape->micro + s->micro) * 2 + (s->pass != PASS_FORWARD)]++;
    }
    ck_assert_int_eq(r->peak[rank], schedule->peak(shape, rank));
  }
  for (gsize i = 0; i < n; i++)
    ck_assert_int_eq(seen[i], 1);
}

START_TEST(orders_are_complete)
{
  for (int s = 0; schedules[s]; s++)
    for (int p = 1; p <= 6; p++)
      for (int m = 1; m <= 13; m++)
        for (int v = 1; v <= 3; v++) {
          ScheduleShape shape = { .ranks = p, .micro = m, .chunks = v };
          if (schedule_check(schedules[s], &shape, NULL))
            check_order(schedules[s], &shape);
        }
}
END_TEST

START_TEST(interleaved_groups)
{
  ScheduleShape shape = { .ranks = 4, .micro = 14, .chunks = 2, .group = 5 };

  ck_assert(schedule_check(schedule_find("interleaved"), &shape, NULL));
  check_order(schedule_find("interleaved"), &shape);
}
END_TEST

START_TEST(rules_say_why)
{
  GError *error = NULL;
  ScheduleShape shape = { .ranks = 4, .micro = 6, .chunks = 2 };

  ck_assert(!schedule_check(schedule_find("interleaved"), &shape, &error));
  test_error(&error, 2, "schedule interleaved leaves a last group of 2 micro-batches (6 in groups of 4), which must be 0 "
                        "or at least the 4 pipeline ranks");
  shape.micro = 3;
  ck_assert(!schedule_check(schedule_find("interleaved"), &shape, &error));
  test_error(&error, 2, "schedule interleaved runs groups of 4 micro-batches, which must be at least the 4 pipeline ranks "
                        "and at most the 3 micro-batches");
  ck_assert(!schedule_check(schedule_find("1f1b"), &shape, &error));
  test_error(&error, 2, "schedule 1f1b needs 1 chunk a pipeline rank, the plan has 2");
  shape.chunks = 1;
  ck_assert(!schedule_check(schedule_find("interleaved"), &shape, &error));
  test_error(&error, 2, "schedule interleaved needs 2 or more chunks a pipeline rank, the plan has 1");
  ck_assert_ptr_null(schedule_find("zigzag"));
}
END_TEST

START_TEST(drawing)
{
  ScheduleShape shape = { .ranks = 2, .micro = 2, .chunks = 1 };

  test_text(schedule_draw(schedule_find("1f1b"), &shape, unit_times, 1, 0.25),
            " 0 |F0-|F1-        |B0=====    |B1=====|\n"
            " 1     |F0-|B0=====|F1-|B1=====        |\n"
            "makespan 9, idle 3, peak 2 1\n");
}
END_TEST

TEST_LOOPS("schedule", { golden_vectors, G_N_ELEMENTS(goldens) },
           { orders_are_complete },
           { interleaved_groups },
           { rules_say_why },
           { drawing })
