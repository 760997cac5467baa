/* Passes that no other runs beside, whose exchanges of tokens are waited for: in bounds, and where one dispatcher
 * stands for another. */
#include "main.h"
#include "planned.h"
#include "schedule/schedule.h"
#include "search/bound.h"
#include "search/least_work.h"
#include "search/price_cache.h"
#include "sim/simulate.h"

#include <math.h>

static const char *const names[] = { "1f1b", "interleaved" };

static void setup(Planned *f, int layers, const char *cluster, const char *framework)
{
  planned_init(f, fixture_experts(layers, 1024, 8, 16, 1024, 1000), fixture_cluster(cluster, 16), framework);
  f->framework->operation_s = f->framework->issue_s = f->framework->step_s = 0;
  f->plan.ep = 4;
  f->plan.overlap.exchange = TRUE;
}

static double step_of(Planned *f)
{
  Metrics m;

  planned_build(f);
  g_autoptr(Trace) trace = simulate(f->program);
  trace_metrics(trace, &m);
  return m.iteration_s;
}

static void draw_plan(Planned *f, GRand *rand)
{
  int pp = 1 << g_rand_int_range(rand, 0, 3), chunks = pp > 1 ? 1 << g_rand_int_range(rand, 0, 3) : 1;

  setup(f, 8, "dgx", "nemo-2026-04");
  f->cluster->tiers[0].link.compute_slowdown = g_rand_boolean(rand) ? 1 : 1.3;
  for (int t = 0; t < f->cluster->n_tiers; t++)
    f->cluster->tiers[t].bytes_per_s *= g_rand_double_range(rand, 0.05, 1);
  planned_divide(f, 1, pp, 16 / pp);
  plan_set_schedule(&f->plan, schedule_find(names[chunks > 1]), chunks);
  f->plan.zero = g_rand_int_range(rand, 0, 4);
  f->plan.overlap.gradients = g_rand_boolean(rand);
  f->plan.overlap.parameters = g_rand_boolean(rand);
  f->plan.overlap.pipeline = chunks > 1 || g_rand_boolean(rand);
  f->plan.micro_batch = 1 + g_rand_boolean(rand);
  f->plan.global_batch = 16 / pp * f->plan.micro_batch * pp * g_rand_int_range(rand, 1, 5);
  if (pp == 4 && chunks == 1 && g_rand_boolean(rand))
    f->plan.split = (LayerSplit) { .stages = 4, .layers = { 1, 3, 3, 1 } };
}

/* As if no pass had to wait for exchanges. */
static PriceSums *sums_beside(const Planned *f, const Layout *layout)
{
  PriceTable *prices = price_table_new(f->model, layout, f->cluster);

  for (int i = 0; i < prices->n; i++)
    for (int pass = 0; pass < PASS_COUNT; pass++)
      prices->layers[i].pass[pass].alone_s = 0;
  return price_sums_of(f->model, &layout->passes, f->cluster, prices);
}

/* No bound exceeds the simulation; by order little is left out, and without the ramps' exchanges
 * much more, most of which is in the bound from prices, too. */
START_TEST(ramps_are_bounded)
{
  GRand *rand = g_rand_new_with_seed(7100 + _i);
  int seen = 0, close = 0, ramps = 0, counted = 0;

  for (int n = 0; n < 800 && seen < 40; n++) {
    Planned f;
    draw_plan(&f, rand);
    if (plan_check(&f.plan, f.model, f.cluster, NULL) == RULE_NONE) {
      const Layout layout = layout_of(&f.plan);
      g_autoptr(PriceSums) sums = price_sums_new(f.model, &layout, f.cluster);
      double step_s = step_of(&f), order_s = bound_time_by_order(f.model, &layout, f.cluster, sums);
      double bound_s = bound_time(f.model, &layout, f.cluster, sums, NULL);
      ck_assert_double_le(order_s, step_s);
      ck_assert_double_le(bound_s, order_s);
      close += order_s > 0.99 * step_s;
      g_autoptr(PriceSums) beside = sums_beside(&f, &layout);
      double ramps_s = order_s - bound_time_by_order(f.model, &layout, f.cluster, beside);
      ramps += ramps_s > 0.05 * order_s;
      counted += ramps_s > 0.05 * order_s &&
                 bound_s - bound_time(f.model, &layout, f.cluster, beside, NULL) > 0.8 * ramps_s;
      seen++;
    }
    planned_clear(&f);
  }
  ck_assert_int_eq(seen, 40);
  ck_assert_int_ge(close, 32);
  ck_assert_int_ge(ramps, 10);
  ck_assert_int_ge(10 * counted, 8 * ramps);
  g_rand_free(rand);
}
END_TEST

/* Backwards of the input alone wait as whole ones do, in bounds by order. */
START_TEST(split_backwards_are_bounded)
{
  Planned f;
  setup(&f, 8, "dgx", "nemo-2026-04");
  for (int t = 0; t < f.cluster->n_tiers; t++)
    f.cluster->tiers[t].bytes_per_s *= 0.1;
  planned_divide(&f, 1, 4, 4);
  plan_set_schedule(&f.plan, schedule_find("zb-v"), 2);
  f.plan.global_batch = 4 * 8;
  const Layout layout = layout_of(&f.plan);
  g_autoptr(PriceSums) sums = price_sums_new(f.model, &layout, f.cluster);
  double order_s = bound_time_by_order(f.model, &layout, f.cluster, sums), step_s = step_of(&f);
  ck_assert_double_le(order_s, step_s);
  ck_assert_double_gt(order_s, 0.97 * step_s);
  for (int i = 0; i <= f.model->n_layers; i++)
    sums->alone_s[PASS_INPUT][i] = 0;
  ck_assert_double_lt(bound_time_by_order(f.model, &layout, f.cluster, sums), 0.97 * step_s);
  planned_clear(&f);
}
END_TEST

/* A pipeline of several chunks a rank whose blocks are cut at random; or none, of one. */
static void draw_cut(Planned *f, GRand *rand)
{
  int pp = 1 << g_rand_int_range(rand, 0, 3), chunks = pp > 1 ? g_rand_int_range(rand, 2, 5) : 1, stages = pp * chunks;
  int blocks = stages > 2 && g_rand_boolean(rand) ? stages - 2 : 20;

  setup(f, blocks, "dgx-h100", "megatron-core-2026");
  for (int t = 0; t < f->cluster->n_tiers; t++)
    f->cluster->tiers[t].bytes_per_s *= g_rand_double_range(rand, 0.05, 1);
  if (g_rand_boolean(rand))
    f->framework->issue_s = exp(g_rand_double_range(rand, -14, -9));
  f->model->specs[f->model->layers[2]].ffn.width = 64 << g_rand_int_range(rand, 0, 9);
  planned_divide(f, 1, pp, 16 / pp);
  plan_set_schedule(&f->plan, schedule_find(names[chunks > 1]), chunks);
  f->plan.zero = 1;
  f->plan.overlap.gradients = f->plan.overlap.parameters = f->plan.overlap.pipeline = TRUE;
  f->plan.micro_batch = 8;
  f->plan.global_batch = 16 * f->plan.micro_batch * g_rand_int_range(rand, 1, 9);
  f->plan.split.stages = pp > 1 ? stages : 0;
  for (int stage = 1; stage < stages - 1; stage++)
    f->plan.split.layers[stage] = 1;
  for (int left = blocks - MAX(stages - 2, 0); pp > 1 && left > 0; left--)
    f->plan.split.layers[g_rand_int_range(rand, 0, stages)]++;
}

/* However layers are cut no step takes less than what is said before, of which ramps of one stage are a part; nor, where
 * the host is left out, one whose host issues everything at once. */
START_TEST(ramps_are_in_least_steps)
{
  GRand *rand = g_rand_new_with_seed(7300 + _i);
  int seen = 0, single = 0, counted = 0, close = 0;

  for (int n = 0; n < 800 && seen < 60; n++) {
    Planned f;
    draw_cut(&f, rand);
    if (plan_check(&f.plan, f.model, f.cluster, NULL) == RULE_NONE) {
      const Layout layout = layout_of(&f.plan);
      g_autoptr(PriceCache) cache = price_cache_new(f.model, f.cluster);
      for (int unhosted = 0; unhosted < 2; unhosted++) {
        LeastWork work = price_cache_least(cache, &layout.passes, unhosted);
        double least_s = least_step_s(&work, f.plan.schedule, &layout.pipeline.shape);
        f.framework->issue_s = unhosted ? 0 : f.framework->issue_s;
        ck_assert_double_le(least_s, step_of(&f));
        close += least_s > 0.97 * step_of(&f);
        work.alone_s = 0;
        single += f.plan.pp == 1;
        counted += least_s > 1.02 * least_step_s(&work, f.plan.schedule, &layout.pipeline.shape);
      }
      seen++;
    }
    planned_clear(&f);
  }
  ck_assert_int_eq(seen, 60);
  ck_assert_int_gt(single, 20);
  ck_assert_int_ge(2 * counted, single);
  ck_assert_int_gt(close, 1);
  g_rand_free(rand);
}
END_TEST

/* What stands for another dispatcher takes no longer where all passes are alone, either: the ramps of a pipeline are. */
START_TEST(dispatchers_stand_for_others_alone)
{
  GRand *rand = g_rand_new_with_seed(7200 + _i);
  int told = 0;

  for (int n = 0; n < 60; n++) {
    Planned f;
    setup(&f, 8, "dgx-h100", "megatron-core-2026");
    f.model->specs[f.model->layers[2]].ffn.width = 64 << g_rand_int_range(rand, 0, 9);
    for (int t = 0; t < f.cluster->n_tiers; t++)
      f.cluster->tiers[t].bytes_per_s *= exp(g_rand_double_range(rand, -3, 1));
    f.framework->issue_s = g_rand_boolean(rand) ? 0 : exp(g_rand_double_range(rand, -13, -8));
    f.cluster->tiers[0].link.compute_slowdown = g_rand_double_range(rand, 1, 1.5);
    f.plan.micro_batch = 1 << g_rand_int_range(rand, 0, 3);
    planned_divide(&f, 1, 2, 8);
    f.plan.ep = 8;
    f.plan.global_batch = 16 * f.plan.micro_batch;
    plan_set_schedule(&f.plan, schedule_find("interleaved"), 4);
    for (int own = 0; own < DISPATCH_COUNT; own++)
      for (int other = 0; other < DISPATCH_COUNT; other++) {
        g_autoptr(PriceCache) cache = price_cache_new(f.model, f.cluster);
        Plan rival = f.plan;
        f.plan.dispatch = own;
        rival.dispatch = other;
        if (own == other || plan_check(&f.plan, f.model, f.cluster, NULL) != RULE_NONE ||
            plan_check(&rival, f.model, f.cluster, NULL) != RULE_NONE ||
            !price_cache_never_better(cache, PASSES(&f.plan), PASSES(&rival)))
          continue;
        double own_s = step_of(&f);
        f.plan.dispatch = other;
        ck_assert_double_ge(own_s, step_of(&f) * (1 - 1e-9));
        told++;
      }
    planned_clear(&f);
  }
  ck_assert_int_ge(told, 20);
  g_rand_free(rand);
}
END_TEST

TEST_LOOPS("search alone", { ramps_are_bounded, 4 }, { split_backwards_are_bounded, 1 },
           { ramps_are_in_least_steps, 4 },
           { dispatchers_stand_for_others_alone, 2 })
