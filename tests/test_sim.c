#include "fixture.h"
#include "main.h"
#include "program_check.h"
#include "sim/simulate.h"

#include <math.h>

/* One node of p devices, each `crowding` times as slow while all compute. */
static void crowd(Program *program, int p, double crowding)
{
  program->row_ranks = program->nodes = 1;
  program->node_devices = p;
  program->node_processors = p;
  program->crowds = crowding > 1;
  for (guint i = 0; i < program->segments->len; i++) {
    Segment *s = &g_array_index(program->segments, Segment, i);
    s->crowded_s = s->kind == TASK_PASS ? (crowding - 1) * s->seconds : 0;
  }
}

/* Prices in whole seconds a block, free communication. */
static Trace *run_crowded(const char *schedule, int p, int m, int v, double forward, double backward, double crowding)
{
  g_autoptr(Model) model = fixture_model(p * v, 64, 4, 32, 128);
  g_autoptr(Cluster) cluster = fixture_free_cluster(p);
  g_autoptr(Framework) framework = fixture_framework("megatron-core");
  g_autoptr(PriceTable) prices = fixture_prices(model, forward, backward, 1);
  Plan plan = plan_default(model, framework);
  GError *error = NULL;

  plan.gpus = plan.pp = p;
  plan.vpp = v;
  plan.global_batch = m;
  plan.schedule = schedule_find(schedule);
  ck_assert_msg(plan_check(&plan, model, cluster, &error) == RULE_NONE, "%s", error ? error->message : "");
  g_autoptr(Program) program = program_new(model, LAYOUT(&plan), cluster, prices);
  ck_assert_msg(program_check(program, &error), "%s", error ? error->message : "");
  crowd(program, p, crowding);
  return simulate(program);
}

static Trace *run_free(const char *schedule, int p, int m, int v, double forward, double backward)
{
  return run_crowded(schedule, p, m, v, forward, backward, 1);
}

/* GPipe of two stages and micro-batches, forward 1 s and backward 2 s: the stages
 * compute at once in the middle of the forwards and of the backwards. */
START_TEST(crowded_devices)
{
  g_autoptr(Trace) alone = run_crowded("gpipe", 2, 2, 1, 1, 2, 1);
  g_autoptr(Trace) crowded = run_crowded("gpipe", 2, 2, 1, 1, 2, 2);
  g_autoptr(Trace) naive = run_crowded("naive", 2, 2, 1, 1, 2, 2);

  ck_assert_double_eq_tol((alone->end_s - alone->step_s), 9, 1e-4);
  ck_assert_double_eq_tol((crowded->end_s - crowded->step_s), 1 + 2 + 1 + 2 + 4 + 2, 1e-4);
  ck_assert_double_eq_tol((naive->end_s - naive->step_s), 2 * 2 * (1 + 2), 1e-4); /* never two at once */
}
END_TEST

/* The bubble of GPipe and 1F1B is (p-1)/(m+p-1), interleaved (p-1)/(vm+p-1): the same double. */
START_TEST(bubbles_are_exact)
{
  for (int p = 2; p <= 8; p++)
    for (int m = p; m <= 3 * p; m += p)
      for (int v = 1; v <= 4; v++) {
        const char *const names[] = { "gpipe", "1f1b", "interleaved" };
        for (int s = v > 1 ? 2 : 0; s < (v > 1 ? 3 : 2); s++) {
          g_autoptr(Trace) trace = run_free(names[s], p, m, v, 1, 2);
          Metrics metrics;
          trace_metrics(trace, &metrics);
          ck_assert_msg(metrics.bubble_fraction == (p - 1.0) / (v * m + p - 1.0), "%s p=%d m=%d v=%d: %.17g", names[s],
                        p, m, v, metrics.bubble_fraction);
        }
      }
}
END_TEST

START_TEST(naive_idles)
{
  g_autoptr(Trace) trace = run_free("naive", 4, 8, 1, 1, 2);
  Metrics metrics;

  trace_metrics(trace, &metrics);
  ck_assert_double_eq(metrics.bubble_fraction, 3.0 / 4);
}
END_TEST

static void check_lanes(const Program *program, const Trace *trace)
{
  for (int lane = 0; lane < program->n_rows * LANE_COUNT; lane++)
    for (int i = program->lane_first[lane] + 1; i < program->lane_first[lane + 1]; i++)
      ck_assert_double_le(g_array_index(trace->spans, Span, program->lane_tasks[i - 1]).end,
                          g_array_index(trace->spans, Span, program->lane_tasks[i]).start);
}

static void check_dependencies(const Program *program, const Trace *trace)
{
  for (guint i = 0; i < program->tasks->len; i++) {
    const Task *t = &g_array_index(program->tasks, Task, i);
    for (int d = t->first_dep; d < t->first_dep + t->n_deps; d++)
      ck_assert_double_le(g_array_index(trace->spans, Span, program->deps[d]).end,
                          g_array_index(trace->spans, Span, i).start);
  }
}

/* The parts of the breakdown and of the peak add up; memory returns to where it was. */
static void check_metrics(const Trace *trace)
{
  Metrics m;
  double memory = 0;

  trace_metrics(trace, &m);
  ck_assert_double_eq_tol(m.compute_s + m.tensor_comm_s + m.context_comm_s + m.expert_comm_s + m.pipeline_comm_s +
                          m.data_comm_s + m.offload_s + m.optimizer_s + m.idle_s, m.iteration_s, 1e-9 * m.iteration_s);
  ck_assert_double_ge(m.idle_s, -1e-9 * m.iteration_s);
  for (int part = 0; part < PART_COUNT; part++)
    memory += m.memory[part];
  ck_assert_double_eq_tol(memory, m.peak_memory_bytes, 1);
  for (int row = 0; row < trace->n_rows; row++) {
    const GArray *points = trace->rows[row].points;
    const MemoryPoint *last = &g_array_index(points, MemoryPoint, points->len - 1);
    ck_assert_double_eq_tol(last->activations, 0, 1);
    ck_assert_double_eq_tol(last->buffers, 0, 1);
  }
}

static void remove_slowdowns(Program *program)
{
  for (guint i = 0; i < program->segments->len; i++)
    g_array_index(program->segments, Segment, i).slowdown = 1;
}

/* Random plans: sound programs, lanes in order, and without slowdowns the
 * engine agrees with the longest path to the last bit. */
START_TEST(random_plans)
{
  g_autoptr(Model) model = fixture_model(16, 256, 8, 64, 512);
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 8);
  g_autoptr(Framework) framework = fixture_framework("torchtitan"); /* runs every ZeRO stage with pipelines */
  GRand *rand = g_rand_new_with_seed(1);
  GError *error = NULL;
  int tried = 0;

  while (tried < 400) {
    Plan plan;
    if (!fixture_draw_plan(rand, model, cluster, framework, &plan))
      continue;
    tried++;
    g_autoptr(PriceTable) prices = price_table_new(model, LAYOUT(&plan), cluster);
    g_autoptr(Program) program = program_new(model, LAYOUT(&plan), cluster, prices);
    ck_assert_msg(program_check(program, &error), "%s", error ? error->message : "");
    g_autoptr(Trace) slowed = simulate(program);
    check_lanes(program, slowed);
    check_dependencies(program, slowed);
    check_metrics(slowed);
    remove_slowdowns(program);
    g_autoptr(Trace) trace = simulate(program);
    g_autofree double *end = g_new(double, program->tasks->len);
    ck_assert_double_eq(longest_path(program, end), trace->end_s);
    ck_assert_double_le(trace->end_s, slowed->end_s * (1 + 1e-12));
    for (guint i = 0; i < program->tasks->len; i++)
      ck_assert_double_eq(g_array_index(trace->spans, Span, i).end, end[i]);
  }
  g_rand_free(rand);
}
END_TEST

/* One row, a pass of 10 s beside a collective that halves its speed: when does the pass end? */
static double slowed_pass(double collective_s)
{
  Segment segments[] = { { .kind = TASK_PASS, .seconds = 10, .compute_s = 10, .slowdown = 1 },
                         { .kind = TASK_REDUCE, .seconds = collective_s, .slowdown = 2 } };
  Task tasks[] = { { .segment = 0, .lane = LANE_COMPUTE, .kind = TASK_PASS },
                   { .segment = 1, .lane = LANE_DATA, .kind = TASK_REDUCE } };
  int lane_first[] = { 0, 1, 1, 2, 2, 2 }, lane_tasks[] = { 0, 1 };
  ProgramRow row = { { 0 } };
  Program program = { .n_rows = 1, .rows = &row, .lane_first = lane_first, .lane_tasks = lane_tasks };

  program.segments = g_array_new(FALSE, FALSE, sizeof(Segment));
  program.tasks = g_array_new(FALSE, FALSE, sizeof(Task));
  g_array_append_vals(program.segments, segments, 2);
  g_array_append_vals(program.tasks, tasks, 2);
  g_autoptr(Trace) trace = simulate(&program);
  g_array_unref(program.segments);
  g_array_unref(program.tasks);
  return g_array_index(trace->spans, Span, 0).end;
}

START_TEST(slowdown_by_hand)
{
  ck_assert_double_eq(slowed_pass(4), 12);
  ck_assert_double_eq(slowed_pass(20), 20);
  ck_assert_double_eq(slowed_pass(100), 20);
}
END_TEST

START_TEST(same_bytes_again)
{
  g_autoptr(Trace) a = run_free("interleaved", 4, 8, 2, 1.1, 2.3);
  Trace *again = run_free("interleaved", 4, 8, 2, 1.1, 2.3);

  ck_assert_uint_eq(a->spans->len, again->spans->len);
  ck_assert_mem_eq(a->spans->data, again->spans->data, a->spans->len * sizeof(Span));
  trace_free(again);
}
END_TEST

TEST_MAIN("sim", crowded_devices, bubbles_are_exact, naive_idles, random_plans, slowdown_by_hand, same_bytes_again)
