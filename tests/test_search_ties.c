/* The first of the plans that tie with the best, against every plan of small spaces. */
#include "main.h"
#include "plan/nearest.h"
#include "search/excluded.h"
#include "search/search_parts.h"
#include "search/ties.h"
#include "search_instance.h"
#include "sim/simulate.h"

#include <math.h>

/* Whether all overlaps are on that mean something for the plan: others are variants of such a one. */
static gboolean overlaps_all(const Instance *in, const Plan *plan)
{
  const Overlap *base = &in->base.overlap, *own = &plan->overlap;
  Plan all = *plan;

  if (in->options.fixed.value[KEY_OVERLAP] >= 0)
    return TRUE;
  all.overlap.gradients = base->gradients;
  all.overlap.parameters = base->parameters;
  all.overlap.tensor = base->tensor;
  plan_set_schedule(&all, plan->schedule, plan->vpp); /* and whether sends overlap */
  return !(space_switches(&all) & ~overlap_bits(own));
}

static double standing(const Instance *in, const Plan *plan, const Metrics *m)
{
  double share = m->peak_memory_bytes / in->cluster->device.memory_bytes;
  const Layout layout = layout_of(plan);
  const Accuracy *known = in->options.accuracy;

  return (known ? 1e6 * accuracy_beyond(known, in->model, &layout, in->cluster) : 0) + 1000.0 * plan_mechanisms(plan) +
         MAX(0, ceil((share - TIE_MEMORY_SAFE) / TIE_MEMORY_STEP));
}

/* Memory that one of the plans just misses. */
static void tighten(Instance *in, const GArray *peaks, GRand *rand)
{
  if (peaks->len > 0)
    in->cluster->device.memory_bytes =
      g_array_index(peaks, Metrics, g_rand_int_range(rand, 0, (int)peaks->len)).peak_memory_bytes * (1 - 1e-9);
}

static GArray *simulate_all(const Instance *in, const GArray *all)
{
  g_autoptr(PriceCache) known = price_cache_new(in->model, in->cluster);
  GArray *metrics = g_array_sized_new(FALSE, FALSE, sizeof(Metrics), all->len);

  g_array_set_size(metrics, all->len);
  for (guint i = 0; i < all->len; i++)
    instance_simulate(in, &g_array_index(all, Plan, i), known, &g_array_index(metrics, Metrics, i));
  return metrics;
}

/* All plans with every dispatcher too, of which the space leaves out those that are never faster. */
static void add_dispatchers(const Instance *in, GArray *all)
{
  guint n = in->options.fixed.value[KEY_DISPATCH] < 0 ? all->len : 0;

  for (guint i = 0; i < n; i++)
    for (int d = 0; d < DISPATCH_COUNT; d++) {
      Plan plan = g_array_index(all, Plan, i), other = plan;
      other.dispatch = d;
      if (plan_experts_apart(&plan) && d != (int)plan.dispatch && in->framework->dispatch >> d & 1 &&
          plan_check(&other, in->model, in->cluster, NULL) == RULE_NONE &&
          !excluded_newly(&other, &plan, in->model, in->cluster))
        g_array_append_val(all, other);
    }
}

/* Returns whether the first of the group is another plan than the fastest. */
static gboolean check_ties(Instance *in, double tie, GRand *rand)
{
  g_autoptr(GArray) all = instance_plans(in), metrics = NULL;

  add_dispatchers(in, all);
  metrics = simulate_all(in, all);
  tighten(in, metrics, rand);
  in->options.tie = tie;
  in->options.top = 1;
  g_autoptr(SearchResult) r = search(in->model, in->cluster, &in->options, NULL);
  if (r->best->len == 0)
    return FALSE;
  const Found *best = &g_array_index(r->best, Found, 0);
  double limit_s = best->metrics.iteration_s * (1 + tie), least = standing(in, &best->plan, &best->metrics);
  double fastest = best->metrics.iteration_s;
  for (guint i = 0; i < all->len; i++) {
    const Plan *plan = &g_array_index(all, Plan, i);
    const Metrics *m = &g_array_index(metrics, Metrics, i);
    if (!overlaps_all(in, plan) || m->iteration_s > limit_s || m->peak_memory_bytes > in->cluster->device.memory_bytes)
      continue;
    double at = standing(in, plan, m);
    fastest = at < least ? m->iteration_s : at == least ? MIN(fastest, m->iteration_s) : fastest;
    least = MIN(least, at);
  }
  ck_assert_double_le(r->robust.metrics.iteration_s, limit_s);
  ck_assert_double_le(r->robust.metrics.peak_memory_bytes, in->cluster->device.memory_bytes);
  ck_assert_double_eq(standing(in, &r->robust.plan, &r->robust.metrics), least);
  ck_assert_double_eq(r->robust.metrics.iteration_s, fastest);
  return least < standing(in, &best->plan, &best->metrics);
}

START_TEST(the_most_robust_is_found)
{
  GRand *rand = g_rand_new_with_seed(4000 + _i);
  g_autoptr(Accuracy) accuracy = accuracy_load(NULL);
  int others = 0;

  for (int i = 0; i < 40; i++) {
    Instance in;
    instance_small_init(&in, rand);
    in.options.objective = NULL;
    in.options.accuracy = i % 4 > 1 ? accuracy : NULL;
    if (i % 2) /* ties go by what a margin leaves */
      cluster_keep_free(in.cluster, 0.2);
    others += check_ties(&in, g_rand_double_range(rand, 0.001, 0.3), rand);
    instance_clear(&in);
  }
  ck_assert_int_gt(others, 0);
  g_rand_free(rand);
}
END_TEST

START_TEST(whole_frameworks_agree)
{
  static const char *const frameworks[] = { "megatron-core", "torchtitan", "deepspeed", "fsdp" };
  GRand *rand = g_rand_new_with_seed(4100 + _i);
  g_autoptr(Accuracy) accuracy = accuracy_load(NULL);

  for (int i = 0; i < 3; i++) {
    Instance in;
    instance_framework_init(&in, rand, frameworks[_i]);
    instance_fix(&in, rand);
    in.options.accuracy = i ? accuracy : NULL;
    check_ties(&in, g_rand_double_range(rand, 0.001, 0.1), rand);
    instance_clear(&in);
  }
  g_rand_free(rand);
}
END_TEST

START_TEST(nothing_ties_unless_asked)
{
  GRand *rand = g_rand_new_with_seed(4200);
  Instance in;

  instance_small_init(&in, rand);
  g_autoptr(SearchResult) r = search(in.model, in.cluster, &in.options, NULL);
  ck_assert_double_eq(r->robust.metrics.iteration_s, 0);
  instance_clear(&in);
  g_rand_free(rand);
}
END_TEST

static gboolean stop_at_once(gpointer data, const SearchProgress *at)
{
  (void)data;
  return at->best != NULL;
}

/* Who stopped a search is not kept waiting for what ties. */
START_TEST(a_stopped_search_looks_no_further)
{
  GRand *rand = g_rand_new_with_seed(4300);
  int open = 0;

  for (int i = 0; i < 30; i++) {
    Instance in;
    instance_small_init(&in, rand);
    in.options.tie = 0.3;
    in.options.watch = stop_at_once;
    g_autoptr(SearchResult) r = search(in.model, in.cluster, &in.options, NULL);
    if (r->open > 0 && r->best->len > 0) {
      open++;
      ck_assert_mem_eq(&r->robust, r->best->data, sizeof(Found));
    }
    instance_clear(&in);
  }
  ck_assert_int_gt(open, 0);
  g_rand_free(rand);
}
END_TEST

/* Of sets of modules that are made again, the one with memory to spare. Of each of the two seeds some of the first draws
 * notice a search that looks at no set but the fastest, or at those alone whose memory is not bounded anew. */
START_TEST(sets_of_modules_tie)
{
  GRand *rand = g_rand_new_with_seed(4221 + _i);
  int others = 0;

  for (int i = 0; i < 12; i += test_stride() > 1 ? 7 : 1) { /* with and without selective recomputation */
    Instance in;
    instance_latent_init(&in, rand);
    in.options.fixed.value[KEY_ZERO] = 1;
    in.options.fixed.value[KEY_RECOMPUTE] = i % 2 ? RECOMPUTE_SELECTIVE : -1;
    in.options.fixed.value[KEY_RECOMPUTE_MODULES] = i % 2 ? 0 : -1;
    others += check_ties(&in, g_rand_double_range(rand, 0.02, 0.3), rand);
    instance_clear(&in);
  }
  ck_assert(others > 0 || test_stride() > 1);
  g_rand_free(rand);
}
END_TEST

/* Where the space leaves the exchange of all ranks out, as never faster than one that is a mechanism more. */
START_TEST(plain_dispatchers_tie)
{
  GRand *rand = g_rand_new_with_seed(4500 + _i);
  g_autoptr(Accuracy) accuracy = accuracy_load(NULL);

  for (int i = 0; i < 4;) {
    Instance in;
    instance_framework_init(&in, rand, "megatron-core-2026");
    in.options.objective = NULL;
    if (i % 2 == 0)
      in.framework->dispatch &= ~(1u << DISPATCH_GATHER);
    in.options.fixed.value[KEY_EP] = 2;
    in.options.accuracy = i % 2 ? accuracy : NULL;
    in.options.fixed.value[KEY_RECOMPUTE] = RECOMPUTE_NONE;
    in.options.fixed.value[KEY_GRAPH] = GRAPH_NONE;
    if (model_has_experts(in.model) && ++i)
      check_ties(&in, g_rand_double_range(rand, 0.05, 0.5), rand);
    instance_clear(&in);
  }
  g_rand_free(rand);
}
END_TEST

/* A dispatcher is a mechanism where experts are on other ranks, else it means nothing. */
START_TEST(idle_dispatchers_do_not_count)
{
  g_autoptr(Framework) framework = fixture_framework("automodel-2026-01");
  g_autoptr(Model) model = fixture_experts(2, 256, 4, 4, 64, 256);
  Plan plan = plan_default(model, framework), divided;

  plan.gpus = plan.dp = 2;
  for (plan.dispatch = 0; plan.dispatch < DISPATCH_COUNT; plan.dispatch++) {
    divided = plan;
    divided.ep = 2;
    ck_assert_int_eq(plan_mechanisms(&plan), 0);
    ck_assert_int_eq(plan_mechanisms(&divided), plan.dispatch >= DISPATCH_FLEX ? 2 : 1);
  }
}
END_TEST

/* Of plans that tie, one that the answer itself trusts less comes last: ZeRO-2, which hardly any published run of this
 * engine has. */
START_TEST(what_was_measured_comes_first)
{
  g_autoptr(Accuracy) accuracy = accuracy_load(NULL);
  g_autoptr(Model) model = fixture_llama(8, 1024, 16, 16, 4096, 1000);
  g_autoptr(Cluster) cluster = fixture_cluster("dgx-a100-80gb", 8);
  g_autoptr(Framework) framework = fixture_framework("megatron-core-2026");
  Plan base = plan_default(model, framework);
  const Plan *robust[2];
  SearchResult *found[2];

  base.gpus = base.global_batch = 8;
  for (int i = 0; i < 2; i++) {
    SearchOptions options = { .base = &base, .fixed = fixed_none(), .top = 1, .threads = 1, .tie = 0.3,
                              .accuracy = i ? accuracy : NULL };
    ck_assert(fixed_parse("--fix", "tp=1,cp=1,mbs=1,recompute=none,schedule=1f1b", &options.fixed, NULL));
    options.fixed.value[KEY_ZERO] = i ? -1 : 2;
    found[i] = search(model, cluster, &options, NULL);
    ck_assert_uint_eq(found[i]->best->len, 1);
    robust[i] = &found[i]->robust.plan;
  }
  const Layout without = layout_of(robust[0]), with = layout_of(robust[1]);
  ck_assert_int_eq(accuracy_beyond(accuracy, model, &without, cluster), 1);
  ck_assert_int_eq(accuracy_beyond(accuracy, model, &with, cluster), 0);
  ck_assert_int_ne(robust[1]->zero, 2);
  search_result_free(found[0]);
  search_result_free(found[1]);
}
END_TEST

/* Of plans that differ in offloaded layers alone and take as long, the list has the one with fewest; the others leave
 * room for plans that are others. */
START_TEST(offloaded_layers_are_listed_once)
{
  g_autoptr(Model) model = model_load("models/llama-3.1-8b.json", NULL);
  g_autoptr(Cluster) cluster = fixture_cluster("gb200-nvl72", 68);
  g_autoptr(Framework) framework = fixture_framework("megatron-core-2026");
  Plan base = plan_default(model, framework);
  SearchOptions options = { .base = &base, .fixed = fixed_none(), .top = 6, .threads = 1 };
  int hosted = 0;

  base.gpus = 68;
  base.global_batch = 544;
  base.seq = 8192;
  g_autoptr(SearchResult) r = search(model, cluster, &options, NULL);
  ck_assert_uint_eq(r->best->len, 6);
  for (guint i = 0; i < r->best->len; i++) {
    const Found *f = &g_array_index(r->best, Found, i);
    hosted += f->plan.offload.layers > 0;
    for (guint j = 0; j < i; j++) {
      const Found *g = &g_array_index(r->best, Found, j);
      Plan plan = f->plan;
      plan.offload.layers = g->plan.offload.layers;
      ck_assert(!plan_same(&plan, &g->plan) || fabs(f->value - g->value) > 1e-9 * g->value);
    }
    Plan less = f->plan;
    less.offload.layers = MAX(0, less.offload.layers - 4); /* the next count of the space */
    g_autoptr(Trace) trace = simulate_plan(model, cluster, &less);
    Metrics m;
    trace_metrics(trace, &m);
    ck_assert(!f->plan.offload.layers || m.peak_memory_bytes > m.capacity_bytes ||
              fabs(m.iteration_s - f->value) > 1e-9 * f->value);
  }
  ck_assert_int_gt(hosted, 0);
}
END_TEST

static Found found_with(const Plan *base, int layers, gint64 family, gint64 variant, double value)
{
  Found f = { .plan = *base, .index = family + variant, .family = family, .value = value };

  f.plan.offload.layers = layers;
  f.plan.overlap.gradients = variant == 0;
  return f;
}

/* Plans in the order in which a search meets them, with the place in the space of each. */
static void check_list(const Found *met, gsize n, gint64 first, gint64 second)
{
  const SearchOptions options = { .fixed = fixed_none(), .top = 2 };
  SearchResult result = { .best = g_array_new(FALSE, FALSE, sizeof(Found)) };
  const Search s = { .options = &options, .result = &result };

  for (gsize i = 0; i < n; i++)
    search_keep(&s, &met[i]);
  search_close_list(&s);
  ck_assert_uint_eq(result.best->len, 2);
  ck_assert_int_eq(g_array_index(result.best, Found, 0).index, first);
  ck_assert_int_eq(g_array_index(result.best, Found, 1).index, second);
  g_array_unref(result.best);
}

/* Variants that differ in offloaded layers alone: one that is not listed takes no plan of its own family from the list,
 * and one that takes the places of two lets the plan behind them come back. */
START_TEST(lists_lose_no_place)
{
  g_autoptr(Model) model = fixture_llama(8, 256, 4, 4, 64, 256);
  g_autoptr(Framework) framework = fixture_framework("megatron-core");
  const Plan base = plan_default(model, framework);
  Plan other = base;

  other.micro_batch *= 2;
  const Found few = found_with(&base, 3, 10, 0, 6), few_variant = found_with(&base, 3, 10, 1, 5);
  const Found more = found_with(&base, 7, 20, 0, 6.3), more_variant = found_with(&base, 7, 20, 1, 5);
  const Found apart = found_with(&other, 0, 30, 0, 6.5);
  check_list((const Found[]) { few, more, few_variant, more_variant }, 4, few_variant.index, more.index);
  check_list((const Found[]) { few, apart, more_variant, few_variant }, 4, few_variant.index, apart.index);
}
END_TEST

TEST_LOOPS("search ties", { what_was_measured_comes_first, 1 }, { the_most_robust_is_found, 4, TRUE },
           { whole_frameworks_agree, 4, TRUE }, { nothing_ties_unless_asked, 1 }, { idle_dispatchers_do_not_count, 1 },
           { plain_dispatchers_tie, 4, TRUE },
           { a_stopped_search_looks_no_further, 1 }, { sets_of_modules_tie, 2, TRUE },
           { offloaded_layers_are_listed_once, 1 }, { lists_lose_no_place, 1 })
