/* differences.json: how much the residuals of two plans of one sweep differ. */
#include "validate/residuals.h"

#include <math.h>

/* What two plans have in common: bits. */
enum { SAME_DEGREES = 1, SAME_SCHEDULE = 2, CLASSES = 4 };

typedef struct {
  GArray *apart, *weights; /* of pairs; each sweep weighs alike */
  int sweeps;
} Class;

static int class_of(const RunKind *a, const RunKind *b)
{
  static const KindSize degrees[] = { KIND_GPUS, KIND_TP, KIND_PP, KIND_CP, KIND_EP };
  int same = SAME_DEGREES;

  for (gsize i = 0; i < G_N_ELEMENTS(degrees); i++)
    if (a->sizes[degrees[i]] != b->sizes[degrees[i]])
      same = 0;
  if (a->names[KIND_SCHEDULE] == b->names[KIND_SCHEDULE] && a->sizes[KIND_VPP] == b->sizes[KIND_VPP])
    same |= SAME_SCHEDULE;
  return same;
}

/* All pairs of a sweep that begins at row `first`, among the rows behind it. */
static void add_sweep(const GPtrArray *timed, guint first, Class classes[CLASSES])
{
  const char *sweep = ((const CaseResult *)g_ptr_array_index(timed, first))->sweep;
  int before[CLASSES], added[CLASSES];

  for (int c = 0; c < CLASSES; c++)
    before[c] = classes[c].apart->len;
  for (guint i = first; i < timed->len; i++) {
    const CaseResult *a = g_ptr_array_index(timed, i);
    for (guint j = i + 1; j < timed->len && g_str_equal(a->sweep, sweep); j++) {
      const CaseResult *b = g_ptr_array_index(timed, j);
      double apart = fabs(residual_of(a) - residual_of(b));
      if (g_str_equal(b->sweep, sweep))
        g_array_append_val(classes[class_of(&a->kind, &b->kind)].apart, apart);
    }
  }
  for (int c = 0; c < CLASSES; c++) {
    added[c] = classes[c].apart->len - before[c];
    double weight = 1.0 / MAX(1, added[c]);
    for (int i = 0; i < added[c]; i++)
      g_array_append_val(classes[c].weights, weight);
    classes[c].sweeps += added[c] > 0;
  }
}

static void write_class(const Class *class, int same, JsonWriter *w)
{
  static const struct { const char *key; double share; } quantiles[] = {
    { "median", 0.5 }, { "quantile_80", 0.8 }, { "quantile_90", 0.9 },
  };
  const double *apart = (const double *)class->apart->data, *weights = (const double *)class->weights->data;

  if (class->apart->len == 0)
    return;
  json_open(w, NULL, '{');
  json_put_bool(w, "same_degrees", same & SAME_DEGREES);
  json_put_bool(w, "same_schedule", !!(same & SAME_SCHEDULE));
  json_put_int(w, "sweeps", class->sweeps);
  json_put_int(w, "pairs", class->apart->len);
  for (gsize i = 0; i < G_N_ELEMENTS(quantiles); i++)
    residuals_put(w, quantiles[i].key,
                  residuals_quantile(apart, weights, class->apart->len, quantiles[i].share));
  json_close(w, '}');
}

void residuals_write_differences(const GPtrArray *timed, JsonWriter *w)
{
  g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
  Class classes[CLASSES] = { 0 };

  for (int c = 0; c < CLASSES; c++) {
    classes[c].apart = g_array_new(FALSE, FALSE, sizeof(double));
    classes[c].weights = g_array_new(FALSE, FALSE, sizeof(double));
  }
  for (guint i = 0; i < timed->len; i++) {
    const CaseResult *r = g_ptr_array_index(timed, i);
    if (*r->sweep && g_hash_table_add(seen, r->sweep))
      add_sweep(timed, i, classes);
  }
  json_open(w, "pairs", '[');
  for (int c = CLASSES - 1; c >= 0; c--)
    write_class(&classes[c], c, w);
  json_close(w, ']');
  for (int c = 0; c < CLASSES; c++) {
    g_array_unref(classes[c].apart);
    g_array_unref(classes[c].weights);
  }
}
