#include "test_model.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>

#define BASE "\"layers\":2,\"hidden\":64,\"heads\":4,\"vocab\":100,\"seq\":32"
#define NATIVE(more) "{" BASE more "}"

/* ---- counting ---- */

START_TEST(gpt3)
{
  g_autoptr(Model) m = loaded("models", "gpt3");
  ck_assert_str_eq(m->name, "gpt3");
  ck_assert_str_eq(m->family, "gpt");
  ck_assert_int_eq(m->params, G_GINT64_CONSTANT(174604259328));
  ck_assert_int_eq(m->active_params, m->params);
  ck_assert_int_eq(m->global_batch_size, 1536);
  ck_assert_int_eq(m->blocks, 96);
  ck_assert_int_eq(m->n_layers, 98);
  ck_assert_int_eq(m->n_specs, 3);
  ck_assert(m->dropout && m->tied_embeddings && m->norm_bias);
  ck_assert_int_eq(m->position_rows, 2048);

  gint64 h = 12288, table = 50257 * h;
  ck_assert_int_eq(model_layer(m, 0)->kind, LAYER_EMBEDDING);
  ck_assert_int_eq(model_layer(m, 0)->params, table + 2048 * h);
  ck_assert_int_eq(model_layer(m, 0)->matrix_params, 0);
  ck_assert_int_eq(block(m, 0)->kind, LAYER_BLOCK);
  ck_assert_int_eq(block(m, 0)->params, 12 * h * h + 13 * h);
  ck_assert_int_eq(block(m, 0)->matrix_params, 12 * h * h);
  ck_assert_ptr_eq(block(m, 0), block(m, 95));
  ck_assert_int_eq(model_layer(m, 97)->kind, LAYER_HEAD);
  ck_assert_int_eq(model_layer(m, 97)->params, 2 * h);
  ck_assert_int_eq(model_layer(m, 97)->matrix_params, table);
  ck_assert_int_eq(model_layer(m, 97)->tied_params, table);
}
END_TEST

/* Totals that are public, and those derived from a paper's shape. */
static const struct {
  const char *name;
  gint64 total, active; /* 0 = all */
} totals[] = {
  {"gpt2", 124439808},
  {"gpt2-medium", 354823168},
  {"gpt2-large", 774030080},
  {"gpt2-xl", 1557611200},
  {"gpt3", 174604259328},
  {"opt-125m", 125239296},
  {"opt-350m", 331196416},
  {"opt-1.3b", 1315758080},
  {"opt-6.7b", 6658473984},
  {"bloom-560m", 559214592},
  {"bloom-7b1", 7069016064},
  {"bloom", 176247271424},
  {"pythia-70m", 70426624},
  {"pythia-6.9b", 6857302016},
  {"gpt-neox-20b", 20554567680},
  {"falcon-7b", 6921720704},
  {"falcon-40b", 41835970560},
  {"mpt-7b", 6649286656},
  {"llama-2-7b", 6738415616},
  {"llama-2-13b", 13015864320},
  {"llama-2-70b", 68976648192},
  {"llama-3.1-8b", 8030261248},
  {"llama-3.1-70b", 70553706496},
  {"llama-3.1-405b", 405853388800},
  {"llama-3.2-1b", 1235814400},
  {"llama-3.2-3b", 3212749824},
  {"mistral-7b", 7241732096},
  {"mistral-nemo-12b", 12247782400},
  {"mixtral-8x7b", 46702792704, 12879925248},
  {"mixtral-8x22b", 140620634112},
  {"qwen2.5-0.5b", 494032768},
  {"qwen2.5-1.5b", 1543714304},
  {"qwen2.5-7b", 7615616512},
  {"qwen2.5-14b", 14770033664},
  {"qwen2.5-32b", 32763876352},
  {"qwen2.5-72b", 72706203648},
  {"qwen1.5-moe-a2.7b", 14315784192},
  {"qwen3-0.6b", 596049920},
  {"qwen3-8b", 8190735360},
  {"qwen3-32b", 32762123264},
  {"qwen3-30b-a3b", 30532122624, 3353032704},
  {"qwen3-235b-a22b", 235093634560, 22190763520},
  {"deepseek-v2-lite", 15706484224, 2661150208},
  {"deepseek-v2", 235741434880, 21375800320},
  {"deepseek-v3", 671026419200, 37552297472},
  {"gemma-2-2b", 2614341888},
  {"gemma-2-9b", 9241705984},
  {"gemma-2-27b", 27227128320},
  {"gemma-3-1b", 999885952},
  {"phi-3-mini-4k", 3821079552},
  {"gpt-oss-20b", 20914757184},
  {"gpt-oss-120b", 116829156672, 5711982912},
  {"t5-small", 60506624},
  {"t5-11b", 11307321344},
  {"flan-t5-base", 247577856},
  {"vit-base-16", 86567656},
  {"vit-large-16", 304326632},
  {"vit-huge-14", 632045800},
};

START_TEST(known_totals)
{
  for (gsize i = 0; i < G_N_ELEMENTS(totals); i++) {
    g_autoptr(Model) m = loaded("models", totals[i].name);
    ck_assert_msg(m->params == totals[i].total, "%s: %" G_GINT64_FORMAT, m->name, m->params);
    if (totals[i].active)
      ck_assert_msg(m->active_params == totals[i].active, "%s: %" G_GINT64_FORMAT " active",
                    m->name, m->active_params);
    ck_assert(totals[i].active || m->active_params == m->params ||
              block(m, m->blocks - 1)->ffn.experts);
  }
}
END_TEST

/* L (12 h^2 + 13 h) + (V + s) h + 2 h, and the billions in the paper's table. */
START_TEST(megatron_totals)
{
  static const struct {
    const char *name;
    double billions;
  } models[] = {
    {"megatron-1.7b", 1.7},     {"megatron-3.6b", 3.6},     {"megatron-7.5b", 7.5},
    {"megatron-18.4b", 18.4},   {"megatron-39.1b", 39.1},   {"megatron-76.1b", 76.1},
    {"megatron-145.6b", 145.6}, {"megatron-310.1b", 310.1}, {"megatron-530b", 529.6},
    {"megatron-1t", 1008.0},    {"mt-nlg-530b", 529.6},     {"gpt-22b", 22.1},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(models); i++) {
    g_autoptr(Model) m = loaded("models", models[i].name);
    gint64 h = m->hidden, blocks = m->blocks * (12 * h * h + 13 * h);
    ck_assert_int_eq(m->params, blocks + (51200 + 2048) * h + 2 * h);
    ck_assert_double_eq_tol(m->params / 1e9, models[i].billions, 0.0501);
  }
}
END_TEST

static void check_sums(const Model *m)
{
  gint64 params = 0, active = 0;
  int blocks = 0;
  for (int i = 0; i < m->n_layers; i++) {
    const LayerSpec *spec = model_layer(m, i);
    params += spec->params;
    active += spec->active_params;
    blocks += spec->kind == LAYER_BLOCK;
    ck_assert_int_ge(spec->params, spec->active_params);
    ck_assert_int_ge(spec->params, spec->expert_params);
    ck_assert_int_ge(spec->active_params + spec->tied_params, spec->matrix_params);
    ck_assert_int_eq(spec->expert_params > 0, spec->ffn.experts > 0);
  }
  ck_assert_int_eq(params, m->params);
  ck_assert_int_eq(active, m->active_params);
  ck_assert_int_eq(blocks, m->blocks);
  ck_assert_int_eq(model_layer(m, 0)->kind, LAYER_EMBEDDING);
  ck_assert_int_eq(model_layer(m, m->n_layers - 1)->kind, LAYER_HEAD);
}

START_TEST(every_model_file)
{
  g_autofree char *folder = files_data_path("models");
  g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
  ck_assert_ptr_nonnull(dir);
  const char *file;
  int count = 0;
  while ((file = g_dir_read_name(dir))) {
    if (!g_str_has_suffix(file, ".json"))
      continue;
    g_autofree char *stem = g_strndup(file, strlen(file) - strlen(".json"));
    g_autoptr(Model) m = loaded("models", stem);
    ck_assert_str_eq(m->name, stem);
    ck_assert_int_gt(m->params, 0);
    ck_assert(model_flops(m, m->seq) > 0);
    check_sums(m);
    g_autofree char *path = g_build_filename(folder, file, NULL);
    g_autofree char *text = NULL;
    ck_assert(g_file_get_contents(path, &text, NULL, NULL));
    ck_assert_msg(strstr(text, "\"source\": \"") != NULL, "%s has no source", file);
    count++;
  }
  ck_assert_int_ge(count, 90);
}
END_TEST

/* ---- the native form ---- */

START_TEST(defaults)
{
  g_autoptr(Model) m = parsed(NATIVE(""));
  ck_assert_str_eq(m->name, "f");
  ck_assert_int_eq(m->global_batch_size, 0);
  ck_assert_int_eq(m->norm, NORM_LAYERNORM);
  ck_assert_int_eq(m->positions, POSITIONS_LEARNED);
  ck_assert(m->tied_embeddings && !m->dropout && !m->embedding_norm);
  const LayerSpec *b = block(m, 0);
  ck_assert_int_eq(b->ffn.kind, MLP_GELU);
  ck_assert_int_eq(b->ffn.width, 256);
  ck_assert(b->ffn.bias && b->attention.qkv_bias && b->attention.out_bias && b->attention.causal);
  ck_assert_int_eq(b->attention.kv_heads, 4);
  ck_assert_int_eq(b->attention.head_dim, 16);
  ck_assert_int_eq(b->attention.v_head_dim, 16);
  ck_assert_int_eq(b->attention.window, 0);
  ck_assert_int_eq(b->cross.heads, 0);
  ck_assert_int_eq(b->norms, 2);
  ck_assert_int_eq(m->params, 2 * (12 * 64 * 64 + 13 * 64) + (100 + 32) * 64 + 128);

  g_autoptr(Model) r = parsed(NATIVE(",\"norm\":\"rmsnorm\",\"mlp\":\"swiglu\",\"kv_heads\":2"));
  ck_assert(!block(r, 0)->ffn.bias && !block(r, 0)->attention.qkv_bias && !r->norm_bias);
  ck_assert_int_eq(block(r, 0)->ffn.width, 256);
  ck_assert_int_eq(block(r, 0)->params, 64 * 64 * 3 + 3 * 64 * 256 + 128);
}
END_TEST

START_TEST(gated_width)
{
  static const int widths[][2] = {{4096, 11008}, {5120, 13824}, {6656, 17920}, {8192, 22016}};
  for (gsize i = 0; i < G_N_ELEMENTS(widths); i++) {
    g_autofree char *text = g_strdup_printf(
      "{\"layers\":1,\"hidden\":%d,\"heads\":1,\"vocab\":2,\"seq\":1,\"mlp\":\"swiglu\"}",
      widths[i][0]);
    g_autoptr(Model) m = parsed(text);
    ck_assert_int_eq(block(m, 0)->ffn.width, widths[i][1]);
  }
}
END_TEST

START_TEST(native_switches)
{
  g_autoptr(Model) plain = parsed(NATIVE(""));
  static const struct {
    const char *more;
    int change;
  } cases[] = {
    {",\"positions\":\"rope\"", -32 * 64},
    {",\"positions\":\"none\"", -32 * 64},
    {",\"positions\":\"alibi\"", -32 * 64},
    {",\"tied_embeddings\":false", 100 * 64},
    {",\"embedding_norm\":true", 2 * 64},
    {",\"bias\":false", -2 * (4 * 64 + 256 + 64)},
    {",\"qkv_bias\":false", -2 * 3 * 64},
    {",\"bias\":false,\"qkv_bias\":true", -2 * (64 + 256 + 64)},
    {",\"norm_bias\":false", -5 * 64},
    {",\"norm\":\"rmsnorm\",\"bias\":true", -5 * 64},
    {",\"parallel_block\":true", -2 * 2 * 64},
    {",\"qk_norm\":true", 2 * 2 * 16},
    {",\"mlp\":\"relu2\"", 0},
    {",\"window\":8,\"dropout\":0.1,\"global_batch_size\":4", 0},
    {",\"head_dim\":32", 2 * (4 * 64 * 64 + 3 * 64)},
    {",\"kv_heads\":1", -2 * 2 * (64 * 48 + 48)},
    {",\"ffn_hidden\":128", -2 * 128 * (2 * 64 + 1)},
    {",\"description\":\"x\",\"source\":{\"hidden\":\"y\"},\"kv_heads\":null", 0},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = g_strdup_printf("{" BASE "%s}", cases[i].more);
    g_autoptr(Model) m = parsed(text);
    ck_assert_msg(m->params - plain->params == cases[i].change, "%s: %d", cases[i].more,
                  (int)(m->params - plain->params));
    check_sums(m);
  }
  g_autoptr(Model) m = parsed(NATIVE(",\"name\":\"x\",\"window\":8,\"dropout\":0.1"));
  ck_assert_str_eq(m->name, "x");
  ck_assert_int_eq(block(m, 1)->attention.window, 8);
  ck_assert(m->dropout);
  g_autoptr(Model) off = parsed(NATIVE(",\"dropout\":0"));
  ck_assert(!off->dropout);
}
END_TEST

START_TEST(native_experts)
{
  g_autoptr(Model) m = parsed(
    "{\"layers\":6,\"hidden\":64,\"heads\":4,\"vocab\":100,\"seq\":32,\"bias\":false,\"experts\":8,"
    "\"experts_per_token\":2,\"expert_ffn_hidden\":32,\"shared_ffn_hidden\":48,"
    "\"first_dense_layers\":1,\"moe_every\":2}");
  static const gboolean sparse[] = {FALSE, TRUE, FALSE, TRUE, FALSE, TRUE};
  for (int i = 0; i < 6; i++)
    ck_assert_int_eq(block(m, i)->ffn.experts, sparse[i] ? 8 : 0);
  ck_assert_int_eq(m->n_specs, 4);
  ck_assert_int_eq(block(m, 0)->ffn.width, 256);
  ck_assert_int_eq(block(m, 1)->ffn.width, 32);
  gint64 expert = 2 * 64 * 32, rest = 4 * 64 * 64 + 4 * 64 + 64 * 8 + 2 * 64 * 48;
  ck_assert_int_eq(block(m, 1)->expert_params, 8 * expert);
  ck_assert_int_eq(block(m, 1)->params, 8 * expert + rest);
  ck_assert_int_eq(block(m, 1)->active_params, 2 * expert + rest);
  ck_assert_int_eq(m->params - m->active_params, 3 * 6 * expert);
  check_sums(m);
}
END_TEST

START_TEST(native_parts_of_experts)
{
#define SPARSE NATIVE(",\"mlp\":\"swiglu\",\"experts\":8,\"experts_per_token\":2,\"shared_ffn_hidden\":48%s")
  static const struct { const char *more; gint64 params; } rows[] = {
    {"", 0}, {",\"clamped\":true", 0}, {",\"router_bias\":true", 2 * 8}, {",\"router_correction\":true", 2 * 8},
    {",\"shared_gate\":true", 2 * 64}, {",\"sinks\":true", 2 * 4}, {",\"sinks\":false", 0},
  };
  gint64 bare = 0;

  for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
    g_autofree char *text = g_strdup_printf(SPARSE, rows[i].more);
    g_autoptr(Model) m = parsed(text);
    bare = i ? bare : m->params;
    ck_assert_int_eq(m->params, bare + rows[i].params);
    ck_assert_int_eq(block(m, 0)->ffn.clamped, i == 1);
    check_sums(m);
  }
}
END_TEST

/* The native form says the same as a config of the family. */
START_TEST(native_mla)
{
  g_autoptr(Model) native = parsed(
    "{\"layers\":60,\"hidden\":5120,\"heads\":128,\"vocab\":102400,\"seq\":4096,"
    "\"ffn_hidden\":12288,\"mlp\":\"swiglu\",\"norm\":\"rmsnorm\",\"positions\":\"rope\","
    "\"tied_embeddings\":false,\"q_lora_rank\":1536,\"kv_lora_rank\":512,"
    "\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64,\"v_head_dim\":128,\"experts\":160,"
    "\"experts_per_token\":6,\"expert_ffn_hidden\":1536,\"shared_ffn_hidden\":3072,"
    "\"first_dense_layers\":1}");
  g_autoptr(Model) theirs = loaded("models", "deepseek-v2");
  ck_assert_int_eq(native->params, theirs->params);
  ck_assert_int_eq(native->active_params, theirs->active_params);
  ck_assert_double_eq(model_flops(native, 4096), model_flops(theirs, 4096));
  const Attention *a = &block(native, 5)->attention;
  ck_assert_int_eq(a->head_dim, 192);
  ck_assert_int_eq(a->rope_head_dim, 64);
  ck_assert_int_eq(a->kv_heads, 128);
}
END_TEST

START_TEST(native_refusals)
{
  static const char *const cases[][2] = {
    {"{}", "f: layers: missing: expected an integer from 1 to 100000"},
    {"{\"layers\":2,\"hidden\":64,\"heads\":4,\"seq\":1}",
     "f: vocab: missing: expected an integer from 2 to 100000000"},
    {"{\"layers\":2,\"hidden\":null,\"heads\":4,\"vocab\":2,\"seq\":1}",
     "f: hidden: null: expected an integer from 1 to 1048576"},
    {"{\"layers\":\"2\",\"hidden\":64,\"heads\":4,\"vocab\":2,\"seq\":1}",
     "f: layers: \"2\": expected an integer from 1 to 100000"},
    {"{\"layers\":1000000,\"hidden\":64,\"heads\":4,\"vocab\":2,\"seq\":1}",
     "f: layers: 1000000: expected an integer from 1 to 100000"},
    {"{\"layers\":2.5,\"hidden\":64,\"heads\":4,\"vocab\":2,\"seq\":1}",
     "f: layers: 2.5: expected an integer from 1 to 100000"},
    {"{\"layers\":2,\"hidden\":-64,\"heads\":4,\"vocab\":2,\"seq\":1}",
     "f: hidden: -64: expected an integer from 1 to 1048576"},
    {"{\"layers\":2,\"hidden\":[64],\"heads\":4,\"vocab\":2,\"seq\":1}",
     "f: hidden: […]: expected an integer from 1 to 1048576"},
    {"[]", "f: []: expected an object"},
    {"{\"layers\":2,\"hidden\":64,\"heads\":4,\"vocab\":1,\"seq\":1}",
     "f: vocab: 1: expected an integer from 2 to 100000000"},
    {"{\"layers\":2,\"hidden\":64,\"heads\":4,\"vocab\":1000000000,\"seq\":1}",
     "f: vocab: 1000000000: expected an integer from 2 to 100000000"},
    {NATIVE(",\"kv_head\":2"), "f: kv_head: unknown key, did you mean \"kv_heads\"?"},
    {NATIVE(",\"mlp\":\"gelo\""), "f: mlp: \"gelo\": expected one of gelu, swiglu, relu2, xielu"},
    {NATIVE(",\"norm\":1"), "f: norm: 1: expected one of layernorm, rmsnorm"},
    {NATIVE(",\"positions\":\"relative\""),
     "f: positions: \"relative\": expected one of none, learned, rope, alibi"},
    {NATIVE(",\"bias\":1"), "f: bias: 1: expected true or false"},
    {NATIVE(",\"name\":\"\""), "f: name: \"\": expected a non-empty string without control characters"},
    {NATIVE(",\"dropout\":\"yes\""),
     "f: dropout: \"yes\": expected true, false or a rate from 0 up to 1"},
    {NATIVE(",\"dropout\":1.5"), "f: dropout: 1.5: expected true, false or a rate from 0 up to 1"},
    {NATIVE(",\"kv_heads\":3"), "f: kv_heads: 3: expected a divisor of heads (4)"},
    {NATIVE(",\"kv_heads\":8"), "f: kv_heads: 8: expected a divisor of heads (4)"},
    {"{\"layers\":2,\"hidden\":64,\"heads\":3,\"vocab\":2,\"seq\":1}",
     "f: hidden: 64: expected a multiple of heads (3), or a head_dim given"},
    {NATIVE(",\"experts\":8"),
     "f: experts_per_token: missing: expected an integer from 1 to experts (8)"},
    {NATIVE(",\"experts\":8,\"experts_per_token\":9"),
     "f: experts_per_token: 9: expected an integer from 1 to experts (8)"},
    {NATIVE(",\"experts\":8,\"experts_per_token\":2,\"first_dense_layers\":3"),
     "f: first_dense_layers: 3: expected at most layers (2)"},
    {NATIVE(",\"clamped\":true"), "f: clamped: true: expected this key only beside experts"},
    {NATIVE(",\"experts\":8,\"experts_per_token\":2,\"clamped\":true"),
     "f: clamped: true: expected false without mlp \"swiglu\""},
    {NATIVE(",\"router_bias\":true"), "f: router_bias: true: expected this key only beside experts"},
    {NATIVE(",\"routed_scaling_factor\":2.5"), "f: routed_scaling_factor: 2.5: expected this key only beside experts"},
    {NATIVE(",\"experts\":8,\"experts_per_token\":2,\"seq_aux\":true"),
     "f: seq_aux: true: expected this key only beside router_aux_loss_coef"},
    {NATIVE(",\"experts\":8,\"experts_per_token\":2,\"routed_scaling_factor\":0"),
     "f: routed_scaling_factor: 0: expected a number from 1e-06 to 1000000"},
    {NATIVE(",\"router_correction\":true"), "f: router_correction: true: expected this key only beside experts"},
    {NATIVE(",\"experts\":8,\"experts_per_token\":2,\"shared_gate\":true"),
     "f: shared_gate: true: expected this key only beside shared_ffn_hidden"},
    {"{\"layers\":2,\"hidden\":64,\"vocab\":100,\"seq\":32,\"linear_attention\":\"mamba2\",\"layer_pattern\":\"MM\","
     "\"linear_heads\":4,\"linear_head_dim\":16,\"linear_state\":16,\"sinks\":true}",
     "f: sinks: true: expected this key only beside heads"},
    {NATIVE(",\"experts_per_token\":2"),
     "f: experts_per_token: 2: expected this key only beside experts"},
    {NATIVE(",\"moe_every\":2"), "f: moe_every: 2: expected this key only beside experts"},
    {NATIVE(",\"q_lora_rank\":8"), "f: q_lora_rank: 8: expected this key only beside kv_lora_rank"},
    {NATIVE(",\"kv_lora_rank\":8"),
     "f: qk_nope_head_dim: missing: expected a positive integer beside kv_lora_rank (8)"},
    {NATIVE(",\"kv_lora_rank\":8,\"kv_heads\":4"),
     "f: kv_heads: 4: expected this key only without kv_lora_rank"},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
    refused(cases[i][0], cases[i][1]);
}
END_TEST

START_TEST(too_many_parameters)
{
  refused("{\"layers\":100000,\"hidden\":1048576,\"heads\":1,\"vocab\":2,\"seq\":1,"
          "\"ffn_hidden\":16777216,\"mlp\":\"swiglu\",\"experts\":65536,\"experts_per_token\":1}",
          "f: layers: 100000: expected fewer than 2^63 parameters in all");
  g_autoptr(Model) m = parsed(
    "{\"layers\":2,\"hidden\":1048576,\"heads\":16384,\"head_dim\":16384,\"vocab\":100000000,"
    "\"seq\":1000000000,\"ffn_hidden\":16777216,\"mlp\":\"swiglu\",\"experts\":65536,"
    "\"experts_per_token\":65536,\"shared_ffn_hidden\":16777216}");
  check_sums(m);
  ck_assert(isfinite(model_flops(m, m->seq)));
}
END_TEST

/* ---- FLOPs ---- */

static double narayanan(double L, double s, double h, double V)
{
  return 72 * L * s * h * h * (1 + s / (6 * h) + V / (12 * h * L));
}

START_TEST(flops_gpt)
{
  static const char *const names[] = {"gpt3", "tiny", "megatron-1.7b", "megatron-1t", "gpt2-xl"};
  for (gsize i = 0; i < G_N_ELEMENTS(names); i++) {
    g_autoptr(Model) m = loaded("models", names[i]);
    for (int seq = 1; seq <= m->seq; seq *= 2) {
      double expected = narayanan(m->blocks, seq, m->hidden, m->vocab);
      ck_assert_double_eq_tol(model_flops(m, seq) / expected, 1, 1e-12);
    }
  }
}
END_TEST

START_TEST(flops_window)
{
  g_autoptr(Model) all = parsed(NATIVE(""));
  g_autoptr(Model) some = parsed(NATIVE(",\"window\":8"));
  ck_assert_double_eq(model_flops(all, 8), model_flops(some, 8));
  /* two blocks, 12 s (s - 8) h less */
  ck_assert_double_eq(model_flops(all, 32) - model_flops(some, 32), 2 * 12.0 * 32 * 24 * 64);
  ck_assert_double_eq(model_flops_unmasked(some, 32, 32), model_flops(some, 32));
}
END_TEST

/* Six per weight that a token meets, and the square of attention. */
START_TEST(flops_experts)
{
  g_autoptr(Model) m = loaded("models", "mixtral-8x7b");
  double square = 12.0 * 32 * 4096.0 * 4096 * 4096;
  double norms = (32 * 2 + 1) * 4096.0, table = 32000 * 4096.0;
  double weights = m->active_params - norms - table;
  ck_assert_double_eq_tol(model_flops(m, 4096) / (6 * 4096 * weights + square), 1, 1e-12);
  ck_assert_double_eq_tol(model_flops_unmasked(m, 4096, 4096) / (6 * 4096 * weights + square / 2), 1, 1e-12);
}
END_TEST

START_TEST(flops_streams)
{
  g_autoptr(Model) t5 = loaded("models", "t5-small");
  double d = 512, s = 128, f = 2048;
  double weights = 6 * (4 * d * d + 2 * d * f) + 6 * (8 * d * d + 2 * d * f) + 32128 * d;
  ck_assert_double_eq(model_flops(t5, 128), 6 * s * weights + 18 * 12 * s * s * d);
  /* of encoder, decoder and cross attention the decoder's own is masked */
  ck_assert_double_eq(model_flops_unmasked(t5, 128, 128), 6 * s * weights + (18 - 3) * 12 * s * s * d);

  g_autoptr(Model) vit = loaded("models", "vit-base-16");
  double h = 768, n = 197;
  double blocks = 12 * (72 * n * h * h + 12 * n * n * h);
  ck_assert_double_eq(model_flops(vit, 197), blocks + 6 * 196 * h * h + 6 * 1000 * h);
  ck_assert_double_eq(model_flops_unmasked(vit, 197, 197), model_flops(vit, 197));
}
END_TEST

/* ---- files ---- */

START_TEST(files)
{
  GError *error = NULL;
  ck_assert_ptr_null(model_load("/nowhere/x.json", &error));
  test_error(&error, TDP_ERROR_INPUT, "/nowhere/x.json: No such file or directory");

  g_autofree char *folder = test_directory();
  g_autofree char *path = g_build_filename(folder, "config.json", NULL);
  g_autofree char *stem = g_path_get_basename(folder);
  ck_assert(g_file_set_contents(path, NATIVE(""), -1, NULL));
  g_autoptr(Model) m = model_load(folder, &error);
  ck_assert_ptr_nonnull(m);
  ck_assert_str_eq(m->name, stem);
  remove(path);
  remove(folder);
}
END_TEST

/* One key set to another value: accepted, or refused with a message that names
 * the file, and the key if the value fits nothing. */
static void mutate(const cJSON *root, const char *key, const char *value, gboolean fits_nothing)
{
  cJSON *copy = cJSON_Duplicate(root, TRUE);
  cJSON_ReplaceItemInObjectCaseSensitive(copy, key, cJSON_Parse(value));
  char *text = cJSON_PrintUnformatted(copy);
  GError *error = NULL;
  Model *m = model_parse(text, strlen(text), "f", &error);
  ck_assert_msg((m == NULL) == (error != NULL), "%s", text);
  if (error)
    ck_assert_msg(g_str_has_prefix(error->message, "f: "), "%s", error->message);
  if (error && fits_nothing)
    ck_assert_msg(strstr(error->message, key) != NULL, "%s: %s", key, error->message);
  if (m)
    check_sums(m);
  g_clear_error(&error);
  model_free(m);
  cJSON_free(text);
  cJSON_Delete(copy);
}

START_TEST(mutations)
{
  static const char *const wrong[] = {"-1", "1e308", "\"4\"", "[]", "{}"};
  static const char *const other[] = {"null", "0", "0.5", "1", "3", "true"};
  for (gsize i = 0; i < G_N_ELEMENTS(totals); i++) {
    g_autofree char *below = g_strdup_printf("models/%s.json", totals[i].name);
    g_autofree char *path = files_data_path(below);
    g_autofree char *text = NULL;
    ck_assert(g_file_get_contents(path, &text, NULL, NULL));
    cJSON *root = cJSON_Parse(text);
    for (const cJSON *item = root->child; item; item = item->next) {
      for (gsize v = 0; v < G_N_ELEMENTS(wrong); v++)
        mutate(root, item->string, wrong[v], TRUE);
      for (gsize v = 0; v < G_N_ELEMENTS(other); v++)
        mutate(root, item->string, other[v], FALSE);
    }
    cJSON_Delete(root);
  }
}
END_TEST

TEST_MAIN("model", gpt3, known_totals, megatron_totals, every_model_file, defaults, gated_width,
          native_switches, native_experts, native_parts_of_experts, native_mla, native_refusals, too_many_parameters,
          flops_gpt, flops_window, flops_experts, flops_streams, files, mutations)
