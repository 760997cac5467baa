#include "fixture.h"
#include "main.h"
#include "sim/simulate.h"
#include "sim/sweep.h"

#include <math.h>

/* Peak of a trace's row without its static parts. */
static double trace_peak(const Trace *trace, int row)
{
  const GArray *points = trace->rows[row].points;
  double peak = 0;

  for (guint i = 0; i < points->len; i++) {
    const MemoryPoint *p = &g_array_index(points, MemoryPoint, i);
    peak = MAX(peak, p->activations + p->buffers);
  }
  return peak;
}

/* Tolerance 0 asks for the same double. */
static void check_near(double found, double expected, double tolerance)
{
  ck_assert_double_le(fabs(found - expected), tolerance * expected);
}

/* Every task of the sweep ends when the engine's does. Returns how many passes were slowed. */
static int compare(const Program *program, Sweep *sweep, double tolerance)
{
  g_autoptr(Trace) trace = simulate(program);
  double end_s = sweep_run(sweep, NULL);
  int slowed = 0;

  check_near(end_s, trace->end_s, tolerance);
  for (guint i = 0; i < program->tasks->len; i++) {
    const Span *span = &g_array_index(trace->spans, Span, i);
    double seconds = g_array_index(program->segments, Segment, span->segment).seconds;
    check_near(sweep_end(sweep, i), span->end, tolerance);
    slowed += span->end - span->start > seconds * (1 + 1e-9);
  }
  for (int row = 0; row < program->n_rows; row++)
    if (!isnan(sweep_row_peak(sweep, row)))
      ck_assert_double_eq(sweep_row_peak(sweep, row), trace_peak(trace, row));
  return slowed;
}

static void scale(Program *program, GRand *rand)
{
  for (guint i = 0; i < program->segments->len; i++)
    g_array_index(program->segments, Segment, i).seconds *= g_rand_double_range(rand, 0.5, 2);
}

/* Random plans, and the same with other durations in the same sweep. */
START_TEST(agrees_with_the_engine)
{
  g_autoptr(Model) model = fixture_model(16, 256, 8, 64, 512);
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 8);
  g_autoptr(Framework) framework = fixture_framework("torchtitan");
  GRand *rand = g_rand_new_with_seed(2);
  int slowed = 0;

  for (int tried = 0; tried < 300;) {
    Plan plan;
    if (!fixture_draw_plan(rand, model, cluster, framework, &plan))
      continue;
    tried++;
    g_autoptr(PriceTable) prices = price_table_new(model, LAYOUT(&plan), cluster);
    g_autoptr(Program) program = program_new(model, LAYOUT(&plan), cluster, prices);
    g_autoptr(Sweep) sweep = sweep_new(program);
    ck_assert_ptr_nonnull(sweep);
    slowed += compare(program, sweep, 1e-12);
    scale(program, rand);
    slowed += compare(program, sweep, 1e-12);
    for (guint i = 0; i < program->segments->len; i++)
      g_array_index(program->segments, Segment, i).slowdown = 1;
    g_autoptr(Sweep) plain = sweep_new(program);
    ck_assert_int_eq(compare(program, plain, 0), 0);
  }
  ck_assert_int_ge(slowed, 1000); /* else the test would not see slowdowns */
  g_rand_free(rand);
}
END_TEST

/* Durations of the caller's stand in for the program's. */
START_TEST(takes_other_durations)
{
  g_autoptr(Model) model = fixture_model(8, 64, 4, 32, 128);
  g_autoptr(Cluster) cluster = fixture_free_cluster(4);
  g_autoptr(Framework) framework = fixture_framework("megatron-core");
  g_autoptr(PriceTable) prices = fixture_prices(model, 1, 2, 1);
  Plan plan = plan_default(model, framework);

  plan.gpus = plan.pp = 4;
  plan.global_batch = 8;
  plan.schedule = schedule_find("1f1b");
  g_autoptr(Program) program = program_new(model, LAYOUT(&plan), cluster, prices);
  g_autoptr(Sweep) sweep = sweep_new(program);
  g_autofree double *seconds = g_new(double, program->segments->len);
  for (guint i = 0; i < program->segments->len; i++)
    seconds[i] = 3 * g_array_index(program->segments, Segment, i).seconds;
  double once = sweep_run(sweep, NULL);
  ck_assert_double_eq_tol(sweep_run(sweep, seconds) - program->step_s, 3 * (once - program->step_s), 1e-9 * once);
  ck_assert_double_eq(sweep_run(sweep, NULL), once);
}
END_TEST

/* A pass on each of two rows, each beside a collective that waits for the other row's pass. */
START_TEST(refuses_what_it_cannot_do)
{
  Segment segments[] = { { .kind = TASK_PASS, .seconds = 10, .compute_s = 10, .slowdown = 1 },
                         { .kind = TASK_REDUCE, .seconds = 4, .slowdown = 2 } };
  Task tasks[] = { { .segment = 0, .lane = LANE_COMPUTE, .kind = TASK_PASS, .row = 0 },
                   { .segment = 1, .lane = LANE_DATA, .kind = TASK_REDUCE, .row = 0, .n_deps = 1, .first_dep = 0 },
                   { .segment = 0, .lane = LANE_COMPUTE, .kind = TASK_PASS, .row = 1 },
                   { .segment = 1, .lane = LANE_DATA, .kind = TASK_REDUCE, .row = 1, .n_deps = 1, .first_dep = 1 } };
  int lane_first[] = { 0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 4 }, lane_tasks[] = { 0, 1, 2, 3 }, deps[] = { 2, 0 };
  ProgramRow rows[2] = { { { 0 } } };
  Program program = { .n_rows = 2, .rows = rows, .lane_first = lane_first, .lane_tasks = lane_tasks, .deps = deps };

  program.segments = g_array_new(FALSE, FALSE, sizeof(Segment));
  program.tasks = g_array_new(FALSE, FALSE, sizeof(Task));
  g_array_append_vals(program.segments, segments, 2);
  g_array_append_vals(program.tasks, tasks, 4);
  ck_assert_ptr_null(sweep_new(&program));
  deps[0] = 0;
  deps[1] = 2;
  g_autoptr(Sweep) sweep = sweep_new(&program);
  ck_assert_ptr_nonnull(sweep);
  ck_assert_double_eq(sweep_run(sweep, NULL), 14);
  g_array_unref(program.segments);
  g_array_unref(program.tasks);
}
END_TEST

TEST_MAIN("sweep", agrees_with_the_engine, takes_other_durations, refuses_what_it_cannot_do)
