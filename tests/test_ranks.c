#include "kineto/groups.h"
#include "main.h"

#include "cost/slowest.h"
#include "planned.h"
#include "sim/ranks.h"
#include "sim/simulate.h"

#include <math.h>

static void setup_of(Planned *f, Model *model, const char *framework, int tp, int dp, int pp)
{
  planned_init(f, model, fixture_cluster("dgx", 8), framework);
  planned_divide(f, tp, pp, dp);
  f->plan.global_batch = 8 * dp;
  f->plan.schedule = schedule_find("1f1b");
}

static void setup(Planned *f, int tp, int dp, int pp)
{
  setup_of(f, fixture_model(12, 1536, 12, 64, 512), "torchtitan", tp, dp, pp);
}

static void check_near(double found, double expected)
{
  ck_assert_double_le(fabs(found - expected), 1e-9 * fabs(expected) + 1e-15);
}

static void check_traces(const Trace *full, const Trace *folded)
{
  Metrics a, b;

  for (guint i = 0; i < folded->spans->len; i++) {
    const Span *x = &g_array_index(full->spans, Span, i), *y = &g_array_index(folded->spans, Span, i);
    check_near(x->start, y->start);
    check_near(x->end, y->end);
    check_near(x->exposed_tensor_s, y->exposed_tensor_s);
    ck_assert_int_eq(x->row, y->row);
  }
  trace_metrics(full, &a);
  trace_metrics(folded, &b);
  check_near(a.iteration_s, b.iteration_s);
  check_near(a.bubble_fraction, b.bubble_fraction);
  check_near(a.compute_s, b.compute_s);
  check_near(a.peak_memory_bytes, b.peak_memory_bytes);
  check_near(a.hardware_flops, b.hardware_flops);
}

/* Every rank does what its row does, within a tolerance of each time; 0 asks for the same double. Returns how many
 * passes were slowed. */
static int check_folded(const Program *program, const Layout *layout, const Cluster *cluster, double tolerance)
{
  g_autoptr(Trace) folded = simulate(program);
  g_autoptr(RankRun) run = simulate_ranks(program, layout, cluster, NULL, 0);
  int slowed = 0;

  ck_assert_int_eq(run->n_rows * run->replicas, layout->passes.ranks);
  ck_assert_double_le(fabs(run->end_s - folded->end_s), tolerance * folded->end_s);
  check_traces(run->trace, folded);
  for (guint i = 0; i < folded->spans->len; i++) {
    const Span *x = &g_array_index(run->trace->spans, Span, i), *y = &g_array_index(folded->spans, Span, i);
    double seconds = g_array_index(program->segments, Segment, y->segment).seconds;
    ck_assert_double_le(fabs(x->end - y->end), tolerance * y->end);
    slowed += y->end - y->start > seconds * (1 + 1e-9);
  }
  for (int rank = 0; rank < layout->passes.ranks; rank++)
    check_near(run->pass_s[rank], run->pass_s[rank - rank % run->replicas]);
  return slowed;
}

/* Powers of two fall evenly on nodes. */
START_TEST(full_is_folded)
{
  g_autoptr(Model) model = fixture_model(16, 256, 8, 64, 512);
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 8);
  g_autoptr(Framework) framework = fixture_framework("torchtitan");
  GRand *rand = g_rand_new_with_seed(3);
  int slowed = 0;

  for (int tried = 0; tried < 200;) {
    Plan plan;
    if (!fixture_draw_plan(rand, model, cluster, framework, &plan))
      continue;
    tried++;
    g_autoptr(PriceTable) prices = price_table_new(model, LAYOUT(&plan), cluster);
    g_autoptr(Program) program = program_new(model, LAYOUT(&plan), cluster, prices);
    slowed += check_folded(program, LAYOUT(&plan), cluster, 1e-12);
    for (guint i = 0; i < program->segments->len; i++)
      g_array_index(program->segments, Segment, i).slowdown = 1;
    ck_assert_int_eq(check_folded(program, LAYOUT(&plan), cluster, 0), 0);
  }
  ck_assert_int_ge(slowed, 300); /* else the test would not see slowdowns */
  g_rand_free(rand);
}
END_TEST

/* DeepSpeed's Muon sums whole gradients over the ranks that share states, which are the replicas or a group of them. */
START_TEST(whole_sums_stay_in_their_group)
{
  for (int group = 0; group <= 4; group += 4) {
    Planned f;
    planned_init(&f, fixture_model(8, 256, 8, 64, 512), fixture_cluster("dgx", 16), "deepspeed");
    planned_divide(&f, 2, 1, 8);
    f.plan.global_batch = 16;
    f.plan.zero = 3;
    f.plan.optimizer.name = OPTIMIZER_MUON;
    f.framework->shard_groups = TRUE;
    f.plan.shard_group = group;
    planned_build(&f);
    check_folded(f.program, LAYOUT(&f.plan), f.cluster, 1e-12);
    int across = 0, sums = 0;
    for (guint i = 0; i < f.program->segments->len; i++) {
      const Segment *s = &g_array_index(f.program->segments, Segment, i);
      sums += s->kind == TASK_REDUCE && s->collective == COLLECTIVE_ALL_REDUCE;
      across += s->across;
      if (s->kind == TASK_REDUCE)
        ck_assert_int_eq(group_of_segment(LAYOUT(&f.plan), s) == GROUP_SHARD_COPIES, s->across);
    }
    ck_assert_int_gt(sums, across);
    ck_assert_int_eq(across > 0, group > 0);
    planned_clear(&f);
  }
}
END_TEST

/* A pass on each of two rows, each beside what slows it and waits for the other row's pass; of a kind that takes the
 * same time wherever its ranks are. */
START_TEST(refuses_what_it_cannot_do)
{
  Planned f;
  Segment segments[] = { { .kind = TASK_PASS, .seconds = 10, .compute_s = 10, .slowdown = 1 },
                         { .kind = TASK_OPTIMIZER, .seconds = 4, .compute_s = 4, .slowdown = 2 } };
  Task tasks[] = { { .segment = 0, .lane = LANE_COMPUTE, .kind = TASK_PASS, .row = 0 },
                   { .segment = 1, .lane = LANE_DATA, .kind = TASK_OPTIMIZER, .row = 0, .n_deps = 1, .first_dep = 0 },
                   { .segment = 0, .lane = LANE_COMPUTE, .kind = TASK_PASS, .row = 1 },
                   { .segment = 1, .lane = LANE_DATA, .kind = TASK_OPTIMIZER, .row = 1, .n_deps = 1, .first_dep = 1 } };
  int lane_first[] = { 0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 4 }, lane_tasks[] = { 0, 1, 2, 3 }, deps[] = { 2, 0 };
  ProgramRow rows[2] = { { { 0 } } };
  Program program = { .n_rows = 2, .rows = rows, .lane_first = lane_first, .lane_tasks = lane_tasks, .deps = deps };

  setup(&f, 1, 1, 2);
  program.segments = g_array_new(FALSE, FALSE, sizeof(Segment));
  program.tasks = g_array_new(FALSE, FALSE, sizeof(Task));
  g_array_append_vals(program.segments, segments, 2);
  g_array_append_vals(program.tasks, tasks, 4);
  ck_assert_ptr_null(simulate_ranks(&program, LAYOUT(&f.plan), f.cluster, NULL, 0));
  deps[0] = 0;
  deps[1] = 2;
  g_autoptr(RankRun) run = simulate_ranks(&program, LAYOUT(&f.plan), f.cluster, NULL, 0);
  ck_assert_ptr_nonnull(run);
  ck_assert_double_eq(run->end_s, 14);
  g_array_unref(program.segments);
  g_array_unref(program.tasks);
  planned_clear(&f);
}
END_TEST

/* Hosts that launch as fast as devices compute. */
static void hide_nothing(Planned *f)
{
  for (guint i = 0; i < f->program->segments->len; i++)
    g_array_index(f->program->segments, Segment, i).slack_s = 0;
}

/* A straggler of factor k without tensor parallelism or pipeline: its passes
 * take k times as long, everybody ends when it does. */
START_TEST(straggler_by_hand)
{
  Planned f;
  const Straggler straggler = { 3, 1.5 };

  setup(&f, 1, 4, 1);
  f.plan.overlap.gradients = FALSE;
  planned_build(&f);
  hide_nothing(&f);
  g_autoptr(RankRun) alike = simulate_ranks(f.program, LAYOUT(&f.plan), f.cluster, NULL, 0);
  g_autoptr(RankRun) run = simulate_ranks(f.program, LAYOUT(&f.plan), f.cluster, &straggler, 1);
  check_near(run->pass_s[3], 1.5 * alike->pass_s[3]);
  check_near(run->pass_s[2], alike->pass_s[2]);
  ck_assert_int_eq(run->slowest, 3);
  double optimizer = 0;
  for (guint i = 0; i < f.program->tasks->len; i++)
    if (g_array_index(f.program->tasks, Task, i).kind == TASK_OPTIMIZER)
      optimizer = g_array_index(f.program->segments, Segment, g_array_index(f.program->tasks, Task, i).segment).seconds;
  check_near(run->end_s - alike->end_s, 0.5 * (alike->pass_s[3] + optimizer));
  planned_clear(&f);
}
END_TEST

/* Passes of a rank of four, of a model that its host launches slower than devices compute; all of them priced `behind`
 * times as long, or one of them a straggler. */
static double launched_s(double behind, double straggling)
{
  const Straggler straggler = { 2, straggling };
  Planned f;

  setup_of(&f, fixture_model(12, 1536, 12, 64, 512), "megatron-core-2026", 1, 4, 1);
  f.plan.overlap.gradients = FALSE;
  f.cluster->device.rate_spread = (behind - 1) / expected_largest(4);
  planned_build(&f);
  g_autoptr(RankRun) run = simulate_ranks(f.program, LAYOUT(&f.plan), f.cluster, &straggler, 1);
  double seconds = run->pass_s[2];
  planned_clear(&f);
  return seconds;
}

/* A device whose host is behind computes slower in the time that it would stand still: its passes take what they take where
 * all devices are priced that much slower. */
START_TEST(hosts_hide_stragglers)
{
  static const double factors[] = { 1.02, 1.3, 2, 4, 16 };
  double slower = launched_s(factors[_i], 1);

  ck_assert_double_eq_tol(launched_s(1, factors[_i]) / slower, 1, 0.02);
  ck_assert_double_lt(slower, 0.99 * factors[_i] * launched_s(1, 1));
}
END_TEST

/* Its tensor group goes with it; other groups wait at the reduction only. */
START_TEST(straggler_slows_its_group)
{
  Planned f;
  const Straggler straggler = { 1, 2 };

  setup(&f, 4, 2, 2);
  f.plan.overlap.gradients = FALSE;
  planned_build(&f);
  g_autoptr(RankRun) alike = simulate_ranks(f.program, LAYOUT(&f.plan), f.cluster, NULL, 0);
  g_autoptr(RankRun) run = simulate_ranks(f.program, LAYOUT(&f.plan), f.cluster, &straggler, 1);
  for (int rank = 0; rank < 4; rank++)
    ck_assert_double_gt(run->pass_s[rank], 1.2 * alike->pass_s[rank]);
  for (int rank = 4; rank < 8; rank++)
    check_near(run->pass_s[rank], alike->pass_s[rank]);
  ck_assert_double_gt(run->end_s, alike->end_s);
  ck_assert_int_lt(run->slowest, 4);
  planned_clear(&f);
}
END_TEST

/* But where replicas sum each micro-batch's loss they wait for it there, on the last stage. */
START_TEST(straggler_slows_those_that_sum_losses)
{
  Planned f;
  const Straggler straggler = { 4, 2 };

  setup(&f, 2, 2, 2);
  f.plan.overlap.gradients = FALSE;
  f.framework->losses_summed = TRUE;
  planned_build(&f);
  g_autoptr(RankRun) alike = simulate_ranks(f.program, LAYOUT(&f.plan), f.cluster, NULL, 0);
  g_autoptr(RankRun) run = simulate_ranks(f.program, LAYOUT(&f.plan), f.cluster, &straggler, 1);
  for (int rank = 0; rank < 4; rank++)
    check_near(run->pass_s[rank], alike->pass_s[rank]);
  for (int rank = 4; rank < 8; rank++)
    ck_assert_double_gt(run->pass_s[rank], 1.2 * alike->pass_s[rank]);
  planned_clear(&f);
}
END_TEST

/* 4 stages of 6 ranks on nodes of 8: the folded row takes every boundary and
 * group for as spread as the worst; real ones are faster, never slower. */
START_TEST(uneven_placement)
{
  Planned f;

  setup(&f, 2, 3, 4);
  planned_build(&f);
  g_autoptr(Trace) folded = simulate(f.program);
  g_autoptr(RankRun) run = simulate_ranks(f.program, LAYOUT(&f.plan), f.cluster, NULL, 0);

  ck_assert_double_lt(run->end_s, folded->end_s);
  planned_clear(&f);
}
END_TEST

/* Seconds of the first sum of gradients in each of 4 stages of 6 ranks on nodes of 8. */
static void sum_seconds(int cp, int shard_group, double seconds[4])
{
  Planned f;

  setup(&f, 1, 6, 4);
  f.plan.cp = cp;
  f.plan.dp = 6 / cp;
  f.plan.zero = shard_group ? 2 : 0;
  f.plan.shard_group = shard_group;
  f.plan.overlap.gradients = FALSE;
  planned_accept(&f);
  planned_build(&f);
  g_autoptr(RankRun) run = simulate_ranks(f.program, LAYOUT(&f.plan), f.cluster, NULL, 0);
  for (guint i = run->trace->spans->len; i-- > 0;) {
    const Span *s = &g_array_index(run->trace->spans, Span, i);
    if (s->kind == TASK_REDUCE)
      seconds[s->row] = s->end - s->start;
  }
  planned_clear(&f);
}

/* The same ranks hold the same weights, however these are divided over context and data: the last stage's lie in one
 * node, the second one's in two. */
START_TEST(context_ranks_are_replicas)
{
  double data[4], both[4], parts[4];

  sum_seconds(1, 0, data);
  sum_seconds(2, 0, both);
  for (int stage = 0; stage < 4; stage++)
    check_near(both[stage], data[stage]);
  ck_assert_double_gt(data[1], 2 * data[3]);
  sum_seconds(1, 3, parts);
  ck_assert_double_gt(parts[1], 2 * parts[3]);
}
END_TEST

START_TEST(same_bytes_again)
{
  Planned f;
  const Straggler stragglers[] = { { 5, 1.1 }, { 7, 1.3 } };

  setup(&f, 2, 4, 2);
  f.plan.zero = 2;
  planned_build(&f);
  g_autoptr(RankRun) a = simulate_ranks(f.program, LAYOUT(&f.plan), f.cluster, stragglers, 2);
  g_autoptr(RankRun) b = simulate_ranks(f.program, LAYOUT(&f.plan), f.cluster, stragglers, 2);
  ck_assert_mem_eq(a->pass_s, b->pass_s, 16 * sizeof(double));
  ck_assert_mem_eq(a->finish_s, b->finish_s, 16 * sizeof(double));
  ck_assert_double_eq(a->end_s, b->end_s);
  planned_clear(&f);
}
END_TEST

/* Where all replicas get whole sums, gradients travel in the data group, though ZeRO divides over some of its ranks. */
START_TEST(whole_sums_are_of_all_replicas)
{
  Layout layout = { .states = { { .copies = 2, .sums_at_once = TRUE } } };
  const Segment sum = { .kind = TASK_REDUCE }, gather = { .kind = TASK_GATHER };
  const Segment across = { .kind = TASK_REDUCE, .across = TRUE };

  ck_assert_int_eq(group_of_segment(&layout, &sum), GROUP_DATA);
  ck_assert_int_eq(group_of_segment(&layout, &gather), GROUP_SHARDS);
  layout.states[0].sums_at_once = FALSE;
  ck_assert_int_eq(group_of_segment(&layout, &sum), GROUP_SHARDS);
  ck_assert_int_eq(group_of_segment(&layout, &across), GROUP_SHARD_COPIES);
  layout.states[0].copies = 1;
  ck_assert_int_eq(group_of_segment(&layout, &sum), GROUP_DATA);
}
END_TEST

TEST_LOOPS("ranks", { full_is_folded, 1 }, { whole_sums_stay_in_their_group, 1 }, { whole_sums_are_of_all_replicas, 1 },
           { straggler_by_hand, 1 }, { hosts_hide_stragglers, 5 },
           { straggler_slows_its_group, 1 }, { straggler_slows_those_that_sum_losses, 1 },
           { uneven_placement, 1 }, { context_ranks_are_replicas, 1 },
           { same_bytes_again, 1 }, { refuses_what_it_cannot_do, 1 })
