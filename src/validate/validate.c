#include "validate/validate.h"

#include "base/error.h"
#include "base/files.h"
#include "base/sort.h"
#include "base/units.h"
#include "sim/simulate.h"
#include "validate/ablation.h"
#include "validate/case.h"
#include "validate/cells.h"
#include "validate/passes.h"
#include "validate/unstated.h"

#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <string.h>

#define MOST 1e9 /* of measured seconds and GiB */

static void case_result_clear(CaseResult *r)
{
  g_free(r->id);
  g_free(r->sweep);
  g_free(r->file);
  g_free(r->key);
  g_free(r->skipped);
  g_free(r->defaulted);
  g_free(r->software);
  g_free(r->simulated);
  g_free(r->publisher);
}

static void case_result_free(gpointer data)
{
  case_result_clear(data);
  g_free(data);
}

Validation *validation_new(int ablation)
{
  Validation *v = g_new0(Validation, 1);
  v->ablation = ablation;
  v->cases = g_ptr_array_new_with_free_func(case_result_free);
  return v;
}

void validation_free(Validation *v)
{
  if (!v)
    return;
  g_ptr_array_unref(v->cases);
  g_free(v->path);
  g_free(v);
}

gboolean case_is_timed(const CaseResult *r)
{
  return !r->skipped && r->measured_s > 0;
}

double case_error_pct(const CaseResult *r)
{
  return 100 * (r->predicted_s / r->measured_s - 1);
}

/* Of the row's device. Where blocks that are kept for the step do not fit, the allocator gives them back. */
static double row_counted(MemoryCount count, const Trace *trace, int row)
{
  double bytes[PART_COUNT], peak = trace_row_peak(trace, row, bytes);
  double held = MAX(peak, MIN(trace_row_reserved(trace, row), trace->rows[row].capacity_bytes));

  if (count == MEMORY_ALLOCATED)
    return peak - bytes[PART_OVERHEAD];
  return count == MEMORY_RESERVED ? held - trace->rows[row].static_bytes[PART_OVERHEAD] : held;
}

/* The part of the peak that a figure of this kind counts, of the stage whose figures the software gives. */
static double memory_counted(const Case *c, MemoryCount count, const Layout *layout, const Trace *trace,
                             const Metrics *m)
{
  int stage = c->unstated.memory_stage == MEMORY_LAST ? plan_stages(&c->plan) - 1 : 0;
  double most = row_counted(count, trace, m->peak_row);

  if (c->unstated.memory_stage != MEMORY_FULLEST)
    return row_counted(count, trace, pipeline_rank(&layout->pipeline, stage, 0));
  for (int row = 0; row < trace->n_rows && count != MEMORY_ALLOCATED; row++)
    most = MAX(most, row_counted(count, trace, row));
  return most;
}

static Trace *simulate_case(const Case *c, const Layout *layout, const TimedPasses *passes)
{
  g_autoptr(PriceTable) prices = price_table_new(c->model, layout, c->cluster);
  g_autoptr(Program) program = program_new(c->model, layout, c->cluster, prices);

  if (passes->forward_s)
    program_time_passes(program, passes->forward_s, passes->backward_s);
  return simulate(program);
}

/* Whether it fits its devices. */
static gboolean run_case(const Case *c, const TimedPasses *passes, CaseResult *out)
{
  const Layout layout = layout_of(&c->plan);
  g_autoptr(Trace) trace = simulate_case(c, &layout, passes);
  Metrics metrics;

  trace_metrics(trace, &metrics);
  out->predicted_s = metrics.iteration_s;
  out->predicted_memory_bytes = memory_counted(c, c->memory, &layout, trace, &metrics);
  out->predicted_reserved_bytes = memory_counted(c, MEMORY_RESERVED, &layout, trace, &metrics);
  out->memory_need = metrics.peak_memory_bytes / metrics.capacity_bytes;
  out->peak_flops_per_s = c->cluster->device.peak_flops_per_s[plan_format(&c->plan)];
  out->flops_per_gpu = model_flops(c->model, c->plan.seq) * c->plan.global_batch / c->plan.gpus *
                       (c->plan.recompute == RECOMPUTE_FULL && !recompute_counts(&c->plan.scope) ? 4.0 / 3 : 1);
  out->memory = c->memory;
  out->kind = run_kind(c->model, &layout, c->cluster, &metrics);
  return out->memory_need <= 1;
}

static void name_software(const Csv *csv, int row, const Framework *simulated, CaseResult *out)
{
  const char *generation = csv_cell(csv, row, "generation"), *framework = csv_cell(csv, row, "framework");

  g_free(out->software);
  g_free(out->simulated);
  out->software = g_strdup(*generation ? generation : *framework ? framework : "not stated");
  out->simulated = g_strdup(simulated->name);
}

/* Runs a row with what it leaves open as said. The run existed, so one that does not fit and could be lighter is not
 * what it did: `again` is set. */
static gboolean try_row(const Validation *v, const Csv *csv, int row, OpenChoice choice, CaseResult *out,
                        gboolean *again, GError **error)
{
  TimedPasses passes = { 0 };
  Case c;
  gboolean ok = case_init(&c, csv, row, choice, &out->skipped, error);

  *again = FALSE;
  g_free(out->defaulted);
  out->defaulted = case_defaulted(&c);
  out->doubles = c.doubles;
  out->chunks_most = c.chunks_most;
  out->version_unknown = case_has_default(&c, "generation");
  if (ok && !out->skipped && v->timed_passes &&
      !timed_passes_init(&passes, csv_cell(csv, row, "note"), plan_stages(&c.plan)))
    out->skipped = g_strdup("passes not timed");
  if (ok && !out->skipped) {
    name_software(csv, row, c.framework, out);
    ablate(v->ablation, c.cluster, c.framework);
    *again = !run_case(&c, &passes, out) && out->outcome == OUTCOME_UNSAID && unstated_lighten(&c, 1);
  }
  timed_passes_clear(&passes);
  case_clear(&c);
  return ok;
}

static gboolean fit_row(const Validation *v, const Csv *csv, int row, OpenChoice choice, CaseResult *out,
                        GError **error)
{
  gboolean again = TRUE;

  for (choice.steps = 0; again; choice.steps++)
    if (!try_row(v, csv, row, choice, out, &again, error))
      return FALSE;
  return TRUE;
}

/* Whether a choice can run and is faster than what was found, which it then is. */
static gboolean try_choice(const Validation *v, const Csv *csv, int row, OpenChoice choice, CaseResult *r,
                           gboolean *faster, GError **error)
{
  CaseResult trial = { 0 };
  gboolean ok = fit_row(v, csv, row, choice, &trial, error);

  *faster = ok && !trial.skipped && trial.predicted_s < r->predicted_s;
  if (*faster) {
    r->predicted_s = trial.predicted_s;
    r->predicted_memory_bytes = trial.predicted_memory_bytes;
    r->predicted_reserved_bytes = trial.predicted_reserved_bytes;
    r->memory_need = trial.memory_need;
    r->flops_per_gpu = trial.flops_per_gpu;
    r->kind = trial.kind;
  }
  case_result_clear(&trial);
  return ok;
}

/* What is open and may be doubled is, as long as that is faster; with each number of chunks that cuts a stage evenly,
 * where these are open. */
static gboolean tune_row(const Validation *v, const Csv *csv, int row, CaseResult *r, GError **error)
{
  int most = r->skipped ? 0 : r->chunks_most;
  gboolean doubles = r->doubles, ok = TRUE;

  for (int chunks = 1; ok && chunks <= most; chunks++) {
    OpenChoice choice = { .chunks = chunks, .doublings = chunks == 1 };
    gboolean faster = chunks > 1 || doubles;
    for (; ok && most % chunks == 0 && faster && (doubles || choice.doublings == 0); choice.doublings++)
      ok = try_choice(v, csv, row, choice, r, &faster, error);
  }
  return ok;
}

static gboolean read_outcome(const Csv *csv, int row, Outcome *outcome, GError **error)
{
  static const char *const names[] = { "", "ran", "oom", NULL };
  int found = names_find(names, cells_optional(csv, row, "outcome"));

  *outcome = MAX(found, 0);
  return found >= 0 || csv_refuse(csv, row, "outcome", "ran, oom or nothing", error);
}

/* 0 where the cell is blank or the file has no such column. */
static gboolean read_measured(const Csv *csv, int row, const char *column, double *out, GError **error)
{
  const char *cell = cells_optional(csv, row, column);

  *out = 0;
  if (!cell[strspn(cell, " ")])
    return TRUE;
  if (!csv_real(csv, row, column, out, error))
    return FALSE;
  g_autofree char *expected = g_strdup_printf("a number above 0 and at most %g", MOST);
  return (*out > 0 && *out <= MOST) || csv_refuse(csv, row, column, expected, error);
}

/* Seconds of a step; where only a rate was published, those that its tokens take, if the row says how many they are. */
static gboolean read_time(const Csv *csv, int row, double *out, GError **error)
{
  double rate, batch, seq, gpus;

  if (!read_measured(csv, row, "iteration_s", out, error))
    return FALSE;
  if (*out > 0)
    return TRUE;
  if (!read_measured(csv, row, "tokens_per_s_per_gpu", &rate, error) ||
      !read_measured(csv, row, "global_batch", &batch, error) || !read_measured(csv, row, "seq", &seq, error) ||
      !read_measured(csv, row, "gpus", &gpus, error))
    return FALSE;
  if (rate > 0 && gpus > 0)
    *out = batch * seq / (gpus * rate);
  return TRUE;
}

/* What was reserved has what was allocated in it. */
static gboolean read_memory(const Csv *csv, int row, CaseResult *r, GError **error)
{
  double gib, reserved_gib;

  if (!read_measured(csv, row, "memory_gib", &gib, error) ||
      !read_measured(csv, row, "memory_reserved_gib", &reserved_gib, error))
    return FALSE;
  if (reserved_gib > 0 && (reserved_gib < gib || gib == 0 || !g_str_equal(csv_cell(csv, row, "memory_kind"), "max_allocated")))
    return csv_refuse(csv, row, "memory_reserved_gib", "no less than memory_gib, of the kind max_allocated", error);
  r->measured_memory_bytes = gib * GIB;
  r->measured_reserved_bytes = reserved_gib * GIB;
  return TRUE;
}

static gboolean run_row(const Validation *v, const Csv *csv, int row, CaseResult *r, GError **error)
{
  if (!read_time(csv, row, &r->measured_s, error) || !read_memory(csv, row, r, error) ||
      !read_outcome(csv, row, &r->outcome, error))
    return FALSE;
  return fit_row(v, csv, row, (OpenChoice) { 0 }, r, error) && (r->outcome || tune_row(v, csv, row, r, error));
}

static char *publisher_of(const Csv *csv, int row, const char *file)
{
  const char *source = csv_cell(csv, row, "source");
  gsize length = strcspn(source, " ,;");

  return length ? g_strndup(source, length) : g_strdup(file);
}

/* FALSE if a cell makes no sense; the row is skipped for that reason. */
static gboolean add_row(Validation *v, const Csv *csv, const char *file, int row, GError **error)
{
  CaseResult *r = g_new0(CaseResult, 1);
  GError *bad = NULL;

  g_ptr_array_add(v->cases, r);
  r->id = g_strdup(csv_cell(csv, row, "id"));
  r->sweep = g_strdup(csv_cell(csv, row, "sweep"));
  r->file = g_strdup(file);
  r->defaulted = g_strdup("");
  r->publisher = publisher_of(csv, row, file);
  r->key = g_strdup_printf("%s %s", csv_cell(csv, row, "cluster"), csv_cell(csv, row, "precision"));
  if (run_row(v, csv, row, r, &bad))
    return TRUE;
  g_free(r->skipped);
  r->skipped = g_strdup(bad->message);
  g_propagate_error(error, bad);
  return FALSE;
}

/* A report of tdp-run is one row; reports of one folder are a sweep. */
static gboolean add_report(Validation *v, const char *text, gsize length, const char *path, GError **error)
{
  g_autofree char *folder = g_path_get_dirname(path);
  const TimedPasses passes = { 0 };
  CaseResult *r = g_new0(CaseResult, 1);
  Case c;
  gboolean ok;

  g_ptr_array_add(v->cases, r);
  r->id = g_path_get_basename(path);
  r->sweep = g_path_get_basename(folder);
  r->file = g_strdup("tdp-run");
  r->publisher = g_strdup(r->sweep);
  ok = case_init_report(&c, text, length, path, &r->measured_s, &r->measured_memory_bytes, error);
  r->defaulted = case_defaulted(&c);
  if (ok) {
    r->key = g_strdup_printf("%s %s", c.cluster->name, dtype_names[c.plan.precision]);
    ablate(v->ablation, c.cluster, c.framework);
    run_case(&c, &passes, r);
  } else {
    r->key = g_strdup("");
  }
  case_clear(&c);
  return ok;
}

static gboolean is_json(const char *text)
{
  return text[strspn(text, " \t\r\n")] == '{';
}

gboolean validation_add_file(Validation *v, const char *path, GError **error)
{
  gsize length;
  g_autofree char *text = files_read(path, &length, error), *base = g_path_get_basename(path);

  if (!text)
    return FALSE;
  if (v->cases->len == 0) {
    g_free(v->path);
    v->path = g_strdup(path);
  }
  if (is_json(text))
    return add_report(v, text, length, path, error);
  g_autoptr(Csv) csv = strlen(text) == length ? csv_parse(text, path, error) : csv_load(path, error);
  if (!csv || !case_check_columns(csv, error))
    return FALSE;
  if (g_str_has_suffix(base, ".csv"))
    base[strlen(base) - 4] = '\0';
  GError *first = NULL;
  guint read = 0;
  for (guint row = 0; row < csv->rows->len; row++)
    read += add_row(v, csv, base, row, first ? NULL : &first);
  if (!first)
    return TRUE;
  if (read)
    g_error_free(first);
  else
    g_propagate_error(error, first);
  return read > 0;
}

gboolean validation_check_runs(const Validation *v, GError **error)
{
  const CaseResult *first = v->cases->len > 0 ? case_at(v, 0) : NULL;

  for (guint i = 0; i < v->cases->len; i++)
    if (!case_at(v, i)->skipped)
      return TRUE;
  if (!first)
    return input_error(error, "%s: no row: expected one that can be simulated", v->path ? v->path : "CASES");
  return input_error(error, "%s: %s: skipped, as all rows: %s: expected one that can be simulated", v->path, first->id,
                     first->skipped);
}

static double median_of(GArray *values)
{
  return values->len ? sort_median((double *)(gpointer)values->data, values->len) : 0;
}

/* 0 where a single row is of the key. */
static double naive_efficiency(const Validation *v, const char *key)
{
  g_autoptr(GArray) values = g_array_new(FALSE, FALSE, sizeof(double));

  for (guint i = 0; i < v->cases->len; i++) {
    const CaseResult *r = case_at(v, i);
    double efficiency = r->flops_per_gpu / (r->peak_flops_per_s * r->measured_s);
    if (case_is_timed(r) && g_str_equal(r->key, key))
      g_array_append_val(values, efficiency);
  }
  return values->len > 1 ? median_of(values) : 0;
}

static void estimate(const Validation *v, CaseResult *r)
{
  if (v->accuracy && !r->skipped)
    r->estimate = accuracy_estimate_kind(v->accuracy, &r->kind, r->version_unknown, r->predicted_s, r->memory_need);
}

void validation_finish(Validation *v)
{
  for (guint i = 0; i < v->cases->len; i++) {
    CaseResult *r = g_ptr_array_index(v->cases, i);
    double efficiency = case_is_timed(r) ? naive_efficiency(v, r->key) : 0;
    if (efficiency > 0)
      r->naive_s = r->flops_per_gpu / (r->peak_flops_per_s * efficiency);
    estimate(v, r);
  }
}

static double mean_of(const GArray *values)
{
  return values->len ? gsl_stats_mean((const double *)values->data, 1, values->len) : 0;
}

static void put(GArray *values, double value)
{
  g_array_append_val(values, value);
}

static gboolean is_of(const CaseResult *r, const char *file)
{
  return !file || (g_str_equal(file, CASES_STATED) ? !*r->defaulted : g_str_equal(r->file, file));
}

CaseSummary validation_summary(const Validation *v, const char *file)
{
  g_autoptr(GArray) ape = g_array_new(FALSE, FALSE, sizeof(double));
  g_autoptr(GArray) naive = g_array_new(FALSE, FALSE, sizeof(double));
  g_autoptr(GArray) memory = g_array_new(FALSE, FALSE, sizeof(double));
  CaseSummary s = { 0 };

  for (guint i = 0; i < v->cases->len; i++) {
    const CaseResult *r = case_at(v, i);
    if (!is_of(r, file))
      continue;
    if (r->skipped) {
      s.skipped += !g_str_equal(file ? file : "", CASES_STATED);
      continue;
    }
    s.defaulted += *r->defaulted != '\0';
    s.refused += r->outcome != OUTCOME_OOM && r->memory_need > 1;
    if (r->measured_memory_bytes > 0)
      put(memory, 100 * fabs(r->predicted_memory_bytes / r->measured_memory_bytes - 1));
    if (!case_is_timed(r))
      continue;
    put(ape, fabs(case_error_pct(r)));
    if (r->naive_s > 0)
      put(naive, 100 * fabs(r->naive_s / r->measured_s - 1));
    s.bias_pct += case_error_pct(r);
    s.max_ape_pct = MAX(s.max_ape_pct, fabs(case_error_pct(r)));
  }
  s.count = ape->len;
  s.bias_pct /= MAX(1, s.count);
  s.mape_pct = mean_of(ape);
  s.median_ape_pct = median_of(ape);
  s.naive_count = naive->len;
  s.naive_mape_pct = mean_of(naive);
  s.naive_median_ape_pct = median_of(naive);
  s.memory_count = memory->len;
  s.memory_mape_pct = mean_of(memory);
  return s;
}

OutcomeSummary validation_outcomes(const Validation *v, Outcome outcome)
{
  OutcomeSummary s = { 0 };

  for (guint i = 0; i < v->cases->len; i++) {
    const CaseResult *r = case_at(v, i);
    if (r->skipped || r->outcome != outcome)
      continue;
    double margin = v->accuracy ? accuracy_margin(v->accuracy, r->kind.names[KIND_ENGINE]) : 0;
    s.count++;
    s.right += (r->memory_need <= 1) == (outcome == OUTCOME_RAN);
    s.right_kept += (r->memory_need <= 1 - margin) == (outcome == OUTCOME_RAN);
  }
  return s;
}

/* Mean of what was measured of the rows that are predicted fastest: one plan that ran more than once is predicted
 * alike each time, and none of its runs is the one that was chosen. */
static double measured_of_fastest(const double *predicted, const double *measured, int count)
{
  double fastest = gsl_stats_min(predicted, 1, count), sum = 0;
  int alike = 0;

  for (int i = 0; i < count; i++)
    if (predicted[i] == fastest) {
      sum += measured[i];
      alike++;
    }
  return sum / alike;
}

static SweepSummary summarize_sweep(const Validation *v, const char *sweep)
{
  g_autoptr(GArray) predicted = g_array_new(FALSE, FALSE, sizeof(double));
  g_autoptr(GArray) measured = g_array_new(FALSE, FALSE, sizeof(double));
  SweepSummary s = { .sweep = sweep };

  for (guint i = 0; i < v->cases->len; i++) {
    const CaseResult *r = case_at(v, i);
    if (!case_is_timed(r) || !g_str_equal(r->sweep, sweep))
      continue;
    put(predicted, r->predicted_s);
    put(measured, r->measured_s);
  }
  s.count = predicted->len;
  if (s.count < 2)
    return s;
  const double *p = (double *)predicted->data, *m = (double *)measured->data;
  g_autofree double *work = g_new(double, 2 * s.count);
  s.spearman = gsl_stats_spearman(p, 1, m, 1, s.count, work);
  s.top1_regret_pct = 100 * (measured_of_fastest(p, m, s.count) / gsl_stats_min(m, 1, s.count) - 1);
  return s;
}

GArray *validation_sweeps(const Validation *v)
{
  GArray *sweeps = g_array_new(FALSE, FALSE, sizeof(SweepSummary));
  g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);

  for (guint i = 0; i < v->cases->len; i++) {
    const char *sweep = case_at(v, i)->sweep;
    if (!*sweep || !g_hash_table_add(seen, (gpointer)sweep))
      continue;
    SweepSummary s = summarize_sweep(v, sweep);
    if (s.count >= 5)
      g_array_append_val(sweeps, s);
  }
  return sweeps;
}
