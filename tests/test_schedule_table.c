#include "main.h"

#include "base/files.h"
#include "schedule/table.h"

#include <glib/gstdio.h>

static const double unit_times[PASS_COUNT] = { 1, 2, 1, 1, 1, 1, 1 };

static ScheduleShape shape_of(const ScheduleTable *t)
{
  return (ScheduleShape) { .ranks = t->ranks, .micro = t->micro, .chunks = t->chunks, .table = t };
}

/* Written, read and written again: the same text, the same order, the same times. */
START_TEST(round_trip)
{
  int written = 0;

  for (int s = 0; schedules[s]; s++)
    for (int v = 1; v <= 4; v++) {
      ScheduleShape shape = { .ranks = 4, .micro = 8, .chunks = v };
      if (!schedule_check(schedules[s], &shape, NULL))
        continue;
      g_autofree char *text = schedule_table_text(schedules[s], &shape, NULL);
      if (!text)
        continue;
      g_autoptr(ScheduleTable) table = schedule_table_parse(text, "x.csv", NULL);
      ck_assert_ptr_nonnull(table);
      ScheduleShape read = shape_of(table);
      ck_assert(schedule_check(&table->schedule, &read, NULL));
      test_text(schedule_table_text(&table->schedule, &read, NULL), text);
      g_autoptr(Replay) a = schedule_replay(schedules[s], &shape, unit_times, 0.8);
      g_autoptr(Replay) b = schedule_replay(&table->schedule, &read, unit_times, 0.8);
      ck_assert_double_eq(a->makespan, b->makespan);
      for (int rank = 0; rank < 4; rank++)
        ck_assert_int_eq(a->peak[rank], b->peak[rank]);
      ck_assert(table->schedule.split == schedules[s]->split);
      written++;
    }
  ck_assert_int_ge(written, 18);
}
END_TEST

START_TEST(written_form)
{
  ScheduleShape shape = { .ranks = 2, .micro = 2, .chunks = 1 };

  test_text(schedule_table_text(schedule_find("1f1b"), &shape, NULL), "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  shape.chunks = 2;
  shape.micro = 4;
  g_autofree char *v = schedule_table_text(schedule_find("dualpipev"), &shape, NULL);
  ck_assert_ptr_nonnull(strstr(v, "(1F3;2B1)OVERLAP_F_B"));
}
END_TEST

static const struct {
  const char *name;
  int chunks;
  const char *message;
} unsaid[] = {
  { "dualpipe", 2, "schedule dualpipe holds two copies of the model, which PyTorch's schedule CSV cannot say" },
  { "varuna", 1, "schedule varuna makes forwards again as passes of their own, which PyTorch's schedule CSV cannot say" },
  { "vocab-1", 1, "schedule vocab-1 spreads the vocabulary over all ranks, which PyTorch's schedule CSV cannot say" },
};

START_TEST(refuses_to_write)
{
  ScheduleShape shape = { .ranks = 4, .micro = 8, .chunks = unsaid[_i].chunks };
  GError *error = NULL;

  ck_assert_ptr_null(schedule_table_text(schedule_find(unsaid[_i].name), &shape, &error));
  test_error(&error, 2, unsaid[_i].message);
}
END_TEST

/* Idle steps, spaces, carriage returns and communication are read over; stages lie on any rank. */
START_TEST(reads_what_pytorch_writes)
{
  const char *text = "0UNSHARD,3UNSHARD,0F0,0SEND_F0,0F1,,3F0,,(3F1;3B0)OVERLAP_F_B,3SEND_B0,3B1 "
                     ",0RECV_B0,0I0,0W0,0B1,0REDUCE_GRAD,0RESHARD\r\n,,1RECV_F0,1F0,2F0,1F1,2F1,2B0,1B0,2B1,1B1\r\n";
  g_autoptr(ScheduleTable) t = schedule_table_parse(text, "x.csv", NULL);

  ck_assert_ptr_nonnull(t);
  ck_assert_int_eq(t->ranks, 2);
  ck_assert_int_eq(t->chunks, 2);
  ck_assert_int_eq(t->micro, 2);
  ck_assert(t->schedule.split);
  ScheduleShape shape = shape_of(t);
  ck_assert_int_eq(schedule_stage(&t->schedule, &shape, 0, 1), 3);
  Place place = schedule_place(&t->schedule, &shape, 2, 0);
  ck_assert_int_eq(place.rank, 1);
  ck_assert_int_eq(place.chunk, 1);
  test_text(schedule_table_text(&t->schedule, &shape, NULL),
            "0F0,0F1,3F0,(3F1;3B0)OVERLAP_F_B,3B1,0I0,0W0,0B1\n1F0,2F0,1F1,2F1,2B0,1B0,2B1,1B1\n");
}
END_TEST

static const struct {
  const char *text, *message;
} bad[] = {
  { "", "x.csv: expected a row of actions for each rank, as in 0F0,0F1,0B0,0B1" },
  { ",,\n", "x.csv: expected a row of actions for each rank, as in 0F0,0F1,0B0,0B1" },
  { "0F0,0X0\n", "x.csv: row 1, cell 2: \"0X0\": expected a stage, an action and a micro-batch, as in 0F3" },
  { "0F0,F0\n", "x.csv: row 1, cell 2: \"F0\": expected a stage, an action and a micro-batch, as in 0F3" },
  { "0F\n", "x.csv: row 1, cell 1: \"0F\": expected the number of a micro-batch at the end" },
  { "0F0x\n", "x.csv: row 1, cell 1: \"0F0x\": expected the number of a micro-batch at the end" },
  { "9999F0\n", "x.csv: row 1, cell 1: \"9999F0\": expected at most 4096 stages" },
  { "0F99999999999\n", "x.csv: row 1, cell 1: \"0F99999999999\": expected the number of a micro-batch at the end" },
  { "0F999999999,0B0\n", "x.csv: micro-batch 999999999 of 2 actions in all: expected every micro-batch from 0 on" },
  { "(0F0;0B0)\n", "x.csv: row 1, cell 1: \"(0F0;0B0)\": expected two actions as in (0F3;7B1)OVERLAP_F_B" },
  { "(0F0)OVERLAP_F_B\n", "x.csv: row 1, cell 1: \"(0F0)OVERLAP_F_B\": expected two actions as in (0F3;7B1)OVERLAP_F_B" },
  { "0F0,0B0\n0F0,0B0\n", "x.csv: 1 stages on 2 ranks, expected as many on each" },
  { "0F0,1F0,0B0\n0B0\n", "x.csv: stage 0 is on rank 0 and on rank 1" },
  { "0F0,2F0\n3F0\n", "x.csv: stage 1 is on no rank" },
  { "0F0,1F0,2F0\n3F0\n", "x.csv: rank 0 holds more than 2 of the 4 stages, expected as many on each of the 2 ranks" },
  { "0F0,0F0\n", "x.csv: rank 0, pass 1: the forward of stage 0 for micro-batch 0 comes a second time" },
  { "0B0\n1F0,1B0\n", "x.csv: rank 0, pass 0: the backward of stage 0 for micro-batch 0 comes before its forward" },
  { "0F0,0B0\n1F0,1I0\n", "x.csv: stage 1 has no weight gradient for micro-batch 0" },
  { "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n", "x.csv: the order deadlocks after 2 of 8 passes: rank 0 waits forever with "
                                          "the backward of stage 0 for micro-batch 0" },
  { "(0F0;0B0)OVERLAP_F_B\n", "x.csv: rank 0, pass 0: the forward of stage 0 for micro-batch 0 is paired with its own "
                              "backward" },
  { "0F0,\"0B0\n", "x.csv:1: quote without an end" },
};

START_TEST(says_what_is_bad)
{
  GError *error = NULL;

  ck_assert_ptr_null(schedule_table_parse(bad[_i].text, "x.csv", &error));
  test_error(&error, 2, bad[_i].message);
}
END_TEST

START_TEST(files)
{
  g_autofree char *folder = test_directory();
  g_autofree char *path = g_build_filename(folder, "orders.csv", NULL);
  const char *text = "0F0,0B0\n1F0,1B0\n";
  GError *error = NULL;

  ck_assert(files_write(path, text, strlen(text), NULL));
  g_autoptr(ScheduleTable) t = schedule_table_load(path, NULL);
  ck_assert_str_eq(t->schedule.name, path);
  ScheduleShape shape = shape_of(t);
  shape.micro = 8;
  ck_assert(!schedule_check(&t->schedule, &shape, &error));
  g_autofree char *message =
    g_strdup_printf("schedule %s is for 2 pipeline ranks of 1 chunks and 1 micro-batches, the plan has 2, 1 and 8",
                    path);
  test_error(&error, 2, message);
  ck_assert(files_write(path, "0F0\0x", 5, NULL));
  ck_assert_ptr_null(schedule_table_load(path, &error));
  g_autofree char *nul = g_strdup_printf("%s: NUL byte", path);
  test_error(&error, 2, nul);
  ck_assert_int_eq(g_remove(path), 0);
  ck_assert_ptr_null(schedule_table_load(path, NULL));
  ck_assert_int_eq(g_remove(folder), 0);
}
END_TEST

TEST_LOOPS("schedule table",
           { round_trip },
           { written_form },
           { refuses_to_write, G_N_ELEMENTS(unsaid) },
           { reads_what_pytorch_writes },
           { says_what_is_bad, G_N_ELEMENTS(bad) },
           { files })
