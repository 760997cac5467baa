#include "validate/case.h"

#include "base/files.h"
#include "base/json.h"

#include <math.h>
#include <string.h>

static char *file_of(const JsonDoc *doc, const char *key, const char *folder, GError **error)
{
  const cJSON *item = json_get(json_root(doc), key);

  if (!cJSON_IsString(item) || g_str_equal(item->valuestring, "-")) {
    json_error(doc, item ? item : json_root(doc), error, "%s, the name of a file, as tdp-run --json writes it", key);
    return NULL;
  }
  char *path = files_find(item->valuestring, folder, error);
  if (!path)
    g_prefix_error(error, "%s: %s: ", json_name(doc), key);
  return path;
}

static gboolean read_plan(Case *c, const JsonDoc *doc, const cJSON *measured, GError **error)
{
  const cJSON *plan = json_get_object(doc, measured, "plan", TRUE, error);
  char *text = plan ? cJSON_PrintUnformatted(plan) : NULL;
  gboolean done = text && plan_parse(text, strlen(text), json_name(doc), c->model, &c->plan, &c->framework, error);

  cJSON_free(text);
  return done && cluster_resize(c->cluster, c->plan.gpus, error) &&
         plan_check(&c->plan, c->model, c->cluster, error) == RULE_NONE;
}

static gboolean read_number(const JsonDoc *doc, const cJSON *object, const char *key, double *out, GError **error)
{
  const cJSON *item = json_get(object, key);

  if (!cJSON_IsNumber(item) || !(item->valuedouble > 0) || !isfinite(item->valuedouble))
    return json_error(doc, item ? item : object, error, "%s, a number above 0", key);
  *out = item->valuedouble;
  return TRUE;
}

gboolean case_init_report(Case *c, const char *text, gsize length, const char *name, double *seconds, double *bytes,
                          GError **error)
{
  g_autoptr(JsonDoc) doc = json_parse(text, length, name, error);
  g_autofree char *model = NULL, *cluster = NULL;
  const cJSON *measured;

  *c = (Case) { .defaulted = g_ptr_array_new(), .memory = MEMORY_OF_DRIVER };
  measured = doc ? json_get_object(doc, json_root(doc), "measured", TRUE, error) : NULL;
  if (!measured || !read_number(doc, json_root(doc), "mean_step_s", seconds, error) ||
      !read_number(doc, measured, "peak_memory_bytes", bytes, error))
    return FALSE;
  model = file_of(doc, "model_file", "models", error);
  c->model = model ? model_load(model, error) : NULL;
  cluster = c->model ? file_of(doc, "cluster_file", "hardware", error) : NULL;
  c->cluster = cluster ? cluster_load(cluster, error) : NULL;
  return c->cluster && read_plan(c, doc, measured, error);
}
