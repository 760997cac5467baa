#include "plan/framework.h"

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"

#include <string.h>

#define FIELD(name) G_STRUCT_OFFSET(Framework, name)

static const char *const engine_names[] = { "megatron", "deepspeed", "fsdp", "torchtitan", NULL };

typedef struct {
  Framework framework;
  int engine, attention;
} Parsed;

static const JsonField fields[] = {
  { "name", JSON_STRING, FIELD(name), TRUE },
  { "description", JSON_ANY },
  { "engine", JSON_ENUM, G_STRUCT_OFFSET(Parsed, engine), TRUE, .names = engine_names },
  { "fused_softmax", JSON_BOOL, FIELD(fused_softmax), TRUE },
  { "fused_activation", JSON_BOOL, FIELD(fused_activation), TRUE },
  { "fused_dropout_add", JSON_BOOL, FIELD(fused_dropout_add), TRUE },
  { "fused_rope", JSON_BOOL, FIELD(fused_rope), TRUE },
  { "fused_loss", JSON_BOOL, FIELD(fused_loss), TRUE },
  { "scatter_gather", JSON_BOOL, FIELD(scatter_gather), TRUE },
  { "overlap_gradients", JSON_BOOL, FIELD(overlap_gradients), TRUE },
  { "overlap_parameters", JSON_BOOL, FIELD(overlap_parameters), TRUE },
  { "overlap_pipeline", JSON_BOOL, FIELD(overlap_pipeline), TRUE },
  { "overlap_tensor", JSON_BOOL, FIELD(overlap_tensor), TRUE },
  { "attention", JSON_ENUM, G_STRUCT_OFFSET(Parsed, attention), TRUE, .names = attention_kernel_names },
  { "gradient_bytes", JSON_INT, FIELD(gradient_bytes), TRUE, 1, 8 },
  { "reduce_bytes", JSON_INT, FIELD(reduce_bytes), TRUE, 1, 8 },
  { "vocab_multiple", JSON_INT, FIELD(vocab_multiple), TRUE, 1, 4096 },
  { "bucket_mparams", JSON_REAL, FIELD(bucket_params), TRUE, 0.001, 1e6, 1e6 },
  { "issue_us", JSON_REAL, FIELD(issue_s), TRUE, 0, 1000, 1e-6 },
  { "collective_us", JSON_REAL, FIELD(collective_s), TRUE, 0, 1000, 1e-6 },
  { "step_ms", JSON_REAL, FIELD(step_s), TRUE, 0, 1e5, 1e-3 },
  { "optimizer_bytes", JSON_REAL, FIELD(optimizer_bytes), TRUE, 1, 1000 },
  { "context_gib", JSON_REAL, FIELD(context_bytes), TRUE, 0, 100, 1073741824.0 },
  { "group_mib", JSON_REAL, FIELD(group_bytes), TRUE, 0, 1e5, 1048576.0 },
  { "fragmentation", JSON_REAL, FIELD(fragmentation), TRUE, 0, 0.5 },
  { "source", JSON_ANY, .required = TRUE },
};

/* Every number of the file must have its reason. */
static gboolean check_sources(const JsonDoc *doc, GError **error)
{
  const cJSON *source = json_get_object(doc, json_root(doc), "source", TRUE, error);

  if (!source)
    return FALSE;
  for (gsize i = 0; i < G_N_ELEMENTS(fields); i++)
    if ((fields[i].type == JSON_REAL || fields[i].type == JSON_INT) && !cJSON_IsString(json_get(source, fields[i].key)))
      return json_error(doc, source, error, "a string that says where %s comes from", fields[i].key);
  return TRUE;
}

Framework *framework_load(const char *name, GError **error)
{
  g_autofree char *below = g_strdup_printf("plans/frameworks/%s.json", name);
  g_autofree char *path = strchr(name, '/') ? g_strdup(name) : files_data_path(below);
  Parsed parsed = { 0 };

  if (!g_file_test(path, G_FILE_TEST_IS_REGULAR)) {
    g_set_error(error, TDP_ERROR, TDP_ERROR_INPUT, "framework: %s: expected a file of plans/frameworks/ (looked for %s)",
                name, path);
    return NULL;
  }
  g_autoptr(JsonDoc) doc = json_load(path, error);
  if (!doc || !json_read(doc, json_root(doc), fields, G_N_ELEMENTS(fields), &parsed, error) ||
      !check_sources(doc, error)) {
    g_free(parsed.framework.name);
    return NULL;
  }
  parsed.framework.engine = g_strdup(engine_names[parsed.engine]);
  parsed.framework.attention = parsed.attention;
  return g_memdup2(&parsed.framework, sizeof parsed.framework);
}

void framework_free(Framework *framework)
{
  if (!framework)
    return;
  g_free(framework->name);
  g_free(framework->engine);
  g_free(framework);
}
