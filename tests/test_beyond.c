/* Passes of cores over more than the last-level cache: program/beyond.c. */
#include "main.h"
#include "planned.h"
#include "sim/simulate.h"

#define BEYOND 30e9
#define FP32 4

static void setup(Planned *f, int pp)
{
  planned_init(f, fixture_model(4, 192, 4, 64, 1024), fixture_cluster("cpu", pp), "tdp-run");
  f->plan.precision = DTYPE_FP32;
  f->plan.global_batch = 4;
  planned_divide(f, 1, pp, 1);
}

static const Segment *pass_of(const Planned *f, int row, Pass pass)
{
  for (guint i = 0; i < f->program->tasks->len; i++) {
    const Task *t = program_task(f->program, i);
    if (t->kind == TASK_PASS && t->row == row && t->pass == pass)
      return program_segment(f->program, t);
  }
  ck_abort_msg("no pass of a kind %d", pass);
  return NULL;
}

/* Parameters of the whole model, and what a micro-batch saves of all layers. */
static double params_of_all(const Planned *f, double *saved)
{
  double params = 0;

  *saved = 0;
  for (int i = 0; i < f->model->n_layers; i++) {
    params += price_of_layer(f->prices, f->model, 0, i)->params;
    *saved += price_of_layer(f->prices, f->model, 0, i)->saved_bytes;
  }
  return params;
}

/* What a pass takes longer with this cache. */
static Segment longer(Planned *f, int row, Pass pass, double cache)
{
  f->cluster->device.l2_bytes = cache;
  f->cluster->device.beyond_l2_bytes_per_s = 0;
  planned_run(f);
  Segment before = *pass_of(f, row, pass);
  f->cluster->device.beyond_l2_bytes_per_s = BEYOND;
  f->cluster->device.beyond_l2_crowding = 1.5;
  planned_run(f);
  Segment s = *pass_of(f, row, pass);

  s.seconds -= before.seconds;
  s.compute_s -= before.compute_s;
  s.crowded_s -= before.crowded_s;
  ck_assert_double_eq_tol(s.seconds, s.compute_s, 1e-12);
  ck_assert_double_eq_tol(s.seconds, s.beyond_s, 1e-12);
  ck_assert_double_eq_tol(s.crowded_s, s.beyond_s / 2, 1e-12);
  return s;
}

/* Forwards go through weights and what they save, backwards through gradients, too; the cache ends what they lose. */
START_TEST(passes_over_more_than_the_cache)
{
  Planned f;
  double saved;

  setup(&f, 1);
  planned_run(&f);
  double params = params_of_all(&f, &saved);
  double bytes[2] = { FP32 * params + saved, 2 * FP32 * params + saved };
  const Pass passes[2] = { PASS_FORWARD, PASS_BACKWARD };
  ck_assert_double_gt(saved, 0);
  for (int i = 0; i < 2; i++) {
    ck_assert_double_eq_tol(longer(&f, 0, passes[i], bytes[i] - 1).seconds, bytes[i] / BEYOND, 1e-9);
    ck_assert_double_eq(longer(&f, 0, passes[i], bytes[i] + 1).seconds, 0);
  }
  planned_clear(&f);
}
END_TEST

/* Each stage of two has its own part, and recomputation saves less to go through. */
START_TEST(stages_have_caches_of_their_own)
{
  Planned f;
  double saved, longer_s = 0;

  setup(&f, 2);
  planned_run(&f);
  double params = params_of_all(&f, &saved), whole = 2 * FP32 * params + saved;
  for (int row = 0; row < 2; row++) {
    double own_s = longer(&f, row, PASS_BACKWARD, whole / 4).seconds;
    ck_assert_double_eq(longer(&f, row, PASS_BACKWARD, own_s * BEYOND + 1).seconds, 0);
    ck_assert_double_eq_tol(longer(&f, row, PASS_BACKWARD, own_s * BEYOND - 1).seconds, own_s, 1e-12);
    longer_s += own_s;
  }
  ck_assert_double_eq_tol(longer_s, whole / BEYOND, 0.2 * whole / BEYOND); /* the last stage has the table, too */
  ck_assert_double_eq(longer(&f, 0, PASS_BACKWARD, whole).seconds, 0);
  planned_clear(&f);
}
END_TEST

/* Two chunks of a rank share its cache: a pass of one is longer as soon as both are more, by its own bytes. */
START_TEST(chunks_share_a_cache)
{
  Planned f;

  setup(&f, 2);
  plan_set_schedule(&f.plan, schedule_find("interleaved"), 2);
  double own = longer(&f, 0, PASS_FORWARD, 1).seconds * BEYOND;
  ck_assert_double_eq_tol(longer(&f, 0, PASS_FORWARD, own + 1).seconds, own / BEYOND, 1e-12);
  ck_assert_double_eq(longer(&f, 0, PASS_FORWARD, 3 * own).seconds, 0);
  planned_clear(&f);
}
END_TEST

START_TEST(recomputation_has_less_to_go_through)
{
  Planned f;
  double all, some;

  setup(&f, 1);
  all = longer(&f, 0, PASS_BACKWARD, 1).seconds;
  f.plan.recompute = RECOMPUTE_FULL;
  some = longer(&f, 0, PASS_BACKWARD, 1).seconds;
  ck_assert_double_lt(some, all);
  planned_clear(&f);
}
END_TEST

/* A larger cache, or a faster way from memory, never makes a step longer; a step with none told is the shortest. */
START_TEST(larger_caches_never_slow_a_step)
{
  Planned f;
  double last = INFINITY;

  setup(&f, 2);
  f.cluster->device.beyond_l2_bytes_per_s = BEYOND;
  f.cluster->device.beyond_l2_crowding = 1.5;
  for (double cache = 1 << 16; cache <= 1 << 28; cache *= 4) {
    f.cluster->device.l2_bytes = cache;
    double step_s = planned_run(&f).iteration_s;
    ck_assert_double_le(step_s, last * (1 + 1e-12));
    last = step_s;
  }
  f.cluster->device.l2_bytes = 1;
  double slow_s = planned_run(&f).iteration_s;
  f.cluster->device.beyond_l2_bytes_per_s *= 2;
  ck_assert_double_lt(planned_run(&f).iteration_s, slow_s);
  f.cluster->device.beyond_l2_bytes_per_s = 0;
  ck_assert_double_eq_tol(planned_run(&f).iteration_s, last, 1e-9 * last);
  planned_clear(&f);
}
END_TEST

TEST_MAIN("beyond", passes_over_more_than_the_cache, stages_have_caches_of_their_own, chunks_share_a_cache,
          recomputation_has_less_to_go_through, larger_caches_never_slow_a_step)
