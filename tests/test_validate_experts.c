/* Columns of runs with experts: each changes what it should, and nonsense is refused. */
#include "case_rows.h"
#include "validate/case_experts.h"
#include "validate/unstated.h"
#include "validate/validate.h"

#include "base/files.h"

#include <stdio.h>

static const char header[] = CASE_COLUMNS ",model_file,ep,etp,moe_dispatcher,recompute_modules,moe_load,fp8_recipe,"
                             "moe_a2a_overlap,cuda_graph\n";

#define ROW(layers, tp, dp, recompute, precision, more)                                                               \
  "a,s,src,megatron,nemo-26.04.01,Qwen3-30B-A3B," layers ",,,,,4096,,,flash3,dgx-h100,16," tp ",1,1,1,," dp            \
  ",1,1,4,64," recompute "," precision ",,,data,9,60,max_allocated,," more "\n"
#define EXPERTS(recompute, precision, more) ROW("48", "1", "16", recompute, precision, "qwen3-30b-a3b," more)
#define PLAIN EXPERTS("none", "bf16", "16,1,alltoall,,1,,0,partial")

#define DENSE ROW("32", "8", "2", "none", "bf16", "llama-3.1-8b,,,,,,,0,full")

static void add(Validation *v, const char *row, GError **error)
{
  case_rows_add(v, header, row, error);
}

static CaseResult read_row(const char *row, char **defaulted)
{
  g_autoptr(Validation) v = validation_new(-1);
  GError *error = NULL;

  add(v, row, &error);
  ck_assert_msg(!error, "%s", error ? error->message : "");
  const CaseResult *r = g_ptr_array_index(v->cases, 0);
  ck_assert_msg(!r->skipped, "%s", r->skipped);
  if (defaulted)
    *defaulted = g_strdup(r->defaulted);
  return *r;
}

/* Of a row of eight tensor-parallel ranks with a column more. */
static double seconds_with_column(const char *column, const char *cell, char **skipped)
{
  g_autoptr(Validation) v = validation_new(-1);
  g_autofree char *folder = test_directory(), *path = g_build_filename(folder, "cases.csv", NULL);
  g_autofree char *text = g_strdup_printf("%.*s,%s\n%.*s,%s\n", (int)strlen(header) - 1, header, column,
                                          (int)strlen(DENSE) - 1, DENSE, cell);
  GError *error = NULL;

  ck_assert(files_write(path, text, strlen(text), NULL));
  validation_add_file(v, path, &error);
  remove(path);
  remove(folder);
  *skipped = error ? g_strdup(error->message) : NULL;
  g_clear_error(&error);
  return *skipped ? 0 : ((const CaseResult *)g_ptr_array_index(v->cases, 0))->predicted_s;
}

/* Columns named as keys of plans are read by the table of keys: no code here knows of these. */
START_TEST(keys_are_columns)
{
  char *bad;
  double usual = seconds_with_column("tp_comm_overlap", "", &bad), off = seconds_with_column("tp_comm_overlap", "0", &bad);
  double on = seconds_with_column("tp_comm_overlap", "1", &bad);

  ck_assert(usual > 0 && off == usual && on < usual);
  seconds_with_column("tp_comm_overlap", "2", &bad);
  ck_assert_msg(g_str_has_suffix(bad, "tp_comm_overlap: \"2\": expected one of 0, 1"), "%s", bad);
  g_free(bad);
  ck_assert_double_eq(seconds_with_column("moe_pad_expert_input_to_capacity", "0", &bad), usual);
  seconds_with_column("muon_tp_mode", "none", &bad);
  ck_assert_msg(g_strrstr(bad, "muon_tp_mode: \"none\": expected one of ") != NULL, "%s", bad);
  g_free(bad);
}
END_TEST

#define PIPELINE(generation, vpp, model, layers, overlap, graph)                                                      \
  "a,s,src,megatron," generation "," model "," layers ",,,,,4096,,,flash3,hgx-b200,16,1,1,2," vpp                      \
  ",,8,1,1,1,64,none,fp8,,,data,9,60,max_allocated,," model ",8,1,hybridep,,1,mxfp8," overlap "," graph "\n"

/* What recipes of a generation do that a row leaves open: pipelines of dense models are cut into chunks, those of
 * models with experts are not; steps that are one graph exchange tokens beside other passes, others do not. */
START_TEST(recipes_fill_what_is_open)
{
  static const struct {
    const char *open, *stated, *defaulted;
  } rows[] = {
    { PIPELINE("nemo-25.11", "", "llama-3.1-8b", "32", "", "full"),
      PIPELINE("nemo-25.11", "4", "llama-3.1-8b", "32", "", "full"), "vpp" },
    { PIPELINE("nemo-25.11", "", "qwen3-30b-a3b", "48", "", "partial"),
      PIPELINE("nemo-25.11", "1", "qwen3-30b-a3b", "48", "0", "partial"), "vpp" },
    { PIPELINE("nemo-26.06", "2", "qwen3-30b-a3b", "48", "", "full"),
      PIPELINE("nemo-26.06", "2", "qwen3-30b-a3b", "48", "1", "full"), "moe_a2a_overlap" },
    { PIPELINE("nemo-26.06", "2", "qwen3-30b-a3b", "48", "", "partial"),
      PIPELINE("nemo-26.06", "2", "qwen3-30b-a3b", "48", "0", "partial"), "" },
    { PIPELINE("nemo-26.04", "2", "qwen3-30b-a3b", "48", "", "partial"),
      PIPELINE("nemo-26.04", "2", "qwen3-30b-a3b", "48", "0", "partial"), "" },
  };
  g_autofree char *defaulted = NULL;
  CaseResult open = read_row(rows[_i].open, &defaulted), stated = read_row(rows[_i].stated, NULL);

  ck_assert_str_eq(defaulted, rows[_i].defaulted);
  ck_assert_double_eq(open.predicted_s, stated.predicted_s);
}
END_TEST

typedef struct {
  const char *row;
  int time, memory; /* sign of the change against PLAIN; 2 = any */
} Change;

static const Change changes[] = {
  { EXPERTS("none", "bf16", "8,1,alltoall,,1,,0,partial"), 2, 1 },
  { EXPERTS("none", "bf16", "16,1,deepep,,1,,0,partial"), -1, 2 },
  { EXPERTS("none", "bf16", "16,1,alltoall,,1.5,,0,partial"), 1, 1 },
  { EXPERTS("selective", "bf16", "16,1,alltoall,moe_act layernorm,1,,0,partial"), 1, -1 },
  { EXPERTS("none", "fp8", "16,1,alltoall,,1,current,0,partial"), 2, 2 },
  { EXPERTS("none", "bf16", "16,1,alltoall,,1,,1,partial"), -1, 0 },
  { EXPERTS("none", "bf16", "16,1,alltoall,,1,,0,none"), -1, 0 }, /* nothing is copied to where it was recorded */
};

START_TEST(columns_change_what_they_say)
{
  CaseResult plain = read_row(PLAIN, NULL), other = read_row(changes[_i].row, NULL);
  double time = other.predicted_s - plain.predicted_s;
  double memory = other.predicted_memory_bytes - plain.predicted_memory_bytes;

  ck_assert(changes[_i].time == 2 ? time != 0 : changes[_i].time * time > 0);
  ck_assert(changes[_i].memory == 2 || (changes[_i].memory ? changes[_i].memory * memory > 0 : fabs(memory) < 1)); /* bytes */
}
END_TEST

/* Of Llama, whose family trains without: masks of residual sums take memory and time. */
START_TEST(dropout_is_stated)
{
  g_autofree char *skipped = NULL;
  double without = seconds_with_column("dropout", "0", &skipped), with;

  ck_assert_ptr_null(skipped);
  ck_assert_double_eq(seconds_with_column("dropout", "", &skipped), without);
  with = seconds_with_column("dropout", "1", &skipped);
  ck_assert_double_gt(with, 1.001 * without);
  ck_assert_double_lt(with, 1.1 * without);
  seconds_with_column("dropout", "0.1", &skipped);
  ck_assert_ptr_nonnull(strstr(skipped, "dropout: \"0.1\": expected 0, 1 or nothing"));
}
END_TEST

/* Recipes of fp8 differ, though only in their casts. */
START_TEST(recipes_differ)
{
  CaseResult current = read_row(EXPERTS("none", "fp8", "16,1,alltoall,,1,current,0,partial"), NULL);
  CaseResult blocks = read_row(EXPERTS("none", "fp8", "16,1,alltoall,,1,blockwise,0,partial"), NULL);

  ck_assert_double_ne(current.predicted_s, blocks.predicted_s);
}
END_TEST

static const struct {
  const char *row, *defaulted;
} blanks[] = {
  { PLAIN, "" },
  { EXPERTS("none", "bf16", "16,1,,,,,0,partial"), "moe_dispatcher moe_load" },
  { ROW("", "2", "8", "none", "bf16", "qwen3-30b-a3b,16,,alltoall,,1,,0,partial"), "etp" },
  { EXPERTS("none", "bf16", "16,1,alltoall,,1,,,"), "cuda_graph" },
  { ROW("32", "1", "16", "none", "bf16", "llama-3.1-8b,,,,,,,0,full"), "" }, /* without experts nothing is open */
};

START_TEST(what_is_open_is_named)
{
  g_autofree char *defaulted = NULL;

  read_row(blanks[_i].row, &defaulted);
  ck_assert_str_eq(defaulted, blanks[_i].defaulted);
}
END_TEST

static const struct {
  const char *note;
  double factor; /* 0 = none */
} capacities[] = {
  { "alltoall, capacity factor 1 padded (so balanced work)", 1 },
  { "moe_expert_capacity_factor 1.25 padded (tokens dropped)", 1.25 },
  { "token dropping (table says tokendrop; capacity factor not printed)", 1 },
  { "CUDA graphs full_iteration , experts padded to capacity 1.5 with paged stash", 0 },
  { "capacity factor 2", 0 },
  { "", 0 },
};

START_TEST(capacities_are_noted)
{
  for (gsize i = 0; i < G_N_ELEMENTS(capacities); i++) {
    double factor;
    gboolean noted = case_noted_capacity(capacities[i].note, &factor);
    ck_assert_int_eq(noted, capacities[i].factor > 0);
    ck_assert(!noted || factor == capacities[i].factor);
  }
}
END_TEST

static double seconds_with(const char *cluster, const char *note, const char *graph, const char *dispatcher)
{
  g_autofree char *row = g_strdup_printf("a,s,src,megatron,nemo-25.11,Qwen3-30B-A3B,48,,,,,4096,,,flash3,%s,16,1,1,1,,,"
                                         "16,1,1,1,64,none,fp8,,,data,9,,,%s,qwen3-30b-a3b,8,1,%s,,1,current,0,"
                                         "%s\n", cluster, note, dispatcher, graph);
  return read_row(row, NULL).predicted_s;
}

static double seconds_of(const char *cluster, const char *note, const char *graph)
{
  return seconds_with(cluster, note, graph, "");
}

/* What software of that time recorded as graphs by default: on Blackwell attention and router, with token drop all of a
 * layer; nothing on H100. */
START_TEST(graphs_by_default)
{
  ck_assert_double_eq(seconds_of("dgx-h100", "", ""), seconds_of("dgx-h100", "", "none"));
  ck_assert_double_gt(seconds_of("dgx-h100", "", ""), seconds_of("dgx-h100", "", "partial"));
  ck_assert_double_eq(seconds_of("hgx-b200", "", ""), seconds_of("hgx-b200", "", "partial"));
  ck_assert_double_eq(seconds_of("hgx-b200", "token dropping", ""), seconds_of("hgx-b200", "token dropping", "full"));
  ck_assert_double_lt(seconds_of("hgx-b200", "token dropping", "none"), seconds_of("hgx-b200", "", "none"));
}
END_TEST

/* Tokens travel by HybridEP where recipes of that time set it, on racks, and by all-to-all elsewhere. */
START_TEST(dispatchers_by_default)
{
  double rack = seconds_of("gb200-nvl72", "", ""), server = seconds_of("hgx-b200", "", "");

  ck_assert_double_eq(rack, seconds_with("gb200-nvl72", "", "", "hybridep"));
  ck_assert_double_ne(rack, seconds_with("gb200-nvl72", "", "", "alltoall"));
  ck_assert_double_eq(server, seconds_with("hgx-b200", "", "", "alltoall"));
  ck_assert_double_ne(server, seconds_with("hgx-b200", "", "", "hybridep"));
}
END_TEST

static double seconds_apart(const char *batch, const char *ranks, char **defaulted)
{
  g_autofree char *row = g_strdup_printf("a,s,src,megatron,nemo-26.04.01,Qwen3-30B-A3B,48,,,,,4096,,,flash3,dgx-h100,"
                                         "16,1,1,1,1,,16,1,1,%s,2048,none,bf16,,,data,9,,,"
                                         "enable_megatron_core_experimental,qwen3-30b-a3b,%s,1,deepep,,1,,0,none\n",
                                         batch, ranks);
  return read_row(row, defaulted).predicted_s;
}

/* Where a row says only that DeepEP divides experts, it is over a node, or over more where that is faster. */
START_TEST(open_ranks_of_experts_are_the_fastest)
{
  double node = seconds_apart("2", "8", NULL), both = seconds_apart("1", "16", NULL);
  g_autofree char *defaulted = NULL;

  ck_assert_double_lt(node, seconds_apart("2", "16", NULL));
  ck_assert_double_lt(both, seconds_apart("1", "8", NULL));
  ck_assert_double_eq(seconds_apart("2", "", NULL), node);
  ck_assert_double_eq(seconds_apart("1", "", &defaulted), both);
  ck_assert_str_eq(defaulted, "ep");
}
END_TEST

static CaseResult recomputed(const char *generation, const char *kind, const char *modules)
{
  g_autofree char *row = g_strdup_printf("a,s,src,megatron,%s,DeepSeek-V3,61,,,,,4096,,,flash3,gb200-nvl72,256,1,0,8,1,,"
                                         "32,1,1,2,4096,%s,bf16,,,,16,,,,deepseek-v3,32,1,alltoall,%s,1,,0,none\n",
                                         generation, kind, modules);
  return read_row(row, NULL);
}

/* Where a run does not fit that says nothing of it, latent attention's keys and values are recomputed before blocks, by
 * software that knows modules. */
START_TEST(latent_attention_is_recomputed_first)
{
  CaseResult open = recomputed("nemo-25.11", "", ""), old = recomputed("nemo-25.02", "", "");
  CaseResult latent = recomputed("nemo-25.11", "selective", "mla_up_proj");

  ck_assert_double_gt(recomputed("nemo-25.11", "none", "").memory_need, 1);
  ck_assert_double_eq(open.memory_need, latent.memory_need);
  ck_assert_double_eq(open.predicted_s, latent.predicted_s);
  ck_assert_double_lt(open.predicted_s, recomputed("nemo-25.11", "full", "").predicted_s);
  ck_assert_double_lt(old.memory_need, latent.memory_need);
  ck_assert_double_lt(old.predicted_s, recomputed("nemo-25.02", "full", "").predicted_s);
}
END_TEST

static const struct {
  const char *row, *reason;
} bad[] = {
  { EXPERTS("none", "bf16", "16,1,pigeon,,1,,0,partial"), "moe_dispatcher: \"pigeon\": expected alltoall" },
  { EXPERTS("none", "bf16", "16,1,alltoall,,0.5,,0,partial"), "moe_load: \"0.5\": expected a number from 1" },
  { EXPERTS("selective", "bf16", "16,1,alltoall,moe_akt,1,,0,partial"),
    "recompute_modules: \"moe_akt\": expected one of" },
  { EXPERTS("none", "fp8", "16,1,alltoall,,1,rough,0,partial"), "fp8_recipe: \"rough\": expected one of" },
  { EXPERTS("none", "bf16", "0,1,alltoall,,1,,0,partial"), "ep: \"0\": expected an integer from 1" },
  { EXPERTS("none", "bf16", "16,1,alltoall,,1,,2,partial"), "moe_a2a_overlap: \"2\": expected 0, 1 or nothing" },
  { EXPERTS("none", "bf16", "16,1,alltoall,,1,,0,some"), "cuda_graph: \"some\": expected one of none, partial, partial:A+B (modules), full" },
  { EXPERTS("none", "bf16", "16,1,alltoall,,1,,0,partial:core_attn"),
    "cuda_graph: \"partial:core_attn\": expected one of none, partial, partial:A+B (modules), full" },
  { EXPERTS("none", "bf16", "16,1,alltoall,,1,,0,full:attn"),
    "cuda_graph: \"full:attn\": expected one of none, partial, partial:A+B (modules), full" },
  { ROW("47", "1", "16", "none", "bf16", "qwen3-30b-a3b,16,1,alltoall,,1,,0,partial"), "layers: \"47\": expected 48" },
  { ROW("", "1", "16", "none", "bf16", "qwen9,16,1,alltoall,,1,,0,partial"), "qwen9" },
};

START_TEST(nonsense_is_refused)
{
  g_autoptr(Validation) v = validation_new(-1);
  GError *error = NULL;

  add(v, bad[_i].row, &error);
  ck_assert_ptr_nonnull(error);
  ck_assert_msg(strstr(error->message, bad[_i].reason) != NULL, "%s", error->message);
  g_clear_error(&error);
}
END_TEST

/* More ranks than key-value heads, in software that has it: their queries, keys and values are gathered besides. */
START_TEST(key_value_heads_are_divided)
{
  static const char *const rows[] = { ROW("", "4", "4", "none", "bf16", "qwen3-30b-a3b,16,1,alltoall,,1,,0,partial"),
                                      ROW("", "8", "2", "none", "bf16", "qwen3-30b-a3b,16,1,alltoall,,1,,0,partial") };
  CaseResult four = read_row(rows[0], NULL), eight = read_row(rows[1], NULL);

  ck_assert_double_gt(eight.predicted_s, four.predicted_s);
  g_auto(GStrv) parts = g_strsplit(rows[1], "nemo-26.04.01", 2);
  g_autofree char *old = g_strjoinv("nemo-25.11", parts);
  g_autoptr(Validation) v = validation_new(-1);
  add(v, old, NULL);
  const CaseResult *refused = g_ptr_array_index(v->cases, 0);
  ck_assert_ptr_nonnull(strstr(refused->skipped, "expected a divisor of the 4 key-value heads"));
}
END_TEST

/* A family's file is cut to the row's layers: half the layers are about half the time. */
START_TEST(proxies_are_cut)
{
#define GROK(layers)                                                                                                   \
  "a,s,src,megatron,nemo-2024-11,Grok-1 314B," layers ",6144,32768,48,8,4096,128256,swiglu,flash3,dgx-h100,32,4,1," \
  "1,,,8,1,1,1,1024,none,bf16,,,data,9,,,,,8,,alltoall,,1,,,\n"
  double four = read_row(GROK("4"), NULL).predicted_s, eight = read_row(GROK("8"), NULL).predicted_s;

  ck_assert_double_gt(eight, 1.8 * four);
  ck_assert_double_lt(eight, 2 * four);
}
END_TEST

/* The note's "DeepEP not supported": as by all-to-all. */
START_TEST(dispatchers_that_were_not_there)
{
#define NOTED(dispatcher, note)                                                                                        \
  "a,s,src,megatron,nemo-26.04.01,Qwen3-30B-A3B,48,,,,,4096,,,flash3,dgx-h100,16,1,1,1,,,16,1,1,1,64,none,bf16,,,"     \
  "data,9,60,max_allocated," note ",qwen3-30b-a3b,16,1," dispatcher ",,1,,0,partial\n"
  double pairs = read_row(NOTED("alltoall", ""), NULL).predicted_s;
  double kernels = read_row(NOTED("deepep", ""), NULL).predicted_s;

  ck_assert_double_ne(pairs, kernels);
  ck_assert_double_eq(read_row(NOTED("deepep", "DeepEP not supported in the container"), NULL).predicted_s, pairs);
  ck_assert_double_ne(read_row(NOTED("hybridep", "DeepEP not supported in the container"), NULL).predicted_s, pairs);
}
END_TEST

/* AutoModel's layers of Transformer Engine attend by its kernel, whatever the cell calls it; others as it says. */
START_TEST(layers_of_an_engine_attend_by_its_kernel)
{
#define LAYERS(attention, note)                                                                                        \
  "a,s,src,automodel,automodel-2025-10,Qwen3-30B-A3B,48,,,,,4096,,," attention ",dgx-h100,8,1,0,1,,,8,1,3,1,64,full,"  \
  "bf16,,,,9,,," note ",qwen3-30b-a3b,8,,deepep,,1,,,\n"
  double engine = read_row(LAYERS("flash3", ""), NULL).predicted_s;
  double plain = read_row(LAYERS("flash", ""), NULL).predicted_s;

  ck_assert_double_lt(engine, plain);
  ck_assert_double_eq(read_row(LAYERS("flash", "gate; TE + DeepEP; yaml"), NULL).predicted_s, engine);
  ck_assert_double_eq(read_row(LAYERS("flash", "gate; TE + DeepEP + SDPA"), NULL).predicted_s, plain);
  ck_assert_double_eq(read_row(LAYERS("flash", "gate; FlexAttention"), NULL).predicted_s, plain);
}
END_TEST

/* AutoModel of 2025 turns queries and keys step by step, forward, again and back: six times the values besides that a
 * kernel moves, two bytes each, of 36 heads of 128 channels, in each of 48 layers and 8
 * micro-batches. Where nothing turns it makes no difference. */
START_TEST(positions_turn_by_steps_before_2026)
{
#define TURNED(date, model)                                                                                            \
  "a,s,src,automodel,automodel-" date "," model ",,,,,,4096,,,flash,dgx-h100,8,1,0,1,,,8,1,3,1,64,full,"               \
  "bf16,,,,9,,,TE + DeepEP," model ",8,,deepep,,1,,,\n"
#define QWEN "qwen3-30b-a3b"
#define NEMOTRON "nemotron-3-nano-30b-a3b"
  double steps = read_row(TURNED("2025-10", QWEN), NULL).predicted_s;
  double kernel = read_row(TURNED("2026-01", QWEN), NULL).predicted_s;
  double moved_s = 6 * 2.0 * 4096 * 36 * 128 / 2.8e12, begun_s = 14 * 2.5e-6; /* at most, of 14 kernels more */

  ck_assert_double_gt((steps - kernel) / (8 * 48 * 3), moved_s);
  ck_assert_double_lt((steps - kernel) / (8 * 48 * 3), moved_s + begun_s);
  ck_assert_double_eq(read_row(TURNED("2025-11", QWEN), NULL).predicted_s, steps);
  ck_assert_double_eq(read_row(TURNED("2026-04", QWEN), NULL).predicted_s, kernel);
  ck_assert_double_eq(read_row(TURNED("2025-10", NEMOTRON), NULL).predicted_s,
                      read_row(TURNED("2026-01", NEMOTRON), NULL).predicted_s);
}
END_TEST

/* NeMo of early 2024 attends by FlashAttention-2, whatever class the cell names. */
START_TEST(a_class_is_at_most_the_generations_own)
{
#define RELEASE(version, attention)                                                                                    \
  "a,s,src,megatron," version ",Llama-2-7B,32,4096,11008,32,32,32768,32000,swiglu," attention ",dgx-h100,8,1,0,1,,,8,"  \
  "1,1,1,8,none,bf16,,,,9,,,,,,,,,,,,\n"
  double older = read_row(RELEASE("nemo-24.07", "flash"), NULL).predicted_s;

  ck_assert_double_eq(read_row(RELEASE("nemo-24.07", "flash3"), NULL).predicted_s, older);
  ck_assert_double_lt(read_row(RELEASE("nemo-24.09", "flash3"), NULL).predicted_s, older);
  ck_assert_double_eq(read_row(RELEASE("nemo-24.09", "flash"), NULL).predicted_s, older);
  ck_assert_double_gt(read_row(RELEASE("nemo-24.03", "flash3"), NULL).predicted_s, older);
}
END_TEST

/* Its weights, gradients and moments are in bf16: this run of its tables was measured on 80 GB, where states in fp32
 * alone would take 61. */
START_TEST(states_in_bf16_fit)
{
  const char *row = "a,s,src,automodel,automodel-2025-10,Qwen3-30B-A3B,48,,,,,4096,,,flash,dgx-h100,8,1,0,1,,,8,1,3,4,"
                    "512,full,bf16,,,,21.773,,,TE + DeepEP,qwen3-30b-a3b,8,,deepep,,1,,,\n";
  CaseResult r = read_row(row, NULL);

  ck_assert_double_gt(r.memory_need, 0.5);
  ck_assert_double_lt(r.memory_need, 0.9);
}
END_TEST

/* Moments in bf16 that a note names take 4 bytes less of each parameter's share; of 30.5 G, divided over 16 ranks. */
START_TEST(moments_are_noted)
{
  CaseResult full = read_row(NOTED("alltoall", ""), NULL);
  CaseResult narrow = read_row(NOTED("alltoall", "recipe R: BF16 optimizer moments"), NULL);
  double saved_gib = (full.memory_need - narrow.memory_need) * 79.2;

  ck_assert_double_eq_tol(saved_gib, 4 * 30.5e9 / 16 / (1 << 30), 0.8);
}
END_TEST

/* AutoModel's gate of benchmarks sends a token to few ranks. */
START_TEST(gates_in_turn_are_noted)
{
  double drawn = read_row(LAYERS("flash3", ""), NULL).predicted_s;

  ck_assert_double_lt(read_row(LAYERS("flash3", "PyTorch; fake balanced gate; more"), NULL).predicted_s, drawn);
  ck_assert_double_eq(read_row(LAYERS("flash3", "balanced gate"), NULL).predicted_s, drawn);
}
END_TEST

/* A recipe that takes the loss by Transformer Engine's kernel, where the development branch has none by default. */
START_TEST(losses_are_noted)
{
#define DEV(note)                                                                                                      \
  "a,s,src,megatron,megatron-core-dev-2026-06,Qwen3-30B-A3B,48,,,,,4096,,,flash3,dgx-h100,16,1,1,1,,,16,1,1,1,64,none," \
  "bf16,,,data,9,,," note ",qwen3-30b-a3b,16,1,alltoall,,1,,0,partial\n"
  double steps = read_row(DEV(""), NULL).predicted_s;

  ck_assert_double_lt(read_row(DEV("recipe R; cross_entropy_fusion_impl te; more"), NULL).predicted_s, steps);
  ck_assert_double_eq(read_row(DEV("cross_entropy_fusion_impl native"), NULL).predicted_s, steps);
}
END_TEST

/* A recipe that leaves the fusion of permutation off indexes rows and adds them up, whatever its generation has. */
START_TEST(permutations_are_noted)
{
  double one = read_row(NOTED("alltoall", ""), NULL).predicted_s;

  ck_assert_double_gt(read_row(NOTED("alltoall", "token mixing; no moe_permute_fusion; more"), NULL).predicted_s, one);
  ck_assert_double_eq(read_row(NOTED("alltoall", "moe_permute_fusion"), NULL).predicted_s, one);
}
END_TEST

/* Recipes of one container differ in whether Megatron Core's experimental features are on, which tell what DeepEP
 * brought apart by a kernel as long as permutations are fused; other dispatchers have nothing to tell apart. */
START_TEST(experimental_features_are_noted)
{
#define EXPERIMENTAL "enable_megatron_core_experimental (DeepSeek)"
#define DEEP(note)                                                                                                     \
  "a,s,src,megatron,megatron-core-dev-2026-06,Qwen3-30B-A3B,48,,,,,4096,,,flash3,dgx-h100,16,1,1,1,,,16,1,1,1,64,"    \
  "none,bf16,,,data,9,,," note ",qwen3-30b-a3b,16,1,deepep,,1,,0,none\n"
  double left = read_row(NOTED("deepep", ""), NULL).predicted_s;
  double unfused = read_row(NOTED("deepep", "no moe_permute_fusion"), NULL).predicted_s;
  double pairs = read_row(NOTED("alltoall", ""), NULL).predicted_s;
  double hybrid = read_row(NOTED("hybridep", ""), NULL).predicted_s;

  ck_assert_double_lt(read_row(NOTED("deepep", "recipe; " EXPERIMENTAL "; more"), NULL).predicted_s, left);
  ck_assert_double_eq(read_row(NOTED("deepep", "moe_permute_fusion; experimental"), NULL).predicted_s, left);
  ck_assert_double_gt(unfused, left);
  ck_assert_double_eq(read_row(NOTED("deepep", EXPERIMENTAL "; no moe_permute_fusion"), NULL).predicted_s, unfused);
  ck_assert_double_eq(read_row(NOTED("deepep", EXPERIMENTAL "; no enable_experimental"), NULL).predicted_s, left);
  ck_assert_double_gt(read_row(DEEP("no enable_experimental"), NULL).predicted_s, read_row(DEEP(""), NULL).predicted_s);
  ck_assert_double_eq(read_row(NOTED("alltoall", EXPERIMENTAL), NULL).predicted_s, pairs);
  ck_assert_double_eq(read_row(NOTED("hybridep", EXPERIMENTAL), NULL).predicted_s, hybrid);
}
END_TEST

static const struct {
  const char *note;
  int blocks, stages, first, last; /* first < 0: not read */
} layouts[] = {
  { "cluster; pipeline layout Etx4|(tx4|)x14tmL", 61, 16, 4, 1 },
  { "pipeline layout Ett|(tt|)x5ttL; more", 14, 7, 2, 2 },
  { "pipeline layout Ett|t(t|t)x2tL, more", 8, 4, 2, 2 },
  { "pipeline layout Etx4|(tx4|)x14tmL", 61, 8, -1, 0 },  /* of other stages */
  { "pipeline layout Etx4|(tx4|)x14tmL", 60, 16, -1, 0 }, /* of other blocks */
  { "pipeline layout Etx4|(tx4|x14tmL", 61, 16, -1, 0 },
  { "pipeline layout Etx4|?tmL", 5, 2, -1, 0 },
  { "pipeline layout tx999999999999|(|)x999999999", 5, 2, -1, 0 },
  { "nothing of the kind", 5, 2, -1, 0 },
};

START_TEST(layouts_are_read)
{
  LayerSplit split = { 0 };

  ck_assert_int_eq(case_noted_layout(layouts[_i].note, layouts[_i].blocks, layouts[_i].stages, &split),
                   layouts[_i].first >= 0);
  if (layouts[_i].first < 0)
    return;
  ck_assert_int_eq(split.stages, layouts[_i].stages);
  ck_assert_int_eq(split_layers(&split), layouts[_i].blocks);
  ck_assert_int_eq(split.layers[0], layouts[_i].first);
  ck_assert_int_eq(split.layers[split.stages - 1], layouts[_i].last);
}
END_TEST

static const struct {
  const char *generation, *found;
  gboolean named;
} containers[] = {
  { "nemo-25.11", "nemo-2025-11", TRUE },         { "nemo-26.04.01", "nemo-2026-04", TRUE },
  { "nemo-26.04.01-uccl", "nemo-2026-04", FALSE }, { "nemo-26.10", "nemo-2026-08", FALSE },
  { "nemo-25.02", "nemo-2025-02", TRUE },          { "nemo-26.04.01-library", "nemo-2026-04-library", TRUE },
  { "nemo-26.04.01-library-uccl", "nemo-2026-04-library", FALSE }, { "nemo-26.04.01-librar", "nemo-2026-04", FALSE },
  { "nemo-25.11-library", "nemo-2026-04-library", FALSE },
  { "nemo-26.08-library", "nemo-2026-08-library", TRUE }, { "nemo-26.10-library", "nemo-2026-08-library", FALSE },
  { "nemo-26.04.01-library-nvshmem", "nemo-2026-04-library-nvshmem", TRUE },
};

START_TEST(containers_are_generations)
{
  g_autofree char *found = unstated_generation(containers[_i].generation, "megatron", "");

  ck_assert_str_eq(found, containers[_i].found);
  ck_assert_int_eq(unstated_is_named(containers[_i].generation, found), containers[_i].named);
}
END_TEST

TEST_LOOPS("validate_experts", { columns_change_what_they_say, G_N_ELEMENTS(changes) }, { recipes_differ },
           { dropout_is_stated },
           { what_is_open_is_named, G_N_ELEMENTS(blanks) }, { nonsense_is_refused, G_N_ELEMENTS(bad) },
           { key_value_heads_are_divided }, { keys_are_columns }, { recipes_fill_what_is_open, 5 }, { proxies_are_cut },
           { layouts_are_read, G_N_ELEMENTS(layouts) }, { containers_are_generations, G_N_ELEMENTS(containers) },
           { capacities_are_noted }, { dispatchers_that_were_not_there }, { layers_of_an_engine_attend_by_its_kernel },
           { positions_turn_by_steps_before_2026 },
           { gates_in_turn_are_noted }, { losses_are_noted }, { permutations_are_noted },
           { experimental_features_are_noted },
           { a_class_is_at_most_the_generations_own },
           { states_in_bf16_fit },
           { moments_are_noted },
           { graphs_by_default }, { dispatchers_by_default },
           { open_ranks_of_experts_are_the_fastest }, { latent_attention_is_recomputed_first })
