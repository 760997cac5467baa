/* time.json: tails of residuals over their scale, and how often they hold for publishers that are left out. */
#include "validate/residuals.h"

#include <math.h>

/* Columns over the timed rows. */
typedef struct {
  int n;
  double *residual, *scale, *weight; /* weight: each publisher counts alike */
  guint *publisher;                  /* index */
} Rows;

static guint place_of(GPtrArray *publishers, const char *publisher)
{
  guint at = 0;

  g_ptr_array_find_with_equal_func(publishers, publisher, g_str_equal, &at);
  return at;
}

/* What all publishers' runs but one's are made of. */
static Domain *domain_without(const GPtrArray *timed, const char *publisher)
{
  Domain *domain = domain_new();

  for (guint i = 0; i < timed->len; i++) {
    const CaseResult *r = g_ptr_array_index(timed, i);
    const RunKind kind = residual_kind(r);
    if (!g_str_equal(r->publisher, publisher))
      domain_add(domain, &kind);
  }
  return domain;
}

static void rows_init(Rows *rows, const GPtrArray *timed, GPtrArray *publishers)
{
  g_autofree int *count = g_new0(int, publishers->len);

  *rows = (Rows) { .n = timed->len, .residual = g_new(double, timed->len), .scale = g_new(double, timed->len),
                   .weight = g_new(double, timed->len), .publisher = g_new(guint, timed->len) };
  for (int i = 0; i < rows->n; i++) {
    const CaseResult *r = g_ptr_array_index(timed, i);
    rows->residual[i] = residual_of(r);
    rows->publisher[i] = place_of(publishers, r->publisher);
    count[rows->publisher[i]]++;
  }
  for (guint p = 0; p < publishers->len; p++) {
    g_autoptr(Domain) others = domain_without(timed, g_ptr_array_index(publishers, p));
    for (int i = 0; i < rows->n; i++) {
      const CaseResult *r = g_ptr_array_index(timed, i);
      if (rows->publisher[i] != p)
        continue;
      g_autofree char *outside = domain_outside(others, &r->kind);
      rows->scale[i] = accuracy_scale(&r->kind, r->version_unknown, outside != NULL);
      rows->weight[i] = 1.0 / count[p];
    }
  }
}

static void rows_clear(Rows *rows)
{
  g_free(rows->residual);
  g_free(rows->scale);
  g_free(rows->weight);
  g_free(rows->publisher);
}

/* Of all rows but a publisher's; G_MAXUINT = of all. A publisher counts as the root of its rows, which are neither one
 * run nor as many independent ones. */
static AccuracyTails tails_without(const Rows *rows, guint publisher, double level)
{
  g_autofree double *values = g_new(double, rows->n), *weights = g_new(double, rows->n);
  int n = 0;

  for (int i = 0; i < rows->n; i++) {
    if (rows->publisher[i] == publisher)
      continue;
    values[n] = rows->residual[i] / rows->scale[i];
    weights[n++] = sqrt(rows->weight[i]);
  }
  return (AccuracyTails) { residuals_quantile(values, weights, n, (1 - level) / 2),
                           residuals_quantile(values, weights, n, (1 + level) / 2) };
}

static void write_level(const Rows *rows, const GPtrArray *publishers, double level, JsonWriter *w)
{
  g_autofree double *half = g_new(double, rows->n);
  AccuracyTails all = tails_without(rows, G_MAXUINT, level);
  double within = 0, weighted = 0;

  for (guint p = 0; p < publishers->len; p++) {
    AccuracyTails tails = tails_without(rows, p, level);
    for (int i = 0; i < rows->n; i++) {
      double r = rows->residual[i] / rows->scale[i];
      if (rows->publisher[i] != p)
        continue;
      half[i] = (tails.high - tails.low) / 2 * rows->scale[i];
      within += r >= tails.low && r <= tails.high;
      weighted += r >= tails.low && r <= tails.high ? rows->weight[i] : 0;
    }
  }
  json_open(w, NULL, '{');
  residuals_put(w, "level", level);
  residuals_put(w, "low", all.low);
  residuals_put(w, "high", all.high);
  residuals_put(w, "coverage_pct_left_out", 100 * within / rows->n);
  residuals_put(w, "coverage_pct_left_out_publishers_alike", 100 * weighted / publishers->len);
  residuals_put(w, "median_half_width_pct", 100 * residuals_quantile(half, NULL, rows->n, 0.5));
  json_close(w, '}');
}

void residuals_write_time(const GPtrArray *timed, JsonWriter *w)
{
  g_autoptr(GPtrArray) publishers = residuals_publishers(timed);
  Rows rows;

  rows_init(&rows, timed, publishers);
  json_open(w, "levels", '[');
  for (int level = 0; level < LEVEL_COUNT; level++)
    write_level(&rows, publishers, accuracy_levels[level], w);
  json_close(w, ']');
  rows_clear(&rows);
}
