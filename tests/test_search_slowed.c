/* Passes beside sums of gradients over groups that slow them unlike, in the bound by order. */
#include "main.h"
#include "search/bound.h"
#include "search_instance.h"

#include <math.h>

/* Parts are summed within nodes of 2, and these over nodes; one of both slows passes more. */
static void draw_pipeline(Instance *in, GRand *rand)
{
  int pp = 1 << g_rand_int_range(rand, 0, 2);
  gboolean within = g_rand_boolean(rand);
  Plan *p = &in->base;

  instance_odd_links(in, g_rand_boolean(rand) ? "torchtitan" : "torchtitan-2026-08", 8, 0);
  model_free(in->model);
  in->model = fixture_llama(8, 512, 8, 8, 512, 512);
  for (int t = 0; t < in->cluster->n_tiers; t++) {
    in->cluster->tiers[t].bytes_per_s = in->cluster->tiers[t].port_bytes_per_s = exp(g_rand_double_range(rand, 21, 25));
    in->cluster->tiers[t].link.compute_slowdown = (t == 0) == within ? 1.4 : 1;
  }
  plan_set_schedule(p, schedule_find("1f1b"), 1);
  p->pp = pp;
  p->dp = 8 / pp;
  p->zero = g_rand_int_range(rand, 0, 4) > 0 ? 2 : 3;
  p->shard_group = g_rand_int_range(rand, 0, 4) > 0 ? 2 : 0;
  p->overlap.gradients = p->overlap.pipeline = TRUE;
  p->micro_batch = 1 + g_rand_boolean(rand);
  p->global_batch = p->micro_batch * p->dp * pp * g_rand_int_range(rand, 1, 6);
}

START_TEST(sums_slow_passes_unlike)
{
  GRand *rand = g_rand_new_with_seed(9400 + _i);
  int seen = 0, slowed = 0;

  for (int n = 0; n < 400 && seen < 100; n++) {
    Instance in;
    draw_pipeline(&in, rand);
    if (plan_check(&in.base, in.model, in.cluster, NULL) == RULE_NONE) {
      const Layout layout = layout_of(&in.base);
      g_autoptr(PriceSums) sums = price_sums_new(in.model, &layout, in.cluster);
      Metrics m;
      instance_simulate(&in, &in.base, NULL, &m);
      double order_s = bound_time_by_order(in.model, &layout, in.cluster, sums);
      ck_assert_double_le(order_s, m.iteration_s);
      ck_assert_double_gt(order_s, 0.99 * m.iteration_s);
      for (int t = 0; t < in.cluster->n_tiers; t++)
        in.cluster->tiers[t].link.compute_slowdown = 1;
      slowed += bound_time_by_order(in.model, &layout, in.cluster, sums) < 0.998 * order_s;
      seen++;
    }
    instance_clear(&in);
  }
  ck_assert_int_eq(seen, 100);
  ck_assert_int_ge(slowed, 5);
  g_rand_free(rand);
}
END_TEST

TEST_LOOPS("search slowed", { sums_slow_passes_unlike, 4 })
