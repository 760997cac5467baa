/* Hugging Face config.json: what families have of their own. */
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
#define EXPERTS ",\"num_experts\":8,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32"
#define GPT2 "\"model_type\":\"gpt2\",\"n_embd\":64,\"n_layer\":4,\"n_head\":4,\"vocab_size\":100"

/* A letter a layer: w window, a all. */
static void check_windows(const Model *m, const char *pattern)
{
  for (int i = 0; pattern[i]; i++)
    ck_assert_msg((block(m, i)->attention.window > 0) == (pattern[i] == 'w'), "%s: %d", m->name, i);
}

START_TEST(windows)
{
  g_autoptr(Model) gemma2 = loaded("tests/data/hf", "gemma-2-9b");
  check_windows(gemma2, "wawawawa");
  g_autoptr(Model) gemma3 = loaded("tests/data/hf", "gemma-3-1b");
  check_windows(gemma3, "wwwwwawwwwwaw");
  g_autoptr(Model) oss = loaded("tests/data/hf", "gpt-oss-120b");
  check_windows(oss, "wawawawa");
  ck_assert_int_eq(block(oss, 0)->attention.window, 128);
  g_autoptr(Model) qwen = parsed("{" AS("qwen2") ",\"sliding_window\":8}");
  check_windows(qwen, "aaaa");
  g_autoptr(Model) late = parsed(
    "{" AS("qwen2") ",\"sliding_window\":8,\"use_sliding_window\":true,\"max_window_layers\":3}");
  check_windows(late, "aaaw");
  g_autoptr(Model) typed = parsed(
    "{" AS("gpt_oss") KV EXPERTS ",\"layer_types\":[\"full_attention\",\"full_attention\","
    "\"sliding_attention\",\"full_attention\"]}");
  check_windows(typed, "aawa");
  refused("{" LLAMA ",\"layer_types\":[\"full_attention\"]}",
          "f: layer_types: […]: expected an array of 4 strings, one a layer");
  refused("{" LLAMA ",\"layer_types\":[\"a\",\"b\",\"c\",\"d\"]}",
          "f: layer_types[0]: \"a\": expected one of full_attention, sliding_attention");
}
END_TEST

START_TEST(opt)
{
  g_autoptr(Model) small = loaded("tests/data/hf", "opt-350m");
  ck_assert_int_eq(small->position_rows, 2050);
  ck_assert_int_eq(small->seq, 2048);
  ck_assert_int_eq(small->embed_dim, 512);
  ck_assert_int_eq(model_layer(small, 0)->matrix_params, 512 * 1024);
  ck_assert_int_eq(model_layer(small, 25)->params, 512 * 1024);
  ck_assert_int_eq(model_layer(small, 25)->norms, 0);
  ck_assert(small->dropout);
  g_autoptr(Model) usual = loaded("models", "opt-125m");
  ck_assert_int_eq(model_layer(usual, 13)->params, 2 * 768);
  ck_assert_int_eq(model_layer(usual, 13)->norms, 1);
}
END_TEST

START_TEST(dropout)
{
  static const struct {
    const char *text;
    gboolean dropout;
  } cases[] = {
    {"{" GPT2 "}", TRUE},
    {"{" GPT2 ",\"resid_pdrop\":0.0}", FALSE},
    {"{" AS("opt") "}", TRUE},
    {"{" AS("opt") ",\"dropout\":0}", FALSE},
    {"{" LLAMA "}", FALSE},
    {"{" AS("bloom") ",\"hidden_dropout\":0.1}", TRUE},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Model) m = parsed(cases[i].text);
    ck_assert_msg(m->dropout == cases[i].dropout, "%s", cases[i].text);
  }
}
END_TEST

/* Version 5 of transformers keeps rotary positions in an object, or in one for each kind of layer. */
START_TEST(constants)
{
  static const struct {
    const char *text;
    double theta, share, epsilon, balance;
  } cases[] = {
    {"{" LLAMA "}", 1e4, 1, 1e-6, 0},
    {"{" LLAMA ",\"rope_theta\":500000.0,\"rms_norm_eps\":1e-05}", 5e5, 1, 1e-5, 0},
    {"{" LLAMA ",\"rope_parameters\":{\"rope_theta\":500000,\"partial_rotary_factor\":0.5}}", 5e5, 0.5, 1e-6, 0},
    {"{" AS("gemma3_text") ",\"rope_parameters\":{\"full_attention\":{\"rope_theta\":2e6},\"sliding_attention\":"
     "{\"rope_theta\":1e4}}}", 2e6, 1, 1e-6, 0},
    {"{" AS("mixtral") KV ",\"num_local_experts\":8,\"num_experts_per_tok\":2,\"router_aux_loss_coef\":0.02}", 1e6, 1,
     1e-5, 0.02},
    {"{" GPT2 "}", 0, 1, 1e-5, 0},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Model) m = parsed(cases[i].text);
    ck_assert_double_eq(m->rope_theta, cases[i].theta);
    ck_assert_double_eq(m->rotary_share, cases[i].share);
    ck_assert_double_eq(m->norm_epsilon, cases[i].epsilon);
    ck_assert_double_eq(m->balance_loss, cases[i].balance);
  }
}
END_TEST

START_TEST(rope_scaling)
{
  g_autoptr(Model) none = parsed("{" LLAMA "}");
  ck_assert_ptr_null(none->rope_scaling.kind);
  g_autoptr(Model) old = parsed("{" LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":4}}");
  ck_assert_str_eq(old->rope_scaling.kind, "linear");
  ck_assert_double_eq(old->rope_scaling.factor, 4);
  g_autoptr(Model) new = parsed("{" LLAMA ",\"rope_parameters\":{\"rope_type\":\"llama3\",\"factor\":8,"
                                "\"low_freq_factor\":1,\"high_freq_factor\":4,"
                                "\"original_max_position_embeddings\":8192}}");
  ck_assert_str_eq(new->rope_scaling.kind, "llama3");
  ck_assert_double_eq(new->rope_scaling.low, 1);
  ck_assert_double_eq(new->rope_scaling.high, 4);
  ck_assert_double_eq(new->rope_scaling.tokens, 8192);
}
END_TEST

START_TEST(t5)
{
  g_autoptr(Model) m = parsed(
    "{\"model_type\":\"t5\",\"d_model\":64,\"d_kv\":32,\"d_ff\":96,\"num_layers\":3,"
    "\"num_decoder_layers\":4,\"num_heads\":4,\"vocab_size\":100}");
  ck_assert_int_eq(m->blocks, 7);
  ck_assert_int_eq(m->n_layers, 9);
  ck_assert_int_eq(m->encoder_blocks, 3);
  ck_assert_int_eq(m->positions, POSITIONS_RELATIVE);
  const LayerSpec *first = model_layer(m, 0), *entry = model_layer(m, 4);
  ck_assert(first->kind == LAYER_EMBEDDING && first->encoder);
  ck_assert(entry->entry && !entry->encoder && !model_layer(m, 5)->entry);
  ck_assert_int_eq(first->params, 6400);
  ck_assert_int_eq(entry->tied_params, 6400);

  gint64 attention = 4 * 64 * 128, ffn = 2 * 64 * 96;
  for (int i = 1; i <= 3; i++) {
    const LayerSpec *spec = model_layer(m, i);
    ck_assert(spec->encoder && !spec->attention.causal && !spec->cross.heads);
    ck_assert_int_eq(spec->attention.extra_params, i == 1 ? 32 * 4 : 0);
    ck_assert_int_eq(spec->params, attention + ffn + 64 * (i == 3 ? 3 : 2) + (i == 1 ? 128 : 0));
  }
  for (int i = 4; i <= 7; i++) {
    const LayerSpec *spec = model_layer(m, i);
    ck_assert(!spec->encoder && spec->attention.causal && spec->cross.heads == 4);
    ck_assert(!spec->cross.causal);
    ck_assert_int_eq(spec->params, 2 * attention + ffn + 64 * 3 + (i == 4 ? 128 : 0));
  }
  ck_assert_int_eq(model_layer(m, 8)->params, 64);

  g_autoptr(Model) flan = loaded("models", "flan-t5-base");
  ck_assert_int_eq(model_layer(flan, 1)->ffn.kind, MLP_SWIGLU);
  ck_assert(!flan->tied_embeddings);
  refused("{\"model_type\":\"t5\",\"d_model\":64,\"d_ff\":96,\"num_decoder_layers\":4,"
          "\"num_heads\":4,\"vocab_size\":100}",
          "f: num_hidden_layers: missing: expected an integer from 1 to 100000");
}
END_TEST

/* Parameters of published checkpoints. */
START_TEST(counts_are_published)
{
  static const struct { const char *text; gint64 params; } known[] = {
    { "\"gpt_neo\",\"hidden_size\":768,\"num_layers\":12,\"num_heads\":12,\"intermediate_size\":null,"
      "\"vocab_size\":50257,\"attention_types\":[[[\"global\",\"local\"],6]]", 125198592 },
    { "\"gpt_neo\",\"hidden_size\":2560,\"num_layers\":32,\"num_heads\":20,\"intermediate_size\":null,"
      "\"vocab_size\":50257", 2651307520 },
    { "\"openai-gpt\",\"n_embd\":768,\"n_layer\":12,\"n_head\":12,\"vocab_size\":40478", 116534784 },
    { "\"biogpt\",\"hidden_size\":1024,\"num_hidden_layers\":24,\"num_attention_heads\":16,"
      "\"intermediate_size\":4096,\"vocab_size\":42384", 346763264 },
    { "\"xglm\",\"d_model\":1024,\"num_layers\":24,\"attention_heads\":16,\"ffn_dim\":4096,\"vocab_size\":256008",
      564463616 },
    { "\"mpt\",\"d_model\":4096,\"n_layers\":32,\"n_heads\":32,\"expansion_ratio\":4,\"max_seq_len\":2048,"
      "\"vocab_size\":50432,\"no_bias\":true", 6649286656 },
    { "\"umt5\",\"d_model\":512,\"d_ff\":1024,\"d_kv\":64,\"num_heads\":6,\"num_layers\":8,"
      "\"num_decoder_layers\":8,\"vocab_size\":256384,\"tie_word_embeddings\":false", 306601984 },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(known); i++) {
    g_autofree char *text = g_strdup_printf("{\"model_type\":%s}", known[i].text);
    g_autoptr(Model) m = parsed(text);
    ck_assert_int_eq(m->params, known[i].params);
  }
}
END_TEST

/* GPT-Neo's local layers see 256 tokens, others all; what the list leaves out, or does not know, is refused. */
START_TEST(gpt_neo)
{
  g_autoptr(Model) m = parsed("{" AS("gpt_neo") ",\"attention_types\":[[[\"global\"],2],[[\"local\"],2]]}");
  g_autoptr(Model) usual = parsed("{" AS("gpt_neo") "}");
  ck_assert_int_eq(model_layer(usual, 2)->attention.window, 256);
  ck_assert_int_eq(model_layer(usual, 3)->attention.window, 0);
  ck_assert_int_eq(model_layer(m, 1)->attention.window, 0);
  ck_assert_int_eq(model_layer(m, 2)->attention.window, 0);
  ck_assert_int_eq(model_layer(m, 3)->attention.window, 256);
  ck_assert(model_layer(m, 1)->attention.out_bias && !model_layer(m, 1)->attention.qkv_bias);
  refused("{" AS("gpt_neo") ",\"attention_types\":[[[\"global\"],1]]}",
          "f: attention_types: […]: expected kinds of attention for all 4 layers");
  refused("{" AS("gpt_neo") ",\"attention_types\":[[[\"dilated\"],2]]}",
          "f: attention_types[0][0][0]: \"dilated\": expected global or local");
}
END_TEST

/* BERT's like, but for a table of tasks that a file may ask for. */
START_TEST(ernie)
{
  g_autoptr(Model) bert = parsed("{" AS("bert") "}");
  g_autoptr(Model) m = parsed("{" AS("ernie") ",\"use_task_id\":false}");

  ck_assert_int_eq(m->params, bert->params);
  refused("{" AS("ernie") ",\"use_task_id\":true}",
          "f: use_task_id: true: expected false, as a table of tasks is not counted");
}
END_TEST

/* Granite with norms behind attention and feed-forward, unless its file says otherwise. */
START_TEST(hyperclovax)
{
  g_autoptr(Model) granite = parsed("{" AS("granite") "}");
  g_autoptr(Model) usual = parsed("{" AS("hyperclovax") "}");
  g_autoptr(Model) plain = parsed("{" AS("hyperclovax") ",\"use_post_norm\":false}");

  ck_assert_int_eq(plain->params, granite->params);
  ck_assert_int_eq(usual->params, granite->params + 4 * 2 * 64);
}
END_TEST

START_TEST(vit)
{
  g_autoptr(Model) m = loaded("tests/data/hf", "vit-base-16-224");
  ck_assert_int_eq(m->seq, 197);
  ck_assert_int_eq(m->vocab, 0);
  ck_assert_int_eq(m->classes, 1000);
  ck_assert_int_eq(m->patch, 16);
  ck_assert(m->head_bias && !block(m, 0)->attention.causal);
  ck_assert_int_eq(model_layer(m, 0)->params, 16 * 16 * 3 * 768 + 768 + 768 + 197 * 768);
  ck_assert_int_eq(model_layer(m, 13)->params, 768 * 1000 + 1000 + 2 * 768);

  g_autoptr(Model) named = parsed("{" AS("vit") ",\"id2label\":{\"0\":\"cat\",\"1\":\"dog\"}}");
  ck_assert_int_eq(named->classes, 2);
  g_autoptr(Model) given = parsed("{" AS("vit") ",\"num_labels\":10,\"image_size\":32}");
  ck_assert_int_eq(given->classes, 10);
  ck_assert_int_eq(given->seq, 5);
  refused("{" AS("vit") ",\"image_size\":30}",
          "f: image_size: 30: expected a multiple of patch_size (16)");
}
END_TEST

START_TEST(gemma3_text_config)
{
  g_autoptr(Model) m = parsed(
    "{\"model_type\":\"gemma3\",\"text_config\":{\"model_type\":\"gemma3_text\","
    "\"hidden_size\":2560,\"intermediate_size\":10240,\"num_hidden_layers\":34,"
    "\"sliding_window\":1024},\"vision_config\":{\"hidden_size\":1152}}");
  const Attention *a = &block(m, 0)->attention;
  ck_assert_int_eq(m->hidden, 2560);
  ck_assert_int_eq(a->heads, 8);
  ck_assert_int_eq(a->kv_heads, 4);
  ck_assert_int_eq(a->head_dim, 256);
  ck_assert_int_eq(m->vocab, 262208);
  ck_assert(a->qk_norm && m->tied_embeddings);
  ck_assert_int_eq(block(m, 0)->norms, 4);
  ck_assert_int_eq(m->params, 3880263168);
  refused("{\"model_type\":\"gemma3\"}", "f: text_config: missing: expected an object");
  refused("{\"model_type\":\"gemma3\",\"text_config\":{\"hidden_size\":\"2560\"}}",
          "f: text_config.hidden_size: \"2560\": expected an integer from 1 to 1048576");
  refused("{\"model_type\":\"gemma3\",\"text_config\":{\"hidden_size\":null}}",
          "f: text_config.hidden_size: missing: expected an integer from 1 to 1048576");
}
END_TEST

START_TEST(own_keys)
{
  g_autoptr(Model) m =
    parsed("{" LLAMA ",\"name\":\"x\",\"_name_or_path\":\"y\",\"seq\":8192,\"global_batch_size\":7,"
           "\"max_position_embeddings\":131072}");
  ck_assert_str_eq(m->name, "x");
  ck_assert_str_eq(m->family, "llama");
  ck_assert_int_eq(m->seq, 8192);
  ck_assert_int_eq(m->global_batch_size, 7);
  g_autoptr(Model) path = parsed("{" LLAMA ",\"name\":\"\",\"_name_or_path\":\"y/z\"}");
  ck_assert_str_eq(path->name, "y/z");
  g_autoptr(Model) none = parsed("{" LLAMA "}");
  ck_assert_str_eq(none->name, "f");
  ck_assert_int_eq(none->seq, 2048);
  refused("{" LLAMA ",\"seq\":\"8k\"}", "f: seq: \"8k\": expected an integer from 1 to 1000000000");
}
END_TEST

START_TEST(keys_of_other_families)
{
  g_autoptr(Model) plain = parsed("{" LLAMA "}");
  g_autoptr(Model) m = parsed("{" LLAMA EXPERTS ",\"patch_size\":16,\"kv_lora_rank\":8,"
                              "\"relative_attention_num_buckets\":32,\"num_labels\":2}");
  ck_assert_int_eq(m->params, plain->params);
  ck_assert_int_eq(m->classes, 0);
}
END_TEST

/* The extracts and the files of models/ say the same, whatever their form. */
START_TEST(same_as_native)
{
  static const char *const names[] = {"gpt2-xl",          "llama-3.1-405b", "mistral-nemo-12b",
                                      "mixtral-8x7b",     "qwen2.5-0.5b",   "qwen3-30b-a3b",
                                      "deepseek-v2-lite", "bloom"};
  for (gsize i = 0; i < G_N_ELEMENTS(names); i++) {
    g_autoptr(Model) ours = loaded("models", names[i]);
    g_autoptr(Model) theirs = loaded("tests/data/hf", names[i]);
    ck_assert_int_eq(ours->n_specs, theirs->n_specs);
    ck_assert_int_eq(ours->positions, theirs->positions);
    for (int layer = 0; layer < ours->n_layers; layer++)
      ck_assert_int_eq(model_layer(ours, layer)->params, model_layer(theirs, layer)->params);
    ck_assert_double_eq(model_flops(ours, 512), model_flops(theirs, 512));
  }
}
END_TEST

TEST_MAIN("model_hf_families", counts_are_published, gpt_neo, ernie, hyperclovax,
          windows, opt, dropout, constants, rope_scaling, t5, vit, gemma3_text_config, own_keys,
          keys_of_other_families, same_as_native)
