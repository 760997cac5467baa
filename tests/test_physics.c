/* What no prediction may exceed: the arithmetic of the devices, operator by operator and in all. */
#include "main.h"
#include "fixture.h"
#include "layouts.h"

#include "base/error.h"
#include "report/report.h"
#include "sim/simulate.h"

static const char *const clusters[] = { "dgx", "dgx-h100", "hgx-b200", "gb300-nvl72", "dgx-2", "titan-rtx-pair", "cpu" };
static const char *const models[] = { "gpt2",          "llama-3.2-1b", "mixtral-8x7b", "deepseek-v2-lite", "gemma-2-2b",
                                      "gemma-3-1b",    "flan-t5-base", "bert-large-sparse" };
static const int lengths[] = { 128, 8192, 131072 };

/* Checks that each operator of a pass takes what its arithmetic takes at least, and that no device before Ampere runs a
 * fused kernel of a framework that has none for it. */
typedef struct {
  const PassLayout *passes;
  const Cluster *cluster;
  int products;
} Walk;

static void check_op(gpointer data, const Op *op, double share)
{
  Walk *w = data;

  (void)share;
  ck_assert_double_ge(op_s(op, w->passes, w->cluster) * (1 + 1e-9), op_least_s(op, w->passes, w->cluster));
  if (op->kind == OP_ATTENTION)
    ck_assert_str_ne(w->cluster->device.arch, "volta");
  w->products += op_least_s(op, w->passes, w->cluster) > 0;
}

static void check_ops(const Model *model, const PassLayout *passes, const Cluster *cluster)
{
  Walk walk = { passes, cluster, 0 };

  for (int i = 0; i < model->n_specs; i++) {
    LayerWork work;
    layer_work_init(&work, model, &model->specs[i], passes, cluster);
    for (int pass = 0; pass < PASS_COUNT; pass++)
      layer_work_pass(&work, passes, pass, check_op, &walk);
    layer_work_clear(&work);
  }
  ck_assert_int_gt(walk.products, 0);
}

static void check_plan(const Model *model, const Plan *plan, const Cluster *cluster)
{
  GError *error = NULL;
  g_autoptr(Trace) trace = simulate_plan(model, cluster, plan);
  Result r = result_of(model, cluster, plan, trace);

  check_ops(model, PASSES(plan), cluster);
  ck_assert_msg(result_check(&r, &error), "%s", error ? error->message : "");
  ck_assert_double_gt(r.mfu, 0);
}

START_TEST(no_more_than_the_peak)
{
  g_autoptr(Cluster) cluster = fixture_cluster(clusters[_i], 1);
  g_autoptr(Framework) framework = fixture_framework("megatron-core");
  int legal = 0;

  for (gsize m = 0; m < G_N_ELEMENTS(models); m++) {
    g_autoptr(Model) model = fixture_known_model(models[m]);
    for (int format = 0; format < DTYPE_COUNT; format++)
      for (gsize s = 0; s < G_N_ELEMENTS(lengths); s++) {
        Plan plan = plan_default(model, framework);
        plan_set_format(&plan, format);
        plan.gpus = 1;
        plan.seq = lengths[s];
        plan.micro_batch = plan.global_batch = s == 0 ? 32 : 1;
        if (plan_check(&plan, model, cluster, NULL) != RULE_NONE)
          continue;
        check_plan(model, &plan, cluster);
        legal++;
      }
  }
  ck_assert_int_gt(legal, 5);
}
END_TEST

/* A result beyond the peak is told as an error. */
START_TEST(what_exceeds_it_is_refused)
{
  g_autoptr(Cluster) cluster = fixture_cluster("dgx", 1);
  g_autoptr(Framework) framework = fixture_framework("megatron-core");
  g_autoptr(Model) model = fixture_known_model("gpt2");
  Plan plan = plan_default(model, framework);
  Metrics metrics = { .iteration_s = 1e-6 };
  GError *error = NULL;

  plan.gpus = plan.global_batch = 1;
  Result r = result_of_metrics(model, cluster, &plan, &metrics);
  ck_assert_double_gt(r.mfu, 1);
  ck_assert(!result_check(&r, &error));
  ck_assert_int_eq(error->code, TDP_ERROR_RUNTIME);
  ck_assert_ptr_nonnull(strstr(error->message, "gpt2 on dgx: predicted to use "));
  g_error_free(error);
}
END_TEST

TEST_LOOPS("physics", { no_more_than_the_peak, G_N_ELEMENTS(clusters) }, { what_exceeds_it_is_refused })
