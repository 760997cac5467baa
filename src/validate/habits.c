#include "validate/habits.h"

#include "base/error.h"
#include "base/json.h"

#define LIKE_MAX 8 /* files that are like each other */

typedef struct {
  char *modules, *shard_group, *chunks, *exchange, *stage;
  Habits habits;
} Parsed;

#define FIELD(name) G_STRUCT_OFFSET(Parsed, habits.name)

static const JsonField fields[] = {
  { "recompute", JSON_ENUM, FIELD(recompute), .names = recompute_names },
  { "cuda_graph", JSON_ENUM, FIELD(graph), .names = cuda_graph_names },
  { "micro_batch_size", JSON_INT, FIELD(micro_batch), FALSE, 0, 4096 },
  { "vocab", JSON_INT, FIELD(vocab), FALSE, 1, 1e7 },
  { "zero_stage", JSON_INT, FIELD(zero), FALSE, 0, 3 },
  { "sequence_parallel", JSON_BOOL, FIELD(sequence_parallel) },
  { "selective_blocks", JSON_BOOL, FIELD(selective_blocks) },
  { "pipeline_gathered", JSON_BOOL, FIELD(pipeline_gathered) },
  { "sums_once", JSON_BOOL, FIELD(sums_once) },
  { "bf16_states", JSON_BOOL, FIELD(bf16_states) },
  { "dropout", JSON_BOOL, FIELD(dropout) },
  { "memory_kind", JSON_ENUM, FIELD(memory), .names = memory_count_names },
  { "memory_stage", JSON_STRING, G_STRUCT_OFFSET(Parsed, stage) },
  { "recompute_modules", JSON_STRING, G_STRUCT_OFFSET(Parsed, modules) },
  { "virtual_pipeline_model_parallel_size", JSON_STRING, G_STRUCT_OFFSET(Parsed, chunks) },
  { "shard_group", JSON_STRING, G_STRUCT_OFFSET(Parsed, shard_group) },
  { "moe_a2a_overlap", JSON_STRING, G_STRUCT_OFFSET(Parsed, exchange) },
  { "family", JSON_STRING, FIELD(family) },
  { "cuda_graph_arch", JSON_STRING, FIELD(graph_arch) },
  { "hybridep_device", JSON_STRING, FIELD(hybrid_device) },
  { "source", JSON_ANY, .required = TRUE },
};

static gboolean is_optional(const JsonField *field)
{
  return field->type == JSON_ANY || field->type == JSON_STRING;
}

/* Every key must have its reason, and a file that is like no other every key but those of text. */
static gboolean check_keys(const JsonDoc *doc, const cJSON *object, gboolean whole, GError **error)
{
  const cJSON *source = json_get(object, "source");

  for (gsize i = 0; i < G_N_ELEMENTS(fields); i++) {
    const char *key = fields[i].key;
    gboolean own = fields[i].type == JSON_ANY;
    if (whole && !is_optional(&fields[i]) && !json_get(object, key))
      return json_error(doc, object, error, "the key %s", key);
    if (!own && json_get(object, key) && !cJSON_IsString(json_get(source, key)))
      return json_error(doc, source, error, "a string that says where %s comes from", key);
  }
  return TRUE;
}

static gboolean read_chain(const char *name, int depth, Parsed *out, GError **error)
{
  g_autofree char *path = framework_path(name, error);
  g_autoptr(JsonDoc) doc = path ? json_load(path, error) : NULL;
  const cJSON *like = doc ? json_get(json_root(doc), "like") : NULL;

  if (like && !cJSON_IsString(like))
    return json_error(doc, like, error, "a string");
  if (!doc || (like && depth < LIKE_MAX && !read_chain(like->valuestring, depth + 1, out, error)))
    return FALSE;
  const cJSON *object = json_get_object(doc, json_root(doc), "unstated", !like, error);
  if (!object)
    return like && !json_get(json_root(doc), "unstated");
  return json_read(doc, object, fields, G_N_ELEMENTS(fields), out, error) && check_keys(doc, object, !like, error);
}

static gboolean bad_word(const char *framework, const char *key, const char *value, const char *expected,
                         GError **error)
{
  return input_error(error, "framework: %s: unstated.%s: \"%s\": expected %s", framework, key, value, expected);
}

static gboolean read_stage(Parsed *p, const char *framework, GError **error)
{
  static const char *const names[] = { "fullest", "first", "last", NULL };
  int found = p->stage ? names_find(names, p->stage) : MEMORY_FULLEST;

  p->habits.memory_stage = MAX(found, 0);
  return found >= 0 || bad_word(framework, "memory_stage", p->stage, "fullest, first or last", error);
}

static gboolean read_words(Parsed *p, const char *framework, GError **error)
{
  p->habits.recompute_modules = p->modules ? recompute_modules_parse(p->modules) : 0;
  p->habits.chunks_tuned = g_strcmp0(p->chunks, "fastest") == 0;
  p->habits.node_shards = g_strcmp0(p->shard_group, "gpus_per_node") == 0;
  p->habits.graph_overlaps = g_strcmp0(p->exchange, "full_graph") == 0;
  if (p->modules && !p->habits.recompute_modules)
    return bad_word(framework, "recompute_modules", p->modules, "modules joined by +, each once", error);
  if (p->chunks && !p->habits.chunks_tuned)
    return bad_word(framework, "virtual_pipeline_model_parallel_size", p->chunks, "fastest", error);
  if (p->exchange && !p->habits.graph_overlaps)
    return bad_word(framework, "moe_a2a_overlap", p->exchange, "full_graph", error);
  if (p->shard_group && !p->habits.node_shards)
    return bad_word(framework, "shard_group", p->shard_group, "gpus_per_node", error);
  return read_stage(p, framework, error);
}

gboolean habits_read(const char *framework, Habits *out, GError **error)
{
  Parsed parsed = { 0 };
  gboolean ok = read_chain(framework, 0, &parsed, error) && read_words(&parsed, framework, error);

  g_free(parsed.modules);
  g_free(parsed.shard_group);
  g_free(parsed.chunks);
  g_free(parsed.exchange);
  g_free(parsed.stage);
  *out = parsed.habits;
  return ok;
}

void habits_clear(Habits *habits)
{
  g_clear_pointer(&habits->family, g_free);
  g_clear_pointer(&habits->graph_arch, g_free);
  g_clear_pointer(&habits->hybrid_device, g_free);
}
