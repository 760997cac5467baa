/* Kernels that memory bounds, by name: losses and norms at the rates that were measured. */
#include <math.h>

#include "cost/kernel.h"
#include "fixture.h"
#include "layouts.h"
#include "main.h"
#include "op/op.h"

static void near(double found, double expected, double tolerance)
{
  ck_assert_msg(fabs(found / expected - 1) <= tolerance, "%.9g, expected %.9g within %g", found, expected, tolerance);
}

/* Transformer Engine's fused loss takes 3.33 ps a logit on B200, forward and backward; what a compiler makes and the
 * steps of eager PyTorch go as other kernels do. */
START_TEST(losses_at_measured_rates)
{
  static const struct { const char *framework, *kernel; double bytes, ps; } cases[] = {
    { "nemo-2025-09", "fused loss", 16, 3.33 }, { "torchtitan", "compiled loss", 16, 16 / (8 * 0.85) },
    { "torchtitan-2025-11-eager", "compiled loss", 16, 16 / (8 * 0.85) },
    { "megatron-core", "loss", 52, 52 / (8 * 0.85) } };
  g_autoptr(Cluster) cluster = fixture_cluster("hgx-b200", 8);

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Model) model = fixture_llama(2, 4096, 32, 32, 4096, 128000);
    g_autoptr(Framework) framework = fixture_framework(cases[i].framework);
    Plan plan = plan_default(model, framework);
    const double logits = 4096.0 * 128000;
    double bytes = 0, seconds = 0;
    LayerWork work;
    plan.gpus = plan.dp = 1;
    plan.global_batch = 1;
    layer_work_init(&work, model, model_layer(model, model->n_layers - 1), PASSES(&plan), cluster);
    for (int backward = 0; backward < 2; backward++) {
      const GArray *ops = backward ? work.backward : work.forward;
      for (guint o = 0; o < ops->len; o++) {
        const Op *op = &g_array_index(ops, Op, o);
        if (strcmp(op->name, "loss") != 0)
          continue;
        ck_assert_str_eq(op_kernel(op), cases[i].kernel);
        bytes += op->memory.bytes;
        seconds += named_memory_s(&cluster->device, op_kernel(op), backward, op->memory.bytes, 0, 0);
      }
    }
    near(bytes / logits, cases[i].bytes, 1e-9);
    near(seconds / logits * 1e12, cases[i].ps, 2e-3);
    layer_work_clear(&work);
  }
}
END_TEST

/* All bytes over all time of eight shapes (cudnn-frontend, benchmark/norms) on GB200: cuDNN's kernels reach 6.03 and 5.10
 * TB/s, torch.compile's 5.06 and 2.45, PyTorch's own 4.46 and 2.11, which the sum with
 * the residual's gradient follows; each step of one in PyTorch is as fast as other kernels. A norm inside has no such
 * sum. */
START_TEST(norms_at_measured_rates)
{
  static const struct { const char *framework, *kernel; double forward, backward; } cases[] = {
    { "megatron-core", "block norm", 6.03e12, 5.1e12 }, { "torchtitan", "block compiled norm", 5.06e12, 2.45e12 },
    { "megatron-2021", "block plain norm", 4.464e12, 2.112e12 }, { "fsdp", "norm in steps", 0, 0 } };
  g_autoptr(Cluster) cluster = fixture_cluster("gb200-nvl72", 4);
  const Device *d = &cluster->device;
  const double bytes = 1e9, sum_s = memory_s(d, bytes, 0), as_others = bytes / sum_s;

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Model) model = fixture_llama(2, 4096, 32, 32, 16384, 1000);
    g_autoptr(Framework) framework = fixture_framework(cases[i].framework);
    Plan plan = plan_default(model, framework);
    LayerWork work;
    plan.gpus = plan.dp = 1;
    plan.global_batch = 1;
    layer_work_init(&work, model, model_layer(model, 1), PASSES(&plan), cluster);
    const Op *norm = &g_array_index(work.forward, Op, 0);
    ck_assert_str_eq(norm->name, "attention norm");
    ck_assert_str_eq(op_kernel(norm), cases[i].kernel);
    double forward = bytes / named_memory_s(d, op_kernel(norm), FALSE, bytes, 0, 0);
    double backward = bytes / (named_memory_s(d, op_kernel(norm), TRUE, 2 * bytes, 0, 0) - sum_s);
    ck_assert_double_eq_tol(forward, cases[i].forward > 0 ? cases[i].forward : as_others, 0.005 * forward);
    ck_assert_double_eq_tol(backward, cases[i].backward > 0 ? cases[i].backward : as_others, 0.005 * backward);
    layer_work_clear(&work);
  }
  ck_assert_double_eq_tol(bytes / named_memory_s(d, "latent norm", TRUE, bytes, 0, 0), 5.1e12, 0.01e12);
}
END_TEST

/* Norms of heads and latents go step by step where a block's do, of 16 bits and wide numbers between: 7 kernels each
 * forward, 10 backward. */
START_TEST(inner_norms_in_steps)
{
  static const struct { const char *model; int layer; const char *name; double values; int norms; } cases[] = {
    { "qwen3-0.6b", 1, "qk norm", (16 + 8) * 128, 2 }, { "deepseek-v2-lite", 1, "latent norm", 512, 1 },
  };
  g_autoptr(Cluster) cluster = fixture_cluster("dgx-h100", 1);

  for (gsize i = 0; i < 2 * G_N_ELEMENTS(cases); i++) {
    const int at = i / 2, steps = i % 2;
    g_autoptr(Model) model = fixture_known_model(cases[at].model);
    g_autoptr(Framework) framework = fixture_framework("fsdp");
    LayerWork work;
    framework->fused_rms_norm = !steps;
    Plan plan = plan_default(model, framework);
    plan.gpus = plan.dp = plan.global_batch = 1;
    layer_work_init(&work, model, model_layer(model, cases[at].layer), PASSES(&plan), cluster);
    const double values = cases[at].values * plan.seq;
    int found = 0;
    for (guint k = 0; k < work.forward->len + work.backward->len; k++) {
      gboolean back = k >= work.forward->len;
      const Op *op = back ? &g_array_index(work.backward, Op, k - work.forward->len) : &g_array_index(work.forward, Op, k);
      if (!g_str_equal(op->name, cases[at].name))
        continue;
      found++;
      ck_assert_int_eq(g_str_equal(op_kernel(op), "norm in steps"), steps);
      ck_assert_double_eq(op->memory.kernels, steps ? (back ? 10 : 7) * cases[at].norms : back ? 2 : cases[at].norms);
      ck_assert_double_eq(op->memory.bytes, values * (steps ? (back ? 20 + 48 : 12 + 24) : !back ? 4 : at ? 6 : 8));
    }
    ck_assert_int_eq(found, 2);
    layer_work_clear(&work);
  }
}
END_TEST

TEST_LOOPS("cost memory", { losses_at_measured_rates }, { norms_at_measured_rates }, { inner_norms_in_steps })
