#include "main.h"

#include "hardware/operations.h"
#include "training/campaign.h"

#include <math.h>

#define HOUR 3600.0

/* Copies of a second to a tenth of the time between failures. */
static Interruptions drawn(int i)
{
  static const double copy_s[] = { 1, 30, 300, 0.1 * HOUR * 5 };

  return (Interruptions) { .between_s = 5 * HOUR, .restart_s = 600, .copy_s = copy_s[i % 4] };
}

/* No interval on a fine grid is better; Young's and Daly's are close where copies are short. */
START_TEST(best_interval)
{
  Interruptions i = drawn(_i);
  double best = interval_best_s(&i), most = goodput(&i, best);

  for (double t = best / 20; t < best * 20; t *= 1.01)
    ck_assert_double_le(goodput(&i, t), most * (1 + 1e-12));
  ck_assert_double_eq_tol(interval_daly_s(&i) / best, 1, 0.01);
  if (i.copy_s <= 30)
    ck_assert_double_eq_tol(interval_young_s(&i) / best, 1, 0.04);
}
END_TEST

/* What is drawn event by event is what the closed form says, within the error of the mean. */
START_TEST(draws_follow_the_closed_form)
{
  Interruptions i = drawn(_i);
  Campaign c = { .steps = 1e5, .step_s = 10, .interruptions = i, .interval_s = interval_best_s(&i) };
  CampaignSummary s;

  ck_assert(campaign_summary(&c, &s));
  double share = c.steps * c.step_s / s.mean.total_s;
  ck_assert_double_eq_tol(share / goodput(&i, c.interval_s), 1, 0.01);
  double sum = 0;
  for (int spent = 0; spent < SPENT_COUNT; spent++)
    sum += s.mean.spent_s[spent];
  ck_assert_double_eq_tol(sum / s.mean.total_s, 1, 1e-12);
  ck_assert_double_eq_tol(s.mean.spent_s[SPENT_STEPS], 1e6, 1e-3);
  ck_assert_double_eq_tol(s.failures_mean * i.between_s / s.mean.total_s, 1, 0.01);
}
END_TEST

/* Checkpoints that are safe late lose more, by their age. */
START_TEST(late_checkpoints)
{
  Interruptions now = { .between_s = 5 * HOUR, .restart_s = 600, .copy_s = 10 }, late = now;
  Campaign c = { .steps = 1e5, .step_s = 10, .interruptions = now, .interval_s = 1800 };
  CampaignSummary a, b;

  late.safe_s = 900;
  ck_assert(campaign_summary(&c, &a));
  c.interruptions = late;
  ck_assert(campaign_summary(&c, &b));
  double more = (b.mean.spent_s[SPENT_LOST] - a.mean.spent_s[SPENT_LOST]) / b.failures_mean;
  ck_assert_double_gt(more, 0.8 * 900);
  ck_assert_double_lt(more, 1.05 * 900);
  ck_assert_double_eq_tol(1e6 / b.mean.total_s / goodput(&late, 1800), 1, 0.01);
  ck_assert_double_ge(interval_best_s(&late), 900);
}
END_TEST

START_TEST(nothing_fails)
{
  Campaign c = { .steps = 1000, .step_s = 2, .interruptions = { .between_s = INFINITY, .copy_s = 5 }, .interval_s = INFINITY };
  CampaignSummary s;

  ck_assert(campaign_summary(&c, &s));
  ck_assert_double_eq_tol(s.mean.total_s, 2000, 1e-9);
  ck_assert_double_eq_tol(s.total_low_s, s.total_high_s, 1e-9);
  ck_assert(isinf(interval_best_s(&c.interruptions)));
}
END_TEST

/* A cluster on which no restart succeeds is said to be one. */
START_TEST(does_not_end)
{
  Campaign c = { .steps = 1000, .step_s = 1000, .interruptions = { .between_s = 10, .restart_s = 3600, .copy_s = 1 }, .interval_s = 100 };
  CampaignSummary s;

  ck_assert(!campaign_summary(&c, &s));
}
END_TEST

/* What eight of ten runs have widens with what is not known, and holds the mean; the same numbers each time. */
START_TEST(intervals)
{
  Interruptions i = drawn(1);
  Campaign c = { .steps = 1e4, .step_s = 10, .interruptions = i, .interval_s = interval_best_s(&i) };
  CampaignSummary sure, unsure, again;

  ck_assert(campaign_summary(&c, &sure));
  c.step_low_s = 9;
  c.step_high_s = 12;
  ck_assert(campaign_summary(&c, &unsure));
  ck_assert(campaign_summary(&c, &again));
  ck_assert_double_lt(unsure.total_low_s, sure.total_low_s);
  ck_assert_double_gt(unsure.total_high_s, sure.total_high_s);
  ck_assert_double_eq_tol(unsure.total_high_s / sure.mean.total_s, 1.2, 0.03);
  ck_assert_double_eq(unsure.mean.total_s, again.mean.total_s);
}
END_TEST

/* What else is not known of a run widens its interval as its own logarithm's normal would. */
START_TEST(whole_runs_differ)
{
  Campaign c = { .steps = 1e4, .step_s = 10, .interval_s = INFINITY, .interruptions = { .between_s = INFINITY },
                 .whole_low = 0.8, .whole_high = 1.25 };
  CampaignSummary s;

  ck_assert(campaign_summary(&c, &s));
  ck_assert_double_eq_tol(s.total_low_s / 1e5, 0.8, 0.03);
  ck_assert_double_eq_tol(s.total_high_s / 1e5, 1.25, 0.04);
}
END_TEST

/* Slow devices lengthen all steps, those that are lost too, and are told apart from the quiet ones. */
START_TEST(slow_devices)
{
  Interruptions i = drawn(1);
  Campaign quiet = { .steps = 1e4, .step_s = 10, .interruptions = i, .interval_s = interval_best_s(&i) }, slow = quiet;
  CampaignSummary a, b;

  slow.slow_share = slow.slow_share_low = slow.slow_share_high = 0.2;
  ck_assert(campaign_summary(&quiet, &a));
  ck_assert(campaign_summary(&slow, &b));
  ck_assert_double_eq_tol(b.mean.spent_s[SPENT_STEPS], 1e5, 1e-3);
  ck_assert_double_eq_tol(b.mean.spent_s[SPENT_SLOW], 2e4, 1e-3);
  ck_assert_double_eq_tol(b.mean.total_s / a.mean.total_s, 1.2, 0.01);
}
END_TEST

/* Erlang's loss formula: of s nodes that can be away, all are, at so much load. */
static double erlang_b(int s, double load)
{
  double b = 1;

  for (int k = 1; k <= s; k++)
    b = load * b / (k + load * b);
  return b;
}

/* A job stops losing nodes while it waits, so nodes in repair are those of a system with s + 1 places that turns away
 * what comes when it is full: the share of time that it waits is Erlang's, whatever repairs take. */
START_TEST(spares_follow_erlang)
{
  static const struct { int spares; double node_share, repair_s; } cases[] = { { 0, 1, 3600 }, { 1, 0.5, 4 * HOUR },
                                                                               { 3, 0.77, 24 * HOUR } };
  const double between_s = 5 * HOUR, load = cases[_i].node_share * cases[_i].repair_s / between_s;
  Campaign c = { .steps = 1e6, .step_s = 10, .interval_s = 10,
                 .interruptions = { .between_s = between_s, .copy_s = 1e-3 },
                 .spares = cases[_i].spares, .node_share = cases[_i].node_share, .repair_s = cases[_i].repair_s };
  CampaignSummary s;

  ck_assert(campaign_summary(&c, &s));
  double up = 1 - s.mean.spent_s[SPENT_WAITING] / s.mean.total_s;
  ck_assert_double_eq_tol(up / (1 - erlang_b(c.spares + 1, load)), 1, 0.01);
  c.spares = -1;
  ck_assert(campaign_summary(&c, &s));
  ck_assert_double_eq(s.mean.spent_s[SPENT_WAITING], 0);
}
END_TEST

START_TEST(operations_file)
{
  Operations o;
  GError *error = NULL;

  ck_assert_msg(operations_load(OPERATIONS_USUAL, &o, &error), "%s", error ? error->message : "");
  ck_assert_double_eq(o.failure_device_s, 30000 * HOUR);
  ck_assert_int_eq(o.spares, -1);
  ck_assert_double_eq_tol(o.grid_kg_per_j * 3.6e6, 0.385, 1e-12);
  ck_assert(!operations_load("none", &o, &error));
  g_clear_error(&error);
}
END_TEST

TEST_LOOPS("training", { best_interval, 4 }, { draws_follow_the_closed_form, 4 }, { late_checkpoints }, { nothing_fails },
           { does_not_end }, { intervals }, { slow_devices }, { whole_runs_differ }, { spares_follow_erlang, 3 },
           { operations_file })
