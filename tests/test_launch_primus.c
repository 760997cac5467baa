/* Primus's experiments: variables, models of a checkout, and what is refused. */
#include "main.h"

#include "import/launch.h"
#include "launch_sample.h"
#include "model/model.h"

#include <glib/gstdio.h>
#include <string.h>

#define HEAD "modules:\n  pre_trainer:\n    framework: megatron\n    config: pre_trainer.yaml\n"
#define TINY "      num_layers: 4\n      hidden_size: 64\n      num_attention_heads: 4\n      vocab_size: 128\n"
#define OWN HEAD "    model: language_model.yaml\n    overrides:\n" TINY

static Launch *read_text(const char *text, const char *name, const char *const *given, GError **error)
{
  ck_assert(launch_recognises(text));
  return launch_read(text, name, &(LaunchOptions) { .gpus = 16, .given = given }, error);
}

static void has(const char *text, const char *part)
{
  ck_assert_msg(strstr(text, part) != NULL, "no %s in %s", part, text);
}

START_TEST(sample)
{
  static const char *const given[] = { "PRIMUS_TP=1", "PRIMUS_BATCH=64", "NOBODY=1", NULL };
  g_autoptr(Launch) usual = launch_of_sample("primus.yaml", 32);
  g_autofree char *text = launch_sample("primus.yaml");
  g_autoptr(Launch) told = read_text(text, "primus.yaml", given, NULL);

  ck_assert_str_eq(usual->tool, "primus");
  has(usual->model, "\"experts\": 8");
  has(usual->plan, "\"tensor_model_parallel_size\": 2");
  has(usual->plan, "\"sequence_parallel\": true"); /* language_model.yaml */
  has(usual->plan, "\"zero_stage\": 1");           /* pre_trainer.yaml */
  has(usual->plan, "\"moe_token_dispatcher_type\": \"flex\"");
  has(usual->plan, "\"seq_length\": 4096");
  ck_assert_uint_eq(usual->unknown->len, 0);
  ck_assert_uint_eq(usual->assumed->len, 1);
  ck_assert_str_eq(usual->assumed->pdata[0], "modules.pre_trainer.model: mixtral_8x7B_v0.1.yaml: as mixtral-8x7b: Primus's "
                   "file of it is not at hand");
  ck_assert_uint_eq(usual->not_simulated->len, 2);
  ck_assert_str_eq(usual->not_simulated->pdata[0], "kernels and fusions other than the software's usual ones: "
                   "no_gradient_accumulation_fusion");
  ck_assert_str_eq(usual->not_simulated->pdata[1], "kernels of Primus and Primus-Turbo: turbo_sync_free_moe_stage, "
                   "use_turbo_grouped_gemm");
  has(told->plan, "\"tensor_model_parallel_size\": 1");
  has(told->plan, "\"global_batch_size\": 64");
  ck_assert_uint_eq(told->assumed->len, 2);
  ck_assert_str_eq(told->assumed->pdata[0], "--script-args: NOBODY=1: nothing in the file asks for it");
}
END_TEST

/* What the experiment overrides, the model's file has behind what it extends. */
START_TEST(checkout)
{
  static const char *const files[][2] = {
    { "base.yaml", "extends:\n  - language_model.yaml\n\nnum_layers: 2\nhidden_size: 64\nswiglu: false\n" },
    { "own_4L.yaml", "extends:\n  - base.yaml\nnum_attention_heads: 4\nvocab_size: 128\nhidden_size: 128\n"
                     "ffn_hidden_size: 256\nstrange_layers: 3\nseq_length: 512\n" },
    { "round.yaml", "extends:\n  - round.yaml\n" },
  };
  g_autofree char *root = g_dir_make_tmp("tdp-XXXXXX", NULL);
  g_autofree char *folder = g_build_filename(root, "primus/configs/models/megatron", NULL);
  g_autofree char *name = g_build_filename(root, "examples/x.yaml", NULL);
  g_autoptr(GError) error = NULL;

  ck_assert_int_eq(g_mkdir_with_parents(folder, 0700), 0);
  for (gsize i = 0; i < G_N_ELEMENTS(files); i++) {
    g_autofree char *path = g_build_filename(folder, files[i][0], NULL);
    ck_assert(g_file_set_contents(path, files[i][1], -1, NULL));
  }
  g_autoptr(Launch) l = read_text(HEAD "    model: own_4L.yaml\n    overrides:\n      num_layers: 4\n", name, NULL,
                                  &error);
  ck_assert_msg(l != NULL, "%s", error ? error->message : "");
  has(l->model, "\"layers\": 4");
  has(l->model, "\"hidden\": 128");
  has(l->model, "\"mlp\": \"gelu\"");
  has(l->plan, "\"seq_length\": 512");
  has(l->plan, "\"global_batch_size\": 16");
  ck_assert_uint_eq(l->unknown->len, 1);
  ck_assert_str_eq(l->unknown->pdata[0], "strange_layers");
  g_autoptr(Launch) endless = read_text(HEAD "    model: round.yaml\n    overrides:\n      seq_length: 64\n", name,
                                        NULL, NULL);
  ck_assert_str_eq(endless->unknown_model, "round.yaml");
  for (gsize i = 0; i < G_N_ELEMENTS(files); i++) {
    g_autofree char *path = g_build_filename(folder, files[i][0], NULL);
    g_remove(path);
  }
  for (char *at = folder; strlen(at) >= strlen(root); *strrchr(at, '/') = '\0')
    g_rmdir(at);
}
END_TEST

/* Ours of its name is another model where an override changes it. */
START_TEST(changed)
{
  static const struct { const char *override; gboolean same; } cases[] = {
    { "num_layers: 32", TRUE }, { "num_layers: 4", FALSE }, { "ffn_hidden_size: 14336", FALSE },
    { "vocab_size: null", TRUE }, { "multi_latent_attention: false", TRUE }, { "multi_latent_attention: true", FALSE },
    { "swiglu: true", TRUE }, { "swiglu: false", FALSE }, { "moe_layer_freq: [0, 1]", FALSE }, { "kv_lora_rank: 64", FALSE },
    { "moe_router_topk: 2", FALSE }, { "normalization: LayerNorm", FALSE }, { "position_embedding_type: rope", TRUE },
    { "add_bias_linear: true", FALSE },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = g_strdup_printf(HEAD "    model: llama3.1_8B.yaml\n    overrides:\n      seq_length: 64\n"
                                            "      %s\n", cases[i].override);
    g_autoptr(Launch) l = read_text(text, "x.yaml", NULL, NULL);
    ck_assert_msg((l->model != NULL) == cases[i].same && (l->unknown_model == NULL) == cases[i].same, "%s", text);
  }
}
END_TEST

/* Words of YAML for truths. */
START_TEST(truths)
{
  static const struct { const char *word, *plan; } cases[] = {
    { "on", "\"parameters\": true" }, { "Yes", "\"parameters\": true" }, { "True", "\"parameters\": true" },
    { "off", "\"parameters\": false" }, { "No", "\"parameters\": false" }, { "False", "\"parameters\": false" } };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = g_strdup_printf(OWN "      overlap_param_gather: %s\n", cases[i].word);
    g_autoptr(Launch) l = read_text(text, "x.yaml", NULL, NULL);
    has(l->plan, cases[i].plan);
  }
}
END_TEST

/* Marks of layers are one word; a window's skip is, too. */
START_TEST(lists)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(Launch) l = read_text(OWN "      it's: a # b\n      \"window_size\": [127, 0]\n      window_attn_skip_freq: [1, 0, 1, 0]\n"
                                  "      recompute_granularity: selective\n      recompute_modules: [\"mlp\", 'layernorm']\n",
                                  "x.yaml", NULL, &error);

  ck_assert_msg(l != NULL, "%s", error ? error->message : "");
  has(l->model, "\"window\": 128");
  has(l->model, "\"sliding_window_pattern\": 2");
  has(l->plan, "\"recompute_modules\": [\"mlp\", \"layernorm\"]");
}
END_TEST

START_TEST(refused)
{
  static const struct { const char *text, *error; } cases[] = {
    { "modules:\n  pre_trainer:\n    framework: torchtitan\n",
      "modules.pre_trainer.framework: torchtitan: expected megatron" },
    { "modules:\n  post_trainer:\n    framework: megatron\n", "modules: expected pre_trainer: " },
    { "modules:\n  pre_trainer:\n    framework: megatron\n    config: sft_trainer.yaml\n",
      "modules.pre_trainer.config: sft_trainer.yaml: expected pre_trainer.yaml" },
    { OWN "      spec: ['primus.x.hybrid_layer_specs', 'y']\n", "spec: ['primus.x.hybrid_layer_specs', 'y']: expected " },
    { OWN "      model_type: kimi_k3\n", "model_type: kimi_k3: expected gpt or mamba" },
    { OWN "      lfm_layer_types: [\"conv\"]\n", "lfm_layer_types: expected nothing" },
    { OWN "      norm_epsilon: .nan\n", "--norm-epsilon: .nan: expected a number" },
    { OWN "      rotary_percent: inf\n", "--rotary-percent: inf: expected a number" },
    { OWN "      seq_length: ${SEQ}\n", "--seq-length: ${SEQ}: expected a number, and nothing in the script says it" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
    launch_is_refused(cases[i].text, "x.yaml", 16, cases[i].error);
}
END_TEST

TEST_MAIN("launch-primus", sample, checkout, changed, truths, lists, refused)
