/* What lies beyond the space, near the best plans: counts of recomputed layers, groups of ZeRO-3. */
#include "base/units.h"
#include "main.h"
#include "plan/nearest.h"
#include "search/recompute_counts.h"
#include "search/space.h"
#include "search_instance.h"

#include <math.h>

/* A count of recomputed layers only replaces what it beats, and fits. */
START_TEST(refined_is_better)
{
  GRand *rand = test_rand(_i + 1);
  Instance in;

  instance_init(&in, rand);
  g_autoptr(SearchResult) plain = search(in.model, in.cluster, &in.options, NULL);
  in.options.refine = TRUE;
  g_autoptr(SearchResult) refined = search(in.model, in.cluster, &in.options, NULL);
  ck_assert_int_eq(plain->best->len > 0, refined->best->len > 0);
  ck_assert_int_eq(plain->refined, 0);
  for (guint i = 0; i < refined->best->len; i++) {
    const Found *f = &g_array_index(refined->best, Found, i);
    ck_assert_double_le(f->metrics.peak_memory_bytes, in.cluster->device.memory_bytes);
    ck_assert(refined->refined > 0 || !recompute_counts(&f->plan.scope));
  }
  if (plain->best->len > 0)
    ck_assert_double_le(g_array_index(refined->best, Found, 0).value, g_array_index(plain->best, Found, 0).value);
  instance_clear(&in);
  g_rand_free(rand);
}
END_TEST

static Plan with_count(const Plan *plan, int n)
{
  Plan with = *plan;

  with.recompute = RECOMPUTE_FULL;
  with.scope = (RecomputeScope) { .method = RECOMPUTE_BLOCK, .layers = n };
  return with;
}

static double bound_bytes(const Instance *in, PriceCache *prices, const Plan *plan)
{
  const Layout layout = layout_of(plan);

  return bound_memory_by_order(in->model, &layout, price_cache_sums(prices, &layout.passes));
}

static double bound_s(const Instance *in, PriceCache *prices, const Plan *plan)
{
  const Layout layout = layout_of(plan);

  return bound_time(in->model, &layout, in->cluster, price_cache_sums(prices, &layout.passes), NULL);
}

/* Whatever count is the first of which the bound of memory fits: on a device that holds just that, and on one that lacks
 * a byte of what the count before it needs. */
START_TEST(least_counts_are_found)
{
  Instance in = { .model = fixture_known_model(_i % 2 ? "llama-3.1-70b" : "qwen3-30b-a3b"),
                  .cluster = fixture_cluster("dgx-h100", 16), .framework = fixture_framework("megatron-core") };
  const double device = in.cluster->device.memory_bytes;
  g_autoptr(PriceCache) prices = price_cache_new(in.model, in.cluster);
  Plan plan = plan_default(in.model, in.framework);

  plan.gpus = plan.global_batch = 16;
  plan.tp = _i % 2 ? 8 : 1;
  plan.pp = _i < 2 ? 1 : 2;
  plan.dp = plan.gpus / plan.tp / plan.pp;
  const Refine refine = { in.model, in.cluster, prices, NULL, INFINITY };
  int most = (in.model->blocks + plan.pp - 1) / plan.pp - 1;
  for (int n = 1; n <= most; n++) {
    Plan with = with_count(&plan, n), less = with_count(&plan, n - 1);
    double bytes = bound_bytes(&in, prices, &with);
    double before = n > 1 ? bound_bytes(&in, prices, &less) : bytes * (1 + 1e-6);
    ck_assert_double_lt(bytes, before);
    for (int k = 0; k < 2; k++) {
      in.cluster->device.memory_bytes = k ? before - 1 : bytes;
      ck_assert_double_eq(refine_bound_s(&refine, &plan), bound_s(&in, prices, &with));
    }
    in.cluster->device.memory_bytes = bytes - 1;
    ck_assert(n < most || isinf(refine_bound_s(&refine, &plan)));
  }
  in.cluster->device.memory_bytes = device;
  instance_clear(&in);
}
END_TEST

/* The least time of a plan with some count that fits, not all of its largest stage; the smallest such count in `first`,
 * 0 = none. */
static double best_count_s(const Instance *in, const Plan *plan, int *first)
{
  double least_s = INFINITY;
  int most = in->model->blocks / plan_stages(plan);

  for (int stage = 0; stage < plan->split.stages; stage++)
    most = MAX(most, plan->split.layers[stage]);
  *first = 0;
  for (int n = 1; n < most; n++) {
    Plan with = *plan;
    Metrics m;
    with.recompute = RECOMPUTE_FULL;
    with.scope = (RecomputeScope) { .method = RECOMPUTE_BLOCK, .layers = n };
    const int rule = plan_check(&with, in->model, in->cluster, NULL);
    instance_simulate(in, rule ? plan : &with, NULL, &m);
    if (rule != RULE_NONE || m.peak_memory_bytes > m.capacity_bytes)
      continue;
    *first = *first ? *first : n;
    least_s = MIN(least_s, m.iteration_s);
  }
  return least_s;
}

/* Of all counts of a plan the fastest that fits is found, beyond a cache, too: there it may be more than the
 * smallest. */
START_TEST(counts_of_a_plan_are_found)
{
  GRand *rand = test_rand(300);
  int seen = 0, more = 0;

  while (seen < 60) {
    Instance in;
    instance_init(&in, rand);
    in.cluster->device.beyond_l2_bytes_per_s /= 100;
    g_autoptr(GArray) plans = instance_plans(&in);
    g_autoptr(PriceCache) prices = price_cache_new(in.model, in.cluster);
    for (int k = 0; k < 3 && g_str_equal(in.framework->name, "megatron-core"); k++) {
      const Refine refine = { in.model, in.cluster, prices, NULL, INFINITY };
      const Plan *plan = &g_array_index(plans, Plan, g_rand_int_range(rand, 0, plans->len));
      Found found;
      int first;
      if (plan->scope.modules || plan->recompute == RECOMPUTE_SELECTIVE)
        continue;
      double least_s = best_count_s(&in, plan, &first);
      ck_assert_int_eq(refine_recompute(&refine, plan, &found), !isinf(least_s));
      if (!isinf(least_s)) {
        ck_assert_double_eq(found.metrics.iteration_s, least_s);
        more += found.plan.scope.layers > first;
        seen++;
      }
    }
    instance_clear(&in);
  }
  ck_assert(more > 1 || !test_usual_draws());
  g_rand_free(rand);
}
END_TEST

/* Counts that are looked for behind a search are as good as a space of them, in which every plan has some: where a layer
 * more that is made again never takes less time, as it does that brings a pass back into the cache. There a plan may
 * gain by a count that is neither among the best nor near to fitting. */
START_TEST(counts_are_found)
{
  GRand *rand = test_rand(_i + 100);
  Instance in;

  instance_init(&in, rand);
  in.cluster->device.beyond_l2_bytes_per_s = 0;
  in.options.refine = TRUE;
  g_autoptr(SearchResult) refined = search(in.model, in.cluster, &in.options, NULL);
  in.options.refine = FALSE;
  ck_assert(fixed_parse("--fix", "recompute=full:any", &in.options.fixed, NULL));
  g_autoptr(SearchResult) counted = search(in.model, in.cluster, &in.options, NULL);
  if (counted->best->len > 0 && g_str_equal(in.framework->name, "megatron-core")) { /* the others count none */
    ck_assert_uint_gt(refined->best->len, 0);
    ck_assert_double_le(g_array_index(refined->best, Found, 0).value,
                        g_array_index(counted->best, Found, 0).value * (1 + 1e-9));
  }
  instance_clear(&in);
  g_rand_free(rand);
}
END_TEST

/* The best plan, with ZeRO-3 over any half, quarter ... of its ranks. */
static double best_group_s(const Instance *in, const Plan *plan)
{
  int ranks = plan_replicas(plan);
  double least_s = INFINITY;

  for (int copies = 1; ranks % copies == 0 && copies < ranks; copies *= 2) {
    Plan with = *plan;
    Metrics m;
    with.shard_group = copies > 1 ? ranks / copies : 0;
    if (plan_check(&with, in->model, in->cluster, NULL) != RULE_NONE)
      continue;
    instance_simulate(in, &with, NULL, &m);
    if (m.peak_memory_bytes <= m.capacity_bytes)
      least_s = MIN(least_s, m.iteration_s);
  }
  return least_s;
}

/* Behind a search no such group is faster; within a node of many ranks the space has but all of them. */
START_TEST(groups_are_found)
{
  static const char *const frameworks[] = { "megatron-core-2026", "torchtitan", "deepspeed" };
  int faster = 0;

  for (gsize f = 0; f < G_N_ELEMENTS(frameworks); f++) {
    Instance in = { .model = fixture_model(4, 1024, 16, 512, 4096), .cluster = fixture_cluster("gb200-nvl72", 64),
                    .framework = fixture_framework(frameworks[f]) };
    in.base = plan_default(in.model, in.framework);
    in.base.gpus = 64;
    in.base.global_batch = 256;
    in.options = (SearchOptions) { .base = &in.base, .fixed = fixed_none(), .top = 3, .threads = 1 };
    in.options.fixed.value[KEY_ZERO] = 3;
    in.options.fixed.value[KEY_PP] = 1;
    g_autoptr(SearchResult) plain = search(in.model, in.cluster, &in.options, NULL);
    in.options.refine = TRUE;
    g_autoptr(SearchResult) refined = search(in.model, in.cluster, &in.options, NULL);
    const Found *found = &g_array_index(refined->best, Found, 0);
    ck_assert_double_eq(found->metrics.iteration_s, best_group_s(&in, &found->plan));
    ck_assert_double_le(found->value, g_array_index(plain->best, Found, 0).value);
    ck_assert(in.framework->shard_groups || found->plan.shard_group == 0);
    faster += found->plan.shard_group > 0;
    in.options.fixed.value[KEY_SHARD_GROUP] = 64;
    g_autoptr(SearchResult) fixed = search(in.model, in.cluster, &in.options, NULL);
    for (guint i = 0; i < fixed->best->len; i++)
      ck_assert_int_eq(g_array_index(fixed->best, Found, i).plan.shard_group, 64);
    instance_clear(&in);
  }
  ck_assert_int_gt(faster, 0);
}
END_TEST

/* A smaller group that does not fit as the best plan is, fits with more of its layers on the host. */
START_TEST(groups_offload_more)
{
  static const double rooms[] = { 1.001, 1.01, 1.03, 1.1, 1.3 };
  Instance in = { .model = fixture_known_model("llama-3.1-70b"), .cluster = fixture_cluster("gb200-nvl72", 64),
                  .framework = fixture_framework("megatron-core-2026") };
  int more = 0;

  in.base = plan_default(in.model, in.framework);
  in.base.gpus = 64;
  in.base.global_batch = 512;
  in.base.seq = 8192;
  in.options = (SearchOptions) { .base = &in.base, .fixed = fixed_none(), .top = 3, .threads = 1 };
  ck_assert(fixed_parse("--fix", "zero=2,tp=2,pp=1,cp=1,mbs=2", &in.options.fixed, NULL));
  g_autoptr(SearchResult) any = search(in.model, in.cluster, &in.options, NULL);
  const Metrics m = g_array_index(any->best, Found, 0).metrics;
  in.options.refine = TRUE;
  for (gsize i = 0; i < G_N_ELEMENTS(rooms); i++) {
    in.cluster->device.memory_bytes = m.peak_memory_bytes * rooms[i];
    g_autoptr(SearchResult) r = search(in.model, in.cluster, &in.options, NULL);
    Plan plan = g_array_index(r->best, Found, 0).plan;
    more += plan.shard_group > 0 && plan.offload.layers > 0;
    for (int choice = 0; choice <= OFFLOAD_CHOICES && plan.recompute == RECOMPUTE_NONE; choice++) {
      plan.offload.layers = space_offloaded(in.model, choice);
      ck_assert_double_le(g_array_index(r->best, Found, 0).metrics.iteration_s, best_group_s(&in, &plan));
    }
  }
  ck_assert_int_gt(more, 0);
  instance_clear(&in);
}
END_TEST

/* Where memory is short several plans lead to the same groups or counts; it is found once. */
START_TEST(plans_are_found_once)
{
  static const struct {
    const char *model, *cluster;
    int gpus, batch, seq;
    double gib;
  } asked[] = { { "gemma-2-9b", "dgx-h100", 16, 128, 4096, 72.5 }, { "gemma-3-1b", "dgx", 8, 128, 32768, 20.2 } };
  Instance in = { .model = fixture_known_model(asked[_i].model),
                  .cluster = fixture_cluster(asked[_i].cluster, asked[_i].gpus),
                  .framework = fixture_framework("megatron-core-2026") };

  in.base = plan_default(in.model, in.framework);
  in.base.gpus = asked[_i].gpus;
  in.base.global_batch = asked[_i].batch;
  in.base.seq = asked[_i].seq;
  in.cluster->device.memory_bytes = asked[_i].gib * GIB;
  in.options = (SearchOptions) { .base = &in.base, .fixed = fixed_none(), .top = 10, .refine = TRUE, .threads = 1 };
  g_autoptr(SearchResult) r = search(in.model, in.cluster, &in.options, NULL);
  ck_assert_uint_eq(r->best->len, 10);
  for (guint i = 0; i < r->best->len; i++)
    for (guint j = 0; j < i; j++)
      ck_assert(!plan_same(&g_array_index(r->best, Found, i).plan, &g_array_index(r->best, Found, j).plan));
  instance_clear(&in);
}
END_TEST

TEST_LOOPS("search_refine", { refined_is_better, 24, TRUE }, { least_counts_are_found, 4 },
           { counts_of_a_plan_are_found, 1 }, { counts_are_found, 48 }, { groups_are_found }, { groups_offload_more }, { plans_are_found_once, 2 })
