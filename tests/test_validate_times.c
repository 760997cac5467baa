/* Measured times, and what stands where there are none. */
#include "base/json.h"
#include "case_rows.h"

#include <string.h>

static const char header[] = CASE_COLUMNS ",tokens_per_s_per_gpu,tflops_per_gpu\n";

/* 8 GPUs and 16 sequences of 512 tokens a step: 1024 tokens each. */
#define ROW(seq, seconds, rates)                                                                                       \
  "a,s,src,megatron,megatron-2021,GPT,4,1024,4096,16,16," seq ",1000,gelu,unfused,dgx,8,2,0,2,1,,2,1,1,2,16,none,fp16,,,," \
  seconds ",,,," rates "\n"

typedef struct {
  const char *row;
  double measured_s;   /* 0: none */
  const char *skipped; /* NULL: simulated */
} Timed;

static const Timed rows[] = {
  { ROW("512", "0.5", "2048,100"), 0.5, NULL }, /* what was timed goes before what follows */
  { ROW("512", "0.5", "about 2k,"), 0.5, NULL },
  { ROW("512", "", "2048,"), 0.5, NULL },
  { ROW("512", "", "512,100"), 2, NULL },
  { ROW("512", "", ",100"), 0, "blank iteration_s" },
  { ROW("", "", "2048,"), 0, "blank seq" },
};

START_TEST(rates_are_times)
{
  g_autoptr(Validation) v = validation_new(-1);
  GError *error = NULL;

  ck_assert_msg(case_rows_add(v, header, rows[_i].row, &error), "%s", error ? error->message : "");
  const CaseResult *r = g_ptr_array_index(v->cases, 0);
  ck_assert_double_eq_tol(r->measured_s, rows[_i].measured_s, 1e-12);
  ck_assert_str_eq(r->skipped ? r->skipped : "", rows[_i].skipped ? rows[_i].skipped : "");
  ck_assert_int_eq(case_is_timed(r), !rows[_i].skipped);
}
END_TEST

START_TEST(wrong_rates_are_refused)
{
  static const char *const wrong[] = { "x", "0", "-5", "1e300" };
  g_autoptr(Validation) v = validation_new(-1);
  g_autofree char *row = g_strdup_printf(ROW("512", "", "%s,"), wrong[_i]);
  GError *error = NULL;

  ck_assert(!case_rows_add(v, header, row, &error));
  ck_assert_msg(strstr(error->message, "2: tokens_per_s_per_gpu: \"") != NULL, "%s", error->message);
  ck_assert_int_eq(error->code, 2);
  g_clear_error(&error);
}
END_TEST

static void check_null(const cJSON *errors, gboolean null)
{
  static const char *const keys[] = { "mape_pct", "median_ape_pct", "max_ape_pct", "bias_pct", "naive_mape_pct",
                                      "naive_median_ape_pct" };

  for (gsize i = 0; i < G_N_ELEMENTS(keys); i++) {
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(errors, keys[i]);
    gboolean alone = g_str_has_prefix(keys[i], "naive"); /* which nothing stands beside */
    ck_assert_msg(null || alone ? cJSON_IsNull(found) : cJSON_IsNumber(found), "%s", keys[i]);
  }
  ck_assert(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(errors, "memory_mape_pct")));
}

/* Of no row there is no error, not one of 0. */
START_TEST(no_rows_have_no_errors)
{
  for (int timed = 0; timed < 2; timed++) {
    g_autoptr(Validation) v = validation_new(-1);
    GError *error = NULL;

    ck_assert(case_rows_add(v, header, timed ? ROW("512", "0.5", ",") : ROW("512", "", ","), &error));
    validation_finish(v);
    g_autofree char *text = validation_json(v);
    g_autoptr(JsonDoc) doc = json_parse(text, strlen(text), "json", &error);
    ck_assert_ptr_nonnull(doc);
    check_null(json_get(json_root(doc), "summary"), !timed);
  }
}
END_TEST

START_TEST(a_row_must_run)
{
  g_autoptr(Validation) none = validation_new(-1), v = validation_new(-1);
  GError *error = NULL;

  ck_assert(!validation_check_runs(none, &error));
  ck_assert_int_eq(error->code, 2);
  g_clear_error(&error);
  ck_assert(case_rows_add(none, header, "", &error));
  ck_assert(!validation_check_runs(none, &error));
  ck_assert_msg(g_str_has_suffix(error->message, "/cases.csv: no row: expected one that can be simulated"), "%s",
                error->message);
  g_clear_error(&error);
  ck_assert(case_rows_add(v, header, ROW("512", "", ",") ROW("", "1", ","), &error));
  ck_assert(!validation_check_runs(v, &error));
  ck_assert_msg(g_str_has_suffix(error->message, "/cases.csv: a: skipped, as all rows: blank iteration_s: expected one "
                                                 "that can be simulated"), "%s", error->message);
  ck_assert_int_eq(error->code, 2);
  g_clear_error(&error);
  ck_assert(case_rows_add(v, header, ROW("512", "1", ","), &error));
  ck_assert(validation_check_runs(v, &error));
}
END_TEST

TEST_LOOPS("validate_times", { rates_are_times, G_N_ELEMENTS(rows) }, { wrong_rates_are_refused, 4 },
           { no_rows_have_no_errors }, { a_row_must_run })
