/* Bounds where passes take longer than by themselves: beside sums of gradients over groups that slow them unlike, and
 * where a host waits for the device. */
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

/* A backward that makes its forward again may wait longer for the host than a forward and a backward by themselves, which
 * varuna runs. */
START_TEST(forwards_made_again_wait_less)
{
  GRand *rand = g_rand_new_with_seed(9500 + _i);
  g_autoptr(GArray) all = NULL;
  int waiting = 0;

  for (int tries = 0; waiting == 0; tries++) {
    Instance in;
    ck_assert_msg(tries < 100, "no host is waited for");
    instance_framework_init(&in, rand, "nemo-2025-02");
    in.options.fixed.value[KEY_SCHEDULE] = schedule_index(schedule_find("varuna"));
    in.options.fixed.value[KEY_PP] = 2;
    g_clear_pointer(&all, g_array_unref);
    all = instance_plans_within(&in, 400);
    for (guint i = 0; all && i < all->len && waiting == 0; i++) {
      const Layout layout = layout_of(&g_array_index(all, Plan, i));
      g_autoptr(PriceSums) sums = price_sums_new(in.model, &layout, in.cluster);
      waiting += sums->remade_s[in.model->n_layers] < 0.99 * sums->backward_s[in.model->n_layers];
    }
    if (waiting > 0)
      instance_check_all(&in, all);
    instance_clear(&in);
  }
  g_rand_free(rand);
}
END_TEST

TEST_LOOPS("search slowed", { sums_slow_passes_unlike, 4 }, { forwards_made_again_wait_less, 20 })
