/* Counts of what the host issues, held to times that were measured. */
#include "main.h"
#include "planned.h"

/* Microseconds that a GB200's host takes for a linear layer of a dense block, forward and backward, with its casts: of
 * the four that the block has, each three products. */
static double linear_us(const char *framework, DType format, Fp8Recipe recipe)
{
  Planned f;
  LayerWork work;
  double sum_s = 0;
  int products = 0;

  planned_init(&f, fixture_model(1, 512, 8, 1024, 1000), fixture_cluster("gb200-nvl72", 8), framework);
  if (format != DTYPE_BF16)
    plan_set_format(&f.plan, format);
  f.plan.fp8_recipe = recipe;
  layer_work_init(&work, f.model, model_layer(f.model, 1), PASSES(&f.plan), f.cluster);
  const GArray *const passes[] = { work.forward, work.backward };
  for (int p = 0; p < 2; p++)
    for (guint o = 0; o < passes[p]->len; o++) {
      const Op *op = &g_array_index(passes[p], Op, o);
      products += op->kind == OP_MATMUL;
      if (op->kind == OP_MATMUL || g_str_has_prefix(op->name, "cast"))
        sum_s += op_issue_s(op, f.framework, &f.cluster->device);
    }
  ck_assert_int_eq(products, 4 * 3);
  layer_work_clear(&work);
  planned_clear(&f);
  return 1e6 * sum_s / 4;
}

/* Measured: 311.3 us of Transformer Engine's Linear in September 2026 on a GB200, forward and backward, and 440.9 in
 * mxfp8 with its casts; its forward took 99.7 / 59.2 times as long in August 2025 (TransformerEngine#3523, #2053). */
START_TEST(products_take_what_was_measured)
{
  static const struct { const char *framework; double slowdown; } generations[] = {
    { "nemo-2026-04", 1 }, { "megatron-core-2026", 1 }, { "nemo-2025-04", 99.7 / 59.2 }, { "nemo-2025-11", 99.7 / 59.2 },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(generations); i++) {
    const char *framework = generations[i].framework;
    double wide = 311.3 * generations[i].slowdown, narrow = 440.9 * generations[i].slowdown;
    ck_assert_double_eq_tol(linear_us(framework, DTYPE_BF16, FP8_NONE), wide, 0.01 * wide);
    ck_assert_double_eq_tol(linear_us(framework, DTYPE_FP8, FP8_MXFP8), narrow, 0.01 * narrow);
    ck_assert_double_eq_tol(linear_us(framework, DTYPE_FP8, FP8_DELAYED), narrow, 0.01 * narrow);
    ck_assert_double_eq_tol(linear_us(framework, DTYPE_FP8, FP8_CURRENT), narrow, 0.01 * narrow);
    ck_assert_double_eq_tol(linear_us(framework, DTYPE_FP4, FP8_NONE), narrow, 0.01 * narrow);
  }
}
END_TEST

/* A framework that says nothing of narrow products takes twice as long for them, casts and all. */
START_TEST(narrow_products_without_a_figure)
{
  g_autoptr(Framework) f = fixture_framework("megatron-core");

  ck_assert_double_eq(f->narrow_product_operations, 2 * f->product_operations);
}
END_TEST

TEST_MAIN("host measured", products_take_what_was_measured, narrow_products_without_a_figure)
