#include "main.h"

#include "base/csv.h"
#include "base/error.h"
#include "report_run.h"

#include <math.h>

/* ---- JSON ---- */

static void check_keys(const cJSON *object, const char *const *keys)
{
  const cJSON *item = object->child;

  for (int i = 0; keys[i]; i++, item = item->next) {
    ck_assert_ptr_nonnull(item);
    ck_assert_str_eq(item->string, keys[i]);
  }
  ck_assert_ptr_null(item);
}

static double number(const cJSON *object, const char *key)
{
  const cJSON *item = json_get(object, key);
  ck_assert_msg(cJSON_IsNumber(item), "%s", key);
  return item->valuedouble;
}

static double sum(const cJSON *object)
{
  double total = 0;
  for (const cJSON *item = object->child; item; item = item->next)
    total += item->valuedouble;
  return total;
}

static JsonDoc *written(const Result *result, const Trace *trace)
{
  g_autoptr(GString) text = g_string_new(NULL);
  JsonWriter writer;
  GError *error = NULL;

  json_writer_init(&writer, text);
  result_write(result, trace, &writer, NULL);
  JsonDoc *doc = json_parse(text->str, text->len, "result", &error);
  ck_assert_ptr_nonnull(doc);
  return doc;
}

START_TEST(json_has_the_contract_keys)
{
  static const char *const keys[] = {
    "plan", "iteration_s", "tokens_per_s", "tokens_per_s_per_gpu", "model_tflops_per_gpu", "hardware_tflops_per_gpu",
    "mfu", "hfu", "bubble_fraction", "breakdown", "compute_parts", "at_peak", "hidden", "peak_memory_bytes", "memory",
    "fits", "memory_margin", NULL,
  };
  static const char *const causes[] = {
    "compute_s", "tensor_comm_s", "context_comm_s", "expert_comm_s", "pipeline_comm_s", "data_comm_s", "offload_s",
    "optimizer_s", "idle_s", NULL,
  };
  static const char *const computed[] = {
    "products_s", "attention_s", "memory_bound_s", "recompute_s", "uneven_s", "slowed_s", "slowest_s", "host_s", NULL,
  };
  static const char *const hidden[] = {
    "tensor_comm_s", "context_comm_s", "expert_comm_s", "pipeline_comm_s", "data_comm_s", "offload_s", NULL,
  };
  static const char *const parts[] = {
    "weights", "gradients", "optimizer", "activations", "buffers", "overhead", NULL,
  };
  Run r = run_new((Shape) { 2, 2, 1, 2, 8, TRUE });
  g_autoptr(JsonDoc) doc = written(&r.result, NULL);
  const cJSON *root = json_root(doc);

  check_keys(root, keys);
  check_keys(json_get(root, "breakdown"), causes);
  check_keys(json_get(root, "compute_parts"), computed);
  check_keys(json_get(root, "hidden"), hidden);
  check_keys(json_get(root, "memory"), parts);
  ck_assert(cJSON_IsTrue(json_get(root, "fits")));
  ck_assert_double_eq_tol(sum(json_get(root, "breakdown")) / number(root, "iteration_s"), 1, 1e-9);
  ck_assert_double_eq_tol(sum(json_get(root, "compute_parts")) / number(json_get(root, "breakdown"), "compute_s"), 1, 1e-9);
  ck_assert_double_eq_tol(sum(json_get(root, "memory")) / number(root, "peak_memory_bytes"), 1, 1e-9);
  run_clear(&r);
}
END_TEST

START_TEST(estimates_stand_beside)
{
  static const char *const keys[] = {
    "plan", "iteration_s", "iteration_s_low", "iteration_s_high", "tokens_per_s", "tokens_per_s_per_gpu",
    "model_tflops_per_gpu", "hardware_tflops_per_gpu", "mfu", "hfu", "bubble_fraction", "breakdown", "compute_parts",
    "at_peak", "hidden", "peak_memory_bytes", "memory", "fits", "memory_margin", "fit_probability", "beyond_measured", NULL,
  };
  Run r = run_new((Shape) { 2, 2, 1, 2, 8, TRUE });
  GError *error = NULL;
  g_autoptr(Accuracy) accuracy = accuracy_load(&error);

  ck_assert_ptr_nonnull(accuracy);
  r.cluster->device.name[0] = 'x'; /* a device of no run */
  result_estimate(&r.result, accuracy);
  g_autoptr(JsonDoc) doc = written(&r.result, NULL);
  const cJSON *root = json_root(doc);
  check_keys(root, keys);
  ck_assert_double_lt(number(root, "iteration_s_low"), number(root, "iteration_s"));
  ck_assert_double_gt(number(root, "iteration_s_high"), number(root, "iteration_s"));
  g_autofree char *summary = report_summary(&r.result);
  g_autofree char *beyond = g_strdup_printf("\ntrust these predictions less: device %s (no published run)",
                                              r.cluster->device.name);
  ck_assert_ptr_nonnull(strstr(summary, beyond));
  ck_assert_ptr_nonnull(strstr(summary, " of a device with a probability of 9"));
  run_clear(&r);
}
END_TEST

/* On A100 FlashAttention-2 stands in for 3: text and JSON say so, and the JSON runs as the plan that was asked for. */
START_TEST(what_attends_is_said)
{
  Run r = run_new((Shape) { 2, 2, 1, 2, 8, TRUE });

  ck_assert_int_eq(r.kept->attention, ATTENTION_FLASH3);
  g_autoptr(JsonDoc) doc = written(&r.result, NULL);
  const cJSON *plan = json_get(json_root(doc), "plan");
  ck_assert_str_eq(json_get(plan, "attention")->valuestring, "flash");
  ck_assert_int_eq(r.kept->attention, ATTENTION_FLASH3);
  g_autofree char *inputs = report_inputs(&r.result);
  ck_assert_ptr_nonnull(strstr(inputs, " flash attention"));
  r.kept->attention = ATTENTION_UNFUSED;
  g_autoptr(JsonDoc) separate = written(&r.result, NULL);
  ck_assert_str_eq(json_get(json_get(json_root(separate), "plan"), "attention")->valuestring, "unfused");
  run_clear(&r);
}
END_TEST

/* A number without a unit has the next one's, or the step's where both have none. */
START_TEST(units_stand_where_they_differ)
{
  static const struct { double step, low, high; const char *text; } cases[] = {
    { 130, 125, 147, "130 s (125 to 147)" },
    { 1032, 993, 1182, "17.2 min (993 s to 19.7 min)" },
    { 0.99, 0.95, 1.1, "990 ms (950 ms to 1.10 s)" },
    { 1.01, 0.95, 1.1, "1.01 s (950 ms to 1.10 s)" },
    { 0.9, 0.85, 0.95, "900 ms (850 to 950)" },
    { 990, 960, 985, "990 s (960 to 985)" },
    { 900, 1100, 1200, "900 s (18.3 to 20.0 min)" },
  };
  Run r = run_new((Shape) { 1, 1, 1, 1, 1, FALSE });

  r.result.accuracy = (const Accuracy *)&r; /* that there is one is all that is asked */
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    r.result.metrics.iteration_s = cases[i].step;
    r.result.estimate.low_s = cases[i].low;
    r.result.estimate.high_s = cases[i].high;
    test_text(result_step_text(&r.result), cases[i].text);
  }
  run_clear(&r);
}
END_TEST

START_TEST(json_has_every_stage)
{
  static const char *const keys[] = {
    "stage", "first_rank", "ranks", "compute_s", "bubble_fraction", "peak_memory_bytes", "memory", NULL,
  };
  Run r = run_new((Shape) { 1, 4, 1, 2, 8, FALSE });
  g_autoptr(JsonDoc) doc = written(&r.result, r.trace);
  const cJSON *stages = json_get(json_root(doc), "stages"), *stage;
  int i = 0;

  cJSON_ArrayForEach(stage, stages) {
    check_keys(stage, keys);
    ck_assert_double_eq(number(stage, "stage"), i);
    ck_assert_double_eq(number(stage, "first_rank"), 2 * i);
    ck_assert_double_eq(number(stage, "ranks"), 2);
    ck_assert_double_eq_tol(number(stage, "compute_s"), 8 * 3, 1e-9);
    ck_assert_double_eq_tol(number(stage, "bubble_fraction"), 9.0 / 33, 1e-9);
    ck_assert_double_eq(sum(json_get(stage, "memory")), number(stage, "peak_memory_bytes"));
    i++;
  }
  ck_assert_int_eq(i, 4);
  stage = cJSON_GetArrayItem(stages, r.result.metrics.peak_row);
  ck_assert_double_eq(number(stage, "peak_memory_bytes"), number(json_root(doc), "peak_memory_bytes"));
  run_clear(&r);
}
END_TEST

START_TEST(rates_follow_from_the_step)
{
  Run r = run_new((Shape) { 1, 4, 1, 1, 8, FALSE });
  double step_s = r.result.metrics.iteration_s, peak = r.cluster->device.peak_flops_per_s[DTYPE_BF16];

  ck_assert_double_eq_tol(step_s, 33, 0.01); /* (micro-batches + stages - 1) x 3 s, and the optimizer */
  ck_assert_double_eq(r.result.tokens, 8 * 128);
  ck_assert_double_eq(r.result.tokens_per_s, 8 * 128 / step_s);
  ck_assert_double_eq(r.result.tokens_per_s_per_gpu, 8 * 128 / step_s / 4);
  ck_assert_double_eq_tol(r.result.mfu, 8 * model_flops(r.model, 128) / (step_s * 4 * peak), 1e-12);
  ck_assert_double_eq(r.result.hfu, 0); /* these prices count no work */
  ck_assert(r.result.fits);
  run_clear(&r);
}
END_TEST

START_TEST(what_is_too_large_does_not_fit)
{
  Run r = run_new((Shape) { 1, 4, 1, 1, 8, FALSE });
  g_autofree char *summary = NULL;

  r.cluster->device.memory_bytes = r.result.metrics.peak_memory_bytes - 1;
  r.result = result_of(r.model, r.cluster, &r.plan, r.trace);
  ck_assert(!r.result.fits);
  summary = report_summary(&r.result);
  ck_assert_ptr_nonnull(strstr(summary, "DOES NOT FIT"));
  run_clear(&r);
}
END_TEST

/* ---- text ---- */

START_TEST(summary_names_what_matters)
{
  static const char *const words[] = {
    "model ", "cluster ", "device ", "kernels", "plan ", "tp 2", "step ", "MFU", "HFU", "bubble ", "compute ",
    "tensor parallel ", "weights ", "activations ", "peak ", "fits",
  };
  Run r = run_new((Shape) { 2, 2, 1, 2, 8, TRUE });
  g_autofree char *inputs = report_inputs(&r.result), *rest = report_summary(&r.result);
  g_autofree char *summary = g_strconcat(inputs, rest, NULL);

  for (guint i = 0; i < G_N_ELEMENTS(words); i++)
    ck_assert_msg(strstr(summary, words[i]) != NULL, "%s", words[i]);
  ck_assert_ptr_null(strstr(summary, "overhead")); /* nothing of it: no line */
  run_clear(&r);
}
END_TEST

/* Below the computation its parts of at least 1 % of the step; hidden time beside what is exposed, with a line also where
 * nothing is; what would be shown as 0.0 % has none. */
START_TEST(summary_says_where_time_goes)
{
  Run r = run_new((Shape) { 2, 2, 1, 2, 8, TRUE });
  StepParts *p = &r.result.parts;

  r.result.metrics = (Metrics) { .iteration_s = 100, .compute_s = 90, .tensor_comm_s = 9, .idle_s = 1, .optimizer_s = 0.049,
                                 .capacity_bytes = 1 };
  *p = (StepParts) { .known = TRUE, .peak_s = { 30, 4 } };
  for (int i = 0; i < COMPUTE_COUNT; i++)
    p->compute_s[i] = 2 + i;
  p->compute_s[COMPUTE_PRODUCTS] = 40;
  p->compute_s[COMPUTE_UNEVEN] = 0.9;
  for (int i = 0; i < HIDDEN_COUNT; i++)
    p->hidden_s[i] = i;
  g_autofree char *summary = report_summary(&r.result);
  ck_assert_msg(strstr(summary, "only the exposed part)\n"
                                "  compute             90.0 s  90.0 %\n"
                                "    products          40.0 s  40.0 %  at 75 % of the peak\n"
                                "    attention         3.00 s   3.0 %  at 133 % of the peak\n"
                                "    memory-bound      4.00 s   4.0 %\n"
                                "    recomputation     5.00 s   5.0 %\n"
                                "    slowed by others  7.00 s   7.0 %\n"
                                "    slowest device    8.00 s   8.0 %\n"
                                "    waits for host    9.00 s   9.0 %\n"
                                "  tensor parallel     9.00 s   9.0 %\n"
                                "  context parallel       0 s   0.0 %  + 1.00 s hidden\n"
                                "  expert parallel        0 s   0.0 %  + 2.00 s hidden\n"
                                "  pipeline               0 s   0.0 %  + 3.00 s hidden\n"
                                "  data parallel          0 s   0.0 %  + 4.00 s hidden\n"
                                "  offload                0 s   0.0 %  + 5.00 s hidden\n"
                                "  idle                1.00 s   1.0 %\n\n"), "%s", summary);
  r.result.slow_ranks = TRUE;
  g_autofree char *slow = report_summary(&r.result);
  ck_assert_ptr_nonnull(strstr(slow, "    slowed          7.00 s   7.0 %\n"));
  ck_assert_ptr_null(strstr(slow, "by others"));
  *p = (StepParts) { .known = FALSE };
  g_autofree char *unknown = report_summary(&r.result);
  ck_assert_msg(strstr(unknown, "part)\n"
                                "  compute          90.0 s  90.0 %\n"
                                "  tensor parallel  9.00 s   9.0 %\n"
                                "  idle             1.00 s   1.0 %\n\n"), "%s", unknown);
  run_clear(&r);
}
END_TEST

START_TEST(timeline_is_the_figure_of_the_paper)
{
  Run r = run_new((Shape) { 1, 4, 1, 1, 6, FALSE });

  test_text(report_timeline(r.trace, 82, FALSE),
            "                                                                  bubble      peak\n"
            "stage 0 |F0F1F2F3............B0==F4B1==F5B2==..B3==..B4==..B5==|  33.3 %  40.0 GiB\n"
            "stage 1 |..F0F1F2........B0==F3B1==F4B2==F5B3==..B4==..B5==....|  33.3 %  30.0 GiB\n"
            "stage 2 |....F0F1....B0==F2B1==F3B2==F4B3==F5B4==..B5==........|  33.3 %  20.0 GiB\n"
            "stage 3 |......F0B0==F1B1==F2B2==F3B3==F4B4==F5B5==............|  33.3 %  10.0 GiB\n"
            "         +---------+---------+---------+---------+---------+---\n"
            "      s  0         5        10        15        20        25\n"
            "         F forward, B backward, . idle\n");
  run_clear(&r);
}
END_TEST

START_TEST(further_chunks_are_small)
{
  Run r = run_new((Shape) { 1, 2, 2, 1, 2, FALSE });

  test_text(report_timeline(r.trace, 73, FALSE),
            "                                                         bubble      peak\n"
            "stage 0 |F0-F1-fa0fa1......ba0===...ba1===B0====B1====|  20.0 %  40.0 GiB\n"
            "stage 1 |...F0-F1-fa0ba0===fa1ba1===B0====B1====......|  20.0 %  30.0 GiB\n"
            "         +--------------+--------------+-------------+\n"
            "      s  0              5             10            15\n"
            "         F forward, B backward, . idle, small letters: further chunks\n");
  run_clear(&r);
}
END_TEST

START_TEST(pairs_are_one_box)
{
  Run r = run_new((Shape) { 1, 2, 1, 1, 4, FALSE });

  run_pair(&r);
  test_text(report_timeline(r.trace, 82, FALSE),
            "                                                                  bubble      peak\n"
            "stage 0 |F0--F1-.......B0======F2&B1#####F3&B2######....B3=====|  20.0 %  20.0 GiB\n"
            "stage 1 |....F0&B0#####F1&B1######F2&B2######F3&B3######.......|  20.0 %  10.0 GiB\n"
            "         +-----------------+-----------------+----------------+\n"
            "      s  0                 5                10               15\n"
            "         F forward, B backward, & two overlap, . idle\n");
  run_clear(&r);
}
END_TEST

START_TEST(explanation_by_hand)
{
  Run r = run_new((Shape) { 1, 4, 1, 1, 8, FALSE });
  g_autofree char *text = report_explain(&r.result, r.trace);

  ck_assert_ptr_nonnull(strstr(text, "Stage 0 computes longest, 24.0 s, 0.0 % more than the mean stage; stage 0 "
                                     "least, 24.0 s.\n"));
  ck_assert_ptr_nonnull(strstr(text, "Stages idle 27.3 % of the pipeline phase; with equal stages and no transfer time "
                                     "the schedule 1f1b would idle 27.3 %.\n"));
  ck_assert_ptr_nonnull(strstr(text, "Stage 0 is the fullest stage with 40.0 GiB, of which activations 40.0 GiB; "));
  run_clear(&r);
}
END_TEST

/* What ends a step is of the replicas only where there are any: at dp 1 the pipeline's ends sum the table that they
 * share, and all ranks a norm. */
START_TEST(what_ends_a_step_is_named)
{
  static const struct {
    Shape shape;
    gboolean tied;
    const char *name, *adjective;
  } cases[] = {
    { { 1, 4, 1, 1, 8, TRUE }, TRUE, "embedding group", "embedding-group" },
    { { 1, 4, 1, 1, 8, TRUE }, FALSE, "gradient norm", "gradient-norm" },
    { { 2, 1, 1, 1, 8, TRUE }, TRUE, "gradient norm", "gradient-norm" },
    { { 1, 4, 1, 2, 8, TRUE }, TRUE, "data parallel", "data-parallel" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    Run r = run_new(cases[i].shape);
    r.model->tied_embeddings = cases[i].tied;
    r.result.metrics.data_comm_s = 0.1 * r.result.metrics.iteration_s;
    g_autofree char *summary = report_summary(&r.result), *text = report_explain(&r.result, r.trace);
    g_autofree char *line = g_strdup_printf("\n  %s ", cases[i].name);
    g_autofree char *words = g_strdup_printf("exposed %s communication 10.0 %%", cases[i].adjective);
    ck_assert_msg(strstr(summary, line) != NULL, "%zu: %s", i, summary);
    ck_assert_msg(strstr(text, words) != NULL, "%zu: %s", i, text);
    run_clear(&r);
  }
}
END_TEST

/* All that a step is spent on is named, and nothing that only rounding left. */
START_TEST(all_of_the_step_is_named)
{
  Run r = run_new((Shape) { 1, 4, 1, 1, 8, FALSE });
  Metrics *m = &r.result.metrics;
  const double step_s = m->iteration_s;

  *m = (Metrics) { .iteration_s = step_s, .compute_s = 0.5 * step_s, .tensor_comm_s = 1e-17 * step_s,
                   .expert_comm_s = 0.04 * step_s, .data_comm_s = 0.03 * step_s, .idle_s = 0.1 * step_s,
                   .pipeline_comm_s = 0.01 * step_s, .offload_s = 0.2 * step_s, .optimizer_s = 0.12 * step_s };
  g_autofree char *why = report_explain(&r.result, r.trace), *summary = report_summary(&r.result);
  ck_assert_ptr_nonnull(strstr(why, "computation 50.0 %, exposed tensor, context and expert-parallel communication 4.0 %, "
                                    "exposed embedding-group communication 3.0 %, idle and sends 11.0 %, exposed "
                                    "copies to and from the host 20.0 %, optimizer 12.0 %.\n"));
  ck_assert_ptr_null(strstr(summary, "tensor parallel"));
  ck_assert_ptr_nonnull(strstr(summary, "expert parallel"));
  run_clear(&r);
}
END_TEST

/* Text without a terminal's escapes. */
static char *without_colors(const char *text)
{
  g_autoptr(GRegex) escapes = g_regex_new("\033\\[[0-9;]*m", 0, 0, NULL);
  return g_regex_replace_literal(escapes, text, -1, 0, "", 0, NULL);
}

START_TEST(colors_change_no_letter)
{
  Run r = run_new((Shape) { 1, 4, 1, 1, 6, FALSE });

  for (int columns = 30; columns < 200; columns += 10) {
    g_autofree char *colored = report_timeline(r.trace, columns, TRUE), *plain = report_timeline(r.trace, columns, FALSE);
    ck_assert_ptr_nonnull(strstr(colored, "\033["));
    ck_assert_ptr_null(strstr(plain, "\033["));
    test_text(without_colors(colored), plain);
    g_auto(GStrv) lines = g_strsplit(colored, "\n", -1);
    for (int i = 0; lines[i]; i++) { /* behind the row nothing is coloured */
      const char *last = strrchr(lines[i], '\033');
      ck_assert_msg(!last || g_str_has_prefix(last, "\033[0m"), "%s", lines[i]);
    }
  }
  run_clear(&r);
}
END_TEST

/* Stage 0 keeps the inputs of four micro-batches at most: its area rises over them to 40 GiB and falls behind. */
START_TEST(memory_is_drawn_as_high_as_it_is)
{
  Run r = run_new((Shape) { 1, 4, 1, 1, 6, FALSE });
  g_autofree char *drawn = report_memory_drawn(&r.result, r.trace, 60, FALSE);
  g_autofree char *colored = report_memory_drawn(&r.result, r.trace, 60, TRUE);
  g_auto(GStrv) lines = g_strsplit(drawn, "\n", -1);

  ck_assert_msg(g_str_has_prefix(lines[0], "40.0 GiB "), "%s", drawn);
  ck_assert_msg(g_str_has_prefix(lines[4], "20.0 GiB "), "%s", drawn);
  for (int i = 0; i < 8; i++)
    ck_assert_int_le(g_utf8_strlen(lines[i], -1), 60);
  ck_assert_int_lt(g_utf8_strlen(lines[0], -1), g_utf8_strlen(lines[7], -1));
  g_autofree char *plain = without_colors(colored);
  ck_assert_msg(g_str_has_prefix(plain, lines[0]), "%s", plain);
  ck_assert_ptr_nonnull(strstr(plain, "█ activations"));
  run_clear(&r);
}
END_TEST

START_TEST(timeline_keeps_to_its_columns)
{
  Run r = run_new((Shape) { 1, 4, 1, 1, 64, FALSE });

  for (int columns = 16; columns < 200; columns++) {
    g_autofree char *text = report_timeline(r.trace, columns, FALSE);
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    for (int i = 0; lines[i]; i++)
      ck_assert_int_le(strlen(lines[i]), columns);
  }
  run_clear(&r);
}
END_TEST

START_TEST(collectives_are_counted_by_hand)
{
  Run r = run_new((Shape) { 2, 2, 1, 2, 8, TRUE });
  g_autofree char *text = report_collectives(&r.result, r.trace);
  g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
  gboolean found = FALSE;

  ck_assert(g_str_has_prefix(lines[0], "for "));
  for (int i = 1; lines[i]; i++) {
    g_auto(GStrv) cells = g_regex_split_simple("  +", lines[i], 0, 0);
    if (!g_str_has_prefix(lines[i], "tensor parallel  ") || !strstr(lines[i], "64.0 KiB"))
      continue;
    found = TRUE;
    ck_assert_str_eq(cells[1], "all-reduce");
    ck_assert_str_eq(cells[3], "2 in a node");
    /* 4 blocks x 8 micro-batches x 4, and the embedding forward or the logits backward */
    ck_assert_str_eq(cells[9], "136");
  }
  ck_assert(found);
  ck_assert_ptr_nonnull(strstr(text, "between stages"));
  ck_assert_ptr_nonnull(strstr(text, "gradients"));
  ck_assert_ptr_nonnull(strstr(text, "gradient norm"));
  run_clear(&r);
}
END_TEST

/* Every stage takes part in the norm, whichever is the critical one. */
START_TEST(norm_is_of_all_stages)
{
  Run r = run_new((Shape) { 2, 4, 1, 1, 8, TRUE });

  for (int row = 0; row < 4; row++) {
    r.result.metrics.critical_row = row;
    g_autofree char *text = report_collectives(&r.result, r.trace);
    g_auto(GStrv) cells = g_regex_split_simple("  +", strstr(text, "gradient norm"), 0, 0);
    ck_assert_str_eq(cells[9], "1");

    g_autoptr(GString) json = g_string_new(NULL);
    JsonWriter w;
    json_writer_init(&w, json);
    json_open(&w, NULL, '{');
    report_explain_write(&r.result, r.trace, &w);
    json_close(&w, '}');
    g_autoptr(JsonDoc) doc = json_parse(json->str, json->len, "written", NULL);
    const cJSON *use, *of_norm = NULL;
    cJSON_ArrayForEach(use, json_get(json_root(doc), "communication"))
      if (g_str_equal(json_get(use, "for")->valuestring, "gradient norm"))
        of_norm = use;
    ck_assert_ptr_nonnull(of_norm);
    ck_assert_int_eq(json_get(of_norm, "count")->valueint, 1);
  }
  run_clear(&r);
}
END_TEST

START_TEST(one_device_does_not_communicate)
{
  Run r = run_new((Shape) { 1, 1, 1, 1, 2, TRUE });
  test_text(report_collectives(&r.result, r.trace), "no communication\n");
  run_clear(&r);
}
END_TEST

/* ---- CSV ---- */

START_TEST(csv_has_a_line_a_span)
{
  Run r = run_new((Shape) { 2, 2, 1, 2, 8, TRUE });
  g_autofree char *text = report_csv(r.trace);
  GError *error = NULL;
  g_autoptr(Csv) csv = csv_parse(text, "csv", &error);
  double last = -1, start, end;
  int stage, row = -1;

  ck_assert_ptr_nonnull(csv);
  ck_assert(g_str_has_prefix(text, "id,stage,lane,kind,pass,chunk,micro,start_s,end_s,exposed_tensor_s,"
                                   "collective,bytes,ranks,algorithm,after\n"));
  ck_assert_uint_eq(csv->rows->len, r.trace->spans->len);
  for (guint i = 0; i < csv->rows->len; i++) {
    ck_assert(csv_real(csv, i, "start_s", &start, &error) && csv_real(csv, i, "end_s", &end, &error) &&
              csv_int(csv, i, "stage", &stage, &error));
    ck_assert_double_le(start, end);
    if (strcmp(csv_cell(csv, i, "lane"), "compute") != 0)
      continue;
    ck_assert(stage > row || start >= last);
    row = stage;
    last = end;
  }
  ck_assert_str_eq(csv_cell(csv, 0, "kind"), "pass");
  ck_assert_str_eq(csv_cell(csv, 0, "collective"), "");
  run_clear(&r);
}
END_TEST

/* The last line ends when the step does, whose fixed time is of no task. */
START_TEST(csv_ends_with_the_step)
{
  Run r = run_new((Shape) { 1, 2, 1, 1, 4, TRUE });
  GError *error = NULL;
  double start, end;
  int stage;

  r.trace->step_s = 0.25;
  r.trace->end_s += 0.25;
  g_autofree char *text = report_csv(r.trace);
  g_autoptr(Csv) csv = csv_parse(text, "csv", &error);
  ck_assert_ptr_nonnull(csv);
  guint n = r.trace->spans->len;
  ck_assert_uint_eq(csv->rows->len, n + 2);
  for (guint i = n; i < n + 2; i++) {
    ck_assert(csv_real(csv, i, "start_s", &start, &error) && csv_real(csv, i, "end_s", &end, &error) &&
              csv_int(csv, i, "stage", &stage, &error));
    ck_assert_int_eq(stage, (int)(i - n));
    ck_assert_str_eq(csv_cell(csv, i, "lane"), "compute");
    ck_assert_str_eq(csv_cell(csv, i, "kind"), "fixed time");
    ck_assert_double_eq_tol(end - start, 0.25, 1e-12);
    ck_assert_double_eq_tol(end, r.trace->end_s, 1e-12);
  }
  run_clear(&r);
}
END_TEST

TEST_MAIN("report", json_has_the_contract_keys, estimates_stand_beside, rates_follow_from_the_step,
          what_attends_is_said, units_stand_where_they_differ, json_has_every_stage,
          what_is_too_large_does_not_fit, summary_names_what_matters, summary_says_where_time_goes,
          timeline_is_the_figure_of_the_paper, further_chunks_are_small, pairs_are_one_box, explanation_by_hand,
          what_ends_a_step_is_named,
          all_of_the_step_is_named, timeline_keeps_to_its_columns, colors_change_no_letter,
          memory_is_drawn_as_high_as_it_is, collectives_are_counted_by_hand, norm_is_of_all_stages,
          one_device_does_not_communicate, csv_has_a_line_a_span, csv_ends_with_the_step)
