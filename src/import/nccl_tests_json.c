/* The file that nccl-tests writes with -J (JSON_FILE_VERSION 3). */
#include "import/nccl_tests_json.h"

#include "base/json.h"

#include <math.h>
#include <string.h>

static double real_of(const cJSON *object, const char *key)
{
  const cJSON *item = json_get(object, key);
  return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

/* NAME of the first argument that ends in NAME_perf; newly allocated. */
static char *op_of(const cJSON *root)
{
  const cJSON *arg;

  cJSON_ArrayForEach(arg, json_get(root, "args")) {
    g_autofree char *base = cJSON_IsString(arg) ? g_path_get_basename(arg->valuestring) : NULL;
    if (base && g_str_has_suffix(base, "_perf") && strlen(base) > strlen("_perf"))
      return g_strndup(base, strlen(base) - strlen("_perf"));
  }
  return NULL;
}

static gboolean read_devices(const JsonDoc *doc, NcclRun *run, GError **error)
{
  const cJSON *config = json_get(json_root(doc), "config"), *devices = json_get(config, "devices"), *device;
  g_autoptr(GHashTable) hosts = g_hash_table_new(g_str_hash, g_str_equal);
  g_autoptr(GHashTable) groups = g_hash_table_new(NULL, NULL);
  int all = 0;

  cJSON_ArrayForEach(device, devices) {
    const char *host = json_get_text(device, "hostname"), *gpu = json_get_text(device, "device_info");
    double group = real_of(device, "group");
    g_hash_table_add(hosts, (gpointer)(host ? host : ""));
    g_hash_table_add(groups, GINT_TO_POINTER(group > 0 && group < 1e6 ? (int)group : 0));
    if (!run->gpu && gpu)
      run->gpu = g_strdup(gpu);
    all++;
  }
  if (all == 0)
    return json_error(doc, json_root(doc), error, "config.devices, an array of the ranks' devices");
  int n_hosts = (int)g_hash_table_size(hosts), n_groups = (int)g_hash_table_size(groups);
  if (all % n_hosts || all % n_groups)
    return json_error(doc, devices, error, "as many devices on each host and in each group");
  run->ranks = all / n_groups;
  run->nodes = MIN(n_hosts, run->ranks);
  run->node_ranks = all / n_hosts;
  if (!run->gpu)
    run->gpu = g_strdup("unknown");
  return TRUE;
}

/* Out of place, or in place where that alone was timed. */
static gboolean read_result(const JsonDoc *doc, const cJSON *result, NcclTests *tests, NcclRun *run, GError **error)
{
  const cJSON *half = json_get(result, "out_of_place");
  NcclRow row = { .bytes = real_of(result, "size"), .in_place = !cJSON_IsObject(half) };

  if (row.in_place)
    half = json_get(result, "in_place");
  row.seconds = real_of(half, "time") * 1e-6;
  row.alg_bytes_per_s = real_of(half, "alg_bw") * 1e9;
  row.bus_bytes_per_s = real_of(half, "bus_bw") * 1e9;
  if (real_of(half, "nwrong") > 0)
    return json_error(doc, half, error, "a run without wrong results");
  if (!(row.bytes > 0) || !(row.seconds > 0) || !isfinite(row.bytes) || !isfinite(row.seconds))
    tests->empty_rows++;
  else
    g_array_append_val(run->rows, row);
  return TRUE;
}

gboolean nccl_tests_read_json(const char *text, NcclTests *tests, NcclRun *run, GError **error)
{
  g_autoptr(JsonDoc) doc = json_parse(text, strlen(text), tests->name, error);
  const cJSON *results, *result;

  if (!doc)
    return FALSE;
  results = json_get(json_root(doc), "results");
  if (!cJSON_IsArray(results))
    return json_error(doc, json_root(doc), error, "results, an array of nccl-tests -J");
  run->op = op_of(json_root(doc));
  if (!read_devices(doc, run, error))
    return FALSE;
  cJSON_ArrayForEach(result, results)
    if (!read_result(doc, result, tests, run, error))
      return FALSE;
  return run->rows->len > 0 || json_error(doc, results, error, "a row with bytes and a time");
}
