#include "pages/claim.h"

#include "base/error.h"
#include "pages/claim_run.h"
#include "pages/expression.h"

#include <math.h>
#include <string.h>

typedef struct {
  Claim *claim;
  GHashTable *runs; /* name to ClaimRun, of one point */
} Trial;

static const char *text_of(const cJSON *object, const char *key)
{
  const cJSON *item = json_get(object, key);
  return cJSON_IsString(item) ? item->valuestring : NULL;
}

static double real_of(const cJSON *object, const char *key)
{
  const cJSON *item = json_get(object, key);
  return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

/* ---- runs ---- */

/* Objects are merged key by key; anything else replaces. */
static void merge(cJSON *into, const cJSON *from)
{
  const cJSON *item;

  cJSON_ArrayForEach(item, from) {
    cJSON *there = cJSON_GetObjectItemCaseSensitive(into, item->string);
    if (cJSON_IsObject(there) && cJSON_IsObject(item)) {
      merge(there, item);
    } else {
      cJSON_DeleteItemFromObjectCaseSensitive(into, item->string);
      if (!cJSON_IsNull(item))
        cJSON_AddItemToObject(into, item->string, cJSON_Duplicate(item, TRUE));
    }
  }
}

typedef struct {
  const char *name;
  double value;
} Variable;

static gboolean look_up_variable(gpointer data, const char *name, double *out)
{
  const Variable *v = data;
  *out = v->value;
  return v->name && g_str_equal(name, v->name);
}

/* Replaces strings "=EXPRESSION" by their values. */
static gboolean substitute(cJSON *object, Variable *v, GError **error)
{
  cJSON *item = object->child;

  while (item) {
    cJSON *next = item->next;
    double value;
    if (cJSON_IsString(item) && item->valuestring[0] == '=') {
      if (!expression_value(item->valuestring + 1, look_up_variable, v, &value, error))
        return FALSE;
      g_autofree char *key = g_strdup(item->string);
      if (key)
        cJSON_ReplaceItemInObjectCaseSensitive(object, key, cJSON_CreateNumber(value));
      else
        cJSON_ReplaceItemViaPointer(object, item, cJSON_CreateNumber(value));
    } else if (!substitute(item, v, error)) {
      return FALSE;
    }
    item = next;
  }
  return TRUE;
}

static gboolean run_all(Trial *t, Variable *v, GError **error)
{
  const cJSON *root = json_root(t->claim->doc), *defaults = json_get(root, "defaults"), *run;

  g_hash_table_remove_all(t->runs);
  cJSON_ArrayForEach(run, json_get(root, "runs")) {
    cJSON *whole = cJSON_CreateObject();
    merge(whole, defaults);
    merge(whole, run);
    ClaimRun *r = substitute(whole, v, error) ? claim_run_new(whole, error) : NULL;
    cJSON_Delete(whole);
    if (!r) {
      g_prefix_error(error, "%s: runs.%s: ", json_name(t->claim->doc), run->string);
      return FALSE;
    }
    g_hash_table_insert(t->runs, run->string, r);
  }
  return TRUE;
}

/* ---- names in expressions ---- */

static gboolean look_up_sweep(const Claim *c, const char *name, double *out)
{
  const cJSON *item;
  int i = 0;

  cJSON_ArrayForEach(item, json_get(c->sweep, "find")) {
    if (g_strcmp0(name, text_of(item, "name")) == 0) {
      *out = g_array_index(c->found, double, i);
      return (guint)i < c->found->len;
    }
    i++;
  }
  for (guint k = 0; k < c->series->len; k++) {
    const Series *s = &g_array_index(c->series, Series, k);
    gsize n = strlen(s->name);
    if (strncmp(name, s->name, n) != 0 || (!g_str_equal(name + n, ".first") && !g_str_equal(name + n, ".last")))
      continue;
    *out = g_array_index(s->values, double, name[n + 1] == 'f' ? 0 : s->values->len - 1);
    return TRUE;
  }
  return FALSE;
}

static gboolean look_up(gpointer data, const char *name, double *out)
{
  const Trial *t = data;
  const char *dot = strchr(name, '.');
  g_autofree char *run = dot ? g_strndup(name, dot - name) : NULL;
  const ClaimRun *r = run ? g_hash_table_lookup(t->runs, run) : NULL;

  return r ? claim_run_metric(r, dot + 1, out) : look_up_sweep(t->claim, name, out);
}

static gboolean value_of(Trial *t, const cJSON *item, const char *key, double *out, GError **error)
{
  const char *text = text_of(item, key);

  if (text && expression_value(text, look_up, t, out, error))
    return TRUE;
  if (!text)
    g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT, "%s: expected an expression", key);
  g_prefix_error(error, "%s: ", json_name(t->claim->doc));
  return FALSE;
}

/* ---- sweep ---- */

/* Where `values` pass `level`, between the logarithms of the points; NAN if they do not. */
static double crossing(const GArray *points, const GArray *values, double level)
{
  for (guint i = 1; i < points->len; i++) {
    double x0 = g_array_index(points, double, i - 1), x1 = g_array_index(points, double, i);
    double y0 = g_array_index(values, double, i - 1) - level, y1 = g_array_index(values, double, i) - level;
    if (y0 == 0 || y0 * y1 < 0)
      return x0 * pow(x1 / x0, y0 / (y0 - y1));
  }
  return NAN;
}

static double value_at(const GArray *points, const GArray *values, double x)
{
  for (guint i = 0; i < points->len; i++)
    if (g_array_index(points, double, i) == x)
      return g_array_index(values, double, i);
  return NAN;
}

static double least_at(const GArray *points, const GArray *values)
{
  guint best = 0;

  for (guint i = 1; i < points->len; i++)
    if (!(g_array_index(values, double, i) >= g_array_index(values, double, best)))
      best = i;
  return g_array_index(points, double, best);
}

static gboolean sweep(Trial *t, GError **error)
{
  Claim *c = t->claim;
  const cJSON *value, *item;
  g_autoptr(GPtrArray) sought = g_ptr_array_new_with_free_func((GDestroyNotify)g_array_unref);

  cJSON_ArrayForEach(item, json_get(c->sweep, "find"))
    g_ptr_array_add(sought, g_array_new(FALSE, FALSE, sizeof(double)));
  cJSON_ArrayForEach(item, json_get(c->sweep, "series")) {
    Series s = { text_of(item, "name"), text_of(item, "title"), g_array_new(FALSE, FALSE, sizeof(double)) };
    g_array_append_val(c->series, s);
  }
  cJSON_ArrayForEach(value, json_get(c->sweep, "values")) {
    Variable v = { text_of(c->sweep, "variable"), value->valuedouble };
    double y;
    int i = 0;
    if (!run_all(t, &v, error))
      return FALSE;
    g_array_append_val(c->points, v.value);
    cJSON_ArrayForEach(item, json_get(c->sweep, "series")) {
      if (!value_of(t, item, "value", &y, error))
        return FALSE;
      g_array_append_val(g_array_index(c->series, Series, i++).values, y);
    }
    i = 0;
    cJSON_ArrayForEach(item, json_get(c->sweep, "find")) {
      if (!value_of(t, item, json_get(item, "least") ? "least" : "value", &y, error))
        return FALSE;
      g_array_append_val((GArray *)g_ptr_array_index(sought, i++), y);
    }
  }
  int i = 0;
  cJSON_ArrayForEach(item, json_get(c->sweep, "find")) {
    const GArray *values = g_ptr_array_index(sought, i++);
    double found = json_get(item, "least") ? least_at(c->points, values)
                   : json_get(item, "at") ? value_at(c->points, values, real_of(item, "at"))
                                          : crossing(c->points, values, real_of(item, "crosses"));
    g_array_append_val(c->found, found);
  }
  return TRUE;
}

/* ---- figures ---- */

static gboolean figure_holds(const Figure *f)
{
  if (!isnan(f->expect))
    return fabs(f->value - f->expect) <= f->tolerance_pct / 100 * fabs(f->expect) + 1e-12;
  return !(isfinite(f->above) && !(f->value > f->above)) && !(isfinite(f->below) && !(f->value < f->below));
}

static gboolean add_figures(Trial *t, GError **error)
{
  const cJSON *item;

  cJSON_ArrayForEach(item, json_get(json_root(t->claim->doc), "figures")) {
    Figure f = { .what = text_of(item, "what"), .says = text_of(item, "says"), .expect = real_of(item, "expect"),
                 .tolerance_pct = real_of(item, "tolerance_pct"), .above = real_of(item, "above"),
                 .below = real_of(item, "below") };
    if (isnan(f.tolerance_pct))
      f.tolerance_pct = 0;
    if (!value_of(t, item, "value", &f.value, error))
      return FALSE;
    f.holds = figure_holds(&f);
    g_array_append_val(t->claim->figures, f);
  }
  return TRUE;
}

static const char *verdict_of(const Claim *c)
{
  if (c->figures->len == 0)
    return "out of scope";
  for (guint i = 0; i < c->figures->len; i++)
    if (!g_array_index(c->figures, Figure, i).holds)
      return "contradicted";
  return "reproduced";
}

static gboolean check_verdict(const Claim *c, GError **error)
{
  const char *found = verdict_of(c);

  if (g_strcmp0(found, c->verdict) != 0) {
    g_autoptr(GString) text = g_string_new(NULL);
    claim_write(c, text);
    g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT, "%s: verdict: \"%s\": the simulator says %s\n%s", json_name(c->doc),
                c->verdict, found, text->str);
    return FALSE;
  }
  if (!c->id || !c->claim || !c->source || (!g_str_equal(found, "reproduced") && !c->reason)) {
    g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT,
                "%s: expected id, claim, source, and a reason of what is not reproduced", json_name(c->doc));
    return FALSE;
  }
  return TRUE;
}

static void clear_series(gpointer data)
{
  g_array_unref(((Series *)data)->values);
}

Claim *claim_try(const char *path, GError **error)
{
  g_autoptr(Claim) c = g_new0(Claim, 1);

  c->figures = g_array_new(FALSE, FALSE, sizeof(Figure));
  c->points = g_array_new(FALSE, FALSE, sizeof(double));
  c->found = g_array_new(FALSE, FALSE, sizeof(double));
  c->series = g_array_new(FALSE, FALSE, sizeof(Series));
  g_array_set_clear_func(c->series, clear_series);
  c->doc = json_load(path, error);
  if (!c->doc)
    return NULL;
  const cJSON *root = json_root(c->doc);
  c->id = text_of(root, "id");
  c->claim = text_of(root, "claim");
  c->source = text_of(root, "source");
  c->verdict = text_of(root, "verdict");
  c->reason = text_of(root, "reason");
  c->sweep = json_get(root, "sweep");
  Trial t = { c, g_hash_table_new_full(g_str_hash, g_str_equal, NULL, (GDestroyNotify)claim_run_free) };
  Variable none = { NULL, 0 };
  gboolean ok = (c->sweep ? sweep(&t, error) : run_all(&t, &none, error)) && add_figures(&t, error) &&
                check_verdict(c, error);
  g_hash_table_unref(t.runs);
  return ok ? g_steal_pointer(&c) : NULL;
}

void claim_free(Claim *c)
{
  g_array_unref(c->figures);
  g_array_unref(c->points);
  g_array_unref(c->found);
  g_array_unref(c->series);
  g_clear_pointer(&c->doc, json_free);
  g_free(c);
}
