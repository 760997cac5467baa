/* Plans near one: what they differ in, and that they are what is claimed of them. */
#include "main.h"

#include "fixture.h"
#include "search/nearby.h"
#include "sim/simulate.h"

#include <math.h>

typedef struct {
  Model *model;
  Cluster *cluster;
  Framework *framework;
  Plan plan;
} Case;

static Case llama(int gpus)
{
  Case c = { fixture_known_model("llama-3.1-8b"), fixture_cluster("dgx-h100", gpus),
             fixture_framework("megatron-core") };

  c.plan = plan_default(c.model, c.framework);
  c.plan.gpus = c.plan.dp = gpus;
  c.plan.global_batch = 8 * gpus;
  c.plan.seq = 4096;
  return c;
}

static void clear(Case *c)
{
  framework_free(c->framework);
  cluster_free(c->cluster);
  model_free(c->model);
}

static double simulated_s(const Case *c, const Plan *plan)
{
  Trace *trace = simulate_plan(c->model, c->cluster, plan);
  Metrics m;

  trace_metrics(trace, &m);
  trace_free(trace);
  return m.iteration_s;
}

/* Each is legal, fits, takes what a simulation of it says, and less than the one before. */
static void holds(const Case *c, const GArray *list, double from_s, gboolean path)
{
  double before = from_s;

  for (guint i = 0; i < list->len; i++) {
    const Nearby *n = &g_array_index(list, Nearby, i);
    ck_assert(plan_check(&n->plan, c->model, c->cluster, NULL) == RULE_NONE);
    ck_assert(n->metrics.peak_memory_bytes <= n->metrics.capacity_bytes);
    ck_assert_double_eq(n->metrics.iteration_s, simulated_s(c, &n->plan));
    ck_assert(path ? n->metrics.iteration_s < before : n->metrics.iteration_s < from_s);
    ck_assert(path || i == 0 || n->metrics.iteration_s >= before);
    ck_assert_int_eq(n->plan.gpus, c->plan.gpus);
    ck_assert_int_eq(n->plan.global_batch, c->plan.global_batch);
    before = n->metrics.iteration_s;
  }
}

static const char *change(const NearbyPlans *near, const char *part)
{
  for (guint i = 0; i < near->changes->len; i++)
    if (strstr(g_array_index(near->changes, Nearby, i).change, part))
      return part;
  return "";
}

START_TEST(poor_plan)
{
  Case c = llama(16);
  Plan *p = &c.plan;
  p->tp = 8;
  p->dp = 2;
  p->recompute = RECOMPUTE_FULL;
  p->zero = 1;
  p->overlap.gradients = p->overlap.parameters = FALSE;
  g_autoptr(NearbyPlans) near = nearby_plans(c.model, c.cluster, p, NULL, 1);

  ck_assert(near->legal && near->fits);
  ck_assert_double_eq(near->metrics.iteration_s, simulated_s(&c, p));
  ck_assert_str_eq(change(near, "recompute full -> none"), "recompute full -> none");
  ck_assert_str_eq(change(near, "tp 8 -> 4, "), "tp 8 -> 4, ");
  holds(&c, near->changes, near->metrics.iteration_s, FALSE);
  holds(&c, near->path, near->metrics.iteration_s, TRUE);
  ck_assert_uint_eq(near->path->len, NEARBY_CHANGES);
  ck_assert_str_eq(g_array_index(near->path, Nearby, 0).change, g_array_index(near->changes, Nearby, 0).change);
  clear(&c);
}
END_TEST

/* From where nothing more is gained there is no path. */
START_TEST(the_end_of_a_path)
{
  Case c = llama(8);
  c.plan.tp = 4;
  c.plan.dp = 2;
  Plan at = c.plan;
  for (int i = 0; i < 6; i++) {
    g_autoptr(NearbyPlans) near = nearby_plans(c.model, c.cluster, &at, NULL, 1);
    if (near->path->len == 0) {
      clear(&c);
      return;
    }
    at = g_array_index(near->path, Nearby, near->path->len - 1).plan;
  }
  ck_abort_msg("a path without an end");
}
END_TEST

/* A plan that is none, or does not fit, is led to one that does. */
START_TEST(plans_that_do_not_run)
{
  Case c = llama(8);
  g_autoptr(NearbyPlans) whole = nearby_plans(c.model, c.cluster, &c.plan, NULL, 1);
  ck_assert(whole->legal && !whole->fits); /* 8 G parameters with states on each */
  ck_assert_uint_gt(whole->path->len, 0);
  holds(&c, whole->changes, INFINITY, FALSE);
  c.plan.tp = 8;
  c.plan.dp = 1;
  c.plan.micro_batch = 24; /* does not divide the batch */
  g_autoptr(NearbyPlans) none = nearby_plans(c.model, c.cluster, &c.plan, NULL, 1);
  ck_assert(!none->legal);
  holds(&c, none->changes, INFINITY, FALSE);
  clear(&c);
}
END_TEST

/* Where no change alone fits, the path goes by less memory, and ends at what fits; where nothing does, there is none. */
START_TEST(few_changes_make_it_fit)
{
  Case c = llama(8);
  double bytes;

  c.plan.tp = 2;
  c.plan.dp = 4;
  c.plan.micro_batch = 16;
  cluster_keep_free(c.cluster, 0.4);
  g_autoptr(NearbyPlans) near = nearby_plans(c.model, c.cluster, &c.plan, NULL, 1);
  ck_assert(near->legal && !near->fits && near->changes->len == 0);
  ck_assert_uint_gt(near->path->len, 1);
  bytes = near->metrics.peak_memory_bytes;
  for (guint i = 0; i < near->path->len; i++) {
    const Nearby *n = &g_array_index(near->path, Nearby, i);
    g_autofree char *change = nearby_change(i ? &g_array_index(near->path, Nearby, i - 1).plan : &c.plan, &n->plan);
    ck_assert(plan_check(&n->plan, c.model, c.cluster, NULL) == RULE_NONE);
    ck_assert_double_eq(n->metrics.iteration_s, simulated_s(&c, &n->plan));
    ck_assert_double_lt(n->metrics.peak_memory_bytes, bytes);
    ck_assert_str_eq(n->change, change);
    bytes = n->metrics.peak_memory_bytes;
  }
  ck_assert_double_le(bytes, g_array_index(near->path, Nearby, near->path->len - 1).metrics.capacity_bytes);
  c.cluster->device.memory_bytes /= 20;
  g_autoptr(NearbyPlans) none = nearby_plans(c.model, c.cluster, &c.plan, NULL, 1);
  ck_assert(!none->fits && none->path->len == 0);
  clear(&c);
}
END_TEST

START_TEST(threads_are_no_matter)
{
  Case c = llama(16);
  c.plan.tp = 8;
  c.plan.dp = 2;
  g_autoptr(NearbyPlans) one = nearby_plans(c.model, c.cluster, &c.plan, NULL, 1);
  g_autoptr(NearbyPlans) two = nearby_plans(c.model, c.cluster, &c.plan, NULL, 2);

  ck_assert_uint_eq(one->changes->len, two->changes->len);
  for (guint i = 0; i < one->changes->len; i++)
    ck_assert_str_eq(g_array_index(one->changes, Nearby, i).change, g_array_index(two->changes, Nearby, i).change);
  clear(&c);
}
END_TEST

static gboolean counted(gpointer data)
{
  return --*(int *)data <= 0;
}

/* What is known by then is true, and no less of it than one change after enough time. */
START_TEST(stops_are_heard)
{
  Case c = llama(16);
  guint last = 0;
  int all = 1 << 20;

  c.plan.tp = 8;
  c.plan.dp = 2;
  c.plan.recompute = RECOMPUTE_FULL;
  Stop never = { counted, &all };
  g_autoptr(NearbyPlans) whole = nearby_plans(c.model, c.cluster, &c.plan, &never, 1);
  all = (1 << 20) - all; /* times that it asked */
  ck_assert_int_gt(all, 20);
  for (int asks = 1; asks <= all; asks += all / 8) {
    int left = asks;
    Stop stop = { counted, &left };
    g_autoptr(NearbyPlans) near = nearby_plans(c.model, c.cluster, &c.plan, &stop, 1);
    ck_assert(stop.asked && near->legal && near->fits);
    ck_assert_double_eq(near->metrics.iteration_s, whole->metrics.iteration_s);
    holds(&c, near->changes, near->metrics.iteration_s, FALSE);
    holds(&c, near->path, near->metrics.iteration_s, TRUE);
    ck_assert_uint_ge(near->changes->len, last);
    last = near->changes->len;
    ck_assert(asks > 1 || (near->changes->len == 0 && near->path->len == 0));
  }
  ck_assert_uint_gt(last, 0);
  clear(&c);
}
END_TEST

/* Words of rankings: short names, on and off, no brackets. A switch that one plan alone writes is the contrary in the
 * other. */
START_TEST(changes_are_short)
{
  g_autoptr(Model) model = model_load("models/llama-3.1-8b.json", NULL);
  g_autoptr(Framework) framework = fixture_framework("deepspeed");
  Plan before = plan_default(model, framework), after = before;

  before.zero = after.zero = 3;
  after.sharding.bucket = 2e8;
  after.sharding.keeps_gathered = after.comm_chunks = TRUE;
  after.overlap.parameters = !before.overlap.parameters;
  after.recompute = RECOMPUTE_SELECTIVE;
  after.scope.modules = 1u << MODULE_MLP | 1u << MODULE_LAYERNORM;
  g_autofree char *there = nearby_change(&before, &after), *back = nearby_change(&after, &before);
  const char *on = before.overlap.parameters ? "on" : "off", *off = before.overlap.parameters ? "off" : "on";
  g_autofree char *overlap = g_strdup_printf("overlap: parameters %s -> %s", on, off);
  ck_assert_msg(strstr(there, "tp_overlap off -> on"), "%s", there);
  ck_assert_msg(strstr(there, "reshard on -> off"), "%s", there);
  ck_assert_msg(strstr(there, ", reduce_bucket_size - -> 200000000"), "%s", there);
  ck_assert_msg(strstr(there, overlap), "%s", there);
  ck_assert_msg(strstr(there, "recompute_modules - -> layernorm,mlp"), "%s", there);
  ck_assert_msg(strstr(back, "tp_overlap on -> off"), "%s", back);
  ck_assert_msg(strstr(back, "reshard off -> on"), "%s", back);
  ck_assert_msg(strstr(back, ", reduce_bucket_size 200000000 -> -"), "%s", back);
  ck_assert_msg(!strpbrk(there, "{[\""), "%s", there);
}
END_TEST

TEST_MAIN("nearby", poor_plan, the_end_of_a_path, plans_that_do_not_run, few_changes_make_it_fit,
          threads_are_no_matter, stops_are_heard, changes_are_short)
