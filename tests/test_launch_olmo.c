/* OLMo's YAML: what its blocks and its strategies are, and what is refused. */
#include "main.h"

#include "import/launch.h"
#include "model/model.h"

#include <string.h>

/* A line per key, of which a later one of the same key counts. */
static char *file_of(const char *norms, const char *model, const char *rest)
{
  return g_strdup_printf("model:\n  d_model: 4096\n  n_heads: 32\n  n_layers: 32\n  mlp_hidden_size: 22016\n"
                         "  rope: true\n  include_bias: false\n  weight_tying: false\n  embedding_size: 50304\n"
                         "  vocab_size: 50280\n  max_sequence_length: 2048\n  attention_dropout: 0.0\n"
                         "  residual_dropout: 0.0\n  embedding_dropout: 0.0\n%s%sglobal_train_batch_size: 2048\n"
                         "device_train_microbatch_size: 2\nprecision: amp_bf16\n%s", norms, model, rest);
}

#define OLMO "  layer_norm_type: default\n  layer_norm_with_affine: false\n"
#define LLAMA "  layer_norm_type: rms\n"
#define OLMO2 "  layer_norm_type: rms\n  attention_layer_norm: true\n  norm_after: true\n"

/* Parameters are those that OLMo 7B has of published ones; norms add their own. */
START_TEST(blocks)
{
  static const struct { const char *norms; gint64 params; } cases[] = {
    { OLMO, 6888095744 }, { LLAMA, 6888095744 + 65 * 4096 }, { OLMO2, 6888095744 + (65 + 64) * 4096 } };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = file_of(cases[i].norms, "", "");
    g_autoptr(GError) error = NULL;
    g_autoptr(Launch) l = launch_read(text, "x.yaml", &(LaunchOptions) { .gpus = 64 }, &error);
    ck_assert_msg(l != NULL, "%s", error ? error->message : "");
    g_autoptr(Model) model = model_parse(l->model, strlen(l->model), "x.yaml", &error);
    ck_assert_msg(model != NULL, "%s", error ? error->message : "");
    ck_assert_int_eq(model->params, cases[i].params);
    ck_assert_int_eq(model->seq, 2048);
    ck_assert_uint_eq(l->assumed->len, 0);
  }
}
END_TEST

START_TEST(strategies)
{
  static const struct { int gpus; const char *rest, *says, *not, *assumed; } cases[] = {
    { 64, "", "\"zero_stage\": 3", "grad_reduce_dtype", NULL },
    { 64, "fsdp:\n  precision: mixed\n", "\"grad_reduce_dtype\": \"fp32\"", "reshard", NULL },
    { 64, "fsdp:\n  sharding_strategy: SHARD_GRAD_OP\n", "\"reshard_after_forward\": false", NULL, NULL },
    { 64, "fsdp:\n  sharding_strategy: NO_SHARD\n", "\"zero_stage\": 0", "reshard", NULL },
    { 64, "fsdp:\n  sharding_strategy: HYBRID_SHARD\n  hybrid_sharding_num_model_replicas: 4\n",
      "\"shard_group_size\": 16", "reshard", NULL },
    { 64, "fsdp:\n  sharding_strategy: HYBRID_SHARD\n  hybrid_sharding_num_model_replicas: 64\n",
      "\"zero_stage\": 0", "shard_group_size", NULL },
    { 64, "fsdp:\n  sharding_strategy: _HYBRID_SHARD_ZERO2\n", "\"shard_group_size\": 8", NULL,
      "fsdp.hybrid_sharding_num_model_replicas: a copy of the weights on every 8 GPUs" },
    { 64, "distributed_strategy: ddp\n", "\"framework\": \"ddp\"", "grad_reduce", NULL },
    { 2048, "", "\"micro_batch_size\": 1", NULL, NULL },
    { 64, "activation_checkpointing: whole_layer\n", "\"recompute_granularity\": \"full\"", "recompute_num_layers",
      NULL },
    { 64, "activation_checkpointing: one_in_three\n", "\"recompute_num_layers\": 11", NULL, NULL },
    { 64, "activation_checkpointing: two_in_three\n", "\"recompute_num_layers\": 21", NULL, NULL },
    { 64, "activation_checkpointing: fine_grained\n", "\"recompute_granularity\": \"none\"", NULL,
      "activation_checkpointing: fine_grained: simulated as none" },
    { 64, "optimizer:\n  name: lionw\n", "\"precision\": \"bf16\"", NULL, "optimizer.name: lionw: " },
    { 0, "", "\"gpus\": 1", NULL, "gpus: 1: " },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = file_of(OLMO, "", cases[i].rest);
    g_autoptr(GError) error = NULL;
    g_autoptr(Launch) l = launch_read(text, "x.yaml", &(LaunchOptions) { .gpus = cases[i].gpus }, &error);
    ck_assert_msg(l != NULL, "%s", error ? error->message : "");
    ck_assert_msg(strstr(l->plan, cases[i].says) && !(cases[i].not && strstr(l->plan, cases[i].not)), "%s", l->plan);
    ck_assert_uint_eq(l->assumed->len, cases[i].assumed != NULL);
    if (cases[i].assumed)
      ck_assert_msg(g_str_has_prefix(l->assumed->pdata[0], cases[i].assumed), "%s", (char *)l->assumed->pdata[0]);
  }
}
END_TEST

START_TEST(is_refused)
{
  static const struct { const char *norms, *model, *rest, *message; } cases[] = {
    { OLMO, "  alibi: true\n", "", "model.alibi: true: expected false: other blocks" },
    { "  layer_norm_type: default\n", "  include_bias: true\n", "", "model.include_bias: true: expected false" },
    { "  layer_norm_type: default\n", "", "", "model.layer_norm_type: default: expected norms as in OLMo" },
    { LLAMA "  norm_after: true\n", "", "", "model.layer_norm_type: rms: expected norms as in OLMo" },
    { OLMO, "  activation_type: gelu\n", "", "model.activation_type: gelu: expected swiglu" },
    { OLMO, "  n_heads: few\n", "", "model.n_heads: few: expected a whole number" },
    { OLMO, "  rope_theta: nan\n", "", "model.rope_theta: nan: expected a number" },
    { OLMO, "  residual_dropout: some\n", "", "model.residual_dropout: some: expected a number" },
    { OLMO, "", "fsdp:\n  sharding_strategy: SOME\n", "fsdp.sharding_strategy: SOME: expected FULL_SHARD" },
    { OLMO, "", "fsdp:\n  sharding_strategy: HYBRID_SHARD\n  hybrid_sharding_num_model_replicas: 3\n",
      "fsdp.hybrid_sharding_num_model_replicas: 3: expected a divisor of the 64 GPUs" },
    { OLMO, "", "precision: bf16\n", "precision: bf16: expected amp_bf16, amp_fp16 or fp32" },
    { OLMO, "", "distributed_strategy: single\n", "distributed_strategy: single: expected fsdp or ddp" },
    { OLMO, "", "activation_checkpointing: some\n", "activation_checkpointing: some: expected whole_layer" },
    { OLMO, "", "global_train_batch_size: 100\n", "global_train_batch_size: 100: expected a multiple of the 64 GPUs" },
    { OLMO, "", "device_train_microbatch_size: 0\n",
      "device_train_microbatch_size: 0: expected a whole number from 1" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = file_of(cases[i].norms, cases[i].model, cases[i].rest);
    GError *error = NULL;
    ck_assert_ptr_null(launch_read(text, "x.yaml", &(LaunchOptions) { .gpus = 64 }, &error));
    g_autofree char *begin = g_strconcat("x.yaml: ", cases[i].message, NULL);
    ck_assert_msg(g_str_has_prefix(error->message, begin), "%s", error->message);
    g_error_free(error);
  }
}
END_TEST

TEST_MAIN("launch-olmo", blocks, strategies, is_refused)
