/* What costs a plan most of what another choice would change, and what the plan takes with that choice. */
#include "main.h"
#include "planned.h"

#include "ask/largest.h"
#include "base/units.h"
#include "sim/simulate.h"

static Result result_for(const Planned *f)
{
  planned_accept(f);
  g_autoptr(Trace) trace = simulate_plan(f->model, f->cluster, &f->plan);
  return result_of(f->model, f->cluster, &f->plan, trace);
}

static void check_text(const Result *r, const char *expected)
{
  g_autofree char *text = largest_text(r);
  ck_assert_str_eq(text, expected);
}

static Metrics metrics_with(const Planned *f, Recompute recompute, CudaGraph graph)
{
  Plan plan = f->plan;
  Metrics m;

  plan.recompute = recompute;
  plan.graph = graph;
  g_autoptr(Trace) trace = simulate_plan(f->model, f->cluster, &plan);
  trace_metrics(trace, &m);
  return m;
}

/* "; with graph=full 5.00 ms (-10.0 %)" of the plan with other switches. */
static void check_switch(const char *text, const char *says, const Metrics *with, const Result *r)
{
  g_autofree char *step = format_seconds(with->iteration_s);
  g_autofree char *expected = g_strdup_printf("%s %s (%+.1f %%)", says, step,
                                              100 * (with->iteration_s / r->metrics.iteration_s - 1));
  ck_assert_msg(strstr(text, expected) != NULL, "%s: expected %s", text, expected);
}

/* A slow host is what costs most; both graphs of the framework spare it, and are simulated. One that has none names none. */
START_TEST(host)
{
  Planned f;

  planned_init(&f, fixture_model(2, 512, 8, 128, 1024), fixture_cluster("dgx", 8), "megatron-core-2026");
  planned_spread(&f, 1);
  f.framework->operation_s = 0;
  f.framework->issue_s = 1e-4;
  Result r = result_for(&f);
  g_autofree char *text = largest_text(&r);
  ck_assert(g_str_has_prefix(text, "Of what another choice would change, most goes to waits for the host"));
  Metrics partial = metrics_with(&f, RECOMPUTE_NONE, GRAPH_PARTIAL), full = metrics_with(&f, RECOMPUTE_NONE, GRAPH_FULL);
  check_switch(text, "With graph=partial the same plan takes", &partial, &r);
  check_switch(text, "; with graph=full", &full, &r);
  ck_assert_double_lt(full.iteration_s, 0.9 * r.metrics.iteration_s);
  f.framework->graphs = 1u << GRAPH_NONE;
  g_autofree char *alone = largest_text(&r);
  ck_assert(g_str_has_suffix(alone, " % of the step.\n"));
  ck_assert_ptr_null(strstr(alone, "graph"));
  planned_clear(&f);
}
END_TEST

/* Recomputation that the device's memory asks for: without, the plan is faster and does not fit. */
START_TEST(recomputation)
{
  Planned f;

  planned_init(&f, fixture_model(4, 4096, 32, 2048, 1024), fixture_cluster("dgx", 8), "megatron-core");
  planned_spread(&f, 4);
  f.plan.recompute = RECOMPUTE_FULL;
  Result r = result_for(&f);
  Metrics kept = metrics_with(&f, RECOMPUTE_NONE, GRAPH_NONE);
  g_autofree char *roomy = largest_text(&r);
  ck_assert(g_str_has_prefix(roomy, "Of what another choice would change, most goes to recomputation: "));
  check_switch(roomy, "With recompute=none the same plan takes", &kept, &r);
  ck_assert_double_lt(kept.iteration_s, r.metrics.iteration_s);
  ck_assert_ptr_null(strstr(roomy, "needs"));
  f.cluster->device.memory_bytes = (kept.peak_memory_bytes + r.metrics.peak_memory_bytes) / 2;
  g_autofree char *full = largest_text(&r);
  ck_assert_ptr_nonnull(strstr(full, ", but needs "));
  planned_clear(&f);
}
END_TEST

START_TEST(nothing)
{
  Planned f;

  planned_init(&f, fixture_model(2, 512, 8, 128, 1024), fixture_cluster("dgx", 8), "megatron-core");
  planned_spread(&f, 1);
  Result r = result_for(&f);
  r.parts.known = FALSE;
  check_text(&r, "");
  r.parts = (StepParts) { .known = TRUE, .compute_s = { [COMPUTE_PRODUCTS] = r.metrics.iteration_s } };
  r.metrics.data_comm_s = r.metrics.pipeline_comm_s = r.metrics.idle_s = 0;
  r.parts.compute_s[COMPUTE_UNEVEN] = 0.009 * r.metrics.iteration_s;
  check_text(&r, "");
  planned_clear(&f);
}
END_TEST

TEST_MAIN("largest", host, recomputation, nothing)
