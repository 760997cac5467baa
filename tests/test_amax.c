/* What ranks do to agree on delayed scales. */
#include "main.h"
#include "planned.h"

#include "cost/algorithms.h"
#include "cost/kernel.h"
#include "cost/slowest.h"

enum { BLOCKS = 16, TP = 2, DP = 4, GROUP = TP * DP };

static void setup(Planned *f, const char *framework, int pp, int chunks)
{
  planned_init(f, fixture_llama(BLOCKS, 4096, 32, 32, 4096, 1024), fixture_cluster("dgx-h100", GROUP * pp), framework);
  planned_spread(f, 1);
  planned_divide(f, TP, pp, DP);
  plan_set_schedule(&f->plan, schedule_find(chunks > 1 ? "interleaved" : "1f1b"), chunks);
  f->cluster->device.rate_passing = 0; /* what they wait for the slowest is another matter */
  f->plan.sequence_parallel = TRUE;
  f->plan.global_batch = 4 * DP * pp;
  f->plan.overlap.gradients = f->plan.overlap.parameters = FALSE;
  plan_set_format(&f->plan, DTYPE_FP8);
  f->plan.fp8_recipe = FP8_DELAYED;
}

/* Seconds of all passes of a row, of which there are so many of a direction. */
static double passes_s(const Planned *f, int row, Pass pass, int *n)
{
  double sum = 0;

  *n = 0;
  for (guint i = 0; i < f->program->tasks->len; i++) {
    const Task *t = &g_array_index(f->program->tasks, Task, i);
    if (t->row != row || t->kind != TASK_PASS || t->pass != pass)
      continue;
    sum += g_array_index(f->program->segments, Segment, t->segment).seconds;
    (*n)++;
  }
  return sum;
}

/* A sum of some hundred bytes over all ranks of a stage, and two kernels, three of Transformer Engine's values a product
 * forward and two backward, of all blocks of a rank. */
static double one_s(const Planned *f, int blocks, int values)
{
  GroupShape group = group_shape(f->cluster, GROUP, 1);
  double bytes = 4.0 * 4 * values * blocks;

  ck_assert_int_eq(group.size, GROUP);
  return collective_cost(f->cluster, COLLECTIVE_ALL_REDUCE, bytes, &group).seconds + f->framework->collective_s +
         memory_s(&f->cluster->device, 2 * bytes, 1) + memory_s(&f->cluster->device, 4 * bytes, 1);
}

/* Each chunk's forward and backward of each micro-batch take one more, whatever they are cut into. */
START_TEST(one_for_each_pass_of_a_chunk)
{
  static const struct {
    int pp, chunks;
    gboolean cut; /* backwards into buckets of gradients */
  } cases[] = { { 1, 1, FALSE }, { 1, 1, TRUE }, { 2, 1, FALSE }, { 2, 4, FALSE }, { 2, 4, TRUE } };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    Planned f;
    setup(&f, "megatron-core", cases[i].pp, cases[i].chunks);
    f.plan.overlap.gradients = cases[i].cut;
    f.plan.sharding.bucket = cases[i].cut ? 1e6 : 0;
    for (int row = 0; row < cases[i].pp; row++)
      for (int back = 0; back < 2; back++) {
        int n, same, times = 4 * cases[i].pp * cases[i].chunks;
        f.framework->reduced_amax = FALSE;
        planned_build(&f);
        double without = passes_s(&f, row, back ? PASS_BACKWARD : PASS_FORWARD, &n);
        f.framework->reduced_amax = TRUE;
        planned_build(&f);
        double with = passes_s(&f, row, back ? PASS_BACKWARD : PASS_FORWARD, &same);
        ck_assert_int_eq(n, same);
        ck_assert_int_ge(n, times);
        ck_assert(!cases[i].cut || !back || n > times);
        ck_assert_double_eq_tol(with - without, times * one_s(&f, BLOCKS / cases[i].pp, back ? 2 : 3), 1e-9);
      }
    planned_clear(&f);
  }
}
END_TEST

/* It is communication over data-parallel ranks. */
START_TEST(data_parallel_time)
{
  Planned f;

  setup(&f, "megatron-core", 1, 1);
  f.framework->reduced_amax = FALSE;
  Metrics without = planned_run(&f);
  f.framework->reduced_amax = TRUE;
  Metrics with = planned_run(&f);
  double more = 4 * (one_s(&f, BLOCKS, 3) + one_s(&f, BLOCKS, 2));
  ck_assert_double_eq_tol(with.iteration_s - without.iteration_s, more, 1e-9);
  ck_assert_double_eq_tol(with.data_comm_s - without.data_comm_s, more, 1e-9);
  ck_assert_double_eq_tol(with.tensor_comm_s, without.tensor_comm_s, 1e-9);
  ck_assert_double_eq_tol(with.compute_s, without.compute_s, 1e-9);
  planned_clear(&f);
}
END_TEST

static double step_s(Planned *f, gboolean reduced)
{
  f->framework->reduced_amax = reduced;
  return planned_run(f).iteration_s;
}

/* Only delayed scales, and only where a stage has several ranks. */
START_TEST(others_have_none)
{
  static const Fp8Recipe recipes[] = { FP8_CURRENT, FP8_BLOCKWISE, FP8_MXFP8 };
  Planned f;

  setup(&f, "megatron-core", 1, 1);
  ck_assert_double_gt(step_s(&f, TRUE), step_s(&f, FALSE));
  plan_set_format(&f.plan, DTYPE_BF16);
  f.plan.fp8_recipe = FP8_NONE;
  ck_assert_double_eq(step_s(&f, TRUE), step_s(&f, FALSE));
  planned_clear(&f);
  for (gsize i = 0; i < G_N_ELEMENTS(recipes); i++) {
    setup(&f, "megatron-core", 1, 1);
    cluster_free(f.cluster);
    f.cluster = fixture_cluster("hgx-b200", GROUP);
    f.plan.fp8_recipe = recipes[i];
    ck_assert_double_eq(step_s(&f, TRUE), step_s(&f, FALSE));
    planned_clear(&f);
  }
  setup(&f, "megatron-core", 2, 1);
  planned_divide(&f, 1, 2, 1);
  f.plan.sequence_parallel = FALSE;
  f.plan.global_batch = 8;
  ck_assert_double_eq(step_s(&f, TRUE), step_s(&f, FALSE));
  planned_clear(&f);
}
END_TEST

/* Where the device waits for the host it can do so in the sum: the host's six operations are left, and of a step that is
 * one graph the sum. */
START_TEST(waits_for_the_host)
{
  Planned f;
  double more[2];

  setup(&f, "nemo-2025-04", 1, 1);
  f.plan.micro_batch = 1;
  f.framework->operation_s = 1e-3; /* the host is always late */
  more[0] = step_s(&f, TRUE) - step_s(&f, FALSE);
  ck_assert_double_eq_tol(more[0], 4 * 2 * (1 + 4 + 1) * 1e-3 * f.cluster->device.host_slowdown, 1e-9);
  f.plan.graph = GRAPH_FULL;
  more[1] = step_s(&f, TRUE) - step_s(&f, FALSE);
  ck_assert_double_eq_tol(more[1], 4 * (one_s(&f, BLOCKS, 3) + one_s(&f, BLOCKS, 2)), 1e-9);
  planned_clear(&f);
}
END_TEST

/* Of losses: the sum of a number over data-parallel ranks, behind the last stage's forwards alone. */
START_TEST(losses_of_the_last_stage)
{
  Planned f;

  setup(&f, "megatron-core", 2, 1);
  f.framework->reduced_amax = FALSE;
  for (int row = 0; row < 2; row++)
    for (int back = 0; back < 2; back++) {
      double seconds[2];
      int n;
      for (int sums = 0; sums < 2; sums++) {
        f.framework->losses_summed = sums;
        planned_build(&f);
        seconds[sums] = passes_s(&f, row, back ? PASS_BACKWARD : PASS_FORWARD, &n);
      }
      GroupShape group = group_shape(f.cluster, DP, TP);
      double sum_s = collective_cost(f.cluster, COLLECTIVE_ALL_REDUCE, 4, &group).seconds + f.framework->collective_s +
                     memory_s(&f.cluster->device, 16, 2) + memory_s(&f.cluster->device, 8, 1);
      ck_assert_double_eq_tol(seconds[1] - seconds[0], row == 1 && !back ? n * sum_s : 0, 1e-9);
    }
  planned_clear(&f);
}
END_TEST

/* All ranks of a stage wait for the slowest pass of all, as far as deviations last until they meet. */
START_TEST(all_wait_for_the_slowest_pass)
{
  static const double more[] = { 0.2, 0.02 }; /* of what the slowest of all is behind, at least */
  Planned f;

  for (int loss = 0; loss < 2; loss++) {
    setup(&f, "megatron-core", 1, 1);
    f.framework->reduced_amax = f.framework->losses_summed = FALSE;
    f.cluster->device.rate_passing = 0.02;
    double alone_s = planned_run(&f).compute_s;
    f.framework->reduced_amax = !loss;
    f.framework->losses_summed = loss;
    double together_s = planned_run(&f).compute_s, passing = 0.02 * (expected_largest(GROUP) - expected_largest(TP));
    ck_assert_double_gt(together_s / alone_s, 1 + more[loss] * passing);
    ck_assert_double_lt(together_s / alone_s, 1 + passing);
    planned_clear(&f);
  }
}
END_TEST

/* Those whose 8-bit formats are Transformer Engine's have it, those without such formats do not; Megatron-LM and NeMo
 * until 2025 sum losses. */
START_TEST(frameworks)
{
  static const struct {
    const char *name;
    gboolean reduces, losses;
  } cases[] = {
    { "megatron-core", TRUE, FALSE }, { "nemo-2026-08", TRUE, FALSE }, { "megatron-2023", TRUE, TRUE },
    { "fsdp", TRUE, FALSE }, { "torchtitan", FALSE, FALSE }, { "maxtext-2026", FALSE, FALSE },
    { "deepspeed", FALSE, FALSE }, { "tdp-run", FALSE, FALSE }, { "nanotron-2025", FALSE, FALSE },
    { "nemo-2022", FALSE, TRUE }, { "galvatron", FALSE, FALSE }, { "megatron-deepspeed-2022", FALSE, FALSE },
    { "nemo-2025-05", TRUE, TRUE }, { "nemo-2025-09", TRUE, FALSE }, { "megatron-core-2024", TRUE, TRUE } };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    Framework *f = fixture_framework(cases[i].name);
    ck_assert_msg(!f->reduced_amax == !cases[i].reduces, "%s", cases[i].name);
    ck_assert_msg(!f->losses_summed == !cases[i].losses, "%s", cases[i].name);
    framework_free(f);
  }
}
END_TEST

TEST_MAIN("amax", one_for_each_pass_of_a_chunk, data_parallel_time, others_have_none, waits_for_the_host,
          losses_of_the_last_stage, all_wait_for_the_slowest_pass, frameworks)
