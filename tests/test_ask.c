/* Answers to questions: what stands beside their steps. */
#include "main.h"

#include "ask/held.h"
#include "ask/question.h"
#include "report/draws.h"
#include "search_instance.h"
#include "sim/ranks.h"

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

/* JSON has a front's values in the units that its keys name, whatever people see. */
START_TEST(fronts_are_in_the_units_of_their_keys)
{
  static const struct { const char *name; double unit; } objective[] = {
    { "time", 1 }, { "memory", 1024.0 * 1024 * 1024 }, { "energy", 3.6e6 }, { "gpu-hours", 1 }, { "tokens-per-gpu", 1 },
  };
  g_autoptr(Model) model = fixture_known_model("tiny");
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 2);
  g_autoptr(Framework) framework = fixture_framework("megatron-core");
  Plan base = plan_default(model, framework);
  SearchOptions options = { .base = &base, .fixed = fixed_none(), .top = 1, .threads = 1, .objective = &objectives[0] };
  const Asked asked = { model, cluster, &options };

  base.gpus = 2;
  for (gsize i = 1; i < G_N_ELEMENTS(objective); i++) {
    options.second = objective_find(objective[i].name);
    g_autoptr(Answer) front = answer_front(&asked, 2);
    g_autoptr(GString) text = g_string_new(NULL);
    JsonWriter w;
    json_writer_init(&w, text);
    json_open(&w, NULL, '{');
    answer_write(front, &w, "front");
    json_close(&w, '}');
    g_autoptr(JsonDoc) doc = json_parse(text->str, text->len, "front", NULL);
    const cJSON *row = json_get(json_get(json_root(doc), "front"), "rows")->child;
    for (int n = 0; n < answer_rows(front); n++, row = row->next) {
      ck_assert_double_eq(json_get(row, "step_s")->valuedouble, answer_value(front, n, 0));
      ck_assert_double_eq_tol(json_get(row, options.second->key)->valuedouble / objective[i].unit,
                              answer_value(front, n, 1), 1e-9 * answer_value(front, n, 1));
    }
  }
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

/* The best plans stand by the 95th percentile of their draws, which are those of the plans alone. */
START_TEST(plans_by_their_draws)
{
  g_autoptr(Model) model = fixture_known_model("tiny");
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 8);
  g_autoptr(Framework) framework = fixture_framework("megatron-core");
  Plan base = plan_default(model, framework);
  SearchOptions o = { .base = &base, .fixed = fixed_none(), .top = 1, .threads = 1, .objective = &objectives[0] };
  Operations operations;

  base.gpus = 8;
  ck_assert(operations_load(OPERATIONS_USUAL, &operations, NULL));
  const Asked asked = { .model = model, .cluster = cluster, .options = &o, .operations = &operations };
  g_autoptr(Answer) a = answer_jitter(&asked);
  o.top = 10;
  g_autoptr(SearchResult) r = search(model, cluster, &o, NULL);
  ck_assert_int_eq(answer_rows(a), r->best->len);
  ck_assert_int_gt(answer_rows(a), 3);
  const Jitter jitter = { .pass = operations.pass_spread };
  g_autofree double *alone_s = g_new(double, r->best->len);
  int found = 0;
  for (guint i = 0; i < r->best->len; i++) {
    const Plan *plan = &g_array_index(r->best, Found, i).plan;
    g_autofree double *seconds = simulate_plan_draws(model, cluster, plan, &jitter, NULL, 0, 400);
    alone_s[i] = seconds ? draws_of(seconds, 400).p95_s : NAN;
  }
  for (int row = 0; row < answer_rows(a); row++) {
    ck_assert_double_ge(cell(a, row, "p95_s"), row ? cell(a, row - 1, "p95_s") : 0);
    ck_assert_double_le(cell(a, row, "mean_s"), cell(a, row, "p95_s"));
    for (guint i = 0; i < r->best->len; i++)
      found += alone_s[i] == cell(a, row, "p95_s");
  }
  ck_assert_int_ge(found, answer_rows(a));
}
END_TEST

/* ---- what was held fixed ---- */

static double gain(const Answer *a, const char *freed_by)
{
  for (int row = 0; row < answer_rows(a); row++)
    if (g_str_equal(answer_label(a, row, 1), freed_by))
      return cell(a, row, "gain_at_most");
  return NAN;
}

/* The best step of the space that is freed by an option; infinite where nothing fits. */
static double freed_s(const Instance *in, guint space, int key, int value, int second, int other)
{
  SearchOptions o = in->options;

  o.space |= space;
  o.fixed.value[key] = value;
  o.fixed.value[second] = other;
  g_autoptr(SearchResult) r = search(in->model, in->cluster, &o, NULL);
  return r->best->len ? g_array_index(r->best, Found, 0).metrics.iteration_s : INFINITY;
}

/* No freed dimension gains more than its line says. */
START_TEST(gains_are_bounded)
{
  static const char *const frameworks[] = { "megatron-core", "deepspeed", "megatron-core-2026", "torchtitan" };
  static const struct {
    const char *freed_by;
    guint space;
  } spaces[] = { { "--space offload", SPACE_OFFLOAD }, { "--space states", SPACE_STATES },
                 { "--space zero++", SPACE_ZERO_PP }, { "--space order", SPACE_ORDER },
                 { "--space context", SPACE_CONTEXT } };
  GRand *rand = g_rand_new_with_seed(5000 + _i);
  int gained = 0, checked = 0;

  for (int i = 0; i < 12; i++) {
    Instance in;
    instance_framework_init(&in, rand, frameworks[_i]);
    in.cluster->device.memory_bytes *= g_rand_double_range(rand, 0.4, 0.9);
    in.options.objective = &objectives[0];
    g_autoptr(SearchResult) r = search(in.model, in.cluster, &in.options, NULL);
    if (r->best->len > 0) {
      const Found *best = &g_array_index(r->best, Found, 0);
      Result result = result_of_metrics(in.model, in.cluster, &best->plan, &best->metrics);
      g_autoptr(Answer) a = held_answer(&in.options, r, &result);
      double step_s = best->metrics.iteration_s;
      for (gsize k = 0; k < G_N_ELEMENTS(spaces); k++) {
        double most = gain(a, spaces[k].freed_by), free_s = freed_s(&in, spaces[k].space, KEY_OTHER, -1, KEY_OTHER, -1);
        if (isnan(most)) {
          ck_assert_double_eq(free_s, step_s); /* it is not held */
          continue;
        }
        ck_assert_double_ge(free_s, step_s * (1 - most));
        gained += free_s < step_s;
        checked++;
      }
      double counts_s = freed_s(&in, 0, KEY_RECOMPUTE, RECOMPUTE_FULL, KEY_RECOMPUTE_LAYERS, 0);
      ck_assert(isnan(gain(a, "--fix recompute=full:any")) ||
                counts_s >= step_s * (1 - gain(a, "--fix recompute=full:any")));
    }
    instance_clear(&in);
  }
  ck_assert_int_gt(checked, 0);
  ck_assert(gained > 0 || _i % 2); /* these hold little that gains */
  g_rand_free(rand);
}
END_TEST

static gboolean holds(const Instance *in, const SearchResult *r, const char *what)
{
  const Found *best = &g_array_index(r->best, Found, 0);
  Result result = result_of_metrics(in->model, in->cluster, &best->plan, &best->metrics);
  g_autoptr(Answer) a = held_answer(&in->options, r, &result);
  gboolean held = FALSE;

  for (int row = 0; row < answer_rows(a); row++)
    held |= strstr(answer_label(a, row, 0), what) != NULL;
  return held;
}

/* What a framework runs, and the space has, is not said to be held. */
START_TEST(what_is_free_is_not_held)
{
  GRand *rand = g_rand_new_with_seed(5202);
  Instance in;

  instance_framework_init(&in, rand, "megatron-core");
  in.options.objective = &objectives[0];
  in.cluster->device.memory_bytes = 1e11;
  g_autoptr(SearchResult) r = search(in.model, in.cluster, &in.options, NULL);
  ck_assert_int_gt(r->best->len, 0);
  ck_assert(!holds(&in, r, "tp_comm_overlap"));
  ck_assert(holds(&in, r, "moments"));
  in.framework->choices &= ~(1u << CHOICE_COMM_CHUNKS);
  ck_assert(holds(&in, r, "tp_comm_overlap"));
  in.options.space |= SPACE_STATES;
  ck_assert(!holds(&in, r, "moments"));
  in.base.seq = CONTEXT_TOKENS_MIN * in.base.gpus - 1;
  ck_assert(holds(&in, r, "tokens of a sequence"));
  in.base.seq++; /* the most ranks leave as many */
  ck_assert(!holds(&in, r, "tokens of a sequence"));
  in.base.seq = 64;
  in.options.space |= SPACE_CONTEXT;
  ck_assert(!holds(&in, r, "tokens of a sequence"));
  instance_clear(&in);
  g_rand_free(rand);
}
END_TEST

/* Steps as one graph are named to free where some plan can be one: of experts that are padded. */
START_TEST(graphs_are_named_where_they_are_legal)
{
  GRand *rand = g_rand_new_with_seed(5203);
  Instance in;

  instance_latent_init(&in, rand);
  in.options.objective = &objectives[0];
  in.cluster->device.memory_bytes = 1e11;
  for (int padded = 0; padded < 2; padded++) {
    in.base.expert_capacity = padded ? 1 : 0;
    in.base.expert_padded = padded;
    in.options.fixed.value[KEY_GRAPH] = -1;
    g_autoptr(SearchResult) r = search(in.model, in.cluster, &in.options, NULL);
    ck_assert_int_gt(r->best->len, 0);
    gboolean held = holds(&in, r, "one CUDA graph");
    in.options.fixed.value[KEY_GRAPH] = GRAPH_FULL;
    g_autoptr(SearchResult) whole = search(in.model, in.cluster, &in.options, NULL);
    ck_assert_int_eq(held, padded);
    ck_assert_int_eq(whole->best->len > 0, padded);
  }
  instance_clear(&in);
  g_rand_free(rand);
}
END_TEST

/* Nor does any schedule, on pipelines whose bubble is large. */
START_TEST(schedules_are_bounded)
{
  GRand *rand = g_rand_new_with_seed(5100 + _i);
  int gained = 0;

  for (int i = 0; i < 4; i++) {
    Instance in;
    instance_framework_init(&in, rand, "megatron-core");
    in.options.objective = &objectives[0];
    in.options.fixed.value[KEY_PP] = 2;
    in.options.fixed.value[KEY_CP] = 1;
    g_autoptr(SearchResult) r = search(in.model, in.cluster, &in.options, NULL);
    for (int s = 0; s < 21 && r->best->len > 0; s++) {
      const Found *best = &g_array_index(r->best, Found, 0);
      Result result = result_of_metrics(in.model, in.cluster, &best->plan, &best->metrics);
      g_autoptr(Answer) a = held_answer(&in.options, r, &result);
      double step_s = best->metrics.iteration_s, free_s = freed_s(&in, 0, KEY_SCHEDULE, s, KEY_OTHER, -1);
      ck_assert_double_ge(free_s, step_s * (1 - gain(a, "--fix schedule=NAME")));
      gained += free_s < step_s;
    }
    instance_clear(&in);
  }
  ck_assert_int_gt(gained, 0);
  g_rand_free(rand);
}
END_TEST

TEST_LOOPS("ask", { plans_by_their_draws, 1 }, { what_is_free_is_not_held, 1 },
           { graphs_are_named_where_they_are_legal, 1 }, { schedules_are_bounded, 2, TRUE },
           { estimates_are_those_of_the_plan, 1 }, { all_that_name_plans_have_them, 1 },
           { fronts_are_in_the_units_of_their_keys, 1 }, { gains_are_bounded, 4, TRUE })
