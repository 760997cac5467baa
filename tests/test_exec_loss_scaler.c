/* The loss scale, and what the optimizers make of it. */
#include "exec/cpu/cpu.h"
#include "exec/rank.h"
#include "fixture.h"
#include "main.h"

#include <math.h>

/* Overflows are 'x'; the scale behind each step, as powers of two. */
static void follow(LossScaler s, const char *steps, const int *powers)
{
  for (int i = 0; steps[i]; i++) {
    ck_assert(loss_scaler_update(&s, steps[i] == 'x'));
    if (s.scale != ldexp(1, powers[i]))
      ck_abort_msg("step %d of %s: scale %g, expected 2^%d", i, steps, s.scale, powers[i]);
  }
}

/* By hand from the rules of Megatron Core's DynamicGradScaler. */
START_TEST(scales_back_off_and_grow)
{
  LossScaler s = loss_scaler_dynamic();

  s.interval = 3;
  follow(s, "...", (int[]) { 16, 16, 17 });
  follow(s, "x..x...x", (int[]) { 16, 16, 16, 15, 15, 15, 16, 16 }); /* forgiven by growth, not by a clean step */
  follow(s, "xxx", (int[]) { 16, 15, 14 });                          /* once, not before every back-off */
  follow(s, "..x..x...", (int[]) { 16, 16, 16, 16, 16, 15, 15, 15, 16 }); /* an overflow starts the count again */
  s.hysteresis = 1;
  follow(s, "x", (int[]) { 15 });
  s.scale = 2.5;
  s.least = 2;
  ck_assert(loss_scaler_update(&s, TRUE));
  ck_assert_double_eq(s.scale, 2);
}
END_TEST

START_TEST(the_least_scale_overflows_once_too_often)
{
  LossScaler s = loss_scaler_dynamic();

  for (int i = 0; i < 17; i++) /* one is forgiven, 2^16 halves sixteen times */
    ck_assert(loss_scaler_update(&s, TRUE));
  ck_assert_double_eq(s.scale, 1);
  ck_assert(loss_scaler_update(&s, FALSE));
  ck_assert(!loss_scaler_update(&s, TRUE));
}
END_TEST

START_TEST(fixed_scales_stay)
{
  LossScaler fixed = loss_scaler_fixed(1024), none = { 0 };

  for (int i = 0; i < 5000; i++)
    ck_assert(loss_scaler_update(&fixed, i % 2));
  ck_assert_double_eq(fixed.scale, 1024);
  ck_assert(loss_scaler_update(&none, FALSE));
  ck_assert(!loss_scaler_update(&none, TRUE));
  ck_assert_double_eq(none.scale, 0);
}
END_TEST

/* Gradients and their norm 8 times as large: the step is that of the loss itself. */
static void step(Backend *b, BackendStream *s, gboolean host, double norm_sq, double weight[2])
{
  double gradient[] = { 24, 32 }, m[] = { 0.5, -1 }, v[] = { 2, 3 }, narrow[2] = { 7, 7 };
  ExecAdam a = { .n = 2, .weight = host ? narrow : weight, .master = host ? weight : NULL, .gradient = gradient, .m = m,
                 .v = v, .rate = 0.1, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .step = 3, .loss_scale = 8,
                 .norm_sq = &norm_sq, .max_norm = 1 };

  (host ? b->host_adam : b->adam)(b, s, &a);
  if (host)
    ck_assert_mem_eq(narrow, weight, sizeof narrow);
  if (!isfinite(norm_sq)) {
    ck_assert_double_eq(m[1], -1);
    ck_assert_double_eq(v[0], 2);
  }
}

START_TEST(optimizers_unscale_and_skip)
{
  char message[EXEC_ERROR_SIZE];
  Backend *b = cpu_open(&(BackendOptions) { .size = 1, .dtype = EXEC_F64 }, message);
  BackendStream *s = b->stream_new(b, TRUE);

  for (int host = 0; host < 2; host++) {
    double w[] = { 10, 20 }, still[] = { 10, 20 };
    step(b, s, host, 1600, w); /* the loss's gradients 3 and 4, clipped to 0.6 and 0.8 */
    double m = 0.9 * 0.5 + 0.1 * 0.6, v = 0.95 * 2 + 0.05 * 0.36;
    double expected = 10 - 0.1 * (m / (1 - 0.729)) / (sqrt(v / (1 - 0.857375)) + 1e-8);
    ck_assert_double_eq_tol(w[0], expected, 1e-14);
    step(b, s, host, INFINITY, still);
    ck_assert(still[0] == 10 && still[1] == 20);
    step(b, s, host, NAN, still);
    ck_assert(still[0] == 10 && still[1] == 20);
  }
  b->stream_free(b, s);
  b->free(b);
}
END_TEST

/* Adam's first update moves weights by the rate, however many steps were skipped before it: with a correction of the
 * bias of step 3 it would move them by 0.62 of it. */
START_TEST(skipped_steps_do_not_count_in_the_correction)
{
  char message[EXEC_ERROR_SIZE];
  Backend *b = cpu_open(&(BackendOptions) { .size = 1, .dtype = EXEC_F32 }, message);
  g_autoptr(Model) model = fixture_gpt_plain(2, 16, 4, 8, 13);
  Framework *framework = fixture_framework("tdp-run");
  Cluster *cluster = fixture_cluster("cpu", 1);
  Plan plan = plan_default(model, framework);
  ExecOptions options = exec_options_default();
  float moved = 0;
  ExecStep out;

  plan.precision = DTYPE_FP32;
  options.scaler = loss_scaler_dynamic();
  options.scaler.scale = 0x1p140;
  options.scaler.back_off = 0x1p-40;
  g_autoptr(PriceTable) prices = price_table_new(model, LAYOUT(&plan), cluster);
  g_autoptr(Program) program = program_new(model, LAYOUT(&plan), cluster, prices);
  g_autoptr(Exec) x = exec_new(model, LAYOUT(&plan), program, b, &options, NULL);
  for (int i = 0; i < 2; i++) {
    exec_step(x, &out);
    ck_assert(out.skipped && out.loss_scale == 0x1p140 && isfinite(out.loss) && !isfinite(out.grad_norm));
  }
  const Unit *u = shards_next(&x->shards, NULL, 0, 0);
  g_autofree float *old = g_memdup2(u->weights, u->n * sizeof(float));
  exec_step(x, &out);
  ck_assert(!out.skipped && out.loss_scale == 0x1p100 && out.grad_norm > 0 && out.grad_norm < 100);
  for (gsize i = 0; i < u->n; i++)
    moved = fmaxf(moved, fabsf(((const float *)u->weights)[i] - old[i]));
  ck_assert_double_eq_tol(moved, options.rate, 1e-3 * options.rate);
  g_clear_pointer(&x, exec_free);
  b->free(b);
  framework_free(framework);
  cluster_free(cluster);
}
END_TEST

TEST_MAIN("exec_loss_scaler", scales_back_off_and_grow, the_least_scale_overflows_once_too_often, fixed_scales_stay,
          optimizers_unscale_and_skip, skipped_steps_do_not_count_in_the_correction)
