/* Small models of kinds with fields of their own, as transformers counts them (tests/interop/kinds.py): parameters,
 * that the weights of their work are these, and that tensor parallelism divides what it can. */
#include "main.h"
#include "layouts.h"
#include "test_worked.h"

typedef struct {
  char *text;
  gint64 params;
} Kind;

static void free_kind(gpointer kind)
{
  g_free(((Kind *)kind)->text);
}

/* A line is a count and a configuration. */
static GArray *read_kinds(void)
{
  g_autofree char *path = files_data_path("tests/data/hf/kinds.txt");
  gsize length;
  g_autofree char *text = files_read(path, &length, NULL);
  g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
  GArray *kinds = g_array_new(FALSE, FALSE, sizeof(Kind));

  g_array_set_clear_func(kinds, free_kind);
  for (int i = 0; lines[i] && *lines[i]; i++) {
    char *rest;
    Kind kind = { .params = g_ascii_strtoll(lines[i], &rest, 10) };
    kind.text = g_strdup(rest + 1);
    g_array_append_val(kinds, kind);
  }
  ck_assert_uint_gt(kinds->len, 0);
  return kinds;
}

/* Of rows that the vocabulary is padded with. */
static double padding(const Planned *f)
{
  const Model *m = f->model;
  int multiple = f->framework->vocab_multiple * f->plan.tp, rows = (multiple - m->vocab % multiple) % multiple;

  return (double)rows * (m->embed_dim * (m->tied_embeddings ? 1 : 2) + m->head_bias);
}

static double weights(const Planned *f)
{
  double params = 0;

  for (int i = 0; i < f->model->n_layers; i++)
    params += planned_layer(f, i).params;
  return params;
}

static void check_count(const Kind *kind)
{
  g_autoptr(Model) m = parsed(kind->text);

  ck_assert_msg(m->params == kind->params, "%s: %" G_GINT64_FORMAT " not %" G_GINT64_FORMAT, kind->text, m->params,
                kind->params);
}

static void check_work(const Kind *kind)
{
  Planned f;

  setup(&f, kind->text, 1);
  double params = weights(&f) - padding(&f);
  ck_assert_msg(params == kind->params, "%s: %.0f not %" G_GINT64_FORMAT, kind->text, params, kind->params);
  planned_clear(&f);
}

/* Norms, tables of positions and what is shared by heads stand whole on both ranks. */
static void check_division(const Kind *kind)
{
  g_autoptr(Model) m = parsed(kind->text);
  Planned f;

  for (int i = 0; i < m->n_specs; i++)
    if (m->specs[i].attention.kv_heads % 2 || m->specs[i].linear.groups % 2)
      return;
  setup(&f, kind->text, 2);
  double part = weights(&f);
  ck_assert_msg(2 * part >= kind->params && part <= 0.7 * kind->params,
                "%s: %.0f of %" G_GINT64_FORMAT, kind->text, part, kind->params);
  planned_clear(&f);
}

static void check_all(void (*check)(const Kind *))
{
  GArray *kinds = read_kinds();

  for (guint i = 0; i < kinds->len; i++)
    check(&g_array_index(kinds, Kind, i));
  g_array_free(kinds, TRUE);
}

START_TEST(counted)
{
  check_all(check_count);
}
END_TEST

START_TEST(worked)
{
  check_all(check_work);
}
END_TEST

START_TEST(divided)
{
  check_all(check_division);
}
END_TEST

/* A file of transformers and one with our keys. */
START_TEST(native_keys)
{
#define SIZES "\"hidden\":64,\"heads\":4,\"kv_heads\":2,\"vocab\":128,\"seq\":256,\"ffn_hidden\":96," \
              "\"positions\":\"rope\",\"tied_embeddings\":false"
#define RMS SIZES ",\"norm\":\"rmsnorm\",\"mlp\":\"swiglu\""
#define HF "\"hidden_size\":64,\"intermediate_size\":96,\"num_attention_heads\":4,\"num_key_value_heads\":2," \
           "\"vocab_size\":128,\"max_position_embeddings\":256"
  static const char *const pairs[][2] = {
    { "{\"model_type\":\"olmo\",\"num_hidden_layers\":2," HF "}",
      "{\"layers\":2," SIZES ",\"mlp\":\"swiglu\",\"bias\":false,\"bare_norms\":true}" },
    { "{\"model_type\":\"apertus\",\"num_hidden_layers\":2," HF "}",
      "{\"layers\":2," SIZES ",\"norm\":\"rmsnorm\",\"mlp\":\"xielu\",\"qk_norm\":true}" },
    { "{\"model_type\":\"bitnet\",\"num_hidden_layers\":2," HF "}", "{\"layers\":2," RMS ",\"inner_norms\":true}" },
    { "{\"model_type\":\"phi\",\"num_hidden_layers\":2,\"qk_layernorm\":true," HF "}",
      "{\"layers\":2," SIZES ",\"parallel_block\":true,\"bias\":true,\"qk_norm\":true,\"qk_norm_bias\":true}" },
    { "{\"model_type\":\"falcon_h1\",\"num_hidden_layers\":1,\"mamba_d_ssm\":128,\"mamba_n_heads\":8,"
      "\"mamba_d_state\":16," HF "}",
      "{\"layers\":2," RMS ",\"layer_pattern\":\"H-\",\"linear_attention\":\"mamba2\",\"linear_heads\":8,"
      "\"linear_head_dim\":16,\"linear_state\":16,\"linear_plain\":true}" },
    { "{\"model_type\":\"jamba\",\"num_hidden_layers\":2,\"attn_layer_period\":2,\"attn_layer_offset\":1,"
      "\"num_experts\":1,\"mamba_d_state\":8," HF "}",
      "{\"layers\":4," RMS ",\"layer_pattern\":\"M-*-\",\"linear_attention\":\"mamba1\","
      "\"linear_state\":8,\"linear_step_norms\":true}" },
    { "{\"model_type\":\"lfm3\",\"num_hidden_layers\":2,\"head_dim\":16,\"use_sandwich_norm\":false,"
      "\"tie_word_embeddings\":false,\"layer_types\":[\"conv\",\"full_attention\"]," HF "}",
      "{\"layers\":4," RMS ",\"qk_norm\":true,\"head_gate\":true,\"layer_pattern\":\"M-*-\","
      "\"linear_attention\":\"short_conv\",\"linear_conv\":7}" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(pairs); i++) {
    g_autoptr(Model) theirs = parsed(pairs[i][0]), native = parsed(pairs[i][1]);
    gint64 bias = theirs->head_bias ? theirs->vocab : 0;
    ck_assert_msg(theirs->params == native->params + bias, "%s: %" G_GINT64_FORMAT, pairs[i][0], native->params);
    ck_assert_double_eq(model_flops(theirs, 256), model_flops(native, 256));
  }
}
END_TEST

#define MIMO(layers, keys)                                                                                     \
  "{\"model_type\":\"mimo_v2_flash\",\"num_hidden_layers\":" #layers ",\"n_routed_experts\":8,"               \
  "\"num_experts_per_tok\":2,\"moe_intermediate_size\":32" keys "," HF "}"
#define ZEROS_FIRST                                                                                            \
  "f: moe_layer_freq: […]: expected 0 for each of the dense layers, which come first, then 1 for each of the " \
  "others, 3 in all"
#define LINEAR(kind, keys)                                                                              \
  "{\"layers\":2," SIZES ",\"layer_pattern\":\"M-\",\"linear_attention\":\"" kind "\"" keys "}"

/* What files ask for that is not counted. */
static const char *const not_counted[][2] = {
  { "{\"model_type\":\"falcon_h1\",\"num_hidden_layers\":2,\"projectors_bias\":true," HF "}",
    "f: projectors_bias: true: expected false, as a bias of the last projection alone is not counted" },
  { "{\"model_type\":\"bart\",\"add_cross_attention\":true," HF "}",
    "f: add_cross_attention: true: expected false, as attention to another model is not counted" },
  { "{\"model_type\":\"marian\",\"share_encoder_decoder_embeddings\":false," HF "}",
    "f: share_encoder_decoder_embeddings: false: expected true, as a vocabulary of the decoder alone is not "
    "counted" },
  { "{\"model_type\":\"laguna\",\"num_hidden_layers\":2,\"num_experts\":4,\"num_experts_per_tok\":2,"
    "\"num_attention_heads_per_layer\":[4,8]," HF "}",
    "f: num_attention_heads_per_layer[1]: 8: expected 4 as in all layers, as others have no cost here" },
  { "{\"model_type\":\"mamba\",\"num_hidden_layers\":2,\"time_step_rank\":\"a\"," HF "}",
    "f: time_step_rank: \"a\": expected an integer from 1 to 1048576" },
  { "{\"layers\":2," SIZES ",\"qk_norm_bias\":true}",
    "f: qk_norm_bias: true: expected this key only beside qk_norm" },
  { "{\"model_type\":\"gemma4_text\",\"num_hidden_layers\":6,\"enable_moe_block\":true," HF "}",
    "f: enable_moe_block: true: expected false, as a layer of experts beside a feed-forward is not counted" },
  { "{\"model_type\":\"gemma4_text\",\"num_hidden_layers\":6,\"layer_types\":[\"sliding_attention\","
    "\"full_attention\",\"sliding_attention\",\"full_attention\",\"sliding_attention\",\"full_attention\"],"
    "\"per_layer_config\":{\"1\":{\"head_dim\":32},\"3\":{\"head_dim\":64},\"5\":{\"head_dim\":32}}," HF "}",
    "f: per_layer_config.3: {…}: expected sizes of layers of full attention alone, the same of all" },
  { "{\"model_type\":\"gemma4_text\",\"num_hidden_layers\":2,\"layer_types\":[\"full_attention\","
    "\"sliding_attention\"],\"per_layer_config\":{\"abc\":{\"head_dim\":32}}," HF "}",
    "f: per_layer_config.abc: {…}: expected sizes of layers of full attention alone, the same of all" },
  { "{\"model_type\":\"gemma4_text\",\"num_hidden_layers\":2,\"layer_types\":[\"full_attention\","
    "\"sliding_attention\"],\"per_layer_config\":{\"00\":{\"head_dim\":32}}," HF "}",
    "f: per_layer_config.00: {…}: expected sizes of layers of full attention alone, the same of all" },
  { "{\"model_type\":\"gemma4_text\",\"num_hidden_layers\":2,\"layer_types\":[\"full_attention\","
    "\"sliding_attention\"],\"per_layer_config\":{\"\":{\"head_dim\":32}}," HF "}",
    "f: per_layer_config[\"\"]: {…}: expected sizes of layers of full attention alone, the same of all" },
  { "{\"model_type\":\"big_bird\",\"num_hidden_layers\":2,\"block_size\":null," HF "}",
    "f: block_size: null: expected an integer from 1" },
  { "{\"model_type\":\"big_bird\",\"num_hidden_layers\":2,\"attention_type\":\"foo\"," HF "}",
    "f: attention_type: \"foo\": expected block_sparse or original_full" },
  { "{\"model_type\":\"electra\",\"num_hidden_layers\":2,\"architectures\":[\"ElectraForPreTraining\"]," HF "}",
    "f: architectures: […]: expected ElectraForMaskedLM, as a head of one output a token is not counted" },
  { "{\"model_type\":\"bart\",\"tie_word_embeddings\":false," HF "}",
    "f: tie_word_embeddings: false: expected true, as tables of their own for both stacks are not counted" },
  { "{\"model_type\":\"jamba\",\"num_hidden_layers\":8,\"attn_layer_period\":4,\"attn_layer_offset\":9," HF "}",
    "f: attn_layer_offset: 9: expected attn_layer_offset below attn_layer_period, 9 is not below 4" },
  { "{\"model_type\":\"jamba\",\"num_hidden_layers\":8,\"attn_layer_period\":null," HF "}",
    "f: attn_layer_period: null: expected an integer from 1" },
  { "{\"model_type\":\"jamba\",\"num_hidden_layers\":8,\"expert_layer_offset\":5," HF "}",
    "f: expert_layer_offset: 5: expected expert_layer_offset below expert_layer_period, 5 is not below 2" },
  { "{\"model_type\":\"falcon_h1\",\"num_hidden_layers\":2,\"mamba_proj_bias\":true," HF "}",
    "f: mamba_proj_bias: true: expected false, as a bias of the first projection alone is not counted" },
  { "{\"model_type\":\"falcon_h1\",\"num_hidden_layers\":2,\"mamba_d_ssm\":100,\"mamba_n_heads\":8," HF "}",
    "f: mamba_n_heads: 8: expected a divisor of the 100 channels" },
  { "{\"model_type\":\"switch_transformers\",\"d_model\":64,\"d_kv\":16,\"d_ff\":96,\"num_layers\":6,"
    "\"num_decoder_layers\":4,\"num_heads\":4,\"vocab_size\":128,\"num_sparse_decoder_layers\":1}",
    "f: num_sparse_decoder_layers: 1: expected as many layers apart in both stacks, as others are not counted" },
  { "{\"model_type\":\"gemma4_text\",\"num_hidden_layers\":6,\"num_kv_shared_layers\":6," HF "}",
    "f: num_kv_shared_layers: 6: expected fewer than the 6 layers, as others make what they share" },
  { "{\"layers\":2," SIZES ",\"attention_gate\":true,\"head_gate\":true}",
    "f: head_gate: true: expected this key only without attention_gate" },
  { "{\"model_type\":\"roberta\",\"num_hidden_layers\":2,\"pad_token_id\":255,\"seq\":64," HF "}",
    "f: max_position_embeddings: 256: expected an integer from 257 to 1000000000" },
  { MIMO(3, ",\"moe_layer_freq\":[0,1,0]"),
    ZEROS_FIRST },
  { MIMO(3, ",\"moe_layer_freq\":[0,1]"),
    ZEROS_FIRST },
  { MIMO(3, ",\"moe_layer_freq\":[]"),
    "f: moe_layer_freq: []: expected 0 for each of the dense layers, which come first, then 1 for each of the others, 3 "
    "in all" },
  { MIMO(3, ",\"moe_layer_freq\":[0,1,1],\"mlp_layer_types\":[\"dense\",\"dense\",\"sparse\"]"),
    ZEROS_FIRST },
  { MIMO(3, ",\"moe_layer_freq\":[0,1,1],\"first_k_dense_replace\":2"),
    "f: moe_layer_freq: […]: expected as many zeros as first_k_dense_replace, 2" },
  { MIMO(3, ",\"swa_num_key_value_heads\":2"),
    "f: swa_num_key_value_heads: 2: expected 4, twice num_key_value_heads" },
  { MIMO(3, ",\"swa_head_dim\":32"), "f: swa_head_dim: 32: expected 192, as head_dim" },
  { MIMO(3, ",\"add_swa_attention_sink_bias\":false"),
    "f: add_swa_attention_sink_bias: false: expected true, as a window without sinks is not counted" },
  { MIMO(3, ",\"hybrid_layer_pattern\":[0,0,1]"),
    "f: hybrid_layer_pattern[1]: 0: expected 1, as layer_types or their usual order say" },
  { MIMO(3, ",\"hybrid_layer_pattern\":[0,1]"),
    "f: hybrid_layer_pattern: […]: expected an array of 3 numbers, one a layer" },
  { "{\"model_type\":\"bamba\",\"num_hidden_layers\":2,\"mamba_n_heads\":8,\"mamba_d_head\":32," HF "}",
    "f: mamba_d_head: 32: expected \"auto\" or the width of each of 8 heads of 128 channels" },
  { "{\"model_type\":\"falcon_h1\",\"num_hidden_layers\":2,\"mamba_d_ssm\":64,\"mamba_n_heads\":8,"
    "\"mamba_d_head\":16," HF "}",
    "f: mamba_d_head: 16: expected \"auto\" or the width of each of 8 heads of 64 channels" },
  { "{\"model_type\":\"gemma4_text\",\"num_hidden_layers\":8,\"num_kv_shared_layers\":4," HF "}",
    "f: num_kv_shared_layers: 4: expected fewer layers, as layer 5 shares keys of all tokens, which none before them "
    "makes" },
  { "{\"model_type\":\"bart\",\"encoder_layers\":null," HF "}",
    "f: encoder_layers: null: expected an integer from 1" },
  { "{\"model_type\":\"bart\",\"decoder_ffn_dim\":null," HF "}",
    "f: decoder_ffn_dim: null: expected an integer from 1" },
  { "{\"model_type\":\"nemotron_h\",\"hybrid_override_pattern\":\"MH-\"," HF "}",
    "f: hybrid_override_pattern: \"MH-\": expected a letter for each layer: M linear attention, * attention, "
    "- feed-forward, E experts" },
  { "{\"model_type\":\"nemotron_h\",\"hybrid_override_pattern\":\"M-\",\"mtp_num_layers\":1,"
    "\"mtp_hybrid_override_pattern\":\"HE\"," HF "}",
    "f: mtp_hybrid_override_pattern: \"HE\": expected the parts of a module, a mixer first, as \"*E\"" },
  { "{\"model_type\":\"bart\",\"mtp_num_layers\":1," HF "}",
    "f: mtp_num_layers: 1: expected 0 in a model with an encoder and a decoder" },
  { "{\"model_type\":\"bert\",\"num_hidden_layers\":2,\"mtp_num_layers\":1," HF "}",
    "f: mtp_num_layers: 1: expected 0 in a model with tokens that see later ones" },
  { "{\"model_type\":\"modernbert-decoder\",\"num_hidden_layers\":2,\"mtp_num_layers\":1," HF "}",
    "f: mtp_num_layers: 1: expected 0 in a model with a head of masked tokens" },
  { "{\"model_type\":\"gemma4_text\",\"num_hidden_layers\":6,\"mtp_num_layers\":1," HF "}",
    "f: mtp_num_layers: 1: expected 0 in a model with an embedding of tokens in each layer" },
  { "{\"model_type\":\"gemma4_unified_text\",\"num_hidden_layers\":12,\"num_kv_shared_layers\":4,"
    "\"mtp_num_layers\":1," HF "}",
    "f: mtp_num_layers: 1: expected 0 in a model with layers that share keys" },
  { "{\"layers\":2," SIZES ",\"causal\":false,\"mtp_num_layers\":1}",
    "f: mtp_num_layers: 1: expected 0 in a model with tokens that see later ones" },
  { LINEAR("mamba1", ",\"linear_groups\":1"),
    "f: linear_groups: 1: expected no such key beside linear_attention \"mamba1\"" },
  { LINEAR("short_conv", ",\"linear_state\":8"),
    "f: linear_state: 8: expected no such key beside linear_attention \"short_conv\"" },
  { LINEAR("short_conv", ",\"linear_chunk\":8"),
    "f: linear_chunk: 8: expected no such key beside linear_attention \"short_conv\"" },
  { LINEAR("mamba2", ",\"linear_rank\":8"),
    "f: linear_rank: 8: expected no such key beside linear_attention \"mamba2\"" },
  { LINEAR("kimi_delta", ",\"linear_step_norms\":true"),
    "f: linear_step_norms: true: expected no such key beside linear_attention \"kimi_delta\"" },
  { LINEAR("mamba1", ",\"linear_plain\":true"),
    "f: linear_plain: true: expected no such key beside linear_attention \"mamba1\"" },
  { "{\"model_type\":\"mixtral\",\"num_hidden_layers\":2,\"attention_bias\":true," HF "}",
    "f: attention_bias: true: expected false, as the class of mixtral has no such key" },
  { "{\"model_type\":\"qwen3\",\"num_hidden_layers\":2,\"mlp_bias\":true," HF "}",
    "f: mlp_bias: true: expected false, as the class of qwen3 has no such key" },
  { "{\"model_type\":\"internlm3\",\"num_hidden_layers\":2,\"qkv_bias\":true," HF "}",
    "f: qkv_bias: true: expected false, or \"bias\" true as well" },
  { "{\"model_type\":\"internlm3\",\"num_hidden_layers\":2,\"bias\":true,\"qkv_bias\":false," HF "}",
    "f: bias: true: expected false, or \"qkv_bias\" true as well" },
  { "{\"model_type\":\"iquestcoder\",\"num_hidden_layers\":2,\"use_sliding_window\":true," HF "}",
    "f: use_sliding_window: true: expected false, as a window of its class is not counted" },
  { "{\"model_type\":\"lfm2_moe\",\"num_hidden_layers\":2,\"block_auto_adjust_ff_dim\":true," HF "}",
    "f: block_auto_adjust_ff_dim: true: expected false, as the class of lfm2_moe has no such key" },
  { "{\"model_type\":\"mpt\",\"d_model\":64,\"n_layers\":2,\"n_heads\":4,\"vocab_size\":128,\"expansion_ratio\":8}",
    "f: expansion_ratio: 8: expected 4, as the class of mpt takes no other" },
  { "{\"model_type\":\"rembert\",\"num_hidden_layers\":2,\"input_embedding_size\":64," HF "}",
    "f: input_embedding_size: 64: expected another width than hidden_size (64), as a projection between equal ones is "
    "not counted" },
  { "{\"model_type\":\"helium\",\"num_hidden_layers\":2," HF "}",
    "f: hidden_size: 64: expected num_attention_heads (4) times head_dim (128), all that its class takes" },
  { "{\"model_type\":\"bert\",\"num_hidden_layers\":2,\"tie_word_embeddings\":false," HF "}",
    "f: tie_word_embeddings: false: expected true, as a second bias before the logits is not counted" },
};

START_TEST(refused_keys)
{
  for (gsize i = 0; i < G_N_ELEMENTS(not_counted); i++)
    refused(not_counted[i][0], not_counted[i][1]);
}
END_TEST

/* What says the same twice, or nothing. */
START_TEST(agreeing_keys)
{
  static const char *const pairs[][2] = {
    { MIMO(7, ""),
      MIMO(7, ",\"moe_layer_freq\":[0,1,1,1,1,1,1],\"hybrid_layer_pattern\":[0,1,1,1,1,0,1],"
              "\"swa_num_attention_heads\":4,\"swa_num_key_value_heads\":4,\"swa_head_dim\":192,"
              "\"swa_v_head_dim\":128,\"add_full_attention_sink_bias\":false,\"sliding_window\":128,"
              "\"attention_chunk_size\":128,\"sliding_window_size\":128") },
    { MIMO(3, ",\"mlp_layer_types\":[\"dense\",\"dense\",\"sparse\"]"),
      MIMO(3, ",\"moe_layer_freq\":[0,0,1]") },
    { "{\"model_type\":\"bamba\",\"num_hidden_layers\":2,\"mamba_n_heads\":8,\"mamba_d_head\":\"auto\"," HF "}",
      "{\"model_type\":\"bamba\",\"num_hidden_layers\":2,\"mamba_n_heads\":8,\"mamba_d_head\":16," HF "}" },
    { "{\"model_type\":\"mixtral\",\"num_hidden_layers\":2,\"num_local_experts\":4,\"num_experts_per_tok\":2," HF "}",
      "{\"model_type\":\"mixtral\",\"num_hidden_layers\":2,\"num_local_experts\":4,\"num_experts_per_tok\":2,"
      "\"attention_bias\":false," HF "}" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(pairs); i++) {
    g_autoptr(Model) usual = parsed(pairs[i][0]), said = parsed(pairs[i][1]);
    ck_assert_msg(usual->params == said->params, "%s: %" G_GINT64_FORMAT, pairs[i][1], said->params);
    ck_assert_double_eq(model_flops(usual, 256), model_flops(said, 256));
  }
}
END_TEST

/* Rows of a table of positions that no token of a sequence has: two before all (BART), or the padding's and those
 * before it (RoBERTa). */
START_TEST(learned_positions)
{
  static const struct {
    const char *text;
    int rows, positions;
  } cases[] = {
    { "{\"model_type\":\"gpt2\",\"num_hidden_layers\":2," HF "}", 256, 256 },
    { "{\"model_type\":\"opt\",\"num_hidden_layers\":2,\"ffn_dim\":96," HF "}", 258, 256 },
    { "{\"model_type\":\"bart\"," HF "}", 258, 256 },
    { "{\"model_type\":\"bert\",\"num_hidden_layers\":2," HF "}", 256, 256 },
    { "{\"model_type\":\"roberta\",\"num_hidden_layers\":2," HF "}", 256, 254 },
    { "{\"model_type\":\"roberta\",\"num_hidden_layers\":2,\"pad_token_id\":0," HF "}", 256, 255 },
    { "{\"model_type\":\"roformer\",\"num_hidden_layers\":2," HF "}", 0, 256 },
    { "{\"model_type\":\"llama\",\"num_hidden_layers\":2," HF "}", 0, 0 },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Model) m = parsed(cases[i].text);
    ck_assert_int_eq(m->position_rows, cases[i].rows);
    ck_assert_int_eq(model_positions(m), cases[i].positions);
    ck_assert_int_eq(m->seq, cases[i].positions ? cases[i].positions : 256);
  }
}
END_TEST

/* A plan trains no more, in either stack. */
START_TEST(longest_plans)
{
  Planned f;

  setup(&f, "{\"model_type\":\"bart\"," HF "}", 1);
  f.plan.seq = f.plan.decoder_seq = 256;
  planned_build(&f);
  f.plan.decoder_seq = 257;
  planned_refuse(&f, RULE_SEQUENCE,
                 "plan: decoder_seq_length: 257: expected at most the 256 positions of model f");
  f.plan.seq = 257;
  planned_refuse(&f, RULE_SEQUENCE, "plan: seq_length: 257: expected at most the 256 positions of model f");
  planned_clear(&f);
}
END_TEST

/* Of a decoder of ModernBERT every third layer sees all, others half of the stretch that its file says for both sides. */
START_TEST(strides)
{
  g_autoptr(Model) usual = parsed("{\"model_type\":\"modernbert-decoder\",\"num_hidden_layers\":6," HF "}");
  g_autoptr(Model) own = parsed("{\"model_type\":\"modernbert-decoder\",\"num_hidden_layers\":6,"
                                "\"global_attn_every_n_layers\":2,\"local_attention\":32," HF "}");

  for (int i = 0; i < 6; i++) {
    ck_assert_int_eq(block(usual, i)->attention.window, i % 3 ? 64 : 0);
    ck_assert_int_eq(block(own, i)->attention.window, i % 2 ? 16 : 0);
  }
}
END_TEST

/* Layers that read what others made stay on one stage. */
START_TEST(shared_keys)
{
  Planned f;

  setup(&f, "{\"model_type\":\"gemma4_text\",\"num_hidden_layers\":12,\"num_kv_shared_layers\":4,\"head_dim\":16,"
            "\"hidden_size_per_layer_input\":0," HF "}", 2);
  const LayerSpec *own = block(f.model, 6), *shared = block(f.model, 9);
  ck_assert_int_eq(own->params - shared->params, 64 * 2 * 2 * 16 + 16);
  f.plan.tp = 1;
  LayerSums a = planned_layer(&f, 7), b = planned_layer(&f, 10);
  ck_assert_double_eq(a.attention_s, b.attention_s);
  ck_assert_double_eq(a.saved_bytes - b.saved_bytes, 128 * 2.0 * (2 * 2 * 16 + 2 * 16));
  f.plan.pp = 2;
  planned_refuse(&f, RULE_FAMILY, "plan: pipeline_model_parallel_size: 2: expected 1, layers of model f read what "
                                  "others made: keys and values");
  planned_clear(&f);
}
END_TEST

#define T5GEMMA(encoder, decoder, keys) \
  "{\"model_type\":\"t5gemma\",\"encoder\":{" encoder "},\"decoder\":{" decoder "}" keys "}"
#define GEMMA "\"num_hidden_layers\":2,\"head_dim\":16," HF
#define FSMT(keys)                                                                                             \
  "{\"model_type\":\"fsmt\",\"d_model\":64,\"encoder_layers\":2,\"decoder_layers\":2,\"encoder_attention_heads\":4," \
  "\"decoder_attention_heads\":4,\"encoder_ffn_dim\":96,\"decoder_ffn_dim\":96,\"max_position_embeddings\":254" keys "}"

/* Stacks with tables of tokens of their own: of T5Gemma the head shares the decoder's, of FSMT it has one too. */
START_TEST(own_tables)
{
  g_autoptr(Model) gemma = parsed(T5GEMMA(GEMMA, GEMMA, ""));
  g_autoptr(Model) more = parsed(T5GEMMA(GEMMA, GEMMA ",\"tie_word_embeddings\":true",
                                         ",\"tie_word_embeddings\":false"));
  g_autoptr(Model) all = parsed(T5GEMMA(GEMMA ",\"sliding_window\":null", GEMMA ",\"sliding_window\":null", ""));
  g_autoptr(Model) fsmt = parsed(FSMT(",\"src_vocab_size\":512,\"tgt_vocab_size\":256"));
  Planned f;

  ck_assert_int_eq(more->params - gemma->params, 128 * 64);
  ck_assert_int_eq(block(gemma, 0)->attention.window, 2 * 4096 + 1);
  ck_assert_int_eq(block(gemma, 2)->attention.window, 4096);
  ck_assert_int_eq(block(gemma, 1)->attention.window, 0);
  ck_assert_int_eq(block(all, 0)->attention.window, 0);
  ck_assert_int_eq(block(gemma, 2)->norms, 6);
  ck_assert_int_eq(model_layer(fsmt, 0)->params, (512 + 256) * 64);
  ck_assert_int_eq(block(fsmt, 2)->params - block(fsmt, 3)->params, (256 + 256) * 64);
  ck_assert_int_eq(model_layer(fsmt, 5)->params, 256 * 64);
  setup(&f, FSMT(""), 2);
  f.plan.tp = 1;
  f.plan.pp = 2;
  planned_build(&f);
  Layout layout = layout_of(&f.plan);
  ck_assert(!pipeline_entry_copies(&layout.pipeline, f.model));
  planned_clear(&f);
  setup(&f, T5GEMMA(GEMMA, GEMMA, ""), 2);
  f.plan.tp = 1;
  f.plan.pp = 2;
  planned_refuse(&f, RULE_FAMILY, "plan: pipeline_model_parallel_size: 2: expected 1, the head of model f shares a "
                                  "table of its decoder alone");
  planned_clear(&f);
}
END_TEST

/* Blocks are of the encoder alone. */
START_TEST(blocks_of_encoders)
{
  g_autoptr(Model) m = parsed("{\"model_type\":\"bigbird_pegasus\",\"encoder_layers\":2,\"decoder_layers\":2," HF "}");

  ck_assert_ptr_nonnull(block(m, 1)->attention.sparse);
  ck_assert_ptr_null(block(m, 2)->attention.sparse);
  ck_assert_ptr_null(block(m, 2)->cross.sparse);
  ck_assert(!block(m, 2)->attention.qkv_bias && block(m, 2)->ffn.bias);
}
END_TEST

START_TEST(unlike_stacks)
{
  refused(T5GEMMA("\"num_hidden_layers\":2,\"head_dim\":32," HF, GEMMA, ""),
          "f: encoder.head_dim: 32: expected the same of the encoder and the decoder, as others are not counted");
  refused(T5GEMMA(GEMMA, GEMMA ",\"sliding_window\":8", ""),
          "f: decoder.sliding_window: 8: expected the same of the encoder and the decoder, as others are not counted");
  refused(T5GEMMA(GEMMA ",\"layer_types\":[\"full_attention\",\"full_attention\"]", GEMMA, ""),
          "f: encoder.layer_types[0]: \"full_attention\": expected \"sliding_attention\", as only the last of every 2 layers "
          "sees all tokens");
  refused("{\"model_type\":\"t5gemma\",\"decoder\":{" GEMMA "}}", "f: encoder: missing: expected an object");
  refused(FSMT(",\"src_vocab_size\":512,\"tgt_vocab_size\":256,\"tie_word_embeddings\":true"),
          "f: src_vocab_size: 512: expected 256 as tgt_vocab_size, or tie_word_embeddings false, which all tables are "
          "where they are one");
}
END_TEST

#define OWN "{\"layers\":2,\"hidden\":64,\"heads\":4,\"vocab\":128,\"seq\":256,\"norm\":\"rmsnorm\"," \
            "\"positions\":\"rope\",\"bias\":false"

/* Of a layer's own embedding each rank has its rows of the table, and all of what projects to it. */
START_TEST(sides)
{
  Planned f;

  setup(&f, "{\"model_type\":\"gemma4_text\",\"num_hidden_layers\":6,\"head_dim\":16,\"global_head_dim\":32,"
            "\"hidden_size_per_layer_input\":8,\"vocab_size_per_layer_input\":128," HF "}", 2);
  ck_assert_double_eq(planned_layer(&f, 0).params - padding(&f) / 2,
                      128 * (64 + 6 * 8) / 2 + 64 * 6 * 8 + 8);
  ck_assert_int_eq(block(f.model, 5)->side, 8);
  planned_clear(&f);
}
END_TEST

/* A gate's sigmoid, and what it multiplies. */
START_TEST(gates)
{
  Planned f;
  double row = 128 * 2.0, out = row * 64, gate = row * 4;

  setup(&f, OWN ",\"head_gate\":true}", 1);
  ck_assert_double_eq(moved(&f, 1, "attention gate", FALSE), 2 * gate + 2 * out + gate);
  ck_assert_double_eq(moved(&f, 1, "attention gate", TRUE), 3 * out + 2 * gate + 3 * gate);
  planned_clear(&f);
}
END_TEST

/* As autograd keeps in LFM2's convolution, 7 rows of the hidden width, and more for a gate of a value a head: what it
 * gates, and the gate. */
START_TEST(kept)
{
  Planned f;

  setup(&f, OWN ",\"layer_pattern\":\"MM\",\"linear_attention\":\"short_conv\",\"linear_conv\":3}", 1);
  double norm = 128 * (2.0 * 64 + 4 * f.framework->norm_row_values);
  ck_assert_double_eq(planned_layer(&f, 1).saved_bytes, norm + 128 * 2.0 * 7 * 64);
  planned_clear(&f);
  setup(&f, OWN "}", 1);
  double plain = planned_layer(&f, 1).saved_bytes;
  planned_clear(&f);
  setup(&f, OWN ",\"head_gate\":true}", 1);
  ck_assert_double_eq(planned_layer(&f, 1).saved_bytes - plain, 128 * 2.0 * (64 + 4));
  planned_clear(&f);
}
END_TEST

/* Channels share what they select with: its sums, and no context parallelism. */
START_TEST(channels)
{
  Planned f;

  setup(&f, "{\"model_type\":\"jamba\",\"num_hidden_layers\":2,\"num_experts\":1,\"mamba_d_state\":8," HF "}", 2);
  double selected = 2.0 * 128 * (4 + 2 * 8);
  double rows = 2.0 * 128 * 64; /* of the last product, and the input's gradient; the same of the feed-forward */
  ck_assert_double_eq_tol(planned_layer(&f, 1).sent[AXIS_TENSOR], 4 * rows + 2 * selected, 1e-6);
  f.plan.tp = 1;
  f.plan.cp = 2;
  planned_refuse(&f, RULE_HEADS,
                 "plan: context_parallel_size: 2: expected 1 with a mixer of tokens by channels");
  planned_clear(&f);
}
END_TEST

/* Rows of all of a sequence's tokens are divided, of those too that no text has. */
START_TEST(rows_beside)
{
  Planned f;

  setup(&f, "{\"model_type\":\"cpmant\",\"num_hidden_layers\":1,\"hidden_size\":64,\"num_attention_heads\":4,"
            "\"dim_head\":16,\"dim_ff\":96,\"vocab_size\":128,\"prompt_length\":6}", 4);
  f.plan.sequence_parallel = FALSE;
  planned_accept(&f);
  f.plan.sequence_parallel = TRUE;
  planned_refuse(&f, RULE_SEQUENCE_PARALLEL,
                 "plan: sequence_parallel: true: expected the 6 tokens beside each sequence of model f to divide by "
                 "tensor_model_parallel_size 4");
  planned_clear(&f);
}
END_TEST

/* Rotary positions: one kernel, one an arithmetic step, or a cast, a product of complex numbers and a cast back. */
START_TEST(turned_pairs)
{
  static const struct {
    const char *framework;
    double bytes; /* of a value of queries and keys */
  } made[] = { { "megatron-core", 2 + 2 }, { "deepspeed", 8 * 2 }, { "torchtitan", 2 + 4 + 4 + 4 + 4 + 2 },
               { "torchtitan-2024-eager", 20 }, { "kempnerforge-2026", 4 }, { "automodel-2026-01", 4 } };

  for (gsize i = 0; i < G_N_ELEMENTS(made); i++) {
    Planned f;
    planned_init(&f, parsed("{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":96,"
                            "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":2,"
                            "\"vocab_size\":128,\"max_position_embeddings\":128}"),
                 fixture_cluster("dgx-h100", 1), made[i].framework);
    planned_spread(&f, 1);
    f.plan.seq = 128;
    planned_build(&f);
    for (int back = 0; back < 2; back++)
      ck_assert_double_eq(moved(&f, 1, "rotary", back), made[i].bytes * 128 * (4 + 2) * 16);
    planned_clear(&f);
  }
}
END_TEST

TEST_MAIN("kinds", counted, turned_pairs, worked, divided, native_keys, refused_keys, agreeing_keys, learned_positions,
          longest_plans, strides, shared_keys, own_tables,
          blocks_of_encoders, unlike_stacks, sides, gates, kept,
          channels, rows_beside)
