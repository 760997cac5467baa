/* Validation results for people and programs. */
#include "base/units.h"
#include "base/table.h"
#include "validate/validate.h"

#include <math.h>

static const char *const outcome_names[OUTCOME_COUNT] = { [OUTCOME_RAN] = "ran", [OUTCOME_OOM] = "out_of_memory" };

static double memory_error_pct(const CaseResult *r)
{
  return 100 * (r->predicted_memory_bytes / r->measured_memory_bytes - 1);
}

static void write_defaulted(JsonWriter *w, const CaseResult *r)
{
  g_auto(GStrv) columns = g_strsplit(r->defaulted, " ", -1);

  if (*r->defaulted)
    json_put_strings(w, "defaulted", (const char *const *)columns, g_strv_length(columns));
}

static void write_estimate(JsonWriter *w, const Estimate *e)
{
  json_put_real(w, "iteration_s_low", e->low_s);
  json_put_real(w, "iteration_s_high", e->high_s);
  json_put_real(w, "fit_probability", e->fit_probability);
  if (e->outside)
    json_put_string(w, "beyond_measured", e->outside);
}

/* Null where there is no row that it is of. */
static void put_error(JsonWriter *w, const char *key, int count, double value)
{
  if (count > 0)
    json_put_real(w, key, value);
  else
    json_put_string(w, key, NULL);
}

static void write_case(JsonWriter *w, const Validation *v, const CaseResult *r)
{
  json_open(w, NULL, '{');
  json_put_string(w, "id", r->id);
  json_put_string(w, "sweep", r->sweep);
  if (r->measured_s > 0)
    json_put_real(w, "measured_s", r->measured_s);
  if (r->skipped)
    json_put_string(w, "reason", r->skipped);
  else
    json_put_real(w, "predicted_s", r->predicted_s);
  if (r->simulated)
    json_put_string(w, "framework", r->simulated);
  if (!r->skipped && v->accuracy)
    write_estimate(w, &r->estimate);
  if (case_is_timed(r)) {
    json_put_real(w, "error_pct", case_error_pct(r));
    put_error(w, "naive_s", r->naive_s > 0, r->naive_s);
  }
  if (case_has_memory(r)) {
    json_put_real(w, "measured_memory_bytes", r->measured_memory_bytes);
    json_put_real(w, "predicted_memory_bytes", r->predicted_memory_bytes);
    json_put_real(w, "memory_error_pct", memory_error_pct(r));
  }
  if (!r->skipped)
    json_put_bool(w, "fits", r->memory_need <= 1);
  write_defaulted(w, r);
  json_close(w, '}');
}

static void write_errors(JsonWriter *w, const CaseSummary *s)
{
  json_put_int(w, "count", s->count);
  json_put_int(w, "skipped", s->skipped);
  json_put_int(w, "defaulted", s->defaulted);
  put_error(w, "mape_pct", s->count, s->mape_pct);
  put_error(w, "median_ape_pct", s->count, s->median_ape_pct);
  put_error(w, "max_ape_pct", s->count, s->max_ape_pct);
  put_error(w, "bias_pct", s->count, s->bias_pct);
  put_error(w, "naive_mape_pct", s->naive_count, s->naive_mape_pct);
  put_error(w, "naive_median_ape_pct", s->naive_count, s->naive_median_ape_pct);
  json_put_int(w, "memory_count", s->memory_count);
  put_error(w, "memory_mape_pct", s->memory_count, s->memory_mape_pct);
  json_put_int(w, "refused", s->refused);
}

static void write_summary(JsonWriter *w, const Validation *v)
{
  CaseSummary all = validation_summary(v, NULL), stated = validation_summary(v, CASES_STATED);
  g_autoptr(GArray) sweeps = validation_sweeps(v);

  json_open(w, "summary", '{');
  write_errors(w, &all);
  json_open(w, "fully_stated", '{');
  write_errors(w, &stated);
  json_close(w, '}');
  for (int o = OUTCOME_RAN; o < OUTCOME_COUNT; o++) {
    OutcomeSummary outcome = validation_outcomes(v, o);
    if (outcome.count == 0)
      continue;
    json_open(w, outcome_names[o], '{');
    json_put_int(w, "count", outcome.count);
    json_put_int(w, "predicted_so", outcome.right);
    json_put_int(w, "predicted_so_at_margin", outcome.right_kept);
    json_close(w, '}');
  }
  json_open(w, "sweeps", '[');
  for (guint i = 0; i < sweeps->len; i++) {
    const SweepSummary *sweep = &g_array_index(sweeps, SweepSummary, i);
    json_open(w, NULL, '{');
    json_put_string(w, "sweep", sweep->sweep);
    json_put_int(w, "count", sweep->count);
    if (isfinite(sweep->spearman))
      json_put_real(w, "spearman", sweep->spearman);
    else
      json_put_string(w, "spearman", NULL);
    json_put_real(w, "top1_regret_pct", sweep->top1_regret_pct);
    json_close(w, '}');
  }
  json_close(w, ']');
  json_close(w, '}');
}

char *validation_json(const Validation *v)
{
  GString *text = g_string_new(NULL);
  JsonWriter w;

  json_writer_init(&w, text);
  json_open(&w, NULL, '{');
  json_put_string(&w, "schema", "tdp-validate-1");
  json_open(&w, "cases", '[');
  for (guint i = 0; i < v->cases->len; i++)
    write_case(&w, v, case_at(v, i));
  json_close(&w, ']');
  write_summary(&w, v);
  json_close(&w, '}');
  g_string_append_c(text, '\n');
  return g_string_free(text, FALSE);
}

/* A number, or an empty cell. */
static void put_figure(GString *text, gboolean known, const char *format, double value)
{
  if (known)
    g_string_append_printf(text, format, value);
  g_string_append_c(text, ',');
}

char *validation_csv(const Validation *v)
{
  GString *text = g_string_new("id,sweep,measured_s,predicted_s,error_pct,naive_s,measured_memory_bytes,"
                               "predicted_memory_bytes,memory_error_pct,memory_need,reason,defaulted\n");

  for (guint i = 0; i < v->cases->len; i++) {
    const CaseResult *r = case_at(v, i);
    gboolean timed = case_is_timed(r), memory = case_has_memory(r);
    csv_put(text, r->id, FALSE);
    csv_put(text, r->sweep, FALSE);
    put_figure(text, r->measured_s > 0, "%.6g", r->measured_s);
    put_figure(text, !r->skipped, "%.6g", r->predicted_s);
    put_figure(text, timed, "%.3f", timed ? case_error_pct(r) : 0);
    put_figure(text, r->naive_s > 0, "%.6g", r->naive_s);
    put_figure(text, memory, "%.0f", r->measured_memory_bytes);
    put_figure(text, memory, "%.0f", r->predicted_memory_bytes);
    put_figure(text, memory, "%.3f", memory ? memory_error_pct(r) : 0);
    put_figure(text, !r->skipped, "%.4f", r->memory_need);
    csv_put(text, r->skipped ? r->skipped : "", FALSE);
    csv_put(text, r->defaulted, TRUE);
  }
  return g_string_free(text, FALSE);
}

char *validation_naive_text(const CaseSummary *s)
{
  return s->naive_count ? g_strdup_printf("; naive predictor %.1f %%", s->naive_mape_pct) : g_strdup("");
}

static void add_figure(Table *t, gboolean known, const char *format, double value)
{
  if (known)
    table_add(t, format, value);
  else
    table_add(t, "-");
}

static void add_summary(Table *t, const char *title, const CaseSummary *s)
{
  table_add(t, "%s|%d|%d|%d", title, s->count, s->skipped, s->defaulted);
  const double figures[] = { s->mape_pct, s->median_ape_pct, s->max_ape_pct, s->bias_pct, s->naive_mape_pct };
  const int counts[] = { s->count, s->count, s->count, s->count, s->naive_count };
  for (gsize i = 0; i < G_N_ELEMENTS(figures); i++)
    add_figure(t, counts[i] > 0, i == 3 ? "%+.1f" : "%.1f", figures[i]);
  table_add(t, "%d", s->memory_count);
  add_figure(t, s->memory_count > 0, "%.1f", s->memory_mape_pct);
  table_add(t, "%d", s->refused);
}

Table *validation_sources(const Validation *v)
{
  Table *t = table_new("<source|rows|skipped|defaulted|mean %|median %|max %|bias %|naive mean %|with memory|"
                       "memory mean %|said not to fit");
  CaseSummary all = validation_summary(v, NULL), stated = validation_summary(v, CASES_STATED);

  for (guint i = 0; i < v->cases->len; i++) {
    const char *file = case_at(v, i)->file;
    if (i > 0 && g_str_equal(file, case_at(v, i - 1)->file))
      continue;
    CaseSummary s = validation_summary(v, file);
    add_summary(t, file, &s);
  }
  add_summary(t, CASES_STATED, &stated);
  add_summary(t, "all", &all);
  return t;
}

Table *validation_rows(const Validation *v)
{
  Table *t =
      table_new(v->accuracy ? "<case|measured s|predicted s|80 % from|to|error %|naive error %|memory GiB|predicted|"
                              "error %|fits %|<defaulted"
                            : "<case|measured s|predicted s|error %|naive error %|memory GiB|predicted|error %|"
                              "<defaulted");

  for (guint i = 0; i < v->cases->len; i++) {
    const CaseResult *r = case_at(v, i);
    gboolean timed = case_is_timed(r), memory = case_has_memory(r);
    if (r->skipped)
      continue;
    table_add(t, "%s", r->id);
    add_figure(t, timed, "%.3f", r->measured_s);
    table_add(t, "%.3f", r->predicted_s);
    if (v->accuracy)
      table_add(t, "%.3f|%.3f", r->estimate.low_s, r->estimate.high_s);
    add_figure(t, timed, "%+.1f", timed ? case_error_pct(r) : 0);
    add_figure(t, r->naive_s > 0, "%+.1f", timed ? 100 * (r->naive_s / r->measured_s - 1) : 0);
    add_figure(t, memory, "%.1f", r->measured_memory_bytes / GIB);
    add_figure(t, memory, "%.1f", r->predicted_memory_bytes / GIB);
    add_figure(t, memory, "%+.1f", memory ? memory_error_pct(r) : 0);
    if (v->accuracy)
      table_add(t, "%.0f", 100 * r->estimate.fit_probability);
    table_add(t, "%s", *r->defaulted ? r->defaulted : "-");
  }
  return t;
}

Table *validation_skipped(const Validation *v)
{
  Table *t = table_new("<skipped because of|rows");

  for (guint i = 0; i < v->cases->len; i++) {
    const char *reason = case_at(v, i)->skipped;
    int count = 0;
    for (guint j = 0; reason && j < v->cases->len; j++) {
      if (g_strcmp0(case_at(v, j)->skipped, reason) != 0)
        continue;
      if (j < i)
        break;
      count++;
    }
    if (count > 0)
      table_add(t, "%s|%d", reason, count);
  }
  return t;
}

static Table *skipped_rows(const Validation *v)
{
  Table *t = table_new("<skipped|<because of");

  for (guint i = 0; i < v->cases->len; i++)
    if (case_at(v, i)->skipped)
      table_add(t, "%s|%s", case_at(v, i)->id, case_at(v, i)->skipped);
  return t;
}

/* Rows of which another software was simulated than they name. */
static Table *replaced_rows(const Validation *v)
{
  Table *t = table_new("<case|<of software|<simulated as");

  for (guint i = 0; i < v->cases->len; i++) {
    const CaseResult *r = case_at(v, i);
    if (!r->skipped && r->version_unknown)
      table_add(t, "%s|%s|%s", r->id, r->software, r->simulated);
  }
  return t;
}

Table *validation_defaulted(const Validation *v)
{
  Table *t = table_new("<column that took a default|rows");
  g_autoptr(GPtrArray) columns = g_ptr_array_new_with_free_func(g_free);
  g_autoptr(GArray) counts = g_array_new(FALSE, TRUE, sizeof(int));

  for (guint i = 0; i < v->cases->len; i++) {
    g_auto(GStrv) of_row = g_strsplit(case_at(v, i)->defaulted, " ", -1);
    for (int c = 0; !case_at(v, i)->skipped && of_row[c]; c++) {
      guint at = 0;
      while (at < columns->len && !g_str_equal(g_ptr_array_index(columns, at), of_row[c]))
        at++;
      if (at == columns->len) {
        g_ptr_array_add(columns, g_strdup(of_row[c]));
        g_array_set_size(counts, at + 1);
      }
      g_array_index(counts, int, at)++;
    }
  }
  for (guint i = 0; i < columns->len; i++) {
    table_add(t, "%s|%d", (const char *)g_ptr_array_index(columns, i), g_array_index(counts, int, i));
  }
  return t;
}

/* The rows of a table of reasons and counts, a line each. */
static void say_counts(GString *s, const char *what, Table *counts)
{
  g_autoptr(Table) owned = counts;

  for (int row = 0; row < table_rows(owned); row++)
    g_string_append_printf(s, "%s %3s: %s\n", what, table_cell(owned, row, 1), table_cell(owned, row, 0));
}

/* Runs said to have fitted, or not, and of how many that is predicted; nothing without any. */
static void say_outcomes(GString *s, const Validation *v)
{
  static const char *const titles[OUTCOME_COUNT] = { [OUTCOME_RAN] = "ran", [OUTCOME_OOM] = "out of memory" };
  g_autoptr(Table) t = table_new("<outcome|runs|predicted so|%|at the default margin|%");
  int runs = 0;

  for (int o = OUTCOME_OOM; o >= OUTCOME_RAN; o--) {
    OutcomeSummary outcome = validation_outcomes(v, o);
    table_add(t, "%s|%d|%d|%.0f|%d|%.0f", titles[o], outcome.count, outcome.right,
              100.0 * outcome.right / MAX(1, outcome.count), outcome.right_kept,
              100.0 * outcome.right_kept / MAX(1, outcome.count));
    runs += outcome.count;
  }
  g_autofree char *text = table_text(t, 0);
  if (runs)
    g_string_append_printf(s, "\n%s", text);
}

static void say_sweeps(GString *s, const Validation *v)
{
  g_autoptr(GArray) sweeps = validation_sweeps(v);
  g_autoptr(Table) t = table_new("<sweep|rows|rank correlation|regret %");

  for (guint i = 0; i < sweeps->len; i++) {
    const SweepSummary *sweep = &g_array_index(sweeps, SweepSummary, i);
    table_add(t, "%s|%d", sweep->sweep, sweep->count);
    add_figure(t, isfinite(sweep->spearman), "%.3f", sweep->spearman);
    table_add(t, "%.1f", sweep->top1_regret_pct);
  }
  if (sweeps->len > 0) {
    g_autofree char *text = table_text(t, 0);
    g_string_append_printf(s, "\n%s", text);
  }
}

char *validation_checks(const Validation *v)
{
  GString *s = g_string_new(NULL);

  say_outcomes(s, v);
  say_sweeps(s, v);
  return g_string_free(s, FALSE);
}

/* Nothing of an empty one. */
static void say_table(GString *s, Table *table)
{
  g_autoptr(Table) owned = table;
  g_autofree char *text = table_rows(owned) > 0 ? table_text(owned, 0) : NULL;

  if (text)
    g_string_append_printf(s, "%s\n", text);
}

char *validation_text(const Validation *v, gboolean rows)
{
  g_autoptr(Table) sources = validation_sources(v);
  g_autofree char *by_file = table_text(sources, 0);
  GString *s = g_string_new(NULL);

  if (rows) {
    say_table(s, validation_rows(v));
    say_table(s, skipped_rows(v));
    say_table(s, replaced_rows(v));
  }
  g_string_append(s, by_file);
  say_counts(s, "  skipped", validation_skipped(v));
  say_counts(s, "defaulted", validation_defaulted(v));
  g_autofree char *checks = validation_checks(v);
  g_string_append(s, checks);
  return g_string_free(s, FALSE);
}
