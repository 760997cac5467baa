/* A server as its file describes it: what cluster.c builds tiers from. Private
 * to this folder; keys in hardware/README.md. */
#ifndef TDP_HARDWARE_SERVER_H
#define TDP_HARDWARE_SERVER_H

#include "hardware/cluster.h"
#include "hardware/part.h"

/* The NICs of a node; nics is 0 where there is no network. */
typedef struct {
  char *name;
  int nics;
  double nic_bytes_per_s; /* each way */
  int rings;              /* counted; 0 = one a NIC */
  Link link;
} Network;

typedef struct {
  char *name;
  Device device;
  int devices_per_node;
  int processors; /* 0 = one a device */
  int n_tiers;
  Tier tiers[TIER_MAX]; /* in a node, and in a link domain larger than one */
  Network network;
  double host_memory_bytes, host_memory_bytes_per_s;
  double host_slowdown; /* in place of the device's; 0 = as that says */
  double nvme_bytes, nvme_read_bytes_per_s, nvme_write_bytes_per_s;
  double usd_per_device_hour;
} Server;

/* Fills `network` from the member `network` of an object that is read; its
 * keys override what is there. Leaves it alone if there is no such member. If
 * `partial`, keys that it lacks are elsewhere. */
gboolean network_read(const PartSource *above, gboolean partial, Network *network, GError **error);

/* Puts what `over` says, a copy, over what is there. */
void network_put_over(Network *network, const Network *over);
void network_clear(Network *network);
Link link_copy(const Link *link);

/* Refuses a server's own key in the object of a cluster, and says where it goes. */
gboolean server_refuse_keys(const PartSource *cluster, GError **error);

void tier_clear(Tier *tier);
void server_clear(Server *server);

#endif
