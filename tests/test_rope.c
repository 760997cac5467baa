/* Rotary positions whose cosines are scaled. */
#include "main.h"
#include "planned.h"

#include "base/error.h"

#include <math.h>
#include <string.h>

static Model *parsed(const char *text, GError **error)
{
  return model_parse(text, strlen(text), "f", error);
}

/* YaRN, arXiv 2309.00071, equation 22, and what transformers' _compute_yarn_parameters makes of each key. */
START_TEST(scales)
{
  static const struct {
    const char *key;
    double scale;
  } cases[] = {
    { "\"rope_type\":\"yarn\",\"factor\":32", 1.3465735902799727 },
    { "\"rope_type\":\"yarn\",\"factor\":40,\"mscale\":1,\"mscale_all_dim\":1", 1 }, /* DeepSeek-V3 */
    { "\"rope_type\":\"yarn\",\"factor\":40,\"mscale\":0.707,\"mscale_all_dim\":1", 0.9210423553163399 },
    { "\"rope_type\":\"yarn\",\"factor\":40,\"mscale\":0.707", 1.3688879454113936 },
    { "\"type\":\"yarn\",\"factor\":32,\"attention_factor\":1.5", 1.5 },
    { "\"type\":\"yarn\",\"factor\":1", 1 },
    { "\"type\":\"yarn\",\"factor\":0.5", 1 },
    { "\"type\":\"yarn\"", 1 },
    { "\"type\":\"linear\",\"factor\":32", 1 },
    { "\"rope_type\":\"llama3\",\"factor\":8", 1 },
  };

  ck_assert_double_eq(rope_scale(&(RopeScaling) { NULL }), 1);
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = g_strdup_printf("{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":2,"
                                            "\"vocab_size\":100,\"num_attention_heads\":4,\"intermediate_size\":96,"
                                            "\"rope_scaling\":{%s}}", cases[i].key);
    g_autoptr(Model) m = parsed(text, NULL);
    ck_assert_msg(fabs(rope_scale(&m->rope_scaling) - cases[i].scale) < 1e-12, "%s: %.16g", cases[i].key,
                  rope_scale(&m->rope_scaling));
  }
  g_autoptr(Model) oss = fixture_known_model("gpt-oss-20b");
  ck_assert_double_eq_tol(rope_scale(&oss->rope_scaling), cases[0].scale, 1e-12);
  ck_assert(oss->rope_scaling.exact);
  ck_assert_double_eq(oss->rope_scaling.fast, 32);
  ck_assert_double_eq(oss->rope_scaling.slow, 1);
  ck_assert_double_eq(oss->rope_scaling.tokens, 4096);
}
END_TEST

#define NATIVE "{\"layers\": 2, \"hidden\": 64, \"heads\": 4, \"vocab\": 100, \"seq\": 8, \"positions\": "

/* Files of ours are strict. */
START_TEST(native_files)
{
  static const char *const bad[][2] = {
    { "\"rope\", \"rope_scaling\": 4}", "f: rope_scaling: 4: expected an object with rope_type, beside positions \"rope\"" },
    { "\"rope\", \"rope_scaling\": {\"type\": \"yarn\"}}",
      "f: rope_scaling: {…}: expected an object with rope_type, beside positions \"rope\"" },
    { "\"learned\", \"rope_scaling\": {\"rope_type\": \"yarn\"}}",
      "f: rope_scaling: {…}: expected an object with rope_type, beside positions \"rope\"" },
  };
  g_autoptr(Model) m = parsed(NATIVE "\"rope\", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 32}}", NULL);
  g_autoptr(Model) none = parsed(NATIVE "\"rope\", \"rope_scaling\": null}", NULL);

  ck_assert_double_eq_tol(rope_scale(&m->rope_scaling), 1.3465735902799727, 1e-12);
  ck_assert(!m->rope_scaling.exact);
  ck_assert_ptr_null(none->rope_scaling.kind);
  for (gsize i = 0; i < G_N_ELEMENTS(bad); i++) {
    g_autofree char *text = g_strconcat(NATIVE, bad[i][0], NULL);
    GError *error = NULL;
    ck_assert_ptr_null(parsed(text, &error));
    test_error(&error, TDP_ERROR_INPUT, bad[i][1]);
  }
  GError *error = NULL;
  ck_assert_ptr_null(parsed(NATIVE "\"rope\", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factr\": 32}}", &error));
  ck_assert_msg(strstr(error->message, "factr") != NULL, "%s", error->message);
  g_clear_error(&error);
}
END_TEST

/* Queries of 16 heads of 64 and keys of 4, 16 bits a value, are read and written 12 times forward and 14 backward by
 * 24 and 14 kernels, else once each by one. */
START_TEST(turned_apart)
{
  static const struct {
    const char *framework;
    double factor;
    gboolean latent, apart;
  } cases[] = {
    { "nemo-2026-02", 32, FALSE, TRUE },     { "nemo-2026-08", 32, FALSE, TRUE },
    { "megatron-core-2026", 32, FALSE, TRUE }, { "megatron-core-dev-2026", 32, FALSE, TRUE },
    { "nemo-2026-08", 1, FALSE, FALSE },     { "nemo-2026-08", 0, FALSE, FALSE },
    { "nemo-2025-11", 32, FALSE, FALSE },    { "megatron-core", 32, FALSE, FALSE },
    { "torchtitan", 32, FALSE, FALSE },      { "nemo-2026-08", 32, TRUE, FALSE },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    Planned f;
    planned_init(&f, cases[i].latent ? fixture_known_model("deepseek-v2-lite") : fixture_llama(2, 1024, 16, 4, 512, 1000),
                 fixture_cluster("dgx-h100", 8), cases[i].framework);
    planned_spread(&f, 1);
    f.plan.seq = f.model->seq;
    f.framework->complex_rope = FALSE;
    double before = planned_op_bytes(&f, 1, "rotary", FALSE), back = planned_op_bytes(&f, 1, "rotary", TRUE);
    f.model->rope_scaling = (RopeScaling) { .kind = cases[i].factor > 0 ? g_intern_string("yarn") : NULL,
                                            .factor = cases[i].factor };
    double times = cases[i].apart ? 6 : 1, times_back = cases[i].apart ? 7 : 1;
    ck_assert_double_gt(before, 0);
    ck_assert_msg(planned_op_bytes(&f, 1, "rotary", FALSE) == times * before, "%zu", i);
    ck_assert_msg(planned_op_bytes(&f, 1, "rotary", TRUE) == times_back * back, "%zu", i);
    if (cases[i].apart)
      ck_assert_double_eq(times * before, 12 * 2.0 * 512 * (16 + 4) * 64);
    f.framework->fused_rope = FALSE; /* then as where cosines are scaled, whether they are or not */
    double stepwise = planned_op_bytes(&f, 1, "rotary", FALSE);
    gboolean core = f.framework->scaled_rope_apart && !cases[i].latent;
    ck_assert_msg(cases[i].latent || stepwise == (core ? 6 : 4) * before, "%zu", i);
    f.model->rope_scaling.kind = NULL;
    ck_assert_double_eq(planned_op_bytes(&f, 1, "rotary", FALSE), stepwise);
    planned_clear(&f);
  }
}
END_TEST

/* DeepSeek-V2 Lite's 16 queries of 192 turn 64 each, its keys 64 for all heads: 8 times without a kernel, in torchtitan
 * 20 bytes a value for 2, and queries and keys of all heads are joined; one kernel passes over all of them. Before
 * Megatron Core 0.13 there was none, so they are sorted into halves and turned: 14 times, and 21 back. */
START_TEST(part_of_latent_attention_turns)
{
  static const struct {
    const char *framework;
    gboolean fused, complex;
    double turned, each, back, joined;
  } cases[] = {
    { "megatron-core", TRUE, FALSE, 2 * 16 * 192, 2 * 2, 2 * 2, 0 },
    { "megatron-core", FALSE, FALSE, 17 * 64, 8 * 2, 8 * 2, 2 * 2 },
    { "torchtitan", TRUE, TRUE, 17 * 64, 20, 20, 2 * 2 },
    { "torchtitan", TRUE, FALSE, 2 * 16 * 192, 2 * 2, 2 * 2, 0 },
    { "nemo-2025-04", TRUE, FALSE, 17 * 64, 14 * 2, 21 * 2, 2 * 2 },
    { "nemo-2025-05", TRUE, FALSE, 17 * 64, 14 * 2, 21 * 2, 2 * 2 },
    { "nemo-2025-09", TRUE, FALSE, 2 * 16 * 192, 2 * 2, 2 * 2, 0 },
    { "nemo-2026-08", FALSE, FALSE, 17 * 64, 14 * 2, 21 * 2, 2 * 2 },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    Planned f;
    planned_init(&f, fixture_known_model("deepseek-v2-lite"), fixture_cluster("dgx-h100", 8), cases[i].framework);
    planned_spread(&f, 1);
    f.plan.seq = f.model->seq;
    f.framework->fused_rope = cases[i].fused;
    f.framework->complex_rope = cases[i].complex;
    for (int back = 0; back < 2; back++) {
      double tokens = op_tokens(PASSES(&f.plan)), all = 2 * 16 * 192;
      double each = back ? cases[i].back : cases[i].each;
      ck_assert_double_eq(planned_op_bytes(&f, 1, "rotary", back), tokens * cases[i].turned * each);
      ck_assert_double_eq(planned_op_bytes(&f, 1, "join turned", back), tokens * all * cases[i].joined);
    }
    planned_clear(&f);
  }
}
END_TEST

static double kernels_of(const Planned *f, gboolean backward)
{
  LayerWork work;
  double kernels = 0;

  layer_work_init(&work, f->model, model_layer(f->model, 1), PASSES(&f->plan), f->cluster);
  const GArray *ops = backward ? work.backward : work.forward;
  for (guint i = 0; i < ops->len; i++) {
    const Op *op = &g_array_index(ops, Op, i);
    kernels += g_str_equal(op->name, "rotary") ? op->memory.kernels : 0;
  }
  layer_work_clear(&work);
  return kernels;
}

START_TEST(kernels)
{
  Planned f;

  planned_init(&f, fixture_llama(2, 1024, 16, 4, 512, 1000), fixture_cluster("dgx-h100", 8), "nemo-2026-08");
  planned_spread(&f, 1);
  ck_assert_double_eq(kernels_of(&f, FALSE), 1);
  ck_assert_double_eq(kernels_of(&f, TRUE), 1);
  f.model->rope_scaling = (RopeScaling) { .kind = g_intern_string("yarn"), .factor = 32 };
  ck_assert_double_eq(kernels_of(&f, FALSE), 24);
  ck_assert_double_eq(kernels_of(&f, TRUE), 14);
  f.model->rope_scaling.kind = NULL;
  f.framework->fused_rope = FALSE;
  ck_assert_double_eq(kernels_of(&f, FALSE), 24);
  ck_assert_double_eq(kernels_of(&f, TRUE), 14);
  f.framework->scaled_rope_apart = FALSE;
  ck_assert_double_eq(kernels_of(&f, FALSE), 8);
  planned_clear(&f);
  for (int latent = 0; latent < 2; latent++) {
    planned_init(&f, latent ? fixture_known_model("deepseek-v2-lite") : fixture_llama(2, 1024, 16, 4, 512, 1000),
                 fixture_cluster("dgx-h100", 8), "nemo-2025-04");
    planned_spread(&f, 1);
    f.plan.seq = f.model->seq;
    ck_assert_double_eq(kernels_of(&f, FALSE), latent ? 26 : 1);
    ck_assert_double_eq(kernels_of(&f, TRUE), latent ? 20 : 1);
    planned_clear(&f);
  }
}
END_TEST

TEST_MAIN("rope", scales, native_files, turned_apart, part_of_latent_attention_turns, kernels)
