/* DeepSpeed's memory helpers: what its documentation prints for t5-3b on 8 GPUs, and corners of the formulas. */
#include "deepspeed_memory.h"
#include "fixture.h"
#include "main.h"

#include <math.h>

/* As they print it: hundredths of a GiB. */
static void check_printed(double bytes, double printed)
{
  ck_assert_double_eq_tol(round(bytes / 0x1p30 * 100) / 100, printed, 1e-9);
}

typedef struct {
  int zero;
  gboolean optimizer, params, init;
  double host, gpu, cold_host, cold_gpu;
} Printed;

/* docs/code-docs/source/memory.rst: with the model, then with 2851e6 and 32e6 parameters. */
static const Printed documented[] = {
  { 2, TRUE, FALSE, FALSE, 127.48, 5.31, 127.45, 5.31 },
  { 3, TRUE, TRUE, TRUE, 71.71, 0.12, 71.69, 0.12 },
  { 3, TRUE, TRUE, FALSE, 127.48, 0.12, 127.45, 0.12 },
  { 3, TRUE, FALSE, TRUE, 63.74, 0.79, 63.72, 0.78 },
  { 3, TRUE, FALSE, FALSE, 127.48, 0.79, 127.45, 0.78 },
  { 3, FALSE, FALSE, TRUE, 1.47, 6.10, 1.43, 6.09 },
  { 3, FALSE, FALSE, FALSE, 127.48, 6.10, 127.45, 6.09 },
};

START_TEST(documented_figures)
{
  g_autoptr(Model) model = fixture_known_model("t5-3b");

  ck_assert_double_eq(deepspeed_largest_params(model), 32128.0 * 1024);
  for (gsize i = 0; i < G_N_ELEMENTS(documented); i++) {
    const Printed *p = &documented[i];
    DeepspeedSetup setup = { .params = (double)model->params, .largest_params = deepspeed_largest_params(model),
                             .nodes = 1, .node_gpus = 8, .zero = p->zero, .offload_optimizer = p->optimizer,
                             .offload_params = p->params, .zero_init = p->init,
                             .buffer_factor = DEEPSPEED_BUFFER_FACTOR };
    check_printed(deepspeed_memory(&setup).host_bytes, p->host);
    check_printed(deepspeed_memory(&setup).gpu_bytes, p->gpu);
    setup.params = 2851e6;
    setup.largest_params = 32e6;
    check_printed(deepspeed_memory(&setup).host_bytes, p->cold_host);
    check_printed(deepspeed_memory(&setup).gpu_bytes, p->cold_gpu);
  }
}
END_TEST

/* t5-large on 4 GPUs, MB: the three cases of the same page. */
START_TEST(documented_cases)
{
  DeepspeedSetup setup = { .params = 737668096, .largest_params = 32899072, .nodes = 1, .node_gpus = 4, .zero = 3,
                           .buffer_factor = DEEPSPEED_BUFFER_FACTOR };

  ck_assert_double_eq(floor(deepspeed_memory(&setup).gpu_bytes / 0x1p20), 3291);
  setup.offload_optimizer = TRUE;
  ck_assert_double_eq(floor(deepspeed_memory(&setup).gpu_bytes / 0x1p20), 477);
  setup.offload_params = TRUE;
  ck_assert_double_eq(floor(deepspeed_memory(&setup).gpu_bytes / 0x1p20), 125);
}
END_TEST

/* Nodes share what is offloaded, each of them makes whole weights first without zero.Init;
 * ZeRO-2 without offload: 2 + 18/N. */
START_TEST(nodes_share)
{
  DeepspeedSetup setup = { .params = 1e9, .largest_params = 1e7, .nodes = 4, .node_gpus = 2, .zero = 3,
                           .offload_optimizer = TRUE, .zero_init = TRUE, .buffer_factor = 1 };

  ck_assert_double_eq(deepspeed_memory(&setup).host_bytes, 4e9);
  setup.zero_init = FALSE;
  ck_assert_double_eq(deepspeed_memory(&setup).host_bytes, 8e9);
  setup.zero = 2;
  ck_assert_double_eq(deepspeed_memory(&setup).host_bytes, 32e9);
  setup.offload_optimizer = FALSE;
  ck_assert_double_eq(deepspeed_memory(&setup).gpu_bytes, 2e9 + 18e9 / 8);
  ck_assert_double_eq(deepspeed_memory(&setup).host_bytes, 8e9);
}
END_TEST

TEST_MAIN("deepspeed_memory", documented_figures, documented_cases, nodes_share)
