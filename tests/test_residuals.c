/* Margins of memory from runs that publish what was allocated, what was reserved, or both. */
#include "main.h"
#include "base/files.h"
#include "validate/residuals.h"

#include <stdio.h>
#include <string.h>

#define GIB 1073741824.0

/* Runs of two publishers that allocated what was predicted; `reserved` of it is a tenth more where they say so. */
static char *memory_of(int runs, gboolean reserved)
{
  g_autoptr(GPtrArray) rows = g_ptr_array_new();
  g_autofree CaseResult *results = g_new0(CaseResult, runs);
  GString *text = g_string_new(NULL);
  JsonWriter w;

  for (int i = 0; i < runs; i++) {
    results[i] = (CaseResult) { .publisher = i % 2 ? "a" : "b", .memory = MEMORY_ALLOCATED, .memory_need = 0.5,
                                .measured_memory_bytes = 40 * GIB, .predicted_memory_bytes = 40 * GIB,
                                .measured_reserved_bytes = reserved ? 44 * GIB : 0,
                                .predicted_reserved_bytes = 40 * GIB };
    results[i].kind.names[KIND_ENGINE] = "megatron";
    g_ptr_array_add(rows, &results[i]);
  }
  json_writer_init(&w, text);
  json_open(&w, NULL, '{');
  residuals_write_memory(rows, &w);
  json_close(&w, '}');
  return g_string_free(text, FALSE);
}

/* The k-th number behind a key. */
static double number(const char *text, const char *key, int k)
{
  g_autofree char *quoted = g_strdup_printf("\"%s\":", key);
  const char *at = text;

  for (int i = 0; i <= k; i++) {
    at = strstr(at, quoted);
    ck_assert_ptr_nonnull(at);
    at += strlen(quoted);
  }
  return g_ascii_strtod(at, NULL);
}

/* 1 - 1 / 1.1 of the card, for all engines and for this one; the figure as it is published needs none. */
START_TEST(what_is_reserved_needs_room)
{
  g_autofree char *text = memory_of(20, TRUE), *without = memory_of(20, FALSE);

  ck_assert_double_eq_tol(number(text, "margin", 0), 0.091, 1e-9);
  ck_assert_double_eq_tol(number(text, "margin", 1), 0.091, 1e-9);
  ck_assert_double_eq(number(text, "margin", 2), 0);
  ck_assert_double_eq(number(text, "most", 0), 1);
  ck_assert_double_eq(number(text, "exceeding_pct_without_margin", 0), 100);
  for (int i = 0; i < 3; i++)
    ck_assert_double_eq(number(without, "margin", i), 0);
  ck_assert_double_eq(number(without, "exceeding_pct_without_margin", 0), 0);
}
END_TEST

#define HEADER                                                                                                         \
  "id,sweep,source,framework,generation,model,layers,hidden,ffn_hidden,heads,kv_heads,seq,vocab,mlp,attention,cluster," \
  "gpus,tp,sp,pp,vpp,schedule,dp,cp,zero,micro_batch,global_batch,recompute,precision,iteration_s,memory_gib,"         \
  "memory_kind,memory_reserved_gib\n"
#define ROW(kind, reserved)                                                                                            \
  "a,s,src,megatron,megatron-core,GPT,4,1024,4096,16,16,512,1000,gelu,flash,dgx,8,2,0,2,1,,2,1,1,2,16,full,bf16,0.5,3," \
  kind "," reserved "\n"
#define ALLOCATED "max_allocated"

/* What is reserved lies between what is allocated and what the driver counts. */
START_TEST(reserved_memory_is_read)
{
  g_autoptr(Validation) v = validation_new(-1);
  g_autofree char *folder = test_directory(), *path = g_build_filename(folder, "cases.csv", NULL);
  const char *text = HEADER ROW(ALLOCATED, "4") ROW(ALLOCATED, " ") ROW(ALLOCATED, "-1") ROW(ALLOCATED, "0")
      ROW(ALLOCATED, "2.9") ROW("nvidia-smi", "4");

  ck_assert(files_write(path, text, strlen(text), NULL));
  ck_assert(validation_add_file(v, path, NULL));
  remove(path);
  remove(folder);
  const CaseResult *r = g_ptr_array_index(v->cases, 0), *blank = g_ptr_array_index(v->cases, 1);
  ck_assert_double_eq(r->measured_reserved_bytes, 4 * GIB);
  ck_assert_double_gt(r->predicted_reserved_bytes, r->predicted_memory_bytes);
  ck_assert_double_lt(r->predicted_reserved_bytes, r->memory_need * 80 * GIB);
  ck_assert_double_eq(blank->measured_reserved_bytes, 0);
  for (int i = 2; i < 6; i++) {
    const CaseResult *bad = g_ptr_array_index(v->cases, i);
    const char *expected = i < 4 ? "expected a number above 0" : "expected no less than memory_gib";
    g_autofree char *at = g_strdup_printf("line %d: memory_reserved_gib: \"", i + 2);
    ck_assert_msg(bad->skipped && strstr(bad->skipped, at) && strstr(bad->skipped, expected), "%s", bad->skipped);
  }
}
END_TEST

TEST_LOOPS("residuals", { what_is_reserved_needs_room }, { reserved_memory_is_read })
