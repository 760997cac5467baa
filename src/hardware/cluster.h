/*
 * A cluster: nodes of devices joined by nested tiers of links.
 *
 * Tier 0 joins the devices of a node (or pairs of them, or an NVLink domain
 * larger than a node); each further tier joins domains of the one below; the
 * last joins all. A rank is a device, numbered so that a domain's ranks are
 * consecutive. Each tier says what one device can send through it and each way
 * while all do the same (its share of its node's NICs, say), how large a domain
 * is, and which link it is made of; a link's latencies and efficiencies are
 * fitted constants of hardware/links/NAME.json.
 *
 * Nodes are alike, unless the file lists `node_types`: then the cluster is mixed,
 * and each type is a cluster of its own in `types`. Of a mixed cluster, `device`
 * is the first type's, and the tiers are those of the type whose network is
 * slowest: they price what joins nodes of different types.
 *
 * Files: hardware/NAME.json is a cluster: `nodes`, a `server` (a name of
 * hardware/servers/ or an object with the same keys), `network`, `fabric` and `library`.
 * A server names its GPU (hardware/gpus/) in the same way. hardware/README.md
 * lists every key with its unit. Sources as device.h says.
 */
#ifndef TDP_HARDWARE_CLUSTER_H
#define TDP_HARDWARE_CLUSTER_H

#include "base/json.h"
#include "hardware/device.h"

#define TIER_MAX 4

typedef enum { LINK_SWITCH, LINK_MESH, LINK_PCIE, LINK_NETWORK, LINK_KIND_COUNT } LinkKind;
extern const char *const link_kind_names[];

/*
 * How collectives fare on a kind of link. A collective of V bus bytes (bytes
 * times the bus factor of nccl-tests) over h hops takes
 *   base_s + h hop_s + V / (efficiency bandwidth) + sqrt_s_per_byte sqrt(V).
 */
typedef struct {
  char *name;
  LinkKind kind;
  double base_s;             /* fixed time of a collective call */
  double hop_s;              /* each step of a ring */
  double tree_hop_s;         /* each level of a tree, up and down */
  double efficiency;         /* of bandwidth that a long ring transfer reaches */
  double sqrt_s_per_byte;    /* pipeline fill, seconds per square root of a byte */
  double reduce_slowdown;    /* of a byte of a ring that adds, where the ranks' processors do; >= 1. An
                                all-reduce adds on one of its two rounds */
  double far_reduce_slowdown; /* the same of the bytes of a vector beyond reduce_cache_bytes, which come from memory;
                                 0 = as others */
  double reduce_cache_bytes;
  double p2p_base_s;         /* send/receive pair */
  double p2p_efficiency;     /* of a rank whose peers beyond its domain are all in one other domain */
  double p2p_spread;         /* lost of it by one whose peers are in many; in [0, 1) */
  double p2p_sqrt_s_per_byte; /* pipeline fill of an all-to-all; 0 = as sqrt_s_per_byte */
  double kernel_efficiency;  /* of kernels that send each row once to a node (DeepEP, HybridEP), in one HybridEP's;
                                0 = as an all-to-all */
  double proxy_post_s;       /* of a request that a thread of the host posts for a kernel; 0: kernels post their own */
  double short_base_s;       /* the two of an all-to-all by a protocol for short messages: */
  double short_bytes_per_s;  /* of each peer's part; 0 = not known */
  double channel_bytes_per_s; /* of one channel of a communicator (cost/communicator.h); 0 = what its port has */
  double tree_channel_bytes_per_s[2]; /* of the lowest tier: of a channel of trees over two nodes, over more; 0 = any */
  double compute_slowdown;   /* of a device's kernels beside a collective at the full rate of the lowest tier; >= 1 */
  gboolean in_switch;        /* the switch can add (NVLS, SHARP) */
  double in_switch_base_s;
  double in_switch_efficiency; /* bus over link bandwidth in the limit of many ranks; may pass 1 */
  double in_switch_sqrt_s_per_byte;
  Provenance provenance;     /* of the efficiency */
} Link;

/* The field of a key of its files, which must be one. */
const JsonField *link_field(const char *key);

typedef struct {
  char *name;                /* "nvlink", "network", "spine" */
  Link link;
  int devices;               /* of a job in a domain; the last tier: INT_MAX */
  int devices_whole;         /* that a domain joins, where a job may leave some out or this is the last tier; else 0 */
  gboolean joins_node;       /* a file says no size: a domain is a node, of whatever size that has */
  double bytes_per_s;        /* a device, each way, while all devices send; nominal */
  double port_bytes_per_s;   /* the most one device can send when others are silent */
  int rings;                 /* of a network: through a node, of a communicator of all its ranks; 0 = one a rank */
} Tier;

/* Nominal rate of a device's own slot, each way, which leads to the NICs too: no network gives a device more. */
double device_slot_bytes_per_s(const Device *device);
void tier_bound_by_slot(Tier *tier, const Device *device);

/* Devices that a domain joins, whether a job has them or not. */
static inline int tier_joins(const Tier *tier)
{
  return tier->devices_whole ? tier->devices_whole : tier->devices;
}

/* What the library of collectives does alike on all links: hardware/libraries/NAME.json. */
typedef struct {
  double own_copy_rate; /* at which a kernel also copies its rank's own part, over the nominal rate of the lowest tier */
  double own_copy_memory_rate; /* that rate over the memory's, at least; 0 = no such bound */
  int ports_at_once;    /* of a domain that send beyond it for one group, unless a node has more devices */
  int peers_at_once;    /* sends that start together: one more costs a hop over this */
  int ring_copies;      /* channels that a communicator opens for each of its rings; 0 = 1 */
  int send_channels;    /* by which a rank sends to one peer beyond its node; 0 = 1 */
  int in_switch_ranks;  /* of a lowest domain, from which on the switch adds */
} CollectiveLibrary;

/* The library of a cluster that names none. */
#define LIBRARY_USUAL "nccl"

/* Types of nodes in a cluster at most. */
#define NODE_TYPES_MAX 4

typedef struct Cluster Cluster;

struct Cluster {
  char *name;
  char *framework;           /* that plans for it are made for where nobody names one: plans/frameworks/; may be NULL */
  char *server;
  Device device;
  int devices_per_node;
  int processors;            /* of a node, for its devices: CPU ranks beyond them take turns */
  int nodes;                 /* as the file says, or after cluster_resize */
  int devices;               /* in use: nodes * devices_per_node, or fewer than a node's */
  int n_tiers;               /* 0 only if there is a single device */
  int network_tier;          /* the lowest tier made of NICs, -1: one node only */
  Tier tiers[TIER_MAX];
  CollectiveLibrary library;
  gboolean hierarchical_collectives; /* the library reduces inside nodes first (NCCL does not) */
  double host_memory_bytes;      /* a node, 0 = not known */
  double host_memory_bytes_per_s;
  double nvme_bytes;             /* a node, 0 = none */
  double nvme_read_bytes_per_s, nvme_write_bytes_per_s;
  double memory_margin;          /* share of each device's memory that is kept free (cluster_keep_free) */
  double usd_per_device_hour;    /* 0 = not known; of a mixed cluster, the mean */
  int n_types;                   /* of nodes; 0: all are alike, and `types` is empty */
  Cluster *types[NODE_TYPES_MAX]; /* each of alike nodes, in the order of the file */
  char digest[JSON_DIGEST_CHARS]; /* of all files that it was read from; that of a mixed cluster covers its types' */
};

/* Types of nodes, one where all are alike, and the cluster of the i-th. */
static inline int cluster_types(const Cluster *cluster)
{
  return MAX(cluster->n_types, 1);
}

static inline const Cluster *cluster_type(const Cluster *cluster, int i)
{
  return cluster->n_types > 0 ? cluster->types[i] : cluster;
}

/* Reads hardware/links/NAME.json (a bare name or a path). Its name is
 * the caller's to free. */
gboolean link_load(const char *name, Link *out, GError **error);

/* Reads hardware/libraries/NAME.json likewise. TDP_ERROR_INPUT. */
gboolean library_load(const char *name, CollectiveLibrary *out, GError **error);

/* Reads a cluster by path or bare name ("-" = stdin). A bare name may also be that of a server, or a name or short name
 * of a GPU that has a usual server: one node of it, which cluster_resize() makes more. TDP_ERROR_INPUT. */
Cluster *cluster_load(const char *path, GError **error);
Cluster *cluster_parse(const char *text, gsize length, const char *name, GError **error);

/* So many nodes of hardware/servers/SERVER.json, with its name. TDP_ERROR_INPUT. */
Cluster *cluster_of_server(const char *server, int nodes, GError **error);
void cluster_free(Cluster *cluster);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Cluster, cluster_free)

/* Uses `devices` devices: whole nodes, or a part of one node. The file's own
 * node count is no limit: the same kind of node is added, unless there is no
 * network to join it; of a mixed cluster it is. Domains of several nodes below the
 * network each take the same part of a job that is larger than one, if a part above
 * half of them divides it, as Slurm's topology/block places a job's segments
 * (docs.coreweave.com, topology scheduling): 64 of an NVL72's 72 devices.
 * TDP_ERROR_INPUT if it is neither; nothing changes then. */
gboolean cluster_resize(Cluster *cluster, int devices, GError **error);

/* Keeps a share of each device's memory free: from then on device.memory_bytes, of node types too, is what plans may
 * fill. Once, after loading; 0 <= share < 1. */
void cluster_keep_free(Cluster *cluster, double share);

/* What a device holds of which plans may fill so many bytes. */
double cluster_whole_bytes(const Cluster *cluster, double bytes);

/* Whether the lowest tier is of the node and faster than PCIe: NVLink, or a link like it. */
gboolean cluster_has_fast_node(const Cluster *cluster);

/* Dense peak of a device; of a mixed cluster, of the mean one. */
double cluster_peak_flops_per_s(const Cluster *cluster, DType dtype);

/* Other hardware for a question: every format's peak, a tier's rate of a device and of a port, times a factor above 0;
 * of the network and beyond, no more than a device's slot lets through. */
void cluster_scale_peak(Cluster *cluster, double factor);
void cluster_scale_tier(Cluster *cluster, int tier, double factor);

/* A limit of power for each device below its own, which scales the clock and with it every format's peak. Dynamic power
 * goes with the clock and the square of the voltage, which goes with the clock: rates go with the cube root of the
 * power. Meta's GB200 at 1,000 of 1,200 W trained 5 % slower (arXiv 2605.24461), of which this makes 5.9 % of the
 * products alone. Memory and links keep their clocks. Not below half of the device's own limit, where the voltage no
 * longer falls with the clock; nor where its power is not known, nor on mixed clusters. The digest becomes another. */
#define POWER_SHARE_LEAST 0.5
gboolean cluster_can_limit_power(const Cluster *cluster, double watts);
void cluster_limit_power(Cluster *cluster, double watts);

/* Power of a device, or of the mean one; 0 = not known. */
double cluster_power_w(const Cluster *cluster);
double cluster_rated_power_w(const Cluster *cluster); /* without a limit that was set */

#endif
