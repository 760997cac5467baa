/* Sets of modules that selective recomputation makes again, as a search has them. */
#include "main.h"
#include "search/candidates.h"
#include "search_instance.h"

static int by_value(gconstpointer a, gconstpointer b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Devices as large as one of these plans needs, so that it is worth to make things again. */
static void draw_memory(Instance *in, const GArray *all, GRand *rand)
{
  g_autoptr(GArray) peaks = g_array_new(FALSE, FALSE, sizeof(double));

  for (guint i = 0; i < all->len; i += 1 + all->len / 40) {
    Metrics m;
    instance_simulate(in, &g_array_index(all, Plan, i), NULL, &m);
    g_array_append_val(peaks, m.peak_memory_bytes);
  }
  g_array_sort(peaks, by_value);
  in->cluster->device.memory_bytes = g_array_index(peaks, double, g_rand_int_range(rand, 0, 1 + peaks->len / 2));
}

/* The search against every plan simulated. */
START_TEST(sets_agree)
{
  GRand *rand = test_rand(1300 + _i);
  Fixed fixed = fixed_none();
  Instance in;

  instance_latent_init(&in, rand);
  in.options.fixed.value[KEY_OVERLAP] = _i % 3 ? 1 : -1;
  in.options.fixed.value[KEY_ZERO] = 1;
  if (_i % 4 == 0) {
    ck_assert(fixed_parse("--fix", "recompute=selective:any", &fixed, NULL));
    in.options.fixed.value[KEY_RECOMPUTE] = fixed.value[KEY_RECOMPUTE];
    in.options.fixed.value[KEY_RECOMPUTE_MODULES] = fixed.value[KEY_RECOMPUTE_MODULES];
  }
  g_autoptr(GArray) all = instance_plans(&in);
  draw_memory(&in, all, rand);
  instance_check_all(&in, all);
  instance_clear(&in);
  g_rand_free(rand);
}
END_TEST

/* Sets win where memory refuses what is faster. */
START_TEST(sets_win)
{
  GRand *rand = test_rand(1390);
  int wins = 0, draws = test_stride() > 1 ? 12 : 36;

  for (int i = 0; i < draws; i++) {
    Instance in;
    instance_latent_init(&in, rand);
    in.options.fixed.value[KEY_GRAPH] = GRAPH_NONE;
    g_autoptr(GArray) all = instance_plans(&in);
    draw_memory(&in, all, rand);
    g_autoptr(SearchResult) r = search(in.model, in.cluster, &in.options, NULL);
    wins += r->best->len > 0 && g_array_index(r->best, Found, 0).plan.scope.modules != 0;
    instance_clear(&in);
  }
  ck_assert(wins >= 3 || draws < 36);
  g_rand_free(rand);
}
END_TEST

/* ---- what bounds of several sets rest on ---- */

typedef struct {
  const Instance *in;
  PriceCache *prices;
  Candidates store;
  int compared, uneven;
} Behind;

/* Bounds of all sets behind a plan against those of each. */
static gboolean compare_behind(gpointer data, const SpaceLeaf *leaf)
{
  Behind *b = data;
  const Instance *in = b->in;
  Candidate c = candidates_add(&b->store, leaf);
  double time_s = bound_time(in->model, leaf->layout, in->cluster, leaf->sums, leaf->ends);
  double bytes = bound_memory(leaf->layout, leaf->ranks);

  for (gboolean more = leaf->behind; more; b->compared++) {
    Plan plan = candidate_plan(&b->store, &c);
    const PriceSums *sums = price_cache_sums(b->prices, PASSES(&plan));
    const BoundRanks ranks = bound_ranks(in->model, LAYOUT(&plan), sums);
    ck_assert_double_le(time_s, bound_time(in->model, LAYOUT(&plan), in->cluster, sums, NULL));
    ck_assert_double_le(bytes, bound_memory(LAYOUT(&plan), &ranks));
    ck_assert_mem_eq(&plan.split, &leaf->plan->split, sizeof plan.split);
    ck_assert_int_eq(plan_check(&plan, in->model, in->cluster, NULL), RULE_NONE);
    b->uneven += plan.split.stages > 0;
    more = c.pass.after > 0;
    c = more ? candidate_next(&b->store, &c) : c;
  }
  return TRUE;
}

static void pass_over(gpointer data, const Plan *plan, int rule, gint64 plans)
{
  (void)data, (void)plan, (void)rule, (void)plans;
}

START_TEST(bounds_hold_for_all_behind)
{
  GRand *rand = test_rand(1600 + _i);
  Instance in;

  instance_latent_init(&in, rand);
  g_autoptr(PriceCache) prices = price_cache_new(in.model, in.cluster), others = price_cache_new(in.model, in.cluster);
  const ModuleSets sets = space_module_sets(in.model, in.cluster, &in.base);
  Behind b = { &in, others };
  const SpaceVisitor visitor = { compare_behind, FALSE, pass_over, &b };
  candidates_init(&b.store, prices, &sets);
  space_walk(in.model, in.cluster, &in.options, prices, &visitor);
  ck_assert_int_gt(b.compared, 0);
  ck_assert(b.uneven > 0 || in.model->blocks % 2 == 0);
  candidates_clear(&b.store);
  instance_clear(&in);
  g_rand_free(rand);
}
END_TEST

typedef struct {
  Instance in;
  PriceCache *prices;
  int compared, slower;
} Chain;

static void check_next(Chain *c, Plan plan, guint modules)
{
  Plan next = plan, without = plan, next_without;

  next.recompute = RECOMPUTE_SELECTIVE;
  next.scope.modules = modules;
  const PriceSums *a = price_cache_sums(c->prices, PASSES(&plan)), *b = price_cache_sums(c->prices, PASSES(&next));
  int n = c->in.model->n_layers;
  ck_assert(price_cache_never_less(c->prices, PASSES(&next), PASSES(&plan)));
  ck_assert_double_le(b->saved[n], a->saved[n]);
  ck_assert_double_le(b->deferred[n], a->deferred[n]);
  for (int last = 0; last < 2; last++)
    ck_assert_double_le(a->scratch[last], b->scratch[last]);
  c->slower += b->backward_s[n] > a->backward_s[n];
  c->compared++;
  /* the overlap of tensor parallelism gains with modules what it gains without */
  next_without = next;
  space_switch_off(&without, OVERLAP_TENSOR);
  space_switch_off(&next_without, OVERLAP_TENSOR);
  if (price_cache_never_less(c->prices, PASSES(&without), PASSES(&plan)))
    ck_assert(price_cache_never_less(c->prices, PASSES(&next_without), PASSES(&next)));
}

/* Each set takes no less in any pass than the one before it, and keeps no more. */
START_TEST(sets_are_nested)
{
  static const char *const models[] = { "deepseek-v3-4-layers", "qwen3-30b-a3b", "llama-3.1-8b", "gpt3", "t5-base" };
  GRand *rand = g_rand_new_with_seed(1400 + _i);
  Chain c = { 0 };

  c.in.model = fixture_known_model(models[_i]);
  c.in.cluster = fixture_cluster(_i % 2 ? "dgx" : "gb200-nvl72", 64);
  c.in.framework = fixture_framework("megatron-core-2026");
  c.prices = price_cache_new(c.in.model, c.in.cluster);
  for (int i = 0; i < 200; i++) {
    Plan plan;
    if (!fixture_draw_plan(rand, c.in.model, c.in.cluster, c.in.framework, &plan) || plan.strategies.n > 0)
      continue;
    plan.recompute = RECOMPUTE_NONE;
    plan.partition_activations = FALSE;
    plan.scope = (RecomputeScope) { 0 };
    plan.offload.activations = STORE_DEVICE;
    const ModuleSets sets = space_module_sets(c.in.model, c.in.cluster, &plan);
    ck_assert_int_gt(sets.n, 1);
    for (int k = 0; k < sets.n; k++) {
      check_next(&c, plan, sets.sets[k]);
      plan.recompute = RECOMPUTE_SELECTIVE;
      plan.scope.modules = sets.sets[k];
    }
  }
  ck_assert_int_gt(c.compared, 50);
  ck_assert_int_gt(c.slower, c.compared / 2);
  price_cache_free(c.prices);
  instance_clear(&c.in);
  g_rand_free(rand);
}
END_TEST

/* ---- the attention core ---- */

/* Where it is left out, the first set is as fast and as small in the simulation. Parts of layers that are graphs may make
 * the core again in less of the host's time, and exchanges beside other passes may hide behind it in one of a pair. */
START_TEST(core_is_left_out_where_of_no_use)
{
  GRand *rand = test_rand(1500 + _i);
  int out = 0, in_space = 0;
  Instance in;

  instance_latent_init(&in, rand);
  in.base.seq = 4096;
  in.options.fixed.value[KEY_OVERLAP] = 1;
  in.base.attention = _i % 2 ? ATTENTION_FLASH : ATTENTION_UNFUSED;
  in.cluster->device.memory_bytes = 1e12;
  const ModuleSets sets = space_module_sets(in.model, in.cluster, &in.base);
  g_autoptr(PriceCache) prices = price_cache_new(in.model, in.cluster);
  g_autoptr(GArray) all = instance_plans(&in);
  for (guint i = 0; i < all->len; i++) {
    const Plan *first = &g_array_index(all, Plan, i);
    Plan core = *first;
    Metrics a, b;
    in_space += first->recompute == RECOMPUTE_SELECTIVE && !first->scope.modules && first->graph == GRAPH_NONE &&
                !first->overlap.exchange;
    if (first->scope.modules != sets.sets[0] || out >= 20)
      continue;
    core.scope.modules = 0;
    if (!price_cache_made_again_in_vain(prices, PASSES(&core), PASSES(first)))
      continue;
    out++;
    instance_simulate(&in, first, NULL, &a);
    instance_simulate(&in, &core, NULL, &b);
    ck_assert_double_le(a.iteration_s, b.iteration_s);
    ck_assert_double_le(a.peak_memory_bytes, b.peak_memory_bytes);
  }
  ck_assert_int_eq(out > 0, _i % 2);
  ck_assert_int_eq(in_space == 0, _i % 2);
  instance_clear(&in);
  g_rand_free(rand);
}
END_TEST

/* ---- what the space has ---- */

START_TEST(sets_go_by_framework_and_model)
{
  g_autoptr(Framework) framework = fixture_framework("megatron-core"), plain = fixture_framework("megatron-core-2024");
  g_autoptr(Model) dense = fixture_known_model("gpt3"), latent = fixture_known_model("deepseek-v3");
  g_autoptr(Cluster) cluster = fixture_cluster("dgx-h100", 8);
  guint outputs = 1 << MODULE_LAYERNORM | 1 << MODULE_MOE_ACT;
  Plan plan = plan_default(dense, framework);
  ModuleSets sets = space_module_sets(dense, cluster, &plan);

  ck_assert_int_eq(sets.n, 2);
  ck_assert_int_eq(sets.sets[0], 1 << MODULE_LAYERNORM);
  ck_assert_int_eq(sets.sets[1], 1 << MODULE_LAYERNORM | 1 << MODULE_MLP);
  plan_set_format(&plan, DTYPE_FP8); /* with delayed scaling */
  sets = space_module_sets(dense, cluster, &plan);
  ck_assert_int_eq(sets.n, 1);
  ck_assert_int_eq(sets.sets[0], 1 << MODULE_MLP);
  plan = plan_default(latent, framework);
  sets = space_module_sets(latent, cluster, &plan);
  ck_assert_int_eq(sets.n, 6);
  ck_assert_int_eq(sets.sets[1], outputs);
  plan.overlap.experts = TRUE;
  sets = space_module_sets(latent, cluster, &plan);
  ck_assert_int_eq(sets.n, 5);
  ck_assert(!(sets.sets[4] >> MODULE_SHARED_EXPERTS & 1));
  g_autoptr(Framework) names = fixture_framework("maxtext-2026");
  plan = plan_default(dense, names);
  sets = space_module_sets(dense, cluster, &plan);
  ck_assert(sets.always && sets.sets[0] == 1 << MODULE_LAYERNORM);
  plan.attention = ATTENTION_UNFUSED; /* no name keeps scores */
  sets = space_module_sets(dense, cluster, &plan);
  ck_assert_int_eq(sets.n, 2);
  ck_assert(sets.always && sets.sets[0] == (1 << MODULE_LAYERNORM | 1 << MODULE_CORE_ATTN));
  plan = plan_default(latent, plain);
  ck_assert_int_eq(space_module_sets(latent, cluster, &plan).n, 0);
}
END_TEST

/* Layers of plans with sets are split as those of the plan that keeps everything. */
START_TEST(sets_share_a_split)
{
  g_autoptr(Framework) framework = fixture_framework("megatron-core-2026");
  g_autoptr(Model) model = fixture_known_model("deepseek-v3-mtp");
  g_autoptr(Cluster) cluster = fixture_cluster("gb200-nvl72", 256);
  g_autoptr(PriceCache) prices = price_cache_new(model, cluster);
  Plan plan = plan_default(model, framework);
  int differ = 0;

  plan.gpus = 256;
  plan.global_batch = 4096;
  plan.ep = plan.dp = 16;
  plan.etp = 1;
  plan.pp = 16;
  const ModuleSets sets = space_module_sets(model, cluster, &plan);
  for (int vpp = 1; vpp <= 3; vpp++) {
    plan.recompute = RECOMPUTE_NONE;
    plan.scope.modules = 0;
    plan_set_schedule(&plan, schedule_find(vpp > 1 ? "interleaved" : "1f1b"), vpp);
    const LayerSplit split = *price_cache_split(prices, &plan);
    plan.recompute = RECOMPUTE_FULL;
    differ += memcmp(price_cache_split(prices, &plan), &split, sizeof split) != 0;
    plan.recompute = RECOMPUTE_SELECTIVE;
    for (int i = 0; i < sets.n; i++) {
      plan.scope.modules = sets.sets[i];
      ck_assert_mem_eq(price_cache_split(prices, &plan), &split, sizeof split);
    }
  }
  ck_assert_int_gt(differ, 0); /* their own would be others */
}
END_TEST

/* ---- what is fixed ---- */

START_TEST(sets_are_fixed)
{
  Fixed f = fixed_none();
  GError *error = NULL;

  ck_assert(fixed_parse("--fix", "recompute=selective:mlp+layernorm", &f, NULL));
  ck_assert_int_eq(f.value[KEY_RECOMPUTE], RECOMPUTE_SELECTIVE);
  ck_assert_int_eq(f.value[KEY_RECOMPUTE_MODULES], 1 << MODULE_MLP | 1 << MODULE_LAYERNORM);
  ck_assert(fixed_parse("--fix", "recompute=selective:any", &f, NULL));
  ck_assert_int_eq(f.value[KEY_RECOMPUTE_MODULES], 0);
  ck_assert(fixed_parse("--fix", "recompute=selective", &f, NULL));
  ck_assert_int_eq(f.value[KEY_RECOMPUTE_MODULES], -1);
  ck_assert(fixed_parse("--fix", "graph=partial:attn+mamba", &f, NULL));
  ck_assert_int_eq(f.value[KEY_GRAPH], GRAPH_PARTIAL);
  ck_assert_int_eq(f.value[KEY_GRAPH_MODULES], 1 << RECORDED_ATTN | 1 << RECORDED_MAMBA);
  ck_assert(fixed_parse("--fix", "graph=partial", &f, NULL));
  ck_assert_int_eq(f.value[KEY_GRAPH_MODULES], -1);
  ck_assert(!fixed_parse("--fix", "graph=full:attn", &f, NULL));
  ck_assert(!fixed_parse("--fix", "graph=partial:", &f, NULL));
  ck_assert(!fixed_parse("--fix", "recompute=selective:mlp+mlp", &f, NULL));
  ck_assert(!fixed_parse("--fix", "recompute=full:mlp", &f, NULL));
  ck_assert(!fixed_parse("--fix", "recompute=selective:nothing", &f, &error));
  ck_assert_ptr_nonnull(strstr(error->message, "selective:A+B"));
  g_error_free(error);
}
END_TEST

TEST_LOOPS("search modules", { sets_agree, 24, TRUE }, { sets_win, 1 }, { sets_are_nested, 5, TRUE },
           { bounds_hold_for_all_behind, 8, TRUE },
           { core_is_left_out_where_of_no_use, 4 }, { sets_are_fixed, 1 },
           { sets_go_by_framework_and_model, 1 }, { sets_share_a_split, 1 })
