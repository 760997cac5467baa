/* The accuracy that we already had. */
#include "base/error.h"
#include "validate/validate.h"

#define SLACK_POINTS 0.05

static void put_line(GString *text, const char *source, const CaseSummary *s)
{
  csv_put(text, source, FALSE);
  g_string_append_printf(text, "%d,%.2f,%d,%.2f\n", s->count, s->mape_pct, s->memory_count, s->memory_mape_pct);
}

char *validation_baseline(const Validation *v)
{
  GString *text = g_string_new("source,rows,mean_pct,memory_rows,memory_mean_pct\n");
  CaseSummary all = validation_summary(v, NULL), stated = validation_summary(v, CASES_STATED);

  for (guint i = 0; i < v->cases->len; i++) {
    const CaseResult *r = g_ptr_array_index(v->cases, i);
    const CaseResult *before = i > 0 ? g_ptr_array_index(v->cases, i - 1) : NULL;
    if (before && g_str_equal(r->file, before->file))
      continue;
    CaseSummary s = validation_summary(v, r->file);
    put_line(text, r->file, &s);
  }
  put_line(text, CASES_STATED, &stated);
  put_line(text, "all", &all);
  return g_string_free(text, FALSE);
}

static gboolean lost(const char *source, const char *what, double now, double before, GError **error)
{
  g_set_error(error, TDP_ERROR, TDP_ERROR_TOLERANCE, "%s: %s: %g: expected no worse than %g", source, what, now,
              before);
  return FALSE;
}

typedef struct {
  int rows, memory_rows;
  double mean, memory_mean;
} Had;

static gboolean read_line(const Csv *csv, int row, Had *had, GError **error)
{
  return csv_int(csv, row, "rows", &had->rows, error) && csv_real(csv, row, "mean_pct", &had->mean, error) &&
         csv_int(csv, row, "memory_rows", &had->memory_rows, error) &&
         csv_real(csv, row, "memory_mean_pct", &had->memory_mean, error);
}

gboolean validation_check(const Validation *v, const char *path, GError **error)
{
  g_autoptr(Csv) csv = csv_load(path, error);

  for (guint row = 0; csv && row < csv->rows->len; row++) {
    const char *source = csv_cell(csv, row, "source");
    CaseSummary now = validation_summary(v, g_str_equal(source, "all") ? NULL : source);
    Had had = { 0 };
    if (!read_line(csv, row, &had, error))
      return FALSE;
    if (now.count < had.rows)
      return lost(source, "rows simulated", now.count, had.rows, error);
    /* more rows than before are another set: their mean has no past */
    if (now.count == had.rows && now.mape_pct > had.mean + SLACK_POINTS)
      return lost(source, "mean error in percent", now.mape_pct, had.mean, error);
    if (now.memory_count == had.memory_rows && now.memory_mape_pct > had.memory_mean + SLACK_POINTS)
      return lost(source, "mean memory error in percent", now.memory_mape_pct, had.memory_mean, error);
  }
  return csv != NULL;
}
