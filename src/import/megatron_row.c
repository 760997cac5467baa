#include "import/megatron_row.h"

#include "base/json.h"
#include "import/case_row.h"
#include "import/launch.h"
#include "plan/keys.h"
#include "validate/case_experts.h"
#include "validate/family.h"

#include <string.h>

typedef struct {
  GHashTable *cells;
  GString *no_column; /* "key value, ..." that no column takes */
} Row;

/* A number, a word or a switch as a cell has it. Newly allocated. */
static char *cell_of(const cJSON *item)
{
  if (cJSON_IsBool(item))
    return g_strdup(cJSON_IsTrue(item) ? "1" : "0");
  if (cJSON_IsString(item))
    return g_strdup(item->valuestring);
  if (cJSON_IsNumber(item))
    return g_strdup_printf("%.10g", item->valuedouble);
  char *text = cJSON_PrintUnformatted(item), *copy = g_strdup(text);
  cJSON_free(text);
  return copy;
}

static void note_no_column(Row *row, const char *object, const cJSON *item)
{
  g_autofree char *cell = cJSON_IsBool(item) ? g_strdup(cJSON_IsTrue(item) ? "true" : "false") : cell_of(item);

  g_string_append_printf(row->no_column, "%s%s%s %s", row->no_column->len ? ", " : "", object, item->string, cell);
}

static gboolean says(const cJSON *object, const char *key, const char *text)
{
  return g_strcmp0(json_get_text(object, key), text) == 0;
}

/* ---- the plan ---- */

/* Columns of other names than the plan's keys; NULL: the arguments fill one as they stand, or another key does. */
static const struct {
  const char *key, *column;
  const char *usual; /* that leaves the cell empty */
} columns[] = {
  { "gpus", NULL }, { "global_batch_size", NULL }, { "micro_batch_size", NULL }, { "seq_length", NULL },
  { "tensor_model_parallel_size", NULL }, { "sequence_parallel", NULL }, { "pipeline_model_parallel_size", NULL },
  { "virtual_pipeline_model_parallel_size", "vpp", "1" }, { "context_parallel_size", NULL },
  { "expert_model_parallel_size", "ep", "1" }, { "expert_tensor_parallel_size", "etp" }, { "zero_stage", "zero" },
  { "shard_group_size", "shard_group" }, { "layer_split", "layer_split" }, { "recompute_method", NULL },
  { "framework", "generation" },
};

static void put_dispatcher(Row *row, const cJSON *item)
{
  int dispatch = cJSON_IsString(item) ? names_find(expert_dispatch_names, item->valuestring) : -1;

  if (dispatch < 0)
    note_no_column(row, "", item);
  else
    case_row_set(row->cells, "moe_dispatcher", "%s", case_dispatcher_names[dispatch]);
}

/* "full:N" is blocks; columns have no groups of layers. */
static void put_layers(Row *row, const cJSON *plan, const cJSON *item)
{
  if (says(plan, "recompute_method", "block"))
    case_row_set(row->cells, "recompute", "full:%d", item->valueint);
  else if (item->valueint > 1)
    note_no_column(row, "", item);
}

static void put_modules(Row *row, const cJSON *item)
{
  g_autoptr(GString) names = g_string_new(NULL);
  const cJSON *name;

  cJSON_ArrayForEach(name, item)
    g_string_append_printf(names, "%s%s", names->len ? " " : "", name->valuestring);
  case_row_set(row->cells, "recompute_modules", "%s", names->str);
}

static void put_recorded(Row *row, const cJSON *item)
{
  const cJSON *name;
  guint modules = 0;

  cJSON_ArrayForEach(name, item)
    modules |= 1u << names_find(recorded_module_names, name->valuestring);
  g_autofree char *cell = recorded_text(GRAPH_PARTIAL, modules);
  case_row_set(row->cells, "cuda_graph", "%s", cell);
}

/* The column has overlap of both halves of data parallelism or none of any kind; what lies between is named. */
static void put_overlap(Row *row, const cJSON *object)
{
  gboolean gradients = cJSON_IsTrue(json_get(object, "gradients"));
  gboolean parameters = cJSON_IsTrue(json_get(object, "parameters"));
  gboolean pipeline = cJSON_IsTrue(json_get(object, "pipeline"));
  const cJSON *item;

  if (gradients && parameters)
    case_row_set(row->cells, "overlap", "data");
  else if (!gradients && !parameters && !pipeline)
    case_row_set(row->cells, "overlap", "none");
  cJSON_ArrayForEach(item, object) {
    gboolean data = g_str_equal(item->string, "gradients") || g_str_equal(item->string, "parameters");
    if (g_str_equal(item->string, "exchange"))
      case_row_set(row->cells, "moe_a2a_overlap", "%d", cJSON_IsTrue(item));
    else if ((data && gradients != parameters) || (!data && cJSON_IsTrue(item)))
      note_no_column(row, "overlap.", item);
  }
}

/* Case files have columns for keys that are a switch, a whole number or a name. */
static gboolean is_column(const char *name)
{
  for (const PlanKey *key = plan_keys; key->field.key; key++)
    if (!key->object && g_str_equal(key->field.key, name))
      return key->field.type == JSON_BOOL || key->field.type == JSON_INT || key->field.type == JSON_ENUM;
  return FALSE;
}

static void put_key(Row *row, const cJSON *item)
{
  g_autofree char *cell = cell_of(item);

  for (gsize i = 0; i < G_N_ELEMENTS(columns); i++)
    if (g_str_equal(item->string, columns[i].key)) {
      if (columns[i].column && !(columns[i].usual && g_str_equal(cell, columns[i].usual)))
        case_row_set(row->cells, columns[i].column, "%s", cell);
      return;
    }
  if (g_str_equal(item->string, "recompute_granularity"))
    case_row_set(row->cells, "recompute", "%s", cell);
  else if (g_str_equal(item->string, "optimizer") && g_str_equal(cell, "adam"))
    return;
  else if (is_column(item->string))
    case_row_set(row->cells, item->string, "%s", cell);
  else
    note_no_column(row, "", item);
}

static void put_plan(Row *row, const cJSON *plan)
{
  const cJSON *item;

  cJSON_ArrayForEach(item, plan) {
    if (g_str_equal(item->string, "moe_token_dispatcher_type"))
      put_dispatcher(row, item);
    else if (g_str_equal(item->string, "recompute_num_layers"))
      put_layers(row, plan, item);
    else if (g_str_equal(item->string, "recompute_modules"))
      put_modules(row, item);
    else if (g_str_equal(item->string, "cuda_graph_modules"))
      put_recorded(row, item);
    else if (g_str_equal(item->string, "overlap"))
      put_overlap(row, item);
    else
      put_key(row, item);
  }
}

/* ---- the model ---- */

/* Whether columns, or the habits of a family that they are of, say a key; with `described` cleared where such a model
 * needs a file. */
static gboolean is_said(const cJSON *model, const cJSON *item, const CaseFamily *family, gboolean *described)
{
  static const char *const plain[] = { "name", "layers", "hidden", "heads", "seq", "vocab", "mlp", "ffn_hidden",
                                       "kv_heads", "norm_epsilon", "rope_theta", NULL };
  const struct {
    const char *key;
    gboolean usual;
  } habits[] = { { "bias", family->bias }, { "qkv_bias", cJSON_IsTrue(json_get(model, "bias")) },
                 { "tied_embeddings", family->tied }, { "dropout", family->dropout } };
  const cJSON *heads = json_get(model, "heads"), *hidden = json_get(model, "hidden");

  if (g_strv_contains(plain, item->string))
    return TRUE;
  if (g_str_equal(item->string, "norm"))
    return says(model, "norm", family->norm);
  if (g_str_equal(item->string, "positions"))
    return says(model, "positions", family->positions);
  for (gsize i = 0; i < G_N_ELEMENTS(habits); i++)
    if (g_str_equal(item->string, habits[i].key))
      return cJSON_IsTrue(item) == habits[i].usual;
  if (g_str_equal(item->string, "head_dim") && heads && hidden &&
      item->valuedouble * heads->valuedouble == hidden->valuedouble)
    return TRUE;
  *described = FALSE;
  return FALSE;
}

static void name_model(Row *row, const cJSON *model)
{
  static const char *const architecture[] = { "hidden", "ffn_hidden", "heads", "kv_heads", "mlp" };
  const cJSON *mlp = json_get(model, "mlp"), *item;
  const CaseFamily *family = case_family("", mlp ? mlp->valuestring : "");
  gboolean described = TRUE;

  cJSON_ArrayForEach(item, model)
    if (!is_said(model, item, family, &described))
      note_no_column(row, "", item);
  if (json_get(model, "layers") && !json_get(model, "positions") && !g_str_equal(family->positions, "learned"))
    g_string_append_printf(row->no_column, "%spositions learned", row->no_column->len ? ", " : "");
  if (described)
    return;
  for (gsize i = 0; i < G_N_ELEMENTS(architecture); i++)
    case_row_set(row->cells, architecture[i], "%s", "");
  case_row_set(row->cells, "model_file", "%s", "");
}

void megatron_row_fill(const char *text, GHashTable *cells, ImportNotes *notes)
{
  const LaunchOptions options = { 0 };
  g_autoptr(GError) error = NULL;
  g_autoptr(Launch) launch = launch_recognises(text) ? launch_read(text, notes->file, &options, &error) : NULL;
  g_autoptr(GString) no_column = g_string_new(NULL);
  Row row = { cells, no_column };

  if (error)
    notes->no_column = g_strdup_printf("what else the arguments say: %s", error->message);
  if (!launch)
    return;
  g_autoptr(JsonDoc) model = json_parse(launch->model, strlen(launch->model), notes->file, NULL);
  g_autoptr(JsonDoc) plan = json_parse(launch->plan, strlen(launch->plan), notes->file, NULL);
  g_return_if_fail(model && plan);
  name_model(&row, json_root(model));
  put_plan(&row, json_root(plan));
  notes->no_column = no_column->len ? g_strdup(no_column->str) : NULL;
}
