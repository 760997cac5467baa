/* KempnerForge's TOML. */
#include "main.h"

#include "import/launch.h"
#include "launch_sample.h"
#include "model/model.h"

#include <string.h>

#define MODEL "[model]\ndim = 4096\nn_layers = 4\n"
#define TINY MODEL "[train]\nbatch_size = 2\n"

static void has(const char *text, const char *part)
{
  ck_assert_msg(strstr(text, part) != NULL, "no %s in %s", part, text);
}

START_TEST(sample)
{
  static const char *const model[] = { "\"ffn_hidden\": 7168", "\"expert_ffn_hidden\": 3584", "\"experts\": 8",
                                       "\"kv_heads\": 4", "\"seq\": 4096" };
  static const char *const plan[] = { "\"gpus\": 16", "\"global_batch_size\": 32", "\"sequence_parallel\": true",
                                      "\"zero_stage\": 3", "\"shard_group_size\": 2", "\"precision\": \"bf16\"",
                                      "\"recompute_granularity\": \"full\"",
                                      "\"framework\": \"kempnerforge-2026-eager\"" };
  g_autoptr(Launch) l = launch_of_sample("kempner.toml", 0);
  g_autoptr(GError) error = NULL;

  for (gsize i = 0; i < G_N_ELEMENTS(model); i++)
    has(l->model, model[i]);
  for (gsize i = 0; i < G_N_ELEMENTS(plan); i++)
    has(l->plan, plan[i]);
  ck_assert_uint_eq(l->unknown->len, 0);
  ck_assert_uint_eq(l->assumed->len, 1);
  ck_assert_str_eq(l->assumed->pdata[0], "optimizer.name: lion: simulated as adamw");
  ck_assert_uint_eq(l->not_simulated->len, 1);
  has(l->not_simulated->pdata[0], "train.loss_fn");
  g_autoptr(Model) read = model_parse(l->model, strlen(l->model), "x", &error);
  ck_assert_msg(read != NULL, "%s", error ? error->message : "");
}
END_TEST

START_TEST(words)
{
  static const struct { const char *text; int gpus; const char *says; } cases[] = {
    { TINY, 8, "\"global_batch_size\": 16" }, { TINY "grad_accum_steps = 3\n", 8, "\"global_batch_size\": 48" },
    { TINY "[distributed]\ntp = 2\npp = 2\n", 8, "\"sequence_parallel\": false" },
    { TINY "[distributed]\npp = 2\npp_schedule = \"gpipe\"\n", 8, "\"pipeline_schedule\": \"gpipe\"" },
    { TINY "[distributed]\ndp_shard = 4\n", 0, "\"gpus\": 4" }, { TINY, 8, "\"framework\": \"kempnerforge-2026\"" },
    { TINY "mixed_precision = \"fp32\"\n", 8, "\"precision\": \"fp32\"" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(GError) error = NULL;
    g_autoptr(Launch) l = launch_read(cases[i].text, "x.toml", &(LaunchOptions) { cases[i].gpus }, &error);
    ck_assert_msg(l != NULL, "%s", error ? error->message : "");
    has(l->plan, cases[i].says);
    has(l->model, "\"ffn_hidden\": 11008"); /* 4 x 4096 x 2/3, up to 256 */
  }
}
END_TEST

/* However many are told share one. */
START_TEST(shared_experts)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(Launch) l = launch_read(MODEL "num_experts = 8\nmoe_shared_experts = 2\n[train]\nbatch_size = 2\n"
                                    "[optimizer]\nfused = false\n", "x.toml", &(LaunchOptions) { 8 }, &error);

  ck_assert_msg(l != NULL, "%s", error ? error->message : "");
  has(l->model, "\"shared_ffn_hidden\": 11008");
  ck_assert_uint_eq(l->assumed->len, 1);
  has(l->assumed->pdata[0], "optimizer.fused: false: simulated as true");
}
END_TEST

START_TEST(refused)
{
  static const struct { const char *text, *error; } cases[] = {
    { TINY "[distributed]\nep = 2\n", "distributed.ep: 2: expected 1: ranks that share experts " },
    { TINY "[distributed]\ndp_shard = 0\n", "distributed.dp_shard: 0: expected -1 or at least 1" },
    { TINY "[distributed]\ncp = 2\n", "distributed.cp: 2: expected 1" },
    { TINY "[distributed]\ndp_shard = 4\ntp = 4\n", "--gpus: 8: expected the 16 that the file comes to" },
    { TINY "[distributed]\npp_schedule = \"interleaved_1f1b\"\n",
      "distributed.pp_schedule: interleaved_1f1b: expected" },
    { TINY "activation_checkpointing = \"selective\"\n", "train.activation_checkpointing: selective: expected " },
    { TINY "mixed_precision = \"fp8\"\n[distributed]\ntp = 2\n", "train.mixed_precision: fp8: expected another" },
    { MODEL "num_experts = 4\n[train]\nbatch_size = 2\n[distributed]\npp = 2\n", "distributed.pp: 2: expected 1 under " },
    { TINY "[vision_encoder]\ntype = \"siglip2\"\n", "vision_encoder.type: expected nothing" },
    { MODEL "activation = \"gelu\"\n[train]\nbatch_size = 2\n", "model.activation: gelu: expected silu" },
    { MODEL "moe_frequency = 2\n[train]\nbatch_size = 2\n", "model.moe_frequency: 2: expected 1" },
    { MODEL "rope_theta = nan\n[train]\nbatch_size = 2\n", "model.rope_theta: nan: expected a number" },
    { MODEL "ffn_dim_multiplier = inf\n[train]\nbatch_size = 2\n", "model.ffn_dim_multiplier: inf: expected a number" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
    launch_is_refused(cases[i].text, "x.toml", 8, cases[i].error);
}
END_TEST

TEST_MAIN("launch-kempnerforge", sample, words, shared_experts, refused)
