/* Mechanisms of one or a few families: their work beside that of a plain decoder, and files that are refused. */
#include "main.h"
#include "test_worked.h"

#define HF "\"hidden_size\":64,\"intermediate_size\":96,\"num_attention_heads\":4,\"num_key_value_heads\":2," \
           "\"vocab_size\":128,\"max_position_embeddings\":256"
#define DECODER(kind, keys) "{\"model_type\":\"" kind "\",\"num_hidden_layers\":2," HF keys "}"
#define LATENT ",\"kv_lora_rank\":32,\"q_lora_rank\":24,\"qk_nope_head_dim\":16,\"qk_rope_head_dim\":8,\"v_head_dim\":16"
#define EXPERTS ",\"n_routed_experts\":4,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32"

/* Two cores, and values that are twice as wide to model FLOPs. */
START_TEST(differences)
{
  g_autoptr(Model) plain = parsed(DECODER("llama", ""));
  double flops = 0;
  Planned f;

  setup(&f, DECODER("diffllama", ""), 1);
  ck_assert_int_eq(counted_ops(&f, 1, "attention", &flops), 2);
  ck_assert_double_eq(flops, 2 * 2.0 * 4 * 128 * 128 * (16 + 16));
  ck_assert_double_eq(model_flops(f.model, 128) - model_flops(plain, 128), 2 * 6.0 * 128 * 128 * 64);
  ck_assert_int_eq(f.model->params - plain->params, 2 * 4 * 16);
  planned_clear(&f);
}
END_TEST

/* A square of numbers for each head, more of them written where keys are left out. */
START_TEST(masks)
{
  double square = 2.0 * 128 * 128;
  Planned f;

  setup(&f, DECODER("doge", ""), 1);
  ck_assert_double_eq(moved(&f, 1, "mask", FALSE), square * (2 * 2 + 2 * 4));
  planned_clear(&f);
  setup(&f, DECODER("doge", ",\"keep_window_size\":64"), 1);
  ck_assert_double_eq(moved(&f, 1, "mask", FALSE), square * (2 * 2 + 2 * 4 + 6 * 2));
  ck_assert_double_eq(moved(&f, 1, "residual scale", FALSE), 2 * 2 * 2.0 * 128 * 64);
  planned_clear(&f);
}
END_TEST

/* Norms before attention, and before experts. */
START_TEST(gated_norms)
{
  g_autoptr(Model) m = parsed(DECODER("axk2", LATENT EXPERTS));
  g_autoptr(Model) wider = parsed(DECODER("axk2", LATENT EXPERTS ",\"gated_norm_rank\":32"));

  ck_assert_int_eq(block(m, 0)->gated_norms, 1);
  ck_assert_int_eq(block(m, 1)->gated_norms, 2);
  ck_assert_int_eq(wider->params - m->params, (1 + 2) * 2 * 64 * 16);
  ck_assert_int_eq(block(wider, 1)->matrix_params - block(m, 1)->matrix_params, 2 * 2 * 64 * 16);
}
END_TEST

START_TEST(named)
{
  static const char *const cases[][2] = {
    { DECODER("llama", ""), NULL },
    { DECODER("diffllama", ""), "lambda_std_dev" },
    { DECODER("doge", ""), "keep_window_size" },
    { DECODER("axk2", LATENT EXPERTS), "gated_norm_rank" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Model) m = parsed(cases[i][0]);
    ck_assert_pstr_eq(model_own_mechanism(m), cases[i][1]);
  }
}
END_TEST

static const char *const not_counted[][2] = {
  { DECODER("doge", ",\"is_moe\":true"),
    "f: is_moe: true: expected false, as a row of a table for each expert is not counted" },
  { "{\"model_type\":\"diffllama\",\"num_hidden_layers\":2,\"hidden_size\":64,\"num_attention_heads\":4,"
    "\"num_key_value_heads\":1,\"vocab_size\":128,\"intermediate_size\":96}",
    "f: num_key_value_heads: 1: expected an even number, as each attends to half of the values" },
  { DECODER("axk2", LATENT EXPERTS ",\"gated_norm_rank\":0"),
    "f: gated_norm_rank: 0: expected an integer from 1 to 1048576" },
};

START_TEST(refused_keys)
{
  for (gsize i = 0; i < G_N_ELEMENTS(not_counted); i++)
    refused(not_counted[i][0], not_counted[i][1]);
}
END_TEST

TEST_MAIN("mechanisms", differences, masks, gated_norms, named, refused_keys)
