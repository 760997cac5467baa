/* Answers to questions: what stands beside their steps. */
#include "main.h"

#include "ask/question.h"
#include "fixture.h"

#include <math.h>

static double cell(const Answer *a, int row, const char *key)
{
  int column = 0;

  while (g_strcmp0(a->columns[column].key, key) != 0)
    ck_assert_int_lt(++column, a->n_columns);
  return answer_value(a, row, column);
}

/* On each number of GPUs the interval and the chance of fitting are those of the plan there, on that many. */
START_TEST(estimates_are_those_of_the_plan)
{
  g_autoptr(Model) model = fixture_known_model("tiny");
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 16);
  g_autoptr(Framework) framework = fixture_framework("megatron-core");
  g_autoptr(Accuracy) accuracy = accuracy_load(NULL);
  Plan base = plan_default(model, framework);
  SearchOptions options = { .base = &base, .fixed = fixed_none(), .top = 1, .threads = 1, .objective = &objectives[0] };
  Asked asked = { model, cluster, &options, 0, accuracy };

  base.gpus = 16;
  g_autoptr(Answer) a = answer_counts(&asked, 4);
  ck_assert_int_eq(answer_rows(a), 3);
  for (int row = 0; row < 3; row++) {
    Cluster there = *cluster;
    Found found;
    ck_assert(cluster_resize(&there, 4 << row, NULL) && ask_best(model, &there, &options, 4 << row, &found));
    const Layout layout = layout_of(&found.plan);
    Estimate e = accuracy_estimate(accuracy, model, &layout, &there, &found.metrics);
    ck_assert_double_eq(cell(a, row, "iteration_s_low"), e.low_s);
    ck_assert_double_eq(cell(a, row, "iteration_s_high"), e.high_s);
    ck_assert_double_eq(cell(a, row, "fit_probability"), e.fit_probability);
    ck_assert_double_lt(e.low_s, cell(a, row, "iteration_s"));
    ck_assert_double_gt(e.high_s, cell(a, row, "iteration_s"));
  }
  asked.accuracy = NULL;
  g_autoptr(Answer) unknown = answer_counts(&asked, 16);
  ck_assert(isnan(cell(unknown, 0, "iteration_s_low")) && isnan(cell(unknown, 0, "fit_probability")));
}
END_TEST

/* Each question that names a plan, and fronts, have them. */
START_TEST(all_that_name_plans_have_them)
{
  static const char *const with[] = { "fewest-gpus", "largest-model", "largest-batch", "largest-context", "scaling" };
  g_autoptr(Model) model = fixture_known_model("tiny");
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 2);
  g_autoptr(Framework) framework = fixture_framework("megatron-core");
  g_autoptr(Accuracy) accuracy = accuracy_load(NULL);
  Plan base = plan_default(model, framework);
  SearchOptions options = { .base = &base, .fixed = fixed_none(), .top = 1, .threads = 1, .objective = &objectives[0] };
  const Asked asked = { model, cluster, &options, 0, accuracy };

  base.gpus = 2;
  for (gsize i = 0; i < G_N_ELEMENTS(with); i++) {
    g_autoptr(Answer) a = question_find(with[i])->answer(&asked);
    ck_assert_int_gt(answer_rows(a), 0);
    for (int row = 0; row < answer_rows(a); row++)
      ck_assert_double_lt(cell(a, row, "iteration_s_low"), cell(a, row, "iteration_s_high"));
  }
  options.second = objective_find("memory");
  g_autoptr(Answer) front = answer_front(&asked, 1);
  for (int row = 0; row < answer_rows(front); row++) {
    ck_assert_double_lt(cell(front, row, "iteration_s_low"), answer_value(front, row, 0));
    ck_assert_double_gt(cell(front, row, "iteration_s_high"), answer_value(front, row, 0));
  }
}
END_TEST

TEST_MAIN("ask", estimates_are_those_of_the_plan, all_that_name_plans_have_them)
