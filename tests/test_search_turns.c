#include "main.h"
#include "search/bound.h"
#include "search_instance.h"

/* What micro-batches wait for on their way to the last stage and back, in the bound from prices alone. */

static const char *const names[] = { "1f1b", "zb-h1", "zb-h2" };

static void slow_down(Cluster *cluster, int from, double bytes_per_s)
{
  for (int t = from; t < cluster->n_tiers; t++)
    cluster->tiers[t].bytes_per_s = cluster->tiers[t].port_bytes_per_s = bytes_per_s;
}

/* A pipeline on links that hold it up, which may leave caches, of any depth, split and number of micro-batches. */
static void draw_pipeline(Instance *in, GRand *rand)
{
  static const int depths[] = { 1, 2, 4, 8 };
  static const char *const frameworks[] = { "torchtitan", "tdp-run", "megatron-core", "megatron-2021", "deepspeed" };
  int pp = depths[g_rand_int_range(rand, 0, 4)], dp = g_rand_int_range(rand, 0, 3) ? 1 : 2;
  int tp = g_rand_int_range(rand, 0, 3) ? 1 : 2, devices = MAX(pp * tp * dp, 2); /* two of a node */

  instance_odd_links(in, frameworks[g_rand_int_range(rand, 0, 5)], devices, g_rand_int_range(rand, 0, 3));
  if (g_rand_int_range(rand, 0, 3) == 0)
    instance_add_far(in, 5e9);
  if (g_rand_boolean(rand))
    slow_down(in->cluster, 1, 1e8); /* wherever neighbours are, but not within a node */
  model_free(in->model);
  in->model = fixture_llama(8, 512, 8, 8, 128, 512);
  Plan *p = &in->base;
  plan_set_schedule(p, schedule_find(names[pp > 1 ? g_rand_int_range(rand, 0, 3) : 0]), 1);
  p->pp = pp;
  p->tp = tp;
  p->dp = dp;
  p->gpus = pp * tp * dp;
  p->zero = g_rand_int_range(rand, 0, 2);
  p->overlap.pipeline = g_rand_boolean(rand);
  p->overlap.gradients = g_rand_boolean(rand);
  p->micro_batch = 1 + g_rand_boolean(rand);
  p->global_batch = p->micro_batch * dp * g_rand_int_range(rand, 1, 6 * pp);
  p->recompute = g_rand_int_range(rand, 0, 3);
  if (pp == 4 && g_rand_boolean(rand))
    p->split = (LayerSplit) { .stages = 4, .layers = { 1, 3, 3, 1 } };
}

/* They never take it beyond the simulation, nor, but for what comes behind passes, beyond the order of passes. */
START_TEST(turns_bound_drawn_pipelines)
{
  GRand *rand = g_rand_new_with_seed(6200 + _i);
  int seen = 0;

  for (int n = 0; n < 800 && seen < 80; n++) {
    Instance in;
    draw_pipeline(&in, rand);
    if (plan_check(&in.base, in.model, in.cluster, NULL) == RULE_NONE) {
      const Layout layout = layout_of(&in.base);
      g_autoptr(PriceSums) sums = price_sums_new(in.model, &layout, in.cluster);
      Metrics m;
      instance_simulate(&in, &in.base, NULL, &m);
      double passes_s = bound_time_of_passes(in.model, &layout, in.cluster, sums);
      ck_assert_double_le(bound_time(in.model, &layout, in.cluster, sums, NULL), m.iteration_s);
      ck_assert_double_le(passes_s, bound_time_by_order(in.model, &layout, in.cluster, sums));
      seen++;
    }
    instance_clear(&in);
  }
  ck_assert_int_eq(seen, 80);
  g_rand_free(rand);
}
END_TEST

/* Of a long 1F1B whose sends take longer than its passes they tell nearly all: passes and their own fill and drain
 * alone tell less than half of it. */
START_TEST(turns_bound_slow_sends_closely)
{
  Instance in;

  instance_odd_links(&in, "torchtitan", 8, 0);
  slow_down(in.cluster, 0, 5e8);
  model_free(in.model);
  in.model = fixture_llama(8, 512, 8, 8, 128, 512);
  plan_set_schedule(&in.base, schedule_find(names[_i]), 1);
  in.base.pp = 8;
  in.base.overlap.pipeline = TRUE;
  in.base.global_batch = 128;
  in.base.micro_batch = 1;
  ck_assert_int_eq(plan_check(&in.base, in.model, in.cluster, NULL), RULE_NONE);
  const Layout layout = layout_of(&in.base);
  g_autoptr(PriceSums) sums = price_sums_new(in.model, &layout, in.cluster);
  Metrics m;
  instance_simulate(&in, &in.base, NULL, &m);
  double passes_s = bound_time_of_passes(in.model, &layout, in.cluster, sums);
  ck_assert_double_le(passes_s, m.iteration_s);
  ck_assert_double_gt(passes_s, 0.9 * m.iteration_s);
  instance_clear(&in);
}
END_TEST

TEST_LOOPS("search turns", { turns_bound_drawn_pipelines, 4 }, { turns_bound_slow_sends_closely, 2 })
