/* Bounds of memory against simulations, with what devices keep for a whole step beside states. */
#include "main.h"
#include "search/bound.h"
#include "search_instance.h"

/* The rank that needs most by simulation and, next to it, at least. */
static double checked_peak(const Instance *in, const Plan *plan, double *bound)
{
  const Layout layout = layout_of(plan);
  g_autoptr(PriceSums) sums = price_sums_new(in->model, &layout, in->cluster);
  const BoundRanks ranks = bound_ranks(in->model, &layout, sums);
  Metrics m;

  instance_simulate(in, plan, NULL, &m);
  *bound = bound_memory_by_order(in->model, &layout, sums);
  ck_assert_double_le(*bound, m.peak_memory_bytes);
  ck_assert_double_le(bound_memory(&layout, &ranks), m.peak_memory_bytes);
  return m.peak_memory_bytes;
}

static double placeholder_bytes(const Instance *in, const Plan *plan)
{
  const Layout layout = layout_of(plan);
  g_autoptr(PriceTable) prices = price_table_new(in->model, &layout, in->cluster);

  return price_of_layer(prices, in->model, 0, 1)->placeholder_bytes;
}

/* Every rank with a block keeps them, however many blocks it has; with even stages nothing else is left out. */
START_TEST(kept_placeholders_are_bounded)
{
  static const LayerSplit splits[] = { { 0 }, { .stages = 4, .layers = { 1, 2, 2, 1 } },
                                       { .stages = 4, .layers = { 0, 2, 2, 2 } },
                                       { .stages = 4, .layers = { 2, 2, 2, 0 } },
                                       { .stages = 4, .layers = { 0, 3, 3, 0 } } };
  Instance in;

  instance_odd_links(&in, _i % 2 ? "megatron-core" : "megatron-core-2024", 8, 0);
  model_free(in.model);
  in.model = fixture_llama(_i / 2 ? 8 : 6, 4096, 32, 32, 512, 512);
  for (gsize k = _i / 2 ? 0 : 1; k < (_i / 2 ? 1 : G_N_ELEMENTS(splits)); k++)
    for (int zero = 0; zero < 2; zero++) {
      Plan plan = in.base;
      double bound;
      plan.schedule = schedule_find("1f1b");
      plan.pp = 4;
      plan.dp = 2;
      plan.split = splits[k];
      plan.zero = zero;
      plan.global_batch = 64;
      double peak = checked_peak(&in, &plan, &bound), kept = placeholder_bytes(&in, &plan);
      ck_assert_int_eq(kept > 0, _i % 2);
      ck_assert_double_gt(bound, (kept > 0 ? 0.998 : 0.97) * peak);
      ck_assert(kept == 0 || kept > 0.03 * peak);
    }
  instance_clear(&in);
}
END_TEST

/* A rank without a block keeps none, where its ends alone need most. */
START_TEST(ends_keep_no_placeholders)
{
  Instance in;
  double bound;

  instance_odd_links(&in, "megatron-core", 4, 0);
  model_free(in.model);
  in.model = fixture_llama(2, 1024, 8, 8, 512, 1 << 18);
  in.base.schedule = schedule_find("1f1b");
  in.base.pp = 4;
  in.base.split = (LayerSplit) { .stages = 4, .layers = { 0, 1, 1, 0 } };
  in.base.global_batch = 64;
  double peak = checked_peak(&in, &in.base, &bound);
  ck_assert_double_gt(placeholder_bytes(&in, &in.base), peak - bound);
  instance_clear(&in);
}
END_TEST

/* Gradients that every backward sums are there while it runs, and those of the layer before while on their way;
 * weights that come for it, too. Never more than the simulation has, and under 1F1B at least 0.88 of that, and 0.94
 * of torchtitan's stages, which sum once. */
START_TEST(gradients_on_their_way_are_bounded)
{
  static const char *const frameworks[] = { "torchtitan", "deepspeed", "torchtitan-2026-08", "fsdp" };
  static const char *const names[] = { "1f1b", "interleaved-rounds", "zb-v", "gpipe", "interleaved" };
  GRand *rand = g_rand_new_with_seed(8300 + _i);
  int seen = 0, plain = 0, summed = 0;

  for (int n = 0; n < 600 && seen < 60; n++) {
    Instance in;
    double bound;
    int pp = 1 << g_rand_int_range(rand, 0, 3), at = pp > 1 ? g_rand_int_range(rand, 0, 5) : 0;
    instance_odd_links(&in, frameworks[g_rand_int_range(rand, 0, 4)], 8, g_rand_int_range(rand, 0, 3));
    model_free(in.model);
    in.model = g_rand_boolean(rand) ? fixture_llama(8, 1024, 8, 8, 512, 2048)
                                    : fixture_experts(8, 256, 8, 8, 512, 2048);
    Plan *p = &in.base;
    plan_set_schedule(p, schedule_find(names[at]), at == 0 || at == 3 ? 1 : 2);
    p->pp = pp;
    p->dp = 8 / pp;
    p->zero = 2 + g_rand_boolean(rand);
    p->overlap.gradients = g_rand_int_range(rand, 0, 4) > 0;
    p->overlap.parameters = g_rand_int_range(rand, 0, 4) > 0;
    p->recompute = g_rand_int_range(rand, 0, 3);
    p->micro_batch = 1 << g_rand_int_range(rand, 0, 5);
    p->global_batch = p->micro_batch * p->dp * pp * g_rand_int_range(rand, 1, 4);
    if (pp == 4 && at == 0 && g_rand_boolean(rand))
      p->split = (LayerSplit) { .stages = 4, .layers = { 1, 3, 3, 1 } };
    if (plan_check(p, in.model, in.cluster, NULL) == RULE_NONE) {
      double peak = checked_peak(&in, p, &bound);
      gboolean each = STATES(p)->drops_gradients;
      if (at == 0 && pp > 1 && p->zero == 2)
        ck_assert_double_gt(bound, (each ? 0.88 : 0.94) * peak);
      plain += at == 0 && pp > 1 && p->zero == 2;
      summed += pp > 1 && each;
      seen++;
    }
    instance_clear(&in);
  }
  ck_assert_int_eq(seen, 60);
  ck_assert_int_ge(plain, 3);
  ck_assert_int_ge(summed, 5);
  g_rand_free(rand);
}
END_TEST

/* With no more than one sum on its way a stage of two blocks has the gradients of both at its peak, beside what forwards
 * left but for the last block's. */
START_TEST(gradients_of_two_layers_are_bounded_closely)
{
  Instance in;

  instance_odd_links(&in, "fsdp", 8, 1);
  in.framework->reduce_queue = 1;
  model_free(in.model);
  in.model = fixture_llama(8, 1024, 8, 8, 64, 2048);
  for (int again = FALSE; again <= TRUE; again++) {
    Plan plan = in.base;
    double bound;
    plan_set_schedule(&plan, schedule_find("1f1b"), 1);
    plan.pp = 4;
    plan.dp = 2;
    plan.zero = 2;
    plan.overlap.gradients = TRUE;
    plan.recompute = again ? RECOMPUTE_FULL : RECOMPUTE_NONE;
    plan.global_batch = 16;
    ck_assert_int_eq(plan_check(&plan, in.model, in.cluster, NULL), RULE_NONE);
    double peak = checked_peak(&in, &plan, &bound);
    ck_assert_double_gt(bound, 0.99 * peak); /* with the gradients of one, 0.971 */
  }
  instance_clear(&in);
}
END_TEST

TEST_LOOPS("search memory", { gradients_on_their_way_are_bounded, 4 }, { gradients_of_two_layers_are_bounded_closely, 1 },
           { kept_placeholders_are_bounded, 4 }, { ends_keep_no_placeholders, 1 })
