/* What exporters say of models that their targets do not know. */
#include "test_export.h"

/* Keys that targets have not: other targets refuse them, Megatron-LM's flags lose them or cannot say the model. */
START_TEST(own_keys)
{
#define PLAIN "{\"name\":\"own\",\"layers\":2,\"hidden\":64,\"heads\":4,\"vocab\":128,\"seq\":256," \
              "\"norm\":\"rmsnorm\",\"mlp\":\"swiglu\",\"positions\":\"rope\",\"tied_embeddings\":false"
#define HF "{\"name\":\"own\",\"hidden_size\":64,\"intermediate_size\":96,\"num_attention_heads\":4," \
           "\"vocab_size\":128,\"max_position_embeddings\":256,\"num_hidden_layers\":6"
  static const struct { const char *text, *key, *lost; } cases[] = {
    { PLAIN ",\"bare_norms\":true}", "bare_norms", "norms without weights" },
    { PLAIN ",\"inner_norms\":true}", "inner_norms", "norms before the last product" },
    { PLAIN ",\"head_gate\":true}", "head_gate", "a gate of attention" },
    { PLAIN ",\"v_head_dim\":8}", "v_head_dim", "values of another width than keys" },
    { PLAIN ",\"qk_norm\":true,\"qk_norm_bias\":true}", "qk_norm_bias", NULL },
    { HF ",\"model_type\":\"apertus\"}", "mlp: xielu", "xielu" },
    { HF ",\"model_type\":\"gemma4_text\"}", "hidden_size_per_layer_input", NULL },
    { HF ",\"model_type\":\"gemma4_unified_text\",\"num_kv_shared_layers\":2,\"sliding_window_pattern\":3,"
         "\"layer_types\":[\"full_attention\",\"full_attention\",\"full_attention\",\"full_attention\","
         "\"full_attention\",\"full_attention\"]}",
      "num_kv_shared_layers", NULL },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    Case c = case_new("gpt3", "dgx-h100", 8);
    g_autofree char *refusal =
      g_strdup_printf("torchtitan: model own: %s: expected a decoder without it", cases[i].key);
    model_free(c.model);
    GError *error = NULL;
    c.model = model_parse(cases[i].text, strlen(cases[i].text), "own", &error);
    ck_assert_msg(c.model != NULL, "%s", error ? error->message : "");
    c.plan = plan_default(c.model, &framework);
    c.plan.gpus = c.plan.dp = c.plan.global_batch = 8;
    cannot(&c, "torchtitan", refusal);
    if (cases[i].lost) {
      g_autofree char *losses = lost(&c, "megatron");
      ck_assert_msg(strstr(losses, cases[i].lost) != NULL, "%s: %s", cases[i].key, losses);
    }
    case_clear(&c);
  }
}
END_TEST

/* Models that no script of Megatron-LM trains, and parts that theirs leave out. */
START_TEST(strangers_of_megatron)
{
  static const struct { const char *text, *refused, *lost; } cases[] = {
    { PLAIN ",\"causal\":false}", "a model without attention to all tokens", NULL },
    { HF ",\"model_type\":\"bart\",\"d_model\":64,\"encoder_layers\":2,\"decoder_layers\":2,"
         "\"encoder_attention_heads\":2,\"decoder_attention_heads\":4,\"encoder_ffn_dim\":96,\"decoder_ffn_dim\":96}",
      "a model without attention of its own in each stack", NULL },
    { HF ",\"model_type\":\"switch_transformers\",\"d_model\":64,\"d_kv\":16,\"d_ff\":96,\"num_layers\":6,"
         "\"num_decoder_layers\":6,\"num_heads\":4,\"num_experts\":4}",
      "a model without experts", NULL },
    { HF ",\"model_type\":\"longt5\",\"d_model\":64,\"d_kv\":16,\"d_ff\":96,\"num_layers\":6,"
         "\"num_decoder_layers\":6,\"num_heads\":4}",
      NULL, "windows of the encoder" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    Case c = case_new("gpt3", "dgx-h100", 8);
    GError *error = NULL;
    model_free(c.model);
    c.model = model_parse(cases[i].text, strlen(cases[i].text), "own", &error);
    ck_assert_msg(c.model != NULL, "%zu: %s", i, error ? error->message : "");
    c.plan = plan_default(c.model, &framework);
    c.plan.gpus = c.plan.dp = c.plan.global_batch = 8;
    if (cases[i].refused) {
      g_autofree char *refusal = g_strdup_printf("megatron: model own: expected %s, which is what Megatron-LM core 0.20 "
                                                 "trains", cases[i].refused);
      cannot(&c, "megatron", refusal);
    } else {
      g_autofree char *losses = lost(&c, "megatron");
      ck_assert_msg(strstr(losses, cases[i].lost) != NULL, "%zu: %s", i, losses);
    }
    case_clear(&c);
  }
}
END_TEST

TEST_MAIN("exports of models", own_keys, strangers_of_megatron)
