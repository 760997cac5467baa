#include "accuracy/accuracy.h"

#include "base/files.h"
#include "base/sort.h"

#include <math.h>

/* Of a step that only computes, and more for what it does not; without and with experts. */
static const double scale_computed[] = { 0.05, 0.1 }, scale_exposed[] = { 0.075, 0.4 };

#define SCALE_VERSION 3
#define SCALE_OUTSIDE 1.2

/* Ratios measured / predicted of an engine's runs. */
typedef struct {
  char *engine; /* NULL = all */
  double margin;
  GArray *ratios; /* RatioWeight, rising */
} Ratios;

struct Accuracy {
  Domain *domain;
  GArray *ratios; /* Ratios; all first */
  AccuracyTails tails[LEVEL_COUNT];
};

const double accuracy_levels[LEVEL_COUNT] = { 0.8, 0.9 };

double accuracy_scale(const RunKind *kind, gboolean version_unknown, gboolean outside)
{
  int experts = kind->experts != FALSE;
  double scale = scale_computed[experts] + scale_exposed[experts] * kind->exposed;

  return scale * (version_unknown ? SCALE_VERSION : 1) * (outside ? SCALE_OUTSIDE : 1);
}

/* The weight of a run is one over how many runs of its source have a memory; no source has more than a million. */
#define LEAST_WEIGHT 1e-6

static double sum_of_weights(const GArray *ratios)
{
  double sum = 0;

  for (guint i = 0; i < ratios->len; i++)
    sum += g_array_index(ratios, RatioWeight, i).weight;
  return sum;
}

/* Runs of one weight that say as much (Kish 1965). */
static double equal_runs(const GArray *ratios)
{
  double sum = sum_of_weights(ratios), squares = 0;

  for (guint i = 0; i < ratios->len; i++)
    squares += pow(g_array_index(ratios, RatioWeight, i).weight, 2);
  return sum * sum / squares;
}

GArray *accuracy_mixed(const GArray *own, const GArray *all)
{
  GArray *mixed = g_array_sized_new(FALSE, FALSE, sizeof(RatioWeight), own->len + all->len);
  double scale = ACCURACY_OTHERS / sum_of_weights(all);

  g_array_append_vals(mixed, own->data, own->len);
  for (guint i = 0; i < all->len; i++) {
    RatioWeight other = g_array_index(all, RatioWeight, i);
    other.weight *= scale;
    g_array_append_val(mixed, other);
  }
  g_array_sort(mixed, sort_reals);
  return mixed;
}

double accuracy_share(const GArray *ratios, double ratio)
{
  double within = 0, n = equal_runs(ratios);

  for (guint i = 0; i < ratios->len && g_array_index(ratios, RatioWeight, i).ratio <= ratio; i++)
    within += g_array_index(ratios, RatioWeight, i).weight;
  return within / sum_of_weights(ratios) * n / (n + 1);
}

double accuracy_margin_of(const GArray *ratios)
{
  double n = equal_runs(ratios), sum = sum_of_weights(ratios) * (n + 1) / n, within = 0, ratio = 0;

  for (guint i = 0; i < ratios->len && within < (1 - ACCURACY_EXCEEDING) * sum * (1 - 1e-9); i++) {
    ratio = g_array_index(ratios, RatioWeight, i).ratio;
    within += g_array_index(ratios, RatioWeight, i).weight;
  }
  return ratio > 1 ? ceil(1000 * (1 - 1 / ratio)) / 1000 : 0;
}

static void ratios_clear(gpointer data)
{
  Ratios *r = data;

  g_free(r->engine);
  g_clear_pointer(&r->ratios, g_array_unref);
}

void accuracy_free(Accuracy *a)
{
  if (!a)
    return;
  domain_free(a->domain);
  g_array_unref(a->ratios);
  g_free(a);
}

static JsonDoc *load(const char *name, GError **error)
{
  g_autofree char *below = g_strdup_printf("accuracy/%s.json", name), *path = files_data_path(below);
  return json_load(path, error);
}

static gboolean read_ratios(const JsonDoc *doc, const cJSON *object, Ratios *out, GError **error)
{
  const JsonField fields[] = {
    { "engine", JSON_STRING, G_STRUCT_OFFSET(Ratios, engine) },
    { "margin", JSON_REAL, G_STRUCT_OFFSET(Ratios, margin), TRUE, 0, 0.99 },
    { "ratios", JSON_ANY, .required = TRUE },
    { "weights", JSON_ANY, .required = TRUE },
  };
  const cJSON *list, *weights;

  if (!json_read_foreign(doc, object, fields, G_N_ELEMENTS(fields), out, error) ||
      !(list = json_get_array(doc, object, "ratios", TRUE, error)) ||
      !(weights = json_get_array(doc, object, "weights", TRUE, error)))
    return FALSE;
  int n = cJSON_GetArraySize(list);
  g_autofree double *ratio = g_new0(double, n + 1), *weight = g_new0(double, n + 1);
  if (cJSON_GetArraySize(weights) != n)
    return json_error(doc, weights, error, "%d numbers, one for each ratio", n);
  int found = json_get_reals(doc, list, ratio, n, error);
  if (found > 0 && json_get_reals(doc, weights, weight, n, error) < n)
    return FALSE;
  out->ratios = g_array_new(FALSE, FALSE, sizeof(RatioWeight));
  for (int i = 0; i < found; i++) {
    if (!(ratio[i] > 0) || (i > 0 && ratio[i] < ratio[i - 1]))
      return json_error(doc, list, error, "numbers above 0 that do not fall");
    if (!(weight[i] >= LEAST_WEIGHT && weight[i] <= 1))
      return json_error(doc, weights, error, "numbers from %g to 1", LEAST_WEIGHT);
    RatioWeight one = { ratio[i], weight[i] };
    g_array_append_val(out->ratios, one);
  }
  return found > 0 || (found == 0 && json_error(doc, list, error, "at least one number"));
}

static void mix_engines(GArray *engines)
{
  const GArray *all = g_array_index(engines, Ratios, 0).ratios;

  for (guint i = 1; i < engines->len; i++) {
    Ratios *r = &g_array_index(engines, Ratios, i);
    GArray *own = r->ratios;
    r->ratios = accuracy_mixed(own, all);
    g_array_unref(own);
  }
}

static gboolean read_memory(Accuracy *a, GError **error)
{
  g_autoptr(JsonDoc) doc = load("memory", error);
  const cJSON *engines = doc ? json_get_array(doc, json_root(doc), "engines", TRUE, error) : NULL, *item;

  cJSON_ArrayForEach(item, engines) {
    Ratios ratios = { 0 };
    gboolean ok = read_ratios(doc, item, &ratios, error);
    g_array_append_val(a->ratios, ratios);
    if (!ok)
      return FALSE;
  }
  if (!engines || (a->ratios->len == 0 && !json_error(doc, engines, error, "an entry for all engines first")))
    return FALSE;
  mix_engines(a->ratios);
  return TRUE;
}

static gboolean read_time(Accuracy *a, GError **error)
{
  static const JsonField fields[] = {
    { "low", JSON_REAL, G_STRUCT_OFFSET(AccuracyTails, low), TRUE, -100, 0 },
    { "high", JSON_REAL, G_STRUCT_OFFSET(AccuracyTails, high), TRUE, 0, 100 },
  };
  g_autoptr(JsonDoc) doc = load("time", error);
  const cJSON *levels = doc ? json_get_array(doc, json_root(doc), "levels", TRUE, error) : NULL;

  if (levels && cJSON_GetArraySize(levels) != LEVEL_COUNT)
    return json_error(doc, levels, error, "%d levels", LEVEL_COUNT);
  for (int i = 0; levels && i < LEVEL_COUNT; i++)
    if (!json_read_foreign(doc, cJSON_GetArrayItem(levels, i), fields, G_N_ELEMENTS(fields), &a->tails[i], error))
      return FALSE;
  return levels != NULL;
}

static gboolean read_domain(Accuracy *a, GError **error)
{
  g_autoptr(JsonDoc) doc = load("domain", error);

  a->domain = doc ? domain_read(doc, json_root(doc), error) : NULL;
  return a->domain != NULL;
}

Accuracy *accuracy_load(GError **error)
{
  g_autoptr(Accuracy) a = g_new0(Accuracy, 1);

  a->ratios = g_array_new(FALSE, FALSE, sizeof(Ratios));
  g_array_set_clear_func(a->ratios, ratios_clear);
  if (!read_domain(a, error) || !read_memory(a, error) || !read_time(a, error))
    return NULL;
  return g_steal_pointer(&a);
}

static const Ratios *ratios_of(const Accuracy *a, const char *engine)
{
  for (guint i = 1; i < a->ratios->len; i++)
    if (g_strcmp0(g_array_index(a->ratios, Ratios, i).engine, engine) == 0)
      return &g_array_index(a->ratios, Ratios, i);
  return &g_array_index(a->ratios, Ratios, 0);
}

double accuracy_margin(const Accuracy *a, const char *engine)
{
  return ratios_of(a, engine)->margin;
}

Estimate accuracy_estimate_kind(const Accuracy *a, const RunKind *kind, gboolean version_unknown, double iteration_s,
                                double need)
{
  const Ratios *ratios = ratios_of(a, kind->names[KIND_ENGINE]);
  const AccuracyTails *tails = &a->tails[LEVEL_80];
  g_autofree char *outside = domain_outside(a->domain, kind);
  double scale = accuracy_scale(kind, version_unknown, outside != NULL);

  return (Estimate) {
    .low_s = iteration_s * exp(tails->low * scale),
    .high_s = iteration_s * exp(tails->high * scale),
    .fit_probability = need > 0 ? accuracy_share(ratios->ratios, 1 / need) : 1,
    .outside = outside ? g_intern_string(outside) : NULL,
  };
}

int accuracy_beyond(const Accuracy *a, const Model *model, const Layout *layout, const Cluster *cluster)
{
  const Metrics none = { 0 };
  const RunKind kind = run_kind(model, layout, cluster, &none);

  return domain_beyond(a->domain, &kind);
}

Estimate accuracy_estimate(const Accuracy *a, const Model *model, const Layout *layout, const Cluster *cluster,
                           const Metrics *m)
{
  RunKind kind = run_kind(model, layout, cluster, m);
  gboolean version_unknown = domain_runs(a->domain, KIND_ENGINE, kind.names[KIND_ENGINE]) == 0;

  return accuracy_estimate_kind(a, &kind, version_unknown, m->iteration_s,
                                m->peak_memory_bytes / cluster_whole_bytes(cluster, m->capacity_bytes));
}
