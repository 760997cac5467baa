#include "validate/residuals.h"

#include "base/error.h"
#include "base/files.h"

#include <gsl/gsl_sort.h>
#include <math.h>

#define MADE_BY "tdp-validate --write-accuracy (make accuracy) from the case files of tests/validation"

double residual_of(const CaseResult *r)
{
  return log(r->measured_s / r->predicted_s);
}

RunKind residual_kind(const CaseResult *r)
{
  RunKind kind = r->kind;

  kind.mfu *= r->predicted_s / r->measured_s;
  return kind;
}

double residuals_quantile(const double *values, const double *weights, int n, double share)
{
  g_autofree size_t *order = g_new(size_t, n);
  double all = 0, sum = 0;
  int at = 0;

  gsl_sort_index(order, values, 1, n);
  for (int i = 0; i < n; i++)
    all += weights ? weights[i] : 1;
  for (at = 0; at < n - 1; at++) {
    sum += weights ? weights[order[at]] : 1;
    if (sum >= share * all * (1 - 1e-12))
      break;
  }
  return values[order[at]];
}

static GPtrArray *rows_with(const Validation *v, gboolean (*counts)(const CaseResult *))
{
  GPtrArray *rows = g_ptr_array_new();

  for (guint i = 0; i < v->cases->len; i++)
    if (counts(g_ptr_array_index(v->cases, i)))
      g_ptr_array_add(rows, g_ptr_array_index(v->cases, i));
  return rows;
}

static gboolean has_memory(const CaseResult *r)
{
  return case_has_memory(r) && r->memory_need >= ACCURACY_SHARE_MIN;
}

GPtrArray *residuals_publishers(const GPtrArray *rows)
{
  GPtrArray *publishers = g_ptr_array_new();

  for (guint i = 0; i < rows->len; i++) {
    const CaseResult *r = g_ptr_array_index(rows, i);
    if (!g_ptr_array_find_with_equal_func(publishers, r->publisher, g_str_equal, NULL))
      g_ptr_array_add(publishers, r->publisher);
  }
  return publishers;
}

void residuals_put(JsonWriter *w, const char *key, double value)
{
  json_put_real(w, key, round(value * 1e4) / 1e4);
}

static void write_domain(const GPtrArray *timed, JsonWriter *w)
{
  g_autoptr(Domain) domain = domain_new();

  for (guint i = 0; i < timed->len; i++) {
    const RunKind kind = residual_kind(g_ptr_array_index(timed, i));
    domain_add(domain, &kind);
  }
  domain_write(domain, w);
}

static gboolean write_file(const GPtrArray *rows, const char *folder, const char *name,
                           void (*write)(const GPtrArray *, JsonWriter *), GError **error)
{
  g_autoptr(GPtrArray) publishers = residuals_publishers(rows);
  g_autoptr(GString) text = g_string_new(NULL);
  g_autofree char *path = g_build_filename(folder, name, NULL);
  JsonWriter w;

  json_writer_init(&w, text);
  json_open(&w, NULL, '{');
  json_put_string(&w, "source", MADE_BY);
  json_put_int(&w, "runs", rows->len);
  json_put_int(&w, "publishers", publishers->len);
  write(rows, &w);
  json_close(&w, '}');
  return files_write(path, text->str, text->len, error);
}

gboolean residuals_write(const Validation *v, const char *folder, GError **error)
{
  g_autoptr(GPtrArray) timed = rows_with(v, case_is_timed), memory = rows_with(v, has_memory);
  g_autoptr(GPtrArray) publishers = residuals_publishers(timed);

  if (publishers->len < 2 || memory->len == 0)
    return input_error(error, "%s: expected case files with times of at least two publishers, and with memory", folder);
  if (g_mkdir_with_parents(folder, 0777) != 0)
    return runtime_error(error, "%s: expected a folder, or a path where one can be made", folder);
  return write_file(timed, folder, "domain.json", write_domain, error) &&
         write_file(memory, folder, "memory.json", residuals_write_memory, error) &&
         write_file(timed, folder, "time.json", residuals_write_time, error) &&
         write_file(timed, folder, "differences.json", residuals_write_differences, error);
}
