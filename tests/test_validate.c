#include "case_rows.h"
#include "validate/validate.h"

#include "base/files.h"

#include <math.h>
#include <stdio.h>

static const char header[] = CASE_COLUMNS "\n";

/* A run that can be simulated; {} marks the cell that a test replaces. */
#define CASE(model, vocab, zero, recompute, cp, precision, micro, measured)                                            \
  "a,s,src,megatron,megatron-2021," model ",4,1024,4096,16,16,512," vocab ",gelu,unfused,dgx,8,2,0,2,1,,2," cp "," zero \
  "," micro ",16," recompute "," precision ",,,," measured ",\n"
#define ROW(zero, recompute, cp, precision, micro) CASE("GPT", "1000", zero, recompute, cp, precision, micro, "0.5,,")

static gboolean add_rows(Validation *v, const char *rows, GError **error)
{
  return case_rows_add(v, header, rows, error);
}

typedef struct {
  const char *row, *reason; /* NULL: simulated */
  const char *defaulted;    /* NULL: nothing */
} Read;

static const Read reads[] = {
  { ROW("1", "full", "1", "fp16", "2"), NULL },
  { ROW("", "none", "", "bf16", "1"), NULL, "cp zero" },
  { ROW("1", "", "1", "fp16", "2"), NULL, "recompute" },
  { ROW("1", "full", "1", "fp16", ""), NULL, "micro_batch" },
  { CASE("GPT", "", "1", "", "1", "fp16", "", "0.5,,"), NULL, "vocab micro_batch recompute" },
  { CASE("GPT", "1000", "1", "full", "1", "fp16", "2", ",3,"), NULL, "memory_kind" },
  { CASE("GPT", "1000", "1", "full", "1", "fp16", "2", ",3,max_reserved"), NULL },
  { CASE("GPT", "1000", "1", "full", "1", "fp16", "2", ",,"), "blank iteration_s" },
  { "a,s,src,megatron,megatron-core,GPT,96,12288,49152,96,96,2048,51200,gelu,flash,dgx,8,1,0,8,1,,1,1,1,8,64,,bf16,,,,9,,,\n",
    NULL, "recompute" }, /* as light as it can be */
  { ROW("1", "full", "2", "fp16", "2"), "plan: gpus: 8: expected tensor 2 x pipeline 2 x context 2 x data 2 = 16" },
  { ROW("1", "full", "1", "fp8", "2"), "plan: precision: \"fp8\": expected a format that a100-sxm4-80gb "
                                          "supports (fp32, tf32, fp16, bf16)" },
  { ROW("hsdp", "full", "1", "fp16", "2"), "plan: zero_stage: 3: expected at most 1, which is what megatron-2021 runs with pipeline stages" },
  { ROW("1", "other", "1", "fp16", "2"), NULL, "recompute" },
  { "a,s,src,megatron,megatron-2019,GPT,4,1024,4096,16,16,512,1000,gelu,unfused,dgx,8,,,,,,4,1,0,2,16,none,fp16,,,,.5,,,\n",
    NULL, "generation vpp tp pp sp" },
  { "a,s,src,fsdp,megatron-2021,GPT,4,1024,4096,16,16,512,1000,gelu,flash,dgx,8,1,,1,,dualpipe,,1,0,2,16,none,bf16,,,,9,,,\n",
    "plan: pipeline_schedule: schedule dualpipe needs an even number of pipeline ranks, the plan has 1" },
  { "a,s,src,internevo,internevo-2023,L,7,1024,4096,16,16,512,1000,swiglu,flash,dgx,8,1,,4,,,2,1,1,2,16,none,bf16,,,,9,,,\n",
    NULL, "vpp layer_split" },
  { "a,s,src,megatron,megatron-2021,GPT,4,1024,4096,16,16,512,1000,gelu,unfused,dgx,8,2,0,2,,interleaved,2,1,1,2,16,none,fp16,,,,9,,,\n",
    NULL, "vpp" },
  { "a,s,src,nemo,megatron-core,GPT,4,1024,4096,16,16,512,1000,gelu,flash,dgx-b300,8,8,1,1,2,,1,1,1,2,16,none,bf16,,,,9,,,\n",
    NULL, "cluster" }, /* a server's name; chunks without a pipeline */
  { ROW("1", "full", "1", "fp16", "3"),
    "plan: global_batch_size: 16: expected a multiple of data_parallel_size 2 x micro_batch_size 3" },
  { "a,s,src,megatron,megatron-2021,GPT,4,1024,4096,16,16,512,1000,gelu,unfused,dgx,8,,0,,1,,65536,65536,1,2,16,none,fp16,,,,9,,,\n",
    "plan: gpus: 8: expected tensor 1 x pipeline 1 x context 65536 x data 65536 = 4294967296", "tp pp" }, /* 2^32 */
};

START_TEST(rows_are_read)
{
  g_autoptr(Validation) v = validation_new(-1);
  GError *error = NULL;

  ck_assert_msg(add_rows(v, reads[_i].row, &error), "%s", error ? error->message : "");
  const CaseResult *r = g_ptr_array_index(v->cases, 0);
  ck_assert_str_eq(r->skipped ? r->skipped : "", reads[_i].reason ? reads[_i].reason : "");
  ck_assert_str_eq(r->defaulted, reads[_i].defaulted ? reads[_i].defaulted : "");
  if (!reads[_i].reason)
    ck_assert(r->predicted_s > 0.001 && r->predicted_s < 500 && r->predicted_memory_bytes > 1e8);
}
END_TEST

#define SPLIT_ROW(split)                                                                                             \
  "a,s,src,megatron,megatron-2021,GPT,4,1024,4096,16,16,512,1000,gelu,unfused,dgx,8,2,0,2,1,,2,1,1,2,16,none,fp16,," \
  split ",,9,,,\n"

static const Read bad[] = {
  { ROW("4", "full", "1", "fp16", "2"), "line 2: zero: \"4\": expected 0 to 3 or hsdp" },
  { ROW("1", "full", "1", "int8", "2"), "line 2: precision: \"int8\": expected one of fp32, tf32, fp16, bf16, fp8, fp4" },
  { ROW("1", "full", "x", "fp16", "2"), "cp" },
  { "a,s,src,megatron,megatron-2021,GPT,4,1024,4096,16,16,512,1000,gelu,unfused,dgx-9,8,2,0,2,1,,2,1,1,2,16,none,fp16,,,,9,,,\n",
    "line 2: dgx-9: no such" },
  { "a,s,src,megatron,megatron-2021,GPT,4,1024,4096,16,16,512,1000,gelu,unfused,dgx,8,2,0,2,1,,2,1,1,2,16,none,fp16,,,,x,,,\n",
    "iteration_s" },
  { "a,s,src,megatron,megatron-2021,GPT,4,1024,4096,16,16,512,1000,gelu,unfused,dgx,8,2,0,2,1,,2,1,1,2,16,none,fp16,,,,9,1e300,,\n",
    "line 2: memory_gib: \"1e300\": expected a number above 0 and at most 1e+09" },
  { "a,s,src,fsdp,fsdp,GPT,4,1024,4096,16,16,512,1000,gelu,flash,dgx,8,1,0,1,1,,8,1,3,2,16,none,bf16,-1,,,9,,,\n",
    "line 2: shard_group: \"-1\": expected a number of ranks, gpus_per_node or nothing" },
  { SPLIT_ROW("last=-2147483648"), "line 2: layer_split: \"last=-2147483648\": expected first-1,last-1, last=N or" },
  { SPLIT_ROW("last=-1"), "line 2: layer_split: \"last=-1\": expected" },
  { SPLIT_ROW("last=1x"), "line 2: layer_split: \"last=1x\": expected" },
};

START_TEST(bad_cells_are_refused)
{
  g_autoptr(Validation) v = validation_new(-1);
  GError *error = NULL;

  ck_assert(!add_rows(v, bad[_i].row, &error));
  ck_assert_msg(strstr(error->message, bad[_i].reason) != NULL, "%s", error->message);
  ck_assert_int_eq(error->code, 2);
  g_clear_error(&error);
}
END_TEST

/* Beside a row that can be read, one that cannot be is skipped for that reason. */
START_TEST(bad_cells_skip_the_row)
{
  g_autoptr(Validation) v = validation_new(-1);
  g_autofree char *rows = g_strconcat(bad[_i].row, ROW("1", "full", "1", "fp16", "2"), NULL);

  ck_assert(add_rows(v, rows, NULL));
  const CaseResult *first = g_ptr_array_index(v->cases, 0), *second = g_ptr_array_index(v->cases, 1);
  ck_assert_ptr_nonnull(strstr(first->skipped, bad[_i].reason));
  ck_assert_ptr_null(second->skipped);
  validation_finish(v);
  ck_assert_int_eq(validation_summary(v, NULL).skipped, 1);
  ck_assert_int_eq(validation_summary(v, NULL).count, 1);
  g_autofree char *text = validation_text(v, TRUE), *csv = validation_csv(v);
  ck_assert_ptr_nonnull(strstr(text, bad[_i].reason));
  ck_assert_ptr_nonnull(csv);
}
END_TEST

#define OF_SOFTWARE(id, software) \
  id ",s,src," software ",GPT,4,1024,4096,16,16,512,1000,gelu,unfused,dgx,8,2,0,2,1,,2,1,1,2,16,none,fp16,,,,9,,,\n"

/* Beside a table of rows stand those that are not in it, and what was simulated for software that no file is of. */
START_TEST(rows_are_named)
{
  g_autoptr(Validation) v = validation_new(-1);

  ck_assert(add_rows(v, OF_SOFTWARE("known", "megatron,megatron-2021") OF_SOFTWARE("typed", "megatron,megatron-2012")
                     OF_SOFTWARE("strange", "colossal,") "x" ROW("1", "full", "2", "fp16", "2"), NULL));
  validation_finish(v);
  g_autofree char *rows = validation_text(v, TRUE), *sums = validation_text(v, FALSE), *json = validation_json(v);
  ck_assert_ptr_nonnull(strstr(rows, "\nskipped  because of\nxa       plan: gpus: 8: expected tensor 2 x pipeline 2 x "
                                     "context 2 x data 2 = 16\n\n"));
  ck_assert_ptr_nonnull(strstr(rows, "\ncase     of software    simulated as\ntyped    megatron-2012  megatron-2020\n"
                                     "strange  colossal       megatron-core\n\n"));
  ck_assert_ptr_null(strstr(sums, "because of"));
  ck_assert_ptr_null(strstr(sums, "simulated as"));
  ck_assert_ptr_nonnull(strstr(json, "\"framework\": \"megatron-2021\""));
  ck_assert_ptr_nonnull(strstr(json, "\"framework\": \"megatron-2020\""));
}
END_TEST

#define PIPED(pp, vpp, tp)                                                                                \
  "a,s,src,megatron,megatron-2021,GPT,4,1024,4096,16,16,512,1000,gelu,unfused,dgx,8," tp ",0," pp "," vpp \
  ",,2,1,1,2,16,none,fp16,,,,9,,,\n"

/* Without a pipeline chunks are one, whether the row says so or not: it leaves nothing open. */
START_TEST(chunks_of_no_pipeline_are_stated)
{
  static const struct {
    const char *row, *defaulted;
  } cases[] = { { PIPED("1", "", "4"), "" }, { PIPED("1", "1", "4"), "" }, { PIPED("2", "", "2"), "vpp" },
                { PIPED("2", "1", "2"), "" }, { PIPED("", "", "4"), "vpp pp" } };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Validation) v = validation_new(-1);
    GError *error = NULL;
    ck_assert_msg(add_rows(v, cases[i].row, &error), "%s", error ? error->message : "");
    ck_assert_str_eq(((const CaseResult *)g_ptr_array_index(v->cases, 0))->defaulted, cases[i].defaulted);
  }
}
END_TEST

static void put(Validation *v, const char *file, const char *sweep, double measured, double predicted, double efficiency)
{
  CaseResult *r = g_new0(CaseResult, 1);

  *r = (CaseResult) { .id = g_strdup("id"), .sweep = g_strdup(sweep), .file = g_strdup(file), .key = g_strdup("k"),
                      .defaulted = g_strdup(""), .measured_s = measured, .predicted_s = predicted, .peak_flops_per_s = 1,
                      .flops_per_gpu = efficiency * measured };
  g_ptr_array_add(v->cases, r);
}

/* Errors +10 %, -20 %, +30 %; efficiencies .4, .5, .6 give a naive efficiency of .5. */
START_TEST(summary_by_hand)
{
  g_autoptr(Validation) v = validation_new(-1);

  put(v, "f", "s", 10, 11, 0.4);
  put(v, "f", "s", 10, 8, 0.5);
  put(v, "g", "s", 10, 13, 0.6);
  validation_finish(v);
  CaseSummary all = validation_summary(v, NULL), f = validation_summary(v, "f");
  ck_assert_double_eq_tol(all.mape_pct, 20, 1e-9);
  ck_assert_double_eq_tol(all.median_ape_pct, 20, 1e-9);
  ck_assert_double_eq_tol(all.max_ape_pct, 30, 1e-9);
  ck_assert_double_eq_tol(all.bias_pct, 20.0 / 3, 1e-9);
  ck_assert_double_eq_tol(all.naive_mape_pct, (20 + 0 + 20) / 3.0, 1e-9);
  ck_assert_int_eq(f.count, 2);
  ck_assert_double_eq_tol(f.mape_pct, 15, 1e-9);
}
END_TEST

/* A row that is alone of its cluster and precision would be compared with itself: it has no naive prediction, and what
 * is said of others leaves it out. */
START_TEST(naive_of_one_row)
{
  for (int others = 0; others < 2; others++) {
    g_autoptr(Validation) v = validation_new(-1);

    for (int i = 0; i <= 2 * others; i++)
      put(v, "f", "s", 10, 11, 0.4 + 0.2 * i);
    CaseResult *first = g_ptr_array_index(v->cases, 0);
    g_free(first->key);
    first->key = g_strdup("alone");
    validation_finish(v);
    CaseSummary all = validation_summary(v, NULL);
    g_autofree char *json = validation_json(v), *csv = validation_csv(v), *text = validation_text(v, TRUE);
    ck_assert_double_eq(first->naive_s, 0);
    ck_assert_int_eq(all.naive_count, 2 * others);
    ck_assert_double_eq_tol(all.naive_mape_pct,
                            others ? 100 * (0.6 / 0.7 + 0.8 / 0.7 - 2 + 2 * (1 - 0.6 / 0.7)) / 2 : 0, 1e-9);
    ck_assert_ptr_nonnull(strstr(json, "\"naive_s\": null"));
    ck_assert_int_eq(strstr(json, "\"naive_mape_pct\": null") != NULL, !others);
    ck_assert_int_eq(strstr(json, "\"naive_median_ape_pct\": null") != NULL, !others);
    ck_assert_ptr_nonnull(strstr(csv, "id,s,10,11,10.000,,"));
    ck_assert_ptr_nonnull(strstr(text, "+10.0              -"));
  }
}
END_TEST

/* A row that took a default counts in all rows, not in the fully stated ones;
 * one of which only memory was measured, in the memory errors alone. */
START_TEST(summary_of_what_is_stated)
{
  g_autoptr(Validation) v = validation_new(-1);

  for (int i = 0; i < 3; i++)
    put(v, "f", "s", 10, 11 + i, 0.5);
  CaseResult *defaulted = g_ptr_array_index(v->cases, 1), *memory = g_ptr_array_index(v->cases, 2);
  g_free(defaulted->defaulted);
  defaulted->defaulted = g_strdup("recompute vocab");
  memory->measured_s = 0;
  memory->measured_memory_bytes = 10;
  memory->predicted_memory_bytes = 9;
  validation_finish(v);
  CaseSummary all = validation_summary(v, NULL), stated = validation_summary(v, CASES_STATED);
  ck_assert_int_eq(all.count, 2);
  ck_assert_int_eq(all.defaulted, 1);
  ck_assert_double_eq_tol(all.mape_pct, 15, 1e-9);
  ck_assert_int_eq(stated.count, 1);
  ck_assert_int_eq(stated.defaulted, 0);
  ck_assert_double_eq_tol(stated.mape_pct, 10, 1e-9);
  ck_assert_int_eq(stated.memory_count, 1);
  ck_assert_double_eq_tol(stated.memory_mape_pct, 10, 1e-9);
  g_autofree char *json = validation_json(v), *csv = validation_csv(v), *text = validation_text(v, TRUE);
  ck_assert_ptr_nonnull(strstr(json, "\"defaulted\": 1"));
  ck_assert_ptr_nonnull(strstr(csv, "recompute vocab\n"));
  ck_assert_ptr_nonnull(strstr(text, "defaulted   1: vocab\n"));
}
END_TEST

/* 13B on 16 devices of 80 GB: fits with selective recomputation of separate attention kernels, not without. */
#define OPEN(sp, recompute) \
  "a,s,src,megatron,megatron-2022,GPT,40,5120,20480,40,40,4096,51200,gelu,unfused,dgx,16,2," sp ",1,1,,8,1,1,2,16," \
  recompute ",fp16,,,,9,,,\n"

START_TEST(open_runs_fit)
{
  g_autoptr(Validation) v = validation_new(-1);
  const CaseResult *r[3];

  ck_assert(add_rows(v, OPEN("", "") OPEN("1", "selective") OPEN("1", "none"), NULL));
  for (int i = 0; i < 3; i++)
    r[i] = g_ptr_array_index(v->cases, i);
  ck_assert_str_eq(r[0]->defaulted, "sp recompute");
  ck_assert_double_eq(r[0]->predicted_memory_bytes, r[1]->predicted_memory_bytes);
  ck_assert_double_eq(r[0]->predicted_s, r[1]->predicted_s);
  ck_assert_double_gt(r[2]->predicted_memory_bytes, 80 * 1073741824.0); /* stated: said as it is */
}
END_TEST

#define MICRO(micro) \
  "a,s,src,megatron,megatron-2021,GPT,4,1024,4096,16,16,512,1000,gelu,unfused,dgx,8,2,0,1,1,,4,1,0," micro \
  ",64,none,fp16,,,,9,,,\n"

/* An open micro-batch is the fastest of its doublings. */
/* What is only known to have run, or not to have fitted, is not made lighter until it does, has no error, and counts in
 * how often that is predicted. */
START_TEST(outcomes_are_predicted)
{
#define RUN(blocks, outcome)                                                                                       \
  "a,s,src,megatron,megatron-core,GPT," blocks ",12288,49152,96,96,2048,51200,gelu,flash,dgx,8,8,1,1,1,,1,1,1,1,"   \
  "64,,bf16,,,,,,,," outcome "\n"
  g_autoptr(Validation) v = validation_new(-1);
  g_autofree char *columns = g_strconcat(header, NULL);
  g_autofree char *folder = test_directory(), *path = g_build_filename(folder, "cases.csv", NULL);
  GError *error = NULL;

  columns[strlen(columns) - 1] = '\0';
  g_autofree char *text = g_strconcat(columns, ",outcome\n", RUN("2", "ran"), RUN("2", "oom"), RUN("96", "oom"),
                                      RUN("96", "ran"), RUN("96", "oom"), RUN("2", "broke"), RUN("2", ""), NULL);
  ck_assert(files_write(path, text, strlen(text), NULL));
  ck_assert(validation_add_file(v, path, &error));
  remove(path);
  remove(folder);
  OutcomeSummary ran = validation_outcomes(v, OUTCOME_RAN), oom = validation_outcomes(v, OUTCOME_OOM);
  ck_assert(ran.count == 2 && ran.right == 1 && oom.count == 3 && oom.right == 2);
  ck_assert(ran.right_kept == ran.right && oom.right_kept == oom.right); /* no margin is known */

  /* just within the card: fits, but not with the margin */
  g_autoptr(Accuracy) accuracy = accuracy_load(NULL);
  CaseResult *first = g_ptr_array_index(v->cases, 0), *second = g_ptr_array_index(v->cases, 1);
  v->accuracy = accuracy;
  first->memory_need = second->memory_need = 0.999;
  ran = validation_outcomes(v, OUTCOME_RAN);
  oom = validation_outcomes(v, OUTCOME_OOM);
  ck_assert(ran.right == 1 && ran.right_kept == 0 && oom.right == 2 && oom.right_kept == 3);
  v->accuracy = NULL;
  const CaseResult *odd = g_ptr_array_index(v->cases, 5), *blank = g_ptr_array_index(v->cases, 6);
  ck_assert(g_str_has_suffix(odd->skipped, "line 7: outcome: \"broke\": expected ran, oom or nothing"));
  ck_assert_str_eq(blank->skipped, "blank iteration_s");
  ck_assert_int_eq(validation_summary(v, NULL).count, 0);
}
END_TEST

START_TEST(open_micro_batches_are_tuned)
{
  g_autoptr(Validation) v = validation_new(-1);
  const CaseResult *r[5];

  ck_assert(add_rows(v, MICRO("") MICRO("1") MICRO("4") MICRO("8") MICRO("16"), NULL));
  for (int i = 0; i < 5; i++)
    r[i] = g_ptr_array_index(v->cases, i);
  ck_assert_str_eq(r[0]->defaulted, "micro_batch");
  ck_assert_double_lt(r[0]->predicted_s, r[1]->predicted_s);
  for (int i = 2; i < 5; i++)
    ck_assert_double_le(r[0]->predicted_s, r[i]->predicted_s);
}
END_TEST

#define CHUNKS(generation, vpp, micro, note)                                                                          \
  "a,s,src,megatron," generation ",GPT,24,4096,16384,32,32,2048,51200,gelu,flash,dgx,32,2,1,4," vpp ",,4,1,1," micro \
  ",64,none,bf16,,,,9,,," note "\n"
#define CHUNKED(generation, micro)                                                                         \
  CHUNKS(generation, "1", micro, "") CHUNKS(generation, "2", micro, "") CHUNKS(generation, "3", micro, "") \
  CHUNKS(generation, "6", micro, "")

/* Open interleaving is the fastest that cuts stages evenly, with the fastest micro-batch if that is open too; of
 * software that says its own, or of a row that states it, it is none. */
START_TEST(open_chunks_are_tuned)
{
  static const struct {
    const char *rows, *defaulted;
    gboolean tuned;
  } open[] = {
    { CHUNKS("megatron-core-2024", "", "1", "") CHUNKED("megatron-core-2024", "1"), "vpp", TRUE },
    { CHUNKS("megatron-core-2024", "1", "1", "micro-batch and interleave not given") CHUNKED("megatron-core-2024", "1"),
      "vpp", TRUE },
    { CHUNKS("megatron-core-2024", "", "", "") CHUNKED("megatron-core-2024", "1") CHUNKED("megatron-core-2024", "2")
      CHUNKED("megatron-core-2024", "4"), "vpp micro_batch", TRUE },
    { CHUNKS("megatron-core-2024", "1", "1", "") CHUNKED("megatron-core-2024", "1"), "", FALSE },
    { CHUNKS("nemo-2025-02", "", "1", "") CHUNKED("nemo-2025-02", "1"), "vpp", FALSE },
    { CHUNKS("nemo-2025-02", "1", "1", "interleave not given") CHUNKED("nemo-2025-02", "1"), "", FALSE },
  };
  g_autoptr(Validation) v = validation_new(-1);
  double fastest = INFINITY;

  ck_assert(add_rows(v, open[_i].rows, NULL));
  const CaseResult *r = g_ptr_array_index(v->cases, 0), *none = g_ptr_array_index(v->cases, 1);
  for (guint i = 1; i < v->cases->len; i++)
    fastest = fmin(fastest, ((CaseResult *)g_ptr_array_index(v->cases, i))->predicted_s);
  ck_assert_str_eq(r->defaulted, open[_i].defaulted);
  ck_assert_double_lt(fastest, none->predicted_s);
  ck_assert_double_eq(r->predicted_s, open[_i].tuned ? fastest : none->predicted_s);
}
END_TEST

#define JAX(generation, layers, hidden, gpus, shards, note) \
  "a,s,src,megatron," generation ",GPT," layers "," hidden ",,32,32,2048,51200,gelu,flash,dgx," gpus ",1,,1,1,," gpus   \
  ",1,3,4,512,,bf16," shards ",,,9,,," note "\n"
#define JAX_5B(generation, gpus, shards, note) JAX(generation, "24", "4096", gpus, shards, note)

/* FSDP by meshes: over a node, over as many ranks as the note says, or as a run needs to fit. */
START_TEST(meshes_shard)
{
  static const struct {
    const char *open, *stated;
  } rows[] = {
    { JAX_5B("nemo-2024-11", "32", "", "PaXML (JAX)"), JAX_5B("paxml-2024-03", "32", "8", "") },
    { JAX_5B("nemo-2024-11", "32", "", "JAX FSDP=16; PaXML (JAX)"), JAX_5B("paxml-2024-03", "32", "16", "") },
    { JAX_5B("nemo-2024-11", "32", "32", "JAX FSDP=16; PaXML (JAX)"), JAX_5B("paxml-2024-03", "32", "32", "") },
    { JAX_5B("nemo-2024-11", "8", "", "PaXML (JAX)"), JAX_5B("paxml-2024-03", "8", "8", "") },
    { JAX("nemo-2024-11", "96", "12288", "128", "", "PaXML (JAX)"), JAX("paxml-2024-03", "96", "12288", "128", "128", "") },
  };
  g_autoptr(Validation) v = validation_new(-1);
  g_autofree char *both = g_strconcat(rows[_i].open, rows[_i].stated, JAX_5B("paxml-2024-03", "32", "4", ""), NULL);

  ck_assert(add_rows(v, both, NULL));
  const CaseResult *open = g_ptr_array_index(v->cases, 0), *stated = g_ptr_array_index(v->cases, 1);
  const CaseResult *other = g_ptr_array_index(v->cases, 2);
  ck_assert_ptr_null(open->skipped);
  ck_assert_double_eq(open->predicted_s, stated->predicted_s);
  ck_assert_double_eq(open->predicted_memory_bytes, stated->predicted_memory_bytes);
  ck_assert_double_ne(open->predicted_memory_bytes, other->predicted_memory_bytes);
  gboolean said = strstr(open->defaulted, "shard_group") != NULL;
  ck_assert_int_eq(said, _i == 0 || _i == 4);
}
END_TEST

/* Software that recomputes a share of whole blocks: as few as fit. */
#define BLOCKS(generation, recompute) \
  "a,s,src,fsdp," generation ",L,40,5120,13824,40,40,4096,32000,swiglu,flash,dgx,64,1,,1,1,,64,1,3,4,256," recompute \
  ",bf16,,,,9,,,\n"

START_TEST(a_share_of_blocks_is_recomputed)
{
  g_autoptr(Validation) v = validation_new(-1);
  const CaseResult *r[3];

  ck_assert(add_rows(v, BLOCKS("fsdp-2024", "selective") BLOCKS("fsdp-2024", "none") BLOCKS("fsdp-2024", "full"), NULL));
  for (int i = 0; i < 3; i++)
    r[i] = g_ptr_array_index(v->cases, i);
  ck_assert_double_gt(r[1]->predicted_memory_bytes, 80 * 1073741824.0);
  ck_assert_double_le(r[0]->predicted_memory_bytes, 80 * 1073741824.0);
  ck_assert(r[0]->predicted_s > r[1]->predicted_s && r[0]->predicted_s < r[2]->predicted_s);
}
END_TEST

/* Five runs; the one predicted fastest is measured at 12 of a best 10: 20 % regret. */
START_TEST(sweep_by_hand)
{
  g_autoptr(Validation) v = validation_new(-1);
  const double measured[] = { 10, 12, 14, 16, 18 }, predicted[] = { 11, 10, 15, 16, 17 };

  for (int i = 0; i < 5; i++)
    put(v, "f", "s", measured[i], predicted[i], 0.5);
  put(v, "f", "short", 1, 1, 0.5);
  g_autoptr(GArray) sweeps = validation_sweeps(v);
  ck_assert_int_eq(sweeps->len, 1);
  ck_assert_double_eq_tol(g_array_index(sweeps, SweepSummary, 0).spearman, 0.9, 1e-9);
  ck_assert_double_eq_tol(g_array_index(sweeps, SweepSummary, 0).top1_regret_pct, 20, 1e-9);
}
END_TEST

/* Of two runs of the plan predicted fastest, measured at 10 and 14 of a best 10, whichever comes first: 20 %. */
START_TEST(sweep_with_a_plan_twice)
{
  const double measured[2][5] = { { 10, 14, 15, 16, 17 }, { 14, 10, 15, 16, 17 } }, predicted[] = { 9, 9, 15, 16, 17 };

  for (int order = 0; order < 2; order++) {
    g_autoptr(Validation) v = validation_new(-1);
    for (int i = 0; i < 5; i++)
      put(v, "f", "s", measured[order][i], predicted[i], 0.5);
    g_autoptr(GArray) sweeps = validation_sweeps(v);
    ck_assert_double_eq_tol(g_array_index(sweeps, SweepSummary, 0).top1_regret_pct, 20, 1e-9);
  }
}
END_TEST

/* Rows that are predicted alike have no order. */
START_TEST(sweep_without_order)
{
  g_autoptr(Validation) v = validation_new(-1);

  for (int i = 0; i < 5; i++)
    put(v, "f", "s", 10 + i, 11, 0.5);
  g_autofree char *json = validation_json(v), *text = validation_text(v, FALSE);
  ck_assert_ptr_nonnull(strstr(json, "\"spearman\": null"));
  ck_assert_ptr_nonnull(strstr(text, "  -  "));
}
END_TEST

START_TEST(lost_accuracy_is_noticed)
{
  g_autoptr(Validation) v = validation_new(-1);
  g_autofree char *folder = test_directory(), *path = g_build_filename(folder, "baseline.csv", NULL);
  GError *error = NULL;

  put(v, "f", "s", 10, 11, 0.5);
  g_autofree char *text = validation_baseline(v);
  ck_assert(files_write(path, text, strlen(text), NULL));
  ck_assert(validation_check(v, path, &error));
  Validation *other = validation_new(-1);
  put(other, "f", "s", 10, 11.2, 0.5);
  ck_assert(!validation_check(other, path, &error));
  test_error(&error, 4, "f: mean error in percent: 12: expected no worse than 10");
  validation_free(other);
  other = validation_new(-1);
  ck_assert(!validation_check(other, path, &error));
  test_error(&error, 4, "f: rows simulated: 0: expected no worse than 1");
  validation_free(other);
  remove(path);
  remove(folder);
}
END_TEST

#define SHARDED_ROW(generation, mlp)                                                                                   \
  "a,s,src,fsdp," generation ",L,4,1024,4096,16,16,512,1000," mlp ",flash,dgx-h100,8,1,0,1,1,,8,1,3,2,16,none,bf16"     \
  ",,,,0.5,,,\n"

/* Tensor parallelism over two nodes. */
#define TWO_NODES                                                                                                      \
  "b,s,src,megatron,megatron-2021,L,4,1024,4096,16,16,512,1000,gelu,unfused,a100-80gb-ib800,16,16,0,1,1,,1,1,0,2,16,"  \
  "none,fp16,,,,0.5,,,\n"

/* Leaving an effect out makes a run no slower, and each shows in one of these. */
START_TEST(ablations_leave_something_out)
{
  static const char rows[] = ROW("1", "full", "1", "fp16", "2") SHARDED_ROW("torchtitan-2024-eager", "swiglu")
      SHARDED_ROW("fsdp-2023-11", "gelu") TWO_NODES;
  g_autoptr(Validation) whole = validation_new(-1);

  ck_assert(add_rows(whole, rows, NULL));
  ck_assert_int_eq(whole->cases->len, 4);
  for (int i = 0; ablation_name(i); i++) {
    g_autoptr(Validation) v = validation_new(i);
    gboolean changed = FALSE;
    ck_assert(add_rows(v, rows, NULL));
    for (guint c = 0; c < whole->cases->len; c++) {
      double left = ((CaseResult *)g_ptr_array_index(v->cases, c))->predicted_s;
      double all = ((CaseResult *)g_ptr_array_index(whole->cases, c))->predicted_s;
      ck_assert_double_le(left, all * (1 + 1e-9));
      changed |= left < all;
    }
    ck_assert_msg(changed, "%s", ablation_name(i));
  }
}
END_TEST

TEST_LOOPS("validate", { rows_are_read, G_N_ELEMENTS(reads) }, { bad_cells_are_refused, G_N_ELEMENTS(bad) },
           { bad_cells_skip_the_row, G_N_ELEMENTS(bad) }, { rows_are_named }, { open_runs_fit },
           { outcomes_are_predicted }, { open_micro_batches_are_tuned }, { meshes_shard, 5 },
           { open_chunks_are_tuned, 6 }, { a_share_of_blocks_is_recomputed }, { summary_of_what_is_stated },
           { chunks_of_no_pipeline_are_stated }, { summary_by_hand }, { naive_of_one_row }, { sweep_by_hand },
           { sweep_with_a_plan_twice }, { sweep_without_order }, { lost_accuracy_is_noticed },
           { ablations_leave_something_out })
