#include "hardware/mixed.h"

#include <limits.h>

static gboolean check_type(const PartSource *source, const cJSON *item, const Cluster *mixed, GError **error)
{
  const Cluster *type = mixed->types[mixed->n_types - 1];
  gint64 devices = type->devices;

  if (type->network_tier < 0)
    return json_error(source->doc, item, error, "a node type with a network, %s has none", type->name);
  for (int i = 0; i < mixed->n_types - 1; i++) {
    devices += mixed->types[i]->devices;
    if (g_str_equal(mixed->types[i]->name, type->name))
      return json_error(source->doc, item, error, "a name of its own for each node type, \"%s\" stands twice",
                        type->name);
  }
  return devices <= INT_MAX || json_error(source->doc, item, error, "at most %d devices", INT_MAX);
}

static gboolean read_types(const PartSource *source, Cluster *mixed, GError **error)
{
  const cJSON *array = json_get(source->object, "node_types"), *item;

  if (!cJSON_IsArray(array) || cJSON_GetArraySize(array) < 2 || cJSON_GetArraySize(array) > NODE_TYPES_MAX)
    return json_error(source->doc, array, error, "an array of 2 to %d clusters of alike nodes", NODE_TYPES_MAX);
  cJSON_ArrayForEach(item, array) {
    Cluster *type = cluster_read(source, item, error);
    if (!type)
      return FALSE;
    mixed->types[mixed->n_types++] = type;
    if (!check_type(source, item, mixed, error))
      return FALSE;
  }
  return TRUE;
}

static gboolean read_mixed(const PartSource *source, gpointer out, GError **error)
{
  static const JsonField fields[] = {
    {"name", JSON_STRING, G_STRUCT_OFFSET(Cluster, name), TRUE},
    {"node_types", JSON_ANY, .required = TRUE},
  };

  if (source->partial)
    return json_error(source->doc, json_get(source->object, "like"), error, "none, where node_types stand");
  return part_fields(source, fields, G_N_ELEMENTS(fields), out, NULL, error) && read_types(source, out, error);
}

static const PartKind mixed_part = {"", "cluster", read_mixed, NULL};

/* The type whose devices have the smallest share of a network. */
static const Cluster *slowest_network(const Cluster *mixed)
{
  const Cluster *slowest = mixed->types[0];

  for (int i = 1; i < mixed->n_types; i++) {
    const Cluster *type = mixed->types[i];
    if (type->tiers[type->n_tiers - 1].bytes_per_s < slowest->tiers[slowest->n_tiers - 1].bytes_per_s)
      slowest = type;
  }
  return slowest;
}

/* What the whole cluster shows of its types. */
static void sum_up(Cluster *mixed)
{
  Cluster joined = *slowest_network(mixed);

  joined.name = mixed->name;
  joined.device = mixed->types[0]->device;
  joined.nodes = joined.devices = 0;
  joined.usd_per_device_hour = 0;
  joined.n_types = mixed->n_types;
  for (int i = 0; i < mixed->n_types; i++) {
    joined.types[i] = mixed->types[i];
    joined.nodes += mixed->types[i]->nodes;
    joined.devices += mixed->types[i]->devices;
    joined.host_memory_bytes = MIN(joined.host_memory_bytes, mixed->types[i]->host_memory_bytes);
    joined.nvme_bytes = MIN(joined.nvme_bytes, mixed->types[i]->nvme_bytes);
    joined.usd_per_device_hour += mixed->types[i]->devices * mixed->types[i]->usd_per_device_hour;
  }
  joined.usd_per_device_hour /= joined.devices;
  for (int i = 0; i < mixed->n_types; i++)
    if (mixed->types[i]->usd_per_device_hour <= 0)
      joined.usd_per_device_hour = 0;
  *mixed = joined;
}

Cluster *mixed_read(const JsonDoc *doc, GChecksum *digest, GError **error)
{
  g_autoptr(Cluster) mixed = g_new0(Cluster, 1);

  if (!part_read_doc(&mixed_part, doc, digest, mixed, error))
    return NULL;
  sum_up(mixed);
  return g_steal_pointer(&mixed);
}
