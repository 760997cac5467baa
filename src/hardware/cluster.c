#include "hardware/cluster.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "hardware/mixed.h"
#include "hardware/server.h"

/* A level of the network above which devices send slower. */
typedef struct {
  char *name;
  int devices;
  double oversubscription;
  Link link; /* no name: as below */
} FabricLevel;

typedef struct {
  char *name, *framework;
  int nodes;
  Server server;
  Network network; /* what the cluster's files say of it, over the server's */
  int n_fabric;
  FabricLevel fabric[TIER_MAX];
  CollectiveLibrary library;
  gboolean hierarchical_collectives;
} ClusterText;

/* ---- reading ---- */

static void fabric_clear(ClusterText *text)
{
  for (int i = 0; i < text->n_fabric; i++) {
    g_free(text->fabric[i].name);
    g_free(text->fabric[i].link.name);
    text->fabric[i] = (FabricLevel){0};
  }
  text->n_fabric = 0;
}

static void text_clear(ClusterText *text)
{
  g_free(text->name);
  g_free(text->framework);
  server_clear(&text->server);
  network_clear(&text->network);
  fabric_clear(text);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(ClusterText, text_clear)

static gboolean read_level(const PartSource *source, FabricLevel *level, GError **error)
{
  static const JsonField fields[] = {
    {"name", JSON_STRING, G_STRUCT_OFFSET(FabricLevel, name), TRUE},
    {"devices", JSON_INT, G_STRUCT_OFFSET(FabricLevel, devices), TRUE, 1, 1e9},
    {"oversubscription", JSON_REAL, G_STRUCT_OFFSET(FabricLevel, oversubscription), TRUE, 1, 1000},
    {"link", JSON_ANY},
  };
  const cJSON *link = json_get(source->object, "link");
  return part_fields(source, fields, G_N_ELEMENTS(fields), level, NULL, error) &&
         (!link || part_read(&link_part, source, link, &level->link, error));
}

static gboolean read_fabric(const PartSource *above, const cJSON *array, ClusterText *text, GError **error)
{
  if (!cJSON_IsArray(array) || cJSON_GetArraySize(array) > TIER_MAX - 1)
    return json_error(above->doc, array, error, "an array of at most %d levels", TIER_MAX - 1);
  fabric_clear(text);
  const cJSON *item;
  cJSON_ArrayForEach(item, array) {
    PartSource inside;
    if (!part_inside(above, item, &inside, error) || !read_level(&inside, &text->fabric[text->n_fabric++], error))
      return FALSE;
  }
  return TRUE;
}

static gboolean read_server(const PartSource *source, Server *server, GError **error)
{
  const cJSON *item = json_get(source->object, "server");
  if (!item)
    return TRUE;
  server_clear(server);
  return part_read(&server_part, source, item, server, error);
}

/* The usual one where neither this object nor the one below names any. */
static gboolean read_library(const PartSource *source, CollectiveLibrary *library, GError **error)
{
  const cJSON usual = {.type = cJSON_String, .valuestring = (char[]){LIBRARY_USUAL}};
  const cJSON *item = json_get(source->object, "library");
  if (!item && library->own_copy_rate > 0)
    return TRUE;
  return part_read(&library_part, source, item ? item : &usual, library, error);
}

static gboolean read_cluster(const PartSource *source, gpointer out, GError **error)
{
  static const JsonField fields[] = {
    {"name", JSON_STRING, G_STRUCT_OFFSET(ClusterText, name), TRUE},
    {"nodes", JSON_INT, G_STRUCT_OFFSET(ClusterText, nodes), TRUE, 1, 1e6},
    {"framework", JSON_STRING, G_STRUCT_OFFSET(ClusterText, framework)},
    {"hierarchical_collectives", JSON_BOOL, G_STRUCT_OFFSET(ClusterText, hierarchical_collectives)},
    {"server", JSON_ANY, .required = TRUE},
    {"network", JSON_ANY},
    {"fabric", JSON_ANY},
    {"library", JSON_ANY},
  };
  ClusterText *text = out;
  const cJSON *fabric = json_get(source->object, "fabric");
  return server_refuse_keys(source, error) && part_fields(source, fields, G_N_ELEMENTS(fields), text, NULL, error) &&
         read_server(source, &text->server, error) &&
         network_read(source, text->server.network.nics > 0, &text->network, error) &&
         read_library(source, &text->library, error) &&
         (!fabric || read_fabric(source, fabric, text, error));
}

/* ---- checks ---- */

static gboolean check_fabric(const PartSource *source, const ClusterText *text, GError **error)
{
  const Server *server = &text->server;
  const cJSON *array = json_get(source->object, "fabric");
  int below = server->devices_per_node;
  if (server->n_tiers > 0)
    below = server->tiers[server->n_tiers - 1].devices;
  if (text->n_fabric > 0 && server->network.nics == 0)
    return part_missing(source, "network", error, "the network whose levels fabric lists");
  if (server->n_tiers + 1 + text->n_fabric > TIER_MAX)
    return json_error(source->doc, array, error, "at most %d levels, for a cluster has at most %d tiers",
                      TIER_MAX - 1 - server->n_tiers, TIER_MAX);
  for (int i = 0; i < text->n_fabric; i++) {
    int devices = text->fabric[i].devices;
    if (devices <= below || devices % below != 0)
      return json_error(source->doc, cJSON_GetArrayItem(array, i), error,
                        "devices %d to be a larger multiple of %d, the domain below", devices, below);
    below = devices;
  }
  return TRUE;
}

static gboolean finish_cluster(const PartSource *source, gpointer out, GError **error)
{
  ClusterText *text = out;
  const Network *network = &text->server.network;
  network_put_over(&text->server.network, &text->network);
  gboolean said = network->nics > 0 || network->nic_bytes_per_s > 0 || network->link.name || network->rings > 0;
  if (said && (network->nics == 0 || network->nic_bytes_per_s == 0 || !network->link.name))
    return part_missing(source, "network", error, "all of a network: the server has none, and its cluster says but a part");
  if (network->nics == 0 && text->nodes > 1)
    return json_error(source->doc, json_get(source->object, "nodes"), error,
                      "1, for neither the cluster nor its server has a network");
  if ((gint64)text->nodes * text->server.devices_per_node > INT_MAX)
    return json_error(source->doc, json_get(source->object, "nodes"), error, "at most %d devices", INT_MAX);
  return check_fabric(source, text, error);
}

static const PartKind cluster_part = {"", "cluster", read_cluster, finish_cluster};

/* ---- from the texts to tiers ---- */

/* Of a slot's nominal rate by copies to or from the host: 26.2 of 31.5 GB/s (A100, PCIe 4.0 with 16 lanes). */
#define SLOT_ACHIEVED 0.83

double device_slot_bytes_per_s(const Device *device)
{
  return device->host_bytes_per_s / SLOT_ACHIEVED;
}

void tier_bound_by_slot(Tier *tier, const Device *device)
{
  double slot = device_slot_bytes_per_s(device);

  tier->bytes_per_s = MIN(tier->bytes_per_s, slot);
  tier->port_bytes_per_s = MIN(tier->port_bytes_per_s, slot);
}

static void add_network_tiers(Cluster *cluster, const ClusterText *text)
{
  const Network *network = &text->server.network;
  double share = network->nics * network->nic_bytes_per_s / cluster->devices_per_node;
  cluster->network_tier = cluster->n_tiers;
  cluster->tiers[cluster->n_tiers++] = (Tier){
    .name = g_strdup(network->name ? network->name : "network"),
    .link = link_copy(&network->link),
    .bytes_per_s = share,
    .port_bytes_per_s = MAX(share, network->nic_bytes_per_s),
    .rings = network->rings > 0 ? network->rings : network->nics,
  };
  tier_bound_by_slot(&cluster->tiers[cluster->network_tier], &cluster->device);
  for (int i = 0; i < text->n_fabric; i++) {
    const FabricLevel *level = &text->fabric[i];
    Tier *below = &cluster->tiers[cluster->n_tiers - 1];
    below->devices = level->devices;
    cluster->tiers[cluster->n_tiers++] = (Tier){
      .name = g_strdup(level->name),
      .link = link_copy(level->link.name ? &level->link : &below->link),
      .bytes_per_s = below->bytes_per_s / level->oversubscription,
      .port_bytes_per_s = below->port_bytes_per_s,
      .rings = below->rings,
    };
  }
}

/* Devices of a job in each domain that joins `whole` of them. */
static int segment(int whole, int node, int devices)
{
  if (devices <= whole || whole % node != 0)
    return whole;
  for (int part = whole; 2 * part > whole; part -= node)
    if (devices % part == 0)
      return part;
  return whole;
}

static void place_segments(Cluster *cluster)
{
  for (int t = 0; t < cluster->n_tiers && t < cluster->network_tier; t++) {
    Tier *tier = &cluster->tiers[t];
    tier->devices_whole = tier_joins(tier);
    tier->devices = segment(tier->devices_whole, cluster->devices_per_node, cluster->devices);
  }
}

/* Takes what the text owns. */
static Cluster *cluster_build(ClusterText *text)
{
  Server *server = &text->server;
  Cluster *cluster = g_new0(Cluster, 1);
  cluster->name = g_steal_pointer(&text->name);
  cluster->framework = g_steal_pointer(&text->framework);
  cluster->server = g_steal_pointer(&server->name);
  cluster->device = server->device;
  server->device = (Device){0};
  if (server->host_slowdown > 0)
    cluster->device.host_slowdown = server->host_slowdown;
  cluster->devices_per_node = server->devices_per_node;
  cluster->processors = MIN(server->processors ? server->processors : INT_MAX, server->devices_per_node);
  cluster->nodes = text->nodes;
  cluster->devices = text->nodes * server->devices_per_node;
  cluster->library = text->library;
  cluster->hierarchical_collectives = text->hierarchical_collectives;
  cluster->host_memory_bytes = server->host_memory_bytes;
  cluster->host_memory_bytes_per_s = server->host_memory_bytes_per_s;
  cluster->nvme_bytes = server->nvme_bytes;
  cluster->nvme_read_bytes_per_s = server->nvme_read_bytes_per_s;
  cluster->nvme_write_bytes_per_s = server->nvme_write_bytes_per_s;
  cluster->usd_per_device_hour = server->usd_per_device_hour;

  for (int i = 0; i < server->n_tiers; i++) {
    cluster->tiers[cluster->n_tiers++] = server->tiers[i];
    server->tiers[i] = (Tier){0};
  }
  cluster->network_tier = -1;
  if (server->network.nics > 0)
    add_network_tiers(cluster, text);
  if (cluster->n_tiers > 0) {
    Tier *last = &cluster->tiers[cluster->n_tiers - 1];
    last->devices_whole = cluster->network_tier < 0 ? last->devices : 0;
    last->devices = INT_MAX;
  }
  place_segments(cluster);
  return cluster;
}

Cluster *cluster_read(const PartSource *above, const cJSON *item, GError **error)
{
  g_auto(ClusterText) text = {0};
  return part_read(&cluster_part, above, item, &text, error) ? cluster_build(&text) : NULL;
}

static Cluster *read_doc(JsonDoc *doc, GError **error)
{
  g_autoptr(JsonDoc) owned G_GNUC_UNUSED = doc;
  g_auto(ClusterText) text = {0};
  if (!doc)
    return NULL;
  g_autoptr(GChecksum) digest = g_checksum_new(G_CHECKSUM_SHA256);
  Cluster *cluster = NULL;
  if (json_get(json_root(doc), "node_types"))
    cluster = mixed_read(doc, digest, error);
  else if (part_read_doc(&cluster_part, doc, digest, &text, error))
    cluster = cluster_build(&text);
  if (cluster)
    json_digest_text(digest, cluster->digest);
  return cluster;
}

/* ---- servers and GPUs as clusters ---- */

static gboolean has_file(const char *folder, const char *name)
{
  g_autofree char *below = g_strdup_printf("hardware/%s/%s.json", folder, name);
  g_autofree char *path = files_data_path(below);
  return g_file_test(path, G_FILE_TEST_IS_REGULAR);
}

/* A GPU as clusters are asked for. */
typedef struct {
  char *shorter, *usual; /* NULL = none */
} GpuNames;

static void gpu_names_clear(GpuNames *names)
{
  g_free(names->shorter);
  g_free(names->usual);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(GpuNames, gpu_names_clear)

static GpuNames gpu_names(const char *gpu)
{
  g_autofree char *below = g_strdup_printf("hardware/gpus/%s.json", gpu);
  g_autofree char *path = files_data_path(below);
  g_autoptr(JsonDoc) doc = json_load(path, NULL);

  return (GpuNames) { .shorter = g_strdup(doc ? cJSON_GetStringValue(json_get(json_root(doc), "short_name")) : NULL),
                      .usual = g_strdup(doc ? cJSON_GetStringValue(json_get(json_root(doc), "usual_server")) : NULL) };
}

/* The usual server of the GPU of this name, or short name; newly allocated, NULL if there is none. `gpu`: one that begins
 * with that name, and has none. */
static char *server_of_gpu(const char *name, char **gpu)
{
  g_auto(GStrv) gpus = files_names("hardware/gpus");
  gsize length = strlen(name);
  for (int i = 0; gpus[i]; i++) {
    g_auto(GpuNames) n = gpu_names(gpus[i]);
    gboolean meant = g_ascii_strcasecmp(gpus[i], name) == 0 || (n.shorter && g_ascii_strcasecmp(n.shorter, name) == 0);
    if (meant && n.usual)
      return g_steal_pointer(&n.usual);
    if (!*gpu && !n.usual && g_ascii_strncasecmp(gpus[i], name, length) == 0 && strchr("-", gpus[i][length]))
      *gpu = g_strdup(gpus[i]);
  }
  return NULL;
}

/* Names that stand for a cluster and are none of its file. */
static char **names_beside(void)
{
  g_autoptr(GStrvBuilder) names = g_strv_builder_new();
  g_auto(GStrv) servers = files_names("hardware/servers"), gpus = files_names("hardware/gpus");

  g_strv_builder_addv(names, (const char **)servers);
  for (int i = 0; gpus[i]; i++) {
    g_auto(GpuNames) n = gpu_names(gpus[i]);
    if (n.usual)
      g_strv_builder_add(names, gpus[i]);
    if (n.usual && n.shorter)
      g_strv_builder_add(names, n.shorter);
  }
  return g_strv_builder_end(names);
}

/* Those of a folder's names that are clusters of a GPU, behind those that `text` has. */
static void add_holders(GString *text, const char *folder, const char *gpu)
{
  g_auto(GStrv) names = files_names(folder);

  for (int i = 0; names[i]; i++) {
    g_autoptr(Cluster) c = cluster_load(names[i], NULL);
    if (c && g_strcmp0(c->device.name, gpu) == 0)
      g_string_append_printf(text, "%s\"%s\"", text->len ? " or " : "", names[i]);
  }
}

/* Of a GPU whose name stands for no server: names what has it. */
static void set_unserved(const char *name, const char *gpu, GError **error)
{
  g_autoptr(GString) holders = g_string_new(NULL);
  g_autofree char *whole = g_ascii_strcasecmp(name, gpu) == 0 ? g_strdup("this GPU")
                                                              : g_strdup_printf("the GPU %s", gpu);

  add_holders(holders, "hardware", gpu);
  add_holders(holders, "hardware/servers", gpu);
  if (holders->len)
    input_error(error, "%s: %s has no usual server: expected a server or cluster with it, %s", name, whole,
                holders->str);
  else
    input_error(error, "%s: no server or cluster here has %s: expected a cluster file that "
                "puts it into a server (hardware/README.md)", name, whole);
}

Cluster *cluster_of_server(const char *server, int nodes, GError **error)
{
  const char *what = nodes == 1 ? "one node" : "nodes";
  g_autofree char *text = g_strdup_printf("{ \"name\": \"%s\", \"nodes\": %d, \"server\": \"%s\", "
                                          "\"source\": \"default: %s of a server\" }", server, nodes, server, what);
  return cluster_parse(text, strlen(text), server, error);
}

/* One node of a server, by its name or that of its GPU; NULL without an error if nothing has this name. */
static Cluster *server_as_cluster(const char *name, GError **error)
{
  if (strchr(name, '/'))
    return NULL;
  g_autofree char *stem = g_strndup(name, strlen(name) - (g_str_has_suffix(name, ".json") ? strlen(".json") : 0));
  g_autofree char *gpu = NULL;
  g_autofree char *server = has_file("servers", stem) ? g_strdup(stem) : server_of_gpu(stem, &gpu);
  if (!server && gpu)
    set_unserved(stem, gpu, error);
  return server ? cluster_of_server(server, 1, error) : NULL;
}

Cluster *cluster_load(const char *path, GError **error)
{
  g_autoptr(GError) wrong = NULL;
  g_autofree char *file = files_find(path, "hardware", NULL);
  if (file)
    return read_doc(json_load(file, error), error);
  Cluster *cluster = server_as_cluster(path, &wrong);
  if (cluster)
    return cluster;
  if (wrong) {
    g_propagate_error(error, g_steal_pointer(&wrong));
    return NULL;
  }
  g_auto(GStrv) also = names_beside();
  g_autofree char *none G_GNUC_UNUSED = files_find_beside(path, "hardware", (const char *const *)also, error);
  return NULL;
}

Cluster *cluster_parse(const char *text, gsize length, const char *name, GError **error)
{
  return read_doc(json_parse(text, length, name, error), error);
}

void cluster_free(Cluster *cluster)
{
  if (!cluster)
    return;
  g_free(cluster->name);
  for (int i = 0; i < cluster->n_types; i++)
    cluster_free(cluster->types[i]);
  if (cluster->n_types > 0) { /* the rest is theirs */
    g_free(cluster);
    return;
  }
  g_free(cluster->framework);
  g_free(cluster->server);
  device_clear(&cluster->device);
  for (int i = 0; i < cluster->n_tiers; i++)
    tier_clear(&cluster->tiers[i]);
  g_free(cluster);
}

/* ---- size ---- */

gboolean cluster_resize(Cluster *cluster, int devices, GError **error)
{
  int node = cluster->devices_per_node;
  gboolean part = devices >= 1 && devices < node;
  gboolean whole = devices >= node && devices % node == 0;
  if (cluster->n_types > 0) {
    if (devices != cluster->devices)
      input_error(error, "%d devices on %s: expected the %d of its node types", devices, cluster->name,
                  cluster->devices);
    return devices == cluster->devices;
  }
  if (!part && !whole)
    return input_error(error, "%d devices on %s: expected whole nodes of %d devices, or a part of one node; nodes of other sizes "
                       "are for a file to say (hardware/README.md)", devices, cluster->name, node);
  if (devices > node && cluster->network_tier < 0 && devices > cluster->nodes * node)
    return input_error(error, "%d devices on %s: expected at most %d: it has no network", devices, cluster->name,
                       cluster->nodes * node);
  cluster->devices = devices;
  cluster->nodes = part ? 1 : devices / node;
  place_segments(cluster);
  return TRUE;
}

/* ---- memory kept free ---- */

void cluster_keep_free(Cluster *cluster, double share)
{
  g_assert(cluster->memory_margin == 0 && share >= 0 && share < 1);
  cluster->memory_margin = share;
  cluster->device.memory_bytes *= 1 - share;
  for (int i = 0; i < cluster->n_types; i++)
    cluster_keep_free(cluster->types[i], share);
}

double cluster_whole_bytes(const Cluster *cluster, double bytes)
{
  return bytes / (1 - cluster->memory_margin);
}

/* ---- means and sums ---- */

gboolean cluster_has_fast_node(const Cluster *cluster)
{
  LinkKind kind = cluster->tiers[0].link.kind;

  return cluster->n_tiers > 0 && cluster->network_tier != 0 && kind != LINK_PCIE && kind != LINK_NETWORK;
}

double cluster_peak_flops_per_s(const Cluster *cluster, DType dtype)
{
  double sum = 0;
  if (cluster->n_types == 0)
    return cluster->device.peak_flops_per_s[dtype];
  for (int i = 0; i < cluster->n_types; i++)
    sum += cluster->types[i]->devices * cluster->types[i]->device.peak_flops_per_s[dtype];
  return sum / cluster->devices;
}

double cluster_power_w(const Cluster *cluster)
{
  double sum = 0;
  if (cluster->n_types == 0)
    return cluster->device.power_w;
  for (int i = 0; i < cluster->n_types; i++) {
    const Cluster *type = cluster->types[i];
    if (type->device.power_w <= 0)
      return 0;
    sum += type->devices * type->device.power_w;
  }
  return sum / cluster->devices;
}

void cluster_scale_peak(Cluster *cluster, double factor)
{
  for (int t = 0; t < DTYPE_COUNT; t++)
    cluster->device.peak_flops_per_s[t] *= factor;
}

static double rated_power_w(const Device *d)
{
  return d->rated_power_w > 0 ? d->rated_power_w : d->power_w;
}

gboolean cluster_can_limit_power(const Cluster *c, double watts)
{
  double own = rated_power_w(&c->device);

  return c->n_types == 0 && watts <= own && watts >= POWER_SHARE_LEAST * own && watts > 0;
}

void cluster_limit_power(Cluster *c, double watts)
{
  g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_SHA256);
  Device *d = &c->device;

  g_checksum_update(sum, (const guchar *)c->digest, -1);
  g_checksum_update(sum, (const guchar *)&watts, sizeof watts);
  json_digest_text(sum, c->digest);
  cluster_scale_peak(c, cbrt(watts / d->power_w));
  d->rated_power_w = rated_power_w(d);
  d->power_w = watts;
}

double cluster_rated_power_w(const Cluster *c)
{
  return c->n_types == 0 ? rated_power_w(&c->device) : cluster_power_w(c);
}

void cluster_scale_tier(Cluster *cluster, int tier, double factor)
{
  Tier *scaled = &cluster->tiers[tier];

  scaled->bytes_per_s *= factor;
  scaled->port_bytes_per_s *= factor;
  if (cluster->network_tier >= 0 && tier >= cluster->network_tier)
    tier_bound_by_slot(scaled, &cluster->device);
}
