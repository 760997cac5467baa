#include "test_model.h"

#include "model/family.h"

#include <cjson/cJSON.h>

#define LLAMA                                                                                      \
  "\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":4,\"vocab_size\":100,"        \
  "\"num_attention_heads\":4,\"intermediate_size\":96"
#define AS(type)                                                                                   \
  "\"model_type\":\"" type "\",\"hidden_size\":64,\"num_hidden_layers\":4,\"vocab_size\":100,"     \
  "\"num_attention_heads\":4,\"intermediate_size\":96"
#define KV ",\"num_key_value_heads\":4" /* of kinds whose classes take another number */
#define GPT2 "\"model_type\":\"gpt2\",\"n_embd\":64,\"n_layer\":4,\"n_head\":4,\"vocab_size\":100"

/* ---- totals ---- */

/* The 19 extracts of published configs, to the last digit. */
START_TEST(expected)
{
  g_autofree char *path = files_data_path("tests/data/hf/EXPECTED.json");
  g_autofree char *text = NULL;
  ck_assert(g_file_get_contents(path, &text, NULL, NULL));
  cJSON *root = cJSON_Parse(text);
  ck_assert_int_eq(cJSON_GetArraySize(root), 19);
  for (const cJSON *item = root->child; item; item = item->next) {
    g_autoptr(Model) m = loaded("tests/data/hf", item->string);
    ck_assert_str_eq(m->name, item->string);
    double total = cJSON_GetObjectItem(item, "total")->valuedouble;
    double active = cJSON_GetObjectItem(item, "active")->valuedouble;
    ck_assert_msg(m->params == (gint64)total, "%s: %" G_GINT64_FORMAT, m->name, m->params);
    ck_assert_msg(m->active_params == (gint64)active, "%s: %" G_GINT64_FORMAT " active", m->name,
                  m->active_params);
  }
  cJSON_Delete(root);
}
END_TEST

/* ---- traps ---- */

START_TEST(aliases)
{
  static const char *const same[] = {
    "\"hidden_size\":64,\"num_hidden_layers\":4,\"num_attention_heads\":4,\"n_positions\":64",
    "\"n_embd\":64,\"n_layer\":4,\"n_head\":4,\"max_position_embeddings\":64",
    "\"d_model\":64,\"num_layers\":4,\"num_heads\":4,\"n_ctx\":64",
    "\"n_embed\":64,\"n_embd\":64,\"n_layer\":4,\"n_head\":4,\"n_ctx\":64,\"n_positions\":64",
  };
  g_autoptr(Model) first = NULL;
  for (gsize i = 0; i < G_N_ELEMENTS(same); i++) {
    g_autofree char *text =
      g_strdup_printf("{\"model_type\":\"gpt2\",\"vocab_size\":100,%s}", same[i]);
    g_autoptr(Model) m = parsed(text);
    if (!first)
      first = g_steal_pointer(&m);
    else
      ck_assert_int_eq(m->params, first->params);
  }
  static const char *const experts[] = {"num_experts", "num_local_experts", "n_routed_experts"};
  for (gsize i = 0; i < G_N_ELEMENTS(experts); i++) {
    g_autofree char *text = g_strdup_printf(
      "{" AS("mixtral") KV ",\"%s\":8,\"num_experts_per_tok\":2}", experts[i]);
    g_autoptr(Model) m = parsed(text);
    ck_assert_int_eq(block(m, 0)->ffn.experts, 8);
  }
  static const char *const kv[] = {"num_kv_heads", "n_head_kv", "num_key_value_heads"};
  for (gsize i = 0; i < G_N_ELEMENTS(kv); i++) {
    g_autofree char *text = g_strdup_printf("{" LLAMA ",\"%s\":2}", kv[i]);
    g_autoptr(Model) m = parsed(text);
    ck_assert_int_eq(block(m, 0)->attention.kv_heads, 2);
  }
}
END_TEST

START_TEST(aliases_that_differ)
{
  refused("{" GPT2 ",\"hidden_size\":32}",
          "f: n_embd: 64: expected the value of its other spelling hidden_size, 32");
  refused("{" GPT2 ",\"n_positions\":64,\"n_ctx\":32}",
          "f: n_ctx: 32: expected the value of its other spelling n_positions, 64");
  refused("{" AS("mixtral") KV ",\"num_local_experts\":8,\"num_experts\":4,\"num_experts_per_tok\":2}",
          "f: num_local_experts: 8: expected the value of its other spelling num_experts, 4");
  refused("{" AS("falcon") ",\"num_kv_heads\":2,\"n_head_kv\":1}",
          "f: n_head_kv: 1: expected the value of its other spelling num_kv_heads, 2");
}
END_TEST

START_TEST(null_zero_absent)
{
  g_autoptr(Model) inner = parsed("{" GPT2 ",\"n_inner\":null}");
  ck_assert_int_eq(block(inner, 0)->ffn.width, 256);
  refused("{" GPT2 ",\"n_inner\":0}", "f: n_inner: 0: expected an integer from 1 to 16777216");

  g_autoptr(Model) head = parsed("{" LLAMA ",\"head_dim\":null,\"num_key_value_heads\":null}");
  ck_assert_int_eq(block(head, 0)->attention.head_dim, 16);
  ck_assert_int_eq(block(head, 0)->attention.kv_heads, 4);

  g_autoptr(Model) absent = parsed("{" AS("mistral") KV "}");
  g_autoptr(Model) null = parsed("{" AS("mistral") KV ",\"sliding_window\":null}");
  g_autoptr(Model) given = parsed("{" AS("mistral") KV ",\"sliding_window\":8}");
  ck_assert_int_eq(block(absent, 0)->attention.window, 4096);
  ck_assert_int_eq(block(null, 0)->attention.window, 0);
  ck_assert_int_eq(block(given, 0)->attention.window, 8);

  g_autoptr(Model) zero = parsed("{" AS("mistral") KV ",\"sliding_window\":0}");
  ck_assert_int_eq(block(zero, 0)->attention.window, 0);

  static const char rest[] = "\"n_routed_experts\":8,\"num_experts_per_tok\":2}";
  g_autofree char *none = g_strdup_printf("{" AS("deepseek_v2") ",\"q_lora_rank\":null,%s", rest);
  g_autofree char *some = g_strdup_printf("{" AS("deepseek_v2") ",%s", rest);
  g_autoptr(Model) full = parsed(none);
  g_autoptr(Model) low = parsed(some);
  ck_assert_int_eq(block(full, 0)->attention.q_lora_rank, 0);
  ck_assert_int_eq(block(low, 0)->attention.q_lora_rank, 1536);
}
END_TEST

START_TEST(head_dim_of_its_own)
{
  static const struct {
    const char *file;
    int hidden, heads, head_dim;
  } cases[] = {
    {"mistral-nemo-12b", 5120, 32, 128}, {"qwen3-30b-a3b", 2048, 32, 128},
    {"gemma-2-9b", 3584, 16, 256},       {"gpt-oss-120b", 2880, 64, 64},
    {"t5-11b", 1024, 128, 128},          {"deepseek-v3", 7168, 128, 192},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Model) m = loaded("tests/data/hf", cases[i].file);
    ck_assert_int_eq(m->hidden, cases[i].hidden);
    ck_assert_int_eq(block(m, 0)->attention.heads, cases[i].heads);
    ck_assert_int_eq(block(m, 0)->attention.head_dim, cases[i].head_dim);
  }
  refused("{" LLAMA ",\"num_key_value_heads\":3}",
          "f: num_key_value_heads: 3: expected a divisor of num_attention_heads (4)");
  refused("{\"model_type\":\"gpt2\",\"n_embd\":64,\"n_layer\":4,\"n_head\":5,\"vocab_size\":100}",
          "f: n_embd: 64: expected a multiple of n_head (5), or a head_dim given");
}
END_TEST

START_TEST(falcon)
{
  g_autoptr(Model) m = loaded("tests/data/hf", "falcon-7b");
  ck_assert_int_eq(block(m, 0)->attention.kv_heads, 1);
  ck_assert_int_eq(block(m, 0)->norms, 1);
  ck_assert(block(m, 0)->parallel && m->tied_embeddings && m->norm_bias);
  ck_assert(!block(m, 0)->attention.qkv_bias);

  g_autoptr(Model) large = loaded("models", "falcon-40b");
  ck_assert_int_eq(block(large, 0)->attention.kv_heads, 8);
  ck_assert_int_eq(block(large, 0)->norms, 2);
  g_autoptr(Model) old = parsed(
    "{\"model_type\":\"RefinedWeb\",\"hidden_size\":8192,\"n_layer\":60,\"n_head\":128,"
    "\"n_head_kv\":8,\"parallel_attn\":true,\"bias\":false,\"alibi\":false,\"vocab_size\":65024,"
    "\"tie_word_embeddings\":false}");
  ck_assert_int_eq(old->params, large->params);

  g_autoptr(Model) rw = parsed(
    "{" AS("falcon") ",\"parallel_attn\":false,\"multi_query\":false,\"bias\":true,"
    "\"alibi\":true}");
  ck_assert_int_eq(block(rw, 0)->attention.kv_heads, 4);
  ck_assert_int_eq(block(rw, 0)->norms, 2);
  ck_assert(block(rw, 0)->ffn.bias && !block(rw, 0)->parallel);
  ck_assert_int_eq(rw->positions, POSITIONS_ALIBI);
  g_autoptr(Model) two = parsed(
    "{" AS("falcon") ",\"new_decoder_architecture\":true,\"num_ln_in_parallel_attn\":1}");
  ck_assert_int_eq(block(two, 0)->norms, 1);
}
END_TEST

START_TEST(biases_not_in_the_file)
{
  g_autoptr(Model) qwen = loaded("tests/data/hf", "qwen2.5-0.5b");
  ck_assert(block(qwen, 0)->attention.qkv_bias && !block(qwen, 0)->attention.out_bias);
  ck_assert(!block(qwen, 0)->ffn.bias && qwen->tied_embeddings);
  g_autoptr(Model) llama = parsed("{" LLAMA ",\"attention_bias\":true,\"mlp_bias\":true}");
  ck_assert(block(llama, 0)->attention.out_bias && block(llama, 0)->ffn.bias);
  g_autoptr(Model) oss = loaded("tests/data/hf", "gpt-oss-120b");
  ck_assert(block(oss, 0)->attention.out_bias && block(oss, 0)->ffn.bias);
  ck_assert(block(oss, 0)->ffn.router_bias && block(oss, 0)->ffn.clamped && !block(llama, 0)->ffn.clamped);
  ck_assert_int_eq(block(oss, 0)->attention.extra_params, 64);
  /* DeepSeek's number of key-value heads means nothing */
  g_autoptr(Model) a = loaded("tests/data/hf", "deepseek-v3");
  ck_assert_int_eq(block(a, 0)->attention.kv_heads, 128);
  g_autoptr(Model) b = parsed(
    "{" AS("deepseek_v3") ",\"num_key_value_heads\":3,\"n_routed_experts\":8,"
    "\"num_experts_per_tok\":2}");
  ck_assert_int_eq(block(b, 0)->attention.kv_heads, 4);
}
END_TEST

START_TEST(tied_by_default)
{
  static const struct {
    const char *text;
    gboolean tied;
  } cases[] = {
    {"{" GPT2 "}", TRUE},
    {"{" AS("opt") "}", TRUE},
    {"{" AS("bloom") "}", TRUE},
    {"{" AS("falcon") "}", TRUE},
    {"{" AS("t5") "}", TRUE},
    {"{" AS("gemma2") KV "}", TRUE},
    {"{" AS("gemma3_text") "}", TRUE},
    {"{" LLAMA "}", FALSE},
    {"{" AS("mistral") KV "}", FALSE},
    {"{" AS("qwen2") "}", FALSE},
    {"{" AS("qwen3") "}", FALSE},
    {"{" AS("gpt_neox") "}", FALSE},
    {"{" AS("phi3") "}", FALSE},
    {"{" LLAMA ",\"tie_word_embeddings\":true}", TRUE},
    {"{" LLAMA ",\"tie_word_embeddings\":null}", FALSE},
    {"{" AS("gemma2") KV ",\"tie_word_embeddings\":false}", FALSE},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Model) m = parsed(cases[i].text);
    ck_assert_msg(m->tied_embeddings == cases[i].tied, "%s", cases[i].text);
    ck_assert_int_eq(model_layer(m, m->n_layers - 1)->tied_params, cases[i].tied ? 6400 : 0);
  }
}
END_TEST

/* Trainable weights, once each: not what a model page shows for its files. */
START_TEST(trainable)
{
  static const struct {
    const char *file;
    gint64 ours, page;
  } cases[] = {
    {"gpt2", 124439808, 137022720},
    {"falcon-7b", 6921720704, 7217189760},
    {"qwen3-0.6b", 596049920, 751632384},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Model) m = loaded("models", cases[i].file);
    ck_assert_int_eq(m->params, cases[i].ours);
    ck_assert_int_lt(m->params, cases[i].page);
  }
  /* the layer for multi-token prediction is left out, the correction counted */
  g_autoptr(Model) v3 = loaded("tests/data/hf", "deepseek-v3");
  ck_assert(block(v3, 3)->ffn.router_correction && !block(v3, 2)->ffn.router_correction);
  ck_assert_int_eq(v3->params - 58 * 256, 671026404352);
}
END_TEST

/* A letter a layer: d dense, s sparse. */
static void check_sparse(const char *text, const char *pattern)
{
  g_autoptr(Model) m = parsed(text);
  ck_assert_int_eq(m->blocks, strlen(pattern));
  for (int i = 0; i < m->blocks; i++)
    ck_assert_msg((block(m, i)->ffn.experts > 0) == (pattern[i] == 's'), "%s: %d", text, i);
}

#define EXPERTS ",\"num_experts\":8,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32"

START_TEST(sparse_layers)
{
  check_sparse("{" AS("mixtral") KV EXPERTS "}", "ssss");
  check_sparse("{" AS("qwen2_moe") EXPERTS ",\"decoder_sparse_step\":2}", "dsds");
  check_sparse("{" AS("qwen3_moe") KV EXPERTS ",\"mlp_only_layers\":[0,2,9]}", "dsds");
  check_sparse("{" AS("qwen3_moe") KV EXPERTS ",\"mlp_only_layers\":[1],\"decoder_sparse_step\":2}",
               "ddds");
  check_sparse("{" AS("deepseek_v2") EXPERTS ",\"first_k_dense_replace\":3}", "ddds");
  check_sparse("{" AS("deepseek_v2") EXPERTS ",\"first_k_dense_replace\":3,\"mlp_only_layers\":[]}", "ddds");
  check_sparse("{" AS("deepseek_v2") EXPERTS ",\"first_k_dense_replace\":1,\"moe_layer_freq\":2}",
               "ddsd");
  check_sparse("{" AS("exaone_moe") EXPERTS ",\"first_k_dense_replace\":2,\"mlp_layer_types\":[\"dense\",\"sparse\","
               "\"dense\",\"sparse\"]}", "dsds");
  check_sparse("{" AS("ernie4_5_moe") EXPERTS ",\"moe_layer_start_index\":0,\"moe_layer_end_index\":2}", "sssd");
  check_sparse("{" AS("ernie4_5_moe") EXPERTS ",\"moe_layer_end_index\":-1}", "dsss");
  refused("{" AS("hy_v3") EXPERTS ",\"mlp_layer_types\":[\"dense\"]}",
          "f: mlp_layer_types: […]: expected an array of 4 strings, one a layer");
  refused("{" AS("hy_v3") EXPERTS ",\"mlp_layer_types\":[\"dense\",\"moe\",\"dense\",\"dense\"]}",
          "f: mlp_layer_types[1]: \"moe\": expected one of dense, sparse");
  refused("{" AS("ernie4_5_moe") EXPERTS ",\"moe_layer_end_index\":1.5}",
          "f: moe_layer_end_index: 1.5: expected an integer of at least -1");
  refused("{" AS("cohere2_moe") EXPERTS ",\"prefix_dense_intermediate_size\":128}",
          "f: prefix_dense_intermediate_size: 128: expected null, as dense layers of a width of their own have no cost "
          "here");
  refused("{" AS("qwen3_moe") KV EXPERTS ",\"mlp_only_layers\":[0.5]}",
          "f: mlp_only_layers[0]: 0.5: expected an integer from 0 to 100000");
  refused("{" AS("qwen3_moe") KV EXPERTS ",\"mlp_only_layers\":3}",
          "f: mlp_only_layers: 3: expected an array of integers");
  refused("{" AS("mixtral") KV "}",
          "f: num_experts: missing: expected an integer from 1 to 65536");
  refused("{" AS("mixtral") KV ",\"num_local_experts\":8,\"num_experts_per_tok\":9}",
          "f: num_experts_per_tok: 9: expected an integer from 1 to num_local_experts (8)");
}
END_TEST

START_TEST(shared_experts)
{
  g_autoptr(Model) qwen = loaded("models", "qwen1.5-moe-a2.7b");
  ck_assert_int_eq(block(qwen, 0)->ffn.shared_width, 5632);
  ck_assert(block(qwen, 0)->ffn.shared_gate);
  g_autoptr(Model) lite = loaded("tests/data/hf", "deepseek-v2-lite");
  ck_assert_int_eq(block(lite, 1)->ffn.shared_width, 2 * 1408);
  ck_assert(!block(lite, 1)->ffn.shared_gate);
}
END_TEST

START_TEST(vocabulary_as_published)
{
  g_autoptr(Model) m = loaded("models", "gpt3");
  ck_assert_int_eq(m->vocab, 50257);
  /* padded for TP 8 it would be */
  ck_assert_int_eq(m->params + (51200 - 50257) * 12288, 174615846912);
}
END_TEST

START_TEST(expert_width)
{
  g_autoptr(Model) qwen = loaded("tests/data/hf", "qwen3-30b-a3b");
  ck_assert_int_eq(block(qwen, 0)->ffn.width, 768);
  g_autoptr(Model) absent = parsed(
    "{\"model_type\":\"qwen3_moe\",\"hidden_size\":64,\"num_hidden_layers\":4,\"vocab_size\":100,"
    "\"num_attention_heads\":4" KV EXPERTS "}");
  ck_assert_int_eq(block(absent, 0)->ffn.width, 32);
  refused("{\"model_type\":\"qwen3_moe\",\"hidden_size\":64,\"num_hidden_layers\":4,"
          "\"vocab_size\":100,\"num_attention_heads\":4" KV EXPERTS ",\"mlp_only_layers\":[1]}",
          "f: intermediate_size: missing: expected an integer from 1 to 16777216");
  g_autoptr(Model) mixtral = loaded("tests/data/hf", "mixtral-8x7b");
  ck_assert_int_eq(block(mixtral, 0)->ffn.width, 14336);
  g_autoptr(Model) oss = loaded("tests/data/hf", "gpt-oss-120b");
  ck_assert_int_eq(block(oss, 0)->ffn.width, 2880);
}
END_TEST

START_TEST(numbers)
{
  g_autoptr(Model) m = parsed("{" LLAMA ",\"max_position_embeddings\":4096.0,"
                              "\"eos_token_id\":[1,2],\"big\":9007199254740993}");
  ck_assert_int_eq(m->seq, 4096);
  static const char *const cases[][2] = {
    {"\"4096\"", "\"4096\""}, {"0.5", "0.5"}, {"1e300", "1e+300"}, {"-1", "-1"},
    {"true", "true"},         {"{}", "{}"},   {"[1]", "[…]"},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text =
      g_strdup_printf("{" LLAMA ",\"max_position_embeddings\":%s}", cases[i][0]);
    g_autofree char *message = g_strdup_printf(
      "f: max_position_embeddings: %s: expected an integer from 1 to 1000000000", cases[i][1]);
    refused(text, message);
  }
  refused("{" LLAMA ",\"max_position_embeddings\":null}",
          "f: max_position_embeddings: missing: expected an integer from 1 to 1000000000");
  refused("{" LLAMA ",\"tie_word_embeddings\":1}",
          "f: tie_word_embeddings: 1: expected true or false");
  refused("{\"model_type\":\"llama\"}",
          "f: hidden_size: missing: expected an integer from 1 to 1048576");
}
END_TEST

/* What Python writes and JSON has not counts as null, but not in a string and not in files of ours. */
START_TEST(numbers_of_python)
{
  g_autoptr(Model) m = parsed("{" LLAMA ",\"a\":[0.0,Infinity,-Infinity],\"b\":NaN,\"name\":\"NaN\\\\\\\"NaN\","
                              "\"head_dim\":NaN}");
  ck_assert_str_eq(m->name, "NaN\\\"NaN");
  ck_assert_int_eq(block(m, 0)->attention.head_dim, 16);
  refused("{" LLAMA ",\"hidden_size\":Infinity}", "f: hidden_size: duplicate key");
  refused("{\"layers\":Infinity}", "f:1:11: expected a value, found 'Infinity'");
}
END_TEST

#define KINDS "expected one of those that tdp-plan --list kinds names"

START_TEST(unknown_model_type)
{
  refused("{\"model_type\":\"zzzzzz\"}", "f: model_type: \"zzzzzz\": " KINDS "; blocks that are those of a Llama are read as "
                                           "\"llama\"");
  refused("{\"model_type\":\"lama\"}", "f: model_type: \"lama\": " KINDS "; did you mean \"llama\"?");
  refused("{\"model_type\":\"blt\"}", "f: model_type: \"blt\": expected a model without patches of bytes (patcher_config), which "
                                        "have no cost here: one of those that tdp-plan --list kinds names");
  refused("{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":64}", "f: model_type: missing: " KINDS);
  refused("{\"model_type\":3}", "f: model_type: 3: " KINDS "; blocks that are those of a Llama are read as \"llama\"");
  g_auto(GStrv) kinds = model_kinds();
  ck_assert_uint_gt(g_strv_length(kinds), 150);
  for (int i = 0; kinds[i]; i++)
    ck_assert_msg(family_find(kinds[i]) && !family_reason(kinds[i]), "%s", kinds[i]);
}
END_TEST

TEST_MAIN("model_hf", expected, aliases, aliases_that_differ, null_zero_absent, head_dim_of_its_own, falcon,
          biases_not_in_the_file, tied_by_default, trainable, sparse_layers, shared_experts, vocabulary_as_published,
          expert_width, numbers, numbers_of_python, unknown_model_type)
