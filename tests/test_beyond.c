/* Passes of cores over more than the last-level cache: program/beyond.c. */
#include "main.h"
#include "planned.h"
#include "sim/simulate.h"

#define BEYOND 30e9
#define FP32 4

static guint32 micro; /* whose passes are looked at */

static void setup(Planned *f, int pp)
{
  planned_init(f, fixture_model(4, 192, 4, 64, 1024), fixture_cluster("cpu", pp), "tdp-run");
  f->plan.precision = DTYPE_FP32;
  f->plan.global_batch = 4;
  micro = 1;
  planned_divide(f, 1, pp, 1);
}

static const Segment *pass_of(const Planned *f, int row, Pass pass)
{
  for (guint i = 0; i < f->program->tasks->len; i++) {
    const Task *t = program_task(f->program, i);
    if (t->kind == TASK_PASS && t->row == row && t->pass == pass && t->micro == micro)
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

/* The least cache with which no pass of the row takes longer, to a byte. */
static double held(Planned *f, int row, Pass pass)
{
  double less = 1, more = 1e9;

  while (more - less > 1) {
    double cache = floor((less + more) / 2);
    *(longer(f, row, pass, cache).seconds > 0 ? &less : &more) = cache;
  }
  return more;
}

/* Forwards go through weights and what they save, backwards through gradients, too. All come from memory as soon as the
 * rank holds more than the cache: its memory but the optimizer's states, which passes do not touch. */
START_TEST(passes_over_more_than_the_cache)
{
  Planned f;
  double saved;

  setup(&f, 1);
  Metrics m = planned_run(&f);
  double params = params_of_all(&f, &saved);
  double bytes[2] = { FP32 * params + saved, 2 * FP32 * params + saved };
  double all = m.memory[PART_WEIGHTS] + m.memory[PART_GRADIENTS] + m.memory[PART_ACTIVATIONS] + m.memory[PART_BUFFERS];
  const Pass passes[2] = { PASS_FORWARD, PASS_BACKWARD };
  ck_assert_double_gt(saved, 0);
  ck_assert_double_ge(m.memory[PART_OPTIMIZER], 2 * FP32 * params);
  ck_assert_double_gt(all, bytes[1]);
  for (int i = 0; i < 2; i++) {
    ck_assert_double_eq_tol(longer(&f, 0, passes[i], 1).seconds, bytes[i] / BEYOND, 1e-9);
    ck_assert_double_eq_tol(held(&f, 0, passes[i]), all, 1);
  }
  planned_clear(&f);
}
END_TEST

/* Between two steps the optimizer goes through all states: passes of the first micro-batch
 * find as much less of theirs. */
START_TEST(first_passes_follow_the_optimizer)
{
  Planned f;

  setup(&f, 1);
  Metrics m = planned_run(&f);
  for (Pass pass = PASS_FORWARD; pass <= PASS_BACKWARD; pass++) {
    micro = 1;
    double later = held(&f, 0, pass);
    micro = 3;
    ck_assert_double_eq(held(&f, 0, pass), later);
    micro = 0;
    ck_assert_double_eq_tol(held(&f, 0, pass), later + m.memory[PART_OPTIMIZER], 1);
    double first_s = longer(&f, 0, pass, later + 1).seconds;
    micro = 1;
    ck_assert_double_eq(longer(&f, 0, pass, later + 1).seconds, 0);
    ck_assert_double_eq_tol(longer(&f, 0, pass, 1).seconds, first_s, 1e-12); /* all of their bytes, once each */
  }
  planned_clear(&f);
}
END_TEST

/* From none to all of a pass's bytes, half way at the capacity, in proportion to its logarithm. */
START_TEST(bytes_leave_a_cache_bit_by_bit)
{
  const struct { double cache, share; } cases[] = { { 2.01, 0 }, { 2, 0 }, { M_SQRT2, 0.25 }, { 1, 0.5 },
                                                    { M_SQRT1_2, 0.75 }, { 0.5, 1 }, { 0.49, 1 } };
  Planned f;

  setup(&f, 1);
  double all = held(&f, 0, PASS_BACKWARD), own_s = longer(&f, 0, PASS_BACKWARD, 1).seconds;
  f.cluster->device.l2_ramp = 2;
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
    ck_assert_double_eq_tol(longer(&f, 0, PASS_BACKWARD, cases[i].cache * all).seconds, cases[i].share * own_s,
                            1e-5 * own_s);
  f.cluster->device.l2_ramp = 1;
  ck_assert_double_eq(longer(&f, 0, PASS_BACKWARD, 1.01 * all).seconds, 0);
  ck_assert_double_eq_tol(longer(&f, 0, PASS_BACKWARD, 0.99 * all).seconds, own_s, 1e-12);
  planned_clear(&f);
}
END_TEST

/* A rank that computes alone has more of the cache than each of those that compute together. */
START_TEST(others_take_of_a_cache)
{
  double alone_s[2], together_s[2];

  for (int more = 0; more < 2; more++) {
    Planned f;
    setup(&f, 1);
    double all = held(&f, 0, PASS_BACKWARD), own_s = longer(&f, 0, PASS_BACKWARD, 1).seconds;
    f.cluster->devices_per_node = f.cluster->processors = 2;
    f.cluster->device.beyond_l2_bytes_per_s = 0;
    planned_run(&f);
    double crowded_s = pass_of(&f, 0, PASS_BACKWARD)->crowded_s;
    f.cluster->device.beyond_l2_bytes_per_s = BEYOND;
    f.cluster->device.beyond_l2_crowding = 1;
    f.cluster->device.l2_bytes = 0.5 * all;
    f.cluster->device.l2_alone_bytes = more ? 100 * all : 0;
    alone_s[more] = planned_run(&f).iteration_s;
    const Segment *s = pass_of(&f, 0, PASS_BACKWARD);
    ck_assert_double_eq_tol(s->beyond_s, (1 - more) * own_s, 1e-12);
    ck_assert_double_eq_tol(s->crowded_s - crowded_s, more * own_s, 1e-12);
    planned_clear(&f);
    setup(&f, 2);
    f.cluster->devices_per_node = f.cluster->processors = 2;
    planned_divide(&f, 1, 1, 2);
    f.cluster->device.beyond_l2_bytes_per_s = BEYOND;
    f.cluster->device.beyond_l2_crowding = 1;
    f.cluster->device.l2_bytes = 0.5 * all;
    f.cluster->device.l2_alone_bytes = more ? 100 * all : 0;
    together_s[more] = planned_run(&f).iteration_s;
    planned_clear(&f);
  }
  ck_assert_double_lt(alone_s[1], 0.99 * alone_s[0]);
  ck_assert_double_eq_tol(together_s[1], together_s[0], 1e-9 * together_s[0]);
}
END_TEST

/* Each stage of two has its own part. */
START_TEST(stages_have_caches_of_their_own)
{
  Planned f;
  double saved, longer_s = 0, last = 0;

  setup(&f, 2);
  planned_run(&f);
  double params = params_of_all(&f, &saved), whole = 2 * FP32 * params + saved;
  for (int row = 0; row < 2; row++) {
    double all = held(&f, row, PASS_BACKWARD), own_s = longer(&f, row, PASS_BACKWARD, 1).seconds;
    ck_assert_double_gt(all, own_s * BEYOND);
    ck_assert_double_lt(all, whole);
    ck_assert_double_gt(fabs(all - last), 1000); /* the first has one more micro-batch in flight, the last the head */
    last = all;
    ck_assert_double_eq(held(&f, row, PASS_FORWARD), all);
    ck_assert_double_eq_tol(longer(&f, row, PASS_BACKWARD, all - 1).seconds, own_s, 1e-12);
    longer_s += own_s;
  }
  ck_assert_double_eq_tol(longer_s, whole / BEYOND, 0.2 * whole / BEYOND); /* the last stage has the table, too */
  planned_clear(&f);
}
END_TEST

/* What forwards save stays until its backward: with more micro-batches in flight there is more between two uses of a
 * byte, while a pass has the same bytes of its own. */
START_TEST(micro_batches_in_flight_share_a_cache)
{
  Planned f;

  setup(&f, 2);
  f.plan.global_batch = 8;
  plan_set_schedule(&f.plan, schedule_find("1f1b"), 1);
  planned_run(&f);
  double saved = pass_of(&f, 0, PASS_FORWARD)->activation_bytes, own_s = longer(&f, 0, PASS_FORWARD, 1).seconds;
  double some = held(&f, 0, PASS_FORWARD);
  plan_set_schedule(&f.plan, schedule_find("gpipe"), 1);
  ck_assert_double_eq_tol(held(&f, 0, PASS_FORWARD) - some, 6 * saved, 0.1 * saved); /* of 8, 1F1B has 2 in flight */
  ck_assert_double_eq_tol(longer(&f, 0, PASS_FORWARD, 1).seconds, own_s, 1e-12);
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
  ck_assert_double_eq_tol(longer(&f, 0, PASS_FORWARD, 2 * own).seconds, own / BEYOND, 1e-12);
  planned_clear(&f);
}
END_TEST

/* Gathered weights and whole gradients of ZeRO-3 are gone soon, but lie between two uses of what stays. */
START_TEST(gathered_weights_take_room)
{
  Planned f;
  double saved, largest = 0, beyond_s = 0;

  setup(&f, 1);
  planned_divide(&f, 1, 1, 2);
  planned_run(&f);
  double params = params_of_all(&f, &saved), replicated = held(&f, 0, PASS_BACKWARD);
  for (int i = 0; i < f.model->n_layers; i++)
    largest = MAX(largest, price_of_layer(f.prices, f.model, 0, i)->params);
  f.plan.zero = 3;
  double divided = held(&f, 0, PASS_BACKWARD);
  ck_assert_double_lt(divided, replicated);
  ck_assert_double_gt(divided, FP32 * (params + largest) + saved);
  longer(&f, 0, PASS_BACKWARD, 1);
  for (guint i = 0; i < f.program->tasks->len; i++) {
    const Task *t = program_task(f.program, i);
    if (t->kind == TASK_PASS && t->pass == PASS_BACKWARD && t->micro == 0)
      beyond_s += program_segment(f.program, t)->beyond_s;
  }
  ck_assert_double_eq_tol(beyond_s, (2 * FP32 * params + saved) / BEYOND, 1e-9); /* passes go through whole ones */
  planned_clear(&f);
}
END_TEST

START_TEST(recomputation_has_less_to_go_through)
{
  Planned f;

  setup(&f, 1);
  double all_s = longer(&f, 0, PASS_BACKWARD, 1).seconds, all = held(&f, 0, PASS_BACKWARD);
  f.plan.recompute = RECOMPUTE_FULL;
  ck_assert_double_lt(longer(&f, 0, PASS_BACKWARD, 1).seconds, all_s);
  ck_assert_double_lt(held(&f, 0, PASS_BACKWARD), all);
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

TEST_MAIN("beyond", passes_over_more_than_the_cache, first_passes_follow_the_optimizer, bytes_leave_a_cache_bit_by_bit,
          others_take_of_a_cache, stages_have_caches_of_their_own,
          micro_batches_in_flight_share_a_cache, chunks_share_a_cache, gathered_weights_take_room,
          recomputation_has_less_to_go_through, larger_caches_never_slow_a_step)
