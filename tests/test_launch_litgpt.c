/* litgpt's YAML: what it pretrains and fine-tunes, how it divides, and what is refused. */
#include "main.h"

#include "import/launch.h"
#include "model/model.h"

#include <string.h>

#define PRETRAIN "model_name: tiny-llama-1.1b\n"
#define FULL "checkpoint_dir: checkpoints/meta-llama/Meta-Llama-3-8B\n"
#define LORA FULL "lora_r: 32\n"
#define TRAIN "train:\n  global_batch_size: 64\n  micro_batch_size: 4\n  max_seq_length: 512\n"

START_TEST(runs)
{
  static const struct { const char *text; int gpus; const char *says, *not, *assumed; } cases[] = {
    { PRETRAIN "devices: 8\nnum_nodes: 2\nprecision: bf16-mixed\n" TRAIN, 0, "\"shard_group_size\": 8",
      "main_params", NULL },
    { PRETRAIN "devices: 8\nprecision: bf16-mixed\n" TRAIN, 0, "\"zero_stage\": 3", "shard_group_size", NULL },
    { PRETRAIN "devices: 8\n" TRAIN, 0, "\"recompute_granularity\": \"none\"", NULL, NULL },
    { PRETRAIN "devices: auto\n" TRAIN, 16, "\"gpus\": 16", NULL, NULL },
    { PRETRAIN "devices: -1\n" TRAIN, 16, "\"gpus\": 16", NULL, NULL },
    { PRETRAIN "devices: auto\n" TRAIN, 0, "\"gpus\": 1", "no_sync", "gpus: 1: " },
    { FULL "devices: 4\nnum_nodes: 2\n" TRAIN, 0, "\"recompute_granularity\": \"full\"", "shard_group_size", NULL },
    { FULL "devices: 4\n" TRAIN, 0, "\"no_sync\": true", "adapter", NULL },
    { FULL "devices: 1\n" TRAIN, 0, "\"recompute_granularity\": \"none\"", "\"zero_stage\": 3", NULL },
    { FULL "devices: 4\nprecision: bf16-true\n" TRAIN, 0, "\"main_params_dtype\": \"bf16\"", NULL, NULL },
    { FULL "devices: 4\nprecision: 16-mixed\n" TRAIN, 0, "\"precision\": \"fp16\"", "main_params", NULL },
    { FULL "devices: 6\n" TRAIN, 0, "\"global_batch_size\": 48", NULL,
      "train.global_batch_size: 64: litgpt makes 2 passes" },
    { FULL "devices: 4\noptimizer:\n  class_path: torch.optim.SGD\n" TRAIN, 0, "\"optimizer\": \"sgd\"", NULL, NULL },
    { FULL "devices: 4\noptimizer:\n  class_path: x.PagedAdamW8bit\n" TRAIN, 0, "\"optimizer\": \"adam8bit\"",
      NULL, NULL },
    { FULL "devices: 4\noptimizer:\n  class_path: galore.GaLore\n" TRAIN, 0, "\"gpus\": 4", "\"optimizer\"",
      "optimizer: galore.GaLore: simulated as AdamW" },
    { LORA "devices: 1\n" TRAIN, 0, "\"adapter\": \"lora:r=32,targets=q_proj,v_proj\"", NULL, NULL },
    { LORA "lora_key: true\nlora_projection: true\nlora_mlp: true\ndevices: 1\n" TRAIN, 0, "\"adapter\": \"lora:r=32\"",
      NULL, NULL },
    { LORA "lora_key: on\nlora_query: no\ndevices: 1\n" TRAIN, 0, "\"adapter\": \"lora:r=32,targets=k_proj,v_proj\"",
      NULL, NULL },
    { LORA "quantize: bnb.nf4\ndevices: 1\n" TRAIN, 0, "\"adapter\": \"qlora:r=32,", NULL, NULL },
    { LORA "quantize: bnb.int8-training\ndevices: 1\n" TRAIN, 0, "\"adapter\": \"lora:r=32,", NULL,
      "quantize: bnb.int8-training: simulated" },
    { LORA "lora_head: true\ndevices: 1\n" TRAIN, 0, "\"adapter\"", NULL, "lora_head: true: simulated without" },
    { "model_name: made-up\ndevices: 1\n" TRAIN, 0, "\"gpus\": 1", NULL, "model: made-up: not among" },
    { PRETRAIN "model_config:\n  n_layer: 4\ndevices: 1\n" TRAIN, 0, "\"gpus\": 1", NULL,
      "model: tiny-llama-1.1b: not among" },
    { PRETRAIN "devices: 1\ntrain:\n  global_batch_size: 64\n", 0, "\"micro_batch_size\": 4", "seq_length",
      "seq_length: " },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(GError) error = NULL;
    g_autoptr(Launch) l = launch_read(cases[i].text, "x.yaml", &(LaunchOptions) { .gpus = cases[i].gpus }, &error);
    ck_assert_msg(l != NULL, "%s", error ? error->message : "");
    ck_assert_msg(strstr(l->plan, cases[i].says) && !(cases[i].not && strstr(l->plan, cases[i].not)), "%s", l->plan);
    ck_assert_msg(l->assumed->len == (cases[i].assumed != NULL), "%zu: %u", i, l->assumed->len);
    if (cases[i].assumed)
      ck_assert_msg(g_str_has_prefix(l->assumed->pdata[0], cases[i].assumed), "%s", (char *)l->assumed->pdata[0]);
    ck_assert_int_eq(l->model != NULL, l->unknown_model == NULL);
  }
}
END_TEST

START_TEST(models)
{
  static const struct { const char *text, *name; } cases[] = {
    { PRETRAIN "devices: 1\n" TRAIN, "tinyllama-1.1b" }, { FULL "devices: 1\n" TRAIN, "llama-3.1-8b" },
    { "checkpoint_dir: x/TinyLlama-1.1B-intermediate-step-1431k-3T\ndevices: 1\n" TRAIN, "tinyllama-1.1b" } };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Launch) l = launch_read(cases[i].text, "x.yaml", &(LaunchOptions) { 0 }, NULL);
    ck_assert(l && l->model);
    g_autoptr(Model) model = model_parse(l->model, strlen(l->model), "x.yaml", NULL);
    ck_assert_str_eq(model->name, cases[i].name);
  }
}
END_TEST

START_TEST(is_refused)
{
  static const struct { const char *text, *message; } cases[] = {
    { FULL "devices: 4\nprecision: bf15\n" TRAIN, "precision: bf15: expected bf16-true" },
    { FULL "devices: some\n" TRAIN, "devices: some: expected a whole number" },
    { FULL "devices: -4\n" TRAIN, "devices: -4: expected a whole number from 1" },
    { FULL "devices: 4\nnum_nodes: 0\n" TRAIN, "num_nodes: 0: expected a whole number from 1" },
    { FULL "devices: 32\n" TRAIN, "train.global_batch_size: 64: expected at least the 4 of train.micro_batch_size" },
    { FULL "devices: 4\ntrain:\n  global_batch_size: 64\n  micro_batch_size: 0\n",
      "train.global_batch_size: 64: expected" },
    { LORA "lora_query: false\nlora_value: false\ndevices: 1\n" TRAIN, "lora_query: false: expected one of" },
    { LORA "quantize: bnb.nf4\ndevices: 4\n" TRAIN, "quantize: bnb.nf4: expected one GPU, not 4" },
    { LORA "lora_r: few\ndevices: 1\n" TRAIN, "lora_r: few: expected a whole number" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    GError *error = NULL;
    ck_assert_msg(!launch_read(cases[i].text, "x.yaml", &(LaunchOptions) { 0 }, &error), "%s", cases[i].text);
    g_autofree char *begin = g_strconcat("x.yaml: ", cases[i].message, NULL);
    ck_assert_msg(g_str_has_prefix(error->message, begin), "%s", error->message);
    g_error_free(error);
  }
}
END_TEST

TEST_MAIN("launch-litgpt", runs, models, is_refused)
