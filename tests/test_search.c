#include "fixture.h"
#include "main.h"
#include "search/bound.h"
#include "search/search.h"
#include "sim/simulate.h"
#include "search/space.h"

#include <math.h>

typedef struct {
  Model *model;
  Cluster *cluster;
  Framework *framework;
  Plan base;
  SearchOptions options;
} Instance;

/* A small model on a few devices with little memory, drawn from the seed. */
static void instance_init(Instance *in, GRand *rand)
{
  static const int devices[] = { 1, 2, 4, 8, 16, 24 };
  static const char *const frameworks[] = { "megatron-core", "torchtitan", "deepspeed" };
  int heads = 1 << g_rand_int_range(rand, 1, 4);

  in->model = fixture_model(g_rand_int_range(rand, 2, 14), heads * 64, heads, 128, 512);
  in->model->position_rows = 0;
  in->cluster = fixture_cluster("dgx", devices[g_rand_int_range(rand, 0, 6)]);
  in->cluster->device.memory_bytes = 2.0e9 + g_rand_double_range(rand, 0, 6e8);
  in->framework = fixture_framework(frameworks[g_rand_int_range(rand, 0, 3)]);
  in->base = plan_default(in->model, in->framework);
  in->base.gpus = in->cluster->devices;
  in->base.global_batch = 8 * g_rand_int_range(rand, 1, 7);
  in->options = (SearchOptions) { .base = &in->base, .fixed = fixed_none(), .top = 3, .threads = 2 };
}

static void instance_clear(Instance *in)
{
  model_free(in->model);
  cluster_free(in->cluster);
  framework_free(in->framework);
}

static const Schedule *draw_schedule(GRand *rand)
{
  int n = 0;
  while (schedules[n])
    n++;
  return schedules[g_rand_int_range(rand, 0, n)];
}

/* Every legal plan simulated: bounds never exceed what comes out, and the best
 * that fits is what the search returns. */
static void check_instance(Instance *in)
{
  g_autoptr(GArray) all = g_array_new(FALSE, FALSE, sizeof(Candidate));
  SearchResult counts = { 0 };
  double best = INFINITY;
  gint64 fitting = 0;

  g_autoptr(PriceCache) prices = price_cache_new(in->model, in->cluster);

  space_walk(in->model, in->cluster, &in->options, prices, &counts, all);
  for (guint i = 0; i < all->len; i++) {
    const Plan *plan = &g_array_index(all, Candidate, i).plan;
    g_autoptr(Trace) trace = simulate_plan(in->model, in->cluster, plan);
    PriceSums *sums = price_sums_new(in->model, plan, in->cluster);
    g_autofree char *label = plan_label(plan);
    Metrics m;
    trace_metrics(trace, &m);
    ck_assert_msg(bound_time(in->model, plan, in->cluster, sums) <= m.iteration_s, "%s: bound %.9g, simulated %.9g", label,
                  bound_time(in->model, plan, in->cluster, sums), m.iteration_s);
    ck_assert_double_le(bound_memory(in->model, plan, sums), bound_memory_by_order(in->model, plan, sums) * (1 + 1e-9));
    ck_assert_msg(bound_memory_by_order(in->model, plan, sums) <= m.peak_memory_bytes, "%s: bound %.0f, simulated %.0f", label,
                  bound_memory_by_order(in->model, plan, sums), m.peak_memory_bytes);
    if (m.peak_memory_bytes <= in->cluster->device.memory_bytes) {
      fitting++;
      best = MIN(best, m.iteration_s);
    }
    price_sums_free(sums);
  }
  g_autoptr(SearchResult) found = search(in->model, in->cluster, &in->options);
  gint64 settled = found->bounded + found->simulated;
  for (int i = 0; i < REJECT_COUNT; i++)
    settled += found->rejected[i];
  ck_assert_int_eq(settled, found->space);
  ck_assert_int_eq(found->best->len, MIN(fitting, 3));
  if (fitting > 0)
    ck_assert_double_eq(g_array_index(found->best, Found, 0).metrics.iteration_s, best);
  else
    ck_assert(found->has_least || all->len == 0);
}

START_TEST(brute_force_agrees)
{
  GRand *rand = g_rand_new_with_seed(_i + 1);
  Instance in;

  instance_init(&in, rand);
  if (_i % 2)
    in.options.fixed.schedule = draw_schedule(rand);
  if (_i % 4 == 2)
    in.base.seq = 8192; /* long enough for context parallelism */
  check_instance(&in);
  instance_clear(&in);
  g_rand_free(rand);
}
END_TEST

START_TEST(threads_do_not_matter)
{
  g_autoptr(SearchResult) first = NULL;
  Instance in;
  GRand *rand = g_rand_new_with_seed(99);

  instance_init(&in, rand);
  in.cluster->device.memory_bytes = 4e9;
  for (int threads = 1; threads <= 4; threads++) {
    in.options.threads = threads;
    SearchResult *r = search(in.model, in.cluster, &in.options);
    if (!first) {
      first = r;
      continue;
    }
    ck_assert_int_eq(r->simulated, first->simulated);
    ck_assert_int_eq(r->bounded, first->bounded);
    ck_assert_mem_eq(r->best->data, first->best->data, r->best->len * sizeof(Found));
    search_result_free(r);
  }
  instance_clear(&in);
  g_rand_free(rand);
}
END_TEST

START_TEST(fix_is_read)
{
  GError *error = NULL;
  Fixed f;

  ck_assert(fixed_parse("tp=8, zero=1,recompute=full,schedule=gpipe", &f, &error));
  ck_assert_int_eq(f.tp, 8);
  ck_assert_int_eq(f.zero, 1);
  ck_assert_int_eq(f.recompute, RECOMPUTE_FULL);
  ck_assert_str_eq(f.schedule->name, "gpipe");
  ck_assert_int_eq(f.pp, -1);
  ck_assert(!fixed_parse("tp=x", &f, &error));
  test_error(&error, 2, "--fix: tp: x: expected an integer from 1 to 16777216");
  ck_assert(!fixed_parse("zero=4", &f, &error));
  test_error(&error, 2, "--fix: zero: 4: expected an integer from 0 to 3");
  ck_assert(!fixed_parse("tp", &f, &error));
  test_error(&error, 2, "--fix: tp: no value: expected KEY=VALUE, as in tp=8,zero=1");
  ck_assert(!fixed_parse("tp=8,tp=4", &f, &error));
  test_error(&error, 2, "--fix: tp: 4: expected each key once");
  ck_assert(!fixed_parse("", &f, &error));
  test_error(&error, 2, "--fix: \"\": no value: expected KEY=VALUE, as in tp=8,zero=1");
  ck_assert(!fixed_parse("tq=8", &f, &error));
  test_error(&error, 2, "--fix: tq: 8: expected one of the keys tp, pp, vpp, dp, cp, mbs, zero, shard, offload, sp, recompute, schedule");
}
END_TEST

START_TEST(fix_holds)
{
  Instance in;
  GRand *rand = g_rand_new_with_seed(5);

  instance_init(&in, rand);
  in.cluster->device.memory_bytes = 1e12;
  ck_assert(cluster_resize(in.cluster, 8, NULL));
  in.base.gpus = 8;
  ck_assert(fixed_parse("tp=2,dp=4,zero=3,mbs=1", &in.options.fixed, NULL));
  g_autoptr(SearchResult) r = search(in.model, in.cluster, &in.options);
  ck_assert_uint_gt(r->best->len, 0);
  for (guint i = 0; i < r->best->len; i++) {
    const Plan *p = &g_array_index(r->best, Found, i).plan;
    ck_assert(p->tp == 2 && p->dp == 4 && p->zero == 3 && p->micro_batch == 1);
  }
  instance_clear(&in);
  g_rand_free(rand);
}
END_TEST

TEST_LOOPS("search", { brute_force_agrees, 60 },
           { threads_do_not_matter },
           { fix_is_read },
           { fix_holds })
