/* What products in 8 and 4 bits cast, and where. */
#include "main.h"
#include "planned.h"

/* What a block's products with weights keep. */
static double kept_by_products(const Planned *f)
{
  LayerWork work;
  double bytes = 0;

  layer_work_init(&work, f->model, model_layer(f->model, 1), PASSES(&f->plan), f->cluster);
  for (guint i = 0; i < work.forward->len; i++) {
    const Op *op = &g_array_index(work.forward, Op, i);
    bytes += op->kind == OP_MATMUL ? op->saved_bytes : 0;
  }
  layer_work_clear(&work);
  return bytes;
}

/* torchao's mxfp8, rowwise and nvfp4 leave gathered rows in 16 bits and cast weights in passes. Of the first two a kernel
 * for each layout reads what it casts, once or, of columns by rowwise, twice: that of inputs' columns in the backward,
 * as they are kept in 16 bits; weights are cast both ways. Of nvfp4 one makes both layouts, behind one that looks for the
 * largest value, and those of weights are there for both passes. */
START_TEST(torchao_casts_behind_gathers)
{
  static const struct {
    Fp8Recipe recipe;
    double forward, columns, gradient, weight, weight_backward; /* bytes of a value */
    double kept, weight_kept;
  } cases[] = {
    { FP8_MXFP8, 3 + 1 / 32.0, 3 + 1 / 32.0, 2 * (3 + 1 / 32.0), 3 + 1 / 32.0, 3 + 1 / 32.0, 2, 0 },
    { FP8_ROWWISE, 3, 5, 8, 3, 5, 2, 0 },
    { FP8_NONE, 4 + 2 * 0.5625, 0, 4 + 2 * 0.5625, 4 + 2 * 0.5625 + 1, 0, 0.5625, 0.5625 },
  };
  const double tokens = 1024, tp = 4, width = 1024, values = tokens * width;

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    Planned f;
    planned_init(&f, fixture_llama(4, 1024, 16, 16, 1024, 1024), fixture_cluster("hgx-b200", 8), "torchtitan-2026-08");
    planned_spread(&f, 2);
    planned_divide(&f, (int)tp, 1, 2);
    f.plan.sequence_parallel = TRUE;
    plan_set_format(&f.plan, cases[i].recipe ? DTYPE_FP8 : DTYPE_FP4);
    f.plan.fp8_recipe = cases[i].recipe;
    planned_accept(&f);
    double weights = width * width * (3 + 1 + 3 * 3) / tp, inputs = (2 + (1 + 3) / tp) * values;
    double outputs = ((3 + 6) / tp + 2) * values;
    ck_assert_double_eq_tol(planned_op_bytes(&f, 1, "gather rows", FALSE), 2 * values * 2, 1e-3);
    ck_assert_double_eq_tol(planned_op_bytes(&f, 1, "gather output gradient", TRUE), 2 * values * 2, 1e-3);
    ck_assert_double_eq_tol(planned_op_bytes(&f, 1, "cast", FALSE), cases[i].forward * inputs + cases[i].weight * weights, 1e-3);
    ck_assert_double_eq_tol(planned_op_bytes(&f, 1, "cast columns", TRUE), cases[i].columns * inputs, 1e-3);
    ck_assert_double_eq_tol(planned_op_bytes(&f, 1, "cast gradient", TRUE),
                            cases[i].gradient * outputs + cases[i].weight_backward * weights, 1e-3);
    double attention = cases[i].kept < 2 ? 2 / tp * values : 0; /* which keeps what it gave in 16 bits */
    ck_assert_double_eq_tol(kept_by_products(&f), cases[i].kept * (2 + 4) / tp * values + attention +
                            cases[i].weight_kept * weights, 1e-3);
    ck_assert_double_eq(planned_op_bytes(&f, 1, "transpose", TRUE), 0);
    ck_assert_double_eq(planned_op_bytes(&f, 1, "largest value", FALSE) + planned_op_bytes(&f, 1, "largest value", TRUE), 0);
    planned_clear(&f);
  }
}
END_TEST

/* Under delayed scaling norms write fp8 themselves: two bytes a value as of 16 bits, one where products need one layout
 * or rows are gathered, but for what experts' routers read. */
START_TEST(norms_write_one_layout)
{
  static const struct { const char *cluster; int tp; Fp8Recipe recipe; double saved; } cases[] = {
    { "dgx-h100", 1, FP8_DELAYED, 0 }, { "dgx-h100", 4, FP8_DELAYED, 1 }, { "hgx-b200", 1, FP8_DELAYED, 1 },
    { "hgx-b200", 4, FP8_DELAYED, 1 }, { "hgx-b200", 1, FP8_CURRENT, 0 }, { "hgx-b200", 1, FP8_MXFP8, 0 },
  };

  for (gsize i = 0; i < 2 * G_N_ELEMENTS(cases); i++) {
    const int at = i / 2, experts = i % 2;
    const double values = 2 * 1024.0 * 1024 / cases[at].tp;
    Planned f;
    planned_init(&f, experts ? fixture_experts(4, 1024, 16, 8, 1024, 1024) : fixture_llama(4, 1024, 16, 16, 1024, 1024),
                 fixture_cluster(cases[at].cluster, 8), "megatron-core");
    planned_spread(&f, 2);
    planned_divide(&f, cases[at].tp, 1, 8 / cases[at].tp);
    f.plan.sequence_parallel = cases[at].tp > 1;
    f.plan.micro_batch = 2;
    double wide = planned_op_bytes(&f, 2, "attention norm", FALSE);
    double wide_ffn = planned_op_bytes(&f, 2, "feed-forward norm", FALSE);
    plan_set_format(&f.plan, DTYPE_FP8);
    f.plan.fp8_recipe = cases[at].recipe;
    ck_assert_double_eq_tol(wide - planned_op_bytes(&f, 2, "attention norm", FALSE), cases[at].saved * values, 1e-3);
    ck_assert_double_eq_tol(wide_ffn - planned_op_bytes(&f, 2, "feed-forward norm", FALSE),
                            experts ? 0 : cases[at].saved * values, 1e-3);
    planned_clear(&f);
  }
}
END_TEST

/* Where one kernel takes all experts of a rank, in mxfp8 and a step that is one graph, the product that makes gate and up
 * writes what their activation is in both layouts, and the gradient's product behind the activation that of gate and
 * up: the activation and two casts are no kernels, 4.0625 bytes a value each. What experts take and the gradient of
 * what they give are cast all the same. Without such kernels, in another format and in a dense block all stay. */
START_TEST(products_write_what_follows)
{
  static const struct { gboolean experts, grouped; Fp8Recipe recipe; CudaGraph graph; gboolean inside; } cases[] = {
    { TRUE, TRUE, FP8_MXFP8, GRAPH_FULL, TRUE }, { TRUE, FALSE, FP8_MXFP8, GRAPH_FULL, FALSE },
    { TRUE, TRUE, FP8_MXFP8, GRAPH_PARTIAL, FALSE }, { TRUE, TRUE, FP8_CURRENT, GRAPH_FULL, FALSE },
    { FALSE, TRUE, FP8_MXFP8, GRAPH_FULL, FALSE },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    Planned f;
    Model *model = cases[i].experts ? fixture_experts(4, 1024, 16, 8, 1024, 1024)
                                    : fixture_llama(4, 1024, 16, 16, 1024, 1024);
    planned_init(&f, model, fixture_cluster("hgx-b200", 8), "megatron-core-2026");
    planned_spread(&f, 1);
    f.plan.ep = cases[i].experts ? 8 : 1;
    f.model->specs[f.model->layers[2]].ffn.kind = MLP_SWIGLU;
    plan_set_format(&f.plan, DTYPE_FP8);
    f.plan.fp8_recipe = cases[i].recipe;
    f.plan.graph = cases[i].graph;
    f.framework->pads_rows = FALSE; /* nor fills experts' up, by as many as the kernel takes */
    const FeedForward *ffn = &model_layer(f.model, 2)->ffn;
    double values = op_tokens(PASSES(&f.plan)) * MAX(ffn->experts_per_token, 1) * ffn->width;
    double bytes[2][3], kept[2];
    for (int grouped = 0; grouped < 2; grouped++) {
      LayerWork work;
      f.framework->grouped_kernels = grouped && cases[i].grouped;
      bytes[grouped][0] = planned_op_bytes(&f, 2, "cast", FALSE);
      bytes[grouped][1] = planned_op_bytes(&f, 2, "cast gradient", TRUE);
      bytes[grouped][2] = planned_op_bytes(&f, 2, "swiglu", FALSE) + planned_op_bytes(&f, 2, "swiglu", TRUE);
      layer_work_init(&work, f.model, model_layer(f.model, 2), PASSES(&f.plan), f.cluster);
      kept[grouped] = work.saved_bytes;
      layer_work_clear(&work);
    }
    ck_assert_double_eq_tol(bytes[0][0] - bytes[1][0], cases[i].inside ? 4.0625 * values : 0, 1e-3);
    ck_assert_double_eq_tol(bytes[0][1] - bytes[1][1], cases[i].inside ? 4.0625 * 2 * values : 0, 1e-3);
    ck_assert_double_eq_tol(bytes[0][2] - bytes[1][2], cases[i].inside ? (6 + 10) * values : 0, 1e-3);
    ck_assert(bytes[1][0] > 0 && bytes[1][1] > 0 && kept[0] == kept[1]);
    planned_clear(&f);
  }
}
END_TEST

TEST_LOOPS("narrow", { torchao_casts_behind_gathers }, { norms_write_one_layout }, { products_write_what_follows })
