#include "hardware/server.h"

#include "base/error.h"
#include "base/units.h"
#include "hardware/plausible.h"

#define GBIT_PER_S (1e9 / 8)
#define TB 1e12

/* ---- network ---- */

static gboolean read_link(const PartSource *source, Link *link, GError **error)
{
  const cJSON *item = json_get(source->object, "link");
  if (!item)
    return TRUE;
  g_free(link->name);
  *link = (Link){0};
  return part_read(&link_part, source, item, link, error);
}

gboolean network_read(const PartSource *above, gboolean partial, Network *network, GError **error)
{
  static const JsonField fields[] = {
    {"name", JSON_STRING, G_STRUCT_OFFSET(Network, name)},
    {"nics_per_node", JSON_INT, G_STRUCT_OFFSET(Network, nics), TRUE, 1, 1024},
    {"nic_gbit_per_s", JSON_REAL, G_STRUCT_OFFSET(Network, nic_bytes_per_s), TRUE, PLAUSIBLE_GBIT_PER_S, GBIT_PER_S},
    {"rings", JSON_INT, G_STRUCT_OFFSET(Network, rings), FALSE, 1, 1024},
    {"link", JSON_ANY, .required = TRUE},
  };
  const cJSON *item = json_get(above->object, "network");
  PartSource inside;
  if (!item)
    return TRUE;
  if (!part_inside(above, item, &inside, error))
    return FALSE;
  inside.partial = partial || network->nics > 0;
  return part_fields(&inside, fields, G_N_ELEMENTS(fields), network, NULL, error) &&
         read_link(&inside, &network->link, error);
}

Link link_copy(const Link *link)
{
  Link copy = *link;
  copy.name = g_strdup(link->name);
  return copy;
}

void network_put_over(Network *network, const Network *over)
{
  if (over->name) {
    g_free(network->name);
    network->name = g_strdup(over->name);
  }
  if (over->nics > 0)
    network->nics = over->nics;
  if (over->nic_bytes_per_s > 0)
    network->nic_bytes_per_s = over->nic_bytes_per_s;
  if (over->rings > 0)
    network->rings = over->rings;
  if (over->link.name) {
    g_free(network->link.name);
    network->link = link_copy(&over->link);
  }
}

void network_clear(Network *network)
{
  g_free(network->name);
  g_free(network->link.name);
  *network = (Network){0};
}

/* ---- tiers ---- */

void tier_clear(Tier *tier)
{
  g_free(tier->name);
  g_free(tier->link.name);
  *tier = (Tier){0};
}

static gboolean read_tier(const PartSource *source, const Server *server, Tier *tier, GError **error)
{
  static const JsonField fields[] = {
    {"name", JSON_STRING, G_STRUCT_OFFSET(Tier, name), TRUE},
    {"link", JSON_ANY, .required = TRUE},
    {"gb_per_s", JSON_REAL, G_STRUCT_OFFSET(Tier, bytes_per_s), TRUE, PLAUSIBLE_GB_PER_S, GB},
    {"port_gb_per_s", JSON_REAL, G_STRUCT_OFFSET(Tier, port_bytes_per_s), FALSE, PLAUSIBLE_GB_PER_S, GB},
    {"devices", JSON_INT, G_STRUCT_OFFSET(Tier, devices), FALSE, 2, 1e6},
  };
  tier->joins_node = !json_get(source->object, "devices");
  tier->devices = server->devices_per_node;
  if (!part_fields(source, fields, G_N_ELEMENTS(fields), tier, NULL, error) ||
      !read_link(source, &tier->link, error))
    return FALSE;
  if (tier->port_bytes_per_s == 0)
    tier->port_bytes_per_s = tier->bytes_per_s;
  if (tier->port_bytes_per_s < tier->bytes_per_s)
    return json_error(source->doc, json_get(source->object, "port_gb_per_s"), error,
                      "at least gb_per_s, %g: a device alone is not slower", tier->bytes_per_s / GB);
  return TRUE;
}

/* A domain holds whole domains of the tier below, and divides a node or holds whole ones. */
static gboolean check_domain(const PartSource *source, const Server *server, int i, GError **error)
{
  int devices = server->tiers[i].devices, node = server->devices_per_node;
  int below = i > 0 ? server->tiers[i - 1].devices : 1;
  const cJSON *item = json_get(source->object, "devices");
  item = item ? item : source->object;
  if (devices <= below || devices % below != 0)
    return json_error(source->doc, item, error,
                      "devices %d to be a larger multiple of %d, the domain of the tier below", devices, below);
  if (devices < node ? node % devices != 0 : devices % node != 0)
    return json_error(source->doc, item, error, "devices %d to divide the %d of a node, or be a multiple of them",
                      devices, node);
  return TRUE;
}

static gboolean read_tiers(const PartSource *above, const cJSON *array, Server *server, GError **error)
{
  if (!cJSON_IsArray(array) || cJSON_GetArraySize(array) > TIER_MAX - 1)
    return json_error(above->doc, array, error, "an array of at most %d tiers", TIER_MAX - 1);
  for (int i = 0; i < TIER_MAX; i++)
    tier_clear(&server->tiers[i]);
  server->n_tiers = 0;
  const cJSON *item;
  cJSON_ArrayForEach(item, array) {
    PartSource inside;
    int i = server->n_tiers++;
    if (!part_inside(above, item, &inside, error) || !read_tier(&inside, server, &server->tiers[i], error) ||
        !check_domain(&inside, server, i, error))
      return FALSE;
  }
  return TRUE;
}

/* ---- the file ---- */

#define UP_TO(most) FALSE, G_MINDOUBLE, (most)

static const JsonField server_fields[] = {
  {"name", JSON_STRING, G_STRUCT_OFFSET(Server, name), TRUE},
  {"gpu", JSON_ANY, .required = TRUE},
  {"devices_per_node", JSON_INT, G_STRUCT_OFFSET(Server, devices_per_node), TRUE, 1, 4096},
  {"processors", JSON_INT, G_STRUCT_OFFSET(Server, processors), FALSE, 1, 4096},
  {"tiers", JSON_ANY},
  {"network", JSON_ANY},
  {"host_memory_gib", JSON_REAL, G_STRUCT_OFFSET(Server, host_memory_bytes), UP_TO(1e9), GIB},
  {"host_memory_gb_per_s", JSON_REAL, G_STRUCT_OFFSET(Server, host_memory_bytes_per_s), UP_TO(1e6), GB},
  {"host_slowdown", JSON_REAL, G_STRUCT_OFFSET(Server, host_slowdown), FALSE, 0.1, 100},
  {"nvme_tb", JSON_REAL, G_STRUCT_OFFSET(Server, nvme_bytes), UP_TO(1e6), TB},
  {"nvme_read_gb_per_s", JSON_REAL, G_STRUCT_OFFSET(Server, nvme_read_bytes_per_s), UP_TO(1e6), GB},
  {"nvme_write_gb_per_s", JSON_REAL, G_STRUCT_OFFSET(Server, nvme_write_bytes_per_s), UP_TO(1e6), GB},
  {"usd_per_device_hour", JSON_REAL, G_STRUCT_OFFSET(Server, usd_per_device_hour), UP_TO(1e6)},
};

/* Keys of GPUs, or what a GPU may be called, in a cluster or in a server. */
static gboolean refuse_device_keys(const PartSource *source, const char *where, GError **error)
{
  static const char *const keys[] = { "device", "devices", "gpus", "memory_gib", "peak_tflops", "kernels" };

  for (gsize i = 0; i < G_N_ELEMENTS(keys); i++) {
    const cJSON *item = json_get(source->object, keys[i]);
    g_autofree char *path = item ? json_path(source->doc, item) : NULL;
    if (item)
      return input_error(error, "%s: %s: a GPU is said in %s, as in \"gpu\": {\"like\": \"h100-sxm5-80gb\", "
                         "\"memory_gib\": 96}, and devices_per_node beside it", json_name(source->doc), path, where);
  }
  return TRUE;
}

gboolean server_refuse_keys(const PartSource *cluster, GError **error)
{
  if (cJSON_IsArray(json_get(cluster->object, "nodes")))
    return json_error(cluster->doc, json_get(cluster->object, "nodes"), error, "a number; nodes of several types stand in "
                      "\"node_types\", each with its \"nodes\"");
  if (!refuse_device_keys(cluster, "\"server\"", error))
    return FALSE;
  for (gsize i = 0; i < G_N_ELEMENTS(server_fields); i++) {
    const char *key = server_fields[i].key;
    if (g_str_equal(key, "name") || g_str_equal(key, "network") || !json_get(cluster->object, key))
      continue;
    g_autofree char *path = json_path(cluster->doc, json_get(cluster->object, key));
    return input_error(error, "%s: %s: a key of servers: expected it in \"server\", as in \"server\": {\"like\": "
                       "\"dgx-h100\", \"%s\": ...}", json_name(cluster->doc), path, key);
  }
  return TRUE;
}

/* Another GPU costs something else. */
static gboolean read_gpu(const PartSource *source, Server *server, GError **error)
{
  const cJSON *item = json_get(source->object, "gpu");
  g_autofree char *before = g_strdup(server->device.name);
  if (!item)
    return TRUE;
  device_clear(&server->device);
  if (!part_read(&device_part, source, item, &server->device, error))
    return FALSE;
  if (g_strcmp0(before, server->device.name) != 0 && !json_get(source->object, "usd_per_device_hour"))
    server->usd_per_device_hour = 0;
  return TRUE;
}

/* `like` may say another size of the node than the server whose tiers these are: one device has none to join. */
static void fit_tiers(Server *server)
{
  int kept = 0;

  for (int i = 0; i < server->n_tiers; i++) {
    Tier *tier = &server->tiers[i];
    if (tier->joins_node)
      tier->devices = server->devices_per_node;
    if (tier->devices == 1) {
      tier_clear(tier);
    } else if (i != kept++) {
      server->tiers[kept - 1] = *tier;
      *tier = (Tier){0};
    }
  }
  server->n_tiers = kept;
}

static gboolean read_server(const PartSource *source, gpointer out, GError **error)
{
  Server *server = out;
  const cJSON *tiers = json_get(source->object, "tiers");
  if (!refuse_device_keys(source, "\"gpu\"", error) ||
      !part_fields(source, server_fields, G_N_ELEMENTS(server_fields), server, NULL, error))
    return FALSE;
  fit_tiers(server);
  return read_gpu(source, server, error) && (!tiers || read_tiers(source, tiers, server, error)) &&
         network_read(source, FALSE, &server->network, error);
}

/* `like` may change the node under the tiers of the other server: they are checked again. */
static gboolean finish_server(const PartSource *source, gpointer out, GError **error)
{
  Server *server = out;
  int node = server->devices_per_node;
  int joined = server->n_tiers > 0 ? server->tiers[server->n_tiers - 1].devices : 1;
  if (joined < node)
    return part_missing(source, "tiers", error, "a tier that joins all devices of a node");
  for (int i = 0; i < server->n_tiers; i++)
    if (!check_domain(source, server, i, error))
      return FALSE;
  return TRUE;
}

const PartKind server_part = {"servers", "server", read_server, finish_server};

void server_clear(Server *server)
{
  g_free(server->name);
  device_clear(&server->device);
  for (int i = 0; i < TIER_MAX; i++)
    tier_clear(&server->tiers[i]);
  network_clear(&server->network);
  *server = (Server){0};
}
