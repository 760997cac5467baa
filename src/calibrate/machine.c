#include "calibrate/machine.h"

#include <limits.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "calibrate/link.h"

/* Points of equal shape share a cluster. */
typedef struct {
  int nodes, node_ranks;
} Shape;

#define machine_error(point, error, format, ...) input_error(error, "%s: " format, (point)->file, ##__VA_ARGS__)

/* ---- the rate of a link, from the servers that have it ---- */

/* The tier that has the link and needs no other to be used: within a node the
 * lowest, or the network. */
static const Tier *tier_of(const Cluster *cluster, const Link *link)
{
  int t = link->kind == LINK_NETWORK ? cluster->network_tier : 0;
  if (t < 0 || t >= cluster->n_tiers || g_strcmp0(cluster->tiers[t].link.name, link->name) != 0)
    return NULL;
  return &cluster->tiers[t];
}

/* Takes the rate that all servers with the link agree on. A single rank of a
 * node sends at its port's rate. */
static gboolean find_rate(Machine *machine, GError **error)
{
  g_auto(GStrv) names = files_names("hardware/servers");
  const Link *link = &machine->link;
  gboolean agree = TRUE;
  for (int i = 0; names[i]; i++) {
    g_autoptr(Cluster) cluster = cluster_of_server(names[i], 1, error);
    if (!cluster)
      return FALSE;
    const Tier *tier = tier_of(cluster, link);
    if (!tier)
      continue;
    double rate = link->kind == LINK_NETWORK ? tier->port_bytes_per_s : tier->bytes_per_s;
    int devices = cluster->devices_per_node;
    agree = agree && (machine->bytes_per_s == 0 || machine->bytes_per_s == rate) &&
            (machine->devices == 0 || link->kind != LINK_MESH || machine->devices == devices);
    machine->bytes_per_s = rate;
    machine->devices = MAX(machine->devices, devices);
  }
  if (agree && machine->bytes_per_s > 0)
    return TRUE;
  return input_error(error, "--like: %s: %s: expected the rate too, by --cluster or --gb-per-s", link->name,
                     agree ? "no server has this link" : "servers with this link differ in its rate");
}

/* ---- the machine ---- */

static gboolean read_cluster(Machine *machine, const char *name, GError **error)
{
  machine->path = files_find(name, "hardware", NULL);
  if (machine->path) {
    machine->text = files_read(machine->path, &machine->length, error);
    return machine->text != NULL;
  }
  g_autoptr(Cluster) served = cluster_load(name, error);
  machine->path = g_strdup(name);
  return served != NULL;
}

/* A path becomes absolute, for it may be written to a file elsewhere. */
static gboolean read_like(Machine *machine, const char *like, GError **error)
{
  machine->like = strchr(like, '/') ? g_canonicalize_filename(like, NULL) : g_strdup(like);
  if (link_load(machine->like, &machine->link, error))
    return TRUE;
  g_prefix_error(error, "--like: ");
  return FALSE;
}

gboolean machine_init(Machine *machine, const LinkSetup *setup, GError **error)
{
  *machine = (Machine){.clusters = g_ptr_array_new_with_free_func((GDestroyNotify)cluster_free),
                       .shapes = g_array_new(FALSE, FALSE, sizeof(Shape)),
                       .bytes_per_s = setup->bytes_per_s};
  if (!setup->like && !setup->cluster)
    return input_error(error, "--like: missing: expected the link that was measured, as in "
                       "--like nvlink3-switch, or its cluster by --cluster");
  if (setup->cluster && setup->bytes_per_s > 0)
    return input_error(error, "--gb-per-s: expected no --cluster beside it, which has the rate");
  if (setup->like && !read_like(machine, setup->like, error))
    return FALSE;
  if (setup->cluster)
    return read_cluster(machine, setup->cluster, error);
  return setup->bytes_per_s > 0 || find_rate(machine, error);
}

gboolean machine_start(Machine *machine, const Link *own, GError **error)
{
  if (machine->like)
    return TRUE;
  gboolean same = link_load(own->name, &machine->link, NULL);
  for (const LinkConstant *c = link_constants; same && c->key; c++)
    same = link_constant_get(own, c) == link_constant_get(&machine->link, c);
  if (same) {
    machine->like = g_strdup(own->name);
    return TRUE;
  }
  return input_error(error, "%s: link %s has no file of its own: expected --like, a link to start from", machine->path,
                     own->name);
}

void machine_clear(Machine *machine)
{
  g_clear_pointer(&machine->clusters, g_ptr_array_unref);
  g_clear_pointer(&machine->shapes, g_array_unref);
  g_free(machine->path);
  g_free(machine->text);
  g_free(machine->like);
  g_free(machine->link.name);
  *machine = (Machine){0};
}

/* ---- clusters ---- */

static Cluster *flat_cluster(const Machine *machine, const LinkPoint *point, GError **error)
{
  gboolean network = machine->link.kind == LINK_NETWORK;
  if (network ? point->nodes < 2 || point->node_ranks > 1 : point->nodes > 1) {
    machine_error(point, error, "%d ranks on %d node%s: expected --cluster, for %s alone joins %s", point->ranks,
                  point->nodes, point->nodes > 1 ? "s" : "", machine->link.name,
                  network ? "single ranks of several nodes" : "ranks of one node");
    return NULL;
  }
  int node_devices = network ? 1 : MAX(point->node_ranks, machine->devices);
  g_autoptr(Cluster) cluster = g_new0(Cluster, 1);
  if (!library_load(LIBRARY_USUAL, &cluster->library, error))
    return NULL;
  cluster->name = g_strdup(machine->link.name);
  cluster->devices_per_node = node_devices;
  cluster->nodes = point->nodes;
  cluster->devices = point->nodes * node_devices;
  cluster->n_tiers = 1;
  cluster->network_tier = network ? 0 : -1;
  Tier *tier = &cluster->tiers[0];
  *tier = (Tier){.name = g_strdup(machine->link.name), .link = machine->link, .devices = cluster->devices,
                 .bytes_per_s = machine->bytes_per_s, .port_bytes_per_s = machine->bytes_per_s};
  tier->link.name = g_strdup(machine->link.name);
  return g_steal_pointer(&cluster);
}

/* Ranks that work alone on a node have its NICs to themselves. */
static void share_network(Cluster *cluster, int node_ranks)
{
  for (int t = cluster->network_tier; t >= 0 && t < cluster->n_tiers; t++) {
    Tier *tier = &cluster->tiers[t];
    double alone = tier->bytes_per_s * cluster->devices_per_node / node_ranks;
    tier->bytes_per_s = MIN(alone, MAX(tier->bytes_per_s, tier->port_bytes_per_s));
  }
}

static Cluster *real_cluster(const Machine *machine, const LinkPoint *point, GError **error)
{
  g_autoptr(Cluster) cluster = machine->text ? cluster_parse(machine->text, machine->length, machine->path, error)
                                             : cluster_load(machine->path, error);
  if (!cluster)
    return NULL;
  if (point->node_ranks > cluster->devices_per_node) {
    machine_error(point, error, "%d ranks on a node: expected at most %d, the devices of a node of %s",
                  point->node_ranks, cluster->devices_per_node, cluster->name);
    return NULL;
  }
  if (!cluster_resize(cluster, point->nodes * cluster->devices_per_node, error)) {
    g_prefix_error(error, "%s: %d nodes: ", point->file, point->nodes);
    return NULL;
  }
  share_network(cluster, point->node_ranks);
  return g_steal_pointer(&cluster);
}

/* Consecutive ranks fill a node's share, then the next node's. */
static GroupShape shape_of(const Cluster *cluster, int ranks, int node_ranks)
{
  GroupShape shape = {.size = ranks};
  for (int t = 0; t < TIER_MAX; t++) {
    int devices = t < cluster->n_tiers - 1 ? cluster->tiers[t].devices : INT_MAX;
    int whole_nodes = devices / cluster->devices_per_node;
    gint64 here = whole_nodes ? (gint64)whole_nodes * node_ranks : MIN(devices, node_ranks);
    shape.per_domain[t] = (int)MIN(here, ranks);
  }
  return shape;
}

static gboolean check_point(const LinkPoint *point, GError **error)
{
  if (point->ranks < 2)
    machine_error(point, error, "%d rank: expected at least 2, for one sends nothing", point->ranks);
  else if (point->ranks % point->nodes)
    machine_error(point, error, "%d ranks on %d nodes: expected as many on each", point->ranks, point->nodes);
  else if (point->collective == COLLECTIVE_SEND && point->nodes > 1 && point->ranks > point->nodes)
    machine_error(point, error, "sends among %d ranks on %d nodes: expected one rank a node, for else some stay inside",
                  point->ranks, point->nodes);
  else
    return TRUE;
  return FALSE;
}

Cluster *machine_place(Machine *machine, const LinkPoint *point, GroupShape *group, GError **error)
{
  if (!check_point(point, error))
    return NULL;
  Shape shape = {point->nodes, point->node_ranks};
  Cluster *cluster = NULL;
  for (guint i = 0; i < machine->shapes->len && !cluster; i++)
    if (memcmp(&g_array_index(machine->shapes, Shape, i), &shape, sizeof shape) == 0)
      cluster = g_ptr_array_index(machine->clusters, i);
  if (!cluster) {
    cluster = machine->path ? real_cluster(machine, point, error) : flat_cluster(machine, point, error);
    if (!cluster)
      return NULL;
    g_ptr_array_add(machine->clusters, cluster);
    g_array_append_val(machine->shapes, shape);
  }
  gboolean pair = point->collective == COLLECTIVE_SEND;
  *group = pair ? shape_of(cluster, 2, point->nodes > 1 ? 1 : 2)
                : shape_of(cluster, point->ranks, point->ranks / point->nodes);
  return cluster;
}
