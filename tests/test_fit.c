/* Fits find the constants that made the times, through noise too. */
#include <math.h>

#include "base/error.h"
#include "fit/data.h"
#include "fit/jobs.h"
#include "main.h"

#define PEAK 1000e12
#define BANDWIDTH 3e12
#define SMS 132

static void near(double found, double expected, double tolerance)
{
  ck_assert_msg(fabs(found / expected - 1) <= tolerance, "%.6g, expected %.6g within %g", found, expected, tolerance);
}

/* 1 + up to `part` either way; always the same sequence. */
static double noise(double part)
{
  static guint32 state = 1;
  state = state * 1664525u + 1013904223u;
  return 1 + part * (2.0 * state / G_MAXUINT32 - 1);
}

START_TEST(error_statistics)
{
  double errors[] = {0.4, 0.1, 0.3, 0.2, 0};
  FitErrors found = fit_errors(errors, 5);
  ck_assert_int_eq(found.n, 5);
  near(found.mean, 0.2, 1e-12);
  near(found.median, 0.2, 1e-12);
  near(found.p90, 0.36, 1e-12);
  near(found.max, 0.4, 1e-12);
  ck_assert_double_eq(fit_errors(NULL, 0).mean, 0);
}
END_TEST

START_TEST(a_third_is_for_checking)
{
  int n = 0;
  for (int m = 128; m <= 4096; m += 128)
    for (int k = 256; k <= 8192; k += 256) {
      double key[] = {m, k};
      gboolean check = fit_is_check(key, 2);
      ck_assert_int_eq(check, fit_is_check(key, 2));
      n += check;
    }
  near(n, 32 * 32 / 3.0, 0.1);
}
END_TEST

static double bowl(const double *x, gpointer data)
{
  (void)data;
  return fabs(x[0] - 3) + pow(x[1] - 5, 2) + 1;
}

START_TEST(minimum_and_bounds)
{
  FitParameter inside[] = {{1, 0, 10, 1}, {1, 0, 10, 1}}, outside[] = {{1, 0, 2, 1}, {1, 0, 10, 1}};
  double x[2];
  near(fit_minimize(inside, 2, bowl, NULL, x), 1, 1e-3);
  near(x[0], 3, 1e-2);
  near(x[1], 5, 1e-2);
  near(fit_minimize(outside, 2, bowl, NULL, x), 2, 1e-2);
  near(x[0], 2, 1e-3);
}
END_TEST

/* ---- matrix products ---- */

static const MatmulModel truth = {.launch_s = 2.5e-6, .efficiency = 0.75, .tile_overhead_s = 1e-6,
                                  .bandwidth_fraction = 0.8, .tile_exponent = 0.15, .overlap_power = 3,
                                  .split_s = 2e-6, .wave_weight = 0.3, .known = TRUE};

static GArray *matmul_rows(double part, DType dtype, const Quantize *quantize)
{
  static const double m[] = {128, 256, 512, 1024, 2048, 4096, 8192}, n[] = {1024, 2560, 4096, 7168, 16384};
  GArray *rows = g_array_new(FALSE, FALSE, sizeof(MatmulRow));
  for (guint i = 0; i < G_N_ELEMENTS(m); i++)
    for (guint j = 0; j < G_N_ELEMENTS(n); j++)
      for (guint k = 0; k < G_N_ELEMENTS(n); k++) {
        double key[] = {m[i], n[j], n[k]};
        MatmulRow row = {.shape = {m[i], n[j], n[k], 1, dtype}, .check = fit_is_check(key, 3)};
        row.seconds = matmul_model_s(&truth, PEAK, BANDWIDTH, SMS, &row.shape);
        if (quantize) {
          row.quantized = m[i] * n[k];
          row.seconds += quantize->base_s + quantize->s_per_element * row.quantized;
        }
        row.seconds *= noise(part);
        g_array_append_val(rows, row);
      }
  return rows;
}

START_TEST(matmul_constants)
{
  g_autoptr(GArray) rows = matmul_rows(0.05, DTYPE_BF16, NULL);
  MatmulModel model = {0};
  Quantize quantize;
  FitResult result =
    fit_matmul((MatmulRow *)(gpointer)rows->data, (int)rows->len, PEAK, BANDWIDTH, SMS, &model, &quantize);
  ck_assert_int_eq(result.fit.n + result.check.n, rows->len);
  ck_assert_double_lt(result.fit.mean, 0.03); /* noise alone is 0.025 */
  ck_assert_double_lt(result.check.mean, 0.035);
  near(model.efficiency, truth.efficiency, 0.05);
  near(model.bandwidth_fraction, truth.bandwidth_fraction, 0.1);
  near(model.launch_s, truth.launch_s, 0.3);
  ck_assert_int_eq(model.provenance, PROVENANCE_FITTED);
  ck_assert_double_eq(quantize.s_per_element, 0);
}
END_TEST

START_TEST(quantization_is_told_apart)
{
  Quantize given = {9e-6, 2.5e-12}, found;
  g_autoptr(GArray) rows = matmul_rows(0.02, DTYPE_FP8, &given);
  MatmulModel model = truth;
  FitResult result =
    fit_matmul((MatmulRow *)(gpointer)rows->data, (int)rows->len, PEAK, BANDWIDTH, SMS, &model, &found);
  ck_assert_double_lt(result.check.mean, 0.02);
  near(found.base_s, given.base_s, 0.1);
  near(found.s_per_element, given.s_per_element, 0.1);
  near(model.efficiency, truth.efficiency, 0.05);
  near(model.launch_s, truth.launch_s, 1e-9);
}
END_TEST

/* Products whose rows start at words and at any byte, with weights and without, made by a known model. */
START_TEST(unaligned_rows)
{
  static const double slower[2][2] = { { 1.2, 1.5 }, { 3, 2 } };
  MatmulModel model = { .efficiency = 0.8, .bandwidth_fraction = 0.9, .overlap_power = 3, .wave_weight = 0.5 };
  g_autoptr(GArray) rows = g_array_new(FALSE, TRUE, sizeof(MatmulRow));

  memcpy(model.unaligned, slower, sizeof slower);
  for (int k = 1001; k < 1064; k++) {
    MatmulRow row = { .shape = { 4096, 4096, k, 1, DTYPE_FP16, .activations = k % 3 == 0 } };
    row.seconds = matmul_model_s(&model, PEAK, 2e12, SMS, &row.shape) * noise(0.05);
    if (matmul_alignment(&row.shape) != ALIGNED_FULLY)
      g_array_append_val(rows, row);
  }
  memset(model.unaligned, 0, sizeof model.unaligned);
  FitResult found = fit_unaligned((MatmulRow *)(gpointer)rows->data, (int)rows->len, PEAK, 2e12, SMS, &model);
  ck_assert_double_lt(found.fit.mean, 0.05);
  for (int kind = 0; kind < 4; kind++)
    near(model.unaligned[kind / 2][kind % 2], slower[kind / 2][kind % 2], 0.06);
}
END_TEST

/* Products of a device that sustains 0.8 of its rate, added to a matrix or not, and experts, two at once. */
START_TEST(library_rows)
{
  MatmulModel model = { .efficiency = 0.8, .bandwidth_fraction = 0.9, .overlap_power = 4, .wave_weight = 1,
                        .added_power = 1.3, .experts_at_once = 2 };
  g_autoptr(GArray) rows = g_array_new(FALSE, TRUE, sizeof(MatmulRow));

  for (int i = 0; i < 120; i++) {
    MatmulRow row = { .shape = { 1024 + 300 * (i % 7), 4096, 256 << i % 4, 1, DTYPE_BF16 }, .check = i % 3 == 0 };
    row.shape.calls = i % 5 == 0 ? 16 : 0;
    row.shape.batch = MAX(1, row.shape.calls);
    row.shape.accumulate_bytes = i % 2 * 6 * row.shape.m * row.shape.n * row.shape.batch;
    row.seconds = matmul_model_s(&model, 0.8 * PEAK, 2e12, SMS, &row.shape) * noise(0.02);
    g_array_append_val(rows, row);
  }
  model.added_power = model.experts_at_once = 0;
  Device device = { .peak_flops_per_s[DTYPE_BF16] = PEAK, .memory_bytes_per_s = 2e12, .sms = SMS, .sustained_fraction = 1 };
  FitResult own, found = fit_library((MatmulRow *)(gpointer)rows->data, (int)rows->len, &device, &model, &own);
  ck_assert_double_lt(found.fit.mean, 0.02);
  ck_assert_double_lt(found.check.mean, 0.02);
  ck_assert_double_gt(own.check.mean, 0.05); /* rows ran at 0.8 of it */
  ck_assert_double_lt(own.check.mean, 0.2);
  ck_assert_int_eq(own.check.n, found.check.n);
  device.sustained_fraction = 0.8;
  fit_library((MatmulRow *)(gpointer)rows->data, (int)rows->len, &device, &model, &own);
  ck_assert_double_lt(own.check.mean, 0.02);
  near(model.added_power, 1.3, 0.1);
  ck_assert_double_eq(model.experts_at_once, 2);
}
END_TEST

/* ---- attention ---- */

/* Kernels that run at 0.7 of their curve, whatever the device's products keep; those for checking run at half of it. */
START_TEST(attention_keeps_a_share)
{
  static AttentionCurve curve = {.kernel = ATTENTION_FLASH3, .causal = TRUE, .head_dim = 128, .n = 2,
                                 .seq = {1024, 4096}, .utilization = {0.4, 0.6}};
  Device device = {.sms = SMS, .sustained_fraction = 0.9,
                   .kernels = {.attention = &curve, .n_attention = 1, .attention_launch_s = 5e-6}};
  AttentionRow rows[6];

  device.peak_flops_per_s[DTYPE_BF16] = PEAK;
  for (int i = 0; i < 6; i++) {
    Device at = device;
    at.kernels.attention_sustained = i < 4 ? 0.7 : 0.5;
    rows[i] = (AttentionRow){
      .work = {.batch = 1 << i % 4, .heads = 32, .q_len = 2048, .kv_len = 2048, .head_dim = 128, .v_head_dim = 128,
               .causal = TRUE, .kernel = ATTENTION_FLASH3, .dtype = DTYPE_BF16}, .check = i >= 4};
    rows[i].seconds = attention_s(&at, &rows[i].work);
  }
  FitResult result = fit_attention_sustained(rows, 6, &device);
  near(device.kernels.attention_sustained, 0.7, 1e-9);
  ck_assert_double_lt(result.fit.mean, 1e-9);
  ck_assert_double_eq_tol(result.check.mean, 2.0 / 7, 0.01);
  ck_assert_int_eq(result.check.n, 2);
  /* a curve is of a moment, with the share or without */
  rows[4].check = FALSE;
  near(fit_attention_errors(rows, 1, &device).fit.mean, 0.3, 0.06);
  fit_attention_sustained(rows + 5, 1, &device);
  ck_assert_double_eq(device.kernels.attention_sustained, 0);
}
END_TEST

/* A server's kernels at shares 0.3, 0.5 and 0.6 of peak, with 14 us and 1 ps a
 * byte of cache that are not the attention's; at its end 0.4 of the longest block's time is waited for, or none. */
START_TEST(attention_of_a_server)
{
  static const double seq[] = {1024, 4096, 16384}, shares[] = {0.3, 0.5, 0.6}, tails[] = {0, 0.4};
  Device device = {.sms = SMS, .sustained_fraction = 0.9}; /* of no account here */
  device.peak_flops_per_s[DTYPE_BF16] = PEAK;
  device.kernels.attention_launch_s = 5e-6;
  GArray *rows = g_array_new(FALSE, TRUE, sizeof(AttentionRow));
  for (int s = 0; s < 3; s++)
    for (int heads = 8; heads <= 64; heads *= 2)
      for (int batch = 1; batch <= 8; batch *= 2) {
        AttentionRow row = {.work = {.batch = batch, .heads = heads, .q_len = seq[s], .kv_len = seq[s], .head_dim = 128,
                                     .v_head_dim = 128, .causal = TRUE, .kernel = ATTENTION_FLASH3,
                                     .dtype = DTYPE_BF16},
                            .cache_bytes = 2.0 * heads * seq[s] * 128 * 2};
        double tiles = seq[s] / 128, waves = batch * heads * tiles / SMS, longest = 2 * tiles / (tiles + 1) / waves;
        row.seconds = attention_flops(&row.work) / (PEAK * shares[s]) * fmax(1 / waves, 1 + tails[_i] * longest) +
                      14e-6 + 1e-12 * row.cache_bytes;
        row.seconds *= noise(0.01);
        g_array_append_val(rows, row);
      }
  fit_attention_serving((AttentionRow *)(gpointer)rows->data, (int)rows->len, &device, tails[_i] > 0);
  ck_assert_double_eq_tol(device.kernels.attention_tail, tails[_i], 0.06);
  AttentionCurve curve = {.kernel = ATTENTION_FLASH3, .causal = TRUE, .head_dim = 128, .n = 4,
                          .seq = {512, 1024, 4096, 16384}};
  ck_assert(fit_attention_curve((AttentionRow *)(gpointer)rows->data, (int)rows->len, &device, &curve));
  ck_assert_int_eq(curve.n, 3); /* no rows of 512 */
  for (int s = 0; s < 3; s++) {
    ck_assert_double_eq(curve.seq[s], seq[s]);
    near(curve.utilization[s], shares[s], 0.06);
  }
  device.kernels.attention = &curve;
  device.kernels.n_attention = 1;
  ck_assert_double_lt(fit_attention_errors((AttentionRow *)(gpointer)rows->data, (int)rows->len, &device).fit.mean,
                      0.06);
  curve.head_dim = 64;
  ck_assert(!fit_attention_curve((AttentionRow *)(gpointer)rows->data, (int)rows->len, &device, &curve));
  g_array_unref(rows);
}
END_TEST

/* ---- links ---- */

START_TEST(link_constants)
{
  Link given = {.base_s = 6e-6, .hop_s = 0.8e-6, .efficiency = 0.82, .sqrt_s_per_byte = 6e-9, .p2p_base_s = 9e-6,
                .p2p_efficiency = 0.75};
  Cluster cluster = {.name = "c", .devices_per_node = 8, .nodes = 1, .devices = 8, .n_tiers = 1};
  cluster.tiers[0] = (Tier){.devices = 8, .bytes_per_s = 300e9, .link = given};
  ck_assert(library_load(LIBRARY_USUAL, &cluster.library, NULL));
  static const Collective collectives[] = {COLLECTIVE_ALL_REDUCE, COLLECTIVE_ALL_GATHER, COLLECTIVE_ALL_TO_ALL};
  CollectiveRow rows[200];
  int n = 0;
  for (int c = 0; c < 3; c++)
    for (int size = 2; size <= 8; size *= 2)
      for (double bytes = 1024; bytes < 2e9; bytes *= 4, n++) {
        GroupShape group = group_shape(&cluster, size, 1);
        rows[n] = (CollectiveRow){collectives[c], &cluster, group, bytes, 0, 1, n % 3 == 2};
        rows[n].seconds = collective_cost(&cluster, collectives[c], bytes, &group).seconds * noise(0.04);
      }
  Link found = {0};
  FitResult result = fit_link(rows, n, 0, FIT_LINK_BASE | FIT_LINK_HOP | FIT_LINK_RATE | FIT_LINK_P2P, &found);
  ck_assert_double_lt(result.check.mean, 0.03);
  near(found.base_s, given.base_s, 0.1);
  near(found.hop_s, given.hop_s, 0.1);
  near(found.efficiency, given.efficiency, 0.03);
  near(found.sqrt_s_per_byte, given.sqrt_s_per_byte, 0.2);
  near(found.p2p_base_s, given.p2p_base_s, 0.1);
  near(found.p2p_efficiency, given.p2p_efficiency, 0.05);
}
END_TEST

/* What the last part of an exchange's pipeline takes is told apart from its rate. */
START_TEST(exchange_constants)
{
  Link given = {.efficiency = 0.9, .p2p_base_s = 80e-6, .p2p_efficiency = 0.9, .p2p_sqrt_s_per_byte = 50e-9};
  Cluster cluster = {.name = "c", .devices_per_node = 1, .nodes = 8, .devices = 8, .n_tiers = 1};
  cluster.tiers[0] = (Tier){.devices = 8, .bytes_per_s = 50e9, .link = given};
  ck_assert(library_load(LIBRARY_USUAL, &cluster.library, NULL));
  CollectiveRow rows[50];
  int n = 0;
  for (int size = 2; size <= 8; size *= 2)
    for (double bytes = 1024; bytes < 4e9; bytes *= 4, n++) {
      GroupShape group = group_shape(&cluster, size, 1);
      rows[n] = (CollectiveRow){COLLECTIVE_ALL_TO_ALL, &cluster, group, bytes, 0, 1, n % 3 == 2};
      rows[n].seconds = collective_cost(&cluster, COLLECTIVE_ALL_TO_ALL, bytes, &group).seconds * noise(0.04);
    }
  Link found = {.efficiency = 0.9};
  ck_assert_double_lt(fit_link(rows, n, 0, FIT_LINK_FILL, &found).check.mean, 0.03);
  near(found.p2p_base_s, given.p2p_base_s, 0.1);
  near(found.p2p_efficiency, given.p2p_efficiency, 0.05);
  near(found.p2p_sqrt_s_per_byte, given.p2p_sqrt_s_per_byte, 0.2);
  ck_assert_double_eq(found.efficiency, 0.9);
}
END_TEST

/* ---- data ---- */

static Csv *csv_of(const char *text)
{
  GError *error = NULL;
  Csv *csv = csv_parse(text, "f.csv", &error);
  ck_assert_msg(csv != NULL, "%s", error ? error->message : "");
  return csv;
}

START_TEST(rows_of_products)
{
  GError *error = NULL;
  g_autoptr(Csv) csv = csv_of("gpu,dtype,m,n,k,time_us\na,bf16,128,256,512,10\nb,bf16,1,1,1,1\na,fp8,128,256,512,7\n");
  g_autoptr(GArray) rows = data_matmul(csv, "a", "fp8", &error);
  ck_assert_int_eq(rows->len, 1);
  const MatmulRow *row = &g_array_index(rows, MatmulRow, 0);
  ck_assert_double_eq(row->shape.n, 256);
  near(row->seconds, 7e-6, 1e-12);
  ck_assert_double_eq(row->quantized, 128 * 512);
  ck_assert_ptr_null(data_matmul(csv, "c", "bf16", &error));
  test_error(&error, TDP_ERROR_INPUT, "f.csv: no rows of c");
}
END_TEST

/* GPU a: both passes 7, forward 2. GPU b: both 14 alone, so forward 4. FlashAttention-1's 28 as flash on a. */
START_TEST(grouped_constants)
{
  static const double tokens[] = {512, 1024, 2048, 4096, 8192, 16384}, hidden[] = {2048, 4096, 7168},
                      width[] = {512, 768, 1536, 2048};
  Device device = {0};
  GError *error = NULL;
  g_autoptr(GString) text = g_string_new("gpu,dtype,tokens,hidden,width,topk,experts,local,time_us\n");
  ck_assert(device_load("h100-sxm5-80gb", &device, &error));
  MatmulModel model = device.kernels.matmul[DTYPE_BF16];
  model.efficiency = 0.6;
  model.bandwidth_fraction = 0.7;
  for (guint t = 0; t < G_N_ELEMENTS(tokens); t++)
    for (guint h = 0; h < G_N_ELEMENTS(hidden); h++)
      for (guint w = 0; w < G_N_ELEMENTS(width); w++) {
        double m = tokens[t] * 8 / 64, n = width[w], k = hidden[h];
        Matmul up = {m, 2 * n, k, 16, DTYPE_BF16}, down = {m, k, n, 16, DTYPE_BF16};
        double seconds = 30e-6 + memory_s(&device, 2 * 16 * m * (2 * k + 3 * n) + 2 * tokens[t] * k, 0);
        const Matmul *both[] = {&up, &down};
        for (int i = 0; i < 2; i++)
          seconds += matmul_model_s(&model, device.peak_flops_per_s[DTYPE_BF16], device.memory_bytes_per_s, device.sms,
                                    both[i]) - model.launch_s;
        g_string_append_printf(text, "h100,bf16,%g,%g,%g,8,64,16,%.3f\n", tokens[t], k, n, seconds * 1e6);
      }
  FitData data = {.grouped = csv_of(text->str)};
  const FitJob job = {"grouped", "h100", "h100-sxm5-80gb", "h100", "bf16"}, none = {"grouped", "h100", "l40s", "x", "bf16"};
  FitResult result;
  ck_assert(fit_job_run(&data, &job, TRUE, &result, &error));
  ck_assert_int_eq(result.fit.n + result.check.n, 72);
  ck_assert_double_lt(result.check.mean, 0.02);
  ck_assert(!fit_job_run(&data, &none, TRUE, &result, &error));
  test_error(&error, TDP_ERROR_INPUT, "f.csv: no rows of x in bf16");
  const FitJob unknown = {"grouped", "h100", "h100-sxm5-80gb", "h100", "int4"}; /* which rows may name as well */
  csv_free(data.grouped);
  data.grouped = csv_of("gpu,dtype,tokens,hidden,width,topk,experts,local,time_us\nh100,int4,512,2048,512,8,64,16,50\n");
  ck_assert(!fit_job_run(&data, &unknown, TRUE, &result, &error));
  test_error(&error, TDP_ERROR_INPUT, "fits.csv: int4: expected a number format, as bf16 or fp8");
  csv_free(data.grouped);
  device_clear(&device);
}
END_TEST

START_TEST(constants_of_links)
{
  static const char *const wrong[] = {"base hopp", "", "base base", "reduce"};
  GError *error = NULL;
  FitData data = {.collectives = csv_of("source,collective,nodes,ranks,bytes,time_us\ns,all-reduce,1,8,1e6,50\n")};
  FitResult result;
  for (guint i = 0; i < G_N_ELEMENTS(wrong); i++) {
    const FitJob job = {"link", "nvlink4-switch", "dgx-h100", "s", wrong[i]};
    g_autofree char *message = g_strdup_printf("fits.csv: link nvlink4-switch: \"%s\": expected some of base, hop, rate, "
                                               "tree, p2p, in-switch, spread, short, fill", wrong[i]);
    ck_assert(!fit_job_run(&data, &job, TRUE, &result, &error));
    test_error(&error, TDP_ERROR_INPUT, message);
  }
  const FitJob job = {"link", "nvlink4-switch", "dgx-h100", "s", "base hop"};
  ck_assert(fit_job_run(&data, &job, TRUE, &result, &error));
  csv_free(data.collectives);
}
END_TEST

START_TEST(passes_are_split)
{
  GError *error = NULL;
  g_autoptr(Csv) csv = csv_of("source,gpu,kernel,pass,causal,head_dim,heads,kv_heads,batch,seq,time_us,dtype\n"
                              "s,a,flash,forward,1,64,32,32,4,512,2,bf16\ns,a,flash,both,1,64,32,32,4,512,7,bf16\n"
                              "s,b,flash,both,1,64,32,32,4,512,14,bf16\n"
                              "s,b,flash1,both,1,64,32,32,4,512,28,bf16\n");
  static const struct { const char *gpu, *kernel; double forward, backward; } cases[] = {
    {"a", "flash", 2e-6, 5e-6}, {"b", "flash", 4e-6, 10e-6}, {"b", "flash1", 8e-6, 20e-6},
  };
  for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(GArray) rows = data_attention(csv, "s", cases[i].gpu, cases[i].kernel, "a", &error);
    ck_assert_int_eq(rows->len, 2);
    const AttentionRow *forward = &g_array_index(rows, AttentionRow, 0), *backward = forward + 1;
    near(forward->seconds, cases[i].forward, 1e-9);
    near(backward->seconds, cases[i].backward, 1e-9);
    ck_assert(!forward->work.backward && backward->work.backward);
  }
  g_autoptr(Csv) apart = csv_of("source,gpu,kernel,pass,causal,head_dim,heads,kv_heads,batch,seq,time_us,dtype\n"
                                "s,a,flash,forward,1,64,32,32,4,512,2,fp8\ns,a,flash,backward,1,64,32,32,4,512,5,fp8\n");
  g_autoptr(GArray) rows = data_attention(apart, "s", "a", "flash", "a", &error);
  ck_assert_int_eq(rows->len, 2);
  near(g_array_index(rows, AttentionRow, 1).seconds, 5e-6, 1e-9);
  ck_assert_int_eq(g_array_index(rows, AttentionRow, 1).work.dtype, DTYPE_FP8);
}
END_TEST

START_TEST(curves_of_collectives)
{
  GError *error = NULL;
  g_autoptr(Csv) csv = csv_of("source,gpu,nodes,ranks,collective,bytes,time_us,note\n"
                              "s,H,1,8,all-reduce,1024,20,\ns,H,1,8,all-reduce,2048,21,\ns,H,2,16,all-gather,1024,50,\n"
                              "s,H,2,16,reduce,1024,50,\nt,H,3,16,send,1,1,\n");
  g_autoptr(GPtrArray) clusters = g_ptr_array_new_with_free_func((GDestroyNotify)cluster_free);
  g_autoptr(GArray) rows = g_array_new(FALSE, FALSE, sizeof(CollectiveRow));
  ck_assert_msg(data_collectives(csv, "s", "dgx-h100", clusters, rows, &error), "%s", error ? error->message : "");
  ck_assert_int_eq(rows->len, 3);
  ck_assert_int_eq(clusters->len, 2);
  ck_assert_double_eq(g_array_index(rows, CollectiveRow, 0).weight, 0.5);
  ck_assert_int_eq(g_array_index(rows, CollectiveRow, 2).group.per_domain[0], 8);
  ck_assert(!data_collectives(csv, "t", "dgx-h100", clusters, rows, &error));
  test_error(&error, TDP_ERROR_INPUT,
             "f.csv: line 6: ranks: \"16\": expected as many on each node, and no more than its devices");
}
END_TEST

/* A cell without a number leaves nothing to fit; nor does a row that took no time. */
START_TEST(rows_lack_nothing)
{
  static const struct { const char *row, *error; } cases[] = {
    { "a,bf16,128,,512,10", "f.csv: line 2: n: \"\": expected a number" },
    { "a,bf16,128,256,512,", "f.csv: line 2: time_us: \"\": expected a time above 0" },
    { "a,bf16,128,256,512,0", "f.csv: line 2: time_us: \"0\": expected a time above 0" },
    { "a,bf16,128,256,512,-1", "f.csv: line 2: time_us: \"-1\": expected a time above 0" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = g_strdup_printf("gpu,dtype,m,n,k,time_us\n%s\n", cases[i].row);
    g_autoptr(Csv) csv = csv_of(text);
    GError *error = NULL;
    ck_assert_ptr_null(data_matmul(csv, "a", "bf16", &error));
    test_error(&error, TDP_ERROR_INPUT, cases[i].error);
  }
}
END_TEST

/* What is fitted is what is written. */
START_TEST(keys_of_what_is_free)
{
  static const char *const all[] = { "base_us", "hop_us", "p2p_efficiency", "p2p_spread" };
  int mask = FIT_LINK_BASE | FIT_LINK_HOP | FIT_LINK_SPREAD;

  for (gsize i = 0; i < G_N_ELEMENTS(all); i++)
    ck_assert_str_eq(fit_link_key(mask, i), all[i]);
  ck_assert_ptr_null(fit_link_key(mask, G_N_ELEMENTS(all)));
}
END_TEST

TEST_LOOPS("fit", { error_statistics }, { a_third_is_for_checking }, { minimum_and_bounds }, { matmul_constants },
           { quantization_is_told_apart }, { unaligned_rows }, { library_rows }, { attention_keeps_a_share },
           { attention_of_a_server, 2 }, { link_constants },
           { exchange_constants }, { rows_of_products }, { grouped_constants }, { passes_are_split }, { constants_of_links },
           { curves_of_collectives }, { rows_lack_nothing }, { keys_of_what_is_free })
