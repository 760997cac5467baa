#include "main.h"

#include "accuracy/accuracy.h"
#include "validate/residuals.h"

#include <math.h>
#include <stdio.h>

START_TEST(scale_of_a_run)
{
  const RunKind dense = { .exposed = 0.2 }, sparse = { .exposed = 0.2, .experts = TRUE };

  ck_assert_double_eq_tol(accuracy_scale(&dense, FALSE, FALSE), 0.065, 1e-12);
  ck_assert_double_eq_tol(accuracy_scale(&sparse, FALSE, FALSE), 0.18, 1e-12);
  ck_assert_double_eq_tol(accuracy_scale(&dense, TRUE, FALSE), 0.195, 1e-12);
  ck_assert_double_eq_tol(accuracy_scale(&dense, FALSE, TRUE), 0.078, 1e-12);
}
END_TEST

static GArray *ratios_new(int n, double least, double step, double weight)
{
  GArray *ratios = g_array_new(FALSE, FALSE, sizeof(RatioWeight));

  for (int i = 0; i < n; i++) {
    RatioWeight one = { least + step * i, weight };
    g_array_append_val(ratios, one);
  }
  return ratios;
}

/* With the margin kept free no more than a tenth of the ratios are too large; with a little less, more are. */
START_TEST(margin_is_the_smallest)
{
  for (int n = 10; n <= 100; n++) {
    g_autoptr(GArray) ratios = ratios_new(n, 0.8 + 0.4 / n, 0.4 / n, 0.3);
    double margin = accuracy_margin_of(ratios);
    ck_assert_double_ge(accuracy_share(ratios, 1 / (1 - margin)), 0.9 - 1e-9);
    ck_assert_double_lt(accuracy_share(ratios, 1 / (1 - (margin - 0.0011))), 0.9);
  }
}
END_TEST

START_TEST(no_margin_where_predictions_are_high)
{
  g_autoptr(GArray) ratios = ratios_new(20, 0.5, 0.02, 1);

  ck_assert_double_eq(accuracy_margin_of(ratios), 0);
}
END_TEST

/* One publisher's 60 runs below count no more than another's three above; two publishers of an engine count 2 of 7. */
START_TEST(publishers_count_alike)
{
  g_autoptr(GArray) own = ratios_new(60, 0.9, 1e-4, 1.0 / 60), high = ratios_new(3, 1.25, 0, 1.0 / 3);
  g_autoptr(GArray) all = ratios_new(1000, 1, 0, 1.0 / 250);

  const double n_own = 4 / (1.0 / 60 + 1.0 / 3), n = 49 / (1.0 / 60 + 1.0 / 3 + 25.0 / 1000);
  g_array_append_vals(own, high->data, high->len);
  ck_assert_double_eq_tol(accuracy_share(own, 1), 0.5 * n_own / (n_own + 1), 1e-9);
  ck_assert_double_eq(accuracy_margin_of(own), 0.2);
  g_autoptr(GArray) mixed = accuracy_mixed(own, all);
  ck_assert_double_eq_tol(accuracy_share(mixed, 1), 6.0 / 7 * n / (n + 1), 1e-9);
  ck_assert_double_eq_tol(accuracy_share(mixed, 0.95), 1.0 / 7 * n / (n + 1), 1e-9);
  ck_assert_double_eq(accuracy_margin_of(mixed), 0.2);
  for (guint i = 60; i < own->len; i++)
    g_array_index(own, RatioWeight, i).weight /= 2;
  g_autoptr(GArray) rarer = accuracy_mixed(own, all);
  ck_assert_double_eq(accuracy_margin_of(rarer), 0); /* half a publisher of 6.5 */
}
END_TEST

START_TEST(weighted_quantiles)
{
  const double values[] = { 5, 1, 3, 2, 4 }, weights[] = { 1, 1, 1, 1, 6 };

  ck_assert_double_eq(residuals_quantile(values, NULL, 5, 0.5), 3);
  ck_assert_double_eq(residuals_quantile(values, NULL, 5, 0.2), 1);
  ck_assert_double_eq(residuals_quantile(values, NULL, 5, 1), 5);
  ck_assert_double_eq(residuals_quantile(values, weights, 5, 0.3), 3);
  ck_assert_double_eq(residuals_quantile(values, weights, 5, 0.31), 4);
}
END_TEST

static RunKind small_kind(void)
{
  RunKind kind = { .names = { [KIND_DEVICE] = "a", [KIND_FORMAT] = "bf16", [KIND_ENGINE] = "megatron" },
                   .exposed = 0.1, .mfu = 0.5 };

  for (int i = 0; i < KIND_SIZES; i++)
    kind.sizes[i] = 8;
  return kind;
}

static Domain *small_domain(void)
{
  Domain *domain = domain_new();
  RunKind kind = small_kind();

  for (int i = 0; i < DOMAIN_RUNS_MIN; i++)
    domain_add(domain, &kind);
  kind.names[KIND_FORMAT] = "fp4";
  domain_add(domain, &kind);
  return domain;
}

START_TEST(what_is_outside)
{
  g_autoptr(Domain) domain = small_domain();
  RunKind kind = small_kind();

  ck_assert_ptr_null(domain_outside(domain, &kind));
  kind.names[KIND_FORMAT] = "fp4";
  kind.names[KIND_DEVICE] = "b";
  kind.names[KIND_SCHEDULE] = "zb-v";
  kind.sizes[KIND_GPUS] = 16;
  kind.sizes[KIND_TP] = 16;
  kind.sizes[KIND_PARAMS] = 8e9;
  g_autofree char *text = domain_outside(domain, &kind);
  ck_assert_str_eq(text, "device b (no published run), format fp4 (1 published run), schedule zb-v (no published run), "
                         "16 GPUs (8 at most in published runs), tp 16 (8 at most in published runs), "
                         "8.00 G parameters (8 at most in published runs)");
}
END_TEST

/* Of the same device, format and family, of which there are enough runs; the best of them counts. */
START_TEST(mfu_is_outside)
{
  g_autoptr(Domain) domain = small_domain();
  RunKind kind = small_kind();

  kind.mfu = 0.54;
  domain_add(domain, &kind);
  kind.mfu = 0.1;
  domain_add(domain, &kind);
  kind.mfu = 0.54;
  ck_assert_ptr_null(domain_outside(domain, &kind));
  kind.mfu = 0.655;
  g_autofree char *text = domain_outside(domain, &kind);
  ck_assert_str_eq(text, "MFU without masked work 65.5 % (54.0 % at most in 12 published runs of megatron in bf16 on a)");

  kind.experts = TRUE; /* of which there are no runs, then some */
  ck_assert_ptr_null(domain_outside(domain, &kind));
  kind.mfu = 0.3;
  for (int i = 0; i < DOMAIN_RUNS_MIN; i++)
    domain_add(domain, &kind);
  kind.mfu = 0.5;
  g_autofree char *experts = domain_outside(domain, &kind);
  ck_assert_str_eq(experts, "MFU without masked work 50.0 % (30.0 % at most in 10 published runs of megatron MoE in "
                            "bf16 on a)");
  kind.names[KIND_FORMAT] = "fp4";
  g_autofree char *few = domain_outside(domain, &kind);
  ck_assert_str_eq(few, "format fp4 (1 published run)");
  kind.names[KIND_FORMAT] = "bf16";
  kind.names[KIND_ENGINE] = "fsdp";
  g_autofree char *others = domain_outside(domain, &kind);
  ck_assert_str_eq(others, "software family fsdp (no published run)");
}
END_TEST

static const struct {
  const char *mfu, *said;
} limits[] = {
  { "3", "domain.json: mfu: 3: expected an object" },
  { "{\"a\": {\"runs\": 0, \"most\": 0.5}}", "domain.json: mfu.a.runs: 0: expected an integer from 1 to 1000000000" },
  { "{\"a\": {\"runs\": 1, \"most\": 2}}", "domain.json: mfu.a.most: 2: expected a number from 0 to 1" },
  { "{\"a\": {\"runs\": 1}}", "domain.json: mfu.a.most: missing: expected a number from 0 to 1" },
};

START_TEST(bad_limits_are_refused)
{
  g_autoptr(Domain) domain = domain_new();
  g_autoptr(GString) text = g_string_new(NULL);
  GError *error = NULL;
  JsonWriter w;

  json_writer_init(&w, text);
  json_open(&w, NULL, '{');
  domain_write(domain, &w);
  json_close(&w, '}');
  char *at = strstr(text->str, "\"mfu\"");
  ck_assert_ptr_nonnull(at);
  g_autofree char *head = g_strndup(text->str, at - text->str);
  g_autofree char *bad = g_strdup_printf("%s\"mfu\": %s}", head, limits[_i].mfu);
  g_autoptr(JsonDoc) doc = json_parse(bad, strlen(bad), "domain.json", &error);
  ck_assert_ptr_nonnull(doc);
  ck_assert_ptr_null(domain_read(doc, json_root(doc), &error));
  ck_assert_str_eq(error->message, limits[_i].said);
  g_error_free(error);
}
END_TEST

START_TEST(domain_is_read_as_written)
{
  g_autoptr(Domain) domain = small_domain();
  g_autoptr(GString) text = g_string_new(NULL), again = g_string_new(NULL);
  GError *error = NULL;
  JsonWriter w;

  json_writer_init(&w, text);
  json_open(&w, NULL, '{');
  domain_write(domain, &w);
  json_close(&w, '}');
  g_autoptr(JsonDoc) doc = json_parse(text->str, text->len, "domain.json", &error);
  g_autoptr(Domain) read = domain_read(doc, json_root(doc), &error);
  ck_assert_ptr_nonnull(read);
  json_writer_init(&w, again);
  json_open(&w, NULL, '{');
  domain_write(read, &w);
  json_close(&w, '}');
  ck_assert_str_eq(again->str, text->str);
}
END_TEST

/* The project's own files: a plan like its runs, and one that nobody ran. */
START_TEST(estimate_of_a_run)
{
  GError *error = NULL;
  g_autoptr(Accuracy) a = accuracy_load(&error);
  RunKind kind = { .names = { [KIND_DEVICE] = "h100-sxm5-80gb", [KIND_FORMAT] = "bf16", [KIND_ENGINE] = "megatron" },
                   .exposed = 0.1 };

  ck_assert_ptr_nonnull(a);
  Estimate e = accuracy_estimate_kind(a, &kind, FALSE, 10, 0.75);
  Estimate full = accuracy_estimate_kind(a, &kind, FALSE, 10, 1);
  ck_assert_ptr_null(e.outside);
  ck_assert(e.low_s > 8 && e.low_s < 10 && e.high_s > 10 && e.high_s < 13);
  ck_assert(e.fit_probability > 0.95 && e.fit_probability < 1);
  ck_assert(full.fit_probability > 0 && full.fit_probability < 0.6); /* two of 78 runs needed less than predicted */
  double margin = accuracy_margin(a, "megatron");
  ck_assert(margin > 0 && margin < 0.3);
  Estimate at = accuracy_estimate_kind(a, &kind, FALSE, 10, 1 - margin);
  ck_assert_double_ge(at.fit_probability, 0.9);
  kind.sizes[KIND_GPUS] = 1e6;
  Estimate beyond = accuracy_estimate_kind(a, &kind, FALSE, 10, 0.75);
  ck_assert_str_eq(beyond.outside, "1000000 GPUs (6144 at most in published runs)");
  ck_assert_double_gt(beyond.high_s, e.high_s);
  ck_assert_double_lt(beyond.low_s, e.low_s);
}
END_TEST

TEST_LOOPS("accuracy", { scale_of_a_run }, { margin_is_the_smallest }, { no_margin_where_predictions_are_high },
           { publishers_count_alike },
           { weighted_quantiles }, { what_is_outside }, { mfu_is_outside },
           { bad_limits_are_refused, G_N_ELEMENTS(limits) }, { domain_is_read_as_written }, { estimate_of_a_run })
