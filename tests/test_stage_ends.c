/* What stages of pipelines keep of what they sent: stage_ends.c. */
#include "main.h"
#include "planned.h"
#include "sim/simulate.h"

enum { HIDDEN = 1024, TOKENS = 512, ROWS = 2 * HIDDEN * TOKENS }; /* bytes of a boundary in fp16 */

static void setup(Planned *f, const char *framework, int tp, int pp)
{
  planned_init(f, fixture_model(8, HIDDEN, 16, TOKENS, 1024), fixture_cluster("dgx", 8), framework);
  f->plan.precision = DTYPE_FP16;
  f->plan.global_batch = 8;
  f->framework->step_gradients = STEP_IN_PLACE; /* so that passes hold most */
  planned_divide(f, tp, pp, 1);
}

/* What a row holds more of activations and of buffers, at most, where stages keep outputs. */
static double more(Planned *f, int row)
{
  double held[2] = { 0 };

  for (int keeps = 0; keeps < 2; keeps++) {
    double bytes[PART_COUNT];
    f->framework->stage_outputs = keeps;
    planned_run(f);
    g_autoptr(Trace) trace = simulate(f->program);
    trace_row_peak(trace, row, bytes);
    held[keeps] = bytes[PART_ACTIVATIONS] + bytes[PART_BUFFERS];
  }
  return held[1] - held[0];
}

/*
 * The first of four stages has four micro-batches in flight as its first backward begins, the third two. Whole outputs
 * stand as they are, with the gradient that came; of parts the backward makes a whole one. The last sends nothing.
 */
START_TEST(outputs_stay)
{
  static const struct {
    int tp, row;
    double rows;
  } cases[] = {
    { 1, 0, 4 + 1 }, { 1, 2, 2 + 1 }, { 1, 3, 0 }, { 2, 0, 4 / 2. + 2 }, { 2, 2, 2 / 2. + 2 }, { 2, 3, 0 },
  };
  Planned f;

  setup(&f, "megatron-deepspeed-2021", cases[_i].tp, 4);
  ck_assert(f.framework->stage_outputs);
  ck_assert_double_eq_tol(more(&f, cases[_i].row), cases[_i].rows * ROWS, 0.5);
  planned_clear(&f);
}
END_TEST

/* At the end nothing is left, and without a pipeline nothing is kept. */
START_TEST(outputs_go)
{
  Planned f;

  setup(&f, "megatron-deepspeed-2021", 1, 1);
  ck_assert_double_eq(more(&f, 0), 0);
  planned_clear(&f);
  setup(&f, "megatron-deepspeed-2021", 2, 4);
  planned_run(&f);
  for (int row = 0; row < 4; row++) {
    double left = 0;
    const int *at = &f.program->lane_first[row * LANE_COUNT + LANE_COMPUTE];
    for (int i = at[0]; i < at[1]; i++) {
      const Task *task = &g_array_index(f.program->tasks, Task, f.program->lane_tasks[i]);
      left += g_array_index(f.program->segments, Segment, task->segment).activation_bytes;
    }
    ck_assert_double_eq_tol(left, 0, 1);
  }
  planned_clear(&f);
}
END_TEST

/* Of software whose source says so. */
START_TEST(software_says_so)
{
  static const struct {
    const char *framework;
    gboolean keeps;
  } files[] = {
    { "deepspeed", TRUE }, { "megatron-deepspeed-2022", TRUE }, { "megatron-core", FALSE }, { "torchtitan", FALSE },
    { "tdp-run", FALSE },
  };

  g_autoptr(Framework) f = fixture_framework(files[_i].framework);
  ck_assert_int_eq(f->stage_outputs, files[_i].keeps);
}
END_TEST

TEST_LOOPS("stage_ends", { outputs_stay, 6 }, { outputs_go }, { software_says_so, 5 })
