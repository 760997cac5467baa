/* NeMo 1's YAML: its words for Megatron-LM's arguments, names that stand for others, and what is refused. */
#include "main.h"

#include "import/launch.h"
#include "launch_sample.h"
#include "model/model.h"

#include <string.h>

#define HEAD "trainer:\n  devices: 8\n  precision: bf16\nmodel:\n  micro_batch_size: 1\n" \
             "  tensor_model_parallel_size: 1\n"
#define TINY HEAD "  global_batch_size: 16\n  encoder_seq_length: 64\n  num_layers: 4\n  hidden_size: 64\n" \
             "  num_attention_heads: 4\n  megatron_amp_O2: true\n  override_vocab_size: 128\n" \
             "  hidden_dropout: 0.0\n  attention_dropout: 0.0\n"

static void has(const char *text, const char *part)
{
  ck_assert_msg(strstr(text, part) != NULL, "no %s in %s", part, text);
}

START_TEST(sample)
{
  static const char *const model[] = { "\"layers\": 8", "\"hidden\": 1024", "\"ffn_hidden\": 4096", "\"kv_heads\": 4",
                                       "\"seq\": 2048", "\"mlp\": \"swiglu\"", "\"norm\": \"rmsnorm\"",
                                       "\"partial_rotary_factor\": 0.5", "\"tied_embeddings\": false" };
  static const char *const plan[] = {
    "\"gpus\": 16", "\"tensor_model_parallel_size\": 2", "\"sequence_parallel\": true",
    "\"virtual_pipeline_model_parallel_size\": 4", "\"zero_stage\": 1", "\"recompute_method\": \"block\"",
    "\"recompute_num_layers\": 1", "\"main_grads_dtype\": \"bf16\"", "\"gradients\": true", "\"parameters\": false",
    "\"pipeline\": true", "\"framework\": \"nemo-2024-05\"" };
  g_autoptr(Launch) l = launch_of_sample("nemo.yaml", 0);
  g_autoptr(GError) error = NULL;

  for (gsize i = 0; i < G_N_ELEMENTS(model); i++)
    has(l->model, model[i]);
  for (gsize i = 0; i < G_N_ELEMENTS(plan); i++)
    has(l->plan, plan[i]);
  ck_assert_uint_eq(l->assumed->len, 0);
  ck_assert_uint_eq(l->unknown->len, 0);
  ck_assert_uint_eq(l->not_simulated->len, 1);
  has(l->not_simulated->pdata[0], "model.bias_activation_fusion");
  g_autoptr(Model) read = model_parse(l->model, strlen(l->model), "x", &error);
  ck_assert_msg(read != NULL, "%s", error ? error->message : "");
}
END_TEST

START_TEST(words)
{
  static const struct { const char *text, *says, *assumed; } cases[] = {
    { TINY, "\"framework\": \"nemo-2022\"", NULL },
    { TINY "  optim:\n    name: fused_adam\n    overlap_grad_sync: true\n", "\"zero_stage\": 0", NULL },
    { TINY "  optim:\n    name: mcore_distributed_optim\n", "\"gradients\": false", NULL },
    { TINY "  transformer_engine: true\n  fp8: true\n", "\"fp8_param_gather\": false", NULL },
    { TINY "  transformer_engine: true\n  fp8: true\n  fp8_params: true\n  optim:\n    name: distributed_fused_adam\n",
      "\"fp8_param_gather\": true", NULL },
    { TINY "  megatron_amp_O2: false\n", "\"precision\": \"bf16\"", "model.megatron_amp_O2: false: " },
    { TINY "  activations_checkpoint_method: block\n  activations_checkpoint_num_layers: 2\n",
      "\"recompute_granularity\": \"none\"", NULL },
    { TINY "  rampup_batch_size: [8, 8, 64]\n", "\"global_batch_size\": 16",
      "global_batch_size: 16: the last one, behind what --rampup-batch-size says" },
    { TINY "  tensor_model_parallel_size: 2\n  sequence_parallel: No\n", "\"sequence_parallel\": false", NULL },
    { TINY "  cpu_offloading: false\n  cpu_offloading_num_layers: 3\n", "\"gpus\": 8", NULL },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(GError) error = NULL;
    g_autoptr(Launch) l = launch_read(cases[i].text, "x.yaml", &(LaunchOptions) { 0 }, &error);
    ck_assert_msg(l != NULL, "%s", error ? error->message : "");
    has(l->plan, cases[i].says);
    ck_assert_msg(!strstr(l->plan, "offload"), "%s", l->plan);
    ck_assert_uint_eq(l->assumed->len, cases[i].assumed != NULL);
    if (cases[i].assumed)
      has(l->assumed->pdata[0], cases[i].assumed);
  }
}
END_TEST

/* A window, and which layers have experts. */
START_TEST(lists)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(Launch) l = launch_read(TINY "  window_size:\n  - 15\n  - 0\n  num_moe_experts: 4\n"
                                    "  moe_layer_freq: [0, 1, 1, 1]\n  moe_grouped_gemm: true\n  activation: swiglu\n",
                                    "x.yaml", &(LaunchOptions) { 0 }, &error);

  ck_assert_msg(l != NULL, "%s", error ? error->message : "");
  has(l->model, "\"window\": 16");
  has(l->model, "\"first_dense_layers\": 1");
  has(l->model, "\"ffn_hidden\": 256"); /* four times as wide, where nothing says it */
}
END_TEST

START_TEST(refused)
{
  static const struct { const char *text, *error; } cases[] = {
    { HEAD "  restore_from_path: x.nemo\n", "model.hidden_size, num_layers: expected both" },
    { TINY "  img_h: 224\n", "model.img_h: expected nothing" },
    { TINY "  gated_linear_unit: false\n", "model.gated_linear_unit: expected nothing" },
    { TINY "  name: te_gpt_hyena\n", "model.name: te_gpt_hyena: expected blocks of attention" },
    { TINY "  kd_teacher_restore_from_path: null\n", "model.kd_teacher_restore_from_path: expected nothing" },
    { TINY "  transformer_block_type: normformer\n", "model.transformer_block_type: normformer: expected pre_ln or post_ln" },
    { TINY "  headscale: true\n", "model.headscale: true: expected false" },
    { TINY "  fsdp: true\n", "model.fsdp: true: expected false" },
    { TINY "  activation: geglu\n", "model.activation: geglu: expected gelu, " },
    { TINY "  optim:\n    name: muon\n", "model.optim.name: muon: expected " },
    { TINY "  layernorm_epsilon: .nan\n", "--norm-epsilon: .nan: expected a number" },
    { TINY "  rotary_percentage: inf\n", "--rotary-percent: inf: expected a number" },
    { TINY "  global_batch_size: ${multiply:3, ${.nothing}}\n",
      "--global-batch-size: ${multiply:3, ${.nothing}}: expected" },
    { TINY "  kv_channels: ${.kv_channels}\n", "--kv-channels: ${.kv_channels}: expected a number" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
    launch_is_refused(cases[i].text, "x.yaml", 0, cases[i].error);
}
END_TEST

TEST_MAIN("launch-nemo", sample, words, lists, refused)
