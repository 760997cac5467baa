/* What the planner proposes for a framework, the framework's own exporter writes. */
#include "main.h"

#include "natives.h"
#include "plan/framework.h"

/* Without a loss, or with one that names the model: a limit of the tool's set of models. */
static void check_native(const char *framework, int question)
{
  if (!native_asked(&native_questions[question], framework))
    return;
  Native native = native_ask(&native_questions[question], framework);
  g_autofree char *asked = native_text(&native_questions[question]);

  ck_assert_msg(native.kind == NATIVE_NOTHING || native.kind == NATIVE_LOSSLESS || native.kind == NATIVE_MODEL,
                "%s, %s: %s: %s: %s", framework, asked, native.plan, native_names[native.kind], native.why);
  native_clear(&native);
}

START_TEST(megatron) { check_native("megatron-core", _i); } END_TEST
START_TEST(deepspeed) { check_native("deepspeed", _i); } END_TEST
START_TEST(torchtitan) { check_native("torchtitan", _i); } END_TEST
START_TEST(nanotron) { check_native("nanotron-2025", _i); } END_TEST
START_TEST(maxtext) { check_native("maxtext-2026", _i); } END_TEST

#define NEWER 5           /* frameworks */
#define NEWER_QUESTIONS 6 /* without a factor in common: so many of the pairs have each framework and each question */

/* Experts, with all that newer software has: exchanges beside passes, parts of layers as CUDA graphs, ZeRO-2 and ZeRO-3. */
START_TEST(newer_with_experts)
{
  static const char *const frameworks[NEWER] = { "nemo-2025-09", "nemo-2026-04", "megatron-core-2026", "nemo-2026-08",
                                                 "megatron-core-dev-2026" };
  static const NativeQuestion questions[NEWER_QUESTIONS] = {
    { "qwen3-next-80b-a3b", "dgx-h100", 64, 64, 4096, "tp=1,pp=1,cp=1", NULL, FALSE },
    { "qwen3-30b-a3b", "dgx-h100", 32, 128, 4096, "tp=1", NULL, FALSE },
    { "qwen3-30b-a3b", "hgx-b200", 16, 64, 4096, "zero=2", NULL, TRUE },
    { "deepseek-v2-lite", "dgx-h100", 16, 64, 4096, "zero=3", NULL, FALSE },
    { "gpt-oss-20b", "dgx-h100", 16, 64, 4096, NULL, NULL, FALSE },
    { "mixtral-8x7b", "dgx-h100", 32, 128, 4096, "ep_overlap=1,mbs=1", "offload,states", FALSE },
  };
  const NativeQuestion *q = &questions[_i % NEWER_QUESTIONS];
  const char *framework = frameworks[_i % NEWER];
  Native native = native_ask(q, framework);
  g_autofree char *asked = native_text(q);

  ck_assert_msg(native.kind != NATIVE_LOSSY && native.kind != NATIVE_REFUSED, "%s, %s: %s: %s: %s", framework, asked,
                native.plan, native_names[native.kind], native.why);
  native_clear(&native);
}
END_TEST

/* Where nodes and ranks are a multiple of three, weights of 4,096 rows lie on parts of the ranks; experts fit on none. */
START_TEST(maxtext_on_threes)
{
  int found = 0;

  for (int i = 0; i < NATIVE_QUESTIONS; i++) {
    const NativeQuestion *q = &native_questions[i];
    if (q->gpus % 3 != 0)
      continue;
    Native native = native_ask(q, "maxtext-2026");
    g_autofree char *asked = native_text(q);
    NativeKind expected = g_str_equal(q->model, "mixtral-8x7b") ? NATIVE_NOTHING : NATIVE_LOSSLESS;
    ck_assert_msg(native.kind == expected, "%s: %s", asked, native_names[native.kind]);
    found += native.kind == NATIVE_LOSSLESS;
    native_clear(&native);
  }
  ck_assert_int_eq(found, 7);
}
END_TEST

/* The file that bounds the planner is the one that the exporter reads. */
START_TEST(exporters_read_their_frameworks)
{
  for (int i = 0; i < native_frameworks_n; i++) {
    g_autoptr(Framework) framework = framework_load(native_frameworks[i], NULL);
    const Exporter *exporter = framework ? exporter_find(framework->engine) : NULL;
    ck_assert_msg(exporter && g_strcmp0(exporter->framework, native_frameworks[i]) == 0, "%s", native_frameworks[i]);
  }
}
END_TEST

TEST_LOOPS("natives", { megatron, NATIVE_QUESTIONS, TRUE }, { deepspeed, NATIVE_QUESTIONS, TRUE }, { torchtitan, NATIVE_QUESTIONS, TRUE },
           { nanotron, NATIVE_QUESTIONS, TRUE }, { maxtext, NATIVE_QUESTIONS, TRUE }, { maxtext_on_threes, 1 },
           { newer_with_experts, test_stride() > 1 ? NEWER_QUESTIONS : NEWER * NEWER_QUESTIONS },
           { exporters_read_their_frameworks, 1 })
