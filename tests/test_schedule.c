#include "main.h"
#include "schedule_text.h"

static const double unit_times[PASS_COUNT] = { 1, 2, 1, 1, 1, 1, 1 };

/* What a schedule says of shapes that it does not run. */
static const struct {
  const char *name;
  ScheduleShape shape;
  const char *message;
} refused[] = {
  { "interleaved", { 4, 6, 2 }, "schedule interleaved leaves a last group of 2 micro-batches (6 in groups of 4), "
                                "which must be 0 or at least the 4 pipeline ranks" },
  { "interleaved", { 4, 3, 2 }, "schedule interleaved runs groups of 4 micro-batches, which must be at least the 4 "
                                "pipeline ranks and at most the 3 micro-batches" },
  { "interleaved", { 1, 3, 2 }, "schedule interleaved needs 2 or more pipeline ranks, the plan has 1" },
  { "interleaved", { 4, 8, 1 }, "schedule interleaved needs 2 or more chunks a pipeline rank, the plan has 1" },
  { "interleaved-rounds", { 4, 9, 2 }, "schedule interleaved-rounds runs 9 micro-batches in 2 rounds (one for each 4 "
                                       "of them, the pipeline ranks), which must be of equal size" },
  { "1f1b", { 4, 3, 2 }, "schedule 1f1b needs 1 chunk a pipeline rank, the plan has 2" },
  { "looped-bfs", { 4, 3, 1 }, "schedule looped-bfs needs 2 or more chunks a pipeline rank, the plan has 1" },
  { "zb-1p", { 4, 3, 1, .memory_limit = 0.5 }, "an automatic zero-bubble schedule needs memory for the activations of "
                                               "1 micro-batch, the plan leaves 0.5" },
  { "zb-v", { 4, 6, 2 }, "schedule zb-v needs at least 7 micro-batches for 4 pipeline ranks (2p - 1), the plan has 6" },
  { "dualpipe", { 3, 8, 2 }, "schedule dualpipe needs an even number of pipeline ranks, the plan has 3" },
  { "dualpipe", { 4, 9, 2 }, "schedule dualpipe needs an even number of micro-batches, half of them for each "
                             "direction, the plan has 9" },
  { "dualpipe", { 4, 6, 2 }, "schedule dualpipe needs at least 8 micro-batches for 4 pipeline ranks (2p), the plan "
                             "has 6" },
  { "dualpipev", { 4, 7, 2 }, "schedule dualpipev needs at least 8 micro-batches for 4 pipeline ranks (2p), the plan "
                              "has 7" },
  { "chimera", { 3, 8, 2 }, "schedule chimera needs an even number of pipeline ranks, the plan has 3" },
  { "chimera", { 4, 5, 2 }, "schedule chimera needs an even number of micro-batches, half of them for each direction, "
                            "the plan has 5" },
  { "chimera", { 4, 4, 1 }, "schedule chimera needs 2 chunks a pipeline rank, the plan has 1" },
  { "hanayo", { 4, 4, 3 }, "schedule hanayo needs an even number of chunks a pipeline rank, two for each wave, the "
                           "plan has 3" },
};

START_TEST(rules_say_why)
{
  GError *error = NULL;

  ck_assert(!schedule_check(schedule_find(refused[_i].name), &refused[_i].shape, &error));
  test_error(&error, 2, refused[_i].message);
  ck_assert(!schedule_check(schedule_find(refused[_i].name), &refused[_i].shape, NULL));
}
END_TEST

START_TEST(names)
{
  ck_assert_ptr_null(schedule_find("zigzag"));
  ck_assert_ptr_null(schedule_find(""));
  ck_assert_ptr_eq(schedule_find("TrainSchedule"), schedule_find("1f1b"));
  ck_assert_ptr_eq(schedule_find("sagemaker-interleaved"), schedule_find("1f1b"));
  ck_assert_ptr_eq(schedule_find("1f1b-redistributed"), schedule_find("1f1b"));
  ck_assert_ptr_eq(schedule_find("ZBVZeroBubble"), schedule_find("zb-v"));
  for (int i = 0; schedules[i]; i++)
    ck_assert_ptr_eq(schedule_find(schedules[i]->name), schedules[i]);
}
END_TEST

/* schedule_place undoes schedule_stage. */
START_TEST(placements)
{
  for (int i = 0; schedules[i]; i++)
    for (int p = 1; p <= 5; p++)
      for (int v = 1; v <= 6; v++) {
        const Schedule *s = schedules[i];
        ScheduleShape shape = { .ranks = p, .micro = 4 * p, .chunks = v };
        if (!schedule_check(s, &shape, NULL))
          continue;
        for (int rank = 0; rank < p; rank++)
          for (int chunk = 0; chunk < v; chunk++) {
            int stage = schedule_stage(s, &shape, rank, chunk);
            Place place = schedule_place(s, &shape, stage, schedule_copy(s, chunk));
            ck_assert_int_lt(stage, schedule_stages(s, &shape));
            ck_assert_int_eq(place.rank, rank);
            ck_assert_int_eq(place.chunk, chunk);
          }
      }
}
END_TEST

START_TEST(drawing)
{
  ScheduleShape shape = { .ranks = 2, .micro = 2, .chunks = 1 };

  test_text(schedule_draw(schedule_find("1f1b"), &shape, unit_times, 1, 0.25),
            " 0 |F0-|F1-        |B0=====    |B1=====|\n"
            " 1     |F0-|B0=====|F1-|B1=====        |\n"
            "makespan 9, idle 3, within a rank's span 3, peak 2 1\n");
}
END_TEST

/* Orders of one micro-batch or two on two ranks that are wrong, rank by rank: "F0 B0 | F0 B0". */
static const struct {
  const char *name, *slots, *message;
} wrong[] = {
  { "1f1b", "F0 F0|F0", "rank 0, pass 1: the forward of stage 0 for micro-batch 0 comes a second time" },
  { "1f1b", "B0 F0|F0", "rank 0, pass 0: the backward of stage 0 for micro-batch 0 comes before its forward" },
  { "1f1b", "F0 W0|F0", "rank 0, pass 1: the weight-gradient of stage 0 for micro-batch 0 comes before its input "
                        "gradient" },
  { "1f1b", "F0 B0 I0|F0", "rank 0, pass 2: the input-gradient of stage 0 for micro-batch 0 is a second backward" },
  { "1f1b", "F0 R0 B0|F0", "rank 0, pass 1: the recompute of stage 0 for micro-batch 0 is not needed: its activations "
                           "are held" },
  { "1f1b", "F0 S0|F0", "rank 0, pass 1: the logits of stage 0 for micro-batch 0 is of a vocabulary that this "
                        "schedule does not spread" },
  { "1f1b", "F0 B0|F0 B0", "stage 0 has no forward for micro-batch 1" },
  { "1f1b", "F0 F1 I0 B1|F0 F1 B0 B1", "stage 0 has no weight gradient for micro-batch 0" },
  { "1f1b", "F0 F1 B0 B1|F0 F1 B1", "stage 1 has no backward for micro-batch 0" },
  { "1f1b", "F0 F2|F0", "rank 0, pass 1: chunk 0, micro-batch 2: expected below 1 chunks and 2 micro-batches" },
  { "1f1b", "F0 B0 F1 B1|F0 F1 B0 B1", "the order deadlocks after 2 of 8 passes: rank 0 waits forever with the "
                                       "backward of stage 0 for micro-batch 0" },
  { "1f1b", "F0&|F0", "rank 0, pass 0: the forward of stage 0 for micro-batch 0 is paired with no other pass" },
  { "1f1b", "F0& F1 B0 B1|F0", "rank 0, pass 0: the forward of stage 0 for micro-batch 0 is in a pair, which must be "
                               "a forward and then a backward" },
  { "1f1b", "F0& B0|F0", "rank 0, pass 0: the forward of stage 0 for micro-batch 0 is paired with its own backward" },
  { "varuna", "F0 B0|F0", "rank 0, pass 1: the backward of stage 0 for micro-batch 0 comes before its forward is made "
                          "again" },
  { "vocab-1", "F0 T0|F0", "rank 0, pass 1: the vocabulary-gradient of stage 0 for micro-batch 0 comes before its "
                           "logits" },
  { "vocab-1", "F0 S0 S0|F0", "rank 0, pass 2: the logits of stage 0 for micro-batch 0 comes a second time" },
  { "vocab-1", "F0 F1 S0 S1 T0 T1 B0 B1|F0 F1 S0 S1 T0 B0 B1",
    "rank 1 does not run both vocabulary passes for micro-batch 1" },
  { "chimera", "F0 f0|F0", "rank 0, pass 1: the forward of stage 1 for micro-batch 0 runs on one copy of the weights, "
                           "other passes of it on the other copy" },
};

static ScheduleOrder *parse_order(const char *text)
{
  g_auto(GStrv) ranks = g_strsplit(text, "|", -1);
  ScheduleOrder *order = g_new0(ScheduleOrder, 1);
  GArray *slots = g_array_new(FALSE, FALSE, sizeof(Slot));

  order->ranks = (int)g_strv_length(ranks);
  order->first = g_new0(int, order->ranks + 1);
  for (int rank = 0; rank < order->ranks; rank++) {
    g_auto(GStrv) words = g_strsplit(ranks[rank], " ", -1);
    for (int i = 0; words[i]; i++) {
      Slot slot = { .pass = strchr(pass_letters, g_ascii_toupper(words[i][0])) - pass_letters,
                    .chunk = g_ascii_islower(words[i][0]) != 0, .micro = words[i][1] - '0',
                    .paired = words[i][2] == '&' };
      g_array_append_val(slots, slot);
    }
    order->first[rank + 1] = slots->len;
  }
  order->slots = (Slot *)(void *)g_array_free(slots, FALSE);
  return order;
}

START_TEST(check_says_what_is_wrong)
{
  const Schedule *schedule = schedule_find(wrong[_i].name);
  ScheduleShape shape = { .ranks = 2, .micro = 2, .chunks = schedule->min_chunks };
  g_autoptr(ScheduleOrder) order = parse_order(wrong[_i].slots);
  GError *error = NULL;

  ck_assert(!schedule_order_check(schedule, &shape, order, &error));
  test_error(&error, 2, wrong[_i].message);
}
END_TEST

START_TEST(check_accepts)
{
  ScheduleShape shape = { .ranks = 2, .micro = 2, .chunks = 1 };
  g_autoptr(ScheduleOrder) order = parse_order("F0 F1 I0 W0 B1|F0 F1& B0 I1 W1");

  ck_assert(schedule_order_check(schedule_find("1f1b"), &shape, order, NULL));
  shape.ranks = 3;
  GError *error = NULL;
  ck_assert(!schedule_order_check(schedule_find("1f1b"), &shape, order, &error));
  test_error(&error, 2, "the order has 2 ranks, expected 3");
}
END_TEST

/* With gradients that come late, the opportunistic rule runs forwards in the place of recomputes. */
START_TEST(opportunistic)
{
  ScheduleShape shape = { .ranks = 4, .micro = 12, .chunks = 1 };
  Schedule strict = *schedule_find("varuna");
  const double late[PASS_COUNT] = { 1, 5, 0, 0, 1 };
  const double equal[PASS_COUNT] = { 1, 2, 0, 0, 1 };

  strict.opportunistic = FALSE;
  g_autoptr(Replay) a = schedule_replay(&strict, &shape, late, 1);
  g_autoptr(Replay) b = schedule_replay(schedule_find("varuna"), &shape, late, 1);
  ck_assert_double_le(b->makespan, a->makespan);
  gboolean moved = FALSE;
  for (int i = 1; i < b->order->first[1]; i++)
    moved |= b->start[i] < b->start[i - 1];
  ck_assert(moved);
  g_autoptr(Replay) c = schedule_replay(&strict, &shape, equal, 1);
  g_autoptr(Replay) d = schedule_replay(schedule_find("varuna"), &shape, equal, 1);
  ck_assert_double_le(d->makespan, c->makespan);
}
END_TEST

/* A smaller limit is kept, and costs time; a larger one reaches no idle time within a rank's span. */
START_TEST(memory_limits)
{
  double before = G_MAXDOUBLE;

  for (int limit = 1; limit <= 16; limit++) {
    ScheduleShape shape = { .ranks = 8, .micro = 24, .chunks = 1, .memory_limit = limit };
    g_autoptr(Replay) r = schedule_replay(schedule_find("zb-2p"), &shape, unit_times, 1);
    for (int rank = 0; rank < shape.ranks; rank++)
      ck_assert_int_le(r->peak[rank], limit);
    ck_assert_double_le(r->span_idle, before);
    before = r->span_idle;
  }
  ck_assert_double_eq(before, 0);
}
END_TEST

TEST_LOOPS("schedule",
           { rules_say_why, G_N_ELEMENTS(refused) },
           { names },
           { placements },
           { drawing },
           { check_says_what_is_wrong, G_N_ELEMENTS(wrong) },
           { check_accepts },
           { opportunistic },
           { memory_limits })
